"""Datasets that a function makes of elements, a few of them at a time, in turns.

Each dataset that the function returns is a native stream of its own, which reads ahead of its turn as soon as it
begins. This module only takes the turns: it puts rows of several streams together, a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from queuecore._checks.lazy import lazy
from queuecore._checks.usercode import arguments_of, called_at, name_of
from queuecore._io import remote
from queuecore._io.bad_data import Quarantine, is_bad_data
from queuecore.data._nodes.assembly import Assembly
from queuecore.data._nodes.children import Child, Children, InPlace, check_alike
from queuecore.data._nodes.combine import general_spec
from queuecore.data._nodes.inputs import MOST_OBJECTS
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.orders import TurnTape
from queuecore.data._nodes.replay import Replay
from queuecore.data._nodes.run import NodeRun, Seeded, open_chain
from queuecore.data._plan.chain import Chain, Chained, chain_of
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Skip, Take
from queuecore.data._rows.chunks import Chunk, Failed
from queuecore.data.options import Options
from queuecore.errors import DtypeError, QueueCoreError

__all__ = ["Interleave"]

# Rows of whole rounds that are put together at once, and turns from which that is worth it.
_MOST_ROWS = 1 << 16
_LEAST_TURNS = 32
# Elements tried to find out the kind of elements: after so many that are left out, or can't be made, it is unknown.
_MOST_TRIED = 100
_FEW_TRIED = 8


@dataclass(frozen=True, eq=False)
class Interleave(Node):
    """The elements of datasets that a function makes of elements, in turns.

    Attributes
    ----------
    method : str
        The method that the user called.
    function : callable
        Makes a dataset of an element.
    cycle, block : int
        How many datasets take turns, and how many elements each gives in its turn.
    begun : int
        How many datasets are begun at a time, before their turn too; 0: each begins when its turn comes.
    sloppy : bool or None
        Whether a dataset whose elements aren't ready loses its turn; `None`: as the options say.
    """

    name = "interleave"

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

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].endless(min_count)

    @lazy
    def first(self) -> Chain | None:
        """The chain that the function makes of the first element; `None` if it can't make one."""
        chain = self.inputs[0]
        shuffles = chain.shuffles
        skips = Quarantine(None, None) if chain.options.on_error == "skip" else None
        seeded = Seeded([one.seeds.pair for one in shuffles], [0] * len(shuffles), Options(), skips)
        number = 0
        while True:
            try:
                with open_chain(chain.then(Skip(number), Take(1)), seeded) as elements:
                    for element in elements:
                        return self.child_of(element, number)
                return None
            except QueueCoreError as error:
                # It comes out where it belongs, when elements are asked for; or is left out then. An error that is no
                # fault of the data may be another time.
                if not is_bad_data(error):
                    raise
                if number == (_FEW_TRIED if skips is None else _MOST_TRIED):
                    return None
            number += 1

    def streams(self) -> int:
        """Return how many streams the input and all datasets begun at a time have."""
        return super().streams() + max(self.cycle, self.begun) * (1 if self.first is None else self.first.streams())

    def layout(self) -> Layout:
        return Layout(None) if self.first is None else self.first.layout

    def leaves_free(self, options: Options) -> bool:
        return options.deterministic is False if self.sloppy is None else self.sloppy

    def spec(self) -> Any:
        return None if self.first is None else general_spec([self.first], self.method)

    def child_of(self, element: Any, number: int) -> Chain:
        """Return the chain that the function makes of an element.

        Raises
        ------
        PipelineError
            If the function raises: that exception is the ``__cause__``. `KeyboardInterrupt` and `SystemExit` come out
            as they are.
        DtypeError
            If it returns something else.
        """
        with remote.listed_by(self.lister()):
            result = called_at(self.method, number, self.function, *arguments_of(element))
        if not isinstance(result, Chained):
            raise DtypeError(
                f"{self.method}: {name_of(self.function)} must return a dataset, not {result!r:.60} (element {number})",
                stage=self.method,
                record=number,
            )
        return chain_of(result)

    def child_alike(self, element: Any, number: int) -> Chain:
        """Return the chain of an element, whose elements are like those of the first one, or raise `DtypeError`."""
        chain = self.child_of(element, number)
        if self.first is not None:
            check_alike(self.first, chain, self.method, number, mixed=True)
        return chain

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk | Failed]:
        rotation = _Rotation(self, run, pass_, start)
        try:
            yield from rotation.chunks()
        finally:
            rotation.close()


class _Rotation:
    """The turns of one pass.

    Attributes
    ----------
    drop : int
        Number of elements before the first one wanted; these are only counted.
    """

    def __init__(self, node: Interleave, run: NodeRun, pass_: int, start: int) -> None:
        self.drop = start
        self._run = run
        # Where turns are noted; `None` if they follow the fixed order.
        self._tape: TurnTape | None = run.tape(pass_, TurnTape)
        if self._tape is not None:
            self.drop = 0
            if run.orders is not None:
                self._tape.settle(start)
        self._start = start
        self._begun = node.begun
        # With one at a time, turns make no difference.
        self._block = node.block if node.cycle > 1 else 1 << 62
        self._slots: list[Child | None] = [None] * node.cycle
        self._open = 0
        self._children = Children(run, pass_, node.child_alike, node.first, 1 if node.cycle > 1 else None)
        as_rows = node.layout().components is not None
        most = node.first.chunk_rows(run.budget) if as_rows and node.first is not None else MOST_OBJECTS
        self._assembly = Assembly(as_rows, most)

    def close(self) -> None:
        """Close all datasets."""
        children = [child for child in self._slots if child is not None]
        self._children.stop()
        for child in children:
            child.stop()
        for child in children:
            child.close()
        self._children.close()

    def chunks(self) -> Generator[Chunk | Failed]:
        """Yield the elements."""
        if self._tape is not None:
            yield from self._replayed(self._tape)
        self._children.counting = self.drop > 0
        self._children.ahead = self._begun > 0
        slots, block = self._slots, self._block
        index = offset = 0
        even = True  # rounds of whole turns may be possible
        while True:
            if self._tape is not None:
                self._look_ahead()
                if self._assembly and self._ready(index) is None:
                    yield from self._assembly.taken()
                while (found := self._ready(index)) is None:
                    self._wait(index)
                if found != index:
                    index, offset = found, 0
            child = slots[index]
            if child is None:
                if self._children.all_given():
                    if not self._open:
                        break
                    index, offset = (index + 1) % len(slots), 0
                    continue
                slots[index] = yield from self._next()
                even = True
                continue
            if not child.left:
                filled = yield from self._filled(child)
                if filled is None:
                    continue
                if not filled:
                    child.close()
                    slots[index] = None
                    self._open -= 1
                    self._note(child.number, TurnTape.END)
                    index, offset = (index + 1) % len(slots), 0
                    continue
                even = True
            if even and not offset:
                rounds = self._rounds()
                even = rounds > 0
                if rounds:
                    yield from self._assembly.taken()
                    yield from self._whole(index, rounds)
                    continue
            n = min(block - offset, child.left)
            if self.drop:
                n = min(n, self.drop)
                child.take(n)
                self._dropped(n)
            else:
                enough = self._assembly.add(child.columns, child.take(n), n)
                self._note(child.number, n)
                if enough:
                    yield from self._assembly.taken()
            offset += n
            if offset == block:
                index, offset = (index + 1) % len(slots), 0
        yield from self._assembly.taken()

    def _replayed(self, tape: TurnTape) -> Generator[Chunk | Failed]:
        # The datasets that have not ended go on in the first slots.
        replay = Replay(tape, self._children, self._assembly)
        yield from replay.chunks(self._start)
        self._slots[:] = [*replay.going, *[None] * len(self._slots)][: len(self._slots)]
        self._open = len(replay.going)

    def _next(self) -> Generator[Chunk | Failed, None, Child | None]:
        """Return the dataset that the next slot gets; `None`: there is none yet."""
        if not self._children.soon():
            yield from self._assembly.taken()
        try:
            child = self._children.next()
        except BaseException:  # good elements come before it
            yield from self._assembly.taken()
            raise
        if isinstance(child, InPlace):  # no turn is taken by it
            yield from self._assembly.taken()
            self._note(child.number, TurnTape.NONE)
            if child.failed is not None:
                yield from self._in_place(child.failed)
            return None
        if child is not None:
            self._open += 1
            self._look_ahead()
        return child

    def _filled(self, child: Child) -> Generator[Chunk | Failed, None, bool | None]:
        """Let a child, and others that are ready, read more. Return whether it has elements; `None`: an error came."""
        if not child.ready():
            yield from self._assembly.taken()
        child.fill()
        if child.error is not None:
            yield from self._assembly.taken()
            raise child.error
        if child.failed is not None:
            failed, child.failed = child.failed, None
            yield from self._assembly.taken()
            self._note(child.number, TurnTape.ERROR)
            yield from self._in_place(failed)
            return None
        if not child.left:
            return False
        for other in self._slots:
            if other is not None and other.ready():
                other.fill()
        return True

    def _look_ahead(self) -> None:
        self._children.look_ahead(self._begun - self._open)

    def _note(self, *turn: Any) -> None:
        if self._tape is not None and self._run.orders is not None:
            self._run.orders.note(self._tape, *turn)

    def _in_place(self, failed: Failed) -> Generator[Failed]:
        # Gives an error in place of its element. An earlier run has told the errors of elements that this one drops.
        if self.drop:
            self._dropped(1)
        else:
            yield failed

    def _ready(self, index: int) -> int | None:
        """Return the first slot from `index` on that needs no wait."""
        for step in range(len(self._slots)):
            slot = (index + step) % len(self._slots)
            child = self._slots[slot]
            if child.ready() if child is not None else self._children.ready():
                return slot
        return None if self._open or not self._children.ended else index

    def _wait(self, at: int) -> None:
        """Wait a short time for one of the datasets that aren't ready."""
        children = [child for child in (*self._slots[at:], *self._slots[:at]) if child is not None]
        if children:
            children[0].wait()
        else:
            self._children.wait()

    def _dropped(self, n: int) -> None:
        self.drop -= n
        if self.drop:
            return
        self._children.counting = False
        for child in (*self._slots, *self._children.waiting()):  # nothing is only counted any more
            if child is not None:
                child.read()
                if self._begun:
                    child.begin()

    def _rounds(self) -> int:
        """Return how many whole turns all datasets can take now, if that is worthwhile."""
        if None in self._slots and not self._children.all_given():
            return 0
        block = self._block
        least = min(child.left for child in self._slots if child is not None) // block
        most = self.drop // (self._open * block) if self.drop else max(_MOST_ROWS // (self._open * block), 1)
        rounds = min(least, most)
        return rounds if rounds * self._open >= _LEAST_TURNS else 0

    def _whole(self, at: int, rounds: int) -> Generator[Chunk]:
        children = [child for child in (*self._slots[at:], *self._slots[:at]) if child is not None]
        n = rounds * self._block
        if self.drop:
            for child in children:
                child.take(n)
            self._dropped(n * len(children))
            return
        self._note([child.number for child in children], rounds, self._block)
        yield self._assembly.rounds([(child.columns, child.take(n)) for child in children], rounds, self._block)
