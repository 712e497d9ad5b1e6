"""Stage programs and readers at the end of processes, in forked children, under signals and over bad storage."""

import errno
import itertools
import os
import textwrap

import numpy as np
import pytest
from helpers.process import PATIENCE, run_python, soon

import queuecore as qc
from queuecore.errors import ForkedPipelineError, OutOfRangeError, SourceChangedError, UnavailableError

SETUP = """
    import itertools, os, signal, sys, threading, time
    import numpy as np
    import queuecore as qc
    def soon(condition):
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.001)
    path = sys.argv[1]
    names = qc.FIFOQueue(-1, [str])
    queue = qc.FIFOQueue(4, [np.uint8], [(10,)])
    def programs(work, count=2):
        reader = qc.FixedLengthRecordReader(10)
        return [qc.StageProgram(reader, work, qc.ops.decode_raw(out_type=np.uint8))] * count
    coord = qc.Coordinator()
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(range(100)))
    return file


def ends(code, *arguments):
    """Run the set-up and a script, which must print nothing on stderr; return its exit code and its output."""
    child = run_python(textwrap.dedent(SETUP) + textwrap.dedent(code), *arguments)
    assert child.stderr == ""
    return child.returncode, child.stdout


@pytest.mark.sampled(4)
@pytest.mark.parametrize("work", ["itertools.cycle([path])", "[path]", "names"])
@pytest.mark.parametrize("finish", ["pass", "sys.exit(3)", "os._exit(3)"])
def test_exit_while_programs_wait(path, work, finish):
    """For room, for names, and for the reader."""
    code = f"""
        threads = qc.QueueRunner(queue, programs({work})).create_threads(coord, start=True)
        soon(lambda: queue.size() == 4 or names.stats()["waiting_dequeues"])
        {finish}
    """
    assert ends(code, path) == (0 if finish == "pass" else 3, "")


def test_exit_while_programs_run(path):
    code = """
        threads = qc.QueueRunner(queue, programs(itertools.cycle([path]), 4)).create_threads(coord, start=True)
        queue.dequeue_many(1000)
    """
    assert ends(code, path) == (0, "")


@pytest.mark.parametrize("wait", ["qc.IdentityReader().read(names)", "reading_too()"])
def test_ctrl_c_while_a_reader_waits(path, wait):
    """For a name, or for the thread that waits for a name."""
    code = f"""
        def reading_too():
            reader = qc.IdentityReader()
            threading.Thread(target=lambda: reader.read(names), daemon=True).start()
            soon(lambda: names.stats()["waiting_dequeues"] == 1)
            reader.read(names)
        def interrupt():
            soon(lambda: names.stats()["waiting_dequeues"] == 1)
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert ends(code, path) == (0, "interrupted\n")


def test_a_forked_child_is_told(path):
    reader = qc.WholeFileReader()
    queue = qc.FIFOQueue(4, [bytes, bytes])
    program = qc.StageProgram(reader, [path])
    reader.read([path])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                reader.read([path])
            except ForkedPipelineError:
                coord = qc.Coordinator()
                coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
        except ForkedPipelineError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Storage


@pytest.fixture
def hooks():
    testing = pytest.importorskip("queuecore._core.testing.syscalls")
    testing.reset_faults()
    yield testing
    testing.reset_faults()


def values(reader, work):
    got = []
    while True:
        try:
            got.append(reader.read(work)[1])
        except OutOfRangeError:
            return got


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: qc.FixedLengthRecordReader(10, 3, 5, 7), [bytes(range(s, s + 10)) for s in range(3, 86, 7)]),
        (lambda: qc.TextLineReader(), [bytes(range(10)), bytes(range(11, 100))]),
        (lambda: qc.WholeFileReader(), [bytes(range(100))]),
    ],
)
def test_short_and_interrupted_reads_are_invisible(path, hooks, make, expected):
    hooks.short_reads(1)
    hooks.interrupt_reads(2)
    assert values(make(), [path]) == expected


def test_a_read_fails(tmp_path, hooks):
    paths = []
    for index in range(3):
        paths.append(tmp_path / str(index))
        paths[-1].write_bytes(bytes([index]) * 600_000)
    for nth in itertools.count(1):
        hooks.reset_faults()
        hooks.fail_read(nth, errno.EIO, False)
        reader, work, results = qc.FixedLengthRecordReader(1000), list(paths), []
        failed = None
        while True:
            try:
                results.append(reader.read(work))
            except UnavailableError as error:
                assert failed is None
                failed = error
            except OutOfRangeError:
                break
        hooks.reset_faults()
        if failed is None:
            assert len(results) == 1800
            assert nth > 9
            return
        # Records before the fault, then the files after it.
        assert failed.errno == errno.EIO and failed.path in map(str, paths)
        bad = [str(one) for one in paths].index(failed.path)
        counts = [failed.record if index == bad else 600 for index in range(3)]
        whole = [f"{one}:{i}".encode() for one, count in zip(paths, counts, strict=True) for i in range(count)]
        assert [key for key, _ in results] == whole
        assert failed.record * 1000 <= failed.offset
        assert reader.num_work_units_completed() == 2


def test_a_file_that_gets_shorter(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(bytes(600_000))
    reader, work = qc.FixedLengthRecordReader(1000), [file]
    for _ in range(3):
        reader.read(work)
    os.truncate(file, 300_000)
    count = 3
    with pytest.raises(SourceChangedError) as caught:
        while True:
            reader.read(work)
            count += 1
    assert caught.value.path == str(file)
    assert 3 <= count <= 300


def test_a_file_that_grows(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(bytes(600_000))
    reader, work = qc.FixedLengthRecordReader(1000), [file]
    reader.read(work)
    with open(file, "ab") as out:
        out.write(bytes(600_000))
    assert len(values(reader, work)) == 599


def test_a_program_over_bad_storage(tmp_path, hooks):
    file = tmp_path / "a"
    file.write_bytes(bytes(600_000))
    queue = qc.FIFOQueue(-1, [np.uint8], [(1000,)])
    program = qc.StageProgram(qc.FixedLengthRecordReader(1000), [file], qc.ops.decode_raw(out_type=np.uint8))
    hooks.fail_read(2, errno.EIO, True)
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    with pytest.raises(UnavailableError) as caught:
        coord.join(threads)
    assert caught.value.errno == errno.EIO
    assert len(queue.dequeue_up_to(1000)) == caught.value.record
    with pytest.raises(OutOfRangeError) as ended:
        queue.dequeue()
    assert ended.value.__cause__ is caught.value


def test_others_keep_the_queue_full_while_one_reader_is_stuck(tmp_path):
    """Its read ends when the test lets it: until then nobody waits for it."""
    (tmp_path / "a").write_bytes(bytes(60_000))
    os.mkfifo(tmp_path / "stuck")
    descriptor = os.open(tmp_path / "stuck", os.O_RDWR)
    queue = qc.FIFOQueue(8, [bytes, bytes], [(), ()])
    names = [tmp_path / "stuck", tmp_path / "a", tmp_path / "a"]
    programs = [qc.StageProgram(qc.FixedLengthRecordReader(1000, allow_special=True), [name] * 50) for name in names]
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, programs).create_threads(coord, start=True)
    for _ in range(100):
        assert soon(lambda: queue.size() == 8, PATIENCE)
        assert not any(any(content) for content in queue.dequeue_many(8)[1])
    os.write(descriptor, b"\xff" * 1000)
    while not any(queue.dequeue()[1]):
        pass
    coord.request_stop()
    queue.close(cancel_pending_enqueues=True)
    os.close(descriptor)
    coord.join(threads, stop_grace_period_secs=PATIENCE)


def test_a_slow_disk_holds_up_nobody_else(tmp_path, hooks):
    """A stop is heard by who waits for the reader, while its holder is in a system call."""
    file = tmp_path / "a"
    file.write_bytes(bytes(600_000))
    queue = qc.FIFOQueue(-1, [bytes, bytes])
    reader = qc.FixedLengthRecordReader(1000)
    hooks.set_read_delay(3600)
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [qc.StageProgram(reader, [file])] * 3).create_threads(coord, start=True)
    coord.request_stop()
    assert soon(lambda: sum(thread.is_alive() for thread in threads[:3]) <= 1)
    hooks.set_read_delay(0)
    coord.join(threads, stop_grace_period_secs=PATIENCE)
