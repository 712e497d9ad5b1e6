from collections.abc import Callable
from typing import Any, Self, final

import numpy as np
from typing_extensions import disjoint_base

from queuecore._core.csv import CsvFormat
from queuecore._core.sources import FileList
from queuecore._core.stages import Step
from queuecore._quarantine import Quarantine
from queuecore.data._device import Target

@disjoint_base
class ShuffleCounter:
    next_iteration: int

@final
class Feed:
    def next_pass(self, after: int) -> tuple[int, int] | None: ...
    def hand(
        self,
        pass_: int,
        columns: list[Any],
        n: int,
        *,
        owner: Any,
        first: int = 0,
        rows: np.ndarray[Any, Any] | None = None,
    ) -> bool: ...
    def hand_objects(self, pass_: int, objects: list[Any]) -> bool: ...
    def add(self, pass_: int, element: Any) -> bool: ...
    def add_row(self, pass_: int, columns: list[Any], row: int) -> bool: ...
    def choose(self, pass_: int, child: Stream, mask: int, skip: int = 0) -> bool: ...
    def end(self, pass_: int, error: BaseException | None = None) -> None: ...
    @property
    def stopped(self) -> bool: ...

@final
class Scope:
    stopped: bool
    def __init__(self, inner: bool, node: Any = None) -> None: ...
    def enter(self) -> Scope | None: ...
    @staticmethod
    def leave(before: Scope | None) -> None: ...

@disjoint_base
class Stream:
    def __init__(
        self,
        files: FileList,
        *,
        record_bytes: int,
        header_bytes: int,
        footer_bytes: int,
        hop_bytes: int,
        drop_tail: bool,
        leaves: list[Any],
        template: Any,
        ops: list[Any],
        num_threads: int,
        help: bool,
        prefetch: int,
        max_leases: int = 4,
        on_hold_raise: bool = False,
        blocks: dict[str, Any] | None = None,
        step: Step | None = None,
        csv: CsvFormat | None = None,
        components: list[Any] | None = None,
        assemble: Callable[[list[Any], bool], Any] | None = None,
        pads: list[tuple[tuple[int, ...], bytes] | None] | None = None,
        skips: Quarantine | None = None,
        retries: int = 0,
        stall_warn: float = -1,
        stall_timeout: float = -1,
        feeder: Callable[[Feed], None] | None = None,
        scope: Scope | None = None,
        inner: bool = False,
        memory_budget: int = 0,
        device: Target | None = None,
    ) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def next_columns(self) -> tuple[int, list[Any]]: ...
    _warned: bool
    def _poll(self, seconds: float) -> bool: ...
    def _stop(self) -> None: ...
    def _check_scope(self) -> None: ...
    def close(self, timeout: float | None = 1.0) -> None: ...
    @property
    def closed(self) -> bool: ...
    def stats(self) -> dict[str, int]: ...
    def position(self) -> dict[str, Any]: ...
    def restore(
        self,
        elements: int,
        iterations: list[int],
        files_known: int,
        files_digest: int,
        seeds: list[tuple[int, int]],
        counters: list[ShuffleCounter | None],
        begun: list[int],
        start: list[int] | None = None,
        missing: list[list[int]] | None = None,
    ) -> None: ...
