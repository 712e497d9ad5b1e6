"""The pictures of an ImageNet trainer: Examples with boxes, distorted parts for training, the middle for evaluation.

The family of Inception's input: several readers behind one shuffling queue, and several threads' worth of operations
that decode and distort pictures, each in a way of its own, joined in batches.
"""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

SIDE, CLASSES = 24, 5


def parse(serialized):
    """Return a picture's bytes, its label, its boxes, (1, boxes, 4), and its class as text."""
    features: dict[str, object] = {
        "image/encoded": tf.FixedLenFeature([], dtype=tf.string, default_value=""),
        "image/class/label": tf.FixedLenFeature([1], dtype=tf.int64, default_value=-1),
        "image/class/text": tf.FixedLenFeature([], dtype=tf.string, default_value=""),
    }
    sides = ["image/object/bbox/" + side for side in ("ymin", "xmin", "ymax", "xmax")]
    features.update({key: tf.VarLenFeature(dtype=tf.float32) for key in sides})
    found = tf.parse_single_example(serialized, features)
    rows = tf.concat(axis=0, values=[tf.expand_dims(found[key].values, 0) for key in sides])
    boxes = tf.transpose(tf.expand_dims(rows, 0), [0, 2, 1])
    return found["image/encoded"], tf.cast(found["image/class/label"], tf.int32), boxes, found["image/class/text"]


def decode(encoded, scope=None):
    """Return a JPEG as floats from 0 to below 1, of unknown size."""
    with tf.name_scope(values=[encoded], name=scope, default_name="decode_jpeg"):
        picture = tf.image.decode_jpeg(encoded, channels=3)
        return tf.image.convert_image_dtype(picture, dtype=tf.float32)


def distort_colour(picture, thread):
    """Return a picture with other light and colours; the order of the changes differs from thread to thread."""
    steps = [
        lambda x: tf.image.random_brightness(x, max_delta=32.0 / 255.0),
        lambda x: tf.image.random_saturation(x, lower=0.5, upper=1.5),
        lambda x: tf.image.random_hue(x, max_delta=0.2),
        lambda x: tf.image.random_contrast(x, lower=0.5, upper=1.5),
    ]
    for step in steps if thread % 2 == 0 else [steps[0], steps[3], steps[1], steps[2]]:
        picture = step(picture)
    return tf.clip_by_value(picture, 0.0, 1.0)


def distort(picture, boxes, thread):
    """Return a part of a picture around an object, of one size, mirrored at random, in other colours."""
    with tf.name_scope("distort_image"):
        if not thread:
            boxed_picture = tf.image.draw_bounding_boxes(tf.expand_dims(picture, 0), boxes)
            tf.summary.image("image_with_bounding_boxes", boxed_picture)
        begin, size, box = tf.image.sample_distorted_bounding_box(
            tf.shape(picture), bounding_boxes=boxes, min_object_covered=0.1, aspect_ratio_range=[0.75, 1.33],
            area_range=[0.05, 1.0], max_attempts=100, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        if not thread:
            boxed_picture = tf.image.draw_bounding_boxes(tf.expand_dims(picture, 0), box)
            tf.summary.image("images_with_distorted_bounding_box", boxed_picture)
        part = tf.slice(picture, begin, size)
        part = tf.image.resize_images(part, [SIDE, SIDE], method=thread % 4)
        part.set_shape([SIDE, SIDE, 3])
        return distort_colour(tf.image.random_flip_left_right(part), thread)


def middle(picture):
    """Return the middle of a picture, of one size."""
    with tf.name_scope("eval_image"):
        part = tf.image.central_crop(picture, central_fraction=0.875)
        part = tf.image.resize_bilinear(tf.expand_dims(part, 0), [SIDE, SIDE], align_corners=False)
        return tf.squeeze(part, [0])


def prepared(encoded, boxes, training, thread):
    """Return a picture between -1 and 1."""
    picture = decode(encoded)
    picture = distort(picture, boxes, thread) if training else middle(picture)
    return tf.multiply(tf.subtract(picture, 0.5), 2.0)


def batches(pattern, batch_size, training, threads=4, readers=2):
    """Return pictures and labels of the files of a pattern, batch by batch."""
    with tf.name_scope("batch_processing"):
        names = tf.gfile.Glob(pattern)
        if training:
            files = tf.train.string_input_producer(names, shuffle=True, capacity=16)
            examples = tf.RandomShuffleQueue(capacity=60, min_after_dequeue=20, dtypes=[tf.string])
            puts = []
            for _ in range(readers):
                _, value = tf.TFRecordReader().read(files)
                puts.append(examples.enqueue([value]))
            tf.train.queue_runner.add_queue_runner(tf.train.queue_runner.QueueRunner(examples, puts))
            serialized = examples.dequeue()
        else:
            files = tf.train.string_input_producer(sorted(names), shuffle=False, capacity=1)
            _, serialized = tf.TFRecordReader().read(files)
        parts = []
        for thread in range(threads if training else 1):
            encoded, label, boxes, _ = parse(serialized)
            parts.append([prepared(encoded, boxes, training, thread), label])
        images, labels = tf.train.batch_join(parts, batch_size=batch_size, capacity=2 * threads * batch_size)
        images = tf.cast(tf.reshape(images, shape=[batch_size, SIDE, SIDE, 3]), tf.float32)
        tf.summary.image("images", images)
        return images, tf.reshape(labels, [batch_size])


def write(folder):
    """Write two files of ten Examples; a picture's light says its class, and every second one has a box."""
    with tf.Graph().as_default(), tf.Session() as sess:
        pixels = tf.placeholder(tf.uint8, [None, None, 3])
        encode = tf.image.encode_jpeg(pixels)
        for shard in range(2):
            with tf.python_io.TFRecordWriter(str(pathlib.Path(folder) / f"train-{shard:05d}-of-00002")) as writer:
                for number in range(10):
                    label = number % CLASSES
                    picture = np.full([30 + number, 40, 3], 25 + 50 * label, np.uint8)
                    example = tf.train.Example()
                    feature = example.features.feature
                    feature["image/encoded"].bytes_list.value.append(sess.run(encode, {pixels: picture}))
                    feature["image/class/label"].int64_list.value.append(label)
                    feature["image/class/text"].bytes_list.value.append(b"class %d" % label)
                    for side, place in (("ymin", 0.2), ("xmin", 0.1), ("ymax", 0.7), ("xmax", 0.9)):
                        places = [place] * (number % 2)
                        feature["image/object/bbox/" + side].float_list.value.extend(places)
                    writer.write(example.SerializeToString())


def main():
    """Read generated files, and check what comes out."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        pattern = str(pathlib.Path(folder) / "train-*")
        images, labels = batches(pattern, 8, True)
        plain, numbers = batches(pattern, 5, False)
        summary = tf.summary.merge_all()
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            labels_seen = set()
            for _ in range(5):
                batch, marks = sess.run([images, labels])
                assert batch.shape == (8, SIDE, SIDE, 3) and batch.min() >= -1 and batch.max() <= 1
                labels_seen |= set(marks.tolist())
                batch, marks = sess.run([plain, numbers])
                assert marks.tolist() == list(range(CLASSES))
                assert np.allclose(batch[:, 12, 12, 0], 2 * (25 + 50 * marks) / 255 - 1, atol=0.02)
            assert labels_seen <= set(range(CLASSES)) and len(labels_seen) > 1
            told = tf.Summary.FromString(sess.run(summary))
            tags = {one.tag.rpartition("/image")[0].rpartition("/")[2] for one in told.value if one.image.height}
            assert tags == {"image_with_bounding_boxes", "images_with_distorted_bounding_box", "images"}
            coord.request_stop()
            coord.join(threads)
    print("five batches for training, five for evaluation")


if __name__ == "__main__":
    main()
