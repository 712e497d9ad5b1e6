"""The parameters of those methods and classes of tf.data 2.21 that queuecore.data has too.

As a program: the parameters that the installed TensorFlow has. A parameter with a star takes any number of arguments.
"""

from __future__ import annotations

import inspect
import json
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

METHODS = {
    "apply": "transformation_func",
    "as_numpy_iterator": "",
    "batch": "batch_size drop_remainder num_parallel_calls deterministic name",
    "bucket_by_sequence_length": (
        "element_length_func bucket_boundaries bucket_batch_sizes padded_shapes padding_values "
        "pad_to_bucket_boundary no_padding drop_remainder name"
    ),
    "cache": "filename name",
    "cardinality": "",
    "choose_from_datasets": "datasets choice_dataset stop_on_empty_dataset",
    "concatenate": "dataset name",
    "counter": "start step dtype name",
    "enumerate": "start name",
    "filter": "predicate name",
    "fingerprint": "",
    "flat_map": "map_func name",
    "from_generator": "generator output_types output_shapes args output_signature name",
    "from_tensor_slices": "tensors name",
    "from_tensors": "tensors name",
    "get_single_element": "name",
    "group_by_window": "key_func reduce_func window_size window_size_func name",
    "ignore_errors": "log_warning name",
    "interleave": "map_func cycle_length block_length num_parallel_calls deterministic name",
    "list_files": "file_pattern shuffle seed name",
    "load": "path element_spec compression reader_func wait",
    "map": "map_func num_parallel_calls deterministic synchronous use_unbounded_threadpool name",
    "options": "",
    "padded_batch": "batch_size padded_shapes padding_values drop_remainder name",
    "prefetch": "buffer_size name",
    "ragged_batch": "batch_size drop_remainder row_splits_dtype name",
    "random": "seed rerandomize_each_iteration name",
    "rebatch": "batch_size drop_remainder name",
    "reduce": "initial_state reduce_func name",
    "rejection_resample": "class_func target_dist initial_dist seed name",
    "repeat": "count name",
    "sample_from_datasets": "datasets weights seed stop_on_empty_dataset rerandomize_each_iteration",
    "save": "path compression shard_func checkpoint_args",
    "scan": "initial_state scan_func name",
    "shard": "num_shards index name",
    "shuffle": "buffer_size seed reshuffle_each_iteration name",
    "skip": "count name",
    "snapshot": "path compression reader_func shard_func name",
    "sparse_batch": "batch_size row_shape name",
    "take": "count name",
    "take_while": "predicate name",
    "unbatch": "name",
    "unique": "name",
    "window": "size shift stride drop_remainder name",
    "with_options": "options name",
    "zip": "*args datasets name",
}

EXPERIMENTAL = {
    "Counter": "start step dtype",
    "RandomDataset": "seed rerandomize_each_iteration name",
    "assert_cardinality": "expected_cardinality",
    "at": "dataset index",
    "bucket_by_sequence_length": (
        "element_length_func bucket_boundaries bucket_batch_sizes padded_shapes padding_values "
        "pad_to_bucket_boundary no_padding drop_remainder"
    ),
    "cardinality": "dataset",
    "choose_from_datasets": "datasets choice_dataset stop_on_empty_dataset",
    "copy_to_device": "target_device source_device",
    "dense_to_ragged_batch": "batch_size drop_remainder row_splits_dtype",
    "dense_to_sparse_batch": "batch_size row_shape",
    "enumerate_dataset": "start",
    "from_list": "elements name",
    "get_next_as_optional": "iterator",
    "get_single_element": "dataset",
    "get_structure": "dataset_or_iterator",
    "group_by_reducer": "key_func reducer",
    "group_by_window": "key_func reduce_func window_size window_size_func",
    "ignore_errors": "log_warning",
    "load": "path element_spec compression reader_func",
    "make_batched_features_dataset": (
        "file_pattern batch_size features reader label_key reader_args num_epochs shuffle "
        "shuffle_buffer_size shuffle_seed prefetch_buffer_size reader_num_threads parser_num_threads "
        "sloppy_ordering drop_final_batch"
    ),
    "make_csv_dataset": (
        "file_pattern batch_size column_names column_defaults label_name select_columns field_delim "
        "use_quote_delim na_value header num_epochs shuffle shuffle_buffer_size shuffle_seed "
        "prefetch_buffer_size num_parallel_reads sloppy num_rows_for_inference compression_type "
        "ignore_errors encoding"
    ),
    "map_and_batch": "map_func batch_size num_parallel_batches drop_remainder num_parallel_calls",
    "pad_to_cardinality": "cardinality mask_key",
    "parallel_interleave": "map_func cycle_length block_length sloppy buffer_output_elements prefetch_input_elements",
    "parse_example_dataset": "features num_parallel_calls deterministic",
    "prefetch_to_device": "device buffer_size",
    "rejection_resample": "class_func target_dist initial_dist seed",
    "sample_from_datasets": "datasets weights seed stop_on_empty_dataset",
    "save": "dataset path compression shard_func checkpoint_args",
    "scan": "initial_state scan_func",
    "shuffle_and_repeat": "buffer_size count seed",
    "snapshot": "path compression reader_func shard_func",
    "take_while": "predicate",
    "unbatch": "",
    "unique": "",
}

CLASSES = {
    "FixedLengthRecordDataset": (
        "filenames record_bytes header_bytes footer_bytes buffer_size compression_type num_parallel_reads name"
    ),
    "TFRecordDataset": "filenames compression_type buffer_size num_parallel_reads name",
    "TextLineDataset": "filenames compression_type buffer_size num_parallel_reads name",
}


def parameters(function: Any, own: bool = False) -> str:
    """Return the names of the parameters after `self`; with `own`, without those that only a keyword reaches."""
    found = inspect.signature(function).parameters.values()
    starred = any(one.kind is one.VAR_POSITIONAL for one in found)
    names = [
        f"*{one.name}" if one.kind is one.VAR_POSITIONAL else one.name
        for one in found
        if starred or not own or one.kind is not one.KEYWORD_ONLY
    ]
    return " ".join(name for name in names if name != "self")


def of(data: Any, own: bool = False) -> list[dict[str, str]]:
    """Return the parameters of a module's methods, classes and functions, as the three tables have them."""
    methods = {name: parameters(getattr(data.Dataset, name), own) for name in METHODS}
    classes = {name: parameters(getattr(data, name).__init__, own) for name in CLASSES}
    return [methods, classes, {name: parameters(getattr(data.experimental, name), own) for name in EXPERIMENTAL}]


if __name__ == "__main__":
    import tensorflow as tf

    print(json.dumps(of(tf.data)))
