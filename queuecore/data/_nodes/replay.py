"""Turns that an earlier run took, taken once more."""

from __future__ import annotations

from collections.abc import Generator

from queuecore.data._nodes.assembly import Assembly
from queuecore.data._nodes.children import Child, Children, InPlace
from queuecore.data._nodes.orders import TurnTape
from queuecore.data._rows.chunks import Chunk, Failed

__all__ = ["Replay"]


class Replay:
    """The turns of an earlier run, taken again by its tape: no dataset's elements come twice, and none are lost.

    First come the settled elements, one dataset after the other, but only those from the first wanted one on; then the
    turns of the tape.

    Parameters
    ----------
    tape : TurnTape
    children : Children
    assembly : Assembly
        Only makes chunks here: nothing of it is pending.

    Attributes
    ----------
    going : list of Child
        After the last chunk: the datasets that had a turn and have not ended.
    """

    def __init__(self, tape: TurnTape, children: Children, assembly: Assembly) -> None:
        self.going: list[Child] = []
        self._tape = tape
        self._children = children
        self._assembly = assembly

    def chunks(self, start: int) -> Generator[Chunk | Failed]:
        """Yield the elements from number `start` on."""
        tape, pass_by = self._tape, start
        ended = set()
        children: dict[int, Child | InPlace | BaseException] = {}
        for number in range(tape.next):
            child = self._children.numbered(number)
            if self._children.ended and number >= self._children.n:  # there are fewer than there were
                break
            count, bad = tape.open.get(number, (None, False))
            if start >= tape.settled:
                if count is None or not isinstance(child, Child):
                    continue
                child.taken, child.again = count, count if bad else 0
            else:
                for piece in self._next_of(child, count):
                    passed = min(pass_by, piece.n)
                    pass_by -= passed
                    if passed < piece.n:
                        yield piece.part(passed, piece.n)
            children[number] = child
        for number, n in tape.turns():
            if n in (TurnTape.END, TurnTape.NONE):
                ended.add(number)
            if number not in children:
                children[number] = self._children.numbered(number)
            yield from self._next_of(children[number], 1 if n in (TurnTape.ERROR, TurnTape.NONE) else n)
        for number, child in sorted(children.items(), key=lambda item: item[0]):
            if not isinstance(child, Child):
                continue
            if number in ended or child.ended or not (number >= tape.next or number in tape.open):
                child.close()
            else:
                self.going.append(child)

    def _next_of(self, child: Child | InPlace | BaseException, n: int | None) -> Generator[Chunk | Failed]:
        # The next n elements, or all.
        if isinstance(child, BaseException):
            raise child
        if isinstance(child, InPlace):
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
                yield self._assembly.part(child.columns, child.take(part), part)
            else:
                return
            n = None if n is None else n - part
