"""Compressed data, and what others say that it holds: the oracles are Python's own modules and the zstd program."""

from __future__ import annotations

import gzip
import importlib.util
import random
import shutil
import subprocess
import zlib

import pytest

from queuecore._io.compression import encoding_number
from queuecore.errors import UnimplementedError

ENCODINGS = ["GZIP", "ZLIB", "ZSTD"]
# Of those that know GZIP and ZLIB; both are tested where both are there.
LIBRARIES = ["libisal", "libz"]

needs_zstd = pytest.mark.skipif(
    not (importlib.util.find_spec("zstandard") or shutil.which("zstd")),
    reason="neither the package zstandard nor the program zstd is here",
)


def zstd(data: bytes, level: int = 3) -> bytes:
    """Return one frame with its checksum."""
    if importlib.util.find_spec("zstandard"):
        import zstandard

        return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(data)
    command = ["zstd", "--quiet", "--stdout", f"-{level}", "--check"]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def compress(encoding: str, data: bytes, level: int = 6) -> bytes:
    """Return data in one piece."""
    if encoding == "GZIP":
        return gzip.compress(data, level, mtime=0)
    return zlib.compress(data, level) if encoding == "ZLIB" else zstd(data, max(level, 1))


def before_the_cut(encoding: str, data: bytes) -> bytes:
    """Return what zlib makes of the beginning of one member."""
    return zlib.decompressobj(31 if encoding == "GZIP" else 15).decompress(data)


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
