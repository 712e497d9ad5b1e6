"""``tf.math``: arithmetic and reductions."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.checks import is_non_decreasing, is_strictly_increasing
from queuecore.tf1._ops.math import *
from queuecore.tf1._ops.math import abs_ as abs, pow_ as pow, round_ as round
from queuecore.tf1._ops.numbers import *
from queuecore.tf1._ops.picking import invert_permutation
from queuecore.tf1._ops.segments import *

__getattr__ = _refusing("tf.math")
