"""Bad records and files that are left out: the rule for them, their counts, and their log."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Iterable
from typing import Any, SupportsIndex

from queuecore._io.names import local_text
from queuecore.errors import (
    DataLossError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    PermissionDeniedError,
    PipelineError,
    QueueCoreError,
    RecordTooLargeError,
    UnavailableError,
    os_error,
)

__all__ = ["Quarantine", "Told", "check_on_error", "is_bad_data"]

_BAD_DATA = (
    DataLossError,
    InvalidArgumentError,
    RecordTooLargeError,
    NotFoundError,
    PermissionDeniedError,
    NotAFileError,
)
# Errors of the system that concern a name, not the system. None: the name is a pipe or a device, no file.
_BAD_NAMES = (None, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO)
# Errors that concern the system itself, when a user's function meets them.
_BAD_MACHINE = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.ESTALE)
_MOST_LETTERS = 2000
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def is_bad_data(error: BaseException) -> bool:
    """Return whether an error is the fault of a record or a file, and so one that may be left out.

    The faults of the machine are not: failed reads, too many open files, no memory. Nor are they if a function of the
    user's met them; and what it meets in queuecore itself, a closed queue for example, counts as that.
    """
    if isinstance(error, PipelineError):
        cause = error.__cause__
        if isinstance(cause, QueueCoreError):
            return is_bad_data(cause)
        return not isinstance(cause, MemoryError) and getattr(cause, "errno", None) not in _BAD_MACHINE
    return isinstance(error, _BAD_DATA) or (isinstance(error, UnavailableError) and error.errno in _BAD_NAMES)


def check_on_error(on_error: Any, max_skips: Any, quarantine: Any) -> Quarantine | None:
    """Return the quarantine that the options ask for; `None`: errors are raised."""
    if on_error not in ("raise", "skip"):
        raise InvalidArgumentError(f'on_error must be "raise" or "skip", not {on_error!r}')
    if on_error == "skip":
        return Quarantine(quarantine, max_skips)
    for what, value in (("max_skips", max_skips), ("quarantine", quarantine)):
        if value is not None:
            raise InvalidArgumentError(f'{what} is of use only with on_error="skip"')
    return None


class Quarantine:
    r"""Counts what is left out, and logs it. Any thread may call any method at any time.

    Parameters
    ----------
    path : path, optional
        Of the log, which is appended to: a JSON object on a line for each record or file that is left out. It has
        ``path``, ``offset`` and ``record`` (null where unknown), ``reason`` (the error's class), ``message``, ``file``
        (whether it is a file, or the rest of one) and ``bytes`` (how many are left out, or null). Text is ASCII: bytes
        of a path that are no UTF-8 are escapes from ``\udc80`` to ``\udcff``, which `json.loads` and `os.fsencode`
        turn back into them.
    max_skips : int, optional
        How many records and files may be left out.

    Raises
    ------
    InvalidArgumentError
        If `max_skips` is no number from 0 on, or `path` no path.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If the log can't be written there: to a pipe that nobody reads, for example.
    """

    def __init__(self, path: Path | None = None, max_skips: SupportsIndex | None = None) -> None:
        if max_skips is not None:
            if isinstance(max_skips, bool) or not hasattr(max_skips, "__index__") or max_skips.__index__() < 0:
                raise InvalidArgumentError(f"max_skips must be an integer from 0 on, or None, not {max_skips!r}")
            max_skips = max_skips.__index__()
        # Whether the reader is told of elements that can't be made, so that only files are left out here.
        self.tells = False
        self._most = max_skips
        self._path = None if path is None else _writable(path)
        # Held for a few additions only, and never for reading: a signal handler or a forked child may read.
        self._lock = threading.Lock()
        self._counts = (0, 0, 0)  # records, files, bytes

    @property
    def path(self) -> str | None:
        """The log's path, from the root on."""
        return self._path

    @property
    def max_skips(self) -> int | None:
        """The number of records and files that may be left out."""
        return self._most

    def check_apart(self, paths: Iterable[bytes | str]) -> None:
        """Refuse a log that is one of the files to be read, under whatever name.

        Raises
        ------
        InvalidArgumentError
            If it is.
        """
        log = None if self._path is None else _identity(self._path)
        for path in () if log is None else paths:
            if _identity(path) == log:
                raise InvalidArgumentError(
                    f"quarantine: {self._path!r} is a file of the data ({os.fsdecode(path)!r}), to which the log would "
                    "be appended. Name another file"
                )

    def counts(self) -> dict[str, int]:
        """Return how many records were left out, how many files (or rests of them), and how many bytes that were.

        Unknown bytes don't count: those of a file that can't be opened, and of the rest of a compressed one.
        """
        return dict(zip(("skipped", "skipped_files", "skipped_bytes"), self._counts, strict=True))

    def skip(self, error: QueueCoreError, *, file: bool = False, nbytes: int | None = None) -> None:
        """Leave out the record or file that an error is about.

        Parameters
        ----------
        error : QueueCoreError
            The error, with its place.
        file : bool, default False
            Whether a file, or the rest of one, is left out instead of one record.
        nbytes : int, optional
            The bytes that are left out.

        Raises
        ------
        QueueCoreError
            The error itself: if it is not the fault of the data (`is_bad_data`), or there were `max_skips` before it.
        UnavailableError and others
            If the log can't be written: then nothing is left out. It names the log, and `error` is its ``__cause__``
            and ``__context__``.
        """
        if not is_bad_data(error):
            raise error
        if error.path is not None:
            self.check_apart([error.path])
        if not self._count(1, file, nbytes):
            error.add_note(f"max_skips={self._most} records and files were left out before this one")
            raise error
        if self._path is None:
            return
        try:
            self._log(self._path, error, file, nbytes)
            return
        except OSError as failed:
            number = failed.errno or errno.EIO
        self._count(-1, file, nbytes)
        unwritten = _unwritable(self._path, number)
        # The cause, too: an exception that is handled meanwhile becomes the context.
        unwritten.__context__ = error
        raise unwritten from error

    def _count(self, step: int, file: bool, nbytes: int | None) -> bool:
        # Counts one more, or takes one back. False: the limit was reached.
        with self._lock:
            records, files, total = self._counts
            if step > 0 and self._most is not None and records + files >= self._most:
                return False
            self._counts = (records + step * (not file), files + step * file, total + step * (nbytes or 0))
        return True

    def _log(self, path: str, error: QueueCoreError, file: bool, nbytes: int | None) -> None:
        line = json.dumps(
            {
                "path": error.path,
                "offset": error.offset,
                "record": error.record,
                "reason": type(error).__name__,
                "message": str(error)[:_MOST_LETTERS],
                "file": file,
                "bytes": nbytes,
            }
        )
        data = line.encode() + b"\n"
        # Anew for each line: so it may be moved away meanwhile, and nothing is left open. One write at the end of the
        # file: lines of several processes don't mix. One that is cut short is tried again for its error. A pipe that
        # nobody reads is an error too, and not waited for.
        log = os.open(path, _APPEND | os.O_CREAT, 0o666)
        try:
            while data:
                data = data[os.write(log, data) :]
        finally:
            os.close(log)


class Told(Quarantine):
    """Gets what is left out below somebody who leaves elements out himself: files alone, which another one counts."""

    def __init__(self, above: Quarantine) -> None:
        super().__init__()
        self.tells = True
        self._above = above

    def check_apart(self, paths: Iterable[bytes | str]) -> None:
        self._above.check_apart(paths)

    def skip(self, error: QueueCoreError, *, file: bool = False, nbytes: int | None = None) -> None:
        self._above.skip(error, file=file, nbytes=nbytes)


def _writable(path: Any) -> str:
    """Return a path from the root on, at which a file can be written, as far as can be seen without making one."""
    try:
        name = local_text(path)
    except TypeError as error:
        raise InvalidArgumentError(f"quarantine must be a path, not {path!r}") from error
    full = os.path.abspath(name)
    if not name or "\0" in full:
        raise InvalidArgumentError(f"quarantine: {path!r} can't be the name of a file")
    if os.path.isdir(full):
        raise _unwritable(full, errno.EISDIR)
    if os.path.exists(full):
        if not os.access(full, os.W_OK):
            raise _unwritable(full, errno.EACCES)
        if not stat.S_ISREG(os.stat(full).st_mode):
            try:
                os.close(os.open(full, _APPEND))
            except OSError as error:
                raise _unwritable(full, error.errno or errno.EIO) from None
        return full
    folder = os.path.dirname(full)
    if not os.path.isdir(folder):
        raise _unwritable(full, errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(full, errno.EACCES)
    return full


def _identity(path: bytes | str) -> tuple[int, int] | None:
    """Return what tells an ordinary file from all others, whatever its name; `None`: there is none."""
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return None
    return (info.st_dev, info.st_ino) if stat.S_ISREG(info.st_mode) else None


def _unwritable(path: str, number: int) -> QueueCoreError:
    return os_error(
        number,
        f"cannot write the quarantine log {path!r}: ",
        ". Make room for it and let it be written, or name another file (quarantine=...)",
        path=path,
        stage="quarantine",
    )
