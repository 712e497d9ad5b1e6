"""A pass kept in files, which appear when they are complete, and the lock of their writer."""

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
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from queuecore._elements.nests import apart, bare, like
from queuecore.data._nodes.cache_store import (
    MOST_BYTES,
    MOST_OBJECTS,
    STAGE,
    Key,
    Store,
    pieces_from,
)
from queuecore.data._nodes.run import Pairs
from queuecore.data._plan import state as _state
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout
from queuecore.data._rows.chunks import Chunk, Objects, Rows
from queuecore.data._rows.container import MOST_EXPANDED, Packer, framed, read_piece, unpack
from queuecore.data._rows.found import check_columns
from queuecore.errors import AbortedError, DataLossError, FailedPreconditionError, InvalidArgumentError

__all__ = ["CacheFileWriter", "Files", "Index", "Lock", "Paths", "in_structure"]

_VERSION = 1
_MAGIC = b"queuecore cache\n"
_PATIENCE = 0.5
# Elements of a piece, besides those that its bytes may hold: some have none.
_MOST_ROWS = 1 << 24


class Files(Store):
    """Keeps elements in two files, which exist only when a pass is complete.

    Parameters
    ----------
    name : str
        The prefix of the names of the files; for a snapshot, the directory.
    snapshot : bool
        Whether each plan has its own directory and an outdated pass is written anew; otherwise it is refused.
    compress : bool
        Whether pieces are compressed.
    shards : str, optional
        Description of the function that assigns elements to shards, if there is one.
    required : bool
        As of `Store`.
    """

    def __init__(
        self,
        name: str,
        snapshot: bool = False,
        compress: bool = False,
        shards: str | None = None,
        required: bool = False,
    ) -> None:
        super().__init__(required)
        self.name = name
        self.snapshot = snapshot
        self.compress = compress
        self.shards = shards
        self._index: Index | None = None
        self._paths: Paths | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self.name, self.snapshot, self.compress, self.shards, self.required)

    def __str__(self) -> str:
        return f"{'snapshot' if self.snapshot else 'cache'}({self.name!r})"

    def first(self, chain: Chain, pairs: Pairs) -> Key | None:
        index = self._valid(chain)
        return super().first(chain, pairs) if index is None else index.key

    def find(self, chain: Chain, key: Key, skips: bool) -> Index | None:
        index = self._load(chain)
        if index is None:
            return None
        reason = index.difference(chain, self.plan(chain))
        if not reason and index.skipped and not skips:
            reason = 'elements were left out of it by on_error="skip"'
        if not reason:
            return index if index.key == key else None
        if self.snapshot:
            return None
        raise FailedPreconditionError(
            f"{index.path} is of another pipeline: {reason}. Remove it to have it written again, or name another file",
            path=index.path,
            stage=STAGE,
        )

    def count(self, chain: Chain) -> int | None:
        index = self._valid(chain)
        return None if index is None else index.ends[-1]

    def plan(self, chain: Chain) -> dict[str, Any]:
        """Return the plan that decides which elements are kept."""
        return _plan_of(chain) | ({} if self.shards is None else {"shards": self.shards})

    def paths(self, chain: Chain) -> Paths:
        """Return the names of the files."""
        if self._paths is None:
            name = self.name
            if self.snapshot:
                plan = json.dumps(self.plan(chain), sort_keys=True).encode()
                name = os.path.join(name, hashlib.sha256(plan).hexdigest()[:32], "snapshot")
            self._paths = Paths(f"{name}.index", f"{name}.data-00000-of-00001", f"{name}_0.lockfile")
        return self._paths

    def _load(self, chain: Chain) -> Index | None:
        """Return the index; the one read before, if its file has not changed."""
        path = self.paths(chain).listing
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            info = os.fstat(fd)
            known = self._index
            if known is None or known.identity != (info.st_ino, info.st_mtime_ns, info.st_size):
                self._index = known = Index(self.paths(chain), fd, info)
            return known
        finally:
            os.close(fd)

    def _valid(self, chain: Chain) -> Index | None:
        # Errors of the files are raised when elements are asked for.
        with contextlib.suppress(OSError, DataLossError, FailedPreconditionError):
            index = self._load(chain)
            if index is not None and not index.difference(chain, self.plan(chain)):
                return index
        return None

    def _writer(self, chain: Chain, key: Key, make: Callable[..., Any]) -> CacheFileWriter | None:
        paths = self.paths(chain)
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
                if self._valid(chain) is None:  # nobody has completed it since
                    made: CacheFileWriter = make(self, paths, key, lock)
                    return made
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
            stage=STAGE,
        )


class Paths(NamedTuple):
    """The names of the files."""

    listing: str
    data: str
    lock: str


class Index:
    """The index of a complete pass: the facts about it, and the way to read it."""

    def __init__(self, paths: Paths, fd: int, info: os.stat_result) -> None:
        self.path, self.data = paths.listing, paths.data
        self.identity = (info.st_ino, info.st_mtime_ns, info.st_size)
        if os.pread(fd, len(_MAGIC), 0) != _MAGIC:
            raise FailedPreconditionError(
                f"{self.path} is no index of a queuecore cache. Remove it, or name another file",
                path=self.path,
                stage=STAGE,
            )
        piece = read_piece(fd, self.path, len(_MAGIC), info.st_size - len(_MAGIC))
        try:
            fields = unpack(piece)
            version = fields["version"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(self.path, len(_MAGIC), error) from error
        if version != _VERSION:
            raise FailedPreconditionError(
                f"{self.path} has version {version}; this queuecore reads version {_VERSION}. "
                "Remove it to have it written again",
                path=self.path,
                stage=STAGE,
            )
        try:
            self._take(fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged(self.path, len(_MAGIC), error) from error
        self.ends = [0, *itertools.accumulate(piece[0] for piece in self._pieces)]
        self._same: bool = False

    def _take(self, fields: dict[str, Any]) -> None:
        """Take the facts of an index, each of them checked as far as it is used without a comparison."""
        self._plan: dict[str, Any] = fields["plan"]
        self._files = _numbers(fields["files"], 2)
        self.key = Key([(low, high) for low, high in fields["pairs"]], fields["bases"])
        numbers = [*itertools.chain.from_iterable(self.key.pairs), *self.key.bases]
        if not all(type(one) is int and 0 <= one < 1 << 62 for one in numbers):
            raise ValueError("its seeds and passes aren't numbers from 0 on")
        if not isinstance(self._plan, dict) or not isinstance(self._plan.get("plan"), dict):
            raise ValueError("it has no plan")
        self.skipped: bool = fields["skipped"]
        # Whether elements are written without the classes of their structure.
        self.bare: bool = fields.get("bare", False) is True
        self._compressed: bool = fields["compressed"]
        # For each piece: its elements, offset, length with its frame, and its last 4 bytes.
        self._pieces = _numbers(fields["pieces"], 4)
        shards = fields["shards"].reshape(-1, 1) if "shards" in fields else np.empty((0, 1), np.int64)
        self._shards = [shard for (shard,) in _numbers(shards, 1)]
        end = len(_MAGIC)
        for n, offset, size, footer in self._pieces:
            if not (0 < n <= _MOST_ROWS + size * MOST_EXPANDED and offset == end and 0 <= footer < 1 << 32):
                raise ValueError("a piece has an impossible place, or number of elements")
            end += size
        if self._shards and len(self._shards) != len(self._pieces):
            raise ValueError("it has not as many shards as pieces")
        # Of a dataset that was saved for anyone: what its elements are.
        self.saved: Any = fields.get("saved")

    def _damaged(self, path: str, offset: int, error: Exception) -> DataLossError:
        return DataLossError(
            f"{path}: the piece at {offset} isn't what a cache has there: {error}. Remove {self.path} to have both "
            "files written again",
            path=path,
            offset=offset,
            stage=STAGE,
        )

    def count(self, of: int) -> int:
        """Return how many elements are in shard `of`."""
        return sum(piece[0] for piece, shard in zip(self._pieces, self._shards, strict=True) if shard == of)

    def shards(self) -> list[int]:
        """Return the numbers of the shards, in rising order."""
        if len(self._shards) != len(self._pieces):
            raise self._damaged(self.path, len(_MAGIC), ValueError("it has pieces without a shard"))
        return sorted(set(self._shards))

    def difference(self, chain: Chain, now: dict[str, Any]) -> str:
        """Return what has changed since, empty if nothing. Once the index held, input files aren't checked again."""
        if self._same:
            return ""
        then = self._plan
        if then != now:
            why = _state.first_difference(then["plan"], now["plan"], "").replace(" there ", " in the cache ")
            others = (what for what in ("files", "seeds", "shards") if then.get(what) != now.get(what))
            return why or f"it is of other {next(others, 'things')}"
        if not len(self.key.pairs) == len(self.key.bases) == len(chain.shuffles):
            return "it is of other shuffles"
        stamps = _stamps(chain)
        if len(stamps) != len(self._files):
            return "it is of other files"
        for path, old, new in zip(chain.paths(), self._files, stamps, strict=True):
            # An input file that is missing isn't needed any more.
            if new != _NO_FILE and old != new:
                return f"{os.fsdecode(path)} has changed since"
        self._same = True
        return ""

    def chunks(self, start: int, layout: Layout, of: int | None = None) -> Generator[Chunk]:
        """Yield the elements of shard `of`, or of all shards, from number `start` on; `layout` is the elements'."""
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
                stage=STAGE,
            ) from None
        try:
            for number, position in pieces_from(ends, start):
                n, offset, size, footer = pieces[number]
                piece = read_piece(fd, self.data, offset, size, footer.to_bytes(4, "little"), self._compressed)
                try:
                    chunk = _chunk_of(unpack(piece), n, layout)
                except (ValueError, TypeError) as error:
                    raise self._damaged(self.data, offset, error) from error
                yield chunk.part(position, n)
                del chunk, piece
        finally:
            os.close(fd)


def _numbers(table: Any, width: int) -> list[list[int]]:
    """Return an array of int64 with so many columns as a list."""
    if not isinstance(table, np.ndarray) or table.dtype != np.int64 or table.ndim != 2 or table.shape[1] != width:
        raise ValueError(f"a table of it isn't one of {width} columns")
    rows: list[list[int]] = table.tolist()
    return rows


def _chunk_of(value: Any, n: int, layout: Layout) -> Chunk:
    """Return the `n` elements of a piece, of which native code may believe everything."""
    kind, elements = value
    if kind == "rows" and layout.components is not None:
        rows, columns = elements
        if rows == n:
            check_columns(columns, n, layout.components)
            return Rows(n, columns)
    elif kind == "objects" and layout.components is None and isinstance(elements, list) and len(elements) == n:
        return Objects(elements)
    raise ValueError(f"it doesn't hold {n} elements of this dataset")


class CacheFileWriter:
    """Writes a pass to files."""

    error: BaseException | None = None

    def __init__(self, store: Files, chain: Chain, paths: Paths, key: Key, lock: Lock) -> None:
        self._store = store
        self._dataset = chain
        self._paths = paths
        self._key = key
        self._lock = lock
        self._plan = store.plan(chain)
        self._files = _stamps(chain)
        self._pieces: list[list[int]] = []
        self._packer = Packer()
        self._objects: list[Any] = []
        self._bare = False
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
        if len(self._objects) >= MOST_OBJECTS or self._packer.nbytes >= MOST_BYTES:
            self._flush()
        return chunk

    def more(self) -> dict[str, Any]:
        """Return further entries of the index."""
        return {}

    def plain(self, element: Any) -> Any:
        """Return an element as the files have it: without the classes of its structure, which the dataset knows."""
        if _has_classes(element) and _of_classes(self._dataset.element_spec, element):
            self._bare = True
            return bare(element)
        return element

    def _flush(self) -> None:
        objects, self._objects = self._objects, []
        if objects:
            self._write_objects(objects)

    def _skeleton(self, packer: Packer, element: Any, number: int) -> Any:
        try:
            return packer.skeleton(self.plain(element))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{self._store}: element {number}: {error}", path=self._paths.data, stage=STAGE
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
            "bare": self._bare,
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


def _has_classes(element: Any) -> bool:
    """Return whether a structure has tuples with names or records in it."""
    split = apart(element)
    if split is None:
        return False
    return type(element) not in (tuple, dict) or any(map(_has_classes, split[0]))


def _of_classes(spec: Any, element: Any) -> bool:
    """Return whether a structure is made of the same classes as a specification."""
    parts, others = apart(spec), apart(element)
    if parts is None or others is None:
        return parts is others
    return (
        type(spec) is type(element)
        and len(parts[0]) == len(others[0])
        and (not isinstance(spec, dict) or spec.keys() == element.keys())
        and all(map(_of_classes, spec.values() if isinstance(spec, dict) else parts[0],
                    [element[key] for key in spec] if isinstance(spec, dict) else others[0]))
    )  # fmt: skip


def in_structure(chunks: Generator[Chunk], spec: Any, path: str) -> Generator[Chunk]:
    """Yield chunks of elements in the classes of a specification that `CacheFileWriter` wrote without them."""
    with contextlib.closing(chunks):
        for chunk in chunks:
            if isinstance(chunk, Objects):
                if spec is None:
                    raise FailedPreconditionError(
                        f"{path}: its elements are of classes that the dataset tells, and there is no element left in "
                        "it to tell them",
                        path=path,
                        stage=STAGE,
                    )
                try:
                    chunk = Objects([like(spec, element) for element in chunk.elements])
                except (TypeError, ValueError, KeyError) as error:
                    raise FailedPreconditionError(
                        f"{path} is of another pipeline: its elements aren't of the structure {spec!r:.200}. Remove it "
                        "to have it written again, or name another file",
                        path=path,
                        stage=STAGE,
                    ) from error
            yield chunk


def _synced(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


class Lock:
    """A file that names the writer. The system releases the lock when its owner dies, whatever is left of the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> str | None:
        """Take the lock, also from a dead owner; otherwise return the name of its owner."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            owner = os.pread(fd, 1000, 0).decode("utf-8", "replace").strip()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                # Where the file system has no locks, the text in the file decides.
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


_NO_FILE = [-1, -1]


def _plan_of(chain: Chain) -> dict[str, Any]:
    """Return what decides the elements: steps, names of files, and the seeds that a user chose."""
    count, digest = chain.names()
    plan = {
        "plan": chain.describe(),
        "files": {"count": count, "names": f"{digest:016x}"},
        "seeds": [list(one.seeds.pair) if one.seeds.seeded else None for one in chain.shuffles],
    }
    plain: dict[str, Any] = json.loads(json.dumps(plan))
    return plain


def _stamps(chain: Chain) -> list[list[int]]:
    """Return the size and the time of change of each input file."""
    stamps = []
    for path in chain.paths():
        try:
            info = os.stat(path)
        except OSError:
            stamps.append(_NO_FILE)
        else:
            stamps.append([info.st_size, info.st_mtime_ns])
    return stamps
