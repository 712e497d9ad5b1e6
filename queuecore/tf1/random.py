"""``tf.random``: random numbers of TensorFlow's generator."""

from queuecore.tf1._graph.graph import set_random_seed
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.random import (
    random_normal as normal,
    random_poisson as poisson,
    random_shuffle as shuffle,
    random_uniform as uniform,
    truncated_normal,
)

__all__ = ["normal", "poisson", "set_random_seed", "shuffle", "truncated_normal", "uniform"]

__getattr__ = _refusing("tf.random")
