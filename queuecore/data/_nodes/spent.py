"""Times of a stream: of its native threads, of the nodes in Python that feed it, and of its consumer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from queuecore._core.atoms.times import WorkTimes
from queuecore._core.steps.stages import Step
from queuecore._core.stream.meter import Times
from queuecore._observe.labels import WORK

__all__ = ["Row", "Spent", "Worked", "consumer_row"]

# A row of `Iterator.stages`. Its times are in seconds.
Row = dict[str, Any]

# What the numbers of a meter count behind the kinds of work, in their order (`_core/stream/meter.pxd`).
_PLAN, _INPUT, _OUTPUT = 5, 6, 7
_NUMBERS = 8
# As of `WorkTimes.stats`.
_TIMES = {"busy": "busy_ns", "input": "blocked_input_ns", "output": "blocked_output_ns"}
_COUNTS = ("units", "records", "bytes")

# Of more streams than this, the rows of those that are closed are joined to one of each stage.
_MANY = 64


def _row(stage: str, level: int, where: str, threads: int, work: str = "", **numbers: float) -> Row:
    row = {"stage": stage, "work": work, "level": level, "where": where, "threads": threads}
    return row | dict.fromkeys(_TIMES, 0.0) | dict.fromkeys(_COUNTS, 0) | numbers


def _row_of_work(stage: str, level: int, records: int, stats: dict[str, int], work: str = "") -> Row:
    times = {name: stats[of] / 1e9 for name, of in _TIMES.items()}
    return _row(stage, level, "python", stats["threads"], work, records=records, **times)


def _rows_of_meters(name: str, level: int, meters: Sequence[Sequence[int]]) -> list[Row]:
    """Return the row of a stream's native threads, and a row for each kind of work that they did.

    Parameters
    ----------
    name : str
        Of the stream.
    level : int
        0 for the stream that is iterated, 1 for its inputs, and so on.
    meters : list of list of int
        As `Times.numbers` returns them. The first one is that of the consumers, who help.
    """
    _, *workers = meters
    kinds = []
    for kind, label in enumerate(WORK):
        busy = sum(one[kind] for one in meters) / 1e9
        if busy:
            units = sum(one[_NUMBERS + kind] for one in meters)
            threads = sum(one[kind] > 0 for one in meters)
            kinds.append(_row(name, level, "native", threads, label, busy=busy, units=units))
    planned, input_, output = (sum(one[of] for one in workers) / 1e9 for of in (_PLAN, _INPUT, _OUTPUT))
    units = sum(row["units"] for row in kinds)
    busy = sum(row["busy"] for row in kinds) + planned
    whole = _row(name, level, "native", len(workers), busy=busy, input=input_, output=output, units=units)
    return [whole, *kinds]


def consumer_row(times: Times, skipped: int) -> Row:
    """Return the row of who takes a stream's elements; `skipped`: the number of those that were left out."""
    (meter, *_), ready, records, _ = times.numbers()
    helped = sum(meter[: len(WORK)]) / 1e9
    row = _row("consumer", 0, "consumer", 1, busy=helped, input=meter[_INPUT] / 1e9, records=records)
    return row | {"ready": ready, "skipped": skipped}


def _joined(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with those of one stage, level and place as one: times and units are added."""
    totals: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = row["stage"], row["work"], row["level"], row["where"]
        total = totals.get(key)
        if total is None:
            totals[key] = dict(row)
            continue
        total["threads"] = max(total["threads"], row["threads"])
        for name in (*_TIMES, *_COUNTS):
            total[name] += row[name]
    return list(totals.values())


class Spent:
    """The times of a stream, and of what feeds it. They outlive the stream.

    Parameters
    ----------
    name : str
        Of the stream.
    times : Times
        Of its native threads and its consumer.
    worked : Worked, optional
        Of the threads that feed it.
    step : Step, optional
        That makes the rows.

    Attributes
    ----------
    name : str
        Of the stream.
    """

    __slots__ = ("_parts", "_times", "_worked", "name")

    def __init__(self, name: str, times: Times, worked: Worked | None = None, step: Step | None = None) -> None:
        self.name = name
        self._parts = [] if step is None else step.parts()
        self._times = times
        self._worked = worked

    @property
    def over(self) -> bool:
        """True if the stream is closed."""
        return self._times.over

    def rows(self, level: int = 0) -> list[Row]:
        """Return where the time went: of the native threads, of the source, and of its inputs, at the next level."""
        meters, _, records, nbytes = self._times.numbers()
        whole, *kinds = _rows_of_meters(self.name, level, meters)
        fed = [] if self._worked is None else self._worked.rows(level, records)
        return [whole | {"records": records, "bytes": nbytes}, *kinds, *self._rows_of_steps(level, kinds), *fed]

    def _rows_of_steps(self, level: int, kinds: list[Row]) -> list[Row]:
        """Return a row for each native step of the stream, by its share in a sample of units that make rows."""
        making = next((row for row in kinds if row["work"] == WORK[0]), None)
        times, ended = self._times.steps()
        if making is None or not times:
            return []
        whole = max(ended, sum(ticks for ticks, _ in times.values()))  # a unit in progress counts by its steps alone
        return [
            making | {"work": label, "busy": making["busy"] * times[number][0] / whole, "units": times[number][1]}
            for number, label in self._parts
            if number in times
        ]


class Inputs:
    """The times of all streams over a source's inputs. Any thread may add some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: deque[Spent] = deque()
        self._over: list[Row] = []

    def add(self, stream: Spent) -> None:
        """Add those of a stream."""
        with self._lock:
            self._streams.append(stream)
            if len(self._streams) > _MANY and self._streams[0].over:
                some = [self._streams.popleft() for _ in range(_MANY // 2)]
                self._streams.extend(one for one in some if not one.over)
                self._over = _joined([*self._over, *(row for one in some if one.over for row in one.rows())])

    def rows(self) -> list[Row]:
        """Return all rows, those of one stage and place as one."""
        with self._lock:
            over, streams = self._over, list(self._streams)
        return _joined([*over, *(row for one in streams for row in one.rows())])


class Worked:
    """The times of a source in Python.

    Parameters
    ----------
    name : str
        Of the source.

    Attributes
    ----------
    times : WorkTimes
        Of the threads that feed the stream, of which one works at a time.
    functions : WorkTimes
        Of the threads that run the source's function, if it has threads of their own for that.
    inputs : Inputs
        The times of the streams over the inputs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.times = WorkTimes()
        self.functions = WorkTimes()
        self.inputs = Inputs()

    def rows(self, level: int, records: int) -> list[Row]:
        """Return the row of the threads, that of the function's, and those of the inputs, at the next level.

        `records`: how many of theirs the stream has delivered.
        """
        rows = [_row_of_work(self._name, level, records, self.times.stats())]
        functions = self.functions.stats()
        if functions["threads"]:
            rows.append(_row_of_work(self._name, level, records, functions, "functions"))
        return [*rows, *({**row, "level": row["level"] + level + 1} for row in self.inputs.rows())]
