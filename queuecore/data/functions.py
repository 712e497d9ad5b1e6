"""Steps as functions, for `Dataset.apply`, and other functions with the names of ``tf.data.experimental``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from queuecore._checks.checks import check_int
from queuecore._elements.component import BYTES
from queuecore._elements.nests import mapped
from queuecore._elements.optional import Optional
from queuecore._elements.record import ArraySpec
from queuecore._io.names import Filename
from queuecore._ops.stage import Stage
from queuecore.data._nodes.access import element_at
from queuecore.data._nodes.groups import GroupByReducer, key_of
from queuecore.data._plan.chain import Chain, chain_of, dataset_of
from queuecore.data._rows.slices import zeros
from queuecore.data.dataset import Dataset
from queuecore.data.device import DeviceDataset
from queuecore.data.iterators import IteratorBase
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.writers import TFRecordWriter as Writer

__all__ = [
    "Counter",
    "RandomDataset",
    "Reducer",
    "TFRecordWriter",
    "assert_cardinality",
    "at",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_ragged_batch",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "from_list",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "load",
    "map_and_batch",
    "pad_to_cardinality",
    "parallel_interleave",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "save",
    "scan",
    "shuffle_and_repeat",
    "snapshot",
    "take_while",
    "unbatch",
    "unique",
]


def shuffle_and_repeat(
    buffer_size: SupportsIndex, count: SupportsIndex | None = None, seed: SupportsIndex | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.shuffle_and_repeat` on a dataset.

    Parameters
    ----------
    buffer_size, count, seed
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("numbers.bin")
    >>> _ = file.write_bytes(bytes(range(3)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").apply(qc.data.shuffle_and_repeat(1, count=2))
    >>> [int(x) for x in ds]
    [0, 1, 2, 0, 1, 2]
    """
    return lambda dataset: dataset.shuffle_and_repeat(buffer_size, count, seed)


def map_and_batch(
    map_func: Stage,
    batch_size: SupportsIndex,
    num_parallel_batches: SupportsIndex | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: SupportsIndex | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.map_and_batch` on a dataset.

    Parameters
    ----------
    map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.

    Examples
    --------
    >>> import pathlib
    >>> import numpy as np, queuecore as qc
    >>> file = pathlib.Path("numbers.bin")
    >>> _ = file.write_bytes(bytes(range(3)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1")
    >>> for batch in ds.apply(qc.data.map_and_batch(qc.ops.cast(dtype=np.float32), 2)):
    ...     print(batch)
    [0. 1.]
    [2.]
    """
    return lambda dataset: dataset.map_and_batch(
        map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls
    )


def parallel_interleave(
    map_func: Callable[..., Dataset],
    cycle_length: SupportsIndex | None,
    block_length: SupportsIndex | None = 1,
    sloppy: bool = False,
    buffer_output_elements: SupportsIndex | None = None,
    prefetch_input_elements: SupportsIndex | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.parallel_interleave` on a dataset.

    Parameters
    ----------
    map_func, cycle_length, block_length, sloppy, buffer_output_elements, prefetch_input_elements
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.

    Examples
    --------
    >>> import queuecore as qc
    >>> twice = qc.data.parallel_interleave(lambda n: qc.data.Dataset.range(2), cycle_length=2)
    >>> [int(x) for x in qc.data.Dataset.range(3).apply(twice)]
    [0, 0, 1, 1, 0, 1]
    """
    arguments: tuple[Any, ...] = (
        map_func,
        cycle_length,
        block_length,
        sloppy,
        buffer_output_elements,
        prefetch_input_elements,
    )
    return lambda dataset: dataset.parallel_interleave(*arguments)


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[SupportsIndex],
    bucket_batch_sizes: Sequence[SupportsIndex],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.bucket_by_sequence_length` on a dataset.

    Parameters
    ----------
    element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values, pad_to_bucket_boundary
        As of the method, which also checks them.
    no_padding, drop_remainder
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    arguments: tuple[Any, ...] = (
        element_length_func,
        bucket_boundaries,
        bucket_batch_sizes,
        padded_shapes,
        padding_values,
        pad_to_bucket_boundary,
        no_padding,
        drop_remainder,
    )
    return lambda dataset: dataset.bucket_by_sequence_length(*arguments)


def ignore_errors(
    log_warning: bool = False,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.ignore_errors` on a dataset.

    Parameters
    ----------
    log_warning
        As of the method, which also checks it.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.ignore_errors(log_warning)


def scan(
    initial_state: Any,
    scan_func: Callable[[Any, Any], tuple[Any, Any]],
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.scan` on a dataset.

    Parameters
    ----------
    initial_state, scan_func
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.scan(initial_state, scan_func)


def snapshot(
    path: Filename,
    compression: Literal["AUTO", "NONE", "GZIP"] | None = "AUTO",
    reader_func: Callable[[Dataset], Dataset] | None = None,
    shard_func: Callable[..., SupportsIndex] | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.snapshot` on a dataset.

    Parameters
    ----------
    path, compression, reader_func, shard_func
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


def take_while(
    predicate: Stage | Callable[..., Any],
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.take_while` on a dataset.

    Parameters
    ----------
    predicate
        As of the method, which also checks it.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.take_while(predicate)


def unbatch() -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.unbatch` on a dataset.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.unbatch()


def unique() -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.unique` on a dataset.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.unique()


def enumerate_dataset(
    start: SupportsIndex = 0,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.enumerate` on a dataset.

    Parameters
    ----------
    start
        As of the method, which also checks it.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.enumerate(start)


def dense_to_ragged_batch(
    batch_size: SupportsIndex,
    drop_remainder: bool = False,
    row_splits_dtype: Any = np.int64,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.ragged_batch` on a dataset.

    Parameters
    ----------
    batch_size, drop_remainder, row_splits_dtype
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)


def Counter(start: Any = 0, step: Any = 1, dtype: Any = np.int64) -> Dataset:  # noqa: N802 - the name is tf.data's
    """Return a dataset of numbers that has no end: `Dataset.counter`.

    Parameters
    ----------
    start, step, dtype
        As of the method, which also checks them.

    Returns
    -------
    Dataset
    """
    return Dataset.counter(start, step, dtype)


def cardinality(dataset: Dataset) -> int:
    """Return the number of elements of a dataset, as `Dataset.cardinality` does.

    Parameters
    ----------
    dataset : Dataset
        The dataset.

    Returns
    -------
    int
    """
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """Return the element of a dataset that has only one, as `Dataset.get_single_element` does.

    Parameters
    ----------
    dataset : Dataset
        The dataset.

    Returns
    -------
    structure of ndarray, Ragged, Sparse or bytes
    """
    return dataset.get_single_element()


def get_structure(dataset_or_iterator: Dataset | IteratorBase) -> Any:
    """Return the structure of the elements of a dataset or an iterator: its ``element_spec``.

    Parameters
    ----------
    dataset_or_iterator : Dataset or iterator
        What has elements.

    Returns
    -------
    structure of ArraySpec
    """
    return dataset_or_iterator.element_spec


def get_next_as_optional(iterator: IteratorBase) -> Optional:
    """Return the next element of an iterator, or that there is none: its ``get_next_as_optional``.

    Parameters
    ----------
    iterator : iterator
        Of a dataset.

    Returns
    -------
    Optional
    """
    return iterator.get_next_as_optional()


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Take elements of several datasets, in the turns that another dataset gives: `Dataset.choose_from_datasets`.

    Parameters
    ----------
    datasets, choice_dataset, stop_on_empty_dataset
        As of the method, which also checks them, and whose default for the last one is `True`.

    Returns
    -------
    Dataset
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Sequence[float] | Dataset | None = None,
    seed: SupportsIndex | None = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Take elements of several datasets at random: `Dataset.sample_from_datasets`.

    Parameters
    ----------
    datasets, weights, seed, stop_on_empty_dataset
        As of the method, which also checks them.

    Returns
    -------
    Dataset
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def save(
    dataset: Dataset,
    path: Filename,
    compression: str | None = None,
    shard_func: Callable[..., SupportsIndex] | None = None,
    checkpoint_args: Any = None,
) -> None:
    """Write all elements of a dataset to files of a directory: `Dataset.save`.

    Parameters
    ----------
    dataset : Dataset
        The dataset.
    path, compression, shard_func, checkpoint_args
        As of the method, which also checks them.
    """
    _dataset(dataset, "save").save(path, compression, shard_func, checkpoint_args)


def load(
    path: Filename,
    element_spec: Any = None,
    compression: str | None = None,
    reader_func: Callable[[Any], Any] | None = None,
) -> Dataset:
    """Return a dataset of what `save` wrote: `Dataset.load`.

    Parameters
    ----------
    path, element_spec, compression, reader_func
        As of the method, which also checks them.

    Returns
    -------
    Dataset
    """
    return Dataset.load(path, element_spec, compression, reader_func)


def RandomDataset(  # noqa: N802 - the name is tf.data's
    seed: SupportsIndex | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
) -> Dataset:
    """Return a dataset of random numbers that has no end: `Dataset.random`.

    Parameters
    ----------
    seed, rerandomize_each_iteration, name
        As of the method, which also checks them.

    Returns
    -------
    Dataset
    """
    return Dataset.random(seed, rerandomize_each_iteration, name)


def from_list(elements: list[Any], name: str | None = None) -> Dataset:
    """Return a dataset of the items of a list: `Dataset.from_list`.

    Parameters
    ----------
    elements : list
        `tensors` of the method, which also checks them.
    name
        As of the method.

    Returns
    -------
    Dataset
    """
    return Dataset.from_list(elements, name)


def assert_cardinality(expected_cardinality: SupportsIndex) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.assert_cardinality` on a dataset.

    Parameters
    ----------
    expected_cardinality
        As of the method, which also checks it.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def dense_to_sparse_batch(
    batch_size: SupportsIndex, row_shape: Sequence[SupportsIndex | None]
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.sparse_batch` on a dataset.

    Parameters
    ----------
    batch_size, row_shape
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: SupportsIndex | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.group_by_window` on a dataset.

    Parameters
    ----------
    key_func, reduce_func, window_size, window_size_func
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)


def rejection_resample(
    class_func: Callable[..., Any],
    target_dist: Sequence[float],
    initial_dist: Sequence[float] | None = None,
    seed: SupportsIndex | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.rejection_resample` on a dataset.

    Parameters
    ----------
    class_func, target_dist, initial_dist, seed
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.
    """
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


def prefetch_to_device(device: str, buffer_size: SupportsIndex | None = None) -> Callable[[Dataset], DeviceDataset]:
    """Return a function that puts `Dataset.prefetch_to_device` on a dataset.

    Parameters
    ----------
    device : str
        As of the method, or TensorFlow's name of a device: ``"/cpu:0"``, ``"/gpu:1"``, ``"/device:GPU:0"``.
    buffer_size : int, optional
        `buffers` of the method. Default: its own.

    Returns
    -------
    callable
        From a dataset to one on a device.

    Examples
    --------
    >>> import queuecore as qc
    >>> ds = qc.data.Dataset.range(4).apply(qc.data.experimental.prefetch_to_device("/cpu:0"))
    >>> [int(x) for x in ds]
    [0, 1, 2, 3]
    """
    word = _device(device)
    given = () if buffer_size is None else (max(check_int(buffer_size, "buffer_size", 1), 2),)
    return lambda dataset: dataset.prefetch_to_device(word, *given)


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Callable[[Dataset], DeviceDataset]:
    """Return a function that puts `Dataset.prefetch_to_device` on a dataset.

    Parameters
    ----------
    target_device : str
        As `device` of `prefetch_to_device`.
    source_device : str, default "/cpu:0"
        The host: elements are made there.

    Returns
    -------
    callable
        From a dataset to one on a device.
    """
    if _device(source_device) != "cpu":
        raise InvalidArgumentError(f"copy_to_device: source_device must be the host, not {source_device!r}")
    return prefetch_to_device(target_device)


def _device(name: Any) -> str:
    """Return the word of `Dataset.prefetch_to_device` for TensorFlow's name of a device."""
    if not isinstance(name, str):
        raise InvalidArgumentError(f"the name of a device must be a string, not {name!r}")
    kind, _, number = name.lower().removeprefix("/").removeprefix("device:").partition(":")
    if kind == "cpu":
        return "cpu"
    return f"cuda:{number or 0}" if kind in ("gpu", "cuda") else name


def at(dataset: Dataset, index: SupportsIndex) -> Any:
    """Return an element of a dataset by its number.

    Parameters
    ----------
    dataset : Dataset
        Any. Behind a shuffle, the order is that of the first pass.
    index : int
        The number of the element, from 0 on.

    Returns
    -------
    structure of ndarray, Ragged, Sparse or bytes

    Raises
    ------
    OutOfRangeError
        If there is no such element.

    Notes
    -----
    Elements before it aren't made where counting alone tells where it lies: of arrays and files with records of one
    length, also behind maps. Otherwise they are, each time.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.data.experimental.at(qc.data.Dataset.range(10).map(lambda x: x * x), 3)
    np.int64(9)
    """
    return element_at(chain_of(_dataset(dataset, "at")), check_int(index, "index", -(2**63)))


def _dataset(dataset: Any, what: str) -> Dataset:
    if not isinstance(dataset, Dataset):
        raise DtypeError(f"{what}: dataset must be a dataset, not {dataset!r:.60}")
    return dataset


class Reducer:
    """The functions by which `group_by_reducer` makes one element of those with the same key.

    Parameters
    ----------
    init_func : callable
        From a key, as int64, to a first state.
    reduce_func : callable
        From a state and an element to the next state, as that of `Dataset.reduce`.
    finalize_func : callable
        From the last state to an element; the parts of a tuple are arguments of their own.
    """

    def __init__(
        self,
        init_func: Callable[[Any], Any],
        reduce_func: Callable[[Any, Any], Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        for function, subject in (
            (init_func, "init_func"),
            (reduce_func, "reduce_func"),
            (finalize_func, "finalize_func"),
        ):
            if not callable(function):
                raise InvalidArgumentError(f"Reducer: {subject} must be a function, not {function!r:.60}")
        self._functions = init_func, reduce_func, finalize_func

    @property
    def init_func(self) -> Callable[[Any], Any]:
        """From a key to a first state."""
        return self._functions[0]

    @property
    def reduce_func(self) -> Callable[[Any, Any], Any]:
        """From a state and an element to the next state."""
        return self._functions[1]

    @property
    def finalize_func(self) -> Callable[..., Any]:
        """From the last state to an element."""
        return self._functions[2]


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Callable[[Dataset], Dataset]:
    """Return a function that makes one element of all elements with the same key.

    Parameters
    ----------
    key_func : callable
        From an element to its key, an integer; the parts of a tuple are arguments of their own.
    reducer : Reducer
        What to do with the elements of a key.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`. Its elements come by rising keys, when all of the input has
        been read.

    Raises
    ------
    InvalidArgumentError
        If `key_func` can't be called, or is known not to return one integer; while iterating, in its place, if it
        doesn't.
    DtypeError
        If `reducer` is none; while iterating, in its place, if a state changes its structure or a dtype.

    Notes
    -----
    All functions run in Python. An exception becomes a `PipelineError` in its place, and leaves the state as it was.

    Examples
    --------
    >>> import queuecore as qc
    >>> total = qc.data.experimental.Reducer(lambda key: 0, lambda state, x: state + x, lambda state: state)
    >>> ds = qc.data.Dataset.range(6).apply(qc.data.experimental.group_by_reducer(lambda x: x % 2, total))
    >>> [int(x) for x in ds]
    [6, 9]
    """
    if not isinstance(reducer, Reducer):
        raise DtypeError(f"group_by_reducer: reducer must be a Reducer, not {reducer!r:.60}")

    def apply(dataset: Dataset) -> Dataset:
        key = key_of(chain_of(dataset), key_func, "group_by_reducer")
        node = GroupByReducer((chain_of(dataset),), key, reducer.init_func, reducer.reduce_func, reducer.finalize_func)
        made: Dataset = dataset_of(Chain.of(node))
        return made

    return apply


def pad_to_cardinality(cardinality: SupportsIndex, mask_key: str = "valid") -> Callable[[Dataset], Dataset]:
    """Return a function that appends elements of zeros, until there are as many as wanted.

    Parameters
    ----------
    cardinality : int
        The wanted number of elements.
    mask_key : str, default "valid"
        The name of a further component: `True`, and `False` in what is appended.

    Returns
    -------
    callable
        From a dataset of dicts, whose number is known, to a dataset, for `Dataset.apply`.

    Raises
    ------
    InvalidArgumentError
        If elements aren't dicts or have a component of that name, if their number is unknown or there is no end, or if
        there are more than wanted.

    Notes
    -----
    The elements appended have the shape of the first one, which is made for this, once. Follows
    ``tf.data.experimental.pad_to_cardinality``.

    Examples
    --------
    >>> import queuecore as qc
    >>> ds = qc.data.Dataset.from_tensor_slices({"a": [1, 2]}).apply(qc.data.experimental.pad_to_cardinality(3))
    >>> [(int(x["a"]), bool(x["valid"])) for x in ds]
    [(1, True), (2, True), (0, False)]
    """
    total = check_int(cardinality, "cardinality", 0)

    def apply(dataset: Dataset) -> Dataset:
        number = dataset.cardinality()
        if number < 0:
            raise InvalidArgumentError(
                "The dataset passed into `pad_to_cardinality` must have a known cardinalty, but has cardinality "
                f"{number}"
            )
        if number > total:
            raise InvalidArgumentError(
                "The dataset passed into `pad_to_cardinality` must have a cardinalty less than the target cardinality "
                f"({total}), but has cardinality {number}"
            )
        spec = dataset.element_spec
        if not isinstance(spec, dict):
            raise InvalidArgumentError(
                "`pad_to_cardinality` requires its input dataset to be a dictionary with string keys. Got "
                f"element_spec={spec!r}"
            )
        if mask_key in spec:
            raise InvalidArgumentError(f"pad_to_cardinality: elements have a component {mask_key!r} already")
        made = dataset.map(lambda element: {**element, mask_key: np.bool_(True)})
        if number in (0, total):
            return made
        padding = {**zeros(at(dataset, 0)), mask_key: np.bool_(False)}
        return made.concatenate(Dataset.from_tensors(padding).repeat(total - number))

    return apply


class TFRecordWriter:
    """Writes the elements of a dataset, which are strings, to a TFRecord file.

    Parameters
    ----------
    filename : str, bytes or os.PathLike
        The file. One that is there is written over.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD"}, optional
        How it is compressed.
    storage_options : dict, optional
        What fsspec needs to know, if the file is a URL: as of `FixedLengthRecordDataset`.

    Notes
    -----
    `queuecore.TFRecordWriter` writes records one by one, and says what holds for URLs.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("letters.tfrecord")
    >>> qc.data.experimental.TFRecordWriter(file).write(qc.data.Dataset.from_tensor_slices(["a", "b"]))
    >>> list(qc.data.TFRecordDataset(file))
    [b'a', b'b']
    """

    def __init__(
        self,
        filename: Filename,
        compression_type: str | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._filename = filename
        self._compression = compression_type
        self._storage_options = storage_options

    def write(self, dataset: Dataset) -> None:
        """Write all elements of a dataset, and close the file.

        Parameters
        ----------
        dataset : Dataset
            Of single strings.

        Raises
        ------
        DtypeError
            If it is no dataset, or elements are something else.
        """
        if not isinstance(dataset, Dataset):
            raise DtypeError(
                f"Invalid `dataset.` Expected a `tf.data.Dataset` object but got {type(dataset).__name__}."
            )
        spec = dataset.element_spec
        if spec != ArraySpec((), BYTES):
            raise DtypeError(
                "Invalid `dataset`. `dataset` must produce scalar `DT_STRING` tensors whereas it produces "
                f"{mapped(lambda leaf: leaf, spec)!r}"
            )
        writer = Writer(self._filename, self._compression, storage_options=self._storage_options)
        with writer, iter(dataset) as elements:
            for element in elements:
                writer.write(element)
