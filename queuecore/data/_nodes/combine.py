"""Datasets beside each other, behind each other, and taken apart."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from queuecore._core.stream.describe import DENSE, FIXED, RAGGED, STRINGS
from queuecore._elements.component import Component
from queuecore._elements.nests import apart, plain, structure_of
from queuecore._elements.record import ArraySpec
from queuecore._io.bad_data import Quarantine, Told
from queuecore.data._nodes.inputs import Waiting, components_of, laid_out
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, leave_out, rest, rows_of
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout, native_of
from queuecore.data._plan.steps import BatchStep, Count, Map, Permute, Prefetch, Repeat, Shuffle, Unknown
from queuecore.data._rows.chunks import Column, Failed, One, Piece, Rows
from queuecore.data._rows.columns import agreed, side_by_side, sliced, span
from queuecore.data._rows.slices import number_of_rows, row_of
from queuecore.data._rows.values import general
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["Concatenate", "Enumerate", "Unbatch", "Zip", "alike", "general_spec"]

_END = object()
_INT64_END = 2**63


@dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements of several datasets, side by side.

    Attributes
    ----------
    template : object
        The structure of an element over the numbers of the inputs.
    """

    name = "zip"
    hands_on = True

    template: Any

    def words(self) -> dict[str, Any]:
        return {"structure": repr(plain(self.template))}

    def count(self, min_count: int | None) -> Count:
        return min(chain.count(min_count) for chain in self.inputs)

    def layout(self) -> Layout:
        layouts = [chain.layout for chain in self.inputs]
        if any(one.components is None for one in layouts):
            return Layout(None)
        return side_by_side(layouts, self.template)

    def spec(self) -> Any:
        return structure_of(self.template, [chain.element_spec for chain in self.inputs])

    @property
    def uses_up(self) -> bool:
        return self.layout().components is None

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        pieces_of = self._rows if self.layout().components is not None else self._elements
        if run.skips is None:
            yield from pieces_of(run, pass_, start, None)
            return
        # An element left out of one input is left out of all. How many are left out before a place shows only when they
        # are made: so the pass begins at 0.
        with contextlib.closing(pieces_of(run, pass_, 0, Told(run.skips))) as pieces:
            for piece in pieces:
                if isinstance(piece, Failed):
                    leave_out(run.skips, piece.error, start > 0)
                elif start < piece.n:
                    yield piece.part(start, piece.n)
                    start = 0
                else:
                    start -= piece.n

    def _rows(self, run: NodeRun, pass_: int, start: int, skips: Quarantine | None) -> Generator[Piece]:
        with contextlib.ExitStack() as stack:
            parts = [
                Waiting(stack.enter_context(contextlib.closing(run.rows(index, pass_, start, skips, True))))
                for index in range(len(self.inputs))
            ]
            while True:
                # Inputs are filled one after another: an error of one comes only where those before it have an element.
                # Each turn takes an element of each input.
                failed, waiting = None, []
                for part in parts:
                    if part.fill():
                        waiting.append(part)
                        failed = failed or part.failed
                    elif failed is None:
                        return
                if failed is not None:
                    for part in waiting:
                        part.take(1)
                    yield failed
                    continue
                n = min(part.left for part in parts)
                yield Rows(n, [column for part in parts for column in sliced(*part.take(n))])

    def _elements(self, run: NodeRun, pass_: int, start: int, skips: Quarantine | None) -> Generator[Piece]:
        with contextlib.ExitStack() as stack:
            parts = [
                stack.enter_context(contextlib.closing(run.elements(index, pass_, start, skips, True)))
                for index in range(len(self.inputs))
            ]
            while True:
                failed, elements = None, []
                for part in parts:
                    element = next(part, _END)
                    if element is not _END:
                        elements.append(element)
                        failed = failed or (element if isinstance(element, Failed) else None)
                    elif failed is None:
                        return
                yield failed or One(structure_of(self.template, elements))


@dataclass(frozen=True, eq=False)
class Enumerate(Node):
    """Elements with their numbers."""

    name = "enumerate"
    hands_on = True

    first: int

    def words(self) -> dict[str, Any]:
        return {"start": self.first}

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].count(min_count)

    def layout(self) -> Layout:
        layout = self.inputs[0].layout
        if layout.components is None:
            return layout
        return side_by_side([Layout((Component(np.dtype(np.int64), ()),)), layout], (0, 1))

    def spec(self) -> Any:
        return ArraySpec((), np.dtype(np.int64)), self.inputs[0].element_spec

    @property
    def uses_up(self) -> bool:
        return True

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # An element that can't be made has a number too.
        number = self.first + start
        if self.layout().components is None:
            with contextlib.closing(run.elements(0, pass_, start, None, True)) as elements:
                for element in elements:
                    self._check(number, 1)
                    yield element if isinstance(element, Failed) else One((np.int64(number), element))
                    number += 1
            return
        with contextlib.closing(run.rows(0, pass_, start, None, True)) as chunks:
            for rows in chunks:
                if isinstance(rows, Failed):
                    number += 1
                    yield rows
                    continue
                n = min(rows.n, _INT64_END - number)
                if n:
                    numbers = number + np.arange(n, dtype=np.int64)
                    yield Rows(n, [numbers, *sliced(rows.columns, rows.first, rows.first + n)])
                number += n
                self._check(number, rows.n - n)

    @staticmethod
    def _check(number: int, n: int) -> None:
        if n and number + n > _INT64_END:
            raise InvalidArgumentError(f"enumerate: an element's number, {number}, doesn't fit into 64 bits")


def alike(chains: Sequence[Chain], label: str) -> Layout:
    """Return the layout that fits the elements of each of several datasets.

    Raises
    ------
    DtypeError
        If structures or dtypes differ.
    """
    layouts = [chain.layout for chain in chains]
    if all(one.components is not None for one in layouts):
        return agreed(layouts, label)
    general_spec(chains, label)
    return Layout(None)


def general_spec(chains: Sequence[Chain], label: str) -> Any:
    """Return the specification that the elements of all datasets meet; `None` if it is unknown.

    Raises
    ------
    DtypeError
        If structures or dtypes differ.
    """
    specs = [chain.element_spec for chain in chains]
    if any(one is None for one in specs):
        return None
    spec = specs[0]
    for other in specs[1:]:
        try:
            spec = general(spec, other)
        except DtypeError:
            raise DtypeError(f"{label}: elements must be alike, not {specs[0]!r} and {other!r}") from None
    return spec


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    """The elements of datasets, one after the other.

    Attributes
    ----------
    fits : Layout
        What all elements consist of.
    """

    name = "concatenate"
    hands_on = True

    fits: Layout

    @staticmethod
    def of(first: Chain, other: Chain) -> Concatenate:
        """Return the elements of one chain, and then of another.

        A dataset that others are appended to one by one stays one node, with one thread.
        """
        inputs: tuple[Chain, ...] = (first,)
        if isinstance(first.source, Concatenate) and not first.steps and first.options is Chain.options:
            inputs = first.source.inputs
        return Concatenate((*inputs, other), alike([first, other], Concatenate.name))

    def count(self, min_count: int | None) -> Count:
        total: Count = 0
        for at, chain in enumerate(self.inputs):
            try:
                total += chain.count(None if min_count is None else min_count - int(total))
            except Unknown:
                if min_count is None and any(one.known_count() == math.inf for one in self.inputs[at + 1 :]):
                    return math.inf
                raise
            if total == math.inf or (min_count is not None and total >= min_count):
                break
        return total

    def layout(self) -> Layout:
        return self.fits

    def spec(self) -> Any:
        return general_spec(self.inputs, self.name)

    @property
    def uses_up(self) -> bool:
        return True

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        last = len(self.inputs) - 1
        for index, chain in enumerate(self.inputs):
            known_count = None
            if start and index < last and run.skips is None:
                known_count = chain.known_count()
                if known_count is not None and start >= known_count:
                    start -= int(known_count)
                    continue
            # Where a dataset's end is unknown, its elements are counted.
            counted = bool(start) and index < last and known_count is None
            with contextlib.closing(
                laid_out(run, index, pass_, 0 if counted else start, self.fits, None, True)
            ) as chunks:
                if not counted:
                    start = 0
                for chunk in chunks:
                    if start < chunk.n:
                        yield chunk.part(start, chunk.n) if start else chunk
                    start = max(start - chunk.n, 0)


@dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """The rows of elements, as elements."""

    name = "unbatch"
    hands_on = True

    def __post_init__(self) -> None:
        self.layout()

    @property
    def _batched(self) -> bool:
        return _levels(self.inputs[0]) == 1 and not _of_objects(self.inputs[0])

    def count(self, min_count: int | None) -> Count:
        chain = self.inputs[0]
        if self._batched:
            steps = chain.steps
            depth = next(index for index, step in enumerate(steps) if isinstance(step, BatchStep))
            batch = steps[depth]
            if isinstance(batch, BatchStep) and all(isinstance(step, Map | Prefetch) for step in steps[depth + 1 :]):
                if not batch.drop_remainder:
                    return chain.count(min_count, depth)
                total = chain.count(
                    None if min_count is None else -(-min_count // batch.batch_size) * batch.batch_size, depth
                )
                return total if isinstance(total, float) else total // batch.batch_size * batch.batch_size
            raise Unknown
        rows = {_leading(one) for one in chain.layout.components or ()}
        if len(rows) != 1 or (each := rows.pop()) is None:
            raise Unknown
        if each == 0:
            return 0
        return chain.count(None if min_count is None else -(-min_count // each)) * each

    def layout(self) -> Layout:
        chain = self.inputs[0]
        if self._batched:
            result = chain.made
            return Layout(result.given, result.template, result.structure)
        layout = chain.layout
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

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        layout = self.layout()
        chain = self.inputs[0]
        if layout.components is None:
            with contextlib.closing(self._elements(run, pass_)) as elements:
                yield from itertools.islice(elements, start, None)
            return
        if self._batched:
            chunks, start = self._records(run, pass_, start)
        else:
            each = _leading(components_of(chain.layout)[0])
            whole = start // each if each else 0
            start -= whole * (each or 0)
            chunks = self._rows(run, pass_, whole)
        yield from rest(chunks, start)

    def _records(self, run: NodeRun, pass_: int, start: int) -> tuple[Generator[Any], int]:
        # Batches lie as the records that they are made of.
        steps = self.inputs[0].steps
        at, batch = next((index, step) for index, step in enumerate(steps) if isinstance(step, BatchStep))
        whole = 0
        if batch.drop_remainder or not any(isinstance(step, Repeat | Shuffle | Permute) for step in steps[at + 1 :]):
            whole = start // batch.batch_size  # none before these is short
        return rows_of(run.open(0, pass_, whole), True), start - whole * batch.batch_size

    def _rows(self, run: NodeRun, pass_: int, start: int) -> Generator[Any]:
        components = components_of(self.inputs[0].layout)
        element = start
        with contextlib.closing(run.rows(0, pass_, start, None, True)) as chunks:
            for rows in chunks:
                if isinstance(rows, Failed):
                    element += 1
                    yield rows
                    continue
                columns = sliced(rows.columns, rows.first, rows.first + rows.n)
                parts = []
                for component in components:
                    width = span(component)
                    parts.append((component, columns[:width]))
                    columns = columns[width:]
                lengths = [_lengths(component, column, rows.n) for component, column in parts]
                differ = np.zeros(rows.n, bool)
                for other in lengths[1:]:
                    differ |= other != lengths[0]
                position = 0
                for bad_row in [*np.flatnonzero(differ).tolist(), rows.n]:
                    made: list[Column] = []
                    for (component, column), counts in zip(parts, lengths, strict=True):
                        made += _rows_in(component, sliced(column, position, bad_row), counts[position:bad_row])
                    yield Rows(int(lengths[0][position:bad_row].sum()), made)
                    if bad_row < rows.n:
                        error = _unequal([int(one[bad_row]) for one in lengths], element + bad_row)
                        if run.skips is not None:
                            raise error
                        yield Failed(error)
                    position = bad_row + 1
                element += rows.n

    def _elements(self, run: NodeRun, pass_: int) -> Generator[Piece]:
        with contextlib.closing(run.elements(0, pass_, 0, None, True)) as elements:
            for number, element in enumerate(elements):
                if isinstance(element, Failed):
                    yield element
                    continue
                try:
                    rows = number_of_rows(element, self.name, number)
                except InvalidArgumentError as error:
                    if run.skips is not None:
                        raise
                    yield Failed(error)
                    continue
                for row in range(rows):
                    yield One(row_of(element, row))


def _unequal(lengths: list[int], element: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"unbatch: all components must have the same first dimension, not {lengths} (element {element})",
        stage="unbatch",
        record=element,
    )


def _levels(chain: Chain) -> int:
    return sum(isinstance(step, BatchStep) for step in chain.steps)


def _of_objects(chain: Chain) -> bool:
    return isinstance(chain.source, Node) and chain.source.layout().components is None


def _leading(component: Component) -> int | None:
    """Return the first dimension of elements, if all have the same one."""
    return None if not component.shape or component.ragged else component.shape[0]


def _row_of(component: Component) -> Component:
    """Return the component of the rows of elements."""
    shape = component.shape
    if not shape:
        raise InvalidArgumentError("unbatch: a scalar has no rows, and elements have a component that is one")
    return Component(component.dtype, shape[1:], component.nbytes, component.name)


def _spec_of_rows(spec: Any) -> Any:
    split = apart(spec)
    if split is not None:
        return split[1](list(map(_spec_of_rows, split[0])))
    if isinstance(spec, ArraySpec):
        if spec.shape is None:
            return spec
        if not spec.shape:
            raise InvalidArgumentError("unbatch: a scalar has no rows, and elements have a component that is one")
        return replace(spec, shape=spec.shape[1:])
    return None


def _lengths(component: Component, columns: list[Column], n: int) -> np.ndarray[Any, Any]:
    """Return how many rows each of `n` elements has."""
    kind, dtype, shape = native_of(component, 0)
    if kind == FIXED:
        return np.full(n, shape[0])
    if kind == STRINGS:
        _, ends, dims = columns[1]
        lengths: np.ndarray[Any, Any] = np.diff(ends) // 8
        return lengths
    _, ends, dims = columns[0]
    made: np.ndarray[Any, Any] = np.diff(ends) // dtype.itemsize if kind == RAGGED else dims[:, 0]
    return made


def _rows_in(component: Component, columns: list[Column], lengths: np.ndarray[Any, Any]) -> list[Column]:
    """Return the rows in elements as columns of rows: no copy of values."""
    kind, dtype, shape = native_of(component, 0)
    if kind == FIXED:
        column: Any = columns[0]
        row_bytes = dtype.itemsize * math.prod(shape[1:])
        return [column.reshape(-1).view(np.uint8).reshape(len(column) * shape[0], row_bytes)]
    data, ends, dims = columns[0]
    if kind == STRINGS:
        numbers, places, _ = columns[1]
        row_ends = np.full(1 + int(lengths.sum()), ends[0])
        np.cumsum(numbers[places[0] : places[-1]].view(np.int64), out=row_ends[1:])
        row_ends[1:] += ends[0]
        return [(data, row_ends, None)]
    values = data[ends[0] : ends[-1]]
    rest = shape[1:] if kind == DENSE else shape
    if None not in rest:
        row_bytes = dtype.itemsize * (1 if kind == RAGGED else math.prod(rest))
        return [values.reshape(int(lengths.sum()), row_bytes)]
    sides = np.repeat(dims[:, 1:], lengths, axis=0)
    row_ends = np.zeros(len(sides) + 1, np.int64)
    np.cumsum(sides.prod(axis=1) * dtype.itemsize, out=row_ends[1:])
    return [(values, row_ends, np.ascontiguousarray(sides))]
