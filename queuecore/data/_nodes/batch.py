"""Batches of elements that are Python objects."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.steps import BatchStep, Count, Map, Repeat
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.values import batched_spec, stacked
from queuecore.errors import InvalidArgumentError, ResumeMismatchError

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
    def at_a_time(self) -> int:  # type: ignore[override]
        return self.size

    @property
    def uses_up(self) -> bool:
        return True

    def count(self, min_count: int | None) -> Count:
        chain = self.inputs[0]
        batch = BatchStep(self.size, self.drop_remainder)
        return batch.count(min_count, lambda below: chain.count(below))

    def spec(self) -> Any:
        return batched_spec(self.inputs[0].element_spec, self.size if self.drop_remainder else None)

    def knows_errors(self, run: NodeRun, pass_: int) -> bool:
        return run.cuts.knows(pass_)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        group: list[Any] = []
        number = start
        end = None
        position, errors = run.cuts.first(pass_, start, self.size)
        cut_before = run.cuts.knows(pass_)  # in the state that this goes on from
        with contextlib.closing(run.elements(0, pass_, 0 if errors else position, None, True)) as elements:
            self._pass_over(run, pass_, itertools.islice(elements, position if errors else 0))
            while end is None:
                try:
                    element = next(elements)
                except BaseException as error:
                    # Of a run that is being closed it says nothing of the elements, and cuts no batch.
                    if run.stopped and not isinstance(error, StopIteration):
                        raise
                    end = element = error
                failed = end is not None or isinstance(element, Failed)
                if not failed:
                    group.append(element)
                    position += 1
                else:
                    run.used.clear()  # from here on the order of elements matters for batches
                cut = failed and not isinstance(element, StopIteration)
                full = len(group) == self.size or (
                    cut_before and not failed and run.cuts.begins(pass_, number + 1, position)
                )
                # Good elements come before the one that failed.
                if full or (failed and group and not self.drop_remainder):
                    number += 1
                    if cut:  # before the batch is handed in: a place behind it may be saved then
                        run.cuts.note(pass_, number, position, False)
                    yield self._batch(run, group, number - 1)
                if full or failed:
                    group = []
                if isinstance(element, Failed):
                    position += 1
                    number += 1
                    run.cuts.note(pass_, number, position, True)
                    yield element
        if not isinstance(end, StopIteration):
            raise end

    def _pass_over(self, run: NodeRun, pass_: int, elements: Iterable[Any]) -> None:
        errors = run.cuts.errors(pass_)
        below = self.inputs[0]
        if all(isinstance(step, Map | Repeat) for step in below.steps):
            errors = set()  # the elements have the same numbers without them
        for number, element in enumerate(elements):
            if number in errors and not isinstance(element, Failed):
                raise ResumeMismatchError(
                    f"element {number} of what is batched was an error when the state was saved, and can be made now: "
                    "so other elements follow. Go on from a state that was saved before that error",
                    stage="resume",
                    record=number,
                )

    def _batch(self, run: NodeRun, group: list[Any], number: int) -> Piece:
        if self.drop_remainder and len(group) < self.size:
            return Failed(
                ResumeMismatchError(
                    f"batch {number} was an error when the state was saved, and can be made now, but not with "
                    f"{self.size} elements: its last {len(group)} are left out",
                    stage="batch",
                    record=number,
                )
            )
        try:
            return One(stacked(group, number))
        except InvalidArgumentError as error:
            if run.skips is not None:
                raise
            return Failed(error)
