from typing import Any, final

import numpy as np

from queuecore._core.steps.stages import Step

@final
class Fold:
    def __init__(self, step: Step, state: list[np.ndarray], columns: list[Any]) -> None: ...
    @property
    def state(self) -> list[np.ndarray]: ...
    def run(self, columns: list[Any], first: int, n: int) -> None: ...
