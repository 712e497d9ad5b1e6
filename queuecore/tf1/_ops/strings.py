"""Strings: joined, split, written and read; and whole files of them."""

from __future__ import annotations

import base64
import functools
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore._io.names import local_name, matches
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._graph.graph import Operation, Tensor, apply_op, constant_value, convert_to_tensor
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_value, broadcast, int64, name_of, string
from queuecore.tf1._ops.arrays import reshape
from queuecore.tf1._ops.patterns import compiled, replacing
from queuecore.tf1._ops.ragged import RaggedTensor, RaggedTensorValue, ragged_of, rows_of
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "as_string",
    "bytes_split",
    "decode_base64",
    "encode_base64",
    "matching_files",
    "number_of",
    "read_file",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "string_join",
    "string_length",
    "string_lower",
    "string_split",
    "string_strip",
    "string_to_number",
    "string_upper",
    "strings_split",
    "substr",
    "write_file",
]


def _given(value: Any) -> Tensor:
    return convert_to_tensor(value, string)


def _each(function: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """Return a kernel that calls a function with each of the strings."""
    target = as_dtype(dtype)

    def kernel(*values: Any) -> Any:
        arrays = np.broadcast_arrays(*[np.asarray(one, object) for one in values])
        flat = [function(*items) for items in zip(*[one.ravel() for one in arrays], strict=True)]
        if target == string:
            made = np.empty(len(flat), object)
            made[:] = flat
        else:
            made = np.array(flat, target)
        return as_value(made.reshape(arrays[0].shape)) if target == string else made.reshape(arrays[0].shape)[()]

    return kernel


def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """Return strings joined item by item, with a separator between them.

    Parameters
    ----------
    inputs : list of Tensor of strings
        Of one shape, or scalars.
    separator : str, default ""
    name : str, optional
    """
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Expected list for 'inputs' argument to 'string_join' Op, not {inputs!r}.")
    operands = [_given(one) for one in inputs] or [convert_to_tensor("")]
    between = as_value(separator, string)
    shape = TensorShape([])
    for operand in operands:  # scalars join every item
        if operand.shape.ndims != 0:
            shape = operand.shape if shape.ndims == 0 else shape.equal_to(operand.shape)
    return apply_op("StringJoin", operands, string, shape, _each(lambda *items: between.join(items), string), name)


def reduce_join(
    inputs: Any, axis: Any = None, keep_dims: Any = None, separator: Any = "", name: str | None = None,
    reduction_indices: Any = None, keepdims: Any = None,
) -> Tensor:  # fmt: skip
    """Return strings joined along dimensions.

    Parameters
    ----------
    inputs : Tensor of strings
    axis, reduction_indices : int or list of int, optional
        The dimensions, joined in this order; negative ones count from the last. Default: all, from the last one on.
    keep_dims, keepdims : bool, default False
        Whether the dimensions stay, with a length of 1.
    separator : str, default ""
    name : str, optional
    """
    strings = _given(inputs)
    keep = bool(keepdims if keep_dims is None else keep_dims)
    asked = reduction_indices if axis is None else axis
    between: bytes = as_value(separator, string)
    rank = strings.shape.ndims
    order = None if asked is None else convert_to_tensor(asked, np.int32)
    constant = None if order is None else constant_value(order)
    shape: Any = None
    if rank is not None and (order is None or constant is not None):
        gone = _joined_axes(constant, rank)
        left = [1 if index in gone else side for index, side in enumerate(strings.shape.sides or ())]
        shape = left if keep else [side for index, side in enumerate(left) if index not in gone]

    def kernel(value: Any, *rest: Any) -> Any:
        array = np.asarray(value, object)
        axes = _joined_axes(rest[0] if rest else constant, array.ndim)
        for index in axes:
            rows = np.moveaxis(array, index, -1)
            joined = np.empty(rows.shape[:-1], object)
            for place in np.ndindex(joined.shape):
                joined[place] = between.join(rows[place])
            array = np.expand_dims(joined, index)
        return as_value(
            array if keep else array.reshape([n for index, n in enumerate(array.shape) if index not in axes])
        )

    late = [] if order is None or constant is not None else [order]
    return apply_op("ReduceJoin", [strings, *late], string, shape, kernel, name)


def _joined_axes(asked: Any, rank: int) -> list[int]:
    if asked is None:
        return list(range(rank))[::-1]
    axes = [int(axis) for axis in np.ravel(asked)]
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Invalid reduction dimension {axis} for input with {rank} dimension(s)")
    places = [axis % rank for axis in axes]
    for at, place in enumerate(places):
        if place in places[:at]:
            raise InvalidArgumentError(f"Duplicate reduction dimension {place} in {axes}")
    return places


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Return strings in the letters of base64 that names of files may have; `pad`: filled up with ``=``."""
    strings = _given(input)
    encode = base64.urlsafe_b64encode if pad else (lambda one: base64.urlsafe_b64encode(one).rstrip(b"="))
    return apply_op("EncodeBase64", [strings], string, strings.shape, _each(encode, string), name)


def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Return what strings of base64 stand for, with or without the ``=`` that fill up the last four letters.

    Raises
    ------
    InvalidArgumentError
        In a run, if a string is none.
    """
    strings = _given(input)

    def decode(one: bytes) -> bytes:
        bare = one if len(one) % 4 else re.sub(rb"==?\Z", b"", one)
        if len(bare) % 4 == 1:
            raise InvalidArgumentError("Base64 string length cannot be 1 modulo 4")
        if re.fullmatch(rb"[A-Za-z0-9_-]*", bare) is None:
            raise InvalidArgumentError("Invalid character found in base64.")
        return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))

    return apply_op("DecodeBase64", [strings], string, strings.shape, _each(decode, string), name)


def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Return whether a pattern matches strings from end to end; see `regex_replace` for patterns.

    Parameters
    ----------
    input : Tensor of strings
    pattern : Tensor of strings, scalar
    name : str, optional
    """
    strings, pattern_operand = _given(input), _given(pattern)
    _known_pattern(pattern_operand)

    def kernel(value: Any, expression: Any) -> Any:
        found = compiled(_scalar(expression, "Pattern must be scalar, but received"))
        return _each(lambda one: found.fullmatch(_text(one)) is not None, bool)(value)

    return apply_op("RegexFullMatch", [strings, pattern_operand], bool, strings.shape, kernel, name)


def _pieces(
    type_: str, strings: Tensor, sep: Tensor, cut: Callable[[bytes], Callable[[bytes], list[bytes]]], kind: str,
    name: str | None,
) -> SparseTensor | RaggedTensor:  # fmt: skip
    if kind not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
    strings.shape.ranked(1)
    sep.shape.ranked(0)

    def pieces(values: Any, mark: Any) -> list[list[bytes]]:
        if np.ndim(values) != 1:
            raise InvalidArgumentError(f"input must be a vector, got shape: {list(np.shape(values))}")
        return list(map(cut(_scalar(mark, "delimiter must be a scalar, got shape:")), values))

    def sparse(values: Any, mark: Any) -> Any:
        rows = pieces(values, mark)
        places = [(i, k) for i, row in enumerate(rows) for k in range(len(row))]
        shape = [len(rows), max(map(len, rows), default=0)]
        return np.array(places, np.int64).reshape(-1, 2), _flat(rows), np.array(shape, np.int64)

    def ragged(values: Any, mark: Any) -> Any:
        rows = pieces(values, mark)
        return _flat(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64)

    if kind == "RaggedTensor":
        return rows_of(type_, [strings, sep], string, ragged, strings.shape[0].value, name)
    outputs: list[tuple[DType, Any]] = [(int64, (None, 2)), (string, (None,)), (int64, (2,))]
    op = strings.graph.create_op(type_, [strings, sep], outputs, sparse, name or type_, pure=True)
    return SparseTensor(*op.outputs)


def _scalar(value: Any, told: str) -> bytes:
    if np.ndim(value):
        raise InvalidArgumentError(f"{told} {list(np.shape(value))}")
    found: bytes = value
    return found


def _flat(rows: list[list[bytes]]) -> Any:
    made = np.empty(sum(map(len, rows)), object)
    made[:] = [one for row in rows for one in row]
    return made


def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = None, result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor | RaggedTensor:  # fmt: skip
    """Return the pieces of strings between delimiters.

    Parameters
    ----------
    source : Tensor of strings, vector
    sep, delimiter : Tensor of strings, scalar, default " "
        Each of its bytes delimits; empty: pieces are single bytes.
    skip_empty : bool, default True
        Whether empty pieces are left out.
    result_type : {"SparseTensor", "RaggedTensor"}
    name : str, optional

    Returns
    -------
    SparseTensor or RaggedTensor
        A row for each string.

    Raises
    ------
    ValueError
        If the source is no vector, or the result type another one.
    """

    def by(marks: bytes) -> Callable[[bytes], list[bytes]]:
        pattern = re.compile(b"[" + re.escape(marks) + b"]") if marks else None

        def cut(one: bytes) -> list[bytes]:
            parts = [one[i : i + 1] for i in range(len(one))] if pattern is None else pattern.split(one)
            return [part for part in parts if part] if skip_empty else parts

        return cut

    chosen = sep if delimiter is None else delimiter
    return _pieces("StringSplit", _given(source), _given(" " if chosen is None else chosen), by, result_type, name)


def strings_split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None,
    name: str | None = None,
) -> SparseTensor | RaggedTensor:  # fmt: skip
    """Return the pieces of strings between separators, as `bytes.split` would.

    Parameters
    ----------
    input, source : Tensor of strings, or RaggedTensor
        A scalar is taken for a vector of one string. Of several dimensions all but the first must be known.
    sep : Tensor of strings, scalar, optional
        Default, and if empty: any blanks, of which none is at a piece's end.
    maxsplit : int, default -1
        How often a string is cut at most.
    result_type : {"SparseTensor", "RaggedTensor"}
    name : str, optional

    Returns
    -------
    SparseTensor or RaggedTensor
        A row for each string: one dimension more.
    """

    def by(mark: bytes) -> Callable[[bytes], list[bytes]]:
        return lambda one: one.split(mark or None, maxsplit)

    def pieces(strings: Any, kind: str) -> Any:
        return _pieces("StringSplitV2", strings, _given("" if sep is None else sep), by, kind, name)

    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
    strings = _ragged_or_given(source if input is None else input)
    if not isinstance(strings, RaggedTensor):
        if strings.shape.ndims == 0:
            strings = reshape(strings, [1])
        if strings.shape.ndims in (None, 1):
            whole: SparseTensor | RaggedTensor = pieces(strings, result_type)
            return whole
    made = _of_each(strings, lambda flat: pieces(flat, "RaggedTensor"))
    return made if result_type == "RaggedTensor" else made.to_sparse()


def _ragged_or_given(value: Any) -> Tensor | RaggedTensor:
    if isinstance(value, RaggedTensorValue):
        return ragged_of(value)
    return value if isinstance(value, RaggedTensor) else _given(value)


def _of_each(strings: Any, pieces: Callable[[Tensor], Any]) -> RaggedTensor:
    """Return the pieces of strings of any shape: one dimension more; `pieces`: those of a vector."""
    if isinstance(strings, RaggedTensor):
        ragged: RaggedTensor = strings.with_flat_values(pieces(strings.flat_values))
        return ragged
    sides: Any = strings.shape.sides
    if sides is None or len(sides) == 1:
        ragged = pieces(strings)
        return ragged
    if None in sides[1:] or 0 in sides[1:] and sides[0] is None:
        raise UnimplementedError(f"split: of strings of the shape {strings.shape}, too little is known beforehand")
    ragged = pieces(reshape(strings, [-1]))
    for at in range(len(sides) - 1, 0, -1):
        ragged = RaggedTensor.from_uniform_row_length(ragged, sides[at], None if sides[at] else math.prod(sides[:at]))
    return ragged


def bytes_split(input: Any, name: str | None = None) -> RaggedTensor | Tensor:
    """Return the bytes of strings, as strings of one byte.

    Parameters
    ----------
    input : Tensor of strings, or RaggedTensor
        Of several dimensions all but the first must be known.
    name : str, optional

    Returns
    -------
    RaggedTensor, or Tensor
        A row for each string: one dimension more. A scalar's bytes are a vector.
    """

    def by(_: bytes) -> Callable[[bytes], list[bytes]]:
        return lambda one: [one[i : i + 1] for i in range(len(one))]

    def pieces(strings: Tensor) -> Any:
        return _pieces("StringBytesSplit", strings, _given(""), by, "RaggedTensor", name)

    strings = _ragged_or_given(input)
    if not isinstance(strings, RaggedTensor):
        if strings.shape.ndims is None:
            raise ValueError("input must have a statically-known rank.")
        if strings.shape.ndims == 0:
            only: Tensor = pieces(reshape(strings, [1])).values
            return only
    return _of_each(strings, pieces)


def _written(precision: int, scientific: bool, shortest: bool, width: int, fill: str) -> Callable[[Any], bytes]:
    flag = fill
    if len(flag) > 1:
        raise InvalidArgumentError(f"Fill string must be one or fewer characters, not {fill!r}")
    if flag not in ("", " ", "0", "-", "+", "#"):
        raise InvalidArgumentError(f'Fill argument not supported: "{fill}"')
    size = str(width) if width > -1 else ""
    digits = f".{precision}" if precision > -1 else ""
    letter = "e" if scientific else "g" if shortest else "f"

    def write(value: Any) -> bytes:
        if isinstance(value, bytes):
            return bytes((b"%" + flag.encode() + size.encode() + b"s") % value)
        if isinstance(value, (bool, np.bool_)):
            return b"true" if value else b"false"
        if isinstance(value, (complex, np.complexfloating)):
            form = f"%{flag}{size}{digits}{letter}"
            return (f"({form},{form})" % (value.real, value.imag)).encode()
        if isinstance(value, (int, np.integer)):
            return bytes((f"%{flag}{size}d" % value).encode())
        return bytes((f"%{flag}{size}{digits}{letter}" % value).encode())

    return write


def as_string(
    input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1, fill: str = "",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return numbers as text.

    Parameters
    ----------
    input : Tensor of numbers, booleans or strings
    precision : int, default -1
        Digits behind the point of floats; -1: six.
    scientific, shortest : bool, default False
        Whether floats are written with an exponent; or in the shorter way.
    width : int, default -1
        To how many characters it is filled up.
    fill : {"", "0", "-", "+", " ", "#"}
        With what, or where; as of C's ``printf``.
    name : str, optional

    Raises
    ------
    InvalidArgumentError
        If both ways are asked for, there is no such fill, or a way or a precision is asked for of what is no float.
    """
    operand = convert_to_tensor(input)
    if operand.dtype.kind not in "fcV":
        for what, asked in (("scientific and shortest format", scientific or shortest), ("precision", precision > -1)):
            if asked:
                raise InvalidArgumentError(f"{what} not supported for datatype {name_of(operand.dtype)}")
    if scientific and shortest:
        raise InvalidArgumentError("Cannot select both scientific and shortest notation")
    write = _written(precision, scientific, shortest, width, fill)
    return apply_op("AsString", [operand], string, operand.shape, _each(write, string), name)


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return parts of strings.

    Parameters
    ----------
    input : Tensor of strings
    pos, len : Tensor of integers
        Where they begin (negative: from the end), and how many they have at most. Scalars, or of the input's shape.
    name : str, optional
    unit : {"BYTE", "UTF8_CHAR"}
        The unit of `pos` and `len`.

    Raises
    ------
    InvalidArgumentError
        In a run, if a part begins outside its string.
    """
    _check_unit("Substr", unit)
    strings, first, count = _given(input), convert_to_tensor(pos), convert_to_tensor(len)
    for one in (first, count):
        if one.dtype.name not in ("int32", "int64"):
            what = "pos" if one is first else "len"
            raise TypeError(
                f"Value passed to parameter '{what}' has DataType {one.dtype.name} not in list of allowed values: "
                "int32, int64"
            )
    shape = broadcast([strings.shape, first.shape.equal_to(count.shape)])
    part = _each(functools.partial(_part, unit == "BYTE"), string)

    def kernel(value: Any, at: Any, number: Any) -> Any:
        if np.shape(at) != np.shape(number):
            raise InvalidArgumentError(
                f"pos and len should have the same shape, got: {list(np.shape(at))} vs. {list(np.shape(number))}"
            )
        return part(value, at, number)

    return apply_op("Substr", [strings, first, count], string, shape, kernel, name)


def _check_unit(type_: str, unit: str) -> None:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"Attr 'unit' of '{type_}' Op passed string '{unit}' not in: \"BYTE\", \"UTF8_CHAR\".")


def _part(in_bytes: bool, one: bytes, at: Any, count: Any) -> bytes:
    text: Any = one if in_bytes else one.decode()
    length = len(text)
    if not -length <= at <= length or count < 0:
        raise InvalidArgumentError(f"pos {at} out of range for string b'{one.decode(errors='backslashreplace')}'")
    begin = at % length if at < 0 else at
    part = text[begin : begin + count]
    return bytes(part if in_bytes else part.encode())


def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return how long strings are, int32: in bytes, or in characters of UTF-8."""
    _check_unit("StringLength", unit)
    strings = _given(input)
    count = (lambda one: len(one)) if unit == "BYTE" else (lambda one: len(one.decode(errors="replace")))
    return apply_op("StringLength", [strings], np.int32, strings.shape, _each(count, np.int32), name)


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Return strings without blanks at both ends."""
    strings = _given(input)
    return apply_op("StringStrip", [strings], string, strings.shape, _each(bytes.strip, string), name)


def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Return strings in small letters: those of ASCII, or, with the encoding "utf-8", all."""
    return _cased("StringLower", input, encoding, bytes.lower, str.lower, name)


def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Return strings in capital letters: those of ASCII, or, with the encoding "utf-8", all."""
    return _cased("StringUpper", input, encoding, bytes.upper, str.upper, name)


def _cased(type_: str, value: Any, encoding: str, raw: Any, text: Any, name: str | None) -> Tensor:
    if encoding not in ("", "utf-8"):
        raise ValueError(f"{type_}: the encoding must be '' or 'utf-8', not {encoding!r}")
    strings = _given(value)
    change = (lambda one: text(one.decode()).encode()) if encoding else raw
    return apply_op(type_, [strings], string, strings.shape, _each(change, string), name)


def _known_pattern(pattern: Tensor) -> None:
    pattern.shape.ranked(0)
    known = constant_value(pattern)
    if known is not None:
        compiled(known)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""Return strings with what a pattern matches replaced; ``\1`` is what its first group matched, ``\0`` all of it.

    Parameters
    ----------
    input : Tensor of strings
    pattern, rewrite : Tensor of strings, scalar
    replace_global : bool, default True
        Whether every match is replaced, or the first one.
    name : str, optional

    Raises
    ------
    InvalidArgumentError
        If there is no such pattern, or none such replacement: in a run, if they aren't known before.

    Notes
    -----
    Patterns are TensorFlow's as far as the module `re` knows them, with the categories of Unicode (``\pL``,
    ``\p{Lu}``): not its scripts (``\p{Greek}``), nor ``\C``.
    """
    strings, pattern_operand, new = _given(input), _given(pattern), _given(rewrite)
    _known_pattern(pattern_operand)
    new.shape.assert_has_rank(0)

    def kernel(value: Any, expression: Any, replacement: Any) -> Any:
        found = compiled(_scalar(expression, "Pattern must be scalar, but received"))
        made = replacing(found, _scalar(replacement, "Rewrite must be scalar, but received"), replace_global)
        return _each(lambda one: made(_text(one)).encode(errors="surrogateescape"), string)(value)

    return apply_op("RegexReplace", [strings, pattern_operand, new], string, strings.shape, kernel, name)


def number_of(text: bytes, dtype: DType) -> Any:
    """Return a string as a number. `InvalidArgumentError`: it is none of the type."""
    try:
        if b"_" in text:
            raise ValueError
        if dtype.kind == "f":
            return dtype.type(float.fromhex(text.decode()) if b"x" in text.lower() else float(text))
        return np.array(int(text), dtype)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(
            f"StringToNumberOp could not correctly convert string: {text.decode(errors='backslashreplace')}"
        ) from None


def string_to_number(
    string_tensor: Any = None, out_type: Any = np.float32, name: str | None = None, input: Any = None
) -> Tensor:
    """Return strings parsed as numbers: float32, float64, int32 or int64.

    Raises
    ------
    TypeError
        If it is another type.
    InvalidArgumentError
        In a run, if a string is no such number.
    """
    strings, dtype = _given(input if string_tensor is None else string_tensor), as_dtype(out_type)
    if dtype not in map(as_dtype, ("f4", "f8", "i4", "i8")):
        raise TypeError(f"string_to_number: the type must be float32, float64, int32 or int64, not {dtype}")

    return apply_op(
        "StringToNumber", [strings], dtype, strings.shape, _each(lambda one: number_of(one, dtype), dtype), name
    )


# Files


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """Return a file's contents.

    Raises
    ------
    NotFoundError, PermissionDeniedError, NotAFileError
        In a run, if it can't be read.
    """
    source = _given(filename)
    source.shape.ranked(0)

    def kernel(run: Any, path: bytes) -> bytes:
        del run
        from queuecore._readers.kinds import WholeFileReader

        return WholeFileReader(max_record_bytes=None).read([path])[1]

    return apply_op("ReadFile", [source], string, (), kernel, name, pure=False)


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Return an operation that writes a file, and the directories that it needs."""
    target, text = _given(filename), _given(contents)
    target.shape.ranked(0)
    text.shape.ranked(0)

    def kernel(run: Any, path: bytes, data: bytes) -> None:
        del run
        local = local_name(path)
        folder = os.path.dirname(local)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(local, "wb") as file:
            file.write(data)

    return target.graph.create_op("WriteFile", [target, text], [], kernel, name or "WriteFile")


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Return the names of the files that match one pattern or several, sorted; none is no error."""
    globs = _given(pattern)

    def kernel(run: Any, patterns: Any) -> Any:
        del run
        found = [one for each in np.ravel(np.asarray(patterns, object)) for one in matches(each, hidden=True)]
        made = np.empty(len(found), object)
        made[:] = sorted(found)
        return made

    return apply_op("MatchingFiles", [globs], string, [None], kernel, name, pure=False)
