"""Warnings to the user, which no stream that can't be written to makes an error."""

from __future__ import annotations

import warnings

__all__ = ["warn"]


def warn(message: str, stacklevel: int) -> None:
    """Give a `RuntimeWarning`, as `warnings.warn` does where this is called; who has made errors of warnings gets one.

    That ``sys.stderr`` is closed, or what shows warnings fails, is no reason to end a pipeline: that goes unsaid.
    """
    try:
        warnings.warn(message, RuntimeWarning, stacklevel + 1)
    except RuntimeWarning:
        raise
    except Exception:
        return
