"""The queues against the sequential model: random histories, of one thread and of many that block.

The model itself is held against facts of TensorFlow's queues here, one by one, and in `test_queues_tensorflow.py`
against TensorFlow.
"""

import math
import random
import types

import numpy as np
import pytest
from helpers.models.oracle import seed_pair
from helpers.models.planted import BUGS, HIDDEN
from helpers.models.queue_model import ModelError, QueueModel
from helpers.models.slow_queues import variant
from helpers.queues.queue_driver import (
    FIFO,
    PADDING,
    PRIORITY,
    SHUFFLE,
    Driver,
    Expired,
    Setup,
    Taken,
    assert_outcome,
    history,
    implementations,
    result_of,
)
from hypothesis import HealthCheck, event, given, settings, strategies as st

# ---- the model -------------------------------------------------------------------------------------------------------


def ints(capacity, kind=FIFO, **options):
    return QueueModel(kind, capacity, [np.int64], [()], **options)


def value(model, number):
    return model.outcomes[number].value[0].tolist()


@pytest.mark.parametrize(("seed", "order"), [(1, [7, 8, 1, 3, 9, 4, 2, 6, 5, 0]), (2, [1, 3, 6, 0, 8, 7, 9, 2, 4, 5])])
def test_the_model_shuffles_as_tensorflow(seed, order):
    one = ints(10, SHUFFLE, pair=seed_pair(None, seed))
    one.start("enqueue_many", [range(10)])
    assert value(one, one.start("dequeue_many", 10)) == order
    other = ints(10, SHUFFLE, pair=seed_pair(None, seed))
    other.start("enqueue_many", [range(10)])
    assert [value(other, other.start("dequeue")) for _ in range(10)] == order


def test_the_model_lets_only_heads_act():
    model = ints(2)
    first, second = model.start("enqueue_many", [[1, 2, 3, 4]]), model.start("enqueue_many", [[11, 12, 13, 14]])
    assert model.blocked() == [first, second] and model.size() == 2
    got = [value(model, model.start("dequeue_many", n)) for n in (3, 3, 2)]
    assert got == [[1, 2, 3], [4, 11, 12], [13, 14]]

    big, small = model.start("dequeue_many", 3), model.start("dequeue")
    model.start("enqueue_many", [[21, 22]])
    assert model.blocked() == [big, small] and model.size() == 0
    model.start("enqueue_many", [[23, 24]])
    assert (value(model, big), value(model, small)) == ([21, 22, 23], 24)


def test_the_model_loses_nothing_to_a_timeout_and_tensorflow_does():
    for tensorflow in (False, True):
        model = ints(3, tensorflow=tensorflow)
        gather = model.start("dequeue_many", 5)
        model.start("enqueue_many", [[1, 2]])
        assert model.size() == 0
        model.expire(gather)
        assert model.outcomes[gather].error == "DeadlineExceededError"
        assert model.size() == (0 if tensorflow else 2)
    # The place of what was held may have been taken meanwhile.
    model = ints(1)
    gather = model.start("dequeue_many", 3)
    model.start("enqueue_many", [[1, 2, 3, 4]])
    assert value(model, gather) == [1, 2, 3] and model.size() == 1
    gather = model.start("dequeue_many", 3)
    model.start("enqueue", [5])
    model.expire(gather)
    assert model.size() == 2
    assert [value(model, model.start("dequeue")) for _ in range(2)] == [4, 5]


def test_the_model_closes_behind_what_waits():
    model = ints(1)
    pending = model.start("enqueue_many", [[1, 2]])
    close, late = model.start("close", False), model.start("enqueue", [3])
    assert model.blocked() == [pending, close, late] and not model.is_closed()
    rest = model.start("dequeue_up_to", 5)
    assert model.is_closed() and value(model, rest) == [1, 2]
    assert model.outcomes[late].error == "CancelledError"
    assert model.outcomes[model.start("dequeue")].error == "OutOfRangeError"
    assert model.outcomes[model.start("close", False)].error is None


def test_the_model_cancels_and_keeps_what_was_admitted():
    model = ints(2)
    pending, close = model.start("enqueue_many", [[1, 2, 3]]), model.start("close", False)
    model.start("close", True)
    assert model.outcomes[pending].error == model.outcomes[close].error == "CancelledError"
    assert model.outcomes[model.start("dequeue_many", 3)].error == "OutOfRangeError"
    assert value(model, model.start("dequeue_up_to", 3)) == [1, 2]


def test_the_model_keeps_a_shuffle_filled_while_it_is_open():
    model = ints(5, SHUFFLE, min_after_dequeue=2)
    gather = model.start("dequeue_many", 3)
    model.start("enqueue_many", [[1, 2, 3]])
    assert model.blocked() == [gather] and model.size() == 2
    up_to = model.start("dequeue_up_to", 9)
    model.start("enqueue", [4])
    model.start("enqueue", [5])
    model.start("close", False)
    assert sorted(value(model, gather) + value(model, up_to)) == [1, 2, 3, 4, 5]
    with pytest.raises(ModelError):
        ints(3, SHUFFLE, min_after_dequeue=3)


def test_the_model_pads_and_sorts():
    pad = QueueModel(PADDING, 4, [np.int32], [(None, 2)])
    for height in (1, 3, 0):
        pad.start("enqueue", [np.ones((height, 2))])
    assert pad.outcomes[pad.start("enqueue", [np.ones((1, 3))])].error == "InvalidArgumentError"
    (batch,) = pad.outcomes[pad.start("dequeue_many", 3)].value
    assert batch.shape == (3, 3, 2) and batch.sum(axis=(1, 2)).tolist() == [2, 6, 0]

    order = QueueModel(PRIORITY, 9, [np.int64, np.int64], [(), ()])
    order.start("enqueue_many", [[2, 1, 2, 1, -(2**63)], range(5)])
    assert order.outcomes[order.start("dequeue_many", 5)].value[1].tolist() == [4, 1, 3, 0, 2]
    assert order.outcomes[order.start("dequeue_many", 10)].error == "InvalidArgumentError"


# ---- one thread ------------------------------------------------------------------------------------------------------

counts = st.integers(0, 5)
one_op = st.one_of(
    st.tuples(st.just("enqueue"), counts, counts),
    st.tuples(st.just("enqueue_many"), counts, counts, counts),
    st.just(("dequeue",)),
    st.tuples(st.sampled_from(["dequeue_many", "dequeue_up_to"]), st.integers(-1, 5)),
)
# Closes are rare: after one, little happens.
closes = st.tuples(st.just("close"), st.booleans())
ops = st.lists(one_op, min_size=1, max_size=25).flatmap(
    lambda body: st.lists(one_op | closes, max_size=8).map(lambda tail: body + tail)
)


@st.composite
def setups(draw, kind):
    capacity = draw(st.integers(1, 6) | st.just(-1))
    least = draw(st.integers(0, (5 if capacity < 0 else capacity) - 1)) if kind == SHUFFLE else 0
    return Setup(kind, capacity, least, draw(st.integers(0, 2**40)), draw(st.integers(0, 4)) > 0)


def deadlocks(setup, name, argument):
    # A dequeue_up_to of more than a priority queue holds waits for a close that a full queue holds up.
    return setup.kind == PRIORITY and name == "dequeue_up_to" and 0 < setup.capacity < (argument or 0)


def to_the_end(steps, model):
    """The steps, a close, and dequeues until nothing is left."""
    yield from steps
    yield "close", True
    while model.size():
        yield "dequeue", None


@pytest.mark.thorough
@pytest.mark.parametrize(("module", "kind"), implementations())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_histories_of_one_thread(module, kind, data):
    setup = data.draw(setups(kind))
    steps = data.draw(ops)
    queue, model, outcomes = setup.queue(module), setup.model(), Taken()
    for i, (name, argument) in enumerate(to_the_end(history(steps, kind), model)):
        if deadlocks(setup, name, argument):
            continue
        number = model.start(name, argument)
        # With a timeout of 0 everything is a try, and nothing blocks.
        model.expire(number)
        arguments = () if name == "dequeue" else (argument,)
        got = result_of(getattr(queue, name), *arguments, timeout=0)
        assert_outcome(got, model.outcomes[number], f"step {i}, {name}", in_order=model.order_known)
        outcomes.add(got, model.outcomes[number])
        assert (queue.size(), queue.is_closed()) == (model.size(), model.is_closed()), f"step {i}, {name}"
    outcomes.check()


# ---- many threads ----------------------------------------------------------------------------------------------------

TIMEOUT = 0.1


@pytest.mark.thorough
@pytest.mark.parametrize(("module", "kind"), implementations())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_histories_that_block(module, kind, data):
    setup = data.draw(setups(kind).filter(lambda s: s.shaped))
    steps = data.draw(ops)
    tries = data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps)))
    driver = Driver(setup, setup.queue(module))
    for (name, argument), a_try in zip(history(steps, kind), tries, strict=True):
        if not deadlocks(setup, name, argument):
            driver.start(name, argument, timeout=0 if a_try and len(driver.model.blocked()) > 2 else None)
    event(f"{min(len(driver.model.blocked()), 8)} blocked at the end")
    driver.finish()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("module", "kind"), implementations())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_histories_with_timeouts(module, kind, data):
    setup = data.draw(setups(kind).filter(lambda s: s.shaped and s.capacity > 0))
    before, after = data.draw(st.lists(one_op, max_size=8)), data.draw(st.lists(one_op | closes, max_size=3))
    timed = data.draw(one_op | closes)
    timeouts = [None] * len(before) + [TIMEOUT] + [None] * len(after)
    driver = Driver(setup, setup.queue(module))
    number = None
    try:
        for (name, argument), timeout in zip(history([*before, timed, *after], kind), timeouts, strict=True):
            if not deadlocks(setup, name, argument):
                started = driver.start(name, argument, timeout)
                number = started if timeout else number
        if number is not None:
            event("timed out" if number in driver.running else "done in time")
            driver.expire(number)
        driver.finish()
    except Expired:
        # Too slow a machine: nothing is known of the order of events, so nothing can be wrong.
        event("late")
        driver.queue.close(True)


# Facts of TensorFlow's queues as steps; the model says what they come to. Everything not over at the end is cancelled.
SCENARIOS = {
    "three go in, the fourth dequeue blocks": [("enqueue_many", 3), *[("dequeue",)] * 4],
    "two batches through two places": [("enqueue_many", 4), ("enqueue_many", 4), *[("dequeue_many", 2)] * 4],
    "two gathers": [("dequeue_many", 3), ("dequeue_many", 3), *[("enqueue", i) for i in range(6)]],
    "a small dequeue behind a big one": [("dequeue_many", 3), ("dequeue",), ("enqueue_many", 2), ("enqueue_many", 2)],
    "a gather of more than there is room for": [("enqueue_many", 9), ("dequeue_many", 2), ("dequeue_up_to", 2)] * 2,
    "batches of no rows pass by": [
        ("enqueue_many", 3),
        ("enqueue_many", 0),
        ("dequeue_many", 0),
        ("dequeue_many", 2),
        ("dequeue_many", 2),
        ("dequeue_many", 0),
        ("close", False),
        ("enqueue_many", 0),
        ("dequeue_up_to", 0),
    ],
    "a close waits, and those after it are refused": [
        ("enqueue_many", 4),
        ("close", False),
        ("enqueue", 1),
        ("close", False),
        ("dequeue_many", 2),
        ("dequeue_many", 2),
        ("dequeue",),
    ],
    "a cancelling close ends enqueues and closes": [
        ("enqueue_many", 4),
        ("enqueue", 1),
        ("close", False),
        ("close", True),
        ("dequeue_many", 3),
        ("dequeue_many", 2),
        ("dequeue",),
    ],
    "a close gives back what a gather held": [
        ("enqueue", 1),
        ("dequeue_many", 2),
        ("enqueue", 2),
        ("dequeue_many", 2),
        ("enqueue", 3),
        ("dequeue",),
        ("close", False),
        ("dequeue",),
    ],
    "a close completes a dequeue_up_to": [
        ("dequeue_up_to", 2),
        ("enqueue", 1),
        ("dequeue_up_to", 2),
        ("close", False),
        ("dequeue_up_to", 2),
    ],
    "a dequeue_up_to drains what a close waits for": [
        ("enqueue_many", 5),
        ("close", False),
        ("dequeue_up_to", 2),
        ("dequeue_up_to", 2),
        ("dequeue_up_to", 2),
    ],
    "a close ends all waits": [("dequeue",), ("dequeue_many", 2), ("dequeue_up_to", 2)] * 3 + [("close", False)],
    "a close again and again": [("close", False), ("close", True), ("close", False), ("enqueue", 1), ("dequeue",)],
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(("module", "kind"), implementations())
def test_scenarios(module, kind, name):
    for capacity, least in ((2, 0), (2, 1), (3, 0), (3, 2)):
        if least and kind != SHUFFLE:
            continue
        setup = Setup(kind, capacity, least)
        driver = Driver(setup, setup.queue(module))
        for step in history(SCENARIOS[name], kind):
            driver.start(*step)
        driver.finish()


def patiently(scenario):
    """Play a scenario with longer and longer timeouts, until the machine is fast enough for one."""
    for timeout in (0.2, 2.0, 10.0):
        try:
            return scenario(timeout)
        except Expired:
            continue
    pytest.fail("this machine takes longer than ten seconds for two steps")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("module", "kind"), implementations())
def test_a_gather_that_times_out_gives_back_what_it_took(module, kind):
    def scenario(timeout):
        setup = Setup(kind, 4, seed=3)
        driver = Driver(setup, setup.queue(module))
        steps = list(history([("enqueue_many", 3), ("enqueue_many", 2)], kind))
        number = driver.start("dequeue_many", 4, timeout=timeout)
        driver.start(*steps[0])
        # All but the priority queue have taken the rows out of sight.
        assert driver.queue.size() == (3 if kind == PRIORITY else 0)
        driver.expire(number)
        assert driver.queue.size() == 3
        driver.start(*steps[1])
        driver.start("dequeue_many", 2)
        driver.finish()

    patiently(scenario)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("module", "kind"), implementations())
def test_a_close_that_times_out_is_withdrawn(module, kind):
    def scenario(timeout):
        setup = Setup(kind, 1)
        driver = Driver(setup, setup.queue(module))
        steps = list(history([("enqueue_many", 3), ("enqueue", 1)], kind))
        driver.start(*steps[0])
        number = driver.start("close", False, timeout=timeout)
        late = driver.start(*steps[1])
        driver.start("dequeue")
        driver.expire(number)
        assert not driver.queue.is_closed()
        for _ in range(3):
            driver.start("dequeue")
        assert driver.model.outcomes[late].error is None
        driver.finish()

    patiently(scenario)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("module", "kind"), implementations())
def test_an_unbounded_queue_never_blocks_an_enqueue(module, kind):
    setup = Setup(kind, -5)
    driver = Driver(setup, setup.queue(module))
    steps = history([("enqueue_many", 400), ("enqueue", 1), ("enqueue_many", 700)], kind)
    for step in steps:
        driver.start(*step)
    assert driver.queue.size() == 1101 and math.isinf(driver.model.capacity)
    driver.start("dequeue_many", 1000)
    driver.finish()


@pytest.mark.parametrize("bug", BUGS + HIDDEN, ids=lambda b: b.__name__)
def test_planted_bugs_are_caught(bug):
    # A module whose FIFOQueue has that bug.
    module = types.SimpleNamespace(FIFOQueue=variant(FIFO, bug))
    names = ["enqueue", "enqueue_many", "enqueue_many", "dequeue", "dequeue_many", "dequeue_up_to", "close"]
    for seed in range(100):
        rng = random.Random(seed)
        setup = Setup(FIFO, rng.randint(1, 4))
        steps = [(rng.choice(names), rng.randrange(5)) for _ in range(15)]
        steps = [(name, n > 2) if name == "close" else (name, n) for name, n in steps]
        # What should have happened and did not is waited for only shortly.
        driver = Driver(setup, setup.queue(module), patience=0.1)
        try:
            for name, argument in history(steps, FIFO):
                driver.start(name, argument, timeout=rng.choice([None, None, 0]))
            driver.finish()
        except AssertionError:
            return
    pytest.fail(f"{bug.__name__} was never caught")
