"""Staging: elements that are copied together into page-locked memory, and from there to a device."""

from __future__ import annotations

import functools
import itertools
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._core.atoms.runtime import StopEvent, slice_over, wait_over
from queuecore._core.device.lease import DeviceLease
from queuecore._core.device.staged import Staged
from queuecore._device.target import Target
from queuecore._elements.nests import mapped
from queuecore._runners.threads import start_thread
from queuecore.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    OutOfRangeError,
)

__all__ = ["KINDS", "DequeuedQueue", "ElementIterator", "QueueElements", "Staging"]

# Seconds of one wait for a queue's element, after which the thread checks whether anybody still wants it.
_SLICE = 0.1
# What a device's arrays can be made of.
KINDS = "biufc"


class ElementIterator(Protocol):
    """Elements that come one by one, with a place after each: an iterator of a dataset, or what a queue gives."""

    def __next__(self) -> Any:
        """Return the next element. An error may stand for an element: more can be asked for."""
        ...

    def _stop(self) -> None: ...

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop the threads that work for it."""
        ...

    def stats(self) -> dict[str, int]:
        """Return counters."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place."""
        ...


class DequeuedQueue(Protocol):
    """A queue, as far as staging needs it."""

    _native: Any

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """The dtypes of an element's components."""
        ...

    def dequeue(self, *, timeout: float | None = None) -> Any:
        """Take an element."""
        ...


class _Sent(NamedTuple):
    """An element on its way.

    Attributes
    ----------
    element : nested
        The element, with a `_StagedPart` in the place of each array.
    offsets : list of int
        The byte at which each array begins.
    state : dict
        The place after the element.
    """

    element: Any
    offsets: list[int]
    state: dict[str, Any]


@dataclass(frozen=True)
class _StagedPart:
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Staging:
    """Elements of an iterator, with their arrays on a device. Anything but arrays of numbers stays on the host, copied.

    Parameters
    ----------
    elements : Elements
        The iterator; only this object uses it.
    target : Target
    on_hold : {"copy", "raise"}, optional
        As of `queuecore.data.Options`.
    """

    _feed: _Feed | None = None

    def __init__(self, elements: ElementIterator, target: Target, on_hold: str | None) -> None:
        self._elements = elements
        self._target = target
        self._on_hold_raise = on_hold == "raise"
        self._state = elements.state_dict()
        self._last: Any = None
        self._counts = {"device_bytes": 0, "pageable_copies": 0}
        self._copied = 0
        self._warned = on_hold == "copy"
        self._ended = False
        self._closed = False
        self._failure: BaseException | None = None

    def __iter__(self) -> Self:
        """Return this iterator."""
        return self

    def __next__(self) -> Any:
        """Return the next element, behind whose copy the consumer's stream is ordered."""
        self._check_open()
        if self._ended:
            raise StopIteration
        feed = self._feed  # which another thread that closes this iterator takes away
        if feed is None:
            feed = self._feed = _Feed(self._elements, self._target)
            if self._closed:  # meanwhile, by another thread, which may not have seen the feed
                self._halt()
        try:
            delivery = feed.next()
        except Exception as error:
            self._fail(error)
            raise
        if delivery is None:
            refused = feed.element_error()
            if refused is not None:
                self._leave_behind(feed)
                del feed  # the traceback would keep its page-locked memory
                try:
                    raise refused
                finally:
                    del refused
            self._ended = True
            self._halt()
            raise StopIteration
        target, staged = self._target, feed.staged
        if self._last is not None:
            self._last.end()
        memory = None
        if staged.stats()["device_leases"] >= target.buffers - 1:
            said, self._warned = self._warned, True
            target.say_held(self._on_hold_raise, said)
            memory = target.arrays.allocate(staged.next_bytes())
        stream = target.arrays.stream()
        # If an exception comes before this point, the element may come again.
        try:
            made = self._arrays_there(delivery, staged.take(*stream, target.arrays), memory)
        except BaseException as error:
            self._fail(error)
            raise
        feed.waiting = []
        return made

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPreconditionError(
                "this iterator is closed; make a new one with iter(dataset)"
            ) from self._failure

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._closed = True
        self._halt()

    def _leave_behind(self, feed: _Feed) -> None:
        # Whether anything follows the element's error, the iterator says when it is asked for more, by a new feed.
        feed.idle.wait()
        self._state = self._elements.state_dict()
        self._halt()

    def _arrays_there(self, delivery: _Sent, lease: DeviceLease, memory: Any) -> Any:
        target = self._target
        if memory is not None:
            lease.copy_to(target.device, target.arrays.address(memory), memory)
            self._copied += 1
        else:
            self._last = lease if target.ring else None
        memory = target.arrays.memory(lease)
        self._state = delivery.state

        def array(part: Any) -> Any:
            if not isinstance(part, _StagedPart):
                return part
            return target.arrays.array(memory, delivery.offsets[part.number], part.shape, part.dtype)

        return mapped(array, delivery.element)

    def _halt(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.stop()
            counts = feed.staged.stats()
            self._counts = {name: count + counts[name] for name, count in self._counts.items()}

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop the threads of this iterator; see `Iterator.close`."""
        self._closed = True
        self._halt()
        self._elements.close(timeout)

    def __del__(self) -> None:
        """Stop the threads: they don't refer to this iterator."""
        if self._feed is not None:
            self._halt()
            self._elements._stop()

    def stats(self) -> dict[str, int]:
        """Return counters; see `Iterator.stats`."""
        stats = self._elements.stats()
        counts = {"device_bytes": 0, "pageable_copies": 0, "device_leases": 0}
        if self._feed is not None:
            counts = self._feed.staged.stats()
        stats |= {name: count + self._counts.get(name, 0) for name, count in counts.items()}
        stats["copied_batches"] += self._copied
        return stats

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element; see `Iterator.state_dict`."""
        return self._state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place; see `Iterator.load_state_dict`. Waits until the element that is being made is there."""
        self._check_open()
        feed = self._feed
        self._halt()
        if feed is not None:
            feed.idle.wait()
        self._elements.load_state_dict(state)
        self._state = self._elements.state_dict()
        self._ended = False


class _Feed:
    """The link between an iterator and its consumer: one run of a thread, and the elements that it has sent.

    Attributes
    ----------
    staged : Staged
    idle : threading.Event
        Set once the thread no longer uses the iterator.
    waiting : list of _Sent
        The next element, which is on its way, until its consumer takes it.
    """

    def __init__(self, elements: ElementIterator, target: Target) -> None:
        self.staged = Staged(target.device, target.buffers, target.prefer)
        self.idle = threading.Event()
        self.waiting: list[_Sent] = []
        self._errors: list[BaseException] = []
        self._element_errors: list[BaseException] = []
        self._stop = StopEvent()
        if isinstance(elements, QueueElements) and elements.of_numbers():
            self._sent = iter(functools.partial(_laid, self.staged, elements.queue), None)
            work = functools.partial(self.staged.feed, elements.queue._native, self._stop)
        else:
            sent: queue.SimpleQueue[_Sent] = queue.SimpleQueue()
            self._sent = iter(sent.get, None)
            work = functools.partial(_stage, elements, self.staged, sent, self._element_errors)
        broke = functools.partial(_broke, self.staged, self._errors, self.idle)
        start_thread("qc-stage", _fill, work, self.staged, self._errors, self.idle, broke=broke)

    def stop(self) -> None:
        """End what works for it."""
        self._stop.set()
        self.staged.stop()

    def next(self) -> _Sent | None:
        """Return the next element, which is on its way and stays `waiting`; `None` at the end."""
        if not self.waiting and self.staged.wait():
            self.waiting.extend(itertools.islice(self._sent, 1))  # nothing can come in between
        if not self.waiting and self._errors:
            raise self._errors.pop()
        return self.waiting[0] if self.waiting else None

    def element_error(self) -> BaseException | None:
        """Return what the iterator raised in place of the next element, if it did."""
        return self._element_errors[0] if self._element_errors else None


def _broke(staged: Staged, errors: list[BaseException], idle: threading.Event, error: BaseException) -> None:
    errors.append(error)
    staged.end()
    idle.set()


def _fill(work: Callable[[], None], staged: Staged, errors: list[BaseException], idle: threading.Event) -> None:
    try:
        work()
    except BaseException as error:  # of any class: it comes out in its place, in the consumer's thread
        errors.append(error)
    finally:
        staged.end()
        idle.set()
        del work, staged, errors  # which the error's traceback would keep, and they it


def _stage(
    elements: ElementIterator, staged: Staged, deliveries: queue.SimpleQueue[_Sent], element_errors: list[BaseException]
) -> None:
    try:
        while True:
            try:
                element = next(elements)
            except StopIteration:
                return
            except BaseException as error:
                element_errors.append(error)
                return
            arrays: list[np.ndarray[Any, Any]] = []
            parts = mapped(functools.partial(_part, arrays), element)
            state = elements.state_dict()
            offsets = staged.put(arrays)
            if offsets is None:
                return
            deliveries.put(_Sent(parts, offsets, state))
    finally:
        del elements, staged, deliveries, element_errors  # as in _fill


def _laid(staged: Staged, queue: DequeuedQueue) -> _Sent:
    # What the native feed put in.
    offsets: list[int] = []
    parts: list[_StagedPart] = []
    for (offset, shape), dtype in zip(staged.layout(), queue.dtypes, strict=True):
        parts.append(_StagedPart(len(parts), shape, dtype))
        offsets.append(offset)
    return _Sent(_as_tuple(queue._native.shaped(parts)), offsets, {})


def _as_tuple(element: Any) -> Any:
    return tuple(element) if isinstance(element, list) else element


def _part(arrays: list[np.ndarray[Any, Any]], value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in KINDS:
        array = np.ascontiguousarray(value, value.dtype.newbyteorder("="))
        arrays.append(array)
        return _StagedPart(len(arrays) - 1, value.shape, array.dtype)
    return own(value)


class QueueElements:
    """The elements of a queue, as an iterator gives them."""

    def __init__(self, given: DequeuedQueue) -> None:
        self.queue = given
        self._stopped = False

    def of_numbers(self) -> bool:
        """Return whether elements can be taken out and copied without Python."""
        return all(dtype.kind in KINDS and dtype.isnative for dtype in self.queue.dtypes)

    def __next__(self) -> Any:
        wait_over()
        while not self._stopped:
            try:
                element = self.queue.dequeue(timeout=_SLICE)
            except DeadlineExceededError:
                slice_over()
                continue
            except OutOfRangeError as error:
                if error.__cause__ is not None:
                    raise
                break
            return _as_tuple(element)
        raise StopIteration

    def _stop(self) -> None:
        self._stopped = True

    def close(self, timeout: float | None = None) -> None:
        del timeout
        self._stopped = True

    def state_dict(self) -> dict[str, Any]:
        return {}

    def stats(self) -> dict[str, int]:
        return {"copied_batches": 0}
