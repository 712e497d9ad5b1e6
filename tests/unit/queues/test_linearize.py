"""The judge of concurrent histories is judged: by hand-made ones, by a right queue, and by queues with a bug each."""

import math
import random
import sys

import numpy as np
import pytest
from helpers.models.linearize import (
    CANCEL,
    CLOSE,
    CLOSED,
    END,
    GET,
    GET_MANY,
    GET_UP_TO,
    OK,
    PUT,
    PUT_MANY,
    TIMEOUT,
    Call,
    check,
    explained,
    necessary,
)
from helpers.models.planted import BUGS
from helpers.models.queue_model import FIFO, PRIORITY, SHUFFLE, QueueModel
from helpers.models.slow_queues import FIFOQueue, variant
from helpers.queues.queue_driver import record

# ---- by hand: (name, values, invoked, returned, result, wanted) ------------------------------------------------------


def call(name, values=(), invoked=0, returned=math.inf, result=OK, wanted=1):
    return Call(name, invoked, returned, None if returned == math.inf else result, tuple(values), wanted)


RIGHT = {
    "nothing": (1, []),
    "two puts at once come out either way": (
        2,
        [call(PUT, [1], 0, 3), call(PUT, [2], 1, 2), call(GET, [2], 4, 5), call(GET, [1], 6, 7)],
    ),
    "a get before its put returns": (1, [call(PUT, [1], 0, 3), call(GET, [1], 1, 2)]),
    "a put_many through one place": (
        1,
        [call(PUT_MANY, [1, 2, 3], 0, 9), call(GET, [1], 1, 2), call(GET, [2], 3, 4), call(GET, [3], 5, 10)],
    ),
    "a put that waits for room": (1, [call(PUT, [1], 0, 1), call(PUT, [2], 2, 5), call(GET, [1], 3, 4)]),
    "a put that never returns": (1, [call(PUT, [1], 0, 1), call(PUT, [2], 2)]),
    "a get_many of more than there is room for": (
        1,
        [call(GET_MANY, [1, 2], 0, 9, OK, 2), call(PUT_MANY, [1, 2], 1, 8)],
    ),
    "a failed get_many gives back": (
        2,
        [
            call(PUT_MANY, [1, 2], 0, 1),
            call(GET_MANY, [], 2, 5, TIMEOUT, 3),
            call(GET_MANY, [1, 2], 6, 7, OK, 2),
        ],
    ),
    "what was given back may be more than there is room for": (
        1,
        [
            call(PUT, [1], 0, 1),
            call(GET_MANY, [], 2, 5, TIMEOUT, 3),
            call(PUT, [2], 3, 4),
            call(GET_MANY, [1, 2], 6, 7, OK, 2),
        ],
    ),
    "a close ends the waits": (1, [call(GET, [], 0, 3, END), call(CLOSE, [], 1, 2), call(PUT, [1], 4, 5, CLOSED)]),
    "a short get_up_to at the end": (
        3,
        [call(PUT, [1], 0, 1), call(CLOSE, [], 2, 5), call(GET_UP_TO, [1], 3, 4, OK, 3), call(GET, [], 6, 7, END)],
    ),
    "a cancelled put_many leaves rows": (
        2,
        [
            call(PUT_MANY, [1, 2, 3], 0, 3, CLOSED),
            call(CANCEL, [], 1, 2),
            call(GET_MANY, [1, 2], 4, 5, OK, 2),
            call(GET, [], 6, 7, END),
        ],
    ),
    "empty batches": (1, [call(CLOSE, [], 0, 1), call(PUT_MANY, [], 2, 3), call(GET_MANY, [], 4, 5, OK, 0)]),
}

WRONG = {
    "got twice": (2, [call(PUT, [1], 0, 1), call(GET, [1], 2, 3), call(GET, [1], 4, 5)]),
    "never put": (2, [call(GET, [1], 2, 3)]),
    "got before it was put": (2, [call(GET, [1], 0, 1), call(PUT, [1], 2, 3)]),
    "overtaken": (2, [call(PUT, [1], 0, 1), call(PUT, [2], 2, 3), call(GET, [2], 4, 5), call(GET, [1], 6, 7)]),
    "overtaken in one get_many": (2, [call(PUT, [1], 0, 1), call(PUT, [2], 2, 3), call(GET_MANY, [2, 1], 4, 5, OK, 2)]),
    "overtaken for good": (2, [call(PUT, [1], 0, 1), call(PUT, [2], 2, 3), call(GET, [2], 4, 5)]),
    "lost": (2, [call(PUT, [1], 0, 1), call(CANCEL, [], 2, 3), call(GET, [], 4, 5, END)]),
    "no room": (1, [call(PUT, [1], 0, 1), call(PUT, [2], 2, 3), call(GET, [1], 4, 5), call(GET, [2], 6, 7)]),
    "put after a close": (2, [call(CLOSE, [], 0, 1), call(PUT, [1], 2, 3)]),
    "closed before any close": (2, [call(PUT, [1], 0, 1, CLOSED), call(CLOSE, [], 2, 3)]),
    "an end before any close": (2, [call(GET, [], 0, 1, END), call(CLOSE, [], 2, 3)]),
    "an end though one is left": (
        2,
        [call(PUT, [1], 0, 1), call(CLOSE, [], 2, 3), call(GET, [], 4, 5, END), call(GET, [1], 6, 7)],
    ),
    "waits though closed": (2, [call(GET, [], 0), call(CLOSE, [], 1, 2)]),
    "a failed put that is got": (2, [call(PUT, [1], 0, 1, TIMEOUT), call(GET, [1], 2, 3)]),
    "a row between the rows of a batch": (
        9,
        [call(PUT_MANY, [1, 2], 0, 5), call(PUT, [3], 0, 5), call(GET_MANY, [1, 3, 2], 6, 7, OK, 3)],
    ),
    "a row between, seen by single gets": (
        9,
        [
            call(PUT_MANY, [1, 2], 0, 5),
            call(PUT, [3], 0, 5),
            call(GET, [1], 6, 7),
            call(GET, [3], 8, 9),
            call(GET, [2], 10, 11),
        ],
    ),
    "a get_many with a gap": (
        9,
        [
            call(PUT_MANY, [1, 2, 3], 0, 1),
            call(GET_MANY, [1, 3], 2, 5, OK, 2),
            call(GET, [2], 2, 5),
        ],
    ),
    "a gap between single puts": (
        9,
        [
            call(PUT, [1], 0, 1),
            call(PUT, [2], 2, 3),
            call(PUT, [3], 4, 5),
            call(GET_MANY, [1, 3], 6, 9, OK, 2),
            call(GET, [2], 6, 9),
        ],
    ),
    "short though open": (9, [call(PUT, [1], 0, 1), call(GET_UP_TO, [1], 2, 3, OK, 2)]),
    "short though more is there": (
        9,
        [
            call(PUT_MANY, [1, 2], 0, 1),
            call(CLOSE, [], 2, 3),
            call(GET_UP_TO, [1], 4, 5, OK, 3),
            call(GET, [2], 6, 7),
        ],
    ),
    "a result that is none": (9, [call(PUT, [1], 0, 1, "InternalError()")]),
}

# Only the search sees what is wrong with these: no two values, nor any single call, contradict each other.
SUBTLE = {
    "no room, for the first is still inside when the second went in": (
        1,
        [call(PUT, [1], 0, 1), call(PUT, [2], 2, 3), call(GET, [2], 2, 20), call(GET, [1], 10, 11)],
    ),
    "an end, and then a put of one who was called later": (
        9,
        [call(CLOSE, [], 0, 9), call(GET, [], 1, 2, END), call(PUT, [1], 3, 4), call(GET, [1], 10, 11)],
    ),
}


# The other kinds of queues: (kind, least, capacity, calls). A value's last digit is its priority.
RIGHT_BAGS = {
    "any row of a shuffle": (
        *(SHUFFLE, 0, 3),
        [call(PUT_MANY, [1, 2, 3], 0, 1), call(GET_MANY, [3, 1], 2, 3, OK, 2), call(GET, [2], 4, 5)],
    ),
    "closed, a shuffle gives all": (
        *(SHUFFLE, 2, 3),
        [call(PUT_MANY, [1, 2], 0, 1), call(CLOSE, [], 2, 3), call(GET_UP_TO, [2, 1], 4, 5, OK, 3)],
    ),
    "what a shuffle's gather holds takes no room": (
        *(SHUFFLE, 0, 1),
        [call(GET_MANY, [2, 1], 0, 9, OK, 2), call(PUT, [1], 1, 2), call(PUT, [2], 3, 4)],
    ),
    "the smallest, of equal ones the first": (
        *(PRIORITY, 0, 4),
        [call(PUT_MANY, [12, 2, 1], 0, 1), call(GET_MANY, [1, 12], 2, 3, OK, 2), call(GET, [2], 4, 5)],
    ),
}
WRONG_BAGS = {
    "the last row of a shuffle that keeps one": (
        *(SHUFFLE, 1, 3),
        [call(PUT, [1], 0, 1), call(GET, [1], 2, 3)],
    ),
    "a shuffle's gather of one too many": (
        *(SHUFFLE, 1, 3),
        [call(PUT_MANY, [1, 2, 3], 0, 1), call(GET_MANY, [3, 1, 2], 2, 3, OK, 3)],
    ),
    "not the smallest": (PRIORITY, 0, 3, [call(PUT_MANY, [1, 2], 0, 1), call(GET, [2], 2, 3), call(GET, [1], 4, 5)]),
    "of equal ones the last": (
        *(PRIORITY, 0, 3),
        [call(PUT, [1], 0, 1), call(PUT, [11], 2, 3), call(GET, [11], 4, 5), call(GET, [1], 6, 7)],
    ),
    "a gather that is not sorted": (
        PRIORITY,
        0,
        3,
        [call(PUT_MANY, [2, 1], 0, 1), call(GET_MANY, [2, 1], 2, 3, OK, 2)],
    ),
    "a gather with a row for which there was no room": (
        *(PRIORITY, 0, 2),
        [call(PUT_MANY, [1, 5], 0, 1), call(GET_MANY, [1, 2], 2, 5, OK, 2), call(PUT, [2], 3, 4), call(GET, [5], 6, 7)],
    ),
}


@pytest.mark.parametrize("name", RIGHT_BAGS)
def test_right_histories_of_other_kinds_pass(name):
    kind, least, capacity, history = RIGHT_BAGS[name]
    assert check(history, capacity, kind=kind, least=least) is None


@pytest.mark.parametrize("name", WRONG_BAGS)
def test_wrong_histories_of_other_kinds_are_caught(name):
    kind, least, capacity, history = WRONG_BAGS[name]
    assert check(history, capacity, kind=kind, least=least) is not None


@pytest.mark.parametrize("name", RIGHT)
def test_right_histories_pass(name):
    capacity, history = RIGHT[name]
    assert necessary(history, capacity) is None
    assert explained(history, capacity)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_histories_are_caught_by_the_search(name):
    capacity, history = WRONG[name]
    assert name == "waits though closed" or not explained(history, capacity)


@pytest.mark.parametrize("name", sorted(set(WRONG) - {"a result that is none"}))
def test_wrong_histories_are_caught_by_the_quick_conditions(name):
    capacity, history = WRONG[name]
    assert necessary(history, capacity) is not None


@pytest.mark.parametrize("name", SUBTLE)
def test_the_search_sees_more(name):
    capacity, history = SUBTLE[name]
    assert necessary(history, capacity) is None
    assert check(history, capacity) is not None


# ---- histories without threads: the model, its calls begun and returned at random moments ----------------------------


def simulate(rng, model, threads=4, length=5):
    """Calls begin and return at random moments around what the model does; right by construction for a right model."""
    clock, put, calls = 0, 0, []
    waiting = {}
    todo = [length] * threads

    def collect():
        for number, (thread, name, values, rows_wanted, invoked) in list(waiting.items()):
            outcome = model.outcomes.get(number)
            # Some return later than they might.
            if outcome is not None and rng.random() < 0.6:
                result = {None: OK, "CancelledError": CLOSED, "OutOfRangeError": END}.get(outcome.error, TIMEOUT)
                if outcome.value is not None:
                    values = outcome.value[0].reshape(-1).tolist()
                calls.append(Call(name, invoked, clock, result, tuple(values), rows_wanted))
                del waiting[number]
                todo[thread] -= 1

    def begin(thread, name):
        nonlocal put
        values, rows_wanted = (), 1
        count = 1 if name == PUT else rng.randrange(4)
        if name in (PUT, PUT_MANY):
            values = tuple(range(put, put + count))
            put += count
        elif name in (GET_MANY, GET_UP_TO):
            rows_wanted = count
        names = {PUT: "enqueue", PUT_MANY: "enqueue_many", GET: "dequeue", GET_MANY: "dequeue_many"}
        names |= {GET_UP_TO: "dequeue_up_to", CLOSE: "close", CANCEL: "close"}
        argument = {PUT: [values and values[0]], PUT_MANY: [np.array(values, int)], CLOSE: False, CANCEL: True}
        waiting[model.start(names[name], argument.get(name, rows_wanted))] = (thread, name, values, rows_wanted, clock)

    while any(todo):
        clock += 1
        busy = {thread for thread, *_ in waiting.values()}
        free = [t for t, left in enumerate(todo) if left and t not in busy]
        if free and rng.random() < 0.6:
            name = rng.choices([PUT, PUT_MANY, GET, GET_MANY, GET_UP_TO, CLOSE, CANCEL], [8, 6, 8, 4, 4, 1, 1])[0]
            begin(rng.choice(free), name)
        elif rng.random() < 0.2 or not free:
            stuck = [n for n, w in waiting.items() if n not in model.outcomes and w[1] not in (CLOSE, CANCEL)]
            if stuck:
                model.expire(rng.choice(stuck))
        collect()
    for name in (CANCEL, *[GET] * (model.size() + 1)):
        todo.append(1)
        clock += 1
        begin(len(todo) - 1, name)
        while todo[-1] and clock < 10_000:
            clock += 1
            collect()
    for _, name, values, rows_wanted, invoked in waiting.values():
        calls.append(Call(name, invoked, math.inf, None, values, rows_wanted))
    return calls


def model_of(model_class, capacity):
    return model_class(FIFO, capacity, [np.int64], [()])


@pytest.mark.thorough
def test_thousands_of_right_histories_pass():
    for seed in range(3000):
        rng = random.Random(seed)
        capacity = rng.randint(1, 4)
        history = simulate(rng, model_of(QueueModel, capacity), threads=rng.randint(1, 5), length=rng.randint(1, 5))
        assert check(history, capacity) is None, (seed, capacity, history)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b.__name__)
def test_planted_bugs_are_caught(bug):
    caught = 0
    for seed in range(1000):
        rng = random.Random(seed)
        capacity = rng.randint(1, 4)
        caught += check(simulate(rng, model_of(bug, capacity)), capacity) is not None
    assert caught >= 3


# ---- histories of real threads ---------------------------------------------------------------------------------------


@pytest.fixture
def hasty():
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def programs(rng, threads, length, timeouts=(None, 0, 0.001)):
    put = iter(range(10**9))
    names = [PUT, PUT_MANY, GET, GET_MANY, GET_UP_TO, CLOSE, CANCEL]

    def step():
        name = rng.choices(names, [10, 6, 10, 4, 4, 0.3, 0.3])[0]
        count = 1 if name == PUT else rng.randrange(4)
        argument = [next(put) for _ in range(count)] if name in (PUT, PUT_MANY) else count
        return name, argument, rng.choice(timeouts)

    return [[step() for _ in range(length)] for _ in range(threads)]


@pytest.mark.thorough
@pytest.mark.usefixtures("hasty")
def test_a_locked_queue_passes():
    for seed in range(300):
        rng = random.Random(seed)
        capacity = rng.randint(1, 4)
        queue = FIFOQueue(capacity, np.int64, [()])
        history = record(queue, programs(rng, 4, 5), cancel=rng.random() < 0.5)
        assert check(history, capacity) is None, (seed, capacity, history)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b.__name__)
def test_planted_bugs_are_caught_in_threads(bug):
    kind = variant(FIFO, bug)
    for seed in range(300):
        rng = random.Random(seed)
        capacity = rng.randint(1, 3)
        queue = kind(capacity, np.int64, [()])
        # A bug may block for ever: that is waited for only shortly.
        if check(record(queue, programs(rng, 4, 6), cancel=rng.random() < 0.5, patience=0.3), capacity) is not None:
            return
    pytest.fail(f"{bug.__name__} was never caught")
