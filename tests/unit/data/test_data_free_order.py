"""Places saved where order isn't kept: each element comes exactly once, before the place or after it."""

import collections
import functools
import json
import random
import threading

import pytest
from helpers.data.functions import plain

import queuecore as qc
from queuecore.data import Dataset, Options


class Scrambler:
    """Lets calls end in another order than they began: some wait until a few others have ended."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._waiting = []

    def __call__(self, x):
        with self._lock:
            go = None
            if len(self._waiting) < 2 and self._random.random() < 0.5:
                go = threading.Event()
                self._waiting.append(go)
            elif self._waiting:
                self._waiting.pop(self._random.randrange(len(self._waiting))).set()
        if go is not None:
            go.wait(0.005)  # nobody may come any more
        return int(x)


def once_more(x):
    return int(x)


def fails(function, x):
    number = function(x)
    if number % 10 == 5:
        raise ValueError(number)
    return number


def free(function, n):
    return Dataset.range(N).map(functools.partial(fails, function), n, deterministic=False)


def tens(function, x):
    return Dataset.range(7).map(lambda y: function(y) + 100 * int(x))


def bad_tens(function, x):
    return Dataset.range(7).map(lambda y: fails(function, y) + 100 * int(x))


N = 24
FREE = Options(deterministic=False)
PIPELINES = {
    "map": lambda f, n: Dataset.range(N).map(f, n, deterministic=False),
    "by options": lambda f, n: Dataset.range(N).map(f, n).with_options(FREE),
    "found number": lambda f, n: Dataset.range(N).map(f, -1, deterministic=False),
    "batch": lambda f, n: Dataset.range(N).map(f, n, deterministic=False).batch(3).prefetch(2),
    "shuffle": lambda f, n: Dataset.range(N).map(f, n, deterministic=False).shuffle(6, seed=1).batch(3),
    "repeat": lambda f, n: Dataset.range(15).map(f, n, deterministic=False).repeat(3),
    "repeat before": lambda f, n: Dataset.range(15).repeat(3).map(f, n, deterministic=False).batch(2),
    "two": lambda f, n: Dataset.range(N).map(f, n, deterministic=False).map(f, n, deterministic=False),
    "in order behind": lambda f, n: Dataset.range(N).map(f, n, deterministic=False).map(once_more, 2).batch(3),
    "filter": lambda f, n: Dataset.range(N).map(f, n, deterministic=False).filter(lambda x: int(x) % 3 > 0),
    "enumerate": lambda f, n: Dataset.range(N).map(f, n, deterministic=False).enumerate().map(lambda i, x: x),
    "zip": lambda f, n: Dataset.zip((Dataset.range(N).map(f, n, deterministic=False), Dataset.range(N))).map(
        lambda x, y: x
    ),
    "errors": free,
    "errors in batches": lambda f, n: free(f, n).batch(3),
    "errors shuffled": lambda f, n: free(f, n).shuffle(6, seed=1),
    "errors below": lambda f, n: free(f, n).map(f, n, deterministic=False),
    "errors in order behind": lambda f, n: free(f, n).map(once_more, 2),
    "errors filtered": lambda f, n: free(f, n).filter(lambda x: int(x) % 3 > 0),
    "errors interleaved": lambda f, n: Dataset.range(5).interleave(
        functools.partial(bad_tens, f), cycle_length=n, num_parallel_calls=n, deterministic=False
    ),
    "interleave": lambda f, n: Dataset.range(5).interleave(
        functools.partial(tens, f), cycle_length=n, num_parallel_calls=n, deterministic=False
    ),
    "interleaved batches": lambda f, n: (
        Dataset.range(5)
        .interleave(functools.partial(tens, f), cycle_length=n, num_parallel_calls=n, deterministic=False)
        .batch(3)
    ),
    "rows": lambda f, n: (
        Dataset.range(4)
        .interleave(
            lambda x: Dataset.range(60).map(lambda y: y + 100 * x), n, num_parallel_calls=n, deterministic=False
        )
        .batch(20)
    ),
    "sloppy": lambda f, n: (
        Dataset.range(5).apply(
            qc.data.experimental.parallel_interleave(functools.partial(tens, f), cycle_length=n, sloppy=True)
        )
        if hasattr(qc.data, "experimental")
        else Dataset.range(5).parallel_interleave(functools.partial(tens, f), cycle_length=n, sloppy=True)
    ),
}


def taken(it, limit=None):
    outcomes = []
    while limit is None or limit > 0:
        try:
            one = plain(next(it))
            outcomes += one if isinstance(one, list) else [one]
        except StopIteration:
            break
        except qc.errors.PipelineError:
            outcomes.append("error")
        limit = None if limit is None else limit - 1
    return outcomes


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("name", "threads"), [*[(one, 4) for one in PIPELINES], ("map", 2), ("batch", 3), ("interleave", 2)]
)
def test_each_element_comes_exactly_once(name, threads):
    seeds = iter(range(1000))

    def begun(state=None):
        it = iter(PIPELINES[name](Scrambler(next(seeds)), threads))
        if state is not None:
            it.load_state_dict(json.loads(json.dumps(state)))
        return it

    with begun() as it:
        expected = collections.Counter(taken(it))
    for position in (0, 7, 1000):
        with begun() as it:
            outcomes = taken(it, position)
            state = it.state_dict()
        for more in (3, 4, None):  # and a place after that place
            with begun(state) as it:
                outcomes += taken(it, more)
                state = it.state_dict()
        assert collections.Counter(outcomes) == expected, (position, state["position"])


def test_the_size_of_a_state_does_not_grow():
    sizes = []
    with iter(Dataset.range(6000).map(Scrambler(1), 4, deterministic=False)) as it:
        for _ in range(6):
            taken(it, 900)
            sizes.append(len(json.dumps(it.state_dict()["position"]["orders"])))
    # All 5,400 numbers would take 27,000 characters. A thread that gets no processor lets others come far ahead of it.
    assert max(sizes) < 13_000


@pytest.mark.thorough
def test_what_is_noted_is_settled_without_states():
    with iter(Dataset.range(20000).map(once_more, 4, deterministic=False)) as it:
        taken(it, 19000)
        (tape,) = it._stream._run.orders._tapes.values()
        assert len(tape.log) < 12000


def test_order_that_is_kept_is_not_noted():
    with iter(Dataset.range(20).map(once_more, 4)) as it:
        taken(it, 5)
        assert "orders" not in it.state_dict()["position"]
