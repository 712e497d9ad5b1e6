"""Stage programs whose steps make many records at a time: the same elements, errors and counts as record by record."""

import numpy as np
import pytest
from helpers.formats import tfrecords
from helpers.process import PATIENCE, soon, thread_ids
from helpers.queues.drain import drain

import queuecore as qc
from queuecore import ops
from queuecore.errors import ChecksumError, CsvError, TruncatedRecordError

COUNT = 3000
# Of a queue of that many elements, a thread holds 16 before it puts them.
CAPACITY = 16 * COUNT


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


def run(program, components, threads=1, capacity=CAPACITY):
    """Run a program to its end; return the elements, and the error at the end."""
    queue = qc.FIFOQueue(capacity, *components)
    coord = qc.Coordinator()
    started = qc.QueueRunner(queue, [program] * threads).create_threads(coord, start=True)
    items, error = drain(queue)
    cause = error.__cause__
    if cause is None:
        coord.join(started)
    else:
        with pytest.raises(type(cause)):
            coord.join(started)
    return items, cause


def fixed(path, size):
    rows = np.random.default_rng(size).integers(0, 256, (COUNT, size), np.uint8)
    path.write_bytes(rows.tobytes())
    return rows


NUMBERS = [ops.decode_raw(out_type=np.uint8), ops.cast(dtype=np.float32), ops.scale(a=2.0, b=1.0)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("capacity", [1, 40, CAPACITY])
@pytest.mark.parametrize("size", [1, 16, 700, 3000])
def test_records_of_one_size(tmp_path, size, capacity, threads):
    rows = fixed(tmp_path / "f", size)
    program = qc.StageProgram(qc.FixedLengthRecordReader(size), [tmp_path / "f"], *NUMBERS)
    items, cause = run(program, ([np.float32], [(size,)]), threads, capacity)
    assert cause is None
    expected = rows * np.float32(2) + np.float32(1)
    got = np.stack(items)
    if threads > 1:
        got, expected = (values[np.argsort([row.tobytes() for row in values])] for values in (got, expected))
    np.testing.assert_array_equal(got, expected)
    assert program.stats()["records"] == COUNT
    assert program._reader.num_records_produced() == COUNT


def test_fields_in_another_order_and_strings(tmp_path):
    lines = [b'%d,"a""%d",%d' % (i, i % 7, i % 5) for i in range(COUNT)]
    (tmp_path / "f").write_bytes(b"\n".join(lines))
    stage = ops.decode_csv(record_defaults=[np.int64, b"", np.int32])
    program = qc.StageProgram(qc.TextLineReader(), [tmp_path / "f"], stage)
    items, cause = run(program, ([np.int64, bytes, np.int32], [(), (), ()]))
    assert cause is None
    assert [tuple(item) for item in items] == [(i, b'a"%d' % (i % 7), i % 5) for i in range(COUNT)]


@pytest.mark.parametrize("bad", [0, 1, 1000, 1015, COUNT - 1])
def test_a_line_that_does_not_parse(tmp_path, bad):
    lines = [b"x" if i == bad else b"%d" % i for i in range(COUNT)]
    (tmp_path / "f").write_bytes(b"\n".join(lines))

    def program(**options):
        stage = ops.decode_csv(record_defaults=[np.int64])
        return qc.StageProgram(qc.TextLineReader(), [tmp_path / "f"], stage, **options)

    items, cause = run(program(), ([np.int64], [()]))
    assert items == list(range(bad))
    assert type(cause) is CsvError
    assert cause.record == bad
    skipping = program(on_error="skip")
    items, cause = run(skipping, ([np.int64], [()]))
    assert cause is None
    assert items == [i for i in range(COUNT) if i != bad]
    assert (skipping.stats()["records"], skipping.stats()["skipped"]) == (COUNT - 1, 1)


@pytest.mark.parametrize("bad", [0, 1, 1000, 1015, COUNT - 1])
@pytest.mark.parametrize("part", ["data", "length"])
def test_a_damaged_record(tmp_path, bad, part):
    data = bytearray(tfrecords.stream([b"%08d" % i for i in range(COUNT)]))
    data[bad * 24 + (12 if part == "data" else 8)] ^= 1
    (tmp_path / "f").write_bytes(data)

    def program(**options):
        stage = ops.decode_raw(out_type=np.uint8, fixed_length=8)
        return qc.StageProgram(qc.TFRecordReader(), [tmp_path / "f"], stage, **options)

    def numbers(items):
        return [int(item.tobytes()) for item in items]

    items, cause = run(program(), ([np.uint8], [(8,)]))
    assert numbers(items) == list(range(bad))
    assert type(cause) is ChecksumError
    assert (cause.record, cause.offset) == (bad, 24 * bad)
    items, cause = run(program(on_error="skip"), ([np.uint8], [(8,)]))
    assert cause is None
    assert numbers(items) == [i for i in range(COUNT) if i != bad and (part == "data" or i < bad)]


def test_a_file_that_is_cut(tmp_path):
    (tmp_path / "f").write_bytes(tfrecords.stream([b"%08d" % i for i in range(COUNT)])[:-5])
    stage = ops.decode_raw(out_type=np.uint8, fixed_length=8)
    program = qc.StageProgram(qc.TFRecordReader(), [tmp_path / "f"], stage)
    items, cause = run(program, ([np.uint8], [(8,)]))
    assert type(cause) is TruncatedRecordError
    assert [int(item.tobytes()) for item in items] == list(range(COUNT - 1))
