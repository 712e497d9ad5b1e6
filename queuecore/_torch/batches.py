"""Batches: made of the samples at given indices, or of the elements of an iterable dataset."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from queuecore._torch.base import Loader
from queuecore._torch.package import torch
from queuecore._torch.places import is_stateful
from queuecore._torch.tensors import Elements

__all__ = ["Call", "Fetch", "How", "Result", "Stream"]


class Call(NamedTuple):
    """A batch to fetch: the indices of its samples, or one index; or the error that the sampler raised instead."""

    number: int
    index: Any
    error: Any = None
    worker: int = 0


class Result(NamedTuple):
    """A batch that was fetched, or the error raised instead; and the place behind it in the data."""

    number: int
    batch: Any
    error: Any = None
    worker: int = 0
    place: Any = None
    ended: bool = False


class How(NamedTuple):
    """The arguments of a loader that decide how batches are made."""

    size: int | None
    batched: bool
    drop_last: bool
    collate: Any
    pin: Any
    opened: Callable[[], Elements] | None = None  # makes an iterator over a queuecore dataset

    @classmethod
    def of(cls, loader: Loader, pins: bool = True) -> How:
        pin = _pinning(loader) if pins else None
        how = cls(loader.batch_size, loader._auto_collation, loader.drop_last, loader.collate_fn, pin, loader._opened)
        # Some queuecore datasets make batches themselves.
        return how._replace(size=None, collate=None, pin=None) if how.opened and loader._collates else how


class Fetch:
    """A maker of batches of the samples at given indices.

    Parameters
    ----------
    how : How
    dataset : object
        A dataset with ``__getitem__`` or ``__getitems__``.
    guard : context manager, optional
        Held while the dataset is called.
    """

    def __init__(self, how: How, dataset: Any, guard: Any = None) -> None:
        self._how, self._dataset = how, dataset
        self._guard = guard or contextlib.nullcontext()

    def result(self, call: Call) -> Result:
        """Return the samples at the indices of a call, collated. Errors are raised."""
        if call.error is not None:
            return Result(call.number, None, call.error)
        dataset, how = self._dataset, self._how
        with self._guard:
            if not how.batched:
                data = dataset[call.index]
            elif getattr(dataset, "__getitems__", None):
                data = dataset.__getitems__(call.index)
            else:
                data = [dataset[one] for one in call.index]
        made = how.collate(data)
        return Result(call.number, made if how.pin is None else how.pin(made))


class Stream:
    """The batches of an iterable dataset, and the place in it.

    Parameters
    ----------
    how : How
    dataset : object
    begin : mapping, optional
        The place to begin at, from `place`.
    guard : context manager, optional
        Held while the dataset is called.
    worker : int, default 0
        The worker's number.
    """

    def __init__(
        self, how: How, dataset: Any, begin: Mapping[str, Any] | None, guard: Any = None, worker: int = 0
    ) -> None:
        self._how, self._dataset, self._begin, self._worker = how, dataset, begin, worker
        self._guard = guard or contextlib.nullcontext()
        self._samples = 0
        self._data: list[Any] = []
        self._before: Any = None  # the place before the samples in `_data`
        self._elements: Any = None
        self._stateful: Any = None
        self._ended = False

    def open(self) -> None:
        """Begin to iterate, unless the iteration has begun."""
        if self._elements is not None:
            return
        dataset, opened, begin = self._dataset, self._how.opened, self._begin
        elements: Any = iter(dataset) if opened is None else opened()
        stateful: Any = next((one for one in (elements, dataset) if is_stateful(one)), None)
        self._stateful = stateful
        if begin is not None and not begin["over"]:
            self._samples = begin["samples"]
        if begin is not None and stateful is None:
            for _ in range(self._samples):
                if next(elements, self) is self:
                    break
        elif begin is not None:
            stateful.load_state_dict(begin["place"])
            if stateful is dataset:
                elements = iter(dataset)
                if elements is dataset and not begin["over"]:  # iter() may have taken it back to its start
                    stateful.load_state_dict(begin["place"])
            elif begin["over"]:  # the next iterator begins with the next pass
                elements.close()
                elements = self._stateful = iter(dataset) if opened is None else opened()
        self._elements = elements

    def batch(self) -> Any:
        """Return the next batch.

        Raises
        ------
        StopIteration
            At the end.
        """
        # Samples are kept in a list of the object, so that a call that is cut short loses none.
        data, how = self._data, self._how
        wanted = how.size or 1
        if wanted > 1 and not data and self._stateful is not None:
            self._before = self._stateful.state_dict()
        while (count := len(data)) < wanted and not self._ended:
            # extend() leaves no moment in which a sample could get lost; iter() would restart some datasets.
            data.extend(map(next, (self._elements,)))
            self._ended = len(data) == count
        if self._ended and (not data or (how.drop_last and len(data) < wanted)):
            data.clear()
            raise StopIteration
        batch = data[0] if how.size is None else data
        try:
            if how.collate is not None:
                batch = how.collate(batch)
            if how.pin is not None:
                batch = how.pin(batch)
        except Exception:  # raised by the dataset: the next call goes on with the samples after these
            self._data, self._samples = [], self._samples + len(data)
            raise
        self._data, self._samples = [], self._samples + len(data)
        return batch

    def place(self, over: bool = False) -> dict[str, Any]:
        """Return the place behind the last delivered batch."""
        place = None if self._stateful is None else self._stateful.state_dict()
        if self._data and not over:
            place = self._before
        return {"samples": self._samples, "place": place, "over": over}

    def result(self, call: Call) -> Result:
        """Return the next batch as a worker's result, or a result that says that there is none. Errors are raised."""
        try:
            with self._guard:
                self.open()
                batch = self.batch()
                # The dataset may go on changing the object that it returned.
                place = copy.deepcopy(self.place())
        except StopIteration:
            self._ended = True
            return Result(call.number, None, worker=self._worker, ended=True)
        return Result(call.number, batch, worker=self._worker, place=place)

    def close(self, timeout: float | None) -> None:
        """Close the iterator over a queuecore dataset."""
        if isinstance(self._elements, Elements):
            self._elements.close(timeout)


def _pinning(loader: Loader) -> Any:
    """Return the function that puts a batch into pinned memory; `None` if that isn't wanted, or there is no GPU."""
    return torch.utils.data._utils.pin_memory.pin_memory if loader.pin_memory and torch.cuda.is_available() else None
