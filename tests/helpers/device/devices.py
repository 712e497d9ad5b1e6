"""Arrays of a device that there isn't: where they lie in the fake driver's memory, and what consumers must read."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from helpers.device.fake_cuda import DISABLE_TIMING, LEGACY, NON_BLOCKING, Fake, check, compiled as build_shared
from helpers.process import PATIENCE, collect, pipeline_threads, soon

from queuecore._core.atoms.process import thread_count
from queuecore._core.device import driver, memory
from queuecore._device.dequeued import Dequeued
from queuecore._device.kernels import Compiled, Kernel
from queuecore._device.target import Asked, Target
from queuecore.data.device import DeviceDataset


@contextlib.contextmanager
def entered(fake: Fake) -> Iterator[None]:
    """Make the first device's context current in this thread."""
    context, before = ctypes.c_void_p(), ctypes.c_void_p()
    check(fake.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(fake.driver.cuCtxGetCurrent(ctypes.byref(before)))
    check(fake.driver.cuCtxSetCurrent(context))
    try:
        yield
    finally:
        check(fake.driver.cuCtxSetCurrent(before))
        check(fake.driver.cuDevicePrimaryCtxRelease_v2(0))


class FakeArray:
    """An array in a device's memory, or a part of one."""

    def __init__(self, arrays: FakeArrays, memory: Any, offset: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.arrays, self.memory, self.offset = arrays, memory, offset
        self.shape, self.dtype = tuple(int(side) for side in shape), np.dtype(dtype)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __getitem__(self, index: int) -> FakeArray:
        part = FakeArray(self.arrays, self.memory, 0, self.shape[1:], self.dtype)
        part.offset = self.offset + index * part.nbytes
        return part

    def consume(self, expected: np.ndarray[Any, Any], delay: int = -1, stream: int = 0) -> None:
        """Let a kernel on a stream, the consumer's, read it; the fake counts it if that reads anything else."""
        assert self.shape == expected.shape
        assert self.dtype == expected.dtype
        fake = self.arrays.fake
        if self.nbytes:
            data = np.ascontiguousarray(expected)
            fake.consume(stream or self.arrays.current or LEGACY, self.address, self.nbytes, fake.hash(data), delay)

    @property
    def address(self) -> int:
        return self.arrays.address(self.memory) + self.offset

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address if self.nbytes else 0, False), "shape": self.shape, "version": 3}

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return what is there once all that streams have to do is done."""
        self.arrays.fake.drain()
        return np.frombuffer(self.arrays.fake.read(self.address, self.nbytes), self.dtype).reshape(self.shape)


class FakeArrays:
    """As `queuecore.device.CuPyArrays`. `current`: the handle of the consumer's stream; 0: the legacy default one."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.folder = fake.path.parent
        self.kernels: list[Kernel] = []
        self.current = 0
        self.allocated: list[int] = []

    def stream(self) -> tuple[Any, int]:
        return None, self.current

    def memory(self, lease: Any) -> Any:
        return lease.address, lease

    def allocate(self, nbytes: int) -> Any:
        address = ctypes.c_uint64()
        with entered(self.fake):
            check(self.fake.driver.cuMemAlloc_v2(ctypes.byref(address), max(nbytes, 1)))
        self.allocated.append(address.value)
        return address.value, None

    def address(self, memory: Any) -> int:
        return memory[0]

    def compiled(self, kernel: Kernel) -> Compiled:
        """Return a kernel of the host, as the fake launches it."""
        text = f"""
            {kernel.source}
            #define EXPORTED extern "C" __attribute__((visibility("default")))
            EXPORTED void* (*volatile translate)(unsigned long long) = nullptr;
            EXPORTED void launched(void** given) {{
                auto at = [&](int i) {{ return (unsigned char*)translate(*(unsigned long long*)given[i]); }};
                {kernel.entry}(at(0), at(1), *(long long*)given[2]);
            }}"""
        source = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
        part = source.with_suffix(f".{os.getpid()}")
        part.write_text(text)
        part.rename(source)  # others may do the same
        library = ctypes.CDLL(
            str(build_shared(self.folder, [source], "-w", "-fvisibility=default", "-ffp-contract=off", shared=True))
        )
        here = ctypes.cast(self.fake.driver.fake_translate, ctypes.c_void_p)
        ctypes.c_void_p.in_dll(library, "translate").value = here.value
        self.kernels.append(kernel)
        return Compiled(library, self.fake.kernel(library.launched, 8, 8, 8))

    def array(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: Any) -> FakeArray:
        return FakeArray(self, memory, offset, shape, dtype)


class Plane:
    """The device plane on the fake driver."""

    def __init__(self, fake: Fake, ordinal: int = 0) -> None:
        self.fake = fake
        self.device = driver.device(ordinal)
        self.arrays = FakeArrays(fake)
        self.streams: list[int] = []
        self.leaks: int | None = 0  # pieces of memory that must be lost in the end; None: any

    def of(self, dataset: Any, buffers: int = 3, ring: bool = False, prefer: bool = False) -> DeviceDataset:
        """As `Dataset.prefetch_to_device`."""
        mode, pinned = "ring" if ring else "lease", "prefer" if prefer else "require"
        asked = Asked(f"cuda:{self.device.ordinal}", buffers, mode, pinned)
        return DeviceDataset(dataset._chain, Target(self.device, self.arrays, buffers, ring, prefer), asked)

    def dequeued(self, queue: Any, buffers: int = 3) -> Dequeued:
        """As `QueueBase.to_device`."""
        return Dequeued(queue, Target(self.device, self.arrays, buffers, False, False))

    def aside(self) -> int:
        """Return a new stream, which is not the consumer's."""
        consumers = self.arrays.current
        made = self.stream()
        self.arrays.current = consumers
        return made

    def order(self, first: int, second: int) -> None:
        """Let a stream wait for what another one has got until now."""
        event, driver = ctypes.c_void_p(), self.fake.driver
        with entered(self.fake):
            check(driver.cuEventCreate(ctypes.byref(event), DISABLE_TIMING))
            check(driver.cuEventRecord(event, first or LEGACY))
            check(driver.cuStreamWaitEvent(second or LEGACY, event, 0))
            check(driver.cuEventDestroy_v2(event))

    def stream(self) -> int:
        """Return a new stream, which the consumer uses from now on."""
        made = ctypes.c_void_p()
        with entered(self.fake):
            check(self.fake.driver.cuStreamCreateWithPriority(ctypes.byref(made), NON_BLOCKING, 0))
        self.arrays.current = made.value or 0
        self.streams.append(self.arrays.current)
        return self.arrays.current

    def close(self) -> None:
        """Give back what was made here."""
        with entered(self.fake):
            for stream in self.streams:
                check(self.fake.driver.cuStreamDestroy_v2(stream))
            for address in self.arrays.allocated:
                check(self.fake.driver.cuMemFree_v2(address))


def nobody_works() -> bool:
    """Whether all threads of iterators have ended."""
    gc.collect()
    return thread_count() == 0 and not pipeline_threads()


def plane(path: Path) -> Iterator[Plane]:
    """Yield the plane, and see to it that nothing is left of it: for a fixture."""
    fake = Fake(path)
    memory.close_driver()
    fake.reset()
    driver.open_driver(str(path))
    check(fake.driver.cuCtxSetCurrent(None))  # a test may have left this thread in a context that is gone
    cuda = Plane(fake)
    try:
        yield cuda
        assert soon(nobody_works, within=PATIENCE)
        collect()
        fake.drain()
        cuda.close()
        memory.close_driver()
        faults, story = fake.faults(), fake.story()
        if cuda.leaks is None or faults.get("leaked") == cuda.leaks:
            faults.pop("leaked", None)
        assert not faults, f"{faults}\n{story}"
        assert not fake.alive()
    finally:
        memory.close_driver()
        fake.reset()
