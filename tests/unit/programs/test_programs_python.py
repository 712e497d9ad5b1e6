"""Functions of the user's as steps of a program: Python's, and compiled ones."""

import contextlib
import ctypes
import itertools
import os
import sys
import threading
import time

import numpy as np
import pytest
from helpers.process import AT_ONCE, PATIENCE, soon, thread_ids
from helpers.queues.counts import counts_of
from helpers.queues.drain import drain
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore._elements.component import BYTES
from queuecore.errors import (
    DecodeError,
    DtypeError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PipelineError,
    UnimplementedError,
)
from queuecore.ops import Component, Stage

U8, F4, F8, I4 = (np.dtype(word) for word in ("u1", "f4", "f8", "i4"))


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def coord():
    return qc.Coordinator()


@pytest.fixture
def lines(tmp_path):
    """Return a function that writes lines to a file, and returns its name."""

    def write(*content, name="lines"):
        path = tmp_path / name
        path.write_bytes(b"".join(line + b"\n" for line in content))
        return str(path)

    return write


def run(queue, program, count=1, runner=qc.QueueRunner):
    """Run a program to its end in so many threads; return the elements, and the error at the end."""
    coord = qc.Coordinator()
    threads = runner(queue, [program] * count).create_threads(coord, start=True)
    items, error = drain(queue)
    with contextlib.suppress(Exception, KeyboardInterrupt, SystemExit):
        coord.join(threads)
    return items, error.__cause__


def raw(dtype=np.uint8):
    return qc.ops.decode_raw(out_type=dtype)


# Python: what it gets and gives


def test_a_function_gets_bytes_and_gives_an_array(lines):
    queue = qc.FIFOQueue(10, [np.int64], [(2,)])
    program = qc.StageProgram(qc.TextLineReader(), [lines(b"1 2", b"3 4")], lambda line: np.array(line.split(), int))
    assert program.outputs is None
    items, cause = run(queue, program)
    assert [item.tolist() for item in items] == [[1, 2], [3, 4]]
    assert cause is None
    assert counts_of(program) == {"records": 2, "skipped": 0, "skipped_files": 0, "skipped_bytes": 0}


@pytest.mark.parametrize(
    ("queue", "made", "expected"),
    [
        (lambda: qc.FIFOQueue(9, [np.float32], [()]), 1.5, 1.5),
        (lambda: qc.FIFOQueue(9, [bytes], [()]), b"abc", b"abc"),
        (lambda: qc.FIFOQueue(9, [str], [()]), "ä", "ä"),
        (lambda: qc.FIFOQueue(9, [object], [()]), {"any": "thing"}.items(), {"any": "thing"}.items()),
        (lambda: qc.FIFOQueue(9, [int, bytes], [(), ()]), (7, b"x"), [7, b"x"]),
        (lambda: qc.FIFOQueue(9, [int, bytes], [(), ()]), [7, b"x"], [7, b"x"]),
        (
            lambda: qc.FIFOQueue(9, [int, bytes], [(), ()], names=["n", "b"]),
            {"b": b"x", "n": 7},
            {"n": 7, "b": b"x"},
        ),
        (lambda: qc.PaddingFIFOQueue(9, [int], [(None,)]), np.arange(3), [0, 1, 2]),
        (lambda: qc.FIFOQueue(9, [bytes], [(2,)]), np.array([b"a", b"bcd"], object), [b"a", b"bcd"]),
        (lambda: qc.PriorityQueue(9, [bytes], [()]), (3, b"x"), [3, b"x"]),
        (lambda: qc.RandomShuffleQueue(9, 0, [np.int8], [(2,)]), np.ones((2, 2), np.int8)[:, 0], [1, 1]),
    ],
)
def test_what_can_be_enqueued(lines, queue, made, expected):
    items, cause = run(queue(), qc.StageProgram(qc.TextLineReader(), [lines(b"")], lambda line: made))
    assert cause is None
    assert [item.tolist() if isinstance(item, np.ndarray) else item for item in items] == [expected]


def test_components_are_arguments(tmp_path):
    record = np.dtype([("label", "u1"), ("image", ">i2", (2, 3))])
    rows = np.frombuffer(np.random.default_rng(0).bytes(5 * record.itemsize), record)
    (tmp_path / "a").write_bytes(rows.tobytes())
    pairs = []

    def check(label, image):
        pairs.append((label, image))
        return {"image": image, "label": label}

    queue = qc.FIFOQueue(9, [np.int16, np.uint8], [(2, 3), ()], names=["image", "label"])
    program = qc.StageProgram(qc.FixedLengthRecordReader(record.itemsize), [tmp_path / "a"], raw(record), check)
    items, cause = run(queue, program)
    assert cause is None
    for row, item, (label, image) in zip(rows, items, pairs, strict=True):
        # What it got is still what it was, though the reader's memory has been used again, and is its own.
        assert label.shape == () and label.dtype == U8 and image.dtype == np.int16
        np.testing.assert_array_equal(image, row["image"])
        np.testing.assert_array_equal(item["image"], row["image"])
        assert label == item["label"] == row["label"]
        assert image.flags.writeable and image.base is None


def test_strings_are_an_array_of_objects(lines):
    queue = qc.FIFOQueue(9, [object], [()])
    split = qc.ops.python(lambda line: np.array(line.split(), object), outputs=[(bytes, (None,))])
    program = qc.StageProgram(
        qc.TextLineReader(), [lines(b"a bc", b"", b"\xff")], split, lambda words: [tuple(words.tolist())]
    )
    assert run(queue, program)[0] == [(b"a", b"bc"), (), (b"\xff",)]


def test_values_that_are_kept_stay(tmp_path):
    """Also from the reader's blocks, which are used again and again."""
    (tmp_path / "a").write_bytes(np.arange(200_000, dtype=np.int32).tobytes())
    rows = []

    def keep(row):
        rows.append(row)
        return row.sum()

    queue = qc.FIFOQueue(-1, [np.int64], [()])
    items, _ = run(queue, qc.StageProgram(qc.FixedLengthRecordReader(4000), [tmp_path / "a"], raw(np.int32), keep))
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(200_000))
    assert items == [row.sum() for row in rows]


def test_one_array_returned_again_and_again(lines):
    scratch = np.empty(1, np.uint8)

    def fill(line):
        scratch[0] = line[0]
        return scratch

    items, _ = run(
        qc.FIFOQueue(9, [np.uint8], [(1,)]), qc.StageProgram(qc.TextLineReader(), [lines(b"a", b"b", b"c")], fill)
    )
    assert np.concatenate(items).tobytes() == b"abc"


@pytest.mark.parametrize("count", [1, 4])
def test_mixed_chains(tmp_path, count):
    """Native, Python, Python, native, Python, native."""
    rows = np.random.default_rng(0).integers(0, 100, (300, 4)).astype(np.int16)
    (tmp_path / "a").write_bytes(rows.tobytes())

    def split(row):
        return row[:1], row[1:]

    program = qc.StageProgram(
        qc.FixedLengthRecordReader(8),
        [tmp_path / "a"],
        raw(np.int16),
        split,
        qc.ops.python(lambda head, tail: (head * 2, tail.astype(float)), outputs=[(np.int16, (1,)), (F8, (3,))]),
        qc.ops.on(1, qc.ops.scale(a=0.5), qc.ops.cast(dtype=np.float32)),
        qc.ops.python(lambda head, tail: {"b": tail[::-1], "a": head}, outputs={"a": (I4, (1,)), "b": (F4, (3,))}),
        qc.ops.on("a", qc.ops.cast(dtype=np.uint8)),
    )
    assert [(one.name, one.dtype, one.shape) for one in program.outputs] == [("a", U8, (1,)), ("b", F4, (3,))]
    queue = qc.FIFOQueue(9, [np.float32, np.uint8], [(3,), (1,)], names=["b", "a"])
    items, cause = run(queue, program, count)
    assert cause is None
    made = [(item["a"].tolist(), item["b"].tolist()) for item in items]
    expected = [([2 * row[0]], (row[:0:-1] / 2).tolist()) for row in rows.astype(int)]
    assert made == expected if count == 1 else sorted(made) == sorted(expected)


def test_bytes_for_a_native_step(lines):
    """A string, of a length that differs, made in Python; and strings, for a step that takes a batch."""
    program = qc.StageProgram(
        qc.TextLineReader(),
        [lines(b"ab", b"abc")],
        qc.ops.python(lambda line: line * 2, outputs=[(bytes, ())]),
        raw(),
    )
    items, _ = run(qc.FIFOQueue(9, [np.uint8]), program)
    assert [item.tobytes() for item in items] == [b"abab", b"abcabc"]
    program = qc.StageProgram(
        qc.TextLineReader(),
        [lines(b"ab cd", b"ef gh")],
        qc.ops.python(lambda line: line.split(), outputs=[(bytes, ())] * 2),
        qc.ops.python(lambda one, two: np.array([one, two], object), outputs=[(bytes, (2,))]),
        raw(),
    )
    items, _ = run(qc.FIFOQueue(9, [np.uint8], [(2, 2)]), program)
    assert [item.tobytes() for item in items] == [b"abcd", b"efgh"]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_components_come_through(tmp_path_factory, data):
    """What Python makes reaches Python again unchanged, with a native step between."""
    dtypes = st.sampled_from([np.dtype(code) for code in ("?", "u1", "i2", "f4", "f8", "c16")])
    shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
    kinds = data.draw(st.lists(st.tuples(dtypes | st.just(BYTES), shapes), min_size=1, max_size=4))
    components = []
    for dtype, shape in kinds:
        if dtype == BYTES:
            strings = np.empty(shape, object)
            for index in np.ndindex(shape):
                strings[index] = data.draw(st.binary(max_size=5))
            components.append(strings if shape else strings[()])
        else:
            count = int(np.prod(shape)) * dtype.itemsize
            components.append(np.frombuffer(data.draw(st.binary(min_size=count, max_size=count)), dtype).reshape(shape))
    given_back = []
    known = data.draw(st.booleans())
    outputs = [(dtype, shape if known else None if not shape else (None,) * len(shape)) for dtype, shape in kinds]
    path = tmp_path_factory.mktemp("a") / "a"
    path.write_bytes(b"x")
    program = qc.StageProgram(
        qc.WholeFileReader(),
        [path],
        qc.ops.python(lambda _: list(components), outputs=outputs),
        qc.ops.on(0, qc.ops.python(lambda value: [value], outputs=outputs[:1])),
        lambda *values: given_back.append(values) or 0,
    )
    _, cause = run(qc.FIFOQueue(9, [int], [()]), program)
    assert cause is None
    for component, returned, (dtype, shape) in zip(components, given_back[0], kinds, strict=True):
        if dtype == BYTES and not shape:
            assert component == returned
        else:
            assert returned.shape == shape
            assert (
                component.tolist() == returned.tolist() if dtype == BYTES else component.tobytes() == returned.tobytes()
            )


def test_in_order_though_slow(lines):
    """One thread keeps the order, whatever its function does."""
    order = []

    def slow(line):
        order.append(int(line))
        if int(line) % 7 == 0:
            time.sleep(0.001)
        return int(line)

    path = lines(*(str(index).encode() for index in range(100)))
    items, _ = run(qc.FIFOQueue(3, [int], [()]), qc.StageProgram(qc.TextLineReader(), [path], slow))
    assert items == order == list(range(100))


def test_it_runs_in_the_runners_thread(lines):
    names = set()

    def note(line):
        names.add(threading.current_thread().name)
        return line

    run(qc.FIFOQueue(9, [bytes], [()], name="mine"), qc.StageProgram(qc.TextLineReader(), [lines(b"a")], note))
    assert names == {"QueueRunnerThread-mine-StageProgram"}


def test_it_may_read_from_the_same_reader(lines):
    """The reader's turn is over when the function is called."""
    reader, work = qc.TextLineReader(), [lines(b"a", b"1", b"b", b"2")]
    queue = qc.FIFOQueue(9, [bytes], [()])
    items, _ = run(queue, qc.StageProgram(reader, work, lambda line: line + reader.read(work)[1]))
    assert items == [b"a1", b"b2"]


# Python: errors


class Odd(Exception):
    pass


@pytest.mark.parametrize(
    "make", [lambda: ValueError("bad"), Odd, StopIteration, lambda: OutOfRangeError("mine"), GeneratorExit, MemoryError]
)
def test_an_exception_of_a_function(lines, make):
    error = make()  # not pytest's: its traceback would keep the reader open
    path = lines(b"a", b"bb", b"c", b"d")

    def fails(line):
        if line == b"c":
            raise error
        return line

    queue = qc.FIFOQueue(9, [bytes], [()])
    items, cause = run(queue, qc.StageProgram(qc.TextLineReader(), [path], fails))
    assert items == [b"a", b"bb"]  # what came before it
    assert type(cause) is PipelineError
    assert cause.__cause__ is error
    assert type(error).__name__ in str(cause) and "fails" in str(cause)
    assert (cause.path, cause.offset, cause.record) == (path, 5, 2)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_interrupt_in_a_function(lines, error, on_error):
    def fails(line):
        raise error

    program = qc.StageProgram(qc.TextLineReader(), [lines(b"a")], fails, on_error=on_error)
    assert run(qc.FIFOQueue(9, [bytes], [()]), program) == ([], error)


def test_the_end_of_another_queue_is_no_end_of_this_one(lines):
    """A function that takes from a closed queue fails: the end of its data is not the end of the program's."""
    other = qc.FIFOQueue(9, [int], [()])
    other.enqueue(1)
    other.close()
    items, cause = run(
        qc.FIFOQueue(9, [int], [()]),
        qc.StageProgram(qc.TextLineReader(), [lines(b"a", b"b")], lambda line: other.dequeue()),
    )
    assert items == [1]
    assert type(cause) is PipelineError and type(cause.__cause__) is OutOfRangeError


@pytest.mark.parametrize(
    ("queue", "made", "error", "words"),
    [
        (lambda: qc.FIFOQueue(9, [int], [()]), b"x", DtypeError, "expected int64"),
        (lambda: qc.FIFOQueue(9, [int], [(2,)]), np.zeros(3, int), InvalidArgumentError, r"expected shape \[2\]"),
        (lambda: qc.FIFOQueue(9, [int, int], [(), ()]), 7, InvalidArgumentError, "has 2 components, and 1"),
        (lambda: qc.FIFOQueue(9, [int], [()]), {"a": 7}, InvalidArgumentError, "has no names"),
        (lambda: qc.FIFOQueue(9, [int], [()], names=["a"]), 7, InvalidArgumentError, "an element is a dict"),
        (lambda: qc.FIFOQueue(9, [int], [()]), None, DtypeError, "expected int64"),
    ],
)
def test_what_the_queue_does_not_take(lines, queue, made, error, words):
    path = lines(b"a", b"b")
    items, cause = run(queue(), qc.StageProgram(qc.TextLineReader(), [path], lambda line: made))
    assert items == []
    assert type(cause) is error
    with pytest.raises(error, match=words):
        raise cause
    assert (cause.path, cause.offset, cause.record) == (path, 0, 0)


@pytest.mark.parametrize(
    ("outputs", "made", "error", "words"),
    [
        ([(int, ())], b"x", DtypeError, "component 0: expected int64"),
        ([(int, (2,))], np.zeros(3, int), InvalidArgumentError, r"expected shape \[2\], got \[3\]"),
        ([(int, (None,))], 7, InvalidArgumentError, r"expected shape \[\?\], got \[\]"),
        ([(int, ()), (int, ())], 7, InvalidArgumentError, "expected 2 components, got 1"),
        ({"a": (int, ())}, {"b": 7}, InvalidArgumentError, r"expected the keys \['a'\], got \['b'\]"),
        ([(int, ())], {"b": 7}, InvalidArgumentError, r"expected the keys \[None\]"),
        ({"a": (np.uint8, ())}, 256, InvalidArgumentError, "component 'a': expected integers that fit uint8"),
    ],
)
def test_what_it_said_it_would_not_make(lines, outputs, made, error, words):
    path = lines(b"a", b"b")
    dtypes = [pair[0] for pair in (outputs.values() if isinstance(outputs, dict) else outputs)]
    step = qc.ops.python(lambda line: made, outputs=outputs)
    items, cause = run(qc.FIFOQueue(9, dtypes), qc.StageProgram(qc.TextLineReader(), [path], step))
    assert items == []
    assert type(cause) is error
    with pytest.raises(error, match=words):
        raise cause
    assert (cause.path, cause.offset, cause.record) == (path, 0, 0)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (lambda: [len, raw()], "what it gets is not known"),
        (lambda: [len, len, qc.ops.on(0, raw())], "what it gets is not known"),
        (lambda: [qc.ops.on(0, qc.ops.python(len))], "what compose.python.len.. makes is not known"),
        (lambda: [qc.ops.python(len, outputs=[(int, ())]), raw()], "expected one component of bytes"),
        (lambda: [qc.ops.decode_raw], "called without input"),
        (lambda: [7], "7 is no step"),
        (lambda: [ctypes.CDLL(None).swab], "is compiled: say what it makes"),
    ],
)
def test_steps_that_do_not_fit(steps, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.StageProgram(qc.IdentityReader(), ["a"], *steps())


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ((), "must be a list"),
        ({}, "must be a list"),
        (7, "must be a list"),
        ([7], "expected .dtype, shape."),
        ((int, (2,)), "expected .dtype, shape."),
        ([(int, (-1,))], "no shape"),
        ([(int, "ab")], "no shape"),
        ([(int, (True,))], "no shape"),
        ([(object, ())], "expected booleans, numbers or bytes"),
        ([(str, ())], "expected booleans, numbers or bytes"),
        ([("no dtype", ())], "expected .dtype, shape."),
    ],
)
def test_outputs_that_cannot_be(outputs, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.ops.python(len, outputs=outputs)


def test_a_queue_that_is_not_filled_with_what_it_makes(lines):
    step = qc.ops.python(len, outputs=[(int, ())])
    with pytest.raises(DtypeError, match="expected int8, got int64"):
        qc.QueueRunner(qc.FIFOQueue(9, [np.int8], [()]), [qc.StageProgram(qc.TextLineReader(), [lines()], step)])


def test_what_cannot_be_called():
    with pytest.raises(InvalidArgumentError, match="expected a callable"):
        qc.ops.python(7)


# Python: stops


@pytest.mark.parametrize("known", [True, False])
def test_a_stop_while_the_queue_is_full(lines, coord, known):
    path = lines(b"a", b"b")
    step = qc.ops.python(lambda line: line, outputs=[(bytes, ())] if known else None)
    queue = qc.FIFOQueue(1, [bytes], [()])
    program = qc.StageProgram(qc.TextLineReader(), itertools.cycle([path]), step)
    threads = qc.QueueRunner(queue, [program] * 2, cancel_op=lambda: None).create_threads(coord, start=True)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 2)
    begun = time.monotonic()
    coord.request_stop()
    coord.join(threads)
    assert time.monotonic() - begun < AT_ONCE
    assert not queue.is_closed()
    assert queue.size() == program.stats()["records"] == 1


def test_references_are_dropped(lines, coord):
    """Objects in a queue belong to it alone; one that is on its way when everything stops goes, too."""

    class Thing:
        alive = 0

        def __init__(self):
            Thing.alive += 1

        def __del__(self):
            Thing.alive -= 1

    queue = qc.FIFOQueue(2, [object], [()])
    program = qc.StageProgram(qc.TextLineReader(), itertools.cycle([lines(b"a")]), lambda line: Thing())
    threads = qc.QueueRunner(queue, [program], cancel_op=lambda: None).create_threads(coord, start=True)
    assert soon(lambda: queue.stats()["waiting_enqueues"] == 1)
    coord.request_stop()
    coord.join(threads)
    assert soon(lambda: Thing.alive == 2)
    queue.dequeue_many(2)
    assert soon(lambda: Thing.alive == 0)


def test_the_gil_is_free_between_functions(lines, coord):
    """Threads whose function waits don't hold up each other."""
    barrier = threading.Barrier(3)
    path = lines(*[b"a"] * 30)

    def meet(line):
        barrier.wait(PATIENCE)
        return line

    program = qc.StageProgram(qc.TextLineReader(), [path], meet)
    items, cause = run(qc.FIFOQueue(3, [bytes], [()]), program, 3)
    assert cause is None
    assert len(items) == 30


# What says which


def test_the_program_says_which_steps_are_python(lines):
    program = qc.StageProgram(
        qc.TextLineReader(),
        [lines()],
        qc.ops.python(len, outputs=[(int, ())]),
        qc.ops.cast(dtype=np.float32),
        qc.ops.scale(a=2),
        qc.ops.compose(qc.ops.on(0, qc.ops.python(abs, outputs=[(F4, ())])), qc.ops.cast(dtype=np.int8)),
        max,
    )
    assert repr(program).endswith("scale(2.0, 0.0, float32), compose(on(0, python(abs)), cast(int8)), python(max))")
    assert program.explain().splitlines() == [
        "names: Python, because they come from an iterable",
        "TextLineReader(): native",
        "python(len): Python, because it is a function of Python",
        "cast(float32), scale(2.0, 0.0, float32): native",
        "on(0, python(abs)): Python, because it is a function of Python",
        "cast(int8): native",
        "python(max): Python, because it is a function of Python",
    ]


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: qc.FIFOQueue(1, [str]), "names: native"),
        (lambda: qc.FIFOQueue(1, ["S5"]), "names: native"),
        (lambda: qc.FIFOQueue(1, [object]), "names: Python, because they come from a queue of object"),
        (lambda: iter([]), "names: Python, because they come from an iterable"),
    ],
)
def test_the_program_says_where_names_come_from(work, words):
    assert qc.StageProgram(qc.IdentityReader(), work()).explain().splitlines() == [words, "IdentityReader(): native"]


# An operation that falls back


def fallback(present, python):
    def bind(components):
        if not present:
            raise UnimplementedError("no library for it is found")
        return raw().bind(components)

    return Stage("decode_it()", bind, python=python, outputs=(Component(U8, (None,)),))


def in_python(line):
    if line == b"bad":
        raise DecodeError("it is bad")
    if line == b"odd":
        raise ValueError("it is odd")
    return np.frombuffer(line, np.uint8)


@pytest.mark.parametrize("present", [True, False])
def test_an_operation_without_a_native_way(lines, present):
    program = qc.StageProgram(
        qc.TextLineReader(), [lines(b"ab", b"c")], fallback(present, in_python), qc.ops.cast(dtype=np.int16)
    )
    items, cause = run(qc.FIFOQueue(9, [np.int16]), program)
    assert cause is None
    assert [item.tolist() for item in items] == [[97, 98], [99]]
    how = "native" if present else "Python, because no library for it is found"
    assert program.explain().splitlines()[2] == f"decode_it(): {how}"


def test_its_own_errors_come_out_as_they_are(lines):
    queue = qc.FIFOQueue(9, [np.uint8])
    path = lines(b"ab", b"bad")
    items, cause = run(queue, qc.StageProgram(qc.TextLineReader(), [path], fallback(False, in_python)))
    assert len(items) == 1
    assert type(cause) is DecodeError and (cause.path, cause.record, cause.offset) == (path, 1, 3)
    queue = qc.FIFOQueue(9, [np.uint8])
    _, cause = run(queue, qc.StageProgram(qc.TextLineReader(), [lines(b"odd")], fallback(False, in_python)))
    assert type(cause) is PipelineError and str(cause.__cause__) == "it is odd"


def test_without_either_way():
    with pytest.raises(UnimplementedError, match="no library"):
        qc.StageProgram(qc.TextLineReader(), ["a"], fallback(False, None))


def test_at_once_it_falls_back_too():
    stage = qc.ops.compose(fallback(False, in_python), qc.ops.cast(dtype=np.int16))
    step = stage.bind([Component(BYTES, ())])
    assert step(b"ab")[0].tolist() == [97, 98]
    assert step.outputs == (Component(np.dtype(np.int16), (None,)),)
    with pytest.raises(DecodeError):
        step(b"bad")


def test_a_native_sequence_refuses_a_step_in_python(tmp_path):
    """Who doesn't know of steps in Python gets an error, and no crash."""
    from queuecore._core.steps.stages import SequenceStep

    step = fallback(False, in_python).bind([Component(BYTES, ())])
    with pytest.raises(UnimplementedError, match="because no library for it is found, can't be here"):
        SequenceStep([step, step])(b"ab")
    (tmp_path / "a").write_bytes(b"ab")
    for stage in (fallback(False, in_python), qc.ops.python(len)):
        with pytest.raises(UnimplementedError, match="datasets map native stages alone"):
            qc.data.FixedLengthRecordDataset([tmp_path / "a"], record_bytes=2).map(stage)


# Compiled functions

P8, PF, PD, PI = (ctypes.POINTER(kind) for kind in (ctypes.c_uint8, ctypes.c_float, ctypes.c_double, ctypes.c_int32))
N = ctypes.c_int64


@pytest.fixture
def compiled():
    return pytest.importorskip("queuecore._core.testing.steps").functions()


@pytest.fixture
def swab():
    function = ctypes.CDLL(None).swab
    function.argtypes = [P8, P8, N]
    function.restype = None
    return function


def test_a_function_of_a_library(tmp_path, swab):
    (tmp_path / "a").write_bytes(b"abcdefgh")
    program = qc.StageProgram(qc.FixedLengthRecordReader(4), [tmp_path / "a"], qc.ops.cfunc(swab, [(np.uint8, (4,))]))
    assert program.outputs == (Component(U8, (4,)),)
    assert program.explain().splitlines()[-1] == "cfunc(swab): native"
    items, cause = run(qc.FIFOQueue(9, [np.uint8], [(4,)]), program)
    assert cause is None
    assert [item.tobytes() for item in items] == [b"badc", b"fehg"]


def test_several_inputs_and_their_counts(compiled, tmp_path):
    record = np.dtype([("text", "u1", 3), ("numbers", "<f4", (2, 2))])
    rows = np.zeros(20, record)
    rows["numbers"] = np.arange(80).reshape(20, 2, 2)
    rows["text"] = np.arange(60).reshape(20, 3)
    (tmp_path / "a").write_bytes(rows.tobytes())
    sums = ctypes.CFUNCTYPE(N, P8, PF, PD, N, N)(compiled["sums"])
    program = qc.StageProgram(
        qc.FixedLengthRecordReader(record.itemsize),
        [tmp_path / "a"],
        raw(record),
        qc.ops.cfunc(sums, outputs={"sums": (float, 2)}),
        qc.ops.on("sums", qc.ops.cast(dtype=np.int32)),
    )
    items, cause = run(qc.FIFOQueue(9, [np.int32], [(2,)]), program, 2)
    assert cause is None
    expected = [[int(row["text"].sum()), int(row["numbers"].sum())] for row in rows]
    assert sorted(item.tolist() for item in items) == expected


def test_components_of_any_number(compiled):
    mirror = ctypes.CFUNCTYPE(None, *[PI] * 16)(compiled["mirror"])
    step = qc.ops.cfunc(mirror, [(I4, ())] * 8).bind([Component(I4, ())] * 8)
    made = step(*[np.array(index, I4) for index in range(8)])
    assert [int(one) for one in made] == list(range(7, -1, -1))


@pytest.mark.parametrize("void", [True, False])
def test_an_error_code(compiled, lines, void):
    pointers = [ctypes.c_void_p, ctypes.c_void_p] if void else [ctypes.c_char_p, PI]
    digit = qc.ops.cfunc(ctypes.CFUNCTYPE(ctypes.c_int32, *pointers)(compiled["first_digit"]), [(I4, ())])
    path = lines(b"7x", b"3", b"x", b"5")
    items, cause = run(qc.FIFOQueue(9, [I4], [()]), qc.StageProgram(qc.TextLineReader(), [path], digit))
    assert items == [7, 3]
    assert type(cause) is InvalidArgumentError
    assert "returned the error code -120" in str(cause)
    assert (cause.path, cause.offset, cause.record) == (path, 5, 2)


def test_it_needs_no_gil(compiled, tmp_path, coord):
    """While this thread keeps the GIL, the function is called."""
    (tmp_path / "a").write_bytes(b"4" * 20_000)
    names = qc.FIFOQueue(-1, [str])
    names.enqueue(str(tmp_path / "a"))
    names.close()
    digit = ctypes.CFUNCTYPE(ctypes.c_int32, P8, PI)(compiled["first_digit"])
    queue = qc.FIFOQueue(16, [I4], [()])
    program = qc.StageProgram(qc.FixedLengthRecordReader(1), names, qc.ops.cfunc(digit, [(I4, ())]))
    out = np.empty((), I4)
    threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    assert soon(lambda: queue.size() == 16)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        count, deadline = 0, time.monotonic() + PATIENCE
        while count < 15_000 and time.monotonic() < deadline:
            if queue.size():  # never waits, so never lets go of the GIL
                queue.dequeue(out=out)
                count += int(out) == 4
    finally:
        sys.setswitchinterval(interval)
    assert count == 15_000
    coord.request_stop()
    coord.join(threads)


def test_at_once_on_arrays(compiled):
    sums = qc.ops.cfunc(ctypes.CFUNCTYPE(N, P8, PF, PD, N, N)(compiled["sums"]), [(float, (2,))])
    step = sums.bind([Component(BYTES, ()), Component(F4, None)])
    assert step(b"ab", np.ones((3, 4), np.float32))[0].tolist() == [195, 12]
    assert step(b"", np.ones((0, 4), np.float32))[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: 7, "expected a numba @cfunc or a ctypes function"),
        (lambda f: len, "expected a numba @cfunc or a ctypes function"),
        (lambda f: np.zeros(3), "expected a numba @cfunc or a ctypes function"),
        (lambda f: ctypes.CDLL(None)["swab"], "not declared"),
        (lambda f: ctypes.CFUNCTYPE(None)(f), "not declared"),
        (lambda f: ctypes.CFUNCTYPE(None, P8)(0), "null pointer"),
        (lambda f: ctypes.CFUNCTYPE(None, P8)(lambda p: None), "give the Python function itself"),
        (lambda f: ctypes.PYFUNCTYPE(None, P8)(f), "give the Python function itself"),
        (lambda f: ctypes.CFUNCTYPE(ctypes.c_double, P8)(f), "not c_double"),
        (lambda f: ctypes.CFUNCTYPE(ctypes.c_uint32, P8)(f), "not c_uint"),
        (lambda f: ctypes.CFUNCTYPE(ctypes.c_int8, P8)(f), "not c_byte"),
        (lambda f: ctypes.CFUNCTYPE(ctypes.c_void_p, P8)(f), "not c_void_p"),
    ],
)
def test_what_is_no_compiled_function(compiled, make, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.ops.cfunc(make(compiled["sums"]), [(float, ())])


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([(float, (None,))], "no shape"),
        ([(float, None)], "no shape"),
        ([(bytes, ())], "expected booleans or numbers"),
        ([(float, (1 << 40, 1 << 10))], "no shape"),
        ([], "must be a list"),
    ],
)
def test_outputs_of_a_compiled_function(swab, outputs, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.ops.cfunc(swab, outputs)


@pytest.mark.parametrize(
    ("arguments", "inputs", "error", "words"),
    [
        ([P8], [Component(U8, ())], InvalidArgumentError, "expected 2 arguments, .* or 3 .*, got 1"),
        ([P8, PD, N, N], [Component(U8, ())], InvalidArgumentError, "got 4"),
        ([PF, PD], [Component(U8, ())], DtypeError, "argument 0: expected a pointer to uint8, got LP_c_float"),
        ([P8, PF], [Component(U8, ())], DtypeError, "argument 1: expected a pointer to float64"),
        ([PF, PD], [Component(BYTES, ())], DtypeError, "uint8, for bytes"),
        ([ctypes.c_char_p, PD], [Component(U8, ())], DtypeError, "got c_char_p"),
        ([N, PD], [Component(np.dtype("i8"), ())], DtypeError, "expected a pointer to int64"),
        ([ctypes.POINTER(P8), PD], [Component(U8, ())], DtypeError, "expected a pointer to uint8"),
        ([P8, PD, ctypes.c_int32], [Component(U8, ())], DtypeError, "argument 2: expected a 64-bit integer"),
        ([P8, PD, ctypes.c_void_p], [Component(U8, ())], DtypeError, "argument 2: expected a 64-bit integer"),
        ([P8, PD], [Component(BYTES, (3,))], InvalidArgumentError, "component 0 is more than one string"),
        ([P8, PD], [Component(BYTES, None)], InvalidArgumentError, "component 0 is more than one string"),
        ([P8] * 16 + [PD], [Component(U8, ())] * 16, InvalidArgumentError, "17 arguments; at most 16"),
    ],
)
def test_a_signature_that_does_not_fit(compiled, arguments, inputs, error, words):
    stage = qc.ops.cfunc(ctypes.CFUNCTYPE(None, *arguments)(compiled["sums"]), [(float, ())])
    with pytest.raises(error, match=words) as caught:
        stage.bind(inputs)
    assert type(caught.value) is error


@pytest.mark.parametrize("kind", [ctypes.c_bool, ctypes.c_uint8, ctypes.c_char])
def test_booleans_are_bytes(swab, kind):
    swab.argtypes = [ctypes.POINTER(kind), P8, N]
    step = qc.ops.cfunc(swab, [(bool, (2,))]).bind([Component(np.dtype(bool), (2,))])
    assert step(np.array([True, False]))[0].tolist() == [False, True]


# numba, where it is installed


@pytest.fixture(scope="module")
def numba():
    """Return numba, whose compiler has started the thread that it starts with its first function and never ends."""
    numba = pytest.importorskip("numba", reason="numba is not installed: make doors")
    numba.cfunc(numba.types.int32(numba.types.int32))(lambda value: value)
    return numba


@pytest.mark.doors
def test_a_numba_cfunc(numba, tmp_path):
    types = numba.types

    @numba.cfunc(types.int32(types.CPointer(types.uint8), types.CPointer(types.float32), types.intp))
    def normalize(given, made, count):
        if given[0] == 255:
            return 9
        for index in range(count):
            made[index] = given[index] / 2
        return 0

    (tmp_path / "a").write_bytes(bytes([1, 2, 3, 4, 255, 6]))
    with pytest.raises(InvalidArgumentError, match="is compiled"):
        qc.StageProgram(qc.FixedLengthRecordReader(2), ["a"], normalize)
    step = qc.ops.cfunc(normalize, outputs=[(np.float32, (2,))])
    assert repr(step) == "cfunc(normalize)"
    program = qc.StageProgram(qc.FixedLengthRecordReader(2), [tmp_path / "a"], step, on_error="skip")
    items, cause = run(qc.FIFOQueue(9, [np.float32], [(2,)]), program)
    assert cause is None
    assert [item.tolist() for item in items] == [[0.5, 1], [1.5, 2]]
    assert program.stats()["skipped"] == 1

    @numba.cfunc(types.void(types.CPointer(types.float64), types.CPointer(types.float32)))
    def other(given, made):
        made[0] = given[0]

    with pytest.raises(DtypeError, match="argument 0"):
        qc.StageProgram(qc.FixedLengthRecordReader(2), ["a"], qc.ops.cfunc(other, [(np.float32, ())]))


def test_a_missing_file_is_no_error_of_the_function(tmp_path):
    queue = qc.FIFOQueue(9, [bytes], [()])
    _, cause = run(queue, qc.StageProgram(qc.WholeFileReader(), [tmp_path / "missing"], bytes))
    assert type(cause) is NotFoundError
    assert os.fspath(tmp_path / "missing") == cause.path
