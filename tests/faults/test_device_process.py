"""The device plane and the process: its end at any moment, forks, drivers that are none. On the fake driver."""

import textwrap

import pytest
from helpers.device.fake_cuda import SCHEDULES
from helpers.process import run_python

HEAD = """
    import os, sys, threading
    from pathlib import Path
    import numpy as np
    import queuecore as qc
    from helpers.device.devices import Plane
    from helpers.device.fake_cuda import Fake
    from helpers.data.functions import in_python
    from queuecore._core.device import driver, memory, pinned
    from queuecore._core.device.staged import Staged
    from queuecore.data import Dataset

    fake = Fake(Path(sys.argv[1]))
    driver.open_driver(sys.argv[1])
    cuda = Plane(fake)
    rows = np.arange(4000, dtype=np.float32).reshape(400, 10)
    KINDS = {
        "as it lies": Dataset.from_tensor_slices(rows).repeat().batch(8),
        "staged": Dataset.from_tensor_slices(rows).repeat().map(in_python(lambda x: {"x": x})).map(
            in_python(lambda x: x["x"])).batch(8),
    }
"""


def child(path, code, *arguments):
    done = run_python(textwrap.dedent(HEAD) + textwrap.dedent(code), str(path), *arguments, timeout=50)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", ["as it lies", "staged"])
def test_the_program_ends_in_the_middle(fake_cuda_library, kind, schedule):
    """After so many batches, with some held; with and without a batch in the hands of another thread."""
    code = """
    kind, schedule, count, other = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] == "True"
    fake.schedule(schedule, count)
    cuda.stream()
    it = iter(cuda.of(KINDS[kind], buffers=5))
    for _ in range(count):
        kept = next(it)
    if other:
        threading.Thread(target=lambda: sum(x.nbytes for x in it), daemon=True).start()
    """
    for count, other in ((0, False), (1, False), (2, True), (7, False), (12, True)):
        child(fake_cuda_library, code, kind, schedule, str(count), str(other))


@pytest.mark.thorough
def test_a_fork(fake_cuda_library):
    code = """
    its = {name: iter(cuda.of(ds)) for name, ds in KINDS.items()}
    kept = [next(it) for it in its.values()]
    waiting = driver.device(0)
    calls = fake.count("calls")
    child = os.fork()
    if child == 0:
        for it in its.values():
            try:
                next(it)
            except qc.errors.ForkedPipelineError:
                pass
            else:
                os._exit(1)
        try:
            driver.device(0)
        except qc.errors.ForkedPipelineError as error:
            if "spawn" not in str(error):
                os._exit(2)
        else:
            os._exit(3)
        try:
            qc.device.record_stream(kept, 1)
        except qc.errors.ForkedPipelineError:
            pass
        else:
            os._exit(6)
        kept.clear()
        for it in its.values():
            it.close()
        its.clear()
        del it
        import gc
        gc.collect()
        # The host goes on, and says so.
        import logging
        logging.disable()
        if [x.tolist() for x in Dataset.range(3).prefetch_to_device("auto")] != [0, 1, 2]:
            os._exit(4)
        os._exit(5 if fake.count("after_fork") else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for it in its.values():
        for at in range(1, 20):
            next(it).consume(rows[8 * at : 8 * at + 8])
    fake.drain()
    assert not fake.faults(), fake.story()
    """
    child(fake_cuda_library, code)


@pytest.mark.thorough
def test_a_fork_leaves_out_page_locked_memory(fake_cuda_library):
    """The child doesn't get it, and what the child puts at these addresses stays as it is, whatever ends there."""
    code = """
    import ctypes, gc, mmap
    its = {name: iter(cuda.of(ds)) for name, ds in KINDS.items()}
    kept = [next(it) for it in its.values()]
    staged = Staged(cuda.device, 2)
    assert staged.put([np.arange(5000)]) == [0]
    locked, ranges = fake.count("registered_bytes"), []  # first: more may follow
    with open("/proc/self/smaps") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                first, last = (int(word, 16) for word in words[0].split("-"))
            elif words[0] == "VmFlags:" and "dc" in words and "io" not in words:  # not copied by a fork
                ranges.append((first, last - first))
    assert 0 < locked <= sum(nbytes for _, nbytes in ranges), (locked, ranges)
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        for first, nbytes in ranges:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000  # MAP_FIXED_NOREPLACE: it is free here
            if libc.mmap(first, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != first:
                os._exit(2)
            ctypes.memset(first, 0x5a, nbytes)
        for refused in (lambda: staged.put([np.arange(5000)]), staged.wait, lambda: staged.take(None, 0)):
            try:
                refused()
            except qc.errors.ForkedPipelineError:
                pass
            else:
                os._exit(3)
        kept.clear()
        its.clear()
        del staged, refused
        gc.collect()
        pinned._shutdown()  # as at the end of the program
        for first, nbytes in ranges:
            if ctypes.string_at(first, nbytes) != b"\\x5a" * nbytes:
                os._exit(4)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    child(fake_cuda_library, code)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("result", "says"),
    [(100, "finds no device"), (34, "the toolkit's stub"), (3, "cuInit failed"), (999, "cuInit failed")],
)
def test_a_driver_that_refuses(fake_cuda_library, result, says):
    code = """
    import logging
    memory.close_driver()
    fake.set(init_result=int(sys.argv[2]))
    try:
        driver.open_driver(sys.argv[1])
    except qc.errors.DeviceUnavailableError as error:
        assert sys.argv[3] in str(error), error
    else:
        sys.exit("it was opened")
    logging.basicConfig(stream=sys.stdout)
    assert [x.tolist() for x in Dataset.range(3).prefetch_to_device("auto")] == [0, 1, 2]
    """
    assert says in child(fake_cuda_library, code, str(result), says)


def test_a_library_that_is_no_driver(tmp_path):
    code = """
    import queuecore as qc
    from queuecore._core.device import driver, memory
    for path, says in (("/nowhere/libcuda.so.1", "no CUDA driver"), ("libm.so.6", "it has no cuInit")):
        memory.close_driver()
        try:
            driver.open_driver(path)
        except qc.errors.DeviceUnavailableError as error:
            assert says in str(error), error
        else:
            raise SystemExit("it was opened")
    """
    done = run_python(textwrap.dedent(code), timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
