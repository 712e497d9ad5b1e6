"""States that a user's function makes of states: their first value, and the conversion of each next one."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._elements.component import BYTES
from queuecore._elements.nests import apart, mapped
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

__all__ = ["first_state", "next_state", "number_of", "other_structure", "takes"]


# Of a length that may change.
_TEXTS = {"S": BYTES, "U": np.dtype("U")}


def _leaf(value: Any) -> Any:
    """Return a part of a state as an array or a NumPy scalar; a part that isn't made of arrays as it is."""
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


def first_state(value: Any) -> Any:
    """Return a user's state as one of our own, which shares nothing with the user's."""
    return own(mapped(_leaf, value))


def next_state(state: Any, result: Any, name: str, position: str = "") -> Any:
    """Return what a function, which errors call `name`, made of a state, as the state after it.

    Raises
    ------
    DtypeError
        If it has another structure, or other dtypes. Shapes may change.
    InvalidArgumentError
        If a number is too large for the state's dtype, or a part can't be an array.
    """
    if isinstance(state, dict):
        if isinstance(result, dict) and result.keys() == state.keys():
            return {key: next_state(inner, result[key], name, f"{position}[{key!r}]") for key, inner in state.items()}
        raise other_structure(name, position, f"a dict with the keys {list(state)}", result)
    if state is None:
        if result is not None:
            raise other_structure(name, position, "None", result)
        return None
    split = apart(state)
    if split is not None:
        other_split = None if isinstance(result, dict) else apart(result)
        if other_split is not None and len(other_split[0]) == len(split[0]):
            pairs = enumerate(zip(split[0], other_split[0], strict=True))
            return split[1]([next_state(*pair, name, f"{position}[{index}]") for index, pair in pairs])
        raise other_structure(name, position, f"a {type(state).__name__} of {len(split[0])}", result)
    if isinstance(result, (dict, tuple)):
        raise other_structure(name, position, "one array", result)
    kind, dtype = _type(state)
    if takes(dtype, result):
        return number_of(dtype, result, name)
    leaf = _leaf(result)
    became = _type(leaf)
    if became != (kind, dtype):
        place = f" at {position}" if position else ""
        shown = [f"{one if one != 'array' else 'an array'} of {what}" for one, what in ((kind, dtype), became)]
        raise DtypeError(
            f"{name} must return a state of the type it was given: it was {shown[0]}{place} and became {shown[1]}"
        )
    return leaf


def takes(dtype: np.dtype[Any], made: Any) -> bool:
    # A number of Python's has no dtype of its own: it takes the state's, as in NumPy's arithmetic.
    return type(made) in (bool, int, float, complex) and dtype.kind in "biufc" and np.result_type(dtype, made) == dtype


def number_of(dtype: np.dtype[Any], made: Any, name: str) -> Any:
    try:
        return np.asarray(made, dtype)[()]
    except OverflowError:
        raise InvalidArgumentError(f"{name} returned {made!r}, which a state of {dtype} can't hold") from None


def other_structure(name: str, where: str, expected: str, made: Any) -> DtypeError:
    place = f" at {where}" if where else ""
    shown = f"{type(made).__name__} of {len(made)}" if isinstance(made, (dict, tuple)) else type(made).__name__
    return DtypeError(f"{name} must return the structure it was given{place}: {expected}, not {shown}")
