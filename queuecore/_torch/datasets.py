"""A dataset of queuecore's for PyTorch's own loaders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, SupportsIndex

from queuecore._torch.package import torch
from queuecore._torch.tensors import ElementTensors
from queuecore.data._plan.chain import chain_of
from queuecore.data.dataset import Dataset
from queuecore.errors import DtypeError, FailedPreconditionError, InvalidArgumentError

__all__ = ["IterableDataset"]

# The bound of pass numbers that are drawn, not counted: small enough to be multiplied twice by an endless repeat.
_MOST_EPOCHS = 1 << 20


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """A dataset for ``torch.utils.data.DataLoader``: the elements of a `queuecore.data.Dataset`, as tensors.

    Parameters
    ----------
    dataset : queuecore.data.Dataset
        A dataset, batched or not. If it is batched, give the loader ``batch_size=None``: batches are then made
        natively, and are not copied.

    Raises
    ------
    DtypeError
        If it is no such dataset.

    Notes
    -----
    **Worker processes.** None are needed: native threads read and decode ahead of the loop, with ``num_workers=0`` too.
    With ``num_workers=n``, worker i gets ``dataset.shard(n, i)``: every n-th element of the dataset (every n-th batch,
    if it is batched). As the loader asks its workers in turn, batches come in the order they have without
    workers. It makes no difference whether workers are forked or spawned: each opens the files itself. Every worker
    does all steps before the shard, but reads no records of other workers if records have known places.
    So if there is a function in Python, let workers divide its input: in a subclass whose `shard` returns, for example,
    ``files.shard(num_shards, index).map(function).batch(32)``.

    **Epochs.** In one process, each iteration is the next pass of a `shuffle`, as always. Worker processes that are
    started for each epoch can't count epochs: call `set_epoch` to get the same orders as without workers. Without it,
    the pass is drawn from the loader's seed, so that epochs differ, and a loader with a seeded ``generator`` repeats
    them.

    **Ranks.** This class doesn't ask ``torch.distributed``. To divide data among ranks, give it a shard:
    ``ds.shard(uneven="drop")`` goes by ``RANK`` and ``WORLD_SIZE``, ``ds.shard(dist.get_world_size(),
    dist.get_rank(), uneven="drop")`` by the process group. Workers then divide that shard.

    **State.** `state_dict` is the place after the last element that the newest iterator gave; `load_state_dict` sets
    the place of the next iterator. So ``torchdata``'s ``StatefulDataLoader`` saves and restores it, in each worker.

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
        self._worker_seed: int | None = None  # of the worker for which the passes were set last
        self._elements: ElementTensors | None = None
        self._begun = True  # False: `_elements` was made for its state, and is the next iterator
        self._state: tuple[int, Mapping[str, Any]] | None = None  # id of the process that loaded it, and the state

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that go to a worker process: all but the iterator."""
        return self.__dict__ | {"_elements": None, "_begun": True}

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return the dataset of a worker process: by default, ``dataset.shard(num_shards, index)``.

        Parameters
        ----------
        num_shards : int
            The number of workers.
        index : int
            The number of this worker, from 0.

        Returns
        -------
        Dataset
        """
        return self.dataset.shard(num_shards, index)

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Set the number of the pass over the data that the next iteration is; later ones count on from it.

        Parameters
        ----------
        epoch : int
            The number, from 0. Workers that run already (``persistent_workers``) don't get it, and count by themselves.
        """
        self._epoch = epoch.__index__()
        if self._epoch < 0:
            raise InvalidArgumentError(f"an epoch is a number from 0 on, not {epoch}")
        count_from(self.dataset, self._epoch)

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
                count_from(dataset, drawn if self._epoch is None else self._epoch)
        elements = self._elements
        if self._begun or elements is None or info is not None:
            elements = ElementTensors(iter(dataset))
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
            If the number is unknown, or there is no end.
        """
        return len(self.dataset)

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element of the newest iterator; see `queuecore.data.Iterator.state_dict`."""
        if self._state is not None:
            return dict(self._state[1])
        if self._elements is None:
            self._elements = ElementTensors(iter(self.dataset))
            self._begun = False
        state: dict[str, Any] = self._elements.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration begin at a place; see `queuecore.data.Iterator.load_state_dict`.

        Parameters
        ----------
        state : mapping
            The state that `state_dict` returned. It is checked when the iteration begins.
        """
        self._state = os.getpid(), state


def count_from(dataset: Dataset, epoch: int) -> None:
    chain = chain_of(dataset)
    for shuffle, passes in zip(chain.shuffles, chain.iterations(), strict=True):
        shuffle.seeds.counter.next_iteration = epoch * passes
