"""Steps as functions, for `Dataset.apply`, and other functions with the names of ``tf.data.experimental``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from queuecore._elements.optional import Optional
from queuecore._io.names import Filename
from queuecore._ops.stage import Stage
from queuecore.data.dataset import Dataset
from queuecore.data.iterators import IteratorBase

__all__ = [
    "Counter",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "dense_to_ragged_batch",
    "enumerate_dataset",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "ignore_errors",
    "map_and_batch",
    "parallel_interleave",
    "sample_from_datasets",
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
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "numbers.bin"
    >>> _ = file.write_bytes(bytes(range(3)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").apply(qc.data.shuffle_and_repeat(1, count=2))
    >>> [int(x) for x in ds]
    [0, 1, 2, 0, 1, 2]
    >>> folder.cleanup()
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
    >>> import pathlib, tempfile
    >>> import numpy as np, queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "numbers.bin"
    >>> _ = file.write_bytes(bytes(range(3)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1")
    >>> for batch in ds.apply(qc.data.map_and_batch(qc.ops.cast(dtype=np.float32), 2)):
    ...     print(batch)
    [0. 1.]
    [2.]
    >>> folder.cleanup()
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
