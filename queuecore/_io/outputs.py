"""Files that are written from their beginning to their end, as `RecordFile` writes them: local ones, and URLs.

Both have the same few functions. They differ in what others see: a local file grows as it is written, and keeps what it
has; a URL has the whole file once it is closed, and before that, or after a failure, nothing of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from queuecore._io import remote
from queuecore.errors import FailedPreconditionError, shown_name

__all__ = ["OutputFile", "output_of"]

Part = bytes | bytearray | memoryview


class OutputFile(Protocol):
    """A file that is being written; for one thread at a time.

    Attributes
    ----------
    keeps : bool
        Whether what was written is there before the file is closed, and stays whatever happens.
    """

    keeps: ClassVar[bool]

    def write(self, parts: Sequence[Part]) -> None:
        """Add bytes. Raises `OSError`: nobody knows how many of them the file has now; it can only be cut."""

    def cut(self, nbytes: int) -> None:
        """Leave no more than so many bytes of the file, after a failure. Raises nothing."""

    def close(self) -> None:
        """End the file; called once. Raises `OSError`."""


class _LocalFile:
    """A file of this machine."""

    keeps: ClassVar[bool] = True

    def __init__(self, path: bytes) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def write(self, parts: Sequence[Part]) -> None:
        views = [memoryview(part) for part in parts if len(part)]
        while views:
            done = os.writev(self._fd, views)
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if done:
                views[0] = views[0][done:]

    def cut(self, nbytes: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, nbytes)

    def close(self) -> None:
        os.close(self._fd)


class _RemoteFile:
    """A file of fsspec's, which sends it in blocks."""

    keeps: ClassVar[bool] = False

    def __init__(self, path: bytes, store: remote.RemoteStore | None) -> None:
        self._path, self._store = path, store
        self._file: Any = remote.writable(path, store)
        self._process = os.getpid()
        self._open = True

    def write(self, parts: Sequence[Part]) -> None:
        self._check_process()
        with remote.as_os_error(self._path, self._store):
            for part in parts:
                if len(part):
                    self._file.write(part)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise FailedPreconditionError(
                f"the writer of {shown_name(self._path)!r} is of the process that this one was forked from. Make one "
                "here, for a file of its own",
                path=self._path,
            )

    def cut(self, nbytes: int) -> None:
        del nbytes
        if not self._open:
            return
        self._open = False
        # After a fork the file is the parent's; and while Python ends, fsspec's threads answer nobody any more.
        if self._process == os.getpid() and not sys.is_finalizing():
            with contextlib.suppress(Exception):
                self._file.discard()
        with contextlib.suppress(Exception):
            self._file.closed = True  # so that it doesn't end itself when it is collected
        self._file = None

    def close(self) -> None:
        if not self._open:
            return
        self._check_process()
        try:
            with remote.as_os_error(self._path, self._store):
                self._file.close()
                self._file.commit()
        except BaseException:
            self.cut(0)
            raise
        self._open, self._file = False, None


def output_of(path: bytes, store: remote.RemoteStore | None) -> OutputFile:
    """Return a new file by its name, as `file_to_write` returns it; a file that is there is replaced.

    Raises
    ------
    OSError
        If it can't be opened.
    UnimplementedError
        If it is a URL, and what reads it can't write it.
    """
    return _RemoteFile(path, store) if remote.is_url(path) else _LocalFile(path)
