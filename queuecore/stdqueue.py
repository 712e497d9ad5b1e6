"""The standard library's `queue` module on native storage: its names, arguments, exceptions and order, in less time.

`Queue`, `LifoQueue`, `PriorityQueue` and `SimpleQueue` hold references to any Python objects. `put` and `get` move one
reference when they need not wait. `Empty` and `Full` are the standard library's own classes, and so is `ShutDown` from
Python 3.13 on; `Queue.shutdown` is there for older versions too.

Examples
--------
>>> from queuecore.stdqueue import Empty, Queue
>>> q = Queue()
>>> q.put({"any": "object"})
>>> q.get()
{'any': 'object'}
>>> try:
...     q.get(timeout=0.01)
... except Empty:
...     print("nothing came")
nothing came
"""

from __future__ import annotations

from queue import Empty, Full

from queuecore._core.objects import LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue

__all__ = ["Empty", "Full", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue"]
