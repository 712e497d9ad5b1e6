"""Random changes of pictures of bytes, as torchvision's: colours, policies of operations, greys and blurs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from queuecore._checks.checks import whole, wholes
from queuecore._core.steps.augment import BlurStep, GreyStep, JitterStep, PolicyStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component
from queuecore._ops.chain import run_eagerly
from queuecore._ops.pictures import likelihood, picture, real_number, seed_number
from queuecore._ops.stage import Stage, drawing_op
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["color_jitter", "gaussian_blur", "rand_augment", "random_grayscale", "trivial_augment"]

_BYTES = np.dtype(np.uint8)
_MOST_BINS = 2**20

# Name, magnitudes, whether their sign is drawn, and "", "width" or "height": what they are parts of.
_Operation = tuple[str, np.ndarray[Any, Any], bool, str]


def _changed(
    label: str,
    text: str,
    make: Callable[[tuple[Component, ...], tuple[Component, ...]], Step],
    x: Any,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Return the pictures, or the stage. `make` returns the step for the components of its input and output."""

    def bind(components: tuple[Component, ...]) -> Step:
        component = picture(label, components)
        if component.dtype not in (_BYTES, np.float32):
            raise DtypeError(f"{label}: expected uint8, or float32 from 0 to 255, got {component.dtype}")
        if component.shape is not None and component.shape[-1] not in (1, 3, None):
            raise InvalidArgumentError(f"{label}: expected 1 channel or 3, got {component.shape[-1]}")
        return make((component,), (Component(_BYTES, component.shape, name=component.name),))

    stage = Stage(text, bind)
    return stage if x is None else run_eagerly(label, stage, x, element, epoch)


def _amount(label: str, subject: str, value: Any, centre: float, limit: float) -> tuple[float, float] | None:
    """Return the bounds of an amount; `None`: it never changes anything. A number is the distance from the centre."""
    if np.ndim(value) == 0:
        distance = real_number(label, subject, value)
        low, high = centre - distance, centre + distance
        if distance < 0 or high > limit:
            raise InvalidArgumentError(f"{label}: {subject} must be from 0 to {limit - centre:g}, not {value!r}")
        low = max(low, 0) if centre else low
    else:
        bounds = [real_number(label, subject, bound) for bound in value]
        if len(bounds) != 2 or not (0 if centre else -limit) <= bounds[0] <= bounds[1] <= limit:
            raise InvalidArgumentError(f"{label}: {subject} must be a number or two bounds of it, not {value!r}")
        low, high = bounds
    return None if low == high == centre else (low, high)


@drawing_op
def color_jitter(
    x: Any = None,
    brightness: Any = 0,
    contrast: Any = 0,
    saturation: Any = 0,
    hue: Any = 0,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Change brightness, contrast, saturation and hue, each by a random amount, in a random order.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels], with 1 channel or 3; uint8, or float32 from 0 to 255, which is rounded
        first. Without it, the result is a `Stage`.
    brightness, contrast, saturation : float or (float, float), default 0
        The factor is drawn between ``max(0, 1 - value)`` and ``1 + value``, or between two bounds that are not
        negative. A factor of 0 makes a black picture, one of its mean grey, or a grey one.
    hue : float or (float, float), default 0
        The turn of the circle of hues is drawn between ``-value`` and `value`, or between two bounds, at most 0.5.
    seed : int
        Of this operation.
    element, epoch : int, optional
        As for `random_crop`.

    Returns
    -------
    ndarray
        uint8.

    Raises
    ------
    DtypeError
        If `x` is of another dtype.
    InvalidArgumentError
        If `x` has less than three axes or other channels, an amount is not as described, or there is no seed.

    Notes
    -----
    Follows torchvision's ``ColorJitter``: with pictures of Pillow, except that hues aren't rounded to 255 steps. One
    channel has neither saturation nor hue. The amounts depend on the same as the place of `random_crop`. Runs without
    the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> pictures = np.full((2, 4, 4, 3), 100, np.uint8)
    >>> changed = qc.ops.color_jitter(pictures, brightness=0.4, seed=1)
    >>> bool(60 <= changed.min() and changed.max() <= 140)
    True
    >>> bool((changed[1] == qc.ops.color_jitter(pictures[1], brightness=0.4, seed=1, element=1)).all())
    True
    """
    label = "color_jitter"
    number = seed_number(label, seed)
    named = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    bounds = {what: _amount(label, what, value, 1, math.inf) for what, value in named.items()}
    bounds["hue"] = _amount(label, "hue", hue, 0, 0.5)
    words = {"saturation": "color"}
    amounts = [(words.get(what, what), *both) for what, both in bounds.items() if both is not None]
    shown = ", ".join(f"{name}={low:g}..{high:g}" for name, low, high in amounts)
    text = f"{label}({shown}, seed={seed})"
    return _changed(label, text, lambda a, b: JitterStep(a, b, label, number, amounts), x, element, epoch)


@drawing_op
def random_grayscale(
    x: Any = None,
    p: float = 0.1,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Make each picture grey, with as many channels, or leave it as it is, at random.

    Parameters
    ----------
    x : array, optional
        As for `color_jitter`.
    p : float, default 0.1
        How likely a grey picture is, from 0 to 1.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        uint8.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `color_jitter`; also if `p` is no such number.

    Notes
    -----
    Follows torchvision's ``RandomGrayscale``; the grey is Pillow's (ITU-R 601). Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.random_grayscale(np.array([[[255, 0, 0]]], np.uint8), p=1, seed=1)
    array([[[76, 76, 76]]], dtype=uint8)
    """
    label = "random_grayscale"
    number, share = seed_number(label, seed), likelihood(label, p)
    text = f"{label}({share:g}, seed={seed})"
    return _changed(label, text, lambda a, b: GreyStep(a, b, label, number, share), x, element, epoch)


@drawing_op
def gaussian_blur(
    x: Any = None,
    kernel_size: SupportsIndex | None = None,
    sigma: Any = (0.1, 2.0),
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Blur pictures by a normal distribution of pixels.

    Parameters
    ----------
    x : array, optional
        As for `color_jitter`.
    kernel_size : int
        How many pixels of a row and of a column count, an odd number, less than twice each side.
    sigma : float or (float, float), default (0.1, 2)
        The deviation in pixels, above 0, or the bounds between which it is drawn.
    seed : int, optional
        Of this operation; needed for two bounds.
    element, epoch : int, optional
        As for `random_crop`.

    Returns
    -------
    ndarray
        uint8.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `color_jitter`; also if the size or the deviation is not as described, or a picture is too small.

    Notes
    -----
    Follows torchvision's ``GaussianBlur``: beyond a border lies the mirror image, without the border's own pixels. Runs
    without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> image = np.zeros((3, 5, 1), np.uint8)
    >>> image[:, 2] = 100
    >>> qc.ops.gaussian_blur(image, 3, sigma=1.0)[1, :, 0]
    array([ 0, 27, 45, 27,  0], dtype=uint8)
    """
    label = "gaussian_blur"
    size = 0 if kernel_size is None else whole(label, "kernel_size", kernel_size)
    if not 0 < size < _MOST_BINS or size % 2 == 0:
        raise InvalidArgumentError(f"{label}: kernel_size must be an odd number above 0, not {kernel_size!r}")
    bounds = [sigma, sigma] if np.ndim(sigma) == 0 else list(sigma)
    numbers = [real_number(label, "sigma", bound) for bound in bounds]
    if len(numbers) != 2 or not 0 < numbers[0] <= numbers[1]:
        raise InvalidArgumentError(f"{label}: sigma must be a number above 0 or two bounds of it, not {sigma!r}")
    low, high = numbers
    number = 0 if low == high and seed is None else seed_number(label, seed)
    text = f"{label}({size}, {low:g})" if low == high else f"{label}({size}, {low:g}..{high:g}, seed={seed})"
    return _changed(label, text, lambda a, b: BlurStep(a, b, label, number, size // 2, low, high), x, element, epoch)


def _operations(
    bins: int, shear: float, translate: tuple[float, bool], rotate: float, share: float
) -> list[_Operation]:
    """Return the operations of a policy, with the largest of each magnitude; `translate`: whether a part of a side."""
    none = np.zeros(0)
    bits = {0.9: 4, 0.99: 6}[share]
    distance, relative = translate
    sides = ("width", "height") if relative else ("", "")
    return [
        ("identity", none, False, ""),
        ("shear_x", np.linspace(0, shear, bins), True, ""),
        ("shear_y", np.linspace(0, shear, bins), True, ""),
        ("translate_x", np.linspace(0, distance, bins), True, sides[0]),
        ("translate_y", np.linspace(0, distance, bins), True, sides[1]),
        ("rotate", np.linspace(0, rotate, bins), True, ""),
        *((name, np.linspace(0, share, bins), True, "") for name in ("brightness", "color", "contrast", "sharpness")),
        ("posterize", 8 - np.round(np.arange(bins) / ((bins - 1) / bits)), False, ""),
        ("solarize", np.linspace(255, 0, bins), False, ""),
        ("auto_contrast", none, False, ""),
        ("equalize", none, False, ""),
    ]


def _policy_numbers(label: str, bins: Any, fill: Any) -> tuple[int, bytes]:
    count = whole(label, "num_magnitude_bins", bins)
    if not 2 <= count <= _MOST_BINS:
        raise InvalidArgumentError(f"{label}: num_magnitude_bins must be at least 2, not {bins!r}")
    colours = wholes(label, "fill", (fill,) * 3 if np.ndim(fill) == 0 else fill, 0)
    if len(colours) != 3 or max(colours) > 255:
        raise InvalidArgumentError(f"{label}: fill must be a byte, or one of each of 3 channels, not {fill!r}")
    return count, bytes(colours)


@drawing_op
def rand_augment(
    x: Any = None,
    num_ops: SupportsIndex = 2,
    magnitude: SupportsIndex = 9,
    num_magnitude_bins: SupportsIndex = 31,
    fill: Any = 0,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Change pictures by some of fourteen operations, drawn for each picture.

    The operations: none; shear, translate and rotate; brightness, color, contrast and sharpness; posterize, solarize,
    auto-contrast and equalize.

    Parameters
    ----------
    x : array, optional
        As for `color_jitter`.
    num_ops : int, default 2
        How many operations are drawn for each picture.
    magnitude : int, default 9
        How strong they are, below `num_magnitude_bins`.
    num_magnitude_bins : int, default 31
        In how many steps magnitudes are divided.
    fill : int or sequence of int, default 0
        What comes where there is no pixel: a byte, or one for each channel.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        uint8.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `color_jitter`; also if a number is not as described, or a side is longer than 32,767.

    Notes
    -----
    Follows torchvision's ``RandAugment`` with pictures of Pillow and the nearest pixel (Cubuk, Zoph, Shlens, Le:
    "RandAugment", 2019). Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> pictures = np.random.default_rng(0).integers(0, 255, (2, 8, 8, 3), np.uint8)
    >>> changed = qc.ops.rand_augment(pictures, seed=1)
    >>> bool((changed[1] == qc.ops.rand_augment(pictures[1], seed=1, element=1)).all())
    True
    """
    label = "rand_augment"
    number, (bins, colours) = seed_number(label, seed), _policy_numbers(label, num_magnitude_bins, fill)
    count, strength = whole(label, "num_ops", num_ops), whole(label, "magnitude", magnitude)
    if not 0 <= count < _MOST_BINS:
        raise InvalidArgumentError(f"{label}: num_ops must not be negative, and is {num_ops!r}")
    if not 0 <= strength < bins:
        raise InvalidArgumentError(f"{label}: magnitude must be from 0 to {bins - 1}, not {magnitude!r}")
    operations = _operations(bins, 0.3, (150 / 331, True), 30, 0.9)
    text = f"{label}({count}, {strength} of {bins}, fill={list(colours)}, seed={seed})"

    def make(inputs: tuple[Component, ...], outputs: tuple[Component, ...]) -> Step:
        return PolicyStep(inputs, outputs, label, number, operations, count, strength, colours)

    return _changed(label, text, make, x, element, epoch)


@drawing_op
def trivial_augment(
    x: Any = None,
    num_magnitude_bins: SupportsIndex = 31,
    fill: Any = 0,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Change pictures by one of fourteen operations, drawn for each picture together with its strength.

    Parameters
    ----------
    x : array, optional
        As for `color_jitter`.
    num_magnitude_bins, fill
        As for `rand_augment`, whose operations are used in a wider range.
    seed, element, epoch : int
        As for `random_crop`.

    Returns
    -------
    ndarray
        uint8.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `rand_augment`.

    Notes
    -----
    Follows torchvision's ``TrivialAugmentWide`` with pictures of Pillow and the nearest pixel (Müller, Hutter:
    "TrivialAugment", 2021). Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.trivial_augment(np.zeros((8, 8, 3), np.uint8), seed=1).shape
    (8, 8, 3)
    """
    label = "trivial_augment"
    number, (bins, colours) = seed_number(label, seed), _policy_numbers(label, num_magnitude_bins, fill)
    operations = _operations(bins, 0.99, (32, False), 135, 0.99)
    text = f"{label}({bins}, fill={list(colours)}, seed={seed})"

    def make(inputs: tuple[Component, ...], outputs: tuple[Component, ...]) -> Step:
        return PolicyStep(inputs, outputs, label, number, operations, 1, -1, colours)

    return _changed(label, text, make, x, element, epoch)
