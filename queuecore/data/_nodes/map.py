"""A map: native steps where a function can be traced, and calls of Python where it can't."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from queuecore._checks.usercode import check_arguments, name_of
from queuecore._core.stream.describe import STRINGS
from queuecore._elements.nests import apart
from queuecore._ops.functions import is_native
from queuecore._ops.stage import Stage
from queuecore._trace.symbol import Untraced
from queuecore._trace.trace import trace
from queuecore.data._nodes.calls import FunctionCall, StageCall, parted
from queuecore.data._nodes.padded import plain_template
from queuecore.data._nodes.python_map import PythonMap
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.steps import BatchStep, Map
from queuecore.errors import InvalidArgumentError

__all__ = ["check_function", "check_keys", "mapped_chain"]

_OBJECTS = "elements are Python objects"
_SHAPED = "elements are padded or ragged batches"
_VECTORS = "an element of its input is a vector of strings, whose results have a dimension more"
_WHOLE = "it makes something else of a batch than of its elements one by one"


def mapped_chain(
    chain: Chain, function: Stage | Callable[..., Any], threads: int | None, ordered: bool | None, on_device: bool
) -> Chain:
    """Return a chain with a function, or a stage, on each of its elements; see `PythonMap` for the other parameters.

    Raises
    ------
    InvalidArgumentError
        If the function isn't callable, or a stage can't work on its input.
    """
    call: FunctionCall | StageCall
    if isinstance(function, Stage):
        reason = _why_not(chain) or (_WHOLE if not function.rowwise and chain.batches else "")
        if not reason and function.structure is not None and chain.made.components[0][0] == STRINGS:
            reason = _VECTORS
        if not reason:
            native = chain.then(Map(function, on_device))
            native.check()
            return native
        call = StageCall(function, _rows_of(chain))
    else:
        found = _traced(chain, function, on_device)
        if isinstance(found, Chain):
            return found
        call, reason = FunctionCall(function, _rows_of(chain)), found
    return Chain.of(PythonMap((chain,), call, threads, ordered, reason, on_device))


def check_function(chain: Chain, function: Any, what: str) -> None:
    """Raise `DtypeError` if a function can't be called with an element, as far as that is known without making one."""
    if not chain.source.has_objects:
        spec = chain.element_spec
        check_arguments(what, function, len(spec) if type(spec) is tuple else 1)


def check_keys(chain: Chain, untraced: Untraced, function: Any, label: str) -> None:
    """Raise `InvalidArgumentError` if a trace ended because elements haven't a key that the function asked for."""
    keys: list[Any] = []
    _keys_of(chain.element_spec, keys)
    if untraced.missing is not None and keys and untraced.missing not in keys:
        raise InvalidArgumentError(
            f"{label}: {name_of(function)} asks for {untraced.missing!r} ({untraced.where}), and elements have {keys}"
        )


def _keys_of(spec: Any, keys: list[Any]) -> None:
    if isinstance(spec, dict):
        keys.extend(spec)
    parts = apart(spec)
    for part in () if parts is None else parts[0]:
        _keys_of(part, keys)


def _why_not(chain: Chain) -> str:
    """Return why no step behind a chain can be native; an empty string if one can."""
    if chain.source.has_objects:
        return _OBJECTS
    return _SHAPED if chain.shaped is not None else ""


def _rows_of(chain: Chain) -> int:
    """Return how many elements the batches of a chain have, as far as that is known; of elements that are none: 1."""
    source = chain.source
    below = _rows_of(source.inputs[0]) if isinstance(source, PythonMap) else 1
    return math.prod(step.batch_size for step in chain.steps if isinstance(step, BatchStep)) * below


def _traced(chain: Chain, function: Any, on_device: bool) -> Chain | str:
    """Return a chain with a function as a native step, or the reason why the function has to run in Python."""
    if not callable(function) or is_native(function):
        hint = ": say what it makes, by queuecore.ops.cfunc(function, outputs)" if callable(function) else ""
        raise InvalidArgumentError(f"map takes functions of Python's and operations, not {function!r}{hint}")
    why = _why_not(chain)
    if why:
        return why
    result = chain.made
    check_function(chain, function, "map")
    batch = tuple(one.batch_size if one.drop_remainder else None for one in reversed(chain.batches))
    template, assemble = result.template, result.assemble
    plain = None if batch else plain_template(result)
    if plain is not None:
        template, assemble = plain, None
    outcome = trace(function, result.given, template, assemble=assemble, batch=batch, finish=parted)
    if isinstance(outcome, Untraced):
        check_keys(chain, outcome, function, "map")
        return str(outcome)
    if batch and not outcome.stage.rowwise:
        return _WHOLE
    native = chain.then(Map(outcome.stage, on_device))
    try:
        native.check()
    except InvalidArgumentError as error:  # nothing that can be batched
        return str(error)
    return native
