"""Readers: the records of one file after the other, in the manner of TensorFlow 1, eager."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from queuecore._compression import encoding_number
from queuecore._core.readers import NativeReader
from queuecore._core.tfrecord import MAX_RECORD_BYTES
from queuecore._lmdb import LmdbRecords
from queuecore._stages import BYTES, Component
from queuecore.errors import DtypeError, InvalidArgumentError, OutOfRangeError, UnimplementedError
from queuecore.queues import QueueBase, _check_index
from queuecore.ragged import Ragged
from queuecore.writers import compression_of

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "LMDBReader",
    "ReaderBase",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
]


class ReaderBase:
    """What all readers have in common. Make one of the classes below, not this one.

    A reader takes *work units*, names of files, and gives their records, each with a key. It takes the next unit when
    the last one is at its end, from whichever `work` the call names.

    Notes
    -----
    Every call may come from any thread. One thread at a time reads; others wait for it, without the GIL, also while it
    waits for its next work unit. The counters don't wait.

    A file that can't be opened or read raises; it is given up then, and the next call goes on with the next one. After
    a record whose checksum doesn't match, the next call gives the one after it.
    Readers can't be used in a forked child (`ForkedPipelineError`).
    """

    __slots__ = ("_iterator", "_native", "_text", "_work")

    _value_bytes: int | None = None
    _serializes = False

    def __init__(self, native: NativeReader | LmdbRecords, text: str) -> None:
        self._native = native
        self._text = text
        self._work: Any = None
        self._iterator: Iterator[Any] | None = None

    def __repr__(self) -> str:
        """Return the class and its options."""
        return self._text

    def read(self, work: QueueBase | Iterable[Any]) -> tuple[bytes, bytes]:
        """Return the next record.

        Parameters
        ----------
        work : QueueBase or iterable
            Names of files: a queue of one component of strings, or anything that can be iterated over. The reader keeps
            the iterator of the last one, so that a list that is given again goes on where it was.

        Returns
        -------
        key : bytes
            Which record it is: the file's name, a colon and a number, or the name alone.
        value : bytes
            The record.

        Raises
        ------
        OutOfRangeError
            If there is no more work: the queue is closed and empty, or the iterable is at its end.
        InvalidArgumentError
            If `work` is no such thing, or one of its elements no single string.
        NotFoundError, PermissionDeniedError, UnavailableError
            If a file can't be opened or read.
        DataLossError
            If a file is damaged, ends in the middle of its header, or was changed while it was read.
        RecordTooLargeError
            If a record is longer than the reader's limit.

        Notes
        -----
        Waits for the disk, and for names to come. Empty files are passed over.
        """
        return self._native.read(self._next_name(work))

    def read_up_to(self, work: QueueBase | Iterable[Any], num_records: SupportsIndex) -> tuple[Ragged, Ragged]:
        """Return the next records of one work unit.

        Parameters
        ----------
        work : QueueBase or iterable
            As of `read`.
        num_records : int
            How many at most, at least 1. There are fewer at the end of a file, and where the next one would have to be
            waited for (`retries`, `allow_special`), but never none.

        Returns
        -------
        keys, values : Ragged
            Of bytes, equally long. What `queuecore.ops` take as a batch, without a copy.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, DataLossError, RecordTooLargeError
            As `read`.
        NotFoundError, PermissionDeniedError, UnavailableError
            As `read`. An error after the first record is raised by the next call.
        """
        count = _count(num_records, "num_records", 1)
        keys, key_splits, values, splits = self._native.read_up_to(self._next_name(work), count)
        return Ragged(keys.view("S1"), key_splits), Ragged(values.view("S1"), splits)

    def num_records_produced(self) -> int:
        """Return how many records were read so far."""
        return self._native.produced

    def num_work_units_completed(self) -> int:
        """Return how many work units are done; those that failed don't count."""
        return self._native.completed

    def reset(self) -> None:
        """Forget the file in progress, and begin to count anew."""
        self._native.reset()

    @property
    def supports_serialize(self) -> bool:
        """Whether `serialize_state` and `restore_state` work: of readers for which a file is one record."""
        return self._serializes

    def serialize_state(self) -> bytes:
        """Return the counters and the last work unit, for `restore_state`; in TensorFlow's format.

        Raises
        ------
        UnimplementedError
            Unless `supports_serialize`.
        """
        self._check_serializes()
        done, produced, last = self._native.state()
        fields = [_varint(tag) + _varint(value) for tag, value in ((8, done), (16, done), (24, produced)) if value]
        if last:
            fields.append(b"\x22" + _varint(len(last)) + last)
        return b"".join(fields)

    def restore_state(self, state: bytes) -> None:
        """Set the counters and the last work unit to what `serialize_state` returned.

        Raises
        ------
        UnimplementedError
            Unless `supports_serialize`.
        InvalidArgumentError
            If `state` is no such thing. The reader is reset then.
        """
        self._check_serializes()
        try:
            started, done, produced, last = _parse_state(state)
        except (IndexError, ValueError) as error:
            self.reset()
            raise InvalidArgumentError(f"{self!r}: {state!r:.60} is no reader's state: {error}") from error
        if min(done, produced) < 0 or started != done:
            self.reset()
            raise InvalidArgumentError(
                f"{self!r}: a state with {started} units begun, {done} done and {produced} records can't be"
            )
        self._native.reset(done, produced, last)

    def _check_serializes(self) -> None:
        if not self._serializes:
            raise UnimplementedError(f"{self!r} can't save its place inside a file")

    def _components(self) -> tuple[Component, Component]:
        return Component(BYTES, (), name="key"), Component(BYTES, (), self._value_bytes, "value")

    def _next_name(self, work: Any) -> Callable[[], bytes]:
        """Return a function that returns the next name."""
        if isinstance(work, QueueBase):
            _check_names_queue(work)

            def take() -> Any:
                return work.dequeue()
        else:
            _check_names(work)

            def take() -> Any:
                if self._iterator is None or self._work is not work:
                    self._work, self._iterator = work, iter(work)
                try:
                    return next(self._iterator)
                except StopIteration:
                    raise OutOfRangeError("the work of this reader is at its end") from None

        return lambda: _name(take())


def _varint(value: int) -> bytes:
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _parse_state(state: bytes) -> tuple[int, int, int, bytes]:
    """Return what the fields 1 to 4 of a protobuf message hold; IndexError, ValueError: it is none."""
    numbers = {1: 0, 2: 0, 3: 0}
    last = b""
    at = 0

    def varint() -> int:
        nonlocal at
        value = 0
        for shift in range(0, 70, 7):
            byte = state[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value ^ 1 << 63) - (1 << 63) if value < 1 << 64 else _no_state("a number is too large")
        return _no_state("a number has no end")

    while at < len(state):
        tag = varint()
        if tag in (0o10, 0o20, 0o30):
            numbers[tag >> 3] = varint()
        elif tag == 0o42:
            length = varint()
            if not 0 <= length <= len(state) - at:
                _no_state("a string ends too early")
            last, at = bytes(state[at : at + length]), at + length
        else:
            _no_state(f"there is a field {tag >> 3} of kind {tag & 7}")
    return numbers[1], numbers[2], numbers[3], last


def _no_state(words: str) -> NoReturn:
    raise ValueError(words)


def _check_names(work: Any) -> None:
    if isinstance(work, (str, bytes, os.PathLike)) or not hasattr(work, "__iter__"):
        raise InvalidArgumentError(f"work must be a queue or an iterable of file names, not {work!r}")


def _check_names_queue(queue: QueueBase) -> None:
    if len(queue.dtypes) != 1 or queue.names is not None:
        raise InvalidArgumentError(f"work must be a queue of single components, and {queue.name!r} is not")
    if queue.dtypes[0].kind not in "SUO":
        raise InvalidArgumentError(f"work must be a queue of strings, and {queue.name!r} has {queue.dtypes[0]}")


def _name(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise InvalidArgumentError(f"a work unit must be one string, not an array of shape {list(value.shape)}")
        value = value.item()
    try:
        return bytes(os.fsencode(value))  # also of a subclass
    except TypeError as error:
        raise DtypeError(f"a work unit must be the name of a file, not {value!r}") from error


def _count(value: SupportsIndex, label: str, least: int = 0) -> int:
    count = _check_index(value, label)
    if count < least:
        raise InvalidArgumentError(f"{label} must be at least {least}, not {count}")
    return count


# For numbers that native code adds to.
_NO_LIMIT = 1 << 62


def _limit(value: SupportsIndex | None) -> int:
    limit = _NO_LIMIT - 1 if value is None else _count(value, "max_record_bytes")
    if limit >= _NO_LIMIT:
        raise InvalidArgumentError(f"max_record_bytes must be a number of bytes, not {limit}")
    return limit


def _tries(value: SupportsIndex) -> int:
    return min(_count(value, "retries"), 2**31 - 1)


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
        How files are compressed: ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``. All lengths are those of the decompressed bytes.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. What was read is gone from them.
        Otherwise they are refused (`UnavailableError`) without waiting for anybody.
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
    The key is ``name:i``, i counting the records of the file from 0. What is left at a file's end, no whole record, is
    left out. A file that ends inside its header is damaged (`TruncatedRecordError`); in TensorFlow it ends the data.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.bin")
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
        name: str | None = None,
    ) -> None:
        del name
        number = encoding_number(encoding, "encoding")
        length = _count(record_bytes, "record_bytes", 1)
        header = _count(header_bytes, "header_bytes")
        footer = _count(footer_bytes, "footer_bytes")
        hop = _count(hop_bytes, "hop_bytes") or length
        self._value_bytes = length
        tries, special = _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader("fixed", length, header, footer, hop, number, retries=tries, allow_special=special),
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
        How long a line may be, without its end. What is longer is refused (`RecordTooLargeError`), and no more of it
        than that is ever in memory.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. What was read is gone from them.
        Otherwise they are refused (`UnavailableError`) without waiting for anybody.
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
        name: str | None = None,
    ) -> None:
        del name
        skip, limit = _count(skip_header_lines, "skip_header_lines"), _limit(max_record_bytes)
        tries, special = _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader("lines", 0, skip, max_record_bytes=limit, retries=tries, allow_special=special),
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
        ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``, if the files are compressed.
    resync : bool, default False
        Whether to look for the next record where a length is damaged, instead of giving up the rest of the file.
    max_record_bytes : int, default 1 GiB
        How long a record may be. A length has a checksum of its own, so one beyond that is rather a long record than
        damage: `RecordTooLargeError`, and the rest of the file is given up. Nothing is allocated for it.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. What was read is gone from them.
        Otherwise they are refused (`UnavailableError`) without waiting for anybody.
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
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.tfrecord")
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
        name: str | None = None,
    ) -> None:
        del name
        word, limit = compression_of(options), _limit(max_record_bytes)
        number = encoding_number(word)
        search, tries, special = bool(resync), _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader(
                "tfrecord",
                encoding=number,
                resync=search,
                max_record_bytes=limit,
                retries=tries,
                allow_special=special,
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
    max_record_bytes : int, optional
        How long a file may be; a longer one is refused (`RecordTooLargeError`) before any of it is read. Without it
        there is no limit: a file has the size that whoever names it knows. A device may have no end, so give one with
        `allow_special`.
    retries : int, default 0
        How often a read that fails with an I/O error (``EIO``) is tried again, after 10 ms, 20 ms and so on, 100 ms at
        most. Ctrl-C, or a program's stop, ends the wait.
    allow_special : bool, default False
        Read pipes and devices too, to their end: a pipe's is that of its last writer. What was read is gone from them.
        Otherwise they are refused (`UnavailableError`) without waiting for anybody.
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
        max_record_bytes: SupportsIndex | None = None,
        retries: SupportsIndex = 0,
        allow_special: bool = False,
        name: str | None = None,
    ) -> None:
        del name
        limit, tries, special = _limit(max_record_bytes), _tries(retries), bool(allow_special)
        super().__init__(
            NativeReader("whole", max_record_bytes=limit, retries=tries, allow_special=special),
            _text(
                "WholeFileReader",
                max_record_bytes=(limit, _limit(None)),
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

    def __init__(self, *, name: str | None = None) -> None:
        del name
        super().__init__(NativeReader("identity"), "IdentityReader()")


class LMDBReader(ReaderBase):
    """Records of LMDB databases, in the order of their keys.

    Parameters
    ----------
    name : str, optional
        Not used.

    Raises
    ------
    UnimplementedError
        If the package is missing: ``pip install 'queuecore[lmdb]'``.

    Notes
    -----
    A work unit is the path of an environment: a folder with a ``data.mdb``, or such a file itself. Its unnamed database
    is read. Keys and values are the database's own.

    It reads through the `lmdb` package, with the GIL, so it can't be that of a `StageProgram`. Nothing is locked, as in
    TensorFlow. A database that is written to while it is read raises `SourceChangedError`, and its bytes are never
    mixed. LMDB maps its files into memory and trusts them: one that is cut is refused (`TruncatedRecordError`), as is
    one whose damage shows; but if somebody shortens it in the very moment in which it is read, the process ends. Data
    from others, that nobody has checked, are better kept in TFRecords.

    Examples
    --------
    >>> import tempfile
    >>> import lmdb
    >>> import queuecore as qc
    >>> folder = tempfile.mkdtemp()
    >>> with lmdb.open(folder) as environment, environment.begin(write=True) as transaction:
    ...     _ = transaction.put(b"key", b"value")
    >>> qc.LMDBReader().read([folder])
    (b'key', b'value')
    """

    def __init__(self, *, name: str | None = None) -> None:
        del name
        super().__init__(LmdbRecords(), "LMDBReader()")
