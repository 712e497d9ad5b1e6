"""Run all benchmarks and write one result file: ``python benchmarks/run.py [--quick]``.

Every benchmark runs in a process of its own. The result file holds the machine, the commands, every single run, the
medians with their spread, and each target beside what was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "support"))

import harness  # noqa: E402

BENCHMARKS = (
    "bench_handoff.py",
    "bench_tfrecord.py",
    "bench_csv.py",
    "bench_rings.py",
    "bench_stdqueue.py",
    "bench_queues.py",
    "bench_compressed.py",
    "bench_images.py",
    "e2e/bench_fixed.py",
    "e2e/bench_records.py",
    "e2e/bench_record_sizes.py",
    "e2e/bench_cold.py",
    "e2e/bench_remote.py",
    "e2e/bench_data.py",
    "e2e/bench_sources.py",
    "e2e/bench_tar.py",
    "e2e/bench_tables.py",
    "e2e/bench_pictures.py",
    "e2e/bench_tf1.py",
    "e2e/bench_advice.py",
    "e2e/bench_overheads.py",
    "e2e/bench_steps.py",
    "e2e/bench_loader.py",
    "e2e/bench_start.py",
    "e2e/bench_epoch_gap.py",
    "e2e/bench_busy_consumer.py",
    "e2e/bench_memory.py",
    "e2e/bench_feed.py",
    "e2e/bench_host_plane.py",
    "e2e/bench_device.py",
)


def main() -> int:
    """Run them; return 1 if one of them failed to run. A missed target is a finding, not a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    harness.add_options(parser)
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", help="run only benchmarks whose file name contains one of these"
    )
    parser.add_argument("--output", type=Path, default=HERE / "results", metavar="FOLDER", help="where the result goes")
    args = parser.parse_args()
    names = [name for name in BENCHMARKS if args.only is None or any(text in name for text in args.only)]
    if not names:
        parser.error(f"no benchmark has {args.only!r} in its name; there are {', '.join(BENCHMARKS)}")

    harness.native()
    allowed = os.sched_getaffinity(0)
    about = harness.machine(harness.pin())
    about["cpus_allowed"] = sorted(allowed)
    os.sched_setaffinity(0, allowed)

    passed_on = [flag for flag, given in (("--quick", args.quick), ("--no-peers", not args.peers)) if given]
    if args.data_dir:
        passed_on += ["--data-dir", args.data_dir]
    if args.case:
        passed_on += ["--case", args.case]
    results, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(f"== {name}", flush=True)
            part = Path(folder) / "part.json"
            part.unlink(missing_ok=True)
            command = [sys.executable, "-P", str(HERE / name), "--json", str(part), *passed_on]
            if subprocess.run(command).returncode or not part.exists():
                failed.append(name)
                continue
            result = json.loads(part.read_text(encoding="utf-8"))
            # The path of the temporary file, and of this checkout, mean nothing to a reader.
            result["command"] = ["python", f"benchmarks/{name}", *passed_on]
            results.append(result)
    if results:
        path = harness.save(results, about, args.output)
        findings = [one for result in results for one in result["findings"] if "target" in one]
        reached = sum(one["reached"] is True for one in findings)
        unknown = sum(one["reached"] is None for one in findings)
        print(f"{reached} of {len(findings) - unknown} targets reached, {unknown} not measured; {path}")
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
