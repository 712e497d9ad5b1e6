"""Arithmetic and comparison of tensors, element by element: NumPy's functions, on values of one type.

The kernels take arrays, and also the symbols of a trace (`queuecore._trace.symbol`): that is how a runner's operations
become native stages.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore import ops
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor
from queuecore.tf1._graph.operators import Operators, register_operators
from queuecore.tf1._graph.values import DType, Sides, TensorShape, as_dtype, broadcast, name_of, string

__all__ = [
    "add",
    "add_n",
    "argmax",
    "argmin",
    "cast",
    "ceil",
    "clip_by_value",
    "cos",
    "cumsum",
    "div",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floordiv",
    "floormod",
    "greater",
    "greater_equal",
    "identity",
    "is_finite",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "reciprocal",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "rint",
    "rsqrt",
    "saturate_cast",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
    "truediv",
    "truncatediv",
]


def tensors(*values: Any, dtype: Any = None) -> list[Tensor]:
    """Return values as tensors of one type: `dtype`, or that of the first tensor among them.

    Raises
    ------
    TypeError, ValueError
        If one can't be of that type.
    """
    if dtype is None:
        for value in values:
            if isinstance(value, Operators):
                dtype = value.dtype
                break
        else:
            dtype = convert_to_tensor(values[0]).dtype
    operands = []
    for value in values:
        if isinstance(value, Operators) and value.dtype != dtype:
            raise TypeError(
                f"Input has type {name_of(value.dtype)} that does not match type {name_of(as_dtype(dtype))} of the "
                "other argument"
            )
        operands.append(convert_to_tensor(value, dtype))
    return operands


def elementwise(type_: str, kernel: Callable[..., Any], dtype: Any = None) -> Callable[..., Tensor]:
    """Return a function of two values that applies a function of NumPy's to them."""

    def apply(x: Any, y: Any, name: str | None = None) -> Tensor:
        a, b = tensors(x, y)
        used = kernel
        if a.dtype == string:  # which NumPy would take for its own strings, and those lose the zeros at their end
            used = lambda x, y: kernel(np.asarray(x, object), np.asarray(y, object))  # noqa: E731
        return apply_op(type_, [a, b], dtype or a.dtype, broadcast([a.shape, b.shape]), used, name)

    return apply


def unary(type_: str, kernel: Callable[..., Any], dtype: Any = None) -> Callable[..., Tensor]:
    """Return a function of one value that applies a function of NumPy's to it."""

    def apply(x: Any, name: str | None = None) -> Tensor:
        operand = convert_to_tensor(x)
        return apply_op(type_, [operand], dtype or operand.dtype, operand.shape, kernel, name)

    return apply


def _named(name: str, function: Any, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _dividing(type_: str, kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    # A division: of integers by 0 it is an error, where NumPy gives 0.
    def apply(x: Any, y: Any, name: str | None = None) -> Tensor:
        a, b = tensors(x, y)
        known = constant_value(b)
        used = kernel
        if a.dtype.kind in "iu" and (known is None or not np.all(known)):
            used = lambda x, y: kernel(x, _divisor(y))  # noqa: E731
        return apply_op(type_, [a, b], a.dtype, broadcast([a.shape, b.shape]), used, name)

    return apply


def _divisor(value: Any) -> Any:
    if not np.all(value):
        raise InvalidArgumentError("Integer division by zero")
    return value


def _truncated(x: Any, y: Any) -> Any:
    # As in C: towards zero.
    return (
        np.trunc(x / y).astype(x.dtype) if x.dtype.kind == "f" else (np.abs(x) // np.abs(y)) * np.sign(x) * np.sign(y)
    )


add = _named("add", elementwise("Add", lambda x, y: x + y), "Return ``x + y``.")
subtract = _named("subtract", elementwise("Sub", lambda x, y: x - y), "Return ``x - y``.")
multiply = _named("multiply", elementwise("Mul", lambda x, y: x * y), "Return ``x * y``.")
floordiv = _named("floordiv", _dividing("FloorDiv", lambda x, y: x // y), "Return ``x // y``, rounded down.")
mod = _named("mod", _dividing("FloorMod", lambda x, y: x % y), "Return the remainder of ``x // y``.")
pow_ = _named("pow", elementwise("Pow", lambda x, y: x**y), "Return ``x ** y``.")
maximum = _named("maximum", elementwise("Maximum", np.maximum), "Return the larger one.")
minimum = _named("minimum", elementwise("Minimum", np.minimum), "Return the smaller one.")
equal = _named("equal", elementwise("Equal", np.equal, bool), "Return whether they are equal.")
not_equal = _named("not_equal", elementwise("NotEqual", np.not_equal, bool), "Return whether they differ.")
greater = _named("greater", elementwise("Greater", lambda x, y: x > y, bool), "Return whether ``x > y``.")
greater_equal = _named("greater_equal", elementwise("GreaterEqual", lambda x, y: x >= y, bool), "Return ``x >= y``.")
less = _named("less", elementwise("Less", lambda x, y: x < y, bool), "Return whether ``x < y``.")
less_equal = _named("less_equal", elementwise("LessEqual", lambda x, y: x <= y, bool), "Return whether ``x <= y``.")
logical_and = _named("logical_and", elementwise("LogicalAnd", np.logical_and, bool), "Return whether both hold.")
logical_or = _named("logical_or", elementwise("LogicalOr", np.logical_or, bool), "Return whether either holds.")
logical_xor = _named("logical_xor", elementwise("LogicalXor", np.logical_xor, bool), "Return whether one holds.")
logical_not = _named("logical_not", unary("LogicalNot", np.logical_not, bool), "Return whether it doesn't hold.")
negative = _named("negative", unary("Neg", lambda x: -x), "Return ``-x``.")
abs_ = _named("abs", unary("Abs", np.abs), "Return the absolute value.")
square = _named("square", unary("Square", lambda x: x * x), "Return ``x * x``.")
identity = _named("identity", unary("Identity", lambda x: x), "Return the same value, read when this runs.")


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y``; integers become floats of 32 bits if they have 16 or fewer, else of 64."""
    a, b = tensors(x, y)
    if a.dtype.kind in "iu":
        wide = np.float32 if a.dtype.itemsize <= 2 else np.float64
        a, b = cast(a, wide), cast(b, wide)
    return apply_op("RealDiv", [a, b], a.dtype, broadcast([a.shape, b.shape]), lambda x, y: x / y, name)


divide = truediv


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return ``x / y`` of floats, and ``x // y`` of integers."""
    a, b = tensors(x, y)
    made: Tensor = floordiv(a, b, name) if a.dtype.kind in "iu" else truediv(a, b, name)
    return made


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Return it as another type: floats lose their fraction, as in `queuecore.ops.cast`."""
    operand, wanted = convert_to_tensor(x), as_dtype(dtype)
    if operand.dtype == wanted:
        return operand if name is None else identity(operand, name)
    return apply_op("Cast", [operand], wanted, operand.shape, lambda x: ops.cast(x, wanted), name)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Return it as another type; a value that doesn't fit becomes the nearest number that does."""
    operand, target = convert_to_tensor(value), as_dtype(dtype)
    if target.kind not in "iu" or operand.dtype.kind not in "iuf":
        return cast(operand, target, name)
    limits = np.iinfo(target)
    if operand.dtype.kind == "f":
        # Behind the largest integer, which may have no float of its own.
        end = np.float64(2) ** (limits.bits - (limits.min < 0))

        def kernel(x: Any) -> Any:
            numbers = np.array(np.where((x > limits.min) & (x < end), x, 0).astype(target.dtype))
            numbers[x <= limits.min] = limits.min
            numbers[x >= end] = limits.max
            return numbers

        return apply_op("SaturateCast", [operand], target, operand.shape, kernel, name)
    inner = np.iinfo(operand.dtype)
    low, high = max(limits.min, inner.min), min(limits.max, inner.max)
    if (low, high) != (inner.min, inner.max):
        operand = clip_by_value(operand, low, high)
    return cast(operand, target, name)


def _conversion(name: str, dtype: Any) -> Any:
    def convert(x: Any, name: str = name) -> Tensor:
        return cast(x, dtype, name)

    return convert


to_float = _named("to_float", _conversion("ToFloat", "float32"), "Return it as float32.")
to_double = _named("to_double", _conversion("ToDouble", "float64"), "Return it as float64.")
to_int32 = _named("to_int32", _conversion("ToInt32", "int32"), "Return it as int32.")
to_int64 = _named("to_int64", _conversion("ToInt64", "int64"), "Return it as int64.")


# Functions of floats


def _floating(type_: str, kernel: Callable[..., Any], dtype: Any = None) -> Callable[..., Tensor]:
    apply = unary(type_, kernel, dtype)

    def checked(x: Any, name: str | None = None) -> Tensor:
        operand = convert_to_tensor(x)
        if operand.dtype.kind not in "fcV":
            raise TypeError(
                f"Value passed to parameter 'x' has DataType {name_of(operand.dtype)} not in list of allowed values: "
                "bfloat16, float16, float32, float64, complex64, complex128"
            )
        return apply(operand, name)

    return checked


sqrt = _named("sqrt", _floating("Sqrt", np.sqrt), "Return the square root.")
rsqrt = _named("rsqrt", _floating("Rsqrt", lambda x: 1 / np.sqrt(x)), "Return 1 through the square root.")
exp = _named("exp", _floating("Exp", np.exp), "Return e to the power of it.")
expm1 = _named("expm1", _floating("Expm1", np.expm1), "Return e to the power of it, less 1.")
log = _named("log", _floating("Log", np.log), "Return the natural logarithm.")
log1p = _named("log1p", _floating("Log1p", np.log1p), "Return the natural logarithm of it and 1.")
sin = _named("sin", _floating("Sin", np.sin), "Return the sine.")
cos = _named("cos", _floating("Cos", np.cos), "Return the cosine.")
tan = _named("tan", _floating("Tan", np.tan), "Return the tangent.")
tanh = _named("tanh", _floating("Tanh", np.tanh), "Return the hyperbolic tangent.")
# By tanh, which never overflows.
sigmoid = _named("sigmoid", _floating("Sigmoid", lambda x: np.tanh(x / 2) / 2 + 0.5), "Return ``1 / (1 + exp(-x))``.")
floor = _named("floor", _floating("Floor", np.floor), "Return the largest whole number that isn't larger.")
ceil = _named("ceil", _floating("Ceil", np.ceil), "Return the smallest whole number that isn't smaller.")
rint = _named("rint", _floating("Rint", np.rint), "Return the nearest whole number, the even one of two.")
is_nan = _named("is_nan", _floating("IsNan", np.isnan, bool), "Return whether it is no number.")
is_inf = _named("is_inf", _floating("IsInf", np.isinf, bool), "Return whether it is infinite.")
is_finite = _named("is_finite", _floating("IsFinite", np.isfinite, bool), "Return whether it is a finite number.")
reciprocal = _named("reciprocal", _floating("Reciprocal", lambda x: 1 / x), "Return ``1 / x``.")
sign = _named("sign", unary("Sign", np.sign), "Return -1, 0 or 1.")
floormod = mod
truncatediv = _named("truncatediv", _dividing("TruncateDiv", _truncated), "Return ``x / y``, rounded to zero.")
squared_difference = _named(
    "squared_difference", elementwise("SquaredDifference", lambda x, y: (x - y) * (x - y)), "Return ``(x - y) ** 2``."
)


def round_(x: Any, name: str | None = None) -> Tensor:
    """Return the nearest whole number, the even one of two; integers as they are."""
    operand = convert_to_tensor(x)
    made: Tensor = identity(operand, name) if operand.dtype.kind in "iu" else rint(operand, name or "Round")
    return made


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Tensor:
    """Return it with values beyond the two limits moved to them.

    Raises
    ------
    ValueError
        If the limits have a larger shape.
    """
    operand = convert_to_tensor(t)
    low, high = convert_to_tensor(clip_value_min, operand.dtype), convert_to_tensor(clip_value_max, operand.dtype)
    shape = broadcast([operand.shape, low.shape, high.shape])
    shape.assert_is_compatible_with(operand.shape)
    return apply_op(
        "ClipByValue",
        [operand, low, high],
        operand.dtype,
        operand.shape.merge_with(shape),
        lambda x, a, b: np.maximum(np.minimum(x, b), a),
        name or "clip_by_value",
    )


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the sum of tensors of one type and shape.

    Raises
    ------
    ValueError
        If there are none, or they have different shapes.
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("inputs must be an iterable of at least one Tensor with the same dtype and shape")
    operands = tensors(*inputs)
    shape = functools.reduce(lambda a, b: a.merge_with(b.shape), operands, TensorShape(None))
    return apply_op("AddN", operands, operands[0].dtype, shape, lambda *x: functools.reduce(operator.add, x), name)


# Reductions


def axes_of(axis: Any, rank: int | None, operation: str = "reduction") -> tuple[int, ...] | None:
    """Return the axes in rising order; `None`: all axes of an unknown rank.

    Raises
    ------
    ValueError
        If there are no such ones, or they are known only in a run.
    """
    if axis is None:
        return None if rank is None else tuple(range(rank))
    known = constant_value(convert_to_tensor(axis))
    if known is None:
        raise ValueError(f"the {operation} axis must be known before the graph runs")
    axes = [int(number) for number in np.ravel(known)]
    if rank is None:
        return tuple(axes)
    for number in axes:
        if not -rank <= number < rank:
            raise ValueError(f"Invalid {operation} dimension {number} for input with {rank} dimensions.")
    places = sorted({number % rank for number in axes})
    if len(places) != len(axes):
        raise ValueError(f"Invalid {operation} arguments: {axes} name a dimension twice")
    return tuple(places)


def _reduction(type_: str, kernel: Callable[..., Any], kinds: str) -> Callable[..., Tensor]:
    def reduce(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        operand = convert_to_tensor(input_tensor)
        if operand.dtype.kind not in kinds:
            raise TypeError(f"{type_} of {name_of(operand.dtype)}: {operand!r}")
        if axis is not None and reduction_indices is not None:
            raise ValueError("Cannot specify both 'axis' and 'reduction_indices'.")
        if keepdims is not None and keep_dims is not None:
            raise ValueError("Cannot specify both 'keepdims' and 'keep_dims'.")
        keep = bool(keepdims if keep_dims is None else keep_dims)
        sides = operand.shape.sides
        axes = axes_of(reduction_indices if axis is None else axis, None if sides is None else len(sides))
        shape: Any = None
        if sides is not None and axes is not None:
            left = [1 if at in axes else side for at, side in enumerate(sides)]
            shape = left if keep else [side for at, side in enumerate(left) if at not in axes]
        elif axes is None and not keep:
            shape = ()
        return apply_op(
            type_, [operand], operand.dtype, shape, lambda x: kernel(x, axis=axes, keepdims=keep), name or type_
        )

    return reduce


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    if x.dtype.kind not in "iu":
        return np.mean(x, axis=axis, keepdims=keepdims, dtype=x.dtype if x.dtype.kind in "fc" else None)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)
    count = x.size // max(total.size, 1)
    return (np.abs(total) // count * np.sign(total)).astype(x.dtype) if count else total


def _limit(dtype: DType, high: bool) -> Any:
    # The largest or smallest of no numbers.
    if dtype.kind == "f":
        return np.inf if high else -np.inf
    limits = np.iinfo(dtype)
    return limits.max if high else limits.min


reduce_sum = _named(
    "reduce_sum", _reduction("Sum", lambda x, **how: np.sum(x, dtype=x.dtype, **how), "iufc"), "Return the sum."
)
reduce_prod = _named(
    "reduce_prod", _reduction("Prod", lambda x, **how: np.prod(x, dtype=x.dtype, **how), "iufc"), "Return the product."
)
reduce_mean = _named(
    "reduce_mean", _reduction("Mean", _mean, "iufc"), "Return the mean; of integers an integer, rounded to zero."
)
reduce_max = _named(
    "reduce_max",
    _reduction("Max", lambda x, **how: np.max(x, initial=_limit(x.dtype, False), **how), "iuf"),
    "Return the largest.",
)
reduce_min = _named(
    "reduce_min",
    _reduction("Min", lambda x, **how: np.min(x, initial=_limit(x.dtype, True), **how), "iuf"),
    "Return the smallest.",
)
reduce_any = _named("reduce_any", _reduction("Any", np.any, "b"), "Return whether one of them holds.")
reduce_all = _named("reduce_all", _reduction("All", np.all, "b"), "Return whether all of them hold.")


def _place(type_: str, kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    def find(
        input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = np.int64
    ) -> Tensor:
        if axis is not None and dimension is not None:
            raise ValueError("Cannot specify both 'axis' and 'dimension'.")
        operand, target = convert_to_tensor(input), as_dtype(output_type)
        sides = operand.shape.sides
        chosen = dimension if axis is None else axis
        axes = axes_of(0 if chosen is None else chosen, None if sides is None else len(sides))
        if axes is None or len(axes) != 1:
            raise ValueError("argmax and argmin look along one dimension")
        shape: Sides | None = None if sides is None else tuple(side for i, side in enumerate(sides) if i != axes[0])

        def run(x: Any) -> Any:
            if not x.shape[axes[0]]:
                raise ValueError(f"Reduction axis {axes[0]} is empty in shape {list(x.shape)}")
            return kernel(x, axes[0]).astype(target)

        return apply_op(type_, [operand], target, shape, run, name)

    return find


argmax = _named("argmax", _place("ArgMax", np.argmax), "Return where along an axis the largest is, the first one.")
argmin = _named("argmin", _place("ArgMin", np.argmin), "Return where along an axis the smallest is, the first one.")


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Return sums of all up to each item along an axis; `exclusive`: without it; `reverse`: from it on."""
    operand = convert_to_tensor(x)
    axes = axes_of(axis, operand.shape.ndims)
    assert axes is not None

    def kernel(x: Any) -> Any:
        way = np.moveaxis(np.flip(x, axes[0]) if reverse else x, axes[0], 0)
        sums = np.cumsum(way, 0, x.dtype)
        if exclusive:
            sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
        sums = np.moveaxis(sums, 0, axes[0])
        return np.flip(sums, axes[0]) if reverse else sums

    return apply_op("Cumsum", [operand], operand.dtype, operand.shape, kernel, name)


def sliced(tensor: Any, key: Any) -> Tensor:
    """Return a part of a tensor."""
    tensor = convert_to_tensor(tensor)
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, Operators) for part in _parts(keys)):
        return _sliced_by_tensors(tensor, keys)
    shape = None
    if tensor.shape.sides is not None:
        sides = [0 if side is None else side for side in tensor.shape.sides]
        unknown = [side is None for side in tensor.shape.sides]
        shape = slice_shape(sides, unknown, keys)
    made = apply_op("StridedSlice", [tensor], tensor.dtype, shape, lambda x: x[key], "strided_slice")
    if isinstance(key, int):
        made.op.attributes["index"] = key  # for what is known of a shape that is made of such
    return made


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
        if isinstance(part, Operators):
            places.append(len(inputs))
            inputs.append(convert_to_tensor(part))
        else:
            places.append(None)

    def kernel(x: Any, *values: Any) -> Any:
        parts = iter([None if at is None else int(values[at - 1]) for at in places])
        index: list[Any] = []
        for part in keys:
            if isinstance(part, slice):
                index.append(slice(*[bound if (new := next(parts)) is None else new
                                    for bound in (part.start, part.stop, part.step)]))  # fmt: skip
            else:
                new = next(parts)
                index.append(part if new is None else new)
        return x[tuple(index)]

    sides = tensor.shape.sides
    shape: Any = None
    if sides is not None and all(isinstance(part, (int, slice, Operators)) for part in keys):
        shape = [None for part in keys if isinstance(part, slice)] + list(sides[len(keys) :])
    return apply_op("StridedSlice", inputs, tensor.dtype, shape, kernel, "strided_slice")


def slice_shape(sides: list[int], unknown: list[bool], keys: tuple[Any, ...]) -> list[int | None]:
    """Return the shape of a part; a side that is unknown there is unknown here."""
    given = [part for part in keys if part is not None and part is not Ellipsis]
    rest = len(sides) - len(given)
    if rest < 0:
        raise ValueError(f"Index out of range using input dim {len(sides)}; input has only {len(sides)} dims")
    if Ellipsis not in keys:
        keys = (*keys, Ellipsis)
    shape: list[int | None] = []
    position = 0
    for part in keys:
        if part is None:
            shape.append(1)
        elif part is Ellipsis:
            shape += [None if unknown[i] else sides[i] for i in range(position, position + rest)]
            position += rest
        elif isinstance(part, slice):
            shape.append(None if unknown[position] else len(range(*part.indices(sides[position]))))
            position += 1
        else:
            if not unknown[position] and not -sides[position] <= part < sides[position]:
                raise ValueError(f"slice index {part} of dimension {position} out of bounds.")
            position += 1
    return shape


register_operators(
    abs=abs_,
    add=add,
    floordiv=floordiv,
    greater=greater,
    greater_equal=greater_equal,
    less=less,
    less_equal=less_equal,
    logical_and=logical_and,
    logical_not=logical_not,
    logical_or=logical_or,
    logical_xor=logical_xor,
    mod=mod,
    multiply=multiply,
    negative=negative,
    pow=pow_,
    sliced=sliced,
    subtract=subtract,
    truediv=truediv,
)
