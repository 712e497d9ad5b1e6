"""Items picked out of tensors, put into them, sorted, and counted: NumPy's functions under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor, folded_value
from queuecore.tf1._graph.values import TensorShape, as_dtype, bracketed, int32, name_of, string
from queuecore.tf1._ops.arrays import reverse, shape_tensor, shape_within, structural
from queuecore.tf1._ops.math import axes_of, identity, tensors

__all__ = [
    "argsort",
    "bitcast",
    "dynamic_partition",
    "dynamic_stitch",
    "gather_nd",
    "invert_permutation",
    "reverse_sequence",
    "reverse_v2",
    "roll",
    "scatter_nd",
    "searchsorted",
    "sequence_mask",
    "setdiff1d",
    "sort",
    "unique",
    "unique_with_counts",
]

reverse_v2 = reverse


class Unique(NamedTuple):
    """The result of `unique`."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """The result of `unique_with_counts`."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]


class ListDiff(NamedTuple):
    """The result of `setdiff1d`."""

    out: Tensor
    idx: Tensor


def _integers(value: Any, what: str) -> Tensor:
    operand = convert_to_tensor(value)
    if operand.dtype.name not in ("int32", "int64"):
        raise TypeError(
            f"Value passed to parameter '{what}' has DataType {name_of(operand.dtype)} not in list of allowed values: "
            "int32, int64"
        )
    return operand


def gather_nd(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Return the items, or the parts, that rows of indices name.

    Parameters
    ----------
    params : Tensor
    indices : Tensor of int32 or int64, shape (..., d)
        Each row names a place in the first `d` dimensions.
    name : str, optional

    Returns
    -------
    Tensor, shape (...) and the other dimensions of `params`
    """
    operand, places = convert_to_tensor(params), _integers(indices, "indices")
    shape: Any = None
    if places.shape.sides and places.shape.sides[-1] is not None and operand.shape.sides is not None:
        shape = [*places.shape.sides[:-1], *operand.shape.sides[places.shape.sides[-1] :]]

    def kernel(x: Any, indexes: Any) -> Any:
        flat = indexes.reshape(-1, indexes.shape[-1])
        sides = x.shape[: indexes.shape[-1]]
        outside = ((flat < 0) | (flat >= sides)).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            raise InvalidArgumentError(
                f"indices[{row}] = {flat[row].tolist()} does not index into param shape {bracketed(x.shape)}"
            )
        return x[tuple(np.moveaxis(indexes, -1, 0))]

    return apply_op("GatherNd", [operand, places], operand.dtype, shape, structural(kernel, operand.dtype), name)


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return a tensor of zeros, with numbers added to it at the places that rows of indices name.

    Parameters
    ----------
    indices : Tensor of int32 or int64, shape (..., d)
    updates : Tensor of numbers
    shape : Tensor of integers
        That of the result.
    name : str, optional
    """
    places, addends, sides = _integers(indices, "indices"), convert_to_tensor(updates), shape_tensor(shape)

    def kernel(at: Any, new: Any, to: Any) -> Any:
        array = np.zeros([int(one) for one in to], addends.dtype.dtype)
        flat = at.reshape(-1, at.shape[-1])
        if ((flat < 0) | (flat >= array.shape[: at.shape[-1]])).any():
            raise InvalidArgumentError(f"indices do not index into shape {bracketed(array.shape)}: {flat.tolist()}")
        np.add.at(array, tuple(np.moveaxis(at, -1, 0)), new)
        return array

    return apply_op("ScatterNd", [places, addends, sides], addends.dtype, shape_within(sides), kernel, name)


# Different values


def _first_places(x: Any) -> tuple[Any, Any, Any]:
    # The different items in the order in which they come, the place of each among them, and how often each is there.
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return x[first[order]], places[inverse.ravel()], counts[order]


def _unique(type_: str, x: Any, out_idx: Any, name: str | None, count: int) -> list[Tensor]:
    operand, kind = convert_to_tensor(x), as_dtype(out_idx)
    operand.shape.ranked(1)
    outputs: list[Any] = [(operand.dtype, (None,)), (kind, operand.shape), (kind, (None,))][:count]

    def kernel(value: Any) -> Any:
        items, places, counts = _first_places(value)
        return [items, places.astype(kind.dtype), counts.astype(kind.dtype)][:count]

    return list(operand.graph.create_op(type_, [operand], outputs, kernel, name or type_, pure=True).outputs)


def unique(x: Any, out_idx: Any = np.int32, name: str | None = None) -> Unique:
    """Return the different items of a vector in the order in which they come, and each item's place among them.

    Parameters
    ----------
    x : Tensor, vector
    out_idx : {int32, int64}, default int32
        The type of places.
    name : str, optional

    Returns
    -------
    y, idx : Tensor
    """
    return Unique(*_unique("Unique", x, out_idx, name, 2))


def unique_with_counts(x: Any, out_idx: Any = np.int32, name: str | None = None) -> UniqueWithCounts:
    """As `unique`, and how often each item is there: ``y``, ``idx`` and ``count``."""
    return UniqueWithCounts(*_unique("UniqueWithCounts", x, out_idx, name, 3))


def setdiff1d(x: Any, y: Any, index_dtype: Any = np.int32, name: str | None = None) -> ListDiff:
    """Return the items of a vector that aren't in another one, and their places: ``out`` and ``idx``."""
    a, b = tensors(x, y)
    kind = as_dtype(index_dtype)

    def kernel(first: Any, second: Any) -> Any:
        left = np.flatnonzero(~np.isin(first, second))
        return first[left], left.astype(kind.dtype)

    outputs: list[Any] = [(a.dtype, (None,)), (kind, (None,))]
    return ListDiff(*a.graph.create_op("ListDiff", [a, b], outputs, kernel, name or "ListDiff", pure=True).outputs)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Return where each of the numbers 0, 1, ... is in a vector that has each of them once."""
    operand = _integers(x, "x")
    operand.shape.ranked(1)

    def kernel(value: Any) -> Any:
        if not np.array_equal(np.sort(value), np.arange(len(value))):
            raise InvalidArgumentError(f"{value.tolist()} is no permutation of 0, 1, ... {len(value) - 1}")
        return np.argsort(value).astype(value.dtype)

    return apply_op("InvertPermutation", [operand], operand.dtype, operand.shape, kernel, name)


# Order


def _direction(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError("Direction should be one of ASCENDING, DESCENDING")
    return direction == "DESCENDING"


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Return the places of items in the order of their values, int32; equal ones keep their order.

    Parameters
    ----------
    values : Tensor of numbers
    axis : int, default -1
    direction : {"ASCENDING", "DESCENDING"}
    stable : bool
        Accepted: it always is.
    name : str, optional
    """
    del stable
    falling = _direction(direction)
    operand = convert_to_tensor(values)
    axes_of(axis, operand.shape.ndims, "argsort")

    def kernel(x: Any) -> Any:
        if not falling:
            return np.argsort(x, axis, kind="stable").astype(np.int32)
        last = x.shape[axis] - 1
        return (last - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)).astype(np.int32)

    return apply_op("ArgSort", [operand], int32, operand.shape, kernel, name or "argsort")


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Return numbers in order.

    Parameters
    ----------
    values : Tensor of numbers
    axis : int, default -1
    direction : {"ASCENDING", "DESCENDING"}
    name : str, optional
    """
    falling = _direction(direction)
    operand = convert_to_tensor(values)
    axes_of(axis, operand.shape.ndims, "sort")

    def kernel(x: Any) -> Any:
        made = np.sort(x, axis, kind="stable")
        return np.flip(made, axis) if falling else made

    return apply_op("Sort", [operand], operand.dtype, operand.shape, kernel, name or "sort")


def searchsorted(
    sorted_sequence: Any, values: Any, side: Any = "left", out_type: Any = np.int32, name: str | None = None
) -> Tensor:
    """Return where values would stand in sorted rows.

    Parameters
    ----------
    sorted_sequence : Tensor, shape (..., n)
    values : Tensor, shape (..., m)
    side : {"left", "right"}
        Before or behind items that are equal.
    out_type : {int32, int64}, default int32
    name : str, optional
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be either 'right' or 'left'. Saw: {side}.")
    rows, needles = tensors(sorted_sequence, values)
    kind = as_dtype(out_type)

    def kernel(x: Any, v: Any) -> Any:
        flat = zip(x.reshape(-1, x.shape[-1]), v.reshape(-1, v.shape[-1]), strict=True)
        found = [np.searchsorted(row, want, side) for row, want in flat]
        return np.array(found, kind.dtype).reshape(v.shape)

    return apply_op("SearchSorted", [rows, needles], kind, needles.shape, kernel, name)


# Rows of different lengths


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = bool, name: str | None = None) -> Tensor:
    """Return for each length a row in which so many items are true, and those behind are false.

    Parameters
    ----------
    lengths : Tensor of integers
    maxlen : int or Tensor, optional
        The length of rows. Default: the largest one of `lengths`.
    dtype : dtype, default bool
    name : str, optional
    """
    operand, kind = convert_to_tensor(lengths), as_dtype(dtype)
    max_length = None if maxlen is None else convert_to_tensor(maxlen)
    known = None if max_length is None else constant_value(max_length)
    if max_length is not None:
        max_length.shape.ranked(0)
    counted = constant_value(operand) if max_length is None else None
    width = known if counted is None else np.max(counted, initial=0)
    shape = operand.shape.concatenate([None if width is None else int(width)])

    def kernel(counts: Any, *columns: Any) -> Any:
        places = np.arange(columns[0] if columns else np.max(counts, initial=0))
        return (places < np.expand_dims(counts, -1)).astype(kind.dtype)

    inputs = [operand] if max_length is None else [operand, max_length]
    return apply_op("SequenceMask", inputs, kind, shape, kernel, name)


def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: int | None = None, batch_axis: int | None = None, name: str | None = None,
    seq_dim: int | None = None, batch_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Return a tensor in whose rows the first items are reversed: in each row as many as its length says.

    Parameters
    ----------
    input : Tensor
    seq_lengths : Tensor of int32 or int64, vector
    seq_axis, seq_dim : int
        The dimension along which items are reversed.
    batch_axis, batch_dim : int, default 0
        The dimension of rows.
    name : str, optional
    """
    operand, lengths = convert_to_tensor(input), _integers(seq_lengths, "seq_lengths")
    axis = seq_dim if seq_axis is None else seq_axis
    rows = batch_dim if batch_axis is None else batch_axis
    rows = 0 if rows is None else rows
    if axis is None:
        raise ValueError("reverse_sequence: seq_axis must be given")
    lengths.shape.ranked(1)

    def kernel(x: Any, counts: Any) -> Any:
        array = x.copy()
        target, source = (np.moveaxis(one, (rows, axis), (0, 1)) for one in (array, x))
        if len(counts) != len(source):
            told = f"({len(counts)} vs. {len(source)})"
            raise InvalidArgumentError(f"Length of seq_lengths != input.dims({rows}), {told}")
        for at, count in enumerate(counts):
            if not 0 <= count <= source.shape[1]:
                raise InvalidArgumentError(f"seq_lens({at}) > input.dims({axis}): {count} of {source.shape[1]}")
            target[at, :count] = source[at, :count][::-1]
        return array

    return apply_op("ReverseSequence", [operand, lengths], operand.dtype, operand.shape, kernel, name)


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Return a tensor whose items are moved along axes; items that leave at one end come in at the other."""
    operand, by, along = convert_to_tensor(input), _integers(shift, "shift"), _integers(axis, "axis")

    def kernel(x: Any, steps: Any, axes: Any) -> Any:
        return np.roll(x, np.ravel(steps).tolist(), np.ravel(axes).tolist())

    return apply_op("Roll", [operand, by, along], operand.dtype, operand.shape, kernel, name)


# Parts


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Return tensors of the items, or rows, that have the numbers 0, 1, ...

    Parameters
    ----------
    data : Tensor
    partitions : Tensor of int32
        A number for each item or row: its shape is that of the first dimensions of `data`.
    num_partitions : int
    name : str, optional
    """
    operand, numbers = convert_to_tensor(data), convert_to_tensor(partitions, int32)
    shape = TensorShape([None]).concatenate(_behind(operand, numbers))

    def kernel(x: Any, partition_numbers: Any) -> Any:
        wrong = np.argwhere((partition_numbers < 0) | (partition_numbers >= num_partitions))
        if len(wrong):
            place = tuple(wrong[0].tolist())
            told = f"[{','.join(map(str, place))}]" if place else ""
            raise InvalidArgumentError(f"partitions{told} = {partition_numbers[place]} is not in [0, {num_partitions})")
        parts = [x[partition_numbers == at] for at in range(num_partitions)]
        return parts[0] if num_partitions == 1 else parts

    outputs = [(operand.dtype, shape)] * num_partitions
    op = operand.graph.create_op(
        "DynamicPartition", [operand, numbers], outputs, kernel, name or "DynamicPartition", pure=True
    )
    return list(op.outputs)


def _behind(data: Tensor, numbers: Tensor) -> TensorShape:
    # The dimensions of data behind those for whose items there are numbers.
    rank = numbers.shape.ndims
    if rank is None or data.shape.sides is None:
        return TensorShape(None)
    data.shape[:rank].assert_is_compatible_with(numbers.shape)
    return TensorShape(data.shape.sides[rank:])


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Return one tensor of the items, or rows, of several, each at the place that its index says.

    Parameters
    ----------
    indices : list of Tensor of int32
    data : list of Tensor
        Each has the shape of its indices, and the same further dimensions. Of equal indices the last one holds.
    name : str, optional
    """
    index_tensors = [convert_to_tensor(one, int32) for one in indices]
    operands = tensors(*data)
    count = len(index_tensors)
    if len(operands) != count:
        raise ValueError(
            f"List argument 'data' to 'dynamic_stitch' Op with length {len(operands)} must match length {count} of "
            "argument 'indices'."
        )
    rest = TensorShape(None)
    for numbers, operand in zip(index_tensors, operands, strict=True):
        rest = rest.merge_with(_behind(operand, numbers))

    def rows(places: Any) -> int:
        return max((int(np.max(indexes, initial=-1)) + 1 for indexes in places), default=0)

    def kernel(*values: Any) -> Any:
        places, parts = values[:count], values[count:]
        sides = np.shape(parts[0])[np.ndim(places[0]) :]
        array = np.zeros((rows(places), *sides), object if operands[0].dtype == string else operands[0].dtype.dtype)
        for number, (indexes, part) in enumerate(zip(places, parts, strict=True)):
            if np.shape(part) != (*np.shape(indexes), *sides):
                raise InvalidArgumentError(
                    f"data[{number}].shape = {list(np.shape(part))} does not start with indices[{number}].shape = "
                    f"{list(np.shape(indexes))}, or doesn't end with {list(sides)}, as data[0].shape does"
                )
            wrong = np.flatnonzero(np.less(indexes, 0))
            if len(wrong):
                raise InvalidArgumentError(f"indices[{wrong[0]}] is out of range: it is {np.ravel(indexes)[wrong[0]]}")
            array[indexes] = part
        return array

    known = [folded_value(indexes) for indexes in index_tensors]
    size = None if any(indexes is None for indexes in known) else rows(known)
    shape = TensorShape([size]).concatenate(rest)
    return apply_op("DynamicStitch", [*index_tensors, *operands], operands[0].dtype, shape, kernel, name)


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Return the bytes of numbers as numbers of another type.

    Parameters
    ----------
    input : Tensor of numbers
    type : dtype
        Smaller ones get a further dimension; for larger ones the last dimension must have as many items as go into one.
    name : str, optional
    """
    operand, target = convert_to_tensor(input), as_dtype(type)
    if operand.dtype.base_dtype == target:
        made: Tensor = identity(operand, name)
        return made
    have, want = operand.dtype.itemsize, target.itemsize
    sides = operand.shape.sides
    shape: Any = None
    if sides is not None:
        if want > have and (not sides or sides[-1] not in (None, want // have)):
            told = f"from {name_of(operand.dtype)} to {name_of(target)}"
            raise ValueError(f"Cannot bitcast {told}: the last dimension of {operand.shape} is not {want // have}")
        shape = sides if have == want else (*sides, have // want) if have > want else sides[:-1]

    def kernel(x: Any) -> Any:
        array = np.ascontiguousarray(x)
        if have > want:
            return array.reshape(*np.shape(x), 1).view(target.dtype)
        numbers = array.reshape(np.shape(x)).view(target.dtype)
        return numbers[..., 0] if want > have else numbers

    return apply_op("Bitcast", [operand], target, shape, kernel, name)
