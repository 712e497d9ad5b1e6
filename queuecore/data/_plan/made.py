"""The native steps between a source and its batches, and the structure of their results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.steps.stages import PythonStep, SequenceStep, Step
from queuecore._core.stream.describe import DENSE, FIXED, RAGGED, STRING, STRINGS, Elements
from queuecore._elements.component import BYTES, Component, Structure
from queuecore._elements.nests import is_plain, structure_of
from queuecore._elements.record import ArraySpec
from queuecore._ops.chain import merged
from queuecore._ops.stage import Stage
from queuecore.errors import InvalidArgumentError, UnimplementedError

__all__ = ["Layout", "Made", "assembler", "made_by", "row_bytes_of", "template_of"]

Dims = tuple[int | None, ...]
Spec = Callable[[Dims], Any]


class NativeComponent(NamedTuple):
    """A component of an element, as native code describes it.

    Attributes
    ----------
    kind : int
        `FIXED`, `STRING`, `STRINGS`, `RAGGED`, `DENSE` or `OBJECT` of `queuecore._core.stream.describe`.
    dtype : numpy.dtype
    shape : tuple of int or None
        The shape of a row; for `RAGGED`, the shape of a row's values.
    """

    kind: int
    dtype: np.dtype[Any]
    shape: tuple[Any, ...]


@dataclass(frozen=True)
class Made:
    """The result of all stages on a record.

    Attributes
    ----------
    step : Step or None
        The native steps, as one; `None`: the record itself is the element.
    components : list of NativeComponent
        The resulting components, for the native core.
    template : object
        The structure of an element over the indices of the components.
    assemble : callable or None
        Makes an element, or a batch, of the components where there is more to it than structure.
    spec : callable
        From batch dimensions to the specification of an element.
    given : tuple of Component
        The resulting components, for further stages.
    structure : Structure or None
        The user's view of the components, where that is more than a template.
    """

    step: Step | None
    components: list[NativeComponent]
    template: Any
    assemble: Callable[[list[Any], bool], Any] | None
    spec: Spec
    given: tuple[Component, ...]
    structure: Structure | None

    def elements(self, leaves: list[Any] | None = None) -> Elements:
        """Return the description of the stream's elements; `leaves`: all of a record that lies at a known place."""
        return Elements(self.template, self.components, leaves, self.step, self.assemble)


def made_by(
    components: Sequence[Component], template: Any, stages: Sequence[Stage], structure: Structure | None = None
) -> Made:
    """Return what stages make of elements of these components, which a user sees as `structure` says, if it is given.

    Raises
    ------
    InvalidArgumentError
        If a stage can't work on its input, or the result can't be batched.
    """
    outputs = tuple(components)
    steps: list[Step] = []
    for stage in merged(stages):
        step = stage.bind(outputs)
        if isinstance(step, PythonStep):
            raise UnimplementedError(f"{stage!r} runs in Python, because {step.why}: datasets map native stages alone")
        steps.append(step)
        outputs = step.outputs
    native_step = None if not steps else steps[0] if len(steps) == 1 else SequenceStep(steps)
    if stages:
        structure = stages[-1].structure
        template = template_of(outputs)
    if structure is not None and structure.template is not None:
        template, structure = structure.template, None
    native = [native_of(component, index) for index, component in enumerate(outputs)]
    assemble, leaves = (None, None) if structure is None else (structure.assemble, structure.spec)
    assemble = assemble or assembler(template)

    def spec(dims: Dims) -> Any:
        if leaves is not None:
            return leaves(lambda dtype, shape: ArraySpec((*dims, *shape), dtype))
        return structure_of(
            template, [ArraySpec((*dims, *(component.shape or ())), component.dtype) for component in outputs]
        )

    return Made(native_step, native, template, assemble, spec, outputs, structure)


def assembler(template: Any) -> Callable[[list[Any], bool], Any] | None:
    """Return what makes elements of a structure that native code doesn't make itself; `None`: it does."""
    return None if is_plain(template) else functools.partial(_assembled, template)


def _assembled(template: Any, parts: list[Any], _batched: bool) -> Any:
    return structure_of(template, parts)


def template_of(components: Sequence[Component]) -> Any:
    names = [one.name for one in components]
    if None not in names:
        return {name: index for index, name in enumerate(names)}
    return 0 if len(components) == 1 else tuple(range(len(components)))


def native_of(component: Component, index: int) -> NativeComponent:
    dtype, shape = component.dtype, component.shape
    place = f"component {component.name or index!r}"
    if shape is None:
        raise InvalidArgumentError(
            f"{place} has a shape of which nothing is known, so it can't be batched: reshape it in the map"
        )
    if dtype == BYTES:
        if len(shape) > 1:
            raise InvalidArgumentError(f"{place} has strings in {len(shape)} dimensions: reshape it to one in the map")
        return NativeComponent(STRINGS if shape else STRING, dtype, ())
    if component.ragged:
        row = np.dtype((dtype, tuple(side or 0 for side in shape[1:])))
        return NativeComponent(RAGGED, row, shape[1:])
    if None not in shape:
        return NativeComponent(FIXED, dtype, shape)
    return NativeComponent(DENSE, dtype, shape)


class Layout(NamedTuple):
    """The components of elements, and their structure.

    Attributes
    ----------
    components : tuple of Component, or None
        `None`: elements are Python objects.
    template : object
        The structure of an element over the indices of the components.
    structure : Structure, optional
        The user's view of the components, where there is more to it.
    """

    components: tuple[Component, ...] | None
    template: Any = 0
    structure: Structure | None = None


def row_bytes_of(component: NativeComponent) -> int:
    """Return the approximate bytes of a row of a native component."""
    kind, dtype, shape = component
    return dtype.itemsize * math.prod(shape) if kind == FIXED else 64
