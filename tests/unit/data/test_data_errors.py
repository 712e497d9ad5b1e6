"""Errors of elements: each comes once, in its place, and the iterator goes on behind it, also from a saved place."""

import json
import pathlib

import numpy as np
import pytest
from helpers.data.functions import plain

import queuecore as qc
from queuecore.data import Dataset, Options

GOOD, BAD = [1.0, 0.0, 2.0, 0.0, 4.0], "error"


def inverse(x):
    return 1 / float(x)


def python():
    return Dataset.from_tensor_slices(GOOD).map(inverse)


def native():
    return texts().map(lambda x: qc.ops.decode_csv(x, [[0]])[0])


def bad():
    return Dataset.from_tensor_slices(["x", "1", "y", "z"]).map(lambda x: qc.ops.decode_csv(x, [[0]])[0])


def texts():
    return Dataset.from_tensor_slices(["1", "x", "3", "4", "y"])


def events(it, most=200):
    """What calls give: elements, a word for each error, and at last why there is no more."""
    outcomes = []
    while len(outcomes) < most:
        try:
            outcomes.append(plain(next(it)))
        except StopIteration:
            return outcomes
        except qc.errors.QueueCoreError as error:
            if it.closed:
                return [*outcomes, type(error)]
            outcomes.append(BAD)
    return outcomes


def odd_refused(x):
    if int(x) % 4 == 1:
        raise ValueError(int(x))
    return int(x) % 3 != 0


def numbers(n):
    return Dataset.range(n)


def generate():
    yield 1
    yield object()
    yield 2
    raise ValueError


# With what TensorFlow 2.21 gives, but for good elements of a batch or a window that an error cuts short: these come.
CASES = {
    "map": (python, [1.0, BAD, 0.5, BAD, 0.25]),
    "map in threads": (lambda: numbers(5).map(lambda x: 12 // (int(x) % 2), 3), [BAD, 12, BAD, 12, BAD]),
    "map of a map": (lambda: python().map(lambda x: 2 * float(x), 2), [2.0, BAD, 1.0, BAD, 0.5]),
    "parser": (native, [1, BAD, 3, 4, BAD]),
    "batch": (lambda: python().batch(2), [[1.0], BAD, [0.5], BAD, [0.25]]),
    "batch of rows": (lambda: native().batch(2), [[1], BAD, [3, 4], BAD]),
    "whole batches": (lambda: python().batch(2, drop_remainder=True), [BAD, BAD]),
    "whole batches of rows": (lambda: native().batch(2, drop_remainder=True), [BAD, [3, 4], BAD]),
    "whole batches of passes": (lambda: native().batch(2, drop_remainder=True).repeat(2), [BAD, [3, 4], BAD] * 2),
    "whole batches over passes": (lambda: native().repeat(2).batch(3, drop_remainder=True), [BAD, BAD, BAD, BAD]),
    "a remainder of errors": (lambda: bad().batch(5, drop_remainder=True), [BAD, BAD, BAD]),
    "whole batches of batches": (lambda: native().batch(1).batch(4, drop_remainder=True), [BAD, BAD]),
    "whole padded batches": (
        lambda: native().padded_batch(2, padded_shapes=(), drop_remainder=True),
        [BAD, [3, 4], BAD],
    ),
    "shuffled whole batches": (lambda: native().batch(2, drop_remainder=True).shuffle(2, seed=1), None),
    "whole batches of a shuffle": (lambda: native().shuffle(9, seed=1).batch(3, drop_remainder=True), None),
    "one whole batch": (lambda: native().skip(2).batch(2, drop_remainder=True).take(1), [[3, 4]]),
    "batch of batches": (lambda: python().batch(2).batch(2), [[[1.0]], BAD, [[0.5]], BAD, [[0.25]]]),
    "padded": (lambda: python().padded_batch(2, padded_shapes=()), [[1.0], BAD, [0.5], BAD, [0.25]]),
    "unequal": (
        lambda: numbers(4).map(lambda x: np.zeros(2 + (int(x) == 1))).batch(2).map(lambda x: x.shape),
        [BAD, (2, 2)],
    ),
    "repeat": (lambda: python().repeat(2), [1.0, BAD, 0.5, BAD, 0.25] * 2),
    "take": (lambda: python().take(2), [1.0, BAD, 0.5]),
    "take before a parser": (lambda: texts().take(2).map(lambda x: qc.ops.decode_csv(x, [[0]])[0]), [1, BAD]),
    "take behind a parser": (lambda: native().take(2), [1, BAD, 3]),
    "skip": (lambda: python().skip(1), [BAD, 0.5, BAD, 0.25]),
    "shuffle": (lambda: python().shuffle(2, seed=5), None),
    "shuffle of rows": (lambda: native().shuffle(3, seed=3), None),
    "shuffle of batches": (lambda: native().batch(2).shuffle(2, seed=1), None),
    # The error has left the source before the elements in front of it have left the shuffle.
    "shuffle of one": (lambda: python().shuffle(1, seed=1), [1.0, BAD, 0.5, BAD, 0.25]),
    "shuffle of one, of a zip": (
        lambda: Dataset.zip((native(), numbers(9))).shuffle(1, seed=1),
        [(1, 0), BAD, (3, 2), (4, 3), BAD],
    ),
    "shuffle of one, of an unbatch": (lambda: native().batch(2).unbatch().shuffle(1, seed=1), [1, BAD, 3, 4, BAD]),
    "shuffles of one": (
        lambda: python().shuffle(1, seed=1).repeat(2).shuffle(1, seed=2),
        [1.0, BAD, 0.5, BAD, 0.25] * 2,
    ),
    "batches of a shuffle of one": (
        lambda: python().shuffle(1, seed=1).batch(2),
        [[1.0], BAD, [0.5], BAD, [0.25]],
    ),
    "shuffle of one batch": (
        lambda: python().batch(2).shuffle(1, seed=1),
        [[1.0], BAD, [0.5], BAD, [0.25]],
    ),
    "take of a shuffle of one": (lambda: python().shuffle(1, seed=1).take(1).repeat(2), None),
    "shard": (lambda: native().shard(2, 1), [BAD, 4]),
    "zip": (
        lambda: Dataset.zip((python(), Dataset.from_tensor_slices(GOOD))),
        [(1.0, 1.0), BAD, (0.5, 2.0), BAD, (0.25, 4.0)],
    ),
    "zip of rows": (lambda: Dataset.zip((native(), numbers(9))), [(1, 0), BAD, (3, 2), (4, 3), BAD]),
    "enumerate": (lambda: python().enumerate(), [(0, 1.0), BAD, (2, 0.5), BAD, (4, 0.25)]),
    "enumerate rows": (lambda: native().enumerate(), [(0, 1), BAD, (2, 3), (3, 4), BAD]),
    "concatenate": (lambda: python().concatenate(python()), [1.0, BAD, 0.5, BAD, 0.25] * 2),
    "filter": (lambda: numbers(10).filter(odd_refused), [BAD, 2, 4, BAD, 7, 8, BAD]),
    "filter behind": (lambda: native().filter(lambda x: x > 1), [BAD, 3, 4, BAD]),
    "take_while": (lambda: numbers(9).take_while(lambda x: [][0] if int(x) == 2 else int(x) < 5), [0, 1, BAD, 3, 4]),
    "flat_map": (
        lambda: numbers(4).flat_map(lambda x: numbers(2) if int(x) % 3 else [][0]),
        [BAD, 0, 1, 0, 1, BAD],
    ),
    "flat_map whose functions all fail at first": (
        lambda: numbers(12).flat_map(lambda x: numbers(2) if int(x) > 10 else [][0]),
        [*[BAD] * 11, 0, 1],
    ),
    "interleave": (
        lambda: numbers(2).interleave(lambda x: numbers(3).map(lambda y: 6 // int(y)), cycle_length=2),
        [BAD, 6, BAD, 6, 3, 3],
    ),
    "choose": (
        lambda: Dataset.choose_from_datasets([python(), numbers(3).map(float)], numbers(6).map(lambda x: x % 2)),
        [1.0, 0.0, BAD, 1.0, 0.5, 2.0],
    ),
    "window": (
        lambda: python().window(2).flat_map(lambda one: one.batch(2)),
        [[1.0], BAD, [0.5], BAD, [0.25]],
    ),
    "generator": (lambda: Dataset.from_generator(generate), [1, BAD, 2, BAD]),
    "cache": (lambda: python().cache().repeat(2), [1.0, BAD, 0.5, BAD, 0.25] * 2),
    "unbatch": (lambda: native().batch(2).unbatch(), [1, BAD, 3, 4, BAD]),
    "ignored": (lambda: python().ignore_errors(), [1.0, 0.5, 0.25]),
    "ignored zip": (
        lambda: Dataset.zip((python(), Dataset.from_tensor_slices(GOOD))).ignore_errors(),
        [(1.0, 1.0), (0.5, 2.0), (0.25, 4.0)],
    ),
    "ignored zip of rows": (lambda: Dataset.zip((native(), numbers(9))).ignore_errors(), [(1, 0), (3, 2), (4, 3)]),
    "ignored batches": (lambda: python().batch(2).ignore_errors(), [[1.0], [0.5], [0.25]]),
    "ignored in a loop": (lambda: python().ignore_errors().shuffle(5, seed=1).repeat(2), None),
    "skipped zip": (
        lambda: Dataset.zip((python(), numbers(5))).with_options(Options(on_error="skip")),
        [(1.0, 0), (0.5, 2), (0.25, 4)],
    ),
    "skipped zip of rows": (
        lambda: Dataset.zip((native(), numbers(5))).with_options(Options(on_error="skip")),
        [(1, 0), (3, 2), (4, 3)],
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", CASES)
def test_goes_on_behind_an_error_and_from_each_saved_place(case):
    make, expected = CASES[case]
    with iter(make()) as it:
        all_events = events(it)
    assert all_events == expected or expected is None
    for index in range(len(all_events) + 1):
        with iter(make()) as it:
            assert events(it, index) == all_events[:index]
            state = json.loads(json.dumps(it.state_dict()))
        with iter(make()) as it:
            it.load_state_dict(state)
            assert events(it) == all_events[index:], (index, state["position"])
            # Its end is a place like any other.
            assert events(it) == []


def test_errors_name_what_they_are_about():
    with iter(python()) as it:
        next(it)
        with pytest.raises(qc.errors.PipelineError, match="element 1") as first:
            next(it)
        assert type(first.value.__cause__) is ZeroDivisionError
        assert float(next(it)) == 0.5
        with pytest.raises(qc.errors.PipelineError, match="element 3"):
            next(it)
        assert it.stats()["elements"] == 2
        assert not it.closed


def test_an_element_of_a_shuffled_batch_takes_only_itself_away():
    with iter(native().batch(2).shuffle(2, seed=1)) as it:
        seen = events(it)
    assert seen.count(BAD) == 2
    assert sorted(sum((one for one in seen if one != BAD), [])) == [1, 3, 4]


def test_the_order_of_a_shuffle_is_that_without_the_bad_records():
    texts_of = [str(n) if n % 7 else "bad" for n in range(60)]
    ds = Dataset.from_tensor_slices(texts_of).map(lambda x: qc.ops.decode_csv(x, [[0]])[0])
    with iter(ds.shuffle(9, seed=4)) as it:
        seen = events(it)
    with iter(ds.shuffle(9, seed=4).with_options(Options(on_error="skip"))) as it:
        assert [one for one in seen if one != BAD] == events(it)
    assert seen.count(BAD) == 9


@pytest.mark.parametrize("kind", ["lines", "TFRecords", "whole files"])
def test_a_place_behind_errors_alone(tmp_path, kind):
    files = [str(tmp_path / str(number)) for number in range(10)]
    for file, text in zip(files, ["1", "x", "2", "x", "3", "4", "5", "6", "7", "8"], strict=True):
        if kind == "TFRecords":
            with qc.writers.TFRecordWriter(file) as writer:
                writer.write(text.encode())
        else:
            pathlib.Path(file).write_text(text)
    records = {
        "lines": lambda: qc.data.TextLineDataset(files),
        "TFRecords": lambda: qc.data.TFRecordDataset(files),
        "whole files": lambda: qc.data.WholeFileDataset(files).map(lambda name, content: content),
    }[kind]
    ds = records().map(qc.ops.decode_csv(record_defaults=[[0]])).batch(3, drop_remainder=True)
    with iter(ds) as it:
        seen = [event[0] if isinstance(event, tuple) else event for event in events(it)]
    assert seen == [BAD, BAD, [3, 4, 5], [6, 7, 8]]
    it = iter(ds)
    for at in range(1, 5):
        events(it, 1)
        with iter(ds) as other:
            other.load_state_dict(json.loads(json.dumps(it.state_dict())))
            assert len(events(other)) == 4 - at
    it.close()


@pytest.mark.parametrize("seed", range(4))
def test_an_error_of_an_input_that_ends_a_shuffle_before_an_error_of_an_element(tmp_path, seed):
    """The input's error ends the shuffle while an element in its buffer can't be made: both errors come, each once."""
    (tmp_path / "a").write_text("0\n1\n2\nx\n4\nx\n")

    def make():
        texts = qc.data.TextLineDataset([str(tmp_path / "a"), str(tmp_path / "missing")])
        ds = Dataset.zip((texts, numbers(50))).map(lambda text, number: qc.ops.decode_csv(text, [[0]])[0])
        return ds.shuffle(4, seed).batch(2, drop_remainder=True)

    with iter(make()) as it:
        all_events = events(it)
    assert all_events.count(BAD) == 2
    assert all_events[-1] is qc.errors.NotFoundError
    it = iter(make())
    for at in range(len(all_events)):
        with iter(make()) as other:
            other.load_state_dict(json.loads(json.dumps(it.state_dict())))
            assert events(other) == all_events[at:]
        assert events(it, 1) == all_events[at : at + 1]
    it.close()


def test_a_state_with_errors_is_for_the_same_batches():
    it = iter(native().batch(2))
    assert events(it, 2) == [[1], BAD]
    state = it.state_dict()
    with iter(native().batch(3)) as other, pytest.raises(qc.errors.ResumeMismatchError, match="cut"):
        other.load_state_dict(state)
    it.close()


def test_states_name_errors_only_where_there_were_some():
    with iter(python().repeat()) as it:
        next(it)
        assert not {"handed", "breaks", "orders"} & it.state_dict()["position"].keys()


def test_many_errors_in_one_pass_leave_a_short_state():
    with iter(numbers(3000).map(lambda x: 1 // (int(x) % 2))) as it:
        assert events(it, 3000).count(BAD) == 1500
        assert len(it.state_dict()["position"]["handed"]) <= 1


@pytest.mark.parametrize("function", [iter, lambda ds: ds.batch(3).prefetch_to_device("cpu").__iter__()])
def test_a_function_is_not_called_again_for_elements_before_an_error(function):
    called = []

    def once(x):
        called.append(int(x))
        return np.int64(1) // (int(x) % 3 > 0)

    with function(numbers(9).map(once)) as it:
        events(it)
    assert sorted(called) == list(range(9))
