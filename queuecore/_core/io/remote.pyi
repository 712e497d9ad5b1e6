"""See the module."""

from collections.abc import Callable
from typing import Any

def is_url(name: bytes) -> bool: ...
def begin(
    opener: Callable[[bytes, int], Any], errno_of: Callable[[BaseException], int], start: Callable[[], None]
) -> None: ...
def serve(idle: float) -> None: ...
