"""``tf.logging``: the logger ``queuecore.tf1`` of Python's `logging`."""

from __future__ import annotations

import collections
import logging as _logging
import sys as _sys
from typing import Any

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "debug",
    "TaskLevelStatusMessage",
    "error",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]

DEBUG, INFO, WARN, ERROR, FATAL = (
    _logging.DEBUG,
    _logging.INFO,
    _logging.WARNING,
    _logging.ERROR,
    _logging.CRITICAL,
)

_logger = _logging.getLogger("queuecore.tf1")

debug = _logger.debug
info = _logger.info
warn = warning = _logger.warning
error = _logger.error
fatal = _logger.critical
log = _logger.log


def TaskLevelStatusMessage(msg: str) -> None:  # noqa: N802
    """Log a text as an error."""
    _logger.error(msg)


def flush() -> None:
    """Let the handlers write what they hold."""
    for handler in _logger.handlers:
        handler.flush()


def vlog(level: int, msg: str, *args: Any) -> None:
    """Log a text as `debug`, where levels are numbers from 0 on."""
    _logger.log(max(DEBUG - level, 1), msg, *args)


_counts: collections.Counter[Any] = collections.Counter()


def _count() -> int:
    # How often the place in the program from which a function here is called has called it before.
    caller = _sys._getframe(2)
    place = caller.f_code.co_filename, caller.f_lineno
    _counts[place] += 1
    return _counts[place] - 1


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log a text the first time that a line of the program calls this, and every n-th time from then on."""
    log_if(level, msg, _count() % n == 0, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log a text the first n times that a line of the program calls this."""
    log_if(level, msg, _count() < n, *args)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Log a text if a condition holds."""
    if condition:
        _logger.log(level, msg, *args)


def set_verbosity(level: Any) -> None:
    """Leave out messages below this level.

    Parameters
    ----------
    level : int or str
        A level of the module `logging`, such as `INFO`, or its name.
    """
    _logger.setLevel(level)


def get_verbosity() -> int:
    """Return the level below which messages are left out."""
    return _logger.getEffectiveLevel()
