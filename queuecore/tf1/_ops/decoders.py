"""Decoders of strings: raw numbers, CSV, compressed data, pictures, Examples. All are those of `queuecore.ops`."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore import ops
from queuecore._ops.csv import csv_columns
from queuecore.errors import InvalidArgumentError
from queuecore.ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from queuecore.ragged import Ragged, Sparse
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor, folded_value
from queuecore.tf1._graph.texts import Text, retold
from queuecore.tf1._graph.values import DType, Sides, as_dtype, int64, string
from queuecore.tf1._ops.ragged import RaggedTensor
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "FixedLengthFeature",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
    "decode_bmp",
    "decode_compressed",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_raw",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]

FixedLengthFeature = FixedLenFeature  # as some tutorials spell it


def _strings(value: Any, what: str) -> Tensor:
    strings = convert_to_tensor(value, string if isinstance(value, (list, tuple)) and not value else None)
    if strings.dtype != string:
        raise TypeError(f"{what}: expected strings, got {strings!r}")
    return strings


def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
    *,
    fixed_length: int | None = None,
) -> Tensor:
    """Read strings of bytes as numbers: see `queuecore.ops.decode_raw`.

    Parameters
    ----------
    input_bytes : Tensor of strings
        Of any shape; all equally long, unless there is a `fixed_length`.
    out_type : dtype
        Of numbers.
    little_endian : bool, default True
        Byte order of the input.
    name : str, optional
    bytes : Tensor of strings, optional
        The older name of `input_bytes`.
    fixed_length : int, optional
        Cut every string to so many bytes, or fill it up with zeros.

    Returns
    -------
    Tensor
        Of the input's shape, and one dimension more.

    Raises
    ------
    TypeError, ValueError
        If there is no such dtype, the input is no strings, or the length is no multiple of the item's size.
    InvalidArgumentError
        In a run, if a string has another length than the others, or its length is no multiple of the item's size.
    """
    strings = _strings(bytes if input_bytes is None else input_bytes, "decode_raw")
    dtype = as_dtype(out_type)
    with retold((r"fixed_length must be a positive multiple of (\d+) \(the item\), not (.*)",
                 r"fixed_length (\2) must be a multiple of the size of out_type (\1)")):  # fmt: skip
        ops.decode_raw(None, dtype, little_endian, fixed_length)  # raises for arguments that it can't use
    sides = strings.shape.sides
    items = None if fixed_length is None else fixed_length // dtype.itemsize
    shape = None if sides is None else (*sides, items)
    type_ = "DecodeRaw" if fixed_length is None else "DecodePaddedRaw"

    def kernel(x: Any) -> Any:
        with retold(
            ("must be equally long; there are", lambda _: _unequal(x)),
            (r"has (\d+) bytes, which is not a multiple of (\d+)",
             rf"Input to DecodeRaw has length \1 that is not a multiple of \2, the size of {dtype.name}"),
        ):  # fmt: skip
            return ops.decode_raw(x, dtype, little_endian, fixed_length)

    return apply_op(type_, [strings], dtype, shape, kernel, name)


def _unequal(strings: Any) -> str:
    sizes = [len(one) for one in np.ravel(strings)]
    at = next((i for i, size in enumerate(sizes) if size != sizes[0]), 0)
    return (
        f"DecodeRaw requires input strings to all be the same size, but element {at} has size {sizes[0]} != {sizes[at]}"
    )


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Decompress strings: see `queuecore.ops.decode_compressed`.

    Parameters
    ----------
    bytes : Tensor of strings
    compression_type : {"", "ZLIB", "GZIP", "ZSTD", "LZ4", "XZ", "BZ2"}, default ""
    name : str, optional

    Returns
    -------
    Tensor
        Of the input's shape.
    """
    strings = _strings(bytes, "decode_compressed")
    ops.decode_compressed(None, compression_type)
    return apply_op(
        "DecodeCompressed", [strings], string, strings.shape, lambda x: ops.decode_compressed(x, compression_type), name
    )


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Split records of comma-separated values into columns: see `queuecore.ops.decode_csv`.

    Parameters
    ----------
    records : Tensor of strings
        Of any shape, each a record.
    record_defaults : list
        For each column a value, or a tensor of one that is known beforehand, of the column's type; an empty one: a
        value is required.
    field_delim : str, default ","
    use_quote_delim : bool, default True
    name : str, optional
    na_value : str, default ""
    select_cols : list of int, optional

    Returns
    -------
    list of Tensor
        One for each column, of the shape of `records`.

    Raises
    ------
    TypeError, ValueError
        If a default is no such value.
    InvalidArgumentError
        In a run, if a record doesn't parse.
    """
    if select_cols is not None:
        chosen = list(select_cols)
        if len(chosen) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
        if any(column < 0 for column in chosen):
            raise ValueError("select_cols contains negative values.")
        if any(a >= b for a, b in itertools.pairwise(chosen)):
            raise ValueError("select_cols is not strictly increasing.")
    strings = _strings(records, "decode_csv")
    defaults = [csv_default(default) for default in record_defaults]
    for rank in map(np.ndim, defaults):
        if rank > 1:
            raise InvalidArgumentError(f"decode_csv: Shape must be at most rank 1 but is rank {rank}")
    with retold(
        ("must be one value, or an empty list; its shape is .\\d+,.$",
         "Shape of a default must be a length-0 or length-1 vector, or a scalar"),
        ("must be a float32, float64, int32, int64 or bytes, not (.*)",
         r"Value passed to parameter 'record_defaults' has DataType \1 not in list of allowed values: float32, "
         "float64, int32, int64, string"),
        ("field_delim must be one byte", "field_delim should be only 1 char"),
    ):  # fmt: skip
        ops.decode_csv(None, defaults, field_delim, use_quote_delim, None, na_value, select_cols)
    dtypes = [as_dtype(dtype) for dtype, _ in csv_columns(defaults)]
    lone = len(dtypes) == 1

    def kernel(x: Any) -> Any:
        with retold(*_CSV):
            columns = ops.decode_csv(x, defaults, field_delim, use_quote_delim, None, na_value, select_cols)
        return columns[0] if lone else columns

    op = strings.graph.create_op(
        "DecodeCSV", [strings], [(dtype, strings.shape) for dtype in dtypes], kernel, name or "DecodeCSV", pure=True
    )
    return list(op.outputs)


_CSV = [
    (r"^(Field \d+ in record \d+ is not a valid) float32: (.*)", r"\1 float: \2"),
    (r"^(Field \d+ in record \d+ is not a valid) float64: (.*)", r"\1 double: \2"),
    ("inside a field that is not quoted", "Unquoted fields cannot have quotes/CRLFs inside"),
    ("is not closed before the end", "Quoted field has to end with quote followed by delim or end"),
    ("inside a quoted field that is not doubled", "Quote inside a string has to be escaped by another quote"),
]

_KINDS = {"float32": "float", "float64": "double"}


def _fields(found: re.Match[str]) -> str:
    wanted, there = int(found[1]), int(found[2])
    return f"Expect {wanted} fields but have {'more' if there > wanted else there} in record"


CSV_ROWS: list[Text] = [
    (r": expected (\d+) fields, got (\d+)", _fields),
    (r", column (\d+).*: a value is required here",
     lambda found: f"Field {int(found[1]) - 1} is required but missing in record!"),
    (r", column (\d+).*: '?(.*?)'? is no (float32|float64|int32|int64)$",
     lambda found: f"Field {int(found[1]) - 1} in record is not a valid {_KINDS.get(found[3], found[3])}: {found[2]}"),
    ("a quote inside a field that is not quoted", "Unquoted fields cannot have quotes inside"),
    ("a quote inside a quoted field that is not doubled", "Quote inside a string has to be escaped by another quote"),
    ("the quote that opens here is never closed", "Reached end of file without closing quoted field in record"),
]  # fmt: skip
"""What TensorFlow says of rows of CSV files. It counts the fields that are taken, where they are selected."""


def csv_default(value: Any) -> Any:
    """Return the default of a column, of what may be a tensor.

    Raises
    ------
    ValueError
        If only a run tells it.
    """
    if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], Tensor):
        value = value[0]
    if not isinstance(value, Tensor):
        return value
    known = folded_value(value)
    if known is None:
        raise ValueError(f"the default of a column of CSV must be known before the graph runs, and {value!r} is not")
    # An empty array of strings shows the column's type by its dtype alone.
    return np.empty(0, "S1") if value.dtype == string and np.size(known) == 0 else known


# Pictures


def _picture(
    type_: str, contents: Any, dtype: Any, shape: Sides | None, kernel: Callable[[Any], Any], name: str | None
) -> Tensor:
    data = _strings(contents, type_)
    data.shape.ranked(0)

    def told(value: Any) -> Any:
        with retold(("is neither JPEG", "Unknown image file format. One of JPEG, PNG, GIF, BMP required.")):
            return kernel(value)

    return apply_op(type_, [data], dtype, shape, told, name)


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode a JPEG: see `queuecore.ops.decode_jpeg`.

    Parameters
    ----------
    contents : Tensor, one string
    channels : {0, 1, 3}, default 0
        0: as in the file.
    ratio : {1, 2, 4, 8}, default 1
        The divisor of height and width.
    fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
    name : str, optional

    Returns
    -------
    Tensor of uint8, shape (height, width, channels)
    """
    options = (channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method)
    with retold((r"(channels|ratio) must be (.*), not (.*)", r"\1 must be \2, got \3")):
        ops.decode_jpeg(None, *options)
    return _picture(
        "DecodeJpeg", contents, np.uint8, (None, None, channels or None), lambda x: ops.decode_jpeg(x, *options), name
    )


def decode_png(contents: Any, channels: int = 0, dtype: Any = np.uint8, name: str | None = None) -> Tensor:
    """Decode a PNG: see `queuecore.ops.decode_png`.

    Parameters
    ----------
    contents : Tensor, one string
    channels : {0, 1, 3, 4}, default 0
        0: as in the file.
    dtype : {uint8, uint16}, default uint8
    name : str, optional

    Returns
    -------
    Tensor, shape (height, width, channels)
    """
    wanted = as_dtype(dtype)
    with retold((r"channels must be (.*), not (.*)", r"channels must be \1, got \2")):
        ops.decode_png(None, channels, wanted)
    shape = (None, None, channels or None)
    return _picture("DecodePng", contents, wanted, shape, lambda x: ops.decode_png(x, channels, wanted), name)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Decode a BMP: see `queuecore.ops.decode_bmp`.

    Parameters
    ----------
    contents : Tensor, one string
    channels : {0, 3, 4}, default 0
        0: as in the file.
    name : str, optional

    Returns
    -------
    Tensor of uint8, shape (height, width, channels)
    """
    ops.decode_bmp(None, channels)
    return _picture(
        "DecodeBmp", contents, np.uint8, (None, None, channels or None), lambda x: ops.decode_bmp(x, channels), name
    )


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decode all pictures of a GIF: see `queuecore.ops.decode_gif`.

    Parameters
    ----------
    contents : Tensor, one string
    name : str, optional

    Returns
    -------
    Tensor of uint8, shape (pictures, height, width, 3)
    """
    return _picture("DecodeGif", contents, np.uint8, (None, None, None, 3), lambda x: ops.decode_gif(x), name)


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = np.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decode a picture of any known format: see `queuecore.ops.decode_image`.

    Parameters
    ----------
    contents : Tensor, one string
    channels : int, optional
    dtype : dtype, default uint8
        Floats are between 0 and 1.
    name : str, optional
    expand_animations : bool, default True
        Whether a GIF has a dimension more, of its pictures.

    Returns
    -------
    Tensor
        Its shape is unknown; without `expand_animations`, it has three dimensions.
    """
    target = as_dtype(dtype)
    ops.decode_image(None, channels, target, None, expand_animations)
    return _picture(
        "DecodeImage",
        contents,
        target,
        None if expand_animations else (None, None, channels or None),
        lambda x: ops.decode_image(x, channels, target, None, expand_animations),
        name,
    )


# Examples


class _Part(NamedTuple):
    # One feature's tensors, what makes them of a component, and what puts them together again.
    outputs: list[tuple[DType, Any]]
    taken: Callable[[Any], list[Any]]
    built: Callable[[list[Tensor]], Any]


_INT = int64


def _part(feature: Any, outer: Sides, steps: bool) -> _Part:
    # `outer`: the batch's dimension; `steps`: of a feature list.
    if isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
        sides = feature.shape if isinstance(feature.shape, (list, tuple, np.ndarray)) else [feature.shape]
        rows: Sides = (None,) if isinstance(feature, FixedLenSequenceFeature) else ()
        shape: Sides = (*outer, *rows, *(int(one) for one in sides))
        return _Part(
            [(as_dtype(feature.dtype), shape)], lambda component: [_dense(component, shape)], lambda parts: parts[0]
        )
    dtype = as_dtype(feature.dtype)
    if isinstance(feature, RaggedFeature):
        return _ragged_part(feature, outer, steps)
    rank = len(outer) + (len(_listed(feature.index_key)) if isinstance(feature, SparseFeature) else 1 + steps)
    outputs = [(_INT, (None, rank)), (dtype, (None,)), (_INT, (rank,))]
    return _Part(outputs, _sparse_parts, lambda parts: SparseTensor(*parts))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _dense(component: Any, shape: Sides) -> Any:
    # Strings come as rows of characters. Others, also symbols of a trace (which refuse isinstance), stay as they are.
    return _string_array(component, shape) if type(component) is Ragged else component


def _string_array(ragged: Ragged, shape: Sides) -> Any:
    sides: list[int] = []
    rows: Any = ragged
    for side in shape[:-1]:
        count = len(rows)
        total = math.prod(map(int, sides))
        sides.append(side if side is not None else count // total if total else 0)
        rows = rows.values
    flat = np.empty(len(rows), object)
    flat[:] = rows.to_list()
    total = math.prod(map(int, sides))
    last = shape[-1] if shape[-1] is not None else len(flat) // total if total else 0
    return flat.reshape(*sides, last)


def _values(component: Any) -> Any:
    return _string_array(component, (None,)) if type(component) is Ragged else component


def _sparse_parts(sparse: Sparse) -> list[Any]:
    return [sparse.indices, _values(sparse.values), sparse.dense_shape]


def _ragged_part(feature: RaggedFeature, outer: Sides, steps: bool) -> _Part:
    dtype, splits = as_dtype(feature.dtype), as_dtype(feature.row_splits_dtype)
    partitions = list(feature.partitions)
    inner: list[int] = []
    while partitions and isinstance(partitions[-1], RaggedFeature.UniformRowLength) and dtype != string:
        inner.insert(0, int(partitions.pop().length))  # such rows are a dimension of the values
    levels = len(partitions) + len(outer) + steps

    def taken(component: Any) -> list[Any]:
        parts = []
        for _ in range(levels):
            parts.append(component.row_splits)
            component = component.values
        return [*parts, _values(component)]

    def built(parts: list[Tensor]) -> Any:
        ragged: Any = parts[-1]
        for row_splits in reversed(parts[:-1]):
            ragged = RaggedTensor(ragged, row_splits)
        return ragged

    first = (None if outer[0] is None else outer[0] + 1,) if outer else (None,)
    shapes: list[Sides] = [first if level == 0 else (None,) for level in range(levels)]
    return _Part([*((splits, shape) for shape in shapes), (dtype, (None, *inner))], taken, built)


def _parsed(
    type_: str,
    serialized: Any,
    sections: Sequence[Mapping[Any, Any] | None],
    rank: int | None,
    call: Callable[..., Any],
    name: str | None,
    extra: Sequence[Any] = (),
    error_texts: Sequence[Any] = (),
) -> list[dict[Any, Any]]:
    """Add an operation that parses messages, and return the tensors of each section; `error_texts`: of its errors."""
    messages = _strings(serialized, type_)
    if rank == 0 and messages.shape.sides:
        raise ValueError(f"Input serialized must be a scalar: {messages!r}")
    if rank is not None:
        messages.shape.ranked(rank)
    elif messages.shape.sides is None or len(messages.shape.sides) > 1:
        raise ValueError(f"{type_}: expected one string, or a batch of them, got shape {messages.shape}")
    outer: Sides = messages.shape.sides or () if rank is None else (None,) * rank
    if rank and messages.shape.sides is not None:
        outer = messages.shape.sides
    with retold(*_FEATURES):
        call(None)  # raises for descriptions that are no features
    parts = [
        {key: _part(feature, outer, number == 1) for key, feature in (section or {}).items()}
        for number, section in enumerate(sections)
    ]
    outputs = [output for section in parts for part in section.values() for output in part.outputs]
    lone = len(outputs) + len(extra) == 1

    def kernel(x: Any) -> Any:
        with retold(("Could not parse the message", lambda _: _unparsed(x)), *error_texts, *_VALUES):
            values = call(x)
        values = values if isinstance(values, tuple) else (values,)
        flat = [
            value
            for section, by_key in zip(parts, values, strict=False)
            for key, part in section.items()
            for value in part.taken(by_key[key])
        ]
        flat += [values[-1][key] for key in extra]
        return flat[0] if lone else flat

    lengths = [(_INT, outer) for _ in extra]
    op = messages.graph.create_op(type_, [messages], [*outputs, *lengths], kernel, name or type_, pure=True)
    rest = list(op.outputs)
    results = []
    for section in parts:
        tensors = {}
        for key, part in section.items():
            count = len(part.outputs)
            tensors[key] = part.built(rest[:count])
            rest = rest[count:]
        results.append(tensors)
    if extra:
        results.append(dict(zip(extra, rest, strict=True)))
    return results


# TensorFlow's texts for what is wrong with features, and with values of messages
_FEATURES = [
    ("features must be a dict that is not empty, not (.*)", r"Missing: features was \1."),
    ("one of context_features and sequence_features must name", "Missing features."),
    ("feature '?(.*?)'?: all dimensions of the shape must be known, not None", "Missing shape for feature \\1."),
    (r"feature '?(.*?)'?: all dimensions of the shape must be known, not [\[(]None",
     r"First dimension of shape for feature \1 unknown. Consider using FixedLenSequenceFeature."),
    (r"feature '?(.*?)'?: all dimensions of the shape must be known, not ([\[(].*)",
     r"All dimensions of shape for feature \1 need to be known but received \2."),
    ("FixedLenSequenceFeature requires allow_missing",
     "Unsupported: FixedLenSequenceFeature requires allow_missing to be True."),
    (r"default_value has (\d+) values, but (\d+) are",
     r"Cannot reshape a tensor with \1 elements to shape [\2] (\2 elements)"),
    (r"feature '?(.*?)'?: (\w+) does not go into (?:features|context_features): (.*)", r"Invalid feature \1:\3."),
    (r"(\w+) does not go into feature lists: (.*)", r"Unsupported \1 \2."),
    ("index_key and size must be one each", "index_key and size must have equal lengths."),
]  # fmt: skip
_VALUES: list[Text] = [
    (r"(Name: .*, Feature list: .*)", r"\1"),
    (r"(Name: .*, Key: .*, Index: \d+.  Data types don't match.) Expected type: (\w+), Actual type: (\w+)",
     r"\1 Data type: \3 but expected type: \2"),
    (r"(Key: .*Data types don't match.) Expected type: (\w+), Actual type: (\w+)",
     r"\1 Data type: \3 but expected type: \2"),
    (r"(Name: .*, Feature list '.*' is required but could not be found.)",
     r"\1  Did you mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"),
    ("feature '?(.*?)'?: values and partitions do not have the same steps",
     r"Feature \1: values and partitions are not aligned"),
    (r"(Name: .*Saw \d+ values but output shape is:) \['\?'(?:, )?(.*)\]",
     lambda found: f"{found[1].replace('Number of string', 'Number of bytes')} [?,{found[2]}]"),
    (r"(Name: .*)", lambda found: found[1].replace("Number of string", "Number of bytes")),
    (r"(\d+) example_names for (\d+) messages", r"Expected len(names) == len(serialized), but got: \1 vs. \2"),
]  # fmt: skip


def _settled(features: Mapping[Any, Any] | None) -> Any:
    # Defaults may be tensors that constants make.
    if not isinstance(features, Mapping):
        return features
    descriptions = dict(features)
    for key, feature in descriptions.items():
        value = getattr(feature, "default_value", None)
        if isinstance(value, Tensor):
            known = folded_value(value)
            if known is None:
                raise ValueError(
                    f"feature {key!r}: a default must be known before the graph runs, and {value!r} is not"
                )
            descriptions[key] = dataclasses.replace(feature, default_value=known)
    return descriptions


def _unparsed(given: Any) -> str:
    # TensorFlow shows a single message, and of several none.
    shown = f", value: '{given.decode(errors='backslashreplace')}'" if isinstance(given, bytes) else ""
    return f"Could not parse example input{shown}"


def _names(example_names: Any) -> Any:
    # Used in messages alone; names that a run computes are ignored.
    known = None if example_names is None else constant_value(convert_to_tensor(example_names))
    return (
        None
        if known is None or isinstance(known, bytes) or not len(known)
        else [one.decode(errors="replace") for one in known]
    )


def parse_example(
    serialized: Any, features: Mapping[Any, Any], name: str | None = None, example_names: Any = None
) -> dict[Any, Any]:
    """Parse a batch of serialized ``tf.train.Example`` messages: see `queuecore.ops.parse_example`.

    Parameters
    ----------
    serialized : Tensor of strings
        A vector, or one string, which is parsed as by `parse_single_example`.
    features : dict
        `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`, `SparseFeature` or `RaggedFeature` by key.
    name : str, optional
    example_names : list of str, optional
        For errors.

    Returns
    -------
    dict
        By key a `Tensor`, a `SparseTensor` or a `RaggedTensor`.

    Raises
    ------
    TypeError, ValueError
        If there are no features, or a description is at odds with itself.
    InvalidArgumentError
        In a run, if a message doesn't parse, or lacks a feature that has no default.
    """
    names, features = _names(example_names), _settled(features)
    return _parsed("ParseExample", serialized, [features], None,
                   lambda x: ops.parse_example(x, features, None, names), name)[0]  # fmt: skip


def parse_single_example(
    serialized: Any, features: Mapping[Any, Any], name: str | None = None, example_names: Any = None
) -> dict[Any, Any]:
    """Parse one serialized ``tf.train.Example`` message: see `queuecore.ops.parse_single_example`.

    Parameters
    ----------
    serialized : Tensor, one string
    features, name, example_names
        As for `parse_example`.

    Returns
    -------
    dict
        As of `parse_example`, without the batch's dimension.

    Raises
    ------
    TypeError, ValueError, InvalidArgumentError
        As `parse_example`.
    """
    del example_names
    features = _settled(features)
    return _parsed("ParseSingleExample", serialized, [features], 0,
                   lambda x: ops.parse_single_example(x, features), name)[0]  # fmt: skip


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[Any, Any] | None = None,
    sequence_features: Mapping[Any, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Tensor]]:
    """Parse a batch of ``tf.train.SequenceExample`` messages: see `queuecore.ops.parse_sequence_example`.

    Parameters
    ----------
    serialized : Tensor of strings
        A vector.
    context_features, sequence_features : dict, optional
    example_names : list of str, optional
    name : str, optional

    Returns
    -------
    context, sequences, lengths : dict
        By key; the lengths are those of each `FixedLenSequenceFeature`.

    Raises
    ------
    TypeError, ValueError, InvalidArgumentError
        As `parse_example`.
    """
    names = _names(example_names)
    context_features, sequence_features = _settled(context_features), _settled(sequence_features)
    extra = [key for key, one in (sequence_features or {}).items() if isinstance(one, FixedLenSequenceFeature)]
    found = _parsed(
        "ParseSequenceExample", serialized, [context_features, sequence_features], 1,
        lambda x: ops.parse_sequence_example(x, context_features, sequence_features, names), name, extra,
    )  # fmt: skip
    return found[0], found[1], found[2] if extra else {}


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[Any, Any] | None = None,
    sequence_features: Mapping[Any, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Parse one ``tf.train.SequenceExample`` message: see `queuecore.ops.parse_single_sequence_example`.

    Parameters
    ----------
    serialized : Tensor, one string
    context_features, sequence_features : dict, optional
    example_name, name : str, optional

    Returns
    -------
    context, sequences : dict

    Raises
    ------
    TypeError, ValueError, InvalidArgumentError
        As `parse_example`.
    """
    called = None if example_name is None else constant_value(convert_to_tensor(example_name))
    label = called.decode(errors="replace") if isinstance(called, bytes) else "<unknown>"
    context_features, sequence_features = _settled(context_features), _settled(sequence_features)
    error_texts = [
        (r"Feature: (.*) \(data type: .*is required",
         rf"Name: {label}, Context feature '\1' is required but could not be found."),
        ("(Feature list '.*' is required but could not be found.)",
         rf"Name: {label}, \1  Did you mean to include it in feature_list_dense_missing_assumed_empty or "
         "feature_list_dense_defaults?"),
        (r"(Feature list: .*, Index: \d+.  Data types don't match. Expected type: \w+)", rf"Name: {label}, \1"),
        (r"(Key: .*, Index: \d+.  Number of .*)", rf"Name: {label}, \1"),
        (r"Key: (.*)\.  (Data types don't match. Expected type: \w+)", rf"Name: {label}, Context feature: \1.  \2"),
        (r"Key: (.*)\.  Number of (\w+) values != expected.  Values size: (\d+) but output shape: (.*)",
         rf"Name: {label}, Key: \1, Number of \2 values != expected.  values size: \3 but output shape: \4"),
    ]  # fmt: skip
    found = _parsed(
        "ParseSingleSequenceExample", serialized, [context_features, sequence_features], 0,
        lambda x: ops.parse_single_sequence_example(x, context_features, sequence_features), name, (), error_texts,
    )  # fmt: skip
    return found[0], found[1]
