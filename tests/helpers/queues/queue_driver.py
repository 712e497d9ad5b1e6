"""Queues under test: every implementation that is there, and a driver that holds one against the model, step by step.

The driver starts each operation in a thread of its own and waits until the queue is at rest where the model is: the
operations that the model says are over have returned, and as many wait in each line (``stats()["waiting_enqueues"]``,
a waiting close included, and ``["waiting_dequeues"]``) as in the model. Nothing is decided by sleeping.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.models import linearize, slow_queues
from helpers.models.linearize import Call
from helpers.models.oracle import seed_pair
from helpers.models.queue_model import FIFO, KINDS, PADDING, PRIORITY, SHUFFLE, Outcome, QueueModel
from helpers.process import PATIENCE, soon

import queuecore
from queuecore import errors

SLOW, REAL = "slow", "queuecore"


def implementations(kinds: tuple[str, ...] = KINDS) -> list[Any]:
    """Parameters (module, kind) for pytest: the slow queues, and the library's where they exist."""
    params = []
    for label, module in ((SLOW, slow_queues), (REAL, queuecore)):
        for kind in kinds:
            absent = pytest.mark.skipif(not hasattr(module, kind), reason=f"queuecore has no {kind} yet")
            params.append(pytest.param(module, kind, id=f"{label}-{kind}", marks=[absent]))
    return params


@dataclass(frozen=True)
class Setup:
    """One queue of one kind; its elements are (int64, float32[2]), or (int64, float32[None]) in a padding queue."""

    kind: str
    capacity: int
    min_after_dequeue: int = 0
    seed: int = 1
    shaped: bool = True

    dtypes = (np.int64, np.float32)

    @property
    def shapes(self) -> list[tuple[int | None, ...]] | None:
        if not self.shaped and self.kind in (FIFO, SHUFFLE):
            return None
        return [(), (None,) if self.kind == PADDING else (2,)]

    def queue(self, module: ModuleType) -> Any:
        make = getattr(module, self.kind)
        if self.kind == SHUFFLE:
            return make(self.capacity, self.min_after_dequeue, list(self.dtypes), self.shapes, seed=self.seed)
        if self.kind == PRIORITY:
            return make(self.capacity, [self.dtypes[1]], self.shapes and self.shapes[1:])
        return make(self.capacity, list(self.dtypes), self.shapes)

    def model(self, **options: Any) -> QueueModel:
        return QueueModel(
            self.kind,
            self.capacity,
            self.dtypes,
            self.shapes,
            min_after_dequeue=self.min_after_dequeue,
            pair=seed_pair(None, self.seed),
            **options,
        )


@dataclass
class Values:
    """Makes elements, no two alike in their second component."""

    kind: str
    made: int = 0
    # Whether priorities may be equal.
    ties: bool = True

    def row(self, key: int = 0, width: int = 2) -> list[np.ndarray]:
        return [part[0] for part in self.rows(1, key, width)]

    def rows(self, count: int, key: int = 0, width: int = 2) -> list[np.ndarray]:
        """So many rows; `key` makes priorities, `width` is that of a padding queue's second component."""
        numbers = np.arange(self.made, self.made + count)
        self.made += count
        keys = numbers
        if self.kind == PRIORITY:
            keys = (key * 7 + 3 * numbers) % 5 - 2 if self.ties else numbers * 389 % 997 - 500
        width = width if self.kind == PADDING else 2
        return [keys.astype(np.int64), (numbers[:, None] + np.arange(width) / 8).astype(np.float32)]


def result_of(call: Any, *arguments: Any, **options: Any) -> Outcome:
    """What a call on a queue came to, in the model's words."""
    try:
        value = call(*arguments, **options)
    except errors.QueueCoreError as error:
        return Outcome(error=type(error).__name__, why=str(error))
    if value is None:
        return Outcome()
    return Outcome(value=[np.asarray(v) for v in (value if isinstance(value, list) else [value])])


def assert_outcome(got: Outcome, expected: Outcome, what: str, *, in_order: bool = True) -> None:
    """Compare what happened with what should have; without `in_order`, which elements they are doesn't matter."""
    assert (got.error, got.value is None) == (expected.error, expected.value is None), f"{what}: {got}, not {expected}"
    for g, e in zip(got.value or [], expected.value or [], strict=True):
        assert (g.dtype, g.shape) == (e.dtype, e.shape), f"{what}: {got}, not {expected}"
        assert not in_order or np.array_equal(g, e), f"{what}: {got}, not {expected}"


class Taken:
    """What came out of a queue and out of its model: as sets they must be equal in the end, whatever the order."""

    def __init__(self) -> None:
        self.got: list[float] = []
        self.expected: list[float] = []

    def add(self, got: Outcome, expected: Outcome) -> None:
        # The first of an element's second component tells it from all others; a row of no width has none.
        for seen, outcome in ((self.got, got), (self.expected, expected)):
            if outcome.value is not None:
                seen.extend(np.atleast_2d(outcome.value[1])[:, :1].reshape(-1).tolist())

    def check(self) -> None:
        assert sorted(self.got) == sorted(self.expected)


class Expired(Exception):
    """The machine was too slow to say in which order a timeout and a step came."""


@dataclass
class Running:
    """An operation in its thread."""

    number: int
    what: str
    thread: threading.Thread
    outcome: list[Outcome]
    # When its timeout runs out at the earliest.
    due: float | None


@dataclass
class Driver:
    """A queue and its model, kept in step."""

    setup: Setup
    queue: Any
    patience: float = PATIENCE
    model: QueueModel = field(init=False)
    running: dict[int, Running] = field(default_factory=dict)
    taken: Taken = field(default_factory=Taken)

    def __post_init__(self) -> None:
        self.model = self.setup.model()

    def start(self, name: str, argument: Any = None, timeout: float | None = None) -> int:
        """Start an operation in a thread, and wait until queue and model agree."""
        number = self.model.start(name, argument)
        label = f"{name} {number}"
        arguments = () if name == "dequeue" else (argument,)
        options = {} if timeout is None else {"timeout": timeout}
        if timeout == 0:
            # A try: whatever it may do is done at once.
            self.model.expire(number)
        outcome: list[Outcome] = []
        call = getattr(self.queue, name)
        thread = threading.Thread(
            target=lambda: outcome.append(result_of(call, *arguments, **options)), name=label, daemon=True
        )
        due = time.monotonic() + timeout if timeout else None
        self.running[number] = Running(number, label, thread, outcome, due)
        thread.start()
        self.settle(label)
        return number

    def expire(self, number: int) -> None:
        """Wait until an operation's timeout has run out."""
        if number in self.running:
            running = self.running[number]
            running.thread.join(self.patience)
            assert running.outcome, f"{running.what} has a timeout and never ended"
            assert running.due is not None and time.monotonic() >= running.due, f"{running.what} gave up too soon"
            running.due = None
            self.model.expire(number)
            self.settle(f"the timeout of {running.what}")

    def settle(self, step: str) -> None:
        """Wait until the queue is where the model is; compare all that can be seen."""

        def over() -> list[int]:
            return [n for n, r in self.running.items() if r.outcome]

        def at_rest() -> bool:
            stats = self.queue.stats()
            waits = (stats["waiting_enqueues"], stats["waiting_dequeues"])
            expected = [n for n in self.running if n in self.model.outcomes]
            return waits == (self.model.waiting_enqueues, self.model.waiting_dequeues) and over() == expected

        agreed = soon(at_rest, within=self.patience if not self._late() else 0)
        if self._late():
            raise Expired
        assert agreed, f"after {step}: {self._state()}"
        for number in over():
            running = self.running.pop(number)
            running.thread.join()
            got, expected = running.outcome[0], self.model.outcomes[number]
            assert_outcome(got, expected, f"after {step}: {running.what}", in_order=self.model.order_known)
            self.taken.add(got, expected)
        seen = (self.queue.size(), self.queue.is_closed())
        assert seen == (self.model.size(), self.model.is_closed()), f"after {step}: size and closed are {seen}"

    def finish(self) -> None:
        """End every wait by a cancelling close, and see that what is left is what the model has left."""
        self.start("close", True)
        assert not self.running, self._state()
        while self.model.size():
            self.start("dequeue")
        self.start("dequeue")
        self.taken.check()

    def _late(self) -> bool:
        now = time.monotonic()
        return any(r.due is not None and now >= r.due for r in self.running.values())

    def _state(self) -> str:
        over = {r.what: r.outcome[0] for r in self.running.values() if r.outcome}
        expected = {r.what: self.model.outcomes.get(r.number) for r in self.running.values()}
        return (
            f"stats {self.queue.stats()}, over {over}; the model: waiting {self.model.waiting_enqueues} and "
            f"{self.model.waiting_dequeues}, over {expected}"
        )


# ---- histories of real threads, for helpers.models.linearize ---------------------------------------------------------

RESULTS = {
    "CancelledError": linearize.CLOSED,
    "OutOfRangeError": linearize.END,
    "DeadlineExceededError": linearize.TIMEOUT,
}

# One operation of a thread: its name in helpers.models.linearize, the values to put or the number to get, its timeout.
Step = tuple[str, Any, float | None]


class Recorder:
    """Makes calls on a queue of int64 scalars, from any thread, and writes down what came of them."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.clock = itertools.count()
        self.begun: list[Call] = []
        self.calls: list[Call] = []

    def call(self, step: Step) -> Call:
        """Make one call."""
        name, argument, timeout = step
        values = tuple(argument) if name in linearize.PUTS else ()
        count = argument if name in (linearize.GET_MANY, linearize.GET_UP_TO) else 1
        started = Call(name, next(self.clock), math.inf, None, values, count)
        self.begun.append(started)
        try:
            output = self._do(name, argument, {} if timeout is None else {"timeout": timeout})
            result = linearize.OK
        except errors.QueueCoreError as error:
            output, result = (), RESULTS.get(type(error).__name__, repr(error))
        except Exception as error:
            output, result = (), repr(error)
        done = Call(name, started.invoked, next(self.clock), result, values or tuple(output), count)
        self.calls.append(done)
        return done

    def run(self, program: Sequence[Step], barrier: threading.Barrier) -> None:
        """Make one call after the other, from when all threads are there."""
        barrier.wait()
        for step in program:
            self.call(step)

    def _do(self, name: str, argument: Any, options: dict[str, float]) -> list[int]:
        queue = self.queue
        if name == linearize.PUT:
            queue.enqueue(np.int64(argument[0]), **options)
        elif name == linearize.PUT_MANY:
            queue.enqueue_many(np.array(argument, np.int64), **options)
        elif name == linearize.GET:
            return [int(queue.dequeue(**options))]
        elif name == linearize.GET_MANY:
            return queue.dequeue_many(argument, **options).tolist()
        elif name == linearize.GET_UP_TO:
            return queue.dequeue_up_to(argument, **options).tolist()
        else:
            queue.close(name == linearize.CANCEL, **options)
        return []

    def history(self) -> list[Call]:
        """All calls; those that never returned have no result."""
        over = {call.invoked for call in self.calls}
        return self.calls + [call for call in self.begun if call.invoked not in over]


def record(
    queue: Any,
    programs: Sequence[Sequence[Step]],
    *,
    cancel: bool,
    ends: bool = False,
    patience: float = PATIENCE,
    recorder: type = Recorder,
) -> list[Call]:
    """Run each program in a thread; when all are over or wait, close the queue and take out what is left.

    With `ends`, all must be over before the close. What should end and doesn't has no result in the history, then.
    """
    recording = recorder(queue)
    barrier = threading.Barrier(len(programs))

    def drain() -> None:
        while recording.call((linearize.GET, 1, None)).result == linearize.OK:
            pass

    threads = [threading.Thread(target=recording.run, args=(p, barrier), daemon=True) for p in programs]
    for thread in threads:
        thread.start()

    def at_rest() -> bool:
        alive = sum(t.is_alive() for t in threads)
        stats = queue.stats()
        return alive == 0 or (not ends and stats["waiting_enqueues"] + stats["waiting_dequeues"] >= alive)

    soon(at_rest, within=patience)
    if ends and any(t.is_alive() for t in threads):
        return recording.history()
    end = time.monotonic() + patience

    def start(target: Any, *arguments: Any) -> None:
        threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        threads[-1].start()

    def over() -> bool:
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        return not any(t.is_alive() for t in threads)

    start(recording.call, (linearize.CANCEL if cancel else linearize.CLOSE, None, None))
    # A close that cancels ends every wait; one that doesn't waits for room, which these gets make. Who still waits when
    # they are over had long enough.
    if not cancel or over():
        start(drain)
        over()
    return recording.history()


def verdict(history: Sequence[Call], capacity: float = math.inf, **options: Any) -> str | None:
    """Say what is wrong with the history of a queue that was closed and drained in the end; None if nothing is."""
    stuck = [call for call in history if call.returned == math.inf]
    return f"it never ended: {stuck[0]}" if stuck else linearize.check(history, capacity, **options)


def history(steps: list[tuple[Any, ...]], kind: str, *, ties: bool = True) -> Iterator[tuple[str, Any]]:
    """Put elements into steps such as ("enqueue_many", rows, key, width) and ("dequeue_many", n)."""
    values = Values(kind, ties=ties)
    for name, *arguments in steps:
        if name == "enqueue":
            yield name, values.row(*arguments)
        elif name == "enqueue_many":
            yield name, values.rows(*arguments)
        else:
            yield name, arguments[0] if arguments else None


__all__ = [
    "FIFO",
    "KINDS",
    "PADDING",
    "PRIORITY",
    "SHUFFLE",
    "Driver",
    "Expired",
    "Recorder",
    "Setup",
    "Step",
    "Taken",
    "Values",
    "assert_outcome",
    "history",
    "implementations",
    "record",
    "result_of",
    "verdict",
]
