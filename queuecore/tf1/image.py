"""``tf.image``: pictures decoded and changed. Values are TensorFlow 1's, operations those of `queuecore.ops`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore import ops
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor, seed_pair
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import Sides, as_dtype, float32, name_of, string
from queuecore.tf1._ops.boxes import draw_bounding_boxes, sample_distorted_bounding_box
from queuecore.tf1._ops.colours import hsv_to_rgb, rgb_to_hsv
from queuecore.tf1._ops.decoders import decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png
from queuecore.tf1._ops.encoders import encode_jpeg, encode_png
from queuecore.tf1._ops.jpegs import decode_and_crop_jpeg, extract_jpeg_shape
from queuecore.tf1._ops.math import cast, identity, saturate_cast
from queuecore.tf1._ops.random import counted, random_crop

__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "central_crop",
    "convert_image_dtype",
    "crop_to_bounding_box",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "draw_bounding_boxes",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "is_jpeg",
    "pad_to_bounding_box",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_hue",
    "random_saturation",
    "resize",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_image_with_crop_or_pad",
    "resize_images",
    "resize_nearest_neighbor",
    "resize_with_crop_or_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rot90",
    "sample_distorted_bounding_box",
    "transpose",
    "transpose_image",
]

_WHOLE = np.s_[:]


class ResizeMethod:
    """Ways to give pictures another size."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def _pictures(value: Any, label: str, single: bool = False) -> tuple[Tensor, Sides]:
    """Return a tensor of pictures, and its sides, as many as it has, or three."""
    pictures = convert_to_tensor(value)
    rank = pictures.shape.ndims
    if rank is None:
        return pictures, (None,) * 3
    if rank != 3 and (single or rank < 3):
        outer = "" if single else "..., "
        raise ValueError(f"{label}: expected pictures [{outer}height, width, channels], got {pictures!r}")
    return pictures, pictures.shape.sides or ()


def _same(type_: str, image: Any, kernel: Callable[[Any], Any], name: str | None = None, dtype: Any = None) -> Tensor:
    pictures, _ = _pictures(image, type_)
    return apply_op(type_, [pictures], pictures.dtype if dtype is None else dtype, pictures.shape, kernel, name)


# Sizes


def _known_size(size: Any) -> tuple[int, int]:
    known = constant_value(convert_to_tensor(size))
    if known is None:
        raise ValueError("the size of pictures must be known before the graph runs")
    if np.shape(known) != (2,):
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    height, width = (int(one) for one in known)
    if height < 1 or width < 1:
        raise ValueError(f"pictures have at least one pixel: {[height, width]}")
    return height, width


def _factor(old: int, new: int, align_corners: bool) -> np.float32:
    if align_corners and new > 1:
        return np.float32(old - 1) / np.float32(new - 1)
    return np.float32(old) / np.float32(new)


def _bilinear(x: Any, height: int, width: int, align_corners: bool) -> Any:
    # As in TensorFlow 1, a pixel's position is that of its corner, not of its centre.
    pixels = x.astype(np.float32)
    for axis, new in ((-2, width), (-3, height)):
        old = pixels.shape[axis]
        places = np.arange(new, dtype=np.float32) * _factor(old, new, align_corners)
        low = np.floor(places).astype(np.int64)
        high = np.minimum(low + 1, old - 1)
        part = (places - low.astype(np.float32)).reshape(-1, *[1] * (-1 - axis))
        first = np.take(pixels, low, axis)
        pixels = first + (np.take(pixels, high, axis) - first) * part
    return pixels


def _nearest(x: Any, height: int, width: int, align_corners: bool) -> Any:
    pixels = x
    for axis, new in ((-2, width), (-3, height)):
        old = x.shape[axis]
        places = np.arange(new, dtype=np.float32) * _factor(old, new, align_corners)
        whole = np.floor(places + np.float32(0.5)) if align_corners else np.floor(places)
        pixels = np.take(pixels, np.minimum(whole.astype(np.int64), old - 1), axis)
    return pixels


def _cubic_weights(old: int, new: int, align_corners: bool) -> Any:
    # The weights of the four pixels around each place, in steps of 1/1024, as TensorFlow has them.
    places = np.arange(new, dtype=np.float32) * _factor(old, new, align_corners)
    low = np.floor(places).astype(np.int64)
    parts = np.rint((places - low.astype(np.float32)) * np.float32(1024)) / 1024
    a = -0.75
    weights = np.zeros((new, old))
    for step in (-1, 0, 1, 2):
        x = np.abs(step - parts)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        np.add.at(weights, (np.arange(new), np.clip(low + step, 0, old - 1)), np.where(x <= 1, near, far))
    return weights


def _area_weights(old: int, new: int, align_corners: bool) -> Any:
    # The part of each pixel that lies in a pixel of the result.
    factor = _factor(old, new, align_corners)
    begin = (np.arange(new, dtype=np.float32) * factor)[:, None]
    end = (np.arange(1, new + 1, dtype=np.float32) * factor)[:, None]
    made = np.zeros((new, old))
    pixels = np.arange(int(np.ceil(end.max())))
    part = np.clip(np.minimum(pixels + 1, end) - np.maximum(pixels, begin), 0, None) / factor
    np.add.at(made, (np.arange(new)[:, None], np.minimum(pixels, old - 1)), part)
    return made


def _weighted(weights: Callable[..., Any], x: Any, height: int, width: int, align_corners: bool) -> Any:
    rows, columns = weights(x.shape[-3], height, align_corners), weights(x.shape[-2], width, align_corners)
    return np.einsum("yh,...hwc,xw->...yxc", rows, x.astype(np.float64), columns).astype(np.float32)


def _by_weights(
    type_: str, images: Any, size: Any, align_corners: bool, half_pixel_centers: bool, name: str | None,
    weights: Callable[..., Any],
) -> Tensor:  # fmt: skip
    if half_pixel_centers:
        raise UnimplementedError(f"{type_}: half_pixel_centers is of bilinear and nearest pixels only")
    pictures, sides = _pictures(images, type_)
    height, width = _known_size(size)
    shape: Any = None if pictures.shape.ndims is None else (*sides[:-3], height, width, sides[-1])

    def kernel(x: Any) -> Any:
        return _checked(functools.partial(_weighted, weights), x, height, width, align_corners)

    return apply_op(type_, [pictures], np.float32, shape, kernel, name)


def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Return pictures of another size, float32, that blend the sixteen pixels around each place.

    Parameters and errors are those of `resize_bilinear`; but `half_pixel_centers` is an `UnimplementedError`.
    """
    return _by_weights("ResizeBicubic", images, size, align_corners, half_pixel_centers, name, _cubic_weights)


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Return pictures of another size, float32, whose pixels are means of those that they cover.

    Parameters and errors are those of `resize_bilinear`.
    """
    return _by_weights("ResizeArea", images, size, align_corners, False, name, _area_weights)


def _resized(
    type_: str, images: Any, size: Any, nearest: bool, align_corners: bool, half_pixel_centers: bool, name: str | None
) -> Tensor:
    if align_corners and half_pixel_centers:
        raise ValueError("If half_pixel_centers is True, align_corners must be False.")
    pictures, sides = _pictures(images, type_)
    height, width = _known_size(size)
    shape: Any = None if pictures.shape.ndims is None else (*sides[:-3], height, width, sides[-1])
    dtype = pictures.dtype if nearest else np.float32
    method = "nearest" if nearest else "bilinear"
    if half_pixel_centers:
        kernel: Callable[[Any], Any] = lambda x: ops.resize(x, (height, width), method)  # noqa: E731
    else:
        corners = _nearest if nearest else _bilinear
        kernel = lambda x: _checked(corners, x, height, width, align_corners)  # noqa: E731
    return apply_op(type_, [pictures], dtype, shape, kernel, name)


def _checked(call: Callable[..., Any], x: Any, height: int, width: int, align_corners: bool) -> Any:
    if x.ndim < 3 or 0 in x.shape[-3:-1]:
        raise InvalidArgumentError(f"expected pictures with pixels, got shape {list(x.shape)}")
    return call(x, height, width, align_corners)


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Return pictures of another size, float32, that blend the four pixels around each place.

    Parameters
    ----------
    images : Tensor, shape (..., height, width, channels)
    size : (int, int)
        New height and width, known beforehand.
    align_corners : bool, default False
        Whether the centres of the corners stay where they are.
    name : str, optional
    half_pixel_centers : bool, default False
        Whether a pixel's position is its centre: then a runner can resize natively (`queuecore.ops.resize`). By default
        it is the pixel's corner, as in TensorFlow 1.
    """
    return _resized("ResizeBilinear", images, size, False, align_corners, half_pixel_centers, name)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Return pictures of another size that take the nearest pixel; parameters as of `resize_bilinear`."""
    return _resized("ResizeNearestNeighbor", images, size, True, align_corners, half_pixel_centers, name)


def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return pictures of another size.

    Parameters
    ----------
    images : Tensor, shape (..., height, width, channels)
    size : (int, int)
        New height and width, known beforehand.
    method : int or str
        A member of `ResizeMethod`, or its name: ``"bilinear"``, ``"nearest"``, ``"bicubic"``, ``"area"``.
    align_corners : bool, default False
        Whether the centres of the corners stay where they are.
    preserve_aspect_ratio : bool, default False
        Whether the picture keeps its proportions, and `size` is a limit. The picture's own size must be known.
    name : str, optional

    Returns
    -------
    Tensor
        Of float32, but for the nearest pixels, unless the picture has that size already.

    Raises
    ------
    ValueError
        If there is no such method.
    """
    pictures, sides = _pictures(images, "resize_images")
    height, width = _known_size(size)
    if preserve_aspect_ratio:
        old = sides[-3:-1]
        if None in old:
            raise ValueError("preserve_aspect_ratio needs pictures whose size is known before the graph runs")
        factor = min(height / int(old[0] or 1), width / int(old[1] or 1))
        height, width = (max(round(factor * int(side or 1)), 1) for side in old)
    if sides[-3:-1] == (height, width):
        same: Tensor = identity(pictures, name)
        return same
    if method in (ResizeMethod.BILINEAR, "bilinear"):
        return resize_bilinear(pictures, (height, width), align_corners, name)
    if method in (ResizeMethod.NEAREST_NEIGHBOR, "nearest"):
        return resize_nearest_neighbor(pictures, (height, width), align_corners, name)
    if method in (ResizeMethod.BICUBIC, "bicubic"):
        return resize_bicubic(pictures, (height, width), align_corners, name)
    if method in (ResizeMethod.AREA, "area"):
        return resize_area(pictures, (height, width), align_corners, name)
    raise ValueError(f"Resize method is not implemented: {method!r}")


resize = resize_images


def _cut(x: Any, top: int, left: int, height: int, width: int) -> Any:
    return x[..., top : top + height, left : left + width, _WHOLE]


def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Return a part of pictures, of the given size, from the given offsets on.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    offset_height, offset_width : int
        The first row and the first column of the part.
    target_height, target_width : int
        The number of its rows and columns.

    Raises
    ------
    ValueError
        If there is no such part.
    InvalidArgumentError
        In a run, if there is no such part.
    """
    pictures, sides = _pictures(image, "crop_to_bounding_box")
    if min(offset_height, offset_width) < 0 or min(target_height, target_width) < 1:
        raise ValueError("offsets must be >= 0, and targets > 0")
    min_sides = offset_height + target_height, offset_width + target_width
    if any(side is not None and side < least for side, least in zip(sides[-3:-1], min_sides, strict=True)):
        raise ValueError(f"pictures must be at least {min_sides[0]} by {min_sides[1]}, not {pictures.shape}")

    def kernel(x: Any) -> Any:
        there = np.size(x, -3), np.size(x, -2)
        if there[0] < min_sides[0] or there[1] < min_sides[1]:
            raise InvalidArgumentError(f"pictures must be at least {min_sides[0]} by {min_sides[1]}, not {there}")
        return _cut(x, offset_height, offset_width, target_height, target_width)

    shape = None if pictures.shape.ndims is None else (*sides[:-3], target_height, target_width, sides[-1])
    return apply_op("Crop", [pictures], pictures.dtype, shape, kernel, "crop_to_bounding_box")


def _around(x: Any, top: int, left: int, height: int, width: int) -> Any:
    there = np.size(x, -3), np.size(x, -2)
    if there[0] + top > height or there[1] + left > width:
        raise InvalidArgumentError(f"pictures of {there} do not fit into {(height, width)} at {(top, left)}")
    lead = [(0, 0)] * (x.ndim - 3)
    return ops.pad(x, (*lead, (top, height - there[0] - top), (left, width - there[1] - left), (0, 0)))


def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Return pictures in the given size, at the given offsets, with zeros around them.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    offset_height, offset_width : int
        The rows of zeros above, and the columns of zeros to the left.
    target_height, target_width : int
        The number of rows and columns of the result.

    Raises
    ------
    ValueError
        If they don't fit.
    InvalidArgumentError
        In a run, if they don't fit.
    """
    pictures, sides = _pictures(image, "pad_to_bounding_box")
    if min(offset_height, offset_width) < 0:
        raise ValueError("offset_height and offset_width must be >= 0")
    room = target_height - offset_height, target_width - offset_width
    if any(side is not None and side > most for side, most in zip(sides[-3:-1], room, strict=True)):
        raise ValueError(f"pictures of {pictures.shape} do not fit into {(target_height, target_width)}")
    shape = None if pictures.shape.ndims is None else (*sides[:-3], target_height, target_width, sides[-1])
    return apply_op(
        "PadToBox",
        [pictures],
        pictures.dtype,
        shape,
        lambda x: _around(x, offset_height, offset_width, target_height, target_width),
        "pad_to_bounding_box",
    )


def resize_image_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Tensor:
    """Return pictures of another size: on each axis the middle is cut out, or zeros are added on both sides.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    target_height, target_width : int
        The number of rows and columns of the result, 1 or more.
    """
    pictures, sides = _pictures(image, "resize_image_with_crop_or_pad")
    if min(target_height, target_width) < 1:
        raise ValueError("target_height and target_width must be > 0.")

    def kernel(x: Any) -> Any:
        height, width = np.size(x, -3), np.size(x, -2)
        rows, columns = min(height, target_height), min(width, target_width)
        part = _cut(x, (height - rows) // 2, (width - columns) // 2, rows, columns)
        if (rows, columns) == (target_height, target_width):
            return part
        return _around(part, (target_height - rows) // 2, (target_width - columns) // 2, target_height, target_width)

    shape = None if pictures.shape.ndims is None else (*sides[:-3], target_height, target_width, sides[-1])
    return apply_op("CropOrPad", [pictures], pictures.dtype, shape, kernel, "resize_image_with_crop_or_pad")


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def central_crop(image: Any, central_fraction: float) -> Tensor:
    """Return the middle of pictures: that fraction of their height and width.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    central_fraction : float
        The fraction, above 0 and at most 1.

    Raises
    ------
    ValueError
        If the fraction isn't above 0 and at most 1.
    """
    if not 0 < central_fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    pictures, sides = _pictures(image, "central_crop")

    def part(side: int) -> tuple[int, int]:
        start = int((side - side * central_fraction) / 2)
        return start, side - 2 * start

    def kernel(x: Any) -> Any:
        (top, height), (left, width) = (part(side) for side in (np.size(x, -3), np.size(x, -2)))
        return _cut(x, top, left, height, width)

    inner = [None if side is None else part(side)[1] for side in sides[-3:-1]]
    shape = None if pictures.shape.ndims is None else (*sides[:-3], *inner, sides[-1])
    return apply_op("CentralCrop", [pictures], pictures.dtype, shape, kernel, "central_crop")


# Directions


def flip_left_right(image: Any) -> Tensor:
    """Return mirror images, with left and right exchanged.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    """
    return _same("FlipLeftRight", image, lambda x: x[..., ::-1, _WHOLE], "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """Return pictures upside down.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    """
    return _same("FlipUpDown", image, lambda x: x[..., ::-1, _WHOLE, _WHOLE], "flip_up_down")


def transpose(image: Any, name: str | None = None) -> Tensor:
    """Return pictures with rows and columns exchanged.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    name : str, optional
        The operation's name.
    """
    return rot(image, 0, True, name or "transpose")


transpose_image = transpose


def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Return pictures turned to the left by `k` right angles.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    k : int, default 1
        The number of right angles.
    name : str, optional
        The operation's name.
    """
    return rot(image, int(k) % 4, False, name or "rot90")


def rot(image: Any, k: int, mirrored: bool, name: str) -> Tensor:
    """Return pictures turned, or with rows and columns exchanged."""
    pictures, sides = _pictures(image, name)

    def kernel(x: Any) -> Any:
        order = (*range(x.ndim - 3), x.ndim - 2, x.ndim - 3, x.ndim - 1)
        if mirrored:
            return x.transpose(*order)
        if k == 1:
            return x.transpose(*order)[..., ::-1, _WHOLE, _WHOLE]
        if k == 2:
            return x[..., ::-1, ::-1, _WHOLE]
        return x.transpose(*order)[..., ::-1, _WHOLE] if k == 3 else x

    swapped = mirrored or k % 2
    shape: Any = None
    if pictures.shape.ndims is not None:
        shape = (*sides[:-3], sides[-2], sides[-3], sides[-1]) if swapped else sides
    return apply_op("Rot90", [pictures], pictures.dtype, shape, kernel, name)


# Colours


def _number(value: Any, what: str) -> float:
    known = constant_value(convert_to_tensor(value))
    if known is None or np.ndim(known):
        raise ValueError(f"{what} must be a number that is known before the graph runs")
    return float(known)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Return pictures with a number added to all values: see `queuecore.ops.adjust_brightness`."""
    amount = _number(delta, "delta")
    return _same("AdjustBrightness", image, lambda x: ops.adjust_brightness(x, amount), "adjust_brightness")


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Return pictures with the distances from the mean multiplied: see `queuecore.ops.adjust_contrast`."""
    factor = _number(contrast_factor, "contrast_factor")
    return _same("AdjustContrast", images, lambda x: ops.adjust_contrast(x, factor), "adjust_contrast")


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Return pictures with other hues: see `queuecore.ops.adjust_hue`."""
    amount = _number(delta, "delta")
    return _same("AdjustHue", image, lambda x: ops.adjust_hue(x, amount), name or "adjust_hue")


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Return pictures with the saturation multiplied: see `queuecore.ops.adjust_saturation`."""
    factor = _number(saturation_factor, "saturation_factor")
    return _same("AdjustSaturation", image, lambda x: ops.adjust_saturation(x, factor), name or "adjust_saturation")


def adjust_gamma(image: Any, gamma: float = 1, gain: float = 1) -> Tensor:
    """Return pictures whose values, between 0 and 1, are ``gain * value ** gamma``.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    gamma : float, default 1
        The exponent, 0 or more.
    gain : float, default 1
        The factor.
    """
    power, factor = _number(gamma, "gamma"), _number(gain, "gain")
    if power < 0:
        raise ValueError("Gamma should be a non-negative real number.")
    pictures, _ = _pictures(image, "adjust_gamma")
    floats = convert_image_dtype(pictures, np.float32)
    corrected = _same("AdjustGamma", floats, lambda x: (x ** np.float32(power)) * np.float32(factor), "adjust_gamma")
    return convert_image_dtype(corrected, pictures.dtype, saturate=True)


def _drawn(
    type_: str, image: Any, seed: int | None, call: Callable[..., Any], name: str, single: bool = False
) -> Tensor:
    # With the number of the record: see `counted`.
    pictures, _ = _pictures(image, name, single)
    return counted(type_, pictures, pictures.shape, seed_pair(seed), call, name)


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Return a picture, or its mirror image: see `queuecore.ops.random_flip_left_right`."""
    return _drawn("RandomFlipLeftRight", image, seed,
                  lambda x, number, **which: ops.random_flip_left_right(x, number, **which),
                  "random_flip_left_right", single=True)  # fmt: skip


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Return a picture, or the picture upside down, with equal chances.

    Parameters
    ----------
    image : Tensor or array, shape (height, width, channels)
    seed : int, optional
        The seed of the operation, as of other random operations.
    """
    # Upside down is a mirror image between two exchanges of rows and columns.
    return transpose(_drawn("RandomFlipUpDown", transpose(image), seed,
                            lambda x, number, **which: ops.random_flip_left_right(x, number, **which),
                            "random_flip_up_down", single=True))  # fmt: skip


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Return pictures with a random number added, at most `max_delta`: see `queuecore.ops.random_brightness`."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return _drawn("RandomBrightness", image, seed,
                  lambda x, number, **which: ops.random_brightness(x, max_delta, number, **which),
                  "random_brightness")  # fmt: skip


def _limits(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Return pictures of another contrast, by a random factor: see `queuecore.ops.random_contrast`."""
    _limits(lower, upper)
    return _drawn("RandomContrast", image, seed,
                  lambda x, number, **which: ops.random_contrast(x, lower, upper, number, **which),
                  "random_contrast")  # fmt: skip


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Return pictures of other saturation, by a random factor: see `queuecore.ops.random_saturation`."""
    _limits(lower, upper)
    return _drawn("RandomSaturation", image, seed,
                  lambda x, number, **which: ops.random_saturation(x, lower, upper, number, **which),
                  "random_saturation")  # fmt: skip


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Return pictures with other hues, by `max_delta` at most: see `queuecore.ops.random_hue`."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError("max_delta must be in [0, 0.5].")
    return _drawn("RandomHue", image, seed,
                  lambda x, number, **which: ops.random_hue(x, max_delta, number, **which), "random_hue")  # fmt: skip


def per_image_standardization(image: Any) -> Tensor:
    """Return pictures with mean 0 and deviation 1, float32; a picture of one colour becomes 0 everywhere.

    Parameters
    ----------
    image : Tensor or array, shape (..., height, width, channels)
    """
    pictures, sides = _pictures(image, "per_image_standardization")

    def kernel(x: Any) -> Any:
        floats = x.astype(np.float32) if x.dtype.kind != "f" else x
        axes = (-3, -2, -1)
        count = np.prod(x.shape[-3:], dtype=np.int64)
        centre = np.mean(floats, axes, keepdims=True, dtype=floats.dtype)
        spread = np.mean((floats - centre) ** 2, axes, keepdims=True, dtype=floats.dtype)
        least = floats.dtype.type(1) / np.sqrt(floats.dtype.type(max(int(count), 1)))
        return (floats - centre) / np.maximum(np.sqrt(spread), least)

    del sides
    dtype = pictures.dtype if pictures.dtype.kind == "f" else float32
    return apply_op("Standardize", [pictures], dtype, pictures.shape, kernel, "per_image_standardization")


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Return pictures of another type: integers go from 0 to their largest, floats from 0 to 1.

    Parameters
    ----------
    image : Tensor
    dtype : dtype
    saturate : bool, default False
        Whether a value that doesn't fit becomes the nearest number that does.
    name : str, optional
    """
    pictures, target = convert_to_tensor(image), as_dtype(dtype)
    for one in (pictures.dtype, target):
        if one.kind not in "iuf":
            raise TypeError(f"convert_image_dtype: a picture of {name_of(one)}")
    if pictures.dtype == target:
        same: Tensor = identity(pictures, name)
        return same
    convert = saturate_cast if saturate else cast
    if pictures.dtype.kind in "iu" and target.kind in "iu":
        old, new = np.iinfo(pictures.dtype).max, np.iinfo(target).max
        if old > new:
            scaled = apply_op("Scale", [pictures], pictures.dtype, pictures.shape,
                              lambda x: x // x.dtype.type((old + 1) // (new + 1)), None)  # fmt: skip
            down: Tensor = convert(scaled, target, name)
            return down
        factor = (new + 1) // (old + 1)
        up = convert(pictures, target)
        return apply_op("Scale", [up], target, pictures.shape, lambda x: x * x.dtype.type(factor), name)
    if pictures.dtype.kind in "iu":
        part = np.array(1.0 / np.iinfo(pictures.dtype).max, target)
        floats = cast(pictures, target)
        return apply_op("Scale", [floats], target, pictures.shape, lambda x: x * part, name)
    if target.kind in "iu":
        most = pictures.dtype.type(np.iinfo(target).max + 0.5)
        scaled = apply_op("Scale", [pictures], pictures.dtype, pictures.shape, lambda x: x * most, None)
        made: Tensor = convert(scaled, target, name)
        return made
    other: Tensor = cast(pictures, target, name)
    return other


_WEIGHTS = (0.2989, 0.587, 0.114)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Return pictures with one channel: the brightness of the three together.

    Parameters
    ----------
    images : Tensor or array, shape (..., height, width, 3)
    name : str, optional
        The operation's name.
    """
    pictures, sides = _pictures(images, "rgb_to_grayscale")
    if sides[-1] not in (3, None):
        raise ValueError(f"rgb_to_grayscale: expected 3 channels, got {pictures.shape}")
    floats = convert_image_dtype(pictures, np.float32)
    red, green, blue = (np.float32(one) for one in _WEIGHTS)
    shape = None if pictures.shape.ndims is None else (*sides[:-1], 1)
    gray = apply_op("Grayscale", [floats], np.float32, shape,
                    lambda x: x[..., 0:1] * red + x[..., 1:2] * green + x[..., 2:3] * blue, None)  # fmt: skip
    return convert_image_dtype(gray, pictures.dtype, name=name)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Return pictures whose single channel is repeated three times.

    Parameters
    ----------
    images : Tensor or array, shape (..., height, width, 1)
    name : str, optional
        The operation's name.
    """
    pictures, sides = _pictures(images, "grayscale_to_rgb")
    if sides[-1] not in (1, None):
        raise ValueError(f"grayscale_to_rgb: expected 1 channel, got {pictures.shape}")
    shape = None if pictures.shape.ndims is None else (*sides[:-1], 3)
    return apply_op("RGB", [pictures], pictures.dtype, shape, lambda x: np.repeat(x, 3, -1), name)


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Return whether a string begins as a JPEG does.

    Parameters
    ----------
    contents : Tensor or bytes
        One string.
    name : str, optional
        The operation's name.
    """
    given = convert_to_tensor(contents, string)
    return apply_op("IsJpeg", [given], bool, (), lambda x: np.bool_(x[:3] == b"\xff\xd8\xff"), name)


__getattr__ = _refusing("tf.image")  # what writes pictures, and what draws on them
