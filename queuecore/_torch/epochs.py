"""Epochs: the iterators of a loader, over each kind of dataset."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from queuecore._checks.usercode import raised
from queuecore._torch.base import Loader
from queuecore._torch.batches import Call, Fetch, How, Result, Stream
from queuecore._torch.crews import crew_of, planned
from queuecore._torch.places import (
    VERSION,
    arranged,
    beside_state,
    draw,
    mapped_state,
    sampling_again,
    sampling_of,
    size_of,
)
from queuecore._torch.threads import Alone, Threads
from queuecore.errors import StallError

__all__ = ["Mapped", "Streamed", "StreamedBeside"]


class Mapped:
    """An epoch of a dataset with ``__getitem__``.

    Parameters
    ----------
    loader : Loader
    state : mapping, optional
        The place to begin at. Default: the start of the next epoch.
    """

    beside: ClassVar = False

    def __init__(self, loader: Loader, state: Mapping[str, Any] | None) -> None:
        self._low = 0 if state is None else state["batches"]  # all batches below this number were delivered
        self._ahead = set() if state is None else set(state["ahead"])  # numbers of others that were delivered
        self._size = size_of(loader)
        self.over = self._ended = False
        self._last = self._low - 1
        low, ahead = self._low, frozenset(self._ahead)
        plan = planned(loader)
        if state is not None:
            loader._kept = None
        sampling = self._begin = sampling_of(loader) if state is None else dict(state["sampling"])
        with sampling_again(loader, state) as apart:
            indices = iter(loader._index_sampler)
            drawn = draw(loader.generator) if sampling["drawn"] else 0
            if sampling["seed"] is None:
                sampling["seed"] = drawn
            numbered = ((n, one) for n, one in enumerate(indices) if n >= low and n not in ahead)
            # The first index makes the sampler draw its random numbers.
            first = list(itertools.islice(numbered, 1)) if apart else []
        self._numbered: Iterator[tuple[int, Any]] = itertools.chain(first, numbered)
        crew: Any
        self._workers = loader.num_workers if plan.how else 0
        self._room = 0
        if self._workers:
            loader._seed = sampling["seed"]
            crew = crew_of(loader, plan, loader._seed, None, low % self._workers)
            self._room = max(loader.prefetch_factor * self._workers, 1)
        else:
            crew = Alone([Fetch(How.of(loader), loader.dataset)])
        self._crew = crew
        if isinstance(crew, Threads):
            weakref.finalize(self, crew.team.stop).atexit = False
        self._hand_on()
        crew.start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def _hand_on(self) -> None:
        # In this thread, as in PyTorch: so a sampler's draws come in the same order among other draws.
        while self._room > 0 and not self._ended:
            try:
                number, index = next(self._numbered)
                call = Call(number, index)
            except StopIteration:
                self._ended = True
                self._crew.end()
                return
            except Exception as error:
                call = Call(self._last + 1, None, error)
            self._last = call.number
            self._room -= 1
            self._crew.put(call._replace(worker=call.number % (self._workers or 1)))

    def __next__(self) -> Any:
        if not self._workers and not self._crew._calls:
            self._room = 1
            self._hand_on()
        try:
            result = self._crew.get()
        except StopIteration:
            self.over = True
            raise
        if self._workers:
            self._room += 1
            self._hand_on()
        self._ahead.add(result.number)
        while self._low in self._ahead:
            self._ahead.remove(self._low)
            self._low += 1
        return _delivered(result)

    def state_dict(self) -> dict[str, Any]:
        return mapped_state(self._low, sorted(self._ahead), self._size, self._begin)

    def close(self, timeout: float | None = 1.0) -> None:
        self._crew.close(timeout)


def _delivered(result: Result) -> Any:
    """Return the batch of a result, or raise its error."""
    error = result.error
    if error is None:
        return result.batch
    if not isinstance(error, BaseException):  # of a worker process
        error.reraise()
    if isinstance(error, StopIteration):  # raised as it is, it would end the loop like the end of the data
        raise raised("DataLoader: the dataset", error) from error
    raise error


class Streamed:
    """An epoch of an iterable dataset, in the thread of the loop.

    Parameters
    ----------
    loader : Loader
    state : mapping, optional
        The place to begin at. Default: the start of the next epoch.
    """

    beside: ClassVar = False

    def __init__(self, loader: Loader, state: Mapping[str, Any] | None) -> None:
        draw(loader.generator)
        self.over = False
        self._timeout = loader.timeout
        self._arranged = arranged(loader)
        self._stream = Stream(How.of(loader), loader.dataset, state)
        self._stream.open()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._stream.batch()
        except StopIteration:
            self.over = True
            raise
        except StallError as error:
            if not self._timeout:
                raise
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from error

    def state_dict(self) -> dict[str, Any]:
        return {"version": VERSION, "arranged": self._arranged, **self._stream.place(self.over)}

    def close(self, timeout: float | None = 1.0) -> None:
        self._stream.close(timeout)


class StreamedBeside:
    """An epoch of an iterable dataset of which each worker has a copy; workers are asked in turn.

    Parameters
    ----------
    loader : Loader
    state : mapping, optional
        The place to begin at. Default: the start of the next epoch.
    """

    beside: ClassVar = True

    def __init__(self, loader: Loader, state: Mapping[str, Any] | None) -> None:
        plan = planned(loader)
        if state is not None:
            loader._kept = None
        seed = loader._seed if loader._kept is not None else draw(loader.generator)
        workers = loader.num_workers
        self.over = False
        self._arranged = arranged(loader)
        begins = state is not None and not state["over"]
        self._places: list[Any] = list(state["streams"]) if begins and state is not None else [None] * workers
        self._turn: int = state["turn"] if begins and state is not None else 0
        self._next = self._turn
        self._active = [True] * workers
        loader._seed = seed
        self._crew = crew = crew_of(loader, plan, seed, self._places[:], self._turn)
        if isinstance(crew, Threads):
            weakref.finalize(self, crew.team.stop).atexit = False
        for _ in range(max(loader.prefetch_factor * workers, 1)):
            self._hand_on()
        crew.start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def _hand_on(self) -> None:
        for _ in self._active:
            worker, self._next = self._next, (self._next + 1) % len(self._active)
            if self._active[worker]:
                self._crew.put(Call(0, None, None, worker))
                return
        self._crew.end()

    def __next__(self) -> Any:
        while True:
            try:
                result = self._crew.get()
            except StopIteration:
                self.over = True
                raise
            if result.ended:
                self._active[result.worker] = False
                self._hand_on()
                continue
            self._hand_on()
            self._turn = (result.worker + 1) % len(self._active)
            if result.place is not None:
                self._places[result.worker] = result.place
            return _delivered(result)

    def state_dict(self) -> dict[str, Any]:
        return beside_state(self._arranged, list(self._places), self._turn, self.over)

    def close(self, timeout: float | None = 1.0) -> None:
        self._crew.close(timeout)
