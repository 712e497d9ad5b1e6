"""Items picked, sorted and counted, segments, further functions of numbers, sparse tensors: as TensorFlow does."""

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

FED = "tf.placeholder_with_default"
M = "tf.constant([[1, 5, 3], [4, 2, 6]])"
SPARSE = "tf.SparseTensor([[0, 1], [1, 0], [1, 2]], {values}, [3, 4])"
NUMBERS, WORDS = SPARSE.format(values="[1, 2, 3]"), SPARSE.format(values="['a', 'b', 'c']")
LAX = "tf.SparseTensor([[1, 2], [0, 1]], [5, 7], [3, 4])"

CASES = [
    f"tf.gather_nd({M}, [[0, 1], [1, 2]])", f"tf.gather_nd({M}, [[1]])", f"tf.gather_nd({M}, [[[0, 0]], [[1, 1]]])",
    "tf.gather_nd(['a', 'b'], [1])", f"tf.gather_nd({M}, [[0, 3]])", f"tf.gather_nd({M}, [0.5])",
    "tf.scatter_nd([[1], [3], [1]], [5, 6, 7], [5])", "tf.scatter_nd([[0], [2]], [[1., 2.], [3., 4.]], [3, 2])",
    "tf.scatter_nd([[9]], [5], [3])",
    *(f"tf.{name}({x}{more})" for name in ("unique", "unique_with_counts") for more in ("", ", tf.int64")
      for x in ("[3, 1, 3, 2, 1]", "['b', 'a', 'b']", "tf.zeros([0])")),
    "tf.unique([[1]])", "tf.setdiff1d([1, 2, 3, 2], [2])", "tf.setdiff1d(['a', 'b'], ['c'], tf.int64)",
    "tf.invert_permutation([2, 0, 1])", "tf.invert_permutation([0, 0])", "tf.invert_permutation([1.5])",
    *(f"tf.{name}({x}{more})" for name in ("sort", "argsort")
      for x in ("[3, 1, 2, 1]", "[[3., 1.], [2., 5.]]")
      for more in ("", ", direction='DESCENDING'", ", axis=0", ", direction='X'")),
    "tf.searchsorted([1, 3, 5], [0, 3, 4, 9])", "tf.searchsorted([[1, 3], [2, 9]], [[3], [3]], side='right')",
    "tf.searchsorted([1, 3, 5], [3], out_type=tf.int64)", "tf.searchsorted([1], [1], side='x')",
    "tf.sequence_mask([1, 3, 0])", "tf.sequence_mask([[1], [2]], 3)", "tf.sequence_mask([1, 3], 2, tf.float32)",
    "tf.sequence_mask([1, 3], tf.constant(4))", "tf.sequence_mask(2, 3)", f"tf.sequence_mask({FED}([1, 2], None), 3)",
    f"tf.sequence_mask([1, 2], {FED}(3, []))", "tf.sequence_mask([1, 2], [3])",
    "tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1)",
    "tf.reverse_sequence([[1, 2], [3, 4], [5, 6]], [3, 1], seq_axis=0, batch_axis=1)",
    "tf.reverse_sequence([['a', 'b']], [2], seq_dim=1, batch_dim=0)", "tf.reverse_sequence([[1, 2]], [3], seq_axis=1)",
    "tf.reverse_sequence([[1, 2]], [1, 1], seq_axis=1)", f"tf.reverse_v2({M}, [1])",
    "tf.roll([1, 2, 3, 4], 1, 0)", f"tf.roll({M}, [1, -1], [0, 1])", "tf.roll(['a', 'b', 'c'], -1, 0)",
    "tf.dynamic_partition([1, 2, 3, 4], [0, 2, 0, 1], 3)", "tf.dynamic_partition([[1, 2], [3, 4]], [1, 0], 2)",
    "tf.dynamic_partition(['a', 'b'], [0, 0], 2)", "tf.dynamic_partition([1, 2], [0, 5], 2)",
    "tf.dynamic_partition([1, 2], [0], 2)",
    "tf.dynamic_stitch([[0, 3], [1, 2]], [[10, 13], [11, 12]])",
    "tf.dynamic_stitch([1, [0, 2]], [[1, 1], [[0, 0], [2, 2]]])",
    "tf.dynamic_stitch([[0], [0]], [['a'], ['b']])",
    "tf.bitcast([1.5], tf.int32)", "tf.bitcast([1.5, 2], tf.uint8)",
    "tf.bitcast(tf.constant([[1, 2, 3, 4]], tf.uint8), tf.int32)",
    "tf.bitcast(7, tf.int32)", "tf.bitcast(tf.constant([1, 2, 3], tf.uint8), tf.int32)",
    f"tf.strided_slice({M}, [0, {FED}(1, [])], [2, 3])", f"tf.strided_slice({M}, {FED}([0, 1], None), [2, 3])",
    f"tf.strided_slice({M}, [0], [{FED}(2, [])], end_mask=1)", f"tf.strided_slice(['a', 'b'], [{FED}(1, [])], [2])",
    f"tf.strided_slice({M}, [{FED}(1, [])], [9], shrink_axis_mask=1)",
    f"tf.strided_slice({M}, [0, 0], [2, 3], [1, {FED}(2, [])])",
    f"tf.strided_slice({M}, [0, 0], [{FED}(2, []), 0], [1, 0])",
    f"tf.strided_slice({M}, [{FED}(0, []), 0], [0, 2], new_axis_mask=1)",
    # segments and counts
    *(f"tf.segment_{kind}({x}, [0, 0, 2])" for kind in ("sum", "mean", "prod", "max", "min")
      for x in ("[1, 5, 3]", "[[1., 2.], [3., 5.], [6., 7.]]")),
    "tf.segment_sum([1, 2], [1, 0])", "tf.segment_sum([1, 2], [0])",
    *(f"tf.unsorted_segment_{kind}({x}, [2, -1, 2], 4)" for kind in ("sum", "mean", "prod", "max", "min")
      for x in ("[1., 5., 3.]", "[[1., 2.], [3., 5.], [6., 7.]]")),
    f"tf.unsorted_segment_sum([[1, 2], [3, 4]], [[0, 1], [1, 1]], {FED}(2, []))",
    "tf.unsorted_segment_max([1, 2], [0, 2], 4)",
    "tf.unsorted_segment_sum([1, 2], [0, 5], 2)",
    "tf.bincount([1, 1, 3])", "tf.bincount([1, 3], minlength=6)", "tf.bincount([1, 3, 9], maxlength=4)",
    "tf.bincount([1, 1, 3], weights=[.5, 1., 2.])", "tf.bincount([1], dtype=tf.float32)", "tf.bincount([-1])",
    "tf.count_nonzero([[0, 1], [2, 3]])", "tf.count_nonzero([[0, 1], [2, 3]], 1)", "tf.count_nonzero(['', 'a'])",
    "tf.count_nonzero([[0., 1.]], axis=0, keep_dims=True, dtype=tf.int32)",
    "tf.histogram_fixed_width([-1., 0., 1.5, 2., 5., 15.], [0., 5.], 5)", "tf.histogram_fixed_width([1.], [5., 0.])",
    # numbers
    *(f"tf.{name}([.5, .25])" for name in ("sinh", "cosh", "asin", "acos", "atan", "asinh",
    "atanh")), "tf.acosh([1.5, 3.])",
    "tf.atan2([1., -1.], [2., .5])", "tf.imag(tf.complex([1., 2.], [3., 4.]))", "tf.complex(1, 2)",
    "tf.real(tf.constant(1 + 2j))",
    "tf.imag(tf.constant([1 + 2j]))", "tf.imag(tf.conj(tf.constant([1 + 2j])))",
    "tf.stop_gradient([1, 2])", "tf.scalar_mul(2, tf.constant([1, 2]))", "tf.scalar_mul([2], tf.constant([1, 2]))",
    "tf.accumulate_n([[1], [2]])",
    "tf.accumulate_n([])", "tf.floor_div(-7, 2)",
    *(f"tf.cumprod([[1, 2, 3], [4, 5, 6]]{more})" for more in ("", ", 1", ", exclusive=True",
    ", axis=1, reverse=True")),
    *(f"tf.reduce_logsumexp([[1., 2.], [3., 4.]]{more})" for more in ("", ", 0", ", [1], keep_dims=True")),
    "tf.check_numerics([1., 2.], 'm')", "tf.check_numerics([float('nan')], 'm')",
    "tf.check_numerics([float('inf')], 'm')",
    "tf.check_numerics([1], 'm')", "tf.verify_tensor_all_finite([1.], 'm')",
    "tf.verify_tensor_all_finite([float('nan')], 'm')",
    "tf.broadcast_dynamic_shape([1, 2], [3, 1])", "tf.broadcast_dynamic_shape([2], [3])",
    "tf.constant(str(tf.broadcast_static_shape(tf.TensorShape([1, 2]), tf.TensorShape([3, None]))))",
    "tf.broadcast_static_shape(tf.TensorShape([2]), tf.TensorShape([3]))", "tf.shape_n([[1], [[2, 3]]])",
    "tf.eye(2)", "tf.eye(2, 3, dtype=tf.int32)", f"tf.eye({FED}(2, []))", "tf.eye(2, batch_shape=[2])",
    "tf.diag([1, 2])", "tf.diag([[1, 2], [3, 4]])",
    "tf.constant([tf.is_tensor(tf.constant(1)), tf.is_tensor(1), tf.executing_eagerly()])",
    "tf.constant(tf.get_static_value(tf.constant([1, 2])))",
    *(f"tf.bitwise.{name}([12, 7], [10, 2])" for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
                                                         "right_shift")), "tf.bitwise.invert([5])",
    # sparse tensors
    f"tf.sparse_reorder({LAX})", f"tf.sparse_retain({WORDS}, [True, False, True])",
    f"tf.sparse_slice({NUMBERS}, [1, 0], [2, 2])",
    f"tf.sparse_slice({WORDS}, [0, 1], [9, 9])", f"tf.sparse_reshape({NUMBERS}, [2, -1])",
    f"tf.sparse_reshape({NUMBERS}, [5])",
    f"tf.sparse_transpose({WORDS})", f"tf.sparse_transpose({NUMBERS}, [0, 1])",
    f"tf.sparse_concat(0, [{NUMBERS}, {NUMBERS}])", f"tf.sparse_concat(-1, [{WORDS}, {WORDS}])",
    f"tf.sparse_concat(0, [{NUMBERS}, tf.SparseTensor([[0, 0]], [9], [1, 1])])",
    f"tf.sparse_concat(0, [{NUMBERS}, tf.SparseTensor([[0, 0]], [9], [1, 1])], expand_nonconcat_dim=True)",
    f"tf.sparse_split(axis=1, num_split=3, sp_input={NUMBERS})", f"tf.sparse_fill_empty_rows({NUMBERS}, 9)",
    f"tf.sparse_fill_empty_rows({WORDS}, 'z')", f"tf.sparse_reset_shape({NUMBERS})",
    f"tf.sparse_reset_shape({NUMBERS}, [5, 6])",
    f"tf.sparse_reset_shape({NUMBERS}, [1, 6])", f"tf.sparse_to_indicator({NUMBERS}, 5)",
    f"tf.sparse_to_indicator({NUMBERS}, 3)",
    f"tf.sparse_reduce_sum({NUMBERS})", f"tf.sparse_reduce_sum({NUMBERS}, 0)",
    f"tf.sparse_reduce_sum({NUMBERS}, 1, True)",
    f"tf.sparse_add({NUMBERS}, tf.sparse_reorder({LAX}))", f"tf.sparse_add({NUMBERS}, tf.ones([3, 4], tf.int32))",
    f"tf.sparse_add({NUMBERS}, tf.SparseTensor([[0, 1]], [-1], [3, 4]), threshold=1)",
    f"tf.sparse_add({NUMBERS}, {NUMBERS})",
    f"tf.sparse.to_dense(tf.sparse.reorder({LAX}))", "tf.sparse_add([1], [2])",
]  # fmt: skip

ANSWERS = dict(zip(CASES, recorded("picking", CASES, 1), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


def test_all_floats_of_a_graph_are_checked():
    with tf.Graph().as_default(), tf.Session() as sess:
        given = tf.placeholder(tf.float32, name="given")
        doubled, whole = given * 2, tf.constant([1])
        check = tf.add_check_numerics_ops()
        sess.run([doubled, whole, check], {given: [1.0]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Tensor had Inf and NaN values"):
            sess.run(check, {given: [np.nan, np.inf]})


def test_sparse_values_are_taken(recwarn):
    value = tf.SparseTensorValue([[0, 0]], [1], [1, 1])
    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(tf.sparse_reorder(value)).values.tolist() == [1]
        with pytest.raises(TypeError, match="Input must be a SparseTensor."):
            tf.sparse_reorder([1])
        with pytest.raises(ValueError, match="num_split and axis are required"):
            tf.sparse_split(sp_input=value)


def test_places_of_rows_are_checked_before_and_in_a_run():
    with tf.Graph().as_default(), tf.Session() as sess:
        place, rows = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
        put = tf.dynamic_stitch([place, [0]], [rows, [[0.5, 0.5]]])
        assert put.shape.as_list() == [None, 2]
        assert sess.run(put, {place: [2, 1], rows: [[1, 1], [2, 2]]}).tolist() == [[0.5, 0.5], [2, 2], [1, 1]]
        for position, values, problem in (
            ([1, -1], [[1, 1], [2, 2]], r"indices\[1\] is out of range"),
            ([1, 2], [[1, 1]], r"data\[0\].shape = \[1, 2\] does not start with indices\[0\].shape = \[2\]"),
            ([1], [[1, 1, 1]], r"data\[1\].shape"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=problem):
                sess.run(put, {place: position, rows: values})
        assert tf.dynamic_stitch([tf.zeros([0], tf.int32), tf.range(3)], [tf.zeros([0, 2]), tf.ones([3, 2])]).shape == (
            3,
            2,
        )
        for indices, data in (
            ([[0, 1]], [[1, 2, 3]]), ([[0]], [[1], [2]]), ([[0], [1]], [[1]]), ([0, 1], [1, [2]]), ([[[0]]], [[1]]),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="incompatible|not compatible|must match"):
                tf.dynamic_stitch(indices, data)
        partitions = tf.placeholder(tf.int32)
        for wrong, problem in (
            ([0, 3], r"partitions\[1\] = 3"),
            ([-1, 0], r"partitions\[0\] = -1"),
            (7, "partitions = 7"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{problem} is not in \[0, 3\)"):
                sess.run(tf.dynamic_partition([5, 6], partitions, 3), {partitions: wrong})
