"""The names of ``tf.data.experimental`` that queuecore has: steps as functions for `Dataset.apply`, and others."""

from typing import NoReturn as _NoReturn

from queuecore._checks.missing import MissingNameError as _MissingNameError
from queuecore._elements.optional import Optional
from queuecore.data.dataset import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from queuecore.data.files import CsvDataset
from queuecore.data.functions import (
    Counter,
    RandomDataset,
    Reducer,
    TFRecordWriter,
    assert_cardinality,
    at,
    bucket_by_sequence_length,
    cardinality,
    choose_from_datasets,
    copy_to_device,
    dense_to_ragged_batch,
    dense_to_sparse_batch,
    enumerate_dataset,
    from_list,
    get_next_as_optional,
    get_single_element,
    get_structure,
    group_by_reducer,
    group_by_window,
    ignore_errors,
    load,
    map_and_batch,
    pad_to_cardinality,
    parallel_interleave,
    prefetch_to_device,
    rejection_resample,
    sample_from_datasets,
    save,
    scan,
    shuffle_and_repeat,
    snapshot,
    take_while,
    unbatch,
    unique,
)
from queuecore.data.options import AUTOTUNE
from queuecore.data.settings import (
    AutoShardPolicy,
    AutotuneAlgorithm,
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    OptimizationOptions,
    ServiceOptions,
    ThreadingOptions,
)
from queuecore.data.sql import SqlDataset
from queuecore.data.tables import make_batched_features_dataset, make_csv_dataset, parse_example_dataset

__all__ = [
    "AUTOTUNE",
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DistributeOptions",
    "ExternalStatePolicy",
    "INFINITE_CARDINALITY",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "Reducer",
    "ServiceOptions",
    "TFRecordWriter",
    "SqlDataset",
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
    "load",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
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
    "take_while",
    "unbatch",
    "unique",
]

_MISSING = """
bytes_produced_stats CheckpointInputPipelineHook DatasetInitializer DatasetStructure distributed_save
enable_debug_mode from_variant get_model_proto index_table_from_dataset latency_stats
make_saveable_from_iterator MapVectorizationOptions OptionalStructure RaggedTensorStructure service
set_stats_aggregator SparseTensorStructure StatsAggregator StatsOptions Structure table_from_dataset
TensorArrayStructure TensorStructure to_variant
"""


def __getattr__(name: str) -> _NoReturn:
    if name in _MISSING.split():
        raise _MissingNameError(
            f"tf.data.experimental.{name}: it isn't in queuecore.data, whose datasets are no graphs and run in one "
            "process. docs/conformance.md lists what is left out"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
