"""`py_function`: functions whose tensors have values."""

import numpy as np
import pytest

import queuecore.tf1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as one:
        yield one


def value(function, inputs, dtypes, feed=None):
    with tf.Session() as sess:
        return sess.run(tf.py_function(function, inputs, dtypes), feed)


def test_values_and_python_s_control_flow():
    def doubled_if_large(x, y):
        assert tf.executing_eagerly() and isinstance(x, tf.Tensor)
        if x > 2:
            y = y * 2
        return x + y, x.numpy() * 3

    x = tf.placeholder(tf.float32)
    with tf.Session() as sess:
        fetches = tf.py_function(doubled_if_large, [x, 3.0], [tf.float32, tf.float32])
        assert sess.run(fetches, {x: 5.0}) == [11, 15]
        assert sess.run(fetches, {x: 1.0}) == [4, 3]
    assert not tf.executing_eagerly()


def test_what_a_value_can_be_used_for():
    values = []

    def note(row, text):
        values.extend([len(row), int(row[1]), float(row[0]), [int(one) for one in row], range(5)[row[0]], text.numpy()])
        values.extend([row.shape.as_list(), np.asarray(row).tolist(), repr(row[0]), str(tf.reduce_sum(row))])

    assert value(note, [[1, 2], b"word"], []) is None
    assert values[:6] == [2, 2, 1.0, [1, 2], 1, b"word"]
    assert values[6:8] == [[2], [1, 2]]
    assert "shape=(), dtype=int32, numpy=" in values[8]
    assert values[9] == "tf.Tensor(3, shape=(), dtype=int32)"


@pytest.mark.parametrize(
    "function, found",
    [
        (lambda x: tf.map_fn(lambda row: row * 2, x), [[2, 4], [6, 8]]),
        (lambda x: tf.cond(x[0, 0] > 0, lambda: x + 1, lambda: x), [[2, 3], [4, 5]]),
        (lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), [x[0, 0], x])[1], [[4, 8], [12, 16]]),
        (lambda x: sum(x), [4, 6]),
        (lambda x: np.array(x) + 1, [[2, 3], [4, 5]]),
        (lambda x: tf.py_function(lambda y: y - 1, [x], tf.int64), [[0, 1], [2, 3]]),
    ],
)
def test_operations_in_it(function, found):
    assert value(function, [np.array([[1, 2], [3, 4]])], tf.int64).tolist() == found


def test_effects_happen_once_and_in_order():
    def through_a_queue(x):
        queue = tf.FIFOQueue(10, tf.int32, [()])
        for k in range(3):
            queue.enqueue(x + k)
        first = queue.dequeue()
        assert int(first) == int(first) == 7
        return [first, queue.dequeue(), queue.size()]

    assert value(through_a_queue, [7], [tf.int32] * 3) == [7, 8, 1]


def test_calls_leave_nothing_in_the_session():
    with tf.Session() as sess:
        fetch = tf.py_function(lambda x: tf.random_uniform([2]) + x, [1.0], tf.float32)
        before = len(sess._resources)
        found = [sess.run(fetch).tolist() for _ in range(5)]
        assert len(sess._resources) == before
    assert len(set(map(tuple, found))) == 5


def test_in_a_dataset():
    ds = tf.data.Dataset.range(4).map(lambda x: tf.py_function(lambda y: y * 10 if y > 1 else y, [x], tf.int64))
    element = ds.make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert [int(sess.run(element)) for _ in range(4)] == [0, 1, 20, 30]


def test_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="dtype float32 for Tensor with dtype int32"):
        value(lambda x: x, [1], tf.float32)
    with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
        value(lambda x: 1 // 0, [1], tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="returns 1 values, but expects to see 2 values"):
        value(lambda x: [x], [1], [tf.int32, tf.int32])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Dimensions must be equal"):
        value(lambda x, y: x + y, [[1, 2], [1, 2, 3]], tf.int32)
    with pytest.raises(ValueError, match="callable"):
        tf.py_function(None, [1], tf.int32)
