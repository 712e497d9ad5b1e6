"""A dataset to one value: a function of Python's over its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from queuecore._stages import BYTES
from queuecore.data._structures import called, mapped
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["reduced"]

# Of a length that may change.
_TEXTS = {"S": BYTES, "U": np.dtype("U")}


def reduced(dataset: Dataset, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
    """Return the last state; see `Dataset.reduce`."""
    if not callable(reduce_func):
        raise InvalidArgumentError(f"reduce_func must be callable, not {reduce_func!r}")
    state = mapped(_leaf, initial_state)
    label = f"reduce_func {getattr(reduce_func, '__name__', type(reduce_func).__name__)}"
    with iter(dataset) as elements:
        for element in elements:
            state = _next(state, called(label, reduce_func, state, element), "")
    return state


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
    # A number of Python's has no dtype of its own: it takes the state's, as in NumPy's arithmetic.
    if type(made) in (bool, int, float, complex) and dtype.kind in "biufc" and np.result_type(dtype, made) == dtype:
        try:
            return np.asarray(made, dtype)[()]
        except OverflowError:
            raise InvalidArgumentError(f"reduce_func returned {made!r}, which a state of {dtype} can't hold") from None
    leaf = _leaf(made)
    there = _type(leaf)
    if there != (kind, dtype):
        place = f" at {where}" if where else ""
        shown = [f"{one if one != 'array' else 'an array'} of {what}" for one, what in ((kind, dtype), there)]
        raise DtypeError(
            f"reduce_func must return a state of the type it was given: it was {shown[0]}{place} and became {shown[1]}"
        )
    return leaf


def _other(where: str, expected: str, made: Any) -> DtypeError:
    place = f" at {where}" if where else ""
    shown = f"{type(made).__name__} of {len(made)}" if isinstance(made, (dict, tuple)) else type(made).__name__
    return DtypeError(f"reduce_func must return the structure it was given{place}: {expected}, not {shown}")
