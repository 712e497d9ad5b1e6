"""Stages: what native operations have in common, and what is known of what they work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.stages import Step
from queuecore.errors import DtypeError, InvalidArgumentError, UnimplementedError
from queuecore.ragged import Ragged

__all__ = ["BYTES", "MAX_DIMS", "Component", "Stage", "Structure", "lone_strings", "strings_of", "structure_of"]

# Any length: NumPy's word for strings of bytes.
BYTES: np.dtype[Any] = np.dtype("S")
MAX_DIMS = 32


class Component(NamedTuple):
    """What is known beforehand of one component of an element.

    Attributes
    ----------
    dtype : numpy.dtype
        In native byte order; ``dtype("S")``, of size 0, for strings of bytes of any length.
    shape : tuple of int or None, or None
        `None` in it for a dimension that may differ from element to element; `None`: all of it may.
    nbytes : int or None
        Length of each string, if it is always the same.
    name : str or None
        Its key, if elements are dicts.
    ragged : bool
        Whether elements differ in the length of their first dimension by nature, so that a batch of them is a `Ragged`.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None
    nbytes: int | None = None
    name: str | None = None
    ragged: bool = False


class Structure(NamedTuple):
    """How a user sees components, where that is not just a dict of them.

    Attributes
    ----------
    assemble : callable
        From the list of components, and whether they are those of a batch, to an element.
    spec : callable
        From a function that makes a specification of a dtype and a shape, to that of an element.
    template : object, optional
        If there is no more to it, the structure of an element over the indices of the components.
    """

    assemble: Callable[[list[Any], bool], Any]
    spec: Callable[[Callable[[np.dtype[Any], tuple[Any, ...]], Any]], Any]
    template: Any = None


class Stage:
    """A step of a `StageProgram`, as an operation returns it that was given no input.

    It knows its options; what components it gets, and so which it gives, shows when it is put into a program.

    Attributes
    ----------
    python : callable or None
        Does the same in Python: a function of the components' values, as `queuecore.ops.python` takes it. It is used
        where there is no native way: where ``bind`` finds out that a library is missing (`UnimplementedError`).
    outputs : tuple of Component, or None
        What `python` returns, as far as that is known.
    device : callable or None
        Does the same in a kernel on a device: from tensors to tensors, as `queuecore._kernels` has them.
    """

    __slots__ = ("_bind", "_text", "device", "outputs", "python", "rowwise", "structure")

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
        self._text = text
        self._bind = bind
        self.structure = structure
        # Whether a batch of elements becomes the same as they do one by one.
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
        given = tuple(components)
        try:
            return self._bind(given)
        except UnimplementedError as error:
            if self.python is None:
                raise
            from queuecore._ops_calls import python_step  # which builds upon this

            return python_step(self._text, given, self.python, self.outputs, str(error), True)

    def on_device(self, tensors: list[Any]) -> list[Any]:
        """Return what becomes of tensors to whose components it could be bound.

        Raises
        ------
        UnimplementedError
            If no kernel can do it.
        """
        if self.device is None:
            raise UnimplementedError(f"{self!r} is nothing for a kernel")
        return self.device(tensors)


def structure_of(template: Any, parts: Sequence[Any]) -> Any:
    """Return the parts in the structure of a template of their indices."""
    if isinstance(template, dict):
        return {name: structure_of(inner, parts) for name, inner in template.items()}
    if isinstance(template, tuple):
        return tuple(structure_of(inner, parts) for inner in template)
    return parts[template]


def lone_strings(label: str, components: tuple[Component, ...]) -> Component:
    """Return the one component, of strings."""
    if len(components) != 1 or components[0].dtype != BYTES:
        shown = ", ".join(str(one.dtype) for one in components)
        raise InvalidArgumentError(f"{label}: expected one component of bytes, got {len(components)} ({shown})")
    return components[0]


def strings_of(label: str, value: Any) -> bytes | np.ndarray | Ragged:
    """Return bytes, an object array of them, or a Ragged of bytes."""
    if isinstance(value, Ragged) and value.is_bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return value.encode() if isinstance(value, str) else bytes(value)
    try:
        # Not np.asarray: NumPy's own strings lose the zero bytes at their end.
        array = value if isinstance(value, np.ndarray) else np.asarray(value, object)
    except ValueError as error:
        raise InvalidArgumentError(f"{label}: {error}") from error
    flat = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    if not all(isinstance(one, bytes) for one in flat):
        raise DtypeError(f"{label}: expected bytes, or an array or list of them, got {array.dtype} ({value!r:.60})")
    if not array.ndim:
        return flat[0]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)
