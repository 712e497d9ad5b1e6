"""Traced functions: against NumPy called on the same elements; and what a trace must give up, with reason and place."""

import cProfile
import dataclasses
import functools
import gc
import math
import operator
import pickle
import random
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore._trace.symbol import Symbol, Untraced
from queuecore._trace.trace import Traced, trace
from queuecore.errors import InvalidArgumentError
from queuecore.ops import Component

CODES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
BYTES = np.dtype("S")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-40, 65504.0, 3e38, 1e300, 255.0, 127.5, -129.0]


def values(code, shape, seed, bits=False):
    """Numbers of a dtype: small ones, the limits, and such that are no numbers; or any bits at all."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(code)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        flat = rng.integers(0, 2, count).astype(bool)
    elif bits:
        flat = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    elif dtype.kind == "f":
        with np.errstate(all="ignore"):
            pool = np.array(SPECIAL).astype(dtype)
            plain = rng.normal(0, 9, count).astype(dtype)
            flat = np.where(rng.random(count) < 0.3, pool[rng.integers(0, len(pool), count)], plain)
    else:
        limits = np.iinfo(dtype)
        pool = np.array([limits.min, limits.max, limits.max // 2, 0, 1], dtype)
        small = rng.integers(max(limits.min, -9), 10, count).astype(dtype)
        flat = np.where(rng.random(count) < 0.3, pool[rng.integers(0, len(pool), count)], small)
    return flat.astype(dtype).reshape(shape)


def element(array):
    """Return an array as a user gets it: what has no dimensions is a number."""
    return array[()] if not array.ndim else array


def component(array, unknown=False):
    return Component(array.dtype, tuple(None for _ in array.shape) if unknown else array.shape)


def flat(structure):
    """Return the components of an element, in order."""
    if isinstance(structure, dict):
        return [one for inner in structure.values() for one in flat(inner)]
    if isinstance(structure, tuple):
        return [one for inner in structure for one in flat(inner)]
    return [structure]


def same(got, expected):
    """The same dtypes, shapes and bits."""
    expected = np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes(), (got, expected)


def traced(function, *components, **options):
    made = trace(function, components, tuple(range(len(components))), **options)
    assert isinstance(made, Traced), made
    return made


def check(function, *arrays, unknown=False):
    """Run a function natively, and compare with itself on the arrays."""
    components = [component(array, unknown) for array in arrays]
    native = traced(function, *components)
    step = native.stage.bind(components)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = step(*arrays)
    with np.errstate(all="ignore"):
        expected = flat(function(*map(element, arrays)))
    assert len(results) == len(expected) == len(native.components)
    for got, one, known in zip(results, expected, native.components, strict=True):
        same(got, one)
        assert known.dtype == got.dtype
        assert unknown or known.shape == got.shape
    return native


# Single operations

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lshift,
    operator.rshift,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.fmod,
    np.copysign,
    np.nextafter,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.heaviside,
    np.gcd,
]
UNARY = [
    operator.neg,
    operator.pos,
    operator.invert,
    abs,
    np.sqrt,
    np.square,
    np.reciprocal,
    np.floor,
    np.ceil,
    np.trunc,
    np.rint,
    np.sign,
    np.isnan,
    np.isinf,
    np.isfinite,
    np.signbit,
    np.fabs,
    np.logical_not,
    np.spacing,
    np.deg2rad,
    np.bitwise_count,
]
SMOOTH = [np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan, np.tanh, np.cbrt]
CONSTANTS = [1, 2, -1, 0, 7, 0.5, 255.0, -0.1, True, np.float32(3.3), np.int8(-5), np.uint64(2**63), np.float16(0.1)]


def numpys(function, *arguments):
    """Return what NumPy makes, or `None` where it doesn't."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = function(*arguments)
        except (TypeError, ValueError, OverflowError):
            return None
    return made if np.asarray(made).dtype.kind in "biuf" and np.asarray(made).dtype.itemsize <= 8 else None


@pytest.mark.sampled(18)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("function", BINARY, ids=lambda one: one.__name__)
def test_binary(function, code):
    done = 0
    for seed, other in enumerate(CODES):
        shape = ((), (67,), (3, 1111))[(seed + CODES.index(code)) % 3]
        x, y = values(code, shape, seed), values(other, shape, seed + 99)
        made = numpys(function, element(x), element(y))
        if function in (np.fmax, np.fmin) and made is not None and made.dtype.kind == "f":
            assert isinstance(trace(function, [component(x), component(y)], (0, 1)), Untraced)
        elif made is not None:
            check(lambda a, b: function(a, b), x, y)
            if shape:  # as NumPy computes it, however the items lie
                check(lambda a, b: (function(a[..., ::2], b[..., ::-2]), function(a, b[..., :1])), x, y)
                check(lambda a, b: (function(a[:1], b), function(a[..., 1], b[..., 1])), x, y)
            done += 1
    assert done or np.dtype(code).kind in "fb" or function is np.heaviside


@pytest.mark.sampled(18)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("function", [*UNARY, *SMOOTH], ids=lambda one: one.__name__)
def test_unary(function, code):
    for seed, shape in enumerate(((), (1,), (2,), (67,), (3, 1111), (8200,))):
        for bits in (False, True):
            x = values(code, shape, seed, bits)
            made = numpys(function, element(x))
            if made is None:
                continue
            if function in SMOOTH and (not shape or made.dtype == np.float16):
                found = trace(lambda a: function(a), [component(x)], (0,))
                assert "last bit" in found.reason
            else:
                check(lambda a: function(a), x)
                if shape and function not in SMOOTH:
                    check(lambda a: (function(a[..., ::2]), function(a.T), function(a[..., :1, None])), x)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("constant", CONSTANTS, ids=repr)
@pytest.mark.parametrize("code", CODES)
def test_with_a_constant(code, constant):
    for function in BINARY[:21]:
        for swapped in (False, True):
            for shape in ((), (130,))[swapped:]:
                x = values(code, shape, 3)

                def call(a, function=function, swapped=swapped):
                    return function(constant, a) if swapped else function(a, constant)

                expected = numpys(call, element(x))
                found = trace(call, [component(x)], (0,))
                if function in (np.fmax, np.fmin) and expected is not None and expected.dtype.kind == "f":
                    assert "zeros" in found.reason
                elif expected is None or constant == -1 and code[0] == "u" and isinstance(found, Untraced):
                    assert isinstance(found, Untraced), found
                    assert expected is None or expected.dtype == bool  # a comparison with what never is
                else:
                    check(call, x)


def test_casts_keep_every_bit():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    check(lambda a: (a.astype("f4"), a.astype("f8"), a.astype("f8") + 0.0, a.astype(bool), a + np.float64(0)), halves)
    singles, doubles = values("f4", (20000,), 1, True), values("f8", (20000,), 1, True)
    nans = np.random.default_rng(1).integers(0x7F80_0001, 0x7FFF_FFFF, 20000).astype(np.uint32).view(np.float32)
    far = np.random.default_rng(2).integers(0x7FF0_0000_0000_0001, 2**63 - 1, 20000).view(np.float64)
    for floats in (singles, doubles, nans, far, -nans, -far):
        check(lambda a: (a.astype("f2"), a.astype("f4"), a.astype("f8")), floats)
    for code in ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]:
        check(lambda a: tuple(a.astype(to) for to in CODES), values(code, (20000,), 1, True))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("code", CODES)
def test_where(code):
    for seed, other in enumerate(CODES):
        for shape in ((), (3, 1111)):
            x, y, z = values(code, shape, seed), values(other, shape, seed + 1), values("?", shape, seed)
            check(lambda a, b, c: (np.where(c, a, b), np.where(a, b, a), np.where(c, 1, a)), x, y, z)
            check(lambda a, c: (np.where(c, a, 2.5), np.where(c, a, np.float32(1)), np.where(c, 1, 2)), x, z)
            if shape:
                check(lambda a, b, c: np.where(c[..., :1], a, b[..., None, 0]), x, y, z)
                check(lambda a, b, c: np.where(True, a, b) + np.where(c[0], b, a[0]), x, y, z)
    stage = traced(lambda a: np.where(a > 3, a, 0), Component(np.dtype(code), (5,)), batch=(None,)).stage
    assert stage.rowwise


@pytest.mark.thorough
@pytest.mark.parametrize("code", CODES)
def test_stack(code):
    for seed, other in enumerate(CODES):
        for shape in ((), (3,), (3, 0), (2, 3, 4)):
            x, y = values(code, shape, seed, True), values(other, shape, seed + 1, True)
            for axis in range(-len(shape) - 1, len(shape) + 1):
                check(lambda a, b, axis=axis: np.stack([a, b, a], axis), x, y)
            check(lambda a, b: (np.stack((a,)), np.stack([b] * 40)), x, y)
            constant = np.ones(shape, "i2")
            check(lambda a, b, constant=constant: np.stack([a, constant, a]), x, y)
    stage = traced(lambda a, b: np.stack([a, b], 1), *[Component(np.dtype(code), ())] * 2, batch=(None,)).stage
    assert stage.rowwise
    x = values(code, (7,), 3)
    same(stage.bind([component(x, True)] * 2)(x, x[::-1].copy())[0], np.stack([x, x[::-1]], 1))
    made = trace(lambda a, b: np.stack([a, b]), [Component(np.dtype(code), ())] * 2, (0, 1), batch=(None,))
    assert not getattr(made.stage, "rowwise", False)


def test_the_length_of_one_dimension():
    known = [Component(np.dtype("f4"), (None, 5))]
    made = traced(lambda a: a * np.size(a, 1) + np.size(a, -1), *known)
    x = values("f4", (3, 5), 1)
    same(made.stage.bind(known)(x)[0], x * 5 + 5)
    assert isinstance(trace(lambda a: a * np.size(a, 0), known, 0), Untraced)


@pytest.mark.parametrize("code", CODES)
def test_clip(code):
    for shape in ((), (1,), (67,), (3, 1111)):
        for bits in (False, True):
            x = values(code, shape, 1, bits)
            for limits in ((0, 1), (0.0, 1.0), (-1, 2.5), (np.float32(0), 3), (1, 0), (np.nan, 1), (-0.0, 0.0)):
                if numpys(np.clip, element(x), *limits) is not None:
                    check(lambda a, limits=limits: (np.clip(a, *limits), a.clip(*limits)), x)


ORDERED = [np.maximum, np.minimum]


@pytest.mark.parametrize("code", ["f2", "f4", "f8"])
@pytest.mark.parametrize("function", ORDERED, ids=lambda one: one.__name__)
def test_zeros_of_both_signs(function, code):
    # Which of two that are equal comes out is seen by its sign.
    rng = np.random.default_rng(1)
    for count in (1, 2, 3, 5, 8, 17, 64, 67, 300, 2100):
        x, y = (rng.choice(np.array([0.0, -0.0, np.nan, 1], code), (count, 3)) for _ in range(2))
        check(lambda a, b: (function(a, b), function(b, a), function(a.T, b.T), function(a, b[::-1])), x, y)
        check(lambda a, b: (function(a[:, 0], b[:, 1]), function(a[:, :1], b), function(a, b[0])), x, y)
        for zero in (0.0, -0.0):
            check(lambda a, b, zero=zero: (function(a, zero), function(zero, a), function(b[:, 0], zero)), x, y)
            check(lambda a, zero=zero: (function(a[::2], zero), np.clip(a[:, 1], zero, 1), np.clip(a, 0.0, zero)), x)
    for other in (np.fmax, np.fmin):  # as long as the answer depends on more than the operands
        assert "zeros" in trace(lambda a: other(a, 0), [component(x)], 0).reason  # noqa: B023


def test_functions_that_are_methods():
    x = values("f4", (3, 4, 5), 1)
    check(lambda a: (np.transpose(a), np.transpose(a, (1, 0, 2)), np.reshape(a, (-1, 5)), np.ravel(a), np.copy(a)), x)


@pytest.mark.thorough
def test_powers_by_constants():
    for code in CODES:
        for exponent in (0, 1, 2, 3, -1, 2.0, True, *(np.dtype(to).type(2) for to in CODES), np.array(2)):
            for shape in ((), (4,)):
                x = values(code, shape, 1)
                for function in (lambda a: a**exponent, lambda a: exponent**a, lambda a: np.power(a, exponent)):  # noqa: B023
                    if isinstance(trace(function, [component(x)], 0), Traced):
                        check(function, x)


def test_powers():
    for code in CODES:
        x = values(code, (70,), 1)
        if np.dtype(code).kind in "iu":
            check(lambda a: (a**2, a**3, 2 ** abs(a).astype("u1")), x)
            check(lambda a: a**a, abs(values("u1", (70,), 2)))
        elif code == "?":
            assert "booleans" in trace(lambda a: a**2, [component(x)], 0).reason
        else:
            check(lambda a: (a**2, a**2.0), x)
    for function in (lambda a: a**-1, lambda a: a**0.5, lambda a: np.float32(2) ** a, lambda a: a**a):
        assert isinstance(trace(function, [component(values("i4", (3,), 1))], (0,)), Untraced)
    assert isinstance(trace(lambda a: a**2, [Component(np.dtype("f4"), ())], (0,)), Untraced)


# Expressions

SHAPES = [(), (1,), (3,), (67,), (5, 1), (1, 67), (5, 67), (2, 5, 67), (2, 1, 1), (4099,), (1, 4099), (0,), (2, 0)]
CHANGES = [
    lambda a: a.T,
    lambda a: a[..., ::-1],
    lambda a: a[..., None],
    lambda a: a[None],
    lambda a: a[0],
    lambda a: a[..., -1],
    lambda a: a[1:, ..., ::2],
    lambda a: a.reshape(-1),
    lambda a: a.ravel().reshape(1, -1),
    lambda a: a.astype(np.float32),
    lambda a: a.astype("u1") if a.dtype.kind != "f" else a,
    lambda a: a.astype(bool),
    lambda a: a.astype("f2"),
    lambda a: a.astype("f8"),
    lambda a: qc.ops.cast(a, np.float16),
    lambda a: qc.ops.transpose(a),
    lambda a: qc.ops.scale(a, 0.5, 1),
    lambda a: np.where(a > 1, a, -1.5),
]
# What a program may not be traced for, though NumPy does it.
ALLOWED = ("an index", "a transposition", "numpy.", "it can't be one native step")


@st.composite
def programs(draw):
    """Inputs, and a list of steps: a function, and the numbers of what it gets."""
    inputs = draw(st.lists(st.tuples(st.sampled_from(CODES), st.sampled_from(SHAPES)), min_size=1, max_size=3))
    steps = []
    for index in range(draw(st.integers(1, 14))):
        place = st.integers(0, len(inputs) + index - 1)
        kind = draw(st.integers(0, 3))
        if kind == 0:
            steps.append((draw(st.sampled_from(UNARY)), [draw(place)], None))
        elif kind == 1:
            steps.append((draw(st.sampled_from(CHANGES)), [draw(place)], None))
        elif kind == 2:
            steps.append((draw(st.sampled_from(BINARY)), [draw(place)], draw(st.sampled_from([*CONSTANTS, "array"]))))
        else:
            steps.append((draw(st.sampled_from(BINARY)), [draw(place), draw(place)], None))
    return inputs, steps, draw(st.integers(0, 2**32)), draw(st.booleans())


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(program=programs())
def test_any_expression(program):
    inputs, steps, seed, bits = program
    arrays = [values(code, shape, seed + i, bits) for i, (code, shape) in enumerate(inputs)]
    constant = values("f4", (67,), seed)
    functions = []
    results = [element(array) for array in arrays]
    for function, places, other in steps:
        other = constant if isinstance(other, str) else other
        arguments = [results[place] for place in places] + ([] if other is None else [other])
        try:
            result = numpys(function, *arguments)
        except (IndexError, AttributeError, qc.errors.QueueCoreError):
            result = None
        if result is not None and isinstance(result, (np.ndarray, np.generic)) and np.asarray(result).size < 200_000:
            results.append(element(np.asarray(result)))
            functions.append((function, places, other))
        else:
            results.append(results[places[0]])
            functions.append((lambda one, *_: one, places, other))

    def run(*given):
        made = list(given)
        for function, places, other in functions:
            made.append(function(*[made[place] for place in places], *([] if other is None else [other])))
        return {"last": made[-1], "rest": tuple(made[len(given) :])}

    components = [component(array) for array in arrays]
    found = trace(run, components, tuple(range(len(arrays))))
    if isinstance(found, Untraced):
        assert found.reason.startswith(ALLOWED), found
        return
    check(run, *arrays)


def test_long_expressions():
    def long(x, y):
        made = x
        for i in range(150):
            made = (made + y) * i if i % 3 else made - x[::-1]
        return made, made + 1

    check(long, values("f4", (5000,), 1), values("i2", (5000,), 2))
    many = [lambda *xs: tuple(a + b for a, b in zip(xs, xs[1:], strict=False))]
    check(many[0], *[values("f8", (3,), i) for i in range(30)])
    found = trace(lambda x: tuple(x[i : i + 2] * i for i in range(300)), [Component(np.dtype("f4"), (400,))], 0)
    assert isinstance(found, Untraced)
    assert "300 steps" in found.reason


def test_unaligned_input():
    x = np.frombuffer(b"\0" + values("f8", (3000,), 1).tobytes(), np.float64, offset=1)
    y = np.frombuffer(b"\0" + values("i4", (3000,), 1).tobytes(), np.int32, offset=1)
    assert not x.flags.aligned
    check(lambda a, b: (a * b + 1, a[::-3], b.astype("f4")), x, y)


def test_shapes_that_only_the_data_knows():
    image = values("u1", (5, 7, 3), 1)
    components = [Component(image.dtype, (None, None, 3))]
    mean = np.float32([1, 2, 3])

    def norm(x):
        y = (qc.ops.cast(x, np.float32) - mean) / 2
        return {"a": y * y + x, "b": x[..., 0], "c": x[:, :, None, 1:] + 1}

    native = trace(norm, components, 0)
    assert isinstance(native, Traced)
    assert [one.shape for one in native.components] == [(None, None, 3), (None, None), (None, None, 1, 2)]
    for sides in ((5, 7), (0, 7), (1, 1), (70, 81)):
        image = values("u1", (*sides, 3), 1)
        for got, expected in zip(native.stage.bind(components)(image), flat(norm(image)), strict=True):
            same(got, expected)
    with pytest.raises(InvalidArgumentError, match="dimension"):
        native.stage.bind(components)(np.zeros((2, 2, 4), np.uint8))
    two = [Component(np.dtype("u1"), (None,))] * 2
    found = trace(lambda a, b: a + b, two, (0, 1))
    assert "may not be the same" in found.reason
    for function in (lambda x: x[0], lambda x: x[1:], lambda x: x.shape, lambda x: len(x), lambda x: x + np.ones(4)):
        assert isinstance(trace(function, two[:1], 0), Untraced)


# Structure


def test_structures():
    x, y = values("f4", (3, 2), 1), values("i8", (), 2)
    check(lambda a, b: (a, b), x, y)
    check(lambda a, b: {"x": a, "y": {"z": (b, a[0])}}, x, y)
    check(lambda a, b: (b, b, a, (a, (b,))), x, y)
    check(lambda a, b: (a, 1, 2.5, True, np.float32(2), np.arange(3)), x, y)
    made = traced(lambda a, b: {"x": a, "y": {"z": b}, "t": (b,)}, component(x), component(y))
    assert [one.name for one in made.components] == ["x", "y.z", None]
    assert made.template == {"x": 0, "y": {"z": 1}, "t": (2,)}
    assert made.stage.structure.assemble([1, 2, 3], False) == {"x": 1, "y": {"z": 2}, "t": (3,)}
    for function in (lambda a, b: None, lambda a, b: (), lambda a, b: "x", lambda a, b: {1: a}):
        found = trace(function, [component(x), component(y)], (0, 1))
        assert found.reason.startswith("it returns")
        assert found.where.startswith("test_trace.py:")
        assert "for function in" in found.where


def test_lists_are_arrays():
    """A list is what numpy.asarray makes of it; as a tuple, maps count the outermost one."""
    for one, other in (("f4", "i8"), ("f2", "f4"), ("u8", "i8"), ("?", "u1"), ("i1", "f2"), ("f8", "f8")):
        x, y, z = values(one, (), 1), values(other, (), 2), values(one, (2, 3), 3)
        for function in (
            lambda a, b, c: [a, b],
            lambda a, b, c: ([b], {"k": [[a, b], [b, a], [1, a]]}),
            lambda a, b, c: ([a, 1, True], [a, 2.5], [1, 2], [b] * 16),
            lambda a, b, c: ([c, c], [c[0], c[1] + c[1]], [[c, c], [c, c]]),
            lambda a, b, c: ([a > b, a], [np.float32(3), b]),
        ):
            arrays = [element(array) for array in (x, y, z)]
            made = traced(function, *map(component, (x, y, z)))
            expected = flat(function(*arrays))
            got = made.stage.bind(list(map(component, (x, y, z))))(*map(np.asarray, arrays))
            for have, want in zip(got, expected, strict=True):
                same(have, want)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: [a, b],  # of different shapes
        lambda a, b: ([b"x"], b),
        lambda a, b: [(a, a)],
        lambda a, b: [{"x": a}],
        lambda a, b: [b, [b]],
        lambda a, b: [b] * 17,
        lambda a, b: [b, 2**70],
    ],
)
def test_lists_that_are_none(function):
    x, y = values("f4", (3, 2), 1), values("i8", (), 2)
    assert isinstance(trace(function, [component(x), component(y)], (0, 1)), Untraced)
    assert isinstance(trace(function, [component(x, True), component(y)], (0, 1)), Untraced)


def test_arguments():
    x = Component(np.dtype("f4"), (2,))
    assert isinstance(trace(lambda a, b: a + b, [x, x], (0, 1)), Traced)
    assert isinstance(trace(lambda a, b: a + b[0], [x, x], (0, (1,))), Traced)
    assert isinstance(trace(lambda e: e["a"] + e["b"]["c"], [x, x], {"a": 0, "b": {"c": 1}}), Traced)
    assert isinstance(trace(lambda pair: pair[0] + pair[1], [x, x], (0, 1), unpack=False), Traced)
    assert "raised TypeError" in trace(lambda a: a, [x, x], (0, 1)).reason
    assert isinstance(trace(np.negative, [x], 0), Traced)


def test_strings():
    text = Component(BYTES, (), 8)
    made = trace(lambda e: (e, qc.ops.decode_raw(e, np.uint8) + 1, b"c"), [text], 0)
    step = made.stage.bind([text])
    string, numbers, constant = step(b"abcdefgh")
    assert (string, constant) == (b"abcdefgh", b"c")
    same(numbers, np.frombuffer(b"bcdefghi", np.uint8))
    for function in (len, lambda e: e + b"x", lambda e: e[0], lambda e: e == "x", lambda e: e.decode()):
        found = trace(function, [text], 0)
        assert isinstance(found, Untraced)
    assert "bytes" in trace(lambda e: e == "x", [text], 0).reason


# Batches


def rowwise(function, *components, batch=(None,)):
    made = traced(function, *components, batch=batch)
    return made.stage


@pytest.mark.parametrize("batch", [(None,), (4,), (2, None)])
def test_rowwise(batch):
    x, y = values("f4", (4, 6, 3), 1), values("u1", (4,), 2)
    a, b = Component(x.dtype, (6, 3)), Component(y.dtype, ())
    weights = np.float32([1, 2, 3])

    def good(x, y):
        return (x - weights) / 255, x.astype("f8") + weights[None], y == 3, x[..., 0], qc.ops.cast(x, "f2"), -y

    stage = rowwise(good, a, b, batch=batch)
    assert stage.rowwise
    step = stage.bind([a, b])
    for i in range(4):
        for got, expected in zip(step(x[i], y[i : i + 1].reshape(())), good(x, y), strict=True):
            same(got, expected[i])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x[0],
        lambda x, y: x[::-1],
        lambda x, y: x.T,
        lambda x, y: x[None],
        lambda x, y: x[:2],
        lambda x, y: x[1:],
        lambda x, y: x[:4:2],
        lambda x, y: x * np.ones((4, 1, 1)),
        lambda x, y: qc.ops.scale(y, [1, 2, 3, 4]),
        lambda x, y: y[:, None] + y,
        lambda x, y: (x, 1),
        lambda x, y: x.reshape(-1),
        lambda x, y: x.transpose(1, 0, 2),
    ],
)
def test_not_rowwise(function):
    x, y = values("f4", (4, 6, 3), 1), values("u1", (4,), 2)
    a, b = Component(x.dtype, (6, 3)), Component(y.dtype, ())
    stage = rowwise(function, a, b, batch=(4,))
    assert not stage.rowwise
    for got, expected in zip(stage.bind([component(x), component(y)])(x, y), flat(function(x, y)), strict=True):
        same(got, expected)
    with pytest.raises(InvalidArgumentError, match="was traced for"):
        stage.bind([a, b])


def test_rows_of_other_shapes():
    x = values("f4", (4, 6, 3), 1)
    a = Component(x.dtype, (6, 3))
    for function in (
        lambda x: x.reshape(-1, 18),
        lambda x: x.reshape(4, 2, 9),
        lambda x: qc.ops.reshape(x, (-1, 3, 6)).transpose(0, 2, 1),
        lambda x: qc.ops.transpose(x, (0, 2, 1)) + 1,
    ):
        stage = rowwise(function, a, batch=(4,))
        assert stage.rowwise
        for i in range(4):
            same(stage.bind([a])(x[i])[0], function(x)[i])
            same(stage.bind([component(x)])(x)[0], function(x))
    assert not rowwise(lambda x: x.reshape(-1, 9), a, batch=(4,)).rowwise
    assert not rowwise(lambda x: x.reshape(2, 2, 18), a, batch=(4,)).rowwise


# What must be given up


class Owner:
    count = 0

    def counts(self, x):
        self.count += 1
        return x + self.count


def _global(x):
    global COUNT
    COUNT += 1
    return x + COUNT


COUNT = 0
LIST = [0]


def _list(x):
    LIST[0] += 1
    return x + LIST[0]


def _nonlocal():
    count = 0

    def function(x):
        nonlocal count
        count += 1
        return x + count

    return function


def _caught(x):
    try:
        if x[0, 0] > 3:
            return x
    except BaseException:
        pass
    return x + 1


def _branch(x):
    y = x + 1
    return y if y[0, 0] > 3 else x


GENERATOR = np.random.default_rng(1)
NUMBERS = iter(range(9))


@pytest.mark.parametrize(
    ("function", "reason", "line"),
    [
        (_branch, "the truth", "return y if y[0, 0] > 3"),
        (_caught, "the truth", "if x[0, 0] > 3:"),
        (lambda x: x and 1, "the truth", "lambda x: x and 1"),
        (lambda x: 3 in x, "in", "3 in x"),
        (lambda x: x in (1, 2), "the truth", "in (1, 2)"),
        (lambda x: float(x), "float()", "float(x)"),
        (lambda x: int(x), "int()", "int(x)"),
        (lambda x: [1, 2, 3][x], "an array or a number as an index", "[x]"),
        (lambda x: x[x], "an index that is no constant", "x[x]"),
        (lambda x: x[[0, 1]], "an index that is no constant", "[0, 1]"),
        (lambda x: x[True], "an index that is no constant", "x[True]"),
        (lambda x: x[9], "the index 9", "x[9]"),
        (lambda x: np.arange(3)[x], "an array or a number as an index", "[x]"),
        (lambda x: {x: 1}, "a value as a key", "{x: 1}"),
        (lambda x: np.asarray(x), "numpy.asarray()", "np.asarray(x)"),
        (lambda x: np.sum(x), "numpy.sum", "np.sum(x)"),
        (lambda x: np.add.reduce(x), "numpy.add.reduce", "reduce"),
        (lambda x: np.add(x, 1, dtype="f8"), "numpy.add with dtype", "dtype"),
        (lambda x: x.sum(), "the attribute 'sum'", "x.sum()"),
        (lambda x: x @ x, "@", "x @ x"),
        (lambda x: divmod(x, 2), "divmod()", "divmod"),
        (lambda x: x.astype("c8"), "astype", "c8"),
        (lambda x: x.astype("f4").astype("i4"), "astype from float32 to int32", "i4"),
        (lambda x: np.exp(x[::2]), "numpy.exp of a part", "np.exp"),
        (lambda x: x + 1j, "numpy.add of a complex", "1j"),
        (lambda x: x + 300, "numpy.add", "300"),
        (lambda x: x + "a", "numpy.add of a str", '"a"'),
        (lambda x: x == None, "numpy.equal of a NoneType", "None"),  # noqa: E711
        (lambda x: x + np.ones(4), "numpy.add: dimensions", "np.ones(4)"),
        (lambda x: f"{x}", "format()", 'f"{x}"'),
        (lambda x: print(x), "a call of print()", "print(x)"),
        (lambda x: isinstance(x, np.ndarray), "a question for its type", "isinstance"),
        (lambda x: pickle.dumps(x), "", "pickle"),
        (lambda x: setattr(x, "a", 1), "a call of setattr()", "setattr"),
        (lambda x: np.frompyfunc(abs, 1, 1)(x), "numpy.abs", "frompyfunc"),
        (lambda x: operator.iadd(x, 1), "an operation that changes an array in place", "iadd"),
        (lambda x: operator.iadd(qc.ops.cast(x[0, 0], "f4"), 1), "an operation that changes an array in place", "iadd"),
        (lambda x: operator.imul(np.where(x[0, 0], 1, 2), 2), "an operation that changes an array in place", "imul"),
        (lambda x: operator.setitem(x, 0, 1), "an assignment to a part", "setitem"),
        (lambda x: np.stack([x, x[0]]), "numpy.stack of arrays of several shapes", "np.stack"),
        (lambda x: np.stack([x] * 65), "numpy.stack of 65 arrays", "np.stack"),
        (lambda x: np.stack([x, 1j * np.ones(x.shape)]), "numpy.stack of complex128", "np.stack"),
        (lambda x: operator.iadd(np.stack([x, x]), 1), "an operation that changes an array in place", "iadd"),
        (lambda x: np.size(x, 7), "a dimension's length", "np.size"),
        (lambda x: 1 / 0, "it raised ZeroDivisionError: division by zero", "1 / 0"),
        (lambda x: sys.exit(3), "a call of sys.exit()", "sys.exit"),
        (lambda x: qc.ops.cast(x, "nonsense"), "it raised DtypeError", "nonsense"),
        (lambda x: qc.ops.reshape(x, (5,)), "reshape: expected values", "reshape"),
        (lambda x: qc.ops.random_crop(x, (1, 1), seed=1, element=3), "random_crop with a number", "random_crop"),
        (lambda x: (yield x), "it returns a generator", "yield x"),
        (lambda x: x + random.random(), "it may draw from 'random.random'", "random.random()"),
        (lambda x: x + time.time(), "a call of time.time()", "time.time()"),
        (lambda x: x + next(NUMBERS), "it may advance 'NUMBERS', an iterator", "next(NUMBERS)"),
        (lambda x: x + next(iter([1])), "a call of next()", "next(iter([1]))"),
        (lambda x: x + np.random.rand(), "it may draw from 'np.random.rand'", "np.random.rand()"),
        (lambda x: x + GENERATOR.random(), "it may draw from 'GENERATOR'", "GENERATOR.random()"),
        (_global, "an assignment to a global variable, 'COUNT'", "def _global"),
        (_list, "it changes 'LIST'", "def _list(x):"),
        (_nonlocal(), "an assignment to 'count'", "def function"),
        (lambda x: _list(x), "it changes 'LIST'", "_list(x)"),
        (functools.partial(_list), "it changes 'LIST'", "def _list"),
        (lambda x, seen=[]: (seen.append(x), x)[1], "it changes 'a default'", "seen.append"),  # noqa: B006
        (Owner().counts, "an assignment to an attribute, 'count'", "def counts"),
    ],
)
def test_gives_up(function, reason, line):
    made = trace(function, [Component(np.dtype("u1"), (3, 3))], 0)
    assert isinstance(made, Untraced)
    assert made.reason.startswith(reason), made
    assert line in made.where
    assert made.where.startswith("test_trace.py:")
    assert str(made) == (f"{made.reason} ({made.where})" if made.where else made.reason)


def test_a_symbol_after_its_trace():
    symbols_kept = []

    def assemble(symbols, _):
        symbols_kept.extend(symbols)
        return symbols[0]

    made = trace(lambda x: x if x > 1 else -x, [Component(np.dtype("u1"), ())], 0, assemble=assemble)
    assert isinstance(made, Untraced)
    (symbol,) = symbols_kept
    assert isinstance(symbol, Symbol)
    assert "over" in repr(symbol)
    for use in (lambda: symbol + 1, lambda: bool(symbol), lambda: symbol.foo, lambda: qc.ops.cast(symbol, "f4")):
        with pytest.raises(InvalidArgumentError, match="traced"):
            use()


def test_interrupted():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace(interrupted, [Component(np.dtype("u1"), ())], 0)
    assert sys.getprofile() is None


def test_what_the_garbage_collector_calls_is_not_the_functions():
    def called(phase: str, info: dict[str, int]) -> None:
        global _collections
        _collections += 1

    before = gc.get_threshold()
    gc.callbacks.append(called)
    gc.set_threshold(1)
    try:
        outcome = trace(
            lambda a: [each * 2 for each in [a[i] for i in range(50)]][-1], [component(np.zeros(50, "f4"))], (0,)
        )
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)
    assert isinstance(outcome, Traced), outcome
    assert _collections > 0
    assert gc.isenabled()


_collections = 0


def test_profilers_stay():
    events = []

    def profiler(frame, event, what):
        events.append(event)

    sys.setprofile(profiler)
    try:
        trace(lambda x: x + 1, [Component(np.dtype("u1"), ())], 0)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    profile = cProfile.Profile()
    profile.enable()
    trace(lambda x: x + 1, [Component(np.dtype("u1"), ())], 0)
    len(events)
    profile.disable()
    assert any("len" in str(entry.code) for entry in profile.getstats())
    assert isinstance(trace(lambda x: x + next(NUMBERS), [Component(np.dtype("u1"), ())], 0), Untraced)


def test_what_only_computes_is_no_reason():
    table = {"mean": np.float32(3), "scale": [1, 2, 3]}

    @dataclasses.dataclass
    class Pair:
        first: object
        second: object

    def helper(value, names):
        pair = Pair(value, sorted(names))
        return pair.first * len(pair.second) + math.sqrt(4) + max(table["scale"])

    def function(record):
        record = dict(record)
        label = record.pop("label")
        record["image"] = helper(record["image"] - table["mean"], ["b", "a"])
        record |= {str(i): np.arange(4).reshape(2, 2)[i] * label for i in range(2)}
        return {name: value for name, value in sorted(record.items()) if isinstance(name, str)}

    components = [Component(np.dtype("f4"), (3, 2)), Component(np.dtype("i8"), ())]
    made = trace(functools.partial(function), components, {"image": 0, "label": 1})
    assert isinstance(made, Traced), made
    arrays = values("f4", (3, 2), 1), values("i8", (), 2)
    expected = flat(function({"image": arrays[0], "label": element(arrays[1])}))
    for got, one in zip(made.stage.bind(components)(*arrays), expected, strict=True):
        same(got, one)


def test_numbers_change_names_in_place():
    def function(x):
        x += 1
        x *= 2
        return x

    check(function, values("u1", (), 1))


def test_constants_are_taken_as_they_are():
    table = np.arange(3)
    made = trace(lambda x: x + table, [Component(np.dtype("u1"), (3,))], 0)
    table[:] = 9
    same(made.stage.bind([Component(np.dtype("u1"), (3,))])(np.zeros(3, np.uint8))[0], np.arange(3))


@pytest.mark.thorough
def test_same_words_in_every_process():
    script = (
        "import numpy as np; from queuecore._trace.trace import trace; from queuecore.ops import Component\n"
        "f = lambda x, y: {'a': (x[::2] / np.arange(40.)) * x[0], 'b': (y.T, y.T + 1, b'x' * 99)}\n"
        "c = [Component(np.dtype('f4'), (80,)), Component(np.dtype('f4'), (2, 3))]\n"
        "print(trace(f, c, (0, 1)).stage)"
    )
    command = [sys.executable, "-P", "-c", script]
    texts = {
        subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in "12"
    }
    assert len(texts) == 1
    f4 = Component(np.dtype("f4"), (80,))
    texts = [
        repr(trace(function, [f4], 0).stage)
        for function in (
            lambda x: x + 1,
            lambda x: x + 2,
            lambda x: x - 1,
            lambda x: x[1:] + 1,
            lambda x: x[2:] + 1,
            lambda x: x[::-1],
            lambda x: x + np.arange(80),
            lambda x: x + np.arange(80)[::-1],
            lambda x: (x,),
            lambda x: {"x": x},
            lambda x: x.reshape(8, 10),
            lambda x: x.reshape(10, 8),
        )
    ]
    assert len(set(texts)) == len(texts)
    assert len(repr(trace(lambda x: [x := x + x for _ in range(40)][-1], [f4], 0))) < 5000


def test_a_numpy_that_tells_nothing():
    from queuecore._trace import lower

    class Add:
        __name__ = "add"

    with pytest.raises(ValueError, match="doesn't tell"):
        lower._loop(Add(), (np.dtype("f4"),) * 3)
    step = lower.ExprStep
    with pytest.raises(ValueError, match="incorrect name|PyCapsule"):
        component = Component(np.dtype("f4"), (3,))
        leaf = (0, 4, [0], [1], [0], [3])
        step((component,), component, [leaf], [4], [-1], [("call", object(), [0, -1])], [(3, -1, -1)])
