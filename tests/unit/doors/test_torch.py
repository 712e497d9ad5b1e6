"""`queuecore.torch`: tensors without copies, and a loader whose batches, order and errors are those of PyTorch's."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import logging
import os
import pickle
import sys
import threading
import types
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from helpers.device.devices import FakeArray, plane
from helpers.repository import documents
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.data import Dataset

pytestmark = [
    pytest.mark.doors,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # as many processes as a machine may have CPUs
]

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")

from helpers.doors import torch_samples as samples, torch_stateful as stateful, torch_workers as beside  # noqa: E402

from queuecore.errors import (  # noqa: E402
    DtypeError,
    FailedPreconditionError,
    ForkedPipelineError,
    InvalidArgumentError,
    PipelineError,
    ResumeMismatchError,
)
from queuecore.torch import DataLoader, IterableDataset, RaggedTensors, tensors  # noqa: E402

Oracle = torch.utils.data.DataLoader


def same(results: Any, expected: Any) -> bool:
    """Whether two structures have the same types, dtypes, shapes and values."""
    if type(results) is not type(expected):
        return False
    if isinstance(results, torch.Tensor):
        return results.dtype == expected.dtype and torch.equal(results, expected)
    if isinstance(results, dict):
        return list(results) == list(expected) and all(same(results[key], expected[key]) for key in results)
    if isinstance(results, tuple | list):
        return len(results) == len(expected) and all(map(same, results, expected))
    return results == expected


# -- tensors -----------------------------------------------------------------------------------------------------------


NUMBERS = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("word", NUMBERS)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_an_array_and_its_tensor_are_the_same_memory(word, shape):
    array = np.zeros(shape, word)
    made = tensors(array)
    assert made.dtype == torch.as_tensor(np.zeros(1, word)).dtype and made.shape == shape
    if array.size:
        assert made.data_ptr() == array.ctypes.data
        made.fill_(1)
        assert array.all()


def test_views_with_strides_are_shared():
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    for view in (array[::2], array[:, 1::3], array.T, np.asfortranarray(array)):
        made = tensors(view)
        assert made.data_ptr() == view.ctypes.data and made.tolist() == view.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(5, dtype=">i4"),
        lambda: np.arange(5, dtype=">f8").reshape(5, 1),
        lambda: np.arange(5)[::-1],
        lambda: np.arange(6, dtype="f4").reshape(2, 3)[:, ::-1],
        lambda: np.array([(1, 2.5), (3, 4.5)], np.dtype([("a", "u1"), ("b", "f8")]))["b"],
    ],
    ids=["big-endian", "big-endian floats", "backwards", "columns backwards", "a field of packed records"],
)
def test_what_tensors_can_not_be_is_copied(make):
    array = make()
    made = tensors(array)
    assert (
        made.tolist() == array.tolist()
        and made.dtype == torch.as_tensor(array.astype(array.dtype.newbyteorder("=")).copy()).dtype
    )


def test_an_array_that_can_not_be_written_to_is_copied():
    array = np.arange(4)
    array.setflags(write=False)
    made = tensors({"x": array})["x"]
    made += 1
    assert array.tolist() == [0, 1, 2, 3] and made.tolist() == [1, 2, 3, 4]


def test_what_a_cache_keeps_does_not_change_under_an_operation_in_place():
    ds = Dataset.range(6).map(lambda x: np.full(int(x) * 0 + 2, float(x))).batch(3).cache()
    loader = DataLoader(ds, batch_size=None)
    for _ in range(3):
        batches = list(loader)
        assert [batch.tolist() for batch in batches] == [[[0, 0], [1, 1], [2, 2]], [[3, 3], [4, 4], [5, 5]]]
        for batch in batches:
            batch.zero_()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_of_ml_dtypes(name):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    array = np.array([[0.5, -2.0], [1.5, 0.0]]).astype(dtype)
    made = tensors(array)
    assert made.dtype == getattr(torch, name) and made.data_ptr() == array.ctypes.data
    assert made.float().tolist() == array.astype(np.float32).tolist()
    assert tensors(array[0, 0]).float().item() == 0.5 and tensors(np.array(dtype.type(1.5))).shape == ()


@pytest.mark.parametrize("word", [*NUMBERS, "U3"])
def test_scalars_are_as_of_pytorch(word):
    value = np.ones(2, word)[0]
    # It has no way of its own for uint64's.
    assert same(
        tensors(value), torch.tensor(1, dtype=torch.uint64) if word == "u8" else torch.utils.data.default_convert(value)
    )


def test_structures_strings_and_the_rest():
    rows = qc.Ragged(np.arange(3.0), np.array([0, 1, 3]))
    tensor = torch.zeros(2)
    element = {"a": (b"x", rows), "p": samples.Point(np.int8(1), qc.Ragged.from_list([b"to", b"be"])), "t": tensor}
    made = tensors(element)
    assert type(made["a"]) is tuple and made["a"][0] == b"x"
    assert type(made["a"][1]) is RaggedTensors and made["a"][1].values.data_ptr() == rows.values.ctypes.data
    assert made["a"][1].row_splits.tolist() == [0, 1, 3]
    assert type(made["p"]) is samples.Point and made["p"].x.dtype == torch.int8 and made["p"].y == [b"to", b"be"]
    assert made["t"] is tensor
    deep = qc.Ragged(rows, np.array([0, 0, 2]))
    assert tensors(deep).values.row_splits.tolist() == [0, 1, 3] and tensors(deep).row_splits.tolist() == [0, 0, 2]
    assert tensors(qc.Ragged(qc.Ragged.from_list([b"a", b"", b"c"]), [0, 2, 3])) == [[b"a", b""], [b"c"]]
    assert tensors(np.array([[b"a", "b"]], object)) == [[b"a", "b"]]
    assert tensors(np.array(["ab", "c"])) == ["ab", "c"]
    for wrong in (np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])):
        with pytest.raises(TypeError):
            tensors(wrong)


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_ragged_tensors_are_those_of_a_nested_tensor():
    made = tensors(qc.Ragged(np.arange(5.0), np.array([0, 2, 2, 5])))
    nested = torch.nested.nested_tensor_from_jagged(*made)
    assert [row.tolist() for row in nested.unbind()] == [[0, 1], [], [2, 3, 4]]


# PyTorch 2.11 says that its checks are off, even to those who ask for them.
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
def test_sparse_is_a_sparse_tensor():
    sparse = qc.Sparse([[0, 1], [2, 0], [2, 0]], np.array([7.0, 8.0, 1.0]), [3, 2])
    made = tensors(sparse)
    assert made.layout == torch.sparse_coo and made.to_dense().tolist() == [[0, 7], [0, 0], [9, 0]]
    with pytest.raises(RuntimeError):
        tensors(qc.Sparse([[3, 0]], np.array([1.0]), [3, 2]))
    with pytest.raises(DtypeError):
        tensors(qc.Sparse([[0, 0]], qc.Ragged.from_list([b"a"]), [3, 2]))


def test_arrays_of_other_libraries_come_by_dlpack():
    class Device:
        """Stands for an array of CuPy's."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    array = np.arange(3.0)
    assert tensors((Device(array),))[0].data_ptr() == array.ctypes.data


def test_a_tensor_keeps_the_memory_of_its_batch():
    with iter(Dataset.range(1000).batch(10)) as it:
        held = [tensors(next(it)) for _ in range(2)]
        addresses = {tensor.data_ptr() for tensor in held}
        views = [tensor[3:5] for tensor in held]
        del held
        for index, batch in enumerate(map(tensors, it), 2):
            assert batch.tolist() == list(range(10 * index, 10 * index + 10))
            assert batch.data_ptr() not in addresses
        assert it.stats()["copied_batches"] == 0
        assert [view.tolist() for view in views] == [[3, 4], [13, 14]]


def test_memory_is_used_again_when_the_last_tensor_is_gone():
    addresses = []
    with iter(Dataset.range(10_000).batch(10)) as it:
        for batch in map(tensors, it):
            addresses.append(batch.data_ptr())
    assert len(addresses) == 1000 and len(set(addresses)) < 500


# -- the loader against PyTorch's --------------------------------------------------------------------------------------


@st.composite
def arguments(draw, replayed=False):
    """Return what makes a dataset, and what makes the arguments: two loaders can't share samplers and generators.

    `replayed`: no sampler that draws from the global generator all along: where that stands is its user's to save.
    """
    size = draw(st.integers(1, 23))
    kind = draw(st.sampled_from(samples.KINDS))
    cls = draw(st.sampled_from([samples.Squares, samples.AtOnce]))
    seed = draw(st.one_of(st.none(), st.integers(0, 9)))
    form = draw(
        st.sampled_from(
            ["plain", "shuffle", "random", "replaced", "subset", "weighted", "lazy", "list", "batches", "lists"]
        )
    )
    size_of = draw(st.one_of(st.none(), st.integers(1, 7)))
    drop = draw(st.booleans()) and size_of is not None
    own = draw(st.booleans()) or (replayed and seed is None and form in ("lazy", "batches"))

    def make():
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        other = torch.Generator().manual_seed(5) if own else generator
        data = torch.utils.data
        options: dict[str, Any] = {"batch_size": size_of, "drop_last": drop, "generator": generator}
        if form == "shuffle":
            options["shuffle"] = True
        elif form == "random":
            options["sampler"] = data.RandomSampler(range(size), generator=other)
        elif form == "replaced":
            options["sampler"] = data.RandomSampler(range(size), True, 2 * size, other)
        elif form == "subset":
            options["sampler"] = data.SubsetRandomSampler(range(0, size, 2), other)
        elif form == "weighted":
            options["sampler"] = data.WeightedRandomSampler(range(1, size + 1), size, True, other)
        elif form == "lazy":
            options["sampler"] = samples.Lazy(size, other)
        elif form == "list":
            options["sampler"] = list(range(size - 1, -1, -2))
        elif form in ("batches", "lists"):
            del options["batch_size"], options["drop_last"]
            lists = [[0], [size - 1, 0, 0], list(range(size))]
            options["batch_sampler"] = (
                lists if form == "lists" else data.BatchSampler(samples.Lazy(size, other), size_of or 1, drop)
            )
        return cls(size, kind), options

    return make


@pytest.mark.watchdog(240)
@settings(max_examples=120, deadline=None)
@given(arguments(), st.sampled_from([0, 1, 2, 5]), st.booleans())
def test_batches_order_and_generators_are_those_of_pytorch(make, workers, factor):
    torch.manual_seed(3)
    dataset, given_ = make()
    oracle = Oracle(dataset, **given_)
    theirs = [list(oracle) for _ in range(3)]
    after = torch.get_rng_state()
    torch.manual_seed(3)
    dataset, given_ = make()
    loader = DataLoader(dataset, num_workers=workers, prefetch_factor=3 if factor and workers else None, **given_)
    assert len(loader) == len(oracle)
    for epoch in theirs:
        ours = list(loader)
        assert len(ours) == len(epoch) and all(map(same, ours, epoch))
    assert torch.equal(torch.get_rng_state(), after)
    if loader.generator is not None:
        assert torch.equal(loader.generator.get_state(), oracle.generator.get_state())


@pytest.mark.parametrize("factor", [None, 1, 4])
@pytest.mark.parametrize("batch_count", [0, 1, 3])
def test_a_sampler_runs_as_far_ahead_as_in_pytorch_and_in_the_same_thread(factor, batch_count):
    """What it draws from the global generator falls between the same draws of the loop."""
    draws = []
    for cls in (Oracle, DataLoader):
        torch.manual_seed(1)
        sampler = samples.Lazy(40)
        it = iter(cls(samples.Squares(40, "int"), 2, sampler=sampler, num_workers=2, prefetch_factor=factor))
        drawn = []
        for _ in range(batch_count):
            drawn.append(next(it).tolist())
            drawn.append(float(torch.rand(())))
        draws.append((drawn, torch.get_rng_state().tolist()))
        assert sampler.threads == {threading.get_ident()}
        del it
    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": -1},
        {"persistent_workers": True},
        {"shuffle": True, "sampler": [0]},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "shuffle": True},
        {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"multiprocessing_context": "fork"},
        {"num_workers": 1, "multiprocessing_context": "magic"},
        {"num_workers": 1, "multiprocessing_context": 3},
        {"unknown": 1},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_as_by_pytorch(wrong):
    with pytest.raises(Exception) as theirs:
        Oracle([1, 2, 3], **wrong)
    with pytest.raises(type(theirs.value)):
        DataLoader([1, 2, 3], **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampler": [0]},
        {"batch_sampler": [[0]]},
        {"worker_init_fn": print, "num_workers": 1},
        {"device": "cpu", "collate_fn": list},
        {"batch_size": None, "drop_last": True},
    ],
    ids=str,
)
def test_wrong_arguments_with_a_dataset_of_ours(wrong):
    with pytest.raises(ValueError):
        DataLoader(Dataset.range(3), **wrong)


def test_wrong_arguments_of_ours():
    with pytest.raises(ValueError):
        DataLoader([1, 2], device="cpu")
    with pytest.raises(ValueError):
        DataLoader([1, 2], timeout=3)
    for wrong in ({"timeout": 3}, {"copy_dataset": "all"}, {"copy_dataset": True}, {"worker_type": "fibre"}):
        with pytest.raises(ValueError):
            DataLoader(samples.Stream(2), **wrong)
    for wrong in ({"timeout": 3}, {"worker_init_fn": print}, {"worker_type": "process"}):
        with pytest.raises(ValueError):
            DataLoader(IterableDataset(Dataset.range(2)), num_workers=1, **wrong)
    with pytest.raises(DtypeError):
        IterableDataset([1, 2])
    with pytest.raises(InvalidArgumentError):
        IterableDataset(Dataset.range(3)).set_epoch(-1)


def test_it_is_a_loader_of_pytorch_and_arguments_about_processes_have_no_effect():
    given_ = {
        "num_workers": 2,
        "multiprocessing_context": "spawn",
        "persistent_workers": True,
        "pin_memory_device": "cuda",
    }
    loader = DataLoader(samples.Squares(5, "int"), 2, **given_)
    assert isinstance(loader, Oracle)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9], [16]]


def test_more_threads_than_cpus_are_no_reason_for_a_warning():
    assert len(list(DataLoader(samples.Squares(5, "int"), num_workers=(os.cpu_count() or 1) + 3))) == 5


def test_pinning_without_a_gpu_warns_as_pytorch_does():
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    warnings_given = []
    for cls, dataset in ((Oracle, [1]), (DataLoader, [1]), (DataLoader, Dataset.range(1))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert len(list(cls(dataset, pin_memory=True))) == 1
        warnings_given.append([(one.category, str(one.message)) for one in caught])
    assert len(warnings_given[0]) == 1 and warnings_given[0] == warnings_given[1] == warnings_given[2]


def test_pinning_is_left_to_pytorch(monkeypatch):
    """Whatever makes the batches; there is no GPU here."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.utils.data._utils.pin_memory, "pin_memory", lambda batch: ("pinned", batch.tolist()))
    expected = [("pinned", [0, 1]), ("pinned", [2])]
    for workers in (0, 2):
        assert list(DataLoader([0, 1, 2], 2, pin_memory=True, num_workers=workers)) == expected
    assert list(DataLoader(samples.Stream(3), 2, pin_memory=True)) == expected
    collate = torch.utils.data.default_collate
    assert list(DataLoader(Dataset.range(3), 2, pin_memory=True, collate_fn=collate)) == expected


def test_worker_init_fn_runs_once_in_each_thread():
    begun: list[tuple[int, int]] = []
    barrier = threading.Barrier(3)

    class Meeting(samples.Squares):
        def __getitem__(self, index):
            barrier.wait(20)
            return super().__getitem__(index)

    loader = DataLoader(
        Meeting(12, "int"), num_workers=3, worker_init_fn=lambda number: begun.append((number, threading.get_ident()))
    )
    assert [int(batch) for batch in loader] == [x * x for x in range(12)]
    assert sorted(number for number, _ in begun) == [0, 1, 2]
    assert len({thread for _, thread in begun} - {threading.get_ident()}) == 3


def test_without_workers_all_is_done_in_the_callers_thread_when_asked():
    calls = []

    class Seen(samples.Squares):
        def __getitem__(self, index):
            calls.append((index, threading.get_ident()))
            return super().__getitem__(index)

    it = iter(DataLoader(Seen(6, "int"), 2))
    assert not calls
    next(it)
    assert calls == [(0, threading.get_ident()), (1, threading.get_ident())]


def test_no_more_is_made_ahead_than_asked_for():
    indices = []
    go = threading.Semaphore(0)

    class Seen(samples.Squares):
        def __getitem__(self, index):
            indices.append(index)
            go.release()
            return super().__getitem__(index)

    it = iter(DataLoader(Seen(1000, "int"), num_workers=2, prefetch_factor=3))
    for taken in range(20):
        next(it)
        while len(indices) < taken + 7:  # one for each that was taken, and six ahead
            assert go.acquire(timeout=20)
        assert len(indices) == taken + 7


def test_out_of_order_a_slow_batch_holds_up_nobody():
    gate = threading.Event()

    class Slow(samples.Squares):
        def __getitem__(self, index):
            if index == 0:
                assert gate.wait(20)
            return index

    loader = DataLoader(Slow(8, "int"), num_workers=2, in_order=False)
    it = iter(loader)
    first = [int(next(it)) for _ in range(4)]
    assert first == [1, 2, 3, 4]
    state = json.loads(json.dumps(loader.state_dict()))
    gate.set()
    assert sorted(map(int, it)) == [0, 5, 6, 7]
    again = DataLoader(Slow(8, "int"), in_order=False)
    again.load_state_dict(state)
    assert [int(batch) for batch in again] == [0, 5, 6, 7]


# -- errors and ends ---------------------------------------------------------------------------------------------------


class Broken(samples.Squares):
    def __init__(self, size, bad, error):
        super().__init__(size, "int")
        self.bad, self.error = bad, error

    def __getitem__(self, index):
        if index in self.bad:
            raise self.error
        return super().__getitem__(index)


def outcomes(loader: Any) -> list[Any]:
    """What comes of each call, errors too, to the end."""
    results: list[Any] = []
    it = iter(loader)
    while True:
        try:
            results.append(next(it).tolist())
        except StopIteration:
            return results
        except Exception as error:
            results.append(type(error))


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize(
    "error", [ValueError("bad"), KeyError("x"), OSError(2, "gone"), samples.torch.OutOfMemoryError("x")], ids=repr
)
def test_an_error_comes_in_its_place_as_it_is_and_the_loop_may_go_on(workers, error):
    # One of its own: that of the list of cases lives on.
    error = type(error)(*error.args)
    dataset = Broken(11, {4, 5, 10}, error)
    assert outcomes(DataLoader(dataset, 2, num_workers=workers)) == outcomes(Oracle(dataset, 2))
    with pytest.raises(type(error)) as raised:
        list(DataLoader(dataset, 2, num_workers=workers))
    assert raised.value is error
    assert any(entry.name == "__getitem__" for entry in raised.traceback)
    if workers:
        assert any("[4, 5]" in note for note in error.__notes__)
    # It comes in two batches: a thread may still have the second, and so the frames of the loop, and the loader.
    error.__traceback__ = None


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_collation_and_of_samplers(workers):
    def sampler():
        yield from [0, 1, 2]
        raise ZeroDivisionError

    def collate(batch):
        if 1 in batch:
            raise LookupError
        return torch.tensor(batch)

    made = outcomes(
        DataLoader(samples.Squares(9, "int"), 1, sampler=sampler(), collate_fn=collate, num_workers=workers)
    )
    assert made == [[0], LookupError, [4], ZeroDivisionError]
    assert made == outcomes(Oracle(samples.Squares(9, "int"), 1, sampler=sampler(), collate_fn=collate))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stop_iteration_is_no_end_of_the_data(workers):
    stop = StopIteration("odd")
    with pytest.raises(PipelineError) as raised:
        list(DataLoader(Broken(5, {3}, stop), num_workers=workers))
    assert raised.value.__cause__ is stop


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_loses_nothing(workers, error):
    dataset = Broken(6, {2}, error())
    it = iter(DataLoader(dataset, num_workers=workers))
    assert [int(next(it)), int(next(it))] == [0, 1]
    with pytest.raises(error):
        next(it)
    dataset.bad = set()
    # In a thread it is an error like others; in the caller's own the batch is made again.
    assert [int(one) for one in it] == ([9, 16, 25] if workers else [4, 9, 16, 25])


def test_waiting_too_long_is_a_runtime_error():
    gate = threading.Event()

    class Slow(samples.Squares):
        def __getitem__(self, index):
            assert gate.wait(20)
            return index

    it = iter(DataLoader(Slow(2, "int"), num_workers=1, timeout=0.2))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        next(it)
    gate.set()
    with pytest.raises(FailedPreconditionError):
        next(it)


def threads() -> set[threading.Thread]:
    """Those of pipelines; what a test before this one left (in the traceback of an error, say) is there too."""
    return {one for one in threading.enumerate() if one.name.startswith("qc-") and one.ident is not None}


@pytest.mark.parametrize("end", ["close", "drop", "leave", "next epoch"])
def test_threads_end_with_the_iterator(end):
    before = threads()
    loader = DataLoader(samples.Squares(10_000, "int"), num_workers=3)
    it = iter(loader)
    next(it)
    own = threads() - before
    assert len(own) >= 2
    if end == "close":
        it.close()
    elif end == "drop":
        del it, loader
    elif end == "leave":
        del it
        for _ in loader:
            break
        del loader, _
    else:
        it = iter(loader)
        assert int(next(it)) == 0
    for one in own:
        one.join(20)
        assert not one.is_alive()


def test_a_dropped_loader_leaves_no_cycle():
    class Watched(samples.Squares):
        pass

    gc.collect()
    gc.disable()
    try:
        before = threads()
        dataset = Watched(50, "int")
        reference = weakref.ref(dataset)
        loader = DataLoader(dataset, num_workers=2)
        it = iter(loader)
        next(it)
        own = threads() - before
        del it, loader, dataset
        for one in own:
            one.join(20)
        assert reference() is None
    finally:
        gc.enable()


def test_iterators_are_independent():
    loader = DataLoader(samples.Squares(5, "int"), num_workers=2)
    pairs = [(int(a), int(b)) for a, b in itertools.product(loader, loader)]
    assert pairs == [(a * a, b * b) for a in range(5) for b in range(5)]


def test_a_forked_child_says_so():
    it = iter(DataLoader(samples.Squares(50, "int"), num_workers=2))
    next(it)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(it)
        except ForkedPipelineError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(it)) == 49


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.watchdog(240)
@settings(max_examples=80, deadline=None)
@given(
    arguments(replayed=True), st.sampled_from([0, 2]), st.sampled_from([0, 1, 3]), st.integers(0, 30), st.integers(0, 1)
)
def test_a_loader_goes_on_where_another_was(make, workers, others, place, epoch):
    torch.manual_seed(11)
    dataset, given_ = make()
    loader = DataLoader(dataset, num_workers=workers, **given_)
    for _ in range(epoch):
        list(loader)
    expected = []
    state = None
    for index, batch in enumerate(loader):
        if index == place:
            expected = []
            state = loader.state_dict()
        expected.append(batch)
    if state is None:  # at the end: the next epoch
        state = loader.state_dict()
        expected = list(loader)
    else:
        expected = expected[1:]
    later = list(loader)
    torch.manual_seed(99)
    dataset, given_ = make()
    again = DataLoader(dataset, num_workers=others, **given_)
    again.load_state_dict(json.loads(json.dumps(state)))
    before = torch.get_rng_state()
    rest = list(again)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(rest) == len(expected) and all(map(same, rest, expected))
    sampler = getattr(again.batch_sampler, "sampler", again.sampler)
    if again.generator is not None and getattr(sampler, "generator", again.generator) is not None:
        # Nothing comes from the global generator: later epochs go on as well.
        assert all(itertools.starmap(same, itertools.zip_longest(again, later)))


def test_no_data_is_fetched_for_what_came_before():
    indices = []

    class Seen(samples.Squares):
        def __getitem__(self, index):
            indices.append(index)
            return super().__getitem__(index)

    loader = DataLoader(Seen(100, "int"), 5, shuffle=True)
    it = iter(loader)
    for _ in range(12):
        next(it)
    state = loader.state_dict()
    rest = [batch.tolist() for batch in it]
    del indices[:]
    loader.load_state_dict(state)
    assert [batch.tolist() for batch in loader] == rest and len(indices) == 40


def test_a_sampler_with_a_state():
    loader = DataLoader(samples.Squares(10, "int"), 2, sampler=samples.Counted(10))
    list(loader)
    it = iter(loader)
    next(it)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch.tolist() for batch in it]
    again = DataLoader(samples.Squares(10, "int"), 2, sampler=samples.Counted(10), num_workers=2)
    again.load_state_dict(state)
    assert [batch.tolist() for batch in again] == rest


def orders(loader: Any, epochs: int) -> list[Any]:
    return [plainly(loader) for _ in range(epochs)]


@pytest.mark.parametrize("place", [0, 1, 4, 5])
@pytest.mark.parametrize("workers_", [0, 2])
def test_a_resumed_shuffle_without_a_generator_goes_on_and_replays_no_old_order(place, workers_):
    """A program that begins anew seeds the global generator as it did the first time."""

    def make():
        torch.manual_seed(0)
        return DataLoader(samples.Squares(20, "int"), 4, shuffle=True, num_workers=workers_)

    uninterrupted = orders(make(), 6)
    loader = make()
    orders(loader, 2)
    it = iter(loader)
    begun = [next(it).tolist() for _ in range(place)]
    if place == 5:
        assert next(it, None) is None
    state = json.loads(json.dumps(loader.state_dict()))
    again = make()
    before = torch.get_rng_state()
    again.load_state_dict(state)
    rest = plainly(again)
    assert rest == uninterrupted[3] if place == 5 else begun + rest == uninterrupted[2]
    assert orders(again, 2) == uninterrupted[3 + (place == 5) :][:2]
    assert torch.equal(torch.get_rng_state(), before)
    it = iter(again)  # and once more
    next(it)
    state = json.loads(json.dumps(again.state_dict()))
    rest = [batch.tolist() for batch in it]
    third = make()
    third.load_state_dict(state)
    assert plainly(third) == rest


def test_a_program_that_restores_the_global_generator_goes_on_as_without_an_end():
    def train(loader, epochs):
        steps = []
        for _ in range(epochs):
            for batch in loader:
                steps.append((batch.tolist(), float(torch.rand(()))))
        return steps

    torch.manual_seed(0)
    expected = train(DataLoader(samples.Squares(6, "int"), 2, shuffle=True), 4)
    torch.manual_seed(0)
    loader = DataLoader(samples.Squares(6, "int"), 2, shuffle=True)
    steps = train(loader, 1)
    it = iter(loader)
    steps.append((next(it).tolist(), float(torch.rand(()))))
    state, global_state = json.loads(json.dumps(loader.state_dict())), torch.get_rng_state()
    torch.manual_seed(5)
    again = DataLoader(samples.Squares(6, "int"), 2, shuffle=True)
    torch.set_rng_state(global_state)
    again.load_state_dict(state)
    assert steps + train(again, 3) == expected
    # A place before anything was drawn, in a program that begins as the first one did.
    torch.manual_seed(0)
    state = DataLoader(samples.Squares(6, "int"), 2, shuffle=True).state_dict()
    again = DataLoader(samples.Squares(6, "int"), 2, shuffle=True)
    again.load_state_dict(state)
    assert train(again, 4) == expected


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        ({"shuffle": True}, {}),
        ({}, {"shuffle": True}),
        ({"sampler": [3, 1, 2]}, {}),
        ({"sampler": torch.utils.data.RandomSampler(range(9), True, 9)}, {"shuffle": True}),
        ({"batch_sampler": [[0], [1]]}, {}),
        ({"drop_last": True}, {}),
        ({"batch_size": None}, {}),
    ],
    ids=["shuffled", "in order", "list", "replacing", "batches", "short", "single"],
)
@pytest.mark.parametrize("generator", [False, True])
def test_a_state_of_a_loader_that_is_arranged_otherwise_is_refused(saved, loaded, generator):
    def make(given_):
        return DataLoader(
            samples.Squares(9, "int"), **given_, generator=torch.Generator().manual_seed(1) if generator else None
        )

    state = json.loads(json.dumps(make(saved).state_dict()))
    make(saved).load_state_dict(state)
    with pytest.raises(ResumeMismatchError):
        make(loaded).load_state_dict(state)


def test_states_that_do_not_fit_are_refused():
    loader = DataLoader(samples.Squares(10, "int"), 2)
    state = loader.state_dict()
    other = DataLoader(Dataset.range(10), 2)
    for wrong in (3, {"version": 2}, state | {"version": 0}, other.state_dict()):
        with pytest.raises(InvalidArgumentError):
            loader.load_state_dict(wrong)
    with pytest.raises(InvalidArgumentError):
        other.load_state_dict(state)
    for wrong in (
        DataLoader(samples.Squares(11, "int"), 2),
        DataLoader(samples.Squares(10, "int"), 3),
        DataLoader(samples.Squares(10, "int"), 2, drop_last=True),
        DataLoader(samples.Squares(10, "int"), 2, generator=torch.Generator()),
    ):
        with pytest.raises(ResumeMismatchError):
            wrong.load_state_dict(state)
    again = DataLoader(Dataset.range(11), 2)
    again.load_state_dict(other.state_dict())
    with pytest.raises(ResumeMismatchError):
        next(iter(again))
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9], [16, 25], [36, 49], [64, 81]]


# -- datasets of ours, and those that are gone through -----------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(1, 7)),
    st.booleans(),
    st.sampled_from([0, 1, 3]),
    st.booleans(),
    st.booleans(),
)
def test_a_dataset_of_ours_comes_as_from_pytorchs_loader(size, batch_size, drop, workers, collated, pairs):
    ds = Dataset.range(size)
    if pairs:
        ds = ds.map(lambda x: {"x": x, "y": x / 3})
    drop = drop and batch_size is not None
    collate = torch.utils.data.default_collate if collated and batch_size else None
    loader = DataLoader(ds, batch_size, drop_last=drop, num_workers=workers, collate_fn=collate)
    oracle = Oracle(IterableDataset(ds), batch_size, drop_last=drop)
    assert len(loader) == len(oracle)
    for _ in range(2):
        assert all(itertools.starmap(same, itertools.zip_longest(loader, oracle)))


@pytest.mark.parametrize("collate", [None, torch.utils.data.default_collate], ids=["native", "collated"])
@pytest.mark.parametrize("place", range(7))
def test_state_of_a_dataset_of_ours(place, collate):
    def make(workers):
        return DataLoader(Dataset.range(20).shuffle(7, seed=3), 4, num_workers=workers, collate_fn=collate)

    loader = make(0)
    for _ in loader:
        pass
    it = iter(loader)
    batches = [batch.tolist() for batch in itertools.islice(it, place)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch.tolist() for batch in it]
    following = [batch.tolist() for batch in loader]
    again = make(2)
    again.load_state_dict(state)
    assert again.state_dict() == state
    if place < 6:
        assert [batch.tolist() for batch in again] == rest and len(batches) + len(rest) == 5
    else:  # the end was seen: so it is the next epoch's turn
        assert rest == []
    assert [batch.tolist() for batch in again] == following


def test_state_before_the_first_epoch():
    ds = Dataset.range(12).shuffle(5, seed=1).batch(3)
    plain = [[b.tolist() for b in ds] for _ in range(2)]
    for make in (lambda ds: DataLoader(ds, batch_size=None), lambda ds: IterableDataset(ds)):
        loader = make(Dataset.range(12).shuffle(5, seed=1).batch(3))
        state = loader.state_dict()
        assert [[b.tolist() for b in loader] for _ in range(2)] == plain
        again = make(Dataset.range(12).shuffle(5, seed=1).batch(3))
        again.load_state_dict(state)
        assert [[b.tolist() for b in again] for _ in range(2)] == plain


def test_shuffling_a_dataset_of_ours_permutes_it():
    def epochs(generator):
        loader = DataLoader(Dataset.range(30), 10, shuffle=True, generator=generator)
        return [torch.cat(list(loader)).tolist() for _ in range(3)]

    orders, other = (epochs(torch.Generator().manual_seed(4)) for _ in range(2))
    assert orders == other and len(set(map(tuple, orders))) == 3
    assert all(sorted(epoch) == list(range(30)) for epoch in orders)
    torch.manual_seed(5)
    first = epochs(None)
    torch.manual_seed(5)
    assert epochs(None) == first != orders
    loader = DataLoader(Dataset.range(30), 10, shuffle=True)
    it = iter(loader)
    next(it)
    state = loader.state_dict()
    again = DataLoader(Dataset.range(30), 10, shuffle=True)
    again.load_state_dict(state)
    assert all(map(torch.equal, again, it))
    with pytest.raises(InvalidArgumentError, match=r"by its own \.shuffle\(n\)"):
        DataLoader(Dataset.range(9).repeat(), shuffle=True)
    with pytest.raises(InvalidArgumentError, match=r"by its own \.shuffle\(n\)"):
        DataLoader(Dataset.random(), shuffle=True)


def test_a_shuffle_that_holds_all_elements_is_told_once(caplog):
    caplog.set_level(logging.INFO, "queuecore")
    for _ in range(2):
        DataLoader(Dataset.range(41).batch(2), None, shuffle=True)
    said = [one.getMessage() for one in caplog.records if "shuffle=True" in one.getMessage()]
    assert len(said) == 1 and "window of 21" in said[0] and "permute" not in said[0]


def test_counters_of_the_loader():
    loader = DataLoader(range(7), 2, num_workers=2)
    assert loader.stats() == {"batches": 0, "workers": 0}
    it = iter(loader)
    next(it)
    assert loader.stats() == it.stats() == {"batches": 1, "workers": 2}
    ours = DataLoader(Dataset.range(7), 2)
    assert len(list(ours)) == 4 and ours.stats()["batches"] == 4


@pytest.mark.parametrize("make", [
    lambda: Dataset.range(40).filter(lambda x: x >= 0),
    lambda: Dataset.range(80).batch(2).map(lambda pair: pair[1] // 2),
    lambda: Dataset.range(40).shuffle(3, seed=1),
    lambda: IterableDataset(Dataset.range(40)),
])  # fmt: skip
def test_every_dataset_of_ours_can_be_shuffled(make):
    def loader(seed=3):
        return DataLoader(make(), 10, shuffle=True, generator=torch.Generator().manual_seed(seed))

    one = loader()
    epochs = [torch.cat(list(one)).tolist() for _ in range(2)]
    assert all(sorted(epoch) == list(range(40)) for epoch in epochs)
    assert epochs[0] != epochs[1] and max(epochs[0][:10]) > 20
    assert torch.cat(list(loader())).tolist() == epochs[0] != torch.cat(list(loader(4))).tolist()
    again = loader()
    again.set_epoch(1)
    it = iter(again)
    first = next(it)
    state = json.loads(json.dumps(again.state_dict()))
    resumed = loader()
    resumed.load_state_dict(state)
    assert torch.cat([first, *resumed]).tolist() == epochs[1]


def test_the_epoch_is_set_where_it_is_known():
    loader = DataLoader(range(20), 4, sampler=stateful.Epochs())
    plain = torch.cat(list(loader)).tolist()
    loader.set_epoch(3)
    assert torch.cat(list(loader)).tolist() == plain[3:] + plain[:3]
    ours = DataLoader(Dataset.range(9).shuffle(9, seed=1), 3)
    epochs = [torch.cat(list(ours)).tolist() for _ in range(3)]
    ours.state_dict()  # makes an iterator
    ours.set_epoch(1)
    assert torch.cat(list(ours)).tolist() == epochs[1]
    it = iter(ours)
    next(it)
    assert it.stats()["batches"] == 1 and it.stats()["records"] >= 3


@pytest.mark.parametrize("size", [None, 1, 4])
def test_a_stream_of_pytorchs(size):
    loader, oracle = DataLoader(samples.Stream(10), size), Oracle(samples.Stream(10), size)
    expected = list(oracle)
    assert all(itertools.starmap(same, itertools.zip_longest(loader, expected)))
    it = iter(loader)
    next(it)
    state = json.loads(json.dumps(loader.state_dict()))
    again = DataLoader(samples.Stream(10), size)
    again.load_state_dict(state)
    assert all(itertools.starmap(same, itertools.zip_longest(again, expected[1:])))


def test_a_dataset_with_an_error_and_a_timeout():
    with pytest.raises(PipelineError) as raised:
        list(DataLoader(Dataset.range(9).map(lambda x: 1 // (5 - int(x))), 2))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    gate = threading.Event()
    ds = Dataset.range(2).map(lambda x: (float(x), gate.wait(20))[0])
    with pytest.raises(RuntimeError, match="timed out"):
        next(iter(DataLoader(ds, timeout=0.2)))
    gate.set()


def test_a_device_is_handed_on(monkeypatch):
    calls = []

    def prefetch_to_device(self, device="auto", buffers=3):
        calls.append((device, buffers))
        return self

    monkeypatch.setattr(Dataset, "prefetch_to_device", prefetch_to_device, raising=False)
    loader = DataLoader(Dataset.range(5), 2, device="cpu", buffers=4)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]] and calls == [("cpu", 4)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    DataLoader(Dataset.range(5), pin_memory=True)
    assert calls[1:] == [("cuda", 3)]


def test_the_host_plane_and_a_place_from_there():
    def make(**more):
        return DataLoader(Dataset.range(22).shuffle(7, seed=1), 4, **more)

    expected = [batch.tolist() for batch in make()]
    it = iter(loader := make(device="cpu"))
    assert [next(it).tolist() for _ in range(3)] == expected[:3]
    state = json.loads(json.dumps(loader.state_dict()))
    assert [batch.tolist() for batch in it] == expected[3:]
    for again in (make(), make(device="cpu", num_workers=2)):
        again.load_state_dict(state)
        assert [batch.tolist() for batch in again] == expected[3:]
    assert len(loader) == 6


@pytest.fixture
def cuda(fake_cuda_library):
    yield from plane(fake_cuda_library)


def test_the_stream_that_a_tensor_is_made_in_reads_the_batch(cuda, monkeypatch):
    """Whatever class the array is of. The tensor stands for one on a device, which this PyTorch need not know."""
    main, side = cuda.stream(), cuda.aside()
    rows = np.random.default_rng(0).random((160, 32)).astype(np.float32)

    class Tensor:
        is_cuda, device = True, "cuda:0"

        def __init__(self, array):
            cuda.order(main, side)  # as __dlpack__ does
            self.array = array

        def numel(self):
            return self.array.nbytes // 4

        def data_ptr(self):
            return self.array.address

    monkeypatch.setattr(FakeArray, "__dlpack__", None, raising=False)
    monkeypatch.setattr(torch, "from_dlpack", Tensor)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: types.SimpleNamespace(cuda_stream=side))
    ds = cuda.of(Dataset.from_tensor_slices({"x": rows}).batch(16))
    for batch, at in zip(ds, range(0, 160, 16), strict=True):
        made = tensors(batch)["x"]
        made.array.consume(rows[at : at + 16], 3000, side)
        del batch, made


def test_a_device_hands_over_in_the_stream_of_pytorch(monkeypatch):
    entered = []

    class Stream(contextlib.nullcontext):
        """Stands for CuPy's."""

        @classmethod
        def from_external(cls, stream):
            entered.append(stream)
            return cls()

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(Stream=Stream)
    monkeypatch.setattr(Dataset, "prefetch_to_device", lambda self, device, buffers: self, raising=False)
    loader = DataLoader(Dataset.range(3), device="auto")
    assert [int(batch) for batch in loader] == [0, 1, 2] and not entered
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "the stream")
    assert [int(batch) for batch in loader] == [0, 1, 2] and entered == ["the stream"] * 4


def test_a_loader_can_be_pickled():
    for dataset in (samples.Squares(5, "int"), Dataset.range(5)):
        loader = DataLoader(dataset, 2, num_workers=1)
        next(iter(loader))
        again = pickle.loads(pickle.dumps(loader))
        assert all(itertools.starmap(same, itertools.zip_longest(again, loader)))


def test_ctrl_c_in_the_middle_of_a_batch_loses_nothing():
    class Interrupted(IterableDataset):
        def __iter__(self):
            iterator = super().__iter__()

            class Once(type(iterator)):
                def __next__(self):
                    if self.state_dict() == stop:
                        stop.clear()
                        raise KeyboardInterrupt
                    return super().__next__()

            iterator.__class__ = Once
            return iterator

    it = iter(Dataset.range(10))
    for _ in range(5):
        next(it)
    stop = it.state_dict()
    loader = DataLoader(Interrupted(Dataset.range(10)), 3)
    it = iter(loader)
    assert next(it).tolist() == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt):
        next(it)
    again = DataLoader(IterableDataset(Dataset.range(10)), 3)
    again.load_state_dict(loader.state_dict())
    expected = [[3, 4, 5], [6, 7, 8], [9]]
    assert [batch.tolist() for batch in it] == expected == [batch.tolist() for batch in again]


def test_nobody_knows_a_length():
    for ds in (Dataset.range(3).repeat(), Dataset.range(3).filter(lambda x: x > 1)):
        for one in (IterableDataset(ds), DataLoader(ds)):
            with pytest.raises(TypeError):
                len(one)
    assert len(IterableDataset(Dataset.range(7).batch(2))) == 4


# -- workers -----------------------------------------------------------------------------------------------------------


def plainly(loader: Any) -> list[Any]:
    """Its batches as lists."""

    def of(part):
        return [of(one) for one in part] if isinstance(part, (tuple, list)) else torch.as_tensor(part).tolist()

    return [of(batch) for batch in loader]


def wrapped(kind: str) -> Any:
    data = torch.utils.data
    return {
        "itself": lambda: beside.Counting(),
        "subset": lambda: data.Subset(beside.Counting(), range(1, 38)),
        "concatenated": lambda: data.ConcatDataset([beside.Counting(12), beside.Counting(17)]),
        "of users": lambda: beside.Holding(data.Subset(beside.Counting(), range(29))),
    }[kind]()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("kind", ["itself", "subset", "concatenated", "of users"])
def test_each_worker_has_its_own_copy_of_every_dataset_as_in_pytorch(kind):
    """Batches go to workers in turn: so what a copy counts is the same as in worker processes."""
    expected = [plainly(Oracle(wrapped(kind), 3, num_workers=3)) for _ in range(2)]
    dataset = wrapped(kind)
    loader = DataLoader(dataset, 3, num_workers=3)
    assert [plainly(loader) for _ in range(2)] == expected
    before = plainly(DataLoader(dataset, 3, num_workers=0))
    assert before[0][1] == [1, 2, 3] and {worker for batch in before for worker in batch[2]} == {-1}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("workers_", [1, 4])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("way", ["shallow", "deep", False])
def test_reading_from_a_file_gives_each_sample_its_own_bytes(tmp_path, lazy, way, workers_):
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(2000, dtype="<u4").tobytes())
    dataset = torch.utils.data.Subset(beside.Reading(path, lazy), range(2000))
    if way is False and lazy:
        return  # that is for who sees to it himself
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = DataLoader(dataset, 10, num_workers=workers_, copy_dataset=way)
    told = [str(one.message) for one in caught]
    assert len(told) == (not lazy and workers_ > 1) and all("dataset.dataset.file" in one for one in told)
    for _ in range(2):
        assert sum(batch.abs().sum() for batch in loader) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def test_get_worker_info_answers_in_each_worker_and_nowhere_else():
    from torch.utils.data import get_worker_info

    workers = []

    def begin(number):
        info = get_worker_info()
        info.dataset.size = 7 + number
        workers.append((number, info.id, info.num_workers, info.dataset is not dataset))

    dataset = beside.Counting()
    base = int(torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(3)))
    loader = DataLoader(
        dataset,
        1,
        num_workers=2,
        worker_init_fn=begin,
        collate_fn=lambda batch: (get_worker_info().seed, get_worker_info().dataset.size, torch.zeros(1).is_shared()),
        generator=torch.Generator().manual_seed(3),
    )
    assert list(itertools.islice(loader, 4)) == [(base + n % 2, 7 + n % 2, False) for n in range(4)]
    assert sorted(workers) == [(0, 0, 2, True), (1, 1, 2, True)] and dataset.size == 40
    assert get_worker_info() is None is torch.utils.data.get_worker_info()
    made = next(iter(DataLoader([torch.zeros(2)] * 4, 2, num_workers=1)))
    assert not made.is_shared()  # as PyTorch's collation does for another process


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("init", [None, beside.seed_worker], ids=["plain", "recipe"])
@pytest.mark.parametrize("stay", [False, True], ids=["", "persistent"])
def test_random_numbers_of_workers_are_those_of_pytorch_and_the_programs_stay_its_own(init, stay, caplog):
    def epochs(cls, seed=4, **more):
        generator = torch.Generator().manual_seed(seed)
        given_ = {"num_workers": 2, "worker_init_fn": init, "generator": generator, "persistent_workers": stay}
        loader = cls(beside.Drawing(), 2, shuffle=True, **given_, **more)
        return [plainly(loader) for _ in range(2)]

    before = beside.random_states()
    expected = epochs(Oracle)
    with caplog.at_level(logging.INFO, "queuecore"):
        assert epochs(DataLoader) == expected
        assert "2 worker processes" in caplog.text and "Drawing.__getitem__ uses" in caplog.text
        assert epochs(DataLoader, worker_type="thread") == expected
        assert "own thread" in caplog.text
    assert epochs(DataLoader, 5, worker_type="thread") != expected
    assert beside.random_states() == before
    drawn = [column for epoch in expected for batch in epoch for column in zip(*batch[4:7], strict=True)]
    assert len(set(drawn)) == len(drawn) == 26  # others in each worker and epoch


def test_what_begins_in_threads_leaves_the_programs_generators_alone():
    before = beside.random_states()
    loader = DataLoader(samples.Squares(8, "int"), 2, num_workers=3, worker_init_fn=beside.seed_worker)
    assert plainly(loader) == [[0, 1], [4, 9], [16, 25], [36, 49]]
    torch.set_rng_state(torch.tensor(before[-1], dtype=torch.uint8))  # the loader draws a seed, as PyTorch's
    assert beside.random_states() == before


def test_an_error_of_what_begins_comes_with_the_first_batch_of_each_worker():
    def begin(number):
        raise LookupError(number)

    for kind in ("thread", "process"):
        made = outcomes(DataLoader(samples.Squares(4, "int"), num_workers=2, worker_init_fn=begin, worker_type=kind))
        assert made == [LookupError, LookupError, [4], [9]]


STREAMS = {
    "parted": lambda: beside.Numbers(23),
    "not parted": lambda: beside.Numbers(5, False),
    "its own iterator": lambda: beside.Walking(17),
    "random": lambda: beside.Numbers(11, noise=True),
}


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("kind", list(STREAMS))
@pytest.mark.parametrize("given_", [{"batch_size": None}, {"batch_size": 3, "drop_last": True}])
def test_workers_go_through_a_stream_as_in_pytorch(kind, given_):
    def epochs(cls, **more):
        given = {"num_workers": 3, "generator": torch.Generator().manual_seed(3), **given_, **more}
        loader = cls(STREAMS[kind](), **given)
        return [plainly(loader) for _ in range(2)]

    expected = epochs(Oracle)
    assert epochs(DataLoader, worker_type="thread") == expected
    if given_["batch_size"]:
        assert epochs(DataLoader, worker_type="process") == expected
    if kind == "parted":
        made = epochs(DataLoader, worker_type="thread", in_order=False)
        assert [sorted(map(str, epoch)) for epoch in made] == [sorted(map(str, epoch)) for epoch in expected]


def test_workers_of_a_stream_work_beside_each_other():
    barrier = threading.Barrier(3)

    class Meeting(samples.Stream):
        def __iter__(self):
            barrier.wait(20)
            return super().__iter__()

    loader = DataLoader(Meeting(3), 2, num_workers=3)
    assert plainly(loader) == [[0, 1]] * 3 + [[2]] * 3


@pytest.mark.parametrize("way", ["thread", "process"])
@pytest.mark.parametrize("kind", ["parted", "its own iterator"])
def test_a_stream_of_several_workers_goes_on_where_it_was(kind, way):
    def make(**more):
        given = {"batch_size": 3, "num_workers": 2, "worker_type": way, **more}
        return DataLoader(STREAMS[kind](), **given)

    expected = plainly(make())
    for place in range(len(expected) + 1) if way == "thread" else (3,):
        loader = make()
        it = iter(loader)
        for _ in range(place):
            next(it)
        state = json.loads(json.dumps(loader.state_dict()))
        again = make()
        again.load_state_dict(state)
        assert plainly(again) == expected[place:]
        assert plainly(again) == expected
    for wrong in ({"num_workers": 3}, {"num_workers": 0, "worker_type": None}, {"batch_size": 2}, {"drop_last": True}):
        with pytest.raises(ResumeMismatchError):
            make(**wrong).load_state_dict(state)


@pytest.mark.parametrize("place", [0, 1, 4, 6])
def test_a_dataset_that_is_its_own_iterator_resumes_where_it_was(place):
    expected = plainly(DataLoader(beside.Walking(17), 3))
    loader = DataLoader(beside.Walking(17), 3)
    it = iter(loader)
    for _ in range(place):
        next(it)
    state = json.loads(json.dumps(loader.state_dict()))
    again = DataLoader(beside.Walking(17), 3)
    again.load_state_dict(state)
    assert plainly(again) == expected[place:]
    assert plainly(again) == expected


@pytest.mark.parametrize("given_", [{"in_order": True}, {"in_order": False, "pin_memory": False}], ids=str)
def test_worker_processes_give_what_threads_give(given_):
    class Failing(samples.Squares):
        def __getitem__(self, index):
            if index in (5, 14):
                raise LookupError(index)
            return super().__getitem__(index)

    def sampler():
        yield from range(18)
        raise ZeroDivisionError

    def make(kind):
        return DataLoader(Failing(18, "int"), 2, sampler=sampler(), num_workers=2, worker_type=kind, **given_)

    made = {kind: [str(one) for one in outcomes(make(kind))] for kind in ("thread", "process")}
    if given_["in_order"]:
        assert made["process"] == made["thread"] == [str(one) for one in outcomes(make(None))]
        assert made["process"].count("<class 'LookupError'>") == 2
    assert sorted(made["process"]) == sorted(made["thread"])


def test_worker_processes_go_on_where_threads_were():
    def make(kind):
        return DataLoader(
            samples.Squares(20, "int"), 3, shuffle=True, num_workers=2, worker_type=kind,
            generator=torch.Generator().manual_seed(1), persistent_workers=True,
        )  # fmt: skip

    loader = make("thread")
    first = plainly(loader)
    it = iter(loader)
    begun = [next(it).tolist() for _ in range(3)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest, later = [one.tolist() for one in it], plainly(loader)
    again = make("process")
    again.load_state_dict(state)
    assert plainly(again) == rest and begun + rest != first
    assert plainly(again) == later
    old = iter(again)
    assert next(iter(again)).shape == (3,)
    with pytest.raises(FailedPreconditionError):
        next(old)


def test_workers_that_stay_keep_their_copies_and_begin_once():
    begun = []
    loader = DataLoader(beside.Counting(6), 1, num_workers=2, persistent_workers=True, worker_init_fn=begun.append)
    left = iter(loader)
    next(left)
    oracle = Oracle(beside.Counting(6), 1, num_workers=2, persistent_workers=True)
    whole = DataLoader(beside.Counting(6), 1, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert plainly(whole) == plainly(oracle)
        assert [batch[0] for batch in plainly(loader)] == [[n] for n in range(6)]
    assert sorted(begun) == [0, 1]


# -- in worker processes -----------------------------------------------------------------------------------------------


CONTEXTS = pytest.mark.parametrize("context", ["fork", "spawn"])


@CONTEXTS
@pytest.mark.watchdog(240)
def test_workers_part_a_dataset(context, tmp_path):
    file = tmp_path / "numbers.bin"
    file.write_bytes(np.arange(50, dtype="<i4").tobytes())
    ds = qc.data.FixedLengthRecordDataset(file, record=np.dtype("<i4")).shuffle(20, seed=3)
    given_ = {"num_workers": 2, "multiprocessing_context": context}
    batches = IterableDataset(ds.batch(8))
    stream = IterableDataset(ds)
    for epoch in range(3):
        expected = [batch.tolist() for batch in IterableDataset(ds.batch(8))]
        batches.set_epoch(epoch)
        assert [b.tolist() for b in Oracle(batches, batch_size=None, **given_)] == expected
        if context == "fork" and epoch < 2:
            stream.set_epoch(epoch)
            elements = sum(expected, [])
            made = [b.tolist() for b in Oracle(stream, batch_size=5, **given_)]
            assert made == [elements[i % 2 :: 2][i // 2 * 5 :][:5] for i in range(10)]
        batches.set_epoch(epoch + 1)


def test_epochs_in_workers_differ_and_follow_the_loaders_seed():
    def epochs(seed, **more):
        loader = Oracle(
            IterableDataset(Dataset.range(40).shuffle(40, seed=1).batch(40)),
            batch_size=None,
            num_workers=2,
            generator=torch.Generator().manual_seed(seed),
            **more,
        )
        return [[b.tolist() for b in loader] for _ in range(3)]

    one = epochs(1)
    assert all(sorted(batch) == list(range(40)) for epoch in one for batch in epoch)
    assert len({str(epoch) for epoch in one}) == 3
    assert epochs(1) == one != epochs(2)
    assert len({str(epoch) for epoch in epochs(1, persistent_workers=True)}) == 3


def test_workers_that_stay_count_from_the_epoch_that_was_set():
    def make():
        return IterableDataset(Dataset.range(9).shuffle(9, seed=1).batch(9))

    plain = make()
    expected = [[b.tolist() for b in plain] for _ in range(5)]
    plain.set_epoch(3)
    assert [[b.tolist() for b in plain] for _ in range(2)] == expected[3:]
    ds = make()
    ds.set_epoch(2)
    loader = Oracle(ds, batch_size=None, num_workers=1, persistent_workers=True)
    assert [[b.tolist() for b in loader] for _ in range(3)] == expected[2:]


def test_a_class_of_ones_own_says_what_workers_do():
    loader = Oracle(samples.Parted(Dataset.range(10)), batch_size=None, num_workers=2)
    assert [int(x) for x in loader] == [-x for x in range(10)]


def test_a_state_for_worker_processes_is_theirs():
    ds = IterableDataset(Dataset.range(6))
    ds.load_state_dict(ds.state_dict())
    with pytest.raises(FailedPreconditionError):
        list(Oracle(ds, num_workers=1))
    ds = IterableDataset(Dataset.range(6))
    ds.state_dict()
    assert [int(x) for x in Oracle(ds, num_workers=2)] == list(range(6))


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("place", [0, 1, 4, 7])
def test_torchdata_saves_and_restores_it(workers, place):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed: make doors")

    def make():
        ds = IterableDataset(Dataset.range(50).shuffle(11, seed=2).batch(7))
        return stateful.StatefulDataLoader(
            ds, batch_size=None, num_workers=workers, generator=torch.Generator().manual_seed(1)
        )

    loader = make()
    it = iter(loader)
    for _ in range(place):
        next(it)
    state = loader.state_dict()
    rest = [b.tolist() for b in it]
    again = make()
    again.load_state_dict(state)
    assert [b.tolist() for b in again] == rest and len(rest) == 8 - place


def test_the_examples_in_the_document():
    assert documents.failures("frameworks.md", "PyTorch") == ""
