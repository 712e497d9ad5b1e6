"""Errors of bad records, from every source through every step: they say which record, where it is, and what is wrong.

Records and elements are counted from 0, and so named; columns and lines from 1. Where a text is no number, it is shown.
"""

import contextlib
import gzip
import json
import pickle
import sqlite3
import struct

import numpy as np
import pytest

import queuecore as qc
from queuecore.data import CsvDataset, Dataset, TextLineDataset, TFRecordDataset
from queuecore.data.experimental import SqlDataset
from queuecore.errors import CsvError, QueueCoreError

# Of a step, the record that is good, the bad one, and what the error says of it.
CSV = qc.ops.decode_csv(record_defaults=[np.int64, np.float32])
STEPS = {
    "a number": (CSV, b"1,2", b"3,thirty", "decode_csv: column 2: 'thirty' is no float32"),
    "another number": (CSV, b"1,2", b"1x,5", "decode_csv: column 1: '1x' is no int64"),
    "a quoted number": (CSV, b"1,2", b'"a,""b""",5', "decode_csv: column 1: 'a,\"b\"' is no int64"),
    "a long number": (CSV, b"1,2", b"7" * 50 + b",5", f"decode_csv: column 1: '{'7' * 40}…' is no int64"),
    "fields": (CSV, b"1,2", b"3", "decode_csv: expected 2 fields, got 1"),
    "a missing field": (CSV, b"1,2", b"3,", "decode_csv: column 2: a value is required here"),
    "a quote": (CSV, b"1,2", b'3,"4"5', "decode_csv: a quote inside a quoted field that is not doubled"),
    "an open quote": (CSV, b"1,2", b'3,"4', "decode_csv: a quoted field that is not closed"),
    "bytes": (qc.ops.decode_raw(out_type=np.int32), b"1234", b"12345", "decode_raw: the input has 5 bytes, "),
    "a shape": (
        qc.ops.compose(qc.ops.decode_raw(out_type=np.uint8), qc.ops.reshape(shape=(2,))),
        b"12",
        b"123",
        "reshape: expected values for shape [2], got 3 values",
    ),
    "a protocol buffer": (
        qc.ops.parse_single_example(features={"x": qc.ops.FixedLenFeature((), np.int64, 0)}),
        b"",
        b"x",
        "parse_single_example: ",
    ),
    "a JPEG": (qc.ops.decode_jpeg(), None, b"\xff\xd8\xff\xe0", "decode_jpeg: the JPEG picture is cut"),
    "a PNG": (qc.ops.decode_png(), None, b"x", "decode_png: the input is neither JPEG, PNG, GIF, BMP nor WebP"),
    "a BMP": (qc.ops.decode_bmp(), None, b"BM", "decode_bmp: "),
    "compressed bytes": (
        qc.ops.decode_compressed(compression_type="GZIP"),
        None,
        b"x",
        "decode_compressed: no GZIP data: none begins at byte 0",
    ),
}


def lines(folder, records, pack=bytes, compression=""):
    path = folder / "records"
    path.write_bytes(pack(b"".join(record + b"\n" for record in records)))
    return TextLineDataset(path, compression), sum(len(record) + 1 for record in records[:-1])


def framed(folder, records, compression=None):
    path = folder / "records"
    with qc.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    return TFRecordDataset(path, compression), sum(len(record) + 16 for record in records[:-1])


def from_table(records):
    def make(folder):
        path = folder / "records.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t (x)")
            connection.executemany("INSERT INTO t VALUES (?)", [(record,) for record in records])
        connection.close()
        return SqlDataset("sqlite", str(path), "SELECT x FROM t", (np.bytes_,)).map(lambda x: x)

    return make


# From a folder and records to a dataset and the place of the last record; None: it is in no file.
FILES = {
    "lines": lines,
    "compressed lines": lambda folder, records: lines(folder, records, gzip.compress, "GZIP"),
    "TFRecords": framed,
    "compressed TFRecords": lambda folder, records: framed(folder, records, "GZIP"),
}
OTHERS = {
    "arrays": lambda folder, records: Dataset.from_tensor_slices(records),
    "a part of arrays": lambda folder, records: Dataset.from_tensor_slices([b"", b"", *records]).skip(2),
    "a list": lambda folder, records: Dataset.from_generator(lambda: iter(records)),
    "a generator": lambda folder, records: Dataset.from_generator(lambda: iter(records), np.bytes_),
    "a table": lambda folder, records: from_table(records)(folder),
    "files behind a filter": lambda folder, records: framed(folder, records)[0].filter(lambda record: True),
    "files, one behind the other": lambda folder, records: (
        framed(folder, records[:-1])[0].concatenate(Dataset.from_tensor_slices(records[-1:]))
        if records[1:]
        else Dataset.from_tensor_slices(records)
    ),
    "files side by side": lambda folder, records: Dataset.zip((Dataset.range(9), framed(folder, records)[0])).map(
        lambda number, record: record
    ),
    "an interleave": lambda folder, records: Dataset.range(len(records)).interleave(
        lambda number: Dataset.from_tensor_slices(records).skip(int(number)).take(1), cycle_length=1
    ),
}


def error_of(ds, good):
    with iter(ds) as it:
        for _ in range(good):
            next(it)
        with pytest.raises(QueueCoreError) as caught:
            next(it)
    return caught.value


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", [*FILES, *OTHERS])
def test_what_is_wrong_with_which_record(tmp_path, kind, step):
    stage, good, bad, says = STEPS[step]
    records = [bad] if good is None else [good, good, bad]
    if kind in FILES:
        if b"\n" in b"".join(records):
            pytest.skip("no line")
        ds, offset = FILES[kind](tmp_path, records)
        place = f" (record {len(records) - 1}, at byte {offset} of {str(tmp_path / 'records')!r})"
    else:
        ds, offset = OTHERS[kind](tmp_path, records), None
        number = len(records) - 1 + 2 * kind.startswith("a part")
        place = f" (element {number})"
    error = error_of(ds.map(stage), len(records) - 1)
    text = str(error)
    assert text.startswith(says)
    assert text.endswith(place)
    assert "ecord" not in text.removesuffix(place).replace("of the record", "")
    assert error.record == (number if offset is None else len(records) - 1)
    if offset is not None:
        assert (error.path, error.offset) == (str(tmp_path / "records"), offset)
    if " is no " in says:
        assert error.field == int(says.split("column ")[1].split(":")[0]) - 1
    assert str(pickle.loads(pickle.dumps(error))) == text


def told(it):
    """Return what is left of an iterator: elements, and the words of errors."""
    events = []
    while True:
        try:
            events.append(next(it))
        except StopIteration:
            return events
        except QueueCoreError as error:
            events.append(str(error))


@pytest.mark.parametrize("kind", ["lines", "files behind a filter", "a table"])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_wrong_is_the_same_after_a_resume(tmp_path, kind, threads):
    texts = {2: "x" + "long" * 12, 3: "y"}
    records = [f"{i}{texts.get(i % 4, '')}".encode() for i in range(12)]
    ds = (FILES | OTHERS)[kind](tmp_path, records)
    ds = (ds[0] if kind in FILES else ds).map(qc.ops.decode_csv(record_defaults=[np.int64])).map(lambda x: x + 1)
    ds = ds.with_options(qc.data.Options(num_threads=threads))
    with iter(ds) as it:
        outcomes = told(it)
    assert len(outcomes) == 12
    assert [sum(end in str(event) for event in outcomes) for end in ("…' is no int64 (", "y' is no int64 (")] == [3, 3]
    places_seen = []
    for n in range(12):
        with iter(ds) as it:
            for _ in range(n):
                with contextlib.suppress(QueueCoreError):
                    next(it)
            state = json.loads(json.dumps(it.state_dict()))
        # Of an error that is not delivered yet: the pass, the number, the level, nine numbers, and the text.
        for at, *numbers in [one[1:] for one in state["position"].get("breaks", []) if len(one) > 3]:
            nbytes, *words = numbers[10:]
            assert nbytes == len(records[at])
            assert struct.pack("<5q", *words) == records[at][:40].ljust(40, b"\0")
            places_seen.append(at)
        with iter(ds) as it:
            it.load_state_dict(state)
            assert told(it) == outcomes[n:]
    assert places_seen or kind != "lines"


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (np.float32, "thirty"),
        (np.float64, "0x"),
        (np.int32, "3000000000"),
        (np.int64, "1.5"),
        (np.uint8, "256"),
        (np.uint8, "-1"),
        (np.uint8, "007"),
        (np.bool_, "maybe"),
        (np.bool_, "tRUE"),
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_a_column_of_a_file(tmp_path, dtype, text, header, rows):
    path = tmp_path / "table"
    good = "a,1\n" * rows
    path.write_text("name,size\n" * header + good + f"b,{text}\n" + "c,0\n")
    error = error_of(CsvDataset(path, [b"", dtype], header=header), rows)
    assert type(error) is CsvError
    column = "column 2 ('size')" if header else "column 2"
    line = rows + header + 1
    assert str(error) == f"{str(path)!r}, line {line}, {column}: {text!r} is no {np.dtype(dtype)}"
    assert (error.line, error.field, error.record) == (line, 1, rows)
    assert error.column == ("size" if header else None)
    with iter(CsvDataset(path, [b"", dtype], header=header).ignore_errors()) as it:
        assert [name for name, _ in it] == [b"a"] * rows + [b"c"]


def test_shapes_that_do_not_fit(tmp_path):
    records = [b"12", b"123"]
    for kind in ("lines", "TFRecords", "arrays", "a list"):
        ds = FILES[kind](tmp_path, records)[0] if kind in FILES else OTHERS[kind](tmp_path, records)
        ds = ds.map(qc.ops.decode_raw(out_type=np.uint8))
        place = "(element 1)"
        if kind in FILES:
            offset = 3 if kind == "lines" else 18
            place = f"(record 1, at byte {offset} of {str(tmp_path / 'records')!r})"
        error = error_of(ds.padded_batch(2, [2]), 1)
        assert str(error) == (
            "padded_batch: component 0 is 3 long in dimension 0, more than the 2 that padded_shapes has for it " + place
        )
        error = error_of(ds.batch(2), 0)
        assert error.stage == "batch"
        assert str(error) == (
            "cannot batch elements of unequal shapes: [2] and, 1 later, [3] (batch 0). Use padded_batch, or "
            "dense_to_ragged_batch, or reshape them first"
        )
