"""The crew of worker processes: those of PyTorch."""

from __future__ import annotations

import collections
import itertools
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from queuecore._torch.base import Loader
from queuecore._torch.batches import Batching, DatasetStream, Fetch, WorkerCall, WorkerResult
from queuecore._torch.package import torch
from queuecore._torch.threads import taken_error
from queuecore._torch.workers import info_of
from queuecore.errors import FailedPreconditionError

__all__ = ["Processes"]


def _error_here() -> Any:
    return torch._utils.ExceptionWrapper(where=f"in DataLoader worker process {torch.utils.data.get_worker_info().id}")


def _same(made: Any) -> Any:
    return made


class _Indexed:
    """The dataset that a PyTorch worker process has instead of the user's: it returns results of calls."""

    def __init__(self, batching: Batching, dataset: Any, places: Sequence[Any]) -> None:
        self.dataset = dataset
        self.failure: Any = None  # error of the worker's first call
        self._batching, self._places = batching, places
        self._job: Fetch | None = None

    def __getitem__(self, call: WorkerCall) -> WorkerResult:
        failure, self.failure = self.failure, None
        number = torch.utils.data.get_worker_info().id
        if failure is not None:
            return WorkerResult(call.number, None, failure, number)
        if self._job is None:
            self._job = Fetch(self._batching, self.dataset, self._places[number], None, number)
        try:
            return self._job.result(call)
        except Exception:
            return WorkerResult(call.number, None, _error_here(), number)


class _Iterated(torch.utils.data.IterableDataset[Any]):
    """The dataset that a PyTorch worker process has instead of the user's iterable one."""

    def __init__(self, batching: Batching, dataset: Any, places: Sequence[Any]) -> None:
        self.dataset = dataset
        self.failure: Any = None
        self._batching, self._places = batching, places

    def __iter__(self) -> Iterator[WorkerResult]:
        number = torch.utils.data.get_worker_info().id
        job = DatasetStream(self._batching, self.dataset, self._places[number], None, number)
        self._places = [None] * len(self._places)  # only the first pass begins at a place
        while True:
            failure, self.failure = self.failure, None
            try:
                result = (
                    WorkerResult(0, None, failure, number) if failure is not None else job.result(WorkerCall(0, None))
                )
            except Exception:
                result = WorkerResult(0, None, _error_here(), number)
            yield result
            if result.ended:
                return


class _Begin:
    """The first call of a worker process."""

    def __init__(self, function: Callable[[int], object] | None) -> None:
        self._function = function

    def __call__(self, number: int) -> None:
        info = torch.utils.data.get_worker_info()
        wrapper = info.dataset
        torch.utils.data._utils.worker._worker_info = info_of(number, info.num_workers, info.seed, wrapper.dataset)
        try:
            if self._function is not None:
                self._function(number)
        except Exception:
            wrapper.failure = _error_here()


class _Calls:
    """An iterator over calls for worker processes; calls may be appended after it was empty."""

    def __init__(self) -> None:
        self._calls: collections.deque[WorkerCall] = collections.deque()

    def __iter__(self) -> Iterator[WorkerCall]:
        return self

    def __next__(self) -> WorkerCall:
        if not self._calls:
            raise StopIteration
        return self._calls.popleft()

    def append(self, call: WorkerCall) -> None:
        self._calls.append(call)


class _PyTorchs(torch.utils.data.dataloader._MultiProcessingDataLoaderIter):
    """PyTorch's iterator over worker processes, with a given seed, and beginning with a given worker."""

    epoch: Any = None  # the epoch that uses the workers

    def __init__(self, loader: Any, seed: int, first: int) -> None:
        self._seed, self._first = seed, first
        super().__init__(loader)

    @property
    def _base_seed(self) -> int:
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        """Ignore the value: PyTorch draws it without knowing whether there have been workers before."""

    def _try_put_index(self) -> None:
        for _ in range(self._first):
            next(self._worker_queue_idx_cycle)
        self._first = 0
        super()._try_put_index()


class Processes:
    """Worker processes: those of PyTorch.

    Parameters
    ----------
    loader : DataLoader
    seed : int
    first : int
        The number of the worker that is asked first.
    places : sequence
        The place at which each worker begins, or `None`.
    indexed : bool
        Whether the dataset is one with ``__getitem__``, whose places are its states.
    predecessor : Processes, optional
        The crew of the epoch before, whose processes go on.

    Attributes
    ----------
    closed : bool
        Whether the processes were ended.
    """

    def __init__(
        self, loader: Loader, seed: int, first: int, places: Sequence[Any], indexed: bool, predecessor: Processes | None
    ) -> None:
        batching = Batching.of(loader, False)
        self._seed, self._first = seed, first
        self._failed: dict[int, BaseException] = {}
        self._calls = _Calls()
        self._iterator: Any = None if predecessor is None else predecessor._iterator
        self.closed = False
        self._begun = False  # calls put before `start` are sent by it
        kinds = torch.utils.data._DatasetKind
        self._asks = indexed
        self._view = types.SimpleNamespace(
            dataset=(_Indexed if indexed else _Iterated)(batching, loader.dataset, places),
            generator=torch.Generator(),
            _dataset_kind=kinds.Map if indexed else kinds.Iterable,
            _IterableDataset_len_called=None,
            _auto_collation=False,
            drop_last=False,
            _index_sampler=self._calls if indexed else itertools.repeat(0),
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory and torch.accelerator.is_available(),
            pin_memory_device="",
            timeout=loader.timeout,
            collate_fn=_same,
            persistent_workers=loader.persistent_workers,
            prefetch_factor=max(loader.prefetch_factor or 0, 1),
            in_order=loader.in_order,
            worker_init_fn=_Begin(loader.worker_init_fn),
            multiprocessing_context=loader.multiprocessing_context,
        )

    def start(self) -> None:
        """Start the processes, or their next epoch."""
        if self._iterator is None:
            self._iterator = _PyTorchs(self._view, self._seed, self._first)
        else:
            self._iterator._index_sampler, self._iterator._first = self._view._index_sampler, self._first
            self._iterator._reset(self._view)
        self._iterator.epoch = weakref.ref(self)
        self._begun = True

    def put(self, call: WorkerCall) -> None:
        if not self._asks:
            return
        if call.error is not None:  # errors stay in this process
            self._failed[call.number] = call.error
            call = call._replace(error=True)
        self._calls.append(call)
        if self._begun:
            self._iterator._try_put_index()

    @property
    def workers(self) -> list[Any]:
        """The processes."""
        return list(self._iterator._workers)

    def end(self) -> None:
        """Do nothing: processes need no notice of the end of calls."""

    def get(self) -> WorkerResult:
        if self.closed:  # PyTorch's iterator would end as if that were all data
            raise FailedPreconditionError("this iterator of a DataLoader is closed")
        if self._iterator.epoch() is not self:
            raise taken_error()
        number, *rest = next(self._iterator)
        made = WorkerResult(number, *rest)
        return made._replace(error=self._failed.pop(number)) if made.error is True else made

    def close(self, timeout: float | None) -> None:
        """End the processes."""
        del timeout
        self.closed = True
        if self._iterator is not None:
            self._iterator._shutdown_workers()
