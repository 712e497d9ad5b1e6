"""Users' functions that return one integer of an element: its length, the key of its group."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.usercode import called_at, name_of
from queuecore.errors import InvalidArgumentError

__all__ = ["WholeCall"]


@dataclass(frozen=True)
class WholeCall:
    """A function that returns an integer.

    Attributes
    ----------
    what : str
        The method that the function was given to, for messages.
    function : callable
        The user's function.
    """

    what: str
    function: Callable[..., Any]

    def __call__(self, element: Any, number: int) -> int:
        """Return the integer for element `number`; the parts of a tuple, with names too, are separate arguments.

        Raises
        ------
        PipelineError, KeyboardInterrupt, SystemExit
            If the function raises.
        InvalidArgumentError
            If it returns something else.
        """
        result = called_at(self.what, number, self.function, *(element if isinstance(element, tuple) else (element,)))
        if type(result) is int:
            return result
        try:
            if isinstance(result, bool | np.bool_):
                raise TypeError
            return operator.index(
                result.item() if isinstance(result, (np.ndarray, np.generic)) and result.size == 1 else result
            )
        except TypeError:
            raise InvalidArgumentError(
                f"{self.what}: {name_of(self.function)} must return an integer, not {result!r:.80} (element {number})",
                stage=self.what,
                record=number,
            ) from None
