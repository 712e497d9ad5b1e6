"""Threads that call a function again and again until a coordinator stops."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from queuecore._runners.coordinator import Coordinator, check_seconds
from queuecore._runners.threads import Thread
from queuecore.errors import InvalidArgumentError

__all__ = ["LooperThread"]


class LooperThread(Thread):
    """A daemon thread that calls a function again and again until its coordinator stops.

    Override `run_loop`, and `start_loop` and `stop_loop` if need be, or give a target.

    Parameters
    ----------
    coord : Coordinator
        Hears of every error; the thread registers with it.
    timer_interval_secs : float or None
        Seconds from one call to the next, on the monotonic clock. The first call comes at once, the others at multiples
        of the interval after it: a late call makes none of the later ones late. `None`: call after call without a
        pause.
    target : callable, optional
        What `run_loop` calls.
    args : iterable, optional
        Arguments of `target`.
    kwargs : mapping, optional
        Keyword arguments of `target`.

    Raises
    ------
    InvalidArgumentError
        If `coord` is no `Coordinator`, the interval no number from 0 on, or if there are arguments without a target.

    Notes
    -----
    A stop ends the pause between two calls at once. An error in any of the methods goes to
    `Coordinator.request_stop`, and ends the thread.

    Examples
    --------
    >>> import queuecore as qc
    >>> coord = qc.Coordinator()
    >>> calls = []
    >>> def tick():
    ...     calls.append(len(calls))
    ...     if len(calls) == 3:
    ...         coord.request_stop()
    >>> thread = qc.LooperThread.loop(coord, 0.01, tick)
    >>> coord.join()
    >>> calls
    [0, 1, 2]
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise InvalidArgumentError(f"coord must be a Coordinator, not {coord!r}")
        if timer_interval_secs is not None:
            timer_interval_secs = check_seconds(timer_interval_secs, "timer_interval_secs")
            if not 0 <= timer_interval_secs < math.inf:
                raise InvalidArgumentError(f"timer_interval_secs must be at least 0, not {timer_interval_secs}")
        if target is None and (args or kwargs):
            raise InvalidArgumentError("args and kwargs are those of target, and there is none")
        super().__init__(daemon=True)
        self._coord = coord
        self._interval = timer_interval_secs
        self._call = None if target is None else functools.partial(target, *(args or ()), **(kwargs or {}))
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Make a thread that calls `target`, and start it.

        Parameters
        ----------
        coord, timer_interval_secs, target, args, kwargs
            As of the class.

        Returns
        -------
        LooperThread
            The thread, which runs.
        """
        looper = LooperThread(coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Run the loop; `start` does so in the new thread."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                begun = time.monotonic()
                calls = 0
                while not self._coord.wait_for_stop(begun + calls * self._interval - time.monotonic()):
                    calls += 1
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Do what comes before the first call; nothing, unless overridden."""

    def stop_loop(self) -> None:
        """Do what comes after the last call, unless an error ended the loop; nothing, unless overridden."""

    def run_loop(self) -> None:
        """Do one round: call the target, unless overridden."""
        if self._call is not None:
            self._call()
