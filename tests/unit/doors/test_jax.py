"""`queuecore.jax`: arrays that are copies, whatever JAX does with what it is given, and an iterator over them."""

from __future__ import annotations

import collections
import itertools
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from helpers.repository import documents

import queuecore as qc
from queuecore.data import Dataset

pytestmark = pytest.mark.doors

# Before it is imported: several devices, on one CPU.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

jax = pytest.importorskip("jax", reason="JAX is not installed: make doors")

from queuecore.errors import DtypeError, InvalidArgumentError, PipelineError, ResumeMismatchError  # noqa: E402
from queuecore.jax import RaggedArrays, arrays, device_iterator  # noqa: E402

Point = collections.namedtuple("Point", ["x", "y"])


def aligned(shape, dtype):
    """An array where JAX's CPU devices use NumPy's memory as their own."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("word", ["?", "u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "c8", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (64,), (16, 4, 64)])
def test_arrays_are_copies(word, shape):
    if word == "bfloat16":
        word = pytest.importorskip("ml_dtypes").bfloat16
    array = aligned(shape, word)
    made = arrays(array)
    array[...] = 1
    assert isinstance(made, jax.Array) and made.dtype == array.dtype and made.shape == shape
    assert not np.asarray(made).any()


def test_jax_itself_would_not_copy():
    """Why `arrays` does: if this fails, JAX has changed."""
    array = aligned((64,), "f4")
    made = jax.device_put(array, may_alias=False)
    array[...] = 1
    assert np.asarray(made).all()


def test_numbers_of_64_bits_and_other_orders_of_bytes():
    assert arrays(np.arange(3)).dtype == jax.numpy.arange(3).dtype
    made = arrays(
        (np.arange(3, dtype=">i2"), np.arange(6, dtype="f4")[::-2], np.arange(6.0, dtype="f4").reshape(2, 3).T)
    )
    assert [one.tolist() for one in made] == [[0, 1, 2], [5, 3, 1], [[0, 3], [1, 4], [2, 5]]]
    assert [str(one.dtype) for one in made] == ["int16", "float32", "float32"]


def test_structures_strings_and_the_rest():
    rows = qc.Ragged(np.arange(3, dtype=np.float32), np.array([0, 1, 3]))
    ready = jax.numpy.zeros(2)
    made = arrays({"a": (b"x", rows), "p": Point(np.int8(1), qc.Ragged.from_list([b"to", b"be"])), "j": ready})
    assert type(made["a"]) is tuple and made["a"][0] == b"x" and made["j"] is ready
    assert type(made["a"][1]) is RaggedArrays and made["a"][1].values.tolist() == [0, 1, 2]
    assert made["a"][1].row_splits.tolist() == [0, 1, 3]
    assert type(made["p"]) is Point and made["p"].x.dtype == np.int8 and made["p"].y == [b"to", b"be"]
    deep = arrays(qc.Ragged(rows, np.array([0, 0, 2])))
    assert deep.values.row_splits.tolist() == [0, 1, 3] and deep.row_splits.tolist() == [0, 0, 2]
    assert len(jax.tree.leaves(deep)) == 3
    for wrong in (np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])):
        with pytest.raises(TypeError):
            arrays(wrong)


def test_sparse():
    sparse = qc.Sparse([[0, 1], [2, 0]], np.array([7, 8], np.float32), [3, 2])
    assert arrays(sparse).todense().tolist() == [[0, 7], [0, 0], [8, 0]]
    with pytest.raises(DtypeError):
        arrays(qc.Sparse([[0, 0]], qc.Ragged.from_list([b"a"]), [3, 2]))


def test_arrays_of_a_device_come_by_dlpack_and_are_copied():
    class Device:
        """Stands for an array of CuPy's."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    array = aligned((64,), "f4")
    here, there = arrays(Device(array)), arrays((Device(array),), jax.devices()[-1])[0]
    array[...] = 1
    assert not np.asarray(here).any() and not np.asarray(there).any()
    assert there.devices() == {jax.devices()[-1]}


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_memory_of_batches_is_not_shared_though_it_is_used_again(buffers):
    with device_iterator(Dataset.range(4000).batch(16), buffers=buffers) as it:
        made = list(it)
        assert it.stats()["copied_batches"] == 0
    assert len(made) == 250
    for index, batch in enumerate(made):
        assert batch.tolist() == list(range(16 * index, 16 * index + 16))


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("place", range(8))
def test_state_is_the_place_of_what_was_delivered(buffers, place):
    def make():
        return Dataset.range(30).shuffle(8, seed=3).batch(5)

    expected = [batch.tolist() for batch in make()]
    it = device_iterator(make(), buffers=buffers)
    assert [batch.tolist() for batch in itertools.islice(it, place)] == expected[:place]
    state = json.loads(json.dumps(it.state_dict()))
    assert [batch.tolist() for batch in it] == expected[place:]
    other = device_iterator(make(), buffers=2)
    next(other)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert [batch.tolist() for batch in other] == expected[place:]
    assert next(other, None) is None
    wrong = device_iterator(Dataset.range(31).shuffle(8, seed=3).batch(5))
    with pytest.raises(ResumeMismatchError):
        wrong.load_state_dict(state)


@pytest.mark.parametrize("buffers", [1, 3])
def test_an_error_comes_after_what_was_good(buffers):
    it = device_iterator(Dataset.range(9).map(lambda x: 12 // (4 - int(x))), buffers=buffers)
    assert [int(next(it)) for _ in range(4)] == [3, 4, 6, 12]
    with pytest.raises(PipelineError) as raised:
        next(it)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_ctrl_c_loses_nothing(monkeypatch):
    import queuecore.jax as module

    real, calls = module.arrays, itertools.count()

    def interrupted(element, sharding=None):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(element, sharding)

    monkeypatch.setattr(module, "arrays", interrupted)
    it = device_iterator(Dataset.range(10).batch(2), buffers=1)
    made = [next(it).tolist(), next(it).tolist()]
    with pytest.raises(KeyboardInterrupt):
        next(it)
    assert made + [batch.tolist() for batch in it] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize("buffers", [0, -1, 1.5, None])
def test_wrong_numbers_of_buffers(buffers):
    with pytest.raises(InvalidArgumentError):
        device_iterator(Dataset.range(3), buffers=buffers)


def test_the_host_plane():
    it = device_iterator(Dataset.range(10).batch(3).prefetch_to_device("cpu"))
    next(it)
    state = it.state_dict()
    expected = [[3, 4, 5], [6, 7, 8], [9]]
    assert [batch.tolist() for batch in it] == expected
    it.load_state_dict(state)
    assert [batch.tolist() for batch in it] == expected


def test_a_device():
    device = jax.devices()[-1]
    for batch in device_iterator(Dataset.range(6).map(lambda x: {"a": x, "b": x / 2}).batch(2), device):
        assert batch["a"].devices() == batch["b"].devices() == {device}


def test_batches_are_parted_among_devices():
    if len(jax.devices()) < 4:
        pytest.skip("JAX was begun with one device")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    ds = Dataset.from_tensor_slices({"x": np.arange(48, dtype="f4").reshape(16, 3), "y": np.arange(16, dtype="i4")})
    for step, batch in enumerate(device_iterator(ds.batch(8), sharding)):
        assert batch["y"].sharding == sharding and batch["x"].tolist() == ds_rows(step)
        for shard in batch["y"].addressable_shards:
            assert shard.data.tolist() == list(range(8 * step, 8 * step + 8))[shard.index[0]]
        total = jax.jit(lambda b: b["y"].sum())(batch)
        assert int(total) == sum(range(8 * step, 8 * step + 8))
    with pytest.raises(ValueError):
        list(device_iterator(ds.batch(6), sharding))


def ds_rows(step):
    return np.arange(48, dtype="f4").reshape(16, 3)[8 * step : 8 * step + 8].tolist()


PART = """
import sys
import jax, numpy as np, queuecore as qc
from queuecore.jax import device_iterator
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
ds = qc.data.Dataset.range(16).shard(2, int(sys.argv[2])).batch(4)
for batch in device_iterator(ds, sharding):
    assert batch.shape == (8,) and batch.sharding == sharding
    print([shard.data.tolist() for shard in sorted(batch.addressable_shards, key=lambda one: one.index[0].start)])
"""


@pytest.mark.watchdog(120)
def test_each_of_several_processes_gives_its_part():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    children = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", PART, port, str(rank)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    answers = [child.communicate(timeout=100) for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    for rank, (printed, _) in enumerate(answers):
        own = list(range(rank, 16, 2))
        assert printed.split("\n")[:2] == [str([own[:2], own[2:4]]), str([own[4:6], own[6:]])]


def test_the_examples_in_the_document():
    assert documents.failures("frameworks.md", "JAX") == ""
