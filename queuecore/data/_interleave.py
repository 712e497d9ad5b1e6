"""Datasets that a function makes of elements, a few of them at a time, in turns.

Each dataset that the function returns is a native stream of its own, which reads ahead of its turn from the moment it
begins. Here only the turns are taken: rows that several streams made are put together a chunk at a time.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from queuecore._core.sources import FileList
from queuecore._quarantine import Quarantine, is_bad_data
from queuecore._stages import BYTES, structure_of
from queuecore.data._arrays import Items, Numbers, Slices
from queuecore.data._blocks import BlockSource, blocks_of_fixed
from queuecore.data._calls import name_of
from queuecore.data._columns import compacted, joined, typed
from queuecore.data._combine import general_spec
from queuecore.data._lazy import lazy
from queuecore.data._nodes import Chunk, Layout, Node, Objects, Rows, Run, chunk_rows, rows_of, streams
from queuecore.data._ops import Batch, Prefetch, Repeat, Shard, Shuffle, Skip, Take
from queuecore.data._pad import Padded
from queuecore.data._permute import Permuted, numbers_at
from queuecore.data._plan import NativeComponent, _native
from queuecore.data._reading import MOST_OBJECTS, known_count, objects_of
from queuecore.data._source import FixedLengthSource, Unknown
from queuecore.data.options import Options
from queuecore.errors import DtypeError, PipelineError, QueueCoreError
from queuecore.ragged import Ragged

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset
    from queuecore.data.iterator import Iterator

__all__ = ["Interleave", "of_names", "uniform"]

# Of datasets, where the passes of the shuffles in them are numbered.
_MANY = 1 << 20
# Rows that are put together at once, and turns from which that is worth it.
_MOST_ROWS = 1 << 16
_LEAST_TURNS = 32
_MOST_TURNS = 256
_PATIENCE = 0.002
# Seconds that what is pending may wait for what comes after it.
_MOMENT = 100e-6
# Rows in memory that are batched without a stream.
_FEW_ROWS = 4096
_CHAR = np.dtype("S1")
# Of a chunk of records.
_CHUNK_BYTES = 512 << 10
# Files of which a stream is made: each pass takes their names.
_MOST_FILES = 1 << 20
# Names that any function is called with beforehand, to find out whether it makes the same of each.
_MOST_NAMES = 1000
# Elements that are left out before nobody knows what the others are.
_MOST_TRIED = 100


@dataclass(frozen=True, eq=False)
class Interleave(Node):
    """The elements of datasets that a function makes of elements, in turns.

    Attributes
    ----------
    method : str
        What the user called.
    function : callable
        From an element to a dataset.
    cycle, block : int
        How many datasets take turns, and how many elements each gives in its turn.
    begun : int
        How many are begun at a time, before their turn too; 0: each when its turn comes.
    sloppy : bool or None
        Whether a dataset whose elements aren't ready loses its turn; `None`: as the options say.
    """

    name: ClassVar[str] = "interleave"

    method: str
    function: Callable[..., Any]
    cycle: int
    block: int
    begun: int = 0
    sloppy: bool | None = False

    def words(self) -> dict[str, Any]:
        return {"function": name_of(self.function), "cycle_length": self.cycle, "block_length": self.block}

    def label(self) -> str:
        return f"{self.method}({name_of(self.function)}, {self.cycle}, {self.block})"

    def count(self, needed: int | None) -> int:
        raise Unknown

    @lazy
    def first(self) -> Dataset | None:
        """What the function makes of the first element; `None`: of that nothing can be made."""
        from queuecore.data.iterator import Iterator, Seeded

        dataset = self.inputs[0]
        shuffles = dataset._shuffles()
        skips = Quarantine(None, None) if dataset._options.on_error == "skip" else None
        seeded = Seeded([one.seeds.pair for one in shuffles], [0] * len(shuffles), Options(), skips)
        number = 0
        while True:
            try:
                with Iterator(dataset.skip(number).take(1), seeded) as elements:
                    for element in elements:
                        return self.child_of(element, number)
                return None
            except QueueCoreError as error:
                # It comes out where it belongs, when elements are asked for; or is left out then. What is no fault of
                # the data may be another time.
                if not is_bad_data(error):
                    raise
                if skips is None or number == _MOST_TRIED:
                    return None
            number += 1

    def streams(self) -> int:
        """Return how many there are of the input and of all datasets that are begun at a time."""
        return super().streams() + max(self.cycle, self.begun) * (1 if self.first is None else streams(self.first))

    def layout(self) -> Layout:
        return Layout(None) if self.first is None else Layout.of(self.first)

    def spec(self) -> Any:
        return None if self.first is None else general_spec([self.first], self.method)

    def child_of(self, element: Any, number: int) -> Dataset:
        """Return the dataset of an element.

        Raises
        ------
        PipelineError
            If the function raises: that exception is the ``__cause__``. `KeyboardInterrupt` and `SystemExit` come out
            as they are.
        DtypeError
            If it returns something else.
        """
        from queuecore.data.dataset import Dataset

        name = name_of(self.function)
        try:
            made = self.function(*element) if type(element) is tuple else self.function(element)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise PipelineError(
                f"{self.method}: {name} raised {type(error).__name__}: {error} (element {number})",
                stage=self.method,
                record=number,
            ) from error
        if not isinstance(made, Dataset):
            raise DtypeError(
                f"{self.method}: {name} must return a dataset, not {made!r:.60} (element {number})",
                stage=self.method,
                record=number,
            )
        return made

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Chunk]:
        turns = _Turns(self, run, pass_, start)
        try:
            yield from turns.chunks()
        finally:
            turns.close()


class _Child:
    """A dataset that takes turns.

    Attributes
    ----------
    left : int
        Elements that were read and not given; while elements are only counted, all that there are.
    """

    def __init__(self, run: Run, dataset: Dataset, number: int, layout: Layout, threads: int | None) -> None:
        self.left = 0
        self.ended = False
        self.taken = 0
        self.error: BaseException | None = None
        self.columns: list[Any] = []
        self.first = 0
        self._run = run
        self._dataset = dataset
        if threads is not None and dataset._options.num_threads is None and run.options.num_threads is None:
            self._dataset = dataset.with_options(Options(num_threads=threads))
        self._number = number
        self._rows = layout.components is not None
        self._iterator: Iterator | None = None
        self._chunks: Generator[Any] | None = None
        self.total: int | float | None = None

    def begin(self) -> None:
        """Let it read ahead, from where it is."""
        if self._chunks is not None or self.error is not None:
            return
        try:
            self._chunks = _at_hand(self._dataset, self._run, self.taken)
            if self._chunks is not None:
                return
            batch = chunk_rows(self._dataset, self._run.budget) if self._rows else 0
            self._iterator = self._run.open_other(self._dataset, self._number, self.taken, batch)
            self._chunks = rows_of(self._iterator) if self._rows else objects_of(self._iterator)
            self._iterator._poll(0)
        except BaseException as error:  # noqa: BLE001 - it comes out in its turn
            self.error = error

    def count_only(self) -> None:
        """Find out how many elements there are, without reading them, if anybody knows."""
        self.total = None if self._run.skips is not None else known_count(self._dataset)
        if self.total is not None:
            self.left = int(min(self.total, 1 << 62)) - self.taken
            self.ended = not self.left

    def read(self) -> None:
        """From now on elements are not only counted."""
        if self.total is not None:
            self.total = None
            self.left = 0

    def ready(self) -> bool:
        """Whether `fill` would not wait."""
        if self.left or self.ended or self.error is not None:
            return True
        self.begin()
        return self._iterator is None or self._iterator._poll(0)

    def wait(self) -> None:
        """Wait a little, until it is ready."""
        if self._iterator is not None:
            self._iterator._poll(_PATIENCE)

    def fill(self) -> None:
        """Read more, if nothing is left; afterwards there is some, or it has ended, with an error or without."""
        if self.left or self.ended or self.error is not None:
            return
        self.begin()
        self.columns = []  # which gives its memory back before more is read
        try:
            chunk = None if self._chunks is None else next(self._chunks, None)
        except BaseException as error:  # noqa: BLE001 - it comes out in its turn
            self.error = error
            return
        if self.error is not None:
            return
        if chunk is None:
            self.ended = True
            return
        self.left = chunk.n
        if isinstance(chunk, Rows):
            if chunk.rows is not None:
                chunk = Rows(chunk.n, compacted(chunk.columns, 0, chunk.n, chunk.rows))
            self.columns, self.first = chunk.columns, chunk.first
        else:
            self.columns, self.first = chunk.elements, 0

    def take(self, n: int) -> int:
        """Take the next `n` elements of those that are left. Returns where they begin."""
        at = self.first
        self.first += n
        self.taken += n
        self.left -= n
        if self.total is not None and not self.left:
            self.ended = True
        return at

    def stop(self) -> None:
        """Let it end soon."""
        if self._iterator is not None:
            self._iterator._stop()

    def close(self) -> None:
        """Give back what it has."""
        self.columns = []
        if self._iterator is not None:
            self._iterator.close()


def _at_hand(dataset: Dataset, run: Run, start: int) -> Generator[Chunk] | None:
    """Yield the elements of what is in memory, for which a stream would cost more; `None`: it is not so."""
    source, ops = dataset._source, dataset._ops
    if not ops and isinstance(source, Slices | Numbers | Items):
        return source.chunks(run, 0, start)
    if not isinstance(source, Slices) or len(ops) != 1 or not isinstance(ops[0], Batch) or source.rows.n > _FEW_ROWS:
        return None
    kinds = [_native(one, 0) for one in source.given.components or ()]
    if source.given.structure is not None or not all(kind in ("fixed", "string") for kind, _, _ in kinds):
        return None
    return _batches(source, ops[0], kinds, start)


def _batches(source: Slices, batch: Batch, kinds: list[NativeComponent], start: int) -> Generator[Objects]:
    """Yield batches of rows in memory, as a stream would."""
    rows, size = source.rows, batch.batch_size
    columns = compacted(rows.columns, rows.first, rows.n, rows.rows)
    for at in range(start * size, rows.n, size):
        stop = min(at + size, rows.n)
        if stop - at < size and batch.drop_remainder:
            return
        parts: list[Any] = []
        for column, (_, dtype, shape) in zip(columns, kinds, strict=True):
            if isinstance(column, tuple):
                data, ends, _ = column
                text = data[ends[at] : ends[stop]].copy().view(_CHAR)
                parts.append(Ragged._of(text, ends[at : stop + 1] - ends[at]))
            else:
                parts.append(typed(column[at:stop], dtype, shape).copy())
        yield Objects([structure_of(source.given.template, parts)])


class _Turns:
    """The turns of one pass.

    Attributes
    ----------
    drop : int
        Elements that are only counted: those before the one to begin with.
    """

    def __init__(self, node: Interleave, run: Run, pass_: int, start: int) -> None:
        self.drop = start
        self._node = node
        self._run = run
        self._pass = pass_
        self._sloppy = run.options.deterministic is False if node.sloppy is None else node.sloppy
        self._layout = node.layout()
        self._input = run.open(0, pass_)
        self._input_ended = False
        self._elements = 0
        self._waiting: deque[_Child | BaseException] = deque()  # begun, and no turn yet
        self._slots: list[_Child | None] = [None] * node.cycle
        self._open = 0
        # With one at a time, turns make no difference.
        self._block = node.block if node.cycle > 1 else 1 << 62
        # Of what is to be handed on next: the columns, where elements begin in them, and how many.
        self._pending: list[tuple[list[Any], int, int]] = []
        self._elements_pending = 0
        # Seconds that the last dataset took to make, as far as it was waited for.
        self._took = math.inf
        rows = self._layout.components is not None
        self._most_pending = chunk_rows(node.first, run.budget) if rows and node.first is not None else MOST_OBJECTS

    def close(self) -> None:
        """End all datasets."""
        children = [one for one in (*self._slots, *self._waiting) if isinstance(one, _Child)]
        self._input._stop()
        for child in children:
            child.stop()
        for child in children:
            child.close()
        self._input.close()

    # -- datasets ------------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        """Make the dataset of the next element, and let it begin."""
        node = self._node
        while True:
            try:
                element = next(self._input)
            except StopIteration:
                self._input_ended = True
                return
            except BaseException as error:  # noqa: BLE001 - it comes out in its turn
                self._fail(error)
                return
            number = self._elements
            self._elements += 1
            try:
                dataset = node.child_of(element, number)
                self._check(dataset, number)
            except QueueCoreError as error:
                try:
                    if self._run.skips is None:
                        raise
                    self._run.skips.skip(error)
                except QueueCoreError as last:
                    self._fail(last)
                    return
                continue
            except BaseException as error:  # noqa: BLE001
                self._fail(error)
                return
            threads = 1 if node.cycle > 1 else None
            child = _Child(self._run, dataset, self._pass * _MANY + number, self._layout, threads)
            if self.drop:
                child.count_only()
            elif node.begun:
                child.begin()
            self._waiting.append(child)
            return

    def _fail(self, error: BaseException) -> None:
        self._input_ended = True
        self._waiting.append(error)

    def _check(self, dataset: Dataset, number: int) -> None:
        first = self._node.first
        if first is None:
            return
        here = Layout.of(dataset)
        there = self._layout
        if there.components is None and here.components is None:
            general_spec([first, dataset], self._node.method)
        elif (
            there.components is None
            or here.components is None
            or _shapes(here) != _shapes(there)
            or repr(here.template) != repr(there.template)
        ):
            raise DtypeError(
                f"{self._node.method}: all datasets must have elements alike, not {first.element_spec!r} and, "
                f"from element {number} on, {dataset.element_spec!r}",
                stage=self._node.method,
                record=number,
            )

    def _look_ahead(self) -> None:
        """Begin further datasets, as far as that doesn't wait."""
        while (
            not self._input_ended
            and not self.drop
            and self._open + len(self._waiting) < self._node.begun
            and self._input._poll(0)
        ):
            self._pull()

    def _quick(self) -> bool:
        """Whether there will be a next dataset before anybody misses what is pending."""
        return bool(self._waiting) or self._input_ended or (self._took < _MOMENT and self._input._poll(0))

    def _next(self) -> _Child | None:
        """Return the next dataset; `None`: there is none."""
        if not self._waiting and not self._input_ended:
            begun = time.monotonic()
            self._pull()
            self._took = time.monotonic() - begun
        if not self._waiting:
            return None
        child = self._waiting.popleft()
        if isinstance(child, BaseException):
            raise child
        self._open += 1
        self._look_ahead()
        return child

    def _counted(self) -> None:
        """Hand on what follows: nothing is only counted any more."""
        for child in (*self._slots, *self._waiting):
            if isinstance(child, _Child):
                child.read()
                if self._node.begun:
                    child.begin()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def chunks(self) -> Generator[Chunk]:
        """Yield the elements."""
        node, slots = self._node, self._slots
        at = given = 0
        even = True  # rounds of whole turns may be possible
        while True:
            if self._sloppy:
                self._look_ahead()
                if self._pending and self._ready(at) is None:
                    yield from self._flush()
                while (found := self._ready(at)) is None:
                    self._wait(at)
                if found != at:
                    at, given = found, 0
            child = slots[at]
            if child is None:
                if self._input_ended and not self._waiting:
                    if not self._open:
                        break
                    at, given = (at + 1) % node.cycle, 0
                    continue
                if not self._quick():
                    yield from self._flush()
                try:
                    slots[at] = self._next()
                except BaseException:  # what is good comes before it
                    yield from self._flush()
                    raise
                even = True
                continue
            if not child.left:
                if not child.ready():
                    yield from self._flush()
                child.fill()
                if child.error is not None:
                    yield from self._flush()
                    raise child.error
                if not child.left:
                    child.close()
                    slots[at] = None
                    self._open -= 1
                    at, given = (at + 1) % node.cycle, 0
                    continue
                for other in slots:
                    if other is not None and other.ready():
                        other.fill()
                even = True
            if even and not given:
                rounds = self._rounds()
                even = False
                if rounds:
                    yield from self._flush()
                    yield from self._whole(at, rounds)
                    even = True
                    continue
            n = min(self._block - given, child.left)
            if self.drop:
                n = min(n, self.drop)
                child.take(n)
                self._dropped(n)
            else:
                self._pending.append((child.columns, child.take(n), n))
                self._elements_pending += n
            given += n
            if given == self._block:
                at, given = (at + 1) % node.cycle, 0
            if len(self._pending) >= _MOST_TURNS or self._elements_pending >= self._most_pending:
                yield from self._flush()
        yield from self._flush()

    def _ready(self, at: int) -> int | None:
        """Return the first slot from `at` on that need not be waited for."""
        for step in range(len(self._slots)):
            slot = (at + step) % len(self._slots)
            child = self._slots[slot]
            if child is not None:
                if child.ready():
                    return slot
            elif self._waiting or (not self._input_ended and self._input._poll(0)):
                return slot
        return None if self._open or not self._input_ended else at

    def _wait(self, at: int) -> None:
        """Wait a little, for one of those that aren't ready."""
        children = [child for child in (*self._slots[at:], *self._slots[:at]) if child is not None]
        if children:
            children[0].wait()
        else:
            self._input._poll(_PATIENCE)

    def _dropped(self, n: int) -> None:
        self.drop -= n
        if not self.drop:
            self._counted()

    def _rounds(self) -> int:
        """Return how many whole turns all datasets can take now, if it is worth while."""
        if None in self._slots and (self._waiting or not self._input_ended):
            return 0
        block = self._block
        least = min(child.left for child in self._slots if child is not None) // block
        most = self.drop // (self._open * block) if self.drop else max(_MOST_ROWS // (self._open * block), 1)
        rounds = min(least, most)
        return rounds if rounds * self._open >= _LEAST_TURNS else 0

    def _whole(self, at: int, rounds: int) -> Generator[Chunk]:
        slots, block = self._slots, self._block
        children = [child for child in (*slots[at:], *slots[:at]) if child is not None]
        n = rounds * block
        if self.drop:
            for child in children:
                child.take(n)
            self._dropped(n * len(children))
            return
        columns = [child.columns for child in children]
        firsts = [child.take(n) for child in children]
        if len(children) == 1 and self._layout.components is not None:
            yield Rows(n, columns[0], firsts[0])
            return
        places = np.arange(n * len(children), dtype=np.int64).reshape(len(children), rounds, block)
        order = places.transpose(1, 0, 2).reshape(-1)
        if self._layout.components is None:
            flat = list(itertools.chain(*(one[first : first + n] for one, first in zip(columns, firsts, strict=True))))
            yield Objects([flat[index] for index in map(int, order)])
            return
        parts = [(one, first, first + n) for one, first in zip(columns, firsts, strict=True)]
        yield Rows(len(order), joined(parts), 0, order)

    def _flush(self) -> Generator[Chunk]:
        """Hand on what is pending."""
        pending, self._pending = self._pending, []
        self._elements_pending = 0
        if not pending:
            return
        if self._layout.components is None:
            yield Objects([element for part, first, n in pending for element in part[first : first + n]])
            return
        # Of each list of columns, one piece: turns take rows that follow each other.
        spans: dict[int, list[Any]] = {}
        for columns, first, n in pending:
            spans.setdefault(id(columns), [columns, first, 0])[2] = first + n
        if len(spans) == 1:
            ((columns, first, stop),) = spans.values()
            yield Rows(stop - first, columns, first)
            return
        offsets, total = {}, 0
        for key, (_, first, stop) in spans.items():
            offsets[key] = total - first
            total += stop - first
        counts = np.array([n for _, _, n in pending])
        begins = np.array([first + offsets[id(columns)] for columns, first, _ in pending])
        order = np.arange(total, dtype=np.int64) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        yield Rows(total, joined([(one, first, stop) for one, first, stop in spans.values()]), 0, order)


@dataclass(frozen=True, eq=False)
class Named(Node):
    """The records of files whose names the input says, in another order in each pass: one native stream a pass.

    Attributes
    ----------
    method : str
        What the user called.
    source : BlockSource or FixedLengthSource
        Of any files.
    """

    name: ClassVar[str] = "interleave"

    method: str
    source: BlockSource | FixedLengthSource

    def words(self) -> dict[str, Any]:
        return {"files": self.source.describe()}

    def label(self) -> str:
        cycle, block = self.source.interleave if isinstance(self.source, BlockSource) else (1, 1)
        return f"{self.method}({self.source.name}, {cycle}, {block})"

    def where(self) -> str:
        return "native: one stream a pass, whose rows Python hands on, a chunk at a time"

    def count(self, needed: int | None) -> int:
        raise Unknown

    def layout(self) -> Layout:
        made = self.source.made([])
        return Layout(made.given, made.template, made.structure)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Rows]:
        from queuecore.data.dataset import _Steps

        with contextlib.closing(run.elements(0, pass_)) as elements:
            names = [bytes(name) for name in elements]
        if not names:
            return
        dataset = _Steps(replace(self.source, files=FileList(names)), (), Options())
        guess = self.source.guess if isinstance(self.source, BlockSource) else 1
        most = max(_CHUNK_BYTES // guess, 1)
        yield from run.rows_of(dataset, 0, start, most)


def _shapes(layout: Layout) -> list[Any]:
    return [(one.dtype, one.shape, one.ragged) for one in layout.components or ()]


def of_names(
    dataset: Dataset, function: Callable[..., Any], method: str, cycle: int, block: int
) -> Named | BlockSource | FixedLengthSource | None:
    """Return the source of records of files, interleaved, if a dataset is of their names; `None`: it is not so simple.

    As `uniform`; a node where the names come in an order that is drawn for each pass.
    """
    found = uniform(dataset, function)
    if found is None:
        return None
    source, names = found, [found.files[index] for index in range(len(found.files))]
    if isinstance(source, BlockSource):
        source = replace(source, interleave=(cycle, block))
    elif cycle > 1:
        source = replace(blocks_of_fixed(source), interleave=(cycle, block))
    if not isinstance(dataset._source, Slices) or any(isinstance(op, Shuffle) for op in dataset._ops):
        return Named((dataset,), method, source)
    numbers = numbers_at(dataset, np.arange(known_count(dataset) or 0, dtype=np.int64))
    return replace(source, files=FileList([names[number] for number in numbers.tolist()])) if len(numbers) else None


def uniform(dataset: Dataset, function: Callable[..., Any]) -> BlockSource | FixedLengthSource | None:
    """Return the source of all files, if a dataset is of their names and a function makes of each its records.

    Parameters
    ----------
    dataset : Dataset
        Of names that are known beforehand, of which some may be left out or come several times, in any order.
    function : callable
        Called with each name; if it is a class of dataset, or a partial call of one, with the first two.

    Returns
    -------
    source or None
        With all files, in the order of the names before any step. `None`: it is not so simple.
    """
    total = known_count(dataset)
    if total is None or total > _MOST_FILES:
        return None
    while isinstance(dataset._source, Permuted | Padded) and _chooses(dataset):
        dataset = dataset._source.inputs[0]
    source = dataset._source
    if not isinstance(source, Slices) or not _chooses(dataset):
        return None
    if source.given.template != 0 or _shapes(source.given) != [(BYTES, (), False)]:
        return None
    rows = source.rows
    data, ends, _ = compacted(rows.columns, rows.first, rows.n, rows.rows)[0]
    text = data.tobytes()
    names = [text[first:end] for first, end in itertools.pairwise(ends.tolist())]
    called = function.func if isinstance(function, functools.partial) else function
    if not isinstance(called, type) and len(names) > _MOST_NAMES:
        return None
    made: list[Any] = []
    facts: list[Any] = []
    for name in names[:2] if isinstance(called, type) else names:
        try:
            one = function(name)
        except Exception:  # noqa: BLE001 - it comes out where it belongs, when elements are asked for
            return None
        found = getattr(one, "_source", None)
        if not isinstance(found, BlockSource | FixedLengthSource) or one._ops or one._options != Options():
            return None
        if len(found.files) != 1 or found.files[0] != name:
            return None
        made.append(found)
        facts.append(_facts(found))
        if facts[0] != facts[-1]:
            return None
    if not made:
        return None
    source_of_all: BlockSource | FixedLengthSource = replace(made[0], files=FileList(names))
    return source_of_all


def _chooses(dataset: Dataset) -> bool:
    return all(isinstance(op, Take | Skip | Repeat | Shard | Shuffle | Prefetch) for op in dataset._ops)


def _facts(source: BlockSource | FixedLengthSource) -> list[Any]:
    # Formats and stages are what the words of the source say of them.
    apart = ("files", "csv", "first", "record")
    facts = [getattr(source, one.name) for one in fields(source) if one.name not in apart]
    return [type(source), source.describe(), facts]
