"""Parts of pictures by boxes, by the formula that TensorFlow documents (`make peers` compares with TensorFlow)."""

import numpy as np
import pytest

import queuecore as qc
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import Component

RANDOM = np.random.default_rng(0)
BOXES = np.array(
    [
        *([0, 0, 1, 1], [0.2, 0.3, 0.7, 0.9], [0.9, 0.8, 0.1, 0.2], [-0.5, 0.2, 0.5, 1.5], [0.5, 0.5, 0.5, 0.5]),
        *([2, 2, 3, 3], [0, 0, 0.001, 1], [1, 1, 1, 1], [np.nan, 0, 1, 1], [0, -1e30, 1, 1e30]),
    ],
    np.float32,
)
INDICES = RANDOM.integers(0, 3, len(BOXES)).astype(np.int32)


def places(begin, end, side, targets):
    side = np.float32(side - 1)
    if targets > 1:
        return begin * side + np.arange(targets, dtype=np.float32) * ((end - begin) * side / np.float32(targets - 1))
    return np.array([np.float32(0.5) * (begin + end) * side])


def parts(images, boxes, indices, size, method, outside):
    result = np.full((len(boxes), *size, images.shape[-1]), outside, np.float32)
    _, height, width, _ = images.shape
    for number, ((top, left, bottom, right), index) in enumerate(zip(boxes, indices, strict=True)):
        with np.errstate(invalid="ignore"):
            rows, columns = places(top, bottom, height, size[0]), places(left, right, width, size[1])
        for i, y in enumerate(rows):
            for j, x in enumerate(columns):
                if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                    continue
                if method == "nearest":
                    result[number, i, j] = images[index, int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
                    continue
                pixel = images[index].astype(np.float32)
                y0, y1, x0, x1 = int(np.floor(y)), int(np.ceil(y)), int(np.floor(x)), int(np.ceil(x))
                above = pixel[y0, x0] + (pixel[y0, x1] - pixel[y0, x0]) * np.float32(x - x0)
                below = pixel[y1, x0] + (pixel[y1, x1] - pixel[y1, x0]) * np.float32(x - x0)
                result[number, i, j] = above + (below - above) * np.float32(y - y0)
    return result


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "f2", "f4", "f8"])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(4, 5), (1, 3), (6, 1)])
def test_parts(dtype, method, size):
    images = RANDOM.integers(0, 100, (3, 7, 9, 2)).astype(dtype)
    expected = parts(images, BOXES, INDICES, size, method, 7.5)
    stage = qc.ops.crop_and_resize(crop_size=size, method=method, extrapolation_value=7.5)
    for indices in (INDICES, INDICES.astype(np.int64)):
        step = stage.bind([Component(array.dtype, array.shape) for array in (images, BOXES, indices)])
        (result,) = step(images, BOXES, indices)
        assert (result.dtype, result.shape) == (step.outputs[0].dtype, step.outputs[0].shape)
        np.testing.assert_allclose(result, expected, 1e-5, 1e-4)
        (again,) = stage.bind([Component(array.dtype, None) for array in (images, BOXES, indices)])(
            images, BOXES, indices
        )
        np.testing.assert_array_equal(again, result)
    np.testing.assert_array_equal(qc.ops.crop_and_resize(images, BOXES, INDICES, size, method, 7.5), result)


def test_in_a_dataset():
    images = RANDOM.integers(0, 100, (4, 1, 7, 9, 3), np.uint8)
    boxes, indices = np.tile(BOXES[:2], (4, 1, 1)), np.zeros((4, 2), np.int32)
    ds = qc.data.Dataset.from_tensor_slices((images, boxes, indices))
    traced = ds.map(lambda *element: qc.ops.crop_and_resize(*element, (3, 4)))
    assert traced.plan().startswith("native")
    for result, other, image in zip(traced, ds.map(qc.ops.crop_and_resize(crop_size=(3, 4))), images, strict=True):
        expected = qc.ops.crop_and_resize(image, BOXES[:2], indices[0], (3, 4))
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(other, expected)


def test_no_boxes_and_no_pixels():
    images = np.zeros((2, 3, 4, 1), np.uint8)
    none = np.zeros((0, 4), np.float32), np.zeros(0, np.int32)
    assert qc.ops.crop_and_resize(images, *none, (2, 2)).shape == (0, 2, 2, 1)
    one = np.zeros((1, 4), np.float32), np.zeros(1, np.int32)
    assert qc.ops.crop_and_resize(images[..., :0], *one, (2, 2)).shape == (1, 2, 2, 0)
    empty = qc.ops.crop_and_resize(images[:, :0], *one, (2, 2), extrapolation_value=3)
    np.testing.assert_array_equal(empty, np.full((1, 2, 2, 1), 3, np.float32))


IMAGES = np.zeros((3, 4, 5, 1), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((IMAGES, BOXES, INDICES), InvalidArgumentError, "crop_size is missing"),
        ((IMAGES, BOXES, INDICES, (2, 3, 4)), InvalidArgumentError, "expected height and width"),
        ((IMAGES, BOXES, INDICES, (0, 3)), InvalidArgumentError, "crop_size"),
        ((IMAGES, BOXES, INDICES, (2, 3), "bicubic"), InvalidArgumentError, "method must be"),
        (
            (IMAGES, BOXES, INDICES, (2, 3), "nearest", "a"),
            InvalidArgumentError,
            "extrapolation_value must be a number",
        ),
        ((IMAGES[0], BOXES, INDICES, (2, 3)), InvalidArgumentError, "4 dimensions, got 3"),
        ((IMAGES, BOXES[:, :3], INDICES, (2, 3)), InvalidArgumentError, "boxes of 4 numbers each, got 10 x 3"),
        ((IMAGES, BOXES[0], INDICES, (2, 3)), InvalidArgumentError, "boxes of 4 numbers each"),
        ((IMAGES, BOXES, INDICES[:4], (2, 3)), InvalidArgumentError, "10 boxes have 4 indices"),
        ((IMAGES, BOXES, INDICES + 3, (2, 3)), InvalidArgumentError, "there is no picture"),
        ((IMAGES, BOXES, -1 - INDICES, (2, 3)), InvalidArgumentError, "there is no picture -"),
        ((IMAGES, BOXES.astype("f8"), INDICES, (2, 3)), DtypeError, "boxes must be float32"),
        ((IMAGES, BOXES, INDICES.astype("i2"), (2, 3)), DtypeError, "box_indices must be int32 or int64"),
        ((IMAGES.astype("c8"), BOXES, INDICES, (2, 3)), DtypeError, "complex64"),
    ],
)
def test_bad_calls(arguments, error, text):
    with pytest.raises(error, match=text):
        qc.ops.crop_and_resize(*arguments)
