"""Strings: joined, split, written and read; and whole files of them."""

from __future__ import annotations

import functools
import glob
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Operation, Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import TensorShape, as_dtype, as_value, broadcast, string
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "as_string",
    "matching_files",
    "read_file",
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
    wanted = as_dtype(dtype)

    def kernel(*values: Any) -> Any:
        arrays = np.broadcast_arrays(*[np.asarray(one, object) for one in values])
        flat = [function(*items) for items in zip(*[one.ravel() for one in arrays], strict=True)]
        if wanted == string:
            made = np.empty(len(flat), object)
            made[:] = flat
        else:
            made = np.array(flat, wanted)
        return as_value(made.reshape(arrays[0].shape)) if wanted == string else made.reshape(arrays[0].shape)[()]

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
    given = [_given(one) for one in inputs]
    between = as_value(separator, string)
    shape = TensorShape([])
    for one in given:  # scalars join every item
        if one.shape.ndims != 0:
            shape = one.shape if shape.ndims == 0 else shape.merge_with(one.shape)
    return apply_op("StringJoin", given, string, shape, _each(lambda *one: between.join(one), string), name)


def _cut(one: bytes, sep: bytes, most: int = -1) -> list[bytes]:
    if not sep:
        return one.split(None, most)
    return one.split(sep, most)


def _sparse(given: Tensor, cut: Callable[[bytes], list[bytes]], name: str | None) -> SparseTensor:
    def kernel(values: Any) -> Any:
        rows = [cut(one) for one in values]
        places = [(i, k) for i, row in enumerate(rows) for k in range(len(row))]
        flat = np.empty(len(places), object)
        flat[:] = [one for row in rows for one in row]
        shape = [len(rows), max(map(len, rows), default=0)]
        return np.array(places, np.int64).reshape(-1, 2), flat, np.array(shape, np.int64)

    number = np.dtype(np.int64)
    outputs: list[tuple[np.dtype[Any], Any]] = [(number, (None, 2)), (string, (None,)), (number, (2,))]
    op = given.graph.create_op("StringSplit", [given], outputs, kernel, name or "StringSplit", pure=True)
    return SparseTensor(*op.outputs)


def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = None, result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """Return the pieces of strings between delimiters.

    Parameters
    ----------
    source : Tensor of strings, vector
    sep, delimiter : str, default " "
        Each of its bytes delimits; empty: pieces are single bytes.
    skip_empty : bool, default True
        Whether empty pieces are left out.
    result_type : {"SparseTensor"}
    name : str, optional

    Returns
    -------
    SparseTensor
        A row for each string.

    Raises
    ------
    ValueError
        If the source is no vector, or the result type another one.
    """
    if result_type != "SparseTensor":
        raise ValueError("string_split: the result_type must be 'SparseTensor'")
    given = _given(source)
    given.shape.with_rank(1)
    chosen = sep if delimiter is None else delimiter
    marks = as_value(" " if chosen is None else chosen, string)
    pattern = re.compile(b"[" + re.escape(marks) + b"]") if marks else None

    def cut(one: bytes) -> list[bytes]:
        parts = [one[i : i + 1] for i in range(len(one))] if pattern is None else pattern.split(one)
        return [part for part in parts if part] if skip_empty else parts

    return _sparse(given, cut, name)


def strings_split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None,
    name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """Return the pieces of strings between separators, as `bytes.split` would.

    Parameters
    ----------
    input, source : Tensor of strings, vector
    sep : str, optional
        Default: any blanks, of which none is at a piece's end.
    maxsplit : int, default -1
        How often a string is cut at most.
    result_type : {"SparseTensor"}
    name : str, optional

    Returns
    -------
    SparseTensor
        A row for each string.
    """
    if result_type != "SparseTensor":
        raise ValueError("strings.split: the result_type must be 'SparseTensor'")
    given = _given(source if input is None else input)
    given.shape.with_rank(1)
    mark = as_value("" if sep is None else sep, string)
    return _sparse(given, lambda one: _cut(one, mark, maxsplit), name)


def _written(precision: int, scientific: bool, shortest: bool, width: int, fill: str) -> Callable[[Any], bytes]:
    flag = "" if fill in ("", " ") else fill
    if flag not in ("", "0", "-", "+"):
        raise ValueError(f"Fill argument not supported: {fill!r}")
    size = str(width) if width > -1 else ""
    digits = f".{precision}" if precision > -1 else ""
    letter = "e" if scientific else "g" if shortest else "f"

    def write(one: Any) -> bytes:
        if isinstance(one, bytes):
            return bytes((b"%" + flag.encode() + size.encode() + b"s") % one)
        if isinstance(one, (bool, np.bool_)):
            return (f"%{flag.replace('0', '')}{size}s" % ("true" if one else "false")).encode()
        if isinstance(one, (int, np.integer)):
            return bytes((f"%{flag}{size}d" % one).encode())
        return bytes((f"%{flag}{size}{digits}{letter}" % one).encode())

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
    fill : {"", "0", "-", "+", " "}
        With what, or where; as of C's ``printf``.
    name : str, optional

    Raises
    ------
    ValueError
        If both ways are asked for, or there is no such fill.
    """
    if scientific and shortest:
        raise ValueError("Cannot select both scientific and shortest notation")
    given = convert_to_tensor(input)
    write = _written(precision, scientific, shortest, width, fill)
    return apply_op("AsString", [given], string, given.shape, _each(write, string), name)


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
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"substr: unit must be 'BYTE' or 'UTF8_CHAR', not {unit!r}")
    given, first, count = _given(input), convert_to_tensor(pos), convert_to_tensor(len)
    return apply_op("Substr", [given, first, count], string, broadcast([given.shape, first.shape, count.shape]),
                    _each(functools.partial(_part, unit == "BYTE"), string), name)  # fmt: skip


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
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"length: unit must be 'BYTE' or 'UTF8_CHAR', not {unit!r}")
    given = _given(input)
    count = (lambda one: len(one)) if unit == "BYTE" else (lambda one: len(one.decode(errors="replace")))
    return apply_op("StringLength", [given], np.int32, given.shape, _each(count, np.int32), name)


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Return strings without blanks at both ends."""
    given = _given(input)
    return apply_op("StringStrip", [given], string, given.shape, _each(bytes.strip, string), name)


def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Return strings in small letters: those of ASCII, or, with the encoding "utf-8", all."""
    return _cased("StringLower", input, encoding, bytes.lower, str.lower, name)


def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Return strings in capital letters: those of ASCII, or, with the encoding "utf-8", all."""
    return _cased("StringUpper", input, encoding, bytes.upper, str.upper, name)


def _cased(type_: str, value: Any, encoding: str, raw: Any, text: Any, name: str | None) -> Tensor:
    if encoding not in ("", "utf-8"):
        raise ValueError(f"{type_}: the encoding must be '' or 'utf-8', not {encoding!r}")
    given = _given(value)
    change = (lambda one: text(one.decode()).encode()) if encoding else raw
    return apply_op(type_, [given], string, given.shape, _each(change, string), name)


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""Return strings with what a pattern matches replaced; ``\1`` is what its first group matched.

    Patterns are those of Python's `re`, here.
    """
    given = _given(input)
    found, new = re.compile(as_value(pattern, string)), as_value(rewrite, string)
    return apply_op("RegexReplace", [given], string, given.shape,
                    _each(lambda one: found.sub(new, one, 0 if replace_global else 1), string), name)  # fmt: skip


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
    given, dtype = _given(input if string_tensor is None else string_tensor), as_dtype(out_type)
    if dtype not in map(np.dtype, ("f4", "f8", "i4", "i8")):
        raise TypeError(f"string_to_number: the type must be float32, float64, int32 or int64, not {dtype}")

    def read(one: bytes) -> Any:
        try:
            if b"_" in one:
                raise ValueError
            return dtype.type(float(one)) if dtype.kind == "f" else np.array(int(one), dtype)
        except (ValueError, OverflowError):
            raise InvalidArgumentError(
                f"StringToNumberOp could not correctly convert string: {one.decode(errors='backslashreplace')}"
            ) from None

    return apply_op("StringToNumber", [given], dtype, given.shape, _each(read, dtype), name)


# Files


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """Return a file's contents.

    Raises
    ------
    NotFoundError, PermissionDeniedError, NotAFileError
        In a run, if it can't be read.
    """
    given = _given(filename)
    given.shape.with_rank(0)

    def kernel(run: Any, path: bytes) -> bytes:
        del run
        from queuecore._readers.kinds import WholeFileReader

        return WholeFileReader(max_record_bytes=None).read([path])[1]

    return apply_op("ReadFile", [given], string, (), kernel, name, pure=False)


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Return an operation that writes a file, and the directories that it needs."""
    given, text = _given(filename), _given(contents)
    given.shape.with_rank(0)
    text.shape.with_rank(0)

    def kernel(run: Any, path: bytes, data: bytes) -> None:
        del run
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    return given.graph.create_op("WriteFile", [given, text], [], kernel, name or "WriteFile")


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Return the names of the files that match one pattern or several, sorted; none is no error."""
    given = _given(pattern)

    def kernel(run: Any, patterns: Any) -> Any:
        del run
        found = [one for each in np.ravel(np.asarray(patterns, object)) for one in glob.glob(each, include_hidden=True)]
        made = np.empty(len(found), object)
        made[:] = sorted(found)
        return made

    return apply_op("MatchingFiles", [given], string, [None], kernel, name, pure=False)
