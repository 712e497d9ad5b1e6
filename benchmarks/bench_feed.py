"""The experiment of the queue tutorials, and what the host plane costs.

Every way of ``examples/feed_vs_queue.py`` in each round, with the same network and batches: on a GPU where CuPy finds
one, else on NumPy. The result says which; there, a step is on one core and whatever makes the batches on the other.
The tutorials' own figures (18 s fed and 11.5 s queued; 7.46 s and 4.12 s) are those of other machines: only the ratios,
1.57 and 1.81, compare, and only with a GPU.

Then passes over files by the plain iterator, and by the one of ``prefetch_to_device("cpu")``, which may take 2% more.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Read when NumPy is imported: with two threads its products would leave no core to the other side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples")]

import harness  # noqa: E402
from passes import whole_pass  # noqa: E402


@dataclass
class Part:
    """One half of the result."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)


def experiment(options: harness.Options, folder: Path) -> Part:
    """Train in all ways."""
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
    losses = {one["loss"] for arm in ("feed", "queue", "files") for one in raw[arm]}
    if len(losses) > 1 and not plane.on_gpu:
        raise SystemExit(f"the losses differ: {sorted(losses)}")

    kind = "GPU" if plane.on_gpu else "NumPy, no GPU"
    findings = []
    for arm, runs in raw.items():
        findings.append(harness.finding(f"{arm} ({kind})", "ms a step", [one["step_ms"] for one in runs]))
        findings.append(
            harness.finding(f"{arm} ({kind}): device busy", "of the time", [one["busy_share"] for one in runs])
        )
    for arm in raw:
        if arm != "feed":
            ratios = [fed["seconds"] / one["seconds"] for fed, one in zip(raw["feed"], raw[arm], strict=True)]
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
    return Part(findings, raw, parameters, notes)


def host_plane(options: harness.Options, folder: Path) -> Part:
    """Compare passes of the host plane with those of the plain iterator."""
    import numpy as np

    from queuecore import data

    kinds = {
        "records of 3,073 bytes in two fields": np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))]),
        "rows of 4 KiB": np.dtype((np.float32, (1024,))),
    }
    files, records, epochs, rounds = (2, 2_000, 2, 3) if options.quick else (4, 10_000, 10, 25)
    part = Part(parameters={"files": files, "records_per_file": records, "epochs": epochs, "rounds": rounds})
    if not hasattr(data.Dataset, "prefetch_to_device"):
        part.absent["the host plane"] = "datasets have no prefetch_to_device"
        return part
    for number, (title, record) in enumerate(kinds.items()):
        place = folder / str(number)
        place.mkdir()
        names = harness.write_files(place, files, records, record.itemsize)
        plain: Any = data.FixedLengthRecordDataset(names, record=record)
        plain = plain.repeat(epochs).batch(128)
        plane: Any = plain.prefetch_to_device("cpu")
        for one, other in zip(plain.take(20), plane, strict=False):
            if [array.tobytes() for array in _leaves(one)] != [array.tobytes() for array in _leaves(other)]:
                raise SystemExit(f"{title}: the batches differ")

        def seconds(dataset: Any, rows: int = files * records * epochs) -> float:
            count, taken = whole_pass(dataset)
            if count != rows:
                raise SystemExit(f"{count} rows instead of {rows}")
            return taken

        runs = part.raw[title] = harness.rotate(
            [
                ("plain", lambda plain=plain, seconds=seconds: seconds(plain)),
                ("host plane", lambda plane=plane, seconds=seconds: seconds(plane)),
            ],
            rounds,
        )
        ratios = [a / b for a, b in zip(runs["host plane"], runs["plain"], strict=True)]
        part.findings.append(harness.finding(f"{title}: host plane, of the plain time", "x", ratios, at_most=1.02))
    return part


def _leaves(element: Any) -> list[Any]:
    return list(element.values()) if isinstance(element, dict) else [element]


def run(options: harness.Options) -> dict[str, Any]:
    """Measure both."""
    with harness.scratch(options) as folder:
        parts = {"experiment": experiment(options, folder), "host plane": host_plane(options, folder)}
    return harness.report(
        "feed",
        "training fed by the loop, by a queue, from files, and from narrow files; the host plane's cost",
        [one for part in parts.values() for one in part.findings],
        {name: part.raw for name, part in parts.items()},
        parameters={name: part.parameters for name, part in parts.items()},
        notes=[note for part in parts.values() for note in part.notes],
        absent={name: why for part in parts.values() for name, why in part.absent.items()},
    )


if __name__ == "__main__":
    harness.main(run)
