"""The tutorials' four kinds of iterators, against plain Python iterators and what TensorFlow does."""

import copy
import gc
import itertools
import json
import pickle
import threading

import numpy as np
import pytest
from helpers.data.chains import own, threads, write_files
from helpers.formats.example_messages import example, feature
from helpers.formats.tfrecords import stream
from helpers.process import AT_ONCE, PATIENCE, collect, open_descriptors, soon, thread_ids
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore._core.atoms.process import thread_count as native_thread_count
from queuecore.data import (
    ArraySpec,
    CsvDataset,
    FixedLengthRecordDataset,
    IteratorBase,
    Optional,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.errors import (
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    PipelineError,
    ResumeMismatchError,
)


@pytest.fixture(autouse=True)
def no_threads_of_an_earlier_test():
    # They may end late, and would be counted before and not after.
    collect()
    assert soon(lambda: native_thread_count() == 0, within=PATIENCE)


@pytest.fixture
def ds(tmp_path):
    """The numbers from 0 to 9."""
    return FixedLengthRecordDataset(write_files(tmp_path, [bytes(range(10))]), record="u1")


def ints(elements):
    return [int(one) for one in elements]


def lists(elements):
    return [one.tolist() for one in elements]


def remaining(it):
    """What get_next() still gives."""
    got = []
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        while True:
            got.append(int(it.get_next()))
    return got


def begun(ds, kind):
    """An iterator of a kind at the first element, and whatever has to live as long."""
    if kind == "iter":
        return iter(ds), None
    if kind == "one-shot":
        return ds.make_one_shot_iterator(), None
    if kind == "initializable":
        it = ds.make_initializable_iterator()
        it.initializer()
        return it, None
    if kind == "reinitializable":
        it = qc.data.Iterator.from_structure(ds.output_types, ds.output_shapes)
        it.make_initializer(ds)()
        return it, None
    beneath = iter(ds)
    return qc.data.Iterator.from_string_handle(beneath.string_handle(), ds.output_types, ds.output_shapes), beneath


KINDS = ["iter", "one-shot", "initializable", "reinitializable", "feedable"]
every_kind = pytest.mark.parametrize("kind", KINDS)


# -- all kinds ---------------------------------------------------------------------------------------------------------


@every_kind
def test_each_get_next_is_the_next_element(ds, kind):
    it, _beneath = begun(ds, kind)
    assert isinstance(it, IteratorBase)
    assert iter(it) is it
    assert (int(it.get_next()), int(next(it)), int(it.get_next_as_optional().get_value())) == (0, 1, 2)
    assert ints(it) == list(range(3, 10))


@every_kind
def test_the_end_is_the_end(ds, kind):
    it, _beneath = begun(ds.skip(8), kind)
    assert remaining(it) == [8, 9]
    for _ in range(3):
        with pytest.raises(OutOfRangeError):
            it.get_next()
        with pytest.raises(StopIteration):
            next(it)
        one = it.get_next_as_optional()
        assert not one.has_value()
        with pytest.raises(InvalidArgumentError):
            one.get_value()
        assert list(it) == []


@every_kind
def test_an_error_is_no_end(tmp_path, kind):
    paths = write_files(tmp_path, [b"abc"])
    it, _beneath = begun(FixedLengthRecordDataset([*paths, tmp_path / "missing"], record="u1"), kind)
    assert ints(it.get_next() for _ in range(3)) == list(b"abc")
    with pytest.raises(qc.errors.NotFoundError):
        it.get_next()
    for use in (it.get_next, it.get_next_as_optional, lambda: next(it)):
        with pytest.raises(FailedPreconditionError):
            use()


@every_kind
def test_what_they_say_of_elements(ds, kind):
    it, _beneath = begun(ds.batch(4), kind)
    assert it.element_spec == ArraySpec((None,), np.dtype("u1"))
    assert (it.output_types, it.output_shapes, it.output_classes) == (np.dtype("u1"), (None,), np.ndarray)


@every_kind
def test_they_pass_on_to_the_iterator_beneath(ds, kind):
    expected = lists(ds.shuffle(5, seed=3).batch(2))
    ds = ds.shuffle(5, seed=3).batch(2)
    it, _beneath = begun(ds, kind)
    got = [next(it).tolist(), next(it).tolist()]
    state = json.loads(json.dumps(it.state_dict()))
    assert it.stats()["elements"] == 2
    rest = lists(it)
    assert got + rest == expected
    it, _other = begun(ds, kind)
    it.load_state_dict(state)
    assert lists(it) == rest


@every_kind
def test_closing(ds, kind):
    before, descriptors = thread_ids(), open_descriptors()
    it, _beneath = begun(ds.repeat().batch(3), kind)
    with it as same:
        assert same is it
        next(it)
        assert thread_ids() - before
    assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: open_descriptors() <= descriptors)
    it.close()
    it.close(timeout=None)
    with pytest.raises(FailedPreconditionError):
        it.get_next()
    assert it.stats()["elements"] == 1


@every_kind
def test_dropped(ds, kind):
    before = thread_ids()
    it, beneath = begun(ds.repeat().batch(3), kind)
    next(it)
    handle = it.string_handle()
    gc.disable()  # no cycle: it ends where the last reference does
    try:
        del it, beneath
        assert soon(lambda: thread_ids() <= before)
    finally:
        gc.enable()
    with pytest.raises(InvalidArgumentError, match="no handle"):
        qc.data.Iterator.from_string_handle(handle, "u1").get_next()


@every_kind
def test_several_are_independent(ds, kind):
    pairs = [begun(threads(ds, number), kind) for number in (1, 2, 8)]
    for turn in range(9):
        for it, _ in pairs[: 1 + turn % 3]:
            it.get_next()
    assert [remaining(it) for it, _ in pairs] == [[9], [6, 7, 8, 9], [3, 4, 5, 6, 7, 8, 9]]


@every_kind
def test_they_cannot_be_pickled(ds, kind):
    it, _beneath = begun(ds, kind)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="state_dict"):
            way(it)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "initializable"])
def test_only_initializable_ones_have_an_initializer(ds, kind):
    it, _beneath = begun(ds, kind)
    with pytest.raises(ValueError, match="initializer") as caught:
        it.initializer()
    assert isinstance(caught.value, InvalidArgumentError)


def test_optional():
    assert Optional.from_value(None).has_value()
    assert Optional.from_value(None).get_value() is None
    assert repr(Optional.from_value(3)) == "Optional(3)"
    assert repr(Optional.empty()) == "Optional.empty()"


# -- one-shot ----------------------------------------------------------------------------------------------------------


def test_one_shot_is_what_iter_gives(ds):
    assert type(ds.make_one_shot_iterator()) is type(iter(ds)) is type(ds.as_numpy_iterator()) is qc.data.Iterator
    assert ints(ds.as_numpy_iterator()) == list(range(10))


# -- initializable -----------------------------------------------------------------------------------------------------


def uses(it):
    return [
        it.get_next,
        it.get_next_as_optional,
        lambda: next(it),
        it.stats,
        it.state_dict,
        lambda: it.load_state_dict({}),
    ]


def test_nothing_before_the_initializer(ds):
    it = ds.make_initializable_iterator()
    for use in [*uses(it), lambda: it.output_classes]:
        with pytest.raises(FailedPreconditionError, match="initializer"):
            use()
    it.close()
    with it:
        pass
    it.initializer()
    assert remaining(it) == list(range(10))


@pytest.mark.parametrize("taken", [0, 1, 9, 10, 11])
def test_the_initializer_restarts(ds, taken):
    it = ds.make_initializable_iterator()
    initializer = it.initializer
    for _ in range(3):
        assert initializer() is None
        assert ints(itertools.islice(it, taken)) == list(range(10))[:taken]
    it.initialize()
    assert remaining(it) == list(range(10))


def test_it_restarts_after_an_error_and_a_close(tmp_path):
    paths = write_files(tmp_path, [b"ab", b"c"])
    ds = FixedLengthRecordDataset(paths, record="u1")
    it = ds.make_initializable_iterator()
    paths[1].rename(tmp_path / "away")
    it.initializer()
    with pytest.raises(qc.errors.NotFoundError):
        list(it)
    (tmp_path / "away").rename(paths[1])
    it.initializer()
    assert remaining(it) == list(b"abc")
    it.close()
    it.initializer()
    assert remaining(it) == list(b"abc")


def test_each_start_is_a_pass_of_the_shuffle(ds):
    expected = ds.shuffle(10, seed=7)
    it = ds.shuffle(10, seed=7).make_initializable_iterator()
    for _ in range(4):
        it.initializer()
        assert ints(it) == ints(expected)


def test_a_restart_ends_the_threads_of_before(ds):
    before, descriptors = thread_ids(), open_descriptors()
    it = threads(ds.repeat().batch(4), 2).make_initializable_iterator()
    for _ in range(20):
        it.initializer()
        next(it)
    assert soon(lambda: len(thread_ids() - before) <= 2)
    it.close()
    assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: open_descriptors() <= descriptors)


def test_initialize_with_another_dataset(ds):
    it = ds.make_initializable_iterator()
    it.initialize(ds.skip(7))
    assert remaining(it) == [7, 8, 9]
    it.initialize(dataset=ds.take(2))
    assert remaining(it) == [0, 1]
    it.initializer()
    assert remaining(it) == list(range(10))
    it.initializer()
    next(it)
    for bad, error in [(ds.map(qc.ops.cast(dtype=np.int32)), DtypeError), (ds.batch(2), InvalidArgumentError)]:
        with pytest.raises(error):
            it.initialize(bad)
    for bad in ([1, 2], iter(ds), 3):
        with pytest.raises(InvalidArgumentError, match="Dataset"):
            it.initialize(bad)
    assert remaining(it) == list(range(1, 10))  # what is refused changes nothing


def test_iterators_of_a_shared_name_share_the_place(ds):
    it = ds.make_initializable_iterator(shared_name="test_shared")
    other = ds.skip(5).make_initializable_iterator("test_shared")
    apart, begun_apart = ds.make_initializable_iterator(""), ds.make_initializable_iterator("")
    begun_apart.initializer()
    with pytest.raises(FailedPreconditionError):
        other.get_next()
    it.initializer()
    assert (int(it.get_next()), int(other.get_next()), int(it.get_next())) == (0, 1, 2)
    other.initializer()
    assert (int(it.get_next()), int(other.get_next())) == (5, 6)
    with pytest.raises(FailedPreconditionError):
        apart.get_next()
    for misfit in (ds.batch(2), ds.map(qc.ops.cast(dtype=np.int32))):
        with pytest.raises(InvalidArgumentError, match="test_shared"):
            misfit.make_initializable_iterator(shared_name="test_shared")
    del it
    assert int(other.get_next()) == 7
    del other
    again = ds.batch(2).make_initializable_iterator(shared_name="test_shared")
    with pytest.raises(FailedPreconditionError):
        again.get_next()
    with pytest.raises(InvalidArgumentError):
        ds.make_initializable_iterator(shared_name=3)


# -- reinitializable ---------------------------------------------------------------------------------------------------


def test_nothing_before_the_first_switch(ds):
    it = qc.data.Iterator.from_structure(np.uint8)
    it.make_initializer(ds)
    for use in [*uses(it), lambda: it.output_classes]:
        with pytest.raises(FailedPreconditionError, match="make_initializer"):
            use()
    it.close()


def test_each_switch_begins_at_the_beginning(ds):
    it = qc.data.Iterator.from_structure(ds.output_types, ds.output_shapes)
    to = [it.make_initializer(ds), it.make_initializer(ds.skip(8)), it.make_initializer(ds.take(0))]
    expected = [list(range(10)), [8, 9], []]
    for which, taken in [(0, 3), (1, 1), (0, 20), (0, 2), (2, 1), (1, 5), (1, 1), (0, 4)]:
        assert to[which]() is None
        assert ints(itertools.islice(it, taken)) == expected[which][:taken]


def test_a_state_belongs_to_the_dataset_of_the_moment(ds):
    it = qc.data.Iterator.from_structure(np.uint8)
    initializer, other = it.make_initializer(ds), it.make_initializer(ds.skip(3))
    initializer()
    next(it)
    state = it.state_dict()
    other()
    with pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)
    assert int(next(it)) == 3
    initializer()
    it.load_state_dict(state)
    assert int(next(it)) == 1


BATCH, FULL = (None,), (2,)


# The dataset is numbers in batches of 2, of which the last is certain to be full or not.
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("types", "shapes", "full", "error"),
    [
        (np.uint8, BATCH, False, None),
        (np.uint8, None, False, None),
        (np.uint8, BATCH, True, None),
        (np.uint8, FULL, True, None),
        (np.uint8, FULL, False, None),
        ("u1", [2], True, None),
        (np.uint8, (3,), True, InvalidArgumentError),
        (np.uint8, (), True, InvalidArgumentError),
        (np.uint8, (None, None), False, InvalidArgumentError),
        (np.int64, BATCH, False, DtypeError),
        (bytes, BATCH, False, DtypeError),
        ((np.uint8,), None, False, DtypeError),
        ({"a": np.uint8}, None, False, DtypeError),
    ],
)
def test_what_fits_and_what_does_not(ds, types, shapes, full, error):
    it = qc.data.Iterator.from_structure(types, shapes)
    batches = ds.batch(2, drop_remainder=full)
    fed = qc.data.Iterator.from_string_handle((beneath := iter(batches)).string_handle(), types, shapes)
    if error is None:
        it.make_initializer(batches)()
        assert lists(it) == lists(fed) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
        return
    for use in (lambda: it.make_initializer(batches), fed.get_next, fed.get_next_as_optional):
        with pytest.raises(error) as caught:
            use()
        assert isinstance(caught.value, TypeError) == (error is DtypeError)
    assert beneath.stats()["elements"] == 0


def test_a_shape_that_only_the_data_shows(ds):
    # As TensorFlow: the element that doesn't fit is an error, and what comes after it comes.
    batches = ds.take(5).batch(2)
    it = qc.data.Iterator.from_structure(np.uint8, (2,))
    it.make_initializer(batches.repeat(2))()
    beneath = batches.make_initializable_iterator()
    beneath.initializer()
    fed = qc.data.Iterator.from_string_handle(beneath.string_handle(), np.uint8, (2,))
    again = ds.batch(2, drop_remainder=True).make_initializable_iterator()
    again.initialize(batches)
    for iterator in (it, fed, again):
        assert lists([iterator.get_next(), iterator.get_next()]) == [[0, 1], [2, 3]]
        with pytest.raises(InvalidArgumentError, match=r"\(2,\)"):
            iterator.get_next()
    assert int(it.get_next()[0]) == 0
    for iterator in (fed, again):
        with pytest.raises(OutOfRangeError):
            iterator.get_next()


def test_a_shape_of_which_nothing_is_known(ds):
    beneath = qc.data.Iterator.from_structure(np.uint8)
    fed = [
        qc.data.Iterator.from_string_handle(beneath.string_handle(), np.uint8, shape)
        for shape in ((), (2,), (None, None))
    ]
    assert fed[0].element_spec == ArraySpec((), np.dtype("u1"))
    beneath.make_initializer(ds)()
    assert int(fed[0].get_next()) == 0
    for it in fed[1:]:
        with pytest.raises(InvalidArgumentError):
            it.get_next()
    beneath.make_initializer(ds.batch(2))()
    assert fed[1].get_next().tolist() == [0, 1]
    for it in (fed[0], fed[2]):
        with pytest.raises(InvalidArgumentError):
            it.get_next()
    assert beneath.get_next().tolist() == [6, 7]


def test_shapes_in_a_structure_that_only_the_data_shows(tmp_path):
    record = np.dtype([("a", ">u2"), ("b", "S3"), ("c", "u1", (2,))])
    ds = FixedLengthRecordDataset(write_files(tmp_path, [bytes(21)]), record=record).batch(2)
    types = {"a": ">u2", "b": bytes, "c": np.uint8}  # strings of any length, a number in any order of its bytes
    for name, shape in (("a", (2,)), ("b", (2,)), ("c", (2, 2))):
        it = qc.data.Iterator.from_structure(types, {"a": None, "b": None, "c": (None, 2), name: shape})
        it.make_initializer(ds)()
        assert len(it.get_next()["a"]) == 2
        with pytest.raises(InvalidArgumentError, match=name):
            it.get_next()
    with pytest.raises(DtypeError):
        qc.data.Iterator.from_structure({**types, "b": "S2"}).make_initializer(ds)


@pytest.mark.parametrize("shapes", [None, {"b": (None,), "a": {"x": (None, 2)}}])
def test_nested_structures(tmp_path, shapes):
    record = np.dtype([("a", [("x", "<i2", (2,))]), ("b", "u1")])
    ds = FixedLengthRecordDataset(write_files(tmp_path, [bytes(range(20))]), record=record).batch(3)
    types = {"b": "u1", "a": {"x": np.int16}}
    it = qc.data.Iterator.from_structure(types, shapes)
    assert it.output_types == ds.output_types == {"a": {"x": np.dtype("i2")}, "b": np.dtype("u1")}
    assert it.output_shapes == (shapes or {"b": None, "a": {"x": None}})
    it.make_initializer(ds)()
    assert [one["b"].tolist() for one in it] == [[4, 9, 14], [19]]
    for bad in ({"b": "u1"}, {"b": "u1", "a": np.int16}, {"b": "u1", "a": {"x": np.int32}}, {**types, "c": "u1"}):
        with pytest.raises(DtypeError):
            qc.data.Iterator.from_structure(bad).make_initializer(ds)
    wrong = qc.data.Iterator.from_structure(types, {"b": None, "a": {"x": (None, 3)}})
    with pytest.raises(InvalidArgumentError, match=r"\['a'\]\['x'\]"):
        wrong.make_initializer(ds)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("types", "shapes", "error"),
    [
        ("no such type", None, DtypeError),
        (None, None, DtypeError),
        ([np.int32], None, DtypeError),
        ([], None, DtypeError),
        ([("a", "i4")], None, DtypeError),
        (np.dtype([("a", "i4")]), None, DtypeError),
        (np.dtype(("i4", (2,))), None, DtypeError),
        ((np.int32, "?!"), None, DtypeError),
        (np.int32, (-1,), InvalidArgumentError),
        (np.int32, (1.0,), InvalidArgumentError),
        (np.int32, (True,), InvalidArgumentError),
        (np.int32, "3", InvalidArgumentError),
        (np.int32, {"a": ()}, InvalidArgumentError),
        ((np.int32, np.int32), ((),), InvalidArgumentError),
        ((np.int32,), [()], InvalidArgumentError),
        ({"a": np.int32}, {"b": ()}, InvalidArgumentError),
        ({"a": np.int32}, ((),), InvalidArgumentError),
    ],
)
def test_bad_structures(types, shapes, error):
    with pytest.raises(error):
        qc.data.Iterator.from_structure(types, shapes)
    with pytest.raises(error):
        qc.data.Iterator.from_string_handle("any", types, shapes)


def test_not_a_dataset(ds):
    for bad in (None, iter(ds), [1], FixedLengthRecordDataset):
        with pytest.raises(InvalidArgumentError, match="Dataset"):
            qc.data.Iterator.from_structure(np.uint8).make_initializer(bad)


# -- feedable ----------------------------------------------------------------------------------------------------------


def test_feeding_loses_no_place(ds):
    train, test = iter(ds), ds.skip(6).make_initializable_iterator()
    test.initializer()
    handles = {"train": train.string_handle(), "test": test.string_handle()}
    pick = "train"
    it = qc.data.Iterator.from_string_handle(lambda: handles[pick], ds.output_types, ds.output_shapes)
    got = []
    for pick in ["train", "train", "test", "train", "test", "test", "train"]:  # noqa: B007
        got.append(int(it.get_next()))
    assert got == [0, 1, 6, 2, 7, 8, 3]
    pick = "test"
    assert remaining(it) == [9]
    test.initializer()
    assert remaining(it) == [6, 7, 8, 9]
    pick = "train"
    assert remaining(it) == [4, 5, 6, 7, 8, 9]


def test_each_that_is_fed_has_to_fit(ds):
    its = [iter(ds), iter(ds.map(qc.ops.cast(dtype=np.int32))), iter(ds.batch(2)), iter(ds)]
    which = 0
    it = qc.data.Iterator.from_string_handle(lambda: its[which].string_handle(), np.uint8, ())
    results = []
    for which, error in [(0, None), (1, DtypeError), (0, None), (2, InvalidArgumentError), (3, None), (1, DtypeError)]:  # noqa: B007
        if error is None:
            results.append(int(it.get_next()))
            continue
        for _ in range(2):
            with pytest.raises(error):
                it.get_next()
    assert results == [0, 1, 0]
    assert [one.stats()["elements"] for one in its] == [2, 0, 0, 1]


def test_handles(ds):
    its = [begun(ds, kind)[0] for kind in KINDS[:4]] + [iter(ds)]
    handles = [it.string_handle() for it in its]
    assert all(type(handle) is str for handle in handles)
    assert len(set(handles)) == 5
    assert handles == [it.string_handle() for it in its]
    fed = qc.data.Iterator.from_string_handle(lambda: handles[2], np.uint8)
    assert fed.string_handle() == handles[2]
    # One that is fed can be fed on.
    assert int(qc.data.Iterator.from_string_handle(fed.string_handle, np.uint8).get_next()) == 0
    assert int(fed.get_next()) == 1


@pytest.mark.parametrize("bad", ["", "abc", "queuecore.data.Iterator/1/0", "queuecore.data.Iterator", "a/b/c"])
def test_bad_handles(bad):
    for handle in (bad, lambda: bad):
        it = qc.data.Iterator.from_string_handle(handle, np.uint8)
        for use in [*uses(it), it.string_handle]:
            with pytest.raises(InvalidArgumentError, match="no handle"):
                use()
        it.close()


@pytest.mark.parametrize("bad", [None, 3, b"abc", ["a"]])
def test_handles_that_are_no_strings(bad):
    with pytest.raises(InvalidArgumentError):
        qc.data.Iterator.from_string_handle(bad, np.uint8)
    it = qc.data.Iterator.from_string_handle(lambda: bad, np.uint8)
    with pytest.raises(InvalidArgumentError, match="no handle"):
        it.get_next()


def test_a_callable_that_raises(ds):
    errors = [
        KeyError("a"),
        StopIteration(),
        ZeroDivisionError(),
        OutOfRangeError("not the data's end"),
        GeneratorExit(),
    ]
    beneath = iter(ds)
    queue = []

    def handle():
        if queue:
            raise queue.pop()
        return beneath.string_handle()

    it = qc.data.Iterator.from_string_handle(handle, np.uint8)
    for index, error in enumerate(errors):
        for use in (it.get_next, it.get_next_as_optional, lambda: next(it)):
            queue.append(error)
            with pytest.raises(PipelineError, match=type(error).__name__) as caught:
                use()
            assert caught.value.__cause__ is error
        assert int(it.get_next()) == index
    for error in (KeyboardInterrupt(), SystemExit(3)):
        queue.append(error)
        with pytest.raises(type(error)):
            it.get_next()


def test_fed_before_its_initializer(ds):
    beneath = ds.make_initializable_iterator()
    it = qc.data.Iterator.from_string_handle(beneath.string_handle(), np.uint8)
    with pytest.raises(FailedPreconditionError, match="initializer"):
        it.get_next()
    beneath.initializer()
    assert int(it.get_next()) == 0


def test_asked_once_for_each_element(ds):
    beneath = iter(ds)
    calls = []
    it = qc.data.Iterator.from_string_handle(lambda: calls.append(1) or beneath.string_handle(), np.uint8)
    assert ints(it) == list(range(10))
    assert len(calls) == 11


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["get", "optional", "next", "begin", "other", "close", "feed", "fed"]), st.integers(0, 5)
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, sizes=st.lists(st.integers(0, 6), min_size=2, max_size=2))
def test_any_use_of_any_kind(ds, steps, sizes):
    """Six iterators and one that is fed by them, against positions in lists."""
    first, second = (ds.take(size) for size in sizes)
    data = [list(range(size)) for size in sizes]
    its = [iter(first), first.make_one_shot_iterator()]
    its += [first.make_initializable_iterator() for _ in range(2)]
    its += [qc.data.Iterator.from_structure(np.uint8, ()) for _ in range(2)]
    state = [iter(data[0]), iter(data[0]), *[None] * 4]  # None: not begun; "closed"
    fed = 0
    feedable = qc.data.Iterator.from_string_handle(lambda: its[fed].string_handle(), np.uint8)
    for name, index in steps:
        it = its[index]
        if name == "feed":
            fed = index
        elif name == "close":
            it.close()
            # One that has said that it is at its end goes on saying so.
            state[index] = state[index] if state[index] in (None, "ended") else "closed"
        elif name in ("begin", "other"):
            dataset, content = (first, data[0]) if name == "begin" else (second, data[1])
            if index >= 4:
                it.make_initializer(dataset)()
            elif index >= 2:
                it.initialize(dataset if name == "other" else None)
            else:
                with pytest.raises(InvalidArgumentError):
                    it.initializer()
                continue
            state[index] = iter(content)
        else:
            if name == "fed":
                it, index = feedable, fed
            expected = state[index]
            if expected is None or expected == "closed":
                with pytest.raises(FailedPreconditionError):
                    it.get_next()
                continue
            value = None if expected == "ended" else next(expected, None)
            if value is None:
                state[index] = "ended"
            if name == "optional":
                one = it.get_next_as_optional()
                assert (int(one.get_value()) if one.has_value() else None) == value
            elif name == "next":
                got = next(it, None)
                assert (None if got is None else int(got)) == value
            elif value is None:
                with pytest.raises(OutOfRangeError):
                    it.get_next()
            else:
                assert int(it.get_next()) == value
    for it in its:
        it.close()


def test_each_in_a_thread_of_its_own(ds):
    results = {}

    def work(kind):
        it, _beneath = begun(ds.repeat(50).batch(7), kind)
        results[kind] = [own(one) for one in it]

    workers = [threading.Thread(target=work, args=(kind,)) for kind in KINDS]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(AT_ONCE * 20)
    expected = list(range(10)) * 50
    assert {kind: np.concatenate(got).tolist() for kind, got in results.items()} == dict.fromkeys(KINDS, expected)


# -- what datasets say of their elements -------------------------------------------------------------------------------


def leaves(structure):
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in leaves(structure[key])]
    if isinstance(structure, tuple):
        return [leaf for inner in structure for leaf in leaves(inner)]
    return [structure]


def skeleton(structure):
    if isinstance(structure, dict):
        return {key: skeleton(inner) for key, inner in structure.items()}
    return tuple(skeleton(inner) for inner in structure) if isinstance(structure, tuple) else None


def sources(folder):
    paths = {}
    examples = [
        example(
            a=feature(index),
            b=feature(*[b"x"] * index, kind=bytes),
            c=feature(*[0.5] * index, kind=np.float32),
            i=feature(*[0] * (index > 0), kind=np.int64),
        )
        for index in range(3)
    ]
    for name, content in {
        "numbers": bytes(range(60)),
        "lines": b"to\nbe\n\nor\n",
        "csv": b"1,a,0.5\n2,,1\n3,b,2\n",
        "examples": stream(examples),
    }.items():
        paths[name] = folder / name
        paths[name].write_bytes(content)
    record = np.dtype([("a", ">u2"), ("b", [("c", "S3"), ("d", "u1", (2, 2))]), ("e", "?")])
    features = {
        "a": qc.ops.FixedLenFeature((), np.int64),
        "b": qc.ops.VarLenFeature(bytes),
        "c": qc.ops.RaggedFeature(np.float32),
        "d": qc.ops.FixedLenSequenceFeature((), np.float32, allow_missing=True),
        "e": qc.ops.FixedLenFeature((2,), bytes, [b"p", b"q"]),
        "f": qc.ops.SparseFeature(["a"], "a", np.int64, [9]),
        "g": qc.ops.RaggedFeature(np.float32, "c", [qc.ops.RaggedFeature.UniformRowLength(1)]),
        "h": qc.ops.RaggedFeature(np.float32, "c", [qc.ops.RaggedFeature.RowStarts("i")]),
    }
    yield FixedLengthRecordDataset(paths["numbers"], 6)
    yield FixedLengthRecordDataset(paths["numbers"], record="<f4")
    yield FixedLengthRecordDataset(paths["numbers"], record=record)
    yield TextLineDataset(paths["lines"])
    yield WholeFileDataset([paths["lines"], paths["csv"]])
    yield CsvDataset(paths["csv"], [np.int32, b"none", np.float64])
    yield TFRecordDataset(paths["examples"])
    yield TFRecordDataset(paths["examples"]).map(qc.ops.parse_example(features=features))
    yield FixedLengthRecordDataset(paths["numbers"], 6).map(qc.ops.cast(dtype=np.float64))


ROWS = [[], [(2, False)], [(2, True)], [(1, True), (2, False)]]
EXAMPLES = 7  # no batches of batches of these: their columns differ in length


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("index", "batches"), [(index, rows) for index in range(9) for rows in ROWS if index != EXAMPLES or len(rows) < 2]
)
def test_elements_are_what_is_said_of_them(tmp_path, index, batches):
    ds = list(sources(tmp_path))[index]
    for size, drop in batches:
        ds = ds.batch(size, drop_remainder=drop)
    spec, types, shapes, classes = ds.element_spec, ds.output_types, ds.output_shapes, ds.output_classes
    assert skeleton(types) == skeleton(classes) == skeleton(spec)
    assert [(leaf.dtype, leaf.shape) for leaf in leaves(spec)] == list(
        zip(leaves(types), leaves_of_shapes(types, shapes), strict=True)
    )
    count = 0
    with iter(ds) as it:
        assert (it.output_types, it.output_shapes, it.output_classes) == (types, shapes, classes)
        for element in it:
            count += 1
            assert skeleton(element) == skeleton(spec)
            for leaf, one in zip(leaves(spec), zip(leaves(element), leaves(classes), strict=True), strict=True):
                value, kind = one
                assert type(value) is kind
                check(value, leaf)
    assert count > 0
    # What they say is what a reinitializable iterator takes.
    again = qc.data.Iterator.from_structure(types, shapes)
    assert again.element_spec == spec
    again.make_initializer(ds)()
    assert sum(1 for _ in again) == count
    assert again.output_classes == classes


def leaves_of_shapes(types, shapes):
    """Shapes are tuples themselves: the types say where the structure ends."""
    if isinstance(types, dict):
        return [leaf for key in sorted(types) for leaf in leaves_of_shapes(types[key], shapes[key])]
    if isinstance(types, tuple):
        return [leaf for one, shape in zip(types, shapes, strict=True) for leaf in leaves_of_shapes(one, shape)]
    return [shapes]


def check(value, spec):
    if isinstance(value, bytes) and not isinstance(value, np.bytes_):
        assert spec == ArraySpec((), np.dtype("S"))
    elif isinstance(value, qc.Ragged):
        assert spec.dtype == value.dtype
        assert spec.shape[0] in (None, len(value))
    elif isinstance(value, qc.Sparse):
        assert spec.dtype == value.values.dtype
        assert len(spec.shape) == len(value.dense_shape)
    else:
        assert spec.dtype == value.dtype
        assert len(spec.shape) == value.ndim
        assert all(side in (None, there) for side, there in zip(spec.shape, value.shape, strict=True))
