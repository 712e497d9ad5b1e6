"""Sparse tensors: three tensors that stand for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.ragged import Sparse
from queuecore.tf1._graph.graph import (
    Graph,
    Operation,
    Tensor,
    apply_op,
    constant_value,
    convert_to_tensor,
)
from queuecore.tf1._graph.values import DType, TensorShape, as_value

__all__ = [
    "SparseTensor",
    "SparseTensorValue",
    "sparse_placeholder",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
]


class SparseTensorValue(NamedTuple):
    """The value of a `SparseTensor` in a run.

    Attributes
    ----------
    indices : ndarray of int64, shape (n, d)
    values : ndarray, shape (n,)
    dense_shape : ndarray of int64, shape (d,)
    """

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """A tensor of which only some values are stored.

    Parameters
    ----------
    indices : Tensor of int64, shape (n, d)
        The place of each value.
    values : Tensor, shape (n,)
    dense_shape : Tensor of int64, shape (d,)

    Raises
    ------
    ValueError
        If the shapes don't fit together.
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices = convert_to_tensor(indices, np.int64, "indices")
        self.values = convert_to_tensor(values, name="values")
        self.dense_shape = convert_to_tensor(dense_shape, np.int64, "dense_shape")
        places = self.indices.shape.with_rank(2)
        places[0].assert_is_compatible_with(self.values.shape.with_rank(1)[0])
        places[1].assert_is_compatible_with(self.dense_shape.shape.with_rank(1)[0])

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        return self.values.op

    @property
    def graph(self) -> Graph:
        """The graph that it is part of."""
        return self.values.graph

    @property
    def shape(self) -> TensorShape:
        """The whole shape, as far as it is known."""
        known = constant_value(self.dense_shape)
        if known is not None:
            return TensorShape([int(one) for one in known])
        rank = self.dense_shape.shape[0].value
        return TensorShape(None if rank is None else [None] * rank)

    def get_shape(self) -> TensorShape:
        """Return what is known of the whole shape."""
        return self.shape

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Return its value in a session, the default one unless another is given."""
        parts = [one.eval(feed_dict, session) for one in (self.indices, self.values, self.dense_shape)]
        return SparseTensorValue(*parts)

    def _fetch(self) -> tuple[list[Tensor], Callable[[list[Any]], SparseTensorValue]]:
        return [self.indices, self.values, self.dense_shape], lambda parts: SparseTensorValue(*parts)

    def __repr__(self) -> str:
        """Return its parts."""
        return f"SparseTensor(indices={self.indices!r}, values={self.values!r}, dense_shape={self.dense_shape!r})"


def _check_places(places: Any, shape: Any, ordered: bool) -> None:
    sides = np.asarray(shape)
    outside = ((places < 0) | (places >= sides)).any(axis=1)
    if outside.any():
        index = int(outside.argmax())
        place_text = ",".join(map(str, places[index]))
        raise InvalidArgumentError(
            f"indices[{index}] = [{place_text}] is out of bounds: need 0 <= index < [{','.join(map(str, sides))}]"
        )
    if ordered and len(places) > 1:
        flat = np.ravel_multi_index(tuple(places.T), tuple(sides))
        steps = np.diff(flat)
        if (steps <= 0).any():
            index = int((steps <= 0).argmax()) + 1
            problem = (
                "is repeated" if steps[index - 1] == 0 else "is out of order. Many sparse ops require sorted indices"
            )
            raise InvalidArgumentError(f"indices[{index}] = [{','.join(map(str, places[index]))}] {problem}")


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Return a sparse tensor whose three parts are fed to each run: its parts are the keys of `feed_dict`.

    Parameters
    ----------
    dtype : dtype
    shape : optional
        Of the whole, if it is known.
    name : str, optional
    """
    from queuecore.tf1._ops.arrays import placeholder

    name = name or "SparsePlaceholder"
    rank = None if shape is None else len(shape)
    known = shape is not None and all(one is not None for one in shape)
    return SparseTensor(
        placeholder(np.int64, [None, rank], f"{name}/indices"),
        placeholder(dtype, [None], f"{name}/values"),
        np.asarray(shape, np.int64) if known else placeholder(np.int64, [rank], f"{name}/shape"),
    )


def sparse_tensor_to_dense(
    sp_input: SparseTensor, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Return the whole tensor.

    Parameters
    ----------
    sp_input : SparseTensor
    default_value : optional
        The value of all other places; 0 or an empty string by default.
    validate_indices : bool, default True
        Whether indices must be in order, and none twice. They are always checked to lie inside.
    name : str, optional

    Raises
    ------
    InvalidArgumentError
        In a run, if the indices are not as they must be.
    """
    if not isinstance(sp_input, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    dtype = sp_input.dtype
    blank = as_value((b"" if dtype.kind == "S" else 0) if default_value is None else default_value, dtype)

    def kernel(indices: Any, values: Any, shape: Any) -> Any:
        _check_places(indices, shape, validate_indices)
        if dtype.kind != "S":
            return Sparse(indices, values, shape).to_dense(blank)
        # Strings as numbers, and back.
        made = np.full(shape, blank, object)
        places = Sparse(indices, np.arange(1, len(values) + 1), shape).to_dense(0)
        made[places > 0] = values[places[places > 0] - 1]
        return as_value(made)

    inputs = [sp_input.indices, sp_input.values, sp_input.dense_shape]
    return apply_op("SparseToDense", inputs, dtype, sp_input.shape, kernel, name)


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return a tensor with values in some places, and one value in all others.

    Parameters
    ----------
    sparse_indices : Tensor of integers
        Of shape (n, d), (n,) for a vector, or () for one value.
    output_shape : Tensor of integers
    sparse_values : Tensor
        One for each place, or one for all.
    default_value : optional
    validate_indices : bool, default True
        Whether indices must be in order, and none twice. They are always checked to lie inside.
    name : str, optional

    Raises
    ------
    InvalidArgumentError
        In a run, if the indices are not as they must be.
    """
    places, sides = convert_to_tensor(sparse_indices), convert_to_tensor(output_shape)
    values = convert_to_tensor(sparse_values)
    blank = as_value(default_value, values.dtype)

    def kernel(where: Any, shape: Any, given: Any) -> Any:
        where = np.atleast_1d(where)
        where = where.reshape(len(where), -1)
        whole = np.full([int(side) for side in shape], blank, object if values.dtype.kind == "S" else values.dtype)
        _check_places(where, shape, validate_indices)
        whole[tuple(where.T)] = given
        return whole

    known = constant_value(sides)
    rank = sides.shape[0].value if sides.shape.ndims == 1 else None
    shape: Sequence[Any] | None = [int(side) for side in known] if known is not None else None
    if shape is None and rank is not None:
        shape = [None] * rank
    return apply_op("SparseToDense", [places, sides, values], values.dtype, shape, kernel, name)
