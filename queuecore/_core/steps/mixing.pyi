from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class ErasingStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        number: int,
        planar: bool,
        fill: bytes | None,
        share: float,
        bounds: tuple[float, float, float, float],
        seed: int,
    ) -> None: ...

@final
class MixStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        label: str,
        number: int,
        kinds: tuple[bool, bool, bool],
        classes: int,
        alpha: float,
        seed: int,
    ) -> None: ...
