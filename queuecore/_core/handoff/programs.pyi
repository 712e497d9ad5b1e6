from collections.abc import Callable
from typing import final

from queuecore._core.atoms.runtime import StopEvent
from queuecore._core.atoms.times import WorkTimes
from queuecore._core.handoff.queues import NativeQueue
from queuecore._core.io.readers import NativeReader
from queuecore._core.steps.stages import Step

@final
class NativeProgram:
    def __init__(self, reader: NativeReader, steps: list[Step]) -> None: ...
    def run(
        self,
        queue: NativeQueue,
        stop: StopEvent,
        names: NativeQueue | None,
        next_name: Callable[[], bytes] | None,
        local: Callable[[bytes], bytes],
        order: list[int],
        indexes: list[int],
        skip: Callable[..., None] | None = None,
    ) -> None: ...
    @property
    def records(self) -> int: ...
    @property
    def times(self) -> WorkTimes: ...
