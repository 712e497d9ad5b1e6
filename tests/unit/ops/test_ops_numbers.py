"""Operations on numbers: against NumPy; and chains of them against the same one by one."""

import warnings

import numpy as np
import pytest
from helpers.process import PATIENCE
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import queuecore as qc
from queuecore._core.steps.elementwise import ChainStep
from queuecore._core.steps.stages import SequenceStep
from queuecore.errors import DtypeError, InvalidArgumentError, ResourceExhaustedError, ResumeMismatchError
from queuecore.ops import Component, compose

CODES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
OTHERS = [*CODES, "c8", "c16"]
TILE = 2048


def values(code, shape, seed=0):
    """Numbers of a dtype: for floats such that fit into every integer dtype."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(code)
    if dtype.kind in "fc":
        return np.asarray(rng.integers(0, 1000, shape) / 8).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True), dtype)


def run(stage, array, **options):
    step = stage.bind([Component(array.dtype, array.shape)])
    (result,) = step(array, **options)
    (component,) = step.outputs
    assert (result.dtype, result.shape) == (component.dtype, component.shape)
    # With nothing known beforehand it is the same.
    (again,) = stage.bind([Component(array.dtype, None)])(array, **options)
    assert again.dtype == result.dtype and again.shape == result.shape and again.tobytes() == result.tobytes()
    return result


def same(got, expected):
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected, strict=True)
    assert got.flags.c_contiguous and got.flags.aligned and got.flags.writeable


# Casts


@pytest.mark.sampled(8)
@pytest.mark.parametrize("to", CODES)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (TILE - 1,), (TILE,), (3, TILE + 1)])
def test_cast(code, to, shape):
    array = values(code, shape)
    if to[0] in "iu?" and np.dtype(code).kind == "f" and np.dtype(to).itemsize == 1:
        array = np.minimum(array, 127).astype(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # large integers as float16
        same(qc.ops.cast(array, to), array.astype(to))


def test_cast_truncates_and_knows_no_number():
    given_ = np.array([-1.9, -0.5, 0.5, 1.9, np.nan, np.inf, -0.0])
    same(qc.ops.cast(given_[:4], np.int8), np.array([-1, 0, 0, 1], np.int8))
    same(qc.ops.cast(given_, bool), np.array([True] * 6 + [False]))
    same(qc.ops.cast(given_, np.float16), given_.astype(np.float16))
    same(qc.ops.cast(np.array([300, -1], np.int16), np.uint8), np.array([44, 255], np.uint8))


def halves():
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def chain_of(array, *links, portable):
    made = {"f2": np.float16, "f4": np.float32, "f8": np.float64}[links[-1]]
    codes = {"f2": 9, "f4": 10, "f8": 11}
    link = ("cast", codes[array.dtype.str[1:]], codes[links[-1]], np.dtype(made).itemsize)
    step = ChainStep(
        (Component(array.dtype, array.shape),), (Component(np.dtype(made), array.shape),), [link], portable
    )
    return step(array)[0]


@pytest.mark.parametrize("portable", [False, True])
def test_every_half(portable):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for to in ("f4", "f8"):
            same(chain_of(halves(), to, portable=portable), halves().astype(to))


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("code", ["f4", "f8"])
def test_halves_round_to_nearest_even(code, portable):
    """Every half, the middle between it and the next one, and the neighbours of that."""
    finite = halves()[np.isfinite(halves())].astype(code)
    positive = np.unique(np.abs(finite))
    middles = (positive[1:] + positive[:-1]) / 2
    info = np.finfo(code)
    edges = np.concatenate([middles, np.array([65519, 65520, 65521, 1e30, info.max / 2, info.tiny], code)])
    nothing, endless = np.array(0, code), np.array(np.inf, code)
    around = np.concatenate([finite, edges, np.nextafter(edges, nothing), np.nextafter(edges, endless)])
    around = np.concatenate([around, np.array([np.inf, np.nan, info.max, info.smallest_subnormal], code)])
    around = np.concatenate([around, -around])
    with np.errstate(over="ignore", under="ignore"):
        expected = around.astype(np.float16)
    got = chain_of(around, "f2", portable=portable)
    number = ~np.isnan(expected)
    assert (np.isnan(got) == ~number).all()
    assert got[number].tobytes() == expected[number].tobytes()


@settings(deadline=None)
@given(
    array=hnp.arrays(
        st.sampled_from([np.dtype(code) for code in CODES if code not in ("f2", "f4", "f8")]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0),
    ),
    to=st.sampled_from(CODES),
)
def test_cast_of_any_integers(array, to):
    with np.errstate(over="ignore"):
        same(qc.ops.cast(array, to), array.astype(to))


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a.T, lambda a: a.astype(">i4"), lambda a: a.tolist()])
def test_input_of_any_layout(view):
    array = view(np.arange(12, dtype=np.int32).reshape(4, 3))
    same(qc.ops.cast(array, np.float32), np.asarray(array).astype(np.float32))


# Scales


def scaled(array, a, b, dtype):
    dtype = np.dtype(dtype)
    wide = any(one.str[1:] in ("i4", "u4", "i8", "u8", "f8") for one in (array.dtype, dtype))
    between = np.float64 if wide else np.float32
    return (array.astype(between) * np.asarray(a, between) + np.asarray(b, between)).astype(dtype)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("to", ["f2", "f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("shape", [(3,), (0, 3), (TILE // 3 + 2, 3)])
def test_scale(code, to, vector, shape):
    array = values(code, shape)
    a, b = ([0.5, 1 / 3, 0.001], [1.5, 0.25, 7]) if vector else (1 / 3, 0.75)
    if to == "i4":
        array = np.minimum(array, array.dtype.type(100))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if to == "i8" and np.dtype(code).itemsize == 8:
            a = np.asarray(a) / 4
        if to == "f2":
            array = np.minimum(array, array.dtype.type(100))
        same(qc.ops.scale(array, a, b, to), scaled(array, a, b, to))


def test_scale_makes_float32():
    assert qc.ops.scale(np.array([1, 2], np.uint8)).dtype == np.float32
    same(qc.ops.scale(3, 2, 1), np.float32(7)[()].reshape(()))
    same(qc.ops.scale([[1, 2]], [1, 2], 5), np.array([[6, 9]], np.float32))
    same(qc.ops.scale([[1, 2]], 2, [5, 6]), np.array([[7, 10]], np.float32))


@pytest.mark.parametrize("channels", [1, 2, 7, 1000, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
def test_scale_by_many_channels(channels):
    array = values("u1", (5, channels))
    a, b = np.arange(channels) / 7, np.arange(channels) / 3
    same(qc.ops.scale(array, a, b), scaled(array, a, b, "f4"))


# Shapes


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_transpose(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=7))
    array = values(data.draw(st.sampled_from(OTHERS)), shape)
    perm = data.draw(st.permutations(range(array.ndim)))
    same(run(qc.ops.transpose(perm=perm), array), array.transpose(perm).copy("C"))


@pytest.mark.parametrize("code", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((224, 223, 3), (2, 0, 1)),
        ((3, 224, 223), (1, 2, 0)),
        ((2, 50, 60, 4), (0, 3, 1, 2)),
        ((3, 50, 60, 3), (0, 3, 1, 2)),
        ((2, 3, 50, 60), (0, 2, 3, 1)),
        ((7, 1, 3), (2, 0, 1)),
        ((3, 7, 1), (1, 2, 0)),
        ((300, TILE + 3), (1, 0)),
        ((TILE + 3, 5), (1, 0)),
        ((4, 17, 33, 65), (2, 0, 3, 1)),
    ],
)
def test_transpose_of_larger_arrays(code, shape, perm):
    array = values(code, shape)
    same(qc.ops.transpose(array, perm), np.ascontiguousarray(array.transpose(perm)))
    same(qc.ops.transpose(array), np.ascontiguousarray(array.T))


@settings(deadline=None)
@given(data=st.data())
def test_reshape(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, max_side=6))
    array = values(data.draw(st.sampled_from(OTHERS)), shape)
    target = data.draw(st.permutations(shape))
    same(run(qc.ops.reshape(shape=target), array), array.reshape(target))
    if target:
        target[data.draw(st.integers(0, len(target) - 1))] = -1
        same(run(qc.ops.reshape(shape=target), array), array.reshape(target))


def test_reshape_is_a_copy():
    array = np.arange(4)
    qc.ops.reshape(array, (2, 2))[0, 0] = 9
    assert array.tolist() == [0, 1, 2, 3]
    same(qc.ops.reshape([7], ()), np.array(7))
    same(qc.ops.reshape(np.zeros((0, 3)), (3, -1)), np.zeros((3, 0)))
    same(qc.ops.reshape(range(4), -1), np.arange(4))


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_pad(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = values(data.draw(st.sampled_from(OTHERS)), shape)
    pairs = [data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in shape]
    constant = data.draw(st.integers(0, 1))
    expected = np.pad(array, pairs, constant_values=constant) if shape else array
    same(run(qc.ops.pad(paddings=pairs, constant=constant), array), expected)


REPEATING = ["edge", "reflect", "symmetric"]


def walked(side, before, after, mode):
    """Where each item of a padded axis comes from: walked over and over from its beginning."""
    if mode == "edge":
        return [0] * before + list(range(side)) + [side - 1] * after
    back = range(side - 2, 0, -1) if mode == "reflect" else range(side - 1, -1, -1)
    lap = [*range(side), *back]
    return [lap[place % len(lap)] for place in range(-before, side + after)]


@pytest.mark.thorough
@settings(deadline=None, max_examples=400)
@given(data=st.data())
def test_pad_that_repeats(data):
    mode = data.draw(st.sampled_from(REPEATING))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5))
    array = values(data.draw(st.sampled_from(OTHERS)), shape)
    widths = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 13))
    pairs = [(data.draw(widths), data.draw(widths)) if side else (0, 0) for side in shape]
    expected = array
    for axis, (side, (before, after)) in enumerate(zip(shape, pairs, strict=True)):
        expected = expected.take(np.array(walked(side, before, after, mode), int), axis)
    # Up to 2.2 NumPy loses its way in paddings that are several times as long as the axis.
    short = all(max(pair) < side or not max(pair) for side, pair in zip(shape, pairs, strict=True))
    if shape and (short or np.lib.NumpyVersion(np.__version__) >= "2.3.0"):
        np.testing.assert_array_equal(expected, np.pad(array, pairs, mode))
    same(run(qc.ops.pad(paddings=pairs, mode=mode), array), np.ascontiguousarray(expected).reshape(expected.shape))


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("mode", REPEATING)
def test_pad_that_repeats_pictures(mode, code):
    for shape, pairs in (
        ((2, 30, 41, 3), [(0, 0), (4, 7), (0, 9), (0, 0)]),
        ((2, 30, 41, 3), [(3, 0), (4, 7), (5, 9), (0, 1)]),
        ((5000,), [(4999, 1)]),
        ((3, 1, 2), [(2, 2), (6, 5), (0, 1)]),
        ((1,) * 32, [(0, 1), *[(0, 0)] * 30, (1, 1)]),
    ):
        array = values(code, shape)
        same(run(qc.ops.pad(paddings=pairs, mode=mode), array), np.pad(array, pairs, mode))
        same(qc.ops.pad(array, pairs, mode=mode), np.pad(array, pairs, mode))


@pytest.mark.parametrize("mode", REPEATING)
def test_pad_of_nothing(mode):
    empty = np.zeros((3, 0), "i4")
    same(run(qc.ops.pad(paddings=[(1, 2), (0, 0)], mode=mode), empty), np.pad(empty, [(1, 2), (0, 0)], mode))
    same(run(qc.ops.pad(paddings=[], mode=mode), np.array(7)), np.array(7))


def test_pad_in_a_dataset():
    rows = values("u1", (40, 6, 5, 3))
    pairs = [(2, 3), (0, 9), (0, 0)]
    ds = qc.data.Dataset.from_tensor_slices(rows)
    expected = np.pad(rows, [(0, 0), *pairs], "reflect")
    for made in (
        ds.map(qc.ops.pad(paddings=pairs, mode="reflect"), 2),
        ds.map(lambda x: qc.ops.pad(x, pairs, mode="reflect"), 2),
    ):
        assert "native" in made.plan().splitlines()[0]
        np.testing.assert_array_equal(np.concatenate([batch.copy() for batch in made.batch(7)]), expected)
    constant, edge = (ds.map(qc.ops.pad(paddings=pairs, **options)) for options in ({}, {"mode": "edge"}))
    iterator = iter(edge)
    next(iterator)
    with pytest.raises(ResumeMismatchError, match="mode='edge'"):
        iter(constant).load_state_dict(iterator.state_dict())
    # As it was before there were modes.
    assert repr(qc.ops.pad(paddings=pairs, constant=7)) == "pad([[2, 3], [0, 9], [0, 0]])"


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_slice(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = values(data.draw(st.sampled_from(OTHERS)), shape)
    begin = [data.draw(st.integers(0, side)) for side in shape]
    size = [data.draw(st.integers(-1, side - at)) for side, at in zip(shape, begin, strict=True)]
    part = tuple(slice(at, at + length if length >= 0 else None) for at, length in zip(begin, size, strict=True))
    same(run(qc.ops.slice(begin=begin, size=size), array), np.array(array[part]))


@pytest.mark.parametrize("code", [code for code in CODES if code[0] in "iu"])
@pytest.mark.parametrize("to", CODES)
def test_one_hot(code, to):
    array = values(code, (3, 100)) // np.dtype(code).type(3)
    array[0, :7] = range(7)
    expected = np.where(array[..., None] == np.arange(5), 1, 0).astype(to)
    same(run(qc.ops.one_hot(depth=5, dtype=to), array), expected)


def test_one_hot_with_values():
    same(qc.ops.one_hot(1, 3, 0.5, -1), np.array([-1, 0.5, -1], np.float32))
    same(qc.ops.one_hot([-1, 3], 3, dtype=np.uint8), np.zeros((2, 3), np.uint8))
    same(qc.ops.one_hot(np.array([2**64 - 1], np.uint64), 3), np.zeros((1, 3), np.float32))
    same(qc.ops.one_hot([0], 0), np.zeros((1, 0), np.float32))
    same(qc.ops.one_hot(np.zeros((0, 2), int), 3), np.zeros((0, 2, 3), np.float32))


# Chains


@st.composite
def chains(draw):
    """A shape and links of which each fits what the one before it makes."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=6))
    now, links = list(shape), []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["cast", "scale", "channels", "reshape", "transpose"]))
        if kind == "cast":
            links.append(qc.ops.cast(dtype=draw(st.sampled_from(["i2", "u2", "i8", "f2", "f4", "f8"]))))
        elif kind == "scale":
            dtype = draw(st.sampled_from(["f2", "f4", "f8"]))
            links.append(qc.ops.scale(a=draw(st.floats(-1, 1)), b=draw(st.floats(-9, 9)), dtype=dtype))
        elif kind == "channels" and now:
            a = draw(st.lists(st.floats(-1, 1), min_size=now[-1], max_size=now[-1]))
            links.append(qc.ops.scale(a=a, b=draw(st.floats(-9, 9))))
        elif kind == "reshape":
            now = draw(st.permutations(now)) if draw(st.booleans()) else [int(np.prod(now))]
            links.append(qc.ops.reshape(shape=now))
        elif kind == "transpose":
            perm = draw(st.permutations(range(len(now))))
            now = [now[axis] for axis in perm]
            links.append(qc.ops.transpose(perm=perm))
    return shape, links or [qc.ops.cast(dtype=np.float32)]


@pytest.mark.thorough
@settings(deadline=None, max_examples=500)
@given(chain=chains(), code=st.sampled_from(["u1", "i2", "f4", "f8"]), seed=st.integers(0, 99))
def test_a_chain_is_its_links_one_by_one(chain, code, seed):
    shape, links = chain
    array = expected = values(code, shape, seed)
    for link in links:
        expected = run(link, expected)
    got = run(compose(*links), array)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(64, 48, 3), (3, TILE + 1, 5), (2, 3, TILE), (1, 5, 3), (3, 5, 7)])
@pytest.mark.parametrize("perm", [(2, 0, 1), (1, 2, 0), (0, 2, 1), (0, 1, 2)])
def test_a_longer_chain(shape, perm):
    array = values("u1", shape)
    channels = np.arange(1, shape[-1] + 1)
    links = [
        qc.ops.scale(a=1 / channels, b=channels),
        qc.ops.scale(a=channels, dtype=np.float64),
        qc.ops.transpose(perm=perm),
        qc.ops.scale(a=np.arange(shape[perm[-1]]), b=0.5),
        qc.ops.cast(dtype=np.float16),
        qc.ops.reshape(shape=(-1,)),
    ]
    expected = array
    for link in links:
        expected = run(link, expected)
    step = compose(*links).bind([Component(array.dtype, shape)])
    assert isinstance(step, ChainStep)
    assert step(array)[0].tobytes() == expected.tobytes()


def test_what_shares_a_pass():
    image = [Component(np.dtype("u1"), (3072,))]
    chw = [qc.ops.reshape(shape=(3, 32, 32)), qc.ops.transpose(perm=(1, 2, 0))]
    numbers = [qc.ops.cast(dtype=np.float32), qc.ops.scale(a=[1, 2, 3])]
    assert isinstance(compose(*chw, *numbers).bind(image), ChainStep)
    assert isinstance(compose(compose(*chw), compose(*numbers)).bind(image), ChainStep)
    twice = compose(*chw, *numbers, qc.ops.transpose(perm=(2, 0, 1)))
    assert isinstance(twice.bind(image), SequenceStep)
    # A scale of an axis that is taken apart before it is turned.
    apart = compose(
        qc.ops.scale(a=np.arange(3072)), qc.ops.reshape(shape=(3, 32, 32)), qc.ops.transpose(perm=(1, 2, 0))
    )
    assert isinstance(apart.bind(image), SequenceStep)
    assert isinstance(compose(*chw, qc.ops.pad(paddings=[(1, 1)] * 3)).bind(image), SequenceStep)
    many = compose(*[qc.ops.scale(a=2)] * 100)
    assert isinstance(many.bind(image), SequenceStep)
    assert repr(compose(*chw)) == "compose(reshape([3, 32, 32]), transpose([1, 2, 0]))"


def test_the_name_of_a_component_stays():
    given_ = Component(np.dtype("u1"), (4, 4, 3), name="image")
    stages = [
        compose(qc.ops.cast(dtype="f4"), qc.ops.transpose(perm=(2, 0, 1)), qc.ops.transpose(perm=(2, 0, 1))),
        qc.ops.pad(paddings=[(1, 1)] * 3),
        qc.ops.slice(begin=[0] * 3, size=[1] * 3),
        qc.ops.one_hot(depth=3),
        qc.ops.resize(size=(2, 2)),
        qc.ops.random_crop(size=(1, 1, 1), seed=1),
        qc.ops.random_flip_left_right(seed=1),
        qc.ops.adjust_hue(delta=0.1),
    ]
    for stage in stages:
        assert stage.bind([given_]).outputs[0].name == "image"


def test_faults_of_a_sequence_name_their_step():
    stage = compose(qc.ops.pad(paddings=[(0, 1)]), qc.ops.slice(begin=[0], size=[3]), qc.ops.pad(paddings=[(0, 1)]))
    step = stage.bind([Component(np.dtype("i4"), None)])
    assert step(np.arange(2, dtype="i4"))[0].tolist() == [0, 1, 0, 0]
    with pytest.raises(InvalidArgumentError, match=r"slice: axis 0 is 2 long, and has no part \[0, 3\)"):
        step(np.arange(1, dtype="i4"))
    with pytest.raises(InvalidArgumentError, match="pad: expected 1 dimensions, got 2"):
        step(np.zeros((1, 1), "i4"))


RECORD = np.dtype([("label", "<i4"), ("image", "u1", (3, 4)), ("rest", "u1", 5)])


@pytest.mark.parametrize("component", ["image", 1])
def test_one_component_of_several(tmp_path, component):
    rows = np.frombuffer(values("u1", (30, RECORD.itemsize)).tobytes(), RECORD)
    path = tmp_path / "rows"
    path.write_bytes(rows.tobytes())
    ops = [
        qc.ops.decode_raw(out_type=RECORD),
        qc.ops.on(component, qc.ops.transpose(perm=(1, 0)), qc.ops.pad(paddings=[(0, 1), (0, 0)]), qc.ops.scale(a=2)),
        qc.ops.on("label", qc.ops.one_hot(depth=3, dtype="u1")),
    ]
    image = np.pad(rows["image"].transpose(0, 2, 1).astype("f4") * 2, [(0, 0), (0, 1), (0, 0)])
    label = rows["label"][:, None] == np.arange(3)
    program = qc.StageProgram(qc.FixedLengthRecordReader(RECORD.itemsize), [path], *ops)
    assert [(one.name, one.shape) for one in program.outputs] == [("label", (3,)), ("image", (5, 3)), ("rest", (5,))]
    queue = qc.FIFOQueue(50, ["u1", "u1", "f4"], [(5,), (3,), (5, 3)], names=["rest", "label", "image"])
    coord = qc.Coordinator()
    coord.join(qc.QueueRunner(queue, [program]).create_threads(coord, start=True))
    got = queue.dequeue_many(30, timeout=PATIENCE)
    for name, expected in (("rest", rows["rest"]), ("label", label), ("image", image)):
        np.testing.assert_array_equal(got[name], expected)


def test_components_that_are_not_there():
    components = [Component(np.dtype("u1"), (3,), name="a"), Component(np.dtype("S"), ())]
    with pytest.raises(InvalidArgumentError, match="one of the components .'a', None., got 'b'"):
        qc.ops.on("b", qc.ops.scale()).bind(components)
    with pytest.raises(InvalidArgumentError, match="a place below 2, got 2"):
        qc.ops.on(2, qc.ops.scale()).bind(components)
    with pytest.raises(InvalidArgumentError, match="at least one stage"):
        qc.ops.on("a")
    step = qc.ops.on(1, qc.ops.decode_raw(out_type="i2")).bind(components)
    given_ = np.array([1, 2, 3], "u1")
    got = step(given_, b"\1\0")
    assert got[0].tolist() == [1, 2, 3] and got[0] is not given_
    assert got[1].tolist() == [1]
    with pytest.raises(InvalidArgumentError, match="decode_raw: the input has 3 bytes"):
        compose(qc.ops.on(1, qc.ops.decode_raw(out_type="i2")), qc.ops.on(0, qc.ops.scale())).bind(components)(
            given_, b"abc"
        )


def test_faults_of_nested_sequences_name_their_step():
    inner = [qc.ops.pad(paddings=[(0, 1)]), qc.ops.slice(begin=[0], size=[3])]
    outer = compose(qc.ops.pad(paddings=[(0, 0)]), qc.ops.on(0, *inner))
    with pytest.raises(InvalidArgumentError, match=r"slice: axis 0 is 2 long, and has no part \[0, 3\)"):
        outer.bind([Component(np.dtype("i4"), None)])(np.zeros(1, "i4"))


def test_too_many_steps():
    stage = compose(*[qc.ops.pad(paddings=[(0, 0)])] * 254)
    assert stage.bind([Component(np.dtype("i4"), None)])(np.arange(3, dtype="i4"))[0].tolist() == [0, 1, 2]
    with pytest.raises(InvalidArgumentError, match="255 steps; at most 254"):
        compose(stage, qc.ops.pad(paddings=[(0, 0)])).bind([Component(np.dtype("i4"), None)])


# In a stage program


def test_a_program(tmp_path):
    """CIFAR's layout: a record's bytes become a picture of floats, in one native thread or several."""
    rows = values("u1", (20, 3072))
    path = tmp_path / "images"
    path.write_bytes(rows.tobytes())
    mean, spread = [0.5, 0.4, 0.3], [4, 5, 6]
    ops = [
        qc.ops.decode_raw(out_type=np.uint8),
        qc.ops.reshape(shape=(3, 32, 32)),
        qc.ops.transpose(perm=(1, 2, 0)),
        qc.ops.cast(dtype=np.float32),
        qc.ops.scale(a=spread, b=mean),
    ]
    expected = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype("f4") * np.float32(spread) + np.float32(mean)
    queues = [qc.FIFOQueue(50, [np.float32], [(32, 32, 3)]), qc.PaddingFIFOQueue(50, [np.float32], [(None, 32, 3)])]
    for queue in queues:
        program = qc.StageProgram(qc.FixedLengthRecordReader(3072), [path], *ops)
        assert program.outputs == (Component(np.dtype("f4"), (32, 32, 3)),)
        coord = qc.Coordinator()
        threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
        coord.join(threads)
        same(queue.dequeue_many(20, timeout=PATIENCE), expected)


def test_a_program_says_which_record(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"abcd\nabcdef\n")
    queue = qc.FIFOQueue(50, [np.float32], [(2, 2)])
    program = qc.StageProgram(
        qc.TextLineReader(),
        [path],
        qc.ops.decode_raw(out_type=np.uint8),
        qc.ops.reshape(shape=(2, 2)),
        qc.ops.scale(a=2),
    )
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    with pytest.raises(InvalidArgumentError, match=r"shape \[2, 2\], got 6 values .record 1 of"):
        coord.join(threads)
    assert queue.dequeue(timeout=PATIENCE).tolist() == [[194, 196], [198, 200]]


# Bad input


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda o: o.cast([1], "S1"), DtypeError, "cast: expected booleans, integers or floats.*got bytes"),
        (lambda o: o.cast([1], "c8"), DtypeError, "got complex64"),
        (lambda o: o.cast([1], np.longdouble), DtypeError, "at most 64 bits"),
        (lambda o: o.cast([1j], "f4"), DtypeError, "got complex128"),
        (lambda o: o.cast([1], "nonsense"), DtypeError, "no dtype"),
        (lambda o: o.cast([1]), InvalidArgumentError, "dtype is missing"),
        (lambda o: o.cast(["a"], "f4"), DtypeError, "expected numbers, got <U1"),
        (lambda o: o.cast([b"a"], "f4"), DtypeError, "expected numbers, got bytes"),
        (lambda o: o.cast([None], "f4"), DtypeError, "expected numbers, got objects"),
        (lambda o: o.cast([[1], [1, 2]], "f4"), InvalidArgumentError, "cast: "),
        (lambda o: o.scale([[1, 2, 3]], [1, 2]), InvalidArgumentError, r"expected 2 channels.*got shape \[1, 3\]"),
        (lambda o: o.scale(1, [1]), InvalidArgumentError, r"expected 1 channels.*got shape \[\]"),
        (lambda o: o.scale([1, 2], [1, 2], [1, 2, 3]), InvalidArgumentError, "got 2 in a and 3 in b"),
        (lambda o: o.scale([1], "x"), InvalidArgumentError, "a must be a number or a vector, not 'x'"),
        (lambda o: o.scale([1], 1, [[1]]), InvalidArgumentError, r"vector as b, got shape \[1, 1\]"),
        (lambda o: o.scale([1], []), InvalidArgumentError, r"got shape \[0\]"),
        (lambda o: o.reshape([1, 2, 3], (2, 2)), InvalidArgumentError, r"shape \[2, 2\], got 3 values"),
        (lambda o: o.reshape([1, 2, 3], (2, -1)), InvalidArgumentError, r"shape \[2, -1\], got 3 values"),
        (lambda o: o.reshape(np.zeros(0), (0, -1)), InvalidArgumentError, r"shape \[0, -1\], got 0 values"),
        (lambda o: o.reshape([1], (-1, -1)), InvalidArgumentError, "-1 once at most"),
        (lambda o: o.reshape([1], (-2,)), InvalidArgumentError, "below -1"),
        (lambda o: o.reshape([1], (1.0,)), InvalidArgumentError, "must be an integer, not 1.0"),
        (lambda o: o.reshape([1], (True,)), InvalidArgumentError, "must be an integer, not True"),
        (lambda o: o.reshape([1], 1.5), InvalidArgumentError, "sequence of integers, not 1.5"),
        (lambda o: o.reshape([1], (2**62, 4)), InvalidArgumentError, "too large"),
        (lambda o: o.reshape([1], (2**70,)), InvalidArgumentError, "out of range"),
        (lambda o: o.reshape([1], [1] * 33), InvalidArgumentError, "33 dimensions; at most 32"),
        (lambda o: o.reshape([1]), InvalidArgumentError, "shape is missing"),
        (lambda o: o.transpose([[1]], (0, 0)), InvalidArgumentError, r"each axis once in perm, got \[0, 0\]"),
        (lambda o: o.transpose([[1]], (0,)), InvalidArgumentError, r"expected 1 dimensions, got shape \[1, 1\]"),
        (lambda o: o.transpose(), InvalidArgumentError, "perm is missing"),
        (lambda o: o.pad([1], [(1, 1), (1, 1)]), InvalidArgumentError, r"expected 2 dimensions, got shape \[1\]"),
        (lambda o: o.pad([1], [(1,)]), InvalidArgumentError, "two numbers for each axis"),
        (lambda o: o.pad([1], 7), InvalidArgumentError, "two numbers for each axis"),
        (lambda o: o.pad([1], [(-1, 1)]), InvalidArgumentError, "below 0"),
        (lambda o: o.pad(np.array([1], "u1"), [(1, 1)], 256), InvalidArgumentError, "constant is no uint8"),
        (lambda o: o.pad([1], [(1, 1)], "x"), InvalidArgumentError, "constant is no int64"),
        (lambda o: o.pad([1], [(1, 1)], [1, 2]), InvalidArgumentError, "must be one number"),
        (lambda o: o.pad([1], [(2**62, 2**62)]), InvalidArgumentError, "too large"),
        (lambda o: o.pad([1]), InvalidArgumentError, "paddings is missing"),
        (lambda o: o.pad([1], [(1, 1)], mode="wrap"), InvalidArgumentError, r"one of \['constant', .*got 'wrap'"),
        (lambda o: o.pad([1], [(1, 1)], mode=np.array(["edge", "edge"])), InvalidArgumentError, "as mode, got array"),
        (lambda o: o.pad([1], [(1, 1)], 1, "edge"), InvalidArgumentError, "the mode is 'edge': leave it out"),
        (lambda o: o.pad([1], [(1, 1)], [0, 0], "edge"), InvalidArgumentError, "the mode is 'edge': leave it out"),
        (lambda o: o.pad([[], []], [(1, 1), (1, 0)], mode="edge"), InvalidArgumentError, "axis 1 is empty.*'edge'"),
        (lambda o: o.pad([[], []], [(0, 0), (0, 1)], mode="reflect"), InvalidArgumentError, "use mode 'constant'"),
        (lambda o: o.pad([1], [(2**62, 2**62)], mode="reflect"), InvalidArgumentError, "too large"),
        (lambda o: o.slice([1, 2], [1], [2]), InvalidArgumentError, r"axis 0 is 2 long, and has no part \[1, 3\)"),
        (lambda o: o.slice([1, 2], [3], [-1]), InvalidArgumentError, "axis 0 is 2 long, and has no part from 3 on"),
        (lambda o: o.slice([1, 2], [0], [1, 1]), InvalidArgumentError, "as many sizes as begins, got 2 and 1"),
        (lambda o: o.slice([1, 2], [-1], [1]), InvalidArgumentError, "below 0"),
        (lambda o: o.slice([[1, 2]], [0], [1]), InvalidArgumentError, r"expected 1 dimensions, got shape \[1, 2\]"),
        (lambda o: o.one_hot([1.5], 3), DtypeError, "expected integers, got float64"),
        (lambda o: o.one_hot([1], -1), InvalidArgumentError, "must not be negative, and is -1"),
        (lambda o: o.one_hot([1]), InvalidArgumentError, "depth is missing"),
        (lambda o: o.one_hot([1], 3, 1.5, dtype=[("a", "i4")]), DtypeError, "expected booleans"),
        (lambda o: o.one_hot([1], 3, "x"), InvalidArgumentError, "on_value is no float32"),
        (lambda o: o.one_hot(np.zeros((1,) * 32, int), 3), InvalidArgumentError, "33 dimensions; at most 32"),
        (lambda o: o.one_hot([1], 2**62), InvalidArgumentError, "too large"),
        (lambda o: o.compose(), InvalidArgumentError, "at least one stage"),
        (lambda o: o.compose(len), InvalidArgumentError, "expected stages, got <built-in"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(qc.ops)


@pytest.mark.parametrize(
    ("stage", "array", "words"),
    [
        (lambda o: o.scale(a=[1, 2]), [[1, 2, 3]], "expected 2 channels on the last axis, got 3"),
        (lambda o: o.scale(a=[1, 2]), 1, "expected 2 channels on the last axis, got 0"),
        (lambda o: o.reshape(shape=(2, 2)), [1, 2, 3], r"shape \[2, 2\], got 3 values"),
        (lambda o: o.reshape(shape=(2, -1)), [1, 2, 3], r"shape \[2, -1\], got 3 values"),
        (lambda o: o.transpose(perm=(1, 0)), [1], "expected 2 dimensions, got 1"),
        (lambda o: o.pad(paddings=[(1, 1)]), [[1]], "expected 1 dimensions, got 2"),
        (lambda o: o.pad(paddings=[(1, 1)], mode="edge"), [[1]], "expected 1 dimensions, got 2"),
        (lambda o: o.pad(paddings=[(1, 0), (0, 1)], mode="reflect"), [[], []], "axis 1 is empty.*mode 'reflect'"),
        (lambda o: o.slice(begin=[1], size=[2]), [1, 2], r"axis 0 is 2 long, and has no part \[1, 3\)"),
        (lambda o: o.slice(begin=[3], size=[-1]), [1, 2], "axis 0 is 2 long, and has no part from 3 on"),
        (lambda o: o.slice(begin=[1], size=[1]), 1, "expected 1 dimensions, got 0"),
    ],
)
def test_what_only_the_element_shows(stage, array, words):
    array = np.asarray(array)
    step = stage(qc.ops).bind([Component(array.dtype, None)])
    with pytest.raises(InvalidArgumentError, match=words):
        step(array)


def test_more_than_memory_can_be():
    pad = qc.ops.pad(paddings=[(2**60, 0)] * 2).bind([Component(np.dtype("f8"), (None, None))])
    hot = qc.ops.one_hot(depth=2**59).bind([Component(np.dtype("i8"), None)])
    with pytest.raises(ResourceExhaustedError, match="pad: no memory"):
        pad(np.zeros((2**10, 1)))
    for mode in REPEATING:
        for pairs in ([(2**60, 0)] * 2, [(2**62, 2**62), (0, 0)], [(2**62, 0), (2**59, 0)]):
            step = qc.ops.pad(paddings=pairs, mode=mode).bind([Component(np.dtype("f8"), (None, None))])
            with pytest.raises(ResourceExhaustedError, match="pad: no memory"):
                step(np.zeros((2**10, 1)))
    with pytest.raises(ResourceExhaustedError, match="one_hot: no memory"):
        hot(np.zeros(64, "i8"))


def test_what_was_said_beforehand_is_checked():
    """A component whose shape is not what the element has: memory stays as it is, and steps that write see it."""
    first = Component(np.dtype("i4"), (2,))
    assert qc.ops.transpose(perm=(0,)).bind([first])(np.zeros(100, "i4"))[0].shape == (100,)
    assert qc.ops.on(1, qc.ops.scale()).bind([first, first])(np.zeros(100, "i4"), np.zeros(2, "i4"))[0].shape == (100,)
    for stage in (
        qc.ops.cast(dtype="f8"),
        qc.ops.pad(paddings=[(1, 0)]),
        qc.ops.pad(paddings=[(1, 0)], mode="reflect"),
        qc.ops.one_hot(depth=2),
    ):
        step = stage.bind([Component(np.dtype("i4"), (2,))])
        with pytest.raises(InvalidArgumentError, match="as was said beforehand, got"):
            step(np.zeros(100, "i4"))


def test_components_that_no_stage_takes():
    number, string = Component(np.dtype("u1"), (3,)), Component(np.dtype("S"), ())
    for stage in (qc.ops.cast(dtype="f4"), qc.ops.reshape(shape=-1), qc.ops.pad(paddings=[(1, 1)])):
        with pytest.raises(InvalidArgumentError, match="expected one component, got 2"):
            stage.bind([number, number])
        with pytest.raises(DtypeError, match="expected numbers, got bytes"):
            stage.bind([string])
