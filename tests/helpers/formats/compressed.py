"""Compressed data, and what others say that it holds: Python's own modules, and the programs zstd and lz4."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import lzma
import random
import shutil
import subprocess
import zlib
from typing import Any

import pytest

from queuecore._io.compression import encoding_number
from queuecore.errors import UnimplementedError

ENCODINGS = ["GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"]
# Of those that know GZIP and ZLIB; all are tested that are there.
LIBRARIES = ["libisal", "libz", "libz-ng"]

needs_zstd = pytest.mark.skipif(
    not (importlib.util.find_spec("zstandard") or shutil.which("zstd")),
    reason="neither the package zstandard nor the program zstd is here",
)
needs_lz4 = pytest.mark.skipif(
    not (importlib.util.find_spec("lz4") or shutil.which("lz4")),
    reason="neither the package lz4 nor the program lz4 is here",
)
# Those that something here makes.
CODED = ["GZIP", "ZLIB", pytest.param("ZSTD", marks=needs_zstd), pytest.param("LZ4", marks=needs_lz4), "XZ", "BZ2"]
# Of these, those in which complete data may follow complete data.
JOINED = [one for one in CODED if one != "ZLIB"]
# A block is decompressed as a whole, or not at all.
IN_BLOCKS = ["ZSTD", "LZ4", "BZ2"]


def zstd(data: bytes, level: int = 3) -> bytes:
    """Return one frame with its checksum."""
    if importlib.util.find_spec("zstandard"):
        import zstandard

        return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(data)
    command = ["zstd", "--quiet", "--stdout", f"-{level}", "--check"]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def lz4(data: bytes, level: int = 1) -> bytes:
    """Return one frame with its checksum, in blocks of 64 KiB."""
    if importlib.util.find_spec("lz4"):
        import lz4.frame as module

        size = module.BLOCKSIZE_MAX64KB
        return module.compress(data, compression_level=level, block_size=size, content_checksum=True)
    command = ["lz4", "-q", "-z", "-c", f"-{level}", "-B4"]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def compress(encoding: str, data: bytes, level: int = 6) -> bytes:
    """Return data in one piece."""
    if encoding == "GZIP":
        return gzip.compress(data, level, mtime=0)
    if encoding == "XZ":
        return lzma.compress(data, preset=level)
    if encoding == "LZ4":
        return lz4(data, max(level, 1))
    if encoding == "BZ2":
        return bz2.compress(data, max(level, 1))
    return zlib.compress(data, level) if encoding == "ZLIB" else zstd(data, max(level, 1))


def decompressor(encoding: str) -> Any:
    """Return one of Python's own, for one member."""
    if encoding == "XZ":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ)
    return bz2.BZ2Decompressor() if encoding == "BZ2" else zlib.decompressobj(31 if encoding == "GZIP" else 15)


def before_the_cut(encoding: str, data: bytes) -> bytes:
    """Return what Python makes of the beginning of one member."""
    return decompressor(encoding).decompress(data)


def number(encoding: str) -> int:
    """Return an encoding's number, or skip the test where nothing decompresses it."""
    try:
        return encoding_number(encoding)
    except UnimplementedError as error:
        pytest.skip(str(error))


def text(count: int, seed: int = 0) -> bytes:
    """Return so many bytes of something like text."""
    state = random.Random(seed)
    words = [state.randbytes(state.randrange(1, 12)) for _ in range(200)]
    size = 0
    parts = []
    while size < count:
        parts.append(state.choice(words))
        size += len(parts[-1])
    return b"".join(parts)[:count]
