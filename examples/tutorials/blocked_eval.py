"""Two zeros go round in a queue of two places, and each time one of them becomes one more: until a run has to wait.

``x = q.dequeue(); y = x + 1; put = q.enqueue([y])``: running `put` three times leaves 1 and 2 in the queue. Evaluating
`x` gives those, and waits for a third one in vain.
"""

import queuecore.tf1 as tf

queue = tf.FIFOQueue(2, "int32")
start = queue.enqueue_many(([0, 0],))
x = queue.dequeue()
y = x + 1
put = queue.enqueue([y])

with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=1000)):
    start.run()
    for _ in range(3):
        put.run()
    first, second = x.eval(), x.eval()
    print(first, second)
    assert (first, second) == (1, 2)
    try:
        x.eval()
        raise AssertionError("there was a third value")
    except tf.errors.DeadlineExceededError:
        print("the third evaluation waits")
