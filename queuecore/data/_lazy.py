"""Attributes that are found out when somebody asks for the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["lazy"]

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, as property is one
    """A property that is made once.

    As `functools.cached_property`, of which Python 3.11 holds one lock for all instances while one is made: a thread
    that makes one by running a pipeline would wait for a thread of that pipeline, which asks another instance for its
    own. Here two threads may both make it, and the first one's stays.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> T:
        # Not asked once the instance has an attribute of that name.
        made: T = instance.__dict__.setdefault(self._name, self._make(instance))
        return made
