"""Readers: records, keys, counters and errors, against plain Python over the same bytes."""

import gzip
import itertools
import os
import pathlib
import threading
import zlib

import numpy as np
import pytest
from helpers.process import PATIENCE, open_descriptors, soon
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore._readers import base
from queuecore.errors import (
    ChecksumError,
    CsvError,
    DecompressError,
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    OutOfRangeError,
    RecordTooLargeError,
    TruncatedRecordError,
    UnimplementedError,
)

BLOCK = 256 << 10  # what is read at once


@pytest.fixture(autouse=True)
def no_descriptor_is_left():
    before = open_descriptors()
    yield
    assert soon(lambda: open_descriptors() <= before)


@pytest.fixture
def file(tmp_path):
    made = itertools.count()

    def write(content):
        path = tmp_path / f"{next(made)}.bin"
        path.write_bytes(content)
        return str(path)

    return write


def drain(reader, work):
    records = []
    while True:
        try:
            records.append(reader.read(work))
        except OutOfRangeError:
            return records


def fixed(path, data, record, header=0, footer=0, hop=0):
    """What a fixed-length reader gives, slowly."""
    starts = itertools.takewhile(
        lambda start: start + record + footer <= len(data), itertools.count(header, hop or record)
    )
    return [(f"{path}:{i}".encode(), data[start : start + record]) for i, start in enumerate(starts)]


def lines(path, data, skip=0):
    """What a line reader gives, slowly."""
    parts = data.split(b"\n")
    if parts[-1] == b"":
        parts.pop()
    return [
        (f"{path}:{i}".encode(), part[:-1] if part.endswith(b"\r") else part)
        for i, part in enumerate(parts, 1)
        if i > skip
    ]


def random_bytes(count, seed=0):
    return np.random.default_rng(seed).bytes(count)


# Fixed-length records


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_fixed_length_records(tmp_path_factory, data):
    record = data.draw(st.integers(1, 40))
    header, footer = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    hop = data.draw(st.integers(0, 60))
    # Shorter than its header: an error, of another test.
    sizes = data.draw(st.lists(st.just(0) | st.integers(header, 200), min_size=1, max_size=4))
    folder = tmp_path_factory.mktemp("fixed")
    work, expected = [], []
    for index, size in enumerate(sizes):
        content = random_bytes(size, index)
        path = folder / str(index)
        path.write_bytes(content)
        work.append(path)
        expected += fixed(path, content, record, header, footer, hop)
    reader = qc.FixedLengthRecordReader(record, header, footer, hop)
    assert drain(reader, work) == expected
    assert reader.num_records_produced() == len(expected)
    assert reader.num_work_units_completed() == len(sizes)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("record", "header", "footer", "hop"),
    [
        (3073, 0, 0, 0),
        (1000, 17, 5, 0),
        (1000, 0, 0, 999),
        (1000, 3, 0, 70_000),
        (BLOCK, 0, 0, 0),
        (BLOCK + 1, 7, 9, 0),
        (3 * BLOCK, BLOCK + 5, 2 * BLOCK, 100),
        (5, 0, BLOCK + 1, 0),
        (1, BLOCK, 0, BLOCK),
        (1, 0, 0, BLOCK + 1),
        (BLOCK - 1, 1, 1, 1 << 15),
    ],
)
def test_records_over_the_border_of_a_block(file, record, header, footer, hop):
    content = random_bytes(6 * BLOCK + 12_345)
    path = file(content)
    got = drain(qc.FixedLengthRecordReader(record, header, footer, hop), [path])
    expected = fixed(path, content, record, header, footer, hop)
    assert [key for key, _ in got] == [key for key, _ in expected]
    assert got == expected


def test_a_file_that_ends_inside_its_header_is_damaged(file):
    paths = [file(b"ab"), file(b"abcdef"), file(b"")]
    reader = qc.FixedLengthRecordReader(3, header_bytes=3)
    with pytest.raises(TruncatedRecordError, match="inside its header of 3 bytes") as caught:
        reader.read(paths)
    assert (caught.value.path, caught.value.offset) == (paths[0], 0)
    assert drain(reader, paths) == [(f"{paths[1]}:0".encode(), b"def")]
    assert reader.num_work_units_completed() == 2  # what failed isn't done


def test_rests_are_counted(file):
    reader = qc.FixedLengthRecordReader(4, footer_bytes=2)
    # no rest; a rest of one; a footer and no more; less than a footer; nothing; a rest and no record
    paths = [file(b"x" * size) for size in (10, 11, 2, 1, 0, 4)]
    assert len(drain(reader, paths)) == 4
    assert reader._native.dropped_tails == 2
    assert reader.num_work_units_completed() == 6


def test_a_gap_at_the_end_is_no_rest(file):
    reader = qc.FixedLengthRecordReader(4, hop_bytes=10)
    assert len(drain(reader, [file(b"x" * 20)])) == 2
    assert reader._native.dropped_tails == 0
    assert len(drain(reader, [file(b"x" * 21)])) == 2
    assert reader._native.dropped_tails == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"record_bytes": 0}, "record_bytes must be at least 1"),
        ({"record_bytes": -1}, "record_bytes must be at least 1"),
        ({"record_bytes": 1, "header_bytes": -1}, "header_bytes must be at least 0"),
        ({"record_bytes": 1, "footer_bytes": -1}, "footer_bytes must be at least 0"),
        ({"record_bytes": 1, "hop_bytes": -1}, "hop_bytes must be at least 0"),
        ({"record_bytes": 1.5}, "record_bytes must be an integer"),
    ],
)
def test_bad_lengths(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.FixedLengthRecordReader(**options)


@pytest.mark.parametrize(("word", "compress"), [("GZIP", gzip.compress), ("ZLIB", zlib.compress)])
def test_compressed_files(file, word, compress):
    content = random_bytes(3 * BLOCK + 77) + bytes(2 * BLOCK)
    path = file(compress(content))
    reader = qc.FixedLengthRecordReader(1000, 7, 5, 1100, encoding=word)
    assert drain(reader, [path, path]) == fixed(path, content, 1000, 7, 5, 1100) * 2
    assert f"encoding={word!r}" in repr(reader)


@pytest.mark.parametrize("cut", [-1, -9, 300_000])
def test_a_compressed_file_that_is_cut(file, cut):
    content = random_bytes(2 * BLOCK)
    path, good = file(gzip.compress(content)[:cut]), file(gzip.compress(b"x" * 1000))
    reader, work = qc.FixedLengthRecordReader(1000, encoding="GZIP"), [path, good]
    results = []
    with pytest.raises(DecompressError) as caught:
        while True:
            results.append(reader.read(work))
    assert caught.value.path == path
    expected = fixed(path, content, 1000)
    assert len(results) >= (290 if cut > 0 else len(expected) - 1)
    assert results == expected[: len(results)]
    assert drain(reader, work) == [(f"{good}:0".encode(), b"x" * 1000)]


def test_unknown_encodings():
    with pytest.raises(InvalidArgumentError, match="encoding must be"):
        qc.FixedLengthRecordReader(1, encoding="deflate")


# Lines


@settings(max_examples=150, deadline=None)
@given(
    content=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc", b"\0", b"\xff"])).map(b"".join),
    skip=st.integers(0, 3),
)
def test_lines(tmp_path_factory, content, skip):
    path = tmp_path_factory.mktemp("lines") / "a"
    path.write_bytes(content)
    reader = qc.TextLineReader(skip_header_lines=skip)
    assert drain(reader, [path, path]) == 2 * lines(path, content, skip)
    assert reader.num_work_units_completed() == 2


@pytest.mark.parametrize("seed", range(6))
def test_lines_over_the_border_of_a_block(file, seed):
    random = np.random.default_rng(seed)
    parts = [random_bytes(int(size), seed).replace(b"\n", b".") for size in random.integers(0, 2.5 * BLOCK, 12)]
    content = [b"\n", b"\r\n"][seed % 2].join(parts)
    path = file(content)
    assert drain(qc.TextLineReader(), [path]) == lines(path, content)


def test_a_long_record_among_short_ones(file):
    parts = [b"a" * 10] * 3000 + [b"b" * 10 * BLOCK] + [b"c" * 10] * 3000
    content = b"\n".join(parts)
    path = file(content)
    assert drain(qc.TextLineReader(), [path, path]) == lines(path, content) * 2


@pytest.mark.parametrize("shift", range(-3, 4))
def test_an_end_of_line_at_the_border_of_a_block(file, shift):
    content = b"a" * (BLOCK + shift) + b"\r\nb\r\n\r\nc"
    path = file(content)
    assert drain(qc.TextLineReader(), [path]) == lines(path, content)


def test_a_line_without_an_end(tmp_path):
    path = tmp_path / "zeros"
    with open(path, "wb") as out:
        out.write(b"first\n")
        out.truncate(70 << 20)
    reader = qc.TextLineReader()
    assert reader.read([path])[1] == b"first"
    with pytest.raises(RecordTooLargeError, match=r"line 2.*no file of lines") as caught:
        reader.read([])
    assert (caught.value.path, caught.value.offset, caught.value.record) == (str(path), 6, 1)


def test_negative_header_lines():
    with pytest.raises(InvalidArgumentError, match="skip_header_lines must be at least 0"):
        qc.TextLineReader(-1)


# TFRecords


def tfrecords(path, values, compression=None):
    with qc.TFRecordWriter(path, compression) as writer:
        for value in values:
            writer.write(value)
    starts = itertools.accumulate((len(value) + 16 for value in values), initial=0)
    return [(f"{path}:{start}".encode(), value) for start, value in zip(starts, values, strict=False)]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_tfrecords(file, compression):
    sizes = [0, 1, 3000, BLOCK - 16, BLOCK - 15, 0, 5 * BLOCK, 7, *range(2000, 2100)]
    path = file(b"")
    expected = tfrecords(path, [random_bytes(size, size) for size in sizes], compression)
    reader = qc.TFRecordReader(compression)
    assert drain(reader, [path, file(b""), path] if compression is None else [path, path]) == expected * 2
    assert repr(reader) == (f"TFRecordReader({compression!r})" if compression else "TFRecordReader()")


def test_tfrecords_whose_data_are_damaged(file):
    path = file(b"")
    expected = tfrecords(path, [b"one", b"two", b"three"])
    with open(path, "r+b") as out:
        out.seek(19 + 12)
        out.write(b"T")
    reader, work = qc.TFRecordReader(), [path]
    assert reader.read(work) == expected[0]
    with pytest.raises(ChecksumError) as caught:
        reader.read(work)
    assert (caught.value.path, caught.value.offset, caught.value.record) == (path, 19, 1)
    assert drain(reader, work) == expected[2:]  # it goes on after it


@pytest.mark.parametrize("compressed", [False, True])
def test_tfrecords_cut_at_every_byte(file, compressed):
    path = file(b"")
    expected = tfrecords(path, [b"one", b"two"])
    content = pathlib.Path(path).read_bytes()
    for cut in range(len(content)):
        cut_path = file(gzip.compress(content[:cut]) if compressed else content[:cut])
        reader, work, results = qc.TFRecordReader("GZIP" if compressed else None), [cut_path, path], []
        if cut % 19:
            with pytest.raises(TruncatedRecordError) as caught:
                while True:
                    results.append(reader.read(work)[1])
            assert (caught.value.path, caught.value.offset) == (cut_path, cut // 19 * 19)
            assert results == [value for _, value in expected[: cut // 19]]
            results.clear()
        if not compressed:
            rest = [value for _, value in drain(reader, work)]
            assert rest[-2:] == [b"one", b"two"]


def test_a_tfrecord_of_a_length_that_cannot_be(file):
    path = file(b"")
    tfrecords(path, [b"one"])
    with open(path, "r+b") as out:
        out.write(b"\xff")
    with pytest.raises(ChecksumError, match="length"):
        qc.TFRecordReader().read([path])


def test_what_is_no_compression():
    with pytest.raises(InvalidArgumentError, match="compression_type must be"):
        qc.TFRecordReader("gz")


# Whole files, and names


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_whole_files(file, size):
    content = random_bytes(size)
    path = file(content)
    reader = qc.WholeFileReader()
    assert drain(reader, [path, path]) == [(path.encode(), content)] * 2
    assert reader.num_work_units_completed() == 2


def test_identity():
    reader = qc.IdentityReader()
    names = ["a", b"\xff\0", "", "ä"]
    expected = [b"a", b"\xff\0", b"", "ä".encode()]
    assert drain(reader, names) == [(name, name) for name in expected]
    assert reader.num_records_produced() == reader.num_work_units_completed() == 4


# Work


def closed_queue(dtype, names, shape=None):
    queue = qc.FIFOQueue(20, [dtype], None if shape is None else [shape])
    for name in names:
        queue.enqueue(name)
    queue.close()
    return queue


@pytest.mark.parametrize("dtype", [str, bytes, object, "S200", "U200"])
@pytest.mark.parametrize("shape", [None, (), (1,)])
def test_work_from_a_queue(file, dtype, shape):
    paths = [file(b"ab"), file(b""), file(b"cd")]
    queue = closed_queue(dtype, [np.array([path]) for path in paths] if shape == (1,) else paths, shape)
    reader = qc.FixedLengthRecordReader(1)
    assert [value for _, value in drain(reader, queue)] == [b"a", b"b", b"c", b"d"]


def test_work_from_a_generator_is_asked_for_when_it_is_needed(file):
    contents = []

    def names():
        for content in (b"ab", b"cd"):
            contents.append(content)
            yield file(content)

    work, reader = names(), qc.FixedLengthRecordReader(1)
    assert reader.read(work)[1] == b"a"
    assert contents == [b"ab"]
    assert [value for _, value in drain(reader, work)] == [b"b", b"c", b"d"]


def test_a_file_in_progress_goes_before_new_work(file):
    first, second = [file(b"ab")], [file(b"cd")]
    reader = qc.FixedLengthRecordReader(1)
    got = [reader.read(first)[1], reader.read(second)[1], reader.read(second)[1], reader.read(second)[1]]
    assert got == [b"a", b"b", b"c", b"d"]
    with pytest.raises(OutOfRangeError):
        reader.read(second)


def test_more_work_after_the_end(file):
    reader = qc.FixedLengthRecordReader(1)
    work = [file(b"a")]
    assert len(drain(reader, work)) == 1
    assert drain(reader, work) == []  # the iterator of this list is at its end
    assert len(drain(reader, list(work))) == 1


@pytest.mark.parametrize("work", ["name", b"name", 7, None])
def test_what_is_no_work(work):
    with pytest.raises(InvalidArgumentError, match="queue or an iterable of file names"):
        qc.WholeFileReader().read(work)


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (lambda: qc.FIFOQueue(1, [str, str]), "single components"),
        (lambda: qc.FIFOQueue(1, [str], names=["a"]), "single components"),
        (lambda: qc.FIFOQueue(1, [np.int32]), "queue of strings"),
    ],
)
def test_queues_that_hold_no_names(queue, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.WholeFileReader().read(queue())


def test_an_element_that_is_not_one_string():
    queue = closed_queue(str, [np.array(["a", "b"]), np.array(["c"])])
    reader = qc.IdentityReader()
    with pytest.raises(InvalidArgumentError, match="must be one string"):
        reader.read(queue)
    assert reader.read(queue) == (b"c", b"c")
    with pytest.raises(DtypeError, match="name of a file, not 7"):
        reader.read([7])


def test_the_cause_of_a_failed_queue_of_names():
    queue = qc.FIFOQueue(1, [str])
    queue._fail(ValueError("no names"))
    with pytest.raises(OutOfRangeError) as caught:
        qc.IdentityReader().read(queue)
    assert str(caught.value.__cause__) == "no names"


# Errors


def test_files_that_cannot_be_opened(tmp_path, file):
    os.mkfifo(tmp_path / "fifo")
    good = file(b"x")
    work = [tmp_path / "missing", tmp_path, tmp_path / "fifo", b"a\0b", "", good]
    reader = qc.WholeFileReader()
    for error, path in (
        (NotFoundError, tmp_path / "missing"),
        (NotAFileError, tmp_path),
        (qc.errors.UnavailableError, tmp_path / "fifo"),
        (InvalidArgumentError, "a\0b"),
        (InvalidArgumentError, ""),
    ):
        with pytest.raises(error) as caught:
            reader.read(work)
        assert caught.value.path == str(path)
    assert reader.num_work_units_completed() == 0
    assert drain(reader, work) == [(good.encode(), b"x")]
    assert reader.num_work_units_completed() == 1


def test_an_error_of_the_work_itself(file):
    def names():
        yield file(b"a")
        raise KeyError("mine")

    work, reader = names(), qc.WholeFileReader()
    reader.read(work)
    with pytest.raises(KeyError, match="mine"):
        reader.read(work)
    assert len(drain(reader, [file(b"b")])) == 1  # and the reader is free again


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("queued", [False, True])
def test_a_name_that_is_taken_stays_until_it_is_handed_on(file, monkeypatch, queued, error):
    real, left = base.name_to_read, [error]

    def interrupted(name):
        if left:
            raise left.pop()
        return real(name)

    monkeypatch.setattr(base, "name_to_read", interrupted)
    work = [file(b"a"), file(b"b")]
    if queued:
        names = qc.FIFOQueue(2, [bytes], [()])
        names.enqueue_many([work])
        names.close()
        work = names
    reader = qc.WholeFileReader()
    with pytest.raises(error):
        reader.read(work)
    assert [value for _, value in drain(reader, work)] == [b"a", b"b"]


def test_a_name_that_nobody_can_encode(file):
    reader, work = qc.WholeFileReader(), ["\ud800", file(b"x")]
    with pytest.raises(ValueError, match="surrogates"):
        reader.read(work)
    assert len(drain(reader, work)) == 1


def test_work_that_reads_from_its_own_reader():
    reader = qc.IdentityReader()

    def names():
        yield reader.read(["a"])[0]

    with pytest.raises(FailedPreconditionError, match="reads from that reader itself"):
        reader.read(names())
    assert reader.read(["b"]) == (b"b", b"b")


def test_reset(file):
    reader = qc.FixedLengthRecordReader(1)
    work = [file(b"ab"), file(b"cd")]
    assert reader.read(work)[1] == b"a"
    reader.reset()
    assert reader.num_records_produced() == reader.num_work_units_completed() == 0
    assert [value for _, value in drain(reader, work)] == [b"c", b"d"]


# Several at once


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 3, 7, 1000, 10**15])
def test_read_up_to(file, count):
    contents = [random_bytes(size, size) for size in (0, 20_000, 10, 3 * BLOCK)]
    paths = [file(content) for content in contents]
    one, many, work, again = qc.FixedLengthRecordReader(10), qc.FixedLengthRecordReader(10), list(paths), list(paths)
    expected = drain(one, work)
    results = []
    while True:
        try:
            keys, values = many.read_up_to(again, count)
        except OutOfRangeError:
            break
        assert len(keys) == len(values) <= count
        files = {key.rpartition(b":")[0] for key in keys}
        assert len(files) == 1  # never over the end of a file
        if len(keys) < count:
            assert many.num_records_produced() in (2000, 2001, len(expected))
        results += zip(keys.to_list(), values.to_list(), strict=True)
    assert results == expected
    assert many.num_records_produced() == len(expected)
    assert many.num_work_units_completed() == 4


def test_read_up_to_makes_batches_for_operations(file):
    content = np.arange(100, dtype=">i2").tobytes()
    reader = qc.FixedLengthRecordReader(20)
    _, values = reader.read_up_to([file(content)], 100)
    np.testing.assert_array_equal(qc.ops.decode_raw(values, ">i2"), np.arange(100).reshape(10, 10))
    np.testing.assert_array_equal(qc.ops.decode_raw(values[2:5], ">i2"), np.arange(20, 50).reshape(3, 10))
    lines = qc.TextLineReader().read_up_to([file(b"1,a\n2,b\n")], 9)[1]
    numbers, words = qc.ops.decode_csv(lines, [0, ""])
    assert numbers.tolist() == [1, 2] and words.tolist() == [b"a", b"b"]
    with pytest.raises(CsvError, match="x"):
        qc.ops.decode_csv(qc.Ragged.from_list([b"1", b"x"]), [0])


def test_read_up_to_before_and_after_damage(file):
    path = file(b"")
    expected = tfrecords(path, [b"one", b"two", b"three", b"four"])
    with open(path, "r+b") as out:
        out.seek(2 * 19 + 12)
        out.write(b"T")
    reader, work = qc.TFRecordReader(), [path]
    keys, values = reader.read_up_to(work, 100)
    assert list(zip(keys, values, strict=True)) == expected[:2]
    with pytest.raises(ChecksumError):
        reader.read_up_to(work, 100)
    keys, values = reader.read_up_to(work, 100)
    assert list(zip(keys, values, strict=True)) == expected[3:]
    with pytest.raises(OutOfRangeError):
        reader.read_up_to(work, 1)


def test_an_error_that_is_left_is_reads_too(file):
    path = file(b"")
    tfrecords(path, [b"one", b"two"])
    os.truncate(path, 30)
    reader, work = qc.TFRecordReader(), [path]
    assert reader.read_up_to(work, 100)[1].to_list() == [b"one"]
    with pytest.raises(TruncatedRecordError):
        reader.read(work)
    assert drain(reader, work) == []
    again = [path]
    assert reader.read_up_to(again, 100)[1].to_list() == [b"one"]
    reader.reset()  # forgets it
    assert drain(reader, again) == []


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_read_up_to_no_number(count):
    with pytest.raises(InvalidArgumentError, match="num_records"):
        qc.IdentityReader().read_up_to(["a"], count)


# State


def test_state_is_tensorflows():
    reader = qc.IdentityReader()
    assert reader.supports_serialize
    assert reader.serialize_state() == b""
    for _ in range(2):
        reader.read(["b"])
    assert reader.serialize_state() == bytes.fromhex("08 02 10 02 18 02 22 01 62")
    assert reader.num_work_units_completed() == 2


@pytest.mark.parametrize("count", [1, 127, 128, 300])
def test_state_comes_back(count):
    first, second = qc.IdentityReader(), qc.IdentityReader()
    for index in range(count):
        first.read([f"{index}" * 50])
    state = first.serialize_state()
    second.read(["other"])
    second.restore_state(state)
    assert second.num_records_produced() == second.num_work_units_completed() == count
    assert second.serialize_state() == state
    second.read(["more"])
    assert second.num_records_produced() == count + 1
    second.restore_state(b"")
    assert second.serialize_state() == b""


@pytest.mark.parametrize(
    "state",
    [
        b"garbage",
        b"\x08",
        b"\x08\x80",
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\x08" + b"\xff" * 9 + b"\x02\x10\x01",
        b"\x22\x05abc",
        b"\x08\x02\x10\x01",
        b"\x08\x01\x10\x02",
        b"\x18" + b"\xff" * 9 + b"\x01",
        b"\x2a\x00",
    ],
)
def test_what_is_no_state(state):
    reader = qc.WholeFileReader()
    reader.restore_state(b"\x08\x01\x10\x01\x18\x01")
    with pytest.raises(InvalidArgumentError):
        reader.restore_state(state)
    assert reader.serialize_state() == b""


@pytest.mark.parametrize("make", [qc.TextLineReader, lambda: qc.FixedLengthRecordReader(1)])
def test_readers_without_a_state(make):
    reader = make()
    assert not reader.supports_serialize
    with pytest.raises(UnimplementedError):
        reader.serialize_state()
    with pytest.raises(UnimplementedError):
        reader.restore_state(b"")


def test_repr():
    assert repr(qc.FixedLengthRecordReader(3, hop_bytes=3)) == "FixedLengthRecordReader(3)"
    assert repr(qc.FixedLengthRecordReader(3, 1, 2, 4)) == (
        "FixedLengthRecordReader(3, header_bytes=1, footer_bytes=2, hop_bytes=4)"
    )
    assert repr(qc.TextLineReader(2)) == "TextLineReader(skip_header_lines=2)"


# Threads


def test_many_threads_share_a_reader(file):
    contents = [random_bytes(3000, seed) for seed in range(8)]
    work = [file(content) for content in contents]
    reader = qc.FixedLengthRecordReader(10)
    results = [[] for _ in range(6)]
    threads = [threading.Thread(target=lambda own=own: own.extend(drain(reader, work))) for own in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    expected = [pair for path, content in zip(work, contents, strict=True) for pair in fixed(path, content, 10)]
    assert sorted(pair for own in results for pair in own) == sorted(expected)
    assert reader.num_records_produced() == len(expected)
    assert reader.num_work_units_completed() == 8


def test_a_reader_that_waits_for_names(file):
    names = qc.FIFOQueue(1, [str])
    reader = qc.WholeFileReader()
    results = []
    threads = [threading.Thread(target=lambda: results.append(reader.read(names)[1])) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert soon(lambda: names.stats()["waiting_dequeues"] == 1)  # one has the reader, the other waits for it
    assert reader.num_records_produced() == reader.num_work_units_completed() == 0  # which don't wait
    names.enqueue(file(b"a"))
    names.enqueue(file(b"b"))
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == [b"a", b"b"]
