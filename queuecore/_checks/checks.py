"""Checks of arguments."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError

__all__ = [
    "LARGEST",
    "MAX_DIMS",
    "check_bool",
    "check_index",
    "check_int",
    "check_name",
    "check_optional_count",
    "whole",
    "wholes",
]

LARGEST = 2**63 - 1
_BOOLS = (bool, np.bool_)
MAX_DIMS = 32  # of an array: NumPy's limit of old, and that of native code


def _integer(value: Any, subject: str) -> int:
    # A bool or a float is an error: `batch(True)` and `batch(64.0)` are slips, whatever their value.
    if not isinstance(value, _BOOLS):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InvalidArgumentError(f"{subject} must be an integer, not {value!r}")


def whole(label: str, subject: str, value: Any) -> int:
    """Return an argument of an operation as an int of 64 bits."""
    number = _integer(value, f"{label}: {subject}")
    if abs(number) > LARGEST:
        raise InvalidArgumentError(f"{label}: {subject} is out of range: {number}")
    return number


def wholes(label: str, subject: str, value: Any, least: int) -> tuple[int, ...]:
    """Return an argument of an operation as ints, one a dimension and none below `least`; an int is a tuple of it."""
    if value is None:
        raise InvalidArgumentError(f"{label}: {subject} is missing")
    try:
        numbers = [value] if hasattr(value, "__index__") and not hasattr(value, "__len__") else list(value)
    except TypeError:
        raise InvalidArgumentError(f"{label}: {subject} must be a sequence of integers, not {value!r}") from None
    found = tuple(whole(label, subject, number) for number in numbers)
    if len(found) > MAX_DIMS:
        raise InvalidArgumentError(f"{label}: {len(found)} dimensions; at most {MAX_DIMS} are possible")
    if any(number < least for number in found):
        raise InvalidArgumentError(f"{label}: {subject} has a number below {least}: {list(found)}")
    return found


def check_index(value: Any, subject: str) -> int:
    """Return an argument of a queue as an int of 64 bits."""
    number = _integer(value, subject)
    if not -(2**63) <= number < 2**63:
        raise InvalidArgumentError(f"{subject} must fit into 64 bits, and {number} doesn't")
    return number


def check_int(value: Any, subject: str, minimum: int, maximum: int = LARGEST) -> int:
    """Return `value` as an int between `minimum` and `maximum`."""
    number = _integer(value, subject)
    if number < minimum:
        raise InvalidArgumentError(f"{subject} must be at least {minimum}, not {number}")
    if number > maximum:
        raise InvalidArgumentError(f"{subject} must be at most {maximum}, not {number}")
    return number


def check_optional_count(value: Any, subject: str) -> int:
    """Return a count in which `None` and -1 both mean "no limit", as -1."""
    return -1 if value is None else check_int(value, subject, -1)


def check_bool(value: Any, subject: str) -> bool:
    """Return `value`, which must be a bool of Python's or NumPy's."""
    if isinstance(value, _BOOLS):
        return bool(value)
    raise InvalidArgumentError(f"{subject} must be True or False, not {value!r}")


def check_name(name: Any) -> None:
    """Raise `InvalidArgumentError` for the name of a step that is no identifier. `None` and "" are no names."""
    if name is None or name == "" or (isinstance(name, str) and name.isidentifier()):
        return
    # The first two sentences are tf.data's: programs match on them.
    raise InvalidArgumentError(
        "Invalid `name`. The argument `name` needs to be a valid identifier. It must be a str of letters, digits and "
        f"underscores that doesn't begin with a digit, not {name!r:.60}"
    )
