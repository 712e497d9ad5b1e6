"""Compression of files and strings: the words for it, whether this machine can decompress it, and compressors."""

from __future__ import annotations

import contextlib
import importlib
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from queuecore._core.io.codecs import library
from queuecore.errors import InvalidArgumentError, UnimplementedError

__all__ = ["COMPRESSIONS", "COMPRESSIONS_SHOWN", "Codec", "codec_of", "compression_of", "encoding_number"]

COMPRESSIONS = ("GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2")
"""The words for compressed data; 1 more than their places are the numbers of codecs.pxd."""
COMPRESSIONS_SHOWN = f"{', '.join(map(repr, COMPRESSIONS[:-1]))} or {COMPRESSIONS[-1]!r}"
"""These words, for messages."""

_NUMBERS: dict[str | None, int] = {
    **{None: 0, "": 0, "NONE": 0},
    **{word: number for number, word in enumerate(COMPRESSIONS, 1)},
}
_DEFLATE = "ISA-L (libisal.so.2; Debian: libisal2), zlib-ng (libz-ng.so.2) or zlib (libz.so.1; Debian: zlib1g)"
_LIBRARIES = {
    "GZIP": _DEFLATE,
    "ZLIB": _DEFLATE,
    "ZSTD": "Zstandard (libzstd.so.1; Debian: libzstd1)",
    "LZ4": "LZ4 (liblz4.so.1; Debian: liblz4-1)",
    "XZ": "XZ Utils (liblzma.so.5; Debian: liblzma5)",
    "BZ2": "bzip2 (libbz2.so.1.0; Debian: libbz2-1.0)",
}
# TensorFlow's numbers, those of its TFRecordCompressionType, are words for it too.
_COMPRESSIONS: dict[Any, str] = {
    **{word: word for word in ("", *COMPRESSIONS)},
    **{None: "", "NONE": "", 0: "", 1: "ZLIB", 2: "GZIP"},
}


def encoding_number(word: str | None, label: str = "compression_type") -> int:
    """Return the native core's number for a word, once a library for it is loaded.

    Parameters
    ----------
    word : str or None
        None, ``""`` or ``"NONE"``: not compressed; or one of `COMPRESSIONS`; also in small letters.
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
        raise InvalidArgumentError(f"{label} must be None, '', 'NONE', {COMPRESSIONS_SHOWN}, not {word!r}") from None
    if number and library(number) is None:
        needed = _LIBRARIES[COMPRESSIONS[number - 1]]
        raise UnimplementedError(f"{label}={word!r}: no library for it is found. Install {needed}")
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
        ``""``, or one of `COMPRESSIONS`.

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
        raise InvalidArgumentError(f"compression_type must be 'NONE', {COMPRESSIONS_SHOWN}, not {word!r}") from None


class Codec(NamedTuple):
    """A compressor of one stream."""

    compress: Callable[[Any], bytes]
    sync: Callable[[], bytes]  # so that all that was compressed can be read
    finish: Callable[[], bytes]


def codec_of(compression: str, level: int | None) -> Codec | None:
    """Return a compressor; `None`: nothing is to be compressed."""
    if not compression:
        return None
    if compression not in ("GZIP", "ZLIB", "ZSTD"):
        raise UnimplementedError(f"files of {compression} are read, not written: write 'GZIP', 'ZLIB' or 'ZSTD'")
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
