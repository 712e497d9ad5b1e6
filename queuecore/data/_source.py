"""The source of fixed-length records: which files, how they are framed, and how many records they hold."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from queuecore import errors
from queuecore._core.sources import FileList
from queuecore._record import RecordPlan, compile_bytes
from queuecore._stages import BYTES, Component, Stage
from queuecore.data._plan import Made, made_by
from queuecore.errors import InvalidArgumentError
from queuecore.ops import record_stage

__all__ = ["FixedLengthSource", "Unknown", "expand_filenames", "expand_patterns"]

_STAGE = "open"


class Unknown(Exception):
    """Nobody knows the number of elements before they are there."""


Filename = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def _encode(name: Any) -> bytes:
    try:
        path = os.fsencode(name)
    except (TypeError, UnicodeEncodeError):
        raise InvalidArgumentError(f"a file name must be str, bytes or os.PathLike, not {name!r}") from None
    if not path:
        raise InvalidArgumentError("a file name is empty")
    if b"\0" in path:
        raise InvalidArgumentError(f"the file name {name!r} has a NUL in it")
    return path


def expand_filenames(filenames: Filename | Iterable[Filename]) -> list[bytes]:
    """Return the names as the operating system's bytes; a single name may be a glob pattern."""
    if isinstance(filenames, str | bytes | os.PathLike):
        path = _encode(filenames)
        if not glob.has_magic(path) or os.path.lexists(path):
            return [path]
        # Sorted by bytes: the order must depend neither on the locale nor on the directory's own order.
        matches = sorted(glob.glob(path))
        if not matches:
            raise InvalidArgumentError(f"no file matches the pattern {os.fsdecode(path)!r}", path=path, stage=_STAGE)
        return matches
    if isinstance(filenames, set | frozenset):
        raise InvalidArgumentError("filenames must be in an order; a set has none")
    return _encoded(filenames, "filenames")


def _encoded(names: Iterable[Filename], what: str) -> list[bytes]:
    try:
        given = list(names)
    except TypeError:
        raise InvalidArgumentError(f"{what} must be one or a sequence of them, not {names!r}") from None
    if not given:
        raise InvalidArgumentError(f"{what} is empty: a dataset needs at least one file")
    return [_encode(name) for name in given]


def expand_patterns(patterns: Filename | Iterable[Filename]) -> list[bytes]:
    """Return the names that match, as the operating system's bytes, sorted by them over all patterns.

    Of a pattern or several, as ``Dataset.list_files`` takes them: ``*`` and ``?`` match a dot at the beginning too, and
    never a slash, ``**`` is no other than ``*``. So no folder is gone through but those that a pattern has between its
    slashes, and a link that leads back up ends nowhere else. A name that matches twice is there twice. A pattern
    without any match is an `InvalidArgumentError` if that leaves no name at all, as in TensorFlow.
    """
    texts = [_encode(patterns)] if isinstance(patterns, str | bytes | os.PathLike) else _encoded(patterns, "patterns")
    matches = sorted(name for text in texts for name in glob.glob(text, include_hidden=True))
    if not matches:
        shown = ", ".join(repr(os.fsdecode(text)) for text in texts)
        raise InvalidArgumentError(f"no file matches {shown}", path=texts[0], stage=_STAGE)
    return matches


@dataclass(frozen=True, eq=False)
class FixedLengthSource:
    """Files of records of one length.

    Attributes
    ----------
    files : FileList
        The names, shared by all iterators.
    record : RecordPlan
        How a record is cut into arrays.
    header_bytes, footer_bytes : int
        What to leave out at the two ends of every file, in bytes.
    hop_bytes : int
        From the start of a record to the start of the next one, in bytes.
    drop_tail : bool
        Whether a cut last record is dropped and counted; else it is an error.
    num_threads : int or None
        The ``num_parallel_reads`` of the user.
    """

    name = "FixedLengthRecordDataset"

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
        return _rebuild, (paths, *rest)

    def describe(self) -> dict[str, Any]:
        """Return what decides which records there are and what an element looks like, as plain values."""
        return {
            "record": self.record.description,
            "header_bytes": self.header_bytes,
            "footer_bytes": self.footer_bytes,
            "hop_bytes": self.hop_bytes,
            "tail": "drop" if self.drop_tail else "error",
        }

    def count(self, needed: int | None) -> int:
        """Return the number of records, or any number not below `needed` once that many are certain.

        Raises
        ------
        NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError, TruncatedRecordError
            What a reader would meet on its way to the record `needed`.
        """
        total = 0
        for index in range(len(self.files)):
            if needed is not None and total >= needed:
                break
            total += self._count_file(self.files[index], None if needed is None else needed - total)
        return total

    def _count_file(self, path: bytes, needed: int | None) -> int:
        try:
            info = os.stat(path)
        except OSError as error:
            number = error.errno or 0
            raise errors._os_error_class(number)(
                f"{os.fsdecode(path)}: {os.strerror(number)}", errno=number, path=path, stage=_STAGE
            ) from None
        if not stat.S_ISREG(info.st_mode):
            raise _not_regular(path, info.st_mode)
        good, bad = self.frame(info.st_size)
        if bad is not None and not (needed is not None and good >= needed):
            raise errors.TruncatedRecordError(
                f"{os.fsdecode(path)}: {bad}", path=path, stage=_STAGE, record=good, offset=self.offset(good)
            )
        return good

    def made(self, stages: list[Stage]) -> Made:
        """Return what stages make of a record."""
        if not stages:
            components = [Component(leaf.dtype, leaf.shape) for leaf in self.record.leaves]
            return made_by(components, self.record.template, [])
        return made_by([Component(BYTES, (), self.record.record_bytes)], 0, [record_stage(self.record), *stages])

    def native(self, stages: list[Stage]) -> dict[str, Any]:
        """Return what the native stream takes."""
        given: dict[str, Any] = {
            "record_bytes": self.record.record_bytes,
            "header_bytes": self.header_bytes,
            "footer_bytes": self.footer_bytes,
            "hop_bytes": self.hop_bytes,
            "drop_tail": self.drop_tail,
            "leaves": [leaf.native() for leaf in self.record.leaves],
            "template": self.record.template,
        }
        if stages:
            made = self.made(stages)
            given |= {
                "leaves": [leaf.native() for leaf in compile_bytes(self.record.record_bytes).leaves],
                "template": made.template,
                "step": made.step,
                "components": made.components,
                "assemble": made.assemble,
            }
        return given

    def limited(self, max_record_bytes: int | None) -> FixedLengthSource:
        """Return this source: its records have one length."""
        del max_record_bytes
        return self

    def offset(self, record: int) -> int:
        """Return where a record starts in its file, in bytes."""
        return self.header_bytes + record * self.hop_bytes

    def frame(self, size: int) -> tuple[int, str | None]:
        """Return the number of whole records in a file of `size` bytes, and what is wrong with the rest of it.

        The native core counts by the same rule: a file of no bytes is empty and fine; what follows the last record
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
        return count, f"ends inside record {count}: {left} bytes are left over"


def _not_regular(path: bytes, mode: int) -> errors.QueueCoreError:
    name = os.fsdecode(path)
    if stat.S_ISDIR(mode):
        return errors.NotAFileError(f"{name} is a directory", errno=errno.EISDIR, path=path, stage=_STAGE)
    return errors.UnavailableError(f"{name} is no regular file", errno=errno.EINVAL, path=path, stage=_STAGE)


def _rebuild(paths: list[bytes], *rest: Any) -> FixedLengthSource:
    return FixedLengthSource(FileList(paths), *rest)
