"""Texts of errors: TensorFlow's, on which programs match, and behind it ours, which says more."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from queuecore.errors import QueueCoreError

__all__ = ["Text", "before", "retell", "retold"]

Text = tuple[str, str | Callable[[re.Match[str]], str]]


def before(error: QueueCoreError, theirs: str) -> None:
    """Put TensorFlow's text before that of an error, once."""
    if not error.message.startswith(theirs):
        error.args = (f"{theirs}: {error.message}",)


def retell(error: QueueCoreError, *texts: Text) -> None:
    """Put TensorFlow's text before that of an error.

    Parameters
    ----------
    error : QueueCoreError
    *texts : tuple of str, and str or callable
        A pattern of our texts, and what TensorFlow says then: a template of groups, or a function of the match.
    """
    for pattern, theirs in texts:
        found = re.search(pattern, error.message)
        if found is not None:
            before(error, found.expand(theirs) if isinstance(theirs, str) else theirs(found))
            return


@contextlib.contextmanager
def retold(*texts: Text) -> Iterator[None]:
    """As `retell`, of an error that leaves the context."""
    try:
        yield
    except QueueCoreError as error:
        retell(error, *texts)
        raise
