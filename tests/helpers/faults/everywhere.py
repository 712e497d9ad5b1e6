"""Any call of the system that native code makes fails, and what must hold then, whichever it was.

A scenario is a small program over a folder of files. A `Sweep` runs it again and again: with the first call of some
kinds failing, with the second, and so on until a run meets no failure. After each run it looks whether what came is
right, the error the documented one, and nothing left behind; and whether the next run is as if nothing had been.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import pathlib
import shutil
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.data.chains import threads as in_threads
from helpers.data.matrix import PIPELINES, fixed, lines, numbers_in, packed, tfrecords, write
from helpers.process import open_descriptors, pipeline_threads, soon, thread_ids

import queuecore as qc
from queuecore.data import Dataset, Options
from queuecore.data._nodes import calls
from queuecore.errors import FailedPreconditionError, OutOfRangeError, PipelineError, UnavailableError

syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

MEMORY = ("memory", "map")
FILES = ("open", "fstat", "read", "poll")
# What no user notices: the data is the same, and no error comes.
UNSEEN = ("close", "advise", "node", "affinity", "sleep", "wait", "ring", "enter")
# Of PIPELINES, those that nothing shuffles.
IN_ORDER = {"fixed", "arrays", "lines", "tfrecords", "batches cached", "snapshot", "permuted numbers", "traced"}
LONGEST = 10.0  # seconds of a run


class Got(list[Any]):
    """What a scenario got, and what it got later, after an error."""

    def __init__(self) -> None:
        super().__init__()
        self.later: list[Any] = []


Run = Callable[[pathlib.Path, Got], None]


@dataclass(frozen=True)
class Scenario:
    """A program that appends what it gets to a list, and raises."""

    run: Run
    ordered: bool = True  # what comes before an error is the front of the whole
    keeps: str = ""  # a native module that keeps memory for the next run


def calm() -> None:
    """Let no more calls fail."""
    syscalls.end_plan()


# ---- datasets -------------------------------------------------------------------------------------------------------


def _take(it: Iterator[Any], got: list[Any]) -> None:
    for x in it:
        got += numbers_in(x)


def over(make: Callable[[pathlib.Path], Iterable[Any]]) -> Run:
    """Go through a dataset. An iterator that failed says so, and why; or goes on behind an element."""

    def run(folder: pathlib.Path, result: Got) -> None:
        it: Any = iter(make(folder))
        try:
            _take(it, result)
        except Exception as error:
            calm()
            try:
                _take(it, result.later)
            except FailedPreconditionError as again:
                # None: the iterator went on, and a later pass refuses a cache that lacks the element.
                assert again.__cause__ in (error, None)  # noqa: PT017
            raise
        finally:
            it.close()

    return run


def pipelines() -> dict[str, Scenario]:
    """Return a scenario for each of `PIPELINES`."""

    def of(make: Callable[[pathlib.Path], Dataset]) -> Callable[[pathlib.Path], Dataset]:
        return lambda folder: in_threads(make(folder), 2)

    made = {name: Scenario(over(of(make)), name in IN_ORDER) for name, make in PIPELINES.items()}
    # What a shuffle gives before an error isn't the front of its order: what comes behind would choose others.
    made["compressed, shuffled"] = Scenario(over(of(lambda folder: packed(folder).shuffle(50, seed=3).batch(7))), False)
    made["tfrecords"] = Scenario(over(of(lambda folder: tfrecords(folder).repeat(2).batch(7))))
    made["padded shard"] = Scenario(over(of(lambda folder: lines(folder).shard(7, 6, uneven="pad").repeat(2).batch(7))))
    return made


def cold(io: str) -> Run:
    """Go through records in a random order of which the page cache has none."""

    def run(folder: pathlib.Path, got: Got) -> None:
        options = Options(num_threads=2, io=io)
        syscalls.set_uncached(True)
        try:
            over(lambda folder: fixed(folder).permute(3, False).batch(7).with_options(options))(folder, got)
        finally:
            syscalls.set_uncached(False)

    return run


# ---- queues ---------------------------------------------------------------------------------------------------------

ROWS = [(7 * x % 40, [x] * (x % 5), b"x" * (x % 37)) for x in range(40)]


def _fifo() -> Any:
    return qc.FIFOQueue(-1, [np.int64, np.int64, bytes], [(), (5,), ()])


def _padding() -> Any:
    return qc.PaddingFIFOQueue(100, [np.int64, np.int64, bytes], [(), (None,), ()])


def _shuffling() -> Any:
    return qc.RandomShuffleQueue(100, 0, [np.int64, np.int64, bytes], [(), (5,), ()], seed=3)


def _priority() -> Any:
    return qc.PriorityQueue(-1, [np.int64, bytes], [(5,), ()])


def queue(make: Callable[[], Any], wide: bool) -> Run:
    """Put rows in and take them out, one by one and many: what was put and not taken is still there."""

    def row(x: tuple[int, list[int], bytes]) -> tuple[Any, ...]:
        return x[0], (np.array(x[1], np.int64) if wide else np.full(5, x[0])), x[2]

    def key(x: Any) -> int:
        return int(np.asarray(x[0]))

    def run(folder: pathlib.Path, results: Got) -> None:
        put: list[int] = []
        numbers: list[int] = []
        waiting: list[int] = []  # of a call that failed: they are there, or not
        q = make()
        try:
            for x in ROWS[:20]:
                waiting = [x[0]]
                q.enqueue(row(x))
                put += waiting
            for x in ROWS[20:24]:
                numbers.append(key(q.dequeue()))
                waiting = [x[0]]
                q.enqueue(row(x))
                put += waiting
            for at in range(24, 40, 4):
                some = [row(x) for x in ROWS[at : at + 4]]
                waiting = [x[0] for x in ROWS[at : at + 4]]
                if wide:
                    q.enqueue(some[0])
                    put += waiting[:1]
                else:
                    q.enqueue_many(
                        [np.stack([np.asarray(part) for part in parts]) for parts in zip(*some, strict=True)]
                    )
                    put += waiting
                waiting = []
                if not wide:
                    numbers += [int(x) for x in q.dequeue_many(2)[0]]
        except Exception:
            calm()
            raise
        finally:
            calm()
            q.close()
            while True:
                try:
                    numbers.append(key(q.dequeue()))
                except OutOfRangeError:
                    break
            results += numbers
            lost, more = Counter(put) - Counter(numbers), Counter(numbers) - Counter(put)
            assert not lost, f"lost: {lost}"
            assert not more - Counter(waiting), f"out of nowhere: {more}"

    return run


def standard(folder: pathlib.Path, results: Got) -> None:
    """`queuecore.Queue` over the growth of its array."""
    q: Any = qc.Queue()
    put = []
    try:
        for x in range(100):
            q.put(x)
            put.append(x)
        while len(results) < 50:
            results.append(q.get())
        for x in range(100, 200):
            q.put(x)
            put.append(x)
    finally:
        calm()
        while not q.empty():
            results.append(q.get_nowait())
        assert results == put


# ---- readers and programs -------------------------------------------------------------------------------------------


def reader(make: Callable[[], Any], pattern: str) -> Run:
    """Read one record after the other, then some at once."""

    def run(folder: pathlib.Path, got: Got) -> None:
        names = sorted(str(one) for one in folder.glob(pattern))
        one = make()
        while True:
            try:
                got.append(bytes(one.read(names)[1]))
            except OutOfRangeError:
                return

    return run


def pipe(folder: pathlib.Path, results: Got) -> None:
    """Read a pipe whose writer comes late."""
    path = folder / "pipe"
    if not path.exists():
        os.mkfifo(path)
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            try:
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads yet
                over.wait(0.001)
                continue
            over.wait(0.003)
            with contextlib.suppress(BrokenPipeError):
                os.write(fd, b"written late")
            os.close(fd)
            return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        results.append(bytes(qc.WholeFileReader(allow_special=True).read([path])[1]))
    finally:
        over.set()
        writer.join()


def program(folder: pathlib.Path, results: Got) -> None:
    """Two native threads read, decode and enqueue."""
    names = qc.FIFOQueue(-1, [str])
    names.enqueue_many([[str(path) for path in sorted(folder.glob("*.tfrecord"))]])
    names.close()
    q = qc.FIFOQueue(16, [np.int64], [(1,)])
    decode = qc.ops.decode_raw(out_type=np.int64, fixed_length=8)
    op = qc.StageProgram(qc.TFRecordReader(), names, decode)
    coord = qc.Coordinator()
    begun = qc.QueueRunner(q, [op, op]).create_threads(coord, start=True)
    try:
        while True:
            results += numbers_in(q.dequeue())
    except OutOfRangeError:
        pass
    finally:
        coord.request_stop()
        coord.join(begun)


def runner(folder: pathlib.Path, results: Got) -> None:
    """A Python thread enqueues what another one takes."""
    q = qc.FIFOQueue(4, [np.int64], [()])
    numbers = iter(range(40))

    def put() -> None:
        try:
            q.enqueue(next(numbers))
        except StopIteration:
            raise OutOfRangeError("all are put") from None

    coord = qc.Coordinator()
    begun = qc.QueueRunner(q, [put]).create_threads(coord, start=True)
    try:
        while True:
            results += numbers_in(q.dequeue())
    except OutOfRangeError:
        pass
    finally:
        coord.request_stop()
        coord.join(begun)


def others() -> dict[str, Scenario]:
    """Return what isn't one of `PIPELINES`."""
    return {
        # Files are measured first: one that can't be opened ends the source, which changes the order of all before it.
        "cold, by threads": Scenario(cold("threads"), False),
        "cold, by io_uring": Scenario(cold("uring"), False),
        "FIFOQueue": Scenario(queue(_fifo, False), False),
        "PaddingFIFOQueue": Scenario(queue(_padding, True), False),
        "RandomShuffleQueue": Scenario(queue(_shuffling, False), False),
        "PriorityQueue": Scenario(queue(_priority, False), False),
        "Queue": Scenario(standard),
        "line reader": Scenario(reader(qc.TextLineReader, "*.txt")),
        "record reader": Scenario(reader(lambda: qc.FixedLengthRecordReader(8), "*.bin")),
        "compressed reader": Scenario(reader(lambda: qc.TFRecordReader("GZIP"), "*.gz")),
        "file reader": Scenario(reader(qc.WholeFileReader, "*.bin")),
        "pipe": Scenario(pipe),
        "stage program": Scenario(program, False),
        "queue runner": Scenario(runner),
    }


def _ours() -> list[str]:
    runners = {one for one in threading.enumerate() if one.name.startswith("QueueRunnerThread")}
    return [one.name for one in pipeline_threads() | runners]


def _nobody_works() -> bool:
    return not _ours() and syscalls.live_threads() == 0


def _let_go(folder: pathlib.Path) -> None:
    # What functions of a stream that has ended need is kept until the next stream begins.
    for _ in range(2):
        with iter(qc.data.FixedLengthRecordDataset(folder / "0.bin", 8).take(1)) as it:
            assert len(list(it)) == 1


# ---- the sweep ------------------------------------------------------------------------------------------------------


@dataclass
class Sweep:
    """One scenario over a folder, and what it gives when nothing fails."""

    name: str
    scenario: Scenario
    folder: pathlib.Path

    def __post_init__(self) -> None:
        write(self.folder)
        for _ in range(2):  # what is looked for once, and kept, is there then
            self.expected = self._once()

    def _once(self) -> list[Any]:
        for left in [*self.folder.glob("kept*"), *self.folder.glob("shards*")]:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        got = Got()
        self.scenario.run(self.folder, got)
        return got

    def over(self, kinds: Iterable[str], how: str = "fail", *, sticky: bool = False, growth: float = 1.0) -> int:
        """Let one call after the other fail, each in a run of its own. Returns in how many runs one did."""
        nth, runs = 1, 0
        while self.one(tuple(kinds), nth, how, sticky):
            nth = max(nth + 1, int(nth * growth))
            runs += 1
        return runs

    def one(self, kinds: tuple[str, ...], nth: int, way: str = "fail", sticky: bool = False) -> bool:
        """Run it once with the nth call failing, and once more with none. Returns whether one failed."""
        assert soon(_nobody_works), _ours()
        before = thread_ids(), open_descriptors(), syscalls.pinned_count(), syscalls.library_count()
        result = Got()
        met: BaseException | None = None
        for path in [*self.folder.glob("kept*"), *self.folder.glob("shards*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        syscalls.reset_faults()
        syscalls.remembered()  # nothing is kept that this run could use: it asks for all its memory
        syscalls.remember()
        begun = time.monotonic()
        syscalls.plan(kinds, nth, way, sticky=sticky)
        try:
            with warnings.catch_warnings():
                # That nothing has moved for the hour that is over, or that memory can't be page-locked.
                warnings.simplefilter("ignore", RuntimeWarning)
                self.scenario.run(self.folder, result)
        except Exception as error:
            met = error
        finally:
            calm()
        took = time.monotonic() - begun
        hits = syscalls.planned_calls()[1]
        place = f"{self.name}: {way} at call {nth} of {kinds}, {'ever' if sticky else 'once'}: {syscalls.first_met()}"
        met_kinds = kinds if sticky else (syscalls.first_met() or ("",))[:1]
        self._judge(result, met, took, met_kinds, way, place)
        met = None
        gc.collect()
        assert soon(_nobody_works), (place, _ours())
        calls._bound.cache_clear()
        gc.collect()  # what these threads held, and steps that were bound
        assert soon(lambda: thread_ids() <= before[0]), place
        assert soon(lambda: open_descriptors() <= before[1]), place
        assert syscalls.library_count() <= before[3], place
        syscalls.remember_no_more()
        for _ in range(4):  # what one stream kept may be what keeps another
            _let_go(self.folder)
            assert soon(_nobody_works), (place, _ours())
            leftovers = [one for one in syscalls.remembered() if one[1].partition(".")[0] != self.scenario.keeps]
            if not leftovers:
                break
            gc.collect()
        assert not leftovers, (place, leftovers)
        assert syscalls.pinned_count() <= before[2], place  # what is kept has been given back
        if hits:
            again = self._once()
            assert again == self.expected if self.scenario.ordered else Counter(again) == Counter(self.expected), place
        return hits > 0

    def _judge(
        self, results: Got, met: BaseException | None, took: float, kinds: tuple[str, ...], way: str, place: str
    ) -> None:
        if isinstance(met, AssertionError):
            raise AssertionError(place) from met
        if met is None:
            right = results == self.expected if self.scenario.ordered else Counter(results) == Counter(self.expected)
        elif self.scenario.ordered:
            rest = iter(self.expected[len(results) :])
            right = results == self.expected[: len(results)] and all(x in rest for x in results.later)
        else:
            right = not Counter(results + results.later) - Counter(self.expected)
        assert right, f"{place} gives {results} and {results.later}, not {self.expected}, and {met!r}"
        assert took < LONGEST, (place, took)
        if met is not None and (way != "fail" or not any(_documented(met, kind, kinds) for kind in kinds)):
            raise AssertionError(f"{place} ends in {met!r}") from met


def _documented(met: BaseException, kind: str, kinds: tuple[str, ...]) -> bool:
    # Whether an error is of the class that the documentation names, and says what failed.
    error = met.__cause__ if type(met) is PipelineError and met.__cause__ is not None else met
    if kind in FILES:
        return (
            isinstance(error, UnavailableError)
            and error.errno in (errno.EIO, errno.ENOMEM)
            # Where memory fails as well, there may be none for the name.
            and ("memory" in kinds or (bool(error.path) and error.path in str(error)))
        )
    if kind == "thread":
        return isinstance(error, UnavailableError) and error.errno == errno.EAGAIN
    # A thread that can't be started says why: its errno.
    return kind in (*MEMORY, "advise", "pin") and (
        isinstance(error, MemoryError) or (isinstance(error, UnavailableError) and error.errno == errno.ENOMEM)
    )
