"""What is kept of a dataset's first pass: in memory, or in files that other processes use too."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import itertools
import json
import os
import secrets
import socket
import time
from bisect import bisect_right
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from queuecore._warnings import warn
from queuecore.data import _state
from queuecore.data._container import Packer, framed, read_piece, unpack
from queuecore.data._nodes import Chunk, Column, Layout, Node, Objects, Pairs, Rows, Run
from queuecore.data._ops import Count, Repeat, Take
from queuecore.data._values import owned
from queuecore.errors import AbortedError, DataLossError, FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Cache", "FileWriter", "Files", "Index", "Key", "Lock", "Memory", "Paths", "copied"]

_STAGE = "cache"
_VERSION = 1
_MAGIC = b"queuecore cache\n"
# Python objects are kept in pieces of so many, so that they are handed in together.
_MOST_OBJECTS = 256
_MOST_BYTES = 1 << 20
_PATIENCE = 0.5


class Key(NamedTuple):
    """What decides the order of a pass, besides the plan.

    Attributes
    ----------
    pairs : list of tuple of int
        Of each shuffle of the input, the seeds.
    bases : list of int
        And the number of its pass.
    """

    pairs: Pairs
    bases: list[int]


class _Store:
    """What iterators of a dataset share. Of each process at most one run writes at a time."""

    # Whether Python objects are the same ones in every pass.
    shares: ClassVar[bool] = False

    def __init__(self) -> None:
        self._writers: dict[int, object] = {}
        self._first: Key | None = None
        self._off = False

    def first(self, node: Cache, pairs: Pairs) -> Key | None:
        """Return what a new iterator's shuffles are to begin with; `None`: with whatever comes next for them."""
        del node
        return self._first if self._first is not None and self._first.pairs == pairs else None

    def begins(self, key: Key) -> None:
        """Say what an iterator's shuffles begin with: all later ones do, whether its pass is read to its end or not.

        How far a pass is read ahead depends on threads, and orders must not.
        """
        self._first = key

    def find(self, node: Cache, key: Key, skips: bool) -> Any:
        """Return what is kept of such a pass, with a method ``chunks(start)``; `None`: nothing."""
        raise NotImplementedError

    def count(self, node: Cache) -> int | None:
        """Return how many elements are kept; `None`: no complete pass is."""
        raise NotImplementedError

    def write(self, node: Cache, key: Key) -> Any:
        """Return a writer; `None`: this pass isn't kept."""
        mine = object()
        if self._off or self._writers.setdefault(os.getpid(), mine) is not mine:
            return None
        try:
            writer = self._writer(node, key)
        except OSError as error:
            self.failed(error)
            writer = None
        except BaseException:
            self.release()
            raise
        if writer is None:
            self.release()
        return writer

    def release(self) -> None:
        """Let another run write."""
        self._writers.pop(os.getpid(), None)

    def failed(self, error: BaseException) -> None:
        """Keep nothing more: there is no room for it."""
        self.release()
        self._off = True
        warn(f"{self}: {str(error) or 'out of memory'}: nothing is cached, and every pass makes its elements anew", 2)

    def _writer(self, node: Cache, key: Key) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Cache(Node):
    """The elements of the input's first pass, again and again.

    Attributes
    ----------
    store : Memory or Files
        Where they are kept.
    """

    name: ClassVar[str] = "cache"
    keeps: ClassVar[bool] = True

    store: _Store

    def label(self) -> str:
        return str(self.store)

    def where(self) -> str:
        return "Python: keeps rows and hands them on, a chunk at a time"

    def count(self, needed: int | None) -> Count:
        kept = self.store.count(self)
        if kept is not None:
            return kept
        dataset = self.inputs[0]
        return dataset._count(len(dataset._ops), needed)

    def layout(self) -> Layout:
        return Layout.of(self.inputs[0])

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def first_passes(self, pairs: Pairs) -> tuple[Pairs, list[int]] | None:
        return self.store.first(self, pairs)

    def begins(self, pairs: Pairs, bases: list[int]) -> None:
        self.store.begins(Key(pairs, bases))

    def key(self, run: Run) -> Key:
        """Return what decides the order of the pass that is kept."""
        return Key(*run.seeds())

    def kept(self, run: Run, key: Key, pass_: int, start: int) -> Generator[Chunk] | None:
        """Return what yields the elements that are kept, from number `start` on; `None`: nothing is."""
        del pass_
        found = self.store.find(self, key, run.skips is not None)
        made: Generator[Chunk] | None = None if found is None else found.chunks(start)
        return made

    def writes(self, run: Run) -> bool:
        """Return whether a run may write."""
        del run
        return True

    def writer(self, store: Files, paths: Paths, key: Key, lock: Lock) -> FileWriter:
        """Return what writes files."""
        return FileWriter(store, self.inputs[0], paths, key, lock)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        # Every pass is the first one of the input: that is kept, and that is what another process would make again.
        key = self.key(run)
        kept = self.kept(run, key, pass_, start)
        if kept is not None:
            with contextlib.closing(kept) as chunks:
                yield from chunks
            return
        self.store.begins(key)
        whole = start == 0 and self.writes(run) and not _endless(self.inputs[0])
        writer = self.store.write(self, key) if whole else None
        skipped = run.skips.counts() if run.skips is not None else None
        try:
            with contextlib.closing(self._made(run, start)) as chunks:
                for chunk in chunks:
                    keep = chunk
                    if writer is not None:
                        try:
                            keep = writer.add(chunk)
                        except (OSError, MemoryError) as error:
                            writer.abandon()
                            writer = None
                            self.store.failed(error)
                    yield keep
                    del chunk, keep
                    if writer is not None and writer.error is not None:
                        raise writer.error
            if writer is not None:
                try:
                    writer.commit(run.skips is not None and run.skips.counts() != skipped)
                except (OSError, MemoryError) as error:
                    writer.abandon()
                    self.store.failed(error)
                else:
                    self.store.release()
                writer = None
        finally:
            if writer is not None:
                writer.abandon()
                self.store.release()

    def _made(self, run: Run, start: int) -> Generator[Chunk]:
        if self.layout().components is not None:
            yield from run.rows(0, 0, start)
            return
        with contextlib.closing(run.elements(0, 0, start)) as elements:
            for element in elements:
                yield Objects([owned(element, self.store.shares)])


def _endless(dataset: Dataset) -> bool:
    """Return whether a dataset surely has no end, and so no complete pass."""
    endless = False
    for op in dataset._ops:
        if isinstance(op, Repeat):
            endless = endless or op.number < 0
        elif isinstance(op, Take) and op.number >= 0:
            endless = False
    return endless


# -- in memory ---------------------------------------------------------------------------------------------------------


class Memory(_Store):
    """Keeps elements in memory, as long as the dataset or an iterator is there. A pickled copy is empty."""

    shares: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._kept: _Kept | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, ()

    def __str__(self) -> str:
        return "cache()"

    def find(self, node: Cache, key: Key, skips: bool) -> _Kept | None:
        del node
        kept = self._kept
        return kept if kept is not None and kept.key == key and (skips or not kept.skipped) else None

    def count(self, node: Cache) -> int | None:
        del node
        return None if self._kept is None else self._kept.ends[-1]

    def _writer(self, node: Cache, key: Key) -> _MemoryWriter:
        del node
        return _MemoryWriter(self, key)

    def keep(self, kept: _Kept) -> None:
        """Take a complete pass."""
        self._kept = kept


class _Kept:
    # A complete pass.

    def __init__(self, key: Key, pieces: list[Chunk], skipped: bool) -> None:
        self.key = key
        self.skipped = skipped
        self._pieces = pieces
        self.ends = [0, *itertools.accumulate(map(_size, pieces))]

    def chunks(self, start: int) -> Generator[Chunk]:
        for piece, at in _from(self.ends, start):
            yield _part(self._pieces[piece], at)


class _MemoryWriter:
    error: ClassVar[BaseException | None] = None

    def __init__(self, store: Memory, key: Key) -> None:
        self._store = store
        self._key = key
        self._pieces: list[Chunk] = []

    def add(self, chunk: Chunk) -> Chunk:
        """Keep a chunk; return the one to hand in."""
        if isinstance(chunk, Rows):
            # The kept rows are handed in: the batch that they came in is used again at once.
            copy = Rows(chunk.n, [copied(column) for column in chunk.columns])
            self._pieces.append(copy)
            return copy
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, Objects) and len(last.elements) < _MOST_OBJECTS:
            last.elements.extend(chunk.elements)
        else:
            self._pieces.append(Objects(list(chunk.elements)))
        return _part(chunk, 0)

    def commit(self, skipped: bool) -> None:
        self._store.keep(_Kept(self._key, self._pieces, skipped))

    def abandon(self) -> None:
        self._pieces = []


def copied(column: Column) -> Column:
    """Return a column in memory of its own."""
    if isinstance(column, tuple):
        values, ends, dims = column
        return np.array(values), np.array(ends), None if dims is None else np.array(dims)
    return np.array(column)


def _size(chunk: Chunk) -> int:
    return chunk.n if isinstance(chunk, Rows) else len(chunk.elements)


def _from(ends: list[int], start: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the pieces that have the elements from `start` on, and how many to leave out of each."""
    for piece in range(bisect_right(ends, start) - 1, len(ends) - 1):
        yield piece, max(start - ends[piece], 0)


def _part(chunk: Chunk, at: int) -> Chunk:
    """Return the elements of a chunk from one on. Containers are new, so that a user may change them."""
    if isinstance(chunk, Rows):
        return chunk.part(at, chunk.n)
    return Objects([_renewed(one) for one in itertools.islice(chunk.elements, at, None)])


def _renewed(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(map(_renewed, value))
    if kind is dict:
        return {key: _renewed(inner) for key, inner in value.items()}
    return value


# -- in files ----------------------------------------------------------------------------------------------------------


class Files(_Store):
    """Keeps elements in two files, which are there only when a pass is complete.

    Parameters
    ----------
    name : str
        What the names of the files begin with; of a snapshot, the directory.
    snapshot : bool
        Every plan has a directory of its own there, and what is out of date is written anew; else it is refused.
    compress : bool
        Whether pieces are compressed.
    shards : str, optional
        What says to which shard an element belongs, if that matters.
    """

    def __init__(self, name: str, snapshot: bool = False, compress: bool = False, shards: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.snapshot = snapshot
        self.compress = compress
        self.shards = shards
        self._index: Index | None = None
        self._paths: Paths | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self.name, self.snapshot, self.compress, self.shards)

    def __str__(self) -> str:
        return f"{'snapshot' if self.snapshot else 'cache'}({self.name!r})"

    def first(self, node: Cache, pairs: Pairs) -> Key | None:
        index = self._valid(node)
        return super().first(node, pairs) if index is None else index.key

    def find(self, node: Cache, key: Key, skips: bool) -> Index | None:
        index = self._load(node)
        if index is None:
            return None
        why = index.difference(node.inputs[0], self.plan(node.inputs[0]))
        if not why and index.skipped and not skips:
            why = 'elements were left out of it by on_error="skip"'
        if not why:
            return index if index.key == key else None
        if self.snapshot:
            return None
        raise FailedPreconditionError(
            f"{index.path} is of another pipeline: {why}. Remove it to have it written again, or name another file",
            path=index.path,
            stage=_STAGE,
        )

    def count(self, node: Cache) -> int | None:
        index = self._valid(node)
        return None if index is None else index.ends[-1]

    def plan(self, dataset: Dataset) -> dict[str, Any]:
        """Return what decides what is kept."""
        return _plan_of(dataset) | ({} if self.shards is None else {"shards": self.shards})

    def paths(self, node: Cache) -> Paths:
        """Return the names of the files."""
        if self._paths is None:
            name = self.name
            if self.snapshot:
                plan = json.dumps(self.plan(node.inputs[0]), sort_keys=True).encode()
                name = os.path.join(name, hashlib.sha256(plan).hexdigest()[:32], "snapshot")
            self._paths = Paths(f"{name}.index", f"{name}.data-00000-of-00001", f"{name}_0.lockfile")
        return self._paths

    def _load(self, node: Cache) -> Index | None:
        """Return the index; the one that was read before, if it is still that."""
        path = self.paths(node).listing
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            info = os.fstat(fd)
            known = self._index
            if known is None or known.identity != (info.st_ino, info.st_mtime_ns, info.st_size):
                self._index = known = Index(self.paths(node), fd, info)
            return known
        finally:
            os.close(fd)

    def _valid(self, node: Cache) -> Index | None:
        # What is wrong with it is said where elements are asked for.
        with contextlib.suppress(OSError, DataLossError, FailedPreconditionError):
            index = self._load(node)
            if index is not None and not index.difference(node.inputs[0], self.plan(node.inputs[0])):
                return index
        return None

    def _writer(self, node: Cache, key: Key) -> FileWriter | None:
        paths = self.paths(node)
        if not self.snapshot and os.path.exists(paths.listing):  # of another order
            return None
        os.makedirs(os.path.dirname(paths.listing) or ".", exist_ok=True)
        lock = Lock(paths.lock)
        patience = time.monotonic() + _PATIENCE
        # One of our own may be giving up: its iterator was closed a moment ago.
        while (owner := lock.take()) == _myself() and time.monotonic() < patience:
            time.sleep(0.01)
        if owner is None:
            try:
                if self._valid(node) is None:  # nobody completed it since
                    return node.writer(self, paths, key, lock)
            except BaseException:
                lock.give()
                raise
            lock.give()
            return None
        if self.snapshot:
            return None
        raise AbortedError(
            f"{paths.listing[:-6]} is being written by {owner}: wait until it is complete, or name another file "
            f"(the lock is {paths.lock})",
            path=paths.lock,
            stage=_STAGE,
        )


class Paths(NamedTuple):
    """The names of the files."""

    listing: str
    data: str
    lock: str


class Index:
    """What is said of a complete pass, and how to read it."""

    def __init__(self, paths: Paths, fd: int, info: os.stat_result) -> None:
        self.path, self.data = paths.listing, paths.data
        self.identity = (info.st_ino, info.st_mtime_ns, info.st_size)
        if os.pread(fd, len(_MAGIC), 0) != _MAGIC:
            raise FailedPreconditionError(
                f"{self.path} is no index of a queuecore cache. Remove it, or name another file",
                path=self.path,
                stage=_STAGE,
            )
        said = unpack(read_piece(fd, self.path, len(_MAGIC), info.st_size - len(_MAGIC)))
        if said["version"] != _VERSION:
            raise FailedPreconditionError(
                f"{self.path} has version {said['version']}; this queuecore reads version {_VERSION}. "
                "Remove it to have it written again",
                path=self.path,
                stage=_STAGE,
            )
        self._plan: dict[str, Any] = said["plan"]
        self._files = said["files"].tolist()
        self.key = Key([(low, high) for low, high in said["pairs"]], said["bases"])
        self.skipped: bool = said["skipped"]
        self._compressed: bool = said["compressed"]
        # Of each piece: elements, where it is, how long with its frame, and its last 4 bytes.
        self._pieces = said["pieces"].tolist()
        self._shards = said["shards"].tolist() if "shards" in said else []
        self.ends = [0, *itertools.accumulate(piece[0] for piece in self._pieces)]
        self._same: bool = False

    def count(self, of: int) -> int:
        """Return how many elements are in a shard."""
        return sum(piece[0] for piece, shard in zip(self._pieces, self._shards, strict=True) if shard == of)

    def shards(self) -> list[int]:
        """Return the numbers of the shards, rising."""
        return sorted(set(self._shards))

    def difference(self, dataset: Dataset, now: dict[str, Any]) -> str:
        """Return what has changed since; nothing: it holds. Once it held, input files aren't looked at again."""
        if self._same:
            return ""
        then = self._plan
        if then != now:
            why = _state._first_difference(then["plan"], now["plan"], "").replace(" there ", " in the cache ")
            others = (what for what in ("files", "seeds", "arrays") if then[what] != now[what])
            return why or f"it is of other {next(others)}"
        for path, old, new in zip(_files_of(dataset), self._files, _stamps(dataset), strict=True):
            # One that is missing isn't needed any more.
            if new != _NO_FILE and old != new:
                return f"{os.fsdecode(path)} has changed since"
        self._same = True
        return ""

    def chunks(self, start: int, of: int | None = None) -> Generator[Chunk]:
        """Yield the elements, of a shard or of all, from number `start` on."""
        pieces, ends = self._pieces, self.ends
        if of is not None:
            pieces = [piece for piece, shard in zip(pieces, self._shards, strict=True) if shard == of]
            ends = [0, *itertools.accumulate(piece[0] for piece in pieces)]
        try:
            fd = os.open(self.data, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise DataLossError(
                f"{self.data} is missing, and {self.path} is there: remove it to have both written again",
                path=self.data,
                stage=_STAGE,
            ) from None
        try:
            for number, at in _from(ends, start):
                _, offset, size, footer = pieces[number]
                piece = read_piece(fd, self.data, offset, size, footer.to_bytes(4, "little"), self._compressed)
                kind, elements = unpack(piece)
                chunk = Rows(*elements) if kind == "rows" else Objects(elements)
                yield chunk.part(at, chunk.n) if isinstance(chunk, Rows) else Objects(chunk.elements[at:])
                del chunk, elements, piece
        finally:
            os.close(fd)


class FileWriter:
    """Writes a pass to files."""

    error: BaseException | None = None

    def __init__(self, store: Files, dataset: Dataset, paths: Paths, key: Key, lock: Lock) -> None:
        self._store = store
        self._dataset = dataset
        self._paths = paths
        self._key = key
        self._lock = lock
        self._plan = store.plan(dataset)
        self._files = _stamps(dataset)
        self._pieces: list[list[int]] = []
        self._packer = Packer()
        self._objects: list[Any] = []
        self._suffix = secrets.token_hex(8)
        for left in glob.glob(f"{glob.escape(paths.listing[:-6])}.*.tmp-*"):  # by a process that was killed
            with contextlib.suppress(OSError):
                os.unlink(left)
        self._file = open(self._temporary(paths.data), "wb")  # noqa: SIM115 - closed by commit or abandon
        self._file.write(_MAGIC)

    def _temporary(self, path: str) -> str:
        return f"{path}.tmp-{self._suffix}"

    def add(self, chunk: Chunk) -> Chunk:
        """Write a chunk; return the one to hand in."""
        if isinstance(chunk, Rows):
            self._write(chunk.n, self._packer.skeleton(("rows", (chunk.n, chunk.columns))))
            return chunk
        for element in chunk.elements:
            number = sum(piece[0] for piece in self._pieces) + len(self._objects)
            self._objects.append(self._skeleton(self._packer, element, number))
        if len(self._objects) >= _MOST_OBJECTS or self._packer.nbytes >= _MOST_BYTES:
            self._flush()
        return chunk

    def more(self) -> dict[str, Any]:
        """Return what else the index says."""
        return {}

    def _flush(self) -> None:
        objects, self._objects = self._objects, []
        if objects:
            self._write_objects(objects)

    def _skeleton(self, packer: Packer, element: Any, number: int) -> Any:
        try:
            return packer.skeleton(element)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{self._store}: element {number}: {error}", path=self._paths.data, stage=_STAGE
            ) from None

    def _write_objects(self, objects: list[Any]) -> None:
        self._write(len(objects), ["tuple", "objects", ["list", *objects]])

    def _write(self, n: int, tree: Any) -> None:
        parts = framed(self._packer.pack(tree), self._store.compress)
        self._pieces.append([n, self._file.tell(), sum(map(len, parts)), int.from_bytes(parts[2], "little")])
        for part in parts:
            self._file.write(part)

    def commit(self, skipped: bool) -> None:
        self._flush()
        if self._files != _stamps(self._dataset):
            raise OSError(errno.ESTALE, "an input file changed while it was written")
        index = {
            "version": _VERSION,
            "plan": self._plan,
            "files": np.array(self._files, np.int64).reshape(-1, 2),
            "pairs": [list(pair) for pair in self._key.pairs],
            "bases": list(self._key.bases),
            "skipped": skipped,
            "compressed": self._store.compress,
            "pieces": np.array(self._pieces, np.int64).reshape(-1, 4),
            **self.more(),
        }
        packer = Packer()
        with open(self._temporary(self._paths.listing), "wb") as file:
            file.write(_MAGIC + b"".join(framed(packer.pack(packer.skeleton(index)), False)))
            _synced(file)
        _synced(self._file)
        self._file.close()
        # Where an index is, its data is: one that is there, of a snapshot that is out of date, goes first; the new one
        # comes last.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._paths.listing)
        for path in (self._paths.data, self._paths.listing):
            os.replace(self._temporary(path), path)
        folder = os.open(os.path.dirname(self._paths.listing) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._lock.give()

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        for path in (self._paths.data, self._paths.listing):
            with contextlib.suppress(OSError):
                os.unlink(self._temporary(path))
        self._lock.give()


def _synced(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


class Lock:
    """A file that says who writes. The system lets go of it when its owner dies, whatever is left of the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> str | None:
        """Take it, from a dead owner too; or return who has it."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            owner = os.pread(fd, 1000, 0).decode("utf-8", "replace").strip()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                # Where files have no locks, what is written in it must do.
                if isinstance(error, BlockingIOError) or owner:
                    os.close(fd)
                    if _is_dead(owner):  # a child that it forked may still have the lock open
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(self._path)
                        continue
                    return owner or "another process"
            try:
                if os.path.samestat(os.fstat(fd), os.stat(self._path)):
                    break
            except FileNotFoundError:
                pass
            os.close(fd)  # its owner removed it meanwhile
        self._fd = fd
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{_myself()}\n".encode(), 0)
        except BaseException:
            self.give()
            raise
        return None

    def give(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(fd)


def _myself() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _is_dead(owner: str) -> bool:
    match owner.split():
        case ["process", pid, "on", host] if pid.isdecimal() and host == socket.gethostname():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                return True
            except OSError:
                return False
    return False


# -- what is kept for --------------------------------------------------------------------------------------------------

_NO_FILE = [-1, -1]


def _plan_of(dataset: Dataset) -> dict[str, Any]:
    """Return what decides the elements: steps, names of files, and seeds that a user chose."""
    count, digest = dataset._names()
    plan = {
        "plan": dataset._describe(),
        "files": {"count": count, "names": f"{digest:016x}"},
        "seeds": [list(one.seeds.pair) if one.seeds.seeded else None for one in dataset._shuffles()],
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))
    return plain


def _files_of(dataset: Dataset) -> Iterator[bytes]:
    files = dataset._source.files
    yield from (files[index] for index in range(len(files)))
    for one in dataset._inputs():
        yield from _files_of(one)


def _stamps(dataset: Dataset) -> list[list[int]]:
    """Return the size and the time of change of each input file."""
    stamps = []
    for path in _files_of(dataset):
        try:
            info = os.stat(path)
        except OSError:
            stamps.append(_NO_FILE)
        else:
            stamps.append([info.st_size, info.st_mtime_ns])
    return stamps
