"""Sessions: they run a graph's operations, and own the state that these keep from run to run."""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from queuecore._checks.warnings import warn
from queuecore._core.atoms.own import own
from queuecore._core.handoff.queues import watch
from queuecore.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    QueueCoreError,
)
from queuecore.tf1._graph.graph import (
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    constant_value,
    get_default_graph,
    push_session,
    register_session_ops,
    stack_of,
)
from queuecore.tf1._graph.plans import RunPlan, do, planned, run_beside
from queuecore.tf1._graph.refused import refusing_members
from queuecore.tf1._graph.values import as_value

__all__ = [
    "ConfigProto",
    "GPUOptions",
    "GraphOptions",
    "InteractiveSession",
    "RunMetadata",
    "RunOptions",
    "Session",
    "SessionRun",
]

_STALL_SECONDS = 5.0


@dataclass
class RunOptions:
    """Options of one run.

    Attributes
    ----------
    timeout_in_ms : int, default 0
        A run that waits longer raises `DeadlineExceededError`, and no element is lost; 0: no limit.
    trace_level, output_partition_graphs
        Accepted, and not used.
    """

    NO_TRACE = 0
    FULL_TRACE = 3

    timeout_in_ms: int = 0
    trace_level: int = 0
    output_partition_graphs: bool = False


@dataclass
class RunMetadata:
    """Accepted, and left empty."""


@dataclass
class GPUOptions:
    """Options of a device. They are accepted, and change nothing.

    Attributes
    ----------
    per_process_gpu_memory_fraction : float, default 0
    allow_growth : bool, default False
    allocator_type, visible_device_list : str, default ""
    polling_active_delay_usecs, polling_inactive_delay_msecs, deferred_deletion_bytes : int, default 0
    force_gpu_compatible : bool, default False
    """

    per_process_gpu_memory_fraction: float = 0.0
    allow_growth: bool = False
    allocator_type: str = ""
    visible_device_list: str = ""
    polling_active_delay_usecs: int = 0
    polling_inactive_delay_msecs: int = 0
    deferred_deletion_bytes: int = 0
    force_gpu_compatible: bool = False


@dataclass
class GraphOptions:
    """Options of what TensorFlow does with a graph. They are accepted, and change nothing.

    Attributes
    ----------
    optimizer_options, rewrite_options
    enable_recv_scheduling, infer_shapes, place_pruned_graph, enable_bfloat16_sendrecv : bool, default False
    build_cost_model, build_cost_model_after, timeline_step : int, default 0
    """

    optimizer_options: Any = None
    rewrite_options: Any = None
    enable_recv_scheduling: bool = False
    infer_shapes: bool = False
    place_pruned_graph: bool = False
    enable_bfloat16_sendrecv: bool = False
    build_cost_model: int = 0
    build_cost_model_after: int = 0
    timeline_step: int = 0


@dataclass
class ConfigProto:
    """Options of a session. Options for devices and thread pools are accepted, and change nothing.

    Attributes
    ----------
    operation_timeout_in_ms : int, default 0
        The `RunOptions.timeout_in_ms` of every run that sets none.
    allow_soft_placement, log_device_placement, intra_op_parallelism_threads, inter_op_parallelism_threads
        Accepted, and not used.
    device_count, gpu_options, graph_options
        Accepted, and not used: their own options can be set.
    placement_period, use_per_session_threads, isolate_session_state, device_filters
        Accepted, and not used.
    """

    operation_timeout_in_ms: int = 0
    allow_soft_placement: bool = True
    log_device_placement: bool = False
    intra_op_parallelism_threads: int = 0
    inter_op_parallelism_threads: int = 0
    device_count: dict[str, int] = field(default_factory=dict)
    gpu_options: Any = field(default_factory=GPUOptions)
    graph_options: Any = field(default_factory=GraphOptions)
    placement_period: int = 0
    use_per_session_threads: bool = False
    isolate_session_state: bool = False
    device_filters: list[str] = field(default_factory=list)


class SessionRun:
    """One run, as kernels see it.

    Attributes
    ----------
    session : Session
    deadline : float or None
        On the monotonic clock.
    """

    __slots__ = ("begun", "deadline", "session")

    def __init__(self, session: Session, deadline: float | None) -> None:
        self.session = session
        self.deadline = deadline
        self.begun = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds that a wait may last; `None`: no limit."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    def look(self, name: str) -> None:
        """End a wait for a queue, which calls this while it lasts, or warn of a missing start."""
        if self.session._closed:
            raise CancelledError("the operation was cancelled: the session was closed")
        now = time.monotonic()
        if (
            self.deadline is not None and now >= self.deadline
        ):  # of a reader's wait for a name; a queue's own hears of it first
            raise DeadlineExceededError(f"the run's time was over while it waited for the queue {name!r}")
        if now - self.begun > _STALL_SECONDS:
            self.begun = float("inf")
            self.session._say_stalled(name)


class Session:
    """Runs a graph, and owns the queues, readers, variables and iterators that its operations name.

    Parameters
    ----------
    target : str, default ""
        The only target is this process.
    graph : Graph, optional
        Default: the default one.
    config : ConfigProto, optional

    Notes
    -----
    Any number of threads may run at once. A run executes each operation once, however many others read it; operations
    that may wait run beside each other if none needs the other. Waits release the GIL, notice Ctrl-C, and end when the
    session is closed.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        if not isinstance(target, (str, bytes)):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if target:
            raise NotFoundError(
                "No session factory registered for the given session options: there is no session at "
                f"{target!r}, as everything runs in this process"
            )
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self._graph = get_default_graph() if graph is None else graph
        self._config = config or ConfigProto()
        self._resources: dict[Any, Any] = {}
        self._lock = threading.RLock()
        self._plans: dict[Any, tuple[RunPlan, Any]] = {}
        self._closed = False
        self._contexts: list[Any] = []
        self._started: set[Any] = set()
        self._warned: set[str] = set()

    __getattr__ = refusing_members("tf.Session", "graph_def list_devices partial_run partial_run_setup sess_str")

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._graph

    @property
    def is_closed(self) -> bool:
        """True if it was closed."""
        return self._closed

    # ---- what lives as long as the session

    def resource(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the object kept under a key; the first call makes it."""
        resource = self._resources.get(key)
        if resource is None:
            with self._lock:
                resource = self._resources.get(key)
                if resource is None:
                    resource = self._resources[key] = make()
        return resource

    def note_started(self, queue: Any) -> None:
        """Note that a runner fills a queue: a wait for it isn't stalled."""
        self._started.add(queue)

    def _say_stalled(self, name: str) -> None:
        missing = _missing_start(self, name)
        if missing and name not in self._warned:
            self._warned.add(name)
            warn(missing, 4)

    # ---- running

    def run(
        self, fetches: Any, feed_dict: Any = None, options: RunOptions | None = None, run_metadata: Any = None
    ) -> Any:
        """Execute the operations that the fetches need, and return the values of the fetches.

        Parameters
        ----------
        fetches : Tensor, Operation, str, or lists, tuples and dicts of them
        feed_dict : dict, optional
            Values of tensors in this run, instead of computed ones.
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
            The errors of the operations.
        """
        del run_metadata
        feeds = self._feeds(feed_dict) if feed_dict else {}
        key = (_key(fetches), frozenset(feeds))
        entry = self._plans.get(key)
        if entry is None:
            if not self._graph.get_operations():
                raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
            flat: list[Any] = []
            structure = _structured(fetches, self._graph, flat)
            entry = self._plans[key] = (planned(flat, list(feeds)), structure)
        plan, structure = entry
        values = self._execute(plan, feeds, options)
        return structure([_shown(values[slot]) if slot >= 0 else None for slot in plan.fetched])

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """Return a function that runs the fetches; it takes the values of the tensors in `feed_list`."""
        tensors = [self._graph.as_graph_element(element, allow_operation=False) for element in feed_list or ()]
        flat: list[Any] = []
        structure = _structured(fetches, self._graph, flat)
        plan = planned(flat, tensors)

        def call(*arguments: Any, options: RunOptions | None = None, run_metadata: Any = None) -> Any:
            del run_metadata
            if len(arguments) != len(tensors):
                raise ValueError(f"{len(tensors)} values are to be fed, and {len(arguments)} were given")
            feeds = {tensor: _fed(tensor, value) for tensor, value in zip(tensors, arguments, strict=True)}
            values = self._execute(plan, feeds, options)
            return structure([_shown(values[slot]) if slot >= 0 else None for slot in plan.fetched])

        del accept_options
        return call

    def _feeds(self, feed_dict: Mapping[Any, Any]) -> dict[Any, Any]:
        feeds: dict[Any, Any] = {}
        if not isinstance(feed_dict, Mapping):
            raise TypeError(f"'feed_dict' must be a dictionary, instead of {type(feed_dict).__name__!r}.")
        for key, value in feed_dict.items():
            for one, part in self._pairs(key, value):
                feeds[one] = found = _fed(one, part)
                self._check_is_read(one, found)
        return feeds

    def _pairs(self, key: Any, value: Any) -> list[tuple[Tensor, Any]]:
        if isinstance(key, tuple) and not hasattr(key, "_fetch"):
            return [pair for inner, part in zip(key, value, strict=True) for pair in self._pairs(inner, part)]
        if not hasattr(key, "_fetch"):
            return [(self._feedable(key), value)]
        # One that is of several tensors; known ones need no value.
        parts, given = _flat_parts(key), _flat_values(value)
        if len(given) < len(parts):
            parts = [tensor for tensor in parts if constant_value(tensor) is None]
        return [(self._feedable(tensor), part) for tensor, part in zip(parts, given, strict=True)]

    def _check_is_read(self, tensor: Tensor, value: Any) -> None:
        # Operations that were made with the value of a constant don't read it: another value would be ignored.
        known = tensor.op.attributes.get("value")
        if known is not None and not tensor.consumers() and not np.array_equal(known, value):
            raise InvalidArgumentError(
                f"{tensor.name!r} is a constant that no operation reads in a run, as its value was built into them: it "
                "can't be fed. Use tf.placeholder_with_default instead"
            )

    def _feedable(self, key: Any) -> Tensor:
        try:
            found = self._graph.as_graph_element(key, allow_operation=False)
        except (TypeError, KeyError, ValueError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0]}") from error
        assert isinstance(found, Tensor)
        return found

    @np.errstate(all="ignore")  # as in TensorFlow: infinities and nan need no warning
    def _execute(self, plan: RunPlan, feeds: Mapping[Any, Any], options: RunOptions | None) -> list[Any]:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        timeout = (options.timeout_in_ms if options is not None else 0) or self._config.operation_timeout_in_ms
        run = SessionRun(self, time.monotonic() + timeout / 1000 if timeout else None)
        values: list[Any] = [None] * plan.slots
        for tensor, slot in plan.feeds:
            values[slot] = feeds[tensor]
        outer_look = watch(run.look)
        try:
            if plan.concurrent:
                run_beside(plan, run, values)
            else:
                for step in plan.steps:
                    do(step, run, values)
        except QueueCoreError as error:
            if self._closed and not isinstance(error, CancelledError):
                raise CancelledError("the session was closed while the run was under way") from error
            raise
        finally:
            watch(outer_look)
        return values

    # ---- its end

    def close(self) -> None:
        """End it. Waits end with `CancelledError`, and the session drops the objects that it owns."""
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
        if self._contexts:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a "
                "session multiple times."
            )
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
    """A session that is the default one of this thread until it is closed.

    Parameters
    ----------
    target, graph, config
        As for `Session`.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        super().__init__(target, graph, config)
        register_session_ops(self)

    def close(self) -> None:
        """End it; it is no longer the default session."""
        stack = stack_of("sessions")
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
    )  # users must not change the array of a constant or of a variable


def _fed(tensor: Any, value: Any) -> Any:
    if isinstance(value, (Tensor, Operation)):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, "
            f"lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was {value!r} which was passed "
            f"to the feed with key {tensor!r}."
        )
    if isinstance(value, (np.ndarray, np.generic)) and tensor.dtype.kind != "S" and value.dtype.kind not in "SUO":
        feed = np.asarray(value)
        # A dataset or a variable that keeps a fixed array need not copy it again.
        feed = own(feed, fixed=True) if feed.dtype == tensor.dtype else feed.astype(tensor.dtype)
    else:
        try:
            feed = as_value(value, tensor.dtype)
        except TypeError as error:
            raise ValueError(f"{error} (fed to {tensor.name!r})") from None
        except ValueError as error:
            if not isinstance(value, (int, np.integer)):
                raise
            raise TypeError(
                f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type "
                f"{tensor.dtype.as_numpy_dtype}. Try explicitly setting the type of the feed tensor to a larger type "
                "(e.g. int64)."
            ) from error
    if not tensor.shape.is_compatible_with(np.shape(feed)):
        raise ValueError(
            f"Cannot feed value of shape {np.shape(feed)} for Tensor {tensor.name!r}, which has shape '{tensor.shape}'"
        )
    return feed


def _flat_parts(made: Any) -> list[Any]:
    # The tensors of one that is made of several.
    if not hasattr(made, "_fetch"):
        return [made]
    return [one for part in made._fetch()[0] for one in _flat_parts(part)]


def _flat_values(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [one for part in value for one in _flat_values(part)]
    return [value]


def _key(fetches: Any) -> Any:
    if hasattr(type(fetches), "__attrs_attrs__"):
        return (type(fetches), *(_key(getattr(fetches, one.name)) for one in type(fetches).__attrs_attrs__))
    if isinstance(fetches, (list, tuple)):
        return (type(fetches), *map(_key, fetches))
    if isinstance(fetches, Mapping):
        return (type(fetches), *((name, _key(one)) for name, one in fetches.items()))
    return fetches


def _structured(fetches: Any, graph: Graph, flat: list[Any]) -> Callable[[list[Any]], Any]:
    # A function that puts the values of `flat` into the structure of the fetches.
    if fetches is None:
        raise TypeError("Fetch argument None has invalid type <class 'NoneType'>")
    if isinstance(fetches, (list, tuple)):
        parts = [_structured(fetch, graph, flat) for fetch in fetches]
        if isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
            kind = type(fetches)
            return lambda values: kind(*[part(values) for part in parts])
        make: Any = list if isinstance(fetches, list) else tuple
        return lambda values: make([part(values) for part in parts])
    if isinstance(fetches, Mapping):
        named = {name: _structured(fetch, graph, flat) for name, fetch in fetches.items()}
        like: Any = type(fetches) if isinstance(fetches, OrderedDict) else dict
        if isinstance(fetches, defaultdict):
            like = functools.partial(defaultdict, fetches.default_factory)
        return lambda values: like([(name, part(values)) for name, part in named.items()])
    if (fields := getattr(type(fetches), "__attrs_attrs__", None)) is not None:
        rows = [_structured(getattr(fetches, attribute.name), graph, flat) for attribute in fields]
        return lambda values: type(fetches)(*[part(values) for part in rows])
    if hasattr(fetches, "_fetch"):  # one that is of several tensors
        components, build = fetches._fetch()
        several = [_structured(component, graph, flat) for component in components]
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


def _missing_start(session: Session, name: str) -> str | None:
    """Return a warning for a wait for a queue, if a runner that fills the queue was never started in the session.

    Return `None` if no runner fills the queue: other code does.
    """
    runners = session.graph.get_collection(GraphKeys.QUEUE_RUNNERS)
    left = [one for one in runners if one.queue not in session._started]
    if not left or all(one.queue.of(session).name != name for one in runners):
        return None
    shown = dict.fromkeys(one.queue.name for one in left)
    return (
        f"a run has been waiting for the queue {name!r} for 5 s, and the queue runners of "
        f"{', '.join(map(repr, shown))} were never started in this session: call "
        "tf.train.start_queue_runners(sess=sess, coord=coord) before the first run that needs them. It goes on waiting"
    )
