from typing import Any, final

from queuecore._core.steps.images import PictureStep
from queuecore._core.steps.stages import Step

@final
class PicturesStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        source: PictureStep | int,
        labels: dict[str, str],
        crops: tuple[tuple[Any, ...] | None, ...],
        size: tuple[int, bool, bool, int, int, int] | None,
        flips: tuple[int | tuple[int, float] | None, ...],
        normal: tuple[Any, Any, bool, int] | None,
    ) -> None: ...
