"""Queues under signals, forks, exits and the collector; counters about to wrap; what holds memory, and for how long."""

from __future__ import annotations

import gc
import signal
import threading
import weakref

import numpy as np
import pytest
from helpers.process import run_python, soon

import queuecore as qc
from queuecore._core.queues import NativeQueue
from queuecore.errors import CancelledError, DeadlineExceededError, FailedPreconditionError, OutOfRangeError

SETUP = """
import os, signal, sys, threading, time, warnings
import numpy as np
import queuecore as qc
def soon(condition):
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)
full = qc.FIFOQueue(1, ["i4"], [()]); full.enqueue(0)
empty = qc.FIFOQueue(1, ["i4"], [()])
def waiting(q):
    stats = q.stats()
    return stats["waiting_enqueues"] + stats["waiting_dequeues"]
"""

BLOCKED = {
    "enqueue": ("full", "full.enqueue(1)"),
    "enqueue_many": ("full", "full.enqueue_many([[1, 2]])"),
    "dequeue": ("empty", "empty.dequeue()"),
    "dequeue_many": ("empty", "empty.dequeue_many(2)"),
    "dequeue_up_to": ("empty", "empty.dequeue_up_to(2)"),
    "lease": ("empty", "empty.lease(1)"),
    "iteration": ("empty", "list(empty)"),
}


def script(code: str):
    import textwrap

    return run_python(SETUP + textwrap.dedent(code))


@pytest.mark.parametrize("call", BLOCKED)
def test_ctrl_c_ends_a_wait(call):
    queue, code = BLOCKED[call]
    child = script(f"""
        def press():
            soon(lambda: waiting({queue}))
            global sent
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            {code}
        except KeyboardInterrupt:
            print(time.monotonic() - sent < 0.5, waiting({queue}))
        empty.enqueue(5)
        print(empty.dequeue(), full.dequeue(), full.size())
    """)
    assert (child.stdout, child.stderr) == ("True 0\n5 0 0\n", "")


def test_ctrl_c_ends_a_close_that_waits():
    child = script("""
        threading.Thread(target=lambda: full.enqueue(1)).start()
        soon(lambda: waiting(full) == 1)
        def press():
            soon(lambda: waiting(full) == 2)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            full.close()
        except KeyboardInterrupt:
            print(full.is_closed(), waiting(full))
        print(full.dequeue(), full.dequeue())
    """)
    assert (child.stdout, child.stderr) == ("False 1\n0 1\n", "")


def test_the_end_of_the_process_waits_for_nobody():
    child = script("""
        calls = (lambda: full.enqueue(1), full.close, empty.dequeue, lambda: empty.dequeue_many(3))
        for call in calls:
            threading.Thread(target=call, daemon=True).start()
        soon(lambda: waiting(full) == 2 and waiting(empty) == 2)
        print("end")
    """)
    assert (child.returncode, child.stdout, child.stderr) == (0, "end\n", "")


def test_fork_while_others_wait():
    child = script("""
        warnings.simplefilter("ignore")  # from Python 3.12 on, os.fork() warns where there are threads
        thread = threading.Thread(target=lambda: print(empty.dequeue(), flush=True))
        thread.start()
        soon(lambda: waiting(empty))
        pid = os.fork()
        if pid == 0:
            code = 0
            for use in (empty.size, lambda: empty.enqueue(1), empty.dequeue, empty.close, empty.stats):
                try:
                    use()
                except qc.errors.ForkedPipelineError:
                    code += 1
            mine = qc.FIFOQueue(1, ["i4"], [()])
            mine.enqueue(7)
            os._exit(code + int(mine.dequeue()))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        empty.enqueue(3)
        thread.join()
    """)
    assert (child.stdout, child.stderr) == ("12\n3\n", "")


def native(capacity, start, kind="FIFOQueue"):
    def convert(_index, value, _many):
        return np.ascontiguousarray(value, np.int64)

    return NativeQueue(kind, "q", capacity, 0, [(np.dtype(np.int64), (), "")], None, convert, start=start)


@pytest.mark.parametrize("kind", ["FIFOQueue", "RandomShuffleQueue", "PriorityQueue"])
@pytest.mark.parametrize("below", [0, 1, 5, 100])
@pytest.mark.parametrize("wrap", [2**32, 2**62, 2**63])
def test_counters_wrap(wrap, below, kind):
    q = native(4, wrap - below, kind)
    put, taken = iter(range(1000)), []
    for _ in range(60):
        q.enqueue_many([np.array([next(put) for _ in range(3)])])
        q.enqueue(next(put))
        with pytest.raises(DeadlineExceededError):
            q.enqueue(-1, 0)
        assert q.size() == 4
        taken += q.dequeue_many(2, False).tolist() + [int(q.dequeue()), int(q.dequeue())]
        with pytest.raises(DeadlineExceededError):
            q.dequeue(0)
        assert q.size() == 0
    assert sorted(taken) == list(range(240))
    assert kind == "RandomShuffleQueue" or taken == sorted(taken)
    stats = q.stats()
    assert (stats["enqueued"], stats["dequeued"], stats["high_water"]) == (240, 240, 4)


def test_threads_across_a_wrap():
    q = native(3, 2**63 - 5000)
    taken = []
    threads = [
        threading.Thread(target=lambda p=p: [q.enqueue(10_000 * p + i) for i in range(3000)]) for p in range(4)
    ] + [threading.Thread(target=lambda: [taken.append(int(q.dequeue())) for _ in range(6000)]) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(taken) == sorted(10_000 * p + i for p in range(4) for i in range(3000))


@pytest.mark.parametrize("cls", [qc.FIFOQueue, qc.PriorityQueue])
def test_without_bound_it_grows_while_others_take(cls):
    q = cls(-1, ["i8"], [()])
    rows = [0, 1] if cls is qc.PriorityQueue else [0]

    def put(first):
        for i in range(first, first + 4000, 8):
            q.enqueue_many([np.arange(i, i + 8) for _ in rows])

    taken = []

    def take():
        for one in q:
            taken.append(int(one[0]) if cls is qc.PriorityQueue else int(one))

    takers = [threading.Thread(target=take) for _ in range(2)]
    putters = [threading.Thread(target=put, args=(4000 * k,)) for k in range(4)]
    for one in putters[:3]:
        one.start()
    for one in putters[:3]:
        one.join()
    assert q.size() == 12_000
    for one in (*takers, putters[3]):
        one.start()
    putters[3].join()
    q.close()
    for one in takers:
        one.join()
    assert sorted(taken) == list(range(16_000))


def test_objects_are_let_go():
    class Thing:
        pass

    q = qc.FIFOQueue(10, [object], [()])
    thing = Thing()
    gone = weakref.ref(thing)
    q.enqueue(thing)
    del thing
    assert gone() is not None
    q.dequeue()
    assert gone() is None


def test_a_cycle_through_a_queue_is_collected():
    class Thing:
        pass

    thing = Thing()
    thing.queue = qc.FIFOQueue(10, [object], [()])
    thing.queue.enqueue(thing)
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_an_object_may_use_the_queue_when_it_goes():
    q = qc.FIFOQueue(3, [object], [()])

    class Thing:
        def __del__(self):
            q.enqueue("left")

    q.enqueue(Thing())
    q.dequeue()
    assert q.dequeue() == "left"


def test_a_lease_outlives_its_queue():
    q = qc.FIFOQueue(8, ["i4"], [(4,)])
    q.enqueue_many([np.arange(32).reshape(8, 4)])
    lease = q.lease(8)
    [rows] = lease.rows
    gone = weakref.ref(q)
    del q, lease
    gc.collect()
    assert gone() is None
    assert rows.tolist() == np.arange(32).reshape(8, 4).tolist()


def test_what_is_leased_is_not_written_over():
    q = qc.FIFOQueue(4, ["i4"], [(1000,)])
    held = []
    for k in range(50):
        q.enqueue(np.full(1000, k))
        held.append(q.lease(1).rows[0])
    assert [int(rows[0, 0]) for rows in held] == list(range(50))
    assert all((rows == k).all() for k, rows in enumerate(held))


def test_released_room_is_used_again():
    q = qc.FIFOQueue(4, ["i4"], [(1000,)])
    places = set()
    for k in range(50):
        with q.reserve(2) as [rows]:
            rows[:] = k
        with q.lease(2) as [rows]:
            places.add(rows.__array_interface__["data"][0])
            assert (rows == k).all()
    assert len(places) <= 4
    assert q.stats()["copied_rows"] == 0


def test_a_reservation_ends_in_one_way():
    q = qc.FIFOQueue(4, ["i4"], [()])
    with pytest.raises(ZeroDivisionError), q.reserve(2) as [rows]:
        rows[:] = 1 // 0
    assert q.size() == 0
    kept = q.reserve(2)
    kept.rows[0][:] = [1, 2]
    kept.commit()
    with pytest.raises(FailedPreconditionError):
        kept.commit()
    kept.cancel()
    assert q.dequeue_many(2).tolist() == [1, 2]
    q.reserve(3)  # forgotten
    late = q.reserve(4)
    late.rows[0][:] = range(4)
    q.enqueue(9)
    with pytest.raises(DeadlineExceededError):
        late.commit(timeout=0)
    assert q.dequeue_many(4).tolist() == [9, 0, 1, 2]


def test_a_reservation_of_a_closed_queue_is_given_up():
    q = qc.FIFOQueue(4, ["i4"], [()])
    room = q.reserve(1)
    room.rows[0][:] = 3
    q.close()
    with pytest.raises(CancelledError):
        room.commit()
    assert q.size() == 0


@pytest.mark.parametrize("cancel", [False, True])
def test_many_close_at_once(cancel):
    q = qc.FIFOQueue(2, ["i4"], [()])
    q.enqueue_many([[1, 2]])
    barrier = threading.Barrier(64)
    failed = []

    def close():
        barrier.wait()
        try:
            q.close(cancel)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=close) for _ in range(64)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert q.dequeue_up_to(5).tolist() == [1, 2]
    with pytest.raises(OutOfRangeError):
        q.dequeue()


def test_a_cancelling_close_ends_every_wait_at_once():
    q = qc.FIFOQueue(1, ["i4"], [()])
    q.enqueue(0)
    ended = []

    def wait(call):
        try:
            call()
        except CancelledError:
            ended.append("cancelled")

    calls = [lambda: q.enqueue(1), lambda: q.enqueue_many([[1, 2, 3]]), q.close] * 10
    threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
    for one in threads:
        one.start()
    assert soon(lambda: q.stats()["waiting_enqueues"] == 30, within=10)
    q.close(cancel_pending_enqueues=True)
    for one in threads:
        one.join(5)
    assert ended == ["cancelled"] * 30
    assert q.dequeue() == 0
    assert q.size() == 0


def test_a_signal_handler_may_put():
    q = qc.FIFOQueue(1, ["i4"], [()])
    before = signal.signal(signal.SIGALRM, lambda *_: q.enqueue(4))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert q.dequeue(timeout=10) == 4
    finally:
        signal.signal(signal.SIGALRM, before)
