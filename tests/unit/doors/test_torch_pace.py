"""Worker threads of a loader work all at a time, or one after the other where that is quicker."""

import threading

import pytest
from helpers.process import soon

from queuecore._torch import pace as pace_module
from queuecore._torch.pace import Pace

WORKERS = 2
MEASURED = (1 + 2) * WORKERS  # batches that one measurement takes
SHORTLY, LONG = 0.2, 60


class Clocks:
    """Clocks that only stand still or are set."""

    def __init__(self, monkeypatch):
        self.seconds = self.worked = 0.0
        monkeypatch.setattr(pace_module, "_PATIENCE", LONG)
        monkeypatch.setattr(pace_module, "_clock", lambda: self.seconds)
        monkeypatch.setattr(pace_module, "_processor_clock", lambda: self.worked)

    def batches(self, pace, count, seconds, worked):
        for _ in range(count):
            with pace.turn():
                self.seconds += seconds
                self.worked += worked


@pytest.fixture
def clocks(monkeypatch):
    return Clocks(monkeypatch)


@pytest.fixture
def messages():
    return []


def another_enters(pace, within):
    """Return whether another worker comes to work within so many seconds while one is at it."""
    entered = threading.Event()

    def work():
        with pace.turn():
            entered.set()

    with pace.turn():
        thread = threading.Thread(target=work)
        thread.start()
        enters = entered.wait(within)
    thread.join()
    assert entered.is_set()
    return enters


def test_workers_that_hold_each_other_up_work_one_after_the_other(clocks, messages):
    pace = Pace(WORKERS, messages.append)
    clocks.batches(pace, MEASURED, 0.012, 0.007)
    assert not messages  # it isn't known yet whether one alone is quicker
    clocks.batches(pace, MEASURED, 0.005, 0.005)
    assert ["one after the other" in message for message in messages] == [True]
    assert not another_enters(pace, SHORTLY)


@pytest.mark.parametrize(
    ("together", "alone"),
    [
        ((0.012, 0.0115), None),  # none waits for the GIL
        ((0.012, 0.001), None),  # they wait for something else
        ((0.012, 0.007), (0.007, 0.007)),  # two make more than one all the same
    ],
)
def test_other_workers_work_all_at_a_time(clocks, messages, together, alone):
    pace = Pace(WORKERS, messages.append)
    clocks.batches(pace, MEASURED, *together)
    if alone is not None:
        clocks.batches(pace, MEASURED, *alone)
    assert another_enters(pace, LONG)
    assert not messages


def test_one_worker_is_not_measured(clocks, messages):
    pace = Pace(1, messages.append)
    clocks.batches(pace, 10 * MEASURED, 0.012, 0.007)
    assert not messages
    assert another_enters(pace, LONG)


def test_first_batches_of_each_worker_decide_nothing(clocks, messages):
    pace = Pace(WORKERS, messages.append)
    clocks.batches(pace, WORKERS, 10.0, 0.0)  # as they import modules and open files
    clocks.batches(pace, MEASURED - WORKERS, 0.012, 0.007)
    clocks.batches(pace, WORKERS, 10.0, 0.0)
    clocks.batches(pace, MEASURED - WORKERS, 0.005, 0.005)
    assert messages


def test_a_worker_that_waits_for_another_one_gets_it(clocks, messages, monkeypatch):
    monkeypatch.setattr(pace_module, "_PATIENCE", 0.05)
    pace = Pace(WORKERS, messages.append)
    clocks.batches(pace, MEASURED, 0.012, 0.007)
    clocks.batches(pace, MEASURED, 0.005, 0.005)
    barrier = threading.Barrier(WORKERS, timeout=30)

    def work():
        with pace.turn():
            barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not barrier.broken
    assert another_enters(pace, LONG)


def test_who_fails_lets_others_go_on(clocks, messages):
    pace = Pace(WORKERS, messages.append)
    clocks.batches(pace, MEASURED, 0.012, 0.007)
    clocks.batches(pace, MEASURED, 0.005, 0.005)
    with pytest.raises(KeyError), pace.turn():
        raise KeyError(0)
    ended = threading.Thread(target=clocks.batches, args=(pace, 1, 0.0, 0.0))
    ended.start()
    assert soon(lambda: not ended.is_alive())
