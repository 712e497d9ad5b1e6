"""Queues of Python objects: one put and get of each kind, then threads, beside the standard library's.

No file, no native thread: what is measured is the call from Python, and how threads of Python hand over.
"""

from __future__ import annotations

import queue as standard
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402

# Of the pair, against the standard library in the same round.
SIMPLE_AT_MOST = 1.2
QUEUE_AT_LEAST = 15.0
# Of four and four threads, against one and one.
KEPT_AT_LEAST = 0.5


def pairs(q: Any, count: int) -> float:
    """Return nanoseconds for one put and one get."""
    begun = time.perf_counter_ns()
    for _ in range(count):
        q.put(None)
        q.get()
    return (time.perf_counter_ns() - begun) / count


def deque_pairs(q: deque[None], count: int) -> float:
    """Return nanoseconds for one append and one popleft: what no queue can undercut, as it can't wait."""
    begun = time.perf_counter_ns()
    for _ in range(count):
        q.append(None)
        q.popleft()
    return (time.perf_counter_ns() - begun) / count


def threads(q: Any, each_side: int, count: int) -> float:
    """Return objects a second through a queue with so many threads on each side; all of them must arrive."""

    def put(share: int) -> None:
        for number in range(share):
            q.put(number)

    def get(share: int) -> int:
        total = 0
        for _ in range(share):
            total += q.get()
        return total

    rate, total = harness.two_sides(put, get, each_side, count)
    share = count // each_side
    if total != each_side * share * (share - 1) // 2:
        raise SystemExit("objects were lost")
    return rate


def run(options: harness.Options) -> dict[str, Any]:
    """Measure pairs of calls in one thread, and rates of 1 and 1, and of 4 and 4 threads."""
    from queuecore import stdqueue

    count, passed, rounds = (20_000, 20_000, 3) if options.quick else (400_000, 400_000, 15)
    alone: dict[str, Callable[[], float]] = {
        "collections.deque": lambda: deque_pairs(deque(), count),
        "queue.SimpleQueue": lambda: pairs(standard.SimpleQueue(), count),
        "queue.Queue": lambda: pairs(standard.Queue(), count // 10),
        "SimpleQueue": lambda: pairs(stdqueue.SimpleQueue(), count),
        "Queue": lambda: pairs(stdqueue.Queue(), count),
        "Queue(100)": lambda: pairs(stdqueue.Queue(100), count),
        "LifoQueue": lambda: pairs(stdqueue.LifoQueue(), count),
        "PriorityQueue": lambda: pairs(stdqueue.PriorityQueue(), count),
    }
    many: dict[str, Callable[[], float]] = {}
    for name, make, share in (
        ("SimpleQueue", stdqueue.SimpleQueue, 1),
        ("Queue", stdqueue.Queue, 1),
        ("Queue(100)", lambda: stdqueue.Queue(100), 2),
        ("Queue(1)", lambda: stdqueue.Queue(1), 20),
        ("queue.SimpleQueue", standard.SimpleQueue, 1),
        ("queue.Queue(100)", lambda: standard.Queue(100), 4),
        ("queue.Queue(1)", lambda: standard.Queue(1), 20),
    ):
        for side in (1, 4):
            many[f"{name}, {side} and {side} threads"] = lambda make=make, side=side, share=share: threads(
                make(), side, passed // share
            )
    raw = harness.rotate([*alone.items(), *many.items()], rounds)
    findings = [harness.finding(name, "ns/pair", raw[name]) for name in alone]
    for name in ("SimpleQueue", "Queue", "Queue(100)"):
        ratios = [ours / theirs for ours, theirs in zip(raw[name], raw["queue.SimpleQueue"], strict=True)]
        findings.append(harness.finding(f"{name}'s time, of queue.SimpleQueue's", "", ratios, at_most=SIMPLE_AT_MOST))
        ratios = [theirs / ours for ours, theirs in zip(raw[name], raw["queue.Queue"], strict=True)]
        findings.append(harness.finding(f"{name} faster than queue.Queue", "times", ratios, at_least=QUEUE_AT_LEAST))
    findings += [harness.finding(name, "M objects/s", [rate / 1e6 for rate in raw[name]]) for name in many]
    for name in ("SimpleQueue", "Queue", "Queue(100)", "Queue(1)"):
        ratios = [
            four / one
            for one, four in zip(raw[f"{name}, 1 and 1 threads"], raw[f"{name}, 4 and 4 threads"], strict=True)
        ]
        target = None if name == "Queue(1)" else KEPT_AT_LEAST
        findings.append(harness.finding(f"{name}: 4 and 4 threads, of 1 and 1", "", ratios, at_least=target))
    return harness.report(
        "stdqueue",
        "queues of Python objects beside the standard library's",
        findings,
        raw,
        parameters={"pairs": count, "objects": passed, "rounds": rounds},
        notes=[
            "Queue(1) has no target for threads: each object is a hand-over of the GIL there. Two threads in lock-step "
            "spin and need no sleep; of more, all but one on each side sleep, as with queue.Queue."
        ],
    )


if __name__ == "__main__":
    harness.main(run)
