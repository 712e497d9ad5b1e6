"""`unique`, and the numbers of `counter`."""

import itertools
import json

import numpy as np
import pytest
from helpers.data.functions import in_python

from queuecore.data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset, Options
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged

SOURCES = {
    "numbers": [3, 1, 3, 2, 1, 0, 2, 9, 3],
    "strings": ["b", "", "b", "a", "a\0", "a", "", "a\0"],
    "small": np.array([1, 1, 255, 1, 255], np.uint8),
}


def first_ones(values):
    return list(dict.fromkeys(values))


def plain(element):
    return element if isinstance(element, bytes) else int(element)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "structure", [lambda x: x, lambda x: (x,), lambda x: {"a": (x,)}], ids=["bare", "tuple", "dict"]
)
def test_the_first_of_equal_elements(source, structure):
    inputs = Dataset.from_tensor_slices(structure(SOURCES[source]))
    expected = first_ones(map(plain, Dataset.from_tensor_slices(SOURCES[source])))
    leaf = {0: lambda x: x, 1: lambda x: x[0], 2: lambda x: x["a"][0]}
    kind = 0 if not isinstance(structure(0), tuple | dict) else 1 if isinstance(structure(0), tuple) else 2
    for _ in range(2):  # each pass begins anew
        assert [plain(leaf[kind](x)) for x in inputs.unique()] == expected
    assert [plain(leaf[kind](x)) for x in inputs.unique().repeat(2)] == expected * 2
    assert inputs.unique().cardinality() == UNKNOWN_CARDINALITY
    assert inputs.unique().element_spec == inputs.element_spec


def test_arrays_are_compared_as_wholes():
    rows = np.array([[1, 2], [2, 1], [1, 2], [0, 0]])
    assert [element.tolist() for element in Dataset.from_tensor_slices(rows).unique()] == [[1, 2], [2, 1], [0, 0]]
    ragged = Ragged.from_list([[1], [1, 1], [1], [1, 1]])
    assert [element.tolist() for element in Dataset.from_tensor_slices(ragged).unique()] == [[1], [1, 1]]
    words = Ragged.from_list([[b"a", b"b"], [b"ab"], [b"a", b"b"]])
    assert [element.to_list() for element in Dataset.from_tensor_slices(words).unique()] == [[b"a", b"b"], [b"ab"]]
    # The same bytes in another shape are another array.
    shapes = Dataset.from_generator(lambda: iter([np.zeros((1, 2), int), np.zeros(2, int)]), np.int64).unique()
    assert [element.shape for element in shapes] == [(1, 2), (2,)]


def test_from_any_saved_place():
    values = [int(x) for x in np.random.default_rng(1).integers(0, 30, 200)]
    ds = Dataset.from_tensor_slices(values).map(in_python(lambda x: x)).unique()
    expected = first_ones(values)
    for place in range(len(expected) + 1):
        it = iter(ds)
        assert [int(x) for x in itertools.islice(it, place)] == expected[:place]
        again = iter(ds)
        again.load_state_dict(json.loads(json.dumps(it.state_dict())))
        assert [int(x) for x in again] == expected[place:]


def test_errors_keep_their_places():
    def refuse(x):
        if x % 4 == 3:
            raise ValueError(int(x))
        return x // 2

    ds = Dataset.range(8).map(in_python(refuse)).unique()
    results, it = [], iter(ds)
    while True:
        try:
            results.append(int(next(it)))
        except StopIteration:
            break
        except ValueError:
            results.append(None)
        except Exception as error:
            assert isinstance(error.__cause__, ValueError)
            results.append(None)
    assert results == [0, 1, None, 2, 3, None]
    assert [int(x) for x in ds.with_options(Options(on_error="skip"))] == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", [1.5, [1.0, 2.0], (1, 2), True], ids=str)
def test_elements_that_cannot_be_compared(bad):
    with pytest.raises(DtypeError, match="unique: elements must be integers or strings"):
        Dataset.from_tensors(bad).unique()


@pytest.mark.parametrize(
    "given", [(), (5,), (2, 3), (7, -2), (4, 0), (120, 5, np.int8), (0.5, 0.25, np.float32)], ids=str
)
def test_counter(given):
    ds = Dataset.counter(*given)
    start, step, dtype = (*given, *(0, 1, np.int64)[len(given) :])
    if not given:
        start, step = 0, 1
    expected = (np.array(start, np.float64) + np.arange(70_000) * step).astype(
        np.int64 if dtype != np.float32 else dtype
    )
    got = ds.batch(70_000).take(1).get_single_element()
    assert got.dtype == dtype
    assert np.array_equal(got, expected.astype(dtype))
    assert ds.cardinality() == INFINITE_CARDINALITY
    assert len(ds.take(5)) == 5
    it = iter(ds)
    for _ in range(3):
        next(it)
    again = iter(ds)
    again.load_state_dict(it.state_dict())
    assert next(again) == next(it) == expected.astype(dtype)[3]


@pytest.mark.parametrize(
    "bad", [{"start": 1.5}, {"step": "1"}, {"start": 300, "dtype": np.int8}, {"start": "a", "dtype": "f4"}], ids=str
)
def test_bad_counters(bad):
    with pytest.raises(InvalidArgumentError):
        Dataset.counter(**bad)


@pytest.mark.parametrize("bad", ["S", object, "no dtype"])
def test_counters_of_other_types(bad):
    with pytest.raises(DtypeError):
        Dataset.counter(dtype=bad)


def test_splits_of_another_type():
    rows = Dataset.range(3).map(in_python(lambda n: np.arange(int(n))))
    assert next(iter(rows.ragged_batch(2, row_splits_dtype="int64"))).to_list() == [[], [0]]
    with pytest.raises(DtypeError, match="row_splits_dtype"):
        rows.ragged_batch(2, row_splits_dtype=np.int32)
