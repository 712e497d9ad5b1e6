"""Pictures that `tf.image` resizes by weights, boxes in them, colours, and parts of JPEGs, as TensorFlow does."""

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

BYTES = "(np.arange(60).reshape(1, 4, 5, 3) * 37 % 251).astype('u1')"
FLOATS = "(np.arange(35.).reshape(5, 7, 1) * 1.7 % 9 - 3).astype('f')"
NONE = "np.zeros([1, 0, 4], 'f')"
JPEG = "tf.image.encode_jpeg(np.full([4, 5, 1], 100, 'u1'))"
CASES = [
    *(
        f"tf.image.resize_images({x}, {size}, method={method}{more})"
        for x in (BYTES, FLOATS) for size in ([3, 2], [9, 12], [1, 1], [4, 5])
        for method in ("tf.image.ResizeMethod.BICUBIC", "tf.image.ResizeMethod.AREA")
        for more in ("", ", align_corners=True")
    ),
    f"tf.image.resize_images({FLOATS}, [8, 9], 2, preserve_aspect_ratio=True)",
    f"tf.image.resize_bicubic({BYTES}, [7, 3])", f"tf.image.resize_area({BYTES}, [7, 3], align_corners=True)",
    *(
        f"tf.image.sample_distorted_bounding_box([{size}, 3], {boxes}, {seeds}{more})"
        for size in ("8, 8", "333, 500", "1, 1", "20, 7") for seeds in ("seed=1", "seed=5, seed2=7")
        for boxes in ("[[[0., 0., 1., 1.]]]", "[[[.2, .1, .5, .4], [.5, .5, .9, .9]]]")
        for more in (
            "", ", min_object_covered=1.", ", area_range=[.08, 1.], aspect_ratio_range=[3 / 4, 4 / 3], max_attempts=3",
            ", min_object_covered=.5, aspect_ratio_range=[.9, 1.1], area_range=[.5, 1.]",
        )
    ),
    f"tf.image.sample_distorted_bounding_box([9, 9, 3], {NONE}, seed=1, use_image_if_no_bounding_boxes=True)",
    f"tf.image.sample_distorted_bounding_box([9, 9, 3], {NONE}, seed=1)",
    "tf.image.sample_distorted_bounding_box([8, 8], [[[0., 0., 1., 1.]]], seed=1)",
    "tf.image.sample_distorted_bounding_box([8, 8, 3], [[[0., 0., 2., 1.]]], seed=1)",
    *(
        f"tf.image.draw_bounding_boxes({pictures}, {boxes}{more})"
        for pictures in ("np.zeros([1, 5, 7, 3], 'f')", "np.full([1, 5, 7, 1], .5, 'f')", "np.zeros([1, 5, 7, 4], 'f')",
                         "np.zeros([1, 5, 7, 2], 'f')", "np.zeros([5, 7, 3], 'f')", "np.zeros([2, 5, 7, 3], 'f')")
        for boxes in ("[[[0., 0., .5, .5]]]", "[[[.2, .3, .5, 1.5], [-.5, .2, .9, .4], [.9, .1, .2, .5]]]")
        for more in ("",)
    ),
    "tf.image.rgb_to_hsv(np.arange(24.).reshape(2, 4, 3).astype('f') * 7 % 11 / 11)",
    "tf.image.rgb_to_hsv([[1, 2, 3]])",
    "tf.image.hsv_to_rgb(np.arange(24.).reshape(2, 4, 3).astype('f') * 7 % 11 / 11)", "tf.image.hsv_to_rgb([[1., 2.]])",
    f"tf.image.extract_jpeg_shape({JPEG})", f"tf.image.extract_jpeg_shape({JPEG}, tf.int64)",
    "tf.image.extract_jpeg_shape('junk')",
    *(f"tf.image.decode_and_crop_jpeg({JPEG}, {window})"
      for window in ([0, 0, 2, 2], [1, 2, 3, 3], [0, 0, 9, 1], [-1, 0, 1, 1], [0, 0, 0, 1])),
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
