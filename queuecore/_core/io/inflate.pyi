from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class InflateStep(Step):
    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], encoding: int, limit: int) -> None: ...
