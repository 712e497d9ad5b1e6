"""Sources whose elements are handed in: what comes out of other datasets, of arrays, and of Python.

A node makes *chunks*. Most are rows of columns, as they lie in the batches of a native stream or in the user's arrays;
they are handed to the next stream without a copy. Where elements are whatever Python made of them, a chunk is a list of
objects, of which the native core moves the numbers only.

A node's chunks are made by one Python thread for each stream that is fed. It takes the GIL once a chunk, not once an
element; all work on rows (reading, decoding, stages, batches) is done by the native streams before and behind it.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import itertools
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from queuecore._core.pipeline import Feed, Scope, ShuffleCounter
from queuecore._core.sources import FileList
from queuecore._stages import Component, Stage, Structure
from queuecore.data._ops import Batch, Count, Permute, Repeat, Shuffle
from queuecore.data._plan import Made, made_by
from queuecore.data.options import Options
from queuecore.errors import UnavailableError

if TYPE_CHECKING:
    from queuecore._quarantine import Quarantine
    from queuecore.data.dataset import Dataset
    from queuecore.data.iterator import Iterator

__all__ = [
    "AnyChunk",
    "Chunk",
    "Layout",
    "Node",
    "Objects",
    "One",
    "Pairs",
    "Row",
    "Rows",
    "Run",
    "feeder_of",
    "reserved",
    "rest",
    "rows_of",
    "start_thread",
]

# An array of rows; or, of rows that vary in length, their bytes, where each ends (one more than there are rows), and
# None or their dimensions.
Column = np.ndarray[Any, Any] | tuple[Any, Any, Any]
# Of each shuffle its two seeds.
Pairs = list[tuple[int, int]]

_CHUNK_BYTES = 512 << 10
_CHUNK_ROWS = 16384
_NO_FILES = FileList([])
# What an endless dataset counts for where the passes of a shuffle are numbered.
_MANY = 1 << 20


class Rows(NamedTuple):
    """Elements as rows of columns, which nobody changes any more.

    Attributes
    ----------
    n : int
        How many.
    columns : list of Column
        As `queuecore._core.pipeline.Feed.hand` takes them.
    first : int
        Of the columns' rows, the first one that counts.
    rows : ndarray of int64, optional
        Which rows count instead, contiguous.
    """

    n: int
    columns: list[Column]
    first: int = 0
    rows: np.ndarray[Any, Any] | None = None

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand it in; False: no more is wanted."""
        return feed.hand(pass_, self.columns, self.n, owner=None, first=self.first, rows=self.rows)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the elements, which follow each other."""
        if self.rows is None:
            return Rows(stop - start, self.columns, self.first + start)
        return Rows(stop - start, self.columns, 0, self.rows[start:stop])

    def chosen(self, index: np.ndarray[Any, Any]) -> Rows:
        """Return the elements of an array of their numbers."""
        rows = self.first + index if self.rows is None else self.rows[index]
        return Rows(len(index), self.columns, 0, np.ascontiguousarray(rows, np.int64))


class Objects(NamedTuple):
    """Elements as Python objects."""

    elements: list[Any]

    @property
    def n(self) -> int:
        """How many."""
        return len(self.elements)

    def part(self, start: int, stop: int) -> Objects:
        """Return some of the elements, which follow each other."""
        return Objects(self.elements[start:stop])

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand it in; False: no more is wanted."""
        return feed.hand_objects(pass_, self.elements)


class One(NamedTuple):
    """An element as a Python object, handed in with others unless somebody waits for it."""

    element: Any

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand it in; False: no more is wanted."""
        return feed.add(pass_, self.element)


class Row(NamedTuple):
    """An element as a row of columns, handed in with others unless somebody waits for it.

    Attributes
    ----------
    columns : list of Column
        The same list for rows that follow each other, where that can be.
    row : int
        Its number.
    """

    columns: list[Column]
    row: int

    def hand(self, feed: Feed, pass_: int) -> bool:
        """Hand it in; False: no more is wanted."""
        return feed.add_row(pass_, self.columns, self.row)


Chunk = Rows | Objects
AnyChunk = TypeVar("AnyChunk", Rows, Objects, Chunk)
# What is handed in: chunks, or elements that become chunks on the way.
Piece = Chunk | One | Row


class Layout(NamedTuple):
    """What elements consist of.

    Attributes
    ----------
    components : tuple of Component, or None
        `None`: elements are Python objects.
    template : object
        Their structure over the indices of the components.
    structure : Structure, optional
        How a user sees them, where there is more to it.
    """

    components: tuple[Component, ...] | None
    template: Any = 0
    structure: Structure | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> Layout:
        """Return that of a dataset's elements."""
        if any(isinstance(op, Batch) for op in dataset._ops):
            return cls(None)
        if isinstance(dataset._source, Node) and dataset._source.layout().components is None:
            return cls(None)
        made = dataset._source.made(dataset._stages())
        return cls(made.given, made.template, made.structure)


@dataclass(frozen=True, eq=False)
class Node:
    """A source of elements that are handed in. Abstract; immutable.

    Attributes
    ----------
    inputs : tuple of Dataset
        What it takes its elements from.
    """

    name: ClassVar[str]

    inputs: tuple[Dataset, ...]

    files: ClassVar[FileList] = _NO_FILES
    num_threads: ClassVar[int | None] = None
    # Whether it takes its first input's first pass for all of its own.
    keeps: ClassVar[bool] = False

    def words(self) -> dict[str, Any]:
        """Return what decides its elements, besides the inputs, as plain values."""
        return {}

    def label(self) -> str:
        """Return what a user calls it, in one line."""
        return self.name

    def where(self) -> str:
        """Return where its work is done, and what forces it to be done in Python."""
        return "Python: hands on rows, a chunk at a time"

    def count(self, needed: int | None) -> Count:
        """Return the number of elements, or any number not below `needed` once that many are certain.

        Raises
        ------
        Unknown
            If only making them would tell.
        """
        raise NotImplementedError

    def streams(self) -> int:
        """Return how many native streams work for it at a time, which share what memory there is."""
        return sum(streams(dataset) for dataset in self.inputs)

    def layout(self) -> Layout:
        """Return what the elements consist of."""
        raise NotImplementedError

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        """Make the elements of a pass, from number `start` on; what went wrong is raised in its place."""
        raise NotImplementedError

    @property
    def by_number(self) -> bool:
        """Whether it has `chosen`."""
        return False

    def chosen(self, index: np.ndarray[Any, Any]) -> Chunk:
        """Return the elements of an array of their numbers, which are the same ones in every pass."""
        raise NotImplementedError

    def hand_in(self, run: Run, feed: Feed, pass_: int, start: int) -> bool:
        """Hand in the elements of a pass, from number `start` on; False: no more of it is wanted."""
        with contextlib.closing(self.chunks(run, pass_, start)) as chunks:
            return all(chunk.hand(feed, pass_) for chunk in chunks)

    def spec(self) -> Any:
        """Return the specification of an element that is a Python object; `None`: nobody knows."""
        return None

    def first_passes(self, pairs: Pairs) -> tuple[Pairs, list[int]] | None:
        """Return the seeds, and the numbers of passes, that the shuffles of its inputs, of these seeds, begin with.

        `None`: that is theirs to say.
        """
        del pairs
        return None

    def begins(self, pairs: Pairs, bases: list[int]) -> None:
        """Say what those of a new iterator begin with."""

    def describe(self) -> dict[str, Any]:
        """Return what decides the elements, as plain values."""
        inputs = [dataset._describe() for dataset in self.inputs]
        return {"source": self.name, **self.words(), **({"inputs": inputs} if inputs else {})}

    def made(self, stages: list[Stage]) -> Made:
        """Return what stages make of an element."""
        layout = self.layout()
        if layout.components is None:
            return Made(None, [("object", np.dtype(np.int64), ())], 0, None, lambda dims: self.spec(), (), None)
        return made_by(layout.components, layout.template, stages, layout.structure)

    def limited(self, max_record_bytes: int | None) -> Node:
        """Return this source: it reads no records itself."""
        del max_record_bytes
        return self

    def native(self, stages: list[Stage]) -> dict[str, Any]:
        """Return what the native stream takes."""
        made = self.made(stages)
        columns = made.components if not stages else self.made([]).components
        row_bytes = sum(row_bytes_of(one) for one in columns)
        blocks = {
            "framing": "rows",
            "encoding": 0,
            "max_record_bytes": 1,
            "guess": max(row_bytes, 1),
            "columns": columns,
        }
        return made.of_blocks(blocks)


def row_bytes_of(component: tuple[str, np.dtype[Any], tuple[Any, ...]]) -> int:
    """Return the bytes of a row of a native component, about."""
    kind, dtype, shape = component
    return dtype.itemsize * math.prod(shape) if kind == "fixed" else 64


class Run:
    """What the chunks of one iterator are made with: its options, its seeds, and the iterators over a node's inputs.

    Parameters
    ----------
    node : Node
        Whose chunks they are.
    options : Options
        Of the iterator; they hold for its inputs too, where these have none of their own.
    skips : Quarantine, optional
        Gets what is left out.
    budget : int
        Bytes of memory for each stream that works for it; 0: any.

    Attributes
    ----------
    scope : Scope
        In which functions of the user's run.
    """

    def __init__(
        self, node: Node, options: Options, skips: Quarantine | None, inner: bool = True, budget: int = 0
    ) -> None:
        self.options = options
        self.budget = budget
        self.skips = skips
        self.scope = Scope(inner, node)
        self._node = node
        self._pairs: Pairs = []
        self._bases: list[int] = []
        self._children = _Children()
        self._feed: Feed | None = None

    def of(self, feed: Feed) -> Run:
        """Return one for the chunks that go to this feed."""
        run = copy.copy(self)
        run._feed = feed
        return run

    def seed(self, pairs: Pairs, bases: list[int]) -> None:
        """Set the seeds of all shuffles of the inputs, and the numbers that their passes begin with."""
        self._pairs = pairs
        self._bases = bases

    def seeds(self) -> tuple[Pairs, list[int]]:
        """Return what `seed` set."""
        return self._pairs, self._bases

    def input(self, index: int) -> Dataset:
        """Return an input."""
        return self._node.inputs[index]

    def open(self, index: int, pass_: int, start: int = 0, batch: int = 0, skips: Quarantine | None = None) -> Iterator:
        """Return an iterator over an input, from element `start` on; of batches, if `batch` isn't 0. To be closed.

        What it leaves out goes to `skips`, if that is given.
        """
        dataset = self._node.inputs[index]
        at = sum(len(one._shuffles()) for one in self._node.inputs[:index])
        needs = iterations(dataset, again=True)
        upto = at + len(needs)
        bases = [base + pass_ * need for base, need in zip(self._bases[at:upto], needs, strict=True)]
        return self._open(dataset, self._pairs[at:upto], bases, start, batch, skips)

    def open_other(self, dataset: Dataset, number: int, start: int = 0, batch: int = 0) -> Iterator:
        """Return an iterator over a dataset that a function made, the `number`-th of its iterators. To be closed."""
        shuffles = dataset._shuffles()
        return self._open(dataset, [one.seeds.pair for one in shuffles], [number] * len(shuffles), start, batch)

    def _open(
        self,
        dataset: Dataset,
        pairs: Pairs,
        bases: list[int],
        start: int,
        batch: int,
        skips: Quarantine | None = None,
    ) -> Iterator:
        from queuecore.data.iterator import Iterator, Seeded

        skips = skips or self.skips
        # How many are left out before an element shows only when they are made: they are made again, and told again.
        again = start if skips is not None else 0
        if start and not again:
            dataset = dataset.skip(start)
        if batch:
            dataset = dataset._with(Batch(batch, False))
        budget = self.budget * streams(dataset)
        child = Iterator(dataset, Seeded(pairs, bases, self.options, skips, budget))
        self._children.add(child)
        # Whoever ends it does so first, and then looks for children.
        if self._children.ended or (self._feed is not None and self._feed.stopped):
            child._stop()
        if again:
            try:
                for _ in itertools.islice(child, again):
                    pass
            except BaseException:
                child.close()
                raise
        return child

    def rows(self, index: int, pass_: int, start: int = 0, skips: Quarantine | None = None) -> Generator[Rows]:
        """Yield the elements of an input in chunks of rows, from element `start` on."""
        size = chunk_rows(self._node.inputs[index], self.budget)
        if skips is None and self.skips is None:
            return rows_of(self.open(index, pass_, start, size))
        return rest(rows_of(self.open(index, pass_, 0, size, skips)), start)

    def rows_of(self, dataset: Dataset, number: int, start: int = 0, most: int = sys.maxsize) -> Generator[Rows]:
        """Yield the elements of a dataset that a function made, from element `start` on, in chunks of rows."""
        size = min(chunk_rows(dataset, self.budget), most)
        if self.skips is None:
            return rows_of(self.open_other(dataset, number, start, size))
        return rest(rows_of(self.open_other(dataset, number, 0, size)), start)

    def elements(self, index: int, pass_: int, start: int = 0, skips: Quarantine | None = None) -> Generator[Any]:
        """Yield the elements of an input, from number `start` on."""
        with self.open(index, pass_, start, 0, skips) as child:
            yield from child

    def seed_of(self, index: int, pass_: int) -> tuple[tuple[int, int], int]:
        """Return the seeds of an input's first shuffle, and the number of its pass in one of the node's."""
        at = sum(len(one._shuffles()) for one in self._node.inputs[:index])
        return self._pairs[at], self._bases[at] + pass_ * iterations(self._node.inputs[index])[0]

    def stop(self) -> None:
        """End every wait for an input. Never waits itself."""
        self._children.stop()

    def memory_bytes(self) -> int:
        """Return the bytes of the buffers of all streams that work for it."""
        return self._children.memory_bytes()

    def end(self) -> None:
        """As `stop`, and for good."""
        self.scope.stopped = True
        self._children.ended = True
        self._children.stop()


class _Children:
    """The iterators over inputs. No lock: the end may come out of the garbage collector, in any thread."""

    def __init__(self) -> None:
        self.ended = False
        self._alive: list[weakref.ref[Iterator]] = []

    def add(self, child: Iterator) -> None:
        self._alive = [one for one in self._alive if one() is not None]
        self._alive.append(weakref.ref(child))

    def memory_bytes(self) -> int:
        # One at a time: those that end meanwhile are not kept from it.
        return sum(child.stats()["memory_bytes"] for one in self._alive if (child := one()) is not None)

    def stop(self) -> None:
        for one in self._alive:
            child = one()
            if child is not None:
                child._stop()


def rest(chunks: Generator[AnyChunk], start: int) -> Generator[AnyChunk]:
    """Yield the elements from number `start` on."""
    with contextlib.closing(chunks):
        for chunk in chunks:
            if start < chunk.n:
                yield chunk.part(start, chunk.n) if start else chunk
            start = max(start - chunk.n, 0)


def rows_of(child: Iterator) -> Generator[Rows]:
    """Yield the batches of an iterator as rows, and close it."""
    with child:
        while True:
            try:
                n, columns = child.next_columns()
            except StopIteration:
                return
            yield Rows(n, columns)


def streams(dataset: Dataset) -> int:
    """Return how many native streams a dataset is at a time."""
    return 1 + (dataset._source.streams() if isinstance(dataset._source, Node) else 0)


def chunk_rows(dataset: Dataset, budget: int = 0) -> int:
    """Return how many elements of a dataset make a chunk of rows, within a budget of memory."""
    made = dataset._source.made(dataset._stages())
    row_bytes = sum(row_bytes_of(one) for one in made.components)
    chunk_bytes = min(_CHUNK_BYTES, budget // 32) if budget else _CHUNK_BYTES
    return max(min(chunk_bytes // max(row_bytes, 1), _CHUNK_ROWS), 1)


def iterations(dataset: Dataset, again: bool = False) -> list[int]:
    """Return, for each shuffle of a dataset and its inputs, how many of its passes one pass over the dataset takes.

    `again`: one more pass, for which what is kept needs none.
    """
    needs: list[int] = []
    after = 1
    for op in reversed(dataset._ops):
        if isinstance(op, Repeat):
            after *= _MANY if op.number < 0 else max(op.number, 1)
        elif isinstance(op, Shuffle | Permute):
            needs.insert(0, after)
    if isinstance(dataset._source, Node):
        for index, one in enumerate(dataset._source.inputs):
            times = int(not again) if dataset._source.keeps and index == 0 else after
            needs += [times * need for need in iterations(one, again)]
    return needs


def reserved(node: Node, needs: list[int]) -> list[int]:
    """Return, for each shuffle of a node's inputs, the number of its first pass; all that one run needs are taken."""
    shuffles = [shuffle for dataset in node.inputs for shuffle in dataset._shuffles()]
    first = node.first_passes([one.seeds.pair for one in shuffles])
    if first is not None:
        for shuffle, pair in zip(shuffles, first[0], strict=True):
            if shuffle.seeds.pair != pair:
                shuffle.seeds.pair = pair
                shuffle.seeds.counter = ShuffleCounter()
        return first[1]
    bases: list[int] = []
    for dataset in node.inputs:
        for op in dataset._ops:
            if isinstance(op, Shuffle | Permute):
                bases.append(op.seeds.counter.next_iteration)
                op.seeds.counter.next_iteration += needs[len(bases) - 1]
        if isinstance(dataset._source, Node):
            bases += reserved(dataset._source, needs[len(bases) :])
    node.begins([one.seeds.pair for one in shuffles], bases)
    return bases


def feeder_of(node: Node, run: Run) -> Any:
    """Return what starts a thread that hands in the chunks of a node. It doesn't keep the iterator alive."""

    def feeder(feed: Feed) -> None:
        start_thread(f"qc-{node.name}", _hand_in, node, run, feed)

    return feeder


def start_thread(name: str, work: Callable[..., None], *arguments: Any) -> None:
    """Start a daemon thread of Python's.

    Raises
    ------
    UnavailableError
        If the system has none.
    """
    try:
        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
    except RuntimeError as error:
        raise UnavailableError(
            f"cannot start the thread {name}: {os.strerror(errno.EAGAIN)}. This process has "
            f"{threading.active_count()} threads of Python; the system's limits are ulimit -u and memory",
            errno=errno.EAGAIN,
            stage="runner",
        ) from error


def _hand_in(node: Node, run: Run, feed: Feed) -> None:
    run = run.of(feed)
    before = run.scope.enter()
    try:
        _hand_in_passes(node, run, feed)
    finally:
        Scope.leave(before)


def _hand_in_passes(node: Node, run: Run, feed: Feed) -> None:
    after = -1
    while (wanted := feed.next_pass(after)) is not None:
        after, start = wanted
        try:
            if node.hand_in(run, feed, after, start):
                feed.end(after)
        except BaseException as error:  # whatever it is, it comes out in its place, in the consumer's thread
            feed.end(after, error)
