from typing import Any, final

from queuecore._core.steps.stages import Step

MAX_LINKS: int
PAD_MODES: tuple[str, ...]

@final
class ChainStep(Step):
    def __init__(
        self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], links: list[Any], portable: bool = False
    ) -> None: ...

@final
class PadStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        counts_before: tuple[int, ...],
        counts_after: tuple[int, ...],
        fill: bytes,
        mode: str = "constant",
    ) -> None: ...

@final
class SliceStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        begin: tuple[int, ...],
        size: tuple[int, ...],
    ) -> None: ...

@final
class OneHotStep(Step):
    def __init__(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        number: int,
        depth: int,
        on: bytes,
        off: bytes,
    ) -> None: ...
