"""Orders that are left free: the record of the order in which elements came, so that a saved place can name each.

A node that gives elements as they become ready has no place that a count could name. So the node notes the number of
each element that it gives, in a *tape* for each of its passes. Elements that no later run needs are *settled*: a tape
keeps only the set of their numbers, as a number below which all are settled, and the settled numbers above it. Then the
tape has a list of the numbers that followed. A run that begins at a saved place gives the elements of that list in the
list's order, and then the others.

An input may leave its order free too. Then the node notes, with what it has made, how much of the input it has used up.
A tape has about as many numbers as there can be elements under way.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from queuecore._core.stream.feed import Feed
from queuecore.errors import ResumeMismatchError

__all__ = ["Mark", "Orders", "Tape", "TurnTape"]

# A place in a fed stream: the pass, and the number of the first element that it may need again.
Mark = tuple[int, int]

# More elements, or datasets, than can be under way: no number is that far beyond those that have come.
_FAR = 1 << 16


def _check(right: bool) -> None:
    if not right:
        raise ResumeMismatchError("the state is damaged: what it says of an order can't have been", stage="resume")


def _are_numbers(values: Any, below: int = 1 << 62) -> bool:
    return isinstance(values, list) and all(type(one) is int and 0 <= one < below for one in values)


class Tape:
    """The order of elements, each noted by its number.

    Attributes
    ----------
    low : int
        All numbers below it are settled.
    beyond : set of int
        The other settled numbers.
    log : deque of int
        The numbers that followed, in order.
    """

    def __init__(self, state: Any = None) -> None:
        state = state or [0, [], []]
        _check(isinstance(state, list) and len(state) == 3 and _are_numbers(state[:1]))
        low, beyond, log = state
        _check(_are_numbers(beyond) and _are_numbers(log))
        came = {*beyond, *log}
        _check(len(came) == len(beyond) + len(log) and all(low <= one < low + len(came) + _FAR for one in came))
        self.low: int = low
        self.beyond: set[int] = set(beyond)
        self.log: deque[int] = deque(log)

    def note(self, number: int) -> None:
        """Note the next number."""
        self.log.append(number)

    def settle(self, count: int) -> None:
        """Settle the first `count` elements: they are not needed again."""
        for _ in range(min(count - self.low - len(self.beyond), len(self.log))):
            self.beyond.add(self.log.popleft())
            while self.low in self.beyond:
                self.beyond.remove(self.low)
                self.low += 1

    def state(self) -> Any:
        """Return the tape as plain values; `None` if nothing was noted."""
        return [self.low, sorted(self.beyond), list(self.log)] if self.low or self.beyond or self.log else None


class TurnTape:
    """Turns of datasets: number of the dataset, and how many of its elements.

    Attributes
    ----------
    settled : int
        Number of settled elements.
    next : int
        No dataset from this number on has given a settled element.
    open : dict
        For each dataset before it that has not ended: how many are settled, and whether one was an error.
    log : deque of list
        The turns that followed. Instead of how many, `END`, `ERROR` (of an element), or `NONE` (of the dataset, which
        counts as an element). Or a list of datasets, of how many rounds, and of how many elements of each in a round.
    """

    END, NONE, ERROR = 0, -1, -2

    def __init__(self, state: Any = None) -> None:
        state = state or [0, 0, [], []]
        _check(isinstance(state, list) and len(state) == 4 and _are_numbers(state[:2]))
        settled, following, open_, log = state
        _check(isinstance(open_, list) and all(_are_numbers(one) and len(one) == 3 for one in open_))
        _check(all(number < following and is_bad < 2 for number, _, is_bad in open_))
        _check(isinstance(log, list))
        for one in log:
            self._check_turn(one, following + len(log) + _FAR)
        self.settled: int = settled
        self.next: int = following
        self.open: dict[int, tuple[int, bool]] = {number: (taken, bool(is_bad)) for number, taken, is_bad in open_}
        self.log: deque[list[Any]] = deque(map(list, log))

    def _check_turn(self, one: Any, below: int) -> None:
        _check(isinstance(one, list) and len(one) in (2, 3))
        if len(one) == 2:
            _check(_are_numbers(one[:1], below) and type(one[1]) is int and self.ERROR <= one[1] < 1 << 62)
        else:
            numbers, *sizes = one
            _check(_are_numbers(numbers, below) and len(numbers) > 0 and _are_numbers(sizes) and all(sizes))
            _check(len(numbers) * sizes[0] <= 1 << 24)  # elements that nobody has settled yet

    def note(self, number: int, n: int) -> None:
        """Note a turn."""
        last = self.log[-1] if self.log else None
        if last is not None and n > 0 and last[0] == number and last[1] > 0:
            last[1] += n
        else:
            self.log.append([number, n])

    def note_rounds(self, numbers: list[int], rounds: int, block: int) -> None:
        """Note rounds of turns."""
        self.log.append([numbers, rounds, block])

    def turns(self) -> Iterator[tuple[int, int]]:
        """Yield the turns that followed, one by one."""
        for one in list(self.log):
            if isinstance(one[0], list):
                for _ in range(one[1]):
                    yield from ((number, one[2]) for number in one[0])
            else:
                yield one[0], one[1]

    def settle(self, count: int) -> None:
        """Settle the first `count` elements: they are not needed again."""
        while self.log and self.settled < count:
            entry = self.log.popleft()
            if isinstance(entry[0], list):
                numbers, rounds, block = entry
                whole = min(rounds, (count - self.settled) // (block * len(numbers)))
                for number in numbers if whole else ():
                    self._give(number, whole * block)
                if whole < rounds:
                    if whole + 1 < rounds:
                        self.log.appendleft([numbers, rounds - whole - 1, block])
                    self.log.extendleft([number, block] for number in reversed(numbers))
                continue
            number, n = entry
            if n > count - self.settled:
                self.log.appendleft([number, n - (count - self.settled)])
                n = count - self.settled
            self._give(number, n)

    def _give(self, number: int, n: int) -> None:
        while self.next <= number:
            self.open[self.next] = 0, False
            self.next += 1
        self.settled += n if n >= 0 else 1
        if n == self.END or n == self.NONE:
            self.open.pop(number, None)
        else:
            taken, bad = self.open[number]
            self.open[number] = taken + (n if n > 0 else 1), bad or n == self.ERROR

    def state(self) -> Any:
        """Return the turns as plain values; `None` if nothing was noted."""
        open_ = [[number, taken, int(bad)] for number, (taken, bad) in sorted(self.open.items())]
        return [self.settled, self.next, open_, list(self.log)] if self.next or self.log else None


def _parts(state: dict[str, Any]) -> tuple[int, dict[str, Any], dict[str, Any]]:
    pass_, tapes, below = state.get("pass", 0), state.get("tapes", {}), state.get("below", {})
    _check(_are_numbers([pass_]) and isinstance(tapes, dict) and isinstance(below, dict))
    _check(
        all(name.isdecimal() for name in (*tapes, *below)) and all(isinstance(inner, dict) for inner in below.values())
    )
    return pass_, tapes, below


class Orders:
    """The tapes of a node, and of its inputs. Any thread may use it.

    Parameters
    ----------
    state : dict, optional
        As `state` returns it.
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        pass_, tapes, below = _parts(state) if state else (0, {}, {})
        self._lock = threading.RLock()
        self._mark: Mark = (pass_, 0)
        self._states: dict[int, Any] = {int(of): tape for of, tape in tapes.items()}
        self._tapes: dict[int, Tape | TurnTape] = {}
        self._below: dict[tuple[int, int], Orders] = {}
        for index, inner in below.items():
            self._below[pass_, int(index)] = Orders(inner)
        # For each chunk: its pass, the number of an element up to which it goes, and how far it used up the inputs.
        self._given: deque[tuple[int, int, dict[int, Mark]]] = deque()

    def tape(self, pass_: int, kind: Callable[[Any], Any]) -> Any:
        """Return the tape of a pass."""
        with self._lock:
            if pass_ not in self._tapes:
                self._tapes[pass_] = kind(self._states.pop(pass_, None))
            return self._tapes[pass_]

    def note(self, tape: Any, *numbers: Any) -> None:
        """Note something in a tape."""
        with self._lock:
            if isinstance(numbers[0], list):
                tape.note_rounds(*numbers)
            else:
                tape.note(*numbers)

    def below(self, feed: Feed, pass_: int, index: int) -> Orders:
        """Return the orders of an input that is opened in a pass, for a feed."""
        with self._lock:
            before = self._below.get((pass_, index))
            made = Orders(None if before is None else before.state())
            if not feed.stopped:  # else another one may be at it already
                self._below[pass_, index] = made
            return made

    def gave(self, feed: Feed, pass_: int, count: int, marks: dict[int, Mark]) -> None:
        """Note that elements up to a number of a pass were given to a feed, and the places of the inputs then."""
        with self._lock:
            last = self._given[-1] if self._given else None
            # An earlier one with the same places says as much, for less.
            if not feed.stopped and (last is None or last[0] != pass_ or last[2] != marks):
                self._given.append((pass_, count, marks))

    def restart(self, mark: Mark) -> None:
        """Begin again at a place. Tapes that others still hold are no longer part of this."""
        with self._lock:
            self.settle(mark)
            made = Orders(self.state())
            self._mark = max(self._mark, made._mark)
            self._states, self._below, self._tapes = made._states, made._below, {}
            self._given.clear()

    def settle(self, mark: Mark) -> None:
        """Note that nothing before a place is needed again."""
        with self._lock:
            if mark < self._mark:  # it goes over what was settled before
                return
            self._mark = mark
            pass_, count = mark
            for old in [one for one in self._tapes if one < pass_]:
                del self._tapes[old]
            for old in [one for one in self._states if one < pass_]:
                del self._states[old]
            for key in [one for one in self._below if one[0] < pass_]:
                del self._below[key]
            if pass_ in self._tapes:
                self._tapes[pass_].settle(count)
            reached: dict[int, Mark] = {}
            while self._given and self._given[0][:2] <= mark:
                given = self._given.popleft()
                if given[0] == pass_:
                    reached = given[2]
            for index, there in reached.items():
                if (pass_, index) in self._below:
                    self._below[pass_, index].settle(there)

    def state(self) -> dict[str, Any]:
        """Return the tapes as plain values."""
        with self._lock:
            pass_ = self._mark[0]
            tapes = {str(of): tape.state() for of, tape in self._tapes.items()}
            tapes |= {str(of): state for of, state in self._states.items() if state}
            below = {str(index): orders.state() for (of, index), orders in self._below.items() if of == pass_}
            made = {
                "pass": pass_,
                "tapes": {of: state for of, state in tapes.items() if state},
                "below": {index: state for index, state in below.items() if state},
            }
            return made if made["tapes"] or made["below"] else {}
