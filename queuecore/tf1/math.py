"""``tf.math``: arithmetic and reductions."""

from queuecore.tf1._ops.math import *
from queuecore.tf1._ops.math import abs_ as abs, pow_ as pow, round_ as round
