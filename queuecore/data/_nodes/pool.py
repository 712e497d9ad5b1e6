"""Threads that call a user's function, and the tuning of their number."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator
from typing import Any, NamedTuple

from queuecore._core.atoms.times import ThreadTimes, WorkTimes
from queuecore._core.stream.scope import Scope
from queuecore._runners.threads import start_thread
from queuecore.data._nodes.calls import FunctionCall, StageCall
from queuecore.data._nodes.orders import Mark
from queuecore.data._nodes.run import Opened
from queuecore.errors import UnavailableError
from queuecore.stdqueue import Empty, SimpleQueue

__all__ = ["FIRST_TUNED", "MOST_THREADS", "MOST_TUNED", "Pool", "Result", "Tuner"]

MOST_THREADS = 1024

# Of a pool that finds out by itself how many threads it needs: how many it begins with at least, as some of them wait
# for the GIL; how few and how many it may have; the length of a trial; what other numbers must gain; and how long the
# best one is kept before others are tried again.
FIRST_TUNED = 16
_LEAST_TUNED = 4
MOST_TUNED = 64
_TRIAL_SECONDS = 0.005
_GAIN = 1.1
_SETTLED_SECONDS = 1.0


class Result(NamedTuple):
    """The result of a call for an element; or the error that came instead."""

    number: int
    made: Any
    structure: Any
    error: BaseException | None


class _End(NamedTuple):
    """The end: no elements come from this number on, or an error came there."""

    number: int
    error: BaseException | None


def _with_room(count: int) -> SimpleQueue[Any]:
    """Return a queue that takes so many items without asking for memory."""
    made: SimpleQueue[Any] = SimpleQueue()
    for _ in range(count):
        made.put(None)
    for _ in range(count):
        made.get()
    return made


class Pool:
    """Threads that call a function of an iterator's elements. At most twice as many elements are in work or wait.

    Parameters
    ----------
    function : callable
        Takes an element, the pass and the element's number.
    child : Opened
        Gives the elements; one thread at a time reads from it.
    first : int
        Number of its first element.
    threads : int
        The most threads; each is started by one that has something to do, when no other waits for work.
    tuned : bool
        Whether `threads` is only the initial number.
    times : WorkTimes
        The times of the threads.
    followed : bool
        Whether the caller asks for `used`.
    """

    def __init__(
        self,
        function: FunctionCall | StageCall,
        child: Opened,
        pass_: int,
        first: int,
        threads: int,
        tuned: bool,
        times: WorkTimes,
        followed: bool = False,
    ) -> None:
        self._function = function
        self._child = child
        self._pass = pass_
        self._number = self._first = first
        self._threads = threads
        self._times = times
        self._scope = Scope(True)
        self._started = 0
        self._owed = 0  # elements that exist, but for which there is no room any more
        self._idle: list[None] = []
        self._ended = False
        self._lock = threading.Lock()
        # Room for all that can be in them: a thread that has no memory left must be able to say so. An exception: it
        # broke down.
        most = MOST_TUNED if tuned else threads
        self._done: SimpleQueue[Result | _End | BaseException] = _with_room(3 * most)
        self._room: SimpleQueue[None] = _with_room(2 * most)
        for _ in range(2 * threads):
            self._room.put(None)
        self._tuner = Tuner(threads) if tuned else None
        # For the elements in work, in order: the iterator's place before it gave each. Then the place before the first
        # element that isn't taken.
        self._followed = followed
        self._places: dict[int, Mark] = {}
        self._used: Mark = child.oldest()

    def used(self) -> Mark:
        """Return how far the iterator is used up by the results that were taken."""
        return self._used

    def keep_count(self) -> None:
        """Let no more elements be in work, or wait, than there are threads, instead of twice as many."""
        for _ in range(self._threads):
            self._room.get_nowait()

    def _allow(self, threads: int) -> None:
        """Allow at most so many threads from now on. Called by the thread that takes the results."""
        for _ in range(2 * (threads - self._threads)):
            self._room.put(None)
        self._owed += max(0, 2 * (self._threads - threads))
        self._threads = threads

    def _took(self) -> None:
        """Make room for another element, since one result is taken."""
        if self._owed:
            self._owed -= 1
        else:
            self._room.put(None)
        if self._tuner is not None:
            threads = self._tuner.next()
            if threads != self._threads:
                self._allow(threads)

    def _use(self, number: int) -> None:
        if self._followed:
            del self._places[number]
            self._used = next(iter(list(self._places.values())), self._used)

    def _start(self) -> None:
        self._started += 1
        try:
            start_thread("qc-map", self._work, broke=self._done.put)
        except BaseException:
            self._started -= 1
            raise

    def _work(self) -> None:
        # The error that ends it goes to `_done`: no memory, most likely. The element in hand is lost: none can follow.
        outer_scope = self._scope.enter()
        times = None
        try:
            times = self._times.enter()
            while self._one():
                pass
        finally:
            Scope.leave(outer_scope)
            if times is not None:
                self._times.leave(times)

    # It and `_one` try first: a thread that only looks whether it would wait may wait after all, and count it as work.
    def _await_room(self) -> None:
        try:
            self._room.get_nowait()
        except Empty:
            ThreadTimes.begin_wait(True)
            self._room.get()
            ThreadTimes.end_wait()

    def _one(self) -> bool:
        self._idle.append(None)
        self._await_room()
        waits = not self._lock.acquire(blocking=False)
        if waits:
            ThreadTimes.begin_wait(False)
            self._lock.acquire()
        try:
            if waits:  # nothing may come between the lock and what gives it back
                ThreadTimes.end_wait()
            number = self._number
            if self._ended:
                # The next one hears of it as well. How many there are is not sure: a start may fail whose thread runs.
                self._room.put(None)
                return False
            if self._started > self._threads:
                self._started -= 1
                self._idle.pop()
                self._room.put(None)
                return False
            if self._followed:
                self._places[number] = self._child.oldest()
            failed: Exception | None = None
            element: Any = None
            try:
                element = next(self._child)
            except BaseException as error:
                if isinstance(error, StopIteration) or not isinstance(error, Exception) or not self._child.goes_on:
                    self._ended = True
                    self._done.put(_End(number, None if isinstance(error, StopIteration) else error))
                    return False
                failed = error
            self._number += 1
            self._idle.pop()
            if not self._idle and self._started < self._threads:
                # There are too many threads already, or no memory for one more: fewer threads do the work.
                with contextlib.suppress(UnavailableError, MemoryError):
                    self._start()
        finally:
            self._lock.release()
        if failed is not None:
            self._done.put(Result(number, None, None, failed))
            return True
        try:
            result = Result(number, *self._function(element, self._pass, number), None)
        except BaseException as error:
            result = Result(number, None, None, error)
        self._done.put(result)
        return True

    def results(self, ordered: bool) -> Generator[Result]:
        """Yield the results in order of elements; or as they come, with the end after all that came before it."""
        early_results: dict[int, Result | _End] = {}
        number = self._first
        try:
            self._start()
            while True:
                item = self._done.get()
                if isinstance(item, BaseException):
                    raise item
                if not ordered and isinstance(item, Result):
                    number += 1
                    self._took()
                    self._use(item.number)
                    yield item
                else:
                    early_results[item.number] = item
                while number in early_results:
                    item = early_results.pop(number)
                    if isinstance(item, _End):
                        if item.error is not None:
                            raise item.error
                        return
                    number += 1
                    self._took()
                    self._use(item.number)
                    yield item
        finally:
            self._ended = self._scope.stopped = True
            # Somebody may be waiting for an element.
            self._child.stop()
            with self._lock:
                try:
                    self._child.close()
                finally:
                    self._room.put(None)


class Tuner:
    """Finds the number of threads with the highest throughput: doubles it while that gains, else halves it.

    A function that waits gains from more threads than there are CPUs; a function whose threads block each other loses
    by them, but never as much. Functions change, so the trials are repeated from time to time.
    """

    def __init__(self, threads: int) -> None:
        self._threads = self._best = self._first = threads
        self._least = min(threads, _LEAST_TUNED)
        self._rate = 0.0
        self._factor: float = 2
        self._count = -threads  # the first ones are still on the way in
        self._since = 0.0

    def next(self) -> int:
        """Note a result; return how many threads to have."""
        self._count += 1
        now = time.monotonic()
        if self._count <= 0:
            self._since = now
            return self._threads
        if not self._factor:
            if now - self._since > _SETTLED_SECONDS:
                self._first, self._rate, self._factor = self._best, 0.0, 2
                self._count, self._since = 0, now
            return self._threads
        if self._count < 2 * self._threads + 2 or now - self._since < _TRIAL_SECONDS:
            return self._threads
        rate = self._count / (now - self._since)
        if not self._rate:
            self._rate = rate
        elif rate > _GAIN * self._rate:
            self._rate, self._best = rate, self._threads
        else:  # of no use; fewer are worth a trial only where more never were
            self._factor = 0.5 if self._factor > 1 and self._best == self._first else 0
        wanted = int(self._best * self._factor) if self._factor else self._best
        self._threads = min(max(wanted, self._least), MOST_TUNED)
        if self._threads == self._best:
            self._factor = 0
        self._count = -self._threads
        return self._threads
