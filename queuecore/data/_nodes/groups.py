"""Elements with the same key: windows of them as datasets, and all of them as one value."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.lazy import lazy
from queuecore._checks.usercode import arguments_of, called_at, element_error, name_of, placed
from queuecore._core.atoms.own import own_result
from queuecore._io.bad_data import is_bad_data
from queuecore._trace.symbol import Untraced
from queuecore._trace.trace import trace
from queuecore.data._nodes.arrays import Items, Slices
from queuecore.data._nodes.at_hand import at_hand
from queuecore.data._nodes.cache_store import copied
from queuecore.data._nodes.children import check_alike
from queuecore.data._nodes.filters import elements_of
from queuecore.data._nodes.inputs import objects_of
from queuecore.data._nodes.node import Node, ObjectNode
from queuecore.data._nodes.padded import plain_template
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._nodes.whole import WholeCall
from queuecore.data._plan.chain import Chain, Chained, chain_of, dataset_of
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Unknown
from queuecore.data._rows.chunks import Column, Failed, One, Piece, Rows
from queuecore.data._rows.columns import joined
from queuecore.data._rows.states import first_state, next_state
from queuecore.data._rows.values import converted, readonly
from queuecore.errors import DtypeError, InvalidArgumentError, QueueCoreError

__all__ = ["GroupByReducer", "GroupByWindow", "key_of"]

# Of datasets of windows, where the passes of the shuffles in them are numbered.
_MANY = 1 << 20
# Elements tried to find out the kind of elements.
_MOST_TRIED = 8
_RULE = "`key_func` must return a single tf.int64 tensor"


def key_of(chain: Chain, function: Any, label: str) -> WholeCall:
    """Return a user's function as one that gives the key of each element.

    Raises
    ------
    InvalidArgumentError
        If it can't be called, or is known not to return one integer.
    """
    if not callable(function):
        raise InvalidArgumentError(f"{label}: key_func must be a function, not {function!r:.60}")
    if chain.layout.components is not None:
        result = chain.made
        plain = plain_template(result)
        assemble = result.assemble if plain is None else None
        traced = trace(function, result.given, result.template if plain is None else plain, assemble=assemble)
        if not isinstance(traced, Untraced):
            component = traced.components[0]
            if traced.template != 0 or component.dtype.kind not in "iu" or component.shape != ():
                raise InvalidArgumentError(f"{label}: {_RULE}, and {name_of(function)} returns something else")
    return WholeCall(label, function)


class _Group:
    """The elements of one key that are in no window yet: rows of columns, or objects.

    Attributes
    ----------
    size : int
        How many elements make a window.
    n : int
        How many there are.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.n = 0
        self._parts: list[tuple[list[Column], int, int]] = []
        self._objects: list[Any] = []

    def add_row(self, columns: list[Column], row: int) -> None:
        """Append a row of a chunk."""
        self.n += 1
        last = self._parts[-1] if self._parts else None
        if last is not None and last[0] is columns and last[2] == row:
            self._parts[-1] = columns, last[1], row + 1
        else:
            self._parts.append((columns, row, row + 1))

    def add(self, element: Any) -> None:
        """Append an object."""
        self.n += 1
        self._objects.append(element)

    def settle(self) -> None:
        """Keep rows that wait in memory of their own, so that the chunk that they came in can be used again."""
        if self._parts:
            self._parts = [([copied(one) for one in joined(self._parts)], 0, self.n)]

    def taken(self, layout: Layout, spec: Any) -> Chain:
        """Return the elements as a chain, and keep none."""
        node: Node = (
            Items((), self._objects, spec)
            if layout.components is None
            else Slices((), Rows(self.n, joined(self._parts)), layout)
        )
        self.n, self._parts, self._objects = 0, [], []
        return Chain.of(node)


def _add(element: Any, group: _Group) -> None:
    group.add(element)


def _add_row(columns: list[Column], row: int, touched: set[_Group], group: _Group) -> None:
    group.add_row(columns, row)
    touched.add(group)


@dataclass(frozen=True, eq=False)
class GroupByWindow(Node):
    """The elements of the datasets that a function makes of windows, each of elements with the same key.

    Attributes
    ----------
    key : WholeCall
        The key of an element.
    reduce : callable
        From a key and a dataset of the elements of a window to a dataset.
    size : int or WholeCall
        How many elements make a window; a function of the key.
    """

    name = "group_by_window"

    key: WholeCall
    reduce: Callable[[Any, Any], Any]
    size: int | WholeCall

    def words(self) -> dict[str, Any]:
        size = name_of(self.size.function) if isinstance(self.size, WholeCall) else self.size
        return {"functions": [name_of(self.key.function), name_of(self.reduce)], "window_size": size}

    def label(self) -> str:
        return f"{self.name}({name_of(self.key.function)}, {name_of(self.reduce)}, {self.words()['window_size']})"

    def where(self) -> str:
        return f"Python: {name_of(self.key.function)} for each element, {name_of(self.reduce)} for each window"

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].endless(min_count)

    @lazy
    def first(self) -> Chain | None:
        """The chain that the function makes of the first element alone; `None` if there is none."""
        with contextlib.closing(self._elements(self.trial(), 0)) as elements:
            for tried, found in enumerate(elements):
                try:
                    if isinstance(found, Failed):
                        raise found.error
                    element, add = found
                    key = self.key(element, tried)
                    group = _Group(1)
                    add(group)
                    return self._reduced(key, group, tried)
                except QueueCoreError as error:
                    # It comes out where it belongs, when elements are asked for.
                    if not is_bad_data(error):
                        raise
                    if tried == _MOST_TRIED:
                        break
        return None

    def streams(self) -> int:
        """Return how many streams the input has, and the dataset of a window."""
        return super().streams() + (1 if self.first is None else self.first.streams())

    def layout(self) -> Layout:
        return Layout(None) if self.first is None else self.first.layout

    def spec(self) -> Any:
        return None if self.first is None else self.first.element_spec

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        left = start
        with contextlib.closing(self._made(run, pass_, lambda: left > 0)) as pieces:
            for piece in pieces:
                passed = min(left, piece.n)
                left -= passed
                if passed < piece.n:
                    yield piece.part(passed, piece.n) if passed else piece

    def _made(self, run: NodeRun, pass_: int, is_repeat: Callable[[], bool]) -> Generator[Piece]:
        groups: dict[int, _Group] = {}
        number = 0
        with contextlib.closing(self._elements(run, pass_)) as elements:
            for number, found in enumerate(elements):
                if isinstance(found, Failed):
                    yield from leave_out(run.skips, found.error, is_repeat())
                    continue
                element, add = found
                try:
                    key = self.key(element, number)
                    group = groups.get(key)
                    if group is None:
                        group = groups[key] = _Group(self._size_of(key, number))
                    del element
                    add(group)
                    chain = self._reduced(key, group, number) if group.n == group.size else None
                except BaseException as error:  # noqa: BLE001 - `leave_out` raises what isn't one element's
                    yield from leave_out(run.skips, error, is_repeat())
                    continue
                if chain is not None:
                    del groups[key]  # the next window of this key may have another size
                    yield from self._elements_of(run, chain, pass_ * _MANY + number % _MANY)
        for key in sorted(groups):
            number += 1
            try:
                chain = self._reduced(key, groups.pop(key), number)
            except BaseException as error:  # noqa: BLE001
                yield from leave_out(run.skips, error, is_repeat())
                continue
            yield from self._elements_of(run, chain, pass_ * _MANY + number % _MANY)

    def _elements(self, run: NodeRun, pass_: int) -> Generator[Failed | tuple[Any, Callable[[_Group], None]]]:
        """Yield each element, and what puts it into its group."""
        chain = run.input(0)
        if chain.layout.components is None:
            with contextlib.closing(run.elements(0, pass_, 0, None, True)) as elements:
                for one in elements:
                    if isinstance(one, Failed):
                        yield one
                    else:
                        yield readonly(one), functools.partial(_add, one)
            return
        result = chain.made
        with contextlib.closing(run.rows(0, pass_, 0, None, True)) as chunks:
            for rows in chunks:
                if isinstance(rows, Failed):
                    yield rows
                    continue
                columns = rows.columns
                element = elements_of(result.components, result.template, result.assemble, columns, rows.n)
                touched: set[_Group] = set()

                for row in range(rows.n):
                    yield element(row), functools.partial(_add_row, columns, row, touched)
                for group in touched:
                    group.settle()
                del rows, columns, element, touched

    def _size_of(self, key: int, number: int) -> int:
        size = self.size(np.int64(key), number) if isinstance(self.size, WholeCall) else self.size
        if size <= 0:
            raise InvalidArgumentError(
                f"Window size must be greater than zero, but got {size}. ({self.name}, key {key}, element {number})",
                stage=self.name,
                record=number,
            )
        return size

    def _reduced(self, key: int, group: _Group, number: int) -> Chain:
        chain = self.inputs[0]
        spec = chain.element_spec if chain.layout.components is None else None
        window = dataset_of(group.taken(chain.layout, spec))
        result = called_at(self.name, number, self.reduce, np.int64(key), window)
        if not isinstance(result, Chained):
            raise DtypeError(
                f"`reduce_func` must return a single tf.data.Dataset: {name_of(self.reduce)} returned {result!r:.60} "
                f"({self.name}, key {key}, element {number})",
                stage=self.name,
                record=number,
            )
        return chain_of(result)

    def _elements_of(self, run: NodeRun, chain: Chain, number: int) -> Generator[Any]:
        first = self.first
        if first is not None:
            check_alike(first, chain, self.name, number % _MANY)
        rows = self.layout().components is not None
        chunks = at_hand(chain, run, 0, rows)
        if chunks is None and rows:
            chunks = run.rows_of(chain, number, errors=True)
        elif chunks is None:
            chunks = objects_of(run.open_other(chain, number), True)
        with contextlib.closing(chunks):
            yield from chunks


@dataclass(frozen=True, eq=False)
class GroupByReducer(ObjectNode):
    """For each key, what functions make of all elements with that key; the keys rise.

    Attributes
    ----------
    key : WholeCall
        The key of an element.
    init, reduce, finalize : callable
        From a key to a first state; from a state and an element to the next one; from the last state to an element.
    """

    name = "group_by_reducer"

    key: WholeCall
    init: Callable[[Any], Any]
    reduce: Callable[[Any, Any], Any]
    finalize: Callable[..., Any]

    def words(self) -> dict[str, Any]:
        return {"functions": [name_of(one) for one in (self.key.function, self.init, self.reduce, self.finalize)]}

    def label(self) -> str:
        return f"{self.name}({', '.join(self.words()['functions'])})"

    def where(self) -> str:
        return "Python, for each element: each call needs the state of the one before it"

    def count(self, min_count: int | None) -> int:
        raise Unknown

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        skip_count = start
        states: dict[int, Any] = {}
        number = 0
        with contextlib.closing(run.elements(0, pass_, 0, None, True)) as elements:
            for number, element in enumerate(elements):
                try:
                    if isinstance(element, Failed):
                        raise element.error
                    key = self.key(readonly(element), number)
                    if key not in states:
                        states[key] = first_state(self._called(self.init, (np.int64(key),), number)[0])
                    state = states[key]
                    result = self._called(self.reduce, (state, element), number, state)
                    states[key] = next_state(state, result, "reduce_func")
                except BaseException as error:  # noqa: BLE001 - `leave_out` raises what isn't one element's
                    for failed in leave_out(run.skips, error, start > 0):
                        if skip_count:
                            skip_count -= 1
                        else:
                            yield failed
        for key in sorted(states)[skip_count:]:
            number += 1
            try:
                result = self._called(self.finalize, arguments_of(states[key]), number)[0]
            except BaseException as error:  # noqa: BLE001
                yield from leave_out(run.skips, error, False)
            else:
                yield One(result)

    def _called(self, function: Callable[..., Any], arguments: tuple[Any, ...], number: int, state: Any = None) -> Any:
        """Return what a function makes, as an element; `state`: as the state that comes after that."""
        name = name_of(function)
        try:
            result = own_result(function, arguments, state, listed=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise element_error(self.name, name, error, number) from error
        if state is not None:
            return result
        try:
            return converted(result)
        except QueueCoreError as error:
            raise placed(self.name, name, error, number) from error.__cause__
