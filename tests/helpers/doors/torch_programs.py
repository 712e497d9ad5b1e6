"""Datasets as programs for PyTorch's loaders have them; importable, so that worker processes find them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data as data

gate = threading.Event()


class Drawing(data.Dataset):
    """Samples that draw from the global generator, whose state is that of the dataset."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, int(torch.randint(1 << 20, (1,)))

    def state_dict(self) -> dict[str, Any]:
        return {"generator": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["generator"])


class Plain(data.Dataset):
    """Numbers."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return index


class Drawn(data.Dataset):
    """Samples that draw from the global generator, and no state."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return int(torch.randint(1 << 20, (1,)))


class DrawnStream(data.IterableDataset):
    """The same, one after the other."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(3):
            yield int(torch.randint(1 << 20, (1,)))


class DrawnAndSaved(DrawnStream):
    """The same, with the global generator's state as its own."""

    def state_dict(self) -> dict[str, Any]:
        return {"generator": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["generator"])


class Tallies(data.IterableDataset):
    """A stream that keeps count in a list, a dict, a set and a dict within a list."""

    def __init__(self, count: int = 4) -> None:
        self.count = count
        self.seen: list[int] = []
        self.tally: dict[str, int] = {}
        self.marks: set[int] = set()
        self.inner: list[dict[str, int]] = [{"n": 0}]

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        for number in range(self.count):
            self.seen.append(number)
            self.tally["n"] = self.tally.get("n", 0) + 1
            self.marks.add(len(self.marks))
            self.inner[0]["n"] += 1
            yield len(self.seen), self.tally["n"], len(self.marks), self.inner[0]["n"]


class Begun(data.IterableDataset):
    """A stream that counts how often it was begun, with a state of its own."""

    def __init__(self) -> None:
        self.begun = self.at = 0

    def __iter__(self) -> Any:
        self.begun += 1
        return map(self.one, range(self.at, 6))

    def one(self, number: int) -> int:
        self.at = (number + 1) % 6
        return number

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


class Gated(data.IterableDataset):
    """A stream whose last worker waits for the gate before its first element."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        info = data.get_worker_info()
        if info.id == info.num_workers - 1:
            gate.wait(60)
        for number in range(5):
            yield info.id, number
