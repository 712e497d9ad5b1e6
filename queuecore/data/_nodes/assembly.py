"""Elements of several datasets, put together in the order of their turns, a chunk at a time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from queuecore.data._rows.chunks import Chunk, Objects, Rows
from queuecore.data._rows.columns import joined

__all__ = ["Assembly"]

# Turns that are put together at once.
_MOST_TURNS = 256


class Assembly:
    """The turns that were taken and not yet handed on.

    Parameters
    ----------
    as_rows : bool
        Whether elements are rows of columns; else they are Python objects.
    most : int
        How many elements are put together at once.
    """

    def __init__(self, as_rows: bool, most: int) -> None:
        self._as_rows = as_rows
        self._most = most
        # The columns of each turn, where it begins in these, and how many elements it has.
        self._turns: list[tuple[list[Any], int, int]] = []
        self._n = 0

    def __bool__(self) -> bool:
        return bool(self._turns)

    def add(self, columns: list[Any], first: int, n: int) -> bool:
        """Add a turn of `n` elements from `first` on; return whether it is time to hand on what there is."""
        self._turns.append((columns, first, n))
        self._n += n
        return len(self._turns) >= _MOST_TURNS or self._n >= self._most

    def part(self, columns: list[Any], first: int, n: int) -> Chunk:
        """Return elements of one dataset that follow each other."""
        return Rows(n, columns, first) if self._as_rows else Objects(columns[first : first + n])

    def rounds(self, parts: list[tuple[list[Any], int]], rounds: int, block: int) -> Chunk:
        """Return the elements of whole rounds, in each of which every dataset gives a block.

        `parts`: the columns of each dataset, and where its first block begins in these.
        """
        n = rounds * block
        if len(parts) == 1 and self._as_rows:
            return self.part(*parts[0], n)
        places = np.arange(n * len(parts), dtype=np.int64).reshape(len(parts), rounds, block)
        order = places.transpose(1, 0, 2).reshape(-1)
        if self._as_rows:
            return Rows(len(order), joined([(columns, first, first + n) for columns, first in parts]), 0, order)
        flat = list(itertools.chain(*(elements[first : first + n] for elements, first in parts)))
        return Objects([flat[index] for index in map(int, order)])

    def taken(self) -> list[Chunk]:
        """Return the elements of all turns as one chunk, or none, and forget them."""
        turns, self._turns, self._n = self._turns, [], 0
        if not turns:
            return []
        if len(turns) == 1:
            return [self.part(*turns[0])]
        if not self._as_rows:
            return [Objects([element for elements, first, n in turns for element in elements[first : first + n]])]
        # One piece of each list of columns. A dataset's turns take rows that follow each other; but rows in memory may
        # be those of several datasets, which are at other places of them.
        spans: dict[int, list[Any]] = {}
        for columns, first, n in turns:
            span = spans.setdefault(id(columns), [columns, first, first + n])
            span[1:] = min(span[1], first), max(span[2], first + n)
        counts = np.array([n for _, _, n in turns])
        places = np.array([first for _, first, _ in turns])
        if len(spans) == 1 and (places[1:] == places[:-1] + counts[:-1]).all():
            ((columns, first, stop),) = spans.values()
            return [Rows(stop - first, columns, first)]
        offsets, total = {}, 0
        for key, (_, first, stop) in spans.items():
            offsets[key] = total - first
            total += stop - first
        begins = places + np.array([offsets[id(columns)] for columns, _, _ in turns])
        order = np.arange(counts.sum(), dtype=np.int64) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return [Rows(len(order), joined([(part, first, stop) for part, first, stop in spans.values()]), 0, order)]
