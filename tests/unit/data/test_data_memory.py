"""Datasets of what is in memory: arrays, strings, ragged rows, numbers; and of the names of files."""

import json
import pickle

import numpy as np
import pytest
from helpers.data.transformed import check, run, stops_at_once, values
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as npst

import queuecore as qc
from queuecore.data import Dataset, Options
from queuecore.errors import DtypeError, InvalidArgumentError, ResumeMismatchError
from queuecore.ragged import Ragged

DTYPES = ["?", "i1", "u1", "<i2", ">i2", "u4", "i8", ">u8", "f2", "<f4", ">f8", "c8", ">c16"]


@given(
    npst.arrays(
        st.sampled_from(DTYPES).map(np.dtype), npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
    )
)
@settings(max_examples=60, deadline=None)
def test_slices_are_rows_of_the_array(array):
    native = array.astype(array.dtype.newbyteorder("="))
    ds = Dataset.from_tensor_slices(array)
    assert ds.element_spec == qc.data.ArraySpec(native.shape[1:], native.dtype)
    assert len(ds) == len(array)
    got = list(ds)
    assert len(got) == len(array)
    for one, row in zip(got, native, strict=True):
        assert one.dtype == native.dtype
        np.testing.assert_array_equal(one, row)
    if len(array):
        np.testing.assert_array_equal(np.concatenate([one.copy() for one in ds.batch(2)]), native)


@given(st.lists(st.binary(max_size=6)))
@settings(max_examples=40, deadline=None)
def test_strings_keep_their_zeros(strings):
    assert list(Dataset.from_tensor_slices(np.array([*strings, b""], object))) == [*strings, b""]
    if strings:
        assert list(Dataset.from_tensor_slices(strings)) == strings
        assert list(Dataset.from_tensor_slices(Ragged.from_list(strings))) == strings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([b"a", b"bcd"]), [b"a", b"bcd"]),
        (np.array(["ä", "b"]), ["ä".encode(), b"b"]),
        (["x", b"y"], [b"x", b"y"]),
        ([[b"a", b"bb"], [b"", b"c\0"]], [[b"a", b"bb"], [b"", b"c\0"]]),
        (np.array([], "S3"), []),
        (Ragged(Ragged.from_list([b"a", b"", b"c"]), [0, 1, 1, 3]), [[b"a"], [], [b"", b"c"]]),
        (Ragged.from_list([[1], [], [2, 3]], "i4"), [[1], [], [2, 3]]),
        (Ragged(np.arange(8.0).reshape(4, 2), [0, 3, 4]), [[[0, 1], [2, 3], [4, 5]], [[6, 7]]]),
        ([1, 2.5], [1.0, 2.5]),
        ([], []),
        (np.arange(12).reshape(6, 2)[::-2], [[10, 11], [6, 7], [2, 3]]),
        (np.array([(1, (2, 3)), (4, (5, 6))], [("a", ">i4"), ("b", "u1", 2)]),
         [{"a": 1, "b": [2, 3]}, {"a": 4, "b": [5, 6]}]),
        (({"a": [1, 2]}, (["p", "q"], [[0.0], [1.0]])), [({"a": 1}, (b"p", [0.0])), ({"a": 2}, (b"q", [1.0]))]),
    ],
)  # fmt: skip
def test_what_slices_can_be_of(given, expected):
    check(lambda: Dataset.from_tensor_slices(given), expected, values)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, ("int64", (), 3)),
        (2.5, ("float64", (), 2.5)),
        ([1, 2], ("int64", (2,), [1, 2])),
        ("é", "é".encode()),
        ([b"a", b"b\0"], ("ragged", "|S0", [b"a", b"b\0"])),
        (True, ("bool", (), True)),
        (np.zeros((2, 0), "f4"), ("float32", (2, 0), [[], []])),
        (({"a": 1}, b"x"), ({"a": ("int64", (), 1)}, b"x")),
        (Ragged.from_list([[1], [2, 3]]), ("ragged", "int64", [[1], [2, 3]])),
        ((Ragged.from_list([b"q"]), ["a", "b"]), (("ragged", "|S0", [b"q"]), ("ragged", "|S0", [b"a", b"b"]))),
    ],
)
def test_one_element(given, expected):
    assert len(Dataset.from_tensors(given)) == 1
    check(lambda: Dataset.from_tensors(given), [expected])


@pytest.mark.parametrize("value", [1, b"x", np.float32(1), (), {}, ([1, 2], 3), ([1, 2], [1]), [[1], [1, 2]]])
def test_what_has_no_slices(value):
    with pytest.raises(InvalidArgumentError):
        Dataset.from_tensor_slices(value)


@pytest.mark.parametrize(
    "value",
    [[None], [object()], [b"a", 1], np.array(["2020-01-01"], "M8[D]")],
)
def test_what_is_no_array(value):
    with pytest.raises(DtypeError):
        Dataset.from_tensor_slices(value)
    with pytest.raises(DtypeError):
        Dataset.from_tensors(value)
    with pytest.raises(DtypeError):
        Dataset.from_tensor_slices(Dataset.range(3))


def test_arrays_that_can_change_are_copied():
    array, ragged = np.arange(3), Ragged.from_list([[1], [2], [3]])
    words = Ragged.from_list([b"a", b"b", b"c"])
    ds = Dataset.from_tensor_slices((array, ragged, words))
    one = Dataset.from_tensors((array, ragged))
    array[:] = ragged.values[:] = 9
    assert run(ds, values) == [(0, [1], b"a"), (1, [2], b"b"), (2, [3], b"c")]
    assert run(one, values) == [([0, 1, 2], [[1], [2], [3]])]


def test_arrays_that_cannot_change_are_not(tmp_path):
    np.arange(1000, dtype="u2").tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", "u2", "r")
    ds = Dataset.from_tensor_slices(mapped)
    assert np.shares_memory(ds._chain.source.rows.columns[0], mapped)
    np.testing.assert_array_equal(next(iter(ds.batch(1000))), np.arange(1000))


def test_elements_do_not_lead_to_the_arrays():
    array = np.arange(4)
    ds = Dataset.from_tensor_slices(array)
    next(iter(ds.batch(4)))[:] = 7
    assert run(ds, values) == [0, 1, 2, 3]


def test_a_state_tells_data_apart():
    def state(data):
        with iter(Dataset.from_tensor_slices(data)) as it:
            next(it)
            return json.loads(json.dumps(it.state_dict()))

    base = {"a": np.arange(4), "b": ["x", "y", "z", ""]}
    others = [
        {"a": np.array([0, 1, 2, 4]), "b": base["b"]},
        {"a": np.arange(4), "b": ["x", "y", "", "z"]},
        {"a": np.arange(4), "b": ["xy", "", "z", ""]},
        {"a": np.arange(4, dtype="i4"), "b": base["b"]},
        {"a": np.arange(5), "b": [*base["b"], ""]},
    ]
    with iter(Dataset.from_tensor_slices(base)) as it:
        it.load_state_dict(state({"a": [0, 1, 2, 3], "b": np.array([b"x", b"y", b"z", b""])}))
        assert values(next(it)) == {"a": 1, "b": b"y"}
        for other in others:
            with pytest.raises(ResumeMismatchError):
                it.load_state_dict(state(other))


def test_a_pickled_copy():
    ds = Dataset.from_tensor_slices((np.arange(5), ["a", "b", "c", "d", "e"])).skip(1).batch(2)
    assert run(pickle.loads(pickle.dumps(ds)), values) == run(ds, values)


def test_stages_work_on_what_is_in_memory():
    ds = Dataset.from_tensor_slices(Ragged(np.arange(6, dtype="i4").reshape(3, 2), [0, 0, 2, 3]))
    got = run(ds.map(qc.ops.cast(dtype=np.float64)))
    assert got == [("float64", (0, 2), []), ("float64", (2, 2), [[0, 1], [2, 3]]), ("float64", (1, 2), [[4, 5]])]
    words = Dataset.from_tensor_slices(["1,2", "3,4"])
    assert run(words.map(qc.ops.decode_csv(record_defaults=[np.int32, np.int32])), values) == [(1, 2), (3, 4)]
    named = Dataset.from_tensor_slices({"x": [1.5], "y": ["p"]})
    assert run(named.map(qc.ops.on("x", qc.ops.cast(dtype=np.int32))), values) == [{"x": 1, "y": b"p"}]


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-7, 7).filter(bool))
@settings(max_examples=50, deadline=None)
def test_range_is_pythons(start, stop, step):
    ds = Dataset.range(start, stop, step)
    assert [int(one) for one in ds] == list(range(start, stop, step))
    assert len(ds) == len(range(start, stop, step))


def test_range_everywhere():
    check(lambda: Dataset.range(9, -5, -3), [9, 6, 3, 0, -3], values)
    check(lambda: Dataset.range(0), [], values)
    assert run(Dataset.range(3, output_type=">f4")) == [("float32", (), float(n)) for n in range(3)]
    long = 2**63
    assert [int(one) for one in Dataset.range(-long, long - 1, 2**61)] == list(range(-long, long - 1, 2**61))
    assert int(next(iter(Dataset.range(10**7).skip(10**7 - 1)))) == 10**7 - 1
    np.testing.assert_array_equal(
        np.concatenate([one.copy() for one in Dataset.range(200_001).batch(999)]), np.arange(200_001)
    )


@pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4), (1, 2, 0), (2.5,), ("a",), (2**63,), (True,)])
def test_bad_ranges(arguments):
    with pytest.raises(InvalidArgumentError):
        Dataset.range(*arguments)


def test_bad_output_types():
    with pytest.raises(InvalidArgumentError):
        Dataset.range(300, output_type="u1")
    with pytest.raises(InvalidArgumentError):
        Dataset.range(-1, 1, output_type="u8")
    for bad in ("S3", bool, complex, "nonsense"):
        with pytest.raises(DtypeError):
            Dataset.range(3, output_type=bad)


def test_dropped_iterators_stop():
    stops_at_once(Dataset.range(10**9).batch(10), 3)
    stops_at_once(Dataset.from_tensors(Ragged.from_list([[1]])).repeat(), 3)


def test_options_go_on():
    assert Dataset.range(3).with_options(Options(num_threads=3)).enumerate()._chain.options == Options(num_threads=3)


def test_names_of_files(tmp_path):
    for name in ("b", "a", "c.txt", "d.txt"):
        (tmp_path / name).write_text(name)
    folder = str(tmp_path)

    def names(pattern):
        ds = Dataset.list_files(pattern, shuffle=False)
        return [one.decode().removeprefix(folder + "/") for one in ds]

    assert names(folder + "/*") == ["a", "b", "c.txt", "d.txt"]
    assert names([folder + "/*.txt", (tmp_path / "?").as_posix().encode(), tmp_path / "a"]) == [
        "a",
        "a",
        "b",
        "c.txt",
        "d.txt",
    ]
    check(lambda: Dataset.list_files(folder + "/?", shuffle=False), [f"{folder}/a".encode(), f"{folder}/b".encode()])
    for pattern in (folder + "/none*", [], [folder + "/x"], "a\0b", 3):
        with pytest.raises(InvalidArgumentError):
            Dataset.list_files(pattern, shuffle=False)
    with pytest.raises(InvalidArgumentError):
        Dataset.list_files(folder + "/*", shuffle=1)
    shuffled = Dataset.list_files(folder + "/*", seed=3)
    assert [op.describe() for op in shuffled._chain.steps] == [["shuffle", 4, True]]
