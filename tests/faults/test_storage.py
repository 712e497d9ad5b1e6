"""Storage that misbehaves while it is being read: errors in the middle, short answers, files changed by others."""

import errno
import os

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, dataset, own, pull, run, threads, write_files
from helpers.faults.left import faults_end
from helpers.models.oracle import Model, assert_same
from helpers.process import soon

import queuecore as qc

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

CHAINS = [
    [("batch", 16, False)],
    [("batch", 16, True)],
    [("shuffle", 30, 1, True), ("batch", 16, False)],
    [("repeat", 2), ("batch", 7, False)],
    [],
]


@pytest.fixture(autouse=True)
def faults_end_with_the_test():
    with faults_end(syscalls):
        yield


@pytest.fixture
def contents():
    state = np.random.default_rng(0)
    return [state.bytes(100 * count) for count in (40, 0, 25, 60)]


def numbered(rows):
    """Rows of all (batches of) elements, one after the other."""
    return [row.tobytes() for element in rows for row in (element if element.ndim > 1 else [element])]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("hook", ["one byte", "interrupted", "both"])
def test_short_and_interrupted_reads_are_invisible(tmp_path, contents, ops, number, hook):
    contents = [content[: len(content) // 400 * 100] for content in contents]
    paths = write_files(tmp_path, contents)
    if hook != "interrupted":
        syscalls.short_reads(1)
    if hook != "one byte":
        syscalls.interrupt_reads(2)
    got, error = run(threads(apply(dataset(paths, 100), ops), number))
    assert error is None
    assert_same(got, list(Model(contents, 100, ops)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("sticky", [False, True])
def test_a_read_fails(tmp_path, contents, ops, number, sticky):
    paths = write_files(tmp_path, contents)
    ds = threads(apply(dataset(paths, 100), ops), number)
    expected, _ = run(ds)
    shuffled = any(op[0] == "shuffle" for op in ops)
    rows = numbered(expected)
    for nth in range(1, 200):
        syscalls.reset_faults()
        syscalls.short_reads(700)
        syscalls.fail_read(nth, errno.EIO, sticky)
        with iter(threads(apply(dataset(paths, 100), ops), number)) as it:
            results, error = pull(it)
            dropped = it.stats()["dropped_records"]
        if error is None:
            assert_same(results, expected)
            assert nth > 1
            break
        assert type(error) is qc.errors.UnavailableError
        assert error.errno == errno.EIO
        assert error.stage
        # The record that it names is the first one that isn't there.
        file = [os.fspath(path) for path in paths].index(error.path)
        before = sum(len(content) // 100 for content in contents[:file]) + error.record
        assert error.offset // 100 == error.record
        if shuffled:
            assert sorted(numbered(results)) == sorted(rows_before(contents, before))
        else:
            passes = [total for total in (before, before + 125) if total == len(numbered(results)) + dropped]
            assert passes
            assert numbered(results) == rows[: len(numbered(results))]
    else:
        pytest.fail("never ran to the end")
    syscalls.reset_faults()
    assert_same(run(ds)[0] if not shuffled else run(threads(apply(dataset(paths, 100), ops), number))[0], expected)


def rows_before(contents, count):
    """The first so many records of 100 bytes."""
    whole = b"".join(contents)
    return [whole[at : at + 100] for at in range(0, 100 * count, 100)]


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.ENOENT, errno.EIO])
def test_an_open_fails(tmp_path, contents, code, number):
    paths = write_files(tmp_path, contents)
    classes = {errno.EACCES: qc.errors.PermissionDeniedError, errno.ENOENT: qc.errors.NotFoundError}
    for nth in range(1, 5):
        syscalls.reset_faults()
        syscalls.fail_open(nth, code)
        got, error = run(threads(dataset(paths, 100).batch(16), number))
        assert type(error) is classes.get(code, qc.errors.UnavailableError)
        assert error.errno == code
        assert error.path in [os.fspath(path) for path in paths]
        file = [os.fspath(path) for path in paths].index(error.path)
        assert numbered(got) == rows_before(contents, sum(len(content) // 100 for content in contents[:file]))


def test_too_many_open_files_names_the_limit(tmp_path, contents):
    import resource

    paths = write_files(tmp_path, contents)
    syscalls.fail_open(2, errno.EMFILE)
    _, error = run(dataset(paths, 100))
    assert str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) in str(error)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", [[], [("shuffle", 50, 1, True)]])
def test_shortened_while_being_read(tmp_path, ops, number):
    # Far more than is read ahead, so that the end is still to come when it goes away.
    size, count = 4096, 10_000
    path = tmp_path / "shrinks.bin"
    record = np.dtype([("id", "u4"), ("rest", "V4092")])
    rows = np.zeros(count, dtype=record)
    rows["id"] = np.arange(count)
    rows.tofile(path)
    ds = threads(apply(dataset([path], record), ops).batch(16), number)
    with iter(ds) as it:
        got = [own(next(it)["id"])]
        os.truncate(path, size * count // 2 + 100)
        rest, error = pull(it)
    assert type(error) is qc.errors.SourceChangedError
    assert error.path == str(path)
    ids = np.concatenate(got + [batch["id"] for batch in rest]).tolist()
    assert error.record is not None
    assert sorted(ids) == list(range(error.record))
    assert error.record <= count // 2
    if not ops:
        assert ids == sorted(ids)


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("way", ["renamed over", "rewritten", "longer", "gone"])
def test_changed_between_two_passes(tmp_path, way, number):
    # More files than are kept open, so that the second pass opens the first one again.
    contents = [bytes([index]) * 400 for index in range(200)]
    paths = write_files(tmp_path, contents)
    with iter(threads(dataset(paths, 4).repeat(2).batch(10), number)) as it:
        results = [own(next(it)) for _ in range(len(paths) * 5)]
        if way == "renamed over":
            (tmp_path / "new").write_bytes(contents[0])
            os.rename(tmp_path / "new", paths[0])
        elif way == "rewritten":
            paths[0].write_bytes(b"\xff" * 400)
            os.utime(paths[0], ns=(1, 1))
        elif way == "longer":
            with paths[0].open("ab") as file:
                file.write(b"more")
        else:
            paths[0].unlink()
        rest, error = pull(it)
    assert type(error) is (qc.errors.NotFoundError if way == "gone" else qc.errors.SourceChangedError)
    assert error.path == str(paths[0])
    assert b"".join(batch.tobytes() for batch in results + rest) == b"".join(contents)


@pytest.mark.parametrize("number", THREADS)
def test_appended_to_while_being_read(tmp_path, number):
    # The size when it was opened is its end.
    path = tmp_path / "grows.bin"
    content = np.random.default_rng(0).bytes(1000 * 4096)
    path.write_bytes(content)
    with iter(threads(dataset([path], 4096).batch(8), number)) as it:
        got = [own(next(it))]
        with path.open("ab") as file:
            file.write(bytes(4096 * 100))
        rest, error = pull(it)
    assert error is None
    assert b"".join(batch.tobytes() for batch in got + rest) == content


def test_a_slow_disk_changes_nothing(tmp_path, contents):
    paths = write_files(tmp_path, contents)
    syscalls.set_read_delay(0.01)
    for number in THREADS:
        got, error = run(threads(dataset(paths, 100).shuffle(30, 1).batch(16), number))
        assert error is None
        assert_same(got, list(Model(contents, 100, [("shuffle", 30, 1, True), ("batch", 16, False)])))


def test_counters_of_the_core_come_back(tmp_path, contents):
    paths = write_files(tmp_path, contents)
    workers, files = syscalls.live_threads(), syscalls.open_files()
    for _ in range(20):
        with iter(threads(dataset(paths, 100).repeat().batch(16), 8)) as it:
            next(it)
            assert syscalls.live_threads() > workers
    assert soon(lambda: syscalls.live_threads() == workers)
    assert syscalls.open_files() == files


def test_values_survive_all_of_it_together(tmp_path, contents):
    contents = [content[:1000] for content in contents]
    paths = write_files(tmp_path, contents)
    syscalls.short_reads(37)
    syscalls.interrupt_reads(3)
    syscalls.set_read_delay(0.0001)
    record = np.dtype([("a", ">u2"), ("b", ">f8", (12,)), ("c", "?", (2,))])
    ops = [("shuffle", 9, 1, True), ("repeat", 2), ("batch", 4, False)]
    for number in THREADS:
        got, error = run(threads(apply(dataset(paths, record), ops), number))
        assert error is None
        assert_same(got, list(Model(contents, record, ops)))


@pytest.mark.parametrize("number", THREADS)
def test_a_pass_ends_while_a_saved_window_is_still_being_read(tmp_path, contents, number):
    # take() ends a pass with rows left in the window: a state of that place has them loaded, and nobody asks for them.
    paths = write_files(tmp_path, contents)
    ops = [("shuffle", 20, 1, False), ("take", 8), ("batch", 4, False), ("repeat", 3)]
    expected, _ = run(apply(dataset(paths, 100), ops))
    with iter(apply(dataset(paths, 100), ops)) as it:
        pull(it, 2)
        state = it.state_dict()
    syscalls.set_read_delay(0.001)
    with iter(threads(apply(dataset(paths, 100), ops), number)) as it:
        it.load_state_dict(state)
        got, error = pull(it)
    assert error is None
    assert_same(got, expected[2:])
