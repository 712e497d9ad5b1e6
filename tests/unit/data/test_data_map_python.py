"""Maps with functions that run in Python: order, threads, what they return, and batches of that."""

import collections
import gc
import itertools
import pickle
import threading

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.data.functions import check_resume, in_python, plain, pulled
from helpers.data.nodes import Handed, made, numbers
from helpers.process import PATIENCE, pipeline_threads, run_python, soon, thread_ids
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.data import AUTOTUNE, ArraySpec, Dataset, Options, SparseSpec
from queuecore.errors import DtypeError, FailedPreconditionError, InvalidArgumentError, PipelineError
from queuecore.ragged import Ragged, Sparse

CALLS = (None, 1, 3, AUTOTUNE)


def squared(x):
    return int(x) ** 2


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("calls", CALLS)
def test_in_order(number, calls):
    ds = threads(threads(numbers(500), number).map(squared, calls), number)
    assert [plain(x) for x in ds] == [x * x for x in range(500)]
    assert [plain(x) for x in numbers(0).map(squared, calls)] == []
    assert ds.cardinality() == 500


@settings(max_examples=50, deadline=None)
@given(
    count=st.integers(0, 60),
    before=st.sampled_from(["", "repeat", "take", "skip"]),
    repeat=st.integers(0, 3),
    skip=st.integers(0, 10),
    batch=st.integers(1, 9),
    drop=st.booleans(),
    calls=st.sampled_from(CALLS),
    number=st.sampled_from(THREADS),
)
def test_against_a_model(count, before, repeat, skip, batch, drop, calls, number):
    ds, once = numbers(count), list(range(count))
    if before == "repeat":
        ds, once = ds.repeat(2), once * 2
    elif before == "take":
        ds, once = ds.take(7), once[:7]
    elif before == "skip":
        ds, once = ds.skip(7), once[7:]
    ds = threads(ds.map(squared, calls).skip(skip).repeat(repeat).batch(batch, drop), number)
    expected = [x * x for x in once[skip:] * repeat]
    parts = [expected[i : i + batch] for i in range(0, len(expected), batch)]
    if drop and parts and len(parts[-1]) < batch:
        parts.pop()
    assert [plain(x) for x in ds] == parts
    assert ds.cardinality() == len(parts)


def test_a_shuffle_before_it_goes_through_its_orders(tmp_path):
    files = write_files(tmp_path, [bytes(range(40))])
    shuffled = dataset(files, "u1").shuffle(10, seed=4)
    passes = [[plain(x) for x in shuffled] for _ in range(4)]
    ds = dataset(files, "u1").shuffle(10, seed=4).map(in_python(lambda x: x), 2)
    assert ds.element_spec == ArraySpec((), np.dtype("u1"))  # takes no pass away
    assert [plain(x) for x in ds.repeat(2)] == passes[0] + passes[1]
    assert [plain(x) for x in ds] == passes[2]


def test_a_shuffle_behind_it_is_that_of_the_numbers(tmp_path):
    files = write_files(tmp_path, [bytes(range(50))])
    expected = [plain(x) ** 2 for x in dataset(files, "u1").shuffle(9, seed=1)]
    assert [plain(x) for x in dataset(files, "u1").map(squared).shuffle(9, seed=1)] == expected


@pytest.mark.sampled(4)
@pytest.mark.parametrize("calls", CALLS)
def test_a_saved_place(calls):
    elements = check_resume(lambda: numbers(23).map(squared, calls).repeat(2))
    assert elements == [x * x for x in range(23)] * 2
    elements = check_resume(lambda: numbers(9).map(squared, calls).batch(4).map(lambda b: b + len(b)).repeat(2))
    assert elements == [[x * x + len(part) for x in part] for part in (range(4), range(4, 8), range(8, 9))] * 2


def test_a_saved_place_behind_shuffles(tmp_path):
    files = write_files(tmp_path, [bytes(range(17))])
    check_resume(lambda: dataset(files, "u1").shuffle(5, seed=1).map(squared, 2).shuffle(4, seed=2).repeat(2).batch(3))


def test_a_saved_place_calls_the_function_from_about_there_on():
    calls = []

    def counted(x):
        calls.append(int(x))
        return int(x)

    with iter(numbers(20_000).map(counted)) as it:
        for _ in range(19_000):
            next(it)
        state = it.state_dict()
        rest = [plain(x) for x in it]
    del calls[:]
    with iter(numbers(20_000).map(squared)) as it, pytest.raises(qc.errors.ResumeMismatchError):
        it.load_state_dict(state)
    with iter(numbers(20_000).map(counted)) as it:
        del calls[:]  # what the tracer did
        it.load_state_dict(state)
        assert [plain(x) for x in it] == rest == list(range(19_000, 20_000))
    assert 14_000 < calls[0] <= 19_000
    assert calls == list(range(calls[0], 20_000))


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_calls_run_at_the_same_time():
    meet = threading.Barrier(4, timeout=10)

    def together(x):
        number = int(x)
        meet.wait()
        return number

    assert [plain(x) for x in numbers(40).map(together, 4)] == list(range(40))
    lock = threading.Lock()

    def alone(x):
        assert lock.acquire(blocking=False)
        try:
            return threading.get_ident(), int(x)
        finally:
            lock.release()

    assert len({plain(ident) for ident, _ in numbers(300).map(alone)}) == 1


def test_without_order_elements_come_as_they_are_ready():
    for ds in (
        lambda f: numbers(30).map(f, 3, deterministic=False),
        lambda f: numbers(30).map(f, 3).with_options(Options(deterministic=False)),
    ):
        later = threading.Event()

        def first_waits(x, later=later):
            if x == 0:
                assert later.wait(10)
            return int(x)

        results = []
        for x in ds(first_waits):
            results.append(plain(x))
            if len(results) == 20:
                later.set()
        assert results[0] != 0
        assert sorted(results) == list(range(30))
    # What is said here counts more than the options.
    ds = numbers(300).map(squared, 3, deterministic=True).with_options(Options(deterministic=False))
    assert [plain(x) for x in ds] == [x * x for x in range(300)]


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("hanging", [1, 5, 70])
def test_what_is_ready_does_not_wait_for_what_is_not(calls, hanging):
    go_on = threading.Event()

    def hangs_once(x):
        if x == hanging:
            assert go_on.wait(20)
        return int(x)

    with iter(numbers(100).map(hangs_once, calls)) as it:
        assert [plain(next(it)) for _ in range(hanging)] == list(range(hanging))
        go_on.set()
        assert [plain(x) for x in it] == list(range(hanging, 100))


@pytest.mark.parametrize("calls", [None, 4])
def test_work_ahead_is_bounded(calls):
    inputs = []
    with iter(numbers(10**6).map(in_python(lambda x: inputs.append(x) or 0), calls)) as it:
        for _ in range(10):
            next(it)
        still = -1
        while len(inputs) != still:  # until it has come to rest
            still = len(inputs)
            gone = threading.Event()
            gone.wait(0.3)
        assert still < 8192


@pytest.mark.watchdog(60)
def test_an_error_between_a_wait_for_the_input_and_its_use(monkeypatch):
    """A thread that was just given the input gives it back, and the others come to their end."""
    opened, waits = threading.Event(), threading.Event()

    class Times:
        @staticmethod
        def begin_wait(full):
            if not full:
                waits.set()

        @staticmethod
        def end_wait():
            if opened.is_set():
                raise MemoryError("mine")

    def gated(x):
        assert int(x) == 0 or opened.wait(PATIENCE)
        return int(x)

    monkeypatch.setattr("queuecore.data._nodes.pool.ThreadTimes", Times)
    with iter(Dataset.range(100).map(gated).map(squared, 2)) as it:
        assert next(it) == 0
        assert waits.wait(PATIENCE)  # the other thread has the input, and waits for an element
        opened.set()
        with pytest.raises(MemoryError, match="mine"):
            list(it)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", ["drop", "close", "exhaust", "error"])
@pytest.mark.parametrize("calls", [None, 4])
def test_threads_end_with_the_iterator(calls, end):
    gc.collect()
    assert soon(lambda: not pipeline_threads(), PATIENCE)
    before = thread_ids()

    def function(x):
        if end == "error" and x == 700:
            raise KeyError(x)
        return int(x)

    ds = numbers(100_000).map(function, calls).batch(2).map(in_python(lambda x: x[0]), calls).repeat()
    it = iter(ds.take(2000) if end == "exhaust" else ds)
    for _ in range(300):
        next(it)
    if end == "close":
        it.close()
    elif end == "exhaust":
        assert sum(1 for _ in it) == 1700
    elif end == "error":  # it goes on behind it
        with pytest.raises(PipelineError):
            list(it)
        next(it)
        it.close()
    else:
        del it
        gc.collect()
    assert soon(lambda: not pipeline_threads())
    assert soon(lambda: thread_ids() <= before)


def test_many_iterators_dropped_in_the_middle():
    gc.collect()
    before = thread_ids()
    ds = numbers(500).map(squared, 3).repeat().batch(3)
    for n in range(40):
        it = iter(ds)
        for _ in range(n % 7):
            next(it)
        del it
    gc.collect()
    assert soon(lambda: thread_ids() <= before)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", ["pass", "raise SystemExit(3)", "os._exit(4)", "1 / 0"])
def test_exit_without_close(end):
    done = run_python(f"""
        import gc, os, time
        from helpers.data.nodes import numbers
        it = iter(numbers(10**6).map(lambda x: int(x), 4).map(lambda x: (time.sleep(0.001), int(x))[1], 3).repeat())
        for _ in range(100):
            next(it)
        {end}
        """)
    assert done.returncode == {"p": 0, "r": 3, "o": 4, "1": 1}[end[0]]
    assert ("ZeroDivisionError" in done.stderr) == (end == "1 / 0")
    if end != "1 / 0":
        assert done.stderr == ""


def test_datasets_with_functions_can_be_pickled():
    ds = pickle.loads(pickle.dumps(numbers(10).map(squared, 2).batch(5)))
    assert [plain(x) for x in ds] == [[x * x for x in range(5)], [x * x for x in range(5, 10)]]


# ---- what a function gets --------------------------------------------------------------------------------------------


def test_arguments():
    calls = []

    def star(*arguments):
        calls.append(arguments)
        return 0

    def pairs():
        yield 1, (2, 3)
        yield 4, (5, 6)

    list(Dataset.from_generator(pairs).map(star))
    assert [plain(arguments) for arguments in calls] == [(1, (2, 3)), (4, (5, 6))]
    del calls[:]
    list(Dataset.from_generator(lambda: [{"a": 1, "b": (2,)}]).map(star))
    assert [plain(arguments) for arguments in calls] == [({"a": 1, "b": (2,)},)]
    del calls[:]
    list(Dataset.from_generator(lambda: [[1, 2]]).map(star))
    assert [plain(arguments) for arguments in calls] == [([1, 2],)]


def test_batches_are_views_that_stay_valid(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (2000, 64), dtype=np.uint8)
    files = write_files(tmp_path, [rows.tobytes()])
    bases = []

    def views(batch):
        bases.append(batch.base is not None and not batch.flags.owndata)
        return {"head": batch[:, :3], "all": batch}

    with iter(dataset(files, 64).batch(10).map(views)) as it:
        first = [next(it) for _ in range(3)]
        rest = [one["head"].copy() for one in it]
    for index, one in enumerate(first):
        assert one["all"].tolist() == rows[10 * index : 10 * index + 10].tolist()
        assert one["head"].tolist() == rows[10 * index : 10 * index + 10, :3].tolist()
    assert np.concatenate(rest).tolist() == rows[30:, :3].tolist()
    assert bases[0]


# ---- what it returns -------------------------------------------------------------------------------------------------

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "expected", "spec"),
    [
        (3, np.int64(3), ArraySpec((), np.dtype("i8"))),
        (2**63, np.uint64(2**63), ArraySpec((), np.dtype("u8"))),
        (1.5, np.float64(1.5), ArraySpec((), np.dtype("f8"))),
        (True, np.True_, ArraySpec((), np.dtype("?"))),
        (1j, np.complex128(1j), ArraySpec((), np.dtype("c16"))),
        (np.float16(2), np.float16(2), ArraySpec((), np.dtype("f2"))),
        (np.array(3, np.uint8), np.uint8(3), ArraySpec((), np.dtype("u1"))),
        # As in tf.data, a list is a tuple, and one that is a part of something an array.
        ([1, 2.0], (np.int64(1), np.float64(2)), (ArraySpec((), np.dtype("i8")), ArraySpec((), np.dtype("f8")))),
        ([[1.0], [2.0]], (np.array([1.0]), np.array([2.0])), (ArraySpec((None,), np.dtype("f8")),) * 2),
        ([[1], [1, 2]], (np.array([1]), np.array([1, 2])), None),
        ([1, "a"], (np.int64(1), b"a"), None),
        ([], (), ()),
        (([1, 2],), (np.array([1, 2]),), (ArraySpec((None,), np.dtype("i8")),)),
        ({"a": [[1.0], [2.0]]}, {"a": np.array([[1.0], [2.0]])}, {"a": ArraySpec((None, None), np.dtype("f8"))}),
        (([],), (np.array([]),), (ArraySpec((None,), np.dtype("f8")),)),
        (np.array([1, 2], ">i4"), np.array([1, 2], "i4"), ArraySpec((None,), np.dtype("i4"))),
        ("a\u00e4", "a\u00e4".encode(), ArraySpec((), np.dtype("S"))),
        (b"a\0", b"a\0", ArraySpec((), np.dtype("S"))),
        (bytearray(b"x"), b"x", ArraySpec((), np.dtype("S"))),
        (np.str_("q"), b"q", ArraySpec((), np.dtype("S"))),
        (np.bytes_(b"q"), b"q", ArraySpec((), np.dtype("S"))),
        (np.array("q"), b"q", ArraySpec((), np.dtype("S"))),
        ((["a", b"b\0"],), (Ragged.from_list([b"a", b"b\0"]),), (ArraySpec((None,), np.dtype("S")),)),
        (np.array(["a", "bc"]), Ragged.from_list([b"a", b"bc"]), ArraySpec((None,), np.dtype("S"))),
        (Ragged.from_list([[1], [2, 3]]), Ragged.from_list([[1], [2, 3]]), ArraySpec((None, None), np.dtype("i8"))),
        (Sparse([[1]], [7], [3]), Sparse([[1]], [7], [3]), SparseSpec((None,), np.dtype("i8"))),
        ((1, (2.0,)), (np.int64(1), (np.float64(2),)), None),
        ({"a": 1, "b": {"c": "x"}}, {"a": np.int64(1), "b": {"c": b"x"}}, None),
        (Point(1, 2.0), Point(np.int64(1), np.float64(2)), None),
        ((), (), ()),
    ],
)
@pytest.mark.parametrize("calls", [None, 2])
def test_values_become_elements(value, expected, spec, calls):
    def same(results, expected):
        # NumPy has two scalars for one dtype of 64 bits.
        assert type(results) is type(expected) or results.dtype == expected.dtype == np.uint64
        if isinstance(expected, dict):
            assert list(results) == list(expected)
            assert all(same(results[name], expected[name]) for name in expected)
        elif isinstance(expected, tuple):
            assert len(results) == len(expected)
            assert all(map(same, results, expected))
        else:
            assert plain(results) == plain(expected)
            assert getattr(results, "dtype", None) == getattr(expected, "dtype", None)
        return True

    ds = numbers(3).map(in_python(lambda x: value), calls)
    for got in ds:
        same(got, expected)
    if spec is not None:
        assert ds.element_spec == spec
    again = pickle.loads(pickle.dumps(made(ds._chain.source.inputs[0].source)))
    assert again.cardinality() == 3


def test_a_dataset_can_be_an_element():
    got = list(numbers(3).map(in_python(lambda x: numbers(int(x)))))
    assert [[plain(x) for x in one] for one in got] == [[], [0], [0, 1]]
    with pytest.raises(InvalidArgumentError, match="batch"):
        list(numbers(3).map(in_python(lambda x: numbers(int(x)))).batch(2))


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, None),
        {"a": None},
        {1, 2},
        object(),
        [object()],
        len,
        iter([1]),
        np.array("2020", "M8[D]"),
        ([[1], [1, 2]],),
        ([1, "a"],),
    ],
)
@pytest.mark.parametrize("calls", [None, 2])
def test_values_that_can_not_be_elements(value, calls):
    got, error = pulled(numbers(5).map(in_python(lambda x: value if x == 3 else 1), calls))
    assert got == [1, 1, 1]
    assert isinstance(error, InvalidArgumentError)
    assert error.record == 3
    assert "element 3" in str(error)


@pytest.mark.parametrize("calls", [None, 3])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 1.0),
        (1, [1]),
        ((1, np.zeros(1, "i8")), (1, [1])),
        (1, (1,)),
        ((1, 2), (1, 2, 3)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": b""}),
        (np.zeros(2, "f4"), np.zeros(2, "f8")),
        (b"", ["a"]),
    ],
)
def test_another_structure_than_before(before, after, calls):
    same = isinstance(after, tuple) and isinstance(after[-1], list)  # an array of the same dtype: shapes may differ
    got, error = pulled(numbers(9).map(in_python(lambda x: after if x == 5 else before), calls))
    if same:
        assert error is None
        return
    assert len(got) == 5
    assert isinstance(error, InvalidArgumentError)
    assert "another structure" in str(error)
    assert "element 5" in str(error)
    with iter(
        numbers(9).map(in_python(lambda x: after if x == 5 else before), calls).with_options(Options(on_error="skip"))
    ) as it:
        assert sum(1 for _ in it) == 8
        assert it.stats()["skipped"] == 1


def test_keys_may_come_in_any_order():
    ds = numbers(4).map(in_python(lambda x: {"a": 1, "b": 2} if x % 2 else {"b": 2, "a": 1})).batch(4)
    assert [plain(x) for x in ds] == [{"a": [1] * 4, "b": [2] * 4}]


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_batches_of_every_kind_are_as_native_ones():
    kinds = ("fixed", "string", "strings", "ragged")
    ds = made(Handed((), 50, kinds))
    through = ds.map(in_python(lambda a, b, c, d: (a, b, c, Ragged(d, [0, len(d)]))))
    for native, got in zip(ds.batch(7), through.batch(7), strict=True):
        assert plain(got[:3]) == plain(native[:3])
        assert [type(x) for x in got[:3]] == [type(x) for x in native[:3]]
        assert got[0].dtype == native[0].dtype
        assert plain(got[3]) == [[row] for row in plain(native[3])]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), count=st.integers(0, 20), first=st.integers(1, 5), second=st.integers(1, 3))
def test_batches_of_batches_are_those_of_numpy(data, count, first, second):
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    values = np.random.default_rng(count).random((count, *shape))
    rows = iter(values)
    ds = Dataset.from_generator(lambda: iter(values)).batch(first, True).batch(second)
    del rows
    full = values[: count // first * first].reshape(count // first, first, *shape)
    got = list(ds)
    assert [len(x) for x in got] == [len(full[i : i + second]) for i in range(0, len(full), second)]
    for index, one in enumerate(got):
        assert one.dtype == values.dtype
        assert one.shape == full[index * second : index * second + second].shape
        assert np.array_equal(one, full[index * second : index * second + second])


def test_ragged_and_sparse_in_batches():
    rows = [Ragged.from_list([[1], []], np.int32), Ragged.from_list([[2, 3]], np.int32)]
    (batch,) = Dataset.from_generator(lambda: rows).batch(2)
    assert batch.to_list() == [[[1], []], [[2, 3]]]
    strings = [["a", "b"], [], ["c"]]
    (batch,) = numbers(3).map(in_python(lambda x: np.array(strings[int(x)], object))).batch(3)
    assert batch.to_list() == [[b"a", b"b"], [], [b"c"]]
    sparse = [Sparse([[0, 1]], [7], [2, 2]), Sparse([[2, 0], [0, 0]], [8, 9], [3, 1])]
    (batch,) = Dataset.from_generator(lambda: sparse).batch(2)
    assert batch.to_dense().tolist() == [[[0, 7], [0, 0], [0, 0]], [[9, 0], [0, 0], [8, 0]]]


@pytest.mark.parametrize("calls", [None, 2])
def test_unequal_shapes_can_not_be_batched(calls):
    ds = numbers(9).map(in_python(lambda x: np.zeros(2 + (x == 5))), calls).batch(4)
    got, error = pulled(ds)
    assert len(got) == 1
    assert isinstance(error, InvalidArgumentError)
    assert "unequal shapes: [2] and, 1 later, [3] (batch 1)" in str(error)


@pytest.mark.parametrize("drop", [False, True])
def test_an_error_in_a_batch_comes_after_what_is_good(drop):
    def function(x):
        if x == 10:
            raise KeyError(10)
        return int(x)

    got, error = pulled(numbers(20).map(function).batch(4, drop))
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7]] + ([] if drop else [[8, 9]])
    assert isinstance(error.__cause__, KeyError)


def test_specifications_of_batches():
    ds = numbers(9).map(in_python(lambda x: {"a": 1.0, "b": b"", "c": np.zeros((2, 3), "f4")}))
    spec = ds.batch(4, True).element_spec
    assert spec["a"] == ArraySpec((4,), np.dtype("f8"))
    assert spec["b"] == ArraySpec((4,), np.dtype("S"))
    assert ds.batch(4).batch(2).element_spec["c"] == ArraySpec((None,) * 4, np.dtype("f4"))
    assert numbers(0).map(in_python(lambda x: 1)).element_spec is None


def test_the_first_element_is_made_once_for_the_specification():
    calls = []
    ds = numbers(9).map(in_python(lambda x: calls.append(int(x)) or 1), 3)
    del calls[:]  # what the tracer did
    threads_before = thread_ids()
    assert ds.element_spec == ds.element_spec == ArraySpec((), np.dtype("i8"))
    assert calls == [0]
    assert ds.batch(3).element_spec == ArraySpec((None,), np.dtype("i8"))
    assert calls == [0]
    assert soon(lambda: thread_ids() <= threads_before)


def test_native_stages_on_objects():
    lines = [b"1,2", b"3,4"]
    ds = Dataset.from_generator(lambda: lines).map(qc.ops.decode_csv(record_defaults=[np.float32, np.int32]))
    assert [plain(x) for x in ds] == [(1, 2), (3, 4)]
    assert [x.dtype for x in next(iter(ds))] == [np.float32, np.int32]
    ds = Dataset.from_generator(lambda: [{"a": np.zeros(2, "u1"), "b": 1}] * 3).map(
        qc.ops.on("a", qc.ops.cast(dtype=np.float32))
    )
    assert [plain(x) for x in ds.batch(3)] == [{"a": [[0, 0]] * 3, "b": [1, 1, 1]}]
    got, error = pulled(Dataset.from_generator(lambda: [b"1", b"x", b"2"]).map(qc.ops.decode_csv(record_defaults=[0])))
    assert got == [1]
    assert isinstance(error, qc.errors.CsvError)
    assert "element 1" in str(error)


def test_a_function_that_makes_what_can_not_be_batched_runs_in_python(tmp_path):
    (tmp_path / "a").write_bytes(b"ab\ncd\n")
    ds = qc.data.TextLineDataset(tmp_path / "a").map(lambda line: line.decode().upper())
    assert list(ds) == [b"AB", b"CD"]
    assert [plain(x) for x in ds.batch(2)] == [[b"AB", b"CD"]]


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [0, -2, 1.5, True, 2**31])
def test_bad_numbers_of_calls(calls):
    with pytest.raises(InvalidArgumentError, match="num_parallel_calls"):
        numbers(3).map(squared, calls)


def test_bad_arguments():
    with pytest.raises(InvalidArgumentError, match="map"):
        numbers(3).map(3)
    with pytest.raises(InvalidArgumentError, match="deterministic"):
        numbers(3).map(squared, 2, deterministic=1)
    with pytest.raises(InvalidArgumentError, match="deterministic"):
        Options(deterministic="yes")
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        numbers(3).map(squared).batch(0)
    with pytest.raises(InvalidArgumentError, match="drop_remainder"):
        numbers(3).map(squared).batch(2, 1)
    assert issubclass(DtypeError, InvalidArgumentError)


# ---- its own iterator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [None, 3])
@pytest.mark.parametrize("use", ["next", "close", "load_state_dict"])
@pytest.mark.parametrize("deep", [False, True])
def test_a_function_that_uses_its_own_iterator(calls, use, deep):
    box = []

    def function(x):
        if x == 5:
            it = box[0]
            next(it) if use == "next" else it.close() if use == "close" else it.load_state_dict(state)
        return int(x)

    def anything(x):
        return int(x)

    ds = numbers(10).map(function, calls)
    if deep:
        ds = ds.map(anything, calls).filter(in_python(lambda x: bool(x >= 0)))
    it = iter(ds)
    state = it.state_dict()
    box.append(it)
    got = []
    with pytest.raises(PipelineError) as caught:
        for x in it:
            got.append(plain(x))
    assert got == [0, 1, 2, 3, 4]
    assert isinstance(caught.value.__cause__, FailedPreconditionError)
    box.clear()


def test_it_may_go_on_after_that():
    box = []

    def function(x):
        with pytest.raises(FailedPreconditionError):
            next(box[0])
        return int(x)

    it = iter(numbers(10).map(function))
    box.append(it)
    assert [plain(x) for x in it] == list(range(10))
    box.clear()


def test_it_may_not_by_way_of_another_pipeline_either():
    box = []

    def inner(x):
        next(box[0])
        return 0

    it = iter(numbers(4).map(in_python(lambda x: [plain(y) for y in numbers(2).map(inner)])))
    box.append(it)
    with pytest.raises(PipelineError) as caught:
        next(it)
    error = caught.value
    while error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, FailedPreconditionError)
    box.clear()


def test_other_iterators_are_its_own_affair():
    shared = iter(numbers(100).map(squared))
    ds = numbers(5).map(in_python(lambda x: (plain(next(shared)), sum(plain(y) for y in numbers(4).map(squared, 2)))))
    assert [plain(x) for x in ds] == [(x * x, 14) for x in range(5)]


def test_a_dataset_whose_function_iterates_over_it():
    box = []
    ds = numbers(2).map(in_python(lambda x: sum(int(y) for y in box[0])))
    box.append(ds)
    with pytest.raises(PipelineError) as caught:
        list(ds)
    error = caught.value
    while error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, FailedPreconditionError)
    assert "nested" in str(error)


def test_two_iterators_of_one_dataset():
    ds = numbers(50).map(squared, 2)
    for a, b in itertools.zip_longest(ds, ds):
        assert a == b


def test_classes():
    """Of whatever Python makes: as the elements are."""
    numbers = Dataset.range(4)
    objects = {
        "words": numbers.map(in_python(lambda x: b"x")),
        "parts": numbers.map(in_python(lambda x: {"a": (x, np.zeros(2)), "b": b"x"})),
        "batches": numbers.map(in_python(lambda x: (b"x", x))).batch(2),
        "zipped": Dataset.zip((numbers.map(in_python(lambda x: x)), numbers)),
        "windows": Dataset.zip((numbers.window(2), numbers)),
    }
    for ds in objects.values():
        element = next(iter(ds))
        for part, told in zip(_flat(element), _flat(ds.output_classes), strict=True):
            assert isinstance(part, told)
            assert told in (bytes, np.int64, np.ndarray, Ragged, Dataset)
    assert numbers.take(0).map(in_python(lambda x: x)).output_classes is object  # nobody knows


def _flat(nest):
    if isinstance(nest, dict):
        nest = tuple(nest.values())
    return [leaf for part in nest for leaf in _flat(part)] if isinstance(nest, tuple) else [nest]


# Empty lists, which have no type


def typed(element):
    """An element as plain values, with the dtypes of its arrays."""
    if isinstance(element, dict):
        return {name: typed(one) for name, one in element.items()}
    if isinstance(element, tuple):
        return tuple(map(typed, element))
    if isinstance(element, qc.Ragged):
        return element.to_list(), "bytes" if element.dtype.kind == "S" else str(element.dtype)
    return element.tolist(), str(element.dtype)


ORDERS = [[1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize(
    ("full", "dtype", "empty"),
    [(["a", "b"], "bytes", []), ([1, 2], "int64", []), ([True], "bool", []), ([[1.5], [2.5]], "float64", [])],
)
def test_an_empty_list_takes_the_type_of_other_elements(order, workers, full, dtype, empty):
    lists = [full if filled else empty for filled in order]
    values = [[word.encode() if isinstance(word, str) else word for word in words] for words in lists]
    expected = [{"w": (value, dtype), "more": ((value, dtype), ([7], "int64"))} for value in values]

    def shaped(number):
        return {"w": lists[int(number)], "more": (lists[int(number)], [7])}

    mapped = Dataset.range(len(order)).map(shaped, num_parallel_calls=workers)
    generated = Dataset.from_generator(lambda: map(shaped, range(len(order))))
    for ds in (mapped, generated):
        assert list(map(typed, ds)) == expected
        for skipped in range(len(order) + 1):  # also where an iterator begins later
            with iter(ds) as it:
                for _ in range(skipped):
                    next(it)
                state = it.state_dict()
            with iter(ds) as it:
                it.load_state_dict(state)
                assert list(map(typed, it)) == expected[skipped:]


def test_empty_lists_alone_are_numbers():
    none = ([], "float64")
    assert list(map(typed, Dataset.range(2).map(lambda _: {"w": []}))) == [{"w": none}] * 2
    assert list(map(typed, Dataset.from_generator(lambda: iter([[], []])))) == [none] * 2

    def broken():
        yield []
        raise ValueError("here")

    with iter(Dataset.from_generator(broken)) as it:
        assert typed(next(it)) == none
        with pytest.raises(PipelineError, match="here"):
            next(it)


def test_a_scan_gives_empty_lists_the_type_of_elements_before():
    ds = Dataset.range(3).scan(0, lambda state, number: (state, {"w": [] if number == 1 else [int(number)]}))
    assert list(map(typed, ds)) == [{"w": one} for one in (([0], "int64"), ([], "int64"), ([2], "int64"))]


def test_what_is_declared_decides_for_empty_lists_and_tuples():
    def listed(values, *declared):
        return list(map(typed, Dataset.from_generator(lambda: iter(values), *declared)))

    assert listed([[], [b"a"], []], bytes, (None,)) == [([], "bytes"), ([b"a"], "bytes"), ([], "bytes")]
    assert listed([(1, 2), (3, 4, 5), ()], np.int32, (None,)) == [
        ([1, 2], "int32"),
        ([3, 4, 5], "int32"),
        ([], "int32"),
    ]
    assert listed([((1, 2), [])], (np.int32, bytes), ((None,), (None,))) == [(([1, 2], "int32"), ([], "bytes"))]
    assert listed([[[], []]], bytes, (None, None)) == [([[], []], "bytes")]
    with pytest.raises(InvalidArgumentError, match="shape"):
        listed([(1, 2)], np.int32, ())


@pytest.mark.parametrize("caller", ["dense_to_ragged_batch", "bucket_by_sequence_length"])
def test_an_unknown_rank_is_an_error_of_the_function_that_was_called(caller):
    ds = Dataset.from_generator(lambda: iter([[1]]), np.int32)
    given = (len, [3], [2, 2]) if caller == "bucket_by_sequence_length" else (2,)
    with pytest.raises(InvalidArgumentError, match=f"^{caller}: nobody knows how many dimensions"):
        getattr(ds, caller)(*given)
