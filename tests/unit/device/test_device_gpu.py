"""Batches on a GPU that is there: what the fake driver can't show."""

import threading

import numpy as np
import pytest
from helpers.data.functions import in_python

import queuecore as qc
from queuecore.data import Dataset

pytestmark = pytest.mark.gpu

try:
    qc.device.chosen("cuda")
except qc.errors.DeviceUnavailableError as error:
    pytest.skip(f"no GPU with CuPy: {error}", allow_module_level=True)

cupy = pytest.importorskip("cupy")

ROWS = np.random.default_rng(0).integers(0, 256, (5000, 32, 32, 3), np.uint8)


def widened(x):
    return qc.ops.transpose(qc.ops.cast(x, np.float32) / 255, (0, 3, 1, 2))


KINDS = {
    "as they lie": lambda ds: ds,
    "put together": lambda ds: ds.map(in_python(lambda x: {"x": x})).map(in_python(lambda x: x["x"])),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("own_stream", [False, True])
def test_bytes(name, own_stream):
    ds = KINDS[name](Dataset.from_tensor_slices(ROWS).batch(64))
    stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
    with stream, iter(ds.prefetch_to_device("cuda:0")) as it:
        for at, got in enumerate(it):
            wanted = ROWS[64 * at : 64 * at + 64]
            assert isinstance(got, cupy.ndarray)
            assert int(got.sum(dtype=np.int64)) == int(wanted.sum(dtype=np.int64))
            assert np.array_equal(cupy.asnumpy(got), wanted)
        assert it.stats()["pageable_copies"] == 0


def test_a_map_is_the_host_s_bit_for_bit():
    host = Dataset.from_tensor_slices(ROWS).batch(100)
    before = Dataset.from_tensor_slices(ROWS).map(lambda x: qc.ops.cast(x, np.float32) / 255, on_device=True)
    for device_ds in (
        host.prefetch_to_device("cuda").map(widened),
        host.map(widened, on_device=True).prefetch_to_device("cuda"),
        before.batch(100).prefetch_to_device("cuda").map(lambda x: qc.ops.transpose(x, (0, 3, 1, 2))),
    ):
        assert "one kernel, in the stream" in device_ds.plan()
        for got, wanted in zip(device_ds, host.map(widened), strict=True):
            assert cupy.asnumpy(got).tobytes() == wanted.tobytes()


def test_slow_consumers_keep_their_batches():
    """Each is read twice on the device, long apart; the sums agree."""
    slow = cupy.ones((4096, 4096), np.float32)
    sums = []
    with cupy.cuda.Stream(non_blocking=True):
        for got in Dataset.from_tensor_slices(ROWS).batch(50).prefetch_to_device("cuda", buffers=2):
            first = got.sum(dtype=np.int64)
            slow @ slow
            sums.append((first, got.sum(dtype=np.int64)))
            del got
        sums = [(int(one), int(two)) for one, two in sums]
    assert sums == [(int(ROWS[at : at + 50].sum(dtype=np.int64)),) * 2 for at in range(0, 5000, 50)]


def test_a_stream_aside_keeps_its_batches():
    """It reads each long after the consumer's stream was done with it."""
    slow = cupy.ones((4096, 4096), np.float32)
    side = cupy.cuda.Stream(non_blocking=True)
    sums = []
    for result in Dataset.from_tensor_slices(ROWS).batch(50).prefetch_to_device("cuda", buffers=2):
        side.wait_event(cupy.cuda.get_current_stream().record())
        with side:
            slow @ slow
            sums.append(result.sum(dtype=np.int64))
        qc.device.record_stream(result, side)
        del result
    side.synchronize()
    assert [int(one) for one in sums] == [int(ROWS[at : at + 50].sum(dtype=np.int64)) for at in range(0, 5000, 50)]


def test_kept_batches_are_copies_of_their_own():
    with pytest.warns(RuntimeWarning, match="more than 2 batches"):
        kept = list(Dataset.from_tensor_slices(ROWS).batch(500).prefetch_to_device("cuda"))
    for at, got in enumerate(kept):
        assert np.array_equal(cupy.asnumpy(got), ROWS[500 * at : 500 * at + 500])


def test_a_lease_that_ends_in_another_thread():
    total = 0
    for got in Dataset.from_tensor_slices(ROWS).batch(50).prefetch_to_device("cuda"):
        total += int(got.sum(dtype=np.int64))
        box = [got]
        del got
        other = threading.Thread(target=box.clear)
        other.start()
        other.join()
    assert total == int(ROWS.sum(dtype=np.int64))


def test_dlpack():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    for at, got in enumerate(Dataset.from_tensor_slices(ROWS).batch(500).prefetch_to_device("cuda")):
        tensor = torch.from_dlpack(got)
        qc.device.record_stream((got, tensor), torch.cuda.Stream())
        assert int(tensor.sum(dtype=torch.int64)) == int(ROWS[500 * at : 500 * at + 500].sum(dtype=np.int64))


def test_a_queue():
    queue = qc.FIFOQueue(5, [np.uint8], [(50, 32, 32, 3)])

    def fill():
        for index in range(0, 5000, 50):
            queue.enqueue(ROWS[index : index + 50])
        queue.close()

    threading.Thread(target=fill).start()
    for index, got in enumerate(queue.to_device("cuda")):
        assert np.array_equal(cupy.asnumpy(got), ROWS[50 * index : 50 * index + 50])
