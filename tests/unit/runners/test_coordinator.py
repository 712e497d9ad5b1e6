"""Coordinator and LooperThread: section by section what they promise."""

import contextlib
import functools
import signal
import sys
import threading
import time
import traceback

import pytest
from helpers.process import AT_ONCE, PATIENCE, soon, thread_ids

import queuecore as qc
from queuecore._core.atoms.runtime import StopEvent
from queuecore.errors import CancelledError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError

HEARD = 0.1  # how soon every wait hears a stop; measured with a margin for a busy machine
MARGIN = AT_ONCE


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def coord():
    return qc.Coordinator()


@contextlib.contextmanager
def running(target, *args, count=1):
    """Threads that are started, and have ended at the end."""
    threads = [threading.Thread(target=target, args=args, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Held:
    """A thread that runs until it is let go, whatever the coordinator says."""

    def __init__(self, name="held"):
        self.let_go = threading.Event()
        self.thread = threading.Thread(target=self.let_go.wait, name=name, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.let_go.set()
        self.thread.join(PATIENCE)


# The native stop


def test_stop_is_set_once():
    stop = StopEvent()
    assert (stop.is_set(), stop.set_at(), stop.wait(0)) == (False, None, False)
    before = time.monotonic_ns()
    assert stop.set() is True
    at = stop.set_at()
    assert before <= at <= time.monotonic_ns()
    assert stop.set() is False
    assert (stop.is_set(), stop.set_at(), stop.wait(), stop.wait(0)) == (True, at, True, True)


def test_child_hears_its_parent_and_not_the_reverse():
    parent = StopEvent()
    child, other, grandchild = StopEvent(parent), StopEvent(parent), None
    grandchild = StopEvent(child)
    assert child.parent is parent and parent.parent is None
    assert child.set()
    assert [x.is_set() for x in (parent, child, other, grandchild)] == [False, True, False, True]
    assert parent.set()
    assert other.is_set() and other.set_at() == parent.set_at() and child.set_at() < parent.set_at()


def test_child_keeps_what_it_waits_on():
    child = StopEvent(StopEvent(StopEvent()))
    with running(child.wait):
        assert child.set()


@pytest.mark.parametrize("whose", ["own", "parent", "grandparent"])
def test_waits_of_a_child_hear_each_of_them(whose):
    grandparent = StopEvent()
    parent = StopEvent(grandparent)
    child = StopEvent(parent)
    sibling = StopEvent(parent)
    heard = []
    with running(lambda: heard.append(child.wait()), count=4):
        sibling.set()  # wakes them for nothing
        {"own": child, "parent": parent, "grandparent": grandparent}[whose].set()
    assert heard == [True] * 4


@pytest.mark.parametrize("bad", [float("nan")])
def test_stop_timeout_that_is_no_number(bad):
    with pytest.raises(InvalidArgumentError):
        StopEvent().wait(bad)
    with pytest.raises(TypeError):
        StopEvent().wait("1")


def test_sixty_four_threads_stopping_at_once():
    for _ in range(20):
        stop = StopEvent()
        barrier = threading.Barrier(64)
        won, heard = [], []

        def work(stop=stop, barrier=barrier, won=won, heard=heard):
            barrier.wait()
            won.append(stop.set())
            heard.append(stop.wait())

        with running(work, count=64):
            assert stop.wait(PATIENCE)
        assert sorted(won) == [False] * 63 + [True]
        assert heard == [True] * 64


# request_stop, should_stop, wait_for_stop


def test_stop(coord):
    assert coord.should_stop() is False
    assert coord.wait_for_stop(0) is False
    coord.request_stop()
    coord.request_stop()
    assert coord.should_stop() is True
    assert coord.wait_for_stop() is True
    coord.join()
    assert coord.exceptions == ()


def test_wait_for_stop_times_out(coord):
    begun = time.monotonic()
    assert coord.wait_for_stop(0.05) is False
    assert coord.wait_for_stop(timeout=0.06) is False
    assert 0.11 <= time.monotonic() - begun < 0.11 + MARGIN
    assert coord.wait_for_stop(-1) is False


@pytest.mark.parametrize("timeout", [None, 1000, float("inf"), 1e300])
def test_wait_for_stop_hears_it(coord, timeout):
    at = []
    with running(lambda: at.append((coord.wait_for_stop(timeout), time.monotonic())), count=8):
        begun = time.monotonic()
        coord.request_stop()
    assert len(at) == 8
    assert all(heard and when - begun < HEARD + MARGIN for heard, when in at)


def test_waits_do_not_poll(coord):
    # Eight sleepers for a second: polling once in a millisecond would cost a good part of it.
    before = thread_ids()
    with running(coord.wait_for_stop, count=8):
        assert soon(lambda: len(thread_ids() - before) == 8)
        begun = time.process_time()
        assert not coord.wait_for_stop(1)
        assert time.process_time() - begun < 0.2
        coord.request_stop()


def test_sixty_four_threads_stopping_a_coordinator_at_once():
    for _ in range(10):
        coord = qc.Coordinator()
        barrier = threading.Barrier(64)

        def work(index, coord=coord, barrier=barrier):
            with coord.stop_on_exception():
                barrier.wait()
                raise ValueError(index)

        threads = [threading.Thread(target=work, args=(index,)) for index in range(64)]
        for thread in threads:
            thread.start()
        with pytest.raises(ValueError) as caught:
            coord.join(threads)
        assert caught.value is coord.exceptions[0]
        assert sorted(error.args[0] for error in coord.exceptions) == list(range(64))


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("form", ["instance", "triple", "unraised", "unraised triple", "class triple"])
def test_forms_of_an_exception_outside_an_except_block(coord, form):
    error = ValueError("x")
    if form in ("instance", "triple"):
        raised(error)
    traceback_ = error.__traceback__
    coord.request_stop(
        {
            "instance": error,
            "unraised": error,
            "triple": (ValueError, error, traceback_),
            "unraised triple": (ValueError, error, None),
            "class triple": (ValueError, None, None),
        }[form]
    )
    with pytest.raises(ValueError) as caught:
        coord.join()
    if form != "class triple":
        assert caught.value is error
    if form in ("instance", "triple"):
        assert "raised" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_exc_info_inside_an_except_block(coord):
    try:
        raise KeyError("here")
    except KeyError:
        coord.request_stop(sys.exc_info())
    assert sys.exc_info() == (None, None, None)
    with pytest.raises(KeyError):
        coord.join()


def test_exc_info_of_no_exception_is_a_plain_stop(coord):
    coord.request_stop(sys.exc_info())
    assert coord.should_stop()
    coord.join()


@pytest.mark.parametrize("bad", ["x", 1, ValueError, (1, 2), (1, 2, 3), [None] * 3, (None, "x", None)])
def test_what_is_no_exception(coord, bad):
    with pytest.raises(TypeError):
        coord.request_stop(bad)
    assert not coord.should_stop()
    coord.join()


def test_first_error_wins_and_all_are_kept(coord):
    errors = [ValueError(0), TypeError(1), KeyError(2)]
    for error in errors:
        coord.request_stop(error)
    coord.request_stop(errors[1])  # again
    assert coord.exceptions == tuple(errors)
    with pytest.raises(ValueError) as caught:
        coord.join()
    assert caught.value is errors[0]


@pytest.mark.parametrize("clean", [None, OutOfRangeError("end")])
def test_first_real_error_wins_after_a_clean_stop(coord, clean):
    coord.request_stop(clean)
    coord.request_stop(clean)
    coord.request_stop(ValueError("real"))
    with pytest.raises(ValueError):
        coord.join()


@pytest.mark.parametrize("before", [None, OutOfRangeError("end"), ValueError("real")])
def test_cancelled_by_the_stop_is_never_recorded(coord, before):
    coord.request_stop(before)
    coord.request_stop(CancelledError("enqueue was cancelled"))
    with coord.stop_on_exception():
        raise CancelledError("so was this")
    assert coord.exceptions == ((before,) if isinstance(before, ValueError) else ())
    with pytest.raises(ValueError) if isinstance(before, ValueError) else contextlib.nullcontext():
        coord.join()


def test_cancelled_without_a_stop_is_an_error(coord):
    coord.request_stop(CancelledError("somebody closed it"))
    with pytest.raises(CancelledError):
        coord.join()


@pytest.mark.parametrize(
    ("types", "error", "clean"),
    [
        (None, OutOfRangeError, True),
        (None, CancelledError, False),
        (None, StopIteration, False),
        ((), OutOfRangeError, False),
        ((ValueError,), OutOfRangeError, False),
        ((ValueError,), InvalidArgumentError, True),
        ((ValueError, OutOfRangeError), OutOfRangeError, True),
        ((CancelledError,), CancelledError, True),
        ((BaseException,), KeyboardInterrupt, True),
    ],
)
def test_clean_types(types, error, clean):
    coord = qc.Coordinator(types) if types is not None else qc.Coordinator()
    coord.request_stop(error("x"))
    assert coord.should_stop()
    assert len(coord.exceptions) == (0 if clean else 1)
    with contextlib.nullcontext() if clean else pytest.raises(error):
        coord.join()
    coord.request_stop(None)


@pytest.mark.parametrize("bad", [ValueError, [ValueError], (1,), ("ValueError",), (int,), "x", 0])
def test_bad_clean_types(bad):
    with pytest.raises(TypeError):
        qc.Coordinator(clean_stop_exception_types=bad)


# join


def test_join_without_threads(coord):
    assert not coord.joined
    coord.join()
    coord.join([])
    coord.join(iter(()))
    assert coord.joined
    assert not coord.should_stop()


def test_join_ends_when_all_threads_end_by_themselves(coord):
    with Held() as one, Held() as other:
        timer = threading.Timer(0.05, lambda: (one.let_go.set(), other.let_go.set()))
        timer.start()
        coord.register_thread(one.thread)
        coord.join([other.thread], stop_grace_period_secs=0)
        assert not one.thread.is_alive() and not other.thread.is_alive()
        timer.join()
    assert coord.joined and not coord.should_stop()


def test_join_waits_past_a_short_grace_period_while_nothing_stops(coord):
    with Held() as held:
        timer = threading.Timer(0.2, held.let_go.set)
        begun = time.monotonic()
        timer.start()
        coord.join([held.thread], stop_grace_period_secs=0)
        assert time.monotonic() - begun > 0.15
        timer.join()


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("grace", [0, 0.01, 0.3, -5])
def test_stragglers(coord, when, grace):
    with Held("left-behind") as straggler:
        timer = threading.Timer(0 if when == "before" else 0.1, coord.request_stop)
        timer.start()
        if when == "before":
            timer.join()
        begun = time.monotonic()
        with pytest.raises(RuntimeError) as caught:
            coord.join([straggler.thread], stop_grace_period_secs=grace)
        took = time.monotonic() - begun
        timer.join()
        assert max(grace, 0) <= took < max(grace, 0) + HEARD + MARGIN
        assert isinstance(caught.value, FailedPreconditionError)
        first, where = str(caught.value).split("\n")
        assert first == "Coordinator stopped with threads still running: left-behind"
        assert "wait (" in where and "threading.py:" in where  # where it is
        assert coord.joined


def test_grace_counts_from_the_stop(coord):
    with Held() as held:
        begun = time.monotonic()
        threading.Timer(0.2, coord.request_stop).start()
        coord.join([held.thread], stop_grace_period_secs=0.3, ignore_live_threads=True)
        assert 0.5 <= time.monotonic() - begun < 0.5 + MARGIN


def test_grace_counts_from_the_call_if_the_stop_was_before(coord):
    coord.request_stop()
    time.sleep(0.2)
    with Held() as held:
        begun = time.monotonic()
        coord.join([held.thread], stop_grace_period_secs=0.1, ignore_live_threads=True)
        assert time.monotonic() - begun >= 0.1


def test_join_wakes_when_the_last_thread_ends_within_the_grace_period(coord):
    with running(coord.wait_for_stop, count=5) as threads:
        threading.Timer(0.1, coord.request_stop).start()
        begun = time.monotonic()
        coord.join(threads)
        assert time.monotonic() - begun < 0.1 + MARGIN
        assert not any(thread.is_alive() for thread in threads)


def test_live_threads_can_be_ignored(coord, caplog):
    caplog.set_level("INFO", logger="queuecore")
    coord.request_stop()
    with Held("one") as one, Held("two") as two:
        coord.join([one.thread, two.thread], 0, ignore_live_threads=True)
    assert [record.message for record in caplog.records] == ["Coordinator stopped with threads still running: one two"]


@pytest.mark.parametrize("ignore", [True, False])
def test_an_error_beats_the_stragglers(coord, ignore):
    coord.request_stop(ValueError("x"))
    with Held() as held, pytest.raises(ValueError):
        coord.join([held.thread], stop_grace_period_secs=0, ignore_live_threads=ignore)
    assert coord.joined


def test_join_empties_the_set(coord):
    coord.request_stop()
    with Held() as held:
        coord.register_thread(held.thread)
        coord.register_thread(held.thread)
        with pytest.raises(RuntimeError, match="running: held\n"):
            coord.join(stop_grace_period_secs=0)
        coord.join(stop_grace_period_secs=0)


def test_threads_that_register_during_join_are_waited_for(coord):
    late = []

    def second():
        coord.wait_for_stop(0.1)
        late.append("ended")

    def first():
        thread = threading.Thread(target=second)
        coord.register_thread(thread)
        thread.start()

    with running(first) as threads:
        coord.join(threads)
        assert late == ["ended"]


def test_unstarted_threads_count_as_ended(coord):
    coord.register_thread(threading.Thread())
    coord.join([threading.Thread()])


def test_joining_oneself(coord):
    # The calling thread waits for the stop, and for the others.
    result = []

    def work():
        try:
            coord.join()
        except RuntimeError as error:
            result.append(str(error))

    me = threading.Thread(target=work, name="me")
    coord.register_thread(me)
    with running(coord.wait_for_stop) as others:
        coord.register_thread(others[0])
        me.start()
        time.sleep(0.05)
        assert me.is_alive()
        coord.request_stop()
        me.join(PATIENCE)
    assert result[0].startswith("Coordinator stopped with threads still running: me\n")


@pytest.mark.parametrize("bad", ["1", None, float("nan"), [1]])
def test_bad_grace(coord, bad):
    with pytest.raises(InvalidArgumentError):
        coord.join(stop_grace_period_secs=bad)
    assert not coord.joined


def test_join_raises_the_same_object_with_its_own_traceback_each_time(coord):
    def deep():
        raise ValueError("x")

    def work():
        with coord.stop_on_exception():
            deep()

    with running(work):
        pass
    lengths = set()
    for use in [coord.join, coord.join, coord.raise_requested_exception, coord.raise_requested_exception]:
        with pytest.raises(ValueError) as caught:
            use()
        assert caught.value is coord.exceptions[0]
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-2:] == ["work", "deep"]
        lengths.add(len(names))
    assert len(lengths) <= 2  # not longer with every time


def test_raise_requested_exception(coord):
    coord.raise_requested_exception()
    coord.request_stop()
    coord.raise_requested_exception()
    coord.request_stop(ValueError("x"))
    for _ in range(2):
        with pytest.raises(ValueError):
            coord.raise_requested_exception()
    assert not coord.joined


def test_request_stop_after_join(coord):
    coord.join()
    coord.request_stop()
    coord.request_stop(OutOfRangeError("end"))
    coord.request_stop(CancelledError("of the stop"))
    assert coord.should_stop()
    error = ValueError("x")
    with pytest.raises(ValueError) as caught:
        coord.request_stop(error)
    assert caught.value is error
    with pytest.raises(TypeError), coord.stop_on_exception():
        raise TypeError("y")


def test_an_error_at_the_end_of_join_is_never_lost():
    for _ in range(300):
        coord = qc.Coordinator()
        barrier = threading.Barrier(2)
        events = []

        def work(coord=coord, barrier=barrier, events=events):
            barrier.wait()
            try:
                coord.request_stop(ValueError("x"))
            except ValueError:
                events.append("reporter")

        with running(work):
            barrier.wait()
            try:
                coord.join()
            except ValueError:
                events.append("join")
        assert events


# clear_stop


@pytest.mark.parametrize("error", [None, ValueError("x")])
def test_clear_stop(coord, error):
    coord.request_stop(error)
    with contextlib.suppress(ValueError):
        coord.join()
    assert coord.joined
    coord.clear_stop()
    assert (coord.joined, coord.should_stop(), coord.exceptions, coord.wait_for_stop(0)) == (False, False, (), False)
    coord.join()
    coord.clear_stop()
    assert not coord.joined
    coord.request_stop(TypeError("y"))
    with pytest.raises(TypeError):
        coord.join()


def test_waits_survive_a_clear_without_a_stop(coord):
    with running(coord.wait_for_stop):
        coord.clear_stop()
        coord.request_stop()


def test_no_wait_misses_a_stop_that_is_cleared_at_once(coord):
    heard = []
    started = threading.Semaphore(0)

    def work():
        started.release()
        heard.append(coord.wait_for_stop(PATIENCE))

    with running(work, count=8):
        for _ in range(8):
            started.acquire()
        time.sleep(0.05)  # most of them wait by now; those that don't hear the second stop
        coord.request_stop()
        coord.clear_stop()
        coord.request_stop()
    assert heard == [True] * 8


# stop_on_exception


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration(), OutOfRangeError("end"), CancelledError("x")])
def test_stop_on_exception_swallows_errors(coord, error):
    with coord.stop_on_exception() as nothing:
        assert nothing is None
        raise error
    assert coord.should_stop()
    assert coord.exceptions == (() if isinstance(error, OutOfRangeError) else (error,))


def test_stop_on_exception_without_one(coord):
    with coord.stop_on_exception():
        pass
    assert not coord.should_stop()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_are_recorded_and_go_on_in_the_main_thread(coord, error):
    with pytest.raises(error), coord.stop_on_exception():
        raise error
    assert coord.should_stop()
    with pytest.raises(error):
        coord.join()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_are_recorded_and_swallowed_elsewhere(coord, error):
    after = []

    def work():
        with coord.stop_on_exception():
            raise error
        after.append(1)

    with running(work):
        pass
    assert after == [1]
    with pytest.raises(error):
        coord.join()


# Signals


def in_handler(action, delay=0.1):
    """Have a signal handler do something in a moment, in the main thread."""
    signal.signal(signal.SIGALRM, lambda *_: action())
    signal.setitimer(signal.ITIMER_REAL, delay)


@pytest.fixture
def handlers():
    old = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


class Interrupt(Exception):
    pass


def interrupt():
    raise Interrupt


def test_request_stop_in_a_handler(coord, handlers):
    in_handler(coord.request_stop)
    begun = time.monotonic()
    assert coord.wait_for_stop(PATIENCE)
    assert time.monotonic() - begun < 0.1 + HEARD + MARGIN


def test_request_stop_in_a_handler_during_join(coord, handlers):
    in_handler(functools.partial(coord.request_stop, ValueError("from the handler")))
    with running(coord.wait_for_stop) as threads, pytest.raises(ValueError):
        coord.join(threads)


@pytest.mark.parametrize("wait", ["join", "wait_for_stop", "grace"])
def test_handlers_run_during_waits(coord, handlers, wait):
    with Held() as straggler:
        if wait == "grace":
            coord.request_stop()
        begun = time.monotonic()
        with pytest.raises(Interrupt):
            in_handler(interrupt)
            coord.wait_for_stop() if wait == "wait_for_stop" else coord.join([straggler.thread])
        assert time.monotonic() - begun < 0.1 + HEARD + MARGIN
    assert not coord.joined
    coord.join()


# LooperThread


def test_looper_calls_at_once_and_then_at_multiples(coord):
    times = []
    begun = time.monotonic()

    def work():
        times.append(time.monotonic() - begun)
        if len(times) == 4:
            coord.request_stop()

    thread = qc.LooperThread.loop(coord, 0.1, work)
    assert isinstance(thread, qc.LooperThread) and thread.daemon
    coord.join()
    assert not thread.is_alive()
    assert len(times) == 4
    assert all(at >= 0.1 * index for index, at in enumerate(times))


def test_looper_has_no_drift_and_catches_up(monkeypatch):
    # On a clock of its own, where waits are exact and calls take as long as they are told.
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    class Coordinator(qc.Coordinator):
        def wait_for_stop(self, timeout=None):
            clock.now += max(timeout, 0)
            return len(calls) == len(durations)

    clock = Clock()
    durations = [3, 0, 25, 0, 0, 3, 9, 10, 0]
    calls = []

    def work():
        calls.append(clock.now - 1000)
        clock.now += durations[len(calls) - 1]

    monkeypatch.setattr("queuecore._runners.looper.time", clock)
    qc.LooperThread(Coordinator(), 10, work).run()
    assert calls == [0, 10, 20, 45, 45, 50, 60, 70, 80]


@pytest.mark.parametrize("interval", [None, 0])
def test_looper_back_to_back(coord, interval):
    calls = []

    def work():
        calls.append(1)
        if len(calls) == 1000:
            coord.request_stop()

    qc.LooperThread.loop(coord, interval, work)
    coord.join()
    assert len(calls) == 1000


def test_looper_hears_a_stop_in_its_pause(coord):
    called = threading.Event()
    thread = qc.LooperThread.loop(coord, 1000, called.set)
    assert called.wait(PATIENCE)
    begun = time.monotonic()
    coord.request_stop()
    thread.join(PATIENCE)
    assert time.monotonic() - begun < HEARD + MARGIN
    coord.join()


def test_looper_arguments(coord):
    results = []

    def work(*args, **kwargs):
        results.append((args, kwargs))
        coord.request_stop()

    qc.LooperThread.loop(coord, None, work, args=(1, 2), kwargs={"a": 3})
    coord.join()
    coord.clear_stop()
    qc.LooperThread(coord, 10, target=work, args=[4]).start()
    coord.join()
    coord.clear_stop()
    thread = qc.LooperThread(coord, None, work, kwargs={"b": 5})
    assert thread.daemon and not thread.is_alive()
    thread.start()
    coord.join()
    assert results == [((1, 2), {"a": 3}), ((4,), {}), ((), {"b": 5})]


def test_looper_without_a_target_does_nothing(coord):
    thread = qc.LooperThread(coord, 0.01)
    thread.start()
    assert not coord.wait_for_stop(0.05)
    coord.request_stop()
    coord.join()
    assert coord.exceptions == ()


@pytest.mark.parametrize("interval", [None, 0.001])
@pytest.mark.parametrize("failing", [None, "start_loop", "run_loop", "stop_loop"])
def test_looper_overridden(coord, interval, failing):
    log = []

    class Mine(qc.LooperThread):
        def step(self, name):
            log.append(name)
            if name == failing:
                raise KeyError(name)
            if name == "run_loop" and log.count(name) == 3:
                coord.request_stop()

        def start_loop(self):
            self.step("start_loop")

        def run_loop(self):
            self.step("run_loop")

        def stop_loop(self):
            self.step("stop_loop")

    Mine(coord, interval).start()
    with pytest.raises(KeyError, match=failing) if failing else contextlib.nullcontext():
        coord.join()
    whole = ["start_loop", "run_loop", "run_loop", "run_loop", "stop_loop"]
    assert log == whole[: whole.index(failing) + 1] if failing else whole


def test_looper_end_of_data_is_clean(coord):
    def work():
        raise OutOfRangeError("end")

    qc.LooperThread.loop(coord, 10, work)
    coord.join()
    assert coord.should_stop()


@pytest.mark.parametrize(
    "arguments",
    [
        (None, 1),
        ("coord", 1),
        (qc.Coordinator(), "1"),
        (qc.Coordinator(), -1),
        (qc.Coordinator(), float("nan")),
        (qc.Coordinator(), float("inf")),
        (qc.Coordinator(), 1, None, (1,)),
        (qc.Coordinator(), 1, None, None, {"a": 1}),
    ],
)
def test_bad_looper(arguments):
    with pytest.raises(InvalidArgumentError):
        qc.LooperThread(*arguments)


# The tutorial


def test_ten_threads_of_which_one_stops_all(coord):
    def loop(index):
        count = 0
        while not coord.should_stop():
            count += 1
            if index == 3 and count == 10:
                coord.request_stop()

    threads = [threading.Thread(target=loop, args=(index,)) for index in range(10)]
    for thread in threads:
        thread.start()
    coord.join(threads)
    assert coord.should_stop() and coord.joined


def test_stop_twice_in_finally(coord):
    with running(coord.wait_for_stop) as threads:
        try:
            coord.request_stop()
            coord.join(threads)
        finally:
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=AT_ONCE)
