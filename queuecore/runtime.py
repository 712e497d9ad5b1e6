"""Threads that stop together: `Coordinator`, `LooperThread`, and `QueueRunner`, whose threads fill a queue.

The names and rules are TensorFlow's, eager and without a session. What differs: the first real error is the one that
`Coordinator.join` raises, whenever it comes, and a runner that fails closes its queue with the cause.
"""

from __future__ import annotations

import functools
import logging
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Protocol, cast

from queuecore._core.runtime import StopEvent
from queuecore.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    QueueCoreError,
)

__all__ = ["Coordinator", "LooperThread", "QueueRunner", "add_queue_runner", "start_queue_runners"]

_log = logging.getLogger("queuecore")

# join() sleeps on one thread after the other, and looks for the stop this often, in seconds: nothing can sleep on both.
_SLICE = 0.05

# Set on an exception that a queue was closed with: what that queue raises from it is no news, and no end of data.
_FAILURE = "_queuecore_failure"

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _Thread(Protocol):
    @property
    def name(self) -> str: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None: ...


class _Program(Protocol):
    # An op that does its work natively: a StageProgram. `start` is called on a thread of the runner's; it returns when
    # the stop has been heard, and raises otherwise: OutOfRangeError at the end of data, else its first error. A
    # method `check(queue)`, if there is one, raises what is wrong with the queue.
    def start(self, queue: Any, stop: StopEvent) -> object: ...


_Op = Callable[[], object] | _Program


def _failure_behind(error: BaseException | None) -> BaseException | None:
    """Return the error that a queue was closed with, if this one goes back to it."""
    for _ in range(100):  # a chain of causes may be a circle
        if error is None or getattr(error, _FAILURE, False):
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


def _check_types(types: Any, what: str, base: type[BaseException]) -> tuple[type[BaseException], ...]:
    if isinstance(types, tuple) and all(isinstance(one, type) and issubclass(one, base) for one in types):
        return types
    raise TypeError(f"{what} must be a tuple of subclasses of {base.__name__}, not {types!r}")


def _check_seconds(value: Any, what: str) -> float:
    try:
        seconds = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        raise InvalidArgumentError(f"{what} must be a number of seconds, not {value!r}")
    return seconds


def _place_of(thread: _Thread) -> str:
    """Return where a thread is now, for a message."""
    frame = sys._current_frames().get(getattr(thread, "ident", None) or 0)
    return "" if frame is None else f" in {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


class _Round:
    """What lasts from one `Coordinator.clear_stop` to the next. Without a lock, so that signal handlers may use it."""

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

    As TensorFlow's, with these differences. The first *real* error wins, also after a plain stop; those after it are in
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
        self._clean = _check_types(clean_stop_exception_types, "clean_stop_exception_types", BaseException)
        self._round = _Round()
        # A set that keeps the order.
        self._registered: dict[_Thread, None] = {}

    @property
    def joined(self) -> bool:
        """Whether a `join` has ended, with an error or without, since the last `clear_stop`."""
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

    def _report(self, error: BaseException, round_: _Round | None = None) -> bool:
        """Record an error without a stop, and return whether it is a real one."""
        round_ = round_ or self._round
        if round_.knows(error):
            return True
        failure = _failure_behind(error)
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
            self._round = _Round()
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
        grace = max(0.0, _check_seconds(stop_grace_period_secs, "stop_grace_period_secs"))
        given = tuple(threads or ())
        round_ = self._round
        begun = time.monotonic_ns()
        me = threading.current_thread()
        while True:
            waited = dict.fromkeys((*tuple(self._registered), *given))
            alive = [one for one in waited if one.is_alive()]
            stopped_at = round_.stop.set_at()
            left = math.inf if stopped_at is None else grace - (time.monotonic_ns() - max(begun, stopped_at)) / 1e9
            if not alive or left <= 0:
                break
            other = next((one for one in alive if one is not me), None)
            if other is not None:
                other.join(min(_SLICE, left))
            elif stopped_at is not None:
                break
            else:
                round_.stop.wait()
        round_.joined = True
        for one in waited:
            self._registered.pop(one, None)
        self._raise_first(round_)
        if alive:
            message = f"Coordinator stopped with threads still running: {' '.join(one.name for one in alive)}"
            if not ignore_live_threads:
                raise FailedPreconditionError(
                    "\n  ".join([message, *(f"{one.name}:{_place_of(one) or ' ended meanwhile'}" for one in alive)])
                )
            _log.info(message)

    def raise_requested_exception(self) -> None:
        """Raise the first real error that was reported, if there is one, as `join` does."""
        self._raise_first(self._round)

    def _raise_first(self, round_: _Round) -> None:
        if round_.errors:
            error, traceback = round_.errors[0]
            # Its own traceback each time: raising adds to the one it has.
            raise error.with_traceback(traceback)

    def stop_on_exception(self) -> AbstractContextManager[None]:
        """Return a context manager that hands every exception of its body to `request_stop`.

        Returns
        -------
        context manager
            It swallows the exception, but for `KeyboardInterrupt` and `SystemExit` in the main thread: those are
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


class LooperThread(threading.Thread):
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
            timer_interval_secs = _check_seconds(timer_interval_secs, "timer_interval_secs")
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


class QueueRunner:
    """Threads that fill a queue, until the data ends, the coordinator stops, or one of them fails.

    Parameters
    ----------
    queue : FIFOQueue or similar
        Anything with `name`, ``close(cancel_pending_enqueues)`` and ``is_closed()``.
    enqueue_ops : list of callables or StageProgram
        Each gets a thread of its own. A callable is called over and over, without arguments, and enqueues by itself. A
        `StageProgram` runs without the GIL, and the elements that it makes are enqueued. ``[op] * 4``: four threads.
    close_op : callable, optional
        Called when the last op has ended because the data has. Default: ``queue.close``.
    cancel_op : callable, optional
        Called when the coordinator stops. Default: ``queue.close`` that cancels pending enqueues.
    queue_closed_exception_types : tuple of exception classes, optional
        Errors of an op that mean the end of its data, subclasses of `QueueCoreError`. Default: ``(OutOfRangeError,)``.

    Raises
    ------
    InvalidArgumentError
        If there is no queue, no op, an op that can't be called, or a program whose elements are not those of the queue.
    TypeError
        If the exception types are no tuple of such classes, or an empty one.

    Notes
    -----
    What ends a thread, and what follows:

    - The coordinator's stop: ``cancel_op``, which ends the enqueues that wait. If an error stopped it, the queue is
      closed with that as its cause.
    - An error of the closed types: the thread ends. The last thread of all calls ``close_op``. `StopIteration` counts
      as an `OutOfRangeError`.
    - Any other error, with a coordinator: it goes there, and the queue is closed with it as its cause.
    - Any other error, without one: it is logged, kept in `exceptions_raised`, raised in the thread, and the queue is
      closed with it as its cause.
    - Somebody else closes the queue: the enqueue's `CancelledError` is such an error, but no cause for the queue's end.

    A queue that was closed with a cause delivers what is in it; from then on its consumers get that cause as the
    ``__cause__`` of their error. A runner whose op takes from such a queue passes the cause on: it doesn't take it for
    an end of data.

    As TensorFlow's, but without a session. There, a failed runner without a coordinator leaves its consumers hanging,
    and ``join()`` doesn't return after an ordinary end of data.

    Examples
    --------
    >>> import queuecore as qc
    >>> class Store:
    ...     name = "store"
    ...     def __init__(self):
    ...         self.items, self.closed = [], False
    ...     def close(self, cancel_pending_enqueues=False):
    ...         self.closed = True
    ...     def is_closed(self):
    ...         return self.closed
    >>> store, source = Store(), iter(range(3))
    >>> def enqueue():
    ...     store.items.append(next(source))
    >>> coord = qc.Coordinator()
    >>> runner = qc.QueueRunner(store, [enqueue])
    >>> threads = runner.create_threads(coord, start=True)
    >>> [thread.name for thread in threads]
    ['QueueRunnerThread-store-enqueue', 'QueueRunnerThread-store-close_on_stop']
    >>> coord.join(threads)
    >>> store.items, store.is_closed()
    ([0, 1, 2], True)
    """

    def __init__(
        self,
        queue: Any,
        enqueue_ops: Sequence[_Op],
        close_op: Callable[[], object] | None = None,
        cancel_op: Callable[[], object] | None = None,
        queue_closed_exception_types: tuple[type[QueueCoreError], ...] | None = None,
    ) -> None:
        if queue is None:
            raise InvalidArgumentError("a QueueRunner needs a queue")
        if not isinstance(enqueue_ops, Sequence) or not enqueue_ops:
            raise InvalidArgumentError(f"enqueue_ops must be a list of at least one callable, not {enqueue_ops!r}")
        for op in enqueue_ops:
            if not callable(op) and not hasattr(op, "start"):
                raise InvalidArgumentError(f"enqueue_ops: {op!r} can't be called")
            check = getattr(op, "check", None)
            if check is not None:
                check(queue)
        for what, end in (("close_op", close_op), ("cancel_op", cancel_op)):
            if end is not None and not callable(end):
                raise InvalidArgumentError(f"{what} must be a callable or None, not {end!r}")
        if queue_closed_exception_types is None:
            queue_closed_exception_types = (OutOfRangeError,)
        closed = _check_types(queue_closed_exception_types, "queue_closed_exception_types", QueueCoreError)
        if not closed:
            raise TypeError("queue_closed_exception_types must name at least one class")
        self._closed_types = closed
        self._queue = queue
        self._ops = list(enqueue_ops)
        self._close_op = close_op or queue.close
        self._cancel_op = cancel_op or functools.partial(queue.close, cancel_pending_enqueues=True)
        self._exceptions: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._making = threading.Lock()

    @property
    def queue(self) -> Any:
        """The queue that is filled."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[_Op]:
        """The ops, one for each thread."""
        return self._ops

    @property
    def close_op(self) -> Callable[[], object]:
        """What is called at the end of the data."""
        return self._close_op

    @property
    def cancel_op(self) -> Callable[[], object]:
        """What is called when the coordinator stops."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[BaseException], ...]:
        """The errors that mean the end of an op's data."""
        return self._closed_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Errors of the threads last made, if they had no coordinator to hear of them."""
        return self._exceptions

    @property
    def name(self) -> str:
        """The queue's name."""
        return str(self._queue.name)

    def create_threads(
        self, coord: Coordinator | None = None, daemon: bool = True, start: bool = False
    ) -> list[threading.Thread]:
        """Make the threads: one for each op and, with a coordinator, one that calls `cancel_op` on its stop.

        Parameters
        ----------
        coord : Coordinator, optional
            Stops the threads, and hears of their errors; they are registered with it.
        daemon : bool, default True
            Whether the program may end while ops run. The thread for the stop is always a daemon.
        start : bool, default False
            Whether to start them.

        Returns
        -------
        list of threading.Thread
            Named ``QueueRunnerThread-<queue>-<op>``, the one for the stop last,
            ``QueueRunnerThread-<queue>-close_on_stop``. Empty while a thread of the last call has not ended yet.

        Raises
        ------
        InvalidArgumentError
            If `coord` is something else.
        """
        if coord is not None and not isinstance(coord, Coordinator):
            raise InvalidArgumentError(f"coord must be a Coordinator or None, not {coord!r}")
        # Who finds it held comes second, as if the other's threads were there already. Never waited for, so neither a
        # signal handler nor a forked child can hang on it.
        if not self._making.acquire(blocking=False):
            return []
        try:
            return self._create(coord, daemon, start)
        finally:
            self._making.release()

    def _create(self, coord: Coordinator | None, daemon: bool, start: bool) -> list[threading.Thread]:
        if not all(map(self._has_ended, self._threads)):
            return []
        self._exceptions = []
        round_ = _Round() if coord is None else coord._round
        ended = StopEvent(round_.stop)
        # Whoever takes the 0 is the last: pop() is atomic, and no lock can be left held in a forked child.
        left = list(range(len(self._ops)))
        threads = []
        for op in self._ops:
            name = getattr(op, "__name__", type(op).__name__)
            threads.append(self._thread(name, daemon, self._run, op, coord, round_, ended, left))
        if coord is not None:
            threads.append(self._thread("close_on_stop", True, self._close_on_stop, round_, ended))
            for thread in threads:
                coord.register_thread(thread)
        self._threads = threads
        if start:
            self._start(coord)
        return list(threads)

    def _thread(self, name: str, daemon: bool, target: Callable[..., None], *args: Any) -> threading.Thread:
        full = f"QueueRunnerThread-{self.name}-{name}"
        return threading.Thread(target=target, args=args, name=full, daemon=bool(daemon))

    @staticmethod
    def _has_ended(thread: threading.Thread) -> bool:
        return thread.ident is not None and not thread.is_alive()

    def _start(self, coord: Coordinator | None) -> None:
        for index, thread in enumerate(self._threads):
            try:
                thread.start()
            except BaseException as error:
                # No more threads, or Ctrl-C: those that run must not go on without the others.
                self._threads = self._threads[:index]
                if coord is not None:
                    coord._report(error)
                self._fail_queue(error)
                if coord is not None:
                    coord.request_stop(error)
                raise

    def _is_spent(self) -> bool:
        """Whether it has run, and can never run again."""
        return bool(self._threads) and all(map(self._has_ended, self._threads)) and self._is_closed()

    def _is_closed(self) -> bool:
        with suppress(Exception):
            return bool(self._queue.is_closed())
        return False

    def _run(self, op: _Op, coord: Coordinator | None, round_: _Round, ended: StopEvent, left: list[int]) -> None:
        at_end = False
        try:
            try:
                self._work(op, round_.stop)
            except self._closed_types as error:
                if _failure_behind(error) is not None:
                    raise
                at_end = True
        except BaseException as error:
            self._failed(error, coord, round_)
        finally:
            if left.pop() == 0:
                if at_end:
                    with suppress(Exception):
                        self._close_op()
                ended.set()

    def _work(self, op: _Op, stop: StopEvent) -> None:
        try:
            start = getattr(op, "start", None)
            if start is not None:
                start(self._queue, stop)
            else:
                call = cast(Callable[[], object], op)
                while not stop.is_set():
                    call()
        except StopIteration as error:  # what next() says at the end; of a Python function TensorFlow takes it so, too
            raise OutOfRangeError(f"an op of the QueueRunner of {self.name} has no more data") from error

    def _failed(self, error: BaseException, coord: Coordinator | None, round_: _Round) -> None:
        failure = _failure_behind(error)
        if failure is None:
            failure = error
        # A close on purpose is no failure, and its consumers' end of data is no error.
        closed = isinstance(failure, CancelledError) and self._is_closed()
        if isinstance(failure, CancelledError) and round_.stop.is_set():
            return  # the stop did it, even if it has been cleared since
        if coord is not None:
            # Known to the coordinator before the queue wakes anybody, whose CancelledError would come first otherwise;
            # and the queue has its cause before the stop, which would close it without one.
            if coord._report(failure) and not closed:
                self._fail_queue(failure)
            coord.request_stop(failure)
            return
        if self._exceptions and (closed or any(one is failure for one in self._exceptions)):
            return  # what the failure of another op did to this one
        self._exceptions.append(error)
        if not closed:
            self._fail_queue(failure)
        if failure is error:
            _log.error("QueueRunner of %s: %r", self.name, error)
            raise error

    def _fail_queue(self, error: BaseException) -> None:
        with suppress(AttributeError, TypeError):  # an exception may refuse attributes
            setattr(error, _FAILURE, True)
        with suppress(Exception):  # it would hide the first error
            if hasattr(self._queue, "_fail"):
                self._queue._fail(error)
            else:
                self._cancel_op()

    def _close_on_stop(self, round_: _Round, ended: StopEvent) -> None:
        ended.wait()
        if not round_.stop.is_set():
            return
        with suppress(Exception):
            # Consumers learn why, whichever thread it was that failed.
            if round_.errors and hasattr(self._queue, "_fail") and not self._is_closed():
                self._fail_queue(round_.errors[0][0])
        with suppress(Exception):
            self._cancel_op()


_collections: dict[str, list[QueueRunner]] = {}


def add_queue_runner(qr: QueueRunner, collection: str = "queue_runners") -> None:
    """Add a runner to those that `start_queue_runners` starts.

    Parameters
    ----------
    qr : QueueRunner
        It stays in the collection until it has run and its queue is closed.
    collection : str, default "queue_runners"
        One of several such sets, by name.

    Raises
    ------
    InvalidArgumentError
        If `qr` is no `QueueRunner`.
    """
    if not isinstance(qr, QueueRunner):
        raise InvalidArgumentError(f"qr must be a QueueRunner, not {qr!r}")
    _collections.setdefault(collection, []).append(qr)


def start_queue_runners(
    coord: Coordinator | None = None, daemon: bool = True, start: bool = True, collection: str = "queue_runners"
) -> list[threading.Thread]:
    """Create the threads of every runner of a collection, and start them.

    Parameters
    ----------
    coord : Coordinator, optional
        As of `QueueRunner.create_threads`.
    daemon : bool, default True
        As of `QueueRunner.create_threads`.
    start : bool, default True
        Whether to start them.
    collection : str, default "queue_runners"
        Of which runners.

    Returns
    -------
    list of threading.Thread
        Of all runners, in the order they were added. Runners whose threads still run add none.

    Warns
    -----
    RuntimeWarning
        If the collection is empty.

    Notes
    -----
    As TensorFlow's, without a session. There is one set of collections in the process, and no graph whose end would
    empty them: so a runner that has run and whose queue is closed, which can never run again, is dropped.

    Examples
    --------
    >>> import queuecore as qc
    >>> class Store(list):
    ...     name = "store"
    ...     def close(self, cancel_pending_enqueues=False): pass
    ...     def is_closed(self): return False
    >>> store, coord = Store(), qc.Coordinator()
    >>> def enqueue():
    ...     store.append(len(store))
    ...     if len(store) == 3:
    ...         coord.request_stop()
    >>> qc.add_queue_runner(qc.QueueRunner(store, [enqueue]), collection="example")
    >>> threads = qc.start_queue_runners(coord, collection="example")
    >>> coord.join(threads)
    >>> store
    [0, 1, 2]
    """
    runners = _collections.get(collection, [])
    for runner in [one for one in runners if one._is_spent()]:
        runners.remove(runner)
    if not runners:
        warnings.warn(
            f"no queue runner is in the collection {collection!r}: nothing was started", RuntimeWarning, stacklevel=2
        )
    return [
        thread for runner in list(runners) for thread in runner.create_threads(coord=coord, daemon=daemon, start=start)
    ]
