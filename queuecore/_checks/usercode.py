"""Functions of the user's: what they are called, how they are called, and the errors that they raise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from queuecore.errors import PipelineError, QueueCoreError

__all__ = ["arguments_of", "called", "called_at", "element_error", "name_of", "placed", "raised"]


def name_of(function: Any) -> str:
    """Return what to call a function; the same in every process."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def element_error(what: str, name: str, error: BaseException, number: int) -> PipelineError:
    """Return the exception for one that a function of the user's raised at an element."""
    return PipelineError(
        f"{what}: {name} raised {type(error).__name__}: {error} (element {number})", stage=what, record=number
    )


def placed(what: str, name: str, error: QueueCoreError, number: int) -> QueueCoreError:
    """Return an error about what a function returned, with its place."""
    error.args = (f"{what}: what {name} returns: {error} (element {number})",)
    error.stage, error.record = what, number
    return error


def arguments_of(element: Any) -> tuple[Any, ...]:
    """Return the arguments that a function of an element gets: the parts of a tuple are arguments of their own."""
    return element if type(element) is tuple else (element,)


def called_at(what: str, number: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the user's returns for element `number`.

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
        raise element_error(what, name_of(function), error, number) from error


def called(label: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the user's returns.

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
    """Return the exception for one that a function of the user's raised."""
    return PipelineError(f"{label} raised {type(error).__name__}: {error}")
