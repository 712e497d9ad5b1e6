"""A wall clock that jumps by hours, ahead and back: timeouts follow the monotonic clock."""

import os
import pathlib

import pytest
from helpers.faults import refusals
from helpers.process import run_python

CLOCK = pathlib.Path(refusals.__file__).with_name("clock.c")

# Each ends by its timeout: not at once, and not an hour later, after which this process would be given up.
WAITS = {
    "dequeue": "queue.dequeue(timeout=WAIT)",
    "enqueue": "full.enqueue(1, timeout=WAIT)",
    "get": "qc.stdqueue.Queue().get(timeout=WAIT)",
    "wait_for_stop": "assert not qc.Coordinator().wait_for_stop(WAIT)",
}


@pytest.mark.parametrize("call", WAITS)
def test_a_clock_that_is_set_changes_no_timeout(tmp_path, monkeypatch, call):
    monkeypatch.setenv("LD_PRELOAD", os.fspath(refusals.library(tmp_path, CLOCK)))
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
