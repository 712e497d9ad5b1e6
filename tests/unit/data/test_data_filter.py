"""Filters, native and in Python, and elements that are left out because of errors."""

import gc
import json
import logging
import os
import struct

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.data.functions import check_resume, in_python, plain, pulled
from helpers.data.nodes import KINDS, Handed, made, numbers, value
from helpers.formats.tfrecords import stream
from helpers.process import PATIENCE, soon, thread_ids
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.data import UNKNOWN_CARDINALITY, ArraySpec, Dataset, Options
from queuecore.data._plan import explain
from queuecore.errors import InvalidArgumentError, PipelineError


def thirds(x):
    return x % 3 == 0


def thirds_in_python(x):
    return bool(int(x) % 3 == 0)


def is_native(ds):
    return ds._chain.source.predicate.native is not None


BOTH = [thirds, thirds_in_python]


def test_which_ones_are_native():
    assert is_native(numbers(9).filter(thirds))
    assert not is_native(numbers(9).filter(thirds_in_python))
    assert not is_native(numbers(9).batch(2).filter(lambda x: (x >= 0).all()))


def test_the_plan_says_where():
    native, python = (numbers(9).filter(one).plan().splitlines()[0] for one in BOTH)
    assert native.split() == ["native", "filter(thirds):", "chooses", "rows"]
    assert "Python" in python
    assert "thirds_in_python" in python
    plan = numbers(9).map(thirds_in_python, 3).batch(2).plan().splitlines()
    assert plan[0].startswith("Python  batch(2, False)")
    assert plan[1].startswith("Python      map(thirds_in_python)")
    assert "3 threads" in plan[1]
    assert "int(x)" in plan[1]  # what forced it
    assert "from_generator(counting)" in Dataset.from_generator(counting).plan()


@pytest.mark.parametrize("predicate", BOTH)
@pytest.mark.parametrize("number", THREADS)
def test_what_is_left(predicate, number):
    ds = threads(numbers(40_000), number).filter(predicate)
    assert [plain(x) for x in threads(ds, number)] == list(range(0, 40_000, 3))
    assert ds.cardinality() == UNKNOWN_CARDINALITY
    assert ds.element_spec == ArraySpec((), np.dtype("i8"))
    assert [plain(x) for x in numbers(0).filter(predicate)] == []
    assert [plain(x) for x in numbers(3).skip(1).filter(predicate)] == []


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 80),
    before=st.sampled_from(["", "repeat", "take", "skip", "batch"]),
    answers=st.lists(st.booleans(), min_size=1, max_size=12),
    native=st.booleans(),
    skip=st.integers(0, 10),
    take=st.integers(-1, 30),
    repeat=st.integers(0, 3),
    batch=st.integers(1, 9),
    number=st.sampled_from(THREADS),
)
def test_against_a_model(count, before, answers, native, skip, take, repeat, batch, number):
    ds, once = numbers(count), list(range(count))
    if before == "repeat":
        ds, once = ds.repeat(2), once * 2
    elif before == "take":
        ds, once = ds.take(7), once[:7]
    elif before == "skip":
        ds, once = ds.skip(7), once[7:]
    elif before == "batch":
        ds, once = ds.batch(4, True), [list(range(i, i + 4)) for i in range(0, count - 3, 4)]
    table = np.array(answers)
    if before == "batch":
        ds = ds.filter(in_python(lambda b: table[b[0] % len(table)]))
        once = [part for part in once if answers[part[0] % len(answers)]]
    elif native:
        sizes = [index for index, answer in enumerate(answers) if answer]
        rest = len(answers)
        ds = ds.filter(lambda x: sum([(x % rest == index) * 1 for index in sizes], x * 0) > 0)
        assert is_native(ds)
        once = [n for n in once if answers[n % rest]]
    else:
        ds = ds.filter(in_python(lambda x: table[x % len(table)]))
        once = [n for n in once if answers[n % len(answers)]]
    expected = once[skip:]
    expected = (expected if take < 0 else expected[:take]) * repeat
    ds = ds.skip(skip).take(take).repeat(repeat)
    if before == "batch":
        assert [plain(x) for x in threads(ds, number)] == expected
    else:
        parts = [expected[i : i + batch] for i in range(0, len(expected), batch)]
        assert [plain(x) for x in threads(ds.batch(batch), number)] == parts


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("number", THREADS)
def test_elements_of_every_kind(native, number):
    ds = threads(made(Handed((), 120, KINDS)), number)

    def look(fixed, string, strings, ragged, dense):
        index = int(fixed[0])
        assert fixed.tolist() == value("fixed", index).tolist()
        assert string == value("string", index)
        assert plain(strings) == value("strings", index)
        assert ragged.tolist() == value("ragged", index).tolist()
        assert dense.tolist() == value("dense", index).tolist()
        assert (ragged.dtype, dense.dtype) == (np.float32, np.int16)
        return index % 5 == 1

    ds = ds.filter((lambda *parts: parts[0][0] % 5 == 1) if native else look)
    assert is_native(ds) == native
    got = [plain(x) for x in threads(ds, number)]
    index = list(range(1, 120, 5))
    for kind, column in zip(KINDS, zip(*got, strict=True), strict=True):
        assert list(column) == [plain(value(kind, i)) for i in index]


@pytest.mark.parametrize("predicate", BOTH)
def test_elements_of_records(tmp_path, predicate):
    record = np.dtype([("label", ">u2"), ("inner", [("x", "<f4", (2,)), ("flag", "?")])])
    rows = np.zeros(50, record)
    rows["label"] = range(50)
    rows["inner"]["x"] = np.random.default_rng(0).random((50, 2))
    rows["inner"]["flag"] = rows["label"] % 2 == 1
    files = write_files(tmp_path, [rows.tobytes()])
    elements = []

    def look(element):
        elements.append(plain(element))
        return predicate(element["label"])

    ds = dataset(files, record)
    expected = [plain(x) for x in ds]
    got = [plain(x) for x in ds.filter(look)]
    assert got == expected[::3]
    if predicate is thirds_in_python:
        assert elements[-50:] == expected
    kept = ds.filter(lambda element: element["inner"]["flag"]).batch(10)
    assert kept.element_spec == ds.batch(10).element_spec
    assert [x["label"].tolist() for x in kept] == [list(range(i + 1, min(i + 20, 50), 2)) for i in range(0, 50, 20)]


@pytest.mark.parametrize("predicate", BOTH)
def test_a_shuffle_before_it_goes_through_its_orders(tmp_path, predicate):
    files = write_files(tmp_path, [bytes(range(60))])
    shuffled = dataset(files, "u1").shuffle(10, seed=4)
    passes = [[plain(x) for x in shuffled] for _ in range(3)]
    ds = dataset(files, "u1").shuffle(10, seed=4).filter(predicate)
    for first in (0, 2):
        got = [plain(x) for x in ds.repeat(2 if first == 0 else 1)]
        assert got == [x for one in passes[first : first + 2] for x in one if x % 3 == 0]


def test_filters_behind_each_other_and_maps():
    ds = numbers(200).filter(lambda x: x % 2 == 0).map(lambda x: x + 1).filter(in_python(lambda x: bool(x % 3 == 0)))
    ds = (
        ds.filter(lambda x: x % 5 == 0).map(in_python(lambda x: int(x) * 10)).filter(in_python(lambda x: bool(x > 200)))
    )
    expected = [x * 10 for x in (y + 1 for y in range(0, 200, 2)) if x % 15 == 0 and x > 20]
    assert [plain(x) for x in ds] == expected


@pytest.mark.thorough
@pytest.mark.parametrize("predicate", BOTH)
def test_a_saved_place(tmp_path, predicate):
    elements = check_resume(lambda: numbers(40).filter(predicate).repeat(2))
    assert elements == list(range(0, 40, 3)) * 2
    files = write_files(tmp_path, [bytes(range(40))])
    check_resume(
        lambda: dataset(files, "u1").shuffle(7, seed=1).filter(predicate).shuffle(3, seed=2).repeat(2).batch(3)
    )
    check_resume(lambda: numbers(33).batch(2).filter(in_python(lambda b: bool(b[0] % 3))).repeat(2))


def test_a_state_of_another_predicate():
    with iter(numbers(40).filter(thirds)) as it:
        next(it)
        state = it.state_dict()
    for other in (thirds_in_python, lambda x: x % 3 == 1):
        with iter(numbers(40).filter(other)) as it, pytest.raises(qc.errors.ResumeMismatchError):
            it.load_state_dict(state)


@pytest.mark.parametrize(
    "answer", [1, 0, None, "yes", [True], np.array([True]), np.float64(1), (True,)], ids=lambda answer: repr(answer)
)
def test_answers_that_are_none(answer):
    got, error = pulled(numbers(9).filter(in_python(lambda x: answer if x == 4 else True)))
    assert got == [0, 1, 2, 3]
    assert isinstance(error, InvalidArgumentError)
    assert "one bool" in str(error)
    assert "element 4" in str(error)
    with iter(
        numbers(9).filter(in_python(lambda x: answer if x == 4 else True)).with_options(Options(on_error="skip"))
    ) as it:
        assert [plain(x) for x in it] == [0, 1, 2, 3, 5, 6, 7, 8]
        assert it.stats()["skipped"] == 1


@pytest.mark.parametrize("answer", [True, False, np.True_, np.array(True)])
def test_answers_that_are_some(answer):
    assert len(list(numbers(9).filter(in_python(lambda x: answer)))) == 9 * bool(answer)


def test_what_is_known_to_be_no_bool():
    with pytest.raises(InvalidArgumentError, match="one bool"):
        numbers(9).filter(lambda x: x + 1)
    with pytest.raises(ValueError, match="one bool"):
        made(Handed((), 9, ("fixed",))).filter(lambda x: x > 0)
    with pytest.raises(InvalidArgumentError, match="filter"):
        numbers(9).filter(True)


@pytest.mark.parametrize("batch", [None, 4])
def test_an_error_comes_in_its_place(batch):
    def predicate(x):
        if x == 50:
            raise StopIteration
        return int(x) % 2 == 0

    ds = numbers(100).filter(predicate)
    got, error = pulled(ds if batch is None else ds.batch(batch))
    assert (got if batch is None else sum(got, [])) == list(range(0, 50, 2))
    assert isinstance(error, PipelineError)
    assert isinstance(error.__cause__, StopIteration)
    assert (error.stage, error.record) == ("filter", 50)


def test_threads_end_with_the_iterator():
    gc.collect()
    before = thread_ids()
    for predicate in (lambda x: x < 0, in_python(lambda x: False)):  # nothing ever comes
        it = iter(numbers(100).repeat().filter(predicate).prefetch(1))
        it.close(0.1)
        it = iter(numbers(100).map(in_python(lambda x: x)).repeat().filter(in_python(lambda x: bool(x < 50))))
        for _ in range(120):
            next(it)
        del it
    gc.collect()
    assert soon(lambda: thread_ids() <= before)


def test_a_filter_that_nothing_passes_can_be_closed():
    import threading

    gc.collect()
    before = thread_ids()
    it = iter(numbers(100).repeat().filter(in_python(lambda x: False)))
    closer = threading.Timer(0.2, it._stop)
    closer.start()
    with pytest.raises(qc.errors.FailedPreconditionError):
        next(it)
    it.close()
    closer.join()
    assert soon(lambda: thread_ids() <= before, PATIENCE)


# ---- errors that are left out ----------------------------------------------------------------------------------------


def sevenths_fail(x):
    if int(x) % 7 == 3:
        raise ValueError(f"no {x}")
    return int(x)


GOOD = [x for x in range(50) if x % 7 != 3]


@pytest.mark.thorough
@pytest.mark.parametrize("calls", [None, 3])
def test_functions_that_raise_are_left_out(calls):
    ds = numbers(50).map(sevenths_fail, calls).ignore_errors()
    assert [plain(x) for x in ds] == GOOD
    assert [plain(x) for x in ds.batch(10)] == [GOOD[i : i + 10] for i in range(0, len(GOOD), 10)]
    assert ds.cardinality() == UNKNOWN_CARDINALITY
    assert check_resume(lambda: numbers(50).map(sevenths_fail, calls).ignore_errors().repeat(2)) == GOOD * 2


def test_it_holds_for_what_is_before_it():
    got, error = pulled(numbers(50).map(sevenths_fail).ignore_errors().map(in_python(lambda x: 1 // (int(x) - 5))))
    assert len(got) == 4
    assert isinstance(error.__cause__, ZeroDivisionError)
    ds = (
        numbers(50)
        .filter(lambda x: x < 40)
        .map(sevenths_fail)
        .filter(in_python(lambda x: bool(1 // (30 - int(x)) < 9)))
    )
    assert [plain(x) for x in ds.ignore_errors()] == [x for x in GOOD if x < 40 and x != 30]


def test_damaged_records_are_left_out(tmp_path):
    records = [struct.pack("<q", n) for n in range(60)]
    data = bytearray(stream(records))
    for n in (5, 17, 59):
        data[n * 24 + 14] ^= 1  # 12 bytes of header, 8 of data, 4 of checksum
    (tmp_path / "a").write_bytes(data)
    ds = qc.data.TFRecordDataset([tmp_path / "a", tmp_path / "none"]).ignore_errors()
    expected = [one for n, one in enumerate(records) if n not in (5, 17, 59)]
    for number in THREADS:
        assert list(threads(ds, number)) == expected
        assert [len(x) for x in threads(ds.batch(50), number)] == [50, 7]
    assert [plain(x) for x in check_resume(lambda: ds.repeat(2), 80)] == (expected * 2)[:80]


@pytest.mark.thorough
@pytest.mark.parametrize("native", [True, False])
def test_damaged_records_under_a_filter(tmp_path, native):
    data = bytearray(stream([struct.pack("<q", n) for n in range(600)]))
    for n in (5, 17, 400):
        data[n * 24 + 14] ^= 1
    (tmp_path / "a").write_bytes(data)
    even = (lambda x: x[0] % 2 == 0) if native else in_python(lambda x: bool(x[0] % 2 == 0))
    ds = qc.data.TFRecordDataset(tmp_path / "a").map(qc.ops.decode_raw(out_type="<i8", fixed_length=8)).filter(even)
    expected = [[n] for n in range(0, 600, 2) if n != 400]
    for number in THREADS:
        got, error = pulled(threads(ds, number))
        assert got == [[0], [2], [4]]
        assert isinstance(error, qc.errors.ChecksumError)
        with iter(threads(ds, number).with_options(Options(on_error="skip"))) as it:
            assert [plain(x) for x in it] == expected
            assert it.stats()["skipped"] == 3
        assert [plain(x) for x in threads(ds, number).ignore_errors()] == expected
    assert check_resume(lambda: ds.with_options(Options(on_error="skip")).take(50)) == expected[:50]


def test_warnings_in_the_log(caplog):
    with caplog.at_level(logging.WARNING, "queuecore"):
        assert [plain(x) for x in numbers(20).map(sevenths_fail).ignore_errors()] == [x for x in GOOD if x < 20]
        assert not caplog.records
        list(numbers(20).map(sevenths_fail).ignore_errors(log_warning=True))
    assert len(caplog.records) == 3
    assert "no 3" in caplog.text
    with pytest.raises(InvalidArgumentError, match="log_warning"):
        numbers(3).ignore_errors("yes")


def test_faults_of_the_machine_are_not_left_out():
    def function(x):
        if x == 5:
            raise MemoryError
        return int(x)

    got, error = pulled(numbers(9).map(function).ignore_errors())
    assert got == [0, 1, 2, 3, 4]
    assert isinstance(error.__cause__, MemoryError)


def test_options_leave_functions_that_raise_out(tmp_path):
    log = tmp_path / "log"
    options = Options(on_error="skip", quarantine=log)
    for calls in (None, 3):
        with iter(numbers(50).map(sevenths_fail, calls).with_options(options)) as it:
            assert [plain(x) for x in it] == GOOD
            assert it.stats()["skipped"] == 7
    assert log.read_text().count("PipelineError") == 14
    got, error = pulled(numbers(50).map(sevenths_fail).with_options(Options(on_error="skip", max_skips=3)))
    assert got == [x for x in GOOD if x < 24]
    assert isinstance(error.__cause__, ValueError)
    elements = check_resume(lambda: numbers(30).map(sevenths_fail, 2).with_options(Options(on_error="skip")).repeat(2))
    assert elements == [x for x in GOOD if x < 30] * 2


# ---- generators ------------------------------------------------------------------------------------------------------


def counting(n=10):
    for x in range(n):
        yield x, float(x), f"{x}"


def test_a_generator_begins_anew_for_each_pass():
    begun = []

    def generate():
        begun.append(1)
        yield from range(5)

    ds = Dataset.from_generator(generate)
    assert not begun
    assert [plain(x) for x in ds.repeat(3)] == list(range(5)) * 3
    assert len(begun) == 3
    assert [plain(x) for x in ds] == list(range(5))
    assert ds.cardinality() == UNKNOWN_CARDINALITY
    assert [plain(x) for x in Dataset.from_generator(lambda: iter(())).repeat(3)] == []
    assert [plain(x) for x in Dataset.from_generator(lambda: [1, 2])] == [1, 2]


@pytest.mark.parametrize("number", THREADS)
def test_elements_of_generators(number):
    ds = threads(Dataset.from_generator(counting), number)
    assert [plain(x) for x in ds] == [(x, float(x), b"%d" % x) for x in range(10)]
    assert [plain(x) for x in ds.batch(4)][2] == ([8, 9], [8.0, 9.0], [b"8", b"9"])
    assert ds.element_spec == (
        ArraySpec((), np.dtype("i8")),
        ArraySpec((), np.dtype("f8")),
        ArraySpec((), np.dtype("S")),
    )
    typed = threads(Dataset.from_generator(counting, (np.int32, np.float32, bytes), args=(7,)), number)
    assert [plain(x) for x in typed] == [(x, float(x), b"%d" % x) for x in range(7)]
    assert [one.dtype for one in next(iter(typed))[:2]] == [np.int32, np.float32]
    shuffled = [plain(x[0]) for x in threads(Dataset.from_generator(counting).shuffle(5, seed=1), number)]
    assert shuffled == [plain(x) for x in numbers(10).shuffle(5, seed=1)]


def test_arguments_of_generators_are_arrays():
    arguments = []

    def generate(*args):
        arguments.extend(args)
        return [0]

    given = np.array([1, 2])
    list(Dataset.from_generator(generate, args=(3, given, "x", [1.5])))
    assert [type(one) for one in arguments] == [np.ndarray, np.ndarray, bytes, np.ndarray]
    assert plain(tuple(arguments)) == (3, [1, 2], b"x", [1.5])
    assert arguments[1] is not given


def test_a_saved_place_of_a_generator():
    assert len(check_resume(lambda: Dataset.from_generator(counting).repeat(2))) == 20
    check_resume(lambda: Dataset.from_generator(counting, args=[13]).shuffle(4, seed=2).batch(3).repeat(2))


@pytest.mark.parametrize(
    ("value", "types"),
    [
        (1.5, np.int32),
        (2**40, np.int32),
        (-1, np.uint8),
        ("x", np.int32),
        (1, bytes),
        ([1, 2], (np.int32, np.int32, np.int32)),
        (1, (np.int32,)),
        ({"a": 1}, {"b": np.int32}),
        (1j, np.float64),
        (None, np.int32),
        ({"a": None}, {"a": np.int32}),
    ],
)
def test_values_of_another_type(value, types):
    good = {"b": 0} if isinstance(types, dict) and "b" in types else {"a": 0} if isinstance(types, dict) else None
    good = (0,) * len(types) if isinstance(types, tuple) else b"" if types is bytes else 0 if good is None else good
    ds = Dataset.from_generator(lambda: [good, good, value, good], types)
    got, error = pulled(ds)
    assert got == [good, good]
    assert isinstance(error, InvalidArgumentError)
    assert (error.stage, error.record) == ("from_generator", 2)
    assert [plain(x) for x in ds.ignore_errors()] == [good] * 3


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "f4"),
        (True, "i4"),
        (3, "u1"),
        (1.0, "f2"),
        (2, "c8"),
        ([1, 2], "f8"),
        (np.float64(2), "f4"),
        (np.int64(5), "i1"),
        ([], "i4"),
    ],
)
def test_values_that_fit(value, dtype):
    (got,) = Dataset.from_generator(lambda: [value], np.dtype(dtype))
    assert got.dtype == np.dtype(dtype)
    assert np.array_equal(got, value)


def test_shapes():
    spec = (
        ArraySpec((None, 2), np.dtype("f4")),
        {"a": ArraySpec((), np.dtype("S")), "b": ArraySpec((3,), np.dtype("i8"))},
    )
    good = (np.zeros((4, 2)), {"b": [1, 2, 3], "a": "x"})
    ds = Dataset.from_generator(lambda: [good], output_signature=spec)
    assert ds.element_spec == spec
    assert plain(next(iter(ds))) == ([[0.0, 0.0]] * 4, {"a": b"x", "b": [1, 2, 3]})
    for bad in (
        (np.zeros((4, 3)), good[1]),
        (np.zeros(2), good[1]),
        (good[0], {"a": "x", "b": [1, 2]}),
        (good[0], {"a": ["x"], "b": [1, 2, 3]}),
    ):
        got, error = pulled(Dataset.from_generator(lambda bad=bad: [good, bad], output_signature=spec))
        assert len(got) == 1
        assert isinstance(error, InvalidArgumentError)
        assert "shape" in str(error)
    ds = Dataset.from_generator(lambda: [[1]], np.int32, [None])
    assert ds.element_spec == ArraySpec((None,), np.dtype("i4"))
    assert [plain(x) for x in ds] == [[1]]
    assert pulled(Dataset.from_generator(lambda: [1], np.int32, [None]))[0] == []


@pytest.mark.parametrize("cause", [ValueError("x"), StopIteration(), MemoryError(), GeneratorExit()])
@pytest.mark.parametrize("position", [0, 3])
def test_a_generator_that_raises(cause, position):
    class Numbers:
        def __iter__(self):
            self.n = 0
            return self

        def __next__(self):
            self.n += 1
            if self.n > position:
                raise cause
            return self.n

    results, error = pulled(Dataset.from_generator(Numbers))
    assert results == list(range(1, position + 1))
    if isinstance(cause, StopIteration):  # that is the end
        assert error is None
        return
    assert isinstance(error, PipelineError)
    assert error.__cause__ is cause
    assert type(cause).__name__ in str(error)

    def at_once():
        raise cause

    assert isinstance(pulled(Dataset.from_generator(at_once))[1], PipelineError)
    if not isinstance(cause, MemoryError):
        assert pulled(Dataset.from_generator(Numbers).ignore_errors()) == (results, None)


@pytest.mark.parametrize("end", ["drop", "close", "exhaust"])
def test_a_generator_is_closed_when_the_iterator_goes(end):
    gc.collect()
    before = thread_ids()
    closed = []

    def generate():
        try:
            while True:
                yield 1
        finally:
            closed.append(1)

    ds = Dataset.from_generator(generate)
    it = iter(ds.take(5) if end == "exhaust" else ds)
    for _ in range(5):
        next(it)
    if end == "close":
        it.close()
    elif end == "exhaust":
        assert next(it, None) is None
    else:
        del it
        gc.collect()
    assert soon(lambda: closed == [1])
    assert soon(lambda: thread_ids() <= before)


def test_a_generator_that_uses_its_own_iterator():
    box = []

    def generate():
        yield 1
        yield next(box[0])

    it = iter(Dataset.from_generator(generate).map(in_python(lambda x: x)))
    box.append(it)
    assert next(it) == 1
    with pytest.raises(PipelineError) as caught:
        next(it)
    assert isinstance(caught.value.__cause__, qc.errors.FailedPreconditionError)
    box.clear()


def test_bad_arguments_of_from_generator():
    with pytest.raises(TypeError, match="callable"):
        Dataset.from_generator(counting())
    with pytest.raises(qc.errors.DtypeError):
        Dataset.from_generator(counting, "no dtype")
    with pytest.raises(qc.errors.DtypeError):
        Dataset.from_generator(counting, object)
    with pytest.raises(InvalidArgumentError):
        Dataset.from_generator(counting, output_shapes=())
    with pytest.raises(InvalidArgumentError):
        Dataset.from_generator(counting, np.int32, output_signature=ArraySpec((), np.dtype("i4")))
    with pytest.raises(InvalidArgumentError):
        Dataset.from_generator(counting, (np.int32, np.int32), ((),))
    with pytest.raises(InvalidArgumentError):
        Dataset.from_generator(counting, np.int32, "x")
    with pytest.raises(qc.errors.DtypeError):
        Dataset.from_generator(counting, output_signature=[1])


@pytest.mark.parametrize("wrong", [lambda x: (x > 3,), lambda x: {"a": x > 3}, lambda x: [x > 3]])
def test_one_bool_in_something_is_none(wrong):
    with pytest.raises(InvalidArgumentError, match="one bool"):
        list(qc.data.Dataset.range(5).filter(wrong))


def test_a_reason_points_into_the_users_code():
    # Not into json, which is where the trace ends, and not with more of the line than can be read.
    plan = Dataset.range(3).map(lambda x: json.loads(str(int(x)))).plan()
    assert "test_data_filter.py:" in plan
    assert "__init__.py" not in plan
    plan = Dataset.from_tensor_slices([b"1"]).map(lambda x: json.loads(x)).plan()
    assert ", in json.loads() (test_data_filter.py:" in plan
    assert "__init__.py" not in plan
    plan = Dataset.from_tensor_slices([b"1"]).map(lambda x: os.path.basename(x)).plan()
    assert ", in posixpath.basename() (test_data_filter.py:" in plan
    plan = Dataset.range(3).map(lambda x: json.loads("1")).plan()
    assert "test_data_filter.py:" in plan
    assert "decoder.py" not in plan
    assert max(map(len, plan.splitlines())) < 300


def test_the_plan_has_only_steps_that_make_elements():
    ds = Dataset.range(9).permute(seed=1)
    assert [line.partition(":")[0].split() for line in ds.plan().splitlines()] == [
        ["Python", "permute"],
        ["Python", "range(0,", "9)"],
    ]
    for hidden in ("seeds", "permute(True)"):
        assert hidden not in ds.plan()
        assert hidden not in repr(ds)
    assert "seeds" not in Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(3)], seed=1).plan()


def test_the_plan_says_first_where_a_step_runs():
    ds = Dataset.range(9).map(lambda x: x + 1).batch(2).map(lambda x: json.loads("1")).prefetch(2)
    lines = ds.plan().splitlines()
    assert [line[:8] for line in lines] == ["native  ", "Python  ", "native  ", "native  ", "Python  "]
    assert [line.split()[1].partition("(")[0] for line in lines] == ["prefetch", "map", "batch", "map", "range"]


@pytest.mark.parametrize("columns", [40, 79, 200])
def test_the_plan_fits_the_terminal(monkeypatch, columns):
    ds = Dataset.range(9).map(lambda x: x * 2 + 1 - x * x * x).batch(2).map(lambda x: json.loads("1")).batch(3)
    plan = ds.plan()  # no terminal
    assert max(map(len, plan.splitlines())) > 100
    monkeypatch.setattr(explain, "terminal_width", lambda: columns)
    lines = ds.plan().splitlines()
    assert max(map(len, lines)) <= columns
    # Nothing else is changed: what is broken goes on further in.
    assert "".join(lines).split() != [] and "".join("".join(lines).split()) == "".join(plan.split())


def test_functions_of_numpy_show_as_themselves():
    # stack is made of several steps; what a saved place compares names these, as before.
    ds = Dataset.range(4).map(
        lambda x: {"a": np.stack([x, x + 1, np.int64(7)]), "b": np.stack([x, x], -1), "c": [x, x]}
    )
    (line,) = [line for line in ds.plan().splitlines() if "map" in line]
    assert "'a': stack([x0, add(x0, int64(1)), int64(7)])" in line
    assert "stack([x0, x0], -1)" in line
    assert "'c': [x0, x0]" in line
    assert "where" not in line
    with iter(ds) as it:
        assert "where" in str(it.state_dict())
    assert [one["a"].tolist() for one in ds.take(2)] == [[0, 1, 7], [1, 2, 7]]
