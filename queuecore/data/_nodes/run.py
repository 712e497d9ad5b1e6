"""Runs of nodes: one for each iterator, with the streams over the inputs."""

from __future__ import annotations

import contextlib
import copy
import itertools
import sys
import weakref
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from queuecore._core.io.sources import KnownFiles
from queuecore._core.stream.feed import Feed
from queuecore._core.stream.scope import Scope
from queuecore._io.bad_data import Quarantine, is_bad_data
from queuecore._observe.trace import Trace
from queuecore.data._nodes.counts import Account, Counts, merged
from queuecore.data._nodes.cuts import Cuts
from queuecore.data._nodes.orders import Mark, Orders
from queuecore.data._nodes.spent import Spent, Worked
from queuecore.data._nodes.writing import Writing
from queuecore.data._plan.chain import Chain, Source
from queuecore.data._plan.steps import BatchStep, Skip
from queuecore.data._rows.chunks import AnyChunk, Failed, Rows
from queuecore.data.options import Options
from queuecore.errors import QueueCoreError

__all__ = [
    "Drawn",
    "Known",
    "NodeRun",
    "Opened",
    "Pairs",
    "Seeded",
    "leave_out",
    "open_chain",
    "register",
    "rest",
    "rows_of",
    "stage_of",
    "taken",
]

# The two seeds of each shuffle.
Pairs = list[tuple[int, int]]

# Number of chunks after which the notes of their order are settled.
_SETTLE = 64

# Of streams that have ended, above which their counts are merged.
_MOST_PAST = 64


class Drawn(NamedTuple):
    """The seeds and passes that decide the order of an iterator's elements, besides its place.

    Attributes
    ----------
    pairs : list of tuple of int
        The seeds of all shuffles of its inputs. Seeds of the dataset may change later, when a state brings others.
    bases : list of int
        The number of each shuffle's first pass.
    own : list of tuple of int
        The seeds of its own shuffles.
    """

    pairs: Pairs
    bases: list[int]
    own: Pairs


class Seeded(NamedTuple):
    """The settings of an iterator that works for another one.

    Attributes
    ----------
    pairs : list of tuple of int
        The seeds of each shuffle of its chain.
    bases : list of int
        The number of each shuffle's first pass.
    options : Options
        Used where the chain has no options of its own.
    skips : Quarantine, optional
        Counts the elements that are left out.
    budget : int
        Bytes of memory; 0: no limit.
    orders : Orders, optional
        The order of elements, where it isn't kept.
    cuts : Cuts, optional
        Where errors have cut batches short.
    feed : Feed, optional
        Where the elements, or what is made of them, are handed in.
    brief : bool
        Whether the stream, of a dataset that a function made, has the same name as others in `Iterator.stages`.
    writing : Writing, optional
        The threads that write files for the other one.
    at_a_time : int
        How many elements the other one takes one after the other: no more are made. 0: as many as there is room for.
    known : Known, optional
        The files as earlier passes found them.
    """

    pairs: Pairs
    bases: list[int]
    options: Options
    skips: Quarantine | None
    budget: int = 0
    orders: Orders | None = None
    cuts: Cuts | None = None
    feed: Feed | None = None
    brief: bool = False
    writing: Writing | None = None
    at_a_time: int = 0
    known: Known | None = None


class Known:
    """The files of an input as its passes have found them, and those of its own inputs.

    Each pass opens the input anew, and is to find the same files.

    Attributes
    ----------
    files : KnownFiles or None
    """

    def __init__(self) -> None:
        self.files: KnownFiles | None = None
        self._inputs: dict[int, Known] = {}

    def input(self, index: int) -> Known:
        """Return the same of an input."""
        return self._inputs.setdefault(index, Known())

    def forget(self) -> None:
        """Forget the files of the inputs: the run goes to another place, which says which files it is of."""
        self._inputs = {}


class Opened(Protocol):
    """A chain's stream, as nodes use it: `queuecore.data._nodes.stream.ChainStream`."""

    account: Account | None
    spent: Spent

    @property
    def goes_on(self) -> bool: ...
    @property
    def notes_order(self) -> bool: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def next_columns(self) -> tuple[Any, ...]: ...
    def close(self, timeout: float | None = 1.0) -> None: ...
    def stats(self) -> dict[str, int]: ...
    def stop(self) -> None: ...
    def settle(self) -> Exception | None: ...
    def counts(self) -> Counts: ...
    def poll(self, seconds: float) -> bool: ...
    def oldest(self) -> Mark: ...
    def draw(self, trace: Trace, level: int) -> None: ...


_open: Callable[[Chain, Seeded | None], Opened]


def register(opens: Callable[[Chain, Seeded | None], Opened]) -> None:
    """Register what opens chains: the class of streams, which stands above the runs that it makes."""
    global _open
    _open = opens


def open_chain(chain: Chain, seeded: Seeded | None = None) -> Opened:
    """Return a stream of a chain, which the caller must close; `seeded`: the stream works for another one."""
    return _open(chain, seeded)


class NodeRun:
    """One iterator's run of a node: its options, its seeds, and the streams over the inputs.

    Parameters
    ----------
    source : Source
        The source whose chunks the run makes.
    options : Options
        The iterator's options; they hold for its inputs too, where these have none of their own.
    skips : Quarantine, optional
        Counts the elements that are left out.
    budget : int
        Bytes of memory for each stream that works for the run; 0: no limit.
    brief : bool
        As of `Seeded`.

    Attributes
    ----------
    scope : Scope
        The scope in which users' functions run.
    cuts : Cuts
        Where errors have cut batches short.
    exact : bool
        Whether a user said how many elements are made ahead.
    known : Known
        The files of the inputs.
    worked : Worked
        The times of the threads that make the chunks.
    writing : Writing
        The threads that write files for the iterator.
    """

    def __init__(
        self,
        source: Source,
        options: Options,
        skips: Quarantine | None,
        inner: bool = True,
        budget: int = 0,
        brief: bool = False,
        writing: Writing | None = None,
    ) -> None:
        self.options = options
        self.writing = Writing() if writing is None else writing
        self.budget = budget
        self.skips = None if skips is None or skips.tells else skips
        self._skips = skips
        self._inner = inner
        self.scope = Scope(inner, source)
        self._source = source
        self._pairs: Pairs = []
        self._bases: list[int] = []
        self._children = _Children(self.scope)
        self.worked = Worked(stage_of(source, brief))
        self._brief = brief
        self._feed: Feed | None = None
        self.orders: Orders | None = None
        self.cuts = Cuts()
        self.exact = False
        self.known = Known()
        # For each open input, what says how much of it is used up.
        self.used: dict[int, Callable[[], Mark]] = {}
        self._stream: Callable[[], Opened | None] = lambda: None
        self._since = 0

    def of(self, feed: Feed, drawn: Drawn) -> NodeRun:
        """Return a run for the chunks that go to this feed."""
        run = copy.copy(self)
        run._feed = feed
        run.seed(drawn.pairs, drawn.bases)
        run.used = {}
        stream = self._stream()
        if run.orders is not None and stream is not None:
            run.orders.restart(stream.oldest())
        return run

    def follow(self, stream: Opened, orders: Orders | None, cuts: Cuts | None = None) -> None:
        """Note the order of a stream's elements, if it is left free here or below; continue from `orders` and `cuts`.

        `None`: the order is kept, as nobody would read the notes. It is also kept if elements are left out.
        """
        self._stream = weakref.ref(stream)
        self.cuts = Cuts() if cuts is None else cuts
        if orders is not None and self.skips is None and self._source.is_free(self.options):
            self.orders = orders

    @property
    def leaves_free(self) -> bool:
        """True if the source may leave the order of its elements free."""
        return self.orders is not None and self._source.leaves_free(self.options)

    def orders_at(self, mark: Mark) -> dict[str, Any]:
        """Return the order of elements at a place."""
        if self.orders is None:
            return {}
        self.orders.settle(mark)
        return self.orders.state()

    def tape(self, pass_: int, kind: Callable[[Any], Any]) -> Any:
        """Return the tape for the order of a pass; `None` if order is kept."""
        return self.orders.tape(pass_, kind) if self.orders is not None and self.leaves_free else None

    def gave(self, pass_: int, count: int) -> None:
        """Note that the elements of a pass up to a number were handed in."""
        if self.orders is None or self._feed is None:
            return
        if self.used:
            self.orders.gave(self._feed, pass_, count, {index: used() for index, used in self.used.items()})
        self._since += 1
        stream = self._stream()
        if self._since >= _SETTLE and stream is not None and not self._inner:
            self._since = 0
            mark = stream.oldest()
            if mark == stream.oldest():  # another thread may be about to change it
                self.orders.settle(mark)

    def seed(self, pairs: Pairs, bases: list[int]) -> None:
        """Set the seeds of all shuffles of the inputs, and the numbers of their first passes."""
        self._pairs = pairs
        self._bases = bases

    def seeds(self) -> tuple[Pairs, list[int]]:
        """Return the seeds and passes that `seed` set."""
        return self._pairs, self._bases

    def input(self, index: int) -> Chain:
        """Return an input."""
        return self._source.inputs[index]

    def open(self, index: int, pass_: int, start: int = 0, batch: int = 0, skips: Quarantine | None = None) -> Opened:
        """Return an iterator over an input, from element `start` on; of batches, if `batch` isn't 0. Callers close it.

        Elements that it leaves out go to `skips`, if that is given.
        """
        chain = self._source.inputs[index]
        first = sum(len(one.shuffles) for one in self._source.inputs[:index])
        needs = chain.iterations(is_repeat=True)
        stop = first + len(needs)
        bases = [base + pass_ * need for base, need in zip(self._bases[first:stop], needs, strict=True)]
        orders = None
        if self.orders is not None and self._feed is not None and self._source.uses_up:
            orders = self.orders.below(self._feed, pass_, index)
        cuts = self.cuts.below(index, pass_)
        seeded = Seeded(self._pairs[first:stop], bases, self.options, skips, 0, orders, cuts, None, self._brief)
        seeded = seeded._replace(known=self.known.input(index))
        if self.exact:
            seeded = seeded._replace(at_a_time=self._source.at_a_time)
        child = self._open(chain, seeded, start, batch, index)
        if orders is not None and child.notes_order:
            self.used[index] = child.oldest
        return child

    def open_other(self, chain: Chain, number: int, start: int = 0, batch: int = 0) -> Opened:
        """Return an iterator over a chain that a function made, the `number`-th of these. The caller closes it."""
        shuffles = chain.shuffles
        pairs = [one.seeds.pair for one in shuffles]
        return self._open(chain, Seeded(pairs, [number] * len(shuffles), self.options, None, brief=True), start, batch)

    def _open(self, chain: Chain, seeded: Seeded, start: int, batch: int, index: int | None = None) -> Opened:
        skips = seeded.skips or self._skips
        # The number of elements left out before `start` shows only when the elements before it are made. So the stream
        # makes these again, and `skips` counts again what it leaves out of them.
        repeat_count = start if skips is not None and not skips.tells else 0
        if start and not repeat_count:
            chain = chain.then(Skip(start))
        # A batch would wait for elements that a slow Python source has not made yet: its rows come as they are there.
        if batch and (chain.source.is_quick or any(isinstance(step, BatchStep) for step in chain.steps)):
            chain = chain.then(BatchStep(batch, False))
        budget = self.budget * chain.streams()
        child = open_chain(chain, seeded._replace(skips=skips, feed=self._feed, budget=budget, writing=self.writing))
        self.worked.inputs.add(child.spent)
        self._children.add(child, index)
        if self._children.drawn is not None:
            child.draw(*self._children.drawn)
        # A thread that ends the run sets `stopped` before it looks for children.
        if self.stopped:
            child.stop()
        if repeat_count:
            try:
                for _ in itertools.islice(child, repeat_count):
                    pass
            except BaseException:
                child.close()
                raise
        return child

    def rows(
        self, index: int, pass_: int, start: int = 0, skips: Quarantine | None = None, errors: bool = False
    ) -> Generator[Any]:
        """Yield the elements of an input in chunks of rows, from element `start` on; `errors`: as of `rows_of`."""
        size = self._source.inputs[index].chunk_rows(self.budget)
        if skips is None and self.skips is None:
            return rows_of(self.open(index, pass_, start, size), errors)
        return rest(rows_of(self.open(index, pass_, 0, size, skips), errors), start)

    def rows_of(
        self, chain: Chain, number: int, start: int = 0, most: int = sys.maxsize, errors: bool = False
    ) -> Generator[Any]:
        """Yield the elements of a chain that a function made, from element `start` on, in chunks of rows."""
        size = min(chain.chunk_rows(self.budget), most)
        if self.skips is None:
            return rows_of(self.open_other(chain, number, start, size), errors)
        return rest(rows_of(self.open_other(chain, number, 0, size), errors), start)

    def elements(
        self, index: int, pass_: int, start: int = 0, skips: Quarantine | None = None, errors: bool = False
    ) -> Generator[Any]:
        """Yield the elements of an input, from number `start` on; `errors`: as of `taken`."""
        return taken(self.open(index, pass_, start, 0, skips), errors)

    def seed_of(self, index: int, pass_: int) -> tuple[tuple[int, int], int]:
        """Return the seeds of an input's first shuffle, and the number of its pass within a pass of the source."""
        at = sum(len(one.shuffles) for one in self._source.inputs[:index])
        return self._pairs[at], self._bases[at] + pass_ * self._source.inputs[index].iterations()[0]

    @property
    def stopped(self) -> bool:
        """True if nobody wants the run's chunks any more."""
        return self._children.ended or (self._feed is not None and self._feed.stopped)

    def stop(self) -> None:
        """End every wait for an input. Never waits."""
        self._children.stop()

    def settle(self) -> Exception | None:
        """Return the error of a file that has changed since an input read a part of it; `None`: there is none."""
        return self._children.settle()

    def draw(self, trace: Trace, level: int) -> None:
        """Draw in a trace what the threads of all streams that work for the run do from now on, at this level."""
        self._children.draw(trace, level)

    def memory_bytes(self) -> int:
        """Return the bytes of the buffers of all streams that work for the run."""
        return self._children.memory_bytes()

    def counts(self) -> dict[int | None, Counts]:
        """Return what the streams that work for the run have counted, or had when they ended."""
        return merged(self._children.counts())

    @contextlib.contextmanager
    def counting(self, skips: Quarantine) -> Generator[None]:
        """Count what a source leaves out of its input's elements by itself, in a ``with`` block."""
        self._children.left_out.append(skips)
        try:
            yield
        finally:
            self._children.left_out.remove(skips)
            self._children.note(0, skips.counts())

    @property
    def end(self) -> Callable[[], None]:
        """A call that ends every wait as `stop` does, permanently. It refers to no function of the user's."""
        return self._children.end


class _Children:
    """The iterators over inputs. It has no lock: the garbage collector may end it, in any thread."""

    def __init__(self, scope: Scope) -> None:
        self.ended = False
        self._scope = scope
        # By a number of each. Threads of two runs may add at once, while a third one looks: nothing is replaced.
        self._alive: dict[int, weakref.ref[Opened]] = {}
        self._numbers = itertools.count()
        # Errors of files that had changed when an iterator that read them was closed before its end.
        self._changed: list[Exception] = []
        # The counts of elements that sources leave out of an input now.
        self.left_out: list[Quarantine] = []
        # The counts of iterators that have ended, by input; merged from time to time.
        self._past: list[tuple[int | None, Counts]] = []
        self.drawn: tuple[Trace, int] | None = None

    def add(self, child: Opened, index: int | None) -> None:
        child.account = Account(index, self.note, self._changed)
        for number in list(self._alive):
            one = self._alive.get(number)
            if one is not None and one() is None:
                self._alive.pop(number, None)
        self._alive[next(self._numbers)] = weakref.ref(child)

    def _living(self) -> Generator[Opened]:
        for number in list(self._alive):
            one = self._alive.get(number)
            child = None if one is None else one()
            if child is not None:
                yield child

    def settle(self) -> Exception | None:
        return next(filter(None, [*(child.settle() for child in self._living()), *self._changed]), None)

    def end(self) -> None:
        self._scope.stopped = True
        # Nobody asks any more, so those that are closed now don't look at their files.
        for child in self._living():
            if child.account is not None:
                child.account.asks = False
        self.ended = True
        self.stop()

    def draw(self, trace: Trace, level: int) -> None:
        # First for those that another thread opens meanwhile.
        self.drawn = trace, level
        for child in self._living():
            child.draw(trace, level)

    def memory_bytes(self) -> int:
        # One at a time: children that end meanwhile are not kept from it.
        return sum(child.stats()["memory_bytes"] for child in self._living())

    def note(self, index: int | None, counts: Counts) -> None:
        self._past.append((index, counts))
        if len(self._past) > _MOST_PAST:
            taken = [self._past.pop() for _ in range(_MOST_PAST // 2)]
            self._past.extend(merged(taken).items())

    def counts(self) -> Generator[tuple[int | None, Counts]]:
        yield from list(self._past)
        yield from [(0, skips.counts()) for skips in list(self.left_out)]
        for child in self._living():
            if child.account is not None and child.account.is_open:
                yield child.account.index, child.counts()

    def stop(self) -> None:
        for child in self._living():
            child.stop()


def stage_of(source: Source, brief: bool) -> str:
    """Return the name of a source in `Iterator.stages`; `brief`: sources of other files or numbers have the same."""
    return source.name if brief and not source.inputs else source.label()


def rest(chunks: Generator[AnyChunk], start: int) -> Generator[AnyChunk]:
    """Yield the elements from number `start` on."""
    with contextlib.closing(chunks):
        for chunk in chunks:
            if start < chunk.n:
                yield chunk.part(start, chunk.n) if start else chunk
            start = max(start - chunk.n, 0)


def rows_of(child: Opened, errors: bool = False) -> Generator[Any]:
    """Yield the batches of an iterator as rows, and close it; `errors`: as of `taken`."""
    return taken(child, errors, lambda: Rows(*child.next_columns()))


def taken(child: Opened, errors: bool = False, take: Callable[[], Any] | None = None) -> Generator[Any]:
    """Yield the elements of an iterator, and close it.

    Parameters
    ----------
    errors : bool
        Whether elements that can't be made come as `Failed`. Otherwise the first such error is raised and ends it.
    take : callable, optional
        Returns the next element.
    """
    take = take or child.__next__
    with child:
        while True:
            try:
                element = take()
            except StopIteration:
                return
            except Exception as error:
                if not errors or not child.goes_on:
                    raise
                element = Failed(error)
            yield element
            del element  # which may keep memory that the next one wants


def leave_out(skips: Quarantine | None, error: BaseException, is_repeat: bool) -> tuple[Failed, ...]:
    """Return the replacement of an element with an error: nothing if it is left out. Otherwise raise the error.

    Parameters
    ----------
    is_repeat : bool
        Whether an earlier run, which this one continues, left it out already: then it isn't counted.
    """
    if skips is None and isinstance(error, Exception):
        return (Failed(error),)
    if skips is None or not isinstance(error, QueueCoreError) or (is_repeat and not is_bad_data(error)):
        raise error
    if not is_repeat:
        skips.skip(error)
    return ()
