"""``tf.contrib.layers``: what of it prepares labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore.tf1._graph.graph import Tensor, convert_to_tensor
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import int32, int64
from queuecore.tf1._ops.arrays import one_hot
from queuecore.tf1._ops.math import cast

__all__ = ["one_hot_encoding"]


def one_hot_encoding(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0, outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:  # fmt: skip
    """Return labels as vectors of float32 with one number set.

    Parameters
    ----------
    labels : Tensor of integers
    num_classes : int
        The length of a vector.
    on_value, off_value : float, default 1 and 0
        The number of the label's place, and of all others.
    outputs_collections : str or list of str, optional
        The collections that hold the result.
    scope : str, optional
        A prefix of operations' names.
    """
    given = convert_to_tensor(labels)
    with given.graph.name_scope(scope or "OneHotEncoding"):
        places = cast(given, int64) if given.dtype == int32 else given
        made: Tensor = one_hot(places, num_classes, np.float32(on_value), np.float32(off_value))
    if outputs_collections is not None:
        made.graph.add_to_collections(outputs_collections, made)
    return made


__getattr__ = _refusing("tf.contrib.layers")
