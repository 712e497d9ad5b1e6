"""Datasets of arrays that are in memory, and of numbers."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from queuecore._checks.checks import check_int
from queuecore._checks.lazy import lazy
from queuecore._elements.component import Component
from queuecore._elements.dtypes import as_dtype, kind_of
from queuecore._elements.nests import plain
from queuecore._io.remote import RemoteStore
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count
from queuecore.data._rows.chunks import Objects, Rows
from queuecore.data._rows.columns import compacted
from queuecore.data._rows.values import readonly
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["Counter", "Items", "Numbers", "Slices"]

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Slices(Node):
    """The rows of arrays of one length.

    Attributes
    ----------
    rows : Rows
        All rows, as they lie in memory.
    given : Layout
        The components and structure of a row.
    listed_by : RemoteStore, optional
        Of names that were listed with options of a store.
    """

    name = "from_tensor_slices"
    hands_on = True

    rows: Rows
    given: Layout
    listed_by: RemoteStore | None = None

    @lazy
    def digest(self) -> str:
        """The digest of the bytes, computed on first use."""
        hasher = hashlib.blake2b(digest_size=8)
        for column in compacted(self.rows.columns, self.rows.first, self.rows.n, self.rows.rows):
            for part in column if isinstance(column, tuple) else (column,):
                if part is not None:
                    hasher.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        return hasher.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        rows = self.rows
        columns = compacted(rows.columns, rows.first, rows.n, rows.rows)
        return Slices, ((), Rows(rows.n, columns), self.given, self.listed_by)

    def lister(self) -> RemoteStore | None:
        return self.listed_by

    def words(self) -> dict[str, Any]:
        components = self.given.components or ()
        return {
            "elements": self.rows.n,
            "components": [[str(one.dtype), repr(one.shape)] for one in components],
            "digest": self.digest,
        }

    def count(self, min_count: int | None) -> int:
        del min_count
        return self.rows.n

    def layout(self) -> Layout:
        return self.given

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows]:
        del run, pass_
        if start < self.rows.n:
            yield self.rows.part(start, self.rows.n)

    @property
    def by_number(self) -> bool:
        return True

    def chosen(self, index: np.ndarray[Any, Any]) -> Rows:
        return self.rows.chosen(index)


@dataclass(frozen=True, eq=False)
class Items(Node):
    """Python objects of a list.

    Attributes
    ----------
    items : list
        The elements. Every pass hands them out again, as read-only views.
    of : object
        The specification of an element; `None` if it is unknown.
    """

    name = "from_tensors"
    hands_on = True

    items: list[Any]
    of: Any = None

    def words(self) -> dict[str, Any]:
        return {"elements": len(self.items), "of": repr(plain(self.of))}

    def count(self, min_count: int | None) -> int:
        del min_count
        return len(self.items)

    def layout(self) -> Layout:
        return Layout(None)

    def spec(self) -> Any:
        return self.of

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Objects]:
        del run, pass_
        for at in range(start, len(self.items), _CHUNK):
            yield Objects(list(map(readonly, self.items[at : at + _CHUNK])))

    @property
    def by_number(self) -> bool:
        return True

    def chosen(self, index: np.ndarray[Any, Any]) -> Objects:
        return Objects([readonly(self.items[at]) for at in index.tolist()])


@dataclass(frozen=True, eq=False)
class Numbers(Node):
    """The numbers of a range."""

    name = "range"
    hands_on = True

    numbers: range
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, arguments: tuple[SupportsIndex, ...], output_type: Any) -> Numbers:
        """Return the node for a user's arguments."""
        if not 1 <= len(arguments) <= 3:
            raise InvalidArgumentError(f"range takes 1 to 3 numbers (start, stop, step), not {len(arguments)}")
        names = ("stop",) if len(arguments) == 1 else ("start", "stop", "step")
        bounds = [check_int(one, name, -(2**63)) for one, name in zip(arguments, names, strict=False)]
        if len(bounds) == 3 and bounds[2] == 0:
            raise InvalidArgumentError("step must not be 0")
        try:
            dtype = as_dtype(output_type)
        except TypeError:
            raise DtypeError(f"output_type must be a dtype, not {output_type!r}") from None
        if kind_of(dtype) not in "iuf":
            raise DtypeError(f"output_type must be a dtype of numbers, not {dtype}")
        numbers = range(*bounds)
        if dtype.kind in "iu" and len(numbers):
            limits = np.iinfo(dtype)
            for number in (numbers[0], numbers[-1]):
                if not limits.min <= number <= limits.max:
                    raise InvalidArgumentError(f"{number} doesn't fit output_type {dtype}")
        return cls((), numbers, dtype.newbyteorder("="))

    def words(self) -> dict[str, Any]:
        return {"range": [self.numbers.start, self.numbers.stop, self.numbers.step], "dtype": str(self.dtype)}

    def label(self) -> str:
        step = f", {self.numbers.step}" if self.numbers.step != 1 else ""
        return f"range({self.numbers.start}, {self.numbers.stop}{step})"

    def count(self, min_count: int | None) -> int:
        del min_count
        return len(self.numbers)

    def layout(self) -> Layout:
        return Layout((Component(self.dtype, ()),))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows]:
        del run, pass_
        for at in range(start, len(self.numbers), _CHUNK):
            yield self.chosen(np.arange(at, min(at + _CHUNK, len(self.numbers)), dtype=np.int64))

    @property
    def by_number(self) -> bool:
        return True

    def chosen(self, index: np.ndarray[Any, Any]) -> Rows:
        return Rows(len(index), [(self.numbers.start + index * self.numbers.step).astype(self.dtype)])


@dataclass(frozen=True, eq=False)
class Counter(Node):
    """Numbers without an end, each as far from the one before; whole ones wrap."""

    name = "counter"
    hands_on = True

    start: int | float
    step: int | float
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, start: Any, step: Any, dtype: Any) -> Counter:
        """Return the node for a user's arguments."""
        try:
            native = as_dtype(dtype).newbyteorder("=")
        except TypeError:
            raise DtypeError(f"counter: dtype must be a dtype, not {dtype!r}") from None
        if kind_of(native) not in "iuf":
            raise DtypeError(f"counter: dtype must be a dtype of numbers, not {native}")
        if kind_of(native) != "f":
            limits = np.iinfo(native)
            first, far = (check_int(one, what, -(2**63)) for one, what in ((start, "start"), (step, "step")))
            if not limits.min <= first <= limits.max:
                raise InvalidArgumentError(f"start must fit {native}, and {first} doesn't")
            return cls((), first, far, native)
        try:
            return cls((), float(start), float(step), native)
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"counter: start and step must be numbers, not {start!r}, {step!r}") from None

    def words(self) -> dict[str, Any]:
        return {"counter": [self.start, self.step], "dtype": str(self.dtype)}

    def label(self) -> str:
        return f"counter({self.start}, {self.step})"

    def count(self, min_count: int | None) -> Count:
        return math.inf if min_count is None else min_count

    def layout(self) -> Layout:
        return Layout((Component(self.dtype, ()),))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows]:
        del run, pass_
        for at in itertools.count(start, _CHUNK):
            index = np.arange(at, at + _CHUNK, dtype=np.int64)
            with np.errstate(over="ignore"):
                yield Rows(_CHUNK, [(self.start + index * self.step).astype(self.dtype)])
