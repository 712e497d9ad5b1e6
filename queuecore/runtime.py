"""Threads that stop together: `Coordinator`, `LooperThread`, and `QueueRunner`, whose threads fill a queue.

The names and rules are TensorFlow's, eager and without a session. Two differences: the first real error is the one that
`Coordinator.join` raises, whenever it comes, and a runner that fails closes its queue with the cause.
"""

from __future__ import annotations

from queuecore._runners.coordinator import Coordinator
from queuecore._runners.looper import LooperThread
from queuecore._runners.queue_runner import QueueRunner, add_queue_runner, start_queue_runners

__all__ = ["Coordinator", "LooperThread", "QueueRunner", "add_queue_runner", "start_queue_runners"]

# Pickles and messages name them by this module.
for _one in (Coordinator, LooperThread, QueueRunner, add_queue_runner, start_queue_runners):
    _one.__module__ = __name__
