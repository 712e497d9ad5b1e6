"""Four threads, no coordinator: two increment a counter, two put what it is into a queue.

Nothing says how often a thread counts between two enqueues, so the values don't follow each other: but they never go
back while one thread reads them. Without a coordinator nobody stops the threads, and in TensorFlow the program never
ended. Here it does: the session's end ends their waits, and threads that wait are daemons if they are started as such.
"""

import queuecore.tf1 as tf

counter = tf.Variable(0.0)
increment = tf.assign_add(counter, 1.0)
queue = tf.FIFOQueue(10, "float")
enqueue = queue.enqueue(counter)
runner = tf.train.QueueRunner(queue, enqueue_ops=[increment, enqueue] * 2)
taken = queue.dequeue()

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    runner.create_threads(sess, daemon=True, start=True)
    values = [sess.run(taken) for _ in range(20)]

print(values)
assert len(values) == 20
assert all(value >= 0 and value == int(value) for value in values)
assert max(values) > 0
