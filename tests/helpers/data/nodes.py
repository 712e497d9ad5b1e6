"""Nodes that hand in what tests give them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._core.stream.feed import Feed
from queuecore._core.stream.link import choose
from queuecore._elements.component import BYTES, Component
from queuecore.data import Dataset
from queuecore.data._nodes.arrays import Numbers
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain, Chained, chain_of, dataset_of
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Unknown
from queuecore.data._rows.chunks import Chunk, Objects, Rows

# One of each kind of column.
KINDS = ("fixed", "string", "strings", "ragged", "dense")
COMPONENTS = {
    "fixed": Component(np.dtype("<i4"), (2,)),
    "string": Component(BYTES, ()),
    "strings": Component(BYTES, (None,)),
    "ragged": Component(np.dtype("<f4"), (None,), ragged=True),
    "dense": Component(np.dtype("<i2"), (None, None)),
    "mask": Component(np.dtype("?"), ()),
}


def made(node: Node) -> Dataset:
    """The dataset of a node's elements; its inputs may be datasets."""
    inputs = tuple(chain_of(one) if isinstance(one, Chained) else one for one in node.inputs)
    return dataset_of(Chain(dataclasses.replace(node, inputs=inputs)))


def numbers(count: int) -> Dataset:
    """0, 1, 2 and so on."""
    return made(Numbers((), range(count), np.dtype(np.int64)))


def value(kind: str, index: int) -> Any:
    """What element `index` has in such a column. In "dense" ones four in a row have the same shape."""
    state = random.Random(f"{kind} {index}")
    if kind == "fixed":
        return np.array([index, -index], np.int32)
    if kind == "mask":
        return state.random() < 0.4
    if kind == "string":
        return state.randbytes(state.choice([0, 1, 5, 40]))
    if kind == "strings":
        return [state.randbytes(state.choice([0, 2, 9])) for _ in range(state.choice([0, 1, 3]))]
    if kind == "ragged":
        return np.array([state.random() for _ in range(state.choice([0, 1, 7]))], np.float32)
    return np.full((index // 4 % 3, 2), index, np.int16)


def column(kind: str, values: list[Any]) -> Any:
    """Such values as they are handed in."""
    if kind == "fixed":
        return np.array(values, np.int32).reshape(-1, 2)
    if kind == "mask":
        return np.array(values, np.bool_)
    if kind == "strings":
        flat = column("string", [b"".join(strings) for strings in values])
        lengths = [np.array([len(s) for s in strings], np.int64) for strings in values]
        return flat, _varying(lengths)
    if kind == "string":
        return _varying([np.frombuffer(string, np.uint8) for string in values])
    if kind == "ragged":
        return _varying(values)
    return _varying(values, np.array([array.shape for array in values], np.int64).reshape(-1, 2))


def _varying(parts: list[np.ndarray], dims: Any = None) -> tuple[Any, Any, Any]:
    ends = np.cumsum([0, *(part.nbytes for part in parts)], dtype=np.int64)
    return np.frombuffer(b"".join(part.tobytes() for part in parts) or b"", np.uint8), ends, dims


@dataclass(frozen=True, eq=False)
class Handed(Node):
    """So many elements of such columns, in chunks of any size; some of them name their rows."""

    name = "handed"

    number: int
    kinds: tuple[str, ...]
    seed: int = 0

    def words(self) -> dict[str, Any]:
        return {"number": self.number, "kinds": list(self.kinds)}

    def count(self, min_count: int | None) -> int:
        return self.number

    def layout(self) -> Layout:
        template = tuple(range(len(self.kinds))) if len(self.kinds) > 1 else 0
        return Layout(tuple(COMPONENTS[kind] for kind in self.kinds), template)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        state = random.Random(self.seed + pass_)
        first = start
        while first < self.number:
            n = min(state.choice([1, 2, 7, 40]), self.number - first)
            front = state.choice([0, 3])
            index = list(range(first, first + n))
            rows = None
            if state.random() < 0.5:
                order = state.sample(range(n), n)
                index = [first + order.index(i) for i in range(n)]  # as they lie
                rows = np.array([front + index.index(first + i) for i in range(n)], np.int64)
            index = [0] * front + index
            columns: list[Any] = []
            for kind in self.kinds:
                one = column(kind, [value(kind, i) for i in index])
                columns += [*one] if kind == "strings" else [one]
            yield Rows(n, columns, 0 if rows is not None else front, rows)
            first += n


@dataclass(frozen=True, eq=False)
class Through(Node):
    """The rows of a dataset, handed on as they come."""

    name = "through"

    def count(self, min_count: int | None) -> Any:
        return self.inputs[0].count(min_count)

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        yield from run.rows(0, pass_, start)


@dataclass(frozen=True, eq=False)
class Each(Node):
    """What a function makes of each element, as a Python object."""

    name = "each"

    function: Callable[[Any], Any]

    def count(self, min_count: int | None) -> Any:
        return self.inputs[0].count(min_count)

    def layout(self) -> Layout:
        return Layout(None)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        for element in run.elements(0, pass_, start):
            yield Objects([self.function(element)])


@dataclass(frozen=True, eq=False)
class Chosen(Node):
    """The elements whose last component, a bool, is true; without it."""

    name = "chosen"

    mask: int  # which column it is: strings in rows take two

    def count(self, min_count: int | None) -> Any:
        raise Unknown

    def layout(self) -> Layout:
        components = self.inputs[0].layout.components
        assert components is not None
        return Layout(components[:-1], tuple(range(len(components) - 1)))

    def hand_in(self, run: NodeRun, feed: Feed, pass_: int, start: int) -> bool:
        with run.open(0, pass_, 0, 5) as child:
            return choose(feed, pass_, child, self.mask, start)
