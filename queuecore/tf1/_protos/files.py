"""``tf.io.gfile``: files and directories of this machine. `queuecore.tf1.gfile` has the same under older names."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat as _stat
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self

from queuecore._io.names import local_text, matches
from queuecore.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    os_error,
)

__all__ = [
    "FileStatistics",
    "GFile",
    "copy",
    "exists",
    "glob",
    "isdir",
    "join",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "stat",
    "walk",
]

_MODES = ("r", "w", "a", "r+", "w+", "a+")


def _name(path: Any) -> str:
    return local_text(path)


@contextlib.contextmanager
def _refused(path: Any) -> Iterator[None]:
    # Errors of the system become errors of queuecore.
    try:
        yield
    except OSError as error:
        raise os_error(error.errno, f"{_name(path)}; ", path=path) from error


class GFile:
    """A file. It is opened when it is first read or written.

    Parameters
    ----------
    name : str, bytes or os.PathLike
    mode : {"r", "w", "a", "r+", "w+", "a+"}, default "r"
        With a ``b`` behind it, data are `bytes`, otherwise `str`.

    Attributes
    ----------
    name : str
    mode : str

    Raises
    ------
    InvalidArgumentError
        If there is no such mode.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        When it is used, if the system refuses it.

    Notes
    -----
    As in TensorFlow, a mode with a ``+`` reads at one place and writes at another: reading begins at the file's first
    byte. The first write makes the file, or empties it, in ``r+`` too; only ``a`` and ``a+`` go on at its end.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        self.name = os.fsdecode(name)
        self.mode = mode
        self._text = "b" not in mode
        self._plain = mode.replace("b", "")
        self._reader: IO[bytes] | None = None
        self._writer: IO[bytes] | None = None
        if self._plain not in _MODES:
            raise InvalidArgumentError(f"mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+': {mode!r}")

    def _to_read(self) -> IO[bytes]:
        if self._plain in ("w", "a"):
            raise PermissionDeniedError("File isn't open for reading", path=self.name)
        self.flush()
        if self._reader is None:
            with _refused(self.name):
                self._reader = open(_name(self.name), "rb")  # noqa: SIM115 - closed by close()
        return self._reader

    def _to_write(self) -> IO[bytes]:
        if self._plain == "r":
            raise PermissionDeniedError("File isn't open for writing", path=self.name)
        if self._writer is None:
            with _refused(self.name):
                mode = "ab" if self._plain.startswith("a") else "wb"
                self._writer = open(_name(self.name), mode)  # noqa: SIM115 - closed by close()
        return self._writer

    def _shown(self, data: bytes) -> Any:
        return data.decode() if self._text else data

    def size(self) -> int:
        """Return its size in bytes, as the system knows it."""
        with _refused(self.name):
            return os.stat(_name(self.name)).st_size

    def read(self, n: int = -1) -> Any:
        """Return the next `n` bytes, or all that are left, as text unless the mode has a ``b``."""
        file = self._to_read()
        if n < -1:
            raise InvalidArgumentError(f"Can't read a negative number of bytes: {n}", path=self.name)
        with _refused(self.name):
            return self._shown(file.read(n))

    def readline(self) -> Any:
        """Return the next line with its end; at the end of the file an empty one."""
        file = self._to_read()
        with _refused(self.name):
            return self._shown(file.readline())

    def readlines(self) -> list[Any]:
        """Return all lines that are left, with their ends."""
        return list(self)

    def write(self, file_content: Any) -> None:
        """Append text or bytes."""
        file = self._to_write()
        with _refused(self.name):
            file.write(file_content.encode() if isinstance(file_content, str) else file_content)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Go to a place to read from, in bytes: from the beginning (0), from here (1) or from the end (2).

        `position` is an older name of `offset`.
        """
        if offset is None and position is None:
            raise TypeError("seek(): offset argument required")
        if offset is not None and position is not None:
            raise TypeError("seek(): offset and position may not be set simultaneously.")
        if whence not in (0, 1, 2):
            raise InvalidArgumentError(f"Invalid whence argument: {whence}. Valid values are 0, 1, or 2.")
        file = self._to_read()
        to = (0, file.tell(), self.size())[whence] + (offset or position or 0)
        if to < 0:
            raise InvalidArgumentError(f"Can't go to byte {to}, which is before the first", path=self.name)
        file.seek(to)

    def tell(self) -> int:
        """Return the place, in bytes: where reading goes on, in a file that is only written where writing does."""
        return (self._to_write() if self._plain in ("w", "a") else self._to_read()).tell()

    def seekable(self) -> bool:
        """Return `True`."""
        return True

    def flush(self) -> None:
        """Hand what was written to the system."""
        if self._writer is not None:
            with _refused(self.name):
                self._writer.flush()

    def close(self) -> None:
        """Close it. A later use opens it anew."""
        files, self._reader, self._writer = (self._reader, self._writer), None, None
        for file in files:
            if file is not None:
                with _refused(self.name):
                    file.close()

    def __iter__(self) -> Self:
        """Iterate over the lines, with their ends."""
        return self

    def __next__(self) -> Any:
        """Return the next line with its end."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __del__(self) -> None:
        """Close it."""
        if getattr(self, "_plain", None) is not None:
            self.close()


@dataclass(frozen=True)
class FileStatistics:
    """The system's facts about a file.

    Attributes
    ----------
    length : int
        In bytes.
    mtime_nsec : int
        When it was changed last, in nanoseconds since 1970.
    is_directory : bool
    """

    length: int
    mtime_nsec: int
    is_directory: bool


def exists(path: Any) -> bool:
    """Return whether there is a file or a directory."""
    return os.path.exists(_name(path))


def isdir(path: Any) -> bool:
    """Return whether there is a directory."""
    return os.path.isdir(_name(path))


def stat(path: Any) -> FileStatistics:
    """Return the system's facts about a file. `NotFoundError`: there is none."""
    with _refused(path):
        found = os.stat(_name(path))
    return FileStatistics(found.st_size, found.st_mtime_ns, _stat.S_ISDIR(found.st_mode))


def glob(pattern: Any) -> list[str]:
    """Return the names that match a pattern, or any of several, sorted."""
    patterns = [pattern] if isinstance(pattern, (str, bytes, os.PathLike)) else pattern
    return sorted(os.fsdecode(name) for one in patterns for name in matches(os.fsencode(one), hidden=True))


def listdir(path: Any) -> list[str]:
    """Return the names in a directory, sorted. `NotFoundError`: there is no directory."""
    if not isdir(path):
        raise NotFoundError("Could not find directory", path=path)
    with _refused(path):
        return sorted(os.listdir(_name(path)))


def mkdir(path: Any) -> None:
    """Make a directory, if it isn't there. `NotFoundError`: its parent isn't there."""
    if not isdir(path):
        with _refused(path):
            os.mkdir(_name(path))


def makedirs(path: Any) -> None:
    """Make a directory, and its missing parents.

    Raises
    ------
    FailedPreconditionError
        If there is a file of that name.
    """
    if exists(path) and not isdir(path):
        raise FailedPreconditionError(f"{_name(path)} is a file, and no directory", path=path)
    with _refused(path):
        os.makedirs(_name(path), exist_ok=True)


def remove(path: Any) -> None:
    """Remove a file. `NotFoundError`: there is none; `FailedPreconditionError`: it is a directory."""
    if isdir(path) and not os.path.islink(_name(path)):
        raise FailedPreconditionError(f"{_name(path)} is a directory: use rmtree", path=path)
    with _refused(path):
        os.remove(_name(path))


def rmtree(path: Any) -> None:
    """Remove a directory and all that is in it. `NotFoundError`: there is none."""
    with _refused(path):
        if isdir(path):
            shutil.rmtree(_name(path))
        else:
            os.remove(_name(path))


def _check_free(path: Any, overwrite: bool) -> None:
    if not overwrite and exists(path):
        raise AlreadyExistsError(f"{_name(path)} exists, and overwrite is False", path=path)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Give a file or a directory another name.

    Raises
    ------
    AlreadyExistsError
        If there is one of the new name, and `overwrite` is `False`.
    NotFoundError
        If there is none of the old name.
    """
    _check_free(dst, overwrite)
    with _refused(src):
        os.replace(_name(src), _name(dst))


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.

    Raises
    ------
    AlreadyExistsError
        If there is one of the new name, and `overwrite` is `False`.
    NotFoundError
        If there is none of the old name.
    """
    _check_free(dst, overwrite)
    with _refused(src):
        shutil.copyfile(_name(src), _name(dst))


def join(path: Any, *paths: Any) -> str:
    """Return the parts of a name as one."""
    return os.path.join(os.fsdecode(path), *map(os.fsdecode, paths))


def walk(top: Any, topdown: bool = True, onerror: Any = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory from `top` down, with the names of its directories and files.

    Parameters
    ----------
    top : str, bytes or os.PathLike
    topdown : bool, default True
        Whether a directory comes before those in it.
    onerror : callable, optional
        Gets the error of a directory that can't be read; otherwise that is left out.
    """
    for folder, folders, files in os.walk(_name(top), topdown, onerror):
        if topdown:
            folders.sort()
        yield folder, folders, sorted(files)
