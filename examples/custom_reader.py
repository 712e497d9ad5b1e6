"""Read a format of your own: a function yields what one file holds, and the dataset does the rest.

The format: four bytes that say what it is; then clips, each a header (how many samples, and a label) with its samples
behind it. `clips` reads one such file. `Dataset.from_generator` makes a dataset of it and `interleave` takes turns
among the files. Shuffles, batches and saved places are those of every other dataset: the run stops in the middle, and
another one goes on there.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import queuecore as qc
from queuecore.data import ArraySpec, Dataset

MAGIC = b"CLIP"
HEADER = struct.Struct("<IH")  # samples, label
FILES, CLIPS = 3, 20
CLIP = {"label": ArraySpec((), np.dtype(np.int64)), "samples": ArraySpec((None,), np.dtype(np.float32))}


def write(path: Path, first_label: int) -> None:
    """Write one file: each clip has another length, and samples that follow from its label."""
    with path.open("wb") as file:
        file.write(MAGIC)
        for label in range(first_label, first_label + CLIPS):
            samples = np.full(1 + label % 7, label, "<i2")
            file.write(HEADER.pack(len(samples), label) + samples.tobytes())


def clips(name: bytes) -> Iterator[dict[str, Any]]:
    """Yield the clips of a file. What it raises comes out of the dataset's iterator, in its place."""
    path = Path(os.fsdecode(name))
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path.name}: not a file of clips")
        while head := file.read(HEADER.size):
            count, label = HEADER.unpack(head)
            data = file.read(2 * count)
            if len(data) != 2 * count:
                raise ValueError(f"{path.name}: the file ends within the clip before byte {file.tell()}")
            yield {"label": label, "samples": np.frombuffer(data, "<i2") / np.float32(32768)}


def pipeline(names: list[str]) -> Dataset:
    """Return batches of clips, as long as the longest of each."""

    def of_file(index: Any) -> Dataset:
        return Dataset.from_generator(clips, output_signature=CLIP, args=(names[int(index)],))

    dataset = Dataset.range(len(names)).interleave(of_file, cycle_length=len(names))
    return dataset.shuffle(16, seed=1).padded_batch(8)


def main() -> None:
    """Read all clips, once in one go and once in two runs."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for index in range(FILES):
            path = Path(folder, f"part-{index}.clips")
            write(path, index * CLIPS)
            names.append(str(path))

        labels: list[int] = []
        with iter(pipeline(names)) as batches:
            for batch in batches:
                for label, samples in zip(batch["label"], batch["samples"], strict=True):
                    length = 1 + int(label) % 7
                    assert np.array_equal(samples[:length] * 32768, np.full(length, label))
                    assert not samples[length:].any()
                labels += batch["label"].tolist()
        assert sorted(labels) == list(range(FILES * CLIPS))

        with iter(pipeline(names)) as batches:
            begun = [next(batches)["label"].tolist() for _ in range(3)]
            place = json.dumps(batches.state_dict())
        with iter(pipeline(names)) as batches:
            batches.load_state_dict(json.loads(place))
            rest = [batch["label"].tolist() for batch in batches]
        assert [label for part in (begun + rest) for label in part] == labels

        Path(names[1]).write_bytes(MAGIC + HEADER.pack(5, 1))
        try:
            for _ in pipeline(names):
                pass
            raise AssertionError("a damaged file was read to its end")
        except qc.errors.PipelineError as error:
            print(f"a damaged file: {error.__cause__}")
    print(f"{len(labels)} clips of {FILES} files, and the same in two runs")


if __name__ == "__main__":
    main()
