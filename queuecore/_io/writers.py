"""Writers of record files: TFRecord files, and files of fixed-length records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from queuecore._core.io.tfrecord import frame
from queuecore._elements.record import compile_record
from queuecore._io.compression import codec_of, compression_of
from queuecore._io.names import Filename
from queuecore._io.record_file import RecordFile, flat
from queuecore.errors import DtypeError, InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FixedLengthRecordWriter", "TFRecordOptions", "TFRecordWriter"]


@dataclass(frozen=True)
class TFRecordOptions:
    """The compression of a TFRecord file.

    Parameters
    ----------
    compression_type : str, default ""
        ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``; ``""`` or ``"NONE"`` for none. Files of ``"LZ4"``, ``"XZ"`` and ``"BZ2"``
        are read, not written.
    compression_level : int, optional
        From 0 (GZIP, ZLIB: stored) to 9, or as far as ZSTD goes. By default the library's own choice.
    """

    compression_type: str = ""
    compression_level: int | None = None


class TFRecordWriter(RecordFile):
    """Writes a TFRecord file: records of any bytes, each with its length and checksums.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        The file, or a URL that fsspec can write. One that is there already is replaced.
    options : str, TFRecordOptions or other object with ``compression_type``, optional
        ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``; by default nothing is compressed. TensorFlow's own options will do.
    storage_options : dict, optional
        What fsspec needs to know to write to a URL: as of `queuecore.data.FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError
        If the compression or its level is unknown.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If the operating system, or a store, refuses the file. Also from `write`, `flush` and `close`: then `offset` is
        how far the file goes, and `record` (not if compressed) is the first record that is not in it. What was half
        written is cut off again, as far as the system allows, and the writer can't be used any more. Of a URL nothing
        is left, and `offset` and `record` say how far it had come.
    UnimplementedError
        If there is no library for ZSTD, files are not written with that compression, or fsspec doesn't write to such a
        URL, as ``https://``.

    Notes
    -----
    A writer may be used from any number of threads: a record is never mixed with another. Records are collected, up to
    256 KiB, before they are written. Nothing is atomic: who reads the file before it is closed may find less.

    A URL is written in the blocks of its library, to S3 as an upload of several parts, whose requests the library
    repeats where they fail. The file is there once `close` has returned, and whole. It isn't there at all, or is as it
    was before, if a write fails, if an exception leaves the ``with`` block, or if the writer is forgotten; a process
    that is killed may leave parts with the store, which no reader sees. Whether the store takes it is known when the
    first block is sent. A forked process can't go on with the writer of a URL.

    As ``tf.io.TFRecordWriter``, and its files are the same, byte for byte (but for compression).

    Examples
    --------
    >>> import os
    >>> from queuecore.writers import TFRecordWriter
    >>> with TFRecordWriter("data.tfrecord") as writer:
    ...     writer.write(b"one")
    ...     writer.write(b"")
    >>> os.path.getsize("data.tfrecord")
    35
    """

    def __init__(
        self, path: Filename, options: Any = None, *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        codec = codec_of(compression_of(options), getattr(options, "compression_level", None))
        super().__init__(path, codec, storage_options=storage_options)

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
        data = flat(record, "a record")
        header, footer = frame(data)
        self._append(1, header, data, footer)


class FixedLengthRecordWriter(RecordFile):
    """Writes a file of fixed-length records, as `queuecore.data.FixedLengthRecordDataset` reads them.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        The file, or a URL. One that is there already is replaced.
    record : dtype
        Of one record, structured or not, in the byte order of the file. Bytes that belong to no field are written as
        zeros.
    header, footer : bytes-like, default b""
        What stands before the first record and after the last one.
    storage_options : dict, optional
        As for `TFRecordWriter`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        If a file can't hold such records.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError, UnimplementedError
        As for `TFRecordWriter`.

    Notes
    -----
    May be used from any number of threads: the records of one call stay together. URLs are written as by
    `TFRecordWriter`.

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.writers import FixedLengthRecordWriter
    >>> record = np.dtype([("label", "u1"), ("value", ">f4")])
    >>> with FixedLengthRecordWriter("data.bin", record) as writer:
    ...     writer.write(np.array([(1, 0.5), (2, 1.5)], [("label", "u1"), ("value", "f4")]))
    >>> np.fromfile("data.bin", record)["value"].tolist()
    [0.5, 1.5]
    """

    def __init__(
        self,
        path: Filename,
        record: Any,
        header: Buffer = b"",
        footer: Buffer = b"",
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        plan = compile_record(record)
        self._dtype = np.dtype(record)
        unused = np.ones(plan.record_bytes, np.bool_)
        for leaf in plan.leaves:
            for offset in leaf.offsets:
                unused[offset : offset + leaf.piece_bytes] = False
        self._unused = np.flatnonzero(unused)
        self._footer = bytes(flat(footer, "footer"))
        super().__init__(path, None, bytes(flat(header, "header")), storage_options)

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
        self._append(len(rows), flat(rows, "records"))

    def close(self) -> None:
        """Write what is left, then the footer, and close the file. A second call does nothing."""
        self._close(self._footer)
