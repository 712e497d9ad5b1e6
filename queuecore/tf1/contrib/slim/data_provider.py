"""``slim.data_provider``: items by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["DataProvider"]


class DataProvider:
    """Items of one record in each run.

    Parameters
    ----------
    items_to_tensors : dict of str to Tensor
    num_samples : int
        How many records there are.
    """

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: Any) -> None:
        self._items_to_tensors = dict(items_to_tensors)
        self._num_samples = num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """Return the tensors of items. `ValueError`: there is no such item."""
        for one in items:
            if one not in self._items_to_tensors:
                raise ValueError(f"Item {one!r} is not provided: there are {self.list_items()}")
        return [self._items_to_tensors[one] for one in items]

    def list_items(self) -> list[str]:
        """Return the names of all items."""
        return list(self._items_to_tensors)

    def num_samples(self) -> Any:
        """Return how many records there are."""
        return self._num_samples
