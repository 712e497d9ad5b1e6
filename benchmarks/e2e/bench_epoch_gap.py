"""The gap between epochs: how much longer the batches around an epoch's end take than the others.

A repeating dataset is read for many epochs, and the arrival of every batch is noted. Around each boundary, `WIDTH`
batches before it and after it, the time spent is compared with what that many batches usually take (the median of all
stretches of that length). Their difference is the gap; it counts the whole stretch, because batches that are ready in
advance hide a stall at the boundary itself and show it later. The target is a median gap of at most one batch time.

The change from one file to the next is in it. The files' pages are as the writer left them: read-ahead would make the
start of every file slower than its rest, and so every epoch's start, for any reader.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402

BATCH = 128
WIDTH = 16


def arrivals(dataset: Any, count: int) -> list[int]:
    """Return the times at which batches arrived, in nanoseconds."""
    times = []
    clock = time.perf_counter_ns
    with iter(dataset) as batches:
        for _ in range(count):
            next(batches)
            times.append(clock())
    return times


def gaps(times: list[int], records_per_epoch: int) -> tuple[float, list[float]]:
    """Return the usual time of a batch, and the gap at every boundary, both in microseconds."""
    # Of stretches, not of single intervals: batches arrive in bursts, and the median interval is that within a burst.
    stretch = 2 * WIDTH
    usual = statistics.median(b - a for a, b in zip(times, times[stretch:], strict=False)) / stretch
    gaps_us = []
    boundary = records_per_epoch
    while True:
        place = boundary // BATCH  # the batch in which the next epoch begins
        boundary += records_per_epoch
        if place + WIDTH >= len(times):
            return usual / 1e3, gaps_us
        gaps_us.append((times[place + WIDTH] - times[place - WIDTH] - 2 * WIDTH * usual) / 1e3)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure in order and shuffled, with default settings and with one thread."""
    import numpy as np

    from queuecore import data

    image = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
    files, rounds, epochs = (2, 3, 4) if options.quick else (4, 9, 8)
    records = files * 10_000
    with harness.scratch(options) as folder:
        names = harness.write_files(folder, files, 10_000, image.itemsize, reread=False)
        count = records * epochs // BATCH - 1
        contenders = []
        for window in (0, 10_000):
            for label, threads in (("default", None), ("1 thread", 1)):
                dataset: Any = data.FixedLengthRecordDataset(names, record=image)
                if threads is not None:
                    dataset = dataset.with_options(data.Options(num_threads=threads))
                if window:
                    dataset = dataset.shuffle(window, seed=1)
                dataset = dataset.repeat().batch(BATCH)
                name = f"shuffled {window:,}, {label}" if window else f"in order, {label}"
                contenders.append((name, lambda dataset=dataset: gaps(arrivals(dataset, count), records)))
        raw = harness.rotate(contenders, rounds)
    findings = []
    for name, runs in raw.items():
        relative = [gap / usual for usual, gaps_us in runs for gap in gaps_us]
        # A shuffle's window drains and fills again between epochs: TensorFlow's order prescribes it.
        findings.append(harness.finding(f"gap, {name}", "batch times", relative, at_most=1))
        findings.append(harness.finding(f"usual batch, {name}", "us", [usual for usual, _ in runs]))
    return harness.report(
        "epoch_gap",
        "extra time around the end of an epoch",
        findings,
        {name: [{"usual_us": usual, "gaps_us": gaps_us} for usual, gaps_us in runs] for name, runs in raw.items()},
        parameters={"records_per_epoch": records, "epochs": epochs, "batch": BATCH, "width": WIDTH, "rounds": rounds},
    )


if __name__ == "__main__":
    harness.main(run)
