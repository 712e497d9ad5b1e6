"""Crews of this process: the loop's own thread, and worker threads.

A crew takes calls (`put`; `end` after the last one), and gives results (`get`).
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from queuecore._core.stream.scope import Scope
from queuecore._runners.threads import start_thread
from queuecore._torch.batches import DatasetStream, WorkerCall, WorkerResult
from queuecore._torch.pace import Pace
from queuecore._torch.workers import LoaderWorker, answer_in_threads
from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain, dataset_of
from queuecore.data._plan.steps import Count, Unknown
from queuecore.data._rows.chunks import One, Piece
from queuecore.data.options import Options
from queuecore.errors import FailedPreconditionError, StallError
from queuecore.stdqueue import SimpleQueue

__all__ = ["Alone", "Team", "Threads", "taken_error"]


def taken_error() -> FailedPreconditionError:
    """Return the error of an iterator whose workers stayed for another one."""
    return FailedPreconditionError("a newer iterator of this DataLoader has taken the workers that stay")


class Alone:
    """A crew without threads: the loop's thread takes the workers in turn, when it asks, each with its random states.

    Parameters
    ----------
    jobs : list of Fetch or Stream
        The job of each worker.
    workers : list of Worker
        Empty: the loader has no workers.
    """

    def __init__(self, jobs: list[Any], workers: Sequence[LoaderWorker] = ()) -> None:
        self._jobs, self.workers = jobs, workers
        self._calls: collections.deque[WorkerCall] = collections.deque()
        self._taken = False  # another epoch has the workers

    @property
    def team(self) -> Alone:
        """The crew itself, which has nobody to share anything with."""
        return self

    def start(self) -> None:
        """Do nothing: `get` does all the work."""

    @property
    def asked(self) -> int:
        """The number of calls that have no result yet."""
        return len(self._calls)

    def put(self, call: WorkerCall) -> None:
        self._calls.append(call)

    def end(self) -> None:
        """Do nothing: without threads, nobody waits for more calls."""

    def settle(self) -> None:
        """Answer the calls that are left, as PyTorch's workers that stay do: so the next epoch's numbers are theirs."""
        while self._calls:
            self.get()
        self._taken = True

    def get(self) -> WorkerResult:
        if self._taken:
            raise taken_error()
        if not self._calls:
            raise StopIteration
        call = self._calls[0]
        try:
            result: WorkerResult
            if not self.workers:
                result = self._jobs[0].result(call)
            else:
                worker = self.workers[call.worker]
                with worker.at_work(True):
                    error = worker.begin()
                    if error is not None:
                        raise error
                    result = self._jobs[call.worker].result(call)
        except Exception as failed:  # not Ctrl-C, after which this batch is made again
            result = WorkerResult(call.number, None, failed, call.worker)
        self._calls.popleft()
        return result

    def close(self, timeout: float | None) -> None:
        """Do nothing: there is no thread."""


class _Raised:
    """A worker's error on its way to the loop: its carrier doesn't keep it.

    An error that has been raised holds the frames that it came through, and with them the loop's iterator. A stream
    keeps its last elements for a while, where no collector looks.
    """

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error

    def take(self) -> BaseException | None:
        """Return the error; it is kept no longer."""
        error, self._error = self._error, None
        return error


class Team:
    """The queues and the stop that worker threads share with the thread that takes their results.

    Parameters
    ----------
    workers : int
    has_own_queues : bool
        Whether each worker has calls of its own; otherwise each takes the next call.
    ordered : bool
        Whether results come in the order of the calls; otherwise they come as they are made.
    pace : Pace
    """

    def __init__(self, workers: int, has_own_queues: bool, ordered: bool, pace: Pace) -> None:
        lanes = workers if has_own_queues and ordered else 1
        self.calls: list[SimpleQueue[WorkerCall | None]] = [
            SimpleQueue() for _ in range(workers if has_own_queues else 1)
        ]
        self.done: list[SimpleQueue[WorkerResult | None]] = [SimpleQueue() for _ in range(lanes)]
        self._sorts = ordered and not has_own_queues
        # The number of the call, or of the queue in `done`, whose result comes next.
        self.order: SimpleQueue[int | None] = SimpleQueue()
        self.begun: SimpleQueue[None] = SimpleQueue()
        self._own = has_own_queues
        self._pace = pace
        self._workers = workers
        self._started = 0
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._scope = Scope(True)
        self._stopped = False
        self.taken = False  # another epoch has the workers

    def start(self, worker: LoaderWorker, job: Any, begins: bool) -> None:
        """Start a thread for a worker."""
        worker.come()
        try:
            start_thread("qc-loader", self._work, worker, job, begins)
        except BaseException:
            worker.leave()
            raise
        self._started += 1

    def settle(self) -> None:
        """Wait until all threads have ended, for another epoch with the same workers."""
        self.taken = True
        self.stop()
        for _ in range(self._started):
            self._ended.get()
        self._started = 0

    def stop(self) -> None:
        """Tell all threads to end: threads at work end when their current calls have returned."""
        self._stopped = self._scope.stopped = True
        self.order.put(None)
        for done in self.done:
            done.put(None)
        for _ in range(self._workers):
            for calls in self.calls:
                calls.put(None)

    def results(self) -> Generator[WorkerResult]:
        """Yield the threads' results."""
        early_results: dict[int, WorkerResult] = {}
        try:
            while (number := self.order.get()) is not None:
                if self._sorts:
                    while number not in early_results:
                        result = self.done[0].get()
                        if result is None:
                            return
                        early_results[result.number] = result
                    yield early_results.pop(number)
                    continue
                result = self.done[number].get()
                if result is None:
                    return
                yield result
        finally:
            self.stop()

    def _work(self, worker: LoaderWorker, job: Any, begins: bool) -> None:
        """Run a worker. If it `begins`, its first functions are called with its random states, one worker at a time."""
        outer_scope = self._scope.enter()
        number = worker.info.id
        calls, results = self.calls[number % len(self.calls)], self.done[number % len(self.done)]
        error: BaseException | None = None
        try:
            if begins:
                with worker.at_work(True):
                    error = worker.begin()
            self.begun.put(None)
            with worker.at_work(False):
                self._catch_up(worker)
                while (call := calls.get()) is not None:
                    try:
                        with self._pace.turn():
                            if self._stopped:
                                worker.left += [(job, call)] if self._own else []
                                continue
                            if error is not None:
                                raise error
                            result = job.result(call)
                    except BaseException as failed:
                        result = WorkerResult(call.number, None, _Raised(failed), number)
                        with contextlib.suppress(Exception):  # raised by an exception that takes no note
                            at = "" if isinstance(job, DatasetStream) else f", at {call.index!r:.200}"
                            failed.add_note(f"In a thread of a DataLoader{at}")
                    error = None
                    results.put(result)
                    del result
        finally:
            Scope.leave(outer_scope)
            worker.leave()
            self._ended.put(None)

    def _catch_up(self, worker: LoaderWorker) -> None:
        """Make the batches that epochs before had asked for, as PyTorch's workers do: its dataset may count calls."""
        while worker.left and not self._stopped:
            job, call = worker.left.popleft()
            with contextlib.suppress(BaseException):  # nobody waits for the result
                job.result(call)


class Threads:
    """A crew with a thread for each worker.

    Parameters
    ----------
    jobs, workers : list
    own : bool
        Whether each worker has calls of its own, as needed for an iterable dataset; otherwise each takes the next
        call, which is quicker.
    ordered : bool
        Whether results come in the order of the calls; otherwise they come as they are made.
    timeout : float
        Seconds without work after which waiting is an error; 0: never.
    begins : bool
        Whether functions are to be called in each thread first.
    say : callable
        Logs a message.
    """

    def __init__(
        self,
        jobs: list[Any],
        workers: list[LoaderWorker],
        has_own_queues: bool,
        ordered: bool,
        timeout: float,
        begins: bool,
        say: Callable[[str], object],
    ) -> None:
        self._jobs, self.workers, self._timeout, self._begins = jobs, workers, timeout, begins
        self.team = Team(
            len(workers), has_own_queues or isinstance(jobs[0], DatasetStream), ordered, Pace(len(workers), say)
        )
        self._iterator: Any = None
        self._failed: dict[int, BaseException] = {}

    def start(self) -> None:
        """Start the threads, and wait until the first functions have been called in all of them."""
        answer_in_threads()
        try:
            for worker, job in zip(self.workers, self._jobs, strict=True):
                self.team.start(worker, job, self._begins)
            # These functions may seed the generators of the process: so the loop's thread waits meanwhile.
            for _ in self.workers if self._begins else ():
                self.team.begun.get()
            node = dataset_of(Chain(_Fetched((), self.team)))
            self._iterator = iter(node.with_options(Options(stall_timeout=self._timeout or None)))
        except BaseException:
            self.team.stop()
            raise

    def put(self, call: WorkerCall) -> None:
        if call.error is not None:  # it has frames of the loop, and queues are held by threads
            self._failed[call.number] = call.error
            call = call._replace(error=True)
        self.team.calls[call.worker % len(self.team.calls)].put(call)
        self.team.order.put(call.number if self.team._sorts else call.worker % len(self.team.done))

    def end(self) -> None:
        self.team.order.put(None)

    def get(self) -> WorkerResult:
        if self.team.taken:
            raise taken_error()
        try:
            result: WorkerResult = next(self._iterator)
        except StallError as error:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from error
        if result.error is None:
            return result
        failed = self._failed.pop(result.number) if result.error is True else result.error.take()
        return result._replace(error=failed)

    def close(self, timeout: float | None) -> None:
        self.team.stop()
        if self._iterator is not None:
            self._iterator.close(timeout)


@dataclass(frozen=True, eq=False)
class _Fetched(ObjectNode):
    """A node whose elements are the results of worker threads: its stream waits without the GIL and notices Ctrl-C."""

    name = "DataLoader"

    team: Team

    def count(self, min_count: int | None) -> Count:
        raise Unknown

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        with contextlib.closing(self.team.results()) as results:
            yield from map(One, results)
