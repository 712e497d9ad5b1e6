"""``tf.random``: random numbers of TensorFlow's generator."""

from queuecore.tf1._graph import set_random_seed
from queuecore.tf1._random import (
    random_normal as normal,
    random_shuffle as shuffle,
    random_uniform as uniform,
    truncated_normal,
)

__all__ = ["normal", "set_random_seed", "shuffle", "truncated_normal", "uniform"]
