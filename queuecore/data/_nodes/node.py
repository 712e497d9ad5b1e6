"""Sources whose elements are handed in: those made of other chains, of arrays, and by Python.

A node makes *chunks*. Most are rows of columns, as they lie in the batches of a native stream or in the user's arrays;
they are handed to the next stream without a copy. Where elements are arbitrary Python objects, a chunk is a list of
objects, and the native core moves only their numbers.

A node's chunks are made by one Python thread for each stream that is fed. It takes the GIL once a chunk, not once an
element; all work on rows (reading, decoding, stages, batches) is done by the native streams before and behind it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.lazy import lazy, once, without_kept
from queuecore._core.io.names import FileList
from queuecore._core.stream.describe import FIXED, OBJECT, STRING, Description, Frames
from queuecore._core.stream.feed import Feed
from queuecore._core.stream.marks import ShuffleCounter
from queuecore._core.stream.scope import Scope
from queuecore._ops.stage import Stage
from queuecore._runners.threads import start_thread
from queuecore.data._nodes.run import Drawn, NodeRun, Pairs
from queuecore.data._plan.chain import Chain, Source
from queuecore.data._plan.made import Layout, Made, NativeComponent, made_by, row_bytes_of
from queuecore.data._rows.chunks import Chunk, Failed, Piece
from queuecore.data._rows.values import spec_of
from queuecore.data.options import Options
from queuecore.errors import InvalidArgumentError

__all__ = ["Node", "ObjectNode"]

_NO_FILES = FileList([])


@dataclass(frozen=True, eq=False)
class Node(Source):
    """A source of elements that are handed in. Abstract; immutable.

    Attributes
    ----------
    inputs : tuple of Chain
        The chains that the node takes its elements from.
    """

    inputs: tuple[Chain, ...]

    files = _NO_FILES
    num_threads = None
    fed = True

    def __init_subclass__(cls, **words: Any) -> None:
        # Both methods ask the inputs, and some nodes ask an input more than once. Without a cache the work would double
        # with each level of chains.
        super().__init_subclass__(**words)
        for name in ("layout", "spec"):
            if name in vars(cls):
                setattr(cls, name, once(vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: everything that can't be made again."""
        return without_kept(vars(self))

    def words(self) -> dict[str, Any]:
        """Return what decides the elements, besides the inputs, as plain values."""
        return {}

    def label(self) -> str:
        """Return the user's name for the node, in one line."""
        return self.name

    def where(self) -> str:
        """Return where the node's work is done, and what forces it into Python."""
        return "Python: hands on rows, a chunk at a time"

    def layout(self) -> Layout:
        """Return what the elements consist of."""
        raise NotImplementedError

    @property
    def has_objects(self) -> bool:
        """True if the elements are Python objects."""
        return self.layout().components is None

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        """Make the elements of a pass, from number `start` on, with `Failed` in the place of those that can't be made.

        An error that is raised ends the pass. `start` counts `Failed` as elements, but none comes before it,
        unless it is 0.
        """
        raise NotImplementedError

    def knows_errors(self, run: NodeRun, pass_: int) -> bool:
        """Return whether `chunks` may begin anywhere in a pass, though it has errors."""
        del run, pass_
        return False

    def chosen(self, index: np.ndarray[Any, Any]) -> Chunk:
        """Return the elements of an array of their numbers, which stay the same in every pass."""
        raise NotImplementedError

    def hand_in(self, run: NodeRun, feed: Feed, pass_: int, start: int) -> bool:
        """Hand in the elements of a pass, from number `start` on; False if the feed wants no more of it."""
        errors = () if self.knows_errors(run, pass_) else feed.errors_before(pass_)
        number = 0 if errors else start
        with contextlib.closing(self.chunks(run, pass_, number)) as chunks:
            if not errors and run.orders is None:
                return all(chunk.hand(feed, pass_) for chunk in chunks)
            for chunk in chunks:
                again = start - number
                number += chunk.n
                if again >= chunk.n:
                    continue
                if not (chunk.part(again, chunk.n) if again > 0 else chunk).hand(feed, pass_):
                    return False
                if run.orders is not None:
                    run.gave(pass_, number)
        return True

    def spec(self) -> Any:
        """Return the specification of an element that is a Python object; `None` if it is unknown."""
        return None

    def trial(self) -> NodeRun:
        """Return a run that only finds out what elements are."""
        # Seeds as of a first iterator, and counters of its own: this takes no pass of a shuffle from anybody.
        run = NodeRun(self, Options(num_threads=1), None)
        shuffles = [shuffle for chain in self.inputs for shuffle in chain.shuffles]
        run.seed([one.seeds.pair for one in shuffles], [0] * len(shuffles))
        return run

    def first_passes(self, pairs: Pairs) -> tuple[Pairs, list[int]] | None:
        """Return, for each shuffle among the inputs, its seed pair and first pass number.

        `None` lets each shuffle choose.
        """
        del pairs
        return None

    def begins(self, pairs: Pairs, bases: list[int]) -> None:
        """Note the seeds and first passes of a new iterator's shuffles."""

    def describe(self) -> dict[str, Any]:
        """Return what decides the elements, as plain values."""
        inputs = [chain.describe() for chain in self.inputs]
        return {"source": self.name, **self.words(), **({"inputs": inputs} if inputs else {})}

    @property
    def gives_many(self) -> bool:
        """True if native steps can get many elements at once: the shape of each is known, or they are strings."""
        return all(one.kind in (FIXED, STRING) for one in self.made([]).components)

    def made(self, stages: list[Stage]) -> Made:
        """Return the result of stages on an element."""
        layout = self.layout()
        if layout.components is None:
            return Made(
                None, [NativeComponent(OBJECT, np.dtype(np.int64), ())], 0, None, lambda dims: self.spec(), (), None
            )
        return made_by(layout.components, layout.template, stages, layout.structure)

    def limited(self, max_record_bytes: int | None) -> Node:
        """Return this source: it reads no records itself."""
        del max_record_bytes
        return self

    def native(self, stages: list[Stage]) -> Description:
        """Return the description for the native stream."""
        result = self.made(stages)
        columns = result.components if not stages else self.made([]).components
        row_bytes = sum(row_bytes_of(one) for one in columns)
        if row_bytes >= 1 << 62:
            raise InvalidArgumentError(f"{self.name}: an element of {row_bytes} bytes is larger than any memory")
        frames = Frames(None, max(row_bytes, 1), 1)
        frames.columns = columns
        return Description(self.files, result.elements(), frames=frames)

    def reserved(self, needs: list[int]) -> list[int]:
        """Take as many passes of each of the inputs' shuffles as one run needs; return the number of each first one."""
        shuffles = [shuffle for chain in self.inputs for shuffle in chain.shuffles]
        first = self.first_passes([shuffle.seeds.pair for shuffle in shuffles])
        if first is not None:
            for shuffle, pair in zip(shuffles, first[0], strict=True):
                if shuffle.seeds.pair != pair:
                    shuffle.seeds.pair = pair
                    shuffle.seeds.counter = ShuffleCounter()
            return first[1]
        bases: list[int] = []
        for chain in self.inputs:
            for shuffle in chain.own_shuffles:
                bases.append(shuffle.seeds.counter.next_iteration)
                shuffle.seeds.counter.next_iteration += needs[len(bases) - 1]
            bases += chain.source.reserved(needs[len(bases) :])
        self.begins([shuffle.seeds.pair for shuffle in shuffles], bases)
        return bases

    def feeder(self, run: NodeRun) -> Any:
        """Return a starter of the thread that hands in the chunks. The thread doesn't keep the iterator alive."""

        def start(feed: Feed, drawn: Drawn) -> None:
            broke = functools.partial(_broke, feed)
            start_thread(f"qc-{self.name}", _hand_in, self, run.of(feed, drawn), feed, broke=broke)

        return start


def _broke(feed: Feed, error: BaseException) -> None:
    # The thread has ended outside of a pass: the next one that is wanted ends with that.
    wanted = feed.next_pass(-1)
    if wanted is not None:
        feed.end(wanted[0], error)


def _hand_in(node: Node, run: NodeRun, feed: Feed) -> None:
    before = run.scope.enter()
    times = run.worked.times.enter()
    try:
        _hand_in_passes(node, run, feed)
    finally:
        Scope.leave(before)
        run.worked.times.leave(times)


def _hand_in_passes(node: Node, run: NodeRun, feed: Feed) -> None:
    last_pass = -1
    while (wanted := feed.next_pass(last_pass)) is not None:
        last_pass, start = wanted
        try:
            if node.hand_in(run, feed, last_pass, start):
                feed.end(last_pass)
        except BaseException as error:  # of any class: it comes out in its place, in the consumer's thread
            feed.end(last_pass, error)


@dataclass(frozen=True, eq=False)
class ObjectNode(Node):
    """A node whose elements are Python objects."""

    def layout(self) -> Layout:
        return Layout(None)

    def spec(self) -> Any:
        """Return the specification of the first element, which is made once for it."""
        return self._first_spec

    @lazy
    def _first_spec(self) -> Any:
        with contextlib.closing(self.chunks(self.trial(), 0, 0)) as chunks:
            for chunk in chunks:
                if isinstance(chunk, Failed):
                    raise chunk.error
                return spec_of(chunk.element)  # type: ignore[union-attr]
        return None
