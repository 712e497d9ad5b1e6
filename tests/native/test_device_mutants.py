"""Mistakes in the transfer to a device: the fake driver must find every one of them, on one schedule or another.

As test_mutants.py: one copy of the package, of which only the folder `device` is compiled anew, and each mistake in a
process of its own (helpers.device.transfers). Under most schedules most mistakes do no harm, so each says where it must
show. The same copy without a mistake passes all workloads on all schedules.

What can't be shown here is the order of memory between threads: that is the thread sanitizer's (test_sanitizers.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.device.fake_cuda import SCHEDULES

sys.path.insert(0, str(Path(__file__).parent))
from mutants import ROOT, VARIABLE, Edit, Mistake, build, sources  # noqa: E402

sys.path.pop(0)

spec = importlib.util.find_spec("queuecore")
PACKAGE = Path(spec.origin).parent if spec and spec.origin else None
if PACKAGE != ROOT / "queuecore" or os.environ.get("QUEUECORE_SANITIZED_TREE"):
    pytest.skip("for the package that is built here", allow_module_level=True)

# Until a process that should have ended counts as one that never will.
SHORTLY, LONG = 1.5, 30.0

# Whether a mistake does harm depends on the threads' luck too: beside other work a run may show nothing.
ROUNDS = 5


@dataclass(frozen=True)
class Planted(Mistake):
    """A mistake, the workloads that show it, and the schedules on which each of them must."""

    workloads: tuple[str, ...]
    schedules: tuple[str, ...]
    patience: float


def row(name: str, workloads: str, schedules: str, *edits: tuple[str, ...], patience: float = LONG) -> Planted:
    """Return a mistake; the first words of each edit are a module of the device plane and a function of it."""
    on = SCHEDULES if schedules == "all" else tuple(schedules.split())
    places = (place.split(" ", 1) for place, *_ in edits)
    made = tuple(
        Edit(f"device/{file}.pyx {inside}", *rest) for (file, inside), (_, *rest) in zip(places, edits, strict=True)
    )
    return Planted(name, made, tuple(workloads.split()), on, patience)


WAIT = "after_readers(t.stream, &s.region)"
# An event that was never recorded, in the place of the one behind the last readers.
FORGOTTEN = "cuda.event_destroy(r.consumed[0]); cuda.event_create(&r.consumed[0], kCuEventDisableTiming)"

PLANTED = [
    # ---- the host's memory
    row(
        "a host slot goes back before it is copied",
        "staged native widened",
        "slow_copy jitter",
        ("transfer _give_done", "cuda.event_query(f.copied)", "0"),
    ),
    row(
        "a copy is said to be complete before it begins",
        "staged native",
        "slow_copy jitter",
        ("transfer _send", "s.nbytes = batch.nbytes", "s.nbytes = batch.nbytes; cuda.event_record(f.copied, t.stream)"),
        (
            "transfer _send 1/2",
            'failed(&t.failure, cuda.event_record(f.copied, t.stream), "cuEventRecord", 0)',
            "False",
        ),
    ),
    row(
        "more copies are on their way than can be told apart",
        "native",
        "slow_copy",  # else it takes luck that so many are on their way at a time
        ("transfer _send", "t.flight_count == t.flight_most", "False"),
    ),
    row(
        "the end doesn't wait for copies that are on their way",
        "left",
        "slow_copy jitter",
        ("transfer _over", "t.entered", "False"),
    ),
    row(
        "memory isn't page-locked",
        "staged native",
        "all",
        ("pinned pinned_take", "syscalls().pin(cuda.host_register, p, nbytes, kCuHostRegisterPortable)", "0"),
    ),
    # ---- who reads
    row(
        "the consumer's stream doesn't wait for the copy",
        "staged native widened kept",
        "slow_copy jitter",
        ("lease transfer_hand", "cuda.stream_wait(<void*>lease.handles[0], s.ready, 0)", "0"),
    ),
    row(
        "nothing says that a batch may be read",
        "staged native widened kept",
        "slow_copy jitter",
        ("transfer _send", 'failed(&t.failure, cuda.event_record(s.ready, t.stream), "cuEventRecord", 0)', "False"),
    ),
    row(
        "a batch may be read before the kernel has made it",
        "widened",
        "all",
        (
            "transfer _send",
            "_launch(t, s, batch.rows)",
            "cuda.event_record(s.ready, t.stream) or _launch(t, s, batch.rows)",
        ),
        ("transfer _send", 'failed(&t.failure, cuda.event_record(s.ready, t.stream), "cuEventRecord", 0)', "False"),
    ),
    row(
        "a batch is announced before its slot is known",
        "native",
        "all",
        ("transfer _send", "t.where[t.next % t.source.width] = slot"),
        (
            "transfer _send",
            "_done(t)",
            "_done(t); qc_pause(); t.where[(t.next - 1) % t.source.width] = slot",
        ),
    ),
    # ---- who writes again
    row(
        "the copy doesn't wait for who reads the slot",
        "staged native",
        "slow_consumer",
        ("transfer _send 1/2", WAIT, "0"),
    ),
    row(
        "the kernel doesn't wait for who reads the slot",
        "widened",
        "all",
        ("transfer _send 2/2", WAIT, "0"),
    ),
    row(
        "a lease's end says nothing",
        "staged native widened",
        "slow_consumer",
        ("lease end_", "cuda.event_record(r.consumed[i], <void*>self.handles[i])", "0"),
    ),
    row(
        "a lease gives its slot back before it says anything",
        "native",
        "slow_consumer",
        (
            "lease end_",
            "rc = enter(t.core, &e)",
            "slots_push(&t.free, self.slot); event_notify_all(&t.shared.freed); qc_pause(); rc = enter(t.core, &e)",
        ),
        ("lease end_", "slots_push(&t.free, self.slot)"),
    ),
    row(
        "a lease's end gives nothing back",
        "staged",
        "equal",
        ("lease end_", "slots_push(&t.free, self.slot)"),
        patience=SHORTLY,
    ),
    row(
        "a batch that becomes a copy gives its slot back before the copy is ordered",
        "kept",
        "jitter",
        (
            "lease copy_to",
            "failure.result = cuda.copy_on_device(address, self.base, self.nbytes, <void*>self.handles[0])",
            "at, nbytes = self.base, self.nbytes; self.end_(); "
            "failure.result = cuda.copy_on_device(address, at, nbytes, <void*>self.handles[0])",
        ),
    ),
    row(
        "kept memory is freed while it is read",
        "crowded",
        "all",
        ("memory free_done", "_read(&node.region)", "False"),
    ),
    row(
        "a slot that becomes larger is freed while it is read",
        "growing",
        "all",
        ("transfer _grow", 'failed(&t.failure, readers_end(r), "cuEventSynchronize", 0)', "False"),
    ),
    row(
        "the next stream writes to memory that is read",
        "left",
        "slow_consumer",
        ("memory region_take", "r[0] = one.region", f"r[0] = one.region; {FORGOTTEN}"),
    ),
    row(
        "a kernel's input is written to memory that is read",
        "again",
        "all",
        ("transfer _send", "t.next == 0", "False"),
    ),
    # ---- streams aside
    row(
        "the copy doesn't wait for streams aside",
        "aside",
        "all",
        (
            "memory after_readers",
            "rc = cuda.stream_wait(stream, r.consumed[i], 0)",
            "rc = cuda.stream_wait(stream, r.consumed[0], 0)",
        ),
    ),
    row(
        "a lease's end says nothing of streams aside",
        "aside",
        "all",
        (
            "lease end_",
            "cuda.event_record(r.consumed[i], <void*>self.handles[i])",
            "0 if i > 0 else cuda.event_record(r.consumed[i], <void*>self.handles[i])",
        ),
    ),
    row(
        "a slot doesn't know of streams aside",
        "aside",
        "all",
        ("lease end_", "r.readers = self.readers"),
    ),
    row(
        "the next stream of batches doesn't know of streams aside",
        "left_aside",
        "all",
        ("memory region_take", "r[0] = one.region", "r[0] = one.region; r.readers = 1"),
    ),
    row(
        "kept memory is freed while a stream aside reads it",
        "crowded_aside",
        "all",
        ("memory _read", "cuda.event_query(r.consumed[i]) != 0", "i == 0 and cuda.event_query(r.consumed[i]) != 0"),
    ),
    row(
        "a slot that becomes larger is freed while a stream aside reads it",
        "growing_aside",
        "all",
        ("memory readers_end", "cuda.event_synchronize(r.consumed[i])", "cuda.event_synchronize(r.consumed[0])"),
    ),
    row(
        "a copy's memory is used again while a stream aside reads it",
        "kept_aside",
        "all",
        ("lease _gather", "cuda.stream_wait(<void*>self.handles[0], event, 0)", "0"),
    ),
    # ---- contexts
    row(
        "the thread has no context",
        "staged native",
        "all",
        ("transfer _step", 'failed(&t.failure, cuda.context_set(t.core.context), "cuCtxSetCurrent", 0)', "False"),
    ),
    row(
        "a lease ends outside of its context",
        "staged",
        "all",
        ("lease end_", "enter(t.core, &e)", "0"),
    ),
    row(
        "who takes a batch is left in its context",
        "staged",
        "all",
        ("lease transfer_hand", "leave(&e)"),
    ),
    # ---- elements of a queue
    row(
        "shapes are forgotten before their batch is taken",
        "queued",
        "all",
        (
            "staged feed",
            "self.layouts = self.staging.count + self.transfer.buffers",
            "self.layouts = self.staging.count",
        ),
    ),
    row(
        "a larger element doesn't get more room",
        "queued",
        "all",
        ("staged _feed", "self._room(&self.staging.slots[slot[0]], total, failure)", "True"),
    ),
    # ---- calls that fail
    row(
        "a copy that fails is no error",
        "failing_to_send",
        "all",
        ("transfer _send", "_copy(t, s.region.memory, batch)", "_copy(t, s.region.memory, batch) * 0"),
    ),
    row(
        "a wait that fails is no error",
        "failing_to_send",
        "all",
        ("transfer _send 1/2", WAIT, f"{WAIT} * 0"),
    ),
    row(
        "after a failure the host's memory goes back at once",
        "failing_to_send",
        "slow_copy",
        ("transfer _step", "cuda.stream_synchronize(t.stream)"),
    ),
    row(
        "a consumer that can't wait isn't told",
        "failing_to_wait",
        "all",
        ("lease transfer_hand", "failure.result != 0", "False"),
    ),
    row(
        "a lease that can't end tells nobody",
        "failing_to_end",
        "all",
        ("lease end_", "t.shared.lost.store(rc, ..."),
    ),
    row(
        "a lease that can't end gives its slot back",
        "failing_to_end",
        "all",
        ("lease end_ 3/3", "rc == 0", "True"),
    ),
    row(
        "the next stream of batches gets a slot whose lease couldn't end",
        "lost",
        "all",
        ("lease end_", "t.slots[self.slot].lost = True"),
    ),
]


@pytest.fixture(scope="module")
def tree(run_folder: Path) -> Path:
    return build(PACKAGE, run_folder / "device_mutants", PLANTED, "device")


def found(tree: Path, library: Path, number: int, workload: str, schedules: tuple[str, ...], patience: float):
    """Return what is wrong with one mutant on each schedule; empty: nothing."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "QUEUECORE"))}
    environment |= {VARIABLE: str(number), "PYTHONPATH": f"{tree}{os.pathsep}{ROOT / 'tests'}"}
    lines: list[dict[str, int]] = []
    while len(lines) < len(schedules):
        arguments = [str(tree), str(library), workload, *schedules[len(lines) :]]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "helpers.device.transfers", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            printed, errors = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, errors = process.communicate()
        lines += map(json.loads, printed.splitlines())
        if process.returncode != 0:
            # What came next never ended, or ended the process.
            assert process.returncode < 0, errors
            lines.append({f"signal {-process.returncode}": 1})
    return dict(zip(schedules, lines, strict=True))


def test_every_mistake_has_its_place():
    assert list(sources(PLANTED))


@pytest.mark.thorough
@pytest.mark.watchdog(400)
@pytest.mark.parametrize("workload", sorted({name for one in PLANTED for name in one.workloads}))
def test_the_copy_without_a_mistake_passes(tree, fake_cuda_library, workload):
    assert found(tree, fake_cuda_library, 0, workload, SCHEDULES, LONG) == dict.fromkeys(SCHEDULES, {})


@pytest.mark.thorough
@pytest.mark.watchdog(600)  # some never end now and then, and each such schedule takes its time
@pytest.mark.parametrize("number", range(1, len(PLANTED) + 1), ids=lambda number: PLANTED[number - 1].name)
def test_a_mistake_is_found(tree, fake_cuda_library, number):
    mistake = PLANTED[number - 1]
    for workload in mistake.workloads:
        wrong: dict[str, dict[str, int]] = {}
        for _ in range(ROUNDS):
            missing = tuple(schedule for schedule in mistake.schedules if not wrong.get(schedule))
            if missing:
                wrong |= found(tree, fake_cuda_library, number, workload, missing, mistake.patience)
        assert all(wrong.values()), (workload, wrong)
