"""``tf.contrib``: what programs of TensorFlow 1 take from it."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1.contrib import data, framework, layers, lookup, slim, staging, training

__all__ = ["data", "framework", "layers", "lookup", "slim", "staging", "training"]


__getattr__ = _refusing("tf.contrib")
