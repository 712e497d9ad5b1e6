"""Elements of any shapes, as rows that are handed in or as objects, and what padding must make of them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from queuecore._elements.component import BYTES, Component
from queuecore.data import Dataset
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain, dataset_of
from queuecore.data._plan.made import Layout
from queuecore.data._rows.chunks import Chunk, Objects, Rows

DTYPES = ("u1", "?", "<i2", "<i4", "<f4", "<i8", "<f8", "<c16", "S3")


@dataclass(frozen=True, eq=False)
class Given(Node):
    """Elements of one component, in chunks; after `fails` of them comes an error instead."""

    name = "given"

    elements: list[Any]
    component: Component | None
    chunk: int
    fails: int | None = None

    def words(self) -> dict[str, Any]:
        return {"elements": len(self.elements)}

    def count(self, min_count: int | None) -> int:
        del min_count
        return len(self.elements)

    def layout(self) -> Layout:
        return Layout(None if self.component is None else (self.component,))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        del run, pass_
        stop = len(self.elements) if self.fails is None else self.fails
        for at in range(start, stop, self.chunk):
            part = self.elements[at : min(at + self.chunk, stop)]
            if self.component is None:
                yield Objects(part)
            elif at % 3 == 1:  # rows by their numbers, in a chunk that has others too
                columns = columns_of(self.component, [part[0], *part[::-1]])
                yield Rows(len(part), columns, 0, np.arange(len(part), 0, -1, dtype=np.int64))
            else:
                yield Rows(len(part), columns_of(self.component, part))
        if self.fails is not None:
            raise ZeroDivisionError("in its place")


def columns_of(component: Component, elements: Sequence[Any]) -> list[Any]:
    """The columns of rows of a component."""
    if component.dtype == BYTES:
        data, ends = _joined([b"".join(strings) for strings in elements])
        lengths = _joined([np.array([len(text) for text in strings], np.int64).tobytes() for strings in elements])
        return [(data, ends, None), (*lengths, None)]
    if component.shape is not None and None not in component.shape:
        return [np.ascontiguousarray(np.stack(elements))]
    dims = np.array([array.shape for array in elements], np.int64).reshape(len(elements), -1)
    return [(*_joined([array.tobytes() for array in elements]), dims)]


def _joined(parts: Sequence[bytes]) -> tuple[Any, Any]:
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum([0, *map(len, parts)], dtype=np.int64)


def given(elements: list[Any], component: Component | None, chunk: int = 3, fails: int | None = None) -> Dataset:
    """The dataset of such elements; without a component they are objects."""
    return dataset_of(Chain(Given((), elements, component, chunk, fails)))


def padded(rows: Sequence[Any], sides: Sequence[int | None], fill: Any) -> Any:
    """Rows in an array, by the words of tf.data's documentation."""
    shape = [max(row.shape[axis] for row in rows) if side is None else side for axis, side in enumerate(sides)]
    made = np.empty((len(rows), *shape), rows[0].dtype)
    for place in np.ndindex(*made.shape):
        row = rows[place[0]]
        inside = all(at < side for at, side in zip(place[1:], row.shape, strict=True))
        made[place] = row[place[1:]] if inside else fill
    return made


def grouped(elements: Sequence[Any], size: int, drop: bool = False) -> list[Sequence[Any]]:
    """Batches of elements."""
    made = [elements[at : at + size] for at in range(0, len(elements), size)]
    return [one for one in made if len(one) == size or not drop]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Any], Component, tuple[int | None, ...], Any]:
    """Elements, what is known of them, what to pad them to, and with what."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    known_sides = draw(st.lists(st.sampled_from([None, None, 0, 1, 2, 3]), min_size=1, max_size=3))
    # Of rows without bytes, a ragged component doesn't know how many there are.
    ragged = known_sides[0] is None and None not in known_sides[1:] and 0 not in known_sides and draw(st.booleans())
    numbers = np.random.default_rng(draw(st.integers(0, 9)))
    elements = []
    for _ in range(draw(st.integers(0, 14))):
        shape = [draw(st.integers(0, 4)) if side is None else side for side in known_sides]
        data = numbers.integers(1, 100, int(np.prod(shape)) * dtype.itemsize, np.uint8)
        elements.append((data % 2 if dtype.kind == "b" else data).view(dtype).reshape(shape))
    sides = tuple(
        draw(st.sampled_from([None, 4, 6] if side is None else [None, side, side + 2])) for side in known_sides
    )
    fill = np.frombuffer(numbers.integers(0, 2, dtype.itemsize, np.uint8).tobytes(), dtype)[0]
    return elements, Component(dtype, tuple(known_sides), ragged=ragged), sides, fill
