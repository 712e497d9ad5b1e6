from collections.abc import Sequence
from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class FileList:
    def __new__(
        cls,
        paths: Sequence[bytes],
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

@disjoint_base
class KnownFiles:
    def __len__(self) -> int: ...
