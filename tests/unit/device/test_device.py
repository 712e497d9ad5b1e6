"""Batches to a device, on a driver that is none: that each arrives whole, is not overwritten, and goes back."""

import contextlib
import copy
import ctypes
import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import types
import warnings

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.device.devices import Plane, entered, nobody_works, plane
from helpers.device.fake_cuda import (
    ALWAYS,
    LATER,
    LEGACY,
    ONCE,
    OUT_OF_MEMORY,
    SCHEDULES,
    UNTIL_GO_ON,
    CudaError,
    build,
    check,
)
from helpers.process import PATIENCE, soon
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import queuecore as qc
from queuecore._core.atoms.process import thread_count as native_thread_count
from queuecore._core.device.driver import device as open_device
from queuecore._core.device.lease import DeviceLease, lease_at
from queuecore._device import arrays, staging, target as targets
from queuecore._device.arrays import CuPyArrays
from queuecore._device.dequeued import Dequeued
from queuecore._device.staging import _Feed
from queuecore._device.target import Asked, Target
from queuecore._elements.nests import mapped
from queuecore.data import Dataset, FixedLengthRecordDataset, Options
from queuecore.data.device import DeviceDataset, goes_as_it_lies
from queuecore.device import record_stream
from queuecore.errors import (
    DeviceUnavailableError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    SlotsExhaustedError,
)

RECORD = np.dtype([("label", ">u2"), ("image", "u1", (3, 5)), ("weight", "<f4")])


@pytest.fixture
def cuda(fake_cuda_library):
    yield from plane(fake_cuda_library)


@pytest.fixture
def numbers():
    return np.random.default_rng(0).random((1003, 33)).astype(np.float32)


def batches(array, size):
    return [array[at : at + size] for at in range(0, len(array), size)]


PIPELINES = {
    "rows": lambda a, tmp: (Dataset.from_tensor_slices(a).map(lambda x: x * 2).batch(64), batches(a * 2, 64)),
    "rows one by one": lambda a, tmp: (Dataset.from_tensor_slices(a[:300]), list(a[:300])),
    "shuffled": lambda a, tmp: (
        Dataset.from_tensor_slices(a).shuffle(100, seed=1).batch(50),
        [x.copy() for x in Dataset.from_tensor_slices(a).shuffle(100, seed=1).batch(50)],
    ),
    "lengths": lambda a, tmp: (
        Dataset.range(40).map(in_python(lambda n: np.full((int(n), 3), n, np.int32))),
        [np.full((n, 3), n, np.int32) for n in range(40)],
    ),
    "padded": lambda a, tmp: (
        Dataset.from_tensor_slices(qc.Ragged(np.array([1, 2, 3, 4, 5, 6]), np.array([0, 1, 3, 3, 6]))).padded_batch(2),
        [np.array([[1, 0], [2, 3]]), np.array([[0, 0, 0], [4, 5, 6]])],
    ),
    "of one item": lambda a, tmp: (Dataset.range(5), list(np.arange(5))),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("schedule", ["none", *SCHEDULES])
@pytest.mark.parametrize("name", PIPELINES)
def test_every_consumer_reads_its_batch(cuda, numbers, tmp_path, name, schedule, ring):
    cuda.fake.schedule(schedule, 3)
    cuda.stream()
    ds, expected = PIPELINES[name](numbers, tmp_path)
    with iter(cuda.of(ds, ring=ring)) as it:
        for got, wanted in zip(it, expected, strict=True):
            got.consume(np.asarray(wanted))
            del got
        assert it.stats()["copied_batches"] == 0
        assert it.stats()["pageable_copies"] == 0


def test_a_record_of_fields(cuda, tmp_path):
    records = np.zeros(100, RECORD)
    records["label"] = np.arange(100)
    records["image"] = np.random.default_rng(1).integers(0, 256, (100, 3, 5))
    records["weight"] = np.arange(100) / 3
    (tmp_path / "a").write_bytes(records.tobytes())
    ds = FixedLengthRecordDataset(tmp_path / "a", record=RECORD).batch(32)
    assert goes_as_it_lies(ds._chain)
    with iter(cuda.of(ds)) as it:
        for at, got in enumerate(it):
            part = records[32 * at : 32 * at + 32]
            assert list(got) == ["label", "image", "weight"]
            for name, array in got.items():
                array.consume(part[name].astype(part[name].dtype.newbyteorder("=")))


def test_what_is_no_array_of_numbers_stays_on_the_host(cuda, tmp_path):
    words = [b"%d" % number for number in range(100)]
    (tmp_path / "a").write_bytes(b"\n".join(words))
    ds = Dataset.zip((qc.data.TextLineDataset(tmp_path / "a"), Dataset.range(100))).batch(5)
    assert not goes_as_it_lies(ds._chain)
    kept = []
    for strings, numbers in cuda.of(ds, buffers=8):
        kept.append(strings)
        numbers.consume(np.arange(5 * len(kept) - 5, 5 * len(kept)))
        del numbers
    assert [word for strings in kept for word in strings.to_object()] == words


MAPS = {
    "cast and scale": lambda r: {"x": qc.ops.cast(r["image"], np.float32) / 255 - 0.5},
    "all at once": lambda r: (
        qc.ops.transpose(qc.ops.cast(r["image"], np.float32), (0, 2, 1)),
        qc.ops.one_hot(r["label"], 7),
        r["weight"] * np.float32(3),
    ),
    "one array": lambda r: r["image"] > 100,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MAPS)
def test_maps_on_the_device(cuda, tmp_path, name, schedule):
    """Are one kernel a batch, and give what they give on the host, bit for bit."""
    rng = np.random.default_rng(4)
    records = np.frombuffer(rng.bytes(RECORD.itemsize * 203), RECORD).copy()
    records["weight"] = rng.random(203)
    (tmp_path / "a").write_bytes(records.tobytes())
    source = FixedLengthRecordDataset(tmp_path / "a", record=RECORD)
    host = source.shuffle(50, seed=2, reshuffle_each_iteration=False).batch(32)
    cuda.fake.schedule(schedule, 2)
    cuda.stream()
    ds = cuda.of(host).map(MAPS[name])
    assert ds.plan().count("one kernel, in the stream") == 1
    expected = on_host(host.map(MAPS[name]))
    with iter(ds) as it:
        for got, wanted in zip(it, expected, strict=True):
            parts = zip(leaves(got), leaves(wanted), strict=True)
            for array, part in parts:
                array.consume(part)
            del got, parts, array
    assert len(cuda.arrays.kernels) == 1
    assert cuda.fake.count("cuLaunchKernel") == len(expected)


def on_host(ds):
    return list(ds.with_options(Options(max_leases=1000)))


def leaves(element):
    if isinstance(element, dict):
        return [leaf for one in element.values() for leaf in leaves(one)]
    return [leaf for one in element for leaf in leaves(one)] if isinstance(element, tuple) else [element]


def test_two_maps_are_one_kernel(cuda, numbers):
    host = Dataset.from_tensor_slices(numbers).batch(10)
    ds = cuda.of(host).map(lambda x: x * 2).map(lambda x: (x + 1, qc.ops.cast(x, np.int32)))
    state = None
    with iter(ds) as it:
        for at, (a, b) in enumerate(it):
            part = numbers[10 * at : 10 * at + 10] * 2
            a.consume(part + 1)
            b.consume(part.astype(np.int32))
            if at == 4:
                state = it.state_dict()
    assert cuda.fake.count("cuLaunchKernel") == 101
    # The same place on the host.
    with iter(host.map(lambda x: x * 2).map(lambda x: (x + 1, qc.ops.cast(x, np.int32)))) as it:
        it.load_state_dict(state)
        assert np.array_equal(next(it)[0], numbers[50:60] * 2 + 1)


@pytest.mark.thorough
def test_maps_that_no_kernel_can_do_are_done_before(cuda, numbers):
    host = Dataset.from_tensor_slices(numbers).batch(10)
    for function in (in_python(lambda x: x * 2), lambda x: np.exp(x)):
        ds = cuda.of(host).map(lambda x: x + 1).map(function)
        assert "; not on the device: " in ds.plan()
        expected = on_host(host.map(lambda x: x + 1).map(function))
        for got, wanted in zip(ds, expected, strict=True):
            got.consume(wanted)
    assert not cuda.arrays.kernels


# Maps that are marked for the device


def consume(got, wanted):
    """Let the consumer's stream read all of an element, some time."""
    for array, part in zip(leaves(got), leaves(wanted), strict=True):
        array.consume(part)


def same(got, wanted):
    """What is on the device now is what the host has, bit for bit."""
    consume(got, wanted)
    for array, part in zip(leaves(got), leaves(wanted), strict=True):
        assert array.numpy().tobytes() == part.tobytes()


def on_the_device(ds):
    """How many maps of a `DeviceDataset` are done there."""
    return ds.plan().count("one kernel, in the stream")


def widened(r):
    image = qc.ops.transpose(qc.ops.cast(r["image"], np.float32), (1, 0))
    return {"x": image / 255, "hot": qc.ops.one_hot(r["label"], 5)}


def moved(r):
    return {"x": r["x"] * 2 - 0.5, "hot": r["hot"], "y": r["x"] > 0.5}


def records_file(folder, count):
    records = np.frombuffer(np.random.default_rng(4).bytes(RECORD.itemsize * count), RECORD).copy()
    records["label"] %= 5
    (folder / "a").write_bytes(records.tobytes())
    return FixedLengthRecordDataset(folder / "a", record=RECORD), records


def in_numpy(records):
    x = np.ascontiguousarray(records["image"].transpose(0, 2, 1).astype(np.float32) / 255)
    hot = (records["label"][:, None] == np.arange(5)).astype(np.float32)
    return {"x": x * 2 - 0.5, "hot": hot, "y": x > 0.5}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_marked_maps_before_a_batch_and_after_it(cuda, tmp_path, schedule, drop):
    """Are one kernel, with those behind the copy; the records go over as they are."""
    source, records = records_file(tmp_path, 203)
    cuda.fake.schedule(schedule, 2)
    cuda.stream()

    def after(x, hot, y):
        return x[:, ::-1], hot, ~y

    def made(marked, order):
        ds = source.map(widened, on_device=marked)
        return order(order(ds).batch(32, drop).prefetch(2)).map(moved, on_device=marked)

    launches = 0
    for order in (lambda ds: ds, lambda ds: ds.shuffle(7, seed=3, reshuffle_each_iteration=False).repeat(2)):
        host = made(False, order).map(lambda r: after(**r))
        ds = cuda.of(made(True, order)).map(lambda r: after(**r))
        assert on_the_device(ds) == 3
        assert ds.element_spec == host.element_spec
        assert ds.cardinality() == host.cardinality()
        expected = on_host(host)
        with iter(ds) as it:
            for result, wanted in zip(it, expected, strict=True):
                consume(result, wanted)
                del result
            sent = it.stats()["device_bytes"]
        assert sent < sum(part.nbytes for wanted in expected for part in leaves(wanted)) / 2
        launches += len(expected)
        assert cuda.fake.count("cuLaunchKernel") == launches
    whole = in_numpy(records)
    numbers = iter(range(203 // 32 + 1 - drop))
    for result, at in zip(cuda.of(made(True, lambda ds: ds)), numbers, strict=True):
        consume(result, {name: part[32 * at : 32 * at + 32] for name, part in whole.items()})
        del result


def test_fields_by_their_names(cuda, tmp_path):
    source, _ = records_file(tmp_path, 50)
    stage = qc.ops.on("image", qc.ops.scale(a=1 / 255))
    for before in (source.map(stage, on_device=True).batch(7), source.batch(7).map(stage, on_device=True)):
        ds = cuda.of(before)
        assert on_the_device(ds) == 1
        for got, wanted in zip(ds, on_host(source.map(stage).batch(7)), strict=True):
            assert list(got) == ["label", "image", "weight"]
            same(got, wanted)
            del got


ROWS = np.random.default_rng(5).integers(0, 256, (60, 4, 3), np.uint8)


def slices():
    return Dataset.from_tensor_slices(ROWS)


def half(x):
    return x * np.float32(0.5)


# What keeps a marked map on the host: the dataset, how many maps are on the device, why the others aren't.
KEPT = {
    "it runs in Python": lambda m: slices().map(in_python(lambda x: x + 1), **m).batch(8),
    "numpy.exp": lambda m: slices().map(lambda x: np.exp(x.astype(np.float32)), **m).batch(8),
    "numpy.floor_divide": lambda m: slices().map(half, **m).batch(8).map(lambda x: x // 2, **m),
    "a step behind it is done": lambda m: slices().map(half, **m).map(lambda x: x + 1).batch(8),
    "behind it is done on the host": lambda m: Dataset.zip((slices().map(half, **m), slices())).batch(8),
    "is done on the host": lambda m: slices().map(half, **m).batch(8).unbatch().batch(4),
    "step behind it": lambda m: slices().map(half, **m).padded_batch(8),
    "device: it runs": lambda m: slices().padded_batch(8).map(qc.ops.scale(a=2), **m),
    "no batches of one size": lambda m: slices().map(half, **m).batch(4).batch(3),
    "no batches": lambda m: slices().map(half, **m),
    "batches of one size": lambda m: (
        Dataset.zip((slices(), Dataset.from_tensor_slices([b"a", b"bc"]).repeat(30)))
        .map(lambda x, word: (half(x), word), **m)
        .batch(8)
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reason", KEPT)
def test_what_keeps_a_marked_map_on_the_host(cuda, reason):
    device_ds = cuda.of(KEPT[reason]({"on_device": True}))
    assert on_the_device(device_ds) == 0
    lines = [line for line in device_ds.plan().splitlines() if "not on the device: " in line]
    assert lines and all("map(" in line for line in lines)
    assert any(reason in line for line in lines)
    without = KEPT[reason]({})
    assert "not on the device" not in cuda.of(without).plan()
    for got, wanted in zip(device_ds, on_host(without), strict=True):
        for array, part in zip(leaves(got), leaves(wanted), strict=True):
            if hasattr(array, "consume"):
                array.consume(np.asarray(part))
        del got
    assert not cuda.arrays.kernels


def test_as_many_maps_as_can_be(cuda):
    """The last ones that a kernel can do; those before them are done before the copy."""
    host = slices().map(half).map(lambda x: x // 3).batch(8).map(lambda x: x + 1)
    marked = slices().map(half, on_device=True).map(lambda x: x // 3, on_device=True).batch(8)
    ds = cuda.of(marked.map(lambda x: x + 1, on_device=True))
    assert on_the_device(ds) == 1
    assert ds.plan().count("not on the device: ") == 2
    for got, wanted in zip(ds, on_host(host), strict=True):
        same(got, wanted)
        del got


def test_a_mark_changes_nothing_on_the_host(tmp_path):
    source, _ = records_file(tmp_path, 100)

    def made(marked):
        ds = source.map(widened, on_device=marked).shuffle(9, seed=1).batch(8)
        return ds.map(in_python(lambda r: r), on_device=marked)

    plain, marked = made(False), made(True)
    assert marked.plan() == plain.plan()
    assert repr(marked) == repr(plain)
    assert marked.element_spec == plain.element_spec
    for got, wanted in zip(marked, plain, strict=True):
        assert [one.tobytes() for one in leaves(got)] == [one.tobytes() for one in leaves(wanted)]


def test_places_are_the_same_with_a_mark_and_without(cuda, tmp_path):
    source, _ = records_file(tmp_path, 100)

    def made(marked):
        return source.map(widened, on_device=marked).shuffle(30, seed=1).batch(8).map(moved, on_device=marked)

    expected = on_host(made(False))
    kinds = [lambda: made(False), lambda: made(True), lambda: cuda.of(made(False)), lambda: cuda.of(made(True))]
    for one, other in itertools.product(kinds, kinds):
        with iter(one()) as it:
            for _ in range(5):
                next(it)
            state = it.state_dict()
        with iter(other()) as it:
            it.load_state_dict(state)
            assert it.state_dict() == state
            for got, wanted in zip(it, expected[5:], strict=True):
                if isinstance(got["x"], np.ndarray):
                    assert got["x"].tobytes() == wanted["x"].tobytes()
                else:
                    same(got, wanted)
                del got


# Steps of a chain: what they do to a row, and to a batch of rows in NumPy. All keep rows of 12 numbers.
STEPS = {
    "half": (half, lambda x: x * np.float32(0.5)),
    "bytes": (lambda x: qc.ops.cast(x, np.uint8), None),
    "more": (lambda x: x + x, lambda x: x + x),
    "turned": (lambda x: x.reshape(3, 4).transpose(1, 0).reshape(12), lambda x: x.reshape(-1, 3, 4).transpose(0, 2, 1)),
    "back": (lambda x: x[::-1], lambda x: x[:, ::-1]),
    "scaled": (qc.ops.scale(a=0.1, b=3), None),
    "short": (qc.ops.cast(dtype=np.int16), None),
    "chosen": (lambda x: np.where(x > 100, x, x * 2), lambda x: np.where(x > 100, x, x * 2)),
    "root": (lambda x: np.sqrt(x.astype(np.float64)), lambda x: np.sqrt(x.astype(np.float64))),
    "host": (lambda x: np.floor(x.astype(np.float64)), lambda x: np.floor(x.astype(np.float64))),
}


# Those that say the same of a batch as of a row.
@pytest.mark.parametrize("seed", range(6))
def test_a_batch_that_nobody_gets_lies_between_two(cuda, seed):
    ds = Dataset.from_tensor_slices(np.arange(31 * 12, dtype=np.int64).reshape(31, 12))
    ds = ds.batch(5, drop_remainder=True).shuffle(7, seed, False)
    expected = on_host(ds)
    with iter(cuda.of(ds, 3)) as it:
        same(next(it), expected[0])
        # All slots are in use now, those of the batches before and behind the short one that is dropped.
        assert soon(lambda: it.stats()["device_bytes"] == 4 * expected[0].nbytes)
        for got, wanted in zip(it, expected[1:], strict=True):
            same(got, wanted)
            del got


ANYWHERE = ["half", "bytes", "more", "scaled", "short", "chosen", "root", "host"]


@pytest.mark.thorough
@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(st.data())
def test_chains_of_marked_maps(cuda, data):
    """Against the host's plane, and against NumPy where its function is the same."""
    marks = st.sampled_from([True, True, True, False])
    rows = data.draw(st.lists(st.tuples(st.sampled_from(list(STEPS)), marks), max_size=3), "rows")
    batch = data.draw(st.lists(st.tuples(st.sampled_from(ANYWHERE), marks), max_size=3), "batches")
    behind = data.draw(st.lists(st.sampled_from(ANYWHERE), max_size=2), "behind")
    count, size, drop = data.draw(st.integers(0, 40)), data.draw(st.integers(1, 17)), data.draw(st.booleans())
    orders = ["none", "prefetch", "shuffle", "take"]
    order = data.draw(st.sampled_from([*orders, "permute", "shard"]), "order")
    order_of_batches = data.draw(st.sampled_from(orders), "order of batches")
    array = np.random.default_rng(count).integers(0, 256, (count, 12), np.uint8)

    def ordered(ds, how):
        arguments = {"prefetch": [2], "shuffle": [5, 2, False], "take": [11], "permute": [2, False], "shard": [3, 1]}
        return ds if how == "none" else getattr(ds, how)(*arguments[how])

    def made(marked):
        ds = Dataset.from_tensor_slices(array)
        for name, mark in rows:
            ds = ds.map(STEPS[name][0], on_device=marked and mark)
        ds = ordered(ordered(ds, order).batch(size, drop), order_of_batches)
        for name, mark in batch:
            ds = ds.map(STEPS[name][0], on_device=marked and mark)
        return ds

    host, device_ds = made(False), cuda.of(made(True))
    for name in behind:
        host, device_ds = host.map(STEPS[name][0]), device_ds.map(STEPS[name][0])
    steps = [*rows, *batch, *((name, True) for name in behind)]
    last = next((index for index, (name, mark) in enumerate(reversed(steps)) if name == "host" or not mark), len(steps))
    assert on_the_device(device_ds) == last
    assert device_ds.element_spec == host.element_spec
    expected = on_host(host)
    with iter(device_ds) as it:
        for got, right in zip(it, expected, strict=True):
            same(got, right)
            del got
    names = [name for name, _ in steps]
    if {order, order_of_batches} <= {"none", "prefetch"} and all(STEPS[name][1] for name in names):
        whole = array
        for name in names:
            whole = STEPS[name][1](whole).reshape(count, 12)
        kept = count - count % size if drop else count
        right = [whole[index : index + size] for index in range(0, kept, size)]
        assert [one.tobytes() for one in expected] == [one.tobytes() for one in right]


# Copies


@pytest.fixture
def chosen(cuda, monkeypatch):
    """The fake device in the place of one that is there; what is asked for."""
    words = []

    def found(word):
        words.append(word)
        return None if word == "cpu" else (cuda.device, cuda.arrays)

    monkeypatch.setattr(targets, "chosen", found)
    return words


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_asks_for_the_device_again(cuda, chosen, way):
    """And does the same there."""
    marked = slices().map(half, on_device=True).batch(8, drop_remainder=True)
    ds = marked.prefetch_to_device("cuda:0", 5, mode="ring", pinned="prefer").map(qc.ops.scale(a=3))
    other = way(ds)
    assert chosen == ["cuda:0", "cuda:0"]
    assert other.plan() == ds.plan()
    assert on_the_device(other) == 2
    assert other._target[2:5] == ds._target[2:5] == (5, True, True)
    with iter(ds) as it:
        next(it)
        state = it.state_dict()
    expected = on_host(slices().map(half).batch(8, drop_remainder=True).map(qc.ops.scale(a=3)))
    with iter(other) as it:
        it.load_state_dict(state)
        for got, wanted in zip(it, expected[1:], strict=True):
            same(got, wanted)


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda"])
def test_a_copy_in_a_process_without_a_device(cuda, chosen, tmp_path, device):
    ds = slices().map(qc.ops.scale(a=0.5), on_device=True).batch(8).prefetch_to_device(device)
    (tmp_path / "pickled").write_bytes(pickle.dumps(ds))
    code = """
import pickle, sys
sys.modules["cupy"] = None
with open(sys.argv[1], "rb") as file:
    try:
        ds = pickle.load(file)
    except Exception as error:
        print(type(error).__name__)
    else:
        print(sum(float(batch.sum()) for batch in ds))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "pickled"], capture_output=True, text=True, timeout=50
    )
    wanted = "DeviceUnavailableError" if device == "cuda" else str(float(ROWS.sum()) / 2)
    assert done.stdout.strip() == wanted, done.stderr


KINDS = {
    "as it lies": lambda a: Dataset.from_tensor_slices(a),
    "staged": lambda a: (
        Dataset.from_tensor_slices(a).map(in_python(lambda x: {"x": x})).map(in_python(lambda x: x["x"]))
    ),
}


@pytest.fixture(params=KINDS)
def kind(request, numbers):
    ds = KINDS[request.param](numbers[:200]).batch(8)
    assert goes_as_it_lies(ds._chain) == (request.param == "as it lies")
    return ds, batches(numbers[:200], 8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_who_holds_all_gets_copies(cuda, kind, schedule):
    ds, expected = kind
    cuda.fake.schedule(schedule, 5)
    cuda.stream()
    with iter(cuda.of(ds)) as it:
        with pytest.warns(RuntimeWarning, match="more than 2 batches") as caught:
            kept = list(it)
        assert len(caught) == 1
        assert it.stats()["copied_batches"] == len(expected) - 2
    for got, wanted in zip(kept, expected, strict=True):
        got.consume(wanted)
        assert np.array_equal(got.numpy(), wanted)


def test_a_warning_that_is_an_error_loses_nothing(cuda, kind):
    ds, expected = kind
    cuda.stream()
    elements = []
    with iter(cuda.of(ds)) as it, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="more than 2 batches"):
            elements += it
        elements += it
    for got, wanted in zip(elements, expected, strict=True):
        got.consume(wanted)


def test_copies_that_are_asked_for_are_not_warned_of(cuda, kind):
    ds, expected = kind
    cuda.stream()
    with iter(cuda.of(ds).with_options(Options(on_hold="copy"))) as it, warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = list(it)
    for got, wanted in zip(kept, expected, strict=True):
        got.consume(wanted)


def test_who_may_not_get_copies(cuda, kind):
    ds, expected = kind
    with iter(cuda.of(ds).with_options(Options(on_hold="raise"))) as it:
        kept = [next(it), next(it)]
        with pytest.raises(SlotsExhaustedError, match="2 batches"):
            next(it)
        del kept[0]
        kept.append(next(it))  # nothing was lost
        for got, wanted in zip(kept, expected[1:], strict=False):
            got.consume(wanted)


def test_no_memory_for_a_copy(cuda, numbers):
    ds, expected = Dataset.from_tensor_slices(numbers).batch(8), batches(numbers, 8)
    with iter(cuda.of(ds)) as it:
        kept = [next(it), next(it)]
        cuda.fake.fail("cuMemAlloc_v2", 1, OUT_OF_MEMORY)
        with pytest.warns(RuntimeWarning, match="more than 2"), pytest.raises(CudaError):
            next(it)
        kept.append(next(it))  # nothing was lost
        for got, wanted in zip(kept, expected, strict=False):
            got.consume(wanted)


def test_device_slots_take_turns(cuda, numbers):
    """The copy into a slot waits for who read it last: best for who did so long ago."""
    cuda.fake.schedule("slow_consumer", 1)
    cuda.stream()
    addresses = []
    for got, wanted in zip(cuda.of(Dataset.from_tensor_slices(numbers).batch(20)), batches(numbers, 20), strict=True):
        got.consume(wanted)
        addresses.append(got.address)
        del got
    assert len(set(addresses)) == 3
    assert all(one != other for one, other in itertools.pairwise(addresses))


def test_a_view_keeps_the_batch(cuda, kind):
    ds, expected = kind
    cuda.fake.schedule("slow_consumer", 2)
    cuda.stream()
    with iter(cuda.of(ds)) as it:
        row = next(it)[3]
        for _ in range(5):
            next(it)
        row.consume(expected[0][3])


def test_ring_ends_with_the_next_batch(cuda, kind):
    ds, expected = kind
    cuda.stream()
    with iter(cuda.of(ds, buffers=2, ring=True)) as it:
        kept = []
        for got, wanted in zip(it, expected, strict=True):
            got.consume(wanted)
            kept.append(got)
        assert it.stats()["copied_batches"] == 0
    assert len({one.address for one in kept if one.memory[1] is not None}) <= 2


def test_batches_outlive_their_iterator(cuda, kind):
    ds, expected = kind
    it = iter(cuda.of(ds))
    first = next(it)
    it.close()
    del it
    gc.collect()
    first.consume(expected[0])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_lease_that_ends_in_another_thread_and_stream(cuda, kind, schedule):
    ds, expected = kind
    cuda.fake.schedule(schedule, 8)
    cuda.stream()
    mine = cuda.arrays.current
    box, uses, ended = [], threading.Semaphore(0), threading.Semaphore(0)

    def end():
        for _ in expected:
            uses.acquire()
            box.clear()
            gc.collect()
            ended.release()

    other = threading.Thread(target=end)
    other.start()
    with iter(cuda.of(ds)) as it:
        for wanted in expected:
            cuda.arrays.current = mine
            got = next(it)
            got.consume(wanted)
            box.append(got)
            cuda.arrays.current = 0  # another one is current when it ends
            del got
            uses.release()
            ended.acquire()
    other.join(PATIENCE)


def test_resume(cuda, kind):
    ds, expected = kind
    with iter(cuda.of(ds)) as it:
        for _ in range(7):
            next(it)
        state = it.state_dict()
        for _ in range(5):
            next(it)
        it.load_state_dict(state)
        next(it).consume(expected[7])
        rest = sum(1 for _ in it)
        assert rest == len(expected) - 8
        it.load_state_dict(state)  # the end is a place, too
        next(it).consume(expected[7])
    with iter(ds) as host:  # on the host, the same place
        host.load_state_dict(state)
        assert np.array_equal(next(host), expected[7])


def test_the_end_is_the_end(cuda, kind):
    ds, expected = kind
    it = iter(cuda.of(ds))
    assert sum(1 for _ in it) == len(expected)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(it)
    it.close()
    with pytest.raises((StopIteration, qc.errors.FailedPreconditionError)):
        next(it)


def numbered_lines(folder):
    path = folder / "lines"
    path.write_text("".join(f"{'x' if k % 7 == 3 else k}\n" for k in range(40)))
    return qc.data.TextLineDataset(str(path)).map(qc.ops.decode_csv(record_defaults=[np.int64]))


def refuse_some(x):
    if x % 7 == 3:
        raise KeyError("no")
    return {"x": np.full(3, x)}


WITH_ERRORS = {
    "as it lies": lambda folder: numbered_lines(folder).batch(4),
    "staged": lambda folder: (
        Dataset.range(40).map(in_python(refuse_some)).map(in_python(lambda x: x["x"])).batch(4, drop_remainder=True)
    ),
    "staged, one by one": lambda folder: Dataset.range(40).map(in_python(refuse_some)),
}


def told(it, copy):
    """Give all that an iterator tells: elements, as bytes, and the names of errors; and the place after each."""
    while True:
        try:
            result = next(it)
        except StopIteration:
            return
        except qc.errors.QueueCoreError as error:
            yield type(error).__name__, it.state_dict()
        else:
            yield mapped(lambda part: np.asarray(copy(part)).tolist(), result), it.state_dict()
            del result


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_errors_and_places_are_the_host_s(cuda, tmp_path, name):
    ds = WITH_ERRORS[name](tmp_path)
    with iter(ds) as host:
        outcomes = [outcome for outcome, _ in told(host, np.copy)]
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 6
    with iter(cuda.of(ds)) as it:
        got = list(told(it, lambda part: part.numpy()))
        with pytest.raises(StopIteration):
            next(it)
    assert [outcome for outcome, _ in got] == outcomes
    for at, (_, state) in enumerate(got):
        for resumed, read in ((iter(ds), np.copy), (iter(cuda.of(ds)), lambda part: part.numpy())):
            with resumed:
                resumed.load_state_dict(state)
                assert [outcome for outcome, _ in told(resumed, read)] == outcomes[at + 1 :]


def test_an_error_keeps_no_page_locked_memory(cuda, tmp_path):
    errors = []
    with iter(cuda.of(WITH_ERRORS["staged"](tmp_path))) as it:
        for _ in range(6):
            try:
                next(it)
            except qc.errors.QueueCoreError as error:
                errors.append(error)
    found = [frame.f_locals.values() for one in errors for frame, _ in traceback.walk_tb(one.__traceback__)]
    assert errors and not any(isinstance(one, _Feed) for values in found for one in values)


CALLS = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuStreamCreateWithPriority",
    "cuEventCreate",
    "cuMemAlloc_v2",
    "cuStreamWaitEvent",
    "cuMemcpyBatchAsync_v2",
    "cuEventRecord",
    "cuEventQuery",
]


@pytest.mark.sampled(60)
@pytest.mark.parametrize("nth", [1, 2, 7])
@pytest.mark.parametrize(
    ("call", "way"),
    [
        *((call, ONCE) for call in CALLS),
        *((call, ALWAYS) for call in CALLS if call != "cuCtxSetCurrent"),  # without it nothing can be given back
        *((call, LATER) for call in ("cuStreamWaitEvent", "cuMemcpyBatchAsync_v2", "cuEventRecord")),
    ],
)
def test_a_call_that_fails(cuda, kind, call, nth, way):
    """Is an error that names it, or nothing: and then all goes back."""
    ds, expected = kind
    cuda.stream()
    iter(cuda.of(ds)).close()
    cuda.leaks = None  # what the driver no longer knows of is lost
    cuda.fake.fail(call, nth, 719, way)
    it = iter(cuda.of(ds))
    count = 0
    try:
        for got, _ in zip(it, expected, strict=True):
            count += 1
            del got
    except qc.errors.InternalError as error:
        assert "719" in str(error) and "cu" in str(error)
    else:
        assert count == len(expected)
    it.close()
    del it

    def nothing_left():
        gc.collect()
        return native_thread_count() == 0

    assert soon(nothing_left, within=PATIENCE)
    cuda.fake.clear()  # also of a broken context


# Memory that is used again


def taken(ds):
    """Take all batches and read none."""
    for got in ds:
        del got
    assert soon(nobody_works, within=PATIENCE)


def _widened(x):
    return qc.ops.cast(x, np.float32) * 2


AGAIN = {
    **{name: (make, lambda a: a, lambda there: there) for name, make in KINDS.items()},
    # The kernel's input is as large as its output.
    "widened": (KINDS["as it lies"], lambda a: a * 2, lambda there: there.map(_widened)),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", AGAIN)
def test_a_stream_gets_the_memory_of_the_one_before(cuda, name, schedule):
    """Also while that is still being read, or was left in the middle; and gives it back with the driver."""
    make, result, more = AGAIN[name]
    cuda.fake.schedule(schedule, 7)
    cuda.stream()
    allocations = None
    for epoch in range(6):
        numbers = np.random.default_rng(epoch).random((512, 32)).astype(np.float32)
        with iter(more(cuda.of(make(numbers).batch(32)))) as it:
            expected = batches(result(numbers), 32)
            for got, wanted in zip(it, expected[: 4 if epoch % 2 else None], strict=False):
                got.consume(wanted)
                del got
        del it
        assert soon(nobody_works, within=PATIENCE)
        allocations = allocations or cuda.fake.count("cuMemAlloc_v2")
        assert cuda.fake.count("cuMemAlloc_v2") == allocations
    assert cuda.fake.count("cuMemFree_v2") == 0


def test_memory_of_another_size_is_not_used_again(cuda, numbers):
    for size in (64, 32, 64, 32):
        ds = cuda.of(Dataset.from_tensor_slices(numbers).batch(size))
        for got, wanted in zip(ds, batches(numbers, size), strict=True):
            got.consume(wanted)
            del got
    assert cuda.fake.count("cuMemAlloc_v2") == 6


def test_memory_of_one_device_is_not_another_s(cuda, numbers):
    cuda.fake.set(devices=2)
    other = Plane(cuda.fake, 1)
    ds = Dataset.from_tensor_slices(numbers).batch(100)
    for there in (cuda, other, cuda, other):
        for got, wanted in zip(there.of(ds), batches(numbers, 100), strict=True):
            assert np.array_equal(got.numpy(), wanted)
            del got
    assert cuda.fake.count("cuMemAlloc_v2") == 6


@pytest.mark.thorough
def test_no_more_is_kept_than(cuda):
    """Of bytes: the oldest go first. The host has little of these batches."""
    largest = 1 << 28

    def run(depth):
        taken(cuda.of(Dataset.range(16).batch(8), buffers=2).map(lambda x: qc.ops.one_hot(x, depth)))
        cuda.fake.drain()
        taken(cuda.of(Dataset.range(1)))  # which looks
        return cuda.fake.count("cuMemAlloc_v2"), cuda.fake.alive()["allocated_bytes"]

    run(2 << 20)  # 2 x 64 MiB
    _, kept = run((2 << 20) + (1 << 18))  # 2 x 72 MiB
    assert largest - (72 << 20) < kept <= largest
    count, _ = run((2 << 20) + (1 << 18))
    again, kept = run((2 << 20) + (1 << 18))
    assert again == count
    assert kept <= largest


def test_no_more_pieces_are_kept_than(cuda):
    for size in range(1, 7):
        taken(cuda.of(Dataset.from_tensor_slices(np.zeros((1, 1024 * size), np.float32)).batch(1), buffers=64))
    cuda.fake.drain()
    taken(cuda.of(Dataset.range(1)))
    assert 200 < cuda.fake.alive()["allocations"] <= 256


def test_kept_memory_is_there_for_others(cuda):
    """But not while it is read."""
    stream = cuda.stream()
    rows = np.random.default_rng(2).random((100, 1024)).astype(np.float32)
    ds = Dataset.from_tensor_slices(rows)
    with iter(cuda.of(ds.take(6).batch(2))) as it:
        next(it).consume(rows[:2], UNTIL_GO_ON)
    del it
    assert soon(nobody_works, within=PATIENCE)
    cuda.fake.set(total_memory=3 * 4096 * 4)
    assert cuda.fake.alive()["allocated_bytes"] == 3 * 4096 * 2
    with pytest.raises(ResourceExhaustedError, match="no memory for 16384 bytes"), iter(cuda.of(ds.batch(4))) as it:
        next(it)
    cuda.fake.go_on(stream)
    cuda.fake.drain()
    for got, wanted in zip(cuda.of(ds.batch(4)), batches(rows, 4), strict=True):
        got.consume(wanted)
        del got


def test_kept_memory_is_there_for_cupy(cuda, numbers, monkeypatch):
    """That is, for its pool, in which copies of batches lie."""

    class OutOfMemoryError(Exception):
        pass

    def alloc(nbytes):
        if cuda.fake.alive().get("allocated_bytes", 0) + nbytes > 1 << 16:
            raise OutOfMemoryError
        return nbytes

    library = types.SimpleNamespace(
        Device=lambda _: contextlib.nullcontext(),
        alloc=alloc,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    )
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=library))
    arrays = CuPyArrays(cuda.device)
    taken(cuda.of(Dataset.from_tensor_slices(numbers).batch(20)))
    assert arrays.allocate(1000) == 1000
    assert cuda.fake.count("cuMemFree_v2") == 0
    assert arrays.allocate(1 << 16) == 1 << 16
    assert cuda.fake.count("cuMemFree_v2") == 3
    with pytest.raises(ResourceExhaustedError, match="65537 bytes"):
        arrays.allocate((1 << 16) + 1)


# Streams aside


@pytest.mark.sampled(10)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", AGAIN)
def test_streams_aside_read_their_batch(cuda, name, schedule):
    """Longer than the consumer's; also where the memory goes to the next stream of batches."""
    make, result, more = AGAIN[name]
    cuda.fake.schedule(schedule, 6)
    main, *sides = cuda.stream(), cuda.aside(), cuda.aside()
    for epoch in range(3):
        numbers = np.random.default_rng(epoch).random((256, 32)).astype(np.float32)
        for element, wanted in zip(more(cuda.of(make(numbers).batch(16))), batches(result(numbers), 16), strict=True):
            element.consume(wanted)
            for side in sides:
                cuda.order(main, side)
                element[3].consume(wanted[3], 3000, side)
                record_stream(element[3], side)
            del element
        assert soon(nobody_works, within=PATIENCE)
    assert cuda.fake.count("cuMemFree_v2") == 0


@pytest.mark.parametrize("way", ["a dict", "the current stream", "a list"])
def test_streams_aside_of_nested_batches(cuda, way):
    main, side = cuda.stream(), cuda.aside()
    numbers = np.random.default_rng(3).random((200, 16)).astype(np.float32)
    ds = Dataset.from_tensor_slices({"x": numbers, "y": (np.arange(200), {"z": numbers[:, 0]})}).batch(10)
    for element, wanted in zip(cuda.of(ds), ds, strict=True):
        cuda.order(main, side)
        for array, part in zip((element["x"], element["y"][0], element["y"][1]["z"]), leaves(wanted), strict=True):
            array.consume(part, 1000, side)
        if way == "a dict":
            record_stream(element, side)
        elif way == "a list":
            record_stream([element["y"], 3, "words"], side)
        else:
            cuda.arrays.current = side
            record_stream(element)
            cuda.arrays.current = main
        del element, array


class StandInForCuPy(types.ModuleType):
    """As much of CuPy as makes arrays in a batch's memory and hands them over by DLPack, on the fake driver."""

    def __init__(self, cuda):
        super().__init__("cupy")

        class Pointer:
            def __init__(self, memory, offset):
                self.memory, self.ptr = memory, memory.address + offset

            def __add__(self, offset):
                return Pointer(self.memory, self.ptr + offset - self.memory.address)

        class Array:
            def __init__(self, shape, dtype, memptr):
                self.shape, self.dtype, self.data = shape, np.dtype(dtype), memptr
                self.nbytes = int(np.prod(shape)) * self.dtype.itemsize

            def __getitem__(self, index):
                at = index * self.nbytes // self.shape[0]
                return type(self)(self.shape[1:], self.dtype, self.data + at)

            def __dlpack__(self, *, stream=None, max_version=None):
                if stream != -1:
                    cuda.order(cuda.arrays.current, stream or 0)
                return self.data  # the capsule keeps the memory

        self.ndarray = Array
        self.cuda = types.SimpleNamespace(
            MemoryPointer=Pointer,
            UnownedMemory=lambda address, nbytes, owner, device: types.SimpleNamespace(address=address, owner=owner),
            get_current_stream=lambda ordinal: types.SimpleNamespace(ptr=cuda.arrays.current),
        )


@pytest.mark.parametrize("way", ["a batch", "a view", "the default stream"])
def test_who_takes_a_batch_by_dlpack_reads_it(cuda, monkeypatch, way):
    """Longer than anybody holds the array: in a stream of its own, which is the one that it names."""
    monkeypatch.setitem(sys.modules, "cupy", StandInForCuPy(cuda))
    arrays._leased_array.cache_clear()
    main = cuda.stream()
    side = LEGACY if way == "the default stream" else cuda.aside()
    assert main != side
    rows = np.random.default_rng(0).random((256, 32)).astype(np.float32)
    target = Target(cuda.device, CuPyArrays(cuda.device), 3, False, False)
    asked = Asked("cuda", 3, "lease", "require")
    try:
        ds = DeviceDataset(Dataset.from_tensor_slices(rows).batch(16)._chain, target, asked)
        for got, wanted in zip(ds, batches(rows, 16), strict=True):
            if way == "a view":
                got, wanted = got[3], wanted[3]
            capsule = got.__dlpack__(stream=None if side == LEGACY else side)
            cuda.fake.consume(side, capsule.ptr, wanted.nbytes, cuda.fake.hash(wanted), 3000)
            del got, capsule
        assert soon(nobody_works, within=PATIENCE)
    finally:
        arrays._leased_array.cache_clear()


def test_streams_that_dlpack_may_not_name(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", StandInForCuPy(cuda))
    arrays._leased_array.cache_clear()
    cuda.stream()
    target = Target(cuda.device, CuPyArrays(cuda.device), 3, False, False)
    asked = Asked("cuda", 3, "lease", "require")
    try:
        with iter(DeviceDataset(Dataset.range(4).batch(2)._chain, target, asked)) as it:
            result = next(it)
            with pytest.raises(InvalidArgumentError, match="per-thread default stream"):
                result.__dlpack__(stream=2)
            result.__dlpack__(stream=-1)  # the consumer sees to the order by itself
            lease = lease_at(result.data.ptr)
            for side in [cuda.aside() for _ in range(4)]:  # so it is none of the five that a batch can have
                lease.record_stream(None, side)
            del result, lease
    finally:
        arrays._leased_array.cache_clear()


def test_the_consumer_s_stream_is_none_of_each_thread(cuda):
    """The lease may end in another thread, where the per-thread default stream is another one."""
    with iter(cuda.of(Dataset.range(4).batch(2))) as it:
        cuda.arrays.current = 2
        with pytest.raises(InvalidArgumentError, match="per-thread default stream"):
            next(it)
        cuda.arrays.current = 0
        assert [one.numpy().tolist() for one in it] == [[0, 1], [2, 3]]


def test_copies_of_empty_batches_leave_the_context(cuda):
    current = ctypes.c_void_p()
    with iter(cuda.of(Dataset.from_tensor_slices(np.empty((64, 0), np.float32)).batch(8), buffers=2)) as it:
        with pytest.warns(RuntimeWarning, match="batches"):
            kept = list(it)
        cuda.fake.driver.cuCtxGetCurrent(ctypes.byref(current))
        assert len(kept) == 8 and not current.value
        del kept


def test_the_consumer_s_stream_waits_for_none_aside(cuda, kind):
    """Nor do copies into other memory."""
    ds, expected = kind
    main, side = cuda.stream(), cuda.aside()
    with iter(cuda.of(ds)) as it:
        got = next(it)
        record_stream(got, side)
        cuda.order(main, side)
        got.consume(expected[0], UNTIL_GO_ON, side)
        del got
        for wanted in expected[1:3]:
            next(it).consume(wanted)
        with entered(cuda.fake):
            check(cuda.fake.driver.cuStreamSynchronize(main))
        assert soon(lambda: cuda.fake.count("consumers") == 3, PATIENCE)  # the one aside begins when it likes
        assert cuda.fake.count("copies") == 3  # the next would be into the first one's memory
        cuda.fake.go_on(side)
        next(it).consume(expected[3])


def test_as_many_streams_as_are_remembered(cuda, kind):
    ds, expected = kind
    main, *sides = cuda.stream(), *(cuda.aside() for _ in range(5))
    with iter(cuda.of(ds)) as it:
        for right in expected:
            result = next(it)
            for side in (*sides[:4], main, *sides[:4]):
                record_stream(result, side)
            with pytest.raises(InvalidArgumentError, match="5 streams read this batch already"):
                record_stream(result, sides[4])
            for side in sides[:4]:
                cuda.order(main, side)
                result.consume(right, 500, side)
            del result


def test_a_copy_of_a_held_batch_has_streams_aside(cuda, kind):
    """Its memory is used again in the order of the consumer's stream, which waits for them."""
    ds, expected = kind
    main, side = cuda.stream(), cuda.aside()
    with pytest.warns(RuntimeWarning, match="more than 2 batches"), iter(cuda.of(ds)) as it:
        kept = [next(it) for _ in range(3)]
    record_stream(kept, side)
    cuda.order(main, side)
    kept[2].consume(expected[2], 3000, side)
    address, nbytes = kept[2].address, kept[2].nbytes
    kept.clear()
    gc.collect()
    other = cuda.arrays.allocate(nbytes)
    with entered(cuda.fake):  # whoever gets it next
        check(cuda.fake.driver.cuMemcpyDtoDAsync_v2(address, cuda.arrays.address(other), nbytes, main))


class Stream:
    def __init__(self, **words):
        self.__dict__.update(words)


class Speaks:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


class Tensor:
    """As PyTorch's, with a gradient."""

    device = "cuda:0"

    def __init__(self, address):
        self.is_cuda = address != 0
        self.address = address

    def data_ptr(self):
        assert self.is_cuda
        return self.address

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("it has a gradient")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "word",
    [lambda s: s, lambda s: Stream(ptr=s), lambda s: Stream(cuda_stream=s), Speaks, None],
    ids=["a handle", "CuPy's", "PyTorch's", "any", "the current one"],
)
def test_tensors_and_streams_of_others(cuda, kind, word, monkeypatch):
    ds, expected = kind
    main, side = cuda.stream(), cuda.aside()
    library = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=lambda device: Stream(cuda_stream=side)))
    monkeypatch.setitem(sys.modules, "torch", library)
    for got, wanted in zip(cuda.of(ds), expected, strict=True):
        cuda.order(main, side)
        got.consume(wanted, 1000, side)
        record_stream((Tensor(got.address), Tensor(0)), word and word(side))
        del got


def test_what_is_no_batch(cuda, kind):
    ds, _ = kind
    side = cuda.aside()
    record_stream({"x": np.zeros(3), "y": (b"a", 3, None, np.float32(2))}, side)
    other = cuda.arrays.array(cuda.arrays.allocate(64), 0, (16,), np.float32)
    with pytest.raises(InvalidArgumentError, match="isn't in the memory of a batch"):
        record_stream(other, side)
    record_stream(Stream(__cuda_array_interface__={"data": (0, False)}), side)
    with iter(cuda.of(ds, buffers=2, ring=True)) as it:
        got = next(it)
        for word in ("cuda", True, -1, Stream(ptr="x")):
            with pytest.raises(InvalidArgumentError, match="stream must be"):
                record_stream(got, word)
        lease = got.memory[1]
        next(it)
        with pytest.raises(InvalidArgumentError, match="given back"):
            lease.record_stream(None, side)
    with pytest.raises(InvalidArgumentError, match="given back"):
        DeviceLease().record_stream(None, side)
    record_stream(Dataset.range(3), side)


def test_a_stream_that_cant_be_recorded(cuda, kind):
    """Is not remembered; all else goes on."""
    ds, expected = kind
    cuda.stream()
    side = cuda.aside()
    with iter(cuda.of(ds)) as it:
        result = next(it)
        cuda.fake.fail("cuEventCreate", 1, 719)
        with pytest.raises(InternalError, match="cuEventCreate"):
            record_stream(result, side)
        record_stream(result, side)
        for wanted in expected:
            result.consume(wanted)
            result = None
            result = next(it, None)


# Memory of which nobody knows whether it is read


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("way", ["the consumer's", "one aside"])
def test_a_lease_whose_end_the_driver_cant_record(cuda, kind, schedule, way):
    """Keeps its memory for ever: it isn't freed, and goes to nobody else."""
    ds, expected = kind
    cuda.fake.schedule(schedule, 5)
    main, side = cuda.stream(), cuda.aside()
    with iter(cuda.of(ds)) as it:
        result = next(it)
        assert soon(lambda: cuda.fake.count("cuEventRecord") == 6, within=PATIENCE)  # no slot is left
        cuda.order(main, side)
        result.consume(expected[0], UNTIL_GO_ON, side if way == "one aside" else main)
        record_stream(result, side)
        cuda.fake.fail("cuEventRecord", 1 + (way == "one aside"), 719)
        address = result.address
        del result
        other = cuda.stream()  # nothing may wait for those above
        with pytest.raises(InternalError, match="cuEventRecord failed"):
            taken(it)
    del it
    assert soon(nobody_works, within=PATIENCE)
    cuda.leaks = 1
    for _ in range(3):
        for result, wanted in zip(cuda.of(ds), expected, strict=True):
            assert result.address != address
            result.consume(wanted)
            del result
    with entered(cuda.fake):
        check(cuda.fake.driver.cuStreamSynchronize(other))
    assert soon(nobody_works, within=PATIENCE)  # the last thread keeps the memory as it ends
    cuda.fake.set(total_memory=cuda.fake.alive()["allocated_bytes"] + 2 * 8192 - 1)
    taken(cuda.of(Dataset.from_tensor_slices(np.zeros((2, 1100), np.float32)).batch(1), buffers=2))
    assert cuda.fake.count("cuMemFree_v2") >= 3  # all that was kept
    cuda.fake.go_on(side if way == "one aside" else main)


@pytest.mark.parametrize("widened", [False, True])
def test_a_stream_of_copies_whose_end_the_driver_cant_tell(cuda, numbers, widened):
    device_ds = cuda.of(Dataset.from_tensor_slices(numbers).batch(100))
    if widened:
        device_ds = device_ds.map(lambda x: x * 2)
    cuda.fake.fail("cuStreamSynchronize", 1, 719)
    taken(device_ds)
    cuda.leaks = 3 + widened
    count = cuda.fake.count("cuMemAlloc_v2")
    taken(device_ds)
    assert cuda.fake.count("cuMemAlloc_v2") == 2 * count
    assert cuda.fake.count("cuMemFree_v2") == 0


# What the driver and the machine refuse


def test_no_memory_on_the_device(cuda, kind):
    ds, _ = kind
    cuda.fake.set(total_memory=1500)
    with iter(cuda.of(ds)) as it:
        with pytest.raises(ResourceExhaustedError, match=r"no memory for \d+ bytes on cuda:0"):
            list(it)
        with pytest.raises(FailedPreconditionError):
            next(it)


def test_memory_that_cant_be_page_locked(cuda, kind):
    ds, expected = kind
    cuda.fake.set(register_limit=0)
    with (
        iter(cuda.of(ds)) as it,
        pytest.raises(ResourceExhaustedError, match=r"\d+ bytes .*ulimit -l.* pinned='prefer'"),
    ):
        next(it)
    cuda.stream()
    with iter(cuda.of(ds, prefer=True)) as it:
        with pytest.warns(RuntimeWarning, match="can't be page-locked") as caught:
            for got, wanted in zip(it, expected, strict=True):
                got.consume(wanted)
                del got
        assert len(caught) == 1
        assert it.stats()["pageable_copies"] == len(expected)
    cuda.fake.drain()
    assert set(cuda.fake.faults()) == {"pageable_copies"}
    cuda.fake.clear()


@pytest.fixture
def old_cuda(fake_cuda_folder):
    yield from plane(build(fake_cuda_folder, "-DNO_BATCH"))


@pytest.mark.thorough
def test_copies_one_at_a_time_on_an_old_driver(old_cuda, numbers):
    with iter(old_cuda.of(Dataset.from_tensor_slices(numbers).batch(100))) as it:
        for got, wanted in zip(it, batches(numbers, 100), strict=True):
            got.consume(wanted)
            del got
    assert old_cuda.fake.count("cuMemcpyHtoDAsync_v2") == 11


def test_two_devices(cuda, numbers):
    cuda.fake.set(devices=2)
    other = Plane(cuda.fake, 1)
    ds = Dataset.from_tensor_slices(numbers).batch(100)
    with iter(cuda.of(ds)) as one, iter(other.of(ds)) as two:
        for a, b, wanted in zip(one, two, batches(numbers, 100), strict=True):
            assert np.array_equal(a.numpy(), wanted)
            assert np.array_equal(b.numpy(), wanted)
    with pytest.raises(DeviceUnavailableError, match="no device cuda:2"):
        open_device(2)


def test_threads_end_with_the_iterator(cuda, kind):
    ds, _ = kind
    it = iter(cuda.of(ds.repeat()))
    next(it)
    del it
    gc.collect()
    assert soon(lambda: native_thread_count() == 0)


# Queues


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_queue(cuda, numbers, schedule):
    cuda.fake.schedule(schedule, 4)
    cuda.stream()
    queue = qc.FIFOQueue(5, [np.float32, np.int32], [(16, 33), ()])
    expected = [(numbers[index : index + 16], index) for index in range(0, 320, 16)]

    def fill():
        for x, index in expected:
            queue.enqueue([x, index])
        queue.close()

    threading.Thread(target=fill).start()
    with cuda.dequeued(queue) as it:
        for (x, index), (wanted, number) in zip(it, expected, strict=True):
            x.consume(wanted)
            index.consume(np.array(number, np.int32))
            del x, index
        assert it.stats()["pageable_copies"] == 0


QUEUES = {
    "one": (qc.FIFOQueue(40, [np.float32], [(3,)]), lambda n: np.full(3, n, np.float32)),
    "names": (
        qc.FIFOQueue(40, [np.float32, np.int64], [(2, 2), ()], names=["x", "y"]),
        lambda n: {"x": np.full((2, 2), n, np.float32), "y": np.int64(n)},
    ),
    "any shape": (
        qc.FIFOQueue(40, [np.int16, np.uint8]),
        lambda n: [np.full((n, 1, n % 3), n, np.int16), np.arange(n % 5, dtype=np.uint8)],
    ),
    "some sides": (
        qc.PaddingFIFOQueue(40, [np.complex64], [(None, 2)]),
        lambda n: np.full((n % 4, 2), n, np.complex64),
    ),
    "priorities": (
        qc.PriorityQueue(40, [np.bool_], [(5,)]),
        lambda n: [np.int64(n), np.arange(5) < n],
    ),
    "strings too": (qc.FIFOQueue(40, [bytes, np.float64], [(), (1,)]), lambda n: [b"%d" % n, np.full(1, n, float)]),
    "other end first": (
        qc.FIFOQueue(40, [np.dtype(">i4")], [(2,)]),
        lambda n: np.full(2, n, ">i4"),
    ),
}


def checked(result, expected):
    """Let the device read each array of an element."""
    if isinstance(expected, dict):
        assert result.keys() == expected.keys()
        result, expected = list(result.values()), list(expected.values())
    if not isinstance(expected, list):
        result, expected = [result], [expected]
    for one, right in zip(result, expected, strict=True):
        if isinstance(right, bytes):
            assert one == right
        else:
            one.consume(np.asarray(right, np.asarray(right).dtype.newbyteorder("=")))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", QUEUES)
def test_elements_of_a_queue_are_as_they_were_put(cuda, kind):
    cuda.stream()
    queue, element = QUEUES[kind]
    for n in range(40):
        queue.enqueue(element(n))
    it = cuda.dequeued(queue)
    for n in range(40):
        checked(next(it), element(n))
    assert queue.size() == 0
    it.close()


def test_a_queue_of_numbers_needs_no_gil(cuda):
    queue = qc.FIFOQueue(10, [np.float32], [(3,)])
    queue.enqueue(np.zeros(3, np.float32))
    it = cuda.dequeued(queue)
    next(it)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for n in range(6):
            queue.enqueue(np.full(3, n, np.float32))
        deadline = time.monotonic() + PATIENCE
        while queue.size() and time.monotonic() < deadline:  # never waits, so never lets go of the GIL
            pass
        taken = queue.size() == 0
    finally:
        sys.setswitchinterval(interval)
    assert taken
    for n in range(6):
        next(it).consume(np.full(3, n, np.float32))
    it.close()


def test_a_queues_elements_from_memory_that_is_not_page_locked(cuda):
    queue = qc.FIFOQueue(10, [np.float32], [(3,)])
    for n in range(10):
        queue.enqueue(np.full(3, n, np.float32))
    queue.close()
    cuda.fake.fail("cuMemHostRegister_v2", 1, OUT_OF_MEMORY, ALWAYS)
    with pytest.raises(ResourceExhaustedError, match=r"can't be page-locked.*ulimit -l"):
        next(cuda.dequeued(queue))
    it = Dequeued(queue, Target(cuda.device, cuda.arrays, 3, False, True))
    with pytest.warns(RuntimeWarning, match="can't be page-locked for cuda:0"):
        left = [got.consume(np.full(3, n, np.float32)) for n, got in enumerate(it, 1)]
    assert len(left) == it.stats()["pageable_copies"] == 9
    cuda.fake.drain()
    assert set(cuda.fake.faults()) == {"pageable_copies"}
    cuda.fake.clear()


def test_a_queue_that_nobody_fills_can_be_left(cuda):
    it = cuda.dequeued(qc.FIFOQueue(5, [np.float32], [()]))

    def close_when_asked():
        assert soon(lambda: it._iterator._feed is not None)
        it.close()

    other = threading.Thread(target=close_when_asked)
    other.start()
    with pytest.raises(StopIteration):
        next(it)
    other.join()


def test_a_queue_that_nobody_fills_can_be_left_as_its_first_element_is_asked_for(cuda, monkeypatch):
    make_feed = staging._Feed

    def close_and_make(*arguments):
        it.close()
        return make_feed(*arguments)

    monkeypatch.setattr(staging, "_Feed", close_and_make)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # most often, the thread of the transfer has not begun then
    try:
        for _ in range(10):
            it = cuda.dequeued(qc.FIFOQueue(5, [np.float32], [()]))
            with pytest.raises(StopIteration):
                next(it)
    finally:
        os.sched_setaffinity(0, cores)


def test_a_queue_whose_filler_failed(cuda):
    queue = qc.FIFOQueue(5, [np.float32], [()])
    coord = qc.Coordinator()

    def fail():
        raise KeyError("no")

    threads = qc.QueueRunner(queue, [fail]).create_threads(coord, start=True)
    with pytest.raises(qc.errors.OutOfRangeError) as caught:
        next(cuda.dequeued(queue))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(KeyError):
        coord.join(threads)
