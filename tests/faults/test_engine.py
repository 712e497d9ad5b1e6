"""The request engine: what the page cache doesn't have is read by threads of its own, and nothing else changes.

Each test runs with every backend: a request a thread, and io_uring.
"""

import contextlib
import errno
import pathlib
import threading

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, chains, dataset, own, pull, run, write_files
from helpers.faults.left import faults_end
from helpers.faults.rings import BACKENDS
from helpers.models.oracle import Model, assert_same
from helpers.process import run_python, soon
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import NumpyDataset, Options, TextLineDataset, TFRecordDataset

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")
engine = pytest.importorskip("queuecore._core.testing.engine")

# One piece, several pieces, a gap behind each record, pieces too small to be scattered by the kernel.
RECORDS = {
    "direct": (100, {}),
    "scattered": (np.dtype([("a", "u1", (600,)), ("b", ">u2", (900,))]), {}),
    "staged": (np.dtype([("a", ">u2"), ("b", ">f8", (12,)), ("c", "?", (2,))]), {}),
    "gaps": (np.dtype([("a", "<i4"), ("b", "u1", (20,))]), {"hop": 40, "header": 7, "footer": 3}),
    "far": (200, {"hop": 70_000}),
}

ORDERS = [[], [("shuffle", 30, 1, True), ("repeat", 2)], [("repeat", 2), ("shuffle", 500, 1, True)]]


@pytest.fixture(params=BACKENDS)
def io(request):
    """Let nothing be in the page cache, and return the backend of the test."""
    with faults_end(syscalls):
        syscalls.set_uncached(True)
        yield request.param


def contents_of(kind, counts=(40, 0, 25, 60)):
    record, frame = RECORDS[kind]
    size = record if isinstance(record, int) else record.itemsize
    hop = frame.get("hop", size)
    state = np.random.default_rng(len(kind))
    ends = frame.get("header", 0) + frame.get("footer", 0)
    return [state.bytes(ends + (count - 1) * hop + size) if count else b"" for count in counts]


def with_threads(ds, number, io, **options):
    return ds.with_options(Options(num_threads=number, io=io, **options))


def done_by(it, io):
    """Whether reads of records at known places were done by this backend."""
    stats = it.stats()
    return stats["io_requests"] > 0 and (stats["io_uring_requests"] > 0) == (io == "uring")


@pytest.mark.parametrize("knee", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("noise", [0, 0.01])
def test_the_depth_is_what_the_storage_is_good_for(knee, noise):
    """Storage that does so many requests at a time: more of them only wait."""
    state = np.random.default_rng(knee)
    found = engine.depths(lambda depth: min(depth, knee) * (1 + noise * state.uniform(-1, 1)), 64, 600)
    assert found[0] == 8
    assert np.median(found[40:]) in (knee, min(2 * knee, 64))
    assert min(found) >= 4
    assert max(found) <= 64
    assert max(engine.depths(lambda depth: depth, 20, 100)) == 20


def test_the_depth_follows_the_storage():
    seen = []
    found = engine.depths(lambda depth: seen.append(depth) or min(depth, 64 if len(seen) < 400 else 4), 64, 2000)
    assert np.median(found[100:400]) == 64
    assert np.median(found[-400:]) <= 8


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("order", ORDERS)
def test_records_are_the_same(tmp_path, kind, order, number, io):
    contents = contents_of(kind)
    record, frame = RECORDS[kind]
    ds = dataset(write_files(tmp_path, contents), record, **frame)
    ops = [*order, ("batch", 16, False)]
    with iter(with_threads(apply(ds, ops), number, io)) as it:
        got, error = pull(it)
        assert done_by(it, io)
    assert error is None
    assert_same(got, list(Model(contents, record, ops, **frame)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=chains(),
    kind=st.sampled_from(sorted(RECORDS)),
    number=st.sampled_from(THREADS),
    odd=st.integers(0, 3),
    data=st.data(),
)
def test_any_steps_are_the_same(tmp_path_factory, ops, kind, number, odd, data, io):
    contents = contents_of(kind, data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=4)))
    record, frame = RECORDS[kind]
    paths = write_files(tmp_path_factory.mktemp("cold"), contents)
    if odd & 1:
        syscalls.short_reads(data.draw(st.integers(1, 300)))
    if odd & 2:
        syscalls.interrupt_reads(3)
    got, error = run(with_threads(apply(dataset(paths, record, **frame), ops), number, io), 200)
    syscalls.short_reads(0)
    syscalls.interrupt_reads(0)
    assert error is None
    assert_same(got, [element for _, element in zip(range(200), Model(contents, record, ops, **frame), strict=False)])


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("seed", [1, 2])
def test_records_anywhere_are_read_at_once(tmp_path, number, seed, io):
    content = np.arange(3000, dtype="<i4").tobytes()
    paths = write_files(tmp_path, [content[: 4 * 1234], content[4 * 1234 :]])
    ds = dataset(paths, record=np.dtype("<i4")).permute(seed, False).batch(100)
    syscalls.set_uncached(False)
    expected, _ = run(ds)
    syscalls.set_read_delay(0.0005)
    with iter(with_threads(ds, number, io)) as it:
        got, error = pull(it)
        assert it.stats()["io_requests"] > 2000  # few records follow each other
        assert done_by(it, io)
    assert error is None
    assert_same(got, expected)
    assert sorted(np.concatenate(got)) == list(range(3000))


@pytest.mark.parametrize("by_columns", [False, True])
def test_arrays(tmp_path, by_columns, io):
    array = np.random.default_rng(0).integers(0, 1 << 40, (500, 3, 2))
    np.save(tmp_path / "a.npy", np.asfortranarray(array) if by_columns else array)
    ds = with_threads(NumpyDataset(tmp_path / "a.npy").permute(seed=3).batch(64), 2, io)
    ringing = io == "uring" and not by_columns
    assert ds.plan().endswith(f"page cache: {'io_uring' if ringing else 'threads'}")
    with iter(ds) as it:
        got, error = pull(it)
        assert (it.stats()["io_uring_requests"] > 0) == ringing
    assert error is None
    assert sorted(np.concatenate(got).reshape(500, 6).tolist()) == sorted(array.reshape(500, 6).tolist())


@pytest.mark.parametrize("number", THREADS)
def test_pieces_are_read_ahead(tmp_path, number, io):
    lines = [b"%d" % (i * i) for i in range(200_000)]
    paths = write_files(tmp_path, [b"\n".join(lines[:70_000]), b"\n".join(lines[70_000:])])
    with iter(with_threads(TextLineDataset(paths).batch(1000), number, io)) as it:
        results, error = pull(it, own=lambda batch: [bytes(line) for line in batch])
        assert it.stats()["io_requests"] >= 8
    assert error is None
    assert [line for batch in results for line in batch] == lines
    with qc.TFRecordWriter(tmp_path / "t") as writer:
        for line in lines[:30_000]:
            writer.write(line)
    with iter(with_threads(TFRecordDataset(tmp_path / "t").batch(1000), number, io)) as it:
        results, error = pull(it, own=lambda batch: [bytes(line) for line in batch])
    assert error is None
    assert [line for batch in results for line in batch] == lines[:30_000]


def test_small_files(tmp_path, io):
    contents = [np.full(10, i, "<i4").tobytes() for i in range(300)]
    ds = dataset(write_files(tmp_path, contents), record=np.dtype("<i4")).batch(10)
    got, error = run(with_threads(ds.repeat(2), 2, io))
    assert error is None
    assert [row[0] for row in got] == list(range(300)) * 2


def names():
    found = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found.append((task / "comm").read_text())
    return [name for name in found if name.startswith("qc-io")]


def test_few_descriptors(tmp_path, io):
    write_files(tmp_path, [np.full(30, i, "<i4").tobytes() for i in range(200)])
    child = run_python(f"""
        import resource
        import numpy as np
        from queuecore._core.testing import syscalls
        from queuecore.data import FixedLengthRecordDataset, Options
        ds = FixedLengthRecordDataset({str(tmp_path / "*")!r}, record=np.dtype("<i4"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        syscalls.set_read_delay(0.0002)
        for steps in (ds, ds.permute(1)):
            batches = list(map(np.array, steps.batch(32).with_options(Options(num_threads=2, io={io!r}))))
            assert sorted(np.concatenate(batches).tolist()) == [i for i in range(200) for _ in range(30)]
    """)
    assert (child.returncode, child.stderr) == (0, "")


def test_its_threads_begin_with_the_first_wait_and_end_with_the_iterator(tmp_path, io):
    ds = dataset(write_files(tmp_path, [bytes(100 * 1000)]), 100).batch(10)
    syscalls.set_uncached(False)
    with iter(with_threads(ds, 2, io)) as it:
        pull(it)
        assert not names()
        assert (it.stats()["io_requests"], it.stats()["io_depth"]) == (0, 0)
    syscalls.set_uncached(True)
    with iter(with_threads(ds, 2, io, io_depth=5)) as it:
        pull(it, 1)
        # A ring's thread does up to 32; others may have to open the file.
        assert soon(lambda: len(names()) == 5 if io == "threads" else 1 <= len(names()) <= 6)
        assert it.stats()["io_depth"] == 5
    assert soon(lambda: not names())
    with iter(with_threads(ds, 2, "pread")) as it:
        assert pull(it)[1] is None
        assert not names()
        assert it.stats()["io_requests"] == 0


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_failed_read_is_the_same_error(tmp_path, number, at, io):
    # Whoever needs the bytes reads them again, and gets the error there.
    contents = contents_of("direct")
    paths = write_files(tmp_path, contents)
    ds = with_threads(dataset(paths, 100).batch(5), number, io)
    syscalls.fail_read(at, errno.EIO, sticky=True)
    got, error = run(ds)
    assert isinstance(error, qc.errors.UnavailableError)
    assert "Input/output error" in str(error)
    assert error.offset == sum(len(batch) for batch in got) * 100 or error.path != str(paths[0])
    expected = list(Model(contents, 100, [("batch", 5, False)]))
    assert_same(got, expected[: len(got)])


def test_a_read_that_fails_once_in_the_engine_is_none(tmp_path, io):
    contents = contents_of("direct")
    ds = with_threads(dataset(write_files(tmp_path, contents), 100).batch(5), 2, io, retries=1)
    for at in range(1, 12):
        syscalls.fail_read(at, errno.EIO)
        got, error = run(ds)
        assert error is None
        assert_same(got, list(Model(contents, 100, [("batch", 5, False)])))


def test_a_file_that_changes_meanwhile(tmp_path, io):
    (path,) = write_files(tmp_path, [bytes(100 * 5000)])
    with iter(with_threads(dataset([path], 100).permute(seed=1).batch(10), 2, io)) as it:
        own(next(it))
        path.write_bytes(bytes(100 * 10))
        got, error = pull(it)
    assert isinstance(error, qc.errors.SourceChangedError)
    assert len(got) < 499


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("first", [2, 3, 9])  # the worker starts; the engine's first thread, or a later one, doesn't
def test_without_further_threads_workers_wait_themselves(tmp_path, first, sticky, io):
    contents = contents_of("staged")
    record, _ = RECORDS["staged"]
    syscalls.plan(["thread"], first, sticky=sticky)
    ds = dataset(write_files(tmp_path, contents), record, tail="drop")  # no thread looks at sizes before it begins
    got, error = run(with_threads(ds.permute(1).batch(7), 1, io))
    # The pool has no work where rings do it all.
    assert syscalls.planned_calls()[1] > 0 or (io == "uring" and first > 2)
    syscalls.end_plan()
    assert error is None
    assert sum(len(batch["a"]) for batch in got) == 125


def test_places_and_ends(tmp_path, io):
    contents = contents_of("direct", (400,))
    ds = with_threads(dataset(write_files(tmp_path, contents), 100).permute(5, False).batch(7), 2, io)
    expected, _ = run(ds)
    for position in (0, 1, 20, len(expected)):
        with iter(ds) as it:
            pull(it, position)
            state = it.state_dict()
        with iter(ds) as it:
            it.load_state_dict(state)
            got, error = pull(it)
        assert error is None
        assert_same(got, expected[position:])


def test_closing_leaves_reads_behind(tmp_path, io):
    ds = dataset(write_files(tmp_path, [bytes(100 * 5000)]), 100).permute(seed=1).batch(10)
    syscalls.set_read_delay(0.05)
    for at in range(3):
        it = iter(with_threads(ds, 2, io))
        pull(it, at)
        if at == 2:
            del it
        else:
            it.close()


def test_within_a_budget(tmp_path, io):
    contents = [np.random.default_rng(1).bytes(3000 * 2000)]
    paths = write_files(tmp_path, contents)
    for budget in (3 << 20, 8 << 20, 32 << 20):
        with iter(with_threads(dataset(paths, 3000).permute(seed=1).batch(32), 2, io, memory_budget=budget)) as it:
            most, count = 0, 0
            for batch in it:
                count += len(batch)
                most = max(most, it.stats()["memory_bytes"])
        assert count == 2000
        assert most <= budget


def test_several_threads_take_from_one_iterator(tmp_path, io):
    contents = [np.arange(4000, dtype="<i4").tobytes()]
    results = []
    ds = dataset(write_files(tmp_path, contents), record=np.dtype("<i4")).permute(seed=1).batch(8)
    with iter(with_threads(ds, 2, io)) as it:
        takers = [threading.Thread(target=lambda: results.extend(pull(it)[0])) for _ in range(3)]
        for one in takers:
            one.start()
        for one in takers:
            one.join()
    assert sorted(np.concatenate(results)) == list(range(4000))
