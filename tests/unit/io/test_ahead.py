"""Reading ahead of a remote file: the right bytes whoever asks in whatever order, and few requests for what follows."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.process import PATIENCE
from hypothesis import given, strategies as st

from queuecore._io.ahead import AheadReader

PIECE = 100 << 10


class Source:
    """Bytes, and the ranges that were asked for."""

    def __init__(self, size, error_at=None):
        self.data = np.random.default_rng(size).bytes(size)
        self.requests, self.error_at, self.lock = [], error_at, threading.Lock()

    def fetch(self, start, stop):
        with self.lock:
            self.requests.append((start, stop))
        if self.error_at is not None and start <= self.error_at < stop:
            raise ConnectionError("gone")
        return self.data[start:stop]


@given(st.integers(1, 3 << 20), st.lists(st.tuples(st.floats(0, 1), st.integers(1, 1 << 20)), max_size=30))
def test_any_ranges(size, ranges):
    source = Source(size)
    reader = AheadReader(size, source.fetch)
    for place, nbytes in ranges:
        start = min(int(place * size), size - 1)
        stop = min(start + nbytes, size)
        assert bytes(reader.read(start, stop)) == source.data[start:stop]


@pytest.mark.parametrize("window", [1, 2, 8])
def test_pieces_that_follow_each_other_take_few_requests(window):
    # Not quite in order, as several threads ask for them.
    source = Source(40 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    places = np.arange(0, len(source.data), PIECE)
    state = np.random.default_rng(0)
    for first in range(0, len(places), window):
        for at in map(int, state.permutation(places[first : first + window])):
            assert bytes(reader.read(at, min(at + PIECE, len(source.data)))) == source.data[at : at + PIECE]
    assert len(source.requests) < 40  # of 410 pieces
    assert sum(stop - start for start, stop in source.requests) <= len(source.data) + window * 4 * PIECE


def test_several_threads():
    source = Source(40 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    with ThreadPoolExecutor(8) as pool:
        ranges = [(at, min(at + PIECE, len(source.data))) for at in range(0, len(source.data), PIECE)]
        assert b"".join(pool.map(lambda ends: bytes(reader.read(*ends)), ranges)) == source.data


def test_records_in_any_order_cost_their_bytes():
    source = Source(64 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    state = np.random.default_rng(1)
    for place in state.permutation(len(source.data) // 3000)[:2000]:
        start = 3000 * int(place)
        assert bytes(reader.read(start, start + 3000)) == source.data[start : start + 3000]
    assert sum(stop - start for start, stop in source.requests) < 1.5 * 2000 * 3000


def test_requests_are_under_way_before_their_turn():
    source = Source(64 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    for at in range(0, 16 << 20, PIECE):
        reader.read(at, at + PIECE)
    begun = [one for one in reader._ranges if one.start > at]
    assert max(one.stop for one in begun) - at >= 8 << 20
    assert all(one.done.wait(PATIENCE) for one in begun)


def test_an_error_comes_to_who_reads_that_range():
    source = Source(8 << 20, error_at=5 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    for at in range(0, 4 << 20, PIECE):
        assert bytes(reader.read(at, at + PIECE)) == source.data[at : at + PIECE]
    with pytest.raises(ConnectionError):
        reader.read(5 << 20, (5 << 20) + 10)
    source.error_at = None
    assert bytes(reader.read(5 << 20, (5 << 20) + 10)) == source.data[5 << 20 : (5 << 20) + 10]


def test_without_further_threads_each_asks_itself(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    source = Source(16 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    places = range(0, len(source.data), PIECE)
    assert b"".join(reader.read(at, min(at + PIECE, len(source.data))) for at in places) == source.data


def test_many_files_share_what_may_be_read_ahead():
    sources = [Source(8 << 20) for _ in range(64)]
    readers = [AheadReader(len(source.data), source.fetch) for source in sources]
    for at in range(0, 4 << 20, PIECE):
        for reader in readers:
            reader.read(at, at + PIECE)
    held = sum(one.stop - one.start for reader in readers for one in reader._ranges)
    assert held <= 2 * (256 << 20)


def test_what_nobody_reads_to_its_end_goes():
    source = Source(64 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    for start in range(0, 60 << 20, 1 << 20):  # the half of each range
        reader.read(start, start + 1000)
        reader.read(start + 1000, start + 2000)
    assert len(reader._ranges) <= 24


def test_a_range_that_could_not_be_begun_keeps_nobody_waiting(monkeypatch):
    source = Source(8 << 20)
    reader = AheadReader(len(source.data), source.fetch)
    ahead = reader._begin_ahead
    monkeypatch.setattr(reader, "_begin_ahead", lambda current, begun: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reader.read(0, PIECE)
    monkeypatch.setattr(reader, "_begin_ahead", ahead)
    assert bytes(reader.read(0, PIECE)) == source.data[:PIECE]
