"""Files that are written record by record."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from queuecore._io.compression import Codec
from queuecore._io.names import Filename, file_to_write
from queuecore.errors import DtypeError, FailedPreconditionError, QueueCoreError, os_error

__all__ = ["RecordFile", "flat"]

# Bytes that are collected, so that a small record costs no system call. A longer record is written by itself, uncopied.
_BLOCK_BYTES = 1 << 18
_STAGE = "write"


def flat(data: Any, what: str) -> bytes | memoryview:
    """Return the bytes of anything bytes-like."""
    if type(data) is bytes:
        return data
    try:
        view = memoryview(data)
        return view.cast("B") if view.nbytes else b""
    except TypeError as error:
        hint = ". A message goes in as message.SerializeToString()" if hasattr(data, "SerializeToString") else ""
        raise DtypeError(f"{what} must be bytes, or a C-contiguous buffer of them: {error}{hint}") from error


class RecordFile:
    """A file that is written record by record: buffering, compression, and the state after an error."""

    def __init__(self, path: Filename, codec: Codec | None, header: bytes = b"") -> None:
        self._closed = True  # until there is something to close
        self._lock = threading.Lock()
        self._codec = codec
        self._pending = bytearray()
        self._failed: BaseException | None = None
        self._records = 0  # written, or on their way
        self._whole_bytes = 0  # of the file, up to the last record that was written as a whole
        self._whole_records = 0
        self._path = file_to_write(path)
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._named(error, "open") from error
        self._closed = False
        self._pending += header

    def _named(self, error: OSError, what: str, **place: Any) -> QueueCoreError:
        return os_error(
            error.errno or 0,
            f"cannot {what} {os.fsdecode(self._path)!r}: ",
            reason=error.strerror or str(error),
            path=self._path,
            stage=_STAGE,
            **place,
        )

    def _append(self, records: int, *parts: bytes | bytearray | memoryview) -> None:
        # The file has all the parts, or after an error none of them.
        with self._lock:
            self._check_usable()
            try:
                if self._codec is not None:
                    for part in parts:
                        self._pending += self._codec.compress(part)
                    parts = ()
                elif sum(map(len, parts)) < _BLOCK_BYTES:
                    for part in parts:
                        self._pending += part
                    parts = ()
                self._records += records
                if parts or len(self._pending) >= _BLOCK_BYTES:
                    self._write_out(parts)
            except BaseException as error:
                self._give_up(error)
                raise

    def _write_out(self, parts: Sequence[bytes | bytearray | memoryview] = ()) -> None:
        pending, self._pending = self._pending, bytearray()
        left = [memoryview(part) for part in (pending, *parts) if len(part)]
        total = sum(map(len, left))
        while left:
            done = os.writev(self._fd, left)
            while left and done >= len(left[0]):
                done -= len(left.pop(0))
            if done:
                left[0] = left[0][done:]
        self._whole_bytes += total
        self._whole_records = self._records

    def _give_up(self, error: BaseException) -> None:
        # Removes the bytes after the last whole record: nobody should take them for one.
        self._failed = error
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._whole_bytes)
        if not isinstance(error, OSError):
            return
        if self._codec is not None:
            what = f"write the records that follow byte {self._whole_bytes} of"
            raise self._named(error, what, offset=self._whole_bytes) from error
        what = f"write record {self._whole_records} and those after it, at byte {self._whole_bytes}, to"
        raise self._named(error, what, offset=self._whole_bytes, record=self._whole_records) from error

    def _check_usable(self) -> None:
        if self._failed is not None:
            raise FailedPreconditionError(
                f"an earlier write to {os.fsdecode(self._path)!r} failed, so this writer can't go on", path=self._path
            ) from self._failed
        if self._closed:
            raise FailedPreconditionError(f"the writer of {os.fsdecode(self._path)!r} is closed", path=self._path)

    def flush(self) -> None:
        """Hand everything that was written so far to the operating system, so that others can read it.

        A compressed file gets a little longer each time. Nothing is forced to the disk: that is `os.fsync`.
        """
        with self._lock:
            self._check_usable()
            try:
                if self._codec is not None:
                    self._pending += self._codec.sync()
                self._write_out()
            except BaseException as error:
                self._give_up(error)
                raise

    def _close(self, footer: bytes = b"") -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._failed is None:
                    self._pending += footer
                    if self._codec is not None:
                        self._pending += self._codec.finish()
                    self._write_out()
            except BaseException as error:
                try:
                    self._give_up(error)
                    raise
                finally:
                    with contextlib.suppress(OSError):
                        os.close(self._fd)
            try:
                os.close(self._fd)
            except OSError as error:  # network disks say only here that there was no room
                self._failed = error
                raise self._named(error, "close") from error

    def close(self) -> None:
        """Write what is left and close the file. A second call does nothing."""
        self._close()

    def __enter__(self) -> Self:
        """Return the writer; the end of the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def __del__(self) -> None:
        """Close the file, with a warning, as Python's own files do."""
        if not getattr(self, "_closed", True):
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __repr__(self) -> str:
        """Return the class, the file and whether it is still open."""
        return f"<{type(self).__name__} of {os.fsdecode(self._path)!r}{', closed' if self._closed else ''}>"
