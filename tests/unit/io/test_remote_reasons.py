"""Errors of remote files: their text says why, their cause is the library's own, and neither shows a secret."""

import errno
import logging
import pickle
import traceback

import numpy as np
import pytest
from helpers.data.remote_store import elements, fresh

import queuecore as qc
from queuecore.data import Dataset, FixedLengthRecordDataset, NumpyDataset, Options, TextLineDataset
from queuecore.errors import NotFoundError, PermissionDeniedError, QueueCoreError, UnavailableError

URL = "store://bucket/a"
SECRET = "store://me:word7@bucket/a?X-Sig=abcd&n=1"
WORDS = ("word7", "abcd", "k3y")


@pytest.fixture(autouse=True)
def store(monkeypatch):
    return fresh(monkeypatch)


def failing(store, error, kinds=("info", "read", "ls", "begin", "part", "commit")):
    def fail(what, *_):
        if what in kinds:
            raise error

    store.before = fail


def test_what_the_cache_does_not_have(store, tmp_path):
    store.objects["bucket/a"] = bytes(600_000)
    offline = TextLineDataset(URL).with_options(Options(cache_dir=tmp_path, offline=True))
    with pytest.raises(UnavailableError, match="is not in the cache .* and offline=True asks nothing") as caught:
        elements(offline)
    assert "Input/output error" not in str(caught.value) and caught.value.path == URL
    assert elements(TextLineDataset(URL).with_options(Options(cache_dir=tmp_path)))
    (data,) = tmp_path.glob("*.data")
    with open(data, "r+b") as file:
        file.seek(500_000)
        file.write(b"damaged")
    with pytest.raises(UnavailableError, match="doesn't have bytes .* and offline=True asks nothing") as caught:
        elements(offline)
    assert "Input/output error" not in str(caught.value) and caught.value.path == URL
    with pytest.raises(UnavailableError, match="is not in the cache"):
        qc.data.Dataset.cardinality(FixedLengthRecordDataset("store://b/c", 4).with_options(offline.options()))


def wrapped(text):
    error = FileNotFoundError(URL)
    error.__cause__ = ConnectionResetError(text)
    return error


@pytest.mark.parametrize(
    "error, expected, reason",
    [
        (ValueError("nonsense"), UnavailableError, ": nonsense"),
        (ValueError(), UnavailableError, ": ValueError"),
        (OSError(errno.EIO, "no disk"), UnavailableError, ": no disk"),
        (PermissionError("the token has expired"), PermissionDeniedError, ": Permission denied: the token has expired"),
        (PermissionError(errno.EACCES, "Permission denied"), PermissionDeniedError, ": Permission denied"),
        (FileNotFoundError("bucket/a"), NotFoundError, ": No such file or directory: bucket/a"),
        (wrapped("the server hung up"), UnavailableError, ": the server hung up"),
    ],
)
@pytest.mark.parametrize("kind", ["info", "read"])
def test_the_text_says_why(store, kind, error, expected, reason):
    store.objects["bucket/a"] = bytes(80)
    failing(store, error, [kind])
    with pytest.raises(expected) as caught:
        elements(TextLineDataset(URL))
    text = str(caught.value)
    assert text.endswith(reason) and URL in text
    assert caught.value.__cause__ is error
    makes = [lambda: len(FixedLengthRecordDataset(URL, 4))] if kind == "info" else [lambda: NumpyDataset(URL)]
    for make in makes:
        with pytest.raises(expected) as caught:
            make()
        assert str(caught.value).endswith(reason) and caught.value.__cause__ is error and caught.value.path == URL


def test_lists(store, monkeypatch):
    denied = PermissionError("not yours")

    def deny(*_, **__):
        raise denied

    monkeypatch.setattr(store, "ls", deny)
    for ask in (lambda name: Dataset.list_files(name), TextLineDataset):
        with pytest.raises(PermissionDeniedError, match="cannot list 'store://bucket/.': .*not yours") as caught:
            ask("store://bucket/*")
        assert caught.value.__cause__ is denied and caught.value.path == "store://bucket/*"


LEAKS = {
    "the url": ValueError(f"403 at {SECRET}, for ever"),
    "another url": ValueError("moved to https://cdn.example/x?Signature=abcd"),
    "the path": PermissionError(SECRET.removeprefix("store://")),
    "the value": ValueError("no signature abcd"),
    "an option": ValueError("the key k3y-of-mine is unknown"),
    "a cause": wrapped(f"no answer at {SECRET}"),
}


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("kind", ["info", "read"])
def test_no_secret_is_printed(store, caplog, tmp_path, kind, leak):
    caplog.set_level(logging.DEBUG, "queuecore")
    store.objects[SECRET.removeprefix("store://")] = bytes(80)
    options = {"key": "k3y-of-mine", "word": "said"}
    tries = [
        lambda: elements(TextLineDataset(SECRET, storage_options=options)),
        lambda: qc.TextLineReader(storage_options=options).read([SECRET]),
    ]
    if kind == "info":
        tries.append(lambda: len(FixedLengthRecordDataset(SECRET, 4, storage_options=options)))
    else:
        tries.append(lambda: NumpyDataset(SECRET, storage_options=options))
    failing(store, LEAKS[leak], [kind])
    for attempt in tries:
        with pytest.raises(QueueCoreError) as caught:
            attempt()
        said = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(pickle.dumps(caught.value))
        assert not [word for word in WORDS if word in said.replace(__file__, "")], said
        assert caught.value.__cause__ is not None
        assert caught.value.path == "store://...@bucket/a?X-Sig=...&n=..."
        expected = PermissionDeniedError if leak == "the path" else UnavailableError
        assert isinstance(caught.value, expected) and isinstance(caught.value.__cause__, expected)
    assert not [word for word in WORDS if word in caplog.text]


@pytest.mark.parametrize("leak", LEAKS)
def test_no_secret_of_a_writer_is_printed(store, leak):
    writer = qc.TFRecordWriter(SECRET, storage_options={"key": "k3y-of-mine"})
    failing(store, LEAKS[leak])
    with pytest.raises(QueueCoreError) as caught:
        writer.close()
    with pytest.raises(QueueCoreError) as later:
        writer.write(b"")
    said = "".join(traceback.format_exception(caught.value)) + "".join(traceback.format_exception(later.value))
    assert not [word for word in WORDS if word in said], said


def test_what_is_no_secret_stays(store):
    store.objects["bucket/a"] = bytes(80)
    error = ValueError("at http://host/x, with the key of 4 letters: k")
    failing(store, error, ["read"])
    with pytest.raises(UnavailableError) as caught:
        elements(TextLineDataset(URL, storage_options={"key": "k", "word": "letters"}))
    assert caught.value.__cause__ is error


def test_headers_that_a_pickle_has(store, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    store.objects["bucket/x.npy"] = (tmp_path / "x.npy").read_bytes()
    kept = NumpyDataset("store://bucket/x.npy").with_options(Options(cache_dir=tmp_path / "cache"))
    want = elements(kept)
    there = pickle.dumps(kept.with_options(Options(offline=True)))
    store.requests.clear()
    assert elements(pickle.loads(there)) == want and not store.requests
