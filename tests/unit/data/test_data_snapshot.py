"""Snapshots in shards: who is in which, in which order they are read, by tf.data's rules; and places in that order."""

import itertools
import json

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.data.nodes import Each, made, numbers
from helpers.data.transformed import pulled, run, stops_at_once, values
from helpers.process import run_python, soon
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import Dataset, Options, TextLineDataset
from queuecore.errors import DtypeError, FailedPreconditionError, InvalidArgumentError, PipelineError


def parity(x, *_):
    return int(x) % 2


def flat(shards):
    return shards.flat_map(lambda shard: shard)


def shuffled(shards):
    return shards.shuffle(100, seed=5).interleave(lambda shard: shard.shuffle(3, seed=1), 2, 2)


def of_shards(elements, number):
    """The elements of each shard, rising."""
    return [[x for x in elements if number(x) == shard] for shard in sorted({number(x) for x in elements})]


def chained(elements, number):
    return [x for shard in of_shards(elements, number) for x in shard]


def in_turns(elements, number):
    return [x for row in itertools.zip_longest(*of_shards(elements, number)) for x in row if x is not None]


# What TensorFlow 2.21 gives: a function of x (shard), one of the shards, in the first iteration, and later.
TENSORFLOW = [
    (10, lambda x: x % 3, flat, "0 3 6 9 1 4 7 2 5 8"),
    (10, lambda x: 2 - x % 3, flat, "2 5 8 1 4 7 0 3 6 9"),
    (12, lambda x: x + 10 if x % 2 == 0 else 20 - x, flat, "11 0 9 2 7 4 5 6 3 8 1 10"),
    (10, lambda x: x % 3, lambda d: d.interleave(lambda x: x, cycle_length=2), "0 1 3 4 6 7 9 2 5 8"),
    (10, lambda x: x % 3, lambda d: d.shuffle(3, seed=5).flat_map(lambda x: x), "1 4 7 2 5 8 0 3 6 9"),
    (10, lambda x: x % 3 * 100 + 5, None, "0 1 2 3 4 5 6 7 8 9"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize(("count", "shard", "reader", "later"), TENSORFLOW)
def test_the_order_is_tensorflows(tmp_path, count, shard, reader, later, number):
    ds = threads(Dataset.range(count).snapshot(tmp_path, reader_func=reader, shard_func=shard), number)
    expected = [int(x) for x in later.split()]
    assert run(ds, values) == list(range(count))
    assert run(ds, values) == expected
    assert run(ds.repeat(3).batch(4), values) == [(expected * 3)[at : at + 4] for at in range(0, 3 * count, 4)]
    other = Dataset.range(count).snapshot(tmp_path / "other", reader_func=reader, shard_func=shard)
    assert run(other.repeat(3), values) == [*range(count), *expected, *expected]


KINDS = ("range", "lines", "pairs", "dicts", "decoded", "varying", "objects", "batches")


def sources(folder):
    """Datasets of each layout."""
    (folder / "a").write_text("".join(f"{n}\n" for n in range(23)))
    lines = TextLineDataset(folder / "a")
    numbers = lines.map(qc.ops.decode_csv(record_defaults=[np.int64]))
    return {
        "range": Dataset.range(23),
        "lines": lines,
        "pairs": Dataset.zip(Dataset.range(23), lines),
        "dicts": Dataset.from_tensor_slices({"x": np.arange(23), "s": [b"s" * n for n in range(23)]}).map(
            lambda e: {"x": e["x"], "s": e["s"], "y": e["x"] * 2}
        ),
        "decoded": numbers,
        "varying": lines.map(qc.ops.decode_raw(out_type="u1")),
        "objects": Dataset.range(23).map(lambda x: qc.Ragged.from_list([[int(x)], [1, int(x)]])),
        "batches": Dataset.range(23).batch(1),
    }


def first_of(element):
    """A number that is in any of these elements."""
    if isinstance(element, dict):
        return first_of(next(iter(element.values())))
    if isinstance(element, (tuple, list)):
        return first_of(element[0])
    if isinstance(element, bytes):
        return int(element)
    if isinstance(element, qc.Ragged):
        return first_of(element[0])
    return int(np.ravel(element)[-1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_layout(tmp_path, kind, compression):
    ds = sources(tmp_path)[kind]
    elements = run(ds, values)

    def shard(*element):
        return first_of(element[0]) % 4

    snapshot = ds.snapshot(tmp_path / "s", compression, reader_func=flat, shard_func=shard)
    turns = ds.snapshot(tmp_path / "t", compression, shard_func=shard)
    number = [one % 4 for one in run(ds, first_of)]
    shards = [[x for x, n in zip(elements, number, strict=True) if n == shard] for shard in range(4)]
    assert run(snapshot, values) == elements
    assert run(snapshot, values) == [element for one in shards for element in one]
    assert snapshot.element_spec == ds.element_spec
    assert run(turns.repeat(2), values)[: len(elements)] == elements
    assert turns.cardinality() == len(elements)
    assert snapshot.cardinality() == qc.data.UNKNOWN_CARDINALITY
    assert run(turns, values) == [x for row in itertools.zip_longest(*shards) for x in row if x is not None]


def test_shards_of_no_function(tmp_path):
    ds = Dataset.range(40).snapshot(tmp_path, reader_func=flat)
    assert run(ds.repeat(2), values) == [*range(40), *chained(range(40), lambda x: x % 16)]
    # Turns among all of them: the input's order.
    assert run(Dataset.range(99).snapshot(tmp_path, shard_func=lambda x: x % 16).repeat(2), values) == [*range(99)] * 2


@pytest.mark.thorough
@given(
    elements=st.lists(st.integers(0, 6), max_size=60),
    large=st.booleans(),
    reader=st.sampled_from([None, flat, shuffled]),
    take=st.integers(0, 70),
    number=st.sampled_from(THREADS),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_of_it_and_any_place(tmp_path_factory, elements, large, reader, take, number):
    folder = tmp_path_factory.mktemp("shards")
    width = 30_000 if large else 1  # pieces are written before their end
    rows = np.repeat(np.array(elements, np.int64)[:, None] * 1000 + np.arange(len(elements))[:, None], width, axis=1)

    def make():
        ds = Dataset.from_tensor_slices(rows).snapshot(
            folder, reader_func=reader, shard_func=lambda x: int(x[0]) // 1000
        )
        return threads(ds.map(lambda x: x[0]).repeat(3), number)

    states, expected = [], []
    with iter(make()) as it:
        for element in it:
            expected.append(int(element))
            states.append(json.loads(json.dumps(it.state_dict())))
    n = len(elements)
    numbers = rows[:, 0].tolist()
    assert expected[:n] == numbers
    assert sorted(expected[n : 2 * n]) == sorted(numbers)
    assert expected[n : 2 * n] == expected[2 * n :]
    if reader is not shuffled:
        order = (in_turns if reader is None else chained)(numbers, lambda x: x // 1000)
        assert expected[n : 2 * n] == order
    # In the first pass too, now that there are files.
    for at in {min(take, len(states) - 1), len(states) // 2, len(states) - 1} if states else ():
        with iter(make()) as it:
            it.load_state_dict(states[at])
            assert pulled(it, None, values) == (expected[at + 1 :], None)
    with iter(make()) as it:
        assert pulled(it, None, values) == (expected[n:] + expected[n : 2 * n], None)
    # Places in what is read from its beginning.
    with iter(make()) as it:
        pulled(it, take, values)
        state = it.state_dict()
        rest = pulled(it, None, values)
    with iter(make()) as it:
        it.load_state_dict(state)
        assert pulled(it, None, values) == rest


def test_after_a_shuffle(tmp_path):
    def make():
        return Dataset.range(30).shuffle(10, seed=3).snapshot(tmp_path, reader_func=flat, shard_func=parity).repeat(2)

    first = run(Dataset.range(30).shuffle(10, seed=3), values)
    assert run(make(), values) == first + chained(first, lambda x: x % 2)
    assert run(make(), values) == chained(first, lambda x: x % 2) * 2


def test_functions_have_files_of_their_own(tmp_path):
    ds = Dataset.range(8)
    assert run(ds.snapshot(tmp_path), values) == list(range(8))
    assert run(ds.snapshot(tmp_path, shard_func=parity, reader_func=flat), values) == list(range(8))
    assert run(ds.snapshot(tmp_path, shard_func=first_of, reader_func=flat), values) == list(range(8))
    assert len(list(tmp_path.glob("*/snapshot.index"))) == 3
    # Not so a function that reads.
    assert run(ds.snapshot(tmp_path, shard_func=parity), values) == list(range(8))
    assert run(ds.snapshot(tmp_path, shard_func=parity, reader_func=flat), values) == chained(range(8), parity)
    assert len(list(tmp_path.glob("*/snapshot.index"))) == 3


def test_a_part_of_a_pass_writes_nothing(tmp_path):
    ds = Dataset.range(10**12).snapshot(tmp_path, shard_func=parity, reader_func=flat)
    assert run(ds.take(3), values) == [0, 1, 2]
    assert run(ds.take(3).repeat(2), values) == [0, 1, 2] * 2
    assert soon(lambda: not list(tmp_path.glob("*/snapshot.*")))
    stops_at_once(ds, 3)


def test_it_is_not_called_for_what_is_read(tmp_path):
    called = []

    def shard(x):
        called.append(int(x))
        return 0

    ds = Dataset.range(5).snapshot(tmp_path, shard_func=shard)
    assert run(ds.repeat(3), values) == [*range(5)] * 3
    assert called == [*range(5)]


@pytest.mark.parametrize("number", THREADS)
def test_what_shard_func_may_not(tmp_path, number):
    bad = {
        "raises": (lambda x: 1 // (3 - int(x)), PipelineError),
        "stops": (lambda x: next(iter(())) if x == 3 else 0, PipelineError),
        "text": (lambda x: "1" if x == 3 else 1, InvalidArgumentError),
        "negative": (lambda x: 2 - int(x), InvalidArgumentError),
        "bool": (lambda x: bool(x == 3) or 0, InvalidArgumentError),
        "several": (lambda x: np.arange(2) if x == 3 else 0, InvalidArgumentError),
        "large": (lambda x: 2**63 if x == 3 else 0, InvalidArgumentError),
    }
    for name, (function, kind) in bad.items():
        for ds in (Dataset.range(6), Dataset.range(6).map(lambda x: int(x))):
            snapshot = ds.snapshot(tmp_path / name, shard_func=function).with_options(Options(on_error="skip"))
            with iter(threads(snapshot, number)) as it:
                got, error = pulled(it, None, values)
            assert got == [0, 1, 2], name
            assert isinstance(error, kind), name
            assert not list(tmp_path.glob("*/*/snapshot.index"))

    def interrupt(x):
        raise KeyboardInterrupt

    with iter(Dataset.range(6).snapshot(tmp_path / "x", shard_func=interrupt)) as it, pytest.raises(KeyboardInterrupt):
        next(it)


def test_what_reader_func_may_not(tmp_path):
    def raising(shards):
        raise ValueError(1)

    for reader, kind in (
        (raising, PipelineError),
        (lambda shards: 3, DtypeError),
        (lambda shards: shards.flat_map(lambda shard: shard.map(lambda x: x / 2)), DtypeError),
        (lambda shards: shards.flat_map(lambda shard: shard.map(lambda x: (x, x))), DtypeError),
        (lambda shards: shards.flat_map(lambda shard: shard.batch(2)), DtypeError),
    ):
        ds = Dataset.range(6).snapshot(tmp_path, shard_func=parity, reader_func=reader)
        run(Dataset.range(6).snapshot(tmp_path, shard_func=parity), values)
        with iter(ds) as it, pytest.raises(kind):
            next(it)
    for bad in ({"shard_func": 3}, {"reader_func": "x"}):
        with pytest.raises(InvalidArgumentError):
            Dataset.range(6).snapshot(tmp_path, **bad)


def test_parts_that_change_places(tmp_path):
    ds = Dataset.from_tensor_slices({"a": [1, 2], "b": [3, 4]})

    def swapped(shards):
        return flat(shards).map(lambda e: {"b": e["a"], "a": e["b"]})

    run(ds.snapshot(tmp_path, shard_func=first_of, reader_func=swapped))
    with iter(ds.snapshot(tmp_path, shard_func=first_of, reader_func=swapped)) as it:
        got, error = pulled(it, None, values)
    assert got == []
    assert isinstance(error, DtypeError)  # and not one as the other


def test_objects_that_can_not_be_written(tmp_path):
    for index, bad in enumerate((0, 3, 700)):
        ds = made(Each((numbers(900),), lambda x, bad=bad: object() if x == bad else int(x)))
        with iter(ds.snapshot(tmp_path / f"{index}", shard_func=lambda x: 0)) as it:
            got, error = pulled(it, None, values)
        assert got == list(range(bad))
        assert isinstance(error, InvalidArgumentError)
        assert f"element {bad}" in str(error)


def test_what_else_reader_func_may(tmp_path):
    def make(reader):
        return Dataset.range(10).snapshot(tmp_path, shard_func=parity, reader_func=reader)

    run(make(None), values)
    half = make(lambda shards: flat(shards).take(5).map(lambda x: x + 100))
    assert run(half, values) == [100, 102, 104, 106, 108]
    assert run(make(lambda shards: flat(shards.take(1)).repeat(2)).batch(10), values) == [[0, 2, 4, 6, 8] * 2]
    assert run(make(lambda shards: flat(shards).filter(lambda x: x > 6)), values) == [8, 7, 9]
    assert run(make(lambda shards: flat(shards).shuffle(10, seed=1)), values) == run(
        Dataset.from_tensor_slices(chained(range(10), parity)).shuffle(10, seed=1), values
    )


def test_files_that_are_gone(tmp_path):
    def make():
        return Dataset.range(10).snapshot(tmp_path, shard_func=parity, reader_func=flat)

    run(make(), values)
    ds = make()
    with iter(ds) as it:
        next(it)
        state = it.state_dict()
    for path in tmp_path.glob("*/snapshot.*"):
        path.unlink()
    with iter(make()) as it:
        it.load_state_dict(state)
        with pytest.raises(FailedPreconditionError):
            next(it)
    assert run(make(), values) == list(range(10))
    assert run(make(), values) == chained(range(10), parity)


def test_input_files_that_changed(tmp_path):
    paths = write_files(tmp_path, [bytes(range(10)), bytes(range(10, 20))])

    def make():
        ds = dataset(paths, np.dtype("u1")).snapshot(tmp_path / "s", shard_func=parity, reader_func=flat)
        return run(ds, values)

    assert make() == list(range(20))
    assert make() == chained(range(20), parity)
    write_files(tmp_path, [bytes(range(50, 60)), bytes(range(12))])
    assert make() == [*range(50, 60), *range(12)]
    assert make() == chained([*range(50, 60), *range(12)], parity)


def test_another_process_reads_it(tmp_path):
    code = f"""
import queuecore as qc
def parity(x):
    return int(x) % 2
def flat(shards):
    return shards.flat_map(lambda shard: shard)
ds = qc.data.Dataset.range(9).snapshot({str(tmp_path)!r}, shard_func=parity, reader_func=flat)
print([int(x) for x in ds])
"""
    outputs = [run_python(code).stdout for _ in range(2)]
    assert [json.loads(one) for one in outputs] == [list(range(9)), chained(range(9), lambda x: x % 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [1, 2])
def test_other_steps_between_it_and_the_repeat(tmp_path, number):
    # Each pass is an iterator of its own then.
    def make():
        ds = Dataset.range(12).snapshot(tmp_path, shard_func=parity, reader_func=flat)
        return threads(ds.filter(lambda x: x % 3 > 0).repeat(3), number)

    good = [x for x in range(12) if x % 3]
    expected = good + 2 * chained(good, lambda x: x % 2)
    states = []
    with iter(make()) as it:
        states.append(it.state_dict())
        for index, element in enumerate(it):
            assert int(element) == expected[index]
            states.append(it.state_dict())
    for index, state in enumerate(states):
        with iter(make()) as it:
            it.load_state_dict(state)
            assert pulled(it, None, values) == (expected[index:], None)
    assert run(make(), values) == 3 * chained(good, lambda x: x % 2)
