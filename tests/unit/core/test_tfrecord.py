"""TFRecord framing: the same records from blocks of every size, with and without knowing how long the stream is."""

import random

import pytest
from helpers.formats.tfrecords import FRAME, KNOWN, KNOWN_BYTES, header, places, read, stream

from queuecore._core.io.tfrecord import RecordScan, frame

parsers = pytest.importorskip("queuecore._core.testing.parsers")

RECORDS = [b"one", b"", b"three", b"x" * 40, b"", b"", bytes(range(256)), b"\0" * 30, b"end"]


class Source:
    """Gives at most so many bytes a call."""

    def __init__(self, data, most=None):
        self.left, self.most = memoryview(data), most

    def readinto(self, into):
        n = min(len(into), len(self.left), self.most or len(into))
        into[:n], self.left = self.left[:n], self.left[n:]
        return n


def test_the_helper_writes_what_tensorflow_writes():
    assert stream(KNOWN) == KNOWN_BYTES


def test_frames_are_those_of_tensorflow():
    assert b"".join(first + data + last for data in KNOWN for first, last in [frame(data)]) == KNOWN_BYTES


@pytest.mark.parametrize("n", [0, 1, 7, 8, 191, 192, 255, 256, 3072, 100_000])
def test_frames_of_any_length(n):
    data = random.Random(n).randbytes(n)
    first, last = frame(data)
    assert first + data + last == stream([data])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("most", [1, 2, 1000])
def test_every_block_size(known, most):
    data = stream(RECORDS)
    expected, fault = read(data)
    assert fault is None
    for block in [*range(1, 65), 300, len(data), 10_000]:
        records, faults, wanted = parsers.tfrecord_read(data, block, most, known)
        assert faults == []
        assert records == expected, block
        # Never more than the longest record with its frame.
        assert wanted <= max(block, 256 + FRAME)


def test_nothing_at_all():
    for known in (True, False):
        assert parsers.tfrecord_read(b"", 10, is_known=known)[:2] == ([], [])


def test_concatenated_files_are_one():
    data = stream(RECORDS) + stream(KNOWN)
    assert [one[2] for one in parsers.tfrecord_read(data, 50)[0]] == RECORDS + KNOWN


def test_without_checks_damage_goes_through():
    data = bytearray(stream(KNOWN))
    data[8] ^= 1  # the checksum of a length
    data[12] ^= 1  # data
    assert parsers.tfrecord_read(bytes(data), 50)[1]
    records, faults, _ = parsers.tfrecord_read(bytes(data), 50, check=False)
    assert faults == []
    assert [one[2] for one in records] == [b"nne", b"", b"three"]


def test_the_limit_is_exact():
    data = stream([b"x" * 100])
    assert parsers.tfrecord_read(data, 10, max_record_bytes=100)[1] == []
    (error,) = parsers.tfrecord_read(data, 10, max_record_bytes=99)[1]
    assert type(error).__name__ == "RecordTooLargeError"
    # A limit above all lengths that can be is as good as none.
    assert parsers.tfrecord_read(data, 10, max_record_bytes=2**63 - 1)[1] == []
    (error,) = parsers.tfrecord_read(header(2**63 - 1), 10, max_record_bytes=2**63 - 1)[1]
    assert type(error).__name__ == "RecordTooLargeError"


@pytest.mark.sampled(16)
@pytest.mark.parametrize("block", [*range(1, 40), 1000, 1 << 20])
@pytest.mark.parametrize("known", [True, False])
def test_a_scan_sees_every_record(block, known):
    rng = random.Random(block)
    records = [rng.randbytes(rng.choice([0, 3, 50, 2000])) for _ in range(600)]
    data = stream(records)
    scan = RecordScan(Source(data, rng.choice([None, 1, 100])), b"x", len(data) if known else -1, block_bytes=block)
    assert scan.next_fault() is None
    assert (scan.records, scan.nbytes, scan.offset) == (600, sum(map(len, records)), len(data))
    assert scan.next_fault() is None


def test_a_scan_goes_on_after_faults():
    records = [bytes([n]) * 30 for n in range(1, 10)]
    starts = places(records)
    data = bytearray(stream(records))
    data[starts[1] + 20] ^= 1  # data
    data[starts[4]] ^= 1  # a length
    data[starts[6] + 8] ^= 1  # its checksum
    data = data[:-1]
    for block in (12, 46, 50, 100, 1000):
        for known in (True, False):
            scan = RecordScan(Source(data), b"x", len(data) if known else -1, block_bytes=block)
            faults = iter(scan.next_fault, None)
            found = [(type(error).__name__, error.record, error.offset, resumed) for error, resumed in faults]
            assert found == [
                ("ChecksumError", 1, starts[1], starts[2]),
                ("ChecksumError", 4, starts[4], starts[5]),
                ("ChecksumError", 6, starts[6], starts[7]),
                ("TruncatedRecordError", 8, starts[8], None),
            ]
            assert scan.records == 5


def test_a_source_that_fails_ends_the_scan():
    class Failing(Source):
        def readinto(self, into):
            if not self.left:
                raise OSError("gone")
            return super().readinto(into)

    scan = RecordScan(Failing(stream(KNOWN)[:-1]), b"x")
    with pytest.raises(OSError, match="gone"):
        scan.next_fault()
    assert scan.records == 2
