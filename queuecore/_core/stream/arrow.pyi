from typing import Any

import numpy as np

def export(levels: list[tuple[bytes, int, tuple[np.ndarray[Any, Any], ...]]]) -> tuple[object, object]: ...
