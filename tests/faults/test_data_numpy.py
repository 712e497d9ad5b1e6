""".npy files that are damaged, hold what can't be read, or don't fit each other: each a clear error at once."""

import errno
import io
import os
import pickle

import numpy as np
import pytest

from queuecore.data import NumpyDataset, Options
from queuecore.errors import (
    DataLossError,
    DtypeError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    PermissionDeniedError,
    SourceChangedError,
    TruncatedRecordError,
    UnavailableError,
)

BODY = bytes(24)


def npy(descr="'<f4'", order="False", shape="(3, 2)", body=BODY, version=(1, 0), text=None):
    """A file of this header, which starts at byte 10 or 12 and has no padding."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n" if text is None else text
    text = text.encode("utf8") if isinstance(text, str) else text
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + body


def saved(value, **how):
    file = io.BytesIO()
    np.save(file, value, **how)
    return file.getvalue()


GOOD = npy()
HEAD = len(GOOD) - len(BODY)

# The file, the class of the error, its offset (None: any), and words of the message.
FILES = {
    "no bytes": (b"", DataLossError, 0, "begins with b''"),
    "text": (b"1,2,3\n", DataLossError, 0, "begins with b'1,2,3"),
    "magic of another kind": (b"\x92" + GOOD[1:], DataLossError, 0, "begins with"),
    "an archive": (b"PK\x03\x04" + bytes(100), DataLossError, 0, "npz"),
    "cut in the magic": (GOOD[:5], DataLossError, 0, "begins with"),
    "cut in the version": (GOOD[:7], DataLossError, 7, "ends after 7 bytes"),
    "cut in the length": (GOOD[:9], DataLossError, 9, "ends after 9 bytes"),
    "cut in the long length": (npy(version=(2, 0))[:11], DataLossError, 11, "ends after 11 bytes"),
    "cut in the header": (GOOD[:40], DataLossError, 40, "inside its header of"),
    "version 0": (npy()[:6] + b"\x00\x00" + npy()[8:], DataLossError, 6, "version 0.0"),
    "version 4": (npy(version=(4, 0)), DataLossError, 6, "version 4.0"),
    "a header of no end": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100), DataLossError, 8, "4294967295 bytes"),
    "a long header": (npy(text=b" " * 10001), DataLossError, 8, "at most 10000"),
    "no header": (npy(text=""), DataLossError, 10, "doesn't parse"),
    "zeros": (npy(text=bytes(50)), DataLossError, 10, "doesn't parse"),
    "code": (npy(text="__import__('os').abort()"), DataLossError, 10, "doesn't parse"),
    "code in a value": (npy(shape="(__import__('os').abort(), 2)"), DataLossError, 10, "doesn't parse"),
    "a deep header": (npy(text="(" * 9000), DataLossError, 10, "doesn't parse"),
    "a deep sum": (npy(text="-" * 9000 + "1"), DataLossError, 10, "doesn't parse"),
    "no UTF-8": (npy(text=b"{'descr': '\xff'}", version=(3, 0)), DataLossError, 12, "doesn't parse"),
    "a list": (npy(text="[1, 2]"), DataLossError, 10, "no dict"),
    "keys that miss": (npy(text="{'descr': '<f4', 'shape': (3, 2)}"), DataLossError, 10, "no dict"),
    "keys too many": (
        npy(text="{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'x': 1}"),
        DataLossError,
        10,
        "",
    ),
    "a negative side": (npy(shape="(-3, 2)"), DataLossError, 10, "shape"),
    "a negative length of rows": (npy(shape="(3, -2)"), DataLossError, 10, "shape"),
    "a side that is no integer": (npy(shape="(3.0, 2)"), DataLossError, 10, "shape"),
    "a side that is a word": (npy(shape="('3', 2)"), DataLossError, 10, "shape"),
    "a side that is true": (npy(shape="(True, 6)"), DataLossError, 10, "shape"),
    "a shape that is a number": (npy(shape="6"), DataLossError, 10, "shape"),
    "an order that is a number": (npy(order="0"), DataLossError, 10, "fortran_order"),
    "an order that is a word": (npy(order="'F'"), DataLossError, 10, "fortran_order"),
    "a dtype that there isn't": (npy(descr="'<q9'"), DataLossError, 10, "dtype"),
    "a dtype that is a number": (npy(descr="4"), DataLossError, 10, "dtype"),
    "a dtype that is nothing": (npy(descr="None"), DataLossError, 10, "dtype"),
    "a dtype that is a tuple": (npy(descr="('<f4', (2,))"), DataLossError, 10, "dtype"),
    "a dtype that is a dict": (npy(descr="{'names': ['a'], 'formats': ['O']}"), DataLossError, 10, "dtype"),
    "a dtype with a shape": (npy(descr="'(2,)<f4'"), DataLossError, 10, "dtype"),
    "a side of everything": (npy(shape="(3, 2)"[:-1] + f", {2**70})"), InvalidArgumentError, 10, "has 1 to"),
    "rows of everything": (npy(shape=f"({2**70}, 2)"), TruncatedRecordError, HEAD + len(str(2**70)) - 1 + 24, "cut"),
    "many dimensions": (npy(shape=str((24, *[1] * 33)), descr="'u1'"), InvalidArgumentError, 10, "32 dimensions"),
    "a number": (saved(np.float32(3)), InvalidArgumentError, 10, "no rows"),
    "rows of no bytes": (npy(shape="(5, 0)", body=b""), InvalidArgumentError, 10, "1 to"),
    "words of no bytes": (npy(descr="'|S0'", shape="(5,)", body=b""), InvalidArgumentError, 10, "1 to"),
    "objects": (saved(np.array([{}, None]), allow_pickle=True), DtypeError, 10, "Python objects"),
    "structures": (saved(np.zeros(2, "i4,f4")), DtypeError, 10, "FixedLengthRecordDataset"),
    "structures of a word": (npy(descr="'i4,f4'", shape="(3,)"), DtypeError, 10, "FixedLengthRecordDataset"),
    "cut": (GOOD[:-1], TruncatedRecordError, len(GOOD) - 1, "is cut"),
    "cut behind the header": (GOOD[:HEAD], TruncatedRecordError, HEAD, "is cut"),
    "cut columns": (npy(order="True")[:-1], TruncatedRecordError, len(GOOD) - 2, "is cut"),
    "more bytes": (GOOD + b"x", DataLossError, len(GOOD), "1 bytes"),
    "two arrays": (GOOD + GOOD, DataLossError, len(GOOD), "several arrays"),
    "bytes behind no rows": (npy(shape="(0, 2)"), DataLossError, HEAD, "24 bytes"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("subject", FILES)
def test_a_file_that_is_wrong_is_an_error_at_once(tmp_path, subject, first):
    content, kind, offset, words = FILES[subject]
    good, bad = tmp_path / "good.npy", tmp_path / "bad.npy"
    good.write_bytes(GOOD)
    bad.write_bytes(content)
    with pytest.raises(kind) as caught:
        NumpyDataset([bad] if first else [good, bad])
    error = caught.value
    assert type(error) is kind
    assert (error.path, error.offset, error.stage) == (str(bad), offset, "open")
    assert str(bad) in str(error) and words in str(error)
    assert error.record == (2 if subject == "cut" else 0 if subject == "cut behind the header" else error.record)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.path, again.offset) == (kind, str(error), error.path, offset)


OTHERS = {
    "another dtype": (npy("'<i4'"), DtypeError),
    "another size": (npy("'<f8'", body=bytes(48)), DtypeError),
    "another byte order": (npy("'>f4'"), DtypeError),
    "another row": (npy(shape="(2, 3)"), InvalidArgumentError),
    "another number of dimensions": (npy(shape="(6,)"), InvalidArgumentError),
    "another row, and no rows": (npy(shape="(0, 3)", body=b""), InvalidArgumentError),
}


@pytest.mark.parametrize("what", OTHERS)
def test_files_that_do_not_fit_name_each_other(tmp_path, what):
    content, kind = OTHERS[what]
    good, other = tmp_path / "good.npy", tmp_path / "other.npy"
    good.write_bytes(GOOD)
    other.write_bytes(content)
    with pytest.raises(kind) as caught:
        NumpyDataset([good, other])
    assert (caught.value.path, caught.value.offset) == (str(other), 10)
    for word in (str(good), str(other), "'<f4'"):
        assert word in str(caught.value)


def test_what_the_system_says(tmp_path):
    with pytest.raises(NotFoundError) as missing:
        NumpyDataset(tmp_path / "none.npy")
    assert missing.value.errno == errno.ENOENT and missing.value.filename == str(tmp_path / "none.npy")
    with pytest.raises(NotAFileError) as folder:
        NumpyDataset(tmp_path)
    assert folder.value.errno == errno.EISDIR
    os.mkfifo(tmp_path / "pipe")
    for special in (tmp_path / "pipe", "/dev/zero"):  # neither is waited for
        with pytest.raises(UnavailableError, match="no regular file"):
            NumpyDataset(special)
    (tmp_path / "closed.npy").write_bytes(GOOD)
    (tmp_path / "closed.npy").chmod(0)
    if not os.access(tmp_path / "closed.npy", os.R_OK):  # root may read it
        with pytest.raises(PermissionDeniedError):
            NumpyDataset(tmp_path / "closed.npy")


def test_a_file_that_changed_may_be_left_out(tmp_path):
    paths = [tmp_path / f"{n}.npy" for n in range(3)]
    for path in paths:
        path.write_bytes(GOOD)
    ds = NumpyDataset(paths)
    paths[1].write_bytes(npy("'<i4'"))
    got = []
    with iter(ds) as it, pytest.raises(SourceChangedError) as caught:
        for one in it:
            got.append(one)
    assert len(got) == 3 and caught.value.path == str(paths[1])
    assert len(list(ds.with_options(Options(on_error="skip")))) == 6
    assert len(list(NumpyDataset(paths[1]))) == 3  # a new dataset has the new header
