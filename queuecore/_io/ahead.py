"""Reads ahead of a remote file: ranges that follow each other are asked for early, in larger requests, side by side.

Native threads read a file in pieces of some 100 KB, several at a time, and not quite in order; a store answers after
milliseconds, whatever is asked for. So a range that begins where an earlier one ended is asked for together with what
follows it: twice as many bytes each time, up to 4 MiB, and further such ranges by threads of their own, up to 32 MiB
ahead. Any other range is asked for as it is: records in a random order cost no more than their bytes.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

__all__ = ["AheadReader"]

# Most bytes of a request; how many requests are under way or wait to be read, and their bytes.
_MOST_BYTES = 4 << 20
_REQUESTS = 8
_WINDOW_BYTES = 32 << 20
# What all files of a process may read ahead.
_ALL_BYTES = 256 << 20
# How many ends of ranges are known, and how many ranges are kept that nobody has read to their end.
_MOST_ENDS, _MOST_KEPT = 32, 24
# After how many ranges that follow each other others are begun before their turn: two that do so by chance are rare.
_SURE = 2
# The first range of a file is asked for as if one of so many bytes had ended there.
_FIRST_BYTES = 256 << 10

_readers: weakref.WeakSet[AheadReader] = weakref.WeakSet()


class _Range:
    __slots__ = ("data", "done", "followed", "start", "stop", "unread")

    def __init__(self, start: int, stop: int, followed: int) -> None:
        self.start, self.stop, self.followed = start, stop, followed
        self.unread = stop - start
        self.data: bytes | None = None  # also `None` if the request failed
        self.done = threading.Event()


class AheadReader:
    """The ranges of one file that are under way, or here and not read yet. Any thread.

    Parameters
    ----------
    size : int
        Bytes of the file.
    fetch : callable
        Gets a range: from its two ends to bytes.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch = size, fetch
        self._lock = threading.Lock()
        self._ranges: list[_Range] = []
        # Where a range ended, how many others it followed, and its bytes; the oldest first.
        self._ends: dict[int, tuple[int, int]] = {0: (0, _FIRST_BYTES)}
        _readers.add(self)

    def read(self, offset: int, end: int) -> bytes | memoryview:
        """Return a range, which is within the file. Raises what its request raises; waits for it."""
        parts = []
        while offset < end:
            begun: list[_Range] = []
            try:
                with self._lock:
                    found = next((known for known in self._ranges if known.start <= offset < known.stop), None)
                    current = found or self._begin(offset, end - offset, begun)
                    self._begin_ahead(current, begun)
                for later in begun[found is None :]:
                    self._start(later)
                if found is None:
                    self._get(current)
            except BaseException:
                for later in begun:  # nobody may wait for them
                    self._give_up(later)
                raise
            current.done.wait()
            if current.data is None:  # the request of another thread failed: this one's error belongs here
                continue
            part = memoryview(current.data)[offset - current.start : end - current.start]
            parts.append(part)
            offset += len(part)
            with self._lock:
                current.unread -= len(part)
                if current.unread <= 0:
                    self._drop(current)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _begin(self, offset: int, nbytes: int, begun: list[_Range]) -> _Range:
        # Under the lock. The range is in the caller's list before anybody can find it.
        followed, before = self._ends.pop(offset, (-1, 0))
        most = min(_MOST_BYTES, max(self._room() // _REQUESTS, _FIRST_BYTES))
        behind = min((known.start for known in self._ranges if known.start > offset), default=self._size)
        stop = min(offset + min(max(nbytes, 2 * before), most), behind)
        begun.append(_Range(offset, stop, followed + 1))
        self._ranges.append(begun[-1])
        self._ends[stop] = followed + 1, stop - offset
        while len(self._ends) > _MOST_ENDS:
            del self._ends[next(iter(self._ends))]
        if len(self._ranges) > _MOST_KEPT:
            kept = next((known for known in self._ranges if known.done.is_set()), None)
            if kept is not None:
                self._drop(kept)
        return begun[-1]

    def _begin_ahead(self, current: _Range, begun: list[_Range]) -> None:
        # Under the lock.
        if current.followed < _SURE:
            return
        window = min(_REQUESTS * (current.stop - current.start), _WINDOW_BYTES, self._room())
        known = {begins.start: begins for begins in self._ranges}
        front = current.stop
        while front < min(self._size, current.stop + window):
            following = known.get(front) or self._begin(front, current.stop - current.start, begun)
            front = following.stop

    def _room(self) -> int:
        return _ALL_BYTES // max(1, len(_readers))

    def _get(self, wanted: _Range) -> None:
        wanted.data = self._fetch(wanted.start, wanted.stop)
        wanted.done.set()

    def _start(self, wanted: _Range) -> None:
        try:
            threading.Thread(target=self._try, args=(wanted,), name="qc-remote-ahead", daemon=True).start()
        except RuntimeError:  # no thread: who comes to this range asks for it
            self._give_up(wanted)

    def _try(self, wanted: _Range) -> None:
        try:
            self._get(wanted)
        except BaseException:  # who comes to this range asks for it again, and gets the error
            self._give_up(wanted)

    def _give_up(self, wanted: _Range) -> None:
        with self._lock:
            self._drop(wanted)
        wanted.done.set()

    def _drop(self, read: _Range) -> None:
        if read in self._ranges:
            self._ranges.remove(read)
