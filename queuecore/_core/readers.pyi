from collections.abc import Callable
from typing import final

@final
class NativeReader:
    def __init__(
        self,
        framing: str,
        record_bytes: int = 0,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        hop_bytes: int = 0,
    ) -> None: ...
    def read(self, next_name: Callable[[], bytes]) -> tuple[bytes, bytes]: ...
    def reset(self) -> None: ...
    @property
    def produced(self) -> int: ...
    @property
    def completed(self) -> int: ...
    @property
    def dropped_tails(self) -> int: ...
