from typing import Any, final

from queuecore._core.steps.stages import Step

@final
class CsvFormat:
    def __init__(
        self,
        columns: list[tuple[int, int, bytes | None]],
        selected: bool,
        delim: int,
        quotes: bool,
        na: bytes,
        max_record_bytes: int,
        level: int = -1,
        max_fields: int = 0,
    ) -> None: ...

@final
class CsvStep(Step):
    @property
    def format(self) -> CsvFormat: ...
    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], format: CsvFormat) -> None: ...

def placed_text(error: object) -> str: ...
