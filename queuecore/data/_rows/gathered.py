"""Elements that come one by one, as rows: small ones are copied side by side, large ones stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore._checks.checks import MAX_DIMS
from queuecore._core.stream.describe import FIXED, STRING, STRINGS
from queuecore._elements.component import BYTES, Component
from queuecore._elements.dtypes import kind_of
from queuecore._elements.nests import apart
from queuecore._elements.record import ArraySpec
from queuecore.data._plan.made import Layout, NativeComponent, native_of, row_bytes_of
from queuecore.data._rows.chunks import Column, Row
from queuecore.data._rows.elements import flattened

__all__ = ["Gathering", "layout_of"]

_ROWS = 64  # of a block: as many as are handed in together at most
_ROOM = 32 << 10  # bytes of a block for rows of one column
_LARGE = 8 << 10  # bytes of an element that isn't copied

# Takes a row's number and a leaf; returns False if there is no room for it.
Put = Callable[[int, Any], bool]


def layout_of(spec: Any) -> Layout:
    """Return the layout of elements of a specification; one without components if no columns can hold them."""
    template, parts = flattened(spec, lambda one, where: one)
    if not parts or not all(map(_fits_a_column, parts)):
        return Layout(None)
    components = [Component(one.dtype, one.shape) for one in parts]
    if isinstance(template, dict) and all(type(at) is int for at in template.values()):
        components = [one._replace(name=name) for name, one in zip(template, components, strict=True)]
    return Layout(tuple(components), template)


def _fits_a_column(spec: ArraySpec) -> bool:
    if type(spec) is not ArraySpec or spec.shape is None or len(spec.shape) > MAX_DIMS:
        return False
    if spec.dtype == BYTES:
        return len(spec.shape) < 2
    return kind_of(spec.dtype) in "biufc" and spec.dtype.itemsize <= 16


class Gathering:
    """The elements of one pass, which become rows of columns.

    Rows that were handed out stay as they are, while the block gets further ones.
    """

    def __init__(self, layout: Layout) -> None:
        components = layout.components or ()
        self._natives = [native_of(one, index) for index, one in enumerate(components)]
        self._leaves: Callable[[Any], list[Any]] = _itself if type(layout.template) is int else _leaves
        widths = [row_bytes_of(one) for one in self._natives if one.kind == FIXED]
        self._rows = min(_ROWS, max(_ROOM // max([1, *widths]), 1))  # of a block
        self._used = self._rows
        self._puts: list[Put] = []
        self._columns: list[Column] = []

    def row(self, element: Any) -> Row:
        """Return an element, whose leaves fit the components, as a row."""
        leaves = self._leaves(element)
        nbytes = 0
        for leaf in leaves:
            nbytes += len(leaf) if type(leaf) is bytes else leaf.nbytes
        if nbytes >= _LARGE:
            columns: list[Column] = []
            for native, leaf in zip(self._natives, leaves, strict=True):
                columns += _lone(native, leaf)
            return Row(columns, 0)
        index = self._used
        if index == self._rows or not self._put(index, leaves):
            self._begin()
            index = 0
            self._put(0, leaves)
        self._used = index + 1
        return Row(self._columns, index)

    def _put(self, at: int, leaves: list[Any]) -> bool:
        """Write row `at` of the block; return False, with no earlier row changed, if there is no room."""
        for put, leaf in zip(self._puts, leaves, strict=True):  # noqa: SIM110 - the loop costs half as much
            if not put(at, leaf):
                return False
        return True

    def _begin(self) -> None:
        self._columns = []
        self._puts = []
        for native in self._natives:
            columns, put = _empty(native, self._rows)
            self._columns += columns
            self._puts.append(put)


def _itself(element: Any) -> list[Any]:
    return [element]


def _leaves(element: Any) -> list[Any]:
    if element is None:
        return []
    if isinstance(element, dict):
        return [leaf for part in element.values() for leaf in _leaves(part)]
    split = apart(element)
    return [element] if split is None else [leaf for part in split[0] for leaf in _leaves(part)]


def _texts(leaf: Any) -> tuple[Any, Any]:
    """Return the bytes of a row of strings side by side, and of the length of each."""
    lengths = np.asarray(leaf.row_lengths(), np.int64)
    return np.ascontiguousarray(leaf.values).view(np.uint8), lengths.view(np.uint8)


def _lone(native: NativeComponent, leaf: Any) -> list[Column]:
    """Return the columns of one row, without a copy of what is large."""
    if native.kind == FIXED:
        return [np.asarray(leaf, native.dtype, order="C").reshape(1, *native.shape)]
    if native.kind == STRING:
        return [_varying(np.frombuffer(leaf, np.uint8), None)]
    if native.kind == STRINGS:
        return [_varying(part, None) for part in _texts(leaf)]
    return [_varying(_bytes_of(leaf), np.array([leaf.shape], np.int64))]


def _bytes_of(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _varying(data: Any, dims: Any) -> Column:
    return data, np.array([0, data.nbytes], np.int64), dims


def _empty(native: NativeComponent, rows: int) -> tuple[list[Column], Put]:
    """Return columns of so many rows, and what fills them."""
    if native.kind == FIXED:
        fixed = np.empty((rows, *native.shape), native.dtype)

        def put_fixed(at: int, leaf: Any) -> bool:
            fixed[at] = leaf
            return True

        return [fixed], put_fixed
    first = _Varying(rows, len(native.shape) if native.kind not in (STRING, STRINGS) else None)
    if native.kind == STRING:
        return [first.column], first.put
    if native.kind != STRINGS:
        return [first.column], first.put_array
    lengths = _Varying(rows, None)

    def put_strings(at: int, leaf: Any) -> bool:
        data, counts = _texts(leaf)
        return first.put(at, data) and lengths.put(at, counts)

    return [first.column, lengths.column], put_strings


class _Varying:
    """A column of rows of varying length that is being filled."""

    def __init__(self, rows: int, ndim: int | None) -> None:
        self._data = np.empty(_ROOM, np.uint8)
        self._bytes = self._data.data
        self._ends = np.zeros(rows + 1, np.int64)
        self._dims = None if ndim is None else np.empty((rows, ndim), np.int64)
        self.column: Column = (self._data, self._ends, self._dims)

    def put(self, index: int, data: Any) -> bool:
        begin = int(self._ends[index])
        end = begin + len(data)
        if end > _ROOM:
            return False
        self._bytes[begin:end] = data
        self._ends[index + 1] = end
        return True

    def put_array(self, at: int, array: Any) -> bool:
        assert self._dims is not None
        self._dims[at] = array.shape
        return self.put(at, _bytes_of(array))
