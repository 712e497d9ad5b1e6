"""States of loaders of PyTorch's kind, and what torchdata's loader promises besides: the same as it does."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from typing import Any

import pytest

pytestmark = [
    pytest.mark.doors,
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata calls it
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")

from helpers.doors import torch_samples as samples, torch_stateful as stateful  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

from queuecore.errors import ResumeMismatchError  # noqa: E402
from queuecore.torch import DataLoader  # noqa: E402

KINDS = {
    "drawn": stateful.Drawn,
    "both": stateful.Both,
    "generated": stateful.Generated,
    "indexed": stateful.Indexed,
    "indexed, drawn": stateful.IndexedDrawn,
}


def plain(one: Any) -> Any:
    return one


def made(cls: Any, kind: str, **more: Any) -> Any:
    return cls(KINDS[kind](), collate_fn=plain, **{"batch_size": 3, **more})


def taken(loader: Any, batches: int) -> Any:
    it = iter(loader)
    for _ in range(batches):
        next(it)
    return it


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("workers", "every"), [(0, 1), (3, 1), (3, 2), (3, 0)])
def test_a_loader_goes_on_where_the_states_of_dataset_and_iterator_were(kind, workers, every):
    options = {"num_workers": workers, "snapshot_every_n_steps": every}
    for place in (1, 5) if workers else (0, 1, 5):
        loader = made(DataLoader, kind, **options)
        it = taken(loader, place)
        state = loader.state_dict()
        rest = list(it)
        again = made(DataLoader, kind, **options)
        again.load_state_dict(state)
        assert list(again) == rest and rest
    if kind in ("both", "generated", "indexed"):  # the others draw from a generator with another seed
        theirs = made(StatefulDataLoader, kind, **options)
        theirs_it = taken(theirs, 5)
        assert rest == list(theirs_it)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("workers", "stay"), [(0, False), (2, False), (2, True)])
def test_the_state_at_the_end_is_that_of_the_next_epoch(kind, workers, stay):
    options = {"num_workers": workers, "persistent_workers": stay}
    generator = torch.Generator().manual_seed(4)
    loader = made(DataLoader, kind, generator=generator, **options)
    list(loader)
    state = loader.state_dict()
    following = list(loader)
    again = made(DataLoader, kind, generator=torch.Generator().manual_seed(9), **options)
    again.load_state_dict(state)
    assert list(again) == following and following


def test_how_often_states_are_taken(monkeypatch):
    asked = []
    monkeypatch.setattr(stateful.Indexed, "state_dict", lambda self: asked.append(self.made) or {"made": self.made})
    for every, most in ((1, 20), (10, 8), (0, 0), (None, 0)):
        asked.clear()
        list(DataLoader(stateful.Indexed(), num_workers=2, snapshot_every_n_steps=every))
        assert len(asked) <= most and bool(asked) == bool(most)
    with pytest.raises(ValueError, match="snapshot_every_n_steps"):
        DataLoader(stateful.Indexed(), snapshot_every_n_steps=-1)


def test_states_of_a_dataset_in_other_workers_are_refused():
    loader = made(DataLoader, "indexed", num_workers=3)
    taken(loader, 4)
    with pytest.raises(ResumeMismatchError, match="3 workers"):
        made(DataLoader, "indexed", num_workers=2).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("broken_off", [None, 3])
def test_a_sampler_whose_state_is_its_place_goes_on_there_in_every_epoch(workers, every, broken_off):
    def make():
        given = {"num_workers": workers, "snapshot_every_n_steps": every}
        return DataLoader(range(20), 2, sampler=stateful.Placed(), **given)

    for place in (0, 1, 2) if workers else (0, 1, 2, 5):
        loader = make()
        taken(loader, broken_off) if broken_off else list(loader)
        it = taken(loader, place)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = [batch.tolist() for batch in it]
        again = make()
        again.load_state_dict(state)
        assert [batch.tolist() for batch in again] == rest and len(rest) == 10 - place


def test_it_is_generic():
    def of(loader: DataLoader[int]) -> DataLoader[int]:
        return loader

    assert of.__annotations__ and isinstance(DataLoader[int](range(3)), DataLoader)


@pytest.mark.parametrize("workers", [0, 2])
def test_more_elements_than_the_length_says_are_warned_of_as_by_pytorch(workers):
    def warned(cls):
        loader = cls(stateful.Twice(), batch_size=None, num_workers=workers)
        with warnings.catch_warnings(record=True) as before:
            warnings.simplefilter("always")
            list(loader)
        assert len(loader) == 3
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            list(loader)
        return len(before), [str(one.message)[-42:] for one in seen if "reported to be 3" in str(one.message)]

    (ours, ours_said), (theirs, theirs_said) = warned(DataLoader), warned(torch.utils.data.DataLoader)
    assert ours == theirs == 0 and len(ours_said) == len(theirs_said) == (9 if workers else 3)


@pytest.mark.parametrize("how", ["thread", "process"])
def test_an_iterator_has_its_workers(how):
    loader = DataLoader(range(12), 2, num_workers=2, worker_type=how)
    it = iter(loader)
    workers = it._workers
    assert len(workers) == 2 and len(it) == len(loader) == 6 and loader._iterator is it
    assert [worker.pid == os.getpid() for worker in workers] == [how == "thread"] * 2
    assert next(it).tolist() == [0, 1]
    assert it.stats() == {"batches": 1, "workers": 2}
    del it, loader
    for worker in workers:
        worker.join(20)
        assert not worker.is_alive()


def test_methods_of_the_dataset_are_those_of_the_workers_copy():
    dataset = stateful.Indexed(8)
    loader = DataLoader(dataset, 2, num_workers=2, worker_init_fn=dataset.begin, collate_fn=dataset.collate)
    assert [made for made, _ in loader] == [2, 1002, 4, 1004] and dataset.made == 0


@pytest.mark.parametrize("how", ["thread", "process"])
def test_out_of_order_a_slow_worker_keeps_the_batches_that_it_was_asked_for(how):
    given = {"num_workers": 2, "batch_size": None, "in_order": False, "worker_type": how}
    loader = DataLoader(stateful.Slow(), **given)
    # As with PyTorch's loader: two batches for each worker are asked for ahead.
    batches = list(map(tuple, loader))
    assert batches[:7] == [(one, 1) for one in (1, 3, 4, 5, 6, 7, 8)]
    # The worker goes on while the other one makes its last batch, so these two may overtake that.
    assert sorted(batches[7:]) == [(0, 0), (2, 0), (9, 1)]


def test_an_iterator_is_not_pickled():
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(DataLoader(range(3))))


def test_a_wrong_timeout_and_a_device_for_pinning_are_told_as_by_pytorch():
    for cls in (DataLoader, torch.utils.data.DataLoader):
        with pytest.raises(ValueError, match="timeout option should be non-negative"):
            cls(range(3), timeout=-1)
        with pytest.warns(UserWarning) as seen:
            next(iter(cls(range(3), pin_memory=True, pin_memory_device="cuda")))
        assert any("pin_memory_device is deprecated" in str(one.message) for one in seen)


@pytest.mark.parametrize("given", [{"shuffle": True}, {}], ids=["shuffled", "plain"])
def test_a_data_pipe_is_shuffled_as_by_pytorch_and_resumes(given):
    def make(cls, seed=5):
        pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(20)).shuffle()
        return cls(pipe, 4, generator=torch.Generator().manual_seed(seed), **given)

    ours, theirs = make(DataLoader), make(torch.utils.data.DataLoader)
    for _ in range(2):
        assert [one.tolist() for one in ours] == [one.tolist() for one in theirs]
    it = taken(ours, 2)
    state = json.loads(json.dumps(ours.state_dict()))
    again = make(DataLoader, 6)
    again.load_state_dict(state)
    assert [one.tolist() for one in again] == [one.tolist() for one in it]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_without_what_later_versions_save_still_loads(workers):
    def of_samples():
        return DataLoader(range(20), 2, sampler=samples.Counted(20), num_workers=workers)

    def of_a_stream():
        return DataLoader(stateful.Generated(), 2, num_workers=workers and 3)

    for make in (of_samples, of_a_stream):
        loader = make()
        it = taken(loader, 3)
        state = {
            name: one for name, one in loader.state_dict().items() if name not in ("sampled", "datasets", "seeded")
        }
        rest = [batch.tolist() for batch in it]
        again = make()
        again.load_state_dict(json.loads(json.dumps(state)))
        assert [batch.tolist() for batch in again] == rest and rest


UNEVEN = {
    "anew": stateful.Anew,
    "itself": stateful.AnewItself,
    "bare": stateful.OfBare,
    "without": stateful.Uneven,
}


@pytest.mark.parametrize("kind", list(UNEVEN))
@pytest.mark.parametrize(
    "given", [{}, {"drop_last": True}, {"batch_size": None}, {"snapshot_every_n_steps": 2}], ids=str
)
@pytest.mark.parametrize("sizes", [(5,), (4,), (1, 7), (6, 3, 0), (2, 5)])
def test_no_element_comes_twice_wherever_a_pass_is_left(kind, sizes, given):
    """Saved in the body of the loop, behind each batch: what is left of the pass comes, then the next pass."""

    def make():
        workers = len(sizes) if len(sizes) > 1 else 0
        return DataLoader(UNEVEN[kind](sizes), num_workers=workers, collate_fn=plain, **{"batch_size": 2, **given})

    loader, states, batches = make(), [], []
    for batch in loader:
        batches.append(batch)
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert sum(sizes) >= len(batches) > 1
    for place, state in enumerate(states, 1):
        again = make()
        again.load_state_dict(state)
        assert list(again) == batches[place:]
        behind = again.state_dict()
        assert list(again) == batches
        again.load_state_dict(behind)
        assert list(again) == batches


@pytest.mark.parametrize("kind", ["anew", "bare"])
def test_no_element_comes_twice_in_worker_processes(kind):
    def make():
        return DataLoader(UNEVEN[kind]((1, 5)), 2, num_workers=2, worker_type="process", collate_fn=plain)

    loader = make()
    taken(loader, 3)
    again = make()
    again.load_state_dict(loader.state_dict())
    assert list(again) == [[104]] and list(again) == [[0], [100, 101], [102, 103], [104]]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_that_stay_have_their_states_though_nothing_is_left_for_them(workers):
    def make():
        given = {"num_workers": workers, "persistent_workers": True, "collate_fn": plain}
        return DataLoader(stateful.Indexed(5), 2, **given)

    loader = make()
    states = [loader.state_dict() for _ in loader]
    following = list(loader)
    for state in states:
        again = make()
        again.load_state_dict(state)
        list(again)
        assert list(again) == following


class Plainest:
    """An iterator with ``__next__``, and perhaps a state, alone."""

    def __init__(self, elements: Any) -> None:
        self.elements = iter(elements)

    def __next__(self) -> Any:
        return next(self.elements)


class Sampled:
    """Batches of indices, by such an iterator."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return Plainest([[3, 1], [2], [0]])


class Unstated(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        return Plainest(range(5))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(
    ("make", "whole"),
    [
        (lambda **more: DataLoader(range(4), batch_sampler=Sampled(), **more), [[3, 1], [2], [0]]),
        (lambda **more: DataLoader(Unstated(), 2, **more), [[0, 1], [2, 3], [4]]),
    ],
    ids=["sampler", "dataset"],
)
def test_an_iterator_need_be_no_generator(make, whole, workers, place):
    loader = make(num_workers=workers, collate_fn=plain)
    taken(loader, place)
    again = make(num_workers=workers, collate_fn=plain)
    again.load_state_dict(loader.state_dict())
    assert list(again) == whole[place:] and list(again) == whole
