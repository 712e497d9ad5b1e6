"""Queues in the manner of TensorFlow 1, eager: elements of typed components, handed over between threads."""

from __future__ import annotations

from queuecore._queues.base import QueueBase
from queuecore._queues.kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue

__all__ = [
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
]

# Pickles and messages name them by this module.
for _one in (FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue):
    _one.__module__ = __name__
