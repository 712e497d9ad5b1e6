"""Datasets that a function makes of elements, a few of them at a time, in turns.

Each dataset that the function returns is a native stream of its own, which reads ahead of its turn as soon as it
begins. This module only takes the turns: it puts rows of several streams together, a chunk at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.lazy import lazy
from queuecore._checks.usercode import arguments_of, called_at, name_of
from queuecore._core.stream.describe import FIXED, STRING
from queuecore._elements.nests import plain, structure_of
from queuecore._io.bad_data import Quarantine, is_bad_data
from queuecore.data._nodes.arrays import Items, Numbers, Slices
from queuecore.data._nodes.combine import general_spec
from queuecore.data._nodes.inputs import MOST_OBJECTS, objects_of
from queuecore.data._nodes.interleave_files import shapes_of_components
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.orders import TurnTape
from queuecore.data._nodes.run import NodeRun, Opened, Seeded, open_chain, rows_of
from queuecore.data._plan.chain import Chain, Chained, chain_of
from queuecore.data._plan.made import Layout, NativeComponent, native_of
from queuecore.data._plan.steps import BatchStep, Count, Skip, Take
from queuecore.data._rows.chunks import Chunk, Failed, Objects, Rows
from queuecore.data._rows.columns import compacted, joined, typed
from queuecore.data._rows.elements import flattened
from queuecore.data._rows.gathered import Gathering
from queuecore.data._rows.values import general, spec_of
from queuecore.data.options import Options
from queuecore.errors import DtypeError, QueueCoreError
from queuecore.ragged import Ragged

__all__ = ["Interleave", "at_hand", "check_alike"]

# Of datasets, where the passes of the shuffles in them are numbered.
_MANY = 1 << 20
# Rows that are put together at once, and turns from which that is worth it.
_MOST_ROWS = 1 << 16
_LEAST_TURNS = 32
_MOST_TURNS = 256
_PATIENCE = 0.002
# Seconds that pending elements may wait for those after them.
_MOMENT = 100e-6
# Rows in memory that are batched without a stream.
_FEW_ROWS = 4096
_CHAR = np.dtype("S1")
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

    def count(self, needed: int | None) -> Count:
        return self.inputs[0].endless(needed)

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
                # It comes out where it belongs, when elements are asked for; or is left out then. What is no fault of
                # the data may be another time.
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
        result = called_at(self.method, number, self.function, *arguments_of(element))
        if not isinstance(result, Chained):
            raise DtypeError(
                f"{self.method}: {name_of(self.function)} must return a dataset, not {result!r:.60} (element {number})",
                stage=self.method,
                record=number,
            )
        return chain_of(result)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Chunk | Failed]:
        rotation = _Rotation(self, run, pass_, start)
        try:
            yield from rotation.chunks()
        finally:
            rotation.close()


class _Child:
    """A dataset that takes turns.

    Attributes
    ----------
    left : int
        Elements that were read and not yet given; while elements are only counted, all elements that there are.
    """

    def __init__(self, run: NodeRun, chain: Chain, number: int, like: Chain | None, threads: int | None) -> None:
        self.number = number % _MANY
        self.left = 0
        self.ended = False
        self.taken = 0
        # Of these, how many are to be made again because one was an error.
        self.again = 0
        self.error: BaseException | None = None
        # Of the next element alone.
        self.failed: Failed | None = None
        self.columns: list[Any] = []
        self.first = 0
        self._run = run
        self._dataset = chain
        if threads is not None and chain.options.num_threads is None and run.options.num_threads is None:
            self._dataset = chain.with_options(Options(num_threads=threads))
        self._number = number
        self._like = like
        self._rows = like is not None and like.layout.components is not None
        self._iterator: Opened | None = None
        self._chunks: Generator[Any] | None = None
        self.total: int | float | None = None

    def begin(self) -> None:
        """Let the dataset read ahead, from its current element."""
        if self._chunks is not None or self.error is not None:
            return
        try:
            first = 0 if self.again else self.taken
            self._chunks = at_hand(self._dataset, self._run, first, self._rows)
            if self._chunks is not None:
                return
            as_rows = self._rows and self._dataset.layout.components is not None
            batch = self._dataset.chunk_rows(self._run.budget) if as_rows else 0
            self._iterator = self._run.open_other(self._dataset, self._number, first, batch)
            self._chunks = rows_of(self._iterator, True) if as_rows else objects_of(self._iterator, True)
            if self._like is not None and self._rows and not as_rows:
                self._chunks = _as_rows(self._chunks, self._like)
            self._iterator.poll(0)
        except BaseException as error:  # noqa: BLE001 - it comes out in its turn
            self.error = error

    def count_only(self) -> None:
        """Find out how many elements there are without reading them, if the number is known."""
        self.total = None if self._run.skips is not None else self._dataset.known_count()
        if self.total is not None:
            self.left = int(min(self.total, 1 << 62)) - self.taken
            self.ended = not self.left

    def read(self) -> None:
        """Read elements from now on instead of only counting them."""
        if self.total is not None:
            self.total = None
            self.left = 0

    def ready(self) -> bool:
        """Return whether `fill` would not wait."""
        if self.left or self.ended or self.error is not None or self.failed is not None:
            return True
        self.begin()
        return self._iterator is None or self._iterator.poll(0)

    def wait(self) -> None:
        """Wait a short time for the dataset to be ready."""
        if self._iterator is not None:
            self._iterator.poll(_PATIENCE)

    def fill(self) -> None:
        """Read more, if nothing is left; afterwards there is some, or it has ended, with an error or without."""
        if self.left or self.ended or self.error is not None or self.failed is not None:
            return
        self.begin()
        self.columns = []  # gives its memory back before more is read
        try:
            chunk = None if self._chunks is None else next(self._chunks, None)
            while self.again and chunk is not None:
                passed = min(self.again, chunk.n)
                self.again -= passed
                chunk = chunk.part(passed, chunk.n) if passed < chunk.n else next(self._chunks, None)  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - it comes out in its turn
            self.error = error
            return
        if self.error is not None:
            return
        if chunk is None:
            self.ended = True
            return
        if isinstance(chunk, Failed):
            self.failed = chunk
            return
        self.left = chunk.n
        if isinstance(chunk, Rows):
            if chunk.rows is not None:
                chunk = Rows(chunk.n, compacted(chunk.columns, 0, chunk.n, chunk.rows))
            self.columns, self.first = chunk.columns, chunk.first
        else:
            self.columns, self.first = chunk.elements, 0

    def take(self, n: int) -> int:
        """Take the next `n` of the elements that are left; return the first one's index."""
        at = self.first
        self.first += n
        self.taken += n
        self.left -= n
        if self.total is not None and not self.left:
            self.ended = True
        return at

    def stop(self) -> None:
        """Ask the dataset to end soon."""
        if self._iterator is not None:
            self._iterator.stop()

    def close(self) -> None:
        """Release the dataset's stream and memory."""
        self.columns = []
        if self._iterator is not None:
            self._iterator.close()


class _InPlace:
    """The error in the place of a dataset that can't be made; nothing, once the error was given."""

    def __init__(self, number: int, failed: Failed | None) -> None:
        self.number = number
        self.failed = failed


def check_alike(first: Chain, chain: Chain, what: str, number: int, mixed: bool = False) -> None:
    """Raise `DtypeError` if elements of a chain, made for element `number`, aren't like those of the first one.

    `mixed`: rows may be among Python objects, and objects among rows.
    """
    here, there = chain.layout, first.layout
    of_objects = (there.components is None) + (here.components is None)
    if of_objects == 2 or (of_objects and mixed):  # of rows among them each element is looked at
        general_spec([first, chain], what)
    elif (
        of_objects
        or shapes_of_components(here) != shapes_of_components(there)
        or plain(here.template) != plain(there.template)
    ):
        raise DtypeError(
            f"{what}: all datasets must have elements alike, not {first.element_spec!r} and, "
            f"from element {number} on, {chain.element_spec!r}",
            stage=what,
            record=number,
        )


def _as_rows(chunks: Generator[Any], like: Chain) -> Generator[Any]:
    """Yield Python objects as rows like those of a chain."""
    gathering, spec = Gathering(like.layout), like.element_spec
    shapes = [component.shape for component in like.layout.components or ()]
    with contextlib.closing(chunks):
        for chunk in chunks:
            if isinstance(chunk, Failed):
                yield chunk
                continue
            for element in chunk.elements:
                try:
                    general(spec, spec_of(element))
                    leaves = flattened(element, lambda leaf, where: leaf)[1]
                    if not all(map(_fits, leaves, shapes)):
                        raise DtypeError(f"elements must be alike, not {spec!r} and {element!r:.80}")
                    columns, row = gathering.row(element)
                except DtypeError as error:
                    yield Failed(error)
                else:
                    yield Rows(1, columns, row)


def _fits(leaf: Any, shape: Any) -> bool:
    if isinstance(leaf, Ragged):  # of strings
        return len(shape) == 1 and shape[0] in (None, len(leaf))
    here = np.shape(leaf)
    return len(here) == len(shape) and all(b is None or a == b for a, b in zip(here, shape, strict=True))


def at_hand(chain: Chain, run: NodeRun, start: int, rows: bool) -> Generator[Chunk] | None:
    """Yield elements that are in memory, for which a stream would cost more; `None` if they are not in memory.

    As rows, or as objects.
    """
    source, steps = chain.source, chain.steps
    if not steps and isinstance(source, Slices | Numbers if rows else Items):
        return source.chunks(run, 0, start)
    if rows or not isinstance(source, Slices) or source.rows.n > _FEW_ROWS:
        return None
    if len(steps) != 1 or not isinstance(steps[0], BatchStep):
        return None
    kinds = [native_of(one, 0) for one in source.given.components or ()]
    if source.given.structure is not None or not all(kind in (FIXED, STRING) for kind, _, _ in kinds):
        return None
    return _batches(source, steps[0], kinds, start)


def _batches(source: Slices, batch: BatchStep, kinds: list[NativeComponent], start: int) -> Generator[Objects]:
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


class _Rotation:
    """The turns of one pass.

    Attributes
    ----------
    drop : int
        Number of elements before the first one wanted; these are only counted.
    """

    def __init__(self, node: Interleave, run: NodeRun, pass_: int, start: int) -> None:
        self.drop = start
        self._node = node
        self._run = run
        self._pass = pass_
        # Where turns are noted; `None` if they follow the fixed order.
        self._tape: TurnTape | None = run.tape(pass_, TurnTape)
        if self._tape is not None:
            self.drop = 0
            if run.orders is not None:
                self._tape.settle(start)
        self._start = start
        self._telling = False
        self._layout = node.layout()
        self._input = run.open(0, pass_)
        self._input_ended = False
        self._elements = 0
        self._waiting: deque[_Child | _InPlace | BaseException] = deque()  # begun, without a turn yet
        self._slots: list[_Child | None] = [None] * node.cycle
        self._open = 0
        # With one at a time, turns make no difference.
        self._block = node.block if node.cycle > 1 else 1 << 62
        # Pending elements: their columns, where they begin in these, and how many they are.
        self._pending: list[tuple[list[Any], int, int]] = []
        self._elements_pending = 0
        # Seconds that making the last dataset took, as far as the turns waited for it.
        self._took = math.inf
        rows = self._layout.components is not None
        self._most_pending = node.first.chunk_rows(run.budget) if rows and node.first is not None else MOST_OBJECTS

    def close(self) -> None:
        """Close all datasets."""
        children = [one for one in (*self._slots, *self._waiting) if isinstance(one, _Child)]
        self._input.stop()
        for child in children:
            child.stop()
        for child in children:
            child.close()
        self._input.close()

    # -- datasets ------------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        """Make the dataset of the next element and let it begin."""
        node = self._node
        while True:
            number = self._elements
            try:
                element = next(self._input)
            except StopIteration:
                self._input_ended = True
                return
            except BaseException as error:  # noqa: BLE001 - it comes out in its turn
                if not isinstance(error, Exception) or not self._input.goes_on:
                    self._fail(error)
                else:
                    self._elements += 1
                    self._waiting.append(_InPlace(number, Failed(error)))
                return
            self._elements += 1
            try:
                chain = node.child_of(element, number)
                if node.first is not None:
                    check_alike(node.first, chain, node.method, number, mixed=True)
            except QueueCoreError as error:
                if self._run.skips is None:
                    self._waiting.append(_InPlace(number, Failed(error)))
                    return
                try:
                    self._run.skips.skip(error)
                except QueueCoreError as last:
                    self._fail(last)
                    return
                continue
            except BaseException as error:  # noqa: BLE001
                self._fail(error)
                return
            threads = 1 if node.cycle > 1 else None
            child = _Child(self._run, chain, self._pass * _MANY + number, node.first, threads)
            if self.drop:
                child.count_only()
            elif node.begun and not self._telling:
                child.begin()
            self._waiting.append(child)
            return

    def _fail(self, error: BaseException) -> None:
        self._input_ended = True
        self._waiting.append(error)

    def _look_ahead(self) -> None:
        """Begin further datasets, as far as that needs no wait."""
        while (
            not self._input_ended
            and not self.drop
            and self._open + len(self._waiting) < self._node.begun
            and self._input.poll(0)
        ):
            self._pull()

    def _quick(self) -> bool:
        """Return whether the next dataset will be there before the pending elements are late."""
        return bool(self._waiting) or self._input_ended or (self._took < _MOMENT and self._input.poll(0))

    def _next(self) -> _Child | _InPlace | None:
        """Return the next dataset, or what takes its place; `None`: there is none."""
        if not self._waiting and not self._input_ended:
            begun = time.monotonic()
            self._pull()
            self._took = time.monotonic() - begun
        if not self._waiting:
            return None
        child = self._waiting.popleft()
        if isinstance(child, BaseException):
            raise child
        if isinstance(child, _InPlace):
            return child
        self._open += 1
        self._look_ahead()
        return child

    def _counted(self) -> None:
        """Hand on the elements that follow: nothing is only counted any more."""
        for child in (*self._slots, *self._waiting):
            if isinstance(child, _Child):
                child.read()
                if self._node.begun:
                    child.begin()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def chunks(self) -> Generator[Chunk | Failed]:
        """Yield the elements."""
        node, slots = self._node, self._slots
        if self._tape is not None:
            yield from self._told()
        at = offset = 0
        even = True  # rounds of whole turns may be possible
        while True:
            if self._tape is not None:
                self._look_ahead()
                if self._pending and self._ready(at) is None:
                    yield from self._flush()
                while (found := self._ready(at)) is None:
                    self._wait(at)
                if found != at:
                    at, offset = found, 0
            child = slots[at]
            if child is None:
                if self._input_ended and not self._waiting:
                    if not self._open:
                        break
                    at, offset = (at + 1) % node.cycle, 0
                    continue
                if not self._quick():
                    yield from self._flush()
                try:
                    found_next = self._next()
                except BaseException:  # good elements come before it
                    yield from self._flush()
                    raise
                if isinstance(found_next, _InPlace):  # no turn is taken by it
                    yield from self._flush()
                    self._note(found_next.number, TurnTape.NONE)
                    if found_next.failed is not None:
                        yield from self._in_place(found_next.failed)
                    continue
                slots[at] = found_next
                even = True
                continue
            if not child.left:
                filled = yield from self._filled(child)
                if filled is None:
                    continue
                if not filled:
                    child.close()
                    slots[at] = None
                    self._open -= 1
                    self._note(child.number, TurnTape.END)
                    at, offset = (at + 1) % node.cycle, 0
                    continue
                even = True
            if even and not offset:
                rounds = self._rounds()
                even = False
                if rounds:
                    yield from self._flush()
                    yield from self._whole(at, rounds)
                    even = True
                    continue
            n = min(self._block - offset, child.left)
            if self.drop:
                n = min(n, self.drop)
                child.take(n)
                self._dropped(n)
            else:
                self._pending.append((child.columns, child.take(n), n))
                self._elements_pending += n
                self._note(child.number, n)
            offset += n
            if offset == self._block:
                at, offset = (at + 1) % node.cycle, 0
            if len(self._pending) >= _MOST_TURNS or self._elements_pending >= self._most_pending:
                yield from self._flush()
        yield from self._flush()

    def _filled(self, child: _Child) -> Generator[Chunk | Failed, None, bool | None]:
        """Let a child, and others that are ready, read more. Return whether it has elements; `None`: an error came."""
        if not child.ready():
            yield from self._flush()
        child.fill()
        if child.error is not None:
            yield from self._flush()
            raise child.error
        if child.failed is not None:
            failed, child.failed = child.failed, None
            yield from self._flush()
            self._note(child.number, TurnTape.ERROR)
            yield from self._in_place(failed)
            return None
        if not child.left:
            return False
        for other in self._slots:
            if other is not None and other.ready():
                other.fill()
        return True

    def _note(self, *turn: Any) -> None:
        if self._tape is not None and self._run.orders is not None:
            self._run.orders.note(self._tape, *turn)

    def _told(self) -> Generator[Chunk | Failed]:
        # Gives once more what an earlier run gave: first the settled elements, one dataset after the other, but only
        # those from the first wanted one on; then the turns of the tape. A dataset that had a turn goes on in a slot.
        assert self._tape is not None
        tape, pass_by = self._tape, self._start
        ended = set()
        self._telling = True  # nothing reads ahead before its first element is known
        children: dict[int, _Child | _InPlace | BaseException] = {}
        for number in range(tape.next):
            child = self._begun(number)
            if self._input_ended and number >= self._elements:  # there are fewer than there were
                break
            taken, bad = tape.open.get(number, (None, False))
            if self._start >= tape.settled:
                if taken is None or not isinstance(child, _Child):
                    continue
                child.taken, child.again = taken, taken if bad else 0
            else:
                for piece in self._of(child, taken):
                    passed = min(pass_by, piece.n)
                    pass_by -= passed
                    if passed < piece.n:
                        yield piece.part(passed, piece.n)
            children[number] = child
        for number, n in tape.turns():
            if n in (TurnTape.END, TurnTape.NONE):
                ended.add(number)
            if number not in children:
                children[number] = self._begun(number)
            for piece in self._of(children[number], 1 if n == TurnTape.ERROR or n == TurnTape.NONE else n):
                yield piece
        going = [one for number, one in sorted(children.items()) if number not in ended and isinstance(one, _Child)]
        going = [one for one in going if not one.ended and (one.number >= tape.next or one.number in tape.open)]
        for one in children.values():
            if isinstance(one, _Child) and one not in going:
                one.close()
        self._slots[:] = [*going, *[None] * len(self._slots)][: len(self._slots)]
        self._open = len(going)
        self._telling = False

    def _begun(self, number: int) -> _Child | _InPlace | BaseException:
        # The dataset of an element of the input; datasets before it that nobody asked for wait.
        while self._elements <= number and not self._input_ended:
            self._pull()
        for index, one in enumerate(self._waiting):
            if isinstance(one, BaseException) or one.number == number:
                del self._waiting[index]
                return one
        return _InPlace(number, None)

    def _of(self, child: _Child | _InPlace | BaseException, n: int | None) -> Generator[Chunk | Failed]:
        # The next n elements, or all.
        if isinstance(child, BaseException):
            raise child
        if isinstance(child, _InPlace):
            if child.failed is not None and n != 0:
                failed, child.failed = child.failed, None
                yield failed
            return
        while n is None or n > 0:
            child.fill()
            if child.error is not None:
                raise child.error
            if child.failed is not None:
                failed, child.failed = child.failed, None
                child.taken += 1
                yield failed
                part = 1
            elif child.left:
                part = child.left if n is None else min(n, child.left)
                at, columns = child.take(part), child.columns
                objects = self._layout.components is None
                yield Objects(columns[at : at + part]) if objects else Rows(part, columns, at)
            else:
                return
            n = None if n is None else n - part

    def _in_place(self, failed: Failed) -> Generator[Failed]:
        # Gives an error in place of its element. An earlier run has told the errors of elements that this one drops.
        if self.drop:
            self._dropped(1)
        else:
            yield failed

    def _ready(self, at: int) -> int | None:
        """Return the first slot from `at` on that needs no wait."""
        for step in range(len(self._slots)):
            slot = (at + step) % len(self._slots)
            child = self._slots[slot]
            if child is not None:
                if child.ready():
                    return slot
            elif self._waiting or (not self._input_ended and self._input.poll(0)):
                return slot
        return None if self._open or not self._input_ended else at

    def _wait(self, at: int) -> None:
        """Wait a short time for one of the datasets that aren't ready."""
        children = [child for child in (*self._slots[at:], *self._slots[:at]) if child is not None]
        if children:
            children[0].wait()
        else:
            self._input.poll(_PATIENCE)

    def _dropped(self, n: int) -> None:
        self.drop -= n
        if not self.drop:
            self._counted()

    def _rounds(self) -> int:
        """Return how many whole turns all datasets can take now, if that is worthwhile."""
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
        if self._tape is not None:
            self._note([child.number for child in children], rounds, block)
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
        """Hand on the pending elements."""
        pending, self._pending = self._pending, []
        self._elements_pending = 0
        if not pending:
            return
        if self._layout.components is None:
            yield Objects([element for part, first, n in pending for element in part[first : first + n]])
            return
        # One piece of each list of columns. A dataset's turns take rows that follow each other; but rows in memory may
        # be those of several datasets, which are at other places of them.
        spans: dict[int, list[Any]] = {}
        for columns, first, n in pending:
            span = spans.setdefault(id(columns), [columns, first, first + n])
            span[1:] = min(span[1], first), max(span[2], first + n)
        counts = np.array([n for _, _, n in pending])
        places = np.array([first for _, first, _ in pending])
        if len(spans) == 1 and (places[1:] == places[:-1] + counts[:-1]).all():
            ((columns, first, stop),) = spans.values()
            yield Rows(stop - first, columns, first)
            return
        offsets, total = {}, 0
        for key, (_, first, stop) in spans.items():
            offsets[key] = total - first
            total += stop - first
        begins = places + np.array([offsets[id(columns)] for columns, _, _ in pending])
        order = np.arange(counts.sum(), dtype=np.int64) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        yield Rows(len(order), joined([(one, first, stop) for one, first, stop in spans.values()]), 0, order)
