"""Windows: elements that follow each other, as datasets of their own."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.usercode import arguments_of
from queuecore._core.stream.describe import FIXED
from queuecore._elements.component import Component
from queuecore._elements.nests import mapped, plain, structure_of
from queuecore._elements.record import DatasetSpec
from queuecore.data._nodes.arrays import Items, Slices
from queuecore.data._nodes.combine import Zip
from queuecore.data._nodes.inputs import components_of, objects_of
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain, chain_of, dataset_of
from queuecore.data._plan.made import Layout, native_of
from queuecore.data._plan.steps import BatchStep, Count, Permute, Prefetch, Repeat, Shard, Shuffle, Skip, Take, Unknown
from queuecore.data._rows.chunks import Chunk, Column, Failed, One, Piece, Rows
from queuecore.data._rows.columns import compacted, joined, span, typed
from queuecore.data._rows.elements import flattened
from queuecore.errors import UnimplementedError

__all__ = ["Stacked", "WindowNode", "stacked"]

# What treats elements alike, whatever they are.
_ELEMENTWISE = (Permute, Prefetch, Repeat, Shard, Shuffle, Skip, Take)
# Number of windows that are put together at a time.
_BYTES = 256 << 10


@dataclass(frozen=True, eq=False)
class WindowNode(Node):
    """Datasets of elements that follow each other, one for each component.

    Attributes
    ----------
    size, shift, stride : int
        Elements in a window; between the beginnings of two windows; and between two elements of one window.
    drop_remainder : bool
        Whether windows that aren't full are left out.
    """

    name = "window"

    size: int
    shift: int
    stride: int
    drop_remainder: bool

    @property
    def _reach(self) -> int:
        return (self.size - 1) * self.stride + 1

    def words(self) -> dict[str, Any]:
        return {"window": [self.size, self.shift, self.stride, self.drop_remainder]}

    def count(self, min_count: int | None) -> Count:
        least = self._reach if self.drop_remainder else 1
        total = self.inputs[0].count(None if min_count is None else (min_count - 1) * self.shift + least)
        return total if isinstance(total, float) else max((total - least) // self.shift + 1, 0)

    def layout(self) -> Layout:
        return Layout(None)

    def spec(self) -> Any:
        spec = self.inputs[0].element_spec
        return None if spec is None else mapped(DatasetSpec, spec)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        layout = self.inputs[0].layout
        first = start * self.shift
        if layout.components is None or layout.structure is not None:
            chunks: Generator[Chunk | Failed] = objects_of(run.open(0, pass_, first), True)
        else:
            chunks = run.rows(0, pass_, first, None, True)
        with contextlib.closing(chunks):
            made = self._windows(_between(chunks), layout, start > 0)
            while (failed := (yield from _windows_before(map(One, made)))) is not None:
                yield failed
                made = self._windows(_between(chunks), layout, False)

    def _windows(self, chunks: Generator[Any], layout: Layout, follows: bool) -> Generator[Any]:
        # `follows`: there was a window before.
        pieces: deque[tuple[int, Chunk]] = deque()  # with the number of the first element
        position = have = 0
        covered = self._reach - self.shift if follows else 0
        problem: BaseException | None = None
        going = True
        while True:
            while going and have < position + self._reach:
                try:
                    chunk = next(chunks, None)
                except BaseException as error:  # noqa: BLE001 - it is raised below, behind the windows before it
                    problem, chunk = error, None
                going = chunk is not None
                if chunk is not None:
                    pieces.append((have, chunk))
                    have += chunk.n
                while pieces and pieces[0][0] + pieces[0][1].n <= position:
                    pieces.popleft()
            if not going and have < position + self._reach:
                if self.drop_remainder or position >= have or (problem is not None and covered >= have):
                    break
                if problem is not None:  # what is good and in no window yet
                    yield self._window(pieces, position, have, layout)
                    break
            yield self._window(pieces, position, min(position + self._reach, have), layout)
            covered = position + self._reach
            position += self.shift
            while pieces and pieces[0][0] + pieces[0][1].n <= position:
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
            return _of_objects(
                [element for chunk, position, end in parts for element in chunk.elements[position:end]][:: self.stride]
            )
        n = -(-(stop - start) // self.stride)
        if len(parts) == 1:
            chunk, position, _ = parts[0]
            columns, position = chunk.columns, chunk.first + position
        else:
            columns = joined([(chunk.columns, chunk.first + begin, chunk.first + end) for chunk, begin, end in parts])
            position = 0
        rows = None if self.stride == 1 else np.arange(position, position + stop - start, self.stride, dtype=np.int64)
        given = Rows(n, columns, position if rows is None else 0, rows)
        chains = []
        for component in components_of(layout):
            width = span(component)
            chains.append(_of(Slices((), given._replace(columns=columns[:width]), Layout((component,)))))
            columns = columns[width:]
        return structure_of(layout.template, chains)


@dataclass(frozen=True, eq=False)
class Stacked(WindowNode):
    """The elements of each window as one array, or several.

    Attributes
    ----------
    of : object
        The structure of the arrays, over the components of the elements.
    """

    of: Any

    def words(self) -> dict[str, Any]:
        return {**super().words(), "stacked": repr(plain(self.of))}

    def label(self) -> str:
        return f"window({self.size}, {self.shift}, {self.stride}, {self.drop_remainder}), stacked"

    def layout(self) -> Layout:
        template, chosen = flattened(self.of, lambda leaf, where: leaf)
        given = components_of(self.inputs[0].layout)
        side = self.size if self.drop_remainder else None
        return Layout(tuple(Component(given[at].dtype, (side, *(given[at].shape or ()))) for at in chosen), template)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        with contextlib.closing(run.rows(0, pass_, start * self.shift, None, True)) as chunks:
            made = self._stacked(_between(chunks), start > 0)
            while (failed := (yield from _windows_before(made))) is not None:
                yield failed
                made = self._stacked(_between(chunks), False)

    def _stacked(self, chunks: Generator[Any], follows: bool) -> Generator[Rows]:
        components = components_of(self.inputs[0].layout)
        places = np.cumsum([0, *(span(component) for component in components)])
        _, leaf_numbers = flattened(self.of, lambda leaf, where: leaf)
        buffers = [
            np.empty((0, *(components[number].shape or ())), components[number].dtype) for number in leaf_numbers
        ]
        row_bytes = sum(column.dtype.itemsize * math.prod(column.shape[1:]) for column in buffers)
        limit = max(_BYTES // max(row_bytes * self.size, 1), 1)
        reach, shift = self._reach, self.shift
        position = 0  # of the buffered rows, where the next window begins
        covered = reach - shift if follows else 0
        problem: BaseException | None = None
        while True:
            try:
                rows = next(chunks, None)
            except BaseException as error:  # noqa: BLE001 - it is raised below, behind the windows before it
                problem, rows = error, None
            if rows is None:
                break
            columns = compacted(rows.columns, rows.first, rows.n, rows.rows)
            for index, number in enumerate(leaf_numbers):
                component = components[number]
                new = typed(columns[places[number]], component.dtype, component.shape or ())
                buffers[index] = np.concatenate([buffers[index], new])
            have = len(buffers[0])
            full = max((have - position - reach) // shift + 1, 0)
            for first in range(0, full, limit):
                begins = position + shift * np.arange(first, min(first + limit, full))
                yield self._rows(buffers, begins[:, None] + self.stride * np.arange(self.size))
            position += full * shift
            covered = position - shift + reach if full else covered
            done = min(position, have)
            buffers = [column[done:] for column in buffers]
            position, covered = position - done, covered - done
        have = len(buffers[0])
        while not self.drop_remainder and position < have and (problem is None or covered < have):
            covered = have if problem is not None else 0
            yield self._rows(buffers, np.arange(position, min(position + reach, have), self.stride)[None])
            position += shift
        if problem is not None:
            raise problem

    def _rows(self, kept: list[np.ndarray[Any, Any]], index: np.ndarray[Any, Any]) -> Rows:
        """Return the windows of elements by their places in what is kept."""
        arrays = [column[index] for column in kept]
        if self.drop_remainder:
            return Rows(len(index), list(arrays))
        columns: list[Column] = []
        for array in arrays:
            ends = np.arange(len(array) + 1, dtype=np.int64) * (array.nbytes // len(array))
            dims = np.empty((len(array), array.ndim - 1), np.int64)
            dims[:] = array.shape[1:]
            columns.append((array.reshape(-1).view(np.uint8), ends, dims))
        return Rows(len(index), columns)


class _Cut(Exception):  # noqa: N818 - no error of its own
    """Carries the replacement of an element."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.error)
        self.failed = failed


def _between(chunks: Generator[Any]) -> Generator[Any]:
    """Yield the chunks before the next element that can't be made, which is raised."""
    for chunk in chunks:
        if isinstance(chunk, Failed):
            raise _Cut(chunk)
        yield chunk


def _windows_before(made: Iterable[Any]) -> Generator[Any, None, Failed | None]:
    """Yield the windows before an element that can't be made, and return its `Failed`: new windows begin behind it."""
    try:
        yield from made
    except _Cut as cut:
        return cut.failed
    return None


@dataclass(frozen=True, eq=False)
class _Probe(Node):
    """Stands for a component of any window; it can't be read."""

    name = "window"

    window: WindowNode
    component: int

    def count(self, min_count: int | None) -> int:
        if not self.window.drop_remainder:
            raise Unknown
        return self.window.size

    def layout(self) -> Layout:
        return Layout((components_of(self.window.inputs[0].layout)[self.component],))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        raise UnimplementedError("this stands for a window")


def stacked(chain: Chain, function: Callable[..., Any]) -> Stacked | None:
    """Return windows as arrays, if `flat_map` with this function makes that of them.

    Parameters
    ----------
    chain : Chain
        Any.
    function : callable
        Called once, with placeholders for windows, if the dataset is one of windows.

    Returns
    -------
    Stacked or None
        Replaces the windows. `None`: the function has to be called with each window.
    """
    window = chain.source
    if type(window) is not WindowNode or not all(type(step) in _ELEMENTWISE for step in chain.steps):
        return None
    layout = window.inputs[0].layout
    if layout.components is None or layout.structure is not None:
        return None
    probes = [_of(_Probe((), window, index)) for index in range(len(layout.components))]
    try:
        structure = _whole(window, chain_of(function(*arguments_of(structure_of(layout.template, probes)))), None)
    except Exception:  # noqa: BLE001 - it comes out where it belongs, if it does so with a window
        return None
    if structure is None:
        return None
    chosen = [layout.components[index] for index in flattened(structure, lambda leaf, where: leaf)[1]]
    if not all(native_of(one, 0)[0] == FIXED for one in chosen):
        return None
    return Stacked(window.inputs, window.size, window.shift, window.stride, window.drop_remainder, structure)


def _whole(window: WindowNode, chain: Chain, batch: BatchStep | None) -> Any:
    """Return the structure of a chain of one batch of whole windows, over components; `None`: it is none."""
    for step in chain.steps:
        if type(step) is not BatchStep or batch is not None:
            return None
        # With fewer elements than it wants, or as many, each window is a batch.
        if step.batch_size < window.size or (step.drop_remainder and step.batch_size > window.size):
            return None
        if step.drop_remainder and not window.drop_remainder:
            return None
        batch = step
    if chain.options.has_effect:
        return None
    source = chain.source
    if isinstance(source, _Probe) and source.window is window:
        return None if batch is None else source.component
    if not isinstance(source, Zip):
        return None
    parts = [_whole(window, inner, batch) for inner in source.inputs]
    return None if any(part is None for part in parts) else structure_of(source.template, parts)


def _of(node: Node) -> Any:
    return dataset_of(Chain.of(node))


def _of_objects(elements: list[Any]) -> Any:
    template, first = flattened(elements[0], lambda leaf, where: leaf)
    rows = [flattened(element, lambda leaf, where: leaf)[1] for element in elements]
    return structure_of(template, [_of(Items((), [row[at] for row in rows])) for at in range(len(first))])
