"""Consumers that leave, and closes of all sorts, while pipelines of every kind run."""

import gc
import itertools
import signal
import threading
import time
import warnings

import pytest
from helpers.data.chains import THREADS, threads
from helpers.data.kinds import KINDS, SOURCES, Gate, all_of, halting
from helpers.data.matrix import numbers_in
from helpers.process import AT_ONCE, PATIENCE, soon, thread_ids

from queuecore.data import Options
from queuecore.errors import FailedPreconditionError


class Mine(Exception):
    """The consumer's own."""


# ---- rows 34 and 59: a consumer that leaves --------------------------------------------------------------------------


def raises(ds, first):
    mine = Mine()
    with pytest.raises(Mine) as caught:
        for got, expected in zip(ds, first, strict=False):
            assert list(numbers_in(got)) == expected
            if expected is first[-1]:
                raise mine
    assert caught.value is mine
    assert mine.__cause__ is mine.__context__ is None


def breaks(ds, first):
    for got, expected in zip(ds, first, strict=False):
        assert list(numbers_in(got)) == expected


def started(ds, first):
    it = iter(ds)
    assert [list(numbers_in(x)) for x in itertools.islice(it, len(first))] == first
    return it


def drops(ds, first):
    started(ds, first)


def closes(ds, first):
    with started(ds, first):
        pass


def forgets_a_cycle(ds, first):
    box = [started(ds, first)]
    box.append(box)
    del box
    gc.collect()


def drops_in_another_thread(ds, first):
    box = [started(ds, first)]
    other = threading.Thread(target=box.clear)
    other.start()
    other.join(AT_ONCE)
    assert not other.is_alive()


def uses_it_in_another_thread(ds, first):
    other = threading.Thread(target=breaks, args=(ds, first))
    other.start()
    other.join(PATIENCE)
    assert not other.is_alive()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", KINDS)
def test_a_consumer_that_leaves(name):
    before = thread_ids()
    leaves = [raises, breaks, drops, closes, forgets_a_cycle, drops_in_another_thread, uses_it_in_another_thread]
    endless = [KINDS[name](source().repeat()) for source in SOURCES.values()]
    for leave, number, ds in zip(leaves, itertools.cycle(THREADS), itertools.cycle(endless), strict=False):
        with iter(ds) as it:
            first = [list(numbers_in(x)) for x in itertools.islice(it, 5)]
        leave(threads(ds, number), first)
        assert soon(lambda: thread_ids() <= before), leave


# ---- row 45: a consumer that keeps everything ------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_kept_stays_as_it_is(name):
    for source in SOURCES.values():
        ds = KINDS[name](source())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that these are copies
            kept = list(ds.with_options(Options(max_leases=2)))
        assert [list(numbers_in(x)) for x in kept] == all_of(KINDS[name](source()))


# ---- rows 37 to 39: close ------------------------------------------------------------------------------------------


def by_many_threads(it, count=16):
    begin = threading.Barrier(count + 1)

    def close():
        begin.wait()
        it.close()

    closers = [threading.Thread(target=close) for _ in range(count)]
    for one in closers:
        one.start()
    begin.wait()
    for one in closers:
        one.join(AT_ONCE)
    assert not any(one.is_alive() for one in closers)


# Which moment it is, time decides: so all cases are the search's.
@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_closed_at_any_moment(name):
    for kind, source in SOURCES.items():
        ds = KINDS[name](source())
        expected = all_of(ds)
        it = iter(ds)
        it.close()
        used_after_close(it, ds, expected)
        it, got = closed_while_it_waits(name, kind)
        assert got == expected[: len(got)]
        assert len(got) < len(expected)
        used_after_close(it, ds, expected[len(got) :])


@pytest.mark.parametrize("kind", SOURCES)
def test_sixty_four_threads_close_it_at_once(kind):
    expected = all_of(KINDS["map in threads"](SOURCES[kind]()))
    _, got = closed_while_it_waits("map in threads", kind, 64)
    assert got == expected[: len(got)]


def closed_while_it_waits(name, kind, count=16):
    gate = Gate()
    ds = halting(name, kind, gate)
    results, errors = [], []

    def consume():
        try:
            for x in it:
                results.append(list(numbers_in(x)))
        except FailedPreconditionError as error:
            errors.append(error)

    with gate.closed():
        it = iter(ds)
        consumer = threading.Thread(target=consume)
        consumer.start()
        assert gate.reached.wait(PATIENCE)
        by_many_threads(it, count)
        consumer.join(AT_ONCE)
        assert not consumer.is_alive()
    assert len(errors) == 1
    return it, results


def used_after_close(it, ds, rest):
    it.close()
    assert it.closed
    state = it.state_dict()
    for use in (it.__next__, it.get_next, it.get_next_as_optional, lambda: it.load_state_dict(state)):
        with pytest.raises(FailedPreconditionError):
            use()
    assert it.stats()["elements"] >= 0
    # Its place is good for a new one.
    with iter(ds) as other:
        other.load_state_dict(state)
        assert [list(numbers_in(x)) for x in other] == rest


# ---- row 37: a signal handler ----------------------------------------------------------------------------------------


class handled:
    """Has a function called in the main thread, by a signal, once a gate is reached."""

    def __init__(self, gate, function):
        self.calls = []
        self.gate = gate
        self.function = function

    def __enter__(self):
        self.before = signal.signal(signal.SIGUSR1, self.handle)
        self.sender = threading.Thread(target=self.send)
        self.sender.start()
        return self

    def send(self):
        assert self.gate.reached.wait(PATIENCE)
        time.sleep(0.02)  # so that the main thread most likely waits; no matter if it doesn't
        signal.raise_signal(signal.SIGUSR1)

    def handle(self, *_):
        self.calls.append(time.monotonic())
        self.function()

    def __exit__(self, *_):
        self.sender.join()
        signal.signal(signal.SIGUSR1, self.before)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", KINDS)
def test_a_signal_handler_closes_it(name):
    for kind in SOURCES:
        gate = Gate()
        it = iter(halting(name, kind, gate))
        with gate.closed(), handled(gate, it.close) as handler, pytest.raises(FailedPreconditionError):
            for x in it:
                del x
        assert len(handler.calls) == 1
        assert time.monotonic() - handler.calls[0] < AT_ONCE


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", ["nothing", "repeat, batch", "map in threads", "zip"])
def test_a_signal_handler_sends_it_elsewhere(name, kind):
    gate = Gate()
    ds = halting(name, kind, gate)
    expected = all_of(ds)
    with iter(ds) as it:
        start = it.state_dict()
        results, before = [], []

        def back():
            before.append(list(results))
            results.clear()
            assert it.stats()["elements"] == len(before[0])
            it.load_state_dict(start)
            gate.opened.set()

        with gate.closed(), handled(gate, back):
            for x in it:
                results.append(list(numbers_in(x)))
    assert before[0] == expected[: len(before[0])]
    assert results == expected


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", ["nothing", "repeat, batch", "map in threads", "zip"])
def test_a_signal_handler_takes_elements(name, kind):
    gate = Gate()
    ds = halting(name, kind, gate)
    results = []

    def take():
        gate.opened.set()
        results.append(list(numbers_in(next(it))))

    with iter(ds) as it, gate.closed(), handled(gate, take):
        for x in it:
            results.append(list(numbers_in(x)))
    assert results == all_of(ds)
