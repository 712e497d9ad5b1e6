"""Train with JAX on batches that are put on its device ahead of the loop; stop in the middle, and go on.

The files hold fixed-length records, a row of features and a number that follows from them. `device_iterator` gives
dicts of JAX arrays. Needs JAX: ``pip install jax``.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import queuecore as qc
from queuecore.jax import device_iterator

RECORD = np.dtype([("x", np.float32, (8,)), ("y", np.float32)])
RECORDS, BATCH, EPOCHS = 2_000, 50, 3
TRUE_WEIGHTS = np.arange(8, dtype=np.float32) / 4 - 1


def write(path: Path) -> None:
    """Write the records."""
    records = np.zeros(RECORDS, RECORD)
    records["x"] = np.random.default_rng(0).normal(size=(RECORDS, 8))
    records["y"] = records["x"] @ TRUE_WEIGHTS
    records.tofile(path)


def loss(weights: Any, batch: dict[str, Any]) -> Any:
    """Return the mean squared error."""
    return jnp.mean((batch["x"] @ weights - batch["y"]) ** 2)


gradient = jax.jit(jax.grad(loss))


def main() -> None:
    """Train, once in one go and once in two runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.bin")
        write(path)
        dataset = (
            qc.data.FixedLengthRecordDataset(path, record=RECORD)
            .shuffle(500, seed=1)
            .repeat(EPOCHS)
            .batch(BATCH, drop_remainder=True)  # one shape, so one compilation
        )

        weights, count, saved = jnp.zeros(8), 0, ("", np.zeros(8))
        with device_iterator(dataset, buffers=2) as batches:
            for count, batch in enumerate(batches, 1):
                weights = weights - 0.05 * gradient(weights, batch)
                if count == 70:
                    # What is on the device ahead of the loop doesn't count: the place is behind this batch.
                    saved = json.dumps(batches.state_dict()), np.asarray(weights)
        assert np.allclose(weights, TRUE_WEIGHTS, atol=0.05)

        again = jnp.asarray(saved[1])
        with device_iterator(dataset) as batches:
            batches.load_state_dict(json.loads(saved[0]))
            for batch in batches:
                again = again - 0.05 * gradient(again, batch)
        assert np.array_equal(again, weights)
    print(f"{count} batches on {jax.devices()[0]}; gone on after batch 70, the same weights")


if __name__ == "__main__":
    main()
