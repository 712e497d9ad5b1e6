"""A cache of remote files on a disk of this machine, shared by all processes of one user.

For each remote file the folder has two files, both named by a digest of its URL and a number that changes with its
content: ``NAME.data`` has its bytes, with holes where they are not there yet, and ``NAME.index`` a header and, for each
block of 256 KiB, its checksum and whether it is there. The rules:

C1  A block counts only once the index has it. That is written after the bytes, and after the store has said once more
    that the file is still the one that the number stands for. So a process that dies leaves nothing wrong behind, and a
    file that was replaced between two requests is never kept under the number of another.
C2  Bytes are compared with their checksum before they are used. A block that differs is fetched again.
C3  Who writes a block holds the lock of the data file, and writes none that is there. So the data file doesn't change
    once all of its blocks are there, and native threads may read it as any local file.
C4  Who uses an entry holds a shared lock on its index; an entry that somebody uses is not removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import logging
import os
import shutil
import stat
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from queuecore._core.io.tfrecord import frame
from queuecore.errors import InvalidArgumentError, PermissionDeniedError, UnavailableError, os_error, shown_name

__all__ = ["BLOCK_BYTES", "CachedFile", "KeptFile", "RemoteCache", "cache_of"]

BLOCK_BYTES = 256 << 10
# Before the blocks: magic bytes with the version; bytes of a block and of the URL; the file's size and number; its URL.
_HEADER = struct.Struct("<8sIIQQ")
_MAGIC = b"qccache1"
_HEADER_BYTES = 4096
# Of each block: its checksum, and 1 if it is there.
_MARK = struct.Struct("<4sI")
# What one process writes before it looks again at how much the folder has.
_SHARE = 32
# Seconds before it does so again, where there was no room.
_LOOK_AGAIN = 1.0
_log = logging.getLogger("queuecore")


@dataclass(frozen=True)
class KeptFile:
    """A remote file of which a cache has something.

    Attributes
    ----------
    name : str
        The name of its two files.
    url : str
        Its URL, without what may be secret.
    size, cached_bytes : int
        Bytes of the file, and those that take room here.
    used : float
        When it was last opened or written to, in seconds since 1970.
    """

    name: str
    url: str
    size: int
    cached_bytes: int
    used: float


class RemoteCache:
    """The cache in one folder.

    Parameters
    ----------
    folder : path
        The folder. It is made if it isn't there, for this user alone.
    limit : int or None
        Bytes that files here may take; each process may exceed it by a 32nd. `None`: half of what the disk has free
        or the cache takes already.
    offline : bool
        Whether nothing is asked of the store.

    Raises
    ------
    PermissionDeniedError
        If the folder is another user's, or others may write to it.
    InvalidArgumentError, NotFoundError, UnavailableError
        If the folder can't be made or read.

    Attributes
    ----------
    compared : dict
        By name, of the files all of whose bytes this process has compared with their checksums: when their data file
        was changed last before that, in nanoseconds. A file that is opened again isn't read for that again.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int | None, offline: bool) -> None:
        self.folder = Path(os.path.abspath(os.fspath(folder)))
        self.offline = offline
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.stat()
        except OSError as error:
            raise _told(error, self.folder) from error
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionDeniedError(
                f"cache_dir {str(self.folder)!r} is another user's, or others may write to it: what they put there "
                "would be read as data. Choose a folder of your own (chmod go-w)",
                path=os.fsencode(self.folder),
            )
        self._lock = threading.Lock()
        self._files: weakref.WeakValueDictionary[str, CachedFile] = weakref.WeakValueDictionary()
        self.compared: dict[str, int] = {}
        self._writes = not offline
        taken = sum(entry.cached_bytes for entry in self.entries())
        self.limit = (shutil.disk_usage(self.folder).free + taken) // 2 if limit is None else limit
        self._share = max(self.limit // _SHARE, BLOCK_BYTES)
        self._room = min(self.limit - taken, self._share)  # what this process may write before it looks again
        self._full_at = -_LOOK_AGAIN  # when it last looked and found none

    def file(self, url: bytes, size: int, stamp: int) -> CachedFile | None:
        """Return what the cache has of a file, made if need be; `None`: it can't be kept, and the log says why."""
        name = f"{_digest(url)}-{stamp:016x}"
        with self._lock:
            file = self._files.get(name)
            if file is None or file.was_replaced:
                try:
                    file = CachedFile(self, name, url, size, stamp)
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE):
                        self._stop(error)
                    return None
                self._files[name] = file
            return file

    def newest(self, url: bytes) -> CachedFile:
        """Return what the cache has of a file, without asking the store which one it is now.

        Raises
        ------
        UnavailableError
            If it has nothing.
        """
        digest = _digest(url)
        indexes: list[tuple[int, Path]] = []
        for path in self.folder.glob(f"{digest}-*.index"):
            with contextlib.suppress(OSError):
                indexes.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(indexes, reverse=True):
            header = _header_of(path)
            if header is not None and (file := self.file(url, header[1], header[2])) is not None:
                return file
        raise UnavailableError(
            f"{os.fsdecode(url)} is not in the cache {str(self.folder)!r}, and offline=True asks nothing of the store",
            path=url,
            stage="open",
        )

    def entries(self) -> list[KeptFile]:
        """Return what is here, the longest unused first."""
        files = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob("*.index"):
                header = _header_of(path)
                with contextlib.suppress(OSError):
                    used = path.stat().st_mtime
                    taken = 512 * path.with_suffix(".data").stat().st_blocks
                    url, size = (header[0], header[1]) if header is not None else ("?", 0)
                    files.append(KeptFile(path.stem, url, size, taken, used))
        return sorted(files, key=lambda entry: entry.used)

    def purge(self, max_bytes: int = 0) -> tuple[int, int]:
        """Remove entries that nobody uses, the longest unused first, until the rest takes so many bytes at most.

        Returns
        -------
        tuple of int
            Bytes that were removed, and that are left.
        """
        removed = 0
        with self.locked():
            entries = self.entries()
            total_bytes = sum(entry.cached_bytes for entry in entries)
            for entry in entries:
                if total_bytes - removed <= max_bytes:
                    break
                if self._remove(entry.name):
                    removed += entry.cached_bytes
        return removed, total_bytes - removed

    def _remove(self, name: str) -> bool:
        path = self.folder / f"{name}.index"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # C4
            path.unlink()
            path.with_suffix(".data").unlink(missing_ok=True)
            self.compared.pop(name, None)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder: entries begin and end under it."""
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def has_room(self, nbytes: int) -> bool:
        """Return whether so many bytes may be written now. They count as written then."""
        with self._lock:
            if not self._writes:
                return False
            if self._room < nbytes and time.monotonic() > self._full_at + _LOOK_AGAIN:
                try:
                    _, taken = self.purge(self.limit - self._share)
                except OSError as error:
                    self._stop(error)
                    return False
                self._room = min(self.limit - taken, self._share)
                self._full_at = time.monotonic() if self._room < nbytes else -_LOOK_AGAIN
            if self._room < nbytes:
                return False
            self._room -= nbytes
            return True

    def stop(self, error: OSError) -> None:
        """Write nothing any more, as it fails. The log says so, once."""
        with self._lock:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        if self._writes:
            self._writes = False
            _log.warning("nothing more is kept in the cache %s: %s", self.folder, error.strerror or error)


class CachedFile:
    """A remote file of which the cache may have parts. Any thread; system calls.

    Parameters
    ----------
    cache : RemoteCache
        Its cache.
    name : str
        The name of its two files.
    url : bytes
        Its URL.
    size, stamp : int
        Its bytes, and the number that changes with its content.

    Attributes
    ----------
    size, stamp : int
        As given.
    offline : bool
        Whether nothing is asked of the store.
    was_replaced : bool
        Whether the store has had another file in its place since.
    """

    def __init__(self, cache: RemoteCache, name: str, url: bytes, size: int, stamp: int) -> None:
        self.size, self.stamp, self.offline = size, stamp, cache.offline
        self.was_replaced = False
        self._cache, self._name, self._url = cache, name, url
        self._data_path = cache.folder / f"{name}.data"
        blocks = -(-size // BLOCK_BYTES)
        self._index, self._data = self._opened(cache.folder / f"{name}.index", blocks)
        weakref.finalize(self, _close, self._index, self._data).atexit = False
        self._lock = threading.Lock()
        self._marks: list[bytes | None] = [None] * blocks  # checksums of the blocks that are there
        self._fresh: dict[int, bytes] = {}  # written, and not in the index yet: C1
        self._bad: set[int] = set()  # that the index has, and were damaged
        self._fetching: dict[int, threading.Event] = {}
        self._good = bytearray(blocks)  # whose bytes were compared with their checksum, or come from here
        self._load()

    def _opened(self, path: Path, blocks: int) -> tuple[int, int]:
        flags = os.O_CLOEXEC | (os.O_RDONLY if self._cache.offline else os.O_RDWR)
        shown = os.fsencode(shown_name(self._url))[: _HEADER_BYTES - _HEADER.size]
        header = _HEADER.pack(_MAGIC, BLOCK_BYTES, len(shown), self.size, self.stamp) + shown
        with contextlib.nullcontext() if self._cache.offline else self._cache.locked():
            if not self._cache.offline and _bytes_of(path, len(header)) != header:
                path.unlink(missing_ok=True)
                self._data_path.unlink(missing_ok=True)
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    os.ftruncate(fd, _HEADER_BYTES + blocks * _MARK.size)
                    os.pwrite(fd, header, 0)
                finally:
                    os.close(fd)
            index = os.open(path, flags)
            try:
                fcntl.flock(index, fcntl.LOCK_SH)  # C4
                if not self._cache.offline:
                    os.utime(index)
                    flags |= os.O_CREAT
                data = os.open(self._data_path, flags, 0o600)
            except BaseException:
                os.close(index)
                raise
        try:
            if not self._cache.offline and os.fstat(data).st_size != self.size:
                os.ftruncate(data, self.size)
        except BaseException:
            _close(index, data)
            raise
        return index, data

    def _load(self) -> None:
        table = os.pread(self._index, len(self._marks) * _MARK.size, _HEADER_BYTES)
        for block, (checksum, there) in enumerate(_MARK.iter_unpack(table[: len(table) // _MARK.size * _MARK.size])):
            if there == 1:
                self._marks[block] = checksum

    def read(self, offset: int, end: int, fetch: Callable[[int, int], bytes | memoryview]) -> bytes | memoryview:
        """Return a range of the file, from here or from the store.

        Parameters
        ----------
        offset, end : int
            The range, in bytes; it is within the file.
        fetch : callable
            Gets a range from the store.

        Raises
        ------
        UnavailableError
            If the cache is offline, and doesn't have all of it.
        """
        parts: list[bytes | memoryview] = []
        at = offset
        while at < end:
            first, data = self._blocks(at // BLOCK_BYTES, -(-end // BLOCK_BYTES), fetch)
            part = data[at - first : end - first] if at > first or end < first + len(data) else data
            parts.append(part)
            at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _blocks(
        self, block: int, stop: int, fetch: Callable[[int, int], bytes | memoryview]
    ) -> tuple[int, bytes | memoryview]:
        """Return where a block begins, and it, perhaps with blocks behind it up to `stop`."""
        mine: list[int] = []
        done = threading.Event()
        try:
            while not mine:
                with self._lock:
                    under_way = self._fetching.get(block)
                    mine = list(itertools.takewhile(self._is_missing, range(block, stop)))
                    self._fetching.update((missing, done) for missing in mine)
                if under_way is not None:
                    under_way.wait()
                elif not mine and (stored := self._stored(block)) is not None:
                    return block * BLOCK_BYTES, stored
            first, end = block * BLOCK_BYTES, min((mine[-1] + 1) * BLOCK_BYTES, self.size)
            if self._cache.offline:
                raise UnavailableError(
                    f"the cache {str(self._cache.folder)!r} doesn't have bytes {first} to {end} of "
                    f"{os.fsdecode(self._url)}, and offline=True asks nothing of the store",
                    path=self._url,
                )
            data = fetch(first, end)
            self._keep(mine, data)
            return first, data
        finally:
            with self._lock:
                for fetched in mine:
                    if self._fetching.get(fetched) is done:  # not where an interrupt came before it was noted
                        del self._fetching[fetched]
            done.set()

    def _is_missing(self, block: int) -> bool:
        return block not in self._fetching and not self._is_there(block)

    def _is_there(self, block: int) -> bool:
        # Under the lock. Another process may have written it since.
        if self._marks[block] is None and block not in self._bad:
            mark = os.pread(self._index, _MARK.size, _HEADER_BYTES + block * _MARK.size)
            if len(mark) == _MARK.size and mark[4:] == b"\1\0\0\0":
                self._marks[block] = mark[:4]
        return self._marks[block] is not None

    def _stored(self, block: int) -> bytes | None:
        # None: it is damaged, and no longer there (C2).
        checksum, nbytes = self._marks[block], min(BLOCK_BYTES, self.size - block * BLOCK_BYTES)
        try:
            data = os.pread(self._data, nbytes, block * BLOCK_BYTES)
        except OSError:
            data = b""
        if len(data) == nbytes and frame(data)[1] == checksum:
            self._good[block] = 1
            return data
        with self._lock:
            if self._marks[block] is not checksum:  # another thread found that, and has fetched it, perhaps
                return None
            _log.warning("a block of %s in the cache %s is damaged", shown_name(self._url), self._cache.folder)
            self._marks[block] = None
            self._bad.add(block)
            self._fresh.pop(block, None)
            with contextlib.suppress(OSError), self._written():
                os.pwrite(self._index, bytes(_MARK.size), _HEADER_BYTES + block * _MARK.size)
        return None

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        # C3, under `_lock`: threads of this process share the descriptor, and with it the lock.
        fcntl.flock(self._data, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._data, fcntl.LOCK_UN)

    def _keep(self, blocks: list[int], data: bytes | memoryview) -> None:
        view = memoryview(data)
        for number, block in enumerate(blocks):
            part = view[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
            if not self._cache.has_room(len(part)):
                return
            checksum = frame(part)[1]
            try:
                with self._lock, self._written():
                    if self.was_replaced:
                        return
                    if self._is_there(block):
                        continue
                    if os.pwrite(self._data, part, block * BLOCK_BYTES) != len(part):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    self._marks[block] = self._fresh[block] = checksum
                    self._good[block] = 1
                    self._bad.discard(block)
            except OSError as error:
                self._cache.stop(error)
                return

    def fresh(self) -> dict[int, bytes]:
        """Return the blocks that wait for the store to say that the file is still the same."""
        with self._lock:
            return dict(self._fresh)

    def confirm(self, fresh: dict[int, bytes], stamp: int) -> None:
        """Hear by which number the store knows the file since `fresh` was asked for: those blocks count, or go (C1)."""
        with self._lock:
            if stamp != self.stamp:  # also requests that are still under way may bring the new one's bytes
                self.was_replaced = True
                for block in self._fresh:
                    self._marks[block] = None
                    self._good[block] = 0
                self._fresh.clear()
                return
            fresh = {block: self._fresh.pop(block) for block in fresh if block in self._fresh}
            try:
                with self._written():
                    for block, checksum in fresh.items():
                        os.pwrite(self._index, _MARK.pack(checksum, 1), _HEADER_BYTES + block * _MARK.size)
            except OSError as error:
                self._cache.stop(error)

    def local(self) -> int:
        """Return a new descriptor of the data, if all of it is there, and as it was written; otherwise -1.

        Its modification time is the number that changes with the content, in nanoseconds.
        """
        with self._lock:
            blocks = range(len(self._marks))
            if self._fresh or not all(self._is_there(block) for block in blocks):
                return -1
        changed = os.fstat(self._data).st_ctime_ns
        compared = self._cache.compared.get(self._name)
        if changed != compared:
            trusted = self._good if compared is None else bytes(len(blocks))
            if any(self._stored(block) is None for block in blocks if not trusted[block]):
                return -1
        try:
            with self._lock, self._written():
                if os.fstat(self._data).st_mtime_ns != self.stamp:
                    os.utime(self._data, ns=(time.time_ns(), self.stamp))
            status = os.fstat(self._data)
            if status.st_mtime_ns != self.stamp or status.st_size != self.size:  # a disk that has no such times
                return -1
            self._cache.compared[self._name] = status.st_ctime_ns
            return os.open(self._data_path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return -1


_caches: dict[tuple[str, int | None, bool], RemoteCache] = {}


def cache_of(folder: str | os.PathLike[str], limit: int | None, offline: bool) -> RemoteCache:
    """Return the cache of this process for a folder. See `RemoteCache`."""
    key = os.path.abspath(os.fspath(folder)), limit, offline
    cache = _caches.get(key)
    if cache is None:
        cache = _caches.setdefault(key, RemoteCache(*key))  # another thread may have been quicker
    return cache


def _forked() -> None:
    _caches.clear()  # the parent's threads may have held their locks


os.register_at_fork(after_in_child=_forked)


def _digest(url: bytes) -> str:
    return hashlib.blake2b(url, digest_size=16).hexdigest()


def _bytes_of(path: Path, nbytes: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(nbytes)
    except FileNotFoundError:
        return b""


def _header_of(path: Path) -> tuple[str, int, int] | None:
    """Return the URL, size and number that an index file names; `None`: it is damaged."""
    try:
        header = _bytes_of(path, _HEADER_BYTES)
        magic, block_bytes, url_bytes, size, stamp = _HEADER.unpack_from(header)
    except (OSError, struct.error):
        return None
    if magic != _MAGIC or block_bytes != BLOCK_BYTES:
        return None
    return os.fsdecode(header[_HEADER.size : _HEADER.size + url_bytes]), size, stamp


def _close(*descriptors: int) -> None:
    for fd in descriptors:
        os.close(fd)


def _told(error: OSError, folder: Path) -> Exception:
    text = f"cache_dir {str(folder)!r} can't be used: "
    if isinstance(error, NotADirectoryError | FileExistsError):
        return InvalidArgumentError(f"{text}it is no folder")
    return os_error(error.errno or errno.EIO, text, path=folder)
