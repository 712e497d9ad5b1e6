"""An element, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore._elements.component import BYTES
from queuecore._elements.nests import mapped
from queuecore._elements.record import ArraySpec
from queuecore.errors import InvalidArgumentError

__all__ = ["Optional"]


class Optional:
    """An element, or the fact that there is none. Made by `Iterator.get_next_as_optional`.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.data.Optional.from_value(3).get_value()
    3
    >>> qc.data.Optional.empty().has_value()
    False
    """

    __slots__ = ("_parts", "_spec")

    def __init__(self, spec: Callable[[], Any] | None = None) -> None:
        self._parts: list[Any] = []
        self._spec = spec

    @classmethod
    def from_value(cls, value: Any) -> Optional:
        """Return an `Optional` with a value.

        Parameters
        ----------
        value : object
            The value, which is not copied.
        """
        made = cls()
        made._parts.append(value)
        return made

    @classmethod
    def empty(cls, element_spec: Any = None) -> Optional:
        """Return an `Optional` without a value.

        Parameters
        ----------
        element_spec : structure of ArraySpec, optional
            The specification of the value that it might have.
        """
        return cls(lambda: element_spec)

    @property
    def element_spec(self) -> Any:
        """The specification of the value; of one that was given alone, that of its arrays. `None`: it is unknown."""
        if self._spec is not None:
            return self._spec()
        return mapped(_spec_of, self._parts[0]) if self._parts else None

    def has_value(self) -> bool:
        """Return whether there is an element."""
        return bool(self._parts)

    def get_value(self) -> Any:
        """Return the element.

        Raises
        ------
        InvalidArgumentError
            If there is none.
        """
        if not self._parts:
            raise InvalidArgumentError("this Optional has no value: the data was at its end. Ask has_value() first")
        return self._parts[0]

    def __repr__(self) -> str:
        """Return the element, or that there is none."""
        return f"Optional({self._parts[0]!r})" if self._parts else "Optional.empty()"


def _spec_of(part: Any) -> Any:
    if isinstance(part, bytes | str):
        return ArraySpec((), BYTES)
    if isinstance(part, np.ndarray | np.generic | bool | int | float | complex | list):
        array = np.asarray(part)
        return ArraySpec(array.shape, BYTES if array.dtype.kind in "SUO" else array.dtype)
    return None
