"""See the module."""

from collections.abc import Callable
from typing import Any, Self

from typing_extensions import Buffer, disjoint_base

def is_url(name: bytes) -> bool: ...
def begin(
    opener: Callable[[bytes, int], Any], errno_of: Callable[[BaseException], int], start: Callable[[], None]
) -> None: ...
def serve(idle: float) -> None: ...

@disjoint_base
class AheadReader:
    def __new__(
        cls,
        size: int,
        fetch: Callable[[int, memoryview, bool], Buffer | None],
        failed: Callable[[BaseException], BaseException],
    ) -> Self: ...
    def set_single(self, single: bool) -> None: ...
    def readinto(self, into: Buffer, offset: int) -> int: ...
