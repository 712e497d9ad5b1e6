"""Large counts over little data: what memory they touch. A process prints one line of JSON for each case.

Each case has a process of its own, forked before anything has run.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import queuecore as qc
from queuecore import data

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
PAGE = resource.getpagesize()


def numbers(n: int = 10) -> Any:
    return data.Dataset.range(n)


def elements(dataset: Any) -> list[Any]:
    with iter(dataset) as it:
        return sorted(x for one in it for x in np.ravel(one).tolist())


def lines() -> Any:
    return data.TextLineDataset(str(FOLDER / "lines"))


def words(dataset: Any) -> list[Any]:
    with iter(dataset) as it:
        return [int(x) for one in it for x in one.to_list()]


def queue(make: Callable[..., Any], *arguments: Any) -> list[Any]:
    made = make(*arguments, [np.int64], [()])
    rows = [np.arange(10)]
    made.enqueue_many(rows * 2 if make is qc.PriorityQueue else rows)
    made.close()
    got = made.dequeue_up_to(2**62)
    return sorted(np.asarray(got[1] if isinstance(got, list) else got).tolist())


def fixed() -> Any:
    return data.FixedLengthRecordDataset(str(FOLDER / "fixed"), record="u1")


CASES: dict[str, Callable[[], list[Any]]] = {
    "nothing large": lambda: elements(numbers()),
    "prefetch": lambda: elements(numbers().prefetch(10**7)),
    "prefetch of batches": lambda: elements(numbers().batch(2).prefetch(10**7)),
    "prefetch of records": lambda: elements(fixed().batch(2).prefetch(10**9)),
    "prefetch of lines": lambda: words(lines().batch(2).prefetch(10**7)),
    "prefetch in a budget": lambda: words(
        lines().batch(2).prefetch(10**7).with_options(data.Options(memory_budget=16 << 20))
    ),
    "shuffle": lambda: elements(numbers().shuffle(2**31 - 1, seed=1)),
    "shuffle of batches": lambda: elements(numbers().batch(2).shuffle(10**9, seed=1)),
    "shuffle of records": lambda: elements(fixed().shuffle(10**9, seed=1)),
    "shuffle of lines": lambda: sorted(words(lines().shuffle(10**9, seed=1).batch(3))),
    "batch": lambda: elements(numbers().batch(10**8)),
    "batch of records": lambda: elements(fixed().batch(10**8)),
    "batch of lines": lambda: words(lines().batch(10**8)),
    "padded_batch": lambda: elements(numbers().padded_batch(10**8, ())),
    "batch of objects": lambda: elements(
        data.Dataset.from_generator(lambda: iter(range(10)), np.int64, ()).batch(10**9)
    ),
    "window": lambda: elements(numbers().window(10**9).flat_map(lambda one: one)),
    "interleave": lambda: elements(numbers().interleave(lambda x: numbers(1).map(lambda y: y + x), 2**16)),
    "interleave of files": lambda: [
        int(x) for x in data.Dataset.from_tensor_slices([str(FOLDER / "lines")]).interleave(data.TextLineDataset, 2**16)
    ],
    "calls in parallel": lambda: [int(x) for x in numbers().map(lambda x: np.int64(str(x)), 2**31 - 1)],
    "shard": lambda: [*elements(numbers().shard(2**31 - 1, 0)), *range(1, 10)],
    "leases": lambda: elements(numbers().batch(2).with_options(data.Options(max_leases=65536))),
    "RandomShuffleQueue": lambda: queue(qc.RandomShuffleQueue, 2**24 - 1, 0),
    "PriorityQueue": lambda: queue(qc.PriorityQueue, 2**24 - 1),
}


def run(name: str) -> None:
    begin = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    try:
        found = CASES[name]()
    except Exception as error:  # noqa: BLE001 - told to the parent
        print(json.dumps([name, f"{type(error).__name__}: {error}", 0]), flush=True)
        return
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([name, "" if found == list(range(10)) else repr(found)[:200], most - begin]), flush=True)


def main() -> None:
    for name in CASES:
        child = os.fork()
        if child == 0:
            run(name)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps([name, f"status {status}", 0]), flush=True)


if __name__ == "__main__":
    main()
