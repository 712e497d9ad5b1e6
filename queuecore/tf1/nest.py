"""``tf.nest``: structures of lists, tuples, dicts and named tuples; the values of dicts in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from queuecore.tf1._ops.ragged import RaggedTensorValue

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_nested(seq: Any) -> bool:
    """Return whether it is a list, a tuple or a dict; the value of a ragged tensor is none of these."""
    return isinstance(seq, (list, tuple, Mapping)) and not isinstance(seq, RaggedTensorValue)


def _values(structure: Any) -> list[Any]:
    return [structure[key] for key in sorted(structure)] if isinstance(structure, Mapping) else list(structure)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return what a structure holds, as one list."""
    del expand_composites
    if not is_nested(structure):
        return [structure]
    return [leaf for one in _values(structure) for leaf in flatten(one)]


def _packed(structure: Any, left: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(left)
    made = [_packed(one, left) for one in _values(structure)]
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), made, strict=True))
        pairs = [(key, found[key]) for key in structure]
        return dict(pairs) if type(structure) is dict else type(structure)(pairs)  # type: ignore[call-arg]
    return type(structure)(*made) if hasattr(structure, "_fields") else type(structure)(made)


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Return the items of a list in a structure.

    Raises
    ------
    TypeError
        If the items are no list or tuple.
    ValueError
        If they are more or fewer than the structure holds.
    """
    del expand_composites
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError("flat_sequence must be a sequence")
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise ValueError(
            f"Could not pack sequence. Structure had {count} elements, but flat_sequence had {len(flat_sequence)} "
            f"elements.  Structure: {structure}, flat_sequence: {flat_sequence}."
        )
    return _packed(structure, iter(flat_sequence))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise unless two structures are alike.

    Parameters
    ----------
    nest1, nest2 : structure
    check_types : bool, default True
        Whether lists must be lists there, and so on.
    expand_composites : bool
        Accepted, and not used.

    Raises
    ------
    ValueError
        If they hold different numbers of items, or are nested in another way.
    TypeError
        If a list is a tuple there, or keys differ.
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(
            f"The two structures don't have the same nested structure.\n\nFirst structure: {nest1}\n\n"
            f"Second structure: {nest2}"
        )
    if not is_nested(nest1):
        return
    both = isinstance(nest1, Mapping) and isinstance(nest2, Mapping)
    if check_types and type(nest1) is not type(nest2) and not both:
        raise TypeError(
            "The two structures don't have the same sequence type. First structure has type "
            f"{type(nest1).__name__}, while second structure has type {type(nest2).__name__}."
        )
    if both and set(nest1) != set(nest2):
        raise ValueError(f"The two dictionaries don't have the same set of keys: {sorted(nest1)} and {sorted(nest2)}")
    if len(nest1) != len(nest2):
        raise ValueError(
            f"The two structures don't have the same number of elements. First structure ({len(nest1)} elements): "
            f"{nest1}. Second structure ({len(nest2)} elements): {nest2}"
        )
    for one, other in zip(_values(nest1), _values(nest2), strict=True):
        assert_same_structure(one, other, check_types)


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Return what a function makes of the items of structures that are alike, in such a structure.

    Parameters
    ----------
    func : callable
        Takes an item of each structure.
    *structure : structure
    **kwargs
        ``check_types``: as of `assert_same_structure`.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for one in structure[1:]:
        assert_same_structure(structure[0], one, kwargs.get("check_types", True))
    rows = zip(*[flatten(one) for one in structure], strict=True)
    return pack_sequence_as(structure[0], [func(*row) for row in rows])
