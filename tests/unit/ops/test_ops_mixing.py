"""Erased parts and mixed pictures: by the rules of torchvision's operations, written anew from draws; distributions."""

import math

import numpy as np
import pytest
from helpers.models.oracle import philox_block

import queuecore as qc
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import Component

SEED = 2**40 + 9
RANDOM = np.random.default_rng(0)


def draws_of(element, block, seed=SEED):
    return philox_block((seed & 0xFFFFFFFF, seed >> 32), (element & 0xFFFFFFFF, element >> 32, 0, block))


def share_of(draw):
    return (draw >> 8) / 2**24


def run(stage, *arrays, **where):
    """Run a stage, also where nothing is known of its input; the announced outputs are those that come."""
    step = stage.bind([Component(array.dtype, array.shape) for array in arrays])
    result = step(*arrays, **where)
    assert [(part.dtype, part.shape) for part in result] == [(part.dtype, part.shape) for part in step.outputs]
    again = stage.bind([Component(array.dtype, None) for array in arrays])(*arrays, **where)
    for first, second in zip(result, again, strict=True):
        np.testing.assert_array_equal(first, second, strict=True)
    return result


# ---- erasing


def erased_part(height, width, element, areas=(0.02, 0.33), ratios=(0.3, 3.3), p=0.5):
    """The part that is erased, by the rules of torchvision's RandomErasing."""
    if share_of(draws_of(element, 0)[0]) >= p:
        return None
    for block in range(1, 11):
        area, ratio, top, left = draws_of(element, block)
        size = height * width * (areas[0] + (areas[1] - areas[0]) * share_of(area))
        low, high = math.log(ratios[0]), math.log(ratios[1])
        proportion = math.exp(low + (high - low) * share_of(ratio))
        rows, columns = round(math.sqrt(size * proportion)), round(math.sqrt(size / proportion))
        if rows < height and columns < width:
            y, x = top * (height - rows + 1) >> 32, left * (width - columns + 1) >> 32
            return slice(y, y + rows), slice(x, x + columns)
    return None


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4"])
@pytest.mark.parametrize("value", [0, 7, (1, 2, 3)])
def test_parts_that_are_erased(dtype, value):
    array = RANDOM.integers(10, 256, (21, 34, 3)).astype(dtype)
    counts = 0
    for element in range(25):
        expected = array.copy()
        part = erased_part(21, 34, element)
        if part is not None:
            expected[part] = value
            counts += 1
        (result,) = run(qc.ops.random_erasing(value=value, seed=SEED), array, element=element)
        np.testing.assert_array_equal(result, expected, strict=True)
        planes = np.ascontiguousarray(array.transpose(2, 0, 1))
        (result,) = run(qc.ops.random_erasing(value=value, seed=SEED, channels_first=True), planes, element=element)
        np.testing.assert_array_equal(result, expected.transpose(2, 0, 1))
    assert 5 < counts < 20
    batch = np.broadcast_to(array, (2, 3, *array.shape)).copy()
    (result,) = run(qc.ops.random_erasing(p=1, value=value, seed=SEED), batch)
    for number in range(6):
        expected = array.copy()
        expected[erased_part(21, 34, number, p=1)] = value
        np.testing.assert_array_equal(result[divmod(number, 3)], expected)


@pytest.mark.parametrize(("scale", "ratio"), [((1, 1), (1, 1)), ((0.9, 1), (0.01, 0.02)), ((0.5, 0.6), (1, 1))])
def test_parts_that_hardly_fit(scale, ratio):
    array = np.ones((8, 9, 1), np.float32)
    for element in range(20):
        expected = array.copy()
        part = erased_part(8, 9, element, scale, ratio, 1)
        if part is not None:
            expected[part] = 0
        result = qc.ops.random_erasing(array, 1, scale, ratio, seed=SEED, element=element)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("channels_first", [False, True])
def test_noise(channels_first):
    array = np.full((3, 300, 300) if channels_first else (300, 300, 3), 100, np.float32)
    result = qc.ops.random_erasing(array, 1, (0.3, 0.3), (1, 1), "random", seed=SEED, channels_first=channels_first)
    noise = result[result != 100]
    assert noise.size > 60_000 * 0.3 and abs(noise.mean()) < 0.02 and abs(noise.std() - 1) < 0.02
    assert abs(np.mean(np.abs(noise) < 1) - 0.6827) < 0.01 and len(np.unique(noise)) > 0.99 * noise.size
    with pytest.raises(DtypeError, match="nothing that uint8 has"):
        qc.ops.random_erasing(array.astype("u1"), value="random", seed=1)


def test_how_likely_parts_are():
    batch = np.ones((3000, 16, 16, 1), np.uint8)
    for p in (0, 0.2, 1):
        result = qc.ops.random_erasing(batch, p, seed=3)
        share = (result == 0).any((1, 2, 3)).mean()
        assert share == p if p in (0, 1) else abs(share - p) < 0.03


# ---- mixing


def mixed_labels(labels, classes, share):
    shares = np.eye(classes, dtype=np.float32)[labels] if labels.ndim == 1 else labels
    return shares * np.float32(share) + np.roll(shares, 1, 0) * np.float32(1 - share)


BATCH = RANDOM.integers(0, 256, (5, 9, 12, 3), np.uint8)
LABELS = np.array([3, 0, 3, 1, 2])


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4"])
@pytest.mark.parametrize("kind", ["numbers", "shares"])
@pytest.mark.parametrize("element", range(4))
def test_blended_pictures(dtype, kind, element):
    images = BATCH.astype(dtype)
    labels = LABELS if kind == "numbers" else RANDOM.random((5, 4), np.float32)
    share = share_of(draws_of(element, 0)[0])
    result, shares = run(qc.ops.mixup(num_classes=4, seed=SEED), images, labels, element=element)
    expected = images.astype("f4") * np.float32(share) + np.roll(images, 1, 0).astype("f4") * np.float32(1 - share)
    np.testing.assert_allclose(result, expected, 1e-5, 1e-4)
    np.testing.assert_allclose(shares, mixed_labels(labels, 4, share), 1e-6, 1e-6)
    assert result.dtype == shares.dtype == np.float32


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4"])
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("element", range(6))
def test_cut_pictures(dtype, channels_first, element):
    images = BATCH.astype(dtype)
    stage = qc.ops.cutmix(num_classes=4, seed=SEED, channels_first=channels_first)
    share = share_of(draws_of(element, 0)[0])
    across, down = (draw * side >> 32 for draw, side in zip(draws_of(element, 1)[:2], (12, 9), strict=True))
    ratio = 0.5 * math.sqrt(1 - share)
    columns = slice(max(across - int(ratio * 12), 0), min(across + int(ratio * 12), 12))
    rows = slice(max(down - int(ratio * 9), 0), min(down + int(ratio * 9), 9))
    expected = images.copy()
    expected[:, rows, columns] = np.roll(images, 1, 0)[:, rows, columns]
    share = 1 - (rows.stop - rows.start) * (columns.stop - columns.start) / (9 * 12)
    given = np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if channels_first else images
    result, shares = run(stage, given, LABELS, element=element)
    np.testing.assert_array_equal(result.transpose(0, 2, 3, 1) if channels_first else result, expected, strict=True)
    np.testing.assert_allclose(shares, mixed_labels(LABELS, 4, share), 1e-6, 1e-6)


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.8, 1, 4])
def test_shares_are_drawn_from_a_beta_distribution(alpha):
    """Mean and spread of the beta distribution, and the two halves alike."""
    image, labels = np.zeros((2, 1, 1, 1), np.uint8), np.array([0, 1])
    stage = qc.ops.mixup(num_classes=2, alpha=alpha, seed=5)
    step = stage.bind([Component(image.dtype, image.shape), Component(labels.dtype, labels.shape)])
    shares = np.array([step(image, labels, element=element)[1][0, 0] for element in range(6000)], float)
    assert abs(shares.mean() - 0.5) < 0.025
    assert abs(shares.var() - 1 / (4 * (2 * alpha + 1))) < 0.01
    assert abs((shares < 0.5).mean() - 0.5) < 0.025 and shares.min() >= 0 and shares.max() <= 1


def test_a_batch_of_one_and_of_none():
    image = BATCH[:1]
    for op in (qc.ops.mixup, qc.ops.cutmix):
        result, shares = op(image, LABELS[:1], 4, seed=1)
        np.testing.assert_allclose(result, image, 1e-5)
        np.testing.assert_allclose(shares, [[0, 0, 0, 1]], 1e-6)
        result, shares = op(BATCH[:0], LABELS[:0], 4, seed=1)
        assert result.shape == (0, 9, 12, 3) and shares.shape == (0, 4)
        result, shares = op(np.zeros((2, 0, 4, 3), np.uint8), LABELS[:2], 4, seed=1)
        assert result.shape == (2, 0, 4, 3) and np.allclose(shares.sum(1), 1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda o, x, y: o.random_erasing(x), InvalidArgumentError, "seed is missing"),
        (lambda o, x, y: o.random_erasing(x, 2, seed=1), InvalidArgumentError, "p must be from 0 to 1"),
        (lambda o, x, y: o.random_erasing(x, scale=(0, 1), seed=1), InvalidArgumentError, "scale must be"),
        (lambda o, x, y: o.random_erasing(x, scale=(0.1, 2), seed=1), InvalidArgumentError, "scale must be"),
        (lambda o, x, y: o.random_erasing(x, ratio=3, seed=1), InvalidArgumentError, "ratio must be two numbers"),
        (lambda o, x, y: o.random_erasing(x, value="noise", seed=1), InvalidArgumentError, "value must be"),
        (lambda o, x, y: o.random_erasing(x, value=(), seed=1), InvalidArgumentError, "value has no number"),
        (lambda o, x, y: o.random_erasing(x, value=256, seed=1), DtypeError, "nothing that uint8 has"),
        (lambda o, x, y: o.random_erasing(x, value=0.5, seed=1), DtypeError, "nothing that uint8 has"),
        (lambda o, x, y: o.random_erasing(x, value=(1, 2), seed=1), InvalidArgumentError, "expected 2 channels, got 3"),
        (lambda o, x, y: o.random_erasing(x.astype("i4"), seed=1), DtypeError, "expected uint8, float16 or float32"),
        (lambda o, x, y: o.random_erasing(x[0, 0], seed=1), InvalidArgumentError, "expected pictures"),
        (lambda o, x, y: o.mixup(x, y), InvalidArgumentError, "num_classes is missing"),
        (lambda o, x, y: o.mixup(x, y, 0, seed=1), InvalidArgumentError, "num_classes must be from 1"),
        (lambda o, x, y: o.mixup(x, y, 4), InvalidArgumentError, "seed is missing"),
        (lambda o, x, y: o.mixup(x, y, 4, 0, seed=1), InvalidArgumentError, "alpha must be above 0"),
        (lambda o, x, y: o.mixup(x, y, 3, seed=1), InvalidArgumentError, "label 3 of element 0 is not from 0 to 2"),
        (lambda o, x, y: o.mixup(x, -y, 4, seed=1), InvalidArgumentError, "label -3 of element 0"),
        (lambda o, x, y: o.mixup(x, y[:4], 4, seed=1), InvalidArgumentError, "5 pictures have labels of 4 elements"),
        (lambda o, x, y: o.mixup(x[0], y, 4, seed=1), InvalidArgumentError, "4 dimensions"),
        (lambda o, x, y: o.cutmix(x, y.astype("i4"), 4, seed=1), DtypeError, "labels must be int64"),
        (lambda o, x, y: o.cutmix(x.astype("f8"), y, 4, seed=1), DtypeError, "expected uint8, float16 or float32"),
        (lambda o, x, y: o.cutmix(x, np.ones((5, 3), "f4"), 4, seed=1), InvalidArgumentError, "labels of 4 numbers"),
        (lambda o, x, y: o.cutmix(x, np.ones((5, 2), "i8"), 4, seed=1), InvalidArgumentError, "labels of 10 elements"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(qc.ops, BATCH, LABELS)


def test_what_only_the_elements_tell():
    images, labels = Component(np.dtype("u1"), None), Component(np.dtype("i8"), None)
    with pytest.raises(InvalidArgumentError, match="expected a batch of pictures with 4 dimensions, got 3"):
        qc.ops.mixup(num_classes=4, seed=1).bind([images, labels])(BATCH[0], LABELS)
    with pytest.raises(InvalidArgumentError, match="expected pictures and labels, got 1 components"):
        qc.ops.mixup(num_classes=4, seed=1).bind([images])
    with pytest.raises(InvalidArgumentError, match="expected 2 channels, got 3"):
        qc.ops.random_erasing(value=(1, 2), seed=1).bind([images])(BATCH)
