"""Queues in a graph: construction, values, waits, close, kinds. See `tf1_scenarios`."""

from __future__ import annotations

import time

import numpy as np
from helpers.tensorflow.tf1_scenarios import (
    Beside,
    different,
    eventually,
    got,
    outcome,
    refused,
    rest,
    run,
    scenario,
    sentence as core,
    shape,
    waits,
)


@scenario
def construction(tf):
    """Arguments that are refused when the graph is built."""
    F, R, P, Q = tf.FIFOQueue, tf.RandomShuffleQueue, tf.PaddingFIFOQueue, tf.PriorityQueue
    return [
        refused(F, 1, []),
        refused(F, 1, tf.int32, [(), ()]),
        refused(F, 1, [tf.int32], [[None]]),
        refused(F, 1, [tf.int32], [None]),
        refused(F, 1, [tf.int32, tf.int32], names="a"),
        refused(F, 1, [tf.int32], names=["a", "b"]),
        refused(F, -1, [tf.int32]),
        refused(F, 1, ["float", "int32"], [(), ()]),
        refused(R, 5, 2, tf.int32, [[None]]),
        refused(P, 5, tf.int32, None),
        refused(P, 5, tf.int32, [3]),
        refused(P, 5, [tf.int32], [None]),
        refused(P, 5, [tf.int32], [[None, 2]]),
        refused(P, 5, [tf.int32], [[1], [2]]),
        refused(Q, 5, [tf.int32]),
        refused(Q, 5, [tf.int32], [()]),
    ]


@scenario
def parts(tf):
    """Attributes of queues."""
    a = tf.FIFOQueue(3, ["float", tf.string, tf.int64], [(4,), (), (2, 3)], ["x", "y", "z"], name="a")
    b = tf.FIFOQueue(3, tf.float32, [3], name="a")
    c = tf.FIFOQueue(3, [tf.int32, tf.bool], names=["p", "q"])
    d = tf.PriorityQueue(3, [tf.float32], [[2]])
    e = tf.PaddingFIFOQueue(3, [tf.float32], [[None, 2]], names="one")
    f = tf.RandomShuffleQueue(5, 2, tf.uint8, [])
    results = []
    for queue in (a, b, c, d, e, f):
        known = [None if dims.ndims is None else dims.as_list() for dims in queue.shapes]
        results.append([queue.name, known, queue.names, queue.queue_ref.op.name])
    with tf.name_scope("s"):
        g = tf.FIFOQueue(1, tf.int32, [()], name="q")
        results.append([g.name, g.enqueue(1).name, g.enqueue_many([[1]]).name, g.dequeue().name, g.dequeue_many(2).name,
                     g.dequeue_up_to(2).name, g.close().name, g.size().name, g.is_closed().name])  # fmt: skip
    return results


@scenario
def static_shapes(tf):
    """What is known of what comes out."""
    n = tf.placeholder(tf.int32, [])
    results = []
    for queue in (
        tf.FIFOQueue(3, [tf.float32, tf.int32], [(2, 3), ()]),
        tf.PaddingFIFOQueue(3, [tf.float32, tf.int32], [(None, 3), (None,)]),
        tf.PriorityQueue(3, [tf.float32], [(2,)]),
    ):
        for taken in (queue.dequeue(), queue.dequeue_many(4), queue.dequeue_many(n), queue.dequeue_up_to(4)):
            results.append([shape(tensor) for tensor in taken])
    free = tf.FIFOQueue(3, [tf.float32, tf.int32])
    return [*results, [shape(tensor) for tensor in free.dequeue()], shape(tf.FIFOQueue(3, tf.int32, [()]).size())]


@scenario
def structure(tf):
    """One component bare, several in a list, names in a dict; and in a single-named queue."""
    results = []
    with tf.Session() as sess:
        for queue, value in (
            (tf.FIFOQueue(3, tf.int32), 5),
            (tf.FIFOQueue(3, [tf.int32]), [5]),
            (tf.FIFOQueue(3, [tf.int32, tf.string]), [5, "ü"]),
            (tf.FIFOQueue(3, [tf.int32, tf.string]), (5, b"x\0")),
            (tf.FIFOQueue(3, [tf.int32, tf.string], names=["b", "a"]), {"a": "x", "b": 5}),
            (tf.FIFOQueue(3, tf.int32, [()], names="b"), {"b": 5}),
        ):
            sess.run(queue.enqueue(value))
            results.append(got(tf, sess, queue.dequeue()))
    return results


@scenario
def values_refused(tf):
    """Values that no element can be made of."""
    single = tf.FIFOQueue(9, tf.int32, [()])
    pair = tf.FIFOQueue(9, [tf.int32, tf.float32], [(), (2,)])
    names = tf.FIFOQueue(9, [tf.int32, tf.float32], [(), ()], names=["a", "b"])
    flag = tf.FIFOQueue(9, tf.bool, [()])
    text = tf.FIFOQueue(9, tf.string, [()])
    return [
        refused(single.enqueue_many, [0, 0]),
        refused(single.enqueue_many, [[0, 0]]),
        refused(single.enqueue_many, np.zeros(2, np.int32)),
        refused(single.enqueue, 1.5),
        refused(single.enqueue, tf.constant(1.5)),
        refused(single.enqueue, tf.constant(1, tf.int64)),
        refused(single.enqueue, "x"),
        refused(single.enqueue, [[1]]),
        refused(flag.enqueue, 1),
        refused(flag.enqueue, True),
        refused(text.enqueue, "x"),
        refused(text.enqueue, 1),
        refused(pair.enqueue, [1, [1.0, 2.0, 3.0]]),
        refused(pair.enqueue, [1, [1, 2]]),
        refused(pair.enqueue, {"a": 1, "b": [1.0, 2.0]}),
        refused(pair.enqueue_many, [[1, 2], [[1.0, 2.0]]]),
        refused(names.enqueue, [1, 1.0]),
        refused(names.enqueue, {"a": 1}),
        refused(names.enqueue, {"a": 1, "c": 1.0}),
        refused(names.enqueue, {"a": 1, "b": 1.0, "c": 1}),
        refused(names.enqueue, {"a": 1, "b": 1.0}),
        refused(single.dequeue_many, -1),
        refused(tf.PriorityQueue(9, [tf.int32], [()]).enqueue, [tf.constant(1, tf.int32), 2]),
        refused(tf.PriorityQueue(9, [tf.int32], [()]).enqueue, [1, 2]),
    ]


@scenario
def shapes_at_run_time(tf):
    """Clashes that only a run sees."""
    queue = tf.FIFOQueue(9, [tf.int32, tf.int32], [(2,), ()])
    a, b = tf.placeholder(tf.int32), tf.placeholder(tf.int32)
    free = tf.FIFOQueue(9, [tf.int32, tf.int32])
    n = tf.placeholder(tf.int32)
    put, put_many = queue.enqueue([a, b]), queue.enqueue_many([a, b])
    with tf.Session() as sess:
        return [
            got(tf, sess, put, {a: [1, 2, 3], b: 1}),
            got(tf, sess, put, {a: [1, 2], b: [1]}),
            got(tf, sess, put_many, {a: [[1, 2]], b: [1, 2]}),
            got(tf, sess, put_many, {a: [[1, 2, 3]], b: [1]}),
            got(tf, sess, put, {a: [1, 2], b: 3}),
            got(tf, sess, put_many, {a: [[3, 4], [5, 6]], b: [7, 8]}),
            got(tf, sess, free.enqueue([a, b]), {a: [1, 2, 3], b: [[1]]}),
            got(tf, sess, free.enqueue([a, b]), {a: 1, b: []}),
            got(tf, sess, free.dequeue()),
            got(tf, sess, free.dequeue()),
            got(tf, sess, queue.size()),
            got(tf, sess, queue.dequeue_many(n), {n: -1}),
            got(tf, sess, queue.dequeue_many(n), {n: 2}),
            got(tf, sess, queue.dequeue_up_to(n), {n: 1}),
        ]


@scenario
def order_and_waits(tf):
    """First in, first out; a full and an empty one wait."""
    queue = tf.FIFOQueue(3, tf.int32, [()])
    put, take, size = queue.enqueue_many([[1, 2, 3]]), queue.dequeue(), queue.size()
    with tf.Session() as sess:
        made = [waits(tf, sess, take), got(tf, sess, put), got(tf, sess, size), waits(tf, sess, queue.enqueue(4))]
        made += [got(tf, sess, take) for _ in range(3)]
        return [*made, waits(tf, sess, take), got(tf, sess, size)]


@scenario
def no_rows(tf):
    """Nothing at all goes in and comes out at once, also when it is full or closed."""
    queue = tf.FIFOQueue(1, [tf.int32, tf.float32], [(2,), ()])
    free = tf.FIFOQueue(1, tf.int32)
    put = queue.enqueue_many([np.zeros((0, 2), np.int32), np.zeros(0, np.float32)])
    with tf.Session() as sess:
        run(tf, sess, queue.enqueue([[1, 2], 3.0]))
        made = [got(tf, sess, put), got(tf, sess, queue.dequeue_many(0)), got(tf, sess, queue.size())]
        run(tf, sess, queue.close())
        made += [got(tf, sess, put), got(tf, sess, queue.dequeue_up_to(0)), got(tf, sess, free.dequeue_many(0))]
        return [*made, got(tf, sess, queue.dequeue_many(1))]


@scenario
def more_than_capacity(tf):
    """Both enqueue_many and dequeue_many may be of more than fits."""
    queue = tf.FIFOQueue(2, tf.int32, [()])
    with tf.Session() as sess:
        put = Beside(tf, sess, queue.enqueue_many([[1, 2, 3, 4, 5]]))
        made = [put.waits(), got(tf, sess, queue.size()), got(tf, sess, queue.dequeue_many(4)), put.over()]
        take = Beside(tf, sess, queue.dequeue_many(5))
        made += [take.waits(), got(tf, sess, queue.size()), got(tf, sess, queue.enqueue_many([[6, 7, 8, 9]]))]
        return [*made, take.over(), got(tf, sess, queue.size())]


@scenario
def in_line(tf):
    """Who comes first is served first, and holds up the others."""
    queue = tf.FIFOQueue(2, tf.int32, [()])
    with tf.Session() as sess:
        first = Beside(tf, sess, queue.enqueue_many([[1, 2, 3, 4]]))
        results = [first.waits()]
        second = Beside(tf, sess, queue.enqueue_many([[11, 12, 13, 14]]))
        results.append(second.waits())
        results += [got(tf, sess, queue.dequeue_many(3)), got(tf, sess, queue.dequeue_many(5))]
        results += [first.over(), second.over()]
        big = Beside(tf, sess, queue.dequeue_many(3))
        results.append(big.waits())
        small = Beside(tf, sess, queue.dequeue())
        results.append(small.waits())
        run(tf, sess, queue.enqueue_many([[1, 2]]))
        results += [big.waits(), small.waits()]
        run(tf, sess, queue.enqueue_many([[3, 4]]))
        return [*results, big.over(), small.over()]


@scenario
def one_run(tf):
    """Two fetches of one dequeue take one element, two dequeues take two."""
    queue = tf.FIFOQueue(9, [tf.int32, tf.int32], [(), ()])
    a, b = queue.dequeue()
    c, _ = queue.dequeue()
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]]))
        results = [got(tf, sess, [a, a, b, a + b]), got(tf, sess, queue.size())]
        results.append(sorted(int(value) for value in sess.run([a, c])))
        results += [
            got(tf, sess, queue.size()),
            got(tf, sess, {"x": a, "y": [b, (a,)]}),
            got(tf, sess, [a]),
            got(tf, sess, b),
        ]
        return [*results, waits(tf, sess, a)]


@scenario
def a_dequeue_waits_beside_an_enqueue(tf):
    """Operations of one run that need nothing of each other wait for each other's sake."""
    queue = tf.FIFOQueue(1, tf.int32, [()])
    with tf.Session() as sess:
        return [got(tf, sess, [queue.dequeue(), queue.enqueue(7)]), got(tf, sess, queue.size())]


@scenario
def closed(tf):
    """What is left comes out; nothing goes in; a second close."""
    queue = tf.FIFOQueue(5, tf.int32, [()], name="q")
    take, put = queue.dequeue(), queue.enqueue(9)
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2, 3]]))
        made = [got(tf, sess, queue.is_closed()), got(tf, sess, queue.close()), got(tf, sess, queue.is_closed())]
        made += [rest(tf, sess, put)[1:], got(tf, sess, queue.dequeue_many(4)), got(tf, sess, queue.size())]
        made += [got(tf, sess, queue.dequeue_up_to(2)), rest(tf, sess, take), got(tf, sess, queue.dequeue_up_to(2))]
        made += [rest(tf, sess, queue.close())[1:], got(tf, sess, queue.close(cancel_pending_enqueues=True))]
        return [*made, got(tf, sess, queue.close(cancel_pending_enqueues=True))]


@scenario
def close_behind_enqueues(tf):
    """A plain close waits for the enqueues that came before it."""
    queue = tf.FIFOQueue(2, tf.int32, [()])
    with tf.Session() as sess:
        put = Beside(tf, sess, queue.enqueue_many([[1, 2, 3, 4, 5]]))
        results = [put.waits()]
        close = Beside(tf, sess, queue.close())
        results += [close.waits(), got(tf, sess, queue.is_closed())]
        late = Beside(tf, sess, queue.enqueue(9))
        results.append(late.waits())
        results += [got(tf, sess, queue.dequeue_up_to(3)), put.over(), close.over(), late.over()]
        return [
            *results,
            got(tf, sess, queue.is_closed()),
            got(tf, sess, queue.dequeue_up_to(3)),
            rest(tf, sess, queue.dequeue()),
        ]


@scenario
def close_with_cancel(tf):
    """A cancelling close ends the enqueues that wait; rows that are in stay."""
    queue = tf.FIFOQueue(2, tf.int32, [()])
    with tf.Session() as sess:
        put = Beside(tf, sess, queue.enqueue_many([[1, 2, 3, 4, 5]]))
        made = [put.waits()]
        close = Beside(tf, sess, queue.close())
        made.append(close.waits())
        made += [got(tf, sess, queue.close(cancel_pending_enqueues=True)), put.over(), close.over()]
        return [
            *made,
            got(tf, sess, queue.is_closed()),
            got(tf, sess, queue.dequeue_many(2)),
            got(tf, sess, queue.dequeue()),
        ]


@scenario
def close_under_a_gather(tf):
    """Those who wait for more than will come get the end, and leave what they had."""
    queue = tf.FIFOQueue(5, tf.int32, [()])
    with tf.Session() as sess:
        results = []
        for up_to in (False, True):
            sess.run(queue.enqueue_many([[1, 2]])) if not up_to else None
            if not up_to:
                take = Beside(tf, sess, queue.dequeue_many(3))
                results += [take.waits(), got(tf, sess, queue.close()), take.over(), got(tf, sess, queue.size())]
            else:
                results += [got(tf, sess, queue.dequeue_up_to(3)), got(tf, sess, queue.dequeue_up_to(3))]
        return results


@scenario
def session_closed(tf):
    """A closed session ends the waits of its runs."""
    queue = tf.FIFOQueue(1, tf.int32, [()])
    full = tf.FIFOQueue(1, tf.int32, [()])
    sess = tf.Session()
    sess.run(full.enqueue(1))
    take, put = Beside(tf, sess, queue.dequeue()), Beside(tf, sess, full.enqueue(2))
    made = [take.waits(), put.waits()]
    sess.close()
    return [*made, take.over(), put.over(), outcome(tf, sess.run, queue.size())]


@scenario
def own_queues(tf):
    """Each session has queues of its own, also shared ones."""
    queue = tf.FIFOQueue(3, tf.int32, [()])
    shared = tf.FIFOQueue(3, tf.int32, [()], shared_name="s")
    made = []
    with tf.Session() as a, tf.Session() as b:
        for one in (queue, shared):
            a.run(one.enqueue(1))
            made += [got(tf, a, one.size()), got(tf, b, one.size())]
    return made


@scenario
def shared_names(tf):
    """One queue under one name; another capacity, type, shape or kind is refused when it is used."""
    a = tf.FIFOQueue(5, tf.int32, [()], shared_name="x")
    b = tf.FIFOQueue(5, tf.int32, [()], shared_name="x", name="other")
    wrong = [
        tf.FIFOQueue(6, tf.int32, [()], shared_name="x"),
        tf.FIFOQueue(5, tf.int64, [()], shared_name="x"),
        tf.FIFOQueue(5, tf.int32, [(1,)], shared_name="x"),
        tf.RandomShuffleQueue(5, 1, tf.int32, [()], shared_name="x"),
    ]
    with tf.Session() as sess:
        sess.run(a.enqueue(7))
        made = [got(tf, sess, b.size()), got(tf, sess, b.dequeue()), [got(tf, sess, one.size()) for one in wrong]]
        sess.run(a.close())
        return [*made, rest(tf, sess, b.dequeue())[1:], a.name, b.name]


@scenario
def shuffled_by_seed(tf):
    """The order of a RandomShuffleQueue, one by one and in batches, with and without a graph seed."""
    results = []
    for graph_seed, seed in ((None, 1), (None, 2), (5, 1), (5, 7)):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(graph_seed)
            queue = tf.RandomShuffleQueue(10, 0, tf.int32, [()], seed=seed)
            sess.run(queue.enqueue_many([list(range(10))]))
            take = queue.dequeue()
            results.append([int(sess.run(take)) for _ in range(4)] + sess.run(queue.dequeue_many(6)).tolist())
    return results


@scenario
def min_after_dequeue(tf):
    """So many stay as long as it is open."""
    queue = tf.RandomShuffleQueue(10, 2, tf.int32, [()], seed=1)
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2, 3]]))
        results = [got(tf, sess, queue.dequeue()), waits(tf, sess, queue.dequeue()), got(tf, sess, queue.size())]
        run(tf, sess, queue.close())
        results += [sorted(int(sess.run(queue.dequeue())) for _ in range(2)) > [0], got(tf, sess, queue.dequeue())]
        for capacity, least in ((5, 5), (5, 6), (5, -1), (5, 4), (-1, 99)):
            bad = tf.RandomShuffleQueue(capacity, least, tf.int32, [()])
            results.append(got(tf, sess, bad.size()))
        return results


@scenario
def padding(tf):
    """Rows of different sizes, padded to the largest of the batch."""
    queue = tf.PaddingFIFOQueue(9, [tf.int32, tf.string], [(None,), (None, 2)])
    a, b = tf.placeholder(tf.int32), tf.placeholder(tf.string)
    put = queue.enqueue([a, b])
    with tf.Session() as sess:
        for n in (1, 3, 2):
            sess.run(put, {a: list(range(n)), b: [["x", "yy"]] * n})
        made = [got(tf, sess, queue.dequeue()), got(tf, sess, queue.dequeue_many(2))]
        made += [got(tf, sess, put, {a: [[1]], b: [["x", "y"]]}), got(tf, sess, put, {a: [1], b: [["x"]]})]
        return [*made, got(tf, sess, queue.enqueue_many([[[1, 2], [3, 4]], [[["a", "b"]], [["c", "d"]]]])),
                got(tf, sess, queue.dequeue_up_to(2))]  # fmt: skip


@scenario
def priorities(tf):
    """Smallest first."""
    queue = tf.PriorityQueue(9, [tf.string], [()])
    low, high = -(2**63), 2**63 - 1
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([np.array([high, 3, low, 0, -5]), ["e", "d", "a", "c", "b"]]))
        made = [got(tf, sess, queue.dequeue()), got(tf, sess, queue.dequeue_many(2))]
        run(tf, sess, queue.enqueue([1, "x"]))
        return [*made, got(tf, sess, queue.dequeue()), got(tf, sess, queue.dequeue_many(2))]


@scenario
def chosen_from_a_list(tf):
    """from_list, with an index that a run is told."""
    a = tf.FIFOQueue(3, tf.int32, [(2,)])
    b = tf.FIFOQueue(3, tf.int32, [(3,)])
    c = tf.FIFOQueue(3, tf.float32, [(2,)])
    position = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(position, [a, b])
    take, size = chosen.dequeue(), chosen.size()
    bad = tf.QueueBase.from_list
    results = [shape(take), refused(bad, 0, []), refused(bad, 0, (a, b)), refused(bad, 0, [a, c])]
    with tf.Session() as sess:
        sess.run(a.enqueue([[1, 2]]))
        sess.run(b.enqueue([[3, 4, 5]]))
        sess.run(b.enqueue([[6, 7, 8]]))
        results += [
            got(tf, sess, size, {position: 0}),
            got(tf, sess, size, {position: 1}),
            got(tf, sess, take, {position: 0}),
        ]
        return [*results, got(tf, sess, take, {position: 1})[1:], got(tf, sess, size, {position: 2})]


@scenario
def timeouts(tf):
    """A run that is over its time changes nothing, and the queue goes on."""
    queue = tf.FIFOQueue(2, tf.int32, [()])
    with tf.Session() as sess:
        results = [waits(tf, sess, queue.dequeue()), got(tf, sess, queue.enqueue_many([[1, 2]]))]
        results += [
            waits(tf, sess, queue.enqueue(3)),
            got(tf, sess, queue.size()),
            waits(tf, sess, queue.enqueue_many([[3, 4]])),
        ]
        return [*results, got(tf, sess, queue.dequeue_many(2)), got(tf, sess, queue.size())]


@scenario
def messages(tf):
    """What the end of a queue of each kind is called."""
    results = []
    with tf.Session() as sess:
        for queue in (
            tf.FIFOQueue(3, tf.int32, [()], name="f"),
            tf.PriorityQueue(3, [tf.int32], [()], name="o"),
            tf.RandomShuffleQueue(3, 1, tf.int32, [()], name="r"),
            tf.FIFOQueue(3, tf.int32, [()], name="s", shared_name="common"),
        ):
            run(tf, sess, queue.close())
            results.append(rest(tf, sess, queue.dequeue())[1:])
    return results


@scenario
def a_session_in_several_threads(tf):
    """Each element comes once."""
    queue = tf.FIFOQueue(8, tf.int32, [()])
    x = tf.placeholder(tf.int32, [])
    put, take = queue.enqueue(x), queue.dequeue()
    with tf.Session() as sess:
        puts = [Beside(tf, _Many(sess, [(put, {x: 100 * t + i}) for i in range(40)]), None) for t in range(4)]
        takes = [Beside(tf, _Many(sess, [(take, None)] * 40), None) for _ in range(4)]
        for one in puts:
            one.over()
        found = [value for one in takes for value in one.over()]
    return sorted(value[1] for value in found) == sorted(100 * t + i for t in range(4) for i in range(40))


class _Call:
    # A function, in the place of a session.
    def __init__(self, function):
        self._function = function

    def run(self, fetches, feed):
        del fetches, feed
        self._function()


class _Many:
    # Several runs, one after the other, in the place of a session.
    def __init__(self, sess, runs):
        self._sess, self._runs = sess, runs

    def run(self, fetches, feed):
        del fetches, feed
        return [self._sess.run(*one) for one in self._runs]


# Where ours differs (section 10)


@different([["int32", [2], [1, 2]], ["int32", 0]])
def a_timed_out_gather_loses_nothing(tf):
    """TensorFlow loses what it had taken."""
    queue = tf.FIFOQueue(5, tf.int32, [()])
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2]]))
        got(tf, sess, queue.dequeue_many(3), seconds=0.15)
        run(tf, sess, queue.close())
        return [got(tf, sess, queue.dequeue_up_to(2)), got(tf, sess, queue.size())]


@different("ValueError")
def capacity_of_nothing(tf):
    """TensorFlow's waits for ever."""
    return refused(tf.FIFOQueue, 0, tf.int32)


@different(["ValueError", "ValueError", "TypeError", "ValueError"])
def components_that_are_too_many(tf):
    """TensorFlow drops them, says of too few in the run, and cuts floats."""
    queue = tf.FIFOQueue(5, [tf.int32, tf.int32], [(), ()])
    return [
        refused(queue.enqueue, [1, 2, 3]),
        refused(queue.enqueue, [1]),
        refused(tf.FIFOQueue(5, tf.int32, [()]).enqueue, np.float64(1.7)),
        refused(queue.dequeue_up_to, -1),
    ]


@different([["int64", [2], [1, 2]], "OutOfRangeError"])
def what_is_left_of_priorities(tf):
    """TensorFlow throws the rest away."""
    queue = tf.PriorityQueue(9, [tf.string], [()])
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([np.array([2, 1]), ["b", "a"]]))
        run(tf, sess, queue.close())
        left = got(tf, sess, queue.dequeue_up_to(3))
        return [left if isinstance(left, str) else left[0], got(tf, sess, queue.dequeue_up_to(3))]


@different("InvalidArgumentError")
def more_priorities_than_fit(tf):
    """TensorFlow waits for ever."""
    queue = tf.PriorityQueue(2, [tf.int32], [()])
    with tf.Session() as sess:
        return got(tf, sess, queue.dequeue_many(3), seconds=0.15)


@different("FIFOQueue 'q' is closed and has insufficient elements (requested 3, current size 2)")
def the_numbers_in_the_message(tf):
    """TensorFlow's are those of the moment: what was missing, and what the gather had left."""
    queue = tf.FIFOQueue(5, tf.int32, [()], name="q")
    texts = []
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2]]))

        def take():
            try:
                sess.run(queue.dequeue_many(3))
            except tf.errors.OutOfRangeError as error:
                texts.append(core(error))

        beside = Beside(tf, _Call(take), None)
        beside.waits()
        time.sleep(0.05)
        sess.run(queue.close())
        beside.over()
        eventually(lambda: texts)
        return texts[0]


# Generated programs


def queue_of_kind(tf, kind, capacity, seed):
    """Return a queue of (int64, float32 vector)."""
    shapes = [(), (2,)]
    if kind == "PaddingFIFOQueue":
        return tf.PaddingFIFOQueue(capacity, [tf.int64, tf.float32], [(), (None,)])
    if kind == "PriorityQueue":
        return tf.PriorityQueue(capacity, [tf.float32], [(2,)])
    if kind == "RandomShuffleQueue":
        return tf.RandomShuffleQueue(capacity, 0, [tf.int64, tf.float32], shapes, seed=seed)
    return tf.FIFOQueue(capacity, [tf.int64, tf.float32], shapes)


@scenario
def generated_histories(tf):
    """Operations by chance that need not wait, and those that a closed queue refuses."""
    results = []
    for number in range(24):
        rng = np.random.default_rng(number)
        kind = ["FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue"][number % 4]
        capacity = int(rng.integers(3, 9))
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(int(rng.integers(1, 99)))
            queue = queue_of_kind(tf, kind, capacity, int(rng.integers(99)))
            keys, rows = tf.placeholder(tf.int64), tf.placeholder(tf.float32)
            if kind == "PriorityQueue":
                keys.set_shape([])
            several, n = tf.placeholder(tf.int64), tf.placeholder(tf.int32, [])
            put, put_many = queue.enqueue([keys, rows]), queue.enqueue_many([several, rows])
            take, take_many, take_up_to = queue.dequeue(), queue.dequeue_many(n), queue.dequeue_up_to(n)
            size, closed, fresh = 0, False, iter(rng.permutation(1000).tolist())
            for _ in range(30):
                width = int(rng.integers(1, 4)) if kind == "PaddingFIFOQueue" else 2
                count = int(rng.integers(1, 4))
                choice = rng.integers(6 if size or closed else 2)
                if choice == 0 and (closed or size < capacity):
                    results.append(got(tf, sess, put, {keys: next(fresh), rows: rng.random(width)}))
                    size += not closed
                elif choice == 1 and (closed or size + count <= capacity):
                    feed = {several: [next(fresh) for _ in range(count)], rows: rng.random((count, width))}
                    results.append(got(tf, sess, put_many, feed))
                    size += 0 if closed else count
                elif choice == 2 and (closed or size):
                    results.append(got(tf, sess, take))
                    size -= size > 0
                elif choice == 3 and size >= count:
                    results.append(got(tf, sess, take_many, {n: count}))
                    size -= count
                elif choice == 4 and (size >= count or (closed and kind != "PriorityQueue")):
                    results.append(got(tf, sess, take_up_to, {n: count}))
                    size -= min(size, count)
                elif choice == 5 and not closed and rng.random() < 0.15:
                    results.append(got(tf, sess, queue.close(cancel_pending_enqueues=bool(rng.integers(2)))))
                    closed = True
                results.append(int(sess.run(queue.size())) == size)
    return results
