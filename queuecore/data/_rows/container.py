"""The format of elements in files of our own: plain values, bytes and arrays, in pieces with checksums.

A piece is framed as a TFRecord: its length and its data have a CRC-32C each. It holds the structure as JSON, and behind
it what is large, as it lies in memory. Nothing in it names code, so that reading a file runs none.
"""

from __future__ import annotations

import ast
import json
import math
import os
import zlib
from typing import Any

import numpy as np

from queuecore._core.io.tfrecord import frame
from queuecore._elements.dtypes import as_dtype, is_bfloat16
from queuecore.errors import ChecksumError, DataLossError, DecompressError, InvalidArgumentError, TruncatedRecordError
from queuecore.ragged import Ragged, Sparse

__all__ = ["MOST_EXPANDED", "Packer", "framed", "read_piece", "unpack"]

_HEADER_BYTES = 12
_FRAME_BYTES = 16
# Of everything large in a piece. Memory that it is read into has such an address too.
_ALIGN = 16
# Python refuses to read longer ones from text.
_MOST_INT_BITS = 8192
_GZIP = zlib.MAX_WBITS + 16
# DEFLATE's own limit: a byte expands to no more.
MOST_EXPANDED = 1032
_STAGE = "cache"


class Packer:
    """Makes pieces of None, bools, numbers, text, bytes, arrays, `Ragged`, `Sparse`, and tuples, lists, dicts of it."""

    def __init__(self) -> None:
        self._buffers: list[Any] = []
        self.nbytes = 0

    def skeleton(self, value: Any) -> Any:
        """Return a value as JSON; large parts go to the piece that `pack` makes.

        Raises
        ------
        InvalidArgumentError
            If it is none of those above.
        """
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int and value.bit_length() <= _MOST_INT_BITS:
            return value
        if kind is float:
            return ["float", value.hex() if math.isfinite(value) else str(value)]
        if kind is complex:
            return ["complex", self.skeleton(value.real), self.skeleton(value.imag)]
        if kind is bytes:
            return ["bytes", self._add(value)]
        if kind is tuple or kind is list:
            return [kind.__name__, *map(self.skeleton, value)]
        if kind is dict:
            return ["dict", *([self.skeleton(key), self.skeleton(inner)] for key, inner in value.items())]
        if kind is Ragged:
            return ["Ragged", self.skeleton(value.values), self.skeleton(value.row_splits)]
        if kind is Sparse:
            return ["Sparse", *map(self.skeleton, (value.indices, value.values, value.dense_shape))]
        if kind is np.ndarray and value.dtype == object:
            return ["objects", list(value.shape), *map(self.skeleton, value.ravel().tolist())]
        if (kind is np.ndarray or isinstance(value, np.generic)) and (word := _word(value.dtype)):
            array = np.ascontiguousarray(value)
            flat = array.reshape(-1).view(np.uint8) if array.nbytes else b""
            return ["array" if kind is np.ndarray else "scalar", self._add(flat), word, list(value.shape)]
        raise InvalidArgumentError(
            f"a {kind.__module__}.{kind.__qualname__} like this can't be written to a file: only None, bools, numbers, "
            "str, bytes, arrays and tuples, lists and dicts of them can"
        )

    def _add(self, data: Any) -> int:
        self._buffers.append(data)
        self.nbytes += len(data)
        return len(self._buffers) - 1

    def pack(self, skeleton: Any) -> bytes:
        """Return a piece, and begin the next one."""
        head = json.dumps([skeleton, [len(one) for one in self._buffers]]).encode()
        parts = [len(head).to_bytes(8, "little"), head, bytes(-(8 + len(head)) % _ALIGN)]
        for one in self._buffers:
            parts += [one, bytes(-len(one) % _ALIGN)]
        self._buffers = []
        self.nbytes = 0
        return b"".join(parts)


def _word(dtype: np.dtype[Any]) -> str:
    """Return the word for a dtype in a piece; an empty one if pieces can't hold it."""
    if is_bfloat16(dtype):
        return "bfloat16"
    if dtype.hasobject or (dtype.kind == "V" and dtype.type is not np.void):
        return ""
    descr = np.lib.format.dtype_to_descr(dtype)
    return descr if isinstance(descr, str) else repr(descr)


def unpack(piece: np.ndarray[Any, Any]) -> Any:
    """Return the value in a piece, whose arrays are views of it.

    Raises
    ------
    ValueError
        If the piece isn't one that `Packer` makes.
    """
    length = int(piece[:8].view("<i8")[0]) if len(piece) >= 8 else -1
    if not 0 <= length <= len(piece) - 8:
        raise ValueError(f"its head can't have {length} bytes")
    try:
        skeleton, sizes = json.loads(piece[8 : 8 + length].tobytes())
        return _value(skeleton, _parts(piece, 8 + length, sizes))
    except MemoryError:
        raise
    except Exception as error:  # whatever Python and NumPy make of damage
        raise ValueError(f"its content is no value: {error}") from error


def _parts(piece: np.ndarray[Any, Any], offset: int, sizes: list[int]) -> list[np.ndarray[Any, Any]]:
    parts = []
    for size in sizes:
        offset += -offset % _ALIGN
        if not 0 <= size <= len(piece) - offset:
            raise ValueError(f"{size} bytes at {offset} are more than there are")
        parts.append(piece[offset : offset + size])
        offset += size
    return parts


def _value(skeleton: Any, parts: list[Any]) -> Any:
    if not isinstance(skeleton, list):
        return skeleton
    kind, *inner = skeleton
    if kind == "float":
        return float.fromhex(inner[0])
    if kind == "bytes":
        return parts[inner[0]].tobytes()
    if kind in ("array", "scalar"):
        index, word, shape = inner
        if any(type(side) is not int or side < 0 for side in shape):
            raise ValueError(f"no array has the shape {shape}")
        dtype = as_dtype(word) if word[0] not in "[(" else np.lib.format.descr_to_dtype(ast.literal_eval(word))
        if dtype.itemsize * math.prod(shape) != len(parts[index]):
            raise ValueError(f"{len(parts[index])} bytes are no {dtype} of shape {shape}")
        array = np.ndarray(shape, dtype, parts[index])
        return array if kind == "array" else array[()]
    if kind == "objects":
        if math.prod(inner[0]) != len(inner) - 1:
            raise ValueError(f"{len(inner) - 1} objects are no array of shape {inner[0]}")
        made = np.empty(len(inner) - 1, object)
        for index, one in enumerate(inner[1:]):
            made[index] = _value(one, parts)
        return made.reshape(inner[0])
    if kind == "dict":
        return {_value(key, parts): _value(one, parts) for key, one in inner}
    values = [_value(one, parts) for one in inner]
    if kind == "list":
        return values
    if kind == "tuple":
        return tuple(values)
    return {"complex": complex, "Ragged": Ragged, "Sparse": Sparse}[kind](*values)


def framed(piece: bytes, compress: bool) -> tuple[bytes, bytes, bytes]:
    """Return the bytes to write for a piece, in three parts."""
    if compress:
        codec = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        piece = len(piece).to_bytes(8, "little") + codec.compress(piece) + codec.flush()
    header, footer = frame(piece)
    return header, piece, footer


def read_piece(
    fd: int, path: str, offset: int, size: int, footer: bytes | None = None, compressed: bool = False
) -> np.ndarray[Any, Any]:
    """Return a piece of a file, which `unpack` takes.

    Parameters
    ----------
    fd, path
        The file.
    offset, size : int
        Of the piece, in bytes, with its frame.
    footer : bytes, optional
        What the last 4 of its bytes must be.
    compressed : bool
        As of `framed`.

    Raises
    ------
    TruncatedRecordError, ChecksumError, DecompressError
        If it isn't what was written.
    """
    place: dict[str, Any] = {"path": path, "offset": offset, "stage": _STAGE}
    there = os.fstat(fd).st_size
    if size > there - offset:
        raise TruncatedRecordError(
            f"{path} ends at byte {there}, inside the piece of {size} bytes at {offset}", **place
        )
    if size < _FRAME_BYTES:
        raise ChecksumError(f"{path}: {size} bytes at {offset} are no piece", **place)
    memory = np.empty(size + _ALIGN - _HEADER_BYTES, np.uint8)
    view = memory[_ALIGN - _HEADER_BYTES :]
    done = 0
    while done < size:
        got = os.preadv(fd, [view[done:].data], offset + done)
        if not got:
            raise TruncatedRecordError(f"{path} ends at byte {offset + done}, inside a piece of {size} bytes", **place)
        done += got
    piece = memory[_ALIGN : _ALIGN + size - _FRAME_BYTES]
    own = frame(piece.data)
    found = (view[:_HEADER_BYTES].tobytes(), view[-4:].tobytes())
    if own != found or (footer is not None and footer != found[1]):
        raise ChecksumError(f"{path}: the piece of {size} bytes at {offset} is damaged", **place)
    if not compressed:
        return piece
    try:
        return _inflated(piece)
    except (zlib.error, DataLossError) as error:  # its checksum holds, so a writer was wrong
        raise DecompressError(f"{path}: the piece of {size} bytes at {offset}: {error}", **place) from error


def _inflated(piece: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    length = int.from_bytes(piece[:8].tobytes(), "little")
    if length > MOST_EXPANDED * len(piece):
        raise DataLossError(f"{length} bytes don't come from {len(piece)}")
    made = zlib.decompressobj(_GZIP).decompress(piece[8:].data, length + 1)
    if len(made) != length:
        raise DataLossError(f"{len(made)} bytes instead of {length}")
    return np.frombuffer(bytearray(made), np.uint8)
