"""Datasets of arrays that are in memory, and of numbers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from queuecore._stages import Component
from queuecore.data._nodes import Column, Layout, Node, Rows, Run

__all__ = ["Numbers", "Slices"]

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Slices(Node):
    """The rows of arrays of one length.

    Attributes
    ----------
    number : int
        Of rows.
    columns : list of Column
        The arrays, contiguous.
    components : tuple of Component
        Of a row.
    template : object
        Their structure.
    """

    name: ClassVar[str] = "from_tensor_slices"

    number: int
    columns: list[Column]
    components: tuple[Component, ...]
    template: Any

    def words(self) -> dict[str, Any]:
        return {"elements": self.number, "components": [[str(one.dtype), repr(one.shape)] for one in self.components]}

    def count(self, needed: int | None) -> int:
        del needed
        return self.number

    def layout(self) -> Layout:
        return Layout(self.components, self.template)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Rows]:
        del run, pass_
        if start < self.number:
            yield Rows(self.number - start, self.columns, start)


@dataclass(frozen=True, eq=False)
class Numbers(Node):
    """The numbers of a range."""

    name: ClassVar[str] = "range"

    numbers: range
    dtype: np.dtype[Any]

    def words(self) -> dict[str, Any]:
        return {"range": [self.numbers.start, self.numbers.stop, self.numbers.step], "dtype": str(self.dtype)}

    def label(self) -> str:
        step = f", {self.numbers.step}" if self.numbers.step != 1 else ""
        return f"range({self.numbers.start}, {self.numbers.stop}{step})"

    def count(self, needed: int | None) -> int:
        del needed
        return len(self.numbers)

    def layout(self) -> Layout:
        return Layout((Component(self.dtype, ()),))

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Rows]:
        del run, pass_
        for at in range(start, len(self.numbers), _CHUNK):
            part = self.numbers[at : at + _CHUNK]
            yield Rows(len(part), [np.arange(part.start, part.stop, part.step, dtype=np.int64).astype(self.dtype)])
