"""The input of a CIFAR-10 trainer: records of one length, distorted pictures for training, plain ones for evaluation.

A family of programs reads the binary version of CIFAR-10 like this: a reader behind a queue of file names, a picture
that is cropped, mirrored and changed in light at random, and batches with a summary of their pictures.
"""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

SIDE, CROP, DEPTH, CLASSES = 32, 24, 3, 10
RECORD = 1 + SIDE * SIDE * DEPTH


class Record:
    """One example: its label, shape (1,), and its picture, (height, width, depth), as bytes."""

    def __init__(self, names):
        reader = tf.FixedLengthRecordReader(record_bytes=RECORD)
        self.key, value = reader.read(names)
        numbers = tf.decode_raw(value, tf.uint8)
        self.label = tf.cast(tf.strided_slice(numbers, [0], [1]), tf.int32)
        planes = tf.reshape(tf.strided_slice(numbers, [1], [RECORD]), [DEPTH, SIDE, SIDE])
        self.picture = tf.transpose(planes, [1, 2, 0])


def files(folder, training):
    """Return a queue of the names of the files, all of which must be there."""
    wanted = [f"data_batch_{index}.bin" for index in (1, 2)] if training else ["test_batch.bin"]
    names = [str(pathlib.Path(folder) / name) for name in wanted]
    for name in names:
        if not tf.gfile.Exists(name):
            raise ValueError(f"Failed to find file: {name}")
    return tf.train.string_input_producer(names)


def distorted(picture):
    """Return a random part of a picture, with random light, and a mean of 0."""
    made = tf.random_crop(picture, [CROP, CROP, DEPTH])
    made = tf.image.random_flip_left_right(made)
    made = tf.image.random_brightness(made, max_delta=63)
    made = tf.image.random_contrast(made, lower=0.2, upper=1.8)
    return tf.image.per_image_standardization(made)


def batches(picture, label, at_least, batch_size, shuffle):
    """Return pictures and labels in batches, of which the first waits for so many examples."""
    picture.set_shape([CROP, CROP, DEPTH])
    label.set_shape([1])
    room = at_least + 3 * batch_size
    if shuffle:
        images, labels = tf.train.shuffle_batch(
            [picture, label], batch_size=batch_size, num_threads=4, capacity=room, min_after_dequeue=at_least
        )
    else:
        images, labels = tf.train.batch([picture, label], batch_size=batch_size, num_threads=1, capacity=room)
    tf.summary.image("images", images)
    return images, tf.reshape(labels, [batch_size])


def inputs(folder, batch_size, training):
    """Return one batch after the other: distorted and shuffled, or from the middle and in order."""
    with tf.name_scope("data_augmentation" if training else "input"):
        record = Record(files(folder, training))
        picture = tf.cast(record.picture, tf.float32)
        if training:
            picture = distorted(picture)
        else:
            picture = tf.image.resize_image_with_crop_or_pad(picture, CROP, CROP)
            picture = tf.image.per_image_standardization(picture)
        return batches(picture, record.label, 40, batch_size, training)


def write(folder):
    """Write files of a hundred examples each; a picture's light says its label."""
    random = np.random.default_rng(0)
    for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
        labels = np.arange(100, dtype=np.uint8) % CLASSES
        pictures = random.integers(0, 64, (100, DEPTH * SIDE * SIDE), np.uint8) + 16 * labels[:, None]
        whole = np.concatenate([labels[:, None], pictures], axis=1).astype(np.uint8)
        (pathlib.Path(folder) / name).write_bytes(whole.tobytes())


def main():
    """Read generated files, and check what comes out."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            files(folder, True)
        except ValueError as error:
            print(error.args[0].rpartition("/")[2], "is missing")
        write(folder)
        images, labels = inputs(folder, 20, True)
        plain, numbers = inputs(folder, 20, False)
        summary = tf.summary.merge_all()
        assert images.get_shape().as_list() == [20, CROP, CROP, DEPTH] and labels.get_shape().as_list() == [20]
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            for step in range(10):
                batch, marks = sess.run([images, labels])
                assert batch.dtype == np.float32 and abs(batch.mean()) < 0.01 and set(marks) <= set(range(CLASSES))
                _, marks = sess.run([plain, numbers])
                assert marks.tolist() == [(20 * step + at) % CLASSES for at in range(20)]
            told = tf.Summary.FromString(sess.run(summary))
            pictures = [one for one in told.value if one.image.height]
            levels = [one.simple_value for one in told.value if one.tag.endswith("_full")]
            assert len(pictures) == 6 and all(one.image.height == CROP for one in pictures)
            assert len(levels) == 4 and all(0 <= one <= 1 for one in levels)
            coord.request_stop()
            coord.join(threads)
        print("ten batches for training, ten for evaluation")


if __name__ == "__main__":
    main()
