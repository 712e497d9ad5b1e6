"""Coordinators, which stop a group of threads together, wait for them, and raise the first error of any."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from queuecore._core.atoms.runtime import StopEvent, slice_over, wait_over
from queuecore.errors import CancelledError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError

__all__ = ["FAILURE", "Coordinator", "Round", "check_seconds", "check_types", "failure_behind", "report", "round_of"]

_log = logging.getLogger("queuecore")

# join() sleeps on one thread after the other, and looks for the stop this often, in seconds: nothing can sleep on both.
_SLICE = 0.05

# Set on an exception that a queue was closed with: an error that the queue raises from it is no news, and no end of
# data.
FAILURE = "_queuecore_failure"

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _Thread(Protocol):
    @property
    def name(self) -> str: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None: ...


def failure_behind(error: BaseException | None) -> BaseException | None:
    """Return the error that a queue was closed with, if this one goes back to it."""
    for _ in range(100):  # a chain of causes may be a circle
        if error is None or getattr(error, FAILURE, False):
            return error
        error = error.__cause__
    return None


def _exception_of(ex: BaseException | _ExcInfo | None) -> BaseException | None:
    if ex is None or isinstance(ex, BaseException):
        return ex
    if isinstance(ex, tuple) and len(ex) == 3:
        kind, value, traceback = ex
        if kind is None and value is None:
            return None
        if value is None and isinstance(kind, type) and issubclass(kind, BaseException):
            value = kind()
        if isinstance(value, BaseException):
            return value if traceback is None else value.with_traceback(traceback)
    raise TypeError(f"ex must be an exception, what sys.exc_info() returns, or None, not {ex!r}")


def check_types(types: Any, what: str, base: type[BaseException]) -> tuple[type[BaseException], ...]:
    """Return `types`. `TypeError`: it is no tuple of subclasses of `base`."""
    if isinstance(types, tuple) and all(isinstance(one, type) and issubclass(one, base) for one in types):
        return types
    raise TypeError(f"{what} must be a tuple of subclasses of {base.__name__}, not {types!r}")


def check_seconds(value: Any, subject: str) -> float:
    """Return a number of seconds; `InvalidArgumentError`: it is none."""
    try:
        seconds = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        raise InvalidArgumentError(f"{subject} must be a number of seconds, not {value!r}")
    return seconds


def _place_of(thread: _Thread) -> str:
    """Return where a thread is now, for a message."""
    frame = sys._current_frames().get(getattr(thread, "ident", None) or 0)
    return "" if frame is None else f" in {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


class Round:
    """The stop and the errors between two calls of `Coordinator.clear_stop`. No lock: signal handlers use it."""

    __slots__ = ("errors", "joined", "stop")

    def __init__(self) -> None:
        self.stop = StopEvent()
        # In the order they came, each with the traceback it had then.
        self.errors: list[tuple[BaseException, TracebackType | None]] = []
        self.joined = False

    def knows(self, error: BaseException) -> bool:
        return any(one is error for one, _ in self.errors)


class _StopOnException(AbstractContextManager[None]):
    def __init__(self, coord: Coordinator) -> None:
        self._coord = coord

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        self._coord.request_stop(error)
        return not (
            isinstance(error, KeyboardInterrupt | SystemExit) and threading.current_thread() is threading.main_thread()
        )


class Coordinator:
    """Stops a group of threads together, waits for them, and raises the first error of any of them.

    Parameters
    ----------
    clean_stop_exception_types : tuple of exception classes, optional
        Errors that are an orderly end: `request_stop` takes them for a plain stop, and `join` doesn't raise them.
        Default: ``(OutOfRangeError,)``. A tuple given here replaces the default; ``()`` means that no error is clean.

    Notes
    -----
    Every method may be called by any thread at any time, and `request_stop` and `should_stop` also by signal handlers.
    Waits hold no GIL and hear Ctrl-C within 100 ms; `wait_for_stop` returns as soon as the stop is requested. A forked
    child has none of the threads; there the coordinator goes on as a plain object.

    As TensorFlow's, with these differences. The first *real* error wins, also after a plain stop; later ones are in
    `exceptions`. A `CancelledError` that is reported after the stop is the stop's own doing and is left out, as is
    every error that a queue raised from a failure which is known already. `request_stop` takes an exception anywhere,
    not only where it is handled. Interrupts pass through `stop_on_exception` in the main thread.

    Examples
    --------
    >>> import threading
    >>> import queuecore as qc
    >>> coord = qc.Coordinator()
    >>> def work():
    ...     with coord.stop_on_exception():
    ...         while not coord.should_stop():
    ...             raise ValueError("a bad record")
    >>> threads = [threading.Thread(target=work) for _ in range(3)]
    >>> for thread in threads:
    ...     thread.start()
    >>> coord.join(threads)
    Traceback (most recent call last):
        ...
    ValueError: a bad record
    """

    def __init__(self, clean_stop_exception_types: tuple[type[BaseException], ...] | None = None) -> None:
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (OutOfRangeError,)
        self._clean = check_types(clean_stop_exception_types, "clean_stop_exception_types", BaseException)
        self._round = Round()
        # A set that keeps the order.
        self._registered: dict[_Thread, None] = {}

    @property
    def joined(self) -> bool:
        """True if a `join` has ended, with an error or without, since the last `clear_stop`."""
        return self._round.joined

    @property
    def exceptions(self) -> tuple[BaseException, ...]:
        """The real errors that were reported since the last `clear_stop`; `join` raises the first of them."""
        return tuple(error for error, _ in self._round.errors)

    def request_stop(self, ex: BaseException | _ExcInfo | None = None) -> None:
        """Ask all threads to stop. Further calls add their error, if they have one.

        Parameters
        ----------
        ex : exception or exc_info triple, optional
            Why. Clean types count as none.

        Raises
        ------
        BaseException
            `ex` itself, if it is a real error and `join` has ended before: nobody would raise it any more.
        TypeError
            If `ex` is something else.

        Notes
        -----
        Never waits.
        """
        error = _exception_of(ex)
        round_ = self._round
        # Recorded before the stop is seen, so that whoever sees it sees the error too; and before the look at `joined`:
        # a join that ends meanwhile either finds it or is found.
        real = error is not None and self._report(error, round_)
        round_.stop.set()
        if error is not None and real and round_.joined:
            raise error

    def _report(self, error: BaseException, round_: Round | None = None) -> bool:
        """Record an error without a stop, and return whether it is a real one."""
        round_ = round_ or self._round
        if round_.knows(error):
            return True
        failure = failure_behind(error)
        if failure is not None:
            if round_.knows(failure):
                return False
        elif isinstance(error, CancelledError) and (round_.errors or round_.stop.is_set()):
            return False
        if isinstance(error if failure is None else failure, self._clean):
            return False
        round_.errors.append((error, error.__traceback__))
        return True

    def clear_stop(self) -> None:
        """Begin anew: no stop, no error, not joined.

        Notes
        -----
        A wait that the stop has ended stays ended, and threads of a `QueueRunner` that were told to stop go on
        stopping.
        """
        round_ = self._round
        if round_.stop.is_set():
            self._round = Round()
        else:  # somebody may be waiting for this one
            round_.joined = False

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._round.stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested.

        Parameters
        ----------
        timeout : float, optional
            At most so many seconds; `None`: without a limit.

        Returns
        -------
        bool
            True if stopped, False if the time ran out.
        """
        return self._round.stop.wait(timeout)

    def register_thread(self, thread: _Thread) -> None:
        """Add a thread to those that the next `join` waits for.

        Parameters
        ----------
        thread : threading.Thread or similar
            Anything with `name`, ``is_alive()`` and ``join(timeout)``.
        """
        self._registered[thread] = None

    def join(
        self,
        threads: Iterable[_Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until all threads have ended; once a stop is requested, not longer than a grace period.

        Parameters
        ----------
        threads : iterable of threading.Thread or similar, optional
            Besides those that were registered, also while this waits.
        stop_grace_period_secs : float, default 120
            How long to wait after the stop, in seconds; or after this call, if the stop came before it.
        ignore_live_threads : bool, default False
            Only log which threads are left.

        Raises
        ------
        BaseException
            The first real error that was reported, the same object with its own traceback; by every further call too.
        FailedPreconditionError
            If threads are left after the grace period, and no error was reported. It is a `RuntimeError`, and says
            where each of them is.

        Notes
        -----
        Returns as soon as the last thread ends; hears a stop within 100 ms, and counts from it. Ends without a stop if
        all threads end by themselves. Threads that were never started count as ended. Forgets the threads registered.
        The calling thread can't wait for itself: if it is one of them, it waits for the others and for the stop. Ctrl-C
        ends the wait.
        """
        grace = max(0.0, check_seconds(stop_grace_period_secs, "stop_grace_period_secs"))
        threads = tuple(threads or ())
        round_ = self._round
        begin_ns = time.monotonic_ns()
        me = threading.current_thread()
        wait_over()
        while True:
            waited = dict.fromkeys((*tuple(self._registered), *threads))
            alive = [thread for thread in waited if thread.is_alive()]
            stopped_at = round_.stop.set_at()
            patience = (
                math.inf if stopped_at is None else grace - (time.monotonic_ns() - max(begin_ns, stopped_at)) / 1e9
            )
            if not alive or patience <= 0:
                break
            other = next((thread for thread in alive if thread is not me), None)
            if other is not None:
                if patience == math.inf:
                    slice_over()
                other.join(min(_SLICE, patience))
            elif stopped_at is not None:
                break
            else:
                round_.stop.wait()
        wait_over()
        round_.joined = True
        for thread in waited:
            self._registered.pop(thread, None)
        self._raise_first(round_)
        if alive:
            message = f"Coordinator stopped with threads still running: {' '.join(thread.name for thread in alive)}"
            if not ignore_live_threads:
                places = [f"{thread.name}:{_place_of(thread) or ' ended meanwhile'}" for thread in alive]
                raise FailedPreconditionError("\n  ".join([message, *places]))
            _log.info(message)

    def raise_requested_exception(self) -> None:
        """Raise the first real error that was reported, if there is one, as `join` does."""
        self._raise_first(self._round)

    def _raise_first(self, round_: Round) -> None:
        if round_.errors:
            error, traceback = round_.errors[0]
            # Its own traceback each time: raising adds to the one it has.
            raise error.with_traceback(traceback)

    def stop_on_exception(self) -> AbstractContextManager[None]:
        """Return a context manager that hands every exception of its body to `request_stop`.

        Returns
        -------
        context manager
            It swallows the exception, but for `KeyboardInterrupt` and `SystemExit` in the main thread: these are
            recorded and go on.

        Examples
        --------
        >>> import queuecore as qc
        >>> coord = qc.Coordinator()
        >>> with coord.stop_on_exception():
        ...     raise qc.errors.OutOfRangeError("no more data")
        >>> coord.should_stop()
        True
        >>> coord.join()
        """
        return _StopOnException(self)


def round_of(coord: Coordinator) -> Round:
    """Return the round that a coordinator is in: `Coordinator.clear_stop` begins the next one."""
    return coord._round


def report(coord: Coordinator, error: BaseException) -> bool:
    """Record an error of a coordinator's thread without a stop, and return whether it is a real one."""
    return coord._report(error)
