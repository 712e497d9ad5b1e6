from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class CropStep(Step):
    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], size: tuple[int, ...], seed: int) -> None: ...

@final
class Amount:
    def __init__(self, low: float, high: float, seed: int | None) -> None: ...

@final
class AdjustStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        label: str,
        kind: int,
        number: int,
        bounds: tuple[float, float] | None,
        amount: Amount,
    ) -> None: ...

@final
class BoxStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        number: int,
        size: tuple[int, int],
        nearest: bool,
        outside: float,
    ) -> None: ...
