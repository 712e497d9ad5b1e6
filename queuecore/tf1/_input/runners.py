"""Queue runners of a graph: `queuecore.QueueRunner`s, made for each session that starts them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from queuecore._checks.warnings import warn
from queuecore._core.atoms.times import WorkTimes
from queuecore._runners import queue_runner
from queuecore._runners.coordinator import Coordinator, check_types
from queuecore.errors import CancelledError, OutOfRangeError, QueueCoreError
from queuecore.tf1._graph.graph import GraphKeys, default_session, get_default_graph
from queuecore.tf1._graph.session import Session
from queuecore.tf1._graph.values import string
from queuecore.tf1._input.lowering import Lowered, lowered
from queuecore.tf1._input.queues import QueueBase
from queuecore.tf1._protos.summaries import Summary

__all__ = ["QueueRunner", "add_queue_runner", "fill", "lowering_report", "start_queue_runners"]

# Of one queue runner.
_MOST_THREADS = 1 << 16


class _Core(queue_runner.QueueRunner):
    def __init__(self, shown: str, sess: Session, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._shown = shown
        self._sess = sess

    @property
    def name(self) -> str:
        """The queue's name in the graph."""
        return self._shown

    def _failed(self, error: BaseException, coord: Coordinator | None, round_: Any) -> None:
        if coord is None and isinstance(error, CancelledError) and self._sess.is_closed:
            self._exceptions.append(error)  # nobody is left to hear of it
        else:
            super()._failed(error, coord, round_)


class QueueRunner:
    """Threads that run enqueue operations in a session until the data ends, the coordinator stops, or one fails.

    Parameters
    ----------
    queue : QueueBase
    enqueue_ops : list of Operation or Tensor
        Each gets a thread. ``[op] * 4``: four threads.
    close_op, cancel_op : Operation, optional
        Run at the end of the data, and at the coordinator's stop. Default: ``queue.close()``, and
        ``queue.close(cancel_pending_enqueues=True)``.
    queue_closed_exception_types : tuple of exception classes, optional
        Errors that mean the end of the data. Default: ``(OutOfRangeError,)``.
    queue_runner_def, import_scope : optional
        What `to_proto` returned, instead of all others, and the name scope to look in.

    Raises
    ------
    ValueError, TypeError
        If there is no queue, no operation, or a type that is no such error.

    Notes
    -----
    An operation is *lowered* if all operations between a reader and the queue can be native stages: its thread runs
    a `queuecore.StageProgram`, without the GIL. `lowering_report` says which are. Errors and ends have the same
    consequences as in `queuecore.QueueRunner`.
    """

    def __init__(
        self,
        queue: QueueBase | None = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            graph = get_default_graph()
            prefix = f"{import_scope}/" if import_scope else ""
            queue = graph.get_operation_by_name(prefix + queue_runner_def.queue_name).attributes["queue"]
            enqueue_ops = [graph.as_graph_element(prefix + name) for name in queue_runner_def.enqueue_op_name]
            close_op = graph.as_graph_element(prefix + queue_runner_def.close_op_name)
            cancel_op = graph.as_graph_element(prefix + queue_runner_def.cancel_op_name)
            queue_closed_exception_types = tuple(queue_runner_def.queue_closed_exception_types)
        if queue is None or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        if queue_closed_exception_types is None:
            queue_closed_exception_types = (OutOfRangeError,)
        else:
            check_types(queue_closed_exception_types, "queue_closed_exception_types", QueueCoreError)
            if not queue_closed_exception_types:
                raise TypeError("queue_closed_exception_types, when provided, must be a tuple of tf.error types")
        self._queue = queue
        self._ops = list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._closed_types: tuple[type[BaseException], ...] = queue_closed_exception_types
        self._last: _Core | None = None

    @property
    def queue(self) -> QueueBase:
        """The queue that is filled."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """The operations, one for each thread."""
        return self._ops

    @property
    def close_op(self) -> Any:
        """The operation that is run at the end of the data."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """The operation that is run when the coordinator stops."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[BaseException], ...]:
        """The errors that mean the end of the data."""
        return self._closed_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """The errors of the latest threads, if they had no coordinator to report to."""
        return [] if self._last is None else self._last.exceptions_raised

    def stats(self) -> dict[str, int]:
        """Return where the time of the threads last made goes; see `queuecore.QueueRunner.stats`."""
        return WorkTimes().stats() if self._last is None else self._last.stats()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

    def create_threads(
        self, sess: Session, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Make the threads that run in a session: see `queuecore.QueueRunner.create_threads`.

        Parameters
        ----------
        sess : Session
        coord : Coordinator, optional
        daemon, start : bool, default False

        Returns
        -------
        list of threading.Thread
            Empty while threads of this session have not ended yet.
        """
        core: _Core = sess.resource(("runner", self), lambda: self._core(sess))
        self._last = core
        sess.note_started(self._queue)
        return core.create_threads(coord, daemon, start)

    def _core(self, sess: Session) -> _Core:
        ops: list[Any] = []
        for op in self._ops:
            found = lowered(op)
            ops.append(found.program(sess) if isinstance(found, Lowered) else _call(sess, op))
            ops[-1].__name__ = getattr(op, "name", str(op))
        close, cancel = _call(sess, self._close_op), _call(sess, self._cancel_op)
        return _Core(self.name, sess, self._queue.of(sess), ops, close, cancel, self._closed_types)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return a description by names, of which `from_proto` makes the runner in a graph with the same names."""
        from queuecore.tf1._protos.queue_runner import QueueRunnerDef

        def shown(name: str) -> str:
            scope = f"{export_scope}/" if export_scope else ""
            return name.removeprefix(scope)

        return QueueRunnerDef(
            shown(self._queue.name),
            [shown(one.name) for one in self._ops],
            shown(self._close_op.name),
            shown(self._cancel_op.name),
            list(self._closed_types),
        )

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """Return the runner that a description stands for."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def _fail(error: Exception) -> NoReturn:
    raise error


def _call(sess: Session, op: Any) -> Callable[[], Any]:
    try:
        run = sess.make_callable(op)
    except (TypeError, ValueError) as error:
        run = functools.partial(_fail, error)  # where the thread reports it

    def call() -> Any:
        try:
            return run()
        except RuntimeError as error:
            if sess.is_closed and not isinstance(error, QueueCoreError):
                raise CancelledError("the session was closed") from error
            raise

    return call


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add a runner to a collection of the default graph, from which `start_queue_runners` starts them."""
    get_default_graph().add_to_collection(collection, qr)


def fill(
    queue: QueueBase, ops: list[Any], copies: int = 1, cancel_op: Any = None, summary: bool | str = False,
    close_op: Any = None,
) -> None:  # fmt: skip
    """Add a runner that fills a queue by these operations, each in so many threads; `start_queue_runners` starts it.

    `summary`: whether there is a summary of how full the queue is, or the summary's name.

    Raises
    ------
    ValueError
        If there would be too many threads.
    """
    if copies > _MOST_THREADS:
        raise ValueError(f"num_threads must be at most {_MOST_THREADS}, not {copies}")
    add_queue_runner(QueueRunner(queue, ops * copies, close_op, cancel_op))
    if not summary or queue.capacity <= queue.kept:
        return
    span = queue.capacity - queue.kept
    over = f"over_{queue.kept}_of" if queue.kept else "of"
    name = summary if isinstance(summary, str) else f"fraction_{over}_{queue.capacity}_full"

    def kernel(run: Any) -> bytes:
        share = max(0, queue.of(run.session).size() - queue.kept) / span
        made = Summary()
        made.value.add(tag=op.name, simple_value=share)
        return made.SerializeToString()

    op = queue.graph.create_op("ScalarSummary", [], [(string, ())], kernel, name)
    queue.graph.add_to_collection(GraphKeys.SUMMARIES, op.outputs[0])


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Make the threads of all runners of a collection of the session's graph, and start them.

    Parameters
    ----------
    sess : Session, optional
        Default: the default one.
    coord : Coordinator, optional
    daemon, start : bool, default True
    collection : str

    Returns
    -------
    list of threading.Thread

    Raises
    ------
    ValueError
        If there is no session.
    TypeError
        If it is none.

    Warns
    -----
    RuntimeWarning
        If the collection is empty.
    """
    if sess is None:
        sess = default_session()
        if sess is None:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass "
                "sess"
            )
    if not isinstance(sess, Session):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    runners = sess.graph.get_collection(collection)
    if not runners:
        warn("`tf.train.start_queue_runners()` was called when no queue runners were defined.", 2)
    return [thread for one in runners for thread in one.create_threads(sess, coord, daemon, start)]


class Entry:
    """One operation of a runner, in a `lowering_report`.

    Attributes
    ----------
    queue, op : str
        Names.
    lowered : bool
        Whether a native program runs in its place.
    reason : str
        The operation that forbids it, in words.
    """

    def __init__(self, queue: str, op: str, reason: str) -> None:
        self.queue = queue
        self.op = op
        self.lowered = not reason
        self.reason = reason

    def __repr__(self) -> str:
        """Return it in a line."""
        return f"{self.queue}: {self.op}: {'lowered' if self.lowered else 'not lowered: ' + self.reason}"


def lowering_report(graph: Any = None) -> list[Entry]:
    """Report for each operation of each runner of a graph whether a native program runs in its place, or why not.

    Parameters
    ----------
    graph : Graph, optional
        Default: the default one.

    Returns
    -------
    list of Entry
        One for each different operation; printed, a line each.
    """
    report = []
    for runner in (graph or get_default_graph()).get_collection(GraphKeys.QUEUE_RUNNERS):
        for op in dict.fromkeys(runner.enqueue_ops):
            found = lowered(op)
            report.append(Entry(runner.name, op.name, "" if isinstance(found, Lowered) else found))
    return report
