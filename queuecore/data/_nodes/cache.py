"""Caches of a chain's first pass: in memory, or in files that other processes use too."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from queuecore._core.atoms.own import own
from queuecore.data._nodes.cache_files import CacheFileWriter, Files, Index, Lock, Paths, in_structure
from queuecore.data._nodes.cache_store import (
    MOST_OBJECTS,
    Key,
    Store,
    copied,
    pieces_from,
)
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, Pairs
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Repeat, Take
from queuecore.data._rows.chunks import Chunk, Failed, Objects, Rows

__all__ = ["Cache", "Memory"]


@dataclass(frozen=True, eq=False)
class Cache(Node):
    """The elements of the input's first pass, again and again.

    Attributes
    ----------
    store : Memory or Files
        Holds the kept elements.
    """

    name = "cache"
    keeps = True

    store: Store

    def label(self) -> str:
        return str(self.store)

    def where(self) -> str:
        return "Python: keeps rows and hands them on, a chunk at a time"

    def count(self, min_count: int | None) -> Count:
        kept = self.store.count(self.inputs[0])
        if kept is not None:
            return kept
        chain = self.inputs[0]
        return chain.count(min_count)

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def first_passes(self, pairs: Pairs) -> tuple[Pairs, list[int]] | None:
        return self.store.first(self.inputs[0], pairs)

    def begins(self, pairs: Pairs, bases: list[int]) -> None:
        self.store.begins(Key(pairs, bases))

    def key(self, run: NodeRun) -> Key:
        """Return the seeds and passes that decide the order of the kept pass."""
        return Key(*run.seeds())

    def kept(self, run: NodeRun, key: Key, pass_: int, start: int) -> Generator[Chunk] | None:
        """Yield the kept elements from number `start` on; return `None` if nothing is kept."""
        del pass_
        found = self.store.find(self.inputs[0], key, run.skips is not None)
        if found is None:
            return None
        made: Generator[Chunk] = found.chunks(start, self.layout())
        return in_structure(made, self.spec(), found.path) if isinstance(found, Index) and found.bare else made

    def writes(self, run: NodeRun) -> bool:
        """Return whether a run may write."""
        del run
        return True

    def writer(self, store: Files, paths: Paths, key: Key, lock: Lock) -> CacheFileWriter:
        """Return a writer of files."""
        return CacheFileWriter(store, self.inputs[0], paths, key, lock)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk | Failed]:
        # Every pass is the first one of the input: that is kept, and that is what another process would make again.
        key = self.key(run)
        kept = self.kept(run, key, pass_, start)
        if kept is not None:
            with contextlib.closing(kept) as chunks:
                yield from chunks
            return
        self.store.begins(key)
        whole = start == 0 and self.writes(run) and not _endless(self.inputs[0])
        # A close of the iterator waits for a writer of files, since the user may remove their folder then.
        on_disk = whole and isinstance(self.store, Files)
        with run.writing.begun() if on_disk else contextlib.nullcontext(whole) as writes:
            yield from self._kept_and_made(run, start, key, writes)

    def _kept_and_made(self, run: NodeRun, start: int, key: Key, writes: bool) -> Generator[Chunk | Failed]:
        writer = self.store.write(self.inputs[0], key, run, self.writer) if writes and not run.stopped else None
        skipped = run.skips.counts() if run.skips is not None else None
        try:
            with contextlib.closing(self._made(run, start)) as chunks:
                for chunk in chunks:
                    if isinstance(chunk, Failed):
                        if writer is not None:  # the pass lacks an element: a later one is kept
                            writer.abandon()
                            writer = None
                            self.store.release()
                        yield chunk
                        continue
                    keep = chunk
                    if writer is not None:
                        try:
                            keep = writer.add(chunk)
                        except (OSError, MemoryError) as error:
                            writer.abandon()
                            writer = None
                            self.store.failed(error, run)
                    yield keep
                    del chunk, keep
                    if writer is not None and writer.error is not None:
                        raise writer.error
            if writer is not None:
                try:
                    writer.commit(run.skips is not None and run.skips.counts() != skipped)
                except (OSError, MemoryError) as error:
                    writer.abandon()
                    self.store.failed(error, run)
                else:
                    self.store.release()
                writer = None
        finally:
            if writer is not None:
                writer.abandon()
                self.store.release()

    def _made(self, run: NodeRun, start: int) -> Generator[Chunk | Failed]:
        if self.layout().components is not None:
            yield from run.rows(0, 0, start, None, True)
            return
        with contextlib.closing(run.elements(0, 0, start, None, True)) as elements:
            for element in elements:
                failed = isinstance(element, Failed)
                yield element if failed else Objects([own(element, fixed=self.store.shares)])


def _endless(chain: Chain) -> bool:
    """Return whether a dataset surely has no end, and so never a complete pass."""
    endless = False
    for step in chain.steps:
        if isinstance(step, Repeat):
            endless = endless or step.number < 0
        elif isinstance(step, Take) and step.number >= 0:
            endless = False
    return endless


class Memory(Store):
    """Keeps elements in memory while the dataset or one of its iterators lives. A pickled copy is empty."""

    shares: ClassVar[bool] = True

    def __init__(self, required: bool = False) -> None:
        super().__init__(required)
        self._kept: _Kept | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, (self.required,)

    def __str__(self) -> str:
        return "cache()"

    def find(self, chain: Chain, key: Key, skips: bool) -> _Kept | None:
        del chain
        kept = self._kept
        return kept if kept is not None and kept.key == key and (skips or not kept.skipped) else None

    def count(self, chain: Chain) -> int | None:
        del chain
        return None if self._kept is None else self._kept.ends[-1]

    def _writer(self, chain: Chain, key: Key, make: Callable[..., Any]) -> _MemoryWriter:
        del chain
        return _MemoryWriter(self, key)

    def keep(self, kept: _Kept) -> None:
        """Store a complete pass."""
        self._kept = kept


class _Kept:
    # A complete pass.

    def __init__(self, key: Key, pieces: list[Chunk], skipped: bool) -> None:
        self.key = key
        self.skipped = skipped
        self._pieces = pieces
        self.ends = [0, *itertools.accumulate(map(_size, pieces))]

    def chunks(self, start: int, layout: Layout) -> Generator[Chunk]:
        del layout
        for piece, at in pieces_from(self.ends, start):
            yield _part(self._pieces[piece], at)


class _MemoryWriter:
    error: ClassVar[BaseException | None] = None

    def __init__(self, store: Memory, key: Key) -> None:
        self._store = store
        self._key = key
        self._pieces: list[Chunk] = []

    def add(self, chunk: Chunk) -> Chunk:
        """Keep a chunk; return the one to hand in."""
        if isinstance(chunk, Rows):
            # The kept rows are handed in, so the memory of the batch that they came in is free again at once.
            copy = Rows(chunk.n, [copied(column) for column in chunk.columns])
            self._pieces.append(copy)
            return copy
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, Objects) and len(last.elements) < MOST_OBJECTS:
            last.elements.extend(chunk.elements)
        else:
            self._pieces.append(Objects(list(chunk.elements)))
        return _part(chunk, 0)

    def commit(self, skipped: bool) -> None:
        self._store.keep(_Kept(self._key, self._pieces, skipped))

    def abandon(self) -> None:
        self._pieces = []


def _renewed(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(map(_renewed, value))
    if kind is dict:
        return {key: _renewed(inner) for key, inner in value.items()}
    return value


def _size(chunk: Chunk) -> int:
    return chunk.n if isinstance(chunk, Rows) else len(chunk.elements)


def _part(chunk: Chunk, at: int) -> Chunk:
    """Return the elements of a chunk from number `at` on. Containers are new, so that a user may change them."""
    if isinstance(chunk, Rows):
        return chunk.part(at, chunk.n)
    return Objects([_renewed(one) for one in itertools.islice(chunk.elements, at, None)])
