"""Numbers in files, replaced by ones that are wrong: too small, too large, one off, negative, or that overflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from helpers.formats.tfrecords import stream


class Field(NamedTuple):
    """A number in a file: its name, place, bytes, and whether they are in network order."""

    name: str
    at: int
    size: int
    big: bool = False

    def of(self, data: bytes) -> int:
        """Return the number that a file has there."""
        return int.from_bytes(data[self.at : self.at + self.size], "big" if self.big else "little")

    def put(self, data: bytes, value: int) -> bytes:
        """Return a file with another number there."""
        there = value.to_bytes(self.size, "big" if self.big else "little")
        return data[: self.at] + there + data[self.at + self.size :]


def wrong(value: int, size: int) -> list[int]:
    """Return numbers of so many bytes that may do harm where `value` is right; as signed ones, half are negative."""
    limit = 1 << 8 * size
    near = [value - 2, value - 1, value + 1, value + 2, 2 * value, value // 2, limit - value]
    ends = [0, 1, 2, limit - 1, limit - 2, limit // 2, limit // 2 - 1, limit // 2 + 1]
    # Times 2, 3, 4 and 8 these overflow to something small.
    overflow = [limit // 3 + 1, limit // 4, limit // 4 + 1, limit // 8 + 1, (limit + value) // 4]
    return sorted({one % limit for one in near + ends + overflow} - {value})


def changed(data: bytes, fields: list[Field]) -> Iterator[tuple[str, int, bytes]]:
    """Yield files, each with one wrong number: the field's name, the number and the file."""
    for field in fields:
        for value in wrong(field.of(data), field.size):
            yield field.name, value, field.put(data, value)


# ---- what caches and snapshots write ----

MAGIC = b"queuecore cache\n"
FRAME = 12  # bytes before what a piece holds; 4 follow


class Piece(NamedTuple):
    """What a piece holds: its structure as JSON, the sizes that it gives for its parts, and these."""

    tree: Any
    sizes: list[int]
    parts: list[bytes]

    @classmethod
    def of(cls, framed: bytes) -> Piece:
        """Return what the bytes of a piece hold."""
        data = framed[FRAME:-4]
        position = 8 + int.from_bytes(data[:8], "little")
        tree, sizes = json.loads(data[8:position])
        parts = []
        for size in sizes:
            position += -position % 16
            parts.append(data[position : position + size])
            position += size
        return cls(tree, sizes, parts)

    def framed(self) -> bytes:
        """Return the bytes of the piece, with checksums that hold."""
        head = json.dumps([self.tree, self.sizes]).encode()
        made = len(head).to_bytes(8, "little") + head
        for part in self.parts:
            made += bytes(-len(made) % 16) + part
        return stream([made + bytes(-len(made) % 16)])

    def variants(self) -> Iterator[tuple[str, Piece]]:
        """Yield pieces with one wrong number: in the structure, among the sizes, or among numbers of 64 bits."""
        for path in _numbers(self.tree):
            right = _at(self.tree, path)
            for value in {*wrong(right, 8), -1, 1 << 70}:
                yield f"structure {path} = {value}", self._replace(tree=_with(self.tree, path, value))
            for value in (None, "|O", "<i8", 1.5, [], {}):
                yield f"structure {path} = {value!r}", self._replace(tree=_with(self.tree, path, value))
        for number, size in enumerate(self.sizes):
            for value in {*wrong(size, 8), -1}:
                sizes = [*self.sizes[:number], value, *self.sizes[number + 1 :]]
                yield f"size {number} = {value}", self._replace(sizes=sizes)
        for number, part in enumerate(self.parts):
            for at in range(0, len(part) - 7, 8):
                for value in wrong(int.from_bytes(part[at : at + 8], "little"), 8):
                    damaged = part[:at] + value.to_bytes(8, "little") + part[at + 8 :]
                    parts = [*self.parts[:number], damaged, *self.parts[number + 1 :]]
                    yield f"part {number} at {at} = {value}", self._replace(parts=parts)


def _numbers(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if type(tree) is int:
        yield path
    elif isinstance(tree, list):
        for index, one in enumerate(tree):
            yield from _numbers(one, (*path, index))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    return [_with(one, path[1:], value) if index == path[0] else one for index, one in enumerate(tree)]


class Kept:
    """The two files of a cache or snapshot with one piece, and their variants."""

    def __init__(self, index: Path, data: Path) -> None:
        self.index, self.data = index, data
        self.intact = index.read_bytes(), data.read_bytes()
        self.facts = Piece.of(self.intact[0][len(MAGIC) :])
        self.piece = Piece.of(self.intact[1][len(MAGIC) :])

    def restore(self) -> None:
        """Write both files as they were."""
        self.index.write_bytes(self.intact[0])
        self.data.write_bytes(self.intact[1])

    def put_facts(self, facts: Piece) -> None:
        """Write another index."""
        self.restore()
        self.index.write_bytes(MAGIC + facts.framed())

    def put(self, piece: Piece) -> None:
        """Write another piece, and an index that knows its size and checksum."""
        framed = piece.framed()
        (number,) = [entry[1][1] for entry in self.facts.tree[1:] if entry[0] == "pieces"]
        table = np.frombuffer(self.facts.parts[number], np.int64).copy()
        table[2:4] = len(framed), int.from_bytes(framed[-4:], "little")
        parts = [*self.facts.parts[:number], table.tobytes(), *self.facts.parts[number + 1 :]]
        self.index.write_bytes(MAGIC + self.facts._replace(parts=parts).framed())
        self.data.write_bytes(MAGIC + framed)
