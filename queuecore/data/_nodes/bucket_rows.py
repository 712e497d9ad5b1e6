"""Batches of rows of columns, which NumPy sorts and stacks a chunk at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.stream.describe import DENSE, FIXED, RAGGED, STRING, STRINGS
from queuecore._elements.nests import structure_of
from queuecore.data._nodes.padded import Array, Joiner, RowPad, Stack, fill_value
from queuecore.data._plan.made import NativeComponent
from queuecore.data._rows.chunks import Column, Objects
from queuecore.data._rows.columns import typed
from queuecore.ragged import Ragged

__all__ = ["Shelves", "dims_of", "rows_can_be_stacked"]

_CHAR = np.dtype("S1")
# Rows shorter than this, in items, are gathered item by item; longer rows are copied one after the other.
_SHORT = 256


def rows_can_be_stacked(components: Sequence[NativeComponent]) -> bool:
    """Return whether rows of these components can be sorted here."""
    return all(kind != STRINGS and (kind != RAGGED or math.prod(shape)) for kind, _, shape in components)


class ShelfPart(NamedTuple):
    """Some rows of one component, a copy.

    Attributes
    ----------
    values : ndarray
        The rows; where they vary in length, their items one after the other.
    ends : ndarray of int64, optional
        The end of each row in `values`, after a leading 0; one entry more than there are rows.
    dims : ndarray of int64, optional
        The dimensions of each row, if rows have any.
    """

    values: Array
    ends: Array | None = None
    dims: Array | None = None

    def cut(self, first: int, stop: int) -> ShelfPart:
        """Return rows that follow each other, as views."""
        if self.ends is None:
            return ShelfPart(self.values[first:stop])
        ends = self.ends[first : stop + 1]
        dims = None if self.dims is None else self.dims[first:stop]
        return ShelfPart(self.values[ends[0] : ends[-1]], ends - ends[0], dims)

    def copied(self) -> ShelfPart:
        """Return a copy, which keeps nothing else."""
        ends, dims = (None if one is None else one.copy() for one in self[1:])
        return ShelfPart(self.values.copy(), ends, dims)


def dims_of(column: Column, component: NativeComponent) -> Array | None:
    """Return the dimensions of each row of a column, where these may differ."""
    kind, dtype, shape = component
    if kind not in (RAGGED, DENSE):
        return None
    _, ends, noted = column
    if kind == DENSE or noted is not None:
        return np.asarray(noted)
    dims = np.empty((len(ends) - 1, 1 + len(shape)), np.int64)
    dims[:, 0] = np.diff(ends) // dtype.itemsize
    dims[:, 1:] = shape
    return dims


def _picked(column: Column, component: NativeComponent, rows: Array) -> ShelfPart:
    kind, dtype, shape = component
    if kind == FIXED:
        return ShelfPart(typed(column, dtype, shape)[rows])
    values, ends, _ = column
    base = _CHAR if kind == STRING else dtype.base
    starts = ends[rows] // base.itemsize
    lengths = ends[rows + 1] // base.itemsize - starts
    picked_ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=picked_ends[1:])
    items = values[: int(ends[-1])].view(base)
    if picked_ends[-1] > _SHORT * len(rows):
        pieces = zip(starts.tolist(), lengths.tolist(), strict=True)
        picked = np.concatenate([items[start : start + length] for start, length in pieces])
    else:
        picked = items[np.arange(picked_ends[-1]) + np.repeat(starts - picked_ends[:-1], lengths)]
    dims = dims_of(column, component)
    return ShelfPart(picked, picked_ends, None if dims is None else dims[rows])


def _joined(parts: Sequence[ShelfPart]) -> ShelfPart:
    values = np.concatenate([part.values for part in parts])
    if parts[0].ends is None:
        return ShelfPart(values)
    lengths = np.concatenate([np.diff(part.ends) for part in parts if part.ends is not None])
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    dims = [part.dims for part in parts if part.dims is not None]
    return ShelfPart(values, ends, np.concatenate(dims) if dims else None)


def _stacked(part: ShelfPart, join: Any) -> Any:
    """Return the rows as what a join makes of a list of them."""
    if part.ends is not None and part.dims is None:
        return Ragged(part.values, part.ends)
    if part.ends is None or part.dims is None:
        return part.values if isinstance(join, Stack) else _padded(part.values, join)
    dims, n = part.dims, len(part.dims)
    longest = dims.max(0).tolist()
    if isinstance(join, RowPad):
        shape = [most if side < 0 else side for side, most in zip(join.sides or (), longest, strict=True)]
    else:
        shape = longest
    if (dims == shape).all():
        return part.values.reshape(n, *shape)
    if isinstance(join, Stack) or (dims[:, 1:] != shape[1:]).any():
        ends = part.ends.tolist()
        rows = zip(itertools.pairwise(ends), dims.tolist(), strict=True)
        return join([part.values[start:stop].reshape(sides) for (start, stop), sides in rows])
    made = np.full((n, *shape), fill_value(part.values.dtype, join.value, join.index), part.values.dtype)
    made[np.arange(shape[0]) < dims[:, :1]] = part.values.reshape(int(dims[:, 0].sum()), *shape[1:])
    return made


def _padded(values: Array, pad: RowPad) -> Array:
    if values.shape[1:] == pad.sides:
        return values
    shape = [side if most < 0 else most for most, side in zip(pad.sides or (), values.shape[1:], strict=True)]
    made = np.full((len(values), *shape), fill_value(values.dtype, pad.value, pad.index), values.dtype)
    made[(slice(None), *map(slice, values.shape[1:]))] = values
    return made


class Shelves:
    """The rows that wait in each bucket until they are a batch.

    Parameters
    ----------
    components : list of tuple
        The components of a row, as a stream gives them.
    leaves : list of int
        For each leaf of the structure, the index of its component.
    sizes : list of int
        For each bucket, the number of rows in a batch.
    joins : list of Joiner
        For each bucket, what joins its rows into a batch.
    start : int
        Number of the first batches that are already known and are not made again.

    Attributes
    ----------
    made : int
        Number of batches so far.
    """

    def __init__(
        self,
        components: Sequence[NativeComponent],
        leaves: Sequence[int],
        sizes: Sequence[int],
        joins: Sequence[Joiner],
        start: int,
    ) -> None:
        self._components = components
        self._leaves = leaves
        self._sizes = sizes
        self._joins = joins
        self._start = start
        self._waiting: list[list[list[ShelfPart]]] = [[] for _ in sizes]
        self._held = [0 for _ in sizes]
        self.made = 0

    def add(self, columns: Sequence[Column], index: Array, first: int, stop: int) -> Generator[Objects]:
        """Take rows [first, stop), each into the bucket that `index` gives; yield the batches that become full."""
        if first == stop:
            return
        order = first + np.argsort(index[first:stop], kind="stable")
        parts = [_picked(column, one, order) for column, one in zip(columns, self._components, strict=True)]
        batches: list[tuple[int, int, int, int]] = []
        ranges: list[tuple[int, int, int]] = []
        begin = 0
        for bucket, count in enumerate(np.bincount(index[first:stop], minlength=len(self._sizes)).tolist()):
            end = begin + count
            batch_end = begin + self._sizes[bucket] - self._held[bucket]
            while batch_end <= end:
                batches.append((int(order[batch_end - 1]), bucket, begin, batch_end))
                begin, batch_end = batch_end, batch_end + self._sizes[bucket]
            if begin < end:
                ranges.append((bucket, begin, end))
            begin = end
        # Batches come in the order of the rows that completed them.
        for _, bucket, begin, batch_end in sorted(batches):
            pieces = [*self._waiting[bucket], [part.cut(begin, batch_end) for part in parts]]
            self._waiting[bucket], self._held[bucket] = [], 0
            yield from self._batch(bucket, pieces)
        for bucket, begin, end in ranges:
            self._waiting[bucket].append([part.cut(begin, end).copied() for part in parts])
            self._held[bucket] += end - begin

    def rest(self) -> Generator[Objects]:
        """Yield the incomplete batches, bucket by bucket, and empty the shelves."""
        for bucket, pieces in enumerate(self._waiting):
            if pieces:
                self._waiting[bucket] = []
                self._held[bucket] = 0
                yield from self._batch(bucket, pieces)

    def _batch(self, bucket: int, pieces: Sequence[Sequence[ShelfPart]]) -> Generator[Objects]:
        self.made += 1
        if self.made <= self._start:
            return
        join = self._joins[bucket]
        parts = [_joined([piece[leaf] for piece in pieces]) for leaf in self._leaves]
        made = [_stacked(part, one) for part, one in zip(parts, join.joins, strict=True)]
        yield Objects([structure_of(join.template, made)])
