"""Files of object stores and web servers, by the URLs that fsspec knows: opened, and read in ranges.

Native threads ask for ranges; threads of Python's, the servers, get them here. What a store needs to know (keys,
endpoints, regions) comes from fsspec's own configuration, or is given with the names.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from queuecore._core.atoms.errors import tell_causes
from queuecore._core.io.remote import begin, serve
from queuecore._io.ahead import AheadReader
from queuecore._io.cache import CachedFile, cache_of
from queuecore._io.object_store import store_of
from queuecore.errors import InvalidArgumentError, QueueCoreError, UnimplementedError, shown_name

__all__ = [
    "as_os_error",
    "beginning_of",
    "check",
    "checked",
    "failure_of",
    "is_url",
    "keep",
    "listed",
    "look",
    "options_of",
    "ready",
    "remember",
    "writable",
]

_ADVICE = "Or copy it to a disk of this machine, or mount where it lies: see docs/data-sources.md"
# Seconds that a server stays without a call, besides the first one.
_IDLE = 5.0
# Seconds before a request is made again: the first wait, and by how much each further one is longer.
_FIRST_WAIT, _LONGER = 0.1, 2.0
_MOST_TRIES = 5
# The answers of a server that are worth another request.
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
# What stores say of an object that changes with its content.
_MARKS = ("ETag", "etag", "LastModified", "mtime", "created", "version_id")
# What went wrong last with a file, by its name, for the error that tells it; so many are kept.
_MOST_FAILURES = 256
_failures: dict[bytes, BaseException] = {}
# Those that fsspec can read.
_schemes: set[str] = set()
# By which options files are opened, by their names: the last ones that somebody gave.
_options: dict[bytes, dict[str, Any]] = {}
# Where they are kept, in the same way: what `cache_of` needs. Not the cache itself, which a forked process has anew.
_caches: dict[bytes, tuple[str | os.PathLike[str], int | None, bool]] = {}

T = TypeVar("T")


def is_url(name: bytes) -> bool:
    """Return whether a name is a URL of a file elsewhere: as native code sees it."""
    scheme, colon, rest = name.partition(b"://")
    return bool(
        colon
        and len(scheme) > 1
        and scheme[:1].isalpha()
        and scheme.decode("latin-1").replace("+", "").replace("-", "").replace(".", "").isalnum()
        and rest
    )


def check(name: bytes) -> None:
    """Raise an error if fsspec can't read URLs of a scheme here. Makes no request.

    Raises
    ------
    UnimplementedError
        If fsspec isn't installed, or doesn't know the scheme, or needs a package for it that isn't installed.
    """
    scheme = os.fsdecode(name.partition(b":")[0]).lower()
    if scheme in _schemes:
        return
    shown = repr(shown_name(name))
    try:
        import fsspec
    except ImportError:
        raise UnimplementedError(
            f"{shown} is no local file, and fsspec, which reads others, is not installed: pip install fsspec, and what "
            f"it needs for this scheme. {_ADVICE}",
            path=name,
            stage="open",
        ) from None
    try:
        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise UnimplementedError(
            f"{shown} is no local file, and fsspec can't read it: {error}. {_ADVICE}",
            path=name,
            stage="open",
        ) from error
    _schemes.add(scheme)


def checked(options: Any) -> dict[str, Any] | None:
    """Return a copy of a user's options of a store. Raises `InvalidArgumentError` if they are none."""
    if options is None:
        return None
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise InvalidArgumentError(f"storage_options must be a dict with strings as keys, not {type(options).__name__}")
    return dict(options)


def remember(names: Iterable[bytes], options: dict[str, Any] | None) -> None:
    """Let those of these files that lie elsewhere be opened with options, in this process."""
    if options is not None:
        _options.update((name, options) for name in names if is_url(name))


def options_of(names: Sequence[bytes]) -> dict[str, Any] | None:
    """Return the options that the files of a dataset were given, if any."""
    return _options.get(names[0]) if names else None


def keep(names: Iterable[bytes], folder: str | os.PathLike[str] | None, limit: int | None, offline: bool) -> None:
    """Let those of these files that lie elsewhere be kept in a folder, in this process; `None`: in none.

    Raises
    ------
    InvalidArgumentError
        If there is no folder, and nothing may be asked of the store.
    QueueCoreError
        As `RemoteCache` does.
    """
    if folder is not None:
        cache_of(folder, limit, offline)  # whether it can be used
        _caches.update((name, (folder, limit, offline)) for name in names if is_url(name))
        return
    if offline:
        raise InvalidArgumentError("offline=True reads remote files from a cache: name its folder, cache_dir=...")
    for name in names if _caches else ():
        _caches.pop(name, None)


def ready() -> None:
    """Let this process read remote files. Called before the first one is opened, also after a fork."""
    begin(_opened, _errno_of, _start)
    tell_causes(failure_of)


def failure_of(name: bytes) -> BaseException | None:
    """Return what went wrong last with a file."""
    return _failures.get(name)


@contextlib.contextmanager
def as_os_error() -> Iterator[None]:
    """Let what goes wrong with a store be an `OSError` with a number, as of a local file."""
    try:
        yield
    except QueueCoreError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise OSError(_errno_of(error), str(error) or type(error).__name__) from error


def look(name: bytes) -> tuple[int, int]:
    """Return the size of a remote file in bytes, and a number that changes with its content. Raises `OSError`."""
    with as_os_error():
        return _opened(name).look()


def beginning_of(name: bytes, nbytes: int) -> bytes:
    """Return the first bytes of a remote file. Raises `OSError`."""
    with as_os_error():
        return bytes(_opened(name).read(0, nbytes))


def listed(pattern: bytes, options: dict[str, Any] | None = None) -> list[bytes]:
    """Return the URLs that match a pattern, sorted by bytes. Raises `OSError`."""
    remember([pattern], options)
    with as_os_error():
        filesystem, path = _place(pattern)
        found = _tried(lambda: filesystem.glob(path))
    names = sorted(os.fsencode(filesystem.unstrip_protocol(one)) for one in found)
    remember(names, options)
    return names


def _place(name: bytes, options: dict[str, Any] | None = None) -> tuple[Any, str]:
    check(name)
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(os.fsdecode(name), **(options or _options.get(name, {})))
    return filesystem, path


def writable(name: bytes, options: dict[str, Any] | None) -> Any:
    """Return a new remote file, with ``write``, ``close``, ``commit`` and ``discard``.

    Nothing of it is there before `commit`, which follows `close`; libraries that commit as they close do it there.

    Raises
    ------
    OSError
        If it can't be opened.
    UnimplementedError
        If the library only reads such files, or can't write them as a whole.
    """
    with as_os_error():
        filesystem, path = _place(name, options)
        try:
            file = _new_file(filesystem, path)
        except NotImplementedError as error:
            raise UnimplementedError(
                f"{shown_name(name)!r} can't be written by fsspec, or not so that it appears as a whole. Write a local "
                "file, and copy it there",
                path=name,
                stage="open",
            ) from error
    return file


def _new_file(filesystem: Any, path: str) -> Any:
    from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
    from fsspec.spec import AbstractBufferedFile

    if isinstance(filesystem, MemoryFileSystem):  # what it opens is there at once
        return MemoryFile(filesystem, path)
    file = filesystem.open(path, "wb", autocommit=False)
    with contextlib.suppress(ValueError):
        filesystem.transaction.files.remove(file)  # it is no part of one of the user's
    if isinstance(file, AbstractBufferedFile):
        if type(file) is AbstractBufferedFile:  # it sends nothing
            raise NotImplementedError
    elif not (hasattr(file, "commit") and hasattr(file, "discard")):
        file.close()
        raise NotImplementedError
    file.autocommit = False  # also where the library didn't hear it
    return file


class _File:
    """An open remote file."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._filesystem, self._path = _place(name)
        self._whole: bytes | None = None
        # Counted by a call that threads can't divide; several: answers to them may be of several contents.
        self._requests = itertools.count()
        self._several = False
        self._ahead: AheadReader | None = None
        self._objects, self._etag = store_of(self._filesystem, self._path), ""
        wanted = _caches.get(name)
        cache = cache_of(*wanted) if wanted is not None else None
        self._cached: CachedFile | None = None
        if cache is not None and cache.offline:
            self._cached = cache.newest(name)
            self.size, self._stamp = self._cached.size, self._cached.stamp
            return
        self.size, self._stamp = self._measured()
        if cache is not None and self._whole is None and self._has_marks:
            self._cached = cache.file(name, self.size, self._stamp)

    def _info(self) -> dict[str, Any]:
        if self._objects is not None:
            try:
                objects, key = self._objects
                info = objects.info(key)
                self._etag = info["ETag"]
                if self._etag:
                    return info
            except Exception:  # fsspec knows why, or a way
                pass
            self._objects = None
        self._filesystem.invalidate_cache(self._path)  # a listing may be older than the object
        return _tried(lambda: self._filesystem.info(self._path))

    def _measured(self) -> tuple[int, int]:
        info = self._info()
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        size = info.get("size")
        if size is None:  # the server doesn't say: it is read at once
            whole: bytes = _tried(lambda: self._filesystem.cat_file(self._path))
            self._whole, size = whole, len(whole)
        marks = [str(info[key]) for key in _MARKS if key in info]
        self._has_marks = bool(marks)
        digest = hashlib.blake2b("\0".join(marks).encode(), digest_size=8).digest()
        return int(size), int.from_bytes(digest, "little") >> 4  # as a time in nanoseconds, one that each disk can keep

    def look(self) -> tuple[int, int]:
        """Return the size, and a number that changes with the content."""
        try:
            fresh = {} if self._cached is None else self._cached.fresh()
            if self._objects is not None:  # all answers are of one content
                if self._cached is not None:
                    self._cached.confirm(fresh, self._stamp)
            elif (self._several or fresh) and self._whole is None:  # one answer is of one content
                self.size, self._stamp = self._measured()
                if self._cached is not None:
                    self._cached.confirm(fresh, self._stamp)
            return self.size, self._stamp
        except BaseException as error:
            _note(self._name, error)
            raise

    def read(self, offset: int, nbytes: int) -> bytes | memoryview:
        """Return bytes from an offset on, fewer only at the end."""
        if self._whole is not None:
            return self._whole[offset : offset + nbytes]
        end = min(offset + nbytes, self.size)
        if offset >= end:
            return b""
        if self._ahead is None:
            self._ahead = AheadReader(self.size, self._bytes)
        try:
            return self._ahead.read(offset, end)
        except BaseException as error:
            _note(self._name, error)
            raise

    def local(self) -> int:
        """Return a descriptor of a local file with the same bytes and the same number as time; -1: there is none."""
        return -1 if self._cached is None else self._cached.local()

    def _bytes(self, offset: int, end: int) -> bytes:
        if self._cached is not None:
            return self._cached.read(offset, end, self._fetched)
        return self._fetched(offset, end)

    def _fetched(self, offset: int, end: int) -> bytes:
        if next(self._requests) > 0:
            self._several = True
        data: bytes = _tried(lambda: self._range(offset, end))
        return data

    def _of_objects(self, offset: int, end: int) -> Any:
        if (stored := self._objects) is None:
            return None
        objects, key = stored
        try:
            return objects.range(key, offset, end, self._etag)
        except Exception:  # also if it was replaced: fsspec's answer says so, or `look`
            self._several, self._objects = True, None
            return None

    def _range(self, offset: int, end: int) -> Any:
        data = self._of_objects(offset, end)
        if data is None:
            data = self._filesystem.cat_file(self._path, start=offset, end=end)
        if len(data) == self.size > end - offset:  # the server ignores ranges
            data = data[offset:end]
        if len(data) != end - offset:
            raise ConnectionError(f"{len(data)} bytes came instead of {end - offset}")
        return data


def _opened(name: bytes) -> _File:
    try:
        file = _File(name)
    except BaseException as error:
        _note(name, error)
        raise
    _failures.pop(name, None)
    return file


def _note(name: bytes, error: BaseException) -> None:
    while len(_failures) >= _MOST_FAILURES:
        _failures.pop(next(iter(_failures)), None)
    _failures[name] = error


def _tried(request: Callable[[], T]) -> T:
    """Return what a request returns, after further tries where the failure may pass."""
    wait = _FIRST_WAIT
    for tries in range(1, _MOST_TRIES + 1):
        try:
            return request()
        except Exception as error:
            if tries == _MOST_TRIES or not _may_pass(error):
                raise
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait *= _LONGER
    raise AssertionError("unreachable")


def _origin(error: BaseException) -> BaseException:
    """Return what made a library say that there is no such file: fsspec says so of any web server that fails."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or cause is None:
        return error
    failed = isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.partition(".")[0] == "aiohttp"
    return cause if failed else error


def _may_pass(error: BaseException) -> bool:
    error = _origin(error)
    status = getattr(error, "status", None)  # of aiohttp
    if isinstance(status, int):
        return status in _AGAIN
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return False
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError):
        return error.errno in (None, errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ETIMEDOUT, errno.ECONNRESET)
    return type(error).__module__.partition(".")[0] in ("aiohttp", "botocore", "urllib3")


def _errno_of(error: BaseException) -> int:
    error.__traceback__ = None  # it is kept as a cause, and would keep the data of requests
    error = _origin(error)
    for kind, number in (
        (FileNotFoundError, errno.ENOENT),
        (PermissionError, errno.EACCES),
        (IsADirectoryError, errno.EISDIR),
        (TimeoutError, errno.ETIMEDOUT),
        (MemoryError, errno.ENOMEM),
        (UnimplementedError, errno.EPROTONOSUPPORT),
    ):
        if isinstance(error, kind):
            return number
    status = getattr(error, "status", None)
    if status in (401, 403):
        return errno.EACCES
    if status in (404, 410):
        return errno.ENOENT
    own = getattr(error, "errno", None)
    return own if isinstance(own, int) and own > 0 else errno.EIO


def _start() -> None:
    """Start a server. The first one of a process stays."""
    number = next(_numbers)
    idle = _IDLE if number else -1.0
    threading.Thread(target=serve, args=(idle,), name=f"qc-remote-{number}", daemon=True).start()


_numbers = itertools.count()


def _forked() -> None:
    global _numbers
    _numbers = itertools.count()


os.register_at_fork(after_in_child=_forked)
