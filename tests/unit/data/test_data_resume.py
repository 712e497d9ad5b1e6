"""Saved positions: the next element is the one that would have come next, wherever and however the state is loaded."""

import contextlib
import copy
import itertools
import json
import os
import pickle
import signal

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, chains, dataset, own, pull, run, threads, values, write_files
from helpers.models.oracle import assert_same
from helpers.process import run_python
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore._core.stream.marks import Mark, Saved
from queuecore.data._plan import state as _state
from queuecore.data._plan.identity import Stamps
from queuecore.errors import FailedPreconditionError, InvalidArgumentError, ResumeMismatchError

CONTENTS = [bytes(range(60)), b"", bytes(range(60, 67)), bytes(range(67, 167))]

CHAINS = [
    [],
    [("batch", 4, False)],
    [("batch", 4, True), ("repeat", 3)],
    [("shuffle", 20, 1, True)],
    [("shuffle", 20, 1, True), ("batch", 7, False)],
    [("shuffle", 1000, 1, True), ("repeat", 3), ("batch", 7, True)],
    [("shuffle", 20, 1, False), ("repeat", 3), ("batch", 7, False)],
    [("repeat", 2), ("shuffle", 30, 4, True), ("batch", 5, False)],
    [("shuffle", 9, 1, True), ("shuffle", 30, 2, True), ("repeat", 2), ("batch", 5, False)],
    [("batch", 3, True), ("shuffle", 5, 1, True), ("batch", 2, False), ("repeat", 2)],
    [("batch", 3, True), ("shuffle", 5, 3, True), ("take", 9), ("repeat", 4)],
    [("skip", 13), ("take", 90), ("shuffle", 25, 1, True), ("repeat", 3), ("take", 100), ("batch", 6, False)],
]


@pytest.fixture
def paths(tmp_path):
    return write_files(tmp_path, CONTENTS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ops", CHAINS)
def test_at_every_place(paths, ops):
    ds = apply(dataset(paths, 1), ops)
    fresh = apply(dataset(paths, 1), ops)
    states, expected = [], []
    with iter(threads(ds, 2)) as it:
        states.append(it.state_dict())
        for element in it:
            expected.append(own(element))
            states.append(it.state_dict())
        states.append(it.state_dict())  # after the end
    for index, number in zip(range(len(states)), itertools.cycle(THREADS), strict=False):
        with iter(threads(fresh, number)) as it:
            it.load_state_dict(states[index])
            assert it.state_dict() == states[index]
            # All the rest from a few places, the next few elements from all of them.
            limit = None if index % 17 == 0 or index > len(states) - 3 else 3
            got, error = pull(it, limit)
            assert error is None
            assert_same(got, expected[index:] if limit is None else expected[index : index + limit])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains(), where=st.floats(0, 1), used=st.integers(0, 5), data=st.data())
def test_anywhere_in_any_chain(tmp_path_factory, ops, where, used, data):
    paths = write_files(tmp_path_factory.mktemp("resume"), CONTENTS)
    expected, _ = run(apply(dataset(paths, 3, tail="drop"), ops))
    place = round(where * len(expected))
    with iter(threads(apply(dataset(paths, 3, tail="drop"), ops), data.draw(st.sampled_from(THREADS)))) as it:
        pull(it, place)
        state = it.state_dict()
    with iter(threads(apply(dataset(paths, 3, tail="drop"), ops), data.draw(st.sampled_from(THREADS)))) as it:
        pull(it, used)  # a state may be loaded at any time
        it.load_state_dict(state)
        assert_same(pull(it)[0], expected[place:])


@pytest.mark.parametrize("number", THREADS)
def test_loaded_twice_and_backwards(paths, number):
    ds = threads(dataset(paths, 1).shuffle(20, 1).repeat(3).batch(7), number)
    with iter(ds) as it:
        expected = [own(next(it)) for _ in range(10)]
        early = it.state_dict()
        expected += [own(next(it)) for _ in range(10)]
        late = it.state_dict()
        expected += pull(it)[0]
        for state, place in [(early, 10), (late, 20), (late, 20), (early, 10)]:
            it.load_state_dict(state)
            assert_same(pull(it, 5)[0], expected[place : place + 5])
        it.load_state_dict(late)
        again = it.state_dict()
        assert again == late
        assert_same(pull(it)[0], expected[20:])


def test_later_epochs_go_on_as_they_would_have(paths):
    # The usual training loop: one iterator per epoch, the shuffle counts them.
    def dataset_of_one_epoch():
        return dataset(paths, 1).shuffle(50, 7).batch(10)

    ds = dataset_of_one_epoch()
    epochs = [run(ds)[0] for _ in range(2)]
    with iter(ds) as it:
        epochs.append(pull(it, 6)[0])
        state = it.state_dict()
        epochs[2] += pull(it)[0]
    epochs += [run(ds)[0] for _ in range(2)]

    resumed = dataset_of_one_epoch()
    with iter(resumed) as it:
        it.load_state_dict(state)
        assert_same(pull(it)[0], epochs[2][6:])
    for epoch in epochs[3:]:
        assert_same(run(resumed)[0], epoch)


def test_unseeded_shuffles_take_the_states_seeds(paths):
    def unseeded():
        return dataset(paths, 1).shuffle(50).batch(10).shuffle(4).repeat(2)

    first, second = unseeded(), unseeded()
    with iter(first) as it:
        pull(it, 9)
        state = json.loads(json.dumps(it.state_dict()))
        rest = pull(it)[0]
    following = run(first)[0]
    for used in (0, 4):
        with iter(second) as it:
            pull(it, used)
            it.load_state_dict(state)
            assert it.state_dict() == state
            assert_same(pull(it)[0], rest)
        assert_same(run(second)[0], following)


def test_any_store_will_do(paths):
    ds = dataset(paths, 1).shuffle(20, 1).batch(7)
    with iter(ds) as it:
        pull(it, 5)
        state = it.state_dict()
        rest = pull(it)[0]
    for other in (json.loads(json.dumps(state)), pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
        with iter(ds) as it:
            it.load_state_dict(other)
            assert_same(pull(it)[0], rest)
    assert len(json.dumps(state)) < 1000


def test_a_state_is_a_copy(paths):
    with iter(dataset(paths, 1).shuffle(20, 1)) as it:
        state = it.state_dict()
        kept = copy.deepcopy(state)
        state["position"]["elements"] = 7
        state["plan"]["ops"].clear()
        next(it)
        it.load_state_dict(kept)
        assert it.state_dict() == kept


def test_after_close_and_after_an_error(paths, tmp_path):
    ds = dataset([*paths, tmp_path / "missing"], 1)
    expected, error = run(ds)
    assert isinstance(error, qc.errors.NotFoundError)
    it = iter(ds)
    results, _ = pull(it, 3)
    it.close()
    state = it.state_dict()
    it = iter(ds)
    it.load_state_dict(state)
    rest, error = pull(it)
    assert isinstance(error, qc.errors.NotFoundError)
    assert_same(results + rest, expected)
    state = it.state_dict()
    (tmp_path / "missing").write_bytes(b"abc")
    with iter(ds) as it:
        it.load_state_dict(state)
        results, error = pull(it)
        assert error is None
        assert values(results) == list(b"abc")


def test_prefetch_and_options_may_differ(paths):
    ds = dataset(paths, 1).shuffle(20, 1).batch(7)
    with iter(ds) as it:
        pull(it, 5)
        state = it.state_dict()
        rest = pull(it)[0]
    other = ds.prefetch(9).with_options(qc.data.Options(num_threads=3, max_leases=2, on_hold="raise"))
    with iter(other) as it:
        it.load_state_dict(state)
        assert_same(pull(it)[0], rest)


SCRIPT = """
    import json, sys
    import queuecore as qc
    from helpers.data.chains import pull, values
    folder, number, state = sys.argv[1:]
    ds = qc.data.FixedLengthRecordDataset(folder + "/*.bin", 1).shuffle(40).repeat(2).batch(6)
    it = iter(ds.with_options(qc.data.Options(num_threads=int(number))))
    if state != "none":
        it.load_state_dict(json.loads(state))
    first = values(pull(it, 20)[0])
    print(json.dumps([first, it.state_dict(), values(pull(it)[0])]))
"""


@pytest.mark.thorough
def test_in_another_process(paths):
    folder = paths[0].parent
    child = run_python(SCRIPT, folder, 2, "none")
    assert child.stderr == ""
    first, state, rest = json.loads(child.stdout)
    assert len(first) == 20
    child = run_python(SCRIPT, folder, 8, json.dumps(state))
    assert child.stderr == ""
    again, _, end = json.loads(child.stdout)
    assert again + end == rest


KILLED = """
    import json, os, signal, sys
    import queuecore as qc
    from helpers.data.chains import values
    folder, limit = sys.argv[1], int(sys.argv[2])
    ds = qc.data.FixedLengthRecordDataset(folder + "/*.bin", 1).shuffle(40, seed=3).batch(6)
    it = iter(ds)
    try:
        it.load_state_dict(json.load(open(folder + "/state")))
    except FileNotFoundError:
        pass
    for index, batch in enumerate(it):
        print(json.dumps(values([batch])[0]), flush=True)
        with open(folder + "/new", "w") as file:
            json.dump(it.state_dict(), file)
        os.replace(folder + "/new", folder + "/state")
        if index == limit:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
def test_killed_again_and_again(paths):
    expected = values(run(dataset(paths, 1).shuffle(40, 3).batch(6))[0])
    got = []
    for limit in (2, 0, 7, 100):
        child = run_python(KILLED, paths[0].parent, limit)
        assert child.returncode == (0 if limit == 100 else -signal.SIGKILL)
        got += [json.loads(line) for line in child.stdout.splitlines()]
    assert got == expected


# -- states that don't fit
# -------------------------------------------------------------------------------------------------


def base(paths):
    return dataset(paths, 2, tail="drop").shuffle(20, 1).batch(4).repeat(2)


OTHERS = {
    "batch": lambda paths: dataset(paths, 2, tail="drop").shuffle(20, 1).batch(5).repeat(2),
    "drop_remainder": lambda paths: dataset(paths, 2, tail="drop").shuffle(20, 1).batch(4, True).repeat(2),
    "window": lambda paths: dataset(paths, 2, tail="drop").shuffle(21, 1).batch(4).repeat(2),
    "reshuffle": lambda paths: dataset(paths, 2, tail="drop").shuffle(20, 1, False).batch(4).repeat(2),
    "order of steps": lambda paths: dataset(paths, 2, tail="drop").shuffle(20, 1).repeat(2).batch(4),
    "a step more": lambda paths: base(paths).take(3),
    "a step less": lambda paths: dataset(paths, 2, tail="drop").shuffle(20, 1).batch(4),
    "seed": lambda paths: dataset(paths, 2, tail="drop").shuffle(20, 2).batch(4).repeat(2),
    "record": lambda paths: dataset(paths, "u2", tail="drop").shuffle(20, 1).batch(4).repeat(2),
    "byte order": lambda paths: dataset(paths, ">u2", tail="drop").shuffle(20, 1).batch(4).repeat(2),
    "record_bytes": lambda paths: dataset(paths, 3, tail="drop").shuffle(20, 1).batch(4).repeat(2),
    "header": lambda paths: dataset(paths, 2, header=2, tail="drop").shuffle(20, 1).batch(4).repeat(2),
    "hop": lambda paths: dataset(paths, 2, hop=3, tail="drop").shuffle(20, 1).batch(4).repeat(2),
    "order of files": lambda paths: base(paths[::-1]),
    "fewer files": lambda paths: base(paths[:-1]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_something_else(paths, name):
    with iter(base(paths)) as it:
        pull(it, 5)
        state = it.state_dict()
    other = OTHERS[name](paths)
    expected, _ = run(OTHERS[name](paths), 10)
    with iter(other) as it:
        got, _ = pull(it, 4)
        with pytest.raises(ResumeMismatchError):
            it.load_state_dict(state)
        # A state that is refused changes nothing.
        got += pull(it, 6)[0]
    assert_same(got, expected)


def test_a_state_of_another_treatment_of_tails(tmp_path):
    paths = write_files(tmp_path, [bytes(range(8))])
    with iter(dataset(paths, 2, tail="drop")) as it:
        pull(it, 2)
        state = it.state_dict()
    with iter(dataset(paths, 2)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


@pytest.mark.parametrize("change", ["longer", "shorter", "touched"])
def test_files_that_changed_since(paths, change):
    with iter(base(paths)) as it:
        pull(it, 5)
        state = it.state_dict()
    if change == "touched":
        os.utime(paths[0], ns=(1, 1))
    else:
        paths[0].write_bytes(CONTENTS[0] * 2 if change == "longer" else CONTENTS[0][:-2])
    with iter(base(paths)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)
        next(it)


def _leaves(node, path=()):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(value, dict | list):
            yield (*path, key)
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.parametrize("damage", [None, -1, 0, 1, 2**70, "x", [], {}, "gone"])
def test_damaged_states(paths, damage):
    ds = dataset(paths, 2, tail="drop").shuffle(20).batch(4).repeat(2)
    with iter(ds) as it:
        pull(it, 5)
        state = it.state_dict()
    with iter(ds) as it:
        for path in _leaves(state):
            bad = copy.deepcopy(state)
            *inner, last = path
            node = bad
            for key in inner:
                node = node[key]
            if damage == "gone":
                del node[last]
            else:
                node[last] = damage
            if bad == state:
                continue
            with pytest.raises((ResumeMismatchError, InvalidArgumentError)):
                it.load_state_dict(bad)
        with pytest.raises((ResumeMismatchError, InvalidArgumentError)):
            it.load_state_dict({**state, "more": 1})
        it.load_state_dict(state)


PLAN = {"record": "u2", "header": 0, "ops": [["shuffle", 20, True], ["batch", 4, False], ["repeat", None]]}
NAMES = (3, 2**64 - 1)
SEEDS = [((1, 2**64 - 1), True)]
PLACE = Saved()
PLACE.elements, PLACE.files_known, PLACE.files_digest = 7, 3, 2**63
PLACE.iterations, PLACE.begun, PLACE.missing = [1], [2], [[0, 3], [1, 7]]
START = [1, 9, 8, -1, 2, 5, -1, 1, 4]
START += [4, 1, 3, 2, 70, 5, 1, 2, -1, 0, 0, 1, 0]  # two slots of interleaved files
PLACE.mark = Mark.of(START)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(np.zeros(2)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9) | st.integers(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None)
@given(st.data(), st.integers(1, 4), st.booleans())
def test_whatever_a_state_holds(data, changes, signed):
    # Signed: who wrote it knows the check, so that what comes after it is reached.
    stamps = Stamps("stat", 2, ["0123456789abcdef"] * 2)
    state = _state.pack(PLAN, NAMES, [pair for pair, _ in SEEDS], PLACE, {}, [], [], stamps)
    assert state["position"]["start"] == START
    good = copy.deepcopy(state)
    for _ in range(changes):
        *inner, last = data.draw(st.sampled_from([*_leaves(state), ("more",)]))
        node = state
        for key in inner:
            node = node[key]
        if data.draw(st.booleans()):
            node[last] = data.draw(json_values)
        elif last in node if isinstance(node, dict) else last < len(node):
            del node[last]
    if signed:
        with contextlib.suppress(TypeError, ValueError):
            state["check"] = _state._check(json.loads(json.dumps(state)))
    try:
        saved = _state.unpack(state, PLAN, NAMES, SEEDS)
    except (ResumeMismatchError, InvalidArgumentError):
        return
    if not signed:
        assert json.loads(json.dumps(state)) == good
    assert saved.seeds == [SEEDS[0][0]]
    place, mark = saved.place, saved.place.mark
    assert min(place.elements, place.files_known, place.files_digest, *place.iterations, *place.begun) >= 0
    assert len(place.iterations) == len(place.begun) == 1
    assert mark is None or (len(mark.numbers()) == 22 and 0 <= mark.good <= mark.ordinal >= mark.base)
    assert all(len(pair) == 2 and min(pair) >= 0 for pair in place.missing)


@pytest.mark.parametrize("bad", [None, 3, "state", b"", [], {}, {"version": 1}, {"format": "queuecore.data.Iterator"}])
def test_no_states_at_all(paths, bad):
    with iter(base(paths)) as it, pytest.raises((ResumeMismatchError, InvalidArgumentError)):
        it.load_state_dict(bad)


def test_a_newer_version(paths):
    with iter(base(paths)) as it:
        state = it.state_dict()
        with pytest.raises(ResumeMismatchError):
            it.load_state_dict({**state, "version": state["version"] + 1})


def test_a_closed_iterator_loads_nothing(paths):
    with iter(base(paths)) as it:
        state = it.state_dict()
    with pytest.raises(FailedPreconditionError):
        it.load_state_dict(state)


def test_numpy_numbers_are_not_needed(paths):
    # Plain types only, so that every store keeps them.
    with iter(dataset(paths, np.dtype([("a", "u1")])).shuffle(np.int64(20), np.int64(3)).batch(np.int32(4))) as it:
        next(it)
        state = it.state_dict()
    assert json.loads(json.dumps(state)) == state
