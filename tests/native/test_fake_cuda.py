"""The CUDA driver that tests of the device plane run on: is it one, and does it find what it is there to find?

What it must do is from the CUDA driver's documentation, and from the table of mistakes in a transfer loop that must be
found. Nothing of queuecore runs here.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from ctypes import byref, c_int, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest
from helpers.device.fake_cuda import (
    ALREADY_REGISTERED,
    ALWAYS,
    CONTEXT_IS_DESTROYED,
    DISABLE_TIMING,
    FAULTS,
    FUNCTIONS,
    ILLEGAL_ADDRESS,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    LATER,
    LAUNCH_FAILED,
    LEGACY,
    NO_DEVICE,
    NON_BLOCKING,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_REGISTERED,
    ONCE,
    OUT_OF_MEMORY,
    PER_THREAD,
    PORTABLE,
    SCHEDULES,
    SOURCES,
    STUB_LIBRARY,
    UNTIL_GO_ON,
    CudaError,
    Fake,
    build,
    check,
    compiled,
    sanitized,
)

PAGE = mmap.PAGESIZE
THREADS_CHECKED = "thread" in os.environ.get("QUEUECORE_SANITIZED_KIND", "").split(",")
REPORTED = 66  # a sanitizer's exit status


# ---- mistakes in a transfer loop

FOUND = {
    # What must be found under each of these schedules, and what may be found besides.
    "none": ((), {"source_changed": ()}),
    "no_copied": (("consumed_wrong", "changed_while_read"), {"source_changed": SCHEDULES}),
    "no_ready": (("changed_while_read",), {"consumed_wrong": ("slow_copy", "jitter")}),
    "no_consumed": (("changed_while_read",), {"consumed_wrong": ("slow_consumer", "jitter")}),
    "unregistered": ((), {"pageable_copies": SCHEDULES}),
    "half_registered": ((), {"pageable_copies": SCHEDULES}),
    "no_context": (("consumed_wrong",), {"no_context": SCHEDULES}),
}
COPIES = 200


def transfers(program: Path, bug: str, *schedules: str, **more: str) -> dict[str, dict[str, int]]:
    """Run the transfer loop under schedules, and return what was counted under each."""
    done = run([str(program), bug, str(COPIES), "1", *schedules], **more)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: {key: int(n) for key, n in (word.split("=") for word in words)} for name, *words in lines}


def run(command: list[str], timeout: float = 50, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=os.environ | more, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def transfer(fake_cuda_folder, fake_cuda_library) -> Path:
    return compiled(fake_cuda_folder, [SOURCES / "transfer.cpp", fake_cuda_library])


@pytest.fixture(scope="module")
def kinds(fake_cuda_library) -> dict[str, set[str]]:
    """The names of faults."""
    return set(Fake(fake_cuda_library).names(FAULTS))


@pytest.mark.thorough
@pytest.mark.parametrize("bug", FOUND)
def test_a_mistake_is_found_under_each_schedule_that_can_show_it(transfer, kinds, bug):
    besides, must = FOUND[bug]
    counted = transfers(transfer, bug, *SCHEDULES)
    assert set(counted) == set(SCHEDULES)
    for schedule, counts in counted.items():
        assert counts.get("copies", 0) == (0 if bug == "no_context" else COPIES)
        assert counts["consumers"] == COPIES
        faults = {name for name in kinds if name in counts}
        assert faults <= {*must, *besides}, (schedule, counts)
        for fault, schedules in must.items():
            assert fault in faults or schedule not in schedules, (schedule, counts)


def test_half_of_the_copies_are_pageable_with_half_of_the_memory_registered(transfer):
    assert transfers(transfer, "unregistered", "equal")["equal"]["pageable_copies"] == COPIES
    assert 0 < transfers(transfer, "half_registered", "equal")["equal"]["pageable_copies"] < COPIES


def test_whoever_writes_to_protected_pages_is_killed(transfer):
    counted = transfers(transfer, "none", *SCHEDULES, PROTECT="1")
    assert [counts["copies"] for counts in counted.values()] == [COPIES] * len(SCHEDULES)
    for schedule in SCHEDULES:
        done = run([str(transfer), "no_copied", str(COPIES), "1", schedule], PROTECT="1")
        assert done.returncode == -signal.SIGSEGV


def fixed_addresses() -> list[str]:
    """Return a command prefix that keeps the address space in the places the thread sanitizer knows, where it may."""
    prefix = ["setarch", os.uname().machine, "--addr-no-randomize"]
    try:
        return prefix if run([*prefix, "true"]).returncode == 0 else []
    except FileNotFoundError:
        return []


def with_threads_checked(folder: Path, *flags: str) -> Path:
    sanitizer = sanitized(folder, "thread")
    return compiled(folder, [SOURCES / "transfer.cpp", build(folder, *sanitizer, *flags)], *sanitizer)


@pytest.mark.thorough
def test_the_sanitizer_finds_nothing_in_a_right_loop(fake_cuda_folder):
    program = with_threads_checked(fake_cuda_folder)
    options = f"exitcode={REPORTED} halt_on_error=1"
    done = run([*fixed_addresses(), str(program), "none", "100", "1", "none", *SCHEDULES], TSAN_OPTIONS=options)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + len(SCHEDULES)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("bug", "schedule", "names"),
    # Under these the bytes are right, or may be.
    [
        ("no_copied", "none", "fill"),
        ("no_ready", "slow_consumer", "do_copy"),
        ("no_consumed", "slow_copy", "do_copy"),
        ("no_consumed", "equal", "do_copy"),
    ],
)
def test_the_sanitizer_names_a_mistake_that_harmed_no_byte(fake_cuda_folder, bug, schedule, names):
    program = with_threads_checked(fake_cuda_folder)
    options = f"exitcode={REPORTED} halt_on_error=1"
    done = run([*fixed_addresses(), str(program), bug, "100", "1", schedule], TSAN_OPTIONS=options)
    assert done.returncode == REPORTED, done.stdout + done.stderr
    assert "ThreadSanitizer: data race" in done.stderr
    assert names in done.stderr


@pytest.mark.skipif(not THREADS_CHECKED, reason="for the thread sanitizer: run `make sanitize`")
def test_the_fake_itself_has_no_races(fake_cuda_folder):
    program = with_threads_checked(fake_cuda_folder, "-DFAKE_CUDA_VISIBLE")
    options = f"exitcode={REPORTED} halt_on_error=1"
    for bug in ("none", "unregistered", "no_context"):
        command = [*fixed_addresses(), str(program), bug, str(COPIES), "1", "none", *SCHEDULES]
        done = run(command, TSAN_OPTIONS=options)
        assert done.returncode == 0, done.stderr


# ---- the driver


class Device:
    """A device in use, as a program has it: a context that is current, and what it made."""

    def __init__(self, fake: Fake, number: int = 0) -> None:
        self.fake, self.driver = fake, fake.driver
        check(self.driver.cuInit(0))
        self.context = c_void_p()
        check(self.driver.cuDevicePrimaryCtxRetain(byref(self.context), number))
        self.enter()

    def enter(self) -> None:
        check(self.driver.cuCtxSetCurrent(self.context))

    def stream(self, flags: int = NON_BLOCKING) -> c_void_p:
        made = c_void_p()
        check(self.driver.cuStreamCreateWithPriority(byref(made), flags, 0))
        return made

    def event(self) -> c_void_p:
        made = c_void_p()
        check(self.driver.cuEventCreate(byref(made), DISABLE_TIMING))
        return made

    def memory(self, nbytes: int) -> int:
        made = c_uint64()
        check(self.driver.cuMemAlloc_v2(byref(made), nbytes))
        return made.value

    def pinned(self, nbytes: int, flags: int = PORTABLE) -> np.ndarray:
        made = pages(nbytes)
        check(self.driver.cuMemHostRegister_v2(made.ctypes.data, nbytes, flags))
        return made

    def copy(self, to: int, source: np.ndarray, stream: c_void_p) -> int:
        return self.driver.cuMemcpyHtoDAsync_v2(to, source.ctypes.data, source.nbytes, stream)

    def record(self, event: c_void_p, stream: object) -> None:
        check(self.driver.cuEventRecord(event, stream))


# A copy that a test leaves behind reads its source until the reset.
MAPPED = []


def pages(nbytes: int) -> np.ndarray:
    """Memory that begins with a page."""
    MAPPED.append(np.frombuffer(mmap.mmap(-1, nbytes), np.uint8))
    return MAPPED[-1]


def until(condition, seconds: float = 20) -> bool:
    """Whether a condition comes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def never(device: Device, condition) -> bool:
    """Whether a condition stays false while a stream of its own does this and that."""
    stream, event = device.stream(), device.event()
    for _ in range(50):
        if condition():
            return False
        device.record(event, stream)
        check(device.driver.cuEventSynchronize(event))
    check(device.driver.cuEventDestroy_v2(event))
    check(device.driver.cuStreamDestroy_v2(stream))
    return not condition()


def numbers(nbytes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


@pytest.fixture
def fake(fake_cuda) -> Fake:
    return fake_cuda


@pytest.fixture
def device(fake) -> Device:
    return Device(fake)


@pytest.mark.thorough
def test_all_functions_are_there_and_no_older_form(fake, fake_cuda_folder):
    for name in FUNCTIONS:
        assert hasattr(fake.driver, name)
    older = [name.removesuffix("_v2") for name in FUNCTIONS if name.endswith("_v2")]
    for name in (*older, "cuMemcpyHtoDAsync_v2_ptsz", "cuStreamQuery"):
        assert not hasattr(fake.driver, name)
    old = Fake(build(fake_cuda_folder, "-DNO_BATCH"))
    assert not hasattr(old.driver, "cuMemcpyBatchAsync_v2")
    assert not hasattr(old.driver, "cuDeviceGetPCIBusId")
    assert hasattr(old.driver, "cuMemcpyHtoDAsync_v2")
    check(old.driver.cuInit(0))
    assert fake.count("cuInit") == 0  # another library is another driver
    old.reset()


def test_what_is_there_before_and_after_init(fake):
    version, count, number = c_int(), c_int(), c_int()
    check(fake.driver.cuDriverGetVersion(byref(version)))
    assert version.value == 13000
    assert fake.driver.cuDeviceGetCount(byref(count)) == NOT_INITIALIZED
    assert fake.faults() == {"not_initialized": 1}
    fake.clear()
    fake.set(devices=2, driver_version=12080)
    check(fake.driver.cuInit(0))
    check(fake.driver.cuDriverGetVersion(byref(version)))
    check(fake.driver.cuDeviceGetCount(byref(count)))
    assert (version.value, count.value) == (12080, 2)
    check(fake.driver.cuDeviceGet(byref(number), 1))
    assert number.value == 1
    assert fake.driver.cuDeviceGet(byref(number), 2) == INVALID_DEVICE
    name = ctypes.create_string_buffer(100)
    check(fake.driver.cuDeviceGetName(name, len(name), 1))
    assert name.value == b"Fake CUDA device 1"
    check(fake.driver.cuDeviceGetName(name, 5, 1))
    assert name.value == b"Fake"
    check(fake.driver.cuDeviceGetPCIBusId(name, len(name), 1))
    assert name.value == b"0000:02:00.0"
    fake.attribute(33, 0xAF)
    check(fake.driver.cuDeviceGetPCIBusId(name, len(name), 1))
    assert name.value == b"0000:AF:00.0"
    assert fake.driver.cuDeviceGetPCIBusId(name, len(name), 2) == INVALID_DEVICE
    major, minor = c_int(), c_int()
    check(fake.driver.cuDeviceGetAttribute(byref(major), 75, 0))
    check(fake.driver.cuDeviceGetAttribute(byref(minor), 76, 0))
    assert (major.value, minor.value) == (9, 0)
    fake.attribute(75, 12)
    check(fake.driver.cuDeviceGetAttribute(byref(major), 75, 0))
    assert major.value == 12
    assert fake.faults() == {}


@pytest.mark.parametrize(
    ("settings", "result"),
    [({"devices": 0}, NO_DEVICE), ({"init_result": 34}, STUB_LIBRARY), ({"init_result": 3}, NOT_INITIALIZED)],
)
def test_a_machine_without_a_device(fake, settings, result):
    fake.set(**settings)
    assert fake.driver.cuInit(0) == result
    count = c_int()
    assert fake.driver.cuDeviceGetCount(byref(count)) == NOT_INITIALIZED


def test_names_of_errors(fake):
    text = ctypes.c_char_p()
    for number, name in ((0, b"SUCCESS"), (2, b"ERROR_OUT_OF_MEMORY"), (700, b"ERROR_ILLEGAL_ADDRESS")):
        check(fake.driver.cuGetErrorName(number, byref(text)))
        assert text.value == b"CUDA_" + name
        check(fake.driver.cuGetErrorString(number, byref(text)))
        assert text.value
    assert fake.driver.cuGetErrorName(12345, byref(text)) == INVALID_VALUE
    assert text.value is None


# ---- contexts


def test_a_call_without_a_context(device):
    results = []

    def elsewhere():
        event, stream, address = c_void_p(), c_void_p(), c_uint64()
        results.append(device.driver.cuEventCreate(byref(event), DISABLE_TIMING))
        results.append(device.driver.cuStreamCreateWithPriority(byref(stream), NON_BLOCKING, 0))
        results.append(device.driver.cuMemAlloc_v2(byref(address), 100))
        current = c_void_p()
        check(device.driver.cuCtxGetCurrent(byref(current)))
        results.append(current.value)
        device.enter()
        results.append(device.driver.cuEventCreate(byref(event), DISABLE_TIMING))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert results == [INVALID_CONTEXT] * 3 + [None, 0]
    assert device.fake.faults() == {"no_context": 3}
    assert device.fake.count("cuEventCreate") == 2
    assert device.fake.alive() == {"contexts": 1, "retained": 1, "events": 1}


def test_the_last_holder_ends_a_context(device):
    fake, driver = device.fake, device.driver
    second = Device(fake)
    assert second.context.value == device.context.value
    assert fake.alive() == {"contexts": 1, "retained": 2}
    event, stream = device.event(), device.stream()
    check(driver.cuDevicePrimaryCtxRelease_v2(0))
    check(driver.cuEventRecord(event, stream))
    assert fake.faults() == {}
    check(driver.cuDevicePrimaryCtxRelease_v2(0))
    assert fake.faults() == {"leaked": 2}
    assert fake.alive() == {}
    assert driver.cuEventRecord(event, stream) == CONTEXT_IS_DESTROYED
    assert driver.cuCtxSetCurrent(device.context) == INVALID_CONTEXT
    assert driver.cuDevicePrimaryCtxRelease_v2(0) == INVALID_CONTEXT
    assert fake.faults() == {"leaked": 2, "dead_handle": 2, "over_release": 1}
    third = Device(fake)
    assert third.context.value != device.context.value
    assert driver.cuEventRecord(event, stream) == INVALID_HANDLE


def test_objects_of_one_context_are_not_used_under_another(fake):
    fake.set(devices=2)
    first, other = Device(fake, 0), Device(fake, 1)
    first.enter()
    stream, event, memory = first.stream(), first.event(), first.memory(64)
    other.enter()
    mine, driver = other.event(), fake.driver
    source = other.pinned(64)
    assert driver.cuEventRecord(mine, stream) == INVALID_HANDLE
    assert driver.cuStreamSynchronize(stream) == INVALID_HANDLE
    assert driver.cuEventRecord(event, other.stream()) == INVALID_HANDLE
    assert other.copy(memory, source, other.stream()) == INVALID_VALUE
    assert driver.cuMemFree_v2(memory) == INVALID_VALUE
    assert fake.faults() == {"wrong_context": 5}
    # But to wait for the other device is what events are for.
    first.enter()
    first.record(event, stream)
    other.enter()
    check(driver.cuStreamWaitEvent(other.stream(), event, 0))
    check(driver.cuEventSynchronize(event))
    assert driver.cuEventQuery(event) == 0
    assert fake.faults() == {"wrong_context": 5}


def test_memory_registered_in_one_context_is_pinned_in_all_if_portable(fake):
    fake.set(devices=2)
    one, other = Device(fake, 0), Device(fake, 1)
    one.enter()
    portable, own = one.pinned(PAGE), one.pinned(PAGE, flags=0)
    other.enter()
    to, stream = other.memory(PAGE), other.stream()
    check(other.copy(to, portable, stream))
    assert fake.faults() == {}
    check(other.copy(to, own, stream))
    assert fake.faults() == {"pageable_copies": 1}


# ---- streams and events


def test_an_event_is_what_was_recorded_last_at_the_call(device):
    fake, driver = device.fake, device.driver
    stream, second, event = device.stream(), device.stream(), device.event()
    assert driver.cuEventQuery(event) == 0
    check(driver.cuEventSynchronize(event))
    # Never recorded: waited for by nobody, also not when it is recorded later.
    fake.hold(stream)
    check(driver.cuStreamWaitEvent(second, event, 0))
    device.record(event, stream)
    check(driver.cuStreamSynchronize(second))
    assert never(device, lambda: driver.cuEventQuery(event) != NOT_READY)
    # A wait is for the record before it, whatever is recorded afterwards.
    third, fourth = device.stream(), device.stream()
    fake.hold(fourth)
    check(driver.cuStreamWaitEvent(third, event, 0))
    device.record(event, fourth)
    fake.go_on(stream)
    check(driver.cuStreamSynchronize(third))
    assert never(device, lambda: driver.cuEventQuery(event) != NOT_READY)
    fake.go_on(fourth)
    check(driver.cuEventSynchronize(event))
    assert driver.cuEventQuery(event) == 0
    assert fake.faults() == {}


def test_settled_is_what_waits_for_go_on_or_for_another_stream(device):
    fake, driver = device.fake, device.driver
    first, second, third, event = device.stream(), device.stream(), device.stream(), device.event()
    source, to = device.pinned(100), device.memory(100)
    fake.settle()
    fake.hold(first)
    device.record(event, first)
    check(driver.cuStreamWaitEvent(second, event, 0))
    fake.consume(second, to, 100, delay=0)
    fake.set(copy_before=20000)
    check(device.copy(to, source, third))
    fake.settle()
    assert fake.read(to, 100) == source.tobytes()  # the third stream was waited for
    assert fake.happened()["consumers"] == 0
    with pytest.raises(AssertionError, match="still"):
        fake.drain(0.01)
    check(device.copy(to, source, third))
    with pytest.raises(AssertionError, match="at work"):
        fake.settle(0.001)
    fake.go_on(first)
    fake.settle()
    assert fake.happened()["consumers"] == 1
    assert fake.faults() == {}


def test_a_stream_waits_for_an_event_of_another(device):
    fake, driver = device.fake, device.driver
    first, second, event = device.stream(), device.stream(), device.event()
    source, to, after = device.pinned(100), device.memory(100), device.event()
    source[:] = numbers(100)
    fake.hold(first)
    check(device.copy(to, source, first))
    device.record(event, first)
    check(driver.cuStreamWaitEvent(second, event, 0))
    check(driver.cuEventDestroy_v2(event))  # who waits already goes on waiting
    fake.consume(second, to, 100, fake.hash(source))
    device.record(after, second)
    assert never(device, lambda: driver.cuEventQuery(after) != NOT_READY)
    assert fake.read(to, 100) == b"\xcd" * 100
    fake.go_on(first)
    check(driver.cuEventSynchronize(after))
    assert fake.read(to, 100) == source.tobytes()
    assert fake.faults() == {}
    assert fake.happened()["consumers"] == 1
    assert driver.cuEventRecord(event, first) == INVALID_HANDLE
    assert fake.faults() == {"dead_handle": 1}


def test_work_on_a_stream_that_is_destroyed_is_done(device):
    fake, driver = device.fake, device.driver
    stream, event, to = device.stream(), device.event(), device.memory(PAGE)
    source = device.pinned(PAGE)
    source[:] = 7
    fake.schedule("slow_copy")
    check(device.copy(to, source, stream))
    device.record(event, stream)
    check(driver.cuStreamDestroy_v2(stream))
    assert driver.cuStreamSynchronize(stream) == INVALID_HANDLE
    check(driver.cuEventSynchronize(event))
    assert fake.read(to, PAGE) == b"\x07" * PAGE
    assert fake.faults() == {"dead_handle": 1}
    assert "streams" not in fake.alive()


@pytest.mark.parametrize("handle", [1, 2, 12345678])
def test_what_never_was_a_handle(device, handle):
    event = c_void_p(handle + 0x1000)
    assert device.driver.cuEventQuery(event) == INVALID_HANDLE
    assert device.driver.cuStreamDestroy_v2(handle) == INVALID_HANDLE
    assert device.fake.faults() == {"bad_handle": 2}


def test_the_legacy_default_stream_is_in_order_with_blocking_streams(device):
    fake, driver = device.fake, device.driver
    blocking, other, event = device.stream(flags=0), device.stream(), device.event()
    assert fake.happened()["blocking_streams"] == 1
    for first, second in ((blocking, LEGACY), (LEGACY, blocking)):
        fake.hold(first)
        device.record(event, second)
        assert never(device, lambda: driver.cuEventQuery(event) == 0)
        fake.go_on(first)
        check(driver.cuEventSynchronize(event))
    # A stream that doesn't block waits for neither, nor they for it.
    for first, second in ((LEGACY, other), (other, LEGACY), (blocking, other), (other, blocking)):
        fake.hold(first)
        device.record(event, second)
        check(driver.cuEventSynchronize(event))
        fake.go_on(first)
        fake.drain()
    assert fake.faults() == {}
    # The same stream by the handle that we never pass.
    device.record(event, None)
    check(driver.cuStreamSynchronize(LEGACY))
    assert driver.cuEventQuery(event) == 0
    assert fake.faults() == {"default_stream": 1}


def test_each_thread_has_a_default_stream(device):
    fake, driver = device.fake, device.driver
    event = device.event()
    fake.hold(PER_THREAD)
    device.record(event, PER_THREAD)

    def elsewhere():
        device.enter()
        check(driver.cuStreamSynchronize(PER_THREAD))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert driver.cuEventQuery(event) == NOT_READY
    fake.go_on(PER_THREAD)
    check(driver.cuStreamSynchronize(PER_THREAD))
    assert driver.cuEventQuery(event) == 0


# ---- memory


def test_device_memory(device):
    fake, driver = device.fake, device.driver
    fake.set(total_memory=3 * PAGE)
    first, second = device.memory(PAGE), device.memory(PAGE + 1)
    assert first % 256 == 0 and second % 256 == 0
    assert fake.read(second, PAGE + 1) == b"\xcd" * (PAGE + 1)
    address = c_uint64()
    assert driver.cuMemAlloc_v2(byref(address), PAGE) == OUT_OF_MEMORY
    assert fake.alive() == {"contexts": 1, "retained": 1, "allocations": 2, "allocated_bytes": 2 * PAGE + 1}
    check(driver.cuMemFree_v2(second))
    assert device.memory(PAGE) not in (first, second)
    assert driver.cuMemAlloc_v2(byref(address), 1 << 60) == OUT_OF_MEMORY
    assert fake.faults() == {}
    assert driver.cuMemAlloc_v2(byref(address), 0) == INVALID_VALUE
    assert driver.cuMemFree_v2(first + 256) == INVALID_VALUE
    assert fake.faults() == {"bad_argument": 1, "bad_address": 1}


def test_freed_memory_is_used(device):
    fake, driver = device.fake, device.driver
    stream, source, freed = device.stream(), device.pinned(PAGE), device.memory(PAGE)
    check(driver.cuMemFree_v2(freed))
    target = device.memory(PAGE)
    assert device.copy(freed, source, stream) == INVALID_VALUE
    assert driver.cuMemcpyDtoDAsync_v2(target, freed + 100, 10, stream) == INVALID_VALUE
    assert driver.cuMemFree_v2(freed) == INVALID_VALUE
    with pytest.raises(CudaError):
        fake.consume(stream, freed, PAGE)
    with pytest.raises(ValueError):
        fake.read(freed, PAGE)
    assert fake.faults() == {"use_after_free": 5}
    # Freed while an operation waits that needs it.
    fake.clear()
    fake.hold(stream)
    check(device.copy(target, source, stream))
    check(driver.cuMemFree_v2(target))
    assert fake.faults() == {"freed_in_use": 1}
    fake.go_on(stream)
    assert driver.cuStreamSynchronize(stream) == ILLEGAL_ADDRESS
    assert fake.faults() == {"freed_in_use": 1, "use_after_free": 1}


def test_addresses_that_are_no_device_memory(device):
    fake, driver = device.fake, device.driver
    stream, source, to = device.stream(), device.pinned(PAGE), device.memory(PAGE)
    assert device.copy(to + 1, source, stream) == INVALID_VALUE
    assert device.copy(to - 1, source, stream) == INVALID_VALUE
    assert device.copy(source.ctypes.data, source, stream) == INVALID_VALUE
    assert driver.cuMemcpyHtoDAsync_v2(to, to, 10, stream) == INVALID_VALUE
    assert driver.cuMemcpyDtoDAsync_v2(to, source.ctypes.data, 10, stream) == INVALID_VALUE
    assert fake.faults() == {"bad_address": 5}
    check(driver.cuStreamSynchronize(stream))
    assert fake.read(to, PAGE) == b"\xcd" * PAGE


def test_copies_on_the_device(device):
    fake, driver = device.fake, device.driver
    stream, source = device.stream(), device.pinned(1000)
    source[:] = numbers(1000)
    one, two = device.memory(1000), device.memory(1000)
    check(device.copy(one, source, stream))
    check(driver.cuMemcpyDtoDAsync_v2(two + 3, one + 10, 500, stream))
    check(driver.cuStreamSynchronize(stream))
    assert fake.read(two, 1000) == b"\xcd" * 3 + source.tobytes()[10:510] + b"\xcd" * 497
    assert fake.happened()["copied_bytes"] == 1500


def test_registered_memory(device):
    fake, driver = device.fake, device.driver
    fake.set(register_limit=4 * PAGE)
    memory = pages(8 * PAGE)
    address = memory.ctypes.data
    check(driver.cuMemHostRegister_v2(address + 100, PAGE, PORTABLE))
    # Whole pages are locked.
    assert driver.cuMemHostRegister_v2(address, 10, PORTABLE) == ALREADY_REGISTERED
    assert driver.cuMemHostRegister_v2(address + PAGE + 200, PAGE, PORTABLE) == ALREADY_REGISTERED
    check(driver.cuMemHostRegister_v2(address + 2 * PAGE, PAGE, PORTABLE))
    assert driver.cuMemHostRegister_v2(address + 3 * PAGE, 2 * PAGE + 1, PORTABLE) == OUT_OF_MEMORY
    assert (fake.alive()["registrations"], fake.alive()["registered_bytes"]) == (2, 2 * PAGE)
    assert driver.cuMemHostUnregister(address + 5 * PAGE) == NOT_REGISTERED
    assert fake.faults() == {}
    assert driver.cuMemHostUnregister(address + 101) == INVALID_VALUE
    assert fake.faults() == {"bad_argument": 1}
    for where in (address + 100, address + 2 * PAGE):
        check(driver.cuMemHostUnregister(where))
    assert fake.alive() == {"contexts": 1, "retained": 1}
    fake.set(register_result=801)
    assert driver.cuMemHostRegister_v2(address, PAGE, PORTABLE) == 801


def test_what_the_driver_says_of_a_pointer(device):
    fake, driver = device.fake, device.driver
    host, there = device.pinned(PAGE), device.memory(100)
    kind, context, ordinal = c_int(), c_void_p(), c_int()
    for pointer, expected in ((host.ctypes.data + 5, 1), (there + 5, 2)):
        check(driver.cuPointerGetAttribute(byref(kind), 2, pointer))
        check(driver.cuPointerGetAttribute(byref(context), 1, pointer))
        check(driver.cuPointerGetAttribute(byref(ordinal), 9, pointer))
        assert (kind.value, context.value, ordinal.value) == (expected, device.context.value, 0)
    assert driver.cuPointerGetAttribute(byref(kind), 2, pages(10).ctypes.data) == INVALID_VALUE
    assert fake.faults() == {}


def test_pageable_memory_is_copied_at_once(device):
    fake, driver = device.fake, device.driver
    stream, to, source = device.stream(), device.memory(PAGE), numbers(PAGE)
    fake.schedule("slow_copy")
    expected = source.tobytes()
    check(device.copy(to, source, stream))
    source[:] = 0
    assert fake.read(to, PAGE) == expected
    check(driver.cuStreamSynchronize(stream))
    assert fake.read(to, PAGE) == expected
    assert fake.faults() == {"pageable_copies": 1}


def test_a_pageable_copy_waits_for_what_is_on_the_stream(device):
    fake = device.fake
    stream, to, source = device.stream(), device.memory(PAGE), numbers(PAGE)
    fake.hold(stream)

    def elsewhere():
        device.enter()
        check(device.copy(to, source, stream))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert until(lambda: fake.count("pageable_copies") == 1)
    assert fake.read(to, PAGE) == b"\xcd" * PAGE  # takes the driver's lock: that call has come to where it waits
    source[:] = 5
    fake.go_on(stream)
    thread.join()
    assert fake.read(to, PAGE) == b"\x05" * PAGE
    assert fake.faults() == {"pageable_copies": 1}


def test_memory_that_is_registered_in_part_is_refused(device):
    driver, stream, to = device.driver, device.stream(), device.memory(2 * PAGE)
    memory = pages(2 * PAGE)
    check(driver.cuMemHostRegister_v2(memory.ctypes.data, PAGE, PORTABLE))
    assert device.copy(to, memory, stream) == INVALID_VALUE
    check(driver.cuMemHostRegister_v2(memory.ctypes.data + PAGE, PAGE, PORTABLE))
    assert device.copy(to, memory, stream) == INVALID_VALUE
    assert device.fake.faults() == {"straddling_copies": 2}


def test_memory_is_unregistered_too_early(device):
    fake, driver = device.fake, device.driver
    stream, to, source = device.stream(), device.memory(PAGE), device.pinned(PAGE)
    fake.hold(stream)
    check(device.copy(to, source, stream))
    check(driver.cuMemHostUnregister(source.ctypes.data))
    assert fake.faults() == {"unregistered_in_use": 1}
    fake.go_on(stream)
    check(driver.cuStreamSynchronize(stream))


@pytest.mark.parametrize("at", [0, 63, 64, 1000, PAGE - 1])
def test_a_source_that_changes_before_the_copy(device, at):
    fake = device.fake
    stream, to, source = device.stream(), device.memory(PAGE), device.pinned(PAGE)
    fake.hold(stream)
    check(device.copy(to, source, stream))
    source[at] ^= 1
    fake.go_on(stream)
    check(device.driver.cuStreamSynchronize(stream))
    assert fake.faults() == {"source_changed": 1}
    assert f"{PAGE} bytes" in fake.story()


def test_bytes_that_change_under_a_consumer(device):
    fake, driver = device.fake, device.driver
    stream, other, to = device.stream(), device.stream(), device.memory(PAGE)
    source = device.pinned(PAGE)
    source[:] = numbers(PAGE)
    check(device.copy(to, source, stream))
    check(driver.cuStreamSynchronize(stream))
    expected = fake.hash(source)
    fake.consume(other, to, PAGE, expected)
    check(driver.cuStreamSynchronize(other))
    assert fake.faults() == {}
    fake.consume(other, to, PAGE, expected ^ 1)
    check(driver.cuStreamSynchronize(other))
    assert fake.faults() == {"consumed_wrong": 1}
    fake.clear()
    fake.consume(other, to, PAGE, expected, UNTIL_GO_ON)
    assert until(lambda: fake.count("consumers") == 1)
    assert fake.happened()["overlaps"] == 0
    source[PAGE - 1] ^= 1
    check(device.copy(to, source, stream))
    check(driver.cuStreamSynchronize(stream))
    assert fake.happened()["overlaps"] == 1
    fake.go_on(other)
    fake.drain()
    assert fake.faults() == {"changed_while_read": 1}


# ---- batches


class Attributes(ctypes.Structure):
    _fields_ = [("order", c_int), ("from_hint", c_int * 2), ("to_hint", c_int * 2), ("flags", ctypes.c_uint)]


def batch(device, to, sources, sizes, stream, orders=(1,), begins=(0,)) -> int:
    attributes = (Attributes * len(orders))(*[Attributes(order=order) for order in orders])
    n = len(to)
    return device.driver.cuMemcpyBatchAsync_v2(
        (c_uint64 * n)(*to),
        (c_uint64 * n)(*sources),
        (ctypes.c_size_t * n)(*sizes),
        *(n, attributes, (ctypes.c_size_t * len(begins))(*begins), len(orders), stream),
    )


def test_a_batch_of_copies(device):
    fake, driver = device.fake, device.driver
    stream, source, to = device.stream(), device.pinned(PAGE), device.memory(PAGE)
    source[:] = numbers(PAGE)
    cuts = [0, 1, 100, 101, 2000, PAGE]
    begins = cuts[:-1]
    sizes = np.diff(cuts).tolist()
    address = source.ctypes.data
    check(batch(device, [to + one for one in begins], [address + one for one in begins], sizes, stream))
    check(driver.cuStreamSynchronize(stream))
    assert fake.read(to, PAGE) == source.tobytes()
    assert fake.happened()["copies"] == 5
    # From the device, too; and what changes too early is found.
    two = device.memory(20)
    fake.hold(stream)
    check(batch(device, [two, two + 10], [to + 5, address + 7], [10, 10], stream))
    source[7] ^= 1
    fake.go_on(stream)
    check(driver.cuStreamSynchronize(stream))
    first = source[5:15].copy()
    first[2] ^= 1
    assert fake.read(two, 20) == first.tobytes() + source[7:17].tobytes()
    assert fake.faults() == {"source_changed": 1}


def test_a_source_that_is_good_only_during_the_call(device):
    fake = device.fake
    stream, source, to = device.stream(), device.pinned(20), device.memory(20)
    fake.hold(stream)
    at = source.ctypes.data
    check(batch(device, [to, to + 10], [at, at + 10], [10, 10], stream, orders=(2, 1), begins=(0, 1)))
    source[:10] = 1
    fake.go_on(stream)
    check(device.driver.cuStreamSynchronize(stream))
    assert fake.read(to, 20) == bytes(20)
    assert fake.faults() == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream": LEGACY},
        {"sizes": [10, 0]},
        {"orders": (0,)},
        {"orders": (4,)},
        {"begins": (1,)},
        {"orders": (1, 1), "begins": (0, 2)},
        {"orders": (1, 1), "begins": (0, 0)},
        {"orders": (1, 1, 1), "begins": (0, 1, 2)},
        {"orders": (), "begins": ()},
    ],
    ids=str,
)
def test_a_batch_that_is_refused(device, wrong):
    stream, source, to = device.stream(), device.pinned(20), device.memory(20)
    at = source.ctypes.data
    right = {"to": [to, to + 10], "sources": [at, at + 10], "sizes": [10, 10], "stream": stream}
    assert batch(device, **(right | wrong)) == INVALID_VALUE
    assert device.fake.faults() == {"bad_argument": 1}
    check(batch(device, **right))
    assert batch(device, **(right | {"stream": None})) == INVALID_VALUE
    assert device.fake.faults() == {"bad_argument": 1, "default_stream": 1}
    assert batch(device, [], [], [], stream) == INVALID_VALUE


# ---- kernels


def test_a_kernel_runs_in_order_with_the_parameters_of_its_launch(device):
    fake, driver = device.fake, device.driver
    n = 1000
    stream, source = device.stream(), device.pinned(n)
    source[:] = numbers(n)
    narrow, wide = device.memory(n), device.memory(4 * n)
    dims = []

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(c_void_p))
    def widen(params):
        into, outof, count = (ctypes.cast(params[i], ctypes.POINTER(c_uint64))[0] for i in range(3))
        bytes_ = (ctypes.c_uint8 * count).from_address(driver.fake_translate(outof))
        out = (ctypes.c_float * count).from_address(driver.fake_translate(into))
        np.frombuffer(out, np.float32)[:] = np.frombuffer(bytes_, np.uint8)
        dims.append(driver.fake_dims()[:7])

    kernel = fake.kernel(widen, 8, 8, 8)
    values = [c_uint64(wide), c_uint64(narrow), c_uint64(n)]
    params = (c_void_p * 3)(*[ctypes.addressof(parameter) for parameter in values])
    fake.hold(stream)
    check(device.copy(narrow, source, stream))
    check(driver.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 16, stream, params, None))
    for parameter in values:
        parameter.value = 0  # the launch has copied them
    fake.go_on(stream)
    check(driver.cuStreamSynchronize(stream))
    assert np.array_equal(np.frombuffer(fake.read(wide, 4 * n), np.float32), source.astype(np.float32))
    assert dims == [[4, 1, 1, 256, 1, 1, 16]]
    assert fake.happened()["kernels"] == 1
    # A function's address is a handle too, whose parameters stay where they are.
    for parameter, value in zip(values, (wide, narrow + n // 2, 2), strict=True):
        parameter.value = value
    check(driver.cuLaunchKernel(ctypes.cast(widen, c_void_p), 1, 1, 1, 1, 1, 1, 0, stream, params, None))
    check(driver.cuStreamSynchronize(stream))
    assert np.frombuffer(fake.read(wide, 8), np.float32).tolist() == source[n // 2 :][:2].tolist()
    assert driver.cuLaunchKernel(kernel, 0, 1, 1, 256, 1, 1, 0, stream, params, None) == INVALID_VALUE
    assert driver.cuLaunchKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, stream, params, None) == INVALID_VALUE
    assert driver.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, stream, params, None) == INVALID_HANDLE


# ---- errors


def test_the_nth_call_fails_once_or_from_then_on(device):
    fake, driver = device.fake, device.driver
    event, stream = device.event(), device.stream()
    fake.fail("cuEventRecord", 3, LAUNCH_FAILED, ONCE)
    results = [driver.cuEventRecord(event, stream) for _ in range(5)]
    assert results == [0, 0, LAUNCH_FAILED, 0, 0]
    fake.fail("cuEventRecord", 2, OUT_OF_MEMORY, ALWAYS)
    results = [driver.cuEventRecord(event, stream) for _ in range(4)]
    assert results == [0, *[OUT_OF_MEMORY] * 3]
    check(driver.cuEventSynchronize(event))
    assert fake.happened()["injected"] == 4
    fake.clear()
    assert driver.cuEventRecord(event, stream) == 0
    for wrong in ("cuNothing", "copies", "fake_clear"):
        with pytest.raises(KeyError):
            fake.fail(wrong, 1, 1)


@pytest.mark.parametrize("k", range(1, 7))
def test_the_kth_of_all_calls_fails(device, k):
    fake, driver = device.fake, device.driver
    stream, event, count, text = device.stream(), device.event(), c_int(), ctypes.c_char_p()
    calls = [
        lambda: driver.cuDeviceGetCount(byref(count)),
        lambda: driver.cuEventRecord(event, stream),
        lambda: driver.cuStreamWaitEvent(stream, event, 0),
        lambda: driver.cuStreamSynchronize(stream),
        lambda: driver.cuEventDestroy_v2(event),
    ]
    fake.fail("*", k, LAUNCH_FAILED)
    results = []
    for one in calls:
        results.append(one())
        check(driver.cuGetErrorName(0, byref(text)))  # those that name errors never fail
    assert results == [LAUNCH_FAILED if i == k else 0 for i in range(1, 6)]
    # What failed did nothing.
    assert fake.alive().get("events", 0) == (k == 5)


def test_an_asynchronous_error_is_everywhere_from_then_on(device):
    fake, driver = device.fake, device.driver
    stream, source, to = device.stream(), device.pinned(100), device.memory(100)
    event, other = device.event(), device.stream()
    fake.hold(stream)
    fake.fail("cuMemcpyHtoDAsync_v2", 2, ILLEGAL_ADDRESS, LATER)
    for _ in range(3):
        check(device.copy(to, source, stream))
    device.record(event, stream)
    check(driver.cuStreamWaitEvent(other, event, 0))
    assert driver.cuEventQuery(event) == NOT_READY
    fake.go_on(stream)
    assert driver.cuEventSynchronize(event) == ILLEGAL_ADDRESS
    assert fake.happened()["copies"] == 1
    new = c_void_p()
    assert driver.cuEventQuery(event) == ILLEGAL_ADDRESS
    assert driver.cuStreamSynchronize(other) == ILLEGAL_ADDRESS
    assert driver.cuEventCreate(byref(new), 0) == ILLEGAL_ADDRESS
    assert driver.cuEventRecord(event, other) == ILLEGAL_ADDRESS
    count = c_int()
    check(driver.cuDeviceGetCount(byref(count)))
    # Cleaning up goes on, and says so too.
    for one in (stream, other):
        assert driver.cuStreamDestroy_v2(one) == ILLEGAL_ADDRESS
    assert driver.cuEventDestroy_v2(event) == ILLEGAL_ADDRESS
    assert driver.cuMemFree_v2(to) == ILLEGAL_ADDRESS
    assert driver.cuMemHostUnregister(source.ctypes.data) == ILLEGAL_ADDRESS
    alive = fake.alive()
    alive.pop("threads", None)
    assert alive == {"contexts": 1, "retained": 1}
    fake.clear()
    check(driver.cuEventCreate(byref(new), 0))
    check(driver.cuDevicePrimaryCtxRelease_v2(0))
    assert fake.faults() == {"leaked": 1}


def test_a_call_that_puts_nothing_on_a_stream_breaks_the_context_at_once(device):
    fake, driver = device.fake, device.driver
    address = c_uint64()
    fake.fail("cuMemAlloc_v2", 1, LAUNCH_FAILED, LATER)
    check(driver.cuMemAlloc_v2(byref(address), 10))
    assert driver.cuMemAlloc_v2(byref(address), 10) == LAUNCH_FAILED


def test_a_reset_ends_what_never_would(fake):
    device = Device(fake)
    stream, event = device.stream(), device.event()
    fake.hold(stream)
    device.record(event, stream)
    fake.schedule("slow_copy")
    fake.reset()
    assert fake.alive() == {}
    assert fake.faults() == {}
    assert fake.get("copy_before") == 0
    again = Device(fake)
    assert fake.driver.cuEventQuery(event) == INVALID_HANDLE
    check(fake.driver.cuStreamSynchronize(again.stream()))


def test_names_that_are_none(fake):
    with pytest.raises(KeyError):
        fake.count("nothing")
    with pytest.raises(KeyError):
        fake.set(nothing=1)
    with pytest.raises(KeyError):
        fake.schedule("nothing")


# ---- processes of their own

SCRIPT = """
import ctypes, os, sys
import numpy as np
sys.path.insert(0, {tests!r})
from pathlib import Path
from helpers.device.fake_cuda import Fake, check
fake = Fake(Path({library!r}))
driver = fake.driver
check(driver.cuInit(0))
context, stream, to = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
check(driver.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0))
PAGE = 4096 * 16
check(driver.cuMemAlloc_v2(ctypes.byref(to), 4 * PAGE))
import mmap
memory = np.frombuffer(mmap.mmap(-1, 4 * PAGE), np.uint8)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # copies may outlive Python
at = memory.ctypes.data
check(driver.cuMemHostRegister_v2(at, 4 * PAGE, 1))
"""


def script(library: Path, code: str) -> subprocess.CompletedProcess[str]:
    head = SCRIPT.format(tests=str(Path(__file__).resolve().parents[1]), library=str(library))
    return run([sys.executable, "-P", "-c", head + code])


def test_the_host_can_not_read_device_memory(fake_cuda_library):
    done = script(fake_cuda_library, "print('here', flush=True); ctypes.string_at(to.value, 1)")
    assert (done.stdout, done.returncode) == ("here\n", -signal.SIGSEGV)


def test_the_ends_of_a_protected_source_may_be_written(fake_cuda_library):
    code = """
fake.set(protect=1)
fake.hold(stream)
check(driver.cuMemcpyHtoDAsync_v2(to, at + 100, 3 * PAGE, stream))
memory[:100] = memory[3 * PAGE + 100:] = 1
print("beside", flush=True)
if len(sys.argv) > 1:
    fake.go_on(stream)
    check(driver.cuStreamSynchronize(stream))
memory[2 * PAGE] = 1
print("within", fake.faults())
os._exit(0)
"""
    done = script(fake_cuda_library, code)
    assert (done.stdout, done.returncode) == ("beside\n", -signal.SIGSEGV)
    done = script(fake_cuda_library, "sys.argv.append('x')\n" + code)
    assert (done.stdout, done.returncode) == ("beside\nwithin {}\n", 0), done.stderr


def test_a_child_has_no_driver(fake_cuda_library):
    code = """
fake.schedule("slow_copy")
check(driver.cuMemcpyHtoDAsync_v2(to, at, PAGE, stream))
child = os.fork()
if child == 0:
    results = [driver.cuInit(0), driver.cuStreamSynchronize(stream), driver.cuCtxSetCurrent(context)]
    version = ctypes.c_int()
    results.append(driver.cuDriverGetVersion(ctypes.byref(version)))
    os._exit(0 if results == [3, 3, 3, 0] and fake.count("after_fork") == 3 else 1)
check(driver.cuStreamSynchronize(stream))
print(os.waitpid(child, 0)[1], fake.faults())
"""
    done = script(fake_cuda_library, code)
    assert (done.stdout, done.returncode, done.stderr) == ("0 {}\n", 0, "")


@pytest.mark.parametrize("is_held", [False, True])
def test_a_program_ends_while_copies_are_under_way(fake_cuda_library, is_held):
    code = """
fake.schedule("slow_copy")
for i in range(20):
    check(driver.cuMemcpyHtoDAsync_v2(to, at, PAGE, stream))
print("done")
"""
    done = script(fake_cuda_library, "fake.hold(stream)\n" * is_held + code)
    assert (done.stdout, done.returncode, done.stderr) == ("done\n", 0, "")


@pytest.mark.thorough
def test_many_threads_and_many_streams(device):
    fake, driver = device.fake, device.driver
    fake.schedule("jitter", seed=5)
    problems = []

    def work(number):
        try:
            device.enter()
            streams = [device.stream() for _ in range(3)]
            source, memory, events = device.pinned(PAGE), device.memory(3 * PAGE), [device.event() for _ in range(3)]
            source[:] = numbers(PAGE, number)
            expected = fake.hash(source)
            for stream, event, i in zip(streams, events, range(3), strict=True):
                check(device.copy(memory + i * PAGE, source, stream))
                device.record(event, stream)
            for (stream, _), i in itertools.product(zip(streams, events, strict=True), range(3)):
                check(driver.cuStreamWaitEvent(stream, events[i], 0))
                fake.consume(stream, memory + i * PAGE, PAGE, expected)
            for stream in streams:
                check(driver.cuStreamSynchronize(stream))
                check(driver.cuStreamDestroy_v2(stream))
            for event in events:
                check(driver.cuEventDestroy_v2(event))
            check(driver.cuMemFree_v2(memory))
            check(driver.cuMemHostUnregister(source.ctypes.data))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert fake.faults() == {}, fake.story()
    assert fake.happened()["consumers"] == 54
    check(driver.cuDevicePrimaryCtxRelease_v2(0))
    assert fake.faults() == {}
    assert fake.alive() == {}
