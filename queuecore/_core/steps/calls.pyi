from typing import Any, final

from queuecore._core.steps.stages import Step

MOST_ARGUMENTS: int

@final
class CallStep(Step):
    def __init__(
        self,
        label: str,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        address: int,
        result_bytes: int,
        counts: bool,
        owner: object,
    ) -> None: ...
