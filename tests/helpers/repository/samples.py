"""The picture of augmented samples: one scene, and what the random operations on pictures make of it.

Run by ``make picture``, which writes it to ``docs/augmented.png``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.repository.layers import REPOSITORY
from PIL import Image, ImageDraw

import queuecore as qc

__all__ = ["SAMPLES", "samples"]

SAMPLES = REPOSITORY / "docs/augmented.png"

_SIDE, _GAP, _COLUMNS = 96, 6, 5
_SEED = 7


def _scene(hour: int) -> np.ndarray[Any, Any]:
    """Return a house on a hill, by day (0) or in the evening (1)."""
    height, width = 150, 200
    high, low = ((110, 170, 235), (225, 240, 250)) if hour == 0 else ((40, 30, 80), (250, 150, 90))
    sky = np.linspace(high, low, height)[:, None] + np.zeros((1, width, 1))
    image = Image.fromarray(sky.astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.ellipse((150, 14, 182, 46), fill=(255, 226, 90) if hour == 0 else (255, 250, 230))
    draw.polygon([(0, 120), (60, 95), (130, 105), (200, 88), (200, 150), (0, 150)], fill=(84, 150, 60))
    draw.rectangle((62, 70, 118, 122), fill=(206, 96, 70), outline=(70, 30, 20))
    draw.polygon([(54, 72), (90, 42), (126, 72)], fill=(110, 50, 40))
    draw.rectangle((82, 92, 98, 122), fill=(74, 50, 36))
    for left in (68, 102):
        draw.rectangle((left, 78, left + 10, 88), fill=(250, 240, 150))
    for left in range(132, 200, 12):
        draw.line((left, 96, left, 118), fill=(90, 60, 40), width=4)
    draw.line((130, 104, 200, 100), fill=(90, 60, 40), width=4)
    return np.asarray(image)


def _rows() -> list[list[np.ndarray[Any, Any]]]:
    ops: Any = qc.ops
    day, evening = _scene(0), _scene(1)
    first = ops.center_crop(day, 144)
    kinds: list[Callable[[int], Any]] = [
        lambda i: ops.random_resized_crop(day, _SIDE, seed=_SEED, element=i),
        lambda i: ops.random_flip_left_right(first, seed=_SEED, p=0.7, element=i),
        lambda i: ops.color_jitter(first, 0.5, 0.5, 0.8, 0.2, seed=_SEED, element=i),
        lambda i: ops.rand_augment(first, magnitude=14, seed=_SEED, element=i),
        lambda i: ops.trivial_augment(first, seed=_SEED, element=i),
        lambda i: ops.gaussian_blur(first, 15, (0.5, 5), seed=_SEED, element=i),
        lambda i: ops.random_erasing(first, 1, seed=_SEED, element=i),
        lambda i: ops.cutmix(np.stack([first, ops.center_crop(evening, 144)]), np.arange(2), 2, seed=i)[0][0],
        lambda i: ops.mixup(np.stack([first, ops.center_crop(evening, 144)]), np.arange(2), 2, seed=i)[0][0],
    ]
    return [[first, *(np.asarray(make(i)) for i in range(1, _COLUMNS))] for make in kinds]


def samples() -> Image.Image:
    """Return the picture: a row for each operation, its input first."""
    rows = _rows()
    step = _SIDE + _GAP
    sheet = Image.new("RGB", (_COLUMNS * step - _GAP, len(rows) * step - _GAP), "white")
    for y, row in enumerate(rows):
        for x, pixels in enumerate(row):
            small = qc.ops.resize(pixels, (_SIDE, _SIDE), antialias=True)
            sheet.paste(Image.fromarray(np.rint(small).clip(0, 255).astype(np.uint8)), (x * step, y * step))
    return sheet


if __name__ == "__main__":
    samples().save(SAMPLES, optimize=True)
