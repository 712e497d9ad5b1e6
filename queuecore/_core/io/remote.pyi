"""See the module."""
from collections.abc import Callable
from typing import Any

def begin(
    opener: Callable[[bytes], Any], errno_of: Callable[[BaseException], int], start: Callable[[], None]
) -> None: ...
def serve(idle: float) -> None: ...
