"""Errors of elements: who keeps one, or clears the frames of its traceback, changes nothing of what follows."""

import inspect
import traceback

import numpy as np
import pytest
from helpers.data.functions import plain

import queuecore as qc
from queuecore.data import Dataset


def refuse_five(x):
    if x == 5:
        raise ValueError("no")
    return int(x)


def numbers():
    return Dataset.range(200_000).map(refuse_five)


def arrays():
    yield np.array([1])
    yield "no array of numbers"
    for k in range(100_000):
        yield np.array([k])


PIPELINES = {
    "generator": lambda: Dataset.from_generator(arrays, np.int64, (1,)),
    "map": numbers,
    "maps in threads": lambda: numbers().map(lambda x: int(x) + 1, num_parallel_calls=3),
    "batch of objects": lambda: numbers().map(lambda x: {"text": str(x)}).batch(2),
    "filter": lambda: numbers().filter(lambda x: int(x) >= 0),
    "interleave": lambda: Dataset.range(2).interleave(lambda k: numbers(), 2),
    "flat_map": lambda: Dataset.range(2).flat_map(lambda k: numbers()),
    "zip": lambda: Dataset.zip((numbers(), Dataset.range(200_000))),
    "windows by key": lambda: numbers().group_by_window(lambda x: x % 2, lambda key, ds: ds.batch(2), 2),
    "scan": lambda: numbers().scan(0, lambda state, x: (state, x)),
    "buckets": lambda: (
        numbers().map(lambda x: np.zeros(int(x) % 5)).bucket_by_sequence_length(lambda x: len(x), [3], [2, 2])
    ),
    "unbatch": lambda: numbers().batch(2).unbatch(),
}


def events(make, met):
    """Return the first 30 elements and errors; `met` is called with each error."""
    outcomes = []
    with iter(make()) as it:
        while len(outcomes) < 30:
            try:
                outcomes.append(plain(next(it)))
            except qc.errors.QueueCoreError as error:
                outcomes.append(type(error).__name__)
                met(error)
    return outcomes


@pytest.mark.parametrize("name", PIPELINES)
def test_whose_frames_are_cleared(name):
    frames = []

    def clear(error):
        while error is not None:
            frames.extend(frame for frame, _ in traceback.walk_tb(error.__traceback__))
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__

    expected = events(PIPELINES[name], lambda error: None)
    assert sum(isinstance(one, str) for one in expected) > 0
    assert events(PIPELINES[name], clear) == expected
    # Whether a generator waits at that moment is chance: so none is there.
    suspended = [frame.f_code.co_qualname for frame in frames if frame.f_code.co_flags & inspect.CO_GENERATOR]
    assert suspended == []
