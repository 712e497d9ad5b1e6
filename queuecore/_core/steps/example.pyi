from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class ExampleStep(Step):
    def __init__(self, label: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...], columns: list[Any]) -> None: ...
    def parse(self, records: Any, names: Any = None) -> list[Any]: ...
