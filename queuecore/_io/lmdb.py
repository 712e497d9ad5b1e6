"""LMDB databases as the work units of a reader. Their pages are read as a file's, and no number in them is trusted."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from queuecore._core.atoms.errors import os_reason
from queuecore.errors import (
    DataLossError,
    FailedPreconditionError,
    ForkedPipelineError,
    InvalidArgumentError,
    QueueCoreError,
    SourceChangedError,
    TruncatedRecordError,
    UnavailableError,
    os_error,
)

__all__ = ["LmdbRecords"]

# The format has the byte order of the machine that wrote it; all that we run on have this one.
_META = struct.Struct("<II16xI44x48sQQ")  # magic, version, page size, main database, last page, transaction
_DATABASE = struct.Struct("<IHH32xQ")  # size of each item (LEAF2), flags, depth, first page
_NODE = struct.Struct("<IHH")  # size of the value, flags, size of the key
_CHILD = struct.Struct("<IHxx")  # number of a page: its low and its high bits
_NUMBER = struct.Struct("<Q")

_MAGIC = 0xBEEFC0DE
_BRANCH, _LEAF, _OVERFLOW, _IS_META, _LEAF2, _SUBPAGE = 1, 2, 4, 8, 0x20, 0x40
_KINDS = _BRANCH | _LEAF | _OVERFLOW | _IS_META | _LEAF2 | _SUBPAGE
_BIG, _TREE, _DUPLICATES = 1, 2, 4  # flags of a node: its value is in pages of its own, is a tree, or holds many values
_DUPSORT = 4  # a flag of a database: keys may have many values
_NO_PAGE = (1 << 64) - 1
_MOST_DEPTH = 32  # LMDB's own cursors go no deeper


class _Layout(NamedTuple):
    """The places of things on the pages of one version of the format."""

    version: int
    page: struct.Struct  # number, size of each item (LEAF2), flags, end of the list of nodes, begin of the nodes
    base: int  # what places of nodes, and that end, are counted from
    odd: int  # 1 if a value begins at an even place
    place: struct.Struct  # a node's bytes for a value in pages of its own


_LAYOUTS = (
    _Layout(1, struct.Struct("<QHHHH"), 0, 0, struct.Struct("<Q")),  # LMDB 0.9
    _Layout(3, struct.Struct("<Q8xHHHH"), 24, 1, struct.Struct("<Q16x")),  # LMDB 1.0
)


class LmdbRecords:
    """The records of an LMDB, by the calls of `NativeReader`, with the GIL."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._owner = 0
        self._database: _Database | None = None
        self._failure: QueueCoreError | None = None
        self.produced = 0
        self.completed = 0

    def read(self, next_name: Callable[[], bytes]) -> tuple[bytes, bytes]:
        """Return the next record; ``next_name()`` returns the name of the next work unit, or raises."""
        with self._entered():
            return self._next(next_name, 1)[0]

    def read_up_to(
        self, next_name: Callable[[], bytes], n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the next records of one work unit: the bytes of all keys, where each ends, and the same of values."""
        with self._entered():
            records = self._next(next_name, n)
        return (*_joined([key for key, _ in records]), *_joined([value for _, value in records]))

    def state(self) -> tuple[int, int, bytes]:
        """Return the completed units, the records produced, and an empty name: there is no place to go back to."""
        return self.completed, self.produced, b""

    def reset(self, completed: int = 0, produced: int = 0, last: bytes = b"") -> None:
        """Forget the work unit in progress, and count from these numbers on."""
        del last
        with self._entered():
            self._failure = None
            self._close()
            self.completed, self.produced = completed, produced

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        # Python's lock reacts to Ctrl-C while it waits.
        if self._pid != os.getpid():
            raise ForkedPipelineError("this reader was made before os.fork(). Make one in the child")
        if self._owner == threading.get_ident():
            raise FailedPreconditionError("a reader's work reads from that reader itself")
        with self._lock:
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = 0

    def _next(self, next_name: Callable[[], bytes], n: int) -> list[tuple[bytes, bytes]]:
        if self._failure is not None:
            error, self._failure = self._failure, None
            raise error
        while not (records := self._of_this_unit(n)):
            self._database = _Database(next_name())
        return records

    def _of_this_unit(self, n: int) -> list[tuple[bytes, bytes]]:
        """Return up to `n` records of the work unit in progress, and none after its last one."""
        records: list[tuple[bytes, bytes]] = []
        database = self._database
        if database is None:
            return records
        try:
            for record in itertools.islice(database.records, n):
                records.append(record)  # noqa: PERF402 - what came before an error is kept
        except QueueCoreError as error:
            self._close()
            if not records:
                raise
            self._failure = error  # raised by the next call: records before it are returned first
        except BaseException:
            database.go_back()  # Ctrl-C: nobody has got these records
            raise
        else:
            if len(records) < n:
                self._close()
                self.completed += 1
        database.delivered += len(records)
        self.produced += len(records)
        return records

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _joined(parts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    splits = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=splits[1:])
    return np.frombuffer(b"".join(parts), np.uint8), splits


class _Database:
    """The unnamed database of one environment, as it was when it was opened.

    Nothing is locked, as in TensorFlow, so that read-only folders do. A writer that knows of no reader keeps the pages
    of ours for two transactions more, and writes to them in the third. So a page is sound if none was committed until
    it was copied.
    """

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._fd = -1
        self._size = self._mtime_ns = 0
        self._page_size = self._pages = self._flags = 0
        self._root = _NO_PAGE
        self._layout = _LAYOUTS[0]
        self._transactions: tuple[int, ...] = ()
        self._pages_left = 0
        self._index = 0
        self.delivered = 0
        self.records: Iterator[tuple[bytes, bytes]] = iter(())
        if not name or b"\0" in name:
            raise InvalidArgumentError(
                f"{os.fsdecode(name)!r} can't be the name of a file: it is empty, or has a zero byte in it",
                path=name,
                stage="open",
            )
        try:
            self._begin()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, QueueCoreError):
                raise self._os_error(error.errno or 0) from error
            raise

    def _begin(self) -> None:
        folder = stat.S_ISDIR(os.stat(self._name).st_mode)
        data = os.path.join(self._name, b"data.mdb") if folder else self._name
        self._fd = os.open(data, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._fd)
        label = os.fsdecode(self._name)
        if stat.S_ISDIR(status.st_mode):
            raise self._os_error(errno.EISDIR)
        if not stat.S_ISREG(status.st_mode):
            raise UnavailableError(
                f"{label!r} is a pipe, socket or device, not a database", path=self._name, stage="open"
            )
        if status.st_size == 0:
            if os.pread(self._fd, 1, 0):
                raise UnavailableError(
                    f"{label!r} says that it has no bytes, and yet can be read (as files in /proc): it can't be a "
                    "database. Copy it to an ordinary file",
                    path=self._name,
                    stage="open",
                )
            return
        self._size = status.st_size
        self._read_metas()
        # Again: a transaction that was committed just before the meta pages were read may have made it longer.
        status = os.fstat(self._fd)
        self._size, self._mtime_ns = status.st_size, status.st_mtime_ns
        self.go_back()

    def _read_metas(self) -> None:
        """Take the state of the newest transaction. As for LMDB itself, both meta pages must be whole."""
        head = os.pread(self._fd, 64, 0)
        for layout in _LAYOUTS:
            if head[layout.page.size :].startswith(_MAGIC.to_bytes(4, "little")):
                self._layout = layout
            elif head[layout.page.size :].startswith(_MAGIC.to_bytes(4, "big")):
                raise self._damage(0, "was written by a machine of another byte order", "open")
        first = self._meta(0)
        page_size = first[2]
        if not 256 <= page_size <= 1 << 16 or page_size & (page_size - 1):
            raise self._damage(0, f"says that a page has {page_size} bytes", "open")
        self._page_size = page_size
        if self._size < page_size + self._layout.page.size + _META.size:
            raise self._cut(1, "open")
        second = self._meta(1)
        if second[2] != page_size:
            raise self._damage(1, f"says that a page has {second[2]} bytes, and the first one {page_size}", "open")
        self._transactions = first[5], second[5]
        _, _, _, main, last_page, _ = second if first[5] < second[5] else first
        _, self._flags, _, self._root = _DATABASE.unpack(main)
        self._pages = last_page + 1

    def _meta(self, number: int) -> tuple[int, int, int, bytes, int, int]:
        layout = self._layout
        page = os.pread(self._fd, layout.page.size + _META.size, number * self._page_size)
        if len(page) < layout.page.size + _META.size:
            raise self._damage(number, f"is too short for a meta page, with {len(page)} bytes", "open")
        meta: tuple[int, int, int, bytes, int, int] = _META.unpack_from(page, layout.page.size)
        if meta[0] != _MAGIC or not layout.page.unpack_from(page)[2] & _IS_META:
            raise self._damage(number, "is no meta page of LMDB", "open")
        if meta[1] != layout.version:
            raise self._damage(number, f"has version {meta[1]} of the format in the layout of {layout.version}", "open")
        return meta

    def go_back(self) -> None:
        """Go back to the record after the last one that was delivered."""
        self._index = 0
        self._pages_left = min(self._pages, self._size // self._page_size) - 2
        records = itertools.chain.from_iterable(self._walk())
        self.records = itertools.islice(records, self.delivered, None)

    def _walk(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield all records, as many at a time as one page has."""
        if self._root != _NO_PAGE:
            for number, page in self._leaves(self._root, _LEAF):
                for records in self._records_of(number, page):
                    self._index += len(records)
                    yield records
        self._check_end()

    def _records_of(self, number: int, page: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        records, special = self._nodes(number, page)
        begin = 0
        for place, flags, size in special:
            yield records[begin:place]
            begin = place + 1
            key, value = records[place]
            if flags & _BIG:
                yield [(key, self._big(self._layout.place.unpack(value)[0], size))]
            else:
                for values in self._values(number, value, flags):
                    yield [(key, one) for one in values]
        yield records[begin:] if begin else records

    def _leaves(self, root: int, *kinds: int) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the bytes of each page at the end of a tree, from its first key to its last one."""
        path = [iter([root])]
        while path:
            number = next(path[-1], None)
            if number is None:
                path.pop()
                continue
            page = self._read(number, self._page_size)
            kind = self._layout.page.unpack_from(page)[2] & _KINDS
            if kind in kinds:
                yield number, page
            elif kind != _BRANCH:
                raise self._damage(number, f"isn't of a kind that belongs there (flags {kind:#x})")
            elif len(path) == _MOST_DEPTH:
                raise self._damage(number, f"has {_MOST_DEPTH - 1} pages above it, and still isn't the last one")
            else:
                path.append(iter(self._children(number, page)))

    def _starts(self, number: int, page: bytes) -> list[int]:
        """Return where the nodes of a page begin."""
        layout, count = self._layout, self._count(number, page)
        if layout.page.size + 2 * count > len(page):
            raise self._damage(number, f"has {count} nodes in {len(page)} bytes")
        starts = list(struct.unpack_from(f"<{count}H", page, layout.page.size))
        if layout.base:
            starts = [start + layout.base for start in starts]
        if max(starts) + _NODE.size > len(page):
            raise self._damage(number, f"has a node at {max(starts)}, beyond its {len(page)} bytes")
        if min(starts) < layout.page.size + 2 * count:
            raise self._damage(number, f"has a node at {min(starts)}, in the list of its nodes")
        return starts

    def _count(self, number: int, page: bytes) -> int:
        layout = self._layout
        end = layout.page.unpack_from(page)[3] + layout.base
        if end <= layout.page.size or end & 1:
            raise self._damage(number, f"says that the list of its nodes ends at {end}")
        return int(end - layout.page.size) >> 1

    def _children(self, number: int, page: bytes) -> list[int]:
        nodes = [_CHILD.unpack_from(page, start) for start in self._starts(number, page)]
        return [low | high << 32 for low, high in nodes]

    def _nodes(self, number: int, page: bytes) -> tuple[list[tuple[bytes, bytes]], list[tuple[int, int, int]]]:
        """Return the key and the bytes of each node; place, flags and size of those whose bytes aren't the value."""
        starts = self._starts(number, page)
        end = len(page)
        room = end - self._layout.page.size - 2 * len(starts)
        odd, unpack = self._layout.odd, _NODE.unpack_from
        nodes: list[tuple[bytes, bytes]] = []
        special = []
        for start in starts:
            size, flags, key_size = unpack(page, start)
            key = start + 8
            end_of_key = key + key_size
            value = end_of_key + (end_of_key & odd)
            if flags & (_BIG | _DUPLICATES):
                special.append((len(nodes), flags, size))
                if flags & _BIG:
                    size = self._layout.place.size
            after = value + size
            # Nodes don't overlap: together they have no more bytes than the page.
            room -= after - start
            if after > end or room < 0:
                raise self._damage(number, f"has a node at {start} that reaches beyond its {end} bytes, or into others")
            nodes.append((page[key:end_of_key], page[value:after]))
        return nodes, special

    def _values(self, number: int, node: bytes, flags: int) -> Iterator[list[bytes]]:
        """Yield the values of a key that has many: they are a page in the page, or a tree of their own."""
        if not self._flags & _DUPSORT:
            raise self._damage(number, "has a key with many values, in a database without duplicates")
        if flags & _TREE:
            if len(node) != _DATABASE.size:
                raise self._damage(number, f"has a tree of values that is described by {len(node)} bytes")
            width, _, _, root = _DATABASE.unpack(node)
            for leaf, page in self._leaves(root, _LEAF, _LEAF | _LEAF2):
                yield self._keys(leaf, page, width)
        else:
            header = self._layout.page
            if len(node) < header.size or header.unpack_from(node)[2] & (_KINDS & ~_LEAF2) != _LEAF | _SUBPAGE:
                raise self._damage(number, f"has a node of {len(node)} bytes with many values that is no page")
            yield self._keys(number, node, header.unpack_from(node)[1])

    def _keys(self, number: int, page: bytes, width: int) -> list[bytes]:
        """Return the keys of a page of values; `width` is the size of each in pages whose items have one size."""
        header = self._layout.page
        if not header.unpack_from(page)[2] & _LEAF2:
            return [key for key, _ in self._nodes(number, page)[0]]
        end = header.size + self._count(number, page) * width  # which have no list of nodes, and yet its end
        if not width or end > len(page):
            raise self._damage(number, f"has values of {width} bytes up to {end}, beyond its {len(page)} bytes")
        return [page[start : start + width] for start in range(header.size, end, width)]

    def _big(self, first: int, size: int) -> bytes:
        """Return a value in pages of its own."""
        header = self._layout.page
        run = self._read(first, header.size + size)
        _, _, flags, low, high = header.unpack_from(run)
        pages = low | high << 16
        if flags & _KINDS != _OVERFLOW or pages * self._page_size < len(run):
            raise self._damage(first, f"can't begin a value of {size} bytes (flags {flags:#x}, {pages} pages)")
        return run[header.size :]

    def _read(self, number: int, size: int) -> bytes:
        """Return so many bytes from the beginning of a page on, which the tree may have nowhere else."""
        count = -(-size // self._page_size)
        if number < 2 or number + count > self._pages:
            raise self._damage(number, f"and {count - 1} after it can't be: the last one is {self._pages - 1}")
        if (number + count) * self._page_size > self._size:
            raise self._cut(number + count - 1, "read")
        self._pages_left -= count
        if self._pages_left < 0:
            raise self._damage(number, "comes after as many pages as there are: some come twice")
        page = self._bytes(number * self._page_size, size)
        self._check_unchanged()
        own = self._layout.page.unpack_from(page)[0]
        if own != number:
            raise self._damage(number, f"says that it is page {own}")
        return page

    def _bytes(self, offset: int, size: int) -> bytes:
        try:
            part = os.pread(self._fd, size, offset)
            while len(part) < size:  # the system reads no more than 2 GiB at a time
                more = os.pread(self._fd, size - len(part), offset + len(part))
                if not more:
                    raise self._changed("was shortened")
                part += more
        except OSError as error:
            if isinstance(error, QueueCoreError):
                raise
            raise os_error(
                error.errno,
                f"cannot read {os.fsdecode(self._name)!r} (record {self._index}): ",
                path=self._name,
                record=self._index,
                offset=offset,
                stage="read",
            ) from error
        return part

    def _check_unchanged(self) -> None:
        place = self._layout.page.size + _META.size - _NUMBER.size
        for page, transaction in enumerate(self._transactions):
            if _NUMBER.unpack(self._bytes(page * self._page_size + place, _NUMBER.size))[0] != transaction:
                raise self._changed("was written to")

    def _check_end(self) -> None:
        self._check_unchanged()
        status = os.fstat(self._fd)
        if status.st_size < min(self._size, self._pages * self._page_size):
            raise self._changed("was shortened")
        if status.st_size == self._size and status.st_mtime_ns != self._mtime_ns:
            raise self._changed("was written to")

    def close(self) -> None:
        """Release the database. A second call is no error."""
        self.records = iter(())
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def _changed(self, how: str) -> SourceChangedError:
        return SourceChangedError(
            f"{os.fsdecode(self._name)!r} {how} while it was being read (record {self._index})",
            path=self._name,
            record=self._index,
            stage="read",
        )

    def _cut(self, number: int, stage: str) -> TruncatedRecordError:
        end = (number + 1) * self._page_size
        return TruncatedRecordError(
            f"{os.fsdecode(self._name)!r} is cut (record {self._index}): page {number} ends at byte {end}, the file at "
            f"{self._size}",
            path=self._name,
            record=self._index,
            offset=number * self._page_size,
            stage=stage,
        )

    def _os_error(self, number: int) -> QueueCoreError:
        return os_error(
            number,
            f"cannot open {os.fsdecode(self._name)!r} as an LMDB environment: ",
            reason=os_reason(number),
            path=self._name,
            stage="open",
        )

    def _damage(self, number: int, what: str, stage: str = "read") -> DataLossError:
        return DataLossError(
            f"{os.fsdecode(self._name)!r} is damaged, or no LMDB environment (record {self._index}): page {number} at "
            f"byte {number * self._page_size} {what}",
            path=self._name,
            record=self._index,
            offset=number * self._page_size,
            stage=stage,
        )
