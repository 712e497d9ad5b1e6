"""The part of a cache that its iterators share: which pass is kept, and who may write it."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from queuecore._checks.warnings import warn
from queuecore.data._nodes.run import NodeRun, Pairs
from queuecore.data._plan.chain import Chain
from queuecore.data._rows.chunks import Column
from queuecore.errors import ResourceExhaustedError, os_error_class

__all__ = ["Key", "MOST_BYTES", "MOST_OBJECTS", "STAGE", "Store", "copied", "pieces_from"]

STAGE = "cache"

# Python objects are kept in pieces of this many, so that they are handed in together.
MOST_OBJECTS = 256
MOST_BYTES = 1 << 20

# Seconds for which a run waits for another run of the same chain that is about to give up. That takes moments, however
# busy the machine is, unless a user's function blocks the other run.
_GIVING_UP = 10.0


class Key(NamedTuple):
    """The seeds and passes that decide the order of a pass, besides the plan.

    Attributes
    ----------
    pairs : list of tuple of int
        The seeds of each shuffle of the input.
    bases : list of int
        The number of each shuffle's pass.
    """

    pairs: Pairs
    bases: list[int]


class Store:
    """The store that iterators of a cache share. At most one run of each process writes at a time.

    Parameters
    ----------
    required : bool
        Whether it is an error, and not only a warning, if nothing can be kept.
    """

    # Whether every pass hands out the same Python objects.
    shares: ClassVar[bool] = False

    def __init__(self, required: bool = False) -> None:
        self.required = required
        self._writers: dict[int, tuple[object, NodeRun]] = {}
        self._first: Key | None = None
        self._off = False

    def first(self, chain: Chain, pairs: Pairs) -> Key | None:
        """Return the key that a new iterator's shuffles begin with; `None` lets each shuffle take its next pass."""
        del chain
        return self._first if self._first is not None and self._first.pairs == pairs else None

    def begins(self, key: Key) -> None:
        """Note the key of an iterator's shuffles: all later ones begin with it, even if its pass isn't read to its end.

        How far a pass is read ahead depends on threads; orders must not.
        """
        self._first = key

    def find(self, chain: Chain, key: Key, skips: bool) -> Any:
        """Return the kept pass of this key, an object with ``chunks(start, layout)``; `None` if nothing is kept."""
        raise NotImplementedError

    def count(self, chain: Chain) -> int | None:
        """Return how many elements are kept; `None` if no complete pass is kept."""
        raise NotImplementedError

    def write(self, chain: Chain, key: Key, run: NodeRun, make: Callable[..., Any]) -> Any:
        """Return a writer; `None` if this pass isn't kept. `make` makes a writer of files; see `Cache.writer`."""
        mine = object(), run
        patience = time.monotonic() + _GIVING_UP
        while not self._off and (other := self._writers.setdefault(os.getpid(), mine)) is not mine:
            # A run whose iterator was closed a moment ago blocks nobody: its thread gives up when it gets to it.
            if not other[1].stopped or run.stopped or time.monotonic() > patience:
                return None
            time.sleep(0.002)
        if self._off:
            return None
        try:
            writer = self._writer(chain, key, make)
        except OSError as error:
            self.failed(error, run)
            writer = None
        except BaseException:
            self.release()
            raise
        if writer is None:
            self.release()
        return writer

    def release(self) -> None:
        """Let another run write."""
        self._writers.pop(os.getpid(), None)

    def failed(self, error: BaseException, run: NodeRun) -> None:
        """Keep nothing more, because there is no room; raise if something must be kept.

        An error of a run that was stopped says nothing: its user may have removed the folder.
        """
        self.release()
        if run.stopped:
            return
        reason = f"{self}: {str(error) or 'out of memory'}: nothing is cached"
        if not self.required:
            self._off = True
            warn(f"{reason}, and every pass makes its elements anew", 2)
            return
        reason += ". Make room there, or let on_unwritable be 'warn'"
        if not isinstance(error, OSError):
            raise ResourceExhaustedError(reason, stage=STAGE) from error
        cls = os_error_class(error.errno or 0)
        raise cls(reason, errno=error.errno, path=error.filename, stage=STAGE) from error

    def _writer(self, chain: Chain, key: Key, make: Callable[..., Any]) -> Any:
        raise NotImplementedError


def copied(column: Column) -> Column:
    """Return a column in memory of its own."""
    if isinstance(column, tuple):
        values, ends, dims = column
        return np.array(values), np.array(ends), None if dims is None else np.array(dims)
    return np.array(column)


def pieces_from(ends: list[int], start: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the pieces that hold the elements from `start` on, and how many to leave out of each."""
    for piece in range(bisect_right(ends, start) - 1, len(ends) - 1):
        yield piece, max(start - ends[piece], 0)
