"""Elements of several datasets, in turns chosen by numbers: the elements of another dataset, or random numbers.

The random numbers are those of NumPy's Philox (4 x 64 bits, 10 rounds, whose raw output NumPy keeps for ever): key =
the two seeds, counter = (0, number of the pass, 0, 0), the pass always 0 unless each has numbers of its own. Number i
decides element i: its upper 53 bits, as a fraction u of 1, choose the first dataset at which the weights so far, summed
up in order, are more than u of their sum. Where that dataset has ended, number i + 1 decides.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore.data._nodes.arrays import Numbers, Slices
from queuecore.data._nodes.combine import alike, general_spec
from queuecore.data._nodes.inputs import Waiting, components_of, laid_out
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, rest
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Repeat, Unknown
from queuecore.data._rows.chunks import Chunk, Failed, Objects, Piece, Rows
from queuecore.data._rows.columns import compacted, joined, typed
from queuecore.errors import InvalidArgumentError

__all__ = ["Choose", "Sample", "Seeds", "fractions"]

Array = np.ndarray[Any, Any]

_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Seeds(Node):
    """A node without elements. As the last input of another node, its shuffle keeps that node's seeds."""

    name = "seeds"
    has_elements = False

    def count(self, min_count: int | None) -> int:
        del min_count
        return 0

    def layout(self) -> Layout:
        return Layout(None)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        del run, pass_, start
        yield from ()


@dataclass(frozen=True, eq=False)
class Choose(Node):
    """Elements of several datasets, in the turns that the last input gives.

    Attributes
    ----------
    number : int
        The number of inputs that have the elements.
    stop : bool
        Whether the end of a chosen dataset ends the pass. If not, that dataset is left out.
    """

    name = "choose_from_datasets"

    number: int
    stop: bool

    def __post_init__(self) -> None:
        self.layout()

    def words(self) -> dict[str, Any]:
        return {"stop_on_empty_dataset": self.stop}

    def count(self, min_count: int | None) -> Count:
        # Where neither the choices nor any dataset have an end, there is none.
        endless = all(chain.known_count(1) and isinstance(chain.known_count(), float) for chain in self._limits)
        if not endless:
            raise Unknown
        return math.inf if min_count is None else min_count

    @property
    def _limits(self) -> tuple[Chain, ...]:
        """The inputs whose end may end the elements."""
        return self.inputs[: self.number + 1]

    def layout(self) -> Layout:
        return alike(self.inputs[: self.number], self.name)

    def spec(self) -> Any:
        return general_spec(self.inputs[: self.number], self.name)

    def choices(self, run: NodeRun, pass_: int, start: int) -> Generator[Array]:
        """Yield the numbers of the chosen datasets, from the `start`-th on."""
        chain = self.inputs[self.number]
        dtype = components_of(chain.layout)[0].dtype
        source, steps = chain.source, chain.steps
        if isinstance(source, Slices | Numbers) and len(steps) == 1 and isinstance(steps[0], Repeat):
            # Mostly a few numbers, endlessly.
            once = [
                typed(compacted(one.columns, one.first, one.n, one.rows)[0], dtype, ())
                for one in source.chunks(run, pass_, 0)
            ]
            numbers = np.concatenate([*once, np.empty(0, dtype)])
            total = chain.count(None)
            while start < total:
                n = int(min(_CHUNK, total - start))
                yield numbers[(start + np.arange(n)) % len(numbers)]
                start += n
            return
        with contextlib.closing(run.rows(self.number, pass_, start)) as chunks:
            for rows in chunks:
                column: Any = rows.columns[0]
                yield typed(column[rows.first : rows.first + rows.n], dtype, ())

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        layout = self.layout()
        skipped = np.zeros(self.number, np.int64)
        if self.stop:
            # Every choice is an element, so the choices before `start` are counted and not read.
            for part in self._checked(run, pass_, 0):
                part = part[:start]
                skipped += np.bincount(part, minlength=self.number)
                start -= len(part)
                if not start:
                    break
            else:
                return
        with contextlib.ExitStack() as stack:
            parts = []
            for index in range(self.number):
                given = laid_out(run, index, pass_, int(skipped[index]), layout, None, True)
                parts.append(Waiting(stack.enter_context(contextlib.closing(given))))
            yield from rest(self._chosen(run, pass_, int(skipped.sum()), parts), start)

    def _checked(self, run: NodeRun, pass_: int, start: int) -> Generator[Array]:
        with contextlib.closing(self.choices(run, pass_, start)) as parts:
            for part in parts:
                bad_rows = np.flatnonzero((part < 0) | (part >= self.number))
                if len(bad_rows):
                    row = int(bad_rows[0])
                    yield part[:row].astype(np.int64)
                    raise InvalidArgumentError(
                        f"Selector index out of range: choice {start + row} is {part[row]}, and there are "
                        f"{self.number} datasets",
                        stage=self.name,
                        record=start + row,
                    )
                yield part.astype(np.int64)
                start += len(part)

    def _chosen(self, run: NodeRun, pass_: int, start: int, parts: list[Waiting]) -> Generator[Chunk | Failed]:
        ended = np.zeros(self.number, bool)
        with contextlib.closing(self._checked(run, pass_, start)) as choices:
            for wanted in choices:
                part = wanted[~ended[wanted]]
                while len(part):
                    # As many as are there of all.
                    n = min(len(part), _CHUNK)
                    for index, waiting in enumerate(parts):
                        places = np.flatnonzero(part[:n] == index)
                        left = waiting.left if waiting.failed is None else 0
                        if len(places) > left:
                            n = int(places[left])
                    failed = parts[part[0]].failed
                    if failed is not None:  # it takes its turn
                        parts[part[0]].take(1)
                        yield failed
                        part = part[1:]
                    elif n:
                        yield _in_turns(parts, part[:n])
                        part = part[n:]
                    elif not parts[part[0]].fill():
                        if self.stop:
                            return
                        ended[part[0]] = True
                        part = part[part != part[0]]
                        if ended.all():
                            return


@dataclass(frozen=True, eq=False)
class Sample(Choose):
    """Elements of several datasets, in random turns.

    The inputs behind those with the elements: if there are no `weights`, one that has them as elements; and one whose
    shuffle has the seeds.

    Attributes
    ----------
    weights : tuple of float or None
        The weight of each dataset.
    rerandomize : bool
        Whether each pass draws new numbers.
    """

    name = "sample_from_datasets"

    weights: tuple[float, ...] | None
    rerandomize: bool

    def words(self) -> dict[str, Any]:
        return {**super().words(), "weights": None if self.weights is None else [one.hex() for one in self.weights]}

    def count(self, min_count: int | None) -> Count:
        if self.stop or self.weights is None:
            return super().count(min_count)
        return sum(chain.count(min_count) for chain in self.inputs[: self.number])

    @property
    def _limits(self) -> tuple[Chain, ...]:
        return self.inputs[: self.number + (self.weights is None)]

    def choices(self, run: NodeRun, pass_: int, start: int) -> Generator[Array]:
        (low, high), iteration = run.seed_of(len(self.inputs) - 1, pass_)
        if not self.rerandomize:
            iteration = 0
        random = np.random.Philox(
            key=np.array([low, high], np.uint64), counter=np.array([0, iteration, 0, 0], np.uint64)
        )
        random.advance(start // 4)  # four numbers a block
        random.random_raw(start % 4)
        if self.weights is not None:
            bounds = np.cumsum(self.weights)
            while True:
                yield _chosen_by(fractions(random, _CHUNK) * bounds[-1], bounds[None])
        with contextlib.closing(run.rows(self.number, pass_, start)) as chunks:
            component = components_of(self.inputs[self.number].layout)[0]
            for rows in chunks:
                column: Any = rows.columns[0]
                weights = typed(column[rows.first : rows.first + rows.n], component.dtype, (self.number,))
                good = np.isfinite(weights).all(axis=1) & (weights >= 0).all(axis=1) & (weights > 0).any(axis=1)
                n = rows.n if good.all() else int(good.argmin())
                bounds = np.cumsum(weights[:n], axis=1, dtype=np.float64)
                yield _chosen_by(fractions(random, n) * bounds[:, -1], bounds)
                start += n
                if n < rows.n:
                    raise InvalidArgumentError(
                        f"weights must be numbers from 0 on, not all 0; not {weights[n].tolist()} (element {start})",
                        stage=self.name,
                        record=start,
                    )


def fractions(random: np.random.Philox, n: int) -> Array:
    """Return the next `n` random numbers as fractions of 1."""
    made: Array = (np.atleast_1d(random.random_raw(n)) >> np.uint64(11)) * 2.0**-53
    return made


def _chosen_by(points: Array, bounds: Array) -> Array:
    """Return, for each point, the first index whose bound is above the point."""
    # Rounding may raise a product to the last bound; no bound is above that.
    below = np.minimum(points, np.nextafter(bounds[:, -1], 0))
    made: Array = (below[:, None] >= bounds).sum(axis=1)
    return made


def _in_turns(parts: list[Waiting], turns: Array) -> Chunk:
    """Return the next elements of several datasets, in turns of their numbers."""
    counts = np.bincount(turns, minlength=len(parts))
    order = np.empty(len(turns), np.int64)
    # As they lie behind each other, and where each goes from there.
    order[np.argsort(turns, kind="stable")] = np.arange(len(turns))
    pieces = [part.take(int(n)) for part, n in zip(parts, counts, strict=True) if n]
    if isinstance(pieces[0], list):
        flat = [element for one in pieces for element in one]
        return Objects([flat[at] for at in order.tolist()])
    if len(pieces) == 1:
        columns, first, _ = pieces[0]
        return Rows(len(turns), columns, first)
    return Rows(len(turns), joined(pieces), 0, order)
