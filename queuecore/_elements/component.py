"""Components: the facts known beforehand about the parts of an element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["BYTES", "Component", "Structure", "shape_text"]

# Any length: NumPy's word for strings of bytes.
BYTES: np.dtype[Any] = np.dtype("S")


class Component(NamedTuple):
    """The facts known beforehand about one component of an element.

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
    """The form in which a user sees components, where that is not just a dict of them.

    Attributes
    ----------
    assemble : callable
        Takes the list of components, and whether they belong to a batch, and returns an element.
    spec : callable
        Takes a function that makes a specification of a dtype and a shape, and returns that of an element.
    template : object, optional
        The structure of an element over the indices of the components, if that says everything.
    """

    assemble: Callable[[list[Any], bool], Any]
    spec: Callable[[Callable[[np.dtype[Any], tuple[Any, ...]], Any]], Any]
    template: Any = None


def shape_text(shape: Sequence[int | None] | None) -> str:
    """Return a shape as messages show it."""
    return "unknown" if shape is None else f"[{', '.join('?' if side is None else str(side) for side in shape)}]"
