"""A thousand examples, put into a queue of fifty by four threads, all of them at a time; a hundred are taken out."""

import numpy as np

import queuecore.tf1 as tf

data = 10 * np.random.default_rng(0).standard_normal((1000, 4)) + 1
target = np.random.default_rng(1).integers(0, 2, 1000)

queue = tf.FIFOQueue(capacity=50, dtypes=[tf.float32, tf.int32], shapes=[[4], []])
enqueue = queue.enqueue_many([tf.cast(data, tf.float32), tf.cast(target, tf.int32)])
runner = tf.train.QueueRunner(queue, [enqueue] * 4)
example, label = queue.dequeue()

known = {tuple(row): int(number) for row, number in zip(data.astype(np.float32).tolist(), target, strict=True)}
with tf.Session() as sess:
    coord = tf.train.Coordinator()
    threads = runner.create_threads(sess, coord=coord, start=True)
    for _ in range(100):
        if coord.should_stop():
            break
        x, y = sess.run([example, label])
        assert known[tuple(x.tolist())] == y
    coord.request_stop()
    coord.join(threads)

print("100 examples, each with its own label")
