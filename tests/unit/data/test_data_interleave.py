"""Datasets that take turns: by a function of elements, by numbers, by chance. Against tf.data's table and algorithm."""

import collections
import functools
import itertools
import json
import os
import threading

import numpy as np
import pytest
from helpers.data.blocks import small
from helpers.data.chains import threads
from helpers.data.transformed import bytes_of_files, check, places, pulled, run, stops_at_once, values
from helpers.process import soon, thread_ids
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.data import AUTOTUNE, Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.data._nodes.interleave_files import uniform
from queuecore.data._plan.blocks import BlockSource
from queuecore.errors import DtypeError, InvalidArgumentError, NotFoundError, PipelineError
from queuecore.ragged import Ragged

TABLE = [
    (2, 1, "2 4 1 3", "0 100 1 101 102 200 103 300 301 302"),
    (2, 2, "3 4 1 3", "0 1 100 101 2 102 103 200 300 301 302"),
    (3, 1, "1 3 2 2 1", "0 100 200 101 201 300 102 301 400"),
    (2, 3, "2 7 1", "0 1 100 101 102 200 103 104 105 106"),
    (2, 1, "0 2 0 3", "100 101 300 301 302"),
    (3, 2, "5 1 0 4 2", "0 1 100 2 3 300 301 400 401 4 302 303"),
    (2, 2, "2 4 2", "0 1 100 101 102 103 200 201"),
]
# How children are made: without a stream of their own, with one, of Python objects.
KINDS = ("memory", "stream", "objects")


def child(kind, rows):
    ds = Dataset.from_tensor_slices(np.asarray(rows, np.int64))
    if kind == "stream":
        return ds.skip(0)
    return Dataset.zip(ds, Dataset.from_tensors(Ragged.from_list([[1]])).repeat()) if kind == "objects" else ds


class Rows:
    """From i to 100 i, 100 i + 1 and so on."""

    def __init__(self, kind, lengths, factor=100):
        self.kind, self.lengths, self.factor = kind, lengths, factor

    def __call__(self, index):
        return child(self.kind, self.factor * int(index) + np.arange(self.lengths[int(index)]))


def numbers_of(element):
    return int(element[0]) if isinstance(element, tuple) else int(element)


def turns(children, cycle, block):
    """tf.data's sequential algorithm, by its words."""
    children = iter(children)
    slots, index, count, ended = [None] * cycle, 0, 0, False
    while not ended or any(slot is not None for slot in slots):
        if slots[index] is not None:
            result = next(slots[index], None)
            if result is not None:
                yield result
                count += 1
            else:
                slots[index] = None
            if result is None or count == block:
                index, count = (index + 1) % cycle, 0
        elif not ended:
            slots[index] = next(children, None)
            ended = slots[index] is None
        else:
            index, count = (index + 1) % cycle, 0


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cycle", "block", "lengths", "output"), TABLE)
def test_table(cycle, block, lengths, output, kind):
    lengths = [int(one) for one in lengths.split()]
    expected = [int(one) for one in output.split()]
    assert list(turns([iter(range(100 * i, 100 * i + n)) for i, n in enumerate(lengths)], cycle, block)) == expected
    inputs = Dataset.range(len(lengths))
    function = Rows(kind, lengths)
    assert run(inputs.interleave(function, cycle, block, num_parallel_calls=AUTOTUNE), numbers_of) == expected
    assert run(inputs.interleave(function, cycle, block, num_parallel_calls=1), numbers_of) == expected
    assert run(inputs.parallel_interleave(function, cycle, block, prefetch_input_elements=3), numbers_of) == expected
    assert run(inputs.apply(qc.data.parallel_interleave(function, cycle, block, False, 2, 0)), numbers_of) == expected
    sloppy = run(inputs.parallel_interleave(function, cycle, block, sloppy=True), numbers_of)
    assert sorted(sloppy) == sorted(expected)
    check(lambda: inputs.interleave(function, cycle, block), expected, numbers_of)


def test_rows_and_objects_take_turns():
    # What a function of Python made are objects, arrays are rows, and of an empty dataset of objects nothing is known.
    rows = Dataset.from_tensor_slices(np.arange(5))
    objects = rows.scan(np.int64(0), lambda total, x: (total + x, total + x))
    empty = objects.filter(lambda x: int(x) > 100)
    kept = {0: ([0, 1, 2, 3, 4], rows), 1: ([0, 1, 3, 6, 10], objects), 2: ([], empty)}
    for chosen in ([0, 1, 0], [1, 0, 2, 1], [2, 0, 1]):
        ds = Dataset.from_tensor_slices(chosen).interleave(lambda n: kept[int(n)][1], 2, 2)
        expected = list(turns([iter(kept[n][0]) for n in chosen], 2, 2))
        assert [int(x) for x in ds] == expected
        with iter(ds) as it:
            assert [int(next(it)) for _ in range(6)] == expected[:6]
            state = it.state_dict()
        with iter(ds) as it:
            it.load_state_dict(state)
            assert [int(x) for x in it] == expected[6:]
    pairs = Dataset.from_tensor_slices(np.arange(6.0).reshape(3, 2))
    made = pairs.map(lambda pair: np.array([float(str(pair[0])), 0]))  # its shape isn't known beforehand
    for first, second in ((pairs, made), (made, pairs)):
        ds = Dataset.range(2).flat_map(lambda n, two=(first, second): two[int(n)])
        assert sorted(pair.tolist() for pair in ds) == [[0, 0], [0, 1], [2, 0], [2, 3], [4, 0], [4, 5]]
    longer = pairs.map(lambda pair: np.array([float(str(pair[0])), 0, 0]))
    with pytest.raises(DtypeError, match="alike"):
        list(Dataset.range(2).flat_map(lambda n: longer if n else pairs))
    other = objects.map(lambda x: float(str(x)))
    with pytest.raises(DtypeError, match="int64.*float64"):
        list(Dataset.range(2).flat_map(lambda n: other if n else rows))


@pytest.mark.parametrize(("cycle", "block"), [(3, 1), (2, 3), (5, 4)])
def test_one_dataset_taking_several_turns(cycle, block):
    # Rows in memory that several of those which take turns share, each at a place of its own.
    rows = [np.arange(7), 100 + np.arange(2)]
    kept = [Dataset.from_tensor_slices(one) for one in rows]
    for chosen in ([0] * 6, [0, 1, 0, 0, 1, 0], [1, 0, 1, 1]):
        ds = Dataset.from_tensor_slices(chosen).interleave(lambda n: kept[n], cycle, block)
        expected = list(turns([iter(rows[n]) for n in chosen], cycle, block))
        assert [int(x) for x in ds] == [int(x) for x in expected]
        assert [int(x) for x in ds.skip(5)] == [int(x) for x in expected[5:]]


@pytest.mark.thorough
@given(
    st.lists(st.one_of(st.integers(0, 9), st.integers(100, 300)), max_size=9),
    st.integers(1, 6),
    st.one_of(st.integers(1, 5), st.just(150)),
    st.sampled_from(KINDS),
    st.booleans(),
    st.integers(0, 400),
)
@settings(max_examples=80, deadline=None)
def test_turns(lengths, cycle, block, kind, ahead, skip):
    expected = list(turns([iter(range(1000 * i, 1000 * i + n)) for i, n in enumerate(lengths)], cycle, block))
    ds = Dataset.range(len(lengths)).interleave(
        Rows(kind, lengths, 1000), cycle, block, num_parallel_calls=cycle if ahead else None
    )
    assert run(ds, numbers_of) == expected
    assert run(ds.skip(skip).repeat(2), numbers_of) == expected[skip:] * 2
    # From a saved place, and another number of threads.
    with iter(ds) as it:
        list(itertools.islice(it, skip))
        state = it.state_dict()
    with iter(threads(ds, 2)) as it:
        it.load_state_dict(state)
        assert [numbers_of(one) for one in it] == expected[skip:]


@given(st.lists(st.integers(0, 7), max_size=6), st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_flat_map(lengths, skip):
    ds = Dataset.range(len(lengths)).flat_map(Rows("stream", lengths))
    expected = [100 * i + at for i, n in enumerate(lengths) for at in range(n)]
    assert run(ds, values) == expected
    assert run(ds.skip(skip), values) == expected[skip:]


@pytest.mark.parametrize("parallel", [None, AUTOTUNE])
def test_large_children(tmp_path, parallel):
    """Many chunks of each child, whose ends lie at different places."""
    counts = [50_000, 70_001, 9, 60_000]
    files = []
    for index, count in enumerate(counts):
        (np.arange(count, dtype="<u4") + index * 1_000_000).tofile(tmp_path / f"{index}")
        files.append(str(tmp_path / f"{index}"))
    ds = Dataset.from_tensor_slices(files).interleave(
        functools.partial(FixedLengthRecordDataset, record="<u4"), 3, 2, num_parallel_calls=parallel
    )
    expected = list(turns([iter(range(10**6 * i, 10**6 * i + n)) for i, n in enumerate(counts)], 3, 2))
    got = np.concatenate([batch.copy() for batch in ds.batch(1000)])
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(
        np.concatenate([one.copy() for one in ds.skip(100_003).batch(5000)]), expected[100_003:]
    )
    assert sorted(run(ds.take(10), int)) == sorted(expected[:10])


@pytest.mark.thorough
def test_rows_of_every_kind(tmp_path):
    """Strings and ragged rows out of several children, in turns."""
    words = [[b"%d" % (7**n) * (n % 3) for n in range(start, start + 40)] for start in (0, 40, 80)]
    rows = [[list(range(n % 5)) for n in range(start, start + 40)] for start in (0, 40, 80)]

    def function(index):
        i = int(index)
        made = (Ragged.from_list(words[i]), {"r": Ragged.from_list(rows[i], "i4"), "m": [[w, b"x"] for w in words[i]]})
        return Dataset.from_tensor_slices(made).skip(0)

    flat = [
        [(w, {"r": r, "m": [w, b"x"]}) for w, r in zip(*pair, strict=True)] for pair in zip(words, rows, strict=True)
    ]
    ds = Dataset.range(3).interleave(function, 3, 3)
    expected = list(turns(map(iter, flat), 3, 3))
    check(lambda: ds, expected, values)
    batches = run(ds.batch(50), values)
    assert [word for batch in batches for word in batch[0]] == [element[0] for element in expected]
    assert [row for batch in batches for row in batch[1]["r"]] == [element[1]["r"] for element in expected]


@pytest.mark.thorough
def test_lines_of_files(tmp_path):
    contents = [
        [f"{name}{line}".encode() for line in range(count)] for name, count in zip("abcd", (20, 0, 7, 33), strict=True)
    ]
    for index, lines in enumerate(contents):
        (tmp_path / f"{index}.txt").write_bytes(b"".join(line + b"\n" for line in lines))
    files = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
    expected = list(turns(map(iter, contents), 2, 3))
    for parallel in (None, 2, AUTOTUNE):
        ds = files.interleave(lambda name: small(TextLineDataset(name), 100).skip(0), 2, 3, num_parallel_calls=parallel)
        check(lambda ds=ds: ds, expected)
    native = files.interleave(lambda name: small(TextLineDataset(name), 100), 2, 3, num_parallel_calls=2)
    assert isinstance(native._chain.source, BlockSource)
    check(lambda: native, expected)
    assert run(files.flat_map(TextLineDataset)) == list(itertools.chain(*contents))
    assert isinstance(files.flat_map(TextLineDataset)._chain.source, BlockSource)
    mapped = files.flat_map(
        lambda name: TextLineDataset(name).map(qc.ops.decode_raw(out_type="u1", fixed_length=2)).take(3)
    )
    assert run(mapped.batch(4), values)[0] == [[ord(c) for c in word] for word in ("a0", "a1", "a2", "c0")]
    shuffled = Dataset.list_files(str(tmp_path / "*.txt"), seed=2).flat_map(TextLineDataset)
    orders = {tuple(run(shuffled)) for _ in range(6)}
    assert len(orders) > 1
    assert all(collections.Counter(one) == collections.Counter(itertools.chain(*contents)) for one in orders)


@pytest.mark.thorough
def test_shuffled_children_go_on():
    def make():
        ds = Dataset.range(4).interleave(lambda n: Dataset.range(10 * n, 10 * n + 10).shuffle(5, seed=3), 2, 2)
        return ds.repeat(2)

    expected = run(make(), values)
    assert sorted(expected) == sorted([*range(40), *range(40)])
    assert expected[:40] != expected[40:]
    places(make, 2, expected, values)


@pytest.mark.thorough
def test_batched_and_windowed_children():
    ds = Dataset.range(7).window(3, 2).flat_map(lambda window: window.batch(3))
    check(lambda: ds, [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6]], values)
    words = Dataset.from_tensor_slices({"w": [b"a", b"bb", b"", b"d\0"], "n": np.arange(4, dtype="f4")}).window(3)
    batched = words.flat_map(lambda d: d["w"].batch(2))
    check(lambda: batched, [("ragged", "|S0", [b"a", b"bb"]), ("ragged", "|S0", [b""]), ("ragged", "|S0", [b"d\0"])])
    numbered = words.flat_map(lambda d: d["n"].batch(2, drop_remainder=True))
    check(lambda: numbered, [("float32", (2,), [0, 1])])
    next(iter(numbered))[:] = 5  # an array of one's own
    assert run(numbered, values) == [[0, 1]]
    strided = Dataset.range(9).window(3, 1, 3).flat_map(lambda window: window.batch(3, True))
    check(lambda: strided, [[0, 3, 6], [1, 4, 7], [2, 5, 8]], values)
    plain_rows = Dataset.range(9).window(3, 1, 3, True).flat_map(lambda window: window)
    check(lambda: plain_rows, [0, 3, 6, 1, 4, 7, 2, 5, 8], values)
    pairs = Dataset.zip(Dataset.range(4), Dataset.range(10, 14)).window(2)
    check(lambda: pairs.flat_map(lambda a, b: Dataset.zip(a, b)), [(0, 10), (1, 11), (2, 12), (3, 13)], values)
    nested = Dataset.range(3).flat_map(lambda n: Dataset.range(n + 1).flat_map(lambda m: Dataset.range(m + 1)))
    check(lambda: nested, [0, 0, 0, 1, 0, 0, 1, 0, 1, 2], values)


def test_arguments_of_functions():
    ds = Dataset.zip((Dataset.range(2), {"a": Dataset.range(5, 7)}))
    assert run(ds.flat_map(lambda n, d: Dataset.from_tensors((n, d["a"]))), values) == [(0, 5), (1, 6)]
    one = Dataset.zip({"a": Dataset.range(5, 7)})
    assert run(one.flat_map(lambda d: Dataset.from_tensors(d["a"])), values) == [5, 6]


def test_what_is_known_of_them():
    ds = Dataset.range(3).flat_map(lambda n: Dataset.from_tensor_slices({"a": [1.5]}))
    assert ds.element_spec == {"a": qc.data.ArraySpec((), np.dtype(np.float64))}
    assert ds.cardinality() == -2
    assert Dataset.range(2).repeat().flat_map(Dataset.range).cardinality() == -1
    assert run(Dataset.range(0).flat_map(lambda n: 1 / 0)) == []


@pytest.mark.parametrize("parallel", [None, AUTOTUNE])
def test_errors_in_their_place(tmp_path, parallel):
    (tmp_path / "a").write_bytes(b"1\n2\n3\n")

    def interleave(function, count=3):
        ds = Dataset.range(count).interleave(function, 2, 1, num_parallel_calls=parallel)
        with iter(ds) as it:
            return pulled(it, own=lambda one: one if isinstance(one, bytes) else numbers_of(one))

    def missing(n):
        return TextLineDataset(tmp_path / ("a" if n != 1 else "none"))

    results, error = interleave(missing)
    assert results == [b"1"]
    assert isinstance(error, NotFoundError)

    def raises(n):
        if n == 2:
            raise StopIteration
        return Dataset.range(10 * n, 10 * n + 2)

    results, error = interleave(raises)
    assert results == [0, 10, 1, 11]
    assert isinstance(error, PipelineError)
    assert isinstance(error.__cause__, StopIteration)
    assert "raises" in str(error)
    assert error.record == 2

    results, error = interleave(lambda n: Dataset.range(2) if n < 2 else 5)
    assert results == [0, 0, 1, 1]
    assert isinstance(error, DtypeError)
    assert "must return a dataset, not 5 (element 2)" in str(error)

    results, error = interleave(lambda n: Dataset.range(2) if n < 2 else Dataset.range(2).batch(1))
    assert len(results) == 4
    assert isinstance(error, DtypeError)
    results, error = interleave(lambda n: Dataset.range(2, output_type=[np.int64, np.int64, np.int32][int(n)]))
    assert len(results) == 4
    assert "int64" in str(error)
    assert "int32" in str(error)

    results, error = interleave(lambda n: missing(1))
    assert results == []
    assert isinstance(error, NotFoundError)
    with pytest.raises(KeyboardInterrupt):
        interleave(lambda n: Dataset.range(1) if n < 1 else (_ for _ in ()).throw(KeyboardInterrupt))


def test_an_error_of_the_input(tmp_path):
    (tmp_path / "a").write_bytes(b"1\n2\n")
    names = TextLineDataset([tmp_path / "a", tmp_path / "none"])
    for parallel in (None, AUTOTUNE):
        ds = names.interleave(lambda line: Dataset.range(int(line)), 2, 1, num_parallel_calls=parallel)
        got, error = pulled(iter(ds), own=int)
        assert got == [0, 0, 1]  # the error is met where the third one would begin
        assert isinstance(error, NotFoundError)


def test_functions_that_raise_are_left_out():
    def function(n):
        if n in (0, 2):
            raise ValueError(n)
        return Dataset.range(10 * n, 10 * n + 2)

    ds = Dataset.range(4).with_options(Options(on_error="skip")).flat_map(function)
    with iter(ds.batch(4)) as it:
        assert run(ds.batch(4), values) == [[10, 11, 30, 31]]
        list(it)
        assert it.stats()["skipped"] == 2
    limited = ds.with_options(Options(max_skips=1))
    got, error = pulled(iter(limited), own=int)
    assert got == [10, 11]
    assert isinstance(error, qc.errors.QueueCoreError)


def test_bad_arguments():
    ds, function = Dataset.range(3), Dataset.range
    for arguments in ((0,), (1, 0), (2, 1, 3), (2, 1, 0), (2, 1, -2), (1.5,), (2, 1, None, 3)):
        with pytest.raises(InvalidArgumentError):
            ds.interleave(function, *arguments)
    for arguments in ((0,), (1, 0), (1, 1, "x"), (1, 1, False, -2), (1, 1, False, None, -2)):
        with pytest.raises(InvalidArgumentError):
            ds.parallel_interleave(function, *arguments)
    for method in (ds.flat_map, ds.interleave):
        with pytest.raises(InvalidArgumentError):
            method(3)


def test_children_begin_ahead(tmp_path):
    """All of the cycle, and the next one, read at the same time: each waits for the others to be opened."""
    names = []
    for index in range(3):
        os.mkfifo(tmp_path / f"{index}")
        names.append(str(tmp_path / f"{index}"))
    calls = []

    def function(name):
        calls.append(name)
        return Dataset.range(len(calls)).skip(0)

    ds = Dataset.from_tensor_slices(names).interleave(function, 2, 1, num_parallel_calls=2)
    calls.clear()
    with iter(ds) as it:
        next(it)
        assert soon(lambda: len(calls) == 4)  # one more for the structure


def test_children_begin_in_their_turn():
    calls = []

    def function(number):
        calls.append(number)
        return Dataset.range(10**9).skip(0)  # so long that none of them ends, however far ahead is read

    ds = Dataset.range(3).interleave(function, 2, 1)
    calls.clear()
    with iter(ds) as it:
        next(it)
        assert len(calls) <= 3  # one more for the structure


def test_sloppy_takes_what_is_ready():
    """One child waits until the other has been read to its end."""
    done = threading.Event()

    class Slow:
        def __call__(self, n):
            return Dataset.range(5).flat_map(self.wait) if n == 0 else Dataset.range(10, 400).skip(0)

        def wait(self, n):
            if threading.current_thread().name == "qc-interleave" and n == 1:
                done.wait(20)
            return Dataset.range(n, n + 1)

    for ds in (
        Dataset.range(2).parallel_interleave(Slow(), 2, sloppy=True),
        Dataset.range(2).interleave(Slow(), 2, num_parallel_calls=2, deterministic=False),
        Dataset.range(2).interleave(Slow(), 2, num_parallel_calls=2).with_options(Options(deterministic=False)),
    ):
        done.clear()
        results = []
        with iter(ds) as it:
            for element in it:
                results.append(int(element))
                if len([one for one in results if one >= 10]) == 390:
                    done.set()
        assert sorted(results) == [*range(5), *range(10, 400)]
        assert [one for one in results if one < 10] == list(range(5))
        assert [one for one in results if one >= 10] == list(range(10, 400))


def test_dropped_iterators_stop(tmp_path):
    before = thread_ids()
    ds = Dataset.range(10**9).interleave(lambda n: Dataset.range(10**9).skip(0), 8, 2, num_parallel_calls=AUTOTUNE)
    stops_at_once(ds.batch(10), 3)
    stops_at_once(Dataset.range(10**9).interleave(lambda n: Dataset.range(10**9).batch(2), 3, deterministic=False), 3)
    stops_at_once(Dataset.choose_from_datasets([Dataset.range(10**9)] * 2, Dataset.range(2).repeat()), 3)
    assert soon(lambda: thread_ids() <= before)


# -- uniform -----------------------------------------------------------------------------------------------------------


def test_uniform_functions(tmp_path):
    for name in "abc":
        (tmp_path / name).write_bytes(b"")
    names = [os.fsencode(tmp_path / name) for name in "abc"]
    ds = Dataset.from_tensor_slices(names)
    for function in (
        TFRecordDataset,
        TextLineDataset,
        lambda name: TFRecordDataset(name, "GZIP"),
        lambda name: TextLineDataset(name, skip_header_lines=1),
        lambda name: TextLineDataset([name]),
        functools.partial(qc.data.CsvDataset, record_defaults=[0.0, b"x"]),
        functools.partial(FixedLengthRecordDataset, record="u4"),
    ):
        for inputs in (
            ds,
            ds.shuffle(3, seed=1),
            ds.skip(1).repeat(3).take(2).shard(2, 1, uneven="pad"),
            ds.permute(1).shuffle(2, 3),
            Dataset.list_files(str(tmp_path / "*"), shuffle=False),
        ):
            source = uniform(inputs._chain, function)
            assert source is not None
            assert [source.files[index] for index in range(3)] == names
            assert source.describe() == function(names[0])._chain.source.describe()
    assert uniform(Dataset.from_tensor_slices(names[:1])._chain, TFRecordDataset) is not None


def test_many_names():
    ds = Dataset.from_tensor_slices([b"%d" % n for n in range(1001)])
    assert len(uniform(ds._chain, TFRecordDataset).files) == 1001
    assert uniform(ds._chain, lambda name: TFRecordDataset(name)) is None
    assert (
        uniform(Dataset.from_tensor_slices([b"%d" % n for n in range(1000)])._chain, lambda name: TFRecordDataset(name))
        is not None
    )


def test_functions_that_are_not_uniform(tmp_path):
    names = [os.fsencode(tmp_path / name) for name in "abc"]
    ds = Dataset.from_tensor_slices(names)
    first = names[0]
    for function in (
        lambda name: TFRecordDataset(name).take(3),
        lambda name: TFRecordDataset(name).with_options(Options(num_threads=2)),
        lambda name: TFRecordDataset([name, name]),
        lambda name: TFRecordDataset(first),
        lambda name: TFRecordDataset(name + b"x"),
        lambda name: TFRecordDataset(name, "GZIP" if name == first else ""),
        lambda name: TextLineDataset(name, skip_header_lines=int(name == first)),
        lambda name: FixedLengthRecordDataset(name, 4 + (name == first)),
        lambda name: TextLineDataset(name) if name == first else TFRecordDataset(name),
        lambda name: TextLineDataset(name, num_parallel_reads=1 + (name == first)),
        lambda name: TextLineDataset(name, skip_header_lines=int(name == names[2])),
        lambda name: Dataset.range(3),
        lambda name: 3,
        lambda name: 1 / 0,
    ):
        assert uniform(ds._chain, function) is None
    for other in (
        ds.repeat(),
        ds.repeat(2**40),
        ds.filter(lambda name: name != first),
        ds.shard(2, 0, uneven="raise"),
        ds.batch(2),
        Dataset.zip((ds,)),
        Dataset.from_tensor_slices((names,)),
        Dataset.from_tensor_slices([[one] for one in names]),
        Dataset.range(3),
        TextLineDataset(first),
        Dataset.from_tensor_slices(np.array([], "S1")),
    ):
        assert uniform(other._chain, TFRecordDataset) is None


# -- choose and sample -------------------------------------------------------------------------------------------------


def chosen(parts, choices, stop):
    """By the words of the documentation."""
    parts, ended = [iter(part) for part in parts], set()
    for choice in choices:
        if choice in ended:
            continue
        got = next(parts[choice], None)
        if got is not None:
            yield got
            continue
        if stop:
            return
        ended.add(choice)
        if len(ended) == len(parts):
            return


@pytest.mark.thorough
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=80),
    st.booleans(),
    st.sampled_from(KINDS),
    st.integers(0, 30),
)
@settings(max_examples=60, deadline=None)
def test_choices(lengths, choices, stop, kind, skip):
    choices = [choice % len(lengths) for choice in choices]
    parts = [range(100 * i, 100 * i + n) for i, n in enumerate(lengths)]
    ds = Dataset.choose_from_datasets(
        [child(kind, part) for part in parts], Dataset.from_tensor_slices(np.array(choices, "i2")), stop
    )
    expected = list(chosen(parts, choices, stop))
    assert run(ds, numbers_of) == expected
    assert run(ds.skip(skip).repeat(2), numbers_of) == expected[skip:] * 2
    with iter(ds) as it:
        list(itertools.islice(it, skip))
        state = it.state_dict()
    with iter(ds) as it:
        it.load_state_dict(state)
        assert [numbers_of(element) for element in it] == expected[skip:]


@pytest.mark.thorough
def test_choices_of_rows_that_differ(tmp_path):
    numbers = bytes_of_files(tmp_path, [bytes(range(200))])
    words = Dataset.from_tensor_slices([b"%d" % n for n in range(90)])
    a = Dataset.zip((numbers.take(90), words))
    b = Dataset.zip((numbers.skip(90), words.skip(40)))
    choices = [0, 1, 1, 0, 0, 1] * 30
    expected = list(
        chosen([[(n, b"%d" % n) for n in range(90)], [(n + 90, b"%d" % (n + 40)) for n in range(50)]], choices, True)
    )
    ds = Dataset.choose_from_datasets([a, b], Dataset.from_tensor_slices(choices))
    check(lambda: ds, expected, values)


@pytest.mark.thorough
def test_choices_that_repeat():
    parts = [range(50), range(100, 150), range(200, 250)]
    inputs = [Dataset.range(one.start, one.stop) for one in parts]
    for choice, numbers in (
        (Dataset.range(3).repeat(), itertools.cycle(range(3))),
        (Dataset.from_tensor_slices(np.array([2, 0, 0], "u1")).repeat(5), [2, 0, 0] * 5),
        (Dataset.from_tensor_slices(np.array([2, 0, 0])).repeat(0), []),
        (Dataset.range(0).repeat(), []),
    ):
        ds = Dataset.choose_from_datasets(inputs, choice, False)
        check(lambda ds=ds: ds, list(chosen(parts, numbers, False)), values)


def test_bad_choices():
    a = Dataset.range(3)
    for bad, error in (
        (([], a), InvalidArgumentError),
        ((a, a), DtypeError),
        (([a, 3], a), DtypeError),
        (([a], 3), DtypeError),
        (([a], Dataset.from_tensors(1.5)), DtypeError),
        (([a], a.batch(2)), DtypeError),
        (([a, Dataset.from_tensors(1.5)], a), DtypeError),
        (([a], a, 1), InvalidArgumentError),
    ):
        with pytest.raises(error):
            Dataset.choose_from_datasets(*bad)
    got, error = pulled(iter(Dataset.choose_from_datasets([a, a], Dataset.from_tensor_slices([0, 1, 2]))), own=int)
    assert got == [0, 0]
    assert isinstance(error, InvalidArgumentError)
    assert "choice 2 is 2" in str(error)


def recipe(pair, weights, count, iteration=0):
    """The documented recipe, one number after the other."""
    random = np.random.Philox(key=list(pair), counter=[0, iteration, 0, 0])
    total = sum(weights)
    made = []
    for _ in range(count):
        point = (int(random.random_raw()) >> 11) / 2**53 * total
        made.append(next(k for k, bound in enumerate(itertools.accumulate(weights)) if point < bound))
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("weights", [None, [0.25, 0.5, 0.25], [1, 0, 3]])
def test_samples(weights, stop):
    parts = [range(100 * i, 100 * i + n) for i, n in enumerate((20, 40, 30))]
    own = [(part, weight) for part, weight in zip(parts, weights or [1] * 3, strict=True) if weight]
    qc.set_random_seed(5)
    ds = Dataset.sample_from_datasets([child("memory", one) for one in parts], weights, 7, stop)
    qc.set_random_seed(None)
    choices = recipe((5, 7), [weight for _, weight in own], 2000)
    expected = list(chosen([part for part, _ in own], choices, stop))
    check(lambda: ds, expected, values)
    assert ds.cardinality() == (-2 if stop else len(expected))


@pytest.mark.thorough
def test_samples_anew():
    def make(rerandomize):
        qc.set_random_seed(5)
        ds = Dataset.sample_from_datasets([Dataset.range(50), Dataset.range(100, 150)], None, 7, True, rerandomize)
        qc.set_random_seed(None)
        return ds

    parts = [range(50), range(100, 150)]
    passes = [list(chosen(parts, recipe((5, 7), [1, 1], 200, number), True)) for number in range(3)]
    assert run(make(True).repeat(3), values) == passes[0] + passes[1] + passes[2]
    ds = make(True)
    assert [run(ds, values) for _ in range(3)] == passes
    ds = make(None)
    assert [run(ds, values) for _ in range(2)] == [passes[0]] * 2
    places(lambda: make(True).repeat(2), 2, passes[0] + passes[1], values)


def in_batches(passes, size):
    return [part[at : at + size] for part in passes for at in range(0, len(part), size)]


LENGTHS = [95, 100, 94, 91, 99]
# Steps, and what they make of passes that differ in length so.
OVER_PASSES = {
    "repeat": (lambda ds: ds.repeat(5), lambda passes: sum(passes, [])),
    "batch": (lambda ds: ds.batch(7).repeat(5), lambda passes: in_batches(passes, 7)),
    "batch over": (lambda ds: ds.repeat(5).batch(7), lambda passes: in_batches([sum(passes, [])], 7)),
    "take": (lambda ds: ds.take(95).repeat(5), lambda passes: sum((one[:95] for one in passes), [])),
    "skip": (lambda ds: ds.repeat(5).skip(150), lambda passes: sum(passes, [])[150:]),
    "shard": (lambda ds: ds.repeat(5).shard(3, 1), lambda passes: sum(passes, [])[1::3]),
    "twice": (
        lambda ds: ds.repeat(2).batch(11).repeat(2),
        lambda passes: in_batches([passes[0] + passes[1], passes[2] + passes[3]], 11),
    ),
    "shuffle": (lambda ds: ds.repeat(5).shuffle(10, 3), None),
    "shuffle below": (lambda ds: ds.shuffle(10, 3).repeat(5), None),
}


@pytest.mark.sampled(21)
@pytest.mark.parametrize("steps", OVER_PASSES)
@pytest.mark.parametrize("read_ahead", [False, True])
def test_places_where_passes_differ_in_length(steps, read_ahead):
    apply, model = OVER_PASSES[steps]

    def make():
        qc.set_random_seed(5)
        ds = Dataset.sample_from_datasets([Dataset.range(50), Dataset.range(100, 150)], None, 7, True, True)
        ds = apply(ds)
        qc.set_random_seed(None)
        return ds

    parts = [range(50), range(100, 150)]
    passes = [list(chosen(parts, recipe((5, 7), [1, 1], 200, number), True)) for number in range(5)]
    assert [len(elements) for elements in passes] == LENGTHS
    expected = run(make(), values)
    if model is None:
        assert sorted(expected) == sorted(sum(passes, []))
    else:
        assert expected == model(passes)
    states = []
    with iter(threads(make().prefetch(1000) if read_ahead else make(), 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for element in it:
            del element
            states.append(json.dumps(it.state_dict()))
    fresh = make()
    for at in {*range(0, len(states), 1 + len(states) // 50), len(states) - 1}:
        with iter(fresh) as it:
            it.load_state_dict(json.loads(states[at]))
            assert [values(element) for element in itertools.islice(it, 20)] == expected[at : at + 20], at


def test_a_place_grows_only_with_passes_that_differ():
    ds = Dataset.range(10).map(lambda x: Ragged.from_list([[int(x)]])).repeat(50)
    with iter(ds) as it:
        list(itertools.islice(it, 5))
        first = len(json.dumps(it.state_dict()))
        list(it)
        assert len(json.dumps(it.state_dict())) < first + 20
        assert "lengths" not in it.state_dict()["position"]


def test_samples_without_a_seed_go_on():
    ds = Dataset.sample_from_datasets([Dataset.range(100), Dataset.range(100, 200)])
    with iter(ds) as it:
        list(itertools.islice(it, 50))
        state = it.state_dict()
        rest = [int(one) for one in it]
    other = Dataset.sample_from_datasets([Dataset.range(100), Dataset.range(100, 200)])
    with iter(other) as it:
        it.load_state_dict(state)
        assert [int(one) for one in it] == rest


@pytest.mark.thorough
def test_weights_that_change():
    weights = np.array([[1, 0], [0, 1], [2, 2], [0, 5]] * 20, "f4")
    ds = Dataset.sample_from_datasets(
        [Dataset.range(100), Dataset.range(100, 200)], Dataset.from_tensor_slices(weights), 3, True
    )
    random = np.random.Philox(key=[87654321, 3], counter=[0, 0, 0, 0])
    points = [(int(one) >> 11) / 2**53 for one in random.random_raw(80)]
    choices = [
        0 if point * (row[0] + row[1]) < row[0] else 1 for point, row in zip(points, weights.tolist(), strict=True)
    ]
    check(lambda: ds, list(chosen([range(100), range(100, 200)], choices, True)), values)
    bad = Dataset.from_tensor_slices(np.array([[1.0, 1], [0, 0]]))
    got, error = pulled(iter(Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(9)], bad, 1)), own=int)
    assert len(got) == 1
    assert isinstance(error, InvalidArgumentError)


def test_bad_weights():
    a = Dataset.range(3)
    for bad in ([1.0], [1, -1], [0, 0], [1, float("nan")], ["x", 1], 3, Dataset.range(3)):
        with pytest.raises(InvalidArgumentError):
            Dataset.sample_from_datasets([a, a], bad)


def test_datasets_of_datasets_that_are_made_of_datasets():
    """Each wants to know the first of those before it, in a thread of its own, at the same time."""
    ds = Dataset.range(12).interleave(lambda x: Dataset.range(4), cycle_length=3)
    ds = ds.window(3, 1, 2).flat_map(lambda window: window.batch(3)).unbatch()
    assert len(list(ds)) == 3 * 44 + 2 + 2 + 1 + 1
