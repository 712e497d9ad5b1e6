"""How many threads a pool takes for functions in Python, where nobody says."""

import collections
import itertools
import threading
import time

import pytest
from helpers.data.functions import in_python
from helpers.process import PATIENCE, soon

from queuecore.data import AUTOTUNE, Dataset
from queuecore.data._nodes import pool, python_map


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rate", "first", "expected"),
    [
        (lambda threads: 1000 * threads, 16, {64}),  # it waits
        (lambda threads: 1000 * min(threads, 20), 4, {16, 32, 64}),
        (lambda threads: 1000 * min(threads, 4), 16, {16}),  # it computes, on four processors
        (lambda threads: 1000 / threads**0.2, 16, {4}),  # all threads fight for one lock
        (lambda threads: 1000 / threads**0.2, 1, {1}),
        (lambda threads: 1000, 1, {1}),
    ],
)
def test_what_gains_is_found(monkeypatch, rate, first, expected):
    now = 100.0
    monkeypatch.setattr(pool.time, "monotonic", lambda: now)
    tuner = pool.Tuner(first)
    threads = first

    def settled(rate):
        """Return how many there are most of the time."""
        nonlocal now, threads
        durations = collections.Counter()
        end = now + 6
        while now < end:
            spent = 1 / rate(threads)
            now += spent
            durations[threads] += spent
            threads = tuner.next()
            assert 1 <= threads <= 64
        return durations.most_common(1)[0][0]

    found = settled(rate)
    assert found in expected
    assert settled(rate) in expected
    assert settled(lambda threads: 500 * threads) == 64  # the function has changed, and waits


@pytest.mark.parametrize("deterministic", [True, False])
def test_numbers_of_threads_that_change(monkeypatch, deterministic):
    """More and fewer, again and again: every element comes once, and no thread is left."""
    state = itertools.count()
    monkeypatch.setattr(pool.Tuner, "next", lambda self: (4, 4, 9, 9, 1, 1, 30, 30, 2, 2)[next(state) % 10])
    monkeypatch.setattr(python_map, "_QUICK", -1)  # none is
    alive = threading.active_count()
    callers = []

    def function(x):
        callers.append(threading.current_thread())
        return {"x": int(x)}

    ds = Dataset.range(2000).map(function, num_parallel_calls=AUTOTUNE, deterministic=deterministic)
    got = [one["x"] for one in ds]
    assert sorted(got) == list(range(2000))
    assert not deterministic or got == list(range(2000))
    assert 1900 < next(state) <= 2000
    for thread in set(callers) - {threading.current_thread()}:  # which traced it
        thread.join(PATIENCE)
    assert soon(lambda: threading.active_count() <= alive)


@pytest.mark.parametrize("deterministic", [True, False])
def test_quick_calls_that_become_slow(deterministic):
    """Threads come with the first slow calls, and go on where the node's own was."""
    two = threading.Event()
    inside = []
    callers = set()

    def function(x):
        number = int(x)
        if 500 <= number < 600:
            time.sleep(0.001)
        elif number >= 600:
            callers.add(threading.current_thread())
            inside.append(number)
            if len(inside) > 1:
                two.set()
            two.wait(PATIENCE)
            inside.remove(number)
        return number

    got = list(Dataset.range(1000).map(function, num_parallel_calls=AUTOTUNE, deterministic=deterministic))
    assert sorted(got) == list(range(1000))
    assert not deterministic or got == list(range(1000))
    assert len(callers) > 1


def test_quick_calls_need_no_thread(monkeypatch):
    monkeypatch.setattr(python_map, "_QUICK", PATIENCE)  # a busy machine may stop any call for long
    callers = []

    def function(x):
        callers.append(threading.current_thread())
        return {"x": x}

    assert len(list(Dataset.range(1000).map(function, num_parallel_calls=AUTOTUNE))) == 1000
    assert len(set(callers[-1000:])) == 1  # the first call was for the trace


def test_a_number_of_calls_that_is_given_is_taken():
    """Also one that AUTOTUNE would never choose: so many calls wait for each other."""
    together = threading.Barrier(100)

    def function(x):
        together.wait(PATIENCE)
        return {"x": int(x)}

    ds = Dataset.range(100).map(in_python(function), num_parallel_calls=100)
    assert [one["x"] for one in ds] == list(range(100))
