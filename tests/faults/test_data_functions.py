"""Functions of the user's that fail, hang, or use what they are part of; and consumers that keep everything."""

import asyncio
import random
import threading
import time
import warnings

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.data.functions import in_python, plain, pulled
from helpers.data.nodes import numbers
from helpers.process import AT_ONCE, PATIENCE, run_python

import queuecore as qc
from queuecore.data import Dataset, Options
from queuecore.errors import FailedPreconditionError, PipelineError

CALLS = (None, 1, 3)


# ---- row 35: a function that raises ----------------------------------------------------------------------------------

RAISED = [ValueError, StopIteration, MemoryError, GeneratorExit, asyncio.CancelledError, RecursionError, OSError]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("kind", RAISED)
def test_what_it_raises_comes_in_its_place(number, calls, kind):
    def function(x):
        if x == 37:
            raise kind("mine")
        return int(x)

    ds = threads(threads(numbers(100), number).map(function, calls), number)
    for _ in range(2):  # a new iterator works
        it = iter(ds)
        got = []
        with pytest.raises(PipelineError, match="element 37") as caught:
            for x in it:
                got.append(plain(x))
        assert got == list(range(37))
        assert type(caught.value.__cause__) is kind
        assert kind.__name__ in str(caught.value)
        assert "test_what_it_raises_comes_in_its_place" in str(caught.value)
        assert (caught.value.stage, caught.value.record) == ("map", 37)
        state = it.state_dict()
        assert [plain(x) for x in it] == list(range(38, 100))  # it goes on behind that element
        it.close()
    with iter(ds) as it:
        it.load_state_dict(state)
        assert plain(next(it)) == 38


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("step", ["map", "filter", "from_generator"])
def test_interrupts_come_out_as_themselves(calls, kind, step):
    mine = kind("mine")

    def function(x):
        if x == 5:
            raise mine
        return bool(x >= 0) if step == "filter" else int(x)

    def generate():
        for x in range(9):
            function(x)
            yield x

    if step == "map":
        ds = numbers(9).map(function, calls)
    else:
        ds = numbers(9).filter(function) if step == "filter" else Dataset.from_generator(generate)
    got, error = pulled(ds)
    assert got == [0, 1, 2, 3, 4]
    assert error is mine
    # Nor are they left out.
    got, error = pulled(ds.with_options(Options(on_error="skip")).ignore_errors())
    assert got == [0, 1, 2, 3, 4]
    assert error is mine


@pytest.mark.parametrize("calls", CALLS)
def test_the_first_error_in_order_is_the_one(calls):
    later = threading.Event()

    def function(x):
        if x == 3:
            assert calls in (None, 1) or later.wait(10)
            raise ValueError("first")
        if x == 4:
            later.set()
            raise ValueError("second")
        return int(x)

    got, error = pulled(numbers(9).map(function, calls))
    assert got == [0, 1, 2]
    assert str(error.__cause__) == "first"


@pytest.mark.parametrize("calls", CALLS)
def test_an_error_of_the_input_comes_after_what_was_before_it(tmp_path, calls):
    files = write_files(tmp_path, [bytes(range(30)), bytes(8)])
    ds = dataset([files[0], str(tmp_path / "none"), files[1]], "u1")
    for deterministic in (True, False):
        results, error = pulled(ds.map(in_python(lambda x: x), calls, deterministic))
        assert sorted(results) == list(range(30))
        assert isinstance(error, qc.errors.NotFoundError)
    results, error = pulled(ds.filter(in_python(lambda x: bool(x % 2))).batch(4))
    assert sum(results, []) == list(range(1, 30, 2))
    assert isinstance(error, qc.errors.NotFoundError)
    results, error = pulled(ds.map(in_python(lambda x: x), calls).with_options(Options(on_error="skip")))
    assert (results, error) == ([*range(30), *[0] * 8], None)


# ---- row 36: a producer that fails while much or nothing is ahead ---------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("position", [0, 1, 63, 64, 65, 3000])
@pytest.mark.parametrize("ready", [False, True])
def test_a_failure_ahead_of_the_consumer_waits_for_its_turn(calls, position, ready):
    failed = threading.Event()

    def function(x):
        if x == position:
            failed.set()
            raise ValueError
        return int(x)

    with iter(numbers(5000).map(function, calls)) as it:
        results = []
        if position and ready:
            results.append(plain(next(it)))
            failed.wait(0.5)  # may not come: then so much is not made ahead
        with pytest.raises(PipelineError):
            results.extend(plain(x) for x in it)
    assert results == list(range(position))


# ---- row 45: a consumer that keeps everything ------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("calls", CALLS)
def test_a_consumer_that_keeps_every_batch(tmp_path, calls):
    rows = np.random.default_rng(0).integers(0, 256, (3000, 16), dtype=np.uint8)
    files = write_files(tmp_path, [rows.tobytes()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (
            lambda b: b[:, ::-1][:, ::-1][:, :],
            in_python(lambda b: b),
            in_python(lambda b: b + np.uint8(0)),
        ):
            kept = list(dataset(files, 16).batch(8).map(in_python(function), calls))
            assert np.array_equal(np.concatenate(kept), rows)
        kept = list(dataset(files, 16).batch(8).filter(in_python(lambda b: True)))
        assert np.array_equal(np.concatenate(kept), rows)


# ---- row 49: a function that uses what it is part of -----------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", ["map", "parallel map", "filter", "batched filter", "generator"])
@pytest.mark.parametrize("use", ["next", "close"])
def test_a_function_that_uses_its_own_iterator(step, use):
    box = []

    def used(x):
        if x == 3:
            next(box[0]) if use == "next" else box[0].close()
        return True

    def generate():
        for x in range(9):
            used(x)
            yield x

    ds = {
        "map": lambda: numbers(9).map(in_python(used)),
        "parallel map": lambda: numbers(9).map(in_python(used), 4),
        "filter": lambda: numbers(9).filter(in_python(used)),
        "batched filter": lambda: numbers(9).batch(1).filter(in_python(used)),
        "generator": lambda: Dataset.from_generator(generate),
    }[step]()
    it = iter(ds.map(in_python(lambda x: x)))
    box.append(it)
    got = []
    with pytest.raises(PipelineError) as caught:
        for x in it:
            got.append(x)
    assert len(got) == 3
    assert isinstance(caught.value.__cause__, FailedPreconditionError)
    box.clear()


def test_it_is_told_even_if_elements_are_ready():
    box, errors = [], 0

    def function(x):
        nonlocal errors
        number = int(x)
        if box:
            with pytest.raises(FailedPreconditionError):
                next(box[0])
            errors += 1
        return number

    it = iter(numbers(3000).map(function).batch(2).map(in_python(lambda x: x)))
    box.append(it)
    assert sum(len(x) for x in it) == 3000
    assert errors == 3000
    box.clear()


@pytest.mark.parametrize("calls", [2, 4])
def test_others_go_on_while_one_input_is_stuck(calls):
    """Where the order is free: until the test lets that input go on, the others give all that they have."""
    go = threading.Event()

    def numbers_of(index):
        index = int(index)

        def generate():
            for n in range(1000):
                if index == 1 and n == 3:
                    assert go.wait(PATIENCE)
                yield 1000 * index + n

        return Dataset.from_generator(generate, output_types=np.int64, output_shapes=())

    ds = Dataset.range(4).interleave(numbers_of, cycle_length=4, num_parallel_calls=calls, deterministic=False)
    with iter(ds.batch(10)) as it:
        seen = []
        while len(seen) < 2990:
            seen += next(it).tolist()
        go.set()
        seen += [int(x) for batch in it for x in batch]
    assert sorted(seen) == list(range(4000))


# ---- row 50: pipelines in pipelines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", CALLS)
def test_pipelines_in_functions(calls):
    inner = numbers(20).map(in_python(lambda y: int(y) + 1), 2)
    ds = numbers(30).map(in_python(lambda x: sum(plain(y) for y in inner) + int(x)), calls)
    first, second = iter(ds), iter(ds)
    for x in range(30):
        assert plain(next(first)) == x + 210
        if x % 2:
            assert plain(next(second)) == x // 2 + 210
    first.close()
    second.close()


def test_a_dataset_whose_function_iterates_over_it_is_told_to_stop():
    done = run_python("""
        import queuecore as qc
        from helpers.data.functions import in_python
        from helpers.data.nodes import numbers
        box = []
        box.append(numbers(3).map(in_python(lambda x: sum(int(y) for y in box[0])), 2))
        try:
            list(box[0])
        except qc.errors.PipelineError as error:
            while error.__cause__ is not None:
                error = error.__cause__
            assert isinstance(error, qc.errors.FailedPreconditionError), error
            print("told")
        """)
    assert (done.stdout, done.stderr, done.returncode) == ("told\n", "", 0)


# ---- whatever comes --------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(30))
def test_anything_at_any_moment(seed):
    state = random.Random(seed)
    calls = [state.choice([None, 1, 2, 4]) for _ in range(2)]
    bad = state.choice([None, state.randrange(400)])
    count, end = state.randrange(400), state.choice(["drop", "close", "all", "restore"])
    pause = state.random() < 0.3

    def first(x):
        if x == bad:
            raise KeyError(x)
        if pause and x % 50 == 7:
            threading.Event().wait(0.002)
        return int(x)

    ds = numbers(count).map(first, calls[0]).filter(in_python(lambda x: bool(x % 5)))
    ds = ds.map(in_python(lambda x: int(x) * 2), calls[1]).batch(state.choice([1, 3, 8])).repeat(2)
    expected = [x * 2 for x in range(count) if x % 5]
    if bad is not None and bad < count:
        expected = [x for x in expected if x < 2 * bad]
    else:
        expected, bad = expected * 2, None
    ds = threads(ds, state.choice(THREADS))
    it = iter(ds)
    results, error = [], None
    limit = state.randrange(60)
    saved = it.state_dict(), 0
    while (end == "all" or limit) and error is None:
        limit -= 1
        try:
            results += plain(next(it))
        except StopIteration:
            break
        except PipelineError as raised:
            error = raised
        if state.random() < 0.1:
            saved = it.state_dict(), len(results)
    assert results == expected[: len(results)]
    if error is not None:
        assert bad is not None
        assert results == expected
    elif end == "all":
        assert bad is None
        assert results == expected
    if end == "restore":
        it = iter(ds)
        it.load_state_dict(saved[0])
        rest, _ = [], None
        try:
            for x in it:
                rest += plain(x)
        except PipelineError:
            assert bad is not None
        assert rest == expected[saved[1] :]
    if end == "close":
        it.close()


@pytest.mark.parametrize("step", ["map", "map in threads", "filter", "generator"])
def test_a_function_that_hangs_holds_up_nobody_who_leaves(step):
    go_on, begun = threading.Event(), threading.Event()

    def function(x):
        number = int(x)
        if number == 3:
            begun.set()
            assert go_on.wait(30)
        return number >= 0

    def generate():
        for x in range(9):
            function(x)
            yield x

    ds = {
        "map": lambda: numbers(9).map(function),
        "map in threads": lambda: numbers(9).map(function, 2),
        "filter": lambda: numbers(9).filter(function),
        "generator": lambda: Dataset.from_generator(generate),
    }[step]()
    with iter(ds.map(in_python(lambda x: x))) as it:
        assert len([next(it) for _ in range(3)]) == 3
        assert begun.wait(10)
        stopper = threading.Timer(0.1, it._stop)
        stopper.start()
        with pytest.raises(FailedPreconditionError):
            next(it)
        started = time.monotonic()
    assert time.monotonic() - started < AT_ONCE
    stopper.join()
    go_on.set()  # and then its thread ends: the fixture looks
