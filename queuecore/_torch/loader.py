"""PyTorch's loader, with threads."""

from __future__ import annotations

import copy
import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, SupportsIndex, TypeVar

from queuecore._torch.base import Lasting, Loader, LoaderSettings, keeps_nothing
from queuecore._torch.crews import planned, shared_draws
from queuecore._torch.datasets import IterableDataset
from queuecore._torch.epochs import Mapped, Streamed, StreamedBeside
from queuecore._torch.package import torch
from queuecore._torch.places import (
    VERSION,
    arranged,
    beside_state,
    draw,
    generators_of,
    is_stateful,
    mapped_state,
    sampling_of,
    seed_ahead,
    seeded,
    size_of,
)
from queuecore._torch.tensors import DeviceElements, ElementTensors
from queuecore.data._nodes.permute import permuted
from queuecore.data._plan.chain import INFINITE_CARDINALITY, chain_of, dataset_of
from queuecore.data._plan.steps import Permute, Shuffle, ShuffleSeeds
from queuecore.data.dataset import Dataset
from queuecore.data.options import Options
from queuecore.errors import InvalidArgumentError, ResumeMismatchError, UnimplementedError

__all__ = ["DataLoader"]

_MOST = 2**31 - 1  # elements in the window of a shuffle
_log = logging.getLogger("queuecore")
_shown: set[str] = set()

T = TypeVar("T", covariant=True)


class DataLoader(Loader, Generic[T]):
    """PyTorch's ``DataLoader`` with threads instead of processes: no pickling, no batches copied, no time to start.

    Its arguments, its order, its batches and its errors are those of ``torch.utils.data.DataLoader``, of which it is a
    subclass; this text describes only the differences. An *iterable* dataset is one without ``__getitem__``.

    Parameters
    ----------
    dataset : queuecore.data.Dataset, or a dataset of PyTorch's
        A PyTorch dataset has ``__getitem__`` and ``__len__`` (a list will do), or is an ``IterableDataset``.
    batch_size : int or None, default 1
        The number of elements of a batch. None: elements come as they are, which is right for a queuecore dataset that
        is batched already.
    shuffle : bool, optional
        Shuffles a queuecore dataset, also in an `IterableDataset` of queuecore's (a copy of it), with seeds from
        `generator`, in another order each epoch: by `queuecore.data.Dataset.permute`, or by a ``shuffle`` that holds
        all elements in memory, if it can't be permuted (elements of an unknown number, batches), which the log says
        once (``queuecore``, INFO). Shuffles another dataset by the permutation that PyTorch draws from `generator`, or
        from its global generator.
    sampler, batch_sampler : optional
        As in PyTorch; not with iterable datasets, of queuecore or PyTorch.
    num_workers : int, default 0
        The number of workers that fetch and collate. 0: the caller's own thread does so, when asked. With a queuecore
        dataset, the number of native threads; 0: the dataset's own number. With an ``IterableDataset``, each worker
        iterates over a copy of its own, and ``get_worker_info()`` tells it which part to give, as in PyTorch;
        queuecore's `IterableDataset` and data pipes are iterated over once, in the caller's thread.
    collate_fn : callable, optional
        With a queuecore dataset: it gets a list of elements, as tensors, in the caller's thread. Without it, batches
        are made natively.
    pin_memory : bool, default False
        With a GPU: batches come in pinned memory; a queuecore dataset's on the GPU, as with ``device="cuda"``.
        Without a GPU: a warning, as PyTorch's.
    drop_last : bool, default False
        As in PyTorch: a last batch with fewer elements is dropped.
    timeout : float, default 0
        Seconds without any work done after which waiting for a batch raises `RuntimeError` and ends the iterator. 0:
        no limit.
    worker_init_fn : callable, optional
        Called once in each worker, with its number, before the worker's first batch. Threads call it one after the
        other, while the loop waits, with the worker's states of random generators in place of the program's. If it is a
        method of `dataset`, it is called for the worker's copy; so is `collate_fn`.
    generator : torch.Generator, optional
        As in PyTorch: the source of the shuffle's order and of the workers' seeds. Default: PyTorch's global generator.
    prefetch_factor : int, optional
        Batches ahead of the loop for each of `num_workers`; default 2. A queuecore dataset has a default of its own.
    multiprocessing_context, pin_memory_device
        Checked; the first has an effect on worker processes.
    persistent_workers : bool, default False
        Whether the copies, random states and processes of workers stay for later epochs.
    in_order : bool, default True
        False: a batch comes as soon as it is ready.
    snapshot_every_n_steps : int, optional
        After how many batches the state of a worker's dataset, of its iterator and of the sampler is taken; default 1.
        A loader that resumes makes the batches since then again and drops them. 0 or None: states are never taken, and
        it makes all batches again. With ``in_order=False`` or `persistent_workers` states are taken after each batch.
    device : str, optional
        With a queuecore dataset: the device of its batches, as for ``prefetch_to_device``.
    buffers : int, default 3
        With `device`: the number of batches on the device.
    copy_dataset : {"shallow", "deep", False}, default "shallow"
        The parts that each worker thread has for itself, from the beginning of an epoch on. ``"shallow"``: a copy of
        every dataset in the dataset (in attributes, lists, tuples, dicts, bound methods), of transformations whose
        methods set attributes, and of random generators, and with an ``IterableDataset`` of the lists, dicts, sets and
        deques in it; arrays and all else are shared, so only values assigned to attributes are a worker's own.
        ``"deep"``: a copy of everything. False: nothing.
    worker_type : {"thread", "process", "native"}, optional
        The kind of workers. Default: native threads, if they can make all samples (see **Pictures** below). Otherwise
        threads, unless the code of samples draws from the random generators that all threads share (of ``random``,
        ``numpy.random`` and PyTorch): then processes. Worker processes are PyTorch's; they suit samples that compute in
        Python alone, on a machine with many processors. Threads whose samples hold each other up by the GIL work one
        after the other. With ``"thread"``, samples that draw are made in the loop's thread. The choice is logged with
        its reason (``queuecore``, INFO).

    Raises
    ------
    ValueError, TypeError
        For arguments that don't go together; `sampler` and `batch_sampler` with an iterable dataset;
        `worker_init_fn` with a queuecore dataset; `device` without one, or with `collate_fn`; `timeout` if the
        caller's own thread does the work; ``worker_type="native"`` if native threads can't make the samples.
    InvalidArgumentError
        If the dataset can't be copied for a worker.
    InvalidArgumentError
        If a queuecore dataset without an end is to be shuffled: use its own ``shuffle``.

    Notes
    -----
    **Workers.** As in PyTorch, worker i of n makes the batches i, i + n, i + 2n, ..., from a dataset of its own, and
    ``torch.utils.data.get_worker_info()`` answers in it. With ``in_order=False``, if every worker would make the same
    batch (no code sets attributes or asks for the worker), each thread takes the next batch that is to be made.
    The sampler runs in the thread of the loop, so its order is the same with or without workers.

    **Threads.** Python code in a dataset's ``__getitem__`` holds the GIL: threads help if it waits or computes without
    the GIL (reading files, NumPy, PyTorch, codecs), and if the loop itself waits for a GPU. Some objects can't be
    copied, and no two threads may use them at a time: open files, SQLite, HDF5 and LMDB handles, archives, sockets,
    iterators. If a dataset has such objects, one worker after the other calls it, and a warning names them. Not found
    are handles of unknown packages, and handles within objects that are no datasets.

    **Pictures.** Of torchvision's ``ImageFolder`` (or a subclass without a ``__getitem__`` of its own, or a ``Subset``)
    native threads read, decode and transform the files, without Python, in the sampler's order, if there are workers
    and everything is among the following. Transforms, of ``transforms`` or ``transforms.v2``: ``Resize``,
    ``RandomResizedCrop``, ``CenterCrop`` behind one of them, ``RandomCrop`` without padding, ``RandomHorizontalFlip``,
    ``RandomVerticalFlip``, ``ColorJitter``, ``RandomGrayscale``, ``GaussianBlur``, ``RandAugment``,
    ``TrivialAugmentWide``, ``ToTensor``, ``PILToTensor``, ``ToImage``, ``ConvertImageDtype`` and ``ToDtype`` (to
    float32), ``Normalize``, and at the end ``RandomErasing``, in ``Compose``; the loader: torchvision's own; files:
    JPEG, PNG, BMP, WebP; samplers: PyTorch's own; no `collate_fn`, no `worker_init_fn`. Shapes, dtypes and
    distributions are torchvision's. Pixels aren't rounded between the operations, so they differ by up to one step of
    255; a JPEG may be decoded at a half, a quarter or an eighth of its size, as by `queuecore.ops.resize`. Random draws
    follow from the epoch's seed, which is drawn from `generator`, and from a picture's place in the epoch: they are the
    same for any number of workers, and in an epoch that resumes. If something else is there, the log says what
    (``queuecore``, INFO), and the workers are others; with ``worker_type="native"`` that is a `ValueError`.

    **Random numbers.** Samples draw the same numbers as with PyTorch's loader and the same arguments, whether workers
    are processes, or taken in turn by the loop's thread, with their states of the generators in place of the
    program's. The numbers differ in each worker and epoch, follow from `generator`, and leave the program's generators
    unchanged. The loader finds draws in the code of the dataset, of `collate_fn` and of the functions that they call;
    it doesn't see draws by compiled code: then set ``worker_type="process"``. A loader that resumes begins with the
    epoch's numbers again.

    **Errors.** An exception of a dataset, `collate_fn` or sampler comes out as it is, in its place in the order, with
    the traceback of the thread and a note that names the indices; the loop may go on with the next batch. Only a
    `StopIteration` becomes the cause of a `PipelineError`: otherwise the loop would end as if the data had.
    An error of a queuecore dataset ends the iterator. The workers end when the loop drops its iterator, also if an
    error leaves the loop and is kept: no frame of this loader's code in a traceback holds the iterator.

    **State.** `state_dict` returns the place after the last batch delivered; batches made ahead don't count.
    `load_state_dict` sets the place of the next iteration, in this process or another one. At the end of the loop the
    state is that before the next epoch; from inside its body, behind the last batch, the iteration that begins there
    gives nothing, and the one after it is the next epoch. It has plain values, which JSON can store (except the values
    of a sampler's ``state_dict``). It includes the states of generators at the epoch's beginning, also of PyTorch's
    global one, if the sampler may draw from it; the sampler's batches up to the place are drawn again, and no data is
    fetched for them. A sampler that draws from elsewhere, or from the global generator later than for its first index
    (PyTorch's own don't), must have a ``state_dict``, or give the same order again. Orders of epochs after a resumed
    one go on from the state too, unless the program has restored PyTorch's global generator itself. The place in an
    ``IterableDataset`` is the ``state_dict`` of its iterator, its own, or both, in each worker; if there is none,
    elements are skipped one by one. A dataset with ``__getitem__`` may have a ``state_dict`` too: it is saved for each
    worker, and then `num_workers` must stay the same. Workers that stay, and the caller's own thread, hand the state on
    to the next epoch. A sampler's ``state_dict`` may be its place, or what the order of an epoch follows from.

    **Memory.** Batches of a queuecore dataset, and of pictures, are views of memory that is used again. A consumer that
    keeps more of them than `queuecore.data.Options.max_leases` (4) gets copies from then on, and of a queuecore dataset
    one `RuntimeWarning`, unless its ``on_hold`` is ``"copy"``.

    ``next()`` waits for worker threads and native threads without the GIL, and notices Ctrl-C. Iterators are
    independent of each other, but `state_dict` knows only the newest one.

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
        snapshot_every_n_steps: int | None = 1,
        device: str | None = None,
        buffers: int = 3,
        copy_dataset: str | Literal[False] = "shallow",
        worker_type: str | None = None,
    ) -> None:
        self.snapshot_every_n_steps = snapshot_every_n_steps
        ours = isinstance(dataset, Dataset)
        iterable = ours or isinstance(dataset, torch.utils.data.IterableDataset)
        # Queuecore's datasets have native threads that read ahead; data pipes divide themselves only among processes.
        alone = isinstance(dataset, (Dataset, IterableDataset, torch.utils.data.IterDataPipe))
        if copy_dataset not in ("shallow", "deep", False):
            raise ValueError(f"copy_dataset is 'shallow', 'deep' or False, not {copy_dataset!r}")
        if worker_type not in (None, "thread", "process", "native"):
            raise ValueError(f"worker_type is 'thread', 'process', 'native' or None, not {worker_type!r}")
        if worker_type == "process" and alone:
            raise ValueError("worker_type='process': the workers of such a dataset are native threads")
        if worker_type == "native" and iterable and not ours:
            raise ValueError("worker_type='native': an IterableDataset is Python")
        if snapshot_every_n_steps is not None and snapshot_every_n_steps < 0:
            raise ValueError(f"snapshot_every_n_steps is a number of batches, 0 or None, not {snapshot_every_n_steps}")
        if device is not None and (not ours or collate_fn is not None):
            raise ValueError("device= is for the batches of a queuecore dataset, without a collate_fn")
        # Programs with data pipes give one of PyTorch's, which once divided them and does nothing now.
        old = getattr(worker_init_fn, "__module__", "") == "torch.utils.data.backward_compatibility"
        if alone and worker_init_fn is not None and not old:
            raise ValueError("worker_init_fn: such a dataset has no workers in which to call it")
        if timeout > 0 and not ours and (alone or not num_workers):
            raise ValueError("timeout: there is no one to wait for, as the caller's own thread does the work")
        if shuffle and ours:
            dataset, shuffle = _shuffled(dataset, generator), None
        elif shuffle and isinstance(dataset, IterableDataset):
            given, dataset, shuffle = dataset, copy.copy(dataset), None
            dataset.dataset = _shuffled(given.dataset, generator)
        super().__init__(
            IterableDataset(dataset) if ours else dataset, batch_size, shuffle, sampler, batch_sampler, num_workers,
            collate_fn, pin_memory, drop_last, timeout, worker_init_fn, multiprocessing_context, generator,
            prefetch_factor=prefetch_factor, persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device, in_order=in_order,
        )  # fmt: skip
        beside = StreamedBeside if num_workers and not alone else Streamed
        self._epoch = beside if iterable else Mapped
        self.settings = LoaderSettings(collate_fn is None, copy_dataset, worker_type, self._epoch.beside)
        self.lasting = Lasting()
        if self._epoch is not Streamed:
            self._processes = planned(self).how == "process"  # this logs the choice of workers, and warns
            self.check_worker_number_rationality()
        if ours:
            opened = _native(self, dataset, prefetch_factor, device, buffers)
            self.settings = self.settings._replace(opened=opened)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy: the arguments and a place that was loaded, but no iterator."""
        return self.__dict__ | {"_newest": None, "_ready": None, "lasting": copy.copy(self.lasting)}

    def check_worker_number_rationality(self) -> None:
        """Warn as PyTorch does if workers are processes: more threads than CPUs are right if they wait."""
        if self._processes:
            super().check_worker_number_rationality()

    @keeps_nothing
    def __iter__(self) -> Iterator[Any]:
        """Return a new iterator: over the next epoch, or from the loaded place on."""
        if self.pin_memory and self.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated: batches are pinned for the current accelerator, not for "
                f"{self.pin_memory_device!r}",
                stacklevel=2,
            )
        if self.pin_memory and not torch.accelerator.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=2,
            )
        ready, self._ready = self._ready, None
        if ready is None:
            # The threads of an epoch that was left end before new ones begin.
            self._iterator = None
            kept = self.lasting.kept
            if kept is not None and getattr(kept[1], "closed", False):
                self.lasting.let_workers_go()
            ready = self._epoch(self, self._state)
            self._state = None
        self._iterator = ready
        made: Iterator[Any] = ready
        return made

    @keeps_nothing
    def enumerate(self, start: int = 0) -> Iterator[tuple[int, T]]:
        """Return an iterator over the batches with their numbers in the epoch, also from a loaded place on.

        Parameters
        ----------
        start : int, default 0
            The number of the epoch's first batch, also if that was delivered before.

        Examples
        --------
        >>> loader = DataLoader(range(6), batch_size=2)
        >>> for number, batch in loader.enumerate():
        ...     if number == 0:
        ...         state = loader.state_dict()
        >>> loader.load_state_dict(state)
        >>> list(loader.enumerate())
        [(1, tensor([2, 3])), (2, tensor([4, 5]))]
        """
        batches = iter(self)
        before: int = self._iterator.before
        return enumerate(batches, start + before)

    @keeps_nothing
    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch that the newest iterator delivered.

        Returns
        -------
        dict
            A copy of the place. If there is no iterator, or it is at its end: the beginning of the next epoch.
        """
        if self._state is not None:
            return dict(self._state)
        if self._epoch is Mapped and (self._iterator is None or self._iterator.over):
            sampling = sampling_of(self)
            if sampling["global"] is None and sampling["seed"] is None:
                sampling["seed"] = seed_ahead(self)
            return mapped_state(0, [], size_of(self), sampling, None, self._datasets())
        if self._epoch is StreamedBeside and (self._iterator is None or self._iterator.over):  # this needs no workers
            places = [None] * self.num_workers if self.lasting.states is None else list(self.lasting.states)
            seed = seeded(self)
            seed["seed"] = seed_ahead(self) if seed["seed"] is None else seed["seed"]
            return beside_state(arranged(self), places, 0, True, seed)
        if self._iterator is None:  # a place is that of an iterator, so there has to be one
            self._ready = self._iterator = self._epoch(self, None)
        state: dict[str, Any] = self._iterator.state_dict()
        return state

    def stats(self) -> dict[str, int]:
        """Return counters of the newest iterator.

        Returns
        -------
        dict of str to int
            ``batches`` (delivered), ``workers`` (threads or processes of the loader), and for a queuecore dataset those
            of `queuecore.data.Iterator.stats`. Without an iterator: no batches, no workers.
        """
        made: dict[str, int] = {"batches": 0, "workers": 0} if self._iterator is None else self._iterator.stats()
        return made

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Set the number of the next epoch, for a dataset or a sampler that has ``set_epoch``; others don't change.

        Parameters
        ----------
        epoch : int
            The number, from 0. The shuffles of a queuecore dataset count on from it. Workers that stay
            (`persistent_workers`) keep their copies of another dataset, and don't get it.
        """
        batches = self.batch_sampler
        found = [self.dataset, self.sampler, batches, getattr(batches, "sampler", None)]
        for one in {id(one): one for one in found if hasattr(one, "set_epoch")}.values():
            one.set_epoch(epoch)
        if self._ready is not None:  # it was made for its state, with the number before
            self._ready = self._iterator = None

    def _datasets(self) -> list[Any] | None:
        """Return the states of the datasets that stay for the next epoch."""
        if not is_stateful(self.dataset) or (self.num_workers and self.lasting.states is None):
            return None
        states = self.lasting.states if self.num_workers else [self.dataset.state_dict()]
        return [0, copy.deepcopy(states)]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration begin at a place.

        Parameters
        ----------
        state : mapping
            A state of a loader with the same arguments, from its `state_dict`. `num_workers` (except with an
            ``IterableDataset``, or a dataset that has states), `snapshot_every_n_steps`, `worker_type`,
            `prefetch_factor` and others that don't change the batches may differ. An empty state: the beginning of the
            next epoch, whatever was loaded before.

        Raises
        ------
        InvalidArgumentError
            If it is no such state.
        ResumeMismatchError
            If it is of another dataset, another kind of sampler or other batches. Differences that only the dataset can
            find are raised when the iteration begins.
        """
        if isinstance(state, Mapping) and not state:
            self._state = self._ready = self._iterator = None
            return
        mapped = self._epoch is Mapped
        keys = {"batches", "ahead", "size", "sampling", "now"} if mapped else {"samples", "place", "over", "arranged"}
        if not isinstance(state, Mapping) or state.get("version") != VERSION or not keys <= state.keys():
            raise InvalidArgumentError(f"{state!r:.80} is no state of a DataLoader over such a dataset")
        saved, here = (state["size"], size_of(self)) if mapped else (state["arranged"], arranged(self))
        if saved != here:
            raise ResumeMismatchError(f"the state is of a loader of {saved}, and this one is of {here}", stage="resume")
        if mapped and len(state["sampling"]["generators"]) != len(generators_of(self)[0]):
            raise ResumeMismatchError("the state is of a loader with another generator or sampler", stage="resume")
        _, held = state.get("datasets") or (0, [])
        if is_stateful(self.dataset) and any(held) and len(held) != max(self.num_workers, 1):
            raise ResumeMismatchError(
                f"the dataset has a state in each of {len(held)} workers, and this loader has {self.num_workers}",
                stage="resume",
            )
        self._state = dict(state)
        self._ready = self._iterator = None
        self._say_what_is_not_restored()

    def _say_what_is_not_restored(self) -> None:
        if self.settings.opened or is_stateful(self.dataset):  # its own state may have the generators'
            return
        if self._epoch is Mapped and planned(self).how == "native":
            return
        reason = shared_draws(self)
        if reason:
            place = (
                "each worker begins with the numbers of the epoch's beginning"
                if self.num_workers and self._epoch is not Streamed
                else "samples draw the numbers that follow in this program"
            )
            self.lasting.say(
                f"a loaded state has the place and the order of the data, but not how far samples have drawn from a "
                f"generator of the whole process ({reason}): {place}. With a generator of each sample's own, such as "
                "numpy.random.default_rng((seed, index)), a resumed epoch is the same"
            )


def _shuffled(dataset: Any, generator: Any) -> Any:
    """Return a queuecore dataset in random order, with seeds from the generator."""
    pair = draw(generator) % (2**31 - 2) + 1, draw(generator) % (2**31 - 2) + 1
    seeds = ShuffleSeeds(pair, generator is not None)
    chain = chain_of(dataset)
    try:
        return dataset_of(permuted(chain, Permute(True, seeds)))
    except (InvalidArgumentError, UnimplementedError):
        count = dataset.cardinality()
        if count == INFINITE_CARDINALITY:
            raise InvalidArgumentError(
                "DataLoader: shuffle=True draws from all elements, and this dataset has no end: give it a window by "
                "its own .shuffle(n), and leave shuffle out"
            ) from None
        # A window that holds all elements.
        size = max(count, 1) if 0 <= count < _MOST else _MOST
        if not _told(dataset):
            _log.info(
                "DataLoader: shuffle=True holds all elements of %s in memory, in a window of %s: .shuffle(n) of the "
                "dataset itself takes a smaller one",
                dataset,
                size if count >= 0 else "any size",
            )
        return dataset_of(chain.then(Shuffle(size, True, seeds)))


def _told(dataset: Any) -> bool:
    """Return whether the log has said what the shuffle of such a dataset takes."""
    name = repr(dataset)
    told = name in _shown
    _shown.add(name)
    return told


def _native(
    loader: Loader, dataset: Any, prefetch_factor: int | None, device: str | None, buffers: int
) -> Callable[[], ElementTensors]:
    """Return a function that opens a queuecore dataset with the loader's arguments: native threads do all the work."""
    native = loader.settings.collates
    if native and loader.batch_size is not None:
        dataset = dataset.batch(loader.batch_size, loader.drop_last)
    if prefetch_factor:
        dataset = dataset.prefetch(prefetch_factor * loader.num_workers)
    dataset = dataset.with_options(
        Options(
            num_threads=loader.num_workers or None,
            stall_timeout=loader.timeout or None,
            deterministic=None if loader.in_order else False,
        )
    )
    if device is None and loader.pin_memory and native and torch.cuda.is_available():
        device = "cuda"
    if device is None:
        return functools.partial(_opened, ElementTensors, dataset)
    return functools.partial(_opened, DeviceElements, dataset.prefetch_to_device(device, buffers=buffers))


def _opened(kind: type[ElementTensors], dataset: Any) -> ElementTensors:
    return kind(iter(dataset))
