"""Traces: what each native thread of an iterator does and when, as a file for Perfetto and Chrome.

The format is Chrome's Trace Event Format, an array of events: slices (``X``), flows (``s``, ``t``, ``f``), counters
(``C``) and names (``M``); times are in microseconds of the monotonic clock.
"""

from __future__ import annotations

import atexit
import contextlib
import heapq
import json
import multiprocessing
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self

from queuecore._core.atoms.timeline import Timeline
from queuecore._io.names import Filename, local_file_to_write
from queuecore._io.record_file import RecordFile
from queuecore._observe.labels import WORK
from queuecore._observe.nvtx import range_functions
from queuecore._runners.threads import start_thread
from queuecore.errors import shown_name

__all__ = ["Trace", "TracedStream", "program_trace"]

# Kinds of events, behind those of `WORK` (`_core/atoms/timeline.pxd`, `_core/stream/meter.pxd`).
_INPUT, _OUTPUT, _PART, _TAKEN, _COPY = 6, 7, 8, 9, 10
_OPEN, _READ = WORK.index("open files"), WORK.index("read")
_WAITS = {_INPUT: "wait for input", _OUTPUT: "wait for room"}

# Seconds between two looks at what the threads have noted. A ring of theirs has room for 4,096 events.
_PERIOD = 0.02

# Blocks of a file, and batches, that a flow may still lead on from.
_MANY = 4096

_Event = dict[str, Any]


class NameTable(Protocol):
    """The names of files, by their numbers."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> bytes: ...


_Naming = Callable[[NameTable, int], str]


class TracedStream(Protocol):
    """A stream whose threads can note what they do: `queuecore.data._nodes.stream.ChainStream`."""

    @property
    def closed(self) -> bool: ...
    @property
    def names(self) -> NameTable: ...
    def trace(self, on: bool, ranges: tuple[int, int] = (0, 0)) -> Timeline: ...


class _File(RecordFile):
    """The file of a trace: an array of events, of which all but the first follow a comma."""

    def __init__(self, path: Filename) -> None:
        super().__init__(local_file_to_write(path), None, b"[")  # at exit, fsspec's own threads may have ended
        self._first = True

    def write(self, events: Iterable[_Event]) -> None:
        """Write events."""
        for event in events:
            self._append(1, b"\n" if self._first else b",\n", json.dumps(event, separators=(",", ":")).encode())
            self._first = False

    def end(self) -> None:
        """Write the end of the array."""
        self._append(0, b"\n]\n")


class _Rows:
    """The rows of a stage's streams. Streams that follow one another share them."""

    def __init__(self, group: int, name: str) -> None:
        self.group = group
        self._name = name
        self._free: dict[int, list[int]] = {}
        self._count = 0
        self._copies: set[int] = set()

    def take(self, threads: int) -> tuple[int, list[_Event]]:
        """Return the number of the first of so many free rows, and the events that name them."""
        if free := self._free.get(threads):
            return heapq.heappop(free), []
        first, self._count = self._count, self._count + threads
        names = ["consumer", *(f"reader {i}" for i in range(1, threads - 1))]
        events = [] if first else [self._naming("process_name", 0, name=self._name)]
        if not first:
            events.append(self._naming("process_sort_index", 0, sort_index=self.group))
        for tid, name in enumerate(names, first):
            events += self._row(tid, name)
        return first, events

    def copies(self, tid: int) -> list[_Event]:
        """Return the events that name a row of copies, the first time."""
        if tid in self._copies:
            return []
        self._copies.add(tid)
        return self._row(tid, "copies to the device")

    def _row(self, tid: int, name: str) -> list[_Event]:
        return [
            self._naming("thread_name", tid, name=name),
            self._naming("thread_sort_index", tid, sort_index=tid),
        ]

    def _naming(self, what: str, tid: int, **arguments: Any) -> _Event:
        return {"name": what, "ph": "M", "pid": self.group, "tid": tid, "args": arguments}

    def give(self, first: int, threads: int) -> None:
        """Let another stream have these rows."""
        heapq.heappush(self._free.setdefault(threads, []), first)


class _Followed:
    """A stream that is drawn, and the flows that its events may lead on."""

    def __init__(self, stream: TracedStream, number: int, rows: _Rows, name_of: _Naming) -> None:
        self.stream = weakref.ref(stream)
        self.timeline = stream.trace(True, range_functions())
        self._names = stream.names
        self._name_of = name_of
        self._number = number
        self.rows = rows
        self.first, self.names = rows.take(self.timeline.threads)
        self._blocks: dict[tuple[int, ...], None] = {}
        self._batches: dict[tuple[int, int], None] = {}

    @property
    def over(self) -> bool:
        """True if no more is noted."""
        stream = self.stream()
        return stream is None or stream.closed

    def events(self) -> list[_Event]:
        """Return the events since the last call."""
        # By the time at which they began: a flow is begun before it is led on.
        taken = sorted(self.timeline.take(), key=lambda one: one[2])
        return [event for one in taken for event in self._drawn(*one)]

    def _drawn(self, thread: int, kind: int, begin: int, end: int, *more: int) -> Iterator[_Event]:
        run, file, position, pass_, batch, size = more
        place = {"pid": self.rows.group, "tid": self.first + thread, "ts": begin / 1000}
        if kind == _PART:
            # Inside of the slice that follows, which begins at this time.
            if file >= 0:
                yield from self._flow(self._blocks, "block", (run, file, position, pass_), place, begins=False)
            yield from self._flow(self._batches, "batch", (run, batch), place)
            return
        arguments: dict[str, Any] = {}
        if 0 <= file < len(self._names):
            arguments["file"] = self._name_of(self._names, file)
        if kind in _WAITS:
            name = "wait for a batch" if thread == 0 else _WAITS[kind]
        elif kind == _TAKEN:
            name = f"batch {batch}"
            arguments |= {"batch": batch, "rows": size}
            yield {"name": "batches ready", "ph": "C", **place, "args": {"ready": position}}
        elif kind == _COPY:
            yield from self.rows.copies(self.first + thread)
            name = "copy"
            arguments |= {"batch": batch, "bytes": size}
        elif kind == _READ:
            name = WORK[kind]
            arguments |= {"offset": position, "bytes": size}
        else:
            name = WORK[kind]
            if kind != _OPEN:
                arguments["rows"] = size
        yield {"name": name, "ph": "X", **place, "dur": (end - begin) / 1000, "args": arguments}
        if kind == _READ:
            yield from self._flow(self._blocks, "block", (run, file, position, pass_), place)
        elif kind in (_COPY, _TAKEN):
            yield from self._flow(self._batches, "batch", (run, batch), place, begins=False)

    def _flow(
        self, flows: dict[Any, None], name: str, key: tuple[int, ...], place: _Event, begins: bool = True
    ) -> Iterator[_Event]:
        if not begins and key not in flows:
            return  # its beginning has found no room, or came before the trace
        phase = "t" if key in flows else "s"
        if phase == "s":
            flows[key] = None
            if len(flows) > _MANY:
                del flows[next(iter(flows))]
        number = "/".join(map(str, (self._number, *key)))
        yield {"name": name, "cat": name, "ph": phase, "id": number, "bp": "e", **place}


class Trace:
    """A timeline of an iterator's threads that is drawn to a file: see `Iterator.trace`.

    A thread of Python's, ``qc-trace``, writes what the others note. It is a context manager that closes itself.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        The file.
    mask : bool
        Whether the events name files by their numbers alone.
    of : ChainStream, optional
        Closes the trace when it is closed, or gone.
    """

    def __init__(self, path: Filename, mask: bool, of: TracedStream | None = None) -> None:
        self._mask = mask
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._gone = threading.Event()
        self._of = None if of is None else weakref.ref(of)
        self._followed: list[_Followed] = []
        self._rows: dict[tuple[int, str], _Rows] = {}
        self._streams = 0
        self._dropped = 0
        self._failure: BaseException | None = None
        self._file = _File(path)
        try:
            start_thread("qc-trace", self._work, broke=self._broke)
        except BaseException:
            self._file.close()
            raise
        atexit.register(self.close)

    @property
    def closed(self) -> bool:
        """True if no more is written."""
        return self._ended.is_set() or self._pid != os.getpid()

    def is_of(self, stream: TracedStream) -> bool:
        """Return whether it is this stream's own trace, and not yet closed."""
        return not self.closed and self._of is not None and self._of() is stream

    def close_for(self, stream: TracedStream) -> None:
        """Close it if it is this stream's own."""
        if self._of is not None and self._of() is stream:
            self.close()

    def follow(self, stream: TracedStream, stage: str, level: int) -> None:
        """Draw what a stream's threads do from now on, in the rows of this stage and level."""
        with self._failing(), self._lock:
            if self.closed or any(one.stream() is stream for one in self._followed):
                return
            self._end_those([one for one in self._followed if one.over])  # their rows are free
            rows = self._rows.get((level, stage))
            if rows is None:
                rows = self._rows[level, stage] = _Rows(len(self._rows) + 1, f"{stage}, level {level}")
            followed = _Followed(stream, self._streams, rows, self._name_of)
            self._streams += 1
            self._followed.append(followed)
            self._file.write(followed.names)

    def leave(self, stream: TracedStream) -> None:
        """Draw no more of a stream."""
        with self._failing(), self._lock:
            self._end_those([one for one in self._followed if one.stream() is stream])

    @contextlib.contextmanager
    def _failing(self) -> Generator[None]:
        # An error ends the trace, and not the work that is drawn.
        try:
            yield
        except Exception as error:
            self._failure = self._failure or error
            self._ended.set()

    def close(self) -> None:
        """Write what is left, and close the file. Closing twice is no error.

        Raises
        ------
        QueueCoreError
            If the file could not be written.
        """
        if self._pid != os.getpid():
            return
        self._ended.set()
        self._gone.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        """Return this trace."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _name_of(self, names: NameTable, file: int) -> str:
        return f"file {file}" if self._mask else shown_name(names[file])

    def _work(self) -> None:
        try:
            while not self._ended.wait(_PERIOD) and not self._is_over():
                self._draw()
        except BaseException as error:
            self._failure = error
        finally:
            self._finish()

    def _is_over(self) -> bool:
        if self._of is None:
            return False
        stream = self._of()
        return stream is None or stream.closed

    def _broke(self, error: BaseException) -> None:
        self._failure = error
        self._finish()

    def _draw(self) -> None:
        with self._lock:
            over = [one for one in self._followed if one.over]
            for one in self._followed:
                self._file.write(one.events())
            self._end_those(over)
            self._file.flush()

    def _end_those(self, some: list[_Followed]) -> None:
        for followed in some:
            stream = followed.stream()
            if stream is not None:
                stream.trace(False)
            self._file.write(followed.events())
            self._dropped += followed.timeline.dropped
            followed.rows.give(followed.first, followed.timeline.threads)
        self._followed = [followed for followed in self._followed if followed not in some]

    def _finish(self) -> None:
        try:
            self._ended.set()
            with self._lock:
                self._end_those(self._followed)
                note = {"name": "events dropped", "ph": "M", "pid": 0, "tid": 0, "args": {"count": self._dropped}}
                self._file.write([note])
                self._file.end()
        except BaseException as error:
            self._failure = self._failure or error
        try:
            self._file.close()
        except BaseException as error:
            self._failure = self._failure or error
        atexit.unregister(self.close)
        self._gone.set()


_program: Trace | None = None
_making = threading.Lock()


def program_trace() -> Trace | None:
    """Return the trace of the whole program; `None` if ``QUEUECORE_TRACE`` asks for none."""
    global _program
    path = os.environ.get("QUEUECORE_TRACE")
    if not path:
        return None
    with _making:
        if _program is None or _program._pid != os.getpid():
            # Processes that this one starts would write to the same file.
            first = _program is None and multiprocessing.parent_process() is None
            stem, suffix = os.path.splitext(path)
            mask = os.environ.get("QUEUECORE_TRACE_MASK", "") not in ("", "0")
            _program = Trace(path if first else f"{stem}.{os.getpid()}{suffix}", mask)
        return None if _program.closed else _program
