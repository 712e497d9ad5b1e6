"""Damaged TFRecord files: named by class, offset and record, after the good records; no memory for a bad length."""

import random
import tracemalloc

import pytest
from helpers.formats.tfrecords import FRAME, HEADER, KNOWN, checksum, header, places, read, stream

from queuecore import errors
from queuecore._core.io.tfrecord import RecordScan

parsers = pytest.importorskip("queuecore._core.testing.parsers")

RECORDS = [b"first", b"", b"the one in the middle", b"x" * 33, b"last"]
STARTS = places(RECORDS)
DATA = stream(RECORDS)
HUGE = [2**31, 2**32 + 1, 2**63, 2**64 - 1]


def outcome(data, block, **options):
    records, faults, wanted = parsers.tfrecord_read(data, block, **options)
    named = [(type(error).__name__, error.offset, error.record) for error in faults]
    for error in faults:
        assert error.path == "stream"
        assert error.stage == "read"
    return records, named, wanted


def flipped(data, bit):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.parametrize("size_known", [True, False])
@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_each_bit_of_a_header(number, size_known):
    others = [one for one in read(DATA)[0] if one[1] != number]
    for bit in range(8 * HEADER):
        data = flipped(DATA, 8 * STARTS[number] + bit)
        block = 1 + bit % 64
        records, faults, _ = outcome(data, block, is_known=size_known)
        assert faults == [("ChecksumError", STARTS[number], number)]
        assert records == others[:number]
        records, faults, _ = outcome(data, block, is_known=size_known, resync=True)
        assert faults == [("ChecksumError", STARTS[number], number)]
        assert records == others


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_each_bit_of_data_and_its_checksum(number, known):
    others = [one for one in read(DATA)[0] if one[1] != number]
    for bit in range(8 * (STARTS[number] + HEADER), 8 * STARTS[number + 1]):
        data = flipped(DATA, bit)
        records, faults, _ = outcome(data, 1 + bit % 64, is_known=known, resync=True)
        assert faults == [("ChecksumError", STARTS[number], number)]
        assert records == others


def test_which_checksum_is_said():
    for bit, word in ((0, "length"), (8 * 8, "length"), (8 * HEADER, "data"), (8 * STARTS[1] - 1, "data")):
        (error,) = parsers.tfrecord_read(flipped(DATA, bit), 50)[1]
        assert word in str(error)
        assert isinstance(error, errors.DataLossError)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("resync", [True, False])
def test_cut_at_each_byte(known, resync):
    for size in range(len(DATA)):
        whole = sum(start <= size for start in STARTS[1:])
        for block in (1, 13, 1000):
            records, faults, wanted = outcome(DATA[:size], block, is_known=known, resync=resync)
            assert records == read(DATA)[0][:whole]
            cut = [] if size in STARTS else [("TruncatedRecordError", STARTS[whole], whole)]
            assert faults == cut, size
            assert wanted <= max(block, 33 + FRAME)


@pytest.mark.parametrize("size_known", [True, False])
@pytest.mark.parametrize("length", HUGE)
def test_a_huge_length_with_a_valid_checksum(length, size_known):
    assert header(length) == parsers.tfrecord_header(length)
    data = stream(KNOWN) + header(length) + b"and some data" + stream(KNOWN)
    position = len(stream(KNOWN))
    for block in (1, 12, 64, 1000):
        records, faults, most_bytes = outcome(data, block, is_known=size_known)
        assert faults == [("RecordTooLargeError", position, 3)]
        assert [one[2] for one in records] == KNOWN
        assert most_bytes <= max(block, 5 + FRAME)
    records, faults, most_bytes = outcome(data, 30, is_known=size_known, resync=True)
    assert faults == [("RecordTooLargeError", position, 3)]
    assert [one[2] for one in records] == KNOWN + KNOWN
    assert most_bytes <= 30
    (error,) = parsers.tfrecord_read(data, 30)[1]
    assert str(length) in str(error)
    assert isinstance(error, MemoryError)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [*HUGE, 2**30, 2**24])
def test_no_memory_for_bytes_that_do_not_come(length, known):
    data = header(length) + bytes(100_000)
    tracemalloc.start()
    try:
        scan = RecordScan(Bytes(data), b"x", len(data) if known else -1, block_bytes=4096)
        error, resumed = scan.next_fault()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert type(error).__name__ == ("RecordTooLargeError" if length > 2**30 else "TruncatedRecordError")
    assert (error.offset, error.record, resumed) == (0, 0, None)
    assert peak < 1 << 20


class Bytes:
    """The bytes of a string, as a source."""

    def __init__(self, data):
        self.left = memoryview(data)

    def readinto(self, into):
        n = min(len(into), len(self.left))
        into[:n], self.left = self.left[:n], self.left[n:]
        return n


def test_zeros_and_noise_hold_no_records():
    for data in (bytes(5000), random.Random(0).randbytes(5000), b"\xff" * 5000):
        records, faults, _ = outcome(data, 100, resync=True)
        assert records == []
        assert faults == [("ChecksumError", 0, 0)]


def test_a_header_that_does_not_fit_is_none_to_go_on_with():
    # Valid, but for more bytes than are left: only where that is known.
    data = b"\1" + stream([b"y" * 40])[:-1] + stream([b"z"])
    assert outcome(data, 100, resync=True)[1][0] == ("ChecksumError", 0, 0)
    records, faults, _ = outcome(data[:-17], 100, resync=True)
    assert (records, faults) == ([], [("ChecksumError", 0, 0)])


def test_records_inside_the_data_of_a_damaged_one_are_found_too():
    inner = stream([b"inside"])
    data = flipped(stream([inner, b"next"]), 3)
    records, faults, _ = outcome(data, 100, resync=True)
    # What follows the inner record is the checksum of the outer one.
    assert faults == [("ChecksumError", 0, 0), ("ChecksumError", HEADER + len(inner), 2)]
    assert [one[2] for one in records] == [b"inside", b"next"]


# ---- mutations -------------------------------------------------------------------------------------------------------


def mutated(rng, data):
    """The bytes after one to three accidents."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        position = rng.randrange(len(data) + 1)
        n = rng.choice([1, 2, 4, 8, 12, 16, 30])
        kind = rng.randrange(7)
        if kind == 0 and position < len(data):
            data[position] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[position:]
        elif kind == 2:
            del data[position : position + n]
        elif kind == 3:
            data[position:position] = rng.randbytes(n)
        elif kind == 4:
            data[position:position] = header(rng.choice([0, 1, 5, 1000, 2**30, 2**30 + 1, rng.getrandbits(64)]))
        elif kind == 5:
            data[position:position] = data[rng.randrange(len(data) + 1) :][:n]
        else:
            data[position : position + n] = bytes(min(n, len(data) - position))
    return bytes(data)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
def test_mutations(seed):
    rng = random.Random(seed)
    for _ in range(60):
        records = [rng.randbytes(rng.choice([0, 1, 5, 30, 200])) for _ in range(rng.randrange(8))]
        data = mutated(rng, stream(records)) if records else rng.randbytes(rng.randrange(60))
        expected, fault = read(data)
        size_known, block, limit = rng.random() < 0.5, rng.randrange(1, 100), rng.randrange(1, 9)
        results, faults, wanted = outcome(data, block, is_known=size_known, max_records=limit)
        assert results == expected
        assert faults == ([] if fault is None else [(fault.error, fault.offset, fault.record)])
        if size_known:
            assert wanted <= max(block, len(data), 1)
        # Going on: what is delivered is whole, in order and never twice; each other byte belongs to a fault.
        results, faults, _ = outcome(data, block, is_known=size_known, max_records=limit, resync=True)
        assert results[: len(expected)] == expected
        assert len(faults) >= (fault is not None)
        end = 0
        for offset, _, record in results:
            assert offset >= end
            end = offset + FRAME + len(record)
            assert data[offset:end] == header(len(record)) + record + checksum(record)
        indices = [index for _, index, _ in results]
        assert indices == sorted(set(indices))
        assert not {offset for _, offset, _ in faults} & {offset for offset, _, _ in results}
        scan = RecordScan(Bytes(data), b"x", len(data) if size_known else -1, block_bytes=block)
        found = [(type(e).__name__, e.offset, e.record) for e, _ in iter(scan.next_fault, None)]
        assert (found, scan.records) == (faults, len(results))
