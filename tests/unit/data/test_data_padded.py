"""padded_batch and dense_to_ragged_batch against models in NumPy, natively and over objects; buckets by length."""

import collections
import gc
import json
import os
import pickle
import threading

import numpy as np
import pytest
from helpers.data.chains import THREADS, threads, write_files
from helpers.data.padding import cases, given, grouped, padded
from helpers.formats.example_messages import example, feature
from helpers.formats.tfrecords import stream
from hypothesis import given as drawn, settings, strategies as st

import queuecore as qc
from queuecore._elements.component import BYTES, Component
from queuecore.data import ArraySpec, Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import (
    DataLossError,
    DtypeError,
    InvalidArgumentError,
    ResumeMismatchError,
    UnknownError,
)
from queuecore.ragged import Ragged

Pair = collections.namedtuple("Pair", "x y")
VARYING = Component(np.dtype("<i4"), (None,), ragged=True)


def rows(count, most=7, seed=0):
    state = np.random.default_rng(seed)
    return [state.integers(-9, 9, state.integers(0, most + 1), np.int32) for _ in range(count)]


def equal(got, expected):
    got = [one.copy() for one in got]  # more than a few views are not to be held
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
@settings(max_examples=250, deadline=None)
@drawn(case=cases(), data=st.data())
def test_any_shapes(case, data):
    elements, component, sides, fill = case
    size, drop = data.draw(st.integers(1, 6)), data.draw(st.booleans())
    chunk, workers = data.draw(st.integers(1, 5)), data.draw(st.sampled_from(THREADS))
    ds = threads(given(elements, component, chunk).padded_batch(size, sides, fill, drop), workers)
    known = [length if side is None else side for side, length in zip(sides, component.shape, strict=True)]
    assert ds.element_spec == ArraySpec((size if drop else None, *known), component.dtype)
    expected = [padded(batch, known, fill) for batch in grouped(elements, size, drop)]
    equal(ds, expected)
    assert len(ds) == len(expected)
    # As objects, of which nobody knows anything.
    equal(
        given(elements, None, chunk).padded_batch(size, sides, fill, drop),
        [padded(batch, sides, fill) for batch in grouped(elements, size, drop)],
    )


@pytest.mark.parametrize("workers", THREADS)
def test_large_batches_of_many_units(tmp_path, workers):
    # A batch takes several units of several threads.
    lines = [bytes([65 + n % 26]) * (n * 7919 % 300) for n in range(20_000)]
    paths = write_files(tmp_path, [b"".join(line + b"\n" for line in lines)])
    ds = threads(TextLineDataset(paths).map(qc.ops.decode_raw(out_type="u1")).padded_batch(7000), workers)
    for batch, expected in zip(ds, grouped(lines, 7000), strict=True):
        longest = max(map(len, expected))
        assert batch.shape == (len(expected), longest)
        assert batch.tobytes() == b"".join(line.ljust(longest, b"\0") for line in expected)


def test_structures_of_parsed_examples(tmp_path):
    state = np.random.default_rng(0)
    values = [
        {
            "fixed": state.random(2, np.float32),
            "ragged": state.integers(0, 99, n % 4),
            "matrix": state.integers(0, 99, (n * 7 % 5, 3)),
            "name": b"n%d" % n,
            "words": [b"w" * k for k in range(n % 3)],
        }
        for n in range(11)
    ]
    records = [
        example(
            fixed=feature(*map(float, row["fixed"])),
            ragged=feature(*map(int, row["ragged"]), kind=np.int64),
            matrix=feature(*map(int, row["matrix"].ravel()), kind=np.int64),
            name=feature(row["name"]),
            words=feature(*row["words"], kind=bytes),
        )
        for row in values
    ]
    paths = write_files(tmp_path, [stream(records)])
    parse = qc.ops.parse_single_example(
        features={
            "fixed": qc.ops.FixedLenFeature((2,), np.float32),
            "ragged": qc.ops.RaggedFeature(np.int64),
            "matrix": qc.ops.FixedLenSequenceFeature((3,), np.int64, allow_missing=True),
            "name": qc.ops.FixedLenFeature((), bytes),
            "words": qc.ops.FixedLenSequenceFeature((), bytes, allow_missing=True),
        }
    )
    ds = TFRecordDataset(paths).map(parse)
    shapes = {"fixed": (4,), "ragged": None, "matrix": (None, 3), "name": (), "words": [None]}
    fills = {"fixed": 0.5, "ragged": -1, "matrix": None, "name": None, "words": b""}
    for batch, expected in zip(ds.padded_batch(4, shapes, fills), grouped(values, 4), strict=True):
        np.testing.assert_array_equal(batch["fixed"], padded([row["fixed"] for row in expected], (4,), 0.5))
        np.testing.assert_array_equal(batch["ragged"], padded([row["ragged"] for row in expected], (None,), -1))
        np.testing.assert_array_equal(batch["matrix"], padded([row["matrix"] for row in expected], (None, 3), 0))
        assert batch["name"].to_list() == [row["name"] for row in expected]
        longest = max(len(row["words"]) for row in expected)
        assert batch["words"].to_list() == [row["words"] + [b""] * (longest - len(row["words"])) for row in expected]
    # With words in the gaps, over objects.
    for batch, expected in zip(
        ds.padded_batch(4, padding_values=fills | {"words": "-"}), grouped(values, 4), strict=True
    ):
        longest = max(len(row["words"]) for row in expected)
        assert batch["words"].to_list() == [row["words"] + [b"-"] * (longest - len(row["words"])) for row in expected]
        np.testing.assert_array_equal(batch["ragged"], padded([row["ragged"] for row in expected], (None,), -1))


@pytest.mark.parametrize("component", [Component(BYTES, (None,)), None])
def test_arrays_of_strings(component):
    elements = [[b"x" * (n * k % 4) for k in range(n % 4)] for n in range(13)]
    objects = elements if component else [np.array([None, *words], object)[1:] for words in elements]
    for sides in ([None], [5]):
        got = list(given(objects, component).padded_batch(4, sides))
        for batch, expected in zip(got, grouped(elements, 4), strict=True):
            longest = sides[0] or max(map(len, expected))
            assert isinstance(batch, Ragged)
            assert batch.to_list() == [words + [b""] * (longest - len(words)) for words in expected]
    with pytest.raises(DataLossError):
        list(given(objects, component).padded_batch(4, [2]))


def test_fixed_length_records(tmp_path):
    record = np.dtype([("a", "u1"), ("b", [("c", ">i2", (2, 2))])])
    data = np.frombuffer(bytes(range(90)), record)
    (path,) = write_files(tmp_path, [data.tobytes()])
    ds = FixedLengthRecordDataset(path, record=record)
    same = list(ds.padded_batch(4))
    got = list(ds.padded_batch(4, {"a": (), "b": {"c": (3, None)}}, {"a": None, "b": {"c": 7}}))
    for batch, plain, expected in zip(got, same, grouped(data, 4), strict=True):
        np.testing.assert_array_equal(batch["a"], expected["a"])
        np.testing.assert_array_equal(plain["b"]["c"], expected["b"]["c"])
        np.testing.assert_array_equal(batch["b"]["c"], padded(list(expected["b"]["c"].astype("i2")), (3, None), 7))


def test_steps_before_and_behind():
    elements = rows(20)
    ds = given(elements, VARYING).repeat(2).skip(3).padded_batch(4, drop_remainder=True).skip(1).repeat(2).take(12)
    batches = [padded(one, (None,), 0) for one in grouped((elements * 2)[3:], 4, True)][1:]
    equal(ds, (batches * 2)[:12])
    assert len(ds) == 12


def test_batches_of_batches():
    elements = rows(23)
    ds = given(elements, VARYING).padded_batch(3)
    inner = [padded(one, (None,), 0) for one in grouped(elements, 3)]
    equal(ds.padded_batch(2, padding_values=9), [padded(one, (None, None), 9) for one in grouped(inner, 2)])
    even = given(elements, VARYING).padded_batch(3, 7, drop_remainder=True).batch(2)
    inner = [padded(one, (7,), 0) for one in grouped(elements, 3, True)]
    equal(even, [np.stack(one) for one in grouped(inner, 2)])
    assert even.element_spec == ArraySpec((None, 3, 7), np.dtype("i4"))
    with pytest.raises(InvalidArgumentError, match="unequal shapes"):
        list(ds.batch(2))
    with pytest.raises(InvalidArgumentError, match="padded_batch"):
        list(given([np.zeros((2, 1), "i4"), np.zeros((1, 2), "i4")], Component(np.dtype("i4"), (None, None))).batch(2))


def test_ragged_batches():
    elements = [np.arange(3 * n, dtype=np.int32).reshape(n, 3) for n in (2, 0, 1, 4, 1)]
    dense = Component(np.dtype("<i4"), (None, 3))
    ds = given(elements, dense).dense_to_ragged_batch(2)
    assert ds.element_spec == ArraySpec((None, None, 3), np.dtype("i4"))
    for batch, expected in zip(ds, grouped(elements, 2), strict=True):
        assert isinstance(batch, Ragged)
        assert batch.to_list() == [element.tolist() for element in expected]
    assert [len(batch) for batch in given(elements, dense).dense_to_ragged_batch(2, drop_remainder=True)] == [2, 2]
    even = [np.full(2, n, np.int32) for n in range(4)]
    equal(
        given(even, Component(np.dtype("<i4"), (2,))).dense_to_ragged_batch(3),
        [np.stack(group) for group in grouped(even, 3)],
    )
    # Down to the last dimension that differs.
    deep = [np.full((n, 2, n + 1), n, np.int32) for n in (1, 0, 2)]
    for make in (lambda ds: ds, lambda ds: ds.map(lambda x: [x][0] if x.size >= 0 else x)):  # natively, and in Python
        (ragged,) = make(given(deep, Component(np.dtype("<i4"), (None, 2, None)))).dense_to_ragged_batch(3)
        assert isinstance(ragged, Ragged)
        assert ragged.to_list() == [element.tolist() for element in deep]
    assert list(given([], None).dense_to_ragged_batch(2)) == []
    assert ds.output_classes is Ragged
    assert given(elements, dense).padded_batch(2).output_classes is np.ndarray
    assert next(iter(ds.batch(2))).to_list() == [
        [element.tolist() for element in batch] for batch in [elements[:2], elements[2:4]]
    ]
    # Batches that differ in their number of rows.
    batches = given(rows(5), VARYING).padded_batch(2, 7).dense_to_ragged_batch(3)
    (ragged,) = batches
    assert ragged.to_list() == [padded(group, (7,), 0).tolist() for group in grouped(rows(5), 2)]


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("component", [VARYING, Component(np.dtype("<i4"), (None,)), None])
def test_an_element_that_does_not_fit_is_an_error_in_its_place(workers, component):
    elements = rows(20, 5)
    elements[13] = np.arange(6, dtype=np.int32)
    elements[17] = np.arange(9, dtype=np.int32)
    for chunk in (1, 4, 50):
        ds = threads(given(elements, component, chunk).padded_batch(4, [5]), workers)
        got = []
        with iter(ds) as it, pytest.raises(DataLossError, match="6 long in dimension 0"):
            got += it
        equal(got, [padded(one, (5,), 0) for one in grouped(elements[:13], 4)])
        skipping = ds.with_options(Options(on_error="skip"))
        left = [one for one in elements if len(one) <= 5]
        with iter(skipping) as it:
            equal(it, [padded(one, (5,), 0) for one in grouped(left, 4)])
            assert it.stats()["skipped"] == 2


def test_an_error_names_a_component_behind_many_others():
    several = [Ragged(np.arange(6, dtype=np.int32), [0, 2, 4, 6])] * 1030
    several[1027] = Ragged(np.arange(9, dtype=np.int32), [0, 2, 7, 9])
    ds = Dataset.from_tensor_slices(tuple(several)).padded_batch(3, ([4],) * len(several))
    with pytest.raises(DataLossError, match=r"component 1027 is 5 long in dimension 0, .* \(element 1\)"):
        list(ds)


def test_an_error_of_the_source_comes_after_a_short_batch():
    elements = rows(20)
    for component in (VARYING, None):
        for drop in (False, True):
            got = []
            with pytest.raises(ZeroDivisionError):
                for batch in given(elements, component, fails=10).padded_batch(4, [None], drop_remainder=drop):
                    got.append(batch)  # noqa: PERF402 - what came before the error counts
            equal(got, [padded(one, (None,), 0) for one in grouped(elements[:10], 4, drop)])


@pytest.mark.parametrize("component", [VARYING, None])
def test_a_saved_place(component):
    elements = rows(11)
    fresh = given(elements, component, 2).repeat(2).padded_batch(3, [None]).repeat(2)
    expected, states = [], []
    with iter(fresh) as it:
        states.append(it.state_dict())
        for batch in it:
            expected.append(batch.copy())
            states.append(it.state_dict())
    for index, state in enumerate(states):
        with iter(threads(fresh, THREADS[index % 3])) as it:
            it.load_state_dict(json.loads(json.dumps(state)))
            equal(it, expected[index:])
    for other in (
        given(elements, component, 2).repeat(2).padded_batch(3, [None], 1).repeat(2),
        given(elements, component, 2).repeat(2).padded_batch(3, [9]).repeat(2),
    ):
        with iter(other) as it, pytest.raises(ResumeMismatchError):
            it.load_state_dict(states[1])


def test_arguments():
    pair = FixedLengthRecordDataset("/nowhere", record=np.dtype([("a", "<i4", (2,)), ("b", "<f4")]))
    line = TextLineDataset("/nowhere").map(qc.ops.decode_raw(out_type="<i2"))
    for wrong in (
        {"a": (2,)},
        {"a": (2,), "b": (), "c": ()},
        {"a": (2, 2), "b": ()},
        {"a": (1,), "b": ()},
        (1, 2),
        [2],
    ):
        with pytest.raises(InvalidArgumentError):
            pair.padded_batch(2, wrong)
    for shape in ((-2,), (1.5,), "x", (True,), (None, None), 2**48):
        with pytest.raises(InvalidArgumentError):
            line.padded_batch(2, shape)
    for value in (1.0, 2**15, True, np.int32(1), b"x", np.array([1, 2]), "x"):
        with pytest.raises(InvalidArgumentError):
            line.padded_batch(2, padding_values=value)
    with pytest.raises(DtypeError):
        line.padded_batch(2, padding_values=0.5)
    with pytest.raises(DtypeError):
        TextLineDataset("/nowhere").padded_batch(2, padding_values=0)
    with pytest.raises(InvalidArgumentError):
        pair.padded_batch(2, padding_values={"a": 1})
    for size in (0, -1, 1.5, True):
        with pytest.raises(InvalidArgumentError):
            line.padded_batch(size)
        with pytest.raises(InvalidArgumentError):
            line.dense_to_ragged_batch(size)
    with pytest.raises(InvalidArgumentError):
        line.padded_batch(2, drop_remainder=1)
    assert list(given([], None).padded_batch(2)) == []
    assert line.padded_batch(2).map(qc.ops.cast(dtype=np.float32)).plan().startswith("Python  map(cast")
    assert line.padded_batch(2, padding_values=-1).element_spec.shape == (None, None)
    assert pair.padded_batch(2, padding_values=1).element_spec["a"].shape == (None, 2)


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer's memory")
def test_a_batch_that_no_memory_can_hold():
    # Each is small; to one shape they are 2**60 items.
    elements = [np.zeros((2**30, 0), "u1"), np.zeros((0, 2**30), "u1"), np.zeros((1, 1), "u1")]
    with pytest.raises(qc.errors.ResourceExhaustedError):
        list(given(elements, Component(np.dtype("u1"), (None, None))).padded_batch(3))


def test_held_batches_stay_as_they_are():
    elements = rows(400, 50)
    for most in (1, 64, 100):
        with iter(given(elements, VARYING).padded_batch(5).with_options(Options(max_leases=most))) as it:
            held = list(it) if most == 100 else [next(it) for _ in range(most)]
        equal(held, [padded(one, (None,), 0) for one in grouped(elements, 5)][: len(held)])


@pytest.mark.parametrize("kind", ["native", "objects", "buckets"])
def test_dropped_in_the_middle(kind):
    source = given(rows(1000), None if kind == "objects" else VARYING, 1)
    if kind == "buckets":
        ds = source.bucket_by_sequence_length(len, [3, 5], [4, 3, 2])
    else:
        ds = source.padded_batch(2, [None])
    before = set(threading.enumerate())
    it = iter(ds.repeat())
    for _ in range(5):
        next(it)
    del it
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(1)
        assert not thread.is_alive()


@pytest.mark.parametrize("workers", THREADS)
def test_behind_a_shuffle_and_a_map(tmp_path, workers):
    records = np.random.default_rng(0).integers(0, 256, (500, 6), np.uint8)
    (path,) = write_files(tmp_path, [records.tobytes()])
    plain = FixedLengthRecordDataset(path, 6).shuffle(50, 3, False)
    order = [row.copy() for row in plain]
    ds = threads(plain.map(qc.ops.cast(dtype=np.float32)).padded_batch(9, [8], -1.0), workers)
    equal(ds, [padded([row.astype(np.float32) for row in one], (8,), -1.0) for one in grouped(order, 9)])
    text = write_files(tmp_path, [b"".join(b"%d\n" % (n * n) for n in range(3000))])
    lines = TextLineDataset(text).shuffle(100, 3, False)
    order = [np.frombuffer(line, "u1") for line in lines]
    ds = threads(lines.map(qc.ops.decode_raw(out_type="u1")).padded_batch(64), workers)
    equal(ds, [padded(one, (None,), 0) for one in grouped(order, 64)])


# -- buckets -----------------------------------------------------------------------------------------------------------


def bucketed(elements, boundaries, sizes, drop):
    """By the words of tf.data's documentation: the numbers of the elements of each batch, and its bucket."""
    buckets = [[] for _ in sizes]
    batches = []
    for number, element in enumerate(elements):
        index = sum(boundary <= len(element) for boundary in boundaries)
        buckets[index].append(number)
        if len(buckets[index]) == sizes[index]:
            batches.append((index, buckets[index]))
            buckets[index] = []
    return batches + [(index, left) for index, left in enumerate(buckets) if left and not drop]


def batches(elements, boundaries, sizes, drop=False, sides=None, fill=0):
    return [
        padded([elements[n] for n in numbers], ((boundaries[index] - 1) if sides == "boundary" else sides,), fill)
        for index, numbers in bucketed(elements, boundaries, sizes, drop)
    ]


@pytest.mark.thorough
@settings(max_examples=80, deadline=None)
@drawn(data=st.data())
def test_buckets(data):
    elements = rows(data.draw(st.integers(0, 60)), 20, data.draw(st.integers(0, 99)))
    boundaries = sorted(data.draw(st.sets(st.integers(-1, 22), max_size=4)))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=len(boundaries) + 1, max_size=len(boundaries) + 1))
    drop, fill = data.draw(st.booleans()), data.draw(st.integers(-5, 5))
    source = given(elements, data.draw(st.sampled_from([VARYING, None])), data.draw(st.integers(1, 9)))
    arguments = {"padded_shapes": [None], "padding_values": fill, "drop_remainder": drop}
    ds = threads(
        source.bucket_by_sequence_length(len, boundaries, sizes, **arguments), data.draw(st.sampled_from(THREADS))
    )
    expected = batches(elements, boundaries, sizes, drop, fill=fill)
    assert [one.tolist() for one in ds] == [one.tolist() for one in expected]
    if boundaries and all(len(element) < boundaries[-1] for element in elements):
        ds = source.bucket_by_sequence_length(len, boundaries, sizes, pad_to_bucket_boundary=True, **arguments)
        equal(ds, batches(elements, boundaries, sizes, drop, "boundary", fill))


def test_buckets_of_tuples(tmp_path):
    lines = [b"ab" * (n * 5 % 7) for n in range(30)]
    paths = write_files(
        tmp_path,
        [stream([example(a=feature(*map(int, line), kind=np.int64), b=feature(n)) for n, line in enumerate(lines)])],
    )
    parse = qc.ops.parse_single_example(
        features={"a": qc.ops.RaggedFeature(np.int64), "b": qc.ops.FixedLenFeature((), np.int64)}
    )
    ds = TFRecordDataset(paths).map(parse)
    bucketing = ds.bucket_by_sequence_length(
        lambda element: element["a"].shape[0], [5, 9], [3, 2, 4], padding_values={"a": -1, "b": None}
    )
    assert bucketing.element_spec == {
        "a": ArraySpec((None, None), np.dtype(np.int64)),
        "b": ArraySpec((None,), np.dtype(np.int64)),
    }
    assert bucketing.cardinality() == qc.data.UNKNOWN_CARDINALITY
    arrays = [np.frombuffer(line, "u1").astype(np.int64) for line in lines]
    for batch, (_, numbers) in zip(bucketing, bucketed(lines, [5, 9], [3, 2, 4], False), strict=True):
        assert batch["b"].tolist() == numbers
        np.testing.assert_array_equal(batch["a"], padded([arrays[n] for n in numbers], (None,), -1))


def test_buckets_of_sparse_arrays():
    def line(n):
        return qc.Sparse([[at] for at in range(n)], np.arange(n), [n + 1])

    numbers = Dataset.from_tensor_slices([1, 5, 2, 6, 3])
    lines = numbers.map(lambda n: (line(int(n)), n))
    made = lines.bucket_by_sequence_length(lambda x, n: int(x.dense_shape[0]), [4], [2, 2], no_padding=True)
    assert made.element_spec[0] == qc.data.SparseSpec((None, None), np.dtype(np.int64))
    found = [(x.to_dense().tolist(), n.tolist()) for x, n in made]
    # A batch is as wide as its widest row.
    assert found == [
        ([[0, 0, 0], [0, 1, 0]], [1, 2]),
        ([[0, 1, 2, 3, 4, 0, 0], [0, 1, 2, 3, 4, 5, 0]], [5, 6]),
        ([[0, 1, 2, 0]], [3]),
    ]
    with pytest.raises(InvalidArgumentError, match="Sparse"):
        list(lines.bucket_by_sequence_length(lambda x, n: int(n), [4], [2, 2], padded_shapes=((None,), ())))


def test_buckets_without_padding():
    elements = rows(40, 6)
    ds = given(elements, VARYING).bucket_by_sequence_length(len, list(range(1, 7)), [3] * 7, no_padding=True)
    expected = [
        np.stack([elements[n] for n in numbers]) for _, numbers in bucketed(elements, range(1, 7), [3] * 7, False)
    ]
    equal(ds, expected)
    with pytest.raises(InvalidArgumentError, match="unequal shapes"):
        list(given(elements, VARYING).bucket_by_sequence_length(len, [4], [9, 9], no_padding=True))


@pytest.mark.parametrize("component", [VARYING, None])
def test_a_saved_place_among_buckets(component):
    elements = rows(25)
    fresh = given(elements, component, 4).repeat(2).bucket_by_sequence_length(len, [2, 5], [4, 3, 2], [None]).repeat(2)
    expected, states = [], []
    with iter(fresh) as it:
        states.append(it.state_dict())
        for batch in it:
            expected.append(batch)
            states.append(it.state_dict())
    equal(expected, batches(elements * 2, [2, 5], [4, 3, 2]) * 2)
    for index, state in enumerate(states):
        with iter(fresh) as it:
            it.load_state_dict(json.loads(json.dumps(state)))
            equal(it, expected[index:])
    other = given(elements, component, 4).repeat(2).bucket_by_sequence_length(len, [2, 6], [4, 3, 2], [None]).repeat(2)
    with iter(other) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(states[3])


def test_buckets_of_a_shuffle_have_another_order_in_every_pass(tmp_path):
    records = np.arange(40, dtype="u1").reshape(20, 2)
    (path,) = write_files(tmp_path, [records.tobytes()])

    def orders(ds):
        return [batch.tolist() for batch in ds]

    qc.set_random_seed(7)
    try:
        plain = FixedLengthRecordDataset(path, 2).shuffle(6, seed=1)
        shuffled = [[one.copy() for one in plain] for _ in range(3)]
        ds = FixedLengthRecordDataset(path, 2).shuffle(6, seed=1)
        ds = ds.bucket_by_sequence_length(lambda row: int(row[0]) % 3, [1, 2], [4, 3, 2], [2]).repeat(3)
    finally:
        qc.set_random_seed(None)
    expected = []
    for epoch in shuffled:
        for _, numbers in bucketed([b"x" * (int(row[0]) % 3) for row in epoch], [1, 2], [4, 3, 2], False):
            expected.append([epoch[n].tolist() for n in numbers])
    assert orders(ds) == expected


@pytest.mark.thorough
@settings(max_examples=80, deadline=None)
@drawn(case=cases(), data=st.data())
def test_buckets_of_any_shapes(case, data):
    """By their first dimension, of which ``len`` tells without Python, and another function with it."""
    elements, component, sides, fill = case
    boundaries = sorted(data.draw(st.sets(st.integers(0, 5), max_size=3)))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=len(boundaries) + 1, max_size=len(boundaries) + 1))
    functions = [len, lambda element: element.shape[0], lambda element: np.int8(len(element))]
    function = data.draw(st.sampled_from(functions))
    known = [length if side is None else side for side, length in zip(sides, component.shape, strict=True)]
    expected = [
        padded([elements[n] for n in numbers], known, fill)
        for _, numbers in bucketed(elements, boundaries, sizes, False)
    ]
    ds = given(elements, component, data.draw(st.integers(1, 5)))
    ds = ds.bucket_by_sequence_length(function, boundaries, sizes, sides, fill)
    assert "native: lengths" in ds.plan() or function is not len
    equal(threads(ds, data.draw(st.sampled_from(THREADS))), expected)


LENGTHS = [
    lambda row: row["n"],
    lambda row: row["n"] * 3 // 3,
    lambda row: qc.ops.cast(row["n"], np.int16),
    lambda row: row["n"].reshape(1, 1) if isinstance(row["n"], int) else row["n"],
    lambda row: len(row["r"]),
    lambda row: len(row["text"]),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("function", LENGTHS)
@pytest.mark.parametrize("max_length", [6, 700])
def test_buckets_of_rows(function, max_length):
    """Rows short and long, of strings, numbers and fixed parts, against elements one by one of the same model."""
    state = np.random.default_rng(max_length)
    lengths = state.integers(0, max_length, 900)
    r = [state.integers(0, 99, n, np.int16) for n in lengths]
    text = [bytes(state.integers(97, 123, n, np.uint8)) for n in lengths]
    fixed = state.normal(0, 1, (900, 2, 3)).astype(np.float32)
    ds = qc.data.Dataset.from_tensor_slices(
        {"r": qc.Ragged.from_list(r), "n": lengths, "text": np.array(text, object), "fixed": fixed}
    )
    boundaries, sizes = [max_length // 4, max_length // 2, max_length - 1], [17, 5, 40, 3]
    shapes = {"r": [None], "n": [], "text": [], "fixed": [3, 4]}
    values_ = {"r": -1, "n": None, "text": None, "fixed": 0.5}
    ds = ds.repeat(2).bucket_by_sequence_length(function, boundaries, sizes, shapes, values_)
    assert ("native: lengths" in ds.plan()) == (function in LENGTHS[:3])
    numbers = [members for _, members in bucketed(r * 2, boundaries, sizes, False)]
    count = 0
    for batch, members in zip(ds, numbers, strict=True):
        rows_ = [n % 900 for n in members]
        for result, right in (
            (batch["r"], padded([r[n] for n in rows_], [None], -1)),
            (batch["n"], lengths[rows_]),
            (batch["fixed"], padded(list(fixed[rows_]), [3, 4], 0.5)),
        ):
            assert (result.dtype, result.shape) == (right.dtype, right.shape)
            assert np.array_equal(result, right)
        assert list(batch["text"]) == [text[n] for n in rows_]
        count += len(rows_)
    assert count == 1800


@pytest.mark.parametrize("function", [lambda row: row["n"], lambda row: int(row["n"])])
def test_places_and_skips_among_rows(function):
    lengths = np.random.default_rng(1).integers(0, 9, 600)
    ds = qc.data.Dataset.from_tensor_slices({"n": lengths, "r": qc.Ragged.from_list([[1] * n for n in lengths])})
    short_lengths = [n for n in lengths.tolist() if n < 7]

    def expected(boundaries, sizes):
        return [
            [short_lengths[n] for n in members]
            for _, members in bucketed([b"x" * n for n in short_lengths], boundaries, sizes, False)
        ]

    # Those of seven and more don't fit into the last bucket; those of five into no row.
    closed = ds.bucket_by_sequence_length(function, [2, 7], [9, 30, 1], pad_to_bucket_boundary=True)
    first = next(index for index, n in enumerate(lengths) if n >= 7)
    got = []
    with pytest.raises(InvalidArgumentError, match=f"element {first} has the length {lengths[first]}, "):
        for batch in closed:
            got.append(batch["n"].tolist())
    assert got == [
        [lengths[n] for n in members]
        for _, members in bucketed([b"x" * n for n in lengths[:first]], [2, 7], [9, 30, 1], False)
    ]
    fixed = ds.bucket_by_sequence_length(function, [2], [9, 30], {"n": [], "r": [6]})
    with pytest.raises(DataLossError, match=f"7 long|8 long.*element {first}"):
        list(fixed)
    with iter(closed.with_options(Options(on_error="skip"))) as it:
        states, batches_ = [it.state_dict()], []
        for batch in it:
            batches_.append(batch["n"].tolist())
            states.append(it.state_dict())
        assert it.stats()["skipped"] == 600 - len(short_lengths)
    assert batches_ == expected([2, 7], [9, 30, 1])
    for index in range(0, len(states), 5):
        with iter(closed.with_options(Options(on_error="skip", num_threads=1))) as it:
            it.load_state_dict(json.loads(json.dumps(states[index])))
            assert [batch["n"].tolist() for batch in it] == batches_[index:]
    with pytest.raises(InvalidArgumentError, match="element"):
        list(closed.with_options(Options(on_error="skip", max_skips=3)))


def _number_of(row):
    return row["n"]


@pytest.mark.parametrize("function", [_number_of, len])
def test_datasets_of_buckets_can_be_pickled(function):
    lengths = np.arange(50) % 7
    ds = qc.data.Dataset.from_tensor_slices({"n": lengths} if function is _number_of else lengths.reshape(25, 2))
    ds = ds.bucket_by_sequence_length(function, [2], [4, 3])
    again = pickle.loads(pickle.dumps(ds))
    assert again.plan() == ds.plan()
    assert "native: lengths" in again.plan()
    for one, other in zip(again, ds, strict=True):
        assert str(one) == str(other)


def test_lengths_that_are_none():
    ds = qc.data.Dataset.range(10)
    for function in (lambda n: n / 2, lambda n: (n,), lambda n: {"a": n}, lambda n: n.astype(np.uint8) + b"x"[0] * 1.5):
        with pytest.raises((InvalidArgumentError, UnknownError), match="integer"):
            list(ds.bucket_by_sequence_length(function, [3], [4, 2]))
    with pytest.raises(UnknownError, match="len"):  # of a number
        list(ds.bucket_by_sequence_length(len, [3], [4, 2]))
    odd = ds.bucket_by_sequence_length(lambda n: n % 2 == 1, [1], [2, 3])
    assert "native: lengths" in odd.plan()
    assert [one.tolist() for one in odd] == [[0, 2], [1, 3, 5], [4, 6], [8], [7, 9]]
    unsigned = ds.map(lambda n: n.astype(np.uint64) + np.uint64(2**63))
    unsigned = unsigned.bucket_by_sequence_length(lambda n: n, [4], [5, 5])
    assert [len(one) for one in unsigned] == [5, 5]
    two = ds.map(lambda n: (n, n + 1)).bucket_by_sequence_length(lambda a, b: b, [5], [3, 3])
    assert "native: lengths" in two.plan()
    assert [b.tolist() for _, b in two] == [[1, 2, 3], [5, 6, 7], [8, 9, 10], [4]]


def failing(error, position):
    calls = []

    def length(element):
        if isinstance(element, np.ndarray):  # which ends a trace
            calls.append(element)
        if len(calls) - 1 == position:
            raise error
        return len(element)

    return length


def test_what_a_length_function_raises_comes_after_what_was_before():
    elements = rows(20)
    expected = batches(elements[:11], [3], [4, 2])
    for error in (ValueError("no"), StopIteration("no"), GeneratorExit()):
        results = []
        with pytest.raises(UnknownError, match="element 11") as caught:
            results += given(elements, VARYING).bucket_by_sequence_length(failing(error, 11), [3], [4, 2])
        assert caught.value.__cause__ is error
        equal(results, expected)
    for error in (KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)):
            list(given(elements, VARYING).bucket_by_sequence_length(failing(error, 11), [3], [4, 2]))
    for length in (lambda element: 1.5, lambda element: None, lambda element: element):
        with pytest.raises(InvalidArgumentError, match="integer"):
            list(given(elements, VARYING).bucket_by_sequence_length(length, [3], [4, 2]))
    results = []
    with pytest.raises(ZeroDivisionError):
        results += given(elements, VARYING, fails=11).bucket_by_sequence_length(len, [3], [4, 2])
    equal(results, expected)


def test_elements_that_fit_no_bucket():
    elements = rows(20, 5)
    elements[11] = np.arange(8, dtype=np.int32)
    ds = given(elements, VARYING).bucket_by_sequence_length(len, [3, 8], [4, 2, 1], pad_to_bucket_boundary=True)
    got = []
    with pytest.raises(InvalidArgumentError, match="element 11 has the length 8"):
        got += ds
    equal(got, batches(elements[:11], [3, 8], [4, 2, 1], sides="boundary"))
    left = elements[:11] + elements[12:]
    with iter(ds.with_options(Options(on_error="skip"))) as it:
        equal(it, batches(left, [3, 8], [4, 2, 1], sides="boundary"))
        assert it.stats()["skipped"] == 1
    with pytest.raises(DataLossError, match="element 11"):
        list(given(elements, VARYING).bucket_by_sequence_length(len, [3, 8], [4, 2, 1], [7]))


def test_arguments_of_buckets():
    ds = given([], VARYING)
    for boundaries, sizes in (
        ([3, 3], [1, 1, 1]),
        ([4, 3], [1, 1, 1]),
        ([3], [1]),
        ([3], [1, 0]),
        ([3.0], [1, 1]),
        ("3", [1, 1]),
        (3, [1, 1]),
    ):
        with pytest.raises(InvalidArgumentError):
            ds.bucket_by_sequence_length(len, boundaries, sizes)
    with pytest.raises(InvalidArgumentError):
        ds.bucket_by_sequence_length(3, [3], [1, 1])
    for more in (
        {"no_padding": True, "pad_to_bucket_boundary": True},
        {"no_padding": True, "padded_shapes": [None]},
        {"no_padding": True, "padding_values": 1},
        {"padding_values": 0.5},
        {"padded_shapes": [None, None]},
        {"drop_remainder": 1},
        {"no_padding": 0},
    ):
        with pytest.raises(InvalidArgumentError):
            ds.bucket_by_sequence_length(len, [3], [1, 1], **more)
    with pytest.raises(InvalidArgumentError):
        ds.bucket_by_sequence_length(len, [], [1], pad_to_bucket_boundary=True)
    with pytest.raises(InvalidArgumentError, match="padded_shapes"):
        given([], None).bucket_by_sequence_length(len, [3], [1, 1])


def generated(*elements, dtypes=np.int64):
    return Dataset.from_generator(lambda: iter(elements), dtypes)


def test_the_first_element_decides_an_unknown_rank():
    ds = generated([1], [2, 3], [4])
    assert ds.element_spec == ArraySpec(None, np.dtype(np.int64))
    batches = ds.padded_batch(2)
    assert batches.element_spec == ArraySpec(None, np.dtype(np.int64))
    assert [batch.tolist() for batch in batches] == [[[1, 0], [2, 3]], [[4]]]
    assert [batch.tolist() for batch in ds.padded_batch(2, None, -1, True)] == [[[1, -1], [2, 3]]]
    squares = generated([[1]], [[2, 3], [4, 5]])
    assert [batch.tolist() for batch in squares.padded_batch(2)] == [[[[1, 0], [0, 0]], [[2, 3], [4, 5]]]]
    assert [batch.tolist() for batch in generated(1, 2).padded_batch(2)] == [[1, 2]]
    # One that is known, and one that isn't.
    pairs = generated(([1], b"a"), ([2, 3], b"b"), dtypes=(np.int64, bytes))
    ((numbers, texts),) = pairs.padded_batch(2, ((3,), None))
    assert numbers.tolist() == [[1, 0, 0], [2, 3, 0]]
    assert texts.to_list() == [b"a", b"b"]
    # Each pass has a first element.
    assert [batch.shape for batch in ds.padded_batch(3).repeat(2)] == [(3, 2), (3, 2)]


def test_all_elements_have_the_rank_of_the_first():
    ds = generated([1], [2, 3], [[1]], [4], [5, 6, 7], [8]).padded_batch(2)
    it = iter(ds)
    assert next(it).tolist() == [[1, 0], [2, 3]]
    with pytest.raises(DataLossError, match="not 1 dimensions .element 2"):
        next(it)
    state = json.loads(json.dumps(it.state_dict()))
    rest = [[[4, 0, 0], [5, 6, 7]], [[8]]]
    assert [batch.tolist() for batch in it] == rest
    again = iter(ds)
    again.load_state_dict(state)
    assert [batch.tolist() for batch in again] == rest
    # The one that the rest begins with decides nothing.
    odd = iter(generated([1], [[2]], [[3]]).padded_batch(1))
    next(odd)
    state = odd.state_dict()
    again = iter(generated([1], [[2]], [[3]]).padded_batch(1))
    again.load_state_dict(state)
    with pytest.raises(DataLossError, match="element 1"):
        next(again)
    left = ds.with_options(Options(on_error="skip"))
    assert [batch.tolist() for batch in left] == [[[1, 0], [2, 3]], *rest]


def test_nothing_can_be_padded(tmp_path):
    assert list(generated().padded_batch(2)) == []
    empty = Dataset.range(0).map(lambda x: np.ones(int(x)))
    assert empty.element_spec is None
    for values in (None, 7, (1, {"a": b"x"})):
        batches = empty.padded_batch(2, padding_values=values)
        assert list(batches) == []
        assert batches.element_spec is None
    assert list(pickle.loads(pickle.dumps(Dataset.range(0).padded_batch(2)))) == []


def test_elements_of_which_nothing_was_known_tell_their_structure(tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"")

    def square(line):
        return Pair(np.ones([len(line.decode())] * 2), {"text": line})

    ds = TextLineDataset(file).map(square)
    plain, filled, wrong = (
        ds.padded_batch(2, padding_values=values) for values in (None, Pair(2.0, {"text": b""}), (1.0,) * 3)
    )
    assert list(plain) == []
    file.write_bytes(b"a\nbc\nd\n")
    first, last = list(plain)
    assert type(first) is Pair
    assert first.x.tolist() == [[[1, 0], [0, 0]], [[1, 1], [1, 1]]]
    assert first.y["text"].to_list() == [b"a", b"bc"]
    assert last.x.tolist() == [[[1]]]
    assert next(iter(filled)).x[0].tolist() == [[1, 2], [2, 2]]
    with pytest.raises(InvalidArgumentError, match="padding_values must be a tuple of 2"):
        next(iter(wrong))
