"""Rows of Parquet and Arrow files, and of Hugging Face's datasets: what pyarrow itself says that they are."""

import decimal
import io
import os
import pickle
import random
import sys

import numpy as np
import pytest
from helpers.data.transformed import check, places

import queuecore as qc
from queuecore.data import ArrowDataset, Dataset, Options, ParquetDataset
from queuecore.errors import (
    DataLossError,
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    QueueCoreError,
    ResumeMismatchError,
    SourceChangedError,
    UnimplementedError,
)

KINDS = ["parquet", "file", "stream"]


@pytest.fixture
def pa():
    pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: make doors")
    return sys.modules["pyarrow"]


def written(pa, path, table, kind="parquet", rows=7):
    """Write a table in groups of so many rows; return the name."""
    if kind == "parquet":
        pa.parquet.write_table(table, path, row_group_size=rows)
    else:
        make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return str(path)


def dataset(kind, *arguments, **words):
    return (ParquetDataset if kind == "parquet" else ArrowDataset)(*arguments, **words)


def table_of(pa, count):
    """A table with a column of every type that is read."""
    state = random.Random(count)
    numbers = {
        f"n{number}": pa.array([state.randrange(100) for _ in range(count)]).cast(kind)
        for number, kind in enumerate([pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()])
    }
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table(
        numbers
        | {
            "flag": pa.array([state.random() < 0.5 for _ in range(count)], pa.bool_()),
            "half": pa.array(np.arange(count, dtype=np.float16)),
            "text": pa.array(["é" * state.randrange(4) for _ in range(count)], pa.string()),
            "large": pa.array([b"\0" * state.randrange(4) for _ in range(count)], pa.large_binary()),
            "fixed": pa.array([state.randbytes(5) for _ in range(count)], pa.binary(5)),
            "list": pa.array([list(range(state.randrange(4))) for _ in range(count)], pa.list_(pa.int32())),
            "words": pa.array([["a" * n for n in range(row % 4)] for row in range(count)], pa.list_(pa.string())),
            "pair": pa.array([[1.5, n] for n in range(count)], pa.list_(pa.float32(), 2)),
            "kind": pa.array([f"k{n % 3}" for n in range(count)], pa.string()).dictionary_encode(),
            "picture": pa.array([{"bytes": b"%d" % n, "path": None} for n in range(count)], picture),
            "inner": pa.array([{"a": n, "b": str(n)} for n in range(count)], inner),
        }
    )


def right(value):
    """A value of pyarrow's as an element has it."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        is_picture = set(value) == {"bytes", "path"}
        return value["bytes"] if is_picture else {name: right(part) for name, part in value.items()}
    return [right(part) for part in value] if isinstance(value, list) else value


def plain(element):
    if isinstance(element, dict):
        return {name: plain(part) for name, part in element.items()}
    if isinstance(element, qc.Ragged):
        return element.to_list()
    return element.tolist() if isinstance(element, np.ndarray | np.generic) else element


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_every_type(pa, tmp_path, kind, count):
    table = table_of(pa, count)
    ds = dataset(kind, [written(pa, tmp_path / "a", table, kind)] * 2)
    assert [plain(element) for element in ds] == [right(row) for row in table.to_pylist()] * 2
    assert len(ds) == 2 * count
    spec = ds.element_spec
    assert (spec["n1"].dtype, spec["flag"].dtype, spec["half"].dtype) == (np.uint16, np.bool_, np.float16)
    assert (spec["list"].shape, spec["pair"].shape, spec["inner"]["a"].shape) == ((None,), (2,), ())


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_orders_and_places(pa, tmp_path, kind):
    parts = [range(0, 20), range(20, 20), range(20, 33), range(33, 34)]
    tables = [pa.table({"x": pa.array(part, pa.int64())}) for part in parts]
    names = [written(pa, tmp_path / f"{number}.x", table, kind, 6) for number, table in enumerate(tables)]
    rows = [{"x": number} for number in range(34)]
    check(lambda: dataset(kind, names), rows, plain)
    assert [plain(row) for row in dataset(kind, f"{tmp_path}/*.x").skip(19).take(3)] == rows[19:22]
    shuffled = [plain(row)["x"] for row in dataset(kind, names).shuffle(10, seed=1)]
    assert shuffled != sorted(shuffled) == list(range(34))
    shards = [[plain(row)["x"] for row in dataset(kind, names).shard(3, number)] for number in range(3)]
    assert shards == [list(range(number, 34, 3)) for number in range(3)]
    batches = [batch["x"].tolist() for batch in dataset(kind, names).repeat(2).batch(10)]
    assert [x for batch in batches for x in batch] == 2 * list(range(34))
    assert [plain(row) for row in pickle.loads(pickle.dumps(dataset(kind, names)))] == rows


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_chosen_in_their_order(pa, tmp_path, kind):
    name = written(pa, tmp_path / "a", table_of(pa, 9), kind)
    ds = dataset(kind, name, ["text", "n3"])
    assert list(ds.element_spec) == ["text", "n3"]
    steps = ds.map(lambda row: (row["n3"] + 1, row["text"])).batch(4)
    assert "Python  map" not in steps.plan()
    assert sum(len(numbers) for numbers, _ in steps) == 9
    for columns, text in ((["missing"], "no column 'missing'"), ("text", "must be a list"), ([1], "must be a list")):
        with pytest.raises(InvalidArgumentError, match=text):
            dataset(kind, name, columns)
    with pytest.raises(InvalidArgumentError, match="no columns"):
        dataset(kind, name, [])
    with pytest.raises(InvalidArgumentError, match="several columns 'x'"):
        dataset(kind, written(pa, tmp_path / "b", pa.table([[1], [2]], ["x", "x"]), kind), ["x"])


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_types_that_have_no_dtype(pa, tmp_path, kind):
    columns = {
        "time": pa.array([0], pa.timestamp("us")),
        "decimal": pa.array([decimal.Decimal(1)]),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "nested": pa.array([[[1]]]),
    }
    for label, column in columns.items():
        name = written(pa, tmp_path / label, pa.table({"x": [1], label: column}), kind)
        with pytest.raises(DtypeError, match=rf"column '{label}' is of .*columns="):
            dataset(kind, name)
        assert [plain(row) for row in dataset(kind, name, ["x"])] == [{"x": 1}]


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_lack_a_value(pa, tmp_path, kind):
    columns = {
        "x": [0, None, 2, 3, 4, 5, 6, 7, 8, 9],
        "list": [[1], [1], [1, None], [], None, [1], [1], [1], [1], [1]],
        "inner": [{"a": 1}] * 5 + [{"a": None}, None] + [{"a": 1}] * 3,
        "kind": pa.array(["a"] * 7 + [None] + ["a"] * 2).dictionary_encode(),
        "pair": pa.array([[1, 2]] * 8 + [[1, None], [1, 2]], pa.list_(pa.int64(), 2)),
    }
    table = pa.table(columns)
    name = written(pa, tmp_path / "a", table, kind, 4)
    good = [right(table.to_pylist()[number]) for number in (0, 3, 9)]
    for number in (1, 2):
        it = iter(dataset(kind, [name, name]).with_options(Options(num_threads=number)))
        met, results = [], []
        while True:
            try:
                results.append(plain(next(it)))
            except StopIteration:
                break
            except InvalidArgumentError as error:
                met.append((error.record, error.path))
        assert results == good * 2
        assert met == [(record, name) for record in (1, 2, 4, 5, 6, 7, 8)] * 2
        skipping = dataset(kind, [name, name]).with_options(Options(num_threads=number, on_error="skip"))
        with iter(skipping) as it:
            assert [plain(row) for row in it] == good * 2
            assert it.stats()["skipped"] == 14
        places(lambda ds=skipping: ds, number, good * 2, plain)
    with pytest.raises(InvalidArgumentError, match=r"row 1 has no value in 'x'"):
        list(dataset(kind, name))


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_files_whose_columns_differ(pa, tmp_path, kind):
    good = pa.table({"x": [1, 2], "y": ["a", "b"]})
    others = [
        pa.table({"x": pa.array([1, 2], pa.int32()), "y": ["a", "b"]}),
        pa.table({"x": [1, 2]}),
        pa.table({"y": ["a", "b"], "x": [1, 2]}),
    ]
    for number, other in enumerate(others):
        names = [written(pa, tmp_path / f"{number}{at}", table, kind) for at, table in enumerate((good, other, good))]
        ds = dataset(kind, names)
        with pytest.raises(InvalidArgumentError, match=f"{names[1]}.*x") as caught:
            list(ds)
        assert caught.value.path == names[1]
        assert len(list(ds.with_options(Options(on_error="skip")))) == 4
        if number == 2:
            assert len(list(dataset(kind, names, ["y", "x"]))) == 6


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_damaged(pa, tmp_path, kind):
    table = table_of(pa, 30)
    name = written(pa, tmp_path / "good", table, kind)
    data = (tmp_path / "good").read_bytes()
    rows = [right(row) for row in table.to_pylist()]
    bad = tmp_path / "bad"
    for end in range(0, len(data), max(len(data) // 40, 1)):
        bad.write_bytes(data[:end])
        ds = dataset(kind, [name, bad, name])
        if kind != "stream" or end < 100:
            with pytest.raises(DataLossError) as caught:
                list(ds)
            assert caught.value.path == str(bad)
        got = [plain(row) for row in ds.with_options(Options(on_error="skip"))]
        assert got[:30] == got[-30:] == rows and got[30:-30] == rows[: len(got) - 60]
    state = random.Random(0)
    for _ in range(60):  # pyarrow can't tell all of them; nothing else may come of them than elements or errors
        damaged = bytearray(data)
        damaged[state.randrange(len(data))] ^= 1 << state.randrange(8)
        bad.write_bytes(damaged)
        try:
            for batch in dataset(kind, bad).batch(4):
                plain(batch)
        except (QueueCoreError, UnicodeDecodeError):
            pass


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_not_there_or_change(pa, tmp_path, kind):
    name = written(pa, tmp_path / "a", pa.table({"x": range(20)}), kind)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("no table " * 100)
    errors = {"missing": NotFoundError, "": NotAFileError, "pipe": NotAFileError, "text": DataLossError}
    for other, error in errors.items():
        with pytest.raises(error) as caught:
            dataset(kind, tmp_path / other)
        assert caught.value.path == str(tmp_path / other)
        with pytest.raises(error):
            list(dataset(kind, [name, tmp_path / other]))
    with pytest.raises(InvalidArgumentError, match="no file"):
        dataset(kind, f"{tmp_path}/*.none")
    with pytest.raises(InvalidArgumentError, match="no files"):
        dataset(kind, [])
    ds = dataset(kind, name)
    written(pa, tmp_path / "b", pa.table({"x": range(9)}), kind)
    (tmp_path / "b").rename(name)
    with pytest.raises(SourceChangedError, match="another file"):
        list(ds)


@pytest.mark.doors
@pytest.mark.parametrize("identity", ["stat", "content"])
@pytest.mark.parametrize("kind", KINDS)
def test_places_and_caches_know_the_files(pa, tmp_path, kind, identity):
    names = [written(pa, tmp_path / f"{number}", pa.table({"x": range(20)}), kind) for number in range(2)]
    options = Options(identity=identity)
    with iter(dataset(kind, names).with_options(options)) as it:
        first = next(it)
        state = it.state_dict()
    list(dataset(kind, names).cache(tmp_path / "kept"))
    with iter(dataset(kind, names).with_options(options)) as it:
        it.load_state_dict(state)
        assert next(it)["x"] == first["x"] + 1
    written(pa, tmp_path / "1", pa.table({"x": range(30, 60)}), kind)
    with iter(dataset(kind, names).with_options(options)) as it, pytest.raises(ResumeMismatchError) as caught:
        it.load_state_dict(state)
    assert caught.value.path == names[1]
    with pytest.raises(FailedPreconditionError, match="has changed since"):
        list(dataset(kind, names).cache(tmp_path / "kept"))


@pytest.mark.doors
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_store(pa, tmp_path, kind):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    table = table_of(pa, 30)
    memory.pipe("/tables/a", (tmp_path / written(pa, tmp_path / "a", table, kind)).read_bytes())
    try:
        ds = dataset(kind, "memory://tables/*")
        assert [plain(row) for row in ds] == [right(row) for row in table.to_pylist()]
        assert len(ds) == 30
        with pytest.raises(NotFoundError):
            dataset(kind, "memory://tables/b")
    finally:
        memory.rm("/tables", recursive=True)


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a").write_bytes(b"")
    for kind in KINDS:
        with pytest.raises(UnimplementedError, match="pip install pyarrow"):
            dataset(kind, tmp_path / "a")


# ---- Hugging Face ----


@pytest.fixture
def datasets(pa, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    return pytest.importorskip("datasets", reason="datasets is not installed: make doors")


def rows_of(datasets, count):
    return datasets.Dataset.from_dict(
        {"x": list(range(count)), "text": [str(n) for n in range(count)], "list": [[n] * (n % 3) for n in range(count)]}
    )


@pytest.mark.doors
def test_rows_of_hugging_face(datasets):
    rows = rows_of(datasets, 300)
    expected = [{"x": n, "text": b"%d" % n, "list": [n] * (n % 3)} for n in range(300)]
    check(lambda: Dataset.from_hugging_face(rows), expected, plain)
    chosen = rows.shuffle(seed=3).select(range(100))
    ds = Dataset.from_hugging_face(chosen.with_format("numpy"), ["text"])
    assert len(ds) == 100 and [plain(one)["text"] for one in ds] == [text.encode() for text in chosen["text"]]
    permuted = [plain(one)["x"] for one in Dataset.from_hugging_face(rows).permute(seed=1)]
    assert permuted != sorted(permuted) == list(range(300))


@pytest.mark.doors
def test_rows_of_hugging_face_that_stream(datasets):
    stream = rows_of(datasets, 200).to_iterable_dataset(num_shards=3)
    expected = [{"x": n} for n in range(200)]
    check(lambda: Dataset.from_hugging_face(stream, ["x"]), expected, plain)
    with pytest.raises(TypeError):
        len(Dataset.from_hugging_face(stream))


@pytest.mark.doors
def test_pictures_of_hugging_face(datasets):
    from PIL import Image

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    pictures = [Image.fromarray(np.full((5, 4, 3), n, np.uint8)) for n in range(9)]
    rows = datasets.Dataset.from_dict({"image": pictures, "label": [n % 2 for n in range(9)]}, features=features)

    def vision(row):
        return qc.ops.decode_image(row["image"], channels=3), row["label"]

    ds = Dataset.from_hugging_face(rows).map(vision)
    assert "Python  map" not in ds.plan()
    for n, (image, label) in enumerate(ds):
        assert np.array_equal(image, np.full((5, 4, 3), n)) and label == n % 2
    data = io.BytesIO()
    pictures[0].save(data, "PNG")
    assert next(iter(Dataset.from_hugging_face(rows)))["image"] == data.getvalue()


@pytest.mark.doors
def test_what_is_no_dataset_of_hugging_face(datasets):
    rows = rows_of(datasets, 3)
    for bad in (3, None, {"x": [1]}, datasets.DatasetDict({"train": rows})):
        with pytest.raises(DtypeError, match="no dataset of Hugging Face's"):
            Dataset.from_hugging_face(bad)
    with pytest.raises(InvalidArgumentError, match="no column 'q'"):
        Dataset.from_hugging_face(rows, ["q"])
    with pytest.raises(InvalidArgumentError, match="must be a list"):
        Dataset.from_hugging_face(rows, "x")
    lacking = datasets.Dataset.from_dict({"x": [1, None, 3]})
    with pytest.raises(InvalidArgumentError, match="row 1 has no value in 'x'"):
        list(Dataset.from_hugging_face(lacking))
    with pytest.raises(InvalidArgumentError, match="row 1 has no value"):
        list(Dataset.from_hugging_face(lacking).permute(seed=1))
