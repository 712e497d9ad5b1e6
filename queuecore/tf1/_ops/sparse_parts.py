"""Sparse tensors put in order, cut, joined, and turned: functions of `SparseTensor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import DType, as_value, bool_, bracketed, int64, string
from queuecore.tf1._ops.math import axes_of
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "sparse_add",
    "sparse_concat",
    "sparse_fill_empty_rows",
    "sparse_reduce_sum",
    "sparse_reorder",
    "sparse_reset_shape",
    "sparse_reshape",
    "sparse_retain",
    "sparse_slice",
    "sparse_split",
    "sparse_to_indicator",
    "sparse_transpose",
]

Parts = tuple[Any, Any, Any]  # places, values, and the whole's shape, of one run


def _given(value: Any) -> SparseTensor:
    if isinstance(value, SparseTensor):
        return value
    if hasattr(value, "dense_shape") and hasattr(value, "indices"):  # the value of one
        return SparseTensor(value.indices, value.values, value.dense_shape)
    raise TypeError("Input must be a SparseTensor.")


def _rank(sparse: SparseTensor) -> int | None:
    side: int | None = sparse.indices.shape[1].value
    return sparse.dense_shape.shape[0].value if side is None else side


def _made(
    type_: str, sparse: Sequence[SparseTensor], others: Sequence[Tensor], rank: int | None, kernel: Callable[..., Any],
    name: str | None, dtype: DType | None = None, further: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    # Adds an operation whose kernel gets the parts of each sparse tensor, and gives those of one, and further values.
    inputs = [one for each in sparse for one in (each.indices, each.values, each.dense_shape)]

    def run(*values: Any) -> Any:
        count = 3 * len(sparse)
        parts = [values[at : at + 3] for at in range(0, count, 3)]
        return kernel(*parts, *values[count:])

    outputs = [(int64, (None, rank)), (dtype or sparse[0].dtype, (None,)), (int64, (rank,)), *further]
    op = inputs[0].graph.create_op(type_, [*inputs, *others], outputs, run, name or type_, pure=True)
    return [SparseTensor(*op.outputs[:3]), *op.outputs[3:]]


def _ordered(places: Any, values: Any, shape: Any) -> Parts:
    order = np.lexsort(places.T[::-1]) if places.shape[1] else np.arange(len(places))
    return places[order], values[order], shape


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Return the same tensor with its items in the order of their places."""
    sparse = _given(sp_input)
    made = _made("SparseReorder", [sparse], [], _rank(sparse), lambda x: _ordered(*x), name)[0]
    return SparseTensor(made.indices, made.values, sparse.dense_shape)


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Return only those items for which a vector of bool says so."""
    sparse, keep = _given(sp_input), convert_to_tensor(to_retain, bool_)
    keep.shape.ranked(1)

    def kernel(x: Parts, which: Any) -> Parts:
        return x[0][which], x[1][which], x[2]

    made = _made("SparseRetain", [sparse], [keep], _rank(sparse), kernel, None)[0]
    return SparseTensor(made.indices, made.values, sparse.dense_shape)


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Return a part that begins at a place, and has a size, or reaches to the end.

    Parameters
    ----------
    sp_input : SparseTensor
    start, size : Tensor of int64, vector
    name : str, optional
    """
    sparse = _given(sp_input)
    first, extent = convert_to_tensor(start, int64), convert_to_tensor(size, int64)

    def kernel(x: Parts, begin: Any, wide: Any) -> Parts:
        end = np.minimum(begin + wide, x[2])
        inside = ((x[0] >= begin) & (x[0] < end)).all(axis=1)
        return x[0][inside] - begin, x[1][inside], np.maximum(end - begin, 0)

    made: SparseTensor = _made("SparseSlice", [sparse], [first, extent], _rank(sparse), kernel, name)[0]
    return made


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Return the same items in another shape; -1: one side, which makes the sizes match.

    Raises
    ------
    InvalidArgumentError
        In a run, if the sizes don't match.
    """
    sparse, shape_operand = _given(sp_input), convert_to_tensor(shape, int64)
    shape_operand.shape.ranked(1)

    def kernel(x: Parts, to: Any) -> Parts:
        total = int(np.prod(x[2]))
        sides = to.copy()
        rest = int(np.prod(sides[sides != -1]))
        fits = rest == total if -1 not in sides else rest > 0 and total % rest == 0
        if (sides == -1).sum() > 1 or not fits:
            raise InvalidArgumentError(
                f"Input to reshape is a SparseTensor with {total} dense values, but the requested shape has "
                f"{bracketed(to)}"
            )
        sides[sides == -1] = total // rest if rest else 0
        flat: Any = np.ravel_multi_index(tuple(x[0].T), tuple(x[2])) if len(x[0]) else np.zeros(0, np.int64)
        places = np.stack(np.unravel_index(flat, tuple(sides)), 1) if len(flat) else np.zeros((0, len(sides)), np.int64)
        return places.astype(np.int64), x[1], sides

    rank = shape_operand.shape[0].value
    made: SparseTensor = _made("SparseReshape", [sparse], [shape_operand], rank, kernel, name)[0]
    return made


def sparse_transpose(sp_input: Any, perm: Sequence[int] | None = None, name: str | None = None) -> SparseTensor:
    """Return the tensor with its dimensions in another order: that of `perm`, or reversed."""
    sparse = _given(sp_input)

    def kernel(x: Parts) -> Parts:
        order = list(range(len(x[2])))[::-1] if perm is None else list(perm)
        return _ordered(x[0][:, order], x[1], x[2][order])

    made: SparseTensor = _made("SparseTranspose", [sparse], [], _rank(sparse), kernel, name)[0]
    return made


def sparse_concat(
    axis: int, sp_inputs: Sequence[Any], name: str | None = None, expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None, expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """Return sparse tensors, one behind the other along a dimension.

    Parameters
    ----------
    axis, concat_dim : int
    sp_inputs : list of SparseTensor
    name : str, optional
    expand_nonconcat_dim, expand_nonconcat_dims : bool, default False
        Whether the other dimensions may differ: then they are as long as the longest.

    Raises
    ------
    InvalidArgumentError
        In a run, if the other dimensions differ and must not.
    """
    tensors = [_given(one) for one in sp_inputs]
    along = axis if concat_dim is None else concat_dim
    wide = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims

    def kernel(*parts: Parts) -> Parts:
        axis_index = along % len(parts[0][2])
        sides = np.stack([part[2] for part in parts])
        others = np.delete(sides, axis_index, axis=1)
        if not wide and (others != others[0]).any():
            raise InvalidArgumentError(f"Input shapes must match except along axis {axis_index}: {sides.tolist()}")
        before = np.concatenate([[0], np.cumsum(sides[:, axis_index])])
        places = [part[0].copy() for part in parts]
        for indices, offset in zip(places, before[:-1], strict=True):
            indices[:, axis_index] += offset
        whole = sides.max(axis=0)
        whole[axis_index] = before[-1]
        return _ordered(np.concatenate(places), np.concatenate([part[1] for part in parts]), whole)

    made: SparseTensor = _made("SparseConcat", tensors, [], _rank(tensors[0]), kernel, name)[0]
    return made


def sparse_split(
    keyword_required: Any = None, sp_input: Any = None, num_split: int | None = None, axis: int | None = None,
    name: str | None = None, split_dim: int | None = None,
) -> list[SparseTensor]:  # fmt: skip
    """Return equal parts along a dimension; where they can't be equal, the first ones have one row more.

    Parameters
    ----------
    keyword_required : optional
        Accepted: the other arguments are named.
    sp_input : SparseTensor
    num_split : int
    axis, split_dim : int
    name : str, optional
    """
    del keyword_required
    sparse, dimension = _given(sp_input), split_dim if axis is None else axis
    if num_split is None or dimension is None:
        raise ValueError("num_split and axis are required.")
    pieces = int(num_split)

    def part(number: int) -> Callable[[Parts], Parts]:
        def kernel(x: Parts) -> Parts:
            axis_index = dimension % len(x[2])
            small, more = divmod(int(x[2][axis_index]), pieces)
            first = number * small + min(number, more)
            last = first + small + (number < more)
            inside = (x[0][:, axis_index] >= first) & (x[0][:, axis_index] < last)
            places, whole = x[0][inside].copy(), x[2].copy()
            places[:, axis_index] -= first
            whole[axis_index] = last - first
            return places, x[1][inside], whole

        return kernel

    return [_made("SparseSplit", [sparse], [], _rank(sparse), part(number), name)[0] for number in range(pieces)]


class Filled(NamedTuple):
    """The result of `sparse_fill_empty_rows`."""

    sp_ordered_output: SparseTensor
    empty_row_indicator: Tensor


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> Filled:
    """Return a tensor of two dimensions with one value in each row that had none, and which rows those were.

    Parameters
    ----------
    sp_input : SparseTensor
    default_value : scalar
        Of the tensor's type.
    name : str, optional
    """
    sparse = _given(sp_input)
    fill = as_value(default_value, sparse.dtype)

    def kernel(x: Parts) -> tuple[Any, ...]:
        empty = np.ones(int(x[2][0]), bool)
        empty[x[0][:, 0]] = False
        rows = np.flatnonzero(empty)
        new = np.zeros((len(rows), x[0].shape[1]), np.int64)
        new[:, 0] = rows
        values = np.empty(len(rows), object if sparse.dtype == string else sparse.dtype.dtype)
        values[:] = fill
        return *_ordered(np.concatenate([x[0], new]), np.concatenate([x[1], values]), x[2]), empty

    rows = sparse.shape[:1] if sparse.shape.ndims else (None,)
    made = _made("SparseFillEmptyRows", [sparse], [], _rank(sparse), kernel, name, None, [(bool_, rows)])
    return Filled(*made)


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Return the same items in a larger shape, or in the smallest one that holds them.

    Raises
    ------
    InvalidArgumentError
        In a run, if the new shape is smaller.
    """
    sparse = _given(sp_input)
    operands = [] if new_shape is None else [convert_to_tensor(new_shape, int64)]

    def kernel(x: Parts, *to: Any) -> Parts:
        if not to:
            return x[0], x[1], x[0].max(axis=0, initial=-1) + 1
        if len(to[0]) != len(x[2]) or (to[0] < x[2]).any():
            raise InvalidArgumentError(f"new_shape {bracketed(to[0])} is smaller than {bracketed(x[2])}")
        return x[0], x[1], to[0]

    made: SparseTensor = _made("SparseResetShape", [sparse], operands, _rank(sparse), kernel, None)[0]
    return made


def sparse_to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Tensor:
    """Return a tensor of bool that is true at the places that the numbers of each row name.

    Parameters
    ----------
    sp_input : SparseTensor of int32 or int64
    vocab_size : int
        How many places a row has: all numbers are below.
    name : str, optional
    """
    sparse = _given(sp_input)
    known = sparse.shape.sides
    shape = None if known is None else (*known[:-1], int(vocab_size))

    def kernel(places: Any, values: Any, whole: Any) -> Any:
        if ((values < 0) | (values >= vocab_size)).any():
            raise InvalidArgumentError(f"ids must be in [0, {vocab_size}): {values.tolist()}")
        made = np.zeros((*whole[:-1], vocab_size), bool)
        made[(*places[:, :-1].T, values)] = True
        return made

    inputs = [sparse.indices, sparse.values, sparse.dense_shape]
    return apply_op("SparseToIndicator", inputs, bool, shape, kernel, name)


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return sums along dimensions, as a tensor that isn't sparse.

    Parameters
    ----------
    sp_input : SparseTensor of numbers
    axis, reduction_axes : int or list of int, optional
        Default: all.
    keepdims, keep_dims : bool, default False
        Whether the dimensions stay, with a length of 1.
    """
    sparse = _given(sp_input)
    chosen = reduction_axes if axis is None else axis
    sides = sparse.shape.sides
    dimension = axes_of(chosen, None if sides is None else len(sides))
    keep = bool(keepdims if keep_dims is None else keep_dims)

    def kernel(places: Any, values: Any, whole: Any) -> Any:
        made = np.zeros(tuple(whole), values.dtype)
        np.add.at(made, tuple(places.T), values)
        return np.sum(made, dimension, keepdims=keep, dtype=values.dtype)[()]

    inputs = [sparse.indices, sparse.values, sparse.dense_shape]
    shape: Any = None
    if sides is not None and dimension is not None:
        shape = [1 if at in dimension else side for at, side in enumerate(sides) if keep or at not in dimension]
    return apply_op("SparseReduceSum", inputs, sparse.dtype, shape, kernel, None)


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """Return the sum of two tensors: sparse if both are.

    Parameters
    ----------
    a, b : SparseTensor or Tensor
        At least one is sparse; of one shape.
    threshold, thresh : number, default 0
        Sums of two sparse tensors whose size is below are left out.
    """
    limit = thresh if threshold is None else threshold
    if not isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):

        def kernel(x: Parts, y: Parts) -> Parts:
            if not np.array_equal(x[2], y[2]):
                raise InvalidArgumentError(f"operands' shapes do not match: {bracketed(x[2])} and {bracketed(y[2])}")
            places, into = np.unique(np.concatenate([x[0], y[0]]), axis=0, return_inverse=True)
            values = np.zeros(len(places), x[1].dtype)
            np.add.at(values, into.ravel(), np.concatenate([x[1], y[1]]))
            keep = np.abs(values) >= (0 if limit is None else limit)
            return places[keep], values[keep], x[2]

        return _made("SparseAdd", [a, b], [], _rank(a), kernel, None)[0]
    sparse, dense = (a, b) if isinstance(a, SparseTensor) else (b, a)
    dense_operand = convert_to_tensor(dense, sparse.dtype)

    def added(places: Any, values: Any, shape: Any, other: Any) -> Any:
        if list(shape) != list(other.shape):
            told = f"{bracketed(shape)} and {bracketed(other.shape)}"
            raise InvalidArgumentError(f"operands' shapes do not match: {told}")
        made = other.copy()
        np.add.at(made, tuple(places.T), values)
        return made

    inputs = [sparse.indices, sparse.values, sparse.dense_shape, dense_operand]
    return apply_op("SparseTensorDenseAdd", inputs, sparse.dtype, dense_operand.shape, added, None)
