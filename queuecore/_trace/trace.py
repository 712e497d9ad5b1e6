"""Traces: a Python function, called once with symbols, as native steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component, Structure
from queuecore._elements.dtypes import is_bfloat16
from queuecore._elements.nests import apart, structure_of
from queuecore._ops.stage import Stage
from queuecore._trace.graph import Side, UnknownValue, Value, computed, shape_of
from queuecore._trace.lower import lowered
from queuecore._trace.purity import Watch
from queuecore._trace.symbol import (
    GiveUp,
    Symbol,
    Tracer,
    Untraced,
    constant_of,
    is_native_dtype,
    is_users,
    parts_of,
    stacked,
    where_raised,
)
from queuecore.errors import InvalidArgumentError

__all__ = ["Traced", "trace"]


class Traced(NamedTuple):
    """A function as a native stage.

    Attributes
    ----------
    stage : Stage
        The stage on the components of an element; its structure is that of the function's result.
    components : tuple of Component
        The stage's outputs for an element; for a batch, if the function got batches and isn't `stage.rowwise`.
    template : object
        Their structure: their numbers in tuples and dicts.
    """

    stage: Stage
    components: tuple[Component, ...]
    template: Any


def trace(
    function: Callable[..., Any],
    components: Sequence[Component],
    template: Any,
    *,
    assemble: Callable[[list[Any], bool], Any] | None = None,
    batch: tuple[int | None, ...] = (),
    unpack: bool | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> Traced | Untraced:
    """Call a function with symbols for an element; return it as a native stage, or why it must run in Python.

    Parameters
    ----------
    function : callable
        Called once at most.
    components : sequence of Component
        Of an element without its batch dimensions.
    template : object
        Their structure over their numbers: tuples, dicts, or a number.
    assemble : callable, optional
        Makes an element of components, and of whether they are a batch's, if the template isn't enough.
    batch : tuple of int or None
        The batch dimensions of the function's arguments, from the outermost one; `None`: a side is not known, or not
        always the same.
    unpack : bool, optional
        Whether the parts of a tuple are arguments of their own; by default they are, if the element is a tuple.
    finish : callable, optional
        Makes the result of what the function returns, which contains symbols.

    Returns
    -------
    Traced or Untraced
        The stage takes components with or without the batch dimensions; without, only if it is `rowwise`.

    Notes
    -----
    The call ends before the function does anything besides computing its result, as far as that can be seen
    (`queuecore._trace.purity`): the function then does it in Python, once for each element. `KeyboardInterrupt` comes
    out as it is.
    """
    lead = len(batch)
    tracer = Tracer(lead, function)
    outcome = None
    outer: list[Side] = [UnknownValue() if side is None else side for side in batch]
    symbols = []
    for index, component in enumerate(components):
        value = tracer.graph.input(index, component, tuple(outer))
        row = tracer.rows.input(index, component, ()) if lead else None
        if component.dtype == BYTES:
            value.opaque = "bytes"
        elif not is_native_dtype(component.dtype) and component.dtype.kind != "c" and not is_bfloat16(component.dtype):
            value.opaque = f"an array of {component.dtype}"
        elif component.ragged and lead:
            value.opaque = "a Ragged"
        symbols.append(Symbol(tracer, value, row))
    try:
        element = structure_of(template, symbols) if assemble is None else assemble(list(symbols), lead > 0)
        arguments = element if (type(element) is tuple if unpack is None else unpack) else (element,)
        with Watch(function, is_users, tracer.refuse, tracer.distrust):
            made = function(*arguments)
        if finish is not None:
            made = finish(made)
        parts: list[tuple[Value, Value | None, str | None]] = []
        shape = _flattened(tracer, made, parts, ())
        if not parts:
            tracer.give_up("it returns nothing", tracer.place)
        if tracer.failure is None:
            trace_args = (function, tuple(components), template, assemble, batch, unpack, finish)
            outcome = _traced(tracer, function, components, shape, parts, trace_args)
    except GiveUp:
        pass
    except (Exception, SystemExit) as error:
        missing = error.args[0] if type(error) is KeyError and len(error.args) == 1 else None
        return tracer.failure or Untraced(
            f"it raised {type(error).__name__}: {error}",
            where_raised(error.__traceback__),
            missing if type(missing) is str else None,
        )
    finally:
        tracer.active = False
    # A failure counts even if the function caught it.
    return tracer.failure or outcome or Untraced("its trace was given up", tracer.place)


def _flattened(
    tracer: Tracer, result: Any, parts: list[tuple[Value, Value | None, str | None]], path: tuple[Any, ...]
) -> Any:
    """Return the structure of the result, and append its parts."""
    if type(result) is dict:
        if not all(type(key) is str for key in result):
            tracer.give_up("it returns a dict with keys that are no strings", tracer.place)
        return {key: _flattened(tracer, inner, parts, (*path, key)) for key, inner in result.items()}
    if result is None and path:
        return None
    split = apart(result)
    if split is not None:
        return split[1]([_flattened(tracer, inner, parts, (*path, index)) for index, inner in enumerate(split[0])])
    name = ".".join(path) if path and all(type(key) is str for key in path) else None
    if type(result) is Symbol:
        own, value, row = parts_of(result)
        if own is not tracer:
            tracer.give_up("it returns a symbol of another trace", tracer.place)
        parts.append((value, row, name))
    elif type(result) is bytes:
        parts.append((tracer.graph.constant(result), None, name))
    elif type(result) in (bool, int, float, np.ndarray) or isinstance(result, np.generic):
        try:
            array = constant_of(tracer, result, "a result")
        except OverflowError as error:
            tracer.give_up(f"it returns {error}", tracer.place)
        parts.append((tracer.graph.constant(array), None, name))
    elif type(result) is list:
        return _flattened(tracer, stacked(tracer, result), parts, path)
    else:
        tracer.give_up(f"it returns a {type(result).__name__}", tracer.place)
    return len(parts) - 1


def _traced(
    tracer: Tracer,
    function: Any,
    components: Sequence[Component],
    shape: Any,
    parts: list[tuple[Value, Value | None, str | None]],
    trace_args: tuple[Any, ...],
) -> Traced:
    values = [value for value, _, _ in parts]
    names = [name for _, _, name in parts]
    components = tuple(components)
    lead = tracer.lead
    rows = [row for _, row, _ in parts if row is not None]
    rowwise = lead > 0 and len(rows) == len(parts)
    batched = tuple(value.component(None) for value in tracer.graph.inputs) if lead else components
    try:
        variants = [(batched, lowered(tracer.graph, batched, values, names))]
        if rowwise:
            variants.append((components, lowered(tracer.rows, components, rows, names)))
    except ValueError as error:
        tracer.give_up(f"it can't be one native step: {error}", tracer.place)
    step = variants[-1][1]

    def bind(components: tuple[Component, ...]) -> Step:
        for inputs, made in variants:
            if [component[:3] for component in components] == [component[:3] for component in inputs]:
                return made
        raise InvalidArgumentError(
            f"{stage!r} was traced for {[(str(component.dtype), component.shape) for component in batched]}, and gets "
            f"{[(str(component.dtype), component.shape) for component in components]}"
        )

    outputs = step.outputs
    structure = Structure(functools.partial(_assembled, shape), functools.partial(_specified, shape, outputs), shape)
    text = tracer.graph.text(values, lambda numbers: _shown(shape, numbers))
    called = tracer.graph.text(values, lambda numbers: _shown(shape, numbers), as_called=True)
    stage = _TracedStage(f"traced({text})", bind, structure, rowwise)
    stage.shown = f"traced({called})"

    def tensors_of(inputs: list[Any]) -> list[Any]:
        if rowwise and not inputs[0].rows:
            return computed(tracer.rows, rows, inputs)
        return computed(tracer.graph, values, inputs)

    stage.device = tensors_of
    stage.trace_args = trace_args
    return Traced(stage, outputs, shape)


def _assembled(shape: Any, arrays: list[Any], _batch: bool) -> Any:
    return structure_of(shape, arrays)


def _specified(shape: Any, outputs: tuple[Component, ...], fill: Callable[[np.dtype[Any], Any], Any]) -> Any:
    return structure_of(shape, [fill(one.dtype, shape_of(one)) for one in outputs])


class _TracedStage(Stage):
    """A stage that is traced anew when it is unpickled; it can be pickled if the function can."""

    __slots__ = ("trace_args",)

    trace_args: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _traced_again, self.trace_args


def _traced_again(
    function: Any,
    components: Sequence[Component],
    template: Any,
    assemble: Any,
    batch: tuple[int | None, ...],
    unpack: bool | None,
    finish: Any,
) -> Stage:
    found = trace(function, components, template, assemble=assemble, batch=batch, unpack=unpack, finish=finish)
    if isinstance(found, Untraced):
        raise InvalidArgumentError(f"{function!r} isn't the function that it was when it was pickled: {found}")
    return found.stage


def _shown(template: Any, words: Sequence[str]) -> str:
    if isinstance(template, dict):
        return "{" + ", ".join(f"{name!r}: {_shown(inner, words)}" for name, inner in template.items()) + "}"
    if isinstance(template, tuple):
        return "(" + ", ".join(_shown(inner, words) for inner in template) + ("," if len(template) == 1 else "") + ")"
    found = apart(template)
    if found is not None:
        return f"{type(template).__name__}({', '.join(_shown(inner, words) for inner in found[0])})"
    return "None" if template is None else words[int(template)]
