"""Rows 47 and 48: threads and memory that pipelines of every kind don't get; and row 46: how much they take.

The sweeps are samples; `python tests/helpers/faults/refusals.py`, with the library preloaded, goes through all if one
likes.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from helpers.data.kinds import KINDS
from helpers.faults import refusals
from helpers.process import run_python

import queuecore

# These ask some thousand times, and take long: each dataset in them is a stream of its own.
MANY = {"windows", "windows of elements", "parallel interleave"}


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    return refusals.library(tmp_path_factory.mktemp("library"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("what", "stride"), [(refusals.THREADS, 2), (refusals.MEMORY, 37)])
def test_any_request_may_be_refused(tmp_path, preloaded, what, stride):
    names = sorted(KINDS.keys() - MANY)
    folders = f"{pathlib.Path(queuecore.__file__).parent.parent}:{pathlib.Path(refusals.__file__).parents[2]}"
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-X", "faulthandler", refusals.__file__),
            *map(str, (what, 2, 0, stride, tmp_path, *names)),
        ],
        env={**os.environ, "PYTHONPATH": folders, "LD_PRELOAD": str(preloaded)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert int(done.stdout) > 3 * len(names)


# ---- row 46: a consumer that is slower than what comes --------------------------------------------------------------

ENDLESS = """
import itertools, resource, sys, time
import numpy as np
import queuecore as qc
from helpers.data.functions import in_python
from queuecore.data import Dataset, FixedLengthRecordDataset, Options
path, budget = sys.argv[1], 8 << 20
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
records = FixedLengthRecordDataset(path, record=np.dtype(("u1", (4096,)))).repeat()
pipelines = [
    records.shuffle(100, seed=1).filter(lambda x: x[0] < 255).batch(16).prefetch(10_000),
    records.padded_batch(4, [None]).unbatch().rebatch(8).prefetch(10_000),
    Dataset.zip(records, records.skip(7)).batch(8).prefetch(10_000),
    Dataset.range(10**9).interleave(lambda x: records.take(1000), 2).padded_batch(8, [None]).prefetch(10_000),
    records.map(in_python(lambda x: x[::-1]), 3).batch(4),
]
for ds in pipelines:
    with iter(ds.with_options(Options(memory_budget=budget))) as it:
        for _ in itertools.islice(it, 300):
            pass
        begun = resident()
        most = 0
        for _ in range(8):
            time.sleep(0.05)  # the slow consumer: producers run ahead as far as they may
            for _ in itertools.islice(it, 20):
                most = max(most, it.stats()["memory_bytes"])
        grown = resident() - begun
        assert 0 < most <= budget, (ds, most)
        assert grown <= budget * 1.1, (ds, grown)
print("bounded")
"""


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer keeps memory that was freed")
def test_a_slow_consumer_of_an_endless_producer(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(os.urandom(4096) * 1000)
    done = run_python(ENDLESS, path)
    assert (done.stderr, done.stdout, done.returncode) == ("", "bounded\n", 0)
