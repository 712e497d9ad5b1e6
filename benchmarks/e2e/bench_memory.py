"""Memory for 0.6 GB of input and for 6 GB: the growth of the process must be the same.

Each measurement is a process of its own that imports everything, streams one batch to settle, notes its resident
memory, resets the kernel's high-water mark, reads all files once, and notes the mark. The 6 GB are ten folders of hard
links to the same twenty files: for the reader 200 files, for the disk and the page cache 0.6 GB. So this shows what
grows with files and bytes read, and says nothing about reading from a disk.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402

BATCH = 128
MIB = 2**20


def _memory(field: str) -> int:
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {field}")
    return int(found[1]) * 1024


def child(folder: str, window: int, threads: int) -> None:
    """Stream the files of `folder` once and print what it took, as JSON."""
    import numpy as np

    from queuecore import data

    image = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
    names = sorted(str(one) for one in Path(folder).rglob("*.bin"))
    dataset: Any = data.FixedLengthRecordDataset(names, record=image)
    if threads:
        dataset = dataset.with_options(data.Options(num_threads=threads))
    if window:
        dataset = dataset.shuffle(window, seed=1)
    dataset = dataset.batch(BATCH)
    # What code and allocators take once is not the data's: touch it first, with one small file.
    with iter(data.FixedLengthRecordDataset(names[:1], record=image).take(BATCH).batch(BATCH)) as batches:
        next(batches)
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    rows = nbytes = 0
    with iter(dataset) as batches:
        for batch in batches:
            rows += len(batch["label"])
            nbytes += batch["image"].nbytes + batch["label"].nbytes
        peak = _memory("VmHWM")
    del batch
    print(json.dumps({"files": len(names), "records": rows, "bytes": nbytes, "before": before, "peak": peak}))


def run(options: harness.Options) -> dict[str, Any]:
    """Measure in order and shuffled, for one and for ten times the input."""
    files, rounds = (2, 1) if options.quick else (20, 5)
    with harness.scratch(options) as folder:
        once = folder / "once"
        once.mkdir()
        names = harness.write_files(once, files, 10_000, 3073)
        for copy in range(10):
            part = folder / "tenfold" / str(copy)
            part.mkdir(parents=True)
            for name in names:
                os.link(name, part / Path(name).name)

        def measure(amount: str, window: int, threads: int) -> dict[str, int]:
            command = [sys.executable, "-P", str(Path(__file__).resolve()), "--child", str(folder / amount)]
            done = subprocess.run([*command, str(window), str(threads)], stdout=subprocess.PIPE, text=True, check=True)
            result: dict[str, int] = json.loads(done.stdout)
            return result

        kinds = {"in order": (0, 0), "shuffled 10,000": (10_000, 0), "in order, 1 thread": (0, 1)}
        contenders = [
            (f"{kind}, {amount}", lambda amount=amount, how=how: measure(amount, *how))
            for kind, how in kinds.items()
            for amount in ("once", "tenfold")
        ]
        raw = harness.rotate(contenders, rounds)
    findings = []
    for kind in kinds:
        growth = {
            amount: [(one["peak"] - one["before"]) / MIB for one in raw[f"{kind}, {amount}"]]
            for amount in ("once", "tenfold")
        }
        more = [ten - one for one, ten in zip(growth["once"], growth["tenfold"], strict=True)]
        findings += [
            harness.finding(f"{kind}: growth for {files * 30.73 / 1000:.2f} GB", "MiB", growth["once"]),
            harness.finding(f"{kind}: growth for {files * 307.3 / 1000:.2f} GB", "MiB", growth["tenfold"]),
            # 4 MiB: the kernel's counters of resident pages are exact only to some dozens of pages per core.
            harness.finding(f"{kind}: more for ten times the input", "MiB", more, at_most=4),
        ]
    return harness.report(
        "memory",
        "growth of resident memory while streaming, for one and ten times the input",
        findings,
        raw,
        parameters={"files": files, "rounds": rounds, "batch": BATCH},
        notes=["ten times the input is 10 hard links to each file: more files and bytes, the same pages in the cache"],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        harness.main(run)
