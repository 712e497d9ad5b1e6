"""Batches of other sizes, one after the other, again and again."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from queuecore._elements.nests import mapped
from queuecore._elements.record import ArraySpec
from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.steps import Count, Unknown
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.slices import emptied, joined_rows, number_of_rows, rows_between
from queuecore.data._rows.values import readonly
from queuecore.errors import InvalidArgumentError

__all__ = ["Rebatch", "rows_of_batches"]


def rows_of_batches(spec: Any) -> int | None:
    """Return the rows of each element, if all have as many; `None` if that isn't known."""
    sides = set()

    def side(leaf: Any) -> None:
        if isinstance(leaf, ArraySpec):
            sides.add(leaf.shape[0] if leaf.shape else None)

    mapped(side, spec)
    return sides.pop() if len(sides) == 1 else None


@dataclass(frozen=True, eq=False)
class Rebatch(ObjectNode):
    """The rows of elements, as batches of several sizes in turn.

    Attributes
    ----------
    sizes : tuple of int
        The rows of a batch, in turn; 0 is a batch of none.
    drop_remainder : bool
        Whether a last batch that isn't full is left out.
    """

    name = "rebatch"

    sizes: tuple[int, ...]
    drop_remainder: bool

    def words(self) -> dict[str, Any]:
        return {"batch_sizes": list(self.sizes), "drop_remainder": self.drop_remainder}

    def label(self) -> str:
        return f"rebatch({list(self.sizes)}, {self.drop_remainder})"

    def where(self) -> str:
        return "Python: cuts batches, and puts their rows together"

    @property
    def uses_up(self) -> bool:
        return True

    def count(self, min_count: int | None) -> Count:
        each = rows_of_batches(self.inputs[0].element_spec)
        if each is None:
            raise Unknown
        total = (
            self.inputs[0].count(None if min_count is None else min_count * max(self.sizes) // max(each, 1) + 1) * each
        )
        if isinstance(total, float):
            return math.inf
        rounds, left = divmod(total, sum(self.sizes))
        batches = rounds * len(self.sizes)
        for size in self.sizes:
            if size and (not left or (self.drop_remainder and left < size)):
                break
            left = max(left - size, 0)
            batches += 1
        return batches

    def spec(self) -> Any:
        spec = self.inputs[0].element_spec
        rows = rows_of_batches(spec)
        whole = self.drop_remainder or (rows is not None and rows % sum(self.sizes) == 0)
        side = self.sizes[0] if whole and len(set(self.sizes)) == 1 else None

        def resized(leaf: Any) -> Any:
            if not isinstance(leaf, ArraySpec) or leaf.shape is None:
                return leaf
            if not leaf.shape:
                raise InvalidArgumentError("rebatch: a scalar has no rows, and elements have a component that is one")
            return replace(leaf, shape=(side, *leaf.shape[1:]))

        return mapped(resized, spec)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        skip_count, number = start, -1
        sizes = itertools.cycle(self.sizes)
        size = next(sizes)
        parts: list[Any] = []
        have = 0
        last: Any = None
        with contextlib.closing(run.elements(0, pass_, 0, None, True)) as elements:
            while True:
                while have < size:
                    element = next(elements, None)
                    if element is None:
                        break
                    number += 1
                    error = element.error if isinstance(element, Failed) else None
                    try:
                        rows = 0 if error is not None else number_of_rows(element, self.name, number)
                    except InvalidArgumentError as wrong:
                        error, rows = wrong, 0
                    if error is not None:
                        for failed in leave_out(run.skips, error, skip_count > 0):
                            if not skip_count:
                                yield failed
                            skip_count = max(skip_count - 1, 0)
                    elif rows:
                        parts.append((readonly(element), 0, rows))
                        have += rows
                n = min(size, have)
                if n < size and (not n or self.drop_remainder):
                    return
                batch, parts = _cut(parts, n)
                have -= n
                last = batch if n else last
                if skip_count:
                    skip_count -= 1
                elif n:
                    yield One(batch)
                else:
                    yield One(emptied(self.inputs[0].element_spec) if last is None else rows_between(last, 0, 0))
                size = next(sizes)


def _cut(parts: list[Any], n: int) -> tuple[Any, list[Any]]:
    """Return the first `n` rows of some parts, and the parts of the others."""
    pieces = []
    rest = list(parts)
    while n:
        batch, first, stop = rest.pop(0)
        end = min(stop, first + n)
        pieces.append(batch if (first, end) == (0, stop) else rows_between(batch, first, end))
        n -= end - first
        if end < stop:
            rest.insert(0, (batch, end, stop))
    return (joined_rows(pieces) if pieces else None), rest
