"""A store of objects in memory, by URLs that fsspec reads, and datasets over local files and over its objects."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.formats import tfrecords

import queuecore as qc
from queuecore._io import remote
from queuecore.data import CsvDataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

fsspec = pytest.importorskip("fsspec")

RECORDS = 500


class Store(fsspec.AbstractFileSystem):
    """Objects in memory, whose requests do what a test wants."""

    protocol = "store"
    keys: list = []  # that its users gave
    objects: dict[str | tuple[str, str], bytes] = {}  # by name, or by key and name where users see others
    times: dict[str, int] = {}  # when objects were written, if the store says that
    requests: list[tuple] = []
    before = None  # is called before each request, with its arguments

    def __init__(self, key=None, **words):
        super().__init__(**words)
        self.key = key

    @classmethod
    def _strip_protocol(cls, path):
        return path.removeprefix("store://")

    def _of(self, kind, path, *rest):
        Store.requests.append((kind, path, *rest))
        Store.keys.append(self.key)
        if Store.before is not None:
            Store.before(kind, path, *rest)
        try:
            own = Store.objects.get((self.key, path))
            return Store.objects[path] if own is None else own
        except KeyError:
            raise FileNotFoundError(path) from None

    def info(self, path, **words):
        data = self._of("info", path)
        times = {"mtime": Store.times[path]} if path in Store.times else {}
        return {"name": path, "size": len(data), "type": "file", "etag": zlib.crc32(data), **times}

    def cat_file(self, path, start=None, end=None, **words):
        return self._of("read", path, start, end)[start:end]

    def ls(self, path, detail=True, **words):
        prefix = f"{path.rstrip('/')}/" if path else ""
        Store.keys.append(self.key)
        seen = {name if isinstance(name, str) else name[1]: len(data) for name, data in Store.objects.items()}
        names = [name for name in seen if name.startswith(prefix)]
        return [{"name": name, "size": seen[name], "type": "file"} if detail else name for name in names]

    def _open(self, path, mode="rb", block_size=None, autocommit=True, **words):
        return Upload(self, path, mode, autocommit=autocommit, **words)


class Upload(fsspec.spec.AbstractBufferedFile):
    """A file that is sent in parts, as objects of S3 are."""

    DEFAULT_BLOCK_SIZE = 1 << 20
    begun: list["Upload"] = []  # and neither whole nor given up

    def _asks(self, kind, *rest):
        Store.requests.append((kind, self.path, *rest))
        if Store.before is not None:
            Store.before(kind, self.path, *rest)

    def _initiate_upload(self):
        self._asks("begin")
        self.parts = []
        Upload.begun.append(self)

    def _upload_chunk(self, final=False):
        self._asks("part", len(self.parts))
        self.parts.append(self.buffer.getvalue())
        if self.autocommit and final:
            self.commit()

    def commit(self):
        self._asks("commit")
        Upload.begun.remove(self)
        Store.objects[self.path] = b"".join(self.parts)

    def discard(self):
        if self in Upload.begun:
            self._asks("give up")
            Upload.begun.remove(self)


fsspec.register_implementation("store", Store, clobber=True)


def fresh(monkeypatch: pytest.MonkeyPatch) -> type[Store]:
    """Empty the store: for a fixture.

    Servers of requests end at once, but for the first one: it stays as long as the process, and is there before a test.
    """
    monkeypatch.setattr("queuecore._io.cache._caches", {})
    monkeypatch.setattr("queuecore._io.remote._IDLE", 0.02)
    monkeypatch.setattr("queuecore._io.remote._FIRST_WAIT", 0.001)
    Store.objects, Store.times, Store.requests, Store.keys = {}, {}, [], []
    Store.before, Upload.begun = None, []
    remote.ready()
    return Store


def contents() -> dict[str, list[bytes]]:
    """Return the bytes of three files of each kind."""
    state = np.random.default_rng(0)
    text = [b"".join(b"%d,%d\n" % (n, state.integers(1000)) for n in range(RECORDS + k)) for k in range(3)]
    return {
        "fixed": [state.bytes(20 * (RECORDS + k)) for k in range(3)],
        "lines": text,
        "compressed": [gzip.compress(one) for one in text],
        "records": [tfrecords.stream([b"%d" % (n + k) for n in range(RECORDS)]) for k in range(3)],
        "csv": text,
    }


MAKE = {
    "fixed": lambda names: FixedLengthRecordDataset(names, 20),
    "lines": TextLineDataset,
    "compressed": lambda names: TextLineDataset(names, "GZIP"),
    "records": TFRecordDataset,
    "csv": lambda names: CsvDataset(names, [np.int64, np.int32]),
}
CHAINS = {
    "as they come": lambda ds: ds,
    "batches": lambda ds: ds.batch(16),
    "shuffled": lambda ds: ds.shuffle(50, seed=1, reshuffle_each_iteration=False).batch(16),
    "twice": lambda ds: ds.repeat(2).batch(16),
    "a part": lambda ds: ds.skip(3).take(RECORDS).batch(8),
}


def plain(element: Any) -> Any:
    """Return an element as plain values."""
    if isinstance(element, tuple):
        return tuple(map(plain, element))
    if isinstance(element, qc.Ragged):
        return element.to_list()
    return element if isinstance(element, bytes) else np.asarray(element).tolist()


def elements(ds: Any) -> list[Any]:
    """Return the elements of a dataset as plain values."""
    return [plain(element) for element in ds]


def both(folder: Path, store: type[Store], kind: str) -> tuple[Any, Any]:
    """Return the dataset over local files, and the one over the same bytes in the store."""
    local = []
    for index, data in enumerate(contents()[kind]):
        local.append(str(folder / f"{index}"))
        (folder / f"{index}").write_bytes(data)
        store.objects[f"bucket/{index}"] = data
    return MAKE[kind](local), MAKE[kind]([f"store://bucket/{index}" for index in range(3)])
