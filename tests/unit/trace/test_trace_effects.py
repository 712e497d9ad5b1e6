"""Functions with an effect: it happens once for each element, and not once more for the trace."""

import collections
import copy
import itertools
import operator
import random

import numpy as np
import pytest

import queuecore as qc
from queuecore._trace.symbol import Untraced
from queuecore._trace.trace import trace
from queuecore.data import Dataset
from queuecore.ops import Component


class Counted:
    """Keeps count in many ways."""

    def __init__(self):
        self.count = 0
        self.log = []
        self.left = iter(range(10**6))

    def __iter__(self):
        return self

    def __next__(self):
        self.count += 1
        return self.count

    def advance(self):
        return [one for one in itertools.islice(self.left, 1)][0]


def appended(path):
    with path.open("a") as file:
        file.write("x")


def drawn(generator):
    """Return how many numbers a generator has drawn since its seed."""
    again, count = random.Random(1), 0
    while again.getstate() != generator.getstate():
        again.random()
        count += 1
    return count


def effects(folder):
    """Yield functions with an effect, and how often it happened so far."""
    log, table, array = [], {"calls": [], "count": 0}, np.zeros(2, int)
    numbers, nested, counted = iter(range(10**6)), {"a": [iter(range(10**6))]}, Counted()
    generator = (i for i in range(10**6))
    lines, written = (folder / "lines").open("w+"), folder / "written"
    lines.write("a line\n" * 100)
    lines.seek(0)
    written.touch()
    queue = qc.FIFOQueue(100, [np.int64], [()])
    queue.enqueue_many(np.arange(50))
    ours = iter(Dataset.range(100))
    drawing, simple = random.Random(1), collections.deque()

    def spent(iterator):
        return next(copy.copy(iterator))

    def helper():
        log.append(1)

    def caught(x):
        try:
            next(numbers)
        except BaseException:
            return x
        helper()
        return x

    def finally_(x):
        try:
            return x + next(numbers) * 0
        finally:
            table["calls"].append(1)

    def assigns(x):
        table["count"] += 1
        return x

    def first(x):
        for _ in nested["a"][0]:
            break
        return x

    yield "append", lambda x: (log.append(1), x)[1], lambda: len(log)
    yield "a helper's append", lambda x: (helper(), x)[1], lambda: len(log)
    yield "a dict in a dict", lambda x: (table["calls"].append(1), x)[1], lambda: len(table["calls"])
    yield "an item", assigns, lambda: table["count"]
    yield "an item of an array", lambda x: (operator.setitem(array, 0, array[0] + 1), x)[1], lambda: int(array[0])
    yield "next", lambda x: x + next(numbers) * 0, lambda: spent(numbers)
    yield "a list", lambda x: x + [one for one in itertools.islice(numbers, 1)][0] * 0, lambda: spent(numbers)
    yield "for", first, lambda: spent(nested["a"][0])
    yield "a generator", lambda x: x + next(generator) * 0, lambda: generator.gi_frame.f_locals.get("i", -1) + 1
    yield "an iterator in Python", lambda x: (list(itertools.islice(counted, 1)), x)[1], lambda: counted.count
    yield "a method", lambda x: x + counted.advance() * 0, lambda: spent(counted.left)
    yield "caught", caught, lambda: spent(numbers)
    yield "caught and gone on", caught, lambda: len(log)
    yield "finally", finally_, lambda: len(table["calls"])
    yield "a line of a file", lambda x: x + len(lines.readline()) * 0, lambda: lines.tell() // 7
    yield "a file", lambda x: (appended(written), x)[1], lambda: written.stat().st_size
    yield "a queue", lambda x: x + queue.dequeue() * 0, lambda: 50 - queue.size()
    yield "a dataset", lambda x: x + ours.get_next() * 0, lambda: ours.stats()["elements"]
    yield "random", lambda x: x + int(drawing.random()), lambda: drawn(drawing)
    yield "a deque", lambda x: (simple.append(1), x)[1], lambda: len(simple)
    lines.close()


MAKES = {
    "map": lambda function: Dataset.range(5).map(function),
    "filter": lambda function: Dataset.range(5).filter(lambda x: function(x) >= 0),
    "take_while": lambda function: Dataset.range(5).take_while(lambda x: function(x) >= 0),
    "batched map": lambda function: Dataset.range(5).batch(1).map(lambda x: function(x[0])),
}


@pytest.mark.parametrize("way", [*MAKES, "reduce"])
def test_it_happens_once_for_each_element(tmp_path, way):
    for name, function, count in effects(tmp_path):
        before = count()
        if way == "reduce":
            assert Dataset.range(5).reduce(np.int64(0), lambda state, x, f=function: state + f(x)) == 10
        else:
            ds = MAKES[way](function)
            assert "native" not in ds.plan().splitlines()[0], ds.plan()
            assert count() == before, name
            assert [int(x) for x in ds] == list(range(5)), name
        assert count() - before == 5, name


def test_the_trace_says_why(tmp_path):
    for name, function, count in effects(tmp_path):
        before = count()
        made = trace(function, [Component(np.dtype("i8"), ())], 0)
        assert isinstance(made, Untraced), name
        assert made.reason.startswith(("it ", "a call of", "an assignment")), (name, made)
        assert count() == before, name
