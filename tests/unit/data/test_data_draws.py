"""Random operations in datasets: the draws of an element are the same wherever and however an operation runs."""

from __future__ import annotations

import numpy as np
import pytest

import queuecore as qc
from queuecore.data import Dataset, Options
from queuecore.ops import Component

SHAPE = (6, 5, 3)
PICTURES = np.random.default_rng(0).integers(0, 256, (14, *SHAPE), np.uint8)
PASSES = 2

OPS = {
    "random_crop": lambda x=None: qc.ops.random_crop(x, (3, 2, 3), seed=1),
    "random_flip_left_right": lambda x=None: qc.ops.random_flip_left_right(x, seed=1),
    "random_resized_crop": lambda x=None: qc.ops.random_resized_crop(x, 4, seed=1),
    "random_brightness": lambda x=None: qc.ops.random_brightness(x, 0.4, seed=1),
    "color_jitter": lambda x=None: qc.ops.color_jitter(x, 0.4, 0.4, 0.4, 0.2, seed=1),
    "trivial_augment": lambda x=None: qc.ops.trivial_augment(x, seed=1),
    "random_grayscale": lambda x=None: qc.ops.random_grayscale(x, 0.5, seed=1),
    "gaussian_blur": lambda x=None: qc.ops.gaussian_blur(x, 3, seed=1),
    "random_erasing": lambda x=None: qc.ops.random_erasing(x, 0.9, seed=1),
}


def untraced(op):
    """Return a function that needs the values of its element, so that it runs in Python."""

    def call(x):
        return op(x if np.asarray(x).ndim else x)

    return call


def each(dataset):
    return [result.copy() for result in dataset]


def unbatched(dataset):
    return [row.copy() for batch in dataset for row in batch]


# From a dataset of pictures and an operation to the results, one by one.
WAYS = {
    "stage": lambda ds, op: each(ds.map(op())),
    "traced": lambda ds, op: each(ds.map(lambda x: op(x))),
    "called": lambda ds, op: each(ds.map(untraced(op))),
    "called in threads": lambda ds, op: each(ds.map(untraced(op), num_parallel_calls=3)),
    "before a batch": lambda ds, op: unbatched(ds.map(op()).batch(3)),
    "stage behind a batch": lambda ds, op: unbatched(ds.batch(3).map(op())),
    "traced behind a batch": lambda ds, op: unbatched(ds.batch(3).map(lambda x: op(x))),
    "called behind a batch": lambda ds, op: unbatched(ds.batch(3).map(untraced(op))),
    "called behind a called one": lambda ds, op: unbatched(ds.batch(3).map(untraced(lambda x: x)).map(untraced(op))),
    "behind two batches": lambda ds, op: [
        row.copy() for group in ds.batch(2).batch(2).map(untraced(lambda x: op(x.reshape(-1, *SHAPE)))) for row in group
    ],
    "scanned": lambda ds, op: each(ds.scan(np.int64(0), lambda state, x: (state, op(np.asarray(x))))),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("way", WAYS)
def test_draws_follow_from_the_element_alone(way, name):
    op = OPS[name]
    result = WAYS[way](Dataset.from_tensor_slices(PICTURES).with_options(Options(num_threads=2)), op)
    expected = [np.asarray(op(PICTURES)[element]) for element in range(len(PICTURES))]
    assert len(result) == len(expected)
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len({one.tobytes() for one in expected}) > 5


@pytest.mark.parametrize("way", ["stage", "called", "called in threads"])
def test_each_pass_draws_anew(way):
    passes = WAYS[way](Dataset.from_tensor_slices(PICTURES).repeat(PASSES), OPS["random_resized_crop"])
    first, second = passes[: len(PICTURES)], passes[len(PICTURES) :]
    assert any((ours != theirs).any() for ours, theirs in zip(first, second, strict=True))
    again = WAYS[way](Dataset.from_tensor_slices(PICTURES), OPS["random_resized_crop"])
    assert all((ours == theirs).all() for ours, theirs in zip(first, again, strict=True))


@pytest.mark.parametrize("name", OPS)
def test_steps_in_python_draw_for_their_element(name):
    step = qc.ops.python(OPS[name]).bind([Component(PICTURES.dtype, SHAPE)])
    for element, expected in enumerate(OPS[name](PICTURES)):
        np.testing.assert_array_equal(step(PICTURES[element], element=element), expected)


def test_numbers_that_are_given_go_before():
    crops = each(
        Dataset.from_tensor_slices(PICTURES).map(untraced(lambda x: qc.ops.random_crop(x, (2, 2, 3), 1, element=5)))
    )
    for picture, crop in zip(PICTURES, crops, strict=True):
        np.testing.assert_array_equal(crop, qc.ops.random_crop(picture, (2, 2, 3), 1, element=5))


def test_a_filter_draws_for_its_element():
    pictures = each(
        Dataset.from_tensor_slices(PICTURES).filter(
            untraced(lambda x: bool((OPS["random_flip_left_right"](x) == x).all()))
        )
    )
    flipped = qc.ops.random_flip_left_right(PICTURES, seed=1)
    expected = [picture for picture, other in zip(PICTURES, flipped, strict=True) if (picture == other).all()]
    assert 0 < len(expected) < len(PICTURES) and len(pictures) == len(expected)
    assert all((ours == theirs).all() for ours, theirs in zip(pictures, expected, strict=True))


@pytest.mark.parametrize("op", [qc.ops.mixup, qc.ops.cutmix])
def test_mixtures_are_drawn_for_each_batch(op):
    labels = np.arange(len(PICTURES)) % 4
    ds = Dataset.from_tensor_slices((PICTURES, labels)).batch(4, drop_remainder=True)
    expected = [op(PICTURES[i : i + 4], labels[i : i + 4], 4, seed=1, element=i) for i in range(0, 12, 4)]
    assert not np.array_equal(expected[0][1], expected[1][1])
    for mixed in (
        ds.map(op(num_classes=4, seed=1)),
        ds.map(lambda images, labels: op(images, labels, 4, seed=1)),
        ds.map(lambda images, labels: op(np.asarray(images), labels, num_classes=4, seed=1)),
    ):
        for (images, shares), (their_images, their_shares) in zip(mixed, expected, strict=True):
            np.testing.assert_array_equal(images, their_images)
            np.testing.assert_array_equal(shares, their_shares)
