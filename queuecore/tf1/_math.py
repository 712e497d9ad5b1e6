"""Arithmetic and comparison of tensors, element by element: NumPy's functions, on values of one type.

The kernels take arrays, and also the symbols of a trace (`queuecore._trace`): that is how a runner's operations become
native stages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore import ops
from queuecore.tf1._graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._shapes import broadcast
from queuecore.tf1._state import Variable
from queuecore.tf1._types import as_dtype, name_of

__all__: list[str] = []


def public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Export a function."""
    __all__.append(function.__name__)
    return function


def tensors(*values: Any, dtype: Any = None) -> list[Tensor]:
    """Return values as tensors of one type: that of the first that is a tensor, unless it is given.

    Raises
    ------
    TypeError, ValueError
        If one can't be of that type.
    """
    if dtype is None:
        for value in values:
            if isinstance(value, (Tensor, Variable)):
                dtype = value.dtype
                break
        else:
            dtype = convert_to_tensor(values[0]).dtype
    made = []
    for value in values:
        if isinstance(value, (Tensor, Variable)) and value.dtype != dtype:
            raise TypeError(
                f"Input has type {name_of(value.dtype)} that does not match type {name_of(as_dtype(dtype))} of the "
                "other argument"
            )
        made.append(convert_to_tensor(value, dtype))
    return made


def elementwise(type_: str, kernel: Callable[..., Any], dtype: Any = None) -> Callable[..., Tensor]:
    """Return a function of two values that applies a function of NumPy's to them."""

    def apply(x: Any, y: Any, name: str | None = None) -> Tensor:
        a, b = tensors(x, y)
        return apply_op(type_, [a, b], dtype or a.dtype, broadcast([a.shape, b.shape]), kernel, name)

    return apply


def unary(type_: str, kernel: Callable[..., Any], dtype: Any = None) -> Callable[..., Tensor]:
    """Return a function of one value that applies a function of NumPy's to it."""

    def apply(x: Any, name: str | None = None) -> Tensor:
        given = convert_to_tensor(x)
        return apply_op(type_, [given], dtype or given.dtype, given.shape, kernel, name)

    return apply


def _export(name: str, function: Any, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    globals()[name] = function  # also where it has another name in here: pow, abs
    return public(function)


def _truncated(x: Any, y: Any) -> Any:
    # As in C: towards zero.
    return (
        np.trunc(x / y).astype(x.dtype) if x.dtype.kind == "f" else (np.abs(x) // np.abs(y)) * np.sign(x) * np.sign(y)
    )


add = _export("add", elementwise("Add", lambda x, y: x + y), "Return ``x + y``.")
subtract = _export("subtract", elementwise("Sub", lambda x, y: x - y), "Return ``x - y``.")
multiply = _export("multiply", elementwise("Mul", lambda x, y: x * y), "Return ``x * y``.")
floordiv = _export("floordiv", elementwise("FloorDiv", lambda x, y: x // y), "Return ``x // y``, rounded down.")
mod = _export("mod", elementwise("FloorMod", lambda x, y: x % y), "Return the remainder of ``x // y``.")
pow_ = elementwise("Pow", lambda x, y: x**y)
_export("pow", pow_, "Return ``x ** y``.")
maximum = _export("maximum", elementwise("Maximum", np.maximum), "Return the larger one.")
minimum = _export("minimum", elementwise("Minimum", np.minimum), "Return the smaller one.")
equal = _export("equal", elementwise("Equal", lambda x, y: x == y, bool), "Return whether they are equal.")
not_equal = _export("not_equal", elementwise("NotEqual", lambda x, y: x != y, bool), "Return whether they differ.")
greater = _export("greater", elementwise("Greater", lambda x, y: x > y, bool), "Return whether ``x > y``.")
greater_equal = _export("greater_equal", elementwise("GreaterEqual", lambda x, y: x >= y, bool), "Return ``x >= y``.")
less = _export("less", elementwise("Less", lambda x, y: x < y, bool), "Return whether ``x < y``.")
less_equal = _export("less_equal", elementwise("LessEqual", lambda x, y: x <= y, bool), "Return whether ``x <= y``.")
logical_and = _export("logical_and", elementwise("LogicalAnd", np.logical_and, bool), "Return whether both hold.")
logical_or = _export("logical_or", elementwise("LogicalOr", np.logical_or, bool), "Return whether either holds.")
logical_xor = _export("logical_xor", elementwise("LogicalXor", np.logical_xor, bool), "Return whether one holds.")
logical_not = _export("logical_not", unary("LogicalNot", np.logical_not, bool), "Return whether it doesn't hold.")
negative = _export("negative", unary("Neg", lambda x: -x), "Return ``-x``.")
abs_ = unary("Abs", np.abs)
_export("abs", abs_, "Return the absolute value.")
square = _export("square", unary("Square", lambda x: x * x), "Return ``x * x``.")
identity = _export("identity", unary("Identity", lambda x: x), "Return the same value, read when this runs.")


@public
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y``; integers become floats of 32 bits if they have 16 or fewer, else of 64."""
    a, b = tensors(x, y)
    if a.dtype.kind in "iu":
        wide = np.float32 if a.dtype.itemsize <= 2 else np.float64
        a, b = cast(a, wide), cast(b, wide)
    return apply_op("RealDiv", [a, b], a.dtype, broadcast([a.shape, b.shape]), lambda x, y: x / y, name)


divide = truediv
__all__ += ["divide"]


@public
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y`` of floats, and ``x // y`` of integers."""
    a, b = tensors(x, y)
    made: Tensor = floordiv(a, b, name) if a.dtype.kind in "iu" else truediv(a, b, name)
    return made


@public
def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Return it as another type: floats lose what is behind the point, as by `queuecore.ops.cast`."""
    given, wanted = convert_to_tensor(x), as_dtype(dtype)
    if given.dtype == wanted:
        return given if name is None else identity(given, name)
    return apply_op("Cast", [given], wanted, given.shape, lambda x: ops.cast(x, wanted), name)


def _sliced(tensor: Tensor, key: Any) -> Tensor:
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, (Tensor, Variable)) for part in _parts(keys)):
        return _sliced_by_tensors(tensor, keys)
    shape = None
    if tensor.shape.sides is not None:
        sides = [0 if side is None else side for side in tensor.shape.sides]
        unknown = [side is None for side in tensor.shape.sides]
        shape = _shape_of_slice(sides, unknown, keys)
    return apply_op("StridedSlice", [tensor], tensor.dtype, shape, lambda x: x[key], "strided_slice")


def _parts(keys: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for part in keys:
        found += [part.start, part.stop, part.step] if isinstance(part, slice) else [part]
    return found


def _sliced_by_tensors(tensor: Tensor, keys: tuple[Any, ...]) -> Tensor:
    # Which of the parts are tensors, and which numbers: the kernel puts them together again.
    inputs = [tensor]
    places: list[Any] = []
    for part in _parts(keys):
        if isinstance(part, (Tensor, Variable)):
            places.append(len(inputs))
            inputs.append(convert_to_tensor(part))
        else:
            places.append(None)

    def kernel(x: Any, *values: Any) -> Any:
        parts = iter([None if at is None else int(values[at - 1]) for at in places])
        made: list[Any] = []
        for part in keys:
            if isinstance(part, slice):
                made.append(slice(*[given if (new := next(parts)) is None else new
                                    for given in (part.start, part.stop, part.step)]))  # fmt: skip
            else:
                new = next(parts)
                made.append(part if new is None else new)
        return x[tuple(made)]

    sides = tensor.shape.sides
    shape: Any = None
    if sides is not None and all(isinstance(part, (int, slice, Tensor, Variable)) for part in keys):
        shape = [None for part in keys if isinstance(part, slice)] + list(sides[len(keys) :])
    return apply_op("StridedSlice", inputs, tensor.dtype, shape, kernel, "strided_slice")


def _shape_of_slice(sides: list[int], unknown: list[bool], keys: tuple[Any, ...]) -> list[int | None]:
    given = [part for part in keys if part is not None and part is not Ellipsis]
    rest = len(sides) - len(given)
    if rest < 0:
        raise ValueError(f"Index out of range using input dim {len(sides)}; input has only {len(sides)} dims")
    if Ellipsis not in keys:
        keys = (*keys, Ellipsis)
    found: list[int | None] = []
    at = 0
    for part in keys:
        if part is None:
            found.append(1)
        elif part is Ellipsis:
            found += [None if unknown[i] else sides[i] for i in range(at, at + rest)]
            at += rest
        elif isinstance(part, slice):
            found.append(None if unknown[at] else len(range(*part.indices(sides[at]))))
            at += 1
        else:
            if not unknown[at] and not -sides[at] <= part < sides[at]:
                raise ValueError(f"slice index {part} of dimension {at} out of bounds.")
            at += 1
    return found


def _operators(cls: Any) -> None:
    def both(forward: str, backward: str | None, function: Any) -> None:
        setattr(cls, forward, lambda self, other: function(self, other))
        if backward:
            setattr(cls, backward, lambda self, other: function(other, self))

    both("__add__", "__radd__", add)
    both("__sub__", "__rsub__", subtract)
    both("__mul__", "__rmul__", multiply)
    both("__truediv__", "__rtruediv__", truediv)
    both("__floordiv__", "__rfloordiv__", floordiv)
    both("__mod__", "__rmod__", mod)
    both("__pow__", "__rpow__", pow_)
    both("__lt__", None, less)
    both("__le__", None, less_equal)
    both("__gt__", None, greater)
    both("__ge__", None, greater_equal)
    both("__and__", "__rand__", logical_and)
    both("__or__", "__ror__", logical_or)
    both("__xor__", "__rxor__", logical_xor)
    cls.__neg__ = lambda self: negative(self)
    cls.__abs__ = lambda self: abs_(self)
    cls.__invert__ = lambda self: logical_not(self)
    cls.__getitem__ = lambda self, key: _sliced(convert_to_tensor(self), key)


_operators(Tensor)
_operators(Variable)
