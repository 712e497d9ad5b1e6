"""Arrays of tensors: what a run writes, reads and counts, alone and in loops."""

import numpy as np
import pytest

import queuecore.tf1 as tf
from queuecore.errors import InvalidArgumentError


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def evens(count, **named):
    """An array of 0, 2, 4 ..., written in a loop."""
    array = tf.TensorArray(tf.int32, **named)
    return tf.while_loop(lambda i, _: i < count, lambda i, a: (i + 1, a.write(i, 2 * i)), (0, array))[1]


def test_a_loop_writes_and_each_run_has_its_own(sess):
    count = tf.placeholder(tf.int32)
    array = evens(count, dynamic_size=True)
    whole, size = array.stack(), array.size()
    assert whole.shape.as_list() == [None] and array.element_shape == ()
    for number in (3, 1, 0):
        assert [part.tolist() for part in sess.run([whole, size], {count: number})] == [
            list(range(0, 2 * number, 2)), number]  # fmt: skip
    fixed = evens(3, size=count)
    assert sess.run(fixed.stack(), {count: 5}).tolist() == [0, 2, 4, 0, 0]
    with pytest.raises(InvalidArgumentError, match="Tried to write to index 2 but array is not resizeable"):
        sess.run(fixed.flow, {count: 2})
    with pytest.raises(InvalidArgumentError, match="Size should be a scalar, and not below 0"):
        sess.run(fixed.flow, {count: -1})


def test_branches_and_structures_have_arrays(sess):
    which = tf.placeholder(tf.bool)
    first = tf.TensorArray(tf.string, size=2).write(0, "a")
    last = tf.cond(which, lambda: {"array": first.write(1, "b")}, lambda: {"array": first})["array"]
    assert last.dtype == tf.string
    assert sess.run(last.stack(), {which: True}).tolist() == [b"a", b"b"]
    assert sess.run(last.stack(), {which: False}).tolist() == [b"a", b""]


def test_a_function_of_a_dataset_has_an_array_for_each_element(sess):
    dataset = tf.data.Dataset.range(4).map(lambda n: evens(tf.cast(n, tf.int32), dynamic_size=True).stack())
    following = dataset.make_one_shot_iterator().get_next()
    assert [sess.run(following).tolist() for _ in range(4)] == [[], [0], [0, 2], [0, 2, 4]]


def test_parts_go_in_and_come_out(sess):
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    lengths = tf.placeholder(tf.int64)
    whole = tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(rows)
    assert sess.run([whole.read(1), whole.gather([2, 0])])[1].tolist() == [[5, 6], [1, 2]]
    assert whole.concat().shape.as_list() == [None] and sess.run(whole.concat()).tolist() == [1, 2, 3, 4, 5, 6]
    parts = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(rows, lengths)
    assert [part.tolist() for part in sess.run([parts.read(0), parts.read(1)], {lengths: [0, 3]})] == [
        [], [[1, 2], [3, 4], [5, 6]]]  # fmt: skip
    assert sess.run(parts.concat(), {lengths: [2, 1]}).tolist() == [[1, 2], [3, 4], [5, 6]]
    for wrong, told in ([1, 1], "sum of lengths is 2"), ([4, -1], "sum of lengths"), ([1, 1, 1], r"\(2 vs. 3\)"):
        with pytest.raises(InvalidArgumentError, match=told):
            sess.run(parts.flow, {lengths: wrong})
    thin = tf.TensorArray(tf.int32, dynamic_size=True).scatter([3, 1], [30, 10])
    assert sess.run(thin.stack()).tolist() == [0, 10, 0, 30]
    with pytest.raises(InvalidArgumentError, match=r"indices have the shape \[1\]"):
        sess.run(thin.scatter([5], [1, 2]).flow)


def test_what_an_array_refuses(sess):
    value = tf.placeholder(tf.float32)
    array = tf.TensorArray(tf.float32, size=2).write(0, value)
    feed = {value: [1.0, 2.0]}
    with pytest.raises(InvalidArgumentError, match="index 0 because it has already been written to"):
        sess.run(array.write(0, value).flow, feed)
    with pytest.raises(InvalidArgumentError, match=r"the value shape is \[1\] .* inferred element shape: \(2,\)"):
        sess.run(array.write(1, value[:1]).flow, feed)
    first = array.read(0)
    with tf.control_dependencies([first]):
        again = array.read(0)
    with pytest.raises(InvalidArgumentError, match="Could not read index 0 twice"):
        sess.run(again, feed)
    for index in (-1, 2):
        with pytest.raises(InvalidArgumentError, match=f"Tried to read from index {index} but array size is: 2"):
            sess.run(array.read(index), feed)
    assert sess.run(array.read(1), feed).tolist() == [0, 0]
    loose = tf.TensorArray(tf.float32, size=2, infer_shape=False).write(0, value)
    with pytest.raises(InvalidArgumentError, match="Could not read from TensorArray index 1"):
        sess.run(loose.stack(), feed)
    with pytest.raises(InvalidArgumentError, match="inconsistent shapes"):
        sess.run(loose.write(1, 1.0).stack(), feed)
    with pytest.raises(InvalidArgumentError, match="size zero, but element shape <unknown>"):
        sess.run(tf.TensorArray(tf.float32, size=0).stack())
    sess.run(array.close(), feed)
    for wrong in ({}, {"handle": array.handle}, {"handle": array.handle, "flow": array.flow, "size": 1}):
        with pytest.raises(ValueError):
            tf.TensorArray(tf.float32, **wrong)
    same = tf.TensorArray(tf.float32, handle=array.handle, flow=array.flow)
    assert sess.run(same.read(0), feed).tolist() == [1, 2]
    with pytest.raises(tf.errors.UnimplementedError, match="grad"):
        array.grad("x")
    assert np.array_equal(sess.run(array.identity().size(), feed), 2)
