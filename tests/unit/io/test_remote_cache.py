"""Remote files that are kept on a disk: the same elements, whatever lies there, and no request for what is there."""

import errno
import itertools
import logging
import os
import shutil
import signal
import threading

import numpy as np
import pytest
from helpers.data.chains import write_files
from helpers.data.remote_store import CHAINS, MAKE, both, elements, fresh
from helpers.process import PATIENCE, open_descriptors, run_python, soon, start_python

from queuecore._io import cache
from queuecore._io.cache import BLOCK_BYTES, RemoteCache
from queuecore.cli.main import main
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset
from queuecore.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    SourceChangedError,
    UnavailableError,
)

NBYTES = 5 * BLOCK_BYTES + 80  # of the object of most tests


@pytest.fixture(autouse=True)
def store(monkeypatch):
    return fresh(monkeypatch)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def large(store):
    """The bytes of an object of some blocks, and a dataset of them."""
    store.objects["bucket/a"] = np.random.default_rng(0).bytes(NBYTES)
    return store.objects["bucket/a"], FixedLengthRecordDataset("store://bucket/a", 100).batch(64)


def kept(ds, folder, **words):
    return ds.with_options(Options(cache_dir=folder, **words))


def joined(ds):
    return b"".join(np.asarray(batch).tobytes() for batch in ds)


def reads(store):
    return [request for request in store.requests if request[0] == "read"]


def data_files(folder):
    return sorted(folder.glob("*.data"))


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", MAKE)
def test_the_same_elements_and_no_request_for_them_again(tmp_path, store, folder, kind, chain):
    local, remote = both(tmp_path, store, kind)
    expected = elements(CHAINS[chain](local))
    assert elements(kept(CHAINS[chain](remote), folder)) == expected != []
    elements(kept(remote, folder))  # a part may have been enough
    store.requests.clear()
    assert elements(kept(CHAINS[chain](remote), folder)) == expected
    assert reads(store) == []
    store.requests.clear()
    assert elements(kept(CHAINS[chain](remote), folder, offline=True)) == expected
    assert store.requests == []


def test_another_process_has_them_too(store, folder, large):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    cache._caches.clear()  # as in another process: nothing is known of the files but what lies there
    store.requests.clear()
    assert joined(kept(ds, folder)) == content
    assert reads(store) == []


def test_each_block_comes_once(store, folder, large):
    content, _ = large
    ds = FixedLengthRecordDataset("store://bucket/a", 100)
    shuffled = [np.asarray(record).tobytes() for record in kept(ds.permute(seed=3), folder)]
    assert sorted(shuffled) == sorted(content[at : at + 100] for at in range(0, NBYTES, 100))
    assert sum(end - start for _, _, start, end in reads(store)) == len(content)
    assert joined(kept(ds.batch(64), folder)) == content
    assert sum(end - start for _, _, start, end in reads(store)) == len(content)


def test_two_readers_at_a_time_share_what_comes(store, folder, large):
    content, ds = large
    first, second = threading.Event(), threading.Event()

    def hold(what, *_):
        if what == "read" and not first.is_set():
            first.set()
            second.wait(PATIENCE)

    store.before = hold
    results = []
    readers = [threading.Thread(target=lambda: results.append(joined(kept(ds, folder)))) for _ in range(2)]
    for reader in readers:
        reader.start()
    assert first.wait(PATIENCE)
    assert soon(lambda: len([request for request in store.requests if request[0] == "info"]) == 2)
    second.set()
    for reader in readers:
        reader.join(PATIENCE)
    assert results == [content] * 2
    assert sum(end - start for _, _, start, end in reads(store)) == len(content)


def test_an_object_that_is_replaced_comes_anew(store, folder, large):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    other = store.objects["bucket/a"] = content[::-1]
    assert joined(kept(ds, folder)) == other
    store.requests.clear()
    assert joined(kept(ds, folder)) == other and reads(store) == []
    assert joined(kept(ds, folder, offline=True)) == other
    store.objects["bucket/a"] = content
    assert joined(kept(ds, folder)) == content and reads(store) == []


def test_a_descriptor_whose_number_a_direct_file_had(tmp_path, folder, large):
    """Python opens the cached file: its reads aren't direct, as those of an earlier file of that number were."""
    syscalls = pytest.importorskip("queuecore._core.testing.syscalls")
    content, ds = large
    assert joined(kept(ds, folder)) == content
    local = FixedLengthRecordDataset(write_files(tmp_path, [bytes(30_000)] * 8), 100)
    try:
        syscalls.play_direct("played")
        assert joined(local.with_options(Options(direct=True))) == bytes(8 * 30_000)
        assert syscalls.direct_read_count() > 0
        assert joined(kept(ds, folder, offline=True)) == content
    finally:
        syscalls.reset_faults()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_object_that_is_replaced_while_it_is_read_is_not_kept(store, folder, at):
    first, second = bytes(40 * BLOCK_BYTES), b"\1" * (40 * BLOCK_BYTES)
    store.objects["bucket/a"] = first
    left = [at]

    def replace(what, *_):
        if what == "read":
            left[0] -= 1
            if left[0] == -1:
                store.objects["bucket/a"] = second

    store.before = replace
    ds = FixedLengthRecordDataset("store://bucket/a", 1024).batch(64)
    with pytest.raises(SourceChangedError):
        joined(kept(ds, folder))
    store.objects["bucket/a"] = first
    assert joined(kept(ds, folder)) == first
    store.objects["bucket/a"] = second
    assert joined(kept(ds, folder)) == second


def test_requests_that_come_back_after_a_replacement_are_not_kept(folder):
    cache = RemoteCache(folder, None, False)
    file = cache.file(b"store://bucket/a", 3 * BLOCK_BYTES, 1)

    def fetch(start, stop):
        file.confirm(file.fresh(), 2)
        return b"\1" * (stop - start)

    assert file.read(0, 3 * BLOCK_BYTES, fetch) == b"\1" * 3 * BLOCK_BYTES
    again = cache.file(b"store://bucket/a", 3 * BLOCK_BYTES, 1)  # the first one is back
    assert again.read(0, 3 * BLOCK_BYTES, lambda start, stop: bytes(stop - start)) == bytes(3 * BLOCK_BYTES)
    assert file.fresh() == {} and len(again.fresh()) == 3


@pytest.mark.parametrize("kind", ["a byte", "the end", "all", "the file"])
@pytest.mark.parametrize("of", ["data", "index"])
def test_what_is_damaged_comes_again(store, folder, large, of, kind, caplog):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    (path,) = folder.glob(f"*.{of}")
    text = bytearray(path.read_bytes())
    if kind == "the file":
        path.unlink()
    else:
        at = len(text) - 5 if of == "index" else 2 * BLOCK_BYTES + 5
        text[at] ^= 1
        path.write_bytes({"a byte": text, "the end": text[:-50], "all": b"\xff" * len(text)}[kind])
    cache._caches.clear()
    store.requests.clear()
    assert joined(kept(ds, folder)) == content
    fetched = sum(end - start for _, _, start, end in reads(store))
    if (of, kind) == ("data", "a byte"):
        assert fetched == BLOCK_BYTES and "is damaged" in caplog.text
    assert 0 < fetched <= len(content)
    cache._caches.clear()
    store.requests.clear()
    assert joined(kept(ds, folder)) == content and reads(store) == []


def test_a_process_compares_what_it_opens_again_only_if_it_was_changed(store, folder, large, monkeypatch):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    cache._caches.clear()
    compared = []
    checksums = cache.frame
    monkeypatch.setattr(cache, "frame", lambda data: compared.append(len(data)) or checksums(data))
    assert joined(kept(ds, folder)) == content and sum(compared) == len(content)
    compared.clear()
    assert joined(kept(ds, folder)) == content and compared == []
    (path,) = data_files(folder)
    text = bytearray(path.read_bytes())
    text[5] ^= 1
    path.write_bytes(text)
    store.requests.clear()
    assert joined(kept(ds, folder)) == content
    assert sum(compared) >= len(content) and reads(store) == [("read", "bucket/a", 0, BLOCK_BYTES)]


def test_what_is_damaged_is_an_error_offline(store, folder, large):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    (path,) = data_files(folder)
    text = bytearray(path.read_bytes())
    text[2 * BLOCK_BYTES] ^= 1
    path.write_bytes(text)
    cache._caches.clear()
    with pytest.raises(UnavailableError) as caught:
        joined(kept(ds, folder, offline=True))
    assert "offline=True asks nothing of the store" in str(caught.value.__cause__)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_nothing_more(store, folder, large, number, monkeypatch, caplog):
    content, ds = large
    left = [3]

    def write(*given):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        return os_pwrite(*given)

    os_pwrite = os.pwrite
    monkeypatch.setattr(cache.os, "pwrite", write)
    with caplog.at_level(logging.WARNING, "queuecore"):
        for _ in range(2):
            assert joined(kept(ds, folder)) == content
    assert caplog.text.count("nothing more is kept") == 1 and os.strerror(number) in caplog.text


def test_the_longest_unused_goes_first(store, folder):
    small = RemoteCache(folder, 20 * BLOCK_BYTES, False)
    for index in range(6):
        file = small.file(b"store://bucket/%d" % index, 5 * BLOCK_BYTES, 1)
        assert file.read(0, 5 * BLOCK_BYTES, lambda start, end: bytes(end - start)) == bytes(5 * BLOCK_BYTES)
        file.confirm(file.fresh(), 1)
        os.utime(folder / f"{cache._digest(b'store://bucket/%d' % index)}-{1:016x}.index", (index, index))
        taken = sum(path.stat().st_blocks * 512 for path in data_files(folder))
        assert taken <= 20 * BLOCK_BYTES * 33 // 32
        del file
    left = [entry.url for entry in small.entries()]
    assert left == [f"store://bucket/{index}" for index in range(6)][-len(left) :] and 2 <= len(left) <= 4


def test_what_is_in_use_stays_and_the_rest_is_not_kept(store, folder, monkeypatch):
    monkeypatch.setattr(cache, "_LOOK_AGAIN", -1.0)
    small = RemoteCache(folder, 4 * BLOCK_BYTES, False)
    file = small.file(b"store://bucket/a", 10 * BLOCK_BYTES, 1)
    for _ in range(2):
        assert file.read(0, 10 * BLOCK_BYTES, lambda start, end: bytes(end - start)) == bytes(10 * BLOCK_BYTES)
    file.confirm(file.fresh(), 1)
    assert sum(path.stat().st_blocks * 512 for path in data_files(folder)) <= 4 * BLOCK_BYTES
    assert small.purge() == (0, pytest.approx(4 * BLOCK_BYTES, abs=BLOCK_BYTES))
    del file
    assert small.purge()[1] == 0 and data_files(folder) == []


def test_folders_that_may_not_be_used(folder, large, tmp_path):
    _, ds = large
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(PermissionDeniedError, match="others may write"):
        kept(ds, folder)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="no folder"):
        kept(ds, tmp_path / "file")
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        kept(ds, tmp_path / "file" / "below")
    with pytest.raises(InvalidArgumentError, match="path of a folder"):
        Options(cache_dir=3)
    with pytest.raises(InvalidArgumentError, match="cache_dir"):
        next(iter(ds.with_options(Options(offline=True))))


def test_others_can_read_nothing(store, folder, large):
    joined(kept(large[1], folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_offline_asks_for_nothing(store, folder, large):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    store.before = pytest.fail
    offline = kept(ds, folder, offline=True)
    assert joined(offline) == content and len(offline) == -(-len(content) // 6400)
    with pytest.raises(UnavailableError) as caught:
        next(iter(kept(TextLineDataset("store://bucket/b"), folder, offline=True)))
    assert caught.value.path == "store://bucket/b" and "is not in the cache" in str(caught.value.__cause__)


def test_an_object_of_which_the_store_says_nothing_is_not_kept(store, folder, large, monkeypatch):
    content, ds = large
    monkeypatch.setattr(store, "info", lambda self, path, **_: {"name": path, "size": NBYTES, "type": "file"})
    assert joined(kept(ds, folder)) == content
    assert data_files(folder) == []


def test_a_saved_place_holds_for_what_is_kept(store, folder, large):
    _, ds = large
    with iter(kept(ds, folder)) as it:
        for _ in itertools.islice(it, 40):
            pass
        state = it.state_dict()
        rest = joined(it)
    with iter(kept(ds, folder)) as it:
        it.load_state_dict(state)
        assert joined(it) == rest != b""
    with iter(ds) as it:
        it.load_state_dict(state)
        assert joined(it) == rest


def test_a_dataset_without_the_option_keeps_nothing(store, folder, large):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    shutil.rmtree(folder)
    assert joined(ds) == content
    assert not folder.exists()


def test_no_descriptor_is_left(store, folder, large):
    _, ds = large
    joined(kept(ds, folder))
    before = open_descriptors()
    for _ in range(3):
        joined(kept(ds, folder))
    cache._caches.clear()
    assert soon(lambda: open_descriptors() <= before)


def test_the_command(store, folder, large, capsys):
    joined(kept(large[1], folder))
    cache._caches.clear()
    assert main(["cache", "list", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "store://bucket/a" in said and "1 file" in said
    # Files are closed a moment later, by other threads; those that are open stay.
    assert soon(lambda: main(["cache", "purge", str(folder)]) == 0 and data_files(folder) == [])
    assert "0.0 MB left" in capsys.readouterr().out


PROCESS = """
    import os, signal, sys
    from helpers.data.remote_store import Store
    from queuecore.data import FixedLengthRecordDataset, Options
    source, folder, kill_at = sys.argv[1:]
    Store.objects["bucket/a"] = content = open(source, "rb").read()
    left = [int(kill_at)]
    def before(what, *_):
        left[0] -= what == "read"
        if what == "read" and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    Store.before = before
    ds = FixedLengthRecordDataset("store://bucket/a", 100).with_options(Options(cache_dir=folder))
    print(b"".join(ds) == content)
"""


def test_processes_that_are_killed_leave_nothing_wrong(tmp_path, folder):
    source = tmp_path / "content"
    content = np.random.default_rng(0).bytes(NBYTES)
    source.write_bytes(content)
    children = [start_python(PROCESS, source, folder, kill_at) for kill_at in (1, 2, 3, 0, 4)]
    for child, kill_at in zip(children, (1, 2, 3, 0, 4), strict=True):
        said, wrong = child.communicate(timeout=PATIENCE)
        assert (said, child.returncode) in (("True\n", 0), ("", -signal.SIGKILL)), wrong
        assert kill_at or child.returncode == 0
    again = run_python(PROCESS, source, folder, 1)  # all is there: it asks for nothing
    assert (again.stdout, again.returncode) == ("True\n", 0), again.stderr


def test_a_forked_process_reads_what_is_kept(store, folder, large):
    content, ds = large
    assert joined(kept(ds, folder)) == content
    child = os.fork()
    if child == 0:
        os._exit(joined(kept(ds, folder)) != content)
    assert os.waitpid(child, 0)[1] == 0
    assert list(Dataset.range(2)) == [0, 1]
