"""Scans: a function of each element and a state that passes from element to element."""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.lazy import lazy
from queuecore._checks.usercode import element_error, name_of, placed, running_at
from queuecore._core.atoms.own import own_result
from queuecore._elements.nests import plain
from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.steps import Count
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.elements import flattened
from queuecore.data._rows.states import first_state, next_state
from queuecore.data._rows.values import converted, has_empty, same_structure, settled, shown, typed_spec
from queuecore.errors import DtypeError, InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged, Sparse

__all__ = ["Scan"]


@dataclass(frozen=True, eq=False)
class Scan(ObjectNode):
    """The results of a function of each element and of the state that the call before it returned.

    Attributes
    ----------
    initial : object
        The state of the first call of each pass. Only this node holds it.
    function : callable
        From a state and an element to the next state and an element.
    """

    name = "scan"

    initial: Any
    function: Callable[[Any, Any], Any]

    @classmethod
    def of(cls, chain: Chain, initial: Any, function: Any) -> Scan:
        """Return the node for a user's arguments."""
        if not callable(function):
            raise InvalidArgumentError(f"scan: scan_func must be a function, not {function!r:.60}")
        return cls((chain,), first_state(initial), function)

    @lazy
    def _digest(self) -> str:
        hasher = hashlib.blake2b(digest_size=8)
        template, leaves = flattened(self.initial, lambda leaf, where: leaf)
        hasher.update(repr(plain(template)).encode())
        for leaf in leaves:
            for part in _arrays(leaf):
                hasher.update(f"{part.dtype.str} {part.shape} ".encode())
                hasher.update(np.ascontiguousarray(part).tobytes())
        return hasher.hexdigest()

    def words(self) -> dict[str, Any]:
        return {"function": name_of(self.function), "initial_state": self._digest}

    def label(self) -> str:
        return f"scan({name_of(self.function)})"

    def where(self) -> str:
        return "Python, for each element: each call needs the state of the one before it"

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].count(min_count)

    @property
    def uses_up(self) -> bool:
        return True

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # From the first element on: the state that a later element meets is unknown.
        state = copy.deepcopy(self.initial)  # the function may change it
        schema = types = None
        skip_count = start
        with contextlib.closing(run.elements(0, pass_, 0, None, True)) as elements:
            for number, element in enumerate(elements):
                if isinstance(element, Failed):
                    yield from leave_out(run.skips, element.error, skip_count > 0)
                    continue
                try:
                    new_state, (result, structure) = self._call(state, element, pass_, number)
                    result, structure = settled(result, structure, types)
                    if schema is not None and not has_empty(schema) and not same_structure(structure, schema):
                        raise InvalidArgumentError(
                            f"scan: {name_of(self.function)} returns another structure than before: "
                            f"{shown(structure)}, and not {shown(schema)} (element {number})",
                            stage=self.name,
                            record=number,
                        )
                except BaseException as error:  # noqa: BLE001 - `leave_out` raises what isn't one element's
                    yield from leave_out(run.skips, error, skip_count > 0)
                    continue
                state, schema, types = new_state, structure, typed_spec(result, structure)
                if skip_count:
                    skip_count -= 1
                else:
                    yield One(result)

    def _call(self, state: Any, element: Any, pass_: int, number: int) -> tuple[Any, tuple[Any, Any]]:
        """Return the next state; and the new element, with its structure."""
        name = name_of(self.function)
        try:
            # Arrays that the state shares with the element or the function are copied: a later call may change them.
            with running_at(pass_, number):
                result = own_result(self.function, (state, element), listed=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise element_error(self.name, name, error, number) from error
        try:
            if not isinstance(result, tuple) or len(result) != 2:
                raise DtypeError(f"a pair is wanted, of a state and an element, and not {result!r:.80}")
            return next_state(state, result[0], "scan_func"), converted(result[1])
        except QueueCoreError as error:
            raise placed(self.name, name, error, number) from error.__cause__


def _arrays(leaf: Any) -> list[np.ndarray[Any, Any]]:
    """Return the arrays in a part of a state."""
    if isinstance(leaf, Ragged):
        return [leaf.row_splits, *_arrays(leaf.values)]
    if isinstance(leaf, Sparse):
        return [leaf.indices, *_arrays(leaf.values), leaf.dense_shape]
    return [np.asarray(leaf)]
