"""Samples of folders and archives, written as shards: the work of ``queuecore convert``."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np

from queuecore._io import remote
from queuecore._io.names import local_text
from queuecore.cli.progress import counted
from queuecore.data import ImageFolderDataset, TarDataset, WholeFileDataset
from queuecore.errors import InvalidArgumentError
from queuecore.writers import TarWriter, TFRecordWriter

__all__ = ["Shards", "samples_of"]

Sample = dict[str, Any]

_WINDOW = 10_000
_COMPRESSIONS = {"gz": "GZIP", "tgz": "GZIP", "zst": "ZSTD", "lz4": "LZ4", "xz": "XZ", "bz2": "BZ2"}
_ARCHIVE = re.compile(rf"\.(tar|tgz)(\.({'|'.join(_COMPRESSIONS)}))?$", re.IGNORECASE)
_NUMBER = re.compile(r"%0?\d*d")
_SHARD_BYTES = 10**9


def samples_of(sources: list[str], keys: list[str], shuffle: bool, seed: int | None) -> Iterator[Sample]:
    """Yield the samples of a folder with a folder for each class, or of tar archives.

    Parameters
    ----------
    sources : list of str
        One folder, or archives: names, patterns, braces, URLs.
    keys : list of str
        Of archives: the keys that are taken.
    shuffle : bool
        Whether the order is drawn: of a folder that of all files, of archives that of a window of samples.
    seed : int, optional
        Of that order.

    Raises
    ------
    InvalidArgumentError
        If keys are missing, or given for a folder.
    """
    if len(sources) == 1 and not _ARCHIVE.search(sources[0]):
        if keys:
            raise InvalidArgumentError("--keys is for archives; a picture in a folder has its extension and cls")
        yield from _pictures(sources[0], shuffle, seed)
        return
    if not keys:
        raise InvalidArgumentError("--keys is needed for archives: --keys jpg,cls")
    word = _COMPRESSIONS.get(sources[0].rpartition(".")[2].lower())
    names: Any = sources[0] if len(sources) == 1 else sources
    archives = TarDataset(names, ["__key__", *keys], shuffle=shuffle, seed=seed, compression_type=word)
    yield from archives.shuffle(_WINDOW, seed) if shuffle else archives


def _pictures(root: str, shuffle: bool, seed: int | None) -> Iterator[Sample]:
    # Dots of a name would be taken for the beginning of its key, so pictures are numbered in their classes.
    folder = ImageFolderDataset(root)
    paths, labels = folder.file_paths, folder.targets
    order = np.random.default_rng(seed).permutation(len(paths)) if shuffle else range(len(paths))
    files = WholeFileDataset([paths[number] for number in order])
    for number, (_, content) in zip(order, files, strict=True):
        yield {
            "__key__": f"{folder.class_names[labels[number]]}/{number:08}",
            PurePath(paths[number]).suffix[1:].lower(): content,
            "cls": labels[number],
        }


class Shards:
    """Files of samples, one after the other. A local file has its name once it is whole.

    Parameters
    ----------
    target : str
        The name, or URL, of an archive (``.tar``) or of a TFRecord file of Examples (``.tfrecord``). With ``%06d`` in
        it there are as many as are needed.
    most_samples, most_bytes : int, optional
        After so many a file is full.
    overwrite : bool
        Whether files that are there are replaced.

    Raises
    ------
    InvalidArgumentError
        If the name is of no such file, has no number where it needs one, or is there.
    """

    def __init__(self, target: str, most_samples: int | None, most_bytes: int | None, overwrite: bool) -> None:
        self.count = self.samples = self.nbytes = 0
        self._records = target.endswith(".tfrecord")
        if not self._records and not target.endswith(".tar"):
            raise InvalidArgumentError(f"{target}: the target must end in .tar or .tfrecord")
        self._numbered = len(_NUMBER.findall(target)) == 1
        if not self._numbered and (most_samples or most_bytes):
            raise InvalidArgumentError(f"{target}: several files need a number in their name: train-%06d.tar")
        self._target = target if remote.is_url(os.fsencode(target)) else local_text(target)
        self._most_samples = most_samples or sys.maxsize
        self._most_bytes = most_bytes or (_SHARD_BYTES if self._numbered and not most_samples else sys.maxsize)
        self._overwrite = overwrite
        self._writer: TarWriter | TFRecordWriter | None = None
        self._name = ""
        self._own = [0, 0]  # samples and bytes of the file

    def write(self, samples: Iterable[Sample]) -> Generator[str, None, None]:
        """Write all samples; yield a line for each file."""
        last = None
        try:
            for sample in samples:
                nbytes = sum(len(value) for value in sample.values() if isinstance(value, bytes))
                if self._writer is not None and self._own[1] + nbytes > self._most_bytes:
                    yield self._finish()
                if self._writer is None:
                    self._begin()
                if sample["__key__"] == last:  # of two archives: they would be one sample
                    sample = {**sample, "__key__": sample["__key__"] + b"-%d" % self.samples}
                last = sample["__key__"]
                self._writer.write(_example(sample) if self._records else sample)  # type: ignore[union-attr, arg-type]
                self._own[0] += 1
                self._own[1] += nbytes
                self.samples += 1
                if self._own[0] >= self._most_samples:
                    yield self._finish()
            if self._writer is not None:
                yield self._finish()
        finally:
            self._abandon()

    def _begin(self) -> None:
        self._name = _NUMBER.sub(lambda match: match[0] % self.count, self._target) if self._numbered else self._target
        if not self._overwrite and not self._is_remote() and os.path.lexists(self._name):
            raise InvalidArgumentError(f"{self._name}: is there already; --overwrite replaces it")
        writer = TFRecordWriter if self._records else TarWriter
        self._writer = writer(self._name if self._is_remote() else f"{self._name}.part")
        self._own = [0, 0]

    def _is_remote(self) -> bool:
        return remote.is_url(os.fsencode(self._name))

    def _finish(self) -> str:
        if self._writer is not None:
            self._writer.close()
        if not self._is_remote():
            os.replace(f"{self._name}.part", self._name)
        self._writer = None
        self.count += 1
        self.nbytes += self._own[1]
        return f"{self._name}: {counted(self._own[0], 'sample')}, {self._own[1] / 1e6:,.1f} MB"

    def _abandon(self) -> None:
        # A file that isn't whole is not left behind.
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.__exit__(InterruptedError, None, None)
        finally:
            if not self._is_remote():
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._name}.part")


def _example(sample: Sample) -> bytes:
    from queuecore.tf1 import train

    features = {}
    for key, value in sample.items():
        if isinstance(value, int):
            features[key] = train.Feature(int64_list=train.Int64List(value=[value]))
        else:
            features[key] = train.Feature(bytes_list=train.BytesList(value=[os.fsencode(value)]))
    return train.Example(features=train.Features(feature=features)).SerializeToString()
