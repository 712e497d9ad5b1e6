"""Parts of pictures that are erased at random, and pictures of a batch that are mixed with each other."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np

from queuecore._checks.checks import whole
from queuecore._core.steps.mixing import ErasingStep, MixStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component, shape_text
from queuecore._ops.chain import FLOAT, number_of, run_eagerly, run_together
from queuecore._ops.pictures import likelihood, picture, positive_bounds, real_number, seed_number
from queuecore._ops.stage import Stage, drawing_op
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["cutmix", "mixup", "random_erasing"]

_PIXELS = ("u1", "f2", "f4")
_MOST_CLASSES = 2**24


def _check_pixels(label: str, component: Component) -> None:
    if component.dtype.str[1:] not in _PIXELS:
        raise DtypeError(f"{label}: expected uint8, float16 or float32, got {component.dtype}")


@drawing_op
def random_erasing(
    x: Any = None,
    p: float = 0.5,
    scale: Any = (0.02, 0.33),
    ratio: Any = (0.3, 3.3),
    value: Any = 0,
    seed: SupportsIndex | None = None,
    *,
    channels_first: bool = False,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Put a value in place of a part of each picture, of random size, proportions and place, or leave it as it is.

    Parameters
    ----------
    x : array, optional
        Of shape [..., height, width, channels]; uint8, float16 or float32. Without it, the result is a `Stage`.
    p : float, default 0.5
        How likely it is that a part is erased, from 0 to 1.
    scale : (float, float), default (0.02, 0.33)
        Bounds of the part's area, of the picture's; above 0, at most 1.
    ratio : (float, float), default (0.3, 3.3)
        Bounds of its height, of its width; drawn so that a ratio is as likely as its reciprocal.
    value : float, sequence of float, or "random", default 0
        What comes there: a number, one for each channel, or random numbers of the normal distribution for each pixel
        and channel (floats only).
    seed : int
        Of this operation.
    channels_first : bool, default False
        Whether pictures are [..., channels, height, width], as `normalize` can make them.
    element, epoch : int, optional
        As for `random_crop`.

    Returns
    -------
    ndarray
        A copy, of the dtype of `x`.

    Raises
    ------
    DtypeError
        If `x` is of another dtype, or of whole numbers with "random".
    InvalidArgumentError
        If `x` has less than three axes or other channels than there are values, bounds or `p` are not as described, or
        there is no seed.

    Notes
    -----
    Follows torchvision's ``RandomErasing``: area and ratio are drawn up to ten times until the part is smaller than the
    picture; then nothing is erased (Zhong, Zheng, Kang, Li, Yang: "Random erasing data augmentation", 2017). Runs
    without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.ones((2, 16, 16, 3), np.float32)
    >>> erased = qc.ops.random_erasing(images, p=1, seed=1)
    >>> bool((erased == 0).any(axis=(1, 2, 3)).all()), bool((erased[1] == 1).any())
    (True, True)
    """
    label = "random_erasing"
    number, share = seed_number(label, seed), likelihood(label, p)
    areas, ratios = positive_bounds(label, "scale", scale, 1), positive_bounds(label, "ratio", ratio, math.inf)
    is_noise = isinstance(value, str)
    if is_noise and value != "random":
        raise InvalidArgumentError(f'{label}: value must be numbers or "random", not {value!r}')
    numbers = [] if is_noise else [real_number(label, "value", part) for part in np.ravel(np.asarray(value, object))]

    def bind(components: tuple[Component, ...]) -> Step:
        component = picture(label, components)
        _check_pixels(label, component)
        whole_numbers = component.dtype.kind == "u"
        if whole_numbers and (is_noise or not all(0 <= part <= 255 and part == int(part) for part in numbers)):
            raise DtypeError(f"{label}: value {value!r} is nothing that uint8 has")
        side = None if component.shape is None else component.shape[-3 if channels_first else -1]
        if len(numbers) > 1 and side not in (None, len(numbers)):
            raise InvalidArgumentError(f"{label}: expected {len(numbers)} channels, got {side}")
        output = Component(component.dtype, component.shape, name=component.name)
        fill = None if is_noise else np.asarray(numbers, component.dtype).tobytes()
        kind = number_of(label, component.dtype)
        return ErasingStep((component,), (output,), kind, bool(channels_first), fill, share, (*areas, *ratios), number)

    if not is_noise and not numbers:
        raise InvalidArgumentError(f"{label}: value has no number")
    bounds = ", ".join(f"{bound:g}" for bound in (*areas, *ratios))
    first = ", channels_first" if channels_first else ""
    stage = Stage(f"{label}({share:g}, {bounds}, {'random' if is_noise else numbers}{first}, seed={seed})", bind)
    return stage if x is None else run_eagerly(label, stage, x, element, epoch)


def _mixed(
    label: str, images: Any, labels: Any, num_classes: Any, alpha: Any, seed: Any, channels_first: Any, numbers: Any
) -> Any:
    """Return the mixed batch, or the stage. `numbers`: the numbers of element and epoch."""
    if num_classes is None:
        raise InvalidArgumentError(f"{label}: num_classes is missing")
    number, classes = seed_number(label, seed), whole(label, "num_classes", num_classes)
    strength = real_number(label, "alpha", alpha)
    if not 0 < classes <= _MOST_CLASSES:
        raise InvalidArgumentError(f"{label}: num_classes must be from 1 to {_MOST_CLASSES}, not {num_classes!r}")
    if strength <= 0:
        raise InvalidArgumentError(f"{label}: alpha must be above 0, not {alpha!r}")
    cuts = label == "cutmix"

    def bind(components: tuple[Component, ...]) -> Step:
        if len(components) != 2:
            raise InvalidArgumentError(f"{label}: expected pictures and labels, got {len(components)} components")
        pictures, labels = components
        _check_pixels(label, picture(label, (pictures,)))
        if labels.dtype not in (np.int64, FLOAT):
            raise DtypeError(f"{label}: labels must be int64, or float32 for each class, not {labels.dtype}")
        if pictures.shape is not None and len(pictures.shape) != 4:
            shown = shape_text(pictures.shape)
            raise InvalidArgumentError(f"{label}: expected a batch of pictures with 4 dimensions, got shape {shown}")
        lead = None if pictures.shape is None else pictures.shape[0]
        outputs = (
            Component(pictures.dtype if cuts else FLOAT, pictures.shape, name=pictures.name),
            Component(FLOAT, (lead, classes), name=labels.name),
        )
        kinds = (cuts, bool(channels_first), labels.dtype == np.int64)
        return MixStep(
            (pictures, labels), outputs, label, number_of(label, pictures.dtype), kinds, classes, strength, number
        )

    first = ", channels_first" if channels_first else ""
    stage = Stage(f"{label}({classes}, {strength:g}{first}, seed={seed})", bind)
    return stage if images is None else run_together(label, stage, [images, labels], *numbers)


def mixup(
    images: Any = None,
    labels: Any = None,
    num_classes: SupportsIndex | None = None,
    alpha: float = 1.0,
    seed: SupportsIndex | None = None,
    *,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Blend each picture of a batch with the one before it, and their labels, by a share that is drawn for the batch.

    Parameters
    ----------
    images : array, optional
        Of shape [batch, height, width, channels], or any other four axes; uint8, float16 or float32. Without it, the
        result is a `Stage`, for elements of pictures and labels, behind ``batch``.
    labels : array
        Numbers of classes (int64, [batch]), or a number for each class (float32, [batch, classes]).
    num_classes : int
    alpha : float, default 1
        Above 0; the share of the picture itself is drawn from a beta distribution, both of whose parameters it is.
    seed : int
        Of this operation.
    element, epoch : int, optional
        As for `random_crop`; the number is that of the batch, or of its first element.

    Returns
    -------
    tuple of ndarray
        Pictures of float32, and labels of float32, [batch, classes].

    Raises
    ------
    DtypeError
        If pictures or labels are of another dtype.
    InvalidArgumentError
        If shapes don't go together, a label is no class, a number is not as described, or there is no seed.

    Notes
    -----
    Follows torchvision's ``MixUp`` (Zhang, Cisse, Dauphin, Lopez-Paz: "mixup: Beyond empirical risk minimization",
    2017). The first picture is blended with the last one. Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.array([0, 100], np.uint8).reshape(2, 1, 1, 1)
    >>> mixed, labels = qc.ops.mixup(images, np.array([0, 1]), num_classes=2, seed=1)
    >>> bool(abs(mixed[1].item() - 100 * labels[1, 1]) < 1e-3), labels.sum(axis=1).tolist()
    (True, [1.0, 1.0])
    >>> ds = qc.data.Dataset.from_tensor_slices((images, [0, 1])).batch(2)
    >>> next(iter(ds.map(qc.ops.mixup(num_classes=2, seed=1))))[1].shape
    (2, 2)
    """
    return _mixed("mixup", images, labels, num_classes, alpha, seed, False, (element, epoch))


def cutmix(
    images: Any = None,
    labels: Any = None,
    num_classes: SupportsIndex | None = None,
    alpha: float = 1.0,
    seed: SupportsIndex | None = None,
    *,
    channels_first: bool = False,
    element: int | None = None,
    epoch: int | None = None,
) -> Any:
    """Put a part of the picture before it into each picture of a batch, and mix their labels by the part's area.

    Parameters
    ----------
    images, labels, num_classes, seed, element, epoch
        As for `mixup`.
    alpha : float, default 1
        As for `mixup`, where the share is that of the picture's area which stays. The part is in all pictures of a
        batch at the same place, which is drawn; its part outside the picture is cut off.
    channels_first : bool, default False
        Whether pictures are [batch, channels, height, width].

    Returns
    -------
    tuple of ndarray
        Pictures of their dtype, and labels of float32, [batch, classes].

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `mixup`.

    Notes
    -----
    Follows torchvision's ``CutMix`` (Yun, Han, Oh, Chun, Choe, Yoo: "CutMix: Regularization strategy to train strong
    classifiers with localizable features", 2019). Runs without the GIL.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> images = np.repeat(np.array([0, 100], np.uint8), 64).reshape(2, 8, 8, 1)
    >>> mixed, labels = qc.ops.cutmix(images, np.array([0, 1]), num_classes=2, seed=1)
    >>> bool((mixed[1] == 100).mean() == labels[1, 1])
    True
    """
    return _mixed("cutmix", images, labels, num_classes, alpha, seed, channels_first, (element, epoch))
