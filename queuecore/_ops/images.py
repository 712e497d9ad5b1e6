"""Operations on the colours of pictures: brightness, contrast, saturation, hue, also at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsIndex, overload

import numpy as np

from queuecore._core.steps.image_ops import AdjustStep, Amount
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component
from queuecore._ops.chain import number_of, run_eagerly
from queuecore._ops.pictures import picture, real_number, seed_number
from queuecore._ops.stage import Stage, drawing_op, traceable
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "random_brightness",
    "random_contrast",
    "random_hue",
    "random_saturation",
]


_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)
_ADJUSTED = ("i1", "u1", "i2", "u2", "f2", "f4", "f8")


def _adjust(label: str, kind: int, low: float, high: float, seed: int | None, text: str) -> Stage:
    def bind(components: tuple[Component, ...]) -> Step:
        component = picture(label, components, colours=kind in (_SATURATION, _HUE))
        if component.dtype.str[1:] not in _ADJUSTED:
            raise DtypeError(f"{label}: expected floats, or integers of at most 16 bits, got {component.dtype}")
        bounds = None
        if component.dtype.kind != "f":
            limits = np.iinfo(component.dtype)
            bounds = (limits.min, limits.max)
        output = Component(component.dtype, component.shape, name=component.name)
        amount = Amount(low, high, seed)
        return AdjustStep((component,), (output,), label, kind, number_of(label, component.dtype), bounds, amount)

    return Stage(text, bind)


def _adjusted(label: str, kind: int, x: Any, subject: str, value: Any, check: Callable[[float], str | None]) -> Any:
    if value is None:
        raise InvalidArgumentError(f"{label}: {subject} is missing")
    number = real_number(label, subject, value)
    wrong = check(number)
    if wrong:
        raise InvalidArgumentError(f"{label}: {subject} must be {wrong}, and is {value!r}")
    stage = _adjust(label, kind, number, number, None, f"{label}({number:g})")
    return stage if x is None else run_eagerly(label, stage, x)


@overload
def adjust_brightness(x: None = None, delta: float | None = ...) -> Stage: ...
@overload
def adjust_brightness(x: Any, delta: float) -> np.ndarray: ...
@traceable
def adjust_brightness(x: Any = None, delta: float | None = None) -> Any:
    """Add one number to all values of a picture.

    Parameters
    ----------
    x : array, optional
        Pictures of shape [..., height, width, channels]: floats, of which 0 is black and 1 is white, or integers of at
        most 16 bits, whose largest is white. Without it, the result is a `Stage`.
    delta : float
        What to add, where 1 is white.

    Returns
    -------
    ndarray
        Of the same dtype. Integers are cut off at their range; floats are not.

    Raises
    ------
    DtypeError
        If `x` has another dtype.
    InvalidArgumentError
        If `x` has less than three axes, or `delta` is no finite number.

    Notes
    -----
    Follows TensorFlow's ``image.adjust_brightness``. Computed in float32, without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.adjust_brightness(np.full((1, 1, 3), 100, np.uint8), 0.1)
    array([[[125, 125, 125]]], dtype=uint8)
    """
    return _adjusted("adjust_brightness", _BRIGHTNESS, x, "delta", delta, _any_number)


@overload
def adjust_contrast(x: None = None, contrast_factor: float | None = ...) -> Stage: ...
@overload
def adjust_contrast(x: Any, contrast_factor: float) -> np.ndarray: ...
@traceable
def adjust_contrast(x: Any = None, contrast_factor: float | None = None) -> Any:
    """Multiply the distance of each value from the mean of its channel.

    Parameters
    ----------
    x : array, optional
        Pictures of shape [..., height, width, channels]: floats, of which 0 is black and 1 is white, or integers of at
        most 16 bits, whose largest is white. Without it, the result is a `Stage`.
    contrast_factor : float
        What to multiply with.

    Returns
    -------
    ndarray
        Of the same dtype. Integers are cut off at their range; floats are not.

    Raises
    ------
    DtypeError
        If `x` has another dtype.
    InvalidArgumentError
        If `x` has less than three axes, or the factor is no finite number.

    Notes
    -----
    Follows TensorFlow's ``image.adjust_contrast``. Computed in float32, without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.adjust_contrast(np.array([[[1.0], [3.0]]]), 2)
    array([[[0.],
            [4.]]])
    """
    return _adjusted("adjust_contrast", _CONTRAST, x, "contrast_factor", contrast_factor, _any_number)


@overload
def adjust_saturation(x: None = None, saturation_factor: float | None = ...) -> Stage: ...
@overload
def adjust_saturation(x: Any, saturation_factor: float) -> np.ndarray: ...
@traceable
def adjust_saturation(x: Any = None, saturation_factor: float | None = None) -> Any:
    """Multiply the saturation of each pixel, and keep hue and value.

    Parameters
    ----------
    x : array, optional
        Pictures of shape [..., height, width, 3]: floats, of which 0 is black and 1 is white, or integers of at most
        16 bits, whose largest is white. Without it, the result is a `Stage`.
    saturation_factor : float
        What to multiply with; not negative. A saturation above 1 becomes 1.

    Returns
    -------
    ndarray
        Of the same dtype. Integers are cut off at their range; floats are not.

    Raises
    ------
    DtypeError
        If `x` has another dtype.
    InvalidArgumentError
        If `x` has less than three axes or no three channels, or the factor is negative or no finite number.

    Notes
    -----
    Follows TensorFlow's ``image.adjust_saturation``. Computed in float32, without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.adjust_saturation(np.array([[[200, 100, 150]]], np.uint8), 0)
    array([[[200, 200, 200]]], dtype=uint8)
    """
    return _adjusted("adjust_saturation", _SATURATION, x, "saturation_factor", saturation_factor, _not_negative)


@overload
def adjust_hue(x: None = None, delta: float | None = ...) -> Stage: ...
@overload
def adjust_hue(x: Any, delta: float) -> np.ndarray: ...
@traceable
def adjust_hue(x: Any = None, delta: float | None = None) -> Any:
    """Turn the hue of each pixel, and keep saturation and value.

    Parameters
    ----------
    x : array, optional
        Pictures of shape [..., height, width, 3]: floats, of which 0 is black and 1 is white, or integers of at most
        16 bits, whose largest is white. Without it, the result is a `Stage`.
    delta : float
        From -1 to 1, where 1 is all around.

    Returns
    -------
    ndarray
        Of the same dtype. Integers are cut off at their range; floats are not.

    Raises
    ------
    DtypeError
        If `x` has another dtype.
    InvalidArgumentError
        If `x` has less than three axes or no three channels, or `delta` is out of range.

    Notes
    -----
    Follows TensorFlow's ``image.adjust_hue``. Computed in float32, without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.adjust_hue(np.array([[[200, 100, 100]]], np.uint8), 1 / 3)
    array([[[100, 200, 100]]], dtype=uint8)
    """
    return _adjusted("adjust_hue", _HUE, x, "delta", delta, _at_most_one)


def _any_number(value: float) -> str | None:
    del value
    return None


def _not_negative(value: float) -> str | None:
    return "0 at least" if value < 0 else None


def _at_most_one(value: float) -> str | None:
    return "from -1 to 1" if abs(value) > 1 else None


def _drawn(
    label: str,
    kind: int,
    x: Any,
    bounds: dict[str, Any],
    limit: float,
    seed: Any,
    element: int | None,
    epoch: int | None,
) -> Any:
    """Return the pictures, or the stage, for a factor drawn between two bounds, or between minus one bound and it.

    `limit`: the bounds are from 0 to that.
    """
    for subject, value in bounds.items():
        if value is None:
            raise InvalidArgumentError(f"{label}: {subject} is missing")
    numbers = [real_number(label, subject, value) for subject, value in bounds.items()]
    for (subject, value), number in zip(bounds.items(), numbers, strict=True):
        if not 0 <= number <= limit:
            wanted = f"from 0 to {limit:g}" if limit < math.inf else "0 at least"
            raise InvalidArgumentError(f"{label}: {subject} must be {wanted}, and is {value!r}")
    low, high = numbers if len(numbers) == 2 else (-numbers[0], numbers[0])
    if low > high or (len(numbers) == 2 and low == high):
        raise InvalidArgumentError(f"{label}: lower must be below upper, and they are {low:g} and {high:g}")
    text = f"{label}({', '.join(f'{number:g}' for number in numbers)}, seed={seed})"
    stage = _adjust(label, kind, low, high, seed_number(label, seed), text)
    return stage if x is None else run_eagerly(label, stage, x, element, epoch)


@drawing_op
def random_brightness(
    x: Any = None,
    max_delta: float | None = None,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Add a random number between -max_delta and max_delta to all values of a picture.

    Parameters
    ----------
    x : array, optional
        Pictures, as for `adjust_brightness`; each gets its own random number. Without it, the result is a `Stage`.
    max_delta : float
        Not negative, where 1 is white.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        As from `adjust_brightness`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `adjust_brightness`; also if `max_delta` is negative, or there is no seed.

    Notes
    -----
    As for `random_crop` and `adjust_brightness`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.random.default_rng(0).random((2, 4, 4, 3))
    >>> changed = qc.ops.random_brightness(images, 0.2, seed=1)
    >>> bool((changed[1] == qc.ops.random_brightness(images[1], 0.2, seed=1, element=1)).all())
    True
    """
    bounds = {"max_delta": max_delta}
    return _drawn("random_brightness", _BRIGHTNESS, x, bounds, math.inf, seed, element, epoch)


@drawing_op
def random_contrast(
    x: Any = None,
    lower: float | None = None,
    upper: float | None = None,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Change the contrast of a picture by a random factor: from `lower` up to `upper`.

    Parameters
    ----------
    x : array, optional
        Pictures, as for `adjust_contrast`; each gets its own random number. Without it, the result is a `Stage`.
    lower, upper : float
        Not negative; `lower` is below `upper`.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        As from `adjust_contrast`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `adjust_contrast`; also if `lower` and `upper` are not such bounds, or there is no seed.

    Notes
    -----
    As for `random_crop` and `adjust_contrast`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.random.default_rng(0).random((2, 4, 4, 3))
    >>> changed = qc.ops.random_contrast(images, 0.5, 1.5, seed=1)
    >>> bool((changed[1] == qc.ops.random_contrast(images[1], 0.5, 1.5, seed=1, element=1)).all())
    True
    """
    bounds = {"lower": lower, "upper": upper}
    return _drawn("random_contrast", _CONTRAST, x, bounds, math.inf, seed, element, epoch)


@drawing_op
def random_saturation(
    x: Any = None,
    lower: float | None = None,
    upper: float | None = None,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Change the saturation of a picture by a random factor: from `lower` up to `upper`.

    Parameters
    ----------
    x : array, optional
        Pictures, as for `adjust_saturation`; each gets its own random number. Without it, the result is a `Stage`.
    lower, upper : float
        Not negative; `lower` is below `upper`.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        As from `adjust_saturation`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `adjust_saturation`; also if `lower` and `upper` are not such bounds, or there is no seed.

    Notes
    -----
    As for `random_crop` and `adjust_saturation`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.random.default_rng(0).random((2, 4, 4, 3))
    >>> changed = qc.ops.random_saturation(images, 0.5, 1.5, seed=1)
    >>> bool((changed[1] == qc.ops.random_saturation(images[1], 0.5, 1.5, seed=1, element=1)).all())
    True
    """
    bounds = {"lower": lower, "upper": upper}
    return _drawn("random_saturation", _SATURATION, x, bounds, math.inf, seed, element, epoch)


@drawing_op
def random_hue(
    x: Any = None,
    max_delta: float | None = None,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Turn the hue of a picture by a random part of the ring: from -max_delta up to max_delta.

    Parameters
    ----------
    x : array, optional
        Pictures, as for `adjust_hue`; each gets its own random number. Without it, the result is a `Stage`.
    max_delta : float
        From 0 to 0.5.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        As from `adjust_hue`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `adjust_hue`; also if `max_delta` is out of range, or there is no seed.

    Notes
    -----
    As for `random_crop` and `adjust_hue`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.random.default_rng(0).random((2, 4, 4, 3))
    >>> changed = qc.ops.random_hue(images, 0.2, seed=1)
    >>> bool((changed[1] == qc.ops.random_hue(images[1], 0.2, seed=1, element=1)).all())
    True
    """
    bounds = {"max_delta": max_delta}
    return _drawn("random_hue", _HUE, x, bounds, 0.5, seed, element, epoch)
