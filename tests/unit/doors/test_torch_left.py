"""`queuecore.torch.DataLoader`: what an epoch that an error or a `break` ended leaves behind, and to the next one."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import sys
import threading
import traceback
import weakref
from typing import Any

import numpy as np
import pytest

from queuecore.data import Dataset

pytestmark = pytest.mark.doors

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")

from queuecore.errors import PipelineError  # noqa: E402
from queuecore.torch import DataLoader  # noqa: E402

Oracle = torch.utils.data.DataLoader
SIZE = 16
gate = multiprocessing.get_context("fork").Event()
main = os.getpid()


def fail(*_: object) -> Any:
    raise ValueError("here")


class Steps:
    """An iterator that goes on after its error: no generator."""

    def __init__(self, wrap: Any = int) -> None:
        self.at, self.wrap = -1, wrap

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.at += 1
        if self.at == SIZE:
            raise StopIteration
        return fail() if self.at == 5 else self.wrap(self.at)


class Samples(torch.utils.data.Dataset):
    def __init__(self, at_five: Any = int) -> None:
        self.at_five = at_five

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> int:
        return self.at_five() if index == 5 else index


class Several(Samples):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices]


class Elements(torch.utils.data.IterableDataset):
    def __init__(self, make: Any) -> None:
        self.make = make

    def __iter__(self) -> Any:
        return iter(self.make())


class Sampler:
    def __init__(self, make: Any) -> None:
        self.make = make

    def __iter__(self) -> Any:
        return self.make()


def alone(index: int) -> list[int]:
    return [index]


def pairs() -> Any:
    return Steps(alone)


def sixteen() -> Any:
    return range(SIZE)


def plain(batch: Any) -> Any:
    return [int(element) for element in batch]


def fail_at_four(batch: Any) -> Any:
    return fail() if 4 in batch else plain(batch)


def generated() -> Any:
    yield from range(4)
    fail()


def five() -> int:
    return 5


def wait() -> int:
    gate.wait(20)
    return 5


def interrupt() -> int:
    os.kill(main, signal.SIGINT)  # the main thread gets it, which waits for this sample
    return 5


ENDED: dict[str, Any] = {
    "sample": lambda cls, **given: cls(Samples(fail), 2, **given),
    "samples": lambda cls, **given: cls(Several(fail), 2, **given),
    "element": lambda cls, **given: cls(Elements(Steps), 1, **given),
    "generator": lambda cls, **given: cls(Elements(generated), 1, **given),
    "pass": lambda cls, **given: cls(Elements(fail), 1, **given),
    "collation": lambda cls, **given: cls(Samples(five), 2, collate_fn=fail_at_four, **given),
    "collated elements": lambda cls, **given: cls(Elements(sixteen), 2, collate_fn=fail_at_four, **given),
    "start": lambda cls, **given: cls(Samples(five), 2, worker_init_fn=fail, **given),
    "start of a stream": lambda cls, **given: cls(Elements(sixteen), 2, worker_init_fn=fail, **given),
    "sampler": lambda cls, **given: cls(Samples(five), 2, sampler=Sampler(Steps), **given),
    "sampler's start": lambda cls, **given: cls(Samples(five), 2, sampler=Sampler(fail), **given),
    "batch sampler": lambda cls, **given: cls(Samples(five), batch_sampler=Sampler(pairs), **given),
    "ours": lambda cls, **given: cls(Dataset.range(SIZE).map(fail), 2, **given),
    "ours, collated": lambda cls, **given: cls(Dataset.range(SIZE), 2, collate_fn=fail_at_four, **given),
}
LEFT: dict[str, Any] = {
    "left": lambda cls, **given: cls(Samples(five), 2, **given),
    "left stream": lambda cls, **given: cls(Elements(sixteen), 2, **given),
    "ours, left": lambda cls, **given: cls(Dataset.range(SIZE), 2, **given),
}
CREWS: dict[str, dict[str, Any]] = {
    "none": {},
    "threads": {"num_workers": 2, "worker_type": "thread"},
    "threads that stay": {"num_workers": 2, "worker_type": "thread", "persistent_workers": True},
    "processes": {"num_workers": 2, "worker_type": "process"},
    "processes that stay": {"num_workers": 2, "worker_type": "process", "persistent_workers": True},
}


def fits(case: str, crew: str) -> bool:
    """Whether there is such a loader: without workers nothing starts, and those of a dataset of ours are native."""
    return not (
        case.startswith("start") and crew == "none" or case.startswith("ours") and crew not in ("none", "threads")
    )


GRID = [(case, crew) for case in ENDED | LEFT for crew in CREWS if fits(case, crew)]


def epoch(loaders: list[Any]) -> Exception | None:
    """Run an epoch of the only loader in a list, so that no frame of this file holds it; return what ended it."""
    try:
        for number, _ in enumerate(loaders[0]):
            if loaders[0].dataset.__class__ is Elements and number == 30 or "left" in loaders[1] and number == 2:
                break
    except (ValueError, PipelineError) as error:
        return error
    return None


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("qc-")}


def gone(threads: set[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(20)
    return not any(thread.is_alive() for thread in threads)


@pytest.fixture
def without_collector() -> Any:
    gc.collect()
    gc.disable()
    gate.clear()
    yield
    gate.set()
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(("case", "crew"), GRID)
def test_errors_that_are_kept_keep_no_loader_no_thread_and_no_process(case, crew):
    before, children = own_threads(), set(multiprocessing.active_children())
    loaders = [(ENDED | LEFT)[case](DataLoader, **CREWS[crew]), case]
    errors = [epoch(loaders) for _ in range(3)]
    ended = (
        0 if case in LEFT else 1 if case.startswith("start") and "stay" in crew else 3
    )  # workers that stay start once
    assert sum(error is not None for error in errors) == ended
    assert gone(own_threads() - before)
    processes = set(multiprocessing.active_children()) - children
    assert len(processes) == (2 if crew == "processes that stay" else 0)
    loader = weakref.ref(loaders.pop(0))
    for process in processes:
        process.join(20)
        assert process.exitcode is not None
    assert loader() is None and gone(own_threads() - before)
    assert all(error is None or error.__traceback__ is not None for error in errors)


def walk(loader: Any, clear: bool) -> list[Any]:
    """What an epoch gives, errors too. If `clear`, frames of tracebacks are cleared, as `unittest` does."""
    results: list[Any] = []
    try:
        batches = iter(loader)
    except ValueError:
        return ["start"]
    while len(results) < 40:
        try:
            results.append(plain(next(batches)))
        except StopIteration:
            break
        except (ValueError, PipelineError) as error:
            if clear:
                traceback.clear_frames(error.__traceback__)
            results.append(type(error))
    return results


@pytest.mark.parametrize(("case", "crew"), [one for one in GRID if one[0] in ENDED and "stay" not in one[1]])
def test_a_program_that_clears_the_frames_of_an_error_loses_nothing(case, crew):
    before = own_threads()
    made = walk(ENDED[case](DataLoader, **CREWS[crew]), True)
    assert made == walk(ENDED[case](DataLoader, **CREWS[crew]), False)
    assert ValueError in made or PipelineError in made or made == ["start"]
    if crew == "none" and not case.startswith("ours"):
        assert made == walk(ENDED[case](Oracle), False)
    gc.collect()
    assert gone(own_threads() - before)  # also of epochs that nobody ended, behind an error


@pytest.mark.parametrize("crew", ["none", "threads", "processes"])
def test_a_sampler_goes_on_after_its_error_and_so_does_a_loader_that_resumes(crew):
    before = own_threads()
    outcomes = walk(ENDED["batch sampler"](DataLoader, **CREWS[crew]), False)
    assert outcomes == [[0], [1], [2], [3], [4], ValueError, *([index] for index in range(6, SIZE))]
    for place in (4, 5, 6, 8):
        loader = ENDED["batch sampler"](DataLoader, **CREWS[crew])
        batches = iter(loader)
        for number in range(place):
            if number == 5:
                with pytest.raises(ValueError, match="here"):
                    next(batches)
            else:
                next(batches)
        state = loader.state_dict()
        again = ENDED["batch sampler"](DataLoader, **CREWS[crew])
        again.load_state_dict(state)
        assert walk(again, False) == outcomes[place:]
        # Also those of the first loader, left when an error of its sampler was on its way.
        del loader, batches, again
        gc.collect()
        assert gone(own_threads() - before)


@pytest.mark.parametrize(("case", "crew"), [one for one in GRID if not one[1].startswith("processes")])
def test_memory_does_not_grow_with_epochs_that_are_left(case, crew):
    loaders = [(ENDED | LEFT)[case](DataLoader, **CREWS[crew]), case]
    counts: list[tuple[int, int, int]] = []
    before = own_threads()
    for number in range(200):
        epoch(loaders)
        if number % 80 == 39:
            assert gone(own_threads() - before)
            gc.collect()
            counts.append((len(gc.get_objects()), sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))))
    # What each of the 160 epochs between could keep is many objects.
    objects, blocks, files = (last - first for first, last in zip(counts[0], counts[-1], strict=True))
    assert objects < 800 and blocks < 1600 and files <= 0


@pytest.mark.parametrize("case", ["sample", "element", "start", "left", "left stream"])
def test_processes_of_epochs_that_are_left_leave_no_files(case):
    counts = []
    for _ in range(12):
        loaders = [(ENDED | LEFT)[case](DataLoader, **CREWS["processes"]), case]
        epoch(loaders)
        del loaders
        gc.collect()
        assert not multiprocessing.active_children()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert max(counts) - min(counts) < 12  # PyTorch's threads may still hold those of the last epochs


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(
    ("at_five", "crew"),
    # PyTorch waits 5 seconds for each process that doesn't end.
    [(wait, crew) for crew in CREWS if crew.startswith("threads")] + [(interrupt, crew) for crew in CREWS],
)
def test_a_timeout_and_ctrl_c_leave_nothing(at_five, crew):
    before, children = own_threads(), set(multiprocessing.active_children())
    timeout = 0.3 if at_five is wait else 0
    loaders = [DataLoader(Samples(at_five), 2, timeout=timeout, **CREWS[crew])]
    errors: list[BaseException] = []
    try:
        for _ in loaders[0]:
            pass
    except (RuntimeError, KeyboardInterrupt) as error:
        errors.append(error)
    finally:
        gate.set()
    assert isinstance(errors[0], RuntimeError if at_five is wait else KeyboardInterrupt)
    assert gone(own_threads() - before)
    loader = weakref.ref(loaders.pop())
    assert loader() is None
    for process in set(multiprocessing.active_children()) - children:
        process.join(20)
        assert process.exitcode is not None


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("case", ["left", "left stream"])
@pytest.mark.parametrize("crew", ["none", "threads", "threads that stay"])
def test_an_error_of_the_step_that_pins_leaves_nothing(case, crew, monkeypatch):
    monkeypatch.setattr("queuecore._torch.batches._pinning", lambda loader: fail)
    before = own_threads()
    loaders = [LEFT[case](DataLoader, **CREWS[crew]), ""]
    errors = [epoch(loaders) for _ in range(3)]
    assert [str(error) for error in errors] == ["here"] * 3
    loader = weakref.ref(loaders.pop(0))
    assert loader() is None and gone(own_threads() - before)


# -- what a state does not restore -------------------------------------------------------------------------------------


class DrawingAndSaving(Samples):
    def __getitem__(self, index: int) -> Any:
        return random.random()

    def state_dict(self) -> Any:
        return {"random": random.getstate()}

    def load_state_dict(self, state: Any) -> None:
        random.setstate(state["random"])


def drawing(batch: Any) -> Any:
    return [float(np.random.rand()) for _ in batch]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, drawing])
@pytest.mark.parametrize("kind", [Samples, DrawingAndSaving])
def test_the_log_says_once_what_a_loaded_state_does_not_restore(kind, collate, workers, caplog):
    def loader() -> Any:
        return DataLoader(kind(), 2, collate_fn=collate, num_workers=workers, worker_type="thread")

    state = loader().state_dict()
    again = loader()
    with caplog.at_level("INFO", "queuecore"):
        caplog.clear()
        again.load_state_dict(state)
        again.load_state_dict(state)
    messages = [record.message for record in caplog.records if "a loaded state" in record.message]
    if kind is Samples and collate is drawing:
        assert len(messages) == 1 and "drawing uses numpy.random.rand" in messages[0]
        assert ("each worker begins" if workers else "that follow in this program") in messages[0]
        assert "default_rng((seed, index))" in messages[0]
    else:
        assert messages == []


# -- workers that stay -------------------------------------------------------------------------------------------------


class Counting(torch.utils.data.Dataset):
    """Samples show what their worker's copy has, and what all copies share."""

    def __init__(self) -> None:
        self.calls = self.epoch = 0
        self.shared, self.value = torch.zeros(1).share_memory_(), multiprocessing.Value("i", 0)
        self.own = np.random.default_rng(3), random.Random(4), torch.Generator().manual_seed(5)

    def set_epoch(self, number: int) -> None:
        self.epoch = number

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        self.calls += 1
        arrays, numbers, _ = self.own
        return index, self.calls, self.epoch, float(arrays.random()), numbers.random()


class CountingStream(Counting, torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        self.passes = getattr(self, "passes", 0) + 1
        return ((self.passes, *self[index]) for index in range(10))


class Drawing(Counting):
    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), random.random(), float(np.random.rand()), float(torch.rand(1))


class DrawingStream(CountingStream):
    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), random.random(), float(np.random.rand()), float(torch.rand(1))


def untouched(batch: Any) -> Any:
    return batch


def set_in_worker(number: int) -> None:
    torch.utils.data.get_worker_info().dataset.epoch = 100 + number


def epochs_that_are_left(cls: Any, kind: Any, places: list[int | None], begin: Any, **given: Any) -> list[Any]:
    """Batches of epochs, each left at its place; the program sets attributes and draws between them."""
    torch.manual_seed(7)
    dataset = kind()
    given |= {"num_workers": 2, "persistent_workers": True, "collate_fn": untouched, "worker_init_fn": begin}
    loader = cls(dataset, 2, shuffle=None if issubclass(kind, CountingStream) else True, **given)
    results: list[Any] = []
    for number, place in enumerate(places):
        dataset.set_epoch(number)
        dataset.calls += 1000
        batches = []
        for at, batch in enumerate(loader):
            batches.append(batch)
            if at == place:
                break
        results += [batches, float(torch.rand(1))]
    return results


@pytest.mark.parametrize("begin", [None, set_in_worker])
@pytest.mark.parametrize("places", [[None, None], [0, 0, None], [3, 1, None, 2, None]], ids=str)
@pytest.mark.parametrize("kind", [Counting, CountingStream, Drawing, DrawingStream])
def test_workers_that_stay_know_of_epochs_that_were_left_what_pytorchs_know(kind, places, begin):
    oracle = epochs_that_are_left(Oracle, kind, places, begin)
    for how in ("thread", "process"):
        assert epochs_that_are_left(DataLoader, kind, places, begin, worker_type=how) == oracle


class Sharing(Counting):
    def __getitem__(self, index: int) -> Any:
        return int(self.shared[0]), self.value.value


@pytest.mark.parametrize("how", ["thread", "process"])
def test_workers_that_stay_see_shared_memory(how):
    dataset = Sharing()
    loader = DataLoader(
        dataset, None, num_workers=2, persistent_workers=True, collate_fn=untouched, worker_type=how
    )  # fmt: skip
    for number in range(3):
        dataset.shared[0] = dataset.value.value = number
        assert set(loader) == {(number, number)}
