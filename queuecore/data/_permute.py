"""Permutations of elements that can be had by their numbers, without a place in a file."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from queuecore._core.order import permute
from queuecore.data._nodes import Chunk, Layout, Node, Run
from queuecore.data._ops import Count, Permute, Repeat, Shard, Skip, Take
from queuecore.data._reading import count_of
from queuecore.errors import InvalidArgumentError

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Permuted", "by_number", "elements_at", "numbers_at"]

_CHUNK = 1 << 13
# The native core numbers places below this.
_MOST = 1 << 62


def by_number(dataset: Dataset) -> bool:
    """Return whether `elements_at` knows a dataset's elements."""
    source = dataset._source
    steps = all(
        isinstance(op, Take | Skip | Shard) or (isinstance(op, Repeat) and op.number >= 0) for op in dataset._ops
    )
    return steps and isinstance(source, Node) and source.by_number


def elements_at(dataset: Dataset, index: np.ndarray[Any, Any]) -> Chunk:
    """Return the elements of an array of numbers, of a node that has them by number and steps that only choose."""
    source = dataset._source
    assert isinstance(source, Node)
    return source.chosen(numbers_at(dataset, index))


def numbers_at(dataset: Dataset, index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return which elements of the source those of an array of numbers are."""
    for depth in range(len(dataset._ops), 0, -1):
        op = dataset._ops[depth - 1]
        if isinstance(op, Skip):
            index = index + op.number
        elif isinstance(op, Shard):
            index = (index * op.num_shards + op.index) % dataset._count(depth - 1, None)
        elif isinstance(op, Repeat):
            index = index % dataset._count(depth - 1, None)
    return index


@dataclass(frozen=True, eq=False)
class Permuted(Node):
    """All elements of the first input in an order drawn at random. A permutation of the last one has the seeds."""

    name: ClassVar[str] = "permute"

    def count(self, needed: int | None) -> Count:
        return count_of(self.inputs[0], needed)

    def layout(self) -> Layout:
        return Layout.of(self.inputs[0])

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        (low, high), number = run.seed_of(1, pass_)
        op = self.inputs[1]._ops[0]
        # As the native core counts them.
        iteration = number + 1 if isinstance(op, Permute) and op.reshuffle else 0
        total = count_of(self.inputs[0], None)
        if total > _MOST:
            raise InvalidArgumentError(f"permute: {total} elements are more than is possible, {_MOST}", stage=self.name)
        for at in range(start, int(total), _CHUNK):
            index = np.empty(min(_CHUNK, int(total) - at), np.int64)
            permute(low, high, iteration, int(total), at, index)
            yield elements_at(self.inputs[0], index)
