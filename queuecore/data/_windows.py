"""Windows: elements that follow each other, as datasets of their own."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from queuecore._stages import structure_of
from queuecore.data._arrays import Items, Slices
from queuecore.data._columns import joined, span
from queuecore.data._elements import flattened
from queuecore.data._nodes import Chunk, Layout, Node, One, Piece, Rows, Run
from queuecore.data._ops import Count
from queuecore.data._reading import components_of, count_of, objects_of

__all__ = ["Window"]


@dataclass(frozen=True, eq=False)
class Window(Node):
    """Datasets of elements that follow each other, one for each component.

    Attributes
    ----------
    size, shift, stride : int
        Elements of a window, elements between the beginnings of two, and between two elements of one.
    drop_remainder : bool
        Whether windows that aren't full are left out.
    """

    name: ClassVar[str] = "window"

    size: int
    shift: int
    stride: int
    drop_remainder: bool

    @property
    def _reach(self) -> int:
        return (self.size - 1) * self.stride + 1

    def words(self) -> dict[str, Any]:
        return {"window": [self.size, self.shift, self.stride, self.drop_remainder]}

    def count(self, needed: int | None) -> Count:
        least = self._reach if self.drop_remainder else 1
        total = count_of(self.inputs[0], None if needed is None else (needed - 1) * self.shift + least)
        return total if isinstance(total, float) else max((total - least) // self.shift + 1, 0)

    def layout(self) -> Layout:
        return Layout(None)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        layout = Layout.of(self.inputs[0])
        first = start * self.shift
        if layout.components is None or layout.structure is not None:
            chunks: Generator[Chunk] = objects_of(run.open(0, pass_, first))
        else:
            chunks = run.rows(0, pass_, first)
        with contextlib.closing(chunks):
            yield from map(One, self._windows(chunks, layout))

    def _windows(self, chunks: Generator[Any], layout: Layout) -> Generator[Any]:
        pieces: deque[tuple[int, Chunk]] = deque()  # with the number of the first element
        at = covered = have = 0
        problem: BaseException | None = None
        going = True
        while True:
            while going and have < at + self._reach:
                try:
                    chunk = next(chunks, None)
                except BaseException as error:  # noqa: BLE001 - it is raised below, behind the windows before it
                    problem, chunk = error, None
                going = chunk is not None
                if chunk is not None:
                    pieces.append((have, chunk))
                    have += chunk.n
                while pieces and pieces[0][0] + pieces[0][1].n <= at:
                    pieces.popleft()
            if not going and have < at + self._reach:
                if self.drop_remainder or at >= have or (problem is not None and covered >= have):
                    break
                if problem is not None:  # what is good and in no window yet
                    yield self._window(pieces, at, have, layout)
                    break
            yield self._window(pieces, at, min(at + self._reach, have), layout)
            covered = at + self._reach
            at += self.shift
            while pieces and pieces[0][0] + pieces[0][1].n <= at:
                pieces.popleft()
        if problem is not None:
            raise problem

    def _window(self, pieces: deque[tuple[int, Chunk]], start: int, stop: int, layout: Layout) -> Any:
        """Return the datasets of elements `start` to `stop`."""
        parts: list[tuple[Any, int, int]] = [
            (chunk, max(start - begin, 0), min(stop - begin, chunk.n))
            for begin, chunk in pieces
            if begin < stop and begin + chunk.n > start
        ]
        if not isinstance(pieces[0][1], Rows):
            return _of_objects([one for chunk, at, end in parts for one in chunk.elements[at:end]][:: self.stride])
        n = -(-(stop - start) // self.stride)
        if len(parts) == 1:
            chunk, at, _ = parts[0]
            columns, at = chunk.columns, chunk.first + at
        else:
            columns, at = joined([(one.columns, one.first + begin, one.first + end) for one, begin, end in parts]), 0
        rows = None if self.stride == 1 else np.arange(at, at + stop - start, self.stride, dtype=np.int64)
        given = Rows(n, columns, at if rows is None else 0, rows)
        datasets = []
        for component in components_of(layout):
            width = span(component)
            datasets.append(_of(Slices((), given._replace(columns=columns[:width]), Layout((component,)))))
            columns = columns[width:]
        return structure_of(layout.template, datasets)


def _of(node: Node) -> Any:
    from queuecore.data.dataset import dataset_of

    return dataset_of(node)


def _of_objects(elements: list[Any]) -> Any:
    template, first = flattened(elements[0], lambda leaf, where: leaf)
    rows = [flattened(element, lambda leaf, where: leaf)[1] for element in elements]
    return structure_of(template, [_of(Items((), [row[at] for row in rows])) for at in range(len(first))])
