"""The advice of tf.data's performance guide: each pipeline with it and without it, ours and tf.data's.

A *step* of the consumer, slow reads and expensive functions are sleeps of known length, which take no processor, or
NumPy: so what is measured is how work overlaps, not how fast it is. All runs are restricted to two cores. Ratios, with
the advice over without it, are of the same round. Our side makes elements ahead and in parallel unasked, so where the
advice is to ask for that, following it must not cost anything (at least 0.9).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402

CORES = 2
# Seconds that a step of the consumer, an expensive function, and a read of a slow file take.
STEP = 0.002
EXPENSIVE = 0.002
READ = 0.004


def consume(dataset: Any, *, step: float = 0.0, at_once: int = 1) -> float:
    """Iterate, with a step after every so many elements; return elements a second."""
    count = 0
    begun = time.perf_counter()
    elements = iter(dataset.as_numpy_iterator())
    for _ in elements:
        count += 1
        if step and count % at_once == 0:
            time.sleep(step * at_once)
    return count / (time.perf_counter() - begun)


def slowly(x: Any) -> Any:
    """Take a while, without a processor."""
    time.sleep(EXPENSIVE)
    return x + 1


def slow_file(index: int) -> Any:
    """Yield the elements of a file, every third one late."""
    for number in range(8):
        time.sleep(READ * (4 if (index + number) % 3 == 0 else 1) / 2)
        yield index * 100 + number


class Ours:
    """The pipelines in queuecore.data."""

    def __init__(self) -> None:
        import queuecore as qc

        self.data = qc.data
        self.Dataset = qc.data.Dataset
        self.auto = qc.data.AUTOTUNE

    def python(self, ds: Any, function: Callable[[Any], Any], **options: Any) -> Any:
        """Map a function that runs in Python."""
        return ds.map(lambda x: function(x), **options)

    def slow_files(self, index: Any) -> Any:
        """Return the dataset of a slow file."""
        return self.Dataset.from_generator(lambda index=int(index): slow_file(index), output_types="i8")


class Theirs:
    """The pipelines in tf.data."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.data = tf.data.experimental
        self.Dataset = tf.data.Dataset
        self.auto = tf.data.AUTOTUNE

    def python(self, ds: Any, function: Callable[[Any], Any], **options: Any) -> Any:
        """Map a function that runs in Python."""
        spec = ds.element_spec
        return ds.map(
            lambda x: self.tf.ensure_shape(self.tf.numpy_function(function, [x], spec.dtype), spec.shape), **options
        )

    def slow_files(self, index: Any) -> Any:
        """Return the dataset of a slow file."""
        return self.Dataset.from_generator(
            lambda index: slow_file(int(index)), args=(index,), output_signature=self.tf.TensorSpec((), self.tf.int64)
        )


Pair = tuple[str, Callable[[], float], Callable[[], float], float]


def pairs(side: Any, count: int) -> list[Pair]:
    """Return, for each piece of advice, what it is, without it, with it, and what it must bring on our side."""
    import numpy as np

    dataset, auto = side.Dataset, side.auto
    few = dataset.range(count)
    batches = side.python(few, slowly)
    array = np.random.default_rng(1).normal(size=(count * 100, 64)).astype(np.float32)
    rows = dataset.from_tensor_slices(array)
    large = dataset.from_tensor_slices(array[:, :32])
    files = dataset.range(8)

    def scaled(x: Any) -> Any:
        return np.ascontiguousarray(x * np.float32(2) + np.float32(1))

    def larger(ds: Any) -> Any:
        return ds.map(lambda x: (x, x + 1, x + 2, x + 3), num_parallel_calls=auto)

    parallel = {"cycle_length": 4, "block_length": 1}
    interleaved = few.__class__.interleave
    slow = files.interleave(side.slow_files, **parallel)
    ahead = interleaved(files, side.slow_files, **parallel, num_parallel_calls=4)
    sloppy = interleaved(files, side.slow_files, **parallel, num_parallel_calls=4, deterministic=False)
    return [
        (
            "prefetch(1), a step a batch",
            lambda: consume(batches, step=STEP),
            lambda: consume(batches.prefetch(1), step=STEP),
            0.9,
        ),
        (
            "prefetch(4), a step every 4 batches",
            lambda: consume(batches, step=STEP, at_once=4),
            lambda: consume(batches.prefetch(4), step=STEP, at_once=4),
            0.9,
        ),
        (
            "map(num_parallel_calls=cores)",
            lambda: consume(side.python(few, slowly)),
            lambda: consume(side.python(few, slowly, num_parallel_calls=CORES)),
            1.6,
        ),
        (
            "map_and_batch, large batches",
            lambda: consume(rows.map(lambda x: x * 2).batch(count * 4)),
            lambda: consume(rows.apply(side.data.map_and_batch(lambda x: x * 2, count * 4, num_parallel_calls=auto))),
            0.9,
        ),
        (
            "batch before a cheap vectorised map",
            lambda: consume(side.python(rows, scaled).batch(128)),
            lambda: consume(side.python(rows.batch(128), scaled)),
            5,
        ),
        (
            "cache after an expensive map, two epochs",
            lambda: consume(side.python(few, slowly).repeat(2)),
            lambda: consume(side.python(few, slowly).cache().repeat(2)),
            1.6,
        ),
        (
            "interleave before a map that makes elements larger",
            lambda: consume(files.interleave(lambda n: larger(large.shard(8, n)), **parallel).batch(128)),
            lambda: consume(larger(files.interleave(lambda n: large.shard(8, n), **parallel)).batch(128)),
            0.9,
        ),
        (
            "shuffle before a map that makes elements larger",
            lambda: consume(larger(large).shuffle(count).batch(128)),
            lambda: consume(larger(large.shuffle(count)).batch(128)),
            0.9,
        ),
        (
            "prefetch before a map that makes elements larger",
            lambda: consume(larger(large).prefetch(64).batch(128)),
            lambda: consume(larger(large.prefetch(64)).batch(128)),
            0.9,
        ),
        ("parallel interleave over slow files", lambda: consume(slow), lambda: consume(ahead), 0.9),
        ("sloppy interleave over slow files", lambda: consume(ahead), lambda: consume(sloppy), 1),
        (
            "shuffle before repeat",
            lambda: consume(rows.repeat(3).shuffle(count).batch(128)),
            lambda: consume(rows.shuffle(count).repeat(3).batch(128)),
            0.9,
        ),
        (
            "shuffle_and_repeat",
            lambda: consume(rows.shuffle(count).repeat(3).batch(128)),
            lambda: consume(rows.apply(side.data.shuffle_and_repeat(count, 3)).batch(128)),
            0.9,
        ),
    ]


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    rounds, count = (3, 40) if options.quick else (7, 200)
    absences: dict[str, str] = {}
    sides: dict[str, Any] = {"queuecore": Ours()}
    if options.peers:
        try:
            import tensorflow as tf

            sides["tf.data"] = Theirs(tf)
        except ImportError as error:
            absences["tf.data"] = str(error)
    findings = []
    raw: dict[str, Any] = {}
    tables = {name: pairs(side, count) for name, side in sides.items()}
    for index, (title, _, _, target) in enumerate(tables["queuecore"]):
        contenders: list[tuple[str, Callable[[], float]]] = []
        for name, table in tables.items():
            contenders += [(f"{name} without", table[index][1]), (f"{name} with", table[index][2])]
        print(f"  {title}", file=sys.stderr, flush=True)
        runs = raw[title] = harness.rotate(contenders, rounds)
        for name in sides:
            ratios = [a / b for a, b in zip(runs[f"{name} with"], runs[f"{name} without"], strict=True)]
            wanted = target if name == "queuecore" else None
            findings.append(harness.finding(f"{title}: {name}, with it over without", "x", ratios, at_least=wanted))
        if "tf.data" in sides:
            ratios = [a / b for a, b in zip(runs["queuecore with"], runs["tf.data with"], strict=True)]
            findings.append(harness.finding(f"{title}: ours over tf.data's, both with it", "x", ratios))
    return harness.report(
        "advice",
        "the advice of tf.data's performance guide, with and without, on two cores",
        findings,
        raw,
        parameters={"count": count, "rounds": rounds, "step_s": STEP, "expensive_s": EXPENSIVE, "read_s": READ},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
