"""``slim.data_decoder``: what makes tensors of a record."""

from __future__ import annotations

import abc
from typing import Any

__all__ = ["DataDecoder"]


class DataDecoder(abc.ABC):
    """Makes tensors, called items, of a record. Derive from it for a format of your own."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Any) -> list[Any]:
        """Return the tensors of these items.

        Parameters
        ----------
        data : Tensor
            A record.
        items : list of str
        """

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """Return the names of all items."""
