"""LMDB files: what the library writes, with what its cursor gives, and files made page by page."""

from __future__ import annotations

import os
import random
import struct
from typing import Any

KINDS = ("plain", "values", "fixed", "named")  # many values for a key, such of one size, other databases beside
HEADERS = {0: 16, 1: 24}  # bytes before what is on a page, for each version of the library
BRANCH, LEAF, OVERFLOW, META, LEAF2, SUBPAGE = 1, 2, 4, 8, 0x20, 0x40
BIG, TREE, DUPLICATES = 1, 2, 4
DUPSORT, DUPFIXED = 4, 0x10


def written(path: str | os.PathLike[str], seed: int, kind: str, version: int, small: bool = False) -> Any:
    """Write a file in several transactions, with deletions, and return the records that the library's cursor gives.

    The package sets no flags of the main database. So where a key has many values, that is a named database, which
    becomes the main one afterwards: the files are those of programs that set the flags. `small`: for small pages.
    """
    import lmdb

    rng, path = random.Random(seed), os.fspath(path)
    many = kind in ("values", "fixed")
    options = {"subdir": False, "map_size": 1 << 28, "sync": False, "max_dbs": 3, "lib_version": version}
    with lmdb.open(path, **options) as environment:
        database = None
        if many:
            database = environment.open_db(b"it", dupsort=True, dupfixed=kind == "fixed")
        elif kind == "named":
            for name in (b"a", b"\xff"):
                environment.open_db(name)
        width = rng.choice([1, 2, 4, 33])
        for _ in range(rng.randrange(1, 5)):
            with environment.begin(write=True) as transaction:
                spread = rng.choice([3, 300])
                for _ in range(rng.choice([3, 100, 800])):
                    if many:
                        key = b"%d" % rng.randrange(spread)
                        value = rng.randbytes(width if kind == "fixed" else rng.randrange(1, 60 if small else 400))
                    else:
                        key = rng.randbytes(rng.randrange(1, 60 if small else 400))
                        value = rng.randbytes(rng.choice([0, 3, 50, 2000, 4080, 9000]))
                    transaction.put(key, value, db=database)
                    if rng.random() < 0.1:
                        transaction.delete(key, db=database)
        with environment.begin() as transaction:
            records = list(transaction.cursor(database))
            described = transaction.get(b"it" + b"\0" * version) if many else b""
        page_size = environment.stat()["psize"]
    if many:
        with open(path, "r+b") as file:
            for page in range(2):
                file.seek(page * page_size + HEADERS[version] + 72)
                file.write(described)
    return records


def library(path: str | os.PathLike[str]) -> list[tuple[bytes, bytes]]:
    """Return the records that the library's cursor gives."""
    import lmdb

    path = os.fspath(path)
    with lmdb.open(path, subdir=False, readonly=True, lock=False) as environment, environment.begin() as transaction:
        return list(transaction.cursor())


def node(key: bytes, value: bytes, flags: int = 0, size: int | None = None) -> bytes:
    """Return a node of a leaf page (of version 0)."""
    whole = struct.pack("<IHH", len(value) if size is None else size, flags, len(key)) + key + value
    return whole + b"\0" * (len(whole) % 2)


def child(number: int, key: bytes = b"") -> bytes:
    """Return a node of a branch page."""
    return struct.pack("<IHH", number & 0xFFFFFFFF, number >> 32, len(key)) + key + b"\0" * (len(key) % 2)


def page(number: int, flags: int, nodes: list[bytes], size: int = 4096, width: int = 0) -> bytes:
    """Return a page (of version 0) with these nodes, or items of `width` bytes."""
    if flags & LEAF2:
        room = size - len(nodes) * max(width - 2, 0)  # the list takes room, though it isn't there
        head = struct.pack("<QHHHH", number, width, flags, 16 + 2 * len(nodes), room)
        return (head + b"".join(nodes)).ljust(size, b"\0")
    places, position = [], size
    for one in nodes:
        position -= len(one)
        places.append(position)
    head = struct.pack("<QHHHH", number, 0, flags, 16 + 2 * len(nodes), position)
    head += struct.pack(f"<{len(nodes)}H", *places)
    return head.ljust(position, b"\0") + b"".join(reversed(nodes))


def overflow(number: int, value: bytes, size: int = 4096, pages: int | None = None) -> bytes:
    """Return the pages of a large value."""
    count = -(-(16 + len(value)) // size) if pages is None else pages
    return (struct.pack("<QHHI", number, 0, OVERFLOW, count) + value).ljust(count * size, b"\0")


def described(root: int, flags: int = 0, width: int = 0, depth: int = 1) -> bytes:
    """Return what describes a tree."""
    return struct.pack("<IHH4QQ", width, flags, depth, 0, 1, 0, 1, root)


def meta(number: int, transaction: int, main: bytes, last: int, size: int = 4096, **other: int) -> bytes:
    """Return a meta page (of version 0)."""
    head = struct.pack("<QHHHH", number, 0, other.get("flags", META), 0, 0)
    body = struct.pack("<IIQQ", other.get("magic", 0xBEEFC0DE), other.get("version", 1), 0, 1 << 28)
    free = struct.pack("<IHH4QQ", other.get("page_size", size), 8, 0, 0, 0, 0, 0, (1 << 64) - 1)
    return (head + body + free + main + struct.pack("<QQ", last, transaction)).ljust(size, b"\0")


def file(pages: list[bytes], size: int = 4096, flags: int = 0, last: int | None = None, root: int = 2) -> bytes:
    """Return a file of these pages, from number 2 on, of which the first is the root."""
    content = b"".join(pages)
    end = len(content) // size + 1 if last is None else last
    return meta(0, 0, described((1 << 64) - 1), 1, size) + meta(1, 1, described(root, flags), end, size) + content
