"""Elements in memory, given without a stream."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from queuecore._core.stream.describe import FIXED, STRING
from queuecore._elements.nests import structure_of
from queuecore.data._nodes.arrays import Items, Numbers, Slices
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import NativeComponent, native_of
from queuecore.data._plan.steps import BatchStep
from queuecore.data._rows.chunks import Chunk, Objects
from queuecore.data._rows.columns import compacted, typed
from queuecore.ragged import ragged_of

__all__ = ["at_hand"]

# Rows that are batched without a stream.
_FEW_ROWS = 4096
_CHAR = np.dtype("S1")


def at_hand(chain: Chain, run: NodeRun, start: int, rows: bool) -> Generator[Chunk] | None:
    """Yield elements that are in memory, for which a stream would cost more; `None` if they are not in memory.

    As rows, or as objects.
    """
    source, steps = chain.source, chain.steps
    if not steps and isinstance(source, Slices | Numbers if rows else Items):
        return source.chunks(run, 0, start)
    if rows or not isinstance(source, Slices) or source.rows.n > _FEW_ROWS:
        return None
    if len(steps) != 1 or not isinstance(steps[0], BatchStep):
        return None
    kinds = [native_of(one, 0) for one in source.given.components or ()]
    if source.given.structure is not None or not all(kind in (FIXED, STRING) for kind, _, _ in kinds):
        return None
    return _batches(source, steps[0], kinds, start)


def _batches(source: Slices, batch: BatchStep, kinds: list[NativeComponent], start: int) -> Generator[Objects]:
    """Yield batches of rows in memory, as a stream would."""
    rows, size = source.rows, batch.batch_size
    columns = compacted(rows.columns, rows.first, rows.n, rows.rows)
    for first in range(start * size, rows.n, size):
        stop = min(first + size, rows.n)
        if stop - first < size and batch.drop_remainder:
            return
        parts: list[Any] = []
        for column, (_, dtype, shape) in zip(columns, kinds, strict=True):
            if isinstance(column, tuple):
                data, ends, _ = column
                text = data[ends[first] : ends[stop]].copy().view(_CHAR)
                parts.append(ragged_of(text, ends[first : stop + 1] - ends[first]))
            else:
                parts.append(typed(column[first:stop], dtype, shape).copy())
        yield Objects([structure_of(source.given.template, parts)])
