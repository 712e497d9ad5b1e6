"""Queue runners: threads that fill a queue, and collections of runners that start together."""

from __future__ import annotations

import functools
import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from queuecore._core.atoms.runtime import StopEvent
from queuecore._core.atoms.times import WorkTimes
from queuecore._runners.coordinator import (
    FAILURE,
    Coordinator,
    Round,
    check_types,
    failure_behind,
    report,
    round_of,
)
from queuecore._runners.threads import Thread
from queuecore.errors import CancelledError, InvalidArgumentError, OutOfRangeError, QueueCoreError

__all__ = ["QueueRunner", "add_queue_runner", "start_queue_runners"]

_log = logging.getLogger("queuecore")


class _Program(Protocol):
    # An op that does its work natively: a StageProgram. `start` is called on a thread of the runner's; it returns when
    # the stop has been heard, and raises otherwise: OutOfRangeError at the end of data, else its first error. A
    # method `check(queue)`, if there is one, raises what is wrong with the queue.
    def start(self, queue: Any, stop: StopEvent) -> object: ...


_Op = Callable[[], object] | _Program


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
        closed = check_types(queue_closed_exception_types, "queue_closed_exception_types", QueueCoreError)
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
        self._times = WorkTimes()

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
        """The function that is called at the end of the data."""
        return self._close_op

    @property
    def cancel_op(self) -> Callable[[], object]:
        """The function that is called when the coordinator stops."""
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

    def stats(self) -> dict[str, int]:
        """Return where the time of the threads that ran ops goes, so far.

        Returns
        -------
        dict of int
            ``threads``: the most at once. Their time, added up, in ns: ``blocked_input_ns``, in which they waited for
            elements of queuecore's queues, datasets and readers; ``blocked_output_ns``, for room in queues;
            ``busy_ns``, the rest: also what they waited for otherwise.

        Notes
        -----
        Never blocks. Threads are at work, so the counters need not belong to the same moment.
        """
        return self._times.stats()

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
        # A call that finds the lock held comes second, as if the threads of the first were there already. No call waits
        # for the lock, so neither a signal handler nor a forked child can hang on it.
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
        round_ = Round() if coord is None else round_of(coord)
        ended = StopEvent(round_.stop)
        # The thread that takes the 0 is the last: pop() is atomic, and no lock can be left held in a forked child.
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
        return Thread(target=target, args=args, name=full, daemon=bool(daemon))

    @staticmethod
    def _has_ended(thread: threading.Thread) -> bool:
        return thread.ident is not None and not thread.is_alive()

    def _start(self, coord: Coordinator | None) -> None:
        for index, thread in enumerate(self._threads):
            try:
                thread.start()
            except BaseException as error:
                # No more threads, or Ctrl-C: threads that run must not go on without the others.
                self._threads = self._threads[:index]
                if coord is not None:
                    report(coord, error)
                self._fail_queue(error)
                if coord is not None:
                    coord.request_stop(error)
                raise

    def _is_spent(self) -> bool:
        """Return whether it has run and can never run again."""
        return bool(self._threads) and all(map(self._has_ended, self._threads)) and self._is_closed()

    def _is_closed(self) -> bool:
        with suppress(Exception):
            return bool(self._queue.is_closed())
        return False

    def _run(self, op: _Op, coord: Coordinator | None, round_: Round, ended: StopEvent, countdown: list[int]) -> None:
        at_end = False
        times = None
        try:
            try:
                times = self._times.enter()
                self._work(op, round_.stop)
            except self._closed_types as error:
                if failure_behind(error) is not None:
                    raise
                at_end = True
        except BaseException as error:
            self._failed(error, coord, round_)
        finally:
            if countdown.pop() == 0:
                if at_end:
                    with suppress(Exception):
                        self._close_op()
                ended.set()
            if times is not None:
                self._times.leave(times)

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

    def _failed(self, error: BaseException, coord: Coordinator | None, round_: Round) -> None:
        failure = failure_behind(error)
        if failure is None:
            failure = error
        # A close on purpose is no failure, and its consumers' end of data is no error.
        closed = isinstance(failure, CancelledError) and self._is_closed()
        if isinstance(failure, CancelledError) and round_.stop.is_set():
            return  # the stop did it, even if it has been cleared since
        if coord is not None:
            # Known to the coordinator before the queue wakes anybody, whose CancelledError would come first otherwise;
            # and the queue has its cause before the stop, which would close it without one.
            if report(coord, failure) and not closed:
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
            setattr(error, FAILURE, True)
        with suppress(Exception):  # it would hide the first error
            if hasattr(self._queue, "_fail"):
                self._queue._fail(error)
            else:
                self._cancel_op()

    def _close_on_stop(self, round_: Round, ended: StopEvent) -> None:
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
