"""``tf.debugging``: operations that raise unless something holds."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.checks import *
from queuecore.tf1._ops.control import Assert
from queuecore.tf1._ops.math import is_finite, is_inf, is_nan
from queuecore.tf1._ops.numbers import check_numerics, verify_tensor_all_finite as assert_all_finite

__getattr__ = _refusing("tf.debugging")
