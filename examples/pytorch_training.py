"""Train with PyTorch on batches that are read, shuffled and batched natively; stop in an epoch, and go on.

The files hold fixed-length records, a row of features and a label. `queuecore.torch.DataLoader` takes the dataset and
gives dicts of tensors, on the GPU if there is one. Needs PyTorch: ``pip install torch``.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import queuecore as qc
from queuecore.torch import DataLoader

RECORD = np.dtype([("x", np.float32, (16,)), ("y", np.int64)])
RECORDS, BATCH, EPOCHS = 2_000, 50, 3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def write(path: Path) -> None:
    """Write the records: the label says whether the sum of the features is above 0."""
    records = np.zeros(RECORDS, RECORD)
    records["x"] = np.random.default_rng(0).normal(size=(RECORDS, 16))
    records["y"] = records["x"].sum(axis=1) > 0
    records.tofile(path)


def loader(path: Path) -> Any:
    """Return a loader whose epochs each have an order of their own."""
    dataset = qc.data.FixedLengthRecordDataset(path, record=RECORD)
    order = torch.Generator().manual_seed(1)
    return DataLoader(dataset, BATCH, shuffle=True, generator=order, device=None if DEVICE == "cpu" else DEVICE)


def main() -> None:
    """Train for some epochs, then compare the rest of an epoch with that of a loader which goes on in it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.bin")
        write(path)
        batches = loader(path)
        shares = []
        for epoch in range(EPOCHS):
            right = 0
            for batch in batches:
                logits = model(batch["x"])
                loss = torch.nn.functional.cross_entropy(logits, batch["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                right += int((logits.argmax(1) == batch["y"]).sum())
            shares.append(right / RECORDS)
            print(f"epoch {epoch + 1}: {shares[-1]:.1%} right")
        assert shares[-1] > 0.9

        begun = iter(batches)
        for _ in range(15):
            next(begun)
        state = json.dumps(batches.state_dict())  # goes into the checkpoint, beside the model's
        rest = [batch["x"].clone() for batch in begun]
        again = loader(path)
        again.load_state_dict(json.loads(state))
        resumed = [batch["x"].clone() for batch in again]
        assert len(rest) == RECORDS // BATCH - 15
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(resumed, rest, strict=True))
    print(f"a new loader goes on after batch 15 with the same {len(rest)} batches")


if __name__ == "__main__":
    main()
