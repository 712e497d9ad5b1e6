"""tf.data in a graph: the names that `queuecore.data` has too. Values are those that TensorFlow documents."""

import collections
import contextlib
import sqlite3

import numpy as np
import pytest

import queuecore as qc
import queuecore.tf1 as tf

experimental = tf.data.experimental
Range = tf.data.Dataset.range
Slices = tf.data.Dataset.from_tensor_slices


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def listed(value):
    """A value of a run as plain objects."""
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    if hasattr(value, "to_list"):
        return value.to_list()
    if isinstance(value, tuple):
        return tuple(map(listed, value))
    return value.tolist() if hasattr(value, "tolist") else value


def taken(dataset, limit=100, initializer=None):
    """The elements of a dataset: those of an initializable iterator, which also takes placeholders and tables."""
    iterator = dataset.make_initializable_iterator()
    fetch = iterator.get_next()
    out = []
    with tf.Session() as sess:
        sess.run([tf.tables_initializer()])
        sess.run(iterator.initializer, initializer)
        while len(out) < limit:
            try:
                out.append(listed(sess.run(fetch)))
            except tf.errors.OutOfRangeError:
                break
    return out


def run(fetches):
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        return listed(sess.run(fetches))


# ---- facts


def test_facts_of_a_dataset_are_tensors():
    assert run(Range(3).cardinality()) == run(experimental.cardinality(Range(3))) == 3
    assert run(Range(3).repeat().cardinality()) == tf.data.INFINITE_CARDINALITY
    assert run(Range(3).filter(lambda x: x > 0).cardinality()) == tf.data.UNKNOWN_CARDINALITY
    one, same, other = run([Range(3).fingerprint(), Range(3).fingerprint(), Range(4).fingerprint()])
    assert one == same != other
    assert Range(3).fingerprint().dtype == tf.uint64
    assert experimental.get_structure(Range(3)) == Range(3).element_spec
    with pytest.raises(RuntimeError, match="as_numpy_iterator"):
        Range(3).as_numpy_iterator()


def test_options_are_those_of_all_steps_before():
    options = tf.data.Options()
    options.experimental_deterministic = False
    options.experimental_optimization.map_vectorization.enabled = True
    options.experimental_threading.private_threadpool_size = 1
    options.experimental_distribute.auto_shard_policy = experimental.AutoShardPolicy.OFF
    dataset = Range(3).with_options(options).map(lambda x: x)
    found = dataset.zip((dataset, Range(3))).options()
    assert found.experimental_deterministic is False is found.deterministic
    assert found.experimental_optimization.map_vectorization.enabled is True
    later = tf.data.Options()
    later.experimental_deterministic = True
    assert dataset.with_options(later).options().experimental_deterministic is True
    assert Range(3).options().experimental_deterministic is None


# ---- sources


def test_counters_and_random_numbers():
    assert taken(tf.data.Dataset.counter(10, 5), 3) == taken(experimental.Counter(10, 5), 3) == [10, 15, 20]
    assert taken(tf.data.Dataset.counter(1, dtype=tf.int32), 2) == [1, 2]
    assert tf.data.Dataset.counter(dtype=tf.float32).output_types == tf.float32
    start = tf.placeholder_with_default(np.int64(7), [])
    assert taken(experimental.Counter(start), 2) == [7, 8]
    # The documentation of Dataset.random.
    assert taken(tf.data.Dataset.random(seed=4), 2) == taken(experimental.RandomDataset(4), 2)
    assert taken(tf.data.Dataset.random(seed=4).take(2)) == [3128586565, 2023892699]


def test_lists():
    Point = collections.namedtuple("Point", "x y")
    dataset = experimental.from_list([Point(1, "a"), Point(2, "b")])
    assert dataset.output_types == Point(tf.int32, tf.string)
    assert taken(dataset) == [(1, b"a"), (2, b"b")]
    ragged = experimental.from_list([[1], [2, 3]])
    assert ragged.output_shapes.as_list() == [None]
    assert taken(ragged) == [[1], [2, 3]]
    with pytest.raises(ValueError, match="should not be empty"):
        experimental.from_list([])
    with pytest.raises(ValueError, match="must be a list"):
        experimental.from_list((1, 2))
    with pytest.raises(TypeError, match="Incompatible"):
        experimental.from_list([1, "a"])


def test_rows_of_a_sparse_tensor_are_their_parts():
    sparse = tf.SparseTensor([[0, 0], [0, 2], [2, 1]], ["a", "b", "c"], [3, 4])
    dataset = tf.data.Dataset.from_sparse_tensor_slices(sparse)
    assert dataset.output_types == (tf.int64, tf.string, tf.int64)
    assert [shape.as_list() for shape in dataset.output_shapes] == [[None, 1], [None], [1]]
    assert taken(dataset) == [([[0], [2]], [b"a", b"b"], [4]), ([], [], [4]), ([[1]], [b"c"], [4])]
    with pytest.raises(TypeError, match="must be a `tf.SparseTensor`"):
        tf.data.Dataset.from_sparse_tensor_slices([1, 2])
    wrong = tf.SparseTensor([[2, 0], [0, 1]], [1, 2], [3, 4])
    with pytest.raises(tf.errors.InvalidArgumentError, match="ordered in the batch dimension"):
        taken(tf.data.Dataset.from_sparse_tensor_slices(wrong))


def test_rows_of_sparse_tensors_of_any_rank():
    given = tf.sparse_placeholder(tf.int32)
    dataset = tf.data.Dataset.from_sparse_tensor_slices(given)
    assert dataset.output_shapes[2].as_list() == [None]
    fed = {given: tf.SparseTensorValue([[1, 0, 1]], np.array([5], np.int32), [2, 2, 2])}
    assert taken(dataset, initializer=fed) == [([], [], [2, 2]), ([[0, 1]], [5], [2, 2])]


def test_datasets_of_datasets():
    three = [Range(3), Range(10, 13), Range(20, 23)]
    turns = Slices(np.array([0, 1, 2, 0]))
    assert taken(tf.data.Dataset.choose_from_datasets(three, turns)) == [0, 10, 20, 1]
    again = Slices(np.array([0, 0, 0, 0, 1]))
    assert taken(tf.data.Dataset.choose_from_datasets(three, again)) == [0, 1, 2]
    assert taken(experimental.choose_from_datasets(three, again)) == [0, 1, 2, 10]
    sampled = taken(tf.data.Dataset.sample_from_datasets([Range(4), Range(10, 14)], [0.0, 1.0], seed=1))
    assert sampled == [10, 11, 12, 13]


def test_rows_of_a_database(tmp_path):
    file = tmp_path / "people.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE people (name TEXT, age INTEGER)")
        db.execute("INSERT INTO people VALUES ('Ada', 36), ('Alan', 41)")
        db.commit()
    query = "SELECT name, age FROM people ORDER BY name"
    dataset = experimental.SqlDataset("sqlite", str(file), query, (tf.string, tf.int32))
    assert dataset.output_types == (tf.string, tf.int32)
    assert taken(dataset) == [(b"Ada", 36), (b"Alan", 41)]


# ---- steps


def test_legacy_functions_are_functions():
    assert taken(Range(4).map_with_legacy_function(lambda x: x * x)) == [0, 1, 4, 9]
    assert taken(Range(4).map_with_legacy_function(lambda x: x * x, 2)) == [0, 1, 4, 9]
    assert taken(Range(4).filter_with_legacy_function(lambda x: x > 1)) == [2, 3]
    step = experimental.map_and_batch_with_legacy_function(lambda x: -x, 2)
    assert taken(Range(4).apply(step)) == [[0, -1], [-2, -3]]


def test_windows_of_one_key():
    # As the documentation of Dataset.group_by_window has it, and with a size for each key.
    pairs = Range(10).group_by_window(lambda x: x % 2, lambda key, window: window.batch(5), window_size=5)
    assert pairs.output_shapes.as_list() == [None]
    assert taken(pairs) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]

    def keyed(key, window):
        return window.map(lambda x: (key, x)).batch(10)

    step = experimental.group_by_window(lambda x: x % 2, keyed, window_size_func=lambda key: (key + 1) * 2)
    assert taken(Range(8).apply(step)) == [
        ([0, 0], [0, 2]), ([0, 0], [4, 6]), ([1, 1, 1, 1], [1, 3, 5, 7])
    ]  # fmt: skip
    with pytest.raises(ValueError, match="key_func"):
        Range(8).group_by_window(lambda x: tf.cast(x, tf.int32), keyed, 2)
    with pytest.raises(TypeError, match="must return a `Dataset`"):
        Range(8).group_by_window(lambda x: x, lambda key, window: key, 2)
    for sizes in ({}, {"window_size": 2, "window_size_func": lambda key: key}):
        with pytest.raises(ValueError, match="window_size"):
            experimental.group_by_window(lambda x: x, keyed, **sizes)
        with pytest.raises(ValueError, match="window_size"):
            Range(8).group_by_window(lambda x: x, keyed, **sizes)


def test_functions_of_windows_read_tensors_of_the_graph():
    size, more = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [])
    dataset = Range(6).group_by_window(lambda x: (x + more) // 3, lambda key, ds: ds.map(lambda x: x * more), size)
    assert taken(dataset, initializer={size: 2, more: 1}) == [0, 1, 2, 3, 4, 5]
    assert taken(dataset, initializer={size: 2, more: 2}) == [2, 4, 8, 10, 0, 6]


def test_reducers():
    # The mean of the elements of each key.
    reducer = experimental.Reducer(
        lambda key: (np.int64(0), np.int64(0)),
        lambda state, x: (state[0] + x, state[1] + 1),
        lambda total, count: (total, count),
    )
    dataset = Range(7).apply(experimental.group_by_reducer(lambda x: x % 2, reducer))
    assert dataset.output_types == (tf.int64, tf.int64)
    assert taken(dataset) == [(12, 4), (9, 3)]
    with pytest.raises(TypeError, match="new state must match"):
        Range(7).apply(
            experimental.group_by_reducer(
                lambda x: x, experimental.Reducer(lambda key: 0.0, lambda state, x: x, lambda state: state)
            )
        )
    with pytest.raises(TypeError, match="Reducer"):
        experimental.group_by_reducer(lambda x: x, lambda x: x)


def test_scans():
    # The documentation of Dataset.scan.
    dataset = Range(10).scan(tf.constant(0, tf.int64), lambda state, x: (state + x, state + x))
    assert taken(dataset) == [0, 1, 3, 6, 10, 15, 21, 28, 36, 45]
    pairs = Slices(([1, 2, 3], ["a", "b", "c"])).apply(
        experimental.scan({"text": ""}, lambda state, x: ({"text": state["text"] + x[1]}, (x[0], state["text"] + x[1])))
    )
    assert pairs.output_types == (tf.int32, tf.string)
    assert taken(pairs) == [(1, b"a"), (2, b"ab"), (3, b"abc")]
    with pytest.raises(TypeError, match="should return a pair"):
        Range(3).scan(np.int64(0), lambda state, x: state + x)
    with pytest.raises(TypeError, match="new state must match"):
        Range(3).scan(0.0, lambda state, x: (x, x))


def test_a_state_may_change_its_shape():
    # TensorFlow's scan forgets of the state's shape what the function changes, and calls the function again.
    def longer(state, x):
        return (tf.concat([state[0], state[0]], 0), tf.expand_dims(state[1], 0)), (state, x)

    dataset = Range(3).scan(([0], 1), longer)
    (row, number), x = dataset.output_shapes
    assert row.as_list() == [None] and number.ndims is None and x.as_list() == []
    assert [first for first, _ in taken(dataset)] == [([0], 1), ([0, 0], [1]), ([0, 0, 0, 0], [[1]])]
    total = Range(3).reduce(tf.constant([0], tf.int64), lambda state, x: tf.concat([state, [x]], 0))
    assert total.shape.as_list() == [None]
    with tf.Session() as sess:
        assert sess.run(total).tolist() == [0, 0, 1, 2]


def sparse(number):
    return tf.SparseTensorValue(indices=[[0, 0]], values=[number], dense_shape=[1, 1])


def test_values_of_sparse_tensors_are_sparse_tensors():
    # Where TensorFlow takes tensors, it takes the values of sparse and ragged ones as such.
    dataset = tf.data.Dataset.from_tensors(sparse(5)).repeat(2)
    assert dataset.output_classes is tf.SparseTensor
    first, _ = taken(dataset)
    assert first == ([[0, 0]], [5], [1, 1])
    rows = tf.SparseTensorValue([[0, 0], [1, 1]], [7, 8], [2, 2])
    assert taken(Slices(rows)) == [([[0]], [7], [2]), ([[1]], [8], [2])]
    assert taken(tf.data.Dataset.from_tensors(rows).unbatch()) == [([[0]], [7], [2]), ([[1]], [8], [2])]
    mapped = Range(2).map(lambda x: (tf.SparseTensorValue([[0]], x * [1], [1]), x))
    assert mapped.output_classes == (tf.SparseTensor, tf.Tensor)
    windows = mapped.map(lambda one, _: one).window(2).flat_map(lambda window: window.batch(2))
    assert taken(windows) == [([[0, 0], [1, 0]], [0, 1], [2, 1])]
    with pytest.raises(TypeError, match="not supported"):
        dataset.padded_batch(2)


def test_values_of_ragged_tensors_are_ragged_tensors():
    rows = tf.ragged.constant_value([[[0]], [[1], [2, 3]]])
    dataset = tf.data.Dataset.from_tensors(rows)
    assert dataset.output_classes is tf.RaggedTensor
    assert taken(dataset.unbatch()) == [[[0]], [[1], [2, 3]]]
    with pytest.raises(TypeError, match="not supported"):
        dataset.padded_batch(2)


def test_a_state_may_be_sparse():
    counted = Range(3).scan(sparse(10), lambda state, x: (sparse(state.values[0] + 1), state.values[0]))
    assert taken(counted) == [10, 11, 12]
    last = Range(1, 4).map(sparse).reduce(sparse(0)._replace(values=np.array([0])), lambda _, one: one)
    with tf.Session() as sess:
        assert listed(sess.run(last)) == ([[0, 0]], [3], [1, 1])


def test_loops_in_functions_of_datasets():
    rows = Slices([[1, 2, 3], [4, 5, 6]])
    assert taken(rows.map(lambda row: tf.map_fn(lambda x: x * x, row))) == [[1, 4, 9], [16, 25, 36]]
    assert taken(rows.filter(lambda row: tf.reduce_sum(tf.map_fn(lambda x: x * x, row)) < 20)) == [[1, 2, 3]]
    halved = Slices([8, 12]).map(lambda x: tf.while_loop(lambda n: n % 2 < 1, lambda n: n // 2, [x]))
    assert taken(halved) == [1, 3]


def test_components_may_be_none():
    # As in TensorFlow, they are no tensors, so that an element with one can't be fetched as a whole.
    dataset = Range(4).map(lambda x: (x, None))
    assert dataset.output_classes == (tf.Tensor, type(None))
    assert repr(dataset.element_spec[1]) == "NoneTensorSpec()"
    assert taken(dataset.batch(3).map(lambda x, _: x)) == [[0, 1, 2], [3]]
    assert taken(dataset.concatenate(dataset).filter(lambda x, _: x > 2).map(lambda x, _: x)) == [3, 3]
    rows = tf.data.Dataset.from_tensors(([5, 6], None)).unbatch()
    assert taken(rows.map(lambda x, nothing: x if nothing is None else -x)) == [5, 6]
    with pytest.raises(ValueError, match="no tensors"):
        tf.data.Dataset.from_tensors(None)


def test_every_negative_count_is_minus_one():
    assert taken(Range(2).repeat(-2).take(5)) == [0, 1, 0, 1, 0]
    assert taken(Range(3).take(-5)) == [0, 1, 2]
    assert taken(Range(3).skip(-5)) == []


def test_unbatch_compares_the_sizes_that_are_known():
    with pytest.raises(ValueError, match="matching leading dimension"):
        tf.data.Dataset.from_tensors((np.arange(7), np.arange(8))).unbatch()


def test_padding_values_of_a_structure_may_be_left_out():
    dataset = Slices([1, 2]).map(lambda x: (tf.fill([x], x), {"a": tf.fill([x], "x")}))
    padded = dataset.padded_batch(2, ([None], {"a": [None]}), (-1, None))
    assert taken(padded) == [([[1, -1], [2, 2]], {"a": [[b"x", b""], [b"x", b"x"]]})]
    with pytest.raises(ValueError, match=r"1-D tensor of tf.int64 values, but its shape was \(2, 2\)"):
        Range(3).padded_batch(2, [[1, 1], [1, 1]])
    with pytest.raises(TypeError, match="1-D tensor of tf.int64 values, but its element type was float32"):
        Range(3).padded_batch(2, tf.constant([1.5]))
    with pytest.raises(ValueError, match=r"The padded shape \(\?, \?\) is not compatible"):
        Range(3).padded_batch(2, tf.placeholder(tf.int64, [2]))


def test_unique_elements():
    # The documentation of Dataset.unique.
    assert taken(Slices([1, 37, 2, 37, 2, 1]).unique()) == [1, 37, 2]
    assert taken(Slices(["a", "b", "a"]).apply(experimental.unique())) == [b"a", b"b"]
    with pytest.raises(TypeError, match="does not support"):
        Slices([1.0, 2.0]).unique()


def test_rebatch():
    # The documentation of Dataset.rebatch.
    dataset = Range(8).batch(4)
    assert taken(dataset.rebatch(2)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert taken(dataset.rebatch([2, 1, 1])) == [[0, 1], [2], [3], [4, 5], [6], [7]]
    assert taken(dataset.rebatch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert dataset.rebatch(3, drop_remainder=True).output_shapes.as_list() == [3]
    assert dataset.rebatch(3).output_shapes.as_list() == [None]
    assert Range(8).batch(4, drop_remainder=True).rebatch(2).output_shapes.as_list() == [2]
    size = tf.placeholder(tf.int64, [None])
    assert taken(dataset.rebatch(size), initializer={size: [5, 3]}) == [[0, 1, 2, 3, 4], [5, 6, 7]]
    with pytest.raises(ValueError, match="scalar"):
        Range(8).rebatch(2)


def test_batches_of_rows_that_differ():
    # The documentation of Dataset.ragged_batch and of dense_to_sparse_batch.
    rows = Range(5).map(lambda x: tf.fill([x], x))
    for dataset in (rows.ragged_batch(2), rows.apply(experimental.dense_to_ragged_batch(2))):
        assert dataset.output_classes is tf.RaggedTensor
        assert dataset.output_shapes.as_list() == [None, None]
        assert taken(dataset) == [[[], [1]], [[2, 2], [3, 3, 3]], [[4, 4, 4, 4]]]
    full = rows.ragged_batch(2, drop_remainder=True, row_splits_dtype=tf.int32)
    assert full.output_shapes.as_list() == [2, None]
    assert full.make_one_shot_iterator().get_next().row_splits.dtype == tf.int32
    assert taken(full) == [[[], [1]], [[2, 2], [3, 3, 3]]]
    known = Slices([[1, 2], [3, 4]]).ragged_batch(2)
    assert known.output_classes is tf.Tensor
    assert taken(known) == [[[1, 2], [3, 4]]]
    for dataset in (rows.sparse_batch(2, [6]), rows.apply(experimental.dense_to_sparse_batch(2, [6]))):
        assert dataset.output_classes is tf.SparseTensor
        indices, values, shape = taken(dataset)[1]
        assert indices == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
        assert (values, shape) == ([2, 2, 3, 3, 3], [2, 6])
    assert taken(rows.sparse_batch(4, [-1]))[0][2] == [4, 3]
    with pytest.raises(TypeError, match="one tensor"):
        Slices(([1], [2])).sparse_batch(1, [1])


def test_ragged_tensors_are_elements():
    ragged = tf.ragged.constant([[1], [2, 3]])
    dataset = tf.data.Dataset.from_tensors((ragged, "a"))
    assert dataset.output_classes == (tf.RaggedTensor, tf.Tensor)
    assert taken(dataset.map(lambda rows, name: (rows.row_lengths(), rows.with_values(rows.values + 1)))) == [
        ([1, 2], [[2], [3, 4]])
    ]
    assert taken(tf.data.Dataset.from_tensors(ragged).repeat(2).batch(2)) == [[[[1], [2, 3]], [[1], [2, 3]]]]
    assert taken(tf.data.Dataset.from_tensors(ragged).unbatch()) == taken(Slices(ragged)) == [[1], [2, 3]]
    words = tf.ragged.constant([["a", "bc"], [], ["d"]])
    assert taken(tf.data.Dataset.from_tensors(words)) == [[[b"a", b"bc"], [], [b"d"]]]
    made = Range(2).map(lambda n: tf.RaggedTensor.from_row_lengths(tf.range(3), [n, 3 - n]))
    assert taken(made) == [[[], [0, 1, 2]], [[0], [1, 2]]]
    with pytest.raises(TypeError, match="Incompatible"):
        tf.data.Dataset.from_tensors(ragged).concatenate(tf.data.Dataset.from_tensors([[1, 2]]))


def test_an_iterator_switches_between_datasets_of_ragged_tensors():
    first = tf.data.Dataset.from_tensors(tf.ragged.constant([[1], [2, 3]]))
    second = tf.data.Dataset.from_tensors(tf.ragged.constant([[4, 5]]))
    iterator = tf.data.Iterator.from_structure(tf.int32, [None, None], output_classes=tf.RaggedTensor)
    fetch = iterator.get_next()
    with tf.Session() as sess:
        sess.run(iterator.make_initializer(first))
        assert sess.run(fetch).to_list() == [[1], [2, 3]]
        sess.run(iterator.make_initializer(second))
        assert sess.run(fetch).to_list() == [[4, 5]]
    with pytest.raises(TypeError):
        iterator.make_initializer(tf.data.Dataset.from_tensors(tf.ragged.constant([[[4], [5]]])))


def test_resampled_classes():
    labels = Range(1000).map(lambda x: x % 2).rejection_resample(lambda x: x, [0.9, 0.1], [0.5, 0.5], seed=1)
    assert labels.output_types == (tf.int64, tf.int64)
    pairs = taken(labels, 2000)
    assert all(class_ == element for class_, element in pairs)
    classes = [class_ for class_, _ in pairs]
    assert classes.count(0) == 500
    assert classes.count(1) in range(30, 90)
    assert pairs == taken(labels, 2000)
    step = experimental.rejection_resample(lambda x: x % 2, tf.constant([0.0, 1.0]), seed=3)
    assert {class_ for class_, _ in taken(Range(300).apply(step))} == {1}


def test_buckets():
    elements = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]
    dataset = experimental.from_list(elements).bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], bucket_boundaries=[3, 5], bucket_batch_sizes=[2, 2, 2]
    )
    # The documentation of Dataset.bucket_by_sequence_length.
    assert taken(dataset) == [
        [[1, 2, 3, 4], [5, 6, 7, 0]],
        [[7, 8, 9, 10, 11, 0], [13, 14, 15, 16, 19, 20]],
        [[0, 0], [21, 22]],
    ]


def test_stated_numbers_of_elements():
    dataset = Range(10).filter(lambda x: tf.equal(x % 2, 0)).apply(experimental.assert_cardinality(5))
    assert run(dataset.cardinality()) == 5
    assert taken(dataset) == [0, 2, 4, 6, 8]
    with pytest.raises(tf.errors.FailedPreconditionError):
        taken(Range(3).assert_cardinality(4))


def test_padded_numbers_of_elements():
    # The documentation of pad_to_cardinality.
    dataset = Slices({"a": [1, 2]}).apply(experimental.pad_to_cardinality(3))
    assert dataset.output_types == {"a": tf.int32, "valid": tf.bool}
    assert taken(dataset) == [{"a": 1, "valid": True}, {"a": 2, "valid": True}, {"a": 0, "valid": False}]
    with pytest.raises(ValueError, match="dictionary"):
        Range(2).apply(experimental.pad_to_cardinality(3))
    with pytest.raises(ValueError, match="already"):
        Slices({"a": [1]}).apply(experimental.pad_to_cardinality(3, "a"))


def test_an_element_by_its_number():
    dataset = Slices({"a": [1, 2, 3]}).map(lambda x: {"a": x["a"] * 2, "b": "t"})
    assert run(experimental.at(dataset, 2)) == {"a": 6, "b": b"t"}
    with pytest.raises(tf.errors.OutOfRangeError):
        run(experimental.at(dataset, 3))
    number = tf.placeholder(tf.int64, [])
    with tf.Session() as sess:
        assert sess.run(experimental.at(Range(5, 9), number), {number: 1}) == 6


# ---- files


def test_saved_and_loaded(tmp_path):
    path = str(tmp_path / "saved")
    dataset = Slices({"x": np.arange(6), "name": list("abcdef")})
    with tf.Session() as sess:
        assert sess.run(dataset.save(path, shard_func=lambda x: x["x"] % 2)) is None
    loaded = tf.data.Dataset.load(path, dataset.element_spec)
    assert loaded.output_types == {"x": tf.int64, "name": tf.string}
    assert [one["x"] for one in taken(loaded)] == [0, 1, 2, 3, 4, 5]
    in_order = experimental.load(path, dataset.element_spec, reader_func=lambda shards: shards.flat_map(lambda x: x))
    assert [one["name"] for one in taken(in_order)] == [b"a", b"c", b"e", b"b", b"d", b"f"]
    with pytest.raises(tf.errors.NotFoundError):
        taken(tf.data.Dataset.load(str(tmp_path / "none"), dataset.element_spec))
    with tf.Session() as sess:
        sess.run(experimental.save(Range(2), path, compression="GZIP"))
    assert taken(experimental.load(path, Range(2).element_spec)) == [0, 1]


def test_snapshots(tmp_path):
    dataset = Range(6).snapshot(
        str(tmp_path), shard_func=lambda x: x % 2, reader_func=lambda shards: shards.flat_map(lambda shard: shard)
    )
    assert taken(dataset) == [0, 1, 2, 3, 4, 5]
    assert taken(dataset) == [0, 2, 4, 1, 3, 5]
    plain = Range(3).apply(experimental.snapshot(str(tmp_path / "more"), compression="GZIP"))
    assert taken(plain) == taken(plain) == [0, 1, 2]


def test_records_written(tmp_path):
    file = str(tmp_path / "letters.tfrecord")
    for compression in (None, "GZIP"):
        with tf.Session() as sess:
            sess.run(experimental.TFRecordWriter(file, compression).write(Slices(["a", "b"])))
        assert taken(tf.data.TFRecordDataset(file, compression)) == [b"a", b"b"]
    with pytest.raises(TypeError, match="must produce scalar"):
        experimental.TFRecordWriter(file).write(Range(3))
    with pytest.raises(TypeError, match="Expected a `tf.data.Dataset`"):
        experimental.TFRecordWriter(file).write([b"a"])


def test_batches_of_csv(tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("x,name,y\n1.5,a,0\n2,b,1\n3,,1\n")
    dataset = experimental.make_csv_dataset(str(file), 2, label_name="y", num_epochs=1, shuffle=False)
    assert dataset.output_types == ({"x": tf.float32, "name": tf.string}, tf.int32)
    assert dataset.output_shapes[1].as_list() == [None]
    assert taken(dataset) == [
        ({"x": [1.5, 2.0], "name": [b"a", b"b"]}, [0, 1]),
        ({"x": [3.0], "name": [b""]}, [1]),
    ]
    some = experimental.make_csv_dataset(
        str(file), 1, select_columns=["x", "y"], column_defaults=[tf.float64, [5]], num_epochs=1, shuffle_seed=2
    )
    assert some.output_types == {"x": tf.float64, "y": tf.int32}
    assert sorted(one["x"][0] for one in taken(some)) == [1.5, 2, 3]
    endless = experimental.make_csv_dataset(str(file), 2)
    assert endless.output_shapes["x"].as_list() == [2]
    assert len(taken(endless, 5)) == 5


def test_batches_of_examples(tmp_path):
    file = str(tmp_path / "some.tfrecord")
    with tf.python_io.TFRecordWriter(file) as writer:
        for i in range(3):
            one = tf.train.Example()
            one.features.feature["a"].int64_list.value.append(i)
            one.features.feature["b"].bytes_list.value.extend([b"x"] * i)
            writer.write(one.SerializeToString())
    features = {"a": tf.FixedLenFeature([], tf.int64), "b": tf.VarLenFeature(tf.string)}
    dataset = experimental.make_batched_features_dataset(
        file, 2, features, label_key="a", num_epochs=1, shuffle=False, reader_num_threads=2
    )
    assert dataset.output_classes == ({"b": tf.SparseTensor}, tf.Tensor)
    (first, label), (_, rest) = taken(dataset)
    assert (label, rest) == ([0, 1], [2])
    assert first["b"] == ([[1, 0]], [b"x"], [2, 1])
    endless = experimental.make_batched_features_dataset(file, 2, features, tf.data.TFRecordDataset)
    assert endless.output_shapes["a"].as_list() == [2]
    assert len(taken(endless, 4)) == 4
    with pytest.raises(ValueError, match="label_key"):
        experimental.make_batched_features_dataset(file, 2, features, label_key="c")
    keyed = experimental.make_batched_features_dataset(
        file, 3, features, lambda name: tf.data.TFRecordDataset(name).map(lambda x: ("key", x)), num_epochs=1,
        shuffle=False, drop_final_batch=True,
    )  # fmt: skip
    assert taken(keyed.map(lambda x: x["a"])) == [[0, 1, 2]]
    parse = experimental.parse_example_dataset(features, num_parallel_calls=2)
    assert taken(tf.data.TFRecordDataset(file).batch(2).apply(parse).map(lambda x: x["a"])) == [[0, 1], [2]]
    with pytest.raises(TypeError, match="vectors of strings"):
        tf.data.TFRecordDataset(file).apply(parse)


# ---- tables


def test_tables_of_datasets():
    # The documentation of DatasetInitializer.
    keys, values = Range(100), Range(100).map(lambda x: tf.as_string(x * 2))
    initializer = tf.lookup.experimental.DatasetInitializer(tf.data.Dataset.zip((keys, values)))
    table = tf.lookup.StaticHashTable(initializer, "")
    assert run(table.lookup(tf.constant([0, 1, 2, 200], tf.int64))) == [b"0", b"2", b"4", b""]
    for wrong in (Range(3), Slices(([[1]], [2])), [1, 2]):
        with pytest.raises(ValueError):
            tf.lookup.experimental.DatasetInitializer(wrong)


def test_indices_of_datasets():
    # The documentation of index_table_from_dataset.
    words = Slices(["emerson", "lake", "palmer"])
    table = experimental.index_table_from_dataset(words, num_oov_buckets=1)
    assert run(table.lookup(tf.constant(["emerson", "lake", "palmer", "king"]))) == [0, 1, 2, 3]
    table = experimental.index_table_from_dataset(words, vocab_size=2)
    assert run(table.lookup(tf.constant(["lake", "palmer"]))) == [1, -1]
    numbers = experimental.index_table_from_dataset(Range(5, 8), key_dtype=tf.int64)
    assert run(numbers.lookup(tf.constant([7, 5, 1], tf.int64))) == [2, 0, -1]
    pairs = Slices((["a", "b"], np.array([3, 4])))
    table = experimental.table_from_dataset(pairs, default_value=np.int64(0))
    assert run(table.lookup(tf.constant(["b", "c"]))) == [4, 0]
    with pytest.raises(tf.errors.FailedPreconditionError):
        run(experimental.index_table_from_dataset(words, vocab_size=4).size())
    for wrong in ({"num_oov_buckets": -1}, {"vocab_size": 0}):
        with pytest.raises(ValueError):
            experimental.index_table_from_dataset(words, **wrong)
    with pytest.raises(TypeError):
        experimental.index_table_from_dataset(words, key_dtype=tf.float32)


def test_what_is_missing_says_so():
    assert not hasattr(experimental, "make_saveable_from_iterator")
    with pytest.raises(tf.errors.UnimplementedError, match="make_saveable_from_iterator"):
        _ = experimental.make_saveable_from_iterator
    shared = set(tf.contrib.data.__all__) & set(experimental.__all__)
    assert {"unique", "scan", "group_by_window", "Reducer", "make_csv_dataset"} <= shared
    assert all(getattr(tf.contrib.data, name) is getattr(experimental, name) for name in shared)


def test_all_names_of_queuecore_data_are_there():
    # But for those that belong to what a graph has no part in.
    eager = set(qc.data.experimental.__all__)
    assert eager <= set(experimental.__all__)
    ours = {"dense_to_ragged_batch", "from_hugging_face", "from_list", "map_and_batch", "parallel_interleave",
            "permute", "plan", "prefetch_to_device", "shuffle_and_repeat"}  # fmt: skip
    there = {name for name in dir(qc.data.Dataset) if not name.startswith("_")}
    assert there - set(dir(tf.data.Dataset)) == ours


# ---- what a program may leave to a run, or to Python


def test_keys_and_sizes_of_windows_may_be_numbers_of_pythons():
    made = Range(5).group_by_window(lambda x: 0, lambda key, window: window.batch(9), window_size_func=lambda key: 2)
    assert taken(made) == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match="`key_func` must return a single `tf.int64` scalar"):
        Range(5).group_by_window(lambda x: tf.cast(x, tf.int32), lambda key, window: window, 2)


def test_padded_shapes_of_a_run():
    rows = Range(1, 4).map(lambda n: tf.fill([n], n))
    side = tf.placeholder(tf.int64, [1])
    padded = rows.padded_batch(2, side)
    assert padded.output_shapes.as_list() == [None, None]
    assert taken(padded, initializer={side: [4]}) == [[[1, 0, 0, 0], [2, 2, 0, 0]], [[3, 3, 3, 0]]]
    assert taken(padded, initializer={side: [-1]}) == [[[1, 0], [2, 2]], [[3, 3, 3]]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="padded_shapes"):
        taken(padded, initializer={side: [-5]})
    # In a function it may depend on the arguments.
    windows = rows.group_by_window(
        lambda x: tf.size(x, out_type=tf.int64) % 2, lambda key, w: w.padded_batch(5, [tf.stack([key + 3])][0]), 5
    )
    assert taken(windows) == [[[2, 2, 0]], [[1, 0, 0, 0], [3, 3, 3, 0]]]
    buckets = rows.bucket_by_sequence_length(lambda x: tf.size(x), [2], [2, 2], padded_shapes=side)
    assert taken(buckets, initializer={side: [4]}) == [[[2, 2, 0, 0], [3, 3, 3, 0]], [[1, 0, 0, 0]]]
    with pytest.raises(ValueError, match="not compatible"):
        rows.padded_batch(2, tf.placeholder(tf.int64, [2]))


def test_buckets_of_sparse_tensors():
    def line(n):
        return tf.SparseTensor(tf.expand_dims(tf.range(n), 1), tf.range(n), [n])

    made = Slices(np.array([1, 3, 2])).map(line)
    made = made.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3], [2, 1], no_padding=True)
    assert [one.dense_shape.tolist() for one in taken_values(made)] == [[1, 3], [2, 2]]


def taken_values(dataset):
    fetch = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        return [sess.run(fetch) for _ in range(2)]


def test_sizes_of_sparse_tensors():
    value = tf.SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 4])
    assert run((tf.shape(value), tf.shape(value, out_type=tf.int64))) == ([3, 4], [3, 4])
    assert run((tf.size(value), tf.rank(value))) == (12, 2)
    assert tf.shape(value).dtype == tf.int32


def test_rows_of_a_ragged_tensor_make_ragged_batches():
    ragged = tf.ragged.constant([[1, 2], [3, 4], [5]])
    rows = Slices(ragged)
    assert rows.output_shapes.as_list() == [None]
    assert taken(rows) == [[1, 2], [3, 4], [5]]
    batches = rows.batch(2)
    element = batches.make_one_shot_iterator().get_next()
    assert isinstance(element, tf.RaggedTensor)
    # Of rows of one length, too.
    assert taken(batches) == [[[1, 2], [3, 4]], [[5]]]
    assert taken(batches.rebatch(3)) == [[[1, 2], [3, 4], [5]]]
    assert taken(batches.unbatch()) == [[1, 2], [3, 4], [5]]
    assert taken(rows.map(lambda row: row + 1)) == [[2, 3], [4, 5], [6]]
    assert taken(rows.concatenate(Slices(np.array([[7]], np.int32)))) == [[1, 2], [3, 4], [5], [7]]
    assert taken(rows.padded_batch(3, [None])) == [[[1, 2], [3, 4], [5, 0]]]


@pytest.mark.parametrize(
    ("sizes", "drop", "rows"), [([2, 2], False, 2), ([2, 2], True, 2), ([1, 3], True, None), ([3, 3], False, None)]
)
def test_static_rows_of_batches_of_other_sizes(sizes, drop, rows):
    made = Range(8).batch(4, drop_remainder=True).rebatch(sizes, drop)
    assert made.output_shapes.as_list() == [rows]


def test_weights_of_datasets():
    ones, twos = Range(1).repeat(), Range(1, 2).repeat()
    assert taken(tf.data.Dataset.sample_from_datasets([ones, twos], [0.0, 0.0])) == []
    for weights, error, text in (
        ([1, 1], TypeError, "`tf.float32` or `tf.float64`"),
        ([0.5], ValueError, "`weights` should have the same length as `datasets`"),
    ):
        with pytest.raises(error, match=text):
            tf.data.Dataset.sample_from_datasets([ones, twos], weights)
    with pytest.raises(TypeError, match="must have compatible element specs"):
        tf.data.Dataset.sample_from_datasets([ones, Slices([1.0])])


# ---- rows of CSV files


def test_defaults_of_columns_that_are_tensors(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("1,,x\n2,5,\n")
    kinds = [tf.constant([], tf.int64), [tf.constant(7)], tf.constant([b"none"])]
    made = tf.data.experimental.CsvDataset(str(file), kinds)
    assert made.output_types == (tf.int64, tf.int32, tf.string)
    assert taken(made) == [(1, 7, b"x"), (2, 5, b"none")]
    tables = tf.data.experimental.make_csv_dataset(
        str(file), 2, ["a", "b", "c"], kinds, num_epochs=1, shuffle=False, header=False
    )
    assert taken(tables) == [{"a": [1, 2], "b": [7, 5], "c": [b"x", b"none"]}]
    # An empty list: a float that is required.
    assert taken(tf.data.experimental.CsvDataset(str(file), [[], [0], [""]])) == [(1.0, 0, b"x"), (2.0, 5, b"")]
    with pytest.raises(ValueError, match="Shape must be at most rank 1 but is rank 2"):
        tf.data.experimental.CsvDataset(str(file), [tf.constant([[1]])] * 3)
    with pytest.raises(ValueError, match="must be known before the graph runs"):
        tf.data.experimental.CsvDataset(str(file), [tf.placeholder(tf.int32, [1])] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="buffer_size should be positive"):
        tf.data.experimental.CsvDataset(str(file), kinds, buffer_size=0)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("1,2,3", "Expect 2 fields but have more in record"),
        ("1", "Expect 2 fields but have 1 in record"),
        ("1,", "Field 1 is required but missing in record!"),
        ("1.5,2", "Field 0 in record is not a valid int32: 1.5"),
        ('1,2"', "Unquoted fields cannot have quotes inside"),
        ('1,"2"3', "Quote inside a string has to be escaped by another quote"),
        ('1,"2', "Reached end of file without closing quoted field in record"),
    ],
)
def test_what_is_wrong_with_a_row(tmp_path, row, text):
    file = tmp_path / "bad.csv"
    file.write_text("8,9\n" + row)
    rows = tf.data.experimental.CsvDataset(str(file), [[0], tf.int32]).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert sess.run(rows) == (8, 9)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            sess.run(rows)
    assert caught.value.message.startswith(text)
    assert "line 2" in caught.value.message


# ---- what lists, paths and files may be


def test_numbers_beside_tensors_take_their_type():
    x = tf.placeholder(tf.int64, [])
    with tf.Session() as sess:
        made = sess.run(
            [tf.convert_to_tensor([2, x]), tf.fill([1, x, 1], 7), tf.convert_to_tensor([[1, 2], [x, 4]])], {x: 3}
        )
    assert [one.tolist() for one in made] == [[2, 3], [[[7], [7], [7]]], [[1, 2], [3, 4]]]
    assert [made[at].dtype for at in (0, 2)] == [np.int64] * 2
    with pytest.raises(TypeError, match="int32"):
        tf.convert_to_tensor([x, tf.constant(1)])


def test_paths_and_what_is_none(tmp_path):
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    assert taken(tf.data.TextLineDataset([file])) == [b"a", b"b"]
    assert taken(tf.data.TextLineDataset(file)) == [b"a", b"b"]
    with pytest.raises(TypeError, match="must contain `tf.string` elements. Got `tf.int32` elements."):
        tf.data.TFRecordDataset([1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="No files matched pattern: .*none"):
        taken(tf.data.Dataset.list_files(str(tmp_path / "none*")))


def test_what_was_saved_says_what_it_is(tmp_path):
    with tf.Session() as sess:
        sess.run(tf.data.Dataset.zip((Range(2), Slices([b"x", b"y"]))).save(str(tmp_path / "saved")))
    loaded = tf.data.Dataset.load(str(tmp_path / "saved"))
    assert loaded.output_types == (tf.int64, tf.string)
    assert taken(loaded) == [(0, b"x"), (1, b"y")]
    with pytest.raises(ValueError, match="`element_spec` argument must be provided"):
        tf.data.Dataset.load(tf.placeholder(tf.string, []))
    with pytest.raises(ValueError, match="only supported for distributed tf.data snapshot"):
        tf.data.Dataset.load(str(tmp_path / "saved"), wait=True)


def test_states_of_keys_may_change_their_shapes():
    reducer = experimental.Reducer(
        lambda key: tf.zeros([0], tf.int64), lambda state, x: tf.concat([state, [x]], 0), lambda state: state
    )
    made = Range(5).apply(experimental.group_by_reducer(lambda x: x % 2, reducer))
    assert made.output_shapes.as_list() == [None]
    assert taken(made) == [[0, 2, 4], [1, 3]]


def test_rows_that_differ_in_several_dimensions():
    made = Range(3).map(lambda n: tf.fill([2, n, 3, n], n)).ragged_batch(3)
    assert taken(made) == [[np.full((2, n, 3, n), n).tolist() for n in range(3)]]
    assert made.element_spec.ragged_rank == 4
    ragged = Slices(tf.ragged.constant([[[1], [2, 3]], [[]]])).ragged_batch(2)
    assert taken(ragged) == [[[[1], [2, 3]], [[]]]]


def test_elements_that_do_not_fit_a_sparse_row_are_errors_of_a_run():
    for element, error, text in (
        ([[1]], tf.errors.InvalidArgumentError, "incompatible with the row shape"),
        ([1, 2, 3], tf.errors.DataLossError, "larger than the row shape"),
    ):
        rows = tf.data.Dataset.from_tensors(element).sparse_batch(4, [2])
        with pytest.raises(error, match=text):
            taken(rows)


def test_what_is_asked_of_datasets_by_turns():
    with pytest.raises(TypeError, match="`choice_dataset` should be a `tf.data.Dataset`"):
        tf.data.Dataset.choose_from_datasets([Range(2)], None)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Selector index out of range"):
        taken(tf.data.Dataset.choose_from_datasets([Range(2)], Range(1, 2)))
    with pytest.warns(UserWarning, match="The `rerandomize_each_iteration` argument is ignored"):
        numbers = tf.data.Dataset.random(seed=3, rerandomize_each_iteration=True).take(2).repeat(2)
    assert taken(numbers)[:2] == taken(numbers)[2:]


def test_values_of_ragged_tensors_are_leaves():
    value = tf.ragged.constant_value([[1], []])
    assert tf.nest.flatten((value, 2)) == [value, 2]
    assert tf.nest.map_structure(lambda one: one.to_list(), {"a": value}) == {"a": [[1], []]}


def test_numbers_of_shards(tmp_path):
    for number in (lambda x: 0, lambda x: tf.cast(x, tf.int32) % 2):
        made = Range(4).snapshot(str(tmp_path / "snapshot"), shard_func=number)
        assert taken(made) == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="int64"):
        Range(4).snapshot(str(tmp_path / "other"), shard_func=lambda x: "one")


def test_slices_of_a_list_of_datasets():
    numbers = Slices([Range(2), Range(5, 8)])
    assert taken(numbers.flat_map(lambda one: one)) == [0, 1, 5, 6, 7]
    with pytest.raises(TypeError, match="Incompatible dataset elements"):
        Slices([Range(2), Slices([1.0])])
    with pytest.raises(ValueError, match="must be a list"):
        experimental.from_list((1, 2))


def test_what_is_said_of_elements_that_cannot_be_stacked():
    text = r"^Cannot batch tensors with different shapes in component 0. First element had shape \[1\] and element 1 "
    rows = Range(1, 3).map(lambda n: tf.fill([n], n))
    with pytest.raises(tf.errors.InvalidArgumentError, match=text + r"had shape \[2\]"):
        taken(rows.batch(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="unequal shapes"):  # which component isn't known
        taken(tf.data.Dataset.zip((Range(2), rows)).batch(2))
