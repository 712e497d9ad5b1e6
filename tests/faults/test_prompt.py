"""Rows 38 and 51: how soon a close, and Ctrl-C, end each call that waits: within 100 ms.

Each is tried a few times, and the shortest time counts: a busy machine makes some longer, and none shorter.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from helpers.faults import prompt
from helpers.process import PATIENCE, _environment

from queuecore.errors import CancelledError, FailedPreconditionError, OutOfRangeError

SOON = 0.1

# What ends each of `prompt.WAITS`.
ENDS = {
    **dict.fromkeys(["dequeue", "dequeue_many", "dequeue_up_to", "read"], lambda q: q.close()),
    **dict.fromkeys(["enqueue", "enqueue_many"], lambda q: q.close(cancel_pending_enqueues=True)),
    "next": lambda it: it.close(0),
    "wait_for_stop": lambda coord: coord.request_stop(),
}


def closed(name):
    """Return how long a call goes on after a close."""
    make, wait = prompt.WAITS[name]
    target = make()
    begun, ended = threading.Event(), []

    def waits():
        begun.set()
        with contextlib.suppress(OutOfRangeError, CancelledError, FailedPreconditionError):
            wait(target)
        ended.append(time.monotonic())

    thread = threading.Thread(target=waits)
    thread.start()
    assert begun.wait(PATIENCE)
    time.sleep(prompt.BEFORE)
    assert not ended
    at = time.monotonic()
    ENDS[name](target)
    thread.join(PATIENCE)
    return ended[0] - at


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the function in Python goes on behind close(0)
@pytest.mark.parametrize("name", prompt.WAITS)
def test_a_close_ends_a_wait_at_once(name):
    prompt.gate.clear()
    try:
        took = [closed(name) for _ in range(prompt.TRIES)]
    finally:
        prompt.gate.set()
    assert min(took) < SOON, took


@pytest.mark.thorough
def test_ctrl_c_ends_a_wait_at_once():
    done = subprocess.run(
        [sys.executable, "-P", pathlib.Path(prompt.__file__)],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    took = json.loads(done.stdout)
    assert took.keys() == (prompt.WAITS | prompt.OTHERS).keys()
    assert {name: times for name, times in took.items() if min(times) >= SOON} == {}
