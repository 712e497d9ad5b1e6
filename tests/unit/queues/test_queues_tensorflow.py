"""The model of the queues against TensorFlow itself, in a child process.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import json
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest
from helpers.models.queue_model import DEQUEUES, KINDS, Outcome
from helpers.queues.queue_driver import PADDING, SHUFFLE, Setup, assert_outcome, history
from helpers.tensorflow import queues as tensorflow_queues
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(600),
]

SEEDS = int(os.environ.get("QUEUECORE_TENSORFLOW_HISTORIES", "6"))
OPS = ["enqueue", "enqueue_many", "dequeue", "dequeue_many", "dequeue_up_to", "close"]


def arguments(rng, name, kind):
    # TensorFlow's padding queue crashes on rows of no width and on batches of no rows.
    least = int(kind == PADDING)
    if name == "close":
        return [rng.random() < 0.4]
    if name in ("dequeue_many", "dequeue_up_to"):
        return [rng.randint(-1, 5) if rng.random() < 0.2 else rng.randint(1, 5)]
    if name == "enqueue_many":
        return [rng.randint(least, 5), 0, rng.randint(least, 4)]
    return [0, rng.randint(least, 4)] if name == "enqueue" else []


def random_history(seed, kind, threads):
    """A setup, what the model says after each step, and the steps as TensorFlow gets them."""
    rng = random.Random(seed)
    capacity = rng.choice([0, 1, 2, 3, 5, -1]) if kind != SHUFFLE else rng.choice([1, 2, 3, 5, -1])
    least = rng.randrange(capacity if capacity > 0 else 5) if kind == SHUFFLE else 0
    setup = Setup(kind, capacity, least, seed=rng.randrange(2**31))
    weights = [5, 5, 5, 4, 4, 0.6]
    plan = [(name, *arguments(rng, name, kind)) for name in rng.choices(OPS, weights, k=14)]
    plan += [("close", False), ("close", True)][rng.randrange(2) :]
    plan += [("dequeue_up_to", 3)] * 2 + [("dequeue",)] * 3
    model = setup.model(tensorflow=True)
    steps, expected, stale = [], [], set()
    for name, argument in history(plan, kind, ties=False):
        # A close can't time out there, so in one thread only one that finds nothing in its way is made.
        timed = name != "close" and (not threads or rng.random() < 0.15)
        # An attempt that timed out behind others stays in TensorFlow's line until it is its turn, and hides a later one
        # that happens to get its memory: that one then never times out. So there is one of them in a line, at most.
        line = model.dequeues if name in DEQUEUES else model.enqueues
        timed = timed and (name in DEQUEUES) not in stale
        before = set(model.outcomes)
        number = model.start(name, argument)
        if timed and model.expire(number) and line:
            stale.add(name in DEQUEUES)
        over = sorted(set(model.outcomes) - before)
        expected.append((name, {n: model.outcomes[n] for n in over}, model.size(), model.is_closed()))
        if name in ("enqueue", "enqueue_many"):
            argument = [(a.dtype.str, a.shape, a.reshape(-1).tolist()) for a in map(np.asarray, argument)]
        steps.append((name, argument, timed, over))
    return setup, expected, steps


def play(histories):
    """TensorFlow's answers."""
    programs = [
        {
            "setup": {k: getattr(setup, k) for k in ("kind", "capacity", "min_after_dequeue", "seed", "shapes")},
            "steps": steps,
        }
        for setup, _, steps in histories
    ]
    done = subprocess.run(
        [PYTHON, "-P", tensorflow_queues.__file__],
        input=json.dumps(programs),
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(tensorflow_queues.__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("threads", [False, True], ids=["one-thread", "many"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_tensorflows_algorithm(kind, threads):
    histories = [random_history(seed, kind, threads) for seed in range(SEEDS)]
    for seed, ((setup, expected, steps), answer) in enumerate(zip(histories, play(histories), strict=True)):
        for number, ((name, outcomes, size, closed), (over, got_size, got_closed)) in enumerate(
            zip(expected, answer, strict=True)
        ):
            where = f"history {seed} of {setup}, step {number}, {name}: " + str([(s[0], s[2]) for s in steps])
            assert sorted(n for n, _, _ in over) == sorted(outcomes), where
            for n, error, parts in over:
                value = parts and [np.array(data, dtype).reshape(shape) for dtype, shape, data in parts]
                assert_outcome(Outcome(value, error), outcomes[n], where)
            assert (got_size, got_closed) == (size, closed), where


def test_the_histories_are_worth_playing():
    # They block, end and time out: else equality would say little.
    for kind in KINDS:
        steps = [step for seed in range(25) for step in random_history(seed, kind, True)[1]]
        errors = [outcome.error for _, over, _, _ in steps for outcome in over.values()]
        assert {None, "CancelledError", "OutOfRangeError", "DeadlineExceededError"} <= set(errors)
        assert errors.count(None) > len(errors) / 4
