"""The whole frame of a queue-fed training loop: a shuffling queue, four threads, and errors that find their way.

Whatever goes wrong in the loop is handed to the coordinator, whose `join` raises it after the threads have ended. The
second `request_stop`, in ``finally``, does nothing any more.
"""

import numpy as np

import queuecore.tf1 as tf

examples = np.arange(400, dtype=np.float32).reshape(100, 4)
queue = tf.RandomShuffleQueue(capacity=200, min_after_dequeue=50, dtypes=[tf.float32], shapes=[[4]], seed=1)
runner = tf.train.QueueRunner(queue, [queue.enqueue_many([examples])] * 4)
inputs = queue.dequeue_many(16)


def train(steps, fail_at=None):
    """Take steps, and return the mean of each batch; or fail in one of them."""
    means = []
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        try:
            for step in range(steps):
                if coord.should_stop():
                    break
                batch = sess.run(inputs)
                assert batch.shape == (16, 4)
                assert np.array_equal(batch, examples[(batch[:, 0] // 4).astype(int)])
                if step == fail_at:
                    raise ValueError("the loss is not a number")
                means.append(batch.mean())
        except Exception as error:
            coord.request_stop(error)
        finally:
            coord.request_stop()
            coord.join(threads)
    return means


means = train(50)
assert len(means) == 50
assert len(set(map(float, means))) > 25  # they are shuffled
try:
    train(50, fail_at=3)
    raise AssertionError("the error was lost")
except ValueError as error:
    print("the loop's error came out of join:", error)
