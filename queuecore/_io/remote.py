"""Files of object stores and web servers, by the URLs that fsspec knows: opened, and read in ranges.

Native threads ask for ranges; threads of Python's, the servers, get them here. Keys, endpoints and regions
come from fsspec's own configuration, or are given with the names.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from queuecore._core.atoms.errors import os_reason, tell_causes
from queuecore._core.io.remote import AheadReader, begin, is_url, serve
from queuecore._io.cache import CachedFile, cache_of
from queuecore._io.object_store import objects_of
from queuecore._io.plain_http import plain_file
from queuecore._runners.threads import start_thread
from queuecore.errors import InvalidArgumentError, QueueCoreError, UnimplementedError, os_error, shown_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "RemoteStore",
    "as_os_error",
    "check",
    "failure_of",
    "is_url",
    "kept",
    "listed",
    "listed_by",
    "look",
    "looked_at",
    "opened",
    "options_of",
    "ready",
    "store_of",
    "unpickled",
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
_MARKS = ("ETag", "etag", "LastModified", "mtime", "created", "version_id", "CRC")
# Bytes of a file that is read at once, if a server or an archive has no ranges of it.
_MOST_WHOLE = 64 << 20
# By URL, of those that one thread reads at a time.
_turns: weakref.WeakValueDictionary[bytes, threading.Lock] = weakref.WeakValueDictionary()
# What went wrong last with a file, by its name and the number of its store, for the error that tells it; so many are
# kept.
_MOST_FAILURES = 256
_failures: dict[tuple[bytes, int], BaseException] = {}
# Those that fsspec can read.
_schemes: set[str] = set()
_WORD = re.compile("[a-z]+")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"<>]+")
# Options that hold secrets, by their names; characters of a secret that is looked for in a text by itself.
_SECRET = re.compile("secret|token|passw|key|credential|sas|connection_string", re.IGNORECASE)
_LEAST_SECRET = 4
# What `cache_of` needs. Not the cache itself, which a forked process has anew.
_Cache = tuple[str | os.PathLike[str], int | None, bool]

T = TypeVar("T")


class RemoteStore:
    """By what URLs are opened, and where what they have is kept. Immutable.

    Native code has its number, and hands that back with the names of files; a holder of the number holds the store
    too, as long as anybody waits for the file.

    Parameters
    ----------
    options : dict, optional
        What fsspec needs to know. There may be secrets in it: it is never shown.
    cache : tuple, optional
        The arguments of `cache_of`.
    """

    __slots__ = ("__weakref__", "cache", "number", "options")

    def __init__(self, options: dict[str, Any] | None = None, cache: _Cache | None = None) -> None:
        self.options, self.cache = options, cache
        self.number = next(_numbers_of_stores)
        while self.number in _stores:  # they begin anew after 2 thousand million
            self.number = next(_numbers_of_stores)
        _stores[self.number] = self

    def __eq__(self, other: object) -> bool:
        """Return whether it opens the same files in the same way."""
        if not isinstance(other, RemoteStore):
            return NotImplemented
        try:
            return self is other or bool(self.cache == other.cache and self.options == other.options)
        except Exception:  # noqa: BLE001 - of values that can't be compared
            return False

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Support `pickle`."""
        return RemoteStore, (self.options, self.cache)


_stores: weakref.WeakValueDictionary[int, RemoteStore] = weakref.WeakValueDictionary()
_numbers_of_stores = itertools.cycle(range(1, 2**31))
# For URLs without a store of their own, while somebody's function makes datasets of names.
_listed_by: ContextVar[RemoteStore | None] = ContextVar("_listed_by", default=None)
# For those without a cache of their own, while somebody looks at files before they are read.
_looked_at: ContextVar[_Cache | None] = ContextVar("_looked_at", default=None)


def store_of(options: Any) -> RemoteStore | None:
    """Return the store for a user's options; of none, the one by which the names at hand were listed, if any.

    Raises
    ------
    InvalidArgumentError
        If they are no such thing.
    """
    given = _checked(options)
    return _listed_by.get() if given is None else RemoteStore(given)


def unpickled(options: dict[str, Any] | None) -> RemoteStore | None:
    """Return the store of which `options_of` gave the options."""
    return None if options is None else RemoteStore(options)


def _cache_in(options: CacheOptions) -> _Cache | None:
    return None if options.cache_dir is None else (options.cache_dir, options.cache_bytes, bool(options.offline))


def options_of(store: RemoteStore | None) -> dict[str, Any] | None:
    """Return the options of a store, for a pickle."""
    return None if store is None else store.options


@contextlib.contextmanager
def listed_by(store: RemoteStore | None) -> Iterator[None]:
    """Let names without options be opened by a store, in this thread and block."""
    token = _listed_by.set(store)
    try:
        yield
    finally:
        _listed_by.reset(token)


class CacheOptions(Protocol):
    """The attributes of `queuecore.data.Options` that say where remote files are kept."""

    cache_dir: str | os.PathLike[str] | None
    cache_bytes: int | None
    offline: bool | None


def kept(store: RemoteStore | None, options: CacheOptions) -> RemoteStore | None:
    """Return the store that also keeps what it reads where options say so.

    Raises
    ------
    InvalidArgumentError
        If there is no folder, and nothing may be asked of the store.
    QueueCoreError
        As `RemoteCache` does.
    """
    cache = _cache_in(options)
    if cache is None:
        if options.offline:
            raise InvalidArgumentError("offline=True reads remote files from a cache: name its folder, cache_dir=...")
        return store
    cache_of(*cache)  # whether it can be used
    return RemoteStore(None if store is None else store.options, cache)


@contextlib.contextmanager
def looked_at(options: CacheOptions) -> Iterator[None]:
    """Let files be looked at by way of the cache of these options, if they have one, in this thread and block."""
    token = _looked_at.set(_cache_in(options) or _looked_at.get())
    try:
        yield
    finally:
        _looked_at.reset(token)


def check(name: bytes) -> None:
    """Raise an error if fsspec can't read URLs of a scheme here. Makes no request.

    Raises
    ------
    UnimplementedError
        If fsspec isn't installed, or doesn't know the scheme, or needs a package for it that isn't installed.
    """
    schemes = {scheme for part in os.fsdecode(name).split("::") if (scheme := _scheme_in(part))}
    if schemes <= _schemes:
        return
    label = repr(shown_name(name))
    try:
        import fsspec
    except ImportError:
        raise UnimplementedError(
            f"{label} is no local file, and fsspec, which reads others, is not installed: pip install fsspec, and what "
            f"it needs for this scheme. {_ADVICE}",
            path=name,
            stage="open",
        ) from None
    try:
        for scheme in schemes:
            fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise UnimplementedError(
            f"{label} is no local file, and fsspec can't read it: {error}. {_ADVICE}",
            path=name,
            stage="open",
        ) from error
    _schemes.update(schemes)


def _scheme_in(part: str) -> str:
    """Return the scheme of a part of a chain, as fsspec sees it; one without may be a path or a single word."""
    scheme, marked, _ = part.partition("://")
    return scheme if marked or _WORD.fullmatch(part) else ""


def _checked(options: Any) -> dict[str, Any] | None:
    """Return a copy of a user's options of a store. Raises `InvalidArgumentError` if they are none."""
    if options is None:
        return None
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise InvalidArgumentError(f"storage_options must be a dict with strings as keys, not {type(options).__name__}")
    return _copied(options)


def _copied(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in options.items()}


def ready() -> None:
    """Let this process read remote files. Called before the first one is opened, also after a fork."""
    begin(_opened_by, _errno_of, _start)
    tell_causes(failure_of, reason_of)


def failure_of(name: bytes, number: int) -> BaseException | None:
    """Return what went wrong last with a file, opened by the store of a number."""
    return _failures.get((name, number))


def reason_of(number: int, cause: BaseException) -> str:
    """Return why something failed with an errno, as text."""
    cause = _origin(cause)
    said = cause.message if isinstance(cause, QueueCoreError) else getattr(cause, "strerror", None) or str(cause)
    if number == errno.EIO:  # which stands for all that has no number
        return said or type(cause).__name__
    return f"{os_reason(number)}: {said}" if said and said != os_reason(number) else os_reason(number)


@contextlib.contextmanager
def as_os_error(name: bytes, store: RemoteStore | None) -> Iterator[None]:
    """Let what goes wrong with a remote file be an `OSError` with a number, as of a local file."""
    try:
        yield
    except QueueCoreError:
        raise
    except Exception as error:
        number, cause = _errno_of(error), without_secrets(error, name, store)
        raise OSError(number, reason_of(number, cause)) from cause


def look(name: bytes, store: RemoteStore | None) -> tuple[int, int]:
    """Return the size of a remote file in bytes, and a number that changes with its content. Raises `OSError`."""
    with as_os_error(name, store):
        return _opened(name, store).look()


def opened(name: bytes, store: RemoteStore | None) -> RemoteReader:
    """Return a remote file, to be read from its beginning. Raises `OSError`."""
    with as_os_error(name, store):
        ready()
        return RemoteReader(_opened(name, store))


def listed(pattern: bytes, store: RemoteStore | None) -> list[bytes]:
    """Return the URLs that match a pattern, sorted by bytes.

    Raises
    ------
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If the store doesn't tell.
    """
    try:
        with as_os_error(pattern, store):
            filesystem, path = _place(pattern, store)
            paths = _tried(lambda: filesystem.glob(path))
            if not paths:
                _check_listing(filesystem, path)
    except QueueCoreError:
        raise
    except OSError as error:
        before = f"cannot list {shown_name(pattern)!r}: "
        raise os_error(error.errno, before, reason=error.strerror, path=pattern, stage="open") from error.__cause__
    return sorted(_name_like(pattern, filesystem, one) for one in paths)


def _check_listing(filesystem: Any, pattern: str) -> None:
    """Raise what keeps a store from telling its names: fsspec finds none then, and says nothing."""
    folder = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
    try:
        _tried(lambda: filesystem.ls(folder, detail=False))
    except Exception as error:
        if _errno_of(error) not in (errno.ENOENT, errno.ENOTDIR):
            raise


def _name_like(pattern: bytes, filesystem: Any, path: str) -> bytes:
    """Return the URL of a path that was found by a pattern."""
    parts = os.fsdecode(pattern).split("::")
    if len(parts) == 1:
        return os.fsencode(filesystem.unstrip_protocol(path))
    at = next(number for number, part in enumerate(parts) if "://" in part)
    scheme = parts[at].partition("://")[0] + "://"
    parts[at] = path if path.startswith(scheme) else scheme + path
    return os.fsencode("::".join(parts))


def _place(name: bytes, store: RemoteStore | None) -> tuple[Any, str]:
    check(name)
    import fsspec

    options = {} if store is None or store.options is None else _copied(store.options)  # fsspec writes to some in it
    filesystem, path = fsspec.core.url_to_fs(os.fsdecode(name), **options)
    return filesystem, path


def writable(name: bytes, store: RemoteStore | None) -> Any:
    """Return a new remote file, with ``write``, ``close``, ``commit`` and ``discard``.

    Nothing of it is there before `commit`, which follows `close`; libraries that commit as they close do it there.

    Raises
    ------
    OSError
        If it can't be opened.
    UnimplementedError
        If the library only reads such files, or can't write them as a whole.
    """
    with as_os_error(name, store):
        filesystem, path = _place(name, store)
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

    def __init__(self, name: bytes, store: RemoteStore | None) -> None:
        self.place = name, store
        self._filesystem, self._path = _place(name, store)
        self._whole: bytes | None = None
        # Counted by a call that threads can't divide; several: answers to them may be of several contents.
        self._requests = itertools.count()
        self._several = False
        # Files that fsspec reads through others are not for several threads, and each would fetch them.
        self._turn: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if b"::" in name:
            self._turn = _turns.setdefault(name, threading.Lock())
        self._objects, self._etag = objects_of(self._filesystem, self._path), ""
        self._plain = plain_file(self._filesystem, self._path) if b"::" not in name else None
        wanted = _looked_at.get() if store is None or store.cache is None else store.cache
        cache = cache_of(*wanted) if wanted is not None else None
        self._cached: CachedFile | None = None
        if cache is not None and cache.offline:
            self._cached = cache.newest(name)
            self.size, self._stamp = self._cached.size, self._cached.stamp
        else:
            self.size, self._stamp = self._measured()
            # In a chain, what says that a file is the same needn't be what has its bytes.
            if cache is not None and self._whole is None and self._has_marks and b"::" not in name:
                self._cached = cache.file(name, self.size, self._stamp)
        itself = weakref.proxy(self)  # no circle: bytes read ahead go at once when the file is closed
        self.ahead = AheadReader(
            self.size,
            lambda start, into, goes_on: itself._bytes(start, into, goes_on),
            lambda error: itself._failed(error),
        )
        if self._plain is not None:
            self.ahead.set_single(self._plain.streams)

    def _info(self) -> dict[str, Any]:
        if self._objects is not None:
            try:
                objects, key = self._objects
                info = objects.info(key)
                if info["ETag"]:
                    return info
            except Exception:  # fsspec knows why, or a way
                pass
            self._objects = None
        self._filesystem.invalidate_cache(self._path)  # a listing may be older than the object
        return _tried(lambda: self._filesystem.info(self._path))

    def _measured(self) -> tuple[int, int]:
        with self._turn:
            info = self._info()
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        size = info.get("size")
        if size is None:  # the server doesn't say: it is read at once
            size = len(_tried(self._read_whole))
        if not self._etag:  # ranges are of what was there first, or are refused
            etag = str(info.get("ETag") or "")
            self._etag = "" if etag == '""' else etag  # some servers have that for every file
        marks = [str(info[key]) for key in _MARKS if key in info]
        self._has_marks = bool(marks)
        digest = hashlib.blake2b("\0".join(marks).encode(), digest_size=8).digest()
        return int(size), int.from_bytes(digest, "little") >> 4  # as a time in nanoseconds, one that each disk can keep

    def look(self) -> tuple[int, int]:
        """Return the size, and a number that changes with the content."""
        try:
            fresh = {} if self._cached is None else self._cached.fresh()
            if self._objects is not None and self._etag:  # all answers are of one content
                if self._cached is not None:
                    self._cached.confirm(fresh, self._stamp)
            elif self._several or fresh:  # one answer is of one content
                self.size, self._stamp = self._measured()
                if self._cached is not None:
                    self._cached.confirm(fresh, self._stamp)
            return self.size, self._stamp
        except BaseException as error:
            _note(*self.place, error)
            raise

    def _failed(self, error: BaseException) -> BaseException:
        _note(*self.place, error)
        if not isinstance(error, Exception) or not self._is_replaced():
            return error
        replaced = OSError(errno.ESTALE, "another file is in its place by now")
        replaced.__cause__ = error
        return replaced

    def _is_replaced(self) -> bool:
        """Return whether it has another size or content than when it was opened, as far as the store tells."""
        if self._cached is not None and self._cached.offline:
            return False
        try:
            return self._measured() != (self.size, self._stamp)
        except Exception:  # noqa: BLE001 - the error of the read is told
            return False

    def local(self) -> int:
        """Return a descriptor of a local file with the same bytes and the same number as time; -1: there is none."""
        return -1 if self._cached is None else self._cached.local()

    def _bytes(self, start: int, into: memoryview, goes_on: bool) -> Buffer | None:
        end = start + len(into)
        if self._cached is not None:
            return self._cached.read(start, end, self._fetched)
        if self._plain is not None:
            self.ahead.set_single(self._plain.streams)
        return self._requested(start, end, into, self.size if goes_on else None)

    def _fetched(self, start: int, end: int) -> bytes | memoryview:
        room = memoryview(bytearray(end - start))
        data = self._requested(start, end, room)
        return room if data is None else data

    def _requested(self, start: int, end: int, into: memoryview, until: int | None = None) -> bytes | memoryview | None:
        # None: the bytes are where they should be. The next ones will be wanted up to `until`.
        if next(self._requests) > 0:
            self._several = True
        if self._plain is not None and self._plain.readinto(start, into, self._etag, until):
            return None
        data: bytes | memoryview = _tried(lambda: self._range(start, end))
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

    def _read_whole(self) -> bytes:
        with self._turn:
            if self._whole is None:
                self._whole = bytes(self._filesystem.cat_file(self._path))
            return self._whole

    def _range(self, offset: int, end: int) -> Any:
        data = self._of_objects(offset, end)
        if data is not None:
            pass
        elif self._whole is not None:
            data = self._whole
        elif self.size <= _MOST_WHOLE and _is_archive(self._filesystem):  # a range would be looked for from its start
            data = self._read_whole()
        else:
            with self._turn:
                data = self._filesystem.cat_file(self._path, start=offset, end=end)
        if len(data) == self.size > end - offset:
            if self.size <= _MOST_WHOLE:  # the server ignores ranges: it isn't asked for the same bytes again
                self._whole = data
            data = data[offset:end]
        if len(data) != end - offset:
            raise ConnectionError(f"{len(data)} bytes came instead of {end - offset}")
        return data


class RemoteReader(io.RawIOBase):
    """A remote file, as Python reads files. Its reads raise `OSError`."""

    def __init__(self, file: _File) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, into: Buffer, /) -> int:
        """Fill a buffer, and return how many bytes there were: fewer than it has room for only at the end."""
        with as_os_error(*self._file.place):
            nbytes = self._file.ahead.readinto(memoryview(into).cast("B"), self._at)
        self._at += nbytes
        return nbytes

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place. Raises `OSError`."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (self.look()[0] if begin is None else begin)
        return self._at

    def beginning(self, nbytes: int) -> bytes:
        """Return the first bytes, so many if there are as many. Raises `OSError`."""
        data = bytearray(min(nbytes, self._file.size))
        with as_os_error(*self._file.place):
            return bytes(data[: self._file.ahead.readinto(data, 0)])

    def look(self) -> tuple[int, int]:
        """Return the size in bytes, and a number that changes with the content, as they are now. Raises `OSError`."""
        with as_os_error(*self._file.place):
            return self._file.look()


def _is_archive(filesystem: Any) -> bool:
    from fsspec.archive import AbstractArchiveFileSystem

    return isinstance(filesystem, AbstractArchiveFileSystem)


def _opened_by(name: bytes, number: int) -> _File:
    store = _stores.get(number)
    if store is None and number:
        raise OSError(errno.ECANCELED, "nobody waits for it any more")
    return _opened(name, store)


def _opened(name: bytes, store: RemoteStore | None) -> _File:
    try:
        file = _File(name, store)
    except BaseException as error:
        _note(name, store, error)
        raise
    _failures.pop(_key(name, store), None)
    return file


def _note(name: bytes, store: RemoteStore | None, error: BaseException) -> None:
    while len(_failures) >= _MOST_FAILURES:
        _failures.pop(next(iter(_failures)), None)
    _failures[_key(name, store)] = without_secrets(error, name, store)


def _key(name: bytes, store: RemoteStore | None) -> tuple[bytes, int]:
    return name, 0 if store is None else store.number


def without_secrets(error: BaseException, name: bytes, store: RemoteStore | None) -> BaseException:
    """Return an error of a library; instead of one that shows a secret where it is printed, one of ours."""
    secrets = _secrets_in(name, store)
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, QueueCoreError) or all(_masked(text, secrets) == text for text in map(str, causes)):
        return error
    number, error = _errno_of(error), _origin(error)
    # The words are those that `reason_of` has for the error itself: other runs may meet it without the secret.
    said = getattr(error, "strerror", None)
    before = "" if said else f"{type(error).__name__}: "
    return os_error(number, before, reason=_masked(said or str(error), secrets), path=name)


def _masked(text: str, secrets: dict[str, str]) -> str:
    text = _URL.sub(lambda match: shown_name(match[0]), text)
    for secret, shown in secrets.items():
        text = text.replace(secret, shown)
    return text


def _secrets_in(name: bytes, store: RemoteStore | None) -> dict[str, str]:
    """Return what must not be shown of a URL and of the options of a store, and what is shown in its place."""
    url = os.fsdecode(name)
    secrets = {}
    for part, shown in zip(url.split("::"), shown_name(name).split("::"), strict=False):
        if part != shown:
            secrets[part.partition("://")[2]] = shown.partition("://")[2]
            host, _, query = part.partition("://")[2].partition("?")
            user = host.partition("/")[0].rpartition("@")[0]
            values = [user, user.partition(":")[2], *(word.partition("=")[2] for word in query.split("&"))]
            secrets.update((value, "...") for value in values if len(value) >= _LEAST_SECRET)
    given: list[tuple[str, Any]] = [] if store is None or store.options is None else list(store.options.items())
    for key, value in given:
        if isinstance(value, dict):
            given.extend(value.items())
        elif isinstance(value, str) and len(value) >= _LEAST_SECRET and _SECRET.search(key):
            secrets[value] = "..."
    return secrets


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
    start_thread(f"qc-remote-{number}", serve, idle)


_numbers = itertools.count()


def _forked() -> None:
    global _numbers
    _numbers = itertools.count()
    _turns.clear()  # the parent's threads may have had them


os.register_at_fork(after_in_child=_forked)
