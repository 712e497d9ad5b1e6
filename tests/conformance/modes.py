"""The mode that a test of a peer runs in, and what stands for a name that queuecore doesn't have.

``graph``: names are those of `queuecore.tf1`. ``eager``: those of `queuecore.data`, and values are arrays of NumPy's.
"""

from __future__ import annotations

import inspect
from typing import Any

GRAPH, EAGER = "graph", "eager"
_now = GRAPH


def mode() -> str:
    """Return the mode of the test that runs."""
    return _now


def enter(name: str) -> str:
    """Set the mode, and return the one before."""
    global _now
    before, _now = _now, name
    return before


class NotInQueuecoreError(Exception):
    """A test used a name that queuecore doesn't have.

    Attributes
    ----------
    name : str
        The name, with its module in the peer.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"queuecore has no {name}")
        self.name = name


class Missing:
    """Stands for a name that isn't there: it can be named and handed around, and fails when it is used.

    As a decorator of a function or a class it gives one that fails when it is called, so that the other tests of the
    module still run.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **named: Any) -> Any:
        if len(args) == 1 and not named and inspect.isfunction(args[0]) and args[0].__name__.startswith(("test", "_")):
            return self._failing(args[0])
        raise NotInQueuecoreError(self._name)

    def _failing(self, function: Any) -> Any:
        name = self._name

        def fails(*args: Any, **named: Any) -> Any:
            raise NotInQueuecoreError(name)

        fails.__name__ = function.__name__
        return fails

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        # A class below one that isn't there: it is made, and what it inherits is missing.
        name = self._name

        class Absent:
            def __getattr__(self, member: str) -> Any:
                raise NotInQueuecoreError(f"{name}.{member}")

        return (Absent,)

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __enter__(self) -> Any:
        raise NotInQueuecoreError(self._name)

    def __exit__(self, *args: Any) -> None:
        pass

    def __iter__(self) -> Any:
        raise NotInQueuecoreError(self._name)

    def __eq__(self, other: object) -> bool:
        raise NotInQueuecoreError(self._name)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"Missing({self._name!r})"
