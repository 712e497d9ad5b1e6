"""Arrays on devices, and the library that makes them."""

from __future__ import annotations

import functools
import importlib
import logging
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from queuecore._core.device.driver import device as open_device
from queuecore._core.device.lease import lease_at
from queuecore._core.device.memory import free_kept
from queuecore._device.kernels import Compiled, Kernel, compile_for
from queuecore.errors import DeviceUnavailableError, ForkedPipelineError, InvalidArgumentError, ResourceExhaustedError

if TYPE_CHECKING:
    from queuecore._core.device.driver import Device
    from queuecore._core.device.lease import DeviceLease

__all__ = ["Arrays", "CuPyArrays", "chosen"]

# Streams as DLPack names them: the legacy default one, which it means if it names none; and -1 if nothing is to be
# ordered.
_LEGACY, _UNORDERED = 1, -1

_log = logging.getLogger("queuecore")
_told = False


class Arrays(Protocol):
    """Makes arrays of a device's memory. They have the CUDA array interface, or are tensors."""

    def stream(self) -> tuple[Any, int]:
        """Return the stream that the consumer's next work goes to, and its handle."""
        ...

    def memory(self, lease: DeviceLease) -> Any:
        """Return the memory of a batch, which keeps its lease. The lease may be on memory that `allocate` returned."""
        ...

    def allocate(self, nbytes: int) -> Any:
        """Return memory for work that follows in the consumer's stream; it is reused behind that work."""
        ...

    def address(self, memory: Any) -> int:
        """Return the address at which memory begins."""
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
                    free_kept(self._device)
                    return cuda.alloc(nbytes)
        except cuda.memory.OutOfMemoryError as error:
            raise ResourceExhaustedError(
                f"no memory on cuda:{self._device.ordinal} for a copy of a batch, {nbytes} bytes, because more batches "
                "are held than there are buffers. Drop them, or use more buffers"
            ) from error

    def address(self, memory: Any) -> int:
        """Return the address at which memory begins."""
        return int(memory.ptr)

    def array(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a `cupy.ndarray` that lies in memory and keeps it; a reader by DLPack is noted."""
        return _leased_array()(shape, dtype, memptr=memory + offset)

    def compiled(self, kernel: Kernel) -> Compiled:
        """Return a kernel that CuPy has compiled and keeps."""
        return compile_for(kernel, self._device.ordinal)


def _leased_dlpack(self: Any, stream: int | None = None, **rest: Any) -> Any:
    # CuPy makes that stream wait for its own; the next write to this memory has to wait for that stream.
    lease = lease_at(self.data.ptr) if self.nbytes and stream != _UNORDERED else None
    if lease is not None:
        handle = _LEGACY if stream is None else stream
        lease.record_stream(handle, handle)
    return importlib.import_module("cupy").ndarray.__dlpack__(self, stream=stream, **rest)


def _leased_class() -> Any:
    """Return the class of CuPy's arrays that lie in a batch: views of them are of it, too, results are CuPy's own."""
    doc = "A `cupy.ndarray` in the memory of a batch, which counts who takes it by DLPack among the batch's readers."
    members = {"__doc__": doc, "__module__": __name__, "__dlpack__": _leased_dlpack}
    return type("LeasedArray", (importlib.import_module("cupy").ndarray,), members)


_leased_array = functools.cache(_leased_class)


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
