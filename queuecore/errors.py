"""The exceptions that queuecore raises: one tree, rooted in `QueueCoreError`.

The trunk has TensorFlow's status classes, so that ``except`` clauses written for them keep working. Every class is also
the built-in exception that a Python user would catch: a missing file is a `FileNotFoundError`, a bad argument a
`ValueError`, a timeout a `TimeoutError`.

Every error carries where it happened, as far as that is known: `stage`, `path`, `offset` (bytes from the start of the
file) and `record` (index in the file).
"""

from __future__ import annotations

import errno as _errno
import os
import re
from typing import Any

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "ChecksumError",
    "CsvError",
    "DataLossError",
    "DeadlineExceededError",
    "DecodeError",
    "DecompressError",
    "DeviceUnavailableError",
    "DtypeError",
    "FailedPreconditionError",
    "ForkedPipelineError",
    "InternalError",
    "InvalidArgumentError",
    "NotAFileError",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "PipelineError",
    "ProtoError",
    "QueueCoreError",
    "RecordTooLargeError",
    "ResourceExhaustedError",
    "ResumeMismatchError",
    "SlotsExhaustedError",
    "SourceChangedError",
    "StallError",
    "TruncatedRecordError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]


# Between two URLs of a chain.
_CHAINED = re.compile("::(?=[A-Za-z][A-Za-z0-9+.-]+(?:://|::))")


class QueueCoreError(Exception):
    """Root of every exception that queuecore raises on purpose.

    Parameters
    ----------
    *said : str
        What went wrong; ``str(error)`` is this text. As TensorFlow's classes, it also takes three: the description
        of the operation that failed or `None`, the operation or `None`, and the text; the error's number may follow.
    message : str, optional
        The text, by name.
    node_def, op : optional
        The operation's description and the operation, by name.
    errno : int, optional
        The operating system's error number. Only classes that are an `OSError` use it: they also get `strerror` and
        `filename`.
    path : str, bytes or os.PathLike, optional
        The file concerned. Bytes that are no valid text become a string that `os.fsencode` turns back into them.
    offset : int, optional
        Place in that file, in bytes from its start.
    record : int, optional
        Index of the record in that file, from 0.
    stage : str, optional
        The part of the pipeline that failed.

    Attributes
    ----------
    path, offset, record, stage
        As given; `None` where unknown.
    node_def, op
        As given. A run of `queuecore.tf1` sets `op`, the operation that failed. `None` where unknown, after `pickle`.
    error_code : int
        The number that TensorFlow gives to errors of this class.
    """

    error_code: int = 2
    node_def: Any = None
    op: Any = None
    path: str | None
    offset: int | None
    record: int | None
    stage: str | None

    def __init__(
        self,
        *arguments: Any,
        message: str = "",
        node_def: Any = None,
        op: Any = None,
        errno: int | None = None,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
        offset: int | None = None,
        record: int | None = None,
        stage: str | None = None,
    ) -> None:
        if len(arguments) == 1:
            message = arguments[0]
        elif arguments:
            if len(arguments) > 4 or (len(arguments) == 2 and not message):
                raise TypeError(
                    f"an error is made of a text, or of node_def, op and a text, not of {len(arguments)} things"
                )
            node_def, op, message = [*arguments, message][:3]
            if len(arguments) == 4:
                self.error_code = arguments[3]
        if node_def is not None:
            self.node_def = node_def
        if op is not None:
            self.op = op
        name = None if path is None else shown_name(path)
        if path is not None and name != (whole := os.fsdecode(path)):
            message = message.replace(whole, str(name))
        if isinstance(self, OSError):
            _fill_os_fields(self, errno, message, name)
        else:
            super().__init__(message)
        self.args = (message,)
        self.path = name
        self.offset = offset
        self.record = record
        self.stage = stage

    @property
    def message(self) -> str:
        """The text of the error, as in TensorFlow's error classes."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        """Return the text of the error."""
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Support `pickle` and `copy`."""
        # The default would call the class with positional arguments, and OSError's own with (errno, strerror).
        known: dict[str, Any] = {"path": self.path, "offset": self.offset, "record": self.record, "stage": self.stage}
        if isinstance(self, OSError):
            known["errno"] = self.errno
        rest = {name: value for name, value in vars(self).items() if name not in (*known, "node_def", "op", "step")}
        return _rebuild, (type(self), self.message, known), rest or None


def _fill_os_fields(error: OSError, errno: int | None, message: str, filename: str | None) -> None:
    # OSError's own constructor fills the C fields behind .errno, .strerror and .filename.
    if errno is None:
        OSError.__init__(error, message)
        error.strerror = message
        error.filename = filename
    else:
        OSError.__init__(error, errno, os.strerror(errno), filename)


def _rebuild(cls: type[QueueCoreError], message: str, known: dict[str, Any]) -> QueueCoreError:
    return cls(message, **known)


class OutOfRangeError(QueueCoreError):
    """The data is at its end: closed and drained."""

    error_code = 11


class CancelledError(QueueCoreError):
    """Put on a closed queue, or a wait that was ended by a close or a stop."""

    error_code = 1


class InvalidArgumentError(QueueCoreError, ValueError):
    """A bad argument, shape or number of components; a field that doesn't parse."""

    error_code = 3


class DtypeError(InvalidArgumentError, TypeError):
    """A dtype that can't be used here."""


class CsvError(InvalidArgumentError):
    """A line of CSV that doesn't parse.

    Attributes
    ----------
    field : int or None
        Index of the bad field in its record, where it is one field that is bad.
    line : int or None
        The line of the file, from 1; of a quote that is never closed, the one in which it opens.
    column : str or None
        The name of the bad field in the file's header, where a dataset leaves one out.
    placed_text : str or None
        The text without the number of the record, for a dataset, which adds the record's place in a file.
    """

    placed_text: str | None = None
    field: int | None = None
    column: str | None = None
    line: int | None = None


class ProtoError(InvalidArgumentError):
    """A protocol buffer that doesn't parse."""


class DecodeError(InvalidArgumentError):
    """Encoded data (an image, for example) that can't be decoded."""


class _AlsoOSError(OSError, QueueCoreError):
    # OSError stands before the root: the other way round its C fields, behind .errno and .filename, are lost. Its own
    # methods would then win over the root's, so those are named again; for that this class stands first below.

    def __init__(self, *said: Any, **known: Any) -> None:
        QueueCoreError.__init__(self, *said, **known)

    def __str__(self) -> str:
        return QueueCoreError.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return QueueCoreError.__reduce__(self)


class NotFoundError(_AlsoOSError, FileNotFoundError):
    """A file that isn't there."""

    error_code = 5


class AlreadyExistsError(_AlsoOSError, FileExistsError):
    """A file that is there already, and is not to be replaced."""

    error_code = 6


class PermissionDeniedError(_AlsoOSError, PermissionError):
    """A file that may not be read."""

    error_code = 7


class UnavailableError(_AlsoOSError):
    """Any other refusal of the operating system: an I/O error, too many open files."""

    error_code = 14


class NotAFileError(UnavailableError, IsADirectoryError):
    """A directory where a file was expected."""


class DataLossError(QueueCoreError):
    """Bytes are missing or damaged."""

    error_code = 15


class TruncatedRecordError(DataLossError):
    """A file that ends inside a record, or is too short for its header and footer."""


class ChecksumError(DataLossError):
    """A checksum that doesn't match the bytes."""


class DecompressError(DataLossError):
    """Compressed data that is damaged or cut."""


class SourceChangedError(DataLossError):
    """A file that was shortened, replaced or rewritten while it was being read."""


class ResourceExhaustedError(QueueCoreError, MemoryError):
    """Over a stated limit, or out of memory."""

    error_code = 8


class RecordTooLargeError(ResourceExhaustedError):
    """A record longer than the limit set for one."""


class SlotsExhaustedError(ResourceExhaustedError):
    """The consumer holds as many batches as it may, and asked not to be given copies."""


class DeadlineExceededError(_AlsoOSError, TimeoutError):
    """A timeout ran out: nothing was taken, nothing was lost."""

    error_code = 4


class StallError(DeadlineExceededError):
    """No progress for the time allowed; the message names who holds what."""


class FailedPreconditionError(QueueCoreError, RuntimeError):
    """Used in a state that forbids it: after a close, for example."""

    error_code = 9


class ForkedPipelineError(FailedPreconditionError):
    """A running pipeline used in a forked child, where its threads don't exist."""


class ResumeMismatchError(FailedPreconditionError):
    """A saved state that belongs to another plan, seed or set of files, or that is damaged."""


class DeviceUnavailableError(FailedPreconditionError):
    """The device asked for can't be used."""


class UnknownError(QueueCoreError, RuntimeError):
    """A function of the user's raised; that exception is the `__cause__`."""


class PipelineError(UnknownError):
    """A function or a thread of a running pipeline failed; the first failure is the `__cause__`."""


class UnimplementedError(QueueCoreError, NotImplementedError):
    """Not built yet."""

    error_code = 12


class AbortedError(QueueCoreError):
    """Given up because of a conflict with another operation."""

    error_code = 10


class InternalError(QueueCoreError):
    """A broken promise inside queuecore: please report it."""

    error_code = 13


def shown_name(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str:
    """Return the name of a file as errors, plans and logs show it.

    Of a URL, and of each in a chain of them, a user's name and password, and the values of its query, are left out:
    they may be secrets.
    """
    return "::".join(map(_shown_part, _CHAINED.split(os.fsdecode(path))))


def _shown_part(name: str) -> str:
    scheme, colon, rest = name.partition("://")
    if not colon or "/" in scheme:
        return name
    place, mark, query = rest.partition("?")
    host, slash, folders = place.partition("/")
    user, _, host = host.rpartition("@")
    words = "&".join(word.partition("=")[0] + "=..." for word in query.split("&"))
    return f"{scheme}://{'...@' if user else ''}{host}{slash}{folders}{mark}{words if query else ''}"


def os_error_class(number: int) -> type[QueueCoreError]:
    """Return the class for an `errno`; anything without a class of its own is an `UnavailableError`."""
    if number in (_errno.ENOENT, _errno.ENOTDIR):
        return NotFoundError
    if number in (_errno.EACCES, _errno.EPERM):
        return PermissionDeniedError
    if number == _errno.EISDIR:
        return NotAFileError
    return UnavailableError


def os_error(
    number: int | None,
    text_before: str,
    text_after: str = "",
    *,
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    reason: str | None = None,
    stage: str | None = None,
    offset: int | None = None,
    record: int | None = None,
) -> QueueCoreError:
    """Return the exception for an `errno`.

    Its text is `text_before`, the meaning of the number or `reason` in its place, and `text_after`.
    """
    meaning = os.strerror(number or 0) if reason is None else reason
    return os_error_class(number or 0)(
        text_before + meaning + text_after, errno=number, path=path, stage=stage, offset=offset, record=record
    )
