"""Elements whose number a user states."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.errors import FailedPreconditionError

__all__ = ["AssertCardinality"]


@dataclass(frozen=True, eq=False)
class AssertCardinality(Node):
    """The elements of the input, which must be as many as stated.

    Attributes
    ----------
    number : int or math.inf
        How many elements there must be.
    """

    name = "assert_cardinality"

    number: Count

    def words(self) -> dict[str, Any]:
        return {"cardinality": self._stated}

    @property
    def _stated(self) -> int | str:
        return "infinite" if isinstance(self.number, float) else self.number

    def label(self) -> str:
        return f"{self.name}({self._stated})"

    def count(self, min_count: int | None) -> Count:
        del min_count
        return self.number

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    @property
    def uses_up(self) -> bool:
        return self.layout().components is None

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        number = start
        rows = self.layout().components is not None
        made = (run.rows if rows else run.elements)(0, pass_, start, None, True)
        with contextlib.closing(made) as pieces:
            for piece in pieces:
                piece = piece if rows or isinstance(piece, Failed) else One(piece)
                good = piece.n if math.isinf(self.number) else min(piece.n, int(self.number) - number)
                if good > 0:
                    yield piece.part(0, good) if good < piece.n else piece
                number += piece.n
                if number > self.number:
                    raise self._wrong(f"at least {_elements(int(self.number) + 1)}")
        if number != self.number:
            raise self._wrong(f"only {_elements(number)}")

    def _wrong(self, found: str) -> FailedPreconditionError:
        expected = "an infinite number of elements" if math.isinf(self.number) else _elements(int(self.number))
        return FailedPreconditionError(
            f"Input dataset was expected to contain {expected} but contained {found}.", stage=self.name
        )


def _elements(number: int) -> str:
    return f"{number} element{'' if number == 1 else 's'}"
