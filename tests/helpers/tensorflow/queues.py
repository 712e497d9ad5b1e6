"""Plays histories on TensorFlow's own queues: a program of its own, for TensorFlow may answer with a hang or an abort.

It reads a JSON list of histories and writes one of answers. A step is [name, argument, whether it has a timeout, which
operations are over after it]: the last is what the model says, and only tells for what to wait and for what to look a
while. The answer to a step is the list of what is over after it: [number, error class or null, components or null].
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

# Said before the import: else it is said on stderr.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

# How long an operation with a timeout may wait, how long one is given to get into line, and what is far too long.
TIMEOUT, LINE_UP, PATIENCE = 0.15, 0.12, 20.0


class Player:
    """One queue in one session."""

    def __init__(self, tf: Any, setup: dict[str, Any]) -> None:
        self.tf = tf
        dtypes, shapes = [tf.int64, tf.float32], setup["shapes"]
        kind, capacity = setup["kind"], setup["capacity"]
        with tf.Graph().as_default():
            if kind == "RandomShuffleQueue":
                queue = tf.RandomShuffleQueue(
                    capacity, setup["min_after_dequeue"], dtypes, shapes, seed=setup["seed"], shared_name=None
                )
            elif kind == "PriorityQueue":
                queue = tf.PriorityQueue(capacity, dtypes[1:], shapes[1:])
            else:
                queue = getattr(tf, kind)(capacity, dtypes, shapes)
            self.one = [tf.placeholder(d) for d in dtypes]
            self.many = [tf.placeholder(d) for d in dtypes]
            if kind == "PriorityQueue":
                self.one[0].set_shape([])
            self.n = tf.placeholder(tf.int32, [])
            self.ops = {
                "enqueue": queue.enqueue(self.one),
                "enqueue_many": queue.enqueue_many(self.many),
                "dequeue": queue.dequeue(),
                "close": queue.close(),
                "cancel": queue.close(cancel_pending_enqueues=True),
                "size": queue.size(),
                "is_closed": queue.is_closed(),
            }
            # Without shapes these can't even be built with every release.
            if shapes is not None:
                self.ops["dequeue_many"] = queue.dequeue_many(self.n)
                self.ops["dequeue_up_to"] = queue.dequeue_up_to(self.n)
            self.session = tf.Session()
        self.answers: dict[int, list[Any]] = {}

    def run(self, number: int, name: str, argument: Any, timed: bool) -> None:
        feed = {}
        if name in ("enqueue", "enqueue_many"):
            feed = dict(zip(self.one if name == "enqueue" else self.many, argument, strict=True))
        elif name in ("dequeue_many", "dequeue_up_to"):
            feed = {self.n: argument}
        elif name == "close" and argument:
            name = "cancel"
        options = None
        if name not in ("close", "cancel"):
            options = self.tf.RunOptions(timeout_in_ms=int(1000 * (TIMEOUT if timed else 3 * PATIENCE)))
        try:
            value = self.session.run(self.ops[name], feed, options=options)
        except self.tf.errors.OpError as error:
            self.answers[number] = [number, type(error).__name__, None]
            return
        arrays = None if value is None else list(map(np.asarray, value))
        parts = arrays and [[a.dtype.str, a.shape, a.reshape(-1).tolist()] for a in arrays]
        self.answers[number] = [number, None, parts]

    def play(self, steps: list[Any]) -> list[Any]:
        answered_numbers: set[int] = set()
        answers = []
        for number, (name, argument, timed, over) in enumerate(steps):
            if name in ("enqueue", "enqueue_many"):
                argument = [np.array(data, dtype).reshape(shape) for dtype, shape, data in argument]
            thread = threading.Thread(target=self.run, args=(number, name, argument, timed), daemon=True)
            thread.start()
            if number not in over or timed:
                thread.join(TIMEOUT + PATIENCE if timed else LINE_UP)
            end = time.monotonic() + PATIENCE
            while not set(over) <= set(self.answers) and time.monotonic() < end:
                time.sleep(0.001)
            new = sorted(set(self.answers) - answered_numbers)
            answered_numbers.update(new)
            size, closed = self.session.run([self.ops["size"], self.ops["is_closed"]])
            answers.append([[self.answers[n] for n in new], int(size), bool(closed)])
        return answers


def main() -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_eager_execution()
    tf.FIFOQueue, tf.PaddingFIFOQueue = tf.queue.FIFOQueue, tf.queue.PaddingFIFOQueue
    tf.PriorityQueue, tf.RandomShuffleQueue = tf.queue.PriorityQueue, tf.queue.RandomShuffleQueue
    tf.logging.set_verbosity(tf.logging.ERROR)
    json.dump([Player(tf, h["setup"]).play(h["steps"]) for h in json.load(sys.stdin)], sys.stdout)
    sys.stdout.flush()
    # Threads may still be in a run that nothing ends.
    os._exit(0)


if __name__ == "__main__":
    main()
