"""`tf.data` from the beginning: where elements come from, what they are, and the four kinds of iterators."""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

# One array, a pair of them, and two datasets side by side.
one = tf.data.Dataset.from_tensor_slices(np.arange(12.0).reshape(4, 3))
assert (one.output_types, one.output_shapes.as_list()) == (tf.float64, [3])
pair = tf.data.Dataset.from_tensor_slices((np.arange(4), np.array([[1, 2]] * 4, np.int32)))
assert pair.output_types == (tf.int64, tf.int32)
assert [shape.as_list() for shape in pair.output_shapes] == [[], [2]]
both = tf.data.Dataset.zip((one, pair))
assert both.output_types == (tf.float64, (tf.int64, tf.int32))

# Files by a pattern, and elements that Python makes.
folder = pathlib.Path(tempfile.mkdtemp())
for name in "ab":
    (folder / f"{name}.txt").write_text(name)
listed = tf.data.Dataset.list_files(str(folder / "*.txt"), shuffle=False)
generated = tf.data.Dataset.from_generator(lambda: ((i, [1] * i) for i in range(4)), (tf.int64, tf.int64), ([], [None]))

with tf.Session() as sess:
    element = both.make_one_shot_iterator().get_next()
    row, (number, couple) = sess.run(element)
    assert row.tolist() == [0, 1, 2] and number == 0 and couple.tolist() == [1, 2]
    name = listed.make_one_shot_iterator().get_next()
    assert [pathlib.Path(sess.run(name).decode()).name for _ in range(2)] == ["a.txt", "b.txt"]
    count, ones = generated.make_one_shot_iterator().get_next()
    assert [len(sess.run([count, ones])[1]) for _ in range(4)] == [0, 1, 2, 3]

    # One-shot: begins by itself, and takes no parameters.
    value = tf.data.Dataset.range(100).make_one_shot_iterator().get_next()
    assert [sess.run(value) for _ in range(100)] == list(range(100))
    try:
        sess.run(value)
        raise AssertionError("there were more than 100")
    except tf.errors.OutOfRangeError:
        print("one-shot: 100 elements, and then the end")

    # Initializable: a parameter for each time it begins.
    limit = tf.placeholder(tf.int64, shape=[])
    iterator = tf.data.Dataset.range(limit).make_initializable_iterator()
    value = iterator.get_next()
    for end in (10, 3):
        sess.run(iterator.initializer, feed_dict={limit: end})
        assert [sess.run(value) for _ in range(end)] == list(range(end))
    print("initializable: 10 elements, then 3")

    # Reinitializable: one consumer, several datasets of one structure; each time from the beginning.
    training = tf.data.Dataset.range(5).map(lambda x: x * 10)
    validation = tf.data.Dataset.range(3)
    iterator = tf.data.Iterator.from_structure(training.output_types, training.output_shapes)
    value = iterator.get_next()
    start_training, start_validation = iterator.make_initializer(training), iterator.make_initializer(validation)
    for _ in range(2):
        sess.run(start_training)
        assert [sess.run(value) for _ in range(5)] == [0, 10, 20, 30, 40]
        sess.run(start_validation)
        assert [sess.run(value) for _ in range(3)] == [0, 1, 2]
    print("reinitializable: training and validation take turns")

    # Feedable: they take turns too, and none of them loses its place.
    handle = tf.placeholder(tf.string, shape=[])
    fed = tf.data.Iterator.from_string_handle(handle, training.output_types, training.output_shapes)
    value = fed.get_next()
    first = training.repeat().make_one_shot_iterator()
    second = validation.make_initializable_iterator()
    handles = sess.run([first.string_handle(), second.string_handle()])
    sess.run(second.initializer)
    values = [sess.run(value, feed_dict={handle: handles[each]}) for each in (0, 0, 1, 0, 1)]
    assert values == [0, 10, 0, 20, 1]
    print("feedable:", values)
