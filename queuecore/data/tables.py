"""Batches of the rows of CSV files, and of the features of Examples in files, ready to train with."""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import io
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from queuecore._checks.checks import check_bool, check_int
from queuecore._elements.component import BYTES
from queuecore._elements.record import ArraySpec
from queuecore._io import remote
from queuecore._io.names import Filename, expand_patterns
from queuecore.data._plan.chain import chain_of
from queuecore.data.dataset import Dataset
from queuecore.data.files import CsvDataset, TFRecordDataset
from queuecore.data.options import AUTOTUNE
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import parse_example

__all__ = ["make_batched_features_dataset", "make_csv_dataset", "parse_example_dataset"]

# From the one that takes least to the one that takes all.
_TYPES: tuple[Any, ...] = (np.int32, np.int64, np.float32, np.float64, bytes)
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


def make_csv_dataset(
    file_pattern: Filename | Iterable[Filename],
    batch_size: SupportsIndex,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[int | str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: SupportsIndex | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: SupportsIndex = 10000,
    shuffle_seed: SupportsIndex | None = None,
    prefetch_buffer_size: SupportsIndex | None = None,
    num_parallel_reads: SupportsIndex | None = None,
    sloppy: bool = False,
    num_rows_for_inference: SupportsIndex | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    r"""Return a dataset of batches of the rows of CSV files, as dicts of columns.

    Parameters
    ----------
    file_pattern : str, bytes, os.PathLike, or a sequence of them
        Patterns of file names, as those of `Dataset.list_files`.
    batch_size : int
        Rows in a batch.
    column_names : sequence of str, optional
        The names of all columns. Default: the first row of each file, which must be the same.
    column_defaults : sequence, optional
        As `record_defaults` of `CsvDataset`, one for each column that is taken. Default: types are found out from the
        first rows: the first of int32, int64, float32, float64 and bytes that takes all values; a missing value is 0 or
        ``b""``.
    label_name : str, optional
        The column that comes apart from the others: elements are pairs of a dict and an array then.
    select_columns : sequence of int or str, optional
        The columns to take, by their numbers or names. Default: all.
    field_delim, use_quote_delim, na_value, header, compression_type
        As of `CsvDataset`.
    num_epochs : int, optional
        How often to go over the rows. `None` (the default): endlessly; batches are all full then.
    shuffle : bool, default True
        Whether files and rows come in random orders.
    shuffle_buffer_size : int, default 10000
        As `buffer_size` of `Dataset.shuffle`.
    shuffle_seed : int, optional
        The seed of both.
    prefetch_buffer_size : int, optional
        As `buffer_size` of `Dataset.prefetch`.
    num_parallel_reads : int, optional
        How many files take turns, a row each. Default: 1.
    sloppy : bool, default False
        Whether a file whose next row isn't ready loses its turn.
    num_rows_for_inference : int, optional
        How many rows of all files decide the types. `None`: all.
    ignore_errors : bool, default False
        Leave out rows that can't be read.
    encoding : str, default "utf-8"
        Of the text, as far as it is read for names and types.
    storage_options : dict, optional
        What fsspec needs to know for URLs: as of `FixedLengthRecordDataset`.

    Returns
    -------
    Dataset

    Raises
    ------
    InvalidArgumentError
        If no file matches, a name or number isn't one of a column, names aren't unique or differ between files, rows
        are of different lengths, or an argument doesn't fit. Files are read here, where names or types are asked for.

    Notes
    -----
    The class `CsvDataset` reads, natively. Follows ``tf.data.experimental.make_csv_dataset``.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("points.csv")
    >>> _ = file.write_text("x,name,y\n1.5,a,0\n2,b,1\n")
    >>> ds = qc.data.experimental.make_csv_dataset(file, 2, label_name="y", num_epochs=1, shuffle=False)
    >>> for features, label in ds:
    ...     print(features["x"], features["name"], label)
    [1.5 2. ] Ragged([b'a', b'b'], dtype=bytes) [0 1]
    """
    reads = 1 if num_parallel_reads is None else check_int(num_parallel_reads, "num_parallel_reads", AUTOTUNE)
    store = remote.store_of(storage_options)
    files = expand_patterns(file_pattern, store)
    table = _Table(files, store, field_delim, use_quote_delim, check_bool(header, "header"), compression_type, encoding)
    names = table.names() if column_names is None else list(column_names)
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgumentError(
            f"Either `column_names` argument or CSV header row contains duplicate column names: {set(twice)}."
        )
    columns = list(range(len(names))) if select_columns is None else _numbers_of(select_columns, names)
    defaults = (
        table.defaults(columns, len(names), na_value, num_rows_for_inference)
        if column_defaults is None
        else list(column_defaults)
    )
    if len(defaults) != len(columns):
        raise InvalidArgumentError(
            "If specified, `column_defaults` and `select_columns` must have the same length: `column_defaults` has "
            f"length {len(defaults)}, `select_columns` has length {len(columns)}."
        )
    used_names = [names[column] for column in columns]
    if label_name is not None and label_name not in used_names:
        raise InvalidArgumentError(
            f"`label_name` provided must be one of the columns: {used_names}. Received: {label_name}."
        )
    reader = functools.partial(
        CsvDataset,
        record_defaults=defaults,
        compression_type=compression_type,
        header=header,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=None if select_columns is None else columns,
        storage_options=storage_options,
    )
    dataset = _rows_of_files(
        _in_any_order(Dataset.from_tensor_slices(files), len(files), shuffle_seed, shuffle),
        (lambda name: reader(name).ignore_errors()) if ignore_errors else reader,
        reads,
        sloppy,
    )
    dataset = _in_any_order(dataset, shuffle_buffer_size, shuffle_seed, shuffle)
    if num_epochs is None or check_int(num_epochs, "num_epochs", -1) != 1:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None)
    return dataset.map(_Named(used_names, label_name)).prefetch(prefetch_buffer_size)


def _in_any_order(dataset: Dataset, size: Any, seed: Any, shuffle: bool) -> Dataset:
    return dataset.shuffle(size, seed) if check_bool(shuffle, "shuffle") else dataset


def _rows_of_files(names: Dataset, read: Callable[..., Dataset], reads: int, sloppy: bool) -> Dataset:
    if reads == AUTOTUNE:
        return names.interleave(read, num_parallel_calls=AUTOTUNE, deterministic=not sloppy)
    return names.parallel_interleave(read, reads, 1, sloppy)


class _Named:
    """From columns to a dict of them, with the label apart."""

    def __init__(self, names: list[str], label: str | None) -> None:
        self._names = names
        self._label = label

    def __call__(self, *columns: Any) -> Any:
        features = dict(zip(self._names, columns, strict=True))
        if self._label is None:
            return features
        label = features.pop(self._label)
        return features, label


def _numbers_of(columns: Sequence[Any], names: list[str]) -> list[int]:
    """Return the numbers of columns, rising."""
    numbers = []
    for column in columns:
        if isinstance(column, str):
            if column not in names:
                raise InvalidArgumentError(
                    f"Column {column} specified in `select_columns` must be of one of the columns: {names}."
                )
            numbers.append(names.index(column))
        else:
            number = check_int(column, "select_columns", -(2**63))
            if not 0 <= number < len(names):
                raise InvalidArgumentError(
                    f"Column index {column} specified in `select_columns` should be >= 0 and < {len(names)}, which is "
                    "the number of columns."
                )
            numbers.append(number)
    if len(set(numbers)) != len(numbers):
        raise InvalidArgumentError(f"The `select_columns` argument contains duplicate columns: {list(columns)}.")
    return sorted(numbers)


class _Table:
    """The first rows of CSV files, as text."""

    def __init__(
        self,
        files: list[bytes],
        store: remote.RemoteStore | None,
        delim: str,
        quotes: bool,
        header: bool,
        compression: str | None,
        encoding: str,
    ) -> None:
        self._files = files
        self._store = store
        self._delim = delim
        self._quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        self._header = header
        self._compression = compression
        self._encoding = encoding

    def _rows(self, file: bytes) -> Iterator[list[str]]:
        if self._compression not in (None, "", "GZIP"):
            raise InvalidArgumentError(
                f"`compression_type` {self._compression} is not supported for probing columns: give column_names and "
                "column_defaults"
            )
        with contextlib.ExitStack() as stack:
            raw: Any
            if remote.is_url(file):
                raw = stack.enter_context(io.BufferedReader(remote.opened(file, self._store)))
            else:
                raw = stack.enter_context(open(file, "rb"))
            plain = stack.enter_context(gzip.open(raw)) if self._compression == "GZIP" else raw
            text = stack.enter_context(io.TextIOWrapper(plain, encoding=self._encoding, newline=""))
            yield from csv.reader(text, delimiter=self._delim, quoting=self._quoting)

    def names(self) -> list[str]:
        """Return the names of the columns, out of the first row of each file."""
        if not self._header:
            raise InvalidArgumentError("Expected `column_names` or `header` arguments. Neither is provided.")
        names: list[str] | None = None
        for file in self._files:
            row = next(self._rows(file), None)
            if row is None:
                raise InvalidArgumentError(
                    f"Failed when reading the header line of {os.fsdecode(file)}. Is it an empty file?"
                )
            if names is not None and row != names:
                raise InvalidArgumentError(
                    "All input CSV files should have the same column names in the header row. File "
                    f"{os.fsdecode(file)} has different column names."
                )
            names = row
        return names or []

    def defaults(self, columns: list[int], count: int, na_value: str, limit: Any) -> list[Any]:
        """Return a default of the type of each of some columns, as the first rows show it."""
        row_limit = None if limit is None else check_int(limit, "num_rows_for_inference", 0)
        types: list[int | None] = [None] * len(columns)
        rows = (
            (number, row)
            for file in self._files
            for number, row in enumerate(self._rows(file), 1)
            if number > 1 or not self._header
        )
        for number, row in itertools.islice(rows, row_limit):
            if len(row) != count:
                raise InvalidArgumentError(
                    f"Problem inferring types: CSV row {number} has {len(row)} number of fields. Expected: {count}."
                )
            for at, column in enumerate(columns):
                if row[column] not in ("", na_value):
                    types[at] = max(_type_of(row[column]), types[at] or 0)
        found = [_TYPES[-1 if one is None else one] for one in types]
        return [b"" if one is bytes else one(0) for one in found]


def _type_of(text: str) -> int:
    """Return the number of the first type that takes a value."""
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        if number in _INT64:
            return 0 if number in _INT32 else 1
    with np.errstate(over="ignore"):
        for at in (2, 3):
            try:
                if _TYPES[at](text) < np.inf:  # nan is none
                    return at
            except ValueError:
                break
    return len(_TYPES) - 1


def parse_example_dataset(
    features: Mapping[Any, Any], num_parallel_calls: SupportsIndex | None = 1, deterministic: bool | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a function that parses the Examples of a dataset of batches.

    Parameters
    ----------
    features : dict
        As of `queuecore.ops.parse_example`.
    num_parallel_calls, deterministic
        As of `Dataset.map`.

    Returns
    -------
    callable
        From a dataset of batches of serialized Examples to one of dicts, for `Dataset.apply`.

    Raises
    ------
    InvalidArgumentError
        If `features` is `None`, or is at odds with itself.
    DtypeError
        If the elements of the dataset aren't arrays of strings in one dimension.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("0a0e0a0c0a016112071a050a0301ac02")
    >>> features = {"a": qc.ops.FixedLenFeature(2, np.int64)}
    >>> ds = qc.data.Dataset.from_tensors(one).batch(1)
    >>> list(ds.apply(qc.data.experimental.parse_example_dataset(features)))
    [{'a': array([[  1, 300]])}]
    """
    if features is None:
        raise InvalidArgumentError("Argument `features` is required, but not specified.")
    stage = parse_example(features=features)

    def apply(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if not isinstance(spec, ArraySpec) or spec.dtype != BYTES or (spec.shape is not None and len(spec.shape) != 1):
            raise DtypeError(f"Input dataset should be a dataset of vectors of strings. Instead it is `{spec}`.")
        whole = functools.partial(_parsed, features)  # of a vector that is no batch
        try:
            return dataset.map(stage if chain_of(dataset).batches else whole, num_parallel_calls, deterministic)
        except InvalidArgumentError:  # strings in several dimensions, which only Python makes
            return dataset.map(whole, num_parallel_calls, deterministic)

    return apply


def _parsed(features: Mapping[Any, Any], records: Any) -> Any:
    return parse_example(records, features)


def make_batched_features_dataset(
    file_pattern: Filename | Iterable[Filename],
    batch_size: SupportsIndex,
    features: Mapping[Any, Any],
    reader: Callable[..., Dataset] | None = None,
    label_key: Any = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: SupportsIndex | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: SupportsIndex = 10000,
    shuffle_seed: SupportsIndex | None = None,
    prefetch_buffer_size: SupportsIndex | None = None,
    reader_num_threads: SupportsIndex | None = None,
    parser_num_threads: SupportsIndex | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Return a dataset of batches of the features of Examples in files.

    Parameters
    ----------
    file_pattern : str, bytes, os.PathLike, or a sequence of them
        Patterns of file names, as those of `Dataset.list_files`.
    batch_size : int
        Examples in a batch.
    features : dict
        As of `queuecore.ops.parse_example`.
    reader : callable, optional
        From a file's name to a dataset of serialized Examples, or of pairs with one in the second place. Default:
        `TFRecordDataset`.
    label_key : optional
        The feature that comes apart from the others: elements are pairs of a dict and an array then.
    reader_args : sequence, optional
        Further arguments of `reader`.
    num_epochs : int, optional
        How often to go over the Examples. `None` (the default): endlessly; batches are all full then.
    shuffle, shuffle_buffer_size, shuffle_seed, prefetch_buffer_size
        As of `make_csv_dataset`.
    reader_num_threads : int, optional
        How many files take turns, an Example each. Default: 1.
    parser_num_threads : int, optional
        As `num_parallel_calls` of `Dataset.map`. Default: 2.
    sloppy_ordering : bool, default False
        Whether a file whose next Example isn't ready loses its turn.
    drop_final_batch : bool, default False
        Leave out a last batch that isn't full.
    storage_options : dict, optional
        What fsspec needs to know for URLs: as of `Dataset.list_files`.

    Returns
    -------
    Dataset

    Raises
    ------
    InvalidArgumentError
        If no file matches, `label_key` isn't one of the features, or another argument doesn't fit.
    DtypeError
        If `reader` returns no dataset, when that is known.

    Notes
    -----
    Follows ``tf.data.experimental.make_batched_features_dataset``.
    """
    if label_key is not None and label_key not in features:
        raise InvalidArgumentError(
            f"The `label_key` provided ({label_key}) must be one of the `features` keys: {list(features)}."
        )
    if reader is not None and not callable(reader):
        raise DtypeError(f"The `reader` argument must return a `Dataset` object, and is {reader!r:.60}.")
    reads = 1 if reader_num_threads is None else check_int(reader_num_threads, "reader_num_threads", AUTOTUNE)
    names = Dataset.list_files(file_pattern, shuffle, shuffle_seed, storage_options=storage_options)
    read = _reader(TFRecordDataset if reader is None else reader, tuple(reader_args or ()))
    dataset = _rows_of_files(names, read, reads, sloppy_ordering)
    if isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) == 2:
        dataset = dataset.map(lambda key, value: value)
    dataset = _in_any_order(dataset, shuffle_buffer_size, shuffle_seed, shuffle)
    if num_epochs is None or check_int(num_epochs, "num_epochs", -1) != 1:
        dataset = dataset.repeat(num_epochs)
    drop = check_bool(drop_final_batch, "drop_final_batch") or num_epochs is None
    calls = 2 if parser_num_threads is None else parser_num_threads
    dataset = dataset.batch(batch_size, drop).apply(parse_example_dataset(features, calls))
    if label_key is not None:
        dataset = dataset.map(_Apart(label_key))
    return dataset.prefetch(prefetch_buffer_size)


def _reader(reader: Any, arguments: tuple[Any, ...]) -> Any:
    return (lambda name: reader(name, *arguments)) if arguments else reader


class _Apart:
    """From a dict to a pair of it without one entry, and that entry."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def __call__(self, features: Any) -> Any:
        others = {key: value for key, value in features.items() if key != self._key}
        return others, features[self._key]
