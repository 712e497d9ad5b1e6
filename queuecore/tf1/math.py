"""``tf.math``: arithmetic and reductions."""

from queuecore.tf1._math import *
from queuecore.tf1._math import round_ as round
