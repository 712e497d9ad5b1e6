"""`it.trace(path)` of iterators whose elements are on a device."""

import ctypes
import json
import threading

import numpy as np
import pytest
from helpers.device.devices import plane

from queuecore._observe import nvtx
from queuecore.data import Dataset


@pytest.fixture
def cuda(fake_cuda_library):
    yield from plane(fake_cuda_library)


@pytest.mark.parametrize("schedule", ["equal", "slow_copy"])
def test_copies_follow_their_batches(cuda, tmp_path, schedule):
    """Also where the trace ends while the last copy is on its way: the consumer doesn't wait for copies."""
    cuda.fake.schedule(schedule, seed=1)
    path = tmp_path / "trace.json"
    numbers = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    with iter(cuda.of(Dataset.from_tensor_slices(numbers).batch(100))) as it:
        it.trace(path)
        for batch in it:
            batch.consume(batch.numpy())
            del batch
    events = json.loads(path.read_text())
    copies = [event for event in events if event["name"] == "copy"]
    assert [event["args"] for event in copies] == [{"batch": i, "bytes": 1600} for i in range(10)]
    (row,) = {(event["pid"], event["tid"]) for event in copies}
    assert [
        event["args"]["name"]
        for event in events
        if event["name"] == "thread_name" and (event["pid"], event["tid"]) == row
    ] == ["copies to the device"]
    flows = {}
    for event in events:
        if event.get("cat") == "batch":
            flows.setdefault(event["id"], []).append(event["tid"])
    assert len(flows) == 10
    for rows in flows.values():  # a reader, or the consumer that helps; the copy; the consumer
        assert rows[0] != row[1] and row[1] in rows[1:] and 0 in rows[1:]


def test_elements_that_are_staged(cuda, tmp_path):
    """Their consumer is the thread that sends them on."""
    path = tmp_path / "trace.json"
    ds = Dataset.from_tensor_slices({"name": [b"a", b"bc", b"d"] * 10, "x": np.arange(30.0)}).batch(5)
    with iter(cuda.of(ds)) as it:
        it.trace(path)
        for batch in it:
            del batch
        rows = it.stages()
    assert rows[0]["records"] == 30
    events = json.loads(path.read_text())
    taken = [one for one in events if one["name"].startswith("batch ") and one["ph"] == "X"]
    assert [one["args"]["batch"] for one in taken] == [*range(6)]


def test_ranges_of_nvtx(cuda, tmp_path, monkeypatch):
    """In the thread that does the work, around what it does."""
    open_, done = {}, []

    def push(name):
        open_.setdefault(threading.get_native_id(), []).append(name.decode())
        return 0

    def pop():
        thread = threading.get_native_id()
        done.append((thread, open_[thread].pop()))
        return 0

    functions = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(push), ctypes.CFUNCTYPE(ctypes.c_int)(pop)
    addresses = tuple(ctypes.cast(one, ctypes.c_void_p).value for one in functions)
    monkeypatch.setattr("queuecore._observe.trace.range_functions", lambda: addresses)
    # More batches than are made before a trace begins.
    ds = Dataset.from_tensor_slices(np.zeros((1000, 4))).repeat(200).batch(1000)
    with iter(ds) as it, it.trace(tmp_path / "host.json"):
        assert sum(1 for _ in it) == 200
    assert not done  # nothing goes to a device
    with iter(cuda.of(ds)) as it, it.trace(tmp_path / "device.json"):
        assert sum(1 for _ in it) == 200
    assert sum(name == "copy" for _, name in done) == 200
    assert any(name == "make rows" for _, name in done)
    assert len({thread for thread, name in done if name == "copy"}) == 1
    assert not any(open_.values())


@pytest.mark.parametrize("library", ["libnowhere.so.1", "libc.so.6"])
def test_without_nvtx(library, monkeypatch):
    monkeypatch.setattr(nvtx, "_LIBRARY", library)
    assert nvtx._functions_anew() == (0, 0)
