"""``tf.contrib.slim.prefetch_queue``: queues of whole batches."""

from queuecore.tf1._input.batches import prefetch_queue

__all__ = ["prefetch_queue"]
