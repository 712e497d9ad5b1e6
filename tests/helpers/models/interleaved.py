"""Which element comes when, by tf.data's interleave: slots in a circle, so many elements of each in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# cycle_length, block_length, lengths of the inputs (elements of input i: 100 i, 100 i + 1 ...), what TensorFlow gives.
TENSORFLOW = [
    (2, 1, [2, 4, 1, 3], "0 100 1 101 102 200 103 300 301 302"),
    (2, 2, [3, 4, 1, 3], "0 1 100 101 2 102 103 200 300 301 302"),
    (3, 1, [1, 3, 2, 2, 1], "0 100 200 101 201 300 102 301 400"),
    (2, 3, [2, 7, 1], "0 1 100 101 102 200 103 104 105 106"),
    (2, 1, [0, 2, 0, 3], "100 101 300 301 302"),
    (3, 2, [5, 1, 0, 4, 2], "0 1 100 2 3 300 301 400 401 4 302 303"),
    (2, 2, [2, 4, 2], "0 1 100 101 102 103 200 201"),
]


def interleave(inputs: Iterable[Iterable[Any]], cycle_length: int, block_length: int) -> Iterator[Any]:
    """The elements of all inputs. An input may raise: so does this, in its place."""
    waiting = iter(inputs)
    slots: list[Iterator[Any] | None] = [None] * cycle_length
    index = yielded = 0
    ended = False
    while not ended or any(slot is not None for slot in slots):
        slot = slots[index]
        if slot is None and not ended:
            try:
                slots[index] = iter(next(waiting))
            except StopIteration:
                ended = True
            continue
        if slot is not None:
            try:
                element = next(slot)
            except StopIteration:
                slots[index] = None
            else:
                yield element
                yielded += 1
                if yielded < block_length:
                    continue
        index, yielded = (index + 1) % cycle_length, 0


def of_lists(records: Sequence[Sequence[Any]], cycle_length: int, block_length: int) -> list[Any]:
    """The same of lists, as a list."""
    return list(interleave(records, cycle_length, block_length))
