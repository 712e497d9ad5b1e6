"""Queues of typed elements from Python threads, beside TensorFlow's own eager queue where it is installed.

Elements one by one: rows of 4 KiB, one thread putting and one taking, then four and four. Large elements: 512 KiB, put
and taken by one thread, against two `numpy.copyto` of the same bytes, which is what a queue that copies in and out
can't undercut; then with `reserve` and `lease`, which copy nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402

ROW = 1024  # float32: 4 KiB
LARGE = 128 * 1024  # float32: 512 KiB
CAPACITIES = (50, 1000)


def passed(q: Any, row: Any, each_side: int, count: int, take: Callable[[Any], float]) -> float:
    """Return elements a second with so many threads on each side. `take` returns an element's first value."""

    def put(share: int) -> None:
        for _ in range(share):
            q.enqueue([row])

    def get(share: int) -> float:
        total = 0.0
        for number in range(share):
            element = q.dequeue()
            if number % 100 == 0:  # a look at each would measure the look
                total += take(element)
        return total

    rate, total = harness.two_sides(put, get, each_side, count)
    if total != each_side * len(range(0, count // each_side, 100)):
        raise SystemExit("elements are wrong")
    return rate


def microseconds(once: Callable[[], None], count: int) -> float:
    """Return the time of one call."""
    begun = time.perf_counter_ns()
    for _ in range(count):
        once()
    return (time.perf_counter_ns() - begun) / count / 1e3


def run(options: harness.Options) -> dict[str, Any]:
    """Measure small elements between threads and large ones in one thread."""
    import numpy as np

    import queuecore as qc

    count, large, rounds = (4_000, 50, 3) if options.quick else (40_000, 500, 15)
    row = np.ones(ROW, np.float32)
    absences: dict[str, str] = {}
    peers: dict[str, str] = {}
    contenders: list[tuple[str, Callable[[], float]]] = []
    for capacity in CAPACITIES:
        for side in (1, 4):
            contenders.append(
                (
                    f"FIFOQueue({capacity:,}), {side} and {side} threads",
                    lambda capacity=capacity, side=side: passed(
                        qc.FIFOQueue(capacity, [np.float32], [(ROW,)]), row, side, count, lambda element: element[0]
                    ),
                )
            )
    rival = "TensorFlow's eager FIFOQueue(1,000), 1 and 1 threads"
    if options.peers:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        try:
            tf = importlib.import_module("tensorflow")
        except ImportError as error:
            absences[rival] = str(error)
        else:
            peers["tensorflow"] = version("tensorflow-cpu") if _has("tensorflow-cpu") else version("tensorflow")
            contenders.append(
                (
                    rival,
                    lambda: passed(
                        tf.queue.FIFOQueue(1000, [tf.float32], [(ROW,)]),
                        row,
                        1,
                        max(count // 20, 200),
                        lambda element: float(element.numpy()[0]),
                    ),
                )
            )

    block, middle, target = (np.ones(LARGE, np.float32) for _ in range(3))
    q = qc.FIFOQueue(8, [np.float32], [(LARGE,)])

    def copies() -> None:
        np.copyto(middle, block)
        np.copyto(target, middle)

    def copied() -> None:
        q.enqueue(block)
        q.dequeue()

    def placed() -> None:
        with q.reserve(1, clear=False):
            pass
        with q.lease(1):
            pass

    def cleared() -> None:
        with q.reserve(1):
            pass
        with q.lease(1):
            pass

    contenders += [
        ("two copies of 512 KiB", lambda: microseconds(copies, large)),
        ("512 KiB, enqueue and dequeue", lambda: microseconds(copied, large)),
        ("512 KiB, reserve and lease", lambda: microseconds(placed, large)),
        ("512 KiB, reserve as zeros and lease", lambda: microseconds(cleared, large)),
    ]
    raw = harness.rotate(contenders, rounds)
    findings = [
        harness.finding(name, "k elements/s", [rate / 1e3 for rate in raw[name]])
        for name, _ in contenders
        if name.endswith("threads")
    ]
    for capacity in CAPACITIES:
        single, four = (raw[f"FIFOQueue({capacity:,}), {side} and {side} threads"] for side in (1, 4))
        if rival in raw:
            findings.append(
                harness.finding(
                    f"FIFOQueue({capacity:,}), 1 and 1 threads, of TensorFlow's",
                    "times",
                    [ours / theirs for ours, theirs in zip(single, raw[rival], strict=True)],
                    at_least=20,
                )
            )
        findings.append(
            harness.finding(
                f"FIFOQueue({capacity:,}): 4 and 4 threads, of 1 and 1",
                "",
                [many / few for many, few in zip(four, single, strict=True)],
                at_least=0.5,
            )
        )
    for name in (
        "two copies of 512 KiB",
        "512 KiB, enqueue and dequeue",
        "512 KiB, reserve and lease",
        "512 KiB, reserve as zeros and lease",
    ):
        findings.append(harness.finding(name, "us", raw[name]))
    findings.append(
        harness.finding(
            "512 KiB, enqueue and dequeue: speed of two copies",
            "",
            [
                floor / ours
                for floor, ours in zip(raw["two copies of 512 KiB"], raw["512 KiB, enqueue and dequeue"], strict=True)
            ],
            at_least=0.8,
        )
    )
    findings.append(harness.finding("rows copied by reserve and lease", "", [q.stats()["copied_rows"]], at_most=0))
    return harness.report(
        "queues",
        "queues of typed elements from Python threads",
        findings,
        raw,
        parameters={"elements": count, "large": large, "rounds": rounds, "row_bytes": 4 * ROW, "peers": peers},
        absences=absences,
    )


def _has(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    harness.main(run)
