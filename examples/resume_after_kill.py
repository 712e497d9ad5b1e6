"""Go on after a kill: a run saves its place together with what it has learned, and is killed; the next one goes on.

The program starts itself as a child, again and again. Each child trains, saves a checkpoint every few batches, and is
killed with SIGKILL in the middle, where nothing can be saved any more. The next child begins at the last checkpoint.
In the end the model is the one, to the last bit, that a run without a kill gives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import queuecore as qc

RECORD = np.dtype([("x", np.float32, (4,)), ("y", np.float32)])
RECORDS, BATCH, EPOCHS, SAVE_EVERY = 1_000, 20, 2, 10
TRUE_WEIGHTS = np.array([1.0, -2.0, 3.0, 0.5], np.float32)
KILLED_AFTER = (25, 7, 41)  # batches of the first children; the last one comes to the end


def write(path: Path) -> None:
    """Write the records: y follows from x."""
    records = np.zeros(RECORDS, RECORD)
    records["x"] = np.random.default_rng(0).normal(size=(RECORDS, 4))
    records["y"] = records["x"] @ TRUE_WEIGHTS
    records.tofile(path)


def save(path: Path, weights: NDArray[np.float64], place: dict[str, object]) -> None:
    """Write a checkpoint. The model and the place are one file, which is there as a whole or not at all."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        json.dump({"weights": weights.tolist(), "place": place}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def train(folder: Path, die_after: int | None = None) -> None:
    """Train to the end, or until so many batches are done; go on from the checkpoint if there is one."""
    dataset = (
        qc.data.FixedLengthRecordDataset(folder / "data.bin", record=RECORD)
        .shuffle(200, seed=1)
        .repeat(EPOCHS)
        .batch(BATCH)
    )
    checkpoint = folder / "checkpoint.json"
    weights = np.zeros(4)
    with iter(dataset) as batches:
        if checkpoint.exists():
            saved = json.loads(checkpoint.read_text())
            weights = np.array(saved["weights"])
            batches.load_state_dict(saved["place"])
        for count, batch in enumerate(batches, 1):
            x, y = batch["x"].astype(np.float64), batch["y"]
            weights -= 0.05 / BATCH * ((x @ weights - y) @ x)
            if count % SAVE_EVERY == 0:
                save(checkpoint, weights, batches.state_dict())
            if count == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
        save(checkpoint, weights, batches.state_dict())


def child(folder: Path, *die_after: int) -> int:
    """Run this program in a process of its own, and return how it ended."""
    return subprocess.run([sys.executable, __file__, str(folder), *map(str, die_after)], check=False).returncode


def main() -> None:
    """Train with kills and without, and compare."""
    weights = []
    for kills in (KILLED_AFTER, ()):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder / "data.bin")
            for die_after in kills:
                assert child(folder, die_after) == -signal.SIGKILL
            assert child(folder) == 0
            weights.append(json.loads((folder / "checkpoint.json").read_text())["weights"])
    killed, whole = weights
    assert killed == whole
    assert np.allclose(whole, TRUE_WEIGHTS, atol=0.05)
    print(f"killed {len(KILLED_AFTER)} times, and the same model: {np.round(killed, 3).tolist()}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        main()
