"""Batches of elements that are Python objects."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.run import Run
from queuecore.data._plan.steps import Batch, Count
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.values import batched_spec, stacked
from queuecore.errors import InvalidArgumentError

__all__ = ["ObjectBatch"]


@dataclass(frozen=True, eq=False)
class ObjectBatch(ObjectNode):
    """Batches of elements that are Python objects."""

    name = "batch"

    size: int
    drop_remainder: bool

    def words(self) -> dict[str, Any]:
        return {"batch_size": self.size, "drop_remainder": self.drop_remainder}

    def label(self) -> str:
        return f"batch({self.size}, {self.drop_remainder})"

    def where(self) -> str:
        return "Python: NumPy stacks elements that are Python objects"

    @property
    def uses_up(self) -> bool:
        return True

    def count(self, needed: int | None) -> Count:
        chain = self.inputs[0]
        batch = Batch(self.size, self.drop_remainder)
        return batch.count(needed, lambda below: chain.count(below))

    def spec(self) -> Any:
        return batched_spec(self.inputs[0].element_spec, self.size if self.drop_remainder else None)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        group: list[Any] = []
        number = start
        end = None
        with contextlib.closing(run.elements(0, pass_, start * self.size, None, True)) as elements:
            while end is None:
                try:
                    element = next(elements)
                except BaseException as error:
                    end = element = error
                failed = end is not None or isinstance(element, Failed)
                if not failed:
                    group.append(element)
                else:
                    run.used.clear()  # from here on the order of elements matters for batches
                # Good elements come before the one that failed.
                if len(group) == self.size or (failed and group and not self.drop_remainder):
                    yield self._batch(run, group, number)
                    number += 1
                if len(group) == self.size or failed:
                    group = []
                if isinstance(element, Failed):
                    yield element
        if not isinstance(end, StopIteration):
            raise end

    def _batch(self, run: Run, group: list[Any], number: int) -> Piece:
        try:
            return One(stacked(group, number))
        except InvalidArgumentError as error:
            if run.skips is not None:
                raise
            return Failed(error)
