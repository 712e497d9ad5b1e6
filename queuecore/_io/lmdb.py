"""LMDB databases as the work units of a reader, through the `lmdb` package."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any

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
    UnimplementedError,
    os_error,
)

__all__ = ["LmdbRecords"]

# The package refuses to open a file twice in one process, so readers of the same one share it: by device and inode,
# the environment and how many databases use it.
_open: dict[tuple[int, int], list[Any]] = {}
_open_lock = threading.Lock()


def _after_fork() -> None:
    # The child must open its own, and the package counts what its parent has open. The lock may be held by a thread
    # that isn't there.
    global _open_lock
    _open_lock = threading.Lock()
    while _open:
        _open.popitem()[1][0].close()


os.register_at_fork(after_in_child=_after_fork)


class LmdbRecords:
    """The records of an LMDB, by the calls of `NativeReader`, with the GIL.

    Raises
    ------
    UnimplementedError
        If the package is missing.
    """

    def __init__(self) -> None:
        try:
            import lmdb
        except ImportError as error:
            raise UnimplementedError(
                "LMDBReader needs the lmdb package, which isn't here: pip install 'queuecore[lmdb]'"
            ) from error
        self._lmdb: Any = lmdb
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
            return self._first(next_name)

    def read_up_to(
        self, next_name: Callable[[], bytes], n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the next records of one work unit: the bytes of all keys, where each ends, and the same of values."""
        with self._entered():
            records = [self._first(next_name)]
            try:
                while len(records) < n and (record := self._next()) is not None:
                    records.append(record)
            except QueueCoreError as error:
                self._failure = error  # raised by the next call: records before it are returned first
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

    def _first(self, next_name: Callable[[], bytes]) -> tuple[bytes, bytes]:
        if self._failure is not None:
            error, self._failure = self._failure, None
            raise error
        while (record := self._next()) is None:
            self._database = _Database(self._lmdb, next_name())
        return record

    def _next(self) -> tuple[bytes, bytes] | None:
        """Return the next record of the work unit in progress, or None after its last one."""
        if self._database is None:
            return None
        try:
            record = self._database.next()
        except QueueCoreError:
            self._close()
            raise
        if record is None:
            self._close()
            self.completed += 1
        else:
            self.produced += 1
        return record

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
    of ours for two transactions more, and writes to them in the third. So a record is sound if none was committed until
    it was copied.
    """

    def __init__(self, lmdb: Any, name: bytes) -> None:
        self._lmdb = lmdb
        self._name = name
        self._fd = -1
        self._shared: tuple[int, int] | None = None
        self._transaction: Any = None
        self._records: Iterator[tuple[bytes, bytes]] = iter(())
        self._least_bytes = 0
        self._stamp = 0, 0
        self._index = 0
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
            if isinstance(error, lmdb.Error):
                raise self._lmdb_error(error, "open") from error
            raise

    def _begin(self) -> None:
        shown = os.fsdecode(self._name)
        folder = stat.S_ISDIR(os.stat(self._name).st_mode)
        data = os.path.join(self._name, b"data.mdb") if folder else self._name
        # Of our own: for its size later on, and because the package's errors don't tell what is missing.
        self._fd = os.open(data, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._fd)
        if stat.S_ISDIR(status.st_mode):
            raise self._os_error(errno.EISDIR)
        if not stat.S_ISREG(status.st_mode):
            raise UnavailableError(
                f"{shown!r} is a pipe, socket or device, not a database", path=self._name, stage="open"
            )
        if status.st_size == 0:
            if os.pread(self._fd, 1, 0):
                raise UnavailableError(
                    f"{shown!r} says that it has no bytes, and yet can be read (as files in /proc): it can't be a "
                    "database. Copy it to an ordinary file",
                    path=self._name,
                    stage="open",
                )
            return
        self._stamp = status.st_size, status.st_mtime_ns
        environment = self._share((status.st_dev, status.st_ino), folder)
        self._transaction = environment.begin()
        self._least_bytes = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        if status.st_size < self._least_bytes:
            # There is no memory beyond its end: touching that ends the process.
            raise TruncatedRecordError(
                f"{shown!r} is cut: {status.st_size} of the {self._least_bytes} bytes of its pages are there",
                path=self._name,
                stage="open",
            )
        self._records = iter(self._transaction.cursor())

    def _share(self, key: tuple[int, int], folder: bool) -> Any:
        with _open_lock:
            if key not in _open:
                environment = self._lmdb.open(self._name, subdir=folder, readonly=True, lock=False, create=False)
                _open[key] = [environment, 0]
            _open[key][1] += 1
            self._shared = key
            return _open[key][0]

    def next(self) -> tuple[bytes, bytes] | None:
        """Return a key and a value; None at the end."""
        if self._shared is None:
            return None
        # Before: LMDB ends the process where it finds pages that are others by now. After: what was copied was sound.
        self._check_unchanged(_open[self._shared][0])
        try:
            record = next(self._records, None)
        except self._lmdb.Error as error:
            raise self._lmdb_error(error, "read") from error
        self._check_unchanged(_open[self._shared][0])
        if record is None:
            status = os.fstat(self._fd)
            if status.st_size == self._stamp[0] and status.st_mtime_ns != self._stamp[1]:
                raise self._changed("was written to")
        self._index += 1
        return record

    def _check_unchanged(self, environment: Any) -> None:
        how = "was shortened"
        if os.fstat(self._fd).st_size >= self._least_bytes:
            if environment.info()["last_txnid"] == self._transaction.id():
                return
            how = "was written to"
        raise self._changed(how)

    def _changed(self, how: str) -> SourceChangedError:
        return SourceChangedError(
            f"{os.fsdecode(self._name)!r} {how} while it was being read (record {self._index})",
            path=self._name,
            record=self._index,
            stage="read",
        )

    def close(self) -> None:
        """Release the database. A second call is no error."""
        self._records = iter(())
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
        if self._shared is not None:
            with _open_lock:
                shared = _open.get(self._shared)
                if shared is not None:
                    shared[1] -= 1
                    if shared[1] == 0:
                        del _open[self._shared]
                        shared[0].close()
            self._shared = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def _os_error(self, number: int) -> QueueCoreError:
        return os_error(
            number,
            f"cannot open {os.fsdecode(self._name)!r} as an LMDB environment: ",
            reason=os_reason(number),
            path=self._name,
            stage="open",
        )

    def _lmdb_error(self, error: Any, stage: str) -> QueueCoreError:
        # The package's numbers: an errno, one of its own below 0, or 0 where it has refused by itself.
        number = getattr(error, "code", 0)
        if number > 0:
            return self._os_error(number)
        if "already open" in str(error):
            return FailedPreconditionError(
                f"{os.fsdecode(self._name)!r} is open in this process already, outside of queuecore's readers, and "
                "LMDB can't open it twice. Close it there",
                path=self._name,
                stage=stage,
            )
        return DataLossError(
            f"{os.fsdecode(self._name)!r} is damaged, or no LMDB environment (record {self._index}): "
            f"{str(error).rpartition(': ')[2]}",
            path=self._name,
            record=self._index,
            stage=stage,
        )
