"""``tf.gfile``: files and directories of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from queuecore.tf1._protos.files import (
    GFile,
    copy as _copy,
    exists as _exists,
    glob as _glob,
    isdir as _isdir,
    listdir as _listdir,
    makedirs as _makedirs,
    mkdir as _mkdir,
    remove as _remove,
    rename as _rename,
    rmtree,
    stat as _stat,
    walk,
)

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Stat",
    "Walk",
]

Open = FastGFile = GFile


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:  # noqa: N802
    """As `tf.io.gfile.copy`."""
    _copy(oldpath, newpath, overwrite)


def DeleteRecursively(dirname: Any) -> None:  # noqa: N802
    """As `tf.io.gfile.rmtree`."""
    rmtree(dirname)


def Exists(filename: Any) -> bool:  # noqa: N802
    """As `tf.io.gfile.exists`."""
    return _exists(filename)


def Glob(filename: Any) -> list[str]:  # noqa: N802
    """As `tf.io.gfile.glob`."""
    return _glob(filename)


def IsDirectory(dirname: Any) -> bool:  # noqa: N802
    """As `tf.io.gfile.isdir`."""
    return _isdir(dirname)


def ListDirectory(dirname: Any) -> list[str]:  # noqa: N802
    """As `tf.io.gfile.listdir`."""
    return _listdir(dirname)


def MakeDirs(dirname: Any) -> None:  # noqa: N802
    """As `tf.io.gfile.makedirs`."""
    _makedirs(dirname)


def MkDir(dirname: Any) -> None:  # noqa: N802
    """As `tf.io.gfile.mkdir`."""
    _mkdir(dirname)


def Remove(filename: Any) -> None:  # noqa: N802
    """As `tf.io.gfile.remove`."""
    _remove(filename)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:  # noqa: N802
    """As `tf.io.gfile.rename`."""
    _rename(oldname, newname, overwrite)


def Stat(filename: Any) -> Any:  # noqa: N802
    """As `tf.io.gfile.stat`."""
    return _stat(filename)


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:  # noqa: N802
    """As `tf.io.gfile.walk`."""
    return walk(top, in_order)
