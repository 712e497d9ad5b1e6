from collections.abc import Callable
from typing import Any, final

from typing_extensions import disjoint_base

@disjoint_base
class Step:
    @property
    def inputs(self) -> tuple[Any, ...]: ...
    @property
    def outputs(self) -> tuple[Any, ...]: ...
    @property
    def many(self) -> bool: ...
    label: str | None
    def parts(self) -> list[tuple[int, str]]: ...
    def __call__(self, *values: Any, epoch: int = 0, element: int = 0) -> list[Any]: ...

@final
class PythonStep(Step):
    @property
    def call(self) -> Callable[[list[Any], int, int], Any]: ...
    @property
    def why(self) -> str: ...
    def __init__(
        self,
        inputs: tuple[Any, ...] | None,
        outputs: tuple[Any, ...] | None,
        call: Callable[[list[Any], int, int], Any],
        why: str,
    ) -> None: ...
    def __call__(self, *values: Any, epoch: int = 0, element: int = 0) -> Any: ...

def joined(steps: list[Step]) -> Step: ...

@final
class RowLoop: ...

@final
class SequenceStep(Step):
    @property
    def steps(self) -> list[Step]: ...
    def __init__(self, steps: list[Step]) -> None: ...

@final
class PartStep(Step):
    def __init__(self, inputs: tuple[Any, ...], index: int, step: Step, outputs: tuple[Any, ...]) -> None: ...

@final
class KeepStep(Step):
    def __init__(self, inputs: tuple[Any, ...], step: Step) -> None: ...
