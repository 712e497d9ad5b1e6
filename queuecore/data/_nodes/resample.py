"""Elements that are left out at random, so that classes come as often as wanted.

The random numbers are those of `queuecore.data._nodes.choose`: number i decides element i of the input, in every pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore.data._nodes.choose import Seeds, fractions
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Shuffle, Unknown
from queuecore.data._rows.chunks import Failed, One, Piece, Rows
from queuecore.data._rows.columns import typed
from queuecore.errors import InvalidArgumentError

__all__ = ["Resample"]

Array = np.ndarray[Any, Any]

# Elements of each class that count as seen at the beginning, and elements after which what was seen counts anew.
_SEEN = 10
_COUNTED = 32


@dataclass(frozen=True, eq=False)
class Resample(Node):
    """Pairs of a class and an element, of which some are left out. The last input's shuffle keeps the seeds.

    Attributes
    ----------
    target : tuple of float
        How often each class is to come, in proportion.
    initial : tuple of float or None
        How often each class comes in the input; `None`: it is estimated from the elements so far.
    """

    name = "rejection_resample"

    target: tuple[float, ...]
    initial: tuple[float, ...] | None

    @classmethod
    def of(cls, pairs: Chain, target: Any, initial: Any, seed: Any) -> Resample:
        """Return the node for a dataset of pairs, and a user's arguments."""
        target_shares = _distribution(target, "target_dist")
        given = None if initial is None else _distribution(initial, "initial_dist")
        if given is not None and len(given) != len(target_shares):
            raise InvalidArgumentError(
                f"rejection_resample: target_dist has {len(target_shares)} classes, and initial_dist {len(given)}"
            )
        return cls((pairs, Chain(Seeds(()), (Shuffle.make(1, seed, False),))), target_shares, given)

    def words(self) -> dict[str, Any]:
        shown = [None if one is None else [part.hex() for part in one] for one in (self.target, self.initial)]
        return {"target_dist": shown[0], "initial_dist": shown[1]}

    def label(self) -> str:
        return f"{self.name}({list(self.target)})"

    def count(self, min_count: int | None) -> int:
        raise Unknown

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    @property
    def uses_up(self) -> bool:
        return self.layout().components is None

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # From the first element on: how many are kept before an element only counting them tells.
        skip_count = start
        chooser = _Chooser(self, *run.seed_of(1, pass_))
        rows = self.layout().components is not None
        dtype = (self.layout().components or self.inputs[0].layout.components or (None,))[0]
        made = (run.rows if rows else run.elements)(0, pass_, 0, None, True)
        with contextlib.closing(made) as pieces:
            for piece in pieces:
                if isinstance(piece, Failed):
                    yield from leave_out(run.skips, piece.error, skip_count > 0)
                    continue
                if isinstance(piece, Rows) and dtype is not None:
                    classes = typed(piece.columns[0], dtype.dtype, ())[piece.first : piece.first + piece.n]
                    chunk: Any = piece
                else:
                    classes, chunk = np.array([piece[0]]), One(piece)
                for part in _parts(chooser, classes, run.skips is not None):
                    if isinstance(part, Failed):
                        yield from leave_out(run.skips, part.error, skip_count > 0)
                        continue
                    passed = min(skip_count, len(part))
                    skip_count -= passed
                    if passed < len(part):
                        yield chunk.chosen(part[passed:]) if isinstance(chunk, Rows) else chunk


def _parts(chooser: _Chooser, classes: Array, _skips: bool) -> Generator[Array | Failed]:
    """Yield the places of elements that are kept, and the errors of those whose class there isn't."""
    bad = np.flatnonzero((classes < 0) | (classes >= chooser.classes))
    begin = 0
    for position in [*bad.tolist(), len(classes)]:
        kept = chooser.kept(classes[begin:position])
        if len(kept):
            yield begin + kept
        if position < len(classes):
            number = chooser.pass_over()
            yield Failed(
                InvalidArgumentError(
                    f"rejection_resample: element {number} has the class {classes[position]}, and there are "
                    f"{chooser.classes} classes",
                    stage="rejection_resample",
                    record=number,
                )
            )
        begin = position + 1


class _Chooser:
    """Decides which elements of a pass are kept."""

    def __init__(self, node: Resample, seeds: tuple[int, int], iteration: int) -> None:
        del iteration  # every pass has the same numbers
        self.classes = len(node.target)
        self._target = np.array(node.target)
        self._initial = None if node.initial is None else np.array(node.initial)
        self._seen = np.full(self.classes, _SEEN, np.int64)
        self._number = 0
        self._random = np.random.Philox(key=np.array(seeds, np.uint64))

    def pass_over(self) -> int:
        """Leave out an element; return its number."""
        fractions(self._random, 1)
        self._number += 1
        return self._number - 1

    def kept(self, classes: Array) -> Array:
        """Return the places of those that are kept, of elements of these classes."""
        points = fractions(self._random, len(classes))
        if self._initial is not None:
            self._number += len(classes)
            return np.flatnonzero(points < self._acceptance(self._initial)[classes])
        places: list[Array] = []
        begin = 0
        while begin < len(classes):
            # The estimate is that of the elements before the last whole group of so many.
            end = min(len(classes), begin + _COUNTED - self._number % _COUNTED)
            part = classes[begin:end]
            if self._number % _COUNTED == 0:
                self._estimate = self._acceptance(self._seen / self._seen.sum())
            places.append(begin + np.flatnonzero(points[begin:end] < self._estimate[part]))
            self._seen += np.bincount(part, minlength=self.classes)
            self._number += end - begin
            begin = end
        return np.concatenate(places) if places else np.empty(0, np.int64)

    def _acceptance(self, initial: Array) -> Array:
        """Return the probability with which an element of each class is kept: as large as all of them may be."""
        ratios: Array = np.divide(self._target, initial, out=np.zeros(self.classes), where=initial > 0)
        most = ratios.max()
        return ratios / most if most > 0 else ratios


def _distribution(numbers: Any, subject: str) -> tuple[float, ...]:
    try:
        array = np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != 1 or not len(array) or not (np.isfinite(array) & (array >= 0)).all() or not array.any():
        raise InvalidArgumentError(
            f"rejection_resample: {subject} must be numbers from 0 on, not all 0; not {numbers!r:.80}"
        )
    total: Sequence[float] = (array / array.sum()).tolist()
    return tuple(total)
