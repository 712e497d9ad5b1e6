"""``tf.errors``: the classes of `queuecore.errors`, whose names are TensorFlow's, and the root under its name there."""

from queuecore.errors import *  # noqa: F403
from queuecore.errors import QueueCoreError

OpError = QueueCoreError

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
