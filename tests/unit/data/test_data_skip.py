"""``Options(on_error="skip")``: what is bad is left out, counted and logged, and everything else comes in its order."""

import ctypes
import errno
import json
import os

import numpy as np
import pytest
from helpers.data.blocks import flat, plain, pull, run, small
from helpers.data.chains import THREADS, threads, write_files
from helpers.formats import tfrecords

import queuecore as qc
from queuecore.data import CsvDataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import (
    ChecksumError,
    CsvError,
    InvalidArgumentError,
    NotFoundError,
    QueueCoreError,
    TruncatedRecordError,
    UnavailableError,
)

RECORDS = [bytes([n]) * (n % 9) for n in range(200)]
BAD = (5, 6, 7, 50, 100, 199)
GOOD = [record for n, record in enumerate(RECORDS) if n not in BAD]


def place(index):
    return sum(len(record) + 16 for record in RECORDS[:index])


@pytest.fixture
def files(tmp_path):
    """Bad records, no file, a bad length in record 30, all good."""
    content = tfrecords.stream(RECORDS)
    data = bytearray(content)
    for index in BAD:
        data[place(index + 1) - 1] ^= 1
    length = bytearray(content)
    length[place(30)] ^= 1
    paths = write_files(tmp_path, [bytes(data), b"", bytes(length), content])
    paths[1].unlink()
    return paths


def skipping(ds, **options):
    return ds.with_options(Options(on_error="skip", **options))


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_all_that_is_good_comes(tmp_path, files, batch, workers):
    for piece in (30, 1000, 1 << 18):
        log = tmp_path / f"log-{piece}"
        ds = skipping(small(TFRecordDataset(files), piece).repeat(2).batch(batch), quarantine=log)
        with iter(threads(ds, workers)) as it:
            got, error = pull(it)
            counts = it.stats()
        assert error is None
        assert flat(got) == (GOOD + RECORDS[:30] + RECORDS) * 2
        assert [len(one) for one in got[:-1]] == [batch] * (len(got) - 1)
        assert (counts["skipped"], counts["skipped_files"]) == (2 * len(BAD), 4)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        records = [line for line in lines if not line["file"]]
        assert [line["record"] for line in records] == list(BAD) * 2
        assert [line["offset"] for line in records[: len(BAD)]] == [place(index) for index in BAD]
        assert {line["path"] for line in records} == {str(files[0])}
        given_up = [(line["path"], line["record"], line["reason"], line["bytes"]) for line in lines if line["file"]]
        rest = os.path.getsize(files[2]) - place(30)
        assert (
            given_up == [(str(files[1]), None, "NotFoundError", None), (str(files[2]), 30, "ChecksumError", rest)] * 2
        )


@pytest.mark.parametrize("workers", THREADS)
def test_the_first_one_too_many_is_an_error_in_its_place(files, workers):
    ends = [*BAD, None, None]
    for limit in range(9):
        with iter(threads(skipping(small(TFRecordDataset(files), 300).batch(7), max_skips=limit), workers)) as it:
            results, error = pull(it)
            counts = it.stats()
        assert counts["skipped"] + counts["skipped_files"] == min(limit, 8)
        if limit < len(BAD):
            assert type(error) is ChecksumError
            assert error.record == ends[limit]
            assert flat(results) == [record for n, record in enumerate(RECORDS[: ends[limit]]) if n not in BAD]
        elif limit < 8:
            assert type(error) is (NotFoundError if limit == 6 else ChecksumError)
            assert flat(results) == (GOOD + RECORDS[:30] + RECORDS)[: len(flat(results))]
        else:
            assert error is None
        if error is not None:
            assert any("max_skips" in note for note in error.__notes__)


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("kind", ["full", "gone"])
@pytest.mark.parametrize("source", ["records", "decoder", "function", "files"])
def test_a_log_that_cannot_be_written(tmp_path, workers, kind, source):
    # It names itself, after all that is good before; nothing is lost with it.
    texts = [b"%4d" % n if n % 50 != 37 else b"   x" for n in range(300)]
    good = [text for text in texts if b"x" not in text]
    first = texts[:37]
    (tmp_path / "a").write_bytes(b"\n".join(texts))
    if source == "records":
        data = bytearray(tfrecords.stream(texts))
        for n in range(37, 300, 50):
            data[20 * (n + 1) - 1] ^= 1
        (tmp_path / "a").write_bytes(data)
    if source == "files":
        (tmp_path / "a").write_bytes(b"\n".join(good))
        (tmp_path / "b").write_bytes(b"\n".join(first))
    lines = TextLineDataset(tmp_path / "a")
    make = {
        "records": lambda: TFRecordDataset(tmp_path / "a"),
        "decoder": lambda: lines.map(qc.ops.decode_csv(record_defaults=[np.int64])),
        "function": lambda: lines.map(lambda line: int(bytes(line))),
        "files": lambda: TextLineDataset([tmp_path / "b", tmp_path / "no", tmp_path / "a"]),
    }[source]
    folder = tmp_path / "folder"
    folder.mkdir()
    log = folder / "log"
    if kind == "full":
        log.symlink_to("/dev/full")
    numbers = source in ("decoder", "function")
    expected = [int(text) for text in good] if numbers else first + good if source == "files" else good
    with iter(threads(skipping(make(), quarantine=log), workers)) as it:
        if kind == "gone":
            folder.rename(tmp_path / "elsewhere")
        results, error = pull(it)
        counts = it.stats()
        state = json.dumps(it.state_dict())
    results = [element[0] if isinstance(element, tuple) else element for element in results]
    assert (error.errno, error.path) == (errno.ENOSPC if kind == "full" else errno.ENOENT, str(log))
    assert isinstance(error, OSError)
    assert error.filename == str(log)
    before = error.__context__
    assert before is error.__cause__
    assert isinstance(before, NotFoundError if source == "files" else QueueCoreError)
    assert before.path == str(tmp_path / ("no" if source == "files" else "a")) or source == "function"
    assert counts["skipped"] == counts["skipped_files"] == 0
    assert results == expected[: len(results)]
    assert len(results) == 37 or source == "files"  # which are logged when the place is known to be behind them
    # From there on, with a log that can be written.
    with iter(threads(skipping(make(), quarantine=tmp_path / "log"), workers)) as it:
        it.load_state_dict(json.loads(state))
        rest, error = pull(it)
    assert error is None
    assert results + [element[0] if isinstance(element, tuple) else element for element in rest] == expected


def test_a_saved_place(files):
    ds = skipping(small(TFRecordDataset(files), 100).repeat(3).batch(11))
    states, expected = [], []
    with iter(threads(ds, 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for batch in it:
            expected.append(plain(batch))
            states.append(json.dumps(it.state_dict()))
    assert flat(expected) == (GOOD + RECORDS[:30] + RECORDS) * 3
    for index, state in enumerate(states):
        with iter(threads(ds, THREADS[index % 3])) as it:
            it.load_state_dict(json.loads(state))
            assert pull(it)[0] == expected[index:]


@pytest.mark.parametrize("workers", THREADS)
def test_bad_rows_of_csv(tmp_path, workers):
    rows = [f"{n},{n / 4}" for n in range(300)]
    for index in (0, 17, 18, 299):
        rows[index] = "x,y"
    rows[200] = "1,2,3"
    (tmp_path / "a").write_text("\n".join(rows))
    got, error = run(threads(skipping(small(CsvDataset(tmp_path / "a", [0, 0.0]), 200).batch(7)), workers))
    assert error is None
    assert flat(got) == [(n, n / 4) for n in range(300) if n not in (0, 17, 18, 200, 299)]
    assert type(run(skipping(CsvDataset(tmp_path / "a", [0, 0.0]), max_skips=0))[1]) is CsvError


@pytest.mark.parametrize("workers", THREADS)
def test_steps_that_fail(tmp_path, workers):
    lines = [b"abcd" if n % 7 else b"abc" for n in range(500)]
    (tmp_path / "a").write_bytes(b"\n".join(lines))
    stage = qc.ops.compose(qc.ops.decode_raw(out_type=np.int32), qc.ops.reshape(shape=(1,)))
    with iter(threads(skipping(small(TextLineDataset(tmp_path / "a"), 100).map(stage).batch(9)), workers)) as it:
        got, error = pull(it)
        assert it.stats()["skipped"] == 72
    assert error is None
    assert len(flat(got)) == 428


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_fixed_length_files(tmp_path, workers, shuffled):
    table = np.arange(4000, dtype=np.uint8).reshape(1000, 4)
    paths = write_files(tmp_path, [table.tobytes(), table.tobytes() + b"cut", b"", table[:50].tobytes()])
    paths[2].unlink()
    ds = FixedLengthRecordDataset(paths, 4)
    ds = ds.shuffle(30, 1, False) if shuffled else ds
    with iter(threads(skipping(ds.batch(8)), workers)) as it:
        results, error = pull(it)
        counts = it.stats()
    assert error is None
    good = [row.tolist() for row in [*table, *table, *table[:50]]]
    assert (sorted(flat(results)) if shuffled else flat(results)) == (sorted(good) if shuffled else good)
    assert (counts["skipped"], counts["skipped_files"], counts["skipped_bytes"]) == (0, 2, 3)
    results, error = run(threads(skipping(ds.batch(8), max_skips=0), workers))
    assert type(error) is TruncatedRecordError
    assert len(flat(results)) >= 1900


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_steps_on_fixed_length_records_that_fail(tmp_path, workers, shuffled):
    pytest.importorskip("queuecore._core.testing.steps")
    from queuecore._core.testing.steps import functions

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_int32))
    digit = qc.ops.cfunc(kind(functions()["first_digit"]), outputs=[(np.int32, ())])
    text = b"".join(b"x.." if n % 13 == 5 else b"%d.." % (n % 10) for n in range(1000))
    (tmp_path / "a").write_bytes(text)
    ds = FixedLengthRecordDataset(tmp_path / "a", 3)
    ds = (ds.shuffle(30, 1, False) if shuffled else ds).map(digit).repeat(2).batch(8)
    with iter(threads(skipping(ds), workers)) as it:
        got, error = pull(it)
        counts = it.stats()
    assert error is None
    expected = [n % 10 for n in range(1000) if n % 13 != 5] * 2
    assert (sorted(flat(got)) if shuffled else flat(got)) == (sorted(expected) if shuffled else expected)
    assert counts["skipped"] == 2 * 77
    _, error = run(threads(ds, workers))
    assert type(error) is InvalidArgumentError
    assert error.path == str(tmp_path / "a")
    assert error.record % 13 == 5
    assert error.offset == 3 * error.record


def test_what_can_not_be(tmp_path, files):
    with pytest.raises(InvalidArgumentError, match="on_error"):
        Options(on_error="ignore")
    with pytest.raises(InvalidArgumentError, match="max_skips"):
        Options(on_error="skip", max_skips=-1)
    with pytest.raises(InvalidArgumentError, match="max_skips"):
        iter(TFRecordDataset(files).with_options(Options(max_skips=3)))
    with pytest.raises(NotFoundError):
        Options(on_error="skip", quarantine=tmp_path / "no" / "log")


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("windows", [1, 2])
@pytest.mark.parametrize("bad", [0, 27, 63, 99])
def test_a_bad_record_in_a_window_that_holds_all(tmp_path, bad, windows, workers):
    # The source has long ended when the record is met: that must not pass for the end of the data.
    pytest.importorskip("queuecore._core.testing.steps")
    from queuecore._core.testing.steps import functions

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_int32))
    digit = qc.ops.cfunc(kind(functions()["first_digit"]), outputs=[(np.int32, ())])
    (tmp_path / "a").write_bytes(b"".join(b"x" if n == bad else b"%d" % (n % 10) for n in range(100)))
    ds = FixedLengthRecordDataset(tmp_path / "a", 1)
    for window in (1000, 100)[:windows]:
        ds = ds.shuffle(window, 1)
    got, error = run(threads(ds.map(digit).batch(4), workers))
    assert type(error) is InvalidArgumentError
    assert error.record == bad
    assert len(flat(got)) < 100


def test_the_log_is_no_file_of_the_data(tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"a\nbbbb\n")
    options = Options(on_error="skip", quarantine=text)
    lines = TextLineDataset(text)
    for ds in (lines, lines.shuffle(3).batch(2), qc.data.Dataset.zip((lines, lines)), lines.map(lambda line: [line])):
        with pytest.raises(InvalidArgumentError, match="a file of the data"):
            iter(ds.with_options(options))
    # A function names the file.
    named = qc.data.Dataset.from_tensors(str(text)).flat_map(lambda name: TextLineDataset(text))
    with pytest.raises(InvalidArgumentError, match="a file of the data"):
        list(named.with_options(options))
    assert text.read_bytes() == b"a\nbbbb\n"


def test_a_length_that_can_not_be_known_is_the_error_of_reading():
    ds = FixedLengthRecordDataset("/proc/self/mem", record="u1")
    for ask in (len, lambda ds: ds.cardinality(), lambda ds: list(ds)):
        with pytest.raises(UnavailableError) as caught:
            ask(ds)
        assert caught.value.errno == errno.EIO and caught.value.path == "/proc/self/mem"
