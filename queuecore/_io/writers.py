"""Writers of record files: TFRecord files, files of fixed-length records, and tar archives of samples."""

from __future__ import annotations

import tarfile
import threading
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

__all__ = ["FixedLengthRecordWriter", "TFRecordOptions", "TFRecordWriter", "TarWriter"]


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
        how far the file goes, and `record` (not if compressed) is the first record that is not in it. A record half
        written is cut off again, as far as the system allows, and the writer can't be used any more. Of a URL nothing
        is left, and `offset` and `record` say how far it had come.
    UnimplementedError
        If there is no library for ZSTD, files are not written with that compression, or fsspec doesn't write to such a
        URL, as ``https://``.

    Notes
    -----
    A writer may be used from any number of threads: a record is never mixed with another. Records are collected, up to
    256 KiB, before they are written. Nothing is atomic: a reader of the file before it is closed may find less.

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
            # The earlier content of that memory is nobody's business.
            rows = rows.copy()
            rows[:, self._unused] = 0
        self._append(len(rows), flat(rows, "records"))

    def close(self) -> None:
        """Write what is left, then the footer, and close the file. A second call does nothing."""
        self._close(self._footer)


class TarWriter(RecordFile):
    """Writes samples to a tar archive, as `queuecore.data.TarDataset` and WebDataset read them.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        The archive, or a URL. One that is there already is replaced.
    options : str, TFRecordOptions or other object with ``compression_type``, optional
        As for `TFRecordWriter`.
    storage_options : dict, optional
        As for `TFRecordWriter`.

    Raises
    ------
    InvalidArgumentError
        If the compression or its level is unknown.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError, UnimplementedError
        As for `TFRecordWriter`; a record is a sample.

    Notes
    -----
    May be used from any number of threads: the files of a sample stay together. URLs are written as by
    `TFRecordWriter`.

    The same samples give the same bytes: files have no time, and belong to nobody. Names are in UTF-8; those of more
    than 100 bytes get headers of POSIX (pax).

    Examples
    --------
    >>> from queuecore.writers import TarWriter
    >>> with TarWriter("train.tar") as writer:
    ...     writer.write({"__key__": "cat/0001", "txt": b"a cat", "cls": 3})
    ...     writer.write({"__key__": "dog/0001", "txt": "a dog", "cls": 7})
    >>> import tarfile
    >>> with tarfile.open("train.tar") as archive:
    ...     print(archive.getnames())
    ['cat/0001.txt', 'cat/0001.cls', 'dog/0001.txt', 'dog/0001.cls']
    """

    def __init__(
        self, path: Filename, options: Any = None, *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        codec = codec_of(compression_of(options), getattr(options, "compression_level", None))
        self._stem: str | None = None  # of the last sample
        self._naming = threading.Lock()
        super().__init__(path, codec, storage_options=storage_options)

    def write(self, sample: Mapping[str, Any]) -> None:
        """Add one sample.

        Parameters
        ----------
        sample : dict
            ``"__key__"``: its name, `str` or `bytes`, with slashes for folders, and no dot behind the last one. Each
            other key is the end of a file's name, in small letters: its content is bytes-like, a `str`, which becomes
            UTF-8, or an `int`, which becomes its digits.

        Raises
        ------
        DtypeError
            If a value is of another kind.
        InvalidArgumentError
            If a reader would find another sample: the name is that of the sample before it or can't be one, or a key
            can't be one, or there is no other key.
        FailedPreconditionError
            If the writer is closed, or an earlier write has failed.
        """
        stem = _stem_of(sample)
        parts: list[bytes | memoryview] = []
        for key, value in sample.items():
            if key == "__key__":
                continue
            if not isinstance(key, str) or not key or key != key.lower() or any(sign in key for sign in "/\0;"):
                raise InvalidArgumentError(f"{key!r} can't be the key of a file: small letters without '/', ';' or NUL")
            content = _content_of(value, key)
            member = tarfile.TarInfo(f"{stem}.{key}")
            member.size = len(content)
            header = member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            parts += (header, content, bytes(-len(content) % tarfile.BLOCKSIZE))
        if not parts:
            raise InvalidArgumentError(f"sample {stem!r} has no file: a key beside '__key__'")
        with self._naming:
            if stem == self._stem:
                raise InvalidArgumentError(f"two samples that follow each other are called {stem!r}: they would be one")
            self._stem = stem  # first: an exception must not let the name be written twice
            self._append(1, *parts)

    def close(self) -> None:
        """Write what is left and the archive's end, and close it. A second call does nothing."""
        self._close(bytes(2 * tarfile.BLOCKSIZE))


def _stem_of(sample: Any) -> str:
    if not isinstance(sample, Mapping):
        raise DtypeError(f"a sample must be a dict, not {type(sample).__name__}")
    name = sample.get("__key__")
    if isinstance(name, bytes):
        name = name.decode("utf-8", "surrogateescape")
    if not isinstance(name, str):
        raise DtypeError(f"a sample's '__key__' must be str or bytes, not {type(name).__name__}")
    last = name.rpartition("/")[2]
    if not last or "." in last or "\0" in name:
        raise InvalidArgumentError(f"{name!r} can't be the name of a sample: behind its last slash are letters, no dot")
    return name


def _content_of(value: Any, key: str) -> bytes | memoryview:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return b"%d" % value
    return flat(value, f"the content of {key!r}")
