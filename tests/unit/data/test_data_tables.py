"""`make_csv_dataset`, `make_batched_features_dataset`, `parse_example_dataset`, `SqlDataset`, and columns by names.

The values are those that TensorFlow 2.21 gives for the same files, but for what is ours: columns of `CsvDataset` by
names, whose oracle is the module `csv`.
"""

import contextlib
import csv
import gzip
import pickle
import re
import sqlite3

import numpy as np
import pytest
from helpers.data.transformed import check, run, values

from queuecore import TFRecordWriter, ops
from queuecore._elements.component import BYTES
from queuecore.data import ArraySpec, CsvDataset, Dataset, Options, TFRecordDataset, WholeFileDataset, experimental
from queuecore.errors import (
    CsvError,
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResumeMismatchError,
    UnknownError,
)

A = "x,name,y,big\n1.5,a,0,5000000000\n2,b,1,7\n,c,2,\n"
B = 'x,name,y,big\n9,"q,r",3,1\n8,s,4,2\n'
BATCHES = [
    {"x": [1.5, 2.0], "name": [b"a", b"b"], "y": [0, 1], "big": [5000000000, 7]},
    {"x": [0.0, 9.0], "name": [b"c", b"q,r"], "y": [2, 3], "big": [0, 1]},
    {"x": [8.0], "name": [b"s"], "y": [4], "big": [2]},
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_text(A)
    (tmp_path / "b.csv").write_text(B)
    (tmp_path / "plain").write_text("1,2,3\n4,5,6\n7,8,x\n")
    with gzip.open(tmp_path / "c.gz", "wt") as file:
        file.write("p,q\n1,nan\n2,3\n")
    return tmp_path


def table(files, **given):
    return experimental.make_csv_dataset(files, 2, **{"num_epochs": 1, "shuffle": False, **given})


def test_tables(folder):
    check(lambda: table(folder / "[ab].csv"), BATCHES, values)
    spec = table(folder / "a.csv").element_spec
    assert {name: one.dtype for name, one in spec.items()} == {"x": "f4", "name": "S", "y": "i4", "big": "i8"}
    labelled = table([folder / "b.csv", folder / "a.csv"], label_name="y")
    assert run(labelled, values) == [({k: v for k, v in one.items() if k != "y"}, one["y"]) for one in BATCHES]
    turns = table(folder / "[ab].csv", num_parallel_reads=2)
    assert [one["y"].tolist() for one in turns] == [[0, 3], [1, 4], [2]]
    assert {y for one in table(folder / "[ab].csv", num_parallel_reads=-1) for y in one["y"].tolist()} == set(range(5))


def test_columns_and_types(folder):
    some = table(folder / "a.csv", select_columns=["big", "x"])
    assert run(some.take(1), values) == [{"x": [1.5, 2.0], "big": [5000000000, 7]}]
    given = table(folder / "a.csv", select_columns=[1, 2], column_defaults=[b"z", np.int64(0)])
    assert next(iter(given))["y"].dtype == np.int64
    packed = table(folder / "c.gz", compression_type="GZIP")
    assert run(packed, values) == [{"p": [1, 2], "q": [b"nan", b"3"]}]  # nan is of no type of numbers
    bare = table(folder / "plain", header=False, column_names=["a", "b", "c"])
    assert run(bare, values) == [{"a": [1, 4], "b": [2, 5], "c": [b"3", b"6"]}, {"a": [7], "b": [8], "c": [b"x"]}]
    missing = next(iter(table(folder / "a.csv", na_value="a")))
    assert values(missing["name"]) == [b"", b"b"]


def test_rows_that_cannot_be_read(folder):
    few = {"header": False, "column_names": ["a", "b", "c"], "num_rows_for_inference": 2}
    assert run(table(folder / "plain", ignore_errors=True, **few), values) == [{"a": [1, 4], "b": [2, 5], "c": [3, 6]}]
    it = iter(table(folder / "plain", **few))
    assert next(it)["c"].tolist() == [3, 6]
    with pytest.raises(CsvError):
        next(it)


def test_shuffled_tables_have_tensorflow_s_order(folder):
    ds = experimental.make_csv_dataset(folder / "a.csv", 2, shuffle_seed=3)
    assert ds.element_spec["y"].shape == (2,)
    assert [one["y"].tolist() for one in ds.take(4)] == [[0, 1], [2, 0], [2, 1], [2, 1]]


@pytest.mark.parametrize(
    "given",
    [
        {"file_pattern": "plain", "header": False},
        {"file_pattern": "plain", "header": False, "column_names": ["a", "a", "c"]},
        {"label_name": "nope"},
        {"select_columns": ["x", "x"]},
        {"select_columns": ["nope"]},
        {"select_columns": [7]},
        {"select_columns": [0], "column_defaults": [0, 0]},
        {"file_pattern": "nothing"},
        {"file_pattern": "*"},
        {"compression_type": "ZLIB"},
        {"batch_size": 0},
    ],
    ids=str,
)
def test_tables_that_cannot_be(folder, given):
    arguments = {"batch_size": 2, **given}
    pattern = folder / arguments.pop("file_pattern", "a.csv")
    with pytest.raises(ValueError, match=r"\w"):
        experimental.make_csv_dataset(pattern, **arguments)


def test_columns_by_name(folder):
    rows = list(csv.DictReader(A.splitlines()))
    columns = {"big": np.int64(0), "x": 0.0}
    by_name = CsvDataset(folder / "a.csv", list(columns.values()), header=True, select_cols=list(columns))
    expected = [(int(row["big"] or 0), float(row["x"] or 0)) for row in rows]
    check(lambda: by_name, expected, values)
    dicts = CsvDataset(
        iter([folder / "a.csv"]), list(columns.values()), None, None, True, select_cols=list(columns), as_dict=True
    )
    assert run(dicts, values) == [dict(zip(columns, row, strict=True)) for row in expected]
    assert list(dicts.element_spec) == list(columns)
    doubled = dicts.map(lambda row: row["x"] * 2).batch(3)
    assert "traced" in doubled.plan()
    assert run(doubled, values) == [[3.0, 4.0, 0.0]]
    for without in (["name", "y"], [2, 1], ["y", 1]):
        ds = CsvDataset(folder / "a.csv", [0.0, np.int64(0)], header=True, exclude_cols=without, as_dict=True)
        assert run(ds, values) == [{"x": x, "big": big} for big, x in expected]
    every = CsvDataset(folder / "[ab].csv", [0.0, b"", 0, np.int64(0)], header=True, as_dict=True).batch(2)
    assert run(every, values) == BATCHES


@pytest.mark.parametrize(
    "given",
    [
        {"select_cols": ["x", "nope"]},
        {"select_cols": ["x", "x"]},
        {"select_cols": ["x", "y"], "header": False},
        {"select_cols": [0, 1], "exclude_cols": [2, 3]},
        {"exclude_cols": ["nope"]},
        {"as_dict": True},
        {"as_dict": True, "header": False, "select_cols": [0, 1]},
        {"as_dict": 1},
    ],
    ids=str,
)
def test_names_that_there_are_not(folder, given):
    with pytest.raises(InvalidArgumentError):
        CsvDataset(folder / "a.csv", [0.0, 0], **{"header": True, **given})


def test_columns_excluded_that_there_are_not(folder):
    plain = {"record_defaults": [0, 0], "header": False}
    assert run(CsvDataset(folder / "plain", exclude_cols=[0, 9], **plain).take(1), values) == [(2, 3)]
    with pytest.raises(CsvError, match="expected 4 fields, got 3"):
        list(CsvDataset(folder / "plain", [0] * 3, exclude_cols=[1]))


@pytest.mark.parametrize("buffered", [0, 1], ids=["plain", "quoted"])
def test_fields_behind_the_columns_that_are_left(tmp_path, buffered):
    file = tmp_path / "wide.csv"
    file.write_text("1,2,3\n4,5\n" + ('"6"' if buffered else "6") + ",7,8,9\n")
    rows = iter(CsvDataset(file, [0], exclude_cols=[1, 2]))
    assert [int(next(rows)[0]) for _ in range(2)] == [1, 4]
    with pytest.raises(CsvError, match="line 3: expected 1 fields, got 4"):
        next(rows)
    # Numbers that are selected say nothing of those behind.
    assert run(CsvDataset(file, [0], select_cols=[0]), values) == [(1,), (4,), (6,)]


@pytest.mark.parametrize("size", [0, -3])
def test_a_buffer_of_nothing(folder, size):
    with pytest.raises(InvalidArgumentError, match="buffer_size"):
        CsvDataset(folder / "plain", [0, 0], buffer_size=size)


def example(number):
    """An Example with a number `a` below 128, and as many numbers `b`, by the wire format's rules."""

    def field(tag, data):
        return bytes([8 * tag + 2, len(data)]) + data

    def feature(name, numbers):
        return field(1, field(1, name) + field(2, field(3, field(1, bytes(numbers)))))

    return field(1, feature(b"a", [number]) + feature(b"b", [7] * number))


FEATURES = {"a": ops.FixedLenFeature((), np.int64), "b": ops.VarLenFeature(np.int64)}


def sides(element):
    return element["a"].tolist(), element["b"].dense_shape.tolist()


def test_examples_of_batches():
    ds = Dataset.from_tensor_slices([example(number) for number in range(5)]).batch(2)
    parsed = ds.apply(experimental.parse_example_dataset(FEATURES, num_parallel_calls=2))
    check(lambda: parsed, [([0, 1], [2, 1]), ([2, 3], [2, 3]), ([4], [1, 4])], sides)
    with pytest.raises(ValueError, match="Argument `features` is required, but not specified"):
        experimental.parse_example_dataset(None)
    for bad in (Dataset.range(3).batch(2), ds.unbatch(), ds.batch(2), Dataset.zip(ds, ds)):
        with pytest.raises(TypeError, match="Input dataset should be a dataset of vectors of strings"):
            bad.apply(experimental.parse_example_dataset(FEATURES))


def test_examples_of_vectors_that_are_no_batch():
    examples = Dataset.from_tensors(np.array([example(number) for number in (3, 4)], object))
    # Examples 3 and 4 have one number `a`, which is their own, and that many numbers `b`.
    one = examples.apply(experimental.parse_example_dataset(FEATURES))
    batch = examples.unbatch().batch(2).apply(experimental.parse_example_dataset(FEATURES))
    assert one.element_spec["a"] == ArraySpec((None,), np.dtype(np.int64))
    assert run(one, sides) == run(batch, sides)
    # As a stage, too.
    assert run(examples.map(ops.parse_example(features=FEATURES)), sides) == run(batch, sides)


def test_strings_of_examples_in_several_dimensions():
    features = {"s": ops.FixedLenFeature((1, 2), bytes, [b"x", b"y"])}
    parsed = Dataset.from_tensors(b"").repeat(3).batch(2).apply(experimental.parse_example_dataset(features))
    assert [one["s"].to_list() for one in parsed] == [[[[b"x", b"y"]]] * 2, [[[b"x", b"y"]]]]


def batches(files, **given):
    words = {"num_epochs": 1, "shuffle": False, **given}
    return experimental.make_batched_features_dataset(files, 2, FEATURES, **words)


def test_features_of_files(tmp_path):
    for name, numbers in (("a", range(3)), ("b", range(10, 12))):
        with TFRecordWriter(tmp_path / name) as writer:
            for number in numbers:
                writer.write(example(number))
    files = tmp_path / "*"
    assert [x["a"].tolist() for x in batches(files)] == [[0, 1], [2, 10], [11]]
    assert [x["a"].tolist() for x in batches(files, drop_final_batch=True)] == [[0, 1], [2, 10]]
    assert [x["a"].tolist() for x in batches(files, reader_num_threads=2)] == [[0, 10], [1, 11], [2]]
    features, label = next(iter(batches(files, label_key="a")))
    assert (list(features), label.tolist()) == (["b"], [0, 1])
    endless = batches(files, num_epochs=None, shuffle=True, shuffle_seed=1)
    assert endless.element_spec["a"] == ArraySpec((2,), np.dtype(np.int64))
    assert sorted(n for x in endless.take(5) for n in x["a"].tolist()) == sorted([0, 1, 2, 10, 11] * 2)
    by_reader = batches(files, reader=TFRecordDataset, reader_args=["", 1 << 10], parser_num_threads=-1)
    assert [x["a"].tolist() for x in by_reader] == [[0, 1], [2, 10], [11]]
    (tmp_path / "a").write_bytes(example(5))
    (tmp_path / "b").write_bytes(example(6))
    assert [x["a"].tolist() for x in batches(files, reader=WholeFileDataset)] == [[5, 6]]  # keys and values
    for bad, error in (({"label_key": "c"}, ValueError), ({"reader": 1}, TypeError)):
        with pytest.raises(error):
            batches(files, **bad)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a.sqlite"
    rows = [
        ("John", 9, 1.5, "123"),
        ("J\0ane", -128, -0.1, "12.9x"),
        ("", 2**31, 1e300, "abc"),
        (None, 2**63 - 1, 3.0, "-7"),
        ("y", None, None, None),
        ("z", -(2**63), 123456789012.25, " 8"),
        (b"\0\xff", 70000, 5.0, "1e3"),
    ]
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT, i INTEGER, r REAL, v VARCHAR(9))")
    connection.executemany("INSERT INTO t (s, i, r, v) VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


# Of a column as a type: TensorFlow's values.
RESULTS = {
    ("s", bytes): [b"John", b"J\0ane", b"", b"", b"y", b"z", b"\0\xff"],
    ("i", np.int8): [9, -128, 0, -1, 0, 0, 112],
    ("i", np.uint16): [9, 65408, 0, 65535, 0, 0, 4464],
    ("i", np.int32): [9, -128, -(2**31), -1, 0, 0, 70000],
    ("i", np.int64): [9, -128, 2**31, 2**63 - 1, 0, -(2**63), 70000],
    ("i", np.bool_): [True, True, True, True, False, True, True],
    ("i", np.float64): [9.0, -128.0, 2.0**31, 2.0**63, 0.0, -(2.0**63), 70000.0],
    ("i", bytes): [b"9", b"-128", b"2147483648", b"9223372036854775807", b"", b"-9223372036854775808", b"70000"],
    ("r", np.float64): [1.5, -0.1, 1e300, 3.0, 0.0, 123456789012.25, 5.0],
    ("r", np.int64): [1, 0, 2**63 - 1, 3, 0, 123456789012, 5],
    ("r", bytes): [b"1.5", b"-0.1", b"1.0e+300", b"3.0", b"", b"123456789012.25", b"5.0"],
    ("v", np.int32): [123, 12, 0, -7, 0, 8, 1],
    ("v", np.float64): [123.0, 12.9, 0.0, -7.0, 0.0, 8.0, 1000.0],
}


@pytest.mark.parametrize("case", RESULTS, ids=lambda case: f"{case[0]} as {case[1].__name__}")
def test_columns_of_a_database(database, case):
    column, dtype = case
    ds = experimental.SqlDataset("sqlite", database, f"SELECT {column} FROM t ORDER BY id", (dtype,))
    expected = RESULTS[case]
    if (column, dtype) == ("i", np.int32):
        expected = [int(np.int64(one).astype(np.int32)) for one in RESULTS["i", np.int64]]
    assert run(ds, values) == [(one,) for one in expected]


def test_rows_of_a_database(database):
    def make():
        query = "SELECT i, s FROM t WHERE id > 4 ORDER BY id"
        return experimental.SqlDataset(b"sqlite", str(database), query, {"number": np.int64, "text": bytes})

    expected = [{"number": 0, "text": b"y"}, {"number": -(2**63), "text": b"z"}, {"number": 70000, "text": b"\0\xff"}]
    check(make, expected, values)
    assert make().element_spec["text"] == ArraySpec((), np.dtype("S"))
    assert run(make().map(lambda x: x["number"] + 1).batch(3), values) == [[1, -(2**63) + 1, 70001]]
    none = experimental.SqlDataset("sqlite", database, "SELECT s FROM t WHERE i = 55", (bytes,))
    assert list(none) == []


@pytest.mark.parametrize("identity", ["stat", "content"])
def test_places_and_caches_know_the_database(database, tmp_path, identity):
    def make():
        return experimental.SqlDataset("sqlite", database, "SELECT s FROM t", (bytes,))

    options = Options(identity=identity)
    with iter(make().with_options(options)) as it:
        next(it)
        state = it.state_dict()
        rest = run(it, values)
    list(make().cache(tmp_path / "kept"))
    with iter(make().with_options(options)) as it:
        it.load_state_dict(state)
        assert run(it, values) == rest
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE t SET s = 'another and longer one'")
        db.commit()
    with iter(make().with_options(options)) as it, pytest.raises(ResumeMismatchError) as caught:
        it.load_state_dict(state)
    assert caught.value.path == str(database)
    with pytest.raises(FailedPreconditionError, match="has changed since"):
        list(make().cache(tmp_path / "kept"))


def test_queries_that_cannot_be(database, tmp_path):
    with pytest.raises(InvalidArgumentError, match="The database type, sqlfake, is not supported by SqlDataset"):
        experimental.SqlDataset("sqlfake", database, "SELECT s FROM t", (bytes,))
    for query, types, error, text in (
        ("SELECT nope FROM t", (bytes,), UnknownError, "no such column: nope"),
        ("SELEC s FROM t", (bytes,), UnknownError, "syntax error"),
        ("SELECT s, i FROM t", (bytes,), InvalidArgumentError, r"columns in query \(2\) must match .* \(1\)"),
        ("INSERT INTO t (s) VALUES ('a')", (bytes,), InvalidArgumentError, r"columns in query \(0\) must match"),
    ):
        with pytest.raises(error, match=text):
            list(experimental.SqlDataset("sqlite", database, query, types))
    with pytest.raises(NotFoundError, match="there is no database"):
        list(experimental.SqlDataset("sqlite", tmp_path / "none", "SELECT 1", (np.int32,)))
    for bad in (complex, "no dtype", np.float16):
        with pytest.raises(DtypeError):
            experimental.SqlDataset("sqlite", database, "SELECT 1", (bad,))


# ---- columns of uint8 and bool


NARROW = "a,b,c\n1,true,x\n255,0,y\n,FALSE,z\n256,1,w\n 4,True,v\n5,no,u\n6,,t\n"


@pytest.mark.parametrize("defaults", [[np.uint8(7), True, b""], [[np.uint8(7)], np.array([True]), ""]])
def test_small_numbers_and_truths_are_read_natively(tmp_path, defaults):
    file = tmp_path / "a.csv"
    file.write_text(NARROW)
    ds = CsvDataset(file, defaults, header=True)
    assert [one.dtype for one in ds.element_spec] == [np.uint8, np.bool_, BYTES]
    assert "Python" not in ds.plan()
    it = iter(ds)
    assert [next(it) for _ in range(3)] == [(1, True, b"x"), (255, False, b"y"), (7, False, b"z")]
    wrongs = [
        "column 1 ('a'): '256' is no uint8",
        "column 1 ('a'): ' 4' is no uint8",
        "column 2 ('b'): 'no' is no bool",
    ]
    for record, wrong in enumerate(wrongs, 3):
        with pytest.raises(CsvError, match=re.escape(wrong)) as caught:
            next(it)
        assert (caught.value.record, caught.value.line) == (record, record + 2)
        assert caught.value.path == str(file)
    assert list(it) == [(6, True, b"t")]
    (batch,) = ds.with_options(Options(on_error="skip")).batch(4)
    assert batch[0].dtype == np.uint8
    assert batch[0].tolist() == [1, 255, 7, 6]
    assert batch[1].tolist() == [True, False, False, True]


def test_small_numbers_and_truths_where_a_value_is_required(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n,1\n3,0\n")
    it = iter(CsvDataset(file, [np.uint8, bool], header=True))
    with pytest.raises(CsvError, match="required"):
        next(it)
    assert next(it) == (3, False)


def test_small_numbers_and_truths_by_name(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(NARROW)
    options = {"header": True, "select_cols": ["b", "a"]}
    assert next(iter(CsvDataset(file, [bool, np.uint8], **options))) == (True, 1)
    ds = CsvDataset(file, [bool, np.uint8], as_dict=True, **options)
    for one in (ds, pickle.loads(pickle.dumps(ds))):
        assert list(next(iter(one)).items()) == [("b", True), ("a", 1)]
    assert next(iter(CsvDataset(file, [np.bool_], header=True, select_cols=[1]))) == (True,)
    files = Dataset.from_tensor_slices([str(file)] * 2)
    turns = files.interleave(lambda name: CsvDataset(name, [np.uint8(0), bool, bytes], header=True), 2).take(3)
    assert [int(one) for one, _, _ in turns] == [1, 1, 255]
    made = experimental.make_csv_dataset(
        file, 9, column_defaults=[np.uint8(0), True, b""], num_epochs=1, shuffle=False, ignore_errors=True
    )
    (batch,) = made
    assert batch["a"].tolist() == [1, 255, 0, 6]
    assert batch["b"].dtype == np.bool_


@pytest.mark.parametrize("default", [np.float16, np.int8(1), np.uint16(1), [True, False], np.ones((1, 1), bool), 1j])
def test_other_columns_are_refused(default):
    with pytest.raises(InvalidArgumentError):
        CsvDataset("/nowhere", [default])
