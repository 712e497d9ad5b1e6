"""``tf.manip``: tensors of another shape."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.arrays import reshape, reverse, tile
from queuecore.tf1._ops.picking import gather_nd, roll, scatter_nd

__all__ = ["gather_nd", "reshape", "reverse", "roll", "scatter_nd", "tile"]

__getattr__ = _refusing("tf.manip")
