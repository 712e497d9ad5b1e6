"""The hand-off alone: what it costs to give a batch from native workers to a consumer, with no bytes in it.

The loop is native and lives in the core's test hooks (``QUEUECORE_TESTING=1`` builds them): workers publish empty
batches into the window, a consumer takes them in order.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402


def run(options: harness.Options) -> dict[str, Any]:
    """Measure nanoseconds per batch for 1 and 2 worker threads, beside one copy of a batch of 393 KB."""
    batches, rounds = (20_000, 3) if options.quick else (500_000, 15)
    yardstick = harness.native()
    chunk = 128 * 3073
    copies = 200 if options.quick else 4_000
    contenders = [
        ("one memcpy of 393 KB", lambda: yardstick.memcpy_pass(copies * chunk, chunk, 512 * 2**20) / copies),
    ]
    absences = {}
    try:
        from queuecore._core.testing.load import bench_handoff
    except ImportError as error:
        absences["hand-off"] = f"the test hooks don't have it: {error}"
    else:
        for threads in (1, 2):
            name = f"hand-off, {threads} worker{'s' if threads > 1 else ''}"
            contenders.append((name, lambda threads=threads: bench_handoff(batches, threads)))
    raw = harness.rotate(contenders, rounds)
    return harness.report(
        "handoff",
        "native hand-off of empty batches from workers to the consumer",
        [harness.finding(name, "ns/batch", values) for name, values in raw.items()],
        raw,
        parameters={"batches": batches, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
