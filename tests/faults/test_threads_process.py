"""Threads that memory ends for; and the end of a program whose threads wait."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import textwrap
import threading
import time

import pytest
from helpers import process

from queuecore._runners.threads import Thread

pytestmark = pytest.mark.watchdog(150)


def run_python(code, *arguments):
    return process.run_python(code, *arguments, timeout=120)  # nothing here depends on how long a start of Python takes


# ---- starting threads where memory ends

STARTS = {
    "a runner's": """
        def start(work):
            q = qc.FIFOQueue(1, ["i4"], [()])
            thread, = qc.QueueRunner(q, [work]).create_threads()
            thread.start()
        def over():
            raise qc.errors.OutOfRangeError("over")
    """,
    "a looper's": """
        def start(work):
            qc.LooperThread.loop(qc.Coordinator(), None, work)
        def over():
            raise ZeroDivisionError
    """,
    "a helper's": """
        from queuecore._runners.threads import start_thread
        def start(work):
            start_thread("qc-test", work)
        def over():
            pass
    """,
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", STARTS)
def test_a_start_never_hangs_where_memory_ends(kind):
    pytest.importorskip("_testcapi")
    child = run_python(
        """
        import _testcapi, logging, os, sys, threading, time
        import queuecore as qc
        logging.disable()
        """
        + textwrap.indent(textwrap.dedent(STARTS[kind]), " " * 8)
        + """
        sys.unraisablehook = threading.excepthook = lambda _: None
        ran, failed, n = 0, 0, 0
        def threads():  # the system's: Python may go on counting one that has lacked memory to say that it ends
            return len(os.listdir("/proc/self/task"))
        before = threads()
        while n < 90:
            began = []
            def work():
                began.append(1)
                over()
            _testcapi.set_nomemory(n, n + 1)
            try:
                start(work)
            except (MemoryError, OSError, RuntimeError) as error:
                _testcapi.remove_mem_hooks()
                failed += 1
                assert not began, error
            else:
                _testcapi.remove_mem_hooks()
                ran += 1
            n += 1
        while threads() > before:
            time.sleep(0.001)
        print(ran > 0, failed > 0)
        """
    )
    assert (child.stdout, child.stderr) == ("True True\n", "")


def test_a_thread_that_could_not_start_is_as_if_there_were_none():
    child = run_python("""
        import sys, threading
        from queuecore._runners.threads import Thread
        from queuecore.errors import ResourceExhaustedError
        class Poor(Thread):
            def _set_ident(self):
                raise MemoryError
        ran = []
        thread = Poor(target=ran.append, args=(1,))
        try:
            thread.start()
        except ResourceExhaustedError as error:
            print(isinstance(error, MemoryError), thread.is_alive(), threading.active_count(), ran)
        thread = Thread(target=ran.append, args=(1,))
        thread.start()
        thread.join()
        print(ran, thread.is_alive(), threading.active_count())
        try:
            thread.start()
        except RuntimeError:
            print("once")
    """)
    assert (child.stdout, child.stderr) == ("True False 1 []\n[1] False 1\nonce\n", "")


def test_the_end_of_the_program_waits_for_a_thread_that_is_being_started():
    """CPython may free the state of one that begins later, and crash."""
    child = run_python("""
        import atexit, threading, time
        begun, is_starting = [], threading.Event()
        atexit.register(lambda: print("begun:", bool(begun), flush=True))  # called after queuecore's own
        from queuecore._core.testing import syscalls
        from queuecore._runners import threads
        class LateStart:
            def __init__(self, *arguments):
                self.start = SafeStart(*arguments)
            def __getattr__(self, name):
                return getattr(self.start, name)
            def boot(self):
                is_starting.set()
                sleep_count = syscalls.call_counts()["sleep"]
                while syscalls.call_counts()["sleep"] < sleep_count + 3:  # only the end of the program sleeps
                    time.sleep(0.001)
                begun.append(1)
                self.start.boot()
        SafeStart, threads.SafeStart = threads.SafeStart, LateStart
        def start_another():
            threads.start_thread("qc-another", lambda: print("a start at the end"))
        threading.Thread(target=threads.start_thread, args=("qc-test", start_another), daemon=True).start()
        is_starting.wait()
    """)
    assert (child.returncode, child.stdout, child.stderr) == (0, "begun: True\n", "")


def test_the_end_of_the_program_waits_for_no_thread_that_could_not_be_started():
    child = run_python("""
        import atexit, threading
        atexit.register(lambda: print("sleeps:", syscalls.call_counts()["sleep"]))  # called after queuecore's own
        from queuecore._core.testing import syscalls
        from queuecore._runners.threads import Thread
        def no_more(*_, **__):
            raise RuntimeError("can't start new thread")
        threading._start_new_thread = threading._start_joinable_thread = no_more  # the latter from Python 3.13 on
        thread = Thread()
        try:
            thread.start()
        except RuntimeError as error:
            print(error)
    """)
    assert (child.stdout, child.stderr) == ("can't start new thread\nsleeps: 0\n", "")


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer takes more addresses than the limit leaves")
def test_a_pass_ends_at_the_limit_of_memory():
    program = """
        import resource, sys, threading
        import queuecore as qc
        sys.unraisablehook = threading.excepthook = lambda _: None
        ds = qc.data.Dataset.from_generator(lambda: iter(range(5)), output_types="int64", output_shapes=())
        assert len(list(ds)) == 5
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        outcomes = set()
        for room in range(0, 24 << 20, 256 << 10):
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
            try:
                outcomes.add(len(list(ds)))
            except (MemoryError, OSError, RuntimeError) as error:
                outcomes.add("error")
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        print(outcomes <= {5, "error"}, len(outcomes))
        assert len(list(ds)) == 5
    """
    for _ in range(5):
        child = run_python(program)
        # NumPy has 46 KB of data in each thread that uses it. The loader, which makes them then, can only fail so.
        if "cannot allocate memory for thread-local data" not in child.stderr:
            break
    assert child.returncode == 0, child.stderr
    assert child.stdout.startswith("True ")


# ---- the end of a program whose threads wait

WAITS = {
    "dequeue": "q.dequeue()",
    "dequeue_many": "q.dequeue_many(3)",
    "lease": "q.lease(2)",
    "enqueue": "full.enqueue(1)",
    "enqueue_many": "full.enqueue_many([[1, 2, 3]])",
    "close": "full_and_waiting(); full.close()",
    "iteration of a queue": "list(q)",
    "Queue.get": "qc.Queue().get()",
    "Queue.put": "small.put(1)",
    "Queue.join": "small.join()",
    "LifoQueue.get": "qc.LifoQueue().get()",
    "SimpleQueue.get": "qc.SimpleQueue().get()",
    "a hooked Queue.get": "Hooked().get()",
    "a hooked Queue.join": "hooked.join()",
    "next": "next(iter(of_queue))",
    "a mapped next": "next(iter(of_queue.map(python, num_parallel_calls=3).batch(2).prefetch(1)))",
    "Coordinator.join": "coord.join()",
    "wait_for_stop": "qc.Coordinator().wait_for_stop()",
    "Session.run": "tf_run()",
    "reader.read": "reader.read(names)",
    "a program's wait for a name": "run_program(reader, names)",
    "a program's wait for room": "run_program(reader, itertools.cycle(['a', 'b']))",
    "a program's wait for room before an error": "run_program(reader, ['a'] * 7 + [3])",
    "a native program's wait for room": "run_program(reader, cycled())",
    "a program's wait for its reader": "beside(lambda: reader.read(names)); run_program(reader, names)",
    "reader.read beside a program": "beside(lambda: run_program(reader, names)); reader.read(names)",
    "a device's element": "next(iter(cuda().of(of_queue.batch(1))))",
    "a device's element from Python": "next(iter(cuda().of(of_queue.map(python).batch(1))))",
    "a device's element of a queue": "next(cuda().dequeued(q))",
    "a queue's element, by name": "next(q.to_device('cpu'))",
}

PROGRAM = """
import itertools, pathlib, sys, threading, time
import numpy as np
import queuecore as qc
from queuecore.errors import CancelledError
def soon(condition):
    while not condition():
        time.sleep(0.001)
q = qc.FIFOQueue(4, ["i8"], [()])
full = qc.FIFOQueue(1, ["i8"], [()]); full.enqueue(0)
small = qc.Queue(1); small.put(0)
class Hooked(qc.Queue):
    def _put(self, item):
        super()._put(item)
hooked = Hooked(); hooked.put(0)
coord = qc.Coordinator()
def python(x):
    return np.asarray(float(str(x)))
def elements():
    while True:
        yield q.dequeue()
of_queue = qc.data.Dataset.from_generator(elements, output_types="int64", output_shapes=())
def full_and_waiting():
    threading.Thread(target=lambda: full.enqueue(5), daemon=True).start()
    soon(lambda: full.stats()["waiting_enqueues"])
def tf_run():
    import queuecore.tf1 as tf
    with tf.Session() as session:
        session.run(tf.FIFOQueue(3, [tf.int32], [()]).dequeue())
reader, names = qc.IdentityReader(), qc.FIFOQueue(4, [str])
strings = qc.FIFOQueue(6, [bytes, bytes])
def cycled():
    many = qc.FIFOQueue(-1, [str]); many.enqueue_many([["a", "b"] * 50])
    return many
def run_program(reader, names):
    thread, *_ = qc.QueueRunner(strings, [qc.StageProgram(reader, names)]).create_threads(daemon=False)
    thread.start()
    thread.join()
    raise CancelledError("cancelled")
def beside(call):
    def work():
        try:
            call()
        except CancelledError:
            pass
    threading.Thread(target=work).start()
    soon(lambda: names.stats()["waiting_dequeues"])
def cuda():
    from helpers.device.devices import Plane
    from helpers.device.fake_cuda import Fake
    from queuecore._core.device import driver
    driver.open_driver(sys.argv[1])
    return Plane(Fake(pathlib.Path(sys.argv[1])))
def wait(call):
    def work():
        try:
            call()
        except CancelledError as error:
            print("cancelled", flush=True)
    thread = threading.Thread(target=work)
    thread.start()
    return thread
"""


def program(code, *arguments):
    return run_python(PROGRAM + textwrap.dedent(code), *arguments)


@pytest.mark.thorough
@pytest.mark.parametrize("call", WAITS)
def test_a_program_ends_though_a_thread_waits(call, request):
    code = WAITS[call]
    library = [request.getfixturevalue("fake_cuda_library")] if "cuda()" in code else []
    more = "coord.register_thread(wait(q.dequeue))" if call == "Coordinator.join" else ""
    child = program(
        f"""
        {more}
        def call():
            {code}
        wait(call)
        print("main", flush=True)
        """,
        *library,
    )
    # The thread that is joined may have ended by its error, which is what its joiner waited for.
    assert child.stdout in {"main\ncancelled\n", "main\ncancelled\n" + "cancelled\n" * bool(more)}, child.stderr
    assert child.returncode == 0


@pytest.mark.thorough
def test_threads_that_wait_for_one_that_works_get_what_it_gives():
    child = program("""
        given = qc.Queue()
        def last():
            print(q.dequeue(), flush=True)
            q.dequeue()
        def relay():
            q.enqueue(given.get() + 1)
            given.get()
        def works():
            time.sleep(1.5)  # longer than it takes to end waits
            given.put(41)
        wait(last), wait(relay)
        threading.Thread(target=works).start()
    """)
    assert child.stdout == "42\ncancelled\ncancelled\n", child.stderr
    assert child.returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("source", "daemon"),
    [*itertools.product(["thread", "timeout", "runner"], [False, True]), ("stream", False)],  # that one's are native
)
def test_waits_go_on_while_something_may_come(source, daemon):
    child = program(f"""
        source, daemon = {source!r}, {daemon}
        wait(lambda: print(q.dequeue(), q.dequeue(), flush=True))
        def works():
            for k in range(2):
                time.sleep(0.8)
                q.enqueue(k)
            time.sleep(0.2)
        def polls():
            for k in range(2):
                try:
                    qc.Queue().get(timeout=0.8)
                except qc.stdqueue.Empty:
                    q.enqueue(k)
            time.sleep(0.2)
        numbers = iter(range(2))
        def op():
            time.sleep(0.8)
            q.enqueue(next(numbers))
        if source == "thread":
            threading.Thread(target=works, daemon=daemon).start()
        elif source == "timeout":
            threading.Thread(target=polls, daemon=daemon).start()
        elif source == "runner":
            qc.QueueRunner(q, [op]).create_threads(daemon=daemon, start=True)
        else:
            from queuecore._core.testing import syscalls
            import os, tempfile
            folder = tempfile.TemporaryDirectory()
            path = os.path.join(folder.name, "numbers")
            np.arange(2).tofile(path)
            syscalls.set_read_delay(1.5)
            syscalls.set_uncached(True)
            ds = qc.data.FixedLengthRecordDataset([path], record=np.dtype("i8"))
            def read():
                for number in ds:
                    q.enqueue(number)
            wait(read)
    """)
    assert child.stdout.startswith("0 1\n"), (child.stdout, child.stderr)
    assert child.returncode == 0


def test_one_that_joins_a_waiting_thread_waits_too():
    child = program("""
        def joins():
            wait(q.dequeue).join()
            print("joined", flush=True)
        threading.Thread(target=joins).start()
    """)
    assert (child.stdout, child.stderr) == ("cancelled\njoined\n", "")


def test_daemons_that_wait_are_left_alone():
    child = program("""
        def work():
            try:
                q.dequeue()
            except BaseException as error:
                print("daemon", repr(error), flush=True)
        threading.Thread(target=work, daemon=True).start()
        it = iter(qc.data.Dataset.range(10**9).map(python).prefetch(2))
        next(it)
        wait(q.dequeue)
    """)
    assert (child.stdout, child.stderr) == ("cancelled\n", "")


@pytest.mark.thorough
def test_a_child_forked_at_the_end_has_a_main_thread_of_its_own():
    child = program("""
        import os, warnings
        warnings.simplefilter("ignore")
        def forks():
            time.sleep(0.2)  # the main thread has ended
            pid = os.fork()
            if pid == 0:
                mine = qc.FIFOQueue(1, ["i8"], [()])
                thread = wait(lambda: print(mine.dequeue(), flush=True))
                time.sleep(1.2)
                mine.enqueue(7)
                thread.join()
                os._exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        threading.Thread(target=forks).start()
    """)
    assert (child.stdout, child.stderr) == ("7\n3\n", "")


SEIZE, INTERRUPT, DETACH, ALL_THREADS = 0x4206, 0x4207, 17, 0x40000000


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["ends", "waits"])
def test_one_that_gets_no_processor_is_not_taken_for_one_that_waits(end):
    """It has been given something, and can't go on: nobody who waits for it is ended, however long that takes."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    code = f"""
        given = qc.Queue()
        def relay():
            print(threading.get_native_id(), flush=True)
            q.enqueue(given.get() + 1)
        def works():
            sys.stdin.readline()
            given.put(41)
            if {end!r} == "waits":
                qc.Queue().get()
        wait(relay), wait(lambda: print(q.dequeue(), flush=True)), wait(works)
    """
    child = subprocess.Popen(
        process._command(PROGRAM + textwrap.dedent(code), ()),
        env=process._environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        thread = int(child.stdout.readline())
        time.sleep(1)  # until it would be taken for one that waits
        if libc.ptrace(SEIZE, thread, None, None) != 0:
            child.kill()
            pytest.skip(f"no thread can be stopped here: {os.strerror(ctypes.get_errno())}")
        libc.ptrace(INTERRUPT, thread, None, None)
        os.waitpid(thread, ALL_THREADS)
        child.stdin.write("\n")
        child.stdin.flush()
        time.sleep(1.5)
        libc.ptrace(DETACH, thread, None, None)
        assert child.stdout.read() == "42\n" + "cancelled\n" * (end == "waits")
        assert child.wait() == 0


def test_the_workers_of_an_executor_that_wait_end():
    child = program("""
        import concurrent.futures
        pool = concurrent.futures.ThreadPoolExecutor(2)
        held = [pool.submit(q.dequeue) for _ in range(2)]
        for one in held:
            one.add_done_callback(lambda one: print(type(one.exception()).__name__, flush=True))
    """)
    assert (child.stdout, child.stderr) == ("CancelledError\n" * 2, "")


# ---- Ctrl-C while a thread is started


@pytest.mark.parametrize("ending", [None, ZeroDivisionError])
@pytest.mark.parametrize("when", ["behind the system's start", "before the thread says that it runs"])
def test_a_thread_whose_start_was_interrupted_runs_and_can_be_joined(monkeypatch, when, ending):
    ran, errors = threading.Event(), []

    def work():
        ran.set()
        if ending is not None:
            raise ending

    class Interrupting(Thread):
        def _set_ident(self):  # in the new thread, before anything that its starter waits for
            if when == "before the thread says that it runs":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                arrival.wait(0.2)  # for a starter that doesn't wait on
            super()._set_ident()

    if when == "behind the system's start":
        name = next(name for name in ("_start_joinable_thread", "_start_new_thread") if hasattr(threading, name))
        system_start = getattr(threading, name)

        def start_and_interrupt(*arguments, **named):
            try:
                return system_start(*arguments, **named)
            finally:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(threading, name, start_and_interrupt)
    arrival = threading.Event()
    thread = Interrupting(target=work, daemon=True)
    thread.broke = errors.append
    with pytest.raises(KeyboardInterrupt):
        thread.start()
    if when == "behind the system's start":
        assert ran.wait(process.PATIENCE)  # it begins as soon as it comes to it
    thread.join(process.PATIENCE)
    arrival.set()
    assert ran.is_set() and not thread.is_alive()
    assert [type(error) for error in errors] == ([] if ending is None else [ending])
    thread.join()  # as often as one likes
