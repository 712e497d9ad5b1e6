"""Batches as sparse arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.checks import check_int
from queuecore._elements.component import BYTES
from queuecore._elements.record import ArraySpec, SparseSpec
from queuecore.data._nodes.batch import ObjectBatch
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.values import concatenated, depth_of
from queuecore.errors import DataLossError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

__all__ = ["SparseBatch"]


@dataclass(frozen=True, eq=False)
class SparseBatch(ObjectBatch):
    """Elements that are arrays of different shapes, stacked as `Sparse`.

    Attributes
    ----------
    row : tuple of int or None
        The shape of an element in a batch; `None`: the longest of the batch.
    """

    name = "sparse_batch"

    row: tuple[int | None, ...]

    @classmethod
    def of(cls, chain: Chain, size: int, row_shape: Any) -> SparseBatch:
        """Return the node for a user's arguments."""
        if not isinstance(row_shape, Sequence | np.ndarray):
            raise InvalidArgumentError(f"sparse_batch: row_shape must be a sequence of numbers, not {row_shape!r:.60}")
        sides = [-1 if side is None else check_int(side, "row_shape", -1) for side in row_shape]
        row = tuple(None if side < 0 else side for side in sides)
        spec = chain.element_spec
        if spec is not None and (not isinstance(spec, ArraySpec) or isinstance(spec, SparseSpec)):
            raise InvalidArgumentError(f"sparse_batch: each element must be one array, not {spec!r:.80}")
        if isinstance(spec, ArraySpec) and spec.shape is not None:
            _check_rank(len(spec.shape), row)
        return cls((chain,), size, False, row)

    def words(self) -> dict[str, Any]:
        return {"batch_size": self.size, "row_shape": list(self.row)}

    def label(self) -> str:
        return f"sparse_batch({self.size}, {list(self.row)})"

    def where(self) -> str:
        return "Python: NumPy puts batches together"

    def spec(self) -> Any:
        spec = self.inputs[0].element_spec
        return None if spec is None else SparseSpec((None, *self.row), spec.dtype)

    def _batch(self, run: NodeRun, group: list[Any], number: int) -> Piece:
        try:
            return One(self._stacked(group, number))
        except (InvalidArgumentError, DataLossError) as error:
            if run.skips is not None:
                raise
            return Failed(error)

    def _stacked(self, group: list[Any], number: int) -> Sparse:
        shapes, values, places = [], [], []
        for row, element in enumerate(group):
            shape, flat, inside = _laid_out(element)
            _check_rank(len(shape), self.row)
            if any(most is not None and side > most for side, most in zip(shape, self.row, strict=True)):
                raise DataLossError(
                    f"sparse_batch: an element of shape {list(shape)} is larger than the row shape, {list(self.row)} "
                    f"(batch {number})",
                    stage=self.name,
                )
            shapes.append(shape)
            values.append(flat)
            places.append(np.column_stack([np.full(len(inside), row, np.int64), inside]))
        longest = np.max(np.array(shapes, np.int64).reshape(len(group), len(self.row)), axis=0)
        sides = [int(own) if side is None else side for side, own in zip(self.row, longest, strict=True)]
        return Sparse(np.concatenate(places), concatenated(values), [len(group), *sides])


def _check_rank(rank: int, row: tuple[int | None, ...]) -> None:
    if rank != len(row):
        raise InvalidArgumentError(
            f"sparse_batch: elements of {rank} dimensions are incompatible with the row shape, {list(row)}"
        )


def _laid_out(element: Any) -> tuple[tuple[int, ...], Any, np.ndarray[Any, Any]]:
    """Return the shape of an array, its values one behind the other, and the place of each."""
    if isinstance(element, bytes):
        return (), Ragged.from_list([element]), np.empty((1, 0), np.int64)
    if isinstance(element, Ragged) and element.dtype == BYTES:
        shape: tuple[int, ...] = (len(element),)
        flat: Any = element
        while depth_of(flat) > 1:
            lengths = np.unique(flat.row_lengths())
            if len(lengths) > 1:
                raise InvalidArgumentError("sparse_batch: rows of different lengths aren't one array")
            shape, flat = (*shape, int(lengths[0]) if len(lengths) else 0), flat.values
    elif isinstance(element, np.ndarray | np.generic):
        shape, flat = element.shape, np.reshape(element, -1)
    else:
        raise InvalidArgumentError(f"sparse_batch: an element must be one array, not {element!r:.60}")
    return shape, flat, np.indices(shape).reshape(len(shape), math.prod(shape)).T
