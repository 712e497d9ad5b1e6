"""Functions of reduce that are traced: folded natively, with the state that a loop in Python ends with."""

import functools
import warnings

import numpy as np
import pytest
from helpers.data.chains import THREADS, threads, write_files
from helpers.formats.example_messages import example, feature
from helpers.formats.tfrecords import stream
from helpers.process import interrupted_in, open_descriptors, soon, thread_ids
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore._core.stream.describe import FIXED
from queuecore._core.stream.fold import Fold
from queuecore._elements.component import Component
from queuecore._trace.trace import trace
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.data._nodes import reduce as _reduce
from queuecore.errors import DtypeError, InvalidArgumentError, PipelineError

CODES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


@pytest.fixture
def native(monkeypatch):
    """Counts the folds, each of which does without Python."""
    folds = []

    def counted(*arguments):
        folds.append(arguments[-1])
        return folded(*arguments)

    folded = _reduce._folded
    monkeypatch.setattr(_reduce, "_folded", counted)
    return folds


def leaves(state):
    if isinstance(state, dict):
        return [one for key in sorted(state) for one in leaves(state[key])]
    if isinstance(state, tuple):
        return [one for inner in state for one in leaves(inner)]
    return [np.asarray(state)]


def same(got, expected):
    assert type(got) is type(expected)
    for one, other in zip(leaves(got), leaves(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes(), (one, other)


def looped(function, initial, elements):
    """What NumPy makes of it; a number that the function returns of Python's own has the state's dtype."""
    state = initial
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for element in elements:
            made = function(state, element)
            state = np.asarray(made, np.asarray(state).dtype)[()] if type(made) in (bool, int, float) else made
    return state


def numbers(code, shape, seed):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(code)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "f":
        pool = np.array([0.0, -0.0, 1.5, -2.25, 1e-3, 7e4, 3e38, np.inf])
        plain = rng.normal(0, 5, shape)
        with np.errstate(all="ignore"):
            return np.where(rng.random(shape) < 0.1, pool[rng.integers(0, len(pool), shape)], plain).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -100), min(limits.max, 100), shape, np.int64).astype(dtype)


# -- any function ------------------------------------------------------------------------------------------------------

BINARY = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.true_divide, np.floor_divide, np.remainder]
UNARY = [np.negative, np.absolute, np.sqrt, np.square, np.floor, np.sign]


@st.composite
def functions(draw):
    """A function of numbers: what it reads, the operations, and to which of the state's parts each result goes."""
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.sampled_from(BINARY), st.integers(0, 9), st.integers(0, 9)),
                st.tuples(st.sampled_from(UNARY), st.integers(0, 9)),
                st.tuples(st.just("where"), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
                st.tuples(st.just("less"), st.integers(0, 9), st.integers(0, 9)),
            ),
            min_size=1,
            max_size=7,
        )
    )
    constants = draw(st.lists(st.sampled_from([0, 1, 3, -2, 0.5, True]), max_size=2))
    parts = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=3))
    element = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=2))
    indices = draw(st.lists(st.integers(0, 99), min_size=len(parts), max_size=len(parts)))

    def function(state, given):
        values = [*state, *given, *constants]
        for step, *at in steps:
            operands = [values[index % len(values)] for index in at]
            if step == "where":
                made = np.where(operands[0] > 0, operands[1], operands[2])
            elif step == "less":
                made = operands[0] < operands[1]
            else:
                made = step(*operands)
            values.append(made)
        results = []
        for code, index in zip(parts, indices, strict=True):
            value = values[index % len(values)]
            dtype = np.dtype(code)
            if type(value) in (bool, int, float):
                value = state[len(results)]
            elif value.dtype != dtype:
                # Of a float that fits into no integer, NumPy promises nothing.
                value = state[len(results)] if value.dtype.kind == "f" and dtype.kind in "iu" else value.astype(dtype)
            results.append(value)
        return tuple(results)

    return function, parts, element


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(
    made=functions(),
    shapes=st.sampled_from([((), ()), ((3,), (3,)), ((3,), ()), ((), (2, 1)), ((2, 1), (3,)), ((2, 3), (3,))]),
    count=st.integers(0, 20),
    seed=st.integers(0, 999),
)
def test_any_function_is_a_loop(made, shapes, count, seed):
    function, parts, codes = made
    shape, each = shapes
    elements = tuple(numbers(code, (count, *each), seed + index) for index, code in enumerate(codes))
    initial = tuple(numbers(code, shape, seed + 10 + index)[()] for index, code in enumerate(parts))
    ds = Dataset.from_tensor_slices(elements)
    rows = [tuple(array[row] for array in elements) for row in range(count)]
    try:
        expected = looped(function, initial, rows)
    except (TypeError, OverflowError, ValueError):  # no such function of NumPy's; no room for a constant; no broadcast
        with np.errstate(all="ignore"), pytest.raises(PipelineError):
            ds.reduce(initial, function)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = ds.reduce(initial, function)
    same(tuple(np.asarray(one)[()] for one in got), tuple(np.asarray(one)[()] for one in expected))


# -- what is native ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("code", CODES[1:])
def test_sums_in_their_order(native, workers, code):
    # More than one chunk; of floats, any other order gives another sum.
    values = numbers(code, 40_000, 1) if code[0] != "f" else np.random.default_rng(1).normal(0, 1, 40_000).astype(code)
    got = threads(Dataset.from_tensor_slices(values), workers).reduce(np.dtype(code).type(0), lambda s, x: s + x)
    same(got, np.cumsum(values, dtype=code)[-1])
    assert len(native) == 1


def test_states_and_elements_of_any_structure(native):
    ds = Dataset.range(100).map(lambda n: {"n": n, "xy": (n * 2, n / 4)})
    initial = {"count": 0, "sums": (0, 0.0), "last": np.arange(3)}

    def step(state, element):
        state["count"] += 1
        x, y = element["xy"]
        return {  # in another order
            "sums": (state["sums"][0] + x, state["sums"][1] * 0.5 + y),
            "last": np.where(state["count"] % 2 == 0, state["last"] + element["n"], state["last"]),
            "count": state["count"],
        }

    got = ds.reduce(initial, step)
    assert list(got) == list(initial)
    rows = [{"n": n, "xy": (np.int64(2 * n), np.float64(n / 4))} for n in np.arange(100)]
    start = {"count": np.int64(0), "sums": (np.int64(0), np.float64(0)), "last": np.arange(3)}
    expected = functools.reduce(lambda state, row: step(dict(state), row), rows, start)
    same(got, {key: expected[key] for key in initial})
    assert initial["last"].tolist() == [0, 1, 2]
    assert len(native) == 1


def test_parts_that_change_places(native):
    got = Dataset.range(91).reduce((0, 1), lambda state, _: (state[1], state[0] + state[1]))
    a, b = 0, 1
    for _ in range(91):
        a, b = b, (a + b + 2**63) % 2**64 - 2**63
    assert tuple(map(int, got)) == (a, b)
    turn = lambda s, x: (s[2], s[2], s[0])  # noqa: E731
    same(Dataset.range(5).reduce((1, 2, 3), turn), looped(turn, (np.int64(1), np.int64(2), np.int64(3)), range(5)))
    same(Dataset.range(3).reduce(5, lambda state, x: state), np.int64(5))
    same(Dataset.range(3).reduce(5, lambda state, x: x), np.int64(2))
    same(Dataset.range(3).reduce(np.float32(5), lambda state, x: 7), np.float32(7))
    assert len(native) == 5


def test_shapes_that_become_what_they_stay(native):
    rows = np.random.default_rng(0).normal(0, 1, (50, 4, 3)).astype(np.float32)
    ds = Dataset.from_tensor_slices(rows)
    same(ds.reduce(np.float32(0), lambda s, x: s + x), np.cumsum(rows, axis=0)[-1])
    same(ds.take(1).reduce(np.float32(0), lambda s, x: s + x), rows[0])
    same(ds.take(0).reduce(np.float32(0), lambda s, x: s + x), np.float32(0))
    # First a number, then one dimension, then two.
    chain = lambda s, x: (s[1], s[1] + x)  # noqa: E731
    for n in range(5):
        expected = looped(chain, (np.float32(0), np.zeros(3, np.float32)), rows[:n])
        same(ds.take(n).reduce((np.float32(0), np.zeros(3, np.float32)), chain), expected)
    assert len(native) == 8
    got = ds.take(9).reduce(np.zeros(1, np.float32), lambda s, x: s[None])  # on and on
    assert got.shape == (1,) * 10
    assert len(native) == 8


def test_a_list_is_one_array(native):
    got = Dataset.range(10).reduce([0, 1], lambda state, x: [state[0] + x, state[1] * 2])
    assert got.tolist() == [45, 1024]
    assert got.dtype == np.int64
    assert len(native) == 1


def test_elements_of_any_length(native, tmp_path):
    lines = [b"%d,%s" % (n, b"x" * (n % 7)) for n in range(5000)]
    (path,) = write_files(tmp_path, [b"\n".join(lines) + b"\n"])
    ds = TextLineDataset(path)
    got = ds.reduce(0, lambda total, line: total + qc.ops.decode_csv(line, [np.int64(0), b""])[0])
    assert got == sum(range(5000))
    got = ds.reduce(np.uint8(0), lambda last, line: qc.ops.decode_raw(line, np.uint8, fixed_length=9)[8])
    assert got == (lines[-1].ljust(9, b"\0"))[8]
    # Not all components are read: arrays of strings, rows of different lengths.
    slices = {
        "n": np.arange(9),
        "s": np.array([[b"a", b"bc"]] * 9, object),
        "r": qc.Ragged.from_list([[1.5] * n for n in range(9)]),
    }
    assert Dataset.from_tensor_slices(slices).reduce(0, lambda s, e: s * 3 + e["n"]) == functools.reduce(
        lambda s, n: s * 3 + n, range(9)
    )
    assert len(native) == 3


def test_records_of_fields(native, tmp_path):
    record = np.dtype([("a", ">i2"), ("b", [("x", "<f8", (2,)), ("y", "S3")]), ("c", ">f4", (2, 2))])
    rows = np.zeros(3000, record)
    rows["a"] = numbers("i2", 3000, 1)
    rows["b"]["x"] = numbers("i2", (3000, 2), 2)
    rows["c"] = np.random.default_rng(3).normal(0, 1, (3000, 2, 2))
    ds = FixedLengthRecordDataset(write_files(tmp_path, [rows.tobytes()]), record=record)
    results = ds.reduce(
        {"a": 0, "x": np.zeros(2), "c": np.zeros((2, 2), "f4")},
        lambda s, row: {"a": s["a"] + row["a"], "x": s["x"] + row["b"]["x"], "c": (s["c"] + row["c"]) * 0.5},
    )
    assert results["a"] == rows["a"].sum(dtype=np.int64)
    assert results["x"].tolist() == rows["b"]["x"].sum(0).tolist()
    expected = looped(lambda s, c: (s + c) * 0.5, np.zeros((2, 2), "f4"), rows["c"].astype("f4"))
    same(results["c"], expected)
    assert len(native) == 1


def test_parsed_examples(native, tmp_path):
    messages = [example(n=feature(k), v=feature(*range(k % 5), kind=np.int64), s=feature(b"x" * k)) for k in range(200)]
    (path,) = write_files(tmp_path, [stream(messages)])
    features = {
        "n": qc.ops.FixedLenFeature((), np.int64),
        "v": qc.ops.RaggedFeature(np.int64),
        "s": qc.ops.FixedLenFeature((), bytes),
    }
    ds = TFRecordDataset(path).map(qc.ops.parse_single_example(features=features))
    total = sum(range(200))
    assert ds.reduce(0, lambda state, parsed: state + parsed["n"]) == total
    for native_too in (ds.filter(lambda parsed: parsed["n"] >= 0), ds.map(lambda parsed: parsed)):
        assert "Python" not in native_too.plan()
        for got, expected in zip(native_too, ds, strict=True):
            assert got["s"] == expected["s"]
            same(got["v"], expected["v"])
    features.pop("v")
    raw = TFRecordDataset(path)
    assert raw.reduce(0, lambda s, one: s + qc.ops.parse_single_example(one, features)["n"]) == total
    assert len(native) == 2
    features["v"] = qc.ops.VarLenFeature(np.int64)  # of which a trace makes no Sparse
    assert raw.reduce(0, lambda s, one: s + qc.ops.parse_single_example(one, features)["n"]) == total
    assert len(native) == 2


def test_behind_everything(native):
    ds = Dataset.range(1000).shuffle(100, 3, False).map(lambda x: x * x % 1009).filter(lambda x: x % 3 == 1).repeat(2)
    step = lambda state, x: (state * 31 + x) % 1_000_003  # noqa: E731
    elements = [int(x) for x in ds]
    small = ds.with_options(Options(memory_budget=1 << 22))
    for one in (ds, ds.take(400), ds.skip(7), ds.prefetch(3), ds.shard(3, 1), small):
        assert one.reduce(0, step) == functools.reduce(step, [int(x) for x in one], 0)
    assert ds.reduce(0, step) == functools.reduce(step, elements, 0)
    assert len(native) == 7


def test_every_pass_of_a_shuffle_has_its_own_order(native):
    step = lambda state, x: state * 31 % 1_000_003 + x  # noqa: E731

    def made():
        return Dataset.range(50).shuffle(20, seed=5)

    one, other = made(), made()
    assert [one.reduce(0, step) for _ in range(4)] == [functools.reduce(step, map(int, other), 0) for _ in range(4)]
    assert len(native) == 4


# -- what is not -------------------------------------------------------------------------------------------------------


def branching(state, x):
    return state + x if x > 3 else state


@pytest.mark.parametrize(
    ("make", "initial", "function"),
    [
        (lambda: Dataset.range(9), 0, branching),
        (lambda: Dataset.range(9).batch(2), 0, lambda s, x: s + x.sum()),
        (lambda: Dataset.range(9).map(lambda x: np.sum(x)), 0, lambda s, x: s + x),
        (lambda: Dataset.range(9), b"", lambda s, x: s),
        (lambda: Dataset.range(9), np.zeros(2), lambda s, x: s.sum() + s),
        (lambda: Dataset.range(9), {}, lambda s, x: s),
    ],
)
def test_stays_in_python(native, make, initial, function):
    state = make().reduce(initial, function)
    expected = initial
    for x in make():
        expected = function(expected, x)
    same(state, np.asarray(expected)[()] if type(expected) is int else expected)
    assert not native


@pytest.mark.parametrize(
    ("initial", "function"),
    [
        (0, lambda s, x: s + 0.5),
        (np.uint8(0), lambda s, x: s + x),
        ((0, 0), lambda s, x: [s[0], s[1]]),
        ((0, 0), lambda s, x: (s[0],)),
        (0, lambda s, x: (s,)),
        ({"a": 0}, lambda s, x: {"b": s["a"]}),
        ({"a": 0}, lambda s, x: s["a"]),
        ((0, (0, 0)), lambda s, x: ((s[0], s[0]), 0)),
    ],
)
def test_a_state_of_another_type(native, initial, function):
    with pytest.raises(DtypeError):
        Dataset.range(3).reduce(initial, function)
    same(leaves(Dataset.range(0).reduce(initial, function)), leaves(initial))  # nobody asked
    with pytest.raises(InvalidArgumentError):
        Dataset.range(3).reduce(np.uint8(0), lambda s, x: 256)
    assert not native


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_of_the_data(native, tmp_path):
    paths = write_files(tmp_path, [b"1\n2\n3\n"])
    ds = TextLineDataset([*paths, tmp_path / "missing"]).map(lambda line: qc.ops.decode_csv(line, [0])[0])
    before, descriptors = thread_ids(), open_descriptors()
    messages = []
    for step in (lambda s, x: s + x, lambda s, x: s + int(x)):
        with pytest.raises(qc.errors.NotFoundError) as caught:
            ds.reduce(np.int32(0) if not messages else 0, step)
        messages.append((str(caught.value), caught.value.filename, caught.value.record, caught.value.stage))
    assert messages[0] == messages[1]
    assert len(native) == 1
    assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: open_descriptors() <= descriptors)


def test_errors_of_the_function(native, tmp_path):
    # The first one is that of the function, though the data fails later in the same chunk.
    (path,) = write_files(tmp_path, [b"1\n2\nx\n4\n"])
    ds = TextLineDataset([path, tmp_path / "missing"])
    messages = []
    step = lambda s, line: s + qc.ops.decode_csv(line, [np.int64(0)])[0]  # noqa: E731

    def python(state, line):
        return state if bytes(line) == b"" else step(state, line)

    for function in (step, python):
        function.__name__ = "step"
        with pytest.raises(PipelineError) as caught:
            ds.reduce(0, function)
        messages.append((str(caught.value), type(caught.value.__cause__), str(caught.value.__cause__)))
    assert [message for message, _, _ in messages] == [messages[0][0]] * 2
    assert messages[0][0] == "reduce_func step raised CsvError: Field 0 in record 0 is not a valid int64: x"
    assert messages[0][1] is messages[1][1] is qc.errors.CsvError
    assert len(native) == 1
    assert ds.take(2).reduce(0, step) == 3


def test_skipped_elements_are_not_there(native, tmp_path):
    (path,) = write_files(tmp_path, [b"1\n2\nx\n4\n"])
    ds = TextLineDataset(path).map(lambda line: qc.ops.decode_csv(line, [np.int64(0)])[0])
    assert ds.with_options(Options(on_error="skip")).reduce(0, lambda s, x: s * 10 + x) == 124
    assert len(native) == 1


def test_numpys_warnings_do_not_come(native):
    # As of every traced function; pytest makes errors of warnings.
    assert Dataset.range(3).reduce(np.int8(100), lambda s, x: s + s) == np.int8(32)
    assert Dataset.range(3).reduce(7, lambda s, x: s // x) == 0
    assert len(native) == 2


# -- the native class --------------------------------------------------------------------------------------------------


def _step(function, *components):
    found = trace(function, components, tuple(range(len(components))))
    return found.stage.bind(components)


def test_folds_that_do_not_fit():
    number, row = Component(np.dtype("i8"), ()), Component(np.dtype("i8"), (2,))
    step = _step(lambda s, x: s + x, number, number)
    columns = [(FIXED, np.dtype("i8"), ())]
    for state, of in (
        ([np.int64(0)], columns * 2),
        ([], columns),
        ([np.zeros((), "i4")], columns),
        ([np.zeros(1, "i8")], columns),
    ):
        with pytest.raises(ValueError):
            Fold(step, state, of)
    fold = Fold(step, [np.zeros((), "i8")], columns)
    with pytest.raises(ValueError):
        fold.run([], 0, 0)
    with pytest.raises(TypeError):
        fold.__init__(step, [np.zeros((), "i8")], columns)
    values = np.arange(5)
    fold.run([values], 1, 4)
    assert [one.tolist() for one in fold.state] == [6]
    growing = Fold(_step(lambda s, x: s + x, number, row), [np.zeros((), "i8")], [(FIXED, np.dtype("i8"), (2,))])
    with pytest.raises(ValueError):
        growing.run([values[:4].reshape(2, 2)], 0, 2)
    growing.run([values[:4].reshape(2, 2)], 1, 2)
    assert growing.state[0].tolist() == [2, 3]
    with pytest.raises(ValueError):
        growing.run([values[:4].reshape(2, 2)], 0, 1)


def test_interrupted(native):
    endless = Dataset.range(1000).repeat()
    with interrupted_in("_folded"):
        endless.reduce(0, lambda s, x: s + x)
    assert len(native) == 1


def test_calls_once_for_each_shape():
    calls = []

    def step(state, x):
        calls.append(state)
        return state + x

    # A trace ends before a function keeps what it was called with, and Python calls it for each element.
    assert Dataset.range(4).reduce(0, step) == 6
    assert calls == [0, 0, 1, 3]
