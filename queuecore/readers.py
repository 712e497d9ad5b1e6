"""Readers: the records of one file after the other, in the manner of TensorFlow 1, eager."""

from __future__ import annotations

from queuecore._readers.base import ReaderBase
from queuecore._readers.kinds import (
    FixedLengthRecordReader,
    IdentityReader,
    LMDBReader,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "LMDBReader",
    "ReaderBase",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
]

# Pickles and messages name them by this module.
for _one in (
    FixedLengthRecordReader,
    IdentityReader,
    LMDBReader,
    ReaderBase,
    TFRecordReader,
    TextLineReader,
    WholeFileReader,
):
    _one.__module__ = __name__
