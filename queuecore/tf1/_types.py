"""Types of tensors: NumPy's, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._dtypes import as_dtype as _as_dtype
from queuecore._stages import BYTES

__all__ = ["NAMES", "as_dtype", "name_of", "string"]

float16 = np.dtype("float16")
float32 = np.dtype("float32")
float64 = np.dtype("float64")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
uint8 = np.dtype("uint8")
uint16 = np.dtype("uint16")
uint32 = np.dtype("uint32")
uint64 = np.dtype("uint64")
complex64 = np.dtype("complex64")
complex128 = np.dtype("complex128")
half = float16
double = float64
bool_ = np.dtype("bool")
string = BYTES

_ALL: list[np.dtype[Any]] = [float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64]
_ALL += [complex64, complex128, bool_]
NAMES: dict[str, np.dtype[Any]] = {one.name: one for one in _ALL} | {"half": half, "double": double, "string": string}
# Python's types and words mean here what they mean to TensorFlow: 32 bits.
_WORDS = NAMES | {"float": float32, "int": int32, "str": string, "bytes": string}
_PYTHON: dict[Any, np.dtype[Any]] = {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
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
