"""Lowering: an enqueue operation whose way from a reader is made of native stages, as a native program.

The kernels of the operations between the reader's value and the queue are called once more, with symbols in the place
of arrays, as `Dataset.map` calls its function; so an operation that can be native there can be native here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from queuecore._trace.trace import Traced, trace
from queuecore.errors import QueueCoreError
from queuecore.programs import StageProgram
from queuecore.tf1._graph.graph import Operation, Tensor

__all__ = ["Lowered", "lowered"]


class Lowered(NamedTuple):
    """An enqueue operation as a native program.

    Attributes
    ----------
    reader, work : object
        Of the graph.
    stages : list of Stage
        Between the reader's value and the queue; without any, the key is an element's first component.
    """

    reader: Any
    work: Any
    stages: list[Any]

    def program(self, session: Any) -> StageProgram:
        """Return the program that runs in a session, with what that session owns."""
        return StageProgram(self.reader.of(session), self.work.of(session), *self.stages)


def lowered(op: Any) -> Lowered | str:
    """Return an enqueue operation as a native program, or the reason why not: the operation that forbids it."""
    if isinstance(op, Tensor):
        op = op.op
    if not isinstance(op, Operation):
        return f"{op!r} is no operation"
    if "lowered" not in op.attributes:
        op.attributes["lowered"] = _lowered(op)
    found: Lowered | str = op.attributes["lowered"]
    return found


def _lowered(op: Operation) -> Lowered | str:
    queue = op.attributes.get("enqueue")
    if queue is None:
        return f"{_shown(op)} puts nothing into a queue, or into one of several"
    order: list[Operation] = []
    reason = _way(op, order, set())
    if reason:
        return reason
    reads = [step for step in order if "reader" in step.attributes]
    if len(reads) != 1:
        return f"{_shown(op)} needs {len(reads)} reads, and a program has one reader"
    read_op = reads[0]
    if read_op.attributes["many"] != op.attributes["many"]:
        return f"{_shown(read_op)} and {_shown(op)}: one is of single records, the other one of several"
    keys = read_op.outputs[0]
    if op.operands == [keys, read_op.outputs[1]]:
        return _checked(op, queue, Lowered(read_op.attributes["reader"], read_op.attributes["work"], []))
    if any(tensor is keys for step in order for tensor in step.operands):
        return f"the key of {_shown(read_op)} is used"
    steps = [step for step in order if step is not read_op and step is not op]

    def function(value: Any) -> tuple[Any, ...]:
        values: dict[tuple[Operation, int], Any] = {(read_op, 1): value}
        for step in steps:
            kernel = step.attributes.get("native", step.kernel)
            made = kernel(*[values[tensor.op, tensor.value_index] for tensor in step.inputs])
            for index in range(len(step.outputs)):
                values[step, index] = made if len(step.outputs) == 1 else made[index]
        return tuple([values[tensor.op, tensor.value_index] for tensor in op.operands])

    component = read_op.attributes["reader"].component()
    batch = (None,) if op.attributes["many"] else ()
    try:
        outcome = trace(function, [component], 0, batch=batch)
    except QueueCoreError as error:  # from an operation that refuses its fixed inputs
        return str(error)
    if not isinstance(outcome, Traced):
        return outcome.reason
    if batch and not getattr(outcome.stage, "rowwise", False):
        return f"what is between {_shown(read_op)} and the queue needs more than one record at a time"
    return _checked(op, queue, Lowered(read_op.attributes["reader"], read_op.attributes["work"], [outcome.stage]))


def _checked(op: Operation, queue: Any, program: Lowered) -> Lowered | str:
    try:
        made = queue.make(queue.name)
        StageProgram(program.reader.make(), [b""], *program.stages).check(made)
    except QueueCoreError as error:
        return f"{_shown(op)}: {error}"
    return program


def _way(op: Operation, order: list[Operation], visited_ops: set[Operation]) -> str:
    # All that it needs, in order, and why that can't be native.
    if op in visited_ops:
        return ""
    visited_ops.add(op)
    if op.control_inputs:
        return f"{_shown(op)} has control dependencies: {op.control_inputs[0].name!r}"
    if "enqueue" not in op.attributes and "reader" not in op.attributes and not (op.pure or "native" in op.attributes):
        return f"{_shown(op)} needs Python"
    if "reader" not in op.attributes:
        for one in op.operands:
            reason = _way(one.op, order, visited_ops)
            if reason:
                return reason
    order.append(op)
    return ""


def _shown(op: Operation) -> str:
    return f"{op.type} {op.name!r}"
