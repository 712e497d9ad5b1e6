"""PyTorch's and torchdata's loaders are ours, for their tests: the tensors are PyTorch's, which must be installed."""

from __future__ import annotations

import importlib.util
import sys
import types


def install() -> None:
    """Put `queuecore.torch.DataLoader` in the place of theirs; without PyTorch, do nothing."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch.utils.data

    from queuecore.torch import DataLoader

    torch.utils.data.DataLoader = DataLoader
    for name in ("torchdata", "torchdata.stateful_dataloader"):
        module = types.ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
    sys.modules["torchdata.stateful_dataloader"].StatefulDataLoader = DataLoader
    sys.modules["torchdata"].stateful_dataloader = sys.modules["torchdata.stateful_dataloader"]
