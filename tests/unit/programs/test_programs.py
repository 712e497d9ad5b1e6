"""Stage programs: what they put into a queue, how they end, and what their errors say."""

import gzip
import itertools
import sys
import threading
import time

import numpy as np
import pytest
from helpers.process import AT_ONCE, PATIENCE, open_descriptors, soon, thread_ids
from helpers.queues.drain import drain

import queuecore as qc
from queuecore.errors import (
    CancelledError,
    ChecksumError,
    CsvError,
    DtypeError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    QueueCoreError,
)

RECORD = np.dtype([("label", "u1"), ("image", ">i2", (2, 3))])


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def coord():
    return qc.Coordinator()


@pytest.fixture
def uncaught(monkeypatch):
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(args.exc_value))
    return caught


@pytest.fixture
def files(tmp_path):
    """Return four files of records, and the records."""
    paths, records = [], []
    for index, count in enumerate((7, 0, 30, 1)):
        rows = np.frombuffer(np.random.default_rng(index).bytes(count * RECORD.itemsize), RECORD)
        path = tmp_path / f"{index}.bin"
        path.write_bytes(rows.tobytes())
        paths.append(str(path))
        records += list(rows)
    return paths, records


def names_queue(paths, dtype=str, capacity=-1):
    queue = qc.FIFOQueue(capacity, [dtype], [()])
    for path in paths:
        queue.enqueue(path)
    queue.close()
    return queue


def bytes_of(array):
    return np.asarray(array).tobytes()


def reader():
    return qc.FixedLengthRecordReader(RECORD.itemsize)


def raw():
    return qc.ops.decode_raw(out_type=np.uint8)


def raw_queue(capacity=10, kind=qc.FIFOQueue):
    return kind(capacity, [np.uint8], [(RECORD.itemsize,)])


# What comes out

WORK = {
    "list": list,
    "generator": lambda paths: (path for path in paths),
    "str": names_queue,
    "bytes": lambda paths: names_queue(paths, bytes),
    "object": lambda paths: names_queue(paths, object),
    "fixed bytes": lambda paths: names_queue(paths, "S300"),
    "fixed str": lambda paths: names_queue(paths, "U300"),
}


@pytest.mark.parametrize("work", WORK)
def test_records_in_order(files, coord, work):
    paths, records = files
    queue = raw_queue(3)
    program = qc.StageProgram(reader(), WORK[work](paths), raw())
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    rows, error = drain(queue)
    assert [bytes_of(row) for row in rows] == [bytes_of(row) for row in records]
    assert error.__cause__ is None
    coord.join(threads)
    assert not coord.should_stop()


@pytest.mark.parametrize("count", [1, 3])
def test_key_and_value_without_operations(files, coord, count):
    paths, records = files
    queue = qc.FIFOQueue(3, [bytes, bytes])
    program = qc.StageProgram(reader(), paths, *[])
    threads = qc.QueueRunner(queue, [program] * count).create_threads(coord, start=True)
    got, _ = drain(queue)
    coord.join(threads)
    eager = reader()
    work = list(paths)
    expected = [list(eager.read(work)) for _ in records]
    assert (got if count == 1 else sorted(got)) == (expected if count == 1 else sorted(expected))
    assert program._reader.num_records_produced() == len(records)
    assert program._reader.num_work_units_completed() == 4


def test_a_record_by_its_fields(files, coord):
    paths, records = files
    queue = qc.FIFOQueue(-1, [np.int16, np.uint8], [(2, 3), ()], names=["image", "label"])
    program = qc.StageProgram(reader(), paths, qc.ops.decode_raw(out_type=RECORD))
    assert [(one.name, one.dtype, one.shape) for one in program.outputs] == [
        ("label", np.dtype("u1"), ()),
        ("image", np.dtype("i2"), (2, 3)),
    ]
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    batch = queue.dequeue_many(len(records))
    np.testing.assert_array_equal(batch["image"], [row["image"] for row in records])
    np.testing.assert_array_equal(batch["label"], [row["label"] for row in records])


def test_without_names_fields_go_by_their_order(files, coord):
    paths, records = files
    queue = qc.FIFOQueue(-1, [np.uint8, np.int16], [(), (2, 3)])
    program = qc.StageProgram(reader(), paths, qc.ops.decode_raw(out_type=RECORD))
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    labels, images = queue.dequeue_many(len(records))
    np.testing.assert_array_equal(labels, [row["label"] for row in records])
    np.testing.assert_array_equal(images, [row["image"] for row in records])


def test_lines_of_any_length(tmp_path, coord):
    path = tmp_path / "lines"
    lines = [b"x" * size for size in (0, 4, 2, 300_000, 8)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    queue = qc.PaddingFIFOQueue(10, [np.int16], [[None]])
    program = qc.StageProgram(qc.TextLineReader(), [path], qc.ops.decode_raw(out_type=">i2"))
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    for line in lines:
        np.testing.assert_array_equal(queue.dequeue(), np.frombuffer(line, ">i2"))


@pytest.mark.parametrize("shape", [None, ()])
def test_names_through_identity(coord, shape):
    queue = qc.FIFOQueue(10, [bytes, bytes], None if shape is None else [shape, shape])
    program = qc.StageProgram(qc.IdentityReader(), names_queue(["a", "", "ä"]))
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    assert drain(queue)[0] == [[b"a", b"a"], [b"", b""], ["ä".encode(), "ä".encode()]]


def test_a_priority_queue_sorts_what_a_program_puts(tmp_path, coord):
    rows = np.zeros(50, [("key", "<i8"), ("value", "<f4")])
    rows["key"] = np.random.default_rng(0).permutation(50)
    rows["value"] = rows["key"] / 2
    path = tmp_path / "rows"
    path.write_bytes(rows.tobytes())
    queue = qc.PriorityQueue(-1, [np.float32], [()])
    program = qc.StageProgram(qc.FixedLengthRecordReader(12), [path], qc.ops.decode_raw(out_type=rows.dtype))
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    keys, values = queue.dequeue_many(50)
    np.testing.assert_array_equal(keys, np.arange(50))
    np.testing.assert_array_equal(values, np.arange(50) / 2)


@pytest.mark.parametrize("kind", [qc.FIFOQueue, lambda *args: qc.RandomShuffleQueue(args[0], 3, *args[1:])])
@pytest.mark.parametrize("shared", [True, False])
def test_several_threads(files, coord, kind, shared):
    paths, records = files
    queue = raw_queue(5, kind)
    names = names_queue(paths * 20)
    one = reader()
    programs = [qc.StageProgram(one if shared else reader(), names, raw()) for _ in range(4)]
    threads = qc.QueueRunner(queue, programs).create_threads(coord, start=True)
    assert [thread.name.rsplit("-", 1)[1] for thread in threads] == ["StageProgram"] * 4 + ["close_on_stop"]
    rows, _ = drain(queue)
    assert sorted(map(bytes_of, rows)) == sorted(bytes_of(row) for row in records * 20)
    coord.join(threads)
    assert not any(thread.is_alive() for thread in threads)


def test_a_chain_of_runners(tmp_path, files, coord):
    """Names, records and rows, each in a queue of its own."""
    paths, records = files
    names, found = qc.FIFOQueue(2, [str]), iter(paths)
    values = qc.FIFOQueue(2, [bytes, bytes])
    pairs = [
        (names, lambda: names.enqueue(next(found))),
        (values, qc.StageProgram(reader(), names)),
    ]
    threads = [
        thread for queue, op in pairs for thread in qc.QueueRunner(queue, [op]).create_threads(coord, start=True)
    ]
    got, _ = drain(values)
    assert [value for _, value in got] == [bytes_of(row) for row in records]
    coord.join(threads)


def test_it_goes_on_where_it_stopped(files, coord):
    paths, records = files
    queue = raw_queue(2)
    program = qc.StageProgram(reader(), paths, raw())
    runner = qc.QueueRunner(queue, [program], cancel_op=lambda: None)
    threads = runner.create_threads(coord, start=True)
    first = [queue.dequeue() for _ in range(10)]
    assert soon(lambda: program._reader.num_records_produced() == 13)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 1)
    coord.request_stop()
    coord.join(threads)
    assert not queue.is_closed()
    coord.clear_stop()
    threads = runner.create_threads(coord, start=True)
    rest, _ = drain(queue)
    coord.join(threads)
    got = [bytes_of(row) for row in first + rest]
    # The one that was on its way is lost: the 13th.
    assert got == [bytes_of(row) for row in records[:12] + records[13:]]


# No GIL


def test_it_needs_no_gil(tmp_path, coord):
    """While this thread keeps the GIL, files are opened, read, decoded and put."""
    for index in range(50):
        (tmp_path / str(index)).write_bytes(bytes([index]) * 40)
    names = names_queue([str(tmp_path / str(index)) for index in range(50)] * 40)
    queue = qc.FIFOQueue(16, [np.uint8], [(4,)])
    program = qc.StageProgram(qc.FixedLengthRecordReader(4), names, raw())
    out = np.empty(4, np.uint8)
    threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    assert soon(lambda: queue.size() == 16)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        count, deadline = 0, time.monotonic() + PATIENCE
        while count < 15_000 and time.monotonic() < deadline:
            if queue.size():  # never waits, so never lets go of the GIL
                queue.dequeue(out=out)
                count += 1
    finally:
        sys.setswitchinterval(interval)
    assert count == 15_000
    coord.request_stop()
    coord.join(threads)


# Elements go into the queue several at a time


@pytest.mark.parametrize("kind", ["fifo", "random", "priority"])
def test_what_is_made_is_put_before_the_program_waits_for_a_name(tmp_path, coord, kind):
    for index in range(2):
        (tmp_path / str(index)).write_text("".join(f"{100 - n},{n}\n" for n in range(8 * index, 8 * index + 8)))
    names = qc.FIFOQueue(10, [bytes], [()])
    queue = {
        "fifo": lambda: qc.FIFOQueue(1000, [np.int64, np.int64], [(), ()]),
        "random": lambda: qc.RandomShuffleQueue(1000, 0, [np.int64, np.int64], [(), ()]),
        "priority": lambda: qc.PriorityQueue(1000, [np.int64], [()]),
    }[kind]()
    numbers = qc.ops.decode_csv(record_defaults=[np.int64, np.int64])
    program = qc.StageProgram(qc.TextLineReader(), names, numbers)
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    for index in range(2):
        names.enqueue(str(tmp_path / str(index)))
        keys, values = queue.dequeue_many(8, timeout=PATIENCE)
        assert (keys + values).tolist() == [100] * 8
        assert sorted(values.tolist()) == list(range(8 * index, 8 * index + 8))
        if kind == "priority":
            assert keys.tolist() == sorted(keys.tolist())
    coord.request_stop()
    coord.join(threads)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["fifo", "random"])
def test_nothing_is_lost_where_several_wait_for_room(tmp_path, coord, kind, threads):
    # Each element of those that are put at once may have to wait by itself.
    numbers = np.arange(3000, dtype=np.int32)
    (tmp_path / "a").write_bytes(numbers.tobytes())
    queue = qc.FIFOQueue(40, [np.int32], [(1,)])
    if kind == "random":
        queue = qc.RandomShuffleQueue(40, 20, [np.int32], [(1,)], seed=1)
    program = qc.StageProgram(
        qc.FixedLengthRecordReader(4), names_queue([str(tmp_path / "a")]), qc.ops.decode_raw(out_type=np.int32)
    )
    workers = qc.QueueRunner(queue, [program] * threads).create_threads(coord, start=True)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == threads)
    found = []
    with pytest.raises(OutOfRangeError):
        for take in itertools.cycle([1, 1, 7]):
            found += queue.dequeue_up_to(take, timeout=PATIENCE)[:, 0].tolist()
    coord.join(workers)
    assert sorted(found) == numbers.tolist()


def test_nothing_stays_with_a_thread_whose_reader_waits_for_a_name(tmp_path, coord):
    """Of two threads that share a reader, the one that is done first waits for the next name, and keeps the reader."""
    size = 1 << 18
    (tmp_path / "a").write_bytes(np.arange(2 * size, dtype=np.uint8).tobytes())
    names = qc.FIFOQueue(10, [bytes], [()])
    queue = qc.FIFOQueue(100, [np.float64], [(size,)])
    reader = qc.FixedLengthRecordReader(size)
    numbers = qc.ops.compose(qc.ops.decode_raw(out_type=np.uint8), qc.ops.cast(dtype=np.float64))
    threads = qc.QueueRunner(queue, [qc.StageProgram(reader, names, numbers) for _ in range(2)]).create_threads(
        coord, start=True
    )
    for _ in range(20):
        names.enqueue(str(tmp_path / "a"))
        queue.dequeue_many(2, timeout=PATIENCE / 2)
    coord.request_stop()
    coord.join(threads)


def test_a_small_queue_is_not_run_ahead_of(tmp_path, coord):
    (tmp_path / "a").write_bytes(bytes(100))
    reader = qc.FixedLengthRecordReader(1)
    queue = qc.FIFOQueue(5, [np.uint8], [(1,)])
    threads = qc.QueueRunner(queue, [qc.StageProgram(reader, [tmp_path / "a"], raw())]).create_threads(
        coord, start=True
    )
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 1)
    assert (queue.size(), reader.num_records_produced()) == (5, 6)
    coord.request_stop()
    coord.join(threads)


# Stops


@pytest.mark.parametrize("place", ["full", "names", "reader"])
def test_a_stop_ends_every_wait(files, coord, place):
    paths, _ = files
    names = qc.FIFOQueue(-1, [str])
    queue = raw_queue(1)
    if place == "full":
        names.enqueue(paths[0])
    programs = [qc.StageProgram(reader(), names, raw())]
    if place == "reader":
        programs *= 3
    threads = qc.QueueRunner(queue, programs, cancel_op=lambda: None).create_threads(coord, start=True)
    assert soon(
        lambda: queue.stats()["waiting_enqueues"] == 1 if place == "full" else names.stats()["waiting_dequeues"] == 1
    )
    begun = time.monotonic()
    coord.request_stop()
    coord.join(threads)
    assert time.monotonic() - begun < AT_ONCE
    assert not names.is_closed() and not queue.is_closed()
    assert names.stats()["waiting_dequeues"] == queue.stats()["waiting_enqueues"] == 0


def test_a_stop_closes_the_queue(files, coord):
    queue = raw_queue(1)
    program = qc.StageProgram(reader(), itertools.cycle(files[0]), raw())
    threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 2)
    coord.request_stop()
    coord.join(threads)
    assert queue.is_closed()
    assert coord.exceptions == ()


@pytest.mark.parametrize("cancel_op", [None, lambda: None], ids=["that closes the queue", "alone"])
def test_a_stop_hides_no_error_behind_elements_that_nobody_takes(tmp_path, coord, cancel_op):
    # The thread has found a damaged record, and waits for room for the good one before it.
    path = damaged(tmp_path)
    queue = qc.FIFOQueue(32, [bytes, bytes])  # so large that elements are put two at a time
    queue.enqueue_many([[b""] * 32, [b""] * 32])
    program = qc.StageProgram(qc.TFRecordReader(), [path])
    threads = qc.QueueRunner(queue, [program], cancel_op=cancel_op).create_threads(coord, start=True)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 1, PATIENCE)
    coord.request_stop()
    with pytest.raises(ChecksumError) as caught:
        coord.join(threads)
    assert (caught.value.path, caught.value.record) == (str(path), 1)


@pytest.mark.parametrize("with_coordinator", [True, False])
def test_somebody_else_closes_the_queue(files, coord, uncaught, with_coordinator):
    queue = raw_queue(1)
    program = qc.StageProgram(reader(), itertools.cycle(files[0]), raw())
    runner = qc.QueueRunner(queue, [program])
    threads = runner.create_threads(coord if with_coordinator else None, start=True)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 1)
    queue.close(cancel_pending_enqueues=True)
    rows, error = drain(queue)
    assert len(rows) == 1 and error.__cause__ is None
    for thread in threads:
        thread.join(PATIENCE)
    if with_coordinator:
        assert coord.should_stop()
        with pytest.raises(CancelledError):
            coord.join()
    else:
        assert [type(one) for one in runner.exceptions_raised] == [CancelledError]


# Errors


@pytest.mark.parametrize("work", ["list", "str", "object"])
@pytest.mark.parametrize("with_coordinator", [True, False])
def test_a_missing_file(files, coord, uncaught, work, with_coordinator, tmp_path):
    paths, records = files
    missing = str(tmp_path / "missing")
    queue = raw_queue(100)
    runner = qc.QueueRunner(queue, [qc.StageProgram(reader(), WORK[work]([paths[0], missing, paths[2]]), raw())])
    threads = runner.create_threads(coord if with_coordinator else None, start=True)
    rows, error = drain(queue)
    assert [bytes_of(row) for row in rows] == [bytes_of(row) for row in records[:7]]  # what came before it
    cause = error.__cause__
    assert isinstance(cause, NotFoundError)
    assert cause.path == cause.filename == missing
    for thread in threads:
        thread.join(PATIENCE)
    if with_coordinator:
        with pytest.raises(NotFoundError):
            coord.join()
    else:
        assert uncaught == runner.exceptions_raised == [cause]


def test_a_record_that_does_not_decode(tmp_path, coord):
    path = tmp_path / "lines"
    path.write_bytes(b"1234\n5678\nabc\n9999\n")
    queue = qc.FIFOQueue(10, [np.int32])
    program = qc.StageProgram(qc.TextLineReader(), [path], qc.ops.decode_raw(out_type=np.int32))
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    rows, error = drain(queue)
    assert len(rows) == 2
    with pytest.raises(InvalidArgumentError, match="has 3 bytes, which is not a multiple of 4") as caught:
        coord.join(threads)
    assert error.__cause__ is caught.value
    assert (caught.value.path, caught.value.record) == (str(path), 2)


def test_columns_of_lines(tmp_path, coord):
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2.5,x\n3,,y\n4,5,z\n5,q,\n")
    queue = qc.FIFOQueue(10, [np.int32, np.float32, bytes], [(), (), ()])
    program = qc.StageProgram(qc.TextLineReader(), [path], qc.ops.decode_csv(record_defaults=[0, -1.0, ""]))
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    rows, _ = drain(queue)
    assert [[int(one), float(two), three] for one, two, three in rows] == [[1, 2.5, b"x"], [3, -1, b"y"], [4, 5, b"z"]]
    with pytest.raises(CsvError, match="record 3 of") as caught:
        coord.join(threads)
    assert (caught.value.path, caught.value.record, caught.value.field) == (str(path), 3, 1)


def test_records_that_are_compressed(tmp_path, coord):
    with qc.TFRecordWriter(tmp_path / "records") as writer:
        for i in range(3):
            writer.write(gzip.compress(bytes([65 + i]) * i))
    queue = qc.FIFOQueue(10, [bytes])
    program = qc.StageProgram(
        qc.TFRecordReader(), [tmp_path / "records"], qc.ops.decode_compressed(compression_type="GZIP")
    )
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    assert drain(queue)[0] == [b"", b"B", b"CC"]


def damaged(folder):
    """Write three records, the second of which is damaged."""
    path = folder / "records"
    with qc.TFRecordWriter(path) as writer:
        for value in (b"one", b"two", b"six"):
            writer.write(value)
    content = bytearray(path.read_bytes())
    content[19 + 13] ^= 1
    path.write_bytes(content)
    return path


def test_a_damaged_tfrecord(tmp_path, coord):
    path = damaged(tmp_path)
    queue = qc.FIFOQueue(10, [bytes, bytes])
    threads = qc.QueueRunner(queue, [qc.StageProgram(qc.TFRecordReader(), [path])]).create_threads(coord, start=True)
    assert [value for _, value in drain(queue)[0]] == [b"one"]
    with pytest.raises(ChecksumError) as caught:
        coord.join(threads)
    assert (caught.value.path, caught.value.record, caught.value.offset) == (str(path), 1, 19)


def test_an_element_of_another_shape_than_the_queues(tmp_path, coord):
    path = tmp_path / "lines"
    path.write_bytes(b"1234\n12345\n")
    queue = qc.FIFOQueue(10, [np.uint8], [(4,)], names=["digits"])
    program = qc.StageProgram(qc.TextLineReader(), [path], raw())
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    rows, error = drain(queue)
    assert [row["digits"].tolist() for row in rows] == [list(b"1234")]
    with pytest.raises(InvalidArgumentError, match=r"'digits'.*expected shape \[4\], got 5 as side 0") as caught:
        coord.join(threads)
    assert (caught.value.path, caught.value.record) == (str(path), 1)


def test_another_number_of_dimensions(tmp_path, coord):
    path = tmp_path / "lines"
    path.write_bytes(b"1234\n")
    queue = qc.FIFOQueue(10, [np.uint8], [(2, 2)])
    with pytest.raises(InvalidArgumentError, match=r"expected shape \[2, 2\], got \[\?\]"):
        qc.QueueRunner(queue, [qc.StageProgram(qc.TextLineReader(), [path], raw())])


def test_a_queue_of_names_with_an_element_of_two(coord):
    names = qc.FIFOQueue(-1, [str])
    names.enqueue(np.array(["a", "b"]))
    queue = qc.FIFOQueue(-1, [bytes, bytes])
    threads = qc.QueueRunner(queue, [qc.StageProgram(qc.IdentityReader(), names)]).create_threads(coord, start=True)
    with pytest.raises(InvalidArgumentError, match="not one string"):
        coord.join(threads)


def test_the_cause_comes_through_a_queue_of_names(coord):
    names = qc.FIFOQueue(1, [str])

    def fails():
        raise ValueError("no names")

    queue = qc.FIFOQueue(1, [bytes, bytes])
    runners = [
        qc.QueueRunner(queue, [qc.StageProgram(qc.IdentityReader(), names)] * 2),
        qc.QueueRunner(names, [fails]),
    ]
    threads = [thread for runner in runners for thread in runner.create_threads(coord, start=True)]
    _, error = drain(queue)
    assert str(error.__cause__) == "no names"
    with pytest.raises(ValueError, match="no names"):
        coord.join(threads)
    assert [str(one) for one in coord.exceptions] == ["no names"]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), StopIteration()])
def test_an_error_of_the_work(files, coord, error):
    def names():
        yield files[0][0]
        if not isinstance(error, StopIteration):
            raise error

    queue = raw_queue(100)
    threads = qc.QueueRunner(queue, [qc.StageProgram(reader(), names(), raw())]).create_threads(coord, start=True)
    rows, end = drain(queue)
    assert len(rows) == 7
    if isinstance(error, StopIteration):
        assert end.__cause__ is None
        coord.join(threads)
    else:
        assert end.__cause__ is error
        with pytest.raises(type(error)):
            coord.join(threads)


def test_one_of_several_fails(files, coord):
    """The others end with it, and what they see of the closed queue is no error."""
    paths, _ = files
    queue = raw_queue(1)
    good = qc.StageProgram(reader(), itertools.cycle(paths), raw())
    bad = qc.StageProgram(reader(), ["/nonexistent/file"], raw())
    threads = qc.QueueRunner(queue, [good, bad, good]).create_threads(coord, start=True)
    _, error = drain(queue)
    assert isinstance(error.__cause__, NotFoundError)
    with pytest.raises(NotFoundError):
        coord.join(threads)
    assert [type(one) for one in coord.exceptions] == [NotFoundError]


# What doesn't fit


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((7, ["a"]), "one of queuecore's readers, not 7"),
        ((qc.IdentityReader(), "a"), "queue or an iterable of file names"),
        ((qc.IdentityReader(), qc.FIFOQueue(1, [int])), "queue of strings"),
        ((qc.IdentityReader(), ["a"], 7), "7 is no step"),
        ((qc.IdentityReader(), ["a"], qc.ops.decode_raw), "called without input"),
        ((qc.IdentityReader(), ["a"], raw(), raw()), "expected one component of bytes, got 1 .uint8"),
        (
            (qc.FixedLengthRecordReader(3), ["a"], qc.ops.decode_raw(out_type=RECORD)),
            "expected records of 13 bytes, got 3",
        ),
    ],
)
def test_what_makes_no_program(arguments, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.StageProgram(*arguments)


@pytest.mark.parametrize(
    ("queue", "error", "words"),
    [
        (lambda: qc.FIFOQueue(1, [np.int8], [(13,)]), DtypeError, "expected int8, got uint8"),
        (lambda: qc.FIFOQueue(1, [np.uint8], [(12,)]), InvalidArgumentError, r"expected shape \[12\], got \[13\]"),
        (lambda: qc.FIFOQueue(1, [np.uint8] * 2), InvalidArgumentError, "has 2 components.*makes 1"),
        (lambda: qc.FIFOQueue(1, [bytes]), DtypeError, "expected bytes, got uint8"),
        (lambda: qc.FIFOQueue(1, [object]), DtypeError, "expected objects, got uint8"),
        (lambda: [], InvalidArgumentError, "fills queuecore's queues"),
    ],
)
def test_a_queue_of_other_elements(queue, error, words):
    program = qc.StageProgram(reader(), ["a"], raw())
    with pytest.raises(error, match=words):
        qc.QueueRunner(queue(), [program], close_op=lambda: None, cancel_op=lambda: None)


def test_other_names_than_the_queues():
    program = qc.StageProgram(reader(), ["a"], qc.ops.decode_raw(out_type=RECORD))
    queue = qc.FIFOQueue(1, [np.uint8, np.int16], [(), (2, 3)], names=["label", "picture"])
    with pytest.raises(InvalidArgumentError, match="'picture'.*makes.*'image'"):
        qc.QueueRunner(queue, [program])


def test_repr():
    names = qc.FIFOQueue(2, [str], name="files")
    program = qc.StageProgram(reader(), names, raw())
    assert repr(program) == (
        "StageProgram(FixedLengthRecordReader(13), <FIFOQueue 'files': 0 of 2 elements, open>, decode_raw(uint8))"
    )


def test_nothing_is_lost_when_runs_repeat(files):
    """Slots, memory of steps and the reader's role come back, however a run ends."""
    paths, _ = files
    queue = raw_queue(-1)
    shared_reader = reader()
    before = open_descriptors()
    for round_ in range(100):
        coord = qc.Coordinator()
        work = [paths[2], "/nonexistent/file"] if round_ % 2 else [paths[2]]
        runner = qc.QueueRunner(
            queue, [qc.StageProgram(shared_reader, work, raw())] * 2, close_op=lambda: None, cancel_op=lambda: None
        )
        runner._fail_queue = lambda error: None
        threads = runner.create_threads(coord, start=True)
        try:
            coord.join(threads)
        except QueueCoreError as error:
            assert isinstance(error, NotFoundError)
        assert len(queue.dequeue_many(queue.size())) == 30
    assert shared_reader.num_records_produced() == 3000
    assert soon(lambda: open_descriptors() <= before)
