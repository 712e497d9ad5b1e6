"""The shard that is meant: by explicit numbers, or by the environment that launchers of distributed training set."""

from __future__ import annotations

import os
from typing import Any

from queuecore._checks.checks import check_int
from queuecore.errors import InvalidArgumentError

__all__ = ["UNEVEN", "resolve_shard"]

UNEVEN = ("keep", "drop", "pad", "raise")
"""Words for elements that the number of shards doesn't divide; a word's place is the native core's number."""

# Places in a group of elements are numbered by the native core with room for products.
_MOST_SHARDS = 2**31 - 1


def resolve_shard(num_shards: Any, index: Any) -> tuple[int, int]:
    """Return the number of shards and the index of one of them; `None` for both: of the environment.

    Raises
    ------
    InvalidArgumentError
        If a number is out of its range, or missing; for a variable with its name and its value.
    """
    if (num_shards is None) != (index is None):
        raise InvalidArgumentError(
            "shard takes a number of shards and an index, or neither, for those of RANK and WORLD_SIZE"
        )
    if num_shards is not None:
        count = check_int(num_shards, "num_shards", 1, _MOST_SHARDS)
        return count, check_int(index, "index", 0, count - 1)
    count, rank = _variable("WORLD_SIZE"), _variable("RANK")
    if not 1 <= count <= _MOST_SHARDS:
        raise InvalidArgumentError(
            f"the environment variable WORLD_SIZE is {count}: it must be from 1 to {_MOST_SHARDS}"
        )
    if not 0 <= rank < count:
        raise InvalidArgumentError(
            f"the environment variable RANK is {rank}, and WORLD_SIZE is {count}: RANK must be from 0 to {count - 1}"
        )
    return count, rank


def _variable(name: str) -> int:
    value = os.environ.get(name)
    if value is None:
        raise InvalidArgumentError(
            f"the environment variable {name} is not set: start the program with a launcher that sets it, or give "
            "shard() its num_shards and index"
        )
    try:
        return int(value)
    except ValueError:
        raise InvalidArgumentError(f"the environment variable {name} is {value!r}, which is no integer") from None
