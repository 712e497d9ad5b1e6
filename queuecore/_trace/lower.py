"""Lowering: the nodes of a trace as native steps."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from queuecore._core.steps.expressions import MOST_REGISTERS, MOST_STEPS, ExprStep, GraphStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component
from queuecore._ops.chain import NUMBERS, code_of
from queuecore._trace.graph import LONGEST_PERIOD, TraceGraph, TraceNode, UnknownValue, Value, reachable

__all__ = ["lowered"]

# The dtypes that a chain may begin with, by number: integers that are exact in float32 or rounded once, and float32.
_FLOAT = NUMBERS["f4"]
_CHAINED = {NUMBERS[code] for code in ("i1", "u1", "i2", "u2", "i4")}
# The kinds of links (kernels/chains.hpp), with the constant in the first place and in the second.
_LINKS = {np.add: (0, 0), np.subtract: (2, 1), np.multiply: (3, 3), np.true_divide: (5, 4)}


def lowered(
    graph: TraceGraph, components: Sequence[Component], values: Sequence[Value], names: Sequence[str | None]
) -> Step:
    """Return the step that makes these values.

    Raises
    ------
    ValueError
        If one step is too small for it, or one of NumPy's loops isn't available.
    """
    nodes = _joined(reachable(graph, values), values)
    celled = set(map(id, values))  # values that must lie in memory as a whole
    for node in nodes:
        if node.kind in ("stage", "reshape") or node.kind == "view" and node.given[0].node.kind != "input":
            celled.update(map(id, node.values()))
    members = _groups(nodes, celled)
    constants: list[tuple[bytes, tuple[int, ...] | None]] = []
    registers = {id(value): number for number, value in enumerate(graph.inputs)}
    for node in nodes:
        if node.kind == "constant":
            registers[id(node.made[0])] = len(components) + len(constants)
            content = node.what
            constants.append((content, None) if isinstance(content, bytes) else (content.tobytes(), content.shape))
    places = _places(values)
    count = len(components) + len(constants)
    steps: list[tuple[Step, list[int], list[int]]] = []
    for node in nodes:
        step: Step
        if node.kind in ("stage", "reshape"):
            step = node.what[1] if node.kind == "stage" else node.what
            inputs = node.values()
        elif node.number in members:
            step, inputs = _Expression(members[node.number]).step()
        elif node.kind == "view" and id(node.made[0]) in celled:
            step, inputs = _Expression([node]).step()
        else:
            continue
        reads = [registers[id(value)] for value in inputs]
        steps.append((step, reads, [places.get(id(value), -1) for value in node.made]))
        for value in node.made:
            registers[id(value)] = count
            count += 1
    if len(steps) > MOST_STEPS:
        raise ValueError(f"it would take {len(steps)} steps, and {MOST_STEPS} are possible")
    outputs = tuple(value.component(name) for value, name in zip(values, names, strict=True))
    return GraphStep(tuple(components), outputs, constants, steps, [registers[id(value)] for value in values])


def _joined(nodes: list[TraceNode], values: Sequence[Value]) -> list[TraceNode]:
    """Return the nodes, with a stage and the only one that uses its result as one where one step can do both."""
    uses = collections.Counter(id(value) for node in nodes for value in node.values())
    uses.update(map(id, values))
    makers: dict[int, TraceNode] = {}  # of the values that one stage makes for one user
    nodes_by_number: dict[int, TraceNode] = {}
    for node in nodes:
        if node.kind == "stage":
            before = makers.get(id(node.given[0])) if len(node.given) == 1 else None
            both = None if before is None else before.what[0].joined(node.what[0])
            if before is not None and both is not None:
                del nodes_by_number[before.number]
                node = node.instead(before.given, (both, both.bind([value.component() for value in before.values()])))
            if len(node.made) == 1 and uses[id(node.made[0])] == 1:
                makers[id(node.made[0])] = node
        nodes_by_number[node.number] = node
    return list(nodes_by_number.values())


def _groups(nodes: list[TraceNode], celled: set[int]) -> dict[int, list[TraceNode]]:
    """Return the casts and calls of each expression, by the number of its last node."""
    roots: dict[int, TraceNode] = {}
    users: dict[int, list[TraceNode]] = {}
    weights: dict[int, int] = {}
    for node in reversed(nodes):
        if node.kind in ("cast", "call"):
            root = node
            after = {roots[user.number].number: roots[user.number] for user in users.get(node.number, ())}
            if id(node.made[0]) not in celled and len(after) == 1:
                one = next(iter(after.values()))
                # A node may need a register for its result, and for each input a constant, or the input and two casts.
                weight = 1 + 3 * len(node.given)
                if one.made[0].dims == node.made[0].dims and weights[one.number] + weight <= MOST_REGISTERS:
                    root = one
            weights[root.number] = weights.get(root.number, 0) + 1 + 3 * len(node.given)
            roots[node.number] = root
        for value in node.values():
            if value.node.kind in ("cast", "call") and node.kind in ("cast", "call"):
                users.setdefault(value.node.number, []).append(node)
    members: dict[int, list[TraceNode]] = {}
    for node in nodes:
        if node.number in roots:
            members.setdefault(roots[node.number].number, []).append(node)
    return members


def _places(values: Sequence[Value]) -> dict[int, int]:
    """Return the values that may be made at the place of one of the graph's outputs."""
    places: dict[int, int] = {}
    for index, value in enumerate(values):
        places.setdefault(id(value), index)
    for index, value in enumerate(values):
        # The input of a reshape may be made where the reshape's result belongs, if it is known to be as long.
        one = value
        while one.node.kind == "reshape" and places.get(id(one)) == index:
            one = one.node.given[0]
            if one.dims is None or not all(isinstance(side, int) for side in one.dims):
                break
            places.setdefault(id(one), index)
    return places


class _Expression:
    """Casts and calls over one shape, of which the last one makes the result; or a single view."""

    def __init__(self, nodes: list[TraceNode]) -> None:
        self._nodes = nodes
        self._root = nodes[-1].made[0]
        assert self._root.dims is not None
        self._dims = self._root.dims
        self._inputs: list[Value] = []
        self._leaves: list[tuple[Any, ...]] = []
        self._leaf_items: list[int] = []
        self._read: dict[int, int] = {}
        self._sources: dict[UnknownValue, tuple[int, int]] = {}
        # Temporaries are numbered from -2 downwards until the number of leaves is known.
        self._temporaries: list[int] = []
        self._program: list[list[Any]] = []

    def step(self) -> tuple[Step, list[Value]]:
        """Return the step and its inputs."""
        register_of: dict[int, int] = {}
        for node in self._nodes:
            result = node.made[0]
            if node.kind == "view":
                self._leaf(result)
                continue
            out = -1 if result is self._root else self._temporary(result.dtype)
            if node.kind == "cast":
                self._cast(
                    self._register(node.given[0], register_of), node.given[0].dtype, result.dtype, out, node.what
                )
            else:
                ufunc, loop = node.what
                registers = []
                for operand, dtype in zip(node.given, loop[:-1], strict=True):
                    if not isinstance(operand, Value):
                        registers.append(self._constant(operand))
                        continue
                    register = self._register(operand, register_of)
                    if operand.dtype != dtype:
                        register = self._cast(register, operand.dtype, dtype, self._temporary(dtype))
                    registers.append(register)
                if ufunc is np.where:
                    self._program.append(["choose", loop[-1].itemsize, [*registers, out]])
                else:
                    self._program.append(["call", _loop(ufunc, loop), [*registers, out], ufunc, loop])
            register_of[id(result)] = out
        self._chain()
        places = self._placed()
        first = len(self._leaves)
        items = self._leaf_items + self._temporaries
        program = [self._final(instruction, first) for instruction in self._program]
        dims = [(side, -1, -1) if isinstance(side, int) else (-1, *self._sources[side]) for side in self._dims]
        components = tuple(value.component() for value in self._inputs)
        step = ExprStep(components, self._root.component(), self._leaves, items, [-1] * first + places, program, dims)
        kinds = ("view", "cast")
        step.label = ", ".join(node.kind if node.kind in kinds else node.what[0].__name__ for node in self._nodes)
        return step, self._inputs

    def _register(self, value: Value, register_of: dict[int, int]) -> int:
        return register_of[id(value)] if id(value) in register_of else self._leaf(value)

    def _temporary(self, dtype: np.dtype[Any]) -> int:
        self._temporaries.append(dtype.itemsize)
        return -1 - len(self._temporaries)

    def _cast(self, register: int, source: np.dtype[Any], dtype: np.dtype[Any], out: int, numpys: bool = True) -> int:
        codes = {code_of(source), code_of(dtype)}
        if "f2" in codes and not codes & {"f4", "f8"}:
            middle = np.dtype(np.float32)
            register, source = self._cast(register, source, middle, self._temporary(middle), numpys), middle
        # The processor's conversion quiets a signalling float16; NumPy's leaves its bits alone.
        self._program.append(["cast", NUMBERS[code_of(source)], NUMBERS[code_of(dtype)], register, out, numpys])
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
        pairs: list[tuple[int, int]] = [(-1, 0)] * (len(self._dims) - len(axes))
        for (axis, step), side in zip(axes, value.dims, strict=True):
            pairs.append((-1, 0) if isinstance(side, int) and side == 1 else (axis, step))
            if not isinstance(side, int):
                self._sources.setdefault(side, (number, axis))
        sides = [side if isinstance(side, int) else -1 for side in base.dims]
        self._add(
            value.dtype,
            (
                self._inputs.index(base),
                value.dtype.itemsize,
                [axis for axis, _ in pairs],
                [step for _, step in pairs],
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
        if shape == self._dims[len(self._dims) - len(shape) :] and 0 < array.size <= LONGEST_PERIOD:
            return self._add(array.dtype, (-1, item, array.size, array.tobytes()))
        outer = len(self._dims) - len(shape)
        axes = [-1] * outer + [-1 if side == 1 else axis for axis, side in enumerate(shape)]
        steps = [0 if axis < 0 else 1 for axis in axes]
        return self._add(array.dtype, (-1, item, axes, steps, [0] * len(shape), list(shape), array.tobytes()))

    def _add(self, dtype: np.dtype[Any], leaf: tuple[Any, ...]) -> int:
        self._leaves.append(leaf)
        self._leaf_items.append(dtype.itemsize)
        return len(self._leaves) - 1

    def _chain(self) -> None:
        """Make one instruction of float32 operations with constants that follow each other, and of a cast in front."""
        readers = collections.Counter(register for instruction in self._program for register in _given(instruction))
        program: dict[int, list[Any]] = {}  # by the register of the result
        for instruction in self._program:
            chain = self._as_chain(instruction)
            if chain is not None and chain[2] and readers[chain[3]] == 1 and chain[3] in program:
                before = self._as_chain(program[chain[3]])
                if before is not None:
                    del program[chain[3]]
                    instruction = ["chain", before[1], before[2] + chain[2], before[3], chain[4]]
            program[_result(instruction)] = instruction
        self._program = [(each[0] == "cast" and self._as_chain(each)) or each for each in program.values()]

    def _as_chain(self, instruction: list[Any]) -> list[Any] | None:
        """Return an instruction as a chain: the number of the dtype that it begins with, links, registers."""
        if instruction[0] == "chain":
            return instruction
        if instruction[0] == "cast":
            _, source, dtype, register, out, _ = instruction
            return ["chain", source, [], register, out] if source in _CHAINED and dtype == _FLOAT else None
        if instruction[0] != "call" or instruction[3] not in _LINKS or set(map(code_of, instruction[4])) != {"f4"}:
            return None
        *registers, out = instruction[2]
        for place, register in enumerate(registers):
            leaf = self._leaves[register] if register >= 0 else None
            if leaf is not None and leaf[0] == -1 and leaf[2] == 1:  # a lone constant
                (constant,) = np.frombuffer(leaf[3], np.float32).tolist()
                link = (_LINKS[instruction[3]][place], constant)
                return ["chain", _FLOAT, [link], registers[1 - place], out] if math.isfinite(constant) else None
        return None

    def _placed(self) -> list[int]:
        """Return the room of each temporary; a temporary that is no longer read leaves its room to others."""
        last: dict[int, int] = {}
        for index, instruction in enumerate(self._program):
            for register in _given(instruction):
                last[register] = index
        places = [0] * len(self._temporaries)
        free: list[int] = []
        count = 0
        for index, instruction in enumerate(self._program):
            out = _result(instruction)
            if out < -1:
                if not free:
                    free.append(count)
                    count += 1
                places[-2 - out] = free.pop()
            for register in {register for register in _given(instruction) if register < -1 and last[register] == index}:
                free.append(places[-2 - register])
        return places

    def _final(self, instruction: list[Any], first: int) -> tuple[Any, ...]:
        def number(register: int) -> int:
            return register if register >= -1 else first - 2 - register

        if instruction[0] == "cast":
            return (*instruction[:3], number(instruction[3]), number(instruction[4]), instruction[5])
        if instruction[0] == "chain":
            return (*instruction[:3], number(instruction[3]), number(instruction[4]))
        return (*instruction[:2], [number(register) for register in instruction[2]])


def _given(instruction: list[Any]) -> list[int]:
    return [instruction[3]] if instruction[0] in ("cast", "chain") else instruction[2][:-1]


def _result(instruction: list[Any]) -> int:
    register: int = instruction[4] if instruction[0] in ("cast", "chain") else instruction[2][-1]
    return register


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
