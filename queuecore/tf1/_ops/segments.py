"""Sums and their like over items that have one number, and counts of items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor
from queuecore.tf1._graph.values import as_dtype, int32
from queuecore.tf1._ops.math import axes_of

__all__ = [
    "bincount",
    "count_nonzero",
    "histogram_fixed_width",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sum",
]


def _lowest(dtype: Any) -> Any:
    return np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max


# What each kind does with the items of a number, and what a number without items has, sorted and unsorted
_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum": (lambda x: np.sum(x, 0, dtype=x.dtype), lambda _: 0, lambda _: 0),
    "mean": (lambda x: (np.sum(x, 0, dtype=x.dtype) / len(x)).astype(x.dtype), lambda _: 0, lambda _: 0),
    "prod": (lambda x: np.prod(x, 0, dtype=x.dtype), lambda _: 1, lambda _: 1),
    "max": (lambda x: np.max(x, 0), lambda _: 0, _lowest),
    "min": (lambda x: np.min(x, 0), lambda _: 0, _highest),
}


def _gathered(kind: str, x: Any, ids: Any, count: int, fill: Any) -> Any:
    made = np.full((count, *x.shape[np.ndim(ids) :]), fill, x.dtype)
    flat, numbers = x.reshape(-1, *made.shape[1:]), np.ravel(ids)
    for one in np.unique(numbers):
        if one >= 0:
            made[one] = _KINDS[kind][0](flat[numbers == one])
    return made


def _sorted(kind: str) -> Any:
    def segment(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        operand, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        ids.shape.ranked(1)

        def kernel(x: Any, numbers: Any) -> Any:
            if len(numbers) != len(x):
                raise InvalidArgumentError("segment_ids should be the same size as dimension 0 of input.")
            if (np.diff(numbers) < 0).any() or (numbers < 0).any():
                raise InvalidArgumentError(f"segment ids are not increasing from 0 on: {numbers.tolist()}")
            count = int(numbers[-1]) + 1 if len(numbers) else 0
            return _gathered(kind, x, numbers, count, _KINDS[kind][1](x.dtype))

        rest: Any = None if operand.shape.sides is None else (None, *operand.shape.sides[1:])
        return apply_op(f"Segment{kind.title()}", [operand, ids], operand.dtype, rest, kernel, name)

    segment.__name__ = segment.__qualname__ = f"segment_{kind}"
    segment.__doc__ = f"""Return the {kind} of the rows that have the same number.

    Parameters
    ----------
    data : Tensor of numbers
    segment_ids : Tensor of integers, vector
        The number of each row, in rising order.
    name : str, optional
    """
    return segment


def _unsorted(kind: str) -> Any:
    def segment(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        operand, ids, segment_limit = (
            convert_to_tensor(data),
            convert_to_tensor(segment_ids),
            convert_to_tensor(num_segments),
        )
        row_count, rank = constant_value(segment_limit), ids.shape.ndims

        def kernel(x: Any, numbers: Any, count: Any) -> Any:
            if np.shape(x)[: np.ndim(numbers)] != np.shape(numbers):
                told = f"segment_ids.shape = {list(np.shape(numbers))}"
                raise InvalidArgumentError(f"data.shape = {list(np.shape(x))} does not start with {told}")
            if (numbers >= count).any():
                raise InvalidArgumentError(f"segment_ids must be below {count}: {np.max(numbers)}")
            return _gathered(kind, x, numbers, int(count), _KINDS[kind][2](x.dtype))

        rest: Any = None
        if operand.shape.sides is not None and rank is not None:
            rest = (None if row_count is None else int(row_count), *operand.shape.sides[rank:])
        return apply_op(
            f"UnsortedSegment{kind.title()}", [operand, ids, segment_limit], operand.dtype, rest, kernel, name
        )

    segment.__name__ = segment.__qualname__ = f"unsorted_segment_{kind}"
    segment.__doc__ = f"""Return the {kind} of the items, or rows, that have the same number, unless it is negative.

    Parameters
    ----------
    data : Tensor of numbers
    segment_ids : Tensor of integers
        The number of each item or row: its shape is that of the first dimensions of `data`.
    num_segments : int or Tensor
        How many numbers there are.
    name : str, optional
    """
    return segment


segment_sum, segment_mean, segment_prod, segment_max, segment_min = map(_sorted, _KINDS)
unsorted_segment_sum, unsorted_segment_mean, unsorted_segment_prod, unsorted_segment_max, unsorted_segment_min = map(
    _unsorted, _KINDS
)


def bincount(
    arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = np.int32
) -> Tensor:
    """Return how often each whole number from 0 on is in a tensor.

    Parameters
    ----------
    arr : Tensor of int32
        No number is negative.
    weights : Tensor, optional
        What each number counts, of the shape of `arr`: then the result has its type.
    minlength, maxlength : int or Tensor, optional
        The result has at least, and at most so many counts.
    dtype : dtype, default int32
    """
    operand = convert_to_tensor(arr, int32)
    kind = as_dtype(dtype) if weights is None else convert_to_tensor(weights).dtype
    limits = [None if limit is None else convert_to_tensor(limit, int32) for limit in (minlength, maxlength)]
    further = [*([] if weights is None else [convert_to_tensor(weights)]), *limits]
    inputs = [operand, *(tensor for tensor in further if tensor is not None)]

    def kernel(x: Any, *rest: Any) -> Any:
        left = list(rest)
        counted = None if weights is None else np.ravel(left.pop(0))
        least = 0 if limits[0] is None else int(left.pop(0))
        segment_limit = None if limits[1] is None else int(left.pop(0))
        if (x < 0).any():
            raise InvalidArgumentError("Input arr must be non-negative!")
        flat = np.ravel(x)
        if segment_limit is not None:
            counted = None if counted is None else counted[flat < segment_limit]
            flat = flat[flat < segment_limit]
        return np.bincount(flat, counted, least)[:segment_limit].astype(kind.dtype)

    known = [None if tensor is None else constant_value(tensor) for tensor in (operand, *limits)]
    size = None
    if known[0] is not None and all((a is None) == (b is None) for a, b in zip(limits, known[1:], strict=True)):
        size = max(int(np.max(known[0], initial=-1)) + 1, int(known[1] or 0))
        size = size if known[2] is None else min(size, int(known[2]))
    return apply_op("Bincount", inputs, kind, (size,), kernel, None)


def count_nonzero(
    input_tensor: Any = None, axis: Any = None, keepdims: bool | None = None, dtype: Any = np.int64,
    name: str | None = None, reduction_indices: Any = None, keep_dims: bool | None = None, input: Any = None,
) -> Tensor:  # fmt: skip
    """Return how many items aren't 0, or aren't empty strings.

    Parameters
    ----------
    input_tensor, input : Tensor
    axis, reduction_indices : int or list of int, optional
        The dimensions over which items are counted. Default: all.
    keepdims, keep_dims : bool, default False
        Whether the dimensions stay, with a length of 1.
    dtype : dtype, default int64
    name : str, optional
    """
    operand, kind = convert_to_tensor(input if input_tensor is None else input_tensor), as_dtype(dtype)
    keep = bool(keepdims if keep_dims is None else keep_dims)
    sides = operand.shape.sides
    axes = axes_of(reduction_indices if axis is None else axis, None if sides is None else len(sides))
    shape: Any = None
    if sides is not None and axes is not None:
        shape = [1 if at in axes else side for at, side in enumerate(sides) if keep or at not in axes]

    def kernel(x: Any) -> Any:
        there = np.asarray(x, object) != b"" if operand.dtype.kind == "S" else np.asarray(x) != 0
        return np.sum(there, axis=axes, keepdims=keep, dtype=kind.dtype)[()]

    return apply_op("CountNonzero", [operand], kind, shape, kernel, name or "count_nonzero")


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = np.int32, name: str | None = None
) -> Tensor:
    """Return how many numbers lie in each of equally wide ranges; numbers outside count in the first and the last one.

    Parameters
    ----------
    values : Tensor of numbers
    value_range : Tensor, shape (2,)
        Of the type of `values`.
    nbins : int or Tensor, default 100
    dtype : {int32, int64}, default int32
    name : str, optional
    """
    operand, kind = convert_to_tensor(values), as_dtype(dtype)
    limits, count = convert_to_tensor(value_range, operand.dtype), convert_to_tensor(nbins, int32)
    bin_count = constant_value(count)

    def kernel(x: Any, ends: Any, number: Any) -> Any:
        low, high = (float(one) for one in ends)
        if low >= high:
            told = f"but got {[low, high]}"
            raise InvalidArgumentError(f"value_range should satisfy value_range[0] < value_range[1], {told}")
        places = np.clip(np.floor((np.ravel(x) - low) / ((high - low) / int(number))), 0, int(number) - 1)
        return np.bincount(places.astype(np.int64), minlength=int(number)).astype(kind.dtype)

    shape = (None if bin_count is None else int(bin_count),)
    return apply_op("HistogramFixedWidth", [operand, limits, count], kind, shape, kernel, name)
