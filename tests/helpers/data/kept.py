"""Datasets whose pickles and saved places were kept from a version before: ``tests/kept`` has what that one wrote.

``python -m helpers.data.kept FILE``, in ``tests``, with the package of that version on the path, writes such a file;
with ``torch`` behind it, one of a loader of `queuecore.torch`.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import queuecore as qc
from queuecore.data import Dataset

KEPT = Path(__file__).resolve().parents[2] / "kept"
AT = 3  # elements delivered before the place


def write_files(folder: Path) -> None:
    """Write the files that the datasets read, with the same times everywhere."""
    with qc.writers.TFRecordWriter(folder / "a.tfrecord") as writer:
        for number in range(9):
            writer.write(b"record %d" % number)
    (folder / "b.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    (folder / "c.bin").write_bytes(np.arange(27, dtype=np.uint8).tobytes())
    (folder / "d.csv").write_text("".join(f"{number},{number / 4}\n" for number in range(9)))
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))


def rows() -> Dataset:
    """Return rows in memory."""
    return Dataset.from_tensor_slices({"x": np.arange(36, dtype=np.float32).reshape(18, 2), "y": np.arange(18)})


def doubled(value: Any) -> Any:
    """Compute something that is traced."""
    return value * 2


def is_even(value: Any) -> Any:
    """Ask something that is traced."""
    return value % 2 == 0


def counted() -> Iterator[int]:
    """Yield what a generator of Python's yields."""
    yield from range(9)


def shown(value: Any) -> Any:
    """Call Python for each element."""
    return np.array([len(str(int(value)))])


def in_window(window: Any) -> Any:
    """Make elements of a window."""
    return window.batch(2)


def in_file(name: Any) -> Any:
    """Open the file of a name."""
    return qc.data.TextLineDataset(name)


CASES: dict[str, Callable[[], Dataset]] = {
    "only numbers": lambda: Dataset.range(9),
    "only rows": rows,
    "only records": lambda: qc.data.TFRecordDataset(["a.tfrecord"]),
    "only lines": lambda: qc.data.TextLineDataset(["b.txt"]),
    "only fixed": lambda: qc.data.FixedLengthRecordDataset(["c.bin"], 3),
    "only files": lambda: qc.data.WholeFileDataset(["a.tfrecord", "b.txt", "c.bin", "d.csv"]),
    "range": lambda: Dataset.range(18).batch(2),
    "slices": lambda: rows().shuffle(5, seed=7).repeat(2).batch(4, drop_remainder=True),
    "permuted": lambda: rows().permute(seed=3).batch(3),
    "map": lambda: Dataset.range(18).map(doubled).batch(2),
    "filter": lambda: Dataset.range(36).filter(is_even).batch(2),
    "python": lambda: Dataset.range(18).map(shown),
    "generator": lambda: Dataset.from_generator(counted, np.int64, ()),
    "records": lambda: qc.data.TFRecordDataset(["a.tfrecord"]).shuffle(4, seed=5),
    "lines": lambda: qc.data.TextLineDataset(["b.txt", "b.txt"]).batch(3),
    "fixed": lambda: qc.data.FixedLengthRecordDataset(["c.bin"], 3).shard(2, 0),
    "csv": lambda: qc.data.CsvDataset(["d.csv"], [np.int64, np.float32]),
    "interleaved": lambda: Dataset.from_tensor_slices([b"b.txt", b"b.txt"]).interleave(in_file, cycle_length=2),
    "window": lambda: Dataset.range(24).window(4).flat_map(in_window),
    "zipped": lambda: Dataset.zip((Dataset.range(9), Dataset.range(9).skip(1).repeat())),
    "sampled": lambda: Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(9)], seed=1),
    "cached": lambda: Dataset.range(9).cache().repeat(2),
    "ragged": lambda: Dataset.range(12).map(shown).padded_batch(2),
    "buckets": lambda: Dataset.range(12).bucket_by_sequence_length(shown_length, [2], [2, 2]),
}


def shown_length(value: Any) -> Any:
    """Return the length of an element."""
    return value % 3


def plain(element: Any) -> Any:
    """Return an element as what JSON has."""
    if isinstance(element, dict):
        return {name: plain(part) for name, part in element.items()}
    if isinstance(element, (tuple, list)):
        return [plain(part) for part in element]
    if isinstance(element, bytes):
        return element.decode("latin-1")
    if isinstance(element, qc.Ragged):
        return plain(element.to_list())
    if isinstance(element, (np.ndarray, np.generic)):
        return plain(element.tolist())
    return element


def main(file: str) -> None:
    """Write what this version makes of the datasets."""
    records = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_files(Path(folder))
        for name, make in CASES.items():
            dataset = make()
            saved: dict[str, Any] = {}
            try:
                saved["pickle"] = base64.b64encode(pickle.dumps(dataset, 4)).decode()
            except Exception as error:
                print(f"{name}: no pickle: {error!r}")
            iterator = iter(dataset)
            saved["begin"] = [plain(next(iterator)) for _ in range(AT)]
            saved["state"] = iterator.state_dict()
            saved["rest"] = [plain(element) for element in iterator]
            records[name] = saved
    Path(file).write_text(json.dumps(records) + "\n")


def main_torch(file: str) -> None:
    """Write a pickle of a loader, of numbers in a list."""
    from queuecore.torch import DataLoader

    loader = DataLoader(list(range(7)), batch_size=3, num_workers=2)  # type: ignore[arg-type]
    Path(file).write_text(json.dumps({"pickle": base64.b64encode(pickle.dumps(loader, 4)).decode()}) + "\n")


if __name__ == "__main__":
    (main_torch if sys.argv[2:] == ["torch"] else main)(sys.argv[1])
