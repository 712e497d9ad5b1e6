"""``tf.math``: arithmetic and reductions."""

from queuecore.tf1._math import *
