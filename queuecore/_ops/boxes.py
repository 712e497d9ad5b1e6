"""Parts of pictures by boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._checks.checks import wholes
from queuecore._core.steps.image_ops import BoxStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component
from queuecore._ops.chain import FLOAT, check_array_size, number_of, run_together
from queuecore._ops.pictures import picture, real_number
from queuecore._ops.stage import Stage
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["crop_and_resize"]

_METHODS = ("bilinear", "nearest")


def crop_and_resize(
    images: Any = None,
    boxes: Any = None,
    box_indices: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Any:
    """Cut boxes out of the pictures of a batch, and give each part one size.

    Parameters
    ----------
    images : array, optional
        Of shape [batch, height, width, channels]. Without it, the result is a `Stage`, for elements of pictures, boxes
        and indices.
    boxes : array of float32
        Of shape [boxes, 4]: top, left, bottom and right, where 0 is the centre of the first pixel of an axis and 1 that
        of the last one. A box may turn round an axis, and lie outside its picture.
    box_indices : array of int32 or int64
        Of shape [boxes]: the picture of each box.
    crop_size : (int, int)
        Height and width of the parts.
    method : {"bilinear", "nearest"}
        How pixels between others are found.
    extrapolation_value : float, default 0
        What comes where a part lies outside its picture.

    Returns
    -------
    ndarray
        float32, [boxes, height, width, channels].

    Raises
    ------
    DtypeError
        If an array is of another dtype.
    InvalidArgumentError
        If shapes don't go together, there is no such picture, the size isn't positive, or the method unknown.

    Notes
    -----
    Follows TensorFlow's ``image.crop_and_resize``. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> boxes = np.array([[0, 0, 1, 1], [0.5, 0.5, 1, 1]], np.float32)
    >>> qc.ops.crop_and_resize(images, boxes, np.zeros(2, np.int32), (2, 2))[..., 0].tolist()
    [[[0.0, 2.0], [6.0, 8.0]], [[4.0, 5.0], [7.0, 8.0]]]
    """
    label = "crop_and_resize"
    sides = wholes(label, "crop_size", crop_size, 1)
    if len(sides) != 2:
        raise InvalidArgumentError(f"{label}: expected height and width as crop_size, got {list(sides)}")
    if method not in _METHODS:
        raise InvalidArgumentError(f'{label}: method must be "bilinear" or "nearest", not {method!r}')
    outside = real_number(label, "extrapolation_value", extrapolation_value)
    check_array_size(label, sides, FLOAT)

    def bind(components: tuple[Component, ...]) -> Step:
        if len(components) != 3:
            raise InvalidArgumentError(
                f"{label}: expected pictures, boxes and indices, got {len(components)} components"
            )
        pictures, places, indices = components
        number = number_of(label, picture(label, (pictures,)).dtype)
        if places.dtype != FLOAT:
            raise DtypeError(f"{label}: boxes must be float32, not {places.dtype}")
        if indices.dtype not in (np.int32, np.int64):
            raise DtypeError(f"{label}: box_indices must be int32 or int64, not {indices.dtype}")
        count = None if places.shape is None or not places.shape else places.shape[0]
        channels = None if pictures.shape is None else pictures.shape[-1]
        output = Component(FLOAT, (count, *sides, channels), name=pictures.name)
        return BoxStep(tuple(components), (output,), number, sides, method == "nearest", outside)

    stage = Stage(f"{label}({list(sides)}, {method}, {outside:g})", bind)
    return stage if images is None else run_together(label, stage, [images, boxes, box_indices])
