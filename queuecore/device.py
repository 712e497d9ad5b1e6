"""Devices, and arrays in their memory.

Native code (`queuecore._core.device`) moves batches there: it finds the CUDA driver at run time and needs nothing of
CUDA to be built or imported. CuPy makes the arrays; it is imported when the first one is made, and not before.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from queuecore._core.device.lease import lease_at
from queuecore._device.arrays import Arrays, CuPyArrays, chosen
from queuecore._elements.nests import mapped
from queuecore.errors import InvalidArgumentError

if TYPE_CHECKING:
    from queuecore._core.device.lease import DeviceLease

__all__ = ["Arrays", "CuPyArrays", "chosen", "record_stream"]


def record_stream(batch: Any, stream: Any = None) -> None:
    """Say that a stream reads a batch, beside the one that it was handed to.

    A batch's memory is used again once its last array is gone, behind what the stream had got until then that was
    current when ``next()`` returned it. Work on any other stream isn't waited for, unless that is named here: then it
    is, up to what it got before the last array went. Nothing else waits: neither the consumer's stream nor the copies
    into other batches' memory, only the one into this memory, and those behind it.

    Parameters
    ----------
    batch : array, or a dict, tuple or list of them, nested
        From an iterator of a `queuecore.data.DeviceDataset`, `queuecore.QueueBase.to_device` or a loader on a device:
        CuPy's arrays, views of them, or PyTorch's tensors of the same memory. Arrays on the host need nothing.
    stream : stream or int, optional
        CuPy's, PyTorch's, anything with ``__cuda_stream__``, or the handle of one that lives until the batch is gone.
        `None`: the current one of this thread, for a tensor PyTorch's, for other arrays CuPy's.

    Raises
    ------
    InvalidArgumentError
        If an array of a device isn't in the memory of a batch (also of one that is gone in ``mode="ring"``); if it is
        no stream, or the per-thread default one, which is another stream in each thread; if four others read the batch
        already. The same stream counts once.
    ForkedPipelineError
        In a child of the process that took the batch.

    Notes
    -----
    A stream that takes an array by DLPack (``torch.from_dlpack``, ``jax.dlpack.from_dlpack``,
    `queuecore.torch.tensors`) is named by that already. It is not by ``__cuda_array_interface__``, which names no
    consumer.

    It orders nothing by itself: let the stream wait for the one that the batch came in, before it reads. As
    ``torch.Tensor.record_stream``, which knows only memory of PyTorch's own, and does nothing for these. It never
    blocks.

    Examples
    --------
    >>> import queuecore as qc
    >>> from queuecore.device import record_stream
    >>> for batch in qc.data.Dataset.range(4).batch(2).prefetch_to_device("cpu"):
    ...     record_stream(batch)  # on the host there is nothing to do
    """

    def mark(value: Any) -> None:
        if isinstance(value, list):  # of a queue
            mapped(mark, tuple(value))
        elif address := _address(value):
            lease = lease_at(address)
            if lease is None:
                raise InvalidArgumentError(
                    f"the {type(value).__name__} at {address:#x} isn't in the memory of a batch that is still held"
                )
            lease.record_stream(*(_current(value, lease) if stream is None else (stream, _handle(stream))))

    mapped(mark, batch)


def _address(value: Any) -> int:
    """Return where an array begins in a device's memory; 0: it isn't there, or has no items."""
    if isinstance(value, np.ndarray | np.generic):
        return 0
    if hasattr(value, "data_ptr"):  # a tensor: with a gradient, it has no interface
        return int(value.data_ptr()) if value.is_cuda else 0
    interface = getattr(value, "__cuda_array_interface__", None)
    return 0 if interface is None else int(interface["data"][0])


def _current(value: Any, lease: DeviceLease) -> tuple[Any, int]:
    if hasattr(value, "data_ptr"):
        stream = sys.modules["torch"].cuda.current_stream(value.device)
        return stream, stream.cuda_stream
    made: tuple[Any, int] = lease.arrays.stream()
    return made


def _handle(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    speaks: Any = getattr(stream, "__cuda_stream__", None)
    if speaks is not None:
        return int(speaks()[1])
    for name in ("ptr", "cuda_stream"):  # CuPy's, and PyTorch's
        if isinstance(handle := getattr(stream, name, None), int):
            return handle
    raise InvalidArgumentError(f"stream must be a stream of CuPy's or PyTorch's, or its handle, not {stream!r}")
