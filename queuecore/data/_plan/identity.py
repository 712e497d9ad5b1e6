"""The files that a place belongs to: their stamps in a state, and the comparison with the files at hand."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from queuecore._core.io.names import FileList
from queuecore._core.stream.stream import Stream
from queuecore._io import remote
from queuecore.data._plan.chain import Chain
from queuecore.errors import QueueCoreError, ResumeMismatchError, SourceChangedError, os_error, shown_name

__all__ = ["Identity", "Stamps", "ends_of"]

_STAGE = "resume"
# With this many digests a state stays small, and says exactly, or among more files about, which file differs.
_MOST_GROUPS = 64
_PIECE = 1 << 20
# How many remote files are looked at at a time.
_REQUESTS = 16

Group = Callable[[int, int], str]


class _Named(NamedTuple):
    """A file by its name, and by what it is opened if that is a URL."""

    path: bytes
    store: remote.RemoteStore | None


def _named(files: FileList, count: int) -> list[_Named]:
    return [_Named(files[index], files.store) for index in range(count)]


class Stamps(NamedTuple):
    """The stamps of files in a state.

    Attributes
    ----------
    by : {"stat", "content"}
        The compared property: sizes and times, or bytes.
    files : int
        Number of files, counted from the first one.
    groups : list of str
        A digest of each group of `ends_of`.
    """

    by: str
    files: int
    groups: list[str]


def ends_of(files: int) -> list[int]:
    """Return where the groups of so many files end, the last one with the last file."""
    groups = min(files, _MOST_GROUPS)
    return [files * group // groups for group in range(1, groups + 1)]


class Identity:
    """Identifies the files of a dataset, for one iterator.

    For files that the iterator reads itself, the leading files on which its place depends count, as they were
    when it opened them. For a dataset made of others, all files of these count, as they were when their stamps
    were first asked for.

    Parameters
    ----------
    chain : Chain
        The iterator's chain.
    by : {"stat", "content"}
        The property that this iterator's states compare.
    """

    def __init__(self, chain: Chain, by: str) -> None:
        self._by = by
        self._files = chain.source.files
        self._fed = chain if chain.source.fed else None
        self._options = chain.options
        self._inputs: list[_Named] | None = None
        self._seen: Stamps | None = None
        # By name: size and time of a file, and the digest of what it had then.
        self._contents: dict[bytes, tuple[int, int, bytes]] = {}

    def stamps(self, stream: Stream, count: int) -> Stamps | None:
        """Return the stamps of the first `count` files of a stream for a state; `None` if `count` is 0.

        Raises
        ------
        SourceChangedError
            If the bytes that were read can't be read again.
        OSError
            If a file can't be read.
        """
        if self._fed is not None:
            if self._seen is None:
                self._seen = self._of_inputs(self._by)
            return self._seen if self._seen.files else None
        if not count:
            return None
        if self._by == "stat":
            return Stamps("stat", count, [_hex(one) for one in stream.digests(ends_of(count))])
        sizes = stream.sizes(count)
        return self._grouped(count, lambda first, end: _digest(self._bytes_of(i, *sizes[i]) for i in range(first, end)))

    def check(self, saved_stamps: Stamps, digests: Sequence[int]) -> None:
        """Compare the files at hand with those of a state; `digests`: of sizes and times, up to each of the first ones.

        Raises
        ------
        ResumeMismatchError
            If one is another; the message names the first one.
        """
        if self._fed is not None:
            now = self._of_inputs(saved_stamps.by)
            if now.files == saved_stamps.files:
                self._compare(saved_stamps, now.groups, self._below())
                self._seen = now if saved_stamps.by == self._by else None
            return
        files = _named(self._files, saved_stamps.files)
        if saved_stamps.by == "stat":
            self._compare(saved_stamps, [_hex(digests[end - 1]) for end in ends_of(saved_stamps.files)], files)
        else:
            self._compare(saved_stamps, self._grouped(saved_stamps.files, self._contents_of(files)).groups, files)

    def _grouped(self, files: int, group: Group) -> Stamps:
        ends = ends_of(files)
        return Stamps("content", files, [group(first, end) for first, end in zip([0, *ends], ends, strict=False)])

    def _below(self) -> list[_Named]:
        if self._inputs is None:
            lists = [] if self._fed is None else self._fed.file_lists()
            self._inputs = [file for files in lists for file in _named(files, len(files))]
        return self._inputs

    def _of_inputs(self, by: str) -> Stamps:
        files = self._below()
        if by == "content":
            return self._grouped(len(files), self._contents_of(files))
        stamps = self._stamps_of(files)
        return self._grouped(len(files), lambda first, end: _digest(stamps[first:end]))._replace(by=by)

    def _stamps_of(self, files: list[_Named]) -> list[bytes]:
        if not any(remote.is_url(file.path) for file in files):
            return list(map(self._stamp, files))
        with ThreadPoolExecutor(_REQUESTS, "queuecore-stamps") as threads:
            return list(threads.map(self._stamp, files))

    def _stamp(self, file: _Named) -> bytes:
        try:
            return struct.pack("<qq", *self._look(file))
        except OSError:
            return b""

    def _look(self, file: _Named) -> tuple[int, int]:
        if remote.is_url(file.path):
            with remote.looked_at(self._options):
                return remote.look(file.path, file.store)
        info = os.stat(file.path)
        return info.st_size, info.st_mtime_ns

    def _contents_of(self, files: list[_Named]) -> Group:
        def one(file: _Named) -> bytes:
            try:
                return self._content(file, *self._look(file))
            except OSError:
                return b""

        return lambda first, end: _digest(map(one, files[first:end]))

    def _bytes_of(self, index: int, size: int, time: int) -> bytes:
        return b"" if size < 0 else self._content(_Named(self._files[index], self._files.store), size, time)

    def _content(self, file: _Named, size: int, time: int) -> bytes:
        """Return the digest of the bytes that a file had at this size and time."""
        known = self._contents.get(file.path)
        if known is None or known[:2] != (size, time):
            with remote.looked_at(self._options):
                known = self._contents[file.path] = size, time, _content(file, size, time)
        return known[2]

    def _is_missing(self, file: _Named) -> bool:
        return not self._stamp(file) if remote.is_url(file.path) else not os.path.lexists(file.path)

    def _compare(self, saved_stamps: Stamps, now: list[str], files: list[_Named]) -> None:
        ends = ends_of(saved_stamps.files)
        for first, end, old, new in zip([0, *ends], ends, saved_stamps.groups, now, strict=False):
            # Of inputs one that is missing may not be needed any more, where there is a cache; and else says so itself.
            if old == new or (self._fed is not None and any(map(self._is_missing, files[first:end]))):
                continue
            name = repr(shown_name(files[first].path))
            if end - first > 1:
                name = f"one of the files {first} to {end - 1}, {name} to {shown_name(files[end - 1].path)!r},"
            raise ResumeMismatchError(
                f"{name} is not the file of the saved state: its size or its modification time differs. Put that file "
                'back as it was; or save states with Options(identity="content"), which let copies with the same bytes '
                "go on"
                if saved_stamps.by == "stat"
                else f"{name} is not the file of the saved state: its bytes differ. Put that file back, or begin anew",
                path=files[first].path if end - first == 1 else None,
                stage=_STAGE,
            )


def _hex(number: int) -> str:
    return f"{number & (2**64 - 1):016x}"


def _digest(parts: Any) -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for part in parts:
        hasher.update(struct.pack("<q", len(part)))
        hasher.update(part)
    return hasher.hexdigest()


def _content(file: _Named, size: int, time: int) -> bytes:
    hasher = hashlib.blake2b(struct.pack("<q", size), digest_size=16)
    remainder, changed = size, False
    buffer = memoryview(bytearray(min(_PIECE, size + 1)))
    try:
        with _opened(file) as (raw, look):
            while remainder and (got := raw.readinto(buffer[: min(remainder, _PIECE)])):
                hasher.update(buffer[:got])
                remainder -= got
            size_now, time_now = look()
        appended = size_now > size and not remote.is_url(file.path)  # an object is never appended to, but replaced
        changed = remainder > 0 or size_now < size or (time_now != time and not appended)
    except QueueCoreError:
        raise
    except OSError as error:
        changed = error.errno == errno.ESTALE
        if not changed:
            name = os.fsdecode(file.path)
            raise os_error(
                error.errno or 0,
                f'cannot read {name!r}, whose bytes Options(identity="content") puts into the state: ',
                reason=error.strerror,
                path=file.path,
                stage=_STAGE,
            ) from error.__cause__
    if changed:
        raise SourceChangedError(
            f"{os.fsdecode(file.path)!r} has changed since it was opened, so that no state can say which bytes were "
            "read. Don't write to input files while they are read",
            path=file.path,
            stage=_STAGE,
        )
    return hasher.digest()


@contextlib.contextmanager
def _opened(file: _Named) -> Iterator[tuple[Any, Callable[[], tuple[int, int]]]]:
    """Open a file, and a function that returns its size and time as they are now."""
    if remote.is_url(file.path):
        reader = remote.opened(file.path, file.store)
        yield reader, reader.look
        return
    with open(file.path, "rb", buffering=0) as raw:

        def look() -> tuple[int, int]:
            info = os.fstat(raw.fileno())
            return info.st_size, info.st_mtime_ns

        yield raw, look
