"""Tensors of other shapes: constants, stacks, parts. As in `_ops.math`, pure kernels also take symbols of a trace."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore import ops
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import (
    Operation,
    Tensor,
    apply_op,
    constant_value,
    convert_to_tensor,
    get_default_graph,
    register_packing,
)
from queuecore.tf1._graph.values import (
    Dimension,
    DType,
    Sides,
    TensorShape,
    as_dtype,
    as_shape,
    as_value,
    bracketed,
    broadcast,
    float32,
    name_of,
    string,
    word_of,
)
from queuecore.tf1._ops.math import axes_of, cast, identity, slice_shape, tensors

__all__ = [
    "boolean_mask",
    "broadcast_to",
    "concat",
    "constant",
    "expand_dims",
    "fill",
    "gather",
    "identity_n",
    "lin_space",
    "linspace",
    "meshgrid",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "placeholder",
    "placeholder_with_default",
    "rank",
    "reshape",
    "reverse",
    "shape",
    "size",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "tile",
    "transpose",
    "unstack",
    "where",
    "zeros",
    "zeros_like",
]


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """Return a tensor of this value.

    Parameters
    ----------
    value : object
        A number, a string, or lists or an array of them.
    dtype : dtype, optional
        Default: NumPy's arrays' own; float32, int32 (int64 for numbers that need it), bool or string of Python's.
    shape : optional
        If the value has fewer items, the last one is repeated.
    name : str
    verify_shape : bool, default False
        Whether the value must have the shape.

    Raises
    ------
    TypeError, ValueError
        If it is no such value.
    """
    content = as_value(value, dtype)
    if shape is not None:
        sides: Any = as_shape(shape).as_list()
        if verify_shape and np.shape(content) != tuple(sides):
            raise TypeError(f"Expected Tensor's shape: {tuple(sides)}, got {np.shape(content)}.")
        flat = np.ravel(np.array(content, object) if isinstance(content, bytes) else content)
        count = math.prod(sides)
        if flat.size > count:
            raise ValueError(f"Too many elements provided. Needed at most {count}, but received {flat.size}")
        if flat.size < count and not flat.size:
            raise ValueError(f"{value!r} has no item to fill the shape {tuple(sides)} with")
        if count >= 2**31:  # more than a graph holds
            raise ValueError(f"Cannot create a tensor whose content is larger than 2GB: shape {tuple(sides)}")
        filled = np.concatenate([flat, np.full(count - flat.size, flat[-1] if flat.size else 0, flat.dtype)])
        content = as_value(filled.reshape(sides), dtype)
    return convert_to_tensor(content, name=name)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Return a tensor whose value is given to each run, in `feed_dict`.

    Parameters
    ----------
    dtype : dtype
    shape : optional
        The shape that values must have; `None`: any.
    name : str, optional
    """
    target = as_dtype(dtype)
    known = as_shape(shape).sides
    sides = "" if known is None else f" and shape {bracketed(known)}"

    def kernel(run: Any) -> Any:
        raise InvalidArgumentError(
            f"You must feed a value for placeholder tensor '{made.op.name}' with dtype {word_of(target)}{sides}: "
            "run(..., feed_dict={placeholder: value})"
        )

    made = apply_op("Placeholder", [], target, shape, kernel, name, pure=False)
    return made


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return a tensor whose value may be given to each run, in `feed_dict`, and otherwise is that of `input`.

    Parameters
    ----------
    input : Tensor, or what can be one
    shape : shape or None
        The shape that values must have; `None`: any.
    name : str, optional

    Raises
    ------
    ValueError
        If `input` has another shape.
    """
    operand = convert_to_tensor(input)
    operand.shape.equal_to(shape)
    return apply_op("PlaceholderWithDefault", [operand], operand.dtype, shape, lambda x: x, name)


def structural(kernel: Callable[..., Any], dtype: DType) -> Callable[..., Any]:
    """Return a kernel that moves items, also of strings, where a single string is bytes and no array."""
    if dtype != string:
        return kernel

    def moved(*values: Any) -> Any:
        made = kernel(*[_objects(one) if isinstance(one, bytes) else one for one in values])
        return made[()] if isinstance(made, np.ndarray) and not made.ndim else made

    return moved


def _objects(value: bytes) -> Any:
    made = np.empty((), object)
    made[()] = value
    return made


def _at(axis: Any, rank: int | None, what: str) -> int:
    """Return one axis, not negative if the rank is known; with an unknown rank as it is given."""
    found = axes_of(axis, rank, what)
    if found is None or len(found) != 1:
        raise ValueError(f"{what} needs one axis, got {axis!r}")
    return found[0]


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Return tensors of one shape, one after the other along a new dimension.

    Raises
    ------
    TypeError, ValueError
        If there are none, they have several types or shapes, or there is no such axis.
    """
    if isinstance(values, Tensor):
        values = unstack(values)
    values = list(values)
    if not values:
        raise ValueError("there is nothing to stack")
    operands = tensors(*values)
    shape = operands[0].shape
    for operand in operands[1:]:
        shape = shape.equal_to(operand.shape)
    sides: Any = None
    if shape.sides is not None:
        rank = len(shape.sides) + 1
        if not -rank <= axis < rank:
            raise ValueError(f"Argument `axis` = {axis} not in range [{-rank}, {rank})")
        sides = [*shape.sides[: axis % rank], len(operands), *shape.sides[axis % rank :]]
    kernel = structural(lambda *parts: np.stack(parts, axis), operands[0].dtype)
    return apply_op("Pack", operands, operands[0].dtype, sides, kernel, name)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return a tensor with the same items in another shape; -1: one side, which makes the sizes match."""
    operand = convert_to_tensor(tensor)
    sides_told = shape.as_list() if isinstance(shape, TensorShape) else shape
    parts = sides_told if isinstance(sides_told, (list, tuple)) else [sides_told]
    long = any(isinstance(part, Tensor) and name_of(part.dtype) == "int64" for part in parts)
    shape_operand = convert_to_tensor(sides_told, np.int64 if long else np.int32)
    constant = constant_value(shape_operand)
    if constant is None:
        return apply_op(
            "Reshape",
            [operand, shape_operand],
            operand.dtype,
            shape_within(shape_operand),
            structural(lambda x, to: np.reshape(x, [int(side) for side in to]), operand.dtype),
            name,
        )
    numbers = tuple(int(side) for side in np.ravel(constant))
    if numbers.count(-1) > 1 or any(side < -1 for side in numbers):
        raise ValueError(f"a shape is of numbers from 0 on, and -1 once at most, not {list(numbers)}")
    sides: list[int | None] = [None if side == -1 else side for side in numbers]
    items = operand.shape.num_elements()
    if items is not None:
        rest = math.prod(map(int, [side for side in numbers if side != -1]))
        if -1 in numbers and rest > 0 and items % rest == 0:
            sides[numbers.index(-1)] = items // rest
        elif items != rest or -1 in numbers:
            problem = f"({rest} elements)"
            if -1 in numbers and rest > 0:
                problem = f"Dimension size must be evenly divisible by {rest} but is {items}"
            raise ValueError(f"Cannot reshape a tensor with {items} elements to shape {list(numbers)} {problem}")
    return apply_op(
        "Reshape",
        [operand],
        operand.dtype,
        sides,
        structural(lambda x: np.reshape(x, numbers), string)
        if operand.dtype == string
        else (lambda x: ops.reshape(x, numbers)),
        name,
    )


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Return a tensor with its dimensions in another order: that of `perm`, or reversed."""
    operand = convert_to_tensor(a)
    order = None if perm is None else tuple(int(one) for one in np.ravel(_known(perm, "perm")))
    sides = operand.shape.sides
    if sides is not None and order is not None and sorted(order) != list(range(len(sides))):
        raise ValueError(f"perm must name each of the {len(sides)} dimensions once: {list(order)}")
    shape: Any = None if sides is None else [sides[at] for at in (order or range(len(sides))[::-1])]
    del conjugate
    return apply_op(
        "Transpose", [operand], operand.dtype, shape, lambda x: x.transpose(*(() if order is None else order)), name
    )


def _known(value: Any, what: str) -> Any:
    found = constant_value(convert_to_tensor(value))
    if found is None:
        raise ValueError(f"{what} must be known before the graph runs")
    return found


# Shapes


def _is_sparse(value: Any) -> bool:
    # A SparseTensor, or its value.
    return hasattr(value, "dense_shape")


def shape(input: Any, name: str | None = None, out_type: Any = np.int32) -> Tensor:
    """Return a tensor's shape, as a vector; also a sparse one's."""
    target = as_dtype(out_type or np.int32)
    if _is_sparse(input):
        return cast(input.dense_shape, target, name)
    operand = convert_to_tensor(input)
    if operand.shape.is_fully_defined():
        return convert_to_tensor(np.array(operand.shape.as_list(), target), name=name or "Shape")
    return apply_op("Shape", [operand], target, [operand.shape.ndims], lambda x: np.array(np.shape(x), target), name)


def size(input: Any, name: str | None = None, out_type: Any = np.int32) -> Tensor:
    """Return how many items a tensor has; of a sparse one, how many it would have if it were dense."""
    target = as_dtype(out_type or np.int32)
    if _is_sparse(input):
        sides = cast(input.dense_shape, target)
        return apply_op("Prod", [sides], target, (), lambda x: np.prod(x, dtype=target.dtype), name)
    operand = convert_to_tensor(input)
    count = operand.shape.num_elements()
    if count is not None:
        return convert_to_tensor(np.array(count, target), name=name or "Size")
    return apply_op("Size", [operand], target, (), lambda x: np.array(np.size(x), target), name)


def rank(input: Any, name: str | None = None) -> Tensor:
    """Return how many dimensions a tensor has."""
    if _is_sparse(input):
        return size(input.dense_shape, name)
    operand = convert_to_tensor(input)
    if operand.shape.ndims is not None:
        return convert_to_tensor(np.array(operand.shape.ndims, np.int32), name=name or "Rank")
    return apply_op("Rank", [operand], np.int32, (), lambda x: np.array(np.ndim(x), np.int32), name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Return a tensor with a new dimension of length 1 before an axis; -1: at the end."""
    if axis is None and dim is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    operand = convert_to_tensor(input)
    sides = operand.shape.sides
    axis_index = _at(dim if axis is None else axis, None if sides is None else len(sides) + 1, "expand_dims")
    if sides is None:
        kernel: Callable[..., Any] = lambda x: np.expand_dims(x, axis_index)  # noqa: E731
        return apply_op("ExpandDims", [operand], operand.dtype, None, structural(kernel, operand.dtype), name)
    # As an index, which expressions take in.
    key = (*(np.s_[:],) * axis_index, None, Ellipsis)
    shape = (*sides[:axis_index], 1, *sides[axis_index:])
    kernel = (lambda x: np.reshape(x, 1)) if not sides and operand.dtype != string else (lambda x: x[key])
    return apply_op("ExpandDims", [operand], operand.dtype, shape, structural(kernel, operand.dtype), name)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Return a tensor without the named dimensions of length 1, or without all of them.

    Raises
    ------
    ValueError
        If one that is named is known to be longer.
    """
    operand = convert_to_tensor(input)
    asked_axes = squeeze_dims if axis is None else axis
    sides = operand.shape.sides
    if asked_axes is not None and np.size(asked_axes) == 0:
        asked_axes = None
    if sides is None or asked_axes is None and None in sides:
        places = None if asked_axes is None else axes_of(asked_axes, None)
        kernel: Callable[..., Any] = lambda x: np.squeeze(x, places)  # noqa: E731
        return apply_op("Squeeze", [operand], operand.dtype, None, structural(kernel, operand.dtype), name)
    if asked_axes is None:
        dropped_axes: tuple[int, ...] = tuple(index for index, side in enumerate(sides) if side == 1)
    else:
        dropped_axes = axes_of(asked_axes, len(sides), "squeeze") or ()
    for index in dropped_axes:
        if sides[index] not in (1, None):
            raise ValueError(f"Can not squeeze dim[{index}], expected a dimension of 1, got {sides[index]}")
    if any(sides[index] is None for index in dropped_axes):
        kernel = lambda x: np.squeeze(x, dropped_axes)  # noqa: E731
    else:
        key = tuple([0 if index in dropped_axes else np.s_[:] for index in range_of(sides)])
        kernel = (lambda x: x[key]) if dropped_axes else (lambda x: x)
    shape = [side for index, side in enumerate(sides) if index not in dropped_axes]
    return apply_op("Squeeze", [operand], operand.dtype, shape, structural(kernel, operand.dtype), name)


def range_of(sides: Sequence[Any]) -> range:
    """Return the numbers of dimensions."""
    return range(len(sides))


# Parts and compositions


def concat(values: Any, axis: Any, name: str = "concat") -> Any:
    """Return tensors one after the other along a dimension; a `RaggedTensor` if one of them is one.

    Raises
    ------
    TypeError, ValueError
        If there are none, or their types, or their other dimensions, differ.
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if isinstance(axis, (list, tuple)) and any(isinstance(one, Tensor) for one in axis):
        raise TypeError("concat takes the tensors first, and then the axis")
    ragged = next((one for one in values if hasattr(one, "nested_row_splits")), None)
    if ragged is not None:
        return ragged.joined(values, axis, name)
    operands = tensors(*values)
    if len(operands) == 1:
        made: Tensor = identity(operands[0], name)
        return made
    known_shape = next((operand.shape for operand in operands if operand.shape.ndims is not None), TensorShape(None))
    if known_shape.ndims == 0:
        raise ValueError("Can't concatenate scalars (use tf.stack instead)")
    axis_index = _at(axis, known_shape.ndims, "concat")
    shape: Any = None
    if known_shape.ndims is not None:
        total: int | None = 0
        others = TensorShape([None] * known_shape.ndims)
        for operand in operands:
            sides = list(operand.shape.ranked(known_shape.ndims).sides or ())
            total = None if total is None or sides[axis_index] is None else total + int(sides[axis_index] or 0)
            sides[axis_index] = None
            others = others.merge_with(sides)
        shape = list(others.sides or ())
        shape[axis_index] = total
    return apply_op(
        "ConcatV2", operands, operands[0].dtype, shape, lambda *parts: np.concatenate(parts, axis_index), name
    )


def _several(
    type_: str, operand: Tensor, shapes: Sequence[Any], kernel: Callable[[Any], Any], name: str | None
) -> list[Tensor]:
    """Add an operation that cuts a tensor in pieces."""
    lone = len(shapes) == 1

    def run(x: Any) -> Any:
        pieces = kernel(x)
        return pieces[0] if lone else pieces

    outputs = [(operand.dtype, shape) for shape in shapes]
    op: Operation = operand.graph.create_op(type_, [operand], outputs, run, name or type_, pure=True)
    return list(op.outputs)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """Return the parts of a tensor along a dimension, and drop that dimension.

    Raises
    ------
    ValueError
        If their number is neither known nor given, or differs from `num`.
    """
    operand = convert_to_tensor(value)
    sides = operand.shape.sides
    axis_index = _at(axis, None if sides is None else len(sides), "unstack")
    count = num if sides is None else sides[axis_index]
    if count is None:
        count = num
    if count is None:
        raise ValueError(f"Cannot infer argument `num` from shape {operand.shape}")
    if num is not None and num != count:
        raise ValueError(f"unstack: there are {count} parts, not {num}")
    shape = None if sides is None else [side for i, side in enumerate(sides) if i != axis_index]

    def kernel(x: Any) -> Any:
        if np.size(x, axis_index) != count:
            raise InvalidArgumentError(f"unstack: there are {np.size(x, axis_index)} parts, not {count}")
        return [x[(*(np.s_[:],) * axis_index, i)] for i in range(count)]

    return _several("Unpack", operand, [shape] * count, kernel, name) if count else []


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Return pieces of a tensor along a dimension.

    Parameters
    ----------
    value : Tensor
    num_or_size_splits : int, or list of int
        The number of equal pieces, or the length of each; one length may be -1: the rest.
    axis : int, default 0
    num : int, optional
        The number of pieces.
    name : str, default "split"

    Raises
    ------
    ValueError
        If the pieces don't fit.
    """
    operand = convert_to_tensor(value)
    sides = operand.shape.sides
    axis_index = _at(axis, None if sides is None else len(sides), "split")
    side = None if sides is None else sides[axis_index]
    constant = _known(num_or_size_splits, "num_or_size_splits")
    if np.ndim(constant) == 0:
        count = int(constant)
        if count < 1:
            raise ValueError(f"split: the number of pieces must be positive, not {count}")
        if side is not None and side % count:
            raise ValueError(f"Dimension size, {side}, must be evenly divisible by {count}")
        lengths: list[int | None] = [None if side is None else side // count] * count
    else:
        lengths = [int(length) for length in constant]
        if num is not None and num != len(lengths):
            raise ValueError(f"split: {len(lengths)} sizes for {num} pieces")
        if lengths.count(-1) > 1 or any(length is not None and length < -1 for length in lengths):
            raise ValueError(f"split: sizes must be numbers from 0 on, and -1 once at most: {lengths}")
        sum_ = sum(length for length in lengths if length is not None and length >= 0)
        if side is not None and (sum_ > side if -1 in lengths else sum_ != side):
            raise ValueError(f"split: sizes {lengths} of a dimension of {side}")
        lengths = [(None if side is None else side - sum_) if length == -1 else length for length in lengths]
    shapes = [None if sides is None else [*sides[:axis_index], length, *sides[axis_index + 1 :]] for length in lengths]

    def kernel(x: Any) -> Any:
        side = np.size(x, axis_index)
        pieces = list(lengths)
        if np.ndim(constant) == 0:
            if side % len(pieces):
                raise InvalidArgumentError(f"split: a dimension of {side} can't be cut in {len(pieces)} equal pieces")
            pieces = [side // len(pieces)] * len(pieces)
        rest = side - sum(length for length in pieces if length is not None)
        ends = np.cumsum([0, *(rest if length is None else length for length in pieces)]).tolist()
        if ends[-1] != side or rest < 0:
            raise InvalidArgumentError(f"split: sizes {lengths} of a dimension of {side}")
        lead = (np.s_[:],) * axis_index
        return [x[(*lead, np.s_[a:b])] for a, b in zip(ends, ends[1:], strict=False)]

    return _several("Split", operand, shapes, kernel, name)


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Return a part of a tensor.

    Parameters
    ----------
    input_ : Tensor
    begin, size : Tensor of integers, or list of them
        Where it begins, and how long it is, on each axis; the length -1: to the end.
    name : str, optional

    Raises
    ------
    ValueError
        If there is no such part.
    InvalidArgumentError
        In a run, if there is no such part.
    """
    operand = convert_to_tensor(input_)
    first, length = convert_to_tensor(begin), convert_to_tensor(size)
    starts, counts = constant_value(first), constant_value(length)
    sides = operand.shape.sides
    if starts is None or counts is None:
        shape: Any = None
        if sides is not None:
            shape = [None] * len(sides)
            if counts is not None:
                shape = [None if one == -1 else int(one) for one in np.ravel(counts)]
        return apply_op("Slice", [operand, first, length], operand.dtype, shape, _slice_at, name)
    offsets, number = [int(one) for one in np.ravel(starts)], [int(one) for one in np.ravel(counts)]
    if len(offsets) != len(number) or sides is not None and len(offsets) != len(sides):
        raise ValueError(f"slice: begin {offsets} and size {number} of shape {operand.shape}")
    wide: Sides = (None,) * len(offsets) if sides is None else sides
    shape = []
    for axis, (a, n, side) in enumerate(zip(offsets, number, wide, strict=True)):
        if a < 0 or n < -1 or side is not None and a + max(n, 0) > side:
            raise ValueError(f"slice: axis {axis} is {side} long, and has no part from {a} on that is {n} long")
        shape.append(n if n >= 0 else None if side is None else side - a)
    return apply_op("Slice", [operand], operand.dtype, shape, lambda x: _slice_at(x, offsets, number), name)


def _slice_at(x: Any, begin: Any, size: Any) -> Any:
    starts, counts = [int(one) for one in begin], [int(one) for one in size]
    if len(starts) != x.ndim or len(counts) != x.ndim:
        raise InvalidArgumentError(f"slice: begin {starts} and size {counts} for {x.ndim} dimensions")
    key: list[slice] = []
    for axis, (a, n) in enumerate(zip(starts, counts, strict=True)):
        if not a and n == -1:
            key.append(slice(None))
            continue
        side = np.size(x, axis)
        end = side if n == -1 else a + n
        if not 0 <= a <= end <= side:
            raise InvalidArgumentError(f"slice: axis {axis} is {side} long, and has no part from {a} on, {n} long")
        key.append(slice(a, end))
    return x[tuple(key)]


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return a part of a tensor, as an index of slices would: bit i of each mask is about part i of the index.

    Parameters
    ----------
    input_ : Tensor
    begin, end : Tensor of integers, vector
    strides : Tensor of integers, vector, optional
        Default: 1.
    begin_mask, end_mask : int, default 0
        No beginning, no end.
    ellipsis_mask, new_axis_mask, shrink_axis_mask : int, default 0
        An ellipsis, a new dimension, an index in the place of a slice.
    var : optional
        Not used.
    name : str, optional
    """
    del var
    operand = convert_to_tensor(input_)
    bounds = [convert_to_tensor(one) for one in ([begin, end] if strides is None else [begin, end, strides])]
    masks = begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
    known = [constant_value(one) for one in bounds]
    if all(one is not None for one in known):
        part: Tensor = operand[_key_of(known, *masks)]
        return part if name is None else identity(part, name)
    count = bounds[0].shape.ranked(1)[0].value
    shape: Any = None
    if count is not None and operand.shape.sides is not None:
        # Of a part whose bounds only a run knows nothing is known but that it is there.
        sides = [side or 0 for side in operand.shape.sides]
        cut = len(sides) if ellipsis_mask else count - new_axis_mask.bit_count()
        unknown = [side is None or at < cut for at, side in enumerate(operand.shape.sides)]
        places = np.zeros(count, np.int64)
        shape = slice_shape(sides, unknown, _key_of([places, places], *masks))
    kernel = structural(lambda x, *values: x[_key_of(values, *masks)], operand.dtype)
    return apply_op("StridedSlice", [operand, *bounds], operand.dtype, shape, kernel, name or "StridedSlice")


def _key_of(bounds: Sequence[Any], begin_mask: int, end_mask: int, *rest: int) -> tuple[Any, ...]:
    # The index that the bounds and the masks stand for.
    ellipsis_mask, new_axis_mask, shrink_axis_mask = rest
    first, last, *strides = (np.ravel(one).tolist() for one in bounds)
    steps = strides[0] if strides else [1] * len(first)
    if not len(first) == len(last) == len(steps):
        raise ValueError(f"strided_slice: {len(first)} begins, {len(last)} ends and {len(steps)} strides")
    key: list[Any] = []
    for i, (a, b, step) in enumerate(zip(first, last, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(a)
        elif step == 0:
            raise ValueError(f"strides[{i}] must be non-zero")
        else:
            key.append(np.s_[None if begin_mask & bit else a : None if end_mask & bit else b : step])
    return tuple(key)


def gather(
    params: Any, indices: Any, validate_indices: bool | None = None, name: str | None = None, axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:  # fmt: skip
    """Return the parts of a tensor along a dimension that indices name.

    Parameters
    ----------
    params : Tensor
    indices : Tensor of integers, or Python's
        Of any shape, which replaces the dimension.
    validate_indices : optional
        Not used: indices are always checked.
    name : str, optional
    axis : int, default 0
    batch_dims : int, default 0
        0 is all that is possible.

    Raises
    ------
    ValueError
        If the tensor has no such dimension.
    InvalidArgumentError
        In a run, if an index is outside.
    """
    del validate_indices
    if batch_dims:
        raise ValueError("gather: batch_dims other than 0 are not supported")
    operand, index_operand = convert_to_tensor(params), convert_to_tensor(indices)
    if index_operand.dtype.kind not in "iu":
        raise TypeError(f"gather: indices must be integers, not {name_of(index_operand.dtype)}")
    sides, places = operand.shape.sides, index_operand.shape.sides
    if sides == ():
        raise ValueError("gather: params must have a dimension")
    axis_index = _at(0 if axis is None else axis, None if sides is None else len(sides), "gather")
    shape = None if sides is None or places is None else [*sides[:axis_index], *places, *sides[axis_index + 1 :]]
    known = constant_value(index_operand)
    if known is not None and np.ndim(known) == 0 and sides is not None and sides[axis_index] is not None:
        index, side = int(known), sides[axis_index]
        if not 0 <= index < int(side or 0):
            raise ValueError(f"indices = {index} is not in [0, {side})")
        key = (*(np.s_[:],) * axis_index, index)
        return apply_op("GatherV2", [operand], operand.dtype, shape, lambda x: x[key], name)

    def kernel(x: Any, where: Any) -> Any:
        side = x.shape[axis_index]
        wrong = (where < 0) | (where >= side)
        if np.any(wrong):
            raise InvalidArgumentError(f"indices = {np.ravel(where[()])[np.ravel(wrong)][0]} is not in [0, {side})")
        return np.take(x, where, axis_index)

    return apply_op("GatherV2", [operand, index_operand], operand.dtype, shape, kernel, name)


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None) -> Tensor:
    """Return the parts of a tensor for which a mask over its first dimensions holds, one after the other.

    Raises
    ------
    ValueError
        If the mask is a scalar, or nothing is known of its rank, or it doesn't fit.
    """
    operand, holds = convert_to_tensor(tensor), convert_to_tensor(mask, np.bool_)
    if holds.shape.ndims is None:
        raise ValueError("Number of mask dimensions must be specified, even if some dimensions are None.")
    if holds.shape.ndims == 0:
        raise ValueError("mask cannot be scalar.")
    if axis:
        raise ValueError("boolean_mask: axis other than 0 is not supported")
    sides = operand.shape.sides
    if sides is not None:
        operand.shape[: holds.shape.ndims].assert_is_compatible_with(holds.shape)
    shape = None if sides is None else [None, *sides[holds.shape.ndims :]]

    def kernel(x: Any, m: Any) -> Any:
        if x.shape[: m.ndim] != m.shape:
            raise InvalidArgumentError(f"boolean_mask: a mask of shape {m.shape} for {x.shape}")
        return x[m]

    return apply_op("BooleanMask", [operand, holds], operand.dtype, shape, kernel, name)


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Return a tensor repeated along each axis, as often as `multiples` says."""
    operand, multiples_operand = convert_to_tensor(input), convert_to_tensor(multiples)
    constant = constant_value(multiples_operand)
    sides = operand.shape.sides
    shape: Any = None
    if constant is None:
        shape = None if sides is None else [None] * len(sides)
    else:
        numbers = [int(one) for one in np.ravel(constant)]
        if any(one < 0 for one in numbers) or sides is not None and len(sides) != len(numbers):
            raise ValueError(f"tile: multiples {numbers} of shape {operand.shape}")
        if sides is not None:
            shape = [None if side is None else side * n for side, n in zip(sides, numbers, strict=True)]

    def kernel(x: Any, times: Any) -> Any:
        if np.ndim(x) != len(times) or np.any(times < 0):
            raise InvalidArgumentError(f"tile: multiples {list(times)} of shape {list(np.shape(x))}")
        return np.tile(x, times)

    return apply_op("Tile", [operand, multiples_operand], operand.dtype, shape, structural(kernel, operand.dtype), name)


_PADDINGS = {"CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """Return a tensor with values around it.

    Parameters
    ----------
    tensor : Tensor
    paddings : Tensor of integers, shape (n, 2)
        The number of items before and after, on each axis.
    mode : {"CONSTANT", "REFLECT", "SYMMETRIC"}, default "CONSTANT"
        One value; or what is inside, mirrored without or with the border itself.
    name : str, optional
    constant_values : default 0

    Raises
    ------
    ValueError
        If the paddings don't fit.
    """
    operand, paddings_operand = convert_to_tensor(tensor), convert_to_tensor(paddings)
    if mode.upper() not in _PADDINGS:
        raise ValueError(f"Unknown padding mode: {mode}")
    padding = _PADDINGS[mode.upper()]
    blank = as_value(b"" if operand.dtype == string and constant_values == 0 else constant_values, operand.dtype)
    constant = constant_value(paddings_operand)
    sides = operand.shape.sides

    def kernel(x: Any, around: Any) -> Any:
        if around.shape != (np.ndim(x), 2) or np.any(around < 0):
            raise InvalidArgumentError(f"pad: paddings {around.tolist()} of shape {list(np.shape(x))}")
        if not np.ndim(x):
            return x
        room = np.asarray(np.shape(x)) - (padding == "reflect")
        if padding != "constant":
            if np.any(around > room[:, None]):
                raise InvalidArgumentError(f"pad: paddings {around.tolist()} are more than there is to mirror")
            return np.pad(x, around, padding)  # type: ignore[call-overload]
        return np.pad(x, around, constant_values=blank)

    if constant is None:
        made = None if sides is None else [None] * len(sides)
        return apply_op("Pad", [operand, paddings_operand], operand.dtype, made, kernel, name)
    around = np.asarray(constant).reshape(-1, 2).tolist()
    if np.any(np.asarray(around) < 0) or sides is not None and len(around) != len(sides):
        raise ValueError(f"pad: paddings {around} of shape {operand.shape}")
    room = [None if side is None else side - (padding == "reflect") for side in sides or ()]
    beyond = [side is not None and max(both) > side for side, both in zip(room, around, strict=False)]
    if padding != "constant" and any(beyond):
        raise ValueError(f"pad: paddings {around} are more than there is to mirror in shape {operand.shape}")
    shape = None
    if sides is not None:
        shape = [None if side is None else side + sum(both) for side, both in zip(sides, around, strict=True)]
    if operand.dtype != string and around:
        if padding == "constant":
            return apply_op("Pad", [operand], operand.dtype, shape, lambda x: ops.pad(x, around, blank), name)
        if sides is not None and None not in sides:  # else each value shows whether there is enough to mirror
            return apply_op("Pad", [operand], operand.dtype, shape, lambda x: ops.pad(x, around, mode=padding), name)
    numbers = np.asarray(around, np.int64).reshape(-1, 2)
    return apply_op(
        "Pad", [operand], operand.dtype, shape, structural(lambda x: kernel(x, numbers), operand.dtype), name
    )


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Return a tensor with the order along some axes reversed."""
    operand = convert_to_tensor(tensor)
    places = axes_of(axis, operand.shape.ndims, "reverse") or ()
    if operand.shape.ndims is None:
        return apply_op("ReverseV2", [operand], operand.dtype, None, lambda x: np.flip(x, places), name)
    key = tuple([np.s_[::-1] if at in places else np.s_[:] for at in range(operand.shape.ndims)])
    kernel = (lambda x: x[key]) if places else (lambda x: x)
    return apply_op("ReverseV2", [operand], operand.dtype, operand.shape, kernel, name)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return a tensor repeated to a shape."""
    operand, shape_operand = convert_to_tensor(input), shape_tensor(shape)
    known = constant_value(shape_operand)
    sides: Any = shape_within(shape_operand)
    if known is not None:
        broadcast([operand.shape, TensorShape(sides)]).assert_is_compatible_with(sides)

    def kernel(x: Any, to: Any) -> Any:
        return np.broadcast_to(x, [int(one) for one in to]).copy()

    run = structural(kernel, operand.dtype)
    return apply_op("BroadcastTo", [operand, shape_operand], operand.dtype, sides, run, name)


# Tensors of one value


def shape_within(tensor: Tensor) -> Sides | None:
    """Return the facts known beforehand of the shape that a tensor's value stands for."""
    known = constant_value(tensor)
    op = tensor.op
    if known is not None:
        return tuple(None if side < 0 else int(side) for side in np.ravel(known))
    if op.type == "Shape":
        return op.operands[0].shape.sides
    if op.type == "Pack" and tensor.shape.ndims == 1:
        parts = [_number_within(operand) for operand in op.operands]
        return tuple(None if side is None or side < 0 else side for side in parts)
    if op.type == "ConcatV2":
        sides: Sides = ()
        for operand in op.operands:
            inner = shape_within(operand)
            if inner is None:
                return None
            sides += inner
        return sides
    count = tensor.shape.num_elements()
    return None if count is None else (None,) * count


def _number_within(tensor: Tensor) -> int | None:
    known = constant_value(tensor)
    if known is not None:
        return int(known)
    if tensor.op.type == "StridedSlice" and "index" in tensor.op.attributes:
        sides = shape_within(tensor.op.operands[0])
        return None if sides is None else sides[tensor.op.attributes["index"]]
    return None


def shape_tensor(shape: Any) -> Tensor:
    """Return a shape, of numbers and tensors, as a tensor. `ValueError` if a side isn't known."""
    if isinstance(shape, TensorShape):
        shape = shape.as_list()
    if isinstance(shape, (list, tuple)):
        shape = [one.value if isinstance(one, Dimension) else one for one in shape]
        if any(one is None for one in shape):
            raise ValueError(f"Cannot convert a partially known TensorShape {shape} to a Tensor.")
        if not shape:
            shape = np.zeros(0, np.int32)
    made = convert_to_tensor(shape)
    if made.dtype.kind not in "iu":
        raise TypeError(f"a shape must be of integers, not {name_of(made.dtype)}")
    made.shape.ranked(1)
    return made


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """Return a tensor of a shape with one value everywhere.

    Raises
    ------
    ValueError
        If the value is no scalar, or a side is negative.
    """
    shape_operand, scalar = shape_tensor(dims), convert_to_tensor(value)
    scalar.shape.ranked(0)
    known = constant_value(shape_operand)
    sides: Any = None
    if known is not None:
        sides = [int(side) for side in known]
        if any(side < 0 for side in sides):
            raise ValueError(f"Fill dimensions must be >= 0: {sides}")
    else:
        sides = shape_within(shape_operand)

    def kernel(to: Any, x: Any) -> Any:
        array = np.empty([int(side) for side in to], object if scalar.dtype == string else scalar.dtype)
        array[...] = x
        return array[()]

    return apply_op("Fill", [shape_operand, scalar], scalar.dtype, sides, kernel, name)


def zeros(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Tensor:
    """Return a tensor of zeros, of empty strings, or of `False`."""
    return fill(_listed(shape), _same(0, as_dtype(dtype)), name or "zeros")


def ones(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Tensor:
    """Return a tensor of ones."""
    return fill(_listed(shape), _same(1, as_dtype(dtype)), name or "ones")


def _listed(shape: Any) -> Any:
    # A single side is a shape here.
    if isinstance(shape, (list, tuple, TensorShape)):
        return shape
    made = convert_to_tensor(shape)
    known = constant_value(made)
    if known is not None:
        return np.ravel(known)
    return reshape(made, [1]) if made.shape.ndims == 0 else made


def _same(number: int, dtype: DType) -> Any:
    if dtype == string:
        if number:
            raise TypeError("there are no ones among strings")
        return b""
    return np.array(number).astype(dtype)


def _like(number: int, tensor: Any, dtype: Any, name: str | None, type_: str) -> Tensor:
    operand = convert_to_tensor(tensor)
    wanted = operand.dtype if dtype is None else as_dtype(dtype)
    made = fill(shape(operand), _same(number, wanted), name or type_)
    made.set_shape(operand.shape)
    return made


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Return a tensor of zeros of another one's shape, and of its type unless one is given."""
    del optimize
    return _like(0, tensor, dtype, name, "zeros_like")


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Return a tensor of ones of another one's shape, and of its type unless one is given."""
    del optimize
    return _like(1, tensor, dtype, name, "ones_like")


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Return the numbers from `start` up to below `limit`: ``range(limit)`` or ``range(start, limit, delta)``.

    Raises
    ------
    TypeError, ValueError
        If they are no numbers of one type, or the step is 0 or leads away.
    """
    if limit is None:
        start, limit = 0, start
    parts = [convert_to_tensor(part, dtype) if not isinstance(part, Tensor) else part for part in (start, limit, delta)]
    # TensorFlow's order: the widest of the three.
    order = [as_dtype(word) for word in ("i4", "i8", "f4", "f8")]
    target = max((part.dtype for part in parts), key=lambda kind: order.index(kind) if kind in order else -1)
    if dtype is not None:
        target = as_dtype(dtype)
    parts = [cast(part, target) for part in parts]
    for part in parts:
        part.shape.ranked(0)
    values = [constant_value(part) for part in parts]
    if any(value is None for value in values):  # a cast of a constant is no constant of its own
        values = [_constant_cast(part) for part in parts]

    def kernel(a: Any, b: Any, step: Any) -> Any:
        if step == 0 or (b - a) * np.sign(step) < 0:
            raise InvalidArgumentError(f"range: no steps of {step} lead from {a} to {b}")
        if target.kind == "f":
            count = math.ceil((float(b) - float(a)) / float(step))
            return (a + np.arange(count).astype(target) * step).astype(target)
        return np.arange(int(a), int(b), int(step)).astype(target)

    shape: Any = [None]
    if all(value is not None for value in values):
        try:
            shape = kernel(*values).shape
        except InvalidArgumentError:
            raise
        except (MemoryError, ValueError) as error:  # the latter: more bytes than a number of 64 bits can say
            raise ValueError(f"range: no memory for the numbers from {values[0]} to {values[1]}") from error
    return apply_op("Range", parts, target, shape, kernel, name)


def _constant_cast(tensor: Tensor) -> Any:
    if tensor.op.type == "Cast":
        inner = constant_value(tensor.op.operands[0])
        return None if inner is None else np.asarray(inner).astype(tensor.dtype)
    return constant_value(tensor)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """Return `num` floats from `start` to `stop`, both included, at equal distances."""
    a, b = tensors(start, stop)
    if a.dtype.kind != "f":
        raise TypeError(f"linspace of {name_of(a.dtype)}")
    count = int(_known(num, "num"))
    if count < 1:
        raise ValueError(f"Requires num > 0: {count}")
    return apply_op("LinSpace", [a, b], a.dtype, [count], lambda x, y: np.linspace(x, y, count, dtype=a.dtype), name)


lin_space = linspace


# Choices


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Return items of one tensor where a condition holds, and of another one elsewhere; or where it holds.

    Parameters
    ----------
    condition : Tensor of bool
        Of the shape of the two, or a vector over their first dimension, or a scalar.
    x, y : Tensor, optional
        Of one shape and type.
    name : str, optional

    Returns
    -------
    Tensor
        Without `x` and `y`: the indices of what holds, int64, of shape (n, rank).

    Raises
    ------
    TypeError, ValueError
        If types or shapes differ, or only one of `x` and `y` is given.
    """
    holds = convert_to_tensor(condition)
    if x is None and y is None:
        rank_ = holds.shape.ndims
        return apply_op("Where", [holds], np.int64, [None, rank_], lambda c: np.argwhere(c).astype(np.int64), name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    holds = convert_to_tensor(condition, np.bool_)
    a, b = tensors(x, y)
    shape_ = a.shape.merge_with(b.shape)
    rank_ = holds.shape.ndims
    if rank_ is not None and shape_.ndims is not None and rank_ not in (0, shape_.ndims):
        if rank_ != 1:
            raise ValueError(f"where: a condition of shape {holds.shape} for tensors of shape {shape_}")
        shape_[:1].assert_is_compatible_with(holds.shape)
        wide = (-1, *[1] * (shape_.ndims - 1))
        kernel: Callable[..., Any] = lambda c, x, y: np.where(c.reshape(wide), x, y)  # noqa: E731
    else:
        if rank_ is not None and rank_ == shape_.ndims:
            shape_ = shape_.merge_with(holds.shape)
        kernel = lambda c, x, y: np.where(c, x, y)  # noqa: E731
    return apply_op("Select", [holds, a, b], a.dtype, shape_, structural(kernel, a.dtype), name)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return a tensor with one more dimension, in which the item at the index, if it exists, is `on_value`.

    Parameters
    ----------
    indices : Tensor of integers
    depth : int
        How long the new dimension is; known beforehand.
    on_value, off_value : optional
        Default: 1 and 0.
    axis : int, default -1
        Before which the new dimension comes.
    dtype : dtype, optional
        Default: that of the values, or float32.
    name : str, optional

    Raises
    ------
    TypeError, ValueError
        If the values have two types.
    """
    operand = convert_to_tensor(indices)
    if operand.dtype.kind not in "iu":
        raise TypeError(f"one_hot: indices must be integers, not {name_of(operand.dtype)}")
    count = int(_known(depth, "depth"))
    if count < 0:
        raise ValueError(f"one_hot: depth must be from 0 on, not {count}")
    target = None if dtype is None else as_dtype(dtype)
    values = []
    for value in (on_value, off_value):
        if value is not None:
            value = convert_to_tensor(value, None if isinstance(value, Tensor) else target)
            if target is not None and value.dtype != target:
                raise TypeError(f"one_hot: {name_of(target)} and a value of {name_of(value.dtype)} do not match")
            target = value.dtype
        values.append(None if value is None else _known(value, "on_value and off_value"))
    target = float32 if target is None else target
    on, off = (as_value(n if value is None else value, target) for n, value in zip((1, 0), values, strict=True))
    sides = operand.shape.sides
    axis_index = -1 if axis is None else axis
    if axis_index < -1:
        raise ValueError(f"axis must be >= -1: one_hot got {axis_index}")
    shape: Any = None
    if sides is not None:
        place = _at(axis_index, len(sides) + 1, "one_hot")
        shape = [*sides[:place], count, *sides[place:]]
        axis_index = -1 if place == len(sides) else place
    if axis_index == -1 and target != string and count:
        return apply_op("OneHot", [operand], target, shape, lambda x: ops.one_hot(x, count, on, off, target), name)

    def kernel(x: Any) -> Any:
        which = np.expand_dims(x, axis_index) == np.arange(count).reshape(
            -1, *[1] * (np.ndim(x) - axis_index if axis_index >= 0 else 0)
        )
        array = np.empty(which.shape, object if target == string else target)
        array[...] = off
        array[which] = on
        return array

    return apply_op("OneHot", [operand], target, shape, kernel, name)


# Several at once


def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """Return the same tensors, each of which is there once all are."""
    operands = [convert_to_tensor(one) for one in input]
    if not operands:
        raise ValueError("identity_n needs at least one tensor")
    lone = len(operands) == 1
    outputs = [(operand.dtype, operand.shape) for operand in operands]
    op = get_default_graph().create_op(
        "IdentityN", operands, outputs, lambda *x: x[0] if lone else x, name or "IdentityN", pure=True
    )
    return list(op.outputs)


def tuple_(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """Return the same tensors, each of which is there once all are, and the operations of `control_inputs` have run.

    Parameters
    ----------
    tensors : list of (Tensor or None)
        `None` stays what it is.
    name : str, optional
    control_inputs : list of Operation, optional

    Raises
    ------
    ValueError
        If there is no tensor.
    """
    members = [
        None if member is None else member if isinstance(member, Operation) else convert_to_tensor(member)
        for member in tensors
    ]
    waits = [member for member in members if member is not None]
    if not waits:
        raise ValueError("Must have at least one Tensor")
    graph = get_default_graph()
    with graph.name_scope(name or "tuple"), graph.control_dependencies([*waits, *(control_inputs or ())]):
        return [
            None if member is None else member if isinstance(member, Operation) else identity(member)
            for member in members
        ]


def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Return for each vector a tensor of the common shape, in which the vector lies along its own dimension."""
    vectors = tensors(*args)
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    counts = [vector.shape.num_elements() for vector in vectors]
    shape_ = list(counts)
    if indexing == "xy" and len(shape_) > 1:
        shape_[:2] = shape_[1::-1]

    def grid(which: int, *x: Any) -> Any:
        how: Any = indexing
        return np.meshgrid(*[np.ravel(vector) for vector in x], indexing=how)[which]

    return [apply_op("Meshgrid", vectors, vectors[0].dtype, shape_, functools.partial(grid, i), name)
            for i in range(len(vectors))]  # fmt: skip


register_packing(stack)
