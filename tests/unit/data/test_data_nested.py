"""Datasets of datasets of datasets: what is asked of them costs as much as they are deep, and no power of two."""

import pickle
import sys

import numpy as np
import pytest

from queuecore.data import Dataset

DEEP = 40
# Calls of Python functions for such a dataset: a few hundred a level, and again for every level below it. Doubling
# with each level would need a million for twenty of them.
MOST_CALLS = 600_000


class TooManyCalls(BaseException):
    pass


def calls_of(work):
    """Return what some work returns, and how many functions it called; end it when they are too many."""
    count = 0

    def look(frame, event, argument):
        nonlocal count
        if event == "call":
            count += 1
            if count > MOST_CALLS:
                raise TooManyCalls

    sys.setprofile(look)
    try:
        return work(), count
    finally:
        sys.setprofile(None)


def x(n=2):
    return Dataset.range(n)


def chosen(ds):
    return Dataset.choose_from_datasets([ds, x()], Dataset.from_tensor_slices(np.array([0, 1])).repeat())


KINDS = {
    "concatenate": lambda ds: ds.concatenate(x()),
    "concatenate behind": lambda ds: x().concatenate(ds),
    "zip": lambda ds: Dataset.zip((ds, x())).map(lambda a, b: a),
    "enumerate": lambda ds: ds.enumerate().map(lambda i, a: a),
    "map": lambda ds: ds.map(lambda a: a + 1).enumerate().map(lambda i, a: a),
    "choose": chosen,
    "sample": lambda ds: Dataset.sample_from_datasets([ds, x()], seed=1),
    "unbatch": lambda ds: ds.batch(2).unbatch(),
    "cache": lambda ds: ds.map(lambda a: a).cache(),
    "shuffle": lambda ds: ds.shuffle(3, seed=1).concatenate(x()),
    "ignore_errors": lambda ds: ds.ignore_errors(),
    "filter": lambda ds: ds.filter(lambda a: a >= 0),
    "take_while": lambda ds: ds.take_while(lambda a: a < 100),
    "rebatch": lambda ds: ds.batch(2).rebatch(2).unbatch(),
}

# Elements that are Python objects.
OF_OBJECTS = {
    "concatenate": lambda ds: ds.concatenate(objects()),
    "zip": lambda ds: Dataset.zip((ds, objects())).map(lambda a, b: a),
    "choose": lambda ds: Dataset.choose_from_datasets([ds, objects()], x().repeat()),
    "enumerate": lambda ds: ds.enumerate().map(lambda i, a: a),
}


def objects():
    return Dataset.from_tensors(np.array([["a", "b"], ["c", "d"]], object))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_them(kind):
    def work():
        ds = x()
        for _ in range(DEEP):
            ds = KINDS[kind](ds)
        spec = ds.element_spec
        ds.cardinality()
        plan = ds.plan()
        return ds, spec, plan

    (ds, spec, plan), _ = calls_of(work)
    assert (spec.shape, spec.dtype) == ((), np.int64)
    assert len(plan.splitlines()) > DEEP
    it, _ = calls_of(lambda: iter(ds))
    calls_of(it.state_dict)
    calls_of(it.close)


@pytest.mark.parametrize("kind", OF_OBJECTS)
def test_of_objects(kind):
    def work():
        ds = objects()
        for _ in range(DEEP):
            ds = OF_OBJECTS[kind](ds)
        return ds.element_spec, ds.cardinality(), ds.plan()

    (_, _, plan), _ = calls_of(work)
    assert len(plan.splitlines()) > DEEP


@pytest.mark.parametrize("kind", ["concatenate", "choose", "sample", "shuffle", "rebatch"])
def test_they_are_pickled_without_what_is_kept(kind):
    ds = x(3)
    for _ in range(4):
        ds = KINDS[kind](ds)
    copy = pickle.loads(pickle.dumps(ds))
    fresh = len(pickle.dumps(copy))
    assert copy.element_spec == ds.element_spec
    copy.plan()
    iter(copy).close()
    assert len(pickle.dumps(copy)) == fresh


def test_elements_of_a_deep_one():
    ds = x(3)
    for _ in range(6):
        ds = Dataset.zip((ds.concatenate(x(1)), x(100))).map(lambda a, b: a)
    with iter(ds) as it:
        assert [int(one) for one in it] == [0, 1, 2, *[0] * 6]
