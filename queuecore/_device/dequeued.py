"""Elements of a queue on a device."""

from __future__ import annotations

from typing import Any, SupportsIndex

from queuecore._device.staging import DequeuedQueue, QueueElements, Staging
from queuecore._device.target import Target, target_of

__all__ = ["Dequeued", "device_queue"]


def device_queue(elements: DequeuedQueue, device: str, buffers: SupportsIndex, mode: str, pinned: str) -> Dequeued:
    """Return the iterator for a user's arguments."""
    target, _ = target_of(device, buffers, mode, pinned)
    return Dequeued(elements, target)


class Dequeued:
    """The elements of a queue, on a device, until it is closed and empty. Made by `QueueBase.to_device`.

    An iterator, and a context manager that closes itself, not the queue. Elements are as `QueueBase.dequeue` returns
    them, with arrays as those of a `DeviceDataset`.
    """

    def __init__(self, given: DequeuedQueue, target: Target | None) -> None:
        elements: Any = QueueElements(given)
        self._iterator: Any = elements if target is None else Staging(elements, target, None)

    def __iter__(self) -> Dequeued:
        """Return this iterator."""
        return self

    def __next__(self) -> Any:
        """Return the next element, behind whose copy the consumer's stream is ordered.

        Raises
        ------
        OutOfRangeError
            If what filled the queue failed, with its error as the ``__cause__``.
        """
        element = next(self._iterator)
        return list(element) if isinstance(element, tuple) else element

    def stats(self) -> dict[str, int]:
        """Return counters; see `Iterator.stats`."""
        made: dict[str, int] = self._iterator.stats()
        return made

    def close(self) -> None:
        """Stop the threads of this iterator. Elements that it already took out of the queue are lost."""
        self._iterator.close()

    def __enter__(self) -> Dequeued:
        """Return this iterator."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
