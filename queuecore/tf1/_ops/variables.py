"""Variables: values that a session keeps from one run to the next."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from queuecore.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from queuecore.tf1._graph.graph import (
    GraphKeys,
    Operation,
    Tensor,
    apply_op,
    convert_to_tensor,
    get_default_graph,
    session_of,
)
from queuecore.tf1._graph.operators import Operators
from queuecore.tf1._graph.values import TensorShape, as_dtype, as_shape, name_of, string
from queuecore.tf1._ops.initializers import random_uniform_initializer, zeros_initializer

__all__ = [
    "AUTO_REUSE",
    "Variable",
    "VariableScope",
    "all_variables",
    "assert_variables_initialized",
    "assign",
    "assign_add",
    "assign_sub",
    "cell_of",
    "count_up_to",
    "get_local_variable",
    "get_variable",
    "get_variable_scope",
    "global_variables",
    "global_variables_initializer",
    "group",
    "initialize_all_tables",
    "initialize_all_variables",
    "initialize_local_variables",
    "initialize_variables",
    "is_variable_initialized",
    "local_variables",
    "local_variables_initializer",
    "model_variables",
    "moving_average_variables",
    "no_op",
    "read",
    "report_uninitialized_variables",
    "tables_initializer",
    "trainable_variables",
    "variable_scope",
    "variables_initializer",
]


class _Cell:
    # A variable's value in one session.
    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.lock = threading.Lock()


class Variable(Operators):
    """A value that runs read and assign; each session has its own.

    Parameters
    ----------
    initial_value : Tensor, or what can be one, or callable without arguments
        The value that its initializer assigns.
    trainable : bool, default True
        Whether it is in the collection of trainable variables; nothing here trains.
    collections : list of str, optional
        The collections that hold it. Default: ``[GraphKeys.GLOBAL_VARIABLES]``.
    validate_shape : bool, default True
        Whether all its values have the first one's shape.
    caching_device, variable_def, import_scope, constraint, use_resource
        Accepted, and not used.
    name : str, optional
    dtype : dtype, optional
        The dtype of its values. Default: the initial value's.
    expected_shape, shape : optional
        The static shape of its values.

    Notes
    -----
    Assignments are atomic. Inside `control_dependencies` each use makes a new read, after those operations; elsewhere a
    run reads it once, at no particular time.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        collections: Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        shape: Any = None,
        *,
        _ready: bool = False,
    ) -> None:
        del caching_device, variable_def, import_scope, constraint, use_resource
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        self.graph = get_default_graph()
        with self.graph.control_dependencies(None), self.graph.name_scope(name or "Variable") as scope:
            given = initial_value() if callable(initial_value) else initial_value
            self._initial_value = convert_to_tensor(given, dtype, name="initial_value")
            self._shape = self._initial_value.shape if validate_shape else TensorShape(None)
            for one in (expected_shape, shape):
                if one is not None:
                    self._shape = self._shape.merge_with(one)
            self.dtype = self._initial_value.dtype
            self._ready = _ready
            # Its own operation has the name of the scope.
            op = self.graph.create_op("VariableV2", [], [(self.dtype, self._shape)], self._read, scope)
            self._handle = op.outputs[0]
            self._snapshot = self._reading("read")
            self.initializer: Operation = self._assigning("Assign", self._initial_value, lambda _, new: new).op
        for key in [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections:
            self.graph.add_to_collection(key, self)
        if trainable:
            self.graph.add_to_collection(GraphKeys.TRAINABLE_VARIABLES, self)

    # ---- kernels

    def _cell(self, run: Any) -> _Cell:
        cell: _Cell = run.session.resource(self, _Cell)
        if cell.value is None and self._ready:
            with cell.lock:
                if cell.value is None:
                    cell.value = self._initial_value.op.attributes["value"]
        return cell

    def _read(self, run: Any) -> Any:
        value = self._cell(run).value
        if value is None:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {self._handle.op.name}: run its initializer first "
                "(tf.global_variables_initializer(), tf.local_variables_initializer())"
            )
        return value

    def _reading(self, name: str) -> Tensor:
        return apply_op("Identity", [], self.dtype, self._shape, self._read, name, pure=False)

    def _assigning(self, type_: str, value: Any, compute: Callable[[Any, Any], Any], name: str | None = None) -> Tensor:
        operand = convert_to_tensor(value, self.dtype)
        self._shape.equal_to(operand.shape)

        def kernel(run: Any, new: Any) -> Any:
            cell = self._cell(run)
            if not self._shape.is_compatible_with(np.shape(new)):
                raise InvalidArgumentError(
                    f"Assign requires shapes of both tensors to match. lhs shape= {self._shape} "
                    f"rhs shape= {np.shape(new)}"
                )
            with cell.lock:
                old = self._read(run) if type_ != "Assign" else None
                made = compute(old, new)
                if isinstance(made, np.ndarray) and made.flags.writeable:
                    made = made.copy() if made is new else made  # it may be what was fed
                    made.flags.writeable = False
                cell.value = made
            return made

        return apply_op(type_, [operand], self.dtype, self._shape, kernel, name or type_, pure=False)

    # ---- its tensors

    def _as_graph_element(self) -> Tensor:
        return self._reading("read") if self.graph.is_controlled and not self.graph.finalized else self._snapshot

    def value(self) -> Tensor:
        """Return the tensor of its value."""
        return self._as_graph_element()

    def read_value(self) -> Tensor:
        """Return a new read of its value, after the present control dependencies."""
        return self._reading("read")

    def initialized_value(self) -> Tensor:
        """Return its value, or what it would be initialised with."""

        def kernel(run: Any, initial: Any) -> Any:
            value = self._cell(run).value
            return initial if value is None else value

        return apply_op("Cond", [self._initial_value], self.dtype, self._shape, kernel, "initialized_value", pure=False)

    @property
    def initial_value(self) -> Tensor:
        """The tensor that its initializer assigns."""
        return self._initial_value

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """Return a tensor that assigns a value, and has that value."""
        del use_locking, read_value
        return self._assigning("Assign", value, lambda _, new: new, name)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor:
        """Return a tensor that adds to its value, and has the sum as its value."""
        del use_locking, read_value
        return self._assigning("AssignAdd", delta, lambda old, new: np.asarray(old + new, self.dtype)[()], name)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor:
        """Return a tensor that subtracts from its value, and has the difference as its value."""
        del use_locking, read_value
        return self._assigning("AssignSub", delta, lambda old, new: np.asarray(old - new, self.dtype)[()], name)

    def count_up_to(self, limit: Any) -> Tensor:
        """Return a tensor that has its value, and adds 1; at the limit a run raises `OutOfRangeError`."""
        return count_up_to(self, limit)

    def load(self, value: Any, session: Any = None) -> None:
        """Give it a value in a session, at once."""
        session_of(self.graph, session).run(self.initializer, {self._initial_value: value})

    def eval(self, session: Any = None) -> Any:
        """Return its value in a session, the default one unless another is given."""
        return self._snapshot.eval(session=session)

    @property
    def name(self) -> str:
        """Its name, as that of a tensor."""
        return self._handle.name

    @property
    def op(self) -> Operation:
        """Its operation."""
        return self._handle.op

    @property
    def shape(self) -> TensorShape:
        """The shape of its values."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape of its values."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Add facts about its shape."""
        self._shape = self._shape.merge_with(shape)

    def __repr__(self) -> str:
        """Return name, shape and type."""
        return f"<tf.Variable {self.name!r} shape={self._shape} dtype={name_of(self.dtype)}_ref>"

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of its value."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.value(), name)


def _variable(ref: Any) -> Variable:
    if not isinstance(ref, Variable):
        raise TypeError(f"{ref!r} is no variable")
    return ref


def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: Any = None, name: Any = None
) -> Tensor:
    """As `Variable.assign`."""
    del validate_shape, use_locking
    return _variable(ref).assign(value, name=name)


def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """As `Variable.assign_add`."""
    del use_locking
    return _variable(ref).assign_add(value, name=name)


def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """As `Variable.assign_sub`."""
    del use_locking
    return _variable(ref).assign_sub(value, name=name)


def count_up_to(ref: Any, limit: Any, name: str | None = None) -> Tensor:
    """Return a tensor that has the value of a variable of integers, and adds 1 to the variable.

    Parameters
    ----------
    ref : Variable
        A scalar of int32 or int64.
    limit : int
        At this value a run raises `OutOfRangeError`, and the variable stays.
    name : str, optional
    """
    counter, maximum = _variable(ref), int(limit)
    if counter.dtype.name not in ("int32", "int64"):
        raise TypeError(
            f"Value passed to parameter 'ref' has DataType {counter.dtype.name} not in list of allowed values: int32, "
            "int64"
        )
    counter.shape.ranked(0)

    def kernel(run: Any) -> Any:
        cell = counter._cell(run)
        with cell.lock:
            value = counter._read(run)
            if value >= maximum:
                raise OutOfRangeError(f"Reached limit of {maximum}")
            cell.value = counter.dtype.type(value + 1)
        return value

    return apply_op("CountUpTo", [], counter.dtype, (), kernel, name, pure=False)


# Operations without a value


def no_op(name: str | None = None) -> Operation:
    """Return an operation that does nothing: for what must run before it."""
    return get_default_graph().create_op("NoOp", [], [], lambda _: None, name or "NoOp")


def group(*inputs: Any, name: str | None = None) -> Operation:
    """Return an operation that runs others."""
    flat: list[Any] = []
    for one in inputs:
        flat += one if isinstance(one, (list, tuple)) else [one]
    graph = get_default_graph()
    with graph.control_dependencies([one.op if isinstance(one, Variable) else one for one in flat]):
        return no_op(name or "group_deps")


def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """Return an operation that initialises variables.

    If the initial value of a variable reads another variable, let it read that variable's `initialized_value`.
    """
    return group(*[one.initializer for one in var_list], name=name)


def global_variables() -> list[Variable]:
    """Return the default graph's variables that `global_variables_initializer` initialises."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)


def local_variables() -> list[Variable]:
    """Return the default graph's variables that `local_variables_initializer` initialises."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES)


def trainable_variables() -> list[Variable]:
    """Return the default graph's variables that are marked as trainable."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES)


def global_variables_initializer() -> Operation:
    """Return an operation that initialises all global variables made up to now."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """Return an operation that initialises all local variables made up to now: epoch counters begin anew."""
    return variables_initializer(local_variables(), name="init_local")


def model_variables() -> list[Variable]:
    """Return the default graph's variables that are marked as a model's."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES)


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Return an operation that initialises all tables made up to now."""
    found = get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*found, name=name) if found else no_op(name)


def report_uninitialized_variables(
    var_list: Sequence[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Return the names of variables that have no value yet: of all global and local ones, unless a list is given."""
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)

    def kernel(run: Any) -> Any:
        missing = [one.op.name.encode() for one in variables if one._cell(run).value is None]
        made = np.empty(len(missing), object)
        made[:] = missing
        return made

    return apply_op("ReportUninitializedVariables", [], string, [None], kernel, name, pure=False)


def assert_variables_initialized(var_list: Sequence[Variable] | None = None) -> Operation | None:
    """Return an operation that raises `FailedPreconditionError` if a variable has no value; `None`: there are none."""
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)

    def kernel(run: Any) -> None:
        for one in variables:
            one._read(run)

    return (
        get_default_graph().create_op("AssertInitialized", [], [], kernel, "assert_initialized") if variables else None
    )


initialize_all_tables = tables_initializer
initialize_variables = variables_initializer
all_variables = global_variables
initialize_all_variables = global_variables_initializer
initialize_local_variables = local_variables_initializer


def is_variable_initialized(variable: Variable, name: str | None = None) -> Tensor:
    """Return a tensor that says whether a variable has a value."""
    return apply_op("IsVariableInitialized", [], bool, (), lambda run: np.bool_(variable._cell(run).value is not None),
                    name or "IsVariableInitialized", pure=False)  # fmt: skip


# Variables by name


class VariableScope:
    """The settings of variables that `get_variable` makes inside of a `variable_scope`.

    Attributes
    ----------
    name : str
    reuse : bool, AUTO_REUSE or None
        `True`: they must be there; `False` or `None`: they must not; `AUTO_REUSE`: either.
    initializer : optional
        The initializer of variables that have none of their own.
    """

    def __init__(self, name: str, reuse: bool | None, initializer: Any) -> None:
        self.name = name
        self.reuse = reuse
        self.initializer = initializer

    @property
    def original_name_scope(self) -> str:
        """Its name, with a slash behind it."""
        return f"{self.name}/" if self.name else ""

    def reuse_variables(self) -> None:
        """Let variables be those that are there, from now on."""
        self.reuse = True


AUTO_REUSE = "auto"


def get_variable_scope() -> VariableScope:
    """Return the innermost `variable_scope` of the default graph."""
    graph = get_default_graph()
    if graph.variable_scope is None:
        graph.variable_scope = VariableScope("", None, None)
    scope: VariableScope = graph.variable_scope
    return scope


@contextlib.contextmanager
def variable_scope(
    name_or_scope: Any, default_name: str | None = None, values: Any = None, initializer: Any = None, reuse: Any = None,
    dtype: Any = None,
) -> Iterator[VariableScope]:  # fmt: skip
    """Put a name before those of variables and operations that are made meanwhile.

    Parameters
    ----------
    name_or_scope : str, VariableScope or None
    default_name : str, optional
        Used, with a number if it is taken, where there is no name.
    values, dtype
        Taken, and not used.
    initializer : optional
        The initializer of variables that have none of their own.
    reuse : bool, optional
        Whether variables of `get_variable` must be there already.
    """
    del values, dtype
    graph = get_default_graph()
    outer = get_variable_scope()
    if isinstance(name_or_scope, VariableScope):
        full = name_or_scope.name
        given = name_or_scope.initializer if initializer is None else initializer
        scope = VariableScope(full, reuse or name_or_scope.reuse, given)
        context = graph.name_scope(scope.original_name_scope)
    else:
        name = name_or_scope
        if name is None:
            if default_name is None:
                raise TypeError("If default_name is None then name_or_scope is required")
            name = default_name
            number = 1
            while any(full.startswith(f"{outer.original_name_scope}{name}/") for full in graph.variable_store):
                name = f"{default_name}_{number}"
                number += 1
        full = f"{outer.original_name_scope}{name}"
        scope = VariableScope(full, reuse or outer.reuse, outer.initializer if initializer is None else initializer)
        context = graph.name_scope(name)
    graph.variable_scope = scope
    try:
        with context:
            yield scope
    finally:
        graph.variable_scope = outer


def get_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: bool = True, collections: Any = None, **unused: Any,
) -> Variable:  # fmt: skip
    """Return the variable of a name in the present `variable_scope`, made if it isn't there yet.

    Parameters
    ----------
    name : str
    shape : optional
        Needed, unless `initializer` is a value.
    dtype : dtype, optional
        Default: the initial value's, or float32.
    initializer : callable or value, optional
        ``initializer(shape, dtype)``. Default: the scope's, or small uniform random numbers.
    regularizer, **unused
        Taken, and not used.
    trainable, collections
        As of `Variable`.

    Raises
    ------
    ValueError
        If it is there and must not be, or isn't and must be; or if it has another shape or type.
    """
    del regularizer, unused
    graph = get_default_graph()
    scope = get_variable_scope()
    full = f"{scope.original_name_scope}{name}"
    variable: Variable | None = graph.variable_store.get(full)
    if variable is not None:
        if not scope.reuse:
            raise ValueError(
                f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
        if shape is not None and not variable.shape.is_compatible_with(shape):
            raise ValueError(
                f"Trying to share variable {full}, but specified shape {as_shape(shape)} and found shape "
                f"{variable.shape}."
            )
        if dtype is not None and variable.dtype != as_dtype(dtype):
            raise ValueError(
                f"Trying to share variable {full}, but specified another dtype than {variable.dtype.name}."
            )
        return variable
    if scope.reuse is True:
        raise ValueError(
            f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
    target = as_dtype(dtype or "float32")
    initializer = scope.initializer if initializer is None else initializer
    if initializer is not None and not callable(initializer) and shape is not None:
        raise ValueError("If initializer is a constant, do not specify shape.")
    if initializer is None:
        initializer = random_uniform_initializer(-0.05, 0.05) if target.kind == "f" else zeros_initializer()
    if isinstance(initializer, type):
        initializer = initializer()
    if callable(initializer):
        if shape is None or not as_shape(shape).is_fully_defined():
            raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was {shape}.")
        make = initializer
        made: Any = lambda: make(shape, target)  # noqa: E731
    else:
        made = initializer
    with graph.name_scope(None):
        variable = Variable(made, trainable=trainable, collections=collections, name=full,
                            dtype=target if callable(initializer) or dtype is not None else None)  # fmt: skip
    graph.variable_store[full] = variable
    return variable


def get_local_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: bool = False, collections: Any = None, **unused: Any,
) -> Variable:  # fmt: skip
    """As `get_variable`, of a variable that `local_variables_initializer` initialises, and that isn't trained."""
    del trainable
    held = [*(collections or []), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, regularizer, False, held, **unused)


def moving_average_variables() -> list[Variable]:
    """Return the default graph's variables that are marked as having moving averages."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES)


def cell_of(variable: Variable, run: Any) -> _Cell:
    """Return where a variable's value lies in a run's session, with its lock."""
    return variable._cell(run)


def read(variable: Variable, run: Any) -> Any:
    """Return a variable's value in a run's session, or raise `FailedPreconditionError`: it has none."""
    return variable._read(run)
