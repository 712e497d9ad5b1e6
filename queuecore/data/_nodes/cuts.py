"""Cuts: where errors have cut batches short or changed an order, so that a place leads to the same element again."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Cuts"]

# For an input, the numbers that lead to it, and one of the numbers of its `Saved.ended`.
_Ends = list[list[list[int]]]


class Cuts:
    """The batches of a node, and of its inputs, that don't begin where the number of those before them says.

    Also the ends of the inputs' sources, where an error ended what a shuffle takes its elements from.

    One thread notes cuts; any thread may ask for the state.

    Parameters
    ----------
    state, ends : iterable of list of int, optional
        As `state` and `ends` return them.

    Attributes
    ----------
    ended : list of list of int
        Where errors ended the source of the stream itself: as `Saved.ended`.
    """

    def __init__(self, state: Sequence[Sequence[int]] = (), ends: Sequence[Sequence[list[int]]] = ()) -> None:
        self.ended: list[list[int]] = []
        # By pass and number of a batch: the number of its first element, and whether the one before that was an error.
        self._first: dict[int, dict[int, tuple[int, bool]]] = {}
        # By number of an input and the pass in which it was opened.
        self._below: dict[tuple[int, int], Cuts] = {}
        for *path, pass_, batch, element, error in state:
            self._at(path).note(pass_, batch, element, bool(error))
        for path, one in ends:
            self._at(path).ended.append(one)

    def __bool__(self) -> bool:
        """Return whether any cut or end was noted."""
        below = self._below
        return bool(self._first) or bool(self.ended) or any(below[key] for key in list(below))

    def _at(self, path: Sequence[int]) -> Cuts:
        cuts = self
        for index, pass_ in zip(path[::2], path[1::2], strict=True):
            cuts = cuts._below.setdefault((index, pass_), Cuts())
        return cuts

    def end(self, ended: list[list[int]]) -> None:
        """Note where errors ended the source of the stream: as `Saved.ended`."""
        self.ended = ended

    def note(self, pass_: int, batch: int, element: int, error: bool) -> None:
        """Note with which element a batch begins, or an error in a batch's place; `error`: one came just before."""
        self._first.setdefault(pass_, {})[batch] = element, error

    def knows(self, pass_: int) -> bool:
        """Return whether cuts of a pass were noted."""
        return pass_ in self._first

    def first(self, pass_: int, batch: int, size: int) -> tuple[int, bool]:
        """Return the number of a batch's first element, and whether there were errors before; `size`: of the others."""
        noted = self._first.get(pass_, {})
        last = max((one for one in noted if one <= batch), default=-1)
        if last < 0:
            return batch * size, False
        return noted[last][0] + (batch - last) * size, True

    def begins(self, pass_: int, batch: int, element: int) -> bool:
        """Return whether a batch is known to begin with this element."""
        return self._first.get(pass_, {}).get(batch, (-1,))[0] == element

    def errors(self, pass_: int) -> set[int]:
        """Return the numbers of the elements of a pass that were errors and come before a noted batch."""
        return {element - 1 for element, error in self._first.get(pass_, {}).values() if error}

    def below(self, index: int, pass_: int) -> Cuts:
        """Return the cuts of an input that is opened in a pass: those of its earlier passes are complete."""
        below = self._below
        self._below = {key: below[key] for key in list(below) if below[key] or key[0] != index or key[1] == pass_}
        return self._below.setdefault((index, pass_), Cuts())

    def state(self, since: tuple[int, int], until: tuple[int, int] | None = None) -> list[list[int]]:
        """Return the cuts that decide about the batches between two places, each the pass and the number of a batch."""
        cuts = []
        # A list of a dict's keys is made at once; anything longer is met by the thread that notes.
        for pass_ in list(self._first):
            noted = self._first[pass_]
            batches = sorted(batch for batch in list(noted) if until is None or (pass_, batch) <= until)
            last = max((batch for batch in batches if (pass_, batch) <= since), default=0)
            cuts += [
                [pass_, batch, *map(int, noted[batch])] for batch in batches if pass_ >= since[0] and batch >= last
            ]
        below = self._below
        for index, pass_ in list(below):
            if pass_ >= since[0]:
                cuts += [[index, pass_, *cut] for cut in below[index, pass_].state((0, 0))]
        return sorted(cuts)

    def ends(self, since: int = 0) -> _Ends:
        """Return the ends of the stream's own source, and of those below that were opened in pass `since` or later.

        Each is the numbers and passes of the inputs that lead to a source, and one of the numbers of its `Saved.ended`.
        """
        made: _Ends = [[[], one] for one in self.ended]
        below = self._below
        for index, pass_ in sorted(below):
            if pass_ >= since:
                made += [[[index, pass_, *path], one] for path, one in below[index, pass_].ends()]
        return made
