"""``tf.compat``: text and bytes, and this module under the name that TensorFlow 2 has for TensorFlow 1's."""

from __future__ import annotations

import contextlib
import numbers
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import dimension_at_index, dimension_value

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "bytes_or_text_types",
    "complex_types",
    "dimension_at_index",
    "dimension_value",
    "forward_compatibility_horizon",
    "forward_compatible",
    "integral_types",
    "path_to_bytes",
    "path_to_str",
    "real_types",
    "v1",
]

v1: ModuleType  # the package itself, which sets it

bytes_or_text_types = (bytes, str)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return text, or bytes, as bytes. `TypeError`: it is neither."""
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return text, or bytes, as text. `TypeError`: it is neither."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return anything as text."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return a path as text; return anything else as it is."""
    return as_str_any(os.fspath(path)) if isinstance(path, os.PathLike) else path


def path_to_bytes(path: Any) -> bytes:
    """Return a path as bytes."""
    return as_bytes(os.fspath(path))


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Return whether a day lies before the release of the version whose names these are."""
    return (year, month, day) < (2019, 10, 14)


@contextlib.contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Accept another day for `forward_compatible`, which doesn't use it."""
    del year, month, day
    yield


__getattr__ = _refusing("tf.compat")
