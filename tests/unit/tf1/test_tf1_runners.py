"""Coordinators and runners with sessions. What TensorFlow does as well is in helpers/tensorflow/tf1_runners.py."""

import logging
import threading
import time

import numpy as np
import pytest
from helpers.process import PATIENCE, soon, thread_ids

import queuecore.tf1 as tf
from queuecore.errors import CancelledError, InvalidArgumentError, NotFoundError, OutOfRangeError


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own, and no thread that outlives its test."""
    before = thread_ids()
    with tf.Graph().as_default() as made:
        yield made
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def sess(graph):
    with tf.Session() as made:
        yield made


@pytest.fixture
def coord():
    made = tf.train.Coordinator()
    yield made
    made.request_stop()


@pytest.fixture
def uncaught(monkeypatch):
    """Return the exceptions that end a thread, instead of having them printed."""
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(args.exc_value))
    monkeypatch.setattr(logging.getLogger("queuecore"), "disabled", True)
    return caught


def endless(capacity=2, threads=1, name="numbers"):
    """Return a queue, and its runner, which puts ones."""
    queue = tf.FIFOQueue(capacity, tf.int32, [()], name=name)
    return queue, tf.train.QueueRunner(queue, [queue.enqueue(1)] * threads)


def read_lines(path, convert):
    """Return a queue of what is in the lines of a file, and its runner."""
    names = tf.FIFOQueue(5, tf.string, [()], name="names")
    _, line = tf.TextLineReader().read(names)
    queue = tf.FIFOQueue(5, tf.int32, [()], name="numbers")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(convert(line))])
    tf.train.add_queue_runner(runner)
    return names.enqueue(str(path)), names.close(), queue, runner


def natively(line):
    return tf.decode_csv(line, [[0]])[0]


def in_python(line):
    return tf.reshape(tf.py_func(lambda one: np.int32(int(one)), [line], tf.int32), [])


@pytest.mark.parametrize("convert", [natively, in_python])
def test_numbers_come_in_order_to_the_end(sess, coord, tmp_path, convert):
    (tmp_path / "a").write_text("".join(f"{i}\n" for i in range(50)))
    put, close, queue, runner = read_lines(tmp_path / "a", convert)
    (entry,) = tf.train.lowering_report()
    assert entry.lowered == (convert is natively)
    assert entry.lowered or "PyFunc" in entry.reason
    for op in (put, put, close):
        sess.run(op)
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    take = queue.dequeue()
    assert [sess.run(take) for _ in range(100)] == [*range(50), *range(50)]
    with pytest.raises(OutOfRangeError) as caught:
        sess.run(take)
    assert caught.value.__cause__ is None
    coord.join(threads)
    assert not coord.should_stop()


@pytest.mark.parametrize("convert", [natively, in_python])
def test_a_failure_reaches_the_consumer_with_its_cause(sess, coord, tmp_path, convert):
    (tmp_path / "a").write_text("1\n2\nx\n4\n")
    put, close, queue, runner = read_lines(tmp_path / "a", convert)
    sess.run(put)
    sess.run(close)
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    take = queue.dequeue()
    got = []
    with pytest.raises(OutOfRangeError) as caught:
        for _ in range(3):
            got.append(int(sess.run(take)))
    assert got == [1, 2]
    cause = caught.value.__cause__
    with pytest.raises(type(cause)) as raised:
        coord.join(threads)
    assert raised.value is cause
    if convert is natively:
        assert isinstance(cause, InvalidArgumentError)
        assert (cause.path, cause.record) == (str(tmp_path / "a"), 2)


@pytest.mark.parametrize("convert", [natively, in_python])
def test_a_missing_file_reaches_the_consumer(sess, coord, tmp_path, convert):
    put, close, queue, runner = read_lines(tmp_path / "nowhere", convert)
    sess.run(put)
    sess.run(close)
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    with pytest.raises(OutOfRangeError) as caught:
        sess.run(queue.dequeue())
    assert isinstance(caught.value.__cause__, NotFoundError)
    with pytest.raises(NotFoundError):
        coord.join(threads)


@pytest.mark.parametrize("convert", [natively, in_python])
def test_a_stop_ends_threads_that_wait_anywhere(sess, coord, tmp_path, convert):
    # For a name, and for room.
    (tmp_path / "a").write_text("1\n" * 1000)
    put, _, queue, runner = read_lines(tmp_path / "a", convert)
    sess.run(put)
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    assert soon(lambda: sess.run(queue.size()) == 5, PATIENCE)
    coord.request_stop()
    begun = time.monotonic()
    coord.join(threads)
    assert time.monotonic() - begun < PATIENCE
    assert sess.run(queue.is_closed())


def test_a_stop_ends_a_thread_that_waits_for_a_name(graph, coord, tmp_path):
    _, _, _, runner = read_lines(tmp_path / "a", natively)
    with tf.Session() as sess:
        threads = runner.create_threads(sess, coord, daemon=True, start=True)
        coord.request_stop()
        coord.join(threads)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_session_that_is_closed_ends_its_runners_silently(graph, threads):
    queue, runner = endless(threads=threads)
    sess = tf.Session()
    made = runner.create_threads(sess, start=True)
    assert soon(lambda: sess.run(queue.size()) == 2, PATIENCE)
    sess.close()
    for one in made:
        one.join(PATIENCE)
    assert {type(one) for one in runner.exceptions_raised} == {CancelledError}


def test_every_session_has_threads_and_queues_of_its_own(graph):
    queue, runner = endless()
    coords = [tf.train.Coordinator() for _ in range(2)]
    with tf.Session() as a, tf.Session() as b:
        first = runner.create_threads(a, coords[0], daemon=True, start=True)
        assert runner.create_threads(a, coords[0]) == []
        assert a.run(queue.dequeue()) == 1
        assert b.run(queue.size()) == 0
        second = runner.create_threads(b, coords[1], daemon=True, start=True)
        assert len(second) == len(first) == 2
        coords[0].request_stop()
        coords[0].join(first)
        assert b.run(queue.dequeue_many(9)).tolist() == [1] * 9
        coords[1].request_stop()
        coords[1].join(second)


def test_without_a_coordinator_an_error_ends_the_consumers_too(sess, uncaught):
    queue = tf.FIFOQueue(3, tf.int32, [()])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.placeholder(tf.int32, []))])
    (thread,) = runner.create_threads(sess, daemon=True, start=True)
    with pytest.raises(OutOfRangeError) as caught:
        sess.run(queue.dequeue())
    thread.join(PATIENCE)
    assert [caught.value.__cause__] == runner.exceptions_raised == uncaught


def test_the_first_real_error_wins_and_the_others_are_kept(sess, coord):
    threads = []
    both = threading.Barrier(2)

    def fail(word):
        both.wait(PATIENCE)
        raise KeyError(word)

    for word in ("one", "two"):
        queue = tf.FIFOQueue(3, tf.int32, [()])
        value = tf.py_func(lambda word=word: fail(word), [], tf.int32)
        runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.reshape(value, []))])
        threads += runner.create_threads(sess, coord, daemon=True, start=True)
    assert soon(lambda: len(coord.exceptions) == 2, PATIENCE)
    with pytest.raises(type(coord.exceptions[0])) as caught:
        coord.join(threads)
    assert caught.value is coord.exceptions[0]


def test_a_description_is_found_in_another_scope(graph):
    with tf.name_scope("a"):
        queue, runner = endless(name="q")
        message = runner.to_proto(export_scope="a")
    with tf.name_scope("b"):
        endless(name="q")
    assert (message.queue_name, message.enqueue_op_name) == ("q", ["q_enqueue"])
    again = tf.train.QueueRunner.from_proto(message, import_scope="b")
    assert (again.name, again.cancel_op.name) == ("b/q", "b/q_Close_1")
    assert tf.train.QueueRunner.from_proto(message, import_scope="a").queue is queue


def test_one_close_op_is_run_at_the_end_and_the_other_at_the_stop(sess, coord):
    done = tf.Variable(0)
    sess.run(tf.global_variables_initializer())
    at_end, at_stop = tf.group(tf.assign_add(done, 1)), tf.group(tf.assign_add(done, 10))
    queue = tf.FIFOQueue(9, tf.int32, [()])
    limited = tf.train.limit_epochs(tf.constant(1), 3)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(limited)] * 2, at_end, at_stop)
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    coord.join(threads)
    assert sess.run([done, queue.size(), queue.is_closed()]) == [1, 3, False]
    other, waiting = endless()
    del other
    runner = tf.train.QueueRunner(waiting.queue, waiting.enqueue_ops, at_end, tf.group(at_stop, waiting.cancel_op))
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    coord.request_stop()
    coord.join(threads)
    assert sess.run(done) == 11


def test_a_finalized_graph_can_be_run(graph, coord):
    # Nothing is added to it by threads that are made, nor by runs.
    queue, runner = endless()
    tf.train.add_queue_runner(runner)
    take = queue.dequeue()
    graph.finalize()
    with tf.Session() as sess:
        threads = tf.train.start_queue_runners(sess, coord)
        assert sess.run([take, take]) == [1, 1]
        coord.request_stop()
        coord.join(threads)
        with pytest.raises(RuntimeError, match="finalized"):
            queue.size()


def test_nothing_to_start_is_said(sess):
    with pytest.warns(RuntimeWarning, match="no queue runners"):
        assert tf.train.start_queue_runners(sess) == []


def test_a_session_that_is_used_by_a_looper(sess, coord):
    total = tf.Variable(0)
    sess.run(tf.global_variables_initializer())
    step = tf.assign_add(total, 1)
    tf.train.LooperThread.loop(coord, 0.01, sess.run, args=(step,))
    assert soon(lambda: sess.run(total) >= 5, PATIENCE)
    coord.request_stop()
    coord.join()
    count = sess.run(total)
    assert sess.run(total) == count


def test_many_threads_of_one_session_count_together(sess):
    total = tf.Variable(0)
    sess.run(tf.global_variables_initializer())
    step = tf.assign_add(total, 1)
    threads = [threading.Thread(target=lambda: [sess.run(step) for _ in range(200)]) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sess.run(total) == 800


def test_what_is_no_operation_fails_in_its_thread(sess, uncaught):
    queue = tf.FIFOQueue(3, tf.float32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1.0), "no such"])
    threads = runner.create_threads(sess, start=True)
    for thread in threads:
        thread.join()
    assert "not in the graph" in str(runner.exceptions_raised[0])
