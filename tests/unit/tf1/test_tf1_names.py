"""Names that programs of TensorFlow 1 use besides queues and datasets: checks, loops, counters, options."""

import collections
import copy
import pickle

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

FED = "tf.placeholder_with_default"  # what isn't known before the run

CASES = [
    "tf.placeholder_with_default([1, 2], [None])",
    "tf.placeholder_with_default([[1.5]], None) + 1",
    "tf.placeholder_with_default([1, 2], [3])",
    *(
        f"(lambda a, b: [tf.{name}(a, b), tf.constant(1)][1:])({x}, {y})"
        for name in ("assert_equal", "assert_none_equal", "assert_less", "assert_less_equal", "assert_greater",
                     "assert_greater_equal", "assert_near")
        for x, y in (("[1., 2.]", "[1., 2.]"), ("[1., 2.]", "[3., 0.]"), ("[]", "[]"), ("[1., 1.]", "1."))
    ),
    *(
        f"(lambda a, b: tf.tuple([a], control_inputs=[tf.{name}(a, b)]))({FED}({x}, None), {y})"
        for name in ("assert_equal", "assert_none_equal", "assert_less", "assert_less_equal", "assert_greater",
                     "assert_greater_equal", "assert_near")
        for x, y in (("[1., 2.]", "[1., 2.]"), ("[1., 2.]", "[3., 0.]"), ("[1., 1.]", "1."))
    ),
    *(
        f"(lambda a: tf.tuple([a], control_inputs=[tf.{name}(a)]))({FED}({x}, None))"
        for name in ("assert_negative", "assert_positive", "assert_non_negative", "assert_non_positive")
        for x in ("[1, 2]", "[0, 1]", "[0, -1]", "[-1, -2]")
    ),
    "(lambda a: tf.tuple([a], control_inputs=[tf.assert_equal(a, ['a', 'b'])]))(tf.constant(['a', 'b']))",
    *(
        f"(lambda a: tf.tuple([a], control_inputs=[tf.{call}]))({x})"
        for call in ("assert_rank(a, 1)", "assert_rank_at_least(a, 1)", "assert_rank_in(a, [0, 2])",
                     "assert_integer(a)", "assert_type(a, tf.int32)")
        for x in ("tf.constant(1)", "tf.constant([1])", "tf.constant([[1.]])", f"{FED}([1], None)",
                  f"{FED}([[1]], None)")
    ),
    # strings
    *(
        f"tf.reduce_join({x}, {how})"
        for x in ("[['a', 'b'], ['c', 'd']]", "[[['a'], ['b']], [['c'], ['d']]]",
                  f"{FED}([['a', 'b'], ['c', 'd']], None)")
        for how in ("0", "1", "-1", "[0, 1]", "[1, 0]", "None", "0, separator='-'", "1, keep_dims=True",
                    "[0, -1], keep_dims=True", "[]")
    ),
    "tf.reduce_join(['a', 'b'], 1)", "tf.reduce_join(['a', 'b'], [0, 0])", "tf.reduce_join('a')",
    "tf.reduce_join(tf.zeros([2, 0], tf.string), 1)", "tf.strings.reduce_join([['x', 'y']], 1, separator='+')",
    *(
        f"tf.{name}({x}{more})" for name, more in (("encode_base64", ""), ("encode_base64", ", pad=True"))
        for x in ("'a'", "['', 'ab', 'abc', 'abcd']", "b'\\xff\\xfe\\x00?>'")
    ),
    *(f"tf.decode_base64({x})" for x in ("'YQ'", "'YQ=='", "['', 'YWI', 'YWJj']", "'__79'", "'a'", "'Y!'", "'YQ==='")),
    *(
        f"tf.strings.regex_full_match({x}, {pattern})" for x in ("'abc'", "['ab', 'b', 'ab\\n']")
        for pattern in ("'a.*'", "'ab?'", "'(a|b)+'", "''")
    ),
    "tf.strings.regex_full_match(['a1', 'b'], tf.constant('[[:alpha:]][[:digit:]]'))",
    *(
        f"tf.regex_replace({x}, {pattern}, {new}{more})" for more in ("", ", replace_global=False")
        for x, pattern, new in (
            ("'abcabc'", "'b'", "'x'"), ("'abc'", "'b*'", "'x'"), ("'aab'", "'(a)(b)?'", "r'<\\2\\1\\0>'"),
            ("'a\\\\b'", "r'\\\\'", "r'\\\\x'"), ("'a\\n'", "'a$'", "'x'"), ("'a\\nb'", "'(?m)a$'", "'x'"),
            ("['Ab c_1', '']", "'[[:upper:][:space:]]'", "'-'"), ("'[x]'", "'[][]'", "''"), ("'é!'", "'.'", "'x'"),
            ("'a&&b'", "'[&&]'", "'+'"), ("'x1 y'", "r'\\b\\w'", "'_'"), ("'ab'", "tf.constant('a')",
            "tf.constant('c')"),
        )
    ),
    "tf.regex_replace('a', '(', 'b')", "tf.regex_replace('a', '[[:no:]]', 'b')",
    "tf.strings.split(['a b', '', ' c  d '], result_type='RaggedTensor')",
    "tf.strings.split(['a,b', ',c'], tf.constant(','))", "tf.strings.split(['a,b,c'], ',', maxsplit=1)",
    "tf.string_split(['a b', '', ' c  d '], result_type='RaggedTensor')",
    "tf.string_split(['a,b;c', ';d'], tf.constant(',;'))", "tf.string_split(['ab', 'c'], '')",
    "tf.string_split(['a'], result_type='x')", "tf.strings.bytes_split(['abc', '', 'd'])",
    *(
        f"tf.{name}(['', 'a', 'abcd', 'abcdefgh', 'ä' * 6, 'x' * 30, 'y' * 50, 'z' * 64, 'q' * 99, 'pq' * 160], {more})"
        for name, more in (
            ("string_to_hash_bucket", "2 ** 62"), ("string_to_hash_bucket_fast", "2 ** 62"),
            ("strings.to_hash_bucket_fast", "10"),
            ("string_to_hash_bucket_strong", "2 ** 62, [1, 2]"), ("strings.to_hash_bucket", "1000"),
            ("string_to_hash_bucket_strong", "7, [2 ** 63 - 1, -3]"),
        )
    ),
    "tf.string_to_hash_bucket_fast('a', 0)", "tf.string_to_hash_bucket_strong('a', 3, [1])",
    *(
        f"tf.string_to_number({x}, {kind})" for kind in ("tf.float32", "tf.float64", "tf.int32", "tf.int64")
        for x in ("' 5 '", "'+5'", "'-7'", "''", "'-'", "'1e5'", "'0x1A'", "'3000000000'", "'nan'", "'-inf'",
                  "'1.5.2'", "'1_0'")
    ),
    "tf.as_string([1 + 2j])", "tf.as_string(tf.constant([True]), width=6)", "tf.as_string(3, precision=2)",
    "tf.as_string([1.5, 2.25], precision=1, width=8, fill='0')", "tf.as_string([7], fill='x', width=3)",
    # sizes of 64 bits, which aren't known before
    "tf.reshape([1, 2, 3, 4], tf.placeholder_with_default(np.array([2, 2]), None))",
    "tf.reshape(tf.placeholder_with_default([1, 2, 3, 4], None), [tf.placeholder_with_default(np.array(2), []), 2])",
    "tf.reshape([1, 2, 3, 4], tf.constant([2, 2], tf.int64))", "tf.reshape([1, 2], [1., 2.])",
    # dimensions and shapes: what they say, as text
    *(
        f"tf.constant(repr([({a} {sign} {b}), ({b} {sign} {a})]))"
        for sign in ("<", "<=", ">", ">=")
        for a in ("tf.Dimension(3)", "tf.Dimension(None)") for b in ("4", "3", "tf.Dimension(2)", "tf.Dimension(None)")
    ),
    *(
        f"tf.constant([str({a} {sign} {b}), str({b} {sign} {a})])" for sign in ("+", "-", "*", "//", "%")
        for a in ("tf.Dimension(6)", "tf.Dimension(None)") for b in ("7", "tf.Dimension(9)", "tf.Dimension(None)")
        if sign != "-" or "None" in a + b
    ),
    "tf.constant(str(tf.Dimension(3) / 2))", "tf.constant(str(2 / tf.Dimension(3)))",
    "tf.constant(str(tf.Dimension('a')))", "tf.constant(str(tf.Dimension(-1)))", "tf.constant(str(tf.Dimension(1.5)))",
    *(
        f"tf.constant([str(tf.Dimension({a}).merge_with({b})), repr(tf.Dimension({a}).is_compatible_with({b}))])"
        for a in ("3", "None") for b in ("3", "4", "None")
    ),
    *(
        f"tf.constant(str(tf.TensorShape({shape}).{call}))"
        for shape in ("None", "[]", "[2]", "[2, None]", "[1, 2, 3]")
        for call in ("with_rank(2)", "with_rank_at_least(2)", "with_rank_at_most(1)", "assert_has_rank(1)",
                     "assert_same_rank([5])", "concatenate([4])", "merge_with([2, 3])", "num_elements()",
                     "most_specific_compatible_shape([2, 3])", "is_fully_defined()", "ndims")
    ),
    "tf.constant(repr([tf.dimension_value(tf.Dimension(3)), tf.dimension_value(4), tf.dimension_value(None)]))",
    "tf.constant([str(tf.dimension_at_index(tf.TensorShape(None), 2)), "
    "str(tf.dimension_at_index(tf.TensorShape([5, 6]), 1))])",
    "tf.assert_scalar(3)", "tf.assert_scalar([3])",
    "tf.ensure_shape(tf.placeholder_with_default([1, 2], None), [None])",
    "tf.ensure_shape(tf.placeholder_with_default([1, 2], None), [3])",
    "tf.ensure_shape(tf.constant([1, 2]), [3])",
    *(
        f"tf.{name}({x})" for name in ("is_strictly_increasing", "is_non_decreasing")
        for x in ("[1, 2, 3]", "[1, 1]", "[2, 1]", "[[1, 2], [3, 4]]", "[]", "[5]")
    ),
    # loops
    "tf.while_loop(lambda i: i < 10, lambda i: i + 3, [tf.constant(0)])",
    "tf.while_loop(lambda i: i < 10, lambda i: [i + 3], [tf.constant(0)], return_same_structure=True)",
    "tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2.), (tf.constant(0), tf.constant([1., 2.])))",
    "tf.while_loop(lambda i, x: i < 4, lambda i, x: [i + 1, tf.concat([x, [i]], 0)], [0, tf.constant([9])], "
    "shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])",
    "tf.while_loop(lambda i, x: i < 4, lambda i, x: [i + 1, tf.concat([x, [i]], 0)], [0, tf.constant([9])])",
    "tf.while_loop(lambda i: i < 10, lambda i: i + 1, [tf.constant(0)], maximum_iterations=3)",
    "tf.while_loop(lambda i: i < 0, lambda i: i + 1, [tf.constant(7)])",
    "tf.while_loop(lambda i: i < 3, lambda i: [i, i], [tf.constant(0)])",
    "tf.while_loop(lambda i, d: i < 3, lambda i, d: (i + 1, {'a': d['a'] + 1, 'b': d['b']}), "
    "(0, {'a': tf.constant(1), 'b': tf.constant('x')}))",
    "(lambda y: tf.while_loop(lambda i: i < y, lambda i: i + tf.while_loop(lambda j: j < 2, lambda j: j + 1, [0]), "
    "[tf.constant(0)]))(tf.constant(5))",
    "tf.while_loop(3, lambda i: i, [0])", "tf.while_loop(lambda: True, lambda: [], [])",
    "tf.while_loop(lambda i: tf.cond(i < 5, lambda: True, lambda: False), lambda i: i + 2, [tf.constant(1)])",
    "tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3]))",
    "tf.map_fn(lambda x: tf.cast(x, tf.float32) / 2., tf.constant([[1, 2], [3, 4]]), dtype=tf.float32)",
    "tf.map_fn(lambda x: (x[0] + x[1], tf.as_string(x[0])), (tf.constant([1, 2]), tf.constant([3, 4])), "
    "dtype=(tf.int32, tf.string))",
    "tf.map_fn(lambda x: {'a': x, 'b': -x}, tf.constant([1, 2]), dtype={'a': tf.int32, 'b': tf.int32})",
    "tf.map_fn(lambda x: x, tf.constant(3))",
    "tf.map_fn(lambda x: tf.reduce_sum(x), tf.zeros([0, 3]))",
    "tf.map_fn(lambda x: tf.strings.join([x, '!']), tf.constant(['a', 'bc']))",
    "(lambda k: tf.map_fn(lambda x: x + k, tf.placeholder_with_default([1, 2], None)))(tf.constant(10))",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


ANSWERS = dict(zip(CASES, recorded("names", CASES, 1), strict=True))


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


def test_shapes_are_added_and_copied():
    assert tf.TensorShape([1]) + [2] == tf.TensorShape([1, 2]) == [1] + tf.TensorShape([2])
    for one in (tf.TensorShape([1, None]), tf.TensorShape(None)):
        assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(tf.Dimension(3))) == 3
    assert pickle.loads(pickle.dumps(tf.Dimension(None))).value is None
    with pytest.raises(ValueError, match="Dimensions 3 and 4 are not compatible"):
        tf.Dimension(3).assert_is_compatible_with(4)
    with pytest.raises(TypeError, match="Dimension value must be integer or None"):
        tf.Dimension("a")


def test_what_patterns_mean_here():
    with tf.Session() as sess:
        for pattern in ("(", r"\Z", "[[:no:]]", r"\p{Greek}"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern"):
                tf.regex_replace("a", pattern, "b")
        for rewrite in (r"\1", r"\x", "\\"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="invalid rewrite pattern"):
                sess.run(tf.regex_replace("a", "a", rewrite))
        assert sess.run(tf.regex_replace(b"\xff.a", r"\.", r"\\")) == b"\xff\\a"
        assert sess.run(tf.strings.regex_full_match("a\n", "a$")) == sess.run(tf.strings.regex_full_match("a", r"b\z"))
        late = tf.placeholder_with_default("(", [])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern"):
            sess.run(tf.strings.regex_full_match("a", late))


def test_texts_of_checks():
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x == y did not hold"):
            tf.assert_equal([1], [2])
        late = tf.placeholder_with_default([1], None)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: .*why.*x == y .*\[1\].*\[2\]"):
            sess.run(tf.assert_equal(late, [2], message="why"))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[told\] \[7\]"):
            sess.run(tf.assert_positive(late - 1, data=["told", 7]))
        with pytest.raises(ValueError, match="must have rank 2.*Received rank 1"):
            tf.assert_rank([1], 2)
        with pytest.raises(ValueError, match="must have rank at least 2"):
            tf.assert_rank_at_least([1], 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have rank in"):
            sess.run(tf.assert_rank_in(late, [0, 2]))
        with pytest.raises(ValueError, match="Rank must be a scalar"):
            tf.assert_rank([1], [1])
        with pytest.raises(TypeError, match="must be of type <dtype: 'int32'>"):
            tf.assert_rank([1], 1.5)
    for wrong in (tf.constant([1]), np.ones(1), "abc", 3):
        with pytest.raises(TypeError, match="iterable"):
            tf.assert_proper_iterable(wrong)
    tf.assert_proper_iterable([1])
    assert tf.assert_same_float_dtype([tf.constant(1.0), None]) is tf.float32 is tf.assert_same_float_dtype()
    with pytest.raises(ValueError, match="requested dtype"):
        tf.assert_same_float_dtype([tf.constant(1.0)], tf.float64)
    with pytest.raises(ValueError, match="floating"):
        tf.assert_same_float_dtype([tf.constant(1)])
    assert tf.is_numeric_tensor(tf.constant(1)) and not tf.is_numeric_tensor(tf.constant("a"))
    assert not tf.is_numeric_tensor([1])


def test_loops_end_with_their_session_and_hold_queues():
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(10, tf.int32, [()])
        sess.run(queue.enqueue_many([[1, 2, 3, 4]]))
        total = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + queue.dequeue()), (0, tf.constant(0)))
        assert sess.run(total) == (3, 6) and sess.run(queue.size()) == 1
        rows = tf.map_fn(lambda x: x * queue.dequeue(), tf.constant([5]))
        assert sess.run(rows).tolist() == [20]
        x = tf.placeholder(tf.int32, [None])
        made = tf.map_fn(lambda one: tf.range(one), x)
        with pytest.raises(tf.errors.InvalidArgumentError, match="row 1"):
            sess.run(made, {x: [1, 2]})
        both = tf.map_fn(lambda one: one[0] + one[1], (x, tf.constant([1, 2])), dtype=tf.int32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="numbers of rows"):
            sess.run(both, {x: [1, 2, 3]})


def test_a_loop_keeps_its_types():  # which TensorFlow says in the first run
    with pytest.raises(TypeError, match="changes the type"):
        tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [tf.constant(0)])


def test_counters():
    with tf.Graph().as_default(), tf.Session() as sess:
        counter = tf.Variable(0, trainable=False)
        up, also = counter.count_up_to(3), tf.count_up_to(counter, 4)
        assert sess.run(tf.report_uninitialized_variables()).tolist() == [b"Variable"]
        check = tf.assert_variables_initialized()
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value Variable"):
            sess.run(check)
        sess.run(tf.global_variables_initializer())
        sess.run(check)
        assert sess.run(tf.report_uninitialized_variables()).tolist() == []
        assert [sess.run(up) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 3"):
            sess.run(up)
        assert (sess.run(also), sess.run(counter)) == (3, 4)
        with pytest.raises(TypeError):
            tf.count_up_to(tf.Variable(1.0), 3)
        with pytest.raises(TypeError):
            tf.count_up_to(tf.constant(1), 3)
    with tf.Graph().as_default():
        assert tf.assert_variables_initialized() is None


def test_the_global_step():
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        assert tf.train.get_global_step() is None
        step = tf.train.get_or_create_global_step()
        assert step is tf.train.get_global_step(graph) is tf.train.get_or_create_global_step()
        assert step.op.name == "global_step" and step.dtype is tf.int64
        assert tf.get_collection(tf.GraphKeys.GLOBAL_STEP) == [step] and step in tf.global_variables()
        assert step not in tf.trainable_variables()
        with pytest.raises(ValueError, match="already exists"):
            tf.train.create_global_step()
        sess.run(tf.global_variables_initializer())
        sess.run(tf.assign_add(step, 5))
        assert tf.train.global_step(sess, step) == 5
        for wrong in (3, tf.constant(1.0), tf.constant([1])):
            with pytest.raises(TypeError, match="global_step"):
                tf.train.assert_global_step(wrong)
    with tf.Graph().as_default():
        made = tf.Variable(3, name="global_step")
        assert tf.train.get_global_step() is made


def test_tables_and_collections():
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        done = []
        first = tf.py_func(lambda: done.append(1) or np.int64(1), [], tf.int64)
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, first.op)
        sess.run(tf.tables_initializer())
        assert done == [1]
        tf.add_to_collections(["a", "b"], 3)
        assert tf.get_collection("a") == tf.get_collection("b") == [3]
        tf.get_collection_ref("a").append(4)
        assert graph.get_collection("a") == [3, 4]
        with tf.container("box"), graph.container("other"):
            tf.constant(1)
        graph.switch_to_thread_local()
        assert tf.tables_initializer().type == "NoOp"
    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(tf.tables_initializer()) is None
    assert len({name for name in vars(tf.GraphKeys) if name.isupper()}) >= 34


def test_options_of_sessions():
    config = tf.ConfigProto(gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=0.3))
    config.gpu_options.allow_growth = True
    config.graph_options.rewrite_options = None
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.3
    other = tf.ConfigProto()
    other.gpu_options.allow_growth = True
    assert not tf.ConfigProto().gpu_options.allow_growth
    with tf.Graph().as_default(), tf.Session(config=config) as sess:
        assert sess.run(tf.constant(3)) == 3


def test_fetches_and_feeds_of_several_tensors():
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.constant(1), tf.constant(2)
        got = sess.run(collections.OrderedDict([("z", a), ("a", [b, a])]))
        assert type(got) is collections.OrderedDict and list(got.items()) == [("z", 1), ("a", [2, 1])]
        sparse = tf.sparse_placeholder(tf.float32, [3, 4])
        dense = tf.sparse_tensor_to_dense(sparse)
        value = tf.SparseTensorValue(np.array([[0, 1], [2, 3]]), np.array([5.0, 6.0], np.float32), np.array([3, 4]))
        sparse_input = tf.sparse_placeholder(tf.float32)
        for fed in (value, tuple(value)):
            assert sess.run(dense, {sparse: fed})[2, 3] == 6
            assert sess.run(tf.sparse_tensor_to_dense(sparse_input), {sparse_input: fed}).shape == (3, 4)
        assert sess.run(sparse_input, {sparse_input: value}).values.tolist() == [5, 6]
        with pytest.raises(ValueError):
            sess.run(sparse_input, {sparse_input: value[:2]})


def run(fetches, feed=None):
    with tf.Session() as sess:
        return sess.run(fetches, feed)


@pytest.mark.parametrize("first", [None, 10])
def test_folds_from_either_end(first):
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    start = None if first is None else np.full(2, first, np.int32)

    def step(state, row):
        return state * 2 - row

    def folded(order):
        state, left = (order[0], order[1:]) if start is None else (start, order)
        states = [state] if start is None else []
        for row in left:
            state = step(state, row)
            states.append(state)
        return np.array(states)

    forward, backward = folded(rows), folded(rows[::-1])
    assert run(tf.foldl(step, rows, start)).tolist() == forward[-1].tolist()
    assert run(tf.foldr(step, rows, start)).tolist() == backward[-1].tolist()
    assert run(tf.scan(step, rows, start)).tolist() == forward.tolist()
    assert run(tf.scan(step, rows, start, reverse=True)).tolist() == backward[::-1].tolist()


def test_folds_over_structures_with_states_of_other_structures():
    elems = {"a": tf.constant([1, 2, 3]), "b": (tf.constant(["x", "y", "z"]),)}
    state = {"sum": tf.constant(0.5), "text": tf.constant("")}

    def step(now, row):
        return {
            "sum": now["sum"] + tf.to_float(row["a"]), "text": tf.string_join([now["text"], row["b"][0]]),
        }  # fmt: skip

    assert run(tf.foldl(step, elems, state)) == {"sum": 6.5, "text": b"xyz"}
    assert run(tf.foldr(step, elems, state)) == {"sum": 6.5, "text": b"zyx"}
    states = tf.scan(step, elems, state)
    assert states["sum"].shape.as_list() == [3] and states["text"].dtype == tf.string
    values = run(states)
    assert values["sum"].tolist() == [1.5, 3.5, 6.5] and values["text"].tolist() == [b"x", b"xy", b"xyz"]


def test_folds_of_no_rows():
    rows = tf.placeholder(tf.float32, [None, 2])
    none = {rows: np.zeros((0, 2))}
    add = tf.add
    assert run(tf.foldl(add, rows, tf.constant([1.0, 2.0])), none).tolist() == [1.0, 2.0]
    assert run(tf.scan(add, rows, tf.constant([1.0, 2.0])), none).shape == (0, 2)
    for fold in (tf.foldl, tf.foldr, tf.scan):
        with pytest.raises(tf.errors.InvalidArgumentError, match="no rows"):
            run(fold(add, rows), none)
    assert run(tf.scan(add, rows), {rows: [[3, 4]]}).tolist() == [[3.0, 4.0]]


def test_folds_with_values_and_dependencies_from_outside():
    factor, gate = tf.placeholder(tf.int32, []), tf.placeholder(tf.bool, [])
    with tf.control_dependencies([gate]):
        states = tf.scan(lambda state, row: state * factor + row, tf.constant([1, 2, 3]))
    # A dependency on what is fed is met.
    assert run(states, {factor: 10, gate: True}).tolist() == [1, 12, 123]
    with pytest.raises(tf.errors.InvalidArgumentError, match="feed"):
        run(states, {factor: 10})


def test_what_folds_refuse():
    row = tf.constant([1.0, 2.0])
    with pytest.raises(TypeError, match="callable"):
        tf.foldl(3, row)
    with pytest.raises(ValueError, match="same nested structure"):
        tf.scan(lambda state, row: (state, row), row)
    with pytest.raises(TypeError):
        tf.foldl(lambda state, row: tf.to_int32(row), row)
    with pytest.raises(ValueError, match="shape"):
        tf.foldr(lambda state, row: tf.stack([state, row]), row, tf.constant(1.0))
    with pytest.raises(ValueError, match="rank"):
        tf.scan(tf.add, tf.constant(1.0))
    with pytest.raises(ValueError):
        tf.foldl(tf.add, [])
    pairs = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    for fold in (tf.foldl, tf.foldr, tf.scan):
        sums = fold(lambda state, row: state + row[0] + row[1], pairs, tf.constant(0.0))
        with pytest.raises(tf.errors.InvalidArgumentError, match="numbers of rows"):
            run(sums, {pairs[0]: [1.0], pairs[1]: [1.0, 2.0]})


def test_numbers_that_the_function_of_map_fn_returns_have_the_types_told():
    ones = tf.map_fn(lambda row: 1, tf.constant([0.5, 1.5]))
    assert ones.dtype == tf.float32 and run(ones).tolist() == [1.0, 1.0]
    pair = tf.map_fn(lambda row: (2, row), tf.constant([0.5]), dtype=(tf.int64, tf.float32))
    assert [part.dtype for part in pair] == [tf.int64, tf.float32]
