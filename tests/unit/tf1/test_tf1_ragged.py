"""Ragged tensors: made, changed, fed and fetched, as TensorFlow does."""

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

CASES = [
    *(
        f"tf.ragged.constant({x})"
        for x in ("[[1, 2], [], [3]]", "[]", "[[]]", "[[], [[]]]", "[[[1], []], [[2, 3]]]", "[['a'], ['b', 'c']]", "5",
                  "[[1], 2]", "[[1.5]], dtype=tf.float64", "[[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1",
                  "[[[1, 2]], [[3, 4], [5, 6]]], inner_shape=(2,)", "[1, 2], ragged_rank=0", "[[1]], ragged_rank=3",
                  "[[1], []], row_splits_dtype=tf.int32")
    ),
    *(
        f"tf.RaggedTensor.{how}"
        for how in (
            "from_row_splits([1, 2, 3], [0, 1, 1, 3])", "from_row_splits([1, 2, 3], [0, 1, 2])",
            "from_row_splits([1], [])",
            "from_row_lengths(['a', 'b', 'c'], [2, 0, 1])", "from_row_starts([1, 2, 3], [0, 2, 2])",
            "from_row_limits([1, 2, 3], [0, 2, 3])", "from_value_rowids([1, 2, 3], [0, 0, 2])",
            "from_value_rowids([1, 2, 3], [0, 0, 2], nrows=5)", "from_value_rowids([1, 2], [1, 0])",
            "from_row_lengths([1, 2], [3])", "from_row_lengths([[1, 2], [3, 4]], [1, 1])",
            "from_nested_row_splits([1, 2, 3], [[0, 1, 3], [0, 2, 2, 3]])",
            "from_nested_row_lengths([1, 2, 3], [[1, 2], [2, 0, 1]])",
            "from_tensor([[1, 2, 0], [0, 0, 0], [3, 0, 4]])",
            "from_tensor([[1, 2, 0], [0, 0, 0], [3, 0, 4]], padding=0)",
            "from_tensor([[1, 2, 0], [4, 5, 6]], lengths=[1, 3])",
            "from_sparse(tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1, 2, 3], [4, 2]))",
            "from_sparse(tf.SparseTensor([[0, 1]], [1], [1, 2]))",
        )
    ),
    *(
        f"(lambda x: {what})({x})"
        for x in ("tf.ragged.constant([[1, 2], [], [3]])", "tf.ragged.constant([[[1], []], [[2, 3]], []])",
                  "tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1)")
        for what in ("x.nrows()", "x.nrows(tf.int32)", "x.row_lengths()", "x.row_starts()", "x.row_limits()",
                     "x.value_rowids()", "x.bounding_shape()", "list(x.nested_row_lengths())", "x.to_tensor()",
                     "x.to_tensor(-1)", "x.to_sparse()", "x.with_flat_values(x.flat_values * 2)", "x[0]", "x[-1]",
                     "x[1:]",
                     "x[:-1]", "x[2:1]", "x[tf.constant(1)]", "tf.constant(str(x.shape.ndims))",
                     "tf.ragged.map_flat_values(tf.add, x, 10)", "tf.ragged.map_flat_values(tf.add, x, x)")
    ),
    "tf.ragged.constant([[1], [2, 3]]).to_tensor(shape=[1, 3])",
    "tf.ragged.constant([[1, 2]]).to_tensor(shape=[None, 1])",
    "tf.ragged.constant([['a'], []]).to_tensor()", "tf.ragged.constant([[1], [2]])[5]",
    "tf.ragged.map_flat_values(tf.add, tf.ragged.constant([[1], [2]]), tf.ragged.constant([[1, 2]]))",
    "tf.ragged.range([2, 0, 3])", "tf.ragged.range([1, 5], [4, 2], [1, -1])", "tf.ragged.range(3)",
    "tf.ragged.range([0., 1.], 2., 0.5)", "tf.ragged.range([1], [2], [0])",
    "tf.ragged.row_splits_to_segment_ids([0, 2, 2, 3])", "tf.ragged.segment_ids_to_row_splits([0, 0, 2])",
]  # fmt: skip

ANSWERS = dict(zip(CASES, recorded("ragged", CASES, 1), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


def test_they_are_fed_and_fetched():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.ragged.placeholder(tf.float32, 2, [3])
        assert x.ragged_rank == 2 and x.shape.as_list() == [None, None, None, 3] and x.dtype is tf.float32
        inner = tf.RaggedTensorValue(np.ones([2, 3], np.float32), np.array([0, 1, 2]))
        value = tf.RaggedTensorValue(inner, np.array([0, 0, 2]))
        got = sess.run(x, {x: value})
        assert got.to_list() == [[], [[[1, 1, 1]], [[1, 1, 1]]]] == x.eval({x: value}).to_list()
        assert got.shape == (2, None, None, 3) and got.ragged_rank == 2 and got.dtype == np.float32
        assert got.flat_values.shape == (2, 3) and [list(splits) for splits in got.nested_row_splits] == [
            [0, 0, 2],
            [0, 1, 2],
        ]
        assert sess.run(x.to_tensor(7), {x: value}).shape == (2, 2, 1, 3)
        assert sess.run(tf.shape(x.flat_values), {x: value}).tolist() == [2, 3]
        plain = tf.ragged.placeholder(tf.int32, 0)
        assert sess.run(plain, {plain: [1, 2]}).tolist() == [1, 2]
        assert x.flat_values.op in [tensor.op for tensor in (x.flat_values,)] and x.consumers()


def test_what_is_not_there_is_refused_by_name():
    rows = tf.ragged.constant([[1, 2], [3]])
    for key in (np.s_[0, 1], np.s_[::2]):
        with pytest.raises(tf.errors.UnimplementedError, match="slice without a step"):
            rows[key]
    with pytest.raises(tf.errors.UnimplementedError, match="ragged_rank must be 1"):
        tf.RaggedTensor.from_tensor([[[1]]], ragged_rank=2)
    with pytest.raises(ValueError, match="not both"):
        tf.RaggedTensor.from_tensor([[1]], [1], 0)
    with pytest.raises(ValueError, match="rank"):
        rows.to_tensor(shape=[2])
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.RaggedTensor.from_sparse(rows)
    with pytest.raises(ValueError, match="axis=2"):
        rows.row_lengths(2)
    with pytest.raises(ValueError, match="ragged_rank"):
        tf.ragged.map_flat_values(tf.add, rows, tf.ragged.constant([[[1]]]))


def test_stacked_rows():
    with tf.Graph().as_default(), tf.Session() as sess:
        ragged = tf.ragged.constant([[1], [2, 3]])
        lines = tf.ragged.stack([[4], [5, 6], np.empty(0, np.int32)])
        both = tf.ragged.stack([ragged, [[7, 8]], tf.ragged.constant([[]], tf.int32, ragged_rank=1)])
        found, deep, numbers = sess.run([lines, both, tf.ragged.stack([1, 2])])
        assert found.to_list() == [[4], [5, 6], []]
        assert deep.to_list() == [[[1], [2, 3]], [[7, 8]], [[]]]
        assert numbers.tolist() == [1, 2]
        with pytest.raises(ValueError, match="the same known number of dimensions"):
            tf.ragged.stack([ragged, [1]])
        with pytest.raises(NotImplementedError, match="axis must be 0"):
            tf.ragged.stack([ragged, ragged], axis=1)


def test_concat_of_ragged_tensors():
    a = tf.ragged.constant([[[1], [2, 3]], [[]]])
    b = tf.ragged.constant([[[4]], [[5, 6], [7]]])
    c, d = tf.ragged.constant([[1], [2, 3]]), tf.constant([[8, 9], [6, 7]])
    with tf.Session() as sess:
        assert sess.run(tf.concat([a, b, a], 0)).to_list() == [[[1], [2, 3]], [[]], [[4]], [[5, 6], [7]],
                                                               [[1], [2, 3]], [[]]]  # fmt: skip
        assert sess.run(tf.concat([a, b], 1)).to_list() == [[[1], [2, 3], [4]], [[], [5, 6], [7]]]
        assert sess.run(tf.concat([d, c], 1)).to_list() == [[8, 9, 1], [6, 7, 2, 3]]
        assert sess.run(tf.concat([c, d], -2)).to_list() == [[1], [2, 3], [8, 9], [6, 7]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="different numbers of rows"):
            sess.run(tf.concat([c, tf.ragged.constant([[1]])], 1))
    with pytest.raises(ValueError, match="ragged dimensions"):
        tf.concat([a, c], 0)
    with pytest.raises(tf.errors.UnimplementedError):
        tf.concat([a, b], 2)


def test_rows_of_one_length():
    make = tf.RaggedTensor.from_uniform_row_length
    with tf.Session() as sess:
        assert sess.run(make([1, 2, 3, 4], 2)).to_list() == [[1, 2], [3, 4]]
        assert sess.run(make(tf.ragged.constant([[1], [], [2, 3], []]), 2)).to_list() == [[[1], []], [[2, 3], []]]
        assert sess.run(make(tf.zeros([0]), 0, nrows=2)).to_list() == [[], []]
        with pytest.raises(tf.errors.InvalidArgumentError, match="no whole number of rows"):
            sess.run(make([1, 2, 3], 2))
    with pytest.raises(ValueError, match="nrows must be specified"):
        make([1], 0)


def test_lists_without_values_have_any_number_of_dimensions():
    with tf.Session() as sess:
        assert sess.run(tf.ragged.constant([], ragged_rank=1)).to_list() == []
        assert sess.run(tf.ragged.constant([[]], tf.int32, ragged_rank=2)).row_splits.tolist() == [0, 0]
