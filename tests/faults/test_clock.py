"""A wall clock that jumps by hours, ahead and back: timeouts follow the monotonic clock."""

import os
import pathlib
import signal

import pytest
from helpers.faults import refusals
from helpers.process import PATIENCE, run_python, soon, start_python

CLOCK = pathlib.Path(refusals.__file__).with_name("clock.c")

# Each ends by its timeout: not at once, and not an hour later, after which this process would be given up.
WAITS = {
    "dequeue": "queue.dequeue(timeout=WAIT)",
    "enqueue": "full.enqueue(1, timeout=WAIT)",
    "get": "qc.stdqueue.Queue().get(timeout=WAIT)",
    "wait_for_stop": "assert not qc.Coordinator().wait_for_stop(WAIT)",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("call", WAITS)
def test_a_clock_that_is_set_changes_no_timeout(tmp_path, monkeypatch, call):
    refusals.preload(monkeypatch, tmp_path, CLOCK)
    child = run_python(f"""
        import queue as standard, time
        import queuecore as qc
        WAIT = 0.3
        seen = [time.time() for _ in range(2)]
        assert abs(seen[0] - seen[1]) > 3600, seen
        queue, full = qc.FIFOQueue(1, ["i4"], [()]), qc.FIFOQueue(1, ["i4"], [()])
        full.enqueue(0)
        begun = time.monotonic()
        try:
            {WAITS[call]}
        except (qc.errors.DeadlineExceededError, standard.Empty):
            pass
        took = time.monotonic() - begun
        print(took >= WAIT)
    """)
    assert (child.stdout, child.stderr, child.returncode) == ("True\n", "", 0)


def test_a_machine_that_sleeps(tmp_path, monkeypatch):
    """All threads stop; when they go on, every clock but the monotonic one is hours ahead. No wait ends for that."""
    refusals.preload(monkeypatch, tmp_path, CLOCK)
    child = start_python("""
        import threading, time
        import queuecore as qc
        from queuecore.data import Dataset
        queue, coord = qc.FIFOQueue(1, ["i4"], [()]), qc.Coordinator()
        full, python = qc.FIFOQueue(1, ["i4"], [()]), qc.stdqueue.Queue()
        full.enqueue(0)
        it = iter(Dataset.range(1 << 40).map(lambda x: x + 1).batch(1000).prefetch(2))
        next(it)
        waits = (lambda: queue.dequeue(timeout=600), lambda: full.enqueue(1, timeout=600),
                 lambda: python.get(timeout=600), lambda: coord.wait_for_stop(600))
        came = []
        threads = [threading.Thread(target=lambda wait=wait: came.append(wait())) for wait in waits]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        while queue.stats()["waiting_dequeues"] + full.stats()["waiting_enqueues"] < 2:
            assert time.monotonic() < until
        print("waits", flush=True)
        input()
        assert not came and all(thread.is_alive() for thread in threads), came
        queue.enqueue(5), full.dequeue(), python.put(6), coord.request_stop()
        for thread in threads:
            thread.join(20)
        assert int(next(it)[0]) == 1001
        it.close()
        print(len(came))
    """)
    with child:
        assert child.stdout.readline() == "waits\n"
        for _ in range(3):
            os.kill(child.pid, signal.SIGSTOP)
            assert soon(lambda: _state(child.pid) == "T", PATIENCE)
            os.kill(child.pid, signal.SIGCONT)
            assert soon(lambda: _state(child.pid) != "T", PATIENCE)
        out, errors = child.communicate("\n", timeout=PATIENCE)
    assert (out, errors, child.returncode) == ("4\n", "", 0)


def _state(number):
    return pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0]
