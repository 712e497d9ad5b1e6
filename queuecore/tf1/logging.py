"""``tf.logging``: the logger ``queuecore.tf1`` of Python's `logging`."""

from __future__ import annotations

import logging as _logging

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "debug",
    "error",
    "fatal",
    "get_verbosity",
    "info",
    "log",
    "set_verbosity",
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


def set_verbosity(level: int) -> None:
    """Leave out messages below this level.

    Parameters
    ----------
    level : int
        A level of the module `logging`, such as `INFO`.
    """
    _logger.setLevel(level)


def get_verbosity() -> int:
    """Return the level below which messages are left out."""
    return _logger.getEffectiveLevel()
