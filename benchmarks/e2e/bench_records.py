"""TFRecords of Examples, CSV and lines, from warm files into batches, end to end.

Inputs: 200,000 Examples (3,072 bytes and an int64) in 20 TFRecord files, batch 128; 1,000,000 rows of ten numbers with
four decimals in one CSV file, batch 4,096; 4,000,000 lines of 20 to 80 bytes in 4 files, batch 4,096, plain and as
GZIP. All runs are restricted to two cores. "default" is one worker there, and a consumer that helps.

TFRecords are compared with the floor, one thread that reads the same files with `preadv` into one reused buffer of a
batch, taken right before and right after every single run. CSV is compared with pyarrow's reader on one thread, lines
with Python's own iteration over the file, and compressed lines with one call of the inflate library over each whole
file in memory: all in the same round.

A pass is timed from ``iter()`` to the end of the data, threads joined.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import Group, consume, whole_pass  # noqa: E402

Rates = dict[str, Callable[[], float]]


def varint(number: int) -> bytes:
    """Return a number as protocol buffers have it."""
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def field(number: int, data: bytes) -> bytes:
    """Return a field of bytes, or of a message."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def example(image: bytes, label: int) -> bytes:
    """Return a serialized tf.train.Example."""
    parts = [
        field(1, b"image") + field(2, field(1, field(1, image))),
        field(1, b"label") + field(2, field(3, field(1, varint(label)))),
    ]
    return field(1, b"".join(field(1, part) for part in parts))


def write_examples(folder: Path, files: int, per_file: int) -> tuple[list[str], int]:
    """Write TFRecord files; return their names and the bytes of one record with its frame."""
    import numpy as np

    import queuecore as qc

    state = np.random.default_rng(1)
    names = []
    for index in range(files):
        names.append(str(folder / f"examples-{index:03}.tfrecord"))
        with qc.TFRecordWriter(names[-1]) as writer:
            for number in range(per_file):
                writer.write(example(state.bytes(3072), number % 10))
    harness.reread_files(names)
    return names, os.path.getsize(names[0]) // per_file


def examples(group: Group, names: list[str], peers: bool) -> None:
    """Add the ways to get batches of the Examples."""
    import numpy as np

    import queuecore as qc

    features = {"image": qc.ops.FixedLenFeature((), bytes), "label": qc.ops.FixedLenFeature((), np.int64)}
    parse = qc.ops.parse_single_example(features=features)
    dense = qc.ops.compose(parse, qc.ops.on("image", qc.ops.decode_raw(out_type=np.uint8, fixed_length=3072)))
    for label, stage in (("strings", parse), ("pixels", dense)):
        for threads, name, target in ((1, "1 thread", 0.40), (None, "default", 0.75)):
            ds = qc.data.TFRecordDataset(names).map(stage).batch(128)
            ds = ds.with_options(qc.data.Options(num_threads=threads))
            group.add(f"queuecore {name}, {label}", lambda ds=ds: whole_pass(ds), target)

    def tf_peer(tf: Any) -> Callable[[], Any]:
        wanted = {"image": tf.io.FixedLenFeature((), tf.string), "label": tf.io.FixedLenFeature((), tf.int64)}
        ds = tf.data.TFRecordDataset(names[:2]).batch(128)
        ds = ds.map(lambda batch: tf.io.parse_example(batch, wanted), num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.map(lambda one: {"image": tf.io.decode_raw(one["image"], tf.uint8), "label": one["label"]}).prefetch(4)
        return lambda: consume(ds.as_numpy_iterator())

    if peers:
        group.add_peer("tf.data", "tensorflow", tf_peer)


def compare(
    title: str, unit: str, rates: Rates, base: str, targets: dict[str, float], rounds: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run everything in turns; return rates, and their ratios to `base` in the same round."""
    raw = harness.rotate(list(rates.items()), rounds)
    findings = [harness.finding(f"{title}: {name}", unit, runs) for name, runs in raw.items()]
    for name, runs in raw.items():
        if base in raw and name != base:
            ratios = [mine / other for mine, other in zip(runs, raw[base], strict=True)]
            findings.append(harness.finding(f"{title}: {name} over {base}", "x", ratios, at_least=targets.get(name)))
    return findings, raw


def rate(dataset: Any, rows: int, scale: float) -> Callable[[], float]:
    """Return a function that times a pass, in `scale` rows a second."""

    def run() -> float:
        got, seconds = whole_pass(dataset)
        if got != rows:
            raise AssertionError(f"{got} rows instead of {rows}")
        return rows / seconds / scale

    return run


def csv_rates(name: str, rows: int, peers: bool, absences: dict[str, str]) -> Rates:
    """Return the ways to read the CSV file."""
    import numpy as np

    import queuecore as qc

    rates: Rates = {}
    for threads, label in ((1, "queuecore 1 thread"), (None, "queuecore default")):
        ds = qc.data.CsvDataset(name, [np.float32] * 10).batch(4096)
        rates[label] = rate(ds.with_options(qc.data.Options(num_threads=threads)), rows, 1e6)
    first = next(iter(qc.data.CsvDataset(name, [np.float32] * 10).batch(1000)))
    with open(name, "rb") as file:
        want = np.array([[float(number) for number in line.split(b",")] for line in file.readlines(80_000)[:1000]])
    if not np.array_equal(np.stack(first, 1)[: len(want)], want.astype(np.float32)):
        raise AssertionError("the values differ from Python's")
    if not peers:
        return rates
    try:
        import pyarrow
        from pyarrow import csv
    except ImportError as error:
        absences["pyarrow"] = str(error)
        return rates
    names = [str(index) for index in range(10)]

    def arrow() -> float:
        begun = time.perf_counter()
        table = csv.read_csv(
            name,
            csv.ReadOptions(use_threads=False, column_names=names),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.float32())),
        )
        seconds = time.perf_counter() - begun
        if table.num_rows != rows:
            raise AssertionError("pyarrow read another number of rows")
        return rows / seconds / 1e6

    rates["pyarrow 1 thread"] = arrow
    return rates


def line_rates(names: list[str], rows: int) -> Rates:
    """Return the ways to read the lines."""
    import queuecore as qc

    rates: Rates = {}
    for threads, label in ((1, "queuecore 1 thread"), (None, "queuecore default")):
        ds = qc.data.TextLineDataset(names).batch(4096).with_options(qc.data.Options(num_threads=threads))
        rates[label] = rate(ds, rows, 1e6)
    with open(names[0], "rb") as file:
        want = [line.removesuffix(b"\n") for line in file.readlines(80_000)[:1000]]
    if next(iter(qc.data.TextLineDataset(names).batch(len(want)))).to_list() != want:
        raise AssertionError("the lines differ from Python's")

    def python() -> float:
        count = 0
        begun = time.perf_counter()
        for name in names:
            with open(name, "rb") as file:
                for _ in file:
                    count += 1
        return count / (time.perf_counter() - begun) / 1e6

    rates["Python's iteration"] = python
    return rates


def gzip_rates(names: list[str], rows: int, nbytes: int, absences: dict[str, str]) -> Rates:
    """Return the ways to read the compressed lines, in MB of text a second."""
    import queuecore as qc
    from queuecore._core.io.codecs import library

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from bench_compressed import whole

    rates: Rates = {}
    for threads, label in ((1, "queuecore 1 thread"), (None, "queuecore default")):
        ds = qc.data.TextLineDataset(names, "GZIP").batch(4096).with_options(qc.data.Options(num_threads=threads))
        rates[label] = rate(ds, rows, rows * 1e6 / nbytes)
    kind = library(1)
    packed = [Path(name).read_bytes() for name in names]
    calls = [whole("libisal" if "isal" in str(kind) else "libz", data, len(gzip.decompress(data))) for data in packed]

    def alone() -> float:
        begun = time.perf_counter()
        for call in calls:
            call()
        return nbytes / (time.perf_counter() - begun) / 1e6

    rates["the library alone"] = alone
    absences["the inflate library"] = f"compared with {kind}"
    return rates


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    import numpy as np

    files, rounds = (2, 3) if options.quick else (20, 15)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    absences: dict[str, str] = {}
    state = np.random.default_rng(1)

    def add(title: str, some: tuple[list[dict[str, Any]], dict[str, Any]]) -> None:
        findings.extend(some[0])
        raw[title] = some[1]

    with harness.scratch(options) as folder:
        names, record_bytes = write_examples(folder, files, 10_000)
        group = Group("TFRecord + Example, batch 128", names, record_bytes, 128)
        examples(group, names, options.peers)
        add(group.title, group.measure(rounds))
        absences.update(group.absences)

    with harness.scratch(options) as folder:
        rows = 50_000 * files
        name = str(folder / "numbers.csv")
        np.savetxt(name, state.normal(size=(rows, 10)) * 100, fmt="%.4f", delimiter=",")
        harness.reread_files([name])
        title = "CSV, 10 numbers a row"
        rates = csv_rates(name, rows, options.peers, absences)
        targets = {"queuecore 1 thread": 2.5, "queuecore default": 4.0}
        add(title, compare(title, "M rows/s", rates, "pyarrow 1 thread", targets, rounds))

    with harness.scratch(options) as folder:
        each = 50_000 * files
        names = [str(folder / f"{index}.txt") for index in range(4)]
        texts = []
        for name in names:
            lengths = state.integers(20, 80, each)
            letters = state.integers(97, 123, int(lengths.sum()) + each, dtype=np.uint8)
            letters[np.cumsum(lengths + 1) - 1] = 10
            texts.append(letters.tobytes())
            Path(name).write_bytes(texts[-1])
        harness.reread_files(names)
        title = "lines of 20 to 80 bytes"
        targets = {"queuecore 1 thread": 4.0, "queuecore default": 6.0}
        add(title, compare(title, "M lines/s", line_rates(names, 4 * each), "Python's iteration", targets, rounds))
        packed = []
        for name, text in zip(names, texts, strict=True):
            packed.append(name + ".gz")
            Path(packed[-1]).write_bytes(gzip.compress(text, 6))
        harness.reread_files(packed)
        title = "lines, GZIP"
        rates = gzip_rates(packed, 4 * each, sum(map(len, texts)), absences)
        targets = {"queuecore default": 0.9}
        add(title, compare(title, "MB/s", rates, "the library alone", targets, min(rounds, 7)))

    return harness.report(
        "records",
        "TFRecords, CSV and lines into batches, on two cores",
        findings,
        raw,
        parameters={"files": files, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
