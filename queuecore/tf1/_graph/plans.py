"""Plans of runs: which operations run, in which order, and how they are run."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.atoms.runtime import slice_over, wait_over
from queuecore._core.handoff.queues import watch
from queuecore._runners.threads import Thread
from queuecore.errors import CancelledError, InvalidArgumentError, QueueCoreError, ResourceExhaustedError
from queuecore.tf1._graph.graph import Operation, Tensor

__all__ = ["KernelStep", "RunPlan", "do", "planned", "run_beside"]

_BROADCAST = re.compile(r"operands could not be broadcast together with shapes (\(.*?\)) (\(.*?\)) ?")  # NumPy's text
_GRACE_SECONDS = 1.0  # for a Python function when the run is over, because it can't be told


class KernelStep(NamedTuple):
    """One operation of a plan.

    Attributes
    ----------
    inputs : tuple of int
        The slots of its inputs' values.
    output, outputs : int
        The first slot of its own values, and how many it has.
    pure : bool
        Whether its kernel takes values alone, and not also the run.
    """

    op: Operation
    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    output: int
    outputs: int
    pure: bool


class RunPlan(NamedTuple):
    """The operations that a run needs, in a possible order.

    Attributes
    ----------
    slots : int
        How many values there are.
    feeds : list of tuple of Tensor and int
        The slots of the fed values.
    fetched : list of int
        The slots of the fetched values; -1: an operation, which has no value.
    concurrent : bool
        Whether operations that may wait don't need each other, so that they have to wait at the same time.
    """

    steps: list[KernelStep]
    slots: int
    feeds: list[tuple[Tensor, int]]
    fetched: list[int]
    concurrent: bool


def planned(fetches: Iterable[Any], fed: Sequence[Any]) -> RunPlan:
    """Return the plan of a run that fetches tensors and operations, and is fed the values of others."""
    slots: dict[tuple[Operation, int], int] = {}
    feeds: list[tuple[Tensor, int]] = []
    for tensor in fed:
        slots[tensor.op, tensor.value_index] = len(feeds)
        feeds.append((tensor, len(feeds)))
    fetches = list(fetches)
    fed_outputs = {(tensor.op, tensor.value_index) for tensor in fed}
    # A placeholder that is fed has happened, also for those that only come after it.
    fed_placeholders = {tensor.op for tensor in fed if tensor.op.type == "Placeholder"}

    def needs(op: Operation) -> list[Operation]:
        sources = [tensor.op for tensor in op.operands if (tensor.op, tensor.value_index) not in fed_outputs]
        before = [control for control in op.control_inputs if control not in fed_placeholders]
        return list(dict.fromkeys([*sources, *before]))

    wanted = [
        fetch if isinstance(fetch, Operation) else fetch.op
        for fetch in fetches
        if isinstance(fetch, Operation) or (fetch.op, fetch.value_index) not in fed_outputs
    ]
    order, behind = _sorted(wanted, needs)
    count = len(feeds)
    steps = []
    for op in order:
        inputs = tuple(slots[tensor.op, tensor.value_index] for tensor in op.operands)
        first = count
        for index in range(len(op.outputs)):
            slots.setdefault((op, index), count)
            count += 1
        steps.append(KernelStep(op, op.kernel, inputs, first, len(op.outputs), op.pure))
    fetched = [-1 if isinstance(fetch, Operation) else slots[fetch.op, fetch.value_index] for fetch in fetches]
    waiting = [op for op in order if op.blocking]
    concurrent = any(a not in behind[b] for a, b in zip(waiting, waiting[1:], strict=False))
    return RunPlan(steps, count, feeds, fetched, concurrent)


def _sorted(
    wanted: list[Operation], needs: Callable[[Operation], list[Operation]]
) -> tuple[list[Operation], dict[Operation, set[Operation]]]:
    # Operations after their needs, waiting ones as late as that allows; and for each waiting one all before it.
    inputs_of: dict[Operation, list[Operation]] = {}
    left = list(wanted)
    while left:
        op = left.pop()
        if op not in inputs_of:
            inputs_of[op] = needs(op)
            left += inputs_of[op]
    followers_of: dict[Operation, list[Operation]] = {op: [] for op in inputs_of}
    missing = {op: len(needed) for op, needed in inputs_of.items()}
    for op, needed in inputs_of.items():
        for need in needed:
            followers_of[need].append(op)
    ready = [op for op in inputs_of if not missing[op]]
    order: list[Operation] = []
    waits: dict[Operation, set[Operation]] = {}
    while ready:
        at = next((i for i, op in enumerate(ready) if not op.blocking), 0)
        op = ready.pop(at)
        order.append(op)
        waits[op] = set().union(*(waits[need] | ({need} if need.blocking else set()) for need in inputs_of[op]))
        for follower in followers_of[op]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return order, waits


def _incompatible(match: re.Match[str]) -> str:
    one, other = (f"[{shape.strip('(,)')}]" for shape in match.groups())
    return f"Incompatible shapes: {one} vs. {other}"


def do(step: KernelStep, run: Any, values: list[Any]) -> None:
    """Run an operation in its slots; an exception names the operation.

    `run`: a session's run, or its stand-in.
    """
    given = [values[slot] for slot in step.inputs]
    try:
        result = step.kernel(*given) if step.pure else step.kernel(run, *given)
    except QueueCoreError as error:
        _note(error, step.op)
        raise
    except MemoryError as error:
        raise ResourceExhaustedError(f"OOM when running {step.op.type} {step.op.name!r}: {error}") from error
    except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:
        if not step.pure:
            raise
        said = _BROADCAST.sub(_incompatible, str(error))
        wrong = InvalidArgumentError(f"{said} (in {step.op.type} {step.op.name!r})")
        raise wrong from error
    if step.outputs == 1:
        values[step.output] = result
    elif step.outputs:
        values[step.output : step.output + step.outputs] = result


def _note(error: QueueCoreError, op: Operation) -> None:
    note = f"in the operation {op.name!r} ({op.type})"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    if error.op is None:
        error.op = op


def run_beside(plan: RunPlan, run: Any, values: list[Any]) -> None:
    """Run a plan's operations; independent ones that may wait run in threads of their own."""
    results: queue.SimpleQueue[tuple[KernelStep, BaseException | None]] = queue.SimpleQueue()
    pending = list(plan.steps)
    finished = set()
    ops = {step.op for step in pending}
    under_way: set[Operation] = set()
    failure: BaseException | None = None
    is_over = False
    hears = getattr(run, "look", None)  # the stand-in for an element's function has none

    def look(name: str) -> None:
        if is_over:
            raise CancelledError("the operation was cancelled: another part of the run failed")
        if hears is not None:
            hears(name)

    def work(step: KernelStep) -> None:
        error: BaseException | None = None
        watch(look)
        try:
            with np.errstate(all="ignore"):
                do(step, run, values)
        except BaseException as caught:
            error = caught
        results.put((step, error))

    def is_ready(step: KernelStep) -> bool:
        needed = [*(one.op for one in step.op.operands), *step.op.control_inputs]
        return all(op in finished or op not in ops for op in needed)

    try:
        while (pending or under_way) and failure is None:
            ready = [step for step in pending if is_ready(step)]
            for step in ready:
                pending.remove(step)
                if step.op.blocking:
                    Thread(target=work, args=(step,), name="qc-run", daemon=True).start()
                    under_way.add(step.op)
                else:
                    do(step, run, values)
                    finished.add(step.op)
            if under_way and not any(is_ready(step) for step in pending):
                step, failure = _taken(results)
                under_way.remove(step.op)
                finished.add(step.op)
    finally:
        is_over = True
        until = time.monotonic() + _GRACE_SECONDS
        while under_way:
            deaf = all(op.type in ("PyFunc", "EagerPyFunc") for op in under_way)
            taken = _taken(results, until if deaf else None)
            if taken is None:
                break
            under_way.remove(taken[0].op)
            failure = failure or taken[1]
    if failure is not None:
        raise failure


def _taken(done: queue.SimpleQueue[Any], until: float | None = None) -> Any:
    wait_over()
    while until is None or time.monotonic() < until:  # in slices: Ctrl-C is noticed between them
        try:
            taken = done.get(timeout=0.05)
        except queue.Empty:
            slice_over()
        else:
            wait_over()
            return taken
    wait_over()
    return None
