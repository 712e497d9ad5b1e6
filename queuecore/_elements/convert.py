"""Conversion of users' values to the arrays that a queue or a step takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._checks.checks import MAX_DIMS, check_index
from queuecore._elements.component import shape_text
from queuecore._elements.dtypes import as_dtype, kind_of
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["Converter", "Shape", "all_fixed", "converters"]

Shape = tuple[int | None, ...]


class Converter:
    """One component of an element: its dtype and shape, and the conversion of a value to it.

    Parameters
    ----------
    label : str
        The component's name in messages.
    dtype : dtype
        The dtype; the machine's byte order replaces another one.
    shape : tuple of (int or None) or None
        The shape; None: any shape, or a side of any length.

    Raises
    ------
    DtypeError
        If it is no dtype, or one that a queue can't hold.
    """

    __slots__ = ("dtype", "label", "pads", "reference", "shape")

    def __init__(self, label: str, dtype: Any, shape: Shape | None) -> None:
        try:
            given = as_dtype(dtype)
        except TypeError as error:
            raise DtypeError(f"{label}: {dtype!r} is no dtype") from error
        self.dtype = given if given.isnative else given.newbyteorder("=")
        if kind_of(self.dtype) not in "biufcSUO" or self.dtype.subdtype is not None:
            raise DtypeError(f"{label}: a queue can't hold {self.dtype}")
        # Of any length, or any object: not as an array.
        self.reference = self.dtype.kind == "O" or self.dtype.itemsize == 0
        self.label = label
        self.shape = shape
        self.pads = shape is not None and None in shape

    def convert(self, value: Any, is_batch: bool) -> Any:
        """Return the value as a C-contiguous array of the dtype, or a reference (many: a list of them)."""
        if self.reference:
            return self._references(value, is_batch)
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise InvalidArgumentError(f"{self.label}: {error}") from error
        if array.dtype != self.dtype:
            array = self._cast(array, value)
        self._check_shape(array.shape, is_batch)
        return array if array.flags.c_contiguous else array.copy(order="C")

    def _cast(self, array: np.ndarray, value: Any) -> np.ndarray:
        source, target = kind_of(array.dtype), kind_of(self.dtype)
        if array.size == 0 and not isinstance(value, np.ndarray):
            return array.astype(self.dtype)  # an empty list is of no type
        if source in "iu" and target in "iu":
            info = np.iinfo(self.dtype)
            if array.size and (array.min() < info.min or array.max() > info.max):
                raise InvalidArgumentError(
                    f"{self.label}: expected integers that fit {self.dtype}, got {array.min()} to {array.max()}"
                )
        elif source in "SU" and source + target in ("SS", "UU", "US"):
            if target == "S" and source == "U":
                array = np.char.encode(array, "utf-8")
            if array.dtype.itemsize > self.dtype.itemsize:
                raise InvalidArgumentError(f"{self.label}: expected at most {self.dtype}, got {array.dtype}")
        elif source == target or (source in "iu" and target in "fc") or (source == "f" and target == "c"):
            pass
        else:
            raise DtypeError(f"{self.label}: expected {self.dtype}, got {_kind_of(array, value)}")
        with np.errstate(over="ignore"):
            return array.astype(self.dtype)

    def _check_shape(self, shape: tuple[int, ...], is_batch: bool) -> None:
        if is_batch and not shape:
            raise InvalidArgumentError(f"{self.label}: expected rows along a first dimension, got a scalar")
        row_shape = shape[1:] if is_batch else shape
        if self.shape is None:
            if len(row_shape) > MAX_DIMS:
                raise InvalidArgumentError(
                    f"{self.label}: {len(row_shape)} dimensions; at most {MAX_DIMS} are possible"
                )
            return
        if len(row_shape) != len(self.shape) or any(
            side is not None and side != there for side, there in zip(self.shape, row_shape, strict=False)
        ):
            raise InvalidArgumentError(
                f"{self.label}: expected shape {shape_text(self.shape)}, got {shape_text(row_shape)}"
            )

    def _references(self, value: Any, is_batch: bool) -> Any:
        python_type: type | None = {"S": bytes, "U": str}.get(self.dtype.kind)
        if is_batch and not _has_rows(value):
            raise InvalidArgumentError(
                f"{self.label}: expected rows along a first dimension, got {type(value).__name__}"
            )
        if self.shape == () or (self.shape is None and python_type is None):
            return (
                [self._reference(one, python_type) for one in value]
                if is_batch
                else self._reference(value, python_type)
            )
        try:
            array = np.empty(np.shape(value), object)
            array[...] = value
        except ValueError as error:
            raise InvalidArgumentError(f"{self.label}: {error}") from error
        self._check_shape(array.shape, is_batch)
        for index in np.ndindex(array.shape):
            array[index] = self._reference(array[index], python_type)
        return list(array) if is_batch else array[()] if array.ndim == 0 else array

    def _reference(self, value: Any, python_type: type | None) -> Any:
        if python_type is None or type(value) is python_type:
            return value
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if python_type is bytes and isinstance(value, str):
            return value.encode()
        if isinstance(value, python_type):
            return python_type(value)
        raise DtypeError(f"{self.label}: expected {python_type.__name__}, got {type(value).__name__}")


def _has_rows(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return False
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _kind_of(array: np.ndarray, value: Any) -> str:
    return (
        str(array.dtype) if isinstance(value, (np.ndarray, np.generic)) else f"{type(value).__name__} ({array.dtype})"
    )


def converters(dtypes: Any, shapes: Any) -> list[Converter]:
    """Return a converter for each component of a queue."""
    words = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]
    if not words:
        raise InvalidArgumentError("a queue needs at least 1 component")
    found = _as_shapes(shapes, len(words))
    return [Converter(f"component {i}", word, shape) for i, (word, shape) in enumerate(zip(words, found, strict=True))]


def all_fixed(components: list[Converter]) -> list[Converter]:
    """Return the components, if no dimension is left open."""
    if any(one.pads for one in components):
        raise InvalidArgumentError("all shapes must be fully defined; a PaddingFIFOQueue takes shapes with None")
    return components


def _as_shapes(shapes: Any, count: int) -> list[Shape | None]:
    if shapes is None:
        return [None] * count
    if not isinstance(shapes, (list, tuple)):
        shapes = [shapes]
    elif all(hasattr(side, "__index__") for side in shapes) and (shapes or count == 1):
        shapes = [shapes]  # a plain list of integers is one shape
    if len(shapes) != count:
        raise InvalidArgumentError(f"there are {count} dtypes and {len(shapes)} shapes")
    result: list[Shape | None] = []
    for index, shape in enumerate(shapes):
        sides = [shape] if hasattr(shape, "__index__") else shape
        if not isinstance(sides, (list, tuple)):
            raise InvalidArgumentError(f"component {index}: {shape!r} is no shape")
        own: list[int | None] = []
        for side in sides:
            own.append(None if side is None else check_index(side, f"component {index}: a dimension"))
            if own[-1] is not None and own[-1] < 0:
                raise InvalidArgumentError(f"component {index}: a dimension must not be negative: {shape!r}")
        result.append(tuple(own))
    return result
