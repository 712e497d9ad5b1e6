"""``tensorflow.python.ops.data_flow_ops``: queues and others that hold or sort elements, also without a public name."""

from queuecore.tf1._data.record_input import RecordInput
from queuecore.tf1._input.barriers import Barrier
from queuecore.tf1._input.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._input.staging import MapStagingArea, StagingArea
from queuecore.tf1._ops.picking import dynamic_partition, dynamic_stitch

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
    "dynamic_partition",
    "dynamic_stitch",
]
