"""Endless pipelines before a consumer that is slower than they: how much memory they hold, and how the process grows.

`make soak` runs it for ten minutes; tests/faults/test_data_refusals.py for as long as a test may take.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import pathlib
import resource
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from helpers.data.functions import in_python

from queuecore.data import Dataset, FixedLengthRecordDataset, Options

BUDGET = 8 << 20
RECORD_BYTES = 4096
# The process may grow so much above the budget.
SLACK = 1.1


def pipelines(path: pathlib.Path) -> list[Dataset]:
    """Return endless ones, whose steps keep memory in every way there is."""
    records = FixedLengthRecordDataset(path, record=np.dtype(("u1", (RECORD_BYTES,)))).repeat()
    return [
        records.shuffle(100, seed=1).filter(lambda x: x[0] < 255).batch(16).prefetch(10_000),
        records.padded_batch(4, [None]).unbatch().rebatch(8).prefetch(10_000),
        Dataset.zip(records, records.skip(7)).batch(8).prefetch(10_000),
        Dataset.range(10**9).interleave(lambda x: records.take(1000), 2).padded_batch(8, [None]).prefetch(10_000),
        records.map(in_python(lambda x: x[::-1]), 3).batch(4),
    ]


def watch(it: Any, seconds: float) -> tuple[int, int, int]:
    """Take elements slowly; return the most bytes that were held, by how many it grew, and how many elements came."""
    count = sum(1 for _ in itertools.islice(it, 300))
    begun = _resident()
    end = time.monotonic() + seconds
    peak = grown = 0
    while time.monotonic() < end:
        time.sleep(0.05)  # the slow consumer: producers run ahead as far as they may
        for _ in itertools.islice(it, 20):
            peak = max(peak, it.stats()["memory_bytes"])
            count += 1
        grown = max(grown, _resident() - begun)
    return peak, grown, count


def _resident() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


@contextlib.contextmanager
def _records() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "records")
        path.write_bytes(os.urandom(RECORD_BYTES) * 1000)
        yield path


def main() -> None:
    """Watch each pipeline for its part of the time, say what was seen, and fail where that is too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    with _records() as path:
        made = pipelines(path)
        for number, ds in enumerate(made):
            with iter(ds.with_options(Options(memory_budget=BUDGET))) as it:
                most, grown, taken = watch(it, seconds / len(made))
            print(
                f"pipeline {number}: {most} bytes held at most, {grown} more in the process, {taken} elements",
                flush=True,
            )
            assert 0 < most <= BUDGET, "more than the budget is held"
            assert grown <= BUDGET * SLACK, "the process has grown more than the budget allows"
    print("bounded")


if __name__ == "__main__":
    main()
