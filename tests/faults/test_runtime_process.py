"""Coordinators and runners in processes of their own: Ctrl-C, forks, and the end of the program."""

import textwrap

import pytest
from helpers.process import run_python

SETUP = """
    import os, signal, sys, threading, time, warnings
    import queuecore as qc
    from helpers.models.fifo import PythonFIFO
    coord = qc.Coordinator()
    queue = PythonFIFO(1, "numbers")

    def interrupt(at):
        # A moment later, so that the main thread most likely waits by then; no matter if it doesn't.
        def send():
            time.sleep(0.2)
            at.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send, daemon=True).start()
"""


def child(code):
    """Run the set-up and a script, which must print nothing on stderr; return its exit code and its output."""
    done = run_python(textwrap.dedent(SETUP) + textwrap.dedent(code))
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "wait",
    [
        "coord.wait_for_stop()",
        "coord.wait_for_stop(1000)",
        "coord.join([sleeper])",
        "coord.register_thread(threading.current_thread()); coord.join()",
        "coord.request_stop(); coord.join([sleeper])",
        "qc.LooperThread.loop(coord, 0.01, int); coord.join()",
        "qc.LooperThread.loop(coord, None, int); coord.join()",
        "qc.LooperThread.loop(coord, 1000, int).join(1000)",
        "coord.join(qc.QueueRunner(queue, [lambda: queue.enqueue(1)] * 4).create_threads(coord, start=True))",
    ],
)
def test_ctrl_c(wait):
    code = f"""
        sleeper = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
        sleeper.start()
        sent = []
        interrupt(sent)
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - sent[0] < 1, coord.joined)
    """
    assert child(code) == (0, "interrupted True False\n")


def test_ctrl_c_stops_all_threads_through_stop_on_exception():
    code = """
        looper = qc.LooperThread.loop(coord, 0.01, int)
        threads = qc.QueueRunner(queue, [lambda: queue.enqueue(1)] * 4).create_threads(coord, start=True)
        sent = []
        interrupt(sent)
        try:
            with coord.stop_on_exception():
                while True:
                    queue.dequeue()
                    time.sleep(0.001)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - sent[0] < 1)
        try:
            coord.join(stop_grace_period_secs=1)
        except KeyboardInterrupt:
            print("joined", [t.name for t in threads if t.is_alive()], looper.is_alive())
    """
    assert child(code) == (0, "interrupted True\njoined [] False\n")


def test_ctrl_c_without_a_handler_of_ones_own_ends_the_program():
    done = run_python(textwrap.dedent(SETUP) + "interrupt([])\ncoord.wait_for_stop()")
    assert done.returncode == -2  # SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "code",
    [
        "threads = qc.QueueRunner(queue, [lambda: queue.enqueue(1)] * 8).create_threads(coord, start=True)",
        "threads = qc.QueueRunner(queue, [lambda: queue.enqueue(1)] * 8).create_threads(start=True)",
        "threads = qc.QueueRunner(queue, [lambda: None] * 4).create_threads(coord, start=True)",
        "qc.add_queue_runner(qc.QueueRunner(queue, [lambda: time.sleep(0.001)] * 4)); qc.start_queue_runners(coord)",
        "qc.LooperThread.loop(coord, 0.0001, int)",
        "qc.LooperThread.loop(coord, None, int)",
        "for _ in range(16): threading.Thread(target=coord.wait_for_stop, daemon=True).start()",
        "for _ in range(16): threading.Thread(target=coord.wait_for_stop, args=(0.05,), daemon=True).start()",
        "t = threading.Thread(target=coord.join, args=([threading.main_thread()],), daemon=True); t.start()",
        "import atexit; atexit.register(coord.wait_for_stop, 0.05)",
        "import atexit; qc.LooperThread.loop(coord, 0.01, int); atexit.register(coord.join); "
        "atexit.register(coord.request_stop)",
        "t = threading.Thread(target=coord.wait_for_stop); t.start(); threading.Timer(0.2, coord.request_stop).start()",
    ],
)
@pytest.mark.parametrize("moment", ["0", "0.05"])
def test_exit_with_live_threads(code, moment):
    assert child(f"{code}\ntime.sleep({moment})\nprint('end', flush=True)\nsys.exit(3)") == (3, "end\n")


def test_exit_with_runners_that_are_no_daemons():
    # The program waits for them; the thread for the stop doesn't keep it.
    code = """
        count = iter(range(5))
        def op():
            try:
                print(next(count))
            except StopIteration:
                raise qc.errors.OutOfRangeError("end") from None
        qc.QueueRunner(queue, [op]).create_threads(coord, daemon=False, start=True)
    """
    assert child(code) == (0, "0\n1\n2\n3\n4\n")


def test_fork():
    # The child has no threads; the objects go on working, on both sides.
    code = """
        warnings.simplefilter("ignore")  # from Python 3.12 on, os.fork() warns where there are threads
        looper = qc.LooperThread.loop(coord, 0.001, int)
        runner = qc.QueueRunner(queue, [lambda: coord.wait_for_stop()])
        threads = runner.create_threads(coord, start=True)
        for _ in range(8):
            threading.Thread(target=coord.wait_for_stop, daemon=True).start()
        assert runner.create_threads(coord) == []
        pid = os.fork()
        if pid == 0:
            code = 0
            begun = time.monotonic()
            coord.join()
            code += not coord.should_stop() and not coord.wait_for_stop(0.01)
            threads = runner.create_threads(coord, start=True)
            code += 2 * len(threads)
            coord.clear_stop()
            threading.Timer(0.05, coord.request_stop).start()
            code += 10 * coord.wait_for_stop()
            coord.join()
            code += 20 * (not any(t.is_alive() for t in threads) and time.monotonic() - begun < 5)
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(coord.should_stop(), looper.is_alive())
        coord.request_stop()
        coord.join()
        print(looper.is_alive())
    """
    assert child(code) == (0, "35\nFalse True\nFalse\n")


def test_fork_of_a_stopped_one():
    code = """
        coord.request_stop(ValueError("x"))
        pid = os.fork()
        try:
            coord.join()
        except ValueError:
            if pid == 0:
                os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert child(code) == (0, "7\n")


def test_sigterm_handler_that_requests_the_stop():
    code = """
        signal.signal(signal.SIGTERM, lambda *_: coord.request_stop())
        threads = qc.QueueRunner(queue, [lambda: queue.enqueue(1)] * 2).create_threads(coord, start=True)
        def send():
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGTERM)
        threading.Thread(target=send).start()
        coord.join(threads)
        print(queue.is_closed(), coord.exceptions)
    """
    assert child(code) == (0, "True ()\n")
