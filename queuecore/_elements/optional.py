"""An element, or none."""

from __future__ import annotations

from typing import Any

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

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Any] = []

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
    def empty(cls) -> Optional:
        """Return an `Optional` without a value."""
        return cls()

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
