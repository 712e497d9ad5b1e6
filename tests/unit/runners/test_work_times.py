"""Where the time of threads goes that fill queues: `StageProgram.stats`, `QueueRunner.stats`, and a map's functions."""

import threading
import time

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.process import PATIENCE, soon

import queuecore as qc
from queuecore._core.atoms.times import ThreadTimes, WorkTimes
from queuecore.data import Dataset

MS = 1_000_000


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(100)))
    return path


def program_of(work):
    return qc.StageProgram(qc.FixedLengthRecordReader(1), work, qc.ops.decode_raw(out_type=np.uint8))


def grows(stats, name, others):
    """Whether one of the times soon exceeds 20 ms, while it goes on, and the threads do little besides."""
    assert soon(lambda: stats()[name] > 20 * MS, PATIENCE)
    before = stats()
    assert soon(lambda: stats()[name] > before[name] + 20 * MS, PATIENCE)
    after = stats()
    return all(after[other] - before[other] < after[name] - before[name] for other in others)


def test_a_program_that_waits_for_room(file):
    queue = qc.FIFOQueue(3, [np.uint8], [(1,)])
    program, coord = program_of([file]), qc.Coordinator()
    runner = qc.QueueRunner(queue, [program])
    assert program.stats()["threads"] == runner.stats()["threads"] == 0
    threads = runner.create_threads(coord, start=True)
    for stats in (program.stats, runner.stats):  # a wait counts for both
        assert grows(stats, "blocked_output_ns", ["busy_ns", "blocked_input_ns"])
        assert stats()["threads"] == 1
    assert len(list(queue)) == 100
    coord.join(threads)
    over = program.stats(), runner.stats()
    assert all(one["busy_ns"] > 0 for one in over)
    assert (program.stats(), runner.stats()) == over  # nobody works any more


@pytest.mark.parametrize("asked", [False, True], ids=["queue", "iterable"])
def test_a_program_that_waits_for_names(file, asked):
    queue, names = qc.FIFOQueue(200, [np.uint8], [(1,)]), qc.FIFOQueue(3, ["S"], [()])
    program, coord = program_of(iter(names.dequeue, b"") if asked else names), qc.Coordinator()
    runner = qc.QueueRunner(queue, [program] * 2)
    threads = runner.create_threads(coord, start=True)
    assert soon(lambda: program.stats()["threads"] == 2, PATIENCE)
    # One waits for the name, the other one for the first.
    assert grows(program.stats, "blocked_input_ns", ["busy_ns", "blocked_output_ns"])
    assert program.stats()["blocked_output_ns"] == 0
    names.enqueue(str(file).encode())
    assert soon(lambda: queue.size() == 100, PATIENCE)
    coord.request_stop()
    names.close(cancel_pending_enqueues=True)
    coord.join(threads)


def test_an_op_in_python():
    source, store = qc.FIFOQueue(1, [np.int64], [()]), qc.FIFOQueue(1, [np.int64], [()])
    spin = threading.Event()

    def op():
        value = source.dequeue()
        while spin.is_set():
            pass
        store.enqueue(value)

    coord = qc.Coordinator()
    runner = qc.QueueRunner(store, [op])
    threads = runner.create_threads(coord, start=True)
    assert grows(runner.stats, "blocked_input_ns", ["busy_ns", "blocked_output_ns"])
    spin.set()
    source.enqueue(1)
    assert grows(runner.stats, "busy_ns", ["blocked_input_ns", "blocked_output_ns"])
    spin.clear()
    source.enqueue(2)
    assert grows(runner.stats, "blocked_output_ns", ["busy_ns", "blocked_input_ns"])
    assert (store.dequeue(), store.dequeue()) == (1, 2)
    coord.request_stop()
    source.close(cancel_pending_enqueues=True)
    coord.join(threads)


def test_the_times_of_a_thread_add_up():
    """Of waits within a wait the outermost counts, and those of inner work count for the outer, too."""
    outer, inner, queue = WorkTimes(), WorkTimes(), qc.FIFOQueue(1, [np.int64], [()])
    begun = time.monotonic_ns()
    with pytest.raises(qc.errors.DeadlineExceededError):
        queue.dequeue(timeout=0.01)
    outer_times = outer.enter()
    with pytest.raises(qc.errors.DeadlineExceededError):
        queue.dequeue(timeout=0.01)
    inner_times = inner.enter()
    ThreadTimes.begin_wait(True)
    with pytest.raises(qc.errors.DeadlineExceededError):
        queue.dequeue(timeout=0.02)
    ThreadTimes.end_wait()
    inner.leave(inner_times)
    with pytest.raises(qc.errors.DeadlineExceededError):
        queue.dequeue(timeout=0.01)
    outer.leave(outer_times)
    took = time.monotonic_ns() - begun
    with pytest.raises(qc.errors.DeadlineExceededError):
        queue.dequeue(timeout=0.01)
    of_outer, of_inner = outer.stats(), inner.stats()
    assert of_inner["blocked_input_ns"] == 0
    assert of_outer["blocked_output_ns"] == of_inner["blocked_output_ns"] >= 20 * MS
    assert of_outer["blocked_input_ns"] >= 20 * MS
    assert sum(of_outer.values()) - of_outer["threads"] <= took - 10 * MS
    assert sum(of_inner.values()) <= sum(of_outer.values())


def functions_of(rows):
    (row,) = [one for one in rows if one["work"] == "functions"]
    return row


def test_a_maps_functions_that_are_slow():
    def slowly(x):
        time.sleep(0.005)
        return x

    with iter(Dataset.range(40).map(in_python(slowly), num_parallel_calls=2)) as it:
        assert sum(1 for _ in it) == 40
        row = functions_of(it.stages())
    assert row["threads"] == 2
    assert row["busy"] >= 40 * 0.005
    (map_,) = [one for one in it.stages() if one["stage"] == row["stage"] and not one["work"]]
    assert map_["input"] >= 10 * 0.005  # that thread waits for the results
    assert map_["busy"] < row["busy"]


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_maps_functions_that_wait(side):
    go_on = threading.Event()

    def elements():
        for i in range(100):
            if i == 10:  # all that is asked for has come; how far threads go ahead is up to their speed
                go_on.wait(PATIENCE)
            yield i

    source = Dataset.from_generator(elements, np.int64) if side == "input" else Dataset.range(10_000)
    with iter(source.map(in_python(abs), num_parallel_calls=3)) as it:
        for _ in range(10):
            next(it)

        def longer(than):
            row = functions_of(it.stages())
            return row[side] > than and row["busy"] + row["input"] + row["output"] < 2 * row[side]

        assert soon(lambda: longer(0.05), PATIENCE)
        go_on.set()


@pytest.mark.parametrize("way", ["dequeue", "dequeue_many", "lease"])
def test_how_many_elements_a_queue_had(way):
    queue = qc.FIFOQueue(1000, [np.int64], [()])
    assert queue.stats()["depths"] == []
    queue.enqueue_many([np.arange(1000)])
    for _ in range(1000):
        if way == "dequeue":
            queue.dequeue()
        elif way == "lease":
            with queue.lease(1):
                pass
        else:
            queue.dequeue_many(1)
    # 1 call of 8 counts: those that found 1000, 992, ..., 8 elements.
    assert queue.stats()["depths"] == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 62]
    for _ in range(16):
        with pytest.raises(qc.errors.DeadlineExceededError):
            queue.dequeue(timeout=0)
    assert queue.stats()["depths"][0] == 2
