"""Files elsewhere, by URLs that fsspec knows: the same elements, errors with their causes, and waits that end."""

import contextlib
import itertools
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from helpers.data.remote_store import CHAINS, MAKE, both, contents, elements, fresh, plain
from helpers.process import AT_ONCE, PATIENCE, run_python, soon

import queuecore as qc
from queuecore._io import remote
from queuecore.data import (
    CsvDataset,
    Dataset,
    FixedLengthRecordDataset,
    NumpyDataset,
    Options,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.errors import (
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    PermissionDeniedError,
    QueueCoreError,
    ResumeMismatchError,
    SourceChangedError,
    UnavailableError,
    UnimplementedError,
    shown_name,
)


@pytest.fixture(autouse=True)
def store(monkeypatch):
    return fresh(monkeypatch)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", MAKE)
def test_the_same_elements_as_from_local_files(tmp_path, store, kind, chain):
    local, there = both(tmp_path, store, kind)
    assert elements(CHAINS[chain](there)) == elements(CHAINS[chain](local)) != []


def test_whole_files(tmp_path, store):
    for index, data in enumerate(contents()["lines"]):
        store.objects[f"bucket/{index}"] = data
    got = elements(WholeFileDataset([f"store://bucket/{index}" for index in range(3)]))
    assert got == [(b"store://bucket/%d" % index, store.objects[f"bucket/{index}"]) for index in range(3)]


def test_records_in_any_order_come_in_ranges(tmp_path, store):
    local, there = both(tmp_path, store, "fixed")
    assert len(there) == len(local)
    assert elements(there.permute(seed=3).batch(8)) == elements(local.permute(seed=3).batch(8))
    ranges = [request[1:] for request in store.requests if request[0] == "read"]
    assert sum(stop - start for _, start, stop in ranges) <= 1.5 * sum(map(len, store.objects.values()))


def test_a_file_is_opened_while_the_one_before_is_read(store):
    first, waited, opened = [], [], threading.Event()

    def before(kind, path, start=None, stop=None):
        if path == "bucket/2":
            opened.set()
        elif start == 0:
            first.extend(store.requests)
        elif stop == 32 << 20:
            waited.append(opened.wait(PATIENCE))

    store.objects.update({"bucket/0": bytes(32 << 20), "bucket/1": bytes(1 << 20), "bucket/2": bytes(1 << 20)})
    store.before = before
    names = [f"store://bucket/{index}" for index in range(3)]
    ds = FixedLengthRecordDataset(names, 1 << 16).with_options(Options(num_threads=2))
    assert len(elements(ds)) == 34 << 4
    assert waited == [True]
    assert [request[:2] for request in first[:2]] == [("info", "bucket/0"), ("read", "bucket/0")]


@pytest.mark.parametrize("single", [False, True])
def test_a_file_is_begun_while_the_one_before_is_read(store, monkeypatch, single):
    def opened(name, store):
        file = remote._File(name, store)
        file.ahead.set_single(single)
        return file

    monkeypatch.setattr(remote, "_opened", opened)

    def ranges():
        return [rest for kind, path, *rest in list(store.requests) if (kind, path) == ("read", "bucket/1")]

    store.objects.update({"bucket/0": bytes(24 << 20), "bucket/1": bytes(8 << 20)})
    names = ["store://bucket/0", "store://bucket/1"]
    # With so little memory no rows are made that are further ahead than 4 MiB.
    ds = FixedLengthRecordDataset(names, 1 << 16).repeat(2).with_options(Options(memory_budget=6 << 20))
    with iter(ds) as it:
        for count in (1, 2):
            for _ in range(20 << 4):
                next(it)
            assert soon(lambda count=count: len(ranges()) >= count)
            for _ in range(12 << 4):
                next(it)
    assert ranges() == [[0, 8 << 20]] * 2


def test_patterns_and_lists_of_names(store):
    store.objects.update({"bucket/a1": b"1\n", "bucket/a2": b"2\n", "bucket/b": b"3\n"})
    assert elements(TextLineDataset("store://bucket/a*")) == [b"1", b"2"]
    names = elements(Dataset.list_files("store://bucket/*", shuffle=False))
    assert names == [b"store://bucket/a1", b"store://bucket/a2", b"store://bucket/b"]
    files = Dataset.list_files("store://bucket/*", shuffle=False)
    assert elements(files.interleave(TextLineDataset)) == [b"1", b"2", b"3"]
    with pytest.raises(InvalidArgumentError, match="no file matches"):
        TextLineDataset("store://bucket/c*")


def test_readers_programs_and_one_slash(store):
    store.objects["bucket/a"] = b"one\ntwo\n"
    queue = qc.FIFOQueue(10, ["S99"], [()])
    queue.enqueue_many([["store://bucket/a", "store:/bucket/a"]])
    queue.close()
    reader = qc.TextLineReader()
    got = [reader.read(queue)[1] for _ in range(4)]
    assert got == [b"one", b"two"] * 2


@pytest.mark.parametrize(
    "error, expected",
    [
        (FileNotFoundError("gone"), NotFoundError),
        (PermissionError("denied"), PermissionDeniedError),
        (IsADirectoryError("a folder"), NotAFileError),
        (ValueError("nonsense"), UnavailableError),
        (ConnectionResetError("reset"), UnavailableError),
    ],
)
@pytest.mark.parametrize("kind", ["info", "read"])
def test_an_error_comes_in_its_place_with_its_cause(store, kind, error, expected):
    store.objects.update({"bucket/a": b"1\n2\n", "bucket/b": b"3\n"})

    def fail(what, path, *_):
        if what == kind and path == "bucket/b":
            raise error

    store.before = fail
    got = []
    with pytest.raises(expected) as caught, iter(TextLineDataset(["store://bucket/a", "store://bucket/b"])) as it:
        got.extend(it)
    assert got == [b"1", b"2"]
    assert caught.value.path == "store://bucket/b" and caught.value.__cause__ is error


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_may_pass_is_tried_again(store, wrapped):
    store.objects["bucket/a"] = b"1\n2\n"
    attempts_left = {"info": 3, "read": 3}

    def fail(what, path, *_):
        attempts_left[what] -= 1
        if attempts_left[what] > 0 and wrapped:  # as fsspec does with each failure of a web server
            raise FileNotFoundError(path) from ConnectionResetError("reset")
        if attempts_left[what] > 0:
            raise ConnectionResetError("reset")

    store.before = fail
    assert elements(TextLineDataset("store://bucket/a")) == [b"1", b"2"]
    assert attempts_left == {"info": 0, "read": 0}


@pytest.mark.parametrize("nbytes", [1 << 20, 8 << 20, 9 << 20])
@pytest.mark.parametrize("listed", [False, True])
def test_an_object_that_changes_between_two_ranges(store, monkeypatch, listed, nbytes):
    store.objects["bucket/a"] = bytes(8 << 20)
    if listed:  # as s3fs, the store answers from its last listing, until it is told to forget it
        info = store.info
        listing = {"bucket/a": info(store(), "bucket/a")}
        monkeypatch.setattr(store, "info", lambda self, path, **words: listing.get(path) or info(self, path))
        monkeypatch.setattr(store, "invalidate_cache", lambda self, path=None: listing.clear())

    def change(what, path, start=None, _end=None):
        if what == "read" and start:
            store.objects["bucket/a"] = b"\1" * nbytes

    store.before = change
    with pytest.raises(SourceChangedError):
        elements(FixedLengthRecordDataset("store://bucket/a", 1024).batch(64))


def test_ranges_ask_for_the_first_content_whatever_is_looked_at_since(store, monkeypatch):
    etags = []

    class Objects:
        """As `ObjectStore`, of the store's objects."""

        def info(self, key):
            return store().info(key) | {"ETag": store.objects[key].hex()}

        def range(self, key, start, end, etag):
            etags.append(etag)
            assert etag == store.objects[key].hex()
            return store.objects[key][start:end]

    monkeypatch.setattr(remote, "objects_of", lambda _, path: (Objects(), path))
    store.objects["bucket/a"] = b"12"
    file = remote._opened(b"store://bucket/a", None)
    assert not file._is_replaced()
    store.objects["bucket/a"] = b"34"
    assert file._is_replaced()
    stamp = file.look()
    assert file.ahead.readinto(bytearray(2), 0) == 2
    assert etags == [b"12".hex()]
    assert file.look() != stamp


def test_a_saved_place_goes_on_and_refuses_another_object(tmp_path, store):
    _, there = both(tmp_path, store, "lines")
    ds = there.batch(16)
    with iter(ds) as it:
        list(itertools.islice(map(plain, it), 40))
        state = it.state_dict()
        rest = elements(it)
    with iter(ds) as it:
        it.load_state_dict(state)
        assert elements(it) == rest != []
    store.objects["bucket/0"] = b"9" + store.objects["bucket/0"][1:]
    with iter(ds) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


@pytest.fixture(params=["info", "read"])
def hanging(store, request):
    """Requests to open, or to read, hang until the test ends."""
    release, hangs = threading.Event(), threading.Event()

    def hang(what, *_):
        if what == request.param:
            hangs.set()
            release.wait(PATIENCE)

    store.objects["bucket/a"] = b"1\n" * 1000
    store.before = hang
    yield hangs
    release.set()


def test_a_close_does_not_wait_for_the_store(hanging):
    it = iter(TextLineDataset("store://bucket/a"))

    def take():
        with contextlib.suppress(StopIteration, QueueCoreError):
            next(it)

    taker = threading.Thread(target=take)
    taker.start()
    assert hanging.wait(PATIENCE)
    begun = time.monotonic()
    it.close()
    taker.join(PATIENCE)
    assert not taker.is_alive() and time.monotonic() - begun < AT_ONCE


def test_ctrl_c_is_heard_while_the_store_hangs(hanging):
    def interrupt():
        hanging.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with iter(TextLineDataset("store://bucket/a")) as it, pytest.raises(KeyboardInterrupt):
        next(it)


def test_a_forked_process_reads_too():
    code = """
        import os
        import fsspec
        from queuecore.data import TextLineDataset
        fsspec.filesystem("memory").pipe("/a", b"1\\n2\\n")
        ds = TextLineDataset("memory://a")
        assert list(ds) == [b"1", b"2"]
        child = os.fork()
        if child == 0:
            os._exit(list(ds) != [b"1", b"2"])
        assert os.waitpid(child, 0)[1] == 0
        print("good")
    """
    child = run_python(code)
    assert child.stdout.strip() == "good" and child.returncode == 0


def test_schemes_that_fsspec_does_not_know_are_refused_at_once():
    with pytest.raises(UnimplementedError, match="no local file, and fsspec can't read it"):
        TextLineDataset("nothing://bucket/x")
    with pytest.raises(UnimplementedError, match="no local file, and fsspec can't read it"):
        qc.TFRecordWriter("nothing://bucket/x")
    with pytest.raises(UnimplementedError, match="only a local file will do here"):
        Dataset.range(3).cache("store://bucket/x")


def test_servers_end_when_they_have_nothing_to_do(store, monkeypatch):
    monkeypatch.setattr("queuecore._io.remote._IDLE", 0.05)
    for index in range(40):
        store.objects[f"bucket/{index:02}"] = b"1\n"
    assert elements(TextLineDataset([f"store://bucket/{index:02}" for index in range(40)])) == [b"1"] * 40
    # Those of the tests before stay for five seconds.
    assert soon(lambda: sum(thread.name.startswith("qc-remote") for thread in threading.enumerate()) <= 1, 20)


def test_arrays_and_columns_by_name(tmp_path, store):
    array = np.arange(60, dtype=">i4").reshape(20, 3)
    np.save(tmp_path / "x.npy", array)
    store.objects["bucket/x.npy"] = (tmp_path / "x.npy").read_bytes()
    ds = NumpyDataset("store://bucket/x.npy")
    assert len(ds) == 20 and np.array_equal(next(iter(ds.batch(20))), array)
    store.objects["bucket/t.csv"] = b"name,age\na,1\nb,2\n"
    table = CsvDataset("store://bucket/t.csv", [np.int32], header=True, select_cols=["age"])
    assert elements(table) == [(1,), (2,)]
    for missing in (NumpyDataset, lambda name: len(FixedLengthRecordDataset(name, 4))):
        with pytest.raises(NotFoundError):
            missing("store://bucket/missing")


@pytest.mark.parametrize("kind", [*MAKE, "whole", "arrays"])
def test_options_of_the_store(tmp_path, store, kind):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    datasets = {
        "fixed": lambda name, **words: FixedLengthRecordDataset(name, 20, **words),
        "lines": TextLineDataset,
        "compressed": lambda name, **words: TextLineDataset(name, "GZIP", **words),
        "records": TFRecordDataset,
        "csv": lambda name, **words: CsvDataset(name, [np.int64, np.int32], **words),
        "whole": WholeFileDataset,
        "arrays": NumpyDataset,
    }
    make = datasets[kind]
    if kind in MAKE:
        store.objects["bucket/a"] = contents()[kind][0]
    else:
        store.objects["bucket/a"] = (tmp_path / "x.npy").read_bytes()
    ds = make("store://bucket/*", storage_options={"key": "of mine"})
    there = pickle.dumps(ds)
    assert elements(ds)
    assert set(store.keys) == {"of mine"}
    store.keys.clear()
    assert elements(pickle.loads(there)) and set(store.keys) == {"of mine"}
    with pytest.raises(InvalidArgumentError, match="storage_options must be a dict"):
        make("store://bucket/a", storage_options="key")


def test_the_plan_says_who_reads():
    assert "fsspec reads" in TextLineDataset("store://bucket/a").plan()
    assert "fsspec" not in TextLineDataset("a").plan()


def test_names_that_are_listed_keep_the_options(store):
    store.objects.update({"bucket/a": b"1\n", "bucket/b": b"2\n"})
    files = Dataset.list_files("store://bucket/*", shuffle=False, storage_options={"key": 7})
    assert elements(files.interleave(TextLineDataset)) == [b"1", b"2"]
    assert elements(files.flat_map(lambda name: TextLineDataset(name))) == [b"1", b"2"]
    assert set(store.keys) == {7}


SECRET = "store://me:word@bucket/a?X-Sig=abc&n=1"
SHOWN = "store://...@bucket/a?X-Sig=...&n=..."


def test_names_are_shown_without_secrets():
    assert shown_name(SECRET) == shown_name(SECRET.encode()) == SHOWN
    for name in ("s3://bucket/a/b", "/a/b?c=d", "a@b://c", "store://bucket/a@b"):
        assert shown_name(name) == name


def test_errors_plans_and_logs_show_no_secrets(store, tmp_path, caplog):
    store.objects[SECRET.removeprefix("store://")] = b"1\n2\n"
    ds = TextLineDataset(SECRET)
    assert elements(ds) == [b"1", b"2"]
    texts = [str(ds.plan()), repr(ds)]
    for name in (SECRET, SECRET.replace("/a", "/b")):
        with pytest.raises(QueueCoreError) as caught:
            elements(TextLineDataset(name).map(lambda line: qc.ops.string_to_number(line + b"x")))
        texts += [str(caught.value), repr(caught.value), str(caught.value.path)]
    with pytest.raises(QueueCoreError) as caught:
        len(FixedLengthRecordDataset(SECRET, 3))
    texts += [str(caught.value), repr(caught.value), str(caught.value.path)]
    assert not [text for text in [*texts, caplog.text] if "word" in text or "abc" in text]
    assert sum("bucket/" in text for text in texts) >= 7
