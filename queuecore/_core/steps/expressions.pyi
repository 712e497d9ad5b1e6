from typing import Any, final

from queuecore._core.steps.stages import Step

MOST_REGISTERS: int
MOST_STEPS: int

@final
class ExprStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        output: Any,
        leaves: list[tuple[Any, ...]],
        items: list[int],
        places: list[int],
        program: list[tuple[Any, ...]],
        dims: list[tuple[int, int, int]],
    ) -> None: ...

@final
class GraphStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        constants: list[tuple[bytes, tuple[int, ...] | None]],
        nodes: list[tuple[Step, list[int], list[int]]],
        results: list[int],
    ) -> None: ...
