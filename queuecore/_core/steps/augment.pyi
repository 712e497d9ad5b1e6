from typing import Any, final

from typing_extensions import disjoint_base

from queuecore._core.steps.stages import Step

OPERATIONS: tuple[str, ...]

@disjoint_base
class AugmentStep(Step):
    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], label: str, seed: int) -> None: ...

@final
class PolicyStep(AugmentStep):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        label: str,
        seed: int,
        operations: list[tuple[str, Any, bool, str]],
        count: int,
        magnitude: int,
        fill: bytes,
    ) -> None: ...

@final
class JitterStep(AugmentStep):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        label: str,
        seed: int,
        amounts: list[tuple[str, float, float]],
    ) -> None: ...

@final
class GreyStep(AugmentStep):
    def __init__(
        self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], label: str, seed: int, share: float
    ) -> None: ...

@final
class BlurStep(AugmentStep):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        label: str,
        seed: int,
        half: int,
        least: float,
        most: float,
    ) -> None: ...
