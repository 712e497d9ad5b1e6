"""QueueRunner: how its threads begin and end, and what its queue, its coordinator and the consumers see of it."""

import contextlib
import itertools
import threading
import time

import pytest
from helpers.models.fifo import PythonFIFO
from helpers.process import PATIENCE, soon, thread_ids

import queuecore as qc
from queuecore.errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    InvalidArgumentError,
    OutOfRangeError,
    QueueCoreError,
)

# Each is made with (capacity, name), and holds numbers.
QUEUES = {
    "python": PythonFIFO,
    "native": lambda capacity, name: qc.FIFOQueue(capacity, [object], [()], name=name),
}


@pytest.fixture(params=QUEUES)
def make_queue(request):
    return QUEUES[request.param]


@pytest.fixture
def queue(make_queue):
    return make_queue(100, "numbers")


@pytest.fixture
def full(make_queue):
    """Return a queue in which the second element waits."""
    return make_queue(1, "full")


@pytest.fixture
def coord():
    return qc.Coordinator()


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def uncaught(monkeypatch):
    """Return the exceptions that end a thread, instead of having them printed."""
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(args.exc_value))
    return caught


def source(queue, items, end=OutOfRangeError):
    """Return an op that enqueues one of the items with each call, and then raises."""
    items = iter(items)
    lock = threading.Lock()

    def op():
        with lock:
            try:
                item = next(items)
            except StopIteration:
                raise end("the end") from None
        queue.enqueue(item)

    return op


def failing(error):
    def op():
        raise error

    return op


def rest(queue):
    """Dequeue to the end; return the elements, and the error at the end."""
    items = []
    while True:
        try:
            items.append(int(queue.dequeue(timeout=PATIENCE)))
        except QueueCoreError as error:
            assert not isinstance(error, DeadlineExceededError)
            return items, error


def joined(threads):
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)


# What it is made of


def test_attributes(queue):
    ops = [source(queue, []), source(queue, [])]
    runner = qc.QueueRunner(queue, ops)
    assert runner.queue is queue
    assert runner.name == queue.name
    assert runner.enqueue_ops == ops
    assert runner.queue_closed_exception_types == (OutOfRangeError,)
    assert runner.exceptions_raised == []
    runner.close_op()
    assert queue.is_closed()


def test_default_cancel_op_ends_pending_enqueues(full, uncaught):
    runner = qc.QueueRunner(full, [source(full, itertools.count())])
    threads = runner.create_threads(start=True)
    assert soon(lambda: full.size() == 1)
    runner.cancel_op()
    assert full.is_closed()
    assert joined(threads)


def test_given_ops_and_types(queue):
    close, cancel = list, dict
    runner = qc.QueueRunner(queue, [list], close, cancel, (CancelledError, OutOfRangeError))
    assert (runner.close_op, runner.cancel_op) == (close, cancel)
    assert runner.queue_closed_exception_types == (CancelledError, OutOfRangeError)
    types = (DataLossError,)
    named = qc.QueueRunner(
        queue=queue, enqueue_ops=(list,), close_op=close, cancel_op=cancel, queue_closed_exception_types=types
    )
    assert named.enqueue_ops == [list]


@pytest.mark.parametrize("ops", [None, [], (), list, "ops", [None], [list, 1], {list}])
def test_bad_ops(queue, ops):
    with pytest.raises(InvalidArgumentError):
        qc.QueueRunner(queue, ops)


def test_no_queue():
    with pytest.raises(ValueError):
        qc.QueueRunner(None, [list])


@pytest.mark.parametrize("bad", [1, "close", [list]])
def test_bad_ends(queue, bad):
    with pytest.raises(InvalidArgumentError):
        qc.QueueRunner(queue, [list], close_op=bad)
    with pytest.raises(InvalidArgumentError):
        qc.QueueRunner(queue, [list], cancel_op=bad)


@pytest.mark.parametrize("bad", [(), [OutOfRangeError], OutOfRangeError, (ValueError,), (OutOfRangeError, 1), "x"])
def test_bad_closed_types(queue, bad):
    with pytest.raises(TypeError):
        qc.QueueRunner(queue, [list], queue_closed_exception_types=bad)


@pytest.mark.parametrize("bad", [1, "coord", threading.Event()])
def test_bad_coordinator(queue, bad):
    with pytest.raises(InvalidArgumentError):
        qc.QueueRunner(queue, [list]).create_threads(bad)


# create_threads


def test_threads(queue, coord):
    def enqueue():
        pass

    class Op:
        def __call__(self):
            pass

    runner = qc.QueueRunner(queue, [enqueue, Op()] + [enqueue] * 2)
    threads = runner.create_threads(coord)
    names = ["enqueue", "Op", "enqueue", "enqueue", "close_on_stop"]
    assert [thread.name for thread in threads] == [f"QueueRunnerThread-{queue.name}-{name}" for name in names]
    assert all(thread.daemon for thread in threads)
    assert not any(thread.is_alive() for thread in threads)
    assert runner.create_threads(coord) == []  # they may be started any time
    for thread in threads:
        thread.start()
    assert all(thread.is_alive() for thread in threads)
    coord.request_stop()
    coord.join()  # registered
    assert not any(thread.is_alive() for thread in threads)


def test_threads_without_a_coordinator(queue):
    threads = qc.QueueRunner(queue, [source(queue, [])] * 2).create_threads(daemon=False, start=True)
    assert len(threads) == 2
    assert not any(thread.daemon for thread in threads)
    assert joined(threads)


def test_the_thread_for_the_stop_is_a_daemon(queue, coord):
    threads = qc.QueueRunner(queue, [source(queue, [])]).create_threads(coord, daemon=False)
    assert [thread.daemon for thread in threads] == [False, True]


def test_no_second_threads_while_the_first_run(full, coord):
    op = source(full, range(2))
    runner = qc.QueueRunner(full, [op], close_op=list)
    threads = runner.create_threads(coord, start=True)
    assert runner.create_threads(coord, start=True) == []
    assert runner.create_threads() == []
    full.dequeue()
    assert joined(threads)
    again = runner.create_threads(coord, start=True)
    assert len(again) == 2
    assert joined(again)
    assert rest_of_open(full) == [1]


def rest_of_open(queue):
    items = []
    while queue.size():
        items.append(int(queue.dequeue(timeout=PATIENCE)))
    return items


def test_many_callers_get_one_set_of_threads(queue, coord):
    for _ in range(20):
        runner = qc.QueueRunner(queue, [lambda: coord.wait_for_stop()])
        barrier = threading.Barrier(8)
        threads = []

        def create(runner=runner, barrier=barrier, threads=threads):
            barrier.wait()
            threads.extend(runner.create_threads(coord, start=True))

        callers = [threading.Thread(target=create) for _ in range(8)]
        for caller in callers:
            caller.start()
        assert joined(callers)
        assert len(threads) == 2
    coord.request_stop()
    coord.join()


def test_a_thread_that_cannot_start(full, coord, monkeypatch):
    runner = qc.QueueRunner(full, [source(full, range(5)), source(full, range(5))])
    start = threading.Thread.start
    count = itertools.count()

    def no_third(thread):
        if next(count) == 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_third)
    with pytest.raises(RuntimeError, match="can't start"):
        runner.create_threads(coord, start=True)
    monkeypatch.undo()
    assert coord.should_stop()
    items, error = rest(full)
    assert items in ([0], [])
    assert str(error.__cause__) == "can't start new thread"
    with pytest.raises(RuntimeError, match="can't start"):
        coord.join()
    again = runner.create_threads(coord, start=True)  # those that never started count for nothing
    assert len(again) == 3
    assert joined(again)


# The table: ends of data


@pytest.mark.parametrize("with_coordinator", [True, False])
def test_end_of_data(queue, coord, with_coordinator):
    runner = qc.QueueRunner(queue, [source(queue, range(10))])
    threads = runner.create_threads(coord if with_coordinator else None, start=True)
    items, error = rest(queue)
    assert items == list(range(10))
    assert type(error) is OutOfRangeError and error.__cause__ is None
    coord.join(threads)  # without a stop
    assert not coord.should_stop()
    assert joined(threads)
    assert runner.exceptions_raised == []
    coord.request_stop()
    coord.join(threads)


def test_the_last_op_closes(queue, coord):
    gate = threading.Event()

    def slow():
        gate.wait()
        raise OutOfRangeError("the end")

    runner = qc.QueueRunner(queue, [source(queue, range(3)), slow, source(queue, range(3))])
    threads = runner.create_threads(coord, start=True)
    assert soon(lambda: not threads[0].is_alive() and not threads[2].is_alive(), PATIENCE)
    assert not queue.is_closed()
    assert threads[3].is_alive()
    gate.set()
    coord.join()
    assert queue.is_closed()
    assert not coord.should_stop()
    assert sorted(rest(queue)[0]) == [0, 0, 1, 1, 2, 2]


def test_close_op_is_called_once(queue, coord):
    calls = []
    end = threading.Barrier(16)

    def op():
        end.wait()
        raise OutOfRangeError("the end")

    threads = qc.QueueRunner(queue, [op] * 16, close_op=lambda: calls.append(1)).create_threads(coord, start=True)
    coord.join(threads)
    assert calls == [1]


def test_errors_of_the_end_ops_are_ignored(queue, coord):
    def fails():
        raise ValueError("from the end op")

    runner = qc.QueueRunner(queue, [source(queue, [])], close_op=fails, cancel_op=fails)
    coord.join(runner.create_threads(coord, start=True))
    coord.request_stop()
    coord.join(runner.create_threads(coord, start=True))
    assert coord.exceptions == ()


def test_other_closed_types(queue, coord):
    runner = qc.QueueRunner(
        queue, [source(queue, range(3), end=DataLossError)], queue_closed_exception_types=(DataLossError,)
    )
    coord.join(runner.create_threads(coord, start=True))
    assert rest(queue)[0] == [0, 1, 2]
    assert not coord.should_stop()


def test_end_of_data_with_a_cause_of_the_users(queue, coord):
    # An op may say where its end came from; only a failed queue's end is an error.
    def op():
        try:
            raise StopIteration
        except StopIteration as error:
            raise OutOfRangeError("the end") from error

    coord.join(qc.QueueRunner(queue, [op]).create_threads(coord, start=True))
    assert queue.is_closed()
    assert not coord.should_stop()


@pytest.mark.parametrize("types", [None, (OutOfRangeError, DataLossError), (DataLossError,)])
def test_stop_iteration_is_the_end_of_data(queue, coord, types):
    items = iter(range(3))
    runner = qc.QueueRunner(queue, [lambda: queue.enqueue(next(items))], queue_closed_exception_types=types)
    coord.join(runner.create_threads(coord, start=True))
    got, error = rest(queue)
    assert got == [0, 1, 2]
    assert error.__cause__ is None
    assert coord.should_stop() == (types == (DataLossError,))


def test_an_end_that_is_not_of_the_closed_types_is_a_clean_stop(queue, coord):
    runner = qc.QueueRunner(queue, [source(queue, range(3))], queue_closed_exception_types=(CancelledError,))
    coord.join(runner.create_threads(coord, start=True))
    assert coord.should_stop()
    items, error = rest(queue)
    assert items == [0, 1, 2]
    assert error.__cause__ is None


# The table: stops


def test_stop(full, coord):
    runner = qc.QueueRunner(full, [source(full, itertools.count())] * 4)
    threads = runner.create_threads(coord, start=True)
    assert full.dequeue(timeout=PATIENCE) is not None
    coord.request_stop()
    coord.join(stop_grace_period_secs=PATIENCE)
    assert joined(threads)
    assert full.is_closed()
    assert coord.exceptions == ()
    _, error = rest(full)
    assert type(error) is OutOfRangeError and error.__cause__ is None


def test_stop_before_the_threads(queue, coord):
    coord.request_stop()
    runner = qc.QueueRunner(queue, [source(queue, range(10))])
    coord.join(runner.create_threads(coord, start=True))
    assert queue.is_closed() and queue.size() == 0


def test_stop_is_heard_between_two_calls(queue, coord):
    count = itertools.count()

    def op():
        if next(count) == 5:
            coord.request_stop()

    coord.join(qc.QueueRunner(queue, [op]).create_threads(coord, start=True))
    assert next(count) == 6


def test_own_cancel_op(queue, coord):
    calls = []
    runner = qc.QueueRunner(queue, [lambda: coord.wait_for_stop()], cancel_op=lambda: calls.append(1))
    threads = runner.create_threads(coord, start=True)
    coord.request_stop()
    coord.join(threads)
    assert calls == [1]
    assert not queue.is_closed()


@pytest.mark.parametrize("cancelled", [True, False])
def test_threads_that_were_stopped_do_not_go_on_after_a_clear(full, coord, cancelled):
    inside, go = threading.Event(), threading.Event()

    def op():
        inside.set()
        go.wait()
        if cancelled:
            raise CancelledError("by the stop, though that is over")

    runner = qc.QueueRunner(full, [op])
    threads = runner.create_threads(coord, start=True)
    assert inside.wait(PATIENCE)
    coord.request_stop()
    coord.clear_stop()
    go.set()
    assert joined(threads)
    assert not coord.should_stop()


# The table: errors


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), SystemExit(1), DataLossError("bad")])
def test_error_with_a_coordinator(queue, coord, error):
    ok = source(queue, [])
    runner = qc.QueueRunner(queue, [failing(error), ok])
    queue.enqueue(7)
    threads = runner.create_threads(coord, start=True)
    items, seen = rest(queue)
    assert items == [7]  # what came before it is delivered
    assert seen.__cause__ is error
    with pytest.raises(CancelledError) as caught:
        queue.enqueue(1)
    assert caught.value.__cause__ is error
    with pytest.raises(type(error)) as caught:
        coord.join()
    assert caught.value is error
    assert "op" in [entry.name for entry in caught.traceback]
    assert runner.exceptions_raised == []
    assert joined(threads)


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), DataLossError("bad")])
def test_error_without_a_coordinator(queue, uncaught, caplog, error):
    runner = qc.QueueRunner(queue, [failing(error)])
    queue.enqueue(7)
    threads = runner.create_threads(start=True)
    items, seen = rest(queue)
    assert items == [7]
    assert seen.__cause__ is error
    assert joined(threads)
    assert runner.exceptions_raised == [error]
    assert uncaught == [error]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "numbers" in caplog.text and repr(error) in caplog.text


def test_exceptions_raised_begins_anew(make_queue, uncaught):
    queue = make_queue(10, "numbers")
    runner = qc.QueueRunner(queue, [source(queue, [], end=ValueError)])
    assert joined(runner.create_threads(start=True))
    assert len(runner.exceptions_raised) == 1
    assert joined(runner.create_threads(start=True))
    assert len(runner.exceptions_raised) == 1


@pytest.mark.parametrize("with_coordinator", [True, False])
def test_what_an_error_does_to_the_other_ops_is_no_error(full, coord, uncaught, with_coordinator):
    blocked = source(full, itertools.count())
    gate = threading.Event()

    def fails():
        gate.wait()
        raise ValueError("the cause")

    runner = qc.QueueRunner(full, [blocked, fails, blocked, blocked])
    threads = runner.create_threads(coord if with_coordinator else None, start=True)
    assert soon(lambda: full.size() == 1)
    gate.set()
    items, error = rest(full)
    assert items and len(items) == len(set(items))  # three threads: in any order
    assert str(error.__cause__) == "the cause"
    assert joined(threads)
    if with_coordinator:
        assert [str(one) for one in coord.exceptions] == ["the cause"]
        with pytest.raises(ValueError, match="the cause"):
            coord.join()
    else:
        assert [str(one) for one in runner.exceptions_raised] == ["the cause"]
        assert [str(one) for one in uncaught] == ["the cause"]


def test_an_error_after_a_plain_stop(queue, coord):
    def op():
        coord.wait_for_stop()
        raise ValueError("late")

    threads = qc.QueueRunner(queue, [op]).create_threads(coord, start=True)
    coord.request_stop()
    with pytest.raises(ValueError, match="late"):
        coord.join(threads)


def test_an_error_after_join_ends_the_thread(queue, coord, uncaught):
    go = threading.Event()

    def op():
        go.wait()
        raise ValueError("too late")

    threads = qc.QueueRunner(queue, [op]).create_threads(coord, start=True)
    coord.request_stop()
    coord.join(stop_grace_period_secs=0, ignore_live_threads=True)
    go.set()
    assert joined(threads)
    assert [str(error) for error in uncaught] == ["too late"]


def test_the_cause_goes_through_several_runners(make_queue, coord):
    first, second, third = (make_queue(10, name) for name in ("first", "second", "third"))

    def failing_source():
        if first.size() == 2:
            raise ValueError("the cause")
        first.enqueue(first.size())

    runners = [
        qc.QueueRunner(first, [failing_source]),
        qc.QueueRunner(second, [lambda: second.enqueue(first.dequeue())] * 2),
        qc.QueueRunner(third, [lambda: third.enqueue(second.dequeue())] * 2),
    ]
    threads = [thread for runner in reversed(runners) for thread in runner.create_threads(coord, start=True)]
    _, error = rest(third)
    assert str(error.__cause__) == "the cause"
    coord.request_stop(error)  # as a consumer does
    with pytest.raises(ValueError, match="the cause"):
        coord.join(threads)
    assert [str(one) for one in coord.exceptions] == ["the cause"]


def test_the_cause_goes_through_several_runners_without_a_coordinator(make_queue, uncaught):
    first, second, third = (make_queue(10, name) for name in ("first", "second", "third"))
    runners = [
        qc.QueueRunner(first, [source(first, range(5), end=ValueError)]),
        qc.QueueRunner(second, [lambda: second.enqueue(first.dequeue())] * 2),
        qc.QueueRunner(third, [lambda: third.enqueue(second.dequeue())]),
    ]
    threads = [thread for runner in runners for thread in runner.create_threads(start=True)]
    items, error = rest(third)
    assert sorted(items)[:5] == items or sorted(items) == sorted(set(items))
    assert isinstance(error.__cause__, ValueError)
    assert joined(threads)
    assert [type(one) for one in uncaught] == [ValueError]  # once, not once a stage
    assert [type(one) for one in runners[0].exceptions_raised] == [ValueError]
    assert len(runners[2].exceptions_raised) == 1


def test_a_consumer_reports_what_a_queue_failed_with(queue, uncaught):
    # The runner has no coordinator, the consumer has: OutOfRangeError is clean, this one isn't.
    threads = qc.QueueRunner(queue, [failing(ValueError("the cause"))]).create_threads(start=True)
    coord = qc.Coordinator()
    with coord.stop_on_exception():
        queue.dequeue(timeout=PATIENCE)
    with pytest.raises(OutOfRangeError) as caught:
        coord.join(threads)
    assert str(caught.value.__cause__) == "the cause"


def test_a_queue_that_cannot_keep_a_cause_is_cancelled(coord):
    class Plain:
        name = "plain"

        def __init__(self):
            self.closes = []

        def close(self, cancel_pending_enqueues=False):
            self.closes.append(cancel_pending_enqueues)

        def is_closed(self):
            return bool(self.closes)

    queue = Plain()
    runner = qc.QueueRunner(queue, [failing(ValueError("x"))])
    with pytest.raises(ValueError):
        coord.join(runner.create_threads(coord, start=True))
    assert set(queue.closes) == {True}


def test_a_cancelled_op_that_is_faster_than_the_one_that_failed(make_queue, coord):
    # The failed op closes the queue, and before that returns, the op that waited has reported its CancelledError.
    class Slow:
        name = "slow"

        def __init__(self):
            self.inner = make_queue(1, "inner")
            self.is_closed = self.inner.is_closed

        def close(self, cancel_pending_enqueues=False):
            self.inner.close(cancel_pending_enqueues)
            threads[0].join(PATIENCE)

    queue = Slow()
    gate = threading.Event()

    def fails():
        gate.wait()
        raise ValueError("the cause")

    threads = qc.QueueRunner(queue, [source(queue.inner, range(2)), fails]).create_threads(coord, start=True)
    assert soon(lambda: queue.inner.size() == 1)
    gate.set()
    with pytest.raises(ValueError, match="the cause"):
        coord.join()
    assert len(coord.exceptions) == 1


def test_an_error_in_closing_does_not_hide_the_first(queue, coord, monkeypatch):
    def fails(queue, error):
        raise TypeError("second")

    monkeypatch.setattr(type(queue), "_fail", fails)
    with pytest.raises(ValueError, match="first"):
        coord.join(qc.QueueRunner(queue, [failing(ValueError("first"))]).create_threads(coord, start=True))
    assert [str(error) for error in coord.exceptions] == ["first"]


def test_any_error_of_the_coordinator_is_the_cause(full, coord):
    threads = qc.QueueRunner(full, [source(full, itertools.count())] * 2).create_threads(coord, start=True)
    error = ValueError("of the consumer")
    coord.request_stop(error)
    assert rest(full)[1].__cause__ is error
    with pytest.raises(ValueError):
        coord.join(threads)
    assert coord.exceptions == (error,)


# The table: somebody else closes


@pytest.mark.parametrize("cancel", [True, False])
def test_closed_by_somebody_else(full, coord, cancel):
    threads = qc.QueueRunner(full, [source(full, itertools.count())]).create_threads(coord, start=True)
    assert soon(lambda: full.size() == 1)
    full.close(cancel_pending_enqueues=True) if cancel else threading.Thread(target=full.close).start()
    items, error = rest(full)
    assert items[:1] == [0]
    assert type(error) is OutOfRangeError and error.__cause__ is None  # an end of data for who consumes
    assert joined(threads)
    assert coord.should_stop()
    with pytest.raises(CancelledError):
        coord.join()
    assert rest(full)[1].__cause__ is None  # nor later


def test_closed_by_somebody_else_with_cancelled_as_a_closed_type(full, coord):
    runner = qc.QueueRunner(
        full,
        [source(full, itertools.count())] * 3,
        queue_closed_exception_types=(OutOfRangeError, CancelledError),
    )
    threads = runner.create_threads(coord, start=True)
    assert soon(lambda: full.size() == 1)
    full.close(cancel_pending_enqueues=True)
    coord.join(threads)
    assert not coord.should_stop()


def test_closed_by_somebody_else_without_a_coordinator(full, uncaught):
    runner = qc.QueueRunner(full, [source(full, itertools.count())])
    threads = runner.create_threads(start=True)
    assert soon(lambda: full.size() == 1)
    full.close(cancel_pending_enqueues=True)
    assert joined(threads)
    assert [type(error) for error in runner.exceptions_raised] == [CancelledError]
    assert uncaught == runner.exceptions_raised
    assert rest(full)[1].__cause__ is None


def test_cancelled_by_another_queue_fails_this_one(make_queue, queue, coord, uncaught):
    other = make_queue(1, "other")
    other.close(cancel_pending_enqueues=True)
    runner = qc.QueueRunner(queue, [lambda: other.enqueue(1)])
    threads = runner.create_threads(start=True)
    _, error = rest(queue)
    assert isinstance(error.__cause__, CancelledError)
    assert joined(threads)


# Native programs


class Program:
    """What a runner sees of an op that runs natively."""

    def __init__(self, end):
        self.end = end

    def start(self, queue, stop):
        for item in range(3):
            queue.enqueue(item)
        if self.end is None:
            stop.wait()
        else:
            raise self.end


@pytest.mark.parametrize("end", [None, OutOfRangeError("end"), ValueError("bad")])
def test_an_op_with_a_start_of_its_own(queue, coord, end):
    runner = qc.QueueRunner(queue, [Program(end)])
    threads = runner.create_threads(coord, start=True)
    assert threads[0].name == f"QueueRunnerThread-{queue.name}-Program"
    assert [int(queue.dequeue(timeout=PATIENCE)) for _ in range(3)] == [0, 1, 2]
    if end is None:
        assert threads[0].is_alive()
        coord.request_stop()
    with pytest.raises(ValueError) if isinstance(end, ValueError) else contextlib.nullcontext():
        coord.join(threads)
    assert queue.is_closed()
    assert rest(queue)[1].__cause__ is (end if isinstance(end, ValueError) else None)


# Collections


@pytest.fixture
def collection(request):
    return request.node.name


def test_empty_collection(collection):
    with pytest.warns(RuntimeWarning, match="nothing was started") as caught:
        assert qc.start_queue_runners(collection=collection) == []
    assert caught[0].filename == __file__


@pytest.mark.parametrize("bad", [None, 1, "runner"])
def test_adding_something_else(bad):
    with pytest.raises(InvalidArgumentError):
        qc.add_queue_runner(bad)


def test_start_queue_runners(make_queue, coord, collection):
    queues = [make_queue(100, f"q{index}") for index in range(3)]
    for queue in queues:
        qc.add_queue_runner(qc.QueueRunner(queue, [source(queue, range(5))] * 2), collection)
    threads = qc.start_queue_runners(coord=coord, start=False, daemon=False, collection=collection)
    assert [thread.name.split("-")[1] for thread in threads] == ["q0"] * 3 + ["q1"] * 3 + ["q2"] * 3
    assert [thread.daemon for thread in threads[:3]] == [False, False, True]
    assert not any(thread.is_alive() for thread in threads)
    assert qc.start_queue_runners(coord, collection=collection) == []  # they are there already: no warning
    for thread in threads:
        thread.start()
    assert all(sorted(rest(queue)[0]) == list(range(5)) for queue in queues)  # two threads each: in any order
    coord.join()
    assert joined(threads)


def test_spent_runners_leave_the_collection(make_queue, collection):
    old, new = make_queue(10, "old"), make_queue(10, "new")
    qc.add_queue_runner(qc.QueueRunner(old, [source(old, range(3))]), collection)
    coord = qc.Coordinator()
    coord.join(qc.start_queue_runners(coord, collection=collection))
    qc.add_queue_runner(qc.QueueRunner(new, [source(new, range(3))]), collection)
    threads = qc.start_queue_runners(coord, collection=collection)
    assert {thread.name.split("-")[1] for thread in threads} == {"new"}
    coord.join(threads)
    with pytest.warns(RuntimeWarning):
        assert qc.start_queue_runners(coord, collection=collection) == []


def test_default_collection(queue, coord):
    qc.add_queue_runner(qc.QueueRunner(queue, [source(queue, range(3))]))
    threads = qc.start_queue_runners(coord)
    assert len(threads) == 2 and all(thread.daemon for thread in threads)
    coord.join(threads)
    with pytest.warns(RuntimeWarning):
        qc.start_queue_runners(coord)


# The tutorial


def test_source_is_evaluated_as_often_as_needed(make_queue, coord):
    # Six elements at a time into a queue of three; ten dequeues. Two calls fill ten, and the third waits.
    queue = make_queue(3, "three")
    calls = itertools.count(1)
    called = []

    def enqueue_many():
        called.append(next(calls))
        for item in range(6):
            queue.enqueue(item)

    threads = qc.QueueRunner(queue, [enqueue_many]).create_threads(coord, start=True)
    assert [int(queue.dequeue(timeout=PATIENCE)) for _ in range(10)] == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    assert soon(lambda: called == [1, 2, 3], PATIENCE)
    coord.request_stop()
    coord.join(threads)
    assert called == [1, 2, 3]


def test_two_increments_and_two_enqueues_in_one_runner(make_queue, coord):
    queue = make_queue(10, "counter")
    lock = threading.Lock()
    value = 0

    def increment():
        nonlocal value
        with lock:
            value += 1
        time.sleep(0)

    def enqueue():
        queue.enqueue(value)

    threads = qc.QueueRunner(queue, [increment, enqueue, increment, enqueue]).create_threads(coord, start=True)
    got = [int(queue.dequeue(timeout=PATIENCE)) for _ in range(100)]
    coord.request_stop()
    coord.join(threads)
    # Two threads may read the counter in one order and enqueue in the other.
    assert max(got) <= value and got[-1] > 0


def test_four_threads_and_a_hundred_dequeues(make_queue, coord):
    queue = make_queue(50, "fifty")
    threads = qc.QueueRunner(queue, [lambda: [queue.enqueue(item) for item in range(7)]] * 4).create_threads(
        coord, start=True
    )
    assert len([queue.dequeue(timeout=PATIENCE) for _ in range(100)]) == 100
    try:
        coord.request_stop()
        coord.join(threads)
    finally:
        coord.request_stop()
    assert joined(threads)
