"""What the host plane costs: passes over files by the plain iterator, and by that of ``prefetch_to_device("cpu")``.

The two take turns, in pairs, and another one is first each time. A ratio is of one pair; the second may take 2% more.
With the median comes the interval that holds the true one in 95 of 100 such runs, whatever the ratios are spread like:
where the target lies inside, the machine was too busy for an answer, and a note says so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import whole_pass  # noqa: E402

TARGET = 1.02


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values between which the median lies, 95 times of 100; the extremes, if there are too few."""
    ordered, count = sorted(values), len(values)
    # How many are below the median is binomial: leave out as many at each end as that allows.
    dropped, beyond = 0, 2 + 2 * count
    while beyond <= 0.05 * 2**count:
        dropped += 1
        beyond += 2 * math.comb(count, dropped + 1)
    return ordered[dropped], ordered[-1 - dropped]


def run(options: harness.Options) -> dict[str, Any]:
    """Compare passes over records in two fields, and over rows."""
    import numpy as np

    from queuecore import data

    kinds = {
        "records of 3,073 bytes in two fields": np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))]),
        "rows of 4 KiB": np.dtype((np.float32, (1024,))),
    }
    files, records, epochs, pairs = (2, 2_000, 2, 3) if options.quick else (4, 10_000, 10, 151)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    notes = []
    for title, record in kinds.items():
        with harness.scratch(options) as folder:
            names = harness.write_files(folder, files, records, record.itemsize)
            plain: Any = data.FixedLengthRecordDataset(names, record=record)
            plain = plain.repeat(epochs).batch(128)
            plane: Any = plain.prefetch_to_device("cpu")
            for one, other in zip(plain.take(20), plane, strict=False):
                if [array.tobytes() for array in _leaves(one)] != [array.tobytes() for array in _leaves(other)]:
                    raise SystemExit(f"{title}: the batches differ")

            def seconds(dataset: Any) -> float:
                count, taken = whole_pass(dataset)
                if count != files * records * epochs:
                    raise SystemExit(f"{count} rows instead of {files * records * epochs}")
                return taken

            ways = [(name, lambda ds=ds: seconds(ds)) for name, ds in (("plain", plain), ("host plane", plane))]
            runs = raw[title] = harness.rotate(ways, pairs)
        ratios = [a / b for a, b in zip(runs["host plane"], runs["plain"], strict=True)]
        low, high = interval(ratios)
        name = f"{title}: host plane, of the plain time"
        findings.append(harness.finding(name, "x", ratios, at_most=TARGET) | {"median_95": [low, high]})
        notes.append(f"{title}: the median is between {low:.3f} and {high:.3f}, 95 times of 100")
        if low <= TARGET <= high:
            notes.append(f"{title}: that leaves open whether the target is reached; run again on a quiet machine")
    return harness.report(
        "host_plane",
        "passes of the host plane beside those of the plain iterator, on two cores",
        findings,
        raw,
        parameters={"files": files, "records_per_file": records, "epochs": epochs, "pairs": pairs},
        notes=notes,
    )


def _leaves(element: Any) -> list[Any]:
    return list(element.values()) if isinstance(element, dict) else [element]


if __name__ == "__main__":
    harness.main(run)
