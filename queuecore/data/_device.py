"""Datasets whose batches go to a device: the last step of an input pipeline.

Where every component of a batch has one size, the batches of the native stream go there as they lie in its page-locked
slots, and no Python is involved until the consumer takes them. All others are copied together into page-locked memory
by a thread, and the same native transfer goes on from there: elements of a queue of numbers without the GIL from the
first to the last, those of Python's functions, rows of varying length and strings as elements, one by one.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from queuecore._core.device import Device, DeviceLease, Staged
from queuecore._core.runtime import StopEvent
from queuecore._kernels import Column, Compiled, Kernel, kernel_of
from queuecore._stages import BYTES, Component, Stage
from queuecore._warnings import warn
from queuecore.data._args import check_int
from queuecore.data._explain import lines_of
from queuecore.data._iterators import IteratorBase
from queuecore.data._lazy import lazy
from queuecore.data._nodes import start_thread
from queuecore.data._ops import Batch, Map, Op
from queuecore.data._padded import ShapedBatch
from queuecore.data._source import FixedLengthSource
from queuecore.data._structures import mapped
from queuecore.data._values import owned
from queuecore.data.iterator import Iterator
from queuecore.data.options import Options
from queuecore.device import Arrays, chosen
from queuecore.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    SlotsExhaustedError,
    UnimplementedError,
)
from queuecore.ops import record_stage

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset
    from queuecore.queues import QueueBase

__all__ = ["Asked", "Dequeued", "DeviceDataset", "StagedIterator", "Target", "device_dataset", "device_queue"]

_MOST_BUFFERS = 64
# Seconds that a wait for a queue's element lasts, before it is looked whether anybody still wants it.
_SLICE = 0.1
# What a device's arrays can be made of.
_KINDS = "biufc"


class Asked(NamedTuple):
    """What a user asks for: the arguments of `Dataset.prefetch_to_device`."""

    device: str
    buffers: int
    mode: str
    pinned: str


class Target(NamedTuple):
    """Where batches go.

    Attributes
    ----------
    device : Device
    arrays : Arrays
        Makes arrays there.
    buffers : int
        Batches that may be there at a time.
    ring : bool
        A batch is good until the next one is taken, and not as long as its arrays are.
    prefer : bool
        Host memory that can't be page-locked will do.
    widening : Widening, optional
        What is made of a batch there.
    """

    device: Device
    arrays: Arrays
    buffers: int
    ring: bool
    prefer: bool
    widening: Widening | None = None

    def say_held(self, forbidden: bool, said: bool) -> None:
        """Raise, or warn once, because as many batches are held as may be, and another one is taken."""
        held = f"{self.buffers - 1} batches of this iterator are"
        if forbidden:
            raise SlotsExhaustedError(
                f"{held} still held on cuda:{self.device.ordinal}, and on_hold='raise' allows no more. Drop or copy "
                "them, use more buffers, or on_hold='copy'"
            )
        if not said:
            warn(
                f"more than {held} held on cuda:{self.device.ordinal}; further ones are copies of their own, which "
                "costs time and memory. prefetch_to_device(buffers=...) allows more, Options(on_hold='raise') "
                "forbids copies",
                3,
            )


@dataclass(frozen=True)
class Widening:
    """The stages behind the copy, as one kernel.

    What comes after a batch natively makes the same of the batch as of its rows one by one. So here, as on the host,
    all stages get rows, and where the batch comes between them doesn't matter.

    Attributes
    ----------
    given : sequence of Component
        A raw row's.
    stages : list of Stage
    template : nested
        Of an element, over the outputs.
    arrays : Arrays
        Compiles it.
    """

    given: Sequence[Component]
    stages: list[Stage]
    template: Any
    arrays: Arrays

    def kernel(self, offsets: Sequence[int]) -> Kernel:
        """Return the kernel for batches whose components begin at these bytes."""
        columns = [Column(one, offset) for one, offset in zip(self.given, offsets, strict=True)]
        return kernel_of(columns, self.stages, batched=False)

    def compiled(self, offsets: Sequence[int]) -> tuple[Kernel, Compiled]:
        """Return it, and ready to be launched."""
        kernel = self.kernel(offsets)
        return kernel, self.arrays.compiled(kernel)


class _Parts(NamedTuple):
    """What is done where.

    Attributes
    ----------
    host : Dataset
        Of what is copied.
    widening : Widening, optional
        What is made of it on the device.
    kept : dict of int to str
        Of maps that are marked for the device and done on the host, by their place in `host`: why.
    """

    host: Dataset
    widening: Widening | None
    kept: dict[int, str]


class DeviceDataset:
    """Elements of a dataset, on a device. Made by `Dataset.prefetch_to_device`.

    It can be iterated over as often as you like, as the dataset. Its elements have the structure of the dataset's;
    their arrays are CuPy's, or NumPy's where the device is the host. What is no array of numbers (strings, `Ragged`,
    `Sparse`, objects) stays on the host.

    An array is good as long as anything refers to it, or to a view of it: the batch's memory on the device is used
    again after that, behind what the consumer's stream had got until then. The stream is CuPy's current one, of the
    thread that calls ``next()``; it is ordered after the copy before ``next()`` returns, so `__dlpack__` and all that
    uses the same stream needs nothing else. Work on other streams must be ordered after this one, and be done before
    the array goes, or be named by `queuecore.device.record_stream`. With ``mode="ring"``, a batch is only good until
    the next one is taken, whatever refers to it.

    Who holds ``buffers`` batches or more gets copies on the device from then on, and one `RuntimeWarning`; with
    ``Options(on_hold="raise")`` `SlotsExhaustedError`.

    Its iterators do what `Iterator` does, `state_dict` included: a place saved on a device can be loaded on the host,
    and the other way round.

    It can be pickled and copied if its dataset can. A copy asks anew for the device that was asked for, where it is
    made: in a process without a GPU, ``"auto"`` is the host, and ``"cuda"`` a `DeviceUnavailableError`.
    """

    def __init__(self, dataset: Dataset, target: Target | None, asked: Asked) -> None:
        self._dataset = dataset
        self._target = target
        self._asked = asked

    def __iter__(self) -> IteratorBase:
        target = self._target
        if target is None:
            return iter(self._dataset.prefetch(self._asked.buffers))
        host, widening, _ = self._parts
        if not goes_as_it_lies(host):
            return StagedIterator(Iterator(host), target, host._options.on_hold == "raise")
        return Iterator(host, None, target._replace(widening=widening), self._dataset)

    @lazy
    def _parts(self) -> _Parts:
        return _parted(self._dataset, self._target)

    def map(self, map_func: Stage | Callable[..., Any]) -> DeviceDataset:
        """Make something else of each element, on the device if that is possible.

        Parameters
        ----------
        map_func : callable or Stage
            As `Dataset.map` takes it.

        Returns
        -------
        DeviceDataset

        Notes
        -----
        All maps behind each other are one kernel, launched in the copy's stream: so little data goes to the device, and
        becomes more there. Maps before `Dataset.prefetch_to_device` join them if they are marked (``on_device`` of
        `Dataset.map`). A kernel can be made of functions that are traced, and of native operations, on batches of
        one size: casts, arithmetic, comparison, `scale`, `one_hot`, `reshape`, `transpose`, `decode_raw` and fields of
        records. The results are those of the host, bit for bit. All others are done on the host, before the copy;
        `plan` says which, and why.
        """
        return DeviceDataset(self._dataset.map(map_func, on_device=True), self._target, self._asked)

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as in `Dataset.element_spec`; the arrays are the device's."""
        return self._dataset.element_spec

    def cardinality(self) -> int:
        """Return the number of elements, as `Dataset.cardinality` does."""
        return self._dataset.cardinality()

    def with_options(self, options: Options) -> DeviceDataset:
        """Set how the dataset runs, as `Dataset.with_options` does."""
        return DeviceDataset(self._dataset.with_options(options), self._target, self._asked)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy asks for a device where it is made.
        return device_dataset, (self._dataset, *self._asked)

    def plan(self) -> str:
        """Say what is done, and where, as `Dataset.plan` does; of maps that are not done on the device, why.

        Only of those that were meant for it: marked, or put behind `Dataset.prefetch_to_device`.
        """
        host, widening, kept = self._parts
        stages = [] if widening is None else widening.stages
        lines = [(f"map({stage!r})", "device: one kernel, in the stream of the copies") for stage in reversed(stages)]
        device, where = "cpu", "native: batches stay on the host"
        if self._target is not None:
            device, where = f"cuda:{self._target.device.ordinal}", "native: one thread copies batches as they lie"
            if not goes_as_it_lies(host):
                where = "Python copies an element's arrays together, one native thread copies those"
        lines.append((f"prefetch_to_device({device!r}, {self._asked.buffers})", where))
        lines += lines_of(host, "", kept)
        width = max(len(what) for what, _ in lines)
        return "\n".join(f"{what:{width}}  {where}" for what, where in lines)


def _parted(whole: Dataset, target: Target | None) -> _Parts:
    """Return where the steps of a dataset are done: as many of the last maps on the device as can be."""
    from queuecore.data.dataset import _Steps

    ops = whole._ops
    first = len(ops)
    while first and _lets_by(ops[first - 1]):
        first -= 1
    maps = [at for at in range(first, len(ops)) if isinstance(ops[at], Map)]
    kept: dict[int, str] = {}
    for number, at in enumerate(maps):
        there = maps[number:]
        host = _Steps(whole._source, tuple(op for i, op in enumerate(ops) if i not in there), whole._options)
        try:
            if target is None:
                raise UnimplementedError("batches stay on the host")
            return _Parts(host, _widening(whole, host, target.arrays), kept)
        except UnimplementedError as error:
            kept[at] = str(error)
    return _Parts(whole, None, kept)


def _lets_by(op: Op) -> bool:
    """Whether a map before this step may be done behind the copy, as far as this step goes."""
    # Others than maps only say which elements come, and when; but padding is made for the shapes that it gets.
    return op.on_device if isinstance(op, Map) else not isinstance(op, ShapedBatch)


def _widening(whole: Dataset, host: Dataset, arrays: Arrays) -> Widening:
    """Return what the last maps of a dataset, which the host's lacks, are on a device, or raise UnimplementedError."""
    if sum(isinstance(op, Batch) for op in host._ops) != 1 or not goes_as_it_lies(host):
        raise UnimplementedError("elements are no batches of one size")
    made = whole._source.made(whole._stages())
    if made.assemble is not None:
        raise UnimplementedError("it makes something else than arrays")
    source, before = host._source, host._stages()
    given = source.made(before).given
    if isinstance(source, FixedLengthSource) and not before:
        # Of records without stages it knows no names, by which the first stage may ask for fields.
        given = record_stage(source.record).bind((Component(BYTES, (), source.record.record_bytes),)).outputs
    widening = Widening(given, whole._stages()[len(before) :], made.template, arrays)
    widening.kernel([0] * len(given))
    return widening


def device_dataset(dataset: Dataset, device: str, buffers: SupportsIndex, mode: str, pinned: str) -> DeviceDataset:
    """Return the dataset of a user's arguments."""
    target, count = _target(device, buffers, mode, pinned)
    return DeviceDataset(dataset, target, Asked(device, count, mode, pinned))


def device_queue(elements: QueueBase, device: str, buffers: SupportsIndex, mode: str, pinned: str) -> Dequeued:
    """Return the iterator of a user's arguments."""
    target, _ = _target(device, buffers, mode, pinned)
    return Dequeued(elements, target)


def _target(device: str, buffers: SupportsIndex, mode: str, pinned: str) -> tuple[Target | None, int]:
    count = check_int(buffers, "buffers", 2, _MOST_BUFFERS)
    if mode not in ("lease", "ring"):
        raise InvalidArgumentError(f'mode must be "lease" or "ring", not {mode!r}')
    if pinned not in ("require", "prefer"):
        raise InvalidArgumentError(f'pinned must be "require" or "prefer", not {pinned!r}')
    found = chosen(device)
    return None if found is None else Target(*found, count, mode == "ring", pinned == "prefer"), count


def goes_as_it_lies(dataset: Dataset) -> bool:
    """Whether the slots of a dataset's native stream can be copied as they are."""
    given = dataset._native(dataset._options)
    if given.get("assemble") is not None or given.get("pads"):
        return False
    components = given.get("components")
    if components is None:
        return bool(given["leaves"]) and all(leaf[0].kind in _KINDS for leaf in given["leaves"])
    return all(kind == "fixed" and dtype.kind in _KINDS for kind, dtype, _ in components)


class _Sent(NamedTuple):
    """An element on its way.

    Attributes
    ----------
    element : nested
        With a `_Part` in the place of each array.
    offsets : list of int
        Where each array begins.
    state : dict
        The place after it.
    """

    element: Any
    offsets: list[int]
    state: dict[str, Any]


@dataclass(frozen=True)
class _Part:
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class StagedIterator(IteratorBase):
    """Elements of an iterator, with their arrays on a device. What is no array of numbers stays on the host, as a copy.

    Parameters
    ----------
    elements : Iterator
        Used by nobody else.
    target : Target
    on_hold_raise : bool
        Who holds too many batches gets an error, and no copies.
    """

    _feed: _Feed | None = None

    def __init__(self, elements: Iterator, target: Target, on_hold_raise: bool) -> None:
        self._elements = elements
        self._target = target
        self._on_hold_raise = on_hold_raise
        self._state = elements.state_dict()
        self._last: Any = None
        self._counts = {"device_bytes": 0, "pageable_copies": 0}
        self._copied = 0
        self._warned = False
        self._ended = False
        self._closed = False
        self._failure: BaseException | None = None

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        return self._elements.element_spec

    @property
    def output_classes(self) -> Any:
        """The classes of an element."""
        return self._elements.output_classes

    def __next__(self) -> Any:
        """Return the next element, behind whose copy the consumer's stream is ordered."""
        self._check_open()
        if self._ended:
            raise StopIteration
        if self._feed is None:
            self._feed = _Feed(self._elements, self._target)
        try:
            sent = self._feed.next()
        except Exception as error:
            self._fail(error)
            raise
        if sent is None:
            self._ended = True
            self._halt()
            raise StopIteration
        target, staged = self._target, self._feed.staged
        if self._last is not None:
            self._last.end()
        memory = None
        if staged.stats()["device_leases"] >= target.buffers - 1:
            said, self._warned = self._warned, True
            target.say_held(self._on_hold_raise, said)
            memory = target.arrays.allocate(staged.next_bytes())
        stream = target.arrays.stream()
        self._feed.waiting = None  # up to here it may come again
        try:
            return self._arrays_there(sent, staged.take(*stream, target.arrays), memory)
        except Exception as error:
            self._fail(error)
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPreconditionError(
                "this iterator is closed; make a new one with iter(dataset)"
            ) from self._failure

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._closed = True
        self._halt()

    def _arrays_there(self, sent: _Sent, lease: DeviceLease, memory: Any) -> Any:
        target = self._target
        if memory is not None:
            lease.copy_to(target.device, target.arrays.address(memory), memory)
            self._copied += 1
        else:
            self._last = lease if target.ring else None
        memory = target.arrays.memory(lease)
        self._state = sent.state

        def array(part: Any) -> Any:
            if not isinstance(part, _Part):
                return part
            return target.arrays.array(memory, sent.offsets[part.number], part.shape, part.dtype)

        return mapped(array, sent.element)

    def _halt(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.stop()
            counts = feed.staged.stats()
            self._counts = {name: count + counts[name] for name, count in self._counts.items()}

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop what works for this iterator; see `Iterator.close`."""
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
        made = self._elements.stats()
        counts = {"device_bytes": 0, "pageable_copies": 0, "device_leases": 0}
        if self._feed is not None:
            counts = self._feed.staged.stats()
        made |= {name: count + self._counts.get(name, 0) for name, count in counts.items()}
        made["copied_batches"] += self._copied
        return made

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
    """What goes on between an iterator and its consumer: one run of a thread, and what it has sent.

    Attributes
    ----------
    staged : Staged
    idle : threading.Event
        Set once the thread no longer uses the iterator.
    waiting : _Sent, optional
        The next element, which is on its way, until its consumer takes it.
    """

    def __init__(self, elements: IteratorBase | _Elements, target: Target) -> None:
        self.staged = Staged(target.device, target.buffers, target.prefer)
        self.idle = threading.Event()
        self.waiting: _Sent | None = None
        self._errors: list[BaseException] = []
        self._stop = StopEvent()
        if isinstance(elements, _Elements) and elements.of_numbers():
            self._take: Callable[[], _Sent] = functools.partial(_laid, self.staged, elements.queue)
            work = functools.partial(self.staged.feed, elements.queue._native, self._stop)
        else:
            sent: queue.SimpleQueue[_Sent] = queue.SimpleQueue()
            self._take = sent.get
            work = functools.partial(_stage, elements, self.staged, sent)
        start_thread("qc-stage", _fill, work, self.staged, self._errors, self.idle)

    def stop(self) -> None:
        """End what works for it."""
        self._stop.set()
        self.staged.stop()

    def next(self) -> _Sent | None:
        """Return the next element, which is on its way and stays `waiting`; `None` at the end."""
        if self.waiting is None and self.staged.wait():
            self.waiting = self._take()
        if self.waiting is None and self._errors:
            raise self._errors.pop()
        return self.waiting


def _fill(work: Callable[[], None], staged: Staged, errors: list[BaseException], idle: threading.Event) -> None:
    try:
        work()
    except BaseException as error:  # whatever it is, it comes out in its place, in the consumer's thread
        errors.append(error)
    finally:
        staged.end()
        idle.set()
        del work, staged, errors  # which the error's traceback would keep, and they it


def _stage(elements: IteratorBase | _Elements, staged: Staged, sent: queue.SimpleQueue[_Sent]) -> None:
    try:
        for element in elements:
            arrays: list[np.ndarray[Any, Any]] = []
            parts = mapped(functools.partial(_part, arrays), element)
            state = elements.state_dict()
            offsets = staged.put(arrays)
            if offsets is None:
                return
            sent.put(_Sent(parts, offsets, state))
    finally:
        del elements, staged, sent  # as in _fill


def _laid(staged: Staged, given: QueueBase) -> _Sent:
    # What the native feed put in.
    offsets: list[int] = []
    parts: list[_Part] = []
    for (offset, shape), dtype in zip(staged.layout(), given.dtypes, strict=True):
        parts.append(_Part(len(parts), shape, dtype))
        offsets.append(offset)
    return _Sent(_as_tuple(given._native.shaped(parts)), offsets, {})


def _as_tuple(element: Any) -> Any:
    return tuple(element) if isinstance(element, list) else element


def _part(arrays: list[np.ndarray[Any, Any]], value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS:
        array = np.ascontiguousarray(value, value.dtype.newbyteorder("="))
        arrays.append(array)
        return _Part(len(arrays) - 1, value.shape, array.dtype)
    return owned(value)


class _Elements:
    """What a queue gives, as an iterator gives it."""

    def __init__(self, given: QueueBase) -> None:
        self.queue = given
        self._stopped = False

    def of_numbers(self) -> bool:
        """Whether they can be taken out and copied without Python."""
        return all(dtype.kind in _KINDS and dtype.isnative for dtype in self.queue.dtypes)

    def __iter__(self) -> _Elements:
        return self

    def __next__(self) -> Any:
        while not self._stopped:
            try:
                element = self.queue.dequeue(timeout=_SLICE)
            except DeadlineExceededError:
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


class Dequeued:
    """The elements of a queue, on a device, until it is closed and empty. Made by `QueueBase.to_device`.

    An iterator, and a context manager that closes itself, not the queue. Elements are as `QueueBase.dequeue` returns
    them, with arrays as those of a `DeviceDataset`.
    """

    def __init__(self, given: QueueBase, target: Target | None) -> None:
        elements: Any = _Elements(given)
        self._iterator: Any = elements if target is None else StagedIterator(elements, target, False)

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
        """Stop what works for this iterator. Elements that it took out of the queue already are gone."""
        self._iterator.close()

    def __enter__(self) -> Dequeued:
        """Return this iterator."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
