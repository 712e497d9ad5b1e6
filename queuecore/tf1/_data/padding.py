"""Shapes that elements are padded to, and the values that pad them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from queuecore.tf1._data.nests import DatasetBase, LeafSpec, leaves, mapped, matched, plain
from queuecore.tf1._graph.graph import Tensor, constant_value
from queuecore.tf1._graph.values import TensorShape, as_value

__all__ = ["Padding", "padded_shape"]


class Padding:
    """The shapes that elements are padded to, and the values that pad them.

    Attributes
    ----------
    shapes : list of TensorShape
        What is known of the shapes of the parts of a padded element.
    tensors : list of Tensor
        The shapes that only a run tells.
    values : structure
        As `queuecore.data` takes them.
    """

    def __init__(self, dataset: DatasetBase, padded_shapes: Any, padding_values: Any) -> None:
        leaf_specs = leaves(dataset._spec)
        if any(not isinstance(leaf, LeafSpec) for leaf in leaf_specs):
            raise TypeError("Batching of padded sparse tensors and of datasets is not supported")
        self._spec = dataset._spec
        self.shapes = [leaf.shape for leaf in leaf_specs]
        self._late: list[Tensor | None] = [None] * len(leaf_specs)
        if padded_shapes is None:
            if any(shape.sides is None for shape in self.shapes):
                raise ValueError("You must provide `padded_shapes` argument because a component has unknown rank.")
        else:
            parts = matched(dataset._spec, padded_shapes, "padded_shapes")
            self._late = [part if isinstance(part, Tensor) and constant_value(part) is None else None for part in parts]
            self.shapes = [padded_shape(*pair) for pair in zip(parts, self.shapes, strict=True)]
        self.tensors = [tensor for tensor in self._late if tensor is not None]
        values: list[Any] = [None] * len(leaf_specs)
        if padding_values is not None:
            parts = [padding_values] * len(leaf_specs)
            if isinstance(padding_values, (tuple, list, dict)):
                parts = matched(dataset._spec, _with_defaults(dataset._spec, padding_values), "padding_values")
            values = [
                None if value is None else _constant(value, leaf.dtype)
                for value, leaf in zip(parts, leaf_specs, strict=True)
            ]
        self.values = plain(dataset._spec, values)

    def sides(self, values: Sequence[Any]) -> Any:
        """Return the shapes as `queuecore.data` takes them, with the values that the tensors have in a run."""
        left = iter(values)
        made = [
            shape.sides if late is None else [None if side == -1 else int(side) for side in next(left)]
            for shape, late in zip(self.shapes, self._late, strict=True)
        ]
        return plain(self._spec, made)


def _with_defaults(spec: Any, values: Any) -> Any:
    # Padding values, where `None` in the place of a structure stands for the defaults of all its parts.
    if values is None:
        return mapped(lambda _: None, spec)
    if isinstance(spec, Mapping) and isinstance(values, Mapping):
        return {key: _with_defaults(spec[key], one) if key in spec else one for key, one in values.items()}
    if isinstance(spec, tuple) and isinstance(values, (tuple, list)) and len(spec) == len(values):
        return tuple(map(_with_defaults, spec, values))
    return values


def _padded_sides(shape_told: Any) -> TensorShape:
    sides = [shape_told] if isinstance(shape_told, (int, np.integer)) else list(shape_told)
    wanted = f"Padded shape {shape_told!r} must be a 1-D tensor of tf.int64 values"
    if any(isinstance(one, (list, tuple, np.ndarray)) for one in sides):
        raise ValueError(f"{wanted}, but its shape was {np.shape(shape_told)}.")
    if any(isinstance(one, (float, np.floating)) for one in sides):
        raise TypeError(f"{wanted}, but its element type was {as_value(shape_told).dtype.name}.")
    try:
        return TensorShape([None if isinstance(one, (int, np.integer)) and one == -1 else one for one in sides])
    except TypeError as error:
        raise ValueError(f"{shape_told!r} is no shape: {error}") from None


def padded_shape(shape_told: Any, shape: TensorShape) -> TensorShape:
    """Return what is known of a part's shape once it is padded to a shape that a program gives."""
    if isinstance(shape_told, Tensor):
        constant = constant_value(shape_told)
        if constant is None:
            shape_told.shape.ranked(1)
            count = shape.ndims if shape_told.shape[0].value is None else shape_told.shape[0].value
            if count is None:
                return shape
            shape_told = [None] * count
        else:
            shape_told = constant
    target = shape_told if isinstance(shape_told, TensorShape) else _padded_sides(shape_told)
    if target.sides is None or (shape.sides is not None and len(target.sides) != len(shape.sides)):
        raise ValueError(f"The padded shape {target} is not compatible with the corresponding input component "
                         f"shape {shape}.")  # fmt: skip
    for side, own in zip(target.sides, shape.sides or (), strict=False):
        if side is not None and own is not None and side < own:
            raise ValueError(f"The padded shape {target} is not compatible with the corresponding input component "
                             f"shape {shape}.")  # fmt: skip
    return target


def _constant(value: Any, dtype: Any) -> Any:
    found = constant_value(value) if isinstance(value, Tensor) else as_value(value, dtype)
    if found is None:
        raise ValueError(f"{value!r} must be known before the graph runs")
    if isinstance(value, Tensor) and value.dtype != dtype:
        raise TypeError(f"expected a padding value of {dtype}, got {value!r}")
    return found[()] if isinstance(found, np.ndarray) else found
