"""LMDBReader: the records of real databases, what the other readers do too, and databases that are none."""

import errno
import os
import random
import resource
import sys
import threading

import numpy as np
import pytest
from helpers.process import PATIENCE, open_descriptors, run_python, soon

import queuecore as qc
from queuecore.errors import (
    DataLossError,
    FailedPreconditionError,
    ForkedPipelineError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    OutOfRangeError,
    SourceChangedError,
    TruncatedRecordError,
    UnavailableError,
    UnimplementedError,
)

lmdb = pytest.importorskip("lmdb")


@pytest.fixture(autouse=True)
def no_database_is_open():
    before = open_descriptors()
    yield
    assert soon(lambda: open_descriptors() <= before)


def some_records(count, seed=0):
    """Keys and values of many sizes: some fill pages of their own."""
    rng = random.Random(seed)
    keys = {rng.randbytes(rng.randrange(1, 40)) for _ in range(count)}
    return {key: rng.randbytes(rng.choice([0, 1, 30, 2000, 4096, 20_000])) for key in keys}


def write(path, records, **options):
    environment = lmdb.open(os.fsencode(path), map_size=1 << 28, **options)
    with environment, environment.begin(write=True) as transaction:
        for key, value in records.items():
            transaction.put(key, value)
    return sorted(records.items())


def drain(reader, work):
    records = []
    while True:
        try:
            records.append(reader.read(work))
        except OutOfRangeError:
            return records


# Records


@pytest.mark.parametrize("count", [0, 1, 2, 50, 3000])
def test_records_in_the_order_of_their_keys(tmp_path, count):
    expected = write(tmp_path / "a", some_records(count))
    reader = qc.LMDBReader()
    for work in ([tmp_path / "a"], [os.fsencode(tmp_path / "a")], [tmp_path / "a" / "data.mdb"]):
        assert drain(reader, work) == expected
    assert reader.num_records_produced() == 3 * len(expected)
    assert reader.num_work_units_completed() == 3
    assert repr(reader) == "LMDBReader()"


def test_a_file_without_a_folder(tmp_path):
    expected = write(tmp_path / "a.lmdb", some_records(40), subdir=False)
    (tmp_path / "a.lmdb-lock").unlink()
    assert drain(qc.LMDBReader(), [tmp_path / "a.lmdb"] * 2) == expected * 2
    assert os.listdir(tmp_path) == ["a.lmdb"]  # no lock comes to lie beside it


def test_only_the_unnamed_database_is_read(tmp_path):
    environment = lmdb.open(os.fspath(tmp_path / "a"), max_dbs=2)
    with environment, environment.begin(write=True) as transaction:
        transaction.put(b"own", b"1")
        transaction.put(b"other", b"2", db=environment.open_db(b"named", transaction))
    assert [key for key, _ in drain(qc.LMDBReader(), [tmp_path / "a"])] == [b"named", b"own"]


def test_more_than_the_package_maps_by_itself(tmp_path):
    expected = write(tmp_path / "a", {b"%03d" % i: bytes([i]) * 200_000 for i in range(120)})
    assert os.stat(tmp_path / "a" / "data.mdb").st_size > 20 << 20
    assert drain(qc.LMDBReader(), [tmp_path / "a"]) == expected


@pytest.mark.parametrize("count", [1, 7, 10**15])
def test_read_up_to(tmp_path, count):
    paths = [tmp_path / str(index) for index in range(3)]
    sizes = [30, 0, 11]
    expected = [write(path, some_records(size, size)) for path, size in zip(paths, sizes, strict=True)]
    reader, results = qc.LMDBReader(), []
    while True:
        try:
            keys, values = reader.read_up_to(paths, count)
        except OutOfRangeError:
            break
        assert 1 <= len(keys) == len(values) <= count
        part = list(zip(keys.to_list(), values.to_list(), strict=True))
        assert any(one in records for one in part for records in expected)
        assert len({index for index, records in enumerate(expected) for one in part if one in records}) == 1
        results += part
    assert results == expected[0] + expected[1] + expected[2]
    assert reader.num_records_produced() == len(results)
    assert reader.num_work_units_completed() == 3


def test_batches_for_operations(tmp_path):
    write(tmp_path / "a", {b"%d" % i: np.full(3, i, ">i4").tobytes() for i in range(5)})
    values = qc.LMDBReader().read_up_to([tmp_path / "a"], 10)[1]
    np.testing.assert_array_equal(qc.ops.decode_raw(values, ">i4"), np.repeat(np.arange(5), 3).reshape(5, 3))


# As all readers


def test_work_from_a_queue(tmp_path):
    expected = write(tmp_path / "a", some_records(5))
    names = qc.FIFOQueue(4, [str])
    names.enqueue(os.fspath(tmp_path / "a"))
    names.enqueue(os.fspath(tmp_path / "missing"))
    names.enqueue(os.fspath(tmp_path / "a"))
    names.close()
    reader = qc.LMDBReader()
    assert [reader.read(names) for _ in expected] == expected
    with pytest.raises(NotFoundError):
        reader.read(names)
    assert drain(reader, names) == expected
    assert reader.num_work_units_completed() == 2
    with pytest.raises(InvalidArgumentError, match="queue or an iterable"):
        reader.read("name")


def test_reset(tmp_path):
    expected = write(tmp_path / "a", some_records(5))
    reader, work = qc.LMDBReader(), [tmp_path / "a", tmp_path / "a"]
    assert reader.read(work) == expected[0]
    reader.reset()
    assert reader.num_records_produced() == reader.num_work_units_completed() == 0
    assert drain(reader, work) == expected


def test_no_state():
    reader = qc.LMDBReader()
    assert not reader.supports_serialize
    with pytest.raises(UnimplementedError):
        reader.serialize_state()
    with pytest.raises(UnimplementedError):
        reader.restore_state(b"")


def test_work_that_reads_from_its_own_reader(tmp_path):
    reader = qc.LMDBReader()

    def names():
        yield reader.read([tmp_path])[0]

    with pytest.raises(FailedPreconditionError, match="reads from that reader itself"):
        reader.read(names())


def test_many_threads_and_readers_at_one_database(tmp_path):
    expected = write(tmp_path / "a", some_records(800))
    shared, results = qc.LMDBReader(), [[] for _ in range(6)]
    work = [tmp_path / "a"] * 3

    def run(index):
        reader = shared if index < 3 else qc.LMDBReader()
        results[index].extend(drain(reader, work if index < 3 else [tmp_path / "a"]))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results[0] + results[1] + results[2]) == sorted(expected * 3)
    assert results[3:] == [expected] * 3
    assert shared.num_records_produced() == 3 * len(expected)


def test_a_reader_that_waits_for_names(tmp_path):
    expected = write(tmp_path / "a", some_records(2))
    names, reader, results = qc.FIFOQueue(1, [str]), qc.LMDBReader(), []
    threads = [threading.Thread(target=lambda: results.append(reader.read(names))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert soon(lambda: names.stats()["waiting_dequeues"] == 1)
    assert reader.num_records_produced() == reader.num_work_units_completed() == 0  # which don't wait
    names.enqueue(os.fspath(tmp_path / "a"))
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == expected[:2]
    reader.reset()


def test_a_forked_child(tmp_path):
    write(tmp_path / "a", some_records(5))
    code = f"""
        import os
        import queuecore as qc
        work = [{os.fspath(tmp_path / "a")!r}]
        reader = qc.LMDBReader()
        first = reader.read(work)
        child = os.fork()
        if child == 0:
            try:
                reader.read(work)
            except qc.errors.ForkedPipelineError:
                assert qc.LMDBReader().read(list(work)) == first
                del reader
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert reader.read(work) > first
    """
    child = run_python(code)
    assert (child.returncode, child.stderr) == (0, "")
    assert issubclass(ForkedPipelineError, FailedPreconditionError)


def test_not_in_a_stage_program(tmp_path):
    with pytest.raises(InvalidArgumentError, match="Python op of the QueueRunner"):
        qc.StageProgram(qc.LMDBReader(), [tmp_path])


def test_in_a_python_op(tmp_path):
    expected = write(tmp_path / "a", some_records(20))
    queue, reader, work = qc.FIFOQueue(5, [bytes, bytes]), qc.LMDBReader(), [tmp_path / "a"]
    coord = qc.Coordinator()
    runner = qc.QueueRunner(queue, [lambda: queue.enqueue(reader.read(work))] * 2)
    threads = runner.create_threads(coord, start=True)
    assert sorted(map(tuple, queue)) == expected
    coord.join(threads)


def test_without_the_package_lmdb(tmp_path, monkeypatch):
    expected = write(tmp_path / "a", some_records(20))
    monkeypatch.setitem(sys.modules, "lmdb", None)
    assert drain(qc.LMDBReader(), [tmp_path / "a"]) == expected


# What is no database


def test_what_can_not_be_opened(tmp_path):
    expected = write(tmp_path / "good", some_records(3))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder" / "data.mdb").mkdir(parents=True)
    (tmp_path / "noise").write_bytes(random.Random(0).randbytes(100_000))
    (tmp_path / "short").write_bytes(b"x")
    (tmp_path / "lines").write_bytes(b"a,b\n" * 5000)
    (tmp_path / "empty").touch()
    cases = [
        (tmp_path / "missing", NotFoundError, errno.ENOENT),
        (tmp_path, NotFoundError, errno.ENOENT),
        (tmp_path / "noise" / "below", NotFoundError, errno.ENOTDIR),
        (tmp_path / "folder", NotAFileError, errno.EISDIR),
        (tmp_path / "pipe", UnavailableError, None),
        (tmp_path / "noise", DataLossError, None),
        (tmp_path / "short", DataLossError, None),
        (tmp_path / "lines", DataLossError, None),
        (tmp_path / "good" / "lock.mdb", DataLossError, None),
        ("", InvalidArgumentError, None),
        ("a\0b", InvalidArgumentError, None),
    ]
    reader, work = qc.LMDBReader(), [path for path, _, _ in cases] + [tmp_path / "empty", tmp_path / "good"]
    for path, cls, code in cases:
        with pytest.raises(cls) as caught:
            reader.read(work)
        assert (type(caught.value), caught.value.path, caught.value.stage) == (cls, os.fspath(path), "open")
        assert repr(os.fspath(path)) in str(caught.value)
        if isinstance(caught.value, OSError):
            assert caught.value.errno == code
    assert reader.num_work_units_completed() == 0
    assert drain(reader, work) == expected
    assert reader.num_work_units_completed() == 2


def test_odd_names(tmp_path):
    for name in (b"a\nb", b"\xff", "ä €".encode()):
        path = os.fsencode(tmp_path) + b"/" + name
        expected = write(path, some_records(3))
        assert drain(qc.LMDBReader(), [path, os.fsdecode(path)]) == expected * 2
        os.truncate(path + b"/data.mdb", 5000)
        with pytest.raises(TruncatedRecordError) as caught:
            qc.LMDBReader().read([path])
        assert os.fsencode(caught.value.path) == path and "\n" not in str(caught.value)


def test_too_many_open_files(tmp_path):
    expected = write(tmp_path / "a", some_records(3))
    reader = qc.LMDBReader()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(UnavailableError) as caught:
            reader.read([tmp_path / "a"])
        assert caught.value.errno == errno.EMFILE and f"{lowest} files" in str(caught.value)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
        assert drain(reader, [tmp_path / "a"]) == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_open_elsewhere_in_this_process(tmp_path):
    expected = write(tmp_path / "a", some_records(3))
    with lmdb.open(os.fspath(tmp_path / "a")):
        assert drain(qc.LMDBReader(), [tmp_path / "a"]) == expected
        with pytest.raises(lmdb.Error, match="already open"):  # the package itself
            lmdb.open(os.fspath(tmp_path / "a"))


# Damage


def test_cut_at_each_page(tmp_path):
    expected = write(tmp_path / "a", some_records(60))
    data = tmp_path / "a" / "data.mdb"
    content = data.read_bytes()
    with lmdb.open(os.fspath(tmp_path / "a"), readonly=True) as environment:
        pages = environment.info()["last_pgno"] + 1
    for size in (*range(4096, pages * 4096, 4096), pages * 4096 - 1):
        data.write_bytes(content[:size])
        reader, work, got = qc.LMDBReader(), [tmp_path / "a"], []
        with pytest.raises(TruncatedRecordError) as caught:
            while True:
                got.append(reader.read(work))
        assert got == expected[: len(got)]
        assert (caught.value.path, caught.value.record) == (os.fspath(tmp_path / "a"), len(got))
        assert caught.value.offset + 4096 > size and f"the file at {size}" in str(caught.value)
    data.write_bytes(content[: pages * 4096])  # what follows is room
    assert len(drain(qc.LMDBReader(), [tmp_path / "a"])) == 60


def test_pages_that_are_damaged(tmp_path):
    expected = write(tmp_path / "a", {b"%04d" % i: b"x" * 500 for i in range(300)})
    data = tmp_path / "a" / "data.mdb"
    content = bytearray(data.read_bytes())
    content[20 * 4096 : 21 * 4096] = b"\xff" * 4096
    data.write_bytes(content)
    reader, work = qc.LMDBReader(), [tmp_path / "a"]
    keys, values = reader.read_up_to(work, 1000)
    got = list(zip(keys.to_list(), values.to_list(), strict=True))
    assert got == expected[: len(got)] and 0 < len(got) < 300
    with pytest.raises(DataLossError) as caught:
        reader.read(work)
    assert (caught.value.path, caught.value.record, caught.value.stage) == (os.fspath(tmp_path / "a"), len(got), "read")
    assert drain(reader, work) == []
    assert reader.num_work_units_completed() == 0


@pytest.mark.parametrize("commits", [1, 2, 5])
def test_written_to_while_it_is_read(tmp_path, commits):
    """What was read of a page before is given, and then nothing of a page that may be another by now."""
    expected = write(tmp_path / "a", some_records(50))
    reader, work = qc.LMDBReader(), [tmp_path / "a", tmp_path / "a"]
    assert [reader.read(work) for _ in range(3)] == expected[:3]
    code = f"""
        import lmdb
        with lmdb.open({os.fspath(tmp_path / "a")!r}, map_size=1 << 28) as environment:
            for _ in range({commits}):
                with environment.begin(write=True) as transaction:
                    for key, value in list(transaction.cursor()):
                        transaction.put(key, b"new")
    """
    assert run_python(code).stderr == ""
    got = []
    with pytest.raises(SourceChangedError, match="was written to") as caught:
        while True:
            got.append(reader.read(work))
    assert got == expected[3 : 3 + len(got)] and 3 + len(got) < 50
    assert (caught.value.path, caught.value.record) == (os.fspath(tmp_path / "a"), 3 + len(got))
    assert drain(reader, work) == [(key, b"new") for key, _ in expected]


def test_shortened_while_it_is_read(tmp_path):
    expected = write(tmp_path / "a", some_records(50))
    reader, work = qc.LMDBReader(), [tmp_path / "a"]
    assert reader.read(work) == expected[0]
    os.truncate(tmp_path / "a" / "data.mdb", 3 * 4096)
    got = []
    with pytest.raises(SourceChangedError, match="shortened"):
        while True:
            got.append(reader.read(work))
    assert got == expected[1 : 1 + len(got)]
    assert drain(reader, work) == []


SHORTENED = """
    import os, sys
    import queuecore as qc
    folder, data, pages = sys.argv[1], os.path.join(sys.argv[1], "data.mdb"), int(sys.argv[2])
    content = open(data, "rb").read()
    for size in range(0, len(content), 1000):
        for taken in (0, 1, 30):
            with open(data, "r+b") as file:
                file.write(content)
            holder, rest = qc.LMDBReader(), [folder]
            for _ in range(taken):
                holder.read(rest)
            os.truncate(data, size)
            for reader, work in (qc.LMDBReader(), [folder]), (holder, rest):
                try:
                    while True:
                        reader.read(work)
                except (qc.errors.DataLossError, qc.errors.SourceChangedError) as error:
                    assert error.path == folder and size < pages, (error, size, taken)
                except qc.errors.OutOfRangeError:
                    empty = size == 0 and not (taken and reader is holder)
                    assert size >= pages or empty, (size, taken)
    print("whole")
"""


@pytest.mark.thorough
def test_no_size_ends_the_process(tmp_path):
    """A reader in the middle, and one that begins while the first has the database open."""
    write(tmp_path / "a", some_records(50))
    with lmdb.open(os.fspath(tmp_path / "a"), readonly=True) as environment:
        pages = (environment.info()["last_pgno"] + 1) * 4096
    done = run_python(SHORTENED, tmp_path / "a", pages)
    assert (done.stderr, done.stdout, done.returncode) == ("", "whole\n", 0)


def test_unlinked_and_replaced_while_it_is_read(tmp_path):
    expected = write(tmp_path / "a", some_records(50))
    new = write(tmp_path / "b", {b"new": b"1"})
    reader = qc.LMDBReader()
    assert reader.read([tmp_path / "a"]) == expected[0]
    os.rename(tmp_path / "b" / "data.mdb", tmp_path / "a" / "data.mdb")
    work = [tmp_path / "a"]
    assert drain(reader, work) == expected[1:] + new
