"""`group_by_window`, `group_by_reducer` and `rejection_resample`.

The values are those that TensorFlow 2.21 gives for the same datasets, but for the choice of `rejection_resample`, which
isn't TensorFlow's: there, the distribution counts.
"""

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.data.transformed import check, run, values

from queuecore.data import Dataset, Options, experimental
from queuecore.errors import DtypeError, InvalidArgumentError, PipelineError

LETTERS = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 0, 0, 2, 2, 0, 0])


def test_windows_and_buckets_of_an_endless_dataset_have_no_end():
    numbers = Dataset.range(3)
    for ds, count in ((numbers, -2), (numbers.repeat(), -1)):
        assert ds.group_by_window(lambda x: x, batches(2), 2).cardinality() == count
        buckets = ds.batch(1).bucket_by_sequence_length(len, [2], [1, 1])
        assert buckets.cardinality() == count


def batches(size):
    return lambda key, window: window.batch(size)


@pytest.mark.parametrize("make", [lambda f: f, in_python], ids=["native", "Python"])
def test_windows(make):
    def numbers(n):
        return Dataset.range(n).map(make(lambda x: x))

    check(
        lambda: numbers(10).group_by_window(lambda x: x % 2, batches(3), 3),
        [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]],
        values,
    )
    check(
        lambda: numbers(4).group_by_window(
            make(lambda x: x % 2), lambda key, w: Dataset.zip(Dataset.from_tensors(key), w.batch(5)), 2
        ),
        [(0, [0, 2]), (1, [1, 3])],
        values,
    )
    check(
        lambda: numbers(6).group_by_window(lambda x: x, lambda _, w: w.repeat(2), 1),
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
        values,
    )


def test_groups_come_as_they_fill_and_the_rest_by_key():
    ds = Dataset.from_tensor_slices(LETTERS).repeat().group_by_window(lambda x: x % 3, batches(4), 4)
    assert run(ds.take(8), values) == [[0] * 4, [1] * 4, [2] * 4, [0] * 4] * 2
    few = Dataset.from_tensor_slices([0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0])
    check(
        lambda: few.group_by_window(lambda x: x % 2, batches(4), 4),
        [[0] * 4, [1] * 4, [0] * 3, [1]],
        values,
    )


def test_sizes_by_key():
    ds = Dataset.range(40).group_by_window(lambda x: x % 2, batches(20), window_size_func=lambda key: 5 * key + 5)
    assert [(len(batch), int(batch[0]) % 2) for batch in ds] == [(5, 0), (5, 0), (10, 1), (5, 0), (5, 0), (10, 1)]


def test_structures_and_padding():
    ds = Dataset.from_tensor_slices((["a", "bb", "c", ""], {"x": [1, 2, 3, 4]}))
    check(
        lambda: ds.group_by_window(lambda s, d: d["x"] % 2, lambda _, w: w.map(lambda s, d: d["x"]), 2),
        [1, 3, 2, 4],
        values,
    )
    check(
        lambda: ds.group_by_window(lambda s, d: d["x"] % 2, batches(2), 2),
        [([b"a", b"c"], {"x": [1, 3]}), ([b"bb", b""], {"x": [2, 4]})],
        values,
    )
    rows = Dataset.range(5).map(in_python(lambda n: np.full(int(n), n)))
    padded = rows.group_by_window(lambda x: 0, lambda _, w: w.padded_batch(3, [None]), 3)
    assert run(padded, values) == [[[0, 0], [1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]


def test_many_rows_wait_for_their_window():
    # More than a chunk of them; the oracle is NumPy's choice of rows.
    keys = np.random.default_rng(1).integers(0, 7, 50_000)
    ds = Dataset.from_tensor_slices((np.arange(50_000), keys))
    made = ds.group_by_window(lambda x, key: key, batches(10_000), 10_000)
    got = [(x.tolist(), set(key.tolist())) for x, key in made]
    assert got == [(np.flatnonzero(keys == key).tolist(), {key}) for key in range(7)]


def test_elements_that_have_no_window():
    with pytest.raises(InvalidArgumentError, match=r"Window size must be greater than zero, but got 0\."):
        list(Dataset.range(4).group_by_window(lambda x: 0, batches(2), window_size=0))
    for given in ({}, {"window_size": 1, "window_size_func": lambda key: 1}):
        with pytest.raises(ValueError, match="Must pass either window_size or window_size_func, but not both"):
            Dataset.range(4).group_by_window(lambda x: x, batches(2), **given)
    for bad in ((1, batches(2)), (lambda x: x, 1)):
        with pytest.raises(InvalidArgumentError, match="must be a function"):
            Dataset.range(4).group_by_window(*bad, 1)
    with pytest.raises(ValueError, match=r"`key_func` must return a single tf\.int64 tensor"):
        Dataset.range(4).group_by_window(lambda x: x * 0.5, batches(2), 1)
    with pytest.raises(DtypeError, match=r"`reduce_func` must return a single tf\.data\.Dataset"):
        list(Dataset.range(4).group_by_window(lambda x: x, lambda key, window: 1, 1))
    with pytest.raises(InvalidArgumentError, match="must return an integer"):
        list(Dataset.range(4).group_by_window(in_python(lambda x: "a"), batches(2), 1))


def refuse(x):
    if x % 4 == 3:
        raise ValueError(int(x))
    return x


def pulled(ds):
    results, it = [], iter(ds)
    while True:
        try:
            results.append(values(next(it)))
        except StopIteration:
            return results
        except PipelineError as error:
            assert isinstance(error.__cause__, ValueError)
            results.append(None)


def test_errors_in_their_places():
    failing = Dataset.range(8).map(in_python(refuse)).group_by_window(lambda x: x % 2, batches(2), 2)
    assert pulled(failing) == [[0, 2], None, [1, 5], [4, 6], None]
    keyed = Dataset.range(8).group_by_window(in_python(lambda x: refuse(x) % 2), batches(2), 2)
    assert pulled(keyed) == [[0, 2], None, [1, 5], [4, 6], None]
    for ds in (failing, keyed):
        assert run(ds.with_options(Options(on_error="skip")), values) == [[0, 2], [1, 5], [4, 6]]

    def unlucky(key, window):
        if key:
            raise ValueError(key)
        return window.batch(2)

    assert pulled(Dataset.range(6).group_by_window(lambda x: x % 2, unlucky, 2)) == [[0, 2], None, [4], None]


SUM = experimental.Reducer(lambda key: 0, lambda state, x: state + x, lambda state: state)
PAIR = experimental.Reducer(
    lambda key: (np.int64(0), key), lambda state, x: (state[0] + x[1], state[1]), lambda a, b: {"sum": a, "key": b}
)


def test_reducers():
    check(lambda: Dataset.range(10).apply(experimental.group_by_reducer(lambda x: x % 3, SUM)), [18, 12, 15], values)
    pairs = Dataset.zip(Dataset.range(10), Dataset.range(10, 20))
    check(
        lambda: pairs.apply(experimental.group_by_reducer(lambda x, y: 2 - x % 3, PAIR)),
        [{"sum": 45, "key": 0}, {"sum": 42, "key": 1}, {"sum": 58, "key": 2}],
        values,
    )
    text = experimental.Reducer(lambda key: b"", lambda state, x: state + x, lambda state: state)
    words = Dataset.from_tensor_slices(["a", "bb", "c", "dd"]).apply(
        experimental.group_by_reducer(in_python(len), text)
    )
    assert list(words) == [b"ac", b"bbdd"]
    growing = experimental.Reducer(
        lambda key: np.zeros(1, np.int64), lambda state, x: np.concatenate([state, state]), lambda state: state
    )
    (made,) = Dataset.from_tensors(0).repeat(3).apply(experimental.group_by_reducer(lambda x: x, growing))
    assert made.tolist() == [0] * 8


def test_reducers_that_cannot_be():
    for bad in ((1, len, len), (len, None, len), (len, len, "a")):
        with pytest.raises(InvalidArgumentError, match="Reducer: .* must be a function"):
            experimental.Reducer(*bad)
    with pytest.raises(DtypeError, match="must be a Reducer"):
        experimental.group_by_reducer(lambda x: x, SUM.reduce_func)
    for key in (lambda x: x * 0.5, lambda x: (x, x), lambda x: np.array([1, 2])):
        with pytest.raises(ValueError, match=r"`key_func` must return a single tf\.int64 tensor"):
            Dataset.range(3).apply(experimental.group_by_reducer(key, SUM))
    other = experimental.Reducer(lambda key: np.int32(1), lambda state, x: np.int64(1), lambda state: state)
    with pytest.raises(TypeError, match="reduce_func must return a state of the type it was given"):
        list(Dataset.range(3).apply(experimental.group_by_reducer(lambda x: 0, other)))
    bad = experimental.Reducer(lambda key: 0, lambda state, x: state + refuse(x), lambda state: state)
    assert pulled(Dataset.range(8).apply(experimental.group_by_reducer(lambda x: x % 2, bad))) == [None, None, 12, 6]


TARGET = [0.9, 0.05, 0.05, 0.0, 0.0]


@pytest.mark.parametrize("initial", [None, [0.2] * 5], ids=["estimated", "given"])
@pytest.mark.parametrize("make", [lambda f: f, in_python], ids=["native", "Python"])
def test_resampled_classes_come_as_often_as_wanted(initial, make):
    classes = np.random.default_rng(3).integers(0, 5, 4_000)
    ds = Dataset.from_tensor_slices((classes, np.arange(4_000)))
    got = list(ds.rejection_resample(make(lambda c, x: c), TARGET, initial, seed=27))
    assert all(number == c == classes[x] for number, (c, x) in got)
    counts = np.bincount([int(number) for number, _ in got], minlength=5)
    # Five standard deviations of so many draws.
    assert np.abs(counts / len(got) - TARGET).max() < 5 * np.sqrt(0.25 / len(got))
    assert 780 < len(got) < 980  # one in five of the most wanted class, all of which stay, and few others


def test_resampling_goes_on_from_any_place():
    def make():
        return Dataset.range(40).rejection_resample(lambda x: x % 3, [0.5, 0.3, 0.2], None, 5)

    check(make, run(make(), values), values)
    assert run(make(), values) == run(make(), values)
    other = Dataset.range(40).rejection_resample(lambda x: x % 3, [0.5, 0.3, 0.2], None, 6)
    assert run(make(), values) != run(other, values)
    assert make().element_spec == (Dataset.range(1).element_spec,) * 2


def test_a_dataset_that_has_the_distribution_stays():
    ds = Dataset.range(10).rejection_resample(lambda x: x % 2, [0.5, 0.5], np.array([0.5, 0.5], "f4"))
    assert run(ds, values) == [(x % 2, x) for x in range(10)]
    only = Dataset.range(10).rejection_resample(lambda x: x % 2, [0.0, 1.0], [0.5, 0.5])
    assert run(only, values) == [(1, x) for x in range(1, 10, 2)]


def test_classes_that_there_are_not():
    ds = Dataset.range(4).rejection_resample(lambda x: x, [1, 0, 1], [1, 1, 1])
    assert run(ds.with_options(Options(on_error="skip")), values) == [(0, 0), (2, 2)]
    with pytest.raises(InvalidArgumentError, match="element 3 has the class 3, and there are 3 classes"):
        list(ds)
    for bad in ([[0.5, -1]], [[]], [[0, 0]], ["ab"], [[0.5, 0.5], [1.0]], [1.0]):
        with pytest.raises(InvalidArgumentError, match="rejection_resample"):
            Dataset.range(4).rejection_resample(lambda x: x, *bad)
