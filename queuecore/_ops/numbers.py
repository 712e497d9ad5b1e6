"""Operations on numbers: dtypes, scales and shapes, and chains of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from queuecore._checks.checks import LARGEST, MAX_DIMS, whole, wholes
from queuecore._core.steps.elementwise import PAD_MODES, OneHotStep, PadStep, SliceStep
from queuecore._core.steps.stages import PartStep, PythonStep, Step
from queuecore._elements.component import Component, shape_text
from queuecore._elements.dtypes import as_dtype, kind_of
from queuecore._ops.chain import (
    Cast,
    Composed,
    Links,
    Reshape,
    Scale,
    Transpose,
    array_of,
    check_array_size,
    lone_array,
    number_of,
    run_eagerly,
)
from queuecore._ops.stage import Stage, traceable
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["cast", "compose", "on", "one_hot", "pad", "reshape", "scale", "slice", "transpose"]


# What is given


def _dtype(label: str, dtype: Any) -> np.dtype[Any]:
    if dtype is None:
        raise InvalidArgumentError(f"{label}: dtype is missing")
    try:
        found: np.dtype[Any] = as_dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{label}: no dtype: {error}") from error
    number_of(label, found)
    return found


def _constant(label: str, subject: str, value: Any, dtype: np.dtype[Any]) -> bytes:
    try:
        made = np.array(value).astype(dtype) if kind_of(dtype) == "f" else np.array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{label}: {subject} is no {dtype}: {error}") from error
    if made.ndim:
        raise InvalidArgumentError(f"{label}: {subject} must be one number, not {value!r}")
    return made.tobytes()


# Chains


def compose(*stages: Stage) -> Stage:
    """Make several stages one.

    Parameters
    ----------
    *stages : Stage
        At least one. Each gets what the one before it makes.

    Returns
    -------
    Stage
        Neighbours among `cast`, `scale`, `reshape` and `transpose` share one pass over an element, up to the second
        transposition. A `StageProgram` does the same with what it is given.

    Raises
    ------
    InvalidArgumentError
        If there is none, or something else than a stage.

    Notes
    -----
    The results are those of the separate stages: bit for bit.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> stage = qc.ops.compose(qc.ops.cast(dtype=np.float32), qc.ops.scale(a=2, b=1))
    >>> step = stage.bind([qc.ops.Component(np.dtype("u1"), (3,))])
    >>> step(np.array([1, 2, 3], np.uint8))[0]
    array([3., 5., 7.], dtype=float32)
    """
    for stage in stages:
        if not isinstance(stage, Stage):
            raise InvalidArgumentError(f"compose: expected stages, got {stage!r}")
    if not stages:
        raise InvalidArgumentError("compose: expected at least one stage")
    return Composed(stages)


def on(component: str | int, *stages: Stage) -> Stage:
    r"""Run stages on one component of an element, and leave the others as they are.

    Parameters
    ----------
    component : str or int
        Its name, or its place.
    *stages : Stage
        At least one; combined as by `compose`.

    Returns
    -------
    Stage
        The result takes the component's place, and also its name if it is one component.

    Raises
    ------
    InvalidArgumentError
        If there are no stages; when bound, if there is no such component.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> record = np.dtype([("label", "u1"), ("image", "u1", 2)])
    >>> stage = qc.ops.compose(qc.ops.decode_raw(out_type=record), qc.ops.on("image", qc.ops.scale(a=0.5)))
    >>> stage.bind([qc.ops.Component(np.dtype("S"), (), 3)])(b"\x07\x01\x02")
    [array(7, dtype=uint8), array([0.5, 1. ], dtype=float32)]
    """
    stage = compose(*stages)

    def place(components: Sequence[Any]) -> int:
        names = [one.name for one in components]
        if isinstance(component, str):
            if component not in names:
                raise InvalidArgumentError(f"on: expected one of the components {names}, got {component!r}")
            return names.index(component)
        index = whole("on", "component", component)
        if not 0 <= index < len(components):
            raise InvalidArgumentError(f"on: expected a place below {len(components)}, got {index}")
        return index

    def bind(components: tuple[Component, ...]) -> Step:
        index = place(components)
        step = stage.bind(components[index : index + 1])
        made = step.outputs
        if made is None:
            raise InvalidArgumentError(f"on: what {stage!r} makes is not known: give queuecore.ops.python its outputs")
        if len(made) == 1:
            made = (made[0]._replace(name=components[index].name),)
        outputs = (*components[:index], *made, *components[index + 1 :])
        if not isinstance(step, PythonStep):
            return PartStep(components, index, step, outputs)

        def call(values: list[Any], epoch: int, element: int) -> list[Any]:
            return [*values[:index], *step.call(values[index : index + 1], epoch, element), *values[index + 1 :]]

        return PythonStep(components, outputs, call, step.why)

    def tensors(inputs: list[Any]) -> list[Any]:
        index = place(inputs)
        return [*inputs[:index], *stage.on_device(inputs[index : index + 1]), *inputs[index + 1 :]]

    text = f"on({component!r}, {', '.join(map(repr, stages))})"
    return Stage(text, bind, rowwise=stage.rowwise, device=tensors)


@overload
def cast(x: None = None, dtype: Any = ...) -> Stage: ...
@overload
def cast(x: Any, dtype: Any) -> np.ndarray: ...
@traceable
def cast(x: Any = None, dtype: Any = None) -> Any:
    """Convert numbers to another dtype.

    Parameters
    ----------
    x : array, optional
        Booleans, integers or floats of at most 64 bits, ``ml_dtypes.bfloat16`` among them, of any shape. Without it,
        the result is a `Stage`.
    dtype : dtype
        One of these too; also the word ``"bfloat16"``.

    Returns
    -------
    ndarray
        A copy, of the same shape.

    Raises
    ------
    DtypeError
        If `x` or `dtype` is something else.

    Notes
    -----
    As NumPy's ``astype``: floats to integers truncate, integers wrap, and anything but 0 is true. float16 and bfloat16
    round to nearest, ties to even; wider numbers are rounded to float32 before bfloat16, as in `ml_dtypes`. A float
    that is nan or doesn't fit into an integer dtype becomes any value.
    Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.cast([1.5, -1.5], np.int32)
    array([ 1, -1], dtype=int32)
    >>> qc.ops.cast(dtype=np.float16)
    cast(float16)
    """
    stage = Links(Cast(_dtype("cast", dtype)))
    return stage if x is None else run_eagerly("cast", stage, x)


@overload
def scale(x: None = None, a: Any = ..., b: Any = ..., dtype: Any = ...) -> Stage: ...
@overload
def scale(x: Any, a: Any = ..., b: Any = ..., dtype: Any = ...) -> np.ndarray: ...
@traceable
def scale(x: Any = None, a: Any = 1.0, b: Any = 0.0, dtype: Any = np.float32) -> Any:
    """Multiply by `a` and add `b`.

    Parameters
    ----------
    x : array, optional
        Booleans, integers or floats of at most 64 bits, of any shape. Without it, the result is a `Stage`.
    a, b : float or sequence of float, default 1 and 0
        For all values, or one for each place on the last axis.
    dtype : dtype, default float32
        Of the result.

    Returns
    -------
    ndarray
        Of the same shape.

    Raises
    ------
    DtypeError
        If `x` or `dtype` is something else.
    InvalidArgumentError
        If `a` or `b` is no number or vector of the last axis' length.

    Notes
    -----
    Computed in float64 if either side is float64 or an integer of 32 or 64 bits, else in float32, from `a` and `b`
    rounded to that; both the product and the sum are rounded. Then as `cast`. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.scale(np.array([0, 128, 255], np.uint8), 1 / 128, -1)
    array([-1.       ,  0.       ,  0.9921875], dtype=float32)
    >>> qc.ops.scale([[1, 2], [3, 4]], [1, 10], [0, -20], dtype=np.int64)
    array([[ 1,  0],
           [ 3, 20]])
    """
    result_dtype = _dtype("scale", dtype)
    factors = [_factors(name, value) for name, value in (("a", a), ("b", b))]
    shape = max((factor.shape for factor in factors), key=len)
    if any(factor.ndim and factor.shape != shape for factor in factors):
        raise InvalidArgumentError(
            f"scale: expected as many values in b as in a, got {factors[0].size} in a and {factors[1].size} in b"
        )
    first, second = (np.broadcast_to(factor, shape) for factor in factors)
    stage = Links(Scale(first, second, result_dtype))
    return stage if x is None else run_eagerly("scale", stage, x)


def _factors(name: str, value: Any) -> np.ndarray:
    try:
        factors = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"scale: {name} must be a number or a vector, not {value!r}") from None
    if factors.ndim > 1 or not factors.size:
        shown = shape_text(factors.shape)
        raise InvalidArgumentError(f"scale: expected a number or a vector as {name}, got shape {shown}")
    return factors


@overload
def reshape(x: None = None, shape: Any = ...) -> Stage: ...
@overload
def reshape(x: Any, shape: Any) -> np.ndarray: ...
@traceable
def reshape(x: Any = None, shape: Any = None) -> Any:
    """Give the same values, in the same order, another shape.

    Parameters
    ----------
    x : array, optional
        Of numbers. Without it, the result is a `Stage`.
    shape : sequence of int
        -1 is allowed once: the side that makes the sizes match.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If the shape is none, or doesn't have room for exactly these values.

    Notes
    -----
    Follows TensorFlow's ``reshape``. In a stage it takes no time.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.reshape([1, 2, 3, 4], (2, -1))
    array([[1, 2],
           [3, 4]])
    """
    sides = wholes("reshape", "shape", shape, -1)
    if sides.count(-1) > 1:
        raise InvalidArgumentError(f"reshape: expected -1 once at most, got {list(sides)}")
    if math.prod(side for side in sides if side > 0) > LARGEST:
        raise InvalidArgumentError(f"reshape: shape is too large: {list(sides)}")
    stage = Links(Reshape(sides))
    return stage if x is None else run_eagerly("reshape", stage, x)


@overload
def transpose(x: None = None, perm: Any = ...) -> Stage: ...
@overload
def transpose(x: Any, perm: Any = ...) -> np.ndarray: ...
@traceable
def transpose(x: Any = None, perm: Any = None) -> Any:
    """Put the axes into another order.

    Parameters
    ----------
    x : array, optional
        Of numbers. Without it, the result is a `Stage`.
    perm : sequence of int
        Which axis of `x` each axis of the result is: ``(2, 0, 1)`` turns [height, width, channels] into [channels,
        height, width]. Of an array it may be left out: the axes in reverse.

    Returns
    -------
    ndarray
        A contiguous copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If `perm` doesn't name each axis once.

    Notes
    -----
    Follows TensorFlow's ``transpose``. Runs without the GIL.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.transpose([[1, 2, 3], [4, 5, 6]], (1, 0))
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    if perm is None and x is not None:
        x = array_of("transpose", x)
        perm = range(x.ndim)[::-1]
    axes = wholes("transpose", "perm", perm, 0)
    if sorted(axes) != list(range(len(axes))):
        raise InvalidArgumentError(f"transpose: expected each axis once in perm, got {list(axes)}")
    stage = Links(Transpose(axes))
    return stage if x is None else run_eagerly("transpose", stage, x)


# Other shapes


@overload
def pad(x: None = None, paddings: Any = ..., constant: Any = ..., mode: str = ...) -> Stage: ...
@overload
def pad(x: Any, paddings: Any, constant: Any = ..., mode: str = ...) -> np.ndarray: ...
@traceable
def pad(x: Any = None, paddings: Any = None, constant: Any = 0, mode: str = "constant") -> Any:
    """Put a constant, or repeated or mirrored items, around an array.

    Parameters
    ----------
    x : array, optional
        Of numbers. Without it, the result is a `Stage`.
    paddings : sequence of (int, int)
        For each axis, the numbers of items that are put before and after it.
    constant : number, default 0
        The items in mode "constant".
    mode : {"constant", "edge", "reflect", "symmetric"}, default "constant"
        The kind of these items:

        - "constant": one number.
        - "edge": the first and the last item of the axis, over and over.
        - "reflect": the axis there and back, without the item at the border; an axis of one item is repeated.
        - "symmetric": the axis there and back, with the item at the border.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If the paddings are not of that form, or are for another number of axes; if the constant is none of the dtype,
        or is given with another mode; if there is no such mode; or if an axis that is padded is empty, in another mode
        than "constant".

    Notes
    -----
    Follows `numpy.pad`: paddings may be longer than the axis in every mode, which TensorFlow's ``pad`` refuses. Runs
    without the GIL.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.pad([[1, 2]], [(0, 1), (1, 0)], 9)
    array([[9, 1, 2],
           [9, 9, 9]])
    >>> qc.ops.pad([1, 2, 3], [(2, 4)], mode="reflect")
    array([3, 2, 1, 2, 3, 2, 1, 2, 3])
    """
    if paddings is None:
        raise InvalidArgumentError("pad: paddings is missing")
    try:
        pairs: list[tuple[int, ...]] = [wholes("pad", "paddings", pair, 0) for pair in paddings]
    except TypeError:
        pairs = [()]
    if any(len(pair) != 2 for pair in pairs) or len(pairs) > MAX_DIMS:
        raise InvalidArgumentError(f"pad: expected two numbers for each axis as paddings, got {paddings!r}")
    if not isinstance(mode, str) or mode not in PAD_MODES:
        raise InvalidArgumentError(f"pad: expected one of {list(PAD_MODES)} as mode, got {mode!r}")
    if mode != "constant" and not (np.isscalar(constant) and constant == 0):
        raise InvalidArgumentError(f"pad: constant is for mode 'constant', and the mode is {mode!r}: leave it out")
    counts_before, counts_after = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)

    def bind(components: tuple[Component, ...]) -> Step:
        component = lone_array("pad", components)
        fill = _constant("pad", "constant", constant, component.dtype)
        shape: tuple[int | None, ...] = (None,) * len(pairs) if component.shape is None else component.shape
        if len(shape) != len(pairs):
            raise InvalidArgumentError(f"pad: expected {len(pairs)} dimensions, got shape {shape_text(shape)}")
        padded = tuple(None if side is None else side + sum(pair) for side, pair in zip(shape, pairs, strict=True))
        check_array_size("pad", padded, component.dtype)
        output = Component(component.dtype, padded, name=component.name)
        return PadStep((component,), (output,), counts_before, counts_after, fill, mode)

    # The constant's text is older than the other modes: plans and saved positions contain it.
    text = f"{[list(pair) for pair in pairs]}" + ("" if mode == "constant" else f", mode={mode!r}")
    stage = Stage(f"pad({text})", bind)
    return stage if x is None else run_eagerly("pad", stage, x)


@overload
def slice(x: None = None, begin: Any = ..., size: Any = ...) -> Stage: ...
@overload
def slice(x: Any, begin: Any, size: Any) -> np.ndarray: ...
@traceable
def slice(x: Any = None, begin: Any = None, size: Any = None) -> Any:
    """Take a part of an array.

    Parameters
    ----------
    x : array, optional
        Of numbers. Without it, the result is a `Stage`.
    begin : sequence of int
        Where it begins, on each axis.
    size : sequence of int
        How long it is; -1: to the end.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If `x` has another number of axes, or no such part.

    Notes
    -----
    Follows TensorFlow's ``slice``. Runs without the GIL.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.slice([[1, 2, 3], [4, 5, 6]], (0, 1), (-1, 2))
    array([[2, 3],
           [5, 6]])
    """
    first = wholes("slice", "begin", begin, 0)
    sides = wholes("slice", "size", size, -1)
    if len(first) != len(sides):
        raise InvalidArgumentError(f"slice: expected as many sizes as begins, got {len(sides)} and {len(first)}")

    def bind(components: tuple[Component, ...]) -> Step:
        component = lone_array("slice", components)
        shape: tuple[int | None, ...] = (None,) * len(first) if component.shape is None else component.shape
        if len(shape) != len(first):
            raise InvalidArgumentError(f"slice: expected {len(first)} dimensions, got shape {shape_text(shape)}")
        result_shape: list[int | None] = []
        for axis, (there, at, side) in enumerate(zip(shape, first, sides, strict=True)):
            if there is not None and at + max(side, 0) > there:
                part = f"[{at}, {at + side})" if side >= 0 else f"from {at} on"
                raise InvalidArgumentError(f"slice: axis {axis} is {there} long, and has no part {part}")
            result_shape.append(side if side >= 0 else None if there is None else there - at)
        output = Component(component.dtype, tuple(result_shape), name=component.name)
        return SliceStep((component,), (output,), first, sides)

    stage = Stage(f"slice({list(first)}, {list(sides)})", bind, device=lambda inputs: [inputs[0].slice(first, sides)])
    return stage if x is None else run_eagerly("slice", stage, x)


@overload
def one_hot(x: None = None, depth: Any = ..., on_value: Any = ..., off_value: Any = ..., dtype: Any = ...) -> Stage: ...
@overload
def one_hot(x: Any, depth: Any, on_value: Any = ..., off_value: Any = ..., dtype: Any = ...) -> np.ndarray: ...
@traceable
def one_hot(x: Any = None, depth: Any = None, on_value: Any = 1, off_value: Any = 0, dtype: Any = np.float32) -> Any:
    """Make a row for each index, with one value at the index and another one everywhere else.

    Parameters
    ----------
    x : array, optional
        Indices, of any integer dtype and shape. Without it, the result is a `Stage`.
    depth : int
        Length of a row.
    on_value, off_value : number, default 1 and 0
        The two values.
    dtype : dtype, default float32
        Of the result.

    Returns
    -------
    ndarray
        Of shape ``(*x.shape, depth)``. A row whose index is negative, or not below `depth`, has no `on_value`.

    Raises
    ------
    DtypeError
        If `x` are no integers, or there is no such dtype.
    InvalidArgumentError
        If the depth is negative, or a value none of the dtype.

    Notes
    -----
    Follows TensorFlow's ``one_hot`` with axis -1. Runs without the GIL.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.one_hot([2, 0], 3)
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    result_dtype = _dtype("one_hot", dtype)
    if depth is None:
        raise InvalidArgumentError("one_hot: depth is missing")
    length = whole("one_hot", "depth", depth)
    if length < 0:
        raise InvalidArgumentError(f"one_hot: depth must not be negative, and is {length}")
    on = _constant("one_hot", "on_value", on_value, result_dtype)
    off = _constant("one_hot", "off_value", off_value, result_dtype)

    def bind(components: tuple[Component, ...]) -> Step:
        component = lone_array("one_hot", components)
        if component.dtype.kind not in "iu":
            raise DtypeError(f"one_hot: expected integers, got {component.dtype}")
        shape = None if component.shape is None else (*component.shape, length)
        if shape is not None:
            check_array_size("one_hot", shape, result_dtype)
        output = Component(result_dtype, shape, name=component.name)
        return OneHotStep((component,), (output,), number_of("one_hot", component.dtype), length, on, off)

    stage = Stage(
        f"one_hot({length}, {result_dtype})",
        bind,
        rowwise=True,
        device=lambda inputs: [inputs[0].one_hot(length, on, off, result_dtype)],
    )
    return stage if x is None else run_eagerly("one_hot", stage, x)
