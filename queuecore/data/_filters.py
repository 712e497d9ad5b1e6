"""Predicates: functions that say of each element yes or no, and what is left of a dataset by them.

A predicate that is native is computed by the stream of its input, as one more component of each element; it makes a
mask of a chunk of rows, and the rows go on without a copy. One that is not is called for each element.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from queuecore._core.pipeline import Feed
from queuecore._core.stages import KeepStep, PythonStep, Step
from queuecore._stages import Component, Stage, structure_of
from queuecore._trace import Untraced, trace
from queuecore.data._calls import StageCall, call, leave_out, name_of, raised
from queuecore.data._columns import span
from queuecore.data._nodes import Column, Layout, Node, One, Piece, Row, Rows, Run, chunk_rows
from queuecore.data._ops import Count, Map
from queuecore.data._plan import Made
from queuecore.data._source import Unknown
from queuecore.errors import InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Filter", "Predicate", "TakeWhile", "elements_of", "masked"]

_BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, eq=False)
class Predicate:
    """A function that says yes or no of each element of a dataset.

    Attributes
    ----------
    what : str
        The method that it was given to, for messages.
    function : callable or Stage
        The user's.
    native : Stage or None
        It, as a native stage that keeps all components and adds the answer.
    why : str
        Why it isn't native.
    """

    what: str
    function: Callable[..., Any] | Stage
    native: Stage | None
    why: str

    @classmethod
    def of(cls, dataset: Dataset, function: Any, what: str) -> Predicate:
        """Return a function as a predicate of a dataset's elements.

        Raises
        ------
        InvalidArgumentError
            If it is known not to return one bool, or isn't callable.
        """
        if not callable(function) and not isinstance(function, Stage):
            raise InvalidArgumentError(f"{what} takes a function of Python's or an operation, not {function!r}")
        layout = Layout.of(dataset)
        stage, why = None, "elements are Python objects or batches"
        if layout.components is not None:
            stage, why = _stage_of(dataset, function)
        if stage is not None and layout.components is not None:
            step = stage.bind(layout.components)
            if isinstance(step, PythonStep):
                stage, why = None, step.why
            elif [(one.dtype, one.shape) for one in step.outputs] != [(_BOOL, ())]:
                made = ", ".join(f"{one.dtype} of shape {one.shape}" for one in step.outputs)
                raise InvalidArgumentError(f"{what}: {_name(function)} must return one bool, not {made}")
        return cls(what, function, None if stage is None else _keeping(stage), why)

    @property
    def name(self) -> str:
        """What to call it; what a native one computes is part of that."""
        return _name(self.function) if self.native is None else f"{_name(self.function)}: {self.native!r}"

    def input(self, dataset: Dataset) -> Dataset:
        """Return what a node with this predicate reads instead of the dataset."""
        return dataset if self.native is None else dataset._with(Map(self.native))

    def __call__(self, element: Any, pass_: int, number: int) -> bool:
        """Return the answer of one that isn't native.

        Raises
        ------
        PipelineError, KeyboardInterrupt, SystemExit
            If the function raises.
        InvalidArgumentError
            If it doesn't return one bool.
        """
        if isinstance(self.function, Stage):
            made = StageCall(self.function)(element, pass_, number)[0]
        else:
            try:
                made = call(self.function, element)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                raise raised(self.what, _name(self.function), error, number) from error
        if isinstance(made, bool | np.bool_) or (
            isinstance(made, np.ndarray) and made.dtype == _BOOL and made.ndim == 0
        ):
            return bool(made)
        raise InvalidArgumentError(
            f"{self.what}: {_name(self.function)} must return one bool, not {made!r:.80} (element {number})",
            stage=self.what,
            record=number,
        )


def _name(function: Any) -> str:
    return repr(function) if isinstance(function, Stage) else name_of(function)


def _stage_of(dataset: Dataset, function: Any) -> tuple[Stage | None, str]:
    """Return a function as a native stage, or why there is none."""
    if isinstance(function, Stage):
        return function, ""
    made = dataset._source.made(dataset._stages())
    found = trace(function, made.given, made.template, assemble=made.assemble)
    return (None, str(found)) if isinstance(found, Untraced) else (found.stage, "")


def _keeping(stage: Stage) -> Stage:
    return Stage(f"and({stage!r})", functools.partial(_kept, stage))


def _kept(stage: Stage, components: tuple[Component, ...]) -> Step:
    return KeepStep(components, stage.bind(components))


def masked(run: Run, index: int, predicate: Predicate, pass_: int) -> Generator[tuple[Piece, Any]]:
    """Yield the elements of an input, and which of them a predicate says yes of.

    Parameters
    ----------
    index : int
        Of the node's inputs; that one is `Predicate.input`.

    Yields
    ------
    chunk : Rows, Row or One
        All elements in their order, but for those that are left out because of an error.
    mask : ndarray of bool, or bool
        For each; of `Rows` an array.

    Notes
    -----
    What is raised comes after all that was before it. To be closed.
    """
    dataset = run.input(index)
    if predicate.native is not None:
        with contextlib.closing(run.rows(index, pass_)) as chunks:
            for rows in chunks:
                answers: Any = rows.columns[-1]
                yield Rows(rows.n, rows.columns[:-1]), answers.reshape(-1).view(np.bool_)
    elif Layout.of(dataset).components is not None:
        with contextlib.closing(run.rows(index, pass_)) as chunks:
            yield from _masked_rows(run, dataset, chunks, predicate, pass_)
    else:
        with run.open(index, pass_) as child:
            for number, element in enumerate(child):
                try:
                    answer = predicate(element, pass_, number)
                except QueueCoreError as error:
                    leave_out(run.skips, error, False)
                else:
                    yield One(element), answer


def _masked_rows(
    run: Run, dataset: Dataset, chunks: Iterable[Rows], predicate: Predicate, pass_: int
) -> Generator[tuple[Piece, Any]]:
    made = dataset._source.made(dataset._stages())
    number = 0
    for rows in chunks:
        element = elements_of(made, rows.columns, rows.n)
        for row in range(rows.n):
            try:
                answer = predicate(element(row), pass_, number)
            except QueueCoreError as error:
                leave_out(run.skips, error, False)
            else:
                yield Row(rows.columns, row), answer
            number += 1


def elements_of(made: Made, columns: list[Column], n: int) -> Callable[[int], Any]:
    """Return what makes, of a row's number, the element as a user sees it."""
    parts: list[Any] = []
    at = 0
    for kind, dtype, shape in made.components:
        column: Any = columns[at]
        at += 1
        if kind == "fixed":
            parts.append(column.reshape(-1).view(dtype).reshape(n, *shape))
            continue
        values, ends, dims = column
        if kind == "string":
            parts.append(Ragged._of(values.view("S1"), ends))
        elif kind == "strings":
            lengths, of_lengths, _ = columns[at]
            at += 1
            splits = np.zeros(lengths.size // 8 + 1, np.int64)
            np.cumsum(lengths.view(np.int64), out=splits[1:])
            parts.append(Ragged._of(Ragged._of(values.view("S1"), splits), of_lengths // 8))
        else:
            parts.append(_Varied(values, ends, dims, dtype.base, shape if kind == "ragged" else None))
    if made.assemble is not None:
        assemble = made.assemble
        return lambda row: assemble([part[row] for part in parts], False)
    template = made.template
    return lambda row: structure_of(template, [part[row] for part in parts])


class _Varied:
    """Rows of different shapes, as they lie behind each other."""

    def __init__(self, values: Any, ends: Any, dims: Any, dtype: np.dtype[Any], inner: tuple[Any, ...] | None) -> None:
        self._values = values
        self._ends = ends
        self._dims = dims
        self._dtype = dtype
        self._inner = inner

    def __getitem__(self, row: int) -> np.ndarray[Any, Any]:
        flat = self._values[self._ends[row] : self._ends[row + 1]].view(self._dtype)
        shape = self._dims[row] if self._inner is None else (-1, *self._inner)
        made: np.ndarray[Any, Any] = flat.reshape(shape)
        return made


@dataclass(frozen=True, eq=False)
class Filter(Node):
    """The elements that a predicate says yes of. Its input is `Predicate.input`.

    Attributes
    ----------
    predicate : Predicate
        Says which.
    given : Layout
        Of the elements.
    """

    name: ClassVar[str] = "filter"

    predicate: Predicate
    given: Layout

    @classmethod
    def of(cls, dataset: Dataset, function: Any) -> Filter:
        """Return what is left of a dataset."""
        predicate = Predicate.of(dataset, function, cls.name)
        return cls((predicate.input(dataset),), predicate, Layout.of(dataset))

    def words(self) -> dict[str, Any]:
        return {"predicate": self.predicate.name}

    def label(self) -> str:
        return f"{self.name}({_name(self.predicate.function)})"

    def where(self) -> str:
        if self.predicate.native is not None:
            return "native: chooses rows"
        return f"Python, for each element: {self.predicate.why}"

    def count(self, needed: int | None) -> Count:
        raise Unknown

    def layout(self) -> Layout:
        return self.given

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def hand_in(self, run: Run, feed: Feed, pass_: int, start: int) -> bool:
        if self.predicate.native is None or self.given.components is None:
            return super().hand_in(run, feed, pass_, start)
        # Without the GIL. From the first one on, as in `chunks`.
        mask = sum(map(span, self.given.components))
        with run.open(0, pass_, 0, chunk_rows(self.inputs[0])) as child:
            return feed.choose(pass_, child, mask, start)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        # From the first one on: only the predicate knows how many come before an element.
        left = start
        with contextlib.closing(masked(run, 0, self.predicate, pass_)) as chunks:
            for chunk, mask in chunks:
                if isinstance(chunk, Rows):
                    index = np.flatnonzero(mask)
                    passed = min(left, len(index))
                    left -= passed
                    if passed < len(index):
                        yield chunk.chosen(index[passed:]) if len(index) - passed < chunk.n else chunk
                elif mask:
                    if left:
                        left -= 1
                    else:
                        yield chunk


@dataclass(frozen=True, eq=False)
class TakeWhile(Filter):
    """The elements before the first one that a predicate says no of."""

    name: ClassVar[str] = "take_while"

    def hand_in(self, run: Run, feed: Feed, pass_: int, start: int) -> bool:
        return Node.hand_in(self, run, feed, pass_, start)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        left = start
        with contextlib.closing(masked(run, 0, self.predicate, pass_)) as chunks:
            for chunk, mask in chunks:
                if not isinstance(chunk, Rows):
                    if not mask:
                        return
                    if not left:
                        yield chunk
                    left = max(left - 1, 0)
                    continue
                good = chunk.n if np.all(mask) else int(np.argmin(mask))
                if left < good:
                    yield chunk.part(left, good)
                if good < chunk.n:
                    return
                left = max(left - good, 0)
