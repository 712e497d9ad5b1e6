"""Types of tensors: TensorFlow's objects, which NumPy takes."""

import copy
import json
import os
import pickle
import subprocess

import numpy as np
import pytest
from helpers.tensorflow.peers import PYTHON, asks_tensorflow

import queuecore.tf1 as tf

NUMBERS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8, "int64": 9,
    "bool": 10, "qint8": 11, "quint8": 12, "qint32": 13, "bfloat16": 14, "qint16": 15, "quint16": 16, "uint16": 17,
    "complex128": 18, "float16": 19, "resource": 20, "variant": 21, "uint32": 22, "uint64": 23,
}  # fmt: skip
ARRAYS = sorted(set(NUMBERS) - {"resource", "variant", "string"})

# Answers of both, by the same program.
PROGRAM = """
def shown(one):
    try:
        made = one()
    except Exception as error:
        return type(error).__name__
    if isinstance(made, type):
        return made.__name__
    return repr(made.item() if hasattr(made, "item") else made)

def answers(tf):
    told = {}
    for name in NAMES:
        d = getattr(tf, name)
        told[name] = [shown(one) for one in [
            lambda: d.name, lambda: str(d), lambda: repr(d), lambda: int(d.as_datatype_enum), lambda: d.as_numpy_dtype,
            lambda: d.base_dtype.name, lambda: d.real_dtype.name, lambda: d.is_bool, lambda: d.is_integer,
            lambda: d.is_floating, lambda: d.is_complex, lambda: d.is_quantized, lambda: d.is_unsigned,
            lambda: d.is_numpy_compatible, lambda: float(d.min), lambda: float(d.max), lambda: d.limits,
            lambda: d.size, lambda: d._is_ref_dtype, lambda: d._as_ref.name, lambda: d._as_ref.base_dtype.name,
            lambda: d == name, lambda: d == d.as_numpy_dtype,
            lambda: d == None, lambda: d == "nonsense", lambda: d == 3.5,
            lambda: d.is_compatible_with(d._as_ref), lambda: d._as_ref.is_compatible_with(d),
            lambda: [other for other in NAMES if d == getattr(tf, other)],
            lambda: tf.as_dtype(name).name, lambda: tf.as_dtype(d.as_numpy_dtype).name,
            lambda: tf.as_dtype(int(d.as_datatype_enum)).name, lambda: tf.as_dtype(name + "_ref").name,
        ]]
    told["words"] = [shown(lambda: tf.as_dtype(one).name) for one in [float, int, bool, str, bytes, object, complex,
                     "half", "double", "float", "nonsense", None, 3.5, [1]]]
    return told
"""


def answered(module):
    space = {"NAMES": sorted(NUMBERS)}
    exec(PROGRAM, space)
    return space["answers"](module)


def test_numbers_and_names():
    for name, number in NUMBERS.items():
        one = getattr(tf, name)
        assert isinstance(one, tf.DType) and int(one) == one.as_datatype_enum == number
        assert one.name == name and repr(one) == f"tf.{name}" and str(one) == f"<dtype: '{name}'>"
        assert tf.as_dtype(name) is tf.as_dtype(number) is tf.as_dtype(one) is one == tf.DType(number)
        assert pickle.loads(pickle.dumps(one)) is copy.deepcopy(one) is one
        assert {one: 1}[tf.as_dtype(name)] == 1
    assert len({getattr(tf, name) for name in NUMBERS}) == len(NUMBERS)
    assert tf.half is tf.float16 and tf.double is tf.float64
    for wrong in (0, 24, 200, -1):
        with pytest.raises(TypeError, match="DataType"):
            tf.DType(wrong)


@pytest.mark.parametrize("name", ARRAYS)
def test_numpy_takes_them(name):
    dtype = getattr(tf, name)
    array = np.zeros(3, dtype)
    assert (
        array.dtype == dtype
        and dtype == array.dtype
        and tf.as_dtype(array.dtype) is dtype
        and array.itemsize == dtype.size
    )
    assert np.dtype(dtype) == dtype.as_numpy_dtype and dtype == dtype.as_numpy_dtype
    assert np.ones(2, np.uint8).astype(array.dtype).dtype == dtype
    assert hash(dtype) == hash(array.dtype) or name == "bfloat16"
    assert dtype.itemsize == array.dtype.itemsize and dtype.kind == array.dtype.kind


def test_limits():
    assert tf.uint8.limits == (0, 255) and tf.int8.limits == (0, 127) and tf.float32.limits == (0, 1)
    assert tf.bool.limits == (False, True) and tf.int8.min == -128 and tf.float32.max == np.finfo(np.float32).max
    assert float(tf.bfloat16.max) > 3e38
    for one in (tf.string, tf.bool, tf.complex64, tf.qint8):
        for what in ("min", "max"):
            with pytest.raises(TypeError, match=f"Cannot find {what}imum value"):
                getattr(one, what)


def test_what_is_none():
    for wrong in (None, "nonsense", 3.5, [1], np.dtype("M8[s]")):
        with pytest.raises(TypeError, match="to a TensorFlow DType"):
            tf.as_dtype(wrong)
        assert tf.float32 != wrong
    with pytest.raises(AttributeError):
        _ = tf.float32.no_such_thing


def test_tensors_have_them():
    x = tf.constant([1, 2])
    assert x.dtype is tf.int32 and x.dtype.as_numpy_dtype is np.int32 and x.dtype.base_dtype is tf.int32
    assert tf.constant("a").dtype is tf.string and tf.constant("a").dtype.as_numpy_dtype is object
    assert tf.Variable(1.0).dtype is tf.float32 and tf.SparseTensor([[0]], [1], [1]).dtype is tf.int32
    queue = tf.FIFOQueue(1, [tf.int64, tf.string])
    assert queue.dtypes == [tf.int64, tf.string] == [one.dtype for one in queue.dequeue()]
    assert queue.queue_ref.dtype is tf.resource
    assert tf.data.Dataset.from_tensors((1, "a")).output_types == (tf.int32, tf.string)
    assert tf.cast(x, x.dtype).dtype is tf.cast(tf.cast(x, tf.float64), np.int32).dtype is tf.int32
    with tf.Session() as sess:
        assert sess.run(tf.cast([1.5], tf.bfloat16)).dtype == tf.bfloat16
        assert sess.run(tf.zeros(2, tf.float16)).dtype == tf.float16


@asks_tensorflow
@pytest.mark.watchdog(300)
def test_as_tensorflow_answers():
    code = f"""
import json, tensorflow.compat.v1 as tf
NAMES = {sorted(NUMBERS)!r}
{PROGRAM}
print(json.dumps(answers(tf)))
"""
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-2000:]
    theirs, ours = json.loads(done.stdout.splitlines()[-1]), answered(tf)
    # Theirs raise KeyError for NumPy's dtype of the two that have none, and take fewer of Python's classes.
    for name in ours.keys() - {"resource", "variant", "words"}:
        assert ours[name] == theirs[name], name
    assert [one for one in theirs["words"] if one != "TypeError"] == [
        one for one, other in zip(ours["words"], theirs["words"], strict=True) if other != "TypeError"
    ]


def test_what_has_a_dtype_means_that():
    class Has:
        dtype = "f8"

    assert tf.as_dtype(Has) is tf.float64
    assert tf.as_dtype(Has()) is tf.float64
    for several in ((tf.int32, tf.float32), [tf.int32]):
        with pytest.raises(TypeError, match="Cannot convert value"):
            tf.as_dtype(several)
