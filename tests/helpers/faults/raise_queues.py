"""Queues, readers and runners with an exception at each site: as helpers.faults.raise_scenarios has datasets."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.matrix import numbers_in
from helpers.faults.raising import Cut, Trial

import queuecore as qc
from queuecore import stdqueue

Scenario = Callable[[Trial], None]


class Account:
    """What has gone into a queue and come out of it: a call that was cut short has not happened.

    One that had is another matter only where the interpreter dropped the result; the queue's size tells.
    """

    def __init__(self, trial: Trial, size: Callable[[], int]) -> None:
        self.trial = trial
        self.size = size
        self.put_in: list[int] = []
        self.taken: list[int] = []
        self.lost = 0

    def put(self, values: list[int], call: Callable[[], Any]) -> None:
        """Put values in by a call, again if it was cut short."""
        if not self._happens(call, len(values))[1]:
            call()
        self.put_in += values

    def take(self, n: int, call: Callable[[], Any]) -> None:
        """Take n values by a call, again if it was cut short."""
        result, happened = self._happens(call, -n)
        if not happened:
            result = call()
        if happened and result is None:
            self.lost += n
        else:
            self.taken += [int(one) for one in numbers_in(result)]

    def _happens(self, call: Callable[[], Any], change: int) -> tuple[Any, bool]:
        before = self.size()
        try:
            return self.trial(call), True
        except Cut:
            changed = self.size() - before
            assert changed in (0, change), f"{changed} of {change} at {self.trial.site}"
            assert not changed or self.trial.at_return, f"it happened, and was cut short, at {self.trial.site}"
            return None, changed != 0

    def check(self, in_order: bool) -> None:
        """Compare what went in and what came out; the queue is empty."""
        assert self.size() == 0
        missing = Counter(self.put_in)
        missing.subtract(self.taken)
        assert min(missing.values()) >= 0, f"twice: {missing}"
        assert missing.total() == self.lost, f"lost: {missing}, at {self.trial.site}"
        if in_order:
            came = [one for one in self.put_in if not missing[one]]
            assert came == self.taken, f"put {self.put_in}, got {self.taken}"


def _queue(make: Callable[[], Any], wrap: Callable[[int], Any], in_order: bool, rows: bool = True) -> Scenario:
    def run(trial: Trial) -> None:
        queue = trial.again(make)
        account = Account(trial, queue.size)
        for x in (1, 2, 3):
            account.put([x], lambda x=x: queue.enqueue(wrap(x)))
        if rows:
            many = np.arange(4, 9)
            account.put(many.tolist(), lambda: queue.enqueue_many(many))
        account.take(1, queue.dequeue)
        account.take(2, lambda: queue.dequeue_many(2))
        trial.again(queue.close)
        while left := queue.size():
            account.take(min(left, 2), lambda: queue.dequeue_up_to(2))
        with contextlib.suppress(qc.errors.OutOfRangeError):
            trial.again(queue.dequeue)
        account.check(in_order)

    return run


def fifo(folder: Path) -> Scenario:
    """Numbers, one by one and many at once."""
    return _queue(lambda: qc.FIFOQueue(12, [np.int64], [()]), lambda x: x, True)


def strings(folder: Path) -> Scenario:
    """Python objects: bytes."""
    return _queue(lambda: qc.FIFOQueue(12, [bytes], [()]), lambda x: b"%d" % x, True, rows=False)


def shuffling(folder: Path) -> Scenario:
    """Elements come in any order."""
    return _queue(lambda: qc.RandomShuffleQueue(12, 0, [np.int64], [()], seed=1), lambda x: x, False)


def padding(folder: Path) -> Scenario:
    """Rows of any length; many have one length."""
    return _queue(lambda: qc.PaddingFIFOQueue(12, [np.int64], [(None,)]), lambda x: (np.array([x]),), True, rows=False)


def priority(folder: Path) -> Scenario:
    """The smallest first."""

    def run(trial: Trial) -> None:
        queue = trial.again(lambda: qc.PriorityQueue(12, [np.int64], [()]))
        account = Account(trial, queue.size)
        for x in (3, 1, 2):
            account.put([x, x][:1], lambda x=x: queue.enqueue((x, x)))
        results: list[int] = []
        while queue.size():
            before = account.lost
            account.taken.clear()
            account.take(1, queue.dequeue)
            if account.lost == before:
                assert account.taken[0] == account.taken[1]
                results += account.taken[:1]
        account.taken = results
        account.put_in.sort()
        account.check(True)

    return run


def leases(folder: Path) -> Scenario:
    """Rows that are filled in place, and rows that are lent."""

    def run(trial: Trial) -> None:
        queue = trial.again(lambda: qc.FIFOQueue(6, [np.int64], [()]))
        account = Account(trial, queue.size)

        def fill() -> None:
            room = queue.reserve(3)
            room.rows[0][:] = [1, 2, 3]
            room.commit()

        account.put([1, 2, 3], fill)
        lent: list[Any] = []
        with contextlib.suppress(Cut):
            lent.append(trial(queue.lease, 2))
        if lent:
            account.taken += [int(one) for one in numbers_in(lent[0].rows)]
            with contextlib.suppress(Cut):
                trial(lent.pop().release)
        elif queue.size() == 1:
            assert trial.at_return, trial.site
            account.lost += 2
        # No slot is away: all of them can be filled.
        more = np.arange(10, 16 - queue.size())
        queue.enqueue_many(more, timeout=5)
        account.put_in += more.tolist()
        while queue.size():
            account.take(1, queue.dequeue)
        account.check(True)
        queue.close()

    return run


def objects_queue(folder: Path) -> Scenario:
    """`queuecore.Queue`, a queue of Python objects."""

    def run(trial: Trial) -> None:
        queue: Any = trial.again(stdqueue.Queue, 6)
        account = Account(trial, queue.qsize)
        for x in range(4):
            account.put([x], lambda x=x: queue.put(x, timeout=5))
        account.put([9], lambda: queue.put_nowait(9))
        while queue.qsize():
            account.take(1, lambda: queue.get(timeout=5))
        with contextlib.suppress(stdqueue.Empty):
            trial.again(queue.get_nowait)
        account.check(True)

    return run


def reading(folder: Path) -> Scenario:
    """A reader's records, one and many at once; a place that is kept and gone back to."""
    path = folder / "numbers"
    path.write_bytes(bytes(range(12)))

    def run(trial: Trial) -> None:
        reader = trial.again(qc.FixedLengthRecordReader, 1)
        work = [str(path)]
        produced = 0
        results: list[int] = []
        lost: list[int] = []
        for n in (1, 1, 3, 3, 4):

            def read(n: int = n) -> list[int]:
                values = [reader.read(work)[1]] if n == 1 else reader.read_up_to(work, n)[1].to_list()
                return [one[0] for one in values]

            try:
                results += trial(read)
            except Cut:
                away = reader.num_records_produced() - produced
                assert away in (0, n), (away, n)
                lost += range(produced, produced + away)
                try:
                    results += [] if trial.at_return and away else read()
                    assert not away or trial.at_return, f"{away} records are lost at {trial.site}"
                except qc.errors.DataLossError:  # it says so
                    assert away
                except qc.errors.OutOfRangeError:  # what gave the file's name was cut short when it had taken that
                    assert trial.site.startswith("io.readers NativeReader._first PyObject_FastCall after")
                    return
            produced = reader.num_records_produced()
        assert sorted(results + lost) == list(range(12)), (results, lost)
        assert results == sorted(results)

    return run


def program(folder: Path) -> Scenario:
    """A stage program that a runner's thread runs, with a coordinator."""
    path = folder / "numbers"
    path.write_bytes(bytes(range(12)))

    def run(trial: Trial) -> None:
        def start() -> Any:
            queue = qc.FIFOQueue(20, [np.uint8], [(3,)])
            work = qc.StageProgram(qc.FixedLengthRecordReader(3), [path], qc.ops.decode_raw(out_type=np.uint8))
            coord = qc.Coordinator()
            return queue, coord, qc.QueueRunner(queue, [work])

        queue, coord, runner = trial.again(start)
        threads = []
        with contextlib.suppress(Cut):
            threads = trial(runner.create_threads, coord, start=True)
        rows = []
        if trial.came_out:
            coord.request_stop()
            queue.close(cancel_pending_enqueues=True)
        else:
            with contextlib.suppress(Cut):
                while True:
                    try:
                        rows.append(trial(queue.dequeue))
                    except qc.errors.OutOfRangeError:
                        break
            with contextlib.suppress(Cut):
                trial(coord.join, threads)
            if not trial.came_out:
                assert [int(x) for x in numbers_in(rows)] == list(range(12))
        queue.close(cancel_pending_enqueues=True)
        coord.request_stop()
        for thread in threads:
            thread.join(5)

    return run


QUEUES: dict[str, Callable[[Path], Scenario]] = {
    one.__name__: one for one in (fifo, strings, shuffling, padding, priority, leases, objects_queue, reading, program)
}
