"""Datasets and samplers with states, as torchdata knows them; importable, so that worker processes find them."""

from __future__ import annotations

import multiprocessing
from typing import Any

import torch
import torch.utils.data as data

# The elements of each worker of an iterable dataset.
SIZES = [0, 14, 5]


def part() -> tuple[int, int]:
    """Return the first and the last number of this worker."""
    info = data.get_worker_info()
    if info is None:
        return 0, sum(SIZES)
    return sum(SIZES[: info.id]), sum(SIZES[: info.id + 1])


class Drawing:
    """An iterator that draws from the global generator, whose state is part of its own."""

    def __init__(self) -> None:
        self.at, self.end = part()

    def __iter__(self) -> Drawing:
        return self

    def __next__(self) -> int:
        if self.at >= self.end:
            raise StopIteration
        self.at += 1
        return int(torch.randint(1000, (1,)))

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "generator": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]
        torch.set_rng_state(state["generator"])


class Drawn(data.IterableDataset):
    """One whose iterator has a state."""

    def __iter__(self) -> Drawing:
        return Drawing()


class Both(data.IterableDataset):
    """One that has a state, and so has its iterator: the passes and the place in them."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        return Counting(100 * self.passes)

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.passes - 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.passes = state["passes"]


class Counting:
    """Numbers from one on, with a state."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.at, self.end = part()

    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> int:
        if self.at >= self.end:
            raise StopIteration
        self.at += 1
        return self.first + self.at

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Generated(data.IterableDataset):
    """A generator function; the dataset has its state."""

    def __init__(self) -> None:
        self.at = 0
        self.resumed: int | None = None

    def __iter__(self) -> Any:
        first, end = part()
        self.at, self.resumed = self.resumed or 0, None
        for one in range(first + self.at, end):
            self.at += 1
            yield one

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.resumed = state["at"]


class Indexed(data.Dataset):
    """Samples that count how many a worker has made, and say so."""

    def __init__(self, size: int = 20) -> None:
        self.size, self.made = size, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.made += 1
        return index, self.made

    def state_dict(self) -> dict[str, int]:
        return {"made": self.made}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.made = state["made"]

    def begin(self, number: int) -> None:
        self.made = 1000 * number

    def collate(self, batch: Any) -> Any:
        return self.made, batch


class IndexedDrawn(Indexed):
    """Samples drawn from the global generator, whose state is the dataset's."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, int(torch.randint(1000, (1,)))

    def state_dict(self) -> dict[str, Any]:
        return {"generator": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["generator"])


class Placed(data.Sampler):
    """A sampler whose state is its place in the epoch; the next epoch begins at its start."""

    def __init__(self, size: int = 20) -> None:
        self.size, self.at = size, 0
        self.next: int | None = None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        self.at, self.next = self.next or 0, None
        for one in range(self.at, self.size):
            self.at += 1
            yield self.size - one - 1

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["at"]


class Epochs(data.Sampler):
    """Another order for each epoch that is set."""

    def __init__(self, size: int = 20) -> None:
        self.size, self.epoch = size, 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        return ((one + self.epoch) % self.size for one in range(self.size))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Twice(data.IterableDataset):
    """One that has more elements than it says."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter(range(6))


class Slow(data.Dataset):
    """Samples with their workers' numbers; the first is made when the last one has been."""

    def __init__(self) -> None:
        self.done = multiprocessing.Event()

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == 9:
            self.done.set()
        if index == 0:
            self.done.wait(20)
        info = data.get_worker_info()
        assert info is not None
        return index, info.id


class Anew(data.IterableDataset):
    """One with a state of its own that begins anew when its pass ends."""

    def __init__(self, sizes: tuple[int, ...] = (5,)) -> None:
        self.sizes, self.at = sizes, 0

    def _part(self) -> tuple[int, int]:
        info = data.get_worker_info()
        number = 0 if info is None else info.id
        return 100 * number, self.sizes[number]

    def __iter__(self) -> Any:
        first, size = self._part()
        while self.at < size:
            self.at += 1
            yield first + self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class AnewItself(Anew):
    """One that is its own iterator."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        first, size = self._part()
        if self.at >= size:
            self.at = 0
            raise StopIteration
        self.at += 1
        return first + self.at - 1


class Bare:
    """An iterator with a state and nothing else that iterators need not have."""

    def __init__(self, of: Anew) -> None:
        self.of = of

    def __next__(self) -> int:
        return AnewItself.__next__(self.of)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, int]:
        return {"at": self.of.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.of.at = state["at"]


class OfBare(data.IterableDataset):
    """One whose iterators are such."""

    def __init__(self, sizes: tuple[int, ...] = (5,)) -> None:
        self.sizes = sizes

    def __iter__(self) -> Any:
        return Bare(AnewItself(self.sizes))


class Uneven(data.IterableDataset):
    """One without a state."""

    def __init__(self, sizes: tuple[int, ...] = (5,)) -> None:
        self.sizes = sizes

    def __iter__(self) -> Any:
        return iter(list(Anew(self.sizes)))
