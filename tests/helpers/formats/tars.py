"""Tar archives of samples, written by Python's tarfile, and the samples that a reader must find in them."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Iterable, Iterator

__all__ = ["FORMATS", "archive", "members_of", "samples", "samples_of"]

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
Member = tuple[str, bytes]


def archive(members: Iterable[Member], form: str = "ustar", ended: bool = True) -> bytes:
    """Return an archive of files. ended: with the blocks of zeros, up to a whole record of tar."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=FORMATS[form], errors="surrogateescape") as tar:
        for name, content in members:
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
        written = tar.offset
    return packed.getvalue() if ended else packed.getvalue()[:written]


def samples(count: int, state: random.Random, keys: tuple[str, ...] = ("txt", "cls")) -> list[dict[str, bytes]]:
    """Return so many samples, some of them in folders, some with long names, of files of all sizes."""
    members = []
    for number in range(count):
        folder = state.choice(["", "a/", "a.b/c/", "é" * 60 + "/", "long/" * 30])
        sample = {"__key__": f"{folder}{number:05}".encode()}
        for key in keys:
            sample[key] = state.randbytes(state.choice([0, 1, 30, 511, 512, 513]) if state.random() < 0.5 else 3)
        members.append(sample)
    return members


def members_of(wanted: Iterable[dict[str, bytes]]) -> Iterator[Member]:
    """Yield the files of samples."""
    for sample in wanted:
        for key, content in sample.items():
            if key != "__key__":
                yield f"{sample['__key__'].decode()}.{key}", content


def samples_of(data: bytes, keys: Iterable[str]) -> Iterator[dict[str, bytes]]:
    """Yield what an archive has by WebDataset's convention, as Python's tarfile reads it."""
    sample: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        for member in tar:
            folder, slash, name = member.name.rpartition("/")
            stem, dot, key = name.partition(".")
            if not member.isreg() or not dot or not stem:
                continue
            stem = (folder + slash + stem).encode(errors="surrogateescape")
            if sample and sample["__key__"] != stem:
                yield {key: sample[key] for key in keys}
                sample = {}
            content = tar.extractfile(member)
            sample |= {"__key__": stem, key.lower(): content.read() if content else b""}
    if sample:
        yield {key: sample[key] for key in keys}
