"""Calls of a user's function, or of a native stage, for each element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from queuecore._checks.usercode import element_error, name_of, placed, running_at
from queuecore._core.atoms.own import own_result
from queuecore._core.io.csv import placed_text
from queuecore._elements.component import BYTES, Component
from queuecore._elements.nests import structure_of
from queuecore._ops.stage import Stage
from queuecore.data._plan.made import template_of
from queuecore.data._rows.values import converted
from queuecore.errors import InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged

__all__ = ["FunctionCall", "StageCall", "parted"]


def parted(made: Any) -> Any:
    """Return a map function's result as an element: a list becomes a tuple, a list inside it an array."""
    return tuple(made) if type(made) is list else made


class FunctionCall(NamedTuple):
    """A function that makes a new element of an element.

    Attributes
    ----------
    function : callable
        The user's function.
    rows : int
        How many elements of the source are in one of the elements, if these are batches.
    """

    function: Callable[..., Any]
    rows: int = 1

    @property
    def name(self) -> str:
        """The name for messages."""
        return name_of(self.function)

    def __call__(self, element: Any, pass_: int, number: int) -> tuple[Any, Any]:
        """Return the new element and its structure."""
        try:
            with running_at(pass_, number * self.rows):
                # A list as `parted` has it.
                result = own_result(self.function, element if type(element) is tuple else (element,), listed=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise element_error("map", self.name, error, number) from error
        try:
            return converted(result)
        except InvalidArgumentError as error:
            raise placed("map", self.name, error, number) from error.__cause__


class StageCall(NamedTuple):
    """A native stage, run at once on each element; `rows` as for `FunctionCall`."""

    stage: Stage
    rows: int = 1

    @property
    def name(self) -> str:
        """The name for messages."""
        return repr(self.stage)

    def __call__(self, element: Any, pass_: int, number: int) -> tuple[Any, Any]:
        """Return the new element and its structure."""
        try:
            components, values = _parts(element)
            step = _bound(self.stage, components)
            outputs = list(step(*values, epoch=pass_, element=number * self.rows))
        except QueueCoreError as error:
            error.args = (f"{placed_text(error)} (element {number})",)
            error.stage, error.record = "map", number
            raise
        if self.stage.structure is not None:
            return converted(self.stage.structure.assemble(outputs, False))
        return converted(structure_of(template_of(step.outputs), outputs))


_bound = functools.lru_cache(64)(Stage.bind)


def _parts(element: Any) -> tuple[tuple[Component, ...], list[Any]]:
    """Return an element as a stage gets it."""
    parts: list[tuple[str | None, Any]]
    if isinstance(element, dict):
        parts = list(element.items())
    else:
        parts = [(None, one) for one in (element if isinstance(element, tuple) else [element])]
    components: list[Component] = []
    values: list[Any] = []
    for name, part in parts:
        if isinstance(part, Ragged) and part.is_bytes:
            part = part.to_object()
        if isinstance(part, bytes):
            components.append(Component(BYTES, (), name=name))
            values.append(part)
            continue
        if not isinstance(part, np.ndarray | np.generic):
            raise InvalidArgumentError(f"a native stage can't work on {part!r:.80}")
        array = np.asarray(part, order="C")
        components.append(Component(BYTES if array.dtype == object else array.dtype, array.shape, name=name))
        values.append(array)
    return tuple(components), values
