"""Permutations without a buffer: what they are, that they look random, and that a place in them is found at once."""

import collections
import itertools
import json
import math

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, dataset, own, pull, run, threads, values, write_files
from helpers.data.nodes import made
from helpers.data.transformed import check, run as elements_of, stops_at_once, values as plain
from helpers.models.oracle import Model, assert_same, philox_block, seed_pair
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore._core.atoms.draws import permutation, permute
from queuecore.data import Dataset, Options
from queuecore.data._nodes.arrays import Items
from queuecore.errors import (
    InvalidArgumentError,
    NotFoundError,
    PipelineError,
    ResumeMismatchError,
    SourceChangedError,
    UnimplementedError,
)

CONTENTS = [bytes(range(60)), b"", bytes(range(60, 67)), bytes(range(67, 167))]


def words(number):
    return number & 0xFFFFFFFF, number >> 32


def enciphered(pair, iteration, count, start=0, stop=None):
    """The documented permutation: a Feistel cipher over pairs of numbers, whose results beyond the count go on."""
    a = max(2, math.isqrt(count))
    a += a % 2
    b = max(1, -(-count // a))
    d = philox_block(words(pair[0]), (*words(iteration), *words(pair[1])))
    key, tweak = (d[0], d[1]), d[2] | d[3] << 32
    order = []
    for place in range(start, count if stop is None else stop):
        while True:
            low, high = place % a, place // a
            for turn in range(8 if count >= 4096 else 16):
                other = low if turn % 2 else high
                draws = philox_block(key, (*words(other), *words((tweak + turn) % 2**64)))
                drawn = (draws[1] << 32 | draws[0]) >> 1
                low, high = (low, (high + drawn) % b) if turn % 2 else ((low + drawn) % a, high)
            place = high * a + low
            if place < count:
                break
        order.append(place)
    return order


class PermuteModel(Model):
    """The oracle, with permutations, ("permute", seed, reshuffle), and tf.data's shards, ("shard", count, index)."""

    def _above(self, depth):
        op = self.ops[depth - 1] if depth else None
        if isinstance(op, tuple) and op[0] == "shard":
            return itertools.islice(self._above(depth - 1), op[2], None, op[1])
        if isinstance(op, tuple) and op[0] == "permute":
            return self._permuted(depth, *op[1:])
        return super()._above(depth)

    def _permuted(self, depth, seed, reshuffle):
        elements = list(self._above(depth - 1))
        counters = self.__dict__.setdefault("counters", collections.Counter())
        counters[depth] += 1
        iteration = counters[depth] if reshuffle else 0
        return iter([elements[at] for at in enciphered(seed_pair(None, seed), iteration, len(elements))])


# -- the permutation itself


@given(
    pair=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    iteration=st.integers(0, 2**40),
    count=st.integers(0, 2**62) | st.integers(0, 5000),
    where=st.floats(0, 1),
)
@settings(max_examples=150, deadline=None)
def test_it_is_the_documented_one(pair, iteration, count, where):
    start = int(where * count)
    stop = min(count, start + 5)
    assert permutation(*pair, iteration, count, start, stop) == enciphered(pair, iteration, count, start, stop)


@given(
    pair=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    iteration=st.integers(0, 2**40),
    count=st.integers(0, 2**62) | st.integers(0, 5000),
    where=st.floats(0, 1),
)
@settings(max_examples=50, deadline=None)
def test_the_same_into_an_array(pair, iteration, count, where):
    start = int(where * count)
    order = np.empty(min(count - start, 7), np.int64)
    permute(*pair, iteration, count, start, order)
    assert order.tolist() == permutation(*pair, iteration, count, start, start + len(order))
    with pytest.raises(ValueError, match=r"2\*\*62"):
        permute(*pair, iteration, count, count - len(order) + 1, order)


def test_of_every_small_count():
    for count in range(301):
        for iteration in range(4):
            assert sorted(permutation(5, count, iteration, count, 0, count)) == list(range(count))


@pytest.mark.parametrize("count", [4095, 4096, 65_536, 65_537, 99_856, 100_000, 2**20 + 1])
def test_of_some_large_ones(count):
    order = np.array(permutation(5, 6, 7, count, 0, count))
    assert np.array_equal(np.sort(order), np.arange(count))
    # Neighbours have nothing to do with each other, nor with where they come from.
    for one, other in ((order[:-1], order[1:]), (order, np.arange(count))):
        assert abs(np.corrcoef(one, other)[0, 1]) < 6 / math.sqrt(count)
    assert np.sum(order == np.arange(count)) < 15


def chi_square_fits(observed, expected):
    """Whether counts are within six deviations of what chance gives (fixed seeds: it is the same in every run)."""
    observed = np.asarray(observed, float)
    freedom = observed.size - 1
    return abs(np.sum((observed - expected) ** 2 / expected) - freedom) < 6 * math.sqrt(2 * freedom)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("count", [2, 3, 5, 8, 9, 17, 64, 100])
def test_every_number_comes_to_every_place(count):
    trials = 200 * count
    seen = np.zeros((count, count))
    for seed in range(trials):
        seen[np.arange(count), permutation(seed, 1, 1, count, 0, count)] += 1
    for row in seen:
        assert chi_square_fits(row, trials / count)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_every_order_comes(count):
    trials = 400 * math.factorial(count)
    seen = collections.Counter(tuple(permutation(1, 2, at, count, 0, count)) for at in range(trials))
    orders = [seen[order] for order in itertools.permutations(range(count))]
    assert chi_square_fits(orders, trials / len(orders))


@pytest.mark.parametrize("count", [9, 10, 30])
def test_every_pair_comes_to_any_two_places(count):
    trials = 40 * count * count
    seen = collections.Counter()
    for seed in range(trials):
        order = permutation(3, seed, 1, count, 0, count)
        seen[order[0], order[1]] += 1
    pairs = [seen[pair] for pair in itertools.permutations(range(count), 2)]
    assert chi_square_fits(pairs, trials / len(pairs))


def test_odd_and_even_orders_come():
    # Of 9 numbers: with two odd sides there would be even ones only.
    def odd(order):
        return sum(one > other for one, other in itertools.combinations(order, 2)) % 2

    assert 400 < sum(odd(permutation(seed, 0, 1, 9, 0, 9)) for seed in range(1000)) < 600


# -- as a step


CHAINS = [
    [("permute", 1, True)],
    [("permute", 1, False), ("repeat", 2)],
    [("permute", 1, True), ("repeat", 3), ("batch", 7, False)],
    [("repeat", 2), ("permute", 1, True), ("batch", 7, True), ("repeat", 2)],
    [("skip", 3), ("take", 100), ("shard", 3, 1), ("repeat", 3), ("take", 90), ("permute", 4, True), ("repeat", 2)],
    [("permute", 1, True), ("repeat", 2), ("shard", 3, 2), ("batch", 4, False)],
    [("permute", 1, True), ("shuffle", 20, 3, True), ("repeat", 2), ("batch", 4, False)],
    [("permute", 1, True), ("batch", 4, True), ("shuffle", 5, 3, True), ("repeat", 2)],
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", CHAINS)
def test_in_chains(tmp_path, ops, number):
    paths = write_files(tmp_path, CONTENTS)
    ds = threads(apply(dataset(paths, 1), ops), number)
    model = PermuteModel(CONTENTS, 1, ops)
    for _ in range(2):  # later iterators go on with the passes
        expected = list(model)
        got, error = run(ds)
        assert error is None
        assert_same(got, expected)
        assert ds.cardinality() == len(expected)


@st.composite
def permuted_chains(draw):
    count = st.sampled_from([-1, 0, 1, 2, 5, 13, 40])
    step = st.one_of(
        st.tuples(st.just("take"), count),
        st.tuples(st.just("skip"), st.sampled_from([0, 1, 2, 7, 30])),
        st.tuples(st.just("repeat"), st.integers(0, 3)),
        st.integers(1, 5).flatmap(lambda n: st.tuples(st.just("shard"), st.just(n), st.integers(0, n - 1))),
    )
    shuffle = st.tuples(st.just("shuffle"), st.sampled_from([1, 7, 1000]), st.integers(0, 9), st.booleans())
    above = st.one_of(step, shuffle)
    ops = [*draw(st.lists(step, max_size=3)), ("permute", draw(st.integers(0, 99)), draw(st.booleans()))]
    ops += draw(st.lists(above, max_size=3))
    return [*ops, ("batch", draw(st.integers(1, 5)), draw(st.booleans()))] if draw(st.booleans()) else ops


@pytest.mark.thorough
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=permuted_chains(), where=st.floats(0, 1), data=st.data())
def test_every_chain_and_resume_anywhere(tmp_path_factory, ops, where, data):
    contents = [bytes(range(size)) for size in data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=4))]
    paths = write_files(tmp_path_factory.mktemp("permute"), contents)
    expected = list(PermuteModel(contents, 1, ops))
    place = round(where * len(expected))
    with iter(threads(apply(dataset(paths, 1), ops), data.draw(st.sampled_from(THREADS)))) as it:
        got = pull(it, place)[0]
        state = it.state_dict()
        got += pull(it)[0]
    assert_same(got, expected)
    with iter(threads(apply(dataset(paths, 1), ops), data.draw(st.sampled_from(THREADS)))) as it:
        it.load_state_dict(state)
        assert_same(pull(it)[0], expected[place:])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ops", CHAINS)
def test_resume_at_every_place(tmp_path, ops):
    paths = write_files(tmp_path, CONTENTS)
    states, expected = [], []
    with iter(threads(apply(dataset(paths, 1), ops), 2)) as it:
        states.append(it.state_dict())
        for element in it:
            expected.append(own(element))
            states.append(it.state_dict())
    for index, number in zip(range(len(states)), itertools.cycle(THREADS), strict=False):
        with iter(threads(apply(dataset(paths, 1), ops), number)) as it:
            it.load_state_dict(json.loads(json.dumps(states[index])))
            assert it.state_dict() == states[index]
            limit = None if index % 17 == 0 or index > len(states) - 3 else 3
            got, error = pull(it, limit)
            assert error is None
            assert_same(got, expected[index:] if limit is None else expected[index : index + limit])


def test_far_away_at_once(tmp_path):
    # A sparse file of 2**38 records.
    total = 1 << 38
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(total)
    ds = dataset(path, 1).permute(1).repeat(5).batch(4).skip(5 * total // 4 - 3)
    assert len(run(ds)[0]) == 3
    assert len(run(dataset(path, 1).repeat(5).permute(1).shard(1 << 20, 5).skip(5 * (1 << 18) - 2))[0]) == 2


def test_seeds(tmp_path):
    paths = write_files(tmp_path, CONTENTS)

    def order(seed=None, reshuffle=True, passes=1):
        return values(run(dataset(paths, 1).permute(seed, reshuffle).repeat(passes))[0])

    assert order(1) == order(1) != order(2)
    assert order() != order()
    both = order(1, passes=2)
    assert both[:167] == order(1) != both[167:]
    assert sorted(both[167:]) == list(range(167))
    both = order(1, False, passes=2)
    assert both[:167] == both[167:] == order(1, False)
    qc.set_random_seed(1)
    try:
        with_graph = order(1)
    finally:
        qc.set_random_seed(None)
    assert with_graph != order(1)


def test_unseeded_ones_take_the_states_seed(tmp_path):
    paths = write_files(tmp_path, CONTENTS)
    first, second = (dataset(paths, 1).permute().batch(10) for _ in range(2))
    with iter(first) as it:
        pull(it, 4)
        state = it.state_dict()
        rest = pull(it)[0]
    following = run(first)[0]
    with iter(second) as it:
        it.load_state_dict(state)
        assert_same(pull(it)[0], rest)
    assert_same(run(second)[0], following)
    with iter(dataset(paths, 1).permute(3).batch(10)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)
    with iter(dataset(paths, 1).shuffle(1).batch(10)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("bad", [0, 2])
def test_what_comes_before_a_missing_file(tmp_path, number, bad):
    contents = [bytes(range(30)), bytes(range(30, 50)), bytes(range(50, 70))]
    paths = write_files(tmp_path, contents)
    paths[bad].unlink()
    got, error = run(threads(dataset(paths, 1).permute(1).repeat(2), number))
    assert isinstance(error, NotFoundError)
    total = [0, 30, 50][bad]
    assert values(got) == enciphered(seed_pair(None, 1), 1, total)
    got, error = run(threads(dataset(paths, 1).take(total).permute(1).repeat(2), number))
    assert len(got) == 2 * total
    assert error is None or total == 0


@pytest.mark.parametrize("number", THREADS)
def test_a_file_that_is_cut_meanwhile(tmp_path, number):
    size, total, rows_left = 65_536, 1000, 300
    path = tmp_path / "a"
    with open(path, "wb") as file:
        for n in range(total):
            file.seek(n * size)
            file.write(bytes([n % 251]))
        file.truncate(total * size)
    order = enciphered(seed_pair(None, 1), 1, total)
    with iter(threads(dataset(path, size).permute(1), number)) as it:
        results = [int(next(it)[0])]
        with open(path, "r+b") as file:
            file.truncate(rows_left * size)
        rest, error = pull(it)
    results += [int(one[0]) for one in rest]
    assert isinstance(error, SourceChangedError)
    assert results == [n % 251 for n in order[: len(results)]]
    assert order[len(results)] >= rows_left


@pytest.mark.parametrize("number", THREADS)
def test_bad_records_are_left_out(tmp_path, number):
    import ctypes

    pytest.importorskip("queuecore._core.testing.steps")
    from queuecore._core.testing.steps import functions

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_int32))
    digit = qc.ops.cfunc(kind(functions()["first_digit"]), outputs=[(np.int32, ())])
    (tmp_path / "a").write_bytes(b"".join(b"x" if n % 13 == 5 else b"%d" % (n % 10) for n in range(103)))
    ds = threads(dataset(tmp_path / "a", 1).permute(1).repeat(2).map(digit), number)
    both = enciphered(seed_pair(None, 1), 1, 103) + enciphered(seed_pair(None, 1), 2, 103)
    results, error = run(ds.with_options(Options(on_error="skip", max_skips=None)))
    assert error is None
    assert [int(one) for one in results] == [n % 10 for n in both if n % 13 != 5]
    ds = threads(dataset(tmp_path / "a", 1).permute(1).repeat(2).map(digit), number)
    results, error = run(ds)
    assert isinstance(error, InvalidArgumentError)
    assert [int(one) for one in results] == [n % 10 for n in itertools.takewhile(lambda n: n % 13 != 5, both)]
    above = threads(dataset(tmp_path / "a", 1).permute(1).repeat(2).shuffle(9, 1).map(digit), number)
    assert isinstance(run(above)[1], InvalidArgumentError)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [*THREADS, None])
def test_large_records_and_many_files(tmp_path, number):
    state = np.random.default_rng(0)
    contents = [state.bytes(300 * int(n)) for n in state.integers(0, 40, 200)]
    paths = write_files(tmp_path, contents)
    ops = [("permute", 3, True), ("repeat", 2), ("batch", 32, False)]
    got, error = run(threads(apply(dataset(paths, 300), ops), number))
    assert error is None
    assert_same(got, list(PermuteModel(contents, 300, ops)))


def test_what_can_not_be(tmp_path):
    ds = dataset(tmp_path / "x", 1)
    with pytest.raises(InvalidArgumentError, match="unknown cardinality"):
        qc.data.TextLineDataset(tmp_path / "x").permute()
    with pytest.raises(InvalidArgumentError, match="unknown cardinality"):
        ds.repeat().take(3).permute()
    for bad in (ds.batch(2), ds.shuffle(2), ds.permute()):
        with pytest.raises(UnimplementedError):
            bad.permute()
    for seed, reshuffle in (("1", True), (1.0, True), (1, 2), (1, "yes")):
        with pytest.raises(InvalidArgumentError):
            ds.permute(seed, reshuffle)


# -- of what is in memory


def permuted(elements, seed, iterations):
    """Elements in the documented orders of some iterations, behind each other."""
    pair = seed_pair(None, seed)
    return [elements[at] for iteration in iterations for at in enciphered(pair, iteration, len(elements))]


ROWS = {"x": np.arange(130, dtype=np.int16).reshape(65, 2), "name": [b"n" * (i % 7) for i in range(65)]}
SOURCES = {
    "range": lambda: (Dataset.range(-5, 200, 3), list(range(-5, 200, 3))),
    "other range": lambda: (
        Dataset.range(2**63 - 1, -(2**63), -(2**57), output_type=np.float64),
        [float(x) for x in range(2**63 - 1, -(2**63), -(2**57))],
    ),
    "slices": lambda: (
        Dataset.from_tensor_slices(ROWS),
        [{"x": row.tolist(), "name": name} for row, name in zip(ROWS["x"], ROWS["name"], strict=True)],
    ),
    "tensors": lambda: (Dataset.from_tensors((1, b"a")), [(1, b"a")]),
    "objects": lambda: (
        made(Items((), [qc.Ragged.from_list([[i], [i, 2]]) for i in range(30)])),
        [[[i], [i, 2]] for i in range(30)],
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", SOURCES)
def test_in_memory(source):
    def make():
        return SOURCES[source]()[0].permute(3, False)

    check(make, permuted(SOURCES[source]()[1], 3, [0]), plain)


@pytest.mark.parametrize("source", SOURCES)
def test_in_memory_every_pass_has_its_order(source):
    ds, elements = SOURCES[source]()
    ds = ds.permute(4)
    for first in (1, 4):
        assert elements_of(ds.repeat(3) if first == 1 else ds, plain) == permuted(
            elements, 4, range(first, first + 3 if first == 1 else first + 1)
        )


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 8193, 40_000])
def test_the_order_is_that_of_files(tmp_path, count):
    np.arange(count, dtype="<i8").tofile(tmp_path / "a")
    steps = [("skip", 3), ("repeat", 2), ("permute", 9, True), ("repeat", 2), ("batch", 100, False)]
    got = run(apply(Dataset.range(count), steps))
    assert_same(got[0], run(apply(dataset(tmp_path / "a", np.dtype("<i8")), steps))[0])
    assert got[1] is None


@pytest.mark.thorough
@given(ops=permuted_chains(), count=st.integers(0, 60), place=st.floats(0, 1), number=st.sampled_from(THREADS))
@settings(max_examples=100, deadline=None)
def test_chains_in_memory(ops, count, place, number):
    expected = list(PermuteModel([bytes(count)], 1, ops).ordinals())
    ds = threads(apply(Dataset.range(count), ops), number)
    assert [np.ravel(element).tolist() for element in elements_of(ds, plain)] == [
        np.ravel(element).tolist() for element in expected
    ]
    position = int(place * len(expected))
    with iter(apply(Dataset.range(count), ops)) as it:
        pull(it, position)
        state = json.loads(json.dumps(it.state_dict()))
    with iter(apply(Dataset.range(count), ops)) as it:
        it.load_state_dict(state)
        assert [np.ravel(element).tolist() for element in it] == [
            np.ravel(element).tolist() for element in expected[position:]
        ]


def by_three(x):
    if int(x) == 7:
        raise ValueError(x)
    return 3 * int(x)


@pytest.mark.parametrize("number", THREADS)
def test_maps_before_it(tmp_path, number):
    def make(parallel=None):
        return Dataset.range(40).map(lambda x: x - 2).skip(10).map(by_three, parallel).take(25).permute(6)

    assert elements_of(threads(make(2), number), plain) == permuted([3 * (x - 2) for x in range(10, 35)], 6, [1])
    (tmp_path / "a").write_bytes(bytes(range(20)))
    ds = threads(dataset(tmp_path / "a", 1).map(lambda x: x[0] + 0).map(by_three).permute(6), number)
    order = permuted(range(20), 6, [1])
    got, error = pull(iter(ds))
    assert values(got) == [3 * x for x in order[: order.index(7)]]
    assert isinstance(error, PipelineError)
    got = elements_of(ds.with_options(Options(on_error="skip")), plain)
    assert got == [3 * x for x in permuted(range(20), 6, [2]) if x != 7]
    with pytest.raises(UnimplementedError):
        Dataset.range(9).batch(2).map(by_three).permute()


def test_unseeded_in_memory():
    first, second = (Dataset.range(100).permute() for _ in range(2))
    with iter(first) as it:
        got = [int(next(it)) for _ in range(30)]
        state = it.state_dict()
    with iter(second) as it:
        it.load_state_dict(state)
        got += [int(x) for x in it]
    assert sorted(got) == list(range(100))
    with iter(Dataset.range(100).permute(5)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


def test_it_stops_at_once_in_memory():
    stops_at_once(Dataset.range(10**9).permute(1).map(by_three), 3)
    assert Dataset.range(10**9).permute(1).repeat(2).cardinality() == 2 * 10**9


def test_what_can_not_be_in_memory():
    numbers = Dataset.range(10)
    for bad in (
        numbers.filter(lambda x: x > 2),
        numbers.cache(),
        Dataset.from_generator(lambda: iter([1, 2])),
        numbers.repeat().take(3),
        numbers.shuffle(3).shard(3, 0, uneven="pad"),
        numbers.batch(2).shard(3, 0, uneven="pad"),
        numbers.repeat().shard(3, 0, uneven="pad"),
    ):
        with pytest.raises(InvalidArgumentError, match="unknown cardinality"):
            bad.permute()
    for bad in (numbers.batch(2), numbers.shuffle(2), numbers.permute(), numbers.permute().take(3)):
        with pytest.raises(UnimplementedError):
            bad.permute()
    with pytest.raises(InvalidArgumentError):
        next(iter(numbers.repeat(2**60).permute()))
    with pytest.raises(InvalidArgumentError):
        list(numbers.shard(3, 0, uneven="raise").permute())
