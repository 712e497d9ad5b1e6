"""The source of the rows of ``.npy`` files: headers are read here, rows natively, as fixed-length records."""

from __future__ import annotations

import ast
import functools
import math
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from queuecore import errors
from queuecore._checks.checks import MAX_DIMS
from queuecore._core.io.names import FileList
from queuecore._elements.component import shape_text
from queuecore._elements.record import RecordPlan, compile_record
from queuecore._io import remote
from queuecore.data._plan.blocks import MOST_BYTES
from queuecore.data._plan.fixed import FixedLengthSource, not_regular
from queuecore.data.options import Options

__all__ = ["NpySource", "npy_source"]

_STAGE = "open"
_MAGIC = b"\x93NUMPY"
_KEYS = {"descr", "fortran_order", "shape"}
# For each version: the size of the number that holds the header's length, in bytes, and the encoding of its text.
_VERSIONS = {(1, 0): (2, "latin1"), (2, 0): (4, "latin1"), (3, 0): (4, "utf8")}
# NumPy reads no longer ones either, as parsing them may take any amount of memory.
_MOST_TEXT = 10000
_FIRST_READ = 4096

# For each file: its bytes before the first number, the number of rows, and whether columns come first (Fortran order).
Arrays = list[tuple[bytes, int, bool]]

_Kind = TypeVar("_Kind", bound=errors.QueueCoreError)


@dataclass(frozen=True, eq=False)
class NpySource(FixedLengthSource):
    """Files of arrays, whose rows are records of one length.

    Attributes
    ----------
    arrays : list of tuple
        For each file: its bytes before the first number, the number of rows, and whether columns come first.
    """

    name = "NumpyDataset"
    takes_any_files = False  # of each file it knows the header

    arrays: Arrays

    def check_sizes(self) -> None:
        """Do nothing: the header of each file was checked against its size when the dataset was made."""

    @classmethod
    def of(
        cls,
        paths: Sequence[bytes],
        record: RecordPlan,
        arrays: Arrays,
        num_threads: int | None,
        store: remote.RemoteStore | None,
    ) -> NpySource:
        """Return the source of these files, whose headers have been read."""
        leaf = record.leaves[0]
        files = FileList(paths, store, leaf.dtype.itemsize, leaf.shape, arrays)
        return cls(files, record, 0, 0, record.record_bytes, False, num_threads, arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        paths = [self.files[index] for index in range(len(self.files))]
        return _rebuild, (remote.options_of(self.files.store), paths, self.record, self.arrays, self.num_threads)

    def cold(self, options: Options) -> str:
        """Return what reads the bytes that the page cache doesn't have; no ring does where columns come first."""
        cold = super().cold(options)
        return "threads" if cold == "io_uring" and all(by_columns for *_, by_columns in self.arrays) else cold

    def describe(self) -> dict[str, Any]:
        """Return what decides which records there are and what an element looks like, as plain values."""
        return {"source": "npy", "record": self.record.description}

    def count(self, min_count: int | None) -> int:
        """Return the number of rows, which the headers state."""
        del min_count
        return sum(rows for _, rows, _ in self.arrays)


def _rebuild(
    options: dict[str, Any] | None, paths: list[bytes], record: RecordPlan, arrays: Arrays, num_threads: int | None
) -> NpySource:
    return NpySource.of(paths, record, arrays, num_threads, remote.unpickled(options))


def npy_source(paths: Sequence[bytes], num_threads: int | None, store: remote.RemoteStore | None) -> NpySource:
    """Return the source of the rows of these files, opened by a store; this reads their headers.

    Raises
    ------
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If a file can't be read.
    DataLossError, TruncatedRecordError
        If a file is no ``.npy`` file, is damaged, or has another size than its header says.
    InvalidArgumentError, DtypeError
        If an array has no rows that could be records, or if rows of two files differ in dtype or shape.
    """
    headers = (_read_header(path, store) for path in paths)
    first = next(headers)
    heads = {first.head: first.head}  # nearly all files have the same one
    arrays = [(first.head, first.rows, first.by_columns)]
    for path, header in zip(paths[1:], headers, strict=True):
        if (header.dtype, header.sides) != (first.dtype, first.sides):
            raise _error(
                errors.DtypeError if header.dtype != first.dtype else errors.InvalidArgumentError,
                path,
                f"has rows of {_rows_text(header)}, and {os.fsdecode(paths[0])} has rows of {_rows_text(first)}: the "
                "rows of a dataset are all of one dtype and shape. Convert the files, or make a dataset of each sort",
                header.offset,
            )
        arrays.append((heads.setdefault(header.head, header.head), header.rows, header.by_columns))
    return NpySource.of(paths, _record(first), arrays, num_threads, store)


class _Header(NamedTuple):
    """The header of a file, and what it says of the array.

    Attributes
    ----------
    head : bytes
        All bytes before the first number.
    offset : int
        The offset in `head` of the text with the dtype, order and shape.
    """

    head: bytes
    offset: int
    dtype: np.dtype[Any]
    sides: tuple[int, ...]
    rows: int
    by_columns: bool


def _record(header: _Header) -> RecordPlan:
    """Return the plan of a row: that of one number, with the shape of the row."""
    number = compile_record(header.dtype)
    nbytes = header.dtype.itemsize * math.prod(header.sides)
    leaf = replace(number.leaves[0], shape=header.sides, piece_bytes=nbytes)
    words = ["array", list(header.sides), number.description] if header.sides else number.description
    return RecordPlan(nbytes, (leaf,), 0, words)


def _rows_text(header: _Header) -> str:
    return f"dtype {header.dtype.str!r} and shape {shape_text(header.sides)}"


def _read_header(path: bytes, store: remote.RemoteStore | None) -> _Header:
    """Return the header of a file, whose size must be exactly what the header describes."""
    head, size = _read_head(path, store)
    width, encoding = _VERSIONS[head[6], head[7]]
    offset = 8 + width
    descr, by_columns, shape = _parsed(path, head[offset:], encoding, offset, (head[6], head[7]) != (3, 0))
    dtype = _dtype(path, descr, offset)
    if not shape:
        raise _error(
            errors.InvalidArgumentError,
            path,
            f"holds one value of dtype {dtype.str!r}, which has no rows. Save an array of at least one dimension",
            offset,
        )
    rows, sides = shape[0], shape[1:]
    row_bytes = dtype.itemsize * math.prod(sides)
    if len(sides) > MAX_DIMS or not 0 < row_bytes <= MOST_BYTES:
        limits = f"a row has 1 to {MOST_BYTES} bytes, and at most {MAX_DIMS} dimensions"
        raise _error(
            errors.InvalidArgumentError,
            path,
            f"has rows of dtype {dtype.str!r} and shape {shape_text(sides)}: {limits}. Save the array in another shape",
            offset,
        )
    end = len(head) + rows * row_bytes
    if size < end:
        raise _error(
            errors.TruncatedRecordError,
            path,
            f"ends after {size} bytes, and its {rows} rows of {row_bytes} bytes, behind a header of {len(head)} bytes, "
            f"would end at byte {end}: the file is cut, or its header is damaged. Write or copy it again",
            size,
            None if by_columns else (size - len(head)) // row_bytes,
        )
    if size > end:
        raise _error(
            errors.DataLossError,
            path,
            f"goes on for {size - end} bytes behind its {rows} rows, which end at byte {end}: several arrays were "
            "saved into one file, or its header is damaged. Save each array into a file of its own",
            end,
        )
    # Of one dimension, or of one number, columns lie as rows do.
    return _Header(head, offset, dtype, sides, rows, by_columns and bool(sides) and rows > 0)


def _error(kind: type[_Kind], path: bytes, why: str, offset: int, record: int | None = None) -> _Kind:
    return kind(f"{os.fsdecode(path)} {why}", path=path, offset=offset, record=record, stage=_STAGE)


def _damaged(path: bytes, why: str, offset: int) -> errors.DataLossError:
    return _error(
        errors.DataLossError, path, f"is no .npy file, or is damaged: {why}. Write it with numpy.save", offset
    )


def _read_head(path: bytes, store: remote.RemoteStore | None) -> tuple[bytes, int]:
    """Return the bytes of a file before its first number, and its size."""
    try:
        if remote.is_url(path):
            file = remote.opened(path, store)
            return _head_of(path, file.beginning), file.look()[0]
        # Without waiting, should it be a pipe that nobody writes to.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise not_regular(path, info.st_mode, ", so that its rows have no places. Copy it to one")
            return _head_of(path, functools.partial(_pread, fd)), info.st_size
        finally:
            os.close(fd)
    except errors.QueueCoreError:
        raise
    except OSError as error:
        raise errors.os_error(
            error.errno or 0,
            f"cannot read the header of {os.fsdecode(path)}: ",
            reason=error.strerror,
            path=path,
            stage=_STAGE,
        ) from error.__cause__


def _head_of(path: bytes, first: Callable[[int], bytes]) -> bytes:
    # first: returns so many of the file's first bytes, if there are as many.
    text = first(_FIRST_READ)
    if text[:4] == b"PK\x03\x04":
        raise _damaged(path, "it is a ZIP archive, as an .npz file is. Unpack it into files, one for each array", 0)
    if text[:6] != _MAGIC:
        raise _damaged(path, f"it begins with {text[:6]!r}, and not with {_MAGIC!r}", 0)
    if len(text) >= 8 and (text[6], text[7]) not in _VERSIONS:
        raise _damaged(path, f"its format has version {text[6]}.{text[7]}, and versions 1.0 to 3.0 are known", 6)
    width = _VERSIONS[text[6], text[7]][0] if len(text) >= 8 else 2
    if len(text) < 8 + width:
        raise _damaged(path, f"it ends after {len(text)} bytes, inside its header", len(text))
    length = int.from_bytes(text[8 : 8 + width], "little")
    if length > _MOST_TEXT:
        raise _damaged(path, f"its header would have {length} bytes, and at most {_MOST_TEXT} are read", 8)
    end = 8 + width + length
    if len(text) < end:
        text = first(end)
    if len(text) < end:
        raise _damaged(path, f"it ends after {len(text)} bytes, inside its header of {end} bytes", len(text))
    return text[:end]


def _pread(fd: int, size: int) -> bytes:
    """Return the first bytes of a file, `size` of them if there are as many."""
    text = b""
    while len(text) < size and (more := os.pread(fd, size - len(text), len(text))):
        text += more
    return text


def _parsed(path: bytes, text: bytes, encoding: str, offset: int, old: bool) -> tuple[Any, bool, tuple[int, ...]]:
    """Return what stands in a header: the word for the dtype, whether columns come first, and the shape."""
    try:
        words = text.decode(encoding)
        if old:
            words = re.sub(r"(?<=\d)L(?=\s*[,)])", "", words)  # as Python 2 wrote long numbers
        header = ast.literal_eval(words.strip())  # constants alone: nothing is run
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise _damaged(path, f"its header doesn't parse ({type(error).__name__}): {text[:80]!r}", offset) from None
    if not isinstance(header, dict) or header.keys() != _KEYS:
        raise _damaged(path, f"its header is no dict of 'descr', 'fortran_order' and 'shape': {text[:80]!r}", offset)
    shape, by_columns = header["shape"], header["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
        raise _damaged(path, f"its shape is {shape!r:.80}, and not a tuple of numbers from 0 on", offset)
    if not isinstance(by_columns, bool):
        raise _damaged(path, f"its fortran_order is {by_columns!r:.80}, and neither True nor False", offset)
    return header["descr"], by_columns, shape


def _dtype(path: bytes, descr: Any, offset: int) -> np.dtype[Any]:
    """Return the dtype that a header's word stands for, if rows of it can be read."""
    fields = isinstance(descr, list)
    try:
        dtype = np.dtype("V1" if fields else descr)
    except (TypeError, ValueError, SyntaxError, KeyError, OverflowError, MemoryError):
        raise _damaged(path, f"its dtype is {descr!r:.80}, which NumPy doesn't know", offset) from None
    if not isinstance(descr, str | list) or dtype.subdtype is not None:
        raise _damaged(path, f"its dtype is {descr!r:.80}, which no array has", offset)
    if fields or dtype.names is not None:
        raise _error(
            errors.DtypeError,
            path,
            f"holds structures, of dtype {descr!r:.200}. Read them with FixedLengthRecordDataset: its record is this "
            "dtype, and its header_bytes is where the first one starts",
            offset,
        )
    if dtype.hasobject:
        raise _error(
            errors.DtypeError,
            path,
            "holds Python objects, as a pickle that could run any code, and is not loaded. Save arrays of numbers, or "
            "of bytes of one length",
            offset,
        )
    try:
        if dtype.itemsize:
            compile_record(dtype)
    except errors.InvalidArgumentError as error:
        raise _error(errors.DtypeError, path, f"can't be read: {error}. Save it as numbers", offset) from None
    return dtype
