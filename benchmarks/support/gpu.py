"""A GPU as the benchmarks use it: all that they ask of CuPy is in the class `Gpu`."""

from __future__ import annotations

import importlib
import mmap
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

_WORD = 2**64
_PORTABLE = 1  # of cudaHostRegister: CuPy has no name for it
_SMI = (
    "name,driver_version,pstate,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,"
    "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,power.limit,temperature.gpu"
)

# A step: it reads a batch, each word times a weight of its own, and then does as much arithmetic as it is told, the
# same each time. (`x` is never below 0; but whoever compiles this can't leave the loop out.)
STEP = """
extern "C" __global__ void step(
    const uint4* batch, unsigned long long items, unsigned long long turns, unsigned long long* total) {
  __shared__ unsigned long long of_the_block;
  if (threadIdx.x == 0) of_the_block = 0;
  __syncthreads();
  unsigned long long sum = 0, threads = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < items; i += threads) {
    uint4 words = batch[i];
    unsigned long long first = 8 * i;
    sum += words.x * (first + 1) + words.y * (first + 3) + words.z * (first + 5) + words.w * (first + 7);
  }
  float x = threadIdx.x;
  for (unsigned long long turn = 0; turn < turns; ++turn) x = fmaf(x, 0.5f, 1.0f);
  if (x == -1.0f - (float)turns) sum += 1;
  atomicAdd(&of_the_block, sum);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(total, of_the_block);
}
"""
_THREADS, _BLOCKS_EACH = 256, 2  # of a block, and blocks of a multiprocessor


def checksum(batch: np.ndarray[Any, Any]) -> int:
    """Return the sum of a batch's words, the i-th times 2i + 1, modulo 2^64: what one step adds to the total.

    The weights are odd, so no change of one word goes unseen; and they differ, so few exchanges do.
    """
    words = batch.reshape(-1).view(np.uint32)
    weights = np.arange(1, 2 * len(words), 2, dtype=np.uint64)
    return int((words * weights).sum(dtype=np.uint64))


class NoGpuError(Exception):
    """There is none that can be used; the message says why."""


class Gpu:
    """One GPU and a stream on it, which is CuPy's current one from then on.

    Parameters
    ----------
    ordinal : int

    Raises
    ------
    NoGpuError
        If there is no CuPy, no driver, or no such device.
    """

    def __init__(self, ordinal: int = 0) -> None:
        try:
            cupy = importlib.import_module("cupy")
        except ImportError as error:
            raise NoGpuError(f"CuPy can't be imported: {error}") from error
        runtime = cupy.cuda.runtime
        if runtime.driverGetVersion() == 0:
            raise NoGpuError("there is no CUDA driver")
        try:
            count = runtime.getDeviceCount()
            if count <= ordinal:
                raise NoGpuError(f"the driver shows {count} devices")
            cupy.cuda.Device(ordinal).use()
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.stream.use()
            properties = runtime.getDeviceProperties(ordinal)
            self._kernel = cupy.RawKernel(STEP, "step")
            self._total = cupy.cuda.alloc(8)
        except runtime.CUDARuntimeError as error:
            raise NoGpuError(" ".join(str(error).split())) from error
        self._cupy, self._runtime, self.ordinal = cupy, runtime, ordinal
        self._blocks = _BLOCKS_EACH * properties["multiProcessorCount"]
        self._name = properties["name"].decode()
        self._bus = runtime.deviceGetPCIBusId(ordinal)
        self.total()

    def about(self) -> dict[str, Any]:
        """Describe it, as far as a figure depends on it."""
        runtime = self._runtime
        node = Path(f"/sys/bus/pci/devices/{self._bus.lower()}/numa_node")
        return {
            "name": self._name,
            "cuda_of_the_driver": runtime.driverGetVersion(),
            "cuda_of_cupy": runtime.runtimeGetVersion(),
            "cupy": self._cupy.__version__,
            "pci_bus": self._bus,
            "numa_node": node.read_text().strip() if node.exists() else "not shown by the system",
        }

    def now(self) -> dict[str, str]:
        """Return what ``nvidia-smi`` says at this moment: driver, link, clocks, power."""
        command = ["nvidia-smi", f"--id={self._bus}", f"--query-gpu={_SMI}", "--format=csv,noheader"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        except (OSError, subprocess.SubprocessError) as error:
            return {"nvidia-smi": f"not to be had: {error}"}
        return dict(zip(_SMI.split(","), done.stdout.strip().split(", "), strict=False))

    def event(self) -> Any:
        """Return an event, which the stream has recorded by now."""
        event = self._cupy.cuda.Event()
        event.record(self.stream)
        return event

    def record(self, event: Any) -> None:
        """Record an event on the stream."""
        event.record(self.stream)

    def milliseconds(self, before: Any, after: Any) -> float:
        """Return the time between two events that are complete."""
        return float(self._cupy.cuda.get_elapsed_time(before, after))

    def synchronize(self) -> None:
        """Wait until the stream has done all."""
        self.stream.synchronize()

    def allocate(self, nbytes: int) -> Any:
        """Return memory on the device; its attribute `ptr` is the address."""
        return self._cupy.cuda.alloc(nbytes)

    def free(self) -> None:
        """Give back what CuPy keeps of memory that nobody uses."""
        self._cupy.get_default_memory_pool().free_all_blocks()

    def copy(self, there: int, here: int, nbytes: int) -> None:
        """Copy from the host to the device, in the stream."""
        self._runtime.memcpyAsync(there, here, nbytes, self._runtime.memcpyHostToDevice, self.stream.ptr)

    def lock(self, address: int, nbytes: int) -> None:
        """Lock the pages of the host's memory."""
        self._runtime.hostRegister(address, nbytes, _PORTABLE)

    def unlock(self, address: int) -> None:
        """Unlock them."""
        self._runtime.hostUnregister(address)

    def step(self, address: int, nbytes: int, turns: int) -> None:
        """Read a batch and do so many turns of arithmetic, in the stream."""
        self._kernel((self._blocks,), (_THREADS,), (address, nbytes // 16, turns, self._total.ptr))

    def total(self) -> int:
        """Return the sum of the checksums of all steps since the last call, and wait for them."""
        checksum = np.zeros(1, np.uint64)
        self._runtime.memcpyAsync(
            checksum.ctypes.data, self._total.ptr, 8, self._runtime.memcpyDeviceToHost, self.stream.ptr
        )
        self.synchronize()
        self._runtime.memsetAsync(self._total.ptr, 0, 8, self.stream.ptr)
        return int(checksum[0])

    @staticmethod
    def address(array: Any) -> int:
        """Return where a CuPy array lies."""
        return int(array.data.ptr)


class Arena:
    """Memory of the host that begins at a multiple of 2 MiB, in huge pages if the system has them, full of `data`.

    Attributes
    ----------
    address, nbytes : int
    """

    def __init__(self, nbytes: int, data: np.ndarray[Any, Any]) -> None:
        huge = 2**21
        self._map = mmap.mmap(-1, nbytes + huge)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(self._map, np.uint8)
        first = -whole.ctypes.data % huge
        self.bytes = whole[first : first + nbytes]
        self.address, self.nbytes = self.bytes.ctypes.data, nbytes
        flat = data.reshape(-1).view(np.uint8)
        for at in range(0, nbytes, len(flat)):
            part = self.bytes[at : at + len(flat)]
            part[:] = flat[: len(part)]


def total_of(sums: list[int], first: int, count: int) -> int:
    """Return what `Gpu.total` must be after `count` batches of these checksums, in turns, from the `first` on."""
    rounds, rest = divmod(count, len(sums))
    begin = first % len(sums)
    twice = sums + sums
    return (rounds * sum(sums) + sum(twice[begin : begin + rest])) % _WORD
