"""Elements of users' values: dicts and tuples of arrays, numbers, strings and `Ragged`, as columns of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._elements.component import BYTES, Component
from queuecore._elements.dtypes import kind_of
from queuecore._elements.nests import apart, structure_of
from queuecore._elements.record import ArraySpec, DatasetSpec, SparseSpec
from queuecore.data._plan.chain import Chained
from queuecore.data._plan.made import Layout
from queuecore.data._rows.chunks import Column
from queuecore.data._rows.frames import unframed
from queuecore.data._rows.values import rows_apart
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

__all__ = ["element_of", "flattened", "objects_of_slices", "rows_of_element", "rows_of_slices"]

_INT64_BYTES = 8


def flattened(
    value: Any, leaf: Callable[[Any, str], Any], place: str = "", opened: Callable[[Any, str], Any] | None = None
) -> tuple[Any, list[Any]]:
    """Return the structure of a value over numbers of leaves, and what `leaf` makes of each and its place in words.

    Dicts, tuples and records are structure, and `None` has no leaves; everything else, a list too, is a leaf. `opened`
    is called before with each value and its place, and returns what is taken for it.
    """
    leaves: list[Any] = []

    def walk(inner: Any, place: str) -> Any:
        if inner is None:
            return None
        if type(inner) is np.ndarray and inner.dtype.names is None:  # most leaves
            leaves.append(leaf(inner, place))
            return len(leaves) - 1
        if opened is not None:
            inner = opened(inner, place)
        if isinstance(inner, dict):
            return {key: walk(part, f"{place}[{key!r}]") for key, part in inner.items()}
        if isinstance(inner, np.ndarray) and inner.dtype.names is not None:
            return {key: walk(inner[key], f"{place}[{key!r}]") for key in inner.dtype.names}
        split = apart(inner)
        if split is not None:
            return split[1]([walk(part, f"{place}[{index}]") for index, part in enumerate(split[0])])
        leaves.append(leaf(inner, place))
        return len(leaves) - 1

    return walk(value, place), leaves


def rows_of_slices(tensors: Any, private: bool = False) -> tuple[int, list[Column], Layout] | None:
    """Return the slices of values along their first dimension: how many, and as which columns they lie.

    `None` if columns can't hold the slices of one of them. private: nobody else can write to the memory of any.

    Raises
    ------
    InvalidArgumentError
        If one is a scalar, or they are not of one length, or there are none.
    DtypeError
        If one is no array of numbers or strings.
    """
    what = "from_tensor_slices: tensors"
    template, leaves = flattened(tensors, lambda value, where: (_tensors(value, where, private), where), what, unframed)
    if not leaves:
        raise InvalidArgumentError("from_tensor_slices: tensors has no arrays in it")
    if any(_needs_objects(value) for value, _ in leaves):
        return None
    parts = [_slices_of(value, where, private) for value, where in leaves]
    lengths = [n for n, _, _ in parts]
    if min(lengths) != max(lengths):
        raise InvalidArgumentError(f"from_tensor_slices: all arrays must have the same length, not {lengths}")
    return lengths[0], [column for _, _, columns in parts for column in columns], _layout(template, parts)


def _tensors(value: Any, where: str, private: bool = False) -> Any:
    """Return values that are to be sliced: a list of datasets as it is."""
    if isinstance(value, list) and value and all(isinstance(one, Chained) for one in value):
        return value
    return as_tensor(value, where, private)


def _needs_objects(value: Any) -> bool:
    if isinstance(value, Ragged):
        inner = value.values
        return isinstance(inner, Ragged) and not inner.is_bytes
    return isinstance(value, Sparse | list) or (
        isinstance(value, np.ndarray) and value.dtype == object and value.ndim > 2
    )


def objects_of_slices(tensors: Any) -> tuple[list[Any], Any]:
    """Return the slices of values along their first dimension as read-only objects, and their specification.

    Raises
    ------
    InvalidArgumentError
        If one is a scalar, or they are not of one length.
    """
    what = "from_tensor_slices: tensors"
    template, columns = flattened(tensors, lambda value, where: _items(_tensors(value, where), where), what, unframed)
    lengths = [len(one) for one, _ in columns]
    if min(lengths) != max(lengths):
        raise InvalidArgumentError(f"from_tensor_slices: all arrays must have the same length, not {lengths}")
    rows = [structure_of(template, row) for row in zip(*[one for one, _ in columns], strict=True)]
    return rows, structure_of(template, [spec for _, spec in columns])


def _items(value: Any, where: str) -> tuple[list[Any], Any]:
    """Return the slices of one value, and the specification of each."""
    if isinstance(value, list):
        return value, DatasetSpec(value[0].element_spec)
    if isinstance(value, Chained) or (isinstance(value, np.ndarray) and not value.ndim):
        raise InvalidArgumentError(f"{where} is a scalar, and has no slices")
    (whole, spec) = element_of(value)
    if isinstance(whole, np.ndarray) and whole.dtype == object:
        parts = [element_of(row)[0] for row in whole]
    else:
        parts = rows_apart(whole)
    return parts, replace(spec, shape=spec.shape[1:])


def rows_of_element(tensors: Any) -> tuple[list[Column], Layout] | None:
    """Return one element as columns of one row; `None` if columns can't hold one of its parts.

    Raises
    ------
    InvalidArgumentError
        If there is nothing in it.
    DtypeError
        If a part is no array of numbers or strings.
    """
    label = "from_tensors: tensors"
    template, values = flattened(tensors, as_tensor, label, unframed)
    if not values and tensors is not None:
        raise InvalidArgumentError("from_tensors: tensors has no arrays in it")
    if not values or any(not isinstance(one, np.ndarray) or (one.dtype == object and one.ndim > 1) for one in values):
        return None
    parts = [_slices_of(one[np.newaxis], label) for one in values]
    return [column for _, _, columns in parts for column in columns], _layout(template, parts)


def element_of(tensors: Any) -> tuple[Any, Any]:
    """Return an element as a read-only object, and its specification. Errors as for `rows_of_element`."""
    template, values = flattened(tensors, as_tensor, "from_tensors: tensors", unframed)
    specs: list[Any] = []
    for index, value in enumerate(values):
        if isinstance(value, Ragged):
            values[index] = own(value, fixed=True)
            inner: Any = value
            sides: tuple[int | None, ...] = (len(value),)
            while isinstance(inner, Ragged) and not inner.is_bytes:
                inner = inner.values
                sides += (None,)
            specs.append(ArraySpec(sides if isinstance(inner, Ragged) else sides + inner.shape[1:], value.dtype))
        elif isinstance(value, Sparse):
            values[index] = own(value, fixed=True)
            specs.append(SparseSpec(tuple(value.dense_shape.tolist()), value.dtype))
        elif isinstance(value, Chained):
            specs.append(DatasetSpec(value.element_spec))
        elif value.dtype == object:
            specs.append(ArraySpec(value.shape, BYTES))
            if value.ndim < 2:
                values[index] = value[()] if not value.ndim else Ragged.from_list(value.tolist() or [b""])[: len(value)]
        else:
            specs.append(ArraySpec(value.shape, value.dtype))
            values[index] = value if value.ndim else value[()]
    return structure_of(template, values), structure_of(template, specs)


def _layout(template: Any, parts: Sequence[tuple[int, Component, list[Column]]]) -> Layout:
    components = [component for _, component, _ in parts]
    if isinstance(template, dict) and all(isinstance(name, str) and type(at) is int for name, at in template.items()):
        # A flat dict: its parts can be named in stages.
        components = [one._replace(name=name) for name, one in zip(template, components, strict=True)]
    return Layout(tuple(components), template)


def as_tensor(value: Any, place: str, private: bool = False) -> Any:
    """Return a value as an array in native byte order that nobody changes, of strings as `bytes`; or a `Ragged`.

    An array is a copy, unless nobody can write to its memory; a `Ragged`, a `Sparse` and a dataset are not. private:
    nobody else can.
    """
    if isinstance(value, Ragged | Sparse | Chained):
        return value
    if isinstance(value, bytes | bytearray | memoryview | str):
        strings: np.ndarray[Any, Any] = np.empty((), object)
        strings[()] = value.encode() if isinstance(value, str) else bytes(value)
        return strings
    try:
        array = np.asarray(value)
        if array.dtype.kind in "SU" and not isinstance(value, np.ndarray | np.generic):
            array = np.array(value, object)  # NumPy's own strings lose the zero bytes at their end
    except ValueError as error:
        raise InvalidArgumentError(f"{place}: {error}") from None
    if array.dtype.kind in "SUO":
        flat = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
        if not all(isinstance(one, bytes) for one in flat):
            raise DtypeError(f"{place} must be an array of numbers or of strings, not {value!r:.60}")
        strings = np.empty(len(flat), object)
        strings[:] = flat
        return strings.reshape(array.shape)
    if kind_of(array.dtype) not in "biufc" or array.dtype.itemsize > 16:
        hint = ": hand in numbers, as .astype('int64') gives them" if array.dtype.kind in "mM" else ""
        raise DtypeError(f"{place} must be an array of numbers or of strings, not of {array.dtype}{hint}")
    native = array.dtype.newbyteorder("=")
    if isinstance(value, list | int | float | complex):
        array = np.asarray(array, native, order="C")
    elif array.flags.c_contiguous and array.dtype == native:
        array = array if private else own(array)
    else:
        array = np.array(array, native, order="C")
    array.setflags(write=False)
    return array


def _slices_of(tensor: Any, place: str, private: bool = False) -> tuple[int, Component, list[Column]]:
    """Return the slices of what `as_tensor` returned."""
    if isinstance(tensor, Ragged):
        return _ragged_slices(tensor, place, private)
    if isinstance(tensor, Chained):
        raise DtypeError(f"{place} must be an array of numbers or of strings, not a dataset")
    if tensor.ndim == 0:
        raise InvalidArgumentError(f"{place} is a scalar, and has no slices")
    if tensor.dtype == object:
        return len(tensor), *_string_slices(tensor, place)
    return len(tensor), Component(tensor.dtype, tensor.shape[1:]), [tensor]


def _ragged_slices(ragged: Ragged, place: str, private: bool) -> tuple[int, Component, list[Column]]:
    if isinstance(ragged.values, Ragged):
        inner = ragged.values
        if not inner.is_bytes:
            raise InvalidArgumentError(f"{place}: rows of rows of numbers can't be elements")
        splits = np.asarray(ragged.row_splits, np.int64)
        data, ends = _bytes_of(inner, private)
        lengths = np.diff(ends)
        made: list[Column] = [
            (data, np.ascontiguousarray(ends[splits]), None),
            (lengths.view(np.uint8), splits * _INT64_BYTES, None),
        ]
        return len(ragged), Component(BYTES, (None,)), made
    if ragged.is_bytes:
        return len(ragged), Component(BYTES, ()), [(*_bytes_of(ragged, private), None)]
    values = as_tensor(ragged.values, place, private)
    row_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
    ends = np.asarray(ragged.row_splits, np.int64) * row_bytes
    component = Component(values.dtype, (None, *values.shape[1:]), ragged=True)
    return len(ragged), component, [(values.reshape(-1).view(np.uint8), ends, None)]


def _bytes_of(ragged: Ragged, private: bool) -> tuple[Any, Any]:
    values: Any = ragged.values
    return as_tensor(values.view(np.uint8), "", private), np.array(ragged.row_splits, np.int64)


def _string_slices(strings: np.ndarray[Any, Any], where: str) -> tuple[Component, list[Column]]:
    if strings.ndim > 2:
        raise InvalidArgumentError(f"{where} has strings in {strings.ndim} dimensions; at most two are possible")
    flat = strings.ravel().tolist()
    data = np.frombuffer(b"".join(flat), np.uint8)
    lengths = np.fromiter(map(len, flat), np.int64, len(flat))
    ends = np.zeros(len(flat) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if strings.ndim == 1:
        return Component(BYTES, ()), [(data, ends, None)]
    width = strings.shape[1]
    counts = np.arange(len(strings) + 1, dtype=np.int64) * width
    columns: list[Column] = [(data, ends[counts], None), (lengths.view(np.uint8), counts * _INT64_BYTES, None)]
    return Component(BYTES, (width,)), columns
