"""Datasets beside each other, behind each other, and taken apart."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from queuecore._record import ArraySpec, DatasetSpec
from queuecore._stages import Component, structure_of
from queuecore.data._columns import agreed, side_by_side, sliced, span
from queuecore.data._elements import flattened
from queuecore.data._nodes import Chunk, Column, Layout, Node, One, Piece, Rows, Run, rest, rows_of
from queuecore.data._ops import Batch, Count, Map, Permute, Prefetch, Repeat, Shuffle
from queuecore.data._plan import _native
from queuecore.data._reading import Waiting, components_of, count_of, known_count, laid_out
from queuecore.data._source import Unknown
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Concatenate", "Enumerate", "Unbatch", "Zip", "alike", "general_spec"]


@dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements of several datasets, side by side.

    Attributes
    ----------
    template : object
        The structure of the inputs, over their numbers.
    """

    name: ClassVar[str] = "zip"

    template: Any

    def words(self) -> dict[str, Any]:
        return {"structure": repr(self.template)}

    def count(self, needed: int | None) -> Count:
        return min(count_of(dataset, needed) for dataset in self.inputs)

    def layout(self) -> Layout:
        layouts = [Layout.of(dataset) for dataset in self.inputs]
        if any(one.components is None for one in layouts):
            return Layout(None)
        return side_by_side(layouts, self.template)

    def spec(self) -> Any:
        return structure_of(self.template, [dataset.element_spec for dataset in self.inputs])

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        if self.layout().components is None:
            with contextlib.closing(self._elements(run, pass_, start)) as elements:
                yield from map(One, elements)
            return
        with contextlib.ExitStack() as stack:
            parts = [
                Waiting(stack.enter_context(contextlib.closing(run.rows(index, pass_, start))))
                for index in range(len(self.inputs))
            ]
            # One after the other, so that an error of one comes only where those before it have an element.
            while all(part.fill() for part in parts):
                n = min(part.left for part in parts)
                yield Rows(n, [column for part in parts for column in sliced(*part.take(n))])

    def _elements(self, run: Run, pass_: int, start: int) -> Generator[Any]:
        with contextlib.ExitStack() as stack:
            parts = [
                stack.enter_context(contextlib.closing(run.elements(index, pass_, start)))
                for index in range(len(self.inputs))
            ]
            for elements in zip(*parts, strict=False):
                yield structure_of(self.template, elements)


@dataclass(frozen=True, eq=False)
class Enumerate(Node):
    """Elements with their numbers."""

    name: ClassVar[str] = "enumerate"

    first: int

    def words(self) -> dict[str, Any]:
        return {"start": self.first}

    def count(self, needed: int | None) -> Count:
        return count_of(self.inputs[0], needed)

    def layout(self) -> Layout:
        layout = Layout.of(self.inputs[0])
        if layout.components is None:
            return layout
        return side_by_side([Layout((Component(np.dtype(np.int64), ()),)), layout], (0, 1))

    def spec(self) -> Any:
        return ArraySpec((), np.dtype(np.int64)), self.inputs[0].element_spec

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        number = self.first + start
        if self.layout().components is None:
            with contextlib.closing(run.elements(0, pass_, start)) as elements:
                yield from (One((np.int64(at), element)) for at, element in enumerate(elements, number))
            return
        with contextlib.closing(run.rows(0, pass_, start)) as chunks:
            for rows in chunks:
                numbers = np.arange(number, number + rows.n, dtype=np.int64)
                number += rows.n
                yield Rows(rows.n, [numbers, *sliced(rows.columns, rows.first, rows.first + rows.n)])


def alike(datasets: Sequence[Dataset], what: str) -> Layout:
    """Return the layout of elements that come out of any of several datasets.

    Raises
    ------
    DtypeError
        If structures or dtypes differ.
    """
    layouts = [Layout.of(dataset) for dataset in datasets]
    if all(one.components is not None for one in layouts):
        return agreed(layouts, what)
    general_spec(datasets, what)
    return Layout(None)


def general_spec(datasets: Sequence[Dataset], what: str) -> Any:
    """Return the specification that the elements of all datasets meet; `None`: nobody knows.

    Raises
    ------
    DtypeError
        If structures or dtypes differ.
    """
    specs = [dataset.element_spec for dataset in datasets]
    if any(one is None for one in specs):
        return None
    made = specs[0]
    for spec in specs[1:]:
        made = _general(made, spec, f"{what}: elements must be alike, not {specs[0]!r} and {spec!r}")
    return made


def _general(one: Any, other: Any, problem: str) -> Any:
    if one is None or other is None:
        return None
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: _general(inner, other[key], problem) for key, inner in one.items()}
    if (
        isinstance(one, tuple)
        and isinstance(other, tuple)
        and not isinstance(one, ArraySpec)
        and len(one) == len(other)
    ):
        return tuple(_general(a, b, problem) for a, b in zip(one, other, strict=True))
    if isinstance(one, DatasetSpec) and isinstance(other, DatasetSpec):
        return DatasetSpec(_general(one.element_spec, other.element_spec, problem))
    if not (isinstance(one, ArraySpec) and isinstance(other, ArraySpec) and one.dtype == other.dtype):
        raise DtypeError(problem)
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return one if one.shape == other.shape else ArraySpec(None, one.dtype)
    return ArraySpec(tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True)), one.dtype)


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    """The elements of a dataset, and then those of another one."""

    name: ClassVar[str] = "concatenate"

    def count(self, needed: int | None) -> Count:
        first = count_of(self.inputs[0], needed)
        if needed is not None and first >= needed:
            return first
        return first + count_of(self.inputs[1], None if needed is None else needed - int(first))

    def layout(self) -> Layout:
        return alike(self.inputs, self.name)

    def spec(self) -> Any:
        return general_spec(self.inputs, self.name)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        layout = self.layout()
        before = math.inf if not start else None if run.skips is not None else known_count(self.inputs[0])
        if before is None or start < before:
            # Where nobody knows the first one's end, its elements are counted.
            skip = 0 if before is None else start
            start -= skip
            with contextlib.closing(laid_out(run, 0, pass_, skip, layout)) as chunks:
                for chunk in chunks:
                    if start < chunk.n:
                        yield chunk.part(start, chunk.n) if start else chunk
                    start = max(start - chunk.n, 0)
        else:
            start -= int(before)
        yield from laid_out(run, 1, pass_, start, layout)


@dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """The rows of elements, as elements."""

    name: ClassVar[str] = "unbatch"

    def __post_init__(self) -> None:
        self.layout()

    @property
    def _batched(self) -> bool:
        return _levels(self.inputs[0]) == 1 and not _of_objects(self.inputs[0])

    def count(self, needed: int | None) -> Count:
        dataset = self.inputs[0]
        if self._batched:
            ops = dataset._ops
            at = next(index for index, op in enumerate(ops) if isinstance(op, Batch))
            batch = ops[at]
            if isinstance(batch, Batch) and all(isinstance(op, Map | Prefetch) for op in ops[at + 1 :]):
                if not batch.drop_remainder:
                    return dataset._count(at, needed)
                total = dataset._count(
                    at, None if needed is None else -(-needed // batch.batch_size) * batch.batch_size
                )
                return total if isinstance(total, float) else total // batch.batch_size * batch.batch_size
            raise Unknown
        rows = {_leading(one) for one in Layout.of(dataset).components or ()}
        if len(rows) != 1 or (each := rows.pop()) is None:
            raise Unknown
        if each == 0:
            return 0
        return count_of(dataset, None if needed is None else -(-needed // each)) * each

    def layout(self) -> Layout:
        dataset = self.inputs[0]
        if self._batched:
            made = dataset._source.made(dataset._stages())
            return Layout(made.given, made.template, made.structure)
        layout = Layout.of(dataset)
        if layout.components is None or layout.structure is not None:
            self.spec()  # says what can't be
            return Layout(None)
        sides = {_leading(one) for one in layout.components} - {None}
        if len(sides) > 1:
            shown = [_leading(one) for one in layout.components]
            raise InvalidArgumentError(f"unbatch: all components must have the same first dimension, not {shown}")
        return Layout(tuple(_row_of(one) for one in layout.components), layout.template)

    def spec(self) -> Any:
        return _spec_of_rows(self.inputs[0].element_spec)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        layout = self.layout()
        dataset = self.inputs[0]
        if layout.components is None:
            with contextlib.closing(self._elements(run, pass_)) as elements:
                yield from map(One, itertools.islice(elements, start, None))
            return
        if self._batched:
            chunks, start = self._records(run, pass_, start)
        else:
            each = _leading(components_of(Layout.of(dataset))[0])
            whole = start // each if each else 0
            start -= whole * (each or 0)
            chunks = self._rows(run, pass_, whole)
        yield from rest(chunks, start)

    def _records(self, run: Run, pass_: int, start: int) -> tuple[Generator[Chunk], int]:
        # Batches lie as the records that they are made of.
        ops = self.inputs[0]._ops
        at, batch = next((index, op) for index, op in enumerate(ops) if isinstance(op, Batch))
        whole = 0
        if batch.drop_remainder or not any(isinstance(op, Repeat | Shuffle | Permute) for op in ops[at + 1 :]):
            whole = start // batch.batch_size  # none before these is short
        return rows_of(run.open(0, pass_, whole)), start - whole * batch.batch_size

    def _rows(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        components = components_of(Layout.of(self.inputs[0]))
        element = start
        with contextlib.closing(run.rows(0, pass_, start)) as chunks:
            for rows in chunks:
                columns = sliced(rows.columns, rows.first, rows.first + rows.n)
                parts = []
                for component in components:
                    width = span(component)
                    parts.append((component, columns[:width]))
                    columns = columns[width:]
                lengths = [_lengths(component, own, rows.n) for component, own in parts]
                differ = np.zeros(rows.n, bool)
                for other in lengths[1:]:
                    differ |= other != lengths[0]
                good = int(differ.argmax()) if differ.any() else rows.n
                made: list[Column] = []
                for (component, own), counts in zip(parts, lengths, strict=True):
                    made += _rows_in(component, sliced(own, 0, good), counts[:good])
                yield Rows(int(lengths[0][:good].sum()), made)
                if good < rows.n:
                    raise _unequal([int(one[good]) for one in lengths], element + good)
                element += rows.n

    def _elements(self, run: Run, pass_: int) -> Generator[Any]:
        with contextlib.closing(run.elements(0, pass_)) as elements:
            for number, element in enumerate(elements):
                template, parts = flattened(element, lambda leaf, where: leaf)
                for part in parts:
                    if not isinstance(part, list | Ragged) and not np.ndim(part):
                        raise InvalidArgumentError(f"unbatch: a scalar has no rows (element {number})")
                lengths = [len(part) for part in parts]
                if min(lengths) != max(lengths):
                    raise _unequal(lengths, number)
                for row in range(lengths[0]):
                    yield structure_of(template, [part[row] for part in parts])


def _unequal(lengths: list[int], element: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"unbatch: all components must have the same first dimension, not {lengths} (element {element})",
        stage="unbatch",
        record=element,
    )


def _levels(dataset: Dataset) -> int:
    return sum(isinstance(op, Batch) for op in dataset._ops)


def _of_objects(dataset: Dataset) -> bool:
    return isinstance(dataset._source, Node) and dataset._source.layout().components is None


def _leading(component: Component) -> int | None:
    """Return the first dimension of elements, where all have the same."""
    return None if not component.shape or component.ragged else component.shape[0]


def _row_of(component: Component) -> Component:
    """Return the component of the rows of elements."""
    shape = component.shape
    if not shape:
        raise InvalidArgumentError("unbatch: a scalar has no rows, and elements have a component that is one")
    return Component(component.dtype, shape[1:], component.nbytes, component.name)


def _spec_of_rows(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {key: _spec_of_rows(inner) for key, inner in spec.items()}
    if isinstance(spec, ArraySpec):
        if spec.shape is None:
            return spec
        if not spec.shape:
            raise InvalidArgumentError("unbatch: a scalar has no rows, and elements have a component that is one")
        return ArraySpec(spec.shape[1:], spec.dtype)
    return tuple(_spec_of_rows(inner) for inner in spec) if isinstance(spec, tuple) else None


def _lengths(component: Component, columns: list[Column], n: int) -> np.ndarray[Any, Any]:
    """Return how many rows each of `n` elements has."""
    kind, dtype, shape = _native(component, 0)
    if kind == "fixed":
        return np.full(n, shape[0])
    if kind == "strings":
        _, ends, dims = columns[1]
        lengths: np.ndarray[Any, Any] = np.diff(ends) // 8
        return lengths
    _, ends, dims = columns[0]
    made: np.ndarray[Any, Any] = np.diff(ends) // dtype.itemsize if kind == "ragged" else dims[:, 0]
    return made


def _rows_in(component: Component, columns: list[Column], lengths: np.ndarray[Any, Any]) -> list[Column]:
    """Return the rows in elements as columns of rows: no copy of values."""
    kind, dtype, shape = _native(component, 0)
    if kind == "fixed":
        column: Any = columns[0]
        row_bytes = dtype.itemsize * math.prod(shape[1:])
        return [column.reshape(-1).view(np.uint8).reshape(len(column) * shape[0], row_bytes)]
    data, ends, dims = columns[0]
    if kind == "strings":
        numbers, places, _ = columns[1]
        made = np.full(1 + int(lengths.sum()), ends[0])
        np.cumsum(numbers[places[0] : places[-1]].view(np.int64), out=made[1:])
        made[1:] += ends[0]
        return [(data, made, None)]
    values = data[ends[0] : ends[-1]]
    rest = shape[1:] if kind == "dense" else shape
    if None not in rest:
        row_bytes = dtype.itemsize * (1 if kind == "ragged" else math.prod(rest))
        return [values.reshape(int(lengths.sum()), row_bytes)]
    sides = np.repeat(dims[:, 1:], lengths, axis=0)
    made = np.zeros(len(sides) + 1, np.int64)
    np.cumsum(sides.prod(axis=1) * dtype.itemsize, out=made[1:])
    return [(values, made, np.ascontiguousarray(sides))]
