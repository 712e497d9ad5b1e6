"""Operations on bytes, numbers and pictures: at once on values, or, given no input, as native stages."""

from __future__ import annotations

from queuecore._elements.component import Component
from queuecore._ops.augment import color_jitter, gaussian_blur, rand_augment, random_grayscale, trivial_augment
from queuecore._ops.boxes import crop_and_resize
from queuecore._ops.csv import decode_csv
from queuecore._ops.decode_images import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    decode_webp,
)
from queuecore._ops.examples import (
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from queuecore._ops.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from queuecore._ops.functions import cfunc, python
from queuecore._ops.geometry import (
    center_crop,
    flip_left_right,
    flip_up_down,
    normalize,
    random_crop,
    random_flip_left_right,
    random_flip_up_down,
    random_resized_crop,
    resize,
    resize_with_pad,
    rot90,
)
from queuecore._ops.images import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    random_brightness,
    random_contrast,
    random_hue,
    random_saturation,
)
from queuecore._ops.mixing import cutmix, mixup, random_erasing
from queuecore._ops.numbers import cast, compose, on, one_hot, pad, reshape, scale, slice, transpose
from queuecore._ops.raw import decode_compressed, decode_padded_raw, decode_raw
from queuecore._ops.stage import Stage
from queuecore._ops.texts import Table, equal, join, less, not_equal, split, table

__all__ = [
    "Component",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "Stage",
    "Table",
    "VarLenFeature",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "cast",
    "center_crop",
    "cfunc",
    "color_jitter",
    "compose",
    "crop_and_resize",
    "cutmix",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_compressed",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_padded_raw",
    "decode_png",
    "decode_raw",
    "decode_webp",
    "equal",
    "flip_left_right",
    "flip_up_down",
    "gaussian_blur",
    "join",
    "less",
    "mixup",
    "normalize",
    "not_equal",
    "on",
    "one_hot",
    "pad",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "python",
    "rand_augment",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_erasing",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_grayscale",
    "random_hue",
    "random_resized_crop",
    "random_saturation",
    "reshape",
    "resize",
    "resize_with_pad",
    "rot90",
    "scale",
    "slice",
    "split",
    "table",
    "transpose",
    "trivial_augment",
]
