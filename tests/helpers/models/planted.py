"""Queues with one bug each, for tests of the tests: whoever judges queues has to find every one of them."""

from __future__ import annotations

from typing import Any

from helpers.models.queue_model import NO_PROGRESS, Attempt, ModelError, QueueModel, Row


class _Counting(QueueModel):
    """Does something wrong every third time."""

    count = 0

    def third(self) -> bool:
        self.count += 1
        return self.count % 3 == 0


class LosesAnElement(_Counting):
    def _push(self, row: Row) -> None:
        if not self.third():
            super()._push(row)


class DuplicatesAnElement(_Counting):
    def _push(self, row: Row) -> None:
        super()._push(row)
        if self.third():
            super()._push(row)


class Reorders(_Counting):
    def _pop(self) -> Row:
        if len(self.rows) > 1 and self.third():
            self.rows[0], self.rows[1] = self.rows[1], self.rows[0]
        return super()._pop()


class HasTooMuchRoom(QueueModel):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.capacity += 1


class CloseLosesAnEnqueue(QueueModel):
    """Tells those whom a close cancels that all went well."""

    def _close_and_cancel(self) -> None:
        waiting = list(self.enqueues)
        super()._close_and_cancel()
        for attempt in waiting:
            self.outcomes[attempt.number].error = None


class CloseOvertakes(QueueModel):
    """Closes at once where it should wait behind pending enqueues, which then fail."""

    def _attempt(self, number: int, name: str, argument: Any) -> Attempt | None:
        if name == "close":
            self.closed = True
        return super()._attempt(number, name, argument)


class NeverEnds(QueueModel):
    """A dequeue of a closed and drained queue waits for ever."""

    def _step_dequeue(self, attempt: Attempt) -> int:
        return NO_PROGRESS if self.closed and not self.size() else super()._step_dequeue(attempt)


class EndsEarly(QueueModel):
    """A dequeue fails as soon as the queue is closed, though elements are left."""

    def _step_dequeue(self, attempt: Attempt) -> int:
        if self.closed:
            raise ModelError("OutOfRangeError")
        return super()._step_dequeue(attempt)


class TimeoutTakes(QueueModel):
    """A dequeue that times out loses what it held, as TensorFlow's does."""

    def _withdraw(self, number: int, error: str) -> bool:
        for attempt in self.dequeues:
            if attempt.number == number:
                attempt.held.clear()
        return super()._withdraw(number, error)


class TimeoutPuts(QueueModel):
    """An enqueue that times out has its rows in all the same."""

    def _withdraw(self, number: int, error: str) -> bool:
        for attempt in self.enqueues:
            if attempt.number == number:
                self.rows.extend(attempt.rows)
        return super()._withdraw(number, error)


class GivesBackReversed(QueueModel):
    """A dequeue that fails gives back what it held, but the last first."""

    def _restore(self, attempt: Attempt) -> None:
        self.rows.extendleft(attempt.held)
        attempt.held.clear()


class EnqueuesInterleave(QueueModel):
    """Several enqueue_many put in a row each in turn."""

    def _step_enqueue(self, attempt: Attempt) -> int:
        if not self.closed and self.size() < self.capacity and len(attempt.rows) > 1 and len(self.enqueues) > 1:
            self._push(attempt.rows.popleft())
            self.enqueues.rotate(-1)
            return self._step(self.enqueues[0])
        return super()._step_enqueue(attempt)


class DequeuesInterleave(QueueModel):
    """A dequeue takes a row out of the middle of what a dequeue_many gathers."""

    def _run(self, line: Any) -> bool:
        moved = super()._run(line)
        for attempt in list(self.dequeues)[1:] if line is self.dequeues else ():
            if attempt.name == "dequeue" and self.dequeues[0].held:
                self.dequeues.remove(attempt)
                self._finish(attempt.number, value=list(self.dequeues[0].held.pop()))
                moved = True
        return moved


class OpenAfterClose(QueueModel):
    """An enqueue on a closed queue succeeds."""

    def _step_enqueue(self, attempt: Attempt) -> int:
        closed, self.closed = self.closed, False
        try:
            return super()._step_enqueue(attempt)
        finally:
            self.closed = closed


BUGS = [
    LosesAnElement,
    DuplicatesAnElement,
    Reorders,
    HasTooMuchRoom,
    CloseLosesAnEnqueue,
    NeverEnds,
    EndsEarly,
    TimeoutTakes,
    TimeoutPuts,
    GivesBackReversed,
    EnqueuesInterleave,
    DequeuesInterleave,
    OpenAfterClose,
]
# Seen from outside, without knowing who was first in line, this one is right.
HIDDEN = [CloseOvertakes]
