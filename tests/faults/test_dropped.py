"""Iterators that are dropped before their end give their memory back."""

import json
import os

import pytest
from helpers.process import run_python

MIB = 1 << 20
SCRIPT = """
    import gc, json, os, sys, threading, time
    import numpy as np
    from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset

    folder, kind = sys.argv[1:]
    ds = {
        "records": lambda: FixedLengthRecordDataset(folder + "/fixed", 100).batch(32),
        "lines": lambda: TextLineDataset(folder + "/lines").batch(32),
        "generator": lambda: Dataset.from_generator(lambda: iter(range(1000)), np.int64, ()).batch(8),
    }[kind]().with_options(Options(num_threads=2))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def drop(count):
        # The least of a few: what is being dropped just then goes a little later.
        least = 1 << 60
        for number in range(count):
            it = iter(ds)
            next(it)
            del it
            if count - number <= 10:
                deadline = time.monotonic() + 1
                while len(os.listdir("/proc/self/task")) > 1 + threading.active_count() and time.monotonic() < deadline:
                    time.sleep(0.001)
                least = min(least, resident())
        return least

    before = drop(100)
    print(json.dumps(drop(900) - before))
"""


@pytest.mark.thorough
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer keeps memory that was freed")
@pytest.mark.parametrize("kind", ["records", "lines", "generator"])
def test_a_thousand_dropped_iterators_leave_no_memory(tmp_path, kind):
    (tmp_path / "fixed").write_bytes(bytes(100 << 14))
    (tmp_path / "lines").write_text("a line of text\n" * 20000)
    done = run_python(SCRIPT, tmp_path, kind, timeout=55)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) < 16 * MIB
