"""Queues under signals, forks, exits and the collector; counters about to wrap; what holds memory, and for how long."""

from __future__ import annotations

import contextlib
import functools
import gc
import signal
import threading
import weakref

import numpy as np
import pytest
from helpers.faults.memory import call_without
from helpers.process import AT_ONCE, run_python, soon

import queuecore as qc
from queuecore._core.handoff.queues import FIFO, PRIORITY, RANDOM, NativeQueue
from queuecore._core.handoff.slots import ARRAY, QueueDescription, SlotComponent
from queuecore.errors import CancelledError, DeadlineExceededError, FailedPreconditionError, OutOfRangeError

SETUP = """
import os, signal, sys, threading, time, warnings
import numpy as np
import queuecore as qc
from helpers.process import AT_ONCE
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


@pytest.mark.sampled(4)
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
            print(time.monotonic() - sent < AT_ONCE, waiting({queue}))
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
        for i, call in enumerate(calls):  # each waits behind those before it
            threading.Thread(target=call, daemon=True).start()
            soon(lambda: waiting(full) + waiting(empty) == i + 1)
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
    def convert(value, _many):
        return np.ascontiguousarray(value, np.int64)

    store = {"FIFOQueue": FIFO, "RandomShuffleQueue": RANDOM, "PriorityQueue": PRIORITY}[kind]
    component = SlotComponent(np.dtype(np.int64), (), ARRAY, convert)
    description = QueueDescription(kind, "q", store, capacity, [component])
    description.start = start
    return NativeQueue(description)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["FIFOQueue", "RandomShuffleQueue", "PriorityQueue"])
@pytest.mark.parametrize("below", [0, 1, 5, 100])
@pytest.mark.parametrize("wrap", [2**32, 2**62, 2**63])
def test_counters_wrap(wrap, below, kind):
    q = native(4, wrap - below, kind)
    put, numbers = iter(range(1000)), []
    for _ in range(60):
        q.enqueue_many([np.array([next(put) for _ in range(3)])])
        q.enqueue(next(put))
        with pytest.raises(DeadlineExceededError):
            q.enqueue(-1, 0)
        assert q.size() == 4
        numbers += q.dequeue_many(2, False).tolist() + [int(q.dequeue()), int(q.dequeue())]
        with pytest.raises(DeadlineExceededError):
            q.dequeue(0)
        assert q.size() == 0
    assert sorted(numbers) == list(range(240))
    assert kind == "RandomShuffleQueue" or numbers == sorted(numbers)
    stats = q.stats()
    assert (stats["enqueued"], stats["dequeued"], stats["high_water"]) == (240, 240, 4)


def test_threads_across_a_wrap():
    q = native(3, 2**63 - 5000)
    numbers = []
    threads = [
        threading.Thread(target=lambda p=p: [q.enqueue(10_000 * p + i) for i in range(3000)]) for p in range(4)
    ] + [threading.Thread(target=lambda: [numbers.append(int(q.dequeue())) for _ in range(6000)]) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(numbers) == sorted(10_000 * p + i for p in range(4) for i in range(3000))


@pytest.mark.parametrize("cls", [qc.FIFOQueue, qc.PriorityQueue])
def test_without_bound_it_grows_while_others_take(cls):
    q = cls(-1, ["i8"], [()])
    rows = [0, 1] if cls is qc.PriorityQueue else [0]

    def put(first):
        for i in range(first, first + 4000, 8):
            q.enqueue_many([np.arange(i, i + 8) for _ in rows])

    numbers = []

    def take():
        for element in q:
            numbers.append(int(element[0]) if cls is qc.PriorityQueue else int(element))

    takers = [threading.Thread(target=take) for _ in range(2)]
    putters = [threading.Thread(target=put, args=(4000 * k,)) for k in range(4)]
    for thread in putters[:3]:
        thread.start()
    for thread in putters[:3]:
        thread.join()
    assert q.size() == 12_000
    for thread in (*takers, putters[3]):
        thread.start()
    putters[3].join()
    q.close()
    for thread in takers:
        thread.join()
    assert sorted(numbers) == list(range(16_000))


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


@pytest.mark.thorough
def test_a_reservation_goes_with_its_queue():
    # Its slots lie apart, so no array has them: the collector may take the queue from them before they are given back.
    child = script("""
        import gc, weakref
        gone = []
        for _ in range(50):
            q = qc.FIFOQueue(8, ["i4"], [(4,)])
            rooms = [q.reserve(1) for _ in range(5)]
            for i in (0, 1, 3):
                rooms[i].cancel()
            error = ValueError()
            error.room = q.reserve(3)
            rooms[2].cancel()
            rooms[4].cancel()
            q._native.fail(error)
            gone.append(weakref.ref(q._native))
            del q, error, rooms
            gc.collect()
        print(sum(one() is None for one in gone))
    """)
    assert (child.stdout, child.stderr) == ("50\n", "")


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
        with q.reserve(2) as rows:
            rows[0][:] = k
        with q.lease(2) as rows:
            places.add(rows[0].__array_interface__["data"][0])
            assert (rows[0] == k).all()
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
    threads[0].start()
    assert soon(lambda: q.stats()["waiting_enqueues"] == 1, within=10)  # a close that came first would not wait
    for one in threads[1:]:
        one.start()
    assert soon(lambda: q.stats()["waiting_enqueues"] == 30, within=10)
    q.close(cancel_pending_enqueues=True)
    for one in threads:
        one.join(AT_ONCE)
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


# ---- what is kept of a lease or a reservation


def busy(q, rounds=3, value=-1):
    """Use every place of the queue several times, and more than it holds."""
    n = q.capacity
    for _ in range(rounds):
        q.enqueue_many([np.full((n, *q.shapes[0]), value, q.dtypes[0])])
        with q.reserve(n) as rows:
            rows[0][:] = value
            q.dequeue_many(n)
        q.dequeue_many(n)


@pytest.mark.parametrize("cls", [qc.FIFOQueue, qc.PaddingFIFOQueue])
@pytest.mark.parametrize(
    "keep",
    [
        lambda rows: rows[0],
        lambda rows: rows[0][3:5],
        lambda rows: rows[0][1],
        lambda rows: rows[0].view("u1"),
        lambda rows: rows[0].T,
        lambda rows: memoryview(rows[0]),
        lambda rows: np.lib.stride_tricks.as_strided(rows[0], (2, 2)),
    ],
    ids=["array", "slice", "row", "view", "transposed", "memoryview", "as_strided"],
)
def test_what_is_kept_of_a_lease_stays_as_it_is(keep, cls):
    q = cls(8, ["i4"], [(4,)])
    q.enqueue_many([np.arange(32).reshape(8, 4)])
    with q.lease(8) as rows:
        view = keep(rows)
        wanted = np.array(view)
    del rows
    busy(q)
    assert (np.asarray(view) == wanted).all()
    assert q.stats()["held_rows"] == 8
    del view
    assert q.stats()["held_rows"] == 0


@pytest.mark.parametrize("n", [1, 3, 8])
def test_what_is_kept_of_a_reservation_is_nobody_elses(n):
    q = qc.FIFOQueue(8, ["i4", "f8"], [(4,), ()])
    with q.reserve(n) as rows:
        rows[0][:] = 5
        rows[1][:] = 0.5
        view, part = rows[0], rows[1][-1:]
    assert rows == []
    view[:] = 77
    part[:] = 7.7
    a, b = q.dequeue_many(n)
    assert (a == 5).all() and (b == 0.5).all()
    for _ in range(4):
        q.enqueue_many([np.full((8, 4), 9), np.full(8, 0.9)])
        q.dequeue_many(8)
    assert (view == 77).all() and (part == 7.7).all()
    assert q.stats()["copied_rows"] == n
    assert q.stats()["held_rows"] == n
    del view, part
    assert q.stats()["held_rows"] == 0


def test_a_reservation_of_which_nothing_is_kept_is_not_copied():
    q = qc.FIFOQueue(8, ["i4"], [(4,)], names=["x"])
    for k in range(20):
        with q.reserve(4) as rows:
            rows["x"][:] = k
        assert rows == {}
        assert (q.dequeue_many(4)["x"] == k).all()
    assert q.stats()["copied_rows"] == 0
    assert q.stats()["held_rows"] == 0


@pytest.mark.parametrize("end", ["error", "cancel", "forgotten", "closed"])
def test_what_is_kept_of_a_reservation_that_was_given_up(end):
    q = qc.FIFOQueue(4, ["i4"], [(1000,)])
    if end == "error":
        with pytest.raises(ZeroDivisionError), q.reserve(4) as [view]:
            view[:] = 1
            raise ZeroDivisionError
    else:
        room = q.reserve(4)
        [view] = room.rows
        view[:] = 1
        if end == "cancel":
            room.cancel()
        elif end == "closed":
            q.close()
            with pytest.raises(CancelledError):
                room.commit()
        del room
    if end == "closed":
        assert (view == 1).all()
        return
    q.enqueue_many([np.full((4, 1000), 2)])
    view[:] = 3
    assert (q.dequeue_many(4) == 2).all()
    assert q.stats()["held_rows"] == 4
    del view
    assert q.stats()["held_rows"] == 0


def test_rows_that_nobody_fills_show_no_other_element():
    q = qc.FIFOQueue(8, ["i4", "S5"], [(100,), ()])
    for n in (1, 3, 8):
        q.enqueue_many([np.full((8, 100), 7), [b"other"] * 8])
        q.dequeue_many(8)
        reservation = q.reserve(n)  # others have to take places that don't lie side by side, as well
        with q.reserve(8) as rows:
            rows[0][::2, 1] = 1
        numbers, strings = q.dequeue_many(8)
        assert (numbers[:, 1] == [1, 0] * 4).all()
        numbers[:, 1] = 0
        assert not numbers.any() and strings.tolist() == [b""] * 8
        reservation.cancel()


def test_arrays_put_into_the_list_of_a_reservation_change_nothing():
    q = qc.FIFOQueue(8, ["i4"], [(4,)])
    reservations = [q.reserve(1) for _ in range(8)]
    del reservations[::2]
    for _ in range(2):  # in places that lie apart, and side by side
        with q.reserve(4) as rows:
            rows[0][:] = 1
            rows[0] = np.zeros((1, 1), "i1")
        assert (q.dequeue_many(4) == 1).all()
        reservations.clear()


def test_views_outlive_the_queue_and_end_in_another_thread():
    q = qc.FIFOQueue(8, ["i4"], [(4,)])
    q.enqueue_many([np.arange(32).reshape(8, 4)])
    views = []
    with q.lease(4) as rows:
        views.append(rows[0][2:])
    with q.reserve(4) as rows:
        views.append(rows[0])
    del rows
    q.close(cancel_pending_enqueues=True)
    assert q.dequeue_many(4).tolist() == np.arange(16, 32).reshape(4, 4).tolist()
    native = q._native
    del q
    gc.collect()
    assert views[0].tolist() == np.arange(8, 16).reshape(2, 4).tolist() and not views[1].any()
    thread = threading.Thread(target=views.clear)
    thread.start()
    thread.join()
    assert native.stats()["held_rows"] == 0


def test_rows_are_lent_and_returned_by_many_threads():
    q = qc.FIFOQueue(16, ["i8"], [(50,)])
    wrong = []

    def put(first):
        view = None
        for k in range(first, first + 100):
            with q.reserve(2) as rows:
                rows[0][:] = k
                if k % 2:
                    view = rows[0][0]
            if view is not None:
                view[:] = -1

    def get():
        views = []
        for _ in range(200):
            with q.lease(1) as rows:
                views.append((int(rows[0][0, 0]), rows[0][0, 1:]))
            wrong.extend(k for k, row in views if k < 0 or not (row == k).all())
            if len(views) == 40:
                del views[:]

    threads = [threading.Thread(target=put, args=(1000 * k,)) for k in range(2)]
    threads += [threading.Thread(target=get) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []
    assert (q.size(), q.stats()["held_rows"]) == (0, 0)


def test_a_forked_child_has_the_views_but_gives_nothing_back():
    child = script("""
        warnings.simplefilter("ignore")
        q = qc.FIFOQueue(4, ["i4"], [(4,)])
        q.enqueue_many([np.arange(16).reshape(4, 4)])
        with q.lease(4) as rows:
            kept = rows[0][1:]
        del rows
        pid = os.fork()
        if pid == 0:
            right = kept.tolist() == np.arange(4, 16).reshape(3, 4).tolist()
            del kept, q
            os._exit(int(right))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        q.enqueue_many([np.full((4, 4), -1)])
        print(kept.tolist() == np.arange(4, 16).reshape(3, 4).tolist(), q.stats()["held_rows"])
        del kept
        print(q.stats()["held_rows"])
    """)
    assert (child.stdout, child.stderr) == ("1\nTrue 4\n0\n", "")


# ---- no memory


QUEUES = {
    "FIFOQueue": lambda: qc.FIFOQueue(16, ["i8", "i4"], [(), (3,)]),
    "RandomShuffleQueue": lambda: qc.RandomShuffleQueue(16, 0, ["i8", "i4"], [(), (3,)]),
    "PriorityQueue": lambda: qc.PriorityQueue(16, ["i4"], [(3,)]),
}


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("call", ["dequeue", "dequeue_many", "dequeue_up_to", "lease"])
def test_no_element_is_lost_where_memory_ends(kind, call):
    q = QUEUES[kind]()
    q.enqueue_many([np.arange(8), np.arange(24).reshape(8, 3)])
    arguments = () if call == "dequeue" else (3,)
    method = getattr(q, call)
    failed = 0
    for n in range(40):
        try:
            results = call_without(n, lambda: method(*arguments))
        except MemoryError:
            results = None
        if results is None:
            failed += 1
            assert q.size() == 8
        else:
            if call == "lease":
                results = [np.array(one) for one in results.rows]
            elif call == "dequeue":
                results = [np.array([one]) for one in results]
            assert q.size() == 8 - len(results[0])
            q.enqueue_many(results)
    assert failed
    assert (q.size(), q.stats()["held_rows"]) == (8, 0)
    numbers, rows = q.dequeue_many(8)
    assert sorted(numbers.tolist()) == list(range(8))
    assert (rows == numbers[:, None] * 3 + np.arange(3)).all()


@pytest.mark.parametrize("kind", QUEUES)
def test_a_reservation_is_whole_or_given_up_where_memory_ends(kind):
    q = QUEUES[kind]()
    put = 0
    for n in range(60):
        for apart in (False, True):
            reservations = [q.reserve(1) for _ in range(6)]
            del reservations[:: 2 if apart else 1]
            room = view = None

            def put_two():
                nonlocal room, view
                room = q.reserve(2)
                view = room.rows[0]
                room.rows[1][:] = view[:] = n  # noqa: B023
                room.commit()

            with contextlib.suppress(MemoryError):
                call_without(n, put_two)
            if room is not None and not q.size():
                room.commit()  # nothing is lost: once more
            if room is not None:
                numbers, rows = q.dequeue_many(2)
                assert numbers.tolist() in ([n, n], [0, 0]) and rows.shape == (2, 3)
                put += 1
            assert q.size() == 0
            del reservations, view, room
            assert q.stats()["held_rows"] == 0
    assert put


def test_a_put_of_many_that_fails_half_way_keeps_nothing():

    class Thing:
        pass

    def fails_at(n):
        q = qc.FIFOQueue(-1, [object], [()])
        things = [Thing() for _ in range(6000)]
        references = [weakref.ref(thing) for thing in things]
        try:
            call_without(n, functools.partial(q.enqueue_many, [things]))
            return None
        except MemoryError:
            pass
        del things
        size = q.size()
        assert [ref() is None for ref in references] == [False] * size + [True] * (6000 - size)
        q.enqueue("later")  # the queue goes on
        assert q.size() == size + 1
        return size

    assert fails_at(50) == 0
    # Rows go in 4096 at a time; so many allocations, for some n between these two, are those of the second piece.
    sizes = {fails_at(n) for n in range(4200, 20_000, 400)}
    assert sizes == {0, 4096, None}
