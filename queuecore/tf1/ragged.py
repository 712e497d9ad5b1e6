"""``tf.ragged``: tensors whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value as constant_value_of, convert_to_tensor
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import as_dtype, as_value, int64
from queuecore.tf1._ops.arrays import concat as _concat, placeholder as _placeholder, shape as _shape, stack as _stack
from queuecore.tf1._ops.ragged import RaggedTensor, RaggedTensorValue, rows_of

__all__ = [
    "constant",
    "constant_value",
    "map_flat_values",
    "placeholder",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
]


def constant(
    pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Sequence[int] | None = None,
    name: str | None = None, row_splits_dtype: Any = int64,
) -> Tensor | RaggedTensor:  # fmt: skip
    """Return a ragged tensor of nested lists.

    Parameters
    ----------
    pylist : nested list of numbers or strings
    dtype : dtype, optional
        Default: as of `tf.constant`.
    ragged_rank : int, optional
        The number of dimensions that may have rows of different lengths. Default: all but the first.
    inner_shape : list of int, optional
        The shape of an innermost value. Default: of no dimensions, if there is no `ragged_rank`.
    name : str, optional
    row_splits_dtype : {int64, int32}

    Returns
    -------
    RaggedTensor, or Tensor if no dimension has rows of its own

    Raises
    ------
    ValueError
        If scalars are nested to different depths, or `ragged_rank` and `inner_shape` don't fit the lists.
    """
    made = constant_value(pylist, dtype, ragged_rank, inner_shape, row_splits_dtype)
    splits: list[Any] = []
    while isinstance(made, RaggedTensorValue):
        splits.append(convert_to_tensor(made.row_splits, name=name and f"{name}/row_splits"))
        made = made.values
    found: Any = convert_to_tensor(made, name=name)
    for one in reversed(splits):
        found = RaggedTensor(found, one)
    result: RaggedTensor = found
    return result


def constant_value(
    pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Sequence[int] | None = None,
    row_splits_dtype: Any = int64,
) -> Any:  # fmt: skip
    """Return what a run returns for `constant`; parameters and errors as there."""
    depths = set(_depths(pylist))
    deepest = max(_nesting(pylist), *depths, 0)
    if len(depths) > 1:
        raise ValueError(
            f"All scalar values must have the same nesting depth, and these have {sorted(depths)}: {pylist!r}"
        )
    if ragged_rank is None:
        rows = max(0, deepest - 1 - (0 if inner_shape is None else len(inner_shape)))
    else:
        rows = ragged_rank
        if rows < 0 or depths and deepest and rows >= deepest or not deepest and rows:
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={rows}")
        if inner_shape is not None and depths and rows + 1 + len(inner_shape) != deepest:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={rows} and inner_shape={inner_shape}"
            )
    kind = as_dtype(row_splits_dtype).dtype
    levels: list[Any] = []
    flat = pylist
    for _ in np.arange(rows):
        levels.append(np.cumsum([0, *map(len, flat)], dtype=kind))
        flat = [one for row in flat for one in row]
    inner = list(inner_shape) if inner_shape is not None else None
    values = as_value(flat, dtype)
    if inner is not None:
        if len(flat) and list(np.shape(values)[1:]) != inner:
            raise ValueError(f"inner values have the shape {list(np.shape(values)[1:])}, and inner_shape is {inner}")
        values = np.reshape(values, [len(flat), *inner])
    for splits in reversed(levels):
        values = RaggedTensorValue(values, splits)
    return values


def _depths(given: Any, depth: int = 0) -> list[int]:
    # The paths that lead to scalars.
    if isinstance(given, (list, tuple)):
        return [one for part in given for one in _depths(part, depth + 1)]
    return [depth + np.ndim(given)]


def _nesting(given: Any) -> int:
    if isinstance(given, (list, tuple)):
        return 1 + max(map(_nesting, given), default=0)
    return np.ndim(given)


def placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """Return a ragged tensor that is fed to each run, as a `RaggedTensorValue`.

    Parameters
    ----------
    dtype : dtype
    ragged_rank : int
        The number of dimensions that are divided by splits; 0: a tensor.
    value_shape : list of int, optional
        The shape of a value. Default: unknown.
    name : str, optional
    """
    name = name or "RaggedPlaceholder"
    found: Any = _placeholder(dtype, None if value_shape is None else [None, *value_shape], f"{name}/flat_values")
    for level in reversed(np.arange(ragged_rank).tolist()):
        found = RaggedTensor(found, _placeholder(int64, [None], f"{name}/row_splits_{level}"))
    return found


def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Return tensors, ragged or not, as the rows of one that is ragged.

    Parameters
    ----------
    values : list of Tensor or RaggedTensor
        Of as many dimensions, and of one type.
    axis : int, default 0
        No other.
    name : str, optional
        Not used.

    Returns
    -------
    RaggedTensor, or Tensor of scalars

    Raises
    ------
    ValueError
        If there are no values, or they differ in their numbers of dimensions.
    UnimplementedError
        For another axis.
    """
    del name
    if axis != 0:
        raise UnimplementedError(f"tf.ragged.stack: the axis must be 0, not {axis!r}")
    tensors = [value if isinstance(value, RaggedTensor) else convert_to_tensor(value) for value in values]
    ranks = {tensor.shape.ndims for tensor in tensors}
    if len(ranks) != 1 or None in ranks:
        raise ValueError(f"tf.ragged.stack: all values must have the same known number of dimensions, not {ranks}")
    if ranks == {0}:
        return _stack(tensors)
    lengths = _stack(
        [
            tensor.nrows() if isinstance(tensor, RaggedTensor) else _shape(tensor, out_type=int64)[0]
            for tensor in tensors
        ]
    )
    return RaggedTensor.from_row_lengths(_rows(tensors), lengths)


def _rows(given: list[Any]) -> Any:
    # One behind the other.
    if not any(isinstance(one, RaggedTensor) for one in given):
        return _concat(given, 0)
    parts = [one if isinstance(one, RaggedTensor) else RaggedTensor.from_tensor(one) for one in given]
    return RaggedTensor.from_row_lengths(
        _rows([one.values for one in parts]), _concat([one.row_lengths() for one in parts], 0)
    )


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a function makes of the innermost values, with the rows that they had.

    Parameters
    ----------
    op : callable
        Takes the arguments, with a tensor of the innermost values in place of each ragged one.
    *args, **kwargs
        The ragged ones have the same rows.

    Raises
    ------
    ValueError
        If they have different numbers of dimensions with rows.
    """
    tensors = [argument for argument in (*args, *kwargs.values()) if isinstance(argument, RaggedTensor)]
    if not tensors:
        return op(*args, **kwargs)
    if len({tensor.ragged_rank for tensor in tensors}) > 1:
        raise ValueError("All ragged inputs must have the same ragged_rank.")
    first = tensors[0]

    def inner(argument: Any) -> Any:
        return argument.flat_values if isinstance(argument, RaggedTensor) else argument

    made = convert_to_tensor(op(*map(inner, args), **{key: inner(argument) for key, argument in kwargs.items()}))
    checked = _same_rows(first, tensors[1:], made) if len(tensors) > 1 else made
    return first.with_flat_values(checked)


def _same_rows(first: RaggedTensor, others: list[RaggedTensor], values: Tensor) -> Tensor:
    inputs = [values, *first.nested_row_splits, *(splits for other in others for splits in other.nested_row_splits)]
    depth = first.ragged_rank

    def kernel(value: Any, *splits: Any) -> Any:
        for at, one in enumerate(splits[depth:]):
            if not np.array_equal(one, splits[at % depth]):
                raise InvalidArgumentError("Inputs must have identical ragged splits")
        return value

    return apply_op("RaggedSameRows", inputs, values.dtype, values.shape, kernel, None)


def range(
    starts: Any, limits: Any = None, deltas: Any = 1, dtype: Any = None, name: str | None = None,
    row_splits_dtype: Any = int64,
) -> RaggedTensor:  # fmt: skip
    """Return rows of numbers, each with a start, a limit that it doesn't reach, and a step.

    Parameters
    ----------
    starts, limits, deltas : Tensor of numbers
        Vectors of one length, or scalars; with `starts` alone, rows begin at 0, and these are the limits.
    dtype : dtype, optional
    name : str, optional
    row_splits_dtype : {int64, int32}

    Raises
    ------
    InvalidArgumentError
        In a run, if a step is 0 or the lengths differ.
    """
    first, last = (0, starts) if limits is None else (starts, limits)
    tensors = [convert_to_tensor(value, dtype) for value in (first, last, deltas)]
    target = np.result_type(*[tensor.dtype.dtype for tensor in tensors])
    kind = as_dtype(row_splits_dtype)
    counts = {tensor.shape[0].value for tensor in tensors if tensor.shape.ndims == 1} - {None}

    def kernel(*values: Any) -> Any:
        try:
            rows = np.broadcast_arrays(*[np.atleast_1d(value) for value in values])
        except ValueError as error:
            raise InvalidArgumentError("starts, limits, and deltas must have the same shape") from error
        if (rows[2] == 0).any():
            raise InvalidArgumentError("Requires delta != 0")
        made = [np.arange(*row, dtype=target) for row in zip(*rows, strict=True)]
        return np.concatenate([np.empty(0, target), *made]), np.cumsum([0, *map(len, made)], dtype=kind.dtype)

    scalars = all(tensor.shape.ndims == 0 for tensor in tensors)
    count = 1 if scalars else counts.pop() if counts else None
    return rows_of("RaggedRange", tensors, as_dtype(target), kernel, count, name, (), kind)


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """Return the number of the row of each value, for the places where rows begin and end."""
    given = convert_to_tensor(splits, int64 if isinstance(splits, (list, tuple)) else None)
    kind = given.dtype if out_type is None else as_dtype(out_type)
    return apply_op("RaggedSegmentIds", [given], kind, [None],
                    lambda x: np.repeat(np.arange(len(x) - 1, dtype=kind.dtype), np.diff(x)), name)  # fmt: skip


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: int | None = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """Return the places where rows begin and end, for the number of the row of each value, in ascending order."""
    ids = convert_to_tensor(segment_ids, int64 if isinstance(segment_ids, (list, tuple)) else None)
    kind = ids.dtype if out_type is None else as_dtype(out_type)

    def kernel(rows: Any) -> Any:
        count = (int(rows.max(initial=-1)) + 1) if num_segments is None else num_segments
        return np.append(0, np.cumsum(np.bincount(rows, minlength=count))).astype(kind.dtype)

    known = constant_value_of(ids)
    count = num_segments if num_segments is not None or known is None else len(kernel(known)) - 1
    return apply_op("RaggedRowSplits", [ids], kind, [None if count is None else count + 1], kernel, name)


__getattr__ = _refusing("tf.ragged")
