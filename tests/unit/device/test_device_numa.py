"""Page-locked memory near to the device: which node that is, and what the kernel is asked for."""

import ctypes
import mmap
import platform

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.device.devices import Plane, plane
from helpers.device.fake_cuda import build

from queuecore._core.device import driver, memory
from queuecore.data import Dataset

# mbind, get_mempolicy
CALLS = {"x86_64": (237, 239), "aarch64": (235, 236)}.get(platform.machine())
PREFERRED, OF_ADDRESS = 1, 2
PCI_BUS, PCI_DOMAIN = 33, 50

ROWS = np.arange(640, dtype=np.float32).reshape(64, 10)
KINDS = {
    "as it lies": Dataset.from_tensor_slices(ROWS).batch(8),
    "staged": Dataset.from_tensor_slices(ROWS).map(in_python(lambda x: {"x": x})).map(in_python(lambda x: x["x"])),
}


def policy(address):
    """Return how the kernel gives the page at an address: the mode, and the nodes as bits."""
    mode, nodes = ctypes.c_int(), (ctypes.c_ulong * 16)()
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong]
    if call(CALLS[1], ctypes.byref(mode), nodes, 1024, address, OF_ADDRESS) != 0:
        raise OSError(ctypes.get_errno(), "get_mempolicy")
    return mode.value, sum(part << 64 * i for i, part in enumerate(nodes))


def usual():
    """Return the policy of a page for which nothing was asked."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    return policy(ctypes.addressof(ctypes.c_char.from_buffer(page)))


def may_ask():
    """Whether the kernel, or a container, lets this process say where a page should be."""
    page, node = mmap.mmap(-1, mmap.PAGESIZE), ctypes.c_ulong(1)
    call = ctypes.CDLL(None).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_ulong] * 2, ctypes.c_void_p, *[ctypes.c_ulong] * 2]
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    try:
        return call(CALLS[0], address, len(page), PREFERRED, ctypes.byref(node), 65, 0) == 0 and policy(address) == (
            1,
            1,
        )
    except OSError:
        return False


needs_policies = pytest.mark.skipif(CALLS is None or not may_ask(), reason="nothing can be asked for here")


def opened(cuda, pci, ordinal=0):
    """Return the plane once more, where the system's devices are described in a folder."""
    memory.close_driver()
    driver.open_driver(str(cuda.fake.path), str(pci))
    return Plane(cuda.fake, ordinal)


@pytest.fixture
def cuda(fake_cuda_library):
    yield from plane(fake_cuda_library)


def described(folder, device, text):
    (folder / device).mkdir()
    (folder / device / "numa_node").write_text(text)


@pytest.mark.sampled(4)
@needs_policies
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("node", ["0", None])
def test_memory_is_asked_for_on_the_node(cuda, tmp_path, kind, node):
    if node is not None:
        described(tmp_path, "0000:01:00.0", f"{node}\n")
    there = opened(cuda, tmp_path)
    with iter(there.of(KINDS[kind])) as it:
        next(it)
        addresses = cuda.fake.registered()
        assert addresses
        assert {policy(address) for address in addresses} == {usual() if node is None else (PREFERRED, 1)}


def test_each_device_has_its_node(cuda, tmp_path):
    cuda.fake.set(devices=2)
    described(tmp_path, "0000:01:00.0", "3\n")
    described(tmp_path, "0000:02:00.0", "0\n")
    assert opened(cuda, tmp_path).device.numa_node == 3
    assert driver.device(1).numa_node == 0


def test_the_name_of_a_device_is_in_lower_case(cuda, tmp_path):
    described(tmp_path, "000c:af:00.0", "1\n")
    cuda.fake.attribute(PCI_BUS, 0xAF)
    cuda.fake.attribute(PCI_DOMAIN, 0xC)
    assert opened(cuda, tmp_path).device.numa_node == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", [None, "-1\n", "", "no\n", "1024\n", "9" * 400])
def test_a_node_that_isnt_known(cuda, tmp_path, text):
    if text is not None:
        described(tmp_path, "0000:01:00.0", text)
    there = opened(cuda, tmp_path)
    assert there.device.numa_node is None
    for got, wanted in zip(there.of(KINDS["as it lies"]), KINDS["as it lies"], strict=True):
        got.consume(wanted)
        del got


def test_a_node_that_the_machine_hasnt(cuda, tmp_path):
    """The kernel refuses, and memory comes from where it always does."""
    described(tmp_path, "0000:01:00.0", "1000\n")
    there = opened(cuda, tmp_path)
    assert there.device.numa_node == 1000
    with iter(there.of(KINDS["as it lies"])) as it:
        for got, wanted in zip(it, KINDS["as it lies"], strict=True):
            got.consume(wanted)
            del got
        assert it.stats()["pageable_copies"] == 0


def test_a_driver_that_doesnt_name_devices(cuda, tmp_path, fake_cuda_folder):
    described(tmp_path, "0000:01:00.0", "0\n")
    cuda.fake.fail("cuDeviceGetPCIBusId", 1, 101)
    assert opened(cuda, tmp_path).device.numa_node is None
    for old in plane(build(fake_cuda_folder, "-DNO_BATCH")):
        assert opened(old, tmp_path).device.numa_node is None
