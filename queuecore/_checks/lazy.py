"""Attributes, and results of methods, that are computed on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["lazy", "once", "without_kept"]

# No attribute of a class begins with it.
_KEPT = "once "

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, as property is one
    """A property that is computed once.

    `functools.cached_property` of Python 3.11 holds one lock for all instances while it computes a value: a thread
    that makes one by running a pipeline would wait for a thread of that pipeline, which asks another instance for its
    own. Here two threads may both compute the value; the first result stays.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> T:
        # Python doesn't call this once the instance has an attribute of that name.
        made: T = instance.__dict__.setdefault(self._name, self._make(instance))
        return made


def once(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return a method without arguments whose result each instance keeps; nothing may change that result.

    Two threads may both compute it; the first result stays. An error isn't kept. `without_kept` leaves out the results.
    """
    name = f"{_KEPT}{make.__qualname__}"

    @functools.wraps(make)
    def kept(self: Any) -> T:
        if name in self.__dict__:
            found: T = self.__dict__[name]
            return found
        made: T = self.__dict__.setdefault(name, make(self))
        return made

    return kept


def without_kept(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return an instance's attributes without what its methods keep: that can be made again, and not all be pickled."""
    return {name: value for name, value in attributes.items() if not name.startswith(_KEPT)}
