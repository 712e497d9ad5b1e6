"""Every call of the system that native code makes fails once, and for ever; or is slow, short, or early.

`helpers.faults.everywhere` says what must hold after each.
"""

import errno
import itertools
import os
import threading
import time

import numpy as np
import pytest
from helpers.device.devices import plane
from helpers.process import AT_ONCE

import queuecore as qc
from queuecore._core.atoms.runtime import StopEvent
from queuecore.data import Dataset, FixedLengthRecordDataset, Options
from queuecore.errors import ResourceExhaustedError, UnavailableError

everywhere = pytest.importorskip("helpers.faults.everywhere", reason="no test hooks (QUEUECORE_TESTING=1)")
syscalls = everywhere.syscalls

pytestmark = pytest.mark.unwatched
SCENARIOS = {**everywhere.pipelines(), **everywhere.others()}
FAILING = (*everywhere.MEMORY, *everywhere.FILES, "thread")


@pytest.fixture(autouse=True)
def calls_are_as_usual_again():
    yield
    syscalls.reset_faults()


@pytest.fixture
def sweep(tmp_path):
    """Return a maker of sweeps."""
    return lambda name: everywhere.Sweep(name, SCENARIOS[name], tmp_path)


@pytest.mark.thorough
@pytest.mark.watchdog(600)
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "ever"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_fails(sweep, name, sticky):
    # Of the many calls of this one, fewer and fewer.
    assert sweep(name).over(FAILING, sticky=sticky, growth=1.03 if name == "snapshot in shards" else 1.0)


def test_a_run_for_which_memory_is_refused(sweep):
    """What was made ready for the run goes with the iterator, also where the run's first memory is refused."""
    made = sweep("lines")
    places = set()
    for nth in itertools.count(1):
        made.one(everywhere.MEMORY, nth)
        places.add((syscalls.first_met() or ("", ""))[1].partition(".")[0])
        if "pipe" in places:
            break
    assert "left_out" in places  # what is made ready


@pytest.mark.thorough
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "ever"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_nobody_notices(sweep, name, sticky):
    """Closes, advice, sleeps and waits that fail; parts of a read; a clock that jumps, or stands still."""
    made = sweep(name)
    made.over(everywhere.UNSEEN, sticky=sticky, growth=1.4)
    made.over(["read"], "short", sticky=sticky, growth=1.2)
    made.over(["clock"], "jump", sticky=sticky, growth=2)
    made.over(["clock"], "stop", sticky=sticky, growth=4)


@pytest.mark.thorough
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_slow_call(sweep, name):
    made = sweep(name)
    for kinds in FAILING, ["wait"], ["close"]:
        made.over(kinds, "slow", growth=1.7)


# ---- devices --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cuda(fake_cuda_library):
    yield from plane(fake_cuda_library)


@pytest.mark.thorough
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "ever"])
@pytest.mark.parametrize("kinds", [("pin", "advise", "node"), ("memory", "map", "thread")], ids=["pinned", "memory"])
def test_batches_of_a_device(tmp_path, cuda, kinds, sticky):
    rows = np.arange(320, dtype=np.float32).reshape(80, 4)

    def run(_, got):
        with iter(cuda.of(Dataset.from_tensor_slices(rows).batch(8))) as it:
            for x in it:
                got += x.numpy().ravel().tolist()

    made = everywhere.Sweep("device", everywhere.Scenario(run, keeps="memory"), tmp_path)
    assert made.over(kinds, sticky=sticky, growth=1.0 if kinds[0] == "pin" else 1.2) > 1


# ---- the clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "sticky"), [("jump", False), ("stop", False), ("stop", True)])
def test_timeouts_of_a_clock_that_errs(how, sticky):
    """Row 43: nothing is taken and nothing lost. A clock that stands still makes a wait longer by that time."""
    q = qc.FIFOQueue(2, [np.int64], [()])
    q.enqueue(1)
    for nth in range(1, 12):
        syscalls.plan(["clock"], nth, how, sticky=sticky)
        begun = time.monotonic()
        assert int(q.dequeue(timeout=0.05)) == 1
        with pytest.raises(qc.errors.DeadlineExceededError):
            q.dequeue(timeout=0.05)
        syscalls.end_plan()
        assert time.monotonic() - begun < AT_ONCE
        q.enqueue(1)


def test_a_clock_that_jumped_goes_back_with_the_test():
    """Python's clock knows nothing of the hours; coordinators compare the two."""
    syscalls.plan(["clock"], 1, "jump")
    StopEvent().wait(0.01)
    syscalls.reset_faults()
    before, stop = time.monotonic_ns(), StopEvent()
    stop.set()
    assert before <= stop.set_at() <= time.monotonic_ns()


def test_a_wait_that_returns_too_early_waits_again():
    """Row 44: also if each does, at once."""
    q = qc.FIFOQueue(2, [np.int64], [()])
    results = []
    other = threading.Thread(target=lambda: results.append(int(q.dequeue())))
    syscalls.plan(["wait"], 1, sticky=True)
    other.start()
    time.sleep(0.05)
    q.enqueue(7)
    other.join(10)
    assert results == [7]
    assert syscalls.planned_calls()[1] > 0


# ---- what the first runs found --------------------------------------------------------------------------------------


def test_a_lack_of_memory_closes_no_descriptor_of_others(tmp_path):
    """Descriptor 0 was closed where the second of two pieces of memory was refused."""
    (tmp_path / "a").write_text("1\n2\n")
    for nth in range(1, 100):
        syscalls.plan(["memory"], nth)
        try:
            with iter(qc.data.TextLineDataset(tmp_path / "a")) as it:
                assert list(it) == [b"1", b"2"]
        except MemoryError:
            pass
        except UnavailableError as error:
            assert error.errno == errno.ENOMEM
        syscalls.end_plan()
        os.fstat(0)
        if not syscalls.planned_calls()[1]:
            break
    else:
        pytest.fail("never ran to the end")


@pytest.mark.parametrize("nth", [1, 2])
def test_a_thread_that_cannot_start_names_the_limits(tmp_path, nth):
    (tmp_path / "a").write_bytes(bytes(1000))
    # No thread looks at sizes before: not where the tail is dropped, nor for the length, which `list` asks for.
    ds = FixedLengthRecordDataset(tmp_path / "a", 10, tail="drop").with_options(Options(num_threads=2))
    syscalls.plan(["thread"], nth, sticky=True, error=errno.EAGAIN)
    said = f"native thread number {nth}: .*the limits of threads: .* of the machine \\(kernel.threads-max\\), memory"
    with pytest.raises(UnavailableError, match=said) as caught:
        next(iter(ds))
    assert caught.value.errno == errno.EAGAIN
    syscalls.end_plan()
    assert len(list(ds)) == 100


def test_a_thread_of_pythons_that_cannot_start_names_the_limits(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(UnavailableError, match=r"the limits of threads: .*\(kernel.threads-max\), memory"):
        list(Dataset.from_generator(lambda: iter(range(3)), np.int64))


def test_a_block_that_there_is_no_memory_for_is_an_error(tmp_path):
    """Who read the last block was to claim the next: where there was no memory for the first, nobody did, for ever."""
    (tmp_path / "a").write_text("1\n2\n")
    errors = set()
    for nth in range(1, 100):
        syscalls.plan(["memory"], nth, sticky=True)
        try:
            with iter(qc.data.TextLineDataset(tmp_path / "a")) as it:
                assert list(it) == [b"1", b"2"]
        except (MemoryError, UnavailableError) as error:
            errors.add(type(error))
        syscalls.end_plan()
        if not syscalls.planned_calls()[1]:
            break
    assert ResourceExhaustedError in errors


# ---- libraries: what isn't found at the first look isn't looked for again -------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_library_that_cannot_be_opened(tmp_path, nth):
    from helpers.process import run_python

    code = """
        import sys
        import queuecore as qc
        from queuecore._core.testing import syscalls
        path, nth = sys.argv[1], int(sys.argv[2])
        with qc.TFRecordWriter(path, "GZIP") as writer:
            writer.write(b"a record")
        syscalls.plan(["library"], nth, sticky=True)
        try:
            assert [bytes(x) for x in qc.data.TFRecordDataset(path, "GZIP")] == [b"a record"]
            print("read")
        except qc.errors.UnimplementedError as error:
            assert "GZIP" in str(error) or "zlib" in str(error), error
            print("refused")
    """
    done = run_python(code, tmp_path / "a", nth)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout in ({"refused\n"} if nth == 1 else {"read\n", "refused\n"})
