"""``tensorflow.python.ops.data_flow_ops``: queues and other holders of elements, also those without a public name."""

from queuecore.tf1._data.record_input import RecordInput
from queuecore.tf1._input.barriers import Barrier
from queuecore.tf1._input.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._input.staging import MapStagingArea, StagingArea

__all__ = [
    "Barrier",
    "FIFOQueue",
    "MapStagingArea",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
    "RecordInput",
    "StagingArea",
]
