"""`it.trace(path)`: what the threads of an iterator do and when, as a file."""

import json
import os
import threading
from collections import defaultdict

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.process import PATIENCE, run_python, soon

from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset
from queuecore.errors import FailedPreconditionError, NotFoundError, QueueCoreError

LINES = 3000


@pytest.fixture
def lines(tmp_path):
    paths = [tmp_path / f"part {i}" for i in range(3)]
    for path in paths:
        path.write_text("".join(f"{i:06}\n" for i in range(LINES)))
    return TextLineDataset(paths)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


class Drawn:
    """The events of a file, sorted out."""

    def __init__(self, path):
        self.events = json.loads(path.read_text())
        self.slices = [event for event in self.events if event["ph"] == "X"]
        self.flows = defaultdict(list)
        for event in self.events:
            if event["ph"] in "st":
                self.flows[event["cat"], event["id"]].append(event)
        self.groups = {event["pid"]: event["args"]["name"] for event in self.named("process_name")}
        self.rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in self.named("thread_name")}
        (last,) = self.named("events dropped")
        self.dropped = last["args"]["count"]

    def named(self, name):
        return [one for one in self.events if one["name"] == name]

    def slices_of(self, name):
        return [one for one in self.slices if one["name"] == name]

    def taken(self):
        return [one for one in self.slices if one["name"].startswith("batch ")]

    def check(self):
        """Check what holds for all traces."""
        assert self.dropped == 0
        assert all((event["pid"], event["tid"]) in self.rows for event in self.slices)
        by_row = defaultdict(list)
        for event in self.slices:
            assert event["dur"] >= 0
            by_row[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for row, spans in by_row.items():
            spans.sort()
            if self.rows[row].startswith("reader"):  # a thread does one thing at a time
                # The row may be of streams that follow one another, whose threads have clocks of different cores.
                assert all(a[1] <= b[0] + 10 for a, b in zip(spans, spans[1:], strict=False))
        for steps in self.flows.values():
            assert [event["ph"] for event in steps] == ["s"] + ["t"] * (len(steps) - 1)
            assert [event["ts"] for event in steps] == sorted(event["ts"] for event in steps)
            for event in steps:  # each is bound to a slice
                # Of any stream in the row, as far as their clocks agree.
                assert any(a - 1000 <= event["ts"] <= b + 1000 for a, b in by_row[event["pid"], event["tid"]])


@pytest.mark.parametrize("threads", [1, 3])
def test_lines(lines, path, threads):
    with iter(lines.batch(100).with_options(Options(num_threads=threads))) as it:
        it.trace(path)
        batches = sum(1 for _ in it)
    picture = Drawn(path)
    picture.check()
    (group,) = picture.groups
    assert picture.groups[group].endswith("level 0") and picture.groups[group].startswith("TextLineDataset of ")
    assert picture.rows == {(group, 0): "consumer"} | {(group, i): f"reader {i}" for i in range(1, threads + 1)}
    assert [event["args"]["batch"] for event in picture.taken()] == list(range(batches))
    assert sum(event["args"]["rows"] for event in picture.taken()) == 3 * LINES
    assert sum(event["args"]["rows"] for event in picture.slices_of("make rows")) == 3 * LINES
    assert sum(event["args"]["bytes"] for event in picture.slices_of("read")) == 3 * 7 * LINES
    names = {str(path.with_name(f"part {i}")) for i in range(3)}
    assert {event["args"]["file"] for event in picture.slices_of("read")} == names
    assert {event["args"]["file"] for event in picture.slices_of("open files")} == names
    # From each block to the batches that have its lines, and from there to the consumer.
    blocks = [steps for (kind, _), steps in picture.flows.items() if kind == "block"]
    assert len(blocks) == sum(event["args"]["bytes"] > 0 for event in picture.slices_of("read"))
    batch_flows = [steps for (kind, _), steps in picture.flows.items() if kind == "batch"]
    assert len(batch_flows) == batches
    assert all(steps[-1]["tid"] == 0 for steps in batch_flows)
    ready = [event["args"]["ready"] for event in picture.named("batches ready")]
    assert len(ready) == batches and min(ready) >= 0 and ready[-1] == 0


def test_records_of_known_places(tmp_path, path):
    (tmp_path / "a").write_bytes(bytes(64 * 1000))
    (tmp_path / "b").write_bytes(bytes(64 * 500))
    with iter(FixedLengthRecordDataset([tmp_path / "a", tmp_path / "b"], 64).batch(100)) as it, it.trace(path):
        assert sum(len(batch) for batch in it) == 1500
    drawn = Drawn(path)
    drawn.check()
    assert {one["args"]["file"] for one in drawn.slices_of("make rows")} == {str(tmp_path / "a"), str(tmp_path / "b")}
    assert len(drawn.taken()) == 15


def test_a_shuffle_is_filled(tmp_path, path):
    (tmp_path / "a").write_bytes(bytes(64 * 1000))
    ds = FixedLengthRecordDataset([tmp_path / "a"], 64).shuffle(300, seed=1).batch(100)
    with iter(ds) as it, it.trace(path):
        assert sum(len(batch) for batch in it) == 1000
    drawn = Drawn(path)
    drawn.check()
    assert sum(one["args"]["rows"] for one in drawn.slices_of("fill the shuffle")) == 1000


def test_inputs_have_rows_of_their_own(lines, path):
    with iter(lines.batch(50).map(in_python(lambda x: x)).batch(2)) as it:
        it.trace(path)
        for _ in it:
            pass
    drawn = Drawn(path)
    drawn.check()
    assert sorted(name[-1] for name in drawn.groups.values()) == ["0", "1", "2"]
    (inner,) = [group for group, name in drawn.groups.items() if name.endswith("level 2")]
    assert {one["pid"] for one in drawn.slices_of("read")} == {inner}


def test_streams_that_follow_one_another_share_rows(lines, path):
    ds = Dataset.range(40).flat_map(lambda i: Dataset.range(10).map(in_python(lambda x: x))).batch(16)
    with iter(ds) as it:
        it.trace(path)
        assert sum(len(batch) for batch in it) == 400
    drawn = Drawn(path)
    drawn.check()
    assert len(drawn.groups) < 10
    assert len(drawn.rows) < 40


def test_streams_that_live_at_the_same_time_have_one_clock(path):
    # A clock that jumps between them stands for a reading of both clocks that a busy machine spoils.
    pytest.importorskip("queuecore._core.testing.syscalls")
    done = run_python(
        """
        import sys
        from queuecore._core.testing import syscalls
        from queuecore.data import Dataset
        ds = Dataset.range(40).flat_map(lambda i: Dataset.range(10).batch(2)).batch(2)
        with iter(ds) as it:
            it.trace(sys.argv[1])
            next(it)
            syscalls.plan(["clock"], 1, "jump")
            assert len(list(it)) == 99
            assert syscalls.planned_calls()[1] == 1
        """,
        path,
    )
    assert done.returncode == 0, done.stderr
    drawn = Drawn(path)
    drawn.check()
    assert max(one["ts"] for one in drawn.slices) - min(one["ts"] for one in drawn.slices) < 60e6  # us, not an hour


def test_files_are_masked(lines, path):
    with iter(lines.batch(100)) as it, it.trace(path, mask=True):
        for _ in it:
            pass
    assert "part" not in path.read_text()
    assert {one["args"]["file"] for one in Drawn(path).slices_of("read")} == {f"file {i}" for i in range(3)}


def test_a_part_of_a_run(lines, path):
    """Nothing is noted before, and nothing behind."""
    with iter(lines.repeat().batch(10)) as it:
        for _ in range(100):
            next(it)
        with it.trace(path) as trace:
            for _ in range(100):
                next(it)
        assert trace.closed
        written = path.stat().st_size
        for _ in range(2000):
            next(it)
    assert path.stat().st_size == written
    taken = Drawn(path).taken()
    assert [one["args"]["batch"] for one in taken] == list(range(100, 200))


def test_one_trace_behind_the_other(lines, path):
    with iter(lines.repeat().batch(10)) as it:
        for begin in (0, 100, 200):
            with it.trace(path):
                for _ in range(100):
                    next(it)
            assert [one["args"]["batch"] for one in Drawn(path).taken()] == list(range(begin, begin + 100))


def test_a_trace_goes_on_at_another_place(lines, path):
    with iter(lines.batch(100)) as it, it.trace(path):
        state = it.state_dict()
        for _ in range(20):
            next(it)
        it.load_state_dict(state)
        for _ in range(20):
            next(it)
    drawn = Drawn(path)
    drawn.check()
    assert [one["args"]["batch"] for one in drawn.taken()] == [*range(20), *range(20)]
    assert len({flow for kind, flow in drawn.flows if kind == "batch"}) >= 40


def test_a_trace_ends_with_its_iterator(lines, path):
    it = iter(lines.batch(100))
    trace = it.trace(path)
    next(it)
    del it
    assert soon(lambda: trace.closed, PATIENCE)
    trace.close()
    assert len(Drawn(path).taken()) == 1
    assert not any(one.name == "qc-trace" for one in threading.enumerate())


def test_it_is_over_after_the_last_element(lines, path):
    it = iter(lines.batch(100))
    trace = it.trace(path)
    assert sum(1 for _ in it) == 90
    assert soon(lambda: trace.closed, PATIENCE)
    trace.close()
    assert len(Drawn(path).taken()) == 90


def test_two_traces_at_once(lines, path, tmp_path):
    with iter(lines.batch(100)) as it:
        with it.trace(path), pytest.raises(FailedPreconditionError, match="being written already"):
            it.trace(tmp_path / "other")
        assert not (tmp_path / "other").exists()


def test_a_file_that_cannot_be_made(lines, tmp_path):
    with iter(lines.batch(100)) as it:
        with pytest.raises(NotFoundError, match="nowhere"):
            it.trace(tmp_path / "nowhere" / "trace.json")
        assert len(next(it)) == 100
        with it.trace(tmp_path / "trace.json"):  # nothing stands in its way
            next(it)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_file_that_cannot_be_written(lines):
    it = iter(lines.batch(100))
    trace = it.trace("/dev/full")
    assert sum(1 for _ in it) == 90
    with pytest.raises(QueueCoreError, match="No space left"):
        trace.close()
    trace.close()
    it.close()


@pytest.mark.thorough
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_what_is_drawn_goes_on_without_the_file():
    """Each of the streams has rows to be named."""
    ds = Dataset.range(400).interleave(lambda i: Dataset.range(1).map(in_python(lambda x: x)), cycle_length=16)
    it = iter(ds.batch(100))
    trace = it.trace("/dev/full")
    assert sum(len(batch) for batch in it) == 400
    with pytest.raises(QueueCoreError, match="No space left"):
        trace.close()
    it.close()


def test_what_finds_no_room_is_counted(lines):
    with iter(lines.repeat().batch(1)) as it:
        timeline = it._stream.trace(True)
        for _ in range(10_000):
            next(it)
        it._stream.trace(False)
        assert timeline.dropped > 0
        events = timeline.take()
        counts = np.bincount([one[0] for one in events])
        assert counts.max() == 4096
        numbers = [one[8] for one in events if one[0] == 0 and one[1] == 9]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))  # the first ones: what is dropped is new
        next(it)
        timeline.take()  # a thread may just have been at it
        next(it)
        assert timeline.take() == []


PROGRAM = """
import sys
from queuecore.data import Dataset
with iter(Dataset.range(100).batch(10)) as it:
    for _ in it:
        pass
left = iter(Dataset.range(50).batch(10))
next(left)
own = iter(Dataset.range(30).batch(10))
with own.trace(sys.argv[1]):
    next(own)
"""


def test_a_program_that_nobody_changes(path, tmp_path, monkeypatch):
    own = tmp_path / "own.json"
    monkeypatch.setenv("QUEUECORE_TRACE", str(path))
    done = run_python(PROGRAM, own)
    assert (done.returncode, done.stderr) == (0, "")
    drawn = Drawn(path)
    drawn.check()
    assert len(drawn.taken()) == 11
    assert len(Drawn(own).taken()) == 1


def test_processes_that_a_program_starts(path, tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECORE_TRACE", str(path))
    code = """
        import os
        from queuecore.data import Dataset
        def work(n):
            with iter(Dataset.range(n)) as it:
                return sum(1 for _ in it)
        work(10)
        if os.fork() == 0:
            work(20)
            import atexit
            atexit._run_exitfuncs()
            os._exit(0)
        assert os.wait()[1] == 0
    """
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")
    (other,) = set(tmp_path.glob("*.json")) - {path}
    assert len(Drawn(path).taken()) >= 1
    assert sum(one["args"]["rows"] for one in Drawn(other).taken()) == 20


@pytest.mark.parametrize("kind", ["one shot", "initializable"])
def test_other_iterators(lines, path, kind):
    ds = lines.batch(100)
    it = ds.make_one_shot_iterator() if kind == "one shot" else ds.make_initializable_iterator()
    if kind == "initializable":
        it.initializer()
    with it, it.trace(path):
        assert sum(1 for _ in it) == 90
        assert it.stages()[0]["records"] == 3 * LINES
    assert len(Drawn(path).taken()) == 90
