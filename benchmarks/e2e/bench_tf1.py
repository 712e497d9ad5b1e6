"""TF1 input programs, the same text on `queuecore.tf1` and, where it is installed, on TensorFlow itself.

- The CIFAR-10 reader: records of 3,073 bytes are read, cut into label and picture, transposed, and put together to
  batches of 128 by `tf.train.batch`, one reader thread; record by record, and 128 at a time by ``read_up_to``.
- TFRecords with raw pictures through `tf.data`: interleave, shuffle, parse, batch, prefetch.
- A queue of 50 that four threads fill by ``enqueue_many`` of 1,000 examples, taken out one by one.

Runs of both sides take turns. The floor is one thread that reads the CIFAR-10 files with `preadv` into one reused
buffer of a batch, right before and right after each run of ours.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_records  # noqa: E402
import harness  # noqa: E402

RECORD, BATCH = 3073, 128


def timed(tf: Any, fetch: Any, count: int, warm_up: int) -> float:
    """Run a fetch so many times in a session whose queues are filled, and return the seconds that took."""
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        for _ in range(warm_up):
            sess.run(fetch)
        begun = time.perf_counter()
        for _ in range(count):
            sess.run(fetch)
        seconds = time.perf_counter() - begun
        coord.request_stop()
        with contextlib.suppress(tf.errors.CancelledError):  # of who was enqueuing: TensorFlow reports it
            coord.join(threads)
    return seconds


def cifar10(tf: Any, names: list[str], many: bool, batches: int) -> float:
    """Return records a second out of the CIFAR-10 reader."""
    with tf.Graph().as_default():
        queue = tf.train.string_input_producer(names, shuffle=False)
        reader = tf.FixedLengthRecordReader(record_bytes=RECORD)
        _, value = reader.read_up_to(queue, BATCH) if many else reader.read(queue)
        record = tf.decode_raw(value, tf.uint8)
        if many:
            record = tf.reshape(record, [-1, RECORD])
            label = tf.cast(record[:, 0:1], tf.int32)
            image = tf.transpose(tf.reshape(record[:, 1:RECORD], [-1, 3, 32, 32]), [0, 2, 3, 1])
        else:
            label = tf.cast(tf.slice(record, [0], [1]), tf.int32)
            label.set_shape([1])
            image = tf.transpose(tf.reshape(tf.slice(record, [1], [RECORD - 1]), [3, 32, 32]), [1, 2, 0])
        fetch = tf.train.batch([image, label], BATCH, capacity=2_000, enqueue_many=many)
        return BATCH * batches / timed(tf, fetch, batches, 2 + 2_000 // BATCH)


def pictures(tf: Any, pattern: str, rows: int) -> float:
    """Return examples a second out of the tutorials' `tf.data` pipeline."""
    features = {"image": tf.FixedLenFeature((), tf.string), "label": tf.FixedLenFeature((), tf.int64)}

    def parse(example: Any) -> Any:
        one = tf.parse_single_example(example, features)
        return tf.reshape(tf.decode_raw(one["image"], tf.uint8), (32, 32, 3)), one["label"]

    with tf.Graph().as_default():
        dataset = tf.data.Dataset.list_files(pattern, shuffle=False)
        dataset = dataset.interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=1)
        dataset = dataset.shuffle(2_000, seed=1).map(parse, num_parallel_calls=4).batch(BATCH).prefetch(2)
        fetch = tf.data.make_one_shot_iterator(dataset).get_next()
        with tf.Session() as sess:
            count = 0
            begun = time.perf_counter()
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    count += len(sess.run(fetch)[1])
            seconds = time.perf_counter() - begun
    if count != rows:
        raise AssertionError(f"{count} rows instead of {rows}")
    return rows / seconds


def filled(tf: Any, count: int) -> float:
    """Return elements a second out of the queue of 50."""
    import numpy as np

    with tf.Graph().as_default():
        data = np.random.default_rng(0).standard_normal((1000, 4)).astype(np.float32)
        target = np.random.default_rng(1).integers(0, 2, 1000).astype(np.int32)
        queue = tf.FIFOQueue(capacity=50, dtypes=[tf.float32, tf.int32], shapes=[[4], []])
        enqueue = queue.enqueue_many([data, target])
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue] * 4))
        return count / timed(tf, queue.dequeue(), count, 50)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import queuecore.tf1

    absences: dict[str, str] = {}
    theirs: Any = None
    if options.peers:
        try:
            import tensorflow.compat.v1 as theirs

            theirs.disable_v2_behavior()
            theirs.logging.set_verbosity(theirs.logging.ERROR)
        except ImportError as error:
            absences["TensorFlow"] = str(error)
    rounds, files, batches, count = (3, 2, 100, 2_000) if options.quick else (9, 10, 3_000, 40_000)
    yardstick = harness.native()
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    with harness.scratch(options) as folder:
        names = harness.write_files(folder, files, 5_000, RECORD)
        bench_records.write_examples(folder, files, 2_000)
        total = 2_000 * files
        pattern = str(folder / "examples-*.tfrecord")

        def floor() -> float:
            nbytes, elapsed = yardstick.floor_pass(names, BATCH * RECORD)
            return nbytes / elapsed * 1e9 / RECORD

        # name, the program of (tf, how much less of it), target over TensorFlow, target of the floor
        programs: list[tuple[str, Callable[[Any, int], float], float, float | None]] = [
            (
                "CIFAR-10, record by record",
                lambda tf, less: cifar10(tf, names, False, batches // less),
                40,
                0.3,
            ),
            ("CIFAR-10, read_up_to", lambda tf, less: cifar10(tf, names, True, batches // less), 4, None),
            ("TFRecord, interleave, shuffle, parse, batch", lambda tf, _: pictures(tf, pattern, total), 8, None),
            ("queue of 50, filled by four threads", lambda tf, less: filled(tf, count // less), 10, None),
        ]
        for title, program, over, of_floor in programs:

            def ours(program: Callable[[Any, int], float] = program) -> tuple[float, float]:
                before = floor()
                rate = program(queuecore.tf1, 1)
                return rate, rate / ((before + floor()) / 2)

            contenders: list[tuple[str, Callable[[], Any]]] = [("queuecore", ours)]
            if theirs is not None:
                contenders.append(("TensorFlow", lambda program=program: program(theirs, 20)))
            print(f"  {title}", file=sys.stderr, flush=True)
            runs = raw[title] = harness.rotate(contenders, rounds)
            rates = [rate for rate, _ in runs["queuecore"]]
            findings.append(harness.finding(f"{title}: queuecore", "k/s", [rate / 1e3 for rate in rates]))
            if of_floor is not None:
                shares = [share for _, share in runs["queuecore"]]
                findings.append(harness.finding(f"{title}: of the floor", "x", shares, at_least=of_floor))
            if theirs is not None:
                other = runs["TensorFlow"]
                findings.append(harness.finding(f"{title}: TensorFlow", "k/s", [rate / 1e3 for rate in other]))
                ratios = [mine / rate for mine, rate in zip(rates, other, strict=True)]
                findings.append(harness.finding(f"{title}: over TensorFlow", "x", ratios, at_least=over))
    return harness.report(
        "tf1",
        "TF1 input programs beside TensorFlow, on two cores",
        findings,
        raw,
        parameters={"files": files, "batches": batches, "elements": count, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
