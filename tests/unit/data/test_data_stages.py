"""`it.stages()`: where the time of an iterator goes."""

import threading
import time

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.process import run_python

from queuecore._observe.labels import WORK
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset
from queuecore.errors import PipelineError
from queuecore.ops import decode_csv

SLOW = 0.01
TIMES = ("busy", "input", "output")


def slowly(x):
    time.sleep(SLOW)
    return x


def row_of(rows, start, where, level=0):
    found = [one for one in rows if one["stage"].startswith(start) and not one["work"]]
    (row,) = [one for one in found if (one["where"], one["level"]) == (where, level)]
    return row


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(20_000)))
    return TextLineDataset(path)


def test_before_the_first_element_nothing_was_spent(lines):
    with iter(lines.batch(4)) as it:
        for row in it.stages():
            assert [row[name] for name in TIMES] == [0, 0, 0]


def test_a_slow_consumer(lines):
    with iter(lines.batch(10).with_options(Options(num_threads=2))) as it:
        for _ in range(20):
            next(it)
            time.sleep(SLOW)
        rows = it.stages()
    native = row_of(rows, "TextLineDataset of ", "native")
    # Both threads had made all that there was room for. What they do first counts as work.
    assert native["output"] > 20 * SLOW
    assert native["threads"] == 2
    assert sum(rows[0]["ready"]) > 0
    assert rows[0]["ready"][0] < sum(rows[0]["ready"])


def test_what_the_threads_of_a_stream_do(lines):
    with iter(lines.shuffle(100, seed=1).batch(10)) as it:
        for _ in it:
            pass
        rows = it.stages()
    kinds = {row["work"]: row for row in rows if row["work"]}
    assert {"make rows", "read", "open files"} <= kinds.keys()
    whole = row_of(rows, "TextLineDataset of ", "native")
    assert whole["busy"] >= sum(row["busy"] for row in kinds.values()) > 0
    assert whole["units"] == sum(row["units"] for row in kinds.values()) > 0


def test_what_came_out_and_what_was_read(lines):
    def odd(line):
        if int(line) % 1000 == 7:
            raise ValueError
        return line

    chosen = Options(on_error="skip", num_threads=1)
    with iter(lines.map(in_python(odd)).batch(10).with_options(chosen)) as it:
        delivered = sum(len(batch) for batch in it)
        rows = it.stages()
    assert (delivered, rows[0]["records"], rows[0]["skipped"]) == (19_980, 1998, 20)
    assert row_of(rows, "batch", "python")["records"] == 1998
    assert row_of(rows, "map", "python", 1)["records"] == 20_000 - 20
    files = row_of(rows, "TextLineDataset of ", "native", 2)
    assert files["records"] == 20_000
    assert files["bytes"] == sum(len(f"{i}\n") for i in range(20_000))
    assert files["bytes"] == sum(row["bytes"] for row in rows)


def test_a_slow_source():
    def elements():
        for x in range(20):
            yield slowly(x)

    with iter(Dataset.from_generator(elements, np.int64).batch(5)) as it:
        for _ in it:
            pass
        rows = it.stages()
    assert row_of(rows, "from_generator", "python", 1)["busy"] >= 19 * SLOW
    batch = row_of(rows, "batch", "python")
    assert batch["input"] >= 15 * SLOW
    assert rows[0]["input"] >= 15 * SLOW
    assert rows[0]["where"] == "consumer"
    # Who waits has not worked meanwhile.
    assert batch["busy"] < batch["input"]


def test_a_slow_function():
    with iter(Dataset.range(20).map(in_python(slowly)).batch(2)) as it:
        for _ in it:
            pass
        rows = it.stages()
    assert row_of(rows, "map", "python", 1)["busy"] >= 20 * SLOW
    below = row_of(rows, "range", "python", 2)
    assert below["busy"] < 10 * SLOW  # it was ready long before


@pytest.mark.thorough
def test_streams_over_datasets_of_a_function_count_together():
    ds = Dataset.range(200).flat_map(lambda x: Dataset.range(x, x + 2).map(in_python(int)))
    with iter(ds) as it:
        assert len(list(it)) == 400
        rows = it.stages()
    assert len(rows) == len({(row["stage"], row["work"], row["level"], row["where"]) for row in rows}) < 100
    assert row_of(rows, "flat_map", "python")["busy"] > 0
    assert row_of(rows, "map", "python", 1)["busy"] > 0


def test_times_stay_after_errors_places_and_the_end(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(4000, dtype="<i4").tobytes())

    def odd(x):
        if int(x) == 31:
            raise ValueError
        return x

    tables = []
    with iter(FixedLengthRecordDataset(path, record="<i4").map(in_python(odd)).batch(8)) as it:
        state = it.state_dict()
        for _ in range(3):
            next(it)
        tables.append(it.stages())
        next(it)
        with pytest.raises(PipelineError):
            next(it)
        tables.append(it.stages())
        it.load_state_dict(state)
        next(it)
        tables.append(it.stages())
    tables.append(it.stages())
    for before, after in zip(tables, tables[1:], strict=False):
        rows = {(row["stage"], row["work"], row["level"], row["where"]): row for row in after}
        for row in before:
            for name in TIMES:
                # All but a node's own work, from which waits are subtracted, only grow.
                if row["where"] != "python":
                    later = rows[row["stage"], row["work"], row["level"], row["where"]][name]
                    assert later >= 0.99 * row[name]
    assert row_of(tables[-1], "map", "python", 1)["busy"] > 0


@pytest.mark.thorough
def test_any_thread_may_ask_at_any_time(lines):
    it = iter(lines.map(in_python(bytes)).batch(7))
    over = threading.Event()
    errors = []

    def ask():
        try:
            while not over.is_set():
                it.stages()
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=ask) for _ in range(2)]
    for thread in others:
        thread.start()
    n = sum(len(batch) for batch in it)
    it.close()
    over.set()
    for thread in others:
        thread.join()
    assert (n, errors) == (20_000, [])


def test_times_add_up(lines):
    """What the threads did, and their waits, is as long as they were there."""
    begun = time.monotonic()
    with iter(lines.batch(100).with_options(Options(num_threads=1))) as it:
        next(it)
        started = time.monotonic()
        for _ in range(100):
            next(it)
            time.sleep(0.001)
        ended = time.monotonic()
        native = row_of(it.stages(), "TextLineDataset of ", "native")
        took = time.monotonic() - begun
    total = sum(native[name] for name in TIMES)
    assert 0.95 * (ended - started) - 0.02 <= total <= 1.05 * took + 0.02, it.stages()


def test_a_clock_that_jumped_makes_no_time_longer(tmp_path):
    """An hour that only the monotonic clock knows of is not shared out among the ticks of the processor's clock.

    Nor is one taken from them, once the clock is put back.
    """
    pytest.importorskip("queuecore._core.testing.syscalls")
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(20_000)))
    done = run_python(
        """
        import sys, time
        from queuecore._core.testing import syscalls
        from queuecore.data import Options, TextLineDataset
        ds = TextLineDataset(sys.argv[1]).batch(100).with_options(Options(num_threads=1))
        def check():
            begun = time.monotonic()
            with iter(ds) as it:
                assert sum(len(batch) for batch in it) == 20_000
                rows = it.stages()
                took = time.monotonic() - begun
            for row in rows:
                times = [row["busy"], row["input"], row["output"]]
                assert min(times) >= 0 and sum(times) <= 1.05 * took + 0.02, (row, took)
        syscalls.plan(["clock"], 1, "jump")
        check()
        assert syscalls.planned_calls()[1] == 1
        syscalls.reset_faults()
        check()
        """,
        path,
    )
    assert done.returncode == 0, done.stderr


def test_in_a_forked_child():
    done = run_python("""
        import os, queuecore as qc
        from queuecore.data import Dataset
        it = iter(Dataset.range(100).batch(3))
        next(it)
        if (pid := os.fork()) == 0:
            try:
                it.stages()
            except qc.errors.ForkedPipelineError:
                os._exit(7)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert done.stdout == "7\n", done.stderr


def steps_of(rows, start):
    """The rows of single steps: those whose work is none of a unit's."""
    found = [one for one in rows if one["stage"].startswith(start) and one["where"] == "native" and one["work"]]
    return {one["work"]: one for one in found if one["work"] not in WORK}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", ["batches", "rows", "lines"])
def test_steps_of_native_maps(tmp_path, threads, way):
    """By their shares of what was measured in a sample."""

    def roots(x):
        return np.sqrt(np.sqrt(np.sqrt(np.sqrt(np.sqrt(np.sqrt(np.sqrt(np.sqrt(x))))))))

    def sines(x):
        return np.sin(np.sin(np.sin(np.sin(np.sin(np.sin(np.sin(np.sin(x))))))))

    if way == "lines":
        (tmp_path / "a").write_text("".join(f"{i},{i}\n" for i in range(20_000)))
        ds = TextLineDataset(tmp_path / "a").map(decode_csv(record_defaults=[np.float32(), np.float32()]))
        ds = ds.map(lambda a, b: a).map(roots).map(lambda a: a + 1).batch(100)
        names = ["decode_csv(float32, float32)", ", ".join(["sqrt"] * 8), "add"]
    else:
        ds = Dataset.from_tensor_slices(np.ones((4000, 256), np.float32))
        ds = (
            ds.batch(10).map(sines).map(lambda x: x + 1)
            if way == "batches"
            else ds.map(sines).map(lambda x: x + 1).batch(10)
        )
        names = [", ".join(["sin"] * 8), "add"]
    with iter(ds.repeat(10_000).with_options(Options(num_threads=threads))) as it:
        for _ in range(5000):  # until no thread that lost its processor in a short step outweighs all others
            for _ in range(200):
                next(it)
            rows = it.stages()
            (stage,) = {row["stage"] for row in rows if row["work"] == names[0]}
            steps = steps_of(rows, stage)
            if steps[names[-2]]["busy"] > steps["add"]["busy"]:
                break
    assert list(steps) == names
    (made,) = [row for row in rows if row["work"] == "make rows" and row["stage"] == stage]
    assert sum(step["busy"] for step in steps.values()) <= made["busy"] * 1.001
    assert steps[names[-2]]["busy"] > steps["add"]["busy"] > 0
    assert min(step["units"] for step in steps.values()) > 0


def test_steps_are_counted_on_after_another_place():
    ds = Dataset.from_tensor_slices(np.ones((400, 256), np.float32)).map(lambda x: np.sin(x)).batch(10)
    with iter(ds.with_options(Options(num_threads=1))) as it:
        state = it.state_dict()
        for _ in it:
            pass
        before = steps_of(it.stages(), "map")["sin"]["units"]
    with iter(ds.with_options(Options(num_threads=1))) as it:
        for _ in range(2):
            for _ in range(20):
                next(it)
            it.load_state_dict(state)
        for _ in it:
            pass
        assert steps_of(it.stages(), "map")["sin"]["units"] > before


def test_a_stream_without_steps_has_no_rows_of_any(tmp_path):
    (tmp_path / "a").write_bytes(bytes(6400))
    with iter(FixedLengthRecordDataset(tmp_path / "a", 64).batch(10)) as it:
        for _ in it:
            pass
        assert steps_of(it.stages(), "") == {}
