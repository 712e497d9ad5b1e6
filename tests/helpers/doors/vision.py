"""torchvision, and folders of pictures for it."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")


@functools.cache
def torchvision() -> Any:
    """Return the package, also one whose operators were built for another PyTorch, since nothing here needs these."""
    register = torch.library.register_fake

    def registered(name: Any, *args: Any, **options: Any) -> Any:
        return (lambda given: given) if str(name).startswith("torchvision::") else register(name, *args, **options)

    with mock.patch.object(torch.library, "register_fake", registered):
        return pytest.importorskip("torchvision", reason="torchvision is not installed: make doors")


def make_folders(root: Any, count: int = 24, ends: tuple[str, ...] = (".jpg", ".png", ".bmp", ".JPEG")) -> None:
    """Write smooth pictures of several sizes into three folders."""
    from PIL import Image

    random = np.random.default_rng(count)
    for number in range(count):
        height, width = 40 + 3 * (number % 5), 40 + 7 * (number % 4)
        rough = Image.fromarray(random.integers(0, 256, (6, 7, 3), np.uint8))
        path = root / f"class{number % 3}" / f"{number:03}{ends[number % len(ends)]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = {"quality": 95} if path.suffix.lower() in (".jpg", ".jpeg") else {}
        rough.resize((width, height), Image.Resampling.BICUBIC).save(path, **kind)
