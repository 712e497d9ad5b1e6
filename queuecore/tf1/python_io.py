"""``tf.python_io``: TFRecord files, written and read without a graph."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import queuecore.data as eager
import queuecore.writers as writers
from queuecore._io import remote
from queuecore._io.compression import compression_of
from queuecore._io.names import name_to_read
from queuecore.errors import DataLossError, FailedPreconditionError, InvalidArgumentError, os_error
from queuecore.tf1._graph.texts import before

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


class TFRecordCompressionType:
    """The compression of a TFRecord file."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """The compression of a TFRecord file.

    Parameters
    ----------
    compression_type : str or int, optional
        ``"GZIP"``, ``"ZLIB"`` or ``""``, or a number of `TFRecordCompressionType`. Default: none.
    compression_level : int, optional
        From 0 to 9. Default: the library's own choice.
    **unused
        TensorFlow's other options are accepted, and not used.

    Raises
    ------
    ValueError
        If there is no such compression.
    """

    compression_type_map: ClassVar[dict[int, str]] = {0: "", 1: "ZLIB", 2: "GZIP"}

    def __init__(self, compression_type: Any = None, *, compression_level: int | None = None, **unused: Any) -> None:
        del unused
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.compression_level = compression_level

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Return the compression that options, a word or a number ask for: ``""``, ``"ZLIB"`` or ``"GZIP"``."""
        try:
            return compression_of(options)
        except InvalidArgumentError as error:
            before(error, f'Not a valid compression_type: "{options}"')
            raise


class TFRecordWriter(writers.TFRecordWriter):
    """Writes a TFRecord file: see `queuecore.TFRecordWriter`.

    Parameters
    ----------
    path : str, bytes or os.PathLike
    options : TFRecordOptions or str, optional
    """

    def write(self, record: Any) -> None:
        """Add one record: bytes, or text, which becomes UTF-8."""
        super().write(record.encode() if isinstance(record, str) else record)


class RecordIterator:
    """The records of a TFRecord file, one after the other.

    Parameters
    ----------
    path : str, bytes or os.PathLike
    options : TFRecordOptions or str, optional

    Raises
    ------
    NotFoundError
        If there is no such file.
    DataLossError
        Of `next`, at a damaged record.

    Notes
    -----
    An end isn't for ever: once the file has become longer, `next` goes on behind the records that were read, also
    where the last one was cut. A compressed file must be complete, as nobody can tell one that grows from a cut one.
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        self._path = name_to_read(os.fsencode(path))
        self._dataset = eager.TFRecordDataset([path], compression_of(options) or None)
        self._count = 0
        self._records: Any = None
        self._ended: Exception | None = None
        self._open()

    def _facts(self) -> tuple[int, int, int]:
        try:
            if remote.is_url(self._path):
                return 0, 0, remote.look(self._path, None)[0]
            found = os.stat(self._path)
        except OSError as error:
            raise os_error(error.errno, f"{os.fsdecode(self._path)}; ", path=self._path) from (error.__cause__ or error)
        return found.st_dev, found.st_ino, found.st_size

    def _open(self) -> None:
        self._facts_read = self._facts()
        self._records = iter(self._dataset.skip(self._count) if self._count else self._dataset)

    def __iter__(self) -> RecordIterator:
        """Return itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next record."""
        if self._records is None:
            raise FailedPreconditionError("Reader is closed.")
        if self._ended is not None:
            facts = self._facts()
            if facts == self._facts_read or facts[:2] != self._facts_read[:2]:
                raise self._ended
            self.reopen()
        try:
            found: bytes = next(self._records)
        except (StopIteration, DataLossError) as error:
            self._ended = error
            raise
        self._count += 1
        return found

    def close(self) -> None:
        """Close the file."""
        if self._records is not None:
            self._records.close()
            self._records = None

    def reopen(self) -> None:
        """Open the file anew, behind the records that were read: it may be another one, or have become longer."""
        self.close()
        self._ended = None
        self._open()


def tf_record_iterator(path: Any, options: Any = None) -> RecordIterator:
    """Return an iterator over the records of a TFRecord file: see `RecordIterator`."""
    return RecordIterator(path, options)
