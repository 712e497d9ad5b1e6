"""Places behind what an error has cut short: if the error does not come again, every element still comes once."""

import errno
import itertools
import json
import random
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.data.blocks import interleaved, small
from helpers.data.chains import write_files
from helpers.data.matrix import numbers_in

from queuecore.data import Dataset, FixedLengthRecordDataset, TextLineDataset
from queuecore.data._nodes.batch import ObjectBatch
from queuecore.data._nodes.cuts import Cuts
from queuecore.data._plan.chain import chain_of
from queuecore.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    QueueCoreError,
    ResumeMismatchError,
    UnavailableError,
)
from queuecore.ops import decode_csv

syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

ELEMENTS = 30
SICK = (10, 19)


class Function:
    """A function of a number that fails for some numbers, until it is well."""

    def __init__(self):
        self.sick = True

    def __call__(self, x):
        if self.sick and int(x) in SICK:
            raise ValueError(int(x))
        return int(x)


def in_python(x):
    return np.array([int(one) for one in x])


class Chain(NamedTuple):
    """Steps, and what they make of a pass over numbers."""

    steps: Callable[[Dataset], Dataset]
    of_pass: Callable[[list[int]], list[int]] = lambda numbers: numbers
    passes: int = 1
    shuffles: bool = False


SHUFFLE: Any = {"seed": 3, "reshuffle_each_iteration": False}
CHAINS = {
    "batches": Chain(lambda ds: ds.batch(7)),
    "whole batches": Chain(lambda ds: ds.batch(5, drop_remainder=True)),
    "single elements": Chain(lambda ds: ds),
    "skip": Chain(lambda ds: ds.skip(2).batch(4), lambda x: x[2:]),
    "take": Chain(lambda ds: ds.take(25).batch(6), lambda x: x[:25]),
    "shard": Chain(lambda ds: ds.shard(2, 0).batch(4), lambda x: x[::2]),
    "passes of batches": Chain(lambda ds: ds.batch(7).repeat(2), passes=2),
    "batches over passes": Chain(lambda ds: ds.repeat(2).batch(7), passes=2),
    "map": Chain(lambda ds: ds.batch(7).map(lambda x: x + 0)),
    "map in Python": Chain(lambda ds: ds.batch(7).map(in_python)),
    "shuffle": Chain(lambda ds: ds.shuffle(5, **SHUFFLE), shuffles=True),
    "shuffle of batches": Chain(lambda ds: ds.batch(4).shuffle(3, **SHUFFLE), shuffles=True),
    "batches of a shuffle": Chain(lambda ds: ds.shuffle(5, **SHUFFLE).repeat(2).batch(4), passes=2, shuffles=True),
}


def step(it):
    """The numbers of the next element, an error, or None at the end."""
    try:
        return list(numbers_in(next(it)))
    except StopIteration:
        return None
    except QueueCoreError as error:
        return error


def rest(ds, state):
    """The numbers of all elements behind a place; none of them fails."""
    with iter(ds) as it:
        it.load_state_dict(json.loads(json.dumps(state)))
        left = [number for element in it for number in numbers_in(element)]
        with iter(ds) as other:  # the end is a place like any other
            other.load_state_dict(json.loads(json.dumps(it.state_dict())))
            assert step(other) is None
    return left


def reached(ds, at, state=None):
    """What `at` calls give, and the place behind them."""
    with iter(ds) as it:
        if state is not None:
            it.load_state_dict(json.loads(json.dumps(state)))
        got = [step(it) for _ in range(at)]
        return got, it.state_dict()


def judge(chain, got, after):
    """Every number comes once, but those whose errors have come; in their order, if it is kept."""
    failed = [(number, sick) for number in range(chain.passes) for sick in SICK]
    failed = failed[: sum(isinstance(one, QueueCoreError) for one in got)]
    numbers = [number for one in got if isinstance(one, list) for number in one]
    expected = []
    for number in range(chain.passes):
        expected += chain.of_pass([one for one in range(ELEMENTS) if (number, one) not in failed])
    if chain.shuffles:
        assert Counter(numbers + after) == Counter(expected)
    else:
        assert numbers + after == expected


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [name for name in CHAINS if name != "whole batches"])
def test_a_function_that_fails_once(name):
    chain = CHAINS[name]
    function = Function()
    ds = chain.steps(Dataset.range(ELEMENTS).map(function))
    refused, results = 0, []
    while not results or results[-1] is not None:
        results, state = reached(ds, len(results) + 1)
        function.sick = False
        try:
            after = rest(ds, state)
        except ResumeMismatchError as error:
            assert "was an error" in str(error)
            refused += 1
        else:
            judge(chain, results, after)
        function.sick = True
    assert len(results) > 5
    # Without the error, what is below the batches would give others.
    assert bool(refused) == (name in {"batches of a shuffle", "shard", "skip", "take"})


def test_a_whole_batch_can_not_be_made_of_what_an_error_left():
    function = Function()
    ds = CHAINS["whole batches"].steps(Dataset.range(ELEMENTS).map(function))
    for index in range(1, 6):
        results, state = reached(ds, index)
        function.sick = False
        with iter(ds) as it:
            it.load_state_dict(state)
            after = list(iter(lambda it=it: step(it), None))
        function.sick = True
        # What the error took away with it is gone; what it did not is in whole batches.
        errors = [one for one in results + after if isinstance(one, QueueCoreError)]
        numbers = [number for one in results + after if isinstance(one, list) for number in one]
        assert len(set(numbers)) == len(numbers)
        assert all(len(one) == 5 for one in results + after if isinstance(one, list))
        assert ELEMENTS - len(numbers) <= 5 * len(errors) + 4, index


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", CHAINS)
def test_a_place_reached_by_going_on_from_one(name):
    function = Function()
    ds = CHAINS[name].steps(Dataset.range(ELEMENTS).map(function))
    all_events = reached(ds, 40)[0]
    for at in range(6):
        state = reached(ds, at)[1]
        for further in range(4):
            got, again = reached(ds, further, state)
            tail, _ = reached(ds, 40, again)
            assert list(map(str, [*all_events[:at], *got, *tail]))[:40] == list(map(str, all_events)), (at, further)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["batches", "batches over passes", "passes of batches", "map", "map in Python"])
def test_a_healed_place_is_left_behind(name):
    """A place behind one that was saved where an error had cut a batch short, and then did not come."""
    chain = CHAINS[name]
    function = Function()
    ds = chain.steps(Dataset.range(ELEMENTS).map(function))
    for at in range(1, 5):
        function.sick = True
        first, state = reached(ds, at)
        function.sick = False
        for further in range(5):
            got, again = reached(ds, further, state)
            if got and got[-1] is None:
                break
            judge(chain, first + got, rest(ds, again))


FILES = {
    **{name: chain for name, chain in CHAINS.items() if name not in {"map", "map in Python", "whole batches"}},
    "interleaved": Chain(lambda ds: ds.batch(7)),
    "interleaved batches of batches": Chain(lambda ds: ds.batch(3).batch(2)),
    "batches of batches": Chain(lambda ds: ds.batch(3).batch(2)),
    "permuted": Chain(lambda ds: ds.permute(seed=3, reshuffle_each_iteration=False).batch(7), shuffles=True),
    "permuted elements": Chain(lambda ds: ds.permute(seed=3, reshuffle_each_iteration=False), shuffles=True),
}
# Those that may refuse to save a place.
LOSE = {"shuffle", "shuffle of batches", "batches of a shuffle", "permuted", "interleaved batches of batches"}


def numbered(folder, kind, name):
    """A dataset of the numbers in three files, or None if this kind of file has no such order."""
    numbers = np.arange(120, dtype="<i4").reshape(3, 40)
    if kind == "fixed":
        paths = write_files(folder, [one.tobytes() for one in numbers])
        return None if "interleaved" in name else FixedLengthRecordDataset(paths, record="<i4")
    paths = write_files(folder, ["".join(f"{number}\n" for number in one).encode() for one in numbers])
    lines = small(TextLineDataset(paths), 33)
    if "permuted" in name:
        return None
    return interleaved(lines, 2, 5) if "interleaved" in name else lines


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["fixed", "lines"])
def test_a_read_that_fails_once(tmp_path, kind, name):
    ds = numbered(tmp_path, kind, name)
    if ds is None:
        return
    ds = FILES[name].steps(ds)
    with iter(ds) as it:
        expected = [number for element in it for number in numbers_in(element)]
    for nth in (2, 5, 9, 14):
        syscalls.reset_faults()
        syscalls.short_reads(64)
        syscalls.fail_read(nth, errno.EIO)
        states, numbers, one = [], [], []
        with iter(ds) as it:
            while isinstance(one, list):
                one = step(it)
                numbers += one if isinstance(one, list) else []
                try:
                    states.append((len(numbers), it.state_dict()))
                except FailedPreconditionError:
                    assert name in LOSE
        syscalls.reset_faults()
        for count, state in states:
            try:
                everything = numbers[:count] + rest(ds, state)
            except InvalidArgumentError as error:
                # The last batches of batches don't come out even behind the cut.
                assert "batches of batches" in name and "equal" in str(error)
                continue
            if FILES[name].shuffles:
                assert Counter(everything) == Counter(expected), (nth, count, state["position"])
            else:
                assert everything == expected, (nth, count, state["position"])


# Steps over batches of a shuffle whose input a failed read ends.
ABOVE = {
    "map in Python": lambda ds: ds.map(in_python),
    "map in threads": lambda ds: ds.map(in_python, 3),
    "padded batches of a map": lambda ds: ds.map(in_python).padded_batch(3, [None]),
    "filter": lambda ds: ds.filter(lambda x: len(in_python(x)) > 0),
    "zip": lambda ds: Dataset.zip(ds, ds.skip(3)).map(lambda x, y: x),
    "flat_map": lambda ds: ds.flat_map(Dataset.from_tensor_slices),
    "interleave": lambda ds: ds.interleave(Dataset.from_tensor_slices, 2),
    "native filter": lambda ds: ds.unbatch().filter(lambda x: x % 2 != 1).batch(10),
    "padded": lambda ds: ds.padded_batch(4, [None]).unbatch(),
    "window": lambda ds: ds.window(5).flat_map(lambda window: window),
    "concatenate": lambda ds: ds.concatenate(ds.take(3)),
    "shuffle": lambda ds: ds.map(in_python).shuffle(9, **SHUFFLE),
    "node over node": lambda ds: ds.map(in_python).unbatch().filter(lambda x: len(in_python([x])) > 0).batch(20),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ABOVE)
def test_what_is_made_of_a_shuffle_that_a_failed_read_ends(tmp_path, name):
    """A place behind elements whose order that has changed is refused; no other leads to an element twice."""
    numbers = np.arange(6000, dtype="<i8").reshape(3, 2000)
    ds = FixedLengthRecordDataset(write_files(tmp_path, [part.tobytes() for part in numbers]), record="<i8")
    ds = ABOVE[name](ds.shuffle(100, **SHUFFLE).batch(10))
    with iter(ds) as it:
        expected = Counter(number for element in it for number in numbers_in(element))
    refused = 0
    for nth in (2, 5, 8):
        syscalls.reset_faults()
        syscalls.short_reads(6000)
        syscalls.fail_read(nth, errno.EIO)
        states, outcomes = [], []
        with iter(ds) as it:
            while isinstance(outcome := step(it), list):
                outcomes += outcome
                if len(outcomes) > 390 * (len(states) + refused):
                    try:
                        states.append((len(outcomes), it.state_dict()))
                    except FailedPreconditionError:
                        refused += 1
        assert isinstance(outcome, UnavailableError)
        syscalls.reset_faults()
        for got, state in states:
            assert Counter(outcomes[:got] + rest(ds, state)) == expected, (nth, got)
    # Of rows that come as they are handed in, only the last hundred have another order: no place was behind them.
    assert refused > 0 or name == "native filter"


@pytest.mark.parametrize("bad", [3, 17, 29, 41, 53])
def test_an_error_behind_a_read_that_failed_once(tmp_path, bad):
    """The iterator goes on behind an element's error in the order that it had, or ends by the error of the read."""
    lines = [str(number) if number != bad else "bad" for number in range(60)]
    paths = write_files(tmp_path, ["".join(f"{line}\n" for line in lines).encode()])
    ds = small(TextLineDataset(paths), 33).shuffle(25, **SHUFFLE)
    ds = ds.map(lambda x: decode_csv(x, [[0]])[0]).batch(3)
    kinds = set()
    for nth in range(3, 8):
        syscalls.reset_faults()
        syscalls.short_reads(33)
        syscalls.fail_read(nth, errno.EIO)
        outcomes = []
        with iter(ds) as it:
            while (outcome := step(it)) is not None:
                outcomes.append(outcome)
                if it.closed:
                    break
        syscalls.reset_faults()
        numbers = [number for outcome in outcomes if isinstance(outcome, list) for number in outcome]
        assert len(set(numbers)) == len(numbers), (nth, outcomes)
        if not isinstance(outcomes[-1], UnavailableError):  # it was read again behind the bad line
            assert sorted(numbers) == [number for number in range(60) if number != bad]
        kinds |= {type(outcome) for outcome in outcomes}
    assert UnavailableError in kinds


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 7])
def test_a_function_that_fails_now_and_then(size):
    """From the last place, after each error: the elements between are made again, and may be errors then."""
    for seed in range(12):
        draw = random.Random(seed)
        calls, trips = itertools.count(), {draw.randrange(1500) for _ in range(5)}

        def function(x, calls=calls, trips=trips):
            if next(calls) in trips:
                raise ValueError(int(x))
            return int(x)

        ds = Dataset.range(1200).map(function).batch(size)
        state, behind, results, more, errors = None, 0, [], True, 0
        while more:
            assert errors < 20
            with iter(ds) as it:
                del results[behind:]
                if state is not None:
                    it.load_state_dict(json.loads(json.dumps(state)))
                while more:
                    one = step(it)
                    if isinstance(one, QueueCoreError):
                        errors += 1
                        break
                    more = one is not None
                    results += one or []
                    if draw.random() < 0.1:
                        state, behind = it.state_dict(), len(results)
        assert results == list(range(1200)), seed
        assert errors


@pytest.mark.thorough
def test_a_place_is_asked_for_while_cuts_are_noted():
    """A thread of the node notes them ahead of the consumer."""
    cuts = Cuts()

    def note():
        for number in range(1, 3000):
            cuts.note(0, number, number, True)
            cuts.below(number % 50, number).note(0, 0, 0, True)

    noting = threading.Thread(target=note)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        noting.start()
        while noting.is_alive():
            state = cuts.state((0, 0))
            numbers = [one[1] for one in state if len(one) == 4]
            assert numbers == list(range(1, len(numbers) + 1))
            assert Cuts(state).state((0, 0)) == state
    finally:
        sys.setswitchinterval(interval)
        noting.join()
    assert len(cuts.state((0, 0))) == 2 * 2999


@pytest.mark.parametrize("closed", [False, True])
def test_a_close_cuts_no_batch(closed):
    def elements(*_):
        yield np.int64(1)
        raise FailedPreconditionError("this iterator is closed")

    run = types.SimpleNamespace(cuts=Cuts(), used=set(), stopped=closed, elements=elements)
    node = ObjectBatch((chain_of(Dataset.range(3)),), 4, False)
    with pytest.raises(FailedPreconditionError):
        list(node.chunks(run, 0, 0))
    assert bool(run.cuts) != closed
