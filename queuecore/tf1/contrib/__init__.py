"""``tf.contrib``: what programs of TensorFlow 1 take from it."""

from queuecore.tf1.contrib import data, slim

__all__ = ["data", "slim"]
