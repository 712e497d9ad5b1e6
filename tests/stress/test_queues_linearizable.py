"""Histories of real threads on one queue, judged by `helpers.models.linearize`."""

import importlib.util
import itertools
import math
import random
import sys
import threading

import numpy as np
import pytest
from helpers.models.linearize import CANCEL, CLOSE, END, GET, GET_MANY, GET_UP_TO, OK, PUT, PUT_MANY
from helpers.process import PATIENCE
from helpers.queues.histories import NATIVE, PYTHON, WORKLOADS, Prioritised, Program, search
from helpers.queues.queue_driver import (
    FIFO,
    PADDING,
    PRIORITY,
    SHUFFLE,
    Recorder,
    implementations,
    record,
    result_of,
    verdict,
)

from queuecore.errors import OutOfRangeError

# A padding queue with nothing to pad is a FIFO queue.
FIFOS = implementations((FIFO, PADDING))

pytestmark = [pytest.mark.thorough, pytest.mark.watchdog(180)]
needs_hooks = pytest.mark.skipif(
    importlib.util.find_spec("queuecore._core.testing.hand") is None,
    reason="this build has no test hooks (QUEUECORE_TESTING=1)",
)


@pytest.fixture(autouse=True)
def hasty():
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def scalars(module, kind, capacity, least=0):
    """A queue of int64 scalars (and, in a priority queue, an int64 priority before each)."""
    make = getattr(module, kind)
    if kind == SHUFFLE:
        return make(capacity, least, [np.int64], [()], seed=1)
    return make(capacity, [np.int64], [()])


def judge(history, capacity):
    wrong = verdict(history, capacity if capacity > 0 else math.inf)
    assert wrong is None, f"{wrong}, with capacity {capacity}, in:\n" + "\n".join(
        str(c) for c in sorted(history, key=lambda c: c.invoked)[:60]
    )


@needs_hooks
@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"wide"}))
def test_native_threads(name):
    assert search(NATIVE, name, PATIENCE, 30 if name in ("crowd", "growing", "rush") else 150) is None


@pytest.mark.parametrize("name", ["shuffled", "prioritised", "sorted_gathers", "hurried", "wide", "filled"])
def test_python_threads(name):
    assert search(PYTHON, name, PATIENCE, 50) is None


@pytest.mark.parametrize(("module", "kind"), FIFOS)
def test_short_histories_in_full(module, kind):
    names = [PUT, PUT, PUT_MANY, GET, GET, GET_MANY, GET_UP_TO]
    for seed in range(400):
        rng = random.Random(seed)
        capacity, make = rng.randint(1, 4), Program(rng)
        programs = [make.steps(5, names, timeouts=(None, None, 0, 0.001)) for _ in range(4)]
        if seed % 2:
            programs[0][rng.randrange(5)] = (rng.choice([CLOSE, CANCEL]), None, rng.choice([None, 0.001]))
        judge(record(scalars(module, kind, capacity), programs, cancel=rng.random() < 0.5), capacity)


@pytest.mark.parametrize("timeouts", [(None,), (None, 0, 0.0005, 0.01)], ids=["patient", "timeouts"])
@pytest.mark.parametrize(("module", "kind"), FIFOS)
def test_long_histories(module, kind, timeouts):
    for seed in range(5):
        rng = random.Random(seed)
        capacity, make = rng.choice([1, 2, 7, 64, -1]), Program(rng)
        puts = [make.steps(100, [PUT, PUT_MANY], timeouts=timeouts, most=9) for _ in range(4)]
        gets = [make.steps(100, [GET, GET_MANY, GET_UP_TO], timeouts=timeouts, most=9) for _ in range(4)]
        judge(record(scalars(module, kind, capacity), puts + gets, cancel=False), capacity)


@pytest.mark.parametrize(("module", "kind"), FIFOS)
def test_one_place_and_sixteen_threads_on_each_side(module, kind):
    make = Program(random.Random(5))
    puts = [make.steps(60, [PUT]) for _ in range(16)]
    gets = [[(GET, 1, None)] * 60 for _ in range(16)]
    history = record(scalars(module, kind, 1), puts + gets, cancel=False, ends=True)
    judge(history, 1)
    assert sum(c.name == GET and c.result == OK for c in history) == 16 * 60


@pytest.mark.parametrize(("module", "kind"), FIFOS)
def test_batches_and_single_elements_on_both_sides(module, kind):
    # As many rows on each side, so that all of it ends without a close.
    make = Program(random.Random(6))
    puts = [make.steps(40, [PUT]), make.steps(40, [PUT])]
    puts += [[(PUT_MANY, make.values(size), None) for _ in range(40 // size)] for size in (10, 4)]
    gets = [[(GET, 1, None)] * 40, [(GET_MANY, 8, None)] * 5, [(GET_UP_TO, 5, None)] * 8, [(GET_MANY, 20, None)] * 2]
    history = record(scalars(module, kind, 3), puts + gets, cancel=False, ends=True)
    judge(history, 3)
    assert all(c.result == OK for c in history if c.result != END)
    assert sum(len(c.values) for c in history if c.name in (GET, GET_MANY, GET_UP_TO)) == 160


@pytest.mark.parametrize("waiting", ["nobody", "dequeues", "enqueues"])
@pytest.mark.parametrize("cancel", [False, True], ids=["wait", "cancel"])
@pytest.mark.parametrize(("module", "kind"), implementations())
def test_sixty_four_threads_close_at_once(module, kind, cancel, waiting):
    queue = scalars(module, kind, 2)
    element = [np.int64(1), np.int64(2)] if kind == PRIORITY else np.int64(1)
    waits, closes = [], []
    barrier = threading.Barrier(65)

    def close():
        barrier.wait()
        closes.append(result_of(queue.close, cancel))

    def wait():
        waits.append(result_of(*((queue.dequeue,) if waiting == "dequeues" else (queue.enqueue, element))))

    if waiting == "enqueues":
        queue.enqueue(element)
        queue.enqueue(element)
    threads = [threading.Thread(target=wait, daemon=True) for _ in range(0 if waiting == "nobody" else 8)]
    threads += [threading.Thread(target=close, daemon=True) for _ in range(64)]
    for thread in threads:
        thread.start()
    barrier.wait()
    if waiting == "enqueues" and not cancel:
        # Those in line before the first close get their place.
        while queue.size() or not queue.is_closed():
            result_of(queue.dequeue, timeout=0.01)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), queue.stats()
    assert queue.is_closed()
    assert {r.error for r in closes} == {None}
    assert result_of(queue.enqueue, element, timeout=0).error == "CancelledError"
    if waiting == "dequeues":
        assert {r.error for r in waits} == {"OutOfRangeError"}
    if waiting == "enqueues":
        assert {r.error for r in waits} <= {"CancelledError", None}
        assert queue.size() == (2 if cancel else 0)


@pytest.mark.parametrize(("module", "kind"), implementations((SHUFFLE, PRIORITY)))
def test_unordered_kinds_lose_and_repeat_nothing(module, kind):
    for seed in range(4):
        make = Program(random.Random(seed))
        queue = scalars(module, kind, 8, seed)
        recorder = Recorder(Prioritised(queue) if kind == PRIORITY else queue)
        puts = [make.steps(50, [PUT, PUT_MANY], timeouts=(None, 0.001)) for _ in range(4)]
        gets = [make.steps(50, [GET, GET_MANY, GET_UP_TO], timeouts=(0, 0.001, 0.01)) for _ in range(4)]

        def work(program, recorder=recorder):
            for step in program:
                recorder.call(step)

        threads = [threading.Thread(target=work, args=(p,), daemon=True) for p in puts + gets]
        for thread in threads:
            thread.start()
        while any(t.is_alive() for t in threads[:4]):
            recorder.call((GET_UP_TO, 8 - seed, 0.001))
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), queue.stats()
        queue.close(True)
        while recorder.call((GET, 1, PATIENCE)).result == OK:
            pass
        put, maybe, results = [], [], []
        for call in recorder.history():
            assert call.result in RESULTS, call
            if call.name in (PUT, PUT_MANY):
                (put if call.result == OK else maybe).extend(call.values)
            elif call.result == OK:
                results.extend(call.values)
        assert len(results) == len(set(results))
        assert set(put) <= set(results) <= set(put) | set(maybe)


@pytest.mark.parametrize("capacity", [1, 5])
@pytest.mark.parametrize(("module", "kind"), implementations())
def test_rows_come_out_whole(module, kind, capacity):
    # Every byte of a row tells whose row it is; so does the text beside it, whose length varies.
    dtypes, shapes = [np.uint16, bytes], [(1031,), ()]
    make = getattr(module, kind)
    queue = make(capacity, 0, dtypes, shapes, seed=1) if kind == SHUFFLE else make(capacity, dtypes, shapes)
    per_thread, batches, lock = 60, [], threading.Lock()

    def rows(first, count):
        numbers = np.arange(first, first + count)
        texts = [str(n).encode() * (n % 97) for n in numbers]
        priorities = [numbers] if kind == PRIORITY else []
        return [*priorities, np.repeat(numbers[:, None], 1031, 1).astype(np.uint16), np.array(texts, object)]

    def produce(thread):
        first, end = thread * per_thread, (thread + 1) * per_thread
        while first < end:
            count = min(first % 5, end - first)
            if count:
                queue.enqueue_many(rows(first, count))
            else:
                queue.enqueue([column[0] for column in rows(first, 1)])
            first += count or 1

    def consume(thread):
        for i in itertools.count():
            try:
                if (i + thread) % 2:
                    batch = queue.dequeue_up_to(1 + i % min(4, capacity))
                else:
                    batch = [np.asarray(column)[None] for column in queue.dequeue()]
            except OutOfRangeError:
                return
            # Kept while others go on, and looked at only then: a row that is used again would show.
            with lock:
                batches.append(batch[-2:])

    producers = [threading.Thread(target=produce, args=(t,), daemon=True) for t in range(4)]
    consumers = [threading.Thread(target=consume, args=(t,), daemon=True) for t in range(4)]
    for thread in (*producers, *consumers):
        thread.start()
    for thread in producers:
        thread.join(PATIENCE)
        assert not thread.is_alive(), queue.stats()
    queue.close()
    for thread in consumers:
        thread.join(PATIENCE)
        assert not thread.is_alive(), queue.stats()
    numbers = []
    for columns in batches:
        for row, text in zip(*columns, strict=True):
            number = int(row[0])
            assert (row == number).all()
            assert (text if isinstance(text, bytes) else text.item()) == str(number).encode() * (number % 97)
            numbers.append(number)
    assert sorted(numbers) == list(range(4 * per_thread))


RESULTS = (OK, END, "timeout")
