"""Sessions of queuecore.tf1, beyond what TensorFlow does as well (helpers/tensorflow/tf1_graphs.py)."""

import gc
import logging
import threading
import weakref

import numpy as np
import pytest
from helpers.process import PATIENCE, soon, thread_ids

import queuecore.tf1 as tf
from queuecore.errors import CancelledError, DeadlineExceededError, InvalidArgumentError, OutOfRangeError


@pytest.fixture(autouse=True)
def graph():
    before = thread_ids()
    with tf.Graph().as_default() as made:
        yield made
    assert soon(lambda: thread_ids() <= before, PATIENCE)


def test_a_time_limit_of_the_session():
    queue = tf.FIFOQueue(3, tf.int32, [()])
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=50)) as sess:
        with pytest.raises(DeadlineExceededError):
            sess.run(queue.dequeue())
        sess.run(queue.enqueue(1))
        assert sess.run(queue.dequeue()) == 1


def test_nothing_is_lost_by_a_time_limit():
    queue = tf.FIFOQueue(9, tf.int32, [()])
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2, 3]]))
        with pytest.raises(DeadlineExceededError):
            sess.run(queue.dequeue_many(5), options=tf.RunOptions(timeout_in_ms=50))
        assert sess.run(queue.dequeue_many(3)).tolist() == [1, 2, 3]


def test_a_time_limit_of_a_read_that_waits_for_a_name(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    names = tf.FIFOQueue(3, tf.string, [()], name="names")
    _, line = tf.TextLineReader().read(names)
    with tf.Session() as sess:
        with pytest.raises(DeadlineExceededError, match="names"):
            sess.run(line, options=tf.RunOptions(timeout_in_ms=50))
        sess.run(names.enqueue(str(tmp_path / "a")))
        assert [sess.run(line), sess.run(line)] == [b"one", b"two"]


def test_errors_name_their_operation():
    queue = tf.FIFOQueue(3, tf.int32, [()], name="numbers")
    taken = queue.dequeue(name="taken")
    with tf.Session() as sess:
        sess.run(queue.close())
        with pytest.raises(OutOfRangeError, match="numbers") as caught:
            sess.run(taken + 1)
    assert any("'taken' (QueueDequeueV2)" in note for note in caught.value.__notes__)


def test_what_numpy_refuses_is_an_argument_error():
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with tf.Session() as sess, pytest.raises(InvalidArgumentError, match=r"shapes: \[2\] vs. \[3\].*Add 'sum'"):
        sess.run(tf.add(x, y, name="sum"), {x: np.ones(2), y: np.ones(3)})


def test_another_machines_session_is_refused():
    with pytest.raises(tf.errors.NotFoundError, match="^No session factory registered .* in this process"):
        tf.Session("grpc://somewhere:2222")
    with pytest.raises(TypeError, match="target must be a string"):
        tf.Session(5)


def test_contexts_end_in_the_order_of_their_beginning_backwards():
    first, second = tf.Graph(), tf.Graph()
    with first.as_default():
        with second.as_default():
            with first.as_default():
                assert tf.get_default_graph() is first
            assert tf.get_default_graph() is second
        assert tf.get_default_graph() is first
    early, late = tf.Session().as_default(), tf.Session().as_default()
    early.__enter__()
    late.__enter__()
    with pytest.raises(AssertionError, match="^Nesting violated"):
        early.__exit__(None, None, None)
    late.__exit__(None, None, None)
    assert tf.get_default_session() is None
    with tf.Session() as sess, pytest.raises(RuntimeError, match="not re-entrant"), sess:
        pass


def test_feeds_of_nested_tuples_and_of_a_part_of_a_sparse_tensor():
    a, b, c = (tf.placeholder(tf.int32) for _ in range(3))
    part = tf.sparse_placeholder(tf.int32, [2, 3])
    with tf.Session() as sess:
        assert sess.run([a, b, c], {(a, ((b,), c)): (1, ((2,), 3))}) == [1, 2, 3]
        found = sess.run(tf.sparse_tensor_to_dense(part), {part: ([[0, 1]], [7])})
        assert found.tolist() == [[0, 7, 0], [0, 0, 0]]
        with pytest.raises(ValueError):
            sess.run(part.values, {part: ([[0, 1]],)})


def test_a_constant_that_operations_have_taken_in_cannot_be_fed():
    shape = tf.constant([2, 2])
    made = tf.reshape(tf.range(4), shape)
    read = tf.constant([1, 2])
    with tf.Session() as sess:
        with pytest.raises(InvalidArgumentError, match=r"'Const.*is a constant that no operation reads"):
            sess.run(made, {shape: [4, 1]})
        assert sess.run(made, {shape: [2, 2]}).tolist() == [[0, 1], [2, 3]]
        assert sess.run(read + 1, {read: [5, 6]}).tolist() == [6, 7]


def test_names_of_bytes_are_text():
    made = tf.constant(1, name=b"x")
    assert made.name == "x:0"
    with tf.Session() as sess:
        assert sess.run(b"x:0") == 1


def test_a_callable_wants_its_values():
    x = tf.placeholder(tf.float32)
    with tf.Session() as sess, pytest.raises(ValueError, match="1 values are to be fed, and 2"):
        sess.make_callable(x, feed_list=[x])(1, 2)


def test_one_of_several_waits_fails_and_the_others_end():
    never, closed = tf.FIFOQueue(1, tf.int32, [()]), tf.FIFOQueue(1, tf.int32, [()], name="closed")
    with tf.Session() as sess:
        sess.run(closed.close())
        with pytest.raises(OutOfRangeError, match="closed"):
            sess.run([never.dequeue(), closed.dequeue()])
        assert not any(one.name == "qc-run" for one in threading.enumerate())


def test_a_closed_session_ends_waits_and_is_not_kept():
    queue = tf.FIFOQueue(2, tf.int32, [()])
    sess = tf.Session()
    reference = weakref.ref(sess)
    taken = []
    waiting = threading.Thread(target=lambda s=sess: taken.append(outcome(s.run, queue.dequeue())))
    waiting.start()
    sess.close()
    waiting.join(PATIENCE)
    assert taken == [CancelledError]
    del sess, waiting
    gc.collect()
    assert reference() is None


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error)


def test_the_log_is_pythons(caplog):
    before = tf.logging.get_verbosity()
    try:
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.debug("unheard")
        tf.logging.info("%d batches", 3)
        assert tf.logging.get_verbosity() == tf.logging.INFO
    finally:
        tf.logging.set_verbosity(before)
    assert [(one.name, one.levelno, one.message) for one in caplog.records] == [
        ("queuecore.tf1", logging.INFO, "3 batches")
    ]
