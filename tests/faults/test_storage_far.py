"""Files that may lie on another machine: any call about them may take any time, and the consumer makes none.

And files that are larger than memory: the page cache forgets them.
"""

import ctypes
import gzip
import itertools
import mmap
import os

import numpy as np
import pytest
from helpers.data.chains import write_files
from helpers.faults.left import faults_end
from helpers.formats import tfrecords

from queuecore.data import FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset, WholeFileDataset
from queuecore.errors import SourceChangedError
from queuecore.ragged import Ragged

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

RECORDS = 300  # of 100 bytes, in each file


@pytest.fixture(autouse=True)
def far():
    with faults_end(syscalls):
        syscalls.set_far(True)
        yield


def fixed(folder, files=4):
    state = np.random.default_rng(0)
    return FixedLengthRecordDataset(write_files(folder, [state.bytes(100 * RECORDS) for _ in range(files)]), 100)


def lines(folder, files=4):
    text = b"".join(b"%099d\n" % n for n in range(RECORDS))
    return TextLineDataset(write_files(folder, [text] * files))


def compressed(folder):
    text = gzip.compress(b"".join(b"%099d\n" % n for n in range(RECORDS)))
    return TextLineDataset(write_files(folder, [text] * 4), "GZIP")


def records(folder, files=4):
    text = tfrecords.stream([b"%084d" % n for n in range(RECORDS)])
    return TFRecordDataset(write_files(folder, [text] * files))


def plain(elements):
    return [element.to_list() if isinstance(element, Ragged) else np.asarray(element).tolist() for element in elements]


SOURCES = {make.__name__: make for make in (fixed, lines, compressed, records)}
CHAINS = {
    "to the end": lambda ds: ds.batch(16),
    "twice": lambda ds: ds.repeat(2).batch(16),
    "shuffled": lambda ds: ds.shuffle(50, seed=1, reshuffle_each_iteration=False).batch(16),
    "within a file": lambda ds: ds.take(RECORDS + 7).batch(16),
    "one by one": lambda ds: ds.skip(5),
    "a shard": lambda ds: ds.shard(3, 1).batch(4),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("source", SOURCES)
def test_the_consumer_opens_closes_and_measures_no_file(tmp_path, source, chain):
    ds = CHAINS[chain](SOURCES[source](tmp_path))
    syscalls.set_far(False)
    expected = plain(ds)
    syscalls.set_far(True)
    syscalls.watch()
    with iter(ds) as it:
        got = plain(it)
    assert syscalls.wait_count() == 0
    assert got == expected != []


@pytest.mark.parametrize("source", SOURCES)
def test_nor_when_it_leaves_early_or_goes_to_a_saved_place(tmp_path, source):
    ds = SOURCES[source](tmp_path).batch(16)
    syscalls.watch()
    with iter(ds) as it:
        plain(itertools.islice(it, 30))
        state = it.state_dict()
        rest = plain(it)
    with iter(ds) as it:
        plain(itertools.islice(it, 3))
        it.load_state_dict(state)
        again = plain(it)
    assert syscalls.wait_count() == 0
    assert again == rest != []


@pytest.mark.unwatched
def test_nor_does_it_ask_for_sizes_when_it_begins(tmp_path, monkeypatch):
    ds = fixed(tmp_path).batch(16)
    real, paths_asked = os.stat, []

    def stat(path, **words):
        paths_asked.append(str(path))
        return real(path, **words)

    syscalls.watch()
    monkeypatch.setattr(os, "stat", stat)
    with iter(ds) as it:
        next(it)
    assert syscalls.wait_count() == 0
    assert [path for path in paths_asked if str(tmp_path) in path] == []


@pytest.mark.parametrize("source", ["lines", "records"])
def test_a_file_that_changed_within_what_was_read_is_found_by_a_worker(tmp_path, source):
    ds = SOURCES[source](tmp_path).take(3 * RECORDS).batch(16).prefetch(1)
    changed = tmp_path / sorted(path.name for path in tmp_path.iterdir())[1]
    changed.write_bytes(100 * changed.read_bytes())  # far more than is read of it
    syscalls.watch()
    with iter(ds) as it:
        plain(itertools.islice(it, RECORDS // 16 + 1))  # some of it, and most isn't asked for yet
        changed.write_bytes(changed.read_bytes()[:200])
        with pytest.raises(SourceChangedError) as caught:
            plain(it)
    assert caught.value.path == str(changed)
    assert syscalls.wait_count() == 0


@pytest.mark.parametrize("source", ["fixed", "lines", "records"])
def test_the_kernel_is_told_of_cold_files_that_are_read_in_order(tmp_path, source):
    ds = SOURCES[source](tmp_path, 100).batch(16)  # many more files than are open before the first read
    syscalls.set_cached(True)
    expected = plain(ds)
    assert syscalls.expected_bytes() == 0  # it has everything
    syscalls.set_cached(False)
    syscalls.set_uncached(True)
    assert plain(ds) == expected
    assert 0 < syscalls.expected_bytes() <= sum(path.stat().st_size for path in tmp_path.iterdir())


def test_the_kernel_is_told_of_cold_files_when_they_are_opened(tmp_path):
    count = 1000  # many more than are open at a time
    names = write_files(tmp_path, [b"%099d" % n for n in range(count)])
    syscalls.set_uncached(True)
    assert [content for _, content in plain(WholeFileDataset(names))] == [b"%099d" % n for n in range(count)]
    assert 99 * (count - 300) < syscalls.expected_bytes() <= 99 * count


@pytest.mark.parametrize("how", ["anywhere", "direct"])
def test_the_kernel_is_told_of_nothing_else(tmp_path, how):
    ds = fixed(tmp_path)
    ds = ds.permute(7) if how == "anywhere" else ds.with_options(Options(direct=True))
    syscalls.play_direct("played")
    syscalls.set_uncached(True)
    assert len(plain(ds.batch(16))) == 4 * RECORDS // 16
    assert syscalls.expected_bytes() == 0


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("page_cache", [None, "keep", "drop"])
def test_what_was_read_is_forgotten(tmp_path, source, page_cache):
    ds = SOURCES[source](tmp_path).batch(16)
    expected = plain(ds)
    syscalls.set_far(False)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert plain(ds.with_options(Options(page_cache=page_cache))) == expected
    assert syscalls.forgotten_bytes() == (sum(sizes) if page_cache == "drop" else 0)
    # And each file as a whole: a page of up to some megabytes, of which a read takes a part, goes only so.
    assert syscalls.forgotten_files() == (len(sizes) if page_cache == "drop" else 0)


def cached_pages(path):
    """How many pages of a file are in the page cache."""
    size = path.stat().st_size
    pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        begin = ctypes.c_char.from_buffer(mapped)
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(begin)), ctypes.c_size_t(size), pages) == 0
        del begin
    return sum(page & 1 for page in pages)


@pytest.mark.thorough
def test_the_pages_are_gone(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(4 << 20))
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    ds = FixedLengthRecordDataset(str(path), 4096).batch(64)
    assert len(plain(ds)) == 16
    before = cached_pages(path)
    # One thread reads: when several do, the kernel may be reading ahead for one of them what another one has read.
    ds = ds.with_options(Options(page_cache="drop", io="pread", num_threads=1))
    # Twice: written at once, they are large ones, each of several reads; then they are as the reads ahead made them.
    for _ in range(2):
        assert len(plain(ds)) == 16
        left = cached_pages(path)
        if left == before:
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert cached_pages(path) == before
            pytest.skip("a file system in memory")
        assert left < before // 4  # the kernel keeps a page that it uses itself at that moment
