"""Queues to their end."""

from __future__ import annotations

from typing import Any

from helpers.process import PATIENCE

from queuecore.errors import OutOfRangeError


def drain(queue: Any) -> tuple[list[Any], OutOfRangeError]:
    """Dequeue to the end; return the elements, and the error at the end."""
    items = []
    while True:
        try:
            items.append(queue.dequeue(timeout=PATIENCE))
        except OutOfRangeError as error:
            return items, error
