"""CIFAR-10's reader: records of one length, a label and a picture, shuffled into batches, some batches ahead.

The way from the names to the shuffling queue is lowered: native threads read, decode, transpose and put, without the
GIL.
"""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

HEIGHT, WIDTH, DEPTH, EXAMPLES, BATCH = 32, 32, 3, 200, 25
RECORD = 1 + HEIGHT * WIDTH * DEPTH

folder = pathlib.Path(tempfile.mkdtemp())
random = np.random.default_rng(0)
labels = np.arange(EXAMPLES) % 10
pictures = random.integers(0, 256, (EXAMPLES, DEPTH, HEIGHT, WIDTH), np.uint8)
pictures[:, 0, 0, 0] = np.arange(EXAMPLES)  # which one it is
records = np.concatenate([labels[:, None].astype(np.uint8), pictures.reshape(EXAMPLES, -1)], axis=1)
for index in range(2):
    (folder / f"data_batch_{index + 1}.bin").write_bytes(records[index * 100 : index * 100 + 100].tobytes())


def read_cifar10(names):
    """Return one example's label, as an int32 of shape (1,), and its picture, (height, width, depth)."""
    reader = tf.FixedLengthRecordReader(record_bytes=RECORD)
    _, value = reader.read(names)
    record = tf.decode_raw(value, tf.uint8)
    label = tf.cast(tf.slice(record, [0], [1]), tf.int32)
    depth_major = tf.reshape(tf.slice(record, [1], [RECORD - 1]), [DEPTH, HEIGHT, WIDTH])
    return label, tf.transpose(depth_major, [1, 2, 0])


names = tf.train.string_input_producer([str(one) for one in sorted(folder.glob("*.bin"))], num_epochs=1)
label, picture = read_cifar10(names)
picture = tf.cast(picture, tf.float32)
images, targets = tf.train.shuffle_batch([picture, label], batch_size=BATCH, capacity=150, min_after_dequeue=50)
batches = tf.contrib.slim.prefetch_queue.prefetch_queue([images, targets], capacity=2)
image_batch, label_batch = batches.dequeue()

for line in tf.train.lowering_report():
    print(line)

seen = []
with tf.Session() as sess:
    sess.run(tf.local_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    try:
        while not coord.should_stop():
            batch, numbers = sess.run([image_batch, label_batch])
            assert batch.shape == (BATCH, HEIGHT, WIDTH, DEPTH) and batch.dtype == np.float32
            for one, number in zip(batch, numbers[:, 0], strict=True):
                which = int(one[0, 0, 0])
                seen.append(which)
                assert np.array_equal(one, pictures[which].transpose(1, 2, 0).astype(np.float32))
                assert number == labels[which]
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coord.request_stop()
        coord.join(threads)

assert sorted(seen) == list(range(EXAMPLES))
assert seen != sorted(seen)
print(len(seen), "examples, each once, shuffled")
