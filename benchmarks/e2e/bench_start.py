"""How long the first batch takes after ``iter()``, with 100 files and with 100,000.

The files are tiny (4 records of 64 bytes) and their names and inodes are in the kernel's caches. The dataset, with its
list of names, is made outside of the timing; closing the iterator is timed apart.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402

RECORD_BYTES = 64
RECORDS = 4
BATCH = 128


def first_batch(dataset: Any) -> tuple[float, float]:
    """Return the milliseconds to the first batch and those to close."""
    start = time.perf_counter_ns()
    batches = iter(dataset)
    batch = next(batches)
    first_batch_at = time.perf_counter_ns()
    if len(batch) != BATCH:
        raise AssertionError(f"the first batch has {len(batch)} rows")
    del batch
    batches.close()
    closed = time.perf_counter_ns()
    return (first_batch_at - start) / 1e6, (closed - first_batch_at) / 1e6


def run(options: harness.Options) -> dict[str, Any]:
    """Measure with default settings and with one thread."""
    from queuecore import data

    rounds = 5 if options.quick else 41
    counts = (100, 2_000) if options.quick else (100, 100_000)
    with harness.scratch(options) as folder:
        names = []
        for index in range(counts[-1]):
            if index % 1000 == 0:
                part = folder / f"{index // 1000:03}"
                part.mkdir()
            names.append(str(part / f"{index % 1000:03}.bin"))
            Path(names[-1]).write_bytes(bytes(RECORD_BYTES * RECORDS))
        contenders = []
        for count in counts:
            dataset: Any = data.FixedLengthRecordDataset(names[:count], RECORD_BYTES)
            for label, threads in (("default", None), ("1 thread", 1)):
                ready = dataset if threads is None else dataset.with_options(data.Options(num_threads=threads))
                ready = ready.batch(BATCH)
                contenders.append((f"{count:,} files, {label}", lambda ready=ready: first_batch(ready)))
        raw = harness.rotate(contenders, rounds)
    findings = []
    for name, pairs in raw.items():
        findings.append(harness.finding(f"first batch, {name}", "ms", [first for first, _ in pairs], at_most=10))
        findings.append(harness.finding(f"close, {name}", "ms", [close for _, close in pairs]))
    return harness.report(
        "start",
        "time from iter() to the first batch, unshuffled",
        findings,
        raw,
        parameters={"files": counts, "records_per_file": RECORDS, "record_bytes": RECORD_BYTES, "rounds": rounds},
    )


if __name__ == "__main__":
    harness.main(run)
