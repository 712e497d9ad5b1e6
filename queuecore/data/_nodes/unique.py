"""Elements that haven't come before in their pass."""

from __future__ import annotations

import functools
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from queuecore._elements.nests import apart
from queuecore._elements.record import ArraySpec
from queuecore.data._nodes.filters import Filter, Predicate
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.chain import Chain
from queuecore.data._rows.chunks import Piece
from queuecore.data._rows.elements import flattened
from queuecore.errors import DtypeError
from queuecore.ragged import Ragged

__all__ = ["UniqueNode"]


@dataclass(frozen=True, eq=False)
class UniqueNode(Filter):
    """The first of all elements that are equal. Elements are integers or strings, or arrays of one of these.

    It is a filter whose predicate keeps what has come: there is a new one in each pass.
    """

    name = "unique"

    @classmethod
    def of(cls, chain: Chain, function: Any = None) -> UniqueNode:
        """Return the node for a dataset; there is no function.

        Raises
        ------
        DtypeError
            If an element is anything else than integers or strings, in one component.
        """
        spec = chain.element_spec
        leaves = flattened(spec, lambda leaf, _: leaf)[1]
        if len(leaves) != 1 or type(leaves[0]) is not ArraySpec or leaves[0].dtype.kind not in "iuS":
            raise DtypeError(f"unique: elements must be integers or strings, in one component, not {spec!r:.80}")
        return cls((chain,), Predicate(cls.name, _is_new, None, "keeps what has come"), chain.layout)

    def words(self) -> dict[str, Any]:
        return {}

    def label(self) -> str:
        return f"{self.name}()"

    def hand_in(self, run: NodeRun, feed: Any, pass_: int, start: int) -> bool:
        return Node.hand_in(self, run, feed, pass_, start)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        seen: set[Any] = set()
        of_pass = replace(self.predicate, function=functools.partial(_is_new, seen))
        return Filter.chunks(replace(self, predicate=of_pass), run, pass_, start)


def _is_new(seen: set[Any], value: Any) -> bool:
    while (split := apart(value)) is not None:
        value = next(part for part in split[0] if part is not None)
    key = _key(value)
    new = key not in seen
    seen.add(key)
    return new


def _key(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if isinstance(value, Ragged):
        return _hashable(value.to_list())
    return (value.shape, value.tobytes()) if value.ndim else value.item()


def _hashable(rows: Any) -> Any:
    return tuple(map(_hashable, rows)) if isinstance(rows, list) else rows
