"""Seeds: how a graph-level seed and an operation's own seed become the pair that starts a generator."""

from __future__ import annotations

import operator
import os
import threading
from typing import SupportsIndex

from queuecore.errors import InvalidArgumentError

__all__ = ["Pair", "draw_pair", "paired", "resolve", "set_random_seed"]

# TensorFlow's constants: seeds are taken modulo the largest int32, and an operation seed with no graph seed is paired
# with this one.
_MODULUS = 2**31 - 1
_DEFAULT_GRAPH_SEED = 87654321


class Pair(tuple[int, int]):
    """A pair of seeds that is complete: neither the graph-level seed nor a counter has a part in it."""

    __slots__ = ()


_lock = threading.Lock()
_graph_seed: int | None = None
_unseeded_ops = 0


def _as_seed(seed: SupportsIndex | None, subject: str) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise InvalidArgumentError(f"{subject} must be an integer or None, not {seed!r}")
    return operator.index(seed)


def set_random_seed(seed: SupportsIndex | None) -> None:
    """Set the graph-level seed, which all seeded operations made from now on combine with their own.

    Parameters
    ----------
    seed : int or None
        The seed, taken modulo 2**31 - 1. `None` removes it.

    Raises
    ------
    InvalidArgumentError
        If `seed` is neither an integer nor `None`.

    Notes
    -----
    It is read when an operation (``Dataset.shuffle``, for example) is *made*, not when it runs; an operation made
    before keeps its seeds. It holds for the whole process. The two seeds make a pair as in TensorFlow:

    ================ ============== ==================================================================
    graph-level seed operation seed pair
    ================ ============== ==================================================================
    ``g``            ``s``          ``(g, s)``
    not set          ``s``          ``(87654321, s)``
    ``g``            not given      ``(g, i)``: the operation is the i-th such one, counted from 0, since
                                    ``set_random_seed`` was called
    not set          not given      drawn from the operating system, and part of ``state_dict()``
    ================ ============== ==================================================================

    Both are taken modulo 2**31 - 1, and a pair of two zeros becomes ``(0, 2**31 - 1)``. Where the operation seed is
    given, the order that follows is TensorFlow's own. The third row differs: TensorFlow uses the operation's number in
    its graph, which has no counterpart here.

    Safe to call from any thread; never blocks.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.set_random_seed(1234)
    >>> qc.set_random_seed(None)
    """
    global _graph_seed, _unseeded_ops
    value = _as_seed(seed, "seed")
    with _lock:
        _graph_seed = value
        _unseeded_ops = 0


def draw_pair() -> tuple[int, int]:
    """Draw a pair of seeds, neither of them zero, from the operating system."""
    # Below 2**31, as all other pairs: a state that holds them survives any JSON reader.
    low, high = (int.from_bytes(os.urandom(8), "little") % (_MODULUS - 1) + 1 for _ in range(2))
    return low, high


def resolve(seed: SupportsIndex | Pair | None) -> tuple[tuple[int, int], bool]:
    """Return the pair for a seed, which may be one already, and whether it was determined by any seed at all."""
    global _unseeded_ops
    if isinstance(seed, Pair):
        return seed, True
    op_seed = _as_seed(seed, "seed")
    with _lock:
        graph_seed = _graph_seed
        if op_seed is None:
            if graph_seed is None:
                return draw_pair(), False
            op_seed = _unseeded_ops
            _unseeded_ops += 1
    return paired(graph_seed, op_seed), True


def paired(graph_seed: int | None, op_seed: int) -> Pair:
    """Return the pair of a graph-level seed and an operation's."""
    first = _DEFAULT_GRAPH_SEED if graph_seed is None else graph_seed
    pair = Pair((first % _MODULUS, op_seed % _MODULUS))
    return pair if any(pair) else Pair((0, _MODULUS))
