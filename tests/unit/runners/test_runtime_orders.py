"""Every order of ends, failures and stops over several threads: against a model step by step, and all at once."""

import contextlib
import threading

import hypothesis.strategies as st
from helpers.models.fifo import PythonFIFO
from helpers.process import PATIENCE, soon, thread_ids
from hypothesis import given, settings

import queuecore as qc
from queuecore.errors import OutOfRangeError

RUNNERS = 3
OPS = 3

# What an op does when it is its turn.
PUT, END, FAIL = "put", "end", "fail"
# What happens beside the ops.
STOP, ERROR = "stop", "error"


class Failure(Exception):
    pass


class Scripted:
    """An op that does what it is told, one step a call."""

    def __init__(self, queue, coord):
        self.queue = queue
        self.coord = coord
        self.told = threading.Semaphore(0)
        self.steps = []
        self.done = 0

    def __call__(self):
        while not self.told.acquire(timeout=0.001):
            if self.coord.should_stop():
                return
        step, argument = self.steps[self.done]
        self.done += 1
        if step == PUT:
            self.queue.enqueue(argument)
        elif step == END:
            raise OutOfRangeError("end")
        else:
            raise argument

    def tell(self, step, argument=None):
        self.steps.append((step, argument))
        self.told.release()


one_of_the_ops = st.tuples(st.sampled_from([PUT, PUT, END, FAIL]), st.integers(0, RUNNERS - 1), st.integers(0, OPS - 1))
beside = st.tuples(st.sampled_from([STOP, ERROR]), st.just(0), st.just(0))
# Mostly ops: a stop ends the story.
stories = st.lists(st.one_of(one_of_the_ops, one_of_the_ops, one_of_the_ops, beside), max_size=30)


class World:
    """A coordinator and its runners."""

    def __init__(self):
        self.coord = qc.Coordinator()
        self.queues = [PythonFIFO(100, f"q{index}") for index in range(RUNNERS)]
        self.ops = [[Scripted(queue, self.coord) for _ in range(OPS)] for queue in self.queues]
        self.threads = []
        for queue, ops in zip(self.queues, self.ops, strict=True):
            self.threads.append(qc.QueueRunner(queue, ops).create_threads(self.coord, start=True))

    def joins(self):
        """Join; return the error."""
        with contextlib.suppress(Failure):
            self.coord.join(stop_grace_period_secs=PATIENCE)
            return None
        return self.coord.exceptions[0]

    def drained(self, index):
        """Return what is in a queue, and the error at its end."""
        items = []
        while True:
            try:
                items.append(self.queues[index].dequeue(timeout=PATIENCE))
            except OutOfRangeError as error:
                return items, error


@given(stories)
@settings(max_examples=100, deadline=None)
def test_step_by_step(story):
    before = thread_ids()
    world = World()
    coord = world.coord
    alive = [set(range(OPS)) for _ in range(RUNNERS)]
    items = [[] for _ in range(RUNNERS)]
    failed = None
    stopped = False
    for number, (step, runner, op) in enumerate(story):
        if step in (STOP, ERROR):
            error = Failure(number) if step == ERROR else None
            coord.request_stop(error)
            stopped, failed = True, error
            break
        if op not in alive[runner]:
            continue
        scripted = world.ops[runner][op]
        error = Failure(number)
        scripted.tell(step, number if step == PUT else error)
        if step == PUT:
            items[runner].append(number)
            assert soon(lambda runner=runner: world.queues[runner].size() == len(items[runner]), PATIENCE)
            continue
        world.threads[runner][op].join(PATIENCE)
        assert not world.threads[runner][op].is_alive()
        if step == FAIL:
            stopped, failed = True, error
            break
        alive[runner].discard(op)
        assert soon(lambda runner=runner: world.queues[runner].is_closed() == (not alive[runner]), PATIENCE)
    if not stopped and any(alive):
        assert not coord.should_stop()
        coord.request_stop()
        stopped = True
    assert world.joins() is failed
    assert coord.should_stop() == stopped
    assert coord.exceptions == (() if failed is None else (failed,))
    for runner in range(RUNNERS):
        got, error = world.drained(runner)
        assert got == items[runner]
        # A queue whose data had ended before ends as it should; the others say what failed.
        assert error.__cause__ is (failed if alive[runner] else None)
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@given(stories, st.booleans())
@settings(max_examples=100, deadline=None)
def test_all_at_once(story, plain_stop_first):
    before = thread_ids()
    world = World()
    coord = world.coord
    errors = {}
    ends = [set() for _ in range(RUNNERS)]
    puts = [[] for _ in range(RUNNERS)]
    others = []
    for number, (step, runner, op) in enumerate(story):
        scripted = world.ops[runner][op]
        error = Failure(number)
        if step == PUT:
            puts[runner].append(number)
            scripted.tell(PUT, number)
        elif step == END:
            ends[runner].add(op)
            scripted.tell(END)
        elif step == FAIL:
            errors[error] = runner
            scripted.tell(FAIL, error)
        else:
            if step == ERROR:
                errors[error] = None
            report = threading.Thread(target=coord.request_stop, args=(error if step == ERROR else None,))
            others.append(report)
            report.start()
    for report in others:
        report.join()
    everything_ends = all(len(ended) == OPS for ended in ends)
    if plain_stop_first or not everything_ends:
        coord.request_stop()
    raised = world.joins()
    assert all(not thread.is_alive() for threads in world.threads for thread in threads)
    # Whatever came first, it is one of the errors; nothing else was made an error, and none is there twice.
    assert len(set(coord.exceptions)) == len(coord.exceptions)
    assert set(coord.exceptions) <= set(errors)
    assert raised is (coord.exceptions[0] if coord.exceptions else None)
    assert {error for error, runner in errors.items() if runner is None} <= set(coord.exceptions)
    for runner in range(RUNNERS):
        got, error = world.drained(runner)
        assert set(got) <= set(puts[runner])
        if error.__cause__ is not None:
            assert error.__cause__ in coord.exceptions
        elif raised is not None and not ends[runner]:
            # Nobody closed it on purpose, so only a plain stop can have come before the error.
            assert plain_stop_first or not everything_ends or any(step == STOP for step, _, _ in story)
    assert soon(lambda: thread_ids() <= before, PATIENCE)
