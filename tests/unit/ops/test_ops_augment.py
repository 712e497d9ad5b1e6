"""Random changes of pictures of bytes: beside Pillow's own operations, and by the rules of torchvision's policies."""

import colorsys
import math

import numpy as np
import pytest
from helpers.formats.pictures import colours, saved
from helpers.models.oracle import philox_block
from PIL import Image, ImageEnhance, ImageOps

import queuecore as qc
from queuecore._core.steps.augment import OPERATIONS, PolicyStep
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import Component

FILL = (9, 200, 77)
PICTURES = {
    "photograph": colours(40, 52),
    "noise": np.random.default_rng(0).integers(0, 256, (31, 18, 3), np.uint8),
    "narrow range": np.random.default_rng(1).integers(90, 120, (20, 33, 3), np.uint8),
    "one colour": np.full((7, 9, 3), (3, 250, 99), np.uint8),
    "one pixel": np.array([[[1, 2, 255]]], np.uint8),
    "one row": np.random.default_rng(2).integers(0, 256, (1, 30, 3), np.uint8),
    "square": colours(24, 24, 3),
}


def run(stage, array, **options):
    """Run a stage, also where nothing is known of its input, and as a part of a batch."""
    step = stage.bind([Component(array.dtype, array.shape)])
    (changed,) = step(array, **options)
    assert (changed.dtype, changed.shape) == (step.outputs[0].dtype, step.outputs[0].shape)
    (again,) = stage.bind([Component(array.dtype, None)])(array, **options)
    np.testing.assert_array_equal(again, changed, strict=True)
    batch = np.stack([array[::-1], array]) if array.ndim == 3 else array
    first = options | {"element": options.get("element", 0) - 1}
    (both,) = (
        stage.bind([Component(batch.dtype, (None, *array.shape))])(batch, **first)
        if array.ndim == 3
        else ([0, changed],)
    )
    np.testing.assert_array_equal(both[1], changed, strict=True)
    return changed


def operation(name, magnitude, fill=FILL):
    """Return a stage that does one operation of a policy, always."""

    def bind(components):
        outputs = (Component(np.dtype("u1"), components[0].shape),)
        numbers = [] if magnitude is None else [magnitude]
        return PolicyStep(components, outputs, name, 1, [(name, numbers, False, "")], 1, 0, bytes(fill))

    return qc.ops.Stage(name, bind)


def pillows(name, image, m, fill=FILL):
    """The operation as torchvision does it to Pillow's pictures, by Pillow itself."""
    move = lambda *a: image.transform(image.size, Image.Transform.AFFINE, a, Image.Resampling.NEAREST, fillcolor=fill)  # noqa: E731
    enhanced = {"brightness": "Brightness", "color": "Color", "contrast": "Contrast", "sharpness": "Sharpness"}
    if name in enhanced:
        return getattr(ImageEnhance, enhanced[name])(image).enhance(1 + m)
    return {
        "identity": lambda: image,
        "shear_x": lambda: move(1, m, 0, 0, 1, 0),
        "shear_y": lambda: move(1, 0, 0, m, 1, 0),
        "translate_x": lambda: move(1, 0, -int(m), 0, 1, 0),
        "translate_y": lambda: move(1, 0, 0, 0, 1, -int(m)),
        "rotate": lambda: image.rotate(m, Image.Resampling.NEAREST, fillcolor=fill),
        "posterize": lambda: ImageOps.posterize(image, int(m)),
        "solarize": lambda: ImageOps.solarize(image, m),
        "auto_contrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
    }[name]()


MAGNITUDES = {
    "shear_x": (0, 0.3, -0.3, 0.99, -0.11),
    "shear_y": (0, 0.3, -0.3, 0.99, -0.11),
    "translate_x": (0, 3.7, -3.7, 32, -500),
    "translate_y": (0, 3.7, -3.7, 32, -500),
    "rotate": (0, 4.5, -30, 90, -90, 180, 135, -121.5, 360),
    **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), (0, 0.9, -0.9, 0.03, -0.99, -1, 3)),
    "posterize": (8, 7, 4, 2, 1),
    "solarize": (255, 128, 0, 59.5, 256),
    **dict.fromkeys(("identity", "auto_contrast", "equalize"), (None,)),
}


@pytest.mark.parametrize("image", PICTURES.values(), ids=PICTURES)
@pytest.mark.parametrize(("name", "magnitude"), [(name, m) for name, several in MAGNITUDES.items() for m in several])
def test_an_operation_is_pillows(name, magnitude, image):
    changed = run(operation(name, magnitude), image)
    np.testing.assert_array_equal(changed, np.asarray(pillows(name, Image.fromarray(image), magnitude)))
    grey = np.ascontiguousarray(image[..., :1])
    changed = run(operation(name, magnitude), grey)
    expected = pillows(name, Image.fromarray(grey[..., 0]), magnitude, FILL[0])
    np.testing.assert_array_equal(changed[..., 0], np.asarray(expected))


def test_every_operation_is_tried():
    assert set(MAGNITUDES) | {"hue"} == set(OPERATIONS)


@pytest.mark.parametrize("turn", [0.5, -0.5, 0.1, -0.37])
def test_hues(turn):
    image = PICTURES["noise"]
    changed = run(qc.ops.color_jitter(hue=(turn, turn), seed=1), image)
    expected = np.empty(image.shape)
    for place in np.ndindex(image.shape[:2]):
        hue, saturation, value = colorsys.rgb_to_hsv(*image[place] / 255)
        expected[place] = np.multiply(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), 255)
    assert np.abs(changed - expected).max() <= 0.51


# ---- what is drawn


def draws_of(seed, element, epoch=0, block=0):
    return philox_block((seed & 0xFFFFFFFF, seed >> 32), (element & 0xFFFFFFFF, element >> 32, epoch, block))


def below(draw, n):
    return draw * n >> 32


SPACES = {
    "rand": [
        *(("shear_x", 0.3, True), ("shear_y", 0.3, True), ("translate_x", 150 / 331 * 52, True)),
        *(("translate_y", 150 / 331 * 40, True), ("rotate", 30, True)),
        *((name, 0.9, True) for name in ("brightness", "color", "contrast", "sharpness")),
    ],
    "trivial": [
        *(("shear_x", 0.99, True), ("shear_y", 0.99, True), ("translate_x", 32, True)),
        *(("translate_y", 32, True), ("rotate", 135, True)),
        *((name, 0.99, True) for name in ("brightness", "color", "contrast", "sharpness")),
    ],
}


def by_policy(space, image, seed, element, epoch, count, fixed, bins=31):
    """Do what a policy draws, by torchvision's table of operations."""
    steps = (bins - 1) / {"rand": 4, "trivial": 6}[space]
    table = [("identity", None, False)]
    table += [(name, np.linspace(0, most, bins), signed) for name, most, signed in SPACES[space]]
    table += [
        ("posterize", [8 - round(i / steps) for i in range(bins)], False),
        ("solarize", np.linspace(255, 0, bins), False),
    ]
    table += [("auto_contrast", None, False), ("equalize", None, False)]
    for number in range(count):
        which, strength, sign, _ = draws_of(seed, element, epoch, number)
        name, magnitudes, signed = table[below(which, len(table))]
        magnitude = 0
        if magnitudes is not None:
            magnitude = float(magnitudes[below(strength, bins) if fixed is None else fixed])
        image = pillows(name, image, -magnitude if signed and sign >> 31 else magnitude)
    return image


@pytest.mark.parametrize("element", range(40))
def test_policies_draw_as_torchvisions_do(element):
    array = PICTURES["photograph"]
    image, seed, epoch = Image.fromarray(array), 2**40 + 3, element % 3
    place = {"element": element, "epoch": epoch}
    changed = run(qc.ops.rand_augment(seed=seed, fill=FILL), array, **place)
    np.testing.assert_array_equal(changed, by_policy("rand", image, seed, element, epoch, 2, 9))
    changed = run(qc.ops.rand_augment(None, 3, 30, seed=seed, fill=FILL), array, **place)
    np.testing.assert_array_equal(changed, by_policy("rand", image, seed, element, epoch, 3, 30))
    changed = run(qc.ops.trivial_augment(seed=seed, fill=FILL), array, **place)
    np.testing.assert_array_equal(changed, by_policy("trivial", image, seed, element, epoch, 1, None))
    changed = run(qc.ops.trivial_augment(None, 5, seed=seed, fill=FILL), array, **place)
    np.testing.assert_array_equal(changed, by_policy("trivial", image, seed, element, epoch, 1, None, 5))


@pytest.mark.parametrize("element", range(12))
def test_colours_change_in_a_drawn_order(element):
    array, seed = PICTURES["photograph"], 7
    changed = run(qc.ops.color_jitter(None, 0.4, (0.5, 2), 0.9, seed=seed), array, element=element)
    orders, amounts = draws_of(seed, element), draws_of(seed, element, block=1)
    bounds = [("Brightness", 0.6, 1.4), ("Contrast", 0.5, 2), ("Color", 1 - 0.9, 1.9)]
    left, image = [0, 1, 2], Image.fromarray(array)
    for number in range(3):
        at = below(orders[number], len(left))
        which, left[at] = left[at], left[-1]
        left.pop()
        name, low, high = bounds[which]
        image = getattr(ImageEnhance, name)(image).enhance(low + (high - low) * ((amounts[which] >> 8) / 2**24))
    np.testing.assert_array_equal(changed, image)


def test_all_orders_and_operations_are_drawn():
    batch = np.broadcast_to(PICTURES["photograph"][:8, :8], (3000, 8, 8, 3))
    kinds = {
        changed.tobytes() for changed in qc.ops.color_jitter(batch, (0.5, 0.5), (2, 2), (3, 3), (0.3, 0.3), seed=1)
    }
    assert len(kinds) > 10  # of 24 orders, some give the same
    unlike = (qc.ops.trivial_augment(batch, seed=1) != batch).any((1, 2, 3)).mean()
    assert 0.6 < unlike < 0.95


@pytest.mark.parametrize("p", [0, 0.2, 1])
def test_greys(p):
    batch = np.broadcast_to(PICTURES["noise"], (2000, *PICTURES["noise"].shape))
    changed = qc.ops.random_grayscale(batch, p, seed=3)
    grey = np.asarray(Image.fromarray(PICTURES["noise"]).convert("L").convert("RGB"))
    is_grey = (changed == grey).all((1, 2, 3))
    assert (is_grey | (changed == batch).all((1, 2, 3))).all()
    assert is_grey.mean() == p if p in (0, 1) else abs(is_grey.mean() - p) < 0.04
    one = PICTURES["noise"][..., :1].copy()
    np.testing.assert_array_equal(run(qc.ops.random_grayscale(p=1, seed=3), one), one)


@pytest.mark.parametrize("size", [1, 3, 5, 23])
@pytest.mark.parametrize("sigma", [0.1, 1.3, 40])
def test_blurs(size, sigma):
    image = PICTURES["photograph"]
    at = np.arange(size) - size // 2
    weights = np.exp(-0.5 * (at / sigma) ** 2)
    weights /= weights.sum()
    half = size // 2
    wide = np.pad(image.astype(float), ((half, half), (half, half), (0, 0)), "reflect")
    down = sum(weight * wide[i : i + image.shape[0]] for i, weight in enumerate(weights))
    exact = sum(weight * down[:, i : i + image.shape[1]] for i, weight in enumerate(weights))
    changed = run(qc.ops.gaussian_blur(None, size, sigma), image)
    assert np.abs(changed - exact).max() < 0.501
    drawn = qc.ops.gaussian_blur(image, size, (sigma / 2, sigma), seed=5, element=3)
    share = (draws_of(5, 3)[0] >> 8) / 2**24
    np.testing.assert_array_equal(drawn, qc.ops.gaussian_blur(image, size, sigma / 2 + (sigma - sigma / 2) * share))


# ---- what comes in


def test_floats_are_rounded_first():
    values = np.array([-3, 0.49, 0.51, 7, 254.4, 254.6, 300, math.nan, math.inf, -math.inf, 77, 12], np.float32)
    image = values.reshape(2, 2, 3)
    expected = np.array([0, 0, 1, 7, 254, 255, 255, 0, 255, 0, 77, 12], np.uint8).reshape(2, 2, 3)
    changed = run(qc.ops.color_jitter(seed=1), image)
    np.testing.assert_array_equal(changed, expected, strict=True)


EVERY = {
    "color_jitter": lambda x=None, **k: qc.ops.color_jitter(x, 0.4, 0.4, 0.4, 0.1, seed=1, **k),
    "random_grayscale": lambda x=None, **k: qc.ops.random_grayscale(x, 0.5, seed=1, **k),
    "gaussian_blur": lambda x=None, **k: qc.ops.gaussian_blur(x, 3, seed=1, **k),
    "rand_augment": lambda x=None, **k: qc.ops.rand_augment(x, seed=1, **k),
    "trivial_augment": lambda x=None, **k: qc.ops.trivial_augment(x, seed=1, **k),
}


@pytest.mark.parametrize("name", EVERY)
def test_shapes_and_dtypes(name):
    op = EVERY[name]
    for shape in ((2, 3, 5, 6, 3), (0, 5, 6, 3), (4, 7, 1)):
        array = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        (changed,) = op().bind([Component(array.dtype, None)])(array)
        assert changed.shape == shape and changed.dtype == np.uint8
        np.testing.assert_array_equal(changed, op(array))
    for shape in ((0, 6, 3), (6, 0, 3)):
        if name != "gaussian_blur":
            assert op(np.zeros(shape, np.uint8)).shape == shape
    for dtype in ("i1", "f8", "f2", "u2", "c8", "?"):
        with pytest.raises(DtypeError, match=f"{name}: expected uint8"):
            op(np.zeros((4, 4, 3), dtype))
    with pytest.raises(InvalidArgumentError, match=f"{name}: expected 1 channel or 3, got 4"):
        op(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(InvalidArgumentError, match=f"{name}: expected 1 channel or 3, got 2"):
        op().bind([Component(np.dtype("u1"), None)])(np.zeros((4, 4, 2), np.uint8))
    with pytest.raises(InvalidArgumentError, match=f"{name}: expected pictures .* 2 dimensions"):
        op().bind([Component(np.dtype("u1"), None)])(np.zeros((4, 4), np.uint8))
    with pytest.raises(InvalidArgumentError, match=f"{name}: expected pictures"):
        op(np.zeros((4, 4), np.uint8))


@pytest.mark.parametrize("threads", [1, 4])
def test_in_a_dataset(tmp_path, threads):
    """Behind a random part and before normalising, natively: as one after the other by hand."""
    data = [saved(colours(40 + i, 50, i), "JPEG") for i in range(9)]
    for number, contents in enumerate(data):
        (tmp_path / str(number)).write_bytes(contents)

    def augmented(contents, **where):
        image = qc.ops.decode_jpeg(contents, channels=3)
        image = qc.ops.random_resized_crop(image, 20, seed=1, dct_scale=False, **where)
        image = qc.ops.trivial_augment(qc.ops.color_jitter(image, 0.4, 0.4, 0.4, 0.1, seed=2, **where), seed=3, **where)
        return qc.ops.normalize(image, 0.5, 0.5, channels_first=True)

    ds = qc.data.WholeFileDataset(tmp_path / "*").map(lambda name, contents: augmented(contents)).batch(4)
    assert "Python" not in ds.plan()
    changed = np.concatenate([batch.copy() for batch in ds.with_options(qc.data.Options(num_threads=threads))])
    for element, contents in enumerate(data):
        np.testing.assert_array_equal(changed[element], augmented(contents, element=element))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda o, x: o.color_jitter(x), "seed is missing"),
        (lambda o, x: o.color_jitter(x, -0.1, seed=1), "brightness must be from 0"),
        (lambda o, x: o.color_jitter(x, (0.5, 0.4), seed=1), "brightness must be a number or two bounds"),
        (lambda o, x: o.color_jitter(x, contrast=(-1, 1), seed=1), "contrast must be"),
        (lambda o, x: o.color_jitter(x, saturation="a", seed=1), "saturation must be a number"),
        (lambda o, x: o.color_jitter(x, hue=0.6, seed=1), "hue must be from 0 to 0.5"),
        (lambda o, x: o.color_jitter(x, hue=(-0.6, 0), seed=1), "hue must be"),
        (lambda o, x: o.random_grayscale(x, 2, seed=1), "p must be from 0 to 1"),
        (lambda o, x: o.gaussian_blur(x, seed=1), "kernel_size must be an odd number"),
        (lambda o, x: o.gaussian_blur(x, 4, seed=1), "kernel_size must be an odd number"),
        (lambda o, x: o.gaussian_blur(x, 2**40 + 1, seed=1), "kernel_size must be an odd number"),
        (lambda o, x: o.gaussian_blur(x, 3, 0), "sigma must be a number above 0"),
        (lambda o, x: o.gaussian_blur(x, 3, (2, 1), seed=1), "sigma must be"),
        (lambda o, x: o.gaussian_blur(x, 3), "seed is missing"),
        (lambda o, x: o.gaussian_blur(x, 17, 1), "a picture of 8 x 8 pixels is too small for a kernel of 17"),
        (lambda o, x: o.rand_augment(x), "seed is missing"),
        (lambda o, x: o.rand_augment(x, -1, seed=1), "num_ops"),
        (lambda o, x: o.rand_augment(x, magnitude=31, seed=1), "magnitude must be from 0 to 30, not 31"),
        (lambda o, x: o.rand_augment(x, num_magnitude_bins=1, seed=1), "num_magnitude_bins must be at least 2"),
        (lambda o, x: o.trivial_augment(x, fill=256, seed=1), "fill must be"),
        (lambda o, x: o.trivial_augment(x, fill=(1, 2), seed=1), "fill must be"),
        (lambda o, x: o.trivial_augment(np.zeros((1, 32768, 1), np.uint8), seed=1), "a side of more than 32767"),
    ],
)
def test_bad_calls(call, text):
    with pytest.raises(InvalidArgumentError, match=text):
        call(qc.ops, np.zeros((8, 8, 3), np.uint8))
