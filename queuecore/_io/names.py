"""Names of files, as users give them: one, several, or patterns."""

from __future__ import annotations

import glob
import os
import re
import sys
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from queuecore._core.io.names import FileList
from queuecore._io import remote
from queuecore._runners.threads import start_thread
from queuecore.errors import (
    DtypeError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    shown_name,
)

if TYPE_CHECKING:
    from queuecore._core.stream.stream import Stream

__all__ = [
    "Filename",
    "expand_filenames",
    "expand_patterns",
    "file_list",
    "file_to_write",
    "local_file_to_write",
    "local_name",
    "local_text",
    "matches",
    "name_to_read",
]

_STAGE = "open"
_FOLDERS_AT_A_TIME = 64

Filename = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# One slash is enough: of two, `pathlib` keeps one. One letter is no scheme, but a drive. In front of it are the schemes
# that fsspec reads it through, as in simplecache::s3://bucket/x.
_SCHEME = re.compile(rb"((?:[A-Za-z][A-Za-z0-9+.-]+::)*)([A-Za-z][A-Za-z0-9+.-]+):/")
# A slash of two that is missing, in any part of a chain.
_ONE_SLASH = re.compile(rb"(^|::)((?!file:)[A-Za-z][A-Za-z0-9+.-]+:/)(?!/)", re.IGNORECASE)


def local_name(name: bytes) -> bytes:
    """Return the path of the local file that a name means.

    ``~`` at its beginning is a home folder, as in a shell. ``file:`` goes, with an empty host or ``localhost``, and
    ``%20`` becomes the byte that it stands for (RFC 8089). A scheme that is itself a folder's name here is none.

    Raises
    ------
    UnimplementedError
        If it has another scheme, such as ``s3:``.
    InvalidArgumentError
        If it names a file of another machine.
    """
    if name.startswith(b"~"):
        return os.path.expanduser(name)
    scheme = _SCHEME.match(name)
    if scheme is None:
        return name
    first = name.partition(b":")[0] + b":"
    if os.path.lexists(first):
        return b"./" + name if remote.is_url(name) else name
    label = repr(os.fsdecode(name))
    if first.lower() != b"file:":
        raise UnimplementedError(
            f"{label}: only a local file will do here, and '{os.fsdecode(first)}' is none. Use a disk of this machine, "
            "or mount where it lies: see docs/data-sources.md",
            path=name,
            stage=_STAGE,
        )
    path = name[scheme.end() - 1 :]
    if path.startswith(b"//"):
        host, slash, rest = path[2:].partition(b"/")
        if host.lower() not in (b"", b"localhost"):
            raise InvalidArgumentError(
                f"{label} names a file of the machine {os.fsdecode(host)!r}. A local one is file:///PATH, with three "
                "slashes, or PATH alone",
                path=name,
                stage=_STAGE,
            )
        path = slash + rest
    return urllib.parse.unquote_to_bytes(path)


def name_to_read(name: bytes) -> bytes:
    """As `local_name`, but the URL of a file elsewhere stays, with two slashes, and may be read from now on."""
    path = _local_or_url(name)
    if remote.is_url(path):
        remote.ready()
    return path


def _local_or_url(name: bytes) -> bytes:
    first = name.partition(b":")[0] + b":"
    if _SCHEME.match(name) is None or first.lower() == b"file:" or os.path.lexists(first):
        return local_name(name)
    url = _ONE_SLASH.sub(rb"\1\2/", name)
    remote.check(url)
    return url


def local_text(name: Any) -> str:
    """As `local_name`, of any path, as a string. A `TypeError`: it is none."""
    return os.fsdecode(local_name(os.fsencode(name)))


def matches(
    pattern: bytes, *, hidden: bool = False, recursive: bool = False, store: remote.RemoteStore | None = None
) -> list[bytes]:
    """Return the names of files that match a pattern, in no order; given again, each means the same file.

    Parameters
    ----------
    pattern : bytes
        As `name_to_read` takes it.
    hidden : bool, default False
        Whether ``*`` and ``?`` match a dot at the beginning too.
    recursive : bool, default False
        Whether ``**`` goes through all folders below.
    store : RemoteStore, optional
        By what a URL is opened.
    """
    path = name_to_read(pattern)
    if remote.is_url(path):
        return remote.listed(path, store)
    found = _local_matches(path, hidden, recursive)
    return [b"./" + name if name.startswith(b"~") else name for name in found]


def _local_matches(path: bytes, hidden: bool, recursive: bool) -> list[bytes]:
    """As `glob.glob`, but folders that match a part of the pattern are read many at a time: a far disk takes long."""
    folder, last = os.path.split(path)
    folders: list[bytes] = []
    if last and glob.has_magic(folder) and not (recursive and b"**" in path):
        folders = _local_matches(folder, hidden, recursive)
    if len(folders) < 2:
        return glob.glob(path, include_hidden=hidden, recursive=recursive)
    with ThreadPoolExecutor(min(len(folders), _FOLDERS_AT_A_TIME), "qc-list") as threads:
        parts = threads.map(lambda one: glob.glob(os.path.join(glob.escape(one), last), include_hidden=hidden), folders)
        return [name for part in parts for name in part]


def _encode(name: Any, local: Callable[[bytes], bytes] = name_to_read) -> bytes:
    try:
        path = local(os.fsencode(name))
    except TypeError:
        raise DtypeError(f"a file name must be str, bytes or os.PathLike, not {name!r}") from None
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"a file name must be str, bytes or os.PathLike, not {name!r}") from None
    if not path:
        raise InvalidArgumentError("a file name is empty")
    if b"\0" in path:
        raise InvalidArgumentError(f"the file name {name!r} has a NUL in it")
    return path


def file_to_write(name: Filename) -> bytes:
    """Return the name of a file that is written, as the operating system's bytes, or a URL; it is no pattern."""
    return _encode(name, _local_or_url)


def local_file_to_write(name: Filename) -> bytes:
    """As `file_to_write`, of what must be a local file."""
    return _encode(name, local_name)


def expand_filenames(filenames: Filename | Iterable[Filename], store: remote.RemoteStore | None) -> list[bytes]:
    """Return the names as the operating system's bytes; a single name may be a glob pattern, a sequence empty."""
    if isinstance(filenames, str | bytes | os.PathLike):
        path = _encode(filenames)
        is_url = remote.is_url(path)  # a "?" begins the query of one
        if not (b"*" in path if is_url else glob.has_magic(path)) or os.path.lexists(path):
            return [path]
        # Sorted by bytes: the order must depend neither on the locale nor on the directory's own order.
        found = remote.listed(path, store) if is_url else sorted(_local_matches(path, hidden=False, recursive=False))
        if not found:
            raise InvalidArgumentError(f"no file matches the pattern {os.fsdecode(path)!r}", path=path, stage=_STAGE)
        return found
    if isinstance(filenames, set | frozenset):
        raise InvalidArgumentError("filenames must be in an order; a set has none")
    return _encoded(filenames, "filenames")


def file_list(filenames: Filename | Iterable[Filename], store: remote.RemoteStore | None) -> FileList:
    """Return the files that `expand_filenames` finds, in its order; later folders of a pattern may still be listed."""
    path = _encode(filenames) if isinstance(filenames, str | bytes | os.PathLike) else b""
    folder, last = os.path.split(path)
    folders: list[bytes] = []
    if last and glob.has_magic(folder) and not remote.is_url(path) and not os.path.lexists(path):
        folders = _local_matches(folder, hidden=False, recursive=False)
    if not folders:
        return FileList(expand_filenames(filenames, store), store)
    listing = Listing(folders, last)
    files = FileList([], store, rest=listing)
    listing.start(files)
    files.at_least(1)
    if files.known == 0:
        raise InvalidArgumentError(f"no file matches the pattern {os.fsdecode(path)!r}", path=path, stage=_STAGE)
    return files


class Listing:
    """Folders that threads list, many at a time; their names are added to a `FileList` in the order of all names.

    Parameters
    ----------
    folders : list of bytes
        At one depth.
    last : bytes
        The pattern of the names in them.
    """

    def __init__(self, folders: list[bytes], last: bytes) -> None:
        # With a slash behind them: "a.b/x" comes before "a/x".
        self._folders = sorted(folders, key=lambda folder: os.path.join(folder, b""))
        self._last = last
        self._claimed = 0  # folders that a thread lists, or has listed
        self._parts: dict[int, list[bytes]] = {}  # by folder: what isn't added yet
        self._streams: list[weakref.ref[Stream]] = []
        self._changed = threading.Condition()
        self._pid = os.getpid()  # of the process that has the threads; 0: there are none

    def start(self, files: FileList) -> None:
        """Begin to list. The threads end by themselves, and hold up nothing: a far disk may take for ever."""
        for number in range(min(len(self._folders), _FOLDERS_AT_A_TIME)):
            try:
                start_thread("qc-list", self._work, files)
            except (ResourceExhaustedError, UnavailableError):  # there may be no more threads
                if number == 0:
                    self._pid = 0
                break

    def _names_in(self, part: int) -> list[bytes]:
        return sorted(glob.glob(os.path.join(glob.escape(self._folders[part]), self._last)))

    def _work(self, files: FileList) -> None:
        while True:
            with self._changed:
                part = self._claimed
                if part == len(self._folders):
                    return
                self._claimed += 1
            while True:
                try:
                    names = self._names_in(part)
                    with self._changed:
                        if part >= files.parts:  # else it was added before the memory was short
                            self._parts[part] = names
                        self._add(files)
                        self._changed.notify_all()
                    break
                except MemoryError:  # somebody may wait for these names
                    time.sleep(0.01)

    def _add(self, files: FileList) -> None:
        while (part := files.parts) in self._parts:
            files.add(part, self._parts[part], part + 1 == len(self._folders))
            del self._parts[part]
        for reference in self._streams:
            stream = reference()
            if stream is not None:
                stream.extend()
        if files.whole:
            self._streams.clear()

    def wait(self, files: FileList, count: int) -> None:
        """Wait until so many names are known, or all."""
        if self._pid != os.getpid():  # a forked child has none of the threads, and may have their lock
            self._changed = threading.Condition()
            while not files.whole and files.known < count:
                part = files.parts
                files.add(part, self._parts.get(part) or self._names_in(part), part + 1 == len(self._folders))
            return
        with self._changed:
            while not files.whole and files.known < count:
                self._changed.wait()

    def follow(self, files: FileList, stream: Stream) -> None:
        """Let a stream know of each name from now on."""
        if self._pid != os.getpid():
            self.wait(files, sys.maxsize)
        with self._changed:
            if not files.whole:
                self._streams.append(weakref.ref(stream))
        stream.extend()  # by the names that were added before, which may be the last ones


def _encoded(names: Iterable[Filename], what: str) -> list[bytes]:
    try:
        given = list(names)
    except TypeError:
        raise InvalidArgumentError(f"{what} must be one or a sequence of them, not {names!r}") from None
    return [_encode(name) for name in given]


def expand_patterns(patterns: Filename | Iterable[Filename], store: remote.RemoteStore | None = None) -> list[bytes]:
    """Return the names that match, as the operating system's bytes, sorted by them over all patterns.

    Of a pattern or several, as ``Dataset.list_files`` takes them: ``*`` and ``?`` match a dot at the beginning too, and
    never a slash, ``**`` is no other than ``*``. So no folder is gone through but those that a pattern has between its
    slashes, and a link that leads back up ends nowhere else. A name that matches twice is there twice. A pattern
    without any match is an `InvalidArgumentError` if that leaves no name at all, as in TensorFlow.
    """
    names = [_encode(patterns)] if isinstance(patterns, str | bytes | os.PathLike) else _encoded(patterns, "patterns")
    if not names:
        raise InvalidArgumentError("patterns is empty: a dataset needs at least one file")
    found = sorted(match for name in names for match in matches(name, hidden=True, store=store))
    if not found:
        shown = ", ".join(repr(shown_name(name)) for name in names)
        raise InvalidArgumentError(f"No files matched pattern: {shown}", path=names[0], stage=_STAGE)
    return found
