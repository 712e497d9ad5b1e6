"""``tf.errors``: the errors of `queuecore.errors`, under TensorFlow's names."""

from queuecore.errors import (
    AbortedError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)
from queuecore.errors import QueueCoreError as OpError

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]


class AlreadyExistsError(OpError):
    """What is to be made is there: for ``except`` clauses, nothing here raises it."""


class UnauthenticatedError(OpError):
    """Who asks is not known: for ``except`` clauses, nothing here raises it."""
