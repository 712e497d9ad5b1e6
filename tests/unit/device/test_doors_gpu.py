"""PyTorch's and JAX's batches on a GPU that is there, and places saved on the way to it."""

import numpy as np
import pytest

import queuecore as qc
from queuecore.data import Dataset, FixedLengthRecordDataset

pytestmark = pytest.mark.gpu

try:
    qc.device.chosen("cuda")
except qc.errors.DeviceUnavailableError as error:
    pytest.skip(f"no GPU with CuPy: {error}", allow_module_level=True)

cupy = pytest.importorskip("cupy")

RECORD = np.dtype([("label", "u1"), ("image", "u1", (8, 8, 3))])
RECORDS = np.random.default_rng(1).integers(0, 256, (1000, RECORD.itemsize), np.uint8).view(RECORD)[:, 0]


def scaled(record):
    return {"x": qc.ops.cast(record["image"], np.float32) / 255, "label": record["label"]}


def on_host(ds):
    return [{name: part.copy() for name, part in batch.items()} for batch in ds]


def same(got, wanted):
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert {name: part.tobytes() for name, part in one.items()} == {n: part.tobytes() for n, part in other.items()}


@pytest.fixture
def files(tmp_path):
    RECORDS[:700].tofile(tmp_path / "0.bin")
    RECORDS[700:].tofile(tmp_path / "1.bin")
    return FixedLengthRecordDataset(str(tmp_path / "*.bin"), record=RECORD)


def test_files_and_each_place(files):
    ds = files.shuffle(300, 3, reshuffle_each_iteration=False).batch(64)
    expected = on_host(ds.map(scaled))
    device_ds = ds.prefetch_to_device("cuda").map(scaled)
    it, got, states = iter(device_ds), [], []
    with it:
        for batch in it:
            got.append({name: cupy.asnumpy(part) for name, part in batch.items()})
            states.append(it.state_dict())
    same(got, expected)
    for at in (0, 5, len(states) - 1):
        with iter(device_ds) as again:
            again.load_state_dict(states[at])
            same([{name: cupy.asnumpy(part) for name, part in batch.items()} for batch in again], expected[at + 1 :])


@pytest.mark.parametrize("settings", [{"device": "cuda"}, {"pin_memory": True}])
def test_a_loader(files, settings):
    torch = pytest.importorskip("torch")
    from queuecore.torch import DataLoader

    ds = files.shuffle(300, 3, reshuffle_each_iteration=False).map(scaled, on_device=True)
    expected = on_host(ds.batch(64))
    loader = DataLoader(ds, batch_size=64, **settings)
    for epoch in range(2):
        results = []
        for batch in loader:
            assert all(isinstance(part, torch.Tensor) and part.is_cuda for part in batch.values())
            results.append({name: part.cpu().numpy() for name, part in batch.items()})
            if len(results) == 3:
                state = loader.state_dict()
        if epoch == 0:
            same(results, expected)
    again = DataLoader(ds, batch_size=64, **settings)
    again.load_state_dict(state)
    same([{name: part.cpu().numpy() for name, part in batch.items()} for batch in again], results[3:])


def test_a_loader_of_torch_s_datasets_pins():
    torch = pytest.importorskip("torch")
    from queuecore.torch import DataLoader

    data = torch.utils.data.TensorDataset(torch.arange(1000.0).reshape(100, 10))
    for workers in (0, 2):
        batches = [batch[0] for batch in DataLoader(data, 16, num_workers=workers, pin_memory=True)]
        assert all(batch.is_pinned() for batch in batches)
        assert torch.equal(torch.cat(batches), data.tensors[0])


def test_a_side_stream_of_torch(files):
    torch = pytest.importorskip("torch")
    from queuecore.torch import DataLoader

    side, slow = torch.cuda.Stream(), torch.ones((4096, 4096), device="cuda")
    sums = []
    for batch in DataLoader(files.repeat(20), batch_size=100, device="cuda"):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            slow @ slow
            sums.append(batch["image"].sum(dtype=torch.int64))
            qc.device.record_stream(batch["image"])
        del batch
    side.synchronize()
    wanted = RECORDS["image"].reshape(10, -1).sum(1, dtype=np.int64).tolist() * 20
    assert [int(one) for one in sums] == wanted


def test_in_a_stream_of_torch_s_own(files):
    torch = pytest.importorskip("torch")
    from queuecore.torch import DataLoader

    slow, sums = torch.ones((4096, 4096), device="cuda"), []
    with torch.cuda.stream(torch.cuda.Stream()):
        for batch in DataLoader(files.repeat(20), batch_size=100, device="cuda"):
            slow @ slow
            sums.append(batch["image"].sum(dtype=torch.int64))
            del batch
        torch.cuda.current_stream().synchronize()
    assert [int(one) for one in sums] == RECORDS["image"].reshape(10, -1).sum(1, dtype=np.int64).tolist() * 20


def test_jax(files):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    from queuecore.jax import arrays, device_iterator

    wanted = on_host(files.batch(64).map(scaled))
    with device_iterator(files.batch(64).map(scaled)) as batches:
        same([{name: np.asarray(part) for name, part in batch.items()} for batch in batches], wanted)
    kept = [arrays(batch) for batch in files.batch(64).prefetch_to_device("cuda").map(scaled)]
    assert all(part.devices() == {jax.devices()[0]} for batch in kept for part in batch.values())
    same([{name: np.asarray(part) for name, part in batch.items()} for batch in kept], wanted)


def test_a_device_that_is_not_there(files):
    count = cupy.cuda.runtime.getDeviceCount()
    with pytest.raises(qc.errors.DeviceUnavailableError):
        next(iter(files.batch(2).prefetch_to_device(f"cuda:{count}")))


def test_an_error_on_the_way_and_going_on():
    def odd(x):
        if x == 250:
            raise ValueError("bad")
        return np.full(100, x, np.int64)

    def all_of(ds):
        results = []
        with iter(ds) as it:
            while True:
                try:
                    results.append(cupy.asnumpy(next(it))[:, 0].tolist())
                except qc.errors.PipelineError:
                    results.append("error")
                except StopIteration:
                    return results

    batches = Dataset.range(500).map(odd).batch(100)
    wanted = all_of(batches)
    assert "error" in wanted
    assert all_of(batches.prefetch_to_device("cuda")) == wanted
