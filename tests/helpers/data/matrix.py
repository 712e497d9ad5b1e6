"""One pipeline for every stage, for tests of saved places."""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from helpers.data.nodes import Through, made

import queuecore as qc
from queuecore.data import Dataset

COUNT = 240
FILES = 4


def write(folder: pathlib.Path) -> pathlib.Path:
    """Write the numbers from 0 to COUNT as files of every kind."""
    for index, part in enumerate(np.array_split(np.arange(COUNT, dtype=np.int64), FILES)):
        (folder / f"{index}.bin").write_bytes(part.tobytes())
        columns = np.stack([part, part + COUNT], axis=1)  # of every other file, columns lie together
        np.save(folder / f"{index}.npy", np.asfortranarray(columns) if index % 2 else columns)
        (folder / f"{index}.txt").write_text("".join(f"{x}\n" for x in part))
        with qc.TFRecordWriter(folder / f"{index}.tfrecord") as writer:
            for x in part:
                writer.write(struct.pack("<q", x))
        with qc.TFRecordWriter(folder / f"{index}.gz", "GZIP") as writer:
            for x in part:
                writer.write(struct.pack("<q", x))
    return folder


def fixed(folder: pathlib.Path) -> Dataset:
    return qc.data.FixedLengthRecordDataset(f"{folder}/*.bin", record=np.dtype("<i8"))


def _arrays(folder: pathlib.Path) -> Dataset:
    return qc.data.NumpyDataset(f"{folder}/*.npy").map(lambda row: row[0])


def lines(folder: pathlib.Path) -> Dataset:
    """Return the lines, as numbers."""
    return qc.data.TextLineDataset(f"{folder}/*.txt").map(qc.ops.decode_csv(record_defaults=[np.int64]))


def tfrecords(folder: pathlib.Path) -> Dataset:
    """Return the records, as numbers."""
    return qc.data.TFRecordDataset(f"{folder}/*.tfrecord").map(qc.ops.decode_raw(out_type=np.int64, fixed_length=8))


def packed(folder: pathlib.Path) -> Dataset:
    """Return the compressed records, as numbers."""
    decode = qc.ops.decode_raw(out_type=np.int64, fixed_length=8)
    return qc.data.TFRecordDataset(f"{folder}/*.gz", "GZIP").map(decode)


# In Python: no tracer follows int().
def _odd(x: Any) -> bool:
    return int(x) % 2 == 1


def _doubled(x: Any) -> int:
    return 2 * int(x)


def _doubled_batch(batch: Any) -> Any:
    return batch + [int(x) for x in batch]


def _checked(x: Any) -> int:
    if int(x) % 11 == 4:
        raise ValueError(x)
    return int(x)


def _generate() -> Iterator[int]:
    yield from range(COUNT)


def _rest(x: Any) -> int:
    return int(x) % 5


def _chained(shards: Dataset) -> Dataset:
    return shards.shuffle(9, seed=1).flat_map(lambda shard: shard)


def _shards(ds: Dataset, folder: pathlib.Path) -> Dataset:
    kept = ds.snapshot(folder / "shards", shard_func=_rest, reader_func=_chained)
    for _ in kept:  # the pass that writes has another order
        pass
    return kept


Make = Callable[[pathlib.Path], Dataset]

PIPELINES: dict[str, Make] = {
    "fixed": lambda folder: fixed(folder).batch(7),
    "fixed, shuffled": lambda folder: fixed(folder).shuffle(50, seed=3).repeat(2).batch(7),
    "fixed, repeated, shuffled": lambda folder: fixed(folder).repeat(2).shuffle(50, seed=3).batch(7),
    "arrays": lambda folder: _arrays(folder).repeat(2).batch(7),
    "arrays, shuffled": lambda folder: _arrays(folder).shuffle(50, seed=3).repeat(2).batch(7),
    "lines": lambda folder: lines(folder).skip(5).batch(7),
    "lines, shuffled": lambda folder: lines(folder).shuffle(50, seed=3).repeat(2).batch(7),
    "tfrecords": lambda folder: tfrecords(folder).repeat(2).batch(7, drop_remainder=True),
    "tfrecords, shuffled": lambda folder: tfrecords(folder).shuffle(50, seed=3).repeat(2).batch(7),
    "compressed, shuffled": lambda folder: packed(folder).shuffle(50, seed=3).take(200).repeat(2).batch(7),
    "rows through a node": lambda folder: made(Through((fixed(folder).shuffle(20, seed=1),))).repeat(2).batch(7),
    "cached": lambda folder: fixed(folder).shuffle(50, seed=3).cache().repeat(3).batch(7),
    "cached in files": lambda folder: lines(folder).shuffle(50, seed=3).cache(folder / "kept").repeat(2).batch(7),
    "cached, shuffled": lambda folder: fixed(folder).cache().shuffle(50, seed=3).repeat(2).batch(7),
    "batches cached": lambda folder: lines(folder).batch(7).cache().repeat(3),
    "snapshot": lambda folder: fixed(folder).batch(7).snapshot(folder / "kept").repeat(3),
    "snapshot in shards": lambda folder: _shards(fixed(folder), folder).repeat(3).batch(7),
    "permuted numbers": lambda folder: Dataset.range(COUNT).permute(seed=3).map(_doubled).repeat(2).batch(7),
    "padded shard": lambda folder: lines(folder).shuffle(50, seed=3).shard(7, 6, uneven="pad").repeat(2).batch(7),
    "filtered": lambda folder: lines(folder).shuffle(50, seed=3).filter(lambda x: x % 3 > 0).repeat(2).batch(7),
    "filtered in Python": lambda folder: fixed(folder).filter(_odd).shuffle(50, seed=3).repeat(2).batch(7),
    "mapped in Python": lambda folder: fixed(folder).shuffle(50, seed=3).map(_doubled).repeat(2).batch(7),
    "mapped in threads": lambda folder: lines(folder).batch(3).map(_doubled_batch, 3).shuffle(9, seed=1).repeat(2),
    "a generator": lambda folder: Dataset.from_generator(_generate).shuffle(50, seed=3).batch(7).repeat(2),
    "errors ignored": lambda folder: fixed(folder).map(_checked, 2).ignore_errors().shuffle(50, seed=3).batch(7),
    "traced": lambda folder: tfrecords(folder).map(lambda x: x * 2 // 2).batch(7),
}


def numbers_in(element: Any) -> Iterator[int]:
    """The numbers of an element, in order."""
    if isinstance(element, (tuple, list)):
        for part in element:
            yield from numbers_in(part)
    elif isinstance(element, dict):
        for part in element.values():
            yield from numbers_in(part)
    elif isinstance(element, (bytes, str)):
        yield int(element)
    elif isinstance(element, qc.Ragged):
        yield from numbers_in(element.to_list())
    else:
        yield from (int(x) for x in np.asarray(element).ravel())
