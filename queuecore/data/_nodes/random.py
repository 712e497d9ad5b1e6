"""Random numbers as elements: TensorFlow's own.

They are those of Philox with 4 x 32 bits and 10 rounds (Salmon and others, "Parallel random numbers: as easy as 1, 2,
3", 2011), whose key is the first seed, and whose counter has the second one as its upper half, and the number of a
block of four numbers as its lower half.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._elements.component import Component
from queuecore.data._nodes.choose import Seeds
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Shuffle
from queuecore.data._rows.chunks import Rows

__all__ = ["RandomNumbers", "philox"]

_CHUNK = 4096
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FACTORS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_INT64 = np.dtype(np.int64)


def philox(seeds: tuple[int, int], start: int, n: int) -> np.ndarray[Any, Any]:
    """Return `n` numbers of a stream, of 32 bits each, from number `start` on, as uint64."""
    first, last = start // 4, -(-(start + n) // 4)
    block = np.arange(first, last, dtype=np.uint64)
    high = np.uint64(seeds[1] & 0xFFFFFFFFFFFFFFFF)
    counter = [block & _LOW, block >> _HALF, np.full_like(block, high & _LOW), np.full_like(block, high >> _HALF)]
    keys = [seeds[0] & 0xFFFFFFFF, (seeds[0] >> 32) & 0xFFFFFFFF]
    for _ in range(_ROUNDS):
        a, b = (factor * part for factor, part in zip(_FACTORS, counter[::2], strict=True))
        counter = [
            (b >> _HALF) ^ counter[1] ^ np.uint64(keys[0]),
            b & _LOW,
            (a >> _HALF) ^ counter[3] ^ np.uint64(keys[1]),
            a & _LOW,
        ]
        keys = [(key + weyl) & 0xFFFFFFFF for key, weyl in zip(keys, _WEYL, strict=True)]
    return np.stack(counter, axis=1).reshape(-1)[start - 4 * first :][:n]


@dataclass(frozen=True, eq=False)
class RandomNumbers(Node):
    """Random numbers of 32 bits, as int64, without an end. The input's shuffle keeps the seeds.

    Attributes
    ----------
    rerandomize : bool
        Whether each pass has numbers of its own.
    """

    name = "random"
    hands_on = True

    rerandomize: bool

    @classmethod
    def of(cls, seed: Any, rerandomize: bool) -> RandomNumbers:
        """Return the node for a user's seed."""
        return cls((Chain(Seeds(()), (Shuffle.make(1, seed, rerandomize),)),), rerandomize)

    def words(self) -> dict[str, Any]:
        return {"rerandomize_each_iteration": self.rerandomize}

    def label(self) -> str:
        return "random()"

    def where(self) -> str:
        return "Python: draws numbers, a chunk at a time"

    def count(self, min_count: int | None) -> Count:
        return math.inf if min_count is None else min_count

    def layout(self) -> Layout:
        return Layout((Component(_INT64, ()),))

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows]:
        seeds, iteration = run.seed_of(0, pass_)
        if self.rerandomize:
            one, other = philox(seeds, 2 * iteration, 2).tolist()
            seeds = one, other
        for at in itertools.count(start, _CHUNK):
            yield Rows(_CHUNK, [philox(seeds, at, _CHUNK).astype(_INT64)])
