"""Caches and snapshots: what was read once comes again, in its order, from memory and from files."""

import datetime
import errno
import gc
import itertools
import json
import math
import os
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers.data.blocks import content, flat, plain, played as played_after, pull, run, source
from helpers.data.chains import THREADS, apply, dataset, threads, values, write_files
from helpers.data.nodes import Each, made, numbers
from helpers.models.oracle import Model
from helpers.process import PATIENCE, run_python, soon, thread_ids
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as of_numpy

import queuecore as qc
from queuecore.data import UNKNOWN_CARDINALITY, Dataset, Options, TextLineDataset
from queuecore.data._nodes import cache as _cache
from queuecore.data._nodes.cache_files import CacheFileWriter
from queuecore.data._nodes.writing import Writing
from queuecore.data._rows.container import Packer, framed, read_piece, unpack
from queuecore.errors import FailedPreconditionError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

STORES = ("memory", "file", "snapshot", "gzip")
CONTENTS = [bytes(range(40)), b"", bytes(range(40, 41)), bytes(range(41, 90))]
RECORD = np.dtype([("a", ">u2"), ("b", "u1", (3,)), ("c", [("d", "<i4"), ("e", "?")])])


def kept(ds, store, folder):
    """Keep a dataset's elements in one of the stores."""
    if store == "memory":
        return ds.cache()
    if store == "file":
        return ds.cache(folder / "deep" / "kept")
    return ds.snapshot(folder / "kept", compression="GZIP" if store == "gzip" else "AUTO")


def of_objects(elements):
    """A dataset of Python objects."""
    return made(Each((numbers(len(elements)),), elements.__getitem__))


def of_array(array):
    """A dataset of the rows of an array."""
    return Dataset.from_tensor_slices(array)


@pytest.fixture
def paths(tmp_path):
    return write_files(tmp_path, CONTENTS)


def inputs(tmp_path):
    """A dataset of each layout, of which the files can be removed."""
    state = np.random.default_rng(0)
    rows = state.integers(0, 256, 50 * RECORD.itemsize, dtype=np.uint8).tobytes()
    (tmp_path / "rows").write_bytes(rows)
    for kind in ("lines", "csv"):
        (tmp_path / kind).write_bytes(content(kind, 70)[0])
    return {
        "fields": lambda: dataset(tmp_path / "rows", RECORD),
        "lines": lambda: source("lines", tmp_path / "lines"),
        "mixed": lambda: source("csv", tmp_path / "csv"),
        "batches": lambda: dataset(tmp_path / "rows", RECORD).batch(7),
        "ragged batches": lambda: source("csv", tmp_path / "csv").batch(9),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("workers", THREADS)
def test_later_passes_need_no_input(tmp_path, store, workers):
    for name, make in inputs(tmp_path).items():
        expected, _ = run(make())
        ds = kept(make(), store, tmp_path / f"kept {name}")
        assert threads(ds, workers).element_spec == make().element_spec
        assert run(threads(ds.repeat(3), workers)) == (expected * 3, None)
        for path in tmp_path.glob("*"):
            if path.is_file():
                path.rename(f"{path}.away")
        try:
            assert run(threads(ds, workers)) == (expected, None), name
            assert len(ds) == len(expected)
            if store != "memory":  # a new dataset, as in another process
                again = kept(make(), store, tmp_path / f"kept {name}")
                assert run(threads(again.repeat(2), workers)) == (expected * 2, None)
        finally:
            for path in tmp_path.glob("*.away"):
                path.rename(str(path).removesuffix(".away"))


def test_elements_that_are_batches_again(tmp_path):
    make = inputs(tmp_path)["batches"]
    expected = [plain(batch) for batch in make()]
    for store in STORES:
        ds = kept(make(), store, tmp_path / store)
        for _ in range(2):
            for got, wanted in zip(ds, make(), strict=True):
                assert got["a"].dtype == wanted["a"].dtype
                assert got["c"]["e"].shape == wanted["c"]["e"].shape
        assert [plain(batch) for batch in ds] == expected


@st.composite
def steps(draw):
    step = st.one_of(
        st.tuples(st.just("take"), st.sampled_from([-1, 0, 1, 5, 40])),
        st.tuples(st.just("skip"), st.sampled_from([0, 1, 7, 60])),
        st.tuples(st.just("repeat"), st.integers(0, 2)),
        st.tuples(st.just("shuffle"), st.sampled_from([1, 3, 20]), st.integers(0, 99), st.booleans()),
    )
    behind = st.one_of(
        st.tuples(st.just("take"), st.sampled_from([-1, 0, 1, 5, 40])),
        st.tuples(st.just("skip"), st.sampled_from([0, 1, 7, 60])),
        st.tuples(st.just("repeat"), st.integers(0, 3)),
    )
    after = draw(st.lists(behind, max_size=3))
    return draw(st.lists(step, max_size=3)), after, draw(st.sampled_from([[], [("batch", 4, False)]]))


@pytest.mark.thorough
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=steps(), workers=st.sampled_from(THREADS), store=st.sampled_from(STORES))
def test_any_steps(tmp_path_factory, ops, workers, store):
    folder = tmp_path_factory.mktemp("cache")
    paths = write_files(folder, CONTENTS)
    before, behind, batch = ops
    rows = [[record] for record in Model(CONTENTS, 1, before).ordinals()]
    ds = apply(kept(apply(dataset(paths, 1), before), store, folder), [*behind, *batch])
    for _ in range(2):
        assert run(threads(ds, workers)) == (played_after(rows, [*behind, *batch]), None)


@pytest.mark.parametrize("store", STORES)
def test_a_shuffle_behind_it(paths, tmp_path, store):
    behind = [("shuffle", 20, 3, True), ("repeat", 3), ("batch", 7, False)]
    ds = apply(kept(dataset(paths, 1).skip(5), store, tmp_path), behind)
    model = Model(CONTENTS, 1, [("skip", 5), *behind])
    for workers in THREADS:
        assert values(threads(ds, workers)) == list(model.ordinals())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("store", STORES)
def test_an_incomplete_pass_keeps_nothing(tmp_path, store):
    # Far more than is read ahead.
    rows = np.repeat(np.arange(250, dtype=np.uint8), 200_000).reshape(250, -1)
    (path,) = write_files(tmp_path, [rows.tobytes()])
    ds = kept(dataset(path, 200_000), store, tmp_path / "x")
    assert [int(row[0]) for row in ds.take(20)] == list(range(20))
    with iter(ds) as it:
        next(it)
    assert soon(lambda: not list((tmp_path / "x").rglob("*.*")), PATIENCE)
    path.write_bytes(rows[::-1].tobytes())
    assert [int(row[0]) for row in ds] == list(range(250))[::-1]
    path.unlink()
    assert [int(row[-1]) for row in ds] == list(range(250))[::-1]


@pytest.mark.parametrize("store", STORES)
def test_a_pass_with_an_error_is_not_kept(tmp_path, store):
    sick = [2]

    def function(x):
        if int(x) in sick:
            raise ValueError
        called.append(int(x))
        return int(x)

    called = []
    ds = kept(Dataset.range(5).map(function), store, tmp_path / "x")
    for _ in range(2):
        with iter(ds) as it:
            assert [int(next(it)), int(next(it))] == [0, 1]
            with pytest.raises(qc.errors.PipelineError):
                next(it)
            assert [int(x) for x in it] == [3, 4]
    sick.clear()
    called.clear()
    for _ in range(2):
        assert [int(x) for x in ds] == [0, 1, 2, 3, 4]
    assert called == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("store", STORES)
def test_a_pass_behind_one_that_is_given_up_is_kept(tmp_path, store, monkeypatch):
    # However long the thread of an iterator that was closed takes to notice.
    closed, going = threading.Event(), threading.Event()
    for writer in (_cache._MemoryWriter, _cache.CacheFileWriter):

        def slow(self, abandon=writer.abandon):
            closed.set()
            assert going.wait(20)
            abandon(self)

        monkeypatch.setattr(writer, "abandon", slow)
    rows = np.repeat(np.arange(250, dtype=np.uint8), 100_000).reshape(250, -1)
    (path,) = write_files(tmp_path, [rows.tobytes()])
    ds = kept(dataset(path, 100_000), store, tmp_path / "x")
    with iter(ds) as it:
        next(it)
    assert closed.wait(20)
    later = threading.Timer(0.1, going.set)
    later.start()
    assert [int(one[0]) for one in ds] == list(range(250))
    later.join()
    path.unlink()
    assert [int(one[0]) for one in ds] == list(range(250))


@pytest.mark.parametrize("store", STORES)
def test_a_shuffle_before_it_has_one_order(paths, tmp_path, store):
    model = Model(CONTENTS, 1, [("shuffle", 20, 3, True)])
    first, second = list(model.ordinals()), list(model.ordinals())
    assert first != second
    below = dataset(paths, 1).shuffle(20, 3)
    ds = kept(below, store, tmp_path / "x")
    assert values(ds.repeat(2)) == first * 2
    assert values(ds) == first
    assert values(below) == second  # a pass of its own, which is none of the cache's
    assert values(ds) == first
    # Whether a pass that was given up was read ahead to its end changes nothing.
    ds = kept(dataset(paths, 1).shuffle(20, 3), store, tmp_path / "y")
    assert values(ds.take(5)) == first[:5]
    assert values(ds) == first
    # Nor does a pass of the input before the first one of the cache: it is one more.
    below = dataset(paths, 1).shuffle(20, 3)
    values(below)
    assert values(kept(below, store, tmp_path / "z").repeat(2)) == second * 2


@pytest.mark.sampled(18)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ([], [("repeat", 2)]),
        ([("shuffle", 20, 3, True)], [("repeat", 2), ("batch", 4, False)]),
        ([("batch", 4, False)], [("repeat", 2)]),
        ([("permute", 3), ("shard", 3, 1)], [("repeat", 2)]),
        ([("shuffle", 20, 3, True), ("cache",), ("skip", 2)], [("repeat", 3), ("batch", 5, True)]),
        ([("shuffle", 9, 3, True), ("repeat", 2), ("take", 35), ("batch", 3, False)], [("repeat", 2), ("skip", 3)]),
    ],
)
def test_resume_at_every_place_where_nothing_is_kept(tmp_path, store, before, behind):
    paths = write_files(tmp_path, [bytes(range(20)), bytes(range(20, 30))])

    def make(name):
        return apply(kept(apply(dataset(paths, 1), before), store, tmp_path / f"kept {name}"), behind)

    ds = make("first")
    assert run(ds)[1] is None  # what follows comes out of the cache
    states, expected = [], []
    with iter(ds) as it:
        states.append(it.state_dict())
        for element in it:
            expected.append(plain(element))
            states.append(it.state_dict())
    for index, workers in zip(range(len(states)), itertools.cycle(THREADS), strict=False):
        for name in ("first", f"empty{index}"):
            with iter(threads(make(name), workers)) as it:
                it.load_state_dict(json.loads(json.dumps(states[index])))
                assert pull(it) == (expected[index:], None)
    # The iterators of later epochs go on as they would have.
    later = make("later")
    with iter(later) as it:
        it.load_state_dict(states[5])
        pull(it)
    assert run(later) == (expected, None)


@pytest.mark.parametrize("store", STORES)
def test_an_unseeded_order_is_that_of_the_state(paths, tmp_path, store):
    def make(name):
        return kept(dataset(paths, 1).shuffle(30), store, tmp_path / f"kept {name}").repeat(2).batch(8)

    ds = make("x")
    with iter(ds) as it:
        expected, _ = pull(it, 7)
        state = it.state_dict()
        rest, _ = pull(it)
    if store != "memory":  # another process takes over the order that is kept
        assert run(make("x")) == (expected + rest, None)
    with iter(make("y")) as it:
        it.load_state_dict(state)
        assert pull(it) == (rest, None)


def test_a_state_where_another_order_is_kept(paths, tmp_path):
    """It is the state's order that comes, though the cache would be faster."""
    for store in STORES:
        first, second = (kept(dataset(paths, 1).shuffle(30), store, tmp_path / f"{store}{n}").repeat(2) for n in "xy")
        expected, _ = run(first)
        with iter(first) as it:
            pull(it, 100)
            state = it.state_dict()
        run(second)
        with iter(second) as it:
            it.load_state_dict(state)
            assert pull(it) == (expected[100:], None)


@pytest.mark.parametrize("store", STORES)
def test_two_iterators_fill_at_once(paths, tmp_path, store):
    for before in ([], [("shuffle", 20, 3, True)], [("batch", 4, False)]):
        ds = kept(apply(dataset(paths, 1), before), store, tmp_path / str(len(before) + len(str(before)))).repeat(2)
        with iter(ds) as it, iter(ds) as other:
            pairs = [(plain(a), plain(b)) for a, b in zip(it, other, strict=True)]
        assert [a for a, _ in pairs] == [b for _, b in pairs] == run(ds)[0]
        # One of them is dropped on its way: the other one fills.
        ds = kept(apply(dataset(paths, 1), before), store, tmp_path / f"{len(str(before))}b")
        it, other = iter(ds), iter(ds)
        next(it), next(other)
        it.close()
        assert pull(other)[1] is None
        other.close()
        assert run(ds) == run(ds)


def test_memory_goes_with_the_dataset(tmp_path):
    (path,) = write_files(tmp_path, [bytes(range(200))])
    threads_before = thread_ids()
    for behind in ([], [("batch", 7, False)]):
        ds = apply(dataset(path, 1), behind).cache()
        run(ds.repeat(2))
        store = weakref.ref(ds._chain.source.store)
        with iter(ds.repeat()) as it:
            next(it)
        del ds, it
        assert soon(lambda: gc.collect() >= 0 and store() is None)  # noqa: B023 - used here alone
    assert soon(lambda: thread_ids() <= threads_before)


@pytest.mark.parametrize("store", STORES)
def test_dropped_on_its_way(tmp_path, store):
    (path,) = write_files(tmp_path, [bytes(range(200)) * 100_000])
    before = thread_ids()
    ds = kept(dataset(path, 10_000).batch(2), store, tmp_path / "x").repeat()
    for _ in range(3):
        it = iter(ds)
        for _ in range(10):
            next(it)
        del it
        assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: not list((tmp_path / "x").rglob("*.*")))


def test_users_may_change_what_they_get(tmp_path):
    (path,) = write_files(tmp_path, [bytes(range(20))])
    ds = dataset(path, np.dtype([("x", "u1"), ("y", "u1")])).batch(5).cache()
    for _ in range(3):
        for index, batch in enumerate(ds):
            assert batch.pop("x").tolist() == list(range(index * 10, index * 10 + 10, 2))
            with pytest.raises(ValueError, match="read-only"):
                batch["y"][:] = 0
            batch["z"] = 1


def test_a_slow_consumer_of_batches_pins_no_memory(tmp_path):
    (path,) = write_files(tmp_path, [bytes(range(250))])
    held = list(dataset(path, 1).batch(2).cache().repeat(2))
    assert values(held) == [[a, a + 1] for a in range(0, 250, 2)] * 2


def test_endless_inputs_are_passed_on(paths, tmp_path):
    for store in STORES:
        ds = kept(dataset(paths, 1).repeat(), store, tmp_path / store)
        assert values(ds.take(200)) == list(itertools.islice(itertools.cycle(range(90)), 200))
        assert math.isinf(ds._chain.count(None, 0))
        assert not list((tmp_path / store).rglob("*.*"))


@pytest.mark.parametrize("store", STORES)
def test_cardinality(tmp_path, store):
    (tmp_path / "lines").write_bytes(b"a\nb\nc\n")
    ds = kept(TextLineDataset(tmp_path / "lines"), store, tmp_path / "x")
    assert ds.cardinality() == UNKNOWN_CARDINALITY
    assert list(ds) == [b"a", b"b", b"c"]
    assert ds.cardinality() == 3
    assert len(ds.repeat(2).batch(4)) == 2
    (empty,) = write_files(tmp_path, [b""])
    ds = kept(dataset(empty, 1), store, tmp_path / "y")
    assert values(ds.repeat(3)) == values(ds) == []
    assert len(ds) == 0
    ds = kept(dataset(tmp_path / "lines", 1), store, tmp_path / "z")
    assert len(ds) == 6


def test_a_copy_begins_empty(tmp_path):
    (path,) = write_files(tmp_path, [bytes(range(5))])
    ds = dataset(path, 1).cache()
    assert values(ds) == [0, 1, 2, 3, 4]
    path.write_bytes(b"\7\7")
    assert values(pickle.loads(pickle.dumps(ds))) == [7, 7]
    assert values(ds) == [0, 1, 2, 3, 4]
    path.write_bytes(bytes(range(5)))
    ds = dataset(path, 1).cache(tmp_path / "x")
    assert values(pickle.loads(pickle.dumps(ds))) == values(ds) == [0, 1, 2, 3, 4]


def test_the_words_are_tensorflows(paths, tmp_path):
    ds = dataset(paths, 1)
    name = tmp_path / "kept"
    assert values(ds.cache(str(name))) == values(ds.cache(os.fsencode(name))) == list(range(90))
    assert {path.name for path in tmp_path.glob("kept*")} == {"kept.index", "kept.data-00000-of-00001"}
    for bad in (3, 1.5, ["x"], "a\0b"):
        with pytest.raises(InvalidArgumentError):
            ds.cache(bad)
        with pytest.raises(InvalidArgumentError):
            ds.snapshot(bad)
    for bad in ("", b""):
        with pytest.raises(InvalidArgumentError):
            ds.snapshot(bad)
    for bad in ("SNAPPY", 3):
        with pytest.raises(InvalidArgumentError):
            ds.snapshot(name, compression=bad)
    assert "cache()" in repr(ds.cache())
    assert "cache('x')" in str(ds.cache("x").plan())


def shuffled(paths, seed):
    return dataset(paths, 1).shuffle(9, seed)


OTHERS = {
    "steps": (lambda p: dataset(p, 1).take(5), lambda p: dataset(p, 1).take(6), "take"),
    "records": (lambda p: dataset(p, 2, tail="drop"), lambda p: dataset(p, 3, tail="drop"), "record"),
    "seeds": (lambda p: shuffled(p, 1), lambda p: shuffled(p, 2), "seeds"),
    "names": (lambda p: dataset(p, 1), lambda p: dataset(p[:2], 1), "files"),
    "arrays": (lambda p: of_array(np.arange(5)), lambda p: of_array(np.array([0, 1, 2, 3, 5])), "digest"),
    "inputs": (lambda p: of_array(np.arange(3)).cache(), lambda p: of_array(np.arange(2, 5)).cache(), "digest"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_pipeline(paths, tmp_path, what):
    pipeline, other, word = OTHERS[what]
    expected = [run(make(paths))[0] for make in (pipeline, other)]
    assert expected[0] != expected[1]
    assert run(pipeline(paths).cache(tmp_path / "x")) == (expected[0], None)
    got, error = run(other(paths).cache(tmp_path / "x"))
    assert got == []
    assert type(error) is FailedPreconditionError
    assert word in str(error)
    assert error.path == str(tmp_path / "x.index")
    assert run(pipeline(paths).cache(tmp_path / "x")) == (expected[0], None)
    for _ in range(2):  # snapshots stand side by side
        assert run(pipeline(paths).snapshot(tmp_path / "y")) == (expected[0], None)
        assert run(other(paths).snapshot(tmp_path / "y")) == (expected[1], None)
    assert len(list((tmp_path / "y").glob("*"))) == 2


@pytest.mark.parametrize("change", ["size", "time"])
def test_input_files_that_changed(paths, tmp_path, change):
    def make(how):
        ds = dataset(paths, 1)
        return ds.cache(tmp_path / "x") if how == "cache" else ds.snapshot(tmp_path / "y")

    for how in ("cache", "snapshot"):
        assert values(make(how)) == list(range(90))
    if change == "size":
        with open(paths[3], "ab") as file:
            file.write(b"\xff")
    else:
        paths[3].write_bytes(CONTENTS[3][::-1])
        os.utime(paths[3], ns=(0, 12345))
    got, error = run(make("cache"))
    assert got == []
    assert type(error) is FailedPreconditionError
    assert str(paths[3]) in str(error)
    expected = run(dataset(paths, 1))
    for _ in range(2):
        assert run(make("snapshot")) == expected
    os.unlink(tmp_path / "x.index")  # as the message says
    assert run(make("cache")) == expected


def test_what_was_left_out(tmp_path):
    """A cache from which elements are missing isn't for those who don't leave any out."""
    good, _ = content("tfrecord", 9)
    (tmp_path / "a").write_bytes(good[:-1])
    ds = source("tfrecord", tmp_path / "a")
    skipping = Options(on_error="skip")
    complete_elements, _ = run(ds.with_options(skipping))
    for store in STORES:
        one = kept(ds, store, tmp_path / store)
        assert run(one.with_options(skipping)) == (complete_elements, None)
        assert run(one.with_options(skipping)) == (complete_elements, None)
        got, error = run(one)
        if store == "file":
            assert got == []
            assert "on_error" in str(error)
        else:
            assert got == complete_elements
            assert isinstance(error, qc.errors.TruncatedRecordError)


def test_in_another_process(paths, tmp_path):
    values(dataset(paths, 1).shuffle(20).cache(tmp_path / "x"))
    expected = values(dataset(paths, 1).shuffle(20).cache(tmp_path / "x"))
    code = """
        import sys
        import queuecore as qc
        ds = qc.data.FixedLengthRecordDataset(sys.argv[2:], 1).shuffle(20).cache(sys.argv[1])
        print([int(x[0]) for x in ds.repeat(2)])
    """
    for path in paths:
        path.unlink()
    done = run_python(code, tmp_path / "x", *paths)
    assert json.loads(done.stdout) == expected * 2, done.stderr


# -- Python objects ----------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**2000), 2**2000),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters()),
    st.binary(),
    of_numpy.arrays(
        st.one_of(of_numpy.scalar_dtypes(), st.sampled_from(["S3", "U2", "M8[ns]", "m8[s]"]).map(np.dtype)),
        of_numpy.array_shapes(min_dims=0, min_side=0, max_side=4),
    ),
    st.sampled_from(
        [
            np.float32(1.5),
            np.zeros(3, [("a", ">i4"), ("b", "f2", (2,))]),
            np.array([b"ab", b"", [1, "x"]], object),
            Ragged.from_list([b"to", b"", b"be\0"]),
            Ragged.from_list([[1, 2], [], [3]]),
            Sparse([[0, 1]], [7], [3, 2]),
            float("nan"),
        ]
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(), st.tuples(st.integers())), inner, max_size=3),
    ),
    max_leaves=10,
)


def same(a, b):
    """Whether two values are of the same types and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if isinstance(a, Ragged):
        return same(a.values, b.values) and same(a.row_splits, b.row_splits)
    if isinstance(a, Sparse):
        return same(a.indices, b.indices) and same(a.values, b.values) and same(a.dense_shape, b.dense_shape)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or np.float64(a).tobytes() == np.float64(b).tobytes()
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return a.tobytes() == b.tobytes() if isinstance(a, np.generic) else a == b


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(trees=st.lists(TREES, min_size=1, max_size=3), compress=st.booleans())
def test_whatever_can_be_written_comes_back(tmp_path_factory, trees, compress):
    packer = Packer()
    pieces = [b"".join(framed(packer.pack(packer.skeleton(tree)), compress)) for tree in trees]
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(b"".join(pieces))
    fd = os.open(path, os.O_RDONLY)
    try:
        at = 0
        for tree, piece in zip(trees, pieces, strict=True):
            assert same(unpack(read_piece(fd, str(path), at, len(piece), None, compress)), tree)
            at += len(piece)
    finally:
        os.close(fd)


def test_bfloat16_comes_back(tmp_path):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    array = np.arange(6).astype(bfloat16).reshape(2, 3)
    packer = Packer()
    piece = packer.pack(packer.skeleton((array, array[1, 2])))
    got = unpack(np.frombuffer(piece, np.uint8))
    assert same(got[0], array)
    assert got[1] == array[1, 2]
    assert type(got[1]) is bfloat16


@pytest.mark.sampled(2)
@pytest.mark.parametrize("store", STORES)
def test_objects(tmp_path, store):
    elements = [(index, {"a": [b"x" * index, None], "b": np.arange(index % 4)}) for index in range(700)]
    ds = kept(of_objects(elements), store, tmp_path)
    for _ in range(3):
        assert all(map(same, list(ds), elements))
    with iter(ds) as it:
        for _ in range(300):
            next(it)
        state = it.state_dict()
        rest = list(it)
    for other in (ds, kept(of_objects(elements), store, tmp_path / "empty")):
        with iter(other) as it:
            it.load_state_dict(state)
            assert all(map(same, list(it), rest))


class Strange(int):
    """A number that is more than a number."""


@pytest.mark.parametrize(
    "strange",
    [object(), {1, 2}, datetime.date(2000, 1, 1), Strange(3), [1, (2, len)], np.array([1, {2}], object), 1 << 100_000],
    ids=lambda value: type(value).__name__,
)
def test_objects_that_cant_be_written(tmp_path, strange):
    elements = [1, 2, strange, 3]
    for _ in range(2):
        got, error = pull(iter(of_objects(elements).cache(tmp_path / "x")))
        assert got == [1, 2]
        assert type(error) is InvalidArgumentError
        assert "element 2" in str(error)
    assert os.listdir(tmp_path) == []
    ds = of_objects(elements).cache()
    for _ in range(2):  # in memory they stay what they are
        assert list(ds)[2] is strange or type(strange) in (list, np.ndarray)


def test_is_a_dataset(tmp_path, paths):
    cached = dataset(paths, 1).cache()
    assert isinstance(cached, Dataset)
    assert flat([values(cached), values(dataset(paths, 1).snapshot(tmp_path / "s"))]) == [*range(90), *range(90)]


# The end of an iterator whose pass is being written


def files_in(folder):
    return [one.name for one in folder.rglob("*") if one.is_file()]


@pytest.fixture
def closing(monkeypatch):
    """An event that is set when somebody who closes an iterator waits for its writer."""
    begun, wait = threading.Event(), Writing.wait

    def waited(self, timeout):
        begun.set()
        wait(self, timeout)

    monkeypatch.setattr(Writing, "wait", waited)
    return begun


@pytest.mark.parametrize("store", STORES[1:])
@pytest.mark.parametrize("within", [False, True])
def test_close_waits_until_the_writer_has_removed_its_files(tmp_path, monkeypatch, closing, store, within):
    abandon = CacheFileWriter.abandon

    def later(self):
        assert closing.wait(PATIENCE)
        abandon(self)

    monkeypatch.setattr(CacheFileWriter, "abandon", later)
    ds = kept(Dataset.range(1_000_000), store, tmp_path)
    if within:  # it works for another node
        ds = ds.map(lambda number: [number.tolist()]).prefetch(2)
    with iter(ds) as it:
        next(it)
        assert files_in(tmp_path)
    assert closing.is_set() and not files_in(tmp_path)


def test_a_writer_that_fails_after_the_close_warns_of_nothing(tmp_path, monkeypatch, closing):
    failed, add, reached = [], CacheFileWriter.add, threading.Event()

    def fails(self, chunk):
        if self._pieces and not failed:
            reached.set()
            assert closing.wait(PATIENCE)
            failed.append(OSError(errno.ENOENT, "the folder is gone"))
            raise failed[0]
        return add(self, chunk)

    monkeypatch.setattr(CacheFileWriter, "add", fails)
    ds = Dataset.range(1_000_000).cache(tmp_path / "x")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with iter(ds) as it:
            next(it)
            assert reached.wait(PATIENCE)  # a close that came before would end the writer first
    assert failed and not seen and not files_in(tmp_path)
    assert sum(1 for _ in ds.batch(100_000)) == 10 and files_in(tmp_path)  # a later pass is kept


@pytest.mark.parametrize("end", ["", "it.close()", "del it", "raise SystemExit(0)"])
def test_the_end_of_the_program_leaves_no_files(tmp_path, end):
    code = f"""
        import sys
        from queuecore.data import Dataset
        it = iter(Dataset.range(1_000_000).cache(sys.argv[1] + "/x"))
        next(it)
        {end}
    """
    done = run_python(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and not files_in(tmp_path)


def test_a_forked_child_waits_for_no_writer_of_its_parent(monkeypatch):
    writing = Writing()
    with writing.begun() as may:
        assert may
        monkeypatch.setattr(os, "getpid", lambda: -1)
        writing.wait(None)
    writing.end()
    with writing.begun() as may:
        assert not may
