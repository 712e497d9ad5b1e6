"""Errors as TensorFlow's classes make them: with the operation, its description and a number."""

import copy
import pickle

import pytest

import queuecore as qc
import queuecore.tf1 as tf

CODES = {
    "CancelledError": 1, "UnknownError": 2, "InvalidArgumentError": 3, "DeadlineExceededError": 4, "NotFoundError": 5,
    "AlreadyExistsError": 6, "PermissionDeniedError": 7, "ResourceExhaustedError": 8, "FailedPreconditionError": 9,
    "AbortedError": 10, "OutOfRangeError": 11, "UnimplementedError": 12, "InternalError": 13, "UnavailableError": 14,
    "DataLossError": 15,
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_made_as_there(name):
    error = getattr(tf.errors, name)(None, None, "what was wrong")
    assert isinstance(error, tf.errors.OpError) and isinstance(error, getattr(qc.errors, name))
    assert str(error) == error.message == "what was wrong" and error.args == ("what was wrong",)
    assert error.op is None and error.node_def is None and error.error_code == CODES[name]
    assert tf.errors.exception_type_from_error_code(error.error_code) is type(error)
    assert tf.errors.error_code_from_exception_type(type(error)) == error.error_code
    op = tf.constant(1).op
    named = type(error)(node_def="n", op=op, message="m")
    assert (named.node_def, named.op, named.message) == ("n", op, "m")
    assert type(error)(None, op, message="m").op is op
    for again in (pickle.loads(pickle.dumps(named)), copy.copy(named)):
        assert type(again) is type(error) and str(again) == "m" and again.op is None and again.error_code == CODES[name]
    assert str(type(error)("m")) == str(type(error)(message="m")) == "m"


def test_the_root():
    made = tf.errors.OpError(None, None, "m", tf.errors.DATA_LOSS)
    assert made.error_code == tf.errors.DATA_LOSS and pickle.loads(pickle.dumps(made)).error_code == tf.errors.DATA_LOSS
    assert tf.errors.error_code_from_exception_type(tf.errors.OpError) is None
    assert tf.errors.error_code_from_exception_type(ValueError) is None
    with pytest.raises(KeyError):
        tf.errors.exception_type_from_error_code(0)


def test_classes_of_ours_have_the_numbers_of_theirs():
    assert qc.errors.CsvError("x").error_code == tf.errors.INVALID_ARGUMENT
    assert qc.errors.StallError("x").error_code == tf.errors.DEADLINE_EXCEEDED
    assert qc.errors.NotAFileError("x").error_code == tf.errors.UNAVAILABLE
    assert qc.errors.PipelineError("x").error_code == tf.errors.UNKNOWN


def test_a_run_names_the_operation():
    wrong = tf.Assert(False, [1], name="wrong")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(wrong)
    assert caught.value.op is wrong and caught.value.error_code == tf.errors.INVALID_ARGUMENT
    queue = tf.FIFOQueue(1, tf.int32)
    taken = queue.dequeue()
    with tf.Session() as sess:
        sess.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError) as ended:
            sess.run(taken)
    assert ended.value.op is taken.op
    with pytest.raises(qc.errors.OutOfRangeError) as bare:
        q = qc.FIFOQueue(1, [int])
        q.close()
        q.dequeue()
    assert bare.value.op is None
