"""Several threads on one iterator: each element comes to exactly one of them, whatever else they call."""

import contextlib
import hashlib
import os
import queue
import threading
import time
import warnings

import numpy as np
import pytest
from helpers.data.chains import write_files
from helpers.data.functions import in_python
from helpers.data.kinds import KINDS, SOURCES, Gate, all_of, halting
from helpers.data.matrix import PIPELINES, numbers_in, write
from helpers.process import AT_ONCE, PATIENCE, soon

from queuecore._core.atoms.runtime import _is_stuck
from queuecore._runners.threads import start_thread
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset
from queuecore.errors import FailedPreconditionError

MANY = 4


def together(*functions):
    """Call functions in a thread each, begun together. Returns what they return; raises what one raised."""
    ready = threading.Barrier(len(functions))
    results, errors = [None] * len(functions), []

    def call(index, function):
        try:
            ready.wait(PATIENCE)
            results[index] = function()
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=call, args=pair) for pair in enumerate(functions)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
    return results


def taker(it, most=10**9):
    """What takes elements, up to the end."""

    def take():
        results = []
        while len(results) < most:
            try:
                results.append(next(it))
            except StopIteration:
                with pytest.raises(StopIteration):
                    next(it)
                break
        return results

    return take


def after(ds, state):
    """The elements behind a place, each as its numbers."""
    with iter(ds) as it:
        it.load_state_dict(state)
        return [list(numbers_in(x)) for x in it]


def plain(parts):
    """Elements of several threads, as sorted lists of numbers."""
    return sorted(list(numbers_in(x)) for part in parts for x in part)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def looked_at(it):
    """Another thread that asks for states and counters all the time. Yields the list of states."""
    states, errors, stopped = [], [], threading.Event()

    def look():
        try:
            while not stopped.is_set():
                states.append(it.state_dict())
                assert it.stats()["elements"] >= 0
                time.sleep(0)
        except BaseException as error:
            errors.append(error)

    other = threading.Thread(target=look)
    other.start()
    try:
        yield states
    finally:
        stopped.set()
        other.join(PATIENCE)
    if errors:
        raise errors[0]


@pytest.mark.thorough
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", KINDS)
def test_each_element_comes_to_one_thread(name, source):
    ds = KINDS[name](SOURCES[source]())
    with iter(ds) as it:
        parts = together(*[taker(it)] * MANY)
        assert plain(parts) == sorted(all_of(ds))


@pytest.mark.thorough
@pytest.mark.parametrize("name", PIPELINES)
def test_states_beside_threads_are_places(tmp_path, name):
    ds = PIPELINES[name](write(tmp_path))
    with iter(ds) as it:
        expected = after(ds, it.state_dict())
        with looked_at(it) as states:
            assert plain(together(*[taker(it)] * MANY)) == sorted(expected)
    for state in states[:: max(len(states) // 5, 1)]:
        rest = after(ds, state)
        assert rest == expected[len(expected) - len(rest) :]


def large(folder):
    """Many batches of lines, and the numbers in them."""
    (path,) = write_files(folder, ["".join(f"{x:0{1 + x % 9}}\n" for x in range(40_000)).encode()])
    return TextLineDataset(path).batch(10)


@pytest.mark.thorough
def test_many_batches(tmp_path):
    ds = large(tmp_path)
    with iter(ds.with_options(Options(max_leases=3))) as it:
        parts = together(*[taker(it)] * 8)
    assert plain(parts) == [list(range(x, x + 10)) for x in range(0, 40_000, 10)]


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [1, 7])
def test_many_records_and_batches_of_fixed_length(tmp_path, rows):
    ds = FixedLengthRecordDataset(write_files(tmp_path, [np.arange(21_000).tobytes()]), record=np.dtype("<i8"))
    with iter(ds.batch(rows) if rows > 1 else ds) as it:
        parts = together(*[taker(it)] * 8)
    assert plain(parts) == [list(range(x, x + rows)) for x in range(0, 21_000, rows)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["fixed", "lines, shuffled", "rows through a node", "a generator", "filtered in Python"]
)
def test_places_beside_next(tmp_path, name):
    ds = PIPELINES[name](write(tmp_path))
    with iter(ds) as it:
        states = [it.state_dict()]
        expected = after(ds, states[0])
        half = len(expected) // 2
        assert [list(numbers_in(next(it))) for _ in range(half)] == expected[:half]
        states.append(it.state_dict())
        over = threading.Event()

        def go():
            try:
                for _ in range(10):
                    for state in states:
                        it.load_state_dict(state)
            finally:
                over.set()

        def take():
            got = []
            while not over.is_set():
                got += [x for _, x in zip(range(3), it, strict=False)]
            return got

        for part in plain(together(go, take, take)[1:]):
            assert part in expected
        it.load_state_dict(states[1])
        assert [list(numbers_in(x)) for x in it] == expected[half:]


def test_only_one_run_is_begun(tmp_path):
    ds = large(tmp_path)
    for _ in range(20):
        with iter(ds.with_options(Options(num_threads=2))) as it:
            together(*[taker(it, 1)] * 8)
            assert it.stats()["threads"] <= 2


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", ["nothing", "repeat, batch", "map in threads", "zip", "interleave"])
def test_a_close_ends_all_waits(name, kind):
    gate = Gate()
    with gate.closed():
        it = iter(halting(name, kind, gate))
        ended = []

        def take():
            with pytest.raises(FailedPreconditionError, match="closed"):
                while True:
                    next(it)
            ended.append(time.monotonic())

        def close():
            assert gate.reached.wait(PATIENCE)
            begun = time.monotonic()
            it.close(0)
            return begun

        *_, begun = together(take, take, take, close)
        assert all(at - begun < AT_ONCE for at in ended)


class Held:
    """A warning filter that keeps a call of next() in its middle, until it is let go."""

    def __init__(self, monkeypatch):
        self.reached, self.go = threading.Event(), threading.Event()
        monkeypatch.setattr(warnings, "showwarning", self.show)

    def show(self, *_, **__):
        self.reached.set()
        assert self.go.wait(PATIENCE)


@pytest.mark.parametrize("way", ["next", "load_state_dict", "close"])
def test_others_wait_for_a_call_in_its_middle(tmp_path, monkeypatch, way):
    ds = large(tmp_path).with_options(Options(max_leases=1))
    hold = Held(monkeypatch)
    it = iter(ds)
    state = it.state_dict()
    elements = [next(it)]
    results = []
    warnings.simplefilter("always")
    first = threading.Thread(target=lambda: results.append(next(it)))
    first.start()
    assert hold.reached.wait(PATIENCE)  # it holds the second batch, and is no further
    begun = threading.Event()

    def second():
        begun.set()
        if way == "next":
            results.append(next(it))
        elif way == "load_state_dict":
            it.load_state_dict(state)
        else:
            it.close(None)

    other = threading.Thread(target=second)
    other.start()
    assert begun.wait(PATIENCE)
    assert it.stats()["elements"] == 1
    assert it.state_dict()
    if way == "close":
        other.join(PATIENCE)
        assert not other.is_alive()
    else:
        other.join(0.1)
        assert other.is_alive()
    hold.go.set()
    first.join(PATIENCE)
    other.join(PATIENCE)
    assert not first.is_alive() and not other.is_alive()
    numbers = sorted(list(numbers_in(x)) for x in [*elements, *results])
    assert numbers == [list(range(x, x + 10)) for x in range(0, 10 * len(numbers), 10)]
    if way == "load_state_dict":
        assert list(numbers_in(next(it))) == list(range(10))
    it.close()


def test_threads_of_a_map_whose_start_fails_although_they_run(monkeypatch, nothing_is_left):
    """An exception may come between the start of a thread and the return to who started it: no thread stays."""

    def failing(*args, **kwargs):
        start_thread(*args, **kwargs)
        raise MemoryError

    called, before = [], []
    with iter(Dataset.range(1_000_000).map(in_python(lambda x: called.append(x) or x), 4)) as it:
        monkeypatch.setattr("queuecore.data._nodes.pool.start_thread", starts_first(failing))
        assert int(next(it)) == 0
        while called != before:  # until there is room for no more, and all threads wait
            before = called.copy()
            time.sleep(0.05)


def starts_first(others):
    """The first start is as it should be: without one thread, there is none to go on."""
    calls = iter([start_thread])
    return lambda *args, **kwargs: next(calls, others)(*args, **kwargs)


def test_a_close_warns_of_threads_that_a_read_keeps(tmp_path):
    syscalls = pytest.importorskip("queuecore._core.testing.syscalls", reason="no test hooks (QUEUECORE_TESTING=1)")
    (tmp_path / "a").write_text("1\n" * 1000)
    before = syscalls.read_count()
    syscalls.set_read_delay(3600)
    try:
        it = iter(TextLineDataset(tmp_path / "a").with_options(Options(num_threads=2)))
        assert not it._stream.poll(0)
        assert soon(lambda: syscalls.read_count() > before)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            it.close(timeout=0.5)
    finally:
        syscalls.set_read_delay(0)
    (warning,) = [str(one.message) for one in caught]
    assert "did not end within 0.5 s: stuck in a read" in warning


def test_a_thread_without_a_processor_is_not_stuck():
    """Nor one that waits for another thread; only what a system call keeps is."""
    numbers, over, lock = queue.Queue(), threading.Event(), threading.Lock()
    reading, writing = os.pipe()

    def compute():
        while not over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)  # without the GIL

    works = {"computes": compute, "waits": lock.acquire, "reads": lambda: os.read(reading, 1)}

    def begin(name):
        numbers.put((name, threading.get_native_id()))
        works[name]()

    with lock:
        threads = [threading.Thread(target=begin, args=(name,)) for name in works]
        for thread in threads:
            thread.start()
        of = dict(numbers.get(timeout=PATIENCE) for _ in threads)
        try:
            assert soon(lambda: {name for name, number in of.items() if _is_stuck(number)} == {"reads"})
            assert not _is_stuck(2**22 + 1)  # there is no such thread
        finally:
            over.set()
            os.write(writing, b"x")
    for thread in threads:
        thread.join(PATIENCE)
    os.close(reading)
    os.close(writing)
