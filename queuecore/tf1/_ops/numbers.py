"""Further functions of numbers: angles, complex numbers, bits, identities that check or mark, matrices of ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.values import (
    TensorShape,
    as_dtype,
    as_shape,
    broadcast,
    complex64,
    complex128,
    int32,
    name_of,
)
from queuecore.tf1._ops.arrays import shape, shape_tensor, shape_within
from queuecore.tf1._ops.math import add_n, axes_of, cast, elementwise, identity, multiply, tensors, unary

__all__ = [
    "accumulate_n",
    "acos",
    "acosh",
    "add_check_numerics_ops",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "broadcast_dynamic_shape",
    "broadcast_static_shape",
    "check_numerics",
    "complex",
    "conj",
    "cosh",
    "cumprod",
    "diag",
    "eye",
    "floor_div",
    "get_static_value",
    "imag",
    "is_tensor",
    "real",
    "reduce_logsumexp",
    "scalar_mul",
    "shape_n",
    "sinh",
    "stop_gradient",
    "to_bfloat16",
    "to_complex128",
    "to_complex64",
    "verify_tensor_all_finite",
]


def _named(name: str, function: Any, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


sinh = _named("sinh", unary("Sinh", np.sinh), "Return the hyperbolic sine.")
cosh = _named("cosh", unary("Cosh", np.cosh), "Return the hyperbolic cosine.")
asin = _named("asin", unary("Asin", np.arcsin), "Return the angle that has this sine.")
acos = _named("acos", unary("Acos", np.arccos), "Return the angle that has this cosine.")
atan = _named("atan", unary("Atan", np.arctan), "Return the angle that has this tangent.")
asinh = _named("asinh", unary("Asinh", np.arcsinh), "Return the number that has this hyperbolic sine.")
acosh = _named("acosh", unary("Acosh", np.arccosh), "Return the number that has this hyperbolic cosine.")
atanh = _named("atanh", unary("Atanh", np.arctanh), "Return the number that has this hyperbolic tangent.")
atan2 = _named("atan2", elementwise("Atan2", np.arctan2), "Return the angle of the point (second, first).")
floor_div = _named("floor_div", lambda x, y, name=None: tensors(x, y)[0] // y, "Return ``x // y``, rounded down.")


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """Return the same value: there are no gradients here."""
    made: Tensor = identity(input, name or "StopGradient")
    return made


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Tensor:
    """Return a tensor multiplied by a number. `ValueError`: it is no scalar."""
    operand = convert_to_tensor(x)
    factor = convert_to_tensor(scalar, operand.dtype)
    if factor.shape.ndims != 0:
        raise ValueError("Only scalar multiply works")
    made: Tensor = multiply(factor, operand, name)
    return made


def accumulate_n(inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """As `add_n`; `shape` and `tensor_dtype` must fit.

    Parameters
    ----------
    inputs : list of Tensor
    shape : optional
    tensor_dtype : dtype, optional
    name : str, optional
    """
    made = add_n(inputs, name or "AccumulateNV2")
    if tensor_dtype is not None and as_dtype(tensor_dtype) != made.dtype:
        raise TypeError(f"tensor_dtype is {tensor_dtype}, but input is of type {made.dtype}")
    made.set_shape(shape)
    return made


def cumprod(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Return products of all up to each item along an axis; `exclusive`: without it; `reverse`: from it on."""
    operand = convert_to_tensor(x)
    (axis_index,) = axes_of(axis, operand.shape.ndims) or (axis,)

    def kernel(value: Any) -> Any:
        way = np.moveaxis(np.flip(value, axis_index) if reverse else value, axis_index, 0)
        products = np.cumprod(way, 0, value.dtype)
        if exclusive:
            products = np.concatenate([np.ones_like(products[:1]), products[:-1]])
        products = np.moveaxis(products, 0, axis_index)
        return np.flip(products, axis_index) if reverse else products

    return apply_op("Cumprod", [operand], operand.dtype, operand.shape, kernel, name)


def reduce_logsumexp(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = None, name: str | None = None,
    reduction_indices: Any = None, keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the logarithm of the sum of e to the power of each number.

    Parameters
    ----------
    input_tensor : Tensor of floats
    axis, reduction_indices : int or list of int, optional
        The dimensions that are summed. Default: all.
    keepdims, keep_dims : bool, default False
        Whether the dimensions stay, with a length of 1.
    name : str, optional
    """
    operand = convert_to_tensor(input_tensor)
    keep = bool(keepdims if keep_dims is None else keep_dims)
    sides = operand.shape.sides
    axes = axes_of(reduction_indices if axis is None else axis, None if sides is None else len(sides))
    shape: Any = None
    if sides is not None and axes is not None:
        shape = [1 if index in axes else side for index, side in enumerate(sides) if keep or index not in axes]

    def kernel(x: Any) -> Any:
        most = np.max(x, axes, keepdims=True, initial=-np.inf)
        most = np.where(np.isfinite(most), most, 0).astype(x.dtype)
        total = np.log(np.sum(np.exp(x - most), axes, keepdims=True, dtype=x.dtype)) + most
        left = [side for index, side in enumerate(x.shape) if axes and index not in axes]
        return total if keep else total.reshape(left)[()]

    return apply_op("ReduceLogSumExp", [operand], operand.dtype, shape, kernel, name or "ReduceLogSumExp")


# Complex numbers


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Return complex numbers of their two parts."""
    a, b = tensors(real, imag)
    kinds = {"float32": complex64, "float64": complex128}
    if a.dtype.name not in kinds:
        raise TypeError(f"real and imag have incorrect types: {name_of(a.dtype)} {name_of(b.dtype)}")
    kind = kinds[a.dtype.name]
    return apply_op("Complex", [a, b], kind, broadcast([a.shape, b.shape]),
                    lambda x, y: (x + np.asarray(y) * 1j).astype(kind.dtype), name)  # fmt: skip


def _part(type_: str, kernel: Callable[[Any], Any]) -> Callable[..., Tensor]:
    def part(input: Any, name: str | None = None) -> Tensor:
        operand = convert_to_tensor(input)
        return apply_op(type_, [operand], operand.dtype.real_dtype, operand.shape, kernel, name)

    return part


real = _named("real", _part("Real", np.real), "Return the real part.")
imag = _named("imag", _part("Imag", np.imag), "Return the imaginary part.")
conj = _named("conj", unary("Conj", np.conj), "Return the number with the imaginary part's sign changed.")


def _conversion(dtype: str) -> Callable[..., Tensor]:
    def convert(x: Any, name: str | None = None) -> Tensor:
        return cast(x, dtype, name)

    made: Callable[..., Tensor] = _named(f"to_{dtype}", convert, f"Return it as {dtype}.")
    return made


to_bfloat16 = _conversion("bfloat16")
to_complex64 = _conversion("complex64")
to_complex128 = _conversion("complex128")


# Checks


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """Return the same value; a run in which a number is infinite or none raises `InvalidArgumentError`.

    Parameters
    ----------
    tensor : Tensor of floats
    message : str
        What the error begins with.
    name : str, optional
    """
    operand = convert_to_tensor(tensor)
    if operand.dtype.kind not in "fV":
        raise TypeError(
            f"Value passed to parameter 'tensor' has DataType {name_of(operand.dtype)} not in list of allowed values: "
            "bfloat16, float16, float32, float64"
        )

    def kernel(value: Any) -> Any:
        wrong = [word for word, found in (("NaN", np.isnan), ("Inf", np.isinf)) if found(value).any()]
        if wrong:
            raise InvalidArgumentError(f"{message} : Tensor had {' and '.join(wrong[::-1])} values")
        return value

    return apply_op("CheckNumerics", [operand], operand.dtype, operand.shape, kernel, name)


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """As `check_numerics`; `x` and `message` are later names of `t` and `msg`."""
    return check_numerics(x if t is None else t, (message if msg is None else msg) or "", name or "VerifyFinite")


def add_check_numerics_ops() -> Any:
    """Return an operation that checks all floats of the default graph, as made up to now: see `check_numerics`."""
    from queuecore.tf1._ops.variables import group

    graph = get_default_graph()
    found = [one for op in graph.get_operations() for one in op.outputs if one.dtype.is_floating]
    return group(*[check_numerics(one, one.name) for one in found])


# Shapes and facts


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Return the shape of an element-wise operation's result. `ValueError`: there is none."""
    return broadcast([as_shape(shape_x), as_shape(shape_y)])


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """As `broadcast_static_shape`, of shapes that are tensors."""
    a, b = convert_to_tensor(shape_x), convert_to_tensor(shape_y)

    def kernel(first: Any, second: Any) -> Any:
        try:
            return np.array(np.broadcast_shapes(tuple(first), tuple(second)), a.dtype.dtype)
        except ValueError as error:
            raise InvalidArgumentError(f"Incompatible shapes: {list(first)} vs. {list(second)}") from error

    lengths = [one.shape.ranked(1)[0].value for one in (a, b)]
    return apply_op("BroadcastArgs", [a, b], a.dtype, (None if None in lengths else max(lengths),), kernel, None)


def shape_n(input: Sequence[Any], out_type: Any = np.int32, name: str | None = None) -> list[Tensor]:
    """Return the shapes of tensors."""
    return [shape(one, name, out_type) for one in input]


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = np.float32, name: str | None = None
) -> Tensor:
    """Return a matrix with 1 where row and column have the same number, and 0 elsewhere.

    Parameters
    ----------
    num_rows : int or Tensor
    num_columns : int or Tensor, optional
        Default: as many as rows.
    batch_shape : list of int, or Tensor, optional
        Further dimensions in front, along which the matrix is repeated.
    dtype : dtype, default float32
    name : str, optional
    """
    kind = as_dtype(dtype)
    rows = convert_to_tensor(num_rows, int32)
    columns = rows if num_columns is None else convert_to_tensor(num_columns, int32)
    sides = [None if (known := constant_value(one)) is None else int(known) for one in (rows, columns)]
    batch = shape_tensor([] if batch_shape is None else batch_shape)
    outer = shape_within(batch)

    def kernel(n: Any, m: Any, *front: Any) -> Any:
        matrix = np.eye(int(n), int(m), dtype=kind.dtype)
        return np.broadcast_to(matrix, [*map(int, np.ravel(front)), *matrix.shape]).copy()

    return apply_op("Eye", [rows, columns, batch], kind, None if outer is None else [*outer, *sides], kernel, name)


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Return a tensor with these items where its two halves of indices are equal, and 0 elsewhere."""
    operand = convert_to_tensor(diagonal)
    sides = operand.shape.sides

    def kernel(x: Any) -> Any:
        return np.diag(np.ravel(x)).reshape(x.shape * 2)

    return apply_op("Diag", [operand], operand.dtype, None if sides is None else sides * 2, kernel, name)


def is_tensor(x: Any) -> bool:
    """Return whether it is a tensor, a variable, or made of tensors."""
    return isinstance(x, Tensor) or hasattr(x, "_as_graph_element") or hasattr(x, "_fetch")


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """Return a tensor's value if it is known before the graph runs, else `None`."""
    del partial
    return constant_value(tensor)
