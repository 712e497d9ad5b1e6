"""CuPy itself, on a machine without a GPU: what is made of its classes, and that without a driver the host is used."""

import gc
import importlib.util
import logging
import sys
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

import queuecore as qc
from queuecore._device.arrays import CuPyArrays
from queuecore.cli import demo
from queuecore.data import Dataset
from queuecore.errors import DeviceUnavailableError

pytestmark = pytest.mark.doors

cupy = pytest.importorskip("cupy", reason="CuPy is not installed: make doors")

try:
    qc._core.device.driver.open_driver()
    pytest.skip("there is a CUDA driver", allow_module_level=True)
except DeviceUnavailableError:
    pass


class Lease:
    """As much of a batch's lease as CuPy needs: memory that nobody reads here."""

    address, nbytes = 1 << 20, 4096


@pytest.fixture
def arrays():
    return CuPyArrays(types.SimpleNamespace(ordinal=0))


@pytest.mark.parametrize("word", ["?", "u1", "i4", "i8", "f2", "f4", "f8", "c8"])
def test_an_array_lies_in_a_batch(arrays, word):
    memory = arrays.memory(Lease())
    dtype = np.dtype(word)
    one = arrays.array(memory, 64, (2, 3, 4), dtype)
    assert isinstance(one, cupy.ndarray)
    assert (one.shape, one.dtype, one.nbytes) == ((2, 3, 4), dtype, 24 * dtype.itemsize)
    assert arrays.address(memory) == Lease.address and one.data.ptr == Lease.address + 64
    assert one.flags.c_contiguous


def test_a_view_is_one_of_a_batch_too(arrays):
    one = arrays.array(arrays.memory(Lease()), 0, (4, 8), np.dtype("f4"))
    for view in (one[1:], one.reshape(8, 4), one.T, one[:, 2]):
        assert type(view) is type(one) and type(view).__dlpack__ is not cupy.ndarray.__dlpack__
    assert one[1:].data.ptr == Lease.address + 32


def test_arrays_and_their_views_keep_the_batch(arrays):
    lease = Lease()
    alive = weakref.ref(lease)
    one = arrays.array(arrays.memory(lease), 0, (4,), np.dtype("f4"))
    del lease
    view = one[2:]
    del one
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_without_a_driver_the_driver_is_named_and_not_cupy(caplog, monkeypatch):
    monkeypatch.setattr("queuecore._device.arrays._told", False)
    with pytest.raises(DeviceUnavailableError, match="no CUDA driver"):
        Dataset.range(3).prefetch_to_device("cuda")
    with caplog.at_level(logging.WARNING, "queuecore"):
        assert [int(one) for one in Dataset.range(3).prefetch_to_device("auto")] == [0, 1, 2]
    assert "no CUDA driver" in caplog.text


def test_the_demo_computes_with_numpy():
    assert demo._array_module() == (np, f"NumPy {np.__version__}")


def test_the_example_computes_with_numpy_and_says_why(monkeypatch):
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "e2e" / "feed_vs_queue.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, example)
    spec.loader.exec_module(example)
    plane = example.find_plane("auto")
    assert (plane.xp, plane.device) == (np, "cpu")
    assert "CUDA" in plane.why
