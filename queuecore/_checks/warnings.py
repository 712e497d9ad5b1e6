"""Warnings to the user; a stream that can't be written to doesn't make them errors."""

from __future__ import annotations

import warnings

__all__ = ["warn"]


def warn(message: str, stacklevel: int) -> None:
    """Give a `RuntimeWarning` as `warnings.warn` does at the call; a filter that makes warnings errors raises it.

    A closed ``sys.stderr``, or a failure of the code that shows warnings, doesn't end a pipeline: it goes unreported.
    """
    try:
        warnings.warn(message, RuntimeWarning, stacklevel + 1)
    except RuntimeWarning:
        raise
    except Exception:
        return
