"""Datasets: descriptions of a stream of elements. Making one reads nothing; iterating over it does the work."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex

from queuecore._compression import encoding_number
from queuecore._core.pipeline import ShuffleCounter
from queuecore._core.sources import FileList
from queuecore._ops_calls import is_native
from queuecore._record import compile_bytes, compile_record
from queuecore._stages import BYTES, Component, Stage
from queuecore._trace import Untraced, trace
from queuecore.data import _buckets, _padded
from queuecore.data._args import check_bool, check_int, check_optional_count
from queuecore.data._blocks import BlockSource, block_source
from queuecore.data._explain import lines_of, source_label, step_labels
from queuecore.data._nodes import Node
from queuecore.data._ops import Batch, Count, Map, Op, Prefetch, Repeat, Shuffle, Skip, Take
from queuecore.data._source import Filename, FixedLengthSource, Unknown, expand_filenames
from queuecore.data.iterator import Iterator
from queuecore.data.options import AUTOTUNE, Options, check_threads
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.ops import csv_columns, csv_format, record_stage

__all__ = [
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "CsvDataset",
    "Dataset",
    "FixedLengthRecordDataset",
    "TFRecordDataset",
    "TextLineDataset",
    "WholeFileDataset",
]

INFINITE_CARDINALITY = -1
"""What `Dataset.cardinality` returns for an endless dataset."""

UNKNOWN_CARDINALITY = -2
"""What `Dataset.cardinality` returns where only reading the files would tell."""

_DEFAULT_MOST_THREADS = 8
# Far above any file, and low enough that sums of a few of these fit an int64.
_MOST_BYTES = 2**56
# The native core numbers the places of a shuffle's window by 32 bits, and keeps a batch's rows below this.
_MOST_SHUFFLED = 2**31 - 1
_MOST_ROWS = 2**40


class Dataset:
    """A stream of elements: a source and the steps after it. Immutable; abstract: make one of its subclasses.

    Every method returns a new dataset and leaves this one as it is. A dataset can be iterated over any number of
    times, also at the same time, and pickled.

    Notes
    -----
    Names, defaults and order are those of ``tf.data``. The order depends on the steps, the seeds and the
    files alone, never on the number of threads.

    A shuffle with ``reshuffle_each_iteration`` counts its passes, over all iterators of the dataset: that is how every
    epoch gets an order of its own. A pickled copy starts counting anew.
    """

    _source: FixedLengthSource | BlockSource | Node
    _ops: tuple[Op, ...] = ()
    _options: Options = Options()

    def __init__(self) -> None:
        raise TypeError("Dataset is abstract: use FixedLengthRecordDataset, for example")

    # -- steps ---------------------------------------------------------------------------------------------------------

    def repeat(self, count: SupportsIndex | None = None) -> Dataset:
        """Go over the elements several times.

        Parameters
        ----------
        count : int, optional
            How often; 0 gives an empty dataset. `None` (the default) or -1: endlessly.

        Returns
        -------
        Dataset
            An endless repeat of no elements has none, and ends.

        Raises
        ------
        InvalidArgumentError
            If `count` is less than -1 or no integer.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "numbers.bin"
        >>> _ = file.write_bytes(bytes(range(3)))
        >>> [int(x) for x in qc.data.FixedLengthRecordDataset(file, record="u1").repeat(2)]
        [0, 1, 2, 0, 1, 2]
        >>> folder.cleanup()
        """
        return self._with(Repeat(check_optional_count(count, "count")))

    def take(self, count: SupportsIndex) -> Dataset:
        """Keep the first elements.

        Parameters
        ----------
        count : int
            How many; -1: all. More than there are is no error.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `count` is less than -1 or no integer.
        """
        return self._with(Take(check_int(count, "count", -1)))

    def skip(self, count: SupportsIndex) -> Dataset:
        """Leave out the first elements.

        Parameters
        ----------
        count : int
            How many; -1: all, so that nothing is left. More than there are is no error.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `count` is less than -1 or no integer.

        Notes
        -----
        What is left out isn't read, if nothing but counting is needed to find its end.
        """
        return self._with(Skip(check_int(count, "count", -1)))

    def batch(self, batch_size: SupportsIndex, drop_remainder: bool = False) -> Dataset:
        """Stack elements that follow each other.

        Parameters
        ----------
        batch_size : int
            How many make a batch, at least 1.
        drop_remainder : bool, default False
            Leave out a last batch that isn't full; else it is delivered with what there is.

        Returns
        -------
        Dataset
            Its arrays have one dimension more, in front.

        Raises
        ------
        InvalidArgumentError
            If `batch_size` is less than 1 or no integer.

        Notes
        -----
        An error that comes in the middle of a batch delivers what is good before it as a shorter batch,
        then raises. With `drop_remainder` that batch is left out, and counted in ``stats()["dropped_records"]``.
        tf.data discards it in both cases.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "numbers.bin"
        >>> _ = file.write_bytes(bytes(range(5)))
        >>> for batch in qc.data.FixedLengthRecordDataset(file, record="u1").batch(2):
        ...     print(batch)
        [0 1]
        [2 3]
        [4]
        >>> folder.cleanup()
        """
        size, drop = check_int(batch_size, "batch_size", 1), check_bool(drop_remainder, "drop_remainder")
        if self._shaped() is not None:
            return self._shape(*_padded.stacked(self, size, drop))
        rows = math.prod(op.batch_size for op in self._ops if isinstance(op, Batch)) * size
        if rows > _MOST_ROWS:
            raise InvalidArgumentError(f"a batch of {rows} records is more than the most possible, {_MOST_ROWS}")
        return self._with(Batch(size, drop))

    def padded_batch(
        self,
        batch_size: SupportsIndex,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
    ) -> Dataset:
        r"""Stack elements that follow each other, which may differ in shape: the smaller ones are padded at their ends.

        Parameters
        ----------
        batch_size : int
            How many make a batch, at least 1.
        padded_shapes : nest of tuple of int or None, optional
            In the structure of an element, the shape of each component in the batch. `None` (or -1) in it: the longest
            of the batch. An int is a shape of one dimension. `None` for a component, or for all: its own shape, in
            which each unknown dimension becomes the longest of the batch.
        padding_values : nest of scalars, optional
            What to pad with: in the structure of an element, or one scalar for all. Of the component's dtype: a NumPy
            scalar must have that dtype, a Python number must fit. Default (`None`): 0, `False` or ``b""``.
        drop_remainder : bool, default False
            Leave out a last batch that isn't full.

        Returns
        -------
        Dataset
            Its arrays have one dimension more, in front. Strings come as in `batch`, as a `Ragged`: elements that are
            arrays of strings as one of equally long rows.

        Raises
        ------
        InvalidArgumentError
            If `padded_shapes` or `padding_values` doesn't fit the structure, or a shape is smaller than that of the
            component; if nobody knows how many dimensions elements have, and `padded_shapes` doesn't say it.
        DtypeError
            If a padding value has another dtype.

        Notes
        -----
        An element that is longer than `padded_shapes` allows is a `DataLossError` in its place, after a short batch of
        those before it; ``on_error="skip"`` leaves it out.

        Runs in the native threads, without the GIL, when a batch is complete. Elements that are batches already, or
        Python objects, are padded in the consumer's thread.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "words.txt"
        >>> _ = file.write_bytes(b"to\nbe or\nnot\n")
        >>> letters = qc.data.TextLineDataset(file).map(qc.ops.decode_raw(out_type="u1"))
        >>> for batch in letters.padded_batch(2, padding_values=32):
        ...     print([bytes(row) for row in batch])
        [b'to   ', b'be or']
        [b'not']
        >>> folder.cleanup()
        """
        size, drop = check_int(batch_size, "batch_size", 1), check_bool(drop_remainder, "drop_remainder")
        return self._shape(*_padded.padded(self, size, drop, padded_shapes, padding_values))

    def dense_to_ragged_batch(self, batch_size: SupportsIndex, drop_remainder: bool = False) -> Dataset:
        r"""Stack elements that follow each other, which may differ in their first dimension.

        Parameters
        ----------
        batch_size : int
            How many make a batch, at least 1.
        drop_remainder : bool, default False
            Leave out a last batch that isn't full.

        Returns
        -------
        Dataset
            A component whose first dimension isn't known beforehand comes as a `Ragged` of rows; others as in `batch`.

        Raises
        ------
        InvalidArgumentError
            If another dimension isn't known beforehand.

        Notes
        -----
        Runs in the native threads, without the GIL; the rows are views.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "words.txt"
        >>> _ = file.write_bytes(b"to\nbe\n!\n")
        >>> letters = qc.data.TextLineDataset(file).map(qc.ops.decode_raw(out_type="u1"))
        >>> next(iter(letters.dense_to_ragged_batch(3))).to_list()
        [[116, 111], [98, 101], [33]]
        >>> folder.cleanup()
        """
        size, drop = check_int(batch_size, "batch_size", 1), check_bool(drop_remainder, "drop_remainder")
        return self._shape(*_padded.dense_to_ragged(self, size, drop))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[SupportsIndex],
        bucket_batch_sizes: Sequence[SupportsIndex],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
    ) -> Dataset:
        r"""Stack elements of about the same length, so that little is padded.

        Parameters
        ----------
        element_length_func : callable
            Returns the length of an element, an integer. The parts of a tuple are arguments of their own.
        bucket_boundaries : sequence of int, rising
            Bucket i takes the lengths from boundary i - 1 up to, but not including, boundary i.
        bucket_batch_sizes : sequence of int
            Of each bucket, how many elements make a batch: one more than there are boundaries.
        padded_shapes, padding_values : optional
            As in `padded_batch`.
        pad_to_bucket_boundary : bool, default False
            Make unknown dimensions one less than the bucket's upper boundary, and not the longest of the batch.
        no_padding : bool, default False
            Stack elements as they are. All of a batch must have the same shape.
        drop_remainder : bool, default False
            Leave out the batches that aren't full at the end.

        Returns
        -------
        Dataset
            A batch comes as soon as a bucket has enough elements; at the end what is left in the buckets, in their
            order.

        Raises
        ------
        InvalidArgumentError
            If the boundaries don't rise, the numbers of boundaries and sizes don't match, or the arguments for padding
            don't fit the elements.

        Notes
        -----
        The function is called in Python, in a thread of its own, and so are batches stacked; what comes before runs in
        the native threads. What it raises is a `PipelineError` in its place, after the batches of what came before; an
        element that is longer than `padded_shapes` allows is a `DataLossError`, with `pad_to_bucket_boundary` one that
        reaches the last boundary an `InvalidArgumentError`. ``on_error="skip"`` leaves such elements out.

        A saved place is found again by going through the lengths of the elements before it.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "words.txt"
        >>> _ = file.write_bytes(b"to\nquestion\nbe\nor\nsuffer\nnot\n")
        >>> letters = qc.data.TextLineDataset(file).map(qc.ops.decode_raw(out_type="u1"))
        >>> for batch in letters.bucket_by_sequence_length(len, [4], [3, 2], padding_values=32):
        ...     print([bytes(row) for row in batch])
        [b'to', b'be', b'or']
        [b'question', b'suffer  ']
        [b'not']
        >>> folder.cleanup()
        """
        return _of_node(
            _buckets.buckets(
                self,
                element_length_func,
                bucket_boundaries,
                bucket_batch_sizes,
                padded_shapes,
                padding_values,
                pad_to_bucket_boundary,
                no_padding,
                drop_remainder,
            )
        )

    def shuffle(
        self,
        buffer_size: SupportsIndex,
        seed: SupportsIndex | None = None,
        reshuffle_each_iteration: bool | None = True,
    ) -> Dataset:
        """Draw elements at random from a window that moves over them.

        Parameters
        ----------
        buffer_size : int
            Size of the window in elements, 1 to 2**31 - 1; 1 keeps the order. An element is delivered at most
            ``buffer_size - 1`` places early, and may be delivered arbitrarily late.
        seed : int, optional
            Together with the graph-level seed (`queuecore.set_random_seed`) it decides the order. With no seed at all
            one is drawn from the operating system, now; ``state_dict()`` holds it.
        reshuffle_each_iteration : bool, default True
            Whether every pass has an order of its own. A rebuilt dataset goes through the same orders again.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `buffer_size` is out of its range, or an argument isn't of its type.

        Notes
        -----
        The same seeds give TensorFlow's own order, bit for bit. ``shuffle`` before ``repeat`` keeps epochs
        apart; after it, they blend. The order is drawn on indices: a large window costs neither a large buffer nor a
        late first element if the records are large.

        Where the source ends in an error, what is in the window is delivered first.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "numbers.bin"
        >>> _ = file.write_bytes(bytes(range(8)))
        >>> qc.set_random_seed(1)
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").shuffle(4, seed=5)
        >>> [int(x) for x in ds]
        [1, 0, 3, 6, 5, 4, 2, 7]
        >>> [int(x) for x in ds]
        [0, 4, 3, 5, 6, 1, 7, 2]
        >>> qc.set_random_seed(None)
        >>> folder.cleanup()
        """
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return self._with(
            Shuffle.make(
                check_int(buffer_size, "buffer_size", 1, _MOST_SHUFFLED),
                seed,
                check_bool(reshuffle, "reshuffle_each_iteration"),
            )
        )

    def prefetch(self, buffer_size: SupportsIndex) -> Dataset:
        """Make elements ahead of the consumer.

        Parameters
        ----------
        buffer_size : int
            How many elements; `AUTOTUNE` (-1): the library's choice; 0: no wish.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `buffer_size` is less than -1 or no integer.

        Notes
        -----
        Elements are always made ahead, by native threads, without this step too; it only says how far. It never changes
        what comes, nor in which order. Of several, the one that asks for most memory counts.
        """
        return self._with(Prefetch(check_int(buffer_size, "buffer_size", AUTOTUNE)))

    def with_options(self, options: Options) -> Dataset:
        """Set how the dataset runs.

        Parameters
        ----------
        options : Options
            What it sets replaces what was set before; what it leaves at `None` stays.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `options` is no `Options`.
        """
        if not isinstance(options, Options):
            raise InvalidArgumentError(f"options must be a queuecore.data.Options, not {options!r}")
        return _Steps(self._source, self._ops, self._options.merged(options))

    def map(self, map_func: Stage | Callable[..., Any]) -> Dataset:
        r"""Make something else of each element.

        Parameters
        ----------
        map_func : callable or Stage
            A function of an element; the parts of a tuple are arguments of their own. It is called once, now, with
            symbols, and becomes a native stage if it touches them only by operations of `queuecore.ops`, constant
            indices, arithmetic, comparison, and NumPy's element-wise functions, and returns them in tuples and dicts.
            Or an operation of `queuecore.ops`, called without input; several are combined by `queuecore.ops.compose`.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If the operation can't work on the elements, or makes something that can't be batched; or if it is neither
            a function nor an operation.
        UnimplementedError
            If the function does anything else, with the reason and the place in it; or if it comes after a `batch` and
            makes something else of a batch than of its elements one by one.

        Notes
        -----
        Runs in the native threads, without the GIL, several elements at a time; several maps in a row share a pass
        where they can. A random operation draws from its seed, from the number of the pass over the files, and from the
        record's number in it: so the number of threads changes nothing; in a function, too.

        A function that became a stage makes what it would make of arrays, bit for bit, with NumPy's rules for dtypes;
        NumPy's warnings (of an overflow, for example) don't come. Whatever it does besides happens once, and values
        that it takes from elsewhere stay as they were.

        Strings come out of a batch as a `Ragged`, as do rows of different lengths. Arrays of which only the data knows
        the shape must have the same one in all elements of a batch; else it is an `InvalidArgumentError`.

        A record that can't be decoded is an error in its place in the order, after all elements before it.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np, queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "numbers.txt"
        >>> _ = file.write_text("1,2\n3,4\n")
        >>> ds = qc.data.TextLineDataset(file).map(qc.ops.decode_csv(record_defaults=[np.float32, np.int32]))
        >>> for batch in ds.batch(2):
        ...     print(batch)
        (array([1., 3.], dtype=float32), array([2, 4], dtype=int32))
        >>> folder.cleanup()
        """
        if not isinstance(map_func, Stage):
            map_func = self._traced(map_func)
        if self._shaped() is not None:
            raise UnimplementedError(f"{map_func!r} can't be applied to padded or ragged batches: put it before")
        if not map_func.rowwise and any(isinstance(op, Batch) for op in self._ops):
            raise UnimplementedError(f"{map_func!r} can't be applied to batches yet: put the map before the batch")
        made = self._with(Map(map_func))
        made._source.made(made._stages())
        return made

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def element_spec(self) -> Any:
        """The structure of an element.

        An `ArraySpec`, or a dict of them where the records have fields (dicts in dicts for structures in structures).
        Batch dimensions are `None`, or the batch size where ``drop_remainder=True`` makes it certain.
        """
        dims: tuple[int | None, ...] = ()
        for op in self._ops:
            if isinstance(op, Batch):
                dims = (op.batch_size if op.drop_remainder else None, *dims)
        shaped = self._shaped()
        return self._source.made(self._stages()).spec(dims) if shaped is None else shaped.specs(dims)

    def cardinality(self) -> int:
        """Return the number of elements.

        `INFINITE_CARDINALITY` (-1) if there is no end, `UNKNOWN_CARDINALITY` (-2) if only reading would tell.

        Returns
        -------
        int

        Raises
        ------
        NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError, TruncatedRecordError
            For a file at which iterating would fail: there is no number of elements then.

        Notes
        -----
        Asks the file system for the size of every file that is needed, in the calling thread, and opens none.
        """
        try:
            total = self._count(len(self._ops), None)
        except Unknown:
            return UNKNOWN_CARDINALITY
        return INFINITE_CARDINALITY if isinstance(total, float) else total

    def __len__(self) -> int:
        """Return the number of elements, as `cardinality` does; `TypeError` if it is endless or unknown."""
        total = self.cardinality()
        if total == UNKNOWN_CARDINALITY:
            raise TypeError("the number of elements is unknown before they are read, so there is no len()")
        if total == INFINITE_CARDINALITY:
            raise TypeError("an endless dataset has no len()")
        return total

    def __bool__(self) -> bool:
        """Return `True`, always."""
        # Without it, `if dataset:` would be __len__, which asks the file system.
        return True

    def __iter__(self) -> Iterator:
        """Return a new iterator at the first element. No thread starts before its first ``next()``."""
        return Iterator(self)

    def __repr__(self) -> str:
        """Return the source and the steps, in one line."""
        inputs = ", ".join(map(repr, self._inputs()))
        source = f"{source_label(self)}{' of ' if inputs else ''}{inputs}"
        return f"<{source}>" + "".join(f".{step}" for step in step_labels(self))

    def plan(self) -> str:
        """Say what is done, and where.

        Returns
        -------
        str
            A line for each step, the last one first; what a step takes its elements from stands behind it, further
            in. At the end of each line: whether it runs natively, in threads that don't take the GIL, or what part of it
            Python does, and what forced that.

        Notes
        -----
        Steps in a row that run natively are one stream: each batch is made in one go, by one thread or several.

        Examples
        --------
        >>> import queuecore as qc
        >>> print(qc.data.Dataset.range(10).map(lambda x: x * 2).batch(4).plan())
        batch(4, False)                      native: order
        map(traced(multiply(x0, int64(2))))  native
        range(0, 10)                         Python: hands on rows, a chunk at a time
        """
        lines = lines_of(self)
        width = max(len(what) for what, _ in lines)
        return "\n".join(f"{what:{width}}  {where}" for what, where in lines)

    # -- for the iterator ----------------------------------------------------------------------------------------------

    def _with(self, op: Op) -> Dataset:
        return _Steps(self._source, (*self._ops, op), self._options)

    def _shape(self, node: Node | None, op: _padded.ShapedBatch) -> Dataset:
        if op.batch_size > _MOST_ROWS:
            raise InvalidArgumentError(f"{op.batch_size} records in a batch are more than is possible, {_MOST_ROWS}")
        return (self if node is None else _of_node(node))._with(op)

    def _shaped(self) -> _padded.ShapedBatch | None:
        return next((op for op in self._ops if isinstance(op, _padded.ShapedBatch)), None)

    def _native(self, options: Options) -> dict[str, Any]:
        """Return what the native stream takes of the source and the steps on elements."""
        given = self._source.limited(options.max_record_bytes).native(self._stages())
        shaped = self._shaped()
        return given if shaped is None else given | shaped.changes

    def _count(self, depth: int, needed: int | None) -> Count:
        """Return how many elements come out of the first `depth` steps."""
        if needed == 0:  # nothing is asked of what is below, so nothing there can fail
            return 0
        if depth == 0:
            return self._source.count(needed)
        return self._ops[depth - 1].count(needed, lambda below: self._count(depth - 1, below))

    def _threads(self, options: Options | None = None) -> tuple[int, bool]:
        """Return the number of native workers, and whether the consumer helps."""
        wanted = check_threads((options or self._options).num_threads, "num_threads") or self._source.num_threads
        if wanted is not None:
            return wanted, wanted != 1
        # One CPU is the consumer's own: with few of them a worker more would only take turns with it.
        return min(max(len(os.sched_getaffinity(0)) - 1, 1), _DEFAULT_MOST_THREADS), True

    def _prefetch_elements(self) -> int:
        """Return how many elements to make ahead, or -1 if nobody said."""
        most = -1
        stacked = 1
        for op in reversed(self._ops):
            if isinstance(op, Batch):
                stacked *= op.batch_size
            elif isinstance(op, Prefetch) and op.buffer_size > 0:
                # A prefetch below a batch counts what goes into batches.
                most = max(most, -(-op.buffer_size // stacked))
        return most

    def _traced(self, function: Any) -> Stage:
        """Return a function as a native stage."""
        if not callable(function) or is_native(function):
            hint = ": say what it makes, by queuecore.ops.cfunc(function, outputs)" if callable(function) else ""
            raise InvalidArgumentError(f"map takes functions of Python's and operations, not {function!r}{hint}")
        made = self._source.made(self._stages())
        batches = [op for op in reversed(self._ops) if isinstance(op, Batch)]
        batch = tuple(op.batch_size if op.drop_remainder else None for op in batches)
        found = trace(function, made.given, made.template, assemble=made.assemble, batch=batch)
        if isinstance(found, Untraced):
            raise UnimplementedError(
                f"{function!r} would have to run in Python, and map takes functions alone that become native stages. "
                f"What stops it: {found}"
            )
        return found.stage

    def _stages(self) -> list[Stage]:
        return [op.stage for op in self._ops if isinstance(op, Map)]

    def _shuffles(self) -> list[Shuffle]:
        """Return its own shuffles, then those of its inputs."""
        own = [op for op in self._ops if isinstance(op, Shuffle)]
        return own + [shuffle for dataset in self._inputs() for shuffle in dataset._shuffles()]

    def _inputs(self) -> tuple[Dataset, ...]:
        return self._source.inputs if isinstance(self._source, Node) else ()

    def _native_ops(self, seeds: Sequence[tuple[tuple[int, int], ShuffleCounter]]) -> list[tuple[Any, ...]]:
        """Return what the native core takes, with these seeds and counters for the shuffles."""
        given = iter(seeds)
        made = [op.native(*next(given)) if isinstance(op, Shuffle) else op.native() for op in self._ops]
        return [op for op in made if op is not None]

    def _names(self) -> tuple[int, int]:
        count, digest = len(self._source.files), self._source.files.digest
        for dataset in self._inputs():
            more, other = dataset._names()
            count, digest = count + more, (digest * 0x9E3779B97F4A7C15 + other) % 2**64
        return count, digest

    def _describe(self) -> dict[str, Any]:
        """Return what decides the elements and their order, apart from file names and seeds, as plain values."""
        steps = [words for words in (op.describe() for op in self._ops) if words is not None]
        return {"source": self._source.describe(), "ops": steps}


class _Steps(Dataset):
    """A dataset that came out of another one's method."""

    def __init__(self, source: FixedLengthSource | BlockSource | Node, ops: tuple[Op, ...], options: Options) -> None:
        self._source = source
        self._ops = ops
        self._options = options


def _of_node(node: Node) -> Dataset:
    """Return the dataset of a node, with the options of its inputs; where they differ, the later one's."""
    options = Options()
    for dataset in node.inputs:
        options = options.merged(dataset._options)
    return _Steps(node, (), options)


class FixedLengthRecordDataset(Dataset):
    """Records of one length from files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        One name, or a sequence of names. A single name with ``*``, ``?`` or ``[`` in it, which isn't itself a file's
        name, is a glob pattern: it is expanded here and now, sorted by bytes. Names in a sequence are always taken
        literally.
    record_bytes : int, optional
        Length of a record in bytes. The element is then a row of bytes: dtype ``uint8``, shape ``(record_bytes,)``.
    header_bytes, footer_bytes : int, default 0
        Bytes to leave out at the beginning and at the end of every file.
    record : dtype, optional
        What a record is, as anything that `numpy.dtype` takes: its fields with their offsets, byte orders, shapes and
        padding. The element is a dict with a contiguous array per field, in native byte order; dicts in dicts for
        structures in structures; for a dtype without fields just the array. Either this or `record_bytes`.
    hop_bytes : int, default 0
        From the start of a record to the start of the next one, in bytes; 0: the length of a record. Less makes records
        overlap, more leaves gaps.
    tail : {"error", "drop"}, default "error"
        What to do about a file that ends inside a record: raise `TruncatedRecordError` after its whole records, or
        leave the rest out and count it in ``stats()["dropped_tails"]``.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD"}, optional
        How files are compressed. What is compressed is read from its start.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.

    Raises
    ------
    InvalidArgumentError
        If a number is out of its range, both or neither of `record` and `record_bytes` are given, `filenames` is
        empty, a pattern matches nothing, or a name has a NUL in it.
    DtypeError
        If `record` is no dtype, holds Python objects, or has fields that overlap.

    Notes
    -----
    Files are opened when their turn comes, and not here: a missing one, a directory, a cut one is an error
    in its place in the order, after all good records before it. It names the file, and where it applies the offset and
    the record. Those classes are `NotFoundError`, `PermissionDeniedError`, `NotAFileError`, `UnavailableError`,
    `TruncatedRecordError`, `SourceChangedError` (a file that shrank or was replaced while it was in use).

    A file of 0 bytes has no records and is no error; it is counted in ``stats()["empty_files"]``. One that is shorter
    than its header and footer together is a `TruncatedRecordError`.

    Booleans are made 0 or 1: any other byte counts as 1.

    The class follows ``tf.data.FixedLengthRecordDataset``; new are `record`, `hop_bytes` and `tail`. tf.data refuses a
    file with a cut record before its first record; here the whole ones are delivered.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> record = np.dtype([("label", "u1"), ("point", ">f4", (2,))])
    >>> rows = np.array([(0, (0.5, 1)), (1, (2, 4)), (2, (8, 16))], dtype=record)
    >>> rows.tofile(pathlib.Path(folder.name) / "points-0.bin")
    >>> ds = qc.data.FixedLengthRecordDataset(folder.name + "/points-*.bin", record=record).batch(2)
    >>> ds.element_spec["point"]
    ArraySpec(shape=(None, 2), dtype=dtype('float32'))
    >>> for batch in ds:
    ...     print(batch["label"], batch["point"].tolist())
    [0 1] [[0.5, 1.0], [2.0, 4.0]]
    [2] [[8.0, 16.0]]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        record_bytes: SupportsIndex | None = None,
        header_bytes: SupportsIndex = 0,
        footer_bytes: SupportsIndex = 0,
        *,
        record: Any = None,
        hop_bytes: SupportsIndex = 0,
        tail: Literal["error", "drop"] = "error",
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        if (record is None) == (record_bytes is None):
            raise InvalidArgumentError("give either record_bytes or record, and not both")
        plan = (
            compile_record(record)
            if record is not None
            else compile_bytes(check_int(record_bytes, "record_bytes", 1, _MOST_BYTES))
        )
        # tf.data's defaults for these two are None.
        header = check_int(0 if header_bytes is None else header_bytes, "header_bytes", 0, _MOST_BYTES)
        footer = check_int(0 if footer_bytes is None else footer_bytes, "footer_bytes", 0, _MOST_BYTES)
        hop = check_int(hop_bytes, "hop_bytes", 0, _MOST_BYTES)
        if tail not in ("error", "drop"):
            raise InvalidArgumentError(f'tail must be "error" or "drop", not {tail!r}')
        files = FileList(expand_filenames(filenames))
        threads = check_threads(num_parallel_reads, "num_parallel_reads")
        encoding = encoding_number(compression_type)
        hop = hop or plan.record_bytes
        source = FixedLengthSource(files, plan, header, footer, hop, tail == "drop", threads)
        self._source = source
        if encoding:
            self._source = block_source(
                source.name,
                filenames,
                "fixed",
                compression_type,
                num_parallel_reads,
                components=(Component(BYTES, (), plan.record_bytes),),
                template=0,
                words=source.describe(),
                guess=plan.record_bytes,
                max_record_bytes=_MOST_BYTES,
                fixed=(plan.record_bytes, header, footer, hop, tail == "drop"),
                first=record_stage(plan),
            )


_LINE_BYTES = 64 << 20
_TFRECORD_BYTES = 1 << 30


class TextLineDataset(Dataset):
    r"""Lines of text files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD"}, optional
        How files are compressed.
    buffer_size : int, optional
        Not used: files are read in blocks of 256 KiB.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    skip_header_lines : int, default 0
        Lines to leave out at the top of each file.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, `filenames` is empty, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is a line, as `bytes`, without its end: LF or CR LF. The last one needs none. In batches they are a
    `Ragged`: the bytes of all lines side by side, and where each begins. Lines of more than `Options.max_record_bytes`
    (64 MiB) are refused with a `RecordTooLargeError`, of which no more than that is ever in memory.

    Several threads work on one file at a time, and never change the order. What a ``shuffle`` holds stays where it was
    read, 256 KiB at a time: records of a few kilobytes keep several times their own size in memory.

    The class follows ``tf.data.TextLineDataset``; `skip_header_lines` is ours.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "words.txt"
    >>> _ = file.write_text("to\nbe\nor\n")
    >>> list(qc.data.TextLineDataset(file))
    [b'to', b'be', b'or']
    >>> for batch in qc.data.TextLineDataset(file).batch(2):
    ...     print(batch)
    Ragged([b'to', b'be'], dtype=bytes)
    Ragged([b'or'], dtype=bytes)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        compression_type: str | None = None,
        buffer_size: SupportsIndex | None = None,
        num_parallel_reads: int | None = None,
        *,
        skip_header_lines: SupportsIndex = 0,
    ) -> None:
        del buffer_size
        header = check_int(skip_header_lines, "skip_header_lines", 0, _MOST_BYTES)
        self._source = block_source(
            "TextLineDataset",
            filenames,
            "lines",
            compression_type,
            num_parallel_reads,
            components=(Component(BYTES, ()),),
            template=0,
            words={"skip_header_lines": header},
            guess=64,
            max_record_bytes=_LINE_BYTES,
            header=header,
        )


class TFRecordDataset(Dataset):
    r"""Records of TFRecord files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD"}, optional
        How files are compressed.
    buffer_size : int, optional
        Not used: files are read in blocks of 256 KiB.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, `filenames` is empty, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is the data of a record, as `bytes`; in batches a `Ragged`. Both checksums of every record are verified,
    that of the length before anything is believed of it: a `ChecksumError`, `TruncatedRecordError` or
    `RecordTooLargeError` (over `Options.max_record_bytes`, 1 GiB) comes in its place in the order.

    Several threads work on one file at a time, and never change the order. What a ``shuffle`` holds stays where it was
    read, 256 KiB at a time: records of a few kilobytes keep several times their own size in memory.

    The class follows ``tf.data.TFRecordDataset``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "numbers.tfrecord"
    >>> with qc.TFRecordWriter(file) as writer:
    ...     writer.write(b"\x01\x02")
    ...     writer.write(b"\x03\x04")
    >>> for batch in qc.data.TFRecordDataset(file).map(qc.ops.decode_raw(out_type="u1")).batch(2):
    ...     print(batch)
    [[1 2]
     [3 4]]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        compression_type: str | None = None,
        buffer_size: SupportsIndex | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        del buffer_size
        self._source = block_source(
            "TFRecordDataset",
            filenames,
            "tfrecord",
            compression_type,
            num_parallel_reads,
            components=(Component(BYTES, ()),),
            template=0,
            guess=1024,
            max_record_bytes=_TFRECORD_BYTES,
        )


class WholeFileDataset(Dataset):
    r"""Files, each a record.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD"}, optional
        How files are compressed.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, `filenames` is empty, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is a tuple of two `bytes`, the file's name and its content: `queuecore.ops.on` has operations for one of
    them. A file of no bytes has an empty content. There is no limit but `Options.max_record_bytes`.

    The class is tf.data's ``list_files`` with a ``map`` that reads each file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in "ab":
    ...     _ = (pathlib.Path(folder.name) / name).write_text(name * 3)
    >>> for name, content in qc.data.WholeFileDataset(folder.name + "/*"):
    ...     print(pathlib.Path(name.decode()).name, content)
    a b'aaa'
    b b'bbb'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        self._source = block_source(
            "WholeFileDataset",
            filenames,
            "whole",
            compression_type,
            num_parallel_reads,
            components=(Component(BYTES, ()), Component(BYTES, ())),
            template=(0, 1),
            guess=64 << 10,
            max_record_bytes=_MOST_BYTES,
        )


class CsvDataset(Dataset):
    r"""Rows of CSV files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    record_defaults : sequence
        Of each column a dtype (float32, float64, int32, int64 or bytes), if there must be a value, or the value that
        stands for none.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD"}, optional
        How files are compressed.
    buffer_size : int, optional
        Not used: files are read in blocks of 256 KiB.
    header : bool, default False
        Leave out the first row of each file.
    field_delim : str, default ","
        One byte.
    use_quote_delim : bool, default True
        Whether quotes stand around fields that hold delimiters, newlines or quotes.
    na_value : str, default ""
        What stands for no value, besides nothing.
    select_cols : sequence of int, optional
        The columns to take, rising; `record_defaults` are theirs.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.

    Raises
    ------
    InvalidArgumentError, DtypeError
        If an argument doesn't fit, `filenames` is empty, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is a tuple with a number, or `bytes`, for each column; in batches, arrays and `Ragged`. A number has its
    exact value: a float is what ``float`` makes of the same text. A bad field, or another number of fields, is a
    `CsvError` with `line` and `field` in its place in the order. Rows of more than `Options.max_record_bytes` (64 MiB)
    are refused: so a quote that is never closed doesn't fill the memory.

    Several threads work on one file at a time, and never change the order. What a ``shuffle`` holds stays where it was
    read, 256 KiB at a time: records of a few kilobytes keep several times their own size in memory.

    The class follows ``tf.data.experimental.CsvDataset``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "points.csv"
    >>> _ = file.write_text("x,name\n1.5,a\n,\"b,c\"\n")
    >>> for x, name in qc.data.CsvDataset(file, [0.0, bytes], header=True).batch(2):
    ...     print(x, name)
    [1.5 0. ] Ragged([b'a', b'b,c'], dtype=bytes)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: SupportsIndex | None = None,
        header: bool = False,
        field_delim: str | bytes = ",",
        use_quote_delim: bool = True,
        na_value: str | bytes = "",
        select_cols: Sequence[int] | None = None,
        *,
        num_parallel_reads: int | None = None,
    ) -> None:
        del buffer_size
        columns = csv_columns(record_defaults)
        options = (field_delim, use_quote_delim, na_value, select_cols)
        make = _CsvFormats(columns, options)
        make(_LINE_BYTES)
        delim = field_delim.encode() if isinstance(field_delim, str) else bytes(field_delim)
        if delim in b"\r\n" or (use_quote_delim and delim == b'"'):
            raise InvalidArgumentError(f"field_delim can't be {field_delim!r}: it ends rows, or quotes fields")
        words = [None if default is None else default.hex() for _, default in columns]
        self._source = block_source(
            "CsvDataset",
            filenames,
            "csv",
            compression_type,
            num_parallel_reads,
            components=tuple(Component(dtype, ()) for dtype, _ in columns),
            template=tuple(range(len(columns))),
            words={
                "header": check_bool(header, "header"),
                "columns": [[dtype.str, word] for (dtype, _), word in zip(columns, words, strict=True)],
                "options": [repr(one) for one in options],
            },
            guess=64,
            max_record_bytes=_LINE_BYTES,
            header=int(header),
            csv=make,
        )


class _CsvFormats:
    """Makes native formats with a limit for rows; can be pickled, which a native format can't."""

    def __init__(self, columns: Any, options: Any) -> None:
        self._columns = columns
        self._options = options

    def __call__(self, max_record_bytes: int) -> Any:
        delim, quotes, na_value, select = self._options
        return csv_format(self._columns, delim, quotes, na_value, select, max_record_bytes)
