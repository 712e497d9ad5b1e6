"""Elements that are Python objects: conversion of users' values, their specifications, and batches of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._elements.component import BYTES
from queuecore._elements.nests import apart
from queuecore._elements.record import ArraySpec, DatasetSpec, SparseSpec
from queuecore._ops.strings import strings_of
from queuecore.data._plan.chain import Chained, chain_of
from queuecore.errors import DtypeError, InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged, Sparse, ragged_of

__all__ = [
    "Types",
    "batched_spec",
    "concatenated",
    "converted",
    "depth_of",
    "general",
    "has_empty",
    "readonly",
    "rows_apart",
    "settled",
    "shown",
    "spec_of",
    "stacked",
    "typed_spec",
]

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_BOOL = np.dtype(np.bool_)
_NO_STRINGS = Ragged(np.empty(0, "S1"), np.zeros(1, np.int64))
_EMPTY = "empty list"
# Elements that wait for one that has a type.
_MOST_WAITING = 1000
# Objects, times: there are no components of these.
_NO_KINDS = "OMm"


class _Kind:
    """The kind of a leaf that is no array, number or string. Instances are compared by identity."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


_DATASET = _Kind("Dataset")
_NONE = _Kind("None")


def converted(value: Any) -> tuple[Any, Any]:
    """Return a value as an element, and its structure: dtypes in tuples and dicts, to be compared.

    Numbers become NumPy's, lists arrays, strings `bytes`, and several strings a `Ragged`. Tuples, dicts, arrays,
    `Ragged`, `Sparse` and datasets stay: these arrays must be ours already, as `queuecore._core.atoms.own` has it. A
    value that only becomes an array here is a copy. The structure of an empty list is ``("empty list", ndim)``: it has
    no type yet, and is an array of float64 until `settled` gives it one.

    Raises
    ------
    InvalidArgumentError
        If it can't be an element; DtypeError, if because of its dtype.
    """
    kind = type(value)
    if kind is np.ndarray:
        dtype = value.dtype
        if value.ndim and dtype.isnative and dtype.kind in "biufc":
            return value, dtype
    elif kind is tuple:
        parts = [converted(one) for one in value]
        return tuple([one for one, _ in parts]), tuple([one for _, one in parts])
    elif kind is dict:
        pairs = {name: converted(one) for name, one in value.items()}
        return {name: one for name, (one, _) in pairs.items()}, {name: one for name, (_, one) in pairs.items()}
    elif kind is bytes:
        return value, BYTES
    elif kind is float:
        return np.float64(value), _FLOAT64
    elif kind is bool:
        return np.bool_(value), _BOOL
    elif kind is int and -(2**63) <= value < 2**63:
        return np.int64(value), _INT64
    return _converted_slowly(value)


def same_structure(first: Any, second: Any) -> bool:
    """Return whether two structures of `converted` are equal. To NumPy, a dtype equals some tuples, and some dicts."""
    if first is second:
        return True
    if isinstance(first, tuple):
        return isinstance(second, tuple) and len(first) == len(second) and all(map(same_structure, first, second))
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(same_structure(part, second[name]) for name, part in first.items())
        )
    return not isinstance(second, tuple | dict) and bool(first == second)


def _converted_slowly(value: Any) -> tuple[Any, Any]:
    if value is None:
        return None, _NONE
    if isinstance(value, Mapping):
        return converted(dict(value))
    split = apart(value)
    if split is not None:
        is_tuple = isinstance(value, tuple)  # with names
        # Of a record, its parts are the user's still.
        parts = [converted(one if is_tuple else own(one)) for one in split[0]]
        made = split[1]([one for one, _ in parts])
        return made, (*(() if is_tuple else (type(value),)), *[one for _, one in parts])
    if isinstance(value, Ragged):
        return value, ("Ragged", depth_of(value), value.dtype)
    if isinstance(value, Sparse):
        return value, ("Sparse", len(value.dense_shape), value.dtype)
    if isinstance(value, Chained):
        return value, _DATASET
    if isinstance(value, str | bytes | bytearray | memoryview):
        return value.encode() if isinstance(value, str) else bytes(value), BYTES
    if isinstance(value, set | frozenset | Iterator) or inspect.isroutine(value):
        raise InvalidArgumentError(f"{value!r:.80} can't be an element, or a part of one")
    try:
        array = np.asarray(value)
        if array.ndim and type(value) is not list and type(value) is not np.ndarray:
            array = own(array)  # it may lie in memory of the user's
    except QueueCoreError:
        raise
    except Exception as error:
        raise InvalidArgumentError(
            f"{value!r:.80} can't be an element, or a part of one: {error}. Rows of different lengths make a "
            "queuecore.Ragged"
        ) from error
    if array.dtype.kind in "SU" or (array.dtype == object and _is_text(array)):
        return _strings(value if isinstance(value, np.ndarray | list) else array)
    if array.dtype.kind in _NO_KINDS:
        raise InvalidArgumentError(f"{value!r:.80} can't be an element, or a part of one")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if type(value) is list and not array.size and array.dtype == _FLOAT64 and _is_bare(value):
        return array, (_EMPTY, array.ndim)
    return (array if array.ndim else array[()]), array.dtype


def _is_bare(value: list[Any]) -> bool:
    return all(type(one) is list and _is_bare(one) for one in value)


def _is_empty(structure: Any) -> bool:
    return isinstance(structure, tuple) and len(structure) == 2 and structure[0] is _EMPTY


def has_empty(structure: Any) -> bool:
    """Return whether a structure of `converted` has an empty list, without a type."""
    if isinstance(structure, dict):
        return any(map(has_empty, structure.values()))
    return isinstance(structure, tuple) and (_is_empty(structure) or any(map(has_empty, structure)))


def typed_spec(value: Any, structure: Any) -> Any:
    """Return the specification of elements like one that `converted` made; `None` in the place of an empty list."""
    if _is_empty(structure):
        return None
    if isinstance(value, dict):
        return {name: typed_spec(one, structure[name]) for name, one in value.items()}
    split = apart(value)
    if split is not None:
        return split[1]([typed_spec(*pair) for pair in zip(split[0], _structures(value, structure), strict=True)])
    return spec_of(value)


def _structures(value: Any, structure: Any) -> Any:
    """Return the structures of the parts of a tuple, or of a record, whose class stands in front of them."""
    return structure if isinstance(value, tuple) else structure[1:]


def settled(value: Any, structure: Any, spec: Any) -> tuple[Any, Any]:
    """Return what `converted` made, with the types of a specification for its empty lists, and its structure."""
    if not has_empty(structure):
        return value, structure
    if _is_empty(structure):
        return converted(_empty_of(value, spec)) if isinstance(spec, ArraySpec) else (value, structure)
    if isinstance(value, dict):
        if not isinstance(spec, dict) or spec.keys() != value.keys():
            return value, structure
        pairs = {name: settled(part, structure[name], spec[name]) for name, part in value.items()}
        return {name: part for name, (part, _) in pairs.items()}, {name: inner for name, (_, inner) in pairs.items()}
    split, spec_split = apart(value), apart(spec)
    if split is None or spec_split is None or isinstance(spec, dict) or len(spec_split[0]) != len(split[0]):
        return value, structure
    given = _structures(value, structure)
    parts = [settled(*part) for part in zip(split[0], given, spec_split[0], strict=True)]
    before = structure[: len(structure) - len(given)]
    return split[1]([part for part, _ in parts]), (*before, *[inner for _, inner in parts])


class Types:
    """The types of elements that come one after the other, for their empty lists.

    The types of earlier elements decide; the first elements wait for one that has a type.
    """

    def __init__(self) -> None:
        self._first: tuple[Any, Any] | None = None
        self._waiting: list[tuple[Any, Any]] = []
        self._are_known = False

    def add(self, value: Any, structure: Any) -> list[Any]:
        """Take the next element that `converted` made; return those whose types are known now."""
        self._waiting.append((value, structure))
        if not self._are_known:
            self._first = settled(*(self._first or (value, structure)), typed_spec(value, structure))
            self._are_known = not has_empty(self._first[1]) or len(self._waiting) >= _MOST_WAITING
        return self.rest() if self._are_known else []

    def rest(self) -> list[Any]:
        """Return the elements that wait."""
        waiting, self._waiting = self._waiting, []
        spec = None if self._first is None else typed_spec(*self._first)
        return [settled(*one, spec)[0] for one in waiting]


def _empty_of(array: np.ndarray[Any, Any], spec: ArraySpec) -> Any:
    if spec.dtype != BYTES:
        return array.astype(spec.dtype)
    made: Any = _NO_STRINGS
    for depth in range(1, max(array.ndim, len(spec.shape or ()))):
        made = _of_rows(made, [0] * (array.shape[-1 - depth] if depth < array.ndim else 0))
    return made


def _is_text(array: np.ndarray[Any, Any]) -> bool:
    return all(isinstance(one, str | bytes) for one in array.ravel().tolist())


def _strings(value: Any) -> tuple[Any, Any]:
    made = strings_of("strings", value)
    if isinstance(made, np.ndarray) and made.ndim == 1:
        made = Ragged.from_list(made.tolist()) if made.size else _NO_STRINGS
    if isinstance(made, Ragged):
        return made, ("Ragged", depth_of(made), BYTES)
    return made, BYTES if isinstance(made, bytes) else ("strings", made.ndim)


def depth_of(ragged: Ragged) -> int:
    """Return the number of its dimensions."""
    depth = 1
    values = ragged.values
    while isinstance(values, Ragged):
        depth, values = depth + 1, values.values
    return depth if ragged.dtype == BYTES else depth + values.ndim


def shown(structure: Any) -> str:
    """Return a structure in words."""
    if isinstance(structure, dict):
        return "{" + ", ".join(f"{name!r}: {shown(one)}" for name, one in structure.items()) + "}"
    if isinstance(structure, np.dtype):
        return "bytes" if structure == BYTES else str(structure)
    if not isinstance(structure, tuple):
        return str(structure)
    if structure and isinstance(structure[0], str):
        return " ".join(map(shown, structure))
    return f"({', '.join(map(shown, structure))}{',' if len(structure) == 1 else ''})"


def spec_of(element: Any) -> Any:
    """Return the specification of elements like this one. Lengths may be others."""
    if element is None:
        return None
    split = apart(element)
    if split is not None:
        return split[1](list(map(spec_of, split[0])))
    if isinstance(element, bytes):
        return ArraySpec((), BYTES)
    if isinstance(element, Ragged):
        return ArraySpec((None,) * depth_of(element), element.dtype)
    if isinstance(element, Sparse):
        return SparseSpec((None,) * len(element.dense_shape), element.dtype)
    if isinstance(element, np.ndarray | np.generic):
        return ArraySpec((None,) * element.ndim, BYTES if element.dtype == object else element.dtype)
    return DatasetSpec(chain_of(element).element_spec) if isinstance(element, Chained) else type(element)


def general(first: Any, second: Any) -> Any:
    """Return the specification that meets two; `None` where one is unknown.

    Raises
    ------
    DtypeError
        If structures or dtypes differ.
    """
    if first is None or second is None:
        return None
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {key: general(inner, second[key]) for key, inner in first.items()}
    split, other_split = apart(first), apart(second)
    if (
        split is not None
        and other_split is not None
        and not isinstance(first, dict)
        and len(split[0]) == len(other_split[0])
    ):
        return split[1]([general(a, b) for a, b in zip(split[0], other_split[0], strict=True)])
    if isinstance(first, DatasetSpec) and isinstance(second, DatasetSpec):
        return DatasetSpec(general(first.element_spec, second.element_spec))
    if not (isinstance(first, ArraySpec) and isinstance(second, ArraySpec) and first.dtype == second.dtype):
        raise DtypeError(f"elements must be alike, not {first!r} and {second!r}")
    if first.shape is None or second.shape is None or len(first.shape) != len(second.shape):
        return first if first.shape == second.shape else replace(first, shape=None)
    return replace(first, shape=tuple(a if a == b else None for a, b in zip(first.shape, second.shape, strict=True)))


def batched_spec(spec: Any, size: int | None) -> Any:
    """Return the specification of batches of elements of one."""
    if isinstance(spec, ArraySpec):
        return replace(spec, shape=None if spec.shape is None else (size, *spec.shape))
    split = apart(spec)
    return spec if split is None else split[1]([batched_spec(one, size) for one in split[0]])


def stacked(elements: Sequence[Any], batch: int) -> Any:
    """Return elements as one batch, number `batch`: arrays stacked, strings and `Ragged` as a `Ragged`.

    Raises
    ------
    InvalidArgumentError
        If they differ in structure, dtype or shape, or are something that can't be stacked.
    """
    first = elements[0]
    if isinstance(first, np.ndarray):
        return _stacked_arrays(elements, batch)
    if isinstance(first, np.generic):
        if any(getattr(element, "dtype", None) != first.dtype or element.ndim for element in elements):
            raise _unlike(elements, batch)
        return np.array(elements, first.dtype)
    if isinstance(first, bytes):
        if not all(isinstance(element, bytes) for element in elements):
            raise _unlike(elements, batch)
        return Ragged.from_list(elements)
    if isinstance(first, dict):
        if any(type(element) is not dict or element.keys() != first.keys() for element in elements):
            raise _unlike(elements, batch)
        return {name: stacked([element[name] for element in elements], batch) for name in first}
    split = apart(first)
    if split is not None:
        if any(type(element) is not type(first) for element in elements):
            raise _unlike(elements, batch)
        rows = [(apart(element) or split)[0] for element in elements]
        if any(len(row) != len(split[0]) for row in rows):
            raise _unlike(elements, batch)
        return split[1]([stacked(part, batch) for part in zip(*rows, strict=True)])
    if first is None:
        if any(element is not None for element in elements):
            raise _unlike(elements, batch)
        return None
    if isinstance(first, Ragged):
        depth = depth_of(first)
        if any(
            not isinstance(element, Ragged) or (element.dtype, depth_of(element)) != (first.dtype, depth)
            for element in elements
        ):
            raise _unlike(elements, batch)
        return _of_rows(concatenated(elements), [len(element) for element in elements])
    if isinstance(first, Sparse):
        return _stacked_sparse(elements, batch)
    raise InvalidArgumentError(f"cannot batch elements that are {type(first).__name__}s (batch {batch})", stage="batch")


def _stacked_arrays(elements: Sequence[Any], batch: int) -> np.ndarray[Any, Any]:
    first = elements[0]
    shape, dtype = first.shape, first.dtype
    for index, one in enumerate(elements):
        if not isinstance(one, np.ndarray) or one.dtype != dtype:
            raise _unlike(elements, batch)
        if one.shape != shape:
            raise InvalidArgumentError(
                f"cannot batch elements of unequal shapes: {list(shape)} and, {index} later, {list(one.shape)} "
                f"(batch {batch}). Use padded_batch, or dense_to_ragged_batch, or reshape them first",
                stage="batch",
            )
    # One call for all, where np.stack takes two for each.
    return np.concatenate(elements).reshape(len(elements), *shape)


def _unlike(elements: Sequence[Any], batch: int) -> InvalidArgumentError:
    first = _structure(elements[0])
    index = next((i for i, one in enumerate(elements) if _structure(one) != first), 0)
    return InvalidArgumentError(
        f"cannot batch elements of different structure: {shown(first)} and, {index} later, "
        f"{shown(_structure(elements[index]))} (batch {batch})",
        stage="batch",
    )


def _structure(value: Any) -> Any:
    try:
        return converted(value)[1]
    except InvalidArgumentError:
        return type(value).__name__


def _of_rows(values: Any, lengths: list[int]) -> Ragged:
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return ragged_of(values, splits)


def concatenated(parts: Sequence[Any]) -> Any:
    """Return the rows of several Ragged, or arrays, behind each other."""
    if isinstance(parts[0], Ragged):
        lengths = np.concatenate([one.row_lengths() for one in parts])
        return _of_rows(concatenated([one.values for one in parts]), lengths)  # type: ignore[arg-type]
    return np.concatenate(parts)


def _stacked_sparse(elements: Sequence[Any], batch: int) -> Sparse:
    # As wide as the widest.
    first = elements[0]
    if any(
        not isinstance(element, Sparse)
        or element.dtype != first.dtype
        or len(element.dense_shape) != len(first.dense_shape)
        for element in elements
    ):
        raise _unlike(elements, batch)
    counts = [len(element.values) for element in elements]
    indices = np.concatenate([element.indices for element in elements])
    rows = np.repeat(np.arange(len(elements), dtype=np.int64), counts)
    shape = np.max([element.dense_shape for element in elements], axis=0)
    values = concatenated([element.values for element in elements])
    return Sparse(np.column_stack([rows, indices]), values, [len(elements), *shape])


def rows_apart(value: Any) -> list[Any]:
    """Return the rows of an array, a `Ragged` or a `Sparse`: views, but of the values of a `Sparse`."""
    if not isinstance(value, Sparse):
        return list(value)
    indices, shape = value.indices, value.dense_shape
    order = np.argsort(indices[:, 0], kind="stable")
    ends = np.searchsorted(indices[order, 0], np.arange(int(shape[0]) + 1))
    places = [order[ends[row] : ends[row + 1]] for row in range(int(shape[0]))]
    return [own(Sparse(indices[one, 1:], value.values[one], shape[1:]), fixed=True) for one in places]


def readonly(value: Any) -> Any:
    """Return an element for one more who gets it: a view that can't be written to, in containers of its own."""
    kind = type(value)
    if kind is np.ndarray:
        view = value.view()
        view.setflags(write=False)
        return view
    if kind is Ragged:
        return ragged_of(readonly(value.values), value.row_splits)
    if kind is Sparse:
        return Sparse(*map(readonly, (value.indices, value.values, value.dense_shape)))
    if kind is dict:
        return {key: readonly(inner) for key, inner in value.items()}
    if kind is tuple or kind is list:
        return kind(map(readonly, value))
    found = None if kind is bytes else apart(value)
    return value if found is None else found[1](list(map(readonly, found[0])))
