"""The device plane on a machine without a device: what is asked for, and the host in its place."""

import copy
import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest
from helpers.data.functions import in_python

import queuecore as qc
from queuecore._device import arrays
from queuecore._device.target import Asked
from queuecore.data import Dataset, DeviceDataset, Options
from queuecore.errors import DeviceUnavailableError, InvalidArgumentError

try:
    qc._core.device.driver.open_driver()
    pytest.skip("there is a CUDA driver", allow_module_level=True)
except DeviceUnavailableError:
    pass


@pytest.fixture
def ds():
    return Dataset.range(10).batch(4)


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("mode", ["lease", "ring"])
def test_the_host_in_place_of_a_device(ds, device, mode):
    there = ds.prefetch_to_device(device, mode=mode)
    assert there.element_spec == ds.element_spec
    assert there.cardinality() == 3
    assert [one.tolist() for one in there] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(type(one) is np.ndarray for one in there)
    assert "stay on the host" in there.plan()


def test_maps(ds):
    there = ds.prefetch_to_device("cpu").map(lambda x: (x, x * 2)).map(in_python(lambda x, y: {"sum": x + y}))
    assert [one["sum"].tolist() for one in there] == [[0, 3, 6, 9], [12, 15, 18, 21], [24, 27]]


def test_marked_maps(ds):
    """Are maps like any other."""
    marked = ds.map(lambda x: x * 2, on_device=True)
    there = marked.prefetch_to_device("cpu").map(in_python(lambda x: x + 1))
    assert [one.tolist() for one in there] == [[1, 3, 5, 7], [9, 11, 13, 15], [17, 19]]
    assert there.plan().count("not on the device: ") == 2
    assert marked.prefetch_to_device("auto").plan().count("not on the device: batches stay on the host") == 1
    assert marked.plan() == ds.map(lambda x: x * 2).plan()


@pytest.mark.parametrize("mark", [1, None, "cuda", "cpu"])
def test_marks_that_mean_nothing(ds, mark):
    with pytest.raises(InvalidArgumentError, match="on_device"):
        ds.map(lambda x: x, on_device=mark)


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(ds, device, way):
    shuffled = ds.shuffle(3, seed=1, reshuffle_each_iteration=False)
    there = shuffled.map(qc.ops.scale(a=2), on_device=True).prefetch_to_device(device, 5)
    other = way(there.with_options(Options(num_threads=1)))
    assert other.plan() == there.plan()
    assert [one.tolist() for one in other] == [one.tolist() for one in there]


def test_a_copy_of_what_asks_for_a_device(ds):
    there = DeviceDataset(ds._chain, None, Asked("cuda", 3, "lease", "require"))
    for way in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        with pytest.raises(DeviceUnavailableError, match="no CUDA driver"):
            way(there)


def test_places(ds):
    with iter(ds.prefetch_to_device("cpu")) as it:
        next(it)
        state = it.state_dict()
    with iter(ds.prefetch_to_device("cpu", buffers=5)) as it:
        it.load_state_dict(state)
        assert next(it).tolist() == [4, 5, 6, 7]


def test_options(ds):
    there = ds.prefetch_to_device("cpu").with_options(Options(max_leases=1, on_hold="raise"))
    with iter(there) as it:
        kept = next(it)
        with pytest.raises(qc.errors.SlotsExhaustedError):
            next(it)
        del kept


def test_why_is_told_once(ds, caplog, monkeypatch):
    monkeypatch.setattr(arrays, "_told", False)
    with caplog.at_level(logging.WARNING, "queuecore"):
        for _ in range(3):
            list(ds.prefetch_to_device())
    assert len(caplog.records) == 1
    assert "no CUDA driver" in caplog.records[0].getMessage()


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
def test_a_device_that_is_asked_for(ds, device):
    with pytest.raises(DeviceUnavailableError, match="no CUDA driver"):
        ds.prefetch_to_device(device)
    with pytest.raises(DeviceUnavailableError, match="no CUDA driver"):
        qc.FIFOQueue(1, [np.float32], [()]).to_device(device)


@pytest.mark.parametrize(
    "words",
    [
        {"device": "gpu"},
        {"device": "cuda:"},
        {"device": "cuda:x"},
        {"device": "cuda:-1"},
        {"device": 0},
        {"device": None},
        {"device": "cpu", "buffers": 1},
        {"device": "cpu", "buffers": 65},
        {"device": "cpu", "buffers": 2.5},
        {"device": "cpu", "mode": "rings"},
        {"device": "cpu", "pinned": "no"},
        {"device": "cpu", "pinned": True},
    ],
    ids=str,
)
def test_words_that_mean_nothing(ds, words):
    with pytest.raises(InvalidArgumentError):
        ds.prefetch_to_device(**words)
    with pytest.raises(InvalidArgumentError):
        qc.FIFOQueue(1, [np.float32], [()]).to_device(**words)


def test_a_queue_on_the_host():
    queue = qc.FIFOQueue(5, [np.float32, np.int32], [(2,), ()])
    queue.enqueue_many([np.ones((3, 2)), np.arange(3)])
    queue.close()
    with queue.to_device("auto") as it:
        assert [(x.tolist(), int(n)) for x, n in it] == [([1, 1], 0), ([1, 1], 1), ([1, 1], 2)]


def test_cupy_is_not_imported(tmp_path):
    (tmp_path / "cupy.py").write_text("raise SystemExit('cupy was imported')")
    code = """
import queuecore as qc
for device in ("cpu", "auto"):
    list(qc.data.Dataset.range(3).prefetch_to_device(device).map(lambda x: x + 1))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stdout + done.stderr
