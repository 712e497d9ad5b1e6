"""The names of ``tf.data.experimental``: each does what its method does."""

import inspect

import numpy as np
import pytest
from helpers.data.functions import in_python, plain
from helpers.tensorflow import data_arguments

from queuecore import data
from queuecore.data import Dataset, experimental
from queuecore.errors import DtypeError, OutOfRangeError, UnimplementedError

DS = Dataset.range(6)
ROWS = DS.map(in_python(lambda x: np.arange(int(x))))


def inverse(x):
    return 6 // (int(x) - 2)


STEPS = {
    "bucket_by_sequence_length": (ROWS, (len, [3], [2, 2]), {"drop_remainder": True}, "bucket_by_sequence_length"),
    "dense_to_ragged_batch": (ROWS, (4,), {"drop_remainder": True}, "ragged_batch"),
    "enumerate_dataset": (DS, (5,), {}, "enumerate"),
    "ignore_errors": (DS.map(in_python(inverse)), (), {}, "ignore_errors"),
    "map_and_batch": (DS, (lambda x: x + 1, 4), {"drop_remainder": True}, "map_and_batch"),
    "parallel_interleave": (DS, (lambda x: Dataset.range(2), 2), {"block_length": 2}, "parallel_interleave"),
    "scan": (DS, (0, lambda total, x: (total + x, total)), {}, "scan"),
    "shuffle_and_repeat": (DS, (4, 2), {"seed": 3}, "shuffle_and_repeat"),
    "take_while": (DS, (lambda x: x < 3,), {}, "take_while"),
    "unbatch": (DS.batch(2), (), {}, "unbatch"),
    "unique": (DS.map(lambda x: x // 2), (), {}, "unique"),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    inputs, arguments, words, method = STEPS[name]
    made = inputs.apply(getattr(experimental, name)(*arguments, **words))
    expected = getattr(inputs, method)(*arguments, **words)
    assert made.plan() == expected.plan()
    assert list(map(plain, made)) == list(map(plain, expected)) != []


def test_snapshot(tmp_path):
    made = DS.apply(experimental.snapshot(tmp_path / "kept", compression="GZIP"))
    assert [[int(x) for x in made] for _ in range(2)] == [[0, 1, 2, 3, 4, 5]] * 2
    assert any((tmp_path / "kept").iterdir())


def test_several_datasets():
    a, b = Dataset.range(2), Dataset.range(10, 14)
    choice = Dataset.from_tensor_slices([0, 1, 0, 0, 1])
    assert [int(x) for x in experimental.choose_from_datasets([a, b], choice)] == [0, 10, 1, 11]
    assert [int(x) for x in experimental.choose_from_datasets([a, b], choice, True)] == [0, 10, 1]
    drawn = experimental.sample_from_datasets([a, b], [0.5, 0.5], 1)
    assert [int(x) for x in drawn] == [int(x) for x in Dataset.sample_from_datasets([a, b], [0.5, 0.5], 1)]


def test_what_a_dataset_is():
    assert experimental.cardinality(DS) == 6
    assert experimental.cardinality(experimental.Counter(2, 3)) == experimental.INFINITE_CARDINALITY == -1
    assert experimental.cardinality(DS.filter(lambda x: x > 1)) == experimental.UNKNOWN_CARDINALITY == -2
    assert [int(x) for x in experimental.Counter(2, 3, np.int8).take(3)] == [2, 5, 8]
    assert experimental.get_single_element(DS.take(1)) == 0
    assert experimental.get_structure(DS) == DS.element_spec
    it = iter(DS.take(1))
    assert experimental.get_structure(it) == DS.element_spec
    assert experimental.get_next_as_optional(it).get_value() == 0
    assert not experimental.get_next_as_optional(it).has_value()
    with pytest.raises(OutOfRangeError):
        it.get_next()
    with pytest.raises(DtypeError):
        ROWS.apply(experimental.dense_to_ragged_batch(2, row_splits_dtype=np.int32))


def test_every_function_is_tried():
    functions = {name for name in experimental.__all__ if inspect.isfunction(getattr(experimental, name))}
    assert functions == set(data_arguments.EXPERIMENTAL)
    assert sorted(experimental.__all__) == sorted(set(experimental.__all__))
    assert data.experimental is experimental


def test_names_that_are_not_here_say_so():
    with pytest.raises(UnimplementedError, match=r"tf\.data\.experimental\.service: it isn't in queuecore\.data"):
        experimental.service  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        experimental.no_such_name  # noqa: B018
    assert not hasattr(experimental, "service")
