"""Users' functions: their names, their calls, and the errors that they raise."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from queuecore.errors import DtypeError, PipelineError, QueueCoreError

__all__ = [
    "arguments_of",
    "called",
    "called_at",
    "check_arguments",
    "element_error",
    "name_of",
    "placed",
    "raised",
    "running",
    "running_at",
]


class _Running(threading.local):
    """The numbers of the element for which this thread calls a user's function; 0 if it calls none.

    Random operations that the function calls draw by these: else every element would get the same draws.
    """

    epoch = 0
    element = 0


running = _Running()


class running_at:  # noqa: N801 - used like a function
    """A context in which a user's function is called for an element.

    Parameters
    ----------
    epoch, element : int
        The pass, and the element's number in it; of a batch, the number of its first element.
    """

    __slots__ = ("_after", "_before")

    def __init__(self, epoch: int, element: int) -> None:
        self._after = epoch, element

    def __enter__(self) -> None:
        self._before = running.epoch, running.element
        running.epoch, running.element = self._after

    def __exit__(self, *_: object) -> None:
        running.epoch, running.element = self._before


def name_of(function: Any) -> str:
    """Return the name of a function; it is the same in every process."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def element_error(label: str, name: str, error: BaseException, number: int) -> PipelineError:
    """Return the error for an exception that a user's function raised at an element."""
    return PipelineError(
        f"{label}: {name} raised {type(error).__name__}: {error} (element {number})", stage=label, record=number
    )


def placed(label: str, name: str, error: QueueCoreError, number: int) -> QueueCoreError:
    """Return an error about a function's result, with its place."""
    error.args = (f"{label}: what {name} returns: {error} (element {number})",)
    error.stage, error.record = label, number
    return error


def arguments_of(element: Any) -> tuple[Any, ...]:
    """Return the arguments for a function of an element: the parts of a tuple are separate arguments."""
    return element if type(element) is tuple else (element,)


def check_arguments(label: str, function: Any, count: int) -> None:
    """Raise `DtypeError` if a function is known to take another number of arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it doesn't say
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        shown = "1 argument" if count == 1 else f"{count} arguments"
        raise DtypeError(f"{label}: {name_of(function)} is called with {shown}: {error}") from None


def called_at(label: str, number: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a user's function for element `number`.

    Raises
    ------
    PipelineError
        If it raises: that exception is the ``__cause__``. `KeyboardInterrupt` and `SystemExit` come out as they are.
    """
    try:
        return function(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise element_error(label, name_of(function), error, number) from error


def called(label: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a user's function.

    Raises
    ------
    PipelineError
        If it raises: that exception is the ``__cause__``. `KeyboardInterrupt` and `SystemExit` come out as they are.
    """
    try:
        return function(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # StopIteration too: it would end the loop around this as if the data were at its end.
        raise raised(label, error) from error


def raised(label: str, error: BaseException) -> PipelineError:
    """Return the error for an exception that a user's function raised."""
    return PipelineError(f"{label} raised {type(error).__name__}: {error}")
