"""Writers of record files: TFRecord files, and files of fixed-length records."""

from __future__ import annotations

from queuecore._io.writers import FixedLengthRecordWriter, TFRecordOptions, TFRecordWriter

__all__ = [
    "FixedLengthRecordWriter",
    "TFRecordOptions",
    "TFRecordWriter",
]

# Pickles and messages name these classes by this module.
for _one in (FixedLengthRecordWriter, TFRecordOptions, TFRecordWriter):
    _one.__module__ = __name__
