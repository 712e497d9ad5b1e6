"""The two parts of ``queuecore demo``: train on a stream of handwritten digits, then stream 600 MB beside a floor."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from queuecore import data
from queuecore.cli.measure import (
    MeasuredSource,
    available_memory,
    compare,
    cores,
    cpu_model,
    floor_pass,
    plain_pass,
    print_table,
    queuecore_pass,
)
from queuecore.cli.progress import Progress, counted

__all__ = ["CIFAR_RECORD", "DemoError", "demo_stream", "demo_train", "scratch_directory", "write_cifar_files"]

DIGIT_RECORD = np.dtype([("label", "u1"), ("image", "u1", (8, 8))])
CIFAR_RECORD = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
RECORDS_PER_FILE = 10_000
GOAL = 0.95

# Of what is read in one round: some hundredths of a second for each contender.
PART_BYTES = 64_000_000

HELD_OUT = 360
TRAIN_FILES = 4
BATCH = 64
STEPS = 1_200
HIDDEN = 64
LEARNING_RATE = 3e-3
SEED = 20

# Left free on the disk for everybody else.
RESERVE = 256 * 2**20


class DemoError(Exception):
    """The demo can't do its job; the message says why and what helps."""


@contextmanager
def scratch_directory(parent: str | None = None) -> Iterator[str]:
    """Make a temporary folder that is gone afterwards, also after an error or Ctrl-C.

    Parameters
    ----------
    parent : str, optional
        Where to make it, by default the system's folder for temporary files.
    """
    path = tempfile.mkdtemp(prefix="queuecore-demo-", dir=parent)
    try:
        yield path
    finally:
        # A second Ctrl-C, by someone who is impatient, must not leave 600 MB behind.
        shielded = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if shielded else None
        try:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            if shielded:
                signal.signal(signal.SIGINT, before)


def _write_file(name: str | Path, records: np.ndarray) -> None:
    # Not ndarray.tofile: on a full disk its OSError has no errno.
    with open(name, "wb", buffering=0) as file:
        left = memoryview(records.tobytes())
        while left:
            left = left[file.write(left) :]


def _array_module() -> tuple[Any, str]:
    """Return CuPy where it is installed and finds a GPU, else NumPy, with its name."""
    try:
        cupy = importlib.import_module("cupy")
        if cupy.cuda.runtime.getDeviceCount() > 0:
            cupy.arange(4).sum()  # a driver that is too old only shows here
            return cupy, f"CuPy {cupy.__version__} on a GPU"
    except Exception:  # any failure of an optional accelerator means: without it
        pass
    return np, f"NumPy {np.__version__}"


class _Classifier:
    """One hidden layer, ReLU, softmax and Adam, in whatever array module it is given."""

    def __init__(self, xp: Any, inputs: int, hidden: int, classes: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        shapes = [(inputs, hidden), (hidden,), (hidden, classes), (classes,)]
        scales = [(2 / inputs) ** 0.5, 0.0, (2 / hidden) ** 0.5, 0.0]
        self._xp = xp
        self._weights = [
            xp.asarray(generator.standard_normal(shape) * scale, dtype=np.float32)
            for shape, scale in zip(shapes, scales, strict=True)
        ]
        self._mean = [xp.zeros_like(weight) for weight in self._weights]
        self._square = [xp.zeros_like(weight) for weight in self._weights]
        self._step = 0

    def _inputs(self, images: np.ndarray) -> Any:
        # A copy in a new dtype: nothing here keeps the batch, which is a view on memory that will be reused.
        return self._xp.asarray(images, dtype=np.float32).reshape(len(images), -1) / np.float32(16)

    def _forward(self, x: Any) -> tuple[Any, Any]:
        w1, b1, w2, b2 = self._weights
        hidden = self._xp.maximum(x @ w1 + b1, 0)
        return hidden, hidden @ w2 + b2

    def train(self, images: np.ndarray, labels: np.ndarray) -> Any:
        """Take one step of Adam on a batch and return its mean loss (on the device)."""
        xp = self._xp
        x, y = self._inputs(images), xp.asarray(labels, dtype=np.int64)
        rows = xp.arange(len(y))
        hidden, scores = self._forward(x)
        scores = scores - scores.max(axis=1, keepdims=True)
        exponents = xp.exp(scores)
        total = exponents.sum(axis=1, keepdims=True)
        loss = (xp.log(total[:, 0]) - scores[rows, y]).mean()
        slope = exponents / total
        slope[rows, y] -= 1
        slope /= len(y)
        hidden_slope = (slope @ self._weights[2].T) * (hidden > 0)
        slopes = [x.T @ hidden_slope, hidden_slope.sum(axis=0), hidden.T @ slope, slope.sum(axis=0)]
        self._step += 1
        rate = LEARNING_RATE * (1 - 0.999**self._step) ** 0.5 / (1 - 0.9**self._step)
        for weight, mean, square, gradient in zip(self._weights, self._mean, self._square, slopes, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            weight -= rate * mean / (xp.sqrt(square) + 1e-8)
        return loss

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the share of rows whose label is guessed."""
        _, scores = self._forward(self._inputs(images))
        return float((scores.argmax(axis=1) == self._xp.asarray(labels, dtype=np.int64)).mean())


def _write_digits(folder: Path) -> tuple[list[str], str]:
    """Write scikit-learn's digits as record files: several to train from, one that is held out."""
    try:
        datasets = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise DemoError("the demo needs scikit-learn for its digits; run: pip install scikit-learn") from error
    digits = datasets.load_digits()
    records = np.empty(len(digits.target), DIGIT_RECORD)
    records["label"] = digits.target
    records["image"] = digits.images
    records = records[np.random.default_rng(SEED).permutation(len(records))]
    held_out = folder / "digits-held-out.bin"
    _write_file(held_out, records[:HELD_OUT])
    names = []
    for index, part in enumerate(np.array_split(records[HELD_OUT:], TRAIN_FILES)):
        names.append(str(folder / f"digits-train-{index}.bin"))
        _write_file(names[-1], part)
    return names, str(held_out)


def demo_train(folder: str, steps: int = STEPS) -> float:
    """Train a small classifier from a shuffled, repeating stream of digits.

    Parameters
    ----------
    folder : str
        Where the record files go.
    steps : int
        Batches to train on.

    Returns
    -------
    float
        Accuracy on the digits that were held out.
    """
    names, held_out = _write_digits(Path(folder))
    xp, device = _array_module()
    model = _Classifier(xp, 64, HIDDEN, 10, SEED)
    stream: Any = data.FixedLengthRecordDataset(names, record=DIGIT_RECORD)
    stream = stream.shuffle(1_000, seed=SEED).repeat().batch(BATCH).prefetch(2)
    start = time.perf_counter()
    with iter(stream) as batches, Progress("train", steps, "batches") as progress:
        for step in range(steps):
            batch = next(batches)
            loss = model.train(batch["image"], batch["label"])
            if step % 100 == 0 or step == steps - 1:
                progress.note(f"loss {float(loss):.3f}")
            progress.update(1)
    seconds = time.perf_counter() - start
    whole: Any = data.FixedLengthRecordDataset([held_out], record=DIGIT_RECORD).batch(HELD_OUT)
    with iter(whole) as batches:
        test = next(batches)
        accuracy = model.accuracy(test["image"], test["label"])
    print(
        f"trained a 64-{HIDDEN}-10 network with {device}: {steps:,} batches of {BATCH} in {seconds:.1f} s, "
        f"shuffled over and over from {len(names)} record files"
    )
    print(f"accuracy on {HELD_OUT} held-out digits: {100 * accuracy:.1f}% (goal: {100 * GOAL:.0f}%)", flush=True)
    return accuracy


def _fit_to_disk(folder: str, nbytes: int) -> int:
    free = shutil.disk_usage(folder).free
    room = max(free - RESERVE, free // 2)
    if nbytes <= room:
        return nbytes
    if room < 2**20:
        raise DemoError(f"no room in {folder}: {free / 1e6:.1f} MB are free; name another folder with --dir")
    print(
        f"note: only {free / 1e6:,.0f} MB are free in {folder}: streaming {room / 1e6:,.0f} MB instead of "
        f"{nbytes / 1e6:,.0f} MB (another folder: --dir)",
        flush=True,
    )
    return room


def write_cifar_files(folder: str, nbytes: int) -> tuple[list[str], list[int]]:
    """Write random images in the binary layout of CIFAR-10: a label byte, then 3,072 bytes of pixels.

    Parameters
    ----------
    folder : str
        Where the files go.
    nbytes : int
        About how much to write, rounded to whole files of 10,000 records (or to records, if it is less than a file).

    Returns
    -------
    (list of str, list of int)
        The files' names and sizes. Fewer than asked for, with a note, if the disk filled up on the way.
    """
    room = _fit_to_disk(folder, nbytes)
    wanted = max(room // CIFAR_RECORD.itemsize, 1)
    per_file = min(wanted, RECORDS_PER_FILE)
    files = round(wanted / per_file) if room == nbytes else wanted // per_file
    generator = np.random.default_rng(SEED)
    names: list[str] = []
    with Progress("write", files * per_file, "records") as progress:
        for index in range(files):
            raw = np.frombuffer(generator.bytes(per_file * CIFAR_RECORD.itemsize), "u1").copy()
            records = raw.view(CIFAR_RECORD)
            records["label"] %= 10
            name = os.path.join(folder, f"data_batch_{index:02}.bin")
            try:
                _write_file(name, records)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not names:
                    raise
                Path(name).unlink(missing_ok=True)
                print(f"note: the disk is full; streaming the {len(names)} files that fitted", flush=True)
                break
            names.append(name)
            progress.update(per_file)
    return names, [os.path.getsize(name) for name in names]


def demo_stream(folder: str, megabytes: int = 600, batch: int = 128, window: int = 10_000, rounds: int = 21) -> None:
    """Write record files, stream them warm, and print the rates beside a plain loader and the floor.

    Parameters
    ----------
    folder : str
        Where the files go.
    megabytes : int
        How much to write, in 10**6 bytes.
    batch : int
        Records per batch.
    window : int
        Size of the shuffle window, in records.
    rounds : int
        Passes of each contender, over a part of the files each; medians are printed.
    """
    names, sizes = write_cifar_files(folder, megabytes * 10**6)
    source = MeasuredSource(tuple(names), tuple(sizes), CIFAR_RECORD, CIFAR_RECORD.itemsize)
    size = source.record_bytes
    queuecore_pass(source.dataset().batch(batch), size)  # warms the page cache
    parts = source.parts(PART_BYTES)
    compared = compare(
        [
            ("preadv floor, one thread", lambda part: floor_pass(part, batch)),
            ("plain Python loader", lambda part: plain_pass(part, batch)),
            ("queuecore, 1 thread", lambda part: queuecore_pass(part.dataset(1).batch(batch), size)),
            ("queuecore", lambda part: queuecore_pass(part.dataset().batch(batch), size)),
            (
                f"queuecore, shuffled ({window:,})",
                lambda part: queuecore_pass(part.dataset().shuffle(window, seed=SEED).batch(batch), size),
            ),
        ],
        parts,
        rounds,
    )
    print(
        f"{source.record_count:,} records of {size:,} bytes "
        f"({source.nbytes / 1e6:.1f} MB, {counted(len(names), 'file')}, warm), "
        f"batches of {batch} split into label and image"
    )
    print(
        f"{counted(rounds, 'round')} in turns, of {counted(len(parts[0].paths), 'file')} each, medians, "
        f"{counted(cores(), 'core')} ({cpu_model()}):"
    )
    print_table(compared.rows)
    if compared.note:
        print(compared.note)
    memory = available_memory()
    if memory is not None and source.nbytes > memory // 2:
        print("note: the files may not fit in the page cache; these figures may be the disk's")
