"""``tf.math``: arithmetic and reductions."""

from queuecore.tf1._math import *
from queuecore.tf1._math import abs_ as abs
from queuecore.tf1._math import pow_ as pow
from queuecore.tf1._math import round_ as round
