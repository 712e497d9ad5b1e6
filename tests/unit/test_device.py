"""Batches to a device, on a driver that is none: that each arrives whole, is not overwritten, and goes back."""

import gc
import threading

import numpy as np
import pytest
from helpers.devices import plane
from helpers.fake_cuda import SCHEDULES, build
from helpers.functions import in_python
from helpers.process import PATIENCE, soon

import queuecore as qc
from queuecore.data import Dataset, FixedLengthRecordDataset, Options
from queuecore.data._device import goes_as_it_lies
from queuecore.errors import SlotsExhaustedError

RECORD = np.dtype([("label", ">u2"), ("image", "u1", (3, 5)), ("weight", "<f4")])


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    return build(tmp_path_factory.getbasetemp().parent / "fake_cuda")


@pytest.fixture
def cuda(driver):
    yield from plane(driver)


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
