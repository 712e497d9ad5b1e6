"""What native steps cost for each row, beside NumPy on whole batches in the loop.

Batches of 256, one native thread. A figure is the CPU time of the whole process beyond that of the same stream without
the step, in the same round: a step's cost is what it adds. NumPy's is that of a loop that does the same to each whole
batch, and tf.data's that of a map behind its batch, if TensorFlow is installed. The loop in C converts and scales the
same bytes, and writes into four arrays in turn, of a batch each.

All runs are restricted to one core, where a consumer that waits sleeps. With a core of its own it spins for a while,
and the CPU time of the process would have each step twice.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402

BATCH = 256
WIDTHS = (1, 8, 64, 256, 3072)


def spent(dataset: Any, batches: int, function: Callable[[Any], Any] | None = None) -> float:
    """Take batches, and hand each to a function; return the process's CPU time in nanoseconds for each row."""
    from queuecore.data import Options

    with iter(dataset.with_options(Options(num_threads=1))) as elements:
        return taken(elements, batches, function)


def taken(elements: Iterator[Any], batches: int, function: Callable[[Any], Any] | None = None) -> float:
    """Do as `spent` for an iterator. The first batches, when a thread runs ahead, don't count."""
    for _ in range(batches // 4):
        next(elements)
    begun = time.process_time_ns()
    if function is None:
        for _ in range(batches):
            next(elements)
    else:
        for _ in range(batches):
            function(next(elements))
    return (time.process_time_ns() - begun) / batches / BATCH


class Steps:
    """Measures what steps add to a stream, and adds findings to a result."""

    def __init__(self, rounds: int, rows: int) -> None:
        self.rounds, self.rows = rounds, rows
        self.fewest = 20 * rounds  # batches
        self.findings: list[dict[str, Any]] = []
        self.raw: dict[str, Any] = {}

    def compare(
        self, name: str, stream: Any, others: dict[str, Callable[[int], float]], row_bytes: int
    ) -> dict[str, list[float]]:
        """Measure a stream of rows of so many bytes, and others that do more; return what these add, by rounds."""
        batches = max(self.rows // BATCH // max(row_bytes // 64, 1), self.fewest)
        contenders = [("stream", lambda: spent(stream, batches))]
        contenders += [(other, lambda run=run: run(batches)) for other, run in others.items()]
        print(f"  {name}", file=sys.stderr, flush=True)
        runs = self.raw[name] = harness.rotate(contenders, self.rounds)
        self.findings.append(harness.finding(f"{name}: the stream", "ns", runs["stream"]))
        return {
            other: [more - less for more, less in zip(runs[other], runs["stream"], strict=True)] for other in others
        }

    def at_most(self, name: str, stream: Any, made: Any, most: float, row_bytes: int = 8) -> list[float]:
        """Measure one step, whose cost has a limit."""
        added = self.compare(name, stream, {"step": lambda batches: spent(made, batches)}, row_bytes)["step"]
        self.findings.append(harness.finding(name, "ns", added, at_most=most))
        return added


def steps_on_numbers(steps: Steps, folder: Path) -> None:
    """Structure, arithmetic, filters, CSV and strings of bytes."""
    import numpy as np

    from queuecore import ops
    from queuecore.data import CsvDataset, FixedLengthRecordDataset, TFRecordDataset
    from queuecore.writers import TFRecordWriter

    rows = 1 << 16
    pairs = np.zeros(rows, [("x", "f4"), ("n", "i4")])
    pairs["x"] = pairs["n"] = np.arange(rows)
    pairs.tofile(folder / "pairs")
    records = FixedLengthRecordDataset(str(folder / "pairs"), record=pairs.dtype).repeat()
    two = records.batch(BATCH)
    steps.at_most("map to a tuple", two, records.map(lambda r: (r["n"], r["x"])).batch(BATCH), 1)
    steps.at_most("map to a dict", two, records.map(lambda r: {"a": r["n"], "b": r["x"]}).batch(BATCH), 1)
    steps.at_most("map to one field", two, records.map(lambda r: r["x"]).batch(BATCH), 1)
    numbers = records.map(lambda r: r["x"])
    floats = numbers.batch(BATCH)
    first = steps.at_most("one operation on a float32", floats, numbers.map(lambda x: x + 1).batch(BATCH), 3)
    five = steps.compare(
        "five operations on a float32",
        floats,
        {"step": lambda batches: spent(numbers.map(lambda x: ((x + 1) * 3 - 2) * 5 + 7).batch(BATCH), batches)},
        8,
    )["step"]
    each = [(many - lone) / 4 for many, lone in zip(five, first, strict=True)]
    steps.findings.append(harness.finding("each further operation", "ns", each, at_most=1))
    # A row that is kept comes of two that are looked at.
    half = steps.compare(
        "filter that keeps half",
        floats,
        {"step": lambda batches: spent(records.filter(lambda r: r["n"] % 2 == 0).batch(BATCH), batches) / 2},
        16,
    )["step"]
    steps.findings.append(harness.finding("filter that keeps half, a row looked at", "ns", half, at_most=8))
    (folder / "csv").write_text("".join(f"{i},{i / 7:.6f},{i % 13}\n" for i in range(rows)))
    table = CsvDataset(str(folder / "csv"), [np.int64, np.float32, np.int32]).repeat()
    doubled = table.map(lambda a, b, c: (a, b * 2, c))
    steps.at_most("one column of CSV changed", table.batch(BATCH), doubled.batch(BATCH), 5, 256)
    with TFRecordWriter(str(folder / "strings")) as writer:
        for i in range(rows):
            writer.write(struct.pack("<4f", i, i, i, i))
    strings = TFRecordDataset(str(folder / "strings")).repeat()
    decoded = strings.map(ops.decode_raw(out_type=np.float32))
    steps.at_most("decode_raw of 16 bytes", strings.batch(BATCH), decoded.batch(BATCH), 8, 32)


def steps_on_arrays(steps: Steps, folder: Path) -> None:
    """Arithmetic beside NumPy's, at several widths, and bytes of pictures to floats."""
    import numpy as np

    from queuecore.data import FixedLengthRecordDataset

    for width in WIDTHS:
        rows = max((1 << 20) // width, 2 * BATCH)
        name = str(folder / f"floats-{width}")
        np.arange(rows * width, dtype="f4").tofile(name)
        ds = FixedLengthRecordDataset(name, record=[("x", "f4", (width,))]).repeat()
        rows_of_floats = ds.batch(BATCH)
        added = steps.compare(
            f"x * 2 + 1, {width} wide",
            rows_of_floats,
            {
                "step": lambda batches, ds=ds: spent(ds.map(lambda r: r["x"] * 2 + 1).batch(BATCH), batches),
                "numpy": lambda batches, all=rows_of_floats: spent(all, batches, lambda r: r["x"] * 2 + 1),
            },
            4 * width,
        )
        for kind in ("step", "numpy"):
            steps.findings.append(harness.finding(f"x * 2 + 1, {width} wide: {kind}", "ns", added[kind]))
        ratios = [ours / theirs for ours, theirs in zip(added["step"], added["numpy"], strict=True)]
        steps.findings.append(harness.finding(f"x * 2 + 1, {width} wide, over NumPy", "x", ratios, at_most=0.5))
    nbytes = 3072
    name = str(folder / "pictures")
    np.random.default_rng(0).integers(0, 255, nbytes * 2 * BATCH, dtype=np.uint8).tofile(name)
    pictures = FixedLengthRecordDataset(name, record=[("x", "u1", (nbytes,))]).repeat()
    bench = harness.native()
    source = np.fromfile(name, np.uint8, nbytes * BATCH)
    targets = [np.zeros(nbytes * BATCH, np.float32) for _ in range(4)]

    def scaled(batches: int) -> float:
        begun = time.process_time_ns()
        for number in range(batches):
            bench.scale(source, targets[number % 4], 1 / 255)
        return (time.process_time_ns() - begun) / batches / BATCH

    divided = pictures.map(lambda r: r["x"].astype(np.float32) * np.float32(1 / 255))
    added = steps.compare(
        "uint8 to float32",
        pictures.batch(BATCH),
        {"step": lambda batches: spent(divided.batch(BATCH), batches)},
        nbytes,
    )["step"]
    loop = harness.rotate([("C", lambda: scaled(steps.fewest))], steps.rounds)["C"]
    steps.raw["a loop in C"] = loop
    steps.findings.append(harness.finding("uint8 to float32: step", "ns", added))
    steps.findings.append(harness.finding("uint8 to float32: a loop in C", "ns", loop))
    ratios = [ours / theirs for ours, theirs in zip(added, loop, strict=True)]
    steps.findings.append(harness.finding("uint8 to float32, over the loop in C", "x", ratios, at_most=1.1))


def steps_of_tensorflow(steps: Steps, folder: Path) -> None:
    """Arithmetic in tf.data, on the same files: a map behind the batch, with one thread too."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    for width in WIDTHS:
        batches = max(steps.rows // BATCH // max(4 * width // 64, 1), steps.fewest)
        stream = tf.data.FixedLengthRecordDataset(str(folder / f"floats-{width}"), 4 * width).repeat().batch(BATCH)
        stream = stream.map(lambda rows, width=width: tf.reshape(tf.io.decode_raw(rows, tf.float32), (BATCH, width)))
        more = stream.map(lambda rows: rows * 2 + 1)
        pair = {"less": stream.with_options(options), "more": more.with_options(options)}
        contenders = [(word, lambda ds=ds, batches=batches: taken(iter(ds), batches)) for word, ds in pair.items()]
        runs = steps.raw[f"x * 2 + 1, {width} wide, tf.data"] = harness.rotate(contenders, steps.rounds)
        added = [more - less for more, less in zip(runs["more"], runs["less"], strict=True)]
        steps.findings.append(harness.finding(f"x * 2 + 1, {width} wide: tf.data's map", "ns", added))


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    absences: dict[str, str] = {}
    rounds, rows = (2, 20_000) if options.quick else (11, 5_000_000)
    harness.pin_alone()
    steps = Steps(rounds, rows)
    with harness.scratch(options) as folder:
        steps_on_numbers(steps, folder)
        steps_on_arrays(steps, folder)
        if options.peers:
            try:
                steps_of_tensorflow(steps, folder)
            except ImportError as error:
                absences["tf.data"] = str(error)
    parameters = {"rounds": rounds, "rows": rows, "batch": BATCH, "threads": 1}
    title = "native steps, CPU nanoseconds a row beyond the stream itself"
    return harness.report("steps", title, steps.findings, steps.raw, parameters=parameters, absences=absences)


if __name__ == "__main__":
    harness.main(run)
