"""The parts of a stream, each without the others: the gate for calls, the place, and the pipes."""

import threading

import pytest
from helpers.process import soon

from queuecore.data import FixedLengthRecordDataset, Options
from queuecore.errors import FailedPreconditionError

parts = pytest.importorskip("queuecore._core.testing.streams", reason="no test hooks (QUEUECORE_TESTING=1)")

RECORD_BYTES, RECORDS, BATCH = 4, 57, 5
COMPARED = ("elements", "files_known", "files_digest", "iterations", "begun", "missing", "breaks", "ended")


@pytest.fixture
def gate():
    return parts.GateAlone()


def in_thread(function):
    """Start a thread; return it, and the list that gets the function's result or error."""
    outcome = []

    def run():
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_calls_are_nested_on_one_thread_and_queue_on_others(gate):
    gate.enter()
    gate.enter()
    thread, outcome = in_thread(lambda: (gate.enter(), gate.leave(), "in")[2])
    assert soon(lambda: gate.queued == 1)
    gate.leave()
    assert not outcome  # the outer call is still in
    gate.leave()
    thread.join()
    assert outcome == ["in"]


def test_a_call_lets_others_in_before_it_waits(gate):
    gate.enter()
    assert gate.let_in()
    thread, outcome = in_thread(lambda: (gate.enter(), gate.leave(), "in")[2])
    thread.join()
    assert outcome == ["in"]
    gate.enter()
    gate.enter()
    assert not gate.let_in()  # the outer call is in the middle of something
    gate.leave()
    gate.leave()


def test_nothing_enters_a_change(gate):
    gate.enter()
    gate.change(True)
    with pytest.raises(FailedPreconditionError, match="in the middle of a call"):
        gate.enter()
    gate.change(False)
    gate.leave()
    gate.enter()


@pytest.mark.parametrize("way", ["close", "fail"])
def test_who_waits_is_told_of_the_end(gate, way):
    cause = OSError("a disk")
    gate.enter()
    thread, outcome = in_thread(gate.enter)
    assert soon(lambda: gate.queued == 1)
    gate.close() if way == "close" else gate.fail(cause)
    thread.join()
    assert isinstance(outcome[0], FailedPreconditionError)
    assert outcome[0].__cause__ is (cause if way == "fail" else None)


def test_an_end_refuses_by_stop_iteration(gate):
    gate.end()
    with pytest.raises(StopIteration):
        gate.refuse()


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"".join(number.to_bytes(RECORD_BYTES, "little") for number in range(RECORDS)))

    def make(buffer_size):
        made = FixedLengthRecordDataset(path, RECORD_BYTES)
        return (made.shuffle(buffer_size, seed=3) if buffer_size else made).batch(BATCH)

    return make


def described(dataset):
    """Return the description of a dataset's stream, and the seeds of its shuffles."""
    chain = dataset._chain
    seeds = [shuffle.seeds.pair for shuffle in chain.shuffles]
    description = chain.native(Options())
    chain.add_steps(description.ops, [(pair, None) for pair in seeds])
    description.num_threads = 2
    return description, seeds


def as_numbers(batch):
    return [int.from_bytes(batch[at : at + RECORD_BYTES], "little") for at in range(0, len(batch), RECORD_BYTES)]


@pytest.mark.parametrize("buffer_size", [0, 20])
def test_a_place_goes_to_every_place_of_a_stream(dataset, buffer_size):
    made = dataset(buffer_size)
    description, seeds = described(made)
    course = parts.CourseAlone(description)
    assert course.saved().elements == 0
    with iter(made) as iterator:
        for _ in iterator:
            place, _ = iterator._stream.position()
            course.arrive(place, seeds, [None] * len(seeds))
            found = course.saved()
            for name in COMPARED:
                assert getattr(found, name) == getattr(place, name), name


@pytest.mark.parametrize("buffer_size", [0, 20])
def test_pipes_begin_where_the_place_is(dataset, buffer_size):
    made = dataset(buffer_size)
    expected = [[int.from_bytes(bytes(record), "little") for record in batch] for batch in made]
    description, _ = described(made)
    course = parts.CourseAlone(description)
    pipes = parts.PipesAlone(course, description)
    assert not pipes.discard()
    for number, batch in enumerate(expected):
        pipes.begin()
        assert pipes.stats()["threads"] > 0
        assert as_numbers(pipes.take(tells=False)) == batch  # nobody told the place: the next pipe gives it again
        assert pipes.discard()
        pipes.begin()
        assert as_numbers(pipes.take()) == batch
        assert course.saved().elements == number + 1
        assert pipes.discard()
        assert not pipes.discard()
    pipes.begin()
    assert pipes.take() is None
