"""Sessions: they run a graph's operations, and own what those keep from run to run."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.queues import watch
from queuecore.errors import CancelledError, DeadlineExceededError, InvalidArgumentError, QueueCoreError
from queuecore.tf1._graph import (
    Graph,
    Operation,
    Tensor,
    as_value,
    get_default_graph,
    push_session,
    register_session_ops,
)

__all__ = ["ConfigProto", "InteractiveSession", "Run", "RunMetadata", "RunOptions", "Session"]

_STALL_SECONDS = 5.0


@dataclass
class RunOptions:
    """How one run goes.

    Attributes
    ----------
    timeout_in_ms : int, default 0
        A run that waits longer raises `DeadlineExceededError`, and nothing is lost; 0: no end.
    """

    NO_TRACE = 0
    FULL_TRACE = 3

    timeout_in_ms: int = 0
    trace_level: int = 0
    output_partition_graphs: bool = False


@dataclass
class RunMetadata:
    """Taken, and left empty."""


@dataclass
class ConfigProto:
    """How a session goes. What is about devices and thread pools is taken, and changes nothing.

    Attributes
    ----------
    operation_timeout_in_ms : int, default 0
        As `RunOptions.timeout_in_ms`, of every run.
    """

    operation_timeout_in_ms: int = 0
    allow_soft_placement: bool = True
    log_device_placement: bool = False
    intra_op_parallelism_threads: int = 0
    inter_op_parallelism_threads: int = 0
    device_count: dict[str, int] = field(default_factory=dict)
    gpu_options: Any = None


class Run:
    """One run: what kernels know of it.

    Attributes
    ----------
    session : Session
    deadline : float or None
        On the monotonic clock.
    """

    __slots__ = ("begun", "deadline", "over", "session")

    def __init__(self, session: Session, deadline: float | None) -> None:
        self.session = session
        self.deadline = deadline
        self.over = False
        self.begun = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds that a wait may last; `None`: no end."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    def look(self, name: str) -> None:
        """End a wait for a queue, during which this is called, or say what may be missing."""
        if self.over or self.session._closed:
            raise CancelledError(
                "the operation was cancelled: the session was closed, or another part of the run failed"
            )
        now = time.monotonic()
        if (
            self.deadline is not None and now >= self.deadline
        ):  # of a reader's wait for a name; a queue's own hears of it first
            raise DeadlineExceededError(f"the run's time was over while it waited for the queue {name!r}")
        if now - self.begun > _STALL_SECONDS:
            self.begun = float("inf")
            self.session._say_stalled(name)


class _Step(NamedTuple):
    op: Operation
    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    output: int
    outputs: int
    pure: bool


class _Plan(NamedTuple):
    steps: list[_Step]
    slots: int
    feeds: list[tuple[Tensor, int]]
    fetched: list[int]
    concurrent: bool


class Session:
    """Runs a graph, and owns the queues, readers, variables and iterators that its operations name.

    Parameters
    ----------
    target : str, default ""
        There are no others than the one of this process.
    graph : Graph, optional
        Default: the default one.
    config : ConfigProto, optional

    Notes
    -----
    Any number of threads may run at once. A run executes each operation once, whatever asks for it; operations that may
    wait run beside each other if none needs the other. Waits leave the GIL, hear Ctrl-C, and end when the session is
    closed.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        if target:
            raise InvalidArgumentError(f"there is no session at {target!r}: everything runs in this process")
        self._graph = get_default_graph() if graph is None else graph
        self._config = config or ConfigProto()
        self._resources: dict[Any, Any] = {}
        self._lock = threading.RLock()
        self._plans: dict[Any, tuple[_Plan, Any]] = {}
        self._closed = False
        self._contexts: list[Any] = []
        self._started: set[Any] = set()
        self._warned: set[str] = set()

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._graph

    # ---- what lives as long as the session

    def resource(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what is kept under a key, made when it is first asked for."""
        found = self._resources.get(key)
        if found is None:
            with self._lock:
                found = self._resources.get(key)
                if found is None:
                    found = self._resources[key] = make()
        return found

    def _say_stalled(self, name: str) -> None:
        from queuecore.tf1._runners import missing_start

        missing = missing_start(self, name)
        if missing and name not in self._warned:
            self._warned.add(name)
            from queuecore._warnings import warn

            warn(missing, 4)

    # ---- running

    def run(
        self, fetches: Any, feed_dict: Any = None, options: RunOptions | None = None, run_metadata: Any = None
    ) -> Any:
        """Execute what is needed for the fetches, and return their values.

        Parameters
        ----------
        fetches : Tensor, Operation, str, or lists, tuples and dicts of them
        feed_dict : dict, optional
            Values that tensors have in this run, instead of what they compute.
        options : RunOptions, optional
        run_metadata : RunMetadata, optional
            Left as it is.

        Returns
        -------
        object
            In the structure of `fetches`: arrays or scalars of NumPy's, bytes for strings, `None` for operations.

        Raises
        ------
        TypeError, ValueError
            If something can't be fetched or fed.
        QueueCoreError
            As the operations.
        """
        del run_metadata
        feeds = self._feeds(feed_dict) if feed_dict else {}
        key = (_key(fetches), frozenset(feeds))
        found = self._plans.get(key)
        if found is None:
            if not self._graph._ops:
                raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
            flat: list[Any] = []
            structure = _structured(fetches, self._graph, flat)
            found = self._plans[key] = (_planned(flat, list(feeds)), structure)
        plan, structure = found
        values = self._execute(plan, feeds, options)
        return structure([_shown(values[slot]) if slot >= 0 else None for slot in plan.fetched])

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """Return a function that runs the fetches; it takes the values of the tensors in `feed_list`."""
        tensors = [self._graph.as_graph_element(one, allow_operation=False) for one in feed_list or ()]
        flat: list[Any] = []
        structure = _structured(fetches, self._graph, flat)
        plan = _planned(flat, tensors)

        def call(*arguments: Any, options: RunOptions | None = None) -> Any:
            if len(arguments) != len(tensors):
                raise ValueError(f"{len(tensors)} values are to be fed, and {len(arguments)} were given")
            feeds = {one: _fed(one, value) for one, value in zip(tensors, arguments, strict=True)}
            values = self._execute(plan, feeds, options)
            return structure([_shown(values[slot]) if slot >= 0 else None for slot in plan.fetched])

        del accept_options
        return call

    def _feeds(self, feed_dict: Mapping[Any, Any]) -> dict[Any, Any]:
        feeds: dict[Any, Any] = {}
        for key, value in feed_dict.items():
            if isinstance(key, tuple):
                for one, part in zip(key, value, strict=True):
                    feeds[self._feedable(one)] = _fed(self._feedable(one), part)
            else:
                feeds[self._feedable(key)] = _fed(self._feedable(key), value)
        return feeds

    def _feedable(self, key: Any) -> Tensor:
        try:
            found = self._graph.as_graph_element(key, allow_operation=False)
        except (TypeError, KeyError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error}") from error
        assert isinstance(found, Tensor)
        return found

    @np.errstate(all="ignore")  # as there: infinities and numbers that are none need no warning
    def _execute(self, plan: _Plan, feeds: Mapping[Any, Any], options: RunOptions | None) -> list[Any]:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        timeout = (options.timeout_in_ms if options is not None else 0) or self._config.operation_timeout_in_ms
        run = Run(self, time.monotonic() + timeout / 1000 if timeout else None)
        values: list[Any] = [None] * plan.slots
        for tensor, slot in plan.feeds:
            values[slot] = feeds[tensor]
        before = watch(run.look)
        try:
            if plan.concurrent:
                _run_beside(plan, run, values)
            else:
                for step in plan.steps:
                    _do(step, run, values)
        except QueueCoreError as error:
            if self._closed and not isinstance(error, CancelledError):
                raise CancelledError("the session was closed while the run was under way") from error
            raise
        finally:
            watch(before)
        return values

    # ---- its end

    def close(self) -> None:
        """End it. Waits end with `CancelledError`, and what it owns is gone."""
        with self._lock:
            self._closed = True
            kept, self._resources = self._resources, {}
        for one in kept.values():
            end = getattr(one, "_end", None)
            if end is not None:
                end()

    def as_default(self) -> Any:
        """Return a context in which it is the default session of this thread. Doesn't close it."""
        return push_session(self)

    def __enter__(self) -> Session:
        """Make it, and its graph, the default ones of this thread."""
        for context in (self._graph.as_default(), self.as_default()):
            context.__enter__()
            self._contexts.append(context)
        return self

    def __exit__(self, *error: Any) -> None:
        """Close it."""
        while self._contexts:
            self._contexts.pop().__exit__(None, None, None)
        self.close()

    def __del__(self) -> None:
        """Close it."""
        if not getattr(self, "_closed", True):
            self.close()


class InteractiveSession(Session):
    """A session that is the default one of this thread from now on."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        super().__init__(target, graph, config)
        register_session_ops(self)

    def close(self) -> None:
        """End it; it is the default one no more."""
        from queuecore.tf1._graph import _stack

        stack = _stack("sessions")
        if self in stack:
            stack.remove(self)
        super().close()


# Values


def _shown(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim == 0:
        return value[()]
    return (
        value if value.flags.writeable else value.copy()
    )  # a constant's, or a variable's, is not the user's to change


def _fed(tensor: Any, value: Any) -> Any:
    if isinstance(value, (Tensor, Operation)):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, "
            "lists and numpy ndarrays"
        )
    if isinstance(value, (np.ndarray, np.generic)) and tensor.dtype.kind != "S" and value.dtype.kind not in "SUO":
        found = np.asarray(value).astype(tensor.dtype, copy=False)
    else:
        try:
            found = as_value(value, tensor.dtype)
        except TypeError as error:
            raise ValueError(f"{error} (fed to {tensor.name!r})") from None
    if not tensor.shape.is_compatible_with(np.shape(found)):
        raise ValueError(
            f"Cannot feed value of shape {np.shape(found)} for Tensor {tensor.name!r}, which has shape '{tensor.shape}'"
        )
    return found


def _key(fetches: Any) -> Any:
    if isinstance(fetches, (list, tuple)):
        return (type(fetches), *map(_key, fetches))
    if isinstance(fetches, Mapping):
        return (type(fetches), *((name, _key(one)) for name, one in fetches.items()))
    return fetches


def _structured(fetches: Any, graph: Graph, flat: list[Any]) -> Callable[[list[Any]], Any]:
    # What puts the values of `flat` into the structure of the fetches.
    if fetches is None:
        raise TypeError("Fetch argument None has invalid type <class 'NoneType'>")
    if isinstance(fetches, (list, tuple)):
        parts = [_structured(one, graph, flat) for one in fetches]
        if isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
            kind = type(fetches)
            return lambda values: kind(*[part(values) for part in parts])
        make: Any = list if isinstance(fetches, list) else tuple
        return lambda values: make([part(values) for part in parts])
    if isinstance(fetches, Mapping):
        named = {name: _structured(one, graph, flat) for name, one in fetches.items()}
        return lambda values: {name: part(values) for name, part in named.items()}
    if hasattr(fetches, "_fetch"):  # one that is of several tensors
        components, build = fetches._fetch()
        several = [_structured(one, graph, flat) for one in components]
        return lambda values: build([part(values) for part in several])
    try:
        element = graph.as_graph_element(fetches)
    except TypeError as error:
        raise TypeError(f"Fetch argument {fetches!r} has invalid type {type(fetches)}: {error}") from None
    except (KeyError, ValueError) as error:
        raise ValueError(f"Fetch argument {fetches!r} cannot be interpreted as a Tensor. ({error})") from None
    at = len(flat)
    flat.append(element)
    return lambda values: values[at]


# Plans


def _planned(fetches: Iterable[Any], fed: Sequence[Any]) -> _Plan:
    slots: dict[tuple[Operation, int], int] = {}
    feeds: list[tuple[Tensor, int]] = []
    for tensor in fed:
        slots[tensor.op, tensor.value_index] = len(feeds)
        feeds.append((tensor, len(feeds)))
    fetches = list(fetches)
    given = {(tensor.op, tensor.value_index) for tensor in fed}

    def needs(op: Operation) -> list[Operation]:
        found = [one.op for one in op.inputs if (one.op, one.value_index) not in given]
        return list(dict.fromkeys([*found, *op.control_inputs]))

    wanted = [
        one if isinstance(one, Operation) else one.op
        for one in fetches
        if isinstance(one, Operation) or (one.op, one.value_index) not in given
    ]
    order, behind = _sorted(wanted, needs)
    count = len(feeds)
    steps = []
    for op in order:
        inputs = tuple(slots[one.op, one.value_index] for one in op.inputs)
        first = count
        for index in range(len(op.outputs)):
            slots.setdefault((op, index), count)
            count += 1
        steps.append(_Step(op, op.kernel, inputs, first, len(op.outputs), op.pure))
    fetched = [-1 if isinstance(one, Operation) else slots[one.op, one.value_index] for one in fetches]
    waiting = [op for op in order if op.blocking]
    concurrent = any(a not in behind[b] for a, b in zip(waiting, waiting[1:], strict=False))
    return _Plan(steps, count, feeds, fetched, concurrent)


def _sorted(
    wanted: list[Operation], needs: Callable[[Operation], list[Operation]]
) -> tuple[list[Operation], dict[Operation, set[Operation]]]:
    # Each behind what it needs; those that may wait as late as that allows. And all that is before each that may wait.
    before: dict[Operation, list[Operation]] = {}
    left = list(wanted)
    while left:
        op = left.pop()
        if op not in before:
            before[op] = needs(op)
            left += before[op]
    after: dict[Operation, list[Operation]] = {op: [] for op in before}
    missing = {op: len(needed) for op, needed in before.items()}
    for op, needed in before.items():
        for one in needed:
            after[one].append(op)
    ready = [op for op in before if not missing[op]]
    order: list[Operation] = []
    waits: dict[Operation, set[Operation]] = {}
    while ready:
        at = next((i for i, op in enumerate(ready) if not op.blocking), 0)
        op = ready.pop(at)
        order.append(op)
        waits[op] = set().union(*(waits[one] | ({one} if one.blocking else set()) for one in before[op]))
        for one in after[op]:
            missing[one] -= 1
            if not missing[one]:
                ready.append(one)
    return order, waits


def _do(step: _Step, run: Run, values: list[Any]) -> None:
    given = [values[slot] for slot in step.inputs]
    try:
        made = step.kernel(*given) if step.pure else step.kernel(run, *given)
    except QueueCoreError as error:
        _note(error, step.op)
        raise
    except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:
        if not step.pure:
            raise
        wrong = InvalidArgumentError(f"{error} (in {step.op.type} {step.op.name!r})")
        raise wrong from error
    if step.outputs == 1:
        values[step.output] = made
    elif step.outputs:
        values[step.output : step.output + step.outputs] = made


def _note(error: QueueCoreError, op: Operation) -> None:
    note = f"in the operation {op.name!r} ({op.type})"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _run_beside(plan: _Plan, run: Run, values: list[Any]) -> None:
    # Operations that may wait, and need nothing of each other, wait at the same time: each of them in a thread.
    done: queue.SimpleQueue[tuple[_Step, BaseException | None]] = queue.SimpleQueue()
    left = list(plan.steps)
    finished = set()
    known = {step.op for step in left}
    under_way = 0
    failure: BaseException | None = None

    def work(step: _Step) -> None:
        error: BaseException | None = None
        watch(run.look)
        try:
            _do(step, run, values)
        except BaseException as caught:
            error = caught
        done.put((step, error))

    def is_ready(step: _Step) -> bool:
        needed = [*(one.op for one in step.op.inputs), *step.op.control_inputs]
        return all(op in finished or op not in known for op in needed)

    try:
        while (left or under_way) and failure is None:
            ready = [step for step in left if is_ready(step)]
            for step in ready:
                left.remove(step)
                if step.op.blocking:
                    threading.Thread(target=work, args=(step,), name="qc-run", daemon=True).start()
                    under_way += 1
                else:
                    _do(step, run, values)
                    finished.add(step.op)
            if under_way and not any(is_ready(step) for step in left):
                step, failure = _taken(done)
                under_way -= 1
                finished.add(step.op)
    finally:
        run.over = True
        while under_way:
            _, error = _taken(done)
            under_way -= 1
            failure = failure or error
    if failure is not None:
        raise failure


def _taken(done: queue.SimpleQueue[Any]) -> Any:
    while True:  # in slices: Ctrl-C is heard between them
        try:
            return done.get(timeout=0.05)
        except queue.Empty:
            continue
