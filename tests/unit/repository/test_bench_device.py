"""The benchmark of the device plane, on a GPU that there isn't: CuPy's calls are counted and not waited for."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from helpers.device.devices import plane
from helpers.device.kernels import compiled, cxx

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are in no sdist", allow_module_level=True)


def load(name):
    """Import one of them, and leave no trace on the path where modules are looked for."""
    path = list(sys.path)
    try:
        spec = importlib.util.spec_from_file_location(name, FOLDER / "e2e" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look up the module of their annotations
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path[:] = path


bench = load("bench_device")
host_plane = load("bench_host_plane")
gpu_module = sys.modules["gpu"]
harness = sys.modules["harness"]

KIB = 2**10
LINK, PAGEABLE, HOST = 64e6, 16e6, 200e6  # bytes a second
TURN, READ = 1e-9, 1e12  # seconds of a turn, bytes a second of a kernel
LOCK = 0.5  # seconds for a GiB
PLAN = bench.Plan(
    nbytes=64 * KIB,
    arena=64 * KIB,
    sizes=(4 * KIB, 16 * KIB),
    step_sizes=(4 * KIB, 16 * KIB),
    steps_ms=(0.1, 1),
    rounds=3,
    locks=2,
    seconds=0.01,
    copy_seconds=0.005,
    warm_up=6,
)


class Machine:
    """A host's time, streams' and a link's; memory is real, and what is asked for is done at once."""

    def __init__(self):
        self.now = 0.0
        self.link = 0.0  # busy until then
        self.locked = {}
        self.memory = []
        self.current = None
        self.busy = []  # for each run of steps

    def clock(self):
        self.now += 1e-7
        return self.now

    def host(self, seconds):
        self.now += seconds

    def sent(self, begin, nbytes):
        """Return when a copy is over that can begin then."""
        self.link = max(begin, self.link) + nbytes / LINK
        return self.link

    def module(self):
        """Return what stands for CuPy."""
        machine = self

        class CUDARuntimeError(RuntimeError):
            pass

        class Stream:
            def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
                assert non_blocking
                self.until = 0.0
                self.ptr = id(self)

            def use(self):
                machine.current = self

            def synchronize(self):
                machine.host(1e-6)
                machine.now = max(machine.now, self.until)

        class Event:
            def __init__(self, block=False, disable_timing=False, interprocess=False):
                pass

            def record(self, stream=None):
                machine.host(1e-6)
                self.time = max(stream.until, machine.now)

            def synchronize(self):
                machine.host(1e-6)
                machine.now = max(machine.now, self.time)

        class Device:
            def __init__(self, device=None):
                pass

            def use(self):
                pass

        class RawKernel:
            def __init__(self, code, name):
                assert f"void {name}(" in code

            def __call__(self, grid, block, args):
                assert all(type(one) is tuple for one in (grid, block))
                address, items, turns, total = args
                assert all(type(one) is int for one in args)
                stream = machine.current
                machine.host(2e-6)
                stream.until = max(stream.until, machine.now) + items * 16 / READ + turns * TURN
                batch = np.frombuffer((ctypes.c_uint8 * (16 * items)).from_address(address), np.uint8)
                place = ctypes.c_uint64.from_address(total)
                place.value += gpu_module.checksum(batch)  # ctypes drops what is beyond 64 bits

        def alloc(size):
            array = np.full(size, 0xCD, np.uint8)
            machine.memory.append(array)
            return types.SimpleNamespace(ptr=array.ctypes.data)

        def copy(there, here, size, kind, stream):
            assert stream == machine.current.ptr
            machine.host(3e-6)
            ctypes.memmove(there, here, size)
            if kind == 2:
                return
            assert kind == 1
            if any(begin <= here and here + size <= begin + length for begin, length in machine.locked.items()):
                machine.current.until = machine.sent(max(machine.current.until, machine.now), size)
            else:
                machine.now = machine.current.until = max(machine.current.until, machine.now) + size / PAGEABLE

        def lock(ptr, size, flags):
            assert flags == 1
            assert ptr % 2**21 == 0
            machine.host(LOCK * size / 2**30)
            machine.locked[ptr] = size

        runtime = types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13020,
            getDeviceCount=lambda: 1,
            getDeviceProperties=lambda device: {"name": b"None at all", "multiProcessorCount": 2},
            deviceGetPCIBusId=lambda device: "0000:FF:00.0",
            memcpyAsync=copy,
            memsetAsync=lambda ptr, value, size, stream: ctypes.memset(ptr, value, size),
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            hostRegister=lock,
            hostUnregister=lambda ptr: machine.locked.pop(ptr),
        )
        cuda = types.SimpleNamespace(
            runtime=runtime,
            Stream=Stream,
            Event=Event,
            Device=Device,
            alloc=alloc,
            get_elapsed_time=lambda before, after: (after.time - before.time) * 1e3,
        )
        pool = types.SimpleNamespace(free_all_blocks=lambda: None)
        return types.SimpleNamespace(
            __version__="0", cuda=cuda, RawKernel=RawKernel, get_default_memory_pool=lambda: pool
        )


class Loader(bench.Feed):
    """Brings batches into three slots, each when the one that was there is done with; `late` is lost at each step.

    One call in ten takes 50 us more, of the host's time alone.
    """

    def __init__(self, machine, batches, sums, late=0.0, wrong=None):
        super().__init__(sums)
        self.machine, self.batches, self.late, self.wrong = machine, batches, late, wrong
        self.slots = [np.empty_like(batches[0]) for _ in range(3)]
        self.done = [0.0] * 3
        self.ready = 0.0
        self.closed = False

    def _next(self):
        machine, number, slot = self.machine, self.taken - 1, (self.taken - 1) % 3
        self.done[slot - 1] = max(machine.current.until, machine.now)  # of the batch before this one
        self.ready = max(self.ready, self.done[slot]) + self.slots[slot].nbytes / LINK
        self.slots[slot][:] = self.batches[number % len(self.batches)]
        if number == self.wrong:
            self.slots[slot][-1] ^= 1
        machine.host(52e-6 if number % 10 == 9 else 2e-6)
        machine.current.until = max(machine.current.until, self.ready, machine.now) + self.late
        return self.slots[slot].ctypes.data, None

    def close(self):
        self.closed = True


class OnHost(bench.Feed):
    def __init__(self, machine, nbytes):
        super().__init__([])
        self.machine, self.nbytes = machine, nbytes

    def _next(self):
        self.machine.host(self.nbytes / HOST)
        return 0, None


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setitem(sys.modules, "cupy", machine.module())
    monkeypatch.setattr(bench, "clock", machine.clock)
    monkeypatch.setattr(gpu_module.Gpu, "now", lambda self: {})
    monkeypatch.setattr(bench.Work, "dataset", lambda self, nbytes: nbytes)  # what the feeds below are told
    monkeypatch.setattr(bench, "OnHost", lambda nbytes: OnHost(machine, nbytes))
    monkeypatch.setattr(harness, "gc", types.SimpleNamespace(collect=lambda: None))
    # Its time is real.
    monkeypatch.setattr(bench, "busy_thread", lambda wanted: contextlib.nullcontext(machine.busy.append(wanted)))
    return machine


def measured(machine, monkeypatch, plan=PLAN, late=0.0, theirs=0.0, wrong=None):
    """Measure all with a loader that loses time at each step, beside others that lose another time."""
    made = []

    def ours(gpu, nbytes, sums):
        data = np.random.default_rng(1).integers(0, 2**64, plan.nbytes // 8, np.uint64).view(np.uint8)
        made.append(Loader(machine, data.reshape(-1, nbytes), sums, late, wrong))
        return made[-1]

    def peers(work, nbytes, sums, stack):
        work.raw[f"DataLoader, {bench.text_of(nbytes)}"] = {}
        return {name: Loader(machine, work.batches(nbytes), sums, theirs) for name in (bench.TORCH, bench.TORCH_AHEAD)}

    monkeypatch.setattr(bench, "Ours", ours)
    monkeypatch.setattr(bench, "torch_feeds", peers)
    work = bench.measured(bench.Gpu(), plan, True)
    assert all(one.closed for one in made)
    assert not machine.locked
    return work, {(one["name"], one["unit"]): one for one in work.table.findings()}


def test_a_perfect_loader(machine, monkeypatch):
    work, lines = measured(machine, monkeypatch)
    assert not [one for one in lines.values() if "not_measured" in one]

    def median(name, unit):
        return lines[name, unit]["median"]

    assert median("page-locking of the arena", "s/GiB") == pytest.approx(LOCK, rel=0.01)
    for size, nbytes in (("4 KiB", 4 * KIB), ("16 KiB", 16 * KIB)):
        assert median(f"{size}: page-locked, 2 at a time", "GB/s") == pytest.approx(LINK / 1e9, rel=0.01)
        one = nbytes / (nbytes / LINK + 3e-6) / 1e9  # the call for a copy, while none is under way
        assert median(f"{size}: page-locked, 1 at a time", "GB/s") == pytest.approx(one, rel=0.01)
        assert median(f"{size}: pageable, 2 at a time", "GB/s") == pytest.approx(PAGEABLE / 1e9, rel=0.05)
        assert median(f"{size}: host alone", "GB/s") == pytest.approx(HOST / 1e9, rel=0.05)
        assert median(f"{size}: loader", "GB/s") == pytest.approx(LINK / 1e9, rel=0.05)
        assert median(f"{size}: loader", "of the ceiling") == pytest.approx(1, rel=0.05)
    assert not work.notes
    for (size, nbytes), ms, busy in itertools.product(
        (("4 KiB", 4 * KIB), ("16 KiB", 16 * KIB)), (0.1, 1), ("", ", busy thread")
    ):
        title = f"step of {ms:g} ms, {size}{busy}"
        link = nbytes / LINK * 1e3
        assert median(f"{title}: resident", "ms") == pytest.approx(ms, rel=0.02)
        assert median(f"{title}: queuecore", "of resident") == pytest.approx(max(1, link / ms), rel=0.02)
        assert median(f"{title}: queuecore", "of the bound") == pytest.approx(1, rel=0.02)
        assert median(f"{title}: DataLoader", "of resident") == pytest.approx(max(1, link / ms), rel=0.02)
        line = lines[f"{title}: queuecore", "of resident"]
        if link > ms:
            assert "target" not in line
            assert line["no_target"] == f"the copy alone takes {link:.3f} ms, of a step's {ms:.3f}"
        else:
            assert line["reached"]
            assert line["target"] == "<= 1.02"
        assert lines[f"{title}: queuecore, of DataLoader's speed", "x"]["reached"]
        p50, p99 = (median(f"{title}: queuecore, {which} of next()", "us") for which in ("p50", "p99"))
        assert p50 == pytest.approx(2, abs=0.2)
        assert p99 == pytest.approx(52, abs=0.2)
        for one in work.raw[f"step of {ms:g} ms, {size}"]["runs"][f"queuecore{busy}"]:
            assert one["device_ms"] == pytest.approx(one["ms"], rel=0.02)


def test_a_loader_that_is_late(machine, monkeypatch):
    _, lines = measured(machine, monkeypatch, late=1e-4, theirs=5e-5)
    line = lines["step of 1 ms, 4 KiB: queuecore", "of resident"]
    assert line["median"] == pytest.approx(1.1, rel=0.01)
    assert line["reached"] is False
    assert lines["step of 1 ms, 4 KiB: queuecore", "of the bound"]["median"] == pytest.approx(1 / 1.1, rel=0.01)
    assert lines["step of 1 ms, 4 KiB: DataLoader", "of resident"]["median"] == pytest.approx(1.05, rel=0.01)
    line = lines["step of 1 ms, 4 KiB: queuecore, of DataLoader's speed", "x"]
    assert line["median"] == pytest.approx(1.05 / 1.1, rel=0.01)
    assert line["reached"] is False
    assert lines["4 KiB: loader", "of the ceiling"]["median"] == pytest.approx(64 / 100, rel=0.05)


def test_a_host_that_is_the_limit(machine, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "HOST", LINK / 2)
    work, _ = measured(machine, monkeypatch)
    assert "4 KiB: the host alone gives 0.0 GB/s, less than the link's 0.1: it is the limit" in work.notes
    assert any(note.startswith("step of 0.1 ms, 4 KiB: the host alone needs 0.128 ms") for note in work.notes)
    assert not any("1 ms, 4 KiB" in note for note in work.notes if "0.1 ms" not in note)


@pytest.mark.parametrize("wrong", [2, 100])  # in the check beforehand, and later
def test_a_wrong_byte_ends_it(machine, monkeypatch, wrong):
    with pytest.raises(SystemExit, match="wrong bytes in one of the batches"):
        measured(machine, monkeypatch, wrong=wrong)


def test_turns(machine, monkeypatch):
    """Each round has every way once, with and without the busy thread, and begins with another one."""
    told = []
    kept = bench.stepping

    def stepping(gpu, feed, nbytes, turns, busy, what, plan):
        told.append((what, busy))
        return kept(gpu, feed, nbytes, turns, busy, what, plan)

    monkeypatch.setattr(bench, "stepping", stepping)
    measured(machine, monkeypatch)
    ways = ["resident", "queuecore", "DataLoader", "DataLoader, copied a step ahead"]
    ways += [f"busy thread, {name}" for name in ways[:3]]
    first = [what.removeprefix("step of 0.1 ms, 4 KiB, ") for what, _ in told[: 4 * len(ways)]]
    for number, at in enumerate(range(0, len(first), len(ways))):
        begin = (number - 1) % len(ways)  # one round comes before those that count
        assert first[at : at + len(ways)] == ways[begin:] + ways[:begin]
    assert all(busy == ("busy thread" in what) for what, busy in told)
    assert machine.busy == [busy for _, busy in told]


def test_the_busy_thread():
    """It is there where it is wanted, and ends."""
    before = threading.active_count()
    with bench.busy_thread(False):
        assert threading.active_count() == before
    with bench.busy_thread(True):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_what_goes_wrong_costs_its_own_lines_only(machine, monkeypatch):
    def refuse(*_):
        raise MemoryError("no more pages")

    with monkeypatch.context() as patch:
        patch.setattr(gpu_module.Gpu, "lock", refuse)
        _, lines = measured(machine, patch)
    assert lines["filling of the arena", "s/GiB"]["not_measured"] == "MemoryError: no more pages"
    assert lines["16 KiB: loader", "of the ceiling"]["not_measured"] == "there is no page-locked arena"
    assert lines["step of 1 ms, 4 KiB: queuecore", "of the bound"]["not_measured"] == "the ceiling wasn't measured"
    line = lines["step of 1 ms, 4 KiB: queuecore", "of resident"]
    assert line["median"] == pytest.approx(1, rel=0.01)
    assert line["no_target"] == "the ceiling wasn't measured"


def test_the_limit(machine, monkeypatch):
    _, lines = measured(machine, monkeypatch, plan=bench.Plan(**{**vars(PLAN), "limit": 0.5}))
    reasons = {one.get("not_measured") for one in lines.values()}
    assert reasons == {None, "no time: 0.5 s were over"}


def test_no_peers(machine, monkeypatch):
    feeds = bench.torch_feeds
    plan = bench.Plan(**{**vars(PLAN), "steps_ms": (1,), "step_sizes": (4 * KIB,), "rounds": 1})
    with monkeypatch.context() as patch:
        _, lines = measured(machine, patch, plan)
        assert not [one for one in lines.values() if "not_measured" in one]
        monkeypatch.setattr(bench, "torch_feeds", feeds)
    work = bench.Work(None, plan, None, None, False)
    with pytest.raises(ImportError, match="--no-peers"):
        bench.torch_feeds(work, 4 * KIB, [], None)


def no_module(module):
    return None


def no_driver(module):
    module.cuda.runtime.driverGetVersion = lambda: 0
    return module


def no_device(module):
    module.cuda.runtime.getDeviceCount = lambda: 0
    return module


def old_driver(module):
    def refuse():
        raise module.cuda.runtime.CUDARuntimeError("cudaErrorInsufficientDriver:\n too old")

    module.cuda.runtime.getDeviceCount = refuse
    return module


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (no_module, "CuPy can't be imported"),
        (no_driver, "there is no CUDA driver"),
        (no_device, "the driver shows 0 devices"),
        (old_driver, "cudaErrorInsufficientDriver: too old"),
    ],
)
@pytest.mark.parametrize("quick", [False, True])
def test_without_a_gpu_there_is_no_figure(machine, monkeypatch, capsys, change, why, quick):
    monkeypatch.setitem(sys.modules, "cupy", change(machine.module()))
    result = bench.run(harness.Options(quick=quick))
    assert len(result["findings"]) == len(bench.cells_of(bench.QUICK if quick else bench.Plan()))
    for one in result["findings"]:
        assert one["not_measured"].startswith(f"no GPU: {why}")
        assert set(one) <= {"name", "unit", "not_measured", "target", "reached"}
        assert one.get("reached") is None
    assert result["raw"] == {}
    assert result["parameters"]["gpu"] is None
    harness.print_report(result)
    out = capsys.readouterr().out
    assert out.count("no GPU: ") == len(result["findings"])
    assert "reached" not in out
    assert "MISSED" not in out


def test_the_lines_are_those_of_the_issue():
    cells = {(one.name, one.unit): one for one in bench.cells_of(bench.Plan())}
    assert len(cells) == len(bench.cells_of(bench.Plan()))
    of_ceiling = {name: one.at_least for (name, unit), one in cells.items() if unit == "of the ceiling"}
    assert {name for name, target in of_ceiling.items() if target == 0.95} == {
        f"{size} MiB: loader" for size in (4, 8, 64, 256)
    }
    assert sum(one.at_most == 1.02 for one in cells.values()) == 3 * 3 * 2
    assert set(bench.Plan().step_sizes) <= set(bench.Plan().sizes)
    assert not any(bench.Plan().nbytes % size for size in bench.Plan().sizes)


@pytest.fixture
def cuda(fake_cuda_library):
    yield from plane(fake_cuda_library)


@pytest.mark.thorough
def test_ours_takes_the_loader_s_batches(cuda):
    """The real loader, on a driver that is none: the addresses and the bytes are right, and slots go back."""
    data = np.random.default_rng(3).integers(0, 256, (24, 64 * KIB), np.uint8)
    gpu = types.SimpleNamespace(ordinal=0, address=lambda array: array.address)
    asked = []

    def there(*given):
        asked.append(given)
        return cuda.of(bench.Work(gpu, PLAN, data, None, False).dataset(128 * KIB))

    ours = bench.Ours(gpu, types.SimpleNamespace(prefetch_to_device=there), [0] * 12)
    assert asked == [("cuda:0", 3)]
    for number in range(30):
        address, batch = ours.take()
        cuda.fake.drain()
        assert cuda.fake.read(address, 128 * KIB) == data.reshape(12, -1)[number % 12].tobytes()
        del batch
    assert ours.taken == 30
    ours.close()


def test_the_kernel(tmp_path):
    """Its sum is NumPy's, whatever the batch; compiled for the host, where a block has one thread."""
    source = tmp_path / "step.cpp"
    source.write_text(
        """
        #include <cmath>
        #define __global__ __attribute__((visibility("default")))
        #define __shared__
        #define __syncthreads()
        using std::fmaf;
        struct uint4 { unsigned x, y, z, w; };
        struct { unsigned x; } static blockIdx = {0}, blockDim = {1}, threadIdx = {0}, gridDim = {1};
        static void atomicAdd(unsigned long long* at, unsigned long long what) { *at += what; }
        """
        + gpu_module.STEP
    )
    made = tmp_path / "step.so"
    subprocess.run([cxx(), "-std=c++17", "-O1", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    step = ctypes.CDLL(str(made)).step
    step.argtypes = [ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_ulonglong, ctypes.c_void_p]
    total = np.zeros(1, np.uint64)
    batches = np.random.default_rng(2).integers(0, 256, (5, 4096), np.uint8)
    for batch in batches:
        step(batch.ctypes.data, batch.nbytes // 16, 0, total.ctypes.data)
        step(batch.ctypes.data, batch.nbytes // 16, 1000, total.ctypes.data)
    sums = [sum((2 * i + 1) * int(word) for i, word in enumerate(one.view(np.uint32))) % 2**64 for one in batches]
    assert [gpu_module.checksum(one) for one in batches] == sums
    assert int(total[0]) == 2 * sum(sums) % 2**64


def test_the_kernel_compiles_for_the_device():
    assert compiled(gpu_module.STEP, "sm_90")


def test_sums_of_batches_in_turns():
    sums = [2**63 + 5, 7, 11]
    for first, count in itertools.product(range(7), range(8)):
        wanted = sum(sums[(first + at) % 3] for at in range(count)) % 2**64
        assert gpu_module.total_of(sums, first, count) == wanted


@pytest.mark.parametrize(("count", "first"), [(3, 1), (6, 1), (8, 1), (9, 2), (15, 4), (21, 6), (41, 14), (50, 18)])
def test_the_interval_of_a_median(count, first):
    """The order statistics are those of the sign test's tables."""
    values = list(range(1, count + 1))
    np.random.default_rng(count).shuffle(values)
    assert host_plane.interval(values) == (first, count + 1 - first)
