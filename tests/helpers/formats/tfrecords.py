"""TFRecord files in plain Python, with somebody else's checksum: what the native core is held against."""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

HEADER, FRAME = 12, 16
LIMIT = 1 << 30

# 'one', '', 'three', as TensorFlow writes them.
KNOWN = [b"one", b"", b"three"]
KNOWN_BYTES = bytes.fromhex(
    "0300000000000000b099490e6f6e6501405508000000000000000029039807d8ea82a20500000000000000eab2043e74687265656023fb45"
)


class Fault(NamedTuple):
    """The first thing wrong with a stream."""

    error: str
    offset: int
    record: int


def checksum(data: bytes) -> bytes:
    """Masked CRC-32C, as the file has it."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def header(length: int) -> bytes:
    """What stands before data of that length."""
    return struct.pack("<Q", length) + checksum(struct.pack("<Q", length))


def stream(records: list[bytes]) -> bytes:
    """A file of these records."""
    return b"".join(header(len(data)) + data + checksum(data) for data in records)


def places(records: list[bytes]) -> list[int]:
    """Where each record starts, and where the last one ends."""
    starts = [0]
    for data in records:
        starts.append(starts[-1] + FRAME + len(data))
    return starts


def read(data: bytes, limit: int = LIMIT) -> tuple[list[tuple[int, int, bytes]], Fault | None]:
    """The records up to the first fault, as (offset, index, data), and that fault."""
    records: list[tuple[int, int, bytes]] = []
    position = 0
    while position < len(data):
        place = (position, len(records))
        if len(data) - position < HEADER:
            return records, Fault("TruncatedRecordError", *place)
        (length,) = struct.unpack_from("<Q", data, position)
        if data[position + 8 : position + HEADER] != checksum(data[position : position + 8]):
            return records, Fault("ChecksumError", *place)
        if length > limit:
            return records, Fault("RecordTooLargeError", *place)
        if len(data) - position < length + FRAME:
            return records, Fault("TruncatedRecordError", *place)
        record = data[position + HEADER : position + HEADER + length]
        if data[position + HEADER + length : position + FRAME + length] != checksum(record):
            return records, Fault("ChecksumError", *place)
        records.append((position, len(records), record))
        position += length + FRAME
    return records, None
