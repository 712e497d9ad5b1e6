"""The graph of the operations of a traced function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore._checks.checks import MAX_DIMS
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component
from queuecore._ops.chain import Links, Reshape
from queuecore._ops.stage import Stage
from queuecore.errors import UnimplementedError

__all__ = ["Dims", "Side", "TraceGraph", "TraceNode", "UnknownValue", "Value", "computed", "shape_of"]

LONGEST_PERIOD = 1 << 14  # items of a constant that are written out beforehand


class UnknownValue:
    """The length of a dimension that only the data knows: two are the same length if they are the same object."""

    __slots__ = ()


Side = int | UnknownValue
Dims = tuple[Side, ...]


class Value:
    """One value that a node makes.

    Attributes
    ----------
    node : TraceNode
        The node that makes it.
    index : int
        Its place among the node's values.
    dtype : numpy.dtype
        As of a `Component`.
    dims : tuple of int or Unknown, or None
        The sides; `None`: not even their number is known.
    nbytes, ragged
        As of a `Component`.
    opaque : str
        The kind of value, if only operations of `queuecore.ops` accept it.
    truth : bool
        Whether the function has a bool of Python's in its place, for which some operators mean something else.
    """

    __slots__ = ("dims", "dtype", "index", "nbytes", "node", "opaque", "ragged", "truth")

    def __init__(self, node: TraceNode, dtype: np.dtype[Any], dims: Dims | None) -> None:
        self.node = node
        self.index = len(node.made)
        self.dtype = dtype
        self.dims = dims
        self.nbytes: int | None = None
        self.ragged = False
        self.opaque = "bytes" if dtype == BYTES else ""
        self.truth = False
        node.made.append(self)

    def component(self, name: str | None = None) -> Component:
        """Return the component that describes it."""
        shape = None if self.dims is None else tuple(side if isinstance(side, int) else None for side in self.dims)
        return Component(self.dtype, shape, self.nbytes, name, self.ragged)


class TraceNode:
    """One operation of a graph.

    Attributes
    ----------
    kind : str
        "input", "constant", "stage", "reshape", "view", "cast" or "call".
    given : list
        The operands: values; for a call also arrays.
    what : object
        Of an input its number; of a constant the bytes or the array; of a stage, the stage and its step; of a
        reshape, its step; of a view, axes and starts; of a cast, whether it is NumPy's own; of a call, function and
        dtypes.
    made : list of Value
        The results.
    called : tuple or None
        If it is the last of several that a function of NumPy's became: what the user called, and its operands.
    """

    __slots__ = ("called", "given", "kind", "made", "number", "what")

    def __init__(self, number: int, kind: str, given: Sequence[Any], what: Any) -> None:
        self.number = number
        self.kind = kind
        self.given = list(given)
        self.what = what
        self.made: list[Value] = []
        self.called: tuple[str, list[Any]] | None = None

    def values(self) -> list[Value]:
        """Return the values among the operands."""
        return [one for one in self.given if isinstance(one, Value)]

    def instead(self, given: Sequence[Any], what: Any) -> TraceNode:
        """Return a node that makes the same values of other operands."""
        node = TraceNode(self.number, self.kind, given, what)
        node.made = self.made
        return node


class TraceGraph:
    """The nodes, in the order in which they were made, which is also an order in which they can run."""

    def __init__(self) -> None:
        self.nodes: list[TraceNode] = []
        self.inputs: list[Value] = []

    def _node(self, kind: str, given: Sequence[Any], what: Any = None) -> TraceNode:
        node = TraceNode(len(self.nodes), kind, given, what)
        self.nodes.append(node)
        return node

    def input(self, number: int, component: Component, outer: Dims) -> Value:
        """Return a component of the element, with the dimensions `outer` in front."""
        dims: Dims | None = None
        if component.shape is not None:
            dims = (*outer, *(UnknownValue() if side is None else side for side in component.shape))
        value = Value(self._node("input", (), number), component.dtype, dims)
        value.nbytes = component.nbytes
        value.ragged = component.ragged and not outer
        self.inputs.append(value)
        return value

    def constant(self, content: bytes | np.ndarray) -> Value:
        """Return a constant."""
        node = self._node("constant", (), content)
        if isinstance(content, bytes):
            value = Value(node, BYTES, ())
            value.nbytes = len(content)
            return value
        return Value(node, content.dtype, content.shape)

    def stage(self, stage: Stage, step: Step, values: Sequence[Value]) -> list[Value]:
        """Return the values that a bound stage makes of values."""
        node = self._node("stage", values, (stage, step))
        for component in step.outputs:
            dims = None
            if component.shape is not None:
                dims = tuple(UnknownValue() if side is None else side for side in component.shape)
            result = Value(node, component.dtype, dims)
            result.nbytes = component.nbytes
            result.ragged = component.ragged
        return node.made

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Return a value in another shape, with -1 once at most."""
        step = Links(Reshape(shape)).bind((value.component(),))
        output = step.outputs[0]
        assert output.shape is not None
        dims = tuple(UnknownValue() if side is None else side for side in output.shape)
        return Value(self._node("reshape", (value,), step), value.dtype, dims)

    def cast(self, value: Value, dtype: np.dtype[Any], numpys: bool) -> Value:
        """Return a value in another dtype: converted as by NumPy, or as by `queuecore.ops.cast`."""
        if dtype == value.dtype:
            return value
        result = Value(self._node("cast", (value,), numpys), dtype, value.dims)
        result.ragged = value.ragged
        return result

    def view(self, value: Value, axes: Sequence[tuple[int, int]], starts: Sequence[int], dims: Dims) -> Value:
        """Return a part of a value.

        Parameters
        ----------
        axes : sequence of tuple
            For each dimension, the value's dimension and the step; (-1, 0) for a new one.
        starts : sequence of int
            The first index, for each dimension of the value.
        dims : tuple
            The length of each dimension.
        """
        assert value.dims is not None
        if dims == value.dims and not any(starts) and list(axes) == [(axis, 1) for axis in range(len(dims))]:
            return value
        ragged = value.ragged and bool(axes) and axes[0] == (0, 1)
        if value.node.kind == "view":
            outer_axes, outer_starts = value.node.what
            begin = list(outer_starts)
            for start, (axis, step) in zip(starts, outer_axes, strict=True):
                if axis >= 0:
                    begin[axis] += start * step
            axes = [
                (-1, 0) if axis < 0 or outer_axes[axis][0] < 0 else (outer_axes[axis][0], outer_axes[axis][1] * step)
                for axis, step in axes
            ]
            value, starts = value.node.given[0], begin
        node = self._node("view", (value,), (list(axes), list(starts)))
        result = Value(node, value.dtype, dims)
        result.ragged = ragged
        return result

    def call(self, ufunc: Any, loop: Sequence[np.dtype[Any]], operands: Sequence[Value | np.ndarray]) -> Value:
        """Return the result of an element-wise function, or of numpy.where; arrays have the dtypes of the loop.

        Raises
        ------
        ValueError
            If their shapes don't go together, or the result may have no such shape.
        """
        dims = _broadcast([operand.dims if isinstance(operand, Value) else operand.shape for operand in operands])
        result = Value(self._node("call", operands, (ufunc, tuple(loop))), loop[-1], dims)
        first = dims[0] if dims else None
        result.ragged = any(
            operand.ragged and operand.dims is not None and len(operand.dims) == len(dims) and operand.dims[0] is first
            for operand in result.node.values()
        )
        return result

    def text(self, values: Sequence[Value], show: Callable[[list[str]], str], as_called: bool = False) -> str:
        """Return the operations in words that are the same in every process, or, `as_called`, in the user's words."""
        nodes = reachable(self, values)
        uses = [0] * len(self.nodes)
        for node in nodes:
            for value in node.values():
                uses[value.node.number] += 1
        for value in values:
            uses[value.node.number] += 1
        words: dict[int, str] = {}
        lines: list[str] = []

        def word(operand: Value | np.ndarray) -> str:
            if not isinstance(operand, Value):
                return _constant_text(operand)
            index = f"[{operand.index}]" if len(operand.node.made) > 1 else ""
            return words[operand.node.number] + index

        for node in nodes:
            operands = ", ".join(map(word, node.given))
            if (
                as_called
                and node.called is not None
                and all(not isinstance(operand, Value) or operand.node.number in words for operand in node.called[1])
            ):
                text = node.called[0].format(", ".join(map(word, node.called[1])))
            elif node.kind == "input":
                text = f"x{node.what}"
            elif node.kind == "constant":
                text = _constant_text(node.what)
            elif node.kind == "stage":
                text = f"{node.what[0]!r}({operands})"
            elif node.kind == "reshape":
                text = f"reshape({operands}, {list(node.made[0].component().shape or ())})"
            elif node.kind == "view":
                text = f"{operands}[{_view_text(node)}]"
            elif node.kind == "cast":
                text = f"{'astype' if node.what else 'cast'}({operands}, {node.made[0].dtype})"
            else:
                text = f"{node.what[0].__name__}({operands})"
            if uses[node.number] > 1 and node.kind not in ("input", "constant"):
                words[node.number] = f"v{len(lines)}"
                lines.append(f"v{len(lines)} = {text}")
            else:
                words[node.number] = text
        return "; ".join((*lines, show([word(value) for value in values])))


def _constant_text(value: bytes | np.ndarray) -> str:
    if isinstance(value, bytes):
        return repr(value) if len(value) <= 32 else f"bytes#{hashlib.sha256(value).hexdigest()[:16]}"
    if not value.ndim:
        return f"{value.dtype}({value.item()!r})"
    return f"{value.dtype}{list(value.shape)}#{hashlib.sha256(value.tobytes()).hexdigest()[:16]}"


def _view_text(node: TraceNode) -> str:
    axes, starts = node.what
    parts = [
        "new" if axis < 0 else f"{axis} from {starts[axis]} by {step} to {side if isinstance(side, int) else '?'}"
        for (axis, step), side in zip(axes, node.made[0].dims or (), strict=True)
    ]
    kept = {axis for axis, _ in axes}
    parts += [f"{axis} at {start}" for axis, start in enumerate(starts) if axis not in kept]
    return ", ".join(parts)


def shape_of(component: Component) -> tuple[int | None, ...]:
    """Return its shape, as far as it is known."""
    return component.shape or ()


def _broadcast(shapes: Sequence[Dims | None]) -> Dims:
    sides: list[Side] = []
    known = [dims for dims in shapes if dims is not None]
    for place in range(1, max(map(len, known), default=0) + 1):
        side: Side = 1
        for dims in known:
            if len(dims) < place or dims[-place] == 1 or dims[-place] == side:
                continue
            if side != 1:
                words = [str(dim) if isinstance(dim, int) else "?" for dim in (side, dims[-place])]
                raise ValueError(f"dimensions of {words[0]} and {words[1]} are combined, which may not be the same")
            side = dims[-place]
        sides.insert(0, side)
    if len(sides) > MAX_DIMS:
        raise ValueError(f"{len(sides)} dimensions")
    return tuple(sides)


def reachable(graph: TraceGraph, values: Sequence[Value]) -> list[TraceNode]:
    seen = {value.node.number for value in values}
    for node in reversed(graph.nodes):
        if node.number in seen:
            seen.update(value.node.number for value in node.values())
    return [node for node in graph.nodes if node.number in seen]


def computed(graph: TraceGraph, values: Sequence[Value], tensors: Sequence[Any]) -> list[Any]:
    """Compute values on a device, from the tensors of `queuecore._device.kernels` for all inputs.

    Raises
    ------
    UnimplementedError
        If no kernel does it.
    """
    tensor_of = {id(value): tensors[value.node.what] for value in graph.inputs}
    for node in reachable(graph, values):
        operands = [tensor_of[id(operand)] if isinstance(operand, Value) else operand for operand in node.given]
        if node.kind == "input":
            continue
        if node.kind == "constant":
            if isinstance(node.what, bytes):
                raise UnimplementedError("a constant string of bytes")
            results = [tensors[0].constant(node.what)]
        elif node.kind == "stage":
            results = node.what[0].on_device(operands)
        elif node.kind == "reshape":
            sides = node.made[0].dims or ()
            results = [operands[0].reshape([side if isinstance(side, int) else -1 for side in sides])]
        elif node.kind == "view":
            sides = node.made[0].dims or ()
            shape = [side if isinstance(side, int) else None for side in sides]
            results = [operands[0].view(*node.what, shape)]
        elif node.kind == "cast":
            results = [operands[0].cast(node.made[0].dtype)]
        else:
            function, loop = node.what
            first = next(operand for operand in operands if not isinstance(operand, np.ndarray))
            results = [first.call(function.__name__, loop, operands)]
        for value, tensor in zip(node.made, results, strict=True):
            tensor_of[id(value)] = tensor
    return [tensor_of[id(value)] for value in values]


# -- steps -------------------------------------------------------------------------------------------------------------
