"""Functions given to map: native where they can be, with the values that they give in Python."""

import copy
import json
import pickle
import re

import numpy as np
import pytest
from helpers.data.blocks import run
from helpers.data.chains import THREADS, threads
from helpers.formats.example_messages import example, feature
from helpers.formats.tfrecords import stream
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.data import (
    ArraySpec,
    CsvDataset,
    Dataset,
    FixedLengthRecordDataset,
    Options,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.errors import InvalidArgumentError, ResumeMismatchError

RECORD = np.dtype([("label", "u1"), ("image", "u1", (3, 8, 8))])
MEAN = np.float32([120, 110, 100])


@pytest.fixture
def records(tmp_path):
    """A file of records, and the records."""
    rows = np.random.default_rng(1).integers(0, 256, (100, RECORD.itemsize), np.uint8).view(RECORD)[:, 0]
    rows.tofile(tmp_path / "records")
    return FixedLengthRecordDataset(tmp_path / "records", record=RECORD), rows


def parse(record):
    image = record["image"].transpose(1, 2, 0)
    return (qc.ops.cast(image, np.float32) - MEAN) / 255.0, record["label"].astype(np.int64)


def same(got, expected):
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("workers", THREADS)
def test_elements(records, workers):
    ds, rows = records
    mapped = threads(ds.map(parse), workers)
    assert mapped.element_spec == (
        ArraySpec((8, 8, 3), np.dtype("f4")),
        ArraySpec((), np.dtype("i8")),
    )
    count = 0
    for (image, label), row in zip(mapped, rows, strict=True):
        expected = parse({"image": row["image"], "label": row["label"]})
        same(image, expected[0])
        same(np.asarray(label), np.asarray(expected[1]))
        count += 1
    assert count == 100


def batchwise(record):
    image = qc.ops.cast(record["image"], np.float32) / 255.0
    return {"x": image[..., 0] * 2, "y": record["label"] == 3, "again": {"image": image}}


@pytest.mark.parametrize("drop", [False, True])
def test_before_and_after_batch(records, drop):
    ds, rows = records
    copies = Options(max_leases=40)
    before = list(ds.map(batchwise).batch(7, drop).with_options(copies))
    after = list(ds.batch(7, drop).map(batchwise).with_options(copies))
    assert ds.map(batchwise).batch(7, drop).element_spec == ds.batch(7, drop).map(batchwise).element_spec
    assert len(before) == len(after) == (14 if drop else 15)
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        part = rows[7 * index : 7 * index + 7]
        expected = batchwise({"image": part["image"], "label": part["label"]})
        for batch in (one, other):
            same(batch["x"], expected["x"])
            same(batch["y"], expected["y"])
            same(batch["again"]["image"], expected["again"]["image"])
    twice = ds.batch(5, True).batch(2, True).map(lambda r: r["image"] + r["label"][..., None, None, None])
    first, part = next(iter(twice)), rows[:10]
    same(first, (part["image"] + part["label"][:, None, None, None]).reshape(2, 5, 3, 8, 8))


def test_one_after_the_other(records):
    ds, rows = records
    stage = qc.ops.on(0, qc.ops.scale(a=2.0))
    chain = ds.map(parse).map(stage).map(lambda image, label: {"image": image[:4], "label": label})
    for got, row in zip(chain, rows, strict=True):
        image, label = parse({"image": row["image"], "label": row["label"]})
        same(got["image"], (image * np.float32(2))[:4])
        assert got["label"] == label
    assert chain.element_spec["image"] == ArraySpec((4, 8, 3), np.dtype("f4"))


def test_the_tutorials_parse_function(tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (40, 8, 8, 3), np.uint8)
    messages = [
        example(image=feature(image.tobytes()), label=feature(index % 10)) for index, image in enumerate(images)
    ]
    (tmp_path / "a").write_bytes(stream(messages))
    features = {"image": qc.ops.FixedLenFeature((), bytes), "label": qc.ops.FixedLenFeature((), np.int64)}

    def parse_fn(message):
        parsed = qc.ops.parse_single_example(message, features)
        image = qc.ops.decode_raw(parsed["image"], np.uint8)
        image = qc.ops.cast(image, np.float32)
        image = qc.ops.reshape(image, [8, 8, 3]) / 255.0 - 0.5
        return image, parsed["label"]

    ds = TFRecordDataset(tmp_path / "a").map(parse_fn)
    assert ds.element_spec == (ArraySpec((8, 8, 3), np.dtype("f4")), ArraySpec((), np.dtype("i8")))

    def parse_batch(messages):
        parsed = qc.ops.parse_example(messages, features)
        image = qc.ops.cast(qc.ops.decode_raw(parsed["image"], np.uint8, fixed_length=192), np.float32)
        return image.reshape(-1, 8, 8, 3) / 255.0 - 0.5, parsed["label"]

    # Of a batch of messages it makes the same.
    for batched in (ds.batch(16), TFRecordDataset(tmp_path / "a").batch(16).map(parse_batch)):
        batches = [(image.copy(), label.copy()) for image, label in batched]
        assert [len(labels) for _, labels in batches] == [16, 16, 8]
        expected = images.astype(np.float32) / np.float32(255) - np.float32(0.5)
        same(np.concatenate([image for image, _ in batches]), expected)
        same(np.concatenate([label for _, label in batches]), np.arange(40) % 10)


def test_pictures_of_any_size(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 256, (side, 9 - side, 3), np.uint8) for side in range(2, 7)]
    for index, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / f"{index}.png")

    def decode(name, data):
        return (qc.ops.cast(qc.ops.decode_image(data, 3), np.float32) - MEAN) / 255.0

    ds = WholeFileDataset(str(tmp_path / "*.png")).map(decode)
    assert ds.element_spec == ArraySpec((None, None, 3), np.dtype("f4"))
    for (got,), picture in zip(ds.batch(1), pictures, strict=True):
        same(got, (picture.astype(np.float32) - MEAN) / np.float32(255))


def test_lines_and_columns(tmp_path):
    (tmp_path / "a").write_bytes(b"1,2.5\n3,4\n-5,nan\n")
    ds = CsvDataset(tmp_path / "a", [np.int32, np.float64])
    assert run(ds.map(lambda a, b: a * 2 + b).take(2))[0] == [4.5, 10.0]
    assert run(ds.map(lambda a, b: {"a": a > 0}))[0] == [{"a": True}, {"a": True}, {"a": False}]
    lines = TextLineDataset(tmp_path / "a")
    assert run(lines.map(lambda line: line))[0] == [b"1,2.5", b"3,4", b"-5,nan"]
    parsed = lines.map(lambda line: tuple(qc.ops.decode_csv(line, [0, 0.0])))
    assert [a for a, _ in run(parsed)[0]] == [1, 3, -5]


def _untraced(function):
    def called(*parts):
        assert all(isinstance(part, bytes | np.generic | np.ndarray) for part in parts)  # which ends a trace
        return function(*parts)

    return called


@pytest.mark.parametrize(
    "function",
    [
        lambda line: qc.ops.decode_csv(line, [0, 0.0]),
        lambda line: (line, qc.ops.decode_csv(line, [0, 0.0])),
        lambda line: {"a": [1, 2], "b": qc.ops.decode_csv(line, [np.float32(0), 0.0])},
    ],
)
def test_lists_are_tuples_and_arrays_in_these(tmp_path, function):
    (tmp_path / "a").write_bytes(b"1,2.5\n3,4\n-5,7\n")
    lines = TextLineDataset(tmp_path / "a")
    native, python = lines.map(function), lines.map(_untraced(function))
    assert "Python" not in native.plan()
    assert "Python" in python.plan()
    for got, expected in zip(native, python, strict=True):
        assert type(got) is type(expected)
        parts = [list(element.values()) if type(element) is dict else element for element in (got, expected)]
        for part, other in zip(*parts, strict=True):
            if isinstance(other, bytes):
                assert part == other
            else:
                same(np.asarray(part), np.asarray(other))
    # Of batches, each part is one.
    pairs = lines.map(function).batch(2)
    if type(next(iter(python))) is tuple and len(next(iter(python))) == 2:
        assert [len(batch) for batch in pairs] == [2, 2]


def test_a_bad_record_is_an_error_in_its_place(tmp_path):
    (tmp_path / "a").write_bytes(b"aaaa\nbbbb\nccc\ndddd\n")
    ds = TextLineDataset(tmp_path / "a").map(lambda line: qc.ops.decode_raw(line, np.uint16) + 1)
    got, error = run(ds)
    assert [one for one in got] == [[0x6162] * 2, [0x6263] * 2]
    assert isinstance(error, InvalidArgumentError)
    assert error.record == 2
    skipped = ds.with_options(Options(on_error="skip"))
    assert len(run(skipped)[0]) == 3


def test_states(records):
    ds, _ = records
    mapped = ds.map(parse).batch(8)
    with iter(mapped) as it:
        for _ in range(5):
            next(it)
        state = json.loads(json.dumps(it.state_dict()))
        rest = [(image.copy(), label.copy()) for image, label in it]

    def parse_again(row):  # another function that does the same
        image = row["image"].T.transpose(1, 0, 2)
        return (qc.ops.cast(image, np.float32) - MEAN) / 255.0, row["label"].astype(np.int64)

    for function in (parse, parse_again):
        with iter(ds.map(function).batch(8)) as it:
            it.load_state_dict(state)
            for (image, label), (other, number) in zip(it, rest, strict=True):
                same(image, other)
                same(label, number)
    with iter(ds.map(lambda r: (r["image"], r["label"])).batch(8)) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


def test_what_stays_out(records):
    ds, _ = records

    def branch(record):
        if record["label"] > 3:
            return record
        return None

    plan = ds.map(branch).plan()
    assert re.search(r"Python.*the truth of a value.*test_data_trace.py:\d+: `if record\[", plan)
    turned = ds.batch(4).map(lambda record: record["image"].T)
    assert "Python" in turned.plan()
    for batch, other in zip(ds.batch(4), turned, strict=True):
        same(batch["image"].T, other)
    for wrong in (None, 3, "cast"):
        with pytest.raises(InvalidArgumentError, match="functions"):
            ds.map(wrong)
    assert "dtype is missing" in ds.map(qc.ops.cast).plan()
    assert "add(x1, " in repr(ds.map(lambda record: record["image"] + 1))


def _shifted(x):
    return x * 2 + 1


def _small(x):
    return x < 6


def test_datasets_of_traced_functions_can_be_pickled():
    ds = qc.data.Dataset.range(10).map(_shifted).filter(_small).batch(2)
    again = pickle.loads(pickle.dumps(ds))
    assert repr(again) == repr(ds)
    assert [x.tolist() for x in again] == [x.tolist() for x in ds] == [[1, 3], [5]]
    with pytest.raises((AttributeError, pickle.PicklingError)):  # as of any function that has no name
        pickle.dumps(qc.data.Dataset.range(10).map(lambda x: x + 1))


# What is done to rows in memory, many at once where they lie side by side: also with constants of the shape of a row.
OVER_ROWS = [
    lambda x: x * 2 + 1,
    lambda x: (x.astype(np.float64) - 3) / 7,
    lambda x: (x, x > 100, -x),
    lambda x: {"sum": x + x, "given": x, "same": x},
    lambda x: np.where(x % 3 == 0, x, np.array([5], x.dtype)[0]),
    lambda x: x + np.arange(4, dtype=x.dtype),
    lambda x: x + np.arange(12, dtype=x.dtype).reshape(3, 4),
    lambda x: x + np.array([[1], [2], [3]], x.dtype),
    lambda x: np.sqrt(x.astype(np.float32)) * np.float32(0.5),
    lambda x: (x[..., ::2], x[..., 1]),
    lambda x: x[..., :1] + x,
]


@pytest.mark.thorough
@given(
    st.sampled_from(OVER_ROWS),
    st.sampled_from(["u1", "i2", "i4", "i8", "f4"]),
    st.sampled_from([1, 2, 1500]),
    st.integers(100, 700) | st.integers(1, 7),
    st.sampled_from([None, 1, 8]),
)
@settings(max_examples=60, deadline=None)
def test_many_rows_at_once(function, dtype, count, batch, workers):
    rows = (np.arange(count * 12) % 251).astype(dtype).reshape(count, 3, 4)
    ds = Dataset.from_tensor_slices(rows).with_options(Options(num_threads=workers))
    some = (np.arange(count) % 7 != 2) & (np.arange(count) % 5 < 4)
    chosen = Dataset.zip((Dataset.from_tensor_slices(some), ds)).filter(lambda keep, x: keep).map(lambda keep, x: x)
    plain = [_together([function(row) for row in part]) for part in (rows, rows[some]) if len(part)]
    for index, made in enumerate((ds, chosen) if some.any() else (ds,)):
        mapped = made.map(function)
        assert "traced" in mapped.plan()
        for way in (mapped.batch(batch), made.shuffle(1).map(function).batch(batch)):
            got = _together([copy.deepcopy(one) for part in way for one in _rows(part)])
            assert _same(got, plain[index])
    whole = [function(rows[index : index + batch]) for index in range(0, count, batch)]
    for part, expected in zip(ds.batch(batch).map(function), whole, strict=True):
        assert _same(part, expected)


def _rows(batch):
    if isinstance(batch, dict):
        return [dict(zip(batch, one, strict=True)) for one in zip(*batch.values(), strict=True)]
    return list(zip(*batch, strict=True)) if isinstance(batch, tuple) else list(batch)


def _together(rows):
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(np.stack(part) for part in zip(*rows, strict=True))
    return np.stack(rows)


def _same(results, expected):
    if isinstance(expected, dict):
        return results.keys() == expected.keys() and all(_same(results[key], expected[key]) for key in expected)
    if isinstance(expected, tuple):
        return len(results) == len(expected) and all(map(_same, results, expected))
    return (
        results.dtype == expected.dtype
        and results.shape == expected.shape
        and results.tobytes() == np.ascontiguousarray(expected).tobytes()
    )
