"""``tf.contrib``: the parts that input programs use."""

from queuecore.tf1.contrib import slim

__all__ = ["slim"]
