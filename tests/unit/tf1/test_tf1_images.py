"""Pictures that `tf.image` resizes by weights, as TensorFlow does."""

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

BYTES = "(np.arange(60).reshape(1, 4, 5, 3) * 37 % 251).astype('u1')"
FLOATS = "(np.arange(35.).reshape(5, 7, 1) * 1.7 % 9 - 3).astype('f')"
CASES = [
    *(
        f"tf.image.resize_images({x}, {size}, method={method}{more})"
        for x in (BYTES, FLOATS) for size in ([3, 2], [9, 12], [1, 1], [4, 5])
        for method in ("tf.image.ResizeMethod.BICUBIC", "tf.image.ResizeMethod.AREA")
        for more in ("", ", align_corners=True")
    ),
    f"tf.image.resize_images({FLOATS}, [8, 9], 2, preserve_aspect_ratio=True)",
    f"tf.image.resize_bicubic({BYTES}, [7, 3])", f"tf.image.resize_area({BYTES}, [7, 3], align_corners=True)",
    f"tf.image.resize_area({BYTES}, [0, 3])", f"tf.image.resize_images({FLOATS}, [2, 2], method=9)",
]  # fmt: skip

ANSWERS = dict(zip(CASES, recorded("images", CASES, 1), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


def test_centres_of_pixels_are_refused_by_name():
    with pytest.raises(tf.errors.UnimplementedError, match="half_pixel_centers"):
        tf.image.resize_bicubic(np.zeros([1, 2, 2, 1], np.float32), [3, 3], half_pixel_centers=True)
