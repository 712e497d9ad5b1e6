"""Operations of queuecore.tf1: against what TensorFlow says, recorded and live, and NumPy on generated inputs."""

from __future__ import annotations

import os
import queue
import random
import threading

import numpy as np
import pytest
from helpers.tensorflow import tf1_cases
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded
from hypothesis import given, settings, strategies as st

import queuecore.tf1 as tf
from queuecore import errors

X = "tf.constant([[1, 5, 3], [4, 2, 6]])"
F = "tf.constant([[1.5, -2.5, 0.5], [2.5, 3.25, -0.125]])"

SHAPES = f"""
tf.concat([{X}, {X}], 0)
tf.concat([{X}, {X}], 1)
tf.concat([{X}, {X}], -1)
tf.concat([[1], [2, 3]], 0)
tf.concat([{X}, [[1, 2]]], 0)
tf.concat([1, 2], 0)
tf.concat([{X}, {X}], 2)
tf.concat([["a", "b"], ["c"]], 0)
tf.stack([1, 2, 3])
tf.stack([{X}, {X}])
tf.stack([{X}, {X}], axis=1)
tf.stack([{X}, {X}], -1)
tf.stack([{X}, {X}], axis=3)
tf.stack(["a", "b"])
tf.stack([["a"], ["b"]], 1)
tf.stack([{X}, [1, 2]])
tf.unstack({X})
tf.unstack({X}, axis=1)
tf.unstack({X}, num=3)
tf.unstack(["a", "b"])
tf.squeeze([[[1], [2]]])
tf.squeeze([[[1], [2]]], [0])
tf.squeeze([[[1], [2]]], -1)
tf.squeeze([[[1], [2]]], [1])
tf.squeeze([["a"]])
tf.squeeze([[[1], [2]]], squeeze_dims=[2])
tf.expand_dims({X}, 0)
tf.expand_dims({X}, 1)
tf.expand_dims({X}, -1)
tf.expand_dims({X}, 3)
tf.expand_dims(7, 0)
tf.expand_dims("ab", 0)
tf.expand_dims(["ab"], dim=1)
tf.slice({X}, [0, 1], [2, 2])
tf.slice({X}, [1, 0], [-1, -1])
tf.slice({X}, [1, 1], [2, 1])
tf.slice({X}, [0, 4], [1, 1])
tf.slice({X}, [0], [1])
tf.slice(["a", "b", "c"], [1], [2])
tf.slice({X}, tf.stack([0, tf.argmax([1, 9], output_type=tf.int32)]), [1, 2])
tf.strided_slice({X}, [0, 0], [2, 3], [1, 2])
tf.strided_slice({X}, [0, 1], [1, 0], shrink_axis_mask=1, end_mask=2)
tf.strided_slice({X}, [1], [2])
tf.strided_slice({X}, [0, 0, 0], [0, 0, 2], ellipsis_mask=1, new_axis_mask=2)
tf.strided_slice({X}, [0], [0], [-1], begin_mask=1, end_mask=1)
{X}[1]
{X}[:, 1]
{X}[..., -1]
{X}[:, ::-1]
{X}[:, tf.newaxis]
{X}[5]
tf.constant(["a", "b"])[1]
tf.gather({X}, [1, 0, 1])
tf.gather({X}, 1)
tf.gather({X}, [[0, 1], [2, 0]], axis=1)
tf.gather({X}, [5])
tf.gather({X}, 5)
tf.gather(["a", "b"], [1, 1])
tf.gather(["a", "b"], 1)
tf.split({X}, 3, 1)
tf.split({X}, 2)
tf.split({X}, 2, 1)
tf.split({X}, [1, 2], 1)
tf.split({X}, [1, -1], axis=1)
tf.split({X}, [1, 1], 1)
tf.tile({X}, [2, 1])
tf.tile([1, 2], [0])
tf.tile(["a"], [3])
tf.tile({X}, [2])
tf.pad({X}, [[1, 0], [0, 2]])
tf.pad({X}, [[1, 1], [2, 2]], "REFLECT")
tf.pad({X}, [[1, 2], [3, 3]], "SYMMETRIC")
tf.pad({X}, [[2, 0], [0, 0]], "REFLECT")
tf.pad({F}, [[0, 1], [0, 0]], constant_values=9)
tf.pad({X}, [[1, 0]])
tf.pad({X}, [[1, 0], [0, -2]])
tf.zeros([2, 3])
tf.zeros([2], tf.string)
tf.zeros(3)
tf.ones(tf.constant(2))
tf.fill(3, 1)
tf.zeros([2], tf.bool)
tf.zeros([], tf.int64)
tf.ones([2, 1], tf.int32)
tf.ones(tf.shape({X}))
tf.zeros_like({X})
tf.ones_like({X}, dtype=tf.float32)
tf.zeros_like(["a", "b"])
tf.fill([2, 3], 7)
tf.fill([2], "x")
tf.fill([], 1.5)
tf.fill([-1], 1)
tf.fill([2], [1])
tf.range(5)
tf.range(2, 10, 3)
tf.range(10, 2, -3)
tf.range(0.0, 1.0, 0.3)
tf.range(3, 3)
tf.range(1, 5, -1)
tf.range(0, 5, 0)
tf.range(5, dtype=tf.int64)
tf.range(tf.constant(5, tf.int64))
tf.range(0, 2.5)
tf.range(tf.size({X}))
tf.linspace(0.0, 1.0, 5)
tf.shape({X})
tf.shape({X}, out_type=tf.int64)
tf.shape("a")
tf.shape(tf.where({X} > 2))
tf.size({X})
tf.size(tf.where({X} > 2))
tf.rank({X})
tf.rank("x")
tf.reshape({X}, [3, 2])
tf.reshape({X}, [-1])
tf.reshape({X}, [4, -1])
tf.reshape({X}, [7])
tf.reshape({X}, tf.stack([tf.shape({X})[0], 3]))
tf.fill(tf.stack([tf.shape({X})[1], 2]), 1)
tf.reshape({X}, tf.stack([tf.size({X}), 1]))
tf.reshape(["a", "b"], [2, 1])
tf.reshape(["a"], [])
tf.reshape("a", [1, 1])
tf.reshape(5, [])
tf.transpose({X})
tf.transpose({X}, [1, 0])
tf.transpose({X}, [0, 0])
tf.transpose({X}, [0])
tf.reverse({X}, [1])
tf.reverse({X}, [-1, 0])
tf.boolean_mask({X}, [True, False])
tf.boolean_mask({X}, {X} > 2)
tf.boolean_mask({X}, [True, False, True])
tf.boolean_mask({X}, True)
tf.where({X} > 2)
tf.where({X} > 2, {X}, -{X})
tf.where([True, False], {X}, -{X})
tf.where([True, False, True], {X}, -{X})
tf.where(True, {X}, -{X})
tf.where(True, "a", "b")
tf.where([True, False], ["a", "b"], ["c", "d"])
tf.where({X} > 2, {X}, 1.0)
tf.where({X} > 2, {X})
tf.where([False, False])
tf.one_hot([0, 2, -1, 9], 3)
tf.one_hot([[0, 1]], 3, axis=0)
tf.one_hot([0, 1], 3, axis=0)
tf.one_hot([0, 1], 3, 5, -1)
tf.one_hot([0, 1], 3, 5.0, 0.5, dtype=tf.float64)
tf.one_hot([0, 1], 2, on_value="y", off_value="n")
tf.one_hot(1, 3)
tf.one_hot(1, 3, dtype=tf.bool, on_value=True, off_value=False)
tf.one_hot(np.array([[1, 2]], np.uint8), 3, axis=1)
tf.identity_n([1, "a"])
tf.tuple([tf.constant(1), None, tf.constant("a")])
tf.tuple([None])
tf.meshgrid([1, 2, 3], [4, 5])
tf.meshgrid([1, 2, 3], [4, 5], indexing="ij")
tf.broadcast_to([1, 2], [3, 2])
tf.broadcast_to([1, 2], [3, 3])
tf.cumsum({X})
tf.cumsum({X}, 1, exclusive=True)
tf.cumsum({X}, 1, reverse=True)
tf.cumsum({F}, -1, exclusive=True, reverse=True)
tf.sparse_tensor_to_dense(tf.SparseTensor([[0, 1], [2, 0]], [7, 8], [3, 2]))
tf.sparse_tensor_to_dense(tf.SparseTensor([[1]], ["a"], [3]), default_value="-")
tf.sparse_to_dense([1, 3], [4], 1)
tf.sparse_to_dense([[0, 1], [1, 0]], [2, 2], [5, 6], -1)
tf.sparse_to_dense([5], [4], 1)
tf.SparseTensor([[0, 1]], [5], [2, 2])
tf.SparseTensor([[0, 1]], [5, 6], [2, 2])
"""

NUMBERS = f"""
tf.reduce_sum({X})
tf.reduce_sum({X}, 0)
tf.reduce_sum({X}, axis=1, keepdims=True)
tf.reduce_sum({X}, axis=-1, keep_dims=True)
tf.reduce_sum({X}, reduction_indices=[0, 1])
tf.reduce_sum({X}, [])
tf.reduce_sum({X}, 2)
tf.reduce_sum({X}, [0, 0])
tf.reduce_sum({X}, [0, -2])
tf.reverse({X}, [0, 0])
tf.reduce_sum({X}, [0], reduction_indices=[0])
tf.reduce_sum("a")
tf.reduce_sum([True])
tf.reduce_sum(np.array([200, 100], np.uint8))
tf.reduce_mean({X})
tf.reduce_mean([-1, -2])
tf.reduce_mean({X}, 0)
tf.reduce_mean({F}, 1)
tf.reduce_mean({F})
tf.reduce_mean(tf.zeros([0]))
tf.reduce_mean(np.array([1.5, 2.5], np.float16))
tf.reduce_max({X}, 1)
tf.reduce_max(tf.zeros([0, 2]), 0)
tf.reduce_min(tf.zeros([0], tf.int32))
tf.reduce_min({F})
tf.reduce_prod({X}, 0)
tf.reduce_any({X} > 4, 1)
tf.reduce_all({X} > 0)
tf.reduce_all({X})
tf.argmax({X})
tf.argmax({X}, 1)
tf.argmin({X}, axis=-1, output_type=tf.int32)
tf.argmax({X}, 2)
tf.argmax([1, 3, 3])
tf.argmax({X}, dimension=1)
tf.argmax(tf.zeros([0]))
tf.sqrt({F} * {F})
tf.sqrt(4)
tf.sqrt(-1.0)
tf.rsqrt(4.0)
tf.exp({F})
tf.exp(1000.0)
tf.log([1.0, 0.0, 2.5])
tf.log1p([0.5])
tf.expm1([0.5])
tf.sin({F})
tf.cos({F})
tf.tanh({F})
tf.sigmoid([-1000.0, -1.0, 0.0, 1.0, 1000.0])
tf.floor({F})
tf.ceil({F})
tf.round({F})
tf.round([1, 2])
tf.rint([0.5, 1.5, 2.5])
tf.sign({F})
tf.sign([-3, 0, 4])
tf.abs({F})
tf.square({X})
tf.squared_difference({X}, 2)
tf.reciprocal([2.0, 0.0])
tf.is_nan([1.0, float("nan"), float("inf")])
tf.is_inf([1.0, float("nan"), float("inf")])
tf.is_finite([1.0, float("nan"), float("inf")])
tf.is_nan([1])
tf.clip_by_value({X}, 2, 4)
tf.clip_by_value({F}, -1, 1)
tf.clip_by_value({X}, [1, 2, 3], 4)
tf.clip_by_value(tf.constant([1, 2]), [[1], [2]], 4)
tf.maximum({X}, 3)
tf.minimum({F}, 0.0)
tf.add_n([{X}, {X}, {X}])
tf.add_n([])
tf.add_n([{X}, [1]])
tf.to_float({X})
tf.to_int32({F})
tf.to_int64({X})
tf.to_double({X})
tf.cast({F}, tf.int32)
tf.cast([0, 2], tf.bool)
tf.cast([True, False], tf.float32)
tf.saturate_cast([300, -5, 7], tf.uint8)
tf.saturate_cast([300.7, -5.0, 7.9], tf.uint8)
{X} + 1
1 - {X}
{X} / 2
{X} // 2
-{X} // 2
{X} % 4
-{X} % 4
{F} % 2.0
2.0 ** {F}
{X} ** 2
{X} == {X}
{X} > 2
{X} <= [3, 4, 5]
{X} + [1, 2]
{X} + 1.5
{X} + tf.constant(1.0)
tf.equal({X}, 5)
tf.equal(["a", "b"], "b")
tf.equal("a", "a")
tf.not_equal(["a", "b\\0"], "b")
tf.logical_and([True, False], True)
tf.logical_not([True, False])
tf.truediv({X}, 4)
tf.div({X}, 4)
tf.divide({F}, 2.0)
tf.truncatediv([-7, 7], 2)
tf.mod([-7, 7], 3)
tf.floordiv([-7.5, 7.5], 2.0)
1.0 / tf.constant([0.0, 2.0])
"""

STRINGS = """
tf.string_join(["a", "b"])
tf.string_join([["a", "b"], ["c", "d"]], "-")
tf.string_join([["a", "b"], "x"], separator=",")
tf.string_join([["a", "b"], ["x"]])
tf.strings.join(["a", tf.as_string(5)], ":")
tf.string_split(["a b", "", " c  d "])
tf.string_split(["a,b;c"], ",;")
tf.string_split(["ab", "c"], "")
tf.string_split(["a,,b"], ",", skip_empty=False)
tf.string_split("a b")
tf.strings.split(["a b", "", " c  d "])
tf.strings.split(["a::b::c"], "::", maxsplit=1)
tf.as_string([1, -2])
tf.as_string([1.5, 1e10])
tf.as_string([1.5, 1e10], precision=2)
tf.as_string([1.5, 1e10], shortest=True)
tf.as_string([1.5], scientific=True)
tf.as_string([True, False])
tf.as_string([5, 12], width=4, fill="0")
tf.as_string([5, 12], width=4)
tf.as_string([5, 12], width=4, fill="-")
tf.as_string([5], fill="x")
tf.as_string([1.0], shortest=True, scientific=True)
tf.substr("hello", 1, 3)
tf.substr(["hello", "world"], -3, 2)
tf.substr(["hello", "world"], [0, 1], [1, 9])
tf.substr("abc", 5, 1)
tf.substr("abc", 3, 1)
tf.strings.length(["", "abc", "\\u00e9"])
tf.strings.length(["\\u00e9"], unit="UTF8_CHAR")
tf.strings.strip([" a ", "b\\n"])
tf.strings.upper(["abC"])
tf.strings.lower(["abC"])
tf.strings.to_number(["1.5", " 2", "-1e3"])
tf.string_to_number(["1", "-7"], tf.int32)
tf.string_to_number(["1.5"], tf.int32)
tf.string_to_number(["x"])
tf.string_to_number(["1"], tf.uint8)
tf.regex_replace(["aXbX"], "X", "-")
tf.regex_replace(["aXbX"], "X", "-", replace_global=False)
tf.constant(["a"]) + "b"
tf.constant("a") + tf.constant("b")
"""

FLOW = """
tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))
tf.cond(tf.constant(False), lambda: [tf.constant(1)], lambda: [tf.constant(2)])
tf.cond(tf.constant(False), lambda: [tf.constant(1)], lambda: [tf.constant(2)], strict=True)
tf.cond(tf.constant(True), lambda: (tf.constant(1), tf.constant("a")), lambda: (tf.constant(2), tf.constant("b")))
tf.cond(tf.constant(True), lambda: tf.constant([1]), lambda: tf.constant([1, 2]))
tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(1.0))
tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: (tf.constant(1), tf.constant(1)))
tf.cond(True, lambda: tf.constant(1), lambda: tf.constant(2))
tf.cond(tf.constant([True]), lambda: tf.constant(1), lambda: tf.constant(2))
tf.cond(tf.constant(False), lambda: tf.no_op(), lambda: tf.no_op())
tf.cond(tf.constant(True), lambda: 1, lambda: 2)
tf.cond(tf.less(1, 2), fn1=lambda: tf.constant(1), fn2=lambda: tf.constant(2))
tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.py_func(lambda: 1 // 0, [], tf.int32))
tf.cond(tf.constant(False), lambda: tf.cond(tf.constant(True), lambda: 1, lambda: 2), lambda: tf.constant(3))
tf.case([(tf.constant(False), lambda: tf.constant(1)), (tf.constant(True), lambda: tf.constant(2))])
tf.case([(tf.constant(False), lambda: tf.constant(1))], default=lambda: tf.constant(3))
tf.case([(tf.constant(False), lambda: tf.constant(1)), (tf.constant(False), lambda: tf.constant(1))])
tf.case([(tf.constant(True), lambda: tf.constant(1)), (tf.constant(True), lambda: tf.constant(2))])
tf.case([])
tf.py_func(lambda x: x + 1, [tf.constant([1, 2])], tf.int32)
tf.py_func(lambda x, y: [x + y, b"s"], [1, 2], [tf.int32, tf.string])
tf.py_func(lambda x: x + 1, [1], [tf.int32])
tf.py_func(lambda x: x * 1.5, [1.0], tf.float64)
tf.py_func(lambda: np.zeros(2), [], tf.float32)
tf.py_func(lambda: [1, 2], [], [tf.int64])
tf.py_func(lambda: next(iter(())), [], tf.int32)
tf.py_func(lambda: 1 // 0, [], tf.int32)
tf.py_func(lambda: int("x"), [], tf.int32)
tf.py_func(lambda: {}["x"], [], tf.int32)
tf.py_func(lambda: 1 + "x", [], tf.int32)
tf.py_func(lambda: [].x, [], tf.int32)
tf.py_func(lambda x: x, ["a"], tf.string)
tf.py_func(lambda x: x, [["a", "b"]], tf.string)
tf.numpy_function(lambda x: x * 2, [np.float32([1, 2])], tf.float32)
tf.py_func(5, [], tf.int32)
tf.Print(tf.constant(3), [1])
tf.Assert(tf.constant(True), [1])
tf.Assert(tf.constant(False), [[1, 2, 3, 4], "x"])
tf.read_file("/nowhere/at/all")
tf.matching_files("/nowhere/*")
"""

CASES = [line for text in (SHAPES, NUMBERS, STRINGS, FLOW) for line in text.strip().split("\n")]


def test_all_that_tensorflow_says_holds_here():
    wrong = []
    for case, theirs in zip(CASES, recorded("ops", CASES, 1), strict=True):
        wrong += differences(case, 1, theirs)
    assert not wrong, f"{len(wrong)} of {len(CASES)}:\n" + "\n".join(wrong)


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_what_is_recorded_is_what_tensorflow_says():
    now = asked([(case, 1) for case in CASES])
    changed = [
        case for case, one, old in zip(CASES, now, recorded("ops", CASES, 1), strict=True)
        if not tf1_cases.same(one.get("runs"), old.get("runs"), False) or one.get("sides") != old.get("sides")
    ]  # fmt: skip
    assert not changed


def drawn(rng):
    """An expression over arrays of random shapes, sensible or not."""
    shape = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
    rank = len(shape)

    def array(sides, dtype="np.int32"):
        return f"tf.constant((np.arange({int(np.prod(sides))}) % 7 - 3).astype({dtype}).reshape({sides}))"

    x, axis = array(shape), rng.randint(-rank, max(rank - 1, 0))
    floats = array(shape, rng.choice(["np.float32", "np.float64"]))
    other = array([rng.choice([side, side, 1, 2]) for side in shape[rng.randint(0, rank) :]])
    part = [rng.choice(["", "1", "-1", ":", "1:", ":-1", "::2", "::-1", "...", "tf.newaxis"]) for _ in range(rank)]
    key = ", ".join(one for i, one in enumerate(part) if one and (one != "..." or "..." not in part[:i])) or "..."
    numbers = [rng.randint(0, 2) for _ in range(rng.randint(1, 3))]
    # There TensorFlow says nothing, or more than once something else: of parts of nothing, and of scalars.
    odd = [
        f"tf.slice({x}, {[rng.randint(0, 2) for _ in shape]}, {[rng.randint(-1, 2) for _ in shape]})",
        f"tf.strided_slice({x}, {[rng.randint(-2, 2) for _ in shape]}, {[rng.randint(-2, 3) for _ in shape]}, "
        f"{[rng.choice([1, 1, 2, -1]) for _ in shape]}, {rng.randint(0, 7)}, {rng.randint(0, 7)})",
        f"tf.gather({x}, {numbers}, axis={axis})",
        f"tf.where({x} > 0)",
        f"tf.reshape({x}, {[rng.choice([-1, 1, 2, 3]) for _ in range(rng.randint(0, 3))]})",
    ]
    return rng.choice(
        [
            *(odd if rank and 0 not in shape else ()),
            f"{x}[{key}]",
            f"tf.concat([{x}, {x}, {other}], {axis})",
            f"tf.stack([{x}, {x}], {axis})",
            f"tf.reduce_{rng.choice(['sum', 'max', 'min', 'prod'])}({x}, {axis}, {rng.choice([True, False])})",
            f"tf.reduce_mean({floats} + 9, {axis}, {rng.choice([True, False])})",
            f"tf.arg{rng.choice(['max', 'min'])}({x}, {axis})",
            f"{x} {rng.choice(['+', '-', '*', '<', '>='])} {other}",
            f"tf.{rng.choice(['maximum', 'minimum', 'floordiv', 'mod'])}({floats}, "
            f"tf.cast({other}, {floats}.dtype) * 2 + 1)",
            f"tf.cast({floats} / 2, tf.{rng.choice(['int32', 'int64', 'bool', 'float16'])})",
            f"tf.transpose({x}, {rng.sample(range(rank), rank)})",
            f"tf.tile({x}, {[rng.randint(0, 2) for _ in shape]})",
            f"tf.pad({x}, {[[rng.randint(0, 2), rng.randint(0, 2)] for _ in shape] or 'np.zeros((0, 2), np.int32)'}, "
            f"{rng.choice(['CONSTANT', 'REFLECT', 'SYMMETRIC'])!r})",
            f"tf.split({x}, {rng.randint(1, 3)}, {axis})",
            f"tf.unstack({x}, axis={axis})",
            f"tf.one_hot({x}, {rng.randint(0, 3)}, axis={rng.randint(-1, rank)})",
            f"tf.where({x} > 0, {x}, -{x})",
            f"tf.boolean_mask({x}, {x} > 0)",
            f"tf.expand_dims({x}, {rng.randint(-rank - 2, rank + 1)})",
            f"tf.squeeze({x}, {rng.choice([None, [axis]])})",
            f"tf.clip_by_value({floats}, -1, 2)",
            f"tf.cumsum({x}, {axis}, exclusive={rng.choice([True, False])}, reverse={rng.choice([True, False])})",
            f"tf.reverse({x}, [{axis}])",
            f"tf.range({rng.randint(-3, 3)}, {rng.randint(-3, 9)}, {rng.choice([-2, -1, 1, 2, 3])})",
        ]
    )


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_generated_expressions():
    rng = random.Random(int(os.environ.get("QUEUECORE_TENSORFLOW_HISTORIES", "6")))
    cases = [drawn(rng) for _ in range(600)]
    wrong = []
    for case, theirs in zip(cases, asked([(case, 1) for case in cases]), strict=True):
        wrong += differences(case, 1, theirs)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)


# What TensorFlow's answers don't say


def run(made, feeds=None):
    with tf.Session(graph=(made[0] if isinstance(made, list) else made).graph) as session:
        return session.run(made, feeds)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_print_writes_as_tensorflow_does(capsys):
    shown = [5, [1, 2, 3, 4], [[1, 2], [3, 4]], "abc", ["x", "yy"], True, [True, False], 1.5, [0.1, 1e10, 1e-9, 2.0],
             np.float64(1 / 3)]  # fmt: skip
    assert run(tf.Print(tf.constant(7), shown, message="hello: ")) == 7
    run(tf.Print(1, [[[1, 2], [3, 4]], np.arange(24).reshape(2, 3, 4)], summarize=10))
    run(tf.Print(1, [np.arange(24).reshape(2, 3, 4)], summarize=-1))
    run(tf.Print(1, [np.arange(24).reshape(2, 3, 4)], summarize=4))
    run(tf.Print(1, [np.arange(24).reshape(2, 3, 4)], summarize=5))
    run(tf.Print(1, [np.zeros(0), np.zeros((2, 0)), np.int8(3), np.uint8([200, 3]), "a\nb\0"]))
    run(tf.Print(1, [np.float32([1 / 3, 123456789, 1e-5, 1e5, 1e6, 1e7, 16777216, 0.1])], summarize=20))
    run(tf.Print(1, [np.float64([1 / 3, 123456789, 1e-5, 1e16, 1e15, 1e17]), np.float16([1.5, 0.1])], summarize=20))
    assert capsys.readouterr().err.split("\n") == [
        "hello: [5][1 2 3...][[1 2][3...]...][abc][x yy][1][1 0][1.5][0.1 1e+10 1e-09...][0.33333333333333331]",
        "[[1 2][3 4]][[[0 1 2 3][4 5 6 7][8 9...]]...]",
        "[[[0 1 2 3][4 5 6 7][8 9 10 11]][[12 13 14 15][16 17 18 19][20 21 22 23]]]",
        "[[[0 1 2 3]]...]",
        "[[[0 1 2 3][4...]]...]",
        "[][][3][200 3][a\\nb\\000]",
        "[0.333333343 123456792 1e-05 100000 1e+06 1e+07 16777216 0.1]",
        "[0.33333333333333331 123456789 1e-05 1e+16 1e+15 1e+17][1.5 0.0999755859]",
        "",
    ]


def test_print_stops_after_the_first_few_of_a_session(capsys):
    made = tf.Print(tf.constant(1), ["x"], first_n=2)
    for _ in range(2):
        with tf.Session() as session:
            for _ in range(5):
                session.run(made)
    assert capsys.readouterr().err == "[x]\n" * 4


def test_an_assertion_shows_its_data():
    holds = tf.placeholder(tf.bool, ())
    with tf.control_dependencies([tf.Assert(holds, [[1, 2, 3, 4], "why"], summarize=2)]):
        made = tf.constant(5) + 0
    with tf.Session() as session:
        assert session.run(made, {holds: True}) == 5
        with pytest.raises(errors.InvalidArgumentError, match=r"assertion failed: \[1 2\.\.\.\] \[why\]"):
            session.run(made, {holds: False})


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("v"), errors.InvalidArgumentError),
        (TypeError("t"), errors.InvalidArgumentError),
        (StopIteration(), errors.OutOfRangeError),
        (MemoryError(), errors.ResourceExhaustedError),
        (NotImplementedError(), errors.UnimplementedError),
        (KeyError("k"), errors.UnknownError),
        (OSError("o"), errors.UnknownError),
        (ZeroDivisionError(), errors.UnknownError),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_what_a_function_raises_is_the_cause(raised, expected):
    def fail():
        raise raised

    with pytest.raises(errors.QueueCoreError) as caught:
        run(tf.py_func(fail, [], tf.int32))
    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised
    assert type(raised).__name__ in str(caught.value)


def test_an_error_of_ours_comes_out_of_a_function_as_it_is():
    mine = errors.DataLossError("cut")

    def fail():
        raise mine

    with pytest.raises(errors.DataLossError) as caught:
        run(tf.py_func(fail, [], tf.int32))
    assert caught.value is mine


def test_a_function_gets_what_numpy_has():
    results = []

    def look(*values):
        results.extend(map(type, values))
        return np.int64(1)

    assert run(tf.py_func(look, [1, [1.0], "s", ["a"]], tf.int64)) == 1
    assert results == [np.int32, np.ndarray, bytes, np.ndarray]


def test_a_function_without_results_is_an_operation():
    calls = []
    op = tf.py_func(calls.append, [5], [])
    assert isinstance(op, tf.Operation)
    with tf.Session() as session:
        session.run(op)
        session.run(op)
    assert calls == [5, 5]


@pytest.mark.watchdog(60)
@pytest.mark.parametrize("place", ["a run", "a branch"])
def test_functions_that_wait_for_each_other_run_beside_each_other(place):
    arrivals: queue.Queue[int] = queue.Queue()
    back: queue.Queue[int] = queue.Queue()

    def puts():
        arrivals.put(3)
        return np.int64(back.get())

    def gets():
        got = arrivals.get()
        back.put(got + 1)
        return np.int64(got)

    def both():
        return [tf.py_func(puts, [], tf.int64), tf.py_func(gets, [], tf.int64)]

    names = tf.FIFOQueue(2, tf.int64)
    fetched = both()
    if place == "a branch":
        fetched = tf.cond(tf.constant(True), both, lambda: [tf.constant(0, tf.int64)] * 2)
    with tf.Session() as session:
        assert session.run(fetched) == [4, 3]
        if place == "a run":
            assert session.run(fetched[::-1]) == [3, 4]
        if place == "a branch":  # that it is over ends no other wait of the run
            with tf.control_dependencies(fetched):
                later = names.dequeue()
            late = threading.Timer(0.2, session.run, [names.enqueue(5)])
            late.start()
            assert session.run(later) == 5
            late.join()


@pytest.mark.watchdog(60)
def test_a_function_that_waits_is_left_behind_when_another_fails():
    gate = threading.Event()

    def fail():
        raise ValueError("this one")

    waits = tf.py_func(lambda: (gate.wait(50), np.int64(1))[1], [], tf.int64)
    with tf.Session() as session:
        with pytest.raises(errors.InvalidArgumentError, match="this one"):
            session.run([waits, tf.py_func(fail, [], tf.int64)])
        assert not gate.is_set()
        gate.set()


def test_functions_beside_each_other_warn_of_no_infinities():
    one, other = (tf.py_func(lambda x: np.float64(1) / x, [np.float64(0)], tf.float64) for _ in range(2))
    with tf.Session() as session:
        assert session.run([one, other]) == [np.inf, np.inf]


def test_of_two_branches_one_is_run():
    calls = []

    def noted(word):
        return lambda: tf.py_func(lambda: (calls.append(word), np.int64(len(calls)))[1], [], tf.int64)

    which = tf.placeholder(tf.bool, ())
    made = tf.cond(which, noted("yes"), noted("no"))
    with tf.Session() as session:
        session.run(made, {which: True})
        session.run([made, made], {which: False})
        assert calls == ["yes", "no"]


def test_what_is_made_outside_of_the_branches_is_run_once():
    seen = []
    outer = tf.py_func(lambda: (seen.append(1), np.int64(3))[1], [], tf.int64)
    made = tf.cond(tf.constant(False), lambda: outer, lambda: outer * 2)
    assert run([made, outer]) == [6, 3]
    assert seen == [1]


def test_a_branch_waits_for_its_own_queue_alone():
    full, empty = (tf.FIFOQueue(2, tf.int32, [[]]) for _ in range(2))
    fill = full.enqueue_many([[7, 8]])
    element = tf.cond(full.size() > 0, full.dequeue, empty.dequeue)
    assert element.op.blocking
    with tf.Session() as session:
        session.run(fill)
        options = tf.RunOptions(timeout_in_ms=20000)
        assert [session.run(element, options=options) for _ in range(2)] == [7, 8]
        with pytest.raises(errors.DeadlineExceededError):
            session.run(element, options=tf.RunOptions(timeout_in_ms=20))


def test_a_branch_may_assign():
    count = tf.Variable(0, name="count")
    up = tf.placeholder(tf.bool, ())
    made = tf.cond(up, lambda: tf.assign_add(count, 1), lambda: tf.assign_sub(count, 10))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(made, {up: one}) for one in (True, True, False)] == [1, 2, -8]


def test_what_a_branch_depends_on_is_run_before_it():
    calls = []
    before = tf.py_func(lambda: calls.append("before"), [], [])

    def branch():
        with tf.control_dependencies([before]):
            return tf.py_func(lambda: (calls.append("branch"), np.int64(1))[1], [], tf.int64)

    run(tf.cond(tf.constant(True), branch, lambda: tf.constant(0, tf.int64)))
    assert calls == ["before", "branch"]


def test_cases_are_asked_in_order():
    x = tf.placeholder(tf.int32, ())
    pairs = [(tf.less(x, bound), lambda bound=bound: tf.constant(bound)) for bound in (1, 5, 9)]
    made = tf.case(pairs, default=lambda: tf.constant(-1))
    exclusive = tf.case(pairs, exclusive=True)
    with tf.Session() as session:
        assert [session.run(made, {x: value}) for value in (0, 1, 5, 9)] == [1, 5, 9, -1]
        assert session.run(exclusive, {x: 6}) == 9
        with pytest.raises(errors.InvalidArgumentError, match="2 of the conditions"):
            session.run(exclusive, {x: 3})
        with pytest.raises(errors.InvalidArgumentError, match="0 of the conditions"):
            session.run(exclusive, {x: 30})


def test_a_tuple_is_there_once_all_of_it_is():
    seen = []
    slow = tf.py_func(lambda: (seen.append(1), np.int64(1))[1], [], tf.int64)
    first, nothing, _ = tf.tuple([tf.constant(5), None, slow])
    assert nothing is None
    assert run(first) == 5
    assert seen == [1]


def test_files_are_written_read_and_found(tmp_path):
    name = f"{tmp_path}/deep/file.bin"
    with tf.Session() as session:
        session.run(tf.write_file(name, b"\x00\xff"))
        assert session.run(tf.read_file(name)) == b"\x00\xff"
        session.run(tf.io.write_file(f"{tmp_path}/deep/other.bin", ""))
        found = tf.matching_files(f"{tmp_path}/deep/*.bin")
        assert session.run(found).tolist() == [name.encode(), f"{tmp_path}/deep/other.bin".encode()]
        assert session.run(tf.matching_files([f"{tmp_path}/deep/o*", f"{tmp_path}/none*"])).shape == (1,)
        with pytest.raises(errors.NotFoundError):
            session.run(tf.read_file(f"{tmp_path}/none"))
        with pytest.raises(errors.NotAFileError):
            session.run(tf.read_file(str(tmp_path)))


def test_a_sparse_tensor_is_fetched_and_fed():
    made = tf.SparseTensor([[0, 1], [2, 0]], [7, 8], [3, 2])
    assert made.shape == (3, 2)
    value = run(tf.identity(1)) and tf.Session().run({"a": made})["a"]
    assert isinstance(value, tf.SparseTensorValue)
    assert value.dense_shape.tolist() == [3, 2]
    given = tf.sparse_placeholder(tf.float32, [2, 2])
    dense = tf.sparse_tensor_to_dense(given)
    with tf.Session() as session:
        found = session.run(dense, {given.indices: [[1, 1]], given.values: [2.5]})
    np.testing.assert_array_equal(found, [[0, 0], [0, 2.5]])


@pytest.mark.parametrize("name", ["matmul", "gradients", "nn", "layers", "svd", "keras", "losses"])
def test_what_trains_names_the_way_out(name):
    with pytest.raises(errors.UnimplementedError, match=rf"tf\.{name}: .*CuPy, PyTorch or JAX.*docs/frameworks\.md"):
        getattr(tf, name)


def test_optimizers_name_the_way_out():
    with pytest.raises(errors.UnimplementedError, match="GradientDescentOptimizer"):
        tf.train.GradientDescentOptimizer(0.5)


@pytest.mark.parametrize("module", [tf, tf.train, tf.image])
def test_an_unknown_name_is_an_attribute_error(module):
    assert not hasattr(module, "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        module.no_such_thing  # noqa: B018


# Against NumPy, on generated inputs: also with nothing known beforehand

sides = st.integers(0, 4)
shapes = st.lists(sides, max_size=4).map(tuple)
arrays = shapes.map(lambda shape: np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape) - 3)


def known_as(array, how):
    """Three placeholders' static shapes: all, the rank alone, nothing."""
    return {"all": array.shape, "rank": [None] * array.ndim, "nothing": None}[how]


def compared(array, how, build, expected):
    """Whether what is built of an array is what NumPy has; or both refuse."""
    with tf.Graph().as_default(), tf.Session() as session:
        given_ = tf.placeholder(array.dtype, known_as(array, how))
        try:
            right = expected(array)
        except (ValueError, IndexError, TypeError):
            with pytest.raises((ValueError, TypeError, errors.InvalidArgumentError)):
                session.run(build(given_), {given_: array})
            return
        made = build(given_)
        value = session.run(made, {given_: array})
    for one, got, want in zip(*[x if isinstance(x, list) else [x] for x in (made, value, right)], strict=True):
        np.testing.assert_array_equal(got, want)
        assert one.shape.is_compatible_with(np.shape(got))
        assert one.dtype == np.asarray(got).dtype


hows = st.sampled_from(["all", "rank", "nothing"])
FEW = settings(max_examples=80, deadline=None)


@st.composite
def indices(draw, rank):
    parts = []
    for _ in range(draw(st.integers(0, rank))):
        kind = draw(st.sampled_from(["int", "slice", "slice"]))
        ends = st.one_of(st.none(), st.integers(-5, 5))
        if kind == "int":
            parts.append(draw(st.integers(-4, 4)))
        else:
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            parts.append(slice(draw(ends), draw(ends), step))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    for _ in range(draw(st.integers(0, 1))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@FEW
@given(st.data(), arrays, hows)
def test_indices(data, array, how):
    key = data.draw(indices(array.ndim))
    compared(array, how, lambda x: x[key], lambda x: x[key])


@FEW
@given(st.data(), arrays, hows)
def test_slices(data, array, way):
    begin = [data.draw(st.integers(0, 4)) for _ in array.shape]
    size = [data.draw(st.integers(-1, 4)) for _ in array.shape]

    def wanted(x):
        if any(a + max(n, 0) > side for a, n, side in zip(begin, size, x.shape, strict=True)):
            raise ValueError
        return x[tuple(slice(a, None if n < 0 else a + n) for a, n in zip(begin, size, strict=True))]

    compared(array, way, lambda x: tf.slice(x, begin, size), wanted)


@FEW
@given(st.data(), arrays, hows, st.booleans(),
       st.sampled_from([("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)]))  # fmt: skip
def test_reductions(data, array, way, keep, which):
    name, function = which
    axis = data.draw(st.one_of(st.none(), st.lists(st.integers(-5, 4), max_size=3)))
    axes = None if axis is None else tuple(axis)
    limit = {"max": {"initial": np.iinfo(np.int32).min}, "min": {"initial": np.iinfo(np.int32).max}}.get(name, {})
    if name in ("sum", "prod"):
        limit = {"dtype": np.int32}
    reduce = getattr(tf, f"reduce_{name}")
    compared(array, way, lambda x: reduce(x, axis, keepdims=keep), lambda x: function(x, axes, keepdims=keep, **limit))


@FEW
@given(shapes, shapes, st.sampled_from(["add", "multiply", "maximum", "less", "equal"]), hows, hows)
def test_broadcasting(first, second, name, how, other):
    a = np.arange(int(np.prod(first)), dtype=np.float32).reshape(first)
    b = np.arange(int(np.prod(second)), dtype=np.float32).reshape(second) - 2
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(tf.float32, known_as(a, how)), tf.placeholder(tf.float32, known_as(b, other))
        try:
            expected = getattr(np, name)(a, b)
        except ValueError:
            with pytest.raises(ValueError):
                session.run(getattr(tf, name)(x, y), {x: a, y: b})
            return
        made = getattr(tf, name)(x, y)
        value = session.run(made, {x: a, y: b})
        np.testing.assert_array_equal(value, expected)
        assert made.shape.is_compatible_with(value.shape)
        assert made.dtype == value.dtype


@FEW
@given(st.data(), arrays, hows)
def test_shapes_of_the_same_items(data, array, way):
    axis = data.draw(st.integers(-5, 4))
    rank = array.ndim
    compared(array, way, lambda x: tf.expand_dims(x, axis), lambda x: np.expand_dims(x, axis))
    perm = data.draw(st.permutations(range(rank)))
    compared(array, way, lambda x: tf.transpose(x, perm), lambda x: np.transpose(x, perm))
    compared(array, way, tf.squeeze, np.squeeze)
    compared(array, way, tf.shape, lambda x: np.array(x.shape, np.int32))
    compared(array, way, tf.size, lambda x: np.int32(x.size))
    compared(array, way, tf.rank, lambda x: np.int32(x.ndim))
    compared(array, way, lambda x: tf.reshape(x, [-1]), np.ravel)
    compared(array, way, lambda x: tf.zeros_like(x, tf.float32), lambda x: np.zeros(x.shape, np.float32))


@pytest.mark.thorough
@FEW
@given(st.data(), arrays, hows)
def test_pieces(data, array, way):
    rank = array.ndim
    if not rank:
        return
    axis = data.draw(st.integers(0, rank - 1))
    count = array.shape[axis]
    if way == "all":
        compared(array, way, lambda x: tf.unstack(x, axis=axis),
                 lambda x: [one.squeeze(axis) for one in np.split(x, count, axis)] if count else [])  # fmt: skip
    pieces = data.draw(st.integers(1, 4))
    compared(array, way, lambda x: tf.split(x, pieces, axis), lambda x: np.split(x, pieces, axis))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=3)))
    lengths = np.diff([0, *cuts, count]).tolist()
    compared(array, way, lambda x: tf.split(x, lengths, axis), lambda x: np.split(x, cuts, axis))
    compared(array, way, lambda x: tf.concat([x, x, x], axis), lambda x: np.concatenate([x, x, x], axis))
    compared(array, way, lambda x: tf.stack([x, x], axis), lambda x: np.stack([x, x], axis))
    times = [data.draw(st.integers(0, 3)) for _ in range(rank)]
    compared(array, way, lambda x: tf.tile(x, times), lambda x: np.tile(x, times))
    around = [[data.draw(st.integers(0, 2)) for _ in range(2)] for _ in range(rank)]
    compared(array, way, lambda x: tf.pad(x, around), lambda x: np.pad(x, around))
    for mode, least in (("REFLECT", 1), ("SYMMETRIC", 0)):
        if all(max(pair) <= side - least for side, pair in zip(array.shape, around, strict=True)):
            compared(array, way, lambda x, mode=mode: tf.pad(x, around, mode),
                     lambda x, mode=mode: np.pad(x, around, mode.lower()))  # fmt: skip
    compared(array, way, lambda x: tf.reverse(x, [axis]), lambda x: np.flip(x, axis))
    compared(array, way, lambda x: tf.cumsum(x, axis), lambda x: np.cumsum(x, axis, np.int32))
    where = data.draw(st.lists(st.integers(0, 4), max_size=3))
    compared(array, way, lambda x: tf.gather(x, np.array(where, np.int64), axis=axis),
             lambda x: x[(*(slice(None),) * axis, np.array(where, np.int64))])  # fmt: skip
    if count:
        compared(array, way, lambda x: tf.argmax(x, axis), lambda x: np.argmax(x, axis))


@FEW
@given(arrays, hows)
def test_choices(array, way):
    compared(array, way, lambda x: tf.where(x > 0), lambda x: np.argwhere(x > 0))
    compared(array, way, lambda x: tf.where(x > 0, x, -x), np.abs)
    compared(array, way, lambda x: tf.clip_by_value(x, -1, 5), lambda x: np.clip(x, -1, 5))
    compared(array, way, lambda x: tf.one_hot(x, 3), lambda x: (x[..., None] == np.arange(3)).astype(np.float32))
    if array.ndim:
        compared(array, "rank" if way == "nothing" else way, lambda x: tf.boolean_mask(x, x > 0), lambda x: x[x > 0])


def test_the_same_functions_under_two_names():
    for name in ("abs", "pow", "round", "reduce_sum", "argmax", "sigmoid", "floormod"):
        assert getattr(tf.math, name) is getattr(tf, name)
    for name in ("decode_raw", "decode_csv", "parse_example", "read_file", "write_file", "matching_files"):
        assert getattr(tf.io, name) is getattr(tf, name)
    assert tf.strings.join is tf.string_join
    assert tf.random.uniform is tf.random_uniform
    assert tf.FixedLengthFeature is tf.FixedLenFeature is tf.io.FixedLenFeature


def test_joined_dimensions_that_a_run_knows():
    axis, texts = tf.placeholder(tf.int32), tf.placeholder(tf.string)
    late = tf.reduce_join([["a", "b"], ["c", "d"]], axis)
    first = tf.reduce_join(texts, 1)
    twice = tf.reduce_join(texts, [-1, 1])
    with tf.Session() as sess:
        assert late.shape.ndims is None
        assert [sess.run(late, {axis: one}).tolist() for one in (0, [-1])] == [[b"ac", b"bd"], [b"ab", b"cd"]]
        assert sess.run(late, {axis: [1, 0]}) == b"abcd"
        for tensor, feeds, text in (
            (late, {axis: 2}, "Invalid reduction dimension 2"),
            (first, {texts: ["a"]}, "Invalid reduction dimension 1"),
            (twice, {texts: [["a"]]}, "Duplicate reduction dimension 1"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                sess.run(tensor, feeds)


def test_scalars_that_a_run_must_get():
    some = tf.placeholder(tf.string)
    with tf.Session() as sess:
        for tensor, fed, text in (
            (tf.string_split(["a b"], some), ["a"], "delimiter must be a scalar"),
            (tf.string_split(some, ","), "a", "input must be a vector"),
            (tf.regex_replace("a", some, "b"), ["a"], "Pattern must be scalar"),
            (tf.regex_replace("a", "b", some), ["a"], "Rewrite must be scalar"),
            (tf.strings.regex_full_match("a", some), ["a"], "Pattern must be scalar"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                sess.run(tensor, {some: fed})


def test_text_beside_bytes_that_are_none():
    with tf.Session() as sess:
        assert sess.run(tf.constant(["a", b"\xff", "é"])).tolist() == [b"a", b"\xff", "é".encode()]


def test_strings_of_any_shape_are_split():
    def split(given, kind="RaggedTensor", **more):
        with tf.Session() as sess:
            return sess.run(tf.strings.split(given, ",", result_type=kind, **more))

    assert split("a,b").to_list() == [[b"a", b"b"]]
    assert split([["a,b", "c"], ["", "d,e,f"]], maxsplit=1).to_list() == [
        [[b"a", b"b"], [b"c"]], [[b""], [b"d", b"e,f"]]]  # fmt: skip
    assert split(tf.ragged.constant([["a,b"], [], ["c", "d"]])).to_list() == [[[b"a", b"b"]], [], [[b"c"], [b"d"]]]
    cut = split([["a,b"], ["c"]], "SparseTensor")
    assert cut.indices.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert cut.dense_shape.tolist() == [2, 1, 2]
    assert split(tf.zeros([2, 0], tf.string)).to_list() == [[], []]
    with pytest.raises(tf.errors.UnimplementedError):
        tf.strings.split(tf.placeholder(tf.string, [2, None]), ",")


def test_strings_of_any_shape_are_split_into_bytes():
    strings = tf.placeholder(tf.string)
    with tf.Session() as sess:
        assert sess.run(tf.strings.bytes_split("ab")).tolist() == [b"a", b"b"]
        assert sess.run(tf.strings.bytes_split([["ab", ""], ["c", "de"]])).to_list() == [
            [[b"a", b"b"], []], [[b"c"], [b"d", b"e"]]]  # fmt: skip
        for rows in (tf.ragged.constant([["ab"], []]), tf.ragged.constant_value([["ab"], []])):
            assert sess.run(tf.strings.bytes_split(rows)).to_list() == [[[b"a", b"b"]], []]
    with pytest.raises(ValueError, match="statically-known rank"):
        tf.strings.bytes_split(strings)


def test_base64_with_letters_missing_or_too_many():
    with tf.Session() as sess:
        assert sess.run(tf.decode_base64(["YWI", "YWI=", "YQ==", "YQ", ""])).tolist() == [b"ab", b"ab", b"a", b"a", b""]
        for bad in ("YQ=", "YWJj==", "YWJj====", "Y=Jj", "YW+j"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid character"):
                sess.run(tf.decode_base64(bad))
        with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be 1 modulo 4"):
            sess.run(tf.decode_base64("YWJja"))


def test_shapes_that_do_not_fit_in_a_run():
    some = tf.placeholder(tf.float32)
    with (
        tf.Session() as sess,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2,2\] vs. \[3\]"),
    ):
        sess.run(some + tf.constant([1.0, 2.0, 3.0]), {some: [[1, 2], [3, 4]]})


def test_flags_and_refusals_of_as_string():
    with tf.Session() as sess:
        assert sess.run(tf.as_string([5, -5], fill=" ")).tolist() == [b" 5", b"-5"]
        assert sess.run(tf.as_string([2.0], fill="#", precision=0)).tolist() == [b"2."]
    for make, text in (
        (lambda: tf.as_string([1.0], scientific=True, shortest=True), "Cannot select both"),
        (lambda: tf.as_string([1], shortest=True), "scientific and shortest format not supported for datatype int32"),
        (lambda: tf.as_string([1], precision=0), "precision not supported for datatype int32"),
        (lambda: tf.as_string([1], fill="00"), "Fill string must be one or fewer characters"),
        (lambda: tf.as_string([1], fill="x"), 'Fill argument not supported: "x"'),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            make()


def test_rows_that_cannot_be_mapped():
    for elems, text in (([], "^elems must be a Tensor or"), (1, "not a scalar$"), ([1, 2], "not scalars$")):
        with pytest.raises(ValueError, match=text):
            tf.map_fn(lambda x: x, elems)
    with pytest.raises(TypeError, match="two structures don't have the same nested structure"):
        tf.map_fn(lambda x: (x, x), tf.range(3), dtype=[tf.int32, tf.int32])


def test_categories_of_unicode_in_patterns():
    with tf.Session() as sess:
        for pattern, expected in (
            (r"\p{Lu}", ".b-3."), (r"\pL", "..-3."), (r"[\p{Nd}-]", "Ab..É"), (r"\P{L}", "Ab..É"),
            (r"\p{^Ll}+", ".b."), (r"[^\p{Ll}]", ".b..."), (r"[\PL\d]", "Ab..É"),
        ):  # fmt: skip
            assert sess.run(tf.regex_replace("Ab-3É", pattern, ".")).decode() == expected, pattern
        for pattern in (r"\p{Greek}", r"\p{Xx}", r"\p{}"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern"):
                tf.regex_replace("a", pattern, "")


def test_assertions_of_shapes_that_do_not_fit():
    for check in (tf.assert_equal, tf.assert_less):
        with pytest.raises(ValueError, match="^Dimensions must be equal, but are 3 and 2"):
            check(tf.placeholder(tf.int32, [3]), tf.placeholder(tf.int32, [2]))
    with pytest.raises(TypeError, match="must be of type <dtype: 'int32'>"):
        tf.assert_rank([1, 2], 0.5)


def test_strings_that_are_not_equally_long():
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="element 2 has size 2 != 3"):
            sess.run(tf.decode_raw(["ab", "cd", "efg"], tf.uint8))
        assert sess.run(tf.decode_raw([], tf.uint8)).shape == (0, 0)


@pytest.mark.parametrize("dtype", [tf.int8, tf.uint8, tf.int32, tf.int64, tf.uint64])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_that_no_integer_is_near_enough_to(kind, dtype):
    limits = np.iinfo(dtype.as_numpy_dtype)
    numbers = [0.0, 5.75, -5.75, 127.5, 300.0, 65504.0, -65504.0, np.inf, -np.inf]
    if kind != np.float16:
        numbers += [2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 3e30, -3e30]
    with tf.Session() as sess:
        whole = sess.run(tf.saturate_cast(np.array(numbers, kind), dtype)).tolist()
    # Python's own integers have no limits.
    assert whole == [
        (limits.max if x > 0 else limits.min) if np.isinf(x) else min(max(int(x), limits.min), limits.max)
        for x in numbers
    ]


def test_a_batch_of_matrices_whose_size_a_run_knows():
    size, batch = tf.placeholder(tf.int32, ()), tf.placeholder(tf.int32, (2,))
    matrices = tf.eye(size, batch_shape=[2])
    assert matrices.shape.as_list() == [2, None, None]
    with tf.Session() as sess:
        assert sess.run(matrices, {size: 2}).tolist() == [np.eye(2).tolist()] * 2
        assert sess.run(tf.eye(1, 2, batch), {batch: [3, 1]}).tolist() == [[[[1, 0]]]] * 3


def test_the_axis_of_one_hot_has_one_negative_number():
    for indices in ([1, 2], tf.placeholder(tf.int32)):
        with pytest.raises(ValueError, match="axis must be >= -1"):
            tf.one_hot(indices, 3, axis=-2)
