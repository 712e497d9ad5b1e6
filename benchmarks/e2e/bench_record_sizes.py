"""What a byte costs in TFRecords of 20 KB to 4 MB: read, checked, found in an Example, copied into a batch.

One core, and one native thread; batches of 2 MB. A figure is the CPU time of the process for a pass over 64 MB four
times, in the page cache: what first use of the memory for some batches costs is little of it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_records  # noqa: E402
import harness  # noqa: E402

SIZES = (20, 110, 256, 1024, 4096)  # KiB
BATCH_BYTES = 2 << 20
TIMES = 4


def microseconds(dataset: Any, nbytes: int) -> float:
    """Return the CPU time of a pass, for each MB."""
    begun = time.process_time_ns()
    rows = sum(len(label) for _, label in dataset)
    spent = time.process_time_ns() - begun
    return spent / (rows * nbytes) * 1e3


def pictures(folder: Path, kilobytes: int, total: int) -> tuple[Any, int]:
    """Return a dataset of Examples of one size, and that size in bytes."""
    import numpy as np

    from queuecore import ops
    from queuecore.data import Options, TFRecordDataset
    from queuecore.writers import TFRecordWriter

    nbytes = kilobytes << 10
    name = str(folder / f"{kilobytes}.tfrecord")
    state = np.random.default_rng(kilobytes)
    with TFRecordWriter(name) as writer:
        for number in range(total // nbytes):
            writer.write(bench_records.example(state.bytes(nbytes), number % 10))
    harness.reread_files([name])
    features = {"image": ops.FixedLenFeature((), bytes), "label": ops.FixedLenFeature((), np.int64)}

    def parse(record: Any) -> Any:
        example = ops.parse_single_example(record, features)
        return ops.decode_raw(example["image"], np.uint8, fixed_length=nbytes), example["label"]

    batches = TFRecordDataset([name] * TIMES).map(parse).batch(max(BATCH_BYTES // nbytes, 1))
    return batches.with_options(Options(num_threads=1)), nbytes


def run(options: harness.Options) -> dict[str, Any]:
    """Measure each size, beside the shortest."""
    rounds, total = (3, 16 << 20) if options.quick else (11, 64 << 20)
    harness.pin_alone()
    with harness.scratch(options) as folder:
        contenders = []
        for kilobytes in SIZES:
            dataset, nbytes = pictures(folder, kilobytes, total)
            contenders.append((f"{kilobytes} KiB", lambda ds=dataset, nbytes=nbytes: microseconds(ds, nbytes)))
        raw = harness.rotate(contenders, rounds)
    findings = [harness.finding(name, "us/MB", values) for name, values in raw.items()]
    shortest, *longer = raw
    for name in longer:
        ratios = [cost / least for cost, least in zip(raw[name], raw[shortest], strict=True)]
        findings.append(harness.finding(f"{name}, over {shortest}", "times", ratios, at_most=1.15))
    parameters = {"rounds": rounds, "bytes": TIMES * total, "threads": 1}
    title = "CPU time of TFRecords of Examples by their size"
    return harness.report("record sizes", title, findings, raw, parameters=parameters)


if __name__ == "__main__":
    harness.main(run)
