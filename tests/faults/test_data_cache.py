"""Caches that can't be written, are damaged, or whose writer dies: never a wrong element, and never a half file."""

import errno
import os
import pickle
import signal
import socket
import subprocess

import numpy as np
import pytest
from helpers import process
from helpers.data.blocks import content, run, source
from helpers.data.chains import dataset, threads, values, write_files
from helpers.process import run_python

from queuecore.data._nodes import cache, cache_files
from queuecore.errors import (
    AbortedError,
    ChecksumError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TruncatedRecordError,
    UnavailableError,
)

BYTES = bytes(range(200))


@pytest.fixture
def path(tmp_path):
    (path,) = write_files(tmp_path, [BYTES])
    return path


def files(folder, name="kept*"):
    return sorted(one.name for one in folder.glob(name))


COMPLETE = ["kept.data-00000-of-00001", "kept.index"]


@pytest.mark.parametrize("store", ["memory", "file", "snapshot"])
def test_an_error_of_the_input_comes_after_what_is_good(tmp_path, store):
    good, records = content("tfrecord", 30)
    (tmp_path / "a").write_bytes(good)
    (tmp_path / "b").write_bytes(good[:-3])
    whole = source("tfrecord", [tmp_path / "a", tmp_path / "b", tmp_path / "missing"])
    ds = {
        "memory": whole.cache,
        "file": lambda: whole.cache(tmp_path / "kept"),
        "snapshot": lambda: whole.snapshot(tmp_path / "kept"),
    }[store]()
    for workers in (1, 2, 8):
        for _ in range(2):
            got, error = run(threads(ds, workers))
            assert got == records + records[:-1]
            assert type(error) is TruncatedRecordError
            assert error.path == str(tmp_path / "b")
    assert not list(tmp_path.glob("kept*")) or not list((tmp_path / "kept").rglob("*.*"))


def test_a_full_disk(tmp_path, path):
    """The limit on a file's size stands for the disk: the same refusal in the middle of a write."""
    path.write_bytes(os.urandom(1000) * 5000)
    code = """
        import resource, sys, warnings
        import queuecore as qc
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        ds = qc.data.FixedLengthRecordDataset(sys.argv[1], 1000).cache(sys.argv[2])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plain = [bytes(x) for x in qc.data.FixedLengthRecordDataset(sys.argv[1], 1000)]
            for _ in range(2):
                assert [bytes(x) for x in ds] == plain
        print([(one.category.__name__, "nothing is cached" in str(one.message)) for one in caught])
    """
    done = run_python(code, path, tmp_path / "kept")
    assert done.stdout.strip() == "[('RuntimeWarning', True)]", done.stderr
    assert files(tmp_path) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["open", "fsync", "replace", "ftruncate", "makedirs"])
def test_every_call_may_be_refused(tmp_path, path, monkeypatch, call, number):
    ds = dataset(path, 1).cache(tmp_path / "kept")
    calls = []

    def refuse(*arguments, **words):
        calls.append(arguments)
        raise OSError(number, os.strerror(number))

    if call == "open":
        monkeypatch.setattr(cache_files, "open", refuse, raising=False)
    else:
        monkeypatch.setattr(cache_files.os, call, refuse)
    with pytest.warns(RuntimeWarning, match="nothing is cached"):
        assert values(ds) == list(BYTES)
    assert calls
    assert values(ds) == list(BYTES)  # without a second warning
    monkeypatch.undo()
    assert not set(files(tmp_path)) & {"kept.index", "kept_0.lockfile"}
    assert not [name for name in files(tmp_path) if "tmp" in name]
    again = dataset(path, 1).cache(tmp_path / "kept")
    assert values(again) == list(BYTES)
    assert files(tmp_path) == COMPLETE


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize(("number", "cls"), [(errno.ENOSPC, UnavailableError), (errno.EACCES, PermissionDeniedError)])
def test_a_cache_that_must_be_kept(tmp_path, path, monkeypatch, call, number, cls):
    ds = pickle.loads(pickle.dumps(dataset(path, 1).cache(tmp_path / "kept", on_unwritable="raise")))

    def refuse(*arguments, **words):
        raise OSError(number, os.strerror(number), os.fspath(tmp_path / "kept.part"))

    monkeypatch.setattr(cache_files if call == "open" else cache_files.os, call, refuse, raising=False)
    for _ in range(2):  # each pass tries
        with pytest.raises(cls, match="nothing is cached") as caught:
            values(ds)
        assert (caught.value.errno, caught.value.stage) == (number, "cache")
        assert caught.value.path == os.fspath(tmp_path / "kept.part")
        assert isinstance(caught.value.__cause__, OSError)
    monkeypatch.undo()
    assert not [name for name in files(tmp_path) if "tmp" in name or "lock" in name]
    assert values(ds) == list(BYTES)
    assert files(tmp_path) == COMPLETE


def test_a_cache_that_must_be_kept_in_memory(path, monkeypatch):
    ds = dataset(path, 1).cache(on_unwritable="raise")

    def refuse(column):
        raise MemoryError

    monkeypatch.setattr(cache, "copied", refuse)
    with pytest.raises(ResourceExhaustedError, match="out of memory"):
        values(ds)
    monkeypatch.undo()
    assert values(ds) == values(ds) == list(BYTES)


def test_words_for_what_can_not_be_kept(path):
    with pytest.raises(InvalidArgumentError, match="on_unwritable"):
        dataset(path, 1).cache(on_unwritable="ignore")


def test_no_memory(tmp_path, path, monkeypatch):
    ds = dataset(path, 1).cache()

    def refuse(column):
        raise MemoryError

    monkeypatch.setattr(cache, "copied", refuse)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        assert values(ds) == list(BYTES)
    assert values(ds) == list(BYTES)


def test_an_input_that_changes_while_it_is_written(tmp_path):
    # The first file is read and closed when it changes; far more than is read ahead comes after it.
    paths = write_files(tmp_path, [bytes(1000), os.urandom(1000) * 50_000])
    ds = dataset(paths, 1000).cache(tmp_path / "kept")
    with pytest.warns(RuntimeWarning, match="an input file changed"), iter(ds) as it:
        for _ in range(100):
            next(it)
        os.utime(paths[0], ns=(1, 1))
        assert sum(1 for _ in it) == 50_001 - 100
    assert files(tmp_path) == []


WRITER = """
    import sys, time
    import queuecore as qc
    it = iter(qc.data.FixedLengthRecordDataset(sys.argv[1], 1000).cache(sys.argv[2]))
    for _ in range(int(sys.argv[3])):
        next(it)
    print("writing", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def writer(tmp_path, path):
    """A process that is in the middle of writing a cache."""
    path.write_bytes(os.urandom(1000) * 50_000)
    child = subprocess.Popen(
        process._command(WRITER, (path, tmp_path / "kept", 9000)), env=process._environment(), stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"writing\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_second_writer(tmp_path, path, writer):
    assert "kept_0.lockfile" in files(tmp_path)
    assert "kept.index" not in files(tmp_path)
    with pytest.raises(AbortedError, match=rf"process {writer.pid} on ") as caught:
        next(iter(dataset(path, 1000).cache(tmp_path / "kept")))
    assert caught.value.path == str(tmp_path / "kept_0.lockfile")
    writer.kill()
    writer.wait()
    assert sum(1 for _ in dataset(path, 1000).cache(tmp_path / "kept").batch(500)) == 100
    assert files(tmp_path) == COMPLETE


@pytest.mark.thorough
def test_a_second_writer_of_a_snapshot_reads_the_input(tmp_path, path):
    one, other = (dataset(path, 1).batch(2).snapshot(tmp_path / "kept") for _ in range(2))
    path.write_bytes(BYTES * 500)
    with iter(one) as it:
        next(it)
        assert values(other) == values(dataset(path, 1).batch(2))
        assert not list((tmp_path / "kept").rglob("*.index"))
        rest = sum(1 for _ in it)
    assert rest == len(BYTES) * 250 - 1
    assert len(list((tmp_path / "kept").rglob("*.index"))) == 1


@pytest.mark.thorough
def test_killed_while_it_writes(tmp_path, path, writer):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    left = files(tmp_path)
    assert "kept.index" not in left
    assert any("tmp" in name for name in left)
    expected = np.fromfile(path, np.uint8).reshape(-1, 1000)
    ds = dataset(path, 1000).cache(tmp_path / "kept").batch(1000)
    for _ in range(2):
        assert (np.concatenate([batch.copy() for batch in ds]) == expected).all()
        assert files(tmp_path) == COMPLETE


@pytest.mark.parametrize("owner", ["", "process 999999999 on elsewhere\n", "garbage \xff"])
def test_a_lock_that_was_left_behind(tmp_path, path, owner):
    (tmp_path / "kept_0.lockfile").write_text(owner, "latin-1")
    (tmp_path / "kept.data-00000-of-00001.tmp-7").write_bytes(b"half")
    (tmp_path / "kept.data-00000-of-00001").write_bytes(b"of another one")
    (tmp_path / "kept2.index.tmp-7").write_bytes(b"not ours")
    assert values(dataset(path, 1).cache(tmp_path / "kept").repeat(2)) == list(BYTES) * 2
    assert files(tmp_path) == [*COMPLETE, "kept2.index.tmp-7"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks(tmp_path, path, monkeypatch, number):
    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cache_files.fcntl, "flock", refuse)
    lock = tmp_path / "kept_0.lockfile"
    for owner in (f"process {os.getppid()} on {socket.gethostname()}", "process 1 on elsewhere"):
        lock.write_text(owner)
        with pytest.raises(AbortedError, match=owner):
            next(iter(dataset(path, 1).cache(tmp_path / "kept")))
    lock.write_text(f"process 999999999 on {socket.gethostname()}")
    assert values(dataset(path, 1).cache(tmp_path / "kept").repeat(2)) == list(BYTES) * 2
    assert files(tmp_path) == COMPLETE


def test_a_lock_that_only_a_child_of_its_dead_owner_holds(tmp_path, path):
    code = """
        import fcntl, os, socket, sys, time
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, f"process {os.getpid()} on {socket.gethostname()}\\n".encode())
        if child := os.fork():
            print(child, flush=True)
            os._exit(0)
        os.close(1), os.close(2)
        time.sleep(100)
    """
    child = int(run_python(code, tmp_path / "kept_0.lockfile").stdout)
    try:
        assert values(dataset(path, 1).cache(tmp_path / "kept")) == list(BYTES)
        assert files(tmp_path) == COMPLETE
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.fixture(params=["rows", "varying", "objects", "gzip"])
def made(request, tmp_path):
    """What makes a dataset with files, what is in it, and the files."""
    (tmp_path / "lines").write_bytes(b"to\n\nbe\nor\nnot\n")
    ds = source("lines", tmp_path / "lines")
    if request.param == "rows":
        ds = dataset(tmp_path / "lines", 1)
    elif request.param == "objects":
        ds = ds.batch(2)
    expected, _ = run(ds)

    def make():
        if request.param == "gzip":
            return ds.snapshot(tmp_path / "kept", compression="GZIP")
        return ds.cache(tmp_path / "kept")

    assert run(make()) == (expected, None)
    index, data = sorted(one for one in tmp_path.rglob("*.*") if "lines" not in one.name)[::-1]
    assert (index.suffix, data.suffix) == (".index", ".data-00000-of-00001")
    return make, expected, index, data


@pytest.mark.thorough
def test_every_damaged_byte(made):
    make, expected, *paths = made
    for path in paths:
        intact = path.read_bytes()
        for index in range(len(intact)):
            path.write_bytes(intact[:index] + bytes([intact[index] ^ 1 << index % 8]) + intact[index + 1 :])
            got, error = run(make())
            if path is paths[1] and index < 16:  # nothing depends on those
                assert (got, error) == (expected, None)
                continue
            assert got == []
            assert type(error) is (FailedPreconditionError if index < 16 else ChecksumError), (path, index, error)
            assert error.path == str(path)
            assert index < 16 or error.offset == 16
        path.write_bytes(intact)
        assert run(make()) == (expected, None)


@pytest.mark.thorough
def test_every_cut(made):
    make, expected, *paths = made
    for path in paths:
        intact = path.read_bytes()
        for size in range(len(intact)):
            path.write_bytes(intact[:size])
            got, error = run(make())
            assert got == []
            assert isinstance(error, DataLossError | FailedPreconditionError), (path, size, error)
            assert error.path == str(path)
        path.write_bytes(intact)
        assert run(make()) == (expected, None)


def test_data_that_is_missing_or_of_another_cache(tmp_path, path):
    ds = dataset(path, 1)
    assert values(ds.cache(tmp_path / "kept")) == list(BYTES)
    reverse = path.with_name("reverse")
    reverse.write_bytes(BYTES[::-1])
    assert values(dataset(reverse, 1).cache(tmp_path / "other")) == list(BYTES)[::-1]
    os.replace(tmp_path / "other.data-00000-of-00001", tmp_path / "kept.data-00000-of-00001")
    got, error = run(ds.cache(tmp_path / "kept"))
    assert got == []
    assert type(error) is ChecksumError
    os.unlink(tmp_path / "kept.data-00000-of-00001")
    got, error = run(ds.cache(tmp_path / "kept"))
    assert got == []
    assert type(error) is DataLossError
    assert "missing" in str(error)


def test_a_file_of_another_program(tmp_path, path):
    (tmp_path / "kept.index").write_bytes(b"something else")
    got, error = run(dataset(path, 1).cache(tmp_path / "kept"))
    assert got == []
    assert type(error) is FailedPreconditionError
    assert "no index of a queuecore cache" in str(error)
    assert (tmp_path / "kept.index").read_bytes() == b"something else"


def test_neither_input_nor_cache(tmp_path):
    got, error = run(dataset(tmp_path / "missing", 1).cache(tmp_path / "kept"))
    assert got == []
    assert type(error) is NotFoundError
    assert files(tmp_path) == []
