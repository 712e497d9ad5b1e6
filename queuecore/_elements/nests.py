"""Nested structures of tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["mapped", "structure_of"]


def structure_of(template: Any, parts: Sequence[Any]) -> Any:
    """Return the parts in the structure of a template of their indices."""
    return mapped(parts.__getitem__, template)


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return the structure with each leaf replaced by what a function makes of it."""
    if isinstance(structure, dict):
        return {key: mapped(function, inner) for key, inner in structure.items()}
    if isinstance(structure, tuple):
        return tuple(mapped(function, inner) for inner in structure)
    return function(structure)
