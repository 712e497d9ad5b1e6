"""``tf.contrib.framework.nest``: `queuecore.tf1.nest`, and structures that end where another one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.ragged import RaggedTensor
from queuecore.tf1._ops.sparse import SparseTensor
from queuecore.tf1.nest import (
    assert_same_structure,
    flatten,
    is_nested as is_sequence,
    like,
    map_structure,
    pack_sequence_as,
    same_type,
    values_of,
)

__all__ = [
    "assert_same_structure",
    "assert_shallow_structure",
    "flatten",
    "flatten_dict_items",
    "flatten_up_to",
    "flatten_with_joined_string_paths",
    "get_traverse_shallow_structure",
    "is_sequence",
    "is_sequence_or_composite",
    "map_structure",
    "map_structure_up_to",
    "map_structure_with_paths",
    "pack_sequence_as",
    "yield_flat_paths",
]


def is_sequence_or_composite(seq: Any) -> bool:
    """Return whether it is a list, a tuple, a dict, or a sparse or ragged tensor."""
    return is_sequence(seq) or isinstance(seq, (SparseTensor, RaggedTensor))


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a dict in which each item of a key that is a structure has its own value.

    Parameters
    ----------
    dictionary : dict
        ``{(1, (2, 3)): ("a", ("b", "c"))}`` becomes ``{1: "a", 2: "b", 3: "c"}``.

    Raises
    ------
    TypeError
        If it is no dict.
    ValueError
        If a key comes twice, or a key has another number of items than its value.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    flat: dict[Any, Any] = {}
    for key, value in dictionary.items():
        keys, values = (flatten(key), flatten(value)) if is_sequence(key) else ([key], [value])
        if len(keys) != len(values):
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(values)} elements. "
                f"Key: {keys}, value: {values}."
            )
        for part, held in zip(keys, values, strict=True):
            if part in flat:
                raise ValueError(f"Could not flatten dictionary: key {part} is not unique.")
            flat[part] = held
    return flat


def assert_shallow_structure(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise unless a structure goes as deep as a shallow one everywhere, in the same way.

    Parameters
    ----------
    shallow_tree, input_tree : structure
        Where `shallow_tree` has an item, `input_tree` may have anything.
    check_types : bool, default True
        Whether lists must be lists there, and so on, and dicts must have the same keys.
    expand_composites : bool
        Accepted, and not used.

    Raises
    ------
    TypeError
        If `input_tree` has an item where the other one has a list, or a list is a tuple there.
    ValueError
        If numbers of items differ, or keys.
    """
    del expand_composites
    if not is_sequence(shallow_tree):
        return
    if not is_sequence(input_tree):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(input_tree)}."
        )
    if check_types and not same_type(shallow_tree, input_tree):
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(input_tree)}, while shallow structure has type {type(shallow_tree)}."
        )
    if len(input_tree) != len(shallow_tree):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(input_tree)}, while shallow structure has length {len(shallow_tree)}."
        )
    if check_types and isinstance(shallow_tree, Mapping) and set(shallow_tree) != set(input_tree):
        raise ValueError(
            f"The two structures don't have the same keys. Input structure has keys {list(input_tree)}, while "
            f"shallow structure has keys {list(shallow_tree)}."
        )
    for shallow, deep in zip(values_of(shallow_tree), values_of(input_tree), strict=True):
        assert_shallow_structure(shallow, deep, check_types)


def _up_to(shallow: Any, deep: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    # Where each item of a shallow structure is, and what is there in a deep one.
    if not is_sequence(shallow):
        yield (), deep
        return
    keys = sorted(shallow) if isinstance(shallow, Mapping) else getattr(shallow, "_fields", range(len(shallow)))
    for key, part, below in zip(keys, values_of(shallow), values_of(deep), strict=True):
        for path, item in _up_to(part, below):
            yield (key, *path), item


def flatten_up_to(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> list[Any]:
    """Return what a structure has where a shallow one has its items, as one list.

    Parameters and errors are those of `assert_shallow_structure`.
    """
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites)
    return [item for _, item in _up_to(shallow_tree, input_tree)]


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
    """Return what a function makes of what structures have where a shallow one has its items, in the shallow one.

    Parameters
    ----------
    shallow_tree : structure
    func : callable
        Takes a part of each input.
    *inputs : structure
    **kwargs
        ``check_types``: as of `assert_shallow_structure`.

    Raises
    ------
    ValueError
        If there are no inputs.
    TypeError, ValueError
        As of `assert_shallow_structure`.
    """
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    flat = [flatten_up_to(shallow_tree, one, kwargs.get("check_types", True)) for one in inputs]
    return pack_sequence_as(shallow_tree, [func(*parts) for parts in zip(*flat, strict=True)])


def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """As `map_structure`; the function also gets, before the items, where they are: their keys, with slashes between.

    Parameters
    ----------
    func : callable
        Takes a str, and an item of each structure.
    *structure : structure
    **kwargs
        ``check_types``: as of `assert_same_structure`.
    """
    paths = pack_sequence_as(structure[0], [path for path, _ in flatten_with_joined_string_paths(structure[0])])
    return map_structure(func, paths, *structure, **kwargs)


def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: Any, expand_composites: bool = False
) -> Any:
    """Return a shallow structure of bools, which goes as deep as a function says.

    Parameters
    ----------
    traverse_fn : callable
        Takes a part of the structure, and returns whether to go deeper, or that for each of its own parts.
    structure : structure
    expand_composites : bool
        Accepted, and not used.

    Returns
    -------
    structure of bool
        Of items, what the function returns; `False` where it doesn't go deeper.

    Raises
    ------
    TypeError
        If the function returns anything else.
    """
    del expand_composites
    deeper = traverse_fn(structure)
    if not is_sequence(structure):
        if not isinstance(deeper, bool):
            raise TypeError(f"traverse_fn returned structure: {deeper} for non-structure: {structure}")
        return deeper
    if deeper is False:
        return False
    parts = values_of(structure)
    if deeper is True:
        return like(structure, [get_traverse_shallow_structure(traverse_fn, part) for part in parts])
    if not is_sequence(deeper):
        raise TypeError(f"traverse_fn returned a non-bool scalar: {deeper} for input: {structure}")
    assert_shallow_structure(deeper, structure)
    if not all(isinstance(choice, bool) for choice in values_of(deeper)):
        raise TypeError(
            f"traverse_fn didn't return a depth=1 structure of bools.  saw: {deeper}  for structure: {structure}"
        )
    return like(structure, [
        choice and get_traverse_shallow_structure(traverse_fn, part)
        for choice, part in zip(values_of(deeper), parts, strict=True)
    ])  # fmt: skip


def yield_flat_paths(nest: Any) -> Iterator[tuple[Any, ...]]:
    """Yield for each item of a structure where it is: the keys, indices and names of fields on the way to it."""
    for path, _ in _up_to(nest, nest):
        yield path


def flatten_with_joined_string_paths(structure: Any, separator: str = "/") -> list[tuple[str, Any]]:
    """Return each item of a structure, behind where it is: its keys, with separators between them."""
    return [(separator.join(map(str, path)), item) for path, item in _up_to(structure, structure)]


__getattr__ = _refusing("tf.contrib.framework.nest")
