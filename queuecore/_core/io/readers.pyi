from collections.abc import Callable
from typing import Any, final

import numpy as np

WHOLE: int
IDENTITY: int
LINES: int
FIXED: int
TFRECORD: int

@final
class Framing:
    @property
    def kind(self) -> int: ...
    @property
    def record_bytes(self) -> int: ...
    @property
    def header_bytes(self) -> int: ...
    @property
    def footer_bytes(self) -> int: ...
    @property
    def hop_bytes(self) -> int: ...
    def __init__(
        self, kind: int, record_bytes: int = 0, header_bytes: int = 0, footer_bytes: int = 0, hop_bytes: int = 0
    ) -> None: ...

@final
class NativeReader:
    def __init__(
        self,
        framing: Framing,
        encoding: int = 0,
        resync: bool = False,
        max_record_bytes: int = ...,
        retries: int = 0,
        allow_special: bool = False,
        store: Any = None,
    ) -> None: ...
    def read(self, next_name: Callable[[], bytes]) -> tuple[bytes, bytes]: ...
    def read_up_to(
        self, next_name: Callable[[], bytes], n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...
    def state(self) -> tuple[int, int, bytes]: ...
    def reset(self, completed: int = 0, produced: int = 0, last: bytes = b"") -> None: ...
    @property
    def produced(self) -> int: ...
    @property
    def completed(self) -> int: ...
    @property
    def dropped_tails(self) -> int: ...
