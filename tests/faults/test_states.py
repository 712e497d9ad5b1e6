"""States that somebody has changed, with their checks: each is refused, or leads to a place. The fuzzer tries more."""

import json
import random

import pytest
from helpers.faults import fuzz_targets

from queuecore.data import Dataset
from queuecore.data._plan.state import _check
from queuecore.errors import ResumeMismatchError

TAPES = {
    "no list": "x",
    "four parts": [1, [], [], []],
    "no number": [1.5, [], []],
    "true": [True, [], []],
    "negative": [0, [], [-1]],
    "twice": [0, [2], [2, 3]],
    "below": [5, [4], []],
    "far away": [0, [], [1 << 40]],
}
TURNS = {
    "three parts": [0, 0, []],
    "a dataset that was not begun": [0, 1, [[4, 1, 0]], []],
    "a turn of none": [0, 2, [], [[[], 3, 1]]],
    "rounds without end": [0, 2, [], [[[0, 1], 1 << 60, 1]]],
    "a turn far away": [0, 2, [], [[1 << 50, 1]]],
    "an unknown kind of turn": [0, 2, [], [[1, -7]]],
    "datasets without end": [0, 1 << 61, [], []],
}


@pytest.fixture(scope="module", autouse=True)
def _datasets_are_made():
    # Before each test looks at what it leaves: their file stays until the end.
    fuzz_targets._states()


def free():
    return Dataset.range(30).map(fuzz_targets._opaque, 2, deterministic=False)


def interleaved():
    return Dataset.range(5).interleave(
        lambda x: Dataset.range(x, x + 4).map(fuzz_targets._third),
        cycle_length=2,
        num_parallel_calls=2,
        deterministic=False,
    )


def go_on(make, change):
    with iter(make()) as it:
        next(it)
        state = it.state_dict()
    change(state["position"])
    state["check"] = _check(state)
    with iter(make()) as it:
        it.load_state_dict(json.loads(json.dumps(state)))
        return [repr(one) for one in it]


@pytest.mark.parametrize(
    ("make", "tape"),
    [*((free, tape) for tape in TAPES.values()), *((interleaved, turns) for turns in TURNS.values())],
    ids=[*TAPES, *TURNS],
)
def test_an_order_that_cannot_have_been(make, tape):
    def change(position):
        position["orders"] = {"pass": 0, "tapes": {"0": tape}, "below": {}}

    # Of datasets without end there are none that have not ended: nothing comes, not even what was delivered.
    fewer = tape is TURNS["datasets without end"]
    with pytest.raises(ResumeMismatchError, match="more elements than" if fewer else "the state is damaged"):
        go_on(make, change)


def test_a_pass_that_never_comes():
    def change(position):
        position["start"][0] = 1

    with pytest.raises(ResumeMismatchError, match="does not fit"):
        go_on(free, change)


def test_a_place_behind_elements_that_were_not_delivered():
    with iter(free()) as it:
        for _ in range(6):
            next(it)
        state = it.state_dict()
    state["position"]["start"] = [0, 5, 5, -1, 0, 0, 5, 1, 5]
    state["position"]["elements"] = 1
    state["position"].pop("orders", None)
    state["check"] = _check(state)
    with iter(free()) as it:
        it.load_state_dict(state)
        with pytest.raises(ResumeMismatchError, match="go on behind records"):
            next(it)
        assert it.closed


@pytest.mark.parametrize("elements", [6, 10**6, 1 << 40])
def test_more_elements_than_there_are(elements):
    def make():
        return Dataset.range(5).shuffle(3, seed=1)

    with iter(make()) as it:
        next(it)
        state = it.state_dict()
    state["position"]["elements"] = elements
    state["check"] = _check(state)
    with iter(make()) as it:
        it.load_state_dict(state)
        with pytest.raises(ResumeMismatchError, match=f"a place behind {elements - 5} more elements than"):
            next(it)


# Code, errno, sentence, stage, file, offset, record, and two numbers of the sentence's own.
ERROR = [60, 0, 0, 5, -1, -1, 3, 0, 0]


@pytest.mark.parametrize(
    ("index", "number"),
    [(0, 61), (0, 0), (0, 99), (4, 0), (4, 1 << 40), (4, -2), (2, 1 << 40)],
    ids=["handed in", "no code", "unknown code", "a file", "a file far away", "no file", "unknown sentence"],
)
@pytest.mark.parametrize("name", ["breaks", "ended"])
def test_an_error_that_cannot_have_been(name, index, number):
    numbers = [*ERROR[:index], number, *ERROR[index + 1 :]]
    with iter(Dataset.range(5)) as it:
        next(it)
        state = it.state_dict()
    state["position"][name] = [[0, 3, 0, *numbers]]
    state["check"] = _check(state)
    with iter(Dataset.range(5)) as it, pytest.raises(ResumeMismatchError, match="the state is damaged"):
        it.load_state_dict(state)


def test_an_error_of_an_input_that_cannot_have_been():
    ds = Dataset.range(9).shuffle(5, 1).map(lambda x: int(x))
    with iter(ds) as it:
        next(it)
        state = it.state_dict()
    state["position"]["ends"] = [[[0, 0], [0, 3, 0, 61, *ERROR[1:]]]]
    state["check"] = _check(state)
    with iter(ds) as it:
        it.load_state_dict(state)
        with pytest.raises(ResumeMismatchError, match="the state is damaged"):
            next(it)


@pytest.mark.parametrize(
    "ends", [[[0, 0, 0, 3]], [[[0], [0, 3]]], [[[0, 0], [0, 3, 2, *ERROR]]], [[[0, 0], [0, 3, 0]]]]
)
def test_ends_of_inputs_that_are_none(ends):
    ds = Dataset.range(9).shuffle(5, 1).map(lambda x: int(x))
    with iter(ds) as it:
        next(it)
        state = it.state_dict()
        state["position"]["ends"] = ends
        state["check"] = _check(state)
        with pytest.raises(ResumeMismatchError):
            it.load_state_dict(state)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("which", range(6))
def test_changes_at_random(which):
    rng = random.Random(which)
    for _ in range(300):
        data = bytes([which])
        for _ in range(rng.choice([1, 1, 2, 3])):
            number = rng.choice([rng.randrange(64), rng.getrandbits(60)])
            data += rng.randbytes(2) + bytes([rng.randrange(200)]) + number.to_bytes(8, "little")
        fuzz_targets.state(data)
