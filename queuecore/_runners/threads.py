"""Threads of Python's: one class for all that queuecore starts."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from typing import Any

from queuecore._core.atoms.runtime import SafeStart
from queuecore._machine import thread_limits
from queuecore.errors import ResourceExhaustedError, UnavailableError

__all__ = ["Thread", "start_thread"]


class Thread(threading.Thread):
    """A thread whose `start` can't hang where memory ends, and that has begun before the interpreter ends.

    Python's own waits for the new thread to say that it runs. A thread that ends before it can, for want of memory,
    never does. And the interpreter can crash if it ends while another daemon is starting such a thread.

    Attributes
    ----------
    broke : callable or None
        Is called in the new thread with an exception that ends it, so that who waits for its work hears of it.
    """

    broke: Callable[[BaseException], object] | None = None

    def start(self) -> None:
        """Start it, and return when it runs.

        Raises
        ------
        RuntimeError
            If it was started before, or if the system has no more threads.
        ResourceExhaustedError
            If the new thread had no memory to begin with.
        """
        if self._started.is_set():  # type: ignore[attr-defined]
            super().start()  # which says so
        attributes = vars(self)
        start = SafeStart(self._bootstrap, self.run, self.broke)  # type: ignore[attr-defined]
        attributes.pop("broke", None)  # its references go with the work, not with the thread
        attributes.update(_started=start, _bootstrap=start.boot, run=start.run)
        try:
            super().start()
        except Exception:
            # There is no thread. Behind anything else, as Ctrl-C, there may be one, which has still to run.
            start.let_go()
            del attributes["_bootstrap"], attributes["run"]
            raise
        if start.has_failed():
            with contextlib.suppress(AttributeError):  # of this Python's; what the new thread could not do
                threading._limbo.pop(self, None)  # type: ignore[attr-defined]
            raise ResourceExhaustedError(
                f"the thread {self.name} ended before it ran: {start.error!r}", stage="runner"
            ) from start.error


def start_thread(
    name: str, work: Callable[..., None], *arguments: Any, broke: Callable[[BaseException], object] | None = None
) -> None:
    """Start a daemon thread of Python's.

    Parameters
    ----------
    broke : callable, optional
        As `Thread.broke`. An exception can end the thread before `work` has begun, or behind its own handlers.

    Raises
    ------
    UnavailableError
        If the system has none.
    ResourceExhaustedError
        If there is no memory for it.
    """
    try:
        thread = Thread(target=work, args=arguments, name=name, daemon=True)
        thread.broke = broke
        thread.start()
    except RuntimeError as error:
        raise UnavailableError(
            f"cannot start the thread {name}: {os.strerror(errno.EAGAIN)}. This process has "
            f"{threading.active_count()} threads of Python; {thread_limits()}",
            errno=errno.EAGAIN,
            stage="runner",
        ) from error
