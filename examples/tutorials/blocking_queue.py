"""A queue of three places: values go round through it, and the fourth enqueue waits.

Three numbers of N(-1, 4) are put in at once. Each run takes one out and adds 1 to it; how many are left is printed.
After three runs the queue is empty, so a fourth one waits: it is given a second, and then up.
"""

import queuecore.tf1 as tf

queue = tf.FIFOQueue(capacity=3, dtypes=tf.float32)
fill = queue.enqueue_many([tf.random_normal([3], mean=-1, stddev=4, seed=1)])
taken = queue.dequeue()
left = queue.size()
with tf.control_dependencies([taken]):
    shown = tf.Print(taken, [queue.size()], message="left: ")
plus_one = shown + 1

with tf.Session() as sess:
    sess.run(fill)
    assert sess.run(left) == 3
    for expected in (2, 1, 0):
        print(sess.run(plus_one))
        assert sess.run(left) == expected
    try:
        sess.run(plus_one, options=tf.RunOptions(timeout_in_ms=1000))
        raise AssertionError("there was a fourth value")
    except tf.errors.DeadlineExceededError:
        print("the fourth run waits for an element that nobody puts in")
