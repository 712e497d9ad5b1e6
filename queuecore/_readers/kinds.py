"""The kinds of readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from queuecore._core.io.readers import FIXED, IDENTITY, LINES, TFRECORD, WHOLE, Framing, NativeReader
from queuecore._core.io.tfrecord import MAX_RECORD_BYTES
from queuecore._io.compression import compression_of, encoding_number
from queuecore._io.lmdb import LmdbRecords
from queuecore._io.names import local_name
from queuecore._io.remote import store_of
from queuecore._readers.base import ReaderBase, check_count
from queuecore.errors import InvalidArgumentError

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "LMDBReader",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
]

# For numbers that native code adds to.
_NO_LIMIT = 1 << 62
# Far above any file, and sums of a few of these fit 64 bits.
_MOST_BYTES = 1 << 56


def _bytes(value: SupportsIndex, label: str, least: int = 0) -> int:
    number = check_count(value, label, least)
    if number > _MOST_BYTES:
        raise InvalidArgumentError(f"{label} must be at most {_MOST_BYTES}, not {number}")
    return number


def _limit(value: SupportsIndex | None) -> int:
    limit = _NO_LIMIT - 1 if value is None else check_count(value, "max_record_bytes")
    if limit >= _NO_LIMIT:
        raise InvalidArgumentError(f"max_record_bytes must be a number of bytes, not {limit}")
    return limit


def _tries(value: SupportsIndex) -> int:
    return min(check_count(value, "retries"), 2**31 - 1)


def _text(name: str, *parts: str, **options: tuple[Any, Any]) -> str:
    """Return a reader's repr: its options are pairs, what they are and what they are usually."""
    shown = [f"{label}={value!r}" for label, (value, usual) in options.items() if value != usual]
    return f"{name}({', '.join([*parts, *shown])})"


class FixedLengthRecordReader(ReaderBase):
    """Records of one length.

    Parameters
    ----------
    record_bytes : int
        Length of a record, at least 1.
    header_bytes, footer_bytes : int, default 0
        At the beginning and the end of each file, left out.
    hop_bytes : int, default 0
        From the beginning of a record to that of the next; 0: `record_bytes`. Less: they overlap; more: there are gaps.
    encoding : str, optional
        How files are compressed: ``"GZIP"``, ``"ZLIB"``, ``"ZSTD"``, ``"LZ4"``, ``"XZ"`` or ``"BZ2"``. All lengths are
        those of the decompressed bytes.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. Bytes that were read are gone
        from them. Otherwise they are refused (`UnavailableError`) without waiting for anybody.
    storage_options : dict, optional
        What fsspec needs to know to open names that are URLs: as of `queuecore.data.FixedLengthRecordDataset`.
    name : str, optional
        Not used.

    Raises
    ------
    InvalidArgumentError
        If a number is too small, or `encoding` another word.
    UnimplementedError
        If no library for the encoding is found.

    Notes
    -----
    The key is ``name:i``, i counting the records of the file from 0. A rest at a file's end, no whole record, is
    left out. A file that ends inside its header is damaged (`TruncatedRecordError`); in TensorFlow it ends the data.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("a.bin")
    >>> _ = file.write_bytes(b"abcdef")
    >>> reader = qc.FixedLengthRecordReader(3)
    >>> names = [file]
    >>> reader.read(names)[1], reader.read(names)[1]
    (b'abc', b'def')
    """

    def __init__(
        self,
        record_bytes: SupportsIndex,
        header_bytes: SupportsIndex = 0,
        footer_bytes: SupportsIndex = 0,
        hop_bytes: SupportsIndex = 0,
        encoding: str | None = None,
        *,
        retries: SupportsIndex = 0,
        allow_special: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        del name
        number = encoding_number(encoding, "encoding")
        length = _bytes(record_bytes, "record_bytes", 1)
        header = _bytes(header_bytes, "header_bytes")
        footer = _bytes(footer_bytes, "footer_bytes")
        hop = _bytes(hop_bytes, "hop_bytes") or length
        self._value_bytes = length
        tries, special = _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader(
                Framing(FIXED, length, header, footer, hop),
                number,
                retries=tries,
                allow_special=special,
                store=store_of(storage_options),
            ),
            _text(
                "FixedLengthRecordReader",
                str(length),
                header_bytes=(header, 0),
                footer_bytes=(footer, 0),
                hop_bytes=(hop, length),
                encoding=(encoding or None, None),
                retries=(tries, 0),
                allow_special=(special, False),
            ),
        )


class TextLineReader(ReaderBase):
    r"""Lines of text files.

    Parameters
    ----------
    skip_header_lines : int, default 0
        Lines at the beginning of each file that are left out.
    max_record_bytes : int, default 64 MiB
        How long a line may be, without its end. A longer one is refused (`RecordTooLargeError`), and no more of it
        than that is ever in memory.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. Bytes that were read are gone
        from them. Otherwise they are refused (`UnavailableError`) without waiting for anybody.
    storage_options : dict, optional
        What fsspec needs to know to open names that are URLs: as of `queuecore.data.FixedLengthRecordDataset`.
    name : str, optional
        Not used.

    Raises
    ------
    InvalidArgumentError
        If a number is negative.

    Notes
    -----
    The key is ``name:i``, i counting the lines of the file from 1, those of the header included. Lines come without
    their end, ``\n`` or ``\r\n``. The last one needs none.
    """

    def __init__(
        self,
        skip_header_lines: SupportsIndex = 0,
        *,
        max_record_bytes: SupportsIndex = 64 << 20,
        retries: SupportsIndex = 0,
        allow_special: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        del name
        skip, limit = check_count(skip_header_lines, "skip_header_lines"), _limit(max_record_bytes)
        tries, special = _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader(
                Framing(LINES, header_bytes=skip),
                max_record_bytes=limit,
                retries=tries,
                allow_special=special,
                store=store_of(storage_options),
            ),
            _text(
                "TextLineReader",
                skip_header_lines=(skip, 0),
                max_record_bytes=(limit, 64 << 20),
                retries=(tries, 0),
                allow_special=(special, False),
            ),
        )


class TFRecordReader(ReaderBase):
    """Records of TFRecord files, their checksums checked.

    Parameters
    ----------
    options : str or object with ``compression_type``, optional
        ``"GZIP"``, ``"ZLIB"``, ``"ZSTD"``, ``"LZ4"``, ``"XZ"`` or ``"BZ2"``, if the files are compressed.
    resync : bool, default False
        Whether to look for the next record where a length is damaged, instead of giving up the rest of the file.
    max_record_bytes : int, default 1 GiB
        How long a record may be. A length has a checksum of its own, so one beyond that is rather a long record than
        damage: `RecordTooLargeError`, and the rest of the file is given up. Nothing is allocated for it.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. Bytes that were read are gone
        from them. Otherwise they are refused (`UnavailableError`) without waiting for anybody.
    storage_options : dict, optional
        What fsspec needs to know to open names that are URLs: as of `queuecore.data.FixedLengthRecordDataset`.
    name : str, optional
        Not used.

    Raises
    ------
    InvalidArgumentError
        If the compression is another word, or a number is negative.
    UnimplementedError
        If no library for it is found.

    Notes
    -----
    The key is ``name:i``, i being the byte at which the record starts, after decompression. A record whose data are
    damaged raises (`ChecksumError`), and the next call goes on after it. Where a length is damaged, or the file ends
    inside a record (`TruncatedRecordError`), the rest of the file is given up, and the next call begins the next one.
    TensorFlow repeats the error until `reset`, and takes a file that ends inside a length for a whole one.

    With `resync`, the next call goes on at the next 12 bytes that are a length that can be and its checksum. TFRecords
    inside the data of a damaged record are found too: nothing tells them from others.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("a.tfrecord")
    >>> with qc.TFRecordWriter(file) as writer:
    ...     _ = writer.write(b"one")
    >>> qc.TFRecordReader().read([file])[1]
    b'one'
    """

    def __init__(
        self,
        options: Any = None,
        *,
        resync: bool = False,
        max_record_bytes: SupportsIndex = MAX_RECORD_BYTES,
        retries: SupportsIndex = 0,
        allow_special: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        del name
        word, limit = compression_of(options), _limit(max_record_bytes)
        number = encoding_number(word)
        search, tries, special = bool(resync), _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader(
                Framing(TFRECORD),
                encoding=number,
                resync=search,
                max_record_bytes=limit,
                retries=tries,
                allow_special=special,
                store=store_of(storage_options),
            ),
            _text(
                "TFRecordReader",
                *([repr(word)] if word else []),
                resync=(search, False),
                max_record_bytes=(limit, MAX_RECORD_BYTES),
                retries=(tries, 0),
                allow_special=(special, False),
            ),
        )


class WholeFileReader(ReaderBase):
    """Whole files: the key is the name, the value all that is in it.

    Parameters
    ----------
    max_record_bytes : int or None, default 1 GiB
        How long a file may be; a longer one is refused (`RecordTooLargeError`) before any of it is read. `None`: of any
        length.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. Bytes that were read are gone
        from them. Otherwise they are refused (`UnavailableError`) without waiting for anybody.
    storage_options : dict, optional
        What fsspec needs to know to open names that are URLs: as of `queuecore.data.FixedLengthRecordDataset`.
    name : str, optional
        Not used.

    Raises
    ------
    InvalidArgumentError
        If a number is negative.
    """

    _serializes = True

    def __init__(
        self,
        *,
        max_record_bytes: SupportsIndex | None = MAX_RECORD_BYTES,
        retries: SupportsIndex = 0,
        allow_special: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        del name
        limit, tries, special = _limit(max_record_bytes), _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader(
                Framing(WHOLE),
                max_record_bytes=limit,
                retries=tries,
                allow_special=special,
                store=store_of(storage_options),
            ),
            _text(
                "WholeFileReader",
                max_record_bytes=(limit, MAX_RECORD_BYTES),
                retries=(tries, 0),
                allow_special=(special, False),
            ),
        )


class IdentityReader(ReaderBase):
    """The names themselves, as key and as value; no file is opened.

    Parameters
    ----------
    name : str, optional
        Not used.
    """

    _serializes = True
    _opens = False

    def __init__(self, *, name: str | None = None) -> None:
        del name
        super().__init__(NativeReader(Framing(IDENTITY)), "IdentityReader()")


class LMDBReader(ReaderBase):
    """Records of LMDB databases, in the order of their keys.

    Parameters
    ----------
    name : str, optional
        Not used.

    Notes
    -----
    A work unit is the path of an environment: a folder with a ``data.mdb``, or such a file itself; no URL. Its unnamed
    database is read. Keys and values are the database's own.

    It reads the files of LMDB 0.9 and 1.0 by itself, page by page, with the GIL, so it can't be that of a
    `StageProgram`. Nothing is mapped, and nothing locked, as in TensorFlow. When a transaction is committed while a
    database is read, the records of pages that were read before it still come, then a `SourceChangedError`; bytes of
    two transactions are never mixed. Every number in a file is checked before it is used: one that is cut raises
    `TruncatedRecordError` where a page is missing, other damage `DataLossError`, and a key or a value takes no more
    memory than the file has bytes. Files of machines of another byte order, and encrypted ones, are refused.

    Examples
    --------
    >>> import lmdb  # which writes one; the reader doesn't need it
    >>> import queuecore as qc
    >>> with lmdb.open("pairs") as environment, environment.begin(write=True) as transaction:
    ...     _ = transaction.put(b"key", b"value")
    >>> qc.LMDBReader().read(["pairs"])
    (b'key', b'value')
    """

    def __init__(self, *, name: str | None = None) -> None:
        del name
        super().__init__(LmdbRecords(), "LMDBReader()")

    def _local(self, unit: bytes) -> bytes:
        return local_name(unit)
