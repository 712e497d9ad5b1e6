"""Batches of elements of about the same length."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from queuecore._checks.checks import check_bool, check_int
from queuecore._checks.usercode import name_of
from queuecore._core.stream.describe import FIXED
from queuecore._ops.stage import Stage
from queuecore._trace.symbol import Untraced
from queuecore._trace.trace import trace
from queuecore.data._nodes.bucket_rows import Shelves, dims_of, rows_can_be_stacked
from queuecore.data._nodes.filters import elements_of, keeping
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.padded import (
    Array,
    Fit,
    Joiner,
    RowPad,
    Shapes,
    Sides,
    Stack,
    leaves_of,
    plain_template,
    shapes_of,
)
from queuecore.data._nodes.run import NodeRun, rows_of
from queuecore.data._nodes.whole import WholeCall
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout, NativeComponent
from queuecore.data._plan.steps import Count, Map
from queuecore.data._rows.chunks import Chunk, Column, Failed, Objects
from queuecore.data._rows.values import batched_spec, readonly
from queuecore.errors import DataLossError, InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged, Sparse

__all__ = ["buckets"]

_NAME = "bucket_by_sequence_length"
# Rows of a chunk: about as many as wait in all buckets, so that no batch waits long for rows that it doesn't need.
_LEAST_ROWS = 32


@dataclass(frozen=True)
class Sorted:
    """The way in which elements that lie as rows of columns are sorted into buckets.

    Attributes
    ----------
    components : list of tuple
        The components of the rows, as their stream has them.
    template : object
        The structure of an element over these components.
    native : Stage or None
        The length function, as a stage that computes a further component.
    dtype : numpy.dtype or None
        The dtype of that component.
    builtin : bool
        Whether the length function is ``len``, on elements of one component.
    why : str
        Why the length function is neither native nor built in.
    """

    components: list[NativeComponent]
    template: Any
    native: Stage | None
    dtype: np.dtype[Any] | None
    builtin: bool
    why: str

    @classmethod
    def of(cls, chain: Chain, function: Callable[..., Any]) -> Sorted | None:
        """Return how a dataset's elements are sorted; `None` if they don't lie as rows."""
        if chain.layout.components is None:
            return None
        result = chain.made
        template = plain_template(result)
        if template is None or not rows_can_be_stacked(result.components):
            return None
        kind, _, shape = result.components[0]
        if function is len and template == 0 and (kind != FIXED or shape):
            return cls(result.components, template, None, None, True, "")
        outcome = trace(function, result.given, template)
        if isinstance(outcome, Untraced):
            return cls(result.components, template, None, None, False, str(outcome))
        component = outcome.components[0]
        fits = (
            component.dtype.kind in "biu"
            and component.dtype != np.uint64
            and component.shape is not None
            and not set(component.shape) - {1}
        )
        if outcome.template != 0 or not fits:
            return cls(result.components, template, None, None, False, "it returns no integer")
        return cls(result.components, template, outcome.stage, component.dtype, False, "")

    @property
    def leaves(self) -> list[int]:
        """The index of the component of each leaf of an element."""
        return list(leaves_of(self.template))

    def lengths(self, columns: list[Column], n: int) -> Array | None:
        """Return the lengths of rows, if they can be computed without calling Python."""
        kind, _, shape = self.components[0]
        if self.dtype is not None:
            last: Any = columns[-1]
            lengths: Array = last.reshape(-1).view(self.dtype)
            return lengths.astype(np.int64)
        if not self.builtin:
            return None
        if kind == FIXED:
            return np.full(n, shape[0])
        dims = dims_of(columns[0], self.components[0])
        return np.diff(columns[0][1]) if dims is None else dims[:, 0]


@dataclass(frozen=True)
class Bucket:
    """A bucket: the batches of elements of some lengths.

    Attributes
    ----------
    size : int
        How many elements make a batch.
    fit : Fit
        Makes arrays of an element.
    join : Joiner
        Makes a batch of such arrays.
    """

    size: int
    fit: Fit
    join: Joiner


class _Ended(Exception):  # noqa: N818 - it is raised again as what it holds
    """The end of rows because of an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass(frozen=True, eq=False)
class Buckets(Node):
    """Batches of elements whose lengths lie between the same two boundaries.

    Attributes
    ----------
    length : WholeCall
        The length function.
    sorted : Sorted or None
        How rows are sorted; `None` if elements are examined one by one.
    boundaries : list of int
        The first length of every bucket but the first one.
    each : list of Bucket
        The buckets, one more than boundaries.
    shapes : Shapes
        The shapes of elements and batches.
    given : list
        The user's arguments, as plain values.
    closed : bool
        Whether the last bucket must stay empty.
    drop : bool
        Whether batches that never become full are dropped.
    """

    name = _NAME

    length: WholeCall
    sorted: Sorted | None
    boundaries: list[int]
    each: list[Bucket]
    shapes: Shapes
    given: list[Any]
    closed: bool
    drop: bool

    def words(self) -> dict[str, Any]:
        native = None if self.sorted is None else self.sorted.native
        name = name_of(self.length.function)
        return {
            "length": name if native is None else f"{name}: {native!r}",
            "boundaries": self.boundaries,
            "sizes": [bucket.size for bucket in self.each],
            "drop_remainder": self.drop,
            "padding": self.given,
        }

    def label(self) -> str:
        sizes = [bucket.size for bucket in self.each]
        return f"{_NAME}({name_of(self.length.function)}, {self.boundaries}, {sizes})"

    def where(self) -> str:
        if self.sorted is None:
            return f"Python: {name_of(self.length.function)} for each element, stacks batches"
        how = f"lengths, for each element: {self.sorted.why}" if self.sorted.why else "native: lengths"
        return f"Python: stacks batches, of many rows at a time; {how}"

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].endless(min_count)

    def layout(self) -> Layout:
        return Layout(None)

    def spec(self) -> Any:
        spec = self.inputs[0].element_spec
        return self.shapes.specs((None,)) if self.given != [None] or spec is None else batched_spec(spec, None)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk | Failed]:
        if self.sorted is None:
            yield from self._one_by_one(run, pass_, start)
            return
        sizes = [bucket.size for bucket in self.each]
        joins = [bucket.join for bucket in self.each]
        shelves = Shelves(self.sorted.components, self.sorted.leaves, sizes, joins, start)
        rows = min(self.inputs[0].chunk_rows(run.budget), max(sum(sizes), _LEAST_ROWS))
        with contextlib.closing(rows_of(run.open(0, pass_, 0, rows), True)) as chunks:
            try:
                yield from self._rows(run, chunks, shelves, start)
            except _Ended as end:
                # The elements before it are delivered first.
                if not self.drop:
                    yield from shelves.rest()
                raise end.error from end.error.__cause__
        if not self.drop:
            yield from shelves.rest()

    def _failed(self, error: BaseException, rest: Generator[Chunk]) -> Generator[Chunk | Failed]:
        # Batches before an error are delivered first, unless they must wait for whole batches.
        if not self.drop:
            yield from rest
        yield Failed(error)

    def _rows(self, run: NodeRun, chunks: Generator[Any], shelves: Shelves, start: int) -> Generator[Chunk | Failed]:
        assert self.sorted is not None
        number = 0
        while True:
            try:
                chunk = next(chunks, None)
            except Exception as error:
                raise _Ended(error) from None
            if chunk is None:
                return
            if isinstance(chunk, Failed):
                number += 1
                yield from self._failed(chunk.error, shelves.rest())
                continue
            n, columns = chunk.n, chunk.columns
            own_columns = columns if self.sorted.native is None else columns[:-1]
            element = elements_of(self.sorted.components, self.sorted.template, None, own_columns, n)
            lengths, index, errors = self._indices(run, element, columns, n, number)
            first = 0
            for row in np.flatnonzero(self._bad(own_columns, index, errors)).tolist():
                yield from shelves.add(own_columns, index, first, row)
                first = row + 1
                misfit = errors.get(row) or self._misfit(element(row), int(lengths[row]), int(index[row]), number + row)
                if not isinstance(misfit, Exception):
                    raise misfit
                if run.skips is None:
                    yield from self._failed(misfit, shelves.rest())
                    continue
                if not isinstance(misfit, QueueCoreError):
                    raise _Ended(misfit)
                try:
                    if shelves.made >= start:
                        run.skips.skip(misfit)
                except Exception as refused:
                    raise _Ended(refused) from None
            yield from shelves.add(own_columns, index, first, n)
            number += n
            del chunk, columns, own_columns, element  # they keep memory that the next one may want

    def _indices(
        self, run: NodeRun, element: Callable[[int], Any], columns: list[Column], n: int, number: int
    ) -> tuple[Sequence[int] | Array, Array, dict[int, BaseException]]:
        """Return the lengths of rows, their buckets, and the errors of some rows, up to an error that ends it all."""
        assert self.sorted is not None
        known = self.sorted.lengths(columns, n)
        if known is not None:
            return known, np.searchsorted(np.array(self.boundaries, np.int64), known, side="right"), {}
        lengths = [0] * n
        index = np.zeros(n, np.int64)
        errors: dict[int, BaseException] = {}
        for row in range(n):
            try:
                lengths[row] = self.length(element(row), number + row)
                index[row] = bisect.bisect_right(self.boundaries, lengths[row])
            except BaseException as error:
                errors[row] = error
                if not isinstance(error, Exception if run.skips is None else QueueCoreError):
                    break
        return lengths, index, errors

    def _bad(self, columns: list[Column], index: Array, errors: dict[int, BaseException]) -> Array:
        """Return which rows fit no bucket."""
        assert self.sorted is not None
        is_bad = index == len(self.boundaries) if self.closed else np.zeros(len(index), bool)
        is_bad[list(errors)] = True
        for leaf, at in enumerate(self.sorted.leaves):
            dims = dims_of(columns[at], self.sorted.components[at])
            if dims is None or self.each[0].fit.sides is None:
                continue
            most = np.array([(bucket.fit.sides or [])[leaf] for bucket in self.each], np.int64)
            if (most >= 0).any():
                most[most < 0] = np.iinfo(np.int64).max
                is_bad |= (dims > most[index]).any(1)
        return is_bad

    def _misfit(self, element: Any, length: int, index: int, number: int) -> Exception:
        """Return the error of an element that fits no bucket."""
        try:
            self._placed(element, length, index, number)
        except QueueCoreError as error:
            return error
        raise AssertionError

    def _one_by_one(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk | Failed]:
        # Which batch has which number shows only when all lengths before it are known: they are asked for again.
        waiting: list[list[list[Array]]] = [[] for _ in self.each]
        count = 0
        with contextlib.closing(run.elements(0, pass_, 0, None, True)) as elements:
            source = enumerate(elements)
            while True:
                try:
                    placement = self._next(run, source, count >= start)
                except BaseException:
                    # The elements before it are delivered first.
                    yield from self._rest(waiting, count, start)
                    raise
                if placement is None:
                    break
                if isinstance(placement, Failed):
                    yield from self._failed(placement.error, self._rest(waiting, count, start))
                    if not self.drop:
                        count += sum(map(bool, waiting))
                        waiting = [[] for _ in self.each]
                    continue
                index, arrays = placement
                members = waiting[index]
                members.append(arrays)
                if len(members) == self.each[index].size:
                    waiting[index] = []
                    count += 1
                    if count > start:
                        yield Objects([self.each[index].join([members], True)])
        yield from self._rest(waiting, count, start)

    def _next(self, run: NodeRun, source: Any, skips_due: bool) -> tuple[int, list[Array]] | Failed | None:
        # The next element and its bucket; `skips_due`: elements that are left out are not yet reported.
        for number, element in source:
            if isinstance(element, Failed):
                return element
            try:
                length = self.length(readonly(element), number)
                index = bisect.bisect_right(self.boundaries, length)
                arrays = self._placed(element, length, index, number)
                # It may wait for long, and would keep others with it.
                return index, [array if isinstance(array, (Ragged, Sparse)) else array.copy() for array in arrays]
            except QueueCoreError as error:
                if run.skips is None:
                    return Failed(error)
                if skips_due:
                    run.skips.skip(error)
        return None

    def _placed(self, element: Any, length: int, index: int, number: int) -> list[Array]:
        if self.closed and index == len(self.boundaries):
            raise InvalidArgumentError(
                "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries): "
                f"{_NAME}: element {number} has the length {length}, and the last boundary is {self.boundaries[-1]}",
                stage=_NAME,
                record=number,
            )
        try:
            return self.each[index].fit(element)
        except DataLossError as error:
            error.args = (f"{error} (element {number})",)
            error.stage, error.record = _NAME, number
            raise

    def _rest(self, waiting: list[list[list[Array]]], count: int, start: int) -> Generator[Chunk]:
        if self.drop:
            return
        for bucket, members in zip(self.each, waiting, strict=True):
            if members:
                count += 1
                if count > start:
                    yield Objects([bucket.join([members], True)])


class BucketPadding(NamedTuple):
    """The arguments of `Dataset.bucket_by_sequence_length` that say how elements of a bucket become alike."""

    padded_shapes: Any
    padding_values: Any
    to_boundary: Any
    none: Any


def buckets(
    chain: Chain, function: Any, boundaries: Sequence[Any], sizes: Sequence[Any], padding: BucketPadding, drop: Any
) -> Node:
    """Return the node for a user's arguments."""
    if not callable(function):
        raise InvalidArgumentError(f"{_NAME}: element_length_func must be a function of an element, not {function!r}")
    starts = [
        check_int(boundary, "a bucket boundary", -(2**63)) for boundary in _listed(boundaries, "bucket_boundaries")
    ]
    counts = [check_int(size, "a bucket's batch size", 1) for size in _listed(sizes, "bucket_batch_sizes")]
    if any(after <= before for before, after in zip(starts, starts[1:], strict=False)):
        raise InvalidArgumentError(f"{_NAME}: bucket_boundaries must rise, and {starts} don't")
    if len(counts) != len(starts) + 1:
        raise InvalidArgumentError(
            f"{_NAME}: {len(starts)} boundaries make {len(starts) + 1} buckets; bucket_batch_sizes has {len(counts)}"
        )
    closed = check_bool(padding.to_boundary, "pad_to_bucket_boundary")
    plain = check_bool(padding.none, "no_padding")
    if closed and plain:
        raise InvalidArgumentError(f"{_NAME}: no_padding and pad_to_bucket_boundary exclude each other")
    if closed and not starts:
        raise InvalidArgumentError(f"{_NAME}: pad_to_bucket_boundary needs a boundary")
    if plain and (padding.padded_shapes is not None or padding.padding_values is not None):
        raise InvalidArgumentError(f"{_NAME}: with no_padding there is nothing to pad to, nor with")
    shapes = shapes_of(chain, padding.padded_shapes, padding.padding_values, takes_shapes=not plain)
    buckets = []
    for index, size in enumerate(counts):
        if plain:
            buckets.append(Bucket(size, Fit(shapes.template, None), _stacking(shapes)))
            continue
        most = starts[index] - 1 if closed and index < len(starts) else -1
        sides: list[Sides] = [tuple(most if side < 0 else side for side in shape) for shape in shapes.known]
        pads = [
            RowPad(number, shape, value) for number, (shape, value) in enumerate(zip(sides, shapes.values, strict=True))
        ]
        buckets.append(Bucket(size, Fit(shapes.template, sides), Joiner(shapes.template, pads)))
    arguments = [None] if plain else [closed, *shapes.words]
    rows = Sorted.of(chain, function)
    return Buckets(
        (chain if rows is None or rows.native is None else chain.then(Map(keeping(rows.native))),),
        WholeCall(_NAME, function),
        rows,
        starts,
        buckets,
        shapes,
        arguments,
        closed,
        check_bool(drop, "drop_remainder"),
    )


def _stacking(shapes: Shapes) -> Joiner:
    return Joiner(shapes.template, [Stack(index, 0) for index in range(len(shapes.known))])


def _listed(values: Any, subject: str) -> list[Any]:
    if isinstance(values, (str, bytes)):
        raise InvalidArgumentError(f"{_NAME}: {subject} must be a list of integers, not {values!r}")
    try:
        return list(values)
    except TypeError:
        raise InvalidArgumentError(f"{_NAME}: {subject} must be a list of integers, not {values!r}") from None
