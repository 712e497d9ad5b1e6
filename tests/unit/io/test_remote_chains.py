"""Chains of URLs: what fsspec reads through an archive, or through a cache of its own."""

import gzip
import io
import os
import pathlib
import tarfile
import zipfile

import fsspec
import numpy as np
import pytest
from helpers.data.remote_store import CHAINS, elements, fresh
from helpers.formats.tfrecords import stream
from helpers.process import put_temporary_files, run_python

import queuecore as qc
from queuecore._core.io import remote as native
from queuecore._io import remote
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import NotFoundError, QueueCoreError, ResumeMismatchError, UnimplementedError, shown_name

PARTS = {"a": b"".join(b"%d\n" % n for n in range(3000)), "b": b"x\ny\n"}


@pytest.fixture(autouse=True)
def store(monkeypatch, tmp_path):
    put_temporary_files(monkeypatch, tmp_path)  # fsspec's caches leave folders
    return fresh(monkeypatch)


def zipped(parts, how=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(parts, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in parts.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_000_000
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def stored(store):
    store.objects.update(
        {
            "bucket/x.zip": zipped(PARTS),
            "bucket/x.tar": tarred(PARTS),
            "bucket/x.tar.gz": tarred(PARTS, "w:gz"),
            **{f"bucket/{name}": data for name, data in PARTS.items()},
        }
    )
    return store


WAYS = [
    "zip://{}::store://bucket/x.zip",
    "tar://{}::store://bucket/x.tar",
    "tar://{}::store://bucket/x.tar.gz",
    "simplecache::store://bucket/{}",
    "filecache::store://bucket/{}",
    pytest.param(  # which leaves it to the collector to close its files
        "blockcache::store://bucket/{}",
        marks=pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    ),
    "zip://{}::simplecache::store://bucket/x.zip",
    "simplecache::zip://{}::store://bucket/x.zip",
]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_elements(stored, tmp_path, way, chain):
    (tmp_path / "a").write_bytes(PARTS["a"])
    want = elements(CHAINS[chain](TextLineDataset(tmp_path / "a")))
    assert elements(CHAINS[chain](TextLineDataset(way.format("a")))) == want != []


@pytest.mark.parametrize("way", WAYS)
def test_patterns(stored, way):
    both = [way.format(name).encode() for name in "ab"]
    names = elements(Dataset.list_files(way.format("[ab]" if "bucket/{" in way else "*"), shuffle=False))
    assert names == both
    ds = TextLineDataset(way.format("*")) if "bucket/{" not in way else TextLineDataset(both)
    assert elements(ds) == PARTS["a"].split() + PARTS["b"].split()
    files = Dataset.list_files(way.format("b*"), shuffle=False)
    assert elements(files.flat_map(lambda name: TextLineDataset(name))) == [b"x", b"y"]


@pytest.mark.parametrize("way", WAYS)
def test_options_by_the_scheme(stored, way):
    stored.objects.update({("mine", name): data for name, data in stored.objects.items()})
    for name in [name for name in stored.objects if isinstance(name, str)]:
        del stored.objects[name]
    options = {"store": {"key": "mine"}}
    ds = TextLineDataset(way.format("a"), storage_options=options)
    assert elements(ds) == elements(ds) == PARTS["a"].split()
    assert options == {"store": {"key": "mine"}}
    assert set(stored.keys) == {"mine"}
    reader = qc.TextLineReader(storage_options=options)
    assert reader.read([way.format("b")])[1] == b"x"


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("limit", [0, 64 << 20])
def test_records_of_an_archive_in_any_order(store, monkeypatch, how, limit):
    monkeypatch.setattr("queuecore._io.remote._MOST_WHOLE", limit)
    data = np.random.default_rng(0).bytes(200_000)
    store.objects.update({"bucket/x.zip": zipped({"a": data}, how), "bucket/x.tar": tarred({"a": data})})
    for way in ("zip://a::store://bucket/x.zip", "tar://a::store://bucket/x.tar"):
        ds = FixedLengthRecordDataset(way, 1000)
        assert len(ds) == 200
        records = {bytes(one) for one in ds.permute(seed=1).with_options(Options(num_threads=4))}
        assert records == {data[at : at + 1000] for at in range(0, len(data), 1000)}
        assert b"".join(bytes(batch) for batch in ds.batch(64).with_options(Options(num_threads=4))) == data


def test_an_archive_of_this_machine(tmp_path):
    (tmp_path / "x.zip").write_bytes(zipped(PARTS))
    for name in (f"zip://b::{tmp_path}/x.zip", f"zip://b::file://{tmp_path}/x.zip"):
        assert elements(TextLineDataset(name)) == [b"x", b"y"]
    assert elements(TextLineDataset(f"simplecache::file://{tmp_path}/x.zip"))


def test_one_slash_of_two(stored):
    for name in ("zip://b::store://bucket/x.zip", "simplecache::store://bucket/b"):
        assert elements(TextLineDataset(pathlib.Path(name))) == [b"x", b"y"]


def test_what_is_missing(stored):
    for name in ("zip://c::store://bucket/x.zip", "zip://a::store://bucket/y.zip", "simplecache::store://bucket/c"):
        with pytest.raises(NotFoundError) as caught:
            elements(TextLineDataset(name))
        assert caught.value.path == name


@pytest.mark.parametrize(
    "name", ["nothing::store://bucket/a", "zip://a::nothing://bucket/x", "simplecache::zip://a::nothing://bucket/x"]
)
def test_schemes_that_nobody_knows(name):
    with pytest.raises(UnimplementedError, match=r"fsspec can't read it: .*nothing.*copy it"):
        TextLineDataset(name)
    with pytest.raises(UnimplementedError, match="only a local file will do here"):
        Dataset.range(1).cache(name)


def test_an_archive_that_is_another_by_now(stored):
    for way, again in (("zip", zipped), ("tar", tarred)):
        ds = TextLineDataset(f"{way}://a::store://bucket/x.{way}")
        with iter(ds) as it:
            next(it)
            state = it.state_dict()
            rest = elements(it)
        with iter(ds) as it:
            it.load_state_dict(state)
            assert elements(it) == rest
        stored.objects[f"bucket/x.{way}"] = again({"a": PARTS["a"][:-3]})
        with iter(ds) as it, pytest.raises(ResumeMismatchError):
            it.load_state_dict(state)


def test_chains_are_not_kept_in_our_cache(stored, tmp_path):
    for name in ("zip://b::store://bucket/x.zip", "simplecache::store://bucket/b"):
        assert elements(TextLineDataset(name).with_options(Options(cache_dir=tmp_path))) == [b"x", b"y"]
    assert not list(tmp_path.glob("*.index"))


def test_writers(store):
    with qc.TFRecordWriter("simplecache::store://bucket/a") as writer:
        writer.write(b"one")
        assert not store.objects
    assert store.objects["bucket/a"] == stream([b"one"])
    assert elements(TFRecordDataset("store://bucket/a")) == [b"one"]
    with pytest.raises(KeyError), qc.TFRecordWriter("simplecache::store://bucket/b") as writer:
        writer.write(b"one")
        raise KeyError
    assert "bucket/b" not in store.objects
    store.objects["bucket/x.zip"] = zipped(PARTS)
    with pytest.raises(QueueCoreError, match="zip://c::store://bucket/x.zip"):
        qc.TFRecordWriter("zip://c::store://bucket/x.zip")


def test_names_are_shown_without_secrets():
    name = "zip://a?b=c::simplecache::store://me:word@bucket/x.zip?X-Sig=abc&n=1"
    assert shown_name(name) == "zip://a?b=...::simplecache::store://...@bucket/x.zip?X-Sig=...&n=..."
    assert shown_name("http://[::1]:80/a?b=c::d") == "http://[::1]:80/a?b=..."
    assert shown_name("a::b://c:d@e") == "a::b://...@e"
    with pytest.raises(QueueCoreError) as caught:
        elements(TextLineDataset("zip://a::store://me:word@bucket/x.zip?X-Sig=abc"))
    assert "word" not in str(caught.value) and "abc" not in str(caught.value)


def test_a_process_that_was_forked_while_a_chain_was_read():
    code = """
        import os
        import fsspec
        from queuecore._io import remote
        from queuecore.data import TextLineDataset
        fsspec.filesystem("memory").pipe("/a", b"1\\n2\\n")
        ds = TextLineDataset("simplecache::memory://a")
        assert list(ds) == [b"1", b"2"]
        file = remote._opened(b"simplecache::memory://a", None)
        with file._turn:
            child = os.fork()
            if child == 0:
                os._exit(list(ds) != [b"1", b"2"])
        assert os.waitpid(child, 0)[1] == 0
        print("good")
    """
    child = run_python(code)
    assert child.stdout.strip() == "good" and child.returncode == 0, child.stderr


@pytest.mark.parametrize(
    "name, expected",
    [
        (b"s3://bucket/a", True),
        (b"gs+x-1.y://b", True),
        (b"zip://a::s3://b/c", True),
        (b"simplecache::s3://b/c", True),
        (b"simplecache::zip://a::s3://b/c", True),
        (b"simplecache::/a/b", False),
        (b"simplecache::s3:/a/b", False),
        (b"c://x", False),
        (b"a::b", False),
        (b"1a://b", False),
        (b"a_b://c", False),
        (b"/a://b", False),
        (b"://b", False),
        (b"", False),
        (b"ab:", False),
        (b"ab::", False),
        (b"ab::::cd://e", False),
    ],
)
def test_what_is_a_url(name, expected):
    assert remote.is_url(name) is expected
    assert remote.is_url is native.is_url
    assert not os.path.exists(os.fsdecode(name)) or not expected


def test_gzip_in_a_chain(store):
    store.objects["bucket/x.zip"] = zipped({"a.gz": gzip.compress(PARTS["a"])})
    assert elements(TextLineDataset("zip://a.gz::store://bucket/x.zip", "GZIP")) == PARTS["a"].split()
    assert fsspec.available_protocols()
