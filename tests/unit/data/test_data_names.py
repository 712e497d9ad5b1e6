"""Names of files, chosen and in any order, and their records interleaved: natively, in the order of tf.data's words."""

import gzip
import itertools
import json

import numpy as np
import pytest
from helpers.data.blocks import small
from helpers.data.chains import THREADS, threads, write_files
from helpers.data.transformed import check, pulled, run, stops_at_once, values
from helpers.formats import tfrecords
from helpers.models.interleaved import of_lists
from hypothesis import HealthCheck, given, settings, strategies as st

from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.data._nodes.interleave import Interleave
from queuecore.data._nodes.interleave_files import Named
from queuecore.data._plan.blocks import BlockSource
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.errors import (
    ChecksumError,
    InvalidArgumentError,
    NotFoundError,
    ResumeMismatchError,
    TruncatedRecordError,
)

COUNTS = [12, 0, 40, 1, 7, 0, 25, 3]
KINDS = ("lines", "tfrecord", "fixed")


def files(folder, kind, counts):
    """Write files; return the records of each name."""
    parts = [[b"%04d" % (100 * index + number) for number in range(n)] for index, n in enumerate(counts)]
    texts = {
        "lines": lambda part: b"".join(one + b"\n" for one in part),
        "tfrecord": tfrecords.stream,
        "fixed": b"".join,
    }[kind]
    paths = write_files(folder, [texts(part) for part in parts])
    return {str(path).encode(): part for path, part in zip(paths, parts, strict=True)}


def opened(kind):
    return {
        "lines": TextLineDataset,
        "tfrecord": TFRecordDataset,
        "fixed": lambda name: FixedLengthRecordDataset(name, 4),
    }[kind]


def text(element):
    return bytes(element)


STEPS = {
    "as they are": lambda names: names,
    "some": lambda names: names.skip(1).take(6),
    "a part": lambda names: names.shard(3, 1),
    "several times": lambda names: names.repeat(2).skip(3),
    "padded": lambda names: names.shard(5, 4, uneven="pad"),
    "shuffled": lambda names: names.shuffle(100, seed=3),
    "shuffled once": lambda names: names.shuffle(3, seed=3, reshuffle_each_iteration=False),
    "shuffled, a part": lambda names: names.shuffle(100, seed=3).shard(2, 0).repeat(2),
    "permuted": lambda names: names.permute(seed=5).take(6),
}


def passes(named):
    """The names of three passes."""
    return run(named().batch(100).repeat(3), lambda batch: [bytes(one) for one in batch])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_orders_of_names(tmp_path, kind, steps):
    parts = files(tmp_path, kind, COUNTS)

    def named():
        return STEPS[steps](Dataset.from_tensor_slices(list(parts)))

    for cycle, block in ((1, 1), (3, 2), (20, 1)):
        expected = [of_lists([parts[name] for name in one], cycle, block) for one in passes(named)]
        assert run(named().interleave(opened(kind), cycle, block).repeat(3), text) == list(itertools.chain(*expected))
        for number in THREADS:
            ds = threads(named().interleave(opened(kind), cycle, block), number)
            assert not isinstance(ds._chain.source, Interleave)
            assert [run(ds, text) for _ in range(3)] == expected


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    cycle=st.integers(1, 5),
    block=st.integers(1, 4),
    buffer=st.integers(1, 9),
    place=st.floats(0, 1),
    number=st.sampled_from(THREADS),
)
def test_any_place(tmp_path_factory, kind, counts, cycle, block, buffer, place, number):
    parts = files(tmp_path_factory.mktemp("names"), kind, counts)

    def named():
        return Dataset.from_tensor_slices(list(parts)).shuffle(buffer, seed=1)

    def make():
        return named().interleave(opened(kind), cycle, block).repeat(3).shuffle(4, seed=2).take(60)

    elements = run(threads(make(), number), text)
    records = itertools.chain(*(of_lists([parts[name] for name in one], cycle, block) for one in passes(named)))
    got = run(named().interleave(opened(kind), cycle, block).repeat(3), text)
    assert got == list(records)
    position = int(place * len(elements))
    with iter(make()) as it:
        pulled(it, position, text)
        state = json.loads(json.dumps(it.state_dict()))
    with iter(threads(make(), number)) as it:
        it.load_state_dict(state)
        assert pulled(it, None, text) == (elements[position:], None)


@pytest.mark.thorough
def test_all_places(tmp_path):
    parts = files(tmp_path, "lines", COUNTS)
    names = Dataset.from_tensor_slices(list(parts)).shuffle(8, seed=1, reshuffle_each_iteration=False)
    expected = of_lists([parts[name] for name in passes(lambda: names)[0]], 3, 2)
    check(lambda: names.interleave(TextLineDataset, 3, 2), expected, text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize(
    ("header", "footer", "hop"), [(0, 0, 0), (3, 0, 0), (0, 5, 0), (2, 3, 6), (1, 0, 9), (0, 0, 2)]
)
@pytest.mark.parametrize("piece", [0, 1, 7, 16])
def test_records_of_one_length(tmp_path, header, footer, hop, piece, number):
    # With lengths that fit, and bytes that are left over.
    sizes = [0, header + footer, header + footer + 4, header + footer + 40, header + footer + 4 + 3 * (hop or 4)]
    state = np.random.default_rng(1)
    paths = write_files(tmp_path, [state.bytes(size) for size in sizes])
    for tail in ("drop", "error"):

        def function(name, tail=tail):
            return FixedLengthRecordDataset(name, 4, header, footer, hop_bytes=hop, tail=tail)

        each = [pulled(iter(function(path)), None, text) for path in paths]
        ds = threads(Dataset.from_tensor_slices([str(path) for path in paths]).interleave(function, 2, 3), number)
        assert isinstance(ds._chain.source, BlockSource)
        if piece:
            ds = small(ds, piece)
        got, error = pulled(iter(ds), None, text)
        if all(one is None for _, one in each):
            assert error is None
            assert got == of_lists([one for one, _ in each], 2, 3)
        else:
            assert isinstance(error, TruncatedRecordError)
            assert str(error) in {str(one) for _, one in each if one is not None}


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("tail", ["drop", "error"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_less_than_header_and_footer(tmp_path, compression, tail, size):
    (tmp_path / "a").write_bytes(gzip.compress(bytes(size)) if compression else bytes(size))

    def function(name):
        return FixedLengthRecordDataset(name, 1, 3, 2, tail=tail, compression_type=compression)

    ds = Dataset.from_tensor_slices([str(tmp_path / "a")] * 2)
    for times, dataset in ((1, function(tmp_path / "a")), (2, ds.interleave(function, 2, 1))):
        if size < 5 and tail == "error" and not compression:  # the size alone tells
            with pytest.raises(TruncatedRecordError) as caught:
                iter(dataset)
            results, error = [], caught.value
        else:
            results, error = pulled(iter(dataset), None, values)
        if size < 5:
            assert results == []
            assert isinstance(error, TruncatedRecordError)
            assert error.record == 0
        else:
            assert error is None
            assert len(results) == (size - 5) * times


def test_structured_records(tmp_path):
    record = np.dtype([("label", "u1"), ("point", ">f4", (2,))])
    rows = np.zeros(30, record)
    rows["label"] = np.arange(30)
    rows["point"] = np.arange(60).reshape(30, 2)
    paths = [tmp_path / f"{index}" for index in range(3)]
    for path, part in zip(paths, np.array_split(rows, 3), strict=True):
        part.tofile(path)
    names = Dataset.list_files(str(tmp_path / "*"), seed=1)
    ds = names.interleave(lambda name: FixedLengthRecordDataset(name, record=record), 2, 4)
    assert isinstance(ds._chain.source, Named)
    got = run(ds.map(lambda e: {"label": e["label"], "sum": e["point"][0] + e["point"][1]}).batch(30), values)[0]
    assert sorted(got["label"]) == list(range(30))
    assert got["sum"] == [4.0 * label + 1 for label in got["label"]]
    assert ds.element_spec == FixedLengthRecordDataset(paths[0], record=record).element_spec


def test_who_does_it(tmp_path):
    parts = files(tmp_path, "fixed", COUNTS)
    names = Dataset.from_tensor_slices(list(parts))
    assert isinstance(names.shard(2, 1).flat_map(opened("fixed"))._chain.source, FixedLengthSource)
    assert len(names.shard(2, 1).flat_map(opened("fixed")).shuffle(5, 1)._chain.source.files) == 4
    assert isinstance(names.interleave(opened("fixed"), 2)._chain.source, BlockSource)
    assert isinstance(names.shuffle(3).interleave(opened("fixed"), 2)._chain.source, Named)
    assert isinstance(names.shuffle(3).interleave(opened("fixed"), 2, deterministic=False)._chain.source, Interleave)
    assert isinstance(names.repeat().interleave(opened("fixed"), 2)._chain.source, Interleave)
    assert isinstance(names.take(0).interleave(opened("fixed"), 2)._chain.source, Interleave)
    assert run(names.take(0).shuffle(3).interleave(opened("fixed"), 2), text) == []
    assert "one stream a pass" in names.shuffle(3).interleave(opened("fixed"), 2).plan()
    with iter(names.shuffle(3, 1).interleave(opened("fixed"), 2)) as it:
        state = it.state_dict()
    with iter(names.shuffle(3, 1).interleave(opened("fixed"), 3)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)
    with pytest.raises(InvalidArgumentError):
        list(names.shard(3, 0, uneven="raise").interleave(opened("fixed"), 2))


@pytest.mark.parametrize("number", THREADS)
def test_errors_and_what_is_left_out(tmp_path, number):
    parts = files(tmp_path, "tfrecord", [5, 5, 5])
    names = [*list(parts), str(tmp_path / "none").encode()]
    damaged = bytearray((tmp_path / names[1].decode()).read_bytes())
    damaged[20 * 2 + 12] ^= 1
    (tmp_path / names[1].decode()).write_bytes(damaged)

    def make():
        return threads(Dataset.from_tensor_slices(names).shuffle(9, seed=4).interleave(TFRecordDataset, 2, 1), number)

    order = run(Dataset.from_tensor_slices(names).shuffle(9, seed=4), bytes)
    good = {name: [one for one in part if one != b"0102"] for name, part in parts.items()}
    expected = of_lists([good.get(name, []) for name in order], 2, 1)
    got, error = pulled(iter(make()), None, text)
    assert got == expected[: len(got)]
    assert isinstance(error, ChecksumError | NotFoundError)
    with iter(make().with_options(Options(on_error="skip"))) as it:
        assert sorted(pulled(it, None, text)[0]) == sorted(itertools.chain(*good.values()))
        assert (it.stats()["skipped"], it.stats()["skipped_files"]) == (1, 1)
    skip = make().with_options(Options(on_error="skip"))
    expected = run(make().with_options(Options(on_error="skip")), text)
    for index in range(len(expected) + 1):
        with iter(make().with_options(Options(on_error="skip"))) as it:
            pulled(it, index, text)
            state = it.state_dict()
        with iter(skip) as it:
            it.load_state_dict(state)
            assert pulled(it, None, text) == (expected[index:], None)


def test_it_stops_at_once(tmp_path):
    parts = files(tmp_path, "lines", [1000] * 4)
    stops_at_once(Dataset.from_tensor_slices(list(parts)).shuffle(4).interleave(TextLineDataset, 3).repeat(), 5)
