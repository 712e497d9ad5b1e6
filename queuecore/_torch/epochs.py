"""Epochs: the iterators of a loader, over each kind of dataset."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from queuecore._checks.usercode import raised
from queuecore._torch.base import Left, Loader, let_go
from queuecore._torch.batches import Batching, DatasetStream, Fetch, SamplerCalls, WorkerCall, WorkerResult
from queuecore._torch.crews import crew_of, planned
from queuecore._torch.native import NativeThreads
from queuecore._torch.package import torch
from queuecore._torch.places import (
    VERSION,
    Marks,
    arranged,
    begins,
    beside_state,
    draw,
    generators_of,
    indices_of,
    is_stateful,
    mapped_state,
    rewound,
    sampling_again,
    sampling_of,
    seed_of,
    seeded,
    size_of,
)
from queuecore._torch.threads import Alone, Threads
from queuecore.errors import StallError

__all__ = ["Mapped", "Streamed", "StreamedBeside"]


class Epoch:
    """The part that all epochs share.

    Parameters
    ----------
    loader : Loader
    """

    beside: ClassVar = False
    over = False
    left: weakref.ref[Left] | None = None

    def __init__(self, loader: Loader) -> None:
        self._index_sampler = loader._index_sampler
        self._crew: Any = None
        self._caught: list[Exception] = []  # errors of the sampler, whose frames hold this iterator
        self._num_yielded = 0  # batches delivered by this iterator, under PyTorch's name
        self.before = 0  # batches of this epoch that others delivered
        # For an iterable dataset, PyTorch remembers the length that the program was told.
        self._reported: int | None = getattr(loader, "_IterableDataset_len_called", None)
        self._dataset = loader.dataset

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self._let_go()
        try:
            return self._step()
        except StopIteration:
            raise
        except BaseException as error:
            # A program that keeps the error keeps no iterator: when the error has left the loop, the workers end.
            let_go(error)
            self._let_go()
            del self
            raise

    def _let_go(self) -> None:
        while self._caught:
            let_go(self._caught.pop())

    def __del__(self) -> None:
        left = None if self.left is None else self.left()
        if left is not None and not sys.is_finalizing():
            left.leave(self)

    def _step(self) -> Any:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch delivered."""
        raise NotImplementedError

    @property
    def has_threads(self) -> bool:
        """True if threads or processes work for the epoch, which end with it."""
        return not isinstance(self._crew, Alone)

    def __len__(self) -> int:
        """Return the number of batches that the sampler gives."""
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(
            "an iterator of a DataLoader can't be pickled: pickle the loader, or its state_dict()"
        )

    @property
    def _workers(self) -> list[Any]:
        """The workers, each with ``pid``, ``is_alive()`` and ``join(timeout)``: threads, or PyTorch's processes."""
        return list(getattr(self._crew, "workers", ()))

    def _counted(self, batch: Any) -> Any:
        """Count a batch of an iterable dataset; warn as PyTorch does if there are more than the length says."""
        self._num_yielded += 1
        count = self.before + self._num_yielded
        if self._reported is not None and count > self._reported:
            of_workers = (
                " For multiprocessing data-loading, this may mean that each worker gives all of the data: see "
                "IterableDataset in PyTorch's documents."
                if self._workers
                else ""
            )
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {self._reported} (when accessing "
                f"len(dataloader)), but {count} samples have been fetched.{of_workers}",
                stacklevel=4,
            )
        return batch

    def stats(self) -> dict[str, int]:
        """Return counters of this iterator.

        Returns
        -------
        dict of str to int
            ``batches`` (delivered), ``workers`` (threads or processes of the loader), and for a queuecore dataset those
            of `queuecore.data.Iterator.stats`.
        """
        return {"batches": self._num_yielded, "workers": len(self._workers)}

    def close(self, timeout: float | None = 1.0) -> None:
        self._crew.close(timeout)

    def _shutdown_workers(self) -> None:
        """Close, under the name that programs call for PyTorch's iterators."""
        self.close()


class Mapped(Epoch):
    """An epoch of a dataset with ``__getitem__``.

    Parameters
    ----------
    loader : Loader
    state : mapping, optional
        The place to begin at. Default: the start of the next epoch.
    """

    def __init__(self, loader: Loader, state: Mapping[str, Any] | None) -> None:
        super().__init__(loader)
        workers = loader.num_workers
        holds = is_stateful(loader.dataset)
        saved = None if state is None or not holds else state.get("datasets")
        stay = [None] * max(workers, 1) if state is not None or loader.lasting.states is None else loader.lasting.states
        # The states of the workers' datasets, and the number of batches that had been delivered then.
        self._datasets: list[Any] | None = [0, list(stay)] if holds else None
        self._low = 0 if state is None else state["batches"]  # all batches below this number were delivered
        self._ahead = set() if state is None else set(state["ahead"])  # numbers of others that were delivered
        repeat_count = 0  # batches that were delivered, but after the dataset's state was taken
        if saved is not None:
            self._datasets = [saved[0], list(saved[1])]
            repeat_count, self._low = self._low - saved[0], saved[0]
        self._states = [None] * max(workers, 1) if self._datasets is None else list(self._datasets[1])
        self._size = size_of(loader)
        self.over = self._ended = False
        plan = planned(loader)
        if state is not None:
            loader.lasting.let_workers_go()
        self._every = Batching.of(loader, False).every
        # A dataset may have the global generator's state in its own, and load it. So in the loop's thread, it loads
        # when it saved: before the first draws of an epoch, or behind the draw of its order.
        self._alone: Fetch | None = None
        if not plan.how:
            self._alone = Fetch(Batching.of(loader), loader.dataset, None if saved is None else saved[1][0])
            if state is not None and begins(state):
                self._alone.load()
        sampling = self._begin = sampling_of(loader) if state is None else dict(state["sampling"])
        self._marks = Marks(generators_of(loader)[2], self._every, None if state is None else state.get("sampled"))
        with sampling_again(loader, state) as apart:
            indices = indices_of(loader)
            drawn = draw(loader.generator) if sampling["drawn"] else 0
            if sampling["seed"] is None:
                sampling["seed"] = drawn
            indices, number = rewound(loader, state, indices)
            calls = SamplerCalls(self._marks, indices, number, self._low, frozenset(self._ahead))
            # The first index makes the sampler draw its random numbers.
            loads = self._alone is not None and self._alone.begin is not None
            first = list(itertools.islice(calls, 1)) if apart or loads else []
        self._sampled: Iterator[WorkerCall] = itertools.chain(first, calls)
        self._at_work = workers if plan.how else 0
        self._in_order = loader.in_order
        # Out of order: the batches that each worker has to make, and the worker that is asked next.
        self._asked, self._turns = [0] * workers, itertools.cycle(range(workers))
        self._room = 0
        crew: Any
        if self._at_work:
            loader.lasting.seed = sampling["seed"]
            loader.lasting.states = self._states if loader.persistent_workers else None
            begin = [None] * workers if saved is None else saved[1]
            crew = crew_of(loader, plan, loader.lasting.seed, self._low % workers, begin, True)
            # Native threads get all calls before they begin.
            self._room = sys.maxsize if plan.how == "native" else max(loader.prefetch_factor * workers, 1)
        else:
            assert self._alone is not None
            self._alone.load()
            crew = Alone([self._alone])
        self._crew = crew
        if isinstance(crew, Threads):
            weakref.finalize(self, crew.team.stop).atexit = False
        self._hand_on()
        crew.start()
        for _ in range(repeat_count):
            with contextlib.suppress(Exception):
                next(self)
        self._num_yielded, self.before = 0, self._low + len(self._ahead)

    def _hand_on(self) -> None:
        # In this thread, as in PyTorch: so a sampler's draws come in the same order among other draws.
        while self._room > 0 and not self._ended:
            try:
                call = next(self._sampled)
            except StopIteration:
                self._ended = True
                self._crew.end()
                return
            if call.error is not None:
                self._caught.append(call.error)
            self._room -= 1
            if self._at_work:
                # The last batch of each worker before the next place at which the states are taken.
                every = self._every if self._datasets else 0
                marked = every > 0 and call.number % every + self._at_work >= every
                call = call._replace(worker=self._worker_of(call.number), marked=marked)
            self._crew.put(call)

    def _worker_of(self, number: int) -> int:
        """Return the worker that is to make a batch: in turn; out of order, the next one that has least to do."""
        if self._in_order:
            return number % self._at_work
        least = min(self._asked)
        worker = next(one for one in self._turns if self._asked[one] == least)
        self._asked[worker] += 1
        return worker

    def _step(self) -> Any:
        if self.over:  # a later epoch may have the workers
            raise StopIteration
        if not self._at_work and not self._crew.asked:
            self._room = 1
            self._hand_on()
        try:
            result = self._crew.get()
        except StopIteration:
            self.over = True
            raise
        if self._at_work:
            self._room += 1
            if not self._in_order:
                self._asked[result.worker] -= 1
            self._hand_on()
        self._ahead.add(result.number)
        while self._low in self._ahead:
            self._ahead.remove(self._low)
            self._low += 1
        if result.place is not None:
            self._states[result.worker] = result.place
        if self._datasets is not None and self._every and self._low % self._every == 0:
            self._datasets = [self._low, list(self._states)]
        self._num_yielded += 1
        return _delivered(result)

    def stats(self) -> dict[str, int]:
        return super().stats() | (self._crew.stats() if isinstance(self._crew, NativeThreads) else {})

    def state_dict(self) -> dict[str, Any]:
        datasets = self._datasets
        if self._alone is not None:
            if (datasets is not None or self._marks.wanted) and not (
                self._num_yielded or self._crew.asked or self._ended
            ):
                # The sampler draws first: else it and the dataset would draw the same numbers after a restart.
                self._room = 1
                self._hand_on()
            datasets = datasets and [self._low, [self._alone.place()]]
        return mapped_state(
            self._low, sorted(self._ahead), self._size, self._begin, self._marks.at(self._low), copy.deepcopy(datasets)
        )


def _delivered_before(state: Mapping[str, Any] | None) -> int:
    """Return the number of batches of an iterable dataset that were delivered in an epoch before a place in it."""
    return 0 if state is None or state["over"] else state.get("batches", 0)


def _delivered(result: WorkerResult) -> Any:
    """Return the batch of a result, or raise its error."""
    error = result.error
    if error is None:
        return result.batch
    if not isinstance(error, BaseException):  # of a worker process
        error.reraise()
    if isinstance(error, StopIteration):  # raised as it is, it would end the loop like the end of the data
        raise raised("DataLoader: the dataset", error) from error
    raise error


class Streamed(Epoch):
    """An epoch of an iterable dataset, in the thread of the loop.

    Parameters
    ----------
    loader : Loader
    state : mapping, optional
        The place to begin at. Default: the start of the next epoch.
    """

    def __init__(self, loader: Loader, state: Mapping[str, Any] | None) -> None:
        super().__init__(loader)
        self._shared: int | None = None  # seed of a data pipe's shuffles
        if isinstance(loader.dataset, torch.utils.data.IterDataPipe):
            begun = state is not None and not state["over"] and state.get("shared") is not None
            self._shared = state["shared"] if begun and state is not None else draw(loader.generator)
            shared = torch.Generator().manual_seed(self._shared)
            torch.utils.data.graph_settings.apply_random_seed(loader.dataset, shared)
        self.before = _delivered_before(state)
        self._timeout = loader.timeout
        self._arranged = arranged(loader)
        self._stream = DatasetStream(Batching.of(loader), loader.dataset, state)
        self._stream.open(functools.partial(draw, loader.generator))

    @property
    def has_threads(self) -> bool:
        return self._stream.is_native

    def _step(self) -> Any:
        try:
            return self._counted(self._stream.batch())
        except StopIteration:
            self.over = True
            raise
        except StallError as error:
            if not self._timeout:
                raise
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from error

    def state_dict(self) -> dict[str, Any]:
        made = {"version": VERSION, "arranged": self._arranged, **self._stream.place(self.over)}
        made["batches"] = 0 if self.over else self.before + self._num_yielded
        return made if self._shared is None else made | {"shared": self._shared}

    def stats(self) -> dict[str, int]:
        return super().stats() | self._stream.stats()

    def close(self, timeout: float | None = 1.0) -> None:
        self._stream.close(timeout)


class StreamedBeside(Epoch):
    """An epoch of an iterable dataset of which each worker has a copy; workers are asked in turn.

    Parameters
    ----------
    loader : Loader
    state : mapping, optional
        The place to begin at. Default: the start of the next epoch.
    """

    beside: ClassVar = True

    def __init__(self, loader: Loader, state: Mapping[str, Any] | None) -> None:
        super().__init__(loader)
        plan = planned(loader)
        if state is not None:
            loader.lasting.let_workers_go()
        workers = loader.num_workers
        self._arranged = arranged(loader)
        self.before = _delivered_before(state)
        is_over = state is None or state["over"]
        goes_on = not is_over or loader.persistent_workers  # workers that stay go on after the end
        self._places: list[Any] = list(state["streams"]) if goes_on and state is not None else [None] * workers
        self._turn: int = 0 if is_over or state is None else state["turn"]
        self._next = self._turn
        self._active = [True] * workers
        self._in_order, self._asked = loader.in_order, [0] * workers
        self._seeded = seeded(loader) if state is None else dict(state.get("seeded") or {})
        loader.lasting.seed = seed_of(loader, self._seeded)
        places = self._places[:]
        if is_over:
            ended = [None] * workers if state is not None or loader.lasting.states is None else loader.lasting.states
            self._places = [one and one | {"over": True} for one in ended]
        if loader.persistent_workers:
            loader.lasting.states = self._places
        self._crew = crew = crew_of(loader, plan, loader.lasting.seed, self._turn, places)
        if isinstance(crew, Threads):
            weakref.finalize(self, crew.team.stop).atexit = False
        for _ in range(max(loader.prefetch_factor * workers, 1)):
            self._hand_on()
        crew.start()

    def _hand_on(self) -> None:
        """Ask the next worker that has data; out of order, the next one of those that have least to do."""
        workers = len(self._active)
        turns = [(self._next + one) % workers for one in range(workers)]
        left = [worker for worker in turns if self._active[worker]]
        if not left:
            self._crew.end()
            return
        worker = left[0] if self._in_order else min(left, key=self._asked.__getitem__)
        self._next = (worker + 1) % workers
        self._asked[worker] += 1
        self._crew.put(WorkerCall(0, None, None, worker))

    def _step(self) -> Any:
        while not self.over:
            try:
                result = self._crew.get()
            except StopIteration:
                self.over = True
                raise
            self._asked[result.worker] -= 1
            if result.place is not None:
                self._places[result.worker] = result.place
            if result.ended:
                self._active[result.worker] = False
                self._hand_on()
                continue
            self._hand_on()
            self._turn = (result.worker + 1) % len(self._active)
            return self._counted(_delivered(result))
        raise StopIteration  # again: a later epoch may have the workers

    def state_dict(self) -> dict[str, Any]:
        made = beside_state(self._arranged, list(self._places), self._turn, self.over, dict(self._seeded))
        return made | {"batches": 0 if self.over else self.before + self._num_yielded}
