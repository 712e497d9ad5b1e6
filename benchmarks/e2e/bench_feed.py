"""The experiment of the queue tutorials.

Every way of ``feed_vs_queue.py`` in each round, with the same network and batches: on a GPU where CuPy finds
one, else on NumPy. The result says which; there, a step is on one core and whatever makes the batches on the other.
The tutorials' own figures (18 s fed and 11.5 s queued; 7.46 s and 4.12 s) are those of other machines: only the ratios,
1.57 and 1.81, compare, and only with a GPU.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# Read when NumPy is imported: with two threads its products would leave no core to the other side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import harness  # noqa: E402


def run(options: harness.Options) -> dict[str, Any]:
    """Train in all ways."""
    with harness.scratch(options) as folder:
        return trained_in(options, folder)


def trained_in(options: harness.Options, folder: Path) -> dict[str, Any]:
    """Train in all ways, with the files in a folder."""
    import feed_vs_queue as example

    plane = example.find_plane()
    # A step is much shorter on a GPU.
    steps, rounds = (40, 3) if options.quick else (2_000, 9) if plane.on_gpu else (200, 9)
    settings = example.Settings(steps=steps, file_batches=steps)

    def trained(arm: str) -> dict[str, Any]:
        result = example.run_arm(arm, settings, plane, folder)
        return {
            "seconds": result.seconds,
            "step_ms": result.step_ms,
            "busy_share": result.busy_share,
            "loss": result.losses[steps],
            "accuracy": result.accuracy,
        }

    raw = harness.rotate([(arm, lambda arm=arm: trained(arm)) for arm in example.ARMS], rounds)
    # The same batches, so the same loss; but a GPU's library may choose another kernel for another place in memory.
    losses = {run["loss"] for arm in ("feed", "queue", "files") for run in raw[arm]}
    if len(losses) > 1 and not plane.on_gpu:
        raise SystemExit(f"the losses differ: {sorted(losses)}")

    kind = "GPU" if plane.on_gpu else "NumPy, no GPU"
    findings = []
    for arm, runs in raw.items():
        findings.append(harness.finding(f"{arm} ({kind})", "ms a step", [run["step_ms"] for run in runs]))
        findings.append(
            harness.finding(f"{arm} ({kind}): device busy", "of the time", [run["busy_share"] for run in runs])
        )
    for arm in raw:
        if arm != "feed":
            ratios = [fed["seconds"] / run["seconds"] for fed, run in zip(raw["feed"], raw[arm], strict=True)]
            findings.append(harness.finding(f"{arm} ({kind}): speed, of feed's", "x", ratios))
    parameters = {
        **vars(settings),
        "rounds": rounds,
        "plane": plane.name,
        "gpu": plane.on_gpu,
        "omp_num_threads": os.environ["OMP_NUM_THREADS"],
    }
    notes = []
    if not plane.on_gpu:
        notes.append(
            f"no GPU ({plane.why}): the experiment ran on NumPy, and says nothing about a device. The spread shows "
            "where the kernel puts the two threads of the queue"
        )
    return harness.report(
        "feed",
        "training fed by the loop, by a queue, from files, and from narrow files",
        findings,
        raw,
        parameters=parameters,
        notes=notes,
    )


if __name__ == "__main__":
    harness.main(run)
