from collections.abc import Sequence
from typing import Any, final

from queuecore._core.stages import Step
from queuecore.ragged import Ragged

@final
class ExampleStep(Step):
    def __init__(self, label: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...], columns: list[Any]) -> None: ...
    def parse(self, records: bytes | Sequence[bytes] | Ragged, names: Any = None) -> list[Any]: ...
