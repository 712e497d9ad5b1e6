"""Reads by io_uring where the kernel forbids it, gives it up half-way, or hangs: nothing is lost, and nothing waits."""

import errno
import os
import signal
import threading
import time

import numpy as np
import pytest
from helpers.data.chains import dataset, pull, run, write_files
from helpers.faults.left import faults_end
from helpers.faults.rings import needs_rings
from helpers.process import AT_ONCE, run_python, soon

import queuecore as qc
from queuecore.data import Options, TextLineDataset

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

pytestmark = needs_rings

COUNT = 3000


@pytest.fixture(autouse=True)
def cold():
    with faults_end(syscalls):
        syscalls.set_uncached(True)
        yield


@pytest.fixture
def numbers(tmp_path):
    """Return a dataset of numbers in two files, in an order that jumps between them."""
    content = np.arange(COUNT, dtype="<i4").tobytes()
    paths = write_files(tmp_path, [content[: 4 * 1234], content[4 * 1234 :]])
    ds = dataset(paths, record=np.dtype("<i4")).permute(1, False).batch(100)
    return ds.with_options(Options(num_threads=2, io="uring"))


def whole(got):
    return sorted(np.concatenate(got).tolist()) == list(range(COUNT))


def counts(it):
    """How many requests a ring has done, and how many a thread."""
    stats = it.stats()
    return stats["io_uring_requests"], stats["io_requests"] - stats["io_uring_requests"]


# ---- which backend --------------------------------------------------------------------------------------------------


def test_the_choice(numbers, tmp_path):
    """What reads is what `plan` says, and `stats` counts."""
    for io, words, rings in [
        ("uring", "page cache: io_uring", True),
        ("threads", "page cache: threads", False),
        ("auto", "page cache: threads", False),
        ("pread", "page cache: the workers", False),
    ]:
        ds = numbers.with_options(Options(io=io))
        assert ds.plan().endswith(words)
        with iter(ds) as it:
            assert whole(pull(it)[0])
            assert (counts(it)[0] > 0) == rings
    # A piece of a file is read by one thread.
    ds = TextLineDataset(tmp_path / "part-00000.bin").with_options(Options(io="uring"))
    assert ds.plan().endswith("page cache: threads")
    with iter(ds) as it:
        pull(it, 3)
        assert counts(it)[0] == 0


def test_more_rings_for_more_reads(tmp_path):
    """A ring has 32 reads at most."""
    (path,) = write_files(tmp_path, [bytes(100 * 20_000)])
    ds = dataset([path], 100).permute(seed=1).batch(10).with_options(Options(num_threads=8, io="uring", io_depth=100))
    with iter(ds) as it:
        got, error = pull(it)
        assert error is None
        assert sum(map(len, got)) == 20_000
        assert counts(it)[0] > 15_000


def test_files_elsewhere_are_read_by_threads(numbers):
    """Where any call may wait, a ring's thread makes none."""
    syscalls.set_far(True)
    with iter(numbers) as it:
        assert whole(pull(it)[0])
        assert counts(it)[0] == 0


# ---- the kernel refuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS, errno.ENOMEM, errno.EMFILE])
def test_forbidden(numbers, caplog, error):
    syscalls.plan(["ring"], 1, sticky=True, error=error)
    assert numbers.plan().endswith(f"page cache: threads, as io_uring is refused ({os.strerror(error)})")
    with iter(numbers) as it:
        assert whole(pull(it)[0])
        assert counts(it)[0] == 0
    (message,) = caplog.messages
    assert os.strerror(error) in message


def test_a_container_that_forbids_it(tmp_path):
    """As container runtimes do it: by a filter of system calls."""
    np.arange(COUNT, dtype="<i4").tofile(tmp_path / "a")
    child = run_python(f"""
        import ctypes, errno, struct
        import numpy as np
        from queuecore._core.testing import syscalls
        from queuecore.data import FixedLengthRecordDataset, Options
        # Load the number of the call; if it is io_uring_setup, it fails with EPERM; all others are allowed.
        steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (6, 0, 0, 0x50000 | errno.EPERM), (6, 0, 0, 0x7FFF0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        if libc.prctl(22, 2, program, 0, 0) != 0:  # PR_SET_SECCOMP
            raise SystemExit(77)
        ds = FixedLengthRecordDataset({str(tmp_path / "a")!r}, record=np.dtype("<i4")).permute(1).batch(32)
        ds = ds.with_options(Options(num_threads=2, io="uring"))
        assert "threads, as io_uring is refused (Operation not permitted)" in ds.plan()
        syscalls.set_uncached(True)
        with iter(ds) as it:
            assert sorted(np.concatenate(list(map(np.array, it))).tolist()) == list(range({COUNT}))
            assert it.stats()["io_requests"] > it.stats()["io_uring_requests"] == 0
    """)
    if child.returncode == 77:
        pytest.skip("this process may not filter system calls")
    assert child.returncode == 0, child.stderr
    assert "no io_uring (Operation not permitted): threads read instead" in child.stderr


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("error", [errno.EPERM, errno.EAGAIN, errno.EBADF])
@pytest.mark.parametrize("nth", [1, 2, 7])
def test_it_fails_half_way(numbers, caplog, nth, error, sticky):
    """What the kernel has taken comes; threads do the rest."""
    syscalls.plan(["enter"], nth, sticky=sticky, error=error)
    with iter(numbers) as it:
        assert whole(pull(it)[0])
        assert syscalls.planned_calls()[1] > 0
        rings, threads = counts(it)
    assert threads > 0
    assert (rings > 0) == (nth > 1)
    assert len([one for one in caplog.records if os.strerror(error) in one.getMessage()]) == 1


@pytest.mark.parametrize("kinds", [["thread"], ["thread", "ring"], ["thread", "enter"]])
@pytest.mark.parametrize("first", [2, 3, 4, 6])  # the worker starts
def test_neither_rings_nor_threads(tmp_path, kinds, first):
    """Some threads of the engine's start, or none; then the worker waits itself. The pool opens the file once more."""
    paths = write_files(tmp_path, [np.arange(COUNT, dtype="<i4").tobytes()])
    ds = dataset(paths, record=np.dtype("<i4"), tail="drop")  # no thread looks at sizes before it begins
    syscalls.plan(kinds, first, sticky=True)
    got, error = run(ds.permute(1).repeat(2).batch(100).with_options(Options(num_threads=1, io="uring")))
    assert error is None
    assert sorted(np.concatenate(got).tolist()) == sorted([*range(COUNT)] * 2)
    assert syscalls.planned_calls()[1] > 0


def test_no_descriptor_and_no_locked_memory(tmp_path):
    np.arange(COUNT, dtype="<i4").tofile(tmp_path / "a")
    child = run_python(f"""
        import resource
        import numpy as np
        from queuecore._core.testing import syscalls
        from queuecore.data import FixedLengthRecordDataset, Options
        ds = FixedLengthRecordDataset({str(tmp_path / "a")!r}, record=np.dtype("<i4")).permute(1).batch(32)
        syscalls.set_uncached(True)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        for files in (20, 8):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            batches = list(map(np.array, ds.with_options(Options(num_threads=2, io="uring"))))
            assert sorted(np.concatenate(batches).tolist()) == list(range({COUNT}))
    """)
    assert child.returncode == 0, child.stderr


# ---- single reads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [1, 40, 700])
def test_a_read_that_fails(numbers, position):
    """Whoever wants the bytes reads them again, and gets the error there, if it is still one."""
    syscalls.fail_read(position, errno.EIO)
    with iter(numbers) as it:
        assert whole(pull(it)[0])
        assert counts(it)[0] > 0
    syscalls.fail_read(position, errno.EIO, sticky=True)
    got, error = run(numbers)
    assert isinstance(error, qc.errors.UnavailableError)
    assert error.errno == errno.EIO
    assert len(got) < COUNT // 100


def test_short_reads_go_on(tmp_path):
    content = np.random.default_rng(0).bytes(100 * 300)
    ds = dataset(write_files(tmp_path, [content]), 100).permute(1, False).batch(50)
    ds = ds.with_options(Options(num_threads=2, io="uring"))
    expected, _ = run(ds)
    for most in (1, 7, 99):
        syscalls.short_reads(most)
        with iter(ds) as it:
            got, error = pull(it)
            assert counts(it)[0] > 0
        assert error is None
        assert np.array_equal(np.concatenate(got), np.concatenate(expected))


def test_a_file_that_is_cut_meanwhile(tmp_path):
    (path,) = write_files(tmp_path, [bytes(100 * 5000)])
    ds = dataset([path], 100).permute(seed=1).batch(10).with_options(Options(num_threads=2, io="uring"))
    with iter(ds) as it:
        pull(it, 1)
        os.truncate(path, 100 * 10)
        got, error = pull(it)
        assert counts(it)[0] > 0
    assert isinstance(error, qc.errors.SourceChangedError)
    assert len(got) < 499


# ---- storage that hangs ---------------------------------------------------------------------------------------------


def handed_in():
    """Whether a thread has handed reads to the kernel, as far as tests go."""
    return syscalls.call_counts()["enter"] > 0


def test_nobody_waits_for_reads_that_hang(numbers):
    """A wait ends with the close; the memory that the kernel writes to stays until it has written."""
    syscalls.hang_rings(True)
    it = iter(numbers)
    taker = threading.Thread(target=pull, args=(it,))
    taker.start()
    assert soon(handed_in)
    begun = time.monotonic()
    with pytest.warns(RuntimeWarning, match="did not end within"):
        it.close(timeout=0.01)
    taker.join(10)
    assert time.monotonic() - begun < AT_ONCE
    del it
    with iter(numbers.with_options(Options(io="threads"))) as other:  # others go on meanwhile
        assert whole(pull(other)[0])
    assert syscalls.live_threads() > 0
    syscalls.hang_rings(False)
    assert soon(lambda: syscalls.live_threads() == 0)


def test_a_signal_ends_a_wait_for_reads_that_hang(numbers):
    """The same iterator goes on later."""

    class Heard(Exception):
        pass

    def hear(*_):
        raise Heard

    def send():
        nonlocal sent
        assert soon(handed_in)
        sent = time.monotonic()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    syscalls.hang_rings(True)
    sent = 0.0
    before = signal.signal(signal.SIGUSR1, hear)
    with iter(numbers) as it:
        sender = threading.Thread(target=send)
        sender.start()
        with pytest.raises(Heard):
            next(it)
        assert time.monotonic() - sent < AT_ONCE
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        syscalls.hang_rings(False)
        assert whole(pull(it)[0])


def test_a_stop_while_the_kernel_forbids_it(numbers):
    """Neither the results nor a call of the kernel's come, and the close comes in between."""
    for nth in (1, 3, 6):
        syscalls.plan(["enter"], nth, sticky=True)
        it = iter(numbers)
        pull(it, 1)
        it.close()
        syscalls.end_plan()


def test_many_streams_at_once(numbers):
    failed = []

    def reads(index):
        for turn in range(3):
            with iter(numbers) as it:
                got, error = pull(it, None if turn != 1 else index)
            if error is not None or (turn != 1 and not whole(got)):
                failed.append((index, turn, error))

    threads = [threading.Thread(target=reads, args=(index,)) for index in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []


def test_a_forked_child(tmp_path):
    """It touches no ring of its parent's, and makes its own."""
    np.arange(COUNT, dtype="<i4").tofile(tmp_path / "a")
    child = run_python(f"""
        import os, warnings
        import numpy as np
        from queuecore._core.testing import syscalls
        from queuecore.data import FixedLengthRecordDataset, Options
        warnings.simplefilter("ignore", DeprecationWarning)
        ds = FixedLengthRecordDataset({str(tmp_path / "a")!r}, record=np.dtype("<i4")).permute(1).batch(10)
        ds = ds.with_options(Options(num_threads=2, io="uring"))
        syscalls.set_uncached(True)
        it = iter(ds)
        got = [next(it).copy()]
        child = os.fork()
        if child == 0:
            del it
            with iter(ds) as own:
                whole = sorted(np.concatenate(list(map(np.array, own))).tolist()) == list(range({COUNT}))
                os._exit(0 if whole and own.stats()["io_uring_requests"] > 0 else 3)
        assert os.waitpid(child, 0)[1] == 0
        got += map(np.array, it)
        assert sorted(np.concatenate(got).tolist()) == list(range({COUNT}))
        assert it.stats()["io_uring_requests"] > 0
    """)
    assert child.returncode == 0, child.stderr
