"""Programs with user code, and programs that leave out what is bad: at exits, in forked children, over bad storage."""

import errno
import gc
import os
import textwrap
import threading

import numpy as np
import pytest
from helpers.process import PATIENCE, open_descriptors, run_python, soon
from helpers.queues.counts import counts_of
from helpers.queues.drain import drain

import queuecore as qc
from queuecore.errors import ForkedPipelineError, UnavailableError

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
    coord = qc.Coordinator()
    called = threading.Event()
    def start(function, capacity=4, count=2, **options):
        queue = qc.FIFOQueue(capacity, [object], [()])
        program = qc.StageProgram(qc.FixedLengthRecordReader(10), itertools.cycle([path]), function, **options)
        return queue, program, qc.QueueRunner(queue, [program] * count).create_threads(coord, start=True)
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(range(100)))
    return file


@pytest.fixture
def hooks():
    testing = pytest.importorskip("queuecore._core.testing.syscalls")
    testing.reset_faults()
    yield testing
    testing.reset_faults()


def ends(code, *arguments):
    """Run the set-up and a script, which must print nothing on stderr; return its exit code and its output."""
    child = run_python(textwrap.dedent(SETUP) + textwrap.dedent(code), *arguments)
    assert child.stderr == ""
    return child.returncode, child.stdout


FUNCTIONS = {
    "returns": "return len(value)",
    "waits for room": "return len(value)",
    "sleeps": "called.set(); time.sleep(1000)",
    "waits": "called.set(); threading.Event().wait()",
    "fails": "called.set(); raise ValueError",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", FUNCTIONS)
@pytest.mark.parametrize("finish", ["pass", "sys.exit(3)", "os._exit(3)"])
def test_exit_while_functions_run(path, case, finish):
    """Their threads are left behind, silently."""
    code = f"""
        def work(value):
            {FUNCTIONS[case]}
        queue, program, threads = start(work, on_error="skip", quarantine=path + ".log")
        soon(lambda: queue.size() == 4 if "return" in {FUNCTIONS[case]!r} else called.is_set())
        if {case!r} == "returns":
            for _ in range(1000):
                queue.dequeue()
        {finish}
    """
    assert ends(code, path) == (0 if finish == "pass" else 3, "")


def test_ctrl_c_while_the_consumer_waits_for_a_function(path):
    code = """
        def work(value):
            called.set()
            threading.Event().wait()
        queue, program, threads = start(work)
        def interrupt():
            called.wait()
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            queue.dequeue()
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert ends(code, path) == (0, "interrupted\n")


def test_a_stop_is_heard_while_everything_is_left_out(path):
    """An endless list of files that aren't there, or of records that are bad."""
    for work in ([b"/nonexistent/file"], [path]):
        calls = []

        def names(work=work, calls=calls):
            while True:
                calls.append(None)
                yield from work

        def bad(value):
            raise ValueError

        queue = qc.FIFOQueue(4, [bytes], [()])
        program = qc.StageProgram(qc.FixedLengthRecordReader(10), names(), bad, on_error="skip")
        coord = qc.Coordinator()
        threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
        assert soon(lambda calls=calls: len(calls) > 100, PATIENCE)
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=PATIENCE)
        assert program.stats()["records"] == 0
        assert sum(program.stats().values()) > 90


def test_a_forked_child_is_told(path):
    queue = qc.FIFOQueue(4, [object], [()])
    program = qc.StageProgram(qc.FixedLengthRecordReader(10), [path], bytes, on_error="skip")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            coord = qc.Coordinator()
            coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
        except ForkedPipelineError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Faults of the machine are left out by nobody


def test_reads_that_fail(tmp_path, hooks):
    """A failed read is raised, and not the rest of a file given up, whichever read it is."""
    paths = []
    for index in range(3):
        paths.append(tmp_path / str(index))
        paths[-1].write_bytes(bytes([index]) * 600_000)
    for nth in range(1, 12):
        hooks.reset_faults()
        hooks.fail_read(nth, errno.EIO, True)
        queue = qc.FIFOQueue(-1, [np.uint8], [(1000,)])
        program = qc.StageProgram(
            qc.FixedLengthRecordReader(1000), list(paths), qc.ops.decode_raw(out_type=np.uint8), on_error="skip"
        )
        coord = qc.Coordinator()
        threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
        items, error = drain(queue)
        cause = error.__cause__
        hooks.reset_faults()
        if cause is None:
            assert len(items) == 1800 and nth > 6
            coord.join(threads)
            return
        assert type(cause) is UnavailableError and cause.errno == errno.EIO
        with pytest.raises(UnavailableError):
            coord.join(threads)
        assert counts_of(program) == {"records": len(items), "skipped": 0, "skipped_files": 0, "skipped_bytes": 0}
        assert len(items) == 600 * int(cause.path[-1]) + cause.record


@pytest.mark.parametrize(("code", "skipped"), [(errno.EMFILE, False), (errno.EIO, False), (errno.ENOENT, True)])
def test_opens_that_fail(path, hooks, code, skipped):
    hooks.fail_open(2, code)
    queue = qc.FIFOQueue(-1, [bytes], [()])
    program = qc.StageProgram(qc.FixedLengthRecordReader(50), [path] * 3, bytes, on_error="skip")
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    items, error = drain(queue)
    cause = error.__cause__
    if skipped:
        coord.join(threads)
        assert cause is None and len(items) == 4
    else:
        with pytest.raises(UnavailableError):
            coord.join(threads)
        assert cause.errno == code and len(items) == 2
    assert program.stats()["skipped_files"] == skipped


def test_a_file_that_gets_shorter(tmp_path):
    """Its rest is given up; how much that was is not known to a byte, for it wasn't there any more."""
    paths = [tmp_path / name for name in "ab"]
    for file in paths:
        file.write_bytes(bytes(600_000))
    reader = qc.FixedLengthRecordReader(1000)
    seen = []

    def cut(value):
        if not seen:
            os.truncate(paths[0], 300_000)
        seen.append(reader.num_work_units_completed())
        return value

    queue = qc.FIFOQueue(-1, [bytes], [()])
    program = qc.StageProgram(reader, list(paths), cut, on_error="skip")
    coord = qc.Coordinator()
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    counts = program.stats()
    assert (counts["skipped"], counts["skipped_files"]) == (0, 1)
    assert 601 <= counts["records"] == queue.size() <= 900
    assert counts["skipped_bytes"] == 1_200_000 - 1000 * counts["records"]


def test_a_function_without_memory(path):
    """It is no bad record, whoever says so."""

    def large(value):
        raise MemoryError("mine")

    queue = qc.FIFOQueue(-1, [bytes], [()])
    program = qc.StageProgram(qc.FixedLengthRecordReader(10), [path], large, on_error="skip")
    coord = qc.Coordinator()
    qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    cause = drain(queue)[1].__cause__
    assert isinstance(cause.__cause__, MemoryError)
    assert program.stats()["skipped"] == 0


def test_nothing_is_left_open(path):
    """After runs that end by the data, by an error and by a stop."""
    gc.collect()  # errors of other tests, and the frames that they came through
    before, alive = open_descriptors(), threading.active_count()
    for function, limit in ((bytes, None), (lambda value: 1 / (value[0] - 50), 3), (lambda value: 1 / 0, 3)):
        queue = qc.FIFOQueue(-1, [object], [()])
        program = qc.StageProgram(
            qc.FixedLengthRecordReader(10),
            [path, "/nonexistent/file", path],
            function,
            on_error="skip",
            max_skips=limit,
            quarantine=f"{path}.log",
        )
        coord = qc.Coordinator()
        threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
        drain(queue)
        for thread in threads:
            thread.join(PATIENCE)
        del program, queue, coord, threads
    gc.collect()
    assert threading.active_count() <= alive
    assert soon(lambda: open_descriptors() <= before)  # native threads of an earlier test may have ended meanwhile
