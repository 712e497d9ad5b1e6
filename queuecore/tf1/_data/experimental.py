"""``tf.data.experimental``: steps for `Dataset.apply`, and the other names that TensorFlow keeps there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import queuecore.data as eager
from queuecore.tf1._data.datasets import (
    AUTOTUNE,
    Dataset,
    batch_tensors,
    checked,
    count_tensor,
    dataset_op,
    general,
    int_tensor,
    padding_of,
    seeds_of,
)
from queuecore.tf1._data.files import CsvDataset
from queuecore.tf1._data.iterators import Optional, get_next_as_optional
from queuecore.tf1._data.nests import Leaf, leaves, mapped, stacked
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import int64

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Counter",
    "CsvDataset",
    "Optional",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "enumerate_dataset",
    "get_next_as_optional",
    "get_single_element",
    "ignore_errors",
    "map_and_batch",
    "parallel_interleave",
    "prefetch_to_device",
    "sample_from_datasets",
    "shuffle_and_repeat",
    "take_while",
    "unbatch",
]

INFINITE_CARDINALITY = eager.INFINITE_CARDINALITY
UNKNOWN_CARDINALITY = eager.UNKNOWN_CARDINALITY
_Step = Callable[[Dataset], Dataset]


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> _Step:
    """Return a step that replaces each element by a function's result, and stacks results that follow each other.

    Parameters
    ----------
    map_func, num_parallel_calls
        As of `Dataset.map`.
    batch_size, drop_remainder
        As of `Dataset.batch`.
    num_parallel_batches : int, optional
        The number of batches in work at a time. Excludes `num_parallel_calls`.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch` allows only one of `num_parallel_batches` and `num_parallel_calls` to be set, but "
            f"got {num_parallel_batches} and {num_parallel_calls}"
        )

    def step(dataset: Dataset) -> Dataset:
        found = dataset._function(map_func, "map_func")
        given, size = batch_tensors(batch_size, drop_remainder)
        calls = num_parallel_batches if num_parallel_calls is None else num_parallel_calls
        extra = [] if calls is None else [int_tensor(calls, "num_parallel_calls")]

        def kernel(run: Any, ds: Any, n: Any, drop: Any, *values: Any) -> Any:
            number = int(values[0]) if extra else None
            function = found.bound(run, values[len(extra) :])
            if num_parallel_batches is not None:
                return ds.map_and_batch(function, int(n), number, bool(drop))
            return ds.map_and_batch(function, int(n), None, bool(drop), number)

        spec = mapped(lambda leaf: stacked(leaf, size), found.spec)
        return dataset._step("MapAndBatchDataset", spec, kernel, [*given, *extra, *found.captured])

    return step


def parallel_interleave(
    map_func: Callable[..., Dataset],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> _Step:
    """Return a step that makes a dataset of each element, begins all ahead, and takes turns among them.

    Parameters
    ----------
    map_func, cycle_length, block_length
        As of `Dataset.interleave`.
    sloppy : bool or Tensor, default False
        Whether one whose next element isn't ready loses its turn.
    buffer_output_elements : optional
        Not used: each dataset decides how far it reads ahead.
    prefetch_input_elements : int or Tensor, optional
        The number of datasets that are begun besides those that take turns.
    """
    del buffer_output_elements
    return lambda dataset: dataset._parallel_interleave(
        map_func, cycle_length, block_length, sloppy, prefetch_input_elements
    )


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> _Step:
    """Return a step that shuffles, and goes over the elements several times, in another order each time."""

    def step(dataset: Dataset) -> Dataset:
        pair, extra = seeds_of(seed)

        def kernel(_: Any, ds: Any, size: Any, number: Any, *seeds: Any) -> Any:
            return ds.shuffle_and_repeat(int(size), int(number), pair(*seeds))

        given = [int_tensor(buffer_size, "buffer_size"), count_tensor(count), *extra]
        return dataset._step("ShuffleAndRepeatDataset", dataset._spec, kernel, given)

    return step


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> _Step:
    """Return a step that stacks elements of about the same length: see `queuecore.data.Dataset`'s method."""
    boundaries, sizes = list(bucket_boundaries), list(bucket_batch_sizes)
    if len(sizes) != len(boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")

    def step(dataset: Dataset) -> Dataset:
        found = dataset._function(element_length_func, "element_length_func")
        if no_padding:
            told, sides, filled = [leaf.shape for leaf in leaves(dataset._spec)], None, None
        else:
            told, sides, filled = padding_of(dataset, padded_shapes, padding_values)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            function = found.bound(run, values)
            return ds.bucket_by_sequence_length(
                function, boundaries, sizes, sides, filled, pad_to_bucket_boundary, no_padding, drop_remainder
            )

        left = iter(told)
        size = sizes[0] if drop_remainder and len(set(sizes)) == 1 else None
        spec = mapped(lambda leaf: stacked(type(leaf)(leaf.dtype, next(left)), size), dataset._spec)
        return dataset._step("BucketBySequenceLengthDataset", spec, kernel, found.captured)

    return step


def enumerate_dataset(start: Any = 0) -> _Step:
    """Return a step that gives each element its number."""
    return lambda dataset: dataset.enumerate(start)


def ignore_errors(log_warning: bool = False) -> _Step:
    """Return a step that leaves out elements that can't be made."""
    return lambda dataset: dataset.ignore_errors(log_warning)


def take_while(predicate: Callable[..., Any]) -> _Step:
    """Return a step that keeps the elements before the first one for which a function returns false."""
    return lambda dataset: dataset.take_while(predicate)


def unbatch() -> _Step:
    """Return a step that takes elements apart, along their first dimension."""
    return lambda dataset: dataset.unbatch()


def prefetch_to_device(device: Any, buffer_size: Any = None) -> _Step:
    """Return a step that makes elements ahead. They stay on the host: `queuecore.data` hands batches to devices."""
    del device
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device: Any, source_device: str = "/cpu:0") -> _Step:
    """Return a step that does nothing: elements stay on the host. `queuecore.data` hands batches to devices."""
    del target_device, source_device
    return lambda dataset: dataset


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Return a dataset that takes each element from one of several, as a dataset of int64 numbers says.

    Raises
    ------
    TypeError, ValueError
        If elements differ in structure or type, or choices are no such numbers.
    """
    spec = _alike(datasets, "choose_from_datasets")
    choice = checked(choice_dataset, "choice_dataset")._spec
    if not isinstance(choice, Leaf) or choice.dtype != int64 or choice.shape.ndims not in (0, None):
        raise TypeError(f"`choice_dataset` must be a dataset of scalar `tf.int64` tensors, not of {choice!r}")

    def kernel(_: Any, *values: Any) -> Any:
        return eager.Dataset.choose_from_datasets(list(values[:-1]), values[-1], stop_on_empty_dataset)

    inputs = [one._variant for one in (*datasets, choice_dataset)]
    return dataset_op("DirectedInterleaveDataset", inputs, spec, kernel)


def sample_from_datasets(
    datasets: Sequence[Dataset], weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Return a dataset of elements of several ones, at random.

    Parameters
    ----------
    datasets : sequence of Dataset
    weights : sequence of float, Tensor or Dataset, optional
        How often each dataset is asked, in proportion.
    seed : int or Tensor, optional
    stop_on_empty_dataset : bool, default False
        Whether to end when a dataset without further elements is asked.

    Notes
    -----
    The turns are those of `queuecore.data.Dataset.sample_from_datasets`, and not TensorFlow's.
    """
    spec = _alike(datasets, "sample_from_datasets")
    pair, extra = seeds_of(seed)
    count = len(datasets)
    if weights is None:
        given = convert_to_tensor(np.ones(count))
    else:
        given = weights._variant if isinstance(weights, Dataset) else convert_to_tensor(weights)
        if not isinstance(weights, Dataset) and not given.shape.is_compatible_with([count]):
            raise ValueError(f"`weights` must be of {count} numbers, one for each dataset, not {weights!r}")

    def kernel(_: Any, *values: Any) -> Any:
        shares = values[count]
        return eager.Dataset.sample_from_datasets(
            list(values[:count]),
            shares if isinstance(shares, eager.Dataset) else [float(one) for one in shares],
            pair(*values[count + 1 :]),
            stop_on_empty_dataset,
        )

    return dataset_op("SampleFromDatasets", [*[one._variant for one in datasets], given, *extra], spec, kernel)


def _alike(datasets: Sequence[Dataset], what: str) -> Any:
    if not datasets:
        raise ValueError(f"{what}: `datasets` should not be empty")
    return general([checked(one, what) for one in datasets], what)


def Counter(start: Any = 0, step: Any = 1, dtype: Any = np.int64) -> Dataset:  # noqa: N802 - its name
    """Return a dataset that counts, without an end."""
    counted = Dataset.range(2**62).map(_Counted(start, step))
    return counted if np.dtype(dtype) == np.int64 else counted.map(_CastTo(dtype))


class _Counted:
    def __init__(self, start: Any, step: Any) -> None:
        self._start, self._step = start, step

    def __call__(self, number: Tensor) -> Tensor:
        made: Tensor = number * convert_to_tensor(self._step, np.int64) + convert_to_tensor(self._start, np.int64)
        return made


class _CastTo:
    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def __call__(self, number: Tensor) -> Tensor:
        from queuecore.tf1._ops.math import cast

        made: Tensor = cast(number, self._dtype)
        return made


def cardinality(dataset: Dataset) -> Tensor:
    """Return the number of elements, an int64; -1: infinite, -2: unknown before they are read."""
    return apply_op(
        "DatasetCardinality", [dataset._variant], np.int64, (), lambda _, ds: np.int64(ds.cardinality()), None,
        pure=False,
    )  # fmt: skip


def get_single_element(dataset: Dataset) -> Any:
    """Return the element of a dataset that has only one, as tensors."""
    return dataset.get_single_element()


__getattr__ = _refusing("tf.data.experimental")
