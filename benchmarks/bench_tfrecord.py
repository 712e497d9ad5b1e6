"""TFRecord framing alone: how fast are records found in memory and checked, beside their checksums by themselves?

The loop is native and lives in the core's test hooks (``QUEUECORE_TESTING=1`` builds them). No file is read.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402

# What a reader has at once, in a second-level cache; and what comes from memory.
BLOCKS = {"256 KiB": 256 << 10, "64 MiB": 64 << 20}
# A record of one float; an Example with a picture of CIFAR-10; one of ImageNet.
SIZES = (16, 3_110, 110_000)


def gigabytes(nbytes: int, passes: int, run: Any) -> float:
    """Return the rate at which `run` goes through so many bytes that often."""
    begun = time.perf_counter_ns()
    run()
    return nbytes * passes / (time.perf_counter_ns() - begun)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure framing with and without the checksums of the data, and Google's checksum of the same block."""
    rounds, total = (3, 64 << 20) if options.quick else (15, 1 << 30)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    absences = {}
    try:
        import google_crc32c
    except ImportError as error:
        google_crc32c = None
        absences["google-crc32c"] = str(error)
    try:
        from queuecore._core.io.tfrecord import frame
        from queuecore._core.testing.parsers import bench_tfrecord
    except ImportError as error:
        absences["framing"] = f"the test hooks don't have it: {error}"
        return harness.report("tfrecord", "framing in memory", findings, raw, parameters={}, absences=absences)
    for title, nbytes in BLOCKS.items():
        for size in SIZES:
            if size + 16 > nbytes:
                continue
            data = random.Random(size).randbytes(size)
            header, footer = frame(data)
            block = (header + data + footer) * (nbytes // (size + 16))
            passes = max(1, total // len(block))

            def framed(check: bool, block: bytes = block, passes: int = passes) -> float:
                return len(block) / bench_tfrecord(block, passes, check)[0]

            def summed(block: bytes = block, passes: int = passes) -> float:
                return gigabytes(len(block), passes, lambda: [google_crc32c.value(block) for _ in range(passes)])

            contenders = [
                ("lengths", lambda framed=framed: framed(False)),
                ("lengths and data", lambda framed=framed: framed(True)),
            ]
            if google_crc32c is not None and options.peers:
                contenders.append(("google-crc32c of the block", summed))
            results = harness.rotate(contenders, rounds)
            where = f"{title} of {size:,}-byte records"
            raw[where] = results
            findings += [harness.finding(f"{where}: {name}", "GB/s", rates) for name, rates in results.items()]
    return harness.report(
        "tfrecord",
        "records found in memory, with their lengths' checksums and their data's",
        findings,
        raw,
        parameters={"bytes": total, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
