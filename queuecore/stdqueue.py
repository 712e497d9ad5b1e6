"""The standard library's `queue` module on native storage: its names, arguments, exceptions and order, in less time.

`Queue`, `LifoQueue`, `PriorityQueue` and `SimpleQueue` hold references to any Python objects. `put` and `get` move one
reference when they need not wait. `Empty` and `Full` are the standard library's own classes, and so is `ShutDown` from
Python 3.13 on; `Queue.shutdown` is there for older versions too. The first three are subclasses of the standard
library's classes of these names; `queue.SimpleQueue` has none that keep anything of their own.

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

import queue
from queue import Empty, Full
from typing import TypeVar

from queuecore._core.handoff import objects as _native
from queuecore._core.handoff.objects import ShutDown, SimpleQueue

__all__ = ["Empty", "Full", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue"]

_T = TypeVar("_T")


@_native.plain
class Queue(_native.Queue[_T], queue.Queue[_T]):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A first-in, first-out queue of Python objects for any number of threads, like `queue.Queue`, many times faster.

    Parameters
    ----------
    maxsize : int, default 0
        The number of objects that it holds before `put` waits for room; zero or less: no bound.

    Attributes
    ----------
    maxsize : int
        As given; it may be changed at any time.
    unfinished_tasks : int
        Objects that were put, less calls of `task_done`.
    is_shutdown : bool
        Whether `shutdown` was called.

    Notes
    -----
    It holds references: nothing is copied, pickled or compared.

    Every method may be called from every thread, and `put` also from a finalizer, a weak reference's callback or a
    signal handler that interrupts a call on the same queue in the same thread: there is no lock that could be held.

    A subclass may override `_init`, `_put`, `_get` and `_qsize`, and use `mutex`, `not_empty`, `not_full`,
    `all_tasks_done` and `queue`, as with the standard library. An object of a class that overrides one of the four, or
    whose `mutex`, conditions or `queue` were used once, runs them under that mutex, at the speed and with the
    reentrancy of `queue.Queue`; all others stay native.

    It is a `queue.Queue` by ``isinstance``. `copy.copy` shares all but the counts, and `pickle` refuses, as there. The
    attributes `mutex`, the conditions and `queue`, which an object of `queue.Queue` has from its beginning, exist once
    they are first asked for: before that they are not in ``vars(q)``.

    Waiting releases the GIL. The main thread notices signals within 50 ms while it waits; other threads sleep until
    they are woken, but look four times a second whether the program ends. Once the main thread has ended and every
    thread that is left waits in queuecore, waits without a timeout end with `queuecore.errors.CancelledError`; with the
    standard library's queues such a process never ends.

    Examples
    --------
    >>> from queuecore.stdqueue import Queue
    >>> q = Queue(maxsize=2)
    >>> q.put("a")
    >>> q.put("b")
    >>> q.full(), q.get(), q.get(), q.empty()
    (True, 'a', 'b', True)
    """

    __slots__ = ()

    def __init__(self, maxsize: float = 0) -> None:
        _native.Queue.__init__(self, maxsize)  # not queue.Queue.__init__, which makes a mutex, conditions and a deque


@_native.plain
class LifoQueue(  # pyright: ignore[reportIncompatibleVariableOverride]
    _native.LifoQueue[_T], Queue[_T], queue.LifoQueue[_T]
):
    """A last-in, first-out queue of Python objects, like `queue.LifoQueue`; all else is as in `Queue`.

    Parameters
    ----------
    maxsize : int, default 0
        The number of objects that it holds before `put` waits for room; zero or less: no bound.

    Examples
    --------
    >>> from queuecore.stdqueue import LifoQueue
    >>> q = LifoQueue()
    >>> q.put(1)
    >>> q.put(2)
    >>> q.get(), q.get()
    (2, 1)
    """

    __slots__ = ()


@_native.plain
class PriorityQueue(_native.PriorityQueue[_T], Queue[_T], queue.PriorityQueue[_T]):  # type: ignore[type-var]
    """A queue that gives the smallest object first, like `queue.PriorityQueue`; all else is as in `Queue`.

    Parameters
    ----------
    maxsize : int, default 0
        The number of objects that it holds before `put` waits for room; zero or less: no bound.

    Notes
    -----
    Objects are compared by ``<``, as often and in the same order as by `heapq`. If a comparison raises, `put` or `get`
    raises the same exception, and the queue is unchanged. A comparison may use the queue: if it changes the queue, the
    call that compares begins again, and never ends if each comparison does so.

    Examples
    --------
    >>> from queuecore.stdqueue import PriorityQueue
    >>> q = PriorityQueue()
    >>> q.put((2, "later"))
    >>> q.put((1, "now"))
    >>> q.get()
    (1, 'now')
    """

    __slots__ = ()
