"""Specifications of the parts of an element: ``tf.TensorSpec`` and the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from queuecore.tf1._graph.graph import Tensor
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_shape, float32, int64
from queuecore.tf1._ops.ragged import RaggedTensor
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = ["RaggedTensorSpec", "SparseTensorSpec", "TensorSpec"]


class _Spec:
    # What the classes share: conversions of what programs give, and comparison.
    shape: TensorShape
    dtype: DType
    value_type: ClassVar[type]

    def __post_init__(self) -> None:
        vars(self)["shape"] = as_shape(self.shape)
        vars(self)["dtype"] = as_dtype(self.dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a value, or what another specification stands for, may be meant."""
        kinds: tuple[Any, ...] = (type(self), self.value_type)
        other = spec_or_value
        if not isinstance(other, kinds):
            return False
        return bool(self.dtype == other.dtype and self.shape.is_compatible_with(other.shape))


@dataclass(frozen=True, repr=False)
class TensorSpec(_Spec):
    """The specification of a tensor.

    Parameters
    ----------
    shape : shape
        `None` where nothing is known of it, or of a dimension.
    dtype : dtype, default tf.float32
    name : str, optional
        Has no effect.
    """

    shape: TensorShape
    dtype: DType = float32
    name: str | None = field(default=None, compare=False)

    value_type: ClassVar[type] = Tensor

    def __repr__(self) -> str:
        """Return the shape and the type."""
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


@dataclass(frozen=True, repr=False)
class SparseTensorSpec(_Spec):
    """The specification of a sparse tensor.

    Parameters
    ----------
    shape : shape, optional
        Of the whole.
    dtype : dtype, default tf.float32
        Of its values.
    """

    shape: TensorShape = TensorShape(None)
    dtype: DType = float32

    value_type: ClassVar[type] = SparseTensor

    def __repr__(self) -> str:
        """Return the shape and the type."""
        return f"SparseTensorSpec({self.shape!r}, {self.dtype!r})"


@dataclass(frozen=True, repr=False)
class RaggedTensorSpec(_Spec):
    """The specification of a ragged tensor.

    Parameters
    ----------
    shape : shape, optional
        Of the whole.
    dtype : dtype, default tf.float32
        Of its values.
    ragged_rank : int, optional
        The number of dimensions that are divided by splits. Default: one less than the shape has.
    row_splits_dtype : dtype, default tf.int64
        Of these.
    """

    shape: TensorShape = TensorShape(None)
    dtype: DType = float32
    ragged_rank: Any = None
    row_splits_dtype: DType = int64

    value_type: ClassVar[type] = RaggedTensor

    def __post_init__(self) -> None:
        """Convert what programs give."""
        super().__post_init__()
        vars(self)["row_splits_dtype"] = as_dtype(self.row_splits_dtype)
        if self.ragged_rank is None:
            if self.shape.ndims is None:
                raise ValueError("Must specify ragged_rank or shape with a known rank.")
            vars(self)["ragged_rank"] = self.shape.ndims - 1

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a value, or what another specification stands for, may be meant."""
        return super().is_compatible_with(spec_or_value) and bool(self.ragged_rank == spec_or_value.ragged_rank)

    def __repr__(self) -> str:
        """Return all of it."""
        return f"RaggedTensorSpec({self.shape!r}, {self.dtype!r}, {self.ragged_rank}, {self.row_splits_dtype!r})"
