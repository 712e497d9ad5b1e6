"""Windows: elements that follow each other, as datasets of their own."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from queuecore._record import DatasetSpec
from queuecore._stages import Component, structure_of
from queuecore.data._arrays import Items, Slices
from queuecore.data._calls import call
from queuecore.data._columns import compacted, joined, span, typed
from queuecore.data._combine import Zip
from queuecore.data._elements import flattened
from queuecore.data._nodes import Chunk, Column, Layout, Node, One, Piece, Rows, Run
from queuecore.data._ops import Batch, Count, Permute, Prefetch, Repeat, Shard, Shuffle, Skip, Take
from queuecore.data._plan import _native
from queuecore.data._reading import components_of, count_of, objects_of
from queuecore.data._source import Unknown
from queuecore.data._structures import mapped
from queuecore.data.options import Options
from queuecore.errors import UnimplementedError

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Stacked", "Window", "stacked"]

# What treats elements alike, whatever they are.
_ELEMENTWISE = (Permute, Prefetch, Repeat, Shard, Shuffle, Skip, Take)
# Of windows that are put together at a time.
_BYTES = 256 << 10


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

    def spec(self) -> Any:
        spec = self.inputs[0].element_spec
        return None if spec is None else mapped(DatasetSpec, spec)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        layout = Layout.of(self.inputs[0])
        first = start * self.shift
        if layout.components is None or layout.structure is not None:
            chunks: Generator[Chunk] = objects_of(run.open(0, pass_, first))
        else:
            chunks = run.rows(0, pass_, first)
        with contextlib.closing(chunks):
            yield from map(One, self._windows(chunks, layout, start > 0))

    def _windows(self, chunks: Generator[Any], layout: Layout, follows: bool) -> Generator[Any]:
        # `follows`: there was a window before.
        pieces: deque[tuple[int, Chunk]] = deque()  # with the number of the first element
        at = have = 0
        covered = self._reach - self.shift if follows else 0
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


@dataclass(frozen=True, eq=False)
class Stacked(Window):
    """The elements of each window as one array, or several.

    Attributes
    ----------
    of : object
        The structure of the arrays, over the components of the elements.
    """

    of: Any

    def words(self) -> dict[str, Any]:
        return {**super().words(), "stacked": repr(self.of)}

    def label(self) -> str:
        return f"window({self.size}, {self.shift}, {self.stride}, {self.drop_remainder}), stacked"

    def layout(self) -> Layout:
        template, chosen = flattened(self.of, lambda leaf, where: leaf)
        given = components_of(Layout.of(self.inputs[0]))
        side = self.size if self.drop_remainder else None
        return Layout(tuple(Component(given[at].dtype, (side, *(given[at].shape or ()))) for at in chosen), template)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        given = components_of(Layout.of(self.inputs[0]))
        places = np.cumsum([0, *(span(one) for one in given)])
        _, chosen = flattened(self.of, lambda leaf, where: leaf)
        kept = [np.empty((0, *(given[at].shape or ())), given[at].dtype) for at in chosen]
        most = max(_BYTES // max(sum(one.dtype.itemsize * math.prod(one.shape[1:]) for one in kept) * self.size, 1), 1)
        reach, shift = self._reach, self.shift
        at = 0  # of what is kept, where the next window begins
        covered = reach - shift if start else 0
        problem: BaseException | None = None
        with contextlib.closing(run.rows(0, pass_, start * shift)) as chunks:
            while True:
                try:
                    rows = next(chunks, None)
                except BaseException as error:  # noqa: BLE001 - it is raised below, behind the windows before it
                    problem, rows = error, None
                if rows is None:
                    break
                columns = compacted(rows.columns, rows.first, rows.n, rows.rows)
                for index, component in enumerate(chosen):
                    one = given[component]
                    new = typed(columns[places[component]], one.dtype, one.shape or ())
                    kept[index] = np.concatenate([kept[index], new])
                have = len(kept[0])
                full = max((have - at - reach) // shift + 1, 0)
                for first in range(0, full, most):
                    begins = at + shift * np.arange(first, min(first + most, full))
                    yield self._rows(kept, begins[:, None] + self.stride * np.arange(self.size))
                at += full * shift
                covered = at - shift + reach if full else covered
                done = min(at, have)
                kept = [one[done:] for one in kept]
                at, covered = at - done, covered - done
        have = len(kept[0])
        while not self.drop_remainder and at < have and (problem is None or covered < have):
            covered = have if problem is not None else 0
            yield self._rows(kept, np.arange(at, min(at + reach, have), self.stride)[None])
            at += shift
        if problem is not None:
            raise problem

    def _rows(self, kept: list[np.ndarray[Any, Any]], index: np.ndarray[Any, Any]) -> Rows:
        """Return the windows of elements by their places in what is kept."""
        arrays = [one[index] for one in kept]
        if self.drop_remainder:
            return Rows(len(index), list(arrays))
        columns: list[Column] = []
        for one in arrays:
            ends = np.arange(len(one) + 1, dtype=np.int64) * (one.nbytes // len(one))
            dims = np.empty((len(one), one.ndim - 1), np.int64)
            dims[:] = one.shape[1:]
            columns.append((one.reshape(-1).view(np.uint8), ends, dims))
        return Rows(len(index), columns)


@dataclass(frozen=True, eq=False)
class _Probe(Node):
    """Stands for a component of any window; nobody can read it."""

    name: ClassVar[str] = "window"

    window: Window
    component: int

    def count(self, needed: int | None) -> int:
        if not self.window.drop_remainder:
            raise Unknown
        return self.window.size

    def layout(self) -> Layout:
        return Layout((components_of(Layout.of(self.window.inputs[0]))[self.component],))

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        raise UnimplementedError("this stands for a window")


def stacked(dataset: Dataset, function: Callable[..., Any]) -> Stacked | None:
    """Return windows as arrays, if that is what `flat_map` with a function makes of them.

    Parameters
    ----------
    dataset : Dataset
        Any.
    function : callable
        Called once, with what stands for windows, if the dataset is one of windows.

    Returns
    -------
    Stacked or None
        In place of the windows. `None`: the function has to be called with each.
    """
    window = dataset._source
    if type(window) is not Window or not all(type(op) in _ELEMENTWISE for op in dataset._ops):
        return None
    layout = Layout.of(window.inputs[0])
    if layout.components is None or layout.structure is not None:
        return None
    probes = [_of(_Probe((), window, index)) for index in range(len(layout.components))]
    try:
        made = _whole(window, call(function, structure_of(layout.template, probes)), None)
    except Exception:  # noqa: BLE001 - it comes out where it belongs, if it does so with a window
        return None
    if made is None:
        return None
    chosen = [layout.components[index] for index in flattened(made, lambda leaf, where: leaf)[1]]
    if not all(_native(one, 0)[0] == "fixed" for one in chosen):
        return None
    return Stacked(window.inputs, window.size, window.shift, window.stride, window.drop_remainder, made)


def _whole(window: Window, made: Any, batch: Batch | None) -> Any:
    """Return the structure of a dataset of one batch of whole windows, over components; `None`: it is none."""
    for op in made._ops:
        if type(op) is not Batch or batch is not None:
            return None
        # With fewer elements than it wants, or as many, each window is a batch.
        if op.batch_size < window.size or (op.drop_remainder and op.batch_size > window.size):
            return None
        if op.drop_remainder and not window.drop_remainder:
            return None
        batch = op
    if made._options != Options():
        return None
    source = made._source
    if isinstance(source, _Probe) and source.window is window:
        return None if batch is None else source.component
    if not isinstance(source, Zip):
        return None
    parts = [_whole(window, one, batch) for one in source.inputs]
    return None if any(one is None for one in parts) else structure_of(source.template, parts)


def _of(node: Node) -> Any:
    from queuecore.data.dataset import dataset_of

    return dataset_of(node)


def _of_objects(elements: list[Any]) -> Any:
    template, first = flattened(elements[0], lambda leaf, where: leaf)
    rows = [flattened(element, lambda leaf, where: leaf)[1] for element in elements]
    return structure_of(template, [_of(Items((), [row[at] for row in rows])) for at in range(len(first))])
