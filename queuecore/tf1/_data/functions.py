"""Functions over tensors that are given to datasets: their operations, as functions over values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore._checks.seeds import draw_pair
from queuecore._trace.symbol import Symbol, stop
from queuecore.errors import CancelledError
from queuecore.tf1._data.nests import joined, leaves, outputs_of, parts, shown, split, tensors_of
from queuecore.tf1._graph.graph import Graph, Operation, Tensor
from queuecore.tf1._graph.plans import RunPlan, do, planned
from queuecore.tf1._graph.session import Session

__all__ = ["Aside", "Function", "evaluated"]


class Aside:
    """A function's run for one element, as kernels see it; it belongs to no `Session.run`.

    It doesn't hold a reference to the session, because the session's iterators have threads that hold this object.
    """

    deadline = None

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)

    @property
    def session(self) -> Session:
        """The session of the iterator."""
        found = self._session()
        if found is None or found.is_closed:
            raise CancelledError("the operation was cancelled: the session was closed")
        return found

    def left(self) -> None:
        """Return `None`: there is no end to a wait."""
        return None


@np.errstate(all="ignore")  # as in a session: infinities and nan need no warning
def evaluated(plan: RunPlan, run: Any, feed_values: Sequence[Any], salt: int | None = None) -> list[Any]:
    """Run a plan; return the values of all its slots.

    With a `salt` it is traced: random operations draw by the element's number, and by the salt if they have no seed.
    """
    values: list[Any] = [None] * plan.slots
    for (_, slot), value in zip(plan.feeds, feed_values, strict=True):
        values[slot] = value
    for step in plan.steps:
        if salt is not None and (native := step.op.attributes.get("native")) is not None:
            given_salt = salt if step.op.attributes["drawn"] else 0
            values[step.output] = native(*[values[slot] for slot in step.inputs], salt=given_salt)
        else:
            do(step, run, values)
    return values


class Function:
    """A function over tensors, called once with symbolic ones, and the operations that the call made.

    Parameters
    ----------
    graph : Graph
        The graph in which it is called.
    function : callable
    specs : sequence of structures of Leaf
        The specifications of its arguments. The parts of a tuple are separate arguments if it is the only one.
    label : str
        The step that uses it, for messages.

    Attributes
    ----------
    result : object
        What it returned.
    spec : structure of Leaf
        The specification of the result.
    captured : list of Tensor
        The tensors of the graph around it that it reads.
    """

    def __init__(self, graph: Graph, function: Callable[..., Any], specs: Sequence[Any], label: str) -> None:
        self.specs = tuple(specs)
        self.name = getattr(function, "__qualname__", type(function).__qualname__)
        arguments: list[Tensor] = []

        def symbols(spec: Any) -> Any:
            ops = [graph.create_op("Arg", [], [one], _fed, "args") for one in outputs_of(spec)]
            arguments.extend(op.outputs[0] for op in ops)
            return shown(spec, [op.outputs[0] for op in ops])

        with graph.as_default(), graph.aside() as body:
            given = [symbols(spec) for spec in self.specs]
            if len(given) == 1 and type(given[0]) is tuple:
                given = list(given[0])
            result = function(*given)
            # A list that an operation returns is several tensors.
            self.result = tuple(result) if isinstance(result, list) else result
            self.spec, results = tensors_of(self.result, label)
        own_ops = {op: index for index, op in enumerate(body)}
        # Operations with effects run in the order of their creation, even if nothing reads them. A stand-in for an
        # argument, or for a value of a loop, is none; operations of branches and loops run within these.
        active = [
            op
            for op in body
            if not op.pure and op.type not in ("Arg", "Enter") and op.attributes.keys().isdisjoint(("dataset", "inner"))
        ]
        wanted = [*results, *active]
        self.captured = _outside(wanted, own_ops)
        plan = planned(wanted, [*arguments, *self.captured])
        self._plan = plan._replace(steps=sorted(plan.steps, key=lambda step: own_ops[step.op]))
        self._slots = plan.fetched[: len(results)]
        self._leaves = [leaf for spec in self.specs for leaf in leaves(spec)]
        forbids = next((op for op in active if "native" not in op.attributes), None)
        self.why = "" if forbids is None else f"{forbids.type} {forbids.name!r} needs Python"

    def bound(self, run: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Return it as a function that `queuecore.data` takes: from elements to one.

        Parameters
        ----------
        run : Run
            Of a session.
        inputs : sequence
            The values of what it captured.
        """
        aside = Aside(run.session)
        captures = tuple(inputs)
        salt = draw_pair()[0]

        def call(*arguments: Any) -> Any:
            if len(self.specs) == 1:
                arguments = (arguments,) if isinstance(self.specs[0], tuple) else arguments
            given = [part for spec, one in zip(self.specs, arguments, strict=True) for part in parts(spec, one)]
            traced = type(given[0]) is Symbol
            if self.why and traced:
                stop(given[0], self.why)
            given = [value for leaf, part in zip(self._leaves, given, strict=True) for value in split(leaf, part)]
            values = evaluated(self._plan, aside, [*given, *captures], salt if traced else None)
            return joined(self.spec, [values[slot] for slot in self._slots])

        # Datasets show this name, and files of a cache are recognised by it.
        call.__name__ = call.__qualname__ = self.name
        return call


def _fed(_: Any) -> Any:
    raise AssertionError("an argument of a function has no value outside of it")


def _outside(tensors: Sequence[Any], own_ops: dict[Operation, int]) -> list[Tensor]:
    # The tensors of other operations that these read, in a fixed order.
    captures: dict[Tensor, None] = {}
    visited_ops: set[Operation] = set()
    stack: list[Operation] = []

    def read(tensor: Tensor) -> None:
        if tensor.op in own_ops:
            stack.append(tensor.op)
        else:
            captures[tensor] = None

    for one in tensors:
        if isinstance(one, Tensor):
            read(one)
        else:
            stack.append(one)
    while stack:
        op = stack.pop()
        if op in visited_ops:
            continue
        visited_ops.add(op)
        for tensor in op.operands:
            read(tensor)
        for other in op.control_inputs:
            if other in own_ops:
                stack.append(other)
    return list(captures)
