"""The part of a cache that its iterators share: which pass is kept, and who may write it."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from queuecore._checks.warnings import warn
from queuecore.data._nodes.run import Pairs, Run
from queuecore.data._plan.chain import Chain
from queuecore.data._rows.chunks import Column

__all__ = ["Key", "MOST_BYTES", "MOST_OBJECTS", "STAGE", "Store", "copied", "pieces_from"]

STAGE = "cache"

# Python objects are kept in pieces of so many, so that they are handed in together.
MOST_OBJECTS = 256
MOST_BYTES = 1 << 20

# Seconds for which a run waits for another one of the same chain that is about to give up. Unless a function of the
# user's keeps that one, it is a matter of moments, however busy the machine is.
_GIVING_UP = 10.0


class Key(NamedTuple):
    """The seeds and passes that decide the order of a pass, besides the plan.

    Attributes
    ----------
    pairs : list of tuple of int
        Of each shuffle of the input, the seeds.
    bases : list of int
        And the number of its pass.
    """

    pairs: Pairs
    bases: list[int]


class Store:
    """The store that iterators of a cache share. At most one run of each process writes at a time."""

    # Whether Python objects are the same ones in every pass.
    shares: ClassVar[bool] = False

    def __init__(self) -> None:
        self._writers: dict[int, tuple[object, Run]] = {}
        self._first: Key | None = None
        self._off = False

    def first(self, chain: Chain, pairs: Pairs) -> Key | None:
        """Return what a new iterator's shuffles are to begin with; `None`: with whatever comes next for them."""
        del chain
        return self._first if self._first is not None and self._first.pairs == pairs else None

    def begins(self, key: Key) -> None:
        """Say what an iterator's shuffles begin with: all later ones do, whether its pass is read to its end or not.

        How far a pass is read ahead depends on threads, and orders must not.
        """
        self._first = key

    def find(self, chain: Chain, key: Key, skips: bool) -> Any:
        """Return what is kept of such a pass, with a method ``chunks(start)``; `None`: nothing."""
        raise NotImplementedError

    def count(self, chain: Chain) -> int | None:
        """Return how many elements are kept; `None`: no complete pass is."""
        raise NotImplementedError

    def write(self, chain: Chain, key: Key, run: Run, make: Callable[..., Any]) -> Any:
        """Return a writer; `None`: this pass isn't kept. `make`: what makes one of files; see `Cache.writer`."""
        mine = object(), run
        patience = time.monotonic() + _GIVING_UP
        while not self._off and (other := self._writers.setdefault(os.getpid(), mine)) is not mine:
            # One whose iterator was closed a moment ago keeps nobody from it: its thread gives up when it gets to it.
            if not other[1].stopped or run.stopped or time.monotonic() > patience:
                return None
            time.sleep(0.002)
        if self._off:
            return None
        try:
            writer = self._writer(chain, key, make)
        except OSError as error:
            self.failed(error)
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

    def failed(self, error: BaseException) -> None:
        """Keep nothing more: there is no room for it."""
        self.release()
        self._off = True
        warn(f"{self}: {str(error) or 'out of memory'}: nothing is cached, and every pass makes its elements anew", 2)

    def _writer(self, chain: Chain, key: Key, make: Callable[..., Any]) -> Any:
        raise NotImplementedError


def copied(column: Column) -> Column:
    """Return a column in memory of its own."""
    if isinstance(column, tuple):
        values, ends, dims = column
        return np.array(values), np.array(ends), None if dims is None else np.array(dims)
    return np.array(column)


def pieces_from(ends: list[int], start: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the pieces that have the elements from `start` on, and how many to leave out of each."""
    for piece in range(bisect_right(ends, start) - 1, len(ends) - 1):
        yield piece, max(start - ends[piece], 0)
