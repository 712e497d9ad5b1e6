"""Text of files that an error is about: looked up when the error is made, so that nothing is kept for it before."""

from __future__ import annotations

import contextlib
import os

from queuecore._core.io.csv import shown_text
from queuecore._core.io.tfrecord import FileBytes
from queuecore.errors import QueueCoreError

__all__ = ["FieldTexts", "LineTexts", "RecordTexts", "text_at"]

_TEXT_BYTES = 4096
# Of a TFRecord: its length, and that with its checksum.
_LENGTH_BYTES, _FRONT_BYTES = 8, 12
# Of a compressed file, what is decompressed at most to get to a place.
_MOST_SKIPPED = 16 << 20


def text_at(path: bytes, offset: int, encoding: int) -> bytes:
    """Return some bytes of a file from a place on, decompressed; none if they can't be had, or not quickly."""
    with contextlib.suppress(OSError, QueueCoreError):
        if not encoding:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.pread(fd, _TEXT_BYTES, offset)
            finally:
                os.close(fd)
        if offset <= _MOST_SKIPPED:
            with contextlib.closing(FileBytes(path, encoding)) as file:
                whole = bytearray(offset + _TEXT_BYTES)
                filled = 0
                while filled < len(whole) and (got := file.readinto(memoryview(whole)[filled:])):
                    filled += got
                return bytes(whole[offset:filled])
    return b""


class LineTexts:
    """Tells the lines of files, for errors of steps.

    Parameters
    ----------
    encoding : int
        The compression of the files, a number of `queuecore._io.compression`.
    """

    def __init__(self, encoding: int) -> None:
        self._encoding = encoding

    def __call__(self, path: bytes, column: int) -> str | None:
        """Return `None`: lines have no columns with names."""
        return None

    def record(self, path: bytes, offset: int) -> bytes | None:
        """Return the line that begins at a place, without its end; `None`: it can't be had."""
        text = text_at(path, offset, self._encoding)
        line, end, _ = text.partition(b"\n")
        return line.removesuffix(b"\r") if end or len(text) < _TEXT_BYTES else None


class RecordTexts(LineTexts):
    """Tells the records of TFRecord files, for errors of steps."""

    def record(self, path: bytes, offset: int) -> bytes | None:
        """Return the record that begins at a place; `None`: it can't be had."""
        text = text_at(path, offset, self._encoding)
        nbytes = int.from_bytes(text[:_LENGTH_BYTES], "little")
        record = text[_FRONT_BYTES : _FRONT_BYTES + nbytes]
        return record if len(record) == nbytes else None


class FieldTexts:
    """Tells the fields of CSV files, for errors.

    Parameters
    ----------
    delim : bytes
        What stands between fields.
    encoding : int
        As of `LineTexts`.
    """

    def __init__(self, delim: bytes, encoding: int) -> None:
        self._delim = delim
        self._encoding = encoding

    def __call__(self, path: bytes, column: int) -> str | None:
        """Return `None`: the files have no header."""
        return None

    def field(self, path: bytes, offset: int) -> str | None:
        """Return the field that begins at a place, as errors show it; `None`: it can't be had."""
        text = text_at(path, offset, self._encoding)
        if offset and text_at(path, offset - 1, self._encoding).startswith(b'"'):  # the place is behind the quote
            text = text.partition(b'"')[0]
        else:
            for end in (b"\n", b"\r", self._delim):
                text = text.partition(end)[0]
        return shown_text(text) if text else None
