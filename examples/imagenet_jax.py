"""Train a network on folders of pictures with JAX: random parts and mirror images, decoded and resized natively.

The same as `imagenet.py`, with batches on JAX's device ahead of the loop. The folders are laid out as ImageNet's are,
one for each class: give the path of such a tree as the first argument, or the program writes a small one of its own.
Needs JAX (``pip install jax``), and Pillow to write pictures.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import queuecore as qc
from queuecore.jax import device_iterator

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, BATCH, EPOCHS = 32, 24, 8


def write(root: Path) -> None:
    """Write pictures of three classes: stripes that lie, that stand, and a chessboard."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(300):
        height, width = random.integers(40, 80, 2)
        rows, columns = np.arange(height)[:, None] // 4 % 2, np.arange(width) // 4 % 2
        pattern = (rows + 0 * columns, 0 * rows + columns, rows ^ columns)[number % 3]
        colours = random.integers(0, 256, (2, 3), np.uint8)
        path = root / "train" / ("lying", "standing", "chess")[number % 3] / f"{number}.jpg"
        if number >= 240:
            path = root / "val" / path.relative_to(root / "train")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(colours[pattern]).save(path, quality=95)


def training(root: Path) -> qc.data.Dataset:
    """Return batches of one shape, so one compilation, of random parts of the pictures, in another order each epoch."""

    def vision(contents: Any, label: Any) -> Any:
        image = qc.ops.decode_jpeg(contents, channels=3)
        image = qc.ops.random_resized_crop(image, SIDE, scale=(0.3, 1), seed=1)
        return qc.ops.normalize(qc.ops.random_flip_left_right(image, seed=2), MEAN, STD), label

    files = qc.data.ImageFolderDataset(root / "train", shuffle=True, seed=3)
    return files.map(vision).batch(BATCH, drop_remainder=True)


def validation(root: Path) -> qc.data.Dataset:
    """Return batches of the middle of each picture."""

    def vision(contents: Any, label: Any) -> Any:
        image = qc.ops.resize(qc.ops.decode_jpeg(contents, channels=3), SIDE * 8 // 7, antialias=True)
        return qc.ops.normalize(qc.ops.center_crop(image, SIDE), MEAN, STD), label

    return qc.data.ImageFolderDataset(root / "val").map(vision).batch(BATCH)


def weights_of(classes: int) -> list[Any]:
    """Return the first weights: two convolutions, and a layer from their means to the classes."""
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = ((5, 5, 3, 16), (3, 3, 16, 32), (32, classes))
    return [
        jax.random.normal(key, shape) * np.sqrt(2 / np.prod(shape[:-1]))
        for key, shape in zip(keys, shapes, strict=True)
    ]


def logits(weights: list[Any], images: Any) -> Any:
    """Return a number for each picture and class."""
    for kernel in weights[:2]:
        images = jax.lax.conv_general_dilated(
            images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        images = jax.nn.relu(images)
    return images.mean((1, 2)) @ weights[2]


def descended(weights: list[Any], moments: list[Any], images: Any, labels: Any) -> tuple[list[Any], list[Any]]:
    """Return the weights after one step of gradient descent with momentum."""

    def loss(weights: list[Any]) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], 1).mean()

    moments = [0.9 * moment + gradient for moment, gradient in zip(moments, jax.grad(loss)(weights), strict=True)]
    return [weight - 0.05 * moment for weight, moment in zip(weights, moments, strict=True)], moments


step = jax.jit(descended)


def right(weights: list[Any], root: Path) -> float:
    """Return the share of the pictures held out whose class the weights name."""
    hits = [np.asarray(logits(weights, images).argmax(1)) == labels for images, labels in validation(root)]
    return float(np.concatenate(hits).mean())


def main() -> None:
    """Train for some epochs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(*sys.argv[1:2] or (folder,))
        if not sys.argv[1:]:
            write(root)
        weights = weights_of(len(qc.data.ImageFolderDataset(root / "train").class_names))
        moments = [jnp.zeros_like(weight) for weight in weights]
        batches = training(root)
        for epoch in range(EPOCHS):
            with device_iterator(batches, buffers=2) as on_device:
                for images, labels in on_device:
                    weights, moments = step(weights, moments, images, labels)
            print(f"epoch {epoch + 1}: {right(weights, root):.1%} of the pictures held out are named rightly")
        assert sys.argv[1:] or right(weights, root) > 0.8


if __name__ == "__main__":
    main()
