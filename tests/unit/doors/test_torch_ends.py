"""`queuecore.torch.DataLoader`: the ends of its workers, when an error or a `break` leaves the loop."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from queuecore.data import Dataset

pytestmark = pytest.mark.doors

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")

from queuecore.errors import PipelineError  # noqa: E402
from queuecore.torch import DataLoader  # noqa: E402


class Odd(BaseException):
    """No `Exception`."""


class Bare(Exception):
    """An exception that takes no note."""

    def add_note(self, note: str) -> None:
        raise RuntimeError(note)


def failing(error: type[BaseException]) -> Any:
    def fail(*given: object) -> Any:
        raise error("here")

    return fail


class Samples(torch.utils.data.Dataset):
    def __init__(self, error: type[BaseException] | None = None) -> None:
        self.error = error

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        if self.error is not None and index == 3:
            raise self.error("here")
        return index


class Elements(torch.utils.data.IterableDataset):
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __iter__(self) -> Any:
        yield from range(5)
        raise self.error("here")


class Sampler:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __iter__(self) -> Any:
        yield from range(5)
        raise self.error("here")


LOADERS = {
    "sample": lambda error, **given: DataLoader(Samples(error), 2, **given),
    "element": lambda error, **given: DataLoader(Elements(error), 2, **given),
    "collation": lambda error, **given: DataLoader(Samples(), 2, collate_fn=failing(error), **given),
    "start": lambda error, **given: DataLoader(Samples(), 2, worker_init_fn=failing(error), **given),
    "sampler": lambda error, **given: DataLoader(Samples(), 2, sampler=Sampler(error), **given),
    "two": lambda error, **given: DataLoader(Samples(error), 2, sampler=Sampler(error), in_order=False, **given),
    "collated elements": lambda error, **given: DataLoader(Elements(error), 5, collate_fn=failing(error), **given),
    "ours": lambda error, **given: DataLoader(Dataset.range(40), 2, collate_fn=failing(error), **given),
}


def threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("qc-")}


@pytest.fixture
def without_collector() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("error", [ValueError, StopIteration, Bare, Odd, KeyboardInterrupt])
@pytest.mark.parametrize("where", LOADERS)
def test_an_error_that_leaves_the_loop_ends_the_workers(where, error):
    before, errors = threads(), []
    loader = LOADERS[where](error, num_workers=2)
    for _ in range(3):
        with pytest.raises((error, RuntimeError, PipelineError)) as caught:
            for _ in loader:
                pass
        errors.append(caught.value)
    for one in threads() - before:
        one.join(20)
        assert not one.is_alive()
    assert len({id(one) for one in errors}) == 3 and all(one.__traceback__ is not None for one in errors)


@pytest.mark.usefixtures("without_collector")
def test_a_kept_error_keeps_no_worker_processes():
    loader = DataLoader(Samples(ValueError), 2, num_workers=1, worker_type="process")
    batches = iter(loader)
    workers = batches._workers
    with pytest.raises(ValueError) as caught:
        list(batches)
    del batches
    for one in workers:
        one.join(20)
        assert not one.is_alive()
    assert caught.value.__traceback__ is not None


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("ours", [False, True])
def test_a_loop_that_is_left_ends_its_workers_and_keeps_its_place(ours):
    dataset = Dataset.range(40) if ours else range(40)
    loader, before = DataLoader(dataset, 2, num_workers=2), threads()
    for batch in loader:
        if batch.tolist() == [4, 5]:
            break
    for one in threads() - before:
        one.join(20)
        assert not one.is_alive()
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert next(iter(loader)).tolist() == [6, 7]


def test_the_loop_may_go_on_after_an_error():
    loader = DataLoader(Samples(ValueError), 2, num_workers=2)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(ValueError, match="here"):
        next(batches)
    assert next(batches).tolist() == [4, 5] and loader._iterator is batches
