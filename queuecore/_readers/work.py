"""Work of readers: the names of files that they take one after the other, from a queue or an iterable."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["check_names", "check_names_queue", "unit_of"]


def check_names(work: Any) -> None:
    """Refuse what is neither a queue nor an iterable of names."""
    if isinstance(work, (str, bytes, os.PathLike)) or not hasattr(work, "__iter__"):
        raise InvalidArgumentError(f"work must be a queue or an iterable of file names, not {work!r}")


def check_names_queue(queue: Any) -> None:
    """Refuse a queue that isn't one of strings alone."""
    if len(queue.dtypes) != 1 or queue.names is not None:
        raise InvalidArgumentError(f"work must be a queue of single components, and {queue.name!r} is not")
    if queue.dtypes[0].kind not in "SUO":
        raise InvalidArgumentError(f"work must be a queue of strings, and {queue.name!r} has {queue.dtypes[0]}")


def unit_of(value: Any) -> bytes:
    """Return the name of a file as the operating system's bytes."""
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise InvalidArgumentError(f"a work unit must be one string, not an array of shape {list(value.shape)}")
        value = value.item()
    try:
        return bytes(os.fsencode(value))  # also of a subclass
    except TypeError as error:
        raise DtypeError(f"a work unit must be the name of a file, not {value!r}") from error
