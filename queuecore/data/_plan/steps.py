"""The steps of a dataset: the native name of each, and its effect on the number and the shape of elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks import seeds as _seeds
from queuecore._core.stream.describe import Ops
from queuecore._core.stream.marks import ShuffleCounter
from queuecore._elements.component import BYTES
from queuecore._elements.record import ArraySpec
from queuecore._ops.stage import Stage
from queuecore.data._plan.shards import UNEVEN
from queuecore.errors import InvalidArgumentError
from queuecore.ragged import Ragged

__all__ = [
    "BatchStep",
    "Count",
    "Map",
    "Permute",
    "PlannedStep",
    "Prefetch",
    "Repeat",
    "ShapedBatch",
    "Shard",
    "Shuffle",
    "ShuffleSeeds",
    "Skip",
    "Take",
    "Unknown",
]

Count = int | float
"""A number of elements: an int, or `math.inf`."""

# How many elements come from below: asked for `min_count`, it may stop counting at any number from that on. None: all.
Below = Callable[[int | None], Count]


class Unknown(Exception):
    """The number of elements is unknown before they are made."""


class PlannedStep:
    """One step. Immutable."""

    def add_to(self, ops: Ops) -> None:
        """Add the step to a native order, if it takes part in that."""
        raise NotImplementedError

    def describe(self) -> list[Any] | None:
        """Return what decides the order, as plain values; `None`: the step takes no part in it."""
        raise NotImplementedError

    def count(self, min_count: int | None, below: Below) -> Count:
        """Return the number of elements, or any number not below `min_count` once that many are certain."""
        raise NotImplementedError


@dataclass(frozen=True)
class Take(PlannedStep):
    """The first elements; -1: all."""

    number: int

    def add_to(self, ops: Ops) -> None:
        ops.take(self.number)

    def describe(self) -> list[Any]:
        return ["take", self.number]

    def count(self, min_count: int | None, below: Below) -> Count:
        if self.number < 0:
            return below(min_count)
        return min(self.number, below(self.number if min_count is None else min(self.number, min_count)))


@dataclass(frozen=True)
class Skip(PlannedStep):
    """All but the first elements; -1: none."""

    number: int

    def add_to(self, ops: Ops) -> None:
        ops.skip(self.number)

    def describe(self) -> list[Any]:
        return ["skip", self.number]

    def count(self, min_count: int | None, below: Below) -> Count:
        if self.number < 0:
            return 0
        return max(0, below(None if min_count is None else min_count + self.number) - self.number)


@dataclass(frozen=True)
class Repeat(PlannedStep):
    """All elements several times over; -1: endlessly."""

    number: int

    def add_to(self, ops: Ops) -> None:
        ops.repeat(self.number)

    def describe(self) -> list[Any]:
        return ["repeat", self.number]

    def count(self, min_count: int | None, below: Below) -> Count:
        if self.number == 0:
            return 0
        if self.number < 0:
            try:
                return math.inf if below(1) else 0
            except Unknown:  # an endless repeat of nothing is rather an oversight
                return math.inf
        once = below(min_count)
        return once if min_count is not None and once >= min_count else once * self.number


class ShuffleSeeds:
    """The state that all iterators of one shuffle share: its seed pair, and how many of its passes have begun.

    Parameters
    ----------
    pair : tuple of int
        The two seeds.
    seeded : bool
        Whether a seed of the user's decided them. If not, a saved state may bring others.
    """

    __slots__ = ("counter", "pair", "seeded")

    def __init__(self, pair: tuple[int, int], seeded: bool) -> None:
        self.pair = pair
        self.seeded = seeded
        self.counter = ShuffleCounter()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy begins with the first pass again, as a dataset does that is built anew from the same arguments.
        return ShuffleSeeds, (self.pair, self.seeded)


@dataclass(frozen=True)
class Shuffle(PlannedStep):
    """A window of `buffer_size` elements from which one is drawn at random."""

    buffer_size: int
    reshuffle: bool
    seeds: ShuffleSeeds

    @classmethod
    def make(cls, buffer_size: int, seed: Any, reshuffle: bool) -> Shuffle:
        """Return the step with the seeds of this moment."""
        return cls(buffer_size, reshuffle, ShuffleSeeds(*_seeds.resolve(seed)))

    def add_to(self, ops: Ops, pair: tuple[int, int] = (0, 0), counter: ShuffleCounter | None = None) -> None:
        ops.shuffle(self.buffer_size, pair, self.reshuffle, counter if self.reshuffle else None)

    def describe(self) -> list[Any]:
        return ["shuffle", self.buffer_size, self.reshuffle]

    def count(self, min_count: int | None, below: Below) -> Count:
        return below(min_count)


@dataclass(frozen=True)
class Permute(PlannedStep):
    """All elements of a pass in an order drawn at random."""

    reshuffle: bool
    seeds: ShuffleSeeds

    def add_to(self, ops: Ops, pair: tuple[int, int] = (0, 0), counter: ShuffleCounter | None = None) -> None:
        ops.permute(pair, self.reshuffle, counter if self.reshuffle else None)

    def describe(self) -> list[Any]:
        return ["permute", self.reshuffle]

    def count(self, min_count: int | None, below: Below) -> Count:
        # Not one comes before all of them are known.
        return below(None)


@dataclass(frozen=True)
class Shard(PlannedStep):
    """Every `num_shards`-th element, from the one at `index` on."""

    num_shards: int
    index: int
    uneven: str

    def add_to(self, ops: Ops) -> None:
        ops.shard(self.num_shards, self.index, UNEVEN.index(self.uneven))

    def describe(self) -> list[Any]:
        return ["shard", self.num_shards, self.index, self.uneven]

    def count(self, min_count: int | None, below: Below) -> Count:
        size = self.num_shards
        # Elements of the input that must be there for the last one that is needed.
        least = {"keep": self.index + 1, "pad": 1}.get(self.uneven, size)
        total = below(None if min_count is None else (min_count - 1) * size + least)
        if isinstance(total, float):
            return total
        if self.uneven == "keep":
            return (total + size - 1 - self.index) // size
        if self.uneven == "pad":
            return -(-total // size)
        shared, left = divmod(total, size)
        if self.uneven == "raise" and left and (min_count is None or shared < min_count):
            raise InvalidArgumentError(
                f"{total} elements can't be shared evenly among {size} shards: use uneven='drop' or uneven='pad', or "
                "another number of shards",
                stage="order",
            )
        return shared


@dataclass(frozen=True)
class BatchStep(PlannedStep):
    """Groups of elements, stacked."""

    batch_size: int
    drop_remainder: bool

    def add_to(self, ops: Ops) -> None:
        ops.batch(self.batch_size, self.drop_remainder)

    def describe(self) -> list[Any]:
        return ["batch", self.batch_size, self.drop_remainder]

    def count(self, min_count: int | None, below: Below) -> Count:
        # The last one may be short: one record is enough for it.
        least = self.batch_size if self.drop_remainder else 1
        total = below(None if min_count is None else (min_count - 1) * self.batch_size + least)
        if isinstance(total, float):
            return total
        return total // self.batch_size if self.drop_remainder else -(-total // self.batch_size)


@dataclass(frozen=True)
class Prefetch(PlannedStep):
    """Elements made ahead of the consumer; -1: as many as the library likes."""

    buffer_size: int

    def add_to(self, ops: Ops) -> None:
        """Add nothing: the order is the same."""

    def describe(self) -> None:
        return None

    def count(self, min_count: int | None, below: Below) -> Count:
        return below(min_count)


@dataclass(frozen=True)
class Map(PlannedStep):
    """A native stage on each element; on a device, if it is marked for that and can be done there."""

    stage: Stage
    on_device: bool = False

    def add_to(self, ops: Ops) -> None:
        ops.map()

    def describe(self) -> list[Any]:
        return ["map", repr(self.stage)]

    def count(self, min_count: int | None, below: Below) -> Count:
        return below(min_count)


@dataclass(frozen=True)
class ShapedBatch(BatchStep):
    """A batch whose arrays have another shape than stacked elements. The only batch of its stream.

    Attributes
    ----------
    words : list
        What it is, as plain values.
    changes : dict
        What the native stream takes instead of what it would without.
    specs : object
        From batch dimensions to the specification of an element.
    """

    words: list[Any]
    changes: dict[str, Any]
    specs: Callable[[tuple[int | None, ...]], Any]

    def class_of(self, spec: ArraySpec) -> type[Any]:
        """Return the class of a component, given its specification without batch dimensions."""
        ragged = self.words[0] == "dense_to_ragged_batch" and (spec.shape or ())[:1] == (None,)
        return Ragged if ragged or spec.dtype == BYTES else np.ndarray

    def describe(self) -> list[Any]:
        return [self.words[0], self.batch_size, self.drop_remainder, *self.words[1:]]
