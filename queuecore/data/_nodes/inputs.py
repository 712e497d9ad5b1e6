"""Helpers for nodes that read several chains: rows that wait for others, and elements as they come."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

from queuecore._elements.component import Component
from queuecore._io.bad_data import Quarantine
from queuecore.data._nodes.run import NodeRun, Opened
from queuecore.data._plan.made import Layout
from queuecore.data._rows.chunks import Chunk, Failed, Objects, Rows
from queuecore.data._rows.columns import converted
from queuecore.errors import DtypeError

__all__ = [
    "MOST_OBJECTS",
    "Waiting",
    "components_of",
    "laid_out",
    "objects_of",
    "relaid",
]

# Number of a dataset's elements taken at once where they are Python objects: about as many as may be views.
MOST_OBJECTS = 8


class Waiting:
    """The elements of a dataset that were read and not yet used.

    Attributes
    ----------
    left : int
        Number of these elements.
    failed : Failed or None
        The only element left, if it can't be made.
    """

    __slots__ = ("_chunk", "_chunks", "_first", "failed", "left")

    def __init__(self, chunks: Iterator[Chunk | Failed]) -> None:
        self._chunks = chunks
        self._chunk: Chunk | Failed | None = None
        self.failed: Failed | None = None
        self._first = 0
        self.left = 0

    def fill(self) -> bool:
        """Read more if none are left; False: there are no more."""
        while not self.left:
            self._chunk = None  # gives its memory back before more is read
            self._chunk = next(self._chunks, None)
            if self._chunk is None:
                return False
            self._first, self.left = 0, self._chunk.n
            self.failed = self._chunk if isinstance(self._chunk, Failed) else None
        return True

    def take(self, n: int) -> Any:
        """Return the next `n` elements: columns, their first row and the row after their last one; or a list."""
        first = self._first
        chunk = self._chunk
        self._first += n
        self.left -= n
        if not self.left:
            self._chunk = self.failed = None
        if isinstance(chunk, Rows):
            return chunk.columns, chunk.first + first, chunk.first + first + n
        return chunk.part(first, first + n).elements if isinstance(chunk, Objects) else []


def objects_of(iterator: Opened, errors: bool = False) -> Generator[Any]:
    """Yield the elements of an iterator, those together that are ready already, and close it.

    `errors`: as of `taken`.
    """
    with iterator:
        while True:
            group: list[Any] = []
            ended = False  # the exception would refer to this frame, which only the collector could end then
            problem: BaseException | None = None
            try:
                while not group or (len(group) < MOST_OBJECTS and iterator.poll(0)):
                    group.append(next(iterator))
            except StopIteration:
                ended = True
            except BaseException as error:  # noqa: BLE001 - it comes after the elements that are ready
                problem = error
            if group:
                yield Objects(group)
            if ended:
                return
            if problem is not None:
                if not errors or not iterator.goes_on:
                    raise problem
                yield Failed(problem)


def components_of(layout: Layout) -> tuple[Component, ...]:
    """Return the components of a layout that has some."""
    if layout.components is None:
        raise DtypeError("elements are Python objects")
    return layout.components


def laid_out(
    run: NodeRun,
    index: int,
    pass_: int,
    start: int,
    layout: Layout,
    skips: Quarantine | None = None,
    errors: bool = False,
) -> Generator[Any]:
    """Yield the elements of an input, from number `start` on, as rows of a layout that its own fits; or as objects."""
    if layout.components is None:
        yield from objects_of(run.open(index, pass_, start, 0, skips), errors)
        return
    yield from relaid(run.rows(index, pass_, start, skips, errors), run.input(index).layout, layout)


def relaid(chunks: Generator[Any], given: Layout, layout: Layout) -> Generator[Any]:
    """Yield rows of one layout as those of a more general one."""
    convert = converted(components_of(given), components_of(layout))
    with contextlib.closing(chunks):
        for rows in chunks:
            if convert is not None and not isinstance(rows, Failed):
                rows = rows._replace(columns=convert(rows.columns, rows.first + rows.n))
            yield rows
            del rows  # gives its memory back before more is read
