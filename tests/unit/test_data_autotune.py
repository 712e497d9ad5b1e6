"""How many threads a pool takes for functions in Python, where nobody says."""

import threading

import pytest
from helpers.process import PATIENCE, soon

from queuecore.data import AUTOTUNE, Dataset, _calls


@pytest.mark.parametrize(
    ("rate", "cpus", "expected"),
    [
        (lambda threads: 1000 * threads, 2, {64}),  # it waits
        (lambda threads: 1000 * min(threads, 20), 4, {16, 32}),
        (lambda threads: 1000 * min(threads, 4), 4, {4}),  # it computes, on four processors
        (lambda threads: 1000 / threads**0.2, 4, {1}),  # it holds the GIL
        (lambda threads: 1000 / threads**0.2, 1, {1}),
        (lambda threads: 1000, 1, {1}),
    ],
)
def test_what_gains_is_found(monkeypatch, rate, cpus, expected):
    now = 100.0
    monkeypatch.setattr(_calls.time, "monotonic", lambda: now)
    tuner = _calls._Tuner(cpus)
    threads = cpus
    tried = set()
    for _ in range(20_000):
        now += 1 / rate(threads)
        threads = tuner.next()
        tried.add(threads)
        assert 1 <= threads <= 64
    assert threads in expected
    settled = threads
    for _ in range(1000):  # and stays
        now += 1 / rate(threads)
        threads = tuner.next()
    assert threads == settled


@pytest.mark.parametrize("deterministic", [True, False])
def test_numbers_of_threads_that_change(monkeypatch, deterministic):
    """More and fewer, again and again: every element comes once, and no thread is left."""
    state = iter([4, 4, 9, 9, 1, 1, 30, 30, 2, 2] * 1000)
    monkeypatch.setattr(_calls._Tuner, "next", lambda self: next(state))
    alive = threading.active_count()
    seen = []

    def function(x):
        seen.append(threading.current_thread())
        return {"x": int(x)}

    ds = Dataset.range(2000).map(function, num_parallel_calls=AUTOTUNE, deterministic=deterministic)
    got = [one["x"] for one in ds]
    assert sorted(got) == list(range(2000))
    assert not deterministic or got == list(range(2000))
    for thread in set(seen) - {threading.current_thread()}:  # which traced it
        thread.join(PATIENCE)
    assert soon(lambda: threading.active_count() <= alive)
