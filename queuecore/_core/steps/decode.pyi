from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class RawStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        item_bytes: int,
        swap: int,
        fixed_bytes: int,
        leaves: list[Any],
    ) -> None: ...
