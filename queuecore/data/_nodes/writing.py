"""The threads that write files for an iterator: its close waits for them, and so does the end of the program."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Generator
from typing import Any

__all__ = ["Writing"]

# Seconds that the end of the program waits for all of them.
_LAST_WAIT = 1.0

_at_work: dict[int, Writing] = {}


class Writing:
    """The threads that write for one iterator, and for those that work for it. Any thread may call any method."""

    def __init__(self) -> None:
        self._stream: weakref.ref[Any] | None = None
        # A lock for each thread, which it holds while it writes, with its process. No event: a signal handler may close
        # the iterator while its own lock is held.
        self._held: dict[Any, int] = {}
        self._over = False

    def follow(self, stream: Any) -> None:
        """Note the stream that is to be closed where the program ends. It isn't kept."""
        self._stream = weakref.ref(stream)

    @contextlib.contextmanager
    def begun(self) -> Generator[bool]:
        """Let the calling thread write; yield whether it may: not when the iterator is closed."""
        lock = threading.Lock()
        lock.acquire()
        self._held[lock] = os.getpid()
        _at_work[id(self)] = self
        try:
            yield not self._over
        finally:
            self._held.pop(lock, None)
            if not self._held:
                _at_work.pop(id(self), None)
            lock.release()

    def end(self) -> None:
        """Let no thread begin to write any more."""
        self._over = True

    def wait(self, timeout: float | None) -> None:
        """Wait until all threads have ended that write, for at most `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for held, process in list(self._held.items()):
            left = -1 if deadline is None else max(deadline - time.monotonic(), 0)
            if process == os.getpid() and held.acquire(timeout=left):
                held.release()

    def close(self) -> None:
        """Close the stream, without waiting for threads that write."""
        self.end()
        stream = None if self._stream is None else self._stream()
        if stream is not None:
            stream.halt()


def _end_all() -> None:
    deadline = time.monotonic() + _LAST_WAIT
    left = list(_at_work.values())
    for one in left:
        with contextlib.suppress(Exception):
            one.close()
    for one in left:
        one.wait(max(deadline - time.monotonic(), 0))


# Behind the handlers of the native core, which is imported before, so that its threads still run.
atexit.register(_end_all)
os.register_at_fork(after_in_child=_at_work.clear)
