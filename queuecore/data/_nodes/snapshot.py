"""Snapshots in shards: one function assigns each element to a shard, another one decides how shards are read.

The shards lie in one file, each in pieces of its own, and the index says which.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.usercode import arguments_of, called_at, name_of
from queuecore._core.io.names import FileList
from queuecore._elements.nests import is_plain, like, plain
from queuecore.data._nodes.arrays import Items
from queuecore.data._nodes.cache import Cache
from queuecore.data._nodes.cache_files import CacheFileWriter, Files, Index, Lock, Paths
from queuecore.data._nodes.cache_store import Key, copied
from queuecore.data._nodes.choose import Seeds
from queuecore.data._nodes.combine import general_spec
from queuecore.data._nodes.filters import elements_of
from queuecore.data._nodes.inputs import objects_of, relaid
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, Pairs
from queuecore.data._plan.chain import Chain, Chained, chain_of, dataset_of
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Shuffle, ShuffleSeeds, Unknown
from queuecore.data._rows.chunks import Chunk, Failed, Objects, Rows
from queuecore.data._rows.columns import compacted, joined
from queuecore.data._rows.container import Packer
from queuecore.data._rows.values import readonly
from queuecore.errors import DtypeError, FailedPreconditionError, InvalidArgumentError

__all__ = ["OneShard", "ShardWriter", "Snapshot", "in_turns"]

_STAGE = "snapshot"
# Without a function for shards, element i belongs to shard i modulo this.
_SHARDS = 16
# Limits on rows that wait for others of their shard: for one shard, and for all.
_MOST_BYTES = 1 << 20
_MOST_WAITING = 32 << 20
_MOST_OBJECTS = 256
_MOST_ASKED = 1024
# Which pass of the last input an iterator begins with: there were no files when it began, or there were. Streams that
# only find out what elements are begin with 0, and those of a function's datasets with small numbers.
_FRESH = 1 << 40
_KEPT = 1 << 50


@dataclass(frozen=True, eq=False)
class Snapshot(Cache):
    """The elements of the input's first pass, then the elements of its shards.

    The last input has no elements: the number of its first pass says whether there were files when an iterator began.
    A saved place therefore includes it: other files may exist where the place is loaded.

    Attributes
    ----------
    shard : callable or None
        Takes an element and returns the number of its shard.
    reader : callable or None
        Takes a dataset of the shards, as datasets, and returns a dataset of elements.
    """

    name = "snapshot"

    shard: Callable[..., Any] | None
    reader: Callable[[Any], Any] | None

    @classmethod
    def of(cls, chain: Chain, path: str, compress: bool, shard: Any, reader: Any) -> Snapshot:
        """Return the node for a user's arguments."""
        for function, what in ((shard, "shard_func"), (reader, "reader_func")):
            if function is not None and not callable(function):
                raise InvalidArgumentError(f"snapshot: {what} must be a function, not {function!r:.60}")
        store = Files(path, True, compress, "" if shard is None else name_of(shard))
        mode = Chain(Seeds(()), (Shuffle(1, False, _Mode()),))
        return cls((chain, mode), store, shard, reader)

    def words(self) -> dict[str, Any]:
        return {"functions": [None if one is None else name_of(one) for one in (self.shard, self.reader)]}

    def count(self, min_count: int | None) -> Count:
        if self.reader is not None:
            raise Unknown
        return super().count(min_count)

    def first_passes(self, pairs: Pairs) -> tuple[Pairs, list[int]] | None:
        first = self.store.first(self.inputs[0], pairs[:-1])
        if first is None:
            return None
        return [*first.pairs, pairs[-1]], [*first.bases, _FRESH if self.store.count(self.inputs[0]) is None else _KEPT]

    def begins(self, pairs: Pairs, bases: list[int]) -> None:
        self.store.begins(Key(pairs[:-1], bases[:-1]))

    def key(self, run: NodeRun) -> Key:
        pairs, bases = run.seeds()
        return Key(pairs[:-1], bases[:-1])

    def kept(self, run: NodeRun, key: Key, pass_: int, start: int) -> Generator[Chunk] | None:
        mode = run.seeds()[1][-1] + pass_
        if mode == _FRESH:
            return None
        found = self.store.find(self.inputs[0], key, run.skips is not None)
        if found is not None:
            return self._read(run, found, start)
        if mode >= _KEPT and self.store.count(self.inputs[0]) is None:
            raise FailedPreconditionError(
                f"{self.store} isn't there any more: it was when this iterator, or that of its saved place, began",
                stage=_STAGE,
            )
        return None

    def writes(self, run: NodeRun) -> bool:
        return run.seeds()[1][-1] != 0

    def _made(self, run: NodeRun, start: int) -> Generator[Chunk | Failed]:
        with contextlib.closing(super()._made(run, start)) as chunks:
            for chunk in chunks:
                if isinstance(chunk, Failed):
                    yield chunk
                    continue
                # The function is called with each element, in small parts, so that a stop request is noticed soon.
                size = chunk.n if self.shard is None else _MOST_ASKED
                for at in range(0, chunk.n, size):
                    n = min(size, chunk.n - at)
                    if isinstance(chunk, Rows):
                        yield Rows(n, compacted(chunk.columns, chunk.first + at, n, None))
                    else:
                        yield chunk.part(at, at + n)

    def writer(self, store: Files, paths: Paths, key: Key, lock: Lock) -> CacheFileWriter:
        return ShardWriter(self.shard, self.inputs[0], store, paths, key, lock)

    def _read(self, run: NodeRun, index: Index, start: int) -> Generator[Chunk]:
        layout, spec = self.layout(), self.spec()
        shards = [dataset_of(Chain(OneShard((), index, number, layout, spec))) for number in index.shards()]
        if not shards:
            return
        shards_of = dataset_of(Chain(Items((), shards)))
        name = "reader_func" if self.reader is None else name_of(self.reader)
        result = called_at(_STAGE, 0, self.reader or in_turns(len(shards)), shards_of)
        if not isinstance(result, Chained):
            raise DtypeError(f"snapshot: {name} must return a dataset, not {result!r:.60}", stage=_STAGE)
        chain = chain_of(result)
        general_spec([self.inputs[0], chain], _STAGE)
        if layout.components is None:
            yield from objects_of(run.open_other(chain, 0, start), True)
            return
        chain_layout = chain.layout
        alike = repr(_template(chain_layout)) == repr(_template(layout)) != "None"
        if layout.structure is not None:
            alike = alike or chain_layout.structure is layout.structure
        if chain_layout.components is None or not alike:
            raise DtypeError(f"snapshot: {name} must return elements like those of its shards", stage=_STAGE)
        yield from relaid(run.rows_of(chain, 0, start, errors=True), chain_layout, layout)


class _Mode(ShuffleSeeds):
    """The seeds of the input that says whether there are files."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__((0, 0), True)
        self.counter.next_iteration = _FRESH

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mode, ()


def _template(layout: Layout) -> Any:
    """Return the structure of elements over the numbers of their components; `None` if it isn't plain structure."""
    if layout.structure is None:
        return plain(layout.template)
    try:
        return plain(layout.structure.assemble(list(range(len(layout.components or ()))), False))
    except Exception:  # noqa: BLE001 - it is made for arrays
        return None


def _itself(chain: Any) -> Any:
    return chain


def in_turns(number: int) -> Callable[[Any], Any]:
    """Return what makes of so many datasets, the elements of another, one: an element of each in turn."""
    return lambda chains: chains.interleave(_itself, cycle_length=number, num_parallel_calls=-1)


@dataclass(frozen=True, eq=False)
class OneShard(Node):
    """The elements of one shard."""

    name = "shard of a snapshot"

    index: Index
    number: int
    given: Layout
    of: Any

    def words(self) -> dict[str, Any]:
        return {"shard": self.number}

    def read_files(self) -> FileList:
        return FileList([os.fsencode(self.index.path), os.fsencode(self.index.data)])

    def count(self, min_count: int | None) -> int:
        del min_count
        return self.index.count(self.number)

    def layout(self) -> Layout:
        return self.given

    def spec(self) -> Any:
        return self.of

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk]:
        del run, pass_
        for chunk in self.index.chunks(start, self.given, self.number):
            # Files know tuples and dicts alone.
            if isinstance(chunk, Objects) and self.of is not None and not is_plain(self.of):
                chunk = Objects([like(self.of, element) for element in chunk.elements])
            yield chunk


class _Waiting:
    # Rows of each shard that are not written yet.

    def __init__(self) -> None:
        self.n = 0
        self.nbytes = 0
        self.columns: list[Any] = []
        self.objects: list[Any] = []
        self.packer = Packer()


class ShardWriter(CacheFileWriter):
    """Writes the pieces of each shard.

    Parameters
    ----------
    shard : callable or None
        As of `Snapshot`.
    chain, store, paths, key, lock
        As of `CacheFileWriter`.
    """

    def __init__(
        self, shard: Callable[..., Any] | None, chain: Chain, store: Files, paths: Paths, key: Key, lock: Lock
    ) -> None:
        super().__init__(store, chain, paths, key, lock)
        self._shard = shard
        self._waiting: dict[int, _Waiting] = {}
        self._numbers: list[int] = []
        # The number of the chunk's first element, and of the next chunk's.
        self._first = self._next = 0
        self._made = chain.made

    def add(self, chunk: Chunk) -> Chunk:
        shards = self._shards_of(chunk)
        if self.error is not None:  # the elements before it are good
            chunk = chunk.part(0, len(shards))
        order = np.argsort(shards, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(shards[order])) + 1):
            if len(group):
                self._put(int(shards[group[0]]), chunk, group)
        if sum(one.nbytes for one in self._waiting.values()) > _MOST_WAITING:
            self._flush()
        return chunk

    def _shards_of(self, chunk: Chunk) -> np.ndarray[Any, Any]:
        first = self._first = self._next
        self._next += chunk.n
        if self._shard is None:
            return self._by_number(first, self._next)
        made = self._made
        elements: Iterable[Any] = (
            map(elements_of(made.components, made.template, made.assemble, chunk.columns, chunk.n), range(chunk.n))
            if isinstance(chunk, Rows)
            else map(readonly, chunk.elements)
        )
        shards: list[int] = []
        try:
            for number, element in enumerate(elements, first):
                shards.append(_number(self._shard, element, number))
        except Exception as error:  # noqa: BLE001 - it is raised when what comes before it was handed in
            self.error = error
        return np.array(shards, np.int64)

    def _by_number(self, first: int, stop: int) -> np.ndarray[Any, Any]:
        """Return the shards of elements without a function."""
        return np.arange(first, stop) % _SHARDS

    def _put(self, shard: int, chunk: Chunk, group: np.ndarray[Any, Any]) -> None:
        waiting = self._waiting.setdefault(shard, _Waiting())
        waiting.n += len(group)
        if isinstance(chunk, Rows):
            whole = len(group) == chunk.n
            columns = compacted(chunk.columns, 0, chunk.n, None if whole else group)
            if whole or len(group) == 1:  # else it is a copy
                columns = [copied(column) for column in columns]
            waiting.columns.append((columns, 0, len(group)))
            parts = itertools.chain(*(one if isinstance(one, tuple) else (one,) for one in columns))
            waiting.nbytes += sum(part.nbytes for part in parts if part is not None)
        else:
            for at in group.tolist():
                waiting.objects.append(self._skeleton(waiting.packer, chunk.elements[at], self._first + at))
            waiting.nbytes = waiting.packer.nbytes
        if waiting.nbytes >= _MOST_BYTES or len(waiting.objects) >= _MOST_OBJECTS:
            self._flush_one(shard)

    def _flush_one(self, shard: int) -> None:
        waiting = self._waiting.pop(shard)
        self._numbers.append(shard)
        self._packer = waiting.packer
        if waiting.columns:
            self._write(waiting.n, self._packer.skeleton(("rows", (waiting.n, joined(waiting.columns)))))
        else:
            self._write_objects(waiting.objects)

    def _flush(self) -> None:
        for shard in sorted(self._waiting):
            self._flush_one(shard)

    def more(self) -> dict[str, Any]:
        return {"shards": np.array(self._numbers, np.int64)}


def _number(function: Callable[..., Any], element: Any, number: int) -> int:
    result = called_at(_STAGE, number, function, *arguments_of(element))
    shard: int | None
    try:
        shard = operator.index(
            result.item() if isinstance(result, np.ndarray | np.generic) and result.size == 1 else result
        )
    except TypeError:
        shard = None
    if shard is None or isinstance(result, bool | np.bool_) or not 0 <= shard < 1 << 63:
        raise (DtypeError if shard is None else InvalidArgumentError)(
            f"snapshot: {name_of(function)} must return an integer from 0 on, not {result!r:.80} (element {number})",
            stage=_STAGE,
            record=number,
        )
    return shard
