"""``tf.random``: random numbers of TensorFlow's generator."""

from queuecore.tf1._graph import set_random_seed
from queuecore.tf1._random import random_normal as normal
from queuecore.tf1._random import random_shuffle as shuffle
from queuecore.tf1._random import random_uniform as uniform
from queuecore.tf1._random import truncated_normal

__all__ = ["normal", "set_random_seed", "shuffle", "truncated_normal", "uniform"]
