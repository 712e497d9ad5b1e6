"""What a traced function does, as a graph, and the native steps that do the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore._core.expressions import MOST_REGISTERS, MOST_STEPS, ExprStep, GraphStep
from queuecore._core.stages import Step
from queuecore._ops_numbers import _NUMBERS, _Chain, _code, _Reshape
from queuecore._stages import BYTES, MAX_DIMS, Component, Stage
from queuecore.errors import UnimplementedError

__all__ = ["Dims", "Graph", "Node", "Side", "Unknown", "Value", "computed", "lowered", "shape_of"]

_LONGEST_PERIOD = 1 << 14  # items of a constant that are written out beforehand


class Unknown:
    """The length of a dimension that only the data knows: two are the same length if they are the same object."""

    __slots__ = ()


Side = int | Unknown
Dims = tuple[Side, ...]


class Value:
    """What one node makes.

    Attributes
    ----------
    node : Node
        Which one.
    index : int
        Which of the things that it makes.
    dtype : numpy.dtype
        As of a `Component`.
    dims : tuple of int or Unknown, or None
        `None`: not even their number is known.
    nbytes, ragged
        As of a `Component`.
    opaque : str
        What it is, if only operations of `queuecore.ops` can be done to it.
    """

    __slots__ = ("dims", "dtype", "index", "nbytes", "node", "opaque", "ragged")

    def __init__(self, node: Node, dtype: np.dtype[Any], dims: Dims | None) -> None:
        self.node = node
        self.index = len(node.made)
        self.dtype = dtype
        self.dims = dims
        self.nbytes: int | None = None
        self.ragged = False
        self.opaque = "bytes" if dtype == BYTES else ""
        node.made.append(self)

    def component(self, name: str | None = None) -> Component:
        """Return what is known of it."""
        shape = None if self.dims is None else tuple(side if isinstance(side, int) else None for side in self.dims)
        return Component(self.dtype, shape, self.nbytes, name, self.ragged)


class Node:
    """Something that is done.

    Attributes
    ----------
    kind : str
        "input", "constant", "stage", "reshape", "view", "cast" or "call".
    given : list
        What it is done to: values; of a call also arrays.
    what : object
        Of an input its number; of a constant the bytes or the array; of a stage, the stage and its step; of a
        reshape, its step; of a view, axes and starts; of a cast, whether it is NumPy's own; of a call, function and
        dtypes.
    made : list of Value
        What it makes.
    """

    __slots__ = ("given", "kind", "made", "number", "what")

    def __init__(self, number: int, kind: str, given: Sequence[Any], what: Any) -> None:
        self.number = number
        self.kind = kind
        self.given = list(given)
        self.what = what
        self.made: list[Value] = []

    def values(self) -> list[Value]:
        """Return the values among what it is done to."""
        return [one for one in self.given if isinstance(one, Value)]


class Graph:
    """The nodes, in the order in which they were made, and so in one in which they can be done."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []

    def _node(self, kind: str, given: Sequence[Any], what: Any = None) -> Node:
        node = Node(len(self.nodes), kind, given, what)
        self.nodes.append(node)
        return node

    def input(self, number: int, component: Component, outer: Dims) -> Value:
        """Return a component of the element, with these dimensions in front."""
        dims: Dims | None = None
        if component.shape is not None:
            dims = (*outer, *(Unknown() if side is None else side for side in component.shape))
        value = Value(self._node("input", (), number), component.dtype, dims)
        value.nbytes = component.nbytes
        value.ragged = component.ragged and not outer
        self.inputs.append(value)
        return value

    def constant(self, given: bytes | np.ndarray) -> Value:
        """Return a constant."""
        node = self._node("constant", (), given)
        if isinstance(given, bytes):
            value = Value(node, BYTES, ())
            value.nbytes = len(given)
            return value
        return Value(node, given.dtype, given.shape)

    def stage(self, stage: Stage, step: Step, value: Value) -> list[Value]:
        """Return what a stage, bound, makes of a value."""
        node = self._node("stage", (value,), (stage, step))
        for component in step.outputs:
            dims = None
            if component.shape is not None:
                dims = tuple(Unknown() if side is None else side for side in component.shape)
            made = Value(node, component.dtype, dims)
            made.nbytes = component.nbytes
            made.ragged = component.ragged
        return node.made

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Return it in another shape, with -1 once at most."""
        step = _Chain(_Reshape(shape)).bind((value.component(),))
        made = step.outputs[0]
        assert made.shape is not None
        dims = tuple(Unknown() if side is None else side for side in made.shape)
        return Value(self._node("reshape", (value,), step), value.dtype, dims)

    def cast(self, value: Value, dtype: np.dtype[Any], numpys: bool) -> Value:
        """Return it in another dtype, as NumPy does it, or as `queuecore.ops.cast`."""
        if dtype == value.dtype:
            return value
        made = Value(self._node("cast", (value,), numpys), dtype, value.dims)
        made.ragged = value.ragged
        return made

    def view(self, value: Value, axes: Sequence[tuple[int, int]], starts: Sequence[int], dims: Dims) -> Value:
        """Return a part of it.

        Parameters
        ----------
        axes : sequence of tuple
            For each dimension, which one of the value's it is, and with what step; (-1, 0) for a new one.
        starts : sequence of int
            Where it begins, for each dimension of the value.
        dims : tuple
            How long each dimension is.
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
        made = Value(node, value.dtype, dims)
        made.ragged = ragged
        return made

    def call(self, ufunc: Any, loop: Sequence[np.dtype[Any]], given: Sequence[Value | np.ndarray]) -> Value:
        """Return what an element-wise function, or numpy.where, makes; arrays have the dtypes of the loop.

        Raises
        ------
        ValueError
            If their shapes don't go together, or may not.
        """
        dims = _broadcast([one.dims if isinstance(one, Value) else one.shape for one in given])
        made = Value(self._node("call", given, (ufunc, tuple(loop))), loop[-1], dims)
        first = dims[0] if dims else None
        made.ragged = any(
            one.ragged and one.dims is not None and len(one.dims) == len(dims) and one.dims[0] is first
            for one in made.node.values()
        )
        return made

    def text(self, values: Sequence[Value], show: Callable[[list[str]], str]) -> str:
        """Return what is done, in words that are the same in every process."""
        nodes = _reachable(self, values)
        uses = [0] * len(self.nodes)
        for node in nodes:
            for value in node.values():
                uses[value.node.number] += 1
        for value in values:
            uses[value.node.number] += 1
        words: dict[int, str] = {}
        lines: list[str] = []

        def word(one: Value | np.ndarray) -> str:
            if not isinstance(one, Value):
                return _constant_text(one)
            index = f"[{one.index}]" if len(one.node.made) > 1 else ""
            return words[one.node.number] + index

        for node in nodes:
            given = ", ".join(map(word, node.given))
            if node.kind == "input":
                made = f"x{node.what}"
            elif node.kind == "constant":
                made = _constant_text(node.what)
            elif node.kind == "stage":
                made = f"{node.what[0]!r}({given})"
            elif node.kind == "reshape":
                made = f"reshape({given}, {list(node.made[0].component().shape or ())})"
            elif node.kind == "view":
                made = f"{given}[{_view_text(node)}]"
            elif node.kind == "cast":
                made = f"{'astype' if node.what else 'cast'}({given}, {node.made[0].dtype})"
            else:
                made = f"{node.what[0].__name__}({given})"
            if uses[node.number] > 1 and node.kind not in ("input", "constant"):
                words[node.number] = f"v{len(lines)}"
                lines.append(f"v{len(lines)} = {made}")
            else:
                words[node.number] = made
        return "; ".join((*lines, show([word(value) for value in values])))


def _constant_text(value: bytes | np.ndarray) -> str:
    if isinstance(value, bytes):
        return repr(value) if len(value) <= 32 else f"bytes#{hashlib.sha256(value).hexdigest()[:16]}"
    if not value.ndim:
        return f"{value.dtype}({value.item()!r})"
    return f"{value.dtype}{list(value.shape)}#{hashlib.sha256(value.tobytes()).hexdigest()[:16]}"


def _view_text(node: Node) -> str:
    axes, starts = node.what
    shown = [
        "new" if axis < 0 else f"{axis} from {starts[axis]} by {step} to {side if isinstance(side, int) else '?'}"
        for (axis, step), side in zip(axes, node.made[0].dims or (), strict=True)
    ]
    kept = {axis for axis, _ in axes}
    shown += [f"{axis} at {start}" for axis, start in enumerate(starts) if axis not in kept]
    return ", ".join(shown)


def shape_of(component: Component) -> tuple[int | None, ...]:
    """Return its shape, as far as it is known."""
    return component.shape or ()


def _broadcast(given: Sequence[Dims | None]) -> Dims:
    made: list[Side] = []
    known = [dims for dims in given if dims is not None]
    for place in range(1, max(map(len, known), default=0) + 1):
        side: Side = 1
        for dims in known:
            if len(dims) < place or dims[-place] == 1 or dims[-place] == side:
                continue
            if side != 1:
                words = [str(one) if isinstance(one, int) else "?" for one in (side, dims[-place])]
                raise ValueError(f"dimensions of {words[0]} and {words[1]} are combined, which may not be the same")
            side = dims[-place]
        made.insert(0, side)
    if len(made) > MAX_DIMS:
        raise ValueError(f"{len(made)} dimensions")
    return tuple(made)


def _reachable(graph: Graph, values: Sequence[Value]) -> list[Node]:
    seen = {value.node.number for value in values}
    for node in reversed(graph.nodes):
        if node.number in seen:
            seen.update(value.node.number for value in node.values())
    return [node for node in graph.nodes if node.number in seen]


def computed(graph: Graph, values: Sequence[Value], tensors: Sequence[Any]) -> list[Any]:
    """Return what computes these values on a device, from the tensors of `queuecore._kernels` for the graph's inputs.

    Raises
    ------
    UnimplementedError
        If no kernel does it.
    """
    made = {id(value): tensors[value.node.what] for value in graph.inputs}
    for node in _reachable(graph, values):
        given = [made[id(one)] if isinstance(one, Value) else one for one in node.given]
        if node.kind == "input":
            continue
        if node.kind == "constant":
            if isinstance(node.what, bytes):
                raise UnimplementedError("a constant string of bytes")
            results = [tensors[0].constant(node.what)]
        elif node.kind == "stage":
            results = node.what[0].on_device(given)
        elif node.kind == "reshape":
            sides = node.made[0].dims or ()
            results = [given[0].reshape([side if isinstance(side, int) else -1 for side in sides])]
        elif node.kind == "view":
            sides = node.made[0].dims or ()
            shape = [side if isinstance(side, int) else None for side in sides]
            results = [given[0].view(*node.what, shape)]
        elif node.kind == "cast":
            results = [given[0].cast(node.made[0].dtype)]
        else:
            function, loop = node.what
            first = next(one for one in given if not isinstance(one, np.ndarray))
            results = [first.call(function.__name__, loop, given)]
        for value, tensor in zip(node.made, results, strict=True):
            made[id(value)] = tensor
    return [made[id(value)] for value in values]


# -- steps -------------------------------------------------------------------------------------------------------------


def lowered(
    graph: Graph, components: Sequence[Component], values: Sequence[Value], names: Sequence[str | None]
) -> Step:
    """Return the step that makes these values.

    Raises
    ------
    ValueError
        If it takes more than one step can be, or a loop of NumPy's can't be had.
    """
    nodes = _reachable(graph, values)
    celled = set(map(id, values))  # what has to lie in memory as a whole
    for node in nodes:
        if node.kind in ("stage", "reshape") or node.kind == "view" and node.given[0].node.kind != "input":
            celled.update(map(id, node.values()))
    members = _groups(nodes, celled)
    constants: list[tuple[bytes, tuple[int, ...] | None]] = []
    registers = {id(value): number for number, value in enumerate(graph.inputs)}
    for node in nodes:
        if node.kind == "constant":
            registers[id(node.made[0])] = len(components) + len(constants)
            given = node.what
            constants.append((given, None) if isinstance(given, bytes) else (given.tobytes(), given.shape))
    places = _places(values)
    count = len(components) + len(constants)
    steps: list[tuple[Step, list[int], list[int]]] = []
    for node in nodes:
        step: Step
        if node.kind in ("stage", "reshape"):
            step = node.what[1] if node.kind == "stage" else node.what
            given = node.values()
        elif node.number in members:
            step, given = _Expression(members[node.number]).step()
        elif node.kind == "view" and id(node.made[0]) in celled:
            step, given = _Expression([node]).step()
        else:
            continue
        steps.append((step, [registers[id(one)] for one in given], [places.get(id(one), -1) for one in node.made]))
        for one in node.made:
            registers[id(one)] = count
            count += 1
    if len(steps) > MOST_STEPS:
        raise ValueError(f"it would take {len(steps)} steps, and {MOST_STEPS} are possible")
    outputs = tuple(value.component(name) for value, name in zip(values, names, strict=True))
    return GraphStep(tuple(components), outputs, constants, steps, [registers[id(value)] for value in values])


def _groups(nodes: list[Node], celled: set[int]) -> dict[int, list[Node]]:
    """Return the casts and calls that are one expression each, by the number of the last one."""
    roots: dict[int, Node] = {}
    users: dict[int, list[Node]] = {}
    weights: dict[int, int] = {}
    for node in reversed(nodes):
        if node.kind in ("cast", "call"):
            root = node
            after = {roots[user.number].number: roots[user.number] for user in users.get(node.number, ())}
            if id(node.made[0]) not in celled and len(after) == 1:
                one = next(iter(after.values()))
                # Each may need a register for what it makes, and for each input a constant, or the input and two casts.
                weight = 1 + 3 * len(node.given)
                if one.made[0].dims == node.made[0].dims and weights[one.number] + weight <= MOST_REGISTERS:
                    root = one
            weights[root.number] = weights.get(root.number, 0) + 1 + 3 * len(node.given)
            roots[node.number] = root
        for value in node.values():
            if value.node.kind in ("cast", "call") and node.kind in ("cast", "call"):
                users.setdefault(value.node.number, []).append(node)
    members: dict[int, list[Node]] = {}
    for node in nodes:
        if node.number in roots:
            members.setdefault(roots[node.number].number, []).append(node)
    return members


def _places(values: Sequence[Value]) -> dict[int, int]:
    """Return for which values the graph's outputs have a place."""
    places: dict[int, int] = {}
    for index, value in enumerate(values):
        places.setdefault(id(value), index)
    for index, value in enumerate(values):
        # What a reshape gets may be made where its own result belongs, if it is known to be as long.
        one = value
        while one.node.kind == "reshape" and places.get(id(one)) == index:
            one = one.node.given[0]
            if one.dims is None or not all(isinstance(side, int) for side in one.dims):
                break
            places.setdefault(id(one), index)
    return places


class _Expression:
    """Casts and calls over one shape, the last one of which makes the result; or a view by itself."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._root = nodes[-1].made[0]
        assert self._root.dims is not None
        self._dims = self._root.dims
        self._inputs: list[Value] = []
        self._leaves: list[tuple[Any, ...]] = []
        self._leaf_items: list[int] = []
        self._read: dict[int, int] = {}
        self._sources: dict[Unknown, tuple[int, int]] = {}
        # Temporaries are numbered from -2 downwards until the number of leaves is known.
        self._temporaries: list[int] = []
        self._program: list[list[Any]] = []

    def step(self) -> tuple[Step, list[Value]]:
        """Return the step, and what it gets."""
        made: dict[int, int] = {}
        for node in self._nodes:
            result = node.made[0]
            if node.kind == "view":
                self._leaf(result)
                continue
            out = -1 if result is self._root else self._temporary(result.dtype)
            if node.kind == "cast":
                self._cast(self._register(node.given[0], made), node.given[0].dtype, result.dtype, out, node.what)
            else:
                ufunc, loop = node.what
                registers = []
                for one, dtype in zip(node.given, loop[:-1], strict=True):
                    if not isinstance(one, Value):
                        registers.append(self._constant(one))
                        continue
                    register = self._register(one, made)
                    if one.dtype != dtype:
                        register = self._cast(register, one.dtype, dtype, self._temporary(dtype))
                    registers.append(register)
                if ufunc is np.where:
                    self._program.append(["choose", loop[-1].itemsize, [*registers, out]])
                else:
                    self._program.append(["call", _loop(ufunc, loop), [*registers, out]])
            made[id(result)] = out
        places = self._placed()
        first = len(self._leaves)
        items = self._leaf_items + self._temporaries
        program = [self._final(one, first) for one in self._program]
        dims = [(side, -1, -1) if isinstance(side, int) else (-1, *self._sources[side]) for side in self._dims]
        components = tuple(value.component() for value in self._inputs)
        step = ExprStep(components, self._root.component(), self._leaves, items, [-1] * first + places, program, dims)
        return step, self._inputs

    def _register(self, value: Value, made: dict[int, int]) -> int:
        return made[id(value)] if id(value) in made else self._leaf(value)

    def _temporary(self, dtype: np.dtype[Any]) -> int:
        self._temporaries.append(dtype.itemsize)
        return -1 - len(self._temporaries)

    def _cast(self, register: int, given: np.dtype[Any], dtype: np.dtype[Any], out: int, numpys: bool = True) -> int:
        codes = {_code(given), _code(dtype)}
        if "f2" in codes and not codes & {"f4", "f8"}:
            middle = np.dtype(np.float32)
            register, given = self._cast(register, given, middle, self._temporary(middle), numpys), middle
        # The processor's own conversion of a half that signals makes it quiet; NumPy's leaves its bits alone.
        self._program.append(["cast", _NUMBERS[_code(given)], _NUMBERS[_code(dtype)], register, out, numpys])
        return out

    def _leaf(self, value: Value) -> int:
        if id(value) in self._read:
            return self._read[id(value)]
        base = value
        assert value.dims is not None
        axes, starts = [(axis, 1) for axis in range(len(value.dims))], [0] * len(value.dims)
        if value.node.kind == "view":
            base = value.node.given[0]
            axes, starts = value.node.what
        assert base.dims is not None
        if base not in self._inputs:
            self._inputs.append(base)
        number = len(self._leaves)
        wanted: list[tuple[int, int]] = [(-1, 0)] * (len(self._dims) - len(axes))
        for (axis, step), side in zip(axes, value.dims, strict=True):
            wanted.append((-1, 0) if isinstance(side, int) and side == 1 else (axis, step))
            if not isinstance(side, int):
                self._sources.setdefault(side, (number, axis))
        sides = [side if isinstance(side, int) else -1 for side in base.dims]
        self._add(
            value.dtype,
            (
                self._inputs.index(base),
                value.dtype.itemsize,
                [axis for axis, _ in wanted],
                [step for _, step in wanted],
                list(starts),
                sides,
            ),
        )
        self._read[id(value)] = number
        return number

    def _constant(self, array: np.ndarray) -> int:
        item = array.dtype.itemsize
        shape = array.shape
        while shape and shape[0] == 1:
            shape = shape[1:]
        if array.size == 1:
            return self._add(array.dtype, (-1, item, 1, array.tobytes()))
        if shape == self._dims[len(self._dims) - len(shape) :] and 0 < array.size <= _LONGEST_PERIOD:
            return self._add(array.dtype, (-1, item, array.size, array.tobytes()))
        outer = len(self._dims) - len(shape)
        axes = [-1] * outer + [-1 if side == 1 else axis for axis, side in enumerate(shape)]
        steps = [0 if axis < 0 else 1 for axis in axes]
        return self._add(array.dtype, (-1, item, axes, steps, [0] * len(shape), list(shape), array.tobytes()))

    def _add(self, dtype: np.dtype[Any], leaf: tuple[Any, ...]) -> int:
        self._leaves.append(leaf)
        self._leaf_items.append(dtype.itemsize)
        return len(self._leaves) - 1

    def _placed(self) -> list[int]:
        """Return the room of each temporary: what nobody reads any more leaves its room to others."""
        last: dict[int, int] = {}
        for index, one in enumerate(self._program):
            for register in _given(one):
                last[register] = index
        places = [0] * len(self._temporaries)
        free: list[int] = []
        count = 0
        for index, one in enumerate(self._program):
            out = one[4] if one[0] == "cast" else one[2][-1]
            if out < -1:
                if not free:
                    free.append(count)
                    count += 1
                places[-2 - out] = free.pop()
            for register in {register for register in _given(one) if register < -1 and last[register] == index}:
                free.append(places[-2 - register])
        return places

    def _final(self, one: list[Any], first: int) -> tuple[Any, ...]:
        def number(register: int) -> int:
            return register if register >= -1 else first - 2 - register

        if one[0] == "cast":
            return (*one[:3], number(one[3]), number(one[4]), one[5])
        return (*one[:2], [number(register) for register in one[2]])


def _given(one: list[Any]) -> list[int]:
    return [one[3]] if one[0] == "cast" else one[2][:-1]


def _loop(ufunc: Any, loop: Sequence[np.dtype[Any]]) -> Any:
    """Return NumPy's own description of the loop that it runs for these dtypes."""
    try:
        found, info = ufunc._resolve_dtypes_and_context((*loop[:-1], None))
        ufunc._get_strided_loop(info)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"NumPy {np.__version__} doesn't tell its loops: {error}") from error
    if tuple(found) != tuple(loop):
        raise ValueError(f"numpy.{ufunc.__name__} has no loop for {', '.join(map(str, loop))}")
    return info
