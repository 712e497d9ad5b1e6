"""A dataset to one value: a function over its elements, native where it can be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore._checks.usercode import called, raised
from queuecore._core.atoms.own import own_result
from queuecore._core.steps.stages import Step
from queuecore._core.stream.fold import Fold
from queuecore._elements.component import Component
from queuecore._elements.nests import apart, plain, structure_of
from queuecore._trace.symbol import Untraced
from queuecore._trace.trace import trace
from queuecore.data._nodes.padded import plain_template
from queuecore.data._nodes.run import Opened, open_chain
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.steps import BatchStep
from queuecore.data._rows.elements import flattened
from queuecore.data._rows.states import first_state, next_state, number_of, other_structure, takes
from queuecore.errors import InvalidArgumentError, QueueCoreError

__all__ = ["reduced"]

# If shapes of a state change more often than this, the function isn't native.
_MOST_SHAPES = 4
# The name of the function in errors.
_NAME = "reduce_func"


def reduced(chain: Chain, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
    """Return the last state; see `Dataset.reduce`."""
    if not callable(reduce_func):
        raise InvalidArgumentError(f"reduce_func must be callable, not {reduce_func!r}")
    state = first_state(initial_state)
    label = f"reduce_func {getattr(reduce_func, '__name__', type(reduce_func).__name__)}"
    steps = _steps(chain, state, reduce_func)
    if steps:
        return _folded(chain, state, steps, label)
    with _opened(chain) as elements:
        for element in elements:
            # The function may change a state in place, so the state is ours; another array that it keeps is copied.
            made = called(label, own_result, reduce_func, (state, element), state)
            state = next_state(state, made, _NAME)
    return state


def _opened(chain: Chain) -> Opened:
    chain.check_shards()
    return open_chain(chain)


def _steps(chain: Chain, initial: Any, function: Callable[[Any, Any], Any]) -> list[Step]:
    """Return the native steps for the first states, and for all others; empty if the function can't be native."""
    layout = chain.layout
    template, leaves = flattened(initial, lambda leaf, where: leaf)
    if not leaves or not layout.components or not all(map(_is_native, leaves)):
        return []
    result = chain.made
    count = len(leaves)
    bare = plain_template(result)

    def assemble(parts: list[Any], batched: bool) -> Any:
        own = parts[count:]
        element = result.assemble(own, batched) if bare is None and result.assemble else structure_of(bare, own)
        return structure_of(template, parts[:count]), element

    def finish(results: Any) -> Any:
        return _numbered(initial, results)

    state = tuple(Component(leaf.dtype, leaf.shape) for leaf in leaves)
    steps: list[Step] = []
    while len(steps) < _MOST_SHAPES:
        outcome = trace(function, state + result.given, 0, assemble=assemble, unpack=True, finish=finish)
        if isinstance(outcome, Untraced) or plain(outcome.template) != plain(template):
            return []
        result_components = outcome.components
        if [component.dtype for component in result_components] != [leaf.dtype for leaf in leaves]:
            return []
        if any(component.shape is None or None in component.shape for component in result_components):
            return []
        steps.append(outcome.stage.bind(state + result.given))
        if [component.shape for component in result_components] == [component.shape for component in state]:
            return steps
        state = tuple(Component(component.dtype, component.shape) for component in result_components)
    return []


def _is_native(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.isnative and leaf.dtype.kind in "biufc"


def _numbered(state: Any, results: Any) -> Any:
    """Return a traced function's results in the order of the state; Python numbers become what `next_state` makes."""
    if type(state) is dict and type(results) is dict and results.keys() == state.keys():
        return {key: _numbered(inner, results[key]) for key, inner in state.items()}
    split, other_split = apart(state), None if type(results) is dict else apart(results)
    if (
        split is not None
        and other_split is not None
        and type(state) is not dict
        and len(other_split[0]) == len(split[0])
    ):
        return split[1]([_numbered(*pair) for pair in zip(split[0], other_split[0], strict=True)])
    if isinstance(state, np.ndarray | np.generic) and takes(state.dtype, results):
        return number_of(state.dtype, results, _NAME)
    if split is not None or other_split is not None or type(results) is dict:
        raise other_structure(_NAME, "", "the state's structure", results)
    return results


def _folded(chain: Chain, initial: Any, steps: list[Step], label: str) -> Any:
    """Return the last state, computed natively."""
    columns = chain.made.components
    template, state = flattened(initial, lambda leaf, where: np.asarray(leaf))
    rest = list(steps)
    fold = Fold(rest.pop(0), state, columns)
    budget = (chain.options.memory_budget or 0) // chain.streams()
    with _opened(chain.then(BatchStep(chain.chunk_rows(budget), False))) as chunks:
        while True:
            rows: Any = None  # gives the memory back before more is read
            try:
                n, rows = chunks.next_columns()
            except StopIteration:
                break
            position = 0
            try:
                while rest and position < n:
                    fold.run(rows, position, position + 1)
                    fold = Fold(rest.pop(0), fold.state, columns)
                    position += 1
                fold.run(rows, position, n)
            except QueueCoreError as error:
                raise raised(label, error) from error
    return structure_of(template, [part[()] for part in fold.state])
