"""Colours of pictures in other words: hue, saturation and value."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import float32, name_of

__all__ = ["hsv_to_rgb", "rgb_to_hsv"]


def _pictures(images: Any) -> Tensor:
    pictures = convert_to_tensor(images, preferred_dtype=float32)
    if pictures.dtype.name not in ("float16", "float32", "float64", "bfloat16"):
        raise TypeError(
            f"Value passed to parameter 'images' has DataType {name_of(pictures.dtype)} not in list of allowed values: "
            "float16, bfloat16, float32, float64"
        )
    if pictures.shape.sides is not None:
        pictures.shape.ranked(1, least=True)[-1].assert_is_compatible_with(3)
    return pictures


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Return pictures of red, green and blue as hue, saturation and value, all between 0 and 1.

    Parameters
    ----------
    images : Tensor of floats, shape (..., 3)
        Between 0 and 1.
    name : str, optional
    """
    pictures = _pictures(images)

    def kernel(x: Any) -> Any:
        red, green, blue = (x[..., at] for at in range(3))
        value = x.max(axis=-1)
        width = value - x.min(axis=-1)
        six = (1 / (6 * np.where(width > 0, width, 1))).astype(x.dtype)
        third = x.dtype.type(1 / 3)
        hue = np.where(
            red == value, six * (green - blue),
            np.where(green == value, six * (blue - red) + third, six * (red - green) + 2 * third),
        )  # fmt: skip
        hue = np.where(width > 0, np.where(hue < 0, hue + 1, hue), 0)
        saturation = np.where(value > 0, width / np.where(value > 0, value, 1), 0)
        return np.stack([hue, saturation, value], -1).astype(x.dtype)

    return apply_op("RGBToHSV", [pictures], pictures.dtype, pictures.shape, kernel, name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Return pictures of hue, saturation and value as red, green and blue, all between 0 and 1.

    Parameters
    ----------
    images : Tensor of floats, shape (..., 3)
        Between 0 and 1.
    name : str, optional
    """
    pictures = _pictures(images)

    def kernel(x: Any) -> Any:
        hue, saturation, value = (x[..., at] for at in range(3))
        six = hue * 6
        shares = [np.abs(six - 3) - 1, 2 - np.abs(six - 2), 2 - np.abs(six - 4)]
        made = [(1 - saturation + saturation * np.clip(one, 0, 1)) * value for one in shares]
        return np.stack(made, -1).astype(x.dtype)

    return apply_op("HSVToRGB", [pictures], pictures.dtype, pictures.shape, kernel, name)
