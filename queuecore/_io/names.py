"""Names of files, as users give them: one, several, or patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from typing import Any

from queuecore.errors import InvalidArgumentError

__all__ = ["Filename", "expand_filenames", "expand_patterns"]

_STAGE = "open"

Filename = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def _encode(name: Any) -> bytes:
    try:
        path = os.fsencode(name)
    except (TypeError, UnicodeEncodeError):
        raise InvalidArgumentError(f"a file name must be str, bytes or os.PathLike, not {name!r}") from None
    if not path:
        raise InvalidArgumentError("a file name is empty")
    if b"\0" in path:
        raise InvalidArgumentError(f"the file name {name!r} has a NUL in it")
    return path


def expand_filenames(filenames: Filename | Iterable[Filename]) -> list[bytes]:
    """Return the names as the operating system's bytes; a single name may be a glob pattern, a sequence empty."""
    if isinstance(filenames, str | bytes | os.PathLike):
        path = _encode(filenames)
        if not glob.has_magic(path) or os.path.lexists(path):
            return [path]
        # Sorted by bytes: the order must depend neither on the locale nor on the directory's own order.
        matches = sorted(glob.glob(path))
        if not matches:
            raise InvalidArgumentError(f"no file matches the pattern {os.fsdecode(path)!r}", path=path, stage=_STAGE)
        return matches
    if isinstance(filenames, set | frozenset):
        raise InvalidArgumentError("filenames must be in an order; a set has none")
    return _encoded(filenames, "filenames")


def _encoded(names: Iterable[Filename], what: str) -> list[bytes]:
    try:
        given = list(names)
    except TypeError:
        raise InvalidArgumentError(f"{what} must be one or a sequence of them, not {names!r}") from None
    return [_encode(name) for name in given]


def expand_patterns(patterns: Filename | Iterable[Filename]) -> list[bytes]:
    """Return the names that match, as the operating system's bytes, sorted by them over all patterns.

    Of a pattern or several, as ``Dataset.list_files`` takes them: ``*`` and ``?`` match a dot at the beginning too, and
    never a slash, ``**`` is no other than ``*``. So no folder is gone through but those that a pattern has between its
    slashes, and a link that leads back up ends nowhere else. A name that matches twice is there twice. A pattern
    without any match is an `InvalidArgumentError` if that leaves no name at all, as in TensorFlow.
    """
    texts = [_encode(patterns)] if isinstance(patterns, str | bytes | os.PathLike) else _encoded(patterns, "patterns")
    if not texts:
        raise InvalidArgumentError("patterns is empty: a dataset needs at least one file")
    matches = sorted(name for text in texts for name in glob.glob(text, include_hidden=True))
    if not matches:
        shown = ", ".join(repr(os.fsdecode(text)) for text in texts)
        raise InvalidArgumentError(f"no file matches {shown}", path=texts[0], stage=_STAGE)
    return matches
