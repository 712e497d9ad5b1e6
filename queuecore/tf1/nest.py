"""``tf.nest``: structures of lists, tuples, dicts and named tuples; the values of dicts in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from queuecore.tf1._ops.ragged import RaggedTensorValue

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_nested(seq: Any) -> bool:
    """Return whether it is a list, a tuple or a dict; the value of a ragged tensor is none of these."""
    return isinstance(seq, (list, tuple, Mapping)) and not isinstance(seq, RaggedTensorValue)


def values_of(structure: Any) -> list[Any]:
    """Return what the outermost level of a structure holds; of a dict in the order of its keys."""
    return [structure[key] for key in sorted(structure)] if isinstance(structure, Mapping) else list(structure)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return what a structure holds, as one list."""
    del expand_composites
    if not is_nested(structure):
        return [structure]
    return [leaf for one in values_of(structure) for leaf in flatten(one)]


def _packed(structure: Any, left: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(left)
    return like(structure, [_packed(one, left) for one in values_of(structure)])


def like(structure: Any, values: list[Any]) -> Any:
    """Return values in the outermost level of a structure; of a dict they come in the order of its keys."""
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), values, strict=True))
        pairs = [(key, found[key]) for key in structure]
        return dict(pairs) if type(structure) is dict else type(structure)(pairs)  # type: ignore[call-arg]
    return type(structure)(*values) if hasattr(structure, "_fields") else type(structure)(values)


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
    if not is_nested(structure) and len(flat_sequence) != 1:
        raise ValueError(f"Structure is a scalar but len(flat_sequence) == {len(flat_sequence)}, and not 1")
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
    del expand_composites
    try:
        _compare(nest1, nest2, check_types)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"The two structures don't have the same nested structure.\n\nFirst structure: {_shown(nest1)}\n\n"
            f"Second structure: {_shown(nest2)}\n\nMore specifically: {error}"
        ) from None


def _shown(structure: Any) -> str:
    return f"type={type(structure).__name__} str={structure}"


def same_type(one: Any, other: Any) -> bool:
    """Return whether two structures are of one type; dicts are, and named tuples of one name and fields."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return True
    names = [(type(tuple_).__name__, getattr(tuple_, "_fields", None)) for tuple_ in (one, other)]
    return type(one) is type(other) or names[0][1] is not None and names[0] == names[1]


def _compare(nest1: Any, nest2: Any, check_types: bool) -> None:
    if is_nested(nest1) != is_nested(nest2):
        deep, flat = (nest1, nest2) if is_nested(nest1) else (nest2, nest1)
        raise ValueError(f'Substructure "{_shown(deep)}" is a sequence, while substructure "{_shown(flat)}" is not')
    if not is_nested(nest1):
        return
    if check_types and not same_type(nest1, nest2):
        raise TypeError(
            "The two structures don't have the same sequence type. First structure has type "
            f"{type(nest1).__name__}, while second structure has type {type(nest2).__name__}."
        )
    if isinstance(nest1, Mapping) and isinstance(nest2, Mapping) and set(nest1) != set(nest2):
        raise ValueError(f"The two dictionaries don't have the same set of keys: {sorted(nest1)} and {sorted(nest2)}")
    for one, other in zip(values_of(nest1), values_of(nest2), strict=False):
        _compare(one, other, check_types)
    if len(nest1) != len(nest2):
        raise ValueError(
            f"The two structures don't have the same number of elements. First structure ({len(nest1)} elements): "
            f"{nest1}. Second structure ({len(nest2)} elements): {nest2}"
        )


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
    if not kwargs.keys() <= {"check_types", "expand_composites"}:
        raise ValueError(f"Only valid keyword arguments are check_types and expand_composites, not: {sorted(kwargs)}")
    for one in structure[1:]:
        assert_same_structure(structure[0], one, kwargs.get("check_types", True))
    rows = zip(*[flatten(one) for one in structure], strict=True)
    return pack_sequence_as(structure[0], [func(*row) for row in rows])
