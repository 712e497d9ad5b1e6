"""JPEGs that are looked at, or decoded in part."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor
from queuecore.tf1._graph.values import as_dtype, int32, string, uint8
from queuecore.tf1._ops.decoders import decode_jpeg

__all__ = ["decode_and_crop_jpeg", "extract_jpeg_shape"]

# Markers of frames, which say how large the picture is; and those that have nothing behind them
_FRAMES = frozenset([*range(0xC0, 0xD0)]) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset([0x01, *range(0xD0, 0xD9)])


def _shape_of(data: bytes) -> tuple[int, int, int]:
    if data[:2] != b"\xff\xd8":
        raise InvalidArgumentError("Invalid JPEG data: it doesn't begin with the marker of a picture")
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            break
        marker = data[position + 1]
        if marker in _BARE or marker == 0xFF:
            position += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES and position + 10 <= len(data):
            height, width = (int.from_bytes(data[position + i : position + i + 2], "big") for i in (5, 7))
            return height, width, data[position + 9]
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    raise InvalidArgumentError(f"Invalid JPEG data: no frame in {len(data)} bytes")


def extract_jpeg_shape(contents: Any, output_type: Any = np.int32, name: str | None = None) -> Tensor:
    """Return height, width and channels of a JPEG, which is not decoded.

    Parameters
    ----------
    contents : Tensor, one string
    output_type : {int32, int64}, default int32
    name : str, optional

    Raises
    ------
    InvalidArgumentError
        In a run, if it is no JPEG.
    """
    given, kind = convert_to_tensor(contents, string), as_dtype(output_type)
    given.shape.ranked(0)
    return apply_op("ExtractJpegShape", [given], kind, (3,), lambda x: np.array(_shape_of(x), kind.dtype), name)


def decode_and_crop_jpeg(
    contents: Any, crop_window: Any, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True,
    try_recover_truncated: bool = False, acceptable_fraction: float = 1, dct_method: str = "",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Decode a part of a JPEG.

    Parameters
    ----------
    contents : Tensor, one string
    crop_window : Tensor of int32, shape (4,)
        Top, left, height and width of the part.
    channels : {0, 1, 3}, default 0
        0: as in the file.
    ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
        As of `decode_jpeg`.
    name : str, optional

    Returns
    -------
    Tensor of uint8, shape (height, width, channels)

    Raises
    ------
    InvalidArgumentError
        In a run, if it is no JPEG, or the part isn't inside of the picture.
    """
    window = convert_to_tensor(crop_window, int32)
    window.shape.ranked(1).assert_is_compatible_with([4])
    full_picture = decode_jpeg(
        contents, channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
    )
    known = constant_value(window)
    sides = (None, None) if known is None else (int(known[2]), int(known[3]))

    def kernel(picture: Any, part: Any) -> Any:
        top, left, height, width = (int(one) for one in part)
        bottom, right = top + height, left + width
        if min(top, left) < 0 or min(height, width) <= 0 or bottom > picture.shape[0] or right > picture.shape[1]:
            raise InvalidArgumentError(
                f"Invalid JPEG data or crop window, data size {picture.shape[:2]}: crop window {part.tolist()}"
            )
        return np.ascontiguousarray(picture[top:bottom, left:right])

    return apply_op("DecodeAndCropJpeg", [full_picture, window], uint8, (*sides, channels or None), kernel, name)
