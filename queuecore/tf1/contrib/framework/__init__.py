"""``tf.contrib.framework``: the global step, structures, and checks."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.checks import assert_same_float_dtype
from queuecore.tf1._ops.picking import argsort, sort
from queuecore.tf1._ops.steps import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from queuecore.tf1.contrib.framework import nest

__all__ = [
    "argsort",
    "assert_global_step",
    "assert_same_float_dtype",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
    "nest",
    "sort",
]


__getattr__ = _refusing("tf.contrib.framework")
