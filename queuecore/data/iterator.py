"""The iterator of a dataset: a native stream, with a place that can be saved."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from queuecore._core.pipeline import ShuffleCounter, Stream
from queuecore._quarantine import Quarantine, check_on_error
from queuecore.data import _state
from queuecore.data._iterators import IteratorBase
from queuecore.data._nodes import Node, Run, feeder_of, iterations, reserved, streams
from queuecore.data._ops import Permute, Shuffle
from queuecore.data.options import Options

if TYPE_CHECKING:
    from queuecore.data._device import Target
    from queuecore.data.dataset import Dataset

__all__ = ["Iterator", "Seeded"]


class Seeded(NamedTuple):
    """What an iterator is told that works for another one.

    Attributes
    ----------
    pairs : list of tuple of int
        Of each shuffle of its dataset, the seeds.
    bases : list of int
        And the number of its first pass.
    options : Options
        Hold where the dataset has none of its own.
    skips : Quarantine, optional
        Gets what is left out.
    budget : int
        Bytes of memory; 0: any.
    """

    pairs: list[tuple[int, int]]
    bases: list[int]
    options: Options
    skips: Quarantine | None
    budget: int = 0


class Iterator(Stream, IteratorBase):
    """Elements of a dataset, in its order. Made by ``iter(dataset)``.

    Every ``next()`` returns an array, or a dict of arrays if the records have fields. The arrays are NumPy views of
    memory that is used again once the last of them is gone: keep them as long as you like. Someone who keeps more than
    `Options.max_leases` batches gets copies from then on, and one `RuntimeWarning`; with ``on_hold="raise"``
    `SlotsExhaustedError`, after which it goes on once some are dropped.

    Notes
    -----
    Threads start with the first ``next()``, which waits, without the GIL, until an element is complete;
    Ctrl-C ends the wait, and nothing is lost: the next call goes on. At the end it raises `StopIteration`, then and
    ever after; `get_next` raises `OutOfRangeError`, and `get_next_as_optional` returns an empty `Optional`. After an
    error the iterator is closed: further calls raise `FailedPreconditionError`, whose ``__cause__`` is that error. Here
    tf.data goes on with the next element. So it is, too, if the system has no memory (`ResourceExhaustedError`,
    `MemoryError`) or no thread (`UnavailableError`) for it.

    One thread may use an iterator at a time; any may close it, and so may a signal handler, which may also use it in
    other ways while a call waits. A function of a dataset (of its ``map``, for example) can't use an iterator that it
    makes elements for: that raises `FailedPreconditionError`. Several iterators, of one dataset or of several, don't
    disturb each other. In a forked child, every use raises `ForkedPipelineError`; make a new iterator there.

    It is a context manager that closes itself. One that is dropped without that stops its threads as well, unless a
    function of its dataset refers to it: its threads keep what they run. The end of the program ends them.

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

    __slots__ = ("__weakref__", "_bases", "_dataset", "_own", "_run", "_seeds")

    _dataset: Dataset
    # The pairs of this stream, its own shuffles first and then those of its inputs. Those of the dataset may
    # change later, when a state brings others.
    _seeds: list[tuple[int, int]]
    _own: int
    # Of each shuffle of the inputs, the number of its first pass.
    _bases: list[int]
    _run: Run | None

    def __init__(
        self,
        dataset: Dataset,
        seeded: Seeded | None = None,
        target: Target | None = None,
        whole: Dataset | None = None,
    ) -> None:
        # With the steps that are done on a device, which are no less steps.
        self._dataset = whole or dataset
        shuffles = dataset._shuffles()
        own = self._own = sum(isinstance(op, Shuffle | Permute) for op in dataset._ops)
        source, options = dataset._source, dataset._options
        if seeded is None:
            self._bases = reserved(source, iterations(dataset)[own:]) if isinstance(source, Node) else []
            self._seeds = [shuffle.seeds.pair for shuffle in shuffles]
            counters = [shuffle.seeds.counter for shuffle in shuffles[:own]]
            skips = check_on_error(options.on_error or "raise", options.max_skips, options.quarantine)
        else:
            self._seeds = seeded.pairs
            counters = [_counter(base) for base in seeded.bases[:own]]
            self._bases = seeded.bases[own:]
            options = options.merged(seeded.options)
            skips = seeded.skips
        workers, helps = dataset._threads(options)
        leases = 4 if options.max_leases is None else options.max_leases
        budget = (options.memory_budget or 0 if seeded is None else seeded.budget) // streams(dataset)
        if seeded is not None:
            leases = _INNER_LEASES if budget == 0 else _FEW_LEASES
        self._run = None
        feeder = None
        if isinstance(source, Node):
            self._run = Run(source, options, skips, seeded is not None, budget)
            self._run.seed(self._seeds[own:], self._bases)
            weakref.finalize(self, self._run.end).atexit = False
            feeder = feeder_of(source, self._run)
        seeds = list(zip(self._seeds, counters, strict=False))
        super().__init__(
            source.files,
            **dataset._native(options),
            ops=dataset._native_ops(seeds),
            num_threads=workers,
            help=helps,
            prefetch=dataset._prefetch_elements(),
            max_leases=leases,
            on_hold_raise=options.on_hold == "raise" and not seeded,
            retries=options.retries or 0,
            stall_warn=-1 if seeded else _native_seconds(options.stall_warn, 60.0),
            stall_timeout=-1 if seeded else _native_seconds(options.stall_timeout, math.inf),
            skips=skips,
            feeder=feeder,
            scope=None if self._run is None else self._run.scope,
            inner=seeded is not None,
            memory_budget=budget,
            device=target,
        )

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as in `Dataset.element_spec`."""
        return self._dataset.element_spec

    @property
    def output_classes(self) -> Any:
        """The classes of an element, in its structure, as in `Dataset.output_classes`."""
        return self._dataset.output_classes

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
        self._check_scope()
        if self._run is not None:
            self._stop()
            self._run.end()
        super().close(timeout)

    def _stop(self) -> None:
        # Those that work for this one, too: its own thread may wait for them.
        super()._stop()
        if self._run is not None:
            self._run.stop()

    def stats(self) -> dict[str, int]:
        """Return counters of this iterator.

        Returns
        -------
        dict of str to int
            Among others ``elements`` (delivered), ``records``, ``bytes_read``, ``empty_files`` (files of no bytes),
            ``dropped_tails`` (cut last records left out because of ``tail="drop"``), ``dropped_records`` (complete
            records left out because an error cut a batch short under ``drop_remainder=True``, or because a shard's last
            group was not whole), ``copied_batches`` (elements given as copies because too many were held),
            ``helped_units`` (pieces of work done by the consumer), ``memory_bytes`` (of all buffers at this moment, as
            `Options.memory_budget` counts them), and what ``on_error="skip"`` left out: ``skipped`` (records),
            ``skipped_files`` and ``skipped_bytes`` (of files, as far as known).

        Notes
        -----
        Never blocks. Threads are at work, so the counters need not belong to the same moment.
        """
        made = super().stats()
        if self._run is not None:
            made["memory_bytes"] += self._run.memory_bytes()
        return made

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
        place = super().position()
        place["iterations"] += self._bases
        place["begun"] += [0] * len(self._bases)
        return _state.pack(dataset._describe(), dataset._names(), self._seeds, place)

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

        Waits until the threads of the place before have ended; Ctrl-C ends that wait, and closes the iterator. No
        record is read for it: the place is found by going through the order. A shuffle without a seed takes over the
        state's. Later iterators of this dataset begin with the pass after the state's: whole epochs go on as they would
        have.

        With ``on_error="skip"``, what was left out before the place may be read, counted and logged again where
        elements change streams (`zip`, `unbatch` and so on): how many they were shows only then.
        """
        self._check_scope()
        if self.closed:
            # Its end is a place like any other; closed or failed, it says so here.
            with contextlib.suppress(StopIteration):
                next(self)
        dataset = self._dataset
        shuffles = dataset._shuffles()
        mine = self._own
        own = [(pair, shuffle.seeds.seeded) for pair, shuffle in zip(self._seeds, shuffles, strict=True)]
        at = _state.unpack(state, dataset._describe(), dataset._names(), own)
        # Other seeds get a counter of their own: iterators that run on with the old ones must not move it.
        counters = [
            shuffle.seeds.counter if shuffle.seeds.pair == pair else ShuffleCounter()
            for shuffle, pair in zip(shuffles, at.seeds, strict=True)
        ]
        if self._run is not None:
            super()._stop()
            self._run.stop()
        native = [counter if shuffle.reshuffle else None for shuffle, counter in zip(shuffles, counters, strict=True)]
        super().restore(
            at.elements,
            at.iterations[:mine],
            at.files_known,
            at.files_digest,
            at.seeds[:mine],
            native[:mine],
            at.begun[:mine],
            at.start,
            at.missing,
        )
        self._seeds = at.seeds
        self._bases = at.iterations[mine:]
        if self._run is not None:
            self._run.seed(at.seeds[mine:], self._bases)
        needs = iterations(dataset)
        for index, (shuffle, counter) in enumerate(zip(shuffles, counters, strict=True)):
            shuffle.seeds.pair = at.seeds[index]
            shuffle.seeds.counter = counter
            # Those of inputs are counted as if they had run to their end.
            counter.next_iteration = at.iterations[index] + (at.begun[index] if index < mine else needs[index])

    # Else the compiled class's own comes first.
    __reduce__ = IteratorBase.__reduce__


# Of chunks that another stream makes batches of; more would not be used at once.
_INNER_LEASES = 16
_FEW_LEASES = 6


def _counter(base: int) -> ShuffleCounter:
    counter = ShuffleCounter()
    counter.next_iteration = base
    return counter


def _native_seconds(value: float | None, default: float) -> float:
    seconds = default if value is None else value
    return -1.0 if seconds > 1e9 else seconds
