"""Writers of record files: TFRecord files, files of fixed-length records, and tar archives of samples."""

from __future__ import annotations

from queuecore._io.writers import FixedLengthRecordWriter, TarWriter, TFRecordOptions, TFRecordWriter

__all__ = [
    "FixedLengthRecordWriter",
    "TFRecordOptions",
    "TFRecordWriter",
    "TarWriter",
]

# Pickles and messages name these classes by this module.
for _one in (FixedLengthRecordWriter, TFRecordOptions, TFRecordWriter, TarWriter):
    _one.__module__ = __name__
