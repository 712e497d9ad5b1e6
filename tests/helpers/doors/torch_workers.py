"""Datasets that tell what their worker is, draws and keeps; importable, so that worker processes find them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
import torch.utils.data as data


def seed_worker(number: int) -> None:
    """PyTorch's recipe."""
    del number
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def random_states() -> list[Any]:
    """Those of the generators that all of a program shares."""
    kind, keys, *rest = np.random.get_state()
    return [random.getstate(), kind, keys.tolist(), *rest, torch.get_rng_state().tolist()]


class Drawing(data.Dataset):
    """Samples with random numbers from everywhere."""

    def __len__(self) -> int:
        return 13

    def __getitem__(self, index: int) -> Any:
        info = data.get_worker_info()
        own = (-1, 0, 0) if info is None else (info.id, info.num_workers, info.seed % 1000)
        return index, *own, random.random(), float(np.random.rand()), float(torch.rand(())), np.random.randn()


class Counting(data.Dataset):
    """Each copy counts its own calls."""

    def __init__(self, size: int = 40) -> None:
        self.size, self.calls = size, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        self.calls += 1
        info = data.get_worker_info()
        return index, self.calls, -1 if info is None else info.id, info is None or info.dataset is self


class Numbers(data.IterableDataset):
    """Numbers, which workers part among themselves; later ones get more."""

    def __init__(self, size: int, parted: bool = True, noise: bool = False) -> None:
        self.size, self.parted, self.noise = size, parted, noise

    def __iter__(self) -> Any:
        info = data.get_worker_info()
        if info is None or not self.parted:
            mine = range(self.size)
        else:
            first, last = (self.size * (info.id + one) ** 2 // info.num_workers**2 for one in (0, 1))
            mine = range(first, last)
        for number in mine:
            yield (number, random.random(), float(torch.rand(()))) if self.noise else number


class Walking(data.IterableDataset):
    """Its own iterator; to iterate it anew leads it back."""

    def __init__(self, size: int) -> None:
        self.size, self.at = size, 0

    def __iter__(self) -> Any:
        info = data.get_worker_info()
        self.at, self.step = (0, 1) if info is None else (info.id, info.num_workers)
        return self

    def __next__(self) -> int:
        if self.at >= self.size:
            raise StopIteration
        self.at += self.step
        return self.at - self.step

    def state_dict(self) -> dict[str, int]:
        return self.__dict__  # what is handed out goes on changing

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Reading(data.Dataset):
    """Reads from one file, by a place that all who share it share."""

    def __init__(self, path: Any, lazy: bool) -> None:
        self.path, self.file = path, None if lazy else open(path, "rb")  # noqa: SIM115

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> int:
        if self.file is None:
            self.file = open(self.path, "rb", buffering=0)  # noqa: SIM115
        self.file.seek(4 * index)
        return int.from_bytes(self.file.read(4), "little") - index


class Holding:
    """A dataset of users' own that holds another one, and is no `Dataset`."""

    def __init__(self, dataset: Any) -> None:
        self.held = {"one": [dataset]}

    def __len__(self) -> int:
        return len(self.held["one"][0])

    def __getitem__(self, index: int) -> Any:
        return self.held["one"][0][index]
