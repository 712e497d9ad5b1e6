"""The ways of docs/data-sources.md by which other data come in: what each of them gives.

The data are pictures of 3,072 random bytes with a label, in all forms that the page has a way for: a tar archive, the
files unpacked from it, TFRecords of Examples, a Parquet file, an HDF5 file, a ``.npy`` file, and plain records that
another process writes into a pipe. Each pass takes batches of 128 from the page cache, and must have all rows. What
pyarrow or h5py is needed for is left out where they are absent.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import whole_pass  # noqa: E402

BATCH = 128
IMAGE_BYTES = 3072
GROUP = 4096  # rows of a row group
CHUNK = 64  # rows of a chunk of HDF5, and of a block from a pipe


def write_tar(path: Path, labels: np.ndarray, images: np.ndarray) -> None:
    """Write each image as a file of its own, in a folder for its label."""
    with tarfile.open(path, "w") as tar:
        for number, (label, image) in enumerate(zip(labels, images, strict=True)):
            member = tarfile.TarInfo(f"{label}/{number:06}.bin")
            member.size = IMAGE_BYTES
            tar.addfile(member, io.BytesIO(image.tobytes()))


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield label and content of each file in an archive."""
    with tarfile.open(path) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            yield member.name.split("/")[0], content.read()


def write_records(path: Path, archive: Path) -> None:
    """Write an archive's files as Examples."""
    import queuecore as qc
    import queuecore.tf1 as tf

    def feature(value: bytes) -> Any:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    with qc.TFRecordWriter(path) as writer:
        for label, image in members(archive):
            parts = {"label": feature(label.encode()), "image": feature(image)}
            writer.write(tf.train.Example(features=tf.train.Features(feature=parts)).SerializeToString())


def contenders_of(folder: Path, labels: np.ndarray, images: np.ndarray) -> tuple[dict[str, Any], dict[str, str]]:
    """Write the data in all forms; return a dataset for each way, and why packages are absent."""
    import queuecore as qc
    from queuecore.data import Dataset

    ways: dict[str, Any] = {}
    absences: dict[str, str] = {}
    archive, records, plain = folder / "images.tar", folder / "images.tfrecord", folder / "images.bin"
    write_tar(archive, labels, images)
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    write_records(records, archive)
    np.concatenate([labels[:, None], images], axis=1).tofile(plain)
    np.save(folder / "images.npy", images)

    described = {name: qc.ops.FixedLenFeature((), bytes) for name in ("label", "image")}
    parse = qc.ops.parse_single_example(features=described)
    ways["tar: TarDataset"] = qc.data.TarDataset(archive, ["__key__", "bin"])
    ways["tar: unpacked, WholeFileDataset"] = qc.data.WholeFileDataset(str(folder / "unpacked/*/*"))
    ways["tar: written as TFRecords"] = qc.data.TFRecordDataset(records).map(parse)
    ways["tar: a generator of files"] = Dataset.from_generator(lambda: members(archive), (bytes, bytes), ((), ()))

    def blocks() -> Iterator[np.ndarray]:
        with subprocess.Popen(["cat", plain], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while block := process.stdout.read(CHUNK * (1 + IMAGE_BYTES)):
                yield np.frombuffer(block, np.uint8).reshape(-1, 1 + IMAGE_BYTES)

    ways["pipe: a generator of blocks"] = Dataset.from_generator(blocks, np.uint8, (None, 1 + IMAGE_BYTES)).unbatch()
    ways["NumPy: NumpyDataset"] = qc.data.NumpyDataset(folder / "images.npy")
    for package, add in (("pyarrow", _add_tables), ("h5py", _add_arrays)):
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            absences[package] = str(error)
        else:
            add(ways, module, folder, images)
    return ways, absences


def _add_tables(ways: dict[str, Any], arrow: Any, folder: Path, images: np.ndarray) -> None:
    from queuecore.data import Dataset, ParquetDataset

    parquet = importlib.import_module("pyarrow.parquet")
    floats = images[:, :64].astype(np.float32)
    table = arrow.table({f"x{column}": floats[:, column] for column in range(16)})
    parquet.write_table(table, folder / "table.parquet", row_group_size=GROUP)

    ways["Arrow: a table in memory, 16 columns"] = Dataset.from_tensor_slices(table)
    ways["Parquet: ParquetDataset, 16 columns"] = ParquetDataset(folder / "table.parquet")


def _add_arrays(ways: dict[str, Any], h5py: Any, folder: Path, images: np.ndarray) -> None:
    from queuecore.data import Dataset

    with h5py.File(folder / "arrays.h5", "w") as file:
        file.create_dataset("x", data=images, chunks=(CHUNK, IMAGE_BYTES))

    def slices() -> Iterator[np.ndarray]:
        with h5py.File(folder / "arrays.h5") as file:
            for start in range(0, len(file["x"]), CHUNK):
                yield file["x"][start : start + CHUNK]

    ways["HDF5: a generator of slices"] = Dataset.from_generator(slices, np.uint8, (None, IMAGE_BYTES)).unbatch()


def run(options: harness.Options) -> dict[str, Any]:
    """Measure a whole pass of each way."""
    count, rounds = (2_000, 2) if options.quick else (20_000, 7)
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, count).astype(np.uint8)
    images = random.integers(0, 256, (count, IMAGE_BYTES), np.uint8)

    def rows(dataset: Any) -> float:
        given, seconds = whole_pass(dataset)
        if given != count:
            raise SystemExit(f"{given} rows came, of {count}")
        return given / seconds

    with harness.scratch(options) as folder:
        ways, absences = contenders_of(folder, labels, images)
        contenders: list[tuple[str, Callable[[], float]]] = [
            (name, lambda dataset=dataset: rows(dataset.batch(BATCH))) for name, dataset in ways.items()
        ]
        raw = harness.rotate(contenders, rounds)
    findings = [harness.finding(name, "records/s", rates) for name, rates in raw.items()]
    return harness.report(
        "sources",
        "what the ways of docs/data-sources.md give",
        findings,
        raw,
        parameters={"records": count, "image_bytes": IMAGE_BYTES, "batch": BATCH, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
