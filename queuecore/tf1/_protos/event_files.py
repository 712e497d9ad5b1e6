"""Writers of files of events: TensorBoard's, where its package is installed."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, ClassVar, Self

from queuecore._checks.warnings import warn
from queuecore._io.names import local_text
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._protos.summaries import Event, SessionLog, Summary
from queuecore.tf1.python_io import tf_record_iterator

__all__ = ["FileWriter", "FileWriterCache", "summary_iterator"]


def _folder(logdir: Any) -> str:
    try:
        return local_text(logdir)
    except UnimplementedError:  # TensorBoard's package writes to other places too
        return str(logdir)


class FileWriter:
    """A writer of events into a file of a directory, by TensorBoard's package. Without the package it drops them.

    Parameters
    ----------
    logdir : str or os.PathLike
    graph, graph_def, session : optional
        Accepted: a graph isn't written.
    max_queue : int, default 10
        The number of events that may wait; then adding one waits.
    flush_secs : float, default 120
        Events are in the file after so many seconds at the latest.
    filename_suffix : str, optional

    Warns
    -----
    RuntimeWarning
        Once, if events are dropped, or if an event comes after the end.

    Notes
    -----
    A thread of TensorBoard's package writes. Any thread may add events.
    """

    def __init__(
        self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120, graph_def: Any = None,
        filename_suffix: str | None = None, session: Any = None,
    ) -> None:  # fmt: skip
        del graph, graph_def, session
        self._logdir = logdir
        self._arguments = (_folder(logdir), max_queue, flush_secs, filename_suffix or "")
        self._closed = False
        self._told = False
        self._seen: set[str] = set()
        self._writer: Any = None
        self._event: Any = None
        if importlib.util.find_spec("tensorboard") is None:
            self._warn("tensorboard isn't installed: summaries are taken, and dropped. pip install tensorboard")
        else:
            self._open()

    def _warn(self, text: str) -> None:
        if not self._told:
            self._told = True
            warn(text, 3)

    def _open(self) -> None:
        writers = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._writer = writers.EventFileWriter(*self._arguments)

    def get_logdir(self) -> Any:
        """Return the directory."""
        return self._logdir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a summary.

        Parameters
        ----------
        summary : bytes or Summary
            What a run returned for `merge_all`, or a message.
        global_step : int, optional
            The step that it tells of.

        Raises
        ------
        ProtoError
            If the bytes are no summary.
        """
        told = Summary.FromString(summary) if isinstance(summary, bytes) else summary
        event = Event(summary=told)
        for value in event.summary.value:  # metadata are written once for each tag
            if value.HasField("metadata"):
                if value.tag in self._seen:
                    value.ClearField("metadata")
                self._seen.add(value.tag)
        self._add(event, global_step)

    def add_session_log(self, session_log: SessionLog, global_step: Any = None) -> None:
        """Write what became of a session."""
        self._add(Event(session_log=session_log), global_step)

    def add_event(self, event: Event) -> None:
        """Write an event as it is."""
        if self._closed:
            self._warn("Attempting to use a closed FileWriter. The operation will be a noop unless it is reopened.")
        elif self._writer is not None:
            self._writer.add_event(self._event.FromString(event.SerializeToString()))

    def _add(self, event: Event, step: Any) -> None:
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.add_event(event)

    def add_graph(self, graph: Any = None, global_step: Any = None, graph_def: Any = None) -> None:
        """Accept a graph, which isn't written."""

    def add_meta_graph(self, meta_graph_def: Any = None, global_step: Any = None) -> None:
        """Accept a graph, which isn't written."""

    def add_run_metadata(self, run_metadata: Any = None, tag: str = "", global_step: Any = None) -> None:
        """Accept facts about a run, which aren't written. `ValueError`: the tag was given before."""
        if f"run {tag}" in self._seen:
            raise ValueError("The provided tag was already used for this event type")
        self._seen.add(f"run {tag}")

    def flush(self) -> None:
        """Wait until all events are in the file."""
        if self._writer is not None and not self._closed:
            self._writer.flush()

    def close(self) -> None:
        """Write what is left, and close the file."""
        if not self._closed:
            self._closed = True
            if self._writer is not None:
                self._writer.close()

    def reopen(self) -> None:
        """After a close, write into a new file."""
        if self._closed:
            self._closed = False
            if self._writer is not None:
                self._open()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class FileWriterCache:
    """One writer for each directory."""

    _writers: ClassVar[dict[str, FileWriter]] = {}

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """Return the writer of a directory, which the first call makes."""
        found = FileWriterCache._writers.get(str(logdir))
        if found is None:
            found = FileWriterCache._writers[str(logdir)] = FileWriter(logdir)
        return found

    @staticmethod
    def clear() -> None:
        """Close all writers, and forget them."""
        for one in FileWriterCache._writers.values():
            one.close()
        FileWriterCache._writers.clear()


def summary_iterator(path: Any) -> Iterator[Event]:
    """Iterate over the events of a file.

    Parameters
    ----------
    path : str

    Yields
    ------
    Event

    Raises
    ------
    InvalidArgumentError
        If a record is no event.
    """
    for record in tf_record_iterator(path):
        try:
            yield Event.FromString(record)
        except ValueError as error:
            raise InvalidArgumentError(f"{path}: a record is no event: {error}") from error
