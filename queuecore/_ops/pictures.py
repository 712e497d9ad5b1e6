"""Chains of operations on pictures, each run by one native step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._checks.checks import whole
from queuecore._core.steps.images import PictureStep
from queuecore._core.steps.pictures import PicturesStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import Component, shape_text
from queuecore._ops.chain import FLOAT, NUMBERS, Shape, check_array_size, code_of, lone_array, number_of
from queuecore._ops.stage import Components, Stage
from queuecore._ops.strings import lone_strings
from queuecore.errors import InvalidArgumentError

__all__ = [
    "FILTERS",
    "Crop",
    "Decoding",
    "Flip",
    "Normalize",
    "PictureLink",
    "Pictures",
    "Resize",
    "likelihood",
    "picture",
    "positive_bounds",
    "real_number",
    "seed_number",
]

# The filters of kernels/resample.hpp; "nearest" takes the nearest pixel.
FILTERS = {
    "nearest": -1,
    "bilinear": 0,
    "bicubic": 1,
    "lanczos3": 2,
    "lanczos5": 3,
    "gaussian": 4,
    "mitchellcubic": 5,
    "area": 6,
}


def real_number(label: str, subject: str, value: Any) -> float:
    """Return a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{label}: {subject} must be a number, not {value!r}") from None
    if not math.isfinite(number):
        raise InvalidArgumentError(f"{label}: {subject} must be finite, not {value!r}")
    return number


def positive_bounds(label: str, subject: str, value: Any, limit: float) -> tuple[float, float]:
    """Return two numbers above 0, the first not larger."""
    try:
        low, high = (real_number(label, subject, bound) for bound in value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{label}: {subject} must be two numbers, not {value!r}") from None
    if not 0 < low <= high <= limit:
        wanted = "above 0" + (f", at most {limit:g}" if limit < math.inf else "")
        raise InvalidArgumentError(
            f"{label}: {subject} must be two numbers {wanted}, the first not larger, not {value!r}"
        )
    return low, high


def likelihood(label: str, p: Any) -> float:
    """Return a number from 0 to 1."""
    share = real_number(label, "p", p)
    if not 0 <= share <= 1:
        raise InvalidArgumentError(f"{label}: p must be from 0 to 1, not {p!r}")
    return share


def seed_number(label: str, seed: Any) -> int:
    """Return a seed as a number below 2**64."""
    if seed is None:
        raise InvalidArgumentError(f"{label}: seed is missing")
    return whole(label, "seed", seed) % 2**64


def picture(label: str, components: tuple[Component, ...], colours: bool = False) -> Component:
    """Return the only component, which must be of pictures, perhaps with three channels."""
    component = lone_array(label, components)
    if component.shape is not None and len(component.shape) < 3:
        raise InvalidArgumentError(
            f"{label}: expected pictures [..., height, width, channels], got shape {shape_text(component.shape)}"
        )
    if colours and component.shape is not None and component.shape[-1] not in (None, 3):
        shown = shape_text(component.shape)
        raise InvalidArgumentError(f"{label}: expected 3 channels (red, green, blue), got shape {shown}")
    return component


class Decoding(NamedTuple):
    """Strings as pictures of uint8, by this operation."""

    label: str
    kinds: int
    channels: int
    details: tuple[int, int, int, int, bool]
    max_pixels: int

    def shape(self, given: Component) -> Shape:
        """Return the shape of the result."""
        return None if given.shape is None else (*given.shape, None, None, self.channels or None)

    def step(self, given: Component) -> PictureStep:
        """Return the step that does nothing else."""
        made = Component(np.dtype(np.uint8), self.shape(given), name=given.name)
        return PictureStep((given,), (made,), self.label, self.kinds, self.channels, 0, self.details, self.max_pixels)


class Crop(NamedTuple):
    """A part of the picture: how it is found (`PicturesStep`), and its height and width if they are known."""

    label: str
    text: str
    way: tuple[Any, ...]
    sides: tuple[int | None, int | None]
    channels: int | None = None  # of the part, where it is cut too

    def of(self, pixels: Component) -> Component:
        """Return the component of the result."""
        shape = pixels.shape
        if shape is not None:
            begins = self.way[1:3] if self.way[0] == "window" else (0, 0)
            for axis, (there, begin, side) in enumerate(zip(shape[-3:-1], begins, self.sides, strict=True)):
                if there is not None and side is not None and there < begin + side:
                    raise InvalidArgumentError(
                        f"{self.label}: expected at least {begin + side} on axis {axis}, got {there}"
                    )
            shape = (*shape[:-3], *self.sides, shape[-1])
        return Component(pixels.dtype, shape, name=pixels.name)


class Resize(NamedTuple):
    """Another size; `fit` as for `PicturesStep`."""

    label: str
    text: str
    filter: int
    antialias: bool
    divides: bool
    fit: int
    sides: tuple[int, int]

    def of(self, pixels: Component) -> Component:
        """Return the component of the result."""
        if self.filter >= 0:
            number_of(self.label, pixels.dtype)
        check_array_size(self.label, self.sides, FLOAT)
        shape = pixels.shape
        if shape is not None:
            if 0 in shape[-3:-1] and 0 not in (*shape[:-3], shape[-1]):
                raise InvalidArgumentError(
                    f"{self.label}: expected pictures with pixels, got shape {shape_text(shape)}"
                )
            shape = (*shape[:-3], *self._sides(shape), shape[-1])
            check_array_size(self.label, shape, pixels.dtype)
        return Component(pixels.dtype if self.filter < 0 else FLOAT, shape, name=pixels.name)

    def _sides(self, shape: tuple[int | None, ...]) -> tuple[int | None, int | None]:
        if self.fit != 1:
            return self.sides
        height, width = shape[-3:-1]
        side = self.sides[0]
        if not height or not width:
            both = side if height == width and height is not None else None
            return both, both
        return (side, side * width // height) if height <= width else (side * height // width, side)


class Flip(NamedTuple):
    """The mirror image, always or at random, by a seed and how likely it is; `axis` 0: of columns."""

    label: str
    text: str
    axis: int
    draw: tuple[int, float] | None  # None: always

    def of(self, pixels: Component) -> Component:
        """Return the component of the result."""
        return Component(pixels.dtype, pixels.shape, name=pixels.name)


class Normalize(NamedTuple):
    """Each channel times a factor, plus a shift; perhaps with the channels first."""

    label: str
    text: str
    factors: np.ndarray[Any, Any]
    shifts: np.ndarray[Any, Any]
    planar: bool
    dtype: np.dtype[Any]

    def of(self, pixels: Component) -> Component:
        """Return the component of the result."""
        number_of(self.label, pixels.dtype)
        shape = pixels.shape
        if shape is not None:
            if self.factors.size > 1 and shape[-1] not in (None, self.factors.size):
                raise InvalidArgumentError(
                    f"{self.label}: expected {self.factors.size} channels, got shape {shape_text(shape)}"
                )
            shape = (*shape[:-3], shape[-1], *shape[-3:-1]) if self.planar else shape
        return Component(self.dtype, shape, name=pixels.name)


PictureLink = Decoding | Crop | Resize | Flip | Normalize


class _Chain:
    """The links of one native step, each in its place."""

    def __init__(self) -> None:
        self.decoding: Decoding | None = None
        self.crops: list[Crop | None] = [None, None]
        self.size: Resize | None = None
        self.flips: list[Flip | None] = [None, None]
        self.normal: Normalize | None = None
        self._count = 0

    def add(self, link: PictureLink) -> bool:
        """Return whether the step can do this after what it has."""
        self._count += 1
        if isinstance(link, Decoding):
            self.decoding = link
            return self._count == 1
        if self.normal is not None:
            return False
        if isinstance(link, Normalize):
            self.normal = link
            return True
        if isinstance(link, Flip):
            # Mirror images of the same axis twice are two steps.
            free = self.flips[link.axis] is None
            self.flips[link.axis] = link
            return free
        if self.flips != [None, None]:
            return False
        if isinstance(link, Resize):
            free = self.size is None
            self.size = link
            return free
        if link.channels is not None and (self.decoding is None or self.decoding.channels != link.channels):
            return False
        where = 0 if self.size is None else 1
        if self.crops[where] is not None or (self.size is not None and self.size.fit == 2):
            return False
        self.crops[where] = link
        return True


def _arranged(links: Sequence[PictureLink]) -> _Chain | None:
    chain = _Chain()
    return chain if all(chain.add(link) for link in links) else None


class Pictures(Stage):
    """Links that are made in one step. Of a JPEG, that decodes no more than the others use.

    Parameters
    ----------
    *links : PictureLink
    text : str, optional
        The stage's ``repr``. Default: the links.
    bind : callable, optional
        Makes the step of a lone link, if that is another one.
    """

    __slots__ = ("links",)

    def __init__(
        self, *links: PictureLink, text: str | None = None, bind: Callable[[Components], Step] | None = None
    ) -> None:
        self.links = links
        shown = ", ".join(link.label if isinstance(link, Decoding) else link.text for link in links)
        super().__init__(text or shown, bind or self._step)

    def joined(self, after: Stage) -> Stage | None:
        """Return both stages as one step, if one can do it."""
        if not isinstance(after, Pictures) or _arranged(self.links + after.links) is None:
            return None
        return Pictures(*self.links, *after.links, text=f"{self!r}, {after!r}")

    def _step(self, components: tuple[Component, ...]) -> Step:
        chain = _arranged(self.links)
        assert chain is not None
        if chain.decoding is not None:
            component = lone_strings(chain.decoding.label, components)
            decoding: PictureStep | None = chain.decoding.step(component)
            result = Component(np.dtype(np.uint8), chain.decoding.shape(component), name=component.name)
        else:
            component = result = picture(self.links[0].label, components)
            decoding = None
        labels = {"first": self.links[0].label}
        for link in self.links:
            if not isinstance(link, Decoding):
                result = link.of(result)
        labels["crop"], labels["second"] = (crop.label if crop is not None else "" for crop in chain.crops)
        labels["resize"] = chain.size.label if chain.size is not None else ""
        labels["normalize"] = chain.normal.label if chain.normal is not None else ""
        size, normal = chain.size, chain.normal
        step = PicturesStep(
            (component,),
            (result,),
            NUMBERS.get(code_of(component.dtype), -1) if decoding is None else decoding,
            labels,
            tuple(None if crop is None else crop.way for crop in chain.crops),
            None if size is None else (size.filter, size.antialias, size.divides, size.fit, *size.sides),
            tuple(None if flip is None else flip.draw or -1 for flip in chain.flips),
            None if normal is None else (normal.factors, normal.shifts, normal.planar, NUMBERS[code_of(normal.dtype)]),
        )
        step.label = repr(self)
        if decoding is not None and (size is not None or chain.crops != [None, None]):
            step.remark = "of a JPEG, only what is used is decoded"
            if size is not None and size.divides:
                step.remark += ", as small as the new size allows"
        return step
