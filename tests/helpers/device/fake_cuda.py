"""A CUDA driver without a device, for tests: how it is built, steered and read.

The driver is `tests/native/fake_cuda/fake_cuda.cpp`, whose head says what it does, what can be set and what is counted.

    path = build(folder)                    # libfake_cuda.so; skips the test when there is no C++ compiler
    build(folder, *sanitized(folder, "thread"))   # one more, of another name; skips where there is no such sanitizer
    build(folder, "-DNO_BATCH")             # a driver before 13.0
    fake = Fake(path)                       # all Fakes of one path in one process are the same driver

Fixtures (tests/conftest.py): `fake_cuda_library` is the path of a plain build, one a session; `fake_cuda` is a Fake of
it that is reset before and after the test. queuecore takes the path from QUEUECORE_LIBCUDA. Host memory must outlive
the copies from it, as with a device: what is freed too early is a SIGSEGV in a thread called fake-cuda.

    fake.set(devices=2, total_memory=1 << 20)          # what is left out stays
    fake.schedule("slow_copy", seed=3)                 # or one of SCHEDULES
    fake.fail("cuMemcpyHtoDAsync_v2", 5, 719, LATER)   # the fifth call from now; ONCE, ALWAYS, LATER
    fake.count("source_changed"), fake.faults()        # {} if nothing went wrong; else name: how often
    fake.alive()                                       # contexts, streams, events, ...: how many there are
    fake.happened()                                    # copies, overlaps, ...
    fake.story()                                       # the first faults in words
    fake.consume(stream, address, n, hash)             # a consumer's kernel, put on a stream
    fake.hash(array), fake.read(address, n)            # of host memory; the bytes at a device address
    fake.registered()                                  # where memory of the host begins that is page-locked
    fake.hold(stream); fake.go_on(stream)              # nothing on it goes on in between
    fake.drain()                                       # waits until all streams have nothing to do
    fake.settle()                                      # waits until none can go on by itself
    fake.clear()                                       # counts and settings; fake.reset(): all, contexts too

`fake.driver` has the driver's functions, for consumers that tests play themselves; `check` raises what they give:

    check(fake.driver.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0))

Calls from Python leave the GIL.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_long, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "native" / "fake_cuda"
# Each under which another mistake shows; a test that is passed under one proves little.
SCHEDULES = ("equal", "slow_copy", "slow_consumer", "jitter")
ONCE, ALWAYS, LATER = range(3)
NON_BLOCKING, DISABLE_TIMING, PORTABLE = 1, 2, 1
LEGACY, PER_THREAD = 1, 2
# As the delay of a consumer.
SCHEDULED, UNTIL_GO_ON = -1, -2

INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 1, 2, 3
STUB_LIBRARY, NO_DEVICE, INVALID_DEVICE = 34, 100, 101
INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, ILLEGAL_ADDRESS = 201, 400, 600, 700
CONTEXT_IS_DESTROYED, ALREADY_REGISTERED, NOT_REGISTERED, LAUNCH_FAILED = 709, 712, 713, 719

_DEVICE = c_uint64  # a device address
FUNCTIONS: dict[str, list[type]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetPCIBusId": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuDevicePrimaryCtxRelease_v2": [c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxGetCurrent": [POINTER(c_void_p)],
    "cuStreamCreateWithPriority": [POINTER(c_void_p), c_uint, c_int],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventDestroy_v2": [c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventQuery": [c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuMemHostRegister_v2": [c_void_p, c_size_t, c_uint],
    "cuMemHostUnregister": [c_void_p],
    "cuMemAlloc_v2": [POINTER(_DEVICE), c_size_t],
    "cuMemFree_v2": [_DEVICE],
    "cuMemcpyHtoDAsync_v2": [_DEVICE, c_void_p, c_size_t, c_void_p],
    "cuMemcpyDtoDAsync_v2": [_DEVICE, _DEVICE, c_size_t, c_void_p],
    "cuMemcpyBatchAsync_v2": [*[c_void_p] * 3, c_size_t, *[c_void_p] * 2, c_size_t, c_void_p],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p],
    "cuPointerGetAttribute": [c_void_p, c_int, _DEVICE],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
}
_CONTROLS: dict[str, tuple[type | None, list[type]]] = {
    "fake_set": (c_int, [c_char_p, c_long]),
    "fake_get": (c_long, [c_char_p]),
    "fake_schedule": (c_int, [c_char_p, c_long]),
    "fake_attribute": (c_int, [c_int, c_int]),
    "fake_fail": (c_int, [c_char_p, c_long, c_int, c_int]),
    "fake_hold": (c_int, [c_void_p]),
    "fake_go_on": (c_int, [c_void_p]),
    "fake_drain": (c_int, [c_long]),
    "fake_settle": (c_int, [c_long]),
    "fake_clear": (None, []),
    "fake_reset": (None, []),
    "fake_consume": (c_int, [c_void_p, _DEVICE, c_size_t, c_uint64, c_long]),
    "fake_hash": (c_uint64, [c_void_p, c_size_t]),
    "fake_registered": (c_uint64, [c_long]),
    "fake_translate": (c_void_p, [_DEVICE]),
    "fake_kernel": (c_void_p, [c_void_p, c_size_t, POINTER(c_size_t)]),
    "fake_dims": (POINTER(c_uint), []),
    "fake_count": (c_long, [c_char_p]),
    "fake_counter": (c_char_p, [c_int, POINTER(c_int)]),
    "fake_story": (c_long, [c_char_p, c_long]),
}
FAULTS, HAPPENED, ALIVE = 1, 2, 3


class CudaError(Exception):
    """A driver function gave something else than 0."""

    def __init__(self, number: int) -> None:
        super().__init__(f"CUDA error {number}")
        self.number = number


def check(number: int) -> None:
    """Raise what a driver function gave, if not 0."""
    if number != 0:
        raise CudaError(number)


def compiler() -> list[str]:
    """Return the command of the C++ compiler, or skip."""
    command = shlex.split(os.environ.get("CXX", "g++"))
    if not command or shutil.which(command[0]) is None:
        pytest.skip("no C++ compiler")
    return command


def compiled(folder: Path, sources: list[Path | str], *flags: str, shared: bool = False) -> Path:
    """Compile C++ into a folder, once: the name is that of the first source and a hash of all there is.

    Several processes may do so at the same time.
    """
    command = [*compiler(), "-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    if shared:
        command += ["-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete"]
    texts = [Path(source).read_bytes() for source in sources]
    name = hashlib.sha256(b"\0".join([*map(str.encode, command), *texts])).hexdigest()[:16]
    stem = Path(sources[0]).stem
    binary = folder / (f"lib{stem}-{name}.so" if shared else f"{stem}-{name}")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{binary.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            part = binary.with_suffix(".part")
            rest = [str(source) for source in sources]
            done = subprocess.run([*command, "-o", str(part), *rest], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            part.rename(binary)
    return binary


def build(folder: Path, *flags: str) -> Path:
    """Build the driver into a folder and return its path. Skips when there is no compiler."""
    return compiled(folder, [SOURCES / "fake_cuda.cpp"], *flags, shared=True)


def sanitized(folder: Path, kind: str) -> tuple[str, ...]:
    """Return the flags of a sanitizer, or skip where programs can't be made with it."""
    probe = folder / "empty.cpp"
    folder.mkdir(parents=True, exist_ok=True)
    probe.write_text("int main() {}\n")
    flag = f"-fsanitize={kind}"
    if subprocess.run([*compiler(), flag, "-o", folder / "empty", probe], capture_output=True, timeout=60).returncode:
        pytest.skip(f"this compiler has no {kind} sanitizer")
    return (flag,)


class Fake:
    """The driver at a path, as loaded into this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.driver = ctypes.CDLL(str(path))
        for name, arguments in FUNCTIONS.items():
            with contextlib.suppress(AttributeError):  # an old driver has not all of them
                getattr(self.driver, name).argtypes = arguments
        for name, (result, arguments) in _CONTROLS.items():
            function = getattr(self.driver, name)
            function.restype, function.argtypes = result, arguments

    def set(self, **values: int) -> None:
        """Set by name what the head of fake_cuda.cpp lists."""
        for name, value in values.items():
            if self.driver.fake_set(name.encode(), value) != 0:
                raise KeyError(name)

    def get(self, name: str) -> int:
        return self.driver.fake_get(name.encode())

    def schedule(self, name: str, seed: int = 1) -> None:
        """Set all delays by a name: one of SCHEDULES, or "none"."""
        if self.driver.fake_schedule(name.encode(), seed) != 0:
            raise KeyError(name)

    def attribute(self, number: int, value: int) -> None:
        """Say what cuDeviceGetAttribute gives."""
        self.driver.fake_attribute(number, value)

    def fail(self, function: str, nth: int, error: int, how: int = ONCE) -> None:
        """Let the nth call from now on of a function ("*": any) go wrong: ONCE, ALWAYS from then on, or LATER."""
        if self.driver.fake_fail(function.encode(), nth, error, how) != 0:
            raise KeyError(function)

    def count(self, name: str) -> int:
        value = self.driver.fake_count(name.encode())
        if value < 0:
            raise KeyError(name)
        return value

    def faults(self) -> dict[str, int]:
        """Return what went wrong, and how often."""
        return {name: n for name in self.names(FAULTS) if (n := self.count(name))}

    def happened(self) -> dict[str, int]:
        return {name: self.count(name) for name in self.names(HAPPENED)}

    def alive(self) -> dict[str, int]:
        """Return how many contexts, streams and so on there are; what there is none of is left out."""
        return {name: n for name in self.names(ALIVE) if (n := self.count(name))}

    def names(self, kind: int) -> Iterator[str]:
        is_kind = c_int()
        i = 0
        while (name := self.driver.fake_counter(i, ctypes.byref(is_kind))) is not None:
            if is_kind.value == kind:
                yield name.decode()
            i += 1

    def story(self) -> str:
        """Tell the first faults in words."""
        text = ctypes.create_string_buffer(32768)
        self.driver.fake_story(text, len(text))
        return text.value.decode()

    def consume(self, stream: object, address: int, nbytes: int, expected: int = 0, delay: int = SCHEDULED) -> None:
        """Put a consumer on a stream, which is a handle. `expected`: what fake.hash gives for the right bytes.

        `delay`: how long it reads, in microseconds, or UNTIL_GO_ON: since `consumers` counts it until go_on(stream).
        """
        check(self.driver.fake_consume(stream, address, nbytes, expected, delay))

    def hash(self, source: object) -> int:
        """Return the hash of the bytes of anything that has the buffer protocol, contiguous."""
        data = bytes(memoryview(source).cast("B"))  # type: ignore[arg-type]
        return self.driver.fake_hash(data, len(data))

    def read(self, address: int, nbytes: int) -> bytes:
        """Return what is at a device address now: nothing waits for what streams still do."""
        at = self.driver.fake_translate(address)
        if at is None:
            raise ValueError(f"no device memory at {address:#x}")
        return ctypes.string_at(at, nbytes)

    def registered(self) -> list[int]:
        """Return where registered memory of the host begins."""
        return list(iter(map(self.driver.fake_registered, itertools.count()).__next__, 0))

    def kernel(self, function: object, *sizes: int) -> int:
        """Return a handle for cuLaunchKernel: `function` has parameters of these sizes, and is a C function pointer."""
        return self.driver.fake_kernel(ctypes.cast(function, c_void_p), len(sizes), (c_size_t * len(sizes))(*sizes))

    def hold(self, stream: object) -> None:
        """Let nothing on a stream go on that is put there from now on, until go_on."""
        check(self.driver.fake_hold(stream))

    def go_on(self, stream: object) -> None:
        check(self.driver.fake_go_on(stream))

    def drain(self, seconds: float = 20.0) -> None:
        """Wait until no stream has anything to do."""
        assert self.driver.fake_drain(int(seconds * 1000)), "streams have still something to do"

    def settle(self, seconds: float = 20.0) -> None:
        """Wait until no stream can go on by itself: what is left waits for go_on, or for another stream."""
        assert self.driver.fake_settle(int(seconds * 1000)), "streams are still at work"

    def clear(self) -> None:
        """Counts, settings and planned failures as at first; contexts, streams and memory stay."""
        self.driver.fake_clear()

    def reset(self) -> None:
        """All as at first: contexts and what is in them are gone."""
        self.driver.fake_reset()
