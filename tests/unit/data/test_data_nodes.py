"""Elements that are handed in: their order, their places, their memory, and how a stream of them ends."""

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, own, threads, write_files
from helpers.data.nodes import KINDS, Chosen, Each, Handed, Through, made, numbers, value
from helpers.process import AT_ONCE, PATIENCE, run_python, soon, thread_ids
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.ragged import Ragged


def plain(x):
    """A value in which equal things compare equal."""
    if isinstance(x, tuple):
        return tuple(map(plain, x))
    if isinstance(x, Ragged):
        return x.to_list()
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x


def expected(kind, indices):
    """The batch of these elements."""
    values = [value(kind, i) for i in indices]
    return [x.tolist() if isinstance(x, np.ndarray) else x for x in values]


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_column_in_batches(kind, number):
    ds = threads(made(Handed((), 101, (kind,))).batch(4), number)
    for first, batch in zip(range(0, 101, 4), ds, strict=True):
        assert plain(batch) == expected(kind, range(first, min(first + 4, 101)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_column_one_by_one(kind):
    assert [plain(x) for x in made(Handed((), 50, (kind,)))] == expected(kind, range(50))


def test_elements_of_different_shapes_can_be_kept():
    elements = list(made(Handed((), 50, ("dense",))))
    assert [plain(x) for x in elements] == expected("dense", range(50))


@pytest.mark.parametrize("number", THREADS)
def test_native_stages_get_what_was_handed_in(number):
    stage = qc.ops.compose(qc.ops.on(0, qc.ops.cast(dtype=np.float32)), qc.ops.on(3, qc.ops.cast(dtype=np.float64)))
    ds = threads(made(Handed((), 90, ("fixed", "string", "strings", "ragged"))).map(stage).batch(7), number)
    for first, (a, b, c, d) in zip(range(0, 90, 7), ds, strict=True):
        index = range(first, min(first + 7, 90))
        assert a.dtype == np.float32 and d.values.dtype == np.float64
        assert plain(a) == expected("fixed", index)
        assert plain(b) == expected("string", index)
        assert plain(c) == expected("strings", index)
        assert plain(d) == expected("ragged", index)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 90),
    seed=st.integers(0, 9),
    skip=st.integers(0, 20),
    take=st.integers(-1, 60),
    repeat=st.integers(0, 3),
    again=st.integers(1, 2),
    batch=st.integers(1, 20),
    number=st.sampled_from(THREADS),
)
def test_orders_over_it(count, seed, skip, take, repeat, again, batch, number):
    ds = made(Handed((), count, ("fixed", "string"), seed))
    ds = ds.skip(skip).repeat(again).take(take).repeat(repeat).batch(batch)
    once = list(range(count))[skip:] * again
    once = (once if take < 0 else once[:take]) * repeat
    got = [plain(x) for x in threads(ds, number)]
    parts = [once[i : i + batch] for i in range(0, len(once), batch)]
    assert got == [(expected("fixed", part), expected("string", part)) for part in parts]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deep", [1, 3])
def test_resume_at_every_element(tmp_path, deep):
    files = write_files(tmp_path, [bytes(range(70)), b"", bytes(range(70, 83))])

    def chain(number):
        ds = dataset(files, 1).shuffle(9, seed=3)
        for _ in range(deep):
            ds = made(Through((threads(ds, number),))).skip(2).repeat(2)
        return threads(ds.batch(5), number)

    states, elements = [], []
    with iter(chain(2)) as it:
        states.append(it.state_dict())
        for element in it:
            elements.append(own(element).tolist())
            states.append(it.state_dict())
    for index, (state, number) in enumerate(zip(states, itertools.cycle(THREADS), strict=False)):
        with iter(chain(number)) as it:
            it.load_state_dict(state)
            assert it.state_dict() == state
            limit = 3 if index % 11 else None
            assert [own(x).tolist() for x in itertools.islice(it, limit)] == elements[index:][:limit]


def test_each_pass_takes_the_next_orders_of_the_shuffles_before_it(tmp_path):
    files = write_files(tmp_path, [bytes(range(40))])
    plain_ = dataset(files, 1).shuffle(10, seed=4)
    passes = [np.concatenate(list(plain_)).tolist() for _ in range(8)]
    ds = made(Through((dataset(files, 1).shuffle(10, seed=4).repeat(2),))).repeat(2)
    for first in (0, 4):  # and a second iterator goes on
        got = np.concatenate(list(ds)).tolist()
        assert got == sum(passes[first : first + 4], [])


def test_a_pass_that_is_cut_off_is_followed_by_the_next_one(tmp_path):
    files = write_files(tmp_path, [bytes(range(40))])
    passes = [np.concatenate(list(d)).tolist() for d in [dataset(files, 1).shuffle(10, seed=4)] for _ in range(4)]
    ds = made(Through((dataset(files, 1).shuffle(10, seed=4),))).take(7).repeat(4)
    assert np.concatenate(list(ds)).tolist() == sum((one[:7] for one in passes), [])


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("batch", [None, 4])
def test_an_error_comes_in_its_place(number, batch):
    def function(x):
        if x == 50:
            raise KeyboardInterrupt("mine")
        return int(x)

    ds = threads(made(Each((threads(numbers(100), number),), function)), number)
    results = []
    with iter(ds) as it:
        with pytest.raises(KeyboardInterrupt, match="mine"):
            for x in it:
                results.append(x)
        with pytest.raises(qc.errors.FailedPreconditionError):
            next(it)
    assert results == list(range(50))


def test_an_error_of_an_input_comes_in_its_place(tmp_path):
    files = write_files(tmp_path, [bytes(30), bytes(8)])
    ds = made(Through((made(Through((dataset([files[0], str(tmp_path / "none")], 1),))),))).batch(7)
    got = []
    with pytest.raises(qc.errors.NotFoundError, match="none"):
        for x in ds:
            got.append(len(x))
    assert got == [7, 7, 7, 7, 2]


@pytest.mark.parametrize("end", ["drop", "close", "exhaust"])
def test_threads_end_with_the_iterator(end):
    before, python = thread_ids(), threading.active_count()
    ds = made(Each((made(Through((numbers(100_000),))).repeat(),), lambda x: x)).repeat()
    if end == "exhaust":
        ds = ds.take(1000)
    it = iter(ds)
    for _ in range(1000):
        next(it)
    if end == "close":
        it.close()
    elif end == "exhaust":
        assert next(it, None) is None
    else:
        del it
        gc.collect()
    assert soon(lambda: threading.active_count() <= python)
    assert soon(lambda: thread_ids() <= before)


def test_objects_go_once_nobody_needs_them():
    alive = weakref.WeakSet()

    class Thing:
        def __init__(self, number):
            self.number = int(number)
            alive.add(self)

    ds = made(Each((numbers(20_000),), Thing)).skip(100).repeat(2)
    most = 0
    with iter(ds) as it:
        for index, thing in enumerate(it):
            assert thing.number == (index % 19_900) + 100
            most = max(most, len(alive))
    assert most < 8192
    del thing, it
    # Making a stream sweeps what those before it left behind.
    one = made(Each((numbers(1),), Thing))
    assert soon(lambda: iter(one) is not None and gc.collect() >= 0 and not alive, PATIENCE)


@pytest.mark.thorough
def test_many_iterators_dropped_in_the_middle():
    before = thread_ids()
    ds = made(Through((made(Handed((), 500, ("fixed", "string"))),))).repeat().batch(3)
    for n in range(60):
        it = iter(ds)
        for _ in range(n % 7):
            next(it)
        del it
    gc.collect()
    assert soon(lambda: thread_ids() <= before)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", ["pass", "raise SystemExit(3)", "os._exit(4)", "1 / 0", "it = gc.collect()"])
def test_exit_without_close(end):
    done = run_python(f"""
        import gc, os
        from helpers.data.nodes import Each, Through, made, numbers
        it = iter(made(Each((made(Through((numbers(1000),))).repeat(),), lambda x: x)).repeat())
        for _ in range(100):
            next(it)
        {end}
        """)
    assert done.returncode == {"p": 0, "r": 3, "o": 4, "1": 1, "i": 0}[end[0]]
    assert ("ZeroDivisionError" in done.stderr) == (end == "1 / 0")
    if end != "1 / 0":
        assert done.stderr == ""


def test_a_forked_child_is_told():
    done = run_python("""
        import os
        from helpers.data.nodes import Each, made, numbers
        import queuecore as qc
        ds = made(Each((numbers(1000),), lambda x: int(x))).repeat()
        it = iter(ds)
        next(it)
        child = os.fork()
        if child == 0:
            try:
                next(it)
            except qc.errors.ForkedPipelineError:
                del it
                assert [x for x in ds.take(3)] == [0, 1, 2]
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert next(it) == 1
        """)
    assert (done.returncode, done.stderr) == (0, "")


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 60),
    size=st.integers(1, 70),
    ops=st.lists(st.sampled_from(["repeat", "take", "skip", "batch"]), max_size=3),
    first=st.booleans(),
    seed=st.integers(1, 5),
    number=st.sampled_from(THREADS),
    cut=st.integers(0, 100),
)
def test_shuffles_give_the_orders_that_they_give_of_files(tmp_path_factory, count, size, ops, first, seed, number, cut):
    files = write_files(tmp_path_factory.mktemp("shuffle"), [bytes(range(count))])

    def chain(ds):
        ds = ds.repeat(2) if first else ds
        ds = ds.shuffle(size, seed=seed)
        for op in ops:
            ds = getattr(ds, op)(*{"repeat": (3,), "take": (31,), "skip": (4,), "batch": (3, True)}[op])
        return threads(ds, number)

    of_files = [plain(x) for x in chain(dataset(files, 1).map(qc.ops.reshape(shape=())))]
    of_rows = chain(numbers(count))
    assert [plain(x) for x in of_rows] == of_files
    with iter(chain(numbers(count))) as it:
        for _ in itertools.islice(it, cut):
            pass
        state = it.state_dict()
    with iter(chain(numbers(count))) as it:
        it.load_state_dict(state)
        assert [plain(x) for x in it] == of_files[cut:]


def test_close_is_heard_by_inputs_that_wait():
    """The chain's last thread waits for its input, which waits for the next one, which waits for a function."""
    waits, go_on = threading.Event(), threading.Event()

    def slow(x):
        waits.set()
        go_on.wait(PATIENCE)
        return x

    ds = made(Each((made(Each((made(Each((numbers(5),), slow)),), lambda x: x)),), lambda x: x))
    before = threading.active_count()
    it = iter(ds)
    consumer = threading.Thread(target=lambda: pytest.raises(qc.errors.FailedPreconditionError, next, it))
    consumer.start()
    assert waits.wait(PATIENCE)
    it.close()
    consumer.join(AT_ONCE)
    # Only the thread that is inside of the function is left.
    assert soon(lambda: threading.active_count() <= before + 1)
    go_on.set()
    assert soon(lambda: threading.active_count() <= before)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("cast", [False, True])
def test_rows_are_chosen_without_python(number, cast):
    """Batches of one stream lie in the blocks of the next, and stay while a shuffle holds their rows."""
    kinds = ("fixed", "string", "strings", "ragged")

    def chain(number):
        ds = threads(made(Handed((), 150, (*kinds, "mask"))), number)
        if cast:
            ds = ds.map(qc.ops.on(0, qc.ops.cast(dtype=np.int32)))
        ds = made(Chosen((ds,), 5))
        if cast:
            ds = ds.map(qc.ops.on(3, qc.ops.cast(dtype=np.float32)))
        return threads(ds, number)

    index = [i for i in range(150) if value("mask", i)]
    want = [tuple(expected(kind, [i])[0] for kind in kinds) for i in index]
    assert [plain(x) for x in chain(number)] == want
    shuffled = [plain(x) for x in chain(number).shuffle(30, seed=5).repeat(2)]
    assert shuffled != want * 2 and sorted(map(str, shuffled)) == sorted(map(str, want * 2))
    it = iter(chain(number).shuffle(30, seed=5).repeat(2))
    for place in range(0, len(shuffled), 7):
        with iter(chain(number).shuffle(30, seed=5).repeat(2)) as other:
            other.load_state_dict(it.state_dict())
            assert [plain(x) for x in itertools.islice(other, 3)] == shuffled[place : place + 3]
        for _ in range(7):
            next(it, None)
