"""Datasets of PyTorch's kind, and samplers, for its loader and ours; importable, so that worker processes find them."""

from __future__ import annotations

import collections
import random
import threading
from typing import Any

import numpy as np
import torch
import torch.utils.data as data

import queuecore as qc
from queuecore.torch import IterableDataset

Point = collections.namedtuple("Point", ["x", "y"])


class Squares(data.Dataset):
    """Samples of every kind that PyTorch's collation knows."""

    def __init__(self, size: int, kind: str) -> None:
        self.size, self.kind = size, kind

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.size:
            raise IndexError(index)
        array = np.arange(index, index + 3, dtype=np.float32)
        return {
            "int": lambda: index * index,
            "float": lambda: index / 7,
            "str": lambda: f"sample {index}",
            "bytes": lambda: b"%d" % index,
            "array": lambda: array,
            "scalar": lambda: np.int16(index),
            "tensor": lambda: torch.tensor([index, -index]),
            "tuple": lambda: (array, index),
            "list": lambda: [index, [float(index), str(index)]],
            "dict": lambda: {"x": array, "y": {"z": index}},
            "ordered": lambda: collections.OrderedDict(b=index, a=array),
            "named": lambda: Point(index, array),
        }[self.kind]()


KINDS = ["int", "float", "str", "bytes", "array", "scalar", "tensor", "tuple", "list", "dict", "ordered", "named"]


class AtOnce(Squares):
    """One that is asked for all samples of a batch at once."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in reversed(indices)]


class Lazy(data.Sampler):
    """Draws each index when it is asked for it, from a generator or the global one."""

    def __init__(self, size: int, generator: Any = None) -> None:
        self.size, self.generator = size, generator
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        for _ in range(self.size):
            self.threads.add(threading.get_ident())
            yield int(torch.randint(self.size, (), generator=self.generator))


class Counted(data.Sampler):
    """Goes on where it was, and has a state of its own. Draws from Python's generator."""

    def __init__(self, size: int) -> None:
        self.size, self.epoch = size, 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Any:
        self.epoch += 1
        yield from random.Random(self.epoch).sample(range(self.size), self.size)

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch = state["epoch"]


class Stream(data.IterableDataset):
    """Numbers, without a state."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Any:
        return iter(range(self.size))


class Parted(IterableDataset):
    """One whose workers part the input of a function."""

    def shard(self, num_shards: int, index: int) -> qc.data.Dataset:
        return qc.data.Dataset.range(10).shard(num_shards, index).map(negative)


def negative(x: Any) -> Any:
    return -int(x)
