"""Operations that check values: ``tf.assert_equal`` and its like. A check known to fail does so when it is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Operation, Tensor, apply_op, constant_value, convert_to_tensor
from queuecore.tf1._graph.values import as_dtype, as_shape, bracketed, broadcast, float32, name_of
from queuecore.tf1._ops.control import Assert, summarized
from queuecore.tf1._ops.math import tensors
from queuecore.tf1._ops.sparse import SparseTensor
from queuecore.tf1._ops.variables import no_op

__all__ = [
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_type",
    "ensure_shape",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
]


def _asserted(
    holds: Callable[..., Any], operands: Sequence[Tensor], told: Sequence[Any], data: Any, summarize: int | None,
    name: str, early: bool = True,
) -> Operation:  # fmt: skip
    # An operation that fails unless a function of the values holds; `early`: it fails now if they are known now.
    contents: Sequence[Any] = told if data is None else data
    known = [constant_value(operand) for operand in operands]
    if early and all(one is not None for one in known) and not np.all(holds(*known)):
        values = [constant_value(convert_to_tensor(one)) for one in contents]
        items = 3 if summarize is None else summarize
        text = "\n".join([one.decode() if isinstance(one, bytes) else summarized(one, items) for one in values
                          if one is not None])  # fmt: skip
        raise InvalidArgumentError(text)
    with operands[0].graph.name_scope(name):
        checked = apply_op("All", list(operands), bool, (), lambda *values: np.bool_(np.all(holds(*values))), "All")
        return Assert(checked, list(contents), summarize, name="Assert")


def _compared(name: str, sign: str, holds: Callable[[Any, Any], Any], doc: str) -> Any:
    def check(
        x: Any, y: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
        name: str | None = None,
    ) -> Operation:  # fmt: skip
        a, b = tensors(x, y)
        broadcast([a.shape, b.shape])  # raises for shapes that don't fit
        told = [f"{message}" if message else "", f"Condition x {sign} y did not hold element-wise:",
                f"x ({a.name}) = ", a, f"y ({b.name}) = ", b]  # fmt: skip
        return _asserted(holds, [a, b], told, data, summarize, name or check.__name__)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = doc
    return check


def _objects(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(
        np.asarray(x, object) if isinstance(x, bytes) else x, np.asarray(y, object) if isinstance(y, bytes) else y
    )


assert_equal = _compared("assert_equal", "==", _objects(np.equal), "Return an operation that fails unless ``x == y``.")
assert_none_equal = _compared(
    "assert_none_equal", "!=", _objects(np.not_equal), "Return an operation that fails unless ``x != y`` for all items."
)
assert_less = _compared("assert_less", "<", np.less, "Return an operation that fails unless ``x < y``.")
assert_less_equal = _compared(
    "assert_less_equal", "<=", np.less_equal, "Return an operation that fails unless ``x <= y``."
)
assert_greater = _compared("assert_greater", ">", np.greater, "Return an operation that fails unless ``x > y``.")
assert_greater_equal = _compared(
    "assert_greater_equal", ">=", np.greater_equal, "Return an operation that fails unless ``x >= y``."
)


def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Any = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """Return an operation that fails unless ``abs(x - y) <= atol + rtol * abs(y)``; both 10 × the type's epsilon."""
    a, b = tensors(x, y)
    epsilon = 10 * float(np.finfo(a.dtype.dtype).eps)
    relative, absolute = (epsilon if one is None else one for one in (rtol, atol))
    told = [message or "", "x and y not equal to tolerance rtol = ", convert_to_tensor(relative, a.dtype),
            "atol = ", convert_to_tensor(absolute, a.dtype), f"x ({a.name}) = ", a, f"y ({b.name}) = ", b]  # fmt: skip
    close = lambda u, v: np.abs(u - v) <= absolute + relative * np.abs(v)  # noqa: E731
    return _asserted(close, [a, b], told, data, summarize, name or "assert_near", False)


def _signed(name: str, sign: str, holds: Callable[[Any], Any], doc: str) -> Any:
    def check(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Operation:
        a = convert_to_tensor(x)
        told = [message or "", f"Condition x {sign} 0 did not hold element-wise:", f"x ({a.name}) = ", a]
        return _asserted(holds, [a], told, data, summarize, name or check.__name__)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = doc
    return check


assert_negative = _signed("assert_negative", "<", lambda x: x < 0, "Return an operation that fails unless ``x < 0``.")
assert_positive = _signed("assert_positive", ">", lambda x: x > 0, "Return an operation that fails unless ``x > 0``.")
assert_non_negative = _signed(
    "assert_non_negative", ">=", lambda x: x >= 0, "Return an operation that fails unless ``x >= 0``."
)
assert_non_positive = _signed(
    "assert_non_positive", "<=", lambda x: x <= 0, "Return an operation that fails unless ``x <= 0``."
)


# Ranks, types and shapes


def _ranked(
    x: Any, ranks: Any, holds: Callable[[int, list[int]], bool], rank_words: str, data: Any, summarize: int | None,
    message: str | None, name: str,
) -> Operation:  # fmt: skip
    operand = convert_to_tensor(x)
    rank_operands = [convert_to_tensor(rank) for rank in ranks]
    for rank in rank_operands:
        if rank.dtype.kind not in "iu":
            raise TypeError(f"a rank must be of type <dtype: 'int32'>, not {name_of(rank.dtype)}")
        if rank.shape.ndims not in (0, None):
            raise ValueError("Rank must be a scalar.")
    known = [constant_value(rank) for rank in rank_operands]
    if operand.shape.ndims is not None and all(rank is not None for rank in known):
        if not holds(operand.shape.ndims, [int(rank) for rank in known]):
            told = ", ".join(str(int(rank)) for rank in known)
            raise ValueError(
                f"{message or ''}. Tensor {operand.name} must have rank {rank_words}{told}.  Received rank "
                f"{operand.shape.ndims}, shape {operand.shape}".removeprefix(". ")
            )
        return no_op(name="static_checks_determined_all_ok")
    number = apply_op("Rank", [operand], np.int32, (), lambda value: np.array(np.ndim(value), np.int32), None)
    contents = [
        message or "",
        f"Tensor {operand.name} must have rank {rank_words.strip()}".rstrip(),
        *rank_operands,
        "Received rank: ",
        number,
    ]
    checked = lambda there, *to: holds(int(there), [int(rank) for rank in to])  # noqa: E731
    return _asserted(checked, [number, *rank_operands], contents, data, summarize, name)


def assert_rank(
    x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Return an operation that fails unless `x` has this rank; a known one that is another is a `ValueError` now."""
    return _ranked(x, [rank], lambda there, to: there == to[0], "", data, summarize, message, name or "assert_rank")


def assert_rank_at_least(
    x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Return an operation that fails unless `x` has at least this rank; see `assert_rank`."""
    return _ranked(x, [rank], lambda there, to: there >= to[0], "at least ", data, summarize, message,
                   name or "assert_rank_at_least")  # fmt: skip


def assert_rank_in(
    x: Any, ranks: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Return an operation that fails unless `x` has one of these ranks; see `assert_rank`."""
    return _ranked(x, ranks, lambda there, to: there in to, "in ", data, summarize, message, name or "assert_rank_in")


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """Return the tensor. `ValueError`: it is known to be no scalar, or nothing is known of its rank."""
    operand = convert_to_tensor(tensor, name=name)
    if operand.shape.ndims != 0:
        raise ValueError(f"{message or ''}Expected scalar shape, saw shape: {operand.shape}.")
    return operand


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that does nothing. `TypeError`: `x` isn't of integers."""
    operand = convert_to_tensor(x)
    if operand.dtype.kind not in "iu":
        raise TypeError(f"{message or ''}Expected 'x' to be integer type.  Found: {operand.dtype}.")
    return no_op(name=name or "statically_determined_was_integer")


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Return an operation that does nothing. `TypeError`: `tensor` has another type."""
    operand = tensor if isinstance(tensor, SparseTensor) else convert_to_tensor(tensor)
    wanted = as_dtype(tf_type)
    if operand.dtype != wanted:
        raise TypeError(f"{message or ''}{getattr(operand, 'name', operand)}: tensor must be of type {wanted!r}; "
                        f"got {operand.dtype!r}")  # fmt: skip
    return no_op(name=name or "statically_determined_correct_type")


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """Return the type of floats that tensors share, or `dtype`, or float32. `ValueError`: they don't share one."""
    kind = None if dtype is None else as_dtype(dtype)
    for tensor in tensors or ():
        if tensor is None:
            continue
        if kind is None:
            kind = tensor.dtype
        elif tensor.dtype != kind:
            raise ValueError(f"Tensor conversion requested dtype {name_of(kind)} for Tensor with dtype "
                             f"{name_of(tensor.dtype)}: {tensor!r}")  # fmt: skip
    kind = float32 if kind is None else kind
    if not kind.is_floating:
        raise ValueError(f"Expected floating point type, got {name_of(kind)}.")
    return kind


def assert_proper_iterable(values: Any) -> None:
    """Raise `TypeError` unless it is an iterable, and no tensor, array or text."""
    if isinstance(values, (Tensor, SparseTensor, np.ndarray, bytes, str)):
        raise TypeError(f"Expected argument 'values' to be a 'proper' iterable.  Found: {type(values)}")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"Expected argument 'values' to be iterable.  Found: {type(values)}")


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return the same tensor with this shape known; a run in which it has another raises `InvalidArgumentError`."""
    operand, wanted = convert_to_tensor(x), as_shape(shape)
    merged = wanted.equal_to(operand.shape)
    sides_text = bracketed(wanted.sides)

    def kernel(value: Any) -> Any:
        if not wanted.is_compatible_with(np.shape(value)):
            raise InvalidArgumentError(
                f"Shape of tensor {operand.op.name} {list(np.shape(value))} is not compatible with expected shape "
                f"{sides_text}."
            )
        return value

    return apply_op("EnsureShape", [operand], operand.dtype, merged, kernel, name)


def is_numeric_tensor(tensor: Any) -> bool:
    """Return whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.kind in "iufcV"


def _rising(type_: str, x: Any, holds: Callable[[Any, Any], Any], name: str | None) -> Tensor:
    operand = convert_to_tensor(x)

    def kernel(value: Any) -> Any:
        flat = np.ravel(value)
        return np.bool_(np.all(holds(flat[1:], flat[:-1])))

    return apply_op(type_, [operand], bool, (), kernel, name)


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Return whether each item is larger than the one before it."""
    return _rising("is_strictly_increasing", x, np.greater, name)


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Return whether no item is smaller than the one before it."""
    return _rising("is_non_decreasing", x, np.greater_equal, name)
