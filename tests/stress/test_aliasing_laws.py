"""Whatever a user keeps, writes or drops changes nothing that anyone else receives: random programs."""

import numpy as np
import pytest
from helpers.faults import aliasing

import queuecore as qc
import queuecore.data._nodes.calls
import queuecore.data._nodes.generators
import queuecore.tf1._graph.session

pytestmark = [pytest.mark.thorough, pytest.mark.watchdog(300)]


@pytest.fixture
def folder(tmp_path):
    aliasing.write(tmp_path)
    return tmp_path


def test_datasets(folder):
    for seed in range(40):
        aliasing.dataset_law(seed, folder)


def test_many_datasets(folder):
    for seed in range(40, 1000):
        aliasing.dataset_law(seed, folder)


def test_queues():
    for seed in range(100):
        aliasing.queue_law(seed)


def test_many_queues():
    for seed in range(100, 5000):
        aliasing.queue_law(seed)


def test_sessions():
    for seed in range(20):
        aliasing.session_law(seed)


def _next(iterator):
    for value in iterator:
        return (value,)
    return None


MISTAKES = {
    "generator": (queuecore.data._nodes.generators, "own_next", _next),
    "map": (queuecore.data._nodes.calls, "own_result", lambda function, arguments, **_: function(*arguments)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_copy_that_is_left_out_is_found(folder, monkeypatch, name):
    monkeypatch.setattr(*MISTAKES[name])
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(40):
            aliasing.dataset_law(seed, folder)


def test_a_queue_that_keeps_what_it_is_given_is_found(monkeypatch):
    # A row that is taken out is a view of one buffer, which the next rows overwrite.
    buffer = np.empty((8, aliasing.WIDTH), np.int64)
    dequeue = qc.FIFOQueue.dequeue_many

    def shared(queue, count):
        buffer[:count] = dequeue(queue, count)
        return buffer[:count]

    monkeypatch.setattr(qc.FIFOQueue, "dequeue_many", shared)
    with pytest.raises(AssertionError, match="what a user keeps was written to"):
        for seed in range(40):
            aliasing.queue_law(seed)


def test_a_feed_that_is_not_copied_is_found(monkeypatch):
    monkeypatch.setattr(queuecore.tf1._graph.session, "own", lambda value, **_: value)
    with pytest.raises(AssertionError, match="what a user keeps was written to"):
        for seed in range(20):
            aliasing.session_law(seed)
