"""Datasets of the records of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import queuecore.data as eager
from queuecore._elements.component import BYTES, Component
from queuecore._io.compression import COMPRESSIONS
from queuecore._ops.csv import csv_columns
from queuecore.data._plan.blocks import BlockSource, blocks_of_fixed
from queuecore.data._plan.chain import chain_of, dataset_of
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._data.datasets import AUTOTUNE, STRING, Dataset, int_tensor, names_of, variant_of
from queuecore.tf1._data.nests import leaf_of
from queuecore.tf1._graph.graph import Tensor, constant_value, convert_to_tensor
from queuecore.tf1._graph.values import DType, as_dtype, name_of, string
from queuecore.tf1._ops.decoders import csv_default

__all__ = ["CsvDataset", "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset", "csv_column"]

_FORMATS = {"": None, **{word: word for word in COMPRESSIONS}}


class _Files(Dataset):
    # Records of files.

    def __init__(
        self, type_: str, filenames: Any, compression_type: Any, num_parallel_reads: Any, spec: Any,
        make: Callable[..., Any], *inputs: Tensor,
    ) -> None:  # fmt: skip
        def kernel(_: Any, names: Any, compression: Any, *rest: Any) -> Any:
            if isinstance(names, eager.Dataset):
                return names.flat_map(lambda name: one([name], compression, rest))
            return one(names_of(names), compression, rest)

        def one(names: list[bytes], compression: bytes, rest: tuple[Any, ...]) -> Any:
            word = compression.decode()
            if word not in _FORMATS:
                raise InvalidArgumentError(f"Unsupported compression_type: {word}")
            if not names:
                return make([b"/"], _FORMATS[word], *rest).take(0)
            parallel = rest[-1] if num_parallel_reads is not None else None
            if parallel is not None and (parallel > 1 or parallel == AUTOTUNE) and len(names) > 1:
                # As in TensorFlow, elements then come from several files in turns.
                cycle = len(names) if parallel == AUTOTUNE else int(parallel)
                files = eager.Dataset.from_tensor_slices(names)
                return files.interleave(lambda name: make([name], _FORMATS[word], *rest), cycle, 1, AUTOTUNE)
            return make(names, _FORMATS[word], *rest)

        if isinstance(filenames, Dataset):
            source = filenames._variant
        else:
            source = convert_to_tensor(_names(filenames), name="filenames", dtype_hint=string)
            if source.dtype != string:
                raise TypeError(
                    "The `filenames` argument must contain `tf.string` elements. Got "
                    f"`tf.{name_of(source.dtype)}` elements."
                )
        compression = convert_to_tensor(compression_type or "", string, "compression_type")
        extra = [] if num_parallel_reads is None else [int_tensor(num_parallel_reads, "num_parallel_reads")]
        variant = variant_of(type_, [source, compression, *inputs, *extra], kernel)
        super().__init__(variant, spec)


def _names(filenames: Any) -> Any:
    # Paths as strings.
    if isinstance(filenames, (list, tuple)):
        return [_names(one) for one in filenames]
    return os.fspath(filenames) if isinstance(filenames, os.PathLike) else filenames


class TextLineDataset(_Files):
    """The lines of text files, as strings without their ends.

    Parameters
    ----------
    filenames : str, list of str, Tensor or Dataset
    compression_type : {"", "ZLIB", "GZIP"}, optional
    buffer_size : int, optional
        Not used.
    num_parallel_reads : int, optional
        The number of files that lines come from in turns. Default: one file after the other.
    name : str, optional
        Not used.
    """

    def __init__(
        self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        del buffer_size, name

        def make(names: Any, compression: Any, *_: Any) -> Any:
            return eager.TextLineDataset(names, compression)

        super().__init__("TextLineDataset", filenames, compression_type, num_parallel_reads, STRING, make)


class TFRecordDataset(_Files):
    """The records of TFRecord files, as strings.

    Parameters
    ----------
    filenames : str, list of str, Tensor or Dataset
    compression_type : {"", "ZLIB", "GZIP"}, optional
    buffer_size : int, optional
        Not used.
    num_parallel_reads : int, optional
        The number of files that records come from in turns. Default: one file after the other.
    name : str, optional
        Not used.
    """

    def __init__(
        self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        del buffer_size, name

        def make(names: Any, compression: Any, *_: Any) -> Any:
            return eager.TFRecordDataset(names, compression)

        super().__init__("TFRecordDataset", filenames, compression_type, num_parallel_reads, STRING, make)


class FixedLengthRecordDataset(_Files):
    """Records of one length, as strings.

    Parameters
    ----------
    filenames : str, list of str, Tensor or Dataset
    record_bytes : int or Tensor
    header_bytes, footer_bytes : int or Tensor, default 0
        Bytes that are left out at the beginning and the end of each file.
    buffer_size : int, optional
        Not used.
    compression_type : {"", "ZLIB", "GZIP"}, optional
    num_parallel_reads : int, optional
        The number of files that records come from in turns. Default: one file after the other.
    name : str, optional
        Not used.

    Notes
    -----
    A file that ends inside a record is a `TruncatedRecordError` when an iteration begins, or, where its size doesn't
    tell, after its whole records.
    """

    def __init__(
        self, filenames: Any, record_bytes: Any, header_bytes: Any = None, footer_bytes: Any = None,
        buffer_size: Any = None, compression_type: Any = None, num_parallel_reads: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        del buffer_size, name
        sizes = [int_tensor(record_bytes, "record_bytes"), int_tensor(header_bytes or 0, "header_bytes"),
                 int_tensor(footer_bytes or 0, "footer_bytes")]  # fmt: skip

        def make(names: Any, compression: Any, *rest: Any) -> Any:
            size, header, footer = map(int, rest[:3])
            made = eager.FixedLengthRecordDataset(names, size, header, footer, compression_type=compression)
            # As strings, and not as arrays of bytes.
            chain = chain_of(made)
            source: Any = chain.source
            blocks = source if isinstance(source, BlockSource) else blocks_of_fixed(source)
            component = Component(BYTES, (), size)
            words = {**blocks.words, "strings": True}
            return dataset_of(replace(chain, source=replace(blocks, components=(component,), first=None, words=words)))

        super().__init__(
            "FixedLengthRecordDataset", filenames, compression_type, num_parallel_reads, STRING, make, *sizes
        )


class CsvDataset(_Files):
    """The rows of CSV files: a tuple with a scalar for each column. See `queuecore.data.CsvDataset`.

    Parameters
    ----------
    filenames : str, list of str, Tensor or Dataset
    record_defaults : list
        For each column a type, if a value is required, or the value of empty fields.
    compression_type : {"", "ZLIB", "GZIP"}, optional
    buffer_size : int, optional
        At least 1, and not used.
    header : bool, default False
        Leave out the first row of each file.
    field_delim, use_quote_delim, na_value, select_cols
        As of `decode_csv`.
    """

    def __init__(
        self, filenames: Any, record_defaults: Sequence[Any], compression_type: Any = None, buffer_size: Any = None,
        header: bool = False, field_delim: str = ",", use_quote_delim: bool = True, na_value: str = "",
        select_cols: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        size = None if buffer_size is None else constant_value(int_tensor(buffer_size, "buffer_size"))
        if size is not None and size < 1:
            raise InvalidArgumentError(f"buffer_size should be positive: it is {buffer_size!r}")
        types, columns = zip(*map(csv_column, record_defaults), strict=True) if len(record_defaults) else ((), ())

        def make(names: Any, compression: Any, *_: Any) -> Any:
            return eager.CsvDataset(
                names, list(columns), compression, None, header, field_delim, use_quote_delim, na_value, select_cols
            )

        spec = tuple([leaf_of(one, []) for one in types])
        super().__init__("CSVDataset", filenames, compression_type, None, spec, make)


def csv_column(default: Any) -> tuple[DType, Any]:
    """Return the type of a column, and a user's default as `queuecore.data.CsvDataset` takes it.

    Raises
    ------
    InvalidArgumentError
        If a default has two dimensions.
    ValueError
        If it is a tensor whose value only a run tells.
    """
    value = csv_default(default)
    if np.ndim(value) > 1:
        raise InvalidArgumentError(f"CsvDataset: Shape must be at most rank 1 but is rank {np.ndim(value)}")
    if not isinstance(value, (list, tuple, np.ndarray, np.generic, bytes, str, int, float)):
        value = as_dtype(value).dtype
    dtype, _ = csv_columns([value], "CsvDataset")[0]
    return as_dtype(dtype), value
