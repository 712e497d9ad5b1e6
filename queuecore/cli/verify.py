"""Checks of record files from start to end: the work of ``queuecore verify``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from queuecore._core.io.names import FileList
from queuecore._core.io.tfrecord import MAX_RECORD_BYTES, FileBytes, RecordScan
from queuecore._elements.record import compile_bytes
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.errors import QueueCoreError, TruncatedRecordError, os_error

__all__ = ["FixedLengthCheck", "TFRecordCheck"]

_BLOCK_BYTES = 1 << 20


@dataclass
class TFRecordCheck:
    """Checks TFRecord files, and counts.

    Attributes
    ----------
    encoding : int
        The compression of the files: a number from `queuecore._io.compression.encoding_number`.
    max_record_bytes : int
        The longest record that is accepted, in bytes.
    index : bool
        Whether the places of good records are written beside each file, under its name with ``.idx`` behind: a line for
        each, offset and length in bytes, as other readers of TFRecords take it.
    records, nbytes : int
        Whole and undamaged records so far, and the bytes of their data.
    """

    encoding: int = 0
    max_record_bytes: int = MAX_RECORD_BYTES
    index: bool = False
    records: int = 0
    nbytes: int = 0

    def faults(self, path: bytes) -> Iterator[tuple[QueueCoreError, str]]:
        """Yield each fault of one file, and what became of the rest of it."""
        places: list[tuple[int, int]] | None = [] if self.index else None
        with contextlib.closing(FileBytes(path, self.encoding)) as file:
            scan = RecordScan(file, path, file.size, self.max_record_bytes, index=places)
            try:
                while (fault := scan.next_fault()) is not None:
                    error, resumed = fault
                    if resumed is not None:
                        yield error, f"goes on at byte {resumed}"
                    elif isinstance(error, TruncatedRecordError):
                        yield error, ""
                    else:
                        yield error, "no record follows"
            finally:
                self.records += scan.records
                self.nbytes += scan.nbytes
        if places is not None:
            _write_index(path + b".idx", places)


def _write_index(path: bytes, places: list[tuple[int, int]]) -> None:
    # Whole or not at all: a reader that trusts half an index would miss the rest of the file.
    new = path + b".new"
    try:
        with open(new, "w", encoding="ascii") as file:
            file.writelines(f"{offset} {length}\n" for offset, length in places)
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise os_error(error.errno or 0, f"cannot write the index {os.fsdecode(path)!r}: ", path=path) from error


@dataclass
class FixedLengthCheck:
    """Checks files of fixed-length records, and counts. Only the number of their bytes can be wrong, but all are read.

    Attributes
    ----------
    record_bytes, header_bytes, footer_bytes : int
        How a file is divided.
    encoding : int
        As for `TFRecordCheck`.
    records, nbytes : int
        As for `TFRecordCheck`.
    """

    record_bytes: int
    header_bytes: int = 0
    footer_bytes: int = 0
    encoding: int = 0
    records: int = 0
    nbytes: int = 0

    def faults(self, path: bytes) -> Iterator[tuple[QueueCoreError, str]]:
        """Yield the fault of one file, if it has one."""
        size = 0
        block = bytearray(_BLOCK_BYTES)
        with contextlib.closing(FileBytes(path, self.encoding)) as file:
            while got := file.readinto(block):
                size += got
        plan = compile_bytes(self.record_bytes)
        source = FixedLengthSource(
            FileList([path]), plan, self.header_bytes, self.footer_bytes, self.record_bytes, False, None
        )
        count, wrong = source.frame(size)
        self.records += count
        self.nbytes += count * self.record_bytes
        if wrong is not None:
            place = source.offset(count) if size >= self.header_bytes + self.footer_bytes else 0
            text = f"{os.fsdecode(path)!r}: {wrong} (at byte {place})"
            yield TruncatedRecordError(text, path=path, offset=place, record=count, stage="read"), ""
