"""Rows of elements: batches of objects, cut and joined along their first dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from queuecore._elements.component import BYTES
from queuecore._elements.nests import mapped, structure_of
from queuecore._elements.record import ArraySpec
from queuecore.data._rows.elements import flattened
from queuecore.data._rows.values import concatenated, depth_of
from queuecore.errors import InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

__all__ = ["emptied", "joined_rows", "number_of_rows", "row_of", "rows_between", "zeros"]


def number_of_rows(value: Any, label: str, element: int) -> int:
    """Return the first dimension, which all parts of an element share.

    Raises
    ------
    InvalidArgumentError
        If one is a scalar, or they differ; `label` is the method concerned.
    """
    lengths = []
    for part in flattened(value, lambda leaf, where: leaf)[1]:
        if isinstance(part, Sparse):
            lengths.append(int(part.dense_shape[0]))
        elif isinstance(part, list | Ragged) or np.ndim(part):
            lengths.append(len(part))
        else:
            raise InvalidArgumentError(
                f"{label}: a scalar has no rows (element {element})", stage=label, record=element
            )
    if len(set(lengths)) > 1:
        raise InvalidArgumentError(
            f"{label}: all components must have the same first dimension, not {lengths} (element {element})",
            stage=label,
            record=element,
        )
    return lengths[0] if lengths else 0


def row_of(value: Any, row: int) -> Any:
    """Return a row of an element: arrays are views."""
    return mapped(lambda part: _between(part, row, row + 1, True) if isinstance(part, Sparse) else part[row], value)


def rows_between(value: Any, start: int, stop: int) -> Any:
    """Return some rows of an element that follow each other: arrays are views."""
    return mapped(lambda part: _between(part, start, stop) if isinstance(part, Sparse) else part[start:stop], value)


def _between(sparse: Sparse, start: int, stop: int, single: bool = False) -> Sparse:
    # Indices needn't be sorted.
    indices, shape = sparse.indices, sparse.dense_shape
    inside = np.flatnonzero((indices[:, 0] >= start) & (indices[:, 0] < stop))
    kept = indices[inside]
    if single:
        return Sparse(kept[:, 1:], sparse.values[inside], shape[1:])
    kept = kept - np.eye(1, kept.shape[1], dtype=np.int64) * start
    return Sparse(kept, sparse.values[inside], [stop - start, *shape[1:]])


def joined_rows(parts: Sequence[Any]) -> Any:
    """Return the rows of several elements of one structure behind each other."""
    if len(parts) == 1:
        return parts[0]
    template, first = flattened(parts[0], lambda leaf, where: leaf)
    leaves = [flattened(part, lambda leaf, where: leaf)[1] for part in parts]
    return structure_of(template, [_joined([part[at] for part in leaves]) for at in range(len(first))])


def _joined(parts: Sequence[Any]) -> Any:
    if not isinstance(parts[0], Sparse):
        return concatenated(parts)
    begins = np.cumsum([0, *(int(part.dense_shape[0]) for part in parts)])
    indices = [
        part.indices + np.eye(1, part.indices.shape[1], dtype=np.int64) * at
        for part, at in zip(parts, begins, strict=False)
    ]
    sides = np.max([part.dense_shape for part in parts], axis=0)[1:]
    return Sparse(np.concatenate(indices), concatenated([part.values for part in parts]), [begins[-1], *sides])


def emptied(spec: Any) -> Any:
    """Return an element of no rows, of a specification of elements with rows."""
    return mapped(_empty, spec)


def _empty(leaf: Any) -> Any:
    shape = leaf.shape or (None,)
    if leaf.dtype != BYTES:
        return np.empty((0, *(side or 0 for side in shape[1:])), leaf.dtype)
    made = Ragged(np.empty(0, "S1"), np.zeros(1, np.int64))
    while isinstance(leaf, ArraySpec) and depth_of(made) < len(shape):
        made = Ragged(made, np.zeros(1, np.int64))
    return made


def zeros(element: Any) -> Any:
    """Return an element of the same shapes, of zeros and empty strings."""
    return mapped(_zero, element)


def _zero(part: Any) -> Any:
    if isinstance(part, bytes):
        return b""
    if isinstance(part, Ragged):
        if part.is_bytes:
            return Ragged.from_list([b""] * len(part))
        return Ragged(_zero(part.values), part.row_splits)
    if isinstance(part, Sparse):
        return Sparse(part.indices[:0], part.values[:0], part.dense_shape)
    return np.zeros_like(part)[()]
