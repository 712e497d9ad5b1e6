"""The operators of tensors and variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queuecore.tf1._graph.values import DType

__all__ = ["Operators", "register_operators"]

_functions: dict[str, Callable[..., Any]] = {}


def register_operators(**functions: Callable[..., Any]) -> None:
    """Set the functions of the operators, by the names below. Tensors are defined before their arithmetic."""
    _functions.update(functions)


class Operators:
    """The base class of tensors and variables: each operator is the function of that meaning, element by element."""

    dtype: DType

    def __add__(self, other: Any) -> Any:
        """Return the sum."""
        return _functions["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        """Return the sum."""
        return _functions["add"](other, self)

    def __sub__(self, other: Any) -> Any:
        """Return the difference."""
        return _functions["subtract"](self, other)

    def __rsub__(self, other: Any) -> Any:
        """Return the difference."""
        return _functions["subtract"](other, self)

    def __mul__(self, other: Any) -> Any:
        """Return the product."""
        return _functions["multiply"](self, other)

    def __rmul__(self, other: Any) -> Any:
        """Return the product."""
        return _functions["multiply"](other, self)

    def __truediv__(self, other: Any) -> Any:
        """Return the quotient; of integers a float."""
        return _functions["truediv"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        """Return the quotient; of integers a float."""
        return _functions["truediv"](other, self)

    def __floordiv__(self, other: Any) -> Any:
        """Return the quotient, rounded down."""
        return _functions["floordiv"](self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        """Return the quotient, rounded down."""
        return _functions["floordiv"](other, self)

    def __mod__(self, other: Any) -> Any:
        """Return the remainder of the quotient rounded down."""
        return _functions["mod"](self, other)

    def __rmod__(self, other: Any) -> Any:
        """Return the remainder of the quotient rounded down."""
        return _functions["mod"](other, self)

    def __pow__(self, other: Any) -> Any:
        """Return the power."""
        return _functions["pow"](self, other)

    def __rpow__(self, other: Any) -> Any:
        """Return the power."""
        return _functions["pow"](other, self)

    def __and__(self, other: Any) -> Any:
        """Return whether both hold."""
        return _functions["logical_and"](self, other)

    def __rand__(self, other: Any) -> Any:
        """Return whether both hold."""
        return _functions["logical_and"](other, self)

    def __or__(self, other: Any) -> Any:
        """Return whether either holds."""
        return _functions["logical_or"](self, other)

    def __ror__(self, other: Any) -> Any:
        """Return whether either holds."""
        return _functions["logical_or"](other, self)

    def __xor__(self, other: Any) -> Any:
        """Return whether one of them holds."""
        return _functions["logical_xor"](self, other)

    def __rxor__(self, other: Any) -> Any:
        """Return whether one of them holds."""
        return _functions["logical_xor"](other, self)

    def __lt__(self, other: Any) -> Any:
        """Return whether it is less."""
        return _functions["less"](self, other)

    def __le__(self, other: Any) -> Any:
        """Return whether it is less or equal."""
        return _functions["less_equal"](self, other)

    def __gt__(self, other: Any) -> Any:
        """Return whether it is greater."""
        return _functions["greater"](self, other)

    def __ge__(self, other: Any) -> Any:
        """Return whether it is greater or equal."""
        return _functions["greater_equal"](self, other)

    def __neg__(self) -> Any:
        """Return it with the other sign."""
        return _functions["negative"](self)

    def __abs__(self) -> Any:
        """Return its absolute value."""
        return _functions["abs"](self)

    def __invert__(self) -> Any:
        """Return whether it doesn't hold."""
        return _functions["logical_not"](self)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of it: numbers, slices, tensors of one number, `...` and `None` as NumPy has them."""
        return _functions["sliced"](self, key)
