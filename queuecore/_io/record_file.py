"""Files that are written record by record."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from queuecore._io import remote
from queuecore._io.compression import Codec
from queuecore._io.names import Filename, file_to_write
from queuecore._io.outputs import output_of
from queuecore.errors import DtypeError, FailedPreconditionError, QueueCoreError, os_error, shown_name

__all__ = ["RecordFile", "flat"]

# Bytes that are collected, so that a small record costs no system call. A longer record is written by itself, uncopied.
_BLOCK_BYTES = 1 << 18
_STAGE = "write"
_ADVICE = ". Write the file anew"  # a URL


def flat(data: Any, subject: str) -> bytes | memoryview:
    """Return the bytes of anything bytes-like."""
    if type(data) is bytes:
        return data
    try:
        view = memoryview(data)
        return view.cast("B") if view.nbytes else b""
    except TypeError as error:
        hint = ". A message goes in as message.SerializeToString()" if hasattr(data, "SerializeToString") else ""
        raise DtypeError(f"{subject} must be bytes, or a C-contiguous buffer of them: {error}{hint}") from error


class RecordFile:
    """A file that is written record by record: buffering, compression, and the state after an error."""

    def __init__(self, path: Filename, codec: Codec | None, header: bytes = b"", storage_options: Any = None) -> None:
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
            self._output = output_of(self._path, remote.store_of(storage_options))
        except OSError as error:
            raise self._named(error, "open") from (error.__cause__ or error)
        self._closed = False
        self._pending += header

    def _named(self, error: OSError, what: str, **place: Any) -> QueueCoreError:
        return os_error(
            error.errno or 0,
            f"cannot {what} {os.fsdecode(self._path)!r}: ",
            _ADVICE if remote.is_url(self._path) and what != "open" else "",
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
        self._output.write((pending, *parts))
        self._whole_bytes += sum(map(len, (pending, *parts)))
        self._whole_records = self._records

    def _give_up(self, error: BaseException) -> None:
        # Removes the bytes after the last whole record: nobody should take them for one.
        self._failed = error
        self._output.cut(self._whole_bytes)
        if not isinstance(error, OSError) or isinstance(error, QueueCoreError):
            return
        cause = error.__cause__ or error
        if self._codec is not None:
            what = f"write the records that follow byte {self._whole_bytes} of"
            raise self._named(error, what, offset=self._whole_bytes) from cause
        what = f"write record {self._whole_records} and those after it, at byte {self._whole_bytes}, to"
        raise self._named(error, what, offset=self._whole_bytes, record=self._whole_records) from cause

    def _check_usable(self) -> None:
        if self._failed is not None:
            raise FailedPreconditionError(
                f"an earlier write to {os.fsdecode(self._path)!r} failed, so this writer can't go on", path=self._path
            ) from self._failed
        if self._closed:
            raise FailedPreconditionError(f"the writer of {os.fsdecode(self._path)!r} is closed", path=self._path)

    def flush(self) -> None:
        """Hand everything that was written so far to the operating system, so that others can read it.

        A compressed file gets a little longer each time. Nothing is forced to the disk: that is `os.fsync`. The bytes
        of a URL go to fsspec, which sends whole blocks; nobody sees them before `close`.
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
                    if self._codec is not None:
                        self._pending += self._codec.compress(footer) + self._codec.finish()
                    else:
                        self._pending += footer
                    self._write_out()
            except BaseException as error:
                try:
                    self._give_up(error)
                    raise
                finally:
                    with contextlib.suppress(OSError):
                        self._output.close()
            try:
                self._output.close()
            except OSError as error:  # network disks and stores say only here that there was no room
                self._failed = error
                raise self._named(error, "close") from (error.__cause__ or error)

    def close(self) -> None:
        """Write what is left and close the file. A second call does nothing."""
        self._close()

    def __enter__(self) -> Self:
        """Return the writer; the end of the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file; give a URL up, if the block was left by an exception."""
        if kind is None or self._output.keeps:
            self.close()
        else:
            self._abandon()

    def _abandon(self) -> None:
        # An incomplete file is to be nowhere.
        with self._lock:
            if not self._closed:
                self._closed = True
                self._output.cut(0)

    def __del__(self) -> None:
        """Close the file, with a warning, as Python's own files do; give a URL up."""
        if not getattr(self, "_closed", True):
            try:  # warnings may be errors
                warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            finally:
                if self._output.keeps:
                    self.close()
                else:
                    self._abandon()

    def __repr__(self) -> str:
        """Return the class, the file and whether it is still open."""
        return f"<{type(self).__name__} of {shown_name(self._path)!r}{', closed' if self._closed else ''}>"
