"""Native, GIL-free input for training loops: from file bytes to ready batches.

`queuecore.data` streams records from files. The queue classes, `Coordinator` and `QueueRunner` hand elements over
between threads, in the manner of TensorFlow 1; `queuecore.stdqueue` has the standard library's queues of Python
objects. `queuecore.errors` is the tree of exceptions.
"""

from typing import TYPE_CHECKING

from queuecore._core import require_compiled

# First of all: the imports below need compiled modules, and an un-built tree should say what to do.
require_compiled()

from queuecore import data, device as device, errors, ops, stdqueue  # noqa: E402
from queuecore._checks.seeds import set_random_seed  # noqa: E402
from queuecore.programs import StageProgram  # noqa: E402
from queuecore.queues import (  # noqa: E402
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
from queuecore.ragged import Ragged, Sparse  # noqa: E402
from queuecore.readers import (  # noqa: E402
    FixedLengthRecordReader,
    IdentityReader,
    LMDBReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from queuecore.runtime import (  # noqa: E402
    Coordinator,
    LooperThread,
    QueueRunner,
    add_queue_runner,
    start_queue_runners,
)
from queuecore.stdqueue import LifoQueue, Queue, SimpleQueue  # noqa: E402
from queuecore.writers import FixedLengthRecordWriter, TarWriter, TFRecordOptions, TFRecordWriter  # noqa: E402

__all__ = [
    "Coordinator",
    "FIFOQueue",
    "FixedLengthRecordReader",
    "FixedLengthRecordWriter",
    "IdentityReader",
    "LMDBReader",
    "LifoQueue",
    "LooperThread",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "Queue",
    "QueueBase",
    "QueueRunner",
    "Ragged",
    "RandomShuffleQueue",
    "ReaderBase",
    "SimpleQueue",
    "Sparse",
    "StageProgram",
    "TFRecordOptions",
    "TFRecordReader",
    "TFRecordWriter",
    "TarWriter",
    "TextLineReader",
    "WholeFileReader",
    "__version__",
    "add_queue_runner",
    "data",
    "errors",
    "ops",
    "set_random_seed",
    "start_queue_runners",
    "stdqueue",
]

__version__ = "0.1.0"

if not TYPE_CHECKING:  # it would tell type checkers that there is every attribute

    def __getattr__(name):
        """Say how to get what isn't here: a module that must be imported by itself, or what lies in one."""
        import importlib.util

        hint = ""
        if not name.startswith("_") and importlib.util.find_spec(f"queuecore.{name}") is not None:
            hint = f": it is a module of its own, so `import queuecore.{name}` first"
        elif name in ("train", "Example"):
            hint = ": tf.train.Example is queuecore.tf1.train.Example"
        raise AttributeError(f"module 'queuecore' has no attribute {name!r}{hint}")
