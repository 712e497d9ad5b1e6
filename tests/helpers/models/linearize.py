"""Judges a concurrent history of a bounded queue: could one queue, doing one thing at a time, have done this?

A history is a list of `Call`s: when it was made, when it returned (`math.inf` if it never did), and what came of it.
The rules are those of `QueueModel`, seen from outside, where the order of arrival is not known:

* a put or a row of a put_many goes in when there is room and no close has happened; the rows of one put_many have no
  other row between them, though gets may come between;
* a get takes the first row; a get_many takes its rows one by one with no other get between them, holding them unseen,
  and puts them back to the front if it fails;
* a put fails with "closed" only when closed; a get fails with "end" only when closed and without enough rows;
* what times out has no effect, but for the rows that a put_many had in;
* a close that doesn't cancel waits until no put_many is half in; one that cancels may come in between.

These are a FIFO queue's. Of a shuffling one a get takes any row, and leaves `least` rows in while it is open; of a
priority queue a get takes the smallest `priority`, of equal ones the first, and a get_many all its rows at once.

`check` runs necessary conditions that are quick for any length, then, for short histories, the complete search of Wing
and Gong with Lowe's memory of states seen. Values must be unique and hashable.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers.models.queue_model import FIFO, PRIORITY, SHUFFLE

OK, CLOSED, END, TIMEOUT = "ok", "closed", "end", "timeout"
PUT, PUT_MANY, GET, GET_MANY, GET_UP_TO, CLOSE, CANCEL = (
    "put",
    "put_many",
    "get",
    "get_many",
    "get_up_to",
    "close",
    "cancel",
)
PUTS, GETS, CLOSES = (PUT, PUT_MANY), (GET, GET_MANY, GET_UP_TO), (CLOSE, CANCEL)


@dataclass(frozen=True)
class Call:
    """One call of an operation. `values` are what was put or got, `wanted` is how many a get asked for."""

    name: str
    invoked: float
    returned: float
    result: str | None
    values: tuple[Any, ...] = ()
    wanted: int = 1

    def __str__(self) -> str:
        return f"{self.name}{list(self.values)} of {self.wanted} -> {self.result} [{self.invoked}, {self.returned}]"


History = Sequence[Call]


def priority(value: int) -> int:
    """Return the priority of a value in the histories of a priority queue, where many must be equal."""
    return value % 10


def check(
    history: History, capacity: float = math.inf, *, kind: str = FIFO, least: int = 0, search_limit: int = 40
) -> str | None:
    """Say what is wrong with a history; None if nothing is (or nothing that could be found: see the search limit)."""
    wrong = necessary(history, capacity, kind=kind)
    if wrong is None and len(history) <= search_limit and not explained(history, capacity, kind=kind, least=least):
        return "no order of the operations explains this history"
    return wrong


# ---- necessary conditions --------------------------------------------------------------------------------------------


@dataclass
class _Value:
    """What is known of one value: its put, its place there, and its get."""

    put: Call
    place: int
    get: Call | None = None
    got_place: int = 0


def necessary(history: History, capacity: float = math.inf, *, kind: str = FIFO) -> str | None:
    """Conditions on values, pairs of values, and closes; each is necessary, together they are not sufficient."""
    try:
        values = _values(history)
        _check_closes(history, values)
        _check_lost(history, values)
        _check_room(history, values, capacity)
        if kind == FIFO:
            _check_order(values)
            _check_runs(history, values)
        elif kind == PRIORITY:
            _check_sorted(history)
    except _Wrong as wrong:
        return str(wrong)
    return None


class _Wrong(Exception):
    pass


def _values(history: History) -> dict[Any, _Value]:
    values: dict[Any, _Value] = {}
    for call in history:
        if call.name in PUTS:
            for place, v in enumerate(call.values):
                assert v not in values, f"the test put {v} twice"
                values[v] = _Value(call, place)
    for call in history:
        if call.name in GETS and call.result == OK:
            if not (len(call.values) == call.wanted or (call.name == GET_UP_TO and 0 < len(call.values) < call.wanted)):
                raise _Wrong(f"wrong number of values: {call}")
            for place, v in enumerate(call.values):
                if v not in values:
                    raise _Wrong(f"{v!r} was got and never put: {call}")
                known = values[v]
                if known.get is not None:
                    raise _Wrong(f"{v!r} was got twice: {known.get} and {call}")
                if known.put.invoked > call.returned:
                    raise _Wrong(f"{v!r} was got before it was put: {call} and {known.put}")
                known.get, known.got_place = call, place
    for call in history:
        # Of a call that failed, some rows may be in (the first ones: see below), but not the last.
        if call.name in PUTS and call.result in (CLOSED, TIMEOUT) and all(values[v].get for v in call.values):
            raise _Wrong(f"all rows are in though the call failed: {call}")
    return values


def _check_closes(history: History, values: dict[Any, _Value]) -> None:
    closes = [c for c in history if c.name in CLOSES and c.result in (OK, None)]
    first_begun = min((c.invoked for c in closes), default=math.inf)
    first_done = min((c.returned for c in closes), default=math.inf)
    for call in history:
        if call.result in (CLOSED, END) and call.returned < first_begun:
            raise _Wrong(f"{call} before any close was called")
        if call.name in PUTS and call.values and call.result == OK and call.invoked > first_done:
            raise _Wrong(f"{call} was called after a close had returned")
        if call.name in GETS and call.result == OK and len(call.values) < call.wanted and call.returned < first_begun:
            raise _Wrong(f"{call} is short before any close was called")
        if call.returned == math.inf and first_done < math.inf:
            raise _Wrong(f"{call} still waits though the queue is closed")
    # A get says "end" only if too little was there: count the rows that were there all the time.
    for call in history:
        if call.name in GETS and (call.result == END or (call.result == OK and len(call.values) < call.wanted)):
            rows_there = sum(
                v.put.result == OK
                and v.put.returned < call.invoked
                and (v.get is None or v.get.invoked > call.returned)
                for v in values.values()
            )
            if rows_there >= (1 if call.name == GET_UP_TO else call.wanted):
                raise _Wrong(f"{call} though {rows_there} rows were there all the time")


def _check_order(values: dict[Any, _Value]) -> None:
    # If put(a) was over before put(b) began, and b came out before the get of a began, a was overtaken. Walk through
    # the values by the begin of their puts; `latest` is the latest begin of a get among those put before.
    by_invoked = sorted(values.items(), key=lambda item: item[1].put.invoked)
    by_returned = sorted((i for i in values.items() if i[1].put.result == OK), key=lambda item: item[1].put.returned)
    latest, who, done = -math.inf, None, 0
    for b, passage in by_invoked:
        while done < len(by_returned) and by_returned[done][1].put.returned < passage.put.invoked:
            a, other = by_returned[done]
            done += 1
            begun = other.get.invoked if other.get else math.inf
            if begun > latest:
                latest, who = begun, a
        if passage.get is not None and passage.get.returned < latest:
            raise _Wrong(f"{b!r} overtook {who!r}: {passage.put}, {passage.get}, and {values[who]}")
    # The same inside one call.
    for b, passage in values.items():
        if passage.get is None:
            continue
        if passage.place:
            a = passage.put.values[passage.place - 1]
            before = values[a]
            if before.get is None:
                raise _Wrong(f"{b!r} came out, {a!r} before it did not: {passage.put}")
            if before.get is passage.get and before.got_place != passage.got_place - 1:
                raise _Wrong(f"rows of {passage.put} are not in one piece in {passage.get}")
            if passage.get.returned < before.get.invoked:
                raise _Wrong(f"{b!r} overtook {a!r} of the same {passage.put}")
        if passage.got_place:
            a = passage.get.values[passage.got_place - 1]
            if passage.put.returned < values[a].put.invoked:
                raise _Wrong(f"{a!r} overtook {b!r} within {passage.get}")


def _check_lost(history: History, values: dict[Any, _Value]) -> None:
    # A single get, or one of up to n, that begins after all else is over and finds the end: nothing may be left.
    ends = [c.invoked for c in history if c.name in (GET, GET_UP_TO) and c.result == END]
    last = max((c.returned for c in history if c.result != END), default=-math.inf)
    if max(ends, default=-math.inf) > last:
        for v, known in values.items():
            if known.put.result == OK and known.get is None:
                raise _Wrong(f"{v!r} is lost: {known.put}")


def _check_room(history: History, values: dict[Any, _Value], capacity: float) -> None:
    # What is surely in: put, and no get begun. Rows that a failing get held and gave back may exceed the capacity.
    capacity += sum(c.wanted - 1 for c in history if c.name in GETS and c.result != OK)
    events = sorted(
        [(v.put.returned, 1) for v in values.values() if v.put.result == OK]
        + [(v.get.invoked, -1) for v in values.values() if v.put.result == OK and v.get is not None]
    )
    inside = 0
    for when, change in events:
        inside += change
        if inside > capacity:
            raise _Wrong(f"{inside} rows at {when}, more than the capacity")


def _check_runs(history: History, values: dict[Any, _Value]) -> None:
    # Between two neighbours in one get_many no third row can have been put: neither another batch's (rows of one
    # put_many are in one piece) nor any whose put lies between theirs.
    puts = sorted((v.put.invoked, v.put.returned) for v in values.values() if v.put.result == OK)
    begins = [begin for begin, _ in puts]
    # The earliest end among the puts from here on.
    ends = [math.inf] * (len(puts) + 1)
    for i in range(len(puts) - 1, -1, -1):
        ends[i] = min(ends[i + 1], puts[i][1])
    for call in history:
        if call.name not in GETS or call.result != OK:
            continue
        for a, b in zip(call.values, call.values[1:], strict=False):
            first, second = values[a], values[b]
            if first.put is second.put:
                if second.place != first.place + 1:
                    raise _Wrong(f"rows between {a!r} and {b!r} of {first.put} are missing in {call}")
                continue
            if second.place:
                raise _Wrong(f"{b!r} is not the first of its {second.put}, and follows {a!r} in {call}")
            if first.put.result == OK and first.place + 1 < len(first.put.values):
                raise _Wrong(f"{a!r} is not the last of its {first.put}, and is followed by {b!r} in {call}")
            after = bisect.bisect_right(begins, first.put.returned)
            if ends[after] < second.put.invoked:
                raise _Wrong(f"{call} skips a row put between {a!r} and {b!r}")
    _check_batches(values)


def _check_sorted(history: History) -> None:
    for call in history:
        if call.name in GETS and list(call.values) != sorted(call.values, key=priority):
            raise _Wrong(f"not in the order of priorities: {call}")


def _check_batches(values: dict[Any, _Value]) -> None:
    # A row of another put came out after one of a batch's rows and before a later one of the same batch.
    batches: dict[int, list[_Value]] = defaultdict(list)
    for known in values.values():
        if known.get is not None and len(known.put.values) > 1:
            batches[id(known.put)].append(known)
    gets = sorted((v.get.invoked, v.get.returned, id(v.put)) for v in values.values() if v.get is not None)
    begins = [begin for begin, _, _ in gets]
    for batch in batches.values():
        begin, end = min(v.get.returned for v in batch if v.get), max(v.get.invoked for v in batch if v.get)
        for i in range(bisect.bisect_right(begins, begin), len(gets)):
            if gets[i][0] >= end:
                break
            if gets[i][1] < end and gets[i][2] != id(batch[0].put):
                raise _Wrong(f"a row of another put came out between the rows of {batch[0].put}")


# ---- the complete search ---------------------------------------------------------------------------------------------

# A state: which calls are over, how far the put_many and the get_many that are under way have come, the rows inside,
# and whether it is closed. A call in a state is (its index, rows moved so far); None if there is none. What a get_many
# holds counts as inside no more, but stays among the rows, as nobody else takes any until it has them all or none.


def explained(
    history: History, capacity: float = math.inf, budget: int = 200_000, *, kind: str = FIFO, least: int = 0
) -> bool:
    """Whether some order of steps, each within its call, explains the whole history.

    The search gives up after so many states, and holds the history for explained.
    """
    calls = sorted(history, key=lambda c: c.invoked)
    everything = (1 << len(calls)) - 1
    optional = sum(1 << i for i, c in enumerate(calls) if c.returned == math.inf)
    states = set()
    stack = [(0, None, None, (), False)]
    while stack:
        state = stack.pop()
        if state in states:
            continue
        if len(states) == budget:
            return True
        states.add(state)
        done, putting, getting, rows, closed = state
        if (done | optional) == everything:
            return True
        # A call may act if none that is not over had returned before it began.
        limit = math.inf
        for i, call in enumerate(calls):
            if call.invoked > limit:
                break
            if not done >> i & 1:
                limit = min(limit, call.returned)
        for i, call in enumerate(calls):
            if call.invoked > limit:
                break
            if not done >> i & 1:
                stack.extend(_steps(i, call, *state, capacity, kind, least))
    return False


def _steps(i, call, done, putting, getting, rows, closed, capacity, kind, least):
    over = done | 1 << i
    if call.name in CLOSES:
        if call.result in (OK, None) and (call.name == CANCEL or putting is None or closed):
            yield over, putting, getting, rows, True
        elif call.result in (TIMEOUT, CLOSED):
            yield over, putting, getting, rows, closed
        return
    if call.name in PUTS:
        count = len(call.values)
        if count == 0:
            yield over, putting, getting, rows, closed
            return
        mine = putting is not None and putting[0] == i
        moved = putting[1] if mine else 0
        inside = len(rows) - (getting[1] if getting else 0)
        if not closed and inside < capacity and (mine or putting is None):
            more = (*rows, call.values[moved])
            if kind == SHUFFLE:
                more = tuple(sorted(more))
            # The last row may only go in if the call didn't fail.
            if moved + 1 < count:
                yield done, (i, moved + 1), getting, more, closed
            elif call.result in (OK, None):
                yield over, None, getting, more, closed
        if call.result == TIMEOUT or (call.result == CLOSED and closed):
            yield over, None if mine else putting, getting, rows, closed
        return
    if call.result == OK and not call.values:
        yield over, putting, getting, rows, closed
        return
    mine = getting is not None and getting[0] == i
    rows_held = getting[1] if mine else 0
    if mine or getting is None:
        if call.result == OK:
            count = len(call.values)
            full_count = count == call.wanted or (closed and count == len(rows))
            if kind == PRIORITY:
                if full_count and tuple(sorted(rows, key=priority))[:count] == call.values:
                    yield over, putting, None, tuple(v for v in rows if v not in call.values), closed
            elif len(rows) - rows_held > (0 if closed else least):
                if rows_held + 1 < count:
                    if kind == SHUFFLE or rows[rows_held] == call.values[rows_held]:
                        yield done, putting, (i, rows_held + 1), rows, closed
                elif full_count and (set(call.values) <= set(rows) if kind == SHUFFLE else rows[:count] == call.values):
                    yield over, putting, None, tuple(v for v in rows if v not in call.values), closed
        elif kind != PRIORITY and rows_held + 1 < call.wanted and len(rows) - rows_held > (0 if closed else least):
            yield done, putting, (i, rows_held + 1), rows, closed
        if call.result == END and closed and len(rows) < (1 if call.name == GET_UP_TO else call.wanted):
            yield over, putting, None, rows, closed
    if call.result == TIMEOUT:
        yield over, putting, None if mine else getting, rows, closed
