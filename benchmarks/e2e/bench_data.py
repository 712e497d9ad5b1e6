"""The transformations of `queuecore.data`, each in a small pipeline, beside the same pipeline in tf.data.

All runs are restricted to two cores; both sides use their defaults, and AUTOTUNE where tf.data takes one. A pass is
timed from making the iterator to the end of the data, and its rows are counted. There are rows for ten milliseconds and
more, so that the rate is that of the transformation; the start of an iterator is bench_start's. Ratios are of the same
round. Without TensorFlow only our own rates are measured.

The target is 3 times tf.data's rate; for the pipeline of the TFRecord tutorial (interleave, shuffle, parse, batch,
prefetch; raw images) 8 times, and with JPEGs, where both sides spend their time in the same codec, 1.2 times.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_records  # noqa: E402
import harness  # noqa: E402
from passes import consume, whole_pass  # noqa: E402

# Name, our dataset, a function from TensorFlow to its own, rows of a pass, target.
Pipeline = tuple[str, Any, Callable[[Any], Any], int, float]


def numbers(count: int) -> list[Pipeline]:
    """Return pipelines over numbers and arrays in memory."""
    import numpy as np

    import queuecore as qc
    from queuecore.data import AUTOTUNE, Dataset

    few = count // 10
    array = np.random.default_rng(1).normal(size=(few, 32)).astype(np.float32)
    splits = np.concatenate([[0], np.cumsum(np.random.default_rng(2).integers(1, 30, few))])
    ragged = qc.Ragged(np.arange(splits[-1], dtype=np.float32), splits)

    def counted(x: Any) -> Any:
        return np.count_nonzero(x) + x

    return [
        (
            "from_tensor_slices, batch",
            Dataset.from_tensor_slices(array).batch(128),
            lambda tf: tf.data.Dataset.from_tensor_slices(array).batch(128),
            few,
            3,
        ),
        (
            "range, map, batch",
            Dataset.range(count).map(lambda x: x * 2 + 1, num_parallel_calls=AUTOTUNE).batch(1024),
            lambda tf: (
                tf.data.Dataset.range(count).map(lambda x: x * 2 + 1, num_parallel_calls=tf.data.AUTOTUNE).batch(1024)
            ),
            count,
            3,
        ),
        (
            "range, batch, map",
            Dataset.range(count).batch(1024).map(lambda x: x * 2 + 1, num_parallel_calls=AUTOTUNE),
            lambda tf: (
                tf.data.Dataset.range(count).batch(1024).map(lambda x: x * 2 + 1, num_parallel_calls=tf.data.AUTOTUNE)
            ),
            count,
            3,
        ),
        (
            "range, filter, batch",
            Dataset.range(count).filter(lambda x: x % 3 == 0).batch(1024),
            lambda tf: tf.data.Dataset.range(count).filter(lambda x: x % 3 == 0).batch(1024),
            -(-count // 3),
            3,
        ),
        (
            "range, shuffle, batch",
            Dataset.range(count).shuffle(10_000, seed=1).batch(1024),
            lambda tf: tf.data.Dataset.range(count).shuffle(10_000, seed=1).batch(1024),
            count,
            3,
        ),
        (
            "zip, enumerate, batch",
            Dataset.zip((Dataset.range(few), Dataset.from_tensor_slices(array))).enumerate().batch(128),
            lambda tf: (
                tf.data.Dataset.zip((tf.data.Dataset.range(few), tf.data.Dataset.from_tensor_slices(array)))
                .enumerate()
                .batch(128)
            ),
            few,
            3,
        ),
        (
            "concatenate, take, skip, repeat, batch",
            Dataset.range(few).concatenate(Dataset.range(few)).skip(10).take(few).repeat(5).batch(128),
            lambda tf: (
                tf.data.Dataset.range(few)
                .concatenate(tf.data.Dataset.range(few))
                .skip(10)
                .take(few)
                .repeat(5)
                .batch(128)
            ),
            5 * few,
            3,
        ),
        (
            "unbatch, batch",
            Dataset.from_tensor_slices(array).batch(100).unbatch().batch(128),
            lambda tf: tf.data.Dataset.from_tensor_slices(array).batch(100).unbatch().batch(128),
            few,
            3,
        ),
        (
            "interleave of ranges, batch",
            Dataset.range(100)
            .interleave(lambda x: Dataset.range(few // 100), cycle_length=4, block_length=16)
            .batch(128),
            lambda tf: (
                tf.data.Dataset.range(100)
                .interleave(lambda x: tf.data.Dataset.range(few // 100), cycle_length=4, block_length=16)
                .batch(128)
            ),
            few,
            3,
        ),
        (
            "padded_batch",
            Dataset.from_tensor_slices(ragged).padded_batch(64),
            lambda tf: (
                tf.data.Dataset.from_tensor_slices(tf.RaggedTensor.from_row_splits(ragged.values, ragged.row_splits))
                .map(lambda row: row)
                .padded_batch(64)
            ),
            few,
            3,
        ),
        (
            "window, flat_map(batch), map, shuffle, batch",
            Dataset.range(few)
            .window(6, shift=1, drop_remainder=True)
            .flat_map(lambda window: window.batch(6))
            .map(lambda part: (part[:-1], part[-1:]))
            .shuffle(1000, seed=1)
            .batch(32),
            lambda tf: (
                tf.data.Dataset.range(few)
                .window(6, shift=1, drop_remainder=True)
                .flat_map(lambda window: window.batch(6))
                .map(lambda part: (part[:-1], part[-1:]))
                .shuffle(1000, seed=1)
                .batch(32)
            ),
            few - 5,
            3,
        ),
        (
            "flat_map(from_tensor_slices), batch",
            Dataset.from_tensor_slices(array).flat_map(Dataset.from_tensor_slices).batch(128),
            lambda tf: (
                tf.data.Dataset.from_tensor_slices(array).flat_map(tf.data.Dataset.from_tensor_slices).batch(128)
            ),
            few * 32,
            3,
        ),
        (
            "sample_from_datasets, batch",
            Dataset.sample_from_datasets([Dataset.range(few).repeat()] * 2, [0.3, 0.7], seed=1).take(few).batch(128),
            lambda tf: (
                tf.data.Dataset.sample_from_datasets([tf.data.Dataset.range(few).repeat()] * 2, [0.3, 0.7], seed=1)
                .take(few)
                .batch(128)
            ),
            few,
            3,
        ),
        (
            "bucket_by_sequence_length",
            Dataset.from_tensor_slices(ragged).bucket_by_sequence_length(lambda row: row.shape[0], [10, 20], [64] * 3),
            lambda tf: (
                tf.data.Dataset.from_tensor_slices(tf.RaggedTensor.from_row_splits(ragged.values, ragged.row_splits))
                .map(lambda row: row)
                .bucket_by_sequence_length(lambda row: tf.shape(row)[0], [10, 20], [64] * 3)
            ),
            few,
            3,
        ),
        (
            "rebatch",
            Dataset.from_tensor_slices(array).batch(100).rebatch(32),
            lambda tf: tf.data.Dataset.from_tensor_slices(array).batch(100).rebatch(32),
            few,
            3,
        ),
        (
            "take_while, batch",
            Dataset.range(2 * few).take_while(lambda x: x < few).batch(128),
            lambda tf: tf.data.Dataset.range(2 * few).take_while(lambda x: x < few).batch(128),
            few,
            3,
        ),
        (
            "cache, second pass",
            Dataset.from_tensor_slices(array).map(lambda x: x + 1).cache().batch(128),
            lambda tf: tf.data.Dataset.from_tensor_slices(array).map(lambda x: x + 1).cache().batch(128),
            few,
            3,
        ),
        (
            "from_generator, batch",
            Dataset.from_generator(lambda: iter(range(few)), output_types=np.int64).batch(128),
            lambda tf: tf.data.Dataset.from_generator(
                lambda: iter(range(few)), output_signature=tf.TensorSpec((), tf.int64)
            ).batch(128),
            few,
            3,
        ),
        (
            "map of a Python function, batch",
            Dataset.range(few).map(counted).batch(128),
            lambda tf: tf.data.Dataset.range(few).map(lambda x: tf.numpy_function(counted, [x], tf.int64)).batch(128),
            few,
            3,
        ),
    ]


def records(folder: Path, files: int) -> list[Pipeline]:
    """Return pipelines over files: the tutorial's own, text, and fixed-length records."""
    import numpy as np

    import queuecore as qc
    from queuecore.data import AUTOTUNE, Dataset

    names, _ = bench_records.write_examples(folder, files, 2_000)
    pattern = str(folder / "examples-*.tfrecord")
    features = {"image": qc.ops.FixedLenFeature((), bytes), "label": qc.ops.FixedLenFeature((), np.int64)}

    def parse(record: Any) -> Any:
        example = qc.ops.parse_single_example(record, features)
        image = qc.ops.decode_raw(example["image"], np.uint8, fixed_length=3072)
        return qc.ops.reshape(image, (32, 32, 3)), example["label"]

    ours = (
        Dataset.list_files(pattern, shuffle=False)
        .interleave(qc.data.TFRecordDataset, cycle_length=4, block_length=1, num_parallel_calls=4)
        .shuffle(2_000, seed=1)
        .map(parse, num_parallel_calls=AUTOTUNE)
        .batch(128)
        .prefetch(2)
    )

    def theirs(tf: Any) -> Any:
        wanted = {"image": tf.io.FixedLenFeature((), tf.string), "label": tf.io.FixedLenFeature((), tf.int64)}

        def parse(record: Any) -> Any:
            one = tf.io.parse_single_example(record, wanted)
            return tf.reshape(tf.io.decode_raw(one["image"], tf.uint8), (32, 32, 3)), one["label"]

        return (
            tf.data.Dataset.list_files(pattern, shuffle=False)
            .interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=1, num_parallel_calls=4)
            .shuffle(2_000, seed=1)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(128)
            .prefetch(2)
        )

    pipelines: list[Pipeline] = [
        ("TFRecord, interleave, shuffle, parse, batch, prefetch", ours, theirs, 2_000 * files, 8)
    ]

    text = folder / "numbers.csv"
    rows = 20_000 * files
    np.savetxt(text, np.random.default_rng(3).normal(size=(rows, 4)), fmt="%.4f", delimiter=",")
    pipelines.append(
        (
            "lines, map(decode_csv), batch",
            qc.data.TextLineDataset(str(text))
            .map(lambda line: tuple(qc.ops.decode_csv(line, [np.float32] * 4)))
            .batch(256),
            lambda tf: (
                tf.data.TextLineDataset(str(text))
                .map(lambda line: tuple(tf.io.decode_csv(line, [0.0] * 4)), num_parallel_calls=tf.data.AUTOTUNE)
                .batch(256)
            ),
            rows,
            3,
        )
    )
    fixed = harness.write_files(folder, files, 2_000, 3073)
    pipelines.append(
        (
            "fixed-length records, shuffle, map(decode_raw), batch",
            qc.data.FixedLengthRecordDataset(fixed, 3073)
            .shuffle(2_000, seed=1)
            .map(lambda row: (row[1:] / np.float32(255), row[0]))
            .batch(128),
            lambda tf: (
                tf.data.FixedLengthRecordDataset(fixed, 3073)
                .shuffle(2_000, seed=1)
                .map(
                    lambda record: (
                        tf.cast(tf.io.decode_raw(record, tf.uint8)[1:], tf.float32) / 255,
                        tf.io.decode_raw(record, tf.uint8)[0],
                    ),
                    num_parallel_calls=tf.data.AUTOTUNE,
                )
                .batch(128)
            ),
            2_000 * files,
            3,
        )
    )
    return pipelines


def pictures(folder: Path, count: int) -> list[Pipeline]:
    """Return the pipeline over JPEGs."""
    import numpy as np
    from PIL import Image

    import queuecore as qc
    from queuecore.data import AUTOTUNE

    state = np.random.default_rng(4)
    name = str(folder / "pictures.tfrecord")
    with qc.TFRecordWriter(name) as writer:
        for _ in range(count):
            smooth = np.kron(state.integers(0, 255, (14, 14, 3), np.uint8), np.ones((16, 16, 1), np.uint8))
            buffer = io.BytesIO()
            Image.fromarray(smooth).save(buffer, "JPEG", quality=90)
            writer.write(buffer.getvalue())
    harness.reread_files([name])
    return [
        (
            "TFRecord of JPEGs, decode, batch",
            qc.data.TFRecordDataset(name)
            .map(lambda record: qc.ops.reshape(qc.ops.decode_jpeg(record, channels=3), (224, 224, 3)), AUTOTUNE)
            .batch(32),
            lambda tf: (
                tf.data.TFRecordDataset(name)
                .map(lambda record: tf.reshape(tf.io.decode_jpeg(record, channels=3), (224, 224, 3)), tf.data.AUTOTUNE)
                .batch(32)
            ),
            count,
            1.2,
        )
    ]


def measure(pipelines: list[Pipeline], tf: Any, rounds: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Time both sides of each pipeline in turns; return the findings and the raw runs."""
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    for title, ours, make, rows, target in pipelines:

        def timed(run: Callable[[], tuple[int, float]], rows: int = rows) -> float:
            got, seconds = run()
            if got != rows:
                raise AssertionError(f"{got} rows instead of {rows}")
            return rows / seconds / 1e6

        contenders = [("queuecore", lambda ours=ours, timed=timed: timed(lambda: whole_pass(ours)))]
        if tf is not None:
            theirs = make(tf)
            contenders.append(
                ("tf.data", lambda theirs=theirs, timed=timed: timed(lambda: consume(theirs.as_numpy_iterator())))
            )
        print(f"  {title}", file=sys.stderr, flush=True)
        runs = raw[title] = harness.rotate(contenders, rounds)
        findings += [harness.finding(f"{title}: {name}", "M rows/s", some) for name, some in runs.items()]
        if tf is not None:
            ratios = [mine / other for mine, other in zip(runs["queuecore"], runs["tf.data"], strict=True)]
            findings.append(harness.finding(f"{title}: over tf.data", "x", ratios, at_least=target))
    return findings, raw


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    absences: dict[str, str] = {}
    tf = None
    if options.peers:
        try:
            import tensorflow as tf
        except ImportError as error:
            absences["tf.data"] = str(error)
    rounds, count, files, jpegs = (3, 1_000_000, 2, 100) if options.quick else (7, 2_000_000, 10, 3_000)
    with harness.scratch(options) as folder:
        pipelines = numbers(count) + records(folder, files)
        try:
            pipelines += pictures(folder, jpegs)
        except ImportError as error:
            absences["JPEGs"] = str(error)
        findings, raw = measure(pipelines, tf, rounds)
    return harness.report(
        "data",
        "transformations of queuecore.data beside tf.data, on two cores",
        findings,
        raw,
        parameters={"rows": count, "files": files, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
