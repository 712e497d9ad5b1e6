"""What a pure-Python busy loop in the consumer costs the native stages, beyond the core that it uses.

Method. Two cores, one native worker (``num_threads=1``: the consumer doesn't help), records of 3,073 bytes. The worker
is the bottleneck, so the time of a pass is the worker's time, as long as the consumer is quicker than the worker.

- *alone*: the consumer only takes batches. A pass of N batches takes T; the worker needs T / N for a batch.
- *busy*: between two batches the consumer runs a loop in pure Python, holding the GIL, for about half of the worker's
  T / N (calibrated once, before the rounds; the share reached is in the result). If no native stage needs the GIL, the
  pass takes T again.
- *control*: the same, but the loop is native and leaves the GIL to others. What it costs is due to the machine (clock
  rates, shared caches and memory, wake-ups), not to Python.

The loss is 1 - T(alone) / T(busy), and beside it 1 - T(control) / T(busy), from the same round. Alone, busy and
control run in turns. A pass is timed over its second half only, so that starting up is not in it. If the loop takes
more than three quarters of the time, the consumer and not the worker is measured; the result then says so in a note.

A consumer that is asleep must be woken for each batch, which costs the worker a system call; one that is busy when the
batch gets ready need not. So the loss against *alone* can be negative, and a loss to the GIL could hide behind that.
The second figure can't: there both consumers are equally busy. The target holds for both.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402


def python_loop(count: int) -> int:
    """Keep the interpreter busy for `count` turns, without a call that could release the GIL."""
    x = 1
    for _ in range(count):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x


def turns_for(seconds: float) -> int:
    """Return how many turns of :func:`python_loop` take about `seconds`."""
    count = 20_000
    best = min(_timed(lambda: python_loop(count)) for _ in range(5))
    return max(round(count * seconds / best), 1)


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def timed_half(dataset: Any, count: int, between: Callable[[], Any] | None) -> tuple[float, float]:
    """Take `2 * count` batches; return the seconds of the second half, and how much of them `between` used."""
    spent = 0.0
    clock = time.perf_counter
    with iter(dataset) as batches:
        for _half in range(2):
            start = clock()
            spent = 0.0
            for _ in range(count):
                next(batches)
                if between is not None:
                    before = clock()
                    between()
                    spent += clock() - before
            seconds = clock() - start
    return seconds, spent


def measure(dataset: Any, count: int, rounds: int) -> tuple[dict[str, float], dict[str, list[dict[str, float]]]]:
    """Calibrate the two loops, then run alone, busy and control in turns."""
    yardstick = harness.native()

    def timed(between: Callable[[], Any] | None) -> dict[str, float]:
        seconds, spent = timed_half(dataset, count, between)
        return {"seconds": seconds, "busy_share": spent / seconds}

    worker = statistics.median(timed(None)["seconds"] for _ in range(5)) / count
    turns, duration = turns_for(worker / 2), round(worker / 2 * 1e9)
    contenders = [
        ("alone", lambda: timed(None)),
        ("busy", lambda: timed(lambda: python_loop(turns))),
        ("control", lambda: timed(lambda: yardstick.spin(duration))),
    ]
    return {"worker_us": worker * 1e6, "turns": turns, "spin_ns": duration}, harness.rotate(contenders, rounds)


def loss(name: str, quick: list[float], slow: list[float], at_most: float | None) -> dict[str, Any]:
    """Describe by how much the rate of `slow` is below that of `quick`, round by round."""
    values = [1 - one / other for one, other in zip(quick, slow, strict=True)]
    return harness.finding(name, "of the rate", values, at_most=at_most)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure with batches of 128 and of 1,024 records."""
    import numpy as np

    from queuecore import data

    image = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
    files, rounds = (2, 3) if options.quick else (10, 25)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    notes = []
    with harness.scratch(options) as folder:
        names = harness.write_files(folder, files, 10_000, image.itemsize)
        for batch in (128, 1024):
            dataset: Any = data.FixedLengthRecordDataset(names, record=image)
            dataset = dataset.repeat().batch(batch).with_options(data.Options(num_threads=1))
            count = files * 10_000 // batch
            calibration, runs = measure(dataset, count, rounds)
            raw[f"batch {batch}"] = {"calibration": calibration, **runs}
            alone = [run["seconds"] for run in runs["alone"]]
            busy, control = ([run["seconds"] for run in runs[name]] for name in ("busy", "control"))
            shares = [run["busy_share"] for run in runs["busy"]]
            label = f"batch {batch:,}"
            if statistics.median(shares) > 0.75:
                notes.append(f"{label}: the loop took too much of the time; run again on a quiet machine")
            findings += [
                loss(f"{label}: loss to a busy consumer (against alone)", alone, busy, 0.05),
                loss(f"{label}: loss to the GIL (against control)", control, busy, 0.05),
                loss(f"{label}: loss to the machine (control against alone)", alone, control, None),
                harness.finding(f"{label}: busy share of the consumer", "of the time", shares),
                harness.finding(
                    f"{label}: worker's time for a batch", "us", [seconds / count * 1e6 for seconds in alone]
                ),
            ]
    return harness.report(
        "busy_consumer",
        "loss of the native stages to a consumer that runs pure Python for half of the time",
        findings,
        raw,
        parameters={"files": files, "rounds": rounds, "records_per_file": 10_000, "num_threads": 1},
        notes=notes,
    )


if __name__ == "__main__":
    harness.main(run)
