"""The device plane on a GPU: how close to the link it comes, and what a step costs that it feeds. Without one: nothing.

- **Ceiling**: copies out of one page-locked arena, 1, 2 and 4 under way at a time, and the loader whose consumer does
  nothing. A ratio is of the best of the three in the same round. Beside it what the host alone gives: the same batches,
  not copied anywhere. Where that is less than the ceiling, the host is the limit and not the loader.
- **Steps** that read their batch and then do a fixed amount of arithmetic, fed by us, by PyTorch's DataLoader with
  ``pin_memory=True`` and ``non_blocking=True``, and by nobody: three batches that lie on the device take turns. With
  and without a thread of pure Python. A ratio is of resident batches in the same round, with the same thread.
- **Right bytes**: the steps add up all that they read, and after each run the sum is compared with NumPy's. All batches
  of an epoch are checked before anything is timed.

The data are rows of random bytes in memory, which take less time to read than files.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from gpu import Arena, Gpu, NoGpuError, checksum, total_of  # noqa: E402

KIB, MIB, GIB = 2**10, 2**20, 2**30
ROW = 64 * KIB
SLOTS = 3  # of the loader, its default; as many resident batches take turns
LINK_ALLOWS = 0.9  # the most of a step's time that the copy of its batch may take alone
OURS, RESIDENT, TORCH, TORCH_AHEAD = "queuecore", "resident", "DataLoader", "DataLoader, copied a step ahead"

LOCKING = ("filling", "page-locking", "unlocking")

clock = time.perf_counter


@dataclass(frozen=True)
class Plan:
    """What is measured, and for how long; fixed beforehand.

    Attributes
    ----------
    nbytes, arena : int
        Of the data, and of the page-locked arena.
    sizes : tuple of int
        Bytes of a batch, for the ceiling; all of `step_sizes` are among them.
    seconds, copy_seconds : float
        About as long each run lasts.
    warm_up : int
        Steps before each run that aren't timed; these include the batches that lie ready.
    limit : float
        Seconds after which no further cell is begun; those are listed as not measured.
    """

    nbytes: int = 512 * MIB
    arena: int = GIB
    sizes: tuple[int, ...] = (64 * KIB, 512 * KIB, MIB, 4 * MIB, 8 * MIB, 64 * MIB, 256 * MIB)
    depths: tuple[int, ...] = (1, 2, 4)
    step_sizes: tuple[int, ...] = (512 * KIB, 8 * MIB, 64 * MIB)
    steps_ms: tuple[float, ...] = (0.1, 1, 10)
    rounds: int = 5
    locks: int = 3
    seconds: float = 0.4
    copy_seconds: float = 0.15
    warm_up: int = 20
    limit: float = 400


QUICK = Plan(
    nbytes=128 * MIB,
    arena=128 * MIB,
    sizes=(512 * KIB, 8 * MIB),
    step_sizes=(512 * KIB, 8 * MIB),
    steps_ms=(0.1, 1),
    rounds=2,
    locks=1,
    seconds=0.05,
    copy_seconds=0.02,
)


# ---- names of all that is to be measured -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One line of the table: a name, a unit, and a target for the median."""

    name: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None


def text_of(nbytes: int) -> str:
    """Return a number of bytes as people write it."""
    return f"{nbytes / MIB:g} MiB" if nbytes >= MIB // 2 else f"{nbytes / KIB:g} KiB"


def ways_of(plan: Plan, nbytes: int) -> list[str]:
    """Return how batches of so many bytes are brought to the device for the ceiling."""
    return [f"page-locked, {depth} at a time" for depth in plan.depths] + ["pageable, 2 at a time"]


def title_of(ms: float, nbytes: int, busy: bool) -> str:
    """Name a step."""
    return f"step of {ms:g} ms, {text_of(nbytes)}{', busy thread' if busy else ''}"


def cells_of(plan: Plan) -> list[Cell]:
    """Return all lines, in the table's order."""
    cells = [Cell(f"{what} of the arena", "s/GiB") for what in LOCKING]
    for nbytes in plan.sizes:
        size = text_of(nbytes)
        cells += [Cell(f"{size}: {way}", "GB/s") for way in ways_of(plan, nbytes)]
        cells += [Cell(f"{size}: host alone", "GB/s"), Cell(f"{size}: loader", "GB/s")]
        target = 0.95 if nbytes >= 4 * MIB else None
        cells.append(Cell(f"{size}: loader", "of the ceiling", at_least=target))
    for nbytes, ms, busy in itertools.product(plan.step_sizes, plan.steps_ms, (False, True)):
        title = title_of(ms, nbytes, busy)
        cells.append(Cell(f"{title}: {RESIDENT}", "ms"))
        cells.append(Cell(f"{title}: {OURS}", "of resident", at_most=1.02))
        cells.append(Cell(f"{title}: {OURS}", "of the bound"))
        cells += [Cell(f"{title}: {OURS}, {which} of next()", "us") for which in ("p50", "p99")]
        cells += [Cell(f"{title}: {way}", "of resident") for way in peers_of(busy)]
        # 1 % is the noise where both are as quick as with resident batches.
        cells.append(Cell(f"{title}: {OURS}, of DataLoader's speed", "x", at_least=0.99))
    return cells


def run_of(name: str, busy: bool) -> str:
    """Name the runs of one way."""
    return f"{name}, busy thread" if busy else name


def peers_of(busy: bool) -> list[str]:
    """Return which ways of PyTorch are measured."""
    return [TORCH] if busy else [TORCH, TORCH_AHEAD]


class Table:
    """The values of all lines, or why there are none."""

    def __init__(self, cells: Sequence[Cell], why: str) -> None:
        self.cells = cells
        self.why = why
        self._values: dict[tuple[str, str], list[float]] = {}
        self._reasons: dict[tuple[str, str], str] = {}
        self._beyond: dict[tuple[str, str], str] = {}

    def put(self, name: str, unit: str, values: Sequence[float], beyond: str = "") -> None:
        """Set the values of a line; where they are `beyond` the target's reach, it says why it doesn't apply."""
        self._values[name, unit] = list(values)
        if beyond:
            self._beyond[name, unit] = beyond

    def say(self, begins: tuple[str, ...], why: str) -> None:
        """Say why lines whose names begin in one of these ways have no values, if nobody has said it yet."""
        for cell in self.cells:
            key = cell.name, cell.unit
            if cell.name.startswith(begins) and key not in self._values:
                self._reasons.setdefault(key, why)

    def findings(self) -> list[dict[str, Any]]:
        """Return all lines."""
        lines = []
        for cell in self.cells:
            key = cell.name, cell.unit
            if key not in self._values:
                why = self._reasons.get(key, self.why)
                lines.append(harness.unmeasured(*key, why, at_least=cell.at_least, at_most=cell.at_most))
            elif key in self._beyond:
                lines.append(harness.finding(*key, self._values[key]) | {"no_target": self._beyond[key]})
            else:
                values = self._values[key]
                lines.append(harness.finding(*key, values, at_least=cell.at_least, at_most=cell.at_most))
        return lines


# ---- where batches come from -----------------------------------------------------------------------------------------


class Feed:
    """Batches of `sums`, over and over.

    Attributes
    ----------
    sums : list of int
        Their checksums.
    taken : int
        How many there were.
    """

    def __init__(self, sums: list[int]) -> None:
        self.sums = sums
        self.taken = 0

    def take(self) -> tuple[int, Any]:
        """Return where the next batch begins on the device, and what keeps it there."""
        self.taken += 1
        return self._next()

    def _next(self) -> tuple[int, Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Stop what works for it."""


class Resident(Feed):
    """Batches that lie on the device."""

    def __init__(self, gpu: Any, batches: np.ndarray[Any, Any], sums: list[int]) -> None:
        super().__init__(sums[:SLOTS])
        self._memory = []
        for batch in batches[:SLOTS]:
            self._memory.append(gpu.allocate(batch.nbytes))
            gpu.copy(self._memory[-1].ptr, batch.ctypes.data, batch.nbytes)
        gpu.synchronize()

    def _next(self) -> tuple[int, Any]:
        memory = self._memory[(self.taken - 1) % len(self._memory)]
        return memory.ptr, memory


class Ours(Feed):
    """Those that `prefetch_to_device` brings."""

    def __init__(self, gpu: Any, dataset: Any, sums: list[int]) -> None:
        super().__init__(sums)
        self._address = gpu.address
        self._batches = iter(dataset.prefetch_to_device(f"cuda:{gpu.ordinal}", SLOTS))

    def _next(self) -> tuple[int, Any]:
        batch = next(self._batches)
        return self._address(batch), batch

    def close(self) -> None:
        self._batches.close()


class OnHost(Feed):
    """The loader's batches, not copied anywhere."""

    def __init__(self, dataset: Any) -> None:
        super().__init__([])
        self._batches = iter(dataset)

    def _next(self) -> tuple[int, Any]:
        return 0, next(self._batches)

    def close(self) -> None:
        self._batches.close()


class Batches:
    """The same for PyTorch: a dataset of whole batches, as parts of a tensor."""

    def __init__(self, data: Any, nbytes: int) -> None:
        self._batches = data.view(-1, nbytes)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> Any:
        return self._batches[number % len(self._batches)]


def torch_loader(torch: Any, batches: Batches, workers: int) -> Any:
    """Return an endless iterator of pinned batches."""
    loader = torch.utils.data.DataLoader(
        batches, batch_size=None, sampler=itertools.count(), num_workers=workers, pin_memory=True
    )
    return iter(loader)


class Torch(Feed):
    """Those of PyTorch, copied in the stream of the steps."""

    def __init__(self, torch: Any, gpu: Any, batches: Batches, sums: list[int], workers: int) -> None:
        super().__init__(sums)
        self._torch, self._device = torch, torch.device("cuda", gpu.ordinal)
        # The same stream as everybody's.
        torch.cuda.set_stream(torch.cuda.ExternalStream(gpu.stream.ptr, self._device))
        self._batches = torch_loader(torch, batches, workers)

    def _next(self) -> tuple[int, Any]:
        batch = next(self._batches).to(self._device, non_blocking=True)
        return batch.data_ptr(), batch

    def close(self) -> None:
        self._batches = None  # its workers end with it


class TorchAhead(Torch):
    """Those of PyTorch, copied one step ahead in a stream of their own."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._side = self._torch.cuda.Stream(self._device)
        self._waiting = self._copied()

    def _copied(self) -> Any:
        with self._torch.cuda.stream(self._side):
            return next(self._batches).to(self._device, non_blocking=True)

    def _next(self) -> tuple[int, Any]:
        batch, current = self._waiting, self._torch.cuda.current_stream(self._device)
        current.wait_stream(self._side)
        batch.record_stream(current)
        self._waiting = self._copied()
        return batch.data_ptr(), batch


# ---- runs ------------------------------------------------------------------------------------------------------------


def paced(go: Callable[[int], Any], warm_up: int, seconds: float) -> tuple[int, float]:
    """Do `warm_up` of something, then as many as take about so long; return how many these were, and their seconds."""
    begun = clock()
    go(warm_up)
    each = (clock() - begun) / warm_up
    count = max(warm_up // 2, math.ceil(seconds / max(each, 1e-7)))
    begun = clock()
    go(count)
    return count, clock() - begun


def copying(gpu: Any, target: int, source: int, room: int, nbytes: int, depth: int, plan: Plan) -> float:
    """Copy out of `room` bytes at `here`, piece by piece, `depth` at a time; return bytes a second."""
    events = [gpu.event() for _ in range(depth)]

    def go(count: int) -> None:
        for number in range(count):
            slot = number % depth
            events[slot].synchronize()
            gpu.copy(target + slot * nbytes, source + number * nbytes % room, nbytes)
            gpu.record(events[slot])
        gpu.synchronize()

    count, seconds = paced(go, 2 * depth, plan.copy_seconds)
    return count * nbytes / seconds


def taking(gpu: Any, feed: Feed, nbytes: int, plan: Plan) -> float:
    """Take batches and do nothing with them; return bytes a second."""

    def go(count: int) -> None:
        for _ in range(count):
            feed.take()
        gpu.synchronize()  # the last one is there

    count, seconds = paced(go, plan.warm_up, plan.copy_seconds)
    return count * nbytes / seconds


def checked(gpu: Any, feed: Feed, first: int, what: str) -> None:
    """Compare what the steps have read with what they had to read, from the `first` batch on."""
    if gpu.total() != total_of(feed.sums, first, feed.taken - first):
        raise SystemExit(f"{what}: wrong bytes in one of the batches {first} to {feed.taken - 1}")


def check_epoch(gpu: Any, feed: Feed, nbytes: int, subject: str) -> None:
    """Take each batch once, and compare them one by one."""
    gpu.total()
    for _ in feed.sums:
        first = feed.taken
        address, batch = feed.take()
        gpu.step(address, nbytes, 0)
        checked(gpu, feed, first, subject)
        del batch


@contextlib.contextmanager
def busy_thread(is_busy: bool) -> Iterator[None]:
    """Have a thread run pure Python, and hold the GIL all the time that it can get."""
    ended: list[bool] = []

    def burn() -> None:
        x = 1
        while not ended:
            for _ in range(1000):
                x = (x * 1103515245 + 12345) & 0x7FFFFFFF

    thread = threading.Thread(target=burn)
    if is_busy:
        thread.start()
    try:
        yield
    finally:
        ended.append(True)
        if is_busy:
            thread.join()


def stepping(gpu: Any, feed: Feed, nbytes: int, turns: int, busy: bool, subject: str, plan: Plan) -> dict[str, float]:
    """Take steps; return milliseconds a step by the clock and by the device, and quantiles of the calls for a batch."""
    waits: list[float] = []
    before = gpu.event()
    gpu.total()
    first = feed.taken

    def go(count: int) -> None:
        waits.clear()
        gpu.record(before)
        for _ in range(count):
            asked = clock()
            address, batch = feed.take()
            waits.append(clock() - asked)
            gpu.step(address, nbytes, turns)
            batch = None  # noqa: F841 - it is done with before the next one is taken
        gpu.synchronize()

    with busy_thread(busy):
        count, seconds = paced(go, plan.warm_up, plan.seconds)
        after = gpu.event()
        gpu.synchronize()
    checked(gpu, feed, first, subject)
    waits.sort()
    return {
        "steps": count,
        "ms": seconds / count * 1e3,
        "device_ms": gpu.milliseconds(before, after) / count,
        "next_p50_us": statistics.median(waits) * 1e6,
        "next_p99_us": waits[math.ceil(0.99 * len(waits)) - 1] * 1e6,
    }


def calibrated(gpu: Any, feed: Feed, nbytes: int, ms: float) -> tuple[int, float]:
    """Return how many turns make a step of so many milliseconds, by the device's events, and how long it is then."""

    def measured(turns: int) -> float:
        count = max(10, math.ceil(50 / ms))
        before = gpu.event()
        for _ in range(count):
            gpu.step(feed.take()[0], nbytes, turns)
        after = gpu.event()
        gpu.synchronize()
        return float(gpu.milliseconds(before, after)) / count

    low, high = 10_000, 110_000
    for _ in range(3):  # until the clocks are up
        measured(high)
    each = (measured(high) - measured(low)) / (high - low)
    turns = high
    for _ in range(3):
        turns = max(0, round(turns + (ms - measured(turns)) / each))
    return turns, measured(turns)


# ---- the parts -------------------------------------------------------------------------------------------------------


@dataclass
class Work:
    """What all parts share."""

    gpu: Any
    plan: Plan
    data: np.ndarray[Any, Any]
    table: Table
    peers: bool
    raw: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tensor: Any = None

    def batches(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Return the data, batch by batch."""
        return self.data.reshape(-1, nbytes)

    def dataset(self, nbytes: int) -> Any:
        """Return them as an endless dataset."""
        from queuecore.data import Dataset

        rows = Dataset.from_tensor_slices(self.data.reshape(-1, ROW))
        return rows.repeat().batch(nbytes // ROW, drop_remainder=True)


def locking(work: Work) -> Arena:
    """Time the arena's page-locking; return it, locked."""
    gpu, plan = work.gpu, work.plan
    times: dict[str, list[float]] = {subject: [] for subject in LOCKING}
    for _ in range(plan.locks):
        begun = clock()
        arena = Arena(plan.arena, work.data)
        filled = clock()
        gpu.lock(arena.address, arena.nbytes)
        locked = clock()
        times["filling"].append(filled - begun)
        times["page-locking"].append(locked - filled)
        gpu.unlock(arena.address)
        times["unlocking"].append(clock() - locked)
    gpu.lock(arena.address, arena.nbytes)
    work.raw["locking"] = times
    for subject, seconds in times.items():
        work.table.put(f"{subject} of the arena", "s/GiB", [one * GIB / plan.arena for one in seconds])
    return arena


def ceiling(work: Work, arena: Arena, nbytes: int) -> None:
    """Measure copies, the loader and the host, with batches of one size."""
    gpu, plan, table, size = work.gpu, work.plan, work.table, text_of(nbytes)
    room, flat = arena.nbytes // nbytes * nbytes, work.data.reshape(-1)
    target = gpu.allocate(max(plan.depths) * nbytes)
    dataset = work.dataset(nbytes)
    with contextlib.ExitStack() as stack:
        ours = Ours(gpu, dataset, [checksum(one) for one in work.batches(nbytes)])
        stack.callback(ours.close)
        check_epoch(gpu, ours, nbytes, f"{size}, {OURS}")
        host = OnHost(dataset)
        stack.callback(host.close)
        locked, pageable = (target.ptr, arena.address, room), (target.ptr, flat.ctypes.data, flat.nbytes)
        depths = [(f"page-locked, {depth} at a time", locked, depth) for depth in plan.depths]
        ways: list[tuple[str, Callable[[], float]]] = [
            (name, functools.partial(copying, gpu, *between, nbytes, depth, plan))
            for name, between, depth in (*depths, ("pageable, 2 at a time", pageable, 2))
        ]
        ways += [
            (name, functools.partial(taking, gpu, feed, nbytes, plan))
            for name, feed in (("host alone", host), ("loader", ours))
        ]
        runs = work.raw[f"ceiling, {size}"] = harness.rotate(ways, plan.rounds)
    for way, rates in runs.items():
        table.put(f"{size}: {way}", "GB/s", [rate / 1e9 for rate in rates])
    best = [max(some) for some in zip(*(runs[name] for name, _, _ in depths), strict=True)]
    table.put(f"{size}: loader", "of the ceiling", [a / b for a, b in zip(runs["loader"], best, strict=True)])
    if statistics.median(runs["host alone"]) < statistics.median(best):
        work.notes.append(
            f"{size}: the host alone gives {statistics.median(runs['host alone']) / 1e9:.1f} GB/s, "
            f"less than the link's {statistics.median(best) / 1e9:.1f}: it is the limit"
        )
    work.raw[f"ceiling, {size}"]["ceiling"] = best


def torch_data(work: Work, torch: Any) -> Any:
    """Return the data as a tensor; in shared memory if there is room, so that workers send it without copying it."""
    if work.tensor is None:
        work.tensor = torch.from_numpy(work.data)
        room = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
        # Too little of it ends the process, with a signal.
        if room is not None and room.f_bavail * room.f_frsize > 2 * work.data.nbytes:
            work.tensor.share_memory_()
    return work.tensor


def torch_feeds(work: Work, nbytes: int, sums: list[int], stack: contextlib.ExitStack) -> dict[str, Feed]:
    """Return PyTorch's ways, with as many workers as give the most batches."""
    gpu, plan = work.gpu, work.plan
    if not work.peers:
        raise ImportError("other loaders are left out (--no-peers)")
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise ImportError(f"PyTorch {torch.__version__} sees no GPU")
    data = torch_data(work, torch)
    batches, rates = Batches(data, nbytes), {}
    for workers in (0, 4) if data.is_shared() else (0,):
        loader = torch_loader(torch, batches, workers)

        def go(count: int, loader: Any = loader) -> None:
            for _ in range(count):
                next(loader)

        count, seconds = paced(go, plan.warm_up, plan.copy_seconds)
        rates[workers] = count * nbytes / seconds
        del loader, go
    workers = max(rates, key=rates.__getitem__)
    work.raw[f"DataLoader, {text_of(nbytes)}"] = {
        "torch": torch.__version__,
        "pinned bytes a second, by workers": rates,
        "workers": workers,
    }
    feeds: dict[str, Feed] = {}
    for name, kind in ((TORCH, Torch), (TORCH_AHEAD, TorchAhead)):
        feeds[name] = kind(torch, gpu, batches, sums, workers)
        stack.callback(feeds[name].close)
        check_epoch(gpu, feeds[name], nbytes, f"{text_of(nbytes)}, {name}")
    return feeds


def steps(work: Work, nbytes: int, over: Callable[[], bool]) -> None:
    """Measure steps of each length with batches of one size."""
    gpu, plan, size = work.gpu, work.plan, text_of(nbytes)
    sums = [checksum(one) for one in work.batches(nbytes)]
    with contextlib.ExitStack() as stack:
        feeds: dict[str, Feed] = {RESIDENT: Resident(gpu, work.batches(nbytes), sums)}
        feeds[OURS] = Ours(gpu, work.dataset(nbytes), sums)
        stack.callback(feeds[OURS].close)
        for name, feed in feeds.items():
            check_epoch(gpu, feed, nbytes, f"{size}, {name}")
        try:
            feeds |= torch_feeds(work, nbytes, sums, stack)
        except Exception as error:  # whatever it is, it costs nobody else anything
            work.raw[f"DataLoader, {size}"] = {"absent": f"{type(error).__name__}: {error}"}
        for ms in plan.steps_ms:
            if over():
                break
            turns, actual = calibrated(gpu, feeds[RESIDENT], nbytes, ms)

            def step_from(name: str, busy: bool, turns: int = turns, ms: float = ms) -> dict[str, float]:
                title = f"{title_of(ms, nbytes, busy)}, {name}"
                return stepping(gpu, feeds[name], nbytes, turns, busy, title, plan)

            ways = [
                (run_of(name, busy), functools.partial(step_from, name, busy))
                for busy in (False, True)
                for name in feeds
                if name in (RESIDENT, OURS, *peers_of(busy))
            ]
            runs = harness.rotate(ways, plan.rounds)
            work.raw[title_of(ms, nbytes, False)] = {"turns": turns, "device_ms_alone": actual, "runs": runs}
            for busy in (False, True):
                conclude(work, nbytes, ms, busy, runs)


def conclude(work: Work, nbytes: int, ms: float, busy: bool, runs: dict[str, list[dict[str, float]]]) -> None:
    """Make lines of the runs of one step."""
    table, title = work.table, title_of(ms, nbytes, busy)

    def times(name: str) -> list[float]:
        return [run["ms"] for run in runs[run_of(name, busy)]]

    def over_resident(name: str) -> list[float]:
        return [taken / base for taken, base in zip(times(name), resident, strict=True)]

    resident, fed = times(RESIDENT), times(OURS)
    both = work.raw.get(f"ceiling, {text_of(nbytes)}", {})
    if "ceiling" not in both:
        link = host = 0.0
    else:
        link, host = (nbytes / statistics.median(both[measure]) * 1e3 for measure in ("ceiling", "host alone"))
    step = statistics.median(resident)
    beyond = f"the copy alone takes {link:.3f} ms, of a step's {step:.3f}" if link > LINK_ALLOWS * step else ""
    if not link:
        beyond = "the ceiling wasn't measured"
    if host > LINK_ALLOWS * max(step, link):
        work.notes.append(f"{title}: the host alone needs {host:.3f} ms for a batch, which is the limit")
    table.put(f"{title}: {RESIDENT}", "ms", resident)
    table.put(f"{title}: {OURS}", "of resident", over_resident(OURS), beyond)
    if link:
        bound = [max(base, link) / ours for base, ours in zip(resident, fed, strict=True)]
        table.put(f"{title}: {OURS}", "of the bound", bound)
    for measure in ("p50", "p99"):
        waits = [run[f"next_{measure}_us"] for run in runs[run_of(OURS, busy)]]
        table.put(f"{title}: {OURS}, {measure} of next()", "us", waits)
    reason = work.raw[f"DataLoader, {text_of(nbytes)}"].get("absent")
    for name in peers_of(busy):
        if reason is None:
            table.put(f"{title}: {name}", "of resident", over_resident(name))
        else:
            table.say((f"{title}: {name}",), reason)
    if reason is None:
        speeds = [theirs / mine for theirs, mine in zip(times(TORCH), fed, strict=True)]
        table.put(f"{title}: {OURS}, of DataLoader's speed", "x", speeds)
    else:
        table.say((f"{title}: {OURS}, of DataLoader",), reason)
    table.say((f"{title}: {OURS}",), "the ceiling wasn't measured")


def measured(gpu: Any, plan: Plan, peers: bool) -> Work:
    """Measure all of it on a GPU."""
    begun = clock()
    words = np.random.default_rng(1).integers(0, 2**64, plan.nbytes // 8, np.uint64)
    work = Work(gpu, plan, words.view(np.uint8), Table(cells_of(plan), "not measured"), peers)
    work.raw["idle"] = gpu.now()

    def over() -> bool:
        return clock() - begun > plan.limit

    def tried(begins: tuple[str, ...], part: Callable[..., Any], *arguments: Any) -> Any:
        """Measure a part; where that can't be done, say so, and leave it at that: the others can be."""
        result = None
        try:
            if not over():
                result = part(work, *arguments)
            reason = f"no time: {plan.limit:g} s were over"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            print(f"    {begins[0]}: {reason}", file=sys.stderr, flush=True)
        finally:
            gpu.free()
        work.table.say(begins, reason)
        return result

    arena = tried(tuple(f"{what} of the arena" for what in LOCKING), locking)
    if arena is None:
        work.table.say(tuple(f"{text_of(nbytes)}: " for nbytes in plan.sizes), "there is no page-locked arena")
    else:
        for nbytes in plan.sizes:
            tried((f"{text_of(nbytes)}: ",), ceiling, arena, nbytes)
        gpu.unlock(arena.address)
    work.raw["after copies"] = gpu.now()
    for nbytes in plan.step_sizes:
        tried(tuple(title_of(ms, nbytes, False) for ms in plan.steps_ms), steps, nbytes, over)
    work.raw["after steps"] = gpu.now()
    work.raw["seconds"] = clock() - begun
    return work


def run(options: harness.Options) -> dict[str, Any]:
    """Measure all of it, or say why not."""
    plan = QUICK if options.quick else Plan()
    parameters: dict[str, Any] = {**vars(plan), "row": ROW, "slots": SLOTS, "gpu": None}
    subject = "copies to a GPU, and steps fed by them"
    try:
        gpu = Gpu()
    except NoGpuError as error:
        table = Table(cells_of(plan), f"no GPU: {error}")
        return harness.report("device", subject, table.findings(), {}, parameters=parameters)
    parameters["gpu"] = gpu.about()
    work = measured(gpu, plan, options.peers)
    return harness.report("device", subject, work.table.findings(), work.raw, parameters=parameters, notes=work.notes)


if __name__ == "__main__":
    harness.main(run, cores=None)
