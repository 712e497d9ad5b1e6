"""``tf.errors``: the classes of `queuecore.errors`, whose names are TensorFlow's, and the root under its name there."""

import queuecore.errors as _errors
from queuecore.errors import *  # noqa: F403
from queuecore.errors import QueueCoreError

OpError = QueueCoreError


class UnauthenticatedError(QueueCoreError):
    """The caller is not known. Nothing here raises it; programs catch it."""

    error_code = 16


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
UNAUTHENTICATED = 16

_CLASSES: dict[int, type[QueueCoreError]] = {
    one.error_code: one
    for one in (
        _errors.CancelledError,
        _errors.UnknownError,
        _errors.InvalidArgumentError,
        _errors.DeadlineExceededError,
        _errors.NotFoundError,
        _errors.AlreadyExistsError,
        _errors.PermissionDeniedError,
        _errors.ResourceExhaustedError,
        _errors.FailedPreconditionError,
        _errors.AbortedError,
        _errors.OutOfRangeError,
        _errors.UnimplementedError,
        _errors.InternalError,
        _errors.UnavailableError,
        _errors.DataLossError,
        UnauthenticatedError,
    )
}


def exception_type_from_error_code(error_code: int) -> type[QueueCoreError]:
    """Return the class of errors that has a number. `KeyError`: there is none."""
    return _CLASSES[error_code]


def error_code_from_exception_type(cls: type[QueueCoreError]) -> int | None:
    """Return the number of a class of errors; `None` of a class that isn't one of those with a number of their own."""
    return cls.error_code if _CLASSES.get(getattr(cls, "error_code", None) or 0) is cls else None
