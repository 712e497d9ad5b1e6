"""PyTorch's and torchdata's loaders are ours, for their tests: the tensors are PyTorch's, which must be installed."""

from __future__ import annotations

import importlib
import importlib.util


def install() -> None:
    """Put `queuecore.torch.DataLoader` in the place of theirs; without PyTorch, do nothing."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch.utils.data

    from queuecore.torch import DataLoader

    torch.utils.data.DataLoader = DataLoader
    if importlib.util.find_spec("torchdata") is not None:
        # Its samplers, and the protocol of what has a state, stay its own.
        importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader = DataLoader
