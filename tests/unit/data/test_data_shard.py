"""Shards: which elements each gets, how many, what is read, and places that are kept when their number changes."""

import ctypes
import itertools
import json
import math

import numpy as np
import pytest
from helpers.data import blocks
from helpers.data.chains import THREADS, apply, chains, dataset, own, pull, run, threads, values, write_files
from helpers.models.oracle import Fault, Model, assert_same
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Options
from queuecore.errors import ChecksumError, InvalidArgumentError, NotFoundError, ResumeMismatchError, UnimplementedError

UNEVEN = ["keep", "drop", "pad", "raise"]
CONTENTS = [bytes(range(60)), b"", bytes(range(60, 67)), bytes(range(67, 167))]


def share(below, count, index, uneven):
    """The elements of one shard, as the documentation says."""
    fault = None
    elements = []
    try:
        elements.extend(below)
    except Fault as error:
        fault = error
    mine = elements[index::count]
    if uneven in ("drop", "raise"):
        mine = mine[: len(elements) // count]
    if uneven == "pad" and not fault and elements and len(mine) < math.ceil(len(elements) / count):
        following = itertools.islice(itertools.cycle(elements), len(elements) // count * count + index, None)
        mine.append(next(following))
    yield from mine
    if fault:
        raise fault
    if uneven == "raise" and len(elements) % count:
        raise Fault("uneven", -1, -1, -1)


class ShardModel(Model):
    """The oracle, with shards: ("shard", count, index, uneven)."""

    def _above(self, depth):
        op = self.ops[depth - 1] if depth else None
        if isinstance(op, tuple) and op[0] == "shard":
            return share(self._above(depth - 1), *op[1:])
        return super()._above(depth)

    def all(self):
        """The elements, and the fault that ended them."""
        results = []
        try:
            for element in self:
                results.append(element)
        except Fault as fault:
            return results, fault
        return results, None


def sharded(ds, ops):
    for op in ops:
        ds = ds.shard(op[1], op[2], uneven=op[3]) if op[0] == "shard" else apply(ds, [op])
    return ds


@st.composite
def sharded_chains(draw, uneven=("keep", "drop", "pad"), max_steps=4):
    ops = draw(chains(max_steps=max_steps))
    for _ in range(draw(st.integers(1, 2))):
        count = draw(st.sampled_from([1, 2, 3, 5, 8, 50, 2**31 - 1]))
        kind = draw(st.sampled_from(uneven))
        count = min(count, 1000) if kind == "pad" else count
        step = ("shard", count, draw(st.integers(0, count - 1) | st.integers(0, min(count - 1, 2))), kind)
        ops.insert(draw(st.integers(0, len(ops))), step)
    return ops


@pytest.mark.thorough
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=sharded_chains(), sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4), data=st.data())
def test_every_chain(tmp_path_factory, ops, sizes, data):
    contents = [bytes(range(size)) for size in sizes]
    paths = write_files(tmp_path_factory.mktemp("shard"), contents)
    ds = threads(sharded(dataset(paths, 1), ops), data.draw(st.sampled_from(THREADS)))
    expected = list(ShardModel(contents, 1, ops))
    got, error = run(ds)
    assert error is None
    assert_same(got, expected)
    assert ds.cardinality() == len(expected)


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=sharded_chains(), where=st.floats(0, 1), used=st.integers(0, 5), data=st.data())
def test_resume_anywhere_in_any_chain(tmp_path_factory, ops, where, used, data):
    paths = write_files(tmp_path_factory.mktemp("shard"), CONTENTS)
    expected, _ = run(sharded(dataset(paths, 3, tail="drop"), ops))
    place = round(where * len(expected))
    with iter(threads(sharded(dataset(paths, 3, tail="drop"), ops), data.draw(st.sampled_from(THREADS)))) as it:
        pull(it, place)
        state = it.state_dict()
    with iter(threads(sharded(dataset(paths, 3, tail="drop"), ops), data.draw(st.sampled_from(THREADS)))) as it:
        pull(it, used)
        it.load_state_dict(state)
        assert_same(pull(it)[0], expected[place:])


CHAINS = [
    [("shard", 3, 1, "keep")],
    [("shard", 4, 3, "pad"), ("repeat", 3), ("batch", 4, False)],
    [("batch", 4, False), ("shard", 4, 3, "pad"), ("repeat", 3)],
    [("batch", 4, False), ("shard", 4, 1, "drop"), ("repeat", 3)],
    [("shuffle", 20, 1, True), ("shard", 4, 2, "drop"), ("repeat", 3), ("batch", 5, True)],
    [("shuffle", 20, 1, True), ("repeat", 3), ("shard", 5, 2, "pad"), ("batch", 5, False)],
    [("shard", 2, 1, "keep"), ("shuffle", 20, 1, True), ("shard", 2, 0, "pad"), ("batch", 5, False)],
    [("shard", 200, 199, "pad"), ("repeat", 5)],
]


@pytest.mark.parametrize("ops", CHAINS)
def test_resume_at_every_place(tmp_path, ops):
    paths = write_files(tmp_path, CONTENTS)
    states, expected = [], []
    with iter(threads(sharded(dataset(paths, 1), ops), 2)) as it:
        states.append(it.state_dict())
        for element in it:
            expected.append(own(element))
            states.append(it.state_dict())
    assert_same(expected, list(ShardModel(CONTENTS, 1, ops)))
    fresh = sharded(dataset(paths, 1), ops)
    for index, number in zip(range(len(states)), itertools.cycle(THREADS), strict=False):
        with iter(threads(fresh, number)) as it:
            it.load_state_dict(json.loads(json.dumps(states[index])))
            assert it.state_dict() == states[index]
            limit = None if index % 11 == 0 or index > len(states) - 3 else 3
            got, error = pull(it, limit)
            assert error is None
            assert_same(got, expected[index:] if limit is None else expected[index : index + limit])


# -- all shards together


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    total=st.integers(0, 60),
    world=st.integers(1, 9),
    batch=st.integers(1, 7),
    drop=st.booleans(),
    uneven=st.sampled_from(["drop", "pad"]),
    shuffled=st.booleans(),
)
def test_all_ranks_have_as_many_batches(tmp_path_factory, total, world, batch, drop, uneven, shuffled):
    contents = [bytes(range(total // 3)), bytes(range(total // 3, total))]
    paths = write_files(tmp_path_factory.mktemp("world"), contents)

    def base():  # each rank makes its own
        return dataset(paths, 1).shuffle(10, seed=1) if shuffled else dataset(paths, 1)

    ranks = [values(run(base().shard(world, rank, uneven=uneven).batch(batch, drop))[0]) for rank in range(world)]
    assert len({len(rank) for rank in ranks}) == 1
    assert len({tuple(map(len, rank)) for rank in ranks}) == 1
    if not drop:
        seen = sorted(itertools.chain.from_iterable(itertools.chain.from_iterable(ranks)))
        if uneven == "drop":
            assert len(seen) == len(set(seen)) == total // world * world
        else:
            assert set(seen) == set(range(total))
            assert len(seen) == math.ceil(total / world) * world


@pytest.mark.parametrize("number", THREADS)
def test_together_they_are_the_whole(tmp_path, number):
    paths = write_files(tmp_path, CONTENTS)
    whole = values(run(dataset(paths, 1).shuffle(50, 3).repeat(2))[0])
    parts = [values(run(threads(dataset(paths, 1).shuffle(50, 3).repeat(2).shard(4, i), number))[0]) for i in range(4)]
    assert [one for group in itertools.zip_longest(*parts) for one in group if one is not None] == whole


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", blocks.KINDS)
@pytest.mark.parametrize("number", THREADS)
def test_records_without_known_places(tmp_path, kind, number):
    parts = [blocks.content(kind, count, seed) for seed, count in enumerate([0, 60, 1, 34])]
    paths = write_files(tmp_path, [text for text, _ in parts])
    records = blocks.flat([one for _, one in parts])
    total = len(records)
    for piece in (7, 100, 1 << 18):
        for world, index in [(1, 0), (2, 1), (3, 0), (7, 6), (100, total - 1), (100, total)]:
            for uneven, ending in [("keep", None), ("drop", total // world)]:
                mine = records[index::world][:ending]
                ds = threads(blocks.small(blocks.source(kind, paths), piece), number)
                assert ds.shard(world, index).cardinality() == UNKNOWN_CARDINALITY
                results, error = blocks.run(ds.shard(world, index, uneven=uneven).repeat(2).batch(5))
                assert error is None
                assert blocks.flat(results) == mine * 2
                results, error = blocks.run(ds.repeat(2).skip(1).shard(world, index, uneven=uneven))
                assert error is None
                expected = (records * 2)[1:][index::world]
                assert results == (expected if uneven == "keep" else expected[: (2 * total - 1) // world])


def test_raise_where_the_length_is_unknown(tmp_path):
    (tmp_path / "a").write_bytes(b"".join(b"%d\n" % n for n in range(95)))
    records = [b"%d" % n for n in range(95)]
    base = blocks.small(qc.data.TextLineDataset(tmp_path / "a"), 50)
    for index in range(4):
        got, error = blocks.run(base.shard(4, index, uneven="raise"))
        assert got == records[index::4][: 95 // 4]
        assert isinstance(error, InvalidArgumentError)
        assert "95" in str(error)
    got, error = blocks.run(base.shard(5, 2, uneven="raise"))
    assert (got, error) == (records[2::5], None)


@pytest.mark.parametrize("kind", blocks.KINDS)
def test_resume_without_known_places(tmp_path, kind):
    parts = [blocks.content(kind, count, seed) for seed, count in enumerate([30, 1, 24])]
    paths = write_files(tmp_path, [text for text, _ in parts])
    for uneven in ("keep", "drop"):
        for batched in (False, True):
            ds = blocks.small(blocks.source(kind, paths), 100)
            step = ("shard", 3, 1, uneven)
            ds = sharded(ds, [("batch", 2), step] if batched else [step, ("repeat", 2), ("batch", 2)])
            expected, _ = blocks.run(ds)
            states = []
            with iter(ds) as it:
                states.append(it.state_dict())
                for _ in it:
                    states.append(it.state_dict())
            for place, (state, number) in enumerate(zip(states, itertools.cycle(THREADS), strict=False)):
                with iter(threads(ds, number)) as it:
                    it.load_state_dict(state)
                    assert blocks.pull(it)[0] == expected[place:]


# -- what is read


def test_what_others_get_is_not_read(tmp_path):
    size, total = 8192, 200
    paths = write_files(tmp_path, [np.random.default_rng(0).bytes(size * total)])
    for base in (dataset(paths, size), dataset(paths, size).shuffle(100, 1), dataset(paths, size).permute(1)):
        with iter(base.shard(10, 3).batch(4)) as it:
            pull(it)
            assert it.stats()["bytes_read"] == size * total // 10


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", [*THREADS, None])
@pytest.mark.parametrize(
    "ops",
    [
        [("shard", 3, 1, "keep"), ("batch", 64, False)],
        [("shard", 13, 12, "pad"), ("batch", 64, True)],
        [("shard", 2, 0, "drop"), ("repeat", 3), ("shard", 2, 1, "keep"), ("batch", 100, False)],
        [("shuffle", 500, 1, True), ("shard", 3, 2, "drop"), ("repeat", 2), ("batch", 50, True)],
        [("shuffle", 10_000, 1, True), ("shard", 5, 4, "keep"), ("batch", 300, True), ("repeat", 2)],
        [("repeat", 2), ("shuffle", 700, 1, True), ("shard", 4, 0, "pad"), ("batch", 50, False)],
        [("shuffle", 300, 1, True), ("batch", 40, True), ("shard", 3, 0, "drop"), ("repeat", 3)],
        [("shuffle", 300, 1, True), ("batch", 10, True), ("shard", 3, 0, "drop"), ("batch", 4, True)],
    ],
)
def test_larger_streams(tmp_path, ops, number):
    # Several reads a file; records of two fields, one of them swapped, between a header and gaps.
    state = np.random.default_rng(0)
    for size, hop in [(1, 60), (3, 0), (300, 0), (300, 700), (1500, 0)]:
        record = np.dtype([("id", ">u4"), ("body", "u1", (size,))])
        hop = hop or record.itemsize
        contents = [state.bytes(7 + (n - 1) * hop + record.itemsize if n else 0) for n in (700, 1, 900, 0, 450)]
        paths = write_files(tmp_path, contents)
        model = ShardModel(contents, record, ops, header=7, hop=hop)
        got, error = run(threads(sharded(dataset(paths, record, header=7, hop=hop), ops), number))
        assert error is None
        assert_same(got, list(model))


def test_far_away_at_once(tmp_path):
    # A sparse file of 2**38 records: going through them one by one would take hours.
    total = 1 << 38
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(total)
    ds = dataset(path, 1)
    far = ds.shard(1 << 20, 7, uneven="drop").repeat(3).batch(2).skip(3 * (1 << 17) - 2)
    assert len(run(far)[0]) == 2
    far = ds.batch(1 << 10, True).shard(1 << 8, 7, uneven="pad").repeat(3).skip(3 * (1 << 20) - 2)
    got, _ = run(far.batch(2))
    assert got[0].shape == (2, 1 << 10, 1)


# -- errors in their place


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=sharded_chains(uneven=UNEVEN, max_steps=3), bad=st.integers(0, 2), data=st.data())
def test_what_comes_before_a_missing_file(tmp_path_factory, ops, bad, data):
    folder = tmp_path_factory.mktemp("shard")
    contents = [bytes(range(25)), bytes(range(25, 40)), bytes(range(40, 50))]
    paths = write_files(folder, contents)
    paths[bad].unlink()
    names = [*contents[:bad], "missing", *contents[bad + 1 :]]
    expected, fault = ShardModel(names, 1, ops).all()
    ds = threads(sharded(dataset(paths, 1), ops), data.draw(st.sampled_from(THREADS)))
    try:
        actual, error = run(ds)
    except (
        InvalidArgumentError
    ):  # uneven for certain: so it says before the first element, even if a take() never gets there
        ends = [ShardModel(names, 1, ops[:depth]).all()[1] for depth in range(len(ops) + 1)]
        assert "uneven" in [end.kind for end in ends if end is not None]
        return
    if fault is not None and fault.kind == "uneven":
        assert isinstance(error, InvalidArgumentError)
    elif fault is not None:
        assert isinstance(error, NotFoundError)
    else:
        assert error is None
    if not any(op[0] == "batch" for op in ops):  # what a cut batch gives is told elsewhere
        assert_same(actual, expected)


def _damaged(path, records, bad):
    from helpers.formats.tfrecords import stream

    text = bytearray(stream(records))
    at = 0
    for index, record in enumerate(records):
        if index in bad:
            text[at + 12] ^= 1
        at += len(record) + 16
    path.write_bytes(text)


def test_bad_records_are_left_out_by_their_shard(tmp_path):
    # The others' order doesn't change, though they never look at the bad one.
    records = [bytes([index]) * 20 for index in range(50)]
    bad = {0, 10, 11, 29, 49}
    _damaged(tmp_path / "a", records, bad)
    for number, piece in itertools.product(THREADS, (100, 1 << 18)):
        base = threads(blocks.small(qc.data.TFRecordDataset(tmp_path / "a"), piece), number)
        for index in range(3):
            expected = [
                records[position] for position in range(50) if position not in bad and position % 3 == index
            ] * 2
            for ops in (lambda ds: ds.repeat(2), lambda ds: ds):
                ds = ops(base.shard(3, index).with_options(Options(on_error="skip", max_skips=None)))
                got, error = blocks.run(ds)
                assert error is None
                assert got == expected[: len(got)]
                assert len(got) in (len(expected), len(expected) // 2)
        got, error = blocks.run(base.shard(3, 1))
        assert got == [records[position] for position in (1, 4, 7)]
        assert isinstance(error, ChecksumError)
        with pytest.raises(UnimplementedError):
            iter(base.batch(2).shard(3, 1).with_options(Options(on_error="skip")))


@pytest.fixture
def digit():
    pytest.importorskip("queuecore._core.testing.steps")
    from queuecore._core.testing.steps import functions

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_int32))
    return qc.ops.cfunc(kind(functions()["first_digit"]), outputs=[(np.int32, ())])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("uneven", ["keep", "drop", "pad"])
def test_bad_records_at_known_places(tmp_path, digit, uneven, number):
    # 103 records, of which each 13th from the 5th on is found to be bad when it is made.
    (tmp_path / "a").write_bytes(b"".join(b"x" if n % 13 == 5 else b"%d" % (n % 10) for n in range(103)))
    for ops in ([], [("shuffle", 30, 1, False)], [("skip", 5)]):  # the last one begins with a bad one, which pads
        for world in (4, 60):
            for index in (0, 1, 3, world - 1):
                mine = list(ShardModel([bytes(103)], 1, [*ops, ("shard", world, index, uneven)]).ordinals())
                good = [n % 10 for n in mine if n % 13 != 5]
                first = next((at for at, n in enumerate(mine) if n % 13 == 5), None)
                ds = apply(dataset(tmp_path / "a", 1), ops).shard(world, index, uneven=uneven).map(digit)
                ds = threads(ds, number)
                results, error = run(ds.with_options(Options(on_error="skip", max_skips=None)))
                assert error is None
                assert [int(element) for element in results] == good
                results, error = run(ds)
                if first is None:
                    assert error is None
                    continue
                assert isinstance(error, InvalidArgumentError)
                if not ops or ops[0][0] == "skip":
                    assert [int(element) for element in results] == [n % 10 for n in mine[:first]]


@pytest.mark.parametrize("number", THREADS)
def test_a_padding_element_that_can_not_be_read(tmp_path, digit, number):
    (tmp_path / "a").write_bytes(b"x0123456789")
    for ops in ([], [("batch", 1, False)]):
        ds = apply(dataset(tmp_path / "a", 1), ops[:0]).map(digit)
        ds = threads(apply(ds, ops).shard(4, 3, uneven="pad"), number)
        got, error = run(ds)
        assert [int(np.ravel(one)[0]) for one in got] == [2, 6]
        assert isinstance(error, InvalidArgumentError)
        assert error.record == 0


# -- arguments


@pytest.mark.parametrize(
    "arguments",
    [(0, 0), (-1, 0), (3, 3), (3, -1), (3,), (None, 1), (2.0, 1), (2, 1.0), (True, 0), ("2", 0), (2, "0"), (2**31, 0)],
)
def test_bad_numbers(arguments):
    with pytest.raises(InvalidArgumentError):
        dataset("x", 1).shard(*arguments)


def test_bad_words():
    with pytest.raises(InvalidArgumentError):
        dataset("x", 1).shard(2, 0, uneven="ceil")


def test_the_environment(tmp_path, monkeypatch):
    paths = write_files(tmp_path, [bytes(range(7))])
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    ds = dataset(paths, 1).shard(uneven="pad")
    monkeypatch.setenv("RANK", "2")
    assert values(run(ds)[0]) == [1, 4, 0]
    assert values(run(dataset(paths, 1).shard(2, 0))[0]) == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("rank", "world", "named"),
    [
        (None, "2", "RANK"),
        ("0", None, "WORLD_SIZE"),
        ("one", "2", "RANK"),
        ("0", "2.0", "WORLD_SIZE"),
        ("2", "2", "RANK"),
        ("-1", "2", "RANK"),
        ("0", "0", "WORLD_SIZE"),
        ("", "2", "RANK"),
    ],
)
def test_a_bad_environment(monkeypatch, rank, world, named):
    for name, value in (("RANK", rank), ("WORLD_SIZE", world)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(InvalidArgumentError, match=named):
        dataset("x", 1).shard()


def test_raise_before_the_first_element(tmp_path):
    paths = write_files(tmp_path, CONTENTS)
    with pytest.raises(InvalidArgumentError, match="167"):
        iter(dataset(paths, 1).shard(4, 0, uneven="raise"))
    with pytest.raises(InvalidArgumentError):
        dataset(paths, 1).shard(4, 0, uneven="raise").batch(2).cardinality()
    assert len(run(dataset(paths, 1).take(160).shard(4, 0, uneven="raise"))[0]) == 40


def test_endless(tmp_path):
    paths = write_files(tmp_path, [bytes(range(7))])
    for uneven in UNEVEN:
        ds = dataset(paths, 1).repeat().shard(4, 2, uneven=uneven)
        assert ds.cardinality() == INFINITE_CARDINALITY
        assert values(run(ds, 9)[0]) == [at % 7 for at in range(2, 38, 4)]


# -- other numbers of shards, other batches


def _finish(paths, state, world, batch, make):
    """What comes from a state on, on all shards, in the whole's order."""
    ranks = []
    for rank in range(world):
        with iter(threads(make(paths, world, rank, batch), THREADS[rank % 3])) as it:
            it.load_state_dict(state)
            ranks.append(list(itertools.chain.from_iterable(values(pull(it)[0]))))
    return [one for group in itertools.zip_longest(*ranks) for one in group if one is not None]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    old=st.tuples(st.integers(1, 4), st.integers(1, 6)),
    new=st.tuples(st.integers(1, 4), st.integers(1, 6)),
    elements=st.integers(0, 12),
    data=st.data(),
)
def test_with_other_shards_and_batches(tmp_path_factory, old, new, elements, data):
    paths = write_files(tmp_path_factory.mktemp("world"), CONTENTS)

    permuted, uneven = data.draw(st.booleans()), data.draw(st.sampled_from(["keep", "drop"]))

    def order():
        return (dataset(paths, 1).permute(1) if permuted else dataset(paths, 1).shuffle(40, seed=1)).repeat(2)

    def make(paths, world, rank, batch):
        return order().shard(world, rank, uneven=uneven).batch(batch)

    all_elements = values(run(order())[0])
    rank = data.draw(st.integers(0, old[0] - 1))
    with iter(make(paths, old[0], rank, old[1])) as it:
        elements = len(pull(it, elements)[0])
        state = json.loads(json.dumps(it.state_dict()))
    place = elements * old[0] * old[1]
    if place % (new[0] * new[1]):
        with pytest.raises(ResumeMismatchError, match=f" {place} "):
            _finish(paths, state, *new, make)
    else:
        end = None if uneven == "keep" else len(all_elements) // new[0] * new[0]
        assert _finish(paths, state, *new, make) == all_elements[place:end]


@pytest.mark.parametrize("kind", ["lines", "tfrecord"])
def test_with_other_shards_without_known_places(tmp_path, kind):
    text, records = blocks.content(kind, 100)
    (tmp_path / "a").write_bytes(text)

    def make(world, rank, batch):
        ds = blocks.small(blocks.source(kind, tmp_path / "a"), 64).repeat(2)
        return ds.shard(world, rank, uneven="drop").batch(batch)

    for elements in (0, 4, 8, 12, 16):
        with iter(make(3, 1, 4)) as it:
            blocks.pull(it, elements)
            state = it.state_dict()
        for world, batch in [(3, 4), (4, 3), (2, 6), (1, 12), (6, 2), (12, 1), (2, 3)]:
            ranks = []
            for rank in range(world):
                with iter(make(world, rank, batch)) as it:
                    it.load_state_dict(state)
                    ranks.append(blocks.flat(blocks.pull(it)[0]))
            rest = (records * 2)[elements * 12 : 200 // world * world]
            assert [one for group in zip(*ranks, strict=True) for one in group] == rest


def test_shards_of_batches_and_maps_between(tmp_path):
    paths = write_files(tmp_path, CONTENTS)
    cast = qc.ops.cast(dtype=np.float32)
    ds = dataset(paths, 1).shuffle(40, seed=1)
    batches = [own(one) for one in ds.batch(4).map(cast)]
    with iter(dataset(paths, 1).shuffle(40, seed=1).batch(4).map(cast).shard(2, 0)) as it:
        pull(it, 9)
        state = it.state_dict()
    for rank in range(3):
        with iter(dataset(paths, 1).shuffle(40, seed=1).batch(4).map(cast).shard(3, rank)) as it:
            it.load_state_dict(state)
            assert_same(pull(it)[0], batches[18 + rank :: 3])


def test_what_may_not_differ(tmp_path):
    paths = write_files(tmp_path, CONTENTS)

    def base():
        return dataset(paths, 1).shuffle(40, seed=1)

    with iter(base().shard(2, 0).batch(4)) as it:
        pull(it, 6)
        state = it.state_dict()
    others = [
        base().shard(2, 0, uneven="drop").batch(4),
        base().shard(2, 0).batch(4, True),
        base().batch(4).shard(2, 0),
        base().shard(2, 0),
        base().shard(2, 0).batch(4).repeat(2),
        dataset(paths, 1).shuffle(41, seed=1).shard(2, 0).batch(4),
        dataset(paths, 1).shuffle(40, seed=2).shard(4, 0).batch(4),
    ]
    for other in others:
        with iter(other) as it, pytest.raises(ResumeMismatchError):
            it.load_state_dict(state)
    with iter(base().shard(2, 0).repeat(2).batch(4)) as it:
        state = it.state_dict()
    with iter(base().shard(3, 0).repeat(2).batch(4)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)  # a repeat stands between


def test_bad_records_tie_a_state_to_its_shard(tmp_path):
    records = [bytes([index]) * 20 for index in range(50)]
    _damaged(tmp_path / "a", records, {22, 23})

    def make(world, rank, batch):
        ds = qc.data.TFRecordDataset(tmp_path / "a").shard(world, rank).batch(batch)
        return ds.with_options(Options(on_error="skip", max_skips=None))

    with iter(make(2, 0, 4)) as it:
        blocks.pull(it, 1)
        state = it.state_dict()
    with iter(make(2, 0, 2)) as it:
        it.load_state_dict(state)
        assert blocks.flat(blocks.pull(it)[0]) == [one for one in records[8::2] if one[0] not in (22, 23)]
    if state["position"]["missing"]:
        with iter(make(2, 1, 4)) as it, pytest.raises(ResumeMismatchError):
            it.load_state_dict(state)


def test_repr_and_pickle(tmp_path):
    import pickle

    paths = write_files(tmp_path, CONTENTS)
    ds = dataset(paths, 1).shard(4, 1, uneven="pad").permute(3).batch(5)
    again = pickle.loads(pickle.dumps(ds))
    assert repr(again) == repr(ds)
    assert ".shard(4, 1, 'pad').permute(True)" in repr(ds)
    assert_same(run(again)[0], run(ds)[0])
