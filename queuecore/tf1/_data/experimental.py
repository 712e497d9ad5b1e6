"""``tf.data.experimental``: steps for `Dataset.apply`, and the other names that TensorFlow keeps there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import queuecore.data as eager
from queuecore.data.settings import (
    AutoShardPolicy,
    AutotuneAlgorithm,
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    ServiceOptions,
    ThreadingOptions,
)
from queuecore.errors import DtypeError
from queuecore.tf1._data.datasets import (
    AUTOTUNE,
    Dataset,
    batch_tensors,
    bound_all,
    captured_of,
    checked,
    count_tensor,
    dataset_op,
    general_spec,
    int_tensor,
    scalar_of,
    seeds_of,
    settled,
)
from queuecore.tf1._data.files import CsvDataset
from queuecore.tf1._data.functions import Function
from queuecore.tf1._data.iterators import Iterator, Optional, components, get_next_as_optional
from queuecore.tf1._data.lookup import DatasetInitializer, index_table_from_dataset, table_from_dataset
from queuecore.tf1._data.nests import joined, leaf_of, mapped, outputs_of, shown, stacked, tensors_of
from queuecore.tf1._data.options import MapVectorizationOptions, OptimizationOptions
from queuecore.tf1._data.tables import (
    SqlDataset,
    TFRecordWriter,
    make_batched_features_dataset,
    make_csv_dataset,
    parse_example_dataset,
)
from queuecore.tf1._graph.graph import Operation, Tensor
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import int64

__all__ = [
    "AUTOTUNE",
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DatasetInitializer",
    "DistributeOptions",
    "ExternalStatePolicy",
    "INFINITE_CARDINALITY",
    "MapVectorizationOptions",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "Reducer",
    "SHARD_HINT",
    "ServiceOptions",
    "SqlDataset",
    "TFRecordWriter",
    "ThreadingOptions",
    "UNKNOWN_CARDINALITY",
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
    "index_table_from_dataset",
    "load",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
    "map_and_batch_with_legacy_function",
    "pad_to_cardinality",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "save",
    "scan",
    "shuffle_and_repeat",
    "snapshot",
    "table_from_dataset",
    "take_while",
    "unbatch",
    "unique",
]

SHARD_HINT = -1
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
        function = dataset._function(map_func, "map_func")
        inputs, size = batch_tensors(batch_size, drop_remainder)
        calls = num_parallel_batches if num_parallel_calls is None else num_parallel_calls
        extra = [] if calls is None else [int_tensor(calls, "num_parallel_calls")]

        def kernel(run: Any, ds: Any, n: Any, drop: Any, *values: Any) -> Any:
            number = int(values[0]) if extra else None
            bound = function.bound(run, values[len(extra) :])
            if num_parallel_batches is not None:
                return ds.map_and_batch(bound, int(n), number, bool(drop))
            return ds.map_and_batch(bound, int(n), None, bool(drop), number)

        spec = mapped(lambda leaf: stacked(leaf, size), function.spec)
        return dataset._step("MapAndBatchDataset", spec, kernel, [*inputs, *extra, *function.captured])

    return step


map_and_batch_with_legacy_function = map_and_batch


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

        inputs = [int_tensor(buffer_size, "buffer_size"), count_tensor(count), *extra]
        return dataset._step("ShuffleAndRepeatDataset", dataset._spec, kernel, inputs)

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
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func,
        bucket_boundaries,
        bucket_batch_sizes,
        padded_shapes,
        padding_values,
        pad_to_bucket_boundary,
        no_padding,
        drop_remainder,
    )


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
    """Return `Dataset.choose_from_datasets` of these, which has another default for the last argument."""
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset], weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Return `Dataset.sample_from_datasets` of these."""
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def Counter(start: Any = 0, step: Any = 1, dtype: Any = np.int64) -> Dataset:  # noqa: N802 - its name
    """Return a dataset that counts, without an end."""
    return Dataset.counter(start, step, dtype)


def cardinality(dataset: Dataset) -> Tensor:
    """Return the number of elements, an int64; -1: infinite, -2: unknown before they are read."""
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """Return the element of a dataset that has only one, as tensors."""
    return dataset.get_single_element()


def get_structure(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return what is known of the elements of a dataset or an iterator: its `element_spec`."""
    return dataset_or_iterator.element_spec


def at(dataset: Dataset, index: Any) -> Any:
    """Return an element of a dataset by its number, as tensors: see `queuecore.data.experimental.at`."""

    def kernel(_: Any, ds: Any, number: Any) -> Any:
        return components(dataset._spec, eager.experimental.at(ds, int(number)))

    inputs = [checked(dataset, "at")._variant, int_tensor(index, "index")]
    op = dataset.graph.create_op("GetElementAtIndex", inputs, outputs_of(dataset._spec), kernel, blocking=True)
    return shown(dataset._spec, op.outputs)


def RandomDataset(  # noqa: N802 - its name
    seed: Any = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
) -> Dataset:
    """Return `Dataset.random` with these arguments."""
    return Dataset.random(seed, rerandomize_each_iteration, name)


def from_list(elements: list[Any], name: str | None = None) -> Dataset:
    """Return a dataset of the items of a list, which are of one structure and have the same types.

    Parameters
    ----------
    elements : list of structures of tensors
    name : str, optional

    Raises
    ------
    ValueError
        If there are none, or it is no list.
    TypeError
        If items differ in structure or types.
    """
    if not isinstance(elements, list):
        raise DtypeError("Invalid `elements`. `elements` must be a list.")
    if not elements:
        raise ValueError("Invalid `elements`. `elements` should not be empty.")
    items = [tensors_of(element, "from_list") for element in elements]
    spec, first = items[0]
    for other, _ in items[1:]:
        spec = general_spec(spec, other, "from_list")
    counts = len(first)

    def kernel(_: Any, *values: Any) -> Any:
        rows = [list(values[at : at + counts]) for at in range(0, len(values), counts)]
        return eager.Dataset.from_list([joined(spec, row) for row in rows])

    return dataset_op("ListDataset", [tensor for _, tensors in items for tensor in tensors], spec, kernel, name)


def save(
    dataset: Dataset,
    path: Any,
    compression: str | None = None,
    shard_func: Callable[..., Any] | None = None,
    checkpoint_args: Any = None,
) -> Operation:
    """Return `Dataset.save` of a dataset: an operation that writes it."""
    return checked(dataset, "save").save(path, compression, shard_func, checkpoint_args)


def load(
    path: Any,
    element_spec: Any = None,
    compression: str | None = None,
    reader_func: Callable[[Dataset], Dataset] | None = None,
) -> Dataset:
    """Return `Dataset.load` with these arguments."""
    return Dataset.load(path, element_spec, compression, reader_func)


def assert_cardinality(expected_cardinality: Any) -> _Step:
    """Return a step that states how many elements there are."""
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def dense_to_ragged_batch(batch_size: Any, drop_remainder: Any = False, row_splits_dtype: Any = int64) -> _Step:
    """Return a step that stacks elements which may differ in their first dimension: `Dataset.ragged_batch`."""
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> _Step:
    """Return a step that stacks elements which may differ in shape: `Dataset.sparse_batch`."""
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def unique() -> _Step:
    """Return a step that leaves out elements that came before."""
    return lambda dataset: dataset.unique()


def scan(initial_state: Any, scan_func: Callable[[Any, Any], tuple[Any, Any]]) -> _Step:
    """Return a step that replaces each element, with a state from element to element: `Dataset.scan`."""
    return lambda dataset: dataset.scan(initial_state, scan_func)


def snapshot(
    path: Any,
    compression: str | None = "AUTO",
    reader_func: Callable[[Dataset], Dataset] | None = None,
    shard_func: Callable[..., Any] | None = None,
) -> _Step:
    """Return a step that keeps the elements of the first pass in files: `Dataset.snapshot`."""
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Dataset],
    window_size: Any = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> _Step:
    """Return a step that makes datasets of elements with the same key: `Dataset.group_by_window`."""
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either window_size or window_size_func, but not both.")
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)


def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: Any = None
) -> _Step:
    """Return a step that leaves out elements, so that classes come as often as wanted: `Dataset.rejection_resample`."""
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


class Reducer:
    """The functions by which `group_by_reducer` makes one element of those with the same key.

    Parameters
    ----------
    init_func : callable
        From a key, an int64, to a first state.
    reduce_func : callable
        From a state and an element to the next state.
    finalize_func : callable
        From the last state to an element.
    """

    def __init__(
        self, init_func: Callable[[Any], Any], reduce_func: Callable[[Any, Any], Any],
        finalize_func: Callable[..., Any],
    ) -> None:  # fmt: skip
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> _Step:
    """Return a step that makes one element of all elements with the same key, by rising keys.

    Parameters
    ----------
    key_func : callable
        From the tensors of an element to its key, an int64.
    reducer : Reducer

    Raises
    ------
    ValueError
        If `key_func` doesn't return one int64.
    TypeError
        If `reducer` is none, or a state's structure or types change.
    """
    if not isinstance(reducer, Reducer):
        raise TypeError(f"`reducer` must be a tf.data.experimental.Reducer, not {reducer!r:.60}")

    def step(dataset: Dataset) -> Dataset:
        graph = checked(dataset, "group_by_reducer").graph
        key = scalar_of(dataset._function(key_func, "key_func"), "key_func")
        first = Function(graph, reducer.init_func, [leaf_of(int64, ())], "init_func")
        state, after = settled(dataset, reducer.reduce_func, first.spec, "reduce_func", lambda function: function.spec)
        last = Function(graph, reducer.finalize_func, [state], "finalize_func")
        functions = [key, first, after, last]

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            keys, *rest = bound_all(functions, run, values)
            made = eager.experimental.Reducer(*rest)
            return ds.apply(eager.experimental.group_by_reducer(keys, made))

        return dataset._step("GroupByReducerDataset", last.spec, kernel, captured_of(functions))

    return step


def pad_to_cardinality(cardinality: Any, mask_key: str = "valid") -> _Step:
    """Return a step that appends elements of zeros, until there are as many as wanted.

    Parameters
    ----------
    cardinality : int or Tensor
        The wanted number of elements.
    mask_key : str, default "valid"
        The name of a further part of elements, which are dicts: `True`, and `False` in what is appended.

    Raises
    ------
    ValueError
        If elements are no dicts, or have a part of that name.
    """

    def step(dataset: Dataset) -> Dataset:
        spec = checked(dataset, "pad_to_cardinality")._spec
        if not isinstance(spec, dict):
            raise ValueError(
                "`pad_to_cardinality` requires its input dataset to be a dictionary with string keys. Got "
                f"element_spec={spec!r}"
            )
        if mask_key in spec:
            raise ValueError(f"pad_to_cardinality: elements have a part {mask_key!r} already")

        def kernel(_: Any, ds: Any, number: Any) -> Any:
            return ds.apply(eager.experimental.pad_to_cardinality(int(number), mask_key))

        made = {**spec, mask_key: leaf_of(bool, ())}
        return dataset._step("PadToCardinality", made, kernel, [int_tensor(cardinality, "cardinality")])

    return step


__getattr__ = _refusing("tf.data.experimental")
