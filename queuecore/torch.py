"""PyTorch: elements as tensors, without a copy; datasets for its loaders; and a `DataLoader` that works with threads.

It needs the package ``torch``, and nothing else in queuecore imports it.

Examples
--------
>>> import numpy as np, queuecore as qc
>>> from queuecore.torch import DataLoader
>>> ds = qc.data.Dataset.from_tensor_slices({"x": np.arange(6, dtype=np.float32).reshape(3, 2), "y": [1, 0, 1]})
>>> for batch in DataLoader(ds, batch_size=2):
...     print(batch["x"].shape, batch["y"].tolist())
torch.Size([2, 2]) [1, 0]
torch.Size([1, 2]) [1]
"""

from __future__ import annotations

from queuecore._checks.pickles import Outdated
from queuecore._torch.datasets import IterableDataset
from queuecore._torch.epochs import Mapped, Streamed, StreamedBeside
from queuecore._torch.loader import DataLoader
from queuecore._torch.tensors import RaggedTensors, tensors

__all__ = ["DataLoader", "IterableDataset", "RaggedTensors", "tensors"]

# Pickles and messages name these objects by this module.
for _one in (DataLoader, IterableDataset, RaggedTensors, tensors):
    _one.__module__ = __name__

# Pickles of loaders made when this module defined these classes use these names.
_Mapped, _Streamed, _StreamedBeside = Mapped, Streamed, StreamedBeside
_opened = _Elements = _DeviceElements = Outdated  # in pickles of loaders over queuecore datasets
