"""Rounds of the soak: a random pipeline, a random fault, and an exact account. One JSON line for each round.

``rounds.py FOLDER --seed S [--count N]`` plays rounds S, S + 1 and so on; ``--journal PATH`` plays round S such that it
goes on after a kill from what it has written there.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import gc
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from accounts import Accounts, Wrong
from pipelines import Pipeline, contents, draw

import queuecore as qc
from queuecore import errors
from queuecore._core.testing import syscalls
from queuecore.data import Options

MARKED = 5 * 10**8  # records that all marks of a round go over


class Interrupt(Exception):
    """What a signal handler raises."""


class Tripped(Exception):
    """What a user's function raises."""


class Round:
    """One pipeline on its way to the end, over as many iterators as it takes.

    Attributes
    ----------
    state : random.Random
    accounts : Accounts
    retries : int
        Of failed reads.
    """

    def __init__(self, state: random.Random, pipeline: Pipeline, ordered: bool | None = None) -> None:
        self.state = state
        self.pipeline = pipeline
        self.accounts = Accounts(pipeline, ordered)
        self.retries = 0
        self.done = 0
        self.marks = 0
        self.iterator: Any = None

    def open(self) -> None:
        """Make an iterator with other threads, which goes on from the last mark."""
        if self.iterator is not None:
            self.iterator.close()
        self.accounts.back()
        options = Options(num_threads=self.state.choice([1, 2, 4]), retries=self.retries)
        self.iterator = iter(self.pipeline.dataset.with_options(options))
        if self.accounts.state is not None:
            self.iterator.load_state_dict(self.accounts.state)

    def some(self) -> bool:
        """Take a few batches, and perhaps mark the place behind them; return whether there may be more."""
        received: list[Any] = []
        count = self.state.randint(1, 6)
        try:
            # An exception of a signal handler leaves here what has been delivered.
            received.extend(itertools.islice(self.iterator, count))
        finally:
            for batch in received:
                self.accounts.take(batch)
        # A mark costs time for each record of the whole.
        if self.state.random() < 0.3 and self.marks * len(self.pipeline.expected) < MARKED:
            with contextlib.suppress(errors.FailedPreconditionError):  # a failed read has changed the order
                self.accounts.mark(self.iterator.state_dict())
            self.marks += 1
        return len(received) == count

    def play(self, expected: tuple[type[BaseException], ...] = (), between: Callable[[], None] | None = None) -> int:
        """Go to the end; make another iterator after each of these errors. Return how many of them came."""
        faults = 0
        self.open()
        while True:
            try:
                if between is not None:
                    between()
                if not self.some():
                    break
            except expected:
                faults += 1
                if faults > 200:
                    raise
                self.open()
        self.iterator.close()
        self.done = self.accounts.finish()
        return faults


# ---- faults: each plays a round, and returns how often it struck


def none(round_: Round) -> int:
    return round_.play() + 0


def short(round_: Round) -> int:
    syscalls.short_reads(round_.state.randint(1000, 30_000))
    return round_.play() + 1


def interrupted(round_: Round) -> int:
    syscalls.interrupt_reads(round_.state.randint(2, 9))
    return round_.play() + 1


def slow(round_: Round) -> int:
    syscalls.set_read_delay(0.0005)
    return round_.play() + 1


def cold(round_: Round) -> int:
    syscalls.set_uncached(True)
    return round_.play() + 1


def retried(round_: Round) -> int:
    round_.retries = 2
    syscalls.fail_read(round_.state.randint(1, 40), errno.EIO)
    return round_.play() + 1


def failed(round_: Round) -> int:
    syscalls.fail_read(round_.state.randint(1, 40), errno.EIO)
    return round_.play((errors.UnavailableError,))


def quiet_signals(round_: Round) -> int:
    struck = 0

    def count(*_: Any) -> None:
        nonlocal struck
        struck += 1

    before = signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        round_.play()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return struck


def signals(round_: Round) -> int:
    struck = 0
    armed = False

    def strike(*_: Any) -> None:
        if armed:
            raise Interrupt

    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    round_.open()
    try:
        more = True
        while more:
            received: list[Any] = []
            try:
                armed = True
                received.extend(itertools.islice(round_.iterator, 4))
                armed = False
                more = len(received) == 4
            except Interrupt:
                armed = False
                struck += 1
            except errors.FailedPreconditionError as error:
                armed = False
                # A user's function was cut short, and the iterator with it.
                if not isinstance(error.__cause__, (Interrupt, errors.PipelineError)):
                    raise
                round_.accounts.begin_again()
                round_.open()
                received.clear()
            for batch in received:
                round_.accounts.take(batch)
        round_.iterator.close()
        round_.done = round_.accounts.finish()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return struck


def pauses(round_: Round) -> int:
    struck = 0

    def pause() -> None:
        nonlocal struck
        if struck < 20 and round_.state.random() < 0.2:
            struck += 1
            time.sleep(round_.state.uniform(0, 0.02))

    round_.play(between=pause)
    return struck


def closed(round_: Round) -> int:
    struck = 0

    def close() -> None:
        nonlocal struck
        if struck < 20 and round_.state.random() < 0.1:
            struck += 1
            round_.open()

    round_.play(between=close)
    return struck


def forked(round_: Round) -> int:
    struck = 0

    def fork() -> None:
        nonlocal struck
        if struck == 3 or round_.state.random() > 0.1:
            return
        struck += 1
        child = os.fork()
        if child == 0:
            try:
                next(round_.iterator)
            except errors.ForkedPipelineError:
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            raise Wrong("an iterator can be used after a fork")

    round_.play(between=fork)
    return struck


def tripped(round_: Round) -> int:
    return round_.play((errors.PipelineError,))


class Trap:
    """A user's function that raises now and then, but not for ever."""

    def __init__(self, state: random.Random) -> None:
        self._calls = itertools.count()
        self._at = {state.randrange(2000) for _ in range(5)}

    def __call__(self, x: Any) -> Any:
        if next(self._calls) in self._at:
            raise Tripped(int(x))
        return np.int64(int(x))


def shared(round_: Round) -> int:
    """Let several threads take from one iterator: each batch comes to one of them."""
    round_.open()
    batches: list[list[Any]] = [[] for _ in range(round_.state.randint(2, 4))]
    failures: list[BaseException] = []

    def take(into: list[Any]) -> None:
        try:
            for batch in round_.iterator:
                into.append(np.array(batch))
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=take, args=(into,)) for into in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    for batch in itertools.chain.from_iterable(batches):
        round_.accounts.take(batch)
    round_.iterator.close()
    round_.done = round_.accounts.finish()
    return len(threads)


def changed(round_: Round, folder: pathlib.Path) -> int:
    """Cut or rewrite the first file once it is open: what is missing then, or wrong, is followed by an error."""
    path = min(path for path in folder.iterdir() if path.stat().st_size)
    cut = round_.state.random() < 0.5
    round_.open()
    received: list[Any] = []
    is_complete = True
    try:
        received.extend(itertools.islice(round_.iterator, round_.state.randint(1, 12)))
        if cut:
            os.truncate(path, round_.state.randrange(path.stat().st_size))
        else:
            path.write_bytes(path.read_bytes()[::-1])
        received.extend(round_.iterator)
    except errors.DataLossError:
        is_complete = False
    except errors.InvalidArgumentError:
        if cut:
            raise
        is_complete = False
    finally:
        round_.iterator.close()
    if is_complete or cut:
        for batch in received:
            round_.accounts.take(batch)
        round_.done = round_.accounts.finish(is_complete)
    return 1


FAULTS: dict[str, Callable[..., int]] = {
    one.__name__: one
    for one in (
        *(none, short, interrupted, slow, cold, retried, failed, quiet_signals, signals),
        *(pauses, closed, forked, tripped, shared, changed),
    )
}


# ---- queues


def queues(state: random.Random) -> tuple[int, int]:
    """Put numbers into a queue and take them, both by threads, until it is closed.

    Returns
    -------
    tuple
        How many went through it, and 1 if it was closed before the last was put.
    """
    capacity, count = state.choice([1, 7, 100, 5000]), state.randint(1000, 60_000)
    makers = [
        lambda: qc.FIFOQueue(capacity, np.int64, ()),
        lambda: qc.RandomShuffleQueue(capacity + 1, min(capacity // 2, 50), np.int64, (), seed=state.randrange(1000)),
        lambda: qc.PaddingFIFOQueue(capacity, np.int64, [()]),
    ]
    queue: Any = state.choice(makers)()
    cut = state.random() < 0.3
    parts = np.array_split(contents(np.arange(count)), state.randint(1, 4))
    put: list[int] = []
    rows: list[Any] = []
    sizes = [state.choice([1, 1, 5, 300]) for _ in parts]

    def give(part: Any, size: int) -> None:
        for begin in range(0, len(part), size):
            try:
                if size == 1:
                    queue.enqueue(part[begin])
                else:
                    queue.enqueue_many(part[begin : begin + size])
            except errors.CancelledError:
                return
            put.append(len(part[begin : begin + size]))

    def get(size: int) -> None:
        while True:
            try:
                rows.append([queue.dequeue()] if size == 1 else queue.dequeue_up_to(size))
            except errors.OutOfRangeError:
                return

    if cut:  # of many rows at once, nobody knows how many went in
        sizes = [1] * len(parts)
    givers = [threading.Thread(target=give, args=pair) for pair in zip(parts, sizes, strict=True)]
    takers = [threading.Thread(target=get, args=(state.choice([1, 3, 100]),)) for _ in range(state.randint(1, 4))]
    for thread in givers + takers:
        thread.start()
    if cut:
        time.sleep(state.uniform(0, 0.02))
        queue.close(cancel_pending_enqueues=True)
    for thread in givers:
        thread.join()
    queue.close()
    for thread in takers:
        thread.join()
    got = np.concatenate([np.asarray(one).ravel() for one in rows] or [np.zeros(0, np.int64)])
    if len(got) != sum(put) or len(np.unique(got)) != len(got) or not np.isin(got, contents(np.arange(count))).all():
        raise Wrong(
            f"{sum(put)} numbers were put into a queue, and {len(got)} taken, {len(np.unique(got))} of them distinct"
        )
    return len(got), int(cut)


# ---- one round


def copied(state: random.Random, folder: pathlib.Path, into: pathlib.Path) -> None:
    """Copy the files of one kind."""
    kind = state.choice(["lines", "tfrecords", "packed", "arrays"])
    for path in folder.glob(f"{kind}-*"):
        shutil.copy(path, into)


def play(seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """Play a round and return its account."""
    state = random.Random(seed)
    if state.random() < 0.1:
        records, struck = queues(state)
        return {"records": records, "fault": "queues", "struck": struck, "pipeline": "queues"}
    name = state.choice(list(FAULTS))
    try:
        with tempfile.TemporaryDirectory() as kept_folder:
            if name == "changed":
                copied(state, folder, pathlib.Path(kept_folder))
                pipeline = draw(state, pathlib.Path(kept_folder))
                while "+" in pipeline.text.replace(
                    "x + ", ""
                ):  # it opens files twice: the second time as they are then
                    pipeline = draw(state, pathlib.Path(kept_folder))
                round_ = Round(state, pipeline)
                struck = changed(round_, pathlib.Path(kept_folder))
            else:
                trap = Trap(state)
                last = (lambda ds: ds.map(trap)) if name == "tripped" else None
                few = name in ("tripped", "slow", "short", "forked")
                round_ = Round(state, draw(state, folder, few, last), ordered=False if name == "shared" else None)
                struck = FAULTS[name](round_)
    except Exception as error:
        error.add_note(f"round {seed}, fault {name!r}, {round_.pipeline.text if 'round_' in locals() else ''}")
        raise
    finally:
        syscalls.reset_faults()
    return {"records": round_.done, "fault": name, "struck": struck, "pipeline": round_.pipeline.text}


def journaled(seed: int, folder: pathlib.Path, journal: pathlib.Path) -> dict[str, Any]:
    """Play a round that may be killed anywhere; its account is written at each mark."""
    state = random.Random(seed)
    round_ = Round(state, draw(state, folder, few=True))
    round_.accounts.load(journal)
    round_.state = random.Random(os.getpid())  # another one after each kill
    round_.open()
    more = True
    while more:
        more = round_.some()
        if more and round_.state.random() < 0.1:
            round_.accounts.mark(round_.iterator.state_dict())
            round_.accounts.save(journal)
    round_.iterator.close()
    return {"records": round_.accounts.finish(), "fault": "killed", "struck": 0, "pipeline": round_.pipeline.text}


# Of mallopt: how much memory at an arena's end is kept when more is freed.
M_TRIM_THRESHOLD = -1


def keep_little() -> None:
    """Have the allocator keep little of what is freed.

    glibc raises its threshold to 64 MiB where large memory is freed; each thread's arena keeps so much at its end then,
    and malloc_trim gives back only the main one's.
    """
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 128 << 10)


def resident() -> int:
    """Return the memory that this process has, in MiB, without what its allocator keeps."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def seeds(first: int, count: int | None) -> Iterator[int]:
    """Return the numbers of the rounds."""
    return iter(itertools.count(first) if count is None else range(first, first + count))


def main() -> None:
    """Play rounds, and print each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--journal", type=pathlib.Path)
    args = parser.parse_args()
    if args.journal is not None:
        print(json.dumps(journaled(args.seed, args.folder, args.journal)), flush=True)
        return
    keep_little()
    for seed in seeds(args.seed, args.count):
        result = play(seed, args.folder)
        print(json.dumps(result | {"seed": seed, "resident": resident()}), flush=True)


if __name__ == "__main__":
    main()
