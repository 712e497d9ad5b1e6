from typing import Any, final

from queuecore._core.steps.stages import Step

COMPARISONS: tuple[str, ...]

@final
class SplitStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        separator: bytes,
        maxsplit: int,
        index: int | None,
    ) -> None: ...

@final
class JoinStep(Step):
    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], separator: bytes, reduced: bool) -> None: ...

@final
class CompareStep(Step):
    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], how: str) -> None: ...

@final
class TableStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        keys: list[bytes],
        values: Any,
        has_default: bool,
    ) -> None: ...
