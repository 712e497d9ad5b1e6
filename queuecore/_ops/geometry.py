"""Operations on the geometry of pictures: sizes, crops and mirror images, also at random; and normalising."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex, overload

import numpy as np

from queuecore._checks.checks import whole, wholes
from queuecore._core.steps.image_ops import CropStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component, shape_text
from queuecore._ops.chain import FLOAT, Composed, lone_array, run_eagerly
from queuecore._ops.numbers import transpose
from queuecore._ops.pictures import (
    FILTERS,
    Crop,
    Flip,
    Normalize,
    Pictures,
    Resize,
    likelihood,
    picture,
    positive_bounds,
    real_number,
    seed_number,
)
from queuecore._ops.stage import Stage, drawing_op, traceable
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = [
    "center_crop",
    "flip_left_right",
    "flip_up_down",
    "normalize",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_resized_crop",
    "resize",
    "resize_with_pad",
    "rot90",
]


def _sides(label: str, size: Any) -> tuple[int, int]:
    sides = wholes(label, "size", size, 1)
    if len(sides) != 2:
        raise InvalidArgumentError(f"{label}: expected height and width as size, got {list(sides)}")
    return sides[0], sides[1]


def _square(label: str, size: Any) -> tuple[int, int]:
    """Return height and width; a lone number is both."""
    if size is not None and np.ndim(size) == 0:
        size = (size, size)
    return _sides(label, size)


def _filter(label: str, what: str, method: Any) -> int:
    if method not in FILTERS:
        words = ", ".join(f'"{name}"' for name in FILTERS)
        raise InvalidArgumentError(f"{label}: expected {what} to be one of {words}, got {method!r}")
    return FILTERS[method]


def _resized(label: str, size: tuple[int, int], method: Any, antialias: Any, divides: Any, fit: int) -> Resize:
    number = _filter(label, "method", method)
    shown = size[0] if fit == 1 else list(size)
    text = f"{label}({shown}, {method}{', antialias' if antialias else ''})"
    # The nearest pixel and the mean of an area are what they are, as in TensorFlow.
    wide = bool(antialias) and method not in ("nearest", "area")
    return Resize(label, text, number, wide, wide and bool(divides), fit, size)


@overload
def resize(
    x: None = None, size: Any = ..., method: str = ..., antialias: bool = ..., *, dct_scale: bool = ...
) -> Stage: ...
@overload
def resize(x: Any, size: Any, method: str = ..., antialias: bool = ..., *, dct_scale: bool = ...) -> np.ndarray: ...
@traceable
def resize(
    x: Any = None,
    size: Any = None,
    method: str = "bilinear",
    antialias: bool = False,
    *,
    dct_scale: bool = True,
) -> Any:
    """Give pictures another size.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    size : (int, int) or int
        New height and width. One number is the new length of the shorter side; the other side follows, rounded down.
    method : {"bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "nearest"}
        The filter. Default: bilinear.
    antialias : bool, default False
        Whether the filter becomes as wide as the new pixels where the picture becomes smaller. Without effect on "area"
        and "nearest".
    dct_scale : bool, default True
        Whether a JPEG that is decoded right before, in the same chain, may be decoded at a half, a quarter or an eighth
        of its size, as long as that isn't below the new size; only with `antialias`.

    Returns
    -------
    ndarray
        float32, not rounded. Nearest: of the dtype of `x`.

    Raises
    ------
    DtypeError
        If `x` are no numbers; but for nearest also of complex ones.
    InvalidArgumentError
        If `x` has less than three axes or pictures without pixels, the size isn't positive, or the method unknown.

    Notes
    -----
    Follows TensorFlow 2's ``image.resize``: the centre of pixel i lies at i + 0.5, so target pixel i is at
    ``(i + 0.5) * old / new - 0.5`` in the source; beyond the border the border's pixel counts (bilinear), or nothing
    does, and the weights of the others are divided by their sum. Nearest rounds halves up. With `antialias`, bilinear
    and bicubic are those of Pillow, but not rounded. Computed in float32. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.resize(np.array([[[0], [4]]], np.uint8), (1, 4))[0, :, 0]
    array([0., 1., 3., 4.], dtype=float32)
    >>> qc.ops.resize(np.array([[[0], [4]]], np.uint8), (1, 4), method="nearest")[0, :, 0]
    array([0, 0, 4, 4], dtype=uint8)
    >>> qc.ops.resize(np.zeros((40, 60, 3), np.uint8), 20, antialias=True).shape
    (20, 30, 3)
    """
    lone = size is not None and np.ndim(size) == 0
    sides = _square("resize", size)
    stage = Pictures(_resized("resize", sides, method, antialias, dct_scale, 1 if lone else 0))
    return stage if x is None else run_eagerly("resize", stage, x)


@overload
def resize_with_pad(
    x: None = None, size: Any = ..., method: str = ..., antialias: bool = ..., *, dct_scale: bool = ...
) -> Stage: ...
@overload
def resize_with_pad(
    x: Any, size: Any, method: str = ..., antialias: bool = ..., *, dct_scale: bool = ...
) -> np.ndarray: ...
@traceable
def resize_with_pad(
    x: Any = None,
    size: Any = None,
    method: str = "bilinear",
    antialias: bool = False,
    *,
    dct_scale: bool = True,
) -> Any:
    """Give pictures another size but keep their proportions: the rest is zero, on both sides.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    size : (int, int)
        New height and width.
    method, antialias, dct_scale
        As for `resize`.

    Returns
    -------
    ndarray
        float32, not rounded. Nearest: of the dtype of `x`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `resize`.

    Notes
    -----
    Follows TensorFlow 2's ``image.resize_with_pad``. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.resize_with_pad(np.ones((2, 4, 1), np.uint8), (4, 4), "nearest")[:, 0, 0]
    array([0, 1, 1, 0], dtype=uint8)
    """
    sides = _sides("resize_with_pad", size)
    stage = Pictures(_resized("resize_with_pad", sides, method, antialias, dct_scale, 2))
    return stage if x is None else run_eagerly("resize_with_pad", stage, x)


@overload
def center_crop(x: None = None, size: Any = ..., *, half_to_even: bool = ...) -> Stage: ...
@overload
def center_crop(x: Any, size: Any, *, half_to_even: bool = ...) -> np.ndarray: ...
@traceable
def center_crop(x: Any = None, size: Any = None, *, half_to_even: bool = False) -> Any:
    """Cut the middle out of pictures.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    size : (int, int) or int
        Height and width; one number is both.
    half_to_even : bool, default False
        Where the part begins if an odd number of rows or columns is left out: of the two rows in question at the first
        one, so that more goes at the end; or, as of torchvision's ``CenterCrop``, at the even one.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If `x` has less than three axes, or a picture is smaller.

    Notes
    -----
    Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.center_crop(np.arange(5).reshape(1, 5, 1), (1, 2))[0, :, 0]
    array([1, 2])
    """
    sides = _square("center_crop", size)
    text = f"center_crop({list(sides)}{', half to even' if half_to_even else ''})"
    stage = Pictures(Crop("center_crop", text, ("centre", *sides, bool(half_to_even)), sides))
    return stage if x is None else run_eagerly("center_crop", stage, x)


@drawing_op
def random_crop(
    x: Any = None,
    size: Any = None,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Cut a part of a given size at a random place.

    Parameters
    ----------
    x : array, optional
        Of numbers; with one more axis than `size` has numbers, a batch. Without it, the result is a `Stage`.
    size : sequence of int
        Of the part, on each axis of one element.
    seed : int
        Of this operation.
    element, epoch : int, optional
        The number of the element `x`, or of the first one of a batch; and the epoch. Default: both of the element for
        which a dataset calls the function that runs; elsewhere 0.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If it has another number of axes, or one that is too short; or if there is no seed.

    Notes
    -----
    The place depends on the seed, the epoch, and the element's number: neither on threads nor on batches. The runner of
    a stage tells it the number; in a `StageProgram` that is the count of records that the reader gave before.
    Give each operation of a chain a seed of its own. All places are equally likely. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> batch = np.arange(40).reshape(2, 20)
    >>> crops = qc.ops.random_crop(batch, (3,), seed=1)
    >>> crops.shape
    (2, 3)
    >>> bool((crops[1] == qc.ops.random_crop(batch[1], (3,), seed=1, element=1)).all())
    True
    """
    sides = wholes("random_crop", "size", size, 0)
    number = seed_number("random_crop", seed)

    def bind(components: tuple[Component, ...]) -> Step:
        component = lone_array("random_crop", components)
        shape = component.shape
        if shape is not None:
            if len(shape) - len(sides) not in (0, 1):
                n = len(sides)
                raise InvalidArgumentError(
                    f"random_crop: expected {n} dimensions, or {n + 1} of a batch, got shape {shape_text(shape)}"
                )
            batch = shape[: len(shape) - len(sides)]
            for axis, (there, side) in enumerate(zip(shape[len(batch) :], sides, strict=True)):
                if there is not None and there < side:
                    raise InvalidArgumentError(f"random_crop: expected at least {side} on axis {axis}, got {there}")
            shape = (*batch, *sides)
        return CropStep((component,), (Component(component.dtype, shape, name=component.name),), sides, number)

    text = f"random_crop({list(sides)}, seed={seed})"
    stage = Stage(text, bind)
    if len(sides) == 3:
        way = ("random", *sides[:2], number)
        stage = Pictures(Crop("random_crop", text, way, sides[:2], sides[2]), text=text, bind=bind)
    return stage if x is None else run_eagerly("random_crop", stage, x, element, epoch)


@drawing_op
def random_resized_crop(
    x: Any = None,
    size: Any = None,
    scale: Any = (0.08, 1.0),
    ratio: Any = (3 / 4, 4 / 3),
    interpolation: str = "bilinear",
    antialias: bool = True,
    seed: SupportsIndex | None = None,
    *,
    dct_scale: bool = True,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Cut a part of random size, proportions and place, and give it a size.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    size : (int, int) or int
        New height and width; one number is both.
    scale : (float, float), default (0.08, 1)
        Bounds of the part's area, of the picture's; above 0, at most 1.
    ratio : (float, float), default (3/4, 4/3)
        Bounds of its width, of its height; drawn so that a ratio is as likely as its reciprocal.
    interpolation : str, default "bilinear"
        As `method` of `resize`.
    antialias : bool, default True
        As for `resize`.
    seed : int
        Of this operation.
    dct_scale : bool, default True
        As for `resize`.
    element, epoch : int, optional
        As for `random_crop`.

    Returns
    -------
    ndarray
        float32, not rounded. Nearest: of the dtype of `x`.

    Raises
    ------
    DtypeError
        If `x` are no numbers; but for nearest also of complex ones.
    InvalidArgumentError
        If `x` has less than three axes or pictures without pixels, bounds or size are not as described, or there is no
        seed.

    Notes
    -----
    Follows torchvision's ``RandomResizedCrop``: area and ratio are drawn up to ten times until the part fits; then it
    is the largest part in the middle of a ratio within the bounds. They depend on the same as those of `random_crop`.
    Behind `decode_jpeg` in one chain, only the part is decoded. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> pictures = np.random.default_rng(0).integers(0, 255, (2, 40, 60, 3), np.uint8)
    >>> crops = qc.ops.random_resized_crop(pictures, 24, seed=1)
    >>> crops.shape
    (2, 24, 24, 3)
    >>> bool((crops[1] == qc.ops.random_resized_crop(pictures[1], 24, seed=1, element=1)).all())
    True
    """
    label = "random_resized_crop"
    sides = _square(label, size)
    areas, ratios = positive_bounds(label, "scale", scale, 1), positive_bounds(label, "ratio", ratio, math.inf)
    _filter(label, "interpolation", interpolation)
    bounds = ", ".join(f"{bound:g}" for bound in (*areas, *ratios))
    text = f"{label}({list(sides)}, {bounds}, {interpolation}{', antialias' if antialias else ''}, seed={seed})"
    crop = Crop(label, text, ("resized", *areas, *ratios, seed_number(label, seed)), (None, None))
    resize_link = _resized(label, sides, interpolation, antialias, dct_scale, 0)
    if dct_scale and interpolation not in ("nearest", "area"):
        resize_link = resize_link._replace(divides=True)
    stage = Pictures(crop, resize_link, text=text)
    return stage if x is None else run_eagerly(label, stage, x, element, epoch)


def _flipped(label: str, axis: int, x: Any) -> Any:
    stage = Pictures(Flip(label, f"{label}()", axis, None))
    return stage if x is None else run_eagerly(label, stage, x)


def _flipped_at_random(label: str, axis: int, x: Any, seed: Any, p: Any, element: Any, epoch: Any) -> Any:
    number, share = seed_number(label, seed), likelihood(label, p)
    text = f"{label}({'' if share == 0.5 else f'{share:g}, '}seed={seed})"
    stage = Pictures(Flip(label, text, axis, (number, share)))
    return stage if x is None else run_eagerly(label, stage, x, element, epoch)


@overload
def flip_left_right(x: None = None) -> Stage: ...
@overload
def flip_left_right(x: Any) -> np.ndarray: ...
@traceable
def flip_left_right(x: Any = None) -> Any:
    """Mirror pictures: the left column becomes the right one.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If it has less than three axes.

    Notes
    -----
    Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.flip_left_right(np.array([[[1], [2]]]))[0, :, 0]
    array([2, 1])
    """
    return _flipped("flip_left_right", 0, x)


@overload
def flip_up_down(x: None = None) -> Stage: ...
@overload
def flip_up_down(x: Any) -> np.ndarray: ...
@traceable
def flip_up_down(x: Any = None) -> Any:
    """Mirror pictures: the first row becomes the last one.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If it has less than three axes.

    Notes
    -----
    Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.flip_up_down(np.array([[[1]], [[2]]]))[:, 0, 0]
    array([2, 1])
    """
    return _flipped("flip_up_down", 1, x)


@drawing_op
def random_flip_left_right(
    x: Any = None,
    seed: SupportsIndex | None = None,
    *,
    p: float = 0.5,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Mirror each picture, or leave it as it is, at random.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    seed, element, epoch : int
        As for `random_crop`.
    p : float, default 0.5
        How likely the mirror image is, from 0 to 1.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If it has less than three axes, there is no seed, or `p` is no such number.

    Notes
    -----
    As for `random_crop`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> image = np.array([[[1], [2]]])
    >>> [qc.ops.random_flip_left_right(image, seed=1, element=i)[0, :, 0].tolist() for i in range(3)]
    [[2, 1], [2, 1], [1, 2]]
    """
    return _flipped_at_random("random_flip_left_right", 0, x, seed, p, element, epoch)


@drawing_op
def random_flip_up_down(
    x: Any = None,
    seed: SupportsIndex | None = None,
    *,
    p: float = 0.5,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Turn each picture upside down as in a mirror, or leave it as it is, at random.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    seed, element, epoch : int
        As for `random_crop`.
    p : float, default 0.5
        How likely the mirror image is, from 0 to 1.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If it has less than three axes, there is no seed, or `p` is no such number.

    Notes
    -----
    As for `random_crop`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> image = np.array([[[1]], [[2]]])
    >>> [qc.ops.random_flip_up_down(image, seed=1, element=i)[:, 0, 0].tolist() for i in range(3)]
    [[2, 1], [2, 1], [1, 2]]
    """
    return _flipped_at_random("random_flip_up_down", 1, x, seed, p, element, epoch)


@overload
def rot90(x: None = None, k: SupportsIndex = ...) -> Stage: ...
@overload
def rot90(x: Any, k: SupportsIndex = ...) -> np.ndarray: ...
@traceable
def rot90(x: Any = None, k: SupportsIndex = 1) -> Any:
    """Turn pictures to the left by right angles.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    k : int, default 1
        The number of right angles; negative ones turn to the right.

    Returns
    -------
    ndarray
        A copy.

    Raises
    ------
    DtypeError
        If `x` is no array of numbers.
    InvalidArgumentError
        If it has less than three axes, or a stage doesn't know how many.

    Notes
    -----
    Follows TensorFlow's ``image.rot90``. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.rot90(np.array([[[1], [2]], [[3], [4]]]))[..., 0]
    array([[2, 4],
           [1, 3]])
    """
    turns = whole("rot90", "k", k) % 4

    def bind(components: tuple[Component, ...]) -> Step:
        component = picture("rot90", components)
        if component.shape is None:
            raise InvalidArgumentError("rot90: the number of dimensions must be known")
        n = len(component.shape)
        turned = transpose(perm=(*range(n - 3), n - 2, n - 3, n - 1)) if turns % 2 else None
        mirrored = {0: [], 1: [flip_up_down()], 2: [flip_left_right(), flip_up_down()], 3: [flip_left_right()]}[turns]
        stages = [*([] if turned is None else [turned]), *mirrored]
        return Composed(stages or [transpose(perm=range(n))]).bind((component,))

    stage = Stage(f"rot90({turns})", bind)
    return stage if x is None else run_eagerly("rot90", stage, x)


_NORMAL_DTYPES = (np.dtype(np.float32), np.dtype(np.float16))


def _of_channels(subject: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        numbers = np.atleast_1d(np.asarray(value, np.float64))
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"normalize: {subject} must be numbers, not {value!r}") from None
    if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise InvalidArgumentError(
            f"normalize: {subject} must be a finite number, or one for each channel, not {value!r}"
        )
    return numbers


@overload
def normalize(
    x: None = None,
    mean: Any = ...,
    std: Any = ...,
    max_value: float = ...,
    *,
    channels_first: bool = ...,
    dtype: Any = ...,
) -> Stage: ...
@overload
def normalize(
    x: Any, mean: Any, std: Any, max_value: float = ..., *, channels_first: bool = ..., dtype: Any = ...
) -> np.ndarray: ...
@traceable
def normalize(
    x: Any = None,
    mean: Any = None,
    std: Any = None,
    max_value: float = 255.0,
    *,
    channels_first: bool = False,
    dtype: Any = np.float32,
) -> Any:
    """Subtract a mean from each channel and divide by a deviation, both of values whose largest is 1.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]. Without it, the result is a `Stage`.
    mean, std : float or sequence of float
        One number, or one for each channel; `std` is not 0.
    max_value : float, default 255
        The value of `x` that becomes 1 before: 1 if the largest already is 1.
    channels_first : bool, default False
        Whether the result is [..., channels, height, width], as PyTorch wants it.
    dtype : {float32, float16}, default float32
        Of the result.

    Returns
    -------
    ndarray
        ``x / (max_value * std) - mean / std``, as one product and one sum of float32.

    Raises
    ------
    DtypeError
        If `x` are no real numbers, or the dtype is another one.
    InvalidArgumentError
        If `x` has less than three axes or another number of channels, or a number is not as described.

    Notes
    -----
    Behind other operations on pictures in one chain, each row is normalised while it is in the cache. Runs without the
    GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> image = np.array([[[0, 51, 255]]], np.uint8)
    >>> qc.ops.normalize(image, mean=(0.0, 0.1, 0.5), std=(1.0, 0.5, 0.5), channels_first=True)[:, 0, 0].round(5)
    array([0. , 0.2, 1. ], dtype=float32)
    """
    for what, value in (("mean", mean), ("std", std)):
        if value is None:
            raise InvalidArgumentError(f"normalize: {what} is missing")
    means, deviations = _of_channels("mean", mean), _of_channels("std", std)
    if min(means.size, deviations.size) > 1 and means.size != deviations.size:
        raise InvalidArgumentError(f"normalize: mean has {means.size} numbers, and std has {deviations.size}")
    largest = real_number("normalize", "max_value", max_value)
    if largest == 0 or not deviations.all():
        raise InvalidArgumentError("normalize: neither max_value nor std may be 0")
    try:
        result_dtype = np.dtype(dtype)
    except TypeError as error:
        raise DtypeError(f"normalize: dtype is no dtype: {error}") from error
    if result_dtype not in _NORMAL_DTYPES:
        raise DtypeError(f"normalize: dtype must be float32 or float16, not {result_dtype}")
    means, deviations = np.broadcast_arrays(means, deviations)
    factors, shifts = (1 / (largest * deviations)).astype(FLOAT), (-means / deviations).astype(FLOAT)
    first = ", channels_first" if channels_first else ""
    text = f"normalize({means.tolist()}, {deviations.tolist()}, {largest:g}{first}, {result_dtype})"
    stage = Pictures(Normalize("normalize", text, factors, shifts, bool(channels_first), result_dtype))
    return stage if x is None else run_eagerly("normalize", stage, x)
