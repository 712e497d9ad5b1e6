"""Queues of a graph: what runs do with them. What TensorFlow does as well is in helpers/tensorflow/tf1_queues.py."""

import contextlib
import threading
import time
from collections import deque

import hypothesis.strategies as st
import numpy as np
import pytest
from helpers.process import PATIENCE, interrupted_in, soon, thread_ids
from hypothesis import given, settings

import queuecore.tf1 as tf
from queuecore.errors import CancelledError, DeadlineExceededError, InvalidArgumentError, OutOfRangeError
from queuecore.tf1._graph import session


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own, and no thread that outlives its test."""
    before = thread_ids()
    with tf.Graph().as_default() as made:
        yield made
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def sess(graph):
    with tf.Session() as made:
        yield made


def within(milliseconds):
    return tf.RunOptions(timeout_in_ms=milliseconds)


class Beside(threading.Thread):
    """A call in a thread of its own."""

    def __init__(self, call, *args):
        super().__init__(daemon=True)
        self._call = call, args
        self.error = self.result = None
        self.start()

    def run(self):
        call, args = self._call
        try:
            self.result = call(*args)
        except BaseException as error:
            self.error = error

    def over(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


# A queue that nobody fills


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(session, "_STALL_SECONDS", 0.05)


def unstarted(name=None):
    queue = tf.FIFOQueue(3, tf.int32, [()], name=name or "fifo_queue")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)]))
    return queue


def test_a_wait_says_what_was_never_started(impatient, sess):
    queue = unstarted("numbers")
    take = queue.dequeue()
    with (
        pytest.warns(RuntimeWarning, match=r"'numbers'.*tf\.train\.start_queue_runners") as seen,
        pytest.raises(DeadlineExceededError),
    ):
        sess.run(take, options=within(400))
    assert len(seen) == 1


def test_it_says_so_once_and_goes_on_waiting(impatient, sess):
    take = unstarted().dequeue()
    with pytest.warns(RuntimeWarning) as warnings_given:
        beside = Beside(sess.run, take)
        assert soon(lambda: warnings_given.list, PATIENCE)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        assert beside.over() == 1
    assert len(warnings_given) == 1
    coord.request_stop()
    coord.join(threads)


def test_it_says_so_of_what_feeds_the_queue_that_is_waited_for(impatient, sess):
    x = unstarted("first").dequeue()
    second = tf.FIFOQueue(3, tf.int32, [()], name="second")
    runner = tf.train.QueueRunner(second, [second.enqueue(x)])
    tf.train.add_queue_runner(runner)
    coord = tf.train.Coordinator()
    with pytest.warns(RuntimeWarning, match="'first'"):
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        with pytest.raises(DeadlineExceededError):
            sess.run(second.dequeue(), options=within(400))
    coord.request_stop()
    sess.close()
    with contextlib.suppress(CancelledError):
        coord.join(threads)


@pytest.mark.parametrize("way", ["started", "another", "none", "threads"])
def test_a_wait_with_another_cause_is_silent(impatient, sess, way):
    queue = tf.FIFOQueue(3, tf.int32, [()])
    coord = tf.train.Coordinator()
    threads = []
    if way == "another":
        unstarted()
    elif way != "none":
        source = tf.FIFOQueue(3, tf.int32, [()])  # filled by hand, or not at all
        runner = tf.train.QueueRunner(queue, [queue.enqueue(source.dequeue())])
        tf.train.add_queue_runner(runner)
        if way == "started":
            threads = tf.train.start_queue_runners(sess, coord)
        else:
            threads = runner.create_threads(sess, coord, start=True)
    with pytest.raises(DeadlineExceededError):  # warnings are errors
        sess.run(queue.dequeue(), options=within(300))
    sess.close()
    coord.request_stop()
    with contextlib.suppress(CancelledError):
        coord.join(threads)


# Interrupts, ends, limits


@pytest.mark.parametrize("beside", [False, True], ids=["one", "two-beside"])
def test_ctrl_c_ends_a_run(sess, beside):
    a, b = tf.FIFOQueue(1, tf.int32, [()]), tf.FIFOQueue(1, tf.int32, [()])
    fetches = [a.dequeue(), b.dequeue()] if beside else a.dequeue()
    with interrupted_in("_taken" if beside else "dequeue"):
        sess.run(fetches, options=within(20000))
    # Nothing waits any more that would take this.
    sess.run([a.enqueue(1), b.enqueue(2)])
    assert sess.run([a.size(), b.size()]) == [1, 1]


def test_a_run_whose_part_fails_ends_its_other_waits(sess):
    a, b = tf.FIFOQueue(1, tf.int32, [()], name="a"), tf.FIFOQueue(1, tf.int32, [()], name="b")
    sess.run(b.close())
    with pytest.raises(OutOfRangeError, match="'b' is closed"):
        sess.run([a.dequeue(), b.dequeue()])
    sess.run(a.enqueue(5))
    assert sess.run(a.dequeue(), options=within(5000)) == 5


def test_a_closed_session_ends_the_waits_of_all_its_threads(graph):
    queue = tf.FIFOQueue(1, tf.int32, [()])
    other = tf.FIFOQueue(1, tf.int32, [()])
    fetches = [queue.dequeue(), [queue.dequeue(), other.dequeue()], queue.dequeue_many(2), other.dequeue_up_to(3)]
    sess = tf.Session()
    waiting = [Beside(sess.run, fetch) for fetch in fetches]
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        assert all(thread.is_alive() for thread in waiting)
    sess.close()
    for thread in waiting:
        with pytest.raises(CancelledError):
            thread.over()
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.run(queue.size())


def test_a_close_that_is_over_its_time_leaves_the_queue_open(sess):
    # TensorFlow's can't be cancelled.
    queue = tf.FIFOQueue(1, tf.int32, [()])
    put = Beside(sess.run, queue.enqueue_many([[1, 2, 3]]))
    assert soon(lambda: sess.run(queue.size()) == 1, PATIENCE)
    with pytest.raises(DeadlineExceededError):
        sess.run(queue.close(), options=within(100))
    assert not sess.run(queue.is_closed())
    assert sess.run(queue.dequeue_many(3)).tolist() == [1, 2, 3]
    put.over()
    sess.run(queue.enqueue(4))


def test_a_limit_of_the_session_holds_for_every_run(graph):
    queue = tf.FIFOQueue(1, tf.int32, [()])
    with (
        tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=50)) as sess,
        pytest.raises(DeadlineExceededError),
    ):
        sess.run(queue.dequeue())


@pytest.mark.parametrize("fetches", ["one", "two"])
def test_a_limit_leaves_all_that_was_gathered(sess, fetches):
    queue = tf.FIFOQueue(9, tf.int32, [()])
    sess.run(queue.enqueue_many([[1, 2, 3]]))
    takes = queue.dequeue_many(5) if fetches == "one" else [queue.dequeue_many(5), queue.dequeue_many(4)]
    with pytest.raises(DeadlineExceededError):
        sess.run(takes, options=within(100))
    assert sess.run(queue.dequeue_many(3), options=within(5000)).tolist() == [1, 2, 3]


def test_how_many_is_a_scalar(sess):
    # TensorFlow takes a vector of one.
    queue = tf.FIFOQueue(9, tf.int32, [()])
    sess.run(queue.enqueue_many([[1, 2, 3]]))
    n = tf.placeholder(tf.int32)
    with pytest.raises(InvalidArgumentError, match="scalar"):
        sess.run(queue.dequeue_many(n), {n: [2]})
    with pytest.raises(ValueError, match="rank 0"):
        queue.dequeue_many([2])
    assert sess.run(queue.dequeue_many(n), {n: 2}).tolist() == [1, 2]


def test_a_dequeue_whose_value_is_fed_takes_nothing(sess):
    queue = tf.FIFOQueue(9, tf.int32, [()])
    sess.run(queue.enqueue_many([[1, 2]]))
    x = queue.dequeue()
    assert sess.run([x + 1, x], {x: 41}) == [42, 41]
    assert sess.run(queue.size()) == 2


def test_an_error_names_the_operation(sess):
    queue = tf.FIFOQueue(1, tf.int32, [()], name="numbers")
    sess.run(queue.close())
    with pytest.raises(OutOfRangeError) as caught:
        sess.run(queue.dequeue(name="take"))
    assert any("'take' (QueueDequeueV2)" in note for note in caught.value.__notes__)


# Who owns what


def test_an_array_that_was_given_can_be_used_again(sess):
    mine = np.arange(3)
    x = tf.constant(mine)
    mine[:] = 7
    assert sess.run(x).tolist() == [0, 1, 2]


def test_what_a_run_gives_can_be_changed(sess):
    x, text = tf.constant([1, 2, 3]), tf.constant(["a", "b"])
    variable = tf.Variable([1.0, 2.0])
    sess.run(tf.global_variables_initializer())
    for one in (x, text, variable, x + 0, tf.reshape(x, [3, 1])):
        before = sess.run(one).tolist()
        got = sess.run(one)
        got[...] = got.ravel()[-1]
        assert sess.run(one).tolist() == before


def test_a_variable_keeps_what_was_fed_then(sess):
    variable = tf.Variable(np.zeros(3))
    fed = tf.placeholder(tf.float64, [3])
    assign, buffer = variable.assign(fed), np.ones(3)
    sess.run(assign, {fed: buffer})
    buffer[:] = 9
    assert sess.run(variable).tolist() == [1, 1, 1]


def test_operations_can_be_added_outside_of_the_graphs_context(graph):
    queue = tf.FIFOQueue(9, [tf.int32, tf.string], [(), ()])
    with tf.Graph().as_default():
        put, take, many = queue.enqueue([1, "x"]), queue.dequeue(), queue.dequeue_many(1)
        size, closed, end = queue.size(), queue.is_closed(), queue.close()
    assert all(one.graph is graph for one in (put, *take, *many, size, closed, end))


def test_a_queue_that_a_tensor_chooses_is_read_in_the_same_run(sess):
    queues = [tf.FIFOQueue(9, tf.int32, [()]) for _ in range(3)]
    turn = tf.Variable(0)
    sess.run(tf.global_variables_initializer())
    at = tf.mod(tf.assign_add(turn, 1), 3)
    put = tf.QueueBase.from_list(at, queues).enqueue(tf.identity(turn))
    for _ in range(7):
        sess.run(put)
    assert [sess.run(one.size()) for one in queues] == [2, 3, 2]


def test_a_chosen_queue_with_names(sess):
    queues = [tf.FIFOQueue(9, [tf.int32, tf.string], names=["n", "s"]) for _ in range(2)]
    chosen = tf.QueueBase.from_list(1, queues)
    sess.run(chosen.enqueue({"n": 3, "s": "x"}))
    assert sess.run(queues[1].size()) == 1
    assert sess.run(chosen.dequeue()) == {"n": 3, "s": b"x"}


def test_shared_queues_are_compared_when_they_are_used(sess):
    a = tf.FIFOQueue(5, tf.int32, [()], shared_name="x")
    b = tf.FIFOQueue(6, tf.int32, [()], shared_name="x")
    sess.run(a.enqueue(1))
    with pytest.raises(InvalidArgumentError, match="'x' has capacity 5, but 6 was asked for"):
        sess.run(b.dequeue())


# Against a model


OPS = st.one_of(
    st.tuples(st.just("enqueue"), st.just(1)),
    st.tuples(st.just("enqueue_many"), st.integers(0, 4)),
    st.tuples(st.just("dequeue"), st.just(1)),
    st.tuples(st.just("dequeue_many"), st.integers(0, 4)),
    st.tuples(st.just("dequeue_up_to"), st.integers(0, 4)),
    st.tuples(st.just("close"), st.just(0)),
)


def by_hand(name, n, capacity, items, numbers, state):
    """What a run gives that must not wait: a value, or an error's class."""
    if name == "close":
        error = CancelledError if state["closed"] else None
        state["closed"] = True
        return error
    if name.startswith("enqueue"):
        if state["closed"] and n:
            return CancelledError
        room = len(items) + n <= capacity
        items.extend(numbers[: capacity - len(items)])
        return None if room else DeadlineExceededError
    if len(items) < n and not (state["closed"] and name == "dequeue_up_to" and items):
        return OutOfRangeError if state["closed"] else DeadlineExceededError
    taken = [items.popleft() for _ in range(min(n, len(items)))]
    return taken[0] if name == "dequeue" else taken


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(capacity=st.integers(1, 4), plan=st.lists(OPS, max_size=14))
def test_runs_do_what_a_model_says(capacity, plan):
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(capacity, tf.int64, [()])
        x, xs, n = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int32, [])
        ops = {
            "enqueue": queue.enqueue(x),
            "enqueue_many": queue.enqueue_many(xs),
            "dequeue": queue.dequeue(),
            "dequeue_many": queue.dequeue_many(n),
            "dequeue_up_to": queue.dequeue_up_to(n),
            "close": queue.close(),
        }
        items, state = deque(), {"closed": False}
        for step, (name, count) in enumerate(plan):
            numbers = [10 * step + i for i in range(count)]
            feed = {"enqueue": {x: 10 * step}, "enqueue_many": {xs: numbers}, "close": {}, "dequeue": {}}.get(
                name, {n: count}
            )
            expected = by_hand(name, count, capacity, items, numbers, state)
            try:
                found = sess.run(ops[name], feed, options=within(15))
            except (CancelledError, DeadlineExceededError, OutOfRangeError) as error:
                found = type(error)
            assert (found.tolist() if isinstance(found, (np.ndarray, np.generic)) else found) == expected
            assert sess.run(queue.size()) == len(items)


def test_a_shared_shuffles_seed_comes_from_the_graphs_seed_and_its_name():
    def order(name, more):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(3)
            for _ in range(more):  # the number of operations has no part in it
                tf.constant(0)
            queue = tf.RandomShuffleQueue(20, 0, tf.int32, [()], shared_name=name)
            again = tf.RandomShuffleQueue(20, 0, tf.int32, [()], shared_name=name)
            sess.run(queue.enqueue_many([list(range(20))]))
            other = tf.RandomShuffleQueue(20, 0, tf.int32, [()], shared_name=name, seed=5)
            with pytest.raises(tf.errors.InvalidArgumentError, match="has random seeds .* but requested seeds are"):
                sess.run(other.size())
            return sess.run(again.dequeue_many(20)).tolist()

    assert order("a", 0) == order("a", 4)
    assert order("a", 0) != order("b", 0)
