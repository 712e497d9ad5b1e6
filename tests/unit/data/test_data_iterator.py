"""The life of an iterator: its threads, its end, its neighbours."""

import copy
import ctypes
import gc
import itertools
import os
import pickle
import threading
import weakref

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, own, run, threads, values, write_files
from helpers.device import devices
from helpers.models.oracle import assert_same
from helpers.process import AT_ONCE, PATIENCE, collect, open_descriptors, soon, thread_ids

import queuecore as qc
from queuecore._core.atoms.process import thread_count as native_thread_count
from queuecore.data import Dataset, FixedLengthRecordDataset, Iterator


@pytest.fixture(autouse=True)
def no_threads_of_an_earlier_test():
    # They may end late, and would be counted before and not after.
    collect()
    assert soon(lambda: native_thread_count() == 0, within=PATIENCE)


@pytest.fixture
def ds(tmp_path):
    state = np.random.default_rng(0)
    return dataset(write_files(tmp_path, [state.bytes(4096 * 100) for _ in range(5)]), 4096).batch(8).repeat()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("number", [*THREADS, None])
@pytest.mark.parametrize("end", ["close", "with", "drop", "exhaust", "error in the loop"])
def test_threads_end_with_the_iterator(ds, end, number):
    before, descriptors = thread_ids(), open_descriptors()
    it = iter(threads(ds.take(50), number))
    assert soon(lambda: thread_ids() <= before)  # those that looked at the files' sizes end
    next(it)
    if end == "close":
        it.close()
    elif end == "with":
        with it:
            next(it)
    elif end == "exhaust":
        assert sum(1 for _ in it) == 49
    elif end == "error in the loop":
        with pytest.raises(KeyError):
            for _ in it:
                raise KeyError
    del it
    gc.collect()
    assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: open_descriptors() <= descriptors)


def test_close_waits_for_the_threads(ds):
    before = thread_ids()
    it = iter(threads(ds, 8))
    next(it)
    assert thread_ids() - before
    it.close()
    # What the system counts may lag a little behind the thread's last step.
    assert soon(lambda: thread_ids() <= before)


def test_close_gives_the_files_back(ds):
    descriptors = open_descriptors()
    it = iter(ds)
    batch = next(it)
    assert open_descriptors() > descriptors
    it.close()
    assert soon(lambda: open_descriptors() <= descriptors)
    assert batch.shape == (8, 4096)


def test_a_cycle_is_collected(ds):
    before = thread_ids()
    it = iter(ds)
    next(it)
    gone = weakref.ref(it)
    box = [it]
    box.append(box)
    del it, box
    gc.collect()
    assert gone() is None
    assert soon(lambda: thread_ids() <= before)


def test_what_a_thread_uses_stays_when_a_cycle_is_collected(tmp_path):
    functions = pytest.importorskip("queuecore._core.testing.steps").functions()
    numbers = np.array([[1, 0], [0, 0]], np.int32)  # of each batch: the number, and if it was looked at
    addresses = np.repeat([row.ctypes.data for row in numbers], 8)
    (tmp_path / "addresses").write_bytes(addresses.tobytes())
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_int32))
    hold = kind(functions["hold"])  # comes back when the number at the address is not 0
    ds = FixedLengthRecordDataset([tmp_path / "addresses"], 8).map(qc.ops.cfunc(hold, outputs=[(np.int32, ())]))
    it = iter(threads(ds.batch(8).prefetch(4), 1))  # one thread: the consumer doesn't help, and so isn't held
    assert next(it).tolist() == [1] * 8
    assert soon(lambda: numbers[1, 1] == 1)  # a thread that is yet to begin a batch would end instead
    box = [it]
    box.append(box)
    del ds, it, box
    gc.collect()
    assert soon(lambda: native_thread_count() == 1)  # others of the stream may take a moment to end
    referrers = len(gc.get_referrers(hold))
    numbers[1, 0] = 1
    assert soon(lambda: native_thread_count() == 0)
    iter(FixedLengthRecordDataset([tmp_path / "addresses"], 8))  # a new one looks what is needed no longer
    assert len(gc.get_referrers(hold)) < referrers


def test_collected_by_another_thread(ds):
    before = thread_ids()
    box = [iter(ds)]
    next(box[0])
    other = threading.Thread(target=box.clear)
    other.start()
    other.join(AT_ONCE)
    assert not other.is_alive()
    assert soon(lambda: thread_ids() <= before)


def test_the_end_is_the_end(ds):
    it = iter(ds.take(3))
    assert len([own(batch) for batch in it]) == 3
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(it)
    it.close()


def test_after_close(ds):
    it = iter(ds)
    next(it)
    assert not it.closed
    it.close()
    it.close(timeout=None)
    assert it.closed
    with pytest.raises(qc.errors.FailedPreconditionError):
        next(it)
    with pytest.raises(qc.errors.FailedPreconditionError):
        it.load_state_dict(it.state_dict())
    assert it.stats()["elements"] == 1


def test_closed_before_it_began(ds):
    with iter(ds) as it:
        pass
    assert it.closed


def test_never_used(ds):
    before = thread_ids()
    iterators = [iter(ds) for _ in range(50)]
    assert soon(lambda: thread_ids() <= before)
    del iterators


def test_an_iterator_is_its_own(ds):
    it = iter(ds)
    assert iter(it) is it
    assert isinstance(it, Iterator)
    assert it.element_spec == ds.element_spec
    it.close()


def test_two_iterators_are_independent(ds):
    expected, _ = run(ds, 40)
    with iter(threads(ds, 2)) as it, iter(ds) as other:
        results = {it: [], other: []}
        for pick in itertools.chain([it] * 3, [other] * 11, [it, other] * 10):
            results[pick].append(own(next(pick)))
        it.close()
        results[other].extend(own(next(other)) for _ in range(5))
    assert_same(results[it], expected[:13])
    assert_same(results[other], expected[:26])


def test_iterators_in_threads_of_their_own(ds):
    expected, _ = run(ds, 60)
    results = [[] for _ in range(4)]

    def work(result):
        with iter(ds) as it:
            result.extend(own(batch) for batch in itertools.islice(it, 60))

    workers = [threading.Thread(target=work, args=(result,)) for result in results]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        assert_same(result, expected)


def test_many_iterators_one_after_the_other(ds):
    before, descriptors = thread_ids(), open_descriptors()
    for _ in range(100):
        with iter(ds) as it:
            next(it)
    assert soon(lambda: thread_ids() <= before)
    assert open_descriptors() <= descriptors


def test_datasets_can_be_pickled(tmp_path):
    paths = write_files(tmp_path, [bytes(range(50))])
    record = np.dtype([("a", ">u2"), ("b", "u1")])
    ds = FixedLengthRecordDataset(paths, record=record, header_bytes=2).shuffle(9, 1).batch(4).prefetch(2)
    expected, _ = run(ds)
    for other in (pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds)):
        assert isinstance(other, Dataset)
        assert_same(run(other)[0], expected)
    assert repr(pickle.loads(pickle.dumps(ds))) == repr(ds)


def test_iterators_can_not(ds):
    it = iter(ds)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="state_dict"):
            way(it)


def test_stats(ds):
    with iter(ds) as it:
        for _ in range(10):
            next(it)
        stats = it.stats()
    assert stats["elements"] == 10
    assert stats["records"] == 80
    assert stats["bytes_read"] >= 80 * 4096
    assert {"empty_files", "dropped_tails", "dropped_records", "copied_batches", "helped_units"} <= set(stats)
    assert all(type(value) is int for value in stats.values())


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("tiny"), [bytes([index % 256]) * (index % 3) for index in range(3000)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [*THREADS, None])
def test_many_tiny_files(tiny_files, number):
    before, peak, results = open_descriptors(), 0, []
    ds = threads(FixedLengthRecordDataset(tiny_files, 1).batch(50), number)
    workers = ds._chain.threads()[0]
    with iter(ds) as it:
        for batch in it:
            results.extend(batch[:, 0].tolist())
            peak = max(peak, open_descriptors() - before)
    assert results == [index % 256 for index in range(3000) for _ in range(index % 3)]
    assert peak <= workers + 16
    assert open_descriptors() == before


def test_a_file_that_goes_away_while_open(tmp_path):
    paths = write_files(tmp_path, [bytes(range(200)) * 50])
    with iter(FixedLengthRecordDataset(paths, 1).batch(100)) as it:
        first = own(next(it))
        os.unlink(paths[0])
        rest = [own(batch) for batch in it]
    assert list(itertools.chain.from_iterable(itertools.chain(values([first]), values(rest)))) == list(range(200)) * 50


def test_an_iterator_has_the_length_that_is_left():
    ds = Dataset.range(10).batch(3)
    with iter(ds) as it:
        assert len(it) == len(ds) == 4
        next(it)
        state = it.state_dict()
        assert (len(it), bool(it)) == (3, True)
    with iter(ds) as it:
        it.load_state_dict(state)
        assert len(it) == 3
        assert len(list(it)) == 3
        assert (len(it), bool(it)) == (0, True)
    switched = ds.make_initializable_iterator()
    switched.initialize()
    next(switched)
    assert len(switched) == 3


def test_an_iterator_on_a_device_has_the_length_that_is_left(fake_cuda_library):
    """Elements that go as they lie, and those that are staged, which the thread has taken beforehand."""
    for plane in devices.plane(fake_cuda_library):
        for ds in (Dataset.range(10).batch(3), Dataset.from_tensor_slices([b"a", b"b"] * 5).batch(3)):
            ds = plane.of(ds)
            with iter(ds) as it:
                next(it)
                state = it.state_dict()
                assert len(it) == 3
                assert sum(1 for _ in it) == 3
                assert (len(it), bool(it)) == (0, True)
            with iter(ds) as it:
                it.load_state_dict(state)
                assert len(it) == 3
                next(it)
                assert len(it) == 2


def test_an_iterator_without_a_length(tmp_path):
    for ds in (Dataset.range(3).repeat(), Dataset.range(9).filter(lambda x: x > 3)):
        with iter(ds) as it, pytest.raises(TypeError, match="no len"):
            len(it)
    # list() asks for the length, and must get the elements before an error all the same.
    path = tmp_path / "a"
    path.write_bytes(b"abcd")
    results = []
    with iter(FixedLengthRecordDataset([path, tmp_path / "none"], 2)) as it:
        with pytest.raises(TypeError, match="can't be known"):
            len(it)
        with pytest.raises(qc.errors.NotFoundError):
            results.extend(it)
    assert len(results) == 2
