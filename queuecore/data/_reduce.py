"""A dataset to one value: a function over its elements, native where it can be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from queuecore._core.fold import Fold
from queuecore._core.stages import Step
from queuecore._stages import BYTES, Component, structure_of
from queuecore._trace import Untraced, trace
from queuecore.data._elements import flattened
from queuecore.data._nodes import Layout, chunk_rows, streams
from queuecore.data._ops import Batch
from queuecore.data._padded import plain_template
from queuecore.data._structures import called, mapped, raised
from queuecore.errors import DtypeError, InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged, Sparse

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["reduced"]

# A state of other shapes than before may become one of yet others: as often as this, and it isn't native.
_MOST_SHAPES = 4
# Of a length that may change.
_TEXTS = {"S": BYTES, "U": np.dtype("U")}


def reduced(dataset: Dataset, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
    """Return the last state; see `Dataset.reduce`."""
    if not callable(reduce_func):
        raise InvalidArgumentError(f"reduce_func must be callable, not {reduce_func!r}")
    state = mapped(_leaf, initial_state)
    label = f"reduce_func {getattr(reduce_func, '__name__', type(reduce_func).__name__)}"
    steps = _steps(dataset, state, reduce_func)
    if steps:
        return _folded(dataset, state, steps, label)
    with iter(dataset) as elements:
        for element in elements:
            state = _next(state, called(label, reduce_func, state, element), "")
    return state


def _steps(dataset: Dataset, initial: Any, function: Callable[[Any, Any], Any]) -> list[Step]:
    """Return a function natively: what it does to the first states, and to all others; empty: it can't be."""
    layout = Layout.of(dataset)
    template, leaves = flattened(initial, lambda leaf, where: leaf)
    if not leaves or not layout.components or not all(map(_is_native, leaves)):
        return []
    made = dataset._source.made(dataset._stages())
    count = len(leaves)
    plain = plain_template(made)

    def assemble(parts: list[Any], batched: bool) -> Any:
        own = parts[count:]
        element = made.assemble(own, batched) if plain is None and made.assemble else structure_of(plain, own)
        return structure_of(template, parts[:count]), element

    def finish(made: Any) -> Any:
        return _numbered(initial, made)

    state = tuple(Component(leaf.dtype, leaf.shape) for leaf in leaves)
    steps: list[Step] = []
    while len(steps) < _MOST_SHAPES:
        found = trace(function, state + made.given, 0, assemble=assemble, unpack=True, finish=finish)
        if isinstance(found, Untraced) or found.template != template:
            return []
        after = found.components
        if [one.dtype for one in after] != [leaf.dtype for leaf in leaves]:
            return []
        if any(one.shape is None or None in one.shape for one in after):
            return []
        steps.append(found.stage.bind(state + made.given))
        if [one.shape for one in after] == [one.shape for one in state]:
            return steps
        state = tuple(Component(one.dtype, one.shape) for one in after)
    return []


def _is_native(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.isnative and leaf.dtype.kind in "biufc"


def _numbered(state: Any, made: Any) -> Any:
    """Return what a traced function made, in the order of the state, and numbers of Python's as `_next` does it."""
    if type(state) is dict and type(made) is dict and made.keys() == state.keys():
        return {key: _numbered(inner, made[key]) for key, inner in state.items()}
    if type(state) is tuple and type(made) is tuple and len(made) == len(state):
        return tuple(_numbered(inner, part) for inner, part in zip(state, made, strict=True))
    if isinstance(state, np.ndarray | np.generic) and _takes(state.dtype, made):
        return _number(state.dtype, made)
    if type(state) is dict or type(state) is tuple or type(made) in (dict, tuple):
        raise _other("", "the state's structure", made)
    return made


def _folded(dataset: Dataset, initial: Any, steps: list[Step], label: str) -> Any:
    """Return the last state, natively made."""
    columns = dataset._source.made(dataset._stages()).components
    template, state = flattened(initial, lambda leaf, where: np.asarray(leaf))
    left = list(steps)
    fold = Fold(left.pop(0), state, columns)
    budget = (dataset._options.memory_budget or 0) // streams(dataset)
    with iter(dataset._with(Batch(chunk_rows(dataset, budget), False))) as chunks:
        while True:
            rows: Any = None  # which gives the memory back before more is read
            try:
                n, rows = chunks.next_columns()
            except StopIteration:
                break
            at = 0
            try:
                while left and at < n:
                    fold.run(rows, at, at + 1)
                    fold = Fold(left.pop(0), fold.state, columns)
                    at += 1
                fold.run(rows, at, n)
            except QueueCoreError as error:
                raise raised(label, error) from error
    return structure_of(template, [part[()] for part in fold.state])


def _leaf(value: Any) -> Any:
    """Return a part of a state as an array or a NumPy scalar; what isn't made of arrays as it is."""
    if isinstance(value, (bytes, Ragged, Sparse)):  # an array would cut off zero bytes at the end of bytes
        return value
    try:
        return np.asarray(value)[()]
    except ValueError as error:
        raise InvalidArgumentError(f"a state must be made of arrays, dicts and tuples: {error}") from error


def _type(leaf: Any) -> tuple[str, np.dtype[Any]]:
    if isinstance(leaf, bytes):
        return "array", BYTES
    if isinstance(leaf, (Ragged, Sparse)):
        return type(leaf).__name__, leaf.dtype if isinstance(leaf, Ragged) else leaf.values.dtype
    dtype = np.asarray(leaf).dtype
    return "array", _TEXTS.get(dtype.kind, dtype)


def _next(state: Any, made: Any, where: str) -> Any:
    """Return what a function made of a state, as the state after it."""
    if isinstance(state, dict):
        if isinstance(made, dict) and made.keys() == state.keys():
            return {key: _next(inner, made[key], f"{where}[{key!r}]") for key, inner in state.items()}
        raise _other(where, f"a dict with the keys {list(state)}", made)
    if isinstance(state, tuple):
        if isinstance(made, tuple) and len(made) == len(state):
            return tuple(
                _next(inner, part, f"{where}[{index}]")
                for index, (inner, part) in enumerate(zip(state, made, strict=True))
            )
        raise _other(where, f"a tuple of {len(state)}", made)
    if isinstance(made, (dict, tuple)):
        raise _other(where, "one array", made)
    kind, dtype = _type(state)
    if _takes(dtype, made):
        return _number(dtype, made)
    leaf = _leaf(made)
    there = _type(leaf)
    if there != (kind, dtype):
        place = f" at {where}" if where else ""
        shown = [f"{one if one != 'array' else 'an array'} of {what}" for one, what in ((kind, dtype), there)]
        raise DtypeError(
            f"reduce_func must return a state of the type it was given: it was {shown[0]}{place} and became {shown[1]}"
        )
    return leaf


def _takes(dtype: np.dtype[Any], made: Any) -> bool:
    # A number of Python's has no dtype of its own: it takes the state's, as in NumPy's arithmetic.
    return type(made) in (bool, int, float, complex) and dtype.kind in "biufc" and np.result_type(dtype, made) == dtype


def _number(dtype: np.dtype[Any], made: Any) -> Any:
    try:
        return np.asarray(made, dtype)[()]
    except OverflowError:
        raise InvalidArgumentError(f"reduce_func returned {made!r}, which a state of {dtype} can't hold") from None


def _other(where: str, expected: str, made: Any) -> DtypeError:
    place = f" at {where}" if where else ""
    shown = f"{type(made).__name__} of {len(made)}" if isinstance(made, (dict, tuple)) else type(made).__name__
    return DtypeError(f"reduce_func must return the structure it was given{place}: {expected}, not {shown}")
