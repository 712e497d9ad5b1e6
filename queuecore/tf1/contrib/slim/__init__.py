"""``tf.contrib.slim``: what of it feeds a training loop."""

from queuecore.tf1.contrib.slim import prefetch_queue

__all__ = ["prefetch_queue"]
