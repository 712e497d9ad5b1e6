"""Random numbers, of TensorFlow's generator: the same for the same seeds."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from queuecore._core.order import shuffled
from queuecore.tf1._graph import Operation

__all__: list[str] = []


class _Drawn:
    # How far an operation's generator is in one session, in blocks of four numbers.
    def __init__(self) -> None:
        self.blocks = 0
        self.lock = threading.Lock()


def _shuffled(session: Any, op: Operation, value: Any) -> Any:
    # The rows as tf.random_shuffle orders them, anew each time; the operation's attribute "seed" is a complete pair.
    count = len(value)
    if count < 2:
        return value
    drawn = session.resource(("random", op), _Drawn)
    with drawn.lock:
        block = drawn.blocks
        drawn.blocks += (count + 2) // 4  # for count - 1 numbers
    places = np.empty(count, np.int64)
    shuffled(*op.attributes["seed"], block, places)
    return value[places]
