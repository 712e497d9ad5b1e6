"""The source of fixed-length records: which files, how they are framed, and how many records they hold."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import Any

from queuecore import errors
from queuecore._core.io.names import FileList
from queuecore._core.io.uring import refusal
from queuecore._core.stream.describe import Description, Elements, Records
from queuecore._core.stream.discovery import file_sizes
from queuecore._elements.component import BYTES, Component
from queuecore._elements.record import RecordPlan, compile_bytes
from queuecore._io import remote
from queuecore._ops.raw import record_stage
from queuecore._ops.stage import Stage
from queuecore.data._plan.chain import Source
from queuecore.data._plan.made import Made, made_by
from queuecore.data.options import Options

__all__ = ["FixedLengthSource", "not_regular"]

_STAGE = "open"
_FIRST_FILES = 64  # whose sizes are looked at when an iteration begins


@dataclass(frozen=True, eq=False)
class FixedLengthSource(Source):
    """Files of records of one length.

    Attributes
    ----------
    files : FileList
        The names, shared by all iterators.
    record : RecordPlan
        How a record is cut into arrays.
    header_bytes, footer_bytes : int
        Bytes to leave out at the two ends of every file.
    hop_bytes : int
        From the start of a record to the start of the next one, in bytes.
    drop_tail : bool
        Whether a truncated last record is dropped and counted; otherwise it is an error.
    num_threads : int or None
        The ``num_parallel_reads`` of the user.
    """

    name = "FixedLengthRecordDataset"
    inputs = ()
    takes_any_files = True

    files: FileList
    record: RecordPlan
    header_bytes: int
    footer_bytes: int
    hop_bytes: int
    drop_tail: bool
    num_threads: int | None

    def __reduce__(self) -> tuple[Any, ...]:
        paths = [self.files[index] for index in range(len(self.files))]
        rest = (self.record, self.header_bytes, self.footer_bytes, self.hop_bytes, self.drop_tail, self.num_threads)
        return _rebuild, (paths, *rest, remote.options_of(self.files.store))

    def cold(self, options: Options) -> str:
        """Return what reads the bytes that the page cache doesn't have; `configure.pyx` decides the same."""
        if self.files.remote:
            return ""
        if options.io == "pread":
            return "the workers"
        if options.io != "uring":
            return "threads"
        error = refusal()
        return f"threads, as io_uring is refused ({os.strerror(error)})" if error else "io_uring"

    def describe(self) -> dict[str, Any]:
        """Return what decides which records there are and what an element looks like, as plain values."""
        return {
            "record": self.record.description,
            "header_bytes": self.header_bytes,
            "footer_bytes": self.footer_bytes,
            "hop_bytes": self.hop_bytes,
            "tail": "drop" if self.drop_tail else "error",
        }

    def count(self, min_count: int | None) -> int:
        """Return the number of records, or any number not below `min_count` once that many are certain.

        Raises
        ------
        NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError, TruncatedRecordError
            The error of a reader on its way to the record `min_count`.
        """
        total, files = 0, len(self.files)
        sizes: list[int] = []
        for index in range(files):
            if min_count is not None and total >= min_count:
                break
            if index == len(sizes):
                wanted = files if min_count is None else index + 1  # twice as many each time, where a few may be enough
                sizes += file_sizes(self.files, index, min(wanted, files - index))
            path = self.files[index]
            good, bad = self.frame(sizes[index] if sizes[index] > 0 else self._size_of(path))
            total += good
            if bad is not None and (min_count is None or total < min_count):
                raise self._cut(path, good, bad)
        return total

    def _size_of(self, path: bytes) -> int:
        try:
            if remote.is_url(path):
                return remote.look(path, self.files.store)[0]
            info = os.stat(path)
        except errors.QueueCoreError:
            raise
        except OSError as error:
            raise errors.os_error(
                error.errno or 0, f"{os.fsdecode(path)}: ", reason=error.strerror, path=path, stage=_STAGE
            ) from error.__cause__
        if not stat.S_ISREG(info.st_mode):
            raise not_regular(path, info.st_mode)
        if not info.st_size and _has_bytes(path):
            raise errors.UnavailableError(
                f"{os.fsdecode(path)} says that it has no bytes, and yet can be read (as files in /proc): nobody knows "
                "where its records lie. Copy it to an ordinary file, or read it with one of queuecore's readers",
                path=path,
                stage=_STAGE,
            )
        return info.st_size

    def check_sizes(self) -> None:
        """Raise a `TruncatedRecordError` if one of the first files ends inside a record whose rest isn't dropped.

        Records of another length show in nearly every file. A later file, one that can't be looked at, and a URL, whose
        request would make the beginning late, is an error in its place, when it is read.
        """
        first = min(self.files.known, _FIRST_FILES)
        if self.drop_tail or first == 0:
            return
        for index, size in enumerate(file_sizes(self.files, 0, first)):
            good, bad = self.frame(max(0, size))
            if bad is not None:
                raise self._cut(self.files[index], good, bad)

    def _cut(self, path: bytes, good: int, bad: str) -> errors.QueueCoreError:
        advice = "Check the length of a record, complete the file, or pass tail='drop' to leave such a rest out"
        return errors.TruncatedRecordError(
            f"{os.fsdecode(path)}: {bad}. {advice}", path=path, stage=_STAGE, record=good, offset=self.offset(good)
        )

    def label(self) -> str:
        """Return the user's name for the source, in one line."""
        return f"{super().label()}, {self.record.record_bytes} bytes a record"

    def made(self, stages: list[Stage]) -> Made:
        """Return the result of stages on a record."""
        if not stages:
            components = [Component(leaf.dtype, leaf.shape) for leaf in self.record.leaves]
            return made_by(components, self.record.template, [])
        return made_by([Component(BYTES, (), self.record.record_bytes)], 0, [record_stage(self.record), *stages])

    def native(self, stages: list[Stage]) -> Description:
        """Return the description for the native stream."""
        length = self.record.record_bytes
        records = Records(length, self.header_bytes, self.footer_bytes, self.hop_bytes, self.drop_tail)
        if stages:
            elements = self.made(stages).elements([leaf.native() for leaf in compile_bytes(length).leaves])
        else:
            elements = Elements(self.record.template, leaves=[leaf.native() for leaf in self.record.leaves])
        return Description(self.files, elements, records)

    def limited(self, max_record_bytes: int | None) -> FixedLengthSource:
        """Return this source: its records have one length."""
        del max_record_bytes
        return self

    def offset(self, record: int) -> int:
        """Return the offset of a record in its file, in bytes."""
        return self.header_bytes + record * self.hop_bytes

    def frame(self, size: int) -> tuple[int, str | None]:
        """Return the number of whole records in a file of `size` bytes, and what is wrong with the rest of it.

        The native core counts by the same rule: a file of no bytes is empty and fine; the rest after the last record
        must be nothing, or no more than the gap between two records.
        """
        if size == 0:
            return 0, None
        body = size - self.header_bytes - self.footer_bytes
        if body < 0:
            return 0, f"{size} bytes are less than its header of {self.header_bytes} and footer of {self.footer_bytes}"
        length, hop = self.record.record_bytes, self.hop_bytes
        count = 0 if body < length else (body - length) // hop + 1
        left = body if count == 0 else body - ((count - 1) * hop + length)
        if left == 0 or (count > 0 and left <= hop - length) or self.drop_tail:
            return count, None
        return count, f"ends inside record {count}: {left} of its {length} bytes are there"


def _has_bytes(path: bytes) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            return bool(file.read(1))
    except PermissionError:
        return False  # the file system's word on it counts, as for files that say more
    except OSError as error:
        raise errors.os_error(error.errno or 0, f"cannot read {os.fsdecode(path)}: ", path=path, stage=_STAGE) from None


def not_regular(path: bytes, mode: int, so: str = "") -> errors.QueueCoreError:
    """Return the exception for a file that is no regular one, by its mode; `so`: what follows from that."""
    name = os.fsdecode(path)
    if stat.S_ISDIR(mode):
        return errors.NotAFileError(f"{name} is a directory", errno=errno.EISDIR, path=path, stage=_STAGE)
    return errors.UnavailableError(f"{name} is no regular file{so}", errno=errno.EINVAL, path=path, stage=_STAGE)


def _rebuild(paths: list[bytes], *rest: Any) -> FixedLengthSource:
    # A pickle of an earlier version has no options.
    return FixedLengthSource(FileList(paths, remote.unpickled(*rest[6:] or (None,))), *rest[:6])
