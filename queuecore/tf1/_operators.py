"""The operators of tensors and variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queuecore.tf1._graph import Tensor

__all__ = ["Operators"]


def _math() -> Any:
    # It is imported later than tensors are.
    from queuecore.tf1 import _math

    return _math


class Operators:
    """What can stand in an expression: each operator is the function of that meaning, element by element."""

    def __add__(self, other: Any) -> Tensor:
        """Return the sum."""
        made: Tensor = _math().add(self, other)
        return made

    def __radd__(self, other: Any) -> Tensor:
        """Return the sum."""
        made: Tensor = _math().add(other, self)
        return made

    def __sub__(self, other: Any) -> Tensor:
        """Return the difference."""
        made: Tensor = _math().subtract(self, other)
        return made

    def __rsub__(self, other: Any) -> Tensor:
        """Return the difference."""
        made: Tensor = _math().subtract(other, self)
        return made

    def __mul__(self, other: Any) -> Tensor:
        """Return the product."""
        made: Tensor = _math().multiply(self, other)
        return made

    def __rmul__(self, other: Any) -> Tensor:
        """Return the product."""
        made: Tensor = _math().multiply(other, self)
        return made

    def __truediv__(self, other: Any) -> Tensor:
        """Return the quotient; of integers a float."""
        made: Tensor = _math().truediv(self, other)
        return made

    def __rtruediv__(self, other: Any) -> Tensor:
        """Return the quotient; of integers a float."""
        made: Tensor = _math().truediv(other, self)
        return made

    def __floordiv__(self, other: Any) -> Tensor:
        """Return the quotient, rounded down."""
        made: Tensor = _math().floordiv(self, other)
        return made

    def __rfloordiv__(self, other: Any) -> Tensor:
        """Return the quotient, rounded down."""
        made: Tensor = _math().floordiv(other, self)
        return made

    def __mod__(self, other: Any) -> Tensor:
        """Return the remainder of the quotient rounded down."""
        made: Tensor = _math().mod(self, other)
        return made

    def __rmod__(self, other: Any) -> Tensor:
        """Return the remainder of the quotient rounded down."""
        made: Tensor = _math().mod(other, self)
        return made

    def __pow__(self, other: Any) -> Tensor:
        """Return the power."""
        made: Tensor = _math().pow_(self, other)
        return made

    def __rpow__(self, other: Any) -> Tensor:
        """Return the power."""
        made: Tensor = _math().pow_(other, self)
        return made

    def __and__(self, other: Any) -> Tensor:
        """Return whether both hold."""
        made: Tensor = _math().logical_and(self, other)
        return made

    def __rand__(self, other: Any) -> Tensor:
        """Return whether both hold."""
        made: Tensor = _math().logical_and(other, self)
        return made

    def __or__(self, other: Any) -> Tensor:
        """Return whether either holds."""
        made: Tensor = _math().logical_or(self, other)
        return made

    def __ror__(self, other: Any) -> Tensor:
        """Return whether either holds."""
        made: Tensor = _math().logical_or(other, self)
        return made

    def __xor__(self, other: Any) -> Tensor:
        """Return whether one of them holds."""
        made: Tensor = _math().logical_xor(self, other)
        return made

    def __rxor__(self, other: Any) -> Tensor:
        """Return whether one of them holds."""
        made: Tensor = _math().logical_xor(other, self)
        return made

    def __lt__(self, other: Any) -> Tensor:
        """Return whether it is less."""
        made: Tensor = _math().less(self, other)
        return made

    def __le__(self, other: Any) -> Tensor:
        """Return whether it is less or equal."""
        made: Tensor = _math().less_equal(self, other)
        return made

    def __gt__(self, other: Any) -> Tensor:
        """Return whether it is greater."""
        made: Tensor = _math().greater(self, other)
        return made

    def __ge__(self, other: Any) -> Tensor:
        """Return whether it is greater or equal."""
        made: Tensor = _math().greater_equal(self, other)
        return made

    def __neg__(self) -> Tensor:
        """Return it with the other sign."""
        made: Tensor = _math().negative(self)
        return made

    def __abs__(self) -> Tensor:
        """Return its absolute value."""
        made: Tensor = _math().abs_(self)
        return made

    def __invert__(self) -> Tensor:
        """Return whether it doesn't hold."""
        made: Tensor = _math().logical_not(self)
        return made

    def __getitem__(self, key: Any) -> Tensor:
        """Return a part of it: numbers, slices, tensors of one number, `...` and `None` as NumPy has them."""
        made: Tensor = _math().sliced(self, key)
        return made
