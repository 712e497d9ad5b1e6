"""Files that can't be read (further): the good records come first, then an error that names the place."""

import errno
import itertools
import os

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, chains, dataset, pull, run, threads, values, write_files
from helpers.models.oracle import Fault, Model, assert_same
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc

# What stands in the place of a file: the class of the error, the built-in that it also is, and its errno.
BAD_FILES = {
    "missing": (qc.errors.NotFoundError, FileNotFoundError, errno.ENOENT),
    "below a file": (qc.errors.NotFoundError, OSError, errno.ENOTDIR),
    "directory": (qc.errors.NotAFileError, IsADirectoryError, errno.EISDIR),
    "loop": (qc.errors.UnavailableError, OSError, errno.ELOOP),
    "pipe": (qc.errors.UnavailableError, OSError, None),
    "device": (qc.errors.UnavailableError, OSError, None),
    "forbidden": (qc.errors.PermissionDeniedError, PermissionError, errno.EACCES),
}

CHAINS = [
    [],
    [("batch", 4, False)],
    [("batch", 4, True)],
    [("batch", 1000, False)],
    [("batch", 1000, True)],
    [("shuffle", 7, 1, True)],
    [("shuffle", 1000, 1, True), ("batch", 4, False)],
    [("repeat", 3), ("shuffle", 7, 1, True), ("batch", 4, True)],
    [("batch", 3, True), ("shuffle", 4, 1, True), ("batch", 2, False)],
    [("shuffle", 7, 1, True), ("shuffle", 5, 1, True), ("repeat", 2)],
    [("skip", 5), ("batch", 4, False), ("repeat", -1)],
]


def place(folder, contents):
    """Write files; a string among the contents puts that kind of obstacle there."""
    paths = write_files(folder, [b"" if isinstance(content, str) else content for content in contents])
    for index, content in enumerate(contents):
        path = paths[index]
        if not isinstance(content, str):
            continue
        if content != "forbidden":
            path.unlink()
        if content == "below a file":
            (folder / "file").touch()
            paths[index] = folder / "file" / "part"
        elif content == "directory":
            path.mkdir()
        elif content == "loop":
            path.symlink_to(path)
        elif content == "pipe":
            os.mkfifo(path)
        elif content == "device":
            path.symlink_to("/dev/zero")
        elif content == "forbidden":
            path.chmod(0)
            if os.access(path, os.R_OK):
                pytest.skip("this user may read everything: make test")
    return paths


def until_fault(model):
    """The elements of a model, and what ends them."""
    elements = []
    try:
        for element in model:
            elements.append(element)
    except Fault as fault:
        return elements, fault
    return elements, None


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("kind", BAD_FILES)
def test_files_that_do_not_open(tmp_path, kind, ops, number):
    cls, builtin, code = BAD_FILES[kind]
    contents = [bytes(range(10)), b"", bytes(range(10, 33)), kind, bytes(range(100))]
    paths = place(tmp_path, contents)
    expected, fault = until_fault(Model(contents, 1, ops))
    got, error = run(threads(apply(dataset(paths, 1), ops), number))
    assert fault is not None
    assert_same(got, expected)
    assert type(error) is cls
    assert isinstance(error, builtin)
    assert error.path == error.filename == str(paths[3])
    if code is not None:
        assert error.errno == code
    assert error.stage


def run_on(ds, paths, contents):
    """The elements and the error of an iterator, whose files get these contents once it has looked at their sizes."""
    iterator = iter(ds)
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    with iterator:
        return pull(iterator)


@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_sizes_are_checked_when_the_iteration_begins(tmp_path, ops, place):
    # As tf.data, which refuses a file before its first record; and all files, not each in its turn.
    contents = [bytes(4 + 6 * 5), bytes(4), bytes(4 + 6 * 3), bytes(4 + 6 * 4), bytes(4)]
    paths = write_files(tmp_path, contents)
    frame = {"header": 1, "footer": 3}
    expected, _ = run(apply(dataset(paths, 6, **frame), ops), 30)
    paths[place].write_bytes(contents[place] + bytes(3))
    paths[4].write_bytes(bytes(4 + 1))
    with pytest.raises(qc.errors.TruncatedRecordError, match="length of a record.*tail='drop'") as caught:
        iter(apply(dataset(paths, 6, **frame), ops))
    record = (len(contents[place]) - 4) // 6
    assert (caught.value.path, caught.value.record) == (str(paths[place]), record)
    assert caught.value.offset == 1 + 6 * record
    assert_same(run(apply(dataset(paths, 6, tail="drop", **frame), ops), 30)[0], expected)


def test_sizes_of_the_first_files_alone_are_checked_then(tmp_path):
    # A hundred thousand files would make the beginning late.
    paths = write_files(tmp_path, [bytes(8)] * 66)
    paths[64].write_bytes(bytes(11))
    got, error = run(dataset(paths, 4), 200)
    assert len(got) == 64 * 2 + 2
    assert isinstance(error, qc.errors.TruncatedRecordError) and (error.path, error.record) == (str(paths[64]), 2)
    paths[63].write_bytes(bytes(11))
    with pytest.raises(qc.errors.TruncatedRecordError) as caught:
        iter(dataset(paths, 4))
    assert caught.value.path == str(paths[63])


@pytest.mark.parametrize("obstacle", ["below a file", "directory", "loop", "pipe", "cut"])
def test_lengths_of_many_files(tmp_path, obstacle):
    sizes = [4 * (index % 5) for index in range(150)]
    contents = [bytes(size) for size in sizes]
    assert len(dataset(place(tmp_path, contents), 4)) == sum(sizes) // 4
    other = tmp_path / "other"
    other.mkdir()
    paths = place(other, contents[:100] + [bytes(7) if obstacle == "cut" else obstacle] + contents[101:])
    with pytest.raises(qc.errors.QueueCoreError) as caught:
        len(dataset(paths, 4))
    assert caught.value.path == str(paths[100])
    assert len(dataset(paths, 4).take(sum(sizes[:100]) // 4)) == sum(sizes[:100]) // 4


@pytest.mark.parametrize("over", ["zip", "interleave", "flat_map", "cache", "take", "ignore_errors", "skip", "missing"])
def test_sizes_of_files_beneath_other_steps(tmp_path, over):
    good, bad = write_files(tmp_path, [bytes(8), bytes(7)])
    two = dataset([good, bad], 4)
    paths = [str(good), str(bad)]
    if over in ("ignore_errors", "skip"):
        skipping = two.with_options(qc.data.Options(on_error="skip"))
        assert len(run(two.ignore_errors() if over == "ignore_errors" else skipping)[0]) == 3
        return
    if over == "missing":  # that is an error in its place
        bad.unlink()
        got, error = run(two)
        assert len(got) == 2 and isinstance(error, FileNotFoundError)
        return
    ds = {
        "zip": lambda: qc.data.Dataset.zip((qc.data.Dataset.range(2), two)),
        "interleave": lambda: qc.data.Dataset.from_tensor_slices(paths).interleave(lambda name: dataset([name], 4), 2),
        "flat_map": lambda: qc.data.Dataset.from_tensor_slices(paths).flat_map(lambda name: dataset([name], 4)),
        "cache": lambda: two.map(lambda row: row.tolist()).cache(),
        "take": lambda: two.take(1),
    }[over]()
    with pytest.raises(qc.errors.TruncatedRecordError) as caught:
        iter(ds)
    assert caught.value.path == str(bad)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_cut_in_a_record(tmp_path, ops, number, place):
    contents = [
        bytes(range(4 + 6 * 5)),
        bytes(range(4)),
        bytes(range(100, 104 + 6 * 3)),
        bytes(range(50, 54 + 6 * 4)),
        bytes(4),
    ]
    paths = write_files(tmp_path, contents)
    contents[place] += b"abc"
    frame = {"header": 1, "footer": 3}
    expected, fault = until_fault(Model(contents, 6, ops, **frame))
    got, error = run_on(threads(apply(dataset(paths, 6, **frame), ops), number), paths, contents)
    assert_same(got, expected)
    assert type(error) is qc.errors.TruncatedRecordError
    assert (error.path, error.record, error.offset) == (str(paths[place]), fault.record, fault.offset)
    assert error.offset == 1 + 6 * error.record


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("tail", ["error", "drop"])
def test_shorter_than_header_and_footer(tmp_path, ops, number, tail):
    contents = [bytes(10), b"", bytes(10), bytes(7), bytes(10)]
    paths = write_files(tmp_path, [b""] * 5)
    frame = {"header": 4, "footer": 4, "tail": tail}
    expected, _ = until_fault(Model(contents, 1, ops, **frame))
    got, error = run_on(threads(apply(dataset(paths, 1, **frame), ops), number), paths, contents)
    assert_same(got, expected)
    assert type(error) is qc.errors.TruncatedRecordError
    assert error.path == str(paths[3])


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=chains(),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    frame=st.sampled_from([{}, {"header": 3}, {"footer": 2, "hop": 7}, {"hop": 2}]),
    number=st.sampled_from(THREADS),
)
def test_every_chain_meets_the_error_in_its_place(tmp_path_factory, ops, sizes, frame, number):
    contents = [os.urandom(size) for size in sizes]
    paths = write_files(tmp_path_factory.mktemp("bad"), [b""] * len(contents))
    expected, fault = until_fault(Model(contents, 4, ops, **frame))
    got, error = run_on(threads(apply(dataset(paths, 4, **frame), ops), number), paths, contents)
    assert_same(got, expected)
    if fault is None:
        assert error is None
    else:
        assert type(error) is qc.errors.TruncatedRecordError
        assert error.path == str(paths[fault.file])
        if fault.record or fault.offset:
            assert (error.record, error.offset) == (fault.record, fault.offset)


@pytest.mark.parametrize("number", THREADS)
def test_in_the_middle_of_many_files(tmp_path, number):
    contents = [bytes([index % 256]) * 5 for index in range(400)]
    paths = write_files(tmp_path, contents)
    paths[250].unlink()
    for ds in (dataset(paths, 1), dataset(paths, 1).shuffle(100, 1)):
        got, error = run(threads(ds.batch(32), number))
        assert isinstance(error, FileNotFoundError)
        assert error.filename == str(paths[250])
        rows = sorted(itertools.chain.from_iterable(values(got)))
        assert rows == sorted(itertools.chain.from_iterable(contents[:250]))


@pytest.mark.parametrize("number", THREADS)
def test_take_stops_before_the_error(tmp_path, number):
    contents = [bytes(range(10)), "missing"]
    paths = place(tmp_path, contents)
    for ops in ([("take", 10)], [("batch", 5, False), ("take", 2)], [("take", 10), ("repeat", 3), ("batch", 4, False)]):
        got, error = run(threads(apply(dataset(paths, 1), ops), number))
        assert error is None
        assert_same(got, list(Model(contents, 1, ops)))


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", [[], [("shuffle", 10, 1, True)]])
def test_what_drop_remainder_leaves_out_is_counted(tmp_path, ops, number):
    paths = place(tmp_path, [bytes(range(10)), "missing"])
    with iter(threads(apply(dataset(paths, 1), ops).batch(4, drop_remainder=True), number)) as it:
        got, error = pull(it)
        assert [len(batch) for batch in got] == [4, 4]
        assert isinstance(error, qc.errors.NotFoundError)
        assert it.stats()["dropped_records"] == 2
        assert it.stats()["records"] == 8


@pytest.mark.parametrize("number", THREADS)
def test_unequal_elements_do_not_stack(tmp_path, number):
    paths = write_files(tmp_path, [bytes(range(10))])
    results, error = run(threads(dataset(paths, 1).batch(4).batch(2), number))
    assert error is None  # the short one is alone in its batch
    assert values(results) == [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9]]]
    for sizes in ((4, 3), (3, 2, 2)):
        ds = dataset(paths, 1)
        for size in sizes:
            ds = ds.batch(size)
        with iter(threads(ds, number)) as it:
            results, error = pull(it)
            assert isinstance(error, qc.errors.InvalidArgumentError)
            # What comes before is whole elements of equal shape, or nothing; the rest is counted.
            assert all(element.shape[-2] == sizes[0] for element in results)
            assert it.stats()["dropped_records"] == 10 - sum(element.size for element in results)


@pytest.mark.parametrize("number", THREADS)
def test_the_first_error_wins_over_unequal_elements(tmp_path, number):
    paths = place(tmp_path, [bytes(range(10)), "missing"])
    got, error = run(threads(dataset(paths, 1).batch(4).batch(3), number))
    assert values(got) == [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    assert isinstance(error, qc.errors.NotFoundError)


@pytest.mark.parametrize("number", THREADS)
def test_after_an_error(tmp_path, number):
    paths = place(tmp_path, [bytes(range(10)), "missing"])
    ds = threads(dataset(paths, 1).batch(4), number)
    it = iter(ds)
    results, error = pull(it)
    assert [len(batch) for batch in results] == [4, 4, 2]
    for _ in range(2):
        with pytest.raises(qc.errors.FailedPreconditionError) as caught:
            next(it)
        assert caught.value.__cause__ is error
    assert it.closed
    assert it.stats()["elements"] == 3
    it.close()
    # The same dataset works again, and all the way once the file is there.
    assert_same(run(ds)[0], results)
    paths[1].write_bytes(b"xyz")
    results, error = run(ds)
    assert error is None
    assert list(itertools.chain.from_iterable(values(results))) == [*range(10), *b"xyz"]


@pytest.mark.parametrize("number", THREADS)
def test_only_bad_files(tmp_path, number):
    for kind in ("missing", "directory"):
        folder = tmp_path / kind
        folder.mkdir()
        paths = place(folder, [kind, kind])
        for ops in CHAINS:
            got, error = run(threads(apply(dataset(paths, 4), ops), number))
            assert got == []
            assert type(error) is BAD_FILES[kind][0]
            assert error.path == str(paths[0])


def test_the_error_is_the_same_for_records_with_fields(tmp_path):
    record = np.dtype([("a", ">u4"), ("b", "u1", (3,))])
    content = np.random.default_rng(0).bytes(record.itemsize * 9 + 4)
    (path,) = write_files(tmp_path, [b""])
    for number in THREADS:
        path.write_bytes(b"")
        expected, fault = until_fault(Model([content], record, [("batch", 4, False)]))
        got, error = run_on(threads(dataset([path], record).batch(4), number), [path], [content])
        assert_same(got, expected)
        assert (error.record, error.offset) == (fault.record, fault.offset) == (9, 63)
