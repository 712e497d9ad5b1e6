"""The crew of an epoch over a folder of pictures: native threads, which need no call of the dataset."""

from __future__ import annotations

import collections
import itertools
from dataclasses import replace
from typing import Any

from queuecore._torch.base import Loader
from queuecore._torch.batches import Batching, WorkerCall, WorkerResult
from queuecore._torch.package import torch
from queuecore._torch.tensors import ElementTensors
from queuecore._torch.vision import PictureSet, Unsuited, picture_set
from queuecore.data._plan.chain import Chain, chain_of, dataset_of
from queuecore.data.files import WholeFileDataset
from queuecore.data.options import Options
from queuecore.errors import StallError

__all__ = ["NativeThreads", "native_pictures"]

_CLOSING = 1.0  # seconds to wait for threads at most

_data = torch.utils.data
# Samplers that neither the loop nor the samples can have an effect on while an epoch goes on.
_SAMPLERS = (
    _data.SequentialSampler,
    _data.RandomSampler,
    _data.SubsetRandomSampler,
    _data.WeightedRandomSampler,
    _data.distributed.DistributedSampler,
)


def native_pictures(loader: Loader) -> PictureSet | None:
    """Return a loader's dataset as pictures that native threads can make; `None` if it is no folder of pictures.

    Raises
    ------
    Unsuited
        If something of the dataset or of the loader needs Python.
    """
    pictures = picture_set(loader.dataset)
    if pictures is None:
        return None
    if loader.batch_size is None or type(loader.batch_sampler) is not _data.BatchSampler:
        raise Unsuited("the batches are not of one size")
    if type(loader.sampler) not in _SAMPLERS:
        raise Unsuited(f"the sampler is a {type(loader.sampler).__name__}")
    if not loader.settings.collates:
        raise Unsuited("there is a collate_fn")
    if loader.worker_init_fn is not None:
        raise Unsuited("there is a worker_init_fn")
    return pictures


class NativeThreads:
    """A crew that makes pictures natively; classes are numbers of the dataset's own.

    It has all calls of the epoch before it begins, since the threads read files ahead in their order.

    Parameters
    ----------
    loader : Loader
    pictures : PictureSet
    seed : int
        Of the epoch's random draws. A picture's draws also depend on its place in the epoch.
    """

    workers = ()

    def __init__(self, loader: Loader, pictures: PictureSet, seed: int) -> None:
        self._pictures, self._seed, self._timeout = pictures, seed, loader.timeout
        self._size: int = loader.batch_size
        self._pin = Batching.of(loader).pin
        self._options = Options(num_threads=loader.num_workers, stall_timeout=loader.timeout or None, on_hold="copy")
        self._prefetch: int = loader.prefetch_factor * loader.num_workers
        self._calls: collections.deque[WorkerCall] = collections.deque()
        self._samples: ElementTensors | None = None
        self._classes: collections.deque[list[int]] = collections.deque()

    def put(self, call: WorkerCall) -> None:
        self._calls.append(call)

    def end(self) -> None:
        """Do nothing: the threads begin when the first batch is asked for."""

    start = end

    def _open(self) -> ElementTensors:
        """Return the pictures of all calls from the next one on, up to one that is an error."""
        calls = list(itertools.takewhile(lambda call: call.error is None, self._calls))
        chosen = self._pictures.chosen([index for call in calls for index in call.index])
        files: Any = chain_of(WholeFileDataset([path for path, _ in chosen])).source
        source = replace(files, first_number=calls[0].number * self._size)
        labels = iter([label for _, label in chosen])
        self._classes = collections.deque(list(itertools.islice(labels, len(call.index))) for call in calls)
        pictures = dataset_of(Chain(source)).map(self._pictures.operation(self._seed))
        batches = pictures.batch(self._size).prefetch(self._prefetch).with_options(self._options)
        return ElementTensors(iter(batches))

    def get(self) -> WorkerResult:
        if not self._calls:
            raise StopIteration
        number, error, batch = self._calls[0].number, self._calls[0].error, None
        if error is None:
            try:
                batch = self._batch()
            except BaseException as failed:
                # The threads go on with the next picture, which may be one of this batch.
                self.close(_CLOSING)
                if isinstance(failed, StallError):
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from failed
                if not isinstance(failed, Exception):  # Ctrl-C: this batch is made again
                    raise
                error = failed
        self._calls.popleft()
        return WorkerResult(number, batch, error)

    def _batch(self) -> Any:
        if self._samples is None:
            self._samples = self._open()
        images: Any = next(self._samples)
        if len(images) < len(self._classes[0]):
            next(self._samples)  # the picture behind these can't be made: this raises its error
        batch = [images, torch.tensor(self._classes.popleft())]
        return batch if self._pin is None else self._pin(batch)

    def close(self, timeout: float | None) -> None:
        samples, self._samples = self._samples, None
        if samples is not None:
            samples.close(timeout)

    def stats(self) -> dict[str, int]:
        """Return the counters of the native iterator."""
        return {} if self._samples is None else dict(self._samples.stats())
