"""Strings of bytes, as users pass them."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._elements.component import BYTES, Component
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged

__all__ = ["lone_strings", "strings_of"]


def lone_strings(label: str, components: tuple[Component, ...]) -> Component:
    """Return the one component, of strings."""
    if len(components) != 1 or components[0].dtype != BYTES:
        shown = ", ".join(str(one.dtype) for one in components)
        raise InvalidArgumentError(f"{label}: expected one component of bytes, got {len(components)} ({shown})")
    return components[0]


def strings_of(label: str, value: Any) -> bytes | np.ndarray | Ragged:
    """Return bytes, an object array of them, or a Ragged of bytes."""
    if isinstance(value, Ragged) and value.is_bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return value.encode() if isinstance(value, str) else bytes(value)
    try:
        # Not np.asarray: NumPy's own strings lose the zero bytes at their end.
        array = value if isinstance(value, np.ndarray) else np.asarray(value, object)
    except ValueError as error:
        raise InvalidArgumentError(f"{label}: {error}") from error
    flat = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    if not all(isinstance(one, bytes) for one in flat):
        raise DtypeError(f"{label}: expected bytes, or an array or list of them, got {array.dtype} ({value!r:.60})")
    if not array.ndim:
        return flat[0]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)
