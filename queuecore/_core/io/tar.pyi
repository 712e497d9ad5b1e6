from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class SampleStep(Step):
    def __init__(
        self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], keys: list[list[bytes]], has_key: bool
    ) -> None: ...
