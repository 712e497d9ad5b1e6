"""A queue runner with one thread keeps a queue of three places full, six values at a time.

The source is evaluated when the runner enqueues: for ten dequeues and a full queue behind them it needs three rounds of
six, and the third is under way then, waiting for room.
"""

import time

import numpy as np

import queuecore.tf1 as tf

evaluations: list[int] = []


def source():
    """Return six values, and remember that they were asked for."""
    evaluations.append(len(evaluations))
    return np.arange(6) + 6 * evaluations[-1]


values = tf.py_func(source, [], tf.int64)
values.set_shape([6])
queue = tf.FIFOQueue(capacity=3, dtypes=[tf.int64], shapes=[[]])
runner = tf.train.QueueRunner(queue, [queue.enqueue_many([values])])
taken, size = queue.dequeue(), queue.size()

with tf.Session() as sess:
    coord = tf.train.Coordinator()
    threads = runner.create_threads(sess, coord=coord, start=True)
    assert [sess.run(taken) for _ in range(10)] == list(range(10))
    while sess.run(size) < 3:
        time.sleep(0.01)
    coord.request_stop()
    coord.join(threads)

print("the source was evaluated", len(evaluations), "times")
assert len(evaluations) == 3
