"""torchvision's folders of pictures, and its transforms as operations of ours."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.steps.images import library
from queuecore._ops.augment import color_jitter, gaussian_blur, rand_augment, random_grayscale, trivial_augment
from queuecore._ops.decode_images import decode_image
from queuecore._ops.geometry import (
    center_crop,
    normalize,
    random_crop,
    random_flip_left_right,
    random_flip_up_down,
    random_resized_crop,
    resize,
)
from queuecore._ops.mixing import random_erasing
from queuecore._ops.numbers import cast, transpose
from queuecore._torch.package import torch
from queuecore.errors import QueueCoreError

__all__ = ["PictureSet", "Unsuited", "picture_set"]

_Image = Any
_Link = Callable[[_Image, int], _Image]

# The ends of names of pictures that native code decodes; the last one where there is libwebp.
_DECODED = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
_WEBP = 5  # its number in images.pxd
_FILTERS = {"bilinear": "bilinear", "bicubic": "bicubic"}


class Unsuited(Exception):
    """A dataset of pictures that isn't read natively. The message says by which part of it."""


class PictureSet(NamedTuple):
    """The samples of a folder of pictures, and their transforms.

    Attributes
    ----------
    samples : sequence of (str, int)
        Files and their classes, as torchvision's dataset has them.
    places : sequence of int or None
        The samples that a subset has, by their places in `samples`. `None`: all.
    links : list of callable
        Each makes a picture from the one before it and a seed.
    """

    samples: Sequence[tuple[str, int]]
    places: Sequence[int] | None
    links: list[_Link]

    def chosen(self, indices: Sequence[int]) -> list[tuple[str, int]]:
        """Return the samples at indices of the dataset."""
        places = self.places
        return [self.samples[index if places is None else places[index]] for index in indices]

    def operation(self, seed: int) -> Callable[[Any, Any], Any]:
        """Return the function that makes a picture of a file's name and contents; each random link has its own seed."""
        drawn = np.random.SeedSequence(seed).generate_state(len(self.links), np.uint64)
        seeds = [int(number) >> 1 for number in drawn]  # seeds are less than 2**63

        def pictures(name: Any, contents: Any) -> Any:
            del name
            image = decode_image(contents, channels=3, expand_animations=False)
            for link, own in zip(self.links, seeds, strict=True):
                image = link(image, own)
            return image

        return pictures


def picture_set(dataset: Any) -> PictureSet | None:
    """Return a dataset of torchvision's as a set of pictures; `None` if it is no folder of pictures.

    Raises
    ------
    Unsuited
        If native steps can't make its samples.
    """
    places: Sequence[int] | None = None
    while type(dataset) is torch.utils.data.Subset:
        inner: Sequence[int] = dataset.indices
        places = inner if places is None else [inner[place] for place in places]
        dataset = dataset.dataset
    folders: Any = sys.modules.get("torchvision.datasets.folder")
    if folders is None or not isinstance(dataset, folders.DatasetFolder):
        return None
    class_name = type(dataset).__name__
    for method in ("__getitem__", "__getitems__"):
        if getattr(type(dataset), method, None) is not getattr(folders.DatasetFolder, method, None):
            raise Unsuited(f"{class_name} has a {method} of its own")
    if dataset.loader is not folders.default_loader:
        raise Unsuited(f"{class_name}'s loader is not torchvision's")
    if dataset.target_transform is not None:
        raise Unsuited(f"{class_name} has a target_transform")
    decoded = _DECODED if library(_WEBP) is not None else _DECODED[:-1]
    odd = next((path for path, _ in dataset.samples if not path.lower().endswith(decoded)), None)
    if odd is not None:
        raise Unsuited(f"native code doesn't decode {odd!r}")
    return PictureSet(dataset.samples, places, _links_of(dataset.transform))


def _links_of(transform: Any) -> list[_Link]:
    made = _Links()
    for each in _flat(transform):
        made.add(each)
    return made.whole()


def _flat(transform: Any) -> list[Any]:
    """Return the transforms that a transform is made of, in their order."""
    inside: Any = ()
    if type(transform).__name__ == "Compose" and _is_torchvisions(transform):
        inside = transform.transforms
    elif type(transform) is torch.nn.Sequential:
        inside = transform
    else:
        return [] if transform is None else [transform]
    return list(itertools.chain.from_iterable(map(_flat, inside)))


def _is_torchvisions(transform: Any) -> bool:
    return type(transform).__module__.startswith("torchvision.transforms.")


class _Links:
    """Transforms as links, in the order in which they are added.

    Mirror images and parts of a picture, and new sizes, don't mind its scale. So what `Normalize` and `ToTensor` do
    with numbers comes last, in one operation.
    """

    def __init__(self) -> None:
        self._links: list[_Link] = []
        self._kind = "picture"  # of Pillow; "uint8" or "float32": a tensor
        self._fixed = False  # the size is known
        self._least = 0  # pixels that each side has at least
        self._resized = False  # pixels are float32 by now
        self._normal: tuple[Any, Any] | None = None
        self._erasing: _Link | None = None  # behind the last operation on numbers

    def add(self, transform: Any) -> None:
        """Add a transform."""
        name = type(transform).__name__
        take = getattr(self, f"_take_{name.lower()}", None)
        if take is None or not (_is_torchvisions(transform) or type(transform) is torch.nn.Identity):
            raise Unsuited(f"transform {transform!r:.200}")
        if self._erasing is not None:
            raise Unsuited(f"transform {transform!r:.200} behind RandomErasing")
        try:
            take(transform)
        except QueueCoreError as error:
            raise Unsuited(f"transform {transform!r:.200}: {error}") from error

    def whole(self) -> list[_Link]:
        """Return the links, with the last one."""
        if self._kind == "picture":
            raise Unsuited("no transform makes tensors of pictures")
        if not self._fixed:
            raise Unsuited("no transform gives all pictures one size")
        last: _Link
        if self._kind == "float32":
            mean, std = self._normal or (0.0, 1.0)
            last = _drawless(lambda image: normalize(image, mean, std, channels_first=True))
        elif self._resized:
            last = _drawless(lambda image: transpose(cast(np.rint(image), np.uint8), (2, 0, 1)))
        else:
            last = _drawless(lambda image: transpose(image, (2, 0, 1)))
        return [*self._links, last, *([] if self._erasing is None else [self._erasing])]

    # ---- each transform

    def _take_identity(self, transform: Any) -> None:
        """Add nothing."""

    _take_rgb = _take_topuretensor = _take_identity

    def _take_totensor(self, transform: Any) -> None:
        self._kind = "float32"

    def _take_toimage(self, transform: Any) -> None:
        if self._kind == "picture":
            self._kind = "uint8"

    _take_piltotensor = _take_toimage

    def _take_todtype(self, transform: Any) -> None:
        dtype, scales = transform.dtype, getattr(transform, "scale", True)
        if dtype is torch.uint8 and self._kind == "uint8":
            return
        if dtype is not torch.float32 or not scales or self._kind == "picture":
            raise Unsuited(f"transform {transform!r:.200} of a {self._kind}")
        self._kind = "float32"

    _take_convertimagedtype = _take_todtype

    def _take_normalize(self, transform: Any) -> None:
        if self._kind != "float32" or self._normal is not None:
            raise Unsuited(f"transform {transform!r:.200} where the numbers are not those of a picture")
        normalize(None, transform.mean, transform.std)  # this raises if the numbers are not right
        self._normal = transform.mean, transform.std

    def _take_resize(self, transform: Any) -> None:
        size, method, wide = transform.size, _filter(transform), self._antialias(transform)
        if getattr(transform, "max_size", None) is not None or size is None:
            raise Unsuited(f"transform {transform!r:.200} with a max_size")
        sides = [size] if isinstance(size, int) else list(size)
        self._fixed = self._fixed if len(sides) == 1 else True
        given = sides[0] if len(sides) == 1 else sides
        self._least = min(sides)
        resize(None, given, method, wide)
        self._resize(_drawless(lambda image: resize(image, given, method, wide)), method)

    def _take_randomresizedcrop(self, transform: Any) -> None:
        size, scale, ratio = list(transform.size), tuple(transform.scale), tuple(transform.ratio)
        method, wide = _filter(transform), self._antialias(transform)
        self._fixed, self._least = True, min(size)
        self._resize(lambda image, seed: random_resized_crop(image, size, scale, ratio, method, wide, seed), method)
        random_resized_crop(None, size, scale, ratio, method, wide, 0)

    def _take_centercrop(self, transform: Any) -> None:
        height, width = _sides(transform)
        if self._least < max(height, width):
            raise Unsuited(f"transform {transform!r:.200}, which a picture may be too small for")
        self._fixed, self._least = True, min(height, width)
        self._links.append(_drawless(lambda image: center_crop(image, (height, width), half_to_even=True)))

    def _take_randomcrop(self, transform: Any) -> None:
        height, width = _sides(transform)
        if transform.padding is not None or transform.pad_if_needed:
            raise Unsuited(f"transform {transform!r:.200} with padding")
        self._fixed, self._least = True, min(height, width)
        self._links.append(lambda image, seed: random_crop(image, (height, width, 3), seed))

    def _take_randomhorizontalflip(self, transform: Any) -> None:
        share = float(transform.p)
        self._links.append(lambda image, seed: random_flip_left_right(image, seed, p=share))

    def _take_randomverticalflip(self, transform: Any) -> None:
        share = float(transform.p)
        self._links.append(lambda image, seed: random_flip_up_down(image, seed, p=share))

    def _take_colorjitter(self, transform: Any) -> None:
        named = {"brightness": 1, "contrast": 1, "saturation": 1, "hue": 0}
        bounds = {name: getattr(transform, name) for name in named}
        amounts: dict[str, Any] = {
            name: (named[name],) * 2 if both is None else tuple(both) for name, both in bounds.items()
        }
        color_jitter(None, **amounts, seed=0)
        self._change(lambda image, seed: color_jitter(image, **amounts, seed=seed), transform)

    def _take_randomgrayscale(self, transform: Any) -> None:
        share = float(transform.p)
        self._change(lambda image, seed: random_grayscale(image, share, seed), transform)

    def _take_gaussianblur(self, transform: Any) -> None:
        sizes, sigma = set(transform.kernel_size), tuple(transform.sigma)
        if len(sizes) > 1 or self._least < max(sizes):
            raise Unsuited(
                f"transform {transform!r:.200}, whose kernel is no square or which a picture may be too small for"
            )
        size = sizes.pop()
        gaussian_blur(None, size, sigma, 0)
        self._change(lambda image, seed: gaussian_blur(image, size, sigma, seed), transform)

    def _take_randaugment(self, transform: Any) -> None:
        count, strength, bins = transform.num_ops, transform.magnitude, transform.num_magnitude_bins
        fill = self._policy(transform)
        rand_augment(None, count, strength, bins, fill, 0)
        self._change(lambda image, seed: rand_augment(image, count, strength, bins, fill, seed), transform)

    def _take_trivialaugmentwide(self, transform: Any) -> None:
        bins, fill = transform.num_magnitude_bins, self._policy(transform)
        trivial_augment(None, bins, fill, 0)
        self._change(lambda image, seed: trivial_augment(image, bins, fill, seed), transform)

    def _take_randomerasing(self, transform: Any) -> None:
        if self._kind != "float32":
            raise Unsuited(f"transform {transform!r:.200} of a {self._kind}")
        p, scale, ratio = float(transform.p), tuple(transform.scale), tuple(transform.ratio)
        value = "random" if transform.value is None else transform.value

        def link(image: _Image, seed: int) -> _Image:
            return random_erasing(image, p, scale, ratio, value, seed, channels_first=True)

        random_erasing(None, p, scale, ratio, value, 0)
        self._erasing = link

    # ---- what they share

    def _change(self, link: _Link, transform: Any) -> None:
        """Add a link that changes bytes."""
        if self._normal is not None:
            raise Unsuited(f"transform {transform!r:.200} behind Normalize")
        self._links.append(link)
        self._resized = False

    def _policy(self, transform: Any) -> Any:
        """Return what fills the place of missing pixels."""
        if _word(transform.interpolation) != "nearest" or self._kind == "float32":
            raise Unsuited(f"transform {transform!r:.200} of a {self._kind}, or with this interpolation")
        fill = transform.fill
        return 0 if fill is None else int(fill) if isinstance(fill, (int, float)) else [int(part) for part in fill]

    def _antialias(self, transform: Any) -> bool:
        """Return whether a new size is antialiased: Pillow always does so."""
        return self._kind == "picture" or bool(getattr(transform, "antialias", True))

    def _resize(self, link: _Link, method: str) -> None:
        self._links.append(link)
        self._resized = True
        if method == "bicubic" and self._kind != "float32":  # it overshoots, and bytes can't
            self._links.append(_drawless(lambda image: np.clip(image, np.float32(0), np.float32(255))))


def _drawless(function: Callable[[Any], Any]) -> _Link:
    """Return a link that takes no seed."""
    return lambda image, seed: function(image)


def _word(interpolation: Any) -> str:
    """Return the name of an interpolation, an item of torchvision's enumeration or its value."""
    return str(getattr(interpolation, "value", interpolation))


def _filter(transform: Any) -> str:
    method = _FILTERS.get(_word(transform.interpolation))
    if method is None:
        raise Unsuited(f"transform {transform!r:.200}: its interpolation")
    return method


def _sides(transform: Any) -> tuple[int, int]:
    height, width = transform.size
    return int(height), int(width)
