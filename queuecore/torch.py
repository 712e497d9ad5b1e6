"""PyTorch: elements as tensors, without a copy; datasets for its loaders; and a `DataLoader` that works with threads.

It needs the package ``torch``, and nothing else in queuecore imports it.

Examples
--------
>>> import numpy as np, queuecore as qc
>>> from queuecore.torch import DataLoader
>>> ds = qc.data.Dataset.from_tensor_slices({"x": np.arange(6, dtype=np.float32).reshape(3, 2), "y": [1, 0, 1]})
>>> for batch in DataLoader(ds, batch_size=2):
...     print(batch["x"].shape, batch["y"].tolist())
torch.Size([2, 2]) [1, 0]
torch.Size([1, 2]) [1]
"""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib
import itertools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, ClassVar, NamedTuple, SupportsIndex

import numpy as np

from queuecore.data import _calls
from queuecore.data._nodes import One, Piece, Run, iterations
from queuecore.data._ops import Count, Permute, ShuffleSeeds
from queuecore.data._source import Unknown
from queuecore.data._structures import raised
from queuecore.data.dataset import Dataset, dataset_of
from queuecore.data.options import Options
from queuecore.errors import (
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    ResumeMismatchError,
    StallError,
)
from queuecore.ragged import Ragged, Sparse

try:
    # Not by a statement: type checkers take this file for that module.
    torch: Any = importlib.import_module("torch")
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ImportError(
        "queuecore.torch needs PyTorch, which isn't here: pip install 'queuecore[torch]'", name="torch"
    ) from _error

__all__ = ["DataLoader", "IterableDataset", "RaggedTensors", "tensors"]

# Dtypes of the package ml_dtypes, whose names are PyTorch's: they go over as raw bytes.
_NAMED = ("bfloat16", "float8_")
_RAW: dict[int, Any] = {1: np.uint8, 2: np.int16}
_VERSION = 1
# Numbers of passes that are drawn, not counted; below what fits when an endless repeat multiplies them, twice.
_MOST_EPOCHS = 1 << 20


class RaggedTensors(NamedTuple):
    """Rows of different lengths, as tensors: row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``.

    What `queuecore.Ragged` becomes. ``torch.nested.nested_tensor_from_jagged(*rows)`` makes a nested tensor of it; that
    part of PyTorch is a prototype, so it is left to you.

    Attributes
    ----------
    values : Tensor or RaggedTensors
        Of all rows, one after the other.
    row_splits : Tensor of int64 or int32
        Where rows begin and end: one more than there are rows.
    """

    values: Any
    row_splits: Any


def tensors(element: Any) -> Any:
    """Return an element with tensors in the place of arrays, which share their memory.

    Parameters
    ----------
    element : array, `Ragged`, `Sparse`, or a dict or tuple of them, nested
        What an iterator of a dataset gives, a queue's ``dequeue`` or a lease; arrays of NumPy's or CuPy's.

    Returns
    -------
    structure of Tensor
        Dicts stay dicts, tuples stay tuples, also those with names. Of each part:

        - An array becomes a tensor of the same memory, shape and dtype. As long as the tensor or a view of it exists,
          so does the array: the memory of a batch is not used again before.
        - A NumPy scalar becomes a tensor of no dimensions, a copy.
        - Strings become `bytes` in lists, as of ``torch.utils.data.default_collate``; one string is `bytes`.
        - A `Ragged` becomes `RaggedTensors`; a `Sparse` a ``torch.sparse_coo_tensor``, whose indices are checked.
        - Arrays of a device come over by DLPack, without a copy, in the order of the current stream.
        - Anything else, such as a tensor, stays what it is.

    Raises
    ------
    TypeError
        If PyTorch has no such dtype (structured arrays, times, float128).
    DtypeError
        If the values of a `Sparse` are strings.

    Notes
    -----
    An array is copied where sharing it is wrong or impossible: one that can't be written to, since a tensor always can
    (what a `cache` keeps must not change under an operation in place); one in another byte order; one with strides that
    tensors can't have. All others of NumPy's that a dataset gives are shared. uint16, uint32 and uint64 stay what they
    are, though PyTorch has few operations on them; dtypes of ``ml_dtypes`` become those of the same name.

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.torch import tensors
    >>> batch = {"x": np.zeros(2, np.float32), "name": (b"a", np.int64(3))}
    >>> tensors(batch)
    {'x': tensor([0., 0.]), 'name': (b'a', tensor(3))}
    >>> tensors(batch)["x"].data_ptr() == batch["x"].ctypes.data
    True
    """
    if isinstance(element, np.ndarray):
        return _tensor(element)
    if isinstance(element, dict):
        return {name: tensors(part) for name, part in element.items()}
    if isinstance(element, tuple):
        parts = [tensors(part) for part in element]
        kind: Any = type(element)
        return kind(*parts) if hasattr(element, "_fields") else tuple(parts)
    if isinstance(element, np.generic):
        return element if element.dtype.kind in "SU" else _tensor(np.array(element))
    if isinstance(element, Ragged):
        if element.dtype.kind == "S":
            return element.to_list()
        return RaggedTensors(tensors(element.values), _tensor(element.row_splits))
    if isinstance(element, Sparse):
        if isinstance(element.values, Ragged):
            raise DtypeError("a Sparse of strings has no tensor: take its values and indices one by one")
        shape = tuple(element.dense_shape.tolist())
        return torch.sparse_coo_tensor(
            _tensor(element.indices).T, _tensor(element.values), shape, check_invariants=True
        )
    if hasattr(element, "__dlpack__") and not isinstance(element, torch.Tensor):
        return torch.from_dlpack(element)
    return element


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    dtype = array.dtype
    if dtype.kind in "SUO":
        return array.tolist()
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    if not array.flags.writeable:
        array = array.copy()
    if dtype.name.startswith(_NAMED) and hasattr(torch, dtype.name):
        return _tensor(array.view(_RAW[dtype.itemsize])).view(getattr(torch, dtype.name))
    try:
        return torch.from_numpy(array)
    except ValueError:  # strides
        return torch.from_numpy(array.copy(order="C"))


class _Elements:
    """The elements of an iterator, as tensors."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return tensors(next(self._iterator))

    def __getattr__(self, name: str) -> Any:
        # state_dict, load_state_dict, stats, close: all that the iterator has.
        if name == "_iterator":
            raise AttributeError(name)
        return getattr(self._iterator, name)


class _DeviceElements(_Elements):
    """Those on a device. They are handed over in PyTorch's current stream: CuPy's, which counts, may be another one."""

    def __next__(self) -> Any:
        cupy = sys.modules.get("cupy")  # imported by who makes its arrays; there are none on the host plane
        if cupy is None or not torch.cuda.is_available():
            return super().__next__()
        with cupy.cuda.Stream.from_external(torch.cuda.current_stream()):
            return super().__next__()


# -- for PyTorch's own loaders -----------------------------------------------------------------------------------------


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """A dataset for ``torch.utils.data.DataLoader``: the elements of a `queuecore.data.Dataset`, as tensors.

    Parameters
    ----------
    dataset : queuecore.data.Dataset
        Batched or not. If it is, give the loader ``batch_size=None``: batches are made natively then, and are not
        copied.

    Raises
    ------
    DtypeError
        If it is no such dataset.

    Notes
    -----
    **Worker processes.** None are needed: native threads read and decode ahead of the loop, with ``num_workers=0`` too.
    With ``num_workers=n``, worker i gets ``dataset.shard(n, i)``: of the elements of this dataset, batches if it makes
    batches, every n-th one. As the loader asks its workers in turn, batches come in the order they have without
    workers. It makes no difference whether workers are forked or spawned: each opens the files itself. What stands
    before the shard is done by every worker, but for the reading of what others get, where records have known places.
    So if there is a function in Python, let workers part its input: in a subclass whose `shard` returns, for example,
    ``files.shard(num_shards, index).map(function).batch(32)``.

    **Epochs.** In one process, each iteration is the next pass of a `shuffle`, as always. Worker processes that begin
    anew for each epoch can't count: call `set_epoch` for the same orders as without them. Without it, the pass is drawn
    from the loader's seed, so that epochs differ, and a loader with a seeded ``generator`` repeats them.

    **Ranks.** Nothing is taken from ``torch.distributed``. For it to be, give this class a shard:
    ``ds.shard(uneven="drop")`` goes by ``RANK`` and ``WORLD_SIZE``, ``ds.shard(dist.get_world_size(),
    dist.get_rank(), uneven="drop")`` by the process group. Workers then part that.

    **State.** `state_dict` is the place after the last element that the newest iterator gave; `load_state_dict` is for
    the next one. So ``torchdata``'s ``StatefulDataLoader`` saves and restores it, in each worker.

    Examples
    --------
    >>> import queuecore as qc, torch
    >>> from queuecore.torch import IterableDataset
    >>> ds = IterableDataset(qc.data.Dataset.range(5).batch(2))
    >>> list(torch.utils.data.DataLoader(ds, batch_size=None))
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __init__(self, dataset: Dataset) -> None:
        if not isinstance(dataset, Dataset):
            raise DtypeError(f"IterableDataset takes a queuecore.data.Dataset, not {dataset!r:.80}")
        self.dataset = dataset
        self._epoch: int | None = None
        self._worker_seed: int | None = None  # of the worker that has been told where to begin
        self._elements: _Elements | None = None
        self._begun = True  # that one; else it was made for its state, and is the next one
        self._state: tuple[int, Mapping[str, Any]] | None = None  # and the process that it was loaded in

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to a worker process: no iterator."""
        return self.__dict__ | {"_elements": None, "_begun": True}

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return what a worker process gives: by default, ``dataset.shard(num_shards, index)``.

        Parameters
        ----------
        num_shards : int
            How many workers there are.
        index : int
            Which of them it is.

        Returns
        -------
        Dataset
        """
        return self.dataset.shard(num_shards, index)

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Say which pass over the data the next iteration is; later ones count on from there.

        Parameters
        ----------
        epoch : int
            From 0. Workers that are there already (``persistent_workers``) don't hear of it, and count by themselves.
        """
        self._epoch = epoch.__index__()
        if self._epoch < 0:
            raise InvalidArgumentError(f"an epoch is a number from 0 on, not {epoch}")
        _count_from(self.dataset, self._epoch)

    def __iter__(self) -> Iterator[Any]:
        """Return a new iterator; in a worker process, over its shard.

        Raises
        ------
        FailedPreconditionError
            In a worker process, if a state was loaded before that process began: each worker has a place of its own.
        """
        info = torch.utils.data.get_worker_info()
        dataset = self.dataset
        if info is not None:
            dataset = self.shard(info.num_workers, info.id)
            if self._worker_seed != info.seed:
                self._worker_seed = info.seed
                # The seeds of an epoch's workers follow each other.
                drawn = (info.seed - info.id) % _MOST_EPOCHS
                _count_from(dataset, drawn if self._epoch is None else self._epoch)
        elements = self._elements
        if self._begun or elements is None or info is not None:
            elements = _Elements(iter(dataset))
        self._begun = True
        if self._state is not None:
            process, state = self._state
            if process != os.getpid():
                raise FailedPreconditionError(
                    "a state was loaded into this IterableDataset, and its loader has worker processes, of which each "
                    "has a place of its own. Use num_workers=0, queuecore.torch.DataLoader, or torchdata's "
                    "StatefulDataLoader, which saves and loads them"
                )
            elements.load_state_dict(state)
            self._state = None
        self._elements = elements
        return elements

    def __len__(self) -> int:
        """Return the number of elements, of all workers together.

        Raises
        ------
        TypeError
            If nobody knows it, or there is no end.
        """
        return len(self.dataset)

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element of the newest iterator; see `queuecore.data.Iterator.state_dict`."""
        if self._state is not None:
            return dict(self._state[1])
        if self._elements is None:
            self._elements = _Elements(iter(self.dataset))
            self._begun = False
        state: dict[str, Any] = self._elements.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration begin at a place; see `queuecore.data.Iterator.load_state_dict`.

        Parameters
        ----------
        state : mapping
            Of `state_dict`. What is wrong with it shows when the iteration begins.
        """
        self._state = os.getpid(), state


def _count_from(dataset: Dataset, epoch: int) -> None:
    for shuffle, passes in zip(dataset._shuffles(), iterations(dataset), strict=True):
        shuffle.seeds.counter.next_iteration = epoch * passes


# -- a loader with threads ---------------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """What to fetch: indices, or the index of one sample; or the error that came instead."""

    number: int
    index: Any
    error: BaseException | None = None


class _Result(NamedTuple):
    """What was fetched, or the error that came instead."""

    number: int
    batch: Any
    error: BaseException | None


class _Calls:
    """What the consumer's thread hands to those that fetch, which take it as they take an iterator's elements."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._stopped = False

    def put(self, call: _Call | None) -> None:
        """Hand on one more; `None`: there is none."""
        self._queue.put(call)

    def __next__(self) -> _Call:
        call = self._queue.get()
        if call is None or self._stopped:
            self._queue.put(None)
            raise StopIteration
        return call

    def _stop(self) -> None:
        self._stopped = True
        self._queue.put(None)

    def close(self) -> None:
        """Do nothing: nothing was opened."""


class _Fetch:
    """Makes batches, as PyTorch's workers do. It refers to what the loader was given, and not to the loader."""

    name: ClassVar[str] = "DataLoader"

    def __init__(self, loader: DataLoader) -> None:
        self._dataset = loader.dataset
        self._batched = loader._auto_collation
        self._collate = loader.collate_fn
        self._pin = _pinning(loader)
        self._begin = loader.worker_init_fn
        self._local = threading.local()
        self._ids = itertools.count()

    def batch(self, index: Any) -> Any:
        """Return what is at indices, collated."""
        dataset = self._dataset
        if not self._batched:
            data = dataset[index]
        elif getattr(dataset, "__getitems__", None):
            data = dataset.__getitems__(index)
        else:
            data = [dataset[one] for one in index]
        made = self._collate(data)
        return made if self._pin is None else self._pin(made)

    def __call__(self, call: _Call, pass_: int, number: int) -> tuple[_Result, None]:
        """Return what was made, or what went wrong, in a thread of a pool."""
        del pass_, number
        error = call.error
        made = None
        if error is None:
            try:
                if self._begin is not None and not hasattr(self._local, "begun"):
                    self._local.begun = True
                    self._begin(next(self._ids))
                made = self.batch(call.index)
            except BaseException as failed:
                error = failed
                with contextlib.suppress(Exception):  # of an exception that is no common one
                    error.add_note(f"In a thread of a DataLoader, at {call.index!r:.200}")
        return _Result(call.number, made, error), None


@dataclass(frozen=True, eq=False)
class _Fetched(_calls.ObjectNode):
    """The results of threads that fetch."""

    name: ClassVar[str] = "DataLoader"

    calls: _Calls
    fetch: _Fetch
    threads: int
    ordered: bool

    def count(self, needed: int | None) -> Count:
        raise Unknown

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        calls: Any = self.calls
        fetch: Any = self.fetch
        pool = _calls._Pool(fetch, calls, pass_, start, self.threads, False)
        with contextlib.closing(pool.results(self.ordered)) as results:
            for result in results:
                if result.error is not None:
                    raise result.error
                yield One(result.made)


class _Mapped:
    """An epoch of a dataset with ``__getitem__``."""

    def __init__(self, loader: DataLoader, state: Mapping[str, Any] | None) -> None:
        self._begin = _sampling(loader) if state is None else state["sampling"]
        self._low = 0 if state is None else state["batches"]  # all below it were delivered
        self._ahead = set() if state is None else set(state["ahead"])  # and these
        self._size = _size(loader)
        self.over = self._ended = False
        self._last = self._low - 1
        low, ahead = self._low, frozenset(self._ahead)
        with _sampling_again(loader, state):
            indices = iter(loader._index_sampler)
            _draw(loader.generator)
            numbered = (_Call(n, one) for n, one in enumerate(indices) if n >= low and n not in ahead)
            # What is drawn at random is drawn for the first one.
            first = [] if state is None else list(itertools.islice(numbered, 1))
        self._numbered: Iterator[_Call] = itertools.chain(first, numbered)
        threads = loader.num_workers
        fetch = self._fetch = _Fetch(loader)
        self._waiting: _Call | None = None
        self._iterator: Any = None
        if threads:
            self._calls = _Calls()
            self._room = max(loader.prefetch_factor * threads, 1)
            self._timeout = loader.timeout
            node = dataset_of(_Fetched((), self._calls, fetch, threads, loader.in_order))
            self._iterator = iter(node.with_options(Options(stall_timeout=loader.timeout or None)))
            weakref.finalize(self, self._calls._stop).atexit = False
            self._hand_on()

    def __iter__(self) -> Iterator[Any]:
        return self

    def _hand_on(self) -> None:
        # In this thread, like PyTorch: so what a sampler draws comes in the same order among other things drawn.
        while self._room > 0 and not self._ended:
            try:
                call = next(self._numbered)
            except StopIteration:
                self._ended = True
                self._calls.put(None)
                return
            except Exception as error:
                call = _Call(self._last + 1, None, error)
            self._last = call.number
            self._room -= 1
            self._calls.put(call)

    def __next__(self) -> Any:
        try:
            result = self._alone() if self._iterator is None else self._taken()
        except StopIteration:
            self.over = True
            raise
        self._ahead.add(result.number)
        while self._low in self._ahead:
            self._ahead.remove(self._low)
            self._low += 1
        if result.error is not None:
            if isinstance(result.error, StopIteration):  # it would end the loop as if all data had come
                raise raised("DataLoader: the dataset", result.error) from result.error
            raise result.error
        return result.batch

    def _alone(self) -> _Result:
        if self._waiting is None:
            self._waiting = next(self._numbered)
        call, error, made = self._waiting, None, None
        try:
            made = self._fetch.batch(call.index)
        except Exception as failed:  # Ctrl-C loses nothing: this one is fetched again
            error = failed
        self._waiting = None
        return _Result(call.number, made, error)

    def _taken(self) -> _Result:
        try:
            result: _Result = next(self._iterator)
        except StallError as error:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from error
        self._room += 1
        self._hand_on()
        return result

    def state_dict(self) -> dict[str, Any]:
        return _mapped_state(self._low, sorted(self._ahead), self._size, self._begin)

    def close(self, timeout: float | None = 1.0) -> None:
        if self._iterator is not None:
            self._calls._stop()
            self._iterator.close(timeout)


class _Streamed:
    """An epoch of a dataset that is gone through."""

    def __init__(self, loader: DataLoader, state: Mapping[str, Any] | None) -> None:
        _draw(loader.generator)
        dataset = loader.dataset
        self._size, self._collate, self._pin = loader.batch_size, loader.collate_fn, _pinning(loader)
        if loader._opened is not None and loader._collates:  # it makes batches itself
            self._size = self._collate = self._pin = None
        self._drop, self._timeout = loader.drop_last, loader.timeout
        self._samples = 0
        self._data: list[Any] = []
        self._before: Any = None  # the place before those
        self.over = False
        opened = loader._opened
        self._elements = elements = iter(dataset) if opened is None else opened()
        self._stateful = next((one for one in (elements, dataset) if _is_stateful(one)), None)
        if state is None:
            return
        self._samples = 0 if state["over"] else state["samples"]
        if self._stateful is not None:
            self._stateful.load_state_dict(state["place"])
            if self._stateful is dataset:
                self._elements = iter(dataset)
            elif state["over"]:  # the next one begins with the next pass
                elements.close()
                self._elements = self._stateful = iter(dataset) if opened is None else opened()
        else:
            for _ in itertools.islice(elements, self._samples):
                pass

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        # In a list of its own: Ctrl-C loses nothing.
        data = self._data
        wanted = self._size or 1
        if wanted > 1 and not data and self._stateful is not None:
            self._before = self._stateful.state_dict()
        try:
            while len(data) < wanted:
                data.append(next(self._elements))
        except StopIteration:
            if not data or self._drop:
                self.over = True
                raise
        except StallError as error:
            if not self._timeout:
                raise
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from error
        self._data = []
        self._samples += len(data)
        batch = data[0] if self._size is None else data
        if self._collate is not None:
            batch = self._collate(batch)
        return batch if self._pin is None else self._pin(batch)

    def state_dict(self) -> dict[str, Any]:
        place = None if self._stateful is None else self._stateful.state_dict()
        if self._data and not self.over:
            place = self._before
        return {"version": _VERSION, "samples": self._samples, "place": place, "over": self.over}

    def close(self, timeout: float | None = 1.0) -> None:
        if isinstance(self._elements, _Elements):
            self._elements.close(timeout)


class DataLoader(torch.utils.data.DataLoader[Any]):
    """PyTorch's ``DataLoader`` with threads instead of processes: no pickling, no copies, no time to start.

    Its arguments, its order, its batches and its errors are those of ``torch.utils.data.DataLoader``, of which it is a
    subclass; what is said here is only what differs.

    Parameters
    ----------
    dataset : queuecore.data.Dataset, or a dataset of PyTorch's
        Of the second, one with ``__getitem__`` and ``__len__`` (a list, too), or an ``IterableDataset``.
    batch_size : int or None, default 1
        `None`: elements come as they are, which is right for a queuecore dataset that is batched already.
    shuffle : bool, optional
        Of a queuecore dataset: `queuecore.data.Dataset.permute`, with seeds from `generator`, in another order each
        epoch. Else the permutation that PyTorch draws from `generator`, or from its global generator.
    sampler, batch_sampler : optional
        Not of datasets that are gone through.
    num_workers : int, default 0
        Threads that fetch and collate. 0: the caller's own does it, when asked. Of a queuecore dataset the native
        threads; 0: as many as it has by itself. An ``IterableDataset`` is gone through once, in the caller's thread.
    collate_fn : callable, optional
        Of a queuecore dataset: of a list of elements, as tensors, in the caller's thread. Without it, batches are made
        natively.
    pin_memory : bool, default False
        Where there is a GPU: batches in pinned memory; of a queuecore dataset, on the GPU, as with ``device="cuda"``.
        Else a warning, as PyTorch's.
    timeout : float, default 0
        Seconds in which no work is done after which waiting for a batch is a `RuntimeError`. It ends the iterator.
    worker_init_fn : callable, optional
        Called once in each thread, with its number, before the first batch there. Not of datasets that are gone
        through.
    prefetch_factor : int, optional
        Batches ahead of the loop for each of `num_workers`; default 2. Of a queuecore dataset: its own choice.
    multiprocessing_context, persistent_workers, pin_memory_device
        Checked, but of no effect: there are no processes, and threads begin at once.
    in_order : bool, default True
        False: a batch comes as soon as it is ready.
    device : str, optional
        Of a queuecore dataset: where its batches are to be, as of ``prefetch_to_device``.
    buffers : int, default 3
        For that, how many batches there are on the device.

    Raises
    ------
    ValueError, TypeError
        For arguments that don't go together; `sampler`, `batch_sampler` and `worker_init_fn` with a dataset that is
        gone through; `device` without a queuecore dataset, or with `collate_fn`; `timeout` where the caller's own
        thread does the work.
    InvalidArgumentError, UnimplementedError
        If a queuecore dataset that can't be permuted is to be shuffled: use its own ``shuffle``.

    Notes
    -----
    **Threads.** What a dataset's ``__getitem__`` does in Python holds the GIL: threads help where it waits or computes
    without it (reading files, NumPy, PyTorch, codecs), and where the loop itself waits for a GPU. It must be safe to
    call it in several threads at a time. ``torch.utils.data.get_worker_info()`` is `None` in them, and there is one
    global random generator for all: draw from generators of your own, seeded by the index, where results shall be
    reproducible. The sampler runs in the thread of the loop, so its order is, with or without workers.

    **Errors.** What a dataset, `collate_fn` or sampler raises comes out as it is, in its place in the order, with the
    traceback of the thread and a note that names the indices; the loop may go on with the next batch. Only a
    `StopIteration` is a `PipelineError`, with it as the cause: else the loop would end as if the data had.
    An error of a queuecore dataset ends the iterator.

    **State.** `state_dict` returns the place after the last batch delivered; what was made ahead doesn't count.
    `load_state_dict` is for the next iteration, in this process or another one. After the last batch the state is that
    before the next epoch. It is plain values, which survive JSON (but for what a sampler's ``state_dict`` returns).
    The states of generators at the epoch's beginning are in it, and so is that of PyTorch's global one, if the sampler
    may draw from it; the sampler's batches up to the place are drawn again, and no data is fetched for them. A sampler
    that draws from elsewhere, or from the global generator later than for its first index (PyTorch's own don't), must
    have a ``state_dict``, or give the same order again. Of an ``IterableDataset``, the place is that of its iterator's
    or its own ``state_dict``; if there is none, elements are skipped one by one.

    **Memory.** Batches of a queuecore dataset are views of memory that is used again. Who keeps more of them than
    `queuecore.data.Options.max_leases` (4) gets copies from then on, and one `RuntimeWarning`.

    Iterators are independent of each other, but `state_dict` knows the newest one alone.

    Examples
    --------
    >>> import torch
    >>> from queuecore.torch import DataLoader
    >>> squares = [(torch.tensor(float(x)), x * x) for x in range(7)]
    >>> loader = DataLoader(squares, batch_size=3, num_workers=2)
    >>> batches = iter(loader)
    >>> next(batches)
    [tensor([0., 1., 2.]), tensor([0, 1, 4])]
    >>> state = loader.state_dict()
    >>> loader.load_state_dict(state)
    >>> list(loader)
    [[tensor([3., 4., 5.]), tensor([ 9, 16, 25])], [tensor([6.]), tensor([36])]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: str | None = None,
        buffers: int = 3,
    ) -> None:
        self._opened: Callable[[], _Elements] | None = None  # an iterator of a dataset of ours
        self._collates = collate_fn is None
        self._state: Mapping[str, Any] | None = None
        self._ready: Any = None  # an iterator that was made for its state, and is the next one
        ours = isinstance(dataset, Dataset)
        iterable = ours or isinstance(dataset, torch.utils.data.IterableDataset)
        if device is not None and (not ours or collate_fn is not None):
            raise ValueError("device= is for the batches of a queuecore dataset, without a collate_fn")
        if iterable and worker_init_fn is not None:
            raise ValueError("worker_init_fn: a dataset that is gone through has no threads in which to call it")
        if timeout and not ours and (iterable or not num_workers):
            raise ValueError("timeout: there is no one to wait for, as the caller's own thread does the work")
        if ours and shuffle:
            pair = _draw(generator) % (2**31 - 2) + 1, _draw(generator) % (2**31 - 2) + 1
            dataset = dataset._permuted(Permute(True, ShuffleSeeds(pair, generator is not None)))
            shuffle = None
        super().__init__(
            IterableDataset(dataset) if ours else dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        self._epoch = _Streamed if iterable else _Mapped
        if not ours:
            return
        if self._collates and batch_size is not None:
            dataset = dataset.batch(batch_size, drop_last)
        if prefetch_factor:
            dataset = dataset.prefetch(prefetch_factor * num_workers)
        made: Any = dataset.with_options(
            Options(
                num_threads=num_workers or None,
                stall_timeout=timeout or None,
                deterministic=None if in_order else False,
            )
        )
        if device is None and pin_memory and self._collates and torch.cuda.is_available():
            device = "cuda"
        kind = _Elements
        if device is not None:
            kind, made = _DeviceElements, _on_device(made, device, buffers)
        self._opened = functools.partial(_opened, kind, made)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of: no iterator, but the arguments, and a place that was loaded."""
        return self.__dict__ | {"_iterator": None, "_ready": None}

    def check_worker_number_rationality(self) -> None:
        """Warn of nothing: more threads than CPUs are right where they wait."""

    def __iter__(self) -> Iterator[Any]:
        """Return a new iterator: over the next epoch, or from the place on that was loaded."""
        if self.pin_memory and not torch.accelerator.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=2,
            )
        ready, self._ready = self._ready, None
        if ready is None:
            # Of an epoch that was left, the threads end before others begin.
            self._iterator: Any = None
            ready = self._epoch(self, self._state)
            self._state = None
        self._iterator = ready
        made: Iterator[Any] = ready
        return made

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch that the newest iterator delivered.

        Returns
        -------
        dict
            It is a copy. If there is no iterator, or it is at its end, of the beginning of the next epoch.
        """
        if self._state is not None:
            return dict(self._state)
        if self._epoch is _Mapped and (self._iterator is None or self._iterator.over):
            return _mapped_state(0, [], _size(self), _sampling(self))
        if self._iterator is None:  # a place is that of an iterator, so there has to be one
            self._ready = self._iterator = self._epoch(self, None)
        state: dict[str, Any] = self._iterator.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration begin at a place.

        Parameters
        ----------
        state : mapping
            Of `state_dict`, of a loader with the same arguments. `num_workers`, `prefetch_factor` and what else doesn't
            change the batches may differ.

        Raises
        ------
        InvalidArgumentError
            If it is no such state.
        ResumeMismatchError
            If it is of another dataset or other batches. What only the dataset can tell comes when the iteration
            begins.
        """
        mapped = self._epoch is _Mapped
        keys = {"batches", "ahead", "size", "sampling"} if mapped else {"samples", "place", "over"}
        if not isinstance(state, Mapping) or state.get("version") != _VERSION or not keys <= state.keys():
            raise InvalidArgumentError(f"{state!r:.80} is no state of a DataLoader over such a dataset")
        if mapped and state["size"] != _size(self):
            raise ResumeMismatchError(
                f"the state is of a loader of {state['size']}, and this one is of {_size(self)}", stage="resume"
            )
        if mapped and len(state["sampling"]["generators"]) != len(_generators(self)[0]):
            raise ResumeMismatchError("the state is of a loader with another generator or sampler", stage="resume")
        self._state = dict(state)
        self._ready = self._iterator = None


def _opened(kind: type[_Elements], dataset: Any) -> _Elements:
    return kind(iter(dataset))


def _on_device(dataset: Any, device: str, buffers: int) -> Any:
    return dataset.prefetch_to_device(device, buffers=buffers)


def _pinning(loader: DataLoader) -> Any:
    """Return what puts a batch into pinned memory, or `None` if that isn't wanted, or of no use."""
    return torch.utils.data._utils.pin_memory.pin_memory if loader.pin_memory and torch.cuda.is_available() else None


def _mapped_state(batches: int, ahead: list[int], size: dict[str, Any], sampling: dict[str, Any]) -> dict[str, Any]:
    return {"version": _VERSION, "batches": batches, "ahead": ahead, "size": size, "sampling": sampling}


def _is_stateful(one: Any) -> bool:
    return hasattr(one, "state_dict") and hasattr(one, "load_state_dict")


def _draw(generator: Any) -> int:
    """Return a seed, drawn as PyTorch's loaders draw one for each epoch."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def _size(loader: DataLoader) -> dict[str, Any]:
    samples = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None
    return {"samples": samples, "batch_size": loader.batch_size, "drop_last": loader.drop_last}


def _generators(loader: DataLoader) -> tuple[list[Any], bool, Any]:
    """Return a loader's generators, whether its sampler may draw from the global one, and where that has a state."""
    sampler = loader._index_sampler
    source = getattr(sampler, "sampler", sampler)
    found = [loader.generator, getattr(sampler, "generator", None), getattr(source, "generator", None)]
    own = list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())
    known = isinstance(source, torch.utils.data.SequentialSampler) or isinstance(found[2], torch.Generator)
    return own, not known, next((one for one in (sampler, source) if _is_stateful(one)), None)


def _sampling(loader: DataLoader) -> dict[str, Any]:
    """Return what an epoch's order follows from."""
    own, draws, stateful = _generators(loader)
    return {
        "generators": [_text(one.get_state()) for one in own],
        "global": _text(torch.get_rng_state()) if draws else None,
        "sampler": None if stateful is None else stateful.state_dict(),
    }


@contextlib.contextmanager
def _sampling_again(loader: DataLoader, state: Mapping[str, Any] | None) -> Generator[None]:
    """Let the order be drawn as it was; what others draw from the global generator stays as it is."""
    if state is None:
        yield
        return
    own, draws, stateful = _generators(loader)
    sampling = state["sampling"]
    with torch.random.fork_rng(devices=[]):
        for one, text in zip(own, sampling["generators"], strict=True):
            one.set_state(_rng_state(text))
        if draws and sampling["global"] is not None:
            torch.set_rng_state(_rng_state(sampling["global"]))
        if stateful is not None and sampling["sampler"] is not None:
            stateful.load_state_dict(sampling["sampler"])
        yield


def _text(state: Any) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _rng_state(text: str) -> Any:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
