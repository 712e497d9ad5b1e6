from collections.abc import Sequence
from typing import Any, Self

from typing_extensions import disjoint_base

@disjoint_base
class FileList:
    def __new__(
        cls,
        paths: Sequence[bytes],
        store: Any = None,
        item_bytes: int = 0,
        sides: tuple[int, ...] = (),
        arrays: list[tuple[bytes, int, bool]] | None = None,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: int, /) -> bytes: ...
    @property
    def digest(self) -> int: ...
    @property
    def remote(self) -> bool: ...
    @property
    def store(self) -> Any: ...
    def stored(self, store: Any) -> Self: ...

@disjoint_base
class KnownFiles:
    def __len__(self) -> int: ...
