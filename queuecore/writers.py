"""Writers of record files: TFRecord files, and files of fixed-length records."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from queuecore._core.tfrecord import frame
from queuecore._record import compile_record
from queuecore.data._source import Filename, expand_filenames
from queuecore.errors import (
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    QueueCoreError,
    UnimplementedError,
    _os_error_class,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FixedLengthRecordWriter", "TFRecordOptions", "TFRecordWriter"]

# Collected up to here, so that a small record costs no system call. A record this long goes out by itself, uncopied.
_BLOCK_BYTES = 1 << 18
_STAGE = "write"

# TensorFlow's words, and the numbers of its TFRecordCompressionType.
_COMPRESSIONS: dict[Any, str] = {
    **{word: word for word in ("", "GZIP", "ZLIB", "ZSTD")},
    **{None: "", "NONE": "", 0: "", 1: "ZLIB", 2: "GZIP"},
}


@dataclass(frozen=True)
class TFRecordOptions:
    """How a TFRecord file is compressed.

    Parameters
    ----------
    compression_type : str, default ""
        ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``; ``""`` or ``"NONE"`` for none.
    compression_level : int, optional
        From 0 (GZIP, ZLIB: stored) to 9, or as far as ZSTD goes. By default the library's own choice.
    """

    compression_type: str = ""
    compression_level: int | None = None


def compression_of(options: Any) -> str:
    """Return the compression that `options` ask for.

    Parameters
    ----------
    options : str or object with ``compression_type``, or None
        TensorFlow's ``TFRecordOptions`` will do.

    Returns
    -------
    str
        ``""``, ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``.

    Raises
    ------
    InvalidArgumentError
        If it is none of these words.
    """
    word = options if options is None or isinstance(options, str) else getattr(options, "compression_type", options)
    try:
        return _COMPRESSIONS[word]
    except (KeyError, TypeError):
        raise InvalidArgumentError(f"compression_type must be 'NONE', 'GZIP', 'ZLIB' or 'ZSTD', not {word!r}") from None


class _Codec(NamedTuple):
    # A compressor of one stream.
    compress: Callable[[Any], bytes]
    sync: Callable[[], bytes]  # so that all that was compressed can be read
    finish: Callable[[], bytes]


def _codec(compression: str, level: int | None) -> _Codec | None:
    if not compression:
        return None
    try:
        if compression == "ZSTD":
            return _zstd(level)
        window = zlib.MAX_WBITS + 16 if compression == "GZIP" else zlib.MAX_WBITS
        stream = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, window)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"compression_level {level!r} is none that {compression} has: {error}") from error
    return _Codec(stream.compress, lambda: stream.flush(zlib.Z_SYNC_FLUSH), stream.flush)


def _zstd(level: int | None) -> _Codec:
    given = {} if level is None else {"level": level}
    with contextlib.suppress(ImportError):
        module = importlib.import_module("compression.zstd")
        own = module.ZstdCompressor(**given)
        return _Codec(own.compress, lambda: bytes(own.flush(own.FLUSH_BLOCK)), own.flush)
    with contextlib.suppress(ImportError):
        module = importlib.import_module("zstandard")
        stream = module.ZstdCompressor(**given).compressobj()
        return _Codec(stream.compress, lambda: bytes(stream.flush(module.COMPRESSOBJ_FLUSH_BLOCK)), stream.flush)
    raise UnimplementedError("ZSTD needs Python 3.14 or the package zstandard (pip install zstandard)")


def _flat(data: Any, what: str) -> bytes | memoryview:
    # The bytes of anything bytes-like.
    if type(data) is bytes:
        return data
    try:
        view = memoryview(data)
        return view.cast("B") if view.nbytes else b""
    except TypeError as error:
        raise DtypeError(f"{what} must be bytes, or a C-contiguous buffer of them: {error}") from error


class _RecordFile:
    """A file that is written record by record: buffering, compression, and what is left after an error."""

    def __init__(self, path: Filename, codec: _Codec | None, header: bytes = b"") -> None:
        self._closed = True  # until there is something to close
        self._lock = threading.Lock()
        self._codec = codec
        self._pending = bytearray()
        self._failed: BaseException | None = None
        self._records = 0  # written, or on their way
        self._whole_bytes = 0  # of the file, up to the last record that was written as a whole
        self._whole_records = 0
        (self._path,) = expand_filenames([path])
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._named(error, "open") from error
        self._closed = False
        self._pending += header

    def _named(self, error: OSError, what: str, **place: int) -> QueueCoreError:
        number = error.errno or 0
        return _os_error_class(number)(
            f"cannot {what} {os.fsdecode(self._path)!r}: {error.strerror or error}",
            errno=number,
            path=self._path,
            stage=_STAGE,
            **place,
        )

    def _append(self, records: int, *parts: bytes | bytearray | memoryview) -> None:
        # All the parts, or after an error none of them, are in the file.
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
        # What follows the last whole record goes: nobody should take it for one.
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


class TFRecordWriter(_RecordFile):
    """Writes a TFRecord file: records of any bytes, each with its length and checksums.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        The file. One that is there already is replaced.
    options : str, TFRecordOptions or other object with ``compression_type``, optional
        ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``; by default nothing is compressed. TensorFlow's own options will do.

    Raises
    ------
    InvalidArgumentError
        If the compression or its level is unknown.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If the operating system refuses the file. Also from `write`, `flush` and `close`: then `offset` is how far the
        file goes, and `record` (not if compressed) is the first record that is not in it. What was half written is cut
        off again, as far as the system allows, and the writer can't be used any more.
    UnimplementedError
        If there is no library for ZSTD.

    Notes
    -----
    A writer may be used from any number of threads: a record is never mixed with another. Records are collected, up to
    256 KiB, before they are written. Nothing is atomic: who reads the file before it is closed may find less.

    As ``tf.io.TFRecordWriter``, and its files are the same, byte for byte (but for compression).

    Examples
    --------
    >>> import os, tempfile
    >>> from queuecore.writers import TFRecordWriter
    >>> file = os.path.join(tempfile.mkdtemp(), "data.tfrecord")
    >>> with TFRecordWriter(file) as writer:
    ...     writer.write(b"one")
    ...     writer.write(b"")
    >>> os.path.getsize(file)
    35
    """

    def __init__(self, path: Filename, options: Any = None) -> None:
        super().__init__(path, _codec(compression_of(options), getattr(options, "compression_level", None)))

    def write(self, record: Buffer | np.ndarray[Any, Any]) -> None:
        """Add one record.

        Parameters
        ----------
        record : bytes-like
            Of any length, zero too. An array is written as it lies in memory, and must be C-contiguous.

        Raises
        ------
        DtypeError
            If it isn't bytes-like.
        FailedPreconditionError
            If the writer is closed, or an earlier write has failed.
        """
        data = _flat(record, "a record")
        header, footer = frame(data)
        self._append(1, header, data, footer)


class FixedLengthRecordWriter(_RecordFile):
    """Writes a file of fixed-length records, as `queuecore.data.FixedLengthRecordDataset` reads them.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        The file. One that is there already is replaced.
    record : dtype
        Of one record, structured or not, in the byte order of the file. Bytes that belong to no field are written as
        zeros.
    header, footer : bytes-like, default b""
        What stands before the first record and after the last one.

    Raises
    ------
    DtypeError, InvalidArgumentError
        If a file can't hold such records.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        As for `TFRecordWriter`.

    Notes
    -----
    May be used from any number of threads: the records of one call stay together.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from queuecore.writers import FixedLengthRecordWriter
    >>> record = np.dtype([("label", "u1"), ("value", ">f4")])
    >>> file = os.path.join(tempfile.mkdtemp(), "data.bin")
    >>> with FixedLengthRecordWriter(file, record) as writer:
    ...     writer.write(np.array([(1, 0.5), (2, 1.5)], [("label", "u1"), ("value", "f4")]))
    >>> np.fromfile(file, record)["value"].tolist()
    [0.5, 1.5]
    """

    def __init__(
        self,
        path: Filename,
        record: Any,
        header: Buffer = b"",
        footer: Buffer = b"",
    ) -> None:
        plan = compile_record(record)
        self._dtype = np.dtype(record)
        unused = np.ones(plan.record_bytes, np.bool_)
        for leaf in plan.leaves:
            for offset in leaf.offsets:
                unused[offset : offset + leaf.piece_bytes] = False
        self._unused = np.flatnonzero(unused)
        self._footer = bytes(_flat(footer, "footer"))
        super().__init__(path, None, bytes(_flat(header, "header")))

    def write(self, array: Any) -> None:
        """Add records.

        Parameters
        ----------
        array : array of the record's dtype, shape (...)
            In any byte order and memory layout. Where the record is itself an array, that shape comes last.

        Raises
        ------
        DtypeError, InvalidArgumentError
            If the array has other fields, dtypes or a shape that doesn't fit.
        FailedPreconditionError
            If the writer is closed, or an earlier write has failed.
        """
        base, inner = self._dtype.base, self._dtype.shape
        records = np.asarray(array)
        if not np.can_cast(records.dtype, base, "equiv"):
            raise DtypeError(f"the records of this file are {base}, not {records.dtype}")
        if inner and records.shape[-len(inner) :] != inner:
            raise InvalidArgumentError(f"an array of records of shape {inner} can't have the shape {records.shape}")
        items = np.ascontiguousarray(records, base).reshape(-1)
        rows = items.view(np.uint8).reshape(-1, self._dtype.itemsize)
        if len(self._unused):
            # Whatever memory held there is nobody's business.
            rows = rows.copy()
            rows[:, self._unused] = 0
        self._append(len(rows), _flat(rows, "records"))

    def close(self) -> None:
        """Write what is left, then the footer, and close the file. A second call does nothing."""
        self._close(self._footer)
