from typing import Protocol, final

from typing_extensions import Buffer

from queuecore.errors import QueueCoreError

class _Source(Protocol):
    def readinto(self, into: memoryview, /) -> int: ...

MAX_RECORD_BYTES: int

def frame(record: Buffer) -> tuple[bytes, bytes]: ...

@final
class FileBytes:
    def __init__(self, path: bytes, encoding: int = 0) -> None: ...
    @property
    def size(self) -> int: ...
    def readinto(self, into: Buffer) -> int: ...
    def close(self) -> None: ...

@final
class RecordScan:
    def __init__(
        self,
        source: _Source,
        path: bytes,
        total_bytes: int = -1,
        max_record_bytes: int = ...,
        block_bytes: int = ...,
        index: list[tuple[int, int]] | None = None,
    ) -> None: ...
    @property
    def records(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def offset(self) -> int: ...
    def next_fault(self) -> tuple[QueueCoreError, int | None] | None: ...
