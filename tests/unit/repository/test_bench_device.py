"""The benchmark of the device plane, once without a GPU and once on one whose memory is the host's."""

import ctypes
import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from queuecore.data import Dataset

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are in no sdist", allow_module_level=True)

# Leaves no trace on the path where modules are looked for.
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER / "e2e")
    bench, host_plane, harness = map(importlib.import_module, ("bench_device", "bench_host_plane", "harness"))

TINY = {"nbytes": 2**19, "arena": 2**19, "sizes": (2**16, 2**17), "depths": (1, 2), "step_sizes": (2**16,)}
TINY |= {"steps_ms": (0.1,), "rounds": 1, "locks": 1, "seconds": 1e-3, "copy_seconds": 1e-3, "warm_up": 4}
PLAN = bench.Plan(**TINY)
KEYS = {"name", "what", "command", "parameters", "notes", "absent", "findings", "raw"}


class HostGpu:
    """What the benchmark asks of a GPU. A turn of a step takes a nanosecond, by the clock of its events."""

    ordinal, time, sum = 0, 0.0, 0
    address = staticmethod(lambda array: array.ctypes.data)
    copy = staticmethod(ctypes.memmove)
    milliseconds = staticmethod(lambda before, after: after.time - before.time)

    def __getattr__(self, name):
        return lambda *_: {}  # about, now, free, lock, unlock, synchronize: nothing happens

    def event(self):
        return types.SimpleNamespace(time=self.time, synchronize=lambda: None)

    def record(self, event):
        event.time = self.time

    def allocate(self, nbytes):
        array = np.empty(nbytes, np.uint8)
        return types.SimpleNamespace(ptr=array.ctypes.data, array=array)

    def step(self, address, nbytes, turns):
        self.time += 1e-6 * turns
        self.sum += bench.checksum(np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8))

    def total(self):
        total, self.sum = self.sum % 2**64, 0
        return total


def test_on_a_gpu_every_line_has_a_figure(monkeypatch):
    monkeypatch.setattr(bench, "Gpu", HostGpu)
    monkeypatch.setattr(bench, "QUICK", PLAN)
    monkeypatch.setattr(Dataset, "prefetch_to_device", lambda dataset, *_: dataset)
    result = bench.run(harness.Options(quick=True, peers=False))
    assert set(result) == KEYS
    lines = {(finding["name"], finding["unit"]): finding for finding in result["findings"]}
    assert list(lines) == [(cell.name, cell.unit) for cell in bench.cells_of(PLAN)]
    for (name, _), finding in lines.items():
        if "DataLoader" in name:
            assert "--no-peers" in finding["not_measured"]
        else:
            assert 0 < finding["min"] <= finding["median"] <= finding["max"] < np.inf, finding
    step, copies = result["raw"]["step of 0.1 ms, 64 KiB"], result["raw"]["ceiling, 64 KiB"]
    assert step["device_ms_alone"] == pytest.approx(0.1, rel=0.01)
    ours, resident = (step["runs"][name][0]["ms"] for name in ("queuecore", "resident"))
    name = "step of 0.1 ms, 64 KiB: queuecore"
    assert lines[name, "of resident"]["median"] == pytest.approx(ours / resident)
    link = 2**16 / copies["ceiling"][0] * 1e3
    assert lines[name, "of the bound"]["median"] == pytest.approx(max(resident, link) / ours)
    assert lines["64 KiB: loader", "of the ceiling"]["median"] == copies["loader"][0] / copies["ceiling"][0]


def test_without_a_gpu_every_line_says_why(tmp_path):
    command = [sys.executable, "-P", str(FOLDER / "e2e/bench_device.py"), "--json", str(tmp_path / "a.json"), "--quick"]
    done = subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "a.json").read_text())
    assert set(result) >= KEYS and len(result["findings"]) == len(bench.cells_of(bench.QUICK))
    assert all(one["not_measured"].startswith("no GPU: ") for one in result["findings"])


def test_wrong_bytes_end_it():
    gpu, batches = HostGpu(), np.random.default_rng(2).integers(0, 256, (3, 32), np.uint8)
    sums = [sum((2 * i + 1) * int(word) for i, word in enumerate(one.view(np.uint32))) for one in batches]
    bench.check_epoch(gpu, bench.Resident(gpu, batches, sums), 32, "right")
    with pytest.raises(SystemExit, match="wrong bytes in one of the batches 2 to 2"):
        bench.check_epoch(gpu, bench.Resident(gpu, batches, [*sums[:2], sums[2] ^ 1]), 32, "wrong")
    assert bench.total_of([2**63 + 5, 7, 11], 4, 5) == 2**63 + 5 + 2 * (7 + 11)


@pytest.mark.parametrize(("count", "first"), [(3, 1), (8, 1), (9, 2), (21, 6), (50, 18)])
def test_the_interval_of_a_median_is_that_of_the_sign_test(count, first):
    assert host_plane.interval(range(count, 0, -1)) == (first, count + 1 - first)
