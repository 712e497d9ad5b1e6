"""Feed a loop by hand, or through a queue: the tutorials' comparison, small enough for a moment.

`benchmarks/e2e/feed_vs_queue.py` is the whole experiment, with a network, a device, files and a plot.
"""

import time

import numpy as np

import queuecore.tf1 as tf

STEPS, BATCH, WIDTH = 40, 128, 1024


def make_batch():
    """Return a batch of N(0, 1), and whether the sum of each row is above 0."""
    batch = np.random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    return batch, (batch.sum(1) > 0).astype(np.int32)


def step(batch, labels):
    """Stand in for a training step."""
    time.sleep(0.002)
    return float(batch[labels > 0].mean())


x, y = tf.placeholder(tf.float32, [BATCH, WIDTH]), tf.placeholder(tf.int32, [BATCH])
fed = [tf.identity(x), tf.identity(y)]

made = tf.py_func(lambda: make_batch()[0], [], tf.float32)
made.set_shape([BATCH, WIDTH])
queue = tf.FIFOQueue(capacity=5, dtypes=[tf.float32], shapes=[[BATCH, WIDTH]])
runner = tf.train.QueueRunner(queue, [queue.enqueue([made])])
taken = queue.dequeue()
labelled = [taken, tf.cast(tf.reduce_sum(taken, axis=1) > 0, tf.int32)]

with tf.Session() as sess:
    begun = time.perf_counter()
    for _ in range(STEPS):
        batch, labels = make_batch()
        step(*sess.run(fed, feed_dict={x: batch, y: labels}))
    feeding = time.perf_counter() - begun

    coord = tf.train.Coordinator()
    threads = runner.create_threads(sess, coord=coord, start=True)
    begun = time.perf_counter()
    for _ in range(STEPS):
        batch, labels = sess.run(labelled)
        assert batch.shape == (BATCH, WIDTH)
        assert np.array_equal(labels, (batch.sum(1) > 0))
        step(batch, labels)
    queued = time.perf_counter() - begun
    coord.request_stop()
    coord.join(threads)

print(f"fed {feeding:.2f} s, through a queue {queued:.2f} s: {feeding / queued:.2f} times as fast")
