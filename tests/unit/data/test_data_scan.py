"""Scan: a function with a state, compared with itertools.accumulate and with loops of Python's."""

import itertools
import pickle
import random

import numpy as np
import pytest
from helpers.data.chains import threads

import queuecore as qc
from queuecore.data import ArraySpec, Dataset, Options
from queuecore.errors import DtypeError, InvalidArgumentError, PipelineError, ResumeMismatchError


def summed(total, x):
    return total + x, total + x


def running(numbers):
    return list(itertools.accumulate(numbers))


@pytest.mark.parametrize("number", [1, 2, 4])
def test_as_accumulate(number):
    numbers = random.Random(number).sample(range(1000), 200)
    ds = threads(Dataset.from_tensor_slices(numbers).scan(0, summed), number)
    assert [int(x) for x in ds] == running(numbers)
    assert len(ds) == 200 and ds.element_spec == ArraySpec((), np.dtype(np.int64))


def test_each_pass_begins_anew():
    ds = Dataset.range(5).scan(10, summed)
    once = running([10, *range(5)])[1:]
    assert [int(x) for x in ds.repeat(3)] == once * 3
    assert [int(x) for x in ds] == [int(x) for x in ds] == once


@pytest.mark.parametrize("position", range(9))
def test_goes_on_at_every_place(position):
    def make():
        return Dataset.range(4).shuffle(4, seed=3).scan(0, summed).repeat(2)

    whole = [int(x) for x in make()]
    it = iter(make())
    assert [int(next(it)) for _ in range(position)] == whole[:position]
    again = iter(make())
    again.load_state_dict(it.state_dict())
    assert [int(x) for x in again] == whole[position:]


def test_a_place_belongs_to_its_state():
    it = iter(Dataset.range(4).scan(0, summed))
    next(it)
    with pytest.raises(ResumeMismatchError, match="initial_state"):
        iter(Dataset.range(4).scan(1, summed)).load_state_dict(it.state_dict())


def test_structures():
    def function(state, element):
        count, (text, seen) = state
        n, name = element["n"], element["name"]
        return (count + 1, (text + name, seen)), {"text": text + name, "n": n * count}

    rows = {"n": np.arange(3, dtype=np.float32), "name": np.array([b"a", b"", b"c"], object)}
    ds = Dataset.from_tensor_slices(rows).scan((np.int32(1), (b">", np.zeros((2, 0)))), function)
    assert [(x["text"], float(x["n"])) for x in ds] == [(b">a", 0.0), (b">a", 2.0), (b">ac", 6.0)]
    assert ds.element_spec == {
        "text": ArraySpec((), np.dtype("S")),
        "n": ArraySpec((), np.dtype(np.float64)),
    }


def test_a_state_may_grow():
    ds = Dataset.range(4).scan(np.zeros(0, np.int64), lambda state, x: (np.append(state, x), np.append(state, x)))
    assert [x.tolist() for x in ds] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_a_state_that_is_changed_in_place_changes_nothing_else():
    initial = np.zeros(3, np.int64)

    def function(state, x):
        state += x
        return state, state

    ds = Dataset.range(1, 40).scan(initial, function)
    expected = [[one] * 3 for one in running(range(1, 40))]
    kept = list(ds)
    assert [x.tolist() for x in kept] == expected and initial.tolist() == [0, 0, 0]
    assert [x.tolist() for x in ds] == expected
    initial[:] = 7  # it was copied
    assert [x.tolist() for x in ds] == expected


def test_views_of_a_state_are_copied():
    def function(state, x):
        state[1:] = x
        return state, state[1:]

    kept = list(Dataset.range(20).scan(np.zeros(4, np.int64), function))
    assert [x.tolist() for x in kept] == [[n] * 3 for n in range(20)]


def test_a_tuple_is_one_argument():
    ds = Dataset.zip(Dataset.range(3), Dataset.range(3)).scan(0, lambda state, pair: (state, pair[0] + pair[1]))
    assert [int(x) for x in ds] == [0, 2, 4]


def refused(total, x):
    if x % 3 == 1:
        raise ValueError("no")
    return total + x, total + x


def test_an_error_takes_its_element_alone():
    it, results = iter(Dataset.range(8).scan(0, refused)), []
    while True:
        try:
            results.append(int(next(it)))
        except StopIteration:
            break
        except PipelineError as error:
            assert isinstance(error.__cause__, ValueError) and error.stage == "scan"
            assert str(error) == f"scan: refused raised ValueError: no (element {error.record})"
            results.append(-error.record)
    assert results == [0, -1, 2, 5, -4, 10, 16, -7]


def test_errors_are_left_out():
    ds = Dataset.range(8).scan(0, refused)
    it = iter(ds.with_options(Options(on_error="skip")))
    assert [int(x) for x in it] == [0, 2, 5, 10, 16] and it.stats()["skipped"] == 3
    assert [int(x) for x in ds.ignore_errors()] == [0, 2, 5, 10, 16]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda state, x: state, "a pair is wanted"),
        (lambda state, x: (state, x, x), "a pair is wanted"),
        (lambda state, x: (state + 0.5, x), "scan_func must return a state of the type it was given"),
        (lambda state, x: ((state, state), x), "scan_func must return the structure it was given"),
    ],
)
def test_wrong_results(function, message):
    with pytest.raises(DtypeError, match=rf"{message}.*\(element 0\)"):
        list(Dataset.range(3).scan(0, function))


def test_another_structure_than_before():
    it = iter(Dataset.range(3).scan(0, lambda state, x: (state, (x, x) if x == 1 else x)))
    assert int(next(it)) == 0
    with pytest.raises(InvalidArgumentError, match=r"another structure than before.*\(element 1\)"):
        next(it)
    assert int(next(it)) == 2


def test_wrong_arguments():
    with pytest.raises(InvalidArgumentError, match="scan_func must be a function"):
        Dataset.range(3).scan(0, None)
    with pytest.raises(InvalidArgumentError, match="a state must be made of arrays"):
        Dataset.range(3).scan([[1], [2, 3]], summed)


def test_can_be_pickled():
    ds = pickle.loads(pickle.dumps(Dataset.range(5).scan({"a": np.arange(3)}, counted)))
    assert [int(x) for x in ds] == [0, 1, 2, 3, 4]


def counted(state, x):
    return state, x


def test_is_in_the_plan():
    assert "scan(summed)" in Dataset.range(2).scan(0, summed).plan()
    assert qc.data.Dataset.scan.__doc__.count(">>>") == 3
