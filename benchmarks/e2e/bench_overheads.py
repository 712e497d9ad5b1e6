"""What the machinery costs: a batch of a long chain, functions in vectorised NumPy, the change of epochs, AUTOTUNE.

Restricted to two cores. Every ratio is of the same round.

- A chain of six stages over numbers in memory, with batches of 32 rows: time per batch, in microseconds.
- A map and a filter in vectorised NumPy that can't be traced, over batches in memory, beside a loop that does the same
  by hand to slices of the same array.
- The longest time between two batches around the ends of epochs of ``shuffle_and_repeat``, in usual batch times.
- AUTOTUNE beside the best fixed number of parallel calls, for a function that waits and for one that computes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness  # noqa: E402
from bench_epoch_gap import BATCH, arrivals, gaps  # noqa: E402


def passed(dataset: Any) -> tuple[int, float]:
    """Iterate over all of it; return the number of elements and the seconds."""
    begun = time.perf_counter()
    with iter(dataset) as elements:
        count = sum(1 for _ in elements)
    return count, time.perf_counter() - begun


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it."""
    import numpy as np

    from queuecore.data import AUTOTUNE, Dataset

    rounds, count = (3, 40_000) if options.quick else (9, 400_000)
    findings = []
    raw: dict[str, Any] = {}

    chains = {
        "native, 6 stages": Dataset.range(count)
        .shuffle(1000, seed=1)
        .map(lambda x: x + 1)
        .skip(1)
        .batch(32)
        .prefetch(2),
        "with a filter and a zip, 6 stages": Dataset.zip((Dataset.range(count), Dataset.range(count)))
        .filter(lambda x, y: x >= 0)
        .map(lambda x, y: x + y)
        .take(count)
        .batch(32)
        .prefetch(2),
    }

    def per_batch(dataset: Any) -> float:
        batches, seconds = passed(dataset)
        return seconds / batches * 1e6

    runs = raw["chains"] = harness.rotate([(name, lambda ds=ds: per_batch(ds)) for name, ds in chains.items()], rounds)
    findings += [harness.finding(f"a batch of 32, {name}", "us", some, at_most=20) for name, some in runs.items()]

    array = np.random.default_rng(1).integers(0, 255, (count // 10, 3072), np.uint8)
    size = 256

    def scaled(batch: Any) -> Any:
        made = np.empty(batch.shape, np.float32)
        np.multiply(batch, np.float32(1 / 255), out=made)
        made -= made.mean(axis=1, keepdims=True)
        return made

    def bright(batch: Any) -> Any:
        return bool(np.asarray(batch).mean() > 1)

    # Several times: a new thread's first arrays are page faults, once an iterator.
    passes = 5
    ds = Dataset.from_tensor_slices(array).batch(size).repeat(passes)
    slices = [array[at : at + size] for at in range(0, len(array), size)] * passes

    def by_hand(function: Callable[[Any], Any]) -> float:
        begun = time.perf_counter()
        for one in slices:
            function(one)
        return len(slices) / (time.perf_counter() - begun)

    def ours(dataset: Any) -> float:
        batches, seconds = passed(dataset)
        if batches != len(slices):
            raise AssertionError(f"{batches} batches instead of {len(slices)}")
        return batches / seconds

    contenders: list[tuple[str, Callable[[], float]]] = [
        ("map by hand", lambda: by_hand(scaled)),
        ("map", lambda: ours(ds.map(scaled))),
        ("filter by hand", lambda: by_hand(bright)),
        ("filter", lambda: ours(ds.filter(bright))),
    ]
    runs = raw["numpy"] = harness.rotate(contenders, rounds)
    for name in ("map", "filter"):
        ratios = [mine / hand for mine, hand in zip(runs[name], runs[f"{name} by hand"], strict=True)]
        findings.append(harness.finding(f"{name} in vectorised NumPy over NumPy by hand", "x", ratios, at_least=0.9))

    rows = 20_000
    chain = Dataset.from_tensor_slices(array[:rows]).shuffle_and_repeat(2_000, None, seed=1).batch(BATCH)
    found = raw["epochs"] = harness.rotate(
        [("shuffle_and_repeat", lambda: gaps(arrivals(chain, rows * 6 // BATCH - 1), rows))], rounds
    )
    relative = [gap / usual for usual, some in found["shuffle_and_repeat"] for gap in some]
    findings.append(harness.finding("gap between epochs, shuffle_and_repeat", "batch times", relative, at_most=1))

    def waits(x: Any) -> Any:
        time.sleep(0.001)
        return x

    def computes(x: Any) -> Any:
        return np.sort(np.sin(np.arange(20_000) * float(x)))

    for title, function in (("waits", waits), ("computes", computes)):
        few = Dataset.range(count // 200)
        contenders = [
            (
                str(calls),
                lambda calls=calls, function=function, few=few: len_over(few.map(function, num_parallel_calls=calls)),
            )
            for calls in (1, 2, 4, 8, 16, AUTOTUNE)
        ]
        runs = raw[f"a function that {title}"] = harness.rotate(contenders, rounds)
        best = [max(runs[str(calls)][turn] for calls in (1, 2, 4, 8, 16)) for turn in range(rounds)]
        ratios = [mine / other for mine, other in zip(runs[str(AUTOTUNE)], best, strict=True)]
        findings.append(
            harness.finding(f"AUTOTUNE over the best fixed number, a function that {title}", "x", ratios, at_least=0.9)
        )
    return harness.report(
        "overheads",
        "what chains, functions, epochs and AUTOTUNE cost, on two cores",
        findings,
        raw,
        parameters={"rows": count, "rounds": rounds},
    )


def len_over(dataset: Any) -> float:
    """Return elements a second."""
    count, seconds = passed(dataset)
    return count / seconds


if __name__ == "__main__":
    harness.main(run)
