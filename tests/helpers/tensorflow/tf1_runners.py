"""Coordinators and queue runners with sessions. See `tf1_scenarios`."""

from __future__ import annotations

import threading
import warnings

import numpy as np
from helpers.tensorflow.tf1_scenarios import (
    Beside,
    different,
    ended,
    eventually,
    finished,
    got,
    named,
    outcome,
    refused,
    rest,
    run,
    scenario,
)


def counting(tf, limit, capacity=20, types=None, threads=1):
    """Return a queue and a runner that counts up to a limit into it."""
    queue = tf.FIFOQueue(capacity, tf.int64, [()], name="q")
    number = tf.train.limit_epochs(tf.constant(0, tf.int64), limit)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(number)] * threads, queue_closed_exception_types=types)
    return queue, runner


def session(tf):
    """Return a session with everything initialised."""
    sess = tf.Session()
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return sess


@scenario
def runner_arguments(tf):
    """What a runner is made of, and what not."""
    queue = tf.FIFOQueue(9, tf.int32, [()])
    op = queue.enqueue(1)
    Q = tf.train.QueueRunner
    error = tf.errors.OutOfRangeError
    return [
        refused(Q),
        refused(Q, queue),
        refused(Q, queue, []),
        refused(Q, queue, [op], queue_closed_exception_types=()),
        refused(Q, queue, [op], queue_closed_exception_types=(ValueError,)),
        refused(Q, queue, [op], queue_closed_exception_types=[error]),
        refused(Q, queue, [op], queue_closed_exception_types=(error, tf.errors.CancelledError)),
        refused(Q, queue, [op] * 3, queue.close(), queue.close(cancel_pending_enqueues=True)),
    ]


@scenario
def runner_properties(tf):
    """Its parts, and names and kinds of its threads."""
    with tf.name_scope("s"):
        queue = tf.FIFOQueue(9, tf.int32, [()], name="q")
        op = queue.enqueue(1)
        runner = tf.train.QueueRunner(queue, [op] * 2)
    results = [runner.name, runner.queue is queue, [op.name for op in runner.enqueue_ops], runner.close_op.name,
            runner.cancel_op.name, [error.__name__ for error in runner.queue_closed_exception_types],
            runner.exceptions_raised]  # fmt: skip
    coord = tf.train.Coordinator()
    with tf.Session() as sess:
        for coordinator in (None, coord):
            threads = runner.create_threads(sess, coordinator)
            results.append(
                [[thread.name, thread.daemon, thread.is_alive()] for thread in threads if "close_on" not in thread.name]
            )
            results.append([thread.name for thread in threads if "close_on" in thread.name])
        with tf.Session() as other:
            results.append(len(runner.create_threads(other, coord, daemon=True)))
    return results


@scenario
def proto(tf):
    """A description, and the runner that is made of it."""
    queue = tf.FIFOQueue(9, tf.int32, [()], name="q")
    types = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)] * 2, queue_closed_exception_types=types)
    message = runner.to_proto()
    again = tf.train.QueueRunner.from_proto(message)
    results = [message.queue_name, list(message.enqueue_op_name), message.close_op_name, message.cancel_op_name]
    results += [again.name, len(again.enqueue_ops), [error.__name__ for error in again.queue_closed_exception_types]]
    with tf.Session() as sess:
        threads = again.create_threads(sess, daemon=True, start=True)
        results += [len(threads), got(tf, sess, queue.dequeue_many(20))[1]]
        run(tf, sess, queue.close(cancel_pending_enqueues=True))
        results += [ended(threads), again.exceptions_raised]
    both = refused(tf.train.QueueRunner, queue, [queue.enqueue(1)], queue_runner_def=message)
    return [*results, both]


@scenario
def starting(tf):
    """Without a session, with what is none, with nothing to start, twice."""
    start = tf.train.start_queue_runners
    results = [refused(start), refused(start, 3)]
    with tf.Session() as sess:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(start(sess))
        queue, runner = counting(tf, 3)
        tf.train.add_queue_runner(runner)
        other, spare = counting(tf, 3)
        tf.train.add_queue_runner(spare, "spare")
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = start(coord=coord, start=False)  # the default session
        results += [len(threads), [thread.is_alive() for thread in threads], len(start(sess, coord))]
        for thread in threads:
            thread.start()
        results += [rest(tf, sess, queue.dequeue())[0], len(start(sess, coord, collection="spare"))]
        results += [rest(tf, sess, other.dequeue())[0], finished(tf, coord, threads)]
        return results


@scenario
def end_of_data_in_a_runner(tf):
    """The queue is closed; nobody is stopped; nothing is an error."""
    queue, runner = counting(tf, 4)
    coord = tf.train.Coordinator()
    with session(tf) as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        made = [rest(tf, sess, queue.dequeue()), got(tf, sess, queue.is_closed()), coord.should_stop()]
        return [*made, runner.exceptions_raised, finished(tf, coord, threads), outcome(tf, coord.join)]


@scenario
def several_ops_share_a_source(tf):
    """The last one to end closes the queue."""
    queue, runner = counting(tf, 30, capacity=100, threads=4)
    coord = tf.train.Coordinator()
    with session(tf) as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        values, *end = rest(tf, sess, queue.dequeue())
        return [len(threads), len(values), end, finished(tf, coord, threads)]


@scenario
def an_op_fails_with_a_coordinator(tf):
    """Join raises the cause; consumers see the end."""
    queue = tf.FIFOQueue(9, tf.int32, [()], name="q")
    x = tf.placeholder(tf.int32, [])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(x)])
    coord = tf.train.Coordinator()
    with tf.Session() as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        made = [rest(tf, sess, queue.dequeue())[:2], coord.wait_for_stop(20), outcome(tf, coord.join, threads)]
        return [*made, runner.exceptions_raised, got(tf, sess, queue.is_closed())]


@scenario
def an_op_fails_without_a_coordinator(tf):
    """It is kept, and raised in the thread."""
    queue = tf.FIFOQueue(9, tf.int32, [()], name="q")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.placeholder(tf.int32, []))])
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        with tf.Session() as sess:
            over = ended(runner.create_threads(sess, daemon=True, start=True))
    finally:
        threading.excepthook = hook
    return [over, [named(tf, one) for one in runner.exceptions_raised]]


@scenario
def a_stop_under_a_wait(tf):
    """Enqueues that wait are cancelled, and that is no error."""
    queue, runner = counting(tf, 1000, capacity=2, threads=3)
    coord = tf.train.Coordinator()
    with session(tf) as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        made = [got(tf, sess, queue.dequeue_many(5))[1]]
        coord.request_stop()
        coord.request_stop()
        made += [outcome(tf, coord.join, threads), ended(threads), got(tf, sess, queue.is_closed())]
        return [*made, rest(tf, sess, queue.dequeue())[1:]]


@scenario
def closed_from_outside(tf):
    """The cancelled enqueue is an error of the coordinator's, unless it is of the closed types."""
    results = []
    for types in (None, (tf.errors.OutOfRangeError, tf.errors.CancelledError)):
        with tf.Graph().as_default():
            queue, runner = counting(tf, 1000, 2, types)
            coord = tf.train.Coordinator()
            with session(tf) as sess:
                threads = runner.create_threads(sess, coord, daemon=True, start=True)
                run(tf, sess, queue.dequeue())
                run(tf, sess, queue.close(cancel_pending_enqueues=True))
                results += [ended(threads[:1]), coord.should_stop(), finished(tf, coord, threads)]
    return results


@scenario
def session_closed_under_a_runner(tf):
    """The coordinator hears of it."""
    queue, runner = counting(tf, 1000, 2)
    coord = tf.train.Coordinator()
    sess = session(tf)
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    eventually(lambda: int(sess.run(size)) == 2) if (size := queue.size()) is not None else None
    made = [Beside(tf, sess, queue.enqueue(9)).waits()]
    sess.close()
    return [*made, ended(threads[:1]), coord.wait_for_stop(20), finished(tf, coord, threads)]


@scenario
def again(tf):
    """When all have ended, threads can be made again: in the same session the queue stays closed."""
    queue, runner = counting(tf, 3)
    with session(tf) as sess:
        threads = runner.create_threads(sess, daemon=True, start=True)
        made = [len(threads), ended(threads), rest(tf, sess, queue.dequeue())[0]]
        return [*made, len(runner.create_threads(sess, daemon=True))]


@scenario
def a_python_function_in_a_runner(tf):
    """py_func, whose exception stops it."""
    calls = []

    def source():
        if len(calls) == 5:
            raise StopIteration
        calls.append(1)
        return np.float32(len(calls))

    queue = tf.FIFOQueue(9, tf.float32, [()], name="q")
    value = tf.py_func(source, [], tf.float32)
    value.set_shape([])
    coord = tf.train.Coordinator()
    runner = tf.train.QueueRunner(queue, [queue.enqueue(value)])
    with tf.Session() as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        made = rest(tf, sess, queue.dequeue())
        return [*made, finished(tf, coord, threads)]


@scenario
def coordinators(tf):
    """Stop, stop again, errors, clean types, and the end of join."""
    results = []
    for types, error in ((None, "OutOfRangeError"), ((ValueError,), "OutOfRangeError"), ((), "OutOfRangeError"),
                         (None, None), ((ValueError,), None)):  # fmt: skip
        coord = tf.train.Coordinator() if types is None else tf.train.Coordinator(types)
        with tf.Graph().as_default(), tf.Session() as sess, coord.stop_on_exception():
            if error is None:
                raise ValueError("x")
            queue = tf.FIFOQueue(1, tf.int32)
            sess.run(queue.close())
            sess.run(queue.dequeue())
        results.append([coord.should_stop(), coord.joined, outcome(tf, coord.join), coord.joined])
        results.append(outcome(tf, coord.raise_requested_exception))
        coord.clear_stop()
        results.append([coord.should_stop(), coord.joined, outcome(tf, coord.join), coord.wait_for_stop(0.01)])
    return results


@scenario
def loopers(tf):
    """A thread that calls again and again, some runs of a session."""
    queue = tf.FIFOQueue(99, tf.int32, [()])
    put = queue.enqueue(3)
    coord = tf.train.Coordinator()
    with tf.Session() as sess:
        thread = tf.train.LooperThread.loop(coord, 0.001, sess.run, (put,))
        made = [thread.daemon, got(tf, sess, queue.dequeue_many(5)), refused(tf.train.LooperThread, None, 1)]
        return [*made, finished(tf, coord, [thread]), thread.is_alive()]


@different([True, None])
def join_after_the_data(tf):
    """TensorFlow's close_on_stop thread waits for a stop that never comes."""
    queue, runner = counting(tf, 2)
    coord = tf.train.Coordinator()
    with session(tf) as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        rest(tf, sess, queue.dequeue())
        ended(threads[:1])
        over = threading.Event()

        def join():
            coord.join(threads)
            over.set()

        threading.Thread(target=join, daemon=True).start()
        return [over.wait(1.5), finished(tf, coord, threads)]


@different([True, "OutOfRangeError"])
def a_failed_runner_without_a_coordinator(tf):
    """TensorFlow's leaves its consumers waiting."""
    queue = tf.FIFOQueue(9, tf.int32, [()], name="q")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.placeholder(tf.int32, []))])
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        with tf.Session() as sess:
            ended(runner.create_threads(sess, daemon=True, start=True))
            return [got(tf, sess, queue.is_closed())[1], got(tf, sess, queue.dequeue(), seconds=0.15)]
    finally:
        threading.excepthook = hook
