from typing import Any, final

from queuecore._core.steps.stages import Step

def library(kind: int) -> str | None: ...
def missing(kind: int) -> str: ...

@final
class PictureStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        label: str,
        kinds: int,
        channels: int,
        number: int,
        details: tuple[int, int, int, int, bool],
        max_pixels: int,
    ) -> None: ...
    def measure(self, data: bytes, index: int = ...) -> tuple[int, int, int]: ...
