"""Train a network on folders of pictures with PyTorch: random parts and mirror images, decoded and resized natively.

The folders are laid out as ImageNet's are, one for each class: give the path of such a tree as the first argument, or
the program writes a small one of its own. Needs PyTorch (``pip install torch``), and Pillow to write pictures.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import queuecore as qc
from queuecore.torch import DataLoader

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
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
    """Return random parts of the pictures in another order each epoch, with the channels first."""

    def vision(contents: Any, label: Any) -> Any:
        image = qc.ops.decode_jpeg(contents, channels=3)
        image = qc.ops.random_resized_crop(image, SIDE, scale=(0.3, 1), seed=1)
        image = qc.ops.random_flip_left_right(image, seed=2)
        return qc.ops.normalize(image, MEAN, STD, channels_first=True), label

    return qc.data.ImageFolderDataset(root / "train", shuffle=True, seed=3).map(vision)


def validation(root: Path) -> qc.data.Dataset:
    """Return the middle of each picture."""

    def vision(contents: Any, label: Any) -> Any:
        image = qc.ops.resize(qc.ops.decode_jpeg(contents, channels=3), SIDE * 8 // 7, antialias=True)
        image = qc.ops.center_crop(image, SIDE)
        return qc.ops.normalize(image, MEAN, STD, channels_first=True), label

    return qc.data.ImageFolderDataset(root / "val").map(vision)


def network(classes: int) -> Any:
    """Return a small convolutional network."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes),
    )  # fmt: skip


def right(model: Any, loader: Any) -> float:
    """Return the share of pictures whose class the model names."""
    with torch.no_grad():
        hits = [model(images.to(DEVICE)).argmax(1) == labels.to(DEVICE) for images, labels in loader]
    return float(torch.cat(hits).float().mean())


def main() -> None:
    """Train for some epochs."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(*sys.argv[1:2] or (folder,))
        if not sys.argv[1:]:
            write(root)
        classes = qc.data.ImageFolderDataset(root / "train").class_names
        model = network(len(classes)).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        batches: Any = DataLoader(training(root), BATCH, num_workers=2, drop_last=True)
        held_out: Any = DataLoader(validation(root), BATCH, num_workers=2)
        for epoch in range(EPOCHS):
            for images, labels in batches:
                loss = torch.nn.functional.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch + 1}: {right(model, held_out):.1%} of the pictures held out are named rightly")
        assert sys.argv[1:] or right(model, held_out) > 0.8


if __name__ == "__main__":
    main()
