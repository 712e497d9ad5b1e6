"""Predicates: functions that say yes or no of each element, and the datasets of the elements they keep.

The stream of the input computes a native predicate, as one more component of each element; the answers become a
mask of a chunk of rows, and the rows go on without a copy. A predicate that isn't native is called for each element.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from queuecore._checks.usercode import arguments_of, called_at, name_of, running_at
from queuecore._core.steps.stages import KeepStep, PythonStep, Step
from queuecore._core.stream.describe import FIXED, RAGGED, STRING, STRINGS
from queuecore._core.stream.feed import Feed
from queuecore._core.stream.link import choose
from queuecore._core.stream.stream import Stream
from queuecore._elements.component import Component
from queuecore._elements.nests import structure_of
from queuecore._ops.stage import Stage
from queuecore._trace.symbol import Untraced
from queuecore._trace.trace import trace
from queuecore.data._nodes.calls import StageCall
from queuecore.data._nodes.map import check_function, check_keys
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.padded import plain_template
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout, NativeComponent
from queuecore.data._plan.steps import Count, Map, Unknown
from queuecore.data._rows.chunks import Column, Failed, One, Piece, Row, Rows
from queuecore.data._rows.columns import span
from queuecore.data._rows.values import readonly
from queuecore.errors import InvalidArgumentError, QueueCoreError
from queuecore.ragged import ragged_of

__all__ = ["Filter", "Predicate", "TakeWhile", "elements_of", "keeping", "masked"]

_BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, eq=False)
class Predicate:
    """A function that says yes or no of each element of a dataset.

    Attributes
    ----------
    what : str
        The method that the function was given to, for messages.
    function : callable or Stage
        The user's function.
    native : Stage or None
        The function as a native stage that keeps all components and adds the answer.
    why : str
        Why the function isn't native.
    """

    what: str
    function: Callable[..., Any] | Stage
    native: Stage | None
    why: str

    @classmethod
    def of(cls, chain: Chain, function: Any, label: str) -> Predicate:
        """Return a function as a predicate of a dataset's elements.

        Raises
        ------
        InvalidArgumentError
            If the function is known not to return one bool, or isn't callable.
        """
        if not callable(function) and not isinstance(function, Stage):
            raise InvalidArgumentError(f"{label} takes a function of Python's or an operation, not {function!r}")
        layout = chain.layout
        stage, reason = None, "elements are Python objects or batches"
        if not isinstance(function, Stage):
            check_function(chain, function, label)
        if layout.components is not None:
            stage, reason = _stage_of(chain, function, label)
        if stage is not None and layout.components is not None:
            step = stage.bind(layout.components)
            if isinstance(step, PythonStep):
                stage, reason = None, step.why
            elif [(one.dtype, one.shape) for one in step.outputs] != [(_BOOL, ())]:
                made = ", ".join(f"{one.dtype} of shape {one.shape}" for one in step.outputs)
                raise InvalidArgumentError(f"{label}: {_name(function)} must return one bool, not {made}")
        return cls(label, function, None if stage is None else keeping(stage), reason)

    @property
    def name(self) -> str:
        """The name for messages; the name of a native predicate says what it computes."""
        return _name(self.function) if self.native is None else f"{_name(self.function)}: {self.native!r}"

    def input(self, chain: Chain) -> Chain:
        """Return the chain that a node with this predicate reads instead of the dataset."""
        return chain if self.native is None else chain.then(Map(self.native))

    def __call__(self, element: Any, pass_: int, number: int) -> bool:
        """Return the answer of a predicate that isn't native.

        Raises
        ------
        PipelineError, KeyboardInterrupt, SystemExit
            If the function raises.
        InvalidArgumentError
            If it doesn't return one bool.
        """
        if isinstance(self.function, Stage):
            answer = StageCall(self.function)(element, pass_, number)[0]
        else:
            with running_at(pass_, number):
                answer = called_at(self.what, number, self.function, *arguments_of(element))
        if isinstance(answer, bool | np.bool_) or (
            isinstance(answer, np.ndarray) and answer.dtype == _BOOL and answer.ndim == 0
        ):
            return bool(answer)
        raise InvalidArgumentError(
            f"{self.what}: {_name(self.function)} must return one bool, not {answer!r:.80} (element {number})",
            stage=self.what,
            record=number,
        )


def _name(function: Any) -> str:
    return repr(function) if isinstance(function, Stage) else name_of(function)


def _stage_of(chain: Chain, function: Any, label: str) -> tuple[Stage | None, str]:
    """Return a function as a native stage, or the reason why there is none."""
    if isinstance(function, Stage):
        return function, ""
    result = chain.made
    template = plain_template(result)
    if template is None:
        outcome = trace(function, result.given, result.template, assemble=result.assemble)
    else:
        outcome = trace(function, result.given, template)
    if isinstance(outcome, Untraced):
        check_keys(chain, outcome, function, label)
        return None, str(outcome)
    # One bool in a tuple or a dict is no answer.
    return (outcome.stage, "") if outcome.template == 0 else (None, "it returns no bool")


def keeping(stage: Stage) -> Stage:
    """Return a stage that also keeps its input components, in front of its results."""
    return Stage(f"and({stage!r})", functools.partial(_kept, stage))


def _kept(stage: Stage, components: tuple[Component, ...]) -> Step:
    return KeepStep(components, stage.bind(components))


def masked(run: NodeRun, index: int, predicate: Predicate, pass_: int) -> Generator[tuple[Piece, Any]]:
    """Yield the elements of an input, and which of them a predicate keeps.

    Parameters
    ----------
    index : int
        Index among the node's inputs; that input is `Predicate.input`.

    Yields
    ------
    chunk : Rows, Row, One or Failed
        All elements in their order, except those that are left out because of an error.
    mask : ndarray of bool, or bool
        The answer for each element; an array for `Rows`.

    Notes
    -----
    An error is raised after everything that came before it. The caller must close the generator.
    """
    chain = run.input(index)
    if predicate.native is not None:
        with contextlib.closing(run.rows(index, pass_, 0, None, True)) as chunks:
            for rows in chunks:
                if isinstance(rows, Failed):
                    yield rows, True
                    continue
                answers: Any = rows.columns[-1]
                yield Rows(rows.n, rows.columns[:-1]), answers.reshape(-1).view(np.bool_)
    elif chain.layout.components is not None:
        with contextlib.closing(run.rows(index, pass_, 0, None, True)) as chunks:
            yield from _masked_rows(run, chain, chunks, predicate, pass_)
    else:
        with contextlib.closing(run.elements(index, pass_, 0, None, True)) as elements:
            for number, element in enumerate(elements):
                if isinstance(element, Failed):
                    yield element, True
                    continue
                try:
                    answer = predicate(readonly(element), pass_, number)
                except QueueCoreError as error:
                    yield from ((failed, True) for failed in leave_out(run.skips, error, False))
                else:
                    yield One(element), answer


def _masked_rows(
    run: NodeRun, chain: Chain, chunks: Iterable[Rows | Failed], predicate: Predicate, pass_: int
) -> Generator[tuple[Piece, Any]]:
    result = chain.made
    number = 0
    for rows in chunks:
        if isinstance(rows, Failed):
            number += 1
            yield rows, True
            continue
        element = elements_of(result.components, result.template, result.assemble, rows.columns, rows.n)
        for row in range(rows.n):
            try:
                answer = predicate(element(row), pass_, number)
            except QueueCoreError as error:
                yield from ((failed, True) for failed in leave_out(run.skips, error, False))
            else:
                yield Row(rows.columns, row), answer
            number += 1


def elements_of(
    components: list[NativeComponent],
    template: Any,
    assemble: Callable[[list[Any], bool], Any] | None,
    columns: list[Column],
    n: int,
) -> Callable[[int], Any]:
    """Return a function from a row's number to the element as a user sees it, read-only."""
    parts: list[Any] = []
    index = 0
    for kind, dtype, shape in components:
        column: Any = columns[index]
        index += 1
        if kind == FIXED:
            parts.append(_locked(column.reshape(-1).view(dtype).reshape(n, *shape)))
            continue
        values, ends, dims = column
        values = _locked(values.view())
        if kind == STRING:
            parts.append(ragged_of(values.view("S1"), ends))
        elif kind == STRINGS:
            lengths, of_lengths, _ = columns[index]
            index += 1
            splits = np.zeros(lengths.size // 8 + 1, np.int64)
            np.cumsum(lengths.view(np.int64), out=splits[1:])
            parts.append(ragged_of(ragged_of(values.view("S1"), splits), of_lengths // 8))
        else:
            parts.append(_Varied(values, ends, dims, dtype.base, shape if kind == RAGGED else None))
    if assemble is not None:
        return lambda row: assemble([part[row] for part in parts], False)
    return lambda row: structure_of(template, [part[row] for part in parts])


def _locked(view: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view.setflags(write=False)
    return view


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
    """The elements that a predicate keeps. The input is `Predicate.input`.

    Attributes
    ----------
    predicate : Predicate
        Decides which elements are kept.
    given : Layout
        Of the elements.
    """

    name = "filter"

    predicate: Predicate
    given: Layout

    @classmethod
    def of(cls, chain: Chain, function: Any) -> Filter:
        """Return the node for a dataset and a user's function."""
        predicate = Predicate.of(chain, function, cls.name)
        return cls((predicate.input(chain),), predicate, chain.layout)

    def words(self) -> dict[str, Any]:
        return {"predicate": self.predicate.name}

    def label(self) -> str:
        return f"{self.name}({_name(self.predicate.function)})"

    def where(self) -> str:
        if self.predicate.native is not None:
            return "native: chooses rows"
        return f"Python, for each element: {self.predicate.why}"

    def count(self, min_count: int | None) -> Count:
        raise Unknown

    def layout(self) -> Layout:
        return self.given

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    @property
    def uses_up(self) -> bool:
        return self.given.components is None

    def hand_in(self, run: NodeRun, feed: Feed, pass_: int, start: int) -> bool:
        if self.predicate.native is None or self.given.components is None or feed.errors_before(pass_):
            return super().hand_in(run, feed, pass_, start)
        # Without the GIL. From the first one on, as in `chunks`.
        mask = sum(map(span, self.given.components))
        with run.open(0, pass_, 0, self.inputs[0].chunk_rows(run.budget)) as child:
            return choose(feed, pass_, cast(Stream, child), mask, start)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # From the first element on: only the predicate knows how many come before an element.
        skip_count = start
        with contextlib.closing(masked(run, 0, self.predicate, pass_)) as chunks:
            for chunk, mask in chunks:
                if isinstance(chunk, Rows):
                    index = np.flatnonzero(mask)
                    passed = min(skip_count, len(index))
                    skip_count -= passed
                    if passed < len(index):
                        yield chunk.chosen(index[passed:]) if len(index) - passed < chunk.n else chunk
                elif mask:
                    if skip_count:
                        skip_count -= 1
                    else:
                        yield chunk


@dataclass(frozen=True, eq=False)
class TakeWhile(Filter):
    """The elements before the first one that a predicate rejects."""

    name = "take_while"

    def hand_in(self, run: NodeRun, feed: Feed, pass_: int, start: int) -> bool:
        return Node.hand_in(self, run, feed, pass_, start)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        skip_count = start
        with contextlib.closing(masked(run, 0, self.predicate, pass_)) as chunks:
            for chunk, mask in chunks:
                if not isinstance(chunk, Rows):
                    if not mask:
                        return
                    if not skip_count:
                        yield chunk
                    skip_count = max(skip_count - 1, 0)
                    continue
                good = chunk.n if np.all(mask) else int(np.argmin(mask))
                if skip_count < good:
                    yield chunk.part(skip_count, good)
                if good < chunk.n:
                    return
                skip_count = max(skip_count - good, 0)
