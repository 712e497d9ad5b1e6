"""The package torch, or the error that says how to get it."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["torch"]

try:
    # Not by a statement, so that type checkers need no PyTorch.
    torch: Any = importlib.import_module("torch")
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ImportError("queuecore.torch needs PyTorch, which isn't here: pip install torch", name="torch") from _error
