"""`random`, `from_list`, `rebatch` with several sizes, `sparse_batch`, `assert_cardinality`, `at` and others.

Where nothing else is said, values are those that TensorFlow 2.21 gives for the same datasets.
"""

import itertools

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.data.transformed import check, run, values

from queuecore import TFRecordWriter, set_random_seed
from queuecore.data import (
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    ArraySpec,
    Dataset,
    Optional,
    SparseSpec,
    TFRecordDataset,
    experimental,
)
from queuecore.errors import (
    DataLossError,
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from queuecore.ragged import Sparse

INT64 = np.dtype(np.int64)
FOUR = [3128586565, 2023892699, 452966358, 4293674553, 1485036815, 119868753, 232524883, 2372637314]


def test_random_numbers_are_tensorflow_s():
    check(lambda: Dataset.random(seed=4).take(8), FOUR, values)
    ds = Dataset.random(seed=4, rerandomize_each_iteration=True).take(4)
    assert [run(ds, values) for _ in range(3)] == [
        [1905554911, 4215726141, 1283758208, 718972942],
        [1683472663, 2279948892, 2709632186, 3691818177],
        [3140632116, 4291497019, 3066576932, 1800795595],
    ]
    assert Dataset.random().cardinality() == INFINITE_CARDINALITY
    assert Dataset.random().element_spec == ArraySpec((), INT64)
    assert run(experimental.RandomDataset(4).take(2), values) == FOUR[:2]


def test_random_numbers_far_on_are_the_same():
    whole = Dataset.random(seed=7).take(9_000).batch(9_000).get_single_element()
    for start in (1, 4_095, 4_099, 8_999):
        assert run(Dataset.random(seed=7).skip(start).take(1), values) == [whole[start]]


def test_random_numbers_without_a_seed():
    assert run(Dataset.random().take(4), values) != run(Dataset.random().take(4), values)
    set_random_seed(1)
    first = run(Dataset.random().take(4), values)
    set_random_seed(1)
    assert run(Dataset.random().take(4), values) == first
    set_random_seed(None)
    it = iter(Dataset.random())
    next(it)
    again = iter(Dataset.random())
    again.load_state_dict(it.state_dict())
    assert [next(again) for _ in range(3)] == [next(it) for _ in range(3)]


LISTS = {
    "numbers": ([1, 2, 3], ArraySpec((), INT64)),
    "tuples": ([(1, b"a"), (2, b"bb")], (ArraySpec((), INT64), ArraySpec((), np.dtype("S")))),
    "rows": ([[1], [2, 3], []], ArraySpec((None,), INT64)),
    "dicts": (
        [{"a": [1, 2], "b": [[1.0]]}, {"a": [3, 4], "b": [[2.0]]}],
        {"a": ArraySpec((2,), INT64), "b": ArraySpec((1, 1), np.dtype(float))},
    ),
    "ranks": ([[1], [[2]]], ArraySpec(None, INT64)),
    "strings in two dimensions": ([[[b"a"]], [[b"b"]]], ArraySpec((1, 1), np.dtype("S"))),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists(kind):
    elements, spec = LISTS[kind]
    if kind == "rows":
        elements = [np.array(one, np.int64) for one in elements]
    check(lambda: Dataset.from_list(elements), map(values, elements), values)
    ds = experimental.from_list(elements, name="a_list")
    assert (len(ds), ds.element_spec) == (len(elements), spec)


def test_lists_that_cannot_be():
    for bad in ([], (1, 2), 3):
        with pytest.raises(ValueError, match="Invalid `tensors`"):
            Dataset.from_list(bad)
    for bad in ([1, "a"], [(1, 2), 1], [{"a": 1}, {"b": 1}], [1, 1.5]):
        with pytest.raises(DtypeError, match="from_list: elements must be alike"):
            Dataset.from_list(bad)


SIZES = {
    (2, 1, 1): [[0, 1], [2], [3], [4, 5], [6], [7]],
    (6,): [[0, 1, 2, 3, 4, 5], [6, 7]],
    (1, 1, 1, 1, 0): [[0], [1], [2], [3], [], [4], [5], [6], [7], []],
    (0, 1): [[], [0], [], [1], [], [2], [], [3], [], [4], [], [5], [], [6], [], [7], []],
    (1, 0): [[0], [], [1], [], [2], [], [3], [], [4], [], [5], [], [6], [], [7], []],
    (3, 3): [[0, 1, 2], [3, 4, 5], [6, 7]],
    (5, 2): [[0, 1, 2, 3, 4], [5, 6], [7]],
}
LAST_DROPPED = {(6,), (3, 3), (5, 2)}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("drop", [False, True])
def test_batches_of_several_sizes(sizes, drop):
    expected = SIZES[sizes][: -1 if drop and sizes in LAST_DROPPED else None]
    check(lambda: Dataset.range(8).batch(4).rebatch(sizes, drop), expected, values)
    made = Dataset.range(8).batch(4, drop_remainder=True).rebatch(list(sizes), drop)
    assert len(made) == len(expected)
    objects = Dataset.range(8).batch(3).map(in_python(lambda x: x)).rebatch(np.array(sizes), drop)
    assert run(objects, values) == expected


def test_sizes_that_are_known():
    def shape(size, drop, *given, of=8):
        return Dataset.range(of).batch(size, drop).rebatch(*given).element_spec.shape

    assert shape(4, True, [2, 1, 1]) == (None,)
    assert shape(4, True, [2, 2]) == shape(4, False, [2, 2], True) == shape(4, True, 2) == (2,)
    assert shape(4, False, [2, 2]) == shape(4, True, 3) == shape(5, True, [2, 2], of=10) == (None,)
    assert shape(5, True, [2, 2], True, of=10) == (2,)
    many = Dataset.range(16).batch(2, True).batch(4, True).rebatch([2, 2])
    assert many.element_spec.shape == (2, 2)
    assert run(many, values) == np.arange(16).reshape(4, 2, 2).tolist()


def test_structures_in_several_sizes():
    ds = Dataset.from_tensor_slices({"a": np.arange(6), "b": (["a", "b", "c", "d", "e", "f"],)}).batch(4)
    assert run(ds.rebatch([2, 3]), values) == [
        {"a": [0, 1], "b": ([b"a", b"b"],)},
        {"a": [2, 3, 4], "b": ([b"c", b"d", b"e"],)},
        {"a": [5], "b": ([b"f"],)},
    ]
    empty = next(iter(ds.take(0).rebatch([0, 1])))
    assert (empty["a"].dtype, len(empty["a"]), len(empty["b"][0])) == (INT64, 0, 0)
    for bad in ([], [0, 0], [-1, 2], ["a"]):
        with pytest.raises(InvalidArgumentError):
            ds.rebatch(bad)
    with pytest.raises(InvalidArgumentError, match="a scalar has no rows"):
        Dataset.range(3).rebatch([2, 1]).element_spec  # noqa: B018


def dense(batch):
    assert isinstance(batch, Sparse)
    return batch.indices.tolist(), values(batch.values), batch.dense_shape.tolist()


def full(n):
    return np.full(int(n), n)


def test_sparse_batches():
    rows = Dataset.range(4).map(in_python(full))
    expected = [
        ([[1, 0]], [1], [2, 5]),
        ([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]], [2, 2, 3, 3, 3], [2, 5]),
    ]
    check(lambda: rows.sparse_batch(2, [5]), expected, dense)
    assert rows.sparse_batch(2, [5]).element_spec == SparseSpec((None, 5), INT64)
    assert rows.sparse_batch(2, [5]).output_classes is Sparse
    longest = [one[2] for one in map(dense, rows.skip(1).apply(experimental.dense_to_sparse_batch(2, [None])))]
    assert longest == [[2, 2], [1, 3]]
    words = Dataset.from_tensor_slices([["a", "b"], ["", "d"]]).sparse_batch(2, [-1])
    assert run(words, dense) == [([[0, 0], [0, 1], [1, 0], [1, 1]], [b"a", b"b", b"", b"d"], [2, 2])]
    square = Dataset.from_tensor_slices(np.arange(8).reshape(2, 2, 2)).sparse_batch(2, [3, 3])
    assert [one.to_dense()[:, :2, :2].tolist() for one in square] == [np.arange(8).reshape(2, 2, 2).tolist()]


def test_sparse_batches_that_cannot_be():
    rows = Dataset.range(4).map(in_python(full)).sparse_batch(2, [2])
    it = iter(rows)
    next(it)
    with pytest.raises(DataLossError, match="larger than the row shape"):
        next(it)
    for bad in ((0, [2]), (2, [1, 2]), (2, 5), (2, ["a"])):
        with pytest.raises(InvalidArgumentError):
            Dataset.from_tensor_slices(np.zeros((2, 3))).sparse_batch(*bad)
    with pytest.raises(InvalidArgumentError, match="each element must be one array"):
        Dataset.zip(Dataset.range(2), Dataset.range(2)).sparse_batch(2, [])


WRONG = {
    (3, 5): "expected to contain 5 elements but contained only 3 elements",
    (5, 3): "expected to contain 3 elements but contained at least 4 elements",
    (1, 0): "expected to contain 0 elements but contained at least 1 element",
    (0, 1): "expected to contain 1 element but contained only 0 elements",
    (3, -1): "expected to contain an infinite number of elements but contained only 3 elements",
}


@pytest.mark.parametrize("given", WRONG, ids=str)
@pytest.mark.parametrize("make", [lambda f: f, in_python], ids=["rows", "objects"])
def test_other_numbers_than_stated(given, make):
    actual_count, stated = given
    ds = Dataset.range(actual_count).map(make(lambda x: x)).apply(experimental.assert_cardinality(stated))
    assert ds.cardinality() == stated
    got, it = [], iter(ds)
    with pytest.raises(FailedPreconditionError, match=WRONG[given]):
        got.extend(map(values, it))
    assert got == list(range(min(actual_count, stated) if stated >= 0 else actual_count))


def test_numbers_as_stated():
    even = Dataset.range(10).filter(lambda x: x % 2 == 0)
    check(lambda: even.assert_cardinality(5), [0, 2, 4, 6, 8], values)
    assert len(even.assert_cardinality(5).batch(2)) == 3
    assert even.assert_cardinality(UNKNOWN_CARDINALITY).cardinality() == UNKNOWN_CARDINALITY
    assert even.repeat().assert_cardinality(INFINITE_CARDINALITY).cardinality() == INFINITE_CARDINALITY
    with pytest.raises(InvalidArgumentError):
        even.assert_cardinality(-3)


AT = {
    "range": lambda: Dataset.range(5, 20),
    "slices": lambda: Dataset.from_tensor_slices((np.arange(6).reshape(3, 2), ["a", "b", "c"])),
    "list": lambda: Dataset.from_list([[1], [2, 3]]),
    "map": lambda: Dataset.range(9).map(lambda x: x * x),
    "function": lambda: Dataset.range(9).map(in_python(lambda x: -x)),
    "batch": lambda: Dataset.range(9).batch(4),
    "kept": lambda: Dataset.range(9).cache(),
    "part": lambda: Dataset.range(9).skip(2).take(5).shard(2, 1),
    "repeated": lambda: Dataset.range(3).repeat(3),
    "ahead": lambda: Dataset.range(9).prefetch(3),
    "joined": lambda: Dataset.range(3).concatenate(Dataset.range(7, 9)),
    "pairs": lambda: Dataset.zip(Dataset.range(4), Dataset.range(5)),
    "filtered": lambda: Dataset.range(9).filter(lambda x: x % 2 == 0),
    "nothing": lambda: Dataset.range(0),
}


@pytest.mark.parametrize("kind", AT)
def test_elements_by_number(kind):
    ds = AT[kind]()
    expected = run(ds, values)
    assert [values(experimental.at(ds, number)) for number in range(len(expected))] == expected
    for number in (-1, len(expected), len(expected) + 1):
        with pytest.raises(OutOfRangeError, match=rf"Index out of range \[0, \d*\):{number}"):
            experimental.at(ds, number)


def test_elements_of_a_shuffle_by_number():
    # Of the first pass, again and again; no pass is used up by it.
    ds = Dataset.range(10).shuffle(10, seed=3)
    once = [int(experimental.at(ds, number)) for number in range(10)]
    assert once == run(ds, values)
    assert once == [int(experimental.at(ds, number)) for number in range(10)]
    assert int(experimental.at(Dataset.range(3).repeat(), 10**6)) == 10**6 % 3


def test_calls_of_a_function_for_elements_by_number():
    called = []
    ds = Dataset.range(100).map(in_python(lambda x: called.append(int(x)) or x))
    assert ds.element_spec.shape == ()
    called.clear()
    assert experimental.at(ds, 70) == 70
    assert called == [70]


def test_padding_to_a_number():
    ds = Dataset.from_tensor_slices({"a": [1, 2], "b": (["x", "y"], [[3.0], [4.0]])})
    assert run(ds.apply(experimental.pad_to_cardinality(3)), values) == [
        {"a": 1, "b": (b"x", [3.0]), "valid": True},
        {"a": 2, "b": (b"y", [4.0]), "valid": True},
        {"a": 0, "b": (b"", [0.0]), "valid": False},
    ]
    same = ds.apply(experimental.pad_to_cardinality(2, mask_key="there"))
    assert [bool(x["there"]) for x in same] == [True, True]
    assert len(ds.apply(experimental.pad_to_cardinality(7))) == 7
    for bad, text in (
        (ds.filter(lambda x: x["a"] > 1), "must have a known cardinalty, but has cardinality -2"),
        (ds.repeat(), "must have a known cardinalty, but has cardinality -1"),
        (ds.repeat(2), r"less than the target cardinality \(3\), but has cardinality 4"),
        (Dataset.range(2), "`pad_to_cardinality` requires its input dataset to be a dictionary"),
        (ds.map(lambda x: {"valid": x["a"]}), "'valid' already"),
    ):
        with pytest.raises(ValueError, match=text):
            bad.apply(experimental.pad_to_cardinality(3))


def test_records_written_from_a_dataset(tmp_path):
    words = Dataset.from_tensor_slices([b"a", b"", b"\0b"])
    for compression in (None, "GZIP"):
        file = tmp_path / f"words-{compression}"
        experimental.TFRecordWriter(file, compression).write(words)
        assert list(TFRecordDataset(file, compression)) == [b"a", b"", b"\0b"]
    with TFRecordWriter(tmp_path / "one") as writer:
        writer.write(b"a")
    experimental.TFRecordWriter(tmp_path / "other").write(words.take(1))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    for bad in (Dataset.range(2), words.batch(2), [b"a"]):
        with pytest.raises(TypeError, match="Invalid `dataset"):
            experimental.TFRecordWriter(tmp_path / "bad").write(bad)


def test_devices_by_tensorflow_s_names():
    for name in ("/cpu:0", "/device:CPU:0", "cpu"):
        ds = Dataset.range(4).apply(experimental.prefetch_to_device(name, buffer_size=1))
        assert run(ds, values) == [0, 1, 2, 3]
    assert run(Dataset.range(2).apply(experimental.copy_to_device("/cpu:0")), values) == [0, 1]
    for bad in (lambda: experimental.copy_to_device("/cpu:0", "/gpu:0"), lambda: experimental.prefetch_to_device(0)):
        with pytest.raises(InvalidArgumentError):
            bad()
    assert list(itertools.islice(Dataset.random(1).apply(experimental.prefetch_to_device("cpu")), 1))


def test_a_window_of_all_elements():
    # The order of a window as large as the data; of lines nobody knows beforehand how many there are.
    known = Dataset.range(50)
    assert run(known.shuffle(UNKNOWN_CARDINALITY, 3), values) == run(known.shuffle(50, 3), values)
    some = Dataset.range(50).filter(lambda x: x < 20)
    assert run(some.shuffle(UNKNOWN_CARDINALITY, 3), values) == run(Dataset.range(20).shuffle(20, 3), values)
    assert run(Dataset.range(0).shuffle(UNKNOWN_CARDINALITY), values) == []


def test_specifications_of_optionals():
    it = Dataset.range(1).map(lambda x: {"a": x}).make_one_shot_iterator()
    for there in (True, False):
        found = it.get_next_as_optional()
        assert (found.has_value(), found.element_spec) == (there, {"a": ArraySpec((), INT64)})
    told = Optional.from_value((3, np.zeros((2, 3), "f4"), b"a", None)).element_spec
    assert told == (
        ArraySpec((), INT64),
        ArraySpec((2, 3), np.dtype("f4")),
        ArraySpec((), np.dtype("S")),
        None,
    )
    assert Optional.empty(ArraySpec((), INT64)).element_spec == ArraySpec((), INT64)
    assert Optional.empty().element_spec is None


PAIRS = Dataset.zip(Dataset.range(2), Dataset.range(2))
ROWS = Dataset.from_tensors({"a": 1, "b": {"c": 2}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: PAIRS.map(lambda x: x),
        lambda: Dataset.range(2).map(lambda x, y: x),
        lambda: PAIRS.batch(2).map(lambda x, y, z: x),
        lambda: PAIRS.filter(lambda x: True),
        lambda: PAIRS.take_while(lambda: True),
        lambda: PAIRS.flat_map(lambda x: Dataset.range(2)),
        lambda: PAIRS.interleave(lambda x: Dataset.range(2)),
        lambda: ROWS.map(lambda *, row: row),
    ],
)
def test_functions_of_other_arguments_fail_when_the_dataset_is_made(make):
    with pytest.raises(TypeError, match="is called with") as caught:
        make()
    assert isinstance(caught.value, DtypeError)


def test_functions_of_any_arguments_are_taken():
    assert run(PAIRS.map(lambda x, y=0, *more: x + y), values) == [0, 2]
    assert run(PAIRS.map(max), values) == [0, 1]
    assert run(ROWS.map(lambda row, other=None: row["a"]), values) == [1]


def test_fields_that_there_are_not_fail_when_the_dataset_is_made():
    for make in (
        lambda: ROWS.map(lambda row: row["img"]),
        lambda: ROWS.map(lambda row: row["b"]["img"]),
        lambda: ROWS.batch(2).map(lambda row: row["img"] + 1),
        lambda: ROWS.filter(lambda row: row["img"] > 1),
    ):
        with pytest.raises(InvalidArgumentError, match=r"asks for 'img' .* and elements have \['a', 'b', 'c'\]"):
            make()
    table = {"x": 3}
    assert run(ROWS.map(lambda row: row["a"] + table.get("img", 1)), values) == [2]


def test_choices_without_an_end():
    endless, few = Dataset.range(3).repeat(), Dataset.range(3)
    turns = Dataset.range(2).repeat()
    assert Dataset.choose_from_datasets([endless, endless], turns).cardinality() == INFINITE_CARDINALITY
    for given in (([endless, few], turns), ([endless, endless], few)):
        assert Dataset.choose_from_datasets(*given).cardinality() == UNKNOWN_CARDINALITY
    for stop in (False, True):
        both = Dataset.sample_from_datasets([endless, endless], stop_on_empty_dataset=stop)
        assert both.cardinality() == INFINITE_CARDINALITY
    ended = Dataset.sample_from_datasets([endless, few], stop_on_empty_dataset=True)
    assert ended.cardinality() == UNKNOWN_CARDINALITY
