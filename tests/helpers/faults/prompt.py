"""How soon Ctrl-C ends each call that waits; run as a program, it prints the times in seconds as JSON."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from helpers.data.functions import in_python
from helpers.process import soon

import queuecore as qc
from queuecore.data import Dataset

TRIES = 5
# Before a wait is ended: so that it most likely has begun, and no matter if it has not.
BEFORE = 0.02

gate = threading.Event()
numbers = Dataset.range(100).map(in_python(lambda x: (gate.wait(), x)[1]), 2)


def queue(full: bool = False) -> Any:
    """Return a queue for two numbers."""
    made = qc.FIFOQueue(2, ["i4"], [()])
    if full:
        made.enqueue_many([[1, 2]])
    return made


def _standard() -> Any:
    made = qc.stdqueue.Queue(1)
    made.put(0)
    return made


def _with_a_put() -> Any:
    # A close waits for the puts that wait.
    q = queue(True)

    def put() -> None:
        try:
            q.enqueue(1)
        except qc.errors.CancelledError:
            return

    threading.Thread(target=put).start()
    assert soon(lambda: q.stats()["waiting_enqueues"] == 1)
    return q


def _joining() -> tuple[Any, list[threading.Thread]]:
    thread = threading.Thread(target=gate.wait)
    thread.start()
    return qc.Coordinator(), [thread]


Case = tuple[Callable[[], Any], Callable[[Any], Any]]
# By name: what is made first, and the call that waits on it.
WAITS: dict[str, Case] = {
    "dequeue": (queue, lambda q: q.dequeue()),
    "dequeue_many": (queue, lambda q: q.dequeue_many(2)),
    "dequeue_up_to": (queue, lambda q: q.dequeue_up_to(2)),
    "enqueue": (lambda: queue(True), lambda q: q.enqueue(1)),
    "enqueue_many": (lambda: queue(True), lambda q: q.enqueue_many([[1, 2, 3]])),
    "read": (lambda: qc.FIFOQueue(2, [bytes], [()]), lambda names: qc.TextLineReader().read(names)),
    "next": (lambda: iter(numbers), next),
    "wait_for_stop": (qc.Coordinator, lambda coord: coord.wait_for_stop()),
}
OTHERS: dict[str, Case] = {
    "close": (_with_a_put, lambda q: q.close()),
    "get": (qc.stdqueue.Queue, lambda q: q.get()),
    "put": (_standard, lambda q: q.put(1)),
    "join of a queue": (_standard, lambda q: q.join()),
    "join": (_joining, lambda both: both[0].join(both[1])),
    "reduce": (lambda: numbers, lambda ds: ds.reduce(0, lambda state, x: state + x)),
}


def interrupted(case: Case) -> float:
    """Return how long a call goes on after Ctrl-C."""
    make, wait = case
    target = make()
    sent = 0.0

    def interrupt() -> None:
        nonlocal sent
        time.sleep(BEFORE)
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        wait(target)
        raise AssertionError("it did not wait")
    except KeyboardInterrupt:
        took = time.monotonic() - sent
    thread.join()
    if isinstance(target, qc.FIFOQueue):
        target.close(cancel_pending_enqueues=True)
    return took


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(json.dumps({name: [interrupted(case) for _ in range(TRIES)] for name, case in (WAITS | OTHERS).items()}))
    gate.set()
