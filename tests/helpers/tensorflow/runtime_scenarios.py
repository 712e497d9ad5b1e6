"""Programs over a coordinator and runners, written once and run with TensorFlow's and with ours.

As a script it runs all of them with TensorFlow and prints the outcomes as JSON. It imports neither before it is told.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time

SCENARIOS = {}


def scenario(function):
    """Remember a program; what it returns survives JSON and is the same for both."""
    SCENARIOS[function.__name__] = function
    return function


class Ours:
    """The names that the programs use, and queues of numbers."""

    def __init__(self):
        from helpers.models.fifo import PythonFIFO

        import queuecore as qc
        from queuecore import errors

        self.Coordinator, self.LooperThread, self.errors = qc.Coordinator, qc.LooperThread, errors
        self._runner, self._queue = qc.QueueRunner, PythonFIFO

    def end(self):
        """Return an error that means the end of the data."""
        return self.errors.OutOfRangeError("end")

    def queue(self, capacity):
        """Return a queue of numbers."""
        return self._queue(capacity, "numbers")

    def runner(self, queue, functions, types=None):
        """Return a runner that enqueues what each function returns; StopIteration ends one."""
        return self._runner(queue, [self._op(queue, one) for one in functions], queue_closed_exception_types=types)

    def _op(self, queue, function):
        def op():
            try:
                item = function()
            except ValueError as error:
                raise self.errors.InvalidArgumentError(str(error)) from None
            queue.enqueue(item)

        return op

    def threads(self, runner, coord=None, daemon=True, start=True):
        """Make a runner's threads."""
        return runner.create_threads(coord, daemon=daemon, start=start)

    def dequeue(self, queue):
        """Take one element."""
        return int(queue.dequeue(timeout=10))

    def close(self, queue):
        """Close, and cancel pending enqueues."""
        queue.close(cancel_pending_enqueues=True)

    def is_closed(self, queue):
        """Whether it is closed."""
        return bool(queue.is_closed())


class TensorFlows:
    """The same with TensorFlow's graphs and one session."""

    def __init__(self):
        import tensorflow as tf

        self.tf = tf.compat.v1
        self.tf.disable_eager_execution()
        self.Coordinator = self.tf.train.Coordinator
        self.LooperThread = self.tf.train.LooperThread
        self.errors = tf.errors
        self.session = self.tf.Session()
        self._ops = {}

    def end(self):
        return self.errors.OutOfRangeError(None, None, "end")

    def queue(self, capacity):
        queue = self.tf.FIFOQueue(capacity, [self.tf.int32], [()], name="numbers")
        self._ops[id(queue)] = (queue, queue.dequeue(), queue.close(cancel_pending_enqueues=True), queue.is_closed())
        return queue

    def runner(self, queue, functions, types=None):
        import numpy as np

        def op(function):
            return queue.enqueue(self.tf.py_func(lambda: np.int32(function()), [], self.tf.int32))

        return self.tf.train.QueueRunner(queue, [op(one) for one in functions], queue_closed_exception_types=types)

    def threads(self, runner, coord=None, daemon=True, start=True):
        return runner.create_threads(self.session, coord=coord, daemon=daemon, start=start)

    def dequeue(self, queue):
        return int(self.session.run(self._ops[id(queue)][1], options=self.tf.RunOptions(timeout_in_ms=10000)))

    def close(self, queue):
        self.session.run(self._ops[id(queue)][2])

    def is_closed(self, queue):
        return bool(self.session.run(self._ops[id(queue)][3]))


def outcome(call, *args, **kwargs):
    """Return a call's result, or the name of what it raised."""
    try:
        return call(*args, **kwargs)
    except BaseException as error:
        return type(error).__name__


def eventually(condition):
    """Whether something comes true."""
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def ended(threads):
    """Whether all threads end."""
    return eventually(lambda: not any(thread.is_alive() for thread in threads))


def rest(api, queue):
    """Dequeue to the end."""
    items = []
    while isinstance(item := outcome(api.dequeue, queue), int):
        items.append(item)
    return [items, item]


@contextlib.contextmanager
def straggler():
    """Run a thread until the end."""
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="left")
    thread.start()
    yield thread
    go.set()
    thread.join()


def handled(coord, error):
    """Report an error where it is handled: TensorFlow's can't take it elsewhere."""
    try:
        raise error
    except BaseException as caught:
        coord.request_stop(caught)


@scenario
def plain_stop(api):
    """Stop twice."""
    coord = api.Coordinator()
    seen = [coord.should_stop(), coord.wait_for_stop(0.01), coord.joined]
    coord.request_stop()
    coord.request_stop()
    return [*seen, coord.should_stop(), coord.wait_for_stop(), coord.joined, outcome(coord.join), coord.joined]


@scenario
def threads_that_end(api):
    """Join without a stop."""
    coord = api.Coordinator()
    threads = [threading.Thread(target=int) for _ in range(3)]
    for thread in threads:
        thread.start()
    coord.register_thread(threading.Thread())
    return [outcome(coord.join, threads), coord.should_stop(), coord.joined]


@scenario
def clean_types(api):
    """Default, replaced and empty clean types."""
    results = []
    for types in (None, (ValueError,), ()):
        for error in (api.errors.OutOfRangeError, ValueError):
            coord = api.Coordinator(types) if types is not None else api.Coordinator()
            handled(coord, api.end() if error is not ValueError else error("x"))
            results.append([coord.should_stop(), outcome(coord.join), coord.joined])
    return results


@scenario
def error_forms(api):
    """An instance and a triple, the same object each time."""
    results = []
    for triple in (False, True):
        coord = api.Coordinator()
        error = ValueError("x")
        try:
            raise error
        except ValueError as caught:
            coord.request_stop((type(caught), caught, caught.__traceback__) if triple else caught)
        for use in (coord.join, coord.join, coord.raise_requested_exception):
            try:
                use()
            except ValueError as caught:
                results.append(caught is error)
    return results


@scenario
def first_of_two_errors(api):
    """The first wins."""
    coord = api.Coordinator()
    handled(coord, KeyError(1))
    handled(coord, ValueError(2))
    return [outcome(coord.join), outcome(coord.raise_requested_exception)]


@scenario
def stragglers(api):
    """Threads that do not stop."""
    results = []
    for ignore in (False, True):
        for error in (None, ValueError("x")):
            coord = api.Coordinator()
            with straggler() as thread:
                coord.register_thread(thread)
                handled(coord, error) if error else coord.request_stop()
                try:
                    coord.join(stop_grace_period_secs=0.05, ignore_live_threads=ignore)
                    results.append("joined")
                except ValueError:
                    results.append("ValueError")
                except RuntimeError as caught:
                    results.append(str(caught).split("\n")[0])
                results += [coord.joined, outcome(coord.join, stop_grace_period_secs=0)]
    return results


@scenario
def after_join(api):
    """Errors that come too late are raised where they are."""
    coord = api.Coordinator()
    coord.join()
    return [outcome(coord.request_stop), outcome(handled, coord, ValueError("x"))]


@scenario
def clear(api):
    """Begin anew."""
    coord = api.Coordinator()
    handled(coord, ValueError("x"))
    seen = [outcome(coord.join)]
    coord.clear_stop()
    return [*seen, coord.should_stop(), coord.joined, outcome(coord.join), outcome(coord.raise_requested_exception)]


@scenario
def stop_on_exception(api):
    """Errors and interrupts of threads."""
    results = []
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        coord = api.Coordinator()

        def work(coord=coord, error=error):
            with coord.stop_on_exception():
                raise error

        thread = threading.Thread(target=work)
        thread.start()
        results += [outcome(coord.join, [thread]), coord.should_stop()]
    return results


@scenario
def looper_hooks(api):
    """The hooks in their order, with and without an error."""
    results = []
    for interval in (None, 0.001):
        for failing in ("", "start", "run"):
            coord = api.Coordinator()
            log = []

            class Mine(api.LooperThread):
                def step(self, name, log=log, failing=failing, coord=coord):
                    log.append(name)
                    if name == failing:
                        raise ValueError(name)
                    if log.count("run") == 3:
                        coord.request_stop()

                def start_loop(self):
                    self.step("start")

                def run_loop(self):
                    self.step("run")

                def stop_loop(self):
                    self.step("stop")

            thread = Mine(coord, interval)
            thread.start()
            results.append([thread.daemon, outcome(coord.join), log])
    return results


@scenario
def looper_arguments(api):
    """Good and bad ones."""
    coord = api.Coordinator()
    outputs = []

    def work(*args, **kwargs):
        outputs.append([list(args), kwargs])
        coord.request_stop()

    api.LooperThread.loop(coord, 10, work, args=(1,), kwargs={"a": 2})
    results = [outcome(coord.join), outputs]
    for bad in ((None, 1), (coord, 1, None, (1,)), (coord, 1, None, None, {"a": 1})):
        try:
            api.LooperThread(*bad)
        except ValueError:
            results.append("ValueError")
    return results


@scenario
def looper_times(api):
    """Four calls in 0.35 seconds: at once, then at multiples of a tenth."""
    coord = api.Coordinator()
    calls = []
    api.LooperThread.loop(coord, 0.1, lambda: calls.append(1))
    coord.wait_for_stop(0.35)
    coord.request_stop()
    coord.join()
    return len(calls) >= 4  # more on a machine that is busy elsewhere


@scenario
def runner_parts(api):
    """Names, defaults, and no second set of threads."""
    queue = api.queue(10)
    runner = api.runner(queue, [int, int])
    coord = api.Coordinator()
    threads = api.threads(runner, coord, daemon=True, start=False)
    seen = [thread.name.rsplit("_", 1)[0].split("-")[0] for thread in threads]
    seen += [threads[-1].name.split("-")[-1], [thread.daemon for thread in threads], len(threads)]
    seen += [len(api.threads(runner, coord, start=False)), runner.name == queue.name, runner.queue is queue]
    seen += [[one.__name__ for one in runner.queue_closed_exception_types], runner.exceptions_raised]
    return seen


@scenario
def bad_runners(api):
    """Without a queue, without ops, with closed types that are none."""
    queue = api.queue(10)
    results = []
    for types in ((), (ValueError,), [api.errors.OutOfRangeError], ("x",)):
        results.append(outcome(api.runner, queue, [int], types))
    for functions in ([],):
        try:
            api.runner(queue, functions)
        except ValueError:
            results.append("ValueError")
    return results


@scenario
def end_of_data(api):
    """One op; the queue is drained, and the coordinator not stopped."""
    queue, coord = api.queue(10), api.Coordinator()
    threads = api.threads(api.runner(queue, [iter(range(5)).__next__]), coord)
    seen = [rest(api, queue), api.is_closed(queue), coord.should_stop(), ended(threads[:1])]
    coord.request_stop()
    return [*seen, outcome(coord.join)]


@scenario
def one_of_several_ends(api):
    """The queue stays open until the last one ends."""
    queue, coord = api.queue(10), api.Coordinator()
    go = threading.Event()

    def late():
        go.wait()
        raise StopIteration

    threads = api.threads(api.runner(queue, [iter(range(5)).__next__, late]), coord)
    seen = [ended(threads[:1]), api.is_closed(queue)]
    go.set()
    seen += [ended(threads[1:2]), eventually(lambda: api.is_closed(queue)), rest(api, queue)]
    coord.request_stop()
    return [*seen, outcome(coord.join)]


@scenario
def stop_of_blocked_ops(api):
    """Pending enqueues are cancelled, and that is no error."""
    queue, coord = api.queue(1), api.Coordinator()
    threads = api.threads(api.runner(queue, [int] * 4), coord)
    seen = [api.dequeue(queue)]
    coord.request_stop()
    return [*seen, outcome(coord.join), ended(threads), api.is_closed(queue), rest(api, queue)[1]]


@scenario
def again_after_the_end(api):
    """Once all have ended, threads may be made again."""
    queue = api.queue(10)
    runner = api.runner(queue, [iter(()).__next__])
    threads = api.threads(runner)
    return [len(threads), ended(threads), len(api.threads(runner, start=False))]


def fails():
    """Fail."""
    raise ValueError("bad")


@scenario
def error_with_a_coordinator(api):
    """It comes out of join; consumers see the end of the queue."""
    queue, coord = api.queue(10), api.Coordinator()
    runner = api.runner(queue, [fails])
    threads = api.threads(runner, coord)
    return [rest(api, queue), outcome(coord.join), ended(threads), runner.exceptions_raised, api.is_closed(queue)]


@scenario
def error_without_a_coordinator(api):
    """It is kept, and ends the thread."""
    caught = []
    hook, threading.excepthook = threading.excepthook, lambda args: caught.append(args.exc_type.__name__)
    runner = api.runner(api.queue(10), [fails])
    over = ended(api.threads(runner))
    threading.excepthook = hook
    return [over, [type(error).__name__ for error in runner.exceptions_raised], caught]


@scenario
def closed_by_somebody_else(api):
    """CancelledError is the coordinator's, unless it is one of the closed types."""
    results = []
    for types in (None, (api.errors.OutOfRangeError, api.errors.CancelledError)):
        queue, coord = api.queue(1), api.Coordinator()
        threads = api.threads(api.runner(queue, [int], types), coord)
        results.append(api.dequeue(queue))
        api.close(queue)
        results += [ended(threads[:1]), coord.should_stop()]
        coord.request_stop()
        results.append(outcome(coord.join))
    return results


# Where ours is meant to differ, both outcomes: TensorFlow's first.
DIFFERENT = {
    "error_after_a_plain_stop": (None, "ValueError"),
    "error_outside_an_except_block": ("TypeError", None),
    "interrupt_in_the_main_thread": (None, "KeyboardInterrupt"),
    "join_after_the_end_of_data": (True, False),
    "error_without_a_coordinator_closes": (False, True),
}


@scenario
def error_after_a_plain_stop(api):
    """The first real error is not hidden by the stop."""
    coord = api.Coordinator()
    coord.request_stop()
    handled(coord, ValueError("x"))
    return outcome(coord.join)


@scenario
def error_outside_an_except_block(api):
    """An exception is taken anywhere."""
    return outcome(api.Coordinator().request_stop, ValueError("x"))


@scenario
def interrupt_in_the_main_thread(api):
    """It goes through."""

    def work():
        with api.Coordinator().stop_on_exception():
            raise KeyboardInterrupt

    return outcome(work)


@scenario
def join_after_the_end_of_data(api):
    """The thread for the stop does not wait for one that never comes."""
    queue, coord = api.queue(10), api.Coordinator()
    threads = api.threads(api.runner(queue, [iter(()).__next__]), coord)
    ended(threads[:1])
    time.sleep(0.2)
    alive = threads[-1].is_alive()
    coord.request_stop()
    coord.join()
    return alive


@scenario
def error_without_a_coordinator_closes(api):
    """Consumers do not wait for a runner that has failed."""
    queue = api.queue(10)
    hook, threading.excepthook = threading.excepthook, lambda args: None
    ended(api.threads(api.runner(queue, [fails])))
    threading.excepthook = hook
    return api.is_closed(queue)


def outcomes(api):
    """Run all programs."""
    return {name: function(api) for name, function in SCENARIOS.items()}


if __name__ == "__main__":
    logging.disable()
    print(json.dumps(outcomes(TensorFlows())))
