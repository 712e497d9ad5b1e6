"""Writers: the bytes they leave, also after an error in the middle."""

import array
import errno
import gzip
import json
import os
import random
import tarfile
import threading
import types
import warnings
import zlib

import numpy as np
import pytest
from helpers.formats.tars import samples, samples_of
from helpers.formats.tfrecords import KNOWN, KNOWN_BYTES, places, read, stream
from helpers.process import open_descriptors, run_python

import queuecore.tf1 as tf
from queuecore import errors
from queuecore.data import FixedLengthRecordDataset, TarDataset
from queuecore.writers import FixedLengthRecordWriter, TarWriter, TFRecordOptions, TFRecordWriter


def records_of(path):
    found, fault = read(path.read_bytes())
    assert fault is None
    return [one[2] for one in found]


# ---- TFRecordWriter --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, bytes, os.fspath, lambda path: path])
def test_the_known_bytes(tmp_path, kind):
    path = tmp_path / "a.tfrecord"
    name = os.fsencode(path) if kind is bytes else kind(path)
    with TFRecordWriter(name) as writer:
        for record in KNOWN:
            writer.write(record)
    assert path.read_bytes() == KNOWN_BYTES


def test_records_longer_than_the_block_and_around_it(tmp_path):
    path = tmp_path / "a"
    records = [os.urandom(n) for n in (0, 1, 262_127, 262_128, 262_129, 1, 1_000_000, 100, 262_144, 3_000_000, 0)]
    with TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    assert path.read_bytes() == stream(records)


def test_no_records_make_an_empty_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"what was there before")
    TFRecordWriter(path).close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "record",
    [
        bytearray(b"abcdefgh"),
        memoryview(b"abcdefgh"),
        memoryview(b"__abcdefgh")[2:],
        array.array("B", b"abcdefgh"),
        array.array("i", [1, 2, 3]),
        np.arange(6, dtype=">f8").reshape(2, 3),
        np.zeros((0, 3)),
        np.array(7),
        np.array([(1, 2.0)], [("a", "u1"), ("b", "f4")]),
    ],
)
def test_anything_bytes_like(tmp_path, record):
    path = tmp_path / "a"
    with TFRecordWriter(path) as writer:
        writer.write(record)
        writer.write(record)
    assert records_of(path) == [bytes(memoryview(record))] * 2


@pytest.mark.parametrize("record", ["text", None, 5, [1, 2], np.arange(10)[::2]])
def test_anything_else(tmp_path, record):
    path = tmp_path / "a"
    with TFRecordWriter(path) as writer:
        writer.write(b"before")
        with pytest.raises(errors.DtypeError):
            writer.write(record)
        writer.write(b"after")
    assert records_of(path) == [b"before", b"after"]


@pytest.mark.parametrize("level", [None, 1, 9])
@pytest.mark.parametrize("word", ["GZIP", "ZLIB"])
def test_compression(tmp_path, word, level):
    path = tmp_path / "a"
    records = [b"abc" * n for n in range(1000)]
    with TFRecordWriter(path, TFRecordOptions(word, level)) as writer:
        for record in records:
            writer.write(record)
    decompress = gzip.decompress if word == "GZIP" else zlib.decompress
    assert decompress(path.read_bytes()) == stream(records)
    assert path.stat().st_size < len(stream(records)) / 10


def test_zstd(tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="no zstandard here to read it with")
    path = tmp_path / "a"
    with TFRecordWriter(path, "ZSTD") as writer:
        for record in KNOWN:
            writer.write(record)
        writer.flush()
        assert zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()) == KNOWN_BYTES
        writer.write(b"more")
    data = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    assert data == stream([*KNOWN, b"more"])


def test_zstd_without_a_library_for_it(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(errors.UnimplementedError, match="zstandard"):
        TFRecordWriter(tmp_path / "a", "ZSTD")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (None, ""),
        ("", ""),
        ("NONE", ""),
        ("GZIP", "GZIP"),
        (types.SimpleNamespace(compression_type="ZLIB"), "ZLIB"),
        (types.SimpleNamespace(compression_type=None), ""),
        # TensorFlow's TFRecordCompressionType
        (types.SimpleNamespace(compression_type=0), ""),
        (types.SimpleNamespace(compression_type=1), "ZLIB"),
        (types.SimpleNamespace(compression_type=2), "GZIP"),
        (types.SimpleNamespace(compression_type="GZIP", compression_level=3), "GZIP"),
    ],
)
def test_options(tmp_path, options, word):
    path = tmp_path / "a"
    with TFRecordWriter(path, options) as writer:
        writer.write(b"one")
    undo = {"": bytes, "GZIP": gzip.decompress, "ZLIB": zlib.decompress}[word]
    assert undo(path.read_bytes()) == stream([b"one"])


@pytest.mark.parametrize(
    "options",
    ["bzip2", "LZ5", 7, [], TFRecordOptions("GZ"), TFRecordOptions("GZIP", 99), TFRecordOptions("ZLIB", "x")],
)
def test_options_that_are_none(tmp_path, options):
    with pytest.raises(errors.InvalidArgumentError):
        TFRecordWriter(tmp_path / "a", options)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("word", ["LZ4", "xz", "BZ2"])
def test_what_is_read_and_not_written(tmp_path, word):
    with pytest.raises(errors.UnimplementedError, match="read, not written"):
        TFRecordWriter(tmp_path / "a", word)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("word", ["", "GZIP", "ZLIB"])
def test_flush_lets_others_read(tmp_path, word):
    path = tmp_path / "a"
    with TFRecordWriter(path, word) as writer:
        for count in (1, 2, 3):
            writer.write(b"record")
            writer.flush()
            data = path.read_bytes()
            if word:
                data = zlib.decompressobj(zlib.MAX_WBITS + 32).decompress(data)
            assert data == stream([b"record"] * count)


def test_after_close(tmp_path):
    writer = TFRecordWriter(tmp_path / "a")
    writer.close()
    writer.close()
    for act in (lambda: writer.write(b""), writer.flush):
        with pytest.raises(errors.FailedPreconditionError, match="closed"):
            act()
    assert "closed" in repr(writer)


def test_an_error_in_the_block_still_closes(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(KeyError), TFRecordWriter(path) as writer:
        writer.write(b"one")
        raise KeyError
    assert records_of(path) == [b"one"]


def test_forgotten_writers_warn_and_write(tmp_path):
    before = open_descriptors()
    with pytest.warns(ResourceWarning, match="unclosed"):
        writer = TFRecordWriter(tmp_path / "a")
        writer.write(b"one")
        del writer
    assert records_of(tmp_path / "a") == [b"one"]
    assert open_descriptors() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for wrong in ({"options": "LZ5"}, {"path": ""}):
            with pytest.raises(errors.InvalidArgumentError):
                TFRecordWriter(**{"path": tmp_path / "b", **wrong})


def test_threads_do_not_mix_records(tmp_path):
    path = tmp_path / "a"

    def work(number):
        for index in range(300):
            writer.write(bytes([number]) * (index * 37 % 5000))

    with TFRecordWriter(path) as writer:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = records_of(path)
    assert sorted(map(len, found)) == sorted(index * 37 % 5000 for index in range(300) for _ in range(4))
    for number in range(4):
        mine = [len(record) for record in found if record and record[0] == number]
        assert mine == [index * 37 % 5000 for index in range(300) if index]


@pytest.mark.parametrize(
    ("name", "error", "number"),
    [
        ("missing/a", errors.NotFoundError, errno.ENOENT),
        (".", errors.NotAFileError, errno.EISDIR),
        ("file/a", errors.NotFoundError, errno.ENOTDIR),
    ],
)
def test_files_that_cannot_be_made(tmp_path, name, error, number):
    (tmp_path / "file").touch()
    for make in (TFRecordWriter, lambda path: FixedLengthRecordWriter(path, "u1")):
        with pytest.raises(error) as caught:
            make(tmp_path / name)
        assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / name))
        assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("name", ["", "a\0b", b"a\0b", 3, None])
def test_names_that_are_none(name):
    with pytest.raises(errors.InvalidArgumentError):
        TFRecordWriter(name)


@pytest.mark.parametrize("act", ["flush", "close", "write"])
@pytest.mark.parametrize("word", ["", "GZIP"])
def test_no_room(act, word):
    # Everything written to /dev/full fails, as on a full disk.
    before = open_descriptors()
    writer = TFRecordWriter("/dev/full", word)
    for record in KNOWN:
        writer.write(record)
    act = {"flush": writer.flush, "close": writer.close, "write": lambda: writer.write(os.urandom(1_000_000))}[act]
    with pytest.raises(errors.UnavailableError) as caught:
        act()
    assert (caught.value.errno, caught.value.filename, caught.value.offset) == (errno.ENOSPC, "/dev/full", 0)
    assert caught.value.record == (None if word else 0)
    for again in (lambda: writer.write(b""), writer.flush):
        with pytest.raises(errors.FailedPreconditionError) as later:
            again()
        assert isinstance(later.value.__cause__, OSError)
    writer.close()
    assert open_descriptors() == before


LIMITED = """
    import json, resource, signal, sys
    from queuecore.errors import UnavailableError
    from queuecore.writers import TFRecordWriter

    path, limit, sizes = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = TFRecordWriter(path)
    try:
        for index, size in enumerate(sizes):
            writer.write(bytes([index]) * size)
            if size == 400:
                writer.flush()
        writer.close()
    except UnavailableError as error:
        print(error.errno, error.record, error.offset)
        writer.close()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("sizes", [[400] * 5, [0, 400, 300_000], [400, 1, 2, 3_000, 1]])
@pytest.mark.parametrize("cut", [1, 5, 12, 13, 100])
def test_a_half_written_record_is_cut_off(tmp_path, sizes, cut):
    # The limit lets the first part of a write through, as a disk does that fills up in its middle.
    path = tmp_path / "a"
    records = [bytes([index]) * size for index, size in enumerate(sizes)]
    starts = places(records)
    limit = starts[2] + cut
    done = run_python(LIMITED, path, limit, json.dumps(sizes))
    assert done.returncode == 0, done.stderr
    number, record, offset = map(int, done.stdout.split())
    found = records_of(path)
    assert number == errno.EFBIG
    assert found == records[:record]
    assert offset == starts[record] == path.stat().st_size
    assert record in (1, 2)


# ---- FixedLengthRecordWriter -----------------------------------------------------------------------------------------

PLAIN = np.dtype([("label", "u1"), ("image", "u1", (3, 4, 4))])
BIG = np.dtype([("a", ">i4"), ("b", ">f8", (2,)), ("c", "S3")])
GAPS = np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [1, 8], "itemsize": 19})


def values(dtype, count, seed=0):
    """Random records, finite and without NaN, in native byte order and without gaps."""
    rng = np.random.default_rng(seed)
    out = np.zeros(count, dtype.newbyteorder("="))
    for name in dtype.names:
        field = out[name]
        field[...] = rng.integers(0, 100, field.shape).astype(field.dtype)
    return out


@pytest.mark.parametrize("record", [PLAIN, BIG, GAPS])
@pytest.mark.parametrize(("header", "footer"), [(b"", b""), (b"HEAD", b"foot!")])
def test_the_dataset_reads_what_was_written(tmp_path, record, header, footer):
    path = tmp_path / "a.bin"
    rows = values(record, 1000)
    with FixedLengthRecordWriter(path, record, header, footer) as writer:
        writer.write(rows[:10])
        writer.write(rows[10])
        writer.write(rows[11:12].reshape(1, 1))
        writer.write(rows[12:12])
        writer.write(np.repeat(rows[12:], 2)[::2])  # with strides
    data = path.read_bytes()
    assert data.startswith(header)
    assert data.endswith(footer)
    assert len(data) == 1000 * record.itemsize + len(header) + len(footer)
    ds = FixedLengthRecordDataset([path], record=record, header_bytes=len(header), footer_bytes=len(footer))
    (batch,) = ds.batch(1000)
    for name in record.names:
        np.testing.assert_array_equal(batch[name], rows[name])


def test_gaps_are_zeros(tmp_path):
    rows = np.frombuffer(b"\xaa" * 19 * 4, GAPS)
    for array_ in (rows, rows.copy(), rows[::2]):
        with FixedLengthRecordWriter(tmp_path / "a", GAPS) as writer:
            writer.write(array_)
        raw = np.fromfile(tmp_path / "a", np.uint8).reshape(-1, 19)
        assert len(raw) == len(array_)
        assert (raw[:, [1, *range(8, 16)]] == 0xAA).all()
        assert not raw[:, [0, *range(2, 8), 16, 17, 18]].any()


@pytest.mark.parametrize(("record", "shape"), [("u1", (7,)), (np.dtype(("u1", (3, 2))), (5, 3, 2)), (">i8", (2, 2))])
def test_records_without_fields(tmp_path, record, shape):
    rows = np.arange(np.prod(shape)).astype(np.dtype(record).base).reshape(shape)
    with FixedLengthRecordWriter(tmp_path / "a", record) as writer:
        writer.write(rows)
    assert (tmp_path / "a").read_bytes() == rows.tobytes()


@pytest.mark.parametrize(
    ("record", "rows"),
    [
        (PLAIN, np.zeros(3, BIG)),
        (PLAIN, np.zeros(3, [("label", "u1"), ("picture", "u1", (3, 4, 4))])),
        (PLAIN, np.zeros(3, [("label", "i2"), ("image", "u1", (3, 4, 4))])),
        (PLAIN, [1, 2, 3]),
        ("u1", np.zeros(3, "i1")),
        ("f4", np.zeros(3)),
        (np.dtype(("u1", (3, 2))), np.zeros((3, 3), "u1")),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, record, rows):
    with FixedLengthRecordWriter(tmp_path / "a", record) as writer, pytest.raises(errors.InvalidArgumentError):
        writer.write(rows)
    assert (tmp_path / "a").read_bytes() == b""


@pytest.mark.parametrize("record", ["O", [("a", "O")], "S", [], "no such thing"])
def test_records_that_no_file_holds(tmp_path, record):
    with pytest.raises(errors.InvalidArgumentError):
        FixedLengthRecordWriter(tmp_path / "a", record)
    assert not (tmp_path / "a").exists()


def test_a_message_says_how_it_goes_in(tmp_path):
    made = tf.train.Example()
    with TFRecordWriter(tmp_path / "a") as writer:
        with pytest.raises(errors.DtypeError, match=r"SerializeToString\(\)"):
            writer.write(made)
        writer.write(made.SerializeToString())


def test_a_header_must_be_bytes(tmp_path):
    for wrong in ({"header": "text"}, {"footer": 4}):
        with pytest.raises(errors.DtypeError):
            FixedLengthRecordWriter(tmp_path / "a", "u1", **wrong)


# ---- TarWriter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["", "GZIP", "ZSTD"])
def test_samples_are_read_again(tmp_path, word):
    expected = samples(200, random.Random(1))
    with TarWriter(tmp_path / "a", word) as writer:
        for sample in expected:
            writer.write(sample)
    assert list(TarDataset(tmp_path / "a", ["__key__", "txt", "cls"], compression_type=word)) == expected
    data = (tmp_path / "a").read_bytes()
    if not word:
        assert list(samples_of(data, ["__key__", "txt", "cls"])) == expected
        assert len(data) % 512 == 0 and data.endswith(bytes(1024))
        with TarWriter(tmp_path / "b") as writer:
            for sample in expected:
                writer.write(sample)
        assert (tmp_path / "b").read_bytes() == data  # the same samples give the same bytes


def test_names_and_contents_of_a_sample(tmp_path):
    with TarWriter(tmp_path / "a") as writer:
        array = np.arange(3, dtype=np.uint8)
        writer.write({"__key__": "x.y/é", "txt": "é", "cls": 12, "npy": array, "n": np.int64(-1)})
        writer.write({"b.c": bytearray(b"1"), "__key__": b"\xff"})
        writer.write({"__key__": "x.y/é" + "z" * 300, "txt": ""})
    with tarfile.open(tmp_path / "a", errors="surrogateescape") as tar:
        members = [(member.name, tar.extractfile(member).read(), member.mtime, member.uid) for member in tar]
    contents = [("x.y/é.txt", "é".encode()), ("x.y/é.cls", b"12"), ("x.y/é.npy", b"\0\1\2"), ("x.y/é.n", b"-1")]
    contents += [("\udcff.b.c", b"1"), ("x.y/é" + "z" * 300 + ".txt", b"")]
    assert members == [(name, content, 0, 0) for name, content in contents]
    assert list(TarDataset(tmp_path / "a", ["__key__", "b.c"]).skip(1).take(1)) == [{"__key__": b"\xff", "b.c": b"1"}]


def test_no_samples_are_an_archive_too(tmp_path):
    TarWriter(tmp_path / "a").close()
    assert (tmp_path / "a").read_bytes() == bytes(1024)
    assert list(TarDataset(tmp_path / "a", ["txt"])) == []


@pytest.mark.parametrize(
    ("sample", "error", "text"),
    [
        (b"bytes", errors.DtypeError, "must be a dict"),
        ({"txt": b""}, errors.DtypeError, "__key__"),
        ({"__key__": 1, "txt": b""}, errors.DtypeError, "__key__"),
        ({"__key__": "", "txt": b""}, errors.InvalidArgumentError, "name of a sample"),
        ({"__key__": "a/", "txt": b""}, errors.InvalidArgumentError, "name of a sample"),
        ({"__key__": "a.b", "txt": b""}, errors.InvalidArgumentError, "name of a sample"),
        ({"__key__": "a\0b", "txt": b""}, errors.InvalidArgumentError, "name of a sample"),
        ({"__key__": "a"}, errors.InvalidArgumentError, "has no file"),
        ({"__key__": "a", "": b""}, errors.InvalidArgumentError, "key of a file"),
        ({"__key__": "a", "b/c": b""}, errors.InvalidArgumentError, "key of a file"),
        ({"__key__": "a", "TXT": b""}, errors.InvalidArgumentError, "key of a file"),
        ({"__key__": "a", 1: b""}, errors.InvalidArgumentError, "key of a file"),
        ({"__key__": "a", "txt": 1.5}, errors.DtypeError, "content of 'txt'"),
        ({"__key__": "a", "txt": True}, errors.DtypeError, "content of 'txt'"),
        ({"__key__": "a", "txt": None}, errors.DtypeError, "content of 'txt'"),
        ({"__key__": "before", "txt": b""}, errors.InvalidArgumentError, "they would be one"),
    ],
)
def test_samples_that_nobody_could_read(tmp_path, sample, error, text):
    with TarWriter(tmp_path / "a") as writer:
        writer.write({"__key__": "before", "txt": b""})
        with pytest.raises(error, match=text):
            writer.write(sample)
        writer.write({"__key__": "behind", "txt": b""})
    assert [one["__key__"] for one in TarDataset(tmp_path / "a", ["__key__", "txt"])] == [b"before", b"behind"]


def test_threads_do_not_mix_samples(tmp_path):
    with TarWriter(tmp_path / "a") as writer:

        def write(number):
            for each in range(50):
                writer.write({"__key__": f"{number}-{each}", "a": b"%d" % number * 600, "b": b"%d" % each})

        workers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    got = list(TarDataset(tmp_path / "a", ["__key__", "a", "b"]))
    assert len(got) == 200
    for sample in got:
        number, each = sample["__key__"].split(b"-")
        assert (sample["a"], sample["b"]) == (number * 600, each)
