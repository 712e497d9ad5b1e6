"""One pipeline of every kind of step, over a source that may come to a halt: what tests of faults go through."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from helpers.data.chains import threads, write_files
from helpers.data.functions import in_python
from helpers.data.matrix import numbers_in
from helpers.data.nodes import made
from helpers.process import PATIENCE

from queuecore._elements.component import Component
from queuecore.data import INFINITE_CARDINALITY, Dataset, FixedLengthRecordDataset
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.made import Layout
from queuecore.data._rows.chunks import Rows

COUNT = 60
HALT = 20  # the number before which it halts


class Gate:
    """Where a source waits while it is closed."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.opened.set()

    def wait(self) -> None:
        """Wait, as a slow function of the user's does."""
        self.reached.set()
        assert self.opened.wait(3 * PATIENCE)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Have it closed from now on, and opened at the end: no thread may be left."""
        self.reached.clear()
        self.opened.clear()
        try:
            yield
        finally:
            self.opened.set()


@dataclass(frozen=True, eq=False)
class Halting(Node):
    """The numbers up to COUNT as rows; before HALT it waits at a gate."""

    name = "halting"

    gate: Gate | None

    def count(self, min_count: int | None) -> int:
        return COUNT

    def layout(self) -> Layout:
        return Layout((Component(np.dtype(np.int64), ()),))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows]:
        while start < COUNT:
            if start == HALT and self.gate is not None:
                self.gate.wait()
            stop = HALT if start < HALT else COUNT
            yield Rows(stop - start, [np.arange(start, stop)])
            start = stop


def rows(gate: Gate | None = None) -> Dataset:
    """The numbers up to COUNT, as rows; with a gate before HALT."""
    return made(Halting((), gate))


def objects(gate: Gate | None = None) -> Dataset:
    """The same as Python objects, out of a generator."""

    def generate() -> Iterator[int]:
        for x in range(COUNT):
            if x == HALT and gate is not None:
                gate.wait()
            yield x

    return Dataset.from_generator(generate)


def file(folder: pathlib.Path) -> Dataset:
    """The same as records of a file."""
    return FixedLengthRecordDataset(write_files(folder, [np.arange(COUNT).tobytes()]), record=np.dtype("<i8"))


SOURCES: dict[str, Callable[..., Dataset]] = {"rows": rows, "objects": objects}

even = in_python(lambda x: bool(x % 2 == 0))
double = in_python(lambda x: 2 * x)


def _few(x: Any) -> Dataset:
    return Dataset.range(int(x), int(x) + 3)


def _few_objects(x: Any) -> Dataset:
    return Dataset.range(int(x), int(x) + 3).map(double)


def _counted(ds: Dataset) -> int:
    # What a test repeats without end has no number.
    return INFINITE_CARDINALITY if ds.cardinality() == INFINITE_CARDINALITY else COUNT


KINDS: dict[str, Callable[[Dataset], Dataset]] = {
    "nothing": lambda ds: ds,
    "repeat, batch": lambda ds: ds.repeat(2).batch(7),
    "take, skip": lambda ds: ds.skip(3).take(50),
    "shuffle": lambda ds: ds.shuffle(9, 1, False).batch(2),
    "shuffled batches": lambda ds: ds.batch(2).shuffle(3, 1, False).prefetch(2),
    "shard": lambda ds: ds.shard(2, 1, uneven="drop"),
    "native map": lambda ds: ds.map(lambda x: x * 3 + 1).batch(4),
    "map": lambda ds: ds.map(double).batch(3),
    "map in threads": lambda ds: ds.map(double, 3),
    "map of batches": lambda ds: ds.batch(4).map(double, 2),
    "map and batch": lambda ds: ds.map_and_batch(double, 4, num_parallel_calls=2),
    "native filter": lambda ds: ds.filter(lambda x: x % 2 == 0).batch(2),
    "filter": lambda ds: ds.filter(even).batch(2),
    "take while": lambda ds: ds.take_while(in_python(lambda x: bool(x < 55))),
    "unique": lambda ds: ds.map(lambda x: x // 2).unique(),
    "scan": lambda ds: ds.scan(0, lambda total, x: (total + x, total + x)).batch(2),
    "padded batch": lambda ds: ds.padded_batch(3),
    "ragged batch": lambda ds: ds.dense_to_ragged_batch(3),
    "buckets": lambda ds: ds.bucket_by_sequence_length(lambda x: int(x) % 5, [2, 4], [3, 2, 4]),
    "cache": lambda ds: ds.cache().repeat(2),
    "zip": lambda ds: Dataset.zip(ds, ds.skip(1)),
    "enumerate": lambda ds: ds.enumerate().batch(2),
    "concatenate": lambda ds: ds.take(4).concatenate(ds),
    "unbatch": lambda ds: ds.batch(4).unbatch(),
    "rebatch": lambda ds: ds.batch(4).rebatch(3),
    "rebatch in turns": lambda ds: ds.batch(4).rebatch([3, 1]),
    "groups": lambda ds: ds.group_by_window(lambda x: x % 3, lambda key, window: window.batch(4), 4),
    "resampled": lambda ds: ds.rejection_resample(lambda x: x % 2, [0.7, 0.3], [0.5, 0.5], 1).batch(2),
    "sparse batch": lambda ds: ds.sparse_batch(4, []).map(in_python(lambda x: x.values)),
    "as many": lambda ds: ds.assert_cardinality(_counted(ds)).batch(2),
    "windows": lambda ds: ds.window(3, 2).flat_map(lambda window: window.batch(3)),
    "windows of elements": lambda ds: ds.window(3, 2).flat_map(lambda window: window),
    "flat map": lambda ds: ds.flat_map(_few),
    "interleave": lambda ds: ds.interleave(_few, 3, 2),
    "parallel interleave": lambda ds: ds.interleave(_few_objects, 3, num_parallel_calls=2),
    "choose": lambda ds: Dataset.choose_from_datasets([ds, ds.skip(2)], Dataset.range(2).repeat()),
    "sample": lambda ds: Dataset.sample_from_datasets([ds, ds], [0.5, 0.5], seed=1),
    "errors ignored": lambda ds: ds.map(_checked, 2).ignore_errors(),
}


def halting(name: str, source: str, gate: Gate) -> Dataset:
    """A pipeline that waits at a gate while elements are read, and not before."""
    ds = KINDS[name](SOURCES[source](gate))
    _ = ds.element_spec  # some find out now what the first element is
    return ds


def _checked(x: Any) -> int:
    if int(x) % 7 == 3:
        raise ValueError(x)
    return int(x)


def all_of(ds: Dataset) -> list[list[int]]:
    """The elements of a run that nothing disturbs, each as its numbers."""
    with iter(threads(ds, 1)) as it:
        return [list(numbers_in(x)) for x in it]
