"""tf.data in a graph: programs that TensorFlow answered, and what is ours alone."""

import gc
import json
import subprocess
import threading
import weakref
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from helpers.tensorflow import tf1_data
from helpers.tensorflow.peers import PYTHON, asks_tensorflow
from hypothesis import given, settings, strategies as st

import queuecore.tf1 as tf

RECORDED = json.loads(tf1_data.RECORDED.read_text())


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("name", tf1_data.PROGRAMS)
def test_a_program_answers_as_tensorflow_does(name):
    assert tf1_data.answers(tf, name)[name] == RECORDED[name]


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_answers_are_tensorflows():
    told = subprocess.run(
        [PYTHON, "-P", tf1_data.__file__], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=500
    )
    assert json.loads(told.stdout) == RECORDED


def made(dataset):
    """The dataset of `queuecore.data` that a session makes."""
    with tf.Session() as sess:
        return sess.run(dataset._variant)


def taken(dataset, most=100):
    fetch = dataset.make_one_shot_iterator().get_next()
    out = []
    with tf.Session() as sess:
        while len(out) < most:
            try:
                out.append(sess.run(fetch))
            except tf.errors.OutOfRangeError:
                break
    return out


# ---- what runs natively


def test_functions_of_tensors_are_native():
    ds = (
        tf.data.Dataset.range(10).map(lambda x: (x * 2, tf.cast(x, tf.float32) / 4)).filter(lambda a, b: a > 4).batch(3)
    )
    lines = made(ds).plan().splitlines()
    assert len(lines) == 5
    assert not any("for each element" in line for line in lines)
    assert sum("traced" in line for line in lines) == 2
    (a, b), *_ = taken(ds)
    assert a.tolist() == [6, 8, 10]
    assert b.tolist() == [0.75, 1.0, 1.25]


def test_examples_are_read_parsed_and_batched_natively(tmp_path):
    names = []
    for i in range(3):
        names.append(str(tmp_path / f"{i}.tfrecord"))
        with tf.python_io.TFRecordWriter(names[-1]) as writer:
            for j in range(4):
                one = tf.train.Example()
                one.features.feature["image"].bytes_list.value.append(bytes([i, j] * 3))
                one.features.feature["label"].int64_list.value.append(10 * i + j)
                writer.write(one.SerializeToString())
    wanted = {"image": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)}

    def parse(record):
        parsed = tf.parse_single_example(record, wanted)
        image = tf.reshape(tf.decode_raw(parsed["image"], tf.uint8), [2, 3])
        return tf.cast(image, tf.float32) / 255, tf.cast(parsed["label"], tf.int32)

    files = tf.data.Dataset.from_tensor_slices(names)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=3).map(parse).batch(5)
    lines = made(ds).plan().splitlines()
    assert len(lines) == 3
    assert not any("Python" in line for line in lines)
    batches = taken(ds)
    assert [len(labels) for _, labels in batches] == [5, 5, 2]
    assert np.concatenate([labels for _, labels in batches]).tolist() == [0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23]
    images = np.concatenate([images for images, _ in batches])
    assert images.dtype == np.float32
    assert images[4].tolist() == (np.array([[1, 1, 1], [1, 1, 1]], np.float32) / 255).tolist()


def test_files_of_one_class_are_one_stream(tmp_path):
    for n in "abc":
        (tmp_path / n).write_text(f"{n}1\n{n}2\n")
    names = [str(tmp_path / n) for n in "abc"]
    files = tf.data.Dataset.from_tensor_slices(names)
    for function in (tf.data.TextLineDataset, lambda one: tf.data.TextLineDataset(one)):
        ds = files.interleave(function, cycle_length=3)
        assert made(ds).plan().startswith("native  TextLineDataset of 3 files")
        assert taken(ds) == [b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]


def test_what_a_function_draws_natively_differs_from_one_initializer_to_the_next_unless_it_has_a_seed():
    ramp = np.tile(np.arange(16, dtype=np.float32), (40, 1, 1)).reshape(40, 4, 4, 1)
    for seed in (None, 7):
        ds = tf.data.Dataset.from_tensor_slices(ramp).map(lambda x, seed=seed: tf.random_crop(x, [2, 2, 1], seed=seed))
        it = ds.batch(40).make_initializable_iterator()
        fetch = it.get_next()
        with tf.Session() as sess:
            draws = []
            for _ in range(2):
                sess.run(it.initializer)
                draws.append(sess.run(fetch))
        corners = draws[0][:, 0, 0, 0]
        assert len(set(corners.tolist())) > 4  # of nine
        assert (draws[0] == draws[1]).all() == (seed is not None)
        assert "for each element" not in made(ds).plan()


# ---- what runs in Python


def test_what_needs_python_runs_for_each_element():
    calls = []

    def note(x):
        calls.append(int(x))
        return x * 3

    ds = tf.data.Dataset.range(4).map(lambda x: tf.py_func(note, [x], tf.int64))
    assert "needs Python" in made(ds).plan()
    assert calls == []
    assert [int(one) for one in taken(ds)] == [0, 3, 6, 9]
    assert calls == [0, 1, 2, 3]


def test_random_numbers_in_a_function_are_drawn_for_each_element():
    ds = tf.data.Dataset.range(20).map(lambda x: tf.random_uniform([], seed=3))
    numbers = [float(one) for one in taken(ds)]
    assert len(set(numbers)) == 20
    assert [float(one) for one in taken(ds)] == numbers  # another session begins anew


def test_what_nothing_reads_is_done_if_it_does_something():
    numbers = []

    def function(x):
        tf.py_func(lambda y: numbers.append(int(y)), [x], [])
        return x

    assert [int(one) for one in taken(tf.data.Dataset.range(3).map(function))] == [0, 1, 2]
    assert numbers == [0, 1, 2]


def test_a_function_reads_a_variable_as_it_was_when_the_iterator_began():
    factor = tf.Variable(2, dtype=tf.int64)
    it = tf.data.Dataset.range(3).map(lambda x: tf.py_func(lambda a, b: a * b, [x, factor], tf.int64))
    it = it.make_initializable_iterator()
    fetch = it.get_next()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(it.initializer)
        sess.run(factor.assign(5))
        assert [int(sess.run(fetch)) for _ in range(3)] == [0, 2, 4]
        sess.run(it.initializer)
        assert [int(sess.run(fetch)) for _ in range(3)] == [0, 5, 10]


def test_effects_of_branches_and_loops_are_those_of_the_ones_that_run():
    calls = []

    def say(what, number):
        def note(value):
            calls.append((what, int(value)))
            return value

        said_so = tf.py_func(note, [number], tf.int64)
        said_so.set_shape(())
        return said_so

    def chosen(number):
        small = tf.cond(number < 2, lambda: say("small", number), lambda: -say("large", number))
        zero = tf.constant(0, tf.int64)
        return small, tf.while_loop(lambda i: i < number, lambda i: say("round", i) + 1, [zero])

    following = tf.data.Dataset.range(4).map(chosen).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert [tuple(map(int, sess.run(following))) for _ in range(4)] == [(0, 0), (1, 1), (-2, 2), (-3, 3)]
    rounds = [("round", i) for number in range(4) for i in range(number)]
    assert sorted(calls) == sorted([("small", 0), ("small", 1), ("large", 2), ("large", 3), *rounds])


# ---- graphs


def test_operations_of_a_function_are_not_in_the_graph(graph):
    before = len(graph.get_operations())
    with graph.control_dependencies([tf.constant(1).op]):
        ds = tf.data.Dataset.range(3).map(lambda x: tf.add(x, 1, name="inside"))
    assert not [op for op in graph.get_operations() if "inside" in op.name]
    assert tf.constant(1, name="inside").op.name == "inside"
    assert len(graph.get_operations()) > before
    assert [int(one) for one in taken(ds)] == [1, 2, 3]


def test_a_dataset_is_of_the_graph_that_it_was_made_in(graph):
    ds = tf.data.Dataset.range(3)
    with tf.Graph().as_default() as other:
        ds = ds.map(lambda x: x + 1).batch(2)
        assert tf.get_default_graph() is other
        with pytest.raises(ValueError, match="created in the same graph as the iterator"):
            ds.make_one_shot_iterator()
    fetch = ds.make_one_shot_iterator().get_next()
    assert fetch.graph is graph
    with tf.Session(graph=graph) as sess:
        assert sess.run(fetch).tolist() == [1, 2]


def test_sessions_have_their_own_place():
    fetch = tf.data.Dataset.range(5).make_one_shot_iterator().get_next()
    with tf.Session() as one, tf.Session() as other:
        assert [int(one.run(fetch)) for _ in range(3)] == [0, 1, 2]
        assert int(other.run(fetch)) == 0
        assert int(one.run(fetch)) == 3


def test_iterators_of_a_shared_name_share_their_place():
    ds = tf.data.Dataset.range(5)
    iterator, other = ds.make_initializable_iterator("it"), ds.make_initializable_iterator("it")
    a, b = iterator.get_next(), other.get_next()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        assert [int(sess.run(x)) for x in (a, b, a)] == [0, 1, 2]
    wrong = tf.data.Dataset.from_tensors(1.5).make_initializable_iterator("it")
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(wrong.initializer)


def test_shuffles_without_a_seed_differ_each_time():
    it = tf.data.Dataset.range(50).shuffle(50).batch(50).make_initializable_iterator()
    fetch = it.get_next()
    orders = set()
    for _ in range(2):
        with tf.Session() as sess:
            for _ in range(2):
                sess.run(it.initializer)
                orders.add(tuple(sess.run(fetch).tolist()))
    assert len(orders) == 4
    assert all(sorted(one) == list(range(50)) for one in orders)


def test_the_graphs_seed_is_part_of_the_order():
    def order(graph_seed, seed):
        with tf.Graph().as_default():
            tf.set_random_seed(graph_seed)
            return [int(one) for one in taken(tf.data.Dataset.range(30).shuffle(30, seed))]

    assert order(1, 2) == order(1, 2) != order(2, 2)
    assert order(5, None) == order(5, None)


# ---- errors, waits, ends


def test_what_an_operation_of_a_function_raises_is_what_a_run_raises():
    ds = tf.data.Dataset.from_tensor_slices(["1", "x", "3"]).map(
        lambda x: tf.py_func(lambda text: np.int64(text), [x], tf.int64)
    )
    fetch = ds.make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert sess.run(fetch) == 1
        with pytest.raises(tf.errors.OpError) as caught:
            sess.run(fetch)
        assert not isinstance(caught.value, tf.errors.OutOfRangeError)
        # It goes on behind that element, as TensorFlow does.
        assert sess.run(fetch) == 3
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError):
                sess.run(fetch)


def test_an_iterator_that_is_initialised_goes_on_behind_an_error_of_a_pair():
    numbers = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0])
    inverse = numbers.map(lambda x: tf.py_func(lambda y: np.float64(1 / float(y)), [x], tf.float64))
    it = tf.data.Dataset.zip((inverse, numbers)).make_initializable_iterator()
    fetch = it.get_next()
    with tf.Session() as sess:
        for _ in range(2):
            sess.run(it.initializer)
            assert sess.run(fetch) == (1.0, 1.0)
            with pytest.raises(tf.errors.OpError):
                sess.run(fetch)
            assert sess.run(fetch) == (0.5, 2.0)
            with pytest.raises(tf.errors.OutOfRangeError):
                sess.run(fetch)


def test_a_damaged_example_is_an_error_of_its_class_and_can_be_left_out():
    good = tf.train.Example()
    good.features.feature["x"].int64_list.value.append(4)
    records = [good.SerializeToString(), b"\x0a\xff", good.SerializeToString()]
    ds = tf.data.Dataset.from_tensor_slices(records).map(
        lambda record: tf.parse_single_example(record, {"x": tf.FixedLenFeature([], tf.int64)})["x"]
    )
    fetch = ds.make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert sess.run(fetch) == 4
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(fetch)
        assert sess.run(fetch) == 4
    assert [int(element) for element in taken(ds.apply(tf.data.experimental.ignore_errors()))] == [4, 4]


def test_what_a_generator_raises_comes_with_its_cause():
    def broken():
        yield 1
        raise KeyError("lost")

    fetch = tf.data.Dataset.from_generator(broken, tf.int64).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert sess.run(fetch) == 1
        with pytest.raises(tf.errors.UnknownError, match="KeyError") as caught:
            sess.run(fetch)
        assert isinstance(caught.value.__cause__, KeyError)


def test_a_run_that_times_out_takes_nothing():
    go = threading.Event()

    def slow():
        yield 1
        go.wait(60)
        yield 2

    fetch = tf.data.Dataset.from_generator(slow, tf.int64).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert sess.run(fetch) == 1
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(fetch, options=tf.RunOptions(timeout_in_ms=50))
        go.set()
        assert sess.run(fetch) == 2


def test_the_end_of_a_session_ends_a_run_that_waits():
    go, waiting = threading.Event(), threading.Event()

    def slow():
        waiting.set()
        go.wait(60)
        yield 1

    fetch = tf.data.Dataset.from_generator(slow, tf.int64).make_one_shot_iterator().get_next()
    sess = tf.Session()
    caught = []

    def run():
        try:
            sess.run(fetch)
        except Exception as error:
            caught.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    assert waiting.wait(60)
    sess.close()
    thread.join(60)
    assert caught == [tf.errors.CancelledError]
    go.set()


def test_threads_of_a_session_take_each_element_once():
    fetch = tf.data.Dataset.range(400).map(lambda x: x * 2).make_one_shot_iterator().get_next()
    lists = [[], [], [], []]
    with tf.Session() as sess:

        def run(out):
            while True:
                try:
                    out.append(int(sess.run(fetch)))
                except tf.errors.OutOfRangeError:
                    return

        threads = [threading.Thread(target=run, args=(elements,)) for elements in lists]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(sum(lists, [])) == list(range(0, 800, 2))
    assert all(elements == sorted(elements) for elements in lists)


def test_a_session_goes_though_an_iterator_of_it_is_open():
    ds = tf.data.Dataset.range(100000).map(lambda x: tf.py_func(lambda y: y, [x], tf.int64), num_parallel_calls=2)
    fetch = ds.make_one_shot_iterator().get_next()
    sess = tf.Session()
    sess.run(fetch)
    gone = weakref.ref(sess)
    del sess
    gc.collect()
    assert gone() is None


# ---- names and arguments


def test_contrib_names():
    data = tf.contrib.data
    ds = tf.data.Dataset.range(7)
    assert [len(batch) for batch in taken(ds.apply(data.batch_and_drop_remainder(3)))] == [3, 3]
    rows = ds.map(lambda x: tf.stack([x, x]))
    padded = taken(rows.apply(data.padded_batch_and_drop_remainder(3, [4], np.int64(9))))
    assert [batch.tolist() for batch in padded][0] == [[0, 0, 9, 9], [1, 1, 9, 9], [2, 2, 9, 9]]
    assert len(padded) == 2
    assert sorted(map(int, taken(ds.apply(data.shuffle_and_repeat(7, 2, 1))))) == sorted([*range(7)] * 2)
    sloppy = ds.apply(data.sloppy_interleave(lambda x: tf.data.Dataset.from_tensors(x), 2))
    assert sorted(map(int, taken(sloppy))) == list(range(7))
    assert [int(element) for element in taken(data.Counter(5, 2), 3)] == [5, 7, 9]
    assert [element.dtype for element in taken(data.Counter(dtype=tf.int32), 1)] == [np.int32]
    with pytest.raises(ValueError, match="only one"):
        data.map_and_batch(lambda x: x, 2, num_parallel_batches=1, num_parallel_calls=1)
    assert data.Dataset is tf.data.Dataset


def test_shuffle_and_repeat_is_shuffle_and_then_repeat():
    ds = tf.data.Dataset.range(9)
    one = taken(ds.apply(tf.contrib.data.shuffle_and_repeat(4, 3, seed=5)))
    assert one == taken(ds.shuffle(4, seed=5).repeat(3))


def test_buckets():
    def rows():
        for n in (1, 5, 2, 6, 1, 7):
            yield np.full(n, n)

    ds = tf.data.Dataset.from_generator(rows, tf.int64, [None])
    step = tf.data.experimental.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [4], [2, 2])
    batches = taken(ds.apply(step))
    assert [one.shape for one in batches] == [(2, 2), (2, 6), (1, 1), (1, 7)]
    assert batches[1].tolist() == [[5, 5, 5, 5, 5, 0], [6] * 6]


def test_choices():
    a, b = tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)
    choice = tf.data.Dataset.from_tensor_slices(np.array([1, 0, 0, 1, 0]))
    chosen = tf.data.experimental.choose_from_datasets([a, b], choice)
    assert [int(one) for one in taken(chosen)] == [10, 0, 1, 11, 2]
    sampled = tf.data.experimental.sample_from_datasets([a, b], [0.0, 1.0], seed=1)
    assert [int(one) for one in taken(sampled)] == [10, 11, 12]
    with pytest.raises(TypeError):
        tf.data.experimental.choose_from_datasets([a, tf.data.Dataset.from_tensors(1.0)], choice)
    with pytest.raises(ValueError):
        tf.data.experimental.sample_from_datasets([a, b], [1.0])


def test_csv(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,name,n\n1.5,a,3\n,b,4\n")
    ds = tf.contrib.data.CsvDataset(str(file), [[0.25], tf.string, tf.int64], header=True)
    assert ds.output_types == (np.float32, np.dtype("S"), np.int64)
    assert taken(ds) == [(1.5, b"a", 3), (0.25, b"b", 4)]


def test_options():
    options = tf.data.Options()
    options.experimental_deterministic = False
    options.experimental_slack = True  # one of TensorFlow's that means nothing here
    found = tf.data.Dataset.range(3).with_options(options)
    assert made(found).options().shown() == {"deterministic": False, "experimental_slack": True}
    assert found.options() == options != tf.data.Options() == tf.data.Dataset.range(3).options()
    # What a dataset says is for reading, and a misspelt option is an error.
    with pytest.raises(ValueError, match="with_options"):
        found.options().deterministic = True
    with pytest.raises(AttributeError, match="Cannot set the property experimental_slak"):
        options.experimental_slak = True
    with pytest.raises(TypeError):
        tf.data.Dataset.range(3).with_options(3)


def test_files_of_two_kinds_of_names_and_numbers_that_are_fed(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(12)))
    name, size = tf.placeholder(tf.string, [None]), tf.placeholder(tf.int64, [])
    it = tf.data.FixedLengthRecordDataset(name, size).repeat(size).make_initializable_iterator()
    fetch = it.get_next()
    with tf.Session() as sess:
        sess.run(it.initializer, {name: [str(tmp_path / "a")] * 2, size: 6})
        assert [sess.run(fetch) for _ in range(3)] == [bytes(range(6)), bytes(range(6, 12)), bytes(range(6))]
        sess.run(it.initializer, {name: [], size: 6})
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(fetch)
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(it.initializer, {name: ["a"], size: 0})


def test_no_file_matches(tmp_path):
    it = tf.data.Dataset.list_files(str(tmp_path / "*")).make_initializable_iterator()
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(it.initializer)


# ---- structures

Point = namedtuple("Point", "x y")
ARRAYS = st.sampled_from(["i4", "f8", "?", "u1", "S"])


def structures():
    inner = st.deferred(
        lambda: ARRAYS | st.tuples(inner) | st.tuples(inner, inner) | st.builds(Point, inner, inner)
        | st.dictionaries(st.sampled_from("zab"), inner, min_size=1, max_size=3)
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: OrderedDict(zip("qa", parts, strict=False)))
    )  # fmt: skip
    return inner


def array_of(kind, rows, rng):
    shape = (rows, *rng.integers(0, 3, rng.integers(0, 3)))
    if kind == "S":
        shape = shape[:2]
        flat = np.empty(int(np.prod(shape)), object)
        flat[:] = [bytes(rng.integers(0, 256, n, np.uint8)) for n in rng.integers(0, 4, flat.size)]
        return flat.reshape(shape)
    return rng.integers(0, 2 if kind == "?" else 100, shape).astype(kind)


def mapped(function, *several):
    one = several[0]
    if isinstance(one, dict):
        return type(one)((key, mapped(function, *[each[key] for each in several])) for key in one)
    if isinstance(one, tuple):
        parts = [mapped(function, *each) for each in zip(*several, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
    return function(*several)


def same(result, expected):
    def check(a, b):
        assert np.shape(a) == np.shape(b)
        assert isinstance(a, bytes) == isinstance(b, bytes)
        if not isinstance(a, bytes):
            assert a.dtype == b.dtype
        assert np.asarray(a, object).tolist() == np.asarray(b, object).tolist()

    mapped(check, result, expected)


@given(structures(), st.integers(1, 7), st.integers(1, 4), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_elements_keep_their_structure(structure, rows, size, drop, seed):
    rng = np.random.default_rng(seed)
    arrays = mapped(lambda kind: array_of(kind, rows, rng), structure)
    if drop:
        expected = [mapped(lambda a, i=i: a[i : i + size], arrays) for i in range(0, rows - size + 1, size)]
    else:
        expected = [mapped(lambda a, i=i: a[i : i + size], arrays) for i in range(0, rows, size)]
    with tf.Graph().as_default():
        unpacked = type(structure) is tuple
        ds = tf.data.Dataset.from_tensor_slices(arrays).map(lambda *parts: parts if unpacked else parts[0])
        ds = ds.batch(size, drop_remainder=drop)
        found = taken(ds)
        shapes, types = ds.output_shapes, ds.output_types
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
        mapped(lambda a, shape: shape.assert_is_compatible_with(np.shape(a)), one, shapes)
        mapped(lambda a, dtype: dtype.kind == "S" or a.dtype == dtype or pytest.fail("dtype"), one, types)


def test_an_iterator_goes_on_behind_numbers_that_are_none():
    # Neither the division nor the check warns; as in TensorFlow the error takes one element.
    with tf.Graph().as_default(), tf.Session() as sess:
        checked = tf.data.Dataset.range(4).map(lambda x: tf.check_numerics(1.0 / (tf.cast(x, tf.float32) - 1.0), "bad"))
        following = tf.data.make_one_shot_iterator(checked).get_next()
        assert sess.run(following) == -1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="^bad : Tensor had Inf values"):
            sess.run(following)
        assert [sess.run(following) for _ in range(2)] == [1.0, 0.5]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(following)
