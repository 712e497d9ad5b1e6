"""Permutations of elements that are found by number, without a place in a file."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from queuecore._core.atoms.draws import permute
from queuecore.data._nodes.choose import Seeds
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.python_map import PythonMap
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import BatchStep, Count, Map, Permute, Prefetch, Repeat, Shard, Shuffle, Skip, Take
from queuecore.data._rows.chunks import Chunk
from queuecore.errors import InvalidArgumentError, UnimplementedError

__all__ = ["Permuted", "by_number", "elements_at", "numbers_at", "permuted"]

_CHUNK = 1 << 13
# The native core numbers places below this.
_MOST = 1 << 62


def by_number(chain: Chain) -> bool:
    """Return whether `elements_at` can find a dataset's elements by number."""
    source = chain.source
    steps = all(
        isinstance(step, Take | Skip | Shard) or (isinstance(step, Repeat) and step.number >= 0) for step in chain.steps
    )
    return steps and source.by_number


def elements_at(chain: Chain, index: np.ndarray[Any, Any]) -> Chunk:
    """Return the elements of an array of numbers; the node must find elements by number, and steps only choose them."""
    found: Chunk = chain.source.chosen(numbers_at(chain, index))
    return found


def numbers_at(chain: Chain, index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the numbers, in the source, of the elements of an array of numbers."""
    for depth in range(len(chain.steps), 0, -1):
        step = chain.steps[depth - 1]
        if isinstance(step, Skip):
            index = index + step.number
        elif isinstance(step, Shard):
            index = (index * step.num_shards + step.index) % chain.count(None, depth - 1)
        elif isinstance(step, Repeat):
            index = index % chain.count(None, depth - 1)
    return index


@dataclass(frozen=True, eq=False)
class Permuted(Node):
    """All elements of the first input in random order. A permutation of the last input has the seeds."""

    name = "permute"

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].count(min_count)

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        (low, high), number = run.seed_of(1, pass_)
        step = self.inputs[1].steps[0]
        # As the native core counts them.
        iteration = number + 1 if isinstance(step, Permute) and step.reshuffle else 0
        total = self.inputs[0].count(None)
        if total > _MOST:
            raise InvalidArgumentError(f"permute: {total} elements are more than is possible, {_MOST}", stage=self.name)
        for at in range(start, int(total), _CHUNK):
            index = np.empty(min(_CHUNK, int(total) - at), np.int64)
            permute(low, high, iteration, int(total), at, index)
            yield elements_at(self.inputs[0], index)


def permuted(chain: Chain, permute: Permute) -> Chain:
    """Return a chain whose elements come in random order.

    Raises
    ------
    UnimplementedError
        If a step before it has no known places.
    InvalidArgumentError
        If the number of elements isn't known, or endless.
    """
    for step in chain.steps:
        if isinstance(step, BatchStep | Shuffle | Permute):
            name = type(step).__name__.lower()
            raise UnimplementedError(f"permute goes over records at known places: put it before the {name}")
        if isinstance(step, Repeat) and step.number < 0:
            raise InvalidArgumentError(
                "unknown cardinality where a length is needed: an endless dataset can't be permuted; permute it "
                "before the repeat"
            )
    source = chain.source
    if all(isinstance(step, Take | Skip | Repeat | Shard | Prefetch | Map) for step in chain.steps):
        if isinstance(source, FixedLengthSource):
            return chain.then(permute)
        maps = tuple(step for step in chain.steps if isinstance(step, Map | Prefetch))
        others = tuple(step for step in chain.steps if not isinstance(step, Map | Prefetch))
        if isinstance(source, PythonMap):
            below = permuted(source.inputs[0].then(*others), permute)
            return Chain(replace(source, inputs=(below,)), maps, chain.options)
        if isinstance(source, Permuted):
            raise UnimplementedError("permute goes over records at known places: put it before the permute")
        given = Chain(source, others)
        if by_number(given):
            return Chain(Permuted((given, Chain(Seeds(()), (permute,)))), maps, chain.options)
    raise InvalidArgumentError(
        "unknown cardinality where a length is needed: permute works on uncompressed records of fixed length, and "
        "on what is in memory. Use shuffle"
    )
