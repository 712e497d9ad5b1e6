"""Repeats leading elements at the end so that every shard has the same length."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from queuecore._io.bad_data import Quarantine
from queuecore.data._nodes.inputs import laid_out
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.permute import by_number, elements_at
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Map, Shard
from queuecore.data._rows.chunks import Chunk, Failed, Piece
from queuecore.errors import FailedPreconditionError

__all__ = ["Padded", "padded_shard"]


@dataclass(frozen=True, eq=False)
class Padded(Node):
    """The elements of the input, then its leading elements again until their number is a multiple of `size`.

    Attributes
    ----------
    size : int
        How many shards there are.
    """

    name = "pad"

    size: int

    # The number of shards is said by the shard behind it, of which a saved place may be another one's.

    def count(self, min_count: int | None) -> Count:
        total = self.inputs[0].count(min_count)
        return total if isinstance(total, float) else total + -total % self.size

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    @property
    def by_number(self) -> bool:
        return by_number(self.inputs[0])

    def chosen(self, index: np.ndarray[Any, Any]) -> Chunk:
        return elements_at(self.inputs[0], index % max(int(self.inputs[0].count(None)), 1))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # Which elements can't be made, or are left out for that, shows only when they are read. No shard counts them.
        total = self.inputs[0].known_count() if run.skips is None else None
        failed: set[int] = set()
        if total is None or start < total:
            number = start
            for piece in self._from(run, pass_, start, run.skips):
                if isinstance(piece, Failed):
                    failed.add(number)
                number += piece.n
                yield piece
            total = number - len(failed)
            if number == start > 0:  # it has that many, or fewer
                total = sum(chunk.n for chunk in self._again(run, pass_, 0, failed))
        total = int(total)
        position, end = max(start, total), total + -total % self.size
        while position < end:
            old_position = position
            with contextlib.closing(self._again(run, pass_, position % total, failed)) as chunks:
                for chunk in chunks:
                    n = min(chunk.n, end - position)
                    yield chunk.part(0, n)
                    position += n
                    if position == end:
                        return
            if position == old_position:
                raise FailedPreconditionError(
                    f"shard: there were {total} elements, and none from number {position % total} on when they were "
                    "read again, for shards that lack one",
                    stage=self.name,
                )

    def _from(self, run: NodeRun, pass_: int, start: int, skips: Quarantine | None) -> Generator[Chunk | Failed]:
        return laid_out(run, 0, pass_, start, self.layout(), skips, True)

    def _again(self, run: NodeRun, pass_: int, start: int, failed: set[int]) -> Generator[Chunk]:
        # Yields the good elements once more, from the `start`-th of these on. `failed` has the numbers of the others,
        # whose errors were handed in.
        number = 0 if failed else start
        passed = start - number
        with contextlib.closing(self._from(run, pass_, number, _quiet(run))) as pieces:
            for piece in pieces:
                if not isinstance(piece, Failed):
                    if passed < piece.n:
                        yield piece.part(passed, piece.n)
                    passed = max(passed - piece.n, 0)
                elif number not in failed:
                    raise piece.error
                number += piece.n


def _quiet(run: NodeRun) -> Quarantine | None:
    # Elements that are left out were reported when they were first read.
    return None if run.skips is None else Quarantine()


def padded_shard(chain: Chain, number: int, index: int) -> Chain:
    """Return one of a number of shards of equal length: no native stream holds a pass's beginning until its end."""
    after = () if chain.batches else tuple(step for step in chain.steps if isinstance(step, Map))
    before = tuple(step for step in chain.steps if not (after and isinstance(step, Map)))
    padded = Padded((replace(chain, steps=before),), number)
    return Chain(padded, (Shard(number, index, "keep"), *after), chain.options)
