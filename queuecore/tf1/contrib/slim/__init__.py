"""``tf.contrib.slim``: what of it feeds a training loop."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1.contrib.layers import one_hot_encoding
from queuecore.tf1.contrib.slim import (
    data_decoder,
    data_provider,
    dataset,
    dataset_data_provider,
    parallel_reader,
    prefetch_queue,
    tfexample_decoder,
)

__all__ = [
    "data_decoder",
    "data_provider",
    "dataset",
    "dataset_data_provider",
    "one_hot_encoding",
    "parallel_reader",
    "prefetch_queue",
    "tfexample_decoder",
]


__getattr__ = _refusing("tf.contrib.slim")
