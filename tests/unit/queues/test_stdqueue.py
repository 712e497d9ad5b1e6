"""The standard library's queues on native storage: CPython's own tests, and what only these queues promise."""

from __future__ import annotations

import copy
import gc
import heapq
import importlib
import inspect
import itertools
import pickle
import queue as standard
import random
import signal
import sys
import threading
import time
import types
import unittest
import warnings
import weakref
from collections import deque

import pytest
from helpers.process import AT_ONCE, PATIENCE, run_python, soon
from hypothesis import given, strategies as st

import queuecore as qc
from queuecore import stdqueue
from queuecore.stdqueue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue

BOUNDED = [Queue, LifoQueue, PriorityQueue]
KINDS = [*BOUNDED, SimpleQueue]


class Counted(Queue):
    """A subclass without hooks: native."""


class Hooked(Queue):
    """A subclass on the Python path."""

    def _put(self, item):
        super()._put(item)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert soon(lambda: set(threading.enumerate()) <= before, PATIENCE)


class Task(threading.Thread):
    """A call in a thread of its own, which starts at once."""

    def __init__(self, call, *args, **kwargs):
        super().__init__(daemon=True)
        self.call, self.result, self.error = (call, args, kwargs), None, None
        self.start()

    def run(self):
        call, args, kwargs = self.call
        try:
            self.result = call(*args, **kwargs)
        except BaseException as error:
            self.error = error

    def end(self):
        """Wait for it; return what it returned, or raise what it raised."""
        self.join(PATIENCE)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


def asleep(*tasks):
    """Let threads come to the place where they wait. No test depends on it: without, it would only test less."""

    def sleeping(task):
        try:
            with open(f"/proc/self/task/{task.native_id}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "S"
        except OSError:  # it has not begun, or is over
            return task.native_id is not None

    return soon(lambda: all(sleeping(task) for task in tasks), PATIENCE)


# ---- CPython's own tests ---------------------------------------------------------------------------------------------


def cpython_tests():
    """Return CPython's test cases with our classes in the place of its own, or one that is skipped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module("test.test_queue")
    except ImportError as error:
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(f"this Python has no test package: {error}"))]
    cases = []
    for name, case in sorted(vars(module).items()):
        # Those that run on the compiled half; a copy of each runs on the other half.
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and name.startswith("C"):
            ours = type(name, (case,), {"queue": stdqueue})
            loader = unittest.TestLoader()
            cases += [pytest.param(ours(one), id=f"{name}-{one}") for one in loader.getTestCaseNames(ours)]
    return cases


@pytest.mark.sampled(6)
@pytest.mark.watchdog(300)
@pytest.mark.parametrize("case", cpython_tests())
def test_cpython(case):
    result = unittest.TestResult()
    case.run(result)
    assert result.testsRun == 1
    assert [text for _, text in result.errors + result.failures] == []


def test_cpython_covers_all_kinds():
    module = pytest.importorskip("test.test_queue", reason="this Python has no test package")
    names = {name for name in vars(module) if name.startswith("C") and name.endswith("Test")}
    assert {"CQueueTest", "CLifoQueueTest", "CPriorityQueueTest", "CFailingQueueTest", "CSimpleQueueTest"} <= names


# ---- what kind of object ---------------------------------------------------------------------------------------------


def test_exceptions_are_those_of_the_standard_library():
    assert Empty is standard.Empty
    assert Full is standard.Full
    assert ShutDown is getattr(standard, "ShutDown", ShutDown)
    assert pickle.loads(pickle.dumps(ShutDown("x"))).args == ("x",)


def test_exported():
    assert (qc.Queue, qc.LifoQueue, qc.SimpleQueue) == (Queue, LifoQueue, SimpleQueue)


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_types(kind):
    assert (kind.__module__, kind.__qualname__, kind.__name__) == ("queuecore.stdqueue", kind.__name__, kind.__name__)
    assert kind[int] == types.GenericAlias(kind, int)
    assert repr(kind()).startswith(f"<queuecore.stdqueue.{kind.__name__} ")
    assert isinstance(kind(), Queue) is (kind is not SimpleQueue)
    theirs = {name for name in dir(getattr(standard, kind.__name__)) if name == "__class_getitem__" or name[:2] != "__"}
    assert theirs <= set(dir(kind))


@pytest.mark.parametrize("kind", BOUNDED)
def test_is_a_queue_of_the_standard_library(kind):
    theirs = getattr(standard, kind.__name__)
    assert issubclass(kind, theirs) and issubclass(kind, standard.Queue) and issubclass(kind, Queue)
    assert isinstance(kind(), theirs)
    # Methods of the class's own, which is what CPython's quick way asks for: else a call takes half as long again.
    assert all(vars(kind)[name].__objclass__ is kind for name in ("put", "get", "put_nowait", "get_nowait"))

    class Mine(kind):
        def __init__(self, extra, *args):
            super().__init__(*args)
            self.extra = extra

    assert isinstance(Mine(1), theirs)
    assert str(inspect.signature(Mine)) == "(extra, *args)"
    assert kind(3).maxsize == 3 and Mine(1, 4).maxsize == 4


def test_a_queue_of_the_standard_librarys_users_works():
    # logging checks nothing, but uses put_nowait and task_done as they are there
    import logging.handlers

    q = Queue()
    logger = logging.Logger("of this test")
    messages = []

    class Seen(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    logger.addHandler(logging.handlers.QueueHandler(q))
    listener = logging.handlers.QueueListener(q, Seen())
    listener.start()
    logger.warning("a %s", 1)
    listener.stop()
    assert messages == ["a 1"]


@pytest.mark.parametrize("kind", [*KINDS, Counted, Hooked])
@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
def test_copies_and_pickles_as_the_standard_librarys(kind, use):
    theirs = getattr(standard, kind.__name__, standard.Queue)
    ours = kind()
    outcomes = []
    for q in (ours, theirs()):
        for number in range(3):
            q.put(number)
        try:
            copied = use(q)
        except TypeError as error:
            outcomes.append("refused" if kind is SimpleQueue else str(error))  # that says the class's full name
            continue
        assert type(copied) is type(q)
        q.put(9)  # both have the same content, and each its counts
        outcomes.append((copied.qsize(), q.qsize(), copied.maxsize, copied.unfinished_tasks, copied.get(), q.get()))
    assert outcomes[0] == outcomes[1]
    assert ours.get() in (0, 1, 2, 9)


def test_a_subclass_may_say_how_it_is_pickled():
    global Kept

    class Kept(Queue):
        def __getstate__(self):
            return list(self.queue)

        def __setstate__(self, state):
            self.__init__()
            for one in state:
                self.put(one)

    q = Kept()
    q.put("a")
    q.put("b")
    for again in (pickle.loads(pickle.dumps(q)), copy.copy(q), copy.deepcopy(q)):
        assert type(again) is Kept and again.qsize() == 2
        assert (again.get(), again.get_nowait()) == ("a", "b")
    assert q.qsize() == 2


@pytest.mark.parametrize("kind", [*KINDS, Counted, Hooked])
def test_has_weak_references_and_attributes(kind):
    q = kind()
    q.label = "mine"
    assert q.label == "mine"
    ref = weakref.ref(q)
    assert ref() is q
    del q
    assert ref() is None


def test_arguments():
    q = Queue(maxsize=1)
    q.put(item=1, block=True, timeout=None)
    with pytest.raises(Full):
        q.put(2, False)
    assert q.get(block=False, timeout=-1) == 1  # without meaning
    for wrong in (lambda: q.put(), lambda: q.get(1, 2, 3), lambda: q.put(1, wait=True), lambda: q.get(timeout="1")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError):
        Queue("1")
    with pytest.raises(TypeError):
        SimpleQueue(1)
    with pytest.raises(TypeError):
        q.put_nowait(item=1, block=False)


def test_unbounded_put_does_not_look_at_the_timeout():
    q = Queue()
    q.put(1, timeout=-1)
    assert q.get() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_signature_is_that_of_the_standard_library(kind):
    theirs = getattr(standard, kind.__name__)
    ours, wanted = (list(inspect.signature(one).parameters.values()) for one in (kind, theirs))
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in wanted]
    for name in ("put", "get", "put_nowait", "get_nowait", "qsize", "empty"):
        ours = list(inspect.signature(getattr(kind, name)).parameters.values())
        assert [(p.name, p.default) for p in ours] == [
            (p.name, p.default) for p in inspect.signature(getattr(theirs, name)).parameters.values()
        ]


# ---- order -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), max_size=300), st.sampled_from([0, 1, 3, 20]))
def test_fifo_and_lifo_against_a_deque(steps, maxsize):
    fifo, lifo, simple = Queue(maxsize), LifoQueue(maxsize), SimpleQueue()
    line, pile, free = deque(), [], deque()
    for number, step in enumerate(steps):
        if step:
            simple.put(number)
            free.append(number)
            for q, model in ((fifo, line), (lifo, pile)):
                if maxsize and len(model) == maxsize:
                    with pytest.raises(Full):
                        q.put_nowait(number)
                else:
                    q.put_nowait(number)
                    model.append(number)
        else:
            for q, model, take in ((fifo, line, line.popleft), (lifo, pile, pile.pop), (simple, free, free.popleft)):
                if model:
                    assert q.get_nowait() == take()
                else:
                    with pytest.raises(Empty):
                        q.get_nowait()
        assert [fifo.qsize(), lifo.qsize(), simple.qsize()] == [len(line), len(pile), len(free)]
        assert fifo.full() == (0 < maxsize <= len(line))


def test_a_burst_larger_than_what_is_kept():
    for q in (Queue(), SimpleQueue()):
        for _ in range(3):
            for number in range(20_000):
                q.put(number)
            assert [q.get() for _ in range(20_000)] == list(range(20_000))
            assert q.empty()


class Keyed:
    """Compared by key only, and it remembers each comparison."""

    made: list[tuple[int, int]] = []

    def __init__(self, key, number):
        self.key, self.number = key, number

    def __lt__(self, other):
        Keyed.made.append((self.number, other.number))
        return self.key < other.key


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=200))
def test_heap_gives_what_heapq_gives_also_for_equals(steps):
    q, model = PriorityQueue(), []
    for number, key in enumerate(steps):
        item = Keyed(key, number)
        Keyed.made = []
        if key is not None:
            q.put(item)
        else:
            ours = q.get().number if model else None
        mine, Keyed.made = Keyed.made, []
        if key is not None:
            heapq.heappush(model, item)
        elif model:
            assert ours == heapq.heappop(model).number
        assert mine == Keyed.made
    assert [q.get().number for _ in range(q.qsize())] == [heapq.heappop(model).number for _ in range(len(model))]


# ---- references and the garbage collector ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_references(kind):
    item = (1, object())
    q = kind()
    before = sys.getrefcount(item)
    for _ in range(3):
        q.put(item)
    assert sys.getrefcount(item) == before + 3
    assert q.get() is item
    assert sys.getrefcount(item) == before + 2
    assert gc.get_referents(q).count(item) == 2
    del q
    assert sys.getrefcount(item) == before


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [*KINDS, Counted, Hooked])
@pytest.mark.parametrize("get_count", [0, 3])
def test_a_cycle_through_a_queue_is_collected(kind, get_count):
    class Node:
        def __lt__(self, other):
            return False

    q = kind()
    for _ in range(20):
        node = Node()
        node.queue = q
        q.put(node)
    for _ in range(get_count):
        q.get()
    refs = [weakref.ref(q), weakref.ref(node)]
    gc.collect()
    assert [ref() for ref in refs] == [q, node]
    del q, node
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_cycle_with_the_class_of_the_queue_is_collected():
    for kind in BOUNDED:
        for hooks in ({}, {"_put": lambda self, item: kind._put(self, item)}):  # noqa: B023
            sub = type("Sub", (kind,), hooks)
            q = sub.made = sub()
            q.put(sub)
            q.myself = q
            ref = weakref.ref(q)
            del sub, q
            gc.collect()
            assert ref() is None


def test_collections_while_a_queue_grows_and_shrinks():
    q = Queue()
    q.put(q)
    gc.freeze()  # what other tests have left is none of these collections' business
    try:
        for number in range(5_000):
            q.put([number])
            if number % 50 == 0:
                gc.collect()
    finally:
        gc.unfreeze()
    assert q.get() is q
    assert [q.get() for _ in range(5_000)] == [[number] for number in range(5_000)]


@pytest.mark.thorough
def test_a_deep_nest_is_freed():
    for kind in (Queue, LifoQueue, SimpleQueue, Counted):
        q = kind()
        for _ in range(100_000):
            outer = kind()
            outer.put(q)
            q = outer
        del q, outer


def test_finalizers_that_use_the_queue_they_leave():
    class Item:
        def __del__(self):
            sizes.append(q.qsize())
            q.put_nowait(None)

    sizes = []
    q = Queue()
    for _ in range(3):
        q.put(Item())
    q.__init__()
    assert sizes == [0, 1, 2]
    assert [q.get() for _ in range(3)] == [None] * 3


# ---- reentrancy ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["finalizer", "callback"])
def test_put_from_the_garbage_collector(kind, way):
    numbers = itertools.count()
    q = kind()

    def put(*_):
        q.put(next(numbers))

    class Circle:
        def __init__(self):
            self.circle = self
            if way == "callback":
                # It must outlive what it refers to.
                refs.append(weakref.ref(self, put))

    if way == "finalizer":
        Circle.__del__ = put
    refs, results = [], []
    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(5_000):
            Circle()
            put()
            results.append(q.get())
    finally:
        gc.set_threshold(*threshold)
        gc.collect()
    results += [q.get() for _ in range(q.qsize())]
    assert sorted(results) == list(range(next(numbers)))
    assert len(results) == 10_000
    if kind in (Queue, SimpleQueue):
        assert results == sorted(results)


@pytest.mark.parametrize("kind", KINDS)
def test_put_and_get_from_a_signal_handler(kind):
    numbers = itertools.count()
    q, results, calls = kind(), [], []

    def handler(*_):
        q.put(next(numbers))
        q.put(next(numbers))
        results.append(q.get())
        calls.append(1)

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        assert soon(lambda: q.put(next(numbers)) or results.append(q.get()) or len(calls) > 100, PATIENCE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    results += [q.get() for _ in range(q.qsize())]
    assert sorted(results) == list(range(next(numbers)))


@pytest.mark.parametrize("wait", ["get", "put", "join", "simple"])
def test_a_signal_handler_serves_the_wait_that_it_interrupts(wait):
    q = {"get": Queue, "put": lambda: Queue(1), "join": Queue, "simple": SimpleQueue}[wait]()
    if wait in ("put", "join"):
        q.put("old")
    serve = {"put": q.get, "join": getattr(q, "task_done", None)}.get(wait, lambda: q.put("new"))
    old = signal.signal(signal.SIGALRM, lambda *_: serve())
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        if wait == "put":
            q.put("new")
        elif wait == "join":
            q.join()
            assert q.get() == "old"
            return
        assert q.get() == "new"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


class Meddling:
    """Does something in its first comparisons."""

    def __init__(self, key, act=None, times=1):
        self.key, self.act, self.times = key, act, times

    def __lt__(self, other):
        if self.act is not None and self.times:
            self.times -= 1
            self.act()
        return self.key < other.key


def test_a_comparison_that_uses_the_queue():
    q = PriorityQueue()
    for key in (5, 3, 8, 1):
        q.put(Meddling(key))
    taken = []
    q.put(Meddling(4, lambda: taken.append(q.get().key)))
    q.put(Meddling(0, lambda: q.put(Meddling(2)), times=3))
    assert taken == [1]
    assert [q.get().key for _ in range(q.qsize())] == [0, 2, 2, 2, 3, 4, 5, 8]
    # While get compares.
    for key in (1, 2, 3, 4, 5):
        q.put(Meddling(key, (lambda: q.put(Meddling(0))) if key > 3 else None))
    got = [q.get().key for _ in range(q.qsize())]
    got += [q.get().key for _ in range(q.qsize())]
    assert sorted(got) == [0] * (len(got) - 5) + [1, 2, 3, 4, 5]


@pytest.mark.parametrize("act", ["shutdown", "shutdown now", "leave", "shrink"])
def test_a_comparison_that_changes_the_rules(act):
    q = PriorityQueue(10)
    for key in (5, 3, 8, 1):
        q.put(Meddling(key))
    item = Meddling(
        4,
        {
            "shutdown": q.shutdown,
            "shutdown now": lambda: q.shutdown(immediate=True),
            "leave": lambda: q.mutex,
            "shrink": lambda: setattr(q, "maxsize", 2),
        }[act],
    )
    if act == "leave":
        q.put(item)
        assert [q.get().key for _ in range(5)] == [1, 3, 4, 5, 8]
    else:
        with pytest.raises(Full if act == "shrink" else ShutDown):
            q.put(item, block=False)
        assert q.qsize() == (0 if act == "shutdown now" else 4)


class Odd:
    """Can't be compared with some others."""

    def __init__(self, key, hates=()):
        self.key, self.hates = key, hates

    def __lt__(self, other):
        if other.key in self.hates or self.key in other.hates:
            raise ArithmeticError(self.key, other.key)
        return self.key < other.key


def test_a_comparison_that_raises_changes_nothing():
    q = PriorityQueue()
    keys = random.Random(1).sample(range(30), 30)
    for key in keys:
        q.put(Odd(key))
    with pytest.raises(ArithmeticError):
        q.put(Odd(-1, hates=(0,)))  # at the very top
    assert (q.qsize(), q.unfinished_tasks) == (30, 30)
    hated = [item for item in gc.get_referents(q) if isinstance(item, Odd) and item.key == 2]
    hated[0].hates = tuple(range(100))
    with pytest.raises(ArithmeticError):
        while True:
            q.get()
    hated[0].hates = ()
    left = [q.get().key for _ in range(q.qsize())]
    assert left == list(range(30 - len(left), 30))
    with pytest.raises(TypeError):
        q.put(1)
        q.put("a")
    assert q.get() == 1


def test_a_heap_whose_comparisons_give_the_gil_away():
    class Slow:
        def __init__(self, key):
            self.key = key

        def __lt__(self, other):
            if self.key % 64 == 0:
                time.sleep(0)  # gives the GIL away
            return self.key < other.key

    q = PriorityQueue(50)
    results = [[] for _ in range(4)]

    def take(into):
        while (item := q.get()).key >= 0:
            into.append(item.key)

    takers = [Task(take, into) for into in results]
    makers = [Task(lambda m=m: [q.put(Slow(n * 4 + m)) for n in range(1_000)]) for m in range(4)]
    for maker in makers:
        maker.end()
    assert soon(q.empty, PATIENCE)
    for _ in takers:
        q.put(Slow(-1))
    for taker in takers:
        taker.end()
    assert sorted(itertools.chain(*results)) == list(range(4_000))


# ---- timeouts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, Hooked])
def test_timeouts(kind):
    q = kind()
    for timeout in (0, 0.0, 1e-9, 0.03, 0.12):
        begun = time.monotonic()
        with pytest.raises(Empty):
            q.get(timeout=timeout)
        assert timeout <= time.monotonic() - begun < timeout + PATIENCE
    q.put(1)
    for timeout in (-1, -0.001, float("nan"), float("-inf")):
        with pytest.raises(ValueError):
            q.get(timeout=timeout)
    for timeout in (4e9, 5):
        assert q.get(timeout=timeout) == 1
        q.put(1)


ENDLESS = [float("inf"), 1e300, 10**20, 1e10, threading.TIMEOUT_MAX * 1.01]


@pytest.mark.parametrize("kind", [*KINDS, Hooked])
@pytest.mark.parametrize("timeout", ENDLESS)
def test_endless_timeouts_are_those_of_the_standard_library(kind, timeout):
    theirs = getattr(standard, kind.__name__, standard.Queue)
    outcomes = []
    for q in (kind(), theirs()):
        for _ in range(2):  # there is nothing, then something
            try:
                outcomes.append(q.get(timeout=timeout))
            except OverflowError as error:
                outcomes.append(str(error) if timeout == float("inf") else "overflow")
            q.put("there")
        if kind is not SimpleQueue:
            q = type(q)(1)
            q.put("first")
            try:
                q.put("second", timeout=timeout)
            except OverflowError as error:
                outcomes.append(str(error) if timeout == float("inf") else "overflow")
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]
    assert outcomes[0] != "there"


@pytest.mark.parametrize("kind", [*BOUNDED, Hooked])
def test_put_timeouts(kind):
    q = kind(1)
    for timeout in (-1, float("nan")):
        with pytest.raises(ValueError):
            q.put(1, timeout=timeout)
    q.put(1)
    for timeout in (0, 0.03, 0.12):
        begun = time.monotonic()
        with pytest.raises(Full):
            q.put(2, timeout=timeout)
        assert time.monotonic() - begun >= timeout
    task = Task(q.put, 2, timeout=4e9)
    asleep(task)
    assert q.get() == 1
    task.end()
    assert q.get() == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_with_a_timeout_is_served(kind):
    q = kind()
    task = Task(q.get, timeout=PATIENCE)
    asleep(task)
    q.put("x")
    assert task.end() == "x"


# ---- many threads ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [*KINDS, Counted, Hooked])
@pytest.mark.parametrize(("makers", "takers", "maxsize", "each"), [(1, 1, 1, 2_000), (16, 16, 1, 60), (4, 4, 0, 5_000)])
def test_many_threads_lose_and_double_nothing(kind, makers, takers, maxsize, each):
    q = kind() if kind is SimpleQueue else kind(maxsize)
    results = [[] for _ in range(takers)]

    def take(into):
        while (item := q.get())[1] >= 0:
            into.append(item)
            if kind is not SimpleQueue:
                q.task_done()

    tasks = [Task(take, into) for into in results]
    puts = [Task(lambda m=m: [q.put((m, n)) for n in range(each)]) for m in range(makers)]
    for task in puts:
        task.end()
    if kind is not SimpleQueue:
        Task(q.join).end()
    else:
        assert soon(q.empty, PATIENCE)
    for _ in tasks:
        q.put((-1, -1))
    for task in tasks:
        task.end()
    assert sorted(itertools.chain(*results)) == [(m, n) for m in range(makers) for n in range(each)]
    if not issubclass(kind, (LifoQueue, PriorityQueue)):
        for into in results:
            for m in range(makers):
                mine = [n for who, n in into if who == m]
                assert mine == sorted(mine)


@pytest.mark.parametrize("kind", KINDS)
def test_every_waiting_getter_is_served(kind):
    q = kind()
    tasks = [Task(q.get) for _ in range(16)]
    asleep(*tasks)
    for number in range(16):
        q.put(number)
    assert sorted(task.end() for task in tasks) == list(range(16))


def test_every_waiting_putter_is_served():
    q = Queue(2)
    q.put(-1)
    q.put(-1)
    tasks = [Task(q.put, number) for number in range(16)]
    asleep(*tasks)
    assert sorted(q.get(timeout=PATIENCE) for _ in range(18)) == [-1, -1, *range(16)]
    for task in tasks:
        task.end()


@pytest.mark.thorough
def test_a_waiter_that_leaves_by_an_exception_passes_its_wake_on():
    # One put wakes one of two waiters, the main thread, which came first. A signal's handler raises there in the same
    # moment: then the other one must get what was put.
    code = """
        import os, signal, threading, time
        from queuecore.stdqueue import Queue
        class Away(Exception):
            pass
        def handler(*_):
            raise Away
        signal.signal(signal.SIGUSR1, handler)
        def disturb():
            time.sleep(0.001)  # so that the main thread waits, most likely, and then the other one
            other.start()
            time.sleep(0.001)
            q.put(1)
            os.kill(os.getpid(), signal.SIGUSR1)
        left = 0
        for _ in range(200):
            q = Queue()
            other = threading.Thread(target=q.get, daemon=True)
            disturber = threading.Thread(target=disturb)
            try:
                disturber.start()
                q.get()
                while True:  # until the signal comes
                    time.sleep(1)
            except Away:
                pass
            disturber.join()
            # Whoever took it, it must not stay there while the other one waits.
            deadline = time.monotonic() + 10
            while q.qsize():
                if time.monotonic() > deadline:
                    raise SystemExit("lost a wake")
                time.sleep(0.0005)
                left += not other.is_alive()
            left += not other.is_alive()
            q.put(2)
            other.join()
        print("done", left > 0)
    """
    done = run_python(code, timeout=50)
    assert (done.stdout, done.stderr, done.returncode) == ("done True\n", "", 0)


# ---- tasks and shutdown ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*BOUNDED, Hooked])
def test_tasks(kind):
    q = kind()
    assert Task(q.join).end() is None
    q.put(1)
    q.put(2)
    joiners = [Task(q.join) for _ in range(4)]
    asleep(*joiners)
    q.get()
    q.task_done()
    assert all(joiner.is_alive() for joiner in joiners)
    q.task_done()  # counts puts, not gets
    for joiner in joiners:
        joiner.end()
    with pytest.raises(ValueError):
        q.task_done()
    assert q.unfinished_tasks == 0


@pytest.mark.parametrize("kind", [*BOUNDED, Hooked])
@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("waits", ["put", "get", "join"])
@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_shutdown_ends_waits(kind, immediate, waits, timeout):
    q = kind(2)
    if waits != "get":
        q.put(1)
        q.put(2)
    call = {
        "put": lambda: q.put(3, timeout=timeout),
        "get": lambda: q.get(timeout=timeout),
        "join": q.join,
    }[waits]
    tasks = [Task(call) for _ in range(4)]
    asleep(*tasks)
    begun = time.monotonic()
    q.shutdown(immediate)
    assert q.is_shutdown
    if waits == "join":
        if not immediate:
            assert all(task.is_alive() for task in tasks)
            for _ in range(2):
                q.get()
                q.task_done()
        for task in tasks:
            task.end()
    else:
        for task in tasks:
            with pytest.raises(ShutDown):
                task.end()
    assert time.monotonic() - begun < PATIENCE
    assert q.qsize() == (2 if waits == "put" and not immediate else 0)
    for _ in range(q.qsize()):
        q.get()
    for use in (q.get, q.get_nowait, lambda: q.put(1), lambda: q.put_nowait(1), lambda: q.get(timeout=1)):
        with pytest.raises(ShutDown):
            use()


@pytest.mark.parametrize("kind", [*BOUNDED, Hooked])
def test_shutdown_keeps_tasks_that_are_being_done(kind):
    q = kind()
    for number in range(3):
        q.put(number)
    q.get()
    q.shutdown(immediate=True)
    assert (q.unfinished_tasks, q.qsize()) == (1, 0)
    joiner = Task(q.join)
    q.task_done()
    joiner.end()


# ---- attributes ------------------------------------------------------------------------------------------------------


def test_maxsize_may_change():
    q = Queue(1)
    q.put(1)
    task = Task(q.put, 2)
    asleep(task)
    q.maxsize = 2
    task.end()
    assert q.full()
    q.maxsize = 1
    with pytest.raises(Full):
        q.put_nowait(3)
    q.maxsize = 0
    q.put_nowait(3)
    assert not q.full()


@pytest.mark.parametrize(("maxsize", "fits"), [(2.5, 3), (float("inf"), None), (True, 1), (-3, None), (2**80, None)])
def test_maxsize_is_any_number(maxsize, fits):
    q = Queue(maxsize)
    assert q.maxsize == maxsize
    for number in range(fits or 100):
        q.put_nowait(number)
    assert q.full() is (fits is not None)


def test_unfinished_tasks_and_is_shutdown_may_be_set():
    q = Queue()
    q.put(1)
    task = Task(q.join)
    asleep(task)
    q.unfinished_tasks = 0
    task.end()
    q.get()
    task = Task(q.get)
    asleep(task)
    q.is_shutdown = True
    with pytest.raises(ShutDown):
        task.end()
    q.is_shutdown = False
    q.put(1)


@pytest.mark.parametrize("wait", ["put", "join"])
def test_a_second_init_starts_anew(wait):
    q = Queue(1)
    q.put(1)
    task = Task({"put": lambda: q.put(2), "join": q.join}[wait])
    asleep(task)
    q.__init__(1)
    task.end()
    assert (q.qsize(), q.unfinished_tasks) == ((1, 1) if wait == "put" else (0, 0))


def test_not_initialised():
    class Forgets(Queue):
        def __init__(self):
            pass

    q = Forgets()
    for use in (q.get, q.get_nowait, lambda: q.put(1), lambda: q.put_nowait(1), lambda: q.mutex):
        with pytest.raises(RuntimeError, match="Forgets"):
            use()


# ---- the Python path -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOUNDED)
def test_what_is_queued_moves_to_the_python_path(kind):
    q, model = kind(), getattr(standard, kind.__name__)()
    for number in (3, 1, 2, 5, 4):
        q.put(number)
        model.put(number)
    assert q.get() == model.get()
    assert (type(q.queue), list(q.queue)) == (type(model.queue), list(model.queue))
    q.queue.append(9)
    model.queue.append(9)
    assert q.qsize() == 5
    assert [q.get() for _ in range(5)] == [model.get() for _ in range(5)]
    assert q.unfinished_tasks == 5


@pytest.mark.parametrize("name", ["mutex", "not_empty", "not_full", "all_tasks_done", "queue"])
@pytest.mark.parametrize("waits", ["get", "put", "join"])
def test_waiters_follow_to_the_python_path(name, waits):
    q = Queue(1)
    if waits != "get":
        q.put(1)
    tasks = [Task({"get": q.get, "put": lambda: q.put(2), "join": q.join}[waits]) for _ in range(3)]
    asleep(*tasks)
    getattr(q, name)
    for _ in tasks:
        if waits == "get":
            q.put(1)
        elif waits == "put":
            q.get()
    if waits == "join":
        q.task_done()
    for task in tasks:
        task.end()


def test_clearing_as_the_web_says():
    q = Queue(3)
    for number in range(3):
        q.put(number)
    putter, joiner = Task(q.put, "new"), Task(q.join)
    asleep(putter, joiner)
    with q.mutex:
        q.queue.clear()
        q.unfinished_tasks = 0
        q.all_tasks_done.notify_all()
        q.not_full.notify_all()
    putter.end()
    assert q.get() == "new"
    q.task_done()
    joiner.end()


def test_threads_leave_together():
    for _ in range(50):
        q = Queue()
        for number in range(100):
            q.put(number)
        start = threading.Barrier(4)

        def use(q=q, start=start):
            start.wait()
            with q.mutex:
                return q.queue, q.mutex, q.not_empty

        tasks = [Task(use) for _ in range(4)]
        seen = [task.end() for task in tasks]
        assert all(one is other for parts in seen for one, other in zip(parts, seen[0], strict=True))
        assert list(seen[0][0]) == list(range(100))


@pytest.mark.thorough
def test_nothing_is_lost_when_a_collection_puts_while_the_queue_leaves():
    class Circle:
        def __init__(self, number):
            self.circle, self.number = self, number

        def __del__(self):
            q.put(self.number)

    threshold = gc.get_threshold()
    try:
        for first in range(1, 40):
            q = Queue()
            for number in range(10):
                q.put(number)
            # The collection comes after so many more allocations: at another place each time.
            gc.collect()
            gc.set_threshold(first)
            Circle(10)
            assert q.queue is q.queue
            gc.set_threshold(*threshold)
            gc.collect()
            assert [q.get_nowait() for _ in range(11)] == list(range(11))
    finally:
        gc.set_threshold(*threshold)


def test_hooks_of_a_set():
    class SetQueue(Queue):
        def _init(self, maxsize):
            self.queue = set()

        def _put(self, item):
            self.queue.add(item)

        def _get(self):
            return self.queue.pop()

    q = SetQueue(2)
    for item in (1, 1, 2):
        q.put(item)
    assert (q.qsize(), q.full(), q.unfinished_tasks) == (2, True, 3)
    task = Task(q.put, 3)
    asleep(task)
    got = {q.get(), q.get()}
    task.end()
    assert got | {q.get()} == {1, 2, 3}
    with pytest.raises(Empty):
        q.get(timeout=0.01)


@pytest.mark.parametrize("hook", ["_init", "_put", "_get", "_qsize"])
@pytest.mark.parametrize("kind", BOUNDED)
def test_each_hook_is_called(kind, hook):
    calls = []

    def spy(self, *args):
        calls.append(hook)
        return getattr(kind, hook)(self, *args)

    sub = type("Sub", (kind,), {hook: spy})
    q = sub(5)
    q.put(1)
    assert (q.get(), q.qsize()) == (1, 0)
    assert calls


@pytest.mark.parametrize("hook", ["_put", "_get", "_qsize"])
def test_a_hook_of_one_object(hook):
    q = Queue(5)
    q.put(0)
    calls, old = [], getattr(q, hook)
    setattr(q, hook, lambda *args: calls.append(hook) or old(*args))
    q.put(1)
    assert [q.get(), q.get()] == [0, 1]
    assert calls


def test_a_hook_that_is_set_before_init():
    class Late(Queue):
        def __init__(self):
            self._put = lambda item: super(Late, self)._put(-item)
            super().__init__()

    q = Late()
    for _ in range(2):
        q.put(1)
        assert q.get() == -1
        q.__init__()


def test_hooks_of_a_mixin():
    class Doubling:
        def _put(self, item):
            super()._put(2 * item)

    class Doubled(Doubling, LifoQueue):
        pass

    q = Doubled()
    q.put(1)
    q.put(2)
    assert (q.get(), q.get()) == (4, 2)


def test_an_overridden_put_or_get_serves_the_nowait_forms():
    class Loud(Queue):
        def put(self, item, block=True, timeout=None):
            super().put((item, block), block, timeout)

        def get(self, block=True, timeout=None):
            return super().get(block, timeout), block

    q = Loud()
    q.put_nowait(1)
    q.put(2)
    assert (q.get_nowait(), q.get()) == (((1, False), False), ((2, True), True))


def test_a_subclass_without_hooks_stays_native():
    # The Python path would block here: its mutex can't be taken twice.
    class Plain(Queue):
        def peek_size(self):
            return self.qsize()

    class Item:
        def __del__(self):
            q.put("from inside")

    q = Plain()
    q.put(Item())
    q.shutdown(immediate=False)
    q.is_shutdown = False
    q.__init__()
    assert (q.peek_size(), q.get()) == (1, "from inside")


# ---- signals, forks and the end of the process -----------------------------------------------------------------------

WAITS = {
    "get": "q = Queue(); q.get()",
    "get with a timeout": "q = Queue(); q.get(timeout=60)",
    "put": "q = Queue(1); q.put(1); q.put(2)",
    "put with a timeout": "q = Queue(1); q.put(1); q.put(2, timeout=60)",
    "join": "q = Queue(); q.put(1); q.join()",
    "simple": "q = SimpleQueue(); q.get()",
    "simple with a timeout": "q = SimpleQueue(); q.get(timeout=60)",
    "hooked get": "q = Queue(); q.mutex; q.get()",
}


# Masked, the signal does not interrupt the main thread's sleep: only its look between slices finds it. The Python path
# hears signals as threading.Condition does, so not that one.
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("wait", "masked"),
    [
        pytest.param(wait, masked, id=f"{name}, masked" if masked else name)
        for name, wait in WAITS.items()
        for masked in (False, True)
        if not (masked and "hooked" in name)
    ],
)
def test_ctrl_c(wait, masked):
    make, _, call = wait.partition("; ")
    code = f"""
        import os, signal, threading, time
        from queuecore.stdqueue import Queue, SimpleQueue
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def interrupt():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            time.sleep(0.1)  # so that the main thread is most likely waiting; no matter if it isn't
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        sent = []
        if {masked}:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        {make}
        threading.Thread(target=interrupt).start()
        try:
            {call}
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0] < {AT_ONCE})
            try:
                q.put_nowait("still")
            except Exception as error:
                assert type(error).__name__ == "Full"
            q.get_nowait()
            print(q.qsize())
    """
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "True"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("last", ["pass", "sys.exit(3)", "atexit.register(lambda: [q.put_nowait(1) for q in queues])"])
def test_exit_while_threads_wait(wait, last):
    code = f"""
        import atexit, sys, threading, time
        from queuecore.stdqueue import Queue, SimpleQueue
        queues = []
        def work():
            try:
                {wait.replace("60", "0.3").replace("; ", "; queues.append(q); ", 1)}
            except Exception as error:
                assert type(error).__name__ in ("Empty", "Full")
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        while len(queues) < 4:
            time.sleep(0.001)
        if "Queue(1)" in {wait!r} or "join" in {wait!r}:
            queues.clear()
        {last}
    """
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (3 if "exit(3)" in last else 0, "", "")


def test_exit_while_threads_wake_up_all_the_time():
    code = """
        import threading, time
        from queuecore.stdqueue import Empty, Queue
        q = Queue()
        def work():
            while True:
                try:
                    q.get(timeout=0.0005)
                except Empty:
                    pass
        for _ in range(8):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
    """
    for _ in range(5):
        done = run_python(code)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_finalizer_at_exit():
    code = """
        from queuecore.stdqueue import Queue, SimpleQueue
        class Item:
            def __del__(self, q=Queue(), s=SimpleQueue()):
                q.put(1); s.put(1)
                print(q.get(), s.get())
        kept = Queue(); kept.put(Item()); kept.put(kept)
    """
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", ["Queue(1)", "LifoQueue(1)", "PriorityQueue(1)", "SimpleQueue()"])
def test_fork_while_threads_wait(make):
    code = f"""
        import os, sys, threading, time, warnings
        from queuecore.stdqueue import *
        warnings.simplefilter("ignore")  # from Python 3.12 on, os.fork() warns where there are threads
        q = {make}
        got = []
        for _ in range(4):
            threading.Thread(target=lambda: got.append(q.get()), daemon=True).start()
        if hasattr(q, "full"):
            full = Queue(1)
            full.put(0)
            for _ in range(4):
                threading.Thread(target=full.put, args=(1,), daemon=True).start()
            for _ in range(4):
                threading.Thread(target=full.join, daemon=True).start()
        time.sleep(0.1)  # so that they wait, most likely
        pid = os.fork()
        if pid == 0:
            for number in range(20):
                q.put(number)
                assert q.get(timeout=5) == number
                taker = threading.Thread(target=lambda: q.put(q.get() + 1))
                taker.start()
                q.put(number)
                taker.join()
                assert q.get() == number + 1
            try:
                q.get(timeout=0.05)
            except Empty:
                pass
            if hasattr(q, "full"):
                assert full.get() == 0
                full.put(1)
                full.task_done(); full.task_done()
                full.join()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        for number in range(4):
            q.put(number)
        while len(got) < 4:
            time.sleep(0.001)
        print(sorted(got))
    """
    done = run_python(code)
    assert (done.stdout, done.stderr, done.returncode) == ("7\n[0, 1, 2, 3]\n", "", 0)
