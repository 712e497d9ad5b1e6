"""Pickles of an earlier version: private modules and classes that they name are gone, and loading says so.

Their classes had other attributes, so a map from old names to new ones would make objects that fail later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from queuecore.errors import InvalidArgumentError

__all__ = ["Outdated"]

_MESSAGE = (
    "an earlier version of queuecore made this pickle. Make the dataset again by the calls that made it first; saved "
    "states (state_dict) still load"
)


class Outdated:
    """Stands for any class in such pickles that is gone from a module that still exists."""

    def __new__(cls, *_: Any, **__: Any) -> NoReturn:
        """Raise an error that says what to do."""
        raise InvalidArgumentError(_MESSAGE)


class _Gone:
    # The last finder of modules: Python asks it for modules that no other finder has.
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        package, *inner = name.split(".")
        private = any(one.startswith("_") and not one.startswith("__") for one in inner)
        if package == "queuecore" and inner[0] != "_core" and private:
            raise ModuleNotFoundError(f"No module named {name!r}. If a pickle names it: {_MESSAGE}", name=name)


sys.meta_path.append(_Gone)
