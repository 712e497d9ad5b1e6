"""What a queue must do, step by step: TensorFlow's queue algorithm, simulated without threads or locks.

An operation is *started* (`QueueModel.start`), *times out* (`expire`) or is *cancelled* (`cancel`); after each of these
steps the model has run whatever could run, `outcomes` holds the result or the error class of every operation that is
over, and `blocked()` names those that still wait. Two waiting lines, one of enqueues and closes, one of dequeues; only
the head of a line acts, and it acts until it can't go on. Nothing here is shared with the library.

``tensorflow=True`` gives TensorFlow's own behaviour where queuecore differs on purpose; it exists so that the model can
be compared with TensorFlow itself. The differences:

============================================= ============================== ==================================
situation                                     queuecore                      TensorFlow
============================================= ============================== ==================================
capacity 0                                    an error                       every enqueue blocks
a dequeue_many times out, holding rows        the rows go back               the rows are lost
close of a closed queue                       nothing happens                CancelledError
a close times out                             it is withdrawn                it can't time out
PriorityQueue.dequeue_up_to at the end        the sorted remainder           OutOfRangeError, remainder lost
PriorityQueue.dequeue_many(n > capacity)      InvalidArgumentError           waits for ever
too many components                           InvalidArgumentError           the surplus is dropped
padding five or more dimensions               done                           UnimplementedError
============================================= ============================== ==================================
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from helpers.models.oracle import Philox

FIFO, SHUFFLE, PADDING, PRIORITY = KINDS = ("FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue")
ENQUEUES = ("enqueue", "enqueue_many", "close")
DEQUEUES = ("dequeue", "dequeue_many", "dequeue_up_to")

# One element: an array a component.
Row = tuple[np.ndarray, ...]
Shape = tuple[int | None, ...]

NO_PROGRESS, PROGRESS, COMPLETE = range(3)


class ModelError(Exception):
    """How an operation ended, by the name of the error class."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


@dataclass
class Outcome:
    """How an operation ended: the components of what it returned, or the name of an error class."""

    value: list[np.ndarray] | None = None
    error: str | None = None
    why: str = ""


@dataclass
class Attempt:
    """An operation in one of the two lines."""

    number: int
    name: str
    # An enqueue's rows that are not in the queue yet.
    rows: deque[Row] = field(default_factory=deque)
    # A dequeue's demand, and the rows that it holds.
    wanted: int = 0
    held: list[Row] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.wanted - len(self.held)


class QueueModel:
    """One queue of one of the four kinds.

    `shapes` is None, or a shape for each component, where None stands for a dimension that may vary. A PriorityQueue's
    first component is its priority. `pair` is the pair of seeds of a RandomShuffleQueue.
    """

    def __init__(
        self,
        kind: str,
        capacity: int,
        dtypes: Sequence[Any],
        shapes: Sequence[Shape] | None = None,
        *,
        min_after_dequeue: int = 0,
        pair: tuple[int, int] = (0, 0),
        tensorflow: bool = False,
    ) -> None:
        if capacity == 0 and not tensorflow:
            raise ModelError("InvalidArgumentError", "capacity is 0")
        self.kind = kind
        self.capacity: float = capacity if capacity >= 0 else math.inf
        if kind == SHUFFLE and not 0 <= min_after_dequeue < self.capacity:
            raise ModelError("InvalidArgumentError", f"min_after_dequeue is {min_after_dequeue}, capacity {capacity}")
        self.dtypes = [np.dtype(d) for d in dtypes]
        self.shapes = None if shapes is None else [tuple(s) for s in shapes]
        self.min_after_dequeue = min_after_dequeue if kind == SHUFFLE else 0
        self.random = Philox(*pair)
        self.tensorflow = tensorflow
        self.rows: deque[Row] = deque()
        self.closed = False
        self.enqueues: deque[Attempt] = deque()
        self.dequeues: deque[Attempt] = deque()
        self.outcomes: dict[int, Outcome] = {}
        # Whether the order of a shuffle still follows from its seed: see _withdraw.
        self.order_known = True
        self.started = 0

    # ---- what anybody may see ---------------------------------------------------------------------------------------

    def size(self) -> int:
        return len(self.rows)

    def is_closed(self) -> bool:
        return self.closed

    @property
    def waiting_enqueues(self) -> int:
        """Operations in the line of enqueues; a close that waits behind them is one."""
        return len(self.enqueues)

    @property
    def waiting_dequeues(self) -> int:
        return len(self.dequeues)

    def blocked(self) -> list[int]:
        return sorted(a.number for a in (*self.enqueues, *self.dequeues))

    # ---- steps ------------------------------------------------------------------------------------------------------

    def start(self, name: str, argument: Any = None) -> int:
        """Start an operation and return its number.

        `argument` is the list of components for an enqueue, the count for dequeue_many and dequeue_up_to, and whether
        to cancel pending enqueues for a close.
        """
        number = self.started
        self.started += 1
        try:
            attempt = self._attempt(number, name, argument)
        except ModelError as error:
            self._finish(number, error=error.name, why=error.why)
            return number
        if attempt is not None:
            (self.dequeues if name in DEQUEUES else self.enqueues).append(attempt)
        self._flush()
        return number

    def expire(self, number: int) -> bool:
        """Let an operation's timeout run out; return whether it was still waiting."""
        return self._withdraw(number, "DeadlineExceededError")

    def cancel(self, number: int) -> bool:
        """Let something outside the queue (a stop, a signal) end an operation's wait."""
        return self._withdraw(number, "CancelledError")

    def _withdraw(self, number: int, error: str) -> bool:
        for line in (self.enqueues, self.dequeues):
            for attempt in line:
                if attempt.number == number:
                    if attempt.name == "close" and self.tensorflow:
                        raise ValueError("TensorFlow's close can't be withdrawn")
                    line.remove(attempt)
                    # Rows that an enqueue_many has put in stay.
                    if not self.tensorflow:
                        # TensorFlow loses these, so no order is right or wrong after a shuffle has given them back.
                        self.order_known = self.order_known and not (self.kind == SHUFFLE and attempt.held)
                        self._restore(attempt)
                    self._finish(number, error=error)
                    self._flush()
                    return True
        return False

    # ---- the start of an operation ----------------------------------------------------------------------------------

    def _attempt(self, number: int, name: str, argument: Any) -> Attempt | None:
        if name == "close":
            if argument:
                self._close_and_cancel()
                self._finish(number)
                return None
            return Attempt(number, name)
        if name == "enqueue":
            row = self._components(argument)
            self._check_shapes([c.shape for c in row])
            return Attempt(number, name, rows=deque([row]))
        if name == "enqueue_many":
            rows = self._split(self._components(argument))
            if not rows:
                self._finish(number)
                return None
            return Attempt(number, name, rows=deque(rows))
        if name == "dequeue":
            return Attempt(number, name, wanted=1)
        assert name in DEQUEUES, name
        if self.shapes is None:
            raise ModelError("InvalidArgumentError", "the components have no specified shapes")
        if argument < 0:
            raise ModelError("InvalidArgumentError", f"requested {argument} < 0 elements")
        if self.kind == PRIORITY and name == "dequeue_many" and argument > self.capacity and not self.tensorflow:
            raise ModelError("InvalidArgumentError", f"requested {argument}, capacity {self.capacity}")
        if argument == 0:
            self._finish(number, value=self._batch([]))
            return None
        return Attempt(number, name, wanted=argument)

    def _components(self, values: Sequence[Any]) -> Row:
        if self.tensorflow:
            values = values[: len(self.dtypes)]
        if len(values) != len(self.dtypes):
            raise ModelError("InvalidArgumentError", f"{len(values)} components, expected {len(self.dtypes)}")
        # A copy: what the caller does to an array afterwards is the caller's own affair.
        return tuple(np.array(v, d) for v, d in zip(values, self.dtypes, strict=True))

    def _check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        if self.shapes is None:
            return
        for i, (expected, got) in enumerate(zip(self.shapes, shapes, strict=True)):
            if len(expected) != len(got) or any(e not in (None, g) for e, g in zip(expected, got, strict=True)):
                raise ModelError("InvalidArgumentError", f"component {i}: expected {expected}, got {got}")

    def _split(self, batch: Row) -> list[Row]:
        if any(c.ndim == 0 for c in batch):
            raise ModelError("InvalidArgumentError", "a scalar has no rows")
        if len({len(c) for c in batch}) != 1:
            raise ModelError("InvalidArgumentError", "components of different numbers of rows")
        self._check_shapes([c.shape[1:] for c in batch])
        return [tuple(c[i, ...] for c in batch) for i in range(len(batch[0]))]

    # ---- the algorithm ----------------------------------------------------------------------------------------------

    def _finish(self, number: int, value: list[np.ndarray] | None = None, error: str | None = None, why: str = ""):
        assert number not in self.outcomes
        self.outcomes[number] = Outcome(value, error, why)

    def _flush(self) -> None:
        while True:
            moved = self._run(self.enqueues)
            if not self._run(self.dequeues) and not moved:
                break

    def _run(self, line: deque[Attempt]) -> bool:
        """Let the heads of a line act until one can't go on; return whether anything happened."""
        moved = False
        while line:
            attempt = line[0]
            try:
                result = self._step(attempt)
            except ModelError as error:
                self._finish(attempt.number, error=error.name, why=error.why)
                result = COMPLETE
            moved |= result != NO_PROGRESS
            if result != COMPLETE:
                break
            line.popleft()
        return moved

    def _step(self, attempt: Attempt) -> int:
        if attempt.name == "close":
            return self._step_close(attempt)
        if attempt.name in ENQUEUES:
            return self._step_enqueue(attempt)
        return self._step_dequeue(attempt)

    def _step_close(self, attempt: Attempt) -> int:
        if self.closed and self.tensorflow:
            raise ModelError("CancelledError", "already closed")
        self.closed = True
        self._finish(attempt.number)
        return COMPLETE

    def _close_and_cancel(self) -> None:
        self.closed = True
        while self.enqueues:
            self._finish(self.enqueues.popleft().number, error="CancelledError", why="cancelled by a close")

    def _step_enqueue(self, attempt: Attempt) -> int:
        if self.closed:
            raise ModelError("CancelledError", "closed")
        result = NO_PROGRESS
        while self.size() < self.capacity:
            self._push(attempt.rows.popleft())
            result = PROGRESS
            if not attempt.rows:
                self._finish(attempt.number)
                return COMPLETE
        return result

    def _step_dequeue(self, attempt: Attempt) -> int:
        if self.closed and self.size() < attempt.missing:
            self._restore(attempt)
            self._shrink_or_fail(attempt)
        if self.kind == PRIORITY and self.size() < attempt.missing:
            return NO_PROGRESS
        result = NO_PROGRESS
        while self.size() > (0 if self.closed else self.min_after_dequeue):
            attempt.held.append(self._pop())
            result = PROGRESS
            if not attempt.missing:
                self._finish(attempt.number, value=self._value(attempt))
                return COMPLETE
        return result

    def _shrink_or_fail(self, attempt: Attempt) -> None:
        size = self.size()
        if attempt.name == "dequeue_up_to" and size:
            if self.kind != PRIORITY or not self.tensorflow:
                attempt.wanted = size
                return
            self.rows.clear()
        raise ModelError("OutOfRangeError", f"closed, requested {attempt.wanted}, current size {size}")

    # ---- the store --------------------------------------------------------------------------------------------------

    def _push(self, row: Row) -> None:
        self.rows.append(row)

    def _pop(self) -> Row:
        if self.kind == SHUFFLE:
            index = self.random.draw() % len(self.rows)
            row, last = self.rows[index], self.rows.pop()
            if index < len(self.rows):
                self.rows[index] = last
            return row
        if self.kind == PRIORITY:
            # min() gives the first of equals: the one that came first.
            index = min(range(len(self.rows)), key=lambda i: int(self.rows[i][0]))
            row = self.rows[index]
            del self.rows[index]
            return row
        return self.rows.popleft()

    def _restore(self, attempt: Attempt) -> None:
        """Give back what a dequeue holds: to the front in order; in a shuffle to the end, the last taken first."""
        # The queue may hold more than its capacity afterwards: others may have used the room.
        while attempt.held:
            row = attempt.held.pop()
            if self.kind == SHUFFLE:
                self.rows.append(row)
            else:
                self.rows.appendleft(row)

    def _value(self, attempt: Attempt) -> list[np.ndarray]:
        if attempt.name == "dequeue":
            return list(attempt.held[0])
        return self._batch(attempt.held)

    def _batch(self, rows: list[Row]) -> list[np.ndarray]:
        assert self.shapes is not None
        batch = []
        for i, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True)):
            if None in shape and len(shape) > 4 and self.tensorflow:
                raise ModelError("UnimplementedError", f"component {i} has rank {len(shape)}")
            column = [row[i] for row in rows]
            full = tuple(max((c.shape[k] for c in column), default=0) if n is None else n for k, n in enumerate(shape))
            padded = np.zeros((len(rows), *full), dtype)
            if dtype.kind == "O":
                padded.fill(b"")
            for k, c in enumerate(column):
                # The [()] takes an object out of its array of no dimensions.
                padded[(k, *map(slice, c.shape))] = c[()]
            batch.append(padded)
        return batch
