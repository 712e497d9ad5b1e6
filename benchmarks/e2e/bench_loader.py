"""A dataset of PyTorch, whose samples are made in Python: queuecore's DataLoader in threads beside PyTorch's processes.

Two workers on two cores, batches of 64, shuffled; the loop does nothing with them. A sample is a picture of 3 × 64 × 64
bytes, flipped by chance, then as many passes as the case says of scaling and noise, each of some short operations of
NumPy. Random numbers come from a generator that is made of the sample's number, so the threads share none; or from
NumPy's global one, for which the loader has to be told to use threads: then all are made in the loop's thread.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402

WORKERS, BATCH = 2, 64
CASES = [("by key", 1), ("by key", 4), ("global", 1), ("global", 4)]
TARGET = 1.0


def datasets(torch: Any, samples: int) -> dict[tuple[str, int], Any]:
    """Return the dataset of each case."""
    import numpy as np

    pictures = np.random.default_rng(0).integers(0, 255, (512, 3, 64, 64), dtype=np.uint8)

    class ByKey(torch.utils.data.Dataset):
        def __init__(self, passes: int) -> None:
            self.passes = passes

        def __len__(self) -> int:
            return samples

        def __getitem__(self, index: int) -> Any:
            generator = np.random.default_rng((7, index))
            picture = pictures[index % len(pictures)]
            if generator.random() < 0.5:
                picture = picture[:, :, ::-1]
            for _ in range(self.passes):
                made = (picture.astype(np.float32) - 127.5) / 64
                made += generator.normal(0, 0.1, (3, 1, 1)).astype(np.float32)
            return torch.from_numpy(made), index % 10

    class Global(ByKey):
        def __getitem__(self, index: int) -> Any:
            picture = pictures[index % len(pictures)]
            if np.random.random() < 0.5:
                picture = picture[:, :, ::-1]
            for _ in range(self.passes):
                made = (picture.astype(np.float32) - 127.5) / 64
                made += np.random.normal(0, 0.1, (3, 1, 1)).astype(np.float32)
            return torch.from_numpy(made), index % 10

    return {(kind, passes): (ByKey if kind == "by key" else Global)(passes) for kind, passes in CASES}


def consume(loader: Any) -> float:
    """Go through an epoch; return samples a second, the start of the workers included."""
    count = 0
    begun = time.perf_counter()
    for _, labels in loader:
        count += len(labels)
    return count / (time.perf_counter() - begun)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    title = "a PyTorch dataset with two workers on two cores: threads beside PyTorch's processes"
    rounds, samples = (2, 600) if options.quick else (9, 6000)
    parameters = {"samples": samples, "rounds": rounds, "workers": WORKERS, "batch": BATCH}
    findings = []
    raw: dict[str, Any] = {}
    try:
        import torch

        from queuecore.torch import DataLoader
    except ImportError as error:
        findings = [harness.unmeasured("threads over processes", "x", str(error), at_least=TARGET)]
        return harness.report("loader", title, findings, raw, parameters=parameters, absences={"torch": str(error)})
    for (kind, passes), dataset in datasets(torch, samples).items():
        case = f"{kind}, {passes} pass{'es' * (passes > 1)}"
        how = {"batch_size": BATCH, "num_workers": WORKERS, "shuffle": True}
        threads = how | ({"worker_type": "thread"} if kind == "global" else {})
        contenders = [
            ("threads", lambda dataset=dataset, threads=threads: consume(DataLoader(dataset, **threads))),
            ("processes", lambda dataset=dataset, how=how: consume(torch.utils.data.DataLoader(dataset, **how))),
            ("loop", lambda dataset=dataset: consume(torch.utils.data.DataLoader(dataset, BATCH, shuffle=True))),
        ]
        print(f"  {case}", file=sys.stderr, flush=True)
        runs = raw[case] = harness.rotate(contenders, rounds)
        for name in ("threads", "processes", "loop"):
            findings.append(harness.finding(f"{case}: {name}", "samples/s", runs[name]))
        ratios = [ours / theirs for ours, theirs in zip(runs["threads"], runs["processes"], strict=True)]
        findings.append(harness.finding(f"{case}: threads over processes", "x", ratios, at_least=TARGET))
    return harness.report("loader", title, findings, raw, parameters=parameters)


if __name__ == "__main__":
    harness.main(run)
