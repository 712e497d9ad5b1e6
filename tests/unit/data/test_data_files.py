"""Which files a dataset is about, how they are framed, and how long it is."""

import os
import pathlib

import numpy as np
import pytest
from helpers.data.chains import apply, chains, dataset, run, threads, values, write_files
from helpers.models.oracle import Fault, Model
from hypothesis import HealthCheck, example, given, settings, strategies as st

import queuecore as qc
from queuecore.data import INFINITE_CARDINALITY, FixedLengthRecordDataset
from queuecore.errors import InvalidArgumentError


def first_bytes(files):
    return values(run(FixedLengthRecordDataset(files, 1))[0])


@pytest.fixture
def folder(tmp_path):
    """Files b, a, c10, c9 and one with a star in its name, one byte each: the letter it begins with."""
    for name in ("b.bin", "a.bin", "c10.bin", "c9.bin", "*.bin"):
        (tmp_path / name).write_bytes(name[:1].encode())
    return tmp_path


@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path])
def test_one_name(folder, kind):
    assert first_bytes(kind(os.fspath(folder / "a.bin"))) == [ord("a")]


@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path])
def test_pattern(folder, kind):
    assert first_bytes(kind(os.fspath(folder / "[abc]*.bin"))) == list(b"abcc")
    assert first_bytes(kind(os.fspath(folder / "c?.bin"))) == list(b"c")


def test_a_name_that_looks_like_a_pattern(folder):
    assert first_bytes(folder / "*.bin") == list(b"*")


def test_sequences_are_literal_and_keep_their_order(folder):
    names = [folder / "b.bin", str(folder / "a.bin"), os.fsencode(folder / "b.bin"), folder / "*.bin"]
    assert first_bytes(names) == list(b"bab*")
    assert first_bytes(tuple(names)) == list(b"bab*")
    assert first_bytes(name for name in names) == list(b"bab*")
    assert first_bytes(np.array([str(folder / "b.bin"), str(folder / "a.bin")])) == list(b"ba")
    got, error = run(FixedLengthRecordDataset([folder / "c?.bin"], 1))
    assert got == []
    assert isinstance(error, qc.errors.NotFoundError)


def test_a_pattern_is_expanded_when_the_dataset_is_made(folder):
    ds = FixedLengthRecordDataset(folder / "[ab].bin", 1)
    (folder / "a.bin").rename(folder / "gone.bin")
    got, error = run(ds)
    assert got == []
    assert isinstance(error, FileNotFoundError)
    assert error.filename == str(folder / "a.bin")


@pytest.mark.parametrize("files", ["", b"", [""], "nul\0.bin", ["a", b"\0"], 3, None, [3], {"a", "b"}])
def test_bad_names(files):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(files, 1)


def test_a_pattern_that_matches_nothing(tmp_path):
    with pytest.raises(InvalidArgumentError) as caught:
        FixedLengthRecordDataset(tmp_path / "*.bin", 1)
    assert caught.value.path == str(tmp_path / "*.bin")


@pytest.mark.parametrize("name", [b"\xff\xfe.bin", "new\nline.bin", "späß.bin", "-.bin"])
def test_odd_names(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    with open(path, "wb") as file:
        file.write(b"x")
    assert first_bytes(path) == [ord("x")]
    assert first_bytes([os.fsdecode(path)]) == [ord("x")]
    os.unlink(path)
    _, error = run(FixedLengthRecordDataset([path], 1))
    assert os.fsencode(error.filename) == path
    assert os.fsencode(error.path) == path


def test_stat_is_enough_for_len(tmp_path):
    paths = write_files(tmp_path, [bytes(10), b"", bytes(25)])
    for path in paths:
        path.chmod(0o200)
    assert len(dataset(paths, 5)) == 7
    assert len(dataset(paths, 5).batch(3)) == 3
    assert len(dataset(paths, 5).batch(3, drop_remainder=True).repeat(4)) == 8


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains())
def test_len_is_the_number_of_elements(tmp_path_factory, ops):
    contents = [bytes(21), b"", bytes(7), bytes(30)]
    paths = write_files(tmp_path_factory.mktemp("len"), contents)
    ds = apply(dataset(paths, 5, header=1, hop=4, tail="drop"), ops)
    expected = sum(1 for _ in Model(contents, 5, ops, header=1, hop=4, tail="drop").ordinals())
    assert len(ds) == ds.cardinality() == expected


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=chains(),
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    frame=st.sampled_from([{}, {"header": 3}, {"hop": 7}, {"hop": 2}]),
)
@example(ops=[("skip", 1), ("take", 0)], sizes=[1], frame={})
@example(ops=[("batch", 2, False), ("take", 1)], sizes=[5], frame={})
def test_len_fails_where_iterating_fails(tmp_path_factory, ops, sizes, frame):
    # A shuffle reads ahead: it may meet an error that len() doesn't need to reach, but not the other way round.
    contents = [bytes(size) for size in sizes]
    paths = write_files(tmp_path_factory.mktemp("len"), contents)
    ds = apply(dataset(paths, 4, **frame), ops)
    try:
        expected = sum(1 for _ in Model(contents, 4, ops, **frame).ordinals())
    except Fault:
        expected = None
    if expected is not None:
        assert len(ds) == expected
    elif not any(op[0] in ("shuffle", "take") for op in ops):
        with pytest.raises(qc.errors.TruncatedRecordError):
            len(ds)


def test_endless_has_no_len(tmp_path):
    paths = write_files(tmp_path, [bytes(10)])
    ds = dataset(paths, 5).repeat()
    assert ds.cardinality() == INFINITE_CARDINALITY
    assert ds.batch(3).shuffle(2).cardinality() == INFINITE_CARDINALITY
    with pytest.raises(TypeError):
        len(ds)
    assert len(ds.take(7)) == 7
    assert len(ds.skip(3).batch(2).take(7)) == 7
    assert len(ds.skip(-1)) == 0
    assert len(dataset(write_files(tmp_path, [b""]), 5).repeat()) == 0


def test_len_of_a_list_with_a_bad_file(tmp_path):
    good, short_path = write_files(tmp_path, [bytes(10), bytes(13)])
    with pytest.raises(qc.errors.NotFoundError) as caught:
        len(dataset([good, tmp_path / "none"], 5))
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(qc.errors.NotAFileError):
        len(dataset([tmp_path], 5))
    with pytest.raises(qc.errors.UnavailableError):
        len(dataset(["/dev/null"], 5))
    with pytest.raises(qc.errors.TruncatedRecordError) as caught:
        len(dataset([good, short_path], 5))
    assert (caught.value.path, caught.value.record, caught.value.offset) == (str(short_path), 2, 10)
    assert len(dataset([good, short_path], 5).take(4)) == 4
    assert len(dataset([good, short_path], 5, tail="drop")) == 4


@pytest.mark.parametrize("number", [1, 2, 8])
def test_empty_files_are_counted(tmp_path, number):
    paths = write_files(tmp_path, [b"", b"ab", b"", b"", b"c"])
    with (
        iter(threads(FixedLengthRecordDataset(paths, 1, 3, tail="drop"), number)) as it,
        pytest.raises(qc.errors.TruncatedRecordError),
    ):
        next(it)
    with iter(threads(FixedLengthRecordDataset(paths, 1), number)) as it:
        assert len(list(it)) == 3
        assert it.stats()["empty_files"] == 3


@pytest.mark.parametrize("number", [1, 2, 8])
def test_dropped_tails_are_counted(tmp_path, number):
    contents = [bytes(10), bytes(13), bytes(2), bytes(15), bytes(1)]
    with iter(threads(dataset(write_files(tmp_path, contents), 5, tail="drop").repeat(2).batch(4), number)) as it:
        assert sum(len(batch) for batch in it) == 14
        assert it.stats()["dropped_tails"] == 3
