"""Random pipelines over files of numbers, each with the numbers that it must deliver, computed by NumPy alone."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import queuecore as qc
from queuecore.data import Dataset

Array = npt.NDArray[np.int64]

FILES = 8
FEW = 20_000  # what Python's functions and other slow steps are given
COUNTS = {"fixed": 1 << 24, "arrays": 1 << 20, "lines": 150_000, "tfrecords": 150_000, "packed": 60_000}

# Record number i holds i * FACTOR modulo 2**40: of a million numbers with a wrong byte, one is another record's, and a
# number tells its record without a table.
MASK = (1 << 40) - 1
FACTOR = 0x9E3779B1
_INVERSE = np.uint64(pow(FACTOR, -1, MASK + 1))


def contents(numbers: Array) -> Array:
    """Return what the records of these numbers hold."""
    return numbers * FACTOR & MASK


def numbers(contents: Array) -> Array:
    """Return the numbers of the records that hold this."""
    return ((contents.astype(np.uint64) * _INVERSE) & np.uint64(MASK)).astype(np.int64)


def write(folder: pathlib.Path) -> None:
    """Write the same numbers as files of every kind, of unlike lengths; the fourth file is empty."""
    for kind, count in COUNTS.items():
        ends = (np.array([0, 0.05, 0.3, 0.31, 0.31, 0.6, 0.61, 0.9, 1]) * count).astype(int)
        for index in range(FILES):
            part = contents(np.arange(ends[index], ends[index + 1]))
            path = folder / f"{kind}-{index}"
            if kind == "fixed":
                path.write_bytes(part.tobytes())
            elif kind == "arrays":
                np.save(f"{path}.npy", part)
            elif kind == "lines":
                path.write_text("".join(f"{x}\n" for x in part))
            else:
                with qc.TFRecordWriter(path, "GZIP" if kind == "packed" else "") as writer:
                    for x in part:
                        writer.write(struct.pack("<q", x))


def source(kind: str, folder: pathlib.Path) -> Dataset:
    """Return the records of one kind, in order."""
    pattern = f"{folder}/{kind}-*"
    if kind == "fixed":
        return qc.data.FixedLengthRecordDataset(pattern, record=np.dtype("<i8"))
    if kind == "arrays":
        return qc.data.NumpyDataset(pattern)
    if kind == "lines":
        return qc.data.TextLineDataset(pattern).map(qc.ops.decode_csv(record_defaults=[np.int64]))
    decode = qc.ops.decode_raw(out_type=np.int64, fixed_length=8)
    return qc.data.TFRecordDataset(pattern, "GZIP" if kind == "packed" else None).map(decode).map(lambda x: x[0])


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A dataset of numbers, and what it must deliver.

    Attributes
    ----------
    dataset : Dataset
    expected : int64 array
        All numbers, in order before the first shuffle.
    ordered : bool
        Whether they come in that order.
    added : int
        What was added to each number that a record holds.
    missing : int
        How many of them, any, do not come: the rest of a batch that is dropped.
    text : str
        The steps, to be read.
    """

    dataset: Dataset
    expected: Array
    text: str
    ordered: bool = True
    added: int = 0
    missing: int = 0

    def then(self, step: str, dataset: Dataset, expected: Array | None = None, **changed: Any) -> Pipeline:
        """Return the pipeline with one step more."""
        return dataclasses.replace(
            self,
            dataset=dataset,
            expected=self.expected if expected is None else expected,
            text=f"{self.text}.{step}",
            **changed,
        )


Step = Callable[[random.Random, Pipeline], Pipeline]


def _slow_odd(x: Any) -> bool:
    return int(x) % 2 == 1  # not traced: no tracer follows int()


def _slow_more(x: Any) -> Any:
    return np.int64(int(x) + 1)


def _take(state: random.Random, p: Pipeline) -> Pipeline:
    count = state.randrange(len(p.expected) + 2)
    return p.then(f"take({count})", p.dataset.take(count), p.expected[:count])


def _skip(state: random.Random, p: Pipeline) -> Pipeline:
    count = state.randrange(len(p.expected) // 2 + 2)
    return p.then(f"skip({count})", p.dataset.skip(count), p.expected[count:])


def _shard(state: random.Random, p: Pipeline) -> Pipeline:
    count = state.randint(1, 5)
    index = state.randrange(count)
    return p.then(f"shard({count}, {index})", p.dataset.shard(count, index), p.expected[index::count])


def _filter(state: random.Random, p: Pipeline) -> Pipeline:
    divisor = state.randint(2, 9)
    kept = p.expected[p.expected % divisor != 1]
    return p.then(f"filter(x % {divisor} != 1)", p.dataset.filter(lambda x: x % divisor != 1), kept)


def _add(state: random.Random, p: Pipeline) -> Pipeline:
    more = state.randint(1, 1000)
    return p.then(f"map(x + {more})", p.dataset.map(lambda x: x + more), p.expected + more, added=p.added + more)


def _repeat(state: random.Random, p: Pipeline) -> Pipeline:
    count = state.randint(2, 3)
    return p.then(f"repeat({count})", p.dataset.repeat(count), np.tile(p.expected, count))


def _concatenate(state: random.Random, p: Pipeline) -> Pipeline:
    first = state.randrange(len(p.expected) + 1)
    both = p.dataset.take(first).concatenate(p.dataset.skip(first // 2))
    return p.then(f"+{first}", both, np.concatenate([p.expected[:first], p.expected[first // 2 :]]))


def _cache(state: random.Random, p: Pipeline) -> Pipeline:
    return p.then("cache()", p.dataset.cache())


def _filter_in_python(state: random.Random, p: Pipeline) -> Pipeline:
    return p.then("filter(Python)", p.dataset.filter(_slow_odd), p.expected[p.expected % 2 == 1])


def _map_in_python(state: random.Random, p: Pipeline) -> Pipeline:
    calls = state.choice([None, 2, 3])
    dataset = p.dataset.map(_slow_more, num_parallel_calls=calls)
    return p.then(f"map(Python, {calls})", dataset, p.expected + 1, added=p.added + 1)


# The effect of these follows from the order of what they are given; that of OF_NUMBERS from the numbers alone.
OF_ORDER: list[Step] = [_take, _skip, _shard, _concatenate]
OF_NUMBERS: list[Step] = [_filter, _add, _repeat]
OF_FEW: list[Step] = [_cache, _filter_in_python, _map_in_python]


def draw(
    state: random.Random, folder: pathlib.Path, few: bool = False, last: Callable[[Dataset], Dataset] | None = None
) -> Pipeline:
    """Return a random pipeline whose elements are batches.

    Parameters
    ----------
    state : random.Random
        Decides everything.
    folder : Path
        What `write` wrote, or copies of a part of it.
    few : bool
        No more records than Python's functions can go through in a second.
    last : function, optional
        What is done to the dataset before its batches; it must change no number.
    """
    kind = state.choice([kind for kind in COUNTS if any(folder.glob(f"{kind}-*"))])
    count = COUNTS[kind]
    p = Pipeline(source(kind, folder), contents(np.arange(count)), kind)
    if few or state.random() < 0.3:
        first, few = state.randrange(count), True
        p = p.then(f"skip({first}).take({FEW})", p.dataset.skip(first).take(FEW), p.expected[first : first + FEW])
    for _ in range(state.randrange(4)):
        steps = OF_ORDER + OF_NUMBERS + (OF_FEW if few else [])
        p = _within(state.choice(steps)(state, p), p)
    if state.random() < 0.5:
        buffer, seed = state.choice([2, 50, 1000, 30_000]), state.randrange(1 << 20)
        p = p.then(f"shuffle({buffer}, {seed})", p.dataset.shuffle(buffer, seed), ordered=False)
        if state.random() < 0.5:
            p = _within(state.choice(OF_NUMBERS + (OF_FEW if few else []))(state, p), p)
    if last is not None:
        p = p.then("last", last(p.dataset))
    size = state.choice([1, 7, 64, 1000] if few else [512, 4096, 65536])
    drop = state.random() < 0.2
    rest = len(p.expected) % size if drop else 0
    kept = p.expected[: len(p.expected) - rest] if p.ordered else None
    return p.then(
        f"batch({size}, {drop})",
        p.dataset.batch(size, drop_remainder=drop),
        kept,
        missing=0 if p.ordered else rest,
    )


def _within(after: Pipeline, before: Pipeline) -> Pipeline:
    # Of three repeats of three no round would come to its end.
    return after if len(after.expected) <= 2 * COUNTS["fixed"] else before
