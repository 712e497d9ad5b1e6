"""Concurrent histories of the library's queues: what threads do to a queue, and whether that could be one queue's.

A `Workload` runs on a queue class with Python's threads, or on its hand-off alone with threads that never hold the GIL
(`queuecore._core.testing.hand.HandHistory`). As a program, ``-m helpers.queues.histories THREADS WORKLOAD TREE PATIENCE
ROUNDS``, it looks for a wrong one in the package of that tree, and prints the first thing that is wrong, as JSON, or
null.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from helpers.models import linearize
from helpers.models.linearize import CANCEL, CLOSE, GET, GET_MANY, GET_UP_TO, PUT, PUT_MANY, Call
from helpers.process import PATIENCE
from helpers.queues.queue_driver import FIFO, PRIORITY, SHUFFLE, Recorder, Step, record, verdict

import queuecore

NATIVE, PYTHON = "native", "python"
WIDE = 12_000  # numbers in a row that is copied without the GIL

# What native code answers; a get that finds the end says closed, too.
_RESULTS = {0: linearize.OK, 2: linearize.CLOSED, 3: linearize.CLOSED, 4: linearize.TIMEOUT}


@dataclass
class Workload:
    """A queue, and a program for each thread."""

    kind: str
    capacity: int
    programs: list[list[Step]]
    least: int = 0
    cancel: bool = False
    # Whether all programs come to their end without a close.
    ends: bool = False
    # Whether each value is a whole row of numbers.
    wide: bool = False

    def wrong(self, threads: str, patience: float = PATIENCE) -> str | None:
        """Run it, and say what is wrong with its history."""
        queue = self.hand_off() if threads == NATIVE else self.queue()
        recorder = NativeRecorder if threads == NATIVE else Recorder
        history = record(queue, self.programs, cancel=self.cancel, ends=self.ends, patience=patience, recorder=recorder)
        capacity = self.capacity if self.capacity > 0 else math.inf
        wrong = verdict(history, capacity, kind=self.kind, least=self.least)
        if wrong is None and queue.size() != 0:
            wrong = f"{queue.size()} rows are counted in an empty queue"
        return wrong

    def hand_off(self) -> Any:
        from queuecore._core.testing.hand import HandHistory

        kind = {FIFO: "fifo", SHUFFLE: "random", PRIORITY: "priority"}[self.kind]
        return HandHistory(kind, self.capacity, self.least)

    def queue(self) -> Any:
        if self.kind == SHUFFLE:
            return queuecore.RandomShuffleQueue(self.capacity, self.least, [np.int64], [()], seed=1)
        if self.kind == PRIORITY:
            return Prioritised(queuecore.PriorityQueue(self.capacity, [np.int64], [()]))
        if self.wide:
            return Wide(queuecore.FIFOQueue(self.capacity, [np.int64], [(WIDE,)]))
        return queuecore.FIFOQueue(self.capacity, [np.int64], [()])


class NativeRecorder:
    """Like `Recorder`, of a `HandHistory`."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def run(self, program: Sequence[Step], barrier: threading.Barrier) -> None:
        self.queue.run(program, barrier.parties)

    def call(self, step: Step) -> Call:
        return self._call(*self.queue.run([step])[0])

    def history(self) -> list[Call]:
        return [self._call(*call) for call in self.queue.calls()]

    def _call(self, name: str, begun: int, over: int, code: int, values: tuple[int, ...], wanted: int) -> Call:
        result = _RESULTS.get(code, f"result {code}")
        if name in linearize.GETS and result == linearize.CLOSED:
            result = linearize.END
        return Call(name, begun, over or math.inf, result if over else None, values, wanted)


class Prioritised:
    """A priority queue that looks like a queue of scalars."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def enqueue(self, value: Any, **options: Any) -> None:
        self.queue.enqueue([linearize.priority(value), value], **options)

    def enqueue_many(self, values: Any, **options: Any) -> None:
        self.queue.enqueue_many([linearize.priority(values), values], **options)

    def dequeue(self, **options: Any) -> Any:
        return self.queue.dequeue(**options)[1]

    def dequeue_many(self, n: int, **options: Any) -> Any:
        return self._values(self.queue.dequeue_many(n, **options))

    def dequeue_up_to(self, n: int, **options: Any) -> Any:
        return self._values(self.queue.dequeue_up_to(n, **options))

    def _values(self, batch: Any) -> Any:
        keys, values = batch
        assert keys.tolist() == sorted(keys.tolist()) == linearize.priority(values).tolist()
        return values

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)


class Wide:
    """A queue of large rows, each full of one number, that looks like a queue of scalars; a torn row is -1."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def enqueue(self, value: Any, **options: Any) -> None:
        self.queue.enqueue(np.full(WIDE, value), **options)

    def enqueue_many(self, values: Any, **options: Any) -> None:
        self.queue.enqueue_many(np.repeat(values[:, None], WIDE, 1), **options)

    def dequeue(self, **options: Any) -> Any:
        return self._values(self.queue.dequeue(**options)[None])[0]

    def dequeue_many(self, n: int, **options: Any) -> Any:
        return self._values(self.queue.dequeue_many(n, **options))

    def dequeue_up_to(self, n: int, **options: Any) -> Any:
        return self._values(self.queue.dequeue_up_to(n, **options))

    def _values(self, rows: Any) -> Any:
        return np.where((rows == rows[:, :1]).all(1), rows[:, 0], -1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)


# ---- what threads do -------------------------------------------------------------------------------------------------


class Program:
    """Random steps whose values are all different."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.put = 0

    def values(self, count: int) -> range:
        self.put += count
        return range(self.put - count, self.put)

    def steps(
        self, length: int, names: Sequence[str], *, timeouts: Sequence[float | None] = (None,), most: int = 4
    ) -> list[Step]:
        return [self.step(self.rng.choice(names), self.rng.choice(timeouts), most) for _ in range(length)]

    def step(self, name: str, timeout: float | None, most: int) -> Step:
        count = 1 if name in (PUT, GET) else self.rng.randint(0, most)
        return name, self.values(count) if name in (PUT, PUT_MANY) else count, timeout


MIXED = (PUT, PUT, PUT_MANY, GET, GET, GET_MANY, GET_UP_TO)


def short(rng: random.Random, kind: str = FIFO) -> Workload:
    """Few calls, judged in full: also closes and timeouts."""
    capacity, make = rng.randint(1, 4), Program(rng)
    # A priority queue refuses to wait for more rows than it has room for.
    most = capacity if kind == PRIORITY else 4
    programs = [make.steps(5, MIXED, timeouts=(None, None, 0, 0.0005), most=most) for _ in range(4)]
    if rng.random() < 0.5:
        programs[0][rng.randrange(5)] = (rng.choice([CLOSE, CANCEL]), None, rng.choice([None, 0.0005]))
    least = rng.randrange(capacity) if kind == SHUFFLE else 0
    return Workload(kind, capacity, programs, least=least, cancel=rng.random() < 0.5)


def shuffled(rng: random.Random) -> Workload:
    """Short, with a shuffling queue."""
    return short(rng, SHUFFLE)


def prioritised(rng: random.Random) -> Workload:
    """Short, with a priority queue whose ties are many."""
    return short(rng, PRIORITY)


def sorted_gathers(rng: random.Random) -> Workload:
    """A priority queue's gathers, while rows of all priorities are put."""
    make = Program(rng)
    puts = [[(PUT, [value], None) for value in rng.sample(make.values(100), 100)] for _ in range(3)]
    return Workload(PRIORITY, 8, [*puts, [(GET_MANY, 4, None)] * 75], ends=True)


def balanced(rng: random.Random) -> Workload:
    """As many rows on both sides, through one or a few places: all of it ends without a close."""
    make, capacity = Program(rng), rng.choice([1, 1, 2, 3, 8])
    puts = [[(PUT, make.values(1), None) for _ in range(40)] for _ in range(2)]
    puts += [[(PUT_MANY, make.values(size), None) for _ in range(40 // size)] for size in (8, 2)]
    gets: list[list[Step]] = [[(GET, 1, None)] * 40 for _ in range(2)]
    gets += [[(GET_MANY, 8, None)] * 5, [(GET_UP_TO, 5, None)] * 8]
    return Workload(FIFO, capacity, puts + gets, ends=True)


def one_by_one(rng: random.Random) -> Workload:
    """Single puts and gets of more threads than there are places: all of it ends without a close."""
    make = Program(rng)
    puts = [[(PUT, make.values(1), None) for _ in range(100)] for _ in range(4)]
    return Workload(FIFO, rng.randint(1, 2), puts + [[(GET, 1, None)] * 100] * 4, ends=True)


def hurried(rng: random.Random) -> Workload:
    """Many calls whose time runs out, at any moment of what the others do."""
    make, timeouts = Program(rng), (0, 0.00002, 0.0001, 0.0005)
    puts = [make.steps(60, [PUT, PUT_MANY], timeouts=timeouts, most=5) for _ in range(3)]
    gets = [make.steps(60, [GET, GET_MANY, GET_UP_TO], timeouts=timeouts, most=5) for _ in range(3)]
    return Workload(FIFO, rng.choice([1, 2, 7]), puts + gets)


def pieces(rng: random.Random) -> Workload:
    """Long batches, which go in piece by piece, and single rows that may not come between."""
    make = Program(rng)
    puts = [[(PUT_MANY, make.values(20), None) for _ in range(5)] for _ in range(2)]
    puts += [[(PUT, make.values(1), None) for _ in range(100)] for _ in range(2)]
    return Workload(
        FIFO, rng.choice([3, 7, 50]), puts + [[(GET, 1, None)] * 200, [(GET_MANY, 10, None)] * 20], ends=True
    )


def rush(rng: random.Random) -> Workload:
    """Room for everything: nothing but puts that meet each other, then the gets of the end."""
    make = Program(rng)
    puts = [[(PUT, make.values(1), None) for _ in range(300)] for _ in range(2)]
    puts += [[(PUT_MANY, make.values(2), None) for _ in range(150)] for _ in range(2)]
    return Workload(FIFO, 2000, puts)


def growing(rng: random.Random) -> Workload:
    """A queue without bound that becomes larger than it begins."""
    make = Program(rng)
    puts = [make.steps(300, [PUT, PUT_MANY], most=9) for _ in range(3)]
    return Workload(FIFO, -1, [*puts, [(GET, 1, None)] * 300])


def gathers(rng: random.Random) -> Workload:
    """Gathers whose time runs out in the middle, and single gets that come after them."""
    make = Program(rng)
    programs: list[list[Step]] = [[] for _ in range(3)]
    for program in programs:
        for _ in range(60):
            program += [(PUT, make.values(1), None), rng.choice([(GET_MANY, 9, 0.00002), (GET, 1, 0.00001)])]
    return Workload(FIFO, 200, programs)


def behind(rng: random.Random) -> Workload:
    """A gather whose time runs out holds what those behind it wait for."""
    make = Program(rng)
    gather: list[Step] = [(GET_MANY, 3, rng.choice([0.0001, 0.0005, 0.001]))]
    return Workload(
        FIFO, 2, [gather, [(GET, 1, None)], [(GET, 1, None)], [(PUT_MANY, make.values(2), None)]], ends=True
    )


def filled(rng: random.Random) -> Workload:
    """In the end as many rows are left as there is room for: all of it ends without a close."""
    make, capacity = Program(rng), rng.randint(1, 3)
    puts = [[(PUT, make.values(1), None) for _ in range(10)] for _ in range(2)]
    return Workload(FIFO, capacity, [*puts, [(GET, 1, None)] * (20 - capacity)], ends=True)


def closing(rng: random.Random) -> Workload:
    """A close in the middle of puts that need not wait."""
    make = Program(rng)
    puts = [[(PUT, make.values(1), None) for _ in range(100)] for _ in range(4)]
    puts[0][rng.randrange(90)] = (CANCEL, None, None)
    return Workload(FIFO, 500, puts)


def churn(rng: random.Random) -> Workload:
    """Slots change hands as fast as they can."""
    make = Program(rng)
    pairs = [[step for _ in range(60) for step in ((PUT, make.values(1), None), (GET, 1, None))] for _ in range(8)]
    return Workload(FIFO, 8, pairs, ends=True)


def crowd(rng: random.Random) -> Workload:
    """More threads in line than are woken at a time."""
    return Workload(FIFO, 1, [[(GET, 1, None)] for _ in range(70)], cancel=True)


def wide(rng: random.Random) -> Workload:
    """Rows that are copied while other threads run."""
    make = Program(rng)
    puts = [make.steps(20, [PUT, PUT_MANY], timeouts=(None, 0.001), most=3) for _ in range(2)]
    gets = [make.steps(20, [GET, GET_MANY], timeouts=(None, 0.001), most=3) for _ in range(2)]
    return Workload(FIFO, 2, puts + gets, wide=True)


WORKLOADS: dict[str, Callable[[random.Random], Workload]] = {
    work.__name__: work
    for work in (
        *(short, shuffled, prioritised, sorted_gathers, balanced, one_by_one, hurried, pieces, rush, growing, gathers),
        *(behind, filled, closing, churn, crowd, wide),
    )
}


def search(threads: str, name: str, patience: float, rounds: int) -> str | None:
    """Run a workload with one seed after the other; return the first thing that is wrong, or None."""
    if threads == "fibres":
        from queuecore._core.testing.schedule_atoms import explore

        found = explore(name, 1, rounds)
        return None if found is None else f"seed, verdict and check: {found}"
    for seed in range(rounds):
        wrong = WORKLOADS[name](random.Random(seed)).wrong(threads, patience)
        if wrong is not None:
            return f"seed {seed}: {wrong}"
    return None


def main(threads: str, name: str, tree: str, patience: str, rounds: str) -> None:
    assert Path(queuecore.__file__).is_relative_to(tree), f"queuecore came from {queuecore.__file__}, not from {tree}"
    sys.setswitchinterval(1e-6)  # Python's threads switch as often as they can
    print(json.dumps(search(threads, name, float(patience), int(rounds))), flush=True)
    os._exit(0)  # without waiting for threads that a lost wake left behind


if __name__ == "__main__":
    main(*sys.argv[1:])
