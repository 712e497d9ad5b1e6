"""TFRecords through `tf.data`: the plain pipeline first, then each piece of advice of its guide, one after the other.

All of them give the same examples; how they are ordered differs where the advice says so.
"""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

EXAMPLES, FILES, SIDE, BATCH = 120, 4, 8, 16
folder = pathlib.Path(tempfile.mkdtemp())
pictures = np.random.default_rng(0).integers(0, 256, (EXAMPLES, SIDE, SIDE, 3), np.uint8)
for index in range(FILES):
    with tf.python_io.TFRecordWriter(str(folder / f"train-{index}.tfrecord")) as writer:
        for number in range(index, EXAMPLES, FILES):
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pictures[number].tobytes()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

pattern = str(folder / "train-*.tfrecord")


def parse_fn(example):
    """Return the picture, as float32 from 0 to 1 and mirrored left to right, and the label of a serialised Example."""
    parsed = tf.parse_single_example(
        example,
        {"image": tf.FixedLenFeature((), tf.string, ""), "label": tf.FixedLenFeature((), tf.int64, -1)},
    )
    image = tf.reshape(tf.decode_raw(parsed["image"], tf.uint8), [SIDE, SIDE, 3])
    return tf.cast(image[:, ::-1], tf.float32) / 255.0, parsed["label"]


def files():
    """Return the names of the files, always in the same order."""
    return tf.data.Dataset.list_files(pattern, shuffle=False)


def plain():
    """Return the pipeline without any advice."""
    dataset = files().interleave(tf.data.TFRecordDataset, cycle_length=FILES)
    return dataset.shuffle(64, seed=1).map(parse_fn).batch(BATCH)


def prefetched():
    """Return it with batches made ahead."""
    return plain().prefetch(2)


def parallel_map():
    """Return it with a map in four threads."""
    dataset = files().interleave(tf.data.TFRecordDataset, cycle_length=FILES)
    return dataset.shuffle(64, seed=1).map(parse_fn, num_parallel_calls=4).batch(BATCH).prefetch(1)


def fused():
    """Return it with map and batch as one step."""
    dataset = files().interleave(tf.data.TFRecordDataset, cycle_length=FILES).shuffle(64, seed=1)
    return dataset.apply(tf.contrib.data.map_and_batch(parse_fn, BATCH, num_parallel_batches=2)).prefetch(1)


def parallel_files():
    """Return it with files read at the same time."""
    dataset = files().apply(tf.contrib.data.parallel_interleave(tf.data.TFRecordDataset, cycle_length=FILES))
    return dataset.shuffle(64, seed=1).map(parse_fn).batch(BATCH).prefetch(1)


def cached():
    """Return it with the parsed examples kept in memory."""
    dataset = files().interleave(tf.data.TFRecordDataset, cycle_length=FILES).map(parse_fn).cache()
    return dataset.shuffle(64, seed=1).batch(BATCH).prefetch(1)


def two_epochs():
    """Return it twice over, shuffled and repeated in one step."""
    dataset = files().interleave(tf.data.TFRecordDataset, cycle_length=FILES)
    return dataset.apply(tf.contrib.data.shuffle_and_repeat(64, 2, seed=1)).map(parse_fn).batch(BATCH).prefetch(1)


expected = pictures[:, :, ::-1].astype(np.float32) / np.float32(255)
for make, epochs in [
    (plain, 1),
    (prefetched, 1),
    (parallel_map, 1),
    (fused, 1),
    (parallel_files, 1),
    (cached, 1),
    (two_epochs, 2),
]:
    images, labels = make().make_one_shot_iterator().get_next()
    seen = []
    with tf.Session() as sess:
        try:
            while True:
                batch, numbers = sess.run([images, labels])
                assert np.array_equal(batch, expected[numbers])
                seen += numbers.tolist()
        except tf.errors.OutOfRangeError:
            pass
    assert sorted(seen) == sorted(list(range(EXAMPLES)) * epochs)
    print(f"{make.__name__}: {len(seen)} examples")
