"""``tf.train``: coordinators, queue runners, and what they feed."""

from queuecore.runtime import Coordinator, LooperThread
from queuecore.tf1._missing import refusing as _refusing
from queuecore.tf1._runners import QueueRunner, add_queue_runner, lowering_report, start_queue_runners

__all__ = [
    "Coordinator",
    "LooperThread",
    "QueueRunner",
    "add_queue_runner",
    "lowering_report",
    "start_queue_runners",
]

__getattr__ = _refusing("tf.train")  # optimizers and their like
