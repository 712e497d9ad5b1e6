"""Pace: whether worker threads work all at a time, or one after the other."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Generator

__all__ = ["Pace"]

# A worker waits so many seconds while the one at work makes no batch: that one may be waiting for others.
_PATIENCE = 1.0
_LEAST = 0.8  # processors that workers take together where the GIL is never free
_MOST = 0.85  # processors that each worker takes at most where some wait for the GIL
_BATCHES = 2  # of each worker in a measurement, behind one that isn't measured

_clock, _processor_clock = time.perf_counter, time.thread_time


class Pace:
    """The choice between all workers at a time and one, from the times of the first batches.

    NumPy and PyTorch give back the GIL around each operation. Where operations are short, threads hand it on so often
    that all of them together do less than one alone.

    Parameters
    ----------
    workers : int
    say : callable
        It is told if one at a time is quicker.
    """

    def __init__(self, workers: int, say: Callable[[str], object]) -> None:
        self._workers, self._say = workers, say
        self._lock = threading.Lock()  # held by the worker whose turn it is
        self._turns = 0
        self._alone = False  # one at a time
        self._measures = workers > 1
        # Of each batch: seconds, and seconds of a processor; by whether it was made alone.
        self._times: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])

    @contextlib.contextmanager
    def turn(self) -> Generator[None]:
        """Let the calling worker make a batch, when it is its turn."""
        alone = self._alone and self._waited()
        try:
            begun, worked = _clock(), _processor_clock()
            yield
            if self._measures and alone == self._alone:
                self._note(alone, _clock() - begun, _processor_clock() - worked)
        finally:
            if alone:
                self._turns += 1
                self._lock.release()

    def _waited(self) -> bool:
        """Wait for the lock; return False if it can't be had, and nobody needs it from then on."""
        turns = -1
        while self._alone and turns != self._turns:
            turns = self._turns
            if self._lock.acquire(timeout=_PATIENCE):
                return True
        self._alone = self._measures = False
        return False

    def _note(self, alone: bool, seconds: float, worked: float) -> None:
        times, first, end = self._times[alone], self._workers, (1 + _BATCHES) * self._workers
        times.append((seconds, worked))
        if len(times) < end:
            return
        # Several workers may come here at a time, and find the same.
        if not alone:
            seconds, worked = (sum(column) for column in zip(*times[first:end], strict=True))
            self._alone = self._measures = _LEAST * seconds <= worked * self._workers and worked <= _MOST * seconds
            return
        together, one = (statistics.median(seconds for seconds, _ in made[first:end]) for made in self._times)
        self._measures, self._alone = False, one * self._workers < together
        if self._alone:
            self._say(
                f"{self._workers} worker threads, one after the other: at the same time they would be slower, as their "
                "samples hand on the GIL at each short operation. With more processors, worker_type='process' may be "
                "quicker, or a pipeline of queuecore.data"
            )
