"""The native stream of a chain, with the run that feeds it and a place that can be saved."""

from __future__ import annotations

import contextlib
import functools
import math
import time
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from queuecore._core.stream.describe import Description
from queuecore._core.stream.marks import Saved, ShuffleCounter
from queuecore._core.stream.stream import Stream
from queuecore._io import remote
from queuecore._io.bad_data import check_on_error
from queuecore._io.names import Filename
from queuecore._machine import memory_bytes
from queuecore._observe.trace import Trace
from queuecore.data._nodes.counts import COUNTED, SKIPPED, Account, Counts, records_of
from queuecore.data._nodes.cuts import Cuts
from queuecore.data._nodes.orders import Orders
from queuecore.data._nodes.run import Drawn, Known, NodeRun, Seeded, register, stage_of
from queuecore.data._nodes.spent import Row, Spent, consumer_row
from queuecore.data._plan import state as _state
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.explain import step_labels
from queuecore.data._plan.identity import Identity, Stamps
from queuecore.data.options import Options
from queuecore.errors import FailedPreconditionError, ResumeMismatchError

if TYPE_CHECKING:
    from queuecore._device.target import Target

__all__ = ["ChainStream"]


class ChainStream(Stream):
    """The elements of a chain, for an iterator or for another stream.

    Parameters
    ----------
    chain : Chain
        The chain of the elements.
    seeded : Seeded, optional
        Settings of a stream that works for another one.
    target : Target, optional
        The device that batches go to.
    whole : Chain, optional
        The chain including the steps that run on a device.

    Attributes
    ----------
    account : Account or None
        Of the stream that this one works for; `None`: it works for none.
    chain : Chain
        The whole chain.
    spent : Spent
        The stream's times.
    """

    __slots__ = (
        "__weakref__",
        "_drawn",
        "_identity",
        "_inner",
        "_known",
        "_own",
        "_run",
        "account",
        "chain",
        "spent",
    )

    chain: Chain
    _identity: Identity
    # Number of shuffles that are this stream's own, not its inputs'.
    _own: int
    # Whether the stream works for another one.
    _inner: bool
    _known: Known
    _run: NodeRun | None
    account: Account | None
    spent: Spent
    # The trace that draws the threads, or has drawn them.
    _drawn: Trace | None

    def __init__(
        self,
        chain: Chain,
        seeded: Seeded | None = None,
        target: Target | None = None,
        whole: Chain | None = None,
    ) -> None:
        self.chain = whole or chain
        self._inner = seeded is not None
        shuffles = chain.shuffles
        own_count = self._own = len(chain.own_shuffles)
        source, options = chain.source, chain.options
        if seeded is None:
            bases = source.reserved(chain.iterations()[own_count:])
            pairs = [shuffle.seeds.pair for shuffle in shuffles]
            counters = [shuffle.seeds.counter for shuffle in shuffles[:own_count]]
            skips = check_on_error(options.on_error or "raise", options.max_skips, options.quarantine)
            if skips is not None:
                skips.check_apart(chain.paths())
            else:
                source.check_sizes()
        else:
            pairs = seeded.pairs
            counters = [_counter(base) for base in seeded.bases[:own_count]]
            bases = seeded.bases[own_count:]
            options = options.merged(seeded.options)
            skips = seeded.skips
            if skips is not None:  # a function may have named the files
                skips.check_apart(source.files[index] for index in range(len(source.files)))
        workers, helps = chain.threads(options)
        leases = 4 if options.max_leases is None else options.max_leases
        budget = (options.memory_budget or 0 if seeded is None else seeded.budget) // chain.streams()
        if seeded is not None:
            leases = _INNER_LEASES if budget == 0 else _FEW_LEASES
        self._identity = Identity(self.chain, options.identity or "stat")
        self.account = self._drawn = None
        self._known = Known() if seeded is None or seeded.known is None else seeded.known
        brief = seeded is not None and seeded.brief
        self._run = None
        feeder = None
        ahead = _ahead_of(chain, seeded)
        if source.fed:
            writing = None if seeded is None else seeded.writing
            self._run = NodeRun(source, options, skips, seeded is not None, budget, brief, writing)
            self._run.exact = ahead[0] >= 0
            self._run.known = self._known
            if seeded is None:
                self._run.writing.follow(self)
            self._run.follow(self, *((Orders(), None) if seeded is None else (seeded.orders, seeded.cuts)))
            weakref.finalize(self, self._run.end).atexit = False
            feeder = source.feeder(self._run)
        seeds = list(zip(pairs, counters, strict=False))
        description = chain.native(options)
        chain.add_steps(description.ops, seeds)
        description.num_threads, description.help = workers, helps
        description.prefetch = chain.prefetch_elements()
        description.ahead, description.at_a_time = ahead
        description.max_leases = leases
        _set_options(description, options, seeded is not None)
        description.skips = skips
        description.feeder = feeder
        description.known = self._known.files
        description.settle_inputs = None if self._run is None else self._run.settle
        description.scope = None if self._run is None else self._run.scope
        description.outer = None if seeded is None else seeded.feed
        description.note_ends = None if seeded is None or seeded.cuts is None else seeded.cuts.end
        description.memory_budget = budget
        description.memory_limit = memory_bytes()
        description.target = target
        description.drawn = Drawn(pairs[own_count:], bases, pairs[:own_count])
        super().__init__(description)
        description.files.follow(self)
        if seeded is not None and seeded.cuts is not None and seeded.cuts.ended:
            self.expect_ends(seeded.cuts.ended)
        if self._run is None:
            self.spent = Spent(stage_of(source, brief), self.times, None, description.elements.step)
        else:
            name = ".".join(step_labels(self.chain)) or "elements"
            self.spent = Spent(name, self.times, self._run.worked, description.elements.step)

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop the threads and give back files and memory; see `Iterator.close`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._inner and self._run is not None:
            self._run.writing.end()
        self.halt()
        ended = self.closed
        super().close(timeout)
        if not self._inner and self._run is not None:
            self._run.writing.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        if self.account is not None:
            error = self.settle() if self.account.asks and not ended else None
            if error is not None:
                self.account.changed.append(error)
            self.account.close(self.counts)
            # Each of the datasets that a function makes is opened once. Without memory, the next pass is not told what
            # this one has found: closing raises nothing, because nobody is there to get it.
            if self.account.index is not None:
                with contextlib.suppress(MemoryError):
                    self._known.files = self.known_files(self._known.files)
        if not self._inner and self._drawn is not None:
            self._drawn.close_for(self)

    def halt(self) -> None:
        """Let the threads that make chunks end. Never waits."""
        if self._run is not None:
            self.stop()
            self._run.end()

    def settle(self) -> Exception | None:
        """Return the error of a file that has changed since a part was read, also by an input; see `Stream.settle`."""
        error = super().settle()
        return self._run.settle() if error is None and self._run is not None else error

    def stop(self) -> None:
        """Let the stream end, from another thread: also those that work for it, as its own thread may wait for them."""
        super().stop()
        if self._run is not None:
            self._run.stop()

    @property
    def notes_order(self) -> bool:
        """True if the order of the elements is left free, and noted."""
        return self._run is not None and self._run.orders is not None

    def stats(self) -> dict[str, int]:
        """Return counters; see `Iterator.stats`."""
        counters = super().stats()
        if self._run is not None:
            counters["memory_bytes"] += self._run.memory_bytes()
            skipped = {name: counters[name] for name in SKIPPED}
            counters |= self._with_inputs(counters)
            for name, count in skipped.items():
                counters[name] += count
        return counters

    def counts(self) -> Counts:
        """Return the counters of the sources; of elements left out only those that ``ignore_errors`` left out."""
        return self._with_inputs(super().stats())

    def _with_inputs(self, own: Counts) -> Counts:
        totals = {name: 0 if name in SKIPPED else own[name] for name in COUNTED}
        below = {} if self._run is None else self._run.counts()
        for counts in below.values():
            for name, count in counts.items():
                totals[name] += count
        if self.chain.source.inputs:
            totals["records"] = records_of(below)
        return totals

    def stages(self) -> list[Row]:
        """Return where the time goes; see `Iterator.stages`."""
        return [consumer_row(self.times, self.stats()["skipped"]), *self.spent.rows()]

    def draw(self, trace: Trace, level: int = 0) -> None:
        """Draw in a trace what the threads do from now on, and those of all streams that work for them."""
        before, self._drawn = self._drawn, trace
        if before is not None:
            before.leave(self)
        trace.follow(self, self.spent.name, level)
        if self._run is not None:
            self._run.draw(trace, level + 1)

    def traced(self, path: Filename, mask: bool) -> Trace:
        """Return a trace, which ends with this stream; see `Iterator.trace`."""
        if self._drawn is not None and self._drawn.is_of(self):
            raise FailedPreconditionError("this iterator's trace is being written already; close that one first")
        made = Trace(path, mask, self)
        self.draw(made)
        return made

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element delivered; see `Iterator.state_dict`."""
        chain = self.chain
        while True:
            self.check_place()
            place, draws = self.position()
            orders = {} if self._run is None else self._run.orders_at(self.oldest())
            cuts = self._cuts_at(place)
            ends = self._ends_at(place)
            stamps = self._identity.stamps(self, place.files_known)
            if place.version == self.position()[0].version:  # nobody went on meanwhile
                break
        place.iterations += draws.bases
        place.begun += [0] * len(draws.bases)
        return _state.pack(chain.describe(), chain.names(), draws.own + draws.pairs, place, orders, cuts, ends, stamps)

    def _cuts_at(self, place: Saved) -> list[list[int]]:
        """Return the cuts that a run from a place of a fed stream must repeat."""
        mark = place.mark
        if self._run is None or mark is None:
            return []
        # The block in which the place lies is made again from its beginning. A shuffle has got more than it gave.
        return self._run.cuts.state((mark.pass_, mark.base), None if self._own else (mark.pass_, mark.ordinal))

    def _ends_at(self, place: Saved) -> list[list[list[int]]]:
        """Return the ends of the inputs' sources that a run from a place meets again."""
        mark = place.mark
        return [] if self._run is None else self._run.cuts.ends(0 if mark is None else mark.pass_)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place; see `Iterator.load_state_dict`."""
        self.check_scope()
        self.go_to(self._prepared, state)

    def _prepared(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the argument of `Stream.restore` for a state given to `load_state_dict`."""
        chain = self.chain
        shuffles = chain.shuffles
        mine = self._own
        _, draws = self.position()
        own = [(pair, shuffle.seeds.seeded) for pair, shuffle in zip(draws.own + draws.pairs, shuffles, strict=True)]
        saved = _state.unpack(state, chain.describe(), chain.names(), own)
        # Other seeds get a counter of their own: iterators that run on with the old ones must not move it.
        counters = [
            shuffle.seeds.counter if shuffle.seeds.pair == pair else ShuffleCounter()
            for shuffle, pair in zip(shuffles, saved.seeds, strict=True)
        ]
        native = [counter if shuffle.reshuffle else None for shuffle, counter in zip(shuffles, counters, strict=True)]
        # The passes of inputs are counted as if they had run to their end.
        place = saved.place
        after = [*place.begun[:mine], *chain.iterations()[mine:]]
        later = [
            (shuffle.seeds, *one)
            for shuffle, *one in zip(
                shuffles, saved.seeds, counters, map(sum, zip(place.iterations, after, strict=True)), strict=True
            )
        ]
        draws = Drawn(saved.seeds[mine:], place.iterations[mine:], saved.seeds[:mine])
        place.iterations, place.begun = place.iterations[:mine], place.begun[:mine]
        run, orders = self._run, Orders(saved.orders)
        return {
            "place": place,
            "seeds": saved.seeds[:mine],
            "counters": native[:mine],
            "draws": draws,
            "later": later,
            "check": None
            if saved.stamps is None
            else functools.partial(self._checked_files, saved.stamps, place.files_known),
            "stop": None if run is None else run.stop,
            "callback": None
            if run is None
            else functools.partial(self._go_on, run, orders, Cuts(saved.cuts, saved.ends)),
        }

    def _go_on(self, run: NodeRun, orders: Orders, cuts: Cuts) -> None:
        self._known.forget()
        run.follow(self, orders, cuts)

    def _checked_files(self, then: Stamps, known: int, digests: list[int]) -> None:
        if not self.chain.source.fed and then.files != known:
            raise ResumeMismatchError("the state is damaged: its place is of other files than it says", stage="resume")
        self._identity.check(then, digests)

    def __enter__(self) -> Self:
        """Return this stream."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


# Of chunks that another stream makes batches of; more would not be used at once.
_INNER_LEASES = 16
_FEW_LEASES = 6


def _counter(base: int) -> ShuffleCounter:
    counter = ShuffleCounter()
    counter.next_iteration = base
    return counter


def _ahead_of(chain: Chain, seeded: Seeded | None) -> tuple[int, int]:
    """Return how many elements a feed makes ahead of the consumer, and how many of them the consumer takes at a time.

    -1: as many as there is room for.
    """
    if seeded is None:
        return chain.ahead_elements(), 1
    return (0, seeded.at_a_time) if seeded.at_a_time else (-1, 1)


def _set_options(description: Description, options: Options, inner: bool) -> None:
    description.on_hold_raise = options.on_hold == "raise" and not inner
    description.quiet = options.on_hold == "copy" or inner
    description.retries = options.retries or 0
    if description.files.remote:
        remote.ready()
        description.files = description.files.stored(remote.kept(description.files.store, options))
    description.asks, description.depth = options.io != "pread", options.io_depth or 0
    description.rings = options.io == "uring"
    description.drops = options.page_cache == "drop"
    description.direct = bool(options.direct)
    description.stall_warn = -1 if inner else _native_seconds(options.stall_warn, 60.0)
    description.stall_timeout = -1 if inner else _native_seconds(options.stall_timeout, math.inf)


def _native_seconds(value: float | None, default: float) -> float:
    seconds = default if value is None else value
    return -1.0 if seconds > 1e9 else seconds


register(ChainStream)
