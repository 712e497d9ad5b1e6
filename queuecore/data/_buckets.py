"""Batches of elements of about the same length."""

from __future__ import annotations

import bisect
import contextlib
import functools
import operator
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from queuecore.data._args import check_bool, check_int
from queuecore.data._nodes import Chunk, Layout, Node, Objects, Run
from queuecore.data._ops import Count
from queuecore.data._padded import Array, Fit, Joiner, Pad, Shapes, Sides, Stack, shapes_of
from queuecore.data._source import Unknown
from queuecore.errors import DataLossError, InvalidArgumentError, PipelineError, QueueCoreError

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["buckets"]

_NAME = "bucket_by_sequence_length"


def _name_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        return _name_of(function.func)
    kind = type(function)
    return str(getattr(function, "__qualname__", kind.__qualname__))


@dataclass(frozen=True)
class Length:
    """A function of the user's, called with an element; the parts of a tuple are arguments of their own."""

    function: Callable[..., Any]

    def __call__(self, element: Any, number: int) -> int:
        try:
            made = self.function(*element) if isinstance(element, tuple) else self.function(element)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            name = _name_of(self.function)
            raise PipelineError(
                f"{_NAME}: {name} raised {type(error).__name__}: {error} (element {number})", stage=_NAME, record=number
            ) from error
        if type(made) is int:
            return made
        try:
            return operator.index(
                made.item() if isinstance(made, (np.ndarray, np.generic)) and made.size == 1 else made
            )
        except TypeError:
            raise InvalidArgumentError(
                f"{_NAME}: {_name_of(self.function)} must return an integer, not {made!r:.80} (element {number})",
                stage=_NAME,
                record=number,
            ) from None


@dataclass(frozen=True)
class Bucket:
    """What becomes of the elements of some lengths.

    Attributes
    ----------
    size : int
        How many make a batch.
    fit : Fit
        Makes arrays of an element.
    join : Joiner
        Makes a batch of them.
    """

    size: int
    fit: Fit
    join: Joiner


@dataclass(frozen=True, eq=False)
class Buckets(Node):
    """Batches of elements whose lengths lie between the same two boundaries.

    Attributes
    ----------
    length : Length
        Of an element.
    boundaries : list of int
        Where the next bucket begins.
    each : list of Bucket
        One more than boundaries.
    shapes : Shapes
        Of elements and batches.
    given : list
        The arguments, as plain values.
    closed : bool
        Whether the last bucket is to stay empty.
    drop : bool
        Whether batches that never become full are left out.
    """

    name: ClassVar[str] = _NAME

    length: Length
    boundaries: list[int]
    each: list[Bucket]
    shapes: Shapes
    given: list[Any]
    closed: bool
    drop: bool

    def words(self) -> dict[str, Any]:
        return {
            "length": _name_of(self.length.function),
            "boundaries": self.boundaries,
            "sizes": [bucket.size for bucket in self.each],
            "drop_remainder": self.drop,
            "padding": self.given,
        }

    def label(self) -> str:
        sizes = [bucket.size for bucket in self.each]
        return f"{_NAME}({_name_of(self.length.function)}, {self.boundaries}, {sizes})"

    def where(self) -> str:
        return f"Python: {_name_of(self.length.function)} for each element, stacks batches"

    def count(self, needed: int | None) -> Count:
        raise Unknown

    def layout(self) -> Layout:
        return Layout(None)

    def spec(self) -> Any:
        return self.shapes.specs((None,))

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        # Which batch has which number shows only when all lengths before it are known: they are asked for again.
        waiting: list[list[list[Array]]] = [[] for _ in self.each]
        made = 0
        with contextlib.closing(run.elements(0, pass_)) as elements:
            source = enumerate(elements)
            while True:
                try:
                    placed = self._next(run, source, made >= start)
                except BaseException:
                    # What came before is delivered first.
                    yield from self._rest(waiting, made, start)
                    raise
                if placed is None:
                    break
                index, arrays = placed
                members = waiting[index]
                members.append(arrays)
                if len(members) == self.each[index].size:
                    waiting[index] = []
                    made += 1
                    if made > start:
                        yield Objects([self.each[index].join([members], True)])
        yield from self._rest(waiting, made, start)

    def _next(self, run: Run, source: Any, told: bool) -> tuple[int, list[Array]] | None:
        # The next element and its bucket; `told`: what is left out is not known yet.
        for number, element in source:
            try:
                return self._placed(element, number)
            except QueueCoreError as error:
                if run.skips is None:
                    raise
                if told:
                    run.skips.skip(error)
        return None

    def _placed(self, element: Any, number: int) -> tuple[int, list[Array]]:
        length = self.length(element, number)
        index = bisect.bisect_right(self.boundaries, length)
        if self.closed and index == len(self.boundaries):
            raise InvalidArgumentError(
                f"{_NAME}: element {number} has the length {length}, and with pad_to_bucket_boundary all must be less "
                f"than the last boundary, {self.boundaries[-1]}",
                stage=_NAME,
                record=number,
            )
        try:
            arrays = self.each[index].fit(element)
        except DataLossError as error:
            error.args = (f"{error} (element {number})",)
            error.stage, error.record = _NAME, number
            raise
        return index, [array.copy() for array in arrays]  # it may wait for long, and would keep others with it

    def _rest(self, waiting: list[list[list[Array]]], made: int, start: int) -> Generator[Chunk]:
        if self.drop:
            return
        for bucket, members in zip(self.each, waiting, strict=True):
            if members:
                made += 1
                if made > start:
                    yield Objects([bucket.join([members], True)])


def buckets(
    dataset: Dataset,
    function: Any,
    boundaries: Sequence[Any],
    sizes: Sequence[Any],
    padded_shapes: Any,
    padding_values: Any,
    to_boundary: Any,
    no_padding: Any,
    drop: Any,
) -> Node:
    """Return the node for a user's arguments."""
    if not callable(function):
        raise InvalidArgumentError(f"{_NAME}: element_length_func must be a function of an element, not {function!r}")
    starts = [check_int(one, "a bucket boundary", -(2**63)) for one in _listed(boundaries, "bucket_boundaries")]
    counts = [check_int(one, "a bucket's batch size", 1) for one in _listed(sizes, "bucket_batch_sizes")]
    if any(after <= before for before, after in zip(starts, starts[1:], strict=False)):
        raise InvalidArgumentError(f"{_NAME}: bucket_boundaries must rise, and {starts} don't")
    if len(counts) != len(starts) + 1:
        raise InvalidArgumentError(
            f"{_NAME}: {len(starts)} boundaries make {len(starts) + 1} buckets; bucket_batch_sizes has {len(counts)}"
        )
    closed = check_bool(to_boundary, "pad_to_bucket_boundary")
    plain = check_bool(no_padding, "no_padding")
    if closed and plain:
        raise InvalidArgumentError(f"{_NAME}: no_padding and pad_to_bucket_boundary exclude each other")
    if closed and not starts:
        raise InvalidArgumentError(f"{_NAME}: pad_to_bucket_boundary needs a boundary")
    if plain and (padded_shapes is not None or padding_values is not None):
        raise InvalidArgumentError(f"{_NAME}: with no_padding there is nothing to pad to, nor with")
    shapes = shapes_of(dataset, padded_shapes, padding_values, known=not plain)
    each = []
    for index, size in enumerate(counts):
        if plain:
            each.append(Bucket(size, Fit(shapes.template, None), _stacking(shapes)))
            continue
        most = starts[index] - 1 if closed and index < len(starts) else -1
        sides: list[Sides] = [tuple(most if side < 0 else side for side in one) for one in shapes.sides]
        pads = [Pad(number, one, value) for number, (one, value) in enumerate(zip(sides, shapes.values, strict=True))]
        each.append(Bucket(size, Fit(shapes.template, sides), Joiner(shapes.template, pads)))
    given = [None] if plain else [closed, *shapes.words]
    return Buckets(
        (dataset,),
        Length(function),
        starts,
        each,
        shapes,
        given,
        closed,
        check_bool(drop, "drop_remainder"),
    )


def _stacking(shapes: Shapes) -> Joiner:
    return Joiner(shapes.template, [Stack(index, False) for index in range(len(shapes.sides))])


def _listed(values: Any, what: str) -> list[Any]:
    if isinstance(values, (str, bytes)):
        raise InvalidArgumentError(f"{_NAME}: {what} must be a list of integers, not {values!r}")
    try:
        return list(values)
    except TypeError:
        raise InvalidArgumentError(f"{_NAME}: {what} must be a list of integers, not {values!r}") from None
