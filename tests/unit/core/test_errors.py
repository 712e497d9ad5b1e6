"""The tree of exceptions: what each one is, what it carries, and that it survives pickling."""

import copy
import errno
import os
import pickle

import pytest

from queuecore import errors

ALL = [getattr(errors, name) for name in errors.__all__]

# Parent in the tree, and the built-in that each one also is.
TREE = {
    "QueueCoreError": (None, Exception),
    "OutOfRangeError": ("QueueCoreError", Exception),
    "CancelledError": ("QueueCoreError", Exception),
    "InvalidArgumentError": ("QueueCoreError", ValueError),
    "DtypeError": ("InvalidArgumentError", TypeError),
    "CsvError": ("InvalidArgumentError", ValueError),
    "ProtoError": ("InvalidArgumentError", ValueError),
    "DecodeError": ("InvalidArgumentError", ValueError),
    "NotFoundError": ("QueueCoreError", FileNotFoundError),
    "AlreadyExistsError": ("QueueCoreError", FileExistsError),
    "PermissionDeniedError": ("QueueCoreError", PermissionError),
    "UnavailableError": ("QueueCoreError", OSError),
    "NotAFileError": ("UnavailableError", IsADirectoryError),
    "DataLossError": ("QueueCoreError", Exception),
    "TruncatedRecordError": ("DataLossError", Exception),
    "ChecksumError": ("DataLossError", Exception),
    "DecompressError": ("DataLossError", Exception),
    "SourceChangedError": ("DataLossError", Exception),
    "ResourceExhaustedError": ("QueueCoreError", MemoryError),
    "RecordTooLargeError": ("ResourceExhaustedError", MemoryError),
    "SlotsExhaustedError": ("ResourceExhaustedError", MemoryError),
    "DeadlineExceededError": ("QueueCoreError", TimeoutError),
    "StallError": ("DeadlineExceededError", TimeoutError),
    "FailedPreconditionError": ("QueueCoreError", RuntimeError),
    "ForkedPipelineError": ("FailedPreconditionError", RuntimeError),
    "ResumeMismatchError": ("FailedPreconditionError", RuntimeError),
    "DeviceUnavailableError": ("FailedPreconditionError", RuntimeError),
    "UnknownError": ("QueueCoreError", RuntimeError),
    "PipelineError": ("UnknownError", RuntimeError),
    "UnimplementedError": ("QueueCoreError", NotImplementedError),
    "AbortedError": ("QueueCoreError", Exception),
    "InternalError": ("QueueCoreError", Exception),
}


def test_the_tree_is_complete():
    assert sorted(TREE) == sorted(errors.__all__)


@pytest.mark.parametrize("name", TREE)
def test_parents(name):
    parent, builtin = TREE[name]
    cls = getattr(errors, name)
    assert issubclass(cls, builtin)
    if parent:
        assert issubclass(cls, getattr(errors, parent))
        parents = [other for other in TREE if other != name and issubclass(cls, getattr(errors, other))]
        above, expected = parent, set()
        while above:
            expected.add(above)
            above = TREE[above][0]
        assert set(parents) == expected


@pytest.mark.parametrize("cls", ALL)
def test_only_a_message(cls):
    error = cls("what went wrong")
    assert str(error) == error.message == "what went wrong"
    assert (error.path, error.offset, error.record, error.stage) == (None, None, None, None)
    if isinstance(error, OSError):
        assert (error.errno, error.filename) == (None, None)


@pytest.mark.parametrize("cls", ALL)
def test_everything(cls):
    error = cls("no luck", errno=errno.EIO, path=b"a/\xff.bin", offset=12, record=3, stage="read")
    assert str(error) == "no luck"
    assert os.fsencode(error.path) == b"a/\xff.bin"
    assert (error.offset, error.record, error.stage) == (12, 3, "read")
    if isinstance(error, OSError):
        assert (error.errno, error.strerror) == (errno.EIO, os.strerror(errno.EIO))
        assert error.filename == error.path


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("number", [None, errno.ENOENT])
@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_copies_are_equal(cls, number, through):
    error = cls("no luck", errno=number, path="x", offset=0, record=0, stage="open")
    error.add_note("a note")
    other = through(error)
    assert type(other) is cls
    assert str(other) == "no luck"
    assert (other.path, other.offset, other.record, other.stage) == ("x", 0, 0, "open")
    assert other.__notes__ == ["a note"]
    if isinstance(error, OSError):
        assert (other.errno, other.strerror, other.filename) == (error.errno, error.strerror, error.filename)


def test_details_are_keywords():
    with pytest.raises(TypeError):
        errors.NotFoundError(2, "no such file")
