"""Types of tensors: NumPy's, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._dtypes import as_dtype as _as_dtype
from queuecore._stages import BYTES

__all__ = ["NAMES", "as_dtype", "name_of", "string"]

string = BYTES
NAMES: dict[str, np.dtype[Any]] = {
    name: np.dtype(numpy)
    for name, numpy in [
        ("float16", "f2"), ("half", "f2"), ("float32", "f4"), ("float64", "f8"), ("double", "f8"),
        ("int8", "i1"), ("int16", "i2"), ("int32", "i4"), ("int64", "i8"),
        ("uint8", "u1"), ("uint16", "u2"), ("uint32", "u4"), ("uint64", "u8"),
        ("complex64", "c8"), ("complex128", "c16"), ("bool", "?"),
    ]
}  # fmt: skip
NAMES["string"] = string
# Python's types and words mean here what they mean to TensorFlow: 32 bits.
_WORDS = NAMES | {"float": NAMES["float32"], "int": NAMES["int32"], "str": string, "bytes": string}
_PYTHON: dict[Any, np.dtype[Any]] = {
    float: NAMES["float32"],
    int: NAMES["int32"],
    bool: NAMES["bool"],
    complex: NAMES["complex128"],
    str: string,
    bytes: string,
    object: string,
}


def as_dtype(value: Any) -> np.dtype[Any]:
    """Return the type that a word, a type of Python's or NumPy's, or a type itself means to TensorFlow.

    Raises
    ------
    TypeError
        If there is none.
    """
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if value is None:
        raise TypeError("None is no dtype")
    dtype = _as_dtype(value)
    if dtype.kind in "SUO":
        return string
    if dtype.name not in NAMES and dtype.name != "bfloat16":
        raise TypeError(f"{value!r} is no dtype of a tensor")
    return dtype.newbyteorder("=")


def name_of(dtype: np.dtype[Any]) -> str:
    """Return TensorFlow's name of a type."""
    return "string" if dtype.kind == "S" else dtype.name
