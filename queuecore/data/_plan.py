"""What becomes of a record: the native steps between a source and its batches, and the structure of what they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._core.stages import PythonStep, SequenceStep, Step
from queuecore._ops_numbers import merged
from queuecore._record import ArraySpec
from queuecore._stages import BYTES, Component, Stage, Structure, structure_of
from queuecore.errors import InvalidArgumentError, UnimplementedError

__all__ = ["Made", "made_by", "template_of"]

Dims = tuple[int | None, ...]
Spec = Callable[[Dims], Any]

# What kind of a component it is, its dtype, and the shape of an element (of "ragged": of a row's values).
NativeComponent = tuple[str, np.dtype[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Made:
    """What becomes of a record.

    Attributes
    ----------
    step : Step or None
        The native steps, as one; `None`: the record itself is the element.
    components : list of tuple
        What comes out, for the native core.
    template : object
        Their structure over the indices of the components.
    assemble : callable or None
        Makes an element, or a batch, of the components where there is more to it than structure.
    spec : callable
        From batch dimensions to the specification of an element.
    given : tuple of Component
        What comes out, for further stages.
    structure : Structure or None
        How a user sees the components, where that is more than a template of them.
    """

    step: Step | None
    components: list[NativeComponent]
    template: Any
    assemble: Callable[[list[Any], bool], Any] | None
    spec: Spec
    given: tuple[Component, ...]
    structure: Structure | None

    def of_blocks(self, blocks: dict[str, Any]) -> dict[str, Any]:
        """Return what the native stream takes of records that come in blocks, which `blocks` describes."""
        return {
            "record_bytes": 1,
            "header_bytes": 0,
            "footer_bytes": 0,
            "hop_bytes": 1,
            "drop_tail": False,
            "leaves": [],
            "template": self.template,
            "blocks": blocks,
            "step": self.step,
            "components": self.components,
            "assemble": self.assemble,
        }


def made_by(
    components: Sequence[Component], template: Any, stages: Sequence[Stage], structure: Structure | None = None
) -> Made:
    """Return what stages make of elements of these components, which a user sees as `structure` says, if it is given.

    Raises
    ------
    InvalidArgumentError
        If a stage can't work on what it gets, or what comes out can't be batched.
    """
    given = tuple(components)
    steps: list[Step] = []
    for stage in merged(stages):
        step = stage.bind(given)
        if isinstance(step, PythonStep):
            raise UnimplementedError(f"{stage!r} runs in Python, because {step.why}: datasets map native stages alone")
        steps.append(step)
        given = step.outputs
    native_step = None if not steps else steps[0] if len(steps) == 1 else SequenceStep(steps)
    if stages:
        structure = stages[-1].structure
        template = template_of(given)
    if structure is not None and structure.template is not None:
        template, structure = structure.template, None
    native = [_native(one, index) for index, one in enumerate(given)]
    assemble, leaves = (None, None) if structure is None else (structure.assemble, structure.spec)

    def spec(dims: Dims) -> Any:
        if leaves is not None:
            return leaves(lambda dtype, shape: ArraySpec((*dims, *shape), dtype))
        return structure_of(template, [ArraySpec((*dims, *(one.shape or ())), one.dtype) for one in given])

    return Made(native_step, native, template, assemble, spec, given, structure)


def template_of(components: Sequence[Component]) -> Any:
    names = [one.name for one in components]
    if None not in names:
        return {name: index for index, name in enumerate(names)}
    return 0 if len(components) == 1 else tuple(range(len(components)))


def _native(component: Component, index: int) -> NativeComponent:
    dtype, shape = component.dtype, component.shape
    where = f"component {component.name or index!r}"
    if shape is None:
        raise InvalidArgumentError(
            f"{where} has a shape of which nothing is known, so it can't be batched: reshape it in the map"
        )
    if dtype == BYTES:
        if len(shape) > 1:
            raise InvalidArgumentError(f"{where} has strings in {len(shape)} dimensions: reshape it to one in the map")
        return ("strings" if shape else "string"), dtype, ()
    if component.ragged:
        row = np.dtype((dtype, tuple(side or 0 for side in shape[1:])))
        return "ragged", row, shape[1:]
    if None not in shape:
        return "fixed", dtype, shape
    return "dense", dtype, shape
