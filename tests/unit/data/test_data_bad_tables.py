"""One bad record of a table, under every step, with every treatment: the error or the gap is at its place."""

import gzip
import itertools
import json
import os
import pickle

import numpy as np
import pytest
from helpers.data.blocks import pull
from helpers.formats import tfrecords

import queuecore as qc
from queuecore.data import CsvDataset, Options, TextLineDataset, TFRecordDataset, WholeFileDataset
from queuecore.errors import CsvError, QueueCoreError

COUNT = 9
PLACES = {"front": 0, "middle": 4, "end": COUNT - 1}
TREATMENTS = ("raise", "skip", "quarantine")
DECODE = qc.ops.decode_csv(record_defaults=[np.int32, np.int32])


def both(a, b):
    return a, b


def unseen(a, b):
    return np.int32(int(a)), np.int32(int(b))  # int() can't be traced


# Each keeps the elements, and those that reorder or group them are told by name.
STEPS = {
    "none": lambda ds: ds,
    "stage": lambda ds: ds.map(both),
    "cast": lambda ds: ds.map(lambda a, b: (a + 0, b + 0)),
    "python": lambda ds: ds.map(unseen, num_parallel_calls=2),
    "filter": lambda ds: ds.filter(lambda a, b: a >= 0),
    "filter_python": lambda ds: ds.filter(lambda a, b: int(a) >= 0),
    "batch": lambda ds: ds.batch(4),
    "map_batch": lambda ds: ds.map(both).batch(4),
    "shuffle": lambda ds: ds.shuffle(4, seed=1),
    "map_shuffle": lambda ds: ds.map(both).shuffle(4, seed=1),
    "shuffle_map": lambda ds: ds.shuffle(4, seed=1).map(both),
}


def csv_table(path):
    return CsvDataset(path, [np.int32, np.int32])


def line_table(path):
    return TextLineDataset(path).map(DECODE)


def record_table(path):
    packed = path.with_suffix(".tfrecord")
    packed.write_bytes(tfrecords.stream(path.read_bytes().splitlines()))
    return TFRecordDataset(packed).map(DECODE)


def rows_of(elements, batched):
    """Return the rows of elements, or of batches, as tuples of numbers."""
    return [tuple(map(int, row)) for part in (elements if batched else [elements]) for row in part]


SOURCES = {"csv": csv_table, "lines": line_table, "records": record_table}
CASES = list(itertools.product(SOURCES, STEPS, TREATMENTS, PLACES))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("source", "step", "treatment", "where"), CASES)
def test_one_bad_record(tmp_path, source, step, treatment, where):
    bad = PLACES[where]
    rows = [(n, 10 + n) for n in range(COUNT)]
    good = rows[:bad] + rows[bad + 1 :]
    path = tmp_path / "table"
    path.write_text("".join(f"{a},{b}\n" if a != bad else f"{a},oo\n" for a, b in rows))
    ds = STEPS[step](SOURCES[source](path))
    log = tmp_path / "log"
    if treatment != "raise":
        ds = ds.with_options(Options(on_error="skip", quarantine=log if treatment == "quarantine" else None))
    mixed = "shuffle" in step
    with iter(ds) as it:
        results, error = pull(it)
        counts = it.stats()
        rest = pull(it)[0] if error is not None else []
    results, rest = (rows_of(part, "batch" in step) for part in (results, rest))
    ordered = sorted if mixed else list
    if treatment == "raise":
        assert isinstance(error, QueueCoreError)
        assert os.path.splitext(error.path)[0] == str(path)
        assert error.record == bad
        if source == "csv":
            assert isinstance(error, CsvError)
            assert (error.line, error.field) == (bad + 1, 1)
        assert mixed or results == good[:bad]
        # The element is left out by the next call, which goes on behind it.
        assert ordered(results + rest) == good
    else:
        assert error is None
        assert ordered(results) == good
        assert (counts["skipped"], counts["skipped_files"]) == (1, 0)
    if treatment == "quarantine":
        (line,) = map(json.loads, log.read_text().splitlines())
        assert (line["record"], os.path.splitext(line["path"])[0], line["reason"]) == (bad, str(path), "CsvError")


def test_each_call_behind_a_bad_row_goes_on(tmp_path):
    # The rows before a bad one, made by a native step, once wiped its error out.
    path = tmp_path / "table"
    path.write_text("1,2\n3,oops\n5,6\n")
    with iter(CsvDataset(path, [0, 0]).map(both)) as it:
        assert tuple(map(int, next(it))) == (1, 2)
        with pytest.raises(CsvError, match="line 2, column 2"):
            next(it)
        assert tuple(map(int, next(it))) == (5, 6)
        with pytest.raises(StopIteration):
            next(it)


def error_of(ds):
    with iter(ds) as it, pytest.raises(QueueCoreError) as caught:
        list(it)
    return caught.value


def test_one_way_of_counting(tmp_path):
    # Records from 0, lines and columns from 1, and no second number for the same record.
    path = tmp_path / "table"
    path.write_text("1,2\n3,oops\n5\n")
    place = f"at byte 4 of {str(path)!r})"
    assert str(error_of(csv_table(path))) == f"{str(path)!r}, line 2, column 2: 'oops' is no int32"
    mapped = error_of(line_table(path))
    assert str(mapped) == f"decode_csv: column 2: 'oops' is no int32 (record 1, {place}"
    assert (mapped.record, mapped.field) == (1, 1)
    short = error_of(TextLineDataset(path).skip(2).map(DECODE))
    assert str(short).startswith("decode_csv: expected 2 fields, got 1 (record 2, at byte 11 of")
    # Alone it keeps TensorFlow's words.
    with pytest.raises(CsvError, match="^Field 1 in record 1 is not a valid int32: oops$"):
        qc.ops.decode_csv([b"1,2", b"3,oops"], [0, 0])


def test_a_whole_file_is_record_0(tmp_path):
    path, log = tmp_path / "a.png", tmp_path / "log"
    path.write_bytes(b"none")
    ds = WholeFileDataset([path]).map(lambda name, data: (name, qc.ops.decode_png(data)))
    error = error_of(ds)
    assert error.record == 0
    assert str(error).endswith(f"(record 0 of {str(path)!r})")
    assert list(ds.with_options(Options(on_error="skip", quarantine=log))) == []
    assert json.loads(log.read_text())["record"] == 0


def test_a_csv_dataset_names_itself(tmp_path):
    path = tmp_path / "table"
    for arguments in (
        {"record_defaults": []},
        {"record_defaults": [0, 1j]},
        {"record_defaults": [0], "field_delim": "ab"},
    ):
        with pytest.raises(QueueCoreError, match="^CsvDataset: "):
            CsvDataset(path, **arguments)
    with pytest.raises(QueueCoreError, match="^CsvDataset: the default of column 2 "):
        CsvDataset(path, [0, 1j])
    with pytest.raises(QueueCoreError, match="^CsvDataset: select_cols"):
        CsvDataset(path, [0, 0], select_cols=[1, 0])


BAD_FIELDS = {
    "3,thirty": "'thirty' is no float32",
    '3,"thirty"': "'thirty' is no float32",
    "3, 4 5": "' 4 5' is no float32",
    "3,t\xe9": r"'t\\xe9' is no float32",
    f"3,{'long' * 20}": f"'{'long' * 10}…' is no float32",
}


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize(("row", "words"), BAD_FIELDS.items(), ids=range(len(BAD_FIELDS)))
def test_the_text_that_is_no_number_is_shown(tmp_path, row, words, compression):
    text = f"a,b\n1,2\n{row}\n5,6\n".encode("latin-1")
    path = tmp_path / "table"
    path.write_bytes(gzip.compress(text) if compression else text)
    table = CsvDataset(path, [0, np.float32], compression, header=True)
    lines = TextLineDataset(path, compression).skip(1)
    decode = qc.ops.decode_csv(record_defaults=[0, np.float32])
    for ds in (
        table,
        table.map(lambda a, b: (a, b)).batch(2),
        table.shuffle(2, 1),
        lines.map(decode),
        lines.map(lambda line: qc.ops.decode_csv(line, [0, np.float32])),
        lines.map(decode).batch(2),
    ):
        error = error_of(ds)
        assert words in str(error) and "column 2" in str(error)
        assert pickle.loads(pickle.dumps(error)).args == error.args


def test_the_text_stands_in_the_quarantine_log(tmp_path):
    path, log = tmp_path / "table", tmp_path / "log"
    path.write_text("1\nthirty\n3\n")
    ds = CsvDataset(path, [0]).with_options(Options(on_error="skip", quarantine=log))
    assert [int(row) for (row,) in ds] == [1, 3]
    assert json.loads(log.read_text())["message"] == f"{str(path)!r}, line 2, column 1: 'thirty' is no int32"


def test_the_text_is_not_read_again(tmp_path):
    path = tmp_path / "table"
    path.write_text("1\nthirty\n3\n")
    with iter(CsvDataset(path, [0])) as rows:
        next(rows)
        path.unlink()
        with pytest.raises(CsvError, match="line 2, column 1: 'thirty' is no int32$"):
            next(rows)


def test_programs_count_as_datasets_do(tmp_path):
    path = tmp_path / "table"
    path.write_text("1,2\n3,thirty\n")
    queue = qc.FIFOQueue(9, [np.int32, np.float32], [(), ()])
    program = qc.StageProgram(qc.TextLineReader(), [path], qc.ops.decode_csv(record_defaults=[0, np.float32]))
    coordinator = qc.Coordinator()
    with pytest.raises(CsvError) as caught:
        coordinator.join(qc.QueueRunner(queue, [program]).create_threads(coordinator, start=True))
    assert str(caught.value) == f"decode_csv: column 2: 'thirty' is no float32 (record 1 of {str(path)!r})"
