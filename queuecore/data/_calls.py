"""Functions of the user's that run in Python, for each element: maps, generators, and the batches that come after them.

Elements are Python objects here. A function is called in the thread of its node, or in several threads of Python; where
it waits or computes without the GIL (in NumPy, in files), these overlap.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from queuecore._core.pipeline import Scope
from queuecore._quarantine import Quarantine, is_bad_data
from queuecore._stages import BYTES, Component, Stage, structure_of
from queuecore.data._lazy import lazy
from queuecore.data._nodes import Layout, Node, One, Piece, Run, start_thread
from queuecore.data._ops import Batch, Count
from queuecore.data._plan import template_of
from queuecore.data._source import Unknown
from queuecore.data._values import batched_spec, converted, same_structure, shown, spec_of, stacked
from queuecore.data.options import Options
from queuecore.errors import InvalidArgumentError, PipelineError, QueueCoreError, UnavailableError
from queuecore.ragged import Ragged

if TYPE_CHECKING:
    from queuecore.data.iterator import Iterator

__all__ = [
    "Call",
    "Ignore",
    "Map",
    "ObjectNode",
    "Stack",
    "StageCall",
    "call",
    "has_objects",
    "leave_out",
    "name_of",
    "parted",
    "placed",
    "raised",
]

_MOST_THREADS = 1024
# Seconds of a call below which handing it to another thread costs more than it brings; and how much calls must exceed
# that, all in all, before others get them.
_QUICK = 50e-6
_LATE = 0.002
# Of a pool that finds out by itself how many threads it needs: how many it begins with, several a CPU, as some of them
# wait for the GIL; how few and how many it may have; the length of a trial; what other numbers must gain; and how long
# the best one is kept before others are tried again.
_FIRST_TUNED = 16
_LEAST_TUNED = 4
_MOST_TUNED = 64
_TRIAL_SECONDS = 0.005
_GAIN = 1.1
_SETTLED_SECONDS = 1.0
_log = logging.getLogger("queuecore")


def has_objects(source: Any) -> bool:
    """Return whether the elements of a source are Python objects."""
    return isinstance(source, Node) and source.layout().components is None


# -- calls -------------------------------------------------------------------------------------------------------------


def name_of(function: Any) -> str:
    """Return what to call a function; the same in every process."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def raised(what: str, name: str, error: BaseException, number: int) -> PipelineError:
    """Return the exception for one that a function of the user's raised."""
    return PipelineError(
        f"{what}: {name} raised {type(error).__name__}: {error} (element {number})", stage=what, record=number
    )


def placed(what: str, name: str, error: QueueCoreError, number: int) -> QueueCoreError:
    """Return an error about what a function returned, with its place."""
    error.args = (f"{what}: what {name} returns: {error} (element {number})",)
    error.stage, error.record = what, number
    return error


def call(function: Callable[..., Any], element: Any) -> Any:
    """Call a function of an element: the parts of a tuple are arguments of their own."""
    return function(*element) if type(element) is tuple else function(element)


def parted(made: Any) -> Any:
    """Return what a map's function returned as an element: a list is a tuple, one that is a part of it an array."""
    return tuple(made) if type(made) is list else made


class Call(NamedTuple):
    """A function that makes an element of an element.

    Attributes
    ----------
    function : callable
        The user's.
    """

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """What to call it."""
        return name_of(self.function)

    def __call__(self, element: Any, pass_: int, number: int) -> tuple[Any, Any]:
        """Return the new element and its structure."""
        del pass_
        try:
            made = call(self.function, element)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise raised("map", self.name, error, number) from error
        try:
            return converted(parted(made))
        except InvalidArgumentError as error:
            raise placed("map", self.name, error, number) from error.__cause__


class StageCall(NamedTuple):
    """A native stage, run at once on each element."""

    stage: Stage

    @property
    def name(self) -> str:
        """What to call it."""
        return repr(self.stage)

    def __call__(self, element: Any, pass_: int, number: int) -> tuple[Any, Any]:
        """Return the new element and its structure."""
        try:
            components, values = _parts(element)
            step = _bound(self.stage, components)
            made = list(step(*values, epoch=pass_, element=number))
        except QueueCoreError as error:
            error.args = (f"{error} (element {number})",)
            error.stage, error.record = "map", number
            raise
        if self.stage.structure is not None:
            return converted(self.stage.structure.assemble(made, False))
        return converted(structure_of(template_of(step.outputs), made))


_bound = functools.lru_cache(64)(Stage.bind)


def _parts(element: Any) -> tuple[tuple[Component, ...], list[Any]]:
    """Return an element as a stage gets it."""
    parts: list[tuple[str | None, Any]]
    if isinstance(element, dict):
        parts = list(element.items())
    else:
        parts = [(None, one) for one in (element if isinstance(element, tuple) else [element])]
    components: list[Component] = []
    values: list[Any] = []
    for name, part in parts:
        if isinstance(part, Ragged) and part.is_bytes:
            part = part.to_object()
        if isinstance(part, bytes):
            components.append(Component(BYTES, (), name=name))
            values.append(part)
            continue
        if not isinstance(part, np.ndarray | np.generic):
            raise InvalidArgumentError(f"a native stage can't work on {part!r:.80}")
        array = np.asarray(part, order="C")
        components.append(Component(BYTES if array.dtype == object else array.dtype, array.shape, name=name))
        values.append(array)
    return tuple(components), values


# -- several threads ---------------------------------------------------------------------------------------------------


class _Result(NamedTuple):
    """What a call made of an element; or the error that came instead."""

    number: int
    made: Any
    structure: Any
    error: BaseException | None


class _End(NamedTuple):
    """That there are no elements from this number on, or what went wrong there."""

    number: int
    error: BaseException | None


class _Pool:
    """Threads that call a function of the elements of an iterator. At most twice as many elements are in work or wait.

    Parameters
    ----------
    function : callable
        Of an element, the pass and the element's number.
    child : Iterator
        Gives the elements; one thread at a time asks it.
    first : int
        Number of its first element.
    threads : int
        At most so many; each is started by one that has something to do, when no other waits for something.
    tuned : bool
        Whether `threads` is only what to begin with.
    """

    def __init__(
        self, function: Call | StageCall, child: Iterator, pass_: int, first: int, threads: int, tuned: bool
    ) -> None:
        self._function = function
        self._child = child
        self._pass = pass_
        self._number = self._first = first
        self._threads = threads
        self._scope = Scope(True)
        self._started = 0
        self._owed = 0  # elements that there is no room for any more, but still are
        self._idle: list[None] = []
        self._ended = False
        self._lock = threading.Lock()
        self._done: SimpleQueue[_Result | _End] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(2 * threads):
            self._room.put(None)
        self._tuner = _Tuner(threads) if tuned else None

    def _allow(self, threads: int) -> None:
        """Have so many threads at most from now on. Called by who takes the results."""
        for _ in range(2 * (threads - self._threads)):
            self._room.put(None)
        self._owed += max(0, 2 * (self._threads - threads))
        self._threads = threads

    def _took(self) -> None:
        """One result is taken: there is room for another element."""
        if self._owed:
            self._owed -= 1
        else:
            self._room.put(None)
        if self._tuner is not None:
            threads = self._tuner.next()
            if threads != self._threads:
                self._allow(threads)

    def _start(self) -> None:
        self._started += 1
        try:
            start_thread("qc-map", self._work)
        except BaseException:
            self._started -= 1
            raise

    def _work(self) -> None:
        before = self._scope.enter()
        try:
            while self._one():
                pass
        finally:
            Scope.leave(before)

    def _one(self) -> bool:
        self._idle.append(None)
        self._room.get()
        with self._lock:
            number = self._number
            if self._ended:
                return False
            if self._started > self._threads:
                self._started -= 1
                self._idle.pop()
                self._room.put(None)
                return False
            try:
                element = next(self._child)
            except BaseException as error:
                self._ended = True
                self._done.put(_End(number, None if isinstance(error, StopIteration) else error))
                return False
            self._number += 1
            self._idle.pop()
            if not self._idle and self._started < self._threads:
                # Too many threads already: then fewer do it.
                with contextlib.suppress(UnavailableError):
                    self._start()
        try:
            result = _Result(number, *self._function(element, self._pass, number), None)
        except BaseException as error:
            result = _Result(number, None, None, error)
        self._done.put(result)
        return True

    def results(self, ordered: bool) -> Generator[_Result]:
        """Yield what was made: of one element after the other; or as it comes, and the end when all before it came."""
        early: dict[int, _Result | _End] = {}
        due = self._first
        try:
            self._start()
            while True:
                item = self._done.get()
                if not ordered and isinstance(item, _Result):
                    due += 1
                    self._took()
                    yield item
                else:
                    early[item.number] = item
                while due in early:
                    item = early.pop(due)
                    if isinstance(item, _End):
                        if item.error is not None:
                            raise item.error
                        return
                    due += 1
                    self._took()
                    yield item
        finally:
            self._ended = self._scope.stopped = True
            # Somebody may be waiting for an element.
            self._child._stop()
            with self._lock:
                self._child.close()
                for _ in range(self._started):  # nobody starts another one now
                    self._room.put(None)


class _Tuner:
    """Finds out with how many threads most is done, by trying: twice as many as long as that gains, else half as many.

    A function that waits gains from more threads than there are CPUs; one whose threads stand in each other's way loses
    by them, but never as much. Functions change: so all of it is done again from time to time.
    """

    def __init__(self, threads: int) -> None:
        self._threads = self._best = self._first = threads
        self._least = min(threads, _LEAST_TUNED)
        self._rate = 0.0
        self._factor: float = 2
        self._count = -threads  # the first ones are still on the way in
        self._since = 0.0

    def next(self) -> int:
        """Note a result; return how many threads to have."""
        self._count += 1
        now = time.monotonic()
        if self._count <= 0:
            self._since = now
            return self._threads
        if not self._factor:
            if now - self._since > _SETTLED_SECONDS:
                self._first, self._rate, self._factor = self._best, 0.0, 2
                self._count, self._since = 0, now
            return self._threads
        if self._count < 2 * self._threads + 2 or now - self._since < _TRIAL_SECONDS:
            return self._threads
        rate = self._count / (now - self._since)
        if not self._rate:
            self._rate = rate
        elif rate > _GAIN * self._rate:
            self._rate, self._best = rate, self._threads
        else:  # of no use; fewer are worth a trial only where more never were
            self._factor = 0.5 if self._factor > 1 and self._best == self._first else 0
        wanted = int(self._best * self._factor) if self._factor else self._best
        self._threads = min(max(wanted, self._least), _MOST_TUNED)
        if self._threads == self._best:
            self._factor = 0
        self._count = -self._threads
        return self._threads


# -- nodes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ObjectNode(Node):
    """A node whose elements are Python objects."""

    def layout(self) -> Layout:
        return Layout(None)

    def spec(self) -> Any:
        """Return that of the first element, which is made for it, once."""
        return self._first_spec

    def _trial(self) -> Run:
        # Seeds as of a first iterator, and counters of its own: this takes no pass of a shuffle from anybody.
        run = Run(self, Options(num_threads=1), None)
        shuffles = [shuffle for dataset in self.inputs for shuffle in dataset._shuffles()]
        run.seed([one.seeds.pair for one in shuffles], [0] * len(shuffles))
        return run

    @lazy
    def _first_spec(self) -> Any:
        with contextlib.closing(self.chunks(self._trial(), 0, 0)) as chunks:
            for chunk in chunks:
                return spec_of(chunk.element)  # type: ignore[union-attr]
        return None


@dataclass(frozen=True, eq=False)
class Map(ObjectNode):
    """What a function makes of each element.

    Attributes
    ----------
    function : Call or StageCall
        The function.
    threads : int or None
        In how many threads it runs; `None`: in that of the node. -1: as many as serve, found by trying.
    ordered : bool or None
        Whether elements keep their order; `None`: as the options say.
    why : str
        Why it isn't native.
    on_device : bool
        Whether it is marked for a device, where it can't be done.
    """

    name: ClassVar[str] = "map"

    function: Call | StageCall
    threads: int | None
    ordered: bool | None
    why: str
    on_device: bool = False

    def words(self) -> dict[str, Any]:
        return {"function": self.function.name}

    def label(self) -> str:
        return f"map({self.function.name})"

    def where(self) -> str:
        how = "" if self.threads is None else f", in {'several' if self.threads < 0 else self.threads} threads"
        return f"Python, for each element{how}: {self.why}"

    def count(self, needed: int | None) -> Count:
        return self.inputs[0]._count(len(self.inputs[0]._ops), needed)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        # How many are left out before an element shows only when they are made.
        first = start if run.skips is None else 0
        known = None
        left = start - first
        with contextlib.closing(self._results(run, pass_, first)) as results:
            for number, made, structure, error in results:
                if error is None and (known is None or not same_structure(structure, known)):
                    if known is None:
                        known = structure
                    else:
                        error = InvalidArgumentError(
                            f"map: {self.function.name} returns another structure than before: {shown(structure)}, "
                            f"and not {shown(known)} (element {number})",
                            stage="map",
                            record=number,
                        )
                if error is not None:
                    leave_out(run.skips, error, left > 0)
                elif left > 0:
                    left -= 1
                else:
                    yield One(made)

    def _results(self, run: Run, pass_: int, first: int) -> Generator[_Result]:
        child = run.open(0, pass_, first)
        tuned = self.threads is not None and self.threads < 0
        if self.threads is None or tuned:
            first = yield from self._alone(child, pass_, first, tuned)
            if first < 0:
                return
        if tuned:
            count = min(max(len(os.sched_getaffinity(0)), _FIRST_TUNED), _MOST_TUNED)
        else:
            count = min(self.threads or 1, _MOST_THREADS)
        ordered = run.options.deterministic is not False if self.ordered is None else self.ordered
        pool = _Pool(self.function, child, pass_, first, count, tuned)
        yield from pool.results(ordered)

    def _alone(self, child: Iterator, pass_: int, first: int, tuned: bool) -> Generator[_Result, None, int]:
        """Yield what is made in this thread; return -1, or the first element that others should make."""
        function = self.function
        late = -math.inf  # the first call may have to import things, and tells nothing
        with contextlib.ExitStack() as stack:
            stack.enter_context(child)
            for number, element in enumerate(child, first):
                begun = time.monotonic()
                try:
                    made, structure = function(element, pass_, number)
                except BaseException as error:
                    result = _Result(number, None, None, error)
                else:
                    result = _Result(number, made, structure, None)
                late = max(late + time.monotonic() - begun - _QUICK, 0)
                yield result
                if late > _LATE and tuned:
                    stack.pop_all()
                    return number + 1
        return -1

    @lazy
    def _first_spec(self) -> Any:
        with self._trial().open(0, 0) as child:
            for element in child:
                return spec_of(self.function(element, 0, 0)[0])
        return None


def leave_out(skips: Quarantine | None, error: BaseException, again: bool) -> None:
    """Leave an element out because of an error, or raise that.

    Parameters
    ----------
    again : bool
        Whether it was left out before, in a run that this one goes on with: then it isn't counted.
    """
    if skips is None or not isinstance(error, QueueCoreError) or (again and not is_bad_data(error)):
        raise error
    if not again:
        skips.skip(error)


@dataclass(frozen=True, eq=False)
class Stack(ObjectNode):
    """Batches of elements that are Python objects."""

    name: ClassVar[str] = "batch"

    size: int
    drop_remainder: bool

    def words(self) -> dict[str, Any]:
        return {"batch_size": self.size, "drop_remainder": self.drop_remainder}

    def label(self) -> str:
        return f"batch({self.size}, {self.drop_remainder})"

    def where(self) -> str:
        return "Python: NumPy stacks elements that are Python objects"

    def count(self, needed: int | None) -> Count:
        dataset = self.inputs[0]
        batch = Batch(self.size, self.drop_remainder)
        return batch.count(needed, lambda below: dataset._count(len(dataset._ops), below))

    def spec(self) -> Any:
        return batched_spec(self.inputs[0].element_spec, self.size if self.drop_remainder else None)

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        group: list[Any] = []
        number = start
        error = None
        with run.open(0, pass_, start * self.size) as child:
            while error is None:
                try:
                    group.append(next(child))
                except BaseException as end:  # what is good comes before it
                    error = end
                    continue
                if len(group) == self.size:
                    yield One(stacked(group, number))
                    group = []
                    number += 1
        if group and not self.drop_remainder:
            yield One(stacked(group, number))
        if not isinstance(error, StopIteration):
            raise error


class _Ignored(Quarantine):
    """Leaves out whatever is bad, and says so if that is wished."""

    def __init__(self, log_warning: bool) -> None:
        super().__init__()
        self._tell = log_warning

    def skip(self, error: QueueCoreError, *, file: bool = False, nbytes: int | None = None) -> None:
        super().skip(error, file=file, nbytes=nbytes)
        if self._tell:
            with contextlib.suppress(Exception):  # a handler of the log's that fails is no reason to end
                _log.warning("left out: %s", error)


@dataclass(frozen=True, eq=False)
class Ignore(Node):
    """The elements of a dataset that can be made."""

    name: ClassVar[str] = "ignore_errors"

    log_warning: bool

    def count(self, needed: int | None) -> Count:
        raise Unknown

    def layout(self) -> Layout:
        return Layout.of(self.inputs[0])

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def chunks(self, run: Run, pass_: int, start: int) -> Generator[Piece]:
        # From the first one on: which are left out shows only when they are made.
        skips = _Ignored(self.log_warning)
        left = start
        if self.layout().components is None:
            with contextlib.closing(run.elements(0, pass_, 0, skips)) as elements:
                yield from map(One, itertools.islice(elements, start, None))
            return
        with contextlib.closing(run.rows(0, pass_, 0, skips)) as chunks:
            for rows in chunks:
                if left >= rows.n:
                    left -= rows.n
                else:
                    yield rows.part(left, rows.n)
                    left = 0
