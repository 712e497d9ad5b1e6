from typing import Any

import numpy as np
from typing_extensions import disjoint_base

from queuecore.ragged import Ragged

@disjoint_base
class Step:
    @property
    def inputs(self) -> tuple[Any, ...]: ...
    @property
    def outputs(self) -> tuple[Any, ...]: ...
    def explain(self, what: int, a: int, b: int) -> Exception: ...
    def __call__(self, *values: bytes | np.ndarray | Ragged) -> list[Any]: ...
