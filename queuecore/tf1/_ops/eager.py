"""`py_function`: Python functions whose tensors have values, since they are called while a session runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from queuecore.tf1._graph.graph import Graph, Operation, Tensor, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.plans import KernelStep, do
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, name_of
from queuecore.tf1._ops.control import python_op

__all__ = ["executing_eagerly", "py_function"]


class EagerTensor(Tensor):
    """A tensor with a value, in a function that `py_function` calls."""

    def numpy(self) -> Any:
        """Return its value: an array, a scalar of NumPy's, or bytes."""
        graph: Any = self.graph
        return graph.value_of(self)

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return TensorShape(np.shape(self.numpy()))

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return its value as an array."""
        value = self.numpy()
        kind = object if isinstance(value, bytes) else dtype
        return np.array(value, kind, copy=copy)

    def __bool__(self) -> bool:  # type: ignore[override]
        """Return the truth of its value."""
        return bool(self.numpy())

    def __int__(self) -> int:
        """Return its value."""
        return int(self.numpy())

    def __index__(self) -> int:
        """Return its value, an integer."""
        index: int = self.numpy().__index__()
        return index

    def __float__(self) -> float:
        """Return its value."""
        return float(self.numpy())

    def __len__(self) -> int:  # type: ignore[override]
        """Return the number of its rows."""
        return len(np.asarray(self))

    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over its rows."""
        return iter([self[index] for index in range(len(self))])

    def __repr__(self) -> str:
        """Return shape, type and value."""
        return f"<tf.Tensor: shape={self.shape}, dtype={name_of(self.dtype)}, numpy={self.numpy()!r}>"

    def __str__(self) -> str:
        """Return value, shape and type."""
        return f"tf.Tensor({self.numpy()}, shape={self.shape}, dtype={name_of(self.dtype)})"


class _Session:
    # A session, but with resources of one call's own: its operations are other ones in each call.
    def __init__(self, session: Any) -> None:
        self._session = session
        self._resources: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def resource(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the object kept under a key; the first call makes it."""
        if key not in self._resources:
            self._resources[key] = make()
        return self._resources[key]


class _Run:
    # A run of such a session.
    def __init__(self, run: Any) -> None:
        self._run = run
        self.session = _Session(run.session)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


class EagerGraph(Graph):
    """A graph whose operations run in the order in which they were made, as soon as somebody looks at a value.

    Parameters
    ----------
    run : SessionRun
        The run for which their kernels act.
    """

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._run = _Run(run)
        self._waiting: list[Operation] = []
        self._found: dict[Operation, list[Any]] = {}
        self._symbolic = 0  # in a function whose operations run later, or several times: its tensors have no values

    @contextlib.contextmanager
    def symbolic(self) -> Iterator[None]:
        """Add operations meanwhile that don't run by themselves."""
        self._symbolic += 1
        try:
            yield
        finally:
            self._symbolic -= 1

    @contextlib.contextmanager
    def aside(self) -> Iterator[list[Operation]]:
        """Add operations meanwhile that belong to a function; see `Graph.aside`."""
        with self.symbolic(), super().aside() as added:
            yield added

    def create_op(
        self,
        type_: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[DType, Any]],
        kernel: Callable[..., Any],
        name: str | None = None,
        *,
        pure: bool = False,
        blocking: bool = False,
    ) -> Operation:
        """Add an operation."""
        op = super().create_op(type_, inputs, outputs, kernel, name, pure=pure, blocking=blocking)
        if not self._symbolic:
            tensors: list[Tensor] = []
            tensors += [EagerTensor(op, one.value_index, one.dtype, one.get_shape()) for one in op.outputs]
            op.outputs = tensors
            self._waiting.append(op)
        return op

    def given(self, value: Any, dtype: DType) -> Tensor:
        """Return a tensor of a value."""
        op = self.create_op("EagerConst", [], [(dtype, np.shape(value))], lambda: value, pure=True)
        return op.outputs[0]

    def settle(self) -> None:
        """Run the operations that have not run yet."""
        while self._waiting:
            op = self._waiting.pop(0)
            values = [self._found[one.op][one.value_index] for one in op.operands]
            taken, count = len(values), len(op.outputs)
            slots = values + [None] * count
            do(KernelStep(op, op.kernel, tuple(range(taken)), taken, count, op.pure), self._run, slots)
            self._found[op] = slots[taken:]

    def value_of(self, tensor: Tensor) -> Any:
        """Return the value of a tensor."""
        self.settle()
        return self._found[tensor.op][tensor.value_index]


def py_function(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803
    name: str | None = None,
) -> Any:
    """Return the tensors that a Python function makes of others, in each run, with TensorFlow's operations.

    Parameters
    ----------
    func : callable
        Takes tensors that have values (``numpy()``, `bool`, `int`, iteration), and returns as many tensors, arrays or
        numbers as `Tout` says. Operations on these tensors run at once.
    inp : list of Tensor
    Tout : dtype, or list of dtypes
    name : str, optional

    Returns
    -------
    Tensor or list of Tensor
        A list if `Tout` is one. Nothing is known of shapes.

    Raises
    ------
    InvalidArgumentError, OutOfRangeError, ResourceExhaustedError, UnimplementedError, UnknownError
        As of `py_func`.

    Notes
    -----
    Runs under the GIL, as `py_func`. There are no gradients. Variables of the graph are no part of the function's own:
    give their values by `inp`.
    """
    several = isinstance(Tout, (list, tuple))
    dtypes = [as_dtype(dtype) for dtype in (Tout if several else [Tout])]

    def call(run: Any, *values: Any) -> Any:
        graph = EagerGraph(run)
        with graph.as_default():
            arguments = [graph.given(value, tensor.dtype) for value, tensor in zip(values, inputs, strict=True)]
            result = func(*arguments)
            graph.settle()
            parts = (
                [] if result is None else list(result) if isinstance(result, (list, tuple)) and several else [result]
            )
            if len(parts) != len(dtypes):
                return parts
            tensors: list[Any] = [convert_to_tensor(part, dtype) for part, dtype in zip(parts, dtypes, strict=True)]
            return [tensor.numpy() for tensor in tensors]

    inputs = [convert_to_tensor(one) for one in inp] if isinstance(inp, (list, tuple)) else inp
    return python_op(func, call, inputs, Tout, "EagerPyFunc", name or "EagerPyFunc")


def executing_eagerly() -> bool:
    """Return whether tensors have values: in a function that `py_function` calls, and nowhere else."""
    return isinstance(get_default_graph(), EagerGraph)
