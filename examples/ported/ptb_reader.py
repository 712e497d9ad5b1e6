"""The reader of a language model: words become numbers, and an endless text becomes pairs of sequences.

The text is read whole, and counted into a vocabulary; a queue of indices cuts it into inputs and, one word further,
targets.
"""

import collections
import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

TEXT = """ we read the text once and count its words
 the text comes again and again until nobody reads
 once is not enough for a model of words
"""


def words_of(path):
    """Return the words of a file; each line ends with one of its own."""
    with tf.gfile.GFile(path, "r") as file:
        return file.read().replace("\n", " <eos> ").split()


def vocabulary(path):
    """Return a number for each word: the most frequent ones first, equally frequent ones by the alphabet."""
    counted = collections.Counter(words_of(path))
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return {word: number for number, (word, _) in enumerate(ordered)}


def numbers_of(path, vocabulary):
    """Return the numbers of a file's words; words that the vocabulary lacks are left out."""
    return [vocabulary[word] for word in words_of(path) if word in vocabulary]


def raw_data(folder):
    """Return the numbers of the three parts of a data set, and the size of the vocabulary."""
    paths = [str(pathlib.Path(folder) / f"ptb.{part}.txt") for part in ("train", "valid", "test")]
    known = vocabulary(paths[0])
    return *(numbers_of(path, known) for path in paths), len(known)


def producer(numbers, batch_size, steps, name=None):
    """Return inputs and targets, both (batch_size, steps), which go on with each run.

    Raises
    ------
    InvalidArgumentError
        If the text is too short for one pair.
    """
    with tf.name_scope(name, "Producer", [numbers, batch_size, steps]):
        text = tf.convert_to_tensor(numbers, name="raw_data", dtype=tf.int32)
        length = tf.size(text) // batch_size
        rows = tf.reshape(text[0 : batch_size * length], [batch_size, length])
        epoch = (length - 1) // steps
        check = tf.assert_positive(epoch, message="epoch_size == 0, decrease batch_size or num_steps")
        with tf.control_dependencies([check]):
            epoch = tf.identity(epoch, name="epoch_size")
        at = tf.train.range_input_producer(epoch, shuffle=False).dequeue()
        inputs = tf.strided_slice(rows, [0, at * steps], [batch_size, (at + 1) * steps])
        targets = tf.strided_slice(rows, [0, at * steps + 1], [batch_size, (at + 1) * steps + 1])
        inputs.set_shape([batch_size, steps])
        targets.set_shape([batch_size, steps])
        return inputs, targets


def main():
    """Read generated files, and check what comes out."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("train", "valid", "test"):
            (pathlib.Path(folder) / f"ptb.{part}.txt").write_text(TEXT if part == "train" else TEXT.upper() + TEXT)
        train, valid, test, size = raw_data(folder)
    assert len(train) == 30 and valid == test and size == 22 and len(valid) == 33
    inputs, targets = producer(train, 3, 2)
    assert inputs.get_shape().as_list() == [3, 2]
    rows = np.reshape(train[:30], [3, 10])
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        for step in range(9):
            x, y = sess.run([inputs, targets])
            first = 2 * (step % 4)
            assert np.array_equal(x, rows[:, first : first + 2]) and np.array_equal(y, rows[:, first + 1 : first + 3])
        coord.request_stop()
        coord.join(threads)
    with tf.Graph().as_default(), tf.Session() as sess:
        short, _ = producer(train, 20, 9)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        try:
            sess.run(short)
        except tf.errors.OutOfRangeError:
            print("a text that is too short gives nothing")
        coord.request_stop()
        try:
            coord.join(threads)
        except tf.errors.InvalidArgumentError as error:
            assert "epoch_size == 0, decrease batch_size or num_steps" in str(error)
    print("nine pairs of sequences")


if __name__ == "__main__":
    main()
