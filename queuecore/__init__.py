"""Native, GIL-free input for training loops: from file bytes to ready batches.

`queuecore.data` streams records from files. `Coordinator`, `LooperThread` and `QueueRunner` run the threads of a loader
of one's own. `queuecore.errors` is the tree of exceptions.
"""

from queuecore._core import require_compiled

# First of all: what follows imports compiled modules, and an un-built tree should say what to do.
require_compiled()

from queuecore import data, errors  # noqa: E402
from queuecore._seeds import set_random_seed  # noqa: E402
from queuecore.runtime import (  # noqa: E402
    Coordinator,
    LooperThread,
    QueueRunner,
    add_queue_runner,
    start_queue_runners,
)

__all__ = [
    "Coordinator",
    "LooperThread",
    "QueueRunner",
    "__version__",
    "add_queue_runner",
    "data",
    "errors",
    "set_random_seed",
    "start_queue_runners",
]

__version__ = "0.1.0"
