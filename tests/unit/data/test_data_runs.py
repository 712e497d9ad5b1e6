"""Native steps that make several rows at once give what they give row by row, in whatever order the records come."""

import gzip

import numpy as np
import pytest
from helpers.data.blocks import small
from helpers.formats.example_messages import example, feature

from queuecore import ops
from queuecore.data import CsvDataset, Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import CsvError, DataLossError, InvalidArgumentError
from queuecore.writers import TFRecordWriter

COUNT = 5000
WIDTHS = [1, 3, 8, 700]  # of 700 floats a run has few rows
CHAINS = {
    "plain": lambda ds: ds,
    "repeated": lambda ds: ds.repeat(2),
    "cut": lambda ds: ds.skip(3).take(1001),
    "shuffled by a store": lambda ds: ds.shuffle(100, 5, False),
    "shuffled whole": lambda ds: ds.permute(5, False),
    "a shard": lambda ds: ds.shard(3, 1),
    "a shuffled shard": lambda ds: ds.shard(3, 1).shuffle(50, 5, False).repeat(2),
}


def contents(width):
    rows = np.zeros(COUNT if width < 100 else 500, [("x", "<f4", (width,)), ("pad", "V3"), ("n", ">i4")])
    rows["x"] = np.random.default_rng(width).standard_normal(rows["x"].shape)
    rows["n"] = np.arange(len(rows))
    return rows


def fixed(path, width, between, compressed):
    """Records with bytes between them, whose fields lie anywhere and in another byte order."""
    rows = contents(width)
    size = rows.dtype.itemsize
    data = b"head" + b"".join(row.tobytes() + bytes(between) for row in rows)
    path.write_bytes(gzip.compress(data, 1) if compressed else data)
    return FixedLengthRecordDataset(
        path,
        record=rows.dtype,
        header_bytes=4,
        hop_bytes=size + between,
        compression_type="GZIP" if compressed else None,
    )


def taken(ds, threads=1):
    """The rows of a dataset's batches, each component in one array."""
    batches = [[np.array(part) for part in batch] for batch in ds.with_options(Options(num_threads=threads))]
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


def goes_natively(ds):
    return not any(line.startswith("Python") and "map" in line for line in str(ds.plan()).splitlines())


# Only records of known places can be permuted.
@pytest.mark.parametrize(
    ("compressed", "chain"), [(False, chain) for chain in CHAINS] + [(True, c) for c in CHAINS if c != "shuffled whole"]
)
@pytest.mark.parametrize("between", [0, 5])
@pytest.mark.parametrize("width", WIDTHS)
def test_records_of_files(tmp_path, width, between, compressed, chain):
    ds = CHAINS[chain](fixed(tmp_path / "f", width, between, compressed))
    rows = contents(width)
    expected = [int(record["n"]) for record in ds]
    for batch, threads in [(1, 1), (7, 2), (256, 1)]:
        made = ds.map(lambda r: (r["n"] + 1, r["x"] * 2 - 1)).batch(batch)
        assert goes_natively(made)
        order, values = taken(made, threads)
        assert (order - 1).tolist() == expected
        np.testing.assert_array_equal(values, rows["x"][expected] * np.float32(2) - np.float32(1))


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("bad", [None, 1234])
def test_columns_of_csv(tmp_path, batch, bad):
    path = tmp_path / "f.csv"
    path.write_text("".join(f"{i},{'x' if i == bad else i / 8},{i % 7},{i % 2}\n" for i in range(3000)))
    ds = CsvDataset(path, [np.int64, np.float32, np.int32, np.bool_])
    made = ds.map(lambda i, x, n, b: (i, x * 2 + 1, n, b)).ignore_errors().batch(batch)
    assert goes_natively(made)
    found = taken(made)
    numbers = np.array([i for i in range(3000) if i != bad])
    for column, values in enumerate([numbers, (numbers / 8).astype("f4") * 2 + 1, numbers % 7, numbers % 2 == 1]):
        np.testing.assert_array_equal(found[column], values)


def test_slices_of_arrays():
    rows = np.arange(30000, dtype=np.int16).reshape(-1, 3)
    ds = Dataset.from_tensor_slices(rows).shuffle(64, 2, False)
    (plain,) = taken(ds.map(lambda x: (x,)).batch(100))
    (made,) = taken(ds.map(lambda x: (x * 3 - 1,)).batch(100))
    assert sorted(plain[:, 0]) == sorted(rows[:, 0])
    np.testing.assert_array_equal(made, plain * 3 - 1)


# ---- strings ---------------------------------------------------------------------------------------------------------


def text(i):
    return b"0123456789abcdef"[: i % 5 * 4] if i % 3 else b"even"


def strings(kind, path, bad=None, piece=1 << 18):
    """The same strings of bytes as records of several kinds; the bad one has a length that fits no float.

    Blocks of files have `piece` bytes.
    """
    values = [b"five!" if i == bad else text(i) for i in range(3000)]
    if kind == "array":
        return values, Dataset.from_tensor_slices(values)
    if kind == "lines":
        path.write_bytes(b"".join(value + (b"\r\n" if i % 2 else b"\n") for i, value in enumerate(values)))
        return values, small(TextLineDataset(path), piece)
    if kind == "csv":
        path.write_bytes(b"".join(b'"' * (i % 2) + v + b'"' * (i % 2) + b",1\n" for i, v in enumerate(values)))
        return values, small(CsvDataset(path, [b"", np.int64]), piece).map(lambda text, _: text)
    with TFRecordWriter(path, "GZIP" if kind == "compressed" else None) as writer:
        for value in values:
            writer.write(value)
    return values, small(TFRecordDataset(path, "GZIP" if kind == "compressed" else None), piece)


STAGES = {
    "as it is": (ops.decode_raw(out_type=np.float32), lambda v: np.frombuffer(v, "<f4")),
    "turned": (ops.decode_raw(out_type=np.float32, little_endian=False), lambda v: np.frombuffer(v, ">f4")),
    "filled": (
        ops.decode_padded_raw(fixed_length=6, out_type=np.int16),
        lambda v: np.frombuffer(v[:6].ljust(6, b"\0"), "<i2"),
    ),
}


def np_rows(rows):
    return [np.array(row) for row in rows]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", ["array", "lines", "csv", "tfrecord", "compressed"])
def test_strings(tmp_path, kind, stage, shuffled):
    values, ds = strings(kind, tmp_path / "f")
    decode, expected = STAGES[stage]
    if shuffled:
        ds = ds.shuffle(100, 3, False)
        values = list(ds)
    for batch in (1, 7, 512):
        made = ds.map(decode)
        assert goes_natively(made)
        rows = [row for rows in made.ragged_batch(batch) for row in np_rows(rows)]
        assert len(rows) == len(values)
        for row, value in zip(rows, values, strict=True):
            np.testing.assert_array_equal(row, expected(value))


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_of_one_length_that_only_the_data_knows(tmp_path, shuffled):
    rows = np.arange(12000, dtype="<f4").reshape(-1, 4)
    with TFRecordWriter(tmp_path / "f") as writer:
        for row in rows:
            writer.write(row.tobytes())
    ds = TFRecordDataset(tmp_path / "f")
    if shuffled:
        ds = ds.shuffle(500, 1, False)
        rows = np.stack([np.frombuffer(value, "<f4") for value in ds])
    made = ds.map(STAGES["as it is"][0])
    assert "many rows at a time" in made.plan()
    for batch, threads in [(1, 1), (7, 2), (512, 1)]:
        (got,) = taken(made.map(lambda x: (x,)).batch(batch), threads)
        np.testing.assert_array_equal(got, rows)
    uneven = Dataset.from_tensor_slices([bytes(4 * (i % 3)) for i in range(300)]).map(STAGES["as it is"][0])
    with pytest.raises(InvalidArgumentError, match="shape"):
        next(iter(uneven.batch(9)))
    padded = np.concatenate(
        [np.array(batch) for batch in uneven.padded_batch(30, padded_shapes=[4], padding_values=F4(7))]
    )
    np.testing.assert_array_equal(padded, [[0] * (i % 3) + [7] * (4 - i % 3) for i in range(300)])
    with pytest.raises(DataLossError):
        list(uneven.padded_batch(30, padded_shapes=[1]))


@pytest.mark.parametrize("bad", [0, 1, 1501, 2999])
@pytest.mark.parametrize("kind", ["array", "lines", "csv", "tfrecord", "compressed"])
def test_a_string_that_is_no_number_is_left_out_alone(tmp_path, kind, bad):
    values, ds = strings(kind, tmp_path / "f", bad)
    decoded = ds.map(STAGES["as it is"][0])
    rows, it = [], iter(decoded.ragged_batch(1))
    with pytest.raises(InvalidArgumentError, match="5 bytes"):
        for batch in it:
            rows += np_rows(batch)
    assert [row.tobytes() for row in rows] == values[:bad]
    left = [row for rows in decoded.ignore_errors().ragged_batch(100) for row in np_rows(rows)]
    assert [row.tobytes() for row in left] == values[:bad] + values[bad + 1 :]


@pytest.mark.parametrize("bad", [None, 0, 1501])
@pytest.mark.parametrize("kind", ["array", "lines", "csv", "tfrecord", "compressed"])
def test_strings_that_a_shuffle_takes_from_many_blocks(tmp_path, kind, bad):
    # Of some blocks few strings stay in the shuffle for long: those are moved.
    values, ds = strings(kind, tmp_path / "f", bad, piece=300)
    ds = ds.shuffle(1000, 3, False)
    expected = [bytes(value) for value in ds]
    assert expected != values
    assert sorted(expected) == sorted(values)
    made = ds.map(STAGES["as it is"][0]).ignore_errors()
    for batch, threads in [(1, 1), (7, 2), (512, 1)]:
        made_rows = made.ragged_batch(batch).with_options(Options(num_threads=threads))
        rows = [row.tobytes() for rows in made_rows for row in np_rows(rows)]
        assert rows == [value for value in expected if len(value) != 5]


def test_a_damaged_record_behind_good_ones(tmp_path):
    values, ds = strings("tfrecord", tmp_path / "f")
    data = bytearray((tmp_path / "f").read_bytes())
    at = sum(len(value) + 16 for value in values[:1001]) + 12
    data[at] ^= 1
    (tmp_path / "f").write_bytes(data)
    rows, it = [], iter(ds.map(STAGES["as it is"][0]).ragged_batch(1))
    with pytest.raises(DataLossError, match="record 1001"):
        for batch in it:
            rows += np_rows(batch)
    assert [row.tobytes() for row in rows] == values[:1001]


# ---- with steps that make one row at a time --------------------------------------------------------------------------

LABELS = ops.table([b"even", b"0123"], [7, 9], default=-1)


def words(i):
    return b"/".join([b"dir", text(i), b"%d" % i])


def array(i):
    return np.arange(i, i + 6, dtype=np.int16).reshape(2, 3)


# By name: the element of a number, the steps, and what they give.
MIXED = {
    "numbers in text": (
        lambda i: b"%d" % i,
        [ops.decode_csv(record_defaults=[np.int64]), lambda x: x * 2],
        lambda v: int(v) * 2,
    ),
    "a table": (
        words,
        [ops.split(sep=b"/", index=1), lambda x: LABELS[x] + 1],
        lambda v: {b"even": 7, b"0123": 9}.get(v.split(b"/")[1], -1) + 1,
    ),
    "pieces and a constant": (
        words,
        [lambda x: (ops.join([ops.split(x, b"/")[-1], b"!"]), 3), lambda x, n: (x, n * 2)],
        lambda v: (v.split(b"/")[-1] + b"!", 6),
    ),
    "a comparison": (
        words,
        [ops.split(sep=b"/", index=1), lambda x: np.where(x == b"even", np.int64(1), np.int64(2)) * 5],
        lambda v: 5 if v.split(b"/")[1] == b"even" else 10,
    ),
    "constants": (array, [lambda x: (x * 2, 3, b"abc")], lambda v: (v * 2, 3, b"abc")),
    "arithmetic first": (
        array,
        [lambda x: (x * 2).T, ops.pad(paddings=[[1, 0], [0, 2]]), lambda x: x + 1],
        lambda v: np.pad((v * 2).T, [[1, 0], [0, 2]]) + 1,
    ),
    "pixels": (
        array,
        [ops.scale(a=0.5, b=1), lambda x: x[1:] - x[:1], ops.cast(dtype=np.float64)],
        lambda v: (w := (v * np.float32(0.5) + np.float32(1)))[1:].astype("f8") - w[:1],
    ),
}


# Casts, scales, shapes and a transposition are one step, which makes many rows.
F4 = np.float32
PICTURE = [
    ([ops.cast(dtype=F4)], lambda p: p.astype(F4)),
    ([ops.scale(a=0.5, b=[1.0, 2.0, 3.0])], lambda p: p * F4(0.5) + F4([1, 2, 3])),
    (
        [ops.scale(a=[1.0, 2.0, 3.0], b=0.0), ops.transpose(perm=[2, 0, 1]), ops.cast(dtype=np.int32)],
        lambda p: (p * F4([1, 2, 3])).transpose(2, 0, 1).astype(np.int32),
    ),
    ([ops.transpose(perm=[2, 0, 1])], lambda p: p.transpose(2, 0, 1)),
    ([ops.transpose(perm=[1, 0, 2]), ops.scale(a=2.0)], lambda p: p.transpose(1, 0, 2) * F4(2)),
    ([ops.reshape(shape=[-1, 2])], lambda p: p.reshape(-1, 2)),
    ([ops.reshape(shape=[5, 12]), ops.cast(dtype=np.float64)], lambda p: p.reshape(5, 12).astype("f8")),
]


@pytest.mark.parametrize(("stages", "function"), PICTURE)
def test_chains_of_casts_and_shapes(stages, function):
    pictures = np.random.default_rng(3).integers(0, 256, (700, 4, 5, 3), np.uint8)
    ds = Dataset.from_tensor_slices(pictures)
    for stage in stages:
        ds = ds.map(stage)
    assert ds.plan().count("many rows at a time") == len(stages)
    expected = np.stack([function(picture) for picture in pictures])
    for batch, threads in [(1, 1), (7, 2), (300, 1)]:
        (got,) = taken(ds.map(lambda x: (x,)).batch(batch), threads)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("name", MIXED)
def test_with_steps_for_one_row(name, shuffled):
    element, steps, expected = MIXED[name]
    values = [element(i) for i in range(1000)]
    ds = Dataset.from_tensor_slices(values if type(values[0]) is bytes else np.stack(values))
    if shuffled:
        ds = ds.shuffle(300, 1, False)
        values = [value if type(value) is bytes else np.array(value) for value in ds]
    for step in steps:
        ds = ds.map(step)
    assert goes_natively(ds)
    assert "many rows at a time" in ds.plan()
    rows = [expected(value) for value in values]
    for batch, threads in [(1, 1), (7, 2), (400, 1)]:
        got = []
        for parts in ds.batch(batch).with_options(Options(num_threads=threads)):
            parts = parts if type(parts) is tuple else (parts,)
            got += zip(*(part.to_list() if hasattr(part, "to_list") else part.copy() for part in parts), strict=True)
        assert len(got) == len(rows)
        for row, want in zip(got, rows, strict=True):
            for part, want_part in zip(row, want if type(want) is tuple else (want,), strict=True):
                np.testing.assert_array_equal(part, want_part)


@pytest.mark.parametrize("bad", [0, 500, 999])
def test_a_row_that_such_a_step_refuses_is_left_out_alone(bad):
    values = [b"x" if i == bad else b"%d" % i for i in range(1000)]
    ds = Dataset.from_tensor_slices(values).map(MIXED["numbers in text"][1][0]).map(lambda x: x * 2)
    it, got = iter(ds.batch(7)), []
    with pytest.raises(CsvError, match="'x'"):
        for batch in it:
            got += batch.tolist()
    assert got == [2 * i for i in range(bad)]
    left = [x for batch in ds.ignore_errors().batch(100) for x in batch.tolist()]
    assert left == [2 * i for i in range(1000) if i != bad]


def test_random_steps_draw_by_the_number_of_their_element():
    ds = Dataset.from_tensor_slices(np.arange(6000, dtype=np.int32).reshape(-1, 6))
    crops = ds.map(ops.random_crop(size=[3], seed=4)).map(lambda x: x * 2)
    assert "many rows" not in crops.plan()
    first = [row.tolist() for row in crops]
    assert len({(row[0] // 2) % 6 for row in first}) > 1
    for batch, threads in [(7, 2), (400, 1)]:
        assert taken(crops.map(lambda x: (x,)).batch(batch), threads)[0].tolist() == first


# ---- Examples --------------------------------------------------------------------------------------------------------

FEATURES = {
    "x": ops.FixedLenFeature([3], np.float32),
    "n": ops.FixedLenFeature([], np.int64, -1),
    "name": ops.FixedLenFeature([], bytes, b"none"),
}


def message(i, width=3):
    """An Example; some lack what has a default."""
    parts = {"x": feature(*(float(i + k) for k in range(width)))}
    if i % 3:
        parts["n"] = feature(i)
    if i % 5:
        parts["name"] = feature(b"n" * (i % 7))
    return example(**parts, **{"other": feature(b"o" * (i % 4 * 20))} if i % 2 else {})


def in_numbers(i):
    return [i, i + 1, i + 2], i if i % 3 else -1, b"n" * (i % 7) if i % 5 else b"none"


@pytest.mark.parametrize("order", ["as it lies", "shuffled"])
@pytest.mark.parametrize("size", [0, 50, 20_000], ids=["short", "long", "very long"])
def test_examples(tmp_path, size, order):
    # `size`: bytes of a feature that is not asked for.
    count = 60 if size > 1000 else 2000
    with TFRecordWriter(tmp_path / "f") as writer:
        for i in range(count):
            writer.write(message(i) + example(pad=feature(b"p" * size)))  # messages one behind the other are merged
    ds = small(TFRecordDataset(tmp_path / "f"), 1 << 14)
    numbers = list(range(count))
    if order == "shuffled":
        ds = ds.shuffle(count // 3, 5, False)
    parsed = ds.map(ops.parse_single_example(features=FEATURES))
    if order == "shuffled":
        numbers = [int(element["x"][0]) for element in parsed]
    made = parsed.map(lambda r: (r["x"] * 2, r["n"] + 1, r["name"]))
    assert made.plan().count("many rows at a time") == 2
    for batch, threads in [(1, 1), (7, 2), (500, 1)]:
        rows = []
        for x, n, names in made.batch(batch).with_options(Options(num_threads=threads)):
            rows += zip((x / 2).tolist(), (n - 1).tolist(), names.to_list(), strict=True)
        assert rows == [in_numbers(i) for i in numbers]


@pytest.mark.parametrize("bad", [0, 777, 1999])
def test_an_example_that_lacks_values_is_left_out_alone(tmp_path, bad):
    with TFRecordWriter(tmp_path / "f") as writer:
        for i in range(2000):
            writer.write(message(i, 2 if i == bad else 3))
    ds = TFRecordDataset(tmp_path / "f").map(ops.parse_single_example(features=FEATURES)).map(lambda r: r["x"] + 1)
    rows = []
    with pytest.raises(InvalidArgumentError, match=f"Key: x.*record {bad},"):
        for x in ds.batch(50):
            rows += x[:, 0].tolist()
    assert rows == [i + 1 for i in range(bad)]
    left = [value for x in ds.ignore_errors().batch(300) for value in x[:, 0].tolist()]
    assert left == [i + 1 for i in range(2000) if i != bad]


def test_ragged_features(tmp_path):
    values = [list(range(i % 6)) for i in range(1000)]
    with TFRecordWriter(tmp_path / "f") as writer:
        for row in values:
            writer.write(example(v=feature(*row, kind=np.int64), n=feature(len(row))))
    features = {"v": ops.RaggedFeature(np.int64), "n": ops.FixedLenFeature([], np.int64)}
    ds = TFRecordDataset(tmp_path / "f").map(ops.parse_single_example(features=features))
    for batch in (1, 7, 400):
        rows = []
        for element in ds.map(lambda r: (r["v"], r["n"] * 2)).batch(batch):
            assert (np.diff(element[0].row_splits) * 2 == element[1]).all()
            rows += [row.tolist() for row in element[0]]
        assert rows == values


def test_records_of_csv_in_strings():
    lines = [b'%d,"t""%d",%s' % (i, i % 3, b"" if i % 4 else b"%.2f" % (i / 8)) for i in range(1000)]
    ds = Dataset.from_tensor_slices(lines).shuffle(200, 3, False)
    numbers = [int(line.split(b",")[0]) for line in ds]
    made = ds.map(ops.decode_csv(record_defaults=[np.int64, b"", F4(-1)])).map(lambda n, s, x: (n * 2, s, x + 1))
    assert made.plan().count("many rows at a time") == 2
    for batch, threads in [(1, 1), (7, 2), (300, 1)]:
        rows = []
        for n, texts, x in made.batch(batch).with_options(Options(num_threads=threads)):
            rows += zip((n // 2).tolist(), texts.to_list(), x.tolist(), strict=True)
        assert rows == [(i, b't"%d' % (i % 3), 0 if i % 4 else F4(f"{i / 8:.2f}") + F4(1)) for i in numbers]
