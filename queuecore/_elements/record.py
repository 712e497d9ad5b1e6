"""Records as NumPy dtypes: how a fixed-length record is cut into contiguous arrays, one per field.

A *leaf* is one output array. Its bytes in the record may be scattered (a field inside an array of structures), so a
leaf is a list of equally long contiguous *pieces*, in the order in which they stand in the output. The *template*
gives the leaves their names: an int is a leaf's index, a dict is a structure.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = [
    "ArraySpec",
    "DatasetSpec",
    "RecordLeaf",
    "RecordPlan",
    "SparseSpec",
    "compile_bytes",
    "compile_record",
]

# (dtype, shape, swap, offsets, piece_bytes): see RecordLeaf.
NativeLeaf = tuple[np.dtype[Any], tuple[int, ...], int, tuple[int, ...], int]

_SWAP_BOOL = -1
# Offsets of one field's items, with gaps between them.
_MOST_PIECES = 1 << 20
# Items of these kinds have a fixed size and need no Python object: bool, integers, floats, complex, bytes, raw, text,
# times.
_KINDS = frozenset("biufcSVUMm")


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one array of an element.

    Attributes
    ----------
    shape : tuple of int or None, or None
        `None` in it for a dimension that isn't known before the data is read (the last batch may be shorter); instead
        of it where nothing is known of the shape, as in the specification of an iterator made without shapes.
    dtype : numpy.dtype
        Always in native byte order.

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.data import ArraySpec
    >>> ArraySpec((None, 3), np.dtype("f4"))
    ArraySpec(shape=(None, 3), dtype=dtype('float32'))
    """

    shape: tuple[int | None, ...] | None
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class SparseSpec(ArraySpec):
    """Shape and dtype of a `queuecore.ragged.Sparse`.

    Attributes
    ----------
    shape, dtype
        As of `ArraySpec`, of the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.data import SparseSpec
    >>> SparseSpec((None, 3), np.dtype("f4"))
    SparseSpec(shape=(None, 3), dtype=dtype('float32'))
    """


@dataclass(frozen=True)
class DatasetSpec:
    """The specification of an element that is a dataset, as those of `Dataset.window` are.

    Attributes
    ----------
    element_spec : object
        Of its elements, as `Dataset.element_spec`.

    Examples
    --------
    >>> from queuecore.data import Dataset
    >>> Dataset.range(5).window(2).element_spec
    DatasetSpec(element_spec=ArraySpec(shape=(), dtype=dtype('int64')))
    """

    element_spec: Any


@dataclass(frozen=True)
class RecordLeaf:
    """One output array of a record.

    Attributes
    ----------
    dtype : numpy.dtype
        The dtype of the output, in native byte order.
    shape : tuple of int
        The shape of the output for one record.
    swap : int
        Size in bytes of the units to reverse; 0: copy as it is; -1: booleans, any byte other than zero becomes 1.
    offsets : tuple of int
        Where each piece starts in the record, in bytes.
    piece_bytes : int
        Length of every piece.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    swap: int
    offsets: tuple[int, ...]
    piece_bytes: int

    def native(self) -> NativeLeaf:
        """Return the tuple that the native core takes."""
        return self.dtype, self.shape, self.swap, self.offsets, self.piece_bytes


@dataclass(frozen=True)
class RecordPlan:
    """A plan by which a record is cut into arrays.

    Attributes
    ----------
    record_bytes : int
        Length of a record.
    leaves : tuple of RecordLeaf
        The output arrays.
    template : int or dict
        The structure of an element over the indices of the leaves.
    description : object
        The same as plain lists and strings, for the fingerprint in a saved state.
    """

    record_bytes: int
    leaves: tuple[RecordLeaf, ...]
    template: Any
    description: Any

    def spec(self, batch_shape: tuple[int | None, ...]) -> Any:
        """Return the structure of `ArraySpec` of an element with these batch dimensions in front."""

        def fill(template: Any) -> Any:
            if isinstance(template, dict):
                return {name: fill(inner) for name, inner in template.items()}
            leaf = self.leaves[template]
            return ArraySpec(batch_shape + leaf.shape, leaf.dtype)

        return fill(self.template)


def compile_bytes(record_bytes: int) -> RecordPlan:
    """Return the plan of a record that is delivered as a row of bytes."""
    leaf = RecordLeaf(np.dtype(np.uint8), (record_bytes,), 0, (0,), record_bytes)
    return RecordPlan(record_bytes, (leaf,), 0, ["bytes", record_bytes])


def compile_record(record: Any) -> RecordPlan:
    """Return the plan of a record described by anything that `numpy.dtype` takes.

    Raises
    ------
    DtypeError
        If it is no dtype, holds Python objects or fields of no fixed size, or if fields overlap.
    InvalidArgumentError
        If the record, or one of its fields, has no bytes.
    """
    try:
        dtype = np.dtype(record)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"record is no dtype: {error}") from error
    if dtype.hasobject:
        raise DtypeError(f"record {dtype} holds Python objects, which a file can't")
    if dtype.itemsize == 0:
        raise InvalidArgumentError(f"record {dtype} has no bytes")
    leaves: list[RecordLeaf] = []
    template = _cut(dtype, 0, (), (), "", leaves)
    _check_disjoint(leaves, dtype)
    return RecordPlan(dtype.itemsize, tuple(leaves), template, _describe(dtype))


def _cut(
    dtype: np.dtype[Any],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    name: str,
    leaves: list[RecordLeaf],
) -> Any:
    """Append the leaves of `dtype`, which stands at `offset`, repeated by `shape` and `strides`; return a template."""
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        steps = [base.itemsize * math.prod(inner[axis + 1 :]) for axis in range(len(inner))]
        return _cut(base, offset, shape + inner, strides + tuple(steps), name, leaves)
    if dtype.names is not None:
        fields: Any = dtype.fields or {}
        if not dtype.names:
            raise InvalidArgumentError(f"record field {name!r} is a structure with no fields")
        # By .names: .fields also has the titles as keys.
        return {
            key: _cut(fields[key][0], offset + fields[key][1], shape, strides, f"{name}.{key}" if name else key, leaves)
            for key in dtype.names
        }
    if dtype.kind not in _KINDS:
        raise DtypeError(f"record field {name!r} has the dtype {dtype}, which has no fixed layout in a file")
    if dtype.itemsize == 0 or 0 in shape:
        raise InvalidArgumentError(f"record field {name!r} has no bytes")
    leaves.append(_leaf(dtype, offset, shape, strides))
    return len(leaves) - 1


def _leaf(dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> RecordLeaf:
    # Grow one piece over the inner dimensions, as long as they follow each other without a gap.
    piece = dtype.itemsize
    outer = len(shape)
    while outer and (shape[outer - 1] == 1 or strides[outer - 1] == piece):
        piece *= shape[outer - 1]
        outer -= 1
    if math.prod(shape[:outer]) > _MOST_PIECES:
        raise InvalidArgumentError(f"a record field of shape {shape} lies in more than {_MOST_PIECES} pieces")
    offsets = [offset]
    for count, stride in zip(shape[:outer], strides[:outer], strict=True):
        offsets = [start + index * stride for start, index in itertools.product(offsets, range(count))]
    return RecordLeaf(dtype.newbyteorder("="), shape, _swap(dtype), tuple(offsets), piece)


def _swap(dtype: np.dtype[Any]) -> int:
    if dtype.kind == "b":
        return _SWAP_BOOL
    if dtype.isnative:
        return 0
    if dtype.kind == "c":
        return dtype.itemsize // 2
    return 4 if dtype.kind == "U" else dtype.itemsize


def _check_disjoint(leaves: list[RecordLeaf], dtype: np.dtype[Any]) -> None:
    starts = np.concatenate([np.array(leaf.offsets, dtype=np.int64) for leaf in leaves])
    lengths = np.concatenate([np.full(len(leaf.offsets), leaf.piece_bytes, dtype=np.int64) for leaf in leaves])
    by_start = np.argsort(starts, kind="stable")
    starts, ends = starts[by_start], (starts + lengths)[by_start]
    if np.any(starts[1:] < ends[:-1]):
        raise DtypeError(f"record {dtype} has fields that overlap")


def _describe(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ["array", list(shape), _describe(base)]
    if dtype.names is not None:
        fields: Any = dtype.fields or {}
        return ["struct", dtype.itemsize, [[name, fields[name][1], _describe(fields[name][0])] for name in dtype.names]]
    return dtype.str
