"""Reading ahead of a remote file: the right bytes whoever asks in whatever order, and few requests for what follows."""

import contextlib
import errno
import gc
import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.data.remote_store import fresh
from helpers.process import PATIENCE, soon
from hypothesis import given, strategies as st

from queuecore._core.io.remote import AheadReader

PIECE = 100 << 10


@pytest.fixture(autouse=True, scope="module")
def servers():
    with pytest.MonkeyPatch.context() as patches:
        yield fresh(patches)


serving: set[int] = set()  # threads that get a range


@pytest.fixture(autouse=True)
def room(servers):
    """Wait until no request of the tests before is under way: all files share what may be read ahead."""
    assert soon(lambda: not serving, PATIENCE)


class Source:
    """Bytes, and the ranges that were asked for."""

    def __init__(self, size, error_at=None, fills=True, data=None):
        self.data = np.random.default_rng(size).bytes(size) if data is None else data
        self.requests, self.error_at, self.fills = [], error_at, fills
        self.lock, self.failures = threading.Lock(), []
        itself = weakref.proxy(self)  # no circle: what was read ahead goes at once, as with a file of the package
        self.reader = AheadReader(
            size, lambda *arguments: itself.served(*arguments), lambda error: itself.failed(error)
        )

    def served(self, *arguments):
        serving.add(threading.get_ident())
        try:
            return self.fetch(*arguments)
        finally:
            serving.remove(threading.get_ident())

    def fetch(self, start, into, goes_on=False):
        stop = start + len(into)
        with self.lock:
            self.requests.append((start, stop))
        if self.error_at is not None and start <= self.error_at < stop:
            raise ConnectionError("gone")
        if not self.fills:
            return self.data[start:stop]
        into[:] = self.data[start:stop]
        return None

    def failed(self, error):
        self.failures.append(error)
        return error

    def read(self, start, stop):
        data = bytearray(stop - start)
        return data[: self.reader.readinto(data, start)]

    @property
    def nbytes(self):
        return sum(stop - start for start, stop in self.requests)


@given(
    st.integers(1, 3 << 20),
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 1 << 20)), max_size=30),
    st.booleans(),
)
def test_any_ranges(size, ranges, fills):
    source = Source(size, fills=fills)
    for place, nbytes in ranges:
        start = min(int(place * size), size - 1)
        assert source.read(start, start + nbytes) == source.data[start : start + nbytes]


@pytest.mark.parametrize("window", [1, 2, 8])
def test_pieces_that_follow_each_other_take_few_requests(window):
    # Not quite in order, as several threads ask for them.
    source = Source(40 << 20)
    places = np.arange(0, len(source.data), PIECE)
    state = np.random.default_rng(0)
    for first in range(0, len(places), window):
        for at in map(int, state.permutation(places[first : first + window])):
            assert source.read(at, at + PIECE) == source.data[at : at + PIECE]
    assert len(source.requests) < 30  # of 410 pieces
    assert source.nbytes <= len(source.data) + window * 4 * PIECE


def test_a_run_goes_on_where_the_last_of_several_pieces_comes_first():
    source = Source(8 << 20)
    source.read(0, PIECE)
    ((_, stop),) = source.requests
    for at in (stop + 2 * PIECE, stop, stop + PIECE):
        assert source.read(at, at + PIECE) == source.data[at : at + PIECE]
    assert source.requests[:2] == [(0, stop), (stop, 5 * stop)]  # and those ahead


def test_several_threads():
    source = Source(40 << 20)
    with ThreadPoolExecutor(8) as pool:
        places = range(0, len(source.data), PIECE)
        assert b"".join(pool.map(lambda at: source.read(at, at + PIECE), places)) == source.data


def test_records_in_any_order_cost_their_bytes():
    source = Source(64 << 20)
    state = np.random.default_rng(1)
    for place in state.permutation(len(source.data) // 3000)[:2000]:
        start = 3000 * int(place)
        assert source.read(start, start + 3000) == source.data[start : start + 3000]
    assert source.nbytes < 1.5 * 2000 * 3000


def test_requests_are_under_way_before_their_turn():
    source = Source(64 << 20)
    for at in range(0, 8 << 20, PIECE):
        source.read(at, at + PIECE)
    assert soon(lambda: max(stop for _, stop in source.requests) - at >= 32 << 20)


def test_an_error_comes_to_who_reads_that_range():
    wrong = 15 << 20
    source = Source(16 << 20, error_at=wrong)
    for at in range(0, 8 << 20, PIECE):
        assert source.read(at, at + PIECE) == source.data[at : at + PIECE]
    assert soon(lambda: any(start <= wrong < stop for start, stop in source.requests))  # ahead
    with pytest.raises(ConnectionError) as caught:
        source.read(wrong, wrong + 10)
    assert source.failures == [caught.value]  # and none of those that nobody waited for
    assert len(source.requests) <= 6  # those are not asked for ahead again and again
    source.error_at = None
    assert source.read(wrong, wrong + 10) == source.data[wrong : wrong + 10]


@pytest.fixture
def hanging():
    """A source whose requests hang until the test ends, and what is set by the first one."""
    release, hangs = threading.Event(), threading.Event()

    class Hanging(Source):
        def fetch(self, start, into, goes_on=False):
            hangs.set()
            release.wait(PATIENCE)
            return super().fetch(start, into)

    yield Hanging(1 << 20), hangs, release
    release.set()


def test_a_failure_that_is_being_told_is_not_asked_for_again():
    # What tells it may make requests of its own, and others may come meanwhile.
    source = Source(1 << 20, error_at=0)
    reached, go_on = threading.Event(), threading.Event()

    def failed(error):
        reached.set()
        go_on.wait(PATIENCE)
        return error

    source.failed = failed
    source.reader = AheadReader(1 << 20, source.fetch, source.failed)

    def read():
        with contextlib.suppress(ConnectionError):
            source.read(0, 10)

    reader = threading.Thread(target=read)
    reader.start()
    assert reached.wait(PATIENCE)
    assert source.read(600 << 10, 601 << 10) != b""  # it wakes the other reader, which waits on
    go_on.set()
    reader.join(PATIENCE)
    assert source.requests == [(0, 512 << 10), (512 << 10, 1 << 20)]


def test_an_interrupt_ends_the_wait():
    release = threading.Event()

    def fetch(start, into, goes_on):
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(PATIENCE)

    reader = AheadReader(1 << 20, fetch, lambda error: error)
    with pytest.raises(KeyboardInterrupt):
        reader.readinto(bytearray(10), 0)
    release.set()


def test_a_reader_may_go_while_requests_hang(hanging):
    source, hangs, release = hanging

    def read():
        with contextlib.suppress(OSError):
            source.reader.readinto(bytearray(10), 0)

    thread = threading.Thread(target=read)
    thread.start()
    assert hangs.wait(PATIENCE)
    other = Source(1 << 20)
    assert other.read(0, 10) == other.data[:10]  # by another server
    release.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_an_answer_of_another_size_is_an_error():
    reader = AheadReader(1 << 20, lambda start, into, goes_on: b"123", lambda error: error)
    with pytest.raises(OSError, match="3 bytes came instead of 524288") as caught:
        reader.readinto(bytearray(10), 0)
    assert caught.value.errno == errno.EIO


def test_the_view_ends_with_the_request():
    kept = []
    reader = AheadReader(1 << 20, lambda start, into, goes_on: kept.append(into), lambda error: error)
    reader.readinto(bytearray(10), 0)
    with pytest.raises(ValueError, match="released"):
        kept[0][0]


def test_without_further_threads_one_does_it_all(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    assert soon(lambda: sum(thread.name.startswith("qc-remote") for thread in threading.enumerate()) <= 1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    source = Source(16 << 20)
    places = range(0, len(source.data), PIECE)
    assert b"".join(source.read(at, at + PIECE) for at in places) == source.data


def test_many_files_share_what_may_be_read_ahead():
    data = bytes(32 << 20)
    sources = [Source(len(data), data=data) for _ in range(64)]

    def read(some):
        for at in range(0, 4 << 20, PIECE):
            for source in some:
                source.read(at, at + PIECE)

    def front(some):
        return max(stop for source in some for _, stop in source.requests)

    read(sources)
    assert front(sources) <= 9 << 20
    del sources
    gc.collect()

    assert soon(lambda: goes_far(data), PATIENCE)  # once the requests of the others have ended


def goes_far(data):
    """Return whether a file of 32 MiB is asked for far ahead."""
    source = Source(len(data), data=data)
    for at in range(0, 4 << 20, PIECE):
        source.read(at, at + PIECE)
    return soon(lambda: max(stop for _, stop in source.requests) >= 16 << 20, 1)


def test_files_that_were_read_take_no_room():
    data = bytes(32 << 20)
    sources = [Source(1 << 20, data=data) for _ in range(64)]
    for source in sources:
        for at in range(0, 1 << 20, PIECE):
            source.read(at, at + PIECE)
    assert soon(lambda: goes_far(data), PATIENCE)


def test_a_second_pass_asks_as_the_first_one_did():
    source = Source(20 << 20)
    passes = []
    for _ in range(2):
        source.requests = []
        for at in range(0, len(source.data), PIECE):
            source.read(at, at + PIECE)
        passes.append(sorted(source.requests))
    assert passes[0] == passes[1] and len(passes[0]) < 6


def test_what_nobody_reads_to_its_end_goes():
    source = Source(64 << 20)
    places = range(0, 60 << 20, 1 << 20)  # the half of each range
    for start in places:
        source.read(start, start + 1000)
        source.read(start + 1000, start + 2000)
    before = len(source.requests)
    source.read(places[-1] + 2000, places[-1] + 2500)
    assert len(source.requests) == before
    source.read(places[1] + 2000, places[1] + 2500)
    assert len(source.requests) > before


def test_a_range_that_was_read_twice_in_part_is_there_for_the_rest():
    source = Source(8 << 20)
    source.read(0, 10)
    ((_, stop),) = source.requests
    for _ in range(2):
        source.read(0, stop // 2)
    source.read(stop // 2, stop)
    assert source.requests == [(0, stop)]


def test_a_child_reads_anew_what_was_under_way(hanging):
    source, hangs, release = hanging
    thread = threading.Thread(target=source.read, args=(0, 10))
    thread.start()
    assert hangs.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        release.set()
        os._exit(source.read(0, 10) != source.data[:10])
    _, status = os.waitpid(child, 0)
    release.set()
    thread.join(PATIENCE)
    assert os.waitstatus_to_exitcode(status) == 0
