"""Columns of rows: slices of them, joined ones, and conversions between components that are not quite alike.

`queuecore.data._rows.chunks.Rows` says what a column is. Each component has one; arrays of strings have two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore._core.stream.describe import FIXED, RAGGED, STRINGS
from queuecore._elements.component import BYTES, Component, Structure
from queuecore._elements.nests import plain, structure_of
from queuecore.data._plan.made import Layout, native_of
from queuecore.data._rows.chunks import Column
from queuecore.errors import DtypeError

__all__ = ["agreed", "compacted", "converted", "joined", "side_by_side", "sliced", "span", "spec_of", "typed"]

Converter = Callable[[list[Column], int], list[Column]]


def span(component: Component) -> int:
    """Return how many columns a component has."""
    return 2 if native_of(component, 0)[0] == STRINGS else 1


def sliced(columns: Sequence[Column], start: int, stop: int) -> list[Column]:
    """Return the columns of some rows that follow each other: views."""
    views: list[Column] = []
    for column in columns:
        if isinstance(column, tuple):
            data, ends, dims = column
            views.append((data, ends[start : stop + 1], None if dims is None else dims[start:stop]))
        else:
            views.append(column[start:stop])
    return views


def joined(parts: Sequence[tuple[Sequence[Column], int, int]]) -> list[Column]:
    """Return the rows of several lists of columns in one; each comes with its first row and the row after the last.

    Notes
    -----
    A copy, unless there is one part only.
    """
    if len(parts) == 1:
        return sliced(*parts[0])
    pieces = [sliced(*part) for part in parts]
    return [_joined([piece[index] for piece in pieces]) for index in range(len(pieces[0]))]


def compacted(columns: Sequence[Column], first: int, n: int, rows: np.ndarray[Any, Any] | None) -> list[Column]:
    """Return columns that hold some rows and nothing else: `n` from `first` on, or those with the numbers `rows`."""
    if rows is not None:
        return joined([(columns, row, row + 1) for row in rows.tolist()] or [(columns, 0, 0)])
    new_columns: list[Column] = []
    for column in sliced(columns, first, first + n):
        if isinstance(column, tuple):
            data, ends, dims = column
            new_columns.append((data[ends[0] : ends[-1]], ends - ends[0], dims))
        else:
            new_columns.append(column)
    return new_columns


def _joined(columns: list[Column]) -> Column:
    if not isinstance(columns[0], tuple):
        # As bytes: rows of a stream no longer have their dtype.
        return np.concatenate([_rows_of_bytes(column) for column in columns])
    values = [data[ends[0] : ends[-1]] for data, ends, _ in columns]
    ends = np.zeros(1 + sum(len(part_ends) - 1 for _, part_ends, _ in columns), np.int64)
    at, total = 1, 0
    for _, part_ends, _ in columns:
        np.add(part_ends[1:], total - part_ends[0], out=ends[at : at + len(part_ends) - 1])
        at += len(part_ends) - 1
        total += int(part_ends[-1] - part_ends[0])
    dims = None if columns[0][2] is None else np.concatenate([part for _, _, part in columns])
    return np.concatenate(values), ends, dims


def _rows_of_bytes(column: Any) -> Any:
    return column.reshape(len(column), math.prod(column.shape[1:])).view(np.uint8)


def typed(column: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return a column of a fixed shape as an array of its rows' dtype and shape."""
    array: np.ndarray[Any, Any] = column.view(np.uint8).reshape(-1).view(dtype).reshape((len(column), *shape))
    return array


def side_by_side(layouts: Sequence[Layout], templates: Any) -> Layout:
    """Return the layout of elements that consist of several elements.

    Parameters
    ----------
    layouts : sequence of Layout
        Layouts of the parts, all with components.
    templates : object
        The structure of the parts, over their numbers.
    """
    components: list[Component] = []
    firsts = []
    for layout in layouts:
        firsts.append(len(components))
        # The names belong to one part; beside each other they say nothing any more.
        components += [one._replace(name=None) for one in layout.components or ()]
    parts = [
        structure_of(one.template, range(first, first + len(one.components or ())))
        for one, first in zip(layouts, firsts, strict=True)
    ]
    if all(one.structure is None for one in layouts):
        return Layout(tuple(components), structure_of(templates, parts))

    def assemble(values: list[Any], batched: bool) -> Any:
        made = []
        for layout, first in zip(layouts, firsts, strict=True):
            own = values[first : first + len(layout.components or ())]
            made.append(_assembled(layout, own, batched))
        return structure_of(templates, made)

    def spec(make: Callable[[np.dtype[Any], tuple[Any, ...]], Any]) -> Any:
        return structure_of(templates, [spec_of(layout, make) for layout in layouts])

    return Layout(tuple(components), structure_of(templates, parts), Structure(assemble, spec))


def _assembled(layout: Layout, values: list[Any], batched: bool) -> Any:
    if layout.structure is not None:
        return layout.structure.assemble(values, batched)
    return structure_of(layout.template, values)


def spec_of(layout: Layout, make: Callable[[np.dtype[Any], tuple[Any, ...]], Any]) -> Any:
    """Return what a user is told of elements: of each leaf what `make` makes of its dtype and shape."""
    if layout.structure is not None:
        return layout.structure.spec(make)
    return structure_of(layout.template, [make(one.dtype, one.shape or ()) for one in layout.components or ()])


def agreed(layouts: Sequence[Layout], label: str) -> Layout:
    """Return a layout that fits the elements of any of several layouts.

    Parameters
    ----------
    label : str
        The method or dataset concerned, for messages.

    Returns
    -------
    Layout
        Shapes are as general as they must be. Without components if no columns can hold both: then elements have to be
        objects.

    Raises
    ------
    DtypeError
        If structures or dtypes differ.
    """
    first = layouts[0]
    components = list(first.components or ())
    for layout in layouts[1:]:
        differ = plain(spec_of(first, _dtype)) != plain(spec_of(layout, _dtype))
        if differ:
            raise DtypeError(f"{label}: elements must be alike, not {_shown(first)} and {_shown(layout)}")
        here = layout.components or ()
        if len(here) != len(components) or (first.structure is None) != (layout.structure is None):
            return Layout(None)
        if first.structure is not None and any(a.dtype != b.dtype for a, b in zip(components, here, strict=True)):
            return Layout(None)
        for index, (one, other) in enumerate(zip(components, here, strict=True)):
            both = _relaxed(one, other)
            if both is None:
                return Layout(None)
            components[index] = both
    return Layout(tuple(components), first.template, first.structure)


def _dtype(dtype: np.dtype[Any], shape: tuple[Any, ...]) -> str:
    del shape
    return dtype.str if dtype.kind != "V" else str(dtype)


def _shown(layout: Layout) -> str:
    return repr(spec_of(layout, lambda dtype, shape: "bytes" if dtype == BYTES else str(dtype)))


def _relaxed(first: Component, second: Component) -> Component | None:
    if first.shape is None or second.shape is None or len(first.shape) != len(second.shape):
        return None
    shape = tuple(a if a == b else None for a, b in zip(first.shape, second.shape, strict=True))
    ragged = first.ragged or second.ragged
    if ragged and shape[1:] != first.shape[1:]:
        return None
    if ragged:
        shape = (None, *shape[1:])
    return Component(
        first.dtype,
        shape,
        first.nbytes if first.nbytes == second.nbytes else None,
        first.name if first.name == second.name else None,
        ragged,
    )


def converted(components: Sequence[Component], to: Sequence[Component]) -> Converter | None:
    """Return what makes of columns of some components those of more general ones; `None` if they are the same."""
    kinds = [(native_of(one, 0), native_of(other, 0)) for one, other in zip(components, to, strict=True)]
    if all(one == other for one, other in kinds):
        return None

    def convert(columns: list[Column], n: int) -> list[Column]:
        new_columns: list[Column] = []
        for (kind, dtype, shape), (target, _, _) in kinds:
            if kind == target:
                width = 2 if kind == STRINGS else 1
                new_columns += columns[len(new_columns) : len(new_columns) + width]
                continue
            column = columns[len(new_columns)]
            if kind == FIXED:
                data = np.ascontiguousarray(column).view(np.uint8).reshape(-1)
                ends = np.arange(n + 1, dtype=np.int64) * (dtype.itemsize * math.prod(shape))
                dims: Any = np.empty((n, len(shape)), np.int64)
                dims[:] = shape
            else:
                data, ends, dims = column
            if target == RAGGED:
                dims = None
            new_columns.append((data, ends, dims))
        return new_columns

    return convert
