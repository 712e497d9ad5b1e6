"""Rows 47 and 48: threads and memory that pipelines of every kind don't get; and row 46: how much they take.

The sweeps are samples; `python tests/helpers/faults/refusals.py`, with the library preloaded, goes through all if one
likes.
"""

import os
import pathlib
import subprocess
import sys
import time

import pytest
from helpers.data.kinds import KINDS
from helpers.faults import refusals
from helpers.process import PATIENCE, _environment, soon

import queuecore
from queuecore.data import FixedLengthRecordDataset
from queuecore.data._nodes import stream

# These ask some thousand times, and take long: each dataset in them is a stream of its own.
MANY = {"windows", "windows of elements", "parallel interleave"}


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    return refusals.library(tmp_path_factory.mktemp("library"))


@pytest.mark.thorough
@pytest.mark.parametrize(("call", "stride"), [(refusals.THREADS, 2), (refusals.MEMORY, 37)])
def test_any_request_may_be_refused(tmp_path, preloaded, call, stride):
    names = sorted(KINDS.keys() - MANY)
    folders = f"{pathlib.Path(queuecore.__file__).parent.parent}:{pathlib.Path(refusals.__file__).parents[2]}"
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-X", "faulthandler", refusals.__file__),
            *map(str, (call, 2, 0, stride, tmp_path, *names)),
        ],
        env={**os.environ, "PYTHONPATH": folders, **refusals.preloaded(preloaded)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert int(done.stdout) > 3 * len(names)


# ---- row 46: a consumer that is slower than what comes --------------------------------------------------------------

SLOW = pathlib.Path(refusals.__file__).parents[2] / "soak/backpressure.py"


@pytest.mark.thorough
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer keeps memory that was freed")
def test_a_slow_consumer_of_an_endless_producer():
    """For seconds; `make soak` watches the same pipelines for ten minutes."""
    done = subprocess.run(
        [sys.executable, "-P", SLOW, "--seconds", "2"],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines()[-1:] == ["bounded"]


@pytest.mark.thorough
def test_a_control_group_s_limit_bounds_what_is_ahead(tmp_path, monkeypatch):
    """`test_machine` reads the limit from the system's files; a process that went beyond it would be killed."""
    (tmp_path / "a").write_bytes(bytes(1 << 22))
    ds = FixedLengthRecordDataset([tmp_path / "a"] * 200, 1 << 18).batch(4).prefetch(1000)

    def most(limit):
        monkeypatch.setattr(stream, "memory_bytes", lambda: limit)
        with iter(ds) as it:
            next(it)
            return max(it.stats()["memory_bytes"] for _ in range(50) if next(it) is not None and not time.sleep(0.002))

    slot = 1 << 20
    assert most(64 << 20) <= (16 << 20) + 10 * slot
    assert most(128 << 20) <= (32 << 20) + 10 * slot
    assert soon(lambda: most(1 << 30) > (42 << 20), PATIENCE)
