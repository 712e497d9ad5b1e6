"""Steps that are combinations of others, and what makes one value of a dataset."""

import functools

import numpy as np
import pytest
from helpers.data.chains import run, write_files
from helpers.models.oracle import assert_same
from helpers.process import open_descriptors, soon, thread_ids
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import AUTOTUNE, Dataset, FixedLengthRecordDataset, Options, TextLineDataset
from queuecore.errors import DtypeError, InvalidArgumentError, PipelineError

TO_FLOAT = qc.ops.cast(dtype=np.float32)


@pytest.fixture
def ds(tmp_path):
    """The numbers from 0 to 9."""
    return FixedLengthRecordDataset(write_files(tmp_path, [bytes(range(10))]), record="u1")


# -- reduce ------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.binary(max_size=40), initial=st.integers(-(2**40), 2**40))
def test_reduce_is_functools(tmp_path_factory, values, initial):
    ds = FixedLengthRecordDataset(write_files(tmp_path_factory.mktemp("reduce"), [values]), record="u1")

    def step(state, element):
        return state * 3 % 1_000_003 - int(element)

    result = ds.reduce(np.int64(initial), step)
    assert type(result) is np.int64
    assert result == functools.reduce(step, values, initial)


@pytest.mark.parametrize(
    "initial",
    [
        0,
        1.5,
        True,
        b"a\0",
        np.float16(2),
        [1, 2],
        (1, {"a": b"", "b": np.arange(3)}),
        {},
        (),
        np.zeros((2, 0), "u1"),
        "x",
    ],
)
def test_of_no_elements_the_initial_state(ds, initial):
    def step(state, element):
        raise AssertionError

    def same(results, expected):
        if isinstance(expected, dict):
            return results.keys() == expected.keys() and all(same(results[key], expected[key]) for key in expected)
        if isinstance(expected, tuple):
            return len(results) == len(expected) and all(map(same, results, expected))
        if isinstance(expected, bytes):
            return results == expected
        return results.dtype == np.asarray(expected).dtype and np.array_equal(results, expected)

    assert same(ds.take(0).reduce(initial, step), initial)


def test_the_state_is_numpys_before_the_first_call(ds):
    # 0 + np.uint8 would be an uint8, and soon too small.
    assert ds.repeat(20).reduce(0, lambda state, x: state + x) == 20 * 45
    seen = []
    ds.take(1).reduce(([1, 2], {"a": 1.0}), lambda state, x: seen.append(state) or state)
    (state,) = seen  # the trace ended before it could be seen
    assert type(state[0]) is np.ndarray
    assert type(state[1]["a"]) is np.float64


def test_shapes_may_change(ds):
    result = ds.batch(4).reduce(np.zeros(0, np.uint8), lambda state, batch: np.concatenate([state, batch]))
    assert result.tolist() == list(range(10))
    assert result.dtype == np.uint8


def test_strings_may_grow(tmp_path):
    (path,) = write_files(tmp_path, [b"to\nbe\n\0\n"])
    assert TextLineDataset(path).reduce(b"", lambda state, line: state + line) == b"tobe\0"
    assert TextLineDataset(path).reduce(("",), lambda state, line: (state[0] + "x",)) == ("xxx",)
    rows = TextLineDataset(path).batch(2).reduce(qc.Ragged.from_list([b"x"]), lambda state, batch: batch)
    assert list(rows) == [b"\0"]


def test_structured_states_and_elements(tmp_path):
    record = np.dtype([("a", "u1"), ("b", "<i2")])
    rows = np.array([(1, 10), (2, 20), (3, 30)], record)
    ds = FixedLengthRecordDataset(write_files(tmp_path, [rows.tobytes()]), record=record)
    result = ds.reduce(
        {"n": 0, "sums": (0, 0.0)},
        lambda state, row: {
            "sums": (state["sums"][0] + int(row["a"]), state["sums"][1] + row["b"]),
            "n": state["n"] + 1,
        },
    )
    assert result == {"n": 3, "sums": (6, 60.0)}


@pytest.mark.parametrize(
    ("initial", "made"),
    [
        (0, lambda: np.int32(1)),
        (0, lambda: 1.0),
        (np.uint8(0), lambda: np.int64(0)),
        (np.float32(0), lambda: np.float64(0)),
        (0j, lambda: np.float64(0)),
        (0, lambda: b"a"),
        (b"a", lambda: 0),
        (b"a", lambda: "a"),
        (False, lambda: 1),
        (0, lambda: (0,)),
        (0, lambda: {"a": 0}),
        ((0, 0), lambda: (0,)),
        ((0, 0), lambda: [0, 0]),
        ((0, 0), lambda: 0),
        ({"a": 0}, lambda: {"b": 0}),
        ({"a": 0}, lambda: {"a": 0, "b": 0}),
        ({"a": 0}, lambda: None),
        ({"a": (0, np.int8(0))}, lambda: {"a": (0, np.int16(0))}),
        (0, lambda: None),
        (np.zeros(1, "S1"), lambda: qc.Ragged.from_list([b"a"])),
    ],
)
def test_the_state_keeps_its_type(ds, initial, made):
    with pytest.raises(DtypeError) as caught:
        ds.reduce(initial, lambda state, x: made())
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("initial", "made"), [(np.int32(0), 5), (np.uint8(0), True), (np.float16(0), 7), (np.float32(0), 0.5), (0j, 1.5)]
)
def test_pythons_numbers_take_the_states_dtype(ds, initial, made):
    result = ds.reduce(initial, lambda state, x: made)
    assert result.dtype == initial.dtype if hasattr(initial, "dtype") else np.complex128
    assert result == made


def test_numbers_that_do_not_fit(ds):
    for made in (256, -1, 2**70):
        with pytest.raises(InvalidArgumentError):
            ds.reduce(np.uint8(0), lambda state, x, made=made: made)
    with pytest.raises(InvalidArgumentError):
        ds.reduce([[1], [1, 2]], lambda state, x: state)
    with pytest.raises(InvalidArgumentError):
        ds.reduce(0, lambda state, x: [[1], [1, 2]])


@pytest.mark.parametrize("error", [KeyError("k"), StopIteration(7), InvalidArgumentError("mine"), GeneratorExit()])
def test_a_function_that_raises(ds, error):
    before, descriptors = thread_ids(), open_descriptors()

    def step(state, element):
        if element == 3:
            raise error
        return state

    with pytest.raises(PipelineError, match=f"step raised {type(error).__name__}") as caught:
        ds.repeat().reduce(0, step)
    assert caught.value.__cause__ is error
    assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: open_descriptors() <= descriptors)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_those_come_out_as_they_are(ds, error):
    before = thread_ids()

    def step(state, element):
        raise error

    with pytest.raises(type(error)) as caught:
        ds.repeat().reduce(0, step)
    assert caught.value is error
    assert soon(lambda: thread_ids() <= before)


def test_errors_of_the_data_come_out_after_the_good_elements(tmp_path):
    paths = write_files(tmp_path, [b"abc"])
    seen = []
    with pytest.raises(qc.errors.NotFoundError):
        FixedLengthRecordDataset([*paths, tmp_path / "missing"], record="u1").reduce(
            0, lambda state, x: seen.append(int(x)) or state
        )
    assert seen == list(b"abc")


def test_reduce_takes_a_callable(ds):
    with pytest.raises(InvalidArgumentError):
        ds.reduce(0, None)


# -- one element -------------------------------------------------------------------------------------------------------


def test_the_only_element(ds):
    before = thread_ids()
    assert ds.skip(9).get_single_element() == 9
    assert ds.batch(10).get_single_element().tolist() == list(range(10))
    for bad in (ds.take(0), ds, ds.take(2), ds.repeat()):
        with pytest.raises(InvalidArgumentError, match="Dataset (was empty|had more than one element)"):
            bad.get_single_element()
    assert soon(lambda: thread_ids() <= before)


# -- combinations ------------------------------------------------------------------------------------------------------


def test_apply(ds):
    datasets = []

    def twice(given):
        datasets.append(given)
        return given.repeat(2)

    made = ds.apply(twice)
    assert datasets == [ds]
    assert isinstance(made, Dataset)
    assert [int(x) for x in made] == [*range(10), *range(10)]
    for bad in (lambda given: None, lambda given: [1], iter, 3, None):
        with pytest.raises(InvalidArgumentError):
            ds.apply(bad)
    with pytest.raises(ZeroDivisionError):
        ds.apply(lambda given: 1 // 0)


def test_options(ds):
    assert ds.options() == Options()
    with_two = ds.with_options(Options(num_threads=2)).batch(3).with_options(Options(max_leases=7))
    assert with_two.options() == Options(num_threads=2, max_leases=7)
    assert ds.options() == Options()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(buffer=st.integers(1, 15), count=st.integers(0, 4), seed=st.integers(0, 2**40))
def test_shuffle_and_repeat(ds, buffer, count, seed):
    expected, _ = run(ds.shuffle(buffer, seed).repeat(count))
    assert_same(run(ds.shuffle_and_repeat(buffer, count, seed))[0], expected)
    assert_same(run(ds.apply(qc.data.shuffle_and_repeat(buffer, count=count, seed=seed)))[0], expected)


def test_shuffle_and_repeat_without_end(ds):
    got, _ = run(ds.shuffle_and_repeat(100, seed=1), 30)
    assert [sorted(map(int, got[at : at + 10])) for at in (0, 10, 20)] == [list(range(10))] * 3
    for bad in ({"buffer_size": 0}, {"buffer_size": 1, "count": -2}, {"buffer_size": 1, "seed": "a"}):
        with pytest.raises(InvalidArgumentError):
            ds.shuffle_and_repeat(**bad)
        with pytest.raises(InvalidArgumentError):
            ds.apply(qc.data.shuffle_and_repeat(**bad))


@pytest.mark.parametrize("parallel", [{}, {"num_parallel_batches": 3}, {"num_parallel_calls": AUTOTUNE}])
@pytest.mark.parametrize("drop", [False, True])
def test_map_and_batch(ds, drop, parallel):
    expected, _ = run(ds.map(TO_FLOAT).batch(4, drop_remainder=drop))
    assert len(expected) == (2 if drop else 3)
    for made in (
        ds.map_and_batch(TO_FLOAT, 4, drop_remainder=drop, **parallel),
        ds.apply(qc.data.map_and_batch(TO_FLOAT, 4, drop_remainder=drop, **parallel)),
    ):
        assert_same(run(made)[0], expected)
        assert made.element_spec == ds.map(TO_FLOAT).batch(4, drop).element_spec


@pytest.mark.parametrize(
    "bad",
    [
        {"num_parallel_batches": 2, "num_parallel_calls": 2},
        {"num_parallel_batches": 0},
        {"num_parallel_batches": -1},
        {"num_parallel_batches": 1.0},
        {"num_parallel_calls": 0},
        {"num_parallel_calls": -2},
        {"batch_size": 0},
        {"batch_size": "4"},
        {"drop_remainder": 1},
    ],
)
def test_bad_arguments_of_map_and_batch(ds, bad):
    arguments = {"map_func": TO_FLOAT, "batch_size": 4, **bad}
    with pytest.raises(InvalidArgumentError):
        ds.map_and_batch(**arguments)
    with pytest.raises(InvalidArgumentError):
        ds.apply(qc.data.map_and_batch(**arguments))


@pytest.mark.parametrize("calls", [None, AUTOTUNE, 1, 2, np.int64(3), 5000])
@pytest.mark.parametrize("deterministic", [None, True, False])
def test_parallel_calls_never_change_what_comes(ds, calls, deterministic):
    expected, _ = run(ds.map(TO_FLOAT))
    assert_same(run(ds.map(TO_FLOAT, calls, deterministic))[0], expected)
    assert_same(run(ds.map(TO_FLOAT, num_parallel_calls=calls, deterministic=deterministic))[0], expected)


def test_bad_arguments_of_map(ds):
    for bad in (0, -2, 1.0, True, "2", 2**40):
        with pytest.raises(InvalidArgumentError):
            ds.map(TO_FLOAT, num_parallel_calls=bad)
    for bad in (0, "no", 1.5):
        with pytest.raises(InvalidArgumentError):
            ds.map(TO_FLOAT, deterministic=bad)


def test_map_and_batch_leaves_the_function_to_map(ds):
    with pytest.raises(InvalidArgumentError):
        ds.map_and_batch(object(), 2)
