"""A small queue in Python with the rules that a QueueRunner relies on: order, capacity, both closes, failure with a
cause."""

from __future__ import annotations

import collections
import threading

from queuecore.errors import CancelledError, DeadlineExceededError, OutOfRangeError


class PythonFIFO:
    """First in, first out, under one lock."""

    def __init__(self, capacity: int, name: str = "fifo_queue") -> None:
        self.capacity = capacity
        self.name = name
        self._items: collections.deque = collections.deque()
        self._changed = threading.Condition()
        self._waiting = 0  # enqueues
        self._closing = False
        self._closed = False
        self._cancelled = False
        self._failure: BaseException | None = None

    def enqueue(self, value: object, timeout: float | None = None) -> None:
        """Wait for room; CancelledError once the queue is closed, or closes behind older enqueues."""
        with self._changed:
            late = self._closing
            self._waiting += not late
            try:
                self._wait(lambda: self._closed or (not late and len(self._items) < self.capacity), timeout)
                if self._closed:
                    raise CancelledError(f"FIFOQueue {self.name!r} is closed") from self._failure
                self._items.append(value)
            finally:
                self._waiting -= not late
                self._changed.notify_all()

    def dequeue(self, timeout: float | None = None) -> object:
        """Wait for an element; OutOfRangeError once the queue is closed and empty."""
        with self._changed:
            self._wait(lambda: self._items or self._closed, timeout)
            if not self._items:
                raise OutOfRangeError(
                    f"FIFOQueue {self.name!r} is closed and has insufficient elements (requested 1, current size 0)"
                ) from self._failure
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self, cancel_pending_enqueues: bool = False, timeout: float | None = None) -> None:
        """Close behind the enqueues that wait, or at once, ending them."""
        with self._changed:
            self._closing = True
            if cancel_pending_enqueues:
                self._closed = self._cancelled = True
            else:
                self._wait(lambda: self._closed or self._waiting == 0, timeout)
                if self._cancelled:
                    raise CancelledError("Close operation was cancelled")
                self._closed = True
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self.close(cancel_pending_enqueues=True)

    def is_closed(self) -> bool:
        """Whether a close has taken effect."""
        return self._closed

    def size(self) -> int:
        """Return the number of elements."""
        return len(self._items)

    def waiting_enqueues(self) -> int:
        """Return how many enqueues wait for room."""
        return self._waiting

    def _wait(self, condition, timeout: float | None) -> None:
        if not self._changed.wait_for(condition, timeout):
            raise DeadlineExceededError("timed out")
