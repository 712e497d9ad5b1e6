"""Reads that pass over the page cache: the same elements, wherever records lie, and whatever the disk can do."""

import itertools
import logging
import os

import numpy as np
import pytest
from helpers.data.chains import write_files
from helpers.faults.left import faults_end
from helpers.faults.rings import BACKENDS
from helpers.formats import tfrecords

from queuecore.data import Dataset, FixedLengthRecordDataset, NumpyDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import InvalidArgumentError, SourceChangedError
from queuecore.ragged import Ragged

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

DIRECT = Options(direct=True)


@pytest.fixture(autouse=True)
def unchanged():
    with faults_end(syscalls):
        yield


def fixed(folder, nbytes=100, header=0):
    state = np.random.default_rng(nbytes)
    contents = [state.bytes(header + nbytes * (300 + number)) for number in range(3)]
    return FixedLengthRecordDataset(write_files(folder, contents), nbytes, header_bytes=header)


def blocks(folder):
    return fixed(folder, 4096)  # the straight way


def long_records(folder):
    state = np.random.default_rng(1)
    return FixedLengthRecordDataset(write_files(folder, [state.bytes(150_001 * 9)]), 150_001, header_bytes=0)


def behind_headers(folder):
    return fixed(folder, 97, 13)


def lines(folder):
    text = b"".join(b"%099d\n" % n for n in range(9000))
    return TextLineDataset(write_files(folder, [text, text[:-3]]))


def records(folder):
    state = np.random.default_rng(2)
    text = tfrecords.stream([state.bytes(int(n)) for n in state.integers(0, 30_000, 100)])
    return TFRecordDataset(write_files(folder, [text, text]))


def arrays(folder):
    names = []
    for number in range(2):
        names.append(str(folder / f"{number}.npy"))
        np.save(names[-1], np.asfortranarray(np.random.default_rng(number).normal(size=(70, 3, 5))))
    return NumpyDataset(names)


def plain(elements):
    return [element.to_list() if isinstance(element, Ragged) else np.asarray(element).tolist() for element in elements]


SOURCES = {make.__name__: make for make in (fixed, blocks, long_records, behind_headers, lines, records, arrays)}
CHAINS = {
    "batches": lambda ds: ds.batch(16),
    "one by one": lambda ds: ds.skip(3),
    "twice, shuffled": lambda ds: ds.shuffle(50, seed=1, reshuffle_each_iteration=False).repeat(2).batch(16),
}


@pytest.mark.parametrize("io", [*BACKENDS, "pread"])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("source", SOURCES)
def test_elements_are_the_same(tmp_path, source, chain, io):
    ds = CHAINS[chain](SOURCES[source](tmp_path))
    expected = plain(ds)
    syscalls.play_direct("played")
    assert plain(ds.with_options(Options(direct=True, io=io))) == expected != []
    assert syscalls.direct_read_count() > 0
    assert syscalls.bad_read_count() == 0


@pytest.mark.parametrize("source", ["blocks", "fixed", "lines"])
def test_the_real_disk(tmp_path, source, caplog):
    # Where the file system refuses, the log says so.
    ds = SOURCES[source](tmp_path).batch(16)
    assert plain(ds.with_options(DIRECT)) == plain(ds)
    assert all("has no effect" in message for message in caplog.messages)


def test_permuted_records(tmp_path):
    ds = fixed(tmp_path, 3000).permute(seed=3, reshuffle_each_iteration=False).batch(7)
    expected = plain(ds)
    syscalls.play_direct("played")
    assert plain(ds.with_options(DIRECT)) == expected
    assert syscalls.direct_read_count() > 0


@pytest.mark.parametrize("io", BACKENDS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_file_system_that_refuses(tmp_path, source, io, caplog):
    ds = SOURCES[source](tmp_path).batch(16)
    expected = plain(ds)
    syscalls.play_direct("refused")
    with caplog.at_level(logging.WARNING, "queuecore"):
        assert plain(ds.with_options(Options(direct=True, io=io))) == expected
    assert len(caplog.messages) == 1
    assert "direct=True has no effect" in caplog.text and str(tmp_path) in caplog.text


@pytest.mark.parametrize("nth", [1, 2, 5])
@pytest.mark.parametrize("source", SOURCES)
def test_a_disk_that_refuses_later(tmp_path, source, nth, caplog):
    ds = SOURCES[source](tmp_path).batch(16)
    expected = plain(ds)
    syscalls.play_direct("played")
    syscalls.fail_read(nth, 22)  # EINVAL: larger blocks are wanted
    assert plain(ds.with_options(Options(direct=True, io="threads"))) == expected
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("io", BACKENDS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_disk_of_large_blocks(tmp_path, source, io, caplog):
    ds = SOURCES[source](tmp_path).batch(16)
    expected = plain(ds)
    syscalls.play_direct("large")
    assert plain(ds.with_options(Options(direct=True, io=io))) == expected
    assert [message for message in caplog.messages if "direct=True has no effect" in message] == caplog.messages[:1]
    assert syscalls.direct_read_count() > 0


@pytest.mark.parametrize("source", SOURCES)
def test_short_reads(tmp_path, source):
    ds = SOURCES[source](tmp_path).batch(16)
    expected = plain(ds)
    syscalls.play_direct("played")
    syscalls.short_reads(1024)
    assert plain(ds.with_options(DIRECT)) == expected


def test_a_file_that_becomes_shorter(tmp_path):
    # Far more than is read ahead, so that the end is still to come when it goes away.
    path = tmp_path / "shrinks"
    path.write_bytes(bytes(4096 * 20_000))
    ds = FixedLengthRecordDataset(path, 4096).batch(4).with_options(Options(direct=True, num_threads=1))
    syscalls.play_direct("played")
    with iter(ds) as it:
        next(it)
        os.truncate(path, 5000)
        with pytest.raises(SourceChangedError):
            plain(it)


def test_a_saved_place(tmp_path):
    ds = fixed(tmp_path).shuffle(40, seed=2).batch(16).with_options(DIRECT)
    syscalls.play_direct("played")
    with iter(ds) as it:
        plain(itertools.islice(it, 20))
        state = it.state_dict()
        rest = plain(it)
    with iter(ds) as it:
        it.load_state_dict(state)
        assert plain(it) == rest != []


def test_what_is_no_file_or_no_boolean(tmp_path):
    assert list(Dataset.range(3).with_options(DIRECT)) == [0, 1, 2]
    with pytest.raises(InvalidArgumentError):
        Options(direct="yes")
    assert list(TextLineDataset(write_files(tmp_path, [b"a\nb\n"])).with_options(Options(direct=False))) == [b"a", b"b"]
