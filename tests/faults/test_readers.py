"""Eager readers when files, storage and systems misbehave, row by row, and the options for that."""

import contextlib
import errno
import gzip
import itertools
import os
import pathlib
import resource
import socket
import threading
import time
import zlib

import numpy as np
import pytest
from helpers.formats.tfrecords import header, stream
from helpers.process import AT_ONCE, PATIENCE, open_descriptors, run_python, soon

import queuecore as qc
from queuecore.errors import (
    ChecksumError,
    DecompressError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    RecordTooLargeError,
    SourceChangedError,
    TruncatedRecordError,
    UnavailableError,
)

BLOCK = 256 << 10  # what is read at once
LINES = b"".join(b"%d" % i * (i % 7) + b"\n" for i in range(2000))
RECORDS = [b"%d" % i * (i % 50) for i in range(600)]
WHOLE = bytes(range(256)) * 30

# Each framing: how to make its reader, the bytes of a file, and the values of its records.
READERS = {
    "lines": (qc.TextLineReader, LINES, LINES.split(b"\n")[:-1]),
    "fixed": (
        lambda **options: qc.FixedLengthRecordReader(100, 7, **options),
        WHOLE,
        [WHOLE[at : at + 100] for at in range(7, len(WHOLE) - 99, 100)],
    ),
    "tfrecord": (qc.TFRecordReader, stream(RECORDS), RECORDS),
    "gzip": (lambda **options: qc.TFRecordReader("GZIP", **options), gzip.compress(stream(RECORDS)), RECORDS),
    "whole": (qc.WholeFileReader, WHOLE, [WHOLE]),
}
KINDS = list(READERS)


@pytest.fixture
def hooks():
    testing = pytest.importorskip("queuecore._core.testing.syscalls")  # only a build with QUEUECORE_TESTING=1 has it
    testing.reset_faults()
    yield testing
    testing.reset_faults()


@pytest.fixture(autouse=True)
def no_descriptor_is_left():
    before = open_descriptors()
    yield
    assert soon(lambda: open_descriptors() <= before)


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """A reader's maker, a file of its own, and the values in it."""
    make, content, values = READERS[request.param]
    path = tmp_path / "file"
    path.write_bytes(content)
    return make, path, values


def drain(reader, work):
    """All values, and the errors on the way."""
    values, errors = [], []
    while True:
        try:
            values.append(reader.read(work)[1])
        except OutOfRangeError:
            return values, errors
        except qc.errors.QueueCoreError as error:
            errors.append(error.with_traceback(None))  # which would keep readers, and their files


# Rows 1 and 4: the end of a file


@pytest.mark.parametrize("size", [0, 1, 6])
def test_files_that_hold_nothing(tmp_path, size):
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    reader = qc.FixedLengthRecordReader(10)
    assert drain(reader, [path, path]) == ([], [])
    assert reader.num_work_units_completed() == 2
    assert reader._native.dropped_tails == (2 if size else 0)


# Row 5: missing, and deleted before its turn


def test_a_file_that_is_gone_before_its_turn(kind, tmp_path):
    make, path, values = kind
    absent_path = tmp_path / "gone"
    absent_path.touch()

    def names():
        yield path
        absent_path.unlink()
        yield absent_path
        yield path

    got, (error,) = drain(make(), names())
    assert got == values * 2
    assert type(error) is NotFoundError and isinstance(error, FileNotFoundError)
    assert (error.errno, error.path, error.filename, error.stage) == (
        errno.ENOENT,
        str(absent_path),
        str(absent_path),
        "open",
    )


# Rows 6, 7 and 8: unlinked, shortened, appended to, rotated


def large(tmp_path, name="large"):
    """A file that takes several reads, and its records of 1000 bytes."""
    content = np.random.default_rng(0).bytes(5 * BLOCK)
    path = tmp_path / name
    path.write_bytes(content)
    return path, [content[at : at + 1000] for at in range(0, len(content) - 999, 1000)]


@pytest.mark.parametrize("way", ["unlinked", "rotated", "appended to", "both"])
def test_the_file_is_what_it_was_when_it_was_opened(tmp_path, way):
    path, values = large(tmp_path)
    reader, work = qc.FixedLengthRecordReader(1000), [path]
    assert reader.read(work)[1] == values[0]
    if way in ("appended to", "both"):
        with path.open("ab") as file:
            file.write(bytes(100_000))
    if way in ("rotated", "both"):
        (tmp_path / "new").write_bytes(b"another")
        os.rename(tmp_path / "new", path)
    elif way == "unlinked":
        path.unlink()
    assert drain(reader, work) == (values[1:], [])


@pytest.mark.parametrize("way", ["another inode", "longer", "rewritten"])
@pytest.mark.parametrize("code", [errno.ESTALE, errno.ETIMEDOUT])
def test_a_file_that_is_opened_again_is_another(tmp_path, hooks, way, code):
    path, values = large(tmp_path)
    reader, work = qc.FixedLengthRecordReader(1000), [path]
    assert reader.read(work)[1] == values[0]
    if way == "another inode":
        (tmp_path / "new").write_bytes(path.read_bytes())
        os.utime(tmp_path / "new", ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        os.rename(tmp_path / "new", path)
    elif way == "longer":
        times = path.stat()
        with path.open("ab") as file:
            file.write(b"more")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    else:
        os.utime(path, ns=(1, 1))
    hooks.fail_read(1, code)
    got, (error,) = drain(reader, work)
    assert type(error) is SourceChangedError and error.path == str(path)
    assert [values[0], *got] == values[: len(got) + 1]
    assert len(got) < len(values) - 1


# Rows 9 to 11: reads that fail, and those that only seem to


@pytest.mark.parametrize("hook", ["one byte", "interrupted", "later", "all"])
def test_short_interrupted_and_delayed_reads_are_invisible(kind, hooks, hook):
    make, path, values = kind
    if hook in ("one byte", "all"):
        hooks.short_reads(1)
    if hook in ("interrupted", "all"):
        hooks.interrupt_reads(3)
    if hook in ("later", "all"):
        hooks.fail_read(2, errno.EAGAIN)
    assert drain(make(), [path]) == (values, [])


@pytest.mark.parametrize("retries", [0, 1])
def test_each_read_fails_once(kind, hooks, retries):
    make, path, values = kind
    piece = path.stat().st_size // 9 + 1
    for nth in range(1, 20):
        hooks.reset_faults()
        hooks.short_reads(piece)
        hooks.fail_read(nth, errno.EIO)
        reader = make(retries=retries)
        results, errors = drain(reader, [path])
        count = hooks.read_count()
        if retries or nth > count:
            assert (results, errors) == (values, [])
            if nth > count:
                break
            continue
        # What can be made of the bytes before it comes first.
        (error,) = errors
        assert type(error) is UnavailableError
        assert (error.errno, error.path, error.stage) == (errno.EIO, str(path), "read")
        assert error.offset == (nth - 1) * piece
        assert results == values[: len(results)] and len(results) < len(values)
        assert reader.num_work_units_completed() == 0
        assert drain(reader, [path])[0] == values  # and it is of use again
    else:
        pytest.fail("never ran to the end")


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_read_that_fails_for_good(kind, hooks, retries):
    make, path, _ = kind
    hooks.fail_read(1, errno.EIO, True)
    begin = time.monotonic()
    got, (error,) = drain(make(retries=retries), [path])
    assert got == [] and error.errno == errno.EIO
    assert hooks.read_count() == 1 + retries
    assert time.monotonic() - begin >= [0, 0.01, 0.03, 0.07][retries]


def test_tries_are_counted_anew_after_each_read_that_works(tmp_path, hooks):
    path, values = large(tmp_path)
    hooks.short_reads(BLOCK // 3)
    reader, work, got = qc.FixedLengthRecordReader(1000, retries=1), [path], []
    for _ in range(8):
        hooks.fail_read(2, errno.EIO)
        got += [reader.read(work)[1] for _ in range(150)]
    assert got == values[: len(got)]


def test_other_errors_are_not_tried_again(kind, hooks):
    make, path, _ = kind
    hooks.fail_read(1, errno.ENOMEM)
    _, (error,) = drain(make(retries=9), [path])
    assert error.errno == errno.ENOMEM
    assert hooks.read_count() == 1


@pytest.mark.parametrize("code", [errno.ESTALE, errno.ETIMEDOUT])
def test_a_file_that_the_system_lost_is_opened_once_more(kind, hooks, code):
    make, path, values = kind
    for nth in (1, 2):
        hooks.reset_faults()
        hooks.short_reads(path.stat().st_size // 2)
        hooks.fail_read(nth, code)
        assert drain(make(), [path]) == (values, [])
    hooks.fail_read(1, code, True)
    _, (error,) = drain(make(), [path])
    assert (type(error), error.errno, hooks.read_count()) == (UnavailableError, code, 2)


def test_a_stop_ends_the_tries_of_a_program(tmp_path, hooks):
    path, _ = large(tmp_path)
    hooks.fail_read(2, errno.EIO, True)
    reader = qc.FixedLengthRecordReader(1000, retries=1_000_000)
    queue = qc.FIFOQueue(-1, [bytes, bytes])
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [qc.StageProgram(reader, [path])] * 2).create_threads(coord, start=True)
    assert soon(lambda: hooks.read_count() > 3, PATIENCE)
    begin = time.monotonic()
    coord.request_stop()
    coord.join(threads, stop_grace_period_secs=PATIENCE)
    assert time.monotonic() - begin < AT_ONCE


WAITS = """
    import os, signal, sys, threading, time
    import queuecore as qc
    from queuecore._core.testing import syscalls
    path, what = sys.argv[1:]
    if what == "tries":
        syscalls.fail_read(1, 5, True)
    reader = qc.WholeFileReader(retries=1_000_000, allow_special=True)
    def interrupt():
        if what == "tries":
            while syscalls.read_count() < 3:
                time.sleep(0.001)
        else:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
    def go_on():
        if what == "tries":
            syscalls.reset_faults()
        else:
            with open(path, "wb") as file:
                file.write(b"late")
"""


@pytest.mark.parametrize("case", ["tries", "pipe"])
def test_ctrl_c_while_it_waits(tmp_path, case):
    """For another try, or for a pipe's first writer. It may go on after that."""
    pytest.importorskip("queuecore._core.testing.syscalls")
    path = tmp_path / "a"
    if case == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"late")
    code = f"""{WAITS}
    threading.Thread(target=interrupt, daemon=True).start()
    begin = time.monotonic()
    try:
        reader.read([path])
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begin < 5)
    threading.Thread(target=go_on, daemon=True).start()
    print(reader.read([path])[1])
    """
    child = run_python(code, path, case)
    assert (child.returncode, child.stdout, child.stderr) == (0, "interrupted True\nb'late'\n", "")


@pytest.mark.parametrize("case", ["tries", "pipe"])
def test_exit_while_a_thread_waits(tmp_path, case):
    pytest.importorskip("queuecore._core.testing.syscalls")
    path = tmp_path / "a"
    if case == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x")
    code = f"""{WAITS}
    threading.Thread(target=lambda: reader.read([path]), daemon=True).start()
    queue = qc.FIFOQueue(1, [bytes, bytes])
    coord = qc.Coordinator()
    other = qc.WholeFileReader(retries=1_000_000, allow_special=True)
    qc.QueueRunner(queue, [qc.StageProgram(other, [path])]).create_threads(coord, start=True)
    time.sleep(0.2)
    sys.exit(3)
    """
    begin = time.monotonic()
    child = run_python(code, path, case)
    assert (child.returncode, child.stdout, child.stderr) == (3, "", "")
    assert time.monotonic() - begin < 10


# Row 12: what can't be opened


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("way", "cls", "code"),
    [
        ("missing", NotFoundError, errno.ENOENT),
        ("below a file", NotFoundError, errno.ENOTDIR),
        ("directory", NotAFileError, errno.EISDIR),
        ("loop", UnavailableError, errno.ELOOP),
        ("forbidden", PermissionDeniedError, errno.EACCES),
        ("long", UnavailableError, errno.ENAMETOOLONG),
    ],
)
@pytest.mark.parametrize("special", [False, True])
def test_files_that_do_not_open(kind, tmp_path, way, cls, code, special):
    make, path, values = kind
    bad = tmp_path / ("x" * 300 if way == "long" else "bad")
    if way == "below a file":
        bad = path / "part"
    elif way == "directory":
        bad.mkdir()
    elif way == "loop":
        bad.symlink_to(bad)
    elif way == "forbidden":
        bad.touch(0)
        if os.access(bad, os.R_OK):
            pytest.skip("this user may read everything: make test")
    got, (error,) = drain(make(allow_special=special), [path, bad, path])
    assert got == values * 2
    assert type(error) is cls and isinstance(error, OSError)
    assert (error.errno, error.path, error.filename, error.stage) == (code, str(bad), str(bad), "open")


# Row 13: pipes, sockets and devices


@pytest.mark.parametrize("way", ["pipe", "socket", "device"])
def test_what_is_no_file_is_refused_without_waiting(kind, tmp_path, monkeypatch, way):
    make, path, values = kind
    bad = tmp_path / "bad"
    if way == "pipe":
        os.mkfifo(bad)
    elif way == "device":
        bad = pathlib.Path("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            monkeypatch.chdir(tmp_path)  # the names of sockets are short
            server.bind("bad")
    begin = time.monotonic()
    got, (error,) = drain(make(), [bad, path])
    assert time.monotonic() - begin < AT_ONCE
    assert got == values
    assert type(error) is UnavailableError and error.path == str(bad)
    assert way == "socket" or "allow_special=True" in str(error)


def write_slowly(path, content, pieces, started=None):
    with open(path, "wb", buffering=0) as file:
        for at in range(0, len(content), max(len(content) // pieces, 1)):
            file.write(content[at : at + max(len(content) // pieces, 1)])
            if started is not None:
                started.wait(PATIENCE)


@pytest.mark.parametrize("pieces", [1, 7, 300])
def test_a_pipe(kind, tmp_path, pieces):
    make, path, values = kind
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_slowly, args=(pipe, path.read_bytes(), pieces))
    writer.start()
    reader = make(allow_special=True)
    assert drain(reader, [pipe, path]) == (values * 2, [])
    writer.join(PATIENCE)
    assert reader.num_work_units_completed() == 2


def test_a_pipe_gives_what_it_has(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    go_on = threading.Event()
    writer = threading.Thread(target=write_slowly, args=(pipe, b"1st\n2nd\n3rd\n", 3, go_on))
    writer.start()
    reader, work = qc.TextLineReader(allow_special=True), [pipe]
    assert reader.read(work)[1] == b"1st"  # the writer waits for us
    go_on.set()
    rest = []
    while len(rest) < 2:
        values = reader.read_up_to(work, 10)[1].to_list()
        assert values
        rest += values
    assert rest == [b"2nd", b"3rd"]
    with pytest.raises(OutOfRangeError):
        reader.read(work)
    writer.join(PATIENCE)


def test_a_pipe_whose_writer_says_nothing(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_slowly, args=(pipe, b"", 1))
    writer.start()
    assert qc.WholeFileReader(allow_special=True).read([pipe])[1] == b""
    writer.join(PATIENCE)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_pipe_that_ends_in_a_record(tmp_path, compressed):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = stream([b"one", b"two"])[:-3]
    writer = threading.Thread(target=write_slowly, args=(pipe, gzip.compress(content) if compressed else content, 3))
    writer.start()
    got, (error,) = drain(qc.TFRecordReader("GZIP" if compressed else None, allow_special=True), [pipe])
    writer.join(PATIENCE)
    assert got == [b"one"]
    assert type(error) is TruncatedRecordError
    assert (error.path, error.offset, error.record) == (str(pipe), 19, 1)


def test_short_and_interrupted_reads_of_a_pipe(kind, tmp_path, hooks):
    make, path, values = kind
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hooks.short_reads(97)
    hooks.interrupt_reads(2)
    writer = threading.Thread(target=write_slowly, args=(pipe, path.read_bytes(), 5))
    writer.start()
    assert drain(make(allow_special=True), [pipe]) == (values, [])
    writer.join(PATIENCE)


def test_a_program_over_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    go_on = threading.Event()
    writer = threading.Thread(target=write_slowly, args=(pipe, bytes(range(40)), 2, go_on))
    writer.start()
    queue = qc.FIFOQueue(-1, [np.uint8], [(10,)])
    reader = qc.FixedLengthRecordReader(10, allow_special=True)
    program = qc.StageProgram(reader, [pipe], qc.ops.decode_raw(out_type=np.uint8))
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    first = queue.dequeue(timeout=PATIENCE).tolist()  # while the writer waits for us
    go_on.set()
    rows = [first, *(row.tolist() for row in queue)]
    assert sorted(rows) == [list(range(at, at + 10)) for at in range(0, 40, 10)]
    coord.join(threads)
    writer.join(PATIENCE)


def test_a_stop_ends_a_program_that_waits_for_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    queue = qc.FIFOQueue(-1, [bytes, bytes])
    coord = qc.Coordinator()
    program = qc.StageProgram(qc.TextLineReader(allow_special=True), [pipe])
    threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    assert soon(lambda: threads[0].is_alive())
    begin = time.monotonic()
    coord.request_stop()
    coord.join(threads, stop_grace_period_secs=PATIENCE)
    assert time.monotonic() - begin < AT_ONCE


def test_devices():
    reader = qc.WholeFileReader(allow_special=True, max_record_bytes=1 << 20)
    assert reader.read(["/dev/null"]) == (b"/dev/null", b"")
    with pytest.raises(RecordTooLargeError, match="more than the limit of 1048576"):
        reader.read(["/dev/zero"])
    with pytest.raises(RecordTooLargeError):
        qc.TextLineReader(allow_special=True, max_record_bytes=1000).read(["/dev/zero"])
    assert qc.FixedLengthRecordReader(5, allow_special=True).read(["/dev/zero"])[1] == bytes(5)


# Row 14: names


@pytest.mark.parametrize("name", [b"a\nb", b"\xff\xfe", "ä €".encode(), b" ", b"a:1"])
def test_odd_names(kind, tmp_path, name):
    make, path, values = kind
    odd = os.fsencode(tmp_path) + b"/" + name
    os.rename(path, odd)
    reader = make()
    key = reader.read([odd])[0]
    assert key == odd or key.rpartition(b":")[0] == odd
    assert drain(make(), [os.fsdecode(odd)]) == (values, [])
    os.truncate(odd, 0)
    os.unlink(odd)
    _, (error,) = drain(make(), [odd])
    assert os.fsencode(error.path) == os.fsencode(error.filename) == odd
    assert "\n" not in str(error)


def test_a_zero_in_a_name(kind):
    make, path, values = kind
    got, (error,) = drain(make(), [b"a\0b", path])
    assert got == values
    assert type(error) is InvalidArgumentError and error.path == "a\0b"


# Row 15: many files


def test_descriptors_while_many_files_are_read(tmp_path):
    paths = [tmp_path / str(index) for index in range(500)]
    for path in paths:
        path.write_bytes(b"x\n")
    before, reader, most = open_descriptors(), qc.TextLineReader(), 0
    for _ in paths:
        reader.read(paths)
        most = max(most, open_descriptors() - before)
    assert most <= 1


# Row 16: no more descriptors


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files(kind, hooks, code):
    make, path, values = kind
    hooks.fail_open(1, code)
    got, (error,) = drain(make(), [path, path])
    assert got == values
    assert type(error) is UnavailableError
    assert (error.errno, error.path) == (code, str(path))
    assert str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) in str(error) and "ulimit" in str(error)


# Row 19: a read that never comes back

STUCK = """
    import sys, time
    import queuecore as qc
    from queuecore._core.testing import syscalls
    path, finish = sys.argv[1:]
    syscalls.set_read_delay(3600)
    queue = qc.FIFOQueue(4, [bytes, bytes])
    coord = qc.Coordinator()
    program = qc.StageProgram(qc.TextLineReader(), [path])
    threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    deadline = time.monotonic() + 10
    while syscalls.read_count() == 0:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    begin = time.monotonic()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("finish", ["join", "exit", "close"])
def test_a_read_that_never_comes_back(tmp_path, finish):
    pytest.importorskip("queuecore._core.testing.syscalls")
    (tmp_path / "a").write_bytes(b"a\nb\n")
    code = f"""{STUCK}
    if finish == "join":
        coord.request_stop()
        try:
            coord.join(threads, stop_grace_period_secs=0.5)
        except RuntimeError as error:
            print("named" if any(thread.name in str(error) for thread in threads) else error)
    elif finish == "close":
        queue.close(cancel_pending_enqueues=True, timeout=1)
        try:
            queue.dequeue(timeout=1)
        except qc.errors.OutOfRangeError:
            print("closed")
    assert time.monotonic() - begin < 5
    sys.exit(3)
    """
    begin = time.monotonic()
    child = run_python(code, tmp_path / "a", finish)
    assert (child.returncode, child.stderr) == (3, "")
    assert child.stdout == {"join": "named\n", "close": "closed\n", "exit": ""}[finish]
    assert time.monotonic() - begin < 10


def test_a_thread_that_waits_for_a_stuck_reader_is_not_stuck(tmp_path, hooks):
    (tmp_path / "a").write_bytes(b"a\n")
    hooks.set_read_delay(2 * PATIENCE)
    reader = qc.TextLineReader()
    thread = threading.Thread(target=lambda: reader.read([tmp_path / "a"]))
    thread.start()
    assert soon(lambda: hooks.read_count() == 1)
    assert reader.num_records_produced() == reader.num_work_units_completed() == 0
    hooks.set_read_delay(0)
    thread.join(PATIENCE)
    assert reader.num_records_produced() == 1


# Row 24, and limits


def write_until_broken(path, content):
    with contextlib.suppress(BrokenPipeError), open(path, "wb", buffering=0) as file:
        file.write(content)


HUGE = [2**30 + 1, 2**31, 2**32 + 1, 2**63, 2**64 - 1]

FENCED = """
    import pathlib, resource, sys
    import queuecore as qc
    from queuecore.errors import *
    plain, packed, long = sys.argv[1:]
    qc.TFRecordReader().read([long]), qc.TFRecordReader("GZIP").read([packed + ".good"])
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20),) * 2)
    def outcome(reader, path):
        try:
            reader.read([path])
        except Exception as error:
            return type(error).__name__
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("length", [*HUGE, 2**30, 2**28])
def test_nothing_is_allocated_for_a_length_that_can_not_be(tmp_path, length):
    """The process could not have it: 24 MiB are all that it may still take."""
    content = header(length) + bytes(1_000_000)  # more than is read at once
    (tmp_path / "plain").write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=write_until_broken, args=(tmp_path / "pipe", content))
    writer.start()
    (tmp_path / "packed").write_bytes(gzip.compress(content))
    (tmp_path / "packed.good").write_bytes(gzip.compress(stream([b"x"])))
    (tmp_path / "long").write_bytes(stream([b"x"]))
    code = f"""{FENCED}
    print(outcome(qc.TFRecordReader(), plain), outcome(qc.TFRecordReader("GZIP"), packed))
    print(outcome(qc.TFRecordReader(allow_special=True), plain.replace("plain", "pipe")))
    """
    child = run_python(code, tmp_path / "plain", tmp_path / "packed", tmp_path / "long")
    writer.join(PATIENCE)
    expected = "RecordTooLargeError" if length > 2**30 else "TruncatedRecordError"
    assert (child.stdout, child.stderr) == (f"{expected} {expected}\n{expected}\n", "")


def test_the_limit_is_looked_at_before_what_is_left(tmp_path):
    """What is over both is too large; over what is left alone, cut."""
    path = tmp_path / "a"
    for length, bytes_left, limit, expected in (
        (100, 50, 99, RecordTooLargeError),
        (100, 50, 100, TruncatedRecordError),
        (100, 104, 99, RecordTooLargeError),
        (100, 104, 100, None),
        (2**64 - 1, 0, 2**40, RecordTooLargeError),
        (0, 4, 0, None),
        (1, 5, 0, RecordTooLargeError),
    ):
        content = (stream([bytes(length)]) if length < 1000 else header(length))[: 12 + bytes_left]
        path.write_bytes(stream([]) + content)
        got, errors = drain(qc.TFRecordReader(max_record_bytes=limit), [path])
        assert [type(error) for error in errors] == [expected] * (expected is not None)
        assert got == ([bytes(length)] if expected is None else [])
        if expected is RecordTooLargeError:
            assert errors[0].offset == 0 and str(length) in str(errors[0]) and str(limit) in str(errors[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("limit", [0, 1, 10, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_lines_of_the_longest_length(tmp_path, limit, end):
    path = tmp_path / "a"
    for extra in (-1, 0, 1, 2):
        if limit + extra < 0 or (end == b"" and limit + extra == 0):
            continue
        for before in (b"", b"\n" * 5, b"\n" * BLOCK if limit >= BLOCK else b"\n"):
            line = b"x" * (limit + extra)
            path.write_bytes(before + line + end)
            reader, work = qc.TextLineReader(max_record_bytes=limit), [path]
            if before:
                reader.read_up_to(work, len(before))
            if extra <= 0:
                assert reader.read(work)[1] == line
                assert drain(reader, work) == ([], [])
                continue
            with pytest.raises(RecordTooLargeError, match="raise|raised") as caught:
                reader.read(work)
            assert (caught.value.path, caught.value.offset, caught.value.record) == (
                str(path),
                len(before),
                len(before),
            )
            assert drain(reader, work) == ([], [])


@pytest.mark.parametrize("size", [0, 1, 1000, 2 * BLOCK])
def test_whole_files_of_the_longest_length(tmp_path, size, hooks):
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    assert qc.WholeFileReader(max_record_bytes=size).read([path])[1] == b"x" * size
    hooks.reset_faults()
    path.write_bytes(b"x" * (size + 1))
    with pytest.raises(RecordTooLargeError, match=f"has {size + 1} bytes, more than the limit of {size}") as caught:
        qc.WholeFileReader(max_record_bytes=size).read([path])
    assert (caught.value.path, caught.value.offset) == (str(path), 0)
    assert hooks.read_count() == 0  # before anything is read


def test_no_more_of_a_line_than_its_limit_is_in_memory(tmp_path):
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(1 << 32)
    code = """
    import resource, sys
    import queuecore as qc
    def used():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader = qc.TextLineReader(max_record_bytes=16 << 20)
    before = used()
    try:
        reader.read([sys.argv[1]])
    except qc.errors.RecordTooLargeError:
        print(used() - before < 40 << 10)
    """
    assert run_python(code, path).stdout == "True\n"


def test_a_whole_file_has_a_limit(tmp_path):
    with (tmp_path / "long").open("wb") as file:
        file.truncate((1 << 30) + 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RecordTooLargeError, match="max_record_bytes") as caught:
        qc.WholeFileReader().read([tmp_path / "long"])
    assert caught.value.path == str(tmp_path / "long")
    with pytest.raises(RecordTooLargeError, match="max_record_bytes") as caught:
        next(iter(qc.data.WholeFileDataset(tmp_path / "long")))
    assert caught.value.path == str(tmp_path / "long")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert repr(qc.WholeFileReader(max_record_bytes=None)) != repr(qc.WholeFileReader()) == "WholeFileReader()"


@pytest.mark.parametrize(
    "options",
    [
        *({"retries": -1}, {"retries": 1.5}),
        *({"max_record_bytes": -1}, {"max_record_bytes": 1 << 62}, {"max_record_bytes": "1"}),
    ],
)
@pytest.mark.parametrize("make", [qc.TextLineReader, qc.TFRecordReader, qc.WholeFileReader])
def test_options_that_can_not_be(make, options):
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        make(**options)


def test_options_are_shown():
    assert repr(qc.TextLineReader(1, max_record_bytes=5, retries=2, allow_special=True)) == (
        "TextLineReader(skip_header_lines=1, max_record_bytes=5, retries=2, allow_special=True)"
    )
    assert repr(qc.TFRecordReader("GZIP", retries=2)) == "TFRecordReader('GZIP', retries=2)"
    assert repr(qc.WholeFileReader(max_record_bytes=7)) == "WholeFileReader(max_record_bytes=7)"
    assert repr(qc.FixedLengthRecordReader(3, retries=1)) == "FixedLengthRecordReader(3, retries=1)"
    for usual in (qc.TextLineReader(), qc.TFRecordReader(), qc.WholeFileReader()):
        assert repr(usual) == f"{type(usual).__name__}()"


# All at once


def test_reads_that_fail_at_any_place_of_many_files(tmp_path, hooks):
    """With tries enough, nothing shows, from however many threads."""
    paths, values = [], []
    for index in range(3):
        path, own = large(tmp_path, str(index))
        paths.append(path)
        values += own
    for nth in itertools.count(1, 3):
        hooks.reset_faults()
        hooks.short_reads(BLOCK // 2)
        hooks.fail_read(nth, errno.EIO)
        reader, results = qc.FixedLengthRecordReader(1000, retries=1), [[], []]
        threads = [
            threading.Thread(target=lambda own=own, reader=reader: own.extend(drain(reader, paths)[0]))
            for own in results
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(results[0] + results[1]) == sorted(values)
        if nth > hooks.read_count():
            break


# Rows 3, 22, 23, 25 and 26: damage, seen by a reader


def flipped(data, bit):
    data = bytearray(data)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def test_each_bit_of_a_record(tmp_path):
    """Damage to the data costs that record; damage to its length costs what comes after it in that file."""
    records = [b"first", b"one", b"last"]
    data, start = stream(records), len(stream(records[:1]))
    good = tmp_path / "good"
    good.write_bytes(stream([b"next file"]))
    for bit in range(8 * start, 8 * (start + 16 + 3)):
        path = tmp_path / "bad"
        path.write_bytes(flipped(data, bit))
        reader = qc.TFRecordReader()
        got, (error,) = drain(reader, [path, good])
        in_length = bit < 8 * (start + 12)
        assert type(error) is ChecksumError and ("length" in str(error)) == in_length
        assert (error.path, error.offset, error.record, error.stage) == (str(path), start, 1, "read")
        assert got == [b"first", *([] if in_length else [b"last"]), b"next file"]
        assert reader.num_work_units_completed() == (1 if in_length else 2)


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("encoding", [None, "GZIP"])
def test_the_search_after_a_record_over_the_limit(tmp_path, encoding, piped):
    content = stream([b"a" * 50, b"b" * 51, b"c", b"d" * 50])
    path = tmp_path / "a"
    writer = threading.Thread(target=write_slowly, args=(path, gzip.compress(content) if encoding else content, 9))
    if piped:
        os.mkfifo(path)
    writer.start()
    if not piped:
        writer.join(PATIENCE)
    got, (error,) = drain(qc.TFRecordReader(encoding, resync=True, max_record_bytes=50, allow_special=True), [path])
    writer.join(PATIENCE)
    assert got == [b"a" * 50, b"c", b"d" * 50]
    assert type(error) is RecordTooLargeError and (error.offset, error.record) == (66, 1)


@pytest.mark.parametrize("encoding", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("way", ["cut", "checksum", "block", "trailing"])
def test_damaged_compression(tmp_path, encoding, way):
    content = np.random.default_rng(0).bytes(40_000) * 2
    data = bytearray(gzip.compress(content) if encoding == "GZIP" else zlib.compress(content))
    if way == "cut":
        del data[len(data) // 2 :]
    elif way == "checksum":
        data[-1] ^= 1
    elif way == "block":
        data[len(data) // 2 : len(data) // 2 + 100] = b"\xff" * 100
    else:
        data += b"garbage"
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(data)
    good.write_bytes(gzip.compress(b"x" * 100) if encoding == "GZIP" else zlib.compress(b"x" * 100))
    results, (error,) = drain(qc.FixedLengthRecordReader(100, encoding=encoding), [bad, good])
    assert type(error) is DecompressError
    assert error.path == str(bad) and 0 < error.offset <= len(data)
    values = [content[at : at + 100] for at in range(0, len(content), 100)]
    assert results.pop() == b"x" * 100
    if way == "block":  # what is made of it before it shows may be anything
        assert results[:100] == values[:100]
    else:
        assert results == values[: len(results)]
        assert len(results) >= {"cut": 150}.get(way, len(values))


def test_members_and_zeros(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(stream([b"one"])[:10]) + gzip.compress(stream([b"one"])[10:]) + bytes(1000))
    assert drain(qc.TFRecordReader("GZIP"), [path]) == ([b"one"], [])


# Its allocator takes what this process may not have.
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer's memory")
def test_a_bomb_is_streamed(tmp_path):
    """A thousand to one, in a process that may take 24 MiB more than it has."""
    zeros = gzip.compress(bytes(1 << 20))
    (tmp_path / "plain").write_bytes(zeros * 200)
    (tmp_path / "packed").write_bytes(gzip.compress(header(1 << 29)) + zeros * 200)
    (tmp_path / "packed.good").write_bytes(gzip.compress(stream([b"x"])))
    (tmp_path / "long").write_bytes(stream([b"x"]))
    code = f"""{FENCED}
    reader, names, count = qc.FixedLengthRecordReader(1 << 16, encoding="GZIP"), [plain], 0
    while True:
        try:
            count += len(reader.read_up_to(names, 10)[1])
        except OutOfRangeError:
            break
    print(count, outcome(qc.TFRecordReader("GZIP", max_record_bytes=1 << 20), packed))
    """
    child = run_python(code, tmp_path / "plain", tmp_path / "packed", tmp_path / "long")
    assert (child.stdout, child.stderr) == ("3200 RecordTooLargeError\n", "")
