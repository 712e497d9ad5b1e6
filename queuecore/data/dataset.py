"""Datasets: descriptions of a stream of elements. Making one reads nothing; iterating over it does the work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, SupportsIndex, TypeVar

import numpy as np

from queuecore._checks import seeds as _seeds
from queuecore._checks.checks import check_bool, check_int, check_name, check_optional_count
from queuecore._checks.pickles import Outdated
from queuecore._elements.nests import has_none, mapped
from queuecore._io import remote
from queuecore._io.names import Filename, expand_patterns, local_text
from queuecore._ops.stage import Stage
from queuecore.data._methods.grouping import Grouping
from queuecore.data._methods.keeping import Keeping
from queuecore.data._methods.sources import Sources
from queuecore.data._nodes.arrays import Counter, Items, Numbers, Slices
from queuecore.data._nodes.batch import ObjectBatch
from queuecore.data._nodes.buckets import BucketPadding, buckets
from queuecore.data._nodes.cache import Cache, Memory
from queuecore.data._nodes.cache_files import Files
from queuecore.data._nodes.choose import Choose, Sample, Seeds
from queuecore.data._nodes.combine import Concatenate, Enumerate, Unbatch, Zip
from queuecore.data._nodes.filters import Filter, TakeWhile
from queuecore.data._nodes.generators import Generated, argument_of, signature_of
from queuecore.data._nodes.ignore import Ignore
from queuecore.data._nodes.interleave import Interleave
from queuecore.data._nodes.interleave_files import of_names
from queuecore.data._nodes.map import check_function, mapped_chain
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.pad_shards import padded_shard
from queuecore.data._nodes.padded import dense_to_ragged, padded
from queuecore.data._nodes.permute import permuted
from queuecore.data._nodes.rebatch import Rebatch, rows_of_batches
from queuecore.data._nodes.reduce import reduced
from queuecore.data._nodes.scan import Scan
from queuecore.data._nodes.snapshot import Snapshot
from queuecore.data._nodes.unique import UniqueNode
from queuecore.data._nodes.windows import WindowNode, stacked
from queuecore.data._plan.chain import (
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Chain,
    Source,
    chain_of,
    register,
)
from queuecore.data._plan.explain import lines_of, shown, written
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.shards import UNEVEN, resolve_shard
from queuecore.data._plan.specs import shape_of, type_of
from queuecore.data._plan.steps import (
    BatchStep,
    Permute,
    PlannedStep,
    Prefetch,
    Repeat,
    ShapedBatch,
    Shard,
    Shuffle,
    ShuffleSeeds,
    Skip,
    Take,
)
from queuecore.data._rows.chunks import Rows
from queuecore.data._rows.elements import element_of, flattened, objects_of_slices, rows_of_element, rows_of_slices
from queuecore.data.device import DeviceDataset, device_dataset
from queuecore.data.iterator import Iterator
from queuecore.data.iterators import InitializableIterator
from queuecore.data.options import AUTOTUNE, Options, check_threads
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = [
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
]

# The native core numbers the places of a shuffle's window with 32 bits, and keeps a batch's rows below this.
_MOST_SHUFFLED = 2**31 - 1
_MOST_ROWS = 2**40
_MOST_CYCLE = 2**16
_MOST_CALLS = 2**31 - 1


_Applied = TypeVar("_Applied", "Dataset", DeviceDataset)


class Dataset(Sources, Grouping, Keeping):
    """A stream of elements: a source and the steps after it. Immutable; abstract: make one of its subclasses.

    Every method returns a new dataset and leaves this one as it is. A dataset can be iterated over any number of
    times, also at the same time, and pickled.

    Notes
    -----
    Names, defaults and order are those of ``tf.data``. The order depends on the steps, the seeds and the
    files alone, never on the number of threads.

    The `name` that steps take for tf.data's sake changes neither elements nor saved places, and isn't shown by `plan`.

    A shuffle with ``reshuffle_each_iteration`` counts its passes, over all iterators of the dataset: that is how every
    epoch gets an order of its own. A pickled copy starts counting anew.
    """

    def __init__(self) -> None:
        raise TypeError("Dataset is abstract: use FixedLengthRecordDataset, for example")

    # -- steps ---------------------------------------------------------------------------------------------------------

    def repeat(self, count: SupportsIndex | None = None, name: str | None = None) -> Dataset:
        """Go over the elements several times.

        Parameters
        ----------
        count : int, optional
            How often; 0 gives an empty dataset. `None` (the default) or -1: endlessly.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

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
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(3)))
        >>> [int(x) for x in qc.data.FixedLengthRecordDataset(file, record="u1").repeat(2)]
        [0, 1, 2, 0, 1, 2]
        """
        check_name(name)
        return self._then(Repeat(check_optional_count(count, "count")))

    def take(self, count: SupportsIndex, name: str | None = None) -> Dataset:
        """Keep the first elements.

        Parameters
        ----------
        count : int
            Number of elements to keep; -1: all. A larger number than there are is no error.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `count` is less than -1 or no integer.
        """
        check_name(name)
        return self._then(Take(check_int(count, "count", -1)))

    def skip(self, count: SupportsIndex, name: str | None = None) -> Dataset:
        """Leave out the first elements.

        Parameters
        ----------
        count : int
            Number of elements to leave out; -1: all. A larger number than there are is no error.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `count` is less than -1 or no integer.

        Notes
        -----
        Elements that are left out aren't read, if counting alone finds where they end.
        """
        check_name(name)
        return self._then(Skip(check_int(count, "count", -1)))

    def batch(
        self,
        batch_size: SupportsIndex,
        drop_remainder: bool = False,
        num_parallel_calls: SupportsIndex | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements that follow each other.

        Parameters
        ----------
        batch_size : int
            Elements in a batch, at least 1.
        drop_remainder : bool, default False
            Leave out a last batch that isn't full; otherwise it is delivered short.
        num_parallel_calls : int, optional
            Checked as that of `map`, and not used: `Options.num_threads` native threads make several batches at a time.
        deterministic : bool, optional
            Checked, and not used: batches always keep their order.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its arrays have one dimension more, in front.

        Raises
        ------
        InvalidArgumentError
            If `batch_size` is less than 1 or no integer, `num_parallel_calls` is 0 or less than -1, or another argument
            isn't of its type.

        Notes
        -----
        An error that comes in the middle of a batch delivers what is good before it as a shorter batch,
        then raises. With `drop_remainder` that batch is left out, and counted in ``stats()["dropped_records"]``.
        tf.data discards it in both cases.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(5)))
        >>> for batch in qc.data.FixedLengthRecordDataset(file, record="u1").batch(2):
        ...     print(batch)
        [0 1]
        [2 3]
        [4]
        """
        check_name(name)
        size, drop = check_int(batch_size, "batch_size", 1), check_bool(drop_remainder, "drop_remainder")
        check_threads(num_parallel_calls, "num_parallel_calls", _MOST_CALLS)
        check_bool(False if deterministic is None else deterministic, "deterministic")
        chain = self._chain
        if chain.source.has_objects or chain.shaped is not None:
            return _of(ObjectBatch((chain,), size, drop))
        rows = math.prod(batch.batch_size for batch in chain.batches) * size
        if rows > _MOST_ROWS:
            raise InvalidArgumentError(f"a batch of {rows} records is more than the most possible, {_MOST_ROWS}")
        return self._then(BatchStep(size, drop))

    def padded_batch(
        self,
        batch_size: SupportsIndex,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        r"""Stack elements that follow each other, which may differ in shape: the smaller ones are padded at their ends.

        Parameters
        ----------
        batch_size : int
            Elements in a batch, at least 1.
        padded_shapes : nest of tuple of int or None, optional
            In the structure of an element, the shape of each component in the batch. `None` (or -1) in it: the longest
            of the batch. An int is a shape of one dimension. `None` for a component, or for all: its own shape, in
            which each unknown dimension becomes the longest of the batch; where nobody knows how many dimensions there
            are, the first element decides it.
        padding_values : nest of scalars, optional
            What to pad with: in the structure of an element, or one scalar for all. Of the component's dtype: a NumPy
            scalar must have that dtype, a Python number must fit. Default (`None`): 0, `False` or ``b""``.
        drop_remainder : bool, default False
            Leave out a last batch that isn't full.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its arrays have one dimension more, in front. Strings come as in `batch`, as a `Ragged`: elements that are
            arrays of strings as one of equally long rows.

        Raises
        ------
        InvalidArgumentError
            If `padded_shapes` or `padding_values` doesn't fit the structure, or a shape is smaller than that of the
            component.
        DtypeError
            If a padding value has another dtype.

        Notes
        -----
        An element that is longer than `padded_shapes` allows, or has another number of dimensions, is a `DataLossError`
        in its place, after a short batch of those before it; ``on_error="skip"`` leaves it out. Where the first element
        decides, it is made again to go on from a saved place, with those behind it; tf.data refuses such datasets.

        Runs in the native threads, without the GIL, when a batch is complete. Elements that are batches already, or
        Python objects, are padded in the consumer's thread.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("words.txt")
        >>> _ = file.write_bytes(b"to\nbe or\nnot\n")
        >>> letters = qc.data.TextLineDataset(file).map(qc.ops.decode_raw(out_type="u1"))
        >>> for batch in letters.padded_batch(2, padding_values=32):
        ...     print([bytes(row) for row in batch])
        [b'to   ', b'be or']
        [b'not']
        """
        check_name(name)
        size, drop = check_int(batch_size, "batch_size", 1), check_bool(drop_remainder, "drop_remainder")
        return self._shape(*padded(self._chain, size, drop, padded_shapes, padding_values))

    def dense_to_ragged_batch(self, batch_size: SupportsIndex, drop_remainder: bool = False) -> Dataset:
        r"""Stack elements that follow each other, which may differ in shape.

        Parameters
        ----------
        batch_size : int
            Elements in a batch, at least 1.
        drop_remainder : bool, default False
            Leave out a last batch that isn't full.

        Returns
        -------
        Dataset
            A component with a dimension that isn't known beforehand comes as a `Ragged`, whose rows may differ down to
            the last such dimension; others as in `batch`.

        Raises
        ------
        InvalidArgumentError
            If nothing is known of the elements.

        Notes
        -----
        Runs in the native threads, without the GIL, if only the first dimension is unknown; the rows are views.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("words.txt")
        >>> _ = file.write_bytes(b"to\nbe\n!\n")
        >>> letters = qc.data.TextLineDataset(file).map(qc.ops.decode_raw(out_type="u1"))
        >>> next(iter(letters.dense_to_ragged_batch(3))).to_list()
        [[116, 111], [98, 101], [33]]
        """
        size, drop = check_int(batch_size, "batch_size", 1), check_bool(drop_remainder, "drop_remainder")
        return self._shape(*dense_to_ragged(self._chain, size, drop))

    def ragged_batch(
        self,
        batch_size: SupportsIndex,
        drop_remainder: bool = False,
        row_splits_dtype: Any = np.int64,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements that follow each other, which may differ in shape.

        Parameters
        ----------
        batch_size, drop_remainder
            As of `dense_to_ragged_batch`, which does the same.
        row_splits_dtype : dtype, default int64
            Of the splits of a `Ragged`: int64.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            As of `dense_to_ragged_batch`.
        DtypeError
            If `row_splits_dtype` is another dtype.

        Examples
        --------
        >>> import numpy as np, queuecore as qc
        >>> ds = qc.data.Dataset.range(3).map(lambda n: np.arange(int(n)))
        >>> next(iter(ds.ragged_batch(3))).to_list()
        [[], [0], [0, 1]]
        """
        check_name(name)
        if row_splits_dtype not in (np.int64, "int64"):
            raise DtypeError(f"ragged_batch: splits are int64; row_splits_dtype can't be {row_splits_dtype!r}")
        return self.dense_to_ragged_batch(batch_size, drop_remainder)

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
        name: str | None = None,
    ) -> Dataset:
        r"""Stack elements of about the same length, so that little is padded.

        Parameters
        ----------
        element_length_func : callable
            Returns the length of an element, an integer. The parts of a tuple are arguments of their own.
        bucket_boundaries : sequence of int, rising
            Bucket i takes the lengths from boundary i - 1 up to, but not including, boundary i.
        bucket_batch_sizes : sequence of int
            For each bucket, the number of elements in a batch: one more entry than there are boundaries.
        padded_shapes, padding_values : optional
            As in `padded_batch`.
        pad_to_bucket_boundary : bool, default False
            Make unknown dimensions one less than the bucket's upper boundary, and not the longest of the batch.
        no_padding : bool, default False
            Stack elements as they are. All of a batch must have the same shape.
        drop_remainder : bool, default False
            Leave out the batches that aren't full at the end.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

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
        As that of `map`, the function is first called with symbols, and runs in the native threads if it does no more
        to them than can be done so; so does ``len``, of elements that are one array. Else it is called in Python for
        each element. NumPy stacks the batches, in a thread of its own. The function's exception in Python becomes a
        `PipelineError` in its place, after the batches of what came before; an element that is longer than
        `padded_shapes` allows is a `DataLossError`, with `pad_to_bucket_boundary` one that reaches the last boundary an
        `InvalidArgumentError`. ``on_error="skip"`` leaves such elements out.

        A saved place is found again by going through the lengths of the elements before it.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("words.txt")
        >>> _ = file.write_bytes(b"to\nquestion\nbe\nor\nsuffer\nnot\n")
        >>> letters = qc.data.TextLineDataset(file).map(qc.ops.decode_raw(out_type="u1"))
        >>> for batch in letters.bucket_by_sequence_length(len, [4], [3, 2], padding_values=32):
        ...     print([bytes(row) for row in batch])
        [b'to', b'be', b'or']
        [b'question', b'suffer  ']
        [b'not']
        """
        check_name(name)
        padding = BucketPadding(padded_shapes, padding_values, pad_to_bucket_boundary, no_padding)
        return _of(
            buckets(self._chain, element_length_func, bucket_boundaries, bucket_batch_sizes, padding, drop_remainder)
        )

    def shuffle(
        self,
        buffer_size: SupportsIndex,
        seed: SupportsIndex | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """Draw elements at random from a window that moves over them.

        Parameters
        ----------
        buffer_size : int
            Size of the window in elements, 1 to 2**31 - 1; 1 keeps the order. An element is delivered at most
            ``buffer_size - 1`` places early, and may be delivered arbitrarily late. `UNKNOWN_CARDINALITY` (-2): a
            window that holds all elements.
        seed : int, optional
            Together with the graph-level seed (`queuecore.set_random_seed`) it decides the order. With no seed at all
            one is drawn from the operating system, now; ``state_dict()`` holds it.
        reshuffle_each_iteration : bool, default True
            Whether every pass has an order of its own. A rebuilt dataset goes through the same orders again.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

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
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(8)))
        >>> qc.set_random_seed(1)
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").shuffle(4, seed=5)
        >>> [int(x) for x in ds]
        [1, 0, 3, 6, 5, 4, 2, 7]
        >>> [int(x) for x in ds]
        [0, 4, 3, 5, 6, 1, 7, 2]
        >>> qc.set_random_seed(None)
        """
        check_name(name)
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        if type(buffer_size) is int and buffer_size == UNKNOWN_CARDINALITY:
            count = self._chain.known_count()
            buffer_size = int(min(max(_MOST_SHUFFLED if count is None else count, 1), _MOST_SHUFFLED))
        return self._then(
            Shuffle.make(
                check_int(buffer_size, "buffer_size", 1, _MOST_SHUFFLED),
                seed,
                check_bool(reshuffle, "reshuffle_each_iteration"),
            )
        )

    def shuffle_and_repeat(
        self, buffer_size: SupportsIndex, count: SupportsIndex | None = None, seed: SupportsIndex | None = None
    ) -> Dataset:
        """Go over the elements several times, each time in another random order.

        Parameters
        ----------
        buffer_size, seed
            As for `shuffle`.
        count : int, optional
            As for `repeat`.

        Returns
        -------
        Dataset
            The same as ``shuffle(buffer_size, seed).repeat(count)``.

        Raises
        ------
        InvalidArgumentError
            As for these two methods.
        """
        return self.shuffle(buffer_size, seed).repeat(count)

    def permute(self, seed: SupportsIndex | None = None, reshuffle_each_iteration: bool | None = True) -> Dataset:
        """Put all elements in an order drawn at random, without a buffer.

        Parameters
        ----------
        seed : int, optional
            As for `shuffle`.
        reshuffle_each_iteration : bool, default True
            As for `shuffle`.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If the number of elements is unknown, as of lines, TFRecords, CSV and compressed files, or there is no end;
            if elements can't be had by their numbers, as behind a `filter` or a `cache`; or if an argument isn't of its
            type.
        UnimplementedError
            After a `batch`, a `shuffle` or another `permute`.

        Notes
        -----
        The order is ours, not TensorFlow's, and so is the name. It is a permutation of the elements' numbers that is
        computed one number at a time (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): so it
        needs no memory, and a place in it is found at once, after a `skip` as well as from a saved state. Any element
        may come first, whatever the amount of data, where a `shuffle` draws from the next `buffer_size` alone.

        It works on uncompressed records of fixed length, and on `range`, `from_tensor_slices` and `from_tensors`, with
        `take`, `skip`, `repeat`, `shard` and `map` in between. A `map` is done behind it, on the elements as they come
        out: that matters only to a function in Python that does something else besides, or a random operation.

        Records are read one by one where they lie. All files are opened and measured before the first element comes,
        in the order of their names. Where one of them ends in an error, the good records before it are permuted, and
        the error comes after them. A record that can't be read is an error where it would have come.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(8)))
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").permute(seed=5)
        >>> first, second = [int(x) for x in ds], [int(x) for x in ds]
        >>> sorted(first) == sorted(second) == list(range(8)), first == second
        (True, False)
        """
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        check_bool(reshuffle, "reshuffle_each_iteration")
        return Dataset._of(permuted(self._chain, Permute(reshuffle, ShuffleSeeds(*_seeds.resolve(seed)))))

    def shard(
        self,
        num_shards: SupportsIndex | None = None,
        index: SupportsIndex | None = None,
        name: str | None = None,
        *,
        uneven: Literal["keep", "drop", "pad", "raise"] = "keep",
    ) -> Dataset:
        """Keep every `num_shards`-th element: the part of one of several processes that share the data.

        Parameters
        ----------
        num_shards : int, optional
            How many processes (or other shards) there are, at least 1.
        index : int, optional
            Which of them this one is, from 0 to ``num_shards - 1``: it gets the elements whose number, from 0 on,
            modulo `num_shards` is `index`. With neither of the two, the environment variables ``WORLD_SIZE`` and
            ``RANK`` are read, now.
        uneven : {"keep", "drop", "pad", "raise"}, default "keep"
            What to do if `num_shards` doesn't divide the number of elements:

            - "keep": the first shards get one element more, as in tf.data.
            - "drop": every shard gets as many as the last one; if there are fewer elements than shards, none.
            - "pad": every shard gets as many as the first one: shards that lack an element get one from the beginning
            of
              the pass again, in turn, as often round as it takes.
            - "raise": an `InvalidArgumentError`, from ``iter()`` where the number of elements is known without reading,
              else on every shard after the same number of elements.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If a number is out of its range, only one of the two is given, `uneven` is none of these words, or a
            variable is missing, no integer, or doesn't fit the other one.
        UnimplementedError
            When iterating with ``on_error="skip"`` over a shard of batches; not with "pad" unless the batches are of
            uncompressed records of fixed length.

        Notes
        -----
        With all but "keep", all shards have the same number of elements, hence of batches after it, by construction: so
        no process waits for others that have ended. Errors may still end one earlier: a record that can't be read is
        met by the shard it belongs to. With ``on_error="skip"``, a shard leaves out its own bad records, and has
        so many fewer.

        With "pad", of uncompressed records of fixed length the first ones are read again by their places. Anything else
        is begun again at the end of each pass, as often as elements are lacking, and read from there: a function or a
        generator in Python runs again for them. Every shard goes through all elements; only native maps before the step
        are done by each on its own alone, unless there is a `batch`. So every shard tells the errors of all elements,
        each in its place and once in a pass, and counts good elements alone; an element that such a map can't
        decode is told where it would be, also where it would pad. With ``on_error="skip"`` all shards leave out the
        same elements, and have as many, but for those that such a map can't decode. An element left out is counted and
        logged once in a pass, and once more for what comes before a saved place.

        Records of other shards aren't read if records have known places, also after a `shuffle`, but for gaps of a
        few KiB, which the file system reads anyway. The step may stand anywhere: after a seeded `shuffle`, all
        processes together go over one order; before it, each shuffles its own part. Processes without a common seed
        have different orders, so shard before an unseeded shuffle.

        A state can be loaded with another number of shards: see `Iterator.load_state_dict`.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(8)))
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1")
        >>> [[int(x) for x in ds.shard(3, index)] for index in range(3)]
        [[0, 3, 6], [1, 4, 7], [2, 5]]
        >>> [[int(x) for x in ds.shard(3, index, uneven="drop")] for index in range(3)]
        [[0, 3], [1, 4], [2, 5]]
        >>> [[int(x) for x in ds.shard(3, index, uneven="pad")] for index in range(3)]
        [[0, 3, 6], [1, 4, 7], [2, 5, 0]]
        """
        check_name(name)
        if uneven not in UNEVEN:
            raise InvalidArgumentError(f"uneven must be one of {', '.join(map(repr, UNEVEN))}, not {uneven!r}")
        number, own = resolve_shard(num_shards, index)
        chain = self._chain
        if uneven != "pad" or isinstance(chain.source, FixedLengthSource):
            return self._then(Shard(number, own, uneven))
        return Dataset._of(padded_shard(chain, number, own))

    def prefetch(self, buffer_size: SupportsIndex | None, name: str | None = None) -> Dataset:
        """Make elements ahead of the consumer.

        Parameters
        ----------
        buffer_size : int or None
            How many elements; `AUTOTUNE` (-1) and `None`: the library's choice. Any number is good: memory is taken as
            elements are made, for at most 65536 batches, and no more than a quarter of what this process may have.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

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

        Python, in a generator or a function of `map`, makes elements one by one, and no more than the last step says,
        or the last ones together: after n elements were taken, n + `buffer_size`, whether batches or not, and as many
        more as `num_parallel_calls` has threads. So 0 calls it only for an element that is asked for. Further steps in
        Python in between, other than `batch`, run ahead as they do without this step.
        """
        check_name(name)
        wanted = AUTOTUNE if buffer_size is None else buffer_size
        return self._then(Prefetch(check_int(wanted, "buffer_size", AUTOTUNE)))

    def prefetch_to_device(
        self,
        device: str = "auto",
        buffers: SupportsIndex = 3,
        *,
        mode: Literal["lease", "ring"] = "lease",
        pinned: Literal["require", "prefer"] = "require",
    ) -> DeviceDataset:
        """Bring elements to a device ahead of the consumer: the last step of a pipeline, apart from maps on the device.

        Parameters
        ----------
        device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
            ``"auto"``: the first GPU; where there is none that can be used, the host, and why is logged once.
            ``"cpu"``: the host. The same API everywhere.
        buffers : int, default 3
            How many elements may be on the device at a time, 2 to 64: one that the consumer works on, the others on
            their way.
        mode : {"lease", "ring"}, default "lease"
            An element is good as long as its arrays are referred to, or only until the next one is taken.
        pinned : {"require", "prefer"}, default "require"
            Whether host memory that can't be page-locked is an error, or is used with one warning, more slowly; counted
            by ``stats()["pageable_copies"]``.

        Returns
        -------
        DeviceDataset
            Of CuPy arrays; on the host of NumPy arrays.

        Raises
        ------
        DeviceUnavailableError
            If a GPU is asked for and there is no driver, no such device, or no CuPy.
        InvalidArgumentError
            If an argument is none of these.

        Notes
        -----
        One native thread copies; neither it nor what fills the batches needs the GIL, if all steps are native (`plan`).
        Batches of one size go to the device as they lie in the page-locked memory that they were made in. When an
        iterator is made, the driver is asked for page-locked memory (`ResourceExhaustedError` if it has none) and for
        the device's (likewise).

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(6).batch(3).prefetch_to_device("cpu").map(lambda x: x * 2)
        >>> [batch.tolist() for batch in ds]
        [[0, 2, 4], [6, 8, 10]]
        """
        return device_dataset(self._chain, device, buffers, mode, pinned)

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Set how the dataset runs.

        Parameters
        ----------
        options : Options
            Options that are not `None` replace those set before; the others stay. They are copied, now.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `options` is no `Options`.
        """
        check_name(name)
        return Dataset._of(self._chain.with_options(options))

    def options(self) -> Options:
        """Return the options that `with_options` has set.

        Returns
        -------
        Options
            A copy. To set an attribute of it is a `ValueError`: `with_options` sets options.
        """
        return self._chain.options.merged(Options()).fix()

    def apply(self, transformation_func: Callable[[Dataset], _Applied]) -> _Applied:
        """Apply a function that adds steps to this dataset.

        Parameters
        ----------
        transformation_func : callable
            Takes this dataset and returns another one. It is called once, now; its exceptions pass through unchanged.

        Returns
        -------
        Dataset
            The function's result.

        Raises
        ------
        InvalidArgumentError
            If the function can't be called, or doesn't return a dataset.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(5)))
        >>> def in_pairs(ds):
        ...     return ds.batch(2, drop_remainder=True)
        >>> [batch.tolist() for batch in qc.data.FixedLengthRecordDataset(file, record="u1").apply(in_pairs)]
        [[0, 1], [2, 3]]
        """
        if not callable(transformation_func):
            raise InvalidArgumentError(f"transformation_func must be callable, not {transformation_func!r}")
        made = transformation_func(self)
        if not isinstance(made, Dataset | DeviceDataset):
            raise InvalidArgumentError(f"{transformation_func!r} must return a Dataset, and returned {made!r}")
        return made

    def map(
        self,
        map_func: Stage | Callable[..., Any],
        num_parallel_calls: SupportsIndex | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool | None = False,
        name: str | None = None,
        *,
        on_device: bool = False,
    ) -> Dataset:
        r"""Apply a function to each element.

        Parameters
        ----------
        map_func : callable or Stage
            A function of an element; the parts of a tuple are arguments of their own. It is called once, now, with
            symbols, and becomes a native stage if it touches them only by operations of `queuecore.ops`, constant
            indices, arithmetic, comparison, and NumPy's element-wise functions, and returns them in tuples, dicts and
            lists. Any other function is called in Python for each element.
            Or an operation of `queuecore.ops`, called without input; several are combined by `queuecore.ops.compose`.
        num_parallel_calls : int, optional
            In how many threads a function runs that runs in Python. `None` (the default): in one, an element after the
            other. `AUTOTUNE` (-1): as many as serve, which is found out; none where calls take less than about 50 us.
            Native stages run in `Options.num_threads`.
        deterministic : bool, optional
            Whether elements keep their order where a function runs in several threads. Default:
            `Options.deterministic`, and else they do.
        synchronous, use_unbounded_threadpool : bool, optional
            Checked, and not used: they choose among tf.data's pools of threads.
        on_device : bool, default False
            Do it on the device that `prefetch_to_device` sends the elements to, behind the copy, if that is possible:
            what it makes there need not be copied.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If the operation can't work on the elements, or makes something that can't be batched; if it is neither
            a function nor an operation; if `num_parallel_calls` is 0 or less than -1.
        UnimplementedError
            If an operation comes after a `batch` and makes something else of a batch than of its elements one by one.

        Notes
        -----
        A native stage runs in the native threads, without the GIL, several elements at a time; several maps in a row
        share a pass where they can. A random operation draws from its seed, from the number of the pass over the files,
        and from the record's number in it: so the number of threads changes nothing; in a function, too.

        A function that became a stage makes what it would make of arrays, bit for bit, with NumPy's rules for dtypes;
        NumPy's warnings (of an overflow, for example) don't come. Its other effects happen while it is traced,
        not for each element, and values that it takes from elsewhere stay as they were then.

        A function that runs in Python gets an element as an iterator gives it: after a `batch` the whole batch, as
        views of memory that is kept as long as they are, so that NumPy's functions work on it at once. Its result
        becomes an element: numbers NumPy's, strings `bytes`. Arrays are copied at once, so that it may fill the same
        one again; not copied are those that nobody else refers to (known where Python counts all references: with a
        GIL, before 3.14), and those in memory that nobody can write to, of `bytes` or of a map of a file that is only
        read. Its structure and dtypes must be those of the first one. Its exception becomes a `PipelineError` in its
        place in the order, with the exception as ``__cause__``; `KeyboardInterrupt` and `SystemExit` come out as they
        are. It can't use an iterator that it makes elements for, but make others. To know `element_spec`, the first
        element is made, once.

        A list that a function returns, native or not, counts as a tuple, as in tf.data (so does that of `decode_csv`);
        one that is a part of a tuple, dict or list is an array.

        A saved place doesn't hold what the function did: where a run goes on, it is called again for some elements
        before that place and for all after it (with ``on_error="skip"``: for all of the pass). Where order isn't kept,
        a place says how many elements were delivered, and not which.

        Strings come out of a batch as a `Ragged`, as do rows of different lengths. Arrays of which only the data knows
        the shape must have the same one in all elements of a batch; else it is an `InvalidArgumentError`.

        A record that can't be decoded is an error in its place in the order, after all elements before it.

        Maps that `on_device` marks go to the device, from before the `batch` as well as from after it, if all maps
        between it and `prefetch_to_device` go there too, and nothing else makes new elements there (`zip`, `unbatch`,
        `padded_batch` and so on). Together they are one kernel, with the maps of the `DeviceDataset`, which says what
        can be in one (`DeviceDataset.map`). All others are done on the host, as without the mark; `DeviceDataset.plan`
        says why. The elements are the same, bit for bit, and so are saved places.

        Examples
        --------
        >>> import pathlib
        >>> import numpy as np, queuecore as qc
        >>> file = pathlib.Path("numbers.txt")
        >>> _ = file.write_text("1,2\n3,4\n")
        >>> ds = qc.data.TextLineDataset(file).map(qc.ops.decode_csv(record_defaults=[np.float32, np.int32]))
        >>> for batch in ds.batch(2):
        ...     print(batch)
        (array([1., 3.], dtype=float32), array([2, 4], dtype=int32))
        >>> for batch in ds.map(lambda x, y: {"x": x / 2, "odd": y % 2 == 1}).batch(2):
        ...     print(batch)
        {'x': array([0.5, 1.5], dtype=float32), 'odd': array([False, False])}
        >>> [x.tolist() for x in ds.map(lambda a, b: np.full(int(b), a))]
        [[1.0, 1.0], [3.0, 3.0, 3.0, 3.0]]
        """
        check_name(name)
        calls = check_threads(num_parallel_calls, "num_parallel_calls", _MOST_CALLS)
        threads = AUTOTUNE if calls is None and num_parallel_calls is not None else calls
        ordered = None if deterministic is None else check_bool(deterministic, "deterministic")
        for value, what in ((synchronous, "synchronous"), (use_unbounded_threadpool, "use_unbounded_threadpool")):
            check_bool(False if value is None else value, what)
        marked = check_bool(on_device, "on_device")
        return Dataset._of(mapped_chain(self._chain, map_func, threads, ordered, marked))

    def map_and_batch(
        self,
        map_func: Stage | Callable[..., Any],
        batch_size: SupportsIndex,
        num_parallel_batches: SupportsIndex | None = None,
        drop_remainder: bool = False,
        num_parallel_calls: SupportsIndex | None = None,
    ) -> Dataset:
        """Apply a function to each element, and stack consecutive results.

        Parameters
        ----------
        map_func
            As for `map`.
        batch_size, drop_remainder
            As for `batch`.
        num_parallel_batches : int, optional
            Batches to work on at a time, at least 1; each takes as many calls as it has elements.
        num_parallel_calls : int, optional
            As for `map`. Only one of the two may be given.

        Returns
        -------
        Dataset
            The same as ``map(map_func, num_parallel_calls).batch(batch_size, drop_remainder)``.

        Raises
        ------
        InvalidArgumentError, UnimplementedError
            As for these two methods, or if both parallel arguments are given.
        """
        size = check_int(batch_size, "batch_size", 1)
        calls = num_parallel_calls
        if num_parallel_batches is not None:
            if num_parallel_calls is not None:
                raise InvalidArgumentError("give either num_parallel_batches or num_parallel_calls, and not both")
            calls = min(size * check_int(num_parallel_batches, "num_parallel_batches", 1), _MOST_CALLS)
        return self.map(map_func, calls).batch(size, drop_remainder)

    def take_while(self, predicate: Stage | Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements before the first one that a function rejects.

        Parameters
        ----------
        predicate : Stage or callable
            Takes an element and returns a bool, as for `filter`.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its number of elements is unknown before it is read.

        Raises
        ------
        InvalidArgumentError
            If it is known not to return one bool, or can't be called; when iterating, in its place, if it returns
            something else.

        Notes
        -----
        The rules of `filter` for native and other functions, and for errors, hold here too. To go on from a saved
        state, the function is called for all elements before it.

        Examples
        --------
        >>> import queuecore as qc
        >>> [int(x) for x in qc.data.Dataset.range(10).take_while(lambda n: n * n < 10)]
        [0, 1, 2, 3]
        """
        check_name(name)
        return _of(TakeWhile.of(self._chain, predicate))

    def unique(self, name: str | None = None) -> Dataset:
        """Keep the first of all elements that are equal.

        Parameters
        ----------
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its number of elements is unknown before it is read.

        Raises
        ------
        DtypeError
            If an element is anything else than integers or strings, in one component.

        Notes
        -----
        Each pass keeps all that it has given in memory, and asks in Python, for one element after the other. To go on
        from a saved place, the elements before it are read again.

        Examples
        --------
        >>> import queuecore as qc
        >>> [int(x) for x in qc.data.Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique()]
        [1, 37, 2]
        """
        check_name(name)
        return _of(UniqueNode.of(self._chain))

    def scan(
        self, initial_state: Any, scan_func: Callable[[Any, Any], tuple[Any, Any]], name: str | None = None
    ) -> Dataset:
        """Apply a function to each element, with a state that passes from element to element.

        Parameters
        ----------
        initial_state : array, bytes, `Ragged` or `Sparse`, or a dict or tuple of them, nested
            The state of the first call, in each pass. It is copied.
        scan_func : callable
            From a state and an element, which stays one argument if it is a tuple, to a pair: the next state and the
            new element. The state keeps its structure and its dtypes; its shapes may change.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            With as many elements as this one.

        Raises
        ------
        InvalidArgumentError
            If `scan_func` can't be called, or `initial_state` has a part that is no array.
        DtypeError
            When iterating, in its place, if `scan_func` returns no pair, or a state of another structure or dtype.

        Notes
        -----
        The function is called in Python, in one thread, for one element after the other. It may change the state that
        it gets and return it: what it returns as an element is a copy where the two share memory. Its exception becomes
        a `PipelineError` in the place of the element, and the next call gets the state from before. To go on from a
        saved place, the function is called for all elements before it.

        Follows ``tf.data.Dataset.scan``.

        Examples
        --------
        >>> import queuecore as qc
        >>> sums = qc.data.Dataset.range(1, 6).scan(0, lambda total, x: (total + x, total + x))
        >>> [int(x) for x in sums]
        [1, 3, 6, 10, 15]
        """
        check_name(name)
        return _of(Scan.of(self._chain, initial_state, scan_func))

    # -- out of what is in memory --------------------------------------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of one element.

        Parameters
        ----------
        tensors : array, `Ragged`, `Sparse` or dataset, or a dict or tuple of them, nested
            The element. A number, a list and a string are arrays; a list is always one array. Tuples with names,
            dataclasses and classes of attrs are structure too, and stay what they are; so does `None`.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If there is no array in it, or a list isn't rectangular.
        DtypeError
            If a part is neither of numbers nor of strings.

        Notes
        -----
        Memory is used as in `from_tensor_slices`. An element that has a part of which there are no rows (a `Ragged`, or
        strings in several dimensions) comes with arrays that can't be written to: they are the same ones in every pass.

        Examples
        --------
        >>> import queuecore as qc
        >>> list(qc.data.Dataset.from_tensors({"x": [1, 2], "name": "a"}))
        [{'x': array([1, 2]), 'name': b'a'}]
        """
        check_name(name)
        rows = rows_of_element(tensors)
        if rows is not None:
            return _of(Slices((), Rows(1, rows[0]), rows[1]))
        element, spec = element_of(tensors)
        return _of(Items((), [element], spec))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of the slices of arrays along their first dimension.

        Parameters
        ----------
        tensors : array, `Ragged`, `Sparse`, table or list of datasets, or a dict or tuple of them, nested
            Numbers, booleans, or strings (`bytes`, or `str`, which becomes UTF-8). A list is one array. A structured
            array is a dict of its fields; a ``pyarrow.Table`` or ``RecordBatch``, or a ``DataFrame`` of pandas or
            polars, is a dict of its columns.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its elements have the structure of `tensors`, and of each array one row: an array, or `bytes`. Structure is
            that of `from_tensors`.

        Raises
        ------
        InvalidArgumentError
            If there is no array, an array is a scalar, they are not of one length, a list isn't rectangular, or a
            table's column has missing values.
        DtypeError
            If an array is neither of numbers nor of strings.

        Notes
        -----
        Arrays are taken as they are now: they are copied, once, and may change afterwards. Only memory that nobody can
        write to is used where it is: ``numpy.memmap(..., mode="r")``, for what is larger than memory, and other maps of
        files that are only read, which can't be closed as long as the dataset is there; and `bytes`
        (``numpy.frombuffer``). That an array is marked as read-only isn't enough: others may write to the same memory.

        A saved state holds a digest of the data, of which all bytes are read for it, the first time.

        Examples
        --------
        >>> import numpy as np, queuecore as qc
        >>> ds = qc.data.Dataset.from_tensor_slices((np.arange(3), ["a", "b", "c"]))
        >>> for number, letter in ds:
        ...     print(number, letter)
        0 b'a'
        1 b'b'
        2 b'c'
        """
        check_name(name)
        rows = rows_of_slices(tensors)
        if rows is None:
            return _of(Items((), *objects_of_slices(tensors)))
        return _of(Slices((), Rows(*rows[:2]), rows[2]))

    @staticmethod
    def range(*args: SupportsIndex, output_type: Any = np.int64, name: str | None = None) -> Dataset:
        """Return a dataset of the numbers of a range.

        Parameters
        ----------
        *args : int
            ``stop``; ``start, stop``; or ``start, stop, step``, as of Python's `range`.
        output_type : dtype, default int64
            The dtype of the elements.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `step` is 0, or numbers don't fit `output_type`.
        DtypeError
            If `output_type` is no dtype of numbers.

        Examples
        --------
        >>> import queuecore as qc
        >>> [int(x) for x in qc.data.Dataset.range(5, 0, -2)]
        [5, 3, 1]
        """
        check_name(name)
        return _of(Numbers.of(args, output_type))

    @staticmethod
    def counter(start: Any = 0, step: Any = 1, dtype: Any = np.int64, name: str | None = None) -> Dataset:
        """Return a dataset of numbers that has no end.

        Parameters
        ----------
        start : int or float, default 0
            The first number.
        step : int or float, default 1
            What each number is more than the one before; 0 and less are allowed.
        dtype : dtype, default int64
            The dtype of the elements. Whole numbers wrap at its end.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `start` or `step` is no number, or isn't whole and `dtype` is; if `start` doesn't fit `dtype`.
        DtypeError
            If `dtype` is no dtype of numbers.

        Notes
        -----
        Number i is ``start + i * step``, rounded once, where tf.data adds and rounds i times.

        Examples
        --------
        >>> import queuecore as qc
        >>> [int(x) for x in qc.data.Dataset.counter(10, 5).take(3)]
        [10, 15, 20]
        """
        check_name(name)
        return _of(Counter.of(start, step, dtype))

    @staticmethod
    def list_files(
        file_pattern: Filename | Iterable[Filename],
        shuffle: bool | None = None,
        seed: SupportsIndex | None = None,
        name: str | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Return a dataset of the names of files.

        Parameters
        ----------
        file_pattern : str, bytes, os.PathLike, or a sequence of them
            Glob patterns. The names are sorted by bytes; one that several patterns match comes several times.
        shuffle : bool, optional
            Whether they come in another order each time, as with ``shuffle(count, seed)``. `None` (the default): yes.
        seed : int, optional
            The seed of that shuffle.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.
        storage_options : dict, optional
            What fsspec needs to know for URLs: as of `FixedLengthRecordDataset`. A dataset that a function of
            `interleave` or `flat_map` makes of the names opens them with these too, unless it is given others.

        Returns
        -------
        Dataset
            Of `bytes`.

        Raises
        ------
        InvalidArgumentError
            If nothing matches, or a pattern has a NUL in it.

        Notes
        -----
        The directories are read here and now.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> for name in "ba":
        ...     _ = pathlib.Path(name).write_text(name)
        >>> for path in qc.data.Dataset.list_files("*", shuffle=False):
        ...     print(pathlib.Path(path.decode()).name)
        a
        b
        """
        check_name(name)
        shuffled = True if shuffle is None else check_bool(shuffle, "shuffle")
        store = remote.store_of(storage_options)
        names = expand_patterns(file_pattern, store)
        files = Dataset.from_tensor_slices(names)
        if store is not None and isinstance(source := chain_of(files).source, Slices):  # as names always are
            files = Dataset._of(Chain(replace(source, listed_by=store)))
        return files.shuffle(len(names), seed) if shuffled else files

    # -- combined ------------------------------------------------------------------------------------------------------

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Return a dataset whose elements consist of those of several datasets. It ends with the shortest.

        Parameters
        ----------
        *args : Dataset
            The datasets; or one dict or tuple of them, nested.
        datasets : dict or tuple of Dataset, optional
            The same, by name.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its elements have the structure of the arguments.

        Raises
        ------
        InvalidArgumentError
            If there is no dataset, or they are given in both ways.
        DtypeError
            If one is something else.

        Notes
        -----
        An error of a dataset comes in the place of its element, if no dataset before it has ended.

        Examples
        --------
        >>> import queuecore as qc
        >>> a, b = qc.data.Dataset.range(3), qc.data.Dataset.range(10, 15)
        >>> [(int(x), int(y)) for x, y in qc.data.Dataset.zip(a, b)]
        [(0, 10), (1, 11), (2, 12)]
        """
        check_name(name)
        if bool(args) == (datasets is not None):
            raise InvalidArgumentError("zip takes datasets, or a structure of them, in one way")
        given = datasets if datasets is not None else args[0] if len(args) == 1 else args
        template, inputs = flattened(given, lambda leaf, where: _checked(leaf, f"zip: datasets{where}"))
        if has_none(template):
            raise DtypeError(f"zip: datasets must be datasets, not None: {given!r:.60}")
        if not inputs:
            raise InvalidArgumentError("zip: there is no dataset in datasets")
        return _of(Zip(tuple(inputs), template))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Append the elements of another dataset.

        Parameters
        ----------
        dataset : Dataset
            Of elements of the same structure and dtypes. Where shapes differ, `element_spec` has `None`.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        DtypeError
            If structures or dtypes differ.

        Examples
        --------
        >>> import queuecore as qc
        >>> [int(x) for x in qc.data.Dataset.range(2).concatenate(qc.data.Dataset.range(7, 9))]
        [0, 1, 7, 8]
        """
        check_name(name)
        return _of(Concatenate.of(self._chain, _checked(dataset, "concatenate: dataset")))

    def enumerate(self, start: SupportsIndex = 0, name: str | None = None) -> Dataset:
        """Give each element its number.

        Parameters
        ----------
        start : int, default 0
            The first number.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Of tuples: the number, as int64, and the element.

        Raises
        ------
        InvalidArgumentError
            If `start` isn't an integer of 64 bits.

        Examples
        --------
        >>> import queuecore as qc
        >>> [(int(i), x) for i, x in qc.data.Dataset.from_tensor_slices(["a", "b"]).enumerate(5)]
        [(5, b'a'), (6, b'b')]
        """
        check_name(name)
        return _of(Enumerate((self._chain,), check_int(start, "start", -(2**63))))

    def unbatch(self, name: str | None = None) -> Dataset:
        """Take elements apart, along their first dimension.

        Parameters
        ----------
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Of the rows of elements.

        Raises
        ------
        InvalidArgumentError
            If a component is a scalar, or it is known that components have different first dimensions. Where only the
            data shows that, it comes when iterating, in its place.

        Notes
        -----
        The rows of batches, and of arrays, are not copied for it.

        Examples
        --------
        >>> import numpy as np, queuecore as qc
        >>> ds = qc.data.Dataset.from_tensor_slices(np.arange(6).reshape(3, 2))
        >>> [int(x) for x in ds.unbatch()]
        [0, 1, 2, 3, 4, 5]
        """
        check_name(name)
        return _of(Unbatch((self._chain,)))

    def rebatch(
        self,
        batch_size: SupportsIndex | Sequence[SupportsIndex],
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Make batches of another size: `unbatch`, and then `batch`.

        Parameters
        ----------
        batch_size : int or sequence of int
            As of `batch`; or several sizes, from 0 on, that take turns. A batch of size 0 has no rows.
        drop_remainder : bool, default False
            As of `batch`.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            As of `unbatch` and `batch`; if there are no sizes, or all are 0.

        Notes
        -----
        With several sizes, NumPy cuts and joins batches, in the thread of the step.

        Examples
        --------
        >>> import queuecore as qc
        >>> for batch in qc.data.Dataset.range(5).batch(2).rebatch(3):
        ...     print(batch)
        [0 1 2]
        [3 4]
        >>> [batch.tolist() for batch in qc.data.Dataset.range(8).batch(4).rebatch([3, 1])]
        [[0, 1, 2], [3], [4, 5, 6], [7]]
        """
        check_name(name)
        drop = check_bool(drop_remainder, "drop_remainder")
        rows = rows_of_batches(self.element_spec)
        if not isinstance(batch_size, Sequence) and not (isinstance(batch_size, np.ndarray) and batch_size.ndim):
            size = check_int(batch_size, "batch_size", 1)
            # Where nothing remains, that is said of the batches.
            return self.unbatch().batch(size, drop or (rows is not None and rows > 0 and rows % size == 0))
        sizes = tuple(check_int(one, "batch_size", 0, _MOST_ROWS) for one in batch_size)
        if not any(sizes):
            raise InvalidArgumentError(f"rebatch: one of the sizes must be at least 1, not {list(sizes)}")
        return _of(Rebatch((self._chain,), sizes, drop))

    def window(
        self,
        size: SupportsIndex,
        shift: SupportsIndex | None = None,
        stride: SupportsIndex = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Make datasets of elements that follow each other.

        Parameters
        ----------
        size : int
            Elements of a window, at least 1.
        shift : int, optional
            Elements from the beginning of a window to that of the next one, at least 1. Default: `size`.
        stride : int, default 1
            Elements from one of a window to the next one in it, at least 1.
        drop_remainder : bool, default False
            Leave out windows at the end that aren't full.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its elements are datasets; of elements with a structure, that structure of datasets.

        Raises
        ------
        InvalidArgumentError
            If a number is out of its range.

        Notes
        -----
        After an error, what is good before it and in no window yet comes as a short one, except with `drop_remainder`.

        Examples
        --------
        >>> import queuecore as qc
        >>> for window in qc.data.Dataset.range(5).window(3, shift=2):
        ...     print([int(x) for x in window])
        [0, 1, 2]
        [2, 3, 4]
        [4]
        """
        check_name(name)
        length = check_int(size, "size", 1, _MOST_ROWS)
        return _of(
            WindowNode(
                (self._chain,),
                length,
                length if shift is None else check_int(shift, "shift", 1, _MOST_ROWS),
                check_int(stride, "stride", 1, _MOST_ROWS),
                check_bool(drop_remainder, "drop_remainder"),
            )
        )

    def cache(
        self,
        filename: Filename = "",
        name: str | None = None,
        *,
        on_unwritable: Literal["warn", "raise"] = "warn",
    ) -> Dataset:
        """Keep the elements of the first pass, for all later ones.

        Parameters
        ----------
        filename : str, bytes or os.PathLike, default ""
            What the names of two files begin with, ``.index`` and ``.data-00000-of-00001``; the directory is made if it
            is missing. Empty: in memory.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.
        on_unwritable : {"warn", "raise"}, default "warn"
            What happens where elements can't be kept, on a full disk for example. "warn": one `RuntimeWarning`, and all
            passes read the input. "raise": an error ends the pass, and the next pass tries again.

        Returns
        -------
        Dataset
            Its iterators share what is kept. Elements that are Python objects, such as batches, come with arrays that
            can't be written to: they are the same ones in every pass.

        Raises
        ------
        InvalidArgumentError
            If `filename` is no file name, or `on_unwritable` is another word; while iterating, with a `filename`, if an
            element has something else in it than None, bools, numbers, str, bytes, arrays and tuples, lists, dicts,
            dataclasses and classes of attrs of them.
        UnavailableError, PermissionDeniedError, ResourceExhaustedError
            While iterating with ``on_unwritable="raise"``, if the system refuses a file, or memory.

        Notes
        -----
        Filled as elements are read; only a pass that is read to its end counts. A cache in memory goes with the
        dataset and its iterators. A shuffle before it has one order, that of the pass that is kept.

        The files appear when they are complete, and never half. They are used by any later run of the same steps, seeds
        and arrays over the same files, which may be missing by then. For other ones, and for input files whose size or
        time has changed, there is a `FailedPreconditionError` that names the difference: remove the cache's files then.
        Python functions and URLs are known by their names only. Damage is a `ChecksumError`,
        `TruncatedRecordError` or `DataLossError` that names the place.

        Files don't say of what classes tuples with names and records are. Where elements are Python objects, the
        input's first element is made again to tell it.

        While files are written, a second process, or another dataset, gets an `AbortedError`; the lock of a process
        that was killed doesn't count. Other iterators of this dataset read the input meanwhile.

        Follows ``tf.data.Dataset.cache``, which trusts any files that are there.

        Examples
        --------
        >>> import queuecore as qc, pathlib
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(4)))
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").cache("kept")
        >>> [int(x) for x in ds]
        [0, 1, 2, 3]
        >>> file.unlink()
        >>> [int(x) for x in ds]
        [0, 1, 2, 3]
        """
        check_name(name)
        if on_unwritable not in ("warn", "raise"):
            raise InvalidArgumentError(f'on_unwritable must be "warn" or "raise", not {on_unwritable!r}')
        required = on_unwritable == "raise"
        store = Files(_name(filename, "filename"), required=required) if filename else Memory(required)
        return _of(Cache((self._chain,), store))

    def snapshot(
        self,
        path: Filename,
        compression: Literal["AUTO", "NONE", "GZIP"] | None = "AUTO",
        reader_func: Callable[[Dataset], Dataset] | None = None,
        shard_func: Callable[..., SupportsIndex] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Keep the elements of the first pass in files of a directory, for this pipeline and others.

        Parameters
        ----------
        path : str, bytes or os.PathLike
            The directory, which is made if it is missing. Each pipeline has a directory in it.
        compression : {"AUTO", "NONE", "GZIP"}, optional
            Of the files; ``"AUTO"`` and `None`: none.
        reader_func : callable, optional
            From a dataset of the shards, which are datasets of their elements, rising by their numbers, to a dataset of
            elements like these. Default: the shards in turns, an element of each.
        shard_func : callable, optional
            From an element to the number of the shard it belongs to, from 0 on; the parts of a tuple are arguments of
            their own. Default: that of the element, modulo 16.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `path` is no file name, `compression` another word, a function is none; and while iterating, as of
            `cache`, and if `shard_func` returns something else.
        DtypeError
            While iterating, if `reader_func` returns something else.

        Notes
        -----
        Files are those of `cache`, with the same promises. Only what is out of date isn't an error: other steps, seeds,
        arrays or names of files have a directory of their own, and where input files have changed, theirs is
        written anew. A second process that comes while files are written reads the input.

        With neither function all passes have the input's order. With one of them, the pass that writes has it, and
        so has each that comes before there are files; later ones, in other runs too, have that of the dataset that
        `reader_func` makes of the shards: it is called for each pass. A `shuffle` in it needs a seed where a saved
        place is to be found again. A pass is complete when all of the input was read, which is ahead of what was asked
        for. The shards are parts of one file. Another `shard_func`, by its name, has files of its own; it is called in
        Python, for each element that is written. An exception of either becomes a `PipelineError`, also with
        ``on_error="skip"``.

        Follows ``tf.data.Dataset.snapshot``, whose default shards are as many as there are CPUs.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(6).snapshot(
        ...     "kept", shard_func=lambda x: x % 2, reader_func=lambda shards: shards.flat_map(lambda shard: shard)
        ... )
        >>> [int(x) for x in ds], [int(x) for x in ds]
        ([0, 1, 2, 3, 4, 5], [0, 2, 4, 1, 3, 5])
        """
        check_name(name)
        word = compression.upper() if isinstance(compression, str) else compression
        if word not in ("AUTO", "NONE", "GZIP", "", None):
            raise InvalidArgumentError(f'compression must be "AUTO", "NONE" or "GZIP", not {compression!r}')
        compress = word == "GZIP"
        if reader_func is not None or shard_func is not None:
            return _of(Snapshot.of(self._chain, _name(path, "path"), compress, shard_func, reader_func))
        store = Files(_name(path, "path"), snapshot=True, compress=compress)
        return _of(Cache((self._chain,), store))

    def filter(self, predicate: Stage | Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements that a function accepts.

        Parameters
        ----------
        predicate : callable or Stage
            A function of an element, as of `map`, that returns one bool. After a `batch` it gets whole batches.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its number of elements is unknown before it is read.

        Raises
        ------
        InvalidArgumentError
            If it is known not to return one bool, or is neither a function nor an operation.

        Notes
        -----
        Like a function of `map` it becomes a native stage if that is possible, and else runs in Python, in one thread.
        Elements are not copied, and in Python it can't write to their arrays: they go on behind it. Its exceptions, and
        an answer that is no bool (`InvalidArgumentError`), come in their place in the order; with ``on_error="skip"``
        such an element is left out.

        Where a run goes on at a saved place, the elements of the pass before it are asked about again.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(10)))
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").filter(lambda x: x % 3 == 0)
        >>> [int(x) for x in ds]
        [0, 3, 6, 9]
        """
        check_name(name)
        return _of(Filter.of(self._chain, predicate))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Leave out elements that can't be made, and go on with the next one.

        Parameters
        ----------
        log_warning : bool, default False
            Whether each element that is left out gives a warning in the log ``"queuecore"``.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its number of elements is unknown before it is read.

        Raises
        ------
        InvalidArgumentError
            If `log_warning` is no bool.

        Notes
        -----
        It holds for what comes before it, as ``Options(on_error="skip")`` does for all of an iterator: damaged records,
        files that can't be opened, and functions that raise. Faults of the machine (failed reads, no memory) are errors
        still. Elements that it leaves out are not in ``stats()``. Of a `zip`, an error takes an element of each dataset
        away, so that pairs stay pairs. Good elements of a batch that an error cuts short are given, which tf.data
        drops.

        Where a run goes on at a saved place, the elements of the pass before it are made again.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.from_generator(lambda: iter([b"1", b"", b"2"])).map(lambda x: int(x))
        >>> [int(x) for x in ds.ignore_errors()]
        [1, 2]
        """
        check_name(name)
        return _of(Ignore((self._chain,), check_bool(log_warning, "log_warning")))

    # -- out of Python -------------------------------------------------------------------------------------------------

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of the elements that a Python function yields.

        Parameters
        ----------
        generator : callable
            Returns something to iterate over: a generator function, for example. It is called once for each pass.
        output_types : nest of dtype, optional
            What elements consist of, in tuples and dicts; ``bytes`` for strings.
        output_shapes : nest of tuple, optional
            Their shapes, with `None` for a side that may differ. Default: any.
        args : sequence, optional
            The arguments of `generator`, each as an array, or `bytes`.
        output_signature : nest of ArraySpec, optional
            Both in one, instead of the two.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its number of elements is unknown before it is read.

        Raises
        ------
        DtypeError
            If `generator` can't be called, or a type is no dtype.
        InvalidArgumentError
            If a shape is none, or `output_signature` is given and another one too.

        Notes
        -----
        Each element is taken as it is when it is yielded: arrays are copied before the generator goes on, if they have
        to be (see `map`), so it may fill the same one again. Its `args` are arrays of its own in each pass.

        With types and shapes (each with its number of dimensions; of strings at most one) elements go into rows, as
        those of arrays do: `map` and other steps behind it are native where they can be, and arrays are views of a
        batch. Otherwise elements are Python objects, and so is all that follows; so are rows of rows (`Ragged`).

        Numbers are converted to the dtype, if that loses nothing but digits behind the point's: an element of another
        type, structure or shape is an `InvalidArgumentError` in its place in the order. Without types, elements are
        taken as they come, converted like what a function of `map` returns. The generator's exception becomes a
        `PipelineError` in its place; `KeyboardInterrupt` and `SystemExit` come out as they are.

        The generator runs in a thread of its own, under the GIL, ahead of the consumer, and is closed when the
        iterator goes. It must yield the same elements whenever it is called: where a run goes on at a saved place, it
        is called anew, and what came before that place is dropped.

        The method follows ``tf.data.Dataset.from_generator``.

        Examples
        --------
        >>> import numpy as np, queuecore as qc
        >>> def squares(n):
        ...     for x in range(n):
        ...         yield x * x
        >>> ds = qc.data.Dataset.from_generator(squares, output_types=np.float32, args=[5])
        >>> for batch in ds.batch(3):
        ...     print(batch)
        [0. 1. 4.]
        [ 9. 16.]
        """
        check_name(name)
        if not callable(generator):
            raise DtypeError(f"from_generator: generator must be callable, not {generator!r}")
        signature = signature_of(output_types, output_shapes, output_signature)
        given = tuple(argument_of(one) for one in args or ())
        return _of(Generated((), generator, given, signature))

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """Make a dataset of each element, and concatenate these datasets.

        Parameters
        ----------
        map_func : callable
            Takes an element and returns a dataset; the parts of a tuple are separate arguments.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `map_func` can't be called.

        Notes
        -----
        The same as `interleave` with a `cycle_length` of 1.

        After a `window`, `map_func` is called once with what only stands for windows. If it makes one batch of each
        whole window (``lambda w: w.batch(size)``, or a `zip` of such batches), windows are cut out of the rows as
        arrays, and it is never called again.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(1, 4).flat_map(lambda n: qc.data.Dataset.range(n))
        >>> [int(x) for x in ds]
        [0, 0, 1, 0, 1, 2]
        """
        check_name(name)
        windows = stacked(self._chain, map_func) if callable(map_func) else None
        if windows is not None:
            return Dataset._of(replace(self._chain, source=windows))
        return self._interleaved("flat_map", map_func, 1, 1, 0, False)

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: SupportsIndex | None = None,
        block_length: SupportsIndex | None = None,
        num_parallel_calls: SupportsIndex | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make a dataset of each element, and take turns among several of these.

        Parameters
        ----------
        map_func : callable
            Takes an element and returns a dataset; the parts of a tuple are separate arguments.
        cycle_length : int, optional
            How many datasets take turns. Default, and with `AUTOTUNE` (-1): `num_parallel_calls`, if that is a number,
            else 1; the same on every machine.
        block_length : int, optional
            How many elements each gives in its turn. Default: 1.
        num_parallel_calls : int, optional
            How many datasets are begun at a time, so that they are read ahead of their turn: 1 to `cycle_length`, or
            `AUTOTUNE` (-1): all of the cycle, and the one that comes after. Default: each begins when its turn comes.
        deterministic : bool, optional
            `False`: a dataset whose next element isn't ready loses its turn. Default: turns are kept, unless there is
            `num_parallel_calls` and `Options.deterministic` is `False`.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If a number is out of its range, or `map_func` can't be called.

        Notes
        -----
        The order is that of tf.data, except that there `cycle_length` depends on the number of CPUs if it isn't given.
        A dataset is begun when it is its turn and a place is free; one that ends gives its place away when its turn
        comes again.

        `map_func` is called in Python, once an element, and once more beforehand, for the first one: the structure of
        the elements shows in what it returns. All datasets must have elements alike: else it is a `DtypeError`, when
        the first other one comes. Its exception becomes a `PipelineError`, and is that one's ``__cause__``. Rows of
        the datasets, each read by native threads of its own, are put together without copying elements one by one.

        Of names of files that are known beforehand (`from_tensor_slices`, `list_files`), `map_func` is called at once,
        and for each of up to 1,000. If all it makes of each is the same dataset of the lines, TFRecords, rows or
        records of that file, all of it is done natively, in one stream with all threads. So it is with any number of
        names if `map_func` is such a class of datasets itself, or a `functools.partial` of one. In between may be
        `take`, `skip`, `shard` and `repeat`; also `shuffle` and `permute`: then there is a stream for each pass, whose
        files are read again up to a saved place.

        To go on from a saved state, `map_func` is called again for the elements before it. Datasets that know how
        many elements they have are not read again, others are. With ``deterministic=False`` the order is another one
        each time, and the state says how far each dataset was: each element comes exactly once.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(3).interleave(
        ...     lambda n: qc.data.Dataset.range(10 * n, 10 * n + 3), cycle_length=2, block_length=2
        ... )
        >>> [int(x) for x in ds]
        [0, 1, 10, 11, 2, 12, 20, 21, 22]
        """
        check_name(name)
        calls = AUTOTUNE
        if num_parallel_calls is not None:
            calls = check_int(num_parallel_calls, "num_parallel_calls", AUTOTUNE, _MOST_CYCLE)
        cycle = _cycle(cycle_length, max(calls, 1))
        begun_count = 0
        if num_parallel_calls is not None:
            if calls == 0 or calls > cycle:
                raise InvalidArgumentError(
                    f"num_parallel_calls must be 1 to cycle_length, which is {cycle}, or AUTOTUNE (-1), not {calls}"
                )
            begun_count = calls if 0 < calls < cycle else cycle + 1
        sloppy = None if num_parallel_calls is not None else False
        if deterministic is not None:
            sloppy = not check_bool(deterministic, "deterministic")
        return self._interleaved("interleave", map_func, cycle, block_length, begun_count, sloppy)

    def parallel_interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: SupportsIndex | None,
        block_length: SupportsIndex | None = 1,
        sloppy: bool = False,
        buffer_output_elements: SupportsIndex | None = None,
        prefetch_input_elements: SupportsIndex | None = None,
    ) -> Dataset:
        """Take turns among datasets that are all begun ahead.

        Parameters
        ----------
        map_func, cycle_length, block_length
            As of `interleave`.
        sloppy : bool, default False
            Whether a dataset whose next element isn't ready loses its turn.
        buffer_output_elements : int, optional
            Not used: how far each dataset reads ahead is its own affair.
        prefetch_input_elements : int, optional
            How many datasets are begun besides those that take turns. Default: 1.

        Returns
        -------
        Dataset
            Unless `sloppy`, the order is that of `interleave`.

        Raises
        ------
        InvalidArgumentError
            If a number is out of its range, or `map_func` can't be called.
        """
        cycle = _cycle(cycle_length, 1)
        if buffer_output_elements is not None:
            check_int(buffer_output_elements, "buffer_output_elements", AUTOTUNE)
        more = 1
        if prefetch_input_elements is not None:
            more = check_int(prefetch_input_elements, "prefetch_input_elements", AUTOTUNE, _MOST_CYCLE)
        begun = cycle + (1 if more == AUTOTUNE else more)
        given = check_bool(sloppy, "sloppy")
        return self._interleaved("parallel_interleave", map_func, cycle, block_length, begun, given)

    def _interleaved(
        self, method: str, map_func: Any, cycle: int, block_length: Any, begun_count: int, sloppy: bool | None
    ) -> Dataset:
        if not callable(map_func):
            raise InvalidArgumentError(f"{method}: map_func must be a function, not {map_func!r:.60}")
        check_function(self._chain, map_func, method)
        block = 1 if block_length is None else check_int(block_length, "block_length", 1, _MOST_ROWS)
        # The files of one kind of dataset: natively, in one stream.
        found = None if sloppy else of_names(self._chain, map_func, method, cycle, block)
        if found is not None:
            return Dataset._of(Chain(found, (), self._chain.options))
        return _of(Interleave((self._chain,), method, map_func, cycle, block, begun_count, sloppy))

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Take elements of several datasets, in the turns that another dataset gives.

        Parameters
        ----------
        datasets : sequence of Dataset
            Of elements of the same structure and dtypes.
        choice_dataset : Dataset
            Of integers: from which dataset the next element is.
        stop_on_empty_dataset : bool, default True
            End when one is asked that has no more elements. Otherwise go on without it.

        Returns
        -------
        Dataset
            It ends with `choice_dataset`, too.

        Raises
        ------
        InvalidArgumentError
            If there are no datasets; when iterating, in its place, if there is none with a number.
        DtypeError
            If structures or dtypes differ, or `choice_dataset` isn't of single integers.

        Notes
        -----
        To go on from a saved state, the choices before it are read again; with ``stop_on_empty_dataset=False`` the
        elements too.

        Examples
        --------
        >>> import queuecore as qc
        >>> a, b = qc.data.Dataset.range(3), qc.data.Dataset.range(10, 13)
        >>> choice = qc.data.Dataset.from_tensor_slices([0, 1, 1, 0, 1])
        >>> [int(x) for x in qc.data.Dataset.choose_from_datasets([a, b], choice)]
        [0, 10, 11, 1, 12]
        """
        chains = _several(datasets, "choose_from_datasets")
        choices = _checked(choice_dataset, "choose_from_datasets: choice_dataset")
        components = choices.layout.components or ()
        if [(component.dtype.kind in "iu", component.shape) for component in components] != [(True, ())]:
            raise DtypeError(
                f"choose_from_datasets: choice_dataset must be of integers, not {choice_dataset.element_spec!r}"
            )
        stop = check_bool(stop_on_empty_dataset, "stop_on_empty_dataset")
        return _of(Choose((*chains, choices), len(chains), stop))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Sequence[float] | Dataset | None = None,
        seed: SupportsIndex | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Take elements of several datasets at random.

        Parameters
        ----------
        datasets : sequence of Dataset
            Of elements of the same structure and dtypes.
        weights : sequence of float, or Dataset, optional
            How often each is asked, in proportion; or a dataset with as many numbers in each element, for one choice
            each. Default: all as often.
        seed : int, optional
            Together with the graph-level seed it decides the turns. With no seed at all one is drawn, now.
        stop_on_empty_dataset : bool, default False
            End when one is asked that has no more elements. Otherwise go on without it.
        rerandomize_each_iteration : bool, optional
            Whether every pass has turns of its own. `None` (the default): no.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If there are no datasets, or not as many weights, or these are no numbers from 0 on, or all are 0.
        DtypeError
            If structures or dtypes differ.

        Notes
        -----
        The turns are not TensorFlow's own, as those of `shuffle` are, but as well defined: raw number ``i`` of NumPy's
        ``Philox(key=seeds, counter=[0, pass, 0, 0])``, as a fraction, decides turn ``i``; the pass is 0 unless
        `rerandomize_each_iteration`. Where a dataset has ended, the next number decides. To go on from a saved state,
        the elements before it are read again, except with ``stop_on_empty_dataset=True``.

        Examples
        --------
        >>> import queuecore as qc
        >>> a, b = qc.data.Dataset.range(4), qc.data.Dataset.range(10, 14)
        >>> [int(x) for x in qc.data.Dataset.sample_from_datasets([a, b], weights=[0.2, 0.8], seed=1)]
        [10, 11, 12, 13, 0, 1, 2, 3]
        """
        chains = _several(datasets, "sample_from_datasets")
        rerandomize = check_bool(bool(rerandomize_each_iteration), "rerandomize_each_iteration")
        seeds = Chain(Seeds(()), (Shuffle.make(1, seed, rerandomize),))
        stop = check_bool(stop_on_empty_dataset, "stop_on_empty_dataset")
        if isinstance(weights, Dataset):
            components = chain_of(weights).layout.components or ()
            if [(component.dtype.kind in "iuf", component.shape) for component in components] != [
                (True, (len(chains),))
            ]:
                raise InvalidArgumentError(
                    f"sample_from_datasets: weights must be of {len(chains)} numbers each, not {weights.element_spec!r}"
                )
            return _of(Sample((*chains, chain_of(weights), seeds), len(chains), stop, None, rerandomize))
        numbers = _weights([1.0] * len(chains) if weights is None else weights, len(chains))
        some = [(chain, weight) for chain, weight in zip(chains, numbers, strict=True) if weight > 0]
        inputs = tuple(chain for chain, _ in some)
        given_weights = tuple(weight for _, weight in some)
        return _of(Sample((*inputs, seeds), len(some), stop, given_weights, rerandomize))

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def element_spec(self) -> Any:
        """The structure of an element.

        An `ArraySpec`, or a dict of them where the records have fields (dicts in dicts for structures in structures);
        a `DatasetSpec` for what is a dataset itself.
        Batch dimensions are `None`, or the batch size where ``drop_remainder=True`` makes it certain.
        """
        return self._chain.element_spec

    @property
    def output_types(self) -> Any:
        """The dtypes of an element, in its structure; ``dtype("S")`` for strings of any length."""
        return mapped(type_of, self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element, in its structure; `None` for a dimension that isn't known."""
        return mapped(shape_of, self.element_spec)

    @property
    def output_classes(self) -> Any:
        """The classes of an element, in its structure.

        `numpy.ndarray`; for a single number that of NumPy's scalar; `bytes` for a single string; `Ragged` and `Sparse`;
        `Dataset`. `object` if the class is unknown.
        """
        return self._chain.element_classes

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
        return self._chain.cardinality()

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
        self._chain.check_shards()
        return Iterator(self._chain)

    def make_one_shot_iterator(self) -> Iterator:
        """Return a new iterator at the first element, as ``iter()`` does.

        Returns
        -------
        Iterator
            It can't begin again.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(2)))
        >>> it = qc.data.FixedLengthRecordDataset(file, record="u1").make_one_shot_iterator()
        >>> try:
        ...     while True:
        ...         print(int(it.get_next()))
        ... except qc.errors.OutOfRangeError as error:
        ...     print(error)
        0
        1
        End of sequence
        """
        return iter(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> InitializableIterator:
        """Return an iterator that begins, and begins again, when it is told to.

        Parameters
        ----------
        shared_name : str, optional
            All iterators of this name in the process take their elements from one place, and an initializer of any
            begins for all, as long as one of them exists.

        Returns
        -------
        InitializableIterator

        Raises
        ------
        InvalidArgumentError
            If there is one of this name, and its elements are specified otherwise.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(3)))
        >>> it = qc.data.FixedLengthRecordDataset(file, record="u1").make_initializable_iterator()
        >>> for epoch in range(2):
        ...     it.initializer()
        ...     print([int(x) for x in it])
        [0, 1, 2]
        [0, 1, 2]
        """
        return InitializableIterator(self, shared_name)

    def as_numpy_iterator(self) -> Iterator:
        """Return a new iterator at the first element, as ``iter()`` does: elements are NumPy's in any case.

        Returns
        -------
        Iterator
        """
        return iter(self)

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the element of a dataset that has only one.

        Parameters
        ----------
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        structure of ndarray, Ragged, Sparse or bytes

        Raises
        ------
        InvalidArgumentError
            If it has none, or more than one.

        Notes
        -----
        Waits, without the GIL, until it is clear that there is no second one.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(3)))
        >>> qc.data.FixedLengthRecordDataset(file, record="u1").batch(100).get_single_element()
        array([0, 1, 2], dtype=uint8)
        """
        check_name(name)
        with iter(self) as elements:
            for element in elements:
                for _ in elements:
                    raise InvalidArgumentError("Dataset had more than one element.")
                return element
        raise InvalidArgumentError("Dataset was empty.")

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """Reduce all elements to one value.

        Parameters
        ----------
        initial_state : array_like, or dict or tuple of them
            The state before the first element.
        reduce_func : callable
            From a state and an element to the next state: of the same structure and dtypes, of any shapes. A number of
            Python's that it returns becomes one of the state's dtype. As that of `map`, it is first called with
            symbols, and runs natively if it does no more to them than can be done so.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        structure of ndarray, NumPy scalar or bytes
            The last state; of no elements, the initial one.

        Raises
        ------
        DtypeError
            If the structure or a dtype of the state changes.
        InvalidArgumentError
            If the state isn't made of arrays, or a number returned doesn't fit into the state's dtype.
        PipelineError
            If the function raises: that exception is the ``__cause__``. `KeyboardInterrupt` and `SystemExit` come out
            as they are.

        Notes
        -----
        The function runs in the calling thread, once per element, in their order; the initial state is converted as by
        `numpy.array`, so that 0 is an int64, and is itself left alone. The function may change the arrays of a state in
        place and return these; of others that it keeps, the next state has copies. It runs without the GIL if it can be
        traced (see `map`), for states that are arrays of numbers whose shapes don't go on changing, and elements that
        are neither batches nor Python objects: with the same results, bit for bit, but without NumPy's warnings. Of
        what it does to elements alone a `map` before it makes work for all threads. Any other function takes the GIL
        for each element: put a `batch` before it. No iterator is left open after an error.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(5)))
        >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").batch(2)
        >>> def add(state, batch):
        ...     count, total = state
        ...     return count + len(batch), total + int(batch.sum())
        >>> count, total = ds.reduce((0, 0), add)
        >>> int(count), int(total)
        (5, 10)

        Without the GIL:

        >>> qc.data.Dataset.range(5).reduce((0, 1.0), lambda state, x: (state[0] + x, state[1] / 2))
        (np.int64(10), np.float64(0.03125))
        """
        check_name(name)
        return reduced(self._chain, initial_state, reduce_func)

    def __repr__(self) -> str:
        """Return the source and the steps, in one line."""
        return shown(self._chain)

    def plan(self) -> str:
        """Return the steps, and where each one runs.

        Returns
        -------
        str
            A line for each step, the last one first; a step's input stands behind it, further
            in. In front of each line: whether it runs natively, in threads that don't take the GIL, or in Python; at
            its end what part of it that is, and what forced Python. A native map makes many rows at a time, or one
            after the other where it can't. On a terminal long lines are broken.

        Notes
        -----
        Steps in a row that run natively are one stream: each batch is made in one go, by one thread or several.

        Examples
        --------
        >>> import queuecore as qc
        >>> print(qc.data.Dataset.range(10).map(lambda x: x * 2).batch(4).plan())
        native  batch(4, False): order
        native  map(traced(multiply(x0, int64(2)))): many rows at a time
        Python  range(0, 10): hands on rows, a chunk at a time
        """
        return written(lines_of(self._chain))

    def _then(self, *steps: PlannedStep) -> Dataset:
        return Dataset._of(self._chain.then(*steps))

    def _shape(self, node: Node | None, step: ShapedBatch) -> Dataset:
        if step.batch_size > _MOST_ROWS:
            raise InvalidArgumentError(f"{step.batch_size} records in a batch are more than is possible, {_MOST_ROWS}")
        return Dataset._of((self._chain if node is None else Chain.of(node)).then(step))


def _name(path: Any, subject: str) -> str:
    """Return a file's name as a string, whatever it was."""
    try:
        name = local_text(path)
    except TypeError:
        raise InvalidArgumentError(f"{subject} must be str, bytes or os.PathLike, not {path!r}") from None
    if not name or "\0" in name:
        raise InvalidArgumentError(f"{subject} can't be {path!r}")
    return name


def _cycle(cycle_length: Any, default: int) -> int:
    """Return how many datasets take turns; `default` for `None` and `AUTOTUNE`."""
    if cycle_length is None:
        return default
    cycle = check_int(cycle_length, "cycle_length", AUTOTUNE, _MOST_CYCLE)
    if cycle == 0:
        raise InvalidArgumentError("cycle_length must be at least 1, or AUTOTUNE (-1), not 0")
    return default if cycle == AUTOTUNE else cycle


def _of(source: Source) -> Dataset:
    """Return the dataset of a source, with the options of its inputs."""
    return Dataset._of(Chain.of(source))


def _checked(dataset: Any, what: str) -> Chain:
    if not isinstance(dataset, Dataset):
        raise DtypeError(f"{what} must be a dataset, not {dataset!r:.60}")
    return chain_of(dataset)


def _several(datasets: Any, what: str) -> tuple[Chain, ...]:
    if isinstance(datasets, Dataset) or not isinstance(datasets, Sequence):
        raise DtypeError(f"{what}: datasets must be a sequence of datasets, not {datasets!r:.60}")
    if not datasets:
        raise InvalidArgumentError(f"{what}: datasets is empty")
    return tuple(_checked(one, f"{what}: datasets[{index}]") for index, one in enumerate(datasets))


def _weights(weights: Any, number: int) -> list[float]:
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"sample_from_datasets: weights must be numbers, not {weights!r:.60}") from None
    if len(numbers) != number:
        raise InvalidArgumentError(f"sample_from_datasets: {len(numbers)} weights for {number} datasets")
    if not all(0 <= weight < math.inf for weight in numbers) or not any(numbers):
        raise InvalidArgumentError(f"sample_from_datasets: weights must be numbers from 0 on, not all 0; not {numbers}")
    return numbers


# Pickles name it, from when it had another name and other attributes.
_Steps = Outdated

register(Dataset)
