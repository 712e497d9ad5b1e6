from collections.abc import Callable
from typing import Any, final

from queuecore._core.io.csv import CsvFormat
from queuecore._core.io.names import FileList
from queuecore._core.io.sources import KnownFiles
from queuecore._core.steps.stages import Step
from queuecore._core.stream.feed import Feed
from queuecore._core.stream.marks import ShuffleCounter
from queuecore._core.stream.scope import Scope

FIXED: int
STRING: int
STRINGS: int
RAGGED: int
DENSE: int
OBJECT: int

@final
class Records:
    @property
    def record_bytes(self) -> int: ...
    @property
    def header_bytes(self) -> int: ...
    @property
    def footer_bytes(self) -> int: ...
    @property
    def hop_bytes(self) -> int: ...
    @property
    def drop_tail(self) -> bool: ...
    def __init__(
        self,
        record_bytes: int = 1,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        hop_bytes: int = 1,
        drop_tail: bool = False,
    ) -> None: ...

@final
class Frames:
    encoding: int
    header: int
    cycle: int
    lane_records: int
    first_number: int
    piece_bytes: int
    headroom: int
    records: Records
    csv: CsvFormat | None
    columns: list[Any] | None
    headings: Callable[[bytes, int], str | None] | None
    @property
    def guess(self) -> int: ...
    @property
    def max_record_bytes(self) -> int: ...
    def __init__(self, framing: str | None, guess: int, max_record_bytes: int) -> None: ...

@final
class Elements:
    @property
    def template(self) -> Any: ...
    @property
    def components(self) -> list[Any] | None: ...
    @property
    def leaves(self) -> list[Any]: ...
    @property
    def step(self) -> Step | None: ...
    @property
    def assemble(self) -> Callable[[list[Any], bool], Any] | None: ...
    @property
    def pads(self) -> list[tuple[tuple[int, ...], bytes] | None]: ...
    def __init__(
        self,
        template: Any,
        components: list[Any] | None = None,
        leaves: list[Any] | None = None,
        step: Step | None = None,
        assemble: Callable[[list[Any], bool], Any] | None = None,
        pads: list[tuple[tuple[int, ...], bytes] | None] | None = None,
    ) -> None: ...
    def changed(self, **changes: Any) -> Elements: ...

@final
class Ops:
    def take(self, number: int) -> None: ...
    def skip(self, number: int) -> None: ...
    def repeat(self, number: int) -> None: ...
    def map(self) -> None: ...
    def batch(self, size: int, drop_remainder: bool) -> None: ...
    def shuffle(
        self, buffer_size: int, pair: tuple[int, int], reshuffle: bool, counter: ShuffleCounter | None
    ) -> None: ...
    def permute(self, pair: tuple[int, int], reshuffle: bool, counter: ShuffleCounter | None) -> None: ...
    def shard(self, shards: int, index: int, uneven: int) -> None: ...

@final
class Description:
    elements: Elements
    num_threads: int
    help: bool
    on_hold_raise: bool
    quiet: bool
    prefetch: int
    ahead: int
    at_a_time: int
    max_leases: int
    memory_budget: int
    memory_limit: int
    retries: int
    depth: int
    asks: bool
    rings: bool
    drops: bool
    direct: bool
    stall_warn: float
    stall_timeout: float
    skips: Any
    feeder: Callable[[Feed, Any], None] | None
    settle_inputs: Callable[[], Exception | None] | None
    outer: Feed | None
    note_ends: Callable[[list[list[int]]], None] | None
    target: Any
    drawn: Any
    scope: Scope | None
    known: KnownFiles | None
    files: FileList
    @property
    def records(self) -> Records: ...
    @property
    def frames(self) -> Frames | None: ...
    @property
    def ops(self) -> Ops: ...
    def __init__(
        self, files: FileList, elements: Elements, records: Records | None = None, frames: Frames | None = None
    ) -> None: ...

@final
class RowComponent: ...

@final
class Keeper: ...
