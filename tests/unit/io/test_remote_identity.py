"""Saved places among remote files: known again by what the store says of them, or by their bytes."""

import itertools

import pytest
from helpers.data.remote_store import MAKE, both, elements, fresh, plain

from queuecore.data import Options, TextLineDataset
from queuecore.errors import (
    NotFoundError,
    PermissionDeniedError,
    ResumeMismatchError,
    SourceChangedError,
    UnavailableError,
)

CONTENT = Options(identity="content")
CHAINS = {
    "one stream": lambda ds: ds.batch(8),
    "shuffled": lambda ds: ds.shuffle(50, 1, False).batch(8),
    "fed": lambda ds: ds.filter(lambda *element: element is not None).batch(8),
}


@pytest.fixture(autouse=True)
def store(monkeypatch):
    return fresh(monkeypatch)


def saved(ds, count=70):
    """Return a place, and the elements behind it."""
    with iter(ds) as it:
        for _ in itertools.islice(it, count):
            pass
        return it.state_dict(), [plain(element) for element in it]


def resumed(ds, state):
    with iter(ds) as it:
        it.load_state_dict(state)
        return [plain(element) for element in it]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", MAKE)
def test_objects_that_were_written_again(tmp_path, store, kind, chain):
    ds = CHAINS[chain](both(tmp_path, store, kind)[1])
    by_marks, rest = saved(ds)
    by_bytes, _ = saved(ds.with_options(CONTENT))
    assert resumed(ds, by_marks) == resumed(ds, by_bytes) == rest != []
    store.times = dict.fromkeys(store.objects, 1)
    assert resumed(ds, by_bytes) == resumed(ds.with_options(CONTENT), by_bytes) == rest
    with pytest.raises(ResumeMismatchError, match="its size or its modification time differs"):
        resumed(ds, by_marks)
    data = bytearray(store.objects["bucket/0"])
    data[5] ^= 1
    store.objects["bucket/0"] = bytes(data)
    for state in (by_marks, by_bytes):
        with pytest.raises(ResumeMismatchError, match="is not the file of the saved state"):
            resumed(ds, state)


def test_it_is_read_with_the_options_and_out_of_the_cache(store, tmp_path):
    store.objects["mine", "bucket/a"] = b"1\n2\n3\n"
    kept = Options(identity="content", cache_dir=tmp_path)
    ds = TextLineDataset("store://bucket/a", storage_options={"key": "mine"}).with_options(kept)
    state, rest = saved(ds, 1)
    assert rest == [b"2", b"3"] and set(store.keys) == {"mine"}
    store.requests.clear()
    for dataset in (ds, ds.filter(lambda line: True)):
        offline = dataset.with_options(Options(offline=True))
        if dataset is ds:
            assert resumed(offline, state) == rest
        state, rest = saved(offline, 1)
        assert resumed(offline, state) == rest == [b"2", b"3"]
    assert not store.requests


@pytest.mark.parametrize(
    ("error", "expected"),
    [(PermissionError("denied"), PermissionDeniedError), (ConnectionResetError("reset"), UnavailableError)],
)
def test_bytes_that_cannot_be_read_again(store, error, expected):
    store.objects["bucket/a"] = b"1\n2\n3\n"
    ds = TextLineDataset("store://bucket/a").with_options(CONTENT)
    with iter(ds) as it:
        next(it)

        def fail(*_):
            raise error

        store.before = fail
        with pytest.raises(expected, match='identity="content"') as caught:
            it.state_dict()
        assert caught.value.path == "store://bucket/a" and caught.value.__cause__ is error


def test_bytes_that_are_others_by_now(store):
    store.objects["bucket/a"] = b"1\n2\n3\n"
    ds = TextLineDataset("store://bucket/a").with_options(CONTENT)
    for now in (b"1\n2\n", b"9\n2\n3\n", b"9\n2\n3\n4\n"):
        store.objects["bucket/a"] = b"1\n2\n3\n"
        with iter(ds) as it:
            next(it)
            store.objects["bucket/a"] = now
            with pytest.raises(SourceChangedError, match="has changed since it was opened"):
                it.state_dict()


def test_inputs_that_are_gone(store):
    store.objects["bucket/a"] = b"1\n2\n3\n"
    ds = TextLineDataset("store://bucket/a").filter(lambda line: True)
    state, rest = saved(ds, 1)
    assert rest == [b"2", b"3"]
    del store.objects["bucket/a"]
    with iter(ds) as it:
        it.load_state_dict(state)
        with pytest.raises(NotFoundError):
            elements(it)
