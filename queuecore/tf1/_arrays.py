"""Tensors of other shapes: constants, stacks, parts. As in _math, pure kernels also take the symbols of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore import ops
from queuecore.tf1._graph import Tensor, apply_op, as_value, constant_value, convert_to_tensor
from queuecore.tf1._shapes import TensorShape, as_shape
from queuecore.tf1._types import as_dtype, string

__all__: list[str] = []


def public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Export a function."""
    __all__.append(function.__name__)
    return function


@public
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
    found = as_value(value, dtype)
    if shape is not None:
        sides: Any = as_shape(shape).as_list()
        if verify_shape and np.shape(found) != tuple(sides):
            raise TypeError(f"Expected Tensor's shape: {tuple(sides)}, got {np.shape(found)}.")
        flat = np.ravel(np.array(found, object) if isinstance(found, bytes) else found)
        count = int(np.prod(sides, dtype=np.int64))
        if flat.size > count:
            raise ValueError(f"Too many elements provided. Needed at most {count}, but received {flat.size}")
        if flat.size < count and not flat.size:
            raise ValueError(f"{value!r} has no item to fill the shape {tuple(sides)} with")
        filled = np.concatenate([flat, np.full(count - flat.size, flat[-1] if flat.size else 0, flat.dtype)])
        found = as_value(filled.reshape(sides), dtype)
    return convert_to_tensor(found, name=name)


@public
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Return a tensor whose value is given to each run, in `feed_dict`.

    Parameters
    ----------
    dtype : dtype
    shape : optional
        What values must have; `None`: any.
    name : str, optional
    """
    from queuecore.errors import InvalidArgumentError
    from queuecore.tf1._types import name_of

    wanted = as_dtype(dtype)

    def kernel(run: Any) -> Any:
        raise InvalidArgumentError(
            f"You must feed a value for placeholder tensor '{made.op.name}' with dtype {name_of(wanted)}: "
            "run(..., feed_dict={placeholder: value})"
        )

    made = apply_op("Placeholder", [], wanted, shape, kernel, name, pure=False)
    return made


@public
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Return tensors of one shape, one after the other along a new dimension."""
    dtype = next((one.dtype for one in values if isinstance(one, Tensor)), None)
    given = [convert_to_tensor(one, dtype) for one in values]
    if not given:
        raise ValueError("there is nothing to stack")
    shape = given[0].shape
    for one in given[1:]:
        shape = shape.merge_with(one.shape)
    made: Any = None
    if shape.sides is not None:
        at = axis if axis >= 0 else len(shape.sides) + 1 + axis
        made = [*shape.sides[:at], len(given), *shape.sides[at:]]

    def kernel(*parts: Any) -> Any:
        if isinstance(parts[0], bytes):
            return as_value(list(parts))
        return np.stack(parts, axis)

    return apply_op("Pack", given, given[0].dtype, made, kernel, name)


@public
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return a tensor with the same items in another shape; -1: what is left for one side."""
    given = convert_to_tensor(tensor)
    wanted = convert_to_tensor(shape.as_list() if isinstance(shape, TensorShape) else shape, np.int32)
    known = constant_value(wanted)
    if known is None:
        count = wanted.shape.num_elements()
        sides = None if count is None else [None] * count
        return apply_op(
            "Reshape", [given, wanted], given.dtype, sides, lambda x, to: np.reshape(x, [int(one) for one in to]), name
        )
    numbers = tuple(int(one) for one in np.ravel(known))
    made: list[int | None] = [None if one == -1 else one for one in numbers]
    items = given.shape.num_elements()
    if items is not None:
        rest = int(np.prod([one for one in numbers if one != -1], dtype=np.int64))
        if -1 in numbers and rest > 0 and items % rest == 0:
            made[numbers.index(-1)] = items // rest
        elif items != rest or -1 in numbers:
            raise ValueError(f"Cannot reshape a tensor with {items} elements to shape {list(numbers)}")
    return apply_op(
        "Reshape",
        [given],
        given.dtype,
        made,
        _strings_reshaped(numbers) if given.dtype == string else (lambda x: ops.reshape(x, numbers)),
        name,
    )


def _strings_reshaped(numbers: tuple[int, ...]) -> Callable[[Any], Any]:
    # A string alone is bytes, and no array.
    return lambda x: as_value(np.reshape(np.array(x, object), numbers))


@public
def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Return a tensor with its dimensions in another order: that of `perm`, or the other way round."""
    given = convert_to_tensor(a)
    order = None if perm is None else tuple(int(one) for one in np.ravel(_known(perm, "perm")))
    sides = given.shape.sides
    if sides is not None and order is not None and sorted(order) != list(range(len(sides))):
        raise ValueError(f"perm must name each of the {len(sides)} dimensions once: {list(order)}")
    made: Any = None if sides is None else [sides[at] for at in (order or range(len(sides))[::-1])]
    del conjugate
    return apply_op(
        "Transpose", [given], given.dtype, made, lambda x: x.transpose(*(() if order is None else order)), name
    )


def _known(value: Any, what: str) -> Any:
    found = constant_value(convert_to_tensor(value))
    if found is None:
        raise ValueError(f"{what} must be known before the graph runs")
    return found
