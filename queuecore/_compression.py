"""How a file or string may be compressed: the words for it, and whether this machine can decompress it."""

from __future__ import annotations

from queuecore._core.inflate import library
from queuecore.errors import InvalidArgumentError, UnimplementedError

__all__ = ["encoding_number"]

# The numbers are those of inflate.pxd.
_NUMBERS: dict[str | None, int] = {None: 0, "": 0, "NONE": 0, "GZIP": 1, "ZLIB": 2, "ZSTD": 3}
_LIBRARIES = {
    1: "zlib (libz.so.1; Debian: zlib1g) or ISA-L (libisal.so.2; Debian: libisal2)",
    2: "zlib (libz.so.1; Debian: zlib1g) or ISA-L (libisal.so.2; Debian: libisal2)",
    3: "Zstandard (libzstd.so.1; Debian: libzstd1)",
}


def encoding_number(word: str | None, label: str = "compression_type") -> int:
    """Return the native core's number for a word, once a library for it is loaded.

    Parameters
    ----------
    word : str or None
        None, ``""`` or ``"NONE"``: not compressed; or ``"GZIP"``, ``"ZLIB"``, ``"ZSTD"``.
    label : str, default "compression_type"
        What the caller's users call it.

    Raises
    ------
    InvalidArgumentError
        If it is any other word.
    UnimplementedError
        If no library for it is found.
    """
    try:
        number = _NUMBERS[word]
    except (KeyError, TypeError):
        raise InvalidArgumentError(
            f"{label} must be None, '', 'NONE', 'GZIP', 'ZLIB' or 'ZSTD', not {word!r}"
        ) from None
    if number and library(number) is None:
        raise UnimplementedError(f"{label}={word!r}: no library for it is found. Install {_LIBRARIES[number]}")
    return number
