"""The inputs of a captioning model: pictures with captions of different lengths, in batches that are padded.

The family of im2txt's input: SequenceExamples read by several readers into a shuffling queue of values, pictures that
are cropped and distorted, and captions that become an input, a target one word further, and a mask.
"""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

HEIGHT, WIDTH = 20, 22
PICTURE, CAPTION = "image/data", "image/caption_ids"


def parse(serialized):
    """Return a picture's bytes and the numbers of its caption's words."""
    context, sequence = tf.parse_single_sequence_example(
        serialized,
        context_features={PICTURE: tf.FixedLenFeature([], dtype=tf.string)},
        sequence_features={CAPTION: tf.FixedLenSequenceFeature([], dtype=tf.int64)},
    )
    return context[PICTURE], sequence[CAPTION]


def prefetch(reader, pattern, training, batch_size, values_per_shard=20, shard_queue="filename_queue"):
    """Return a queue of records: shuffled for training, in order else. `ValueError`: there are no files."""
    files = []
    for one in pattern.split(","):
        files.extend(tf.gfile.Glob(one))
    if not files:
        raise ValueError(f"Found no input files matching {pattern}")
    if training:
        names = tf.train.string_input_producer(files, shuffle=True, capacity=16, name=shard_queue)
        least = values_per_shard * 2
        values: tf.QueueBase = tf.RandomShuffleQueue(
            capacity=least + 100 * batch_size, min_after_dequeue=least, dtypes=[tf.string], name="random_input_queue"
        )
    else:
        names = tf.train.string_input_producer(sorted(files), shuffle=False, capacity=1, name=shard_queue)
        values = tf.FIFOQueue(capacity=values_per_shard + 3 * batch_size, dtypes=[tf.string], name="fifo_input_queue")
    puts = []
    for _ in range(2 if training else 1):
        _, value = reader.read(names)
        puts.append(values.enqueue([value]))
    tf.train.queue_runner.add_queue_runner(tf.train.queue_runner.QueueRunner(values, puts))
    share = tf.cast(values.size(), tf.float32) * (1.0 / 200)
    tf.summary.scalar(f"queue/{values.name}/fraction_of_200_full", share)
    return values


def process(encoded, training, thread):
    """Return a picture of one size between -1 and 1, distorted for training."""
    with tf.name_scope("decode", values=[encoded]):
        picture = tf.image.decode_jpeg(encoded, channels=3)
    picture = tf.image.convert_image_dtype(picture, dtype=tf.float32)
    picture = tf.image.resize_images(picture, size=[26, 26], method=tf.image.ResizeMethod.BILINEAR)
    if training:
        picture = tf.random_crop(picture, [HEIGHT, WIDTH, 3])
        with tf.name_scope("flip_horizontal", values=[picture]):
            picture = tf.image.random_flip_left_right(picture)
        with tf.name_scope("distort_color", values=[picture]):
            picture = tf.image.random_brightness(picture, max_delta=32.0 / 255.0)
            if thread % 2 == 0:
                picture = tf.image.random_saturation(picture, lower=0.5, upper=1.5)
                picture = tf.image.random_hue(picture, max_delta=0.032)
            picture = tf.image.random_contrast(picture, lower=0.5, upper=1.5)
            picture = tf.clip_by_value(picture, 0.0, 1.0)
    else:
        picture = tf.image.resize_image_with_crop_or_pad(picture, HEIGHT, WIDTH)
    return tf.multiply(tf.subtract(picture, 0.5), 2.0)


def padded(pictures_and_captions, batch_size, capacity):
    """Return pictures, captions without their last word and without their first, and a mask of words that are there."""
    lists = []
    for picture, caption in pictures_and_captions:
        length = tf.expand_dims(tf.subtract(tf.shape(caption)[0], 1), 0)
        indicator = tf.ones(length, dtype=tf.int32)
        lists.append([picture, tf.slice(caption, [0], length), tf.slice(caption, [1], length), indicator])
    images, inputs, targets, mask = tf.train.batch_join(
        lists, batch_size=batch_size, capacity=capacity, dynamic_pad=True, name="batch_and_pad"
    )
    lengths = tf.add(tf.reduce_sum(mask, 1), 1)
    tf.summary.scalar("caption_length/batch_min", tf.reduce_min(lengths))
    tf.summary.scalar("caption_length/batch_max", tf.reduce_max(lengths))
    return images, inputs, targets, mask


def inputs(pattern, batch_size, training, threads=4):
    """Return the batches of the files of a pattern."""
    values = prefetch(tf.TFRecordReader(), pattern, training, batch_size)
    made = []
    for thread in range(threads if training else 1):
        encoded, caption = parse(values.dequeue())
        made.append([process(encoded, training, thread), caption])
    return padded(made, batch_size, 2 * threads * batch_size)


def write(folder):
    """Write two files of twelve pictures; a caption's words are the picture's number, again and again."""
    with tf.Graph().as_default(), tf.Session() as sess:
        given = tf.placeholder(tf.uint8, [None, None, 3])
        encode = tf.image.encode_jpeg(given)
        for shard in range(2):
            with tf.python_io.TFRecordWriter(str(pathlib.Path(folder) / f"train-{shard}")) as writer:
                for number in range(12 * shard, 12 * shard + 12):
                    data = sess.run(encode, {given: np.full([25, 30, 3], 10 * number, np.uint8)})
                    words = [100 + number] * (3 + number % 4)
                    steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=[word])) for word in words]
                    lists = {CAPTION: tf.train.FeatureList(feature=steps)}
                    context = {PICTURE: tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))}
                    made = tf.train.SequenceExample(
                        context=tf.train.Features(feature=context),
                        feature_lists=tf.train.FeatureLists(feature_list=lists),
                    )
                    writer.write(made.SerializeToString())


def check(images, before, behind, mask):
    """Check one batch, and return the numbers of its pictures."""
    assert images.shape[1:] == (HEIGHT, WIDTH, 3) and before.shape == behind.shape == mask.shape
    lengths = mask.sum(axis=1)
    numbers = before[:, 0] - 100
    assert lengths.tolist() == (2 + numbers % 4).tolist() and mask.shape[1] == lengths.max()
    assert np.array_equal(before, np.where(mask, before[:, :1], 0)) and np.array_equal(before, behind)
    return numbers


def main():
    """Read generated files, and check what comes out."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        pattern = str(pathlib.Path(folder) / "train-?")
        training, plain = inputs(pattern, 6, True), inputs(pattern, 6, False)
        summary = tf.summary.merge_all()
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            for step in range(4):
                assert set(check(*sess.run(training))) <= set(range(24))
                found = sess.run(plain)
                numbers = check(*found)
                assert numbers.tolist() == list(range(6 * step, 6 * step + 6))
                assert np.allclose(found[0][:, 9, 9, 0], 2 * (10 * numbers / 255) - 1, atol=0.03)
            told = tf.Summary.FromString(sess.run(summary))
            lengths = {one.tag: one.simple_value for one in told.value if "caption_length" in one.tag}
            assert len(lengths) == 4 and set(lengths.values()) <= {3, 4, 5, 6}
            coord.request_stop()
            coord.join(threads)
        try:
            prefetch(tf.TFRecordReader(), str(pathlib.Path(folder) / "other-*"), True, 6)
        except ValueError as error:
            print(str(error).partition(folder)[0] + "other-*")
    print("four batches for training, four in order")


if __name__ == "__main__":
    main()
