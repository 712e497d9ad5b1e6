"""What programs for PyTorch's loaders rely on besides batches: orders after a resume, workers, numbers of batches."""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any

import pytest

pytestmark = [pytest.mark.doors, pytest.mark.filterwarnings("ignore:This DataLoader will create 3")]

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")

from helpers.doors import torch_programs as programs, torch_stateful as stateful  # noqa: E402

from queuecore.data import Dataset  # noqa: E402
from queuecore.errors import FailedPreconditionError, InvalidArgumentError  # noqa: E402
from queuecore.torch import DataLoader  # noqa: E402


def plain(one: Any) -> Any:
    return one


@pytest.mark.parametrize("seed", [3, 4])  # of the program that resumes: as of the one that saved, or another
@pytest.mark.parametrize("place", [0, 1, 3, "end"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dataset_that_saves_the_global_generator_resumes_in_the_same_order(shuffle, place, seed):
    def made() -> Any:
        return DataLoader(programs.Drawing(), 2, shuffle=shuffle, collate_fn=plain)

    torch.manual_seed(3)
    loader = made()
    batches = iter(loader)
    for _ in range(4 if place == "end" else place):
        next(batches)
    assert place != "end" or list(batches) == []
    state = loader.state_dict()
    rest = list(loader if place == "end" else batches)
    following = list(loader)
    torch.manual_seed(seed)
    again = made()
    again.load_state_dict(state)
    assert list(again) == rest
    assert seed == 4 or list(again) == following


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("kind", [stateful.Drawn, programs.DrawnAndSaved])
def test_a_stream_that_saves_the_global_generator_goes_on_with_the_next_epochs_numbers(kind, seed):
    torch.manual_seed(3)
    loader = DataLoader(kind(), 2, collate_fn=plain)
    list(loader)
    state = loader.state_dict()
    following = list(loader)
    torch.manual_seed(seed)
    again = DataLoader(kind(), 2, collate_fn=plain)
    again.load_state_dict(state)
    assert list(again) == following


@pytest.mark.parametrize("worker_type", ["thread", "process"])
@pytest.mark.parametrize("kind", [programs.Drawn, programs.DrawnStream])
def test_workers_of_an_epoch_that_is_resumed_at_its_beginning_draw_the_same(kind, worker_type):
    def made() -> Any:
        return DataLoader(kind(), 2, num_workers=2, collate_fn=plain, worker_type=worker_type)

    torch.manual_seed(1)
    loader = made()
    for _ in range(2):  # before the first epoch, and between two
        state = json.loads(json.dumps(loader.state_dict()))
        epoch = list(loader)
        torch.manual_seed(2)
        again = made()
        again.load_state_dict(state)
        assert list(again) == epoch


def test_lists_and_dicts_of_a_stream_are_each_workers_own():
    dataset = programs.Tallies()
    given = {"batch_size": None, "num_workers": 3}
    ours = list(DataLoader(dataset, worker_type="thread", **given))
    assert ours == list(torch.utils.data.DataLoader(programs.Tallies(), **given))
    assert ours[-1] == [4, 4, 4, 4]
    assert (dataset.seen, dataset.tally, dataset.marks, dataset.inner) == ([], {}, set(), [{"n": 0}])
    assert max(one[0] for one in DataLoader(dataset, copy_dataset=False, **given)) == 12


def test_a_stream_that_resumes_is_begun_once():
    loader = DataLoader(programs.Begun(), batch_size=None)
    batches = iter(loader)
    assert [next(batches), next(batches)] == [0, 1]
    dataset = programs.Begun()
    again = DataLoader(dataset, batch_size=None)
    again.load_state_dict(loader.state_dict())
    assert list(again) == [2, 3, 4, 5] and dataset.begun == 1


def test_out_of_order_a_slow_worker_of_a_stream_holds_up_nobody():
    programs.gate.clear()
    batches = iter(DataLoader(programs.Gated(), batch_size=None, num_workers=2, in_order=False))
    try:
        assert [next(batches) for _ in range(5)] == [[0, number] for number in range(5)]
    finally:
        programs.gate.set()
    assert list(batches) == [[1, number] for number in range(5)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "dataset", [list(range(9)), programs.Tallies(9), Dataset.range(9)], ids=["list", "stream", "ours"]
)
def test_batches_have_their_numbers_also_from_a_loaded_place_on(dataset, workers):
    loader = DataLoader(dataset, 2, num_workers=workers, collate_fn=plain)
    numbered_batches = list(loader.enumerate())
    assert [number for number, _ in numbered_batches] == list(range(len(numbered_batches)))
    for number, _ in itertools.islice(loader.enumerate(10), 3):
        assert number >= 10
    again = DataLoader(dataset, 2, num_workers=workers, collate_fn=plain)
    again.load_state_dict(loader.state_dict())
    batches = again.enumerate()
    assert next(batches)[0] == 3
    state = again.state_dict()
    assert [number for number, _ in batches] == list(range(4, len(numbered_batches)))
    again.load_state_dict(state)
    assert [number for number, _ in again.enumerate(1)] == list(range(5, len(numbered_batches) + 1))
    assert [number for number, _ in again.enumerate()] == list(range(len(numbered_batches)))


@pytest.mark.parametrize("how", ["thread", "process"])
def test_workers_that_were_shut_down_are_followed_by_others(how):
    loader = DataLoader(range(8), 2, num_workers=2, persistent_workers=True, worker_type=how)
    batches = iter(loader)
    next(batches)
    workers = batches._workers
    assert [one.exitcode for one in workers] == [None, None]
    batches._shutdown_workers()
    for one in workers:
        one.join(20)
        assert one.exitcode == 0
        one.terminate()  # it has ended
    with pytest.raises(FailedPreconditionError):
        next(batches)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize("how", ["thread", "process"])
@pytest.mark.parametrize("kind", [programs.Plain, programs.Drawn, programs.DrawnStream])
def test_an_iterator_whose_workers_a_newer_one_has_taken_raises_an_error(kind, how):
    loader = DataLoader(kind(), num_workers=2, persistent_workers=True, worker_type=how)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(FailedPreconditionError, match="a newer iterator"):
        list(older)
    assert len(list(newer)) == 6
    assert len(list(loader)) == 6 and next(newer, None) is None


@pytest.mark.parametrize("kind", [programs.Gated, programs.Begun])
@pytest.mark.parametrize("how", ["thread", "process"])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_workers_that_stay_are_not_at_their_end_before_they_delivered_anything(place, how, kind):
    programs.gate.set()

    def made() -> Any:
        return DataLoader(kind(), batch_size=None, num_workers=3, persistent_workers=True, worker_type=how)

    loader = made()
    list(loader)
    batches = iter(loader)
    for _ in range(place):
        next(batches)
    again = made()
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert list(again) == list(batches) and list(again) == list(loader)


def test_workers_that_stay_draw_the_numbers_of_pytorchs_where_an_epoch_was_left():
    def epochs(cls: Any, kind: Any, **more: Any) -> Any:
        generator = torch.Generator().manual_seed(1)
        loader = cls(kind(), None, num_workers=2, persistent_workers=True, generator=generator, **more)
        for _ in loader:
            break
        return list(loader)

    for kind in (programs.Drawn, programs.DrawnStream):
        assert epochs(DataLoader, kind, worker_type="thread") == epochs(torch.utils.data.DataLoader, kind)


def test_an_older_programs_function_for_data_pipes_is_taken():
    from torch.utils.data import backward_compatibility, datapipes

    pipe = datapipes.iter.IterableWrapper(range(5)).sharding_filter()
    loader = DataLoader(pipe, None, num_workers=2, worker_init_fn=backward_compatibility.worker_init_fn)
    assert list(loader) == list(range(5))


def test_an_empty_state_is_the_beginning():
    loader = DataLoader(range(4), 2)
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    loader.load_state_dict({})
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    with pytest.raises(InvalidArgumentError):
        loader.load_state_dict({"batches": 1})


def test_many_worker_processes_are_warned_of_and_many_threads_are_not():
    with pytest.warns(UserWarning, match="excessive worker creation"):
        DataLoader(range(4), num_workers=1000, worker_type="process")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(range(4), num_workers=1000)
