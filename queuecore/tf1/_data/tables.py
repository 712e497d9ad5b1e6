"""Datasets of tables and of Examples, ready to train with; rows of databases; and datasets written to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import queuecore.data.experimental as eager
from queuecore.tf1._data.datasets import AUTOTUNE, Dataset, checked, dataset_op, known_leaf, seeds_of, variant_of
from queuecore.tf1._data.files import TFRecordDataset, csv_column
from queuecore.tf1._data.nests import LeafSpec, leaf_of, mapped
from queuecore.tf1._graph.graph import Operation, convert_to_tensor
from queuecore.tf1._graph.values import string
from queuecore.tf1._ops.decoders import parse_example

__all__ = [
    "SqlDataset",
    "TFRecordWriter",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "parse_example_dataset",
]


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Return a dataset of batches of the rows of CSV files: see `queuecore.data.experimental.make_csv_dataset`.

    Files are read at once where they say names and types of columns. Arguments are values, not tensors; types are
    also TensorFlow's (``tf.string``).
    """
    defaults = None if column_defaults is None else [csv_column(one)[1] for one in column_defaults]
    pair, _ = seeds_of(shuffle_seed)

    def make() -> Any:
        return eager.make_csv_dataset(
            file_pattern, batch_size, column_names, defaults, label_name, select_columns, field_delim, use_quote_delim,
            na_value, header, num_epochs, shuffle, shuffle_buffer_size, pair(), prefetch_buffer_size,
            num_parallel_reads, sloppy, num_rows_for_inference, compression_type, ignore_errors, encoding,
        )  # fmt: skip

    return dataset_op("MakeCsvDataset", [], mapped(known_leaf, make().element_spec), lambda _: make())


def parse_example_dataset(
    features: Mapping[Any, Any], num_parallel_calls: Any = 1, deterministic: bool | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a step that parses the Examples of a dataset of batches.

    Parameters
    ----------
    features : dict
        As of `tf.parse_example`.
    num_parallel_calls, deterministic
        As of `Dataset.map`.

    Raises
    ------
    ValueError
        If there are no features.
    TypeError
        If the elements of the dataset aren't vectors of strings.
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")

    def step(dataset: Dataset) -> Dataset:
        spec = checked(dataset, "parse_example_dataset")._spec
        if not isinstance(spec, LeafSpec) or spec.dtype != string or spec.shape.ndims not in (1, None):
            raise TypeError(f"Input dataset should be a dataset of vectors of strings. Instead it is `{spec}`.")
        return dataset.map(lambda records: parse_example(records, features), num_parallel_calls, deterministic)

    return step


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Mapping[Any, Any],
    reader: Callable[..., Dataset] = TFRecordDataset,
    label_key: Any = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: Any = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: Any = None,
    parser_num_threads: Any = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Return a dataset of batches of the features of Examples in files.

    Parameters
    ----------
    file_pattern : str, list of str or Tensor
        Patterns of file names.
    batch_size : int or Tensor
    features : dict
        As of `tf.parse_example`.
    reader : callable, default tf.data.TFRecordDataset
        From a file's name to a dataset of serialized Examples, or of pairs with one in the second place.
    label_key : optional
        The feature that comes apart from the others: elements are pairs then.
    reader_args : sequence, optional
        Further arguments of `reader`.
    num_epochs, shuffle, shuffle_buffer_size, shuffle_seed, prefetch_buffer_size
    reader_num_threads, parser_num_threads, sloppy_ordering, drop_final_batch
        As of `queuecore.data.experimental.make_batched_features_dataset`.

    Raises
    ------
    ValueError
        If `label_key` isn't one of the features.
    TypeError
        If `reader` returns no dataset.
    """
    if label_key is not None and label_key not in features:
        raise ValueError(
            f"The `label_key` provided ({label_key!r}) must be one of the `features` keys: {list(features)}."
        )
    extra_args = tuple(reader_args or ())
    names = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    reads = 1 if reader_num_threads is None else reader_num_threads
    if isinstance(reads, int) and reads == AUTOTUNE:
        dataset = names.interleave(
            lambda name: reader(name, *extra_args), num_parallel_calls=AUTOTUNE, deterministic=not sloppy_ordering
        )
    else:
        dataset = names._parallel_interleave(lambda name: reader(name, *extra_args), reads, 1, sloppy_ordering, None)
    if isinstance(dataset._spec, tuple) and len(dataset._spec) == 2:
        dataset = dataset.map(lambda key, record: record)
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    if not (isinstance(num_epochs, int) and num_epochs == 1):
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_final_batch or num_epochs is None)
    dataset = parse_example_dataset(features, 2 if parser_num_threads is None else parser_num_threads)(dataset)
    if label_key is not None:
        dataset = dataset.map(
            lambda parsed: ({key: one for key, one in parsed.items() if key != label_key}, parsed[label_key])
        )
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


class SqlDataset(Dataset):
    """Rows of the result of a query, from an SQLite database: see `queuecore.data.experimental.SqlDataset`.

    Parameters
    ----------
    driver_name : str or Tensor
        ``"sqlite"``.
    data_source_name : str or Tensor
        The file of the database.
    query : str or Tensor
    output_types : tuple of dtype
        The dtype of each column.
    """

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        spec = mapped(lambda one: leaf_of(one, ()), tuple(output_types))
        types = tuple([bytes if leaf.dtype == string else leaf.dtype.dtype for leaf in spec])
        named = (("driver_name", driver_name), ("data_source_name", data_source_name), ("query", query))
        given = [convert_to_tensor(value, string, name) for name, value in named]

        def kernel(_: Any, driver: bytes, source: bytes, text: bytes) -> Any:
            return eager.SqlDataset(driver, source, text, types)

        super().__init__(variant_of("SqlDataset", given, kernel), spec)


class TFRecordWriter:
    """Writes the elements of a dataset, which are strings, to a TFRecord file.

    Parameters
    ----------
    filename : str or Tensor
    compression_type : {"", "ZLIB", "GZIP"}, optional
    """

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._given = [convert_to_tensor(filename, string, "filename"),
                       convert_to_tensor(compression_type or "", string, "compression_type")]  # fmt: skip

    def write(self, dataset: Dataset) -> Operation:
        """Return an operation that writes all elements of a dataset.

        Raises
        ------
        TypeError
            If it is no dataset, or elements are something else than single strings.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"Invalid `dataset.` Expected a `tf.data.Dataset` object but got {type(dataset)}.")
        spec = dataset._spec
        if not isinstance(spec, LeafSpec) or spec.dtype != string or spec.shape.ndims not in (0, None):
            raise TypeError(
                f"Invalid `dataset`. `dataset` must produce scalar `DT_STRING` tensors whereas it produces {spec!r}."
            )

        def kernel(_: Any, values: Any, file: bytes, compression: bytes) -> None:
            eager.TFRecordWriter(file, compression.decode()).write(values)

        given = [dataset._variant, *self._given]
        return dataset.graph.create_op("DatasetToTFRecord", given, [], kernel, blocking=True)
