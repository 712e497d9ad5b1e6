"""The iterator of a dataset: a native stream, with a place that can be saved."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from queuecore._core.pipeline import ShuffleCounter, Stream
from queuecore._quarantine import check_on_error
from queuecore.data import _state

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Iterator"]


class Iterator(Stream):
    """Elements of a dataset, in its order. Made by ``iter(dataset)``.

    Every ``next()`` returns an array, or a dict of arrays if the records have fields. The arrays are NumPy views of
    memory that is used again once the last of them is gone: keep them as long as you like. Someone who keeps more than
    `Options.max_leases` batches gets copies from then on, and one `RuntimeWarning`; with ``on_hold="raise"``
    `SlotsExhaustedError`, after which it goes on once some are dropped.

    Notes
    -----
    Threads start with the first ``next()``, which waits, without the GIL, until an element is complete;
    Ctrl-C ends the wait. At the end it raises `StopIteration`, then and ever after. After an error the iterator is
    closed: further calls raise `FailedPreconditionError`, whose ``__cause__`` is that error. Here tf.data goes on with
    the next element.

    One thread may use an iterator at a time. Several iterators, of one dataset or of several, don't disturb each
    other. In a forked child, every use raises `ForkedPipelineError`; make a new iterator there.

    It is a context manager that closes itself. One that is dropped without that stops its threads as well.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "numbers.bin"
    >>> _ = file.write_bytes(bytes(range(10)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").batch(4)
    >>> with iter(ds) as it:
    ...     print(next(it))
    ...     state = it.state_dict()
    [0 1 2 3]
    >>> with iter(ds) as it:
    ...     it.load_state_dict(state)
    ...     print(next(it))
    [4 5 6 7]
    >>> folder.cleanup()
    """

    __slots__ = ("__weakref__", "_dataset", "_seeds")

    _dataset: Dataset
    # The pairs of this stream: those of the dataset may change later, when a state brings others.
    _seeds: list[tuple[int, int]]

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._seeds = [shuffle.seeds.pair for shuffle in dataset._shuffles()]
        source, options = dataset._source, dataset._options
        workers, helps = dataset._threads()
        super().__init__(
            source.files,
            **source.limited(options.max_record_bytes).native(dataset._stages()),
            ops=[op for op in (step.native() for step in dataset._ops) if op is not None],
            num_threads=workers,
            help=helps,
            prefetch=dataset._prefetch_elements(),
            max_leases=4 if options.max_leases is None else options.max_leases,
            on_hold_raise=options.on_hold == "raise",
            retries=options.retries or 0,
            stall_warn=_native_seconds(options.stall_warn, 60.0),
            stall_timeout=_native_seconds(options.stall_timeout, math.inf),
            skips=check_on_error(options.on_error or "raise", options.max_skips, options.quarantine),
        )

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as in `Dataset.element_spec`."""
        return self._dataset.element_spec

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop the threads and give back files and memory. Closing twice is no error.

        Parameters
        ----------
        timeout : float or None, default 1.0
            How long to wait for the threads, in seconds; `None`: as long as it takes. A thread that is still inside a
            system call then is left to itself, with the memory it may write to.

        Notes
        -----
        Arrays that were handed out stay valid. `state_dict` and `stats` go on working; ``next()`` raises
        `FailedPreconditionError`. Waits without the GIL.
        """
        super().close(timeout)

    def stats(self) -> dict[str, int]:
        """Return counters of this iterator.

        Returns
        -------
        dict of str to int
            Among others ``elements`` (delivered), ``records``, ``bytes_read``, ``empty_files`` (files of no bytes),
            ``dropped_tails`` (cut last records left out because of ``tail="drop"``), ``dropped_records`` (complete
            records left out because an error cut a batch short under ``drop_remainder=True``, or because a shard's last
            group was not whole), ``copied_batches`` (elements given as copies because too many were held),
            ``helped_units`` (pieces of work done by the consumer), and what ``on_error="skip"`` left out: ``skipped``
            (records), ``skipped_files`` and ``skipped_bytes`` (of files, as far as known).

        Notes
        -----
        Never blocks. Threads are at work, so the counters need not belong to the same moment.
        """
        return super().stats()

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element delivered.

        Returns
        -------
        dict
            Only strings, ints, lists and dicts: it survives JSON. Its size depends neither on the number of files nor
            on the shuffle's buffer. It is a copy.

        Raises
        ------
        ForkedPipelineError
            In a forked child.

        Notes
        -----
        Works at any time: before the first element, after the last, after an error and after `close`. Elements that are
        made already but not delivered yet don't count. Seeds that were drawn because none was given are in it.
        """
        dataset = self._dataset
        return _state.pack(dataset._describe(), dataset._names(), self._seeds, super().position())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place that `state_dict` returned: the next element is the one that would have come next there.

        Parameters
        ----------
        state : mapping
            From an iterator of the same files and the same steps, in this process or another. The number of threads,
            the prefetching and all `Options` may differ, and so may the sizes of batches and shards which only maps and
            other batches and shards follow.

        Raises
        ------
        ResumeMismatchError
            If the state is of other steps, seeds or files, or of files that have changed since, or is damaged; the
            message names the difference. The iterator stays where it is.
        InvalidArgumentError
            If it is no dict.
        FailedPreconditionError
            If the iterator is closed.

        Notes
        -----
        With another batch size, index or number of shards, the state stands for the place at which all shards have
        given as many elements: those that came before it in the whole order don't come again, on any of the shards,
        and all others do. It must be a whole number of elements of the dataset at hand, or it is a
        `ResumeMismatchError`.

        No record is read for it: the place is found by going through the order. A shuffle without a seed takes over the
        state's. Later iterators of this dataset begin with the pass after the state's: whole epochs go on as they would
        have.
        """
        if self.closed:
            # Its end is a place like any other; closed or failed, it says so here.
            with contextlib.suppress(StopIteration):
                next(self)
        dataset = self._dataset
        shuffles = dataset._shuffles()
        own = [(pair, shuffle.seeds.seeded) for pair, shuffle in zip(self._seeds, shuffles, strict=True)]
        at = _state.unpack(state, dataset._describe(), dataset._names(), own)
        # Other seeds get a counter of their own: iterators that run on with the old ones must not move it.
        counters = [
            shuffle.seeds.counter if shuffle.seeds.pair == pair else ShuffleCounter()
            for shuffle, pair in zip(shuffles, at.seeds, strict=True)
        ]
        super().restore(
            at.elements,
            at.iterations,
            at.files_known,
            at.files_digest,
            at.seeds,
            [counter if shuffle.reshuffle else None for shuffle, counter in zip(shuffles, counters, strict=True)],
            at.begun,
            at.start,
            at.missing,
        )
        self._seeds = at.seeds
        for index, (shuffle, counter) in enumerate(zip(shuffles, counters, strict=True)):
            shuffle.seeds.pair = at.seeds[index]
            shuffle.seeds.counter = counter
            counter.next_iteration = at.iterations[index] + at.begun[index]

    def __enter__(self) -> Self:
        """Return this iterator."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: threads and open files can't be."""
        raise TypeError("an iterator can't be pickled or copied: pickle its dataset and its state_dict() instead")


def _native_seconds(value: float | None, default: float) -> float:
    seconds = default if value is None else value
    return -1.0 if seconds > 1e9 else seconds
