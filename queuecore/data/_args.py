"""Checks of arguments, made when a dataset is described and not when it runs."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError

__all__ = ["check_bool", "check_int", "check_optional_count"]

_INT64_MAX = 2**63 - 1


def check_int(value: Any, what: str, minimum: int, maximum: int = _INT64_MAX) -> int:
    """Return `value` as an int between `minimum` and `maximum`.

    A bool or a float is an error: ``batch(True)`` and ``batch(64.0)`` are slips, whatever their value.
    """
    if isinstance(value, bool | np.bool_ | float):
        raise InvalidArgumentError(f"{what} must be an integer, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{what} must be an integer, not {value!r}") from None
    if number < minimum:
        raise InvalidArgumentError(f"{what} must be at least {minimum}, not {number}")
    if number > maximum:
        raise InvalidArgumentError(f"{what} must be at most {maximum}, not {number}")
    return number


def check_optional_count(value: Any, what: str) -> int:
    """Return a count in which `None` and -1 both mean "no limit", as -1."""
    return -1 if value is None else check_int(value, what, -1)


def check_bool(value: Any, what: str) -> bool:
    """Return `value`, which must be a bool of Python's or NumPy's."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InvalidArgumentError(f"{what} must be True or False, not {value!r}")
