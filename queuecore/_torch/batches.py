"""Batches: made of the samples at given indices, or of the elements of an iterable dataset."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from queuecore._checks.usercode import raised
from queuecore._torch.base import Loader
from queuecore._torch.package import torch
from queuecore._torch.places import Marks, is_stateful
from queuecore._torch.tensors import ElementTensors

__all__ = ["Batching", "DatasetStream", "Fetch", "SamplerCalls", "WorkerCall", "WorkerResult"]


class WorkerCall(NamedTuple):
    """A batch to fetch: the indices of its samples, or one index; or the error that the sampler raised instead."""

    number: int
    index: Any
    error: Any = None
    worker: int = 0
    marked: bool = False  # the dataset's state behind the batch is wanted


class SamplerCalls:
    """The calls for the indices of a sampler, from the batch `low` on, without those `ahead`.

    An error of the sampler is a call too, with a number, and the sampler is asked again behind it. No generator, which
    would end with the first error.

    Parameters
    ----------
    marks : Marks
    indices : iterator
    number : int
        The number of the batch of the first index.
    low : int
    ahead : frozenset of int
    """

    def __init__(self, marks: Marks, indices: Iterator[Any], number: int, low: int, ahead: frozenset[int]) -> None:
        self._marks, self._indices, self._number, self._low, self._ahead = marks, indices, number, low, ahead

    def __iter__(self) -> Iterator[WorkerCall]:
        return self

    def __next__(self) -> WorkerCall:
        while True:
            number = self._number
            try:
                index = next(self._indices)
                self._marks.note(number, index)
                call = WorkerCall(number, index)
            except StopIteration:
                raise
            except Exception as error:
                call = WorkerCall(number, None, error)
            self._number += 1
            if number >= self._low and number not in self._ahead:
                return call


class WorkerResult(NamedTuple):
    """A batch that was fetched, or the error raised instead; and the place behind it in the data."""

    number: int
    batch: Any
    error: Any = None
    worker: int = 0
    place: Any = None
    ended: bool = False


class Batching(NamedTuple):
    """The arguments of a loader that decide how batches are made."""

    size: int | None
    batched: bool
    drop_last: bool
    collate: Any
    pin: Any
    opened: Callable[[], ElementTensors] | None = None  # makes an iterator over a queuecore dataset
    every: int = 1  # after so many batches the dataset's state is taken; 0: never

    @classmethod
    def of(cls, loader: Loader, pins: bool = True) -> Batching:
        pin = _pinning(loader) if pins else None
        batching = cls(
            loader.batch_size, loader._auto_collation, loader.drop_last, loader.collate_fn, pin, loader.settings.opened
        )
        # Out of order, and for workers that stay, the last batch of a worker may be any.
        every = loader.snapshot_every_n_steps or 0
        batching = batching._replace(every=every if loader.in_order and not loader.persistent_workers else 1)
        # Some queuecore datasets make batches themselves.
        return (
            batching._replace(size=None, collate=None, pin=None)
            if batching.opened and loader.settings.collates
            else batching
        )


class Fetch:
    """A maker of batches of the samples at given indices.

    Parameters
    ----------
    batching : Batching
    dataset : object
        A dataset with ``__getitem__`` or ``__getitems__``.
    begin : object, optional
        A state of the dataset, loaded before the first call.
    guard : context manager, optional
        Held while the dataset is called.
    worker : int, default 0
        The worker's number.

    Attributes
    ----------
    begin : object
        That state, until it is loaded; `None`: there is none, or it is loaded.
    """

    def __init__(self, batching: Batching, dataset: Any, begin: Any = None, guard: Any = None, worker: int = 0) -> None:
        self._batching, self._dataset, self.begin, self._worker = batching, dataset, begin, worker
        self._guard = guard or contextlib.nullcontext()

    def load(self) -> None:
        """Load the state to begin with into the dataset, unless that is done."""
        begin, self.begin = self.begin, None
        if begin is not None:
            self._dataset.load_state_dict(copy.deepcopy(begin))

    def place(self) -> Any:
        """Return a copy of the dataset's state; `None` if it has none."""
        return copy.deepcopy(self._dataset.state_dict()) if is_stateful(self._dataset) else None

    def result(self, call: WorkerCall) -> WorkerResult:
        """Return the samples at the indices of a call, collated. Errors are raised."""
        if call.error is not None:
            return WorkerResult(call.number, None, call.error, self._worker)
        dataset, batching = self._dataset, self._batching
        with self._guard:
            if self.begin is not None:
                self.load()
            if not batching.batched:
                data = dataset[call.index]
            elif getattr(dataset, "__getitems__", None):
                data = dataset.__getitems__(call.index)
            else:
                data = [dataset[one] for one in call.index]
        batch = batching.collate(data)
        place = None
        if call.marked:
            with self._guard:
                place = self.place()
        return WorkerResult(
            call.number, batch if batching.pin is None else batching.pin(batch), None, self._worker, place
        )


class DatasetStream:
    """The batches of an iterable dataset, and the place in it.

    Parameters
    ----------
    batching : Batching
    dataset : object
    begin : mapping, optional
        The place to begin at, from `place`.
    guard : context manager, optional
        Held while the dataset is called.
    worker : int, default 0
        The worker's number.
    """

    def __init__(
        self, batching: Batching, dataset: Any, begin: Mapping[str, Any] | None, guard: Any = None, worker: int = 0
    ) -> None:
        self._batching, self._dataset, self._begin, self._worker = batching, dataset, begin, worker
        self._guard = guard or contextlib.nullcontext()
        self._samples = 0
        self._data: list[Any] = []
        self._before: Any = None  # the place before the samples in `_data`
        self._elements: Any = None
        self._stateful: Any = None
        self._holder: Any = None  # the dataset, if it has a state besides that of its iterator
        self._ended = False
        self._since = 0  # batches since `_marked` was taken
        self._marked: Any = None

    def open(self, first: Callable[[], object] | None = None) -> None:
        """Begin to iterate, unless the iteration has begun.

        `first` is called before the pass begins, but behind the loading of a state that is the end of the pass before:
        the dataset may have the global generator's state in its own.
        """
        if self._elements is not None:
            return
        dataset, opener, begin = self._dataset, self._batching.opened, self._begin
        is_over = begin is not None and begin["over"]
        if first is not None and not (is_over and begin is not None and begin["place"] is not None):
            first()
            first = None
        # Such a dataset begins at its place, so that one iterator is enough: to make one may have effects.
        is_held = begin is not None and not is_over and bool(begin.get("held")) and not begin.get("ended")
        before = None if begin is None else begin["place"] if is_held else begin.get("dataset")
        if before is not None:
            dataset.load_state_dict(copy.deepcopy(before))
        elements: Any = iter(dataset) if opener is None else opener()
        stateful: Any = next((one for one in (elements, dataset) if is_stateful(one)), None)
        own = opener is None and stateful is not dataset and not isinstance(elements, ElementTensors)
        self._holder = dataset if own and is_stateful(dataset) else None
        if begin is not None and not is_over:
            self._samples, self._ended = begin["samples"], begin.get("ended", False)
        if begin is not None and stateful is None:
            for _ in range(self._samples + self._ended):
                if next(elements, self) is self:
                    break
        elif begin is not None and begin["place"] is not None and not is_held:
            stateful.load_state_dict(copy.deepcopy(begin["place"]))
            if stateful is dataset:
                elements = iter(dataset)
                # One after the end is that of the pass before, which ends here, or of a dataset that has begun anew.
                goes_on = not (is_over or self._ended) or not _has_ended(elements)
                if goes_on and (is_over or self._ended or elements is dataset):  # iter() may have taken it to its start
                    elements = None
                    stateful.load_state_dict(copy.deepcopy(begin["place"]))
                    elements = dataset
                if is_over:
                    if first is not None:
                        first()
                    elements = iter(dataset)
            elif is_over:  # the next iterator begins with the next pass
                if isinstance(elements, ElementTensors):
                    elements.close()
                if first is not None:
                    first()
                elements = stateful = iter(dataset) if opener is None else opener()
        self._stateful, self._elements = stateful, elements
        if self._batching.every != 1 and stateful is not None:
            self._marked = copy.deepcopy(self.place())
        for _ in range(0 if begin is None or is_over else begin.get("since", 0)):
            with contextlib.suppress(Exception):
                self.batch()
            self._since += 1

    def batch(self) -> Any:
        """Return the next batch.

        Raises
        ------
        StopIteration
            At the end.
        """
        # Samples are kept in a list of the object, so that a call that is cut short loses none.
        data, batching = self._data, self._batching
        size = batching.size or 1
        if size > 1 and not data and self._stateful is not None:
            self._before = self._stateful.state_dict()
        while (count := len(data)) < size and not self._ended:
            # extend() leaves no moment in which a sample could get lost; iter() would restart some datasets.
            data.extend(map(next, (self._elements,)))
            self._ended = len(data) == count
        if self._ended and (not data or (batching.drop_last and len(data) < size)):
            data.clear()
            raise StopIteration
        batch = data[0] if batching.size is None else data
        try:
            if batching.collate is not None:
                batch = batching.collate(batch)
            if batching.pin is not None:
                batch = batching.pin(batch)
        except Exception as error:  # the next call goes on with the samples after these
            self._data, self._samples = [], self._samples + len(data)
            if isinstance(error, StopIteration):  # as it is, it would be the end of the data
                raise raised("DataLoader: collate_fn", error) from error
            raise
        self._data, self._samples = [], self._samples + len(data)
        return batch

    def place(self, is_over: bool = False) -> dict[str, Any]:
        """Return the place behind the last delivered batch."""
        place = None if self._stateful is None else self._stateful.state_dict()
        if self._data and not is_over:
            place = self._before
        made = {"samples": self._samples, "place": place, "over": is_over}
        if self._ended and not self._data and not is_over:  # the dataset may have begun anew
            made["ended"] = True
        if self._stateful is self._dataset and self._stateful is not self._elements:
            made["held"] = True  # the place is the dataset's, and its iterator another object
        return made if self._holder is None else made | {"dataset": self._holder.state_dict()}

    def _next_place(self) -> dict[str, Any]:
        """Return a copy of the place, or the one taken last with the number of batches since."""
        every = self._batching.every
        if every == 1 or self._stateful is None:
            return copy.deepcopy(self.place())  # the dataset may go on changing the object that it returned
        if self._since >= every > 0:
            self._marked, self._since = copy.deepcopy(self.place()), 0
        made: dict[str, Any] = self._marked | {"since": self._since}
        return made

    def result(self, call: WorkerCall) -> WorkerResult:
        """Return the next batch as a worker's result, or a result that says that there is none. Errors are raised."""
        try:
            with self._guard:
                self.open()
                self._since += 1
                batch = self.batch()
                place = self._next_place()
        except StopIteration:
            self._ended = True
            # A worker that resumes here finds the end again.
            place = copy.deepcopy(self.place())
            return WorkerResult(call.number, None, worker=self._worker, place=place, ended=True)
        return WorkerResult(call.number, batch, worker=self._worker, place=place)

    @property
    def is_native(self) -> bool:
        """True if the elements are those of a queuecore dataset, which native threads make."""
        return isinstance(self._elements, ElementTensors)

    def stats(self) -> dict[str, int]:
        """Return the counters of the iterator over a queuecore dataset."""
        return dict(self._elements.stats()) if isinstance(self._elements, ElementTensors) else {}

    def close(self, timeout: float | None) -> None:
        """Close the iterator over a queuecore dataset."""
        if isinstance(self._elements, ElementTensors):
            self._elements.close(timeout)


def _has_ended(elements: Any) -> bool:
    """Return whether there is no further element."""
    try:
        next(elements)
    except StopIteration:
        return True
    except Exception:  # the element's own, which comes again
        return False
    return False


def _pinning(loader: Loader) -> Any:
    """Return the function that puts a batch into pinned memory; `None` if that isn't wanted, or there is no GPU."""
    return torch.utils.data._utils.pin_memory.pin_memory if loader.pin_memory and torch.cuda.is_available() else None
