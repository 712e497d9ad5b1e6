"""Part D for pipelines of every kind: signals, the end of the process, ranks, logs."""

import itertools
import logging
import textwrap

import pytest
from helpers.data.functions import in_python
from helpers.data.kinds import COUNT, KINDS, SOURCES, all_of
from helpers.data.matrix import numbers_in
from helpers.process import run_python

from queuecore.errors import InvalidArgumentError

# ---- row 51: Ctrl-C --------------------------------------------------------------------------------------------------

INTERRUPTED = """
    import itertools, os, signal, sys, threading, time, warnings
    import queuecore as qc
    from helpers.data.functions import in_python
    from helpers.data.kinds import COUNT, KINDS, SOURCES, Gate, all_of, halting
    from helpers.data.matrix import numbers_in
    from helpers.process import AT_ONCE, soon, thread_ids
    from queuecore.data import Dataset

    gate = Gate()

    class interrupted:
        # Ctrl-C comes once a gate is reached and the program seems to wait; it must be heard at once.
        def __init__(self, progress=lambda: 0, reached=None):
            self.progress = progress
            self.reached = reached or gate.reached
        def __enter__(self):
            gate.reached.clear()
            gate.opened.clear()
            self.over = False
            self.sender = threading.Thread(target=self.send)
            self.sender.start()
        def send(self):
            assert self.reached.wait(20)
            before = None
            while before != (before := self.progress()):
                time.sleep(0.01)
            self.sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        def __exit__(self, kind, error, trace):
            took = time.monotonic() - self.sent if hasattr(self, "sent") else None
            self.sender.join()
            assert kind is KeyboardInterrupt, (kind, error)
            assert took < AT_ONCE, took
            return True
"""


def child(code, *arguments):
    done = run_python(textwrap.dedent(INTERRUPTED) + textwrap.dedent(code), *arguments, timeout=50)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_ctrl_c_in_next_and_on_with_the_same_iterator():
    code = """
    for name, kind in zip(KINDS, itertools.cycle(SOURCES)):
        ds = halting(name, kind, gate)
        expected = all_of(KINDS[name](SOURCES[kind]()))
        before = thread_ids()
        got = []
        it = iter(ds)
        with interrupted(lambda: len(got)):
            for x in it:
                got.append(list(numbers_in(x)))
        assert got == expected[:len(got)], (name, kind)
        state = it.state_dict()
        gate.opened.set()
        if len(got) % 2:  # as an interactive user would: go on, or go back to where one was
            rest = [list(numbers_in(x)) for x in it]
        else:
            it.close()
            with iter(ds) as it:
                it.load_state_dict(state)
                rest = [list(numbers_in(x)) for x in it]
        assert got + rest == expected, (name, kind, got, rest)
        del it
        assert soon(lambda: thread_ids() <= before), (name, kind)
    print("all")
    """
    assert child(code) == "all\n"


def test_ctrl_c_in_all_other_calls():
    code = """
    def first(it):
        while True:
            it.get_next()
    def optional(it):
        while it.get_next_as_optional().has_value():
            pass
    for kind in SOURCES:
        ds = halting("map in threads", kind, gate)
        whole = ds.batch(2 * COUNT)
        inside = Dataset.range(2).map(in_python(lambda x: [int(y) for y in ds]))
        calls = [
            lambda: list(ds),
            lambda: ds.reduce(0, lambda state, x: state + x),
            lambda: whole.get_single_element(),
            lambda: list(inside),
            lambda: list(Dataset.zip(ds, inside)),
            lambda: first(iter(ds)),
            lambda: optional(ds.make_one_shot_iterator()),
            lambda: ds.skip(COUNT - 1).map(in_python(lambda x: 1)).element_spec,
            lambda: iter(ds.skip(COUNT - 1).flat_map(lambda x: Dataset.range(2))),
        ]
        initializable = ds.make_initializable_iterator()
        initializable.initializer()
        fed = qc.data.Iterator.from_string_handle(initializable.string_handle(), ds.output_types)
        calls += [lambda: first(fed)]
        before = thread_ids()
        for number, call in enumerate(calls):
            with interrupted():
                call()
            gate.opened.set()
        initializable.close()
        assert soon(lambda: thread_ids() <= before), (kind, number)
        assert len(list(ds)) == COUNT
        # Nothing that these do waits for anything.
        it = iter(ds)
        gate.reached.clear()
        gate.opened.clear()
        begun = time.monotonic()
        threading.Thread(target=lambda: (gate.reached.wait(20), it._stop())).start()
        try:
            list(it)
        except qc.errors.FailedPreconditionError:
            pass
        it.state_dict(), it.stats(), it.close(), it.close(None)
        assert time.monotonic() - begun < AT_ONCE
        gate.opened.set()
    print("all")
    """
    assert child(code) == "all\n"


def test_ctrl_c_while_native_threads_are_stuck(tmp_path):
    pytest.importorskip("queuecore._core.testing.syscalls")
    code = """
    import pathlib
    from helpers.data.matrix import PIPELINES, write
    from queuecore._core.testing import syscalls
    from queuecore.data import Options
    folder = write(pathlib.Path(sys.argv[1]))
    for name in ("fixed", "compressed, shuffled", "filtered in Python"):
        make = lambda: PIPELINES[name](folder).with_options(Options(num_threads=2))
        expected = all_of(make())
        stuck = threading.Event()
        it = iter(make())
        got = []
        with interrupted(reached=stuck):
            syscalls.set_read_delay(0.4)
            threading.Timer(0.05, stuck.set).start()
            for x in it:
                got.append(list(numbers_in(x)))
        syscalls.set_read_delay(0)
        assert [*got, *(list(numbers_in(x)) for x in it)] == expected, name
        # A place elsewhere, and the end, wait for a thread that is stuck; that ends it, or leaves it behind.
        for way in ("load_state_dict", "close"):
            it = iter(make())
            state = it.state_dict()
            stuck.clear()
            with interrupted(reached=stuck):
                syscalls.set_read_delay(0.4)
                try:
                    it.close(timeout=0) if it._stream.poll(0.05) else None
                finally:
                    stuck.set()
                it.load_state_dict(state) if way == "load_state_dict" else it.close(timeout=None)
                time.sleep(9)  # if it didn't have to wait
            syscalls.set_read_delay(0)
            try:
                assert [list(numbers_in(x)) for x in it] == expected
            except qc.errors.FailedPreconditionError:
                assert it.closed
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                it.close()
    print("all")
    """
    assert child(code, tmp_path) == "all\n"


# ---- rows 52 and 58: the end of the process --------------------------------------------------------------------------

ENDS = """
import itertools, os, signal, statistics, sys, threading, time
import queuecore
from helpers.data.kinds import KINDS, SOURCES
os.chdir(sys.argv[1])
ends = {"return": 0, "sys.exit": 3, "error": 1, "os._exit": 4, "SIGTERM": -15, "SIGINT": -2, "handler": 5}
left = list(ends) * len(KINDS)
alone = None
took = [], []
for index, (name, kind) in enumerate(itertools.product(KINDS, SOURCES)):
    end = left.pop()
    begun = time.monotonic()
    error = os.open(f"stderr-{index % 4}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    pid = os.fork()
    if pid == 0:
        os.dup2(error, 2)
        break
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() - begun < 60, (name, kind, end)
        time.sleep(0.001)
    took[end in ("os._exit", "SIGTERM")].append(time.monotonic() - begun)
    said = os.pread(error, 10000, 0)
    os.close(error)
    assert os.waitstatus_to_exitcode(done[1]) == ends[end], (name, kind, end, done, said)
    word = {"error": b"KeyError: 'mine'", "SIGINT": b"KeyboardInterrupt"}.get(end)
    if word is None:
        assert said == b"", (name, kind, end, said)
    else:
        assert said.rstrip().endswith(word) and said.count(b"Traceback") == 1, (name, kind, end, said)
else:
    # Beside those that the system ends at once: an exit that waits for its threads takes a second more, always. On a
    # busy machine both are slow.
    usual, at_once = map(statistics.median, took)
    assert usual < 3 * at_once + 0.5, (usual, at_once)
    print("all")
    sys.stdout.flush()
    os._exit(0)
ds = KINDS[name](SOURCES[kind]().repeat())
it = iter(ds)
for _ in itertools.islice(it, 4):
    pass
other = iter(ds)
threading.Thread(target=lambda: [None for _ in other], daemon=True).start()
if end == "handler":
    def stop(*_):
        it.close()
        sys.exit(5)
    signal.signal(signal.SIGTERM, stop)
if end in ("SIGTERM", "SIGINT", "handler"):
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT if end == "SIGINT" else signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, 0.02)  # not before: on a busy machine it may be over at once
    for _ in it:
        pass
    time.sleep(10)  # some have an end
if end == "sys.exit":
    sys.exit(3)
if end == "error":
    raise KeyError("mine")
if end == "os._exit":
    os._exit(4)
"""


@pytest.mark.thorough
@pytest.mark.watchdog(300)
def test_the_end_of_the_process(tmp_path):
    done = run_python(ENDS, tmp_path, timeout=280)
    assert (done.stderr, done.stdout, done.returncode) == ("", "all\n", 0)


# ---- row 56: forks ---------------------------------------------------------------------------------------------------

FORKED = """
import itertools, os, time, warnings
import queuecore as qc
from helpers.data.kinds import KINDS, SOURCES, all_of
warnings.simplefilter("ignore")  # from Python 3.12 on, os.fork() warns where there are threads
for name, kind in zip(KINDS, itertools.cycle(SOURCES)):
    it = iter(KINDS[name](SOURCES[kind]().repeat()))
    next(it)
    pid = os.fork()
    if pid == 0:
        refused = 0
        for use in (it.__next__, it.state_dict, it.stats, lambda: it.load_state_dict({})):
            try:
                use()
            except qc.errors.ForkedPipelineError:
                refused += 1
        it.close()
        del it
        os._exit(refused + 10 * bool(all_of(KINDS[name](SOURCES[kind]()))))
    begun = time.monotonic()
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() - begun < 10, (name, kind)
        time.sleep(0.001)
    assert os.waitstatus_to_exitcode(done[1]) == 14, (name, kind, done)
    next(it)
    it.close()
print("all")
"""


@pytest.mark.thorough
def test_a_forked_child_is_told_and_may_begin_anew():
    done = run_python(FORKED, timeout=50)
    assert (done.stderr, done.stdout, done.returncode) == ("", "all\n", 0)


# ---- row 62: ranks ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(36)
@pytest.mark.parametrize("name", KINDS)
def test_fewer_elements_than_ranks(name):
    for source in SOURCES.values():
        for count in (0, 1, 5):
            ds = KINDS[name](source()).take(count)
            expected = all_of(ds)
            ranks = [all_of(ds.shard(4, rank, uneven="drop")) for rank in range(4)]
            # As many on each: nobody waits for one that has none.
            assert ranks == [expected[rank : count // 4 * 4 : 4] for rank in range(4)]
            for rank in range(4):
                results = []
                try:
                    for x in ds.shard(4, rank, uneven="raise"):
                        results.append(list(numbers_in(x)))
                    assert count % 4 == 0
                except InvalidArgumentError:
                    assert count % 4
                is_told_at_once = results == [] and ds.cardinality() == count
                assert results == ranks[rank] or is_told_at_once
            padded = [*expected, *itertools.islice(itertools.cycle(expected), -len(expected) % 4)]
            assert [all_of(ds.shard(4, rank, uneven="pad")) for rank in range(4)] == [
                padded[rank::4] for rank in range(4)
            ]


# ---- row 63: logs and streams ----------------------------------------------------------------------------------------


class Broken(logging.Handler):
    def emit(self, record):
        raise OSError("no space left")


def test_a_logging_handler_that_raises():
    log = logging.getLogger("queuecore")
    handler = Broken()
    log.addHandler(handler)
    try:
        for calls in (None, 2):
            ds = SOURCES["rows"]().map(in_python(lambda x: 1 // int(x % 5)), calls).ignore_errors(log_warning=True)
            assert len(list(ds)) == COUNT * 4 // 5
    finally:
        log.removeHandler(handler)


@pytest.mark.parametrize(
    "end", ["sys.stdout.close(); sys.stderr.close()", "sys.stdout = sys.stderr = None", "os.close(1); os.close(2)"]
)
def test_closed_streams(tmp_path, end):
    code = f"""
    import os, sys
    import queuecore as qc
    from helpers.data.functions import in_python
    from helpers.data.kinds import COUNT, rows
    from queuecore.data import Dataset, Options
    {end}
    held = list(rows().batch(1).with_options(Options(max_leases=1)))  # a warning
    assert [int(x[0]) for x in held] == list(range(COUNT))
    ds = rows().map(in_python(lambda x: 1 // int(x % 5)), 2).ignore_errors(log_warning=True)
    assert len(list(ds)) == COUNT * 4 // 5
    os._exit(7)
    """
    assert run_python(code).returncode == 7
