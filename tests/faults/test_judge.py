"""The judge of faults finds what breaks a promise: helpers.faults.judge."""

import contextlib

import pytest
from helpers.faults.judge import judged

import queuecore as qc
from queuecore._core.stream.stream import Held
from queuecore._queues.base import QueueBase
from queuecore.data import FixedLengthRecordDataset
from queuecore.data.iterator import Iterator
from queuecore.errors import FailedPreconditionError, QueueCoreError

pytestmark = pytest.mark.unwatched


def use(path):
    """Batches of a file and of one that is missing, and a queue with something in it."""
    path.write_bytes(bytes(range(40)))
    with judged():
        queue = qc.FIFOQueue(2, ["i4"], [()])
        queue.enqueue(1)
        dataset = FixedLengthRecordDataset([path, path.with_name("missing")], 4).batch(2)
        with contextlib.suppress(QueueCoreError), iter(dataset) as it:
            for _ in it:
                pass


def test_nothing_is_found(tmp_path):
    use(tmp_path / "a")


def gives_less(it):
    # The second of the iterators over it, and so on.
    element = Held.__next__(it)
    gives_less.seen.setdefault(id(it), it)
    return element if len(gives_less.seen) % 2 else Held.__next__(it)


def forgets(it):
    try:
        return Held.__next__(it)
    except FailedPreconditionError:
        raise FailedPreconditionError("it is closed") from None


PLANTED = {
    "an element is lost": (Iterator, "__next__", gives_less),
    "the first error is forgotten": (Iterator, "__next__", forgets),
    "a place leads nowhere": (Iterator, "load_state_dict", lambda it, state: None),
    "a queue keeps an element": (QueueBase, "size", lambda queue: 0),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_broken_promise_is_found(tmp_path, monkeypatch, what):
    gives_less.seen = {}
    monkeypatch.setattr(*PLANTED[what])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        use(tmp_path / "a")


@pytest.mark.parametrize("what", ["stage", "path"])
def test_an_error_without_its_place_is_found(tmp_path, monkeypatch, what):
    def says_nothing(it):
        try:
            return Held.__next__(it)
        except QueueCoreError as error:
            if what == "stage":
                error.stage = None
            else:
                error.args = ("something is wrong",)
            raise

    monkeypatch.setattr(Iterator, "__next__", says_nothing)
    with pytest.raises(AssertionError):
        use(tmp_path / "a")


def test_a_slow_close_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.faults.judge.AT_ONCE", 0.0)
    with pytest.raises(AssertionError):
        use(tmp_path / "a")
