"""Operations on pictures: against formulas in NumPy and colorsys; and what random ones draw from."""

import colorsys
import itertools
import threading

import numpy as np
import pytest
from helpers.process import PATIENCE
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import queuecore as qc
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import Component, compose


def picture(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.random(shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def run(stage, array, **options):
    step = stage.bind([Component(array.dtype, array.shape)])
    (made,) = step(array, **options)
    assert (made.dtype, made.shape) == (step.outputs[0].dtype, step.outputs[0].shape)
    (again,) = stage.bind([Component(array.dtype, None)])(array, **options)
    assert again.dtype == made.dtype and again.shape == made.shape and again.tobytes() == made.tobytes()
    return made


# Resizing


def places(old, new):
    """For each new pixel: the old one below, the one above, and how far it is from the first."""
    at = (np.arange(new, dtype=np.float32) + np.float32(0.5)) * (np.float32(old) / np.float32(new)) - np.float32(0.5)
    below = np.floor(at)
    clip = lambda where: np.clip(where.astype(int), 0, old - 1)  # noqa: E731
    return clip(below), clip(np.ceil(at)), at - below


def blended(array, height, width):
    array = array.astype(np.float32)
    top, bottom, down = places(array.shape[-3], height)
    left, right, along = places(array.shape[-2], width)
    along, down = along[:, None], down[:, None, None]
    row = lambda rows: rows[..., left, :] + (rows[..., right, :] - rows[..., left, :]) * along  # noqa: E731
    above, below = row(array[..., top, :, :]), row(array[..., bottom, :, :])
    return above + (below - above) * down


def nearest(array, height, width):
    def index(old, new):
        at = (np.arange(new, dtype=np.float32) + np.float32(0.5)) * (np.float32(old) / np.float32(new))
        return np.minimum(np.floor(at).astype(int), old - 1)

    return array[..., index(array.shape[-3], height), :, :][..., index(array.shape[-2], width), :]


@settings(deadline=None, max_examples=200)
@given(
    shape=hnp.array_shapes(min_dims=3, max_dims=5, max_side=9),
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    dtype=st.sampled_from(["u1", "i2", "i8", "f2", "f4", "f8"]),
)
def test_resize(shape, size, dtype):
    array = picture(dtype, shape)
    np.testing.assert_array_equal(run(qc.ops.resize(size=size), array), blended(array, *size), strict=True)
    got = run(qc.ops.resize(size=size, method="nearest"), array)
    np.testing.assert_array_equal(got, nearest(array, *size), strict=True)


def test_resize_to_the_same_size_changes_nothing():
    array = picture("u1", (7, 9, 3))
    np.testing.assert_array_equal(qc.ops.resize(array, (7, 9)), array.astype("f4"))
    np.testing.assert_array_equal(qc.ops.resize(array, (7, 9), "nearest"), array)


def test_resize_without_pictures_or_channels():
    assert qc.ops.resize(np.zeros((0, 2, 2, 3)), (4, 4)).shape == (0, 4, 4, 3)
    assert qc.ops.resize(np.zeros((2, 2, 0)), (4, 4)).shape == (4, 4, 0)
    with pytest.raises(InvalidArgumentError, match="0 x 2 pixels"):
        qc.ops.resize(size=(4, 4)).bind([Component(np.dtype("f4"), None)])(np.zeros((0, 2, 3), "f4"))


# Colours


def whole(array, amount):
    """As floats, and a function back."""
    if array.dtype.kind == "f":
        return array.astype("f8"), lambda x: x.astype(array.dtype)
    info = np.iinfo(array.dtype)
    return array / info.max, lambda x: np.clip(np.trunc(x * (info.max + 0.5)), info.min, info.max).astype(array.dtype)


def by_pixel(array, change):
    flat, back = whole(array, None)
    made = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in flat.reshape(-1, 3).tolist()]
    return back(np.array(made).reshape(array.shape))


def near(result, expected):
    assert result.dtype == expected.dtype and result.shape == expected.shape
    if result.dtype.kind == "f":
        np.testing.assert_allclose(result, expected, 0, 1e-3 if result.dtype == np.float16 else 2e-6)
    else:
        # At a whole number, a last bit decides between it and the one below.
        difference = np.abs(result.astype("i8") - expected.astype("i8"))
        assert difference.max() <= 1 and np.count_nonzero(difference) <= max(2, 0.01 * result.size)


SHAPES = [(1, 1, 3), (5, 7, 3), (2, 3, 30, 31, 3)]
DTYPES = ["u1", "u2", "i1", "i2", "f2", "f4", "f8"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("delta", [-1, -0.4, 0, 0.1, 0.5])
def test_hue(dtype, shape, delta):
    array = picture(dtype, shape)
    near(run(qc.ops.adjust_hue(delta=delta), array), by_pixel(array, lambda h, s, v: ((h + delta) % 1, s, v)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [0, 0.4, 1, 3])
def test_saturation(dtype, shape, factor):
    array = picture(dtype, shape)
    got = run(qc.ops.adjust_saturation(saturation_factor=factor), array)
    near(got, by_pixel(array, lambda h, s, v: (h, min(s * factor, 1), v)))


@pytest.mark.parametrize("shape", [*SHAPES, (3, 5, 1), (2, 2, 3000), (0, 4, 3)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_brightness_and_contrast(dtype, shape):
    array = picture(dtype, shape)
    flat, back = whole(array, None)
    if array.size:
        near(run(qc.ops.adjust_brightness(delta=0.2), array), back(flat + 0.2))
        near(run(qc.ops.adjust_brightness(delta=-0.2), array), back(flat - 0.2))
        mean = flat.mean((-3, -2), keepdims=True)
        near(run(qc.ops.adjust_contrast(contrast_factor=1.5), array), back((flat - mean) * 1.5 + mean))
    else:
        assert qc.ops.adjust_contrast(array, 2).shape == shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_changes_without_a_change(dtype):
    array = picture(dtype, (16, 16, 3))
    for name, amount in (("brightness", 0), ("contrast", 1), ("saturation", 1), ("hue", 0)):
        near(getattr(qc.ops, f"adjust_{name}")(array, amount), array)


def test_colours_that_are_no_numbers():
    """They may make anything of their own pixel, and nothing of others."""
    array = picture("f4", (9, 9, 3))
    strange = array.copy()
    strange[4, 4] = [np.nan, np.inf, 1]
    strange[5, 5] = [np.inf, -np.inf, 3e38]
    for name, amount in (("brightness", 0.1), ("saturation", 0.5), ("hue", 0.3)):
        with np.errstate(all="ignore"):
            op = getattr(qc.ops, f"adjust_{name}")
            got, plain = op(strange, amount), op(array, amount)
        got[[4, 5], [4, 5]] = plain[[4, 5], [4, 5]]
        np.testing.assert_array_equal(got, plain)


# Random forms


def philox(seed, element, epoch=0, block=0):
    """Philox4x32-10, as its paper has it."""
    key = [seed % 2**32, seed >> 32 & 0xFFFFFFFF]
    counter = [element % 2**32, element >> 32 & 0xFFFFFFFF, epoch % 2**32, block]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            second >> 32 ^ counter[1] ^ key[0],
            second % 2**32,
            first >> 32 ^ counter[3] ^ key[1],
            first % 2**32,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def test_the_oracle():
    """The known answers of the authors' library."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 2**32 - 1
    assert philox(2**64 - 1, 2**64 - 1, ones, ones) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


SEEDS = [0, 1, -1, 2**63 - 1, 12345678901]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("element", "epoch"), [(0, 0), (7, 3), (2**40, 2**32 - 1), (-1, 2)])
def test_what_is_drawn(seed, element, epoch):
    place = {"element": element, "epoch": epoch}
    draws = philox(seed % 2**64, element % 2**64, epoch)
    array = picture("u1", (9, 8, 7, 3, 6))
    begin = [draw * (side - 2) >> 32 for draw, side in zip(draws, array.shape[:4], strict=True)]
    begin.append(philox(seed % 2**64, element % 2**64, epoch, 1)[0] * 4 >> 32)
    part = tuple(slice(at, at + 3) for at in begin)
    np.testing.assert_array_equal(run(qc.ops.random_crop(size=(3,) * 5, seed=seed), array, **place), array[part])

    flat = picture("f4", (5, 6, 3))
    flipped = flat[:, ::-1] if draws[0] >> 31 else flat
    np.testing.assert_array_equal(run(qc.ops.random_flip_left_right(seed=seed), flat, **place), flipped)

    share = (draws[0] >> 8) / 2**24
    for name, limits in (
        ("brightness", (0.3,)),
        ("contrast", (0.5, 1.5)),
        ("saturation", (0.5, 1.5)),
        ("hue", (0.2,)),
    ):
        low, high = limits if len(limits) == 2 else (-limits[0], limits[0])
        expected = getattr(qc.ops, f"adjust_{name}")(flat, low + share * (high - low))
        got = getattr(qc.ops, f"random_{name}")(flat, *limits, seed, **place)
        np.testing.assert_allclose(got, expected, 1e-5, 1e-6)
        np.testing.assert_array_equal(run(getattr(qc.ops, f"random_{name}")(None, *limits, seed), flat, **place), got)


RANDOM = [
    lambda x=None, **k: qc.ops.random_crop(x, (2, 3, 3), **k),
    lambda x=None, **k: qc.ops.random_flip_left_right(x, **k),
    lambda x=None, **k: qc.ops.random_brightness(x, 0.3, **k),
    lambda x=None, **k: qc.ops.random_contrast(x, 0.5, 1.5, **k),
    lambda x=None, **k: qc.ops.random_saturation(x, 0.5, 1.5, **k),
    lambda x=None, **k: qc.ops.random_hue(x, 0.2, **k),
]


@pytest.mark.parametrize("op", RANDOM)
def test_batches_change_nothing(op):
    batch = picture("u1", (40, 6, 7, 3))
    together = op(batch, seed=5, element=100, epoch=2)
    for index, one in enumerate(batch):
        np.testing.assert_array_equal(op(one, seed=5, element=100 + index, epoch=2), together[index])
    assert len({one.tobytes() for one in op(np.broadcast_to(batch[0], batch.shape), seed=5)}) > 1
    assert (op(batch, seed=6) != op(batch, seed=7)).any()
    assert (op(batch, seed=6, epoch=1) != op(batch, seed=6)).any()


def test_threads_change_nothing():
    stage = compose(*[op(seed=index) for index, op in enumerate(RANDOM)])
    images = picture("u1", (64, 32, 32, 3))
    step = stage.bind([Component(images.dtype, images.shape[1:])])
    expected = [step(one, element=index)[0] for index, one in enumerate(images)]
    results = [None] * len(images)
    turn = itertools.count()

    def work():
        while (index := next(turn)) < len(images):
            results[index] = step(images[index], element=index)[0]

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("count", [1, 4])
def test_programs_count_records(tmp_path, count):
    """Threads that share a reader make the pictures that one thread makes."""
    rows = picture("u1", (60, 8 * 8 * 3))
    paths = []
    for index in range(3):
        path = tmp_path / str(index)
        path.write_bytes(rows[20 * index : 20 * index + 20].tobytes())
        paths.append(path)
    reader = qc.FixedLengthRecordReader(8 * 8 * 3)
    ops = [
        qc.ops.decode_raw(out_type=np.uint8),
        qc.ops.reshape(shape=(8, 8, 3)),
        qc.ops.random_crop(size=(6, 6, 3), seed=1),
        qc.ops.random_flip_left_right(seed=2),
        qc.ops.random_hue(max_delta=0.5, seed=3),
    ]
    queue = qc.FIFOQueue(100, [np.uint8], [(6, 6, 3)])
    coord = qc.Coordinator()
    names = qc.FIFOQueue(3, [str], [()])
    names.enqueue_many([[str(path) for path in paths]])
    names.close()
    programs = [qc.StageProgram(reader, names, *ops) for _ in range(count)]
    coord.join(qc.QueueRunner(queue, programs).create_threads(coord, start=True))
    images = rows.reshape(-1, 8, 8, 3)
    expected = qc.ops.random_crop(images, (6, 6, 3), 1)
    expected = qc.ops.random_hue(qc.ops.random_flip_left_right(expected, 2), 0.5, 3)
    got = queue.dequeue_many(60, timeout=PATIENCE)
    assert sorted(one.tobytes() for one in got) == sorted(one.tobytes() for one in expected)


def test_places_of_crops_are_equally_likely():
    batch = np.broadcast_to(np.arange(5), (5000, 5))
    counts = np.bincount(qc.ops.random_crop(batch, (2,), seed=1)[:, 0], minlength=4)
    assert len(counts) == 4 and np.abs(counts - 1250).max() < 150
    flips = qc.ops.random_flip_left_right(np.broadcast_to(np.arange(2)[:, None], (5000, 1, 2, 1)), seed=1)
    assert abs(int(flips[:, 0, 0, 0].sum()) - 2500) < 200


def test_crops_of_the_whole_and_of_nothing():
    array = picture("u1", (3, 4))
    np.testing.assert_array_equal(qc.ops.random_crop(array, (3, 4), seed=1), array)
    assert qc.ops.random_crop(array, (3, 0), seed=1).shape == (3, 0)
    assert qc.ops.random_crop(np.zeros((0, 3, 4)), (2, 2), seed=1).shape == (0, 2, 2)


# Bad input

IMAGE = np.zeros((4, 4, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda o: o.resize(IMAGE[0], (2, 2)), InvalidArgumentError, r"expected pictures .*, got shape \[4, 3\]"),
        (lambda o: o.resize(IMAGE, (2,)), InvalidArgumentError, r"height and width as size, got \[2\]"),
        (lambda o: o.resize(IMAGE, (2, 0)), InvalidArgumentError, "below 1"),
        (lambda o: o.resize(IMAGE), InvalidArgumentError, "size is missing"),
        (lambda o: o.resize(IMAGE, (2, 2), "cubic"), InvalidArgumentError, "got 'cubic'"),
        (lambda o: o.resize(IMAGE[:0], (2, 2)), InvalidArgumentError, "expected pictures with pixels"),
        (lambda o: o.resize(IMAGE.astype("c8"), (2, 2)), DtypeError, "got complex64"),
        (lambda o: o.resize(IMAGE, (2**61, 2**61)), InvalidArgumentError, "too large"),
        (lambda o: o.random_crop(IMAGE, (5, 4, 3), 1), InvalidArgumentError, "expected at least 5 on axis 0, got 4"),
        (lambda o: o.random_crop(IMAGE, (4,), 1), InvalidArgumentError, "expected 1 dimensions, or 2 of a batch"),
        (lambda o: o.random_crop(IMAGE, (4, 4, 3)), InvalidArgumentError, "seed is missing"),
        (lambda o: o.random_crop(IMAGE, (4, 4, 3), 1.5), InvalidArgumentError, "seed must be an integer"),
        (lambda o: o.random_crop(IMAGE, (4, 4, 3), 1, element="a"), InvalidArgumentError, "element must be an integer"),
        (lambda o: o.random_crop(IMAGE, seed=1), InvalidArgumentError, "size is missing"),
        (lambda o: o.random_flip_left_right(IMAGE[0], 1), InvalidArgumentError, r"got shape \[4, 3\]"),
        (lambda o: o.random_flip_left_right(IMAGE), InvalidArgumentError, "seed is missing"),
        (lambda o: o.adjust_brightness(IMAGE), InvalidArgumentError, "delta is missing"),
        (lambda o: o.adjust_brightness(IMAGE, "x"), InvalidArgumentError, "delta must be a number, not 'x'"),
        (lambda o: o.adjust_brightness(IMAGE, np.nan), InvalidArgumentError, "delta must be finite, not nan"),
        (lambda o: o.adjust_brightness(IMAGE.astype("i4"), 1), DtypeError, "at most 16 bits, got int32"),
        (lambda o: o.adjust_brightness(IMAGE.astype("c8"), 1), DtypeError, "got complex64"),
        (lambda o: o.adjust_hue(IMAGE[..., :2], 0.1), InvalidArgumentError, r"3 channels.*got shape \[4, 4, 2\]"),
        (lambda o: o.adjust_hue(IMAGE, 1.5), InvalidArgumentError, "must be from -1 to 1, and is 1.5"),
        (lambda o: o.adjust_saturation(IMAGE, -1), InvalidArgumentError, "must be 0 at least, and is -1"),
        (lambda o: o.random_brightness(IMAGE, -1, 1), InvalidArgumentError, "must be 0 at least, and is -1"),
        (lambda o: o.random_brightness(IMAGE, seed=1), InvalidArgumentError, "max_delta is missing"),
        (lambda o: o.random_contrast(IMAGE, 1, 0.5, 1), InvalidArgumentError, "below upper, and they are 1 and 0.5"),
        (lambda o: o.random_contrast(IMAGE, 1, seed=1), InvalidArgumentError, "upper is missing"),
        (lambda o: o.random_saturation(IMAGE, 1, 1, 1), InvalidArgumentError, "lower must be below upper"),
        (lambda o: o.random_hue(IMAGE, 0.6, 1), InvalidArgumentError, "from 0 to 0.5, and is 0.6"),
        (lambda o: o.random_hue(IMAGE, 0.5), InvalidArgumentError, "seed is missing"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(qc.ops)


@pytest.mark.parametrize(
    ("stage", "shape", "words"),
    [
        (lambda o: o.resize(size=(2, 2)), (4, 3), r"resize: expected pictures .*, got 2 dimensions"),
        (lambda o: o.random_crop(size=(5, 4), seed=1), (4, 4), "expected at least 5 on axis 0, got 4"),
        (lambda o: o.random_crop(size=(5, 4), seed=1), (4,), "expected 2 dimensions, or 3 of a batch, got 1"),
        (lambda o: o.random_flip_left_right(seed=1), (4,), "random_flip_left_right: .*got 1 dimensions"),
        (lambda o: o.adjust_contrast(contrast_factor=1), (4,), "adjust_contrast: .*got 1 dimensions"),
        (lambda o: o.random_hue(max_delta=0.5, seed=1), (4, 4, 1), "random_hue: expected 3 channels.*got 1"),
    ],
)
def test_what_only_the_element_shows(stage, shape, words):
    step = stage(qc.ops).bind([Component(np.dtype("f4"), None)])
    with pytest.raises(InvalidArgumentError, match=words):
        step(np.zeros(shape, "f4"))


def test_what_was_said_beforehand_is_checked():
    for stage in (
        qc.ops.resize(size=(4, 4)),
        qc.ops.random_flip_left_right(seed=1),
        qc.ops.random_crop(size=(2, 2, 2), seed=1),
        qc.ops.adjust_contrast(contrast_factor=2),
    ):
        step = stage.bind([Component(np.dtype("f4"), (2, 4, 4, 3))])
        with pytest.raises(InvalidArgumentError, match="as was said beforehand, got"):
            step(np.zeros((30, 9, 9, 3), "f4"))
