"""A check of columns that were read from a file: native code relies on what it verifies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from queuecore._core.stream.describe import FIXED, RAGGED, STRING, STRINGS
from queuecore._elements.component import Component
from queuecore.data._plan.made import NativeComponent, native_of

__all__ = ["check_columns"]

# No array of more bytes can be addressed, so no side is longer.
_MOST = 1 << 46


def check_columns(columns: Any, n: int, components: Sequence[Component]) -> None:
    """Check that columns hold `n` rows of components, and that no row reaches outside of them.

    Raises
    ------
    ValueError
        If they don't; the message says why.
    """
    if not isinstance(columns, list):
        raise ValueError("its columns are no list")
    number = 0
    for index, component in enumerate(components):
        native = native_of(component, index)
        span = 2 if native.kind == STRINGS else 1
        if number + span > len(columns):
            raise ValueError(f"it has {len(columns)} columns, which are too few")
        if native.kind == FIXED:
            _check_fixed(columns[number], n, native)
        elif native.kind == STRINGS:
            _check_strings(columns[number], columns[number + 1], n)
        else:
            _check_varying(columns[number], n, native)
        number += span
    if number != len(columns):
        raise ValueError(f"it has {len(columns)} columns instead of {number}")


def _check_fixed(column: Any, n: int, native: NativeComponent) -> None:
    wanted = n * native.dtype.itemsize * math.prod(native.shape)
    if not isinstance(column, np.ndarray) or not column.ndim or len(column) < n or column.nbytes < wanted:
        raise ValueError(f"a column is no array of {n} rows")


def _ends_of(column: Any, n: int) -> np.ndarray[Any, Any]:
    """Return where the first `n` rows of a column begin and end; all of them lie inside."""
    if not isinstance(column, tuple) or len(column) != 3 or not all(_is_array(part) for part in column[:2]):
        raise ValueError("a column of varying length doesn't consist of bytes and ends")
    data, ends, _ = column
    ends = ends[: n + 1]
    if ends.dtype != np.int64 or ends.ndim != 1 or len(ends) != n + 1:
        raise ValueError(f"the ends of a column aren't those of {n} rows")
    if ends[0] < 0 or ends[-1] > data.nbytes or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"the ends of a column don't rise from 0 to {data.nbytes}")
    return np.asarray(ends)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _check_varying(column: Any, n: int, native: NativeComponent) -> None:
    nbytes = np.diff(_ends_of(column, n))
    if native.kind == STRING:
        return
    dims: Any = column[2]
    item = native.dtype.base.itemsize
    if dims is None and native.kind == RAGGED:
        if (nbytes % max(native.dtype.itemsize, 1)).any():
            raise ValueError(f"a column has rows that aren't whole numbers of {native.dtype}")
        return
    sides = (None, *native.shape) if native.kind == RAGGED else native.shape
    if dims is None or not _is_array(dims) or dims.dtype != np.int64 or dims.ndim != 2 or dims.shape[1] != len(sides):
        raise ValueError(f"a column has no {len(sides)} dimensions for each row")
    dims = dims[:n]
    wrong = len(dims) < n or (dims < 0).any()
    wrong = wrong or any(side is not None and (dims[:, axis] != side).any() for axis, side in enumerate(sides))
    # As floats, which don't overflow; up to 2 ** 53 they are exact.
    if wrong or (np.prod(np.maximum(dims, 1), axis=1, dtype=np.float64) > _MOST).any():
        raise ValueError("a column has a row of impossible dimensions")
    if (np.prod(dims, axis=1) * item != nbytes).any():
        raise ValueError("a column has a row whose dimensions don't fit its bytes")


def _check_strings(texts: Any, lengths: Any, n: int) -> None:
    """Check rows of several strings each: their bytes, and in the second column the length of each string."""
    ends, counts = _ends_of(texts, n), _ends_of(lengths, n)
    if (counts % 8).any():
        raise ValueError("a column of lengths has a part of one")
    every = lengths[0].reshape(-1).view(np.uint8)[: counts[-1] // 8 * 8].view(np.int64)
    every = every[counts[0] // 8 :]
    # Each is at most the bytes there are, so that sums don't overflow.
    if (every < 0).any() or (every > texts[0].nbytes).any():
        raise ValueError("a column has a string of an impossible length")
    splits = np.zeros(len(every) + 1, np.int64)
    np.cumsum(every, out=splits[1:])
    if (np.diff(splits[(counts - counts[0]) // 8]) != np.diff(ends)).any():
        raise ValueError("a column has strings whose lengths don't fit their bytes")
