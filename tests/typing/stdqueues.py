"""What type checkers make of the queues of Python objects. It is checked, by `make types`, and never run."""

import queue as standard
import threading
from typing import assert_type

import queuecore as qc
from queuecore import stdqueue


def use() -> None:
    """A queue of one type gives that type."""
    q: stdqueue.Queue[int] = qc.Queue(maxsize=3)
    q.put(1, timeout=0.5)
    q.put_nowait(2)
    assert_type(q.get(False), int)
    assert_type(q.get_nowait(), int)
    assert_type(q.maxsize, int)
    assert_type(q.full() or q.empty(), bool)
    assert_type(q.mutex, threading.Lock)
    q.maxsize = 4
    q.task_done()
    q.join()
    q.shutdown(immediate=True)
    assert_type(q.is_shutdown, bool)
    simple = stdqueue.SimpleQueue[str]()
    simple.put("a", block=False)
    assert_type(simple.get(), str)
    assert_type(stdqueue.PriorityQueue[tuple[int, str]]().get(), tuple[int, str])
    assert_type(qc.LifoQueue[bytes]().qsize(), int)


class Unique(stdqueue.Queue[int]):
    """Hooks may be overridden, and `queue` may be anything."""

    def _init(self, maxsize: int) -> None:
        self.queue = set()

    def _put(self, item: int) -> None:
        self.queue.add(item)


def failures() -> None:
    """One except clause serves both."""
    try:
        stdqueue.Queue[int]().get_nowait()
    except standard.Empty as error:
        assert_type(error, standard.Empty)
    same: type[standard.Full] = stdqueue.Full
    assert same and issubclass(stdqueue.ShutDown, Exception)


def mistakes(q: stdqueue.Queue[int]) -> None:
    """What must not pass."""
    q.put("a")  # type: ignore[arg-type]
    q.get(timeout="1")  # type: ignore[arg-type]
    q.full(1)  # type: ignore[call-arg]
    stdqueue.SimpleQueue[int]().join()  # type: ignore[attr-defined]
