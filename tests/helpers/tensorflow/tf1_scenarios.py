"""Programs over ``tf``, written once, and run with TensorFlow's and with ours.

As a script it runs those named, or all, with TensorFlow (`import tensorflow.compat.v1 as tf`), and prints the outcomes
as JSON. What TensorFlow said last is recorded in tests/corpus/tensorflow/scenarios.json, which ``--record`` writes.

A scenario is a function of ``tf`` that returns lists, numbers, strings; each has a graph of its own. Runs have a time
limit, and one that is over it counts as one that waits for ever.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

import numpy as np

RECORDED = pathlib.Path(__file__).parents[2] / "corpus" / "tensorflow" / "scenarios.json"
SCENARIOS = {}
_folders = []

# Where ours is meant to differ, what ours gives: section 10 of the reference, and what is said beside each.
DIFFERENT = {}

# How long what should wait is watched, and what should come is waited for, in seconds.
LOOK, PATIENCE = 0.15, 20.0

STATUS = [
    "CancelledError", "DeadlineExceededError", "OutOfRangeError", "NotFoundError", "InvalidArgumentError",
    "FailedPreconditionError", "UnimplementedError", "DataLossError", "AlreadyExistsError", "AbortedError",
    "UnknownError", "InternalError",
]  # fmt: skip


def scenario(function):
    """Remember a program whose outcome is the same for both."""
    SCENARIOS[function.__name__] = function
    return function


def different(ours):
    """Remember a program whose outcome is this one for ours, on purpose."""

    def remember(function):
        DIFFERENT[function.__name__] = ours
        return scenario(function)

    return remember


# What programs are written with


def plain(value):
    """Return a value as something that survives JSON: with types, and strings as text."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        return [value.dtype.name, list(value.shape), plain(value.ravel().tolist())]
    if isinstance(value, np.generic):
        return [value.dtype.name, value.item()]
    return value


def named(tf, error):
    """Return the name of an error's class, in TensorFlow's tree."""
    for name in STATUS:
        if isinstance(error, getattr(tf.errors, name)):
            return name
    return type(error).__name__


def sentence(error):
    """Return the core of an error's message: without numbers in names, and without TensorFlow's additions."""
    lines = [one.strip() for one in str(getattr(error, "message", error)).split("\n")]
    nodes = [at for at, one in enumerate(lines) if one.startswith("Node: ")]
    text = lines[nodes[-1] + 1 if nodes else 0].split(" [[")[0]
    return re.sub(r"'_\d+_", "'", text).rstrip(".")


def outcome(tf, call, *args, **kwargs):
    """Return a call's result, or the name of what it raised."""
    try:
        return plain(call(*args, **kwargs))
    except Exception as error:
        return named(tf, error)


def refused(call, *args, **kwargs):
    """Return which error building raises."""
    try:
        call(*args, **kwargs)
    except TypeError:
        return "TypeError"
    except (ValueError, AttributeError):
        return "ValueError"
    return "accepted"


def run(tf, sess, fetches, feed=None, seconds=PATIENCE):
    """Run with a time limit."""
    return sess.run(fetches, feed, options=tf.RunOptions(timeout_in_ms=int(1000 * seconds)))


def got(tf, sess, fetches, feed=None, seconds=PATIENCE):
    """Return what a run gives, or the name of its error."""
    return outcome(tf, run, tf, sess, fetches, feed, seconds)


def waits(tf, sess, fetches, feed=None):
    """Return whether a run doesn't end."""
    return got(tf, sess, fetches, feed, LOOK) == "DeadlineExceededError"


def rest(tf, sess, fetches):
    """Run until there is an error; return all values and the core of its message."""
    values = []
    while True:
        try:
            values.append(plain(run(tf, sess, fetches)))
        except tf.errors.OpError as error:
            # What was asked for and what there was: see the_numbers_in_the_message.
            return [values, named(tf, error), re.sub(r" \(requested \d+, current size \d+\)", "", sentence(error))]


def eventually(condition):
    """Return whether something comes true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def ended(threads):
    """Return whether all threads end."""
    return eventually(lambda: not any(thread.is_alive() for thread in threads))


def shape(tensor):
    """Return what is known of a tensor's shape."""
    found = tensor.get_shape()
    return None if found.ndims is None else found.as_list()


class Beside:
    """A run in a thread of its own, without a time limit."""

    def __init__(self, tf, sess, fetches, feed=None):
        self.result = None
        self._thread = threading.Thread(target=self._work, args=(tf, sess, fetches, feed), daemon=True)
        self._thread.start()

    def _work(self, tf, sess, fetches, feed):
        self.result = [outcome(tf, sess.run, fetches, feed)]

    def waits(self):
        """Return whether it still waits after a while."""
        self._thread.join(LOOK)
        return self._thread.is_alive()

    def over(self):
        """Return its outcome, waiting for it."""
        self._thread.join(PATIENCE)
        return self.result[0] if self.result else "still waiting"


def folder(files):
    """Return a new folder with files of these contents."""
    path = pathlib.Path(tempfile.mkdtemp())
    _folders.append(path)
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path


def runners(tf, sess, coord=None):
    """Initialise everything, and start all runners."""
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return tf.train.start_queue_runners(sess=sess, coord=coord)


def finished(tf, coord, threads):
    """Stop, and join; return the name of the error, or None."""
    coord.request_stop()
    return outcome(tf, coord.join, threads, stop_grace_period_secs=10)


# Running


def outcomes(tf, names=None):
    """Run programs, each with a graph of its own."""
    answers = {}
    for name in names or SCENARIOS:
        with tf.Graph().as_default():
            answers[name] = json.loads(json.dumps(outcome(tf, SCENARIOS[name], tf)))
        while _folders:
            shutil.rmtree(_folders.pop())
    return answers


def load():
    """Import all modules that have scenarios."""
    from helpers.tensorflow import tf1_graphs, tf1_input, tf1_queues, tf1_runners, tf1_tutorials

    return tf1_graphs, tf1_input, tf1_queues, tf1_runners, tf1_tutorials


def main():
    """Run with TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow.compat.v1 as tf

    logging.disable()
    tf.disable_v2_behavior()
    threading.excepthook = lambda args: None  # runners without a coordinator raise in their threads
    tf.logging.set_verbosity(tf.logging.FATAL)
    from helpers.tensorflow import tf1_scenarios  # the scenarios are registered there, not in __main__

    tf1_scenarios.load()
    names = [one for one in sys.argv[1:] if not one.startswith("--")]
    found = tf1_scenarios.outcomes(tf, names)
    text = json.dumps(found, indent=1, sort_keys=True)
    if "--record" in sys.argv:
        RECORDED.write_text(re.sub(r"\n {3,}|\n  (?=\])", " ", text) + "\n")
    else:
        print(text)
    sys.stdout.flush()
    # Threads may still be in a run that nothing ends.
    os._exit(0)


if __name__ == "__main__":
    main()
