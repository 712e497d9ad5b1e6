"""``tf.contrib.data``: steps for `Dataset.apply`, and the classes that were there first."""

from __future__ import annotations

from typing import Any

from queuecore.tf1._data.datasets import Dataset
from queuecore.tf1._data.experimental import (
    AUTOTUNE,
    Counter,
    Optional,
    RandomDataset,
    Reducer,
    SqlDataset,
    TFRecordWriter,
    bucket_by_sequence_length,
    choose_from_datasets,
    copy_to_device,
    dense_to_sparse_batch,
    enumerate_dataset,
    get_next_as_optional,
    get_single_element,
    group_by_reducer,
    group_by_window,
    ignore_errors,
    make_batched_features_dataset,
    make_csv_dataset,
    map_and_batch,
    parallel_interleave,
    parse_example_dataset,
    prefetch_to_device,
    rejection_resample,
    sample_from_datasets,
    scan,
    shuffle_and_repeat,
    unbatch,
    unique,
)
from queuecore.tf1._data.files import CsvDataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from queuecore.tf1._data.iterators import Iterator
from queuecore.tf1._graph.refused import refusing as _refusing

__all__ = [
    "AUTOTUNE",
    "Counter",
    "CsvDataset",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Optional",
    "RandomDataset",
    "Reducer",
    "SqlDataset",
    "TFRecordDataset",
    "TFRecordWriter",
    "TextLineDataset",
    "batch_and_drop_remainder",
    "bucket_by_sequence_length",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "get_next_as_optional",
    "get_single_element",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
    "padded_batch_and_drop_remainder",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "sloppy_interleave",
    "unbatch",
    "unique",
]


def batch_and_drop_remainder(batch_size: Any) -> Any:
    """Return a step that stacks elements, and leaves out a last batch that isn't full.

    Parameters
    ----------
    batch_size : int or Tensor
        The number of elements of a batch.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Any:
    """Return a step that pads and stacks elements, and leaves out a last batch that isn't full.

    Parameters
    ----------
    batch_size : int or Tensor
        The number of elements of a batch.
    padded_shapes, padding_values
        As for `Dataset.padded_batch`.
    """
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sloppy_interleave(map_func: Any, cycle_length: Any, block_length: Any = 1) -> Any:
    """Return a step that takes turns among datasets, of which one that isn't ready loses its turn.

    Parameters
    ----------
    map_func : callable
        Makes a dataset of an element.
    cycle_length : int or Tensor
        The number of datasets that take turns.
    block_length : int or Tensor, default 1
        The number of elements that a dataset gives in its turn.
    """
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


__getattr__ = _refusing("tf.contrib.data")
