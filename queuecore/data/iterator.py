"""The iterator of a dataset: it holds a native stream, which users don't see."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from queuecore._core.stream.stream import Held
from queuecore._elements.optional import Optional
from queuecore._io.names import Filename
from queuecore._observe.trace import Trace, program_trace
from queuecore.data._nodes.stream import ChainStream
from queuecore.data._plan.chain import Chain
from queuecore.data.iterators import IteratorBase
from queuecore.errors import QueueCoreError

if TYPE_CHECKING:
    from queuecore._device.target import Target

__all__ = ["Iterator", "left_after", "stream_of"]


def _spec_of(chain: Chain) -> Any:
    return chain.element_spec


class Iterator(Held, IteratorBase):
    """Elements of a dataset, in its order. Made by ``iter(dataset)``.

    Every ``next()`` returns an array, or a dict of arrays if the records have fields. The arrays are NumPy views of
    memory that is used again once the last of them is gone: keep them as long as you like. If you keep more than
    `Options.max_leases` batches, further ones are copies, and one `RuntimeWarning` says so, unless
    ``on_hold="copy"`` asks for that; with ``on_hold="raise"``, ``next()`` raises `SlotsExhaustedError` until some are
    dropped.

    Parameters
    ----------
    chain : Chain
        The steps of the dataset.
    target : Target, optional
        The device of the elements. Default: the host.
    whole : Chain, optional
        All steps, if some of them run on the device and `chain` has only the others.

    Notes
    -----
    Threads start with the first ``next()``, which waits, without the GIL, until an element is complete;
    Ctrl-C ends the wait, and nothing is lost: the next call goes on. At the end it raises `StopIteration`, then and
    ever after; `get_next` raises `OutOfRangeError`, and `get_next_as_optional` returns an empty `Optional`.

    The error of one element (of a function, a decoder, a parser, or a batch of elements that differ) comes in its
    place, behind all good elements before it, and takes that element away; the next call goes on behind it, as
    tf.data's does. A batch that the error cuts short comes short (tf.data drops it), and a new batch begins; with
    ``drop_remainder`` the short batch is dropped and counted. Windows do the same. A generator that raises is at its
    end. A shuffle draws before native maps in front of it are computed: their errors come in the places of their
    elements, and count for a `take` in between. After an error of the source (a file that can't be read, a damaged
    record) the iterator is closed: further calls raise `FailedPreconditionError`, whose ``__cause__`` is that error.
    The iterator is also closed if the system has no memory for its buffers (`ResourceExhaustedError`, `MemoryError`)
    or no thread (`UnavailableError`) for it.

    Any thread may call any method at any time. Threads that ask for elements take turns, and each element comes to one
    of them; which one gets the next is left to chance. `close` ends their waits, `load_state_dict` sends them all to
    its place, and `state_dict` and `stats` don't wait. A call that an exception cuts short (Ctrl-C, an exception of a
    signal handler, no memory for the result) has not happened: the same element comes again, or the iterator is closed
    and the next call says so. Signal handlers may use the iterator, too; if the call that they interrupt is beginning
    or changing the iterator's run, they can only call `close`, `state_dict` and `stats`.

    A function of a dataset (of its ``map``, for example) can't use an iterator that it makes elements for: that raises
    `FailedPreconditionError`. Several iterators, of one dataset or of several, don't disturb each other. In a forked
    child, every use raises `ForkedPipelineError`; make a new iterator there.

    It is a context manager that closes itself. An iterator that is dropped stops its threads as well, unless a function
    of its dataset refers to it: threads keep the functions that they run. The end of the program ends them.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("numbers.bin")
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
    """

    __slots__ = ("__weakref__",)

    _stream: ChainStream  # pyright: ignore[reportIncompatibleMethodOverride] - the native attribute, of this class

    def __init__(self, chain: Chain, target: Target | None = None, whole: Chain | None = None) -> None:
        stream = ChainStream(chain, None, target, whole)
        trace = program_trace()
        if trace is not None:
            stream.draw(trace)
        super().__init__(stream)

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as in `Dataset.element_spec`."""
        return self._stream.chain.element_spec

    def _optional(self) -> Optional:
        # Asked for when somebody wants it: some datasets make an element for it.
        return Optional(functools.partial(_spec_of, self._stream.chain))

    @property
    def output_classes(self) -> Any:
        """The classes of an element, in its structure, as in `Dataset.output_classes`."""
        return self._stream.chain.element_classes

    def __len__(self) -> int:
        """Return the number of elements that are left; `TypeError` where the dataset has no ``len()``.

        Those of the dataset without those that came, after `load_state_dict` also before the saved place. Elements that
        an error took away or that were left out are counted until the end is reached.
        """
        return 0 if self._stream.closed else left_after(self, self._stream.stats()["elements"])

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop the threads and give back files and memory. Closing twice is no error.

        Parameters
        ----------
        timeout : float or None, default 1.0
            The longest wait for the threads, in seconds; `None`: no limit. A thread that is still inside a system call
            after that goes on alone, and keeps the memory that it may write to.

        Notes
        -----
        Arrays that were handed out stay valid. `state_dict` and `stats` go on working; ``next()`` raises
        `FailedPreconditionError`. Waits without the GIL, also until a `cache` or `snapshot` that was being written has
        removed its files.
        """
        # Refused in a function that makes elements for this iterator: it would wait for itself.
        self._stream.check_scope()
        self._stream.close(timeout)

    def _stop(self) -> None:
        self._stream.stop()

    @property
    def goes_on(self) -> bool:
        """True if the last call raised the error of an element, which it took away: the next call goes on behind that.

        Any other error of a call means that the call has not happened, or that the iterator is closed.
        """
        return self._stream.goes_on

    @property
    def closed(self) -> bool:
        """True if no more elements come: it is closed, ended by an error, past its end, or in a forked child."""
        return self._stream.closed

    def stats(self) -> dict[str, int]:
        """Return counters of this iterator.

        Returns
        -------
        dict of str to int
            Among others ``elements`` (delivered), ``records`` and ``bytes_read`` (of all sources, wherever steps in
            Python stand in the chain, with what these have taken ahead), ``files_known`` (files that have been opened
            or looked at), ``empty_files`` (files of no bytes),
            ``dropped_tails`` (cut last records left out because of ``tail="drop"``), ``dropped_records`` (complete
            records left out because an error cut a batch short under ``drop_remainder=True``, or because a shard's last
            group was not whole), ``copied_batches`` (elements given as copies because too many were held),
            ``helped_units`` (pieces of work done by the consumer), ``memory_bytes`` (of all buffers at this moment, as
            `Options.memory_budget` counts them), ``io_requests`` (what threads of `Options.io` have read or opened),
            ``io_uring_requests`` (what of it the kernel has read, by io_uring), ``io_depth`` (how many of these are in
            flight at most now; 0: such threads haven't begun), and what ``on_error="skip"`` and ``ignore_errors`` left
            out: ``skipped`` (records), ``skipped_files`` and ``skipped_bytes`` (of files, as far as known).

        Notes
        -----
        Never blocks. Threads are at work, so the counters need not belong to the same moment.
        """
        return self._stream.stats()

    def stages(self) -> list[dict[str, Any]]:
        """Return where the time goes: of native threads, nodes that run in Python, and the consumer.

        Returns
        -------
        list of dict
            First the consumer's row: ``input`` is how long it has waited for elements, ``busy`` how long it helped the
            native threads meanwhile. ``ready`` says how often, of a sample of the batches that it took, so many more
            were ready: none, 1, 2, up to 4, up to 8, more; ``skipped``: how many elements were left out, as of `stats`.

            Then a row for the native threads of each stream, and one for each kind of work that they did; a row for
            each source in Python; and the rows of its inputs, with the next higher ``level``. Streams over datasets
            that a function made (of ``flat_map`` or ``interleave``) count together if they are of the same stages.

            Each row has ``stage``, ``work`` (the kind, or an empty string for all), ``where`` (native, python,
            consumer), the number of ``threads`` (in Python the most at once), and the seconds that these spent, added
            up: ``busy``; ``input``: nothing was there to work on; ``output``: there was no room for more, or no more
            was wanted. ``units`` are the pieces of work that native threads did, ``records`` the rows that were taken
            from it (what it gets as a batch is one row), ``bytes`` those that were read from files.

            Each native step of the maps has a row, whose ``work`` is its name. One in 16 units of a thread is timed
            step by step; ``busy`` is an estimate by these, and ``units`` are the step's calls in them. A ``map`` in
            several threads of Python has a row for these, whose ``work`` is ``functions``, behind that of the thread
            which takes the results.

        Notes
        -----
        Never blocks. Threads are at work, so the numbers need not belong to the same moment. Native threads read the
        processor's own clock, whose rate is estimated anew at each call: the same times may differ by some
        millionths. A row's seconds count from the first ``next()``; seconds of a run that is over at a
        `load_state_dict` stay in. Python's other waits, for a lock or a disk, count as ``busy``.

        Examples
        --------
        >>> from queuecore.data import Dataset
        >>> with iter(Dataset.range(1000).map(lambda x: 2 * x).batch(100)) as it:
        ...     total = sum(int(batch.sum()) for batch in it)
        ...     rows = it.stages()
        >>> total, rows[0]["stage"], rows[0]["where"]
        (999000, 'consumer', 'consumer')
        """
        return self._stream.stages()

    def trace(self, path: Filename, *, mask: bool = False) -> Trace:
        """Draw what the native threads do from now on, as a file for Perfetto (ui.perfetto.dev) or Chrome.

        Parameters
        ----------
        path : str, bytes or os.PathLike
            The file, in Chrome's Trace Event Format (JSON). One that is there already is replaced.
        mask : bool, default False
            Name files by their numbers alone, for traces that others may see.

        Returns
        -------
        Trace
            A context manager. The file is complete once the trace or the iterator is closed, or at the end of the
            program; soon after the last element, or the iterator itself, is gone.

        Raises
        ------
        FailedPreconditionError
            If a trace of this iterator is being written.
        NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
            If the system refuses the file, or a thread for it. A later write that fails ends the trace, and `close`,
            that of the iterator too, raises the error.

        Notes
        -----
        Each native thread of the iterator has a row, and so have the consumer and the copies to a device; the rows of
        streams over inputs are grouped by their stages, with the next higher level, and streams that follow one another
        share rows. A slice is a unit of work, or a wait. Flows lead from a block that was read from a file, where
        records have no known places, to the units that make rows of it, from these to the batch that the consumer
        takes, and to its copy to the device. A counter says how many batches were ready when one was taken.

        If the elements go to a device, and NVTX's library (``libnvToolsExt.so.1``) is found, the threads have NVTX
        ranges of the same names too, for NVIDIA's profilers.

        Nodes in Python have no rows: see `stages` for them. The threads note at most 4,096 units and waits each until
        the file's thread, ``qc-trace``, has written them; more are dropped, and counted in the last event, ``events
        dropped``. The trace of a run costs some instructions for each unit, and the GIL for the file's writing.

        With the environment's ``QUEUECORE_TRACE=file.json`` all iterators of a program are drawn in that file
        (``file.PID.json`` in further processes), without file names if ``QUEUECORE_TRACE_MASK=1``. An iterator with a
        trace of its own leaves it.

        Examples
        --------
        >>> import json
        >>> from queuecore.data import Dataset
        >>> with iter(Dataset.range(1000).batch(100)) as it, it.trace("trace.json"):
        ...     batches = sum(1 for _ in it)
        >>> with open("trace.json") as file:
        ...     events = json.load(file)
        >>> sum(event["name"].startswith("batch ") for event in events if event["ph"] == "X")
        10
        """
        return self._stream.traced(path, mask)

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element delivered.

        Returns
        -------
        dict
            Only strings, ints, lists and dicts: it survives JSON. Its size depends neither on the shuffle's buffer nor,
            beyond 64, on the number of files; it grows with the errors of elements that there were, with the passes
            that had more or fewer elements than the one before, and, where order isn't kept, by the numbers of elements
            that were on their way. It is a copy.

        Raises
        ------
        ForkedPipelineError
            In a forked child.
        FailedPreconditionError
            Behind a failed read, or another error that ends the iterator, if it has changed the order of what came
            before it: in a shuffle, which gives up to ``buffer_size`` last elements then; and in a batch of a
            permutation. Go on from a state that was saved before.
        SourceChangedError, OSError
            With ``Options(identity="content")`` alone: if a file that was read has changed since, or can't be read now.

        Notes
        -----
        The state knows the files that the place depends on: by the size and the modification time that each had when
        it was opened, or by its bytes (`Options.identity`). If the dataset is made of others, the state knows all files
        that these name beforehand, with the size and time at the first call of this method. It doesn't know the files
        that a function names, as in `interleave`.

        Works at any time: before the first element, after the last, after an error and after `close`. Elements that are
        made already but not delivered yet don't count. After the error of an element the place is behind that element.
        Where order isn't kept, the place names the elements that have come out of order: so each comes exactly once,
        though in another order. Seeds that were drawn because none was given are in it.

        The error of an element that has come does not come again, and neither does the element. An error that has cut
        the last batch short, but has not come yet, may come again or not: if not, as after a failed read, the next
        batch begins with the element that failed. Where Python makes batches of objects that a shuffle, `take`, `skip`
        or `shard` gives, an error that has come and doesn't come again would change them: going on from the state then
        raises `ResumeMismatchError`. `filter`, `flat_map`, `interleave` and generators make the elements before the
        place again: an element whose error has come must be one element there.
        """
        return self._stream.state_dict()

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
            message names the difference. The iterator stays where it is. By what files are compared, the state says:
            see `Options.identity` and `state_dict`.
        InvalidArgumentError
            If it is no dict.
        FailedPreconditionError
            If the iterator is closed.

        Notes
        -----
        With another batch size, index or number of shards, the state stands for the place at which all shards have
        given as many elements: elements before it in the whole order don't come again, on any of the shards,
        and all others do. It must be a whole number of elements of the dataset at hand, or it is a
        `ResumeMismatchError`.

        Waits until the threads of the place before have ended; Ctrl-C ends that wait, and closes the iterator. The
        place is found by going through the order, without reading a record, wherever the order alone decides which
        elements come. Behind `filter`, `take_while`, `scan`, `ignore_errors` and `from_generator` the elements of the
        pass before the place are made again, and passed over. A shuffle without a seed takes over the state's. Later
        iterators of this dataset begin with the pass after the state's: whole epochs go on as they would have.

        With ``on_error="skip"``, what was left out before the place may be read, counted and logged again where
        elements change streams (`zip`, `unbatch` and so on): how many they were shows only then.
        """
        self._stream.load_state_dict(state)

    # Else the compiled class's own comes first.
    __reduce__ = IteratorBase.__reduce__


def left_after(iterator: Iterator, delivered: int) -> int:
    """Return the number of elements of an iterator that are left after so many."""
    try:
        total = iterator._stream.chain.cardinality()
    except QueueCoreError as error:  # list() asks for the length first, and is to get the elements before it
        raise TypeError(f"the number of elements can't be known: {error}") from error
    if total < 0:
        raise TypeError("the number of elements is endless or unknown, so there is no len()")
    return max(total - delivered, 0)


def stream_of(iterator: Iterator) -> ChainStream:
    """Return the native stream of an iterator."""
    return iterator._stream
