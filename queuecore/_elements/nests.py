"""Nested structures: tuples, with names too, dicts, `None`, and objects of dataclasses and of classes of attrs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["apart", "bare", "has_none", "is_plain", "like", "mapped", "plain", "structure_of"]

Rebuild = Callable[[Sequence[Any]], Any]


def structure_of(template: Any, parts: Sequence[Any]) -> Any:
    """Return the parts in the structure of a template of their indices."""
    return mapped(parts.__getitem__, template)


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return the structure with each leaf replaced by what a function makes of it. `None` has no leaves."""
    if structure is None:
        return None
    if type(structure) is dict:
        return {key: mapped(function, inner) for key, inner in structure.items()}
    if type(structure) is tuple:
        return tuple([mapped(function, inner) for inner in structure])
    found = apart(structure)
    if found is None:
        return function(structure)
    parts, rebuild = found
    return rebuild([mapped(function, inner) for inner in parts])


def apart(value: Any) -> tuple[Sequence[Any], Rebuild] | None:
    """Return the parts of a structure, and what makes one like it of other parts; `None`: it is a leaf, or `None`."""
    kind: Any = type(value)
    if kind is tuple:
        return value, tuple
    # By the type: symbols answer no question for it.
    if issubclass(kind, dict):
        return list(value.values()), functools.partial(_dict_of, list(value))
    if issubclass(kind, tuple):
        return value, functools.partial(_called, kind) if hasattr(kind, "_fields") else tuple
    fields = _fields_of(kind)
    if fields is None:
        return None
    return [getattr(value, name) for name in fields], functools.partial(_record_of, kind, fields)


def is_plain(template: Any) -> bool:
    """Return whether a structure is made of tuples without names and dicts alone."""
    if type(template) is int:
        return True
    if type(template) is dict:
        return all(map(is_plain, template.values()))
    if type(template) is tuple:
        return all(map(is_plain, template))
    return template is not None and apart(template) is None


def plain(structure: Any) -> Any:
    """Return a structure that can be compared, and shown the same in every process: records as dicts of their fields.

    Tuples lose their names.
    """
    kind: Any = type(structure)
    found = apart(structure)
    if structure is None or found is None:
        return structure
    if issubclass(kind, dict):
        return {key: plain(inner) for key, inner in structure.items()}
    parts = tuple(map(plain, found[0]))
    fields = None if issubclass(kind, tuple) else _fields_of(kind)
    return parts if fields is None else {"of": kind.__qualname__, **dict(zip(fields, parts, strict=True))}


def bare(structure: Any) -> Any:
    """Return a structure of tuples without names, dicts and leaves alone: a record is the tuple of its fields."""
    found = apart(structure)
    if structure is None or found is None:
        return structure
    if issubclass(type(structure), dict):
        return {key: bare(inner) for key, inner in structure.items()}
    return tuple(map(bare, found[0]))


def like(structure: Any, value: Any) -> Any:
    """Return what `bare` made of a value in a structure like the one it came from."""
    found = apart(structure)
    if structure is None or found is None:
        return value
    parts = [value[key] for key in structure] if issubclass(type(structure), dict) else value
    return found[1]([like(*pair) for pair in zip(found[0], parts, strict=True)])


def has_none(template: Any) -> bool:
    """Return whether a structure has a `None` in it."""
    found = apart(template)
    return template is None if found is None else any(map(has_none, found[0]))


def _dict_of(keys: list[Any], parts: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(keys, parts, strict=True))


def _called(kind: Any, parts: Sequence[Any]) -> Any:
    return kind(*parts)


def _record_of(kind: Any, fields: tuple[str, ...], parts: Sequence[Any]) -> Any:
    # Without its constructor, which may do more, or may not take all fields.
    made = object.__new__(kind)
    for name, part in zip(fields, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def _fields_anew(kind: type[Any]) -> tuple[str, ...] | None:
    """Return the names of the fields of a user's class of records; `None` if it is none."""
    if kind.__module__.partition(".")[0] == "queuecore":
        return None
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes = kind.__dict__.get("__attrs_attrs__")
    return None if attributes is None else tuple(attribute.name for attribute in attributes)


_fields_of = functools.lru_cache(1024)(_fields_anew)
