"""Writers to URLs: a file is there as a whole once it is closed, and otherwise not at all."""

import contextlib
import gc
import gzip
import os
import threading

import numpy as np
import pytest
from helpers.data.remote_store import Store, Upload, fresh
from helpers.formats.tfrecords import read, stream
from helpers.process import run_python

import queuecore as qc
import queuecore.tf1 as tf
from queuecore import errors
from queuecore.data import Dataset, FixedLengthRecordDataset, TFRecordDataset
from queuecore.writers import FixedLengthRecordWriter, TFRecordWriter

URL = "store://bucket/a"
RECORDS = [bytes([n % 251]) * (n * 3701 % 90_001) for n in range(100)]  # some parts of a megabyte


@pytest.fixture(autouse=True)
def store(monkeypatch):
    return fresh(monkeypatch)


def kinds(store):
    return [request[0] for request in store.requests]


@pytest.mark.parametrize("url", [URL, "store:/bucket/a", "memory://folder/a"])
@pytest.mark.parametrize("word", ["", "GZIP"])
def test_what_was_written_is_read(store, word, url):
    with TFRecordWriter(url, word) as writer:
        for record in RECORDS:
            writer.write(record)
        writer.flush()
    assert list(TFRecordDataset(url, word)) == RECORDS
    assert not Upload.begun


def test_records_of_one_length(store):
    with FixedLengthRecordWriter(URL, "<i4", b"head", b"foot") as writer:
        writer.write(np.arange(1_000_000, dtype="i4"))  # makes a part by itself
        writer.write(np.arange(7, dtype="i4"))
    want = np.append(np.arange(1_000_000), np.arange(7)).astype("<i4")
    assert store.objects["bucket/a"] == b"head" + want.tobytes() + b"foot"
    ds = FixedLengthRecordDataset(URL, record=np.dtype("<i4"), header_bytes=4, footer_bytes=4)
    assert np.array_equal(next(iter(ds.batch(2_000_000))), want)


def test_it_is_sent_in_parts_and_there_at_the_end(store):
    store.objects["bucket/a"] = b"before"
    writer = TFRecordWriter(URL)
    for record in RECORDS:
        writer.write(record)
        writer.flush()
        assert store.objects["bucket/a"] == b"before"
    assert kinds(store)[:3] == ["begin", "part", "part"]
    writer.close()
    writer.close()
    assert store.objects["bucket/a"] == stream(RECORDS)
    assert kinds(store)[-1] == "commit"
    assert kinds(store).count("part") > 3


def test_no_records_make_an_empty_file(store):
    TFRecordWriter(URL).close()
    assert store.objects["bucket/a"] == b""
    TFRecordWriter("memory://empty").close()
    assert list(TFRecordDataset("memory://empty")) == []


@pytest.mark.parametrize("url", [URL, "memory://left"])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_block_that_is_left_by_an_exception(store, url, size):
    with pytest.raises(KeyError), TFRecordWriter(url) as writer:
        writer.write(bytes(size))
        raise KeyError
    with pytest.raises(errors.FailedPreconditionError, match="closed"):
        writer.write(b"")
    assert "bucket/a" not in store.objects and not Upload.begun
    with pytest.raises(errors.NotFoundError):
        list(TFRecordDataset(url))


@pytest.mark.parametrize("cycle", [False, True])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_forgotten_writers_warn_and_leave_nothing(store, size, cycle):
    with pytest.warns(ResourceWarning, match="unclosed"):
        writer = TFRecordWriter(URL)
        writer.write(bytes(size))
        if cycle:
            writer.itself = writer
        del writer
        gc.collect()
    assert not store.objects and not Upload.begun


def test_elements_of_a_dataset(store):
    writer = qc.data.experimental.TFRecordWriter(URL, "GZIP", storage_options={"key": "mine"})
    writer.write(Dataset.from_tensor_slices([b"a", b"bc"]))
    assert read(gzip.decompress(store.objects["bucket/a"]))[0][1][2] == b"bc"
    with tf.Session() as session, tf.io.TFRecordWriter("store://bucket/b") as plain:
        plain.write("text")
        names = tf.data.Dataset.from_tensor_slices(["x", "y"])
        session.run(tf.data.experimental.TFRecordWriter("store://bucket/c").write(names))
    assert store.objects["bucket/b"] == stream([b"text"])
    assert store.objects["bucket/c"] == stream([b"x", b"y"])


def test_a_dataset_that_fails(store):
    def fail():
        yield b"one"
        raise RuntimeError("no more")

    rows = Dataset.from_generator(fail, output_types=bytes, output_shapes=())
    with pytest.raises(errors.QueueCoreError):
        qc.data.experimental.TFRecordWriter(URL).write(rows)
    assert not store.objects


def test_options_of_the_store(store, monkeypatch):
    keys = []
    real = Store._open
    monkeypatch.setattr(Store, "_open", lambda self, *a, **k: (keys.append(self.key), real(self, *a, **k))[1])
    TFRecordWriter(URL, storage_options={"key": "mine"}).close()
    FixedLengthRecordWriter(URL, "u1", storage_options={"key": "yours"}).close()
    assert keys == ["mine", "yours"]
    for wrong in ("key", {1: 2}):
        with pytest.raises(errors.InvalidArgumentError, match="storage_options must be a dict"):
            TFRecordWriter(URL, storage_options=wrong)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError("denied"), errors.PermissionDeniedError),
        (FileNotFoundError("no such bucket"), errors.NotFoundError),
        (ConnectionResetError("reset"), errors.UnavailableError),
        (ValueError("nonsense"), errors.UnavailableError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("kind", ["begin", "part", "commit"])
@pytest.mark.parametrize("act", ["write", "close"])
def test_a_store_that_fails(store, act, kind, error, expected):
    def fail(what, *_):
        if what == kind:
            raise error

    store.before = fail
    writer = TFRecordWriter(URL)
    writer.write(b"small")
    with pytest.raises(expected) as caught:
        writer.write(bytes(3_000_000 if act == "write" else 10))
        writer.write(b"more")
        writer.close()
    assert store.objects == {} and not Upload.begun
    for again in (lambda: writer.write(b""), writer.flush):
        with pytest.raises(errors.FailedPreconditionError):
            again()
    writer.close()
    if expected is not KeyboardInterrupt:
        assert caught.value.path == URL and caught.value.stage == "write" and caught.value.__cause__ is error
        assert str(error) in str(caught.value) and "Write the file anew" in str(caught.value)
        if act == "write" and kind != "commit":
            assert (caught.value.record, caught.value.offset) == (0, 0)


def test_secrets_are_not_shown(store):
    url = "store://me:word@bucket/a?X-Sig=abc"

    def deny(*_):
        raise PermissionError("denied")

    store.before = deny
    writer = TFRecordWriter(url)
    texts = [repr(writer)]
    with pytest.raises(errors.PermissionDeniedError) as caught:
        writer.close()
    texts += [str(caught.value), str(caught.value.path)]
    with pytest.raises(errors.FailedPreconditionError) as after:
        writer.write(b"")
    texts.append(str(after.value))
    assert all("bucket/a?X-Sig=..." in text and "word" not in text and "abc" not in text for text in texts)


class ReadOnly(Store):
    protocol = "readonly"

    def _open(self, path, mode="rb", **words):
        if mode != "rb":
            raise NotImplementedError
        return super()._open(path, mode, **words)


class Silent(Store):
    """Has no way to write of its own."""

    protocol = "silent"
    _open = Store.__mro__[1]._open


class Visible(Store):
    """Files that are there while they are written."""

    protocol = "visible"

    def _open(self, path, mode="rb", **words):
        return open(os.devnull, mode)


@pytest.mark.parametrize("kind", [ReadOnly, Silent, Visible])
def test_what_is_only_read(store, kind):
    import fsspec

    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    for make in (TFRecordWriter, lambda url: FixedLengthRecordWriter(url, "u1")):
        with pytest.raises(errors.UnimplementedError, match="can't be written by fsspec") as caught:
            make(f"{kind.protocol}://bucket/a")
        assert caught.value.path == f"{kind.protocol}://bucket/a"


def test_a_file_of_this_machine_by_fsspec(tmp_path):
    (tmp_path / "a").write_bytes(b"before")
    with contextlib.suppress(KeyError), TFRecordWriter(f"local://{tmp_path}/a") as writer:
        writer.write(b"one")
        raise KeyError
    assert (tmp_path / "a").read_bytes() == b"before"
    with TFRecordWriter(f"local://{tmp_path}/a") as writer:
        writer.write(b"one")
        assert (tmp_path / "a").read_bytes() == b"before"
    assert (tmp_path / "a").read_bytes() == stream([b"one"])
    with pytest.raises(errors.NotFoundError):
        TFRecordWriter(f"local://{tmp_path}/missing/a").close()


def test_no_part_of_a_transaction_of_the_users(store):
    import fsspec

    filesystem = fsspec.filesystem("store")
    writer = TFRecordWriter(URL)
    writer.write(b"one")
    with filesystem.transaction:
        pass
    assert not store.objects
    writer.close()
    assert store.objects["bucket/a"] == stream([b"one"])


def test_threads_do_not_mix_records(store):
    def work(number):
        for index in range(200):
            writer.write(bytes([number]) * (index * 37 % 50_000))

    with TFRecordWriter(URL) as writer:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [one[2] for one in read(store.objects["bucket/a"])[0]]
    for number in range(4):
        mine = [len(record) for record in found if record and record[0] == number]
        assert mine == [index * 37 % 50_000 for index in range(200) if index * 37 % 50_000]


def test_a_forked_process_leaves_the_writer_alone():
    code = """
        import os, warnings
        import fsspec
        from queuecore.errors import FailedPreconditionError
        from queuecore.writers import TFRecordWriter
        from helpers.data.remote_store import Store, Upload

        warnings.simplefilter("ignore")
        writer = TFRecordWriter("store://bucket/a")
        writer.write(bytes(3_000_000))
        kept = writer._output._file
        child = os.fork()
        if child == 0:
            asked = len(Store.requests)
            try:
                writer.write(bytes(3_000_000))
            except FailedPreconditionError:
                writer.close()
                del writer
                os._exit(len(Store.requests) != asked or Store.objects != {})
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        writer.close()
        assert len(Store.objects["bucket/a"]) == 3_000_016
        print("good")
    """
    child = run_python(code)
    assert child.returncode == 0 and child.stdout.strip() == "good", child.stderr


def test_a_writer_that_is_open_when_python_ends():
    code = """
        import atexit, sys
        from helpers.data.remote_store import Store, Upload
        from queuecore.writers import TFRecordWriter

        writer = TFRecordWriter("store://bucket/a")
        writer.write(bytes(3_000_000))
        sys.modules["keeps"] = writer
        Store.before = lambda *what: print(*what, flush=True)
        print("end")
    """
    child = run_python(code)
    assert child.returncode == 0 and child.stdout.split() == ["end"], (child.stdout, child.stderr)
