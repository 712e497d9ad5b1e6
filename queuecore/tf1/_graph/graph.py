"""The deferred graph: operations that a program adds now and a session runs later."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from queuecore._checks.seeds import Pair, draw_pair, paired
from queuecore.tf1._graph.operators import Operators
from queuecore.tf1._graph.refused import refusing_members
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_shape, as_value, facts_of, name_of

__all__ = [
    "DrawnPair",
    "Graph",
    "GraphKeys",
    "Operation",
    "Tensor",
    "add_to_collection",
    "add_to_collections",
    "apply_op",
    "constant_value",
    "container",
    "control_dependencies",
    "convert_to_tensor",
    "default_session",
    "device",
    "folded_value",
    "get_collection",
    "get_collection_ref",
    "get_default_graph",
    "listed",
    "name_scope",
    "register_packing",
    "register_session_ops",
    "reset_default_graph",
    "row_shape",
    "seed_pair",
    "session_of",
    "set_random_seed",
    "stack_of",
    "tensor_in",
]

Kernel = Callable[..., Any]
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")


class GraphKeys:
    """Names of collections, as TensorFlow has them."""

    GLOBAL_VARIABLES = "variables"
    VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    GLOBAL_STEP_READ_KEY = "global_step_read_op_cache"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"


class Operation:
    """One node of a graph.

    Attributes
    ----------
    graph : Graph
    name, type : str
    operands : list of Tensor
        Those of its inputs that its kernel takes.
    control_inputs : list of Operation
        The operations that must have run before it.
    outputs : list of Tensor
    kernel : callable
        Of a pure operation ``kernel(*values)``, of all others ``kernel(run, *values)``. Returns the output, a tuple of
        several, or `None`.
    pure : bool
        Whether it depends on its inputs alone, and has no other effect.
    blocking : bool
        Whether it may wait for the effect of another operation.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        type_: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[DType, Any]],
        kernel: Kernel,
        pure: bool,
        blocking: bool,
        control_inputs: Sequence[Operation],
    ) -> None:
        self.graph = graph
        self.name = name
        self.type = type_
        self.operands = list(inputs)
        self.control_inputs = list(control_inputs)
        self.kernel = kernel
        self.pure = pure
        self.blocking = blocking
        self.outputs = [Tensor(self, index, dtype, as_shape(shape)) for index, (dtype, shape) in enumerate(outputs)]
        self.device = ""
        # Facts by which the lowering of a runner recognises it.
        self.attributes: dict[str, Any] = {}

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in a session, the default one unless another is given."""
        session_of(self.graph, session).run(self, feed_dict)

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that it reads; of an operation of a queue the queue's own first."""
        return [*self.attributes.get("handle", ()), *self.operands]

    def values(self) -> tuple[Tensor, ...]:
        """Return its outputs."""
        return tuple(self.outputs)

    __getattr__ = refusing_members(
        "tf.Operation", "experimental_set_type from_node_def get_attr node_def op_def traceback"
    )

    def colocation_groups(self) -> list[bytes]:
        """Return the names of the groups that are to be at one place: its own."""
        return [f"loc:@{self.name}".encode()]

    def __repr__(self) -> str:
        """Return name and type."""
        return f"<tf.Operation {self.name!r} type={self.type}>"


class Tensor(Operators):
    """An output of an operation: a value that a session computes.

    Attributes
    ----------
    op : Operation
    value_index : int
        Its place among the operation's outputs.
    dtype : DType
    shape : TensorShape
        The facts known before the graph runs.
    """

    __getattr__ = refusing_members("tf.Tensor", "experimental_ref ref")
    __array_priority__ = 100  # NumPy's arrays leave operators to it
    __array_ufunc__ = None

    def __init__(self, op: Operation, index: int, dtype: DType, shape: TensorShape) -> None:
        self.op = op
        self.value_index = index
        self.dtype = as_dtype(dtype)
        self._shape = shape

    @property
    def graph(self) -> Graph:
        """The graph that it is part of."""
        return self.op.graph

    @property
    def name(self) -> str:
        """The operation's name, a colon, and its place among the operation's outputs."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def device(self) -> str:
        """The device that was asked for."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape, as far as it is known."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Add facts about its shape. `ValueError` if they contradict the known ones."""
        self._shape = self._shape.merge_with(shape)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return its value in a session, the default one unless another is given."""
        return session_of(self.graph, session).run(self, feed_dict)

    def consumers(self) -> list[Operation]:
        """Return the operations that read it."""
        return [op for op in self.graph.get_operations() if any(one is self for one in op.inputs)]

    def __repr__(self) -> str:
        """Return name, shape and type."""
        return f"<tf.Tensor {self.name!r} shape={self._shape} dtype={name_of(self.dtype)}>"

    def __str__(self) -> str:
        """Return name, shape, if something is known of it, and type."""
        shape = "" if self._shape.sides is None else f", shape={self._shape}"
        return f'Tensor("{self.name}"{shape}, dtype={name_of(self.dtype)})'

    def __hash__(self) -> int:
        """Return a hash by identity: a tensor is equal only to itself."""
        return id(self)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same tensor: `tf.equal` compares values."""
        return self is other

    def __bool__(self) -> NoReturn:
        """Raise: it has no value before the graph runs."""
        raise TypeError(
            "Using a tf.Tensor as a Python bool is not allowed: it has no value before the graph runs. Run it in a "
            "session first, or compute with tf.equal, tf.less and so on"
        )

    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over its rows, whose number must be known."""
        if not self._shape.sides or self._shape.sides[0] is None:
            raise TypeError(
                "'Tensor' object is not iterable: the number of its rows is not known before the graph runs"
            )
        return iter([self[index] for index in range(self._shape.sides[0])])

    def __len__(self) -> NoReturn:
        """Raise: it has no value before the graph runs."""
        raise TypeError("len of a tf.Tensor is not known before the graph runs; use tf.size or its get_shape()")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise: it has no value before the graph runs."""
        raise NotImplementedError(f"{self.name} has no value before the graph runs: run it in a session")


class _Names(threading.local):
    # The scopes of names and variables of one thread.
    scope = ""
    variable_scope: Any = None


class _Scopes:
    # The dependencies and devices that operations get; the lists are replaced, never changed.
    __slots__ = ("control", "devices")

    def __init__(self, control: list[list[Operation]], devices: list[Any]) -> None:
        self.control = control
        self.devices = devices


class Graph:
    """Operations, their names, and collections of them.

    Notes
    -----
    Build it in one thread, or call `switch_to_thread_local` first; sessions may run it from many.
    """

    def __init__(self) -> None:
        self._ops: list[Operation] = []
        self._named: dict[str, Operation] = {}
        self._used: dict[str, int] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._names = _Names()
        self._shared = _Scopes([], [])
        self._own: threading.local | None = None
        self._finalized = False
        self.seed: int | None = None
        self.variable_store: dict[str, Any] = {}
        self._lock = threading.RLock()

    __getattr__ = refusing_members(
        "tf.Graph", "Dismantle as_graph_def gradient_override_map graph_def_versions op_def_for_type version"
    )

    # ---- what scopes have set

    @property
    def is_controlled(self) -> bool:
        """True if operations that are made now depend on others, by `control_dependencies`."""
        return bool(self._scopes.control)

    @property
    def _scopes(self) -> _Scopes:
        if self._own is None:
            return self._shared
        found: _Scopes | None = getattr(self._own, "scopes", None)
        if found is None:
            found = self._own.scopes = _Scopes(self._shared.control, self._shared.devices)
        return found

    @property
    def variable_scope(self) -> Any:
        """The innermost scope of variables of this thread; `None`: there was none."""
        return self._names.variable_scope

    @variable_scope.setter
    def variable_scope(self, scope: Any) -> None:
        self._names.variable_scope = scope

    def get_name_scope(self) -> str:
        """Return the name that stands before those of operations, without a slash at its end."""
        return self._names.scope

    # ---- operations

    def create_op(
        self,
        type_: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[DType, Any]],
        kernel: Kernel,
        name: str | None = None,
        *,
        pure: bool = False,
        blocking: bool = False,
    ) -> Operation:
        """Add an operation."""
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        for one in inputs:
            if one.op.graph is not self:
                raise ValueError(f"{one} must be from the same graph as the operation that reads it")
        with self._lock:
            scopes = self._scopes
            control = [op for each in scopes.control for op in each]
            op = Operation(
                self, self.unique_name(name or type_), type_, inputs, outputs, kernel, pure, blocking, control
            )
            for device in scopes.devices:
                place: Any = device(op) if callable(device) else device
                op.device = place or ""
            self._ops.append(op)
            self._named[op.name] = op
        return op

    def unique_name(self, name: str | bytes) -> str:
        """Return the name within the present scope, with a number if it is taken, and reserve it.

        A name that ends with a slash is that of a scope itself, and may be taken once by an operation.
        """
        if isinstance(name, bytes):
            name = name.decode()
        if name.endswith("/"):
            return name[:-1] if name[:-1] not in self._named else self._unique(name[:-1])
        if not _NAME.match(name):
            raise ValueError(f"'{name}' is not a valid scope name")
        scope = self._names.scope
        return self._unique(f"{scope}/{name}" if scope else name)

    def _unique(self, full: str) -> str:
        key = full.lower()
        count = self._used.get(key, 0)
        self._used[key] = count + 1
        if count == 0:
            return full
        while f"{key}_{count}" in self._used:
            count += 1
        self._used[f"{key}_{count}"] = 1
        return f"{full}_{count}"

    def get_operations(self) -> list[Operation]:
        """Return all operations, in the order in which they were added."""
        return list(self._ops)

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation of a name. `KeyError`: there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        found = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(found, Operation)
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor of a name like ``"x:0"``. `KeyError`: there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        found = self.as_graph_element(name, allow_operation=False)
        assert isinstance(found, Tensor)
        return found

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Tensor | Operation:
        """Return the tensor or operation that an object is, or that a name means.

        Raises
        ------
        KeyError
            If there is none of that name.
        TypeError, ValueError
            If it is neither, or belongs to another graph.
        """
        if not allow_tensor and not allow_operation:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        kinds = " or ".join(["Tensor"] * allow_tensor + ["Operation"] * allow_operation)
        if hasattr(obj, "_as_graph_element"):
            obj = obj._as_graph_element()
        if isinstance(obj, Tensor) and allow_tensor or isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(f"{type(obj).__name__} {obj!r} is not an element of this graph.")
            return obj
        if isinstance(obj, bytes):
            obj = obj.decode()
        if not isinstance(obj, str):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")
        return self._tensor_named(obj, kinds) if ":" in obj else self._operation_named(obj, kinds)

    def _tensor_named(self, full: str, wanted: str) -> Tensor:
        if "Tensor" not in wanted:
            raise ValueError(f"Name {full!r} appears to refer to a Tensor, not a {wanted}.")
        name, _, index = full.partition(":")
        if not index.isdigit():
            raise ValueError(
                f"The name {full!r} looks a like a Tensor name, but is not a valid one. Tensor names must be of the "
                'form "<op_name>:<output_index>".'
            )
        op = self._named.get(name)
        if op is None or int(index) >= len(op.outputs):
            there = f"exists but only has {len(op.outputs)} outputs." if op else "does not exist in the graph."
            raise KeyError(
                f"The name {full!r} refers to a Tensor which does not exist. The operation, {name!r}, {there}"
            )
        return op.outputs[int(index)]

    def _operation_named(self, name: str, wanted: str) -> Operation:
        op = self._named.get(name)
        if "Operation" not in wanted:
            told = "refers to an Operation" if op else "looks like an (invalid) Operation name"
            raise ValueError(
                f"The name {name!r} {told}, not a {wanted}. Tensor names must be of the form "
                '"<op_name>:<output_index>".'
            )
        if op is None:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return op

    # ---- scopes

    def as_default(self) -> contextlib.AbstractContextManager[Graph]:
        """Return a context in which it is the default graph of this thread."""
        return _pushed(stack_of("graphs"), self)

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put a name and a slash before the names of operations that this thread adds meanwhile."""
        names = self._names
        outer_scope = names.scope
        if not name:
            names.scope = ""
        elif name.endswith("/"):
            names.scope = name[:-1]
        else:
            with self._lock:
                names.scope = self.unique_name(name)
        try:
            yield f"{names.scope}/" if names.scope else ""
        finally:
            names.scope = outer_scope

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Let operations that are added meanwhile run after these; `None`: drop also the outer dependencies."""
        scopes = self._scopes
        outer_control = scopes.control
        if control_inputs is None:
            scopes.control = []
        else:
            given = [self.as_graph_element(one) for one in control_inputs]
            scopes.control = [*outer_control, [one.op if isinstance(one, Tensor) else one for one in given]]
        try:
            yield
        finally:
            self._scopes.control = outer_control  # not those of before, if meanwhile each thread got its own

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Record where operations should be. All of them run on the host, next to their queue.

        Parameters
        ----------
        device_name_or_function : str, callable or None
            A function is called with each operation that is added meanwhile, and returns the name. `None`: drop also
            the outer ones.
        """
        scopes = self._scopes
        before = scopes.devices
        scopes.devices = [] if device_name_or_function is None else [*before, device_name_or_function]
        try:
            yield
        finally:
            self._scopes.devices = before

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Accept that operations are to be where another one is: all of them run on the host."""
        del ignore_existing
        self.as_graph_element(op)
        yield

    @contextlib.contextmanager
    def aside(self) -> Iterator[list[Operation]]:
        """Remove operations that are added meanwhile from the graph again: they belong to a function.

        Yields
        ------
        list of Operation
            These operations, complete when the context ends. Their inputs may be in the graph.
        """
        body: list[Operation] = []
        with self._lock:
            count, old_names, old_uses = len(self._ops), dict(self._named), dict(self._used)
            scopes = self._scopes
            outside = scopes.control, scopes.devices
            scopes.control, scopes.devices = [], []
            try:
                yield body
            finally:
                body += self._ops[count:]
                del self._ops[count:]
                self._named, self._used = old_names, old_uses
                scopes.control, scopes.devices = outside

    @contextlib.contextmanager
    def symbolic(self) -> Iterator[None]:
        """Add operations meanwhile that are parts of another one, which runs them: `cond`, `while_loop`."""
        yield

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Accept a name of the container that keeps queues and variables: each session is one."""
        yield container_name

    def switch_to_thread_local(self) -> None:
        """Give each thread its own `control_dependencies` and `device`; each begins with the present ones.

        Before that they hold for operations that any thread adds. Scopes of names and variables are each thread's own
        in any case.
        """
        if self._own is None:
            self._own = threading.local()

    def finalize(self) -> None:
        """Forbid changes from now on."""
        self._finalized = True

    @property
    def finalized(self) -> bool:
        """True once it can't be changed any more."""
        return self._finalized

    # ---- collections

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Add a value to a collection, which is made if needed."""
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Add a value to several collections."""
        for name in (names,) if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Return the values of a collection; `scope`: only those whose name begins with it."""
        found = self._collections.get(name, [])
        if scope is None:
            return list(found)
        return [one for one in found if re.match(scope, getattr(one, "name", ""))]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Return a collection itself."""
        return self._collections.setdefault(name, [])

    def clear_collection(self, name: Any) -> None:
        """Remove everything from a collection."""
        self._collections.pop(name, None)

    def get_all_collection_keys(self) -> list[Any]:
        """Return the names of collections that hold something."""
        return [name for name, values in self._collections.items() if values]


# The default ones

_stacks = threading.local()
_global_graph = Graph()


def stack_of(kind: str) -> list[Any]:
    """Return this thread's stack of defaults of a kind, the innermost last."""
    found: list[Any] | None = getattr(_stacks, kind, None)
    if found is None:
        found = []
        setattr(_stacks, kind, found)
    return found


@contextlib.contextmanager
def _pushed(stack: list[Any], value: Any) -> Iterator[Any]:
    stack.append(value)
    try:
        yield value
    finally:
        # An earlier context of the same value stays, and one that is left too late says so.
        at = max((i for i, one in enumerate(stack) if one is value), default=None)
        if at is not None:
            innermost = at == len(stack) - 1
            del stack[at]
            if not innermost:
                raise AssertionError(
                    f"Nesting violated for default stack of {type(value)} objects: a context that was entered later is "
                    "still open"
                )


def get_default_graph() -> Graph:
    """Return the graph to which operations are added: that of the innermost `Graph.as_default`, or the process's."""
    stack = stack_of("graphs")
    return stack[-1] if stack else _global_graph


def reset_default_graph() -> None:
    """Begin with an empty default graph."""
    global _global_graph
    if stack_of("graphs"):
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _global_graph = Graph()


def default_session() -> Any:
    """Return the session of the innermost `Session.as_default`, or `None`."""
    stack = stack_of("sessions")
    return stack[-1] if stack else None


def push_session(session: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which it is the default one of this thread."""
    return _pushed(stack_of("sessions"), session)


def register_session_ops(session: Any) -> None:
    """Make a session the default one of this thread for good."""
    stack_of("sessions").append(session)


def session_of(graph: Graph, session: Any) -> Any:
    """Return a session of this graph: the one that is given, or the default one. `ValueError` if there is none."""
    if session is None:
        session = default_session()
        if session is None:
            raise ValueError(
                "Cannot use the default session: No default session is registered. Use `with sess.as_default():`, or "
                "give session=sess"
            )
    if session.graph is not graph:
        raise ValueError("The session's graph is not the one that this is part of: give session=sess of that graph.")
    return session


def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Any:
    """Put a name before the names of operations that are added meanwhile; see `Graph.name_scope`."""
    del values
    chosen = default_name if name is None else name
    return get_default_graph().name_scope(chosen)


def control_dependencies(control_inputs: Any) -> Any:
    """As `Graph.control_dependencies` of the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> Any:
    """As `Graph.device` of the default graph: everything runs on the host."""
    return get_default_graph().device(device_name_or_function)


def container(container_name: str) -> Any:
    """As `Graph.container` of the default graph."""
    return get_default_graph().container(container_name)


def add_to_collections(names: Any, value: Any) -> None:
    """As `Graph.add_to_collections` of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection_ref(key: Any) -> list[Any]:
    """As `Graph.get_collection_ref` of the default graph."""
    return get_default_graph().get_collection_ref(key)


def add_to_collection(name: Any, value: Any) -> None:
    """As `Graph.add_to_collection` of the default graph."""
    get_default_graph().add_to_collection(name, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """As `Graph.get_collection` of the default graph."""
    return get_default_graph().get_collection(key, scope)


def set_random_seed(seed: int | None) -> None:
    """Set the default graph's seed, which is paired with the seeds of operations made from now on."""
    get_default_graph().seed = seed


class DrawnPair(Pair):
    """A pair that no seed decides: its results may differ each time."""

    __slots__ = ()


def seed_pair(op_seed: int | None) -> Pair:
    """Return the pair of the graph's seed and an operation's, or its number; without any seed, drawn ones."""
    graph = get_default_graph()
    if op_seed is None:
        if graph.seed is None:
            return DrawnPair(draw_pair())
        op_seed = len(graph._ops)
    return paired(graph.seed, op_seed)


# Tensors

# The function that makes one tensor of several; its module imports this one, and so registers it.
_packing: list[Callable[..., Tensor]] = []


def register_packing(stack: Callable[..., Tensor]) -> None:
    """Say which function makes one tensor of a list of tensors."""
    _packing[:] = [stack]


def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, dtype_hint: Any = None
) -> Tensor:
    """Return the tensor that a value is, or a constant of it.

    Parameters
    ----------
    value : Tensor, or what can be one
    dtype : dtype, optional
        Default: a tensor's own; of other values TensorFlow's.
    name : str, optional
    preferred_dtype, dtype_hint : dtype, optional
        The type of a value that isn't a tensor, where the value can have it.

    Raises
    ------
    ValueError
        If it is a tensor of another type.
    TypeError
        If it can be no such tensor.
    """
    wished = preferred_dtype if dtype_hint is None else dtype_hint
    if dtype is None and wished is not None:
        with contextlib.suppress(TypeError, ValueError):
            return tensor_in(get_default_graph(), value, wished, name)
    return tensor_in(get_default_graph(), value, dtype, name)


def tensor_in(graph: Graph, value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """As `convert_to_tensor`, with constants in a graph that needn't be the default one."""
    if hasattr(value, "_as_graph_element"):
        value = value._as_graph_element()
    if isinstance(value, Tensor):
        if dtype is not None and value.dtype != as_dtype(dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {name_of(as_dtype(dtype))} for Tensor with dtype "
                f"{name_of(value.dtype)}: {value!r}"
            )
        return value
    if isinstance(value, Operation):
        raise TypeError(f"Can't convert Operation {value.name!r} to Tensor: it has no value")
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        with graph.as_default():
            # Numbers of Python's take the type of the tensors beside them.
            kind = _type_held(value) if dtype is None else dtype
            parts = [tensor_in(graph, one, dtype if _holds_tensor(one) else kind) for one in value]
            return _packing[0](parts, name=name or "packed")
    found = as_value(value, dtype)
    if isinstance(found, np.ndarray):  # neither the owner of the array nor a caller that fetches it can change it
        found = found.copy() if isinstance(value, np.ndarray) else found
        found.flags.writeable = False
    op = graph.create_op("Const", [], [facts_of(found)], lambda: found, name or "Const", pure=True)
    op.attributes["value"] = found
    return op.outputs[0]


def _type_held(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return next((kind for kind in map(_type_held, value) if kind is not None), None)
    return value.dtype if _holds_tensor(value) else None


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def listed(tensors: Any) -> list[Any]:
    """Return the items of a list, or the keys of a dict. `TypeError`: it is a tensor, a string, or no list."""
    lone = isinstance(tensors, (Tensor, str, bytes)) or hasattr(tensors, "_as_graph_element")
    if lone or not hasattr(tensors, "__iter__"):
        raise TypeError(f"a list or a dict of tensors is wanted, not {tensors!r}")
    return list(tensors)


def row_shape(tensor: Tensor) -> TensorShape:
    """Return the shape of a tensor's rows. `ValueError`: it is a scalar."""
    if tensor.shape.ndims == 0:
        raise ValueError(f"Shape {tensor.shape} must have rank at least 1: {tensor!r}")
    rows: TensorShape = tensor.shape[1:]
    return rows


def constant_value(tensor: Any) -> Any:
    """Return a tensor's value if it is known before the graph runs, else `None`."""
    if not isinstance(tensor, Tensor):
        return as_value(tensor)
    return tensor.op.attributes.get("value")


def folded_value(tensor: Any) -> Any:
    """Return a tensor's value if constants and pure operations alone make it, else `None`."""
    known = constant_value(tensor)
    if known is not None or not isinstance(tensor, Tensor) or not tensor.op.pure:
        return known
    given = [folded_value(one) for one in tensor.op.operands]
    if any(one is None for one in given):
        return None
    made = tensor.op.kernel(*given)
    return made[tensor.value_index] if len(tensor.op.outputs) > 1 else made


def apply_op(
    type_: str,
    inputs: Sequence[Tensor],
    dtype: Any,
    shape: Any,
    kernel: Kernel,
    name: str | None,
    *,
    pure: bool = True,
    blocking: bool = False,
) -> Tensor:
    """Add an operation of one output to the default graph, and return the output."""
    graph = inputs[0].graph if inputs else get_default_graph()
    op = graph.create_op(type_, inputs, [(as_dtype(dtype), shape)], kernel, name, pure=pure, blocking=blocking)
    return op.outputs[0]
