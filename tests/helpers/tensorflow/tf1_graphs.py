"""Graphs, sessions, variables and scopes. See `tf1_scenarios`."""

from __future__ import annotations

import collections
import threading

import numpy as np
from helpers.tensorflow.tf1_scenarios import Beside, got, outcome, plain, refused, run, scenario, shape


@scenario
def names_of_operations(tf):
    """Names are unique, and scopes stand before them."""
    tensors = [
        tf.constant(1),
        tf.constant(2),
        tf.constant(3, name="x"),
        tf.constant(4, name="x"),
        tf.constant(5, name="X"),
    ]
    with tf.name_scope("a") as scope:
        tensors += [tf.constant(1, name="x"), tf.add(1, 2, name="y")]
        with tf.name_scope("b"):
            tensors.append(tf.constant(1, name="x"))
        with tf.name_scope(None):
            tensors.append(tf.constant(1, name="x"))
        with tf.name_scope("/"[:0] or "b"):
            tensors.append(tf.constant(1, name="x"))
    with tf.name_scope("a"):
        tensors.append(tf.constant(1, name="x"))
    with tf.name_scope(scope):
        tensors.append(tf.constant(1, name="z"))
    with tf.name_scope(None, "default"):
        tensors.append(tf.constant(1, name="z"))
    return [
        scope,
        *(tensor.name for tensor in tensors),
        [refused(tf.constant, 1, name=name) for name in ("a b", "-a", "_a", "é")],
    ]


@scenario
def elements_of_a_graph(tf):
    """What names mean, and what doesn't."""
    graph = tf.get_default_graph()
    x = tf.constant([1, 2], name="x")
    op = tf.no_op(name="nothing")
    other = tf.Graph()
    with other.as_default():
        foreign = tf.constant(1)
    return [
        graph.get_tensor_by_name("x:0") is x,
        graph.get_operation_by_name("nothing") is op,
        graph.as_graph_element("x") is x.op,
        [
            outcome(tf, lambda name=name: graph.as_graph_element(name).name)
            for name in ("x:1", "y", "y:0", "x:", "x:a", 1)
        ],
        outcome(tf, lambda: graph.get_tensor_by_name("x")),
        outcome(tf, lambda: graph.get_operation_by_name("x:0")),
        refused(tf.add, foreign, x),
        [x.op.type, op.type, len(list(x.op.inputs)), len(x.op.outputs), x.value_index],
        foreign.graph is other,
    ]


@scenario
def collections_of_a_graph(tf):
    """What is added to collections, by name and by scope."""
    graph = tf.get_default_graph()
    tf.add_to_collection("mine", 1)
    graph.add_to_collections(["mine", "yours"], 2)
    with tf.name_scope("a"):
        inside = tf.constant(1, name="x")
    tf.add_to_collection("tensors", inside)
    tf.add_to_collection("tensors", tf.constant(1, name="b"))
    found = [tf.get_collection("mine"), tf.get_collection("yours"), tf.get_collection("nobody's")]
    found.append([one.name for one in tf.get_collection("tensors", "a")])
    tf.get_collection("mine").append(3)
    graph.get_collection_ref("yours").append(4)
    graph.clear_collection("tensors")
    return [*found, tf.get_collection("mine"), tf.get_collection("yours"), tf.get_collection("tensors")]


@scenario
def a_finished_graph(tf):
    """Nothing is added to it any more."""
    graph = tf.get_default_graph()
    graph.finalize()
    return [graph.finalized, outcome(tf, tf.constant, 1), outcome(tf, tf.add_to_collection, "a", 1)]


@scenario
def fetches(tf):
    """A run's result has the structure of what is fetched."""
    x, y = tf.constant([1.0, 2.0]), tf.constant(3, name="y")
    op = tf.group(x, y)
    Pair = collections.namedtuple("Pair", "first second")
    with tf.Session() as sess:
        pair = sess.run(Pair(x, [y, op]))
        return [
            plain(sess.run(x)),
            plain(sess.run([x, y, op])),
            plain(sess.run((x, [y, (y,)]))),
            plain(sess.run({"a": x, "b": {"c": y}, "d": op})),
            [type(pair).__name__, plain(pair.first), plain(pair.second)],
            plain(sess.run("y:0")),
            plain(sess.run("y")),
            plain(sess.run(["y:0", x.op])),
            plain(sess.run([])),
            [outcome(tf, sess.run, one) for one in (None, 1, "z:0", "z", [None], {"a": 1.5})],
            plain(sess.run(tf.constant("text"))),
            plain(sess.run(tf.constant(["a", "bc"]))),
        ]


@scenario
def feeds(tf):
    """What can be fed, and how values become tensors."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    anything = tf.placeholder(tf.int64)
    text = tf.placeholder(tf.string, [])
    constant = tf.constant(5)
    double = x * 2
    with tf.Session() as sess:
        return [
            got(tf, sess, double, {x: [[1, 2]]}),
            got(tf, sess, double, {x: np.ones((2, 2))}),
            got(tf, sess, double, {"x:0": [[1.5, 2]]}),
            got(tf, sess, double, {double: np.float32(7)}),
            got(tf, sess, constant + 1, {constant: 10}),
            got(tf, sess, anything, {anything: [[1], [2]]}),
            got(tf, sess, tf.identity(text), {text: "abc"}),
            got(tf, sess, x),
            got(tf, sess, double, {x: [1, 2]}),
            got(tf, sess, double, {x: [[1, 2, 3]]}),
            got(tf, sess, double, {x: constant}),
            got(tf, sess, double, {x: "a"}),
            got(tf, sess, double, {"nothing:0": 1, x: [[1, 2]]}),
            got(tf, sess, double, {3: 1, x: [[1, 2]]}),
            got(tf, sess, [x, double], {x: np.zeros((0, 2))}),
        ]


@scenario
def an_operation_runs_once(tf):
    """Whoever asks for it, in one run; and again in the next."""
    counter = tf.Variable(0)
    up = tf.assign_add(counter, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return [
            plain(sess.run([up, up, up + 10, up + 20])),
            plain(sess.run([up + 1, up.op])),
            plain(sess.run(counter)),
        ]


@scenario
def orders(tf):
    """Control dependencies, nested, left, and by tensors."""
    counter = tf.Variable(0)
    first = tf.assign_add(counter, 1)
    with tf.control_dependencies([first]):
        second = tf.assign_add(counter, 10)
        with tf.control_dependencies([second.op]):
            third = tf.identity(counter.read_value())
        with tf.control_dependencies(None):
            alone = tf.constant(7)
    grouped = tf.group(first, second)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return [
            plain(sess.run(third)),
            plain(sess.run(alone)),
            plain(sess.run(counter)),
            plain(sess.run(grouped)),
            plain(sess.run(counter)),
        ]


@scenario
def variables(tf):
    """What they are made of, keep, and refuse."""
    a = tf.Variable(1.5, name="a")
    b = tf.Variable([1, 2], name="b", trainable=False)
    c = tf.Variable(lambda: tf.zeros([2]), name="c", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    d = tf.Variable(a.initialized_value() * 2, name="d")
    with tf.Session() as sess:
        before = [got(tf, sess, variable) for variable in (a, b, c)]
        before.append(plain(sess.run([tf.is_variable_initialized(a)])))
        sess.run(tf.global_variables_initializer())
        after = [got(tf, sess, variable) for variable in (a, b, c, d)]
        sess.run(tf.local_variables_initializer())
        more = [
            got(tf, sess, c),
            got(tf, sess, tf.assign(b, [5, 6])),
            got(tf, sess, a.assign_sub(1)),
            got(tf, sess, a + b.dtype.as_numpy_dtype(0) if hasattr(b.dtype, "as_numpy_dtype") else a + 0),
            got(tf, sess, b[1]),
            got(tf, sess, -a),
            plain(a.eval(sess)),
        ]
        a.load(9, sess)
        more.append(got(tf, sess, a))
    with tf.Session() as sess:
        more.append(got(tf, sess, a))
    return [
        before,
        after,
        more,
        [variable.name for variable in tf.global_variables()],
        [variable.name for variable in tf.trainable_variables()],
        [variable.name for variable in tf.local_variables()],
        [shape(a), shape(b)],
        [refused(tf.Variable), refused(tf.assign, b, [1.5, 2]), refused(tf.assign, b, [1, 2, 3])],
        [a.op.name, a.initializer.type, a.op.type],
    ]


@scenario
def variables_by_name(tf):
    """`get_variable` in scopes, with and without reuse."""
    nodes = []
    with tf.variable_scope("outer") as outer:
        nodes.append(tf.get_variable("v", [2], initializer=tf.constant_initializer(3)))
        with tf.variable_scope("inner"):
            nodes.append(tf.get_variable("v", initializer=[1, 2]))
            nodes.append(tf.constant(1, name="c"))
        again = refused(tf.get_variable, "v", [2])
    with tf.variable_scope(outer, reuse=True):
        same = tf.get_variable("v", [2]) is nodes[0]
        missing = refused(tf.get_variable, "w", [2])
        other_shape = refused(tf.get_variable, "v", [3])
        other_type = refused(tf.get_variable, "v", [2], tf.int32)
    with tf.variable_scope("outer", reuse=tf.AUTO_REUSE):
        either = [tf.get_variable("v", [2]) is nodes[0], tf.get_variable("new", [1]).name]
    with tf.variable_scope("outer", reuse=None, initializer=tf.constant_initializer(8)):
        nodes.append(tf.get_variable("x", [3], tf.int32))
    with tf.variable_scope(None, "default"):
        nodes.append(tf.get_variable("v", []))
    with tf.variable_scope(None, "default"):
        nodes.append(tf.get_variable("v", []))
    unshaped = refused(tf.get_variable, "u", [None])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values = [got(tf, sess, nodes[0]), got(tf, sess, nodes[1]), got(tf, sess, nodes[3])]
    return [[node.name for node in nodes], again, same, missing, other_shape, other_type, either, unshaped, values]


@scenario
def initializers(tf):
    """What they make of a shape."""
    variables = [
        tf.get_variable("a", [2, 2], initializer=tf.constant_initializer([1, 2, 3, 4])),
        tf.get_variable("b", [3], tf.int32, tf.zeros_initializer()),
        tf.get_variable("c", [3], tf.float64, tf.ones_initializer()),
        tf.get_variable("d", [2], initializer=tf.random_normal_initializer(5.0, 0.0, seed=1)),
        tf.get_variable("e", [2], initializer=tf.random_uniform_initializer(1.0, 2.0, seed=3)),
        tf.get_variable("f", [2, 3], initializer=tf.random_normal_initializer(seed=4)),
    ]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return [got(tf, sess, variable) for variable in variables]


@scenario
def sessions(tf):
    """Each has its own variables and queues; the default one; and what is closed."""
    counter = tf.Variable(1)
    queue = tf.FIFOQueue(9, tf.int32, [()])
    put, size = queue.enqueue(5), queue.size()
    init = tf.global_variables_initializer()
    first, second = tf.Session(), tf.Session()
    first.run([init])
    first.run(counter.assign(7))
    second.run(init)
    first.run(put)
    results = [plain(session.run([counter, size])) for session in (first, second)]
    with first.as_default():
        results += [plain(counter.eval()), plain((counter + 1).eval()), plain(put.run()), plain(size.eval())]
    results += [outcome(tf, counter.eval), outcome(tf, put.run)]
    results.append(plain(size.eval(session=second)))
    second.close()
    results.append(outcome(tf, second.run, size))
    with first:
        results.append(plain(size.eval()))
    results.append(outcome(tf, first.run, size))
    with tf.Graph().as_default():
        results.append(outcome(tf, tf.Session().run, size))
        inner = tf.InteractiveSession()
        results.append(plain(tf.constant(3).eval()))
        inner.close()
    return results


@scenario
def callables(tf):
    """A run that is worked out once."""
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32, [2])
    with tf.Session() as sess:
        add = sess.make_callable([x + 1, y], feed_list=[x, y])
        return [
            plain(add(1, [2, 3])),
            plain(add(np.ones(3), np.zeros(2))),
            plain(sess.make_callable(tf.constant(4))()),
            plain(sess.make_callable(tf.no_op())()),
        ]


@scenario
def threads_of_one_session(tf):
    """Runs of many threads: assignments are whole, and elements come out once."""
    counter = tf.Variable(0, dtype=tf.int64)
    up = tf.assign_add(counter, 1, use_locking=True)
    queue = tf.FIFOQueue(400, tf.int64, [()])
    element = queue.dequeue()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(queue.enqueue_many([np.arange(400)]))
        numbers = []

        def work():
            for _ in range(50):
                sess.run(up)
                numbers.append(int(sess.run(element)))

        workers = [threading.Thread(target=work) for _ in range(8)]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        return [plain(sess.run(counter)), sorted(numbers) == list(range(400)), plain(sess.run(queue.size()))]


@scenario
def operations_that_wait_help_each_other(tf):
    """In one run: a take that waits for a put; two queues, crosswise; and one that fails ends the others."""
    a, b = tf.FIFOQueue(1, tf.int32, [()]), tf.FIFOQueue(1, tf.int32, [()])
    closed = tf.FIFOQueue(1, tf.int32, [()])
    with tf.Session() as sess:
        sess.run(closed.close())
        results = [
            got(tf, sess, [a.dequeue(), a.enqueue(3)]),
            got(tf, sess, [a.enqueue_many([[1, 2, 3]]), a.dequeue_many(3)]),
            got(tf, sess, [a.enqueue(b.dequeue()), b.enqueue(a.size() + 4), a.dequeue()]),
            got(tf, sess, [a.dequeue(), closed.dequeue()]),
            got(tf, sess, a.size()),
        ]
        waiting = Beside(tf, sess, [a.dequeue(), b.dequeue()])
        results.append(waiting.waits())
        run(tf, sess, [a.enqueue(1), b.enqueue(2)])
        return [*results, waiting.over()]


@scenario
def closed_while_it_waits(tf):
    """A session that is closed ends the runs of others."""
    queue = tf.FIFOQueue(1, tf.int32, [()])
    sess = tf.Session()
    waiting = Beside(tf, sess, queue.dequeue())
    found = [waiting.waits()]
    sess.close()
    return [*found, waiting.over()]


@scenario
def static_values(tf):
    """Tensors are no values, and say so."""
    x = tf.constant([1, 2, 3])
    unknown = tf.placeholder(tf.int32)
    return [
        refused(bool, x),
        refused(len, x),
        refused(list, unknown),
        [one.name for one in tf.unstack(x)] == [one.name for one in tf.unstack(x)],
        refused(hash, x),
        x == tf.constant([1, 2, 3]),
        refused(lambda: tf.constant(1) + tf.constant(1.0)),
        refused(lambda: tf.constant(1) + 1.5),
        refused(tf.constant, None),
        refused(tf.constant, [[1], [2, 3]]),
        refused(tf.constant, object()),
        refused(tf.constant, 1.5, tf.int32),
    ]


@scenario
def types_of_constants(tf):
    """Which type a value gets, and of which shape it is."""
    values = [
        1, 1.5, True, "a", b"a", 2**31, [1, 2.5], [[True], [False]], np.float64(1), np.arange(3), np.float16([1]),
        [np.float64(1), 2], [], [[]], np.zeros((0, 3), np.int8), ["a", b"b"], np.array(["x", "yz"]),
    ]  # fmt: skip
    constants = [tf.constant(value) for value in values]
    constants += [
        tf.constant(1, tf.float64),
        tf.constant([1, 2], tf.uint8),
        tf.constant(2, shape=[2, 2]),
        tf.constant([1, 2], shape=[2, 2]),
    ]
    constants.append(tf.constant(3.0, "float"))
    with tf.Session() as sess:
        return [[shape(constant), got(tf, sess, constant)] for constant in constants]


@scenario
def shapes(tf):
    """What is known of shapes, and how they are put together."""
    S = tf.TensorShape
    a, b, c = S([2, None]), S([None, 3]), S(None)
    x = tf.placeholder(tf.float32)
    x.set_shape([None, 4])
    return [
        [str(dims) for dims in (a, b, c, S([]), S([1]))],
        a.merge_with(b).as_list(),
        a.merge_with(c).as_list(),
        outcome(tf, a.merge_with, [3, 3]),
        [a.is_compatible_with(b), a.is_compatible_with([2]), c.is_compatible_with([1, 2]), a.is_fully_defined()],
        a.concatenate(b).as_list(),
        [a.ndims, c.ndims, len(a), bool(c), a.num_elements(), S([2, 3]).num_elements()],
        [a[0].value, a[1].value, a[:1].as_list(), [dim.value for dim in b]],
        outcome(tf, c.as_list),
        [S([2, 3]) == [2, 3], S([2, 3]) == S([2, 3]), S([2]) == S([3])],
        shape(x),
        refused(x.set_shape, [2, 5]),
        refused(S, [-1]),
        refused(lambda: S([1, 2]).with_rank(3)),
        int(S([5])[0]) + int(S([5])[0]),
        str(tf.TensorShape([None, 2]).dims),
    ]
