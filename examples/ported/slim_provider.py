"""Slim's data library: a data set described once, and a provider that reads, decodes and shuffles its items.

Programs that fine-tune models of pictures do this: features and handlers make a decoder, a provider gives items, which
are prepared, batched and kept ready in a queue.
"""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

slim = tf.contrib.slim

SIDE, CLASSES, SHARDS, EACH = 12, 3, 2, 9
NAMES = {0: "dark", 1: "grey", 2: "light"}


def get_split(folder, split):
    """Return the description of a part of the data set. `ValueError`: there is no such part."""
    if split not in ("train", "validation"):
        raise ValueError(f"split name {split} was not recognized.")
    features = {
        "image/encoded": tf.FixedLenFeature((), tf.string, default_value=""),
        "image/format": tf.FixedLenFeature((), tf.string, default_value="png"),
        "image/class/label": tf.FixedLenFeature([], tf.int64, default_value=tf.zeros([], dtype=tf.int64)),
    }
    handlers = {
        "image": slim.tfexample_decoder.Image(shape=[SIDE, SIDE, 3], channels=3),
        "label": slim.tfexample_decoder.Tensor("image/class/label"),
    }
    return slim.dataset.Dataset(
        data_sources=str(pathlib.Path(folder) / f"pictures_{split}_*.tfrecord"),
        reader=tf.TFRecordReader,
        decoder=slim.tfexample_decoder.TFExampleDecoder(features, handlers),
        num_samples=SHARDS * EACH,
        items_to_descriptions={"image": "A picture in colour.", "label": "A number from 0 on."},
        num_classes=CLASSES,
        labels_to_names=NAMES,
    )


def prepared(picture, training):
    """Return a picture of floats between -1 and 1, mirrored at random for training."""
    made = tf.image.convert_image_dtype(picture, dtype=tf.float32)
    if training:
        made = tf.image.random_flip_left_right(made)
    return tf.multiply(tf.subtract(made, 0.5), 2.0)


def load_batch(dataset, batch_size, training):
    """Return pictures, and labels as vectors, from a queue of batches that are ready."""
    provider = slim.dataset_data_provider.DatasetDataProvider(
        dataset, num_readers=2 if training else 1, shuffle=training, common_queue_capacity=20 * batch_size,
        common_queue_min=batch_size,
    )  # fmt: skip
    picture, label = provider.get(["image", "label"])
    picture.set_shape([SIDE, SIDE, 3])
    images, labels = tf.train.batch(
        [prepared(picture, training), label], batch_size=batch_size, num_threads=1, capacity=5 * batch_size
    )
    labels = slim.one_hot_encoding(labels, dataset.num_classes)
    ready = slim.prefetch_queue.prefetch_queue([images, labels], capacity=2)
    return ready.dequeue()


def write(folder):
    """Write shards of examples: a picture's light says its class."""
    with tf.Graph().as_default(), tf.Session() as sess:
        pixels = tf.placeholder(tf.uint8, [SIDE, SIDE, 3])
        encode = tf.image.encode_png(pixels)
        for split in ("train", "validation"):
            for shard in range(SHARDS):
                path = pathlib.Path(folder) / f"pictures_{split}_{shard:05d}.tfrecord"
                with tf.python_io.TFRecordWriter(str(path)) as writer:
                    for number in range(EACH):
                        label = number % CLASSES
                        picture = np.full([SIDE, SIDE, 3], 100 * label, np.uint8)
                        feature = {
                            "image/encoded": tf.train.Feature(
                                bytes_list=tf.train.BytesList(value=[sess.run(encode, {pixels: picture})])
                            ),
                            "image/format": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"png"])),
                            "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                        }
                        example = tf.train.Example(features=tf.train.Features(feature=feature))
                        writer.write(example.SerializeToString())


def main():
    """Read generated files, and check what comes out."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        train, validation = get_split(folder, "train"), get_split(folder, "validation")
        assert validation.num_samples == 18 and validation.labels_to_names[2] == "light"
        batches = {True: load_batch(train, 6, True), False: load_batch(validation, 6, False)}
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            for step in range(12):
                images, labels = sess.run(batches[step % 2 == 0])
                assert images.shape == (6, SIDE, SIDE, 3) and labels.shape == (6, CLASSES)
                marks = labels.argmax(axis=1)
                assert np.allclose(images[:, 0, 0, 0], 2 * (marks * 100 / 255) - 1, atol=1e-6)
                assert step % 2 == 0 or marks.tolist() == [0, 1, 2, 0, 1, 2]  # in order, for evaluation
            coord.request_stop()
            coord.join(threads)
        try:
            get_split(folder, "test")
        except ValueError as error:
            print(error)
    print("six batches of each part")


if __name__ == "__main__":
    main()
