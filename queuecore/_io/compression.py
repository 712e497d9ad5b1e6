"""Compression of files and strings: the words for it, whether this machine can decompress it, and compressors."""

from __future__ import annotations

import contextlib
import importlib
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from queuecore._core.io.inflate import library
from queuecore.errors import InvalidArgumentError, UnimplementedError

__all__ = ["Codec", "codec_of", "compression_of", "encoding_number"]

# The numbers are those of inflate.pxd.
_NUMBERS: dict[str | None, int] = {None: 0, "": 0, "NONE": 0, "GZIP": 1, "ZLIB": 2, "ZSTD": 3}
_LIBRARIES = {
    1: "zlib (libz.so.1; Debian: zlib1g) or ISA-L (libisal.so.2; Debian: libisal2)",
    2: "zlib (libz.so.1; Debian: zlib1g) or ISA-L (libisal.so.2; Debian: libisal2)",
    3: "Zstandard (libzstd.so.1; Debian: libzstd1)",
}
# TensorFlow's words, and the numbers of its TFRecordCompressionType.
_COMPRESSIONS: dict[Any, str] = {
    **{word: word for word in ("", "GZIP", "ZLIB", "ZSTD")},
    **{None: "", "NONE": "", 0: "", 1: "ZLIB", 2: "GZIP"},
}


def encoding_number(word: str | None, label: str = "compression_type") -> int:
    """Return the native core's number for a word, once a library for it is loaded.

    Parameters
    ----------
    word : str or None
        None, ``""`` or ``"NONE"``: not compressed; or ``"GZIP"``, ``"ZLIB"``, ``"ZSTD"``; also in small letters.
    label : str, default "compression_type"
        The caller's name for the argument.

    Raises
    ------
    InvalidArgumentError
        If it is any other word.
    UnimplementedError
        If no library for it is found.
    """
    try:
        number = _NUMBERS[word.upper() if isinstance(word, str) else word]
    except (KeyError, TypeError):
        raise InvalidArgumentError(
            f"{label} must be None, '', 'NONE', 'GZIP', 'ZLIB' or 'ZSTD', not {word!r}"
        ) from None
    if number and library(number) is None:
        raise UnimplementedError(f"{label}={word!r}: no library for it is found. Install {_LIBRARIES[number]}")
    return number


def compression_of(options: Any) -> str:
    """Return the compression that `options` ask for.

    Parameters
    ----------
    options : str or object with ``compression_type``, or None
        TensorFlow's ``TFRecordOptions`` will do.

    Returns
    -------
    str
        ``""``, ``"GZIP"``, ``"ZLIB"`` or ``"ZSTD"``.

    Raises
    ------
    InvalidArgumentError
        If it is none of these words.
    """
    word = options
    while hasattr(word, "compression_type"):  # options may be made of options
        word = word.compression_type
    try:
        return _COMPRESSIONS[word.upper() if isinstance(word, str) else word]
    except (KeyError, TypeError):
        raise InvalidArgumentError(f"compression_type must be 'NONE', 'GZIP', 'ZLIB' or 'ZSTD', not {word!r}") from None


class Codec(NamedTuple):
    """A compressor of one stream."""

    compress: Callable[[Any], bytes]
    sync: Callable[[], bytes]  # so that all that was compressed can be read
    finish: Callable[[], bytes]


def codec_of(compression: str, level: int | None) -> Codec | None:
    """Return a compressor; `None`: nothing is to be compressed."""
    if not compression:
        return None
    try:
        if compression == "ZSTD":
            return _zstd(level)
        window = zlib.MAX_WBITS + 16 if compression == "GZIP" else zlib.MAX_WBITS
        stream = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, window)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"compression_level {level!r} is none that {compression} has: {error}") from error
    return Codec(stream.compress, lambda: stream.flush(zlib.Z_SYNC_FLUSH), stream.flush)


def _zstd(level: int | None) -> Codec:
    options = {} if level is None else {"level": level}
    with contextlib.suppress(ImportError):
        module = importlib.import_module("compression.zstd")
        own = module.ZstdCompressor(**options)
        return Codec(own.compress, lambda: bytes(own.flush(own.FLUSH_BLOCK)), own.flush)
    with contextlib.suppress(ImportError):
        module = importlib.import_module("zstandard")
        stream = module.ZstdCompressor(**options).compressobj()
        return Codec(stream.compress, lambda: bytes(stream.flush(module.COMPRESSOBJ_FLUSH_BLOCK)), stream.flush)
    raise UnimplementedError("ZSTD needs Python 3.14 or the package zstandard (pip install zstandard)")
