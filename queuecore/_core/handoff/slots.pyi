from collections.abc import Callable
from typing import Any, Self, final

import numpy as np
from typing_extensions import disjoint_base

ARRAY: int
BYTES: int
STR: int
OBJECT: int

@final
class SlotComponent:
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def holds(self) -> int: ...
    @property
    def convert(self) -> Callable[[Any, bool], Any]: ...
    def __init__(
        self, dtype: np.dtype[Any], shape: tuple[int, ...] | None, holds: int, convert: Callable[[Any, bool], Any]
    ) -> None: ...

@final
class QueueDescription:
    min_after_dequeue: int
    names: tuple[str, ...] | None
    pad: bool
    seeds: tuple[int, int]
    start: int
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def store(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def components(self) -> list[SlotComponent]: ...
    def __init__(self, kind: str, name: str, store: int, capacity: int, components: list[SlotComponent]) -> None: ...

@disjoint_base
class Slots:
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...] | None: ...
    def __new__(cls, description: QueueDescription) -> Self: ...
