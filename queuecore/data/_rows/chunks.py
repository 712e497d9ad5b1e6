"""Elements that are handed on together: rows of columns, and objects."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from queuecore._checks.tracebacks import without_generators
from queuecore._core.stream.feed import Feed

__all__ = ["AnyChunk", "Chunk", "Column", "Failed", "Objects", "One", "Piece", "Row", "Rows"]

# An array of rows; or, of rows that vary in length, their bytes, where each ends (one more than there are rows), and
# None or their dimensions.
Column = np.ndarray[Any, Any] | tuple[Any, Any, Any]


class Rows(NamedTuple):
    """Elements as rows of columns, which nobody changes any more.

    Attributes
    ----------
    n : int
        Number of elements.
    columns : list of Column
        As `queuecore._core.stream.feed.Feed.hand` takes them.
    first : int
        The first of the columns' rows that belongs to the chunk.
    rows : ndarray of int64, optional
        Numbers of the rows that belong to it instead, contiguous in memory.
    """

    n: int
    columns: list[Column]
    first: int = 0
    rows: np.ndarray[Any, Any] | None = None

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand the rows in; False if no more is wanted."""
        return feed.hand(pass_, self.columns, self.n, owner=None, first=self.first, rows=self.rows)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the elements, which follow each other."""
        if self.rows is None:
            return Rows(stop - start, self.columns, self.first + start)
        return Rows(stop - start, self.columns, 0, self.rows[start:stop])

    def chosen(self, index: np.ndarray[Any, Any]) -> Rows:
        """Return the elements of an array of their numbers."""
        rows = self.first + index if self.rows is None else self.rows[index]
        return Rows(len(index), self.columns, 0, np.ascontiguousarray(rows, np.int64))


class Objects(NamedTuple):
    """Elements as Python objects."""

    elements: list[Any]

    @property
    def n(self) -> int:
        """The number of elements."""
        return len(self.elements)

    def part(self, start: int, stop: int) -> Objects:
        """Return some of the elements, which follow each other."""
        return Objects(self.elements[start:stop])

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand the objects in; False if no more is wanted."""
        return feed.hand_objects(pass_, self.elements)


class One(NamedTuple):
    """An element as a Python object, handed in together with others unless a consumer waits for it."""

    element: Any

    @property
    def n(self) -> int:
        """The number of elements."""
        return 1

    def part(self, start: int, stop: int) -> One:
        """Return the element."""
        del start, stop
        return self

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand the element in; False if no more is wanted."""
        return feed.add(pass_, self.element)


class Row(NamedTuple):
    """An element as a row of columns, handed in together with others unless a consumer waits for it.

    Attributes
    ----------
    columns : list of Column
        The same list for rows that follow each other, where that can be.
    row : int
        The number of the row.
    """

    columns: list[Column]
    row: int

    @property
    def n(self) -> int:
        """The number of elements."""
        return 1

    def part(self, start: int, stop: int) -> Row:
        """Return the element."""
        del start, stop
        return self

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand the element in; False if no more is wanted."""
        return feed.add_row(pass_, self.columns, self.row)


class Failed(NamedTuple):
    """The error of an element that can't be made, in its place: later ones can."""

    error: BaseException

    @property
    def n(self) -> int:
        """The number of elements."""
        return 1

    def part(self, start: int, stop: int) -> Failed:
        """Return the error."""
        del start, stop
        return self

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand the error in; False if no more is wanted."""
        without_generators(self.error)
        return feed.fail(pass_, self.error)


Chunk = Rows | Objects

AnyChunk = TypeVar("AnyChunk", Rows, Objects, Chunk, Chunk | Failed, Rows | Failed)

# A piece that is handed in: a chunk, or an element that becomes a part of one on the way.
Piece = Chunk | One | Row | Failed
