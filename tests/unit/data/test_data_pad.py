"""Shards of which some get elements twice, of what has no known places in files: as many on all, by construction."""

import itertools
import json
import math

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.data.transformed import check, pulled, run, stops_at_once, values
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.data import Dataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import ChecksumError, FailedPreconditionError, PipelineError, ResumeMismatchError
from queuecore.ragged import Ragged


def padded(elements, size, index):
    """The elements of one shard, as the documentation says."""
    most = math.ceil(len(elements) / size)
    return list(itertools.islice(itertools.cycle(elements), index, most * size, size)) if elements else []


def lines(folder, count):
    path = folder / f"{count}.txt"
    if not path.exists():  # a place belongs to files that nobody has written to since
        path.write_text("".join(f"{n}\n" for n in range(count)))
    return TextLineDataset(path)


def tripled(x):
    return 3 * int(x)


def odd(x):
    return int(x) % 2 == 1


# From a folder and a number to a dataset and its elements.
KINDS = {
    "lines": lambda folder, n: (lines(folder, n), [b"%d" % i for i in range(n)]),
    "range": lambda folder, n: (Dataset.range(n), list(range(n))),
    "strings": lambda folder, n: (
        Dataset.from_tensor_slices({"s": [b"x" * i for i in range(n)]}) if n else Dataset.range(0),
        [{"s": b"x" * i} for i in range(n)],
    ),
    "mapped": lambda folder, n: (lines(folder, n).map(qc.ops.decode_csv(record_defaults=[np.int64])), range(n)),
    "mapped in Python": lambda folder, n: (Dataset.range(n).map(tripled), [3 * i for i in range(n)]),
    "filtered": lambda folder, n: (lines(folder, 2 * n).filter(odd), [b"%d" % i for i in range(1, 2 * n, 2)]),
    "generated": lambda folder, n: (Dataset.from_generator(lambda: iter(range(n)), np.int64), range(n)),
    "objects": lambda folder, n: (
        Dataset.from_tensors(Ragged.from_list([[1], [2, 3]])).repeat(n),
        [[[1], [2, 3]]] * n,
    ),
    "batches": lambda folder, n: (Dataset.range(3 * n).batch(3), np.arange(3 * n).reshape(-1, 3).tolist()),
    "ragged batches": lambda folder, n: (
        lines(folder, 2 * n).map(qc.ops.decode_raw(out_type="u1")).padded_batch(2, [4]),
        [[list(b"%-4d" % i) for i in (j, j + 1)] for j in range(0, 2 * n, 2)],
    ),
}


def plain(element):
    made = values(element)
    if isinstance(made, tuple) and len(made) == 1:
        return made[0]
    if isinstance(element, np.ndarray) and element.dtype == np.uint8:
        return [[byte or 32 for byte in row] for row in made]
    return made


@pytest.mark.sampled(18)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 4), (3, 7), (7, 3), (9, 3), (20, 6)])
def test_every_kind(tmp_path, kind, count, size):
    ds, elements = KINDS[kind](tmp_path, count)
    elements = list(elements)
    for index in range(size):
        assert run(ds.shard(size, index, uneven="pad"), plain) == padded(elements, size, index)
    check(
        lambda: KINDS[kind](tmp_path, count)[0].shard(size, size - 1, uneven="pad"),
        padded(elements, size, size - 1),
        plain,
    )


@pytest.mark.thorough
@given(
    count=st.integers(0, 40),
    size=st.integers(1, 50),
    take=st.integers(-1, 30),
    buffer=st.integers(1, 50),
    known=st.booleans(),
    place=st.floats(0, 1),
    number=st.sampled_from(THREADS),
    data=st.data(),
)
@settings(max_examples=100, deadline=None)
def test_shuffled_before_and_repeated(tmp_path_factory, count, size, take, buffer, known, place, number, data):
    index = data.draw(st.integers(0, size - 1))
    folder = tmp_path_factory.mktemp("pad")

    def source():
        ds = Dataset.range(count) if known else lines(folder, count)
        return ds.shuffle(buffer, seed=2).take(take)

    def make():
        return source().shard(size, index, uneven="pad").repeat(2).batch(3)

    passes = run(source().batch(100).repeat(2), values) if count and take else []
    elements = [one for below in passes for one in padded(below, size, index)]
    expected = [elements[position : position + 3] for position in range(0, len(elements), 3)]
    assert run(threads(make(), number), values) == expected
    position = int(place * len(expected))
    with iter(make()) as it:
        pulled(it, position, values)
        state = json.loads(json.dumps(it.state_dict()))
    with iter(threads(make(), number)) as it:
        it.load_state_dict(state)
        assert pulled(it, None, values) == (expected[position:], None)


@pytest.mark.thorough
def test_all_shards_have_as_many():
    for count in range(30):
        for size in range(1, 12):
            made = [run(Dataset.range(count).shard(size, index, uneven="pad"), values) for index in range(size)]
            assert {len(one) for one in made} == {math.ceil(count / size)}
            assert {x for one in made for x in one} == set(range(count))
    assert Dataset.range(10).shard(4, 0, uneven="pad").cardinality() == 3
    assert Dataset.range(10).repeat().shard(4, 0, uneven="pad").cardinality() == -1
    assert run(Dataset.range(10).repeat().shard(4, 3, uneven="pad").take(4), values) == [3, 7, 1, 5]
    for index in range(3):
        permuted = Dataset.range(10).shard(3, index, uneven="pad").permute(1, False)
        assert run(permuted, values) == run(
            Dataset.from_tensor_slices(padded(range(10), 3, index)).permute(1, False), values
        )


def test_only_its_own_are_decoded(tmp_path):
    (tmp_path / "a").write_text("1\nx\n3\ny\n5\n")
    ds = TextLineDataset(tmp_path / "a").map(qc.ops.decode_csv(record_defaults=[np.int64]))
    assert run(ds.shard(2, 0, uneven="pad"), plain) == [1, 3, 5]
    assert "pad" in ds.shard(2, 0, uneven="pad").plan()


def records(folder, count, bad):
    """A TFRecord file in which some are damaged."""
    path = folder / "records"
    starts = [0]
    with qc.TFRecordWriter(path) as writer:
        for n in range(count):
            writer.write(b"%04d" % n)
            starts.append(starts[-1] + 20)
    damaged = bytearray(path.read_bytes())
    for n in bad:
        damaged[starts[n] + 12] ^= 1
    path.write_bytes(damaged)
    return path


@pytest.mark.sampled(5)
@pytest.mark.parametrize("bad", [[], [0], [2, 3, 7], [9], list(range(10))])
@pytest.mark.parametrize("number", THREADS)
def test_what_is_left_out_is_so_on_all(tmp_path, bad, number):
    path = records(tmp_path, 10, bad)
    good = [b"%04d" % n for n in range(10) if n not in bad]
    for size in (1, 3, 4, 12):
        for index in range(size):
            log = tmp_path / f"log-{size}-{index}"
            skip = Options(on_error="skip", quarantine=log, max_skips=2 * len(bad))

            def make(size=size, index=index, skip=skip):
                return threads(
                    TFRecordDataset(path).shard(size, index, uneven="pad").repeat(2).with_options(skip), number
                )

            expected = padded(good, size, index) * 2
            with iter(make()) as it:
                assert pulled(it, None, values) == (expected, None)
            # A pass of nothing is the last one.
            assert len(log.read_text().splitlines() if bad else []) == len(bad) * (2 if good else 1)
            if index:
                continue
            for position in range(len(expected) + 1):
                with iter(make()) as it:
                    pulled(it, position, values)
                    state = it.state_dict()
                with iter(make()) as it:
                    it.load_state_dict(state)
                    assert pulled(it, None, values) == (expected[position:], None)


def test_batches_of_which_some_are_left_out(tmp_path):
    path = records(tmp_path, 10, [1, 8])
    ds = TFRecordDataset(path).batch(2).shard(3, 2, uneven="pad").with_options(Options(on_error="skip"))
    assert run(ds, values) == [[b"0005", b"0006"], [b"0003", b"0004"]]


def test_an_error_comes_in_its_place(tmp_path):
    path = records(tmp_path, 10, [7])
    with iter(TFRecordDataset(path).shard(3, 0, uneven="pad")) as it:
        got, error = pulled(it, None, values)
    assert got == [b"0000", b"0003", b"0006"]
    assert isinstance(error, ChecksumError)
    with iter(Dataset.range(10).map(lambda x: 1 // (4 - int(x))).shard(2, 1, uneven="pad")) as it:
        got, error = pulled(it, None, values)
    assert got == [0, 1]
    assert isinstance(error, PipelineError)


def test_elements_that_are_gone_the_second_time():
    given = [[1, 2, 3]]
    ds = Dataset.from_generator(lambda: iter(given.pop() if given else []), np.int64)
    with iter(ds.shard(2, 1, uneven="pad")) as it:
        got, error = pulled(it, None, values)
    assert got == [2]
    assert isinstance(error, FailedPreconditionError)


@pytest.mark.thorough
def test_another_number_of_shards(tmp_path):
    def make(size, index, size_known):
        ds = Dataset.range(20) if size_known else lines(tmp_path, 20).map(qc.ops.decode_csv(record_defaults=[np.int64]))
        return ds.shuffle(7, seed=1).shard(size, index, uneven="pad").batch(2)

    for size_known in (False, True):
        elements = [plain(x) for x in np.concatenate([np.ravel(x) for x in run(make(1, 0, size_known), plain)])]
        for old, new in itertools.product([1, 2, 3, 6], [1, 2, 3, 6]):
            with iter(make(old, old - 1, size_known)) as it:
                pulled(it, 6 // old)
                state = it.state_dict()
            for index in range(new):
                with iter(make(new, index, size_known)) as it:
                    it.load_state_dict(state)
                    rest = [x for one in it for x in np.ravel(plain(one)).tolist()]
                    assert rest == padded(elements, new, index)[12 // new :]
        with iter(make(5, 0, size_known)) as it:
            next(it)
            state = it.state_dict()
        with iter(make(4, 0, size_known)) as it, pytest.raises(ResumeMismatchError):
            it.load_state_dict(state)


def test_it_stops_at_once(tmp_path):
    stops_at_once(Dataset.range(10**9).filter(lambda x: x >= 0).shard(7, 3, uneven="pad"), 3)
    stops_at_once(lines(tmp_path, 1000).repeat().shard(7, 3, uneven="pad").map(tripled), 3)


def test_records_of_a_filter(tmp_path):
    paths = write_files(tmp_path, [bytes(range(20)), bytes(range(20, 25))])
    ds = dataset(paths, np.dtype("u1")).filter(lambda x: x % 3 == 0)
    check(lambda: ds.shard(4, 3, uneven="pad"), padded(range(0, 25, 3), 4, 3), values)
