"""Input functions of ``tf.train``. See `tf1_scenarios`."""

from __future__ import annotations

import numpy as np
from helpers.tensorflow.tf1_scenarios import (
    different,
    eventually,
    finished,
    folder,
    got,
    outcome,
    plain,
    refused,
    rest,
    run,
    runners,
    scenario,
    shape,
)


def drained(tf, fetches):
    """Start everything, run to the end, stop, and return all of it."""
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        return [*rest(tf, sess, fetches), finished(tf, coord, threads)]


def each(tf, *functions):
    """Return what functions give, each with a graph of its own."""
    made = []
    for function in functions:
        with tf.Graph().as_default():
            made.append(function())
    return made


@scenario
def producers_refuse(tf):
    """Arguments that are wrong when the graph is built."""
    t, p = tf.train, tf.placeholder
    return [
        refused(t.limit_epochs, [1], 0),
        refused(t.limit_epochs, [1], -1),
        refused(t.limit_epochs, [1], 1),
        refused(t.input_producer, tf.constant(1)),
        refused(t.input_producer, p(tf.int32)),
        refused(t.input_producer, p(tf.int32, [None, None])),
        refused(t.input_producer, p(tf.int32), [2]),
        refused(t.input_producer, p(tf.int32, [None, 3]), [2]),
        refused(t.input_producer, [1, 2], num_epochs=0),
        refused(t.string_input_producer, []),
        refused(t.string_input_producer, "a"),
        refused(t.string_input_producer, [1]),
        refused(t.string_input_producer, [["a", "b"]]),
        refused(t.string_input_producer, ["a"], num_epochs=-1),
        refused(t.range_input_producer, -1),
        refused(t.slice_input_producer, []),
        refused(t.slice_input_producer, [tf.constant(1)]),
        refused(t.slice_input_producer, tf.constant([1])),
        refused(t.match_filenames_once, 3),
    ]


@scenario
def producers_give(tf):
    """Kinds, names, types and shapes of what they return."""
    t = tf.train
    a = t.input_producer([[1, 2], [3, 4]])
    b = t.input_producer([[1.5, 2.0]], name="x", shared_name="y")
    c = t.string_input_producer(["a"], num_epochs=2)
    d = t.range_input_producer(3, name="r")
    e = t.range_input_producer(3)
    f, g = t.slice_input_producer([np.zeros((3, 2), np.float32), ["a", "b", "c"]])
    made = [[type(q).__name__, q.name, [one.as_list() for one in q.shapes], q.names] for q in (a, b, c, d, e)]
    made += [f.dtype == tf.float32, shape(f), g.dtype == tf.string, shape(g), f.name]
    made += [[one.name for one in tf.get_collection("queue_runners")]]
    return [*made, [one.name for one in tf.local_variables()], t.limit_epochs([1]) == [1],
            t.limit_epochs([1], 2, name="q").name, d.dtypes[0] == tf.int32]  # fmt: skip


@scenario
def epochs_in_order(tf):
    """One after the other, whole ones, with a message at the end."""
    queue = tf.train.string_input_producer(["a", "b", "c"], num_epochs=3, shuffle=False)
    return drained(tf, queue.dequeue())


@scenario
def epochs_shuffled(tf):
    """Orders for seeds, with and without a graph seed, for vectors and rows of all lengths modulo 4."""
    results = []
    for graph_seed, seed in ((None, 3), (7, 3), (7, 0)):
        for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13):
            with tf.Graph().as_default(), tf.Session() as sess:
                tf.set_random_seed(graph_seed)
                queue = tf.train.range_input_producer(count, num_epochs=3, seed=seed)
                rows = tf.train.input_producer(np.arange(2 * count).reshape(count, 2), num_epochs=2, seed=seed)
                runners(tf, sess)
                orders = [run(tf, sess, queue.dequeue_many(count)).tolist() for _ in range(3)]
                results.append([orders, run(tf, sess, rows.dequeue_many(2 * count)).tolist()])
    return results


@scenario
def batches_over_epochs(tf):
    """A batch spans epochs; a rest that is too short stays for smaller ones."""
    queue = tf.train.range_input_producer(3, num_epochs=3, shuffle=False)
    many, few = queue.dequeue_many(4), queue.dequeue_up_to(4)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        return [*rest(tf, sess, many)[:2], got(tf, sess, few), got(tf, sess, few), finished(tf, coord, threads)]


@scenario
def epochs_counted(tf):
    """The counter is of the epochs begun; resetting it begins anew in another session."""
    queue = tf.train.range_input_producer(4, num_epochs=3, shuffle=False, capacity=2)
    (epochs,) = tf.local_variables()
    results = []
    for _ in range(2):
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = runners(tf, sess, coord)
            results.append(eventually(lambda sess=sess: int(sess.run(epochs)) == 1))
            results += [got(tf, sess, queue.dequeue_many(3)), eventually(lambda sess=sess: int(sess.run(epochs)) == 2)]
            results += [rest(tf, sess, queue.dequeue())[:2], got(tf, sess, epochs), finished(tf, coord, threads)]
    return results


@scenario
def limited(tf):
    """A tensor that has its value three times."""
    x = tf.placeholder(tf.int32)
    limited_x = tf.train.limit_epochs(x, 3)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        made = [got(tf, sess, limited_x, {x: i}) for i in range(4)]
        sess.run(tf.local_variables_initializer())
        return [*made, got(tf, sess, limited_x, {x: 9})]


@scenario
def the_limit_is_said(tf):
    """The message."""
    x = tf.train.limit_epochs(tf.constant([7, 8]), 2)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        return rest(tf, sess, x)


@scenario
def empty_ones(tf):
    """Nothing at all: an empty vector of strings is an error of the runner's, a range of nothing is at its end."""
    results = []
    with tf.Graph().as_default():
        x = tf.constant([], tf.string)
        results.append(drained(tf, tf.train.string_input_producer(x, num_epochs=1).dequeue())[1::2])
    with tf.Graph().as_default():
        results.append(drained(tf, tf.train.range_input_producer(0, num_epochs=2).dequeue()))
    return results


@scenario
def slices(tf):
    """Rows of several tensors together, in order and shuffled."""
    results = []
    for shuffle in (False, True):
        with tf.Graph().as_default():
            x = np.arange(10).reshape(5, 2).astype(np.float32)
            parts = tf.train.slice_input_producer([x, list("abcde")], num_epochs=2, shuffle=shuffle, seed=4)
            results.append(drained(tf, parts))
    return results


@scenario
def ranges_of_types(tf):
    """The numbers have the limit's type."""
    made = []
    for limit in (3, np.int64(3), 2.5):
        with tf.Graph().as_default():
            made.append(drained(tf, tf.train.range_input_producer(limit, num_epochs=1, shuffle=False).dequeue_up_to(9)))
    return made


@scenario
def a_placeholder_is_a_producers_error(tf):
    """It can't be fed in a runner's thread."""
    queue = tf.train.input_producer(tf.placeholder(tf.int32, [3]), num_epochs=1)
    made = drained(tf, queue.dequeue())
    return [made[0], made[1], made[3]]


@scenario
def file_names(tf):
    """Patterns, expanded when the variable is initialised, sorted, twice what matches twice."""
    path = folder({"b.txt": b"", "a.txt": b"", ".h.txt": b"", "[x].bin": b"", "c.bin": b""})
    patterns = ["*.txt", "?.txt", "none*", "[ab].txt", "a.txt", "missing", "[[]x].bin", "*"]
    results = []
    for pattern in [str(path / name) for name in patterns] + [[str(path / "*.txt"), str(path / "a*")]]:
        with tf.Graph().as_default(), tf.Session() as sess:
            names = tf.train.match_filenames_once(pattern)
            sess.run(tf.local_variables_initializer())
            results.append([name.decode().rpartition("/")[2] for name in sess.run(names)])
    with tf.Graph().as_default(), tf.Session() as sess:
        names = tf.train.match_filenames_once(str(path / "*.new"), name="files")
        results += [names.name, shape(names), len(tf.local_variables()), got(tf, sess, names)]
        (path / "1.new").write_bytes(b"")
        sess.run(tf.local_variables_initializer())
        (path / "2.new").write_bytes(b"")
        results.append(len(sess.run(names)))
        queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        results.append([name.rpartition("/")[2] for name in rest(tf, sess, queue.dequeue())[0]])
        return [*results, finished(tf, coord, threads)]


@scenario
def relative_patterns(tf):
    """Those that begin with one gain a dot and a slash."""
    import os

    before = os.getcwd()
    os.chdir(folder({"a.txt": b"", "b.txt": b""}))
    try:
        os.mkdir("sub")
        with open("sub/c.txt", "w"):
            pass
        results = []
        for pattern in ("*.txt", "./*.txt", "sub/*.txt", "*/*.txt", "a.txt", "a.t[xy]t", ["b*", "./a*"]):
            with tf.Graph().as_default(), tf.Session() as sess:
                names = tf.train.match_filenames_once(pattern)
                sess.run(tf.local_variables_initializer())
                results.append(plain(sess.run(names)))
        return results
    finally:
        os.chdir(before)


# Batches


@scenario
def batches_refuse(tf):
    """Arguments that are wrong when the graph is built."""
    t = tf.train
    return each(
        tf,
        lambda: refused(t.batch, tf.constant([1, 2]), 2),
        lambda: refused(t.batch, tf.constant(1), 2),
        lambda: refused(t.batch, [], 2),
        lambda: refused(t.batch, {}, 2),
        lambda: refused(t.batch, [tf.placeholder(tf.int32)], 2),
        lambda: refused(t.batch, [tf.placeholder(tf.int32)], 2, shapes=[[3]]),
        lambda: refused(t.batch, [tf.placeholder(tf.int32)], 2, dynamic_pad=True),
        lambda: refused(t.batch, [tf.placeholder(tf.int32, [None])], 2),
        lambda: refused(t.batch, [tf.placeholder(tf.int32, [None])], 2, dynamic_pad=True),
        lambda: refused(t.batch, [tf.placeholder(tf.int32, [None, 3])], 2, enqueue_many=True),
        lambda: refused(t.batch, [tf.placeholder(tf.int32, [])], 2, enqueue_many=True),
        lambda: refused(t.batch, [tf.constant(1), tf.constant(2)], 2, shapes=[[]]),
        lambda: refused(t.batch, [tf.constant(1)], -1),
        lambda: refused(t.batch, [tf.constant(1)], 2, num_threads=0),
        lambda: refused(t.batch_join, [], 2),
        lambda: refused(t.batch_join, [[]], 2),
        lambda: refused(t.batch_join, tf.constant([1]), 2),
        lambda: refused(t.batch_join, [[tf.constant(1)], [tf.constant(1.0)]], 2),
        lambda: refused(t.batch_join, [{"a": tf.constant(1)}, {"b": tf.constant(1)}], 2),
        lambda: refused(t.batch_join, [[tf.constant([1, 2])], [tf.constant([1])]], 2),
        lambda: refused(t.batch_join, [[tf.constant([1, 2])], [tf.constant([1])]], 2, dynamic_pad=True),
        lambda: refused(t.batch_join, [[tf.constant([1])], [tf.constant(1)]], 2, dynamic_pad=True),
        lambda: refused(t.shuffle_batch, [tf.constant(1)], 2, 4, 4),
        lambda: refused(t.shuffle_batch, [tf.constant(1)], 2, 4, 3),
        lambda: refused(t.shuffle_batch, [tf.constant(1)], 2, -1, 3),
        lambda: refused(t.maybe_batch, [tf.constant(1)], tf.placeholder(tf.bool, [None]), 2),
        lambda: refused(t.maybe_batch, [tf.constant([1])], tf.placeholder(tf.bool, [1, 1]), 2, enqueue_many=True),
        lambda: refused(t.maybe_batch, [tf.constant([1])], tf.placeholder(tf.bool), 2, enqueue_many=True),
        lambda: refused(t.maybe_batch, [tf.constant([1])], tf.placeholder(tf.int32, []), 2),
        lambda: refused(t.maybe_batch, [tf.constant([1, 2])], [True, False, True], 2, enqueue_many=True),
        lambda: refused(t.maybe_batch, [tf.constant([1, 2])], [True, False], 2, enqueue_many=True),
    )


@scenario
def batches_give(tf):
    """Structures, names and shapes of what they return."""
    t, c = tf.train, tf.constant
    ab = {"b": c([1.5, 2.5]), "a": c(1)}
    results = []
    for batch in (
        t.batch([c(1)], 2),
        t.batch((c(1), c(["x"])), 2),
        t.batch({"a": c(1)}, 2),
        t.batch(ab, 3, name="mine"),
        t.batch([c(1), 2.5], 2, allow_smaller_final_batch=True),
        t.batch([tf.placeholder(tf.int32, [None, 2])], 2, dynamic_pad=True),
        t.batch([tf.placeholder(tf.int32, [None, 2])], tf.placeholder(tf.int32, []), enqueue_many=True),
        t.batch_join([[c(1), c(2)]] * 2, 2),
        t.batch_join([ab, ab], 2),
        t.shuffle_batch([c(1)], 2, 10, 3),
        t.shuffle_batch_join([(c(1), c(2))], 2, 10, 3, allow_smaller_final_batch=True),
        t.maybe_batch([c(1)], tf.placeholder(tf.bool, []), 2),
        t.maybe_shuffle_batch([c([1, 2])], 2, 10, 2, tf.placeholder(tf.bool, [])),
        t.batch([c(1)], 0),
    ):
        if isinstance(batch, dict):
            results.append({key: [tensor.name, shape(tensor)] for key, tensor in batch.items()})
        elif isinstance(batch, list):
            results.append([[tensor.name, shape(tensor)] for tensor in batch])
        else:
            results.append([batch.name, shape(batch)])
    runs = tf.get_collection("queue_runners")
    return [results, [[runner.name, type(runner.queue).__name__, len(runner.enqueue_ops)] for runner in runs]]


def numbers(tf, count, epochs=1):
    """Return a tensor that counts."""
    return tf.train.range_input_producer(count, num_epochs=epochs, shuffle=False).dequeue()


@scenario
def batches_to_the_end(tf):
    """With and without the rest, of one and of several components; more than the capacity."""
    results = []
    for smaller in (False, True):
        for capacity in (1, 3, 32):
            with tf.Graph().as_default():
                x = numbers(tf, 10)
                batch = tf.train.batch([x, x * 2], 4, capacity=capacity, allow_smaller_final_batch=smaller)
                results.append(drained(tf, batch))
    return results


@scenario
def chunks(tf):
    """enqueue_many: batches straddle what comes in at once."""
    x = numbers(tf, 4)
    found = tf.train.batch({"x": tf.stack([x, x + 10, x + 20])}, 5, enqueue_many=True, allow_smaller_final_batch=True)
    return drained(tf, found)


@scenario
def padded_batches(tf):
    """dynamic_pad."""
    x = numbers(tf, 5)
    text = tf.py_func(lambda n: np.array([b"s"] * int(n), object), [x], tf.string)
    text.set_shape([None])
    return drained(tf, tf.train.batch([x, text], 2, dynamic_pad=True, allow_smaller_final_batch=True))


def parts_of(found):
    """Return the parts of sparse values."""
    if isinstance(found, (list, tuple)) and not hasattr(found, "_fields"):
        return [parts_of(one) for one in found]
    return list(found) if hasattr(found, "_fields") else found


@scenario
def sparse_batches(tf):
    """One more dimension in front; the others are the largest of the batch; rows of chunks are told apart."""
    results = []
    for enqueue_many in (False, True):
        for text in (False, True):
            with tf.Graph().as_default(), tf.Session() as sess:
                x = tf.cast(numbers(tf, 5), tf.int64)
                values = tf.as_string(tf.stack([x, x + 1])) if text else tf.stack([x, x + 1])
                places, sides = [[0, 1, 0], [2, 0, 1]], [3, 2, 2]
                if not enqueue_many:
                    places, sides = tf.stack([[x, x], [x + 1, tf.zeros_like(x)]]), tf.stack([x + 2, x + 1])
                inputs = [tf.SparseTensor(places, values, sides)] * 2
                batch = tf.train.batch(inputs, 4, enqueue_many=enqueue_many, allow_smaller_final_batch=True)
                results.append([shape(batch[1].indices), shape(batch[1].values), shape(batch[1].dense_shape)])
                coord = tf.train.Coordinator()
                threads = runners(tf, sess, coord)
                while not isinstance(value := outcome(tf, lambda: parts_of(run(tf, sess, batch))), str):  # noqa: B023
                    results.append(value)
                results += [value, finished(tf, coord, threads)]
    return results


@scenario
def kept_ones(tf):
    """keep_input: whole elements, whole chunks, single rows."""
    results = []
    for kind in ("one", "chunk", "rows"):
        with tf.Graph().as_default():
            x = numbers(tf, 6)
            if kind == "one":
                batch = tf.train.maybe_batch([x, tf.constant("s")], tf.greater(x, 1), 2)
            else:
                parts = [tf.stack([x, x + 10])]
                keep = tf.greater(x, 1) if kind == "chunk" else tf.stack([tf.greater(x, 3), tf.less(x, 2)])
                batch = tf.train.maybe_batch(parts, keep, 3, enqueue_many=True, allow_smaller_final_batch=True)
            results.append(drained(tf, batch))
    with tf.Graph().as_default():
        x = numbers(tf, 6)
        batch = tf.train.maybe_shuffle_batch([x], 1, 20, 0, tf.less(x, 3))
        values, *end = drained(tf, batch)
        results.append([sorted(value[2][0] for value in values), end])
    return results


@scenario
def joined(tf):
    """Each list gets a thread: all of them come."""
    parts = [[numbers(tf, 5), tf.constant(i)] for i in range(3)]
    values, *end = drained(tf, tf.train.batch_join(parts, 5))
    return [sorted([a, b] for one in values for a, b in zip(one[0][2], one[1][2])), end]  # noqa: B905


@scenario
def shuffled_batches(tf):
    """The order for seeds, when everything is in the queue before the first batch."""
    results = []
    for graph_seed, seed in ((None, 1), (3, 1), (3, 5)):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(graph_seed)
            tf.train.shuffle_batch([numbers(tf, 12)], 5, 40, 2, seed=seed, allow_smaller_final_batch=True)
            (runner,) = [runner for runner in tf.get_collection("queue_runners") if "shuffle" in runner.name]
            coord = tf.train.Coordinator()
            threads = runners(tf, sess, coord)
            closed = runner.queue.is_closed()
            eventually(lambda sess=sess, closed=closed: sess.run(closed))
            results.append(rest(tf, sess, runner.queue.dequeue_up_to(5)) + [finished(tf, coord, threads)])
    return results


@scenario
def little_room_for_shuffling(tf):
    """A capacity that is less than what stays and a batch together."""
    values, *end = drained(tf, tf.train.shuffle_batch([numbers(tf, 20)], 5, 4, 3))
    return [sorted(n for one in values for n in one[2]), end]


@scenario
def shared_batches(tf):
    """Two batch queues with one name share their elements."""
    a = tf.train.batch([tf.constant(1)], 2, shared_name="s", capacity=4)
    b = tf.train.batch([tf.constant(1)], 3, shared_name="s", capacity=4)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        return [got(tf, sess, a), got(tf, sess, b), finished(tf, coord, threads)]


@scenario
def own_cancel_op(tf):
    """A producer's cancel_op is what is run at the stop."""
    hit = tf.Variable(0)
    queue = tf.train.string_input_producer(["a"], cancel_op=tf.group(tf.assign(hit, 1)))
    close = queue.close(cancel_pending_enqueues=True)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        run(tf, sess, queue.dequeue())
        coord.request_stop()
        made = [eventually(lambda: int(sess.run(hit)) == 1), got(tf, sess, queue.is_closed())]
        run(tf, sess, close)
        return [*made, outcome(tf, coord.join, threads)]


# Where ours differs


@different([["int32", 0], ["int32", 1], "OutOfRangeError", None])
def counters_without_an_initializer(tf):
    """TensorFlow's runner fails, and that looks like the end of the data."""
    queue = tf.train.range_input_producer(2, num_epochs=1, shuffle=False)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        made = [got(tf, sess, queue.dequeue()) for _ in range(3)]
        return [*made, finished(tf, coord, threads)]


@different(["ValueError", "OutOfRangeError", "InvalidArgumentError"])
def slices_of_different_lengths(tf):
    """TensorFlow takes the first one's."""
    results = [refused(tf.train.slice_input_producer, [[1, 2], [1, 2, 3]])]
    x = tf.py_func(lambda: np.arange(3, dtype=np.int32), [], tf.int32)
    x.set_shape([None])
    y = tf.py_func(lambda: np.arange(2, dtype=np.int32), [], tf.int32)
    y.set_shape([None])
    parts = tf.train.slice_input_producer([x, y], num_epochs=1, shuffle=False)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        results.append([got(tf, sess, parts) for _ in range(3)][-1])
        return [*results, finished(tf, coord, threads)]


@different([[2, 3], [2, 3], [2, None], [2, None], "ValueError"])
def joined_shapes(tf):
    """TensorFlow takes the first one's."""

    def p(side):
        return tf.placeholder(tf.int32, [side])

    def made(*sides, **kwargs):
        try:
            return shape(tf.train.batch_join([[p(side)] for side in sides], 2, **kwargs))
        except ValueError:
            return "ValueError"

    return [
        made(3, None),
        made(None, 3),
        made(3, None, dynamic_pad=True),
        made(None, 3, dynamic_pad=True),
        made(None, None),
    ]


@different(["ValueError", "TypeError"])
def lists_of_different_lengths(tf):
    """TensorFlow divides by zero, and drops what is too much."""
    c = tf.constant
    try:
        first = refused(tf.train.shuffle_batch_join, [[c(1)]], 2, 4, 4)
    except ZeroDivisionError:
        first = "ZeroDivisionError"
    return [first, refused(tf.train.batch_join, [[c(1)], [c(1), c(2)]], 2)]


@different(["OutOfRangeError", "InvalidArgumentError"])
def a_range_of_nothing_for_ever(tf):
    """TensorFlow's goes round and round."""
    queue = tf.train.range_input_producer(tf.constant(0))
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        return [got(tf, sess, queue.dequeue(), seconds=0.15), finished(tf, coord, threads)]


# Generated programs


@scenario
def generated_pipelines(tf):
    """Producers and batches with arguments by chance, one thread each."""
    results = []
    for number in range(40):
        rng = np.random.default_rng(number)

        def chance(*values, rng=rng):
            return values[int(rng.integers(len(values)))]

        count, epochs = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        options = {
            "num_epochs": epochs,
            "shuffle": chance(True, False),
            "seed": int(rng.integers(50)),
            "capacity": chance(1, 2, 5, 32),
        }
        with tf.Graph().as_default():
            tf.set_random_seed(chance(None, 1, 77))
            kind = chance("range", "strings", "rows", "slices")
            if kind == "range":
                parts = [tf.train.range_input_producer(count, **options).dequeue()]
            elif kind == "strings":
                parts = [tf.train.string_input_producer([f"s{i}" for i in range(count)], **options).dequeue()]
            elif kind == "rows":
                parts = [tf.train.input_producer(rng.random((count, 2, 3)).round(3), **options).dequeue()]
            else:
                parts = tf.train.slice_input_producer([np.arange(count), rng.random((count, 4)).round(3)], **options)
            if chance(True, False):
                parts = {f"p{i}": part for i, part in enumerate(parts)}
            size, keep = int(rng.integers(1, 7)), chance(True, True, tf.constant(True))
            many = chance(False, kind == "rows")
            options = {
                "capacity": chance(1, 3, 20),
                "allow_smaller_final_batch": chance(True, False),
                "dynamic_pad": chance(True, False),
                "enqueue_many": many,
            }
            how = chance("batch", "maybe_batch", "batch_join", "maybe_batch_join")
            inputs = [[parts] if "join" in how else parts] + ([keep] if "maybe" in how else [])
            batch = getattr(tf.train, how)(*inputs, batch_size=size, **options)
            results.append(drained(tf, batch))
    return results
