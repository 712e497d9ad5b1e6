"""Devices, and arrays in their memory.

What moves batches there is native (`queuecore._core.device`): it finds the CUDA driver at run time and needs nothing of
CUDA to be built or imported. CuPy makes the arrays; it is imported when the first one is made, and not before.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from queuecore._core.device import device as open_device, lease_at
from queuecore._kernels import Compiled, Kernel, compile_for
from queuecore.data._structures import mapped
from queuecore.errors import DeviceUnavailableError, ForkedPipelineError, InvalidArgumentError, ResourceExhaustedError

if TYPE_CHECKING:
    from queuecore._core.device import Device, DeviceLease

__all__ = ["Arrays", "CuPyArrays", "chosen", "record_stream"]

_log = logging.getLogger("queuecore")
_told = False


class Arrays(Protocol):
    """Makes arrays of what lies in a device's memory. They have the CUDA array interface, or are tensors."""

    def stream(self) -> tuple[Any, int]:
        """Return the stream that the consumer's next work goes to, and its handle."""
        ...

    def memory(self, lease: DeviceLease) -> Any:
        """Return the memory of a batch, which keeps its lease. A lease may be one on what `allocate` returned."""
        ...

    def allocate(self, nbytes: int) -> Any:
        """Return memory of its own, for what follows in the consumer's stream, and to be used again behind that."""
        ...

    def address(self, memory: Any) -> int:
        """Return where memory begins."""
        ...

    def array(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an array that lies in memory and keeps it."""
        ...

    def compiled(self, kernel: Kernel) -> Compiled:
        """Return a kernel that can be launched."""
        ...


class CuPyArrays:
    """CuPy's arrays on one device; its current stream, of the calling thread, is the consumer's."""

    def __init__(self, device: Device) -> None:
        self._cupy = importlib.import_module("cupy")
        self._device = device

    def stream(self) -> tuple[Any, int]:
        """Return the current stream of the calling thread, and its handle."""
        stream = self._cupy.cuda.get_current_stream(self._device.ordinal)
        return stream, stream.ptr

    def memory(self, lease: DeviceLease) -> Any:
        """Return a pointer to the memory of a batch, which keeps its lease."""
        cuda = self._cupy.cuda
        return cuda.MemoryPointer(cuda.UnownedMemory(lease.address, lease.nbytes, lease, self._device.ordinal), 0)

    def allocate(self, nbytes: int) -> Any:
        """Return a pointer to memory out of CuPy's pool."""
        cuda = self._cupy.cuda
        try:
            with cuda.Device(self._device.ordinal):
                try:
                    return cuda.alloc(nbytes)
                except cuda.memory.OutOfMemoryError:
                    self._device.free_kept()
                    return cuda.alloc(nbytes)
        except cuda.memory.OutOfMemoryError as error:
            raise ResourceExhaustedError(
                f"no memory on cuda:{self._device.ordinal} for a copy of a batch, {nbytes} bytes, because more batches "
                "are held than there are buffers. Drop them, or use more buffers"
            ) from error

    def address(self, memory: Any) -> int:
        """Return where memory begins."""
        return int(memory.ptr)

    def array(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a `cupy.ndarray` that lies in memory and keeps it."""
        return self._cupy.ndarray(shape, dtype, memptr=memory + offset)

    def compiled(self, kernel: Kernel) -> Compiled:
        """Return a kernel that CuPy has compiled, and keeps."""
        return compile_for(kernel, self._device.ordinal)


def chosen(word: str) -> tuple[Device, Arrays] | None:
    """Return the device of a user's word, and what makes arrays there; `None` is the host.

    Parameters
    ----------
    word : {"auto", "cpu", "cuda", "cuda:N"}
        ``"auto"``: the first GPU, or the host if none can be used; why is logged, once. ``"cpu"`` looks for nothing.

    Raises
    ------
    DeviceUnavailableError
        If a GPU is asked for and there is no driver, no such device, or no CuPy: the message, or the cause, says which.
    InvalidArgumentError
        If it is another word.
    """
    global _told
    if word == "cpu":
        return None
    number = 0
    if isinstance(word, str) and word.startswith("cuda:") and word[5:].isascii() and word[5:].isdigit():
        number = int(word[5:])
    elif word not in ("auto", "cuda"):
        raise InvalidArgumentError(f'device must be "auto", "cpu", "cuda" or "cuda:0" and so on, not {word!r}')
    try:
        device = open_device(number)
        try:
            arrays = CuPyArrays(device)
        except ImportError as error:
            raise DeviceUnavailableError(
                f"{device!r} is there, and CuPy isn't, which makes the arrays: pip install cupy-cuda12x or cupy-cuda13x"
            ) from error
    except (DeviceUnavailableError, ForkedPipelineError) as error:
        if word != "auto":
            raise
        if not _told:
            _told = True
            _log.warning('device="auto": batches stay on the host, because %s', error)
        return None
    return device, arrays


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
        CuPy's arrays, views of them, or PyTorch's tensors of the same memory. What is on the host needs nothing.
    stream : stream or int, optional
        CuPy's, PyTorch's, anything with ``__cuda_stream__``, or the handle of one that lives until the batch is gone.
        `None`: the current one of this thread, for a tensor PyTorch's, for other arrays CuPy's.

    Raises
    ------
    InvalidArgumentError
        If an array of a device isn't in the memory of a batch (also of one that is gone in ``mode="ring"``); if it is
        no stream; if four others read the batch already. The same stream counts once.
    ForkedPipelineError
        In a child of the process that took the batch.

    Notes
    -----
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
