"""Batches are views on memory that is used again, and nobody who keeps one ever sees that."""

import gc
import threading
import warnings

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.models.oracle import Model, assert_same

import queuecore as qc
from queuecore.data import Options

RECORD = np.dtype([("id", ">u4"), ("body", "u1", (60,)), ("flag", "?")])
BATCH = [("batch", 8, False)]


@pytest.fixture
def content():
    return np.random.default_rng(0).bytes(RECORD.itemsize * 1003)


@pytest.fixture
def ds(tmp_path, content):
    return dataset(write_files(tmp_path, [content]), RECORD).batch(8)


def test_kept_batches_stay_as_they_are(ds, content):
    for number in THREADS:
        with iter(threads(ds, number)) as it, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kept = list(it)
            assert it.stats()["copied_batches"] == len(kept) - 4
        assert len(caught) == 1
        gc.collect()
        assert_same(kept, list(Model([content], RECORD, BATCH)))


def test_copies_that_are_asked_for_are_not_warned_of(ds, content):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with iter(ds.with_options(Options(on_hold="copy"))) as it:
            kept = list(it)
            assert it.stats()["copied_batches"] == len(kept) - 4
    assert_same(kept, list(Model([content], RECORD, BATCH)))


def test_a_warning_that_is_an_error_loses_nothing(ds, content):
    for number in THREADS:
        elements = []
        with iter(threads(ds, number)) as it, warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="more than 4 batches"):
                elements += it  # the elements up to the error are in the list
            elements += it
        gc.collect()
        assert_same(elements, list(Model([content], RECORD, BATCH)))


def test_kept_batches_of_a_shuffle(ds, content, tmp_path):
    ops = [("shuffle", 50, 1, True), *BATCH]
    ds = dataset(write_files(tmp_path, [content]), RECORD).shuffle(50, 1).batch(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(list(ds), list(Model([content], RECORD, ops)))


@pytest.mark.parametrize("held", [1, 2, 7])
def test_only_as_many_views_as_agreed(ds, held):
    with iter(ds.with_options(Options(max_leases=held))) as it, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = [next(it) for _ in range(held)]
        assert it.stats()["copied_batches"] == 0
        kept += [next(it) for _ in range(3)]
        assert it.stats()["copied_batches"] == 3
        del kept
        gc.collect()
        next(it)
        assert it.stats()["copied_batches"] == 3


def test_a_loop_copies_nothing(ds):
    with iter(ds.repeat(3)) as it:
        for _ in it:
            pass
        assert it.stats()["copied_batches"] == 0


def test_on_hold_raise(ds, content):
    expected = list(Model([content], RECORD, BATCH))
    with iter(ds.with_options(Options(max_leases=3, on_hold="raise"))) as it:
        batches = [next(it) for _ in range(3)]
        with pytest.raises(qc.errors.SlotsExhaustedError) as caught:
            next(it)
        assert isinstance(caught.value, MemoryError)
        assert_same(batches, expected[:3])
        # Nothing is lost: once there is room, it goes on.
        batches.pop()
        assert_same([next(it)], [expected[3]])


def test_memory_is_used_again(ds):
    addresses = set()
    count = 0
    for batch in ds.take(125).batch(100).repeat(300):
        addresses.add(batch["body"].ctypes.data)
        count += 1
    assert count == 300 * 2
    assert len(addresses) <= 40


def test_one_field_is_enough_to_keep_a_batch(ds, content):
    expected = list(Model([content], RECORD, BATCH))
    with iter(ds.with_options(Options(max_leases=5))) as it:
        body = next(it)["body"]
        part = next(it)["body"][2:4, 5]
        memory = memoryview(next(it)["id"])
        for _ in it:
            pass
        assert np.array_equal(body, expected[0]["body"])
        assert np.array_equal(part, expected[1]["body"][2:4, 5])
        assert memory.tobytes() == expected[2]["id"].tobytes()


def test_batches_outlive_their_iterator(ds, content):
    it = iter(ds)
    batches = [next(it), next(it)]
    it.close()
    del it
    gc.collect()
    churn = [np.full(100_000, 255, dtype=np.uint8) for _ in range(20)]
    assert_same(batches, list(Model([content], RECORD, BATCH))[:2])
    del churn, batches
    gc.collect()


def test_given_back_in_another_thread(ds):
    with iter(ds.repeat(3)) as it:
        for _ in range(200):
            box = [next(it)]
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()
        assert it.stats()["copied_batches"] == 0


def test_arrays_are_aligned(ds, tmp_path, content):
    plain = dataset(write_files(tmp_path, [content[:13000]]), 13)
    for stream in (ds, ds.batch(2, True), plain.batch(3), plain.shuffle(9).batch(5)):
        for element in stream.take(20):
            for array in element.values() if isinstance(element, dict) else [element]:
                assert array.ctypes.data % 64 == 0
                assert array.flags.c_contiguous
                assert array.flags.aligned


def test_writing_into_a_batch_harms_nobody(ds, content):
    expected = list(Model([content], RECORD, [*BATCH, ("repeat", 2)]))
    with iter(ds.repeat(2)) as it:
        for batch, right in zip(it, expected, strict=True):
            assert_same([batch], [right])
            if batch["body"].flags.writeable:
                batch["body"][:] = 0xEE


def test_the_last_batch_is_short_and_exact(ds, content):
    *_, last = list(Model([content], RECORD, BATCH))
    with iter(ds.skip(125)) as it:
        assert_same(list(it), [last])
        assert len(last["id"]) == 3
