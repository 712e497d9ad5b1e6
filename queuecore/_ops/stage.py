"""Stages: the base of native operations, and the facts known of their components."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, overload

import numpy as np

from queuecore._checks.usercode import running_at
from queuecore._core.steps.stages import PythonStep, Step
from queuecore._elements.component import Component, Structure
from queuecore._elements.convert import Converter
from queuecore.errors import InvalidArgumentError, PipelineError, QueueCoreError, UnimplementedError

__all__ = ["Components", "DecodingOp", "DrawingOp", "Stage", "decoding_op", "drawing_op", "python_step", "traceable"]

P = ParamSpec("P")

Components = tuple[Component, ...]


class Stage:
    """A step of a `StageProgram`: the result of an operation that is called without input.

    A stage knows its options; `bind`, when it is put into a program, shows the components that it gets and gives.

    Parameters
    ----------
    text : str
        The operation and its options: the stage's ``repr``, which saved places compare.
    bind : callable
        Makes the native step from the components that the stage gets.
    structure : Structure, optional
        The structure of the results, if they are no single component.
    rowwise : bool, default False
        Whether a batch gives the same results as its elements one by one.
    python, outputs, device
        The attributes of these names.

    Attributes
    ----------
    python : callable or None
        The same operation in Python: a function of the components' values, as `queuecore.ops.python` takes it. It is
        used if ``bind`` finds that a library is missing (`UnimplementedError`).
    outputs : tuple of Component, or None
        The components that `python` returns, as far as they are known.
    device : callable or None
        The same operation as a kernel on a device: from tensors to tensors of `queuecore._device.kernels`.
    shown : str
        The operation as users see it in a plan: its ``repr``, unless that names what it is made of.
    """

    __slots__ = ("_bind", "_text", "device", "outputs", "python", "rowwise", "shown", "structure")

    def __init__(
        self,
        text: str,
        bind: Callable[[tuple[Component, ...]], Step],
        structure: Structure | None = None,
        rowwise: bool = False,
        python: Callable[..., Any] | None = None,
        outputs: tuple[Component, ...] | None = None,
        device: Callable[[list[Any]], list[Any]] | None = None,
    ) -> None:
        self._text = self.shown = text
        self._bind = bind
        self.structure = structure
        # Whether a batch gives the same results as its elements one by one.
        self.rowwise = rowwise
        self.python = python
        self.outputs = outputs
        self.device = device

    def __repr__(self) -> str:
        """Return the operation and what it makes."""
        return self._text

    def bind(self, components: Sequence[Component] | None) -> Step:
        """Return the step for elements of these components.

        Raises
        ------
        InvalidArgumentError
            If it can't work on such elements, or nothing is known of them (`None`).
        """
        if components is None:
            raise InvalidArgumentError(
                f"{self!r}: what it gets is not known: give the Python function before it its outputs, by "
                "queuecore.ops.python(function, outputs=...)"
            )
        inputs = tuple(components)
        try:
            step = self._bind(inputs)
        except UnimplementedError as error:
            if self.python is None:
                raise
            return python_step(self._text, inputs, self.python, self.outputs, str(error), True)
        step.label = step.label or self._text
        return step

    def joined(self, after: Stage) -> Stage | None:
        """Return this stage and the one after it as one, if one step does both with less work."""
        del after
        return None

    def on_device(self, tensors: list[Any]) -> list[Any]:
        """Apply the operation to tensors on a device; `bind` must accept their components.

        Raises
        ------
        UnimplementedError
            If no kernel can do it.
        """
        if self.device is None:
            raise UnimplementedError(f"{self!r} is nothing for a kernel")
        return self.device(tensors)


def python_step(
    label: str,
    inputs: Components | None,
    function: Callable[..., Any],
    outputs: Components | None,
    reason: str,
    keeps_own_errors: bool,
) -> PythonStep:
    """Return a step that calls a function. `keeps_own_errors`: errors of queuecore come out as they are."""
    converters = None
    if outputs is not None:
        converters = [
            Converter(f"{label}: component {index if out.name is None else repr(out.name)}", out.dtype, out.shape)
            for index, out in enumerate(outputs)
        ]

    def call(values: list[Any], epoch: int, element: int) -> Any:
        try:
            with running_at(epoch, element):
                result = function(*values)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if keeps_own_errors and isinstance(error, QueueCoreError):
                raise
            raise PipelineError(f"{label} raised {type(error).__name__}: {error}") from error
        if outputs is None or converters is None:
            return result
        if isinstance(result, dict):
            names = [out.name for out in outputs]
            if set(result) != set(names):
                raise InvalidArgumentError(f"{label}: expected the keys {names}, got {list(result)}")
            parts = [result[name] for name in names]
        else:
            parts = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(parts) != len(converters):
            raise InvalidArgumentError(f"{label}: expected {len(converters)} components, got {len(parts)}")
        return [_aligned(converter.convert(part, False)) for converter, part in zip(converters, parts, strict=True)]

    return PythonStep(inputs, outputs, call, reason)


def _aligned(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.aligned else value


def traceable(op: Any) -> Any:
    """Return an operation that also takes a symbol of a trace as its input, which is its first parameter.

    A symbol is an object with the method `_traced_operation`. Users see the operation in `queuecore.ops`.
    """
    first = next(iter(inspect.signature(op).parameters))
    name = op.__name__

    @functools.wraps(op)
    def either(*args: Any, **options: Any) -> Any:
        value: Any = args[0] if args else options.get(first)
        if not hasattr(type(value), "_traced_operation"):
            return op(*args, **options)
        return value._traced_operation(op, name, args[1:], {key: one for key, one in options.items() if key != first})

    either.__module__ = "queuecore.ops"
    return either


class DrawingOp(Protocol[P]):
    """An operation that draws random numbers for each array. The seed may not be missing, though it has a default."""

    @overload
    def __call__(self, x: None = None, *args: P.args, **options: P.kwargs) -> Stage: ...
    @overload
    def __call__(self, x: Any, *args: P.args, **options: P.kwargs) -> np.ndarray: ...


class DecodingOp(Protocol[P]):
    """An operation that makes pictures of bytes."""

    @overload
    def __call__(self, contents: None = None, *args: P.args, **options: P.kwargs) -> Stage: ...
    @overload
    def __call__(self, contents: Any, *args: P.args, **options: P.kwargs) -> np.ndarray: ...


def drawing_op(op: Callable[Concatenate[Any, P], Any]) -> DrawingOp[P]:
    """Return what `traceable` does, with the types of both ways to call it."""
    typed: DrawingOp[P] = traceable(op)
    return typed


def decoding_op(op: Callable[Concatenate[Any, P], Any]) -> DecodingOp[P]:
    """Return what `traceable` does, with the types of both ways to call it."""
    typed: DecodingOp[P] = traceable(op)
    return typed
