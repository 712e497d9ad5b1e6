"""``tf.python_io``: TFRecord files, written and read without a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import queuecore.data as eager
import queuecore.writers as writers
from queuecore._io.compression import compression_of

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
        return compression_of(options)


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


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Yield the records of a TFRecord file.

    Parameters
    ----------
    path : str, bytes or os.PathLike
    options : TFRecordOptions or str, optional

    Raises
    ------
    NotFoundError
        With the first record, if there is no such file.
    DataLossError
        At a damaged record.
    """
    with iter(eager.TFRecordDataset([path], compression_of(options) or None)) as records:
        yield from records
