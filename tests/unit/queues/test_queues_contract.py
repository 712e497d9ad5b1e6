"""What the queue classes accept, refuse and return: TensorFlow's rules, and ours where they differ, row by row.

Every row runs on the slow queues too, so that no expectation here is one that nothing can meet.
"""

import contextlib
import math
import re
import threading

import numpy as np
import pytest
from helpers.process import PATIENCE, soon
from helpers.queues.queue_driver import FIFO, KINDS, PADDING, PRIORITY, SHUFFLE, implementations

import queuecore as qc
from queuecore.errors import (
    CancelledError,
    DeadlineExceededError,
    DtypeError,
    InvalidArgumentError,
    OutOfRangeError,
    QueueCoreError,
)

ALL = pytest.mark.parametrize(("module", "kind"), implementations())
ONE = pytest.mark.parametrize(("module", "kind"), implementations((FIFO,)))
FIFO_SHUFFLE = pytest.mark.parametrize(("module", "kind"), implementations((FIFO, SHUFFLE)))


def make(module, kind, capacity, dtypes, shapes=None, **options):
    """A queue of any kind with these components; a priority queue has its priority before them."""
    cls = getattr(module, kind)
    if kind == SHUFFLE:
        options.setdefault("seed", 1)
        return cls(capacity, options.pop("min_after_dequeue", 0), dtypes, shapes, **options)
    if kind == PRIORITY and options.get("names"):
        options["names"] = ["priority", *options["names"]]
    return cls(capacity, dtypes, shapes, **options)


def vals(kind, *components, key=0):
    """The components of one element, after a priority if the kind has one."""
    return [key, *components] if kind == PRIORITY else list(components)


def batch(kind, *columns):
    return [np.zeros(len(columns[0]), np.int64), *columns] if kind == PRIORITY else list(columns)


def components(kind, got):
    """The components of a result without the priority, always as a list."""
    if kind == PRIORITY:
        return list(got[1:])
    return list(got) if isinstance(got, list) else [got]


@contextlib.contextmanager
def refuses(error, *words):
    """The error's class exactly, and what its message must name, as patterns."""
    with pytest.raises(error) as caught:
        yield caught
    assert caught.type is error
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in {str(caught.value)!r}"


# ---- construction ----------------------------------------------------------------------------------------------------


@ALL
def test_zero_capacity_is_an_error(module, kind):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 0, [np.int32], [()])


@ALL
@pytest.mark.parametrize("capacity", [-1, -5])
def test_a_negative_capacity_is_unbounded(module, kind, capacity):
    q = make(module, kind, capacity, [np.int32], [()])
    for i in range(10):
        q.enqueue_many(batch(kind, np.full(100, i)), timeout=0)
    assert q.size() == 1000
    got = components(kind, q.dequeue_many(1000, timeout=0))[0]
    assert got.tolist() == [i for i in range(10) for _ in range(100)] or kind == SHUFFLE
    assert np.bincount(got).tolist() == [100] * 10


@FIFO_SHUFFLE
@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (np.float32, [np.float32]),
        ("float", [np.float64]),
        ("int32", [np.int32]),
        ([np.int8, "bool"], [np.int8, np.bool_]),
        (np.dtype("complex64"), [np.complex64]),
        ([">i4"[1:]], [np.int32]),
    ],
)
def test_dtypes(module, kind, dtypes, expected):
    assert [np.dtype(d) for d in make(module, kind, 3, dtypes).dtypes] == [np.dtype(e) for e in expected]


@ALL
def test_properties(module, kind):
    q = make(module, kind, 7, [np.float32, np.int32], [(4,), ()], names=["x", "y"])
    first = kind == PRIORITY
    assert q.capacity == 7
    assert [np.dtype(d) for d in q.dtypes] == [np.dtype(np.int64)] * first + [np.dtype(np.float32), np.dtype(np.int32)]
    assert [tuple(s) for s in q.shapes] == [()] * first + [(4,), ()]
    assert list(q.names) == ["priority"] * first + ["x", "y"]
    assert make(module, kind, 7, [np.float32], [()]).names is None


@pytest.mark.parametrize(("module", "kind"), implementations((FIFO, SHUFFLE, PADDING)))
def test_no_components(module, kind):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [], [])


@ALL
@pytest.mark.parametrize("shapes", [[()], [(), (), ()]])
def test_as_many_shapes_as_dtypes(module, kind, shapes):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [np.int32, np.int32], shapes)


@ALL
@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_as_many_names_as_dtypes(module, kind, names):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [np.int32, np.int32], [(), ()], names=names)


@pytest.mark.parametrize(("module", "kind"), implementations((FIFO, SHUFFLE, PRIORITY)))
@pytest.mark.parametrize("shape", [(None,), (2, None)])
def test_only_padding_has_unknown_dimensions(module, kind, shape):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [np.int32], [shape])


@ALL
@pytest.mark.parametrize("shape", [(-1,), (2, -3)])
def test_negative_dimensions(module, kind, shape):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [np.int32], [shape])


@FIFO_SHUFFLE
def test_a_bare_list_of_ints_is_one_shape(module, kind):
    q = make(module, kind, 3, np.int32, [2, 3])
    assert [tuple(s) for s in q.shapes] == [(2, 3)]
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [np.int32, np.int32], [2, 3])


@pytest.mark.parametrize(("module", "kind"), implementations((PADDING,)))
@pytest.mark.parametrize("shapes", [None, [2], [None], [2, 3], 3])
def test_padding_needs_a_list_of_shapes(module, kind, shapes):
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 3, [np.int32], shapes)


@pytest.mark.parametrize(("module", "kind"), implementations((SHUFFLE,)))
@pytest.mark.parametrize(
    ("capacity", "least", "fine"),
    [(3, 2, True), (3, 3, False), (3, 4, False), (3, -1, False), (-1, 99, True), (-1, -1, False)],
)
def test_min_after_dequeue(module, kind, capacity, least, fine):
    if fine:
        make(module, kind, capacity, np.int32, min_after_dequeue=least)
    else:
        with pytest.raises(InvalidArgumentError):
            make(module, kind, capacity, np.int32, min_after_dequeue=least)


@FIFO_SHUFFLE
def test_one_name_may_be_a_string(module, kind):
    q = make(module, kind, 3, np.int32, names="x")
    q.enqueue({"x": 4})
    assert q.dequeue()["x"] == 4


@ONE
@pytest.mark.parametrize("dtype", ["no such dtype", 3.5])
def test_words_that_are_no_dtype(module, kind, dtype):
    with pytest.raises(DtypeError):
        make(module, kind, 3, [dtype])


# ---- shared_name -----------------------------------------------------------------------------------------------------


@ALL
def test_one_queue_per_shared_name(module, kind):
    shared = f"{module.__name__}-{kind}"
    a = make(module, kind, 3, [np.int32], [()], shared_name=shared)
    b = make(module, kind, 3, [np.int32], [()], shared_name=shared)
    c = make(module, kind, 3, [np.int32], [()], shared_name=shared + "-other")
    d = make(module, kind, 3, [np.int32], [()], name=shared)
    a.enqueue(vals(kind, 5))
    assert (a.size(), b.size(), c.size(), d.size()) == (1, 1, 0, 0)
    assert components(kind, b.dequeue()) == [5]
    b.close()
    assert (a.is_closed(), c.is_closed(), d.is_closed()) == (True, False, False)


@ALL
def test_a_shared_queue_is_asked_for_as_it_is(module, kind):
    shared = f"{module.__name__}-{kind}-mismatch"
    queue = make(module, kind, 5, [np.int32], [()], shared_name=shared)
    other = KINDS[(KINDS.index(kind) + 1) % len(KINDS)]
    for different in (
        lambda: make(module, kind, 6, [np.int32], [()], shared_name=shared),
        lambda: make(module, kind, 5, [np.int64], [()], shared_name=shared),
        lambda: make(module, kind, 5, [np.int32, np.int32], [(), ()], shared_name=shared),
        lambda: make(module, kind, 5, [np.int32], [(2,)], shared_name=shared),
        lambda: make(module, other, 5, [np.int32], [()], shared_name=shared),
    ):
        with pytest.raises(InvalidArgumentError):
            different()
    queue.enqueue(vals(kind, 5))
    assert make(module, kind, 5, [np.int32], [()], shared_name=shared).size() == 1


# ---- values ----------------------------------------------------------------------------------------------------------

# dtype of the component, what is put in, what comes out.
ACCEPTED = [
    (np.int32, 3, 3),
    (np.int32, np.int64(3), 3),
    (np.int32, np.array(2**31 - 1), 2**31 - 1),
    (np.int8, np.uint64(127), 127),
    (np.uint8, np.int64(255), 255),
    (np.uint64, 2**64 - 1, 2**64 - 1),
    (np.int64, -(2**63), -(2**63)),
    (np.float32, 3, 3.0),
    (np.float32, 1.5, 1.5),
    (np.float64, np.float32(0.1), float(np.float32(0.1))),
    (np.float32, 0.1, float(np.float32(0.1))),
    (np.float32, np.float64(1) + 2**-24, 1.0),
    (np.float32, np.float64(1) + 2**-24 + 2**-40, 1 + 2**-23),
    (np.float32, np.float64(1e300), math.inf),
    (np.float32, -np.float64(1e-300), 0.0),
    (np.float16, np.float64(65504), 65504.0),
    (np.float16, np.float64(1e9), math.inf),
    (np.float64, np.longlong(7), 7.0),
    (np.complex64, 1.5, 1.5 + 0j),
    (np.complex64, np.complex128(0.1 + 2j), complex(np.complex64(0.1 + 2j))),
    (np.complex128, 3, 3 + 0j),
    (np.bool_, True, True),
    (np.bool_, np.bool_(False), False),
    ("S3", b"abc", b"abc"),
    ("S3", b"a", b"a"),
    ("S6", "gl\u00fcck", "gl\u00fcck".encode()),
    ("U5", "gl\u00fcck", "gl\u00fcck"),
    (bytes, b"any length", b"any length"),
    (bytes, b"", b""),
    (bytes, "gl\u00fcck", "gl\u00fcck".encode()),
    (str, "any length \u2713", "any length \u2713"),
]


def plain(value):
    """A scalar result as a Python value."""
    value = np.asarray(value, object).item() if not isinstance(value, np.ndarray) else value.item()
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("shapes", [None, [()]], ids=["unshaped", "shaped"])
@ONE
@pytest.mark.parametrize(("dtype", "value", "expected"), ACCEPTED)
def test_accepted(module, kind, dtype, value, expected, shapes):
    q = make(module, kind, 3, [dtype], shapes)
    q.enqueue(value)
    q.enqueue([value])
    q.enqueue_many([np.array([value])])
    got = [plain(q.dequeue()) for _ in range(3)]
    assert got == [expected] * 3
    assert {type(g) for g in got} == {type(expected)}


@ALL
@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"])
def test_every_numeric_dtype(module, kind, dtype):
    q = make(module, kind, 8, [dtype], [(2, 3)])
    rows = (np.arange(24).reshape(4, 2, 3) % 2 if dtype == "?" else np.arange(24).reshape(4, 2, 3)).astype(dtype)
    q.enqueue_many(batch(kind, rows))
    (first,) = components(kind, q.dequeue())
    (rest,) = components(kind, q.dequeue_many(3))
    assert (first.dtype, first.shape, rest.dtype, rest.shape) == (rows.dtype, (2, 3), rows.dtype, (3, 2, 3))
    got = sorted([first.tolist(), *rest.tolist()], key=str)
    assert got == sorted(rows.tolist(), key=str)
    if kind != SHUFFLE:
        assert np.array_equal(rest, rows[1:]) and np.array_equal(first, rows[0])


@pytest.mark.parametrize(("module", "kind"), implementations((FIFO, SHUFFLE, PADDING)))
def test_bytes_of_any_length(module, kind):
    q = make(module, kind, 9, [bytes], [()])
    texts = [b"", b"a", b"x" * 100_000, b"\xff\x00\xfe"]
    q.enqueue_many([np.array(texts, object)])
    got = list(q.dequeue_many(4))
    assert sorted(map(bytes, got)) == sorted(texts)
    # NumPy's own strings would lose these zeros.
    for text in (b"a\0", b"\0\0", b""):
        q.enqueue([text])
        assert plain(q.dequeue()) == text
    q.enqueue_many([[b"a\0", b"b\0\0"]])
    assert sorted(map(bytes, q.dequeue_many(2))) == [b"a\0", b"b\0\0"]


@pytest.mark.parametrize("shapes", [None, [()]], ids=["unshaped", "shaped"])
@ONE
def test_objects(module, kind, shapes):
    q = make(module, kind, 9, [object], shapes)
    things = [object(), None, {"a": 1}, 5, "text"]
    for thing in things:
        q.enqueue([thing])
    got = [q.dequeue() for _ in things]
    got = [g.item() if isinstance(g, np.ndarray) and g.shape == () else g for g in got]
    assert all(g is t for g, t in zip(got, things, strict=True))


# dtype of the component, what is put in, error class, and what the message must say.
REFUSED = [
    (np.int32, 1.0, DtypeError, ("int32", "float64")),
    (np.int32, np.float32(1.7), DtypeError, ("int32", "float32")),
    (np.int32, np.float64(2.0), DtypeError, ("int32", "float64")),
    (np.int32, 1j, DtypeError, ("int32", "complex128")),
    (np.float32, 1j, DtypeError, ("float32", "complex128")),
    (np.float64, np.complex64(1), DtypeError, ("float64", "complex64")),
    (np.bool_, 1, DtypeError, ("bool", "int64")),
    (np.bool_, 0.0, DtypeError, ("bool", "float64")),
    (np.int32, "3", DtypeError, ("int32",)),
    (np.float32, b"3", DtypeError, ("float32",)),
    (np.int32, None, DtypeError, ("int32",)),
    ("S3", 3, DtypeError, ()),
    (bytes, 3, DtypeError, ()),
    (str, 3.5, DtypeError, ()),
    (np.int8, 128, InvalidArgumentError, ("int8", "128")),
    (np.int8, np.int64(-129), InvalidArgumentError, ("int8", "-129")),
    (np.uint8, -1, InvalidArgumentError, ("uint8", "-1")),
    (np.int32, 2**31, InvalidArgumentError, ("int32", str(2**31))),
    (np.int64, np.uint64(2**63), InvalidArgumentError, ("int64", str(2**63))),
    (np.uint64, -1, InvalidArgumentError, ("uint64", "-1")),
]


@pytest.mark.parametrize("shapes", [None, [(), ()]], ids=["unshaped", "shaped"])
@ONE
@pytest.mark.parametrize(("dtype", "value", "error", "words"), REFUSED)
def test_refused(module, kind, dtype, value, error, words, shapes):
    # The second component is the wrong one: the message says so, and nothing of the first stays.
    q = make(module, kind, 9, [np.int16, dtype], shapes)
    with refuses(error, "component 1", *words):
        q.enqueue([7, value])
    with refuses(error, "component 1", *words):
        q.enqueue_many([np.array([7, 8]), np.array([value, value])])
    assert q.size() == 0
    with pytest.raises(DeadlineExceededError):
        q.dequeue(timeout=0)


@ONE
def test_one_value_that_does_not_fit_refuses_the_batch(module, kind):
    q = make(module, kind, 9, [np.int8])
    with refuses(InvalidArgumentError, "component 0", "128"):
        q.enqueue_many([np.array([1, 2, 128, 3])])
    assert q.size() == 0


@ALL
@pytest.mark.parametrize("wrong", [0, 1, 3])
def test_arity(module, kind, wrong):
    q = make(module, kind, 9, [np.int32, np.int32], [(), ()])
    expected = 2 + (kind == PRIORITY)
    got = len(vals(kind, *range(wrong)))
    with refuses(InvalidArgumentError, str(expected), str(got)):
        q.enqueue(vals(kind, *range(wrong)))
    with refuses(InvalidArgumentError, str(expected), str(got)):
        q.enqueue_many(vals(kind, *[[1]] * wrong, key=[1]))
    assert q.size() == 0


@pytest.mark.parametrize("shapes", [None, [(16,)]])
def test_one_array_that_is_a_list(shapes):
    # As in TensorFlow a list holds an element's components.
    q = qc.FIFOQueue(9, [np.int32], shapes)
    with pytest.raises(
        InvalidArgumentError, match=r"1 component, and 16 were given\..*numpy\.array\(values\).*\[values\]"
    ):
        q.enqueue([1] * 16)
    q.enqueue(np.array([1] * 16, np.int32))
    q.enqueue([[1] * 16])
    assert q.dequeue().tolist() == q.dequeue().tolist() == [1] * 16


@ALL
@pytest.mark.parametrize("value", [5, np.zeros(3), np.zeros((2, 1)), np.zeros((1, 2)), np.zeros(0)])
def test_shapes(module, kind, value):
    q = make(module, kind, 9, [np.int32, np.float64], [(), (2,)])
    got = np.shape(value)
    where = f"component {1 + (kind == PRIORITY)}"
    shape = r"[\(\[]" + r",? ?".join(map(str, got)) + r",?[\)\]]"
    with refuses(InvalidArgumentError, where, r"[\(\[]2,?[\)\]]", shape):
        q.enqueue(vals(kind, 1, value))
    with refuses(InvalidArgumentError, where, r"[\(\[]2,?[\)\]]", shape):
        q.enqueue_many(batch(kind, np.arange(2), np.stack([value, value])))
    assert q.size() == 0


@ALL
def test_a_named_component_is_named(module, kind):
    q = make(module, kind, 9, [np.int32, np.float64], [(), (2,)], names=["label", "image"])
    priority = {"priority": 0} if kind == PRIORITY else {}
    with refuses(InvalidArgumentError, "image"):
        q.enqueue({**priority, "label": 1, "image": np.zeros(3)})
    with refuses(DtypeError, "label"):
        q.enqueue({**priority, "label": 1.5, "image": np.zeros(2)})
    assert q.size() == 0


@ALL
def test_ragged_lists(module, kind):
    q = make(module, kind, 9, [np.int32], [(2,)])
    with pytest.raises(InvalidArgumentError):
        q.enqueue_many(batch(kind, [[1, 2], [3]]))
    assert q.size() == 0


@ALL
def test_leading_dimensions_differ(module, kind):
    q = make(module, kind, 9, [np.int32, np.int32], [(), ()])
    with refuses(InvalidArgumentError, f"component {1 + (kind == PRIORITY)}", "3", "2"):
        q.enqueue_many(batch(kind, np.arange(2), np.arange(3)))
    assert q.size() == 0


@ALL
def test_a_scalar_has_no_rows(module, kind):
    for shapes in [[()]] + [None] * (kind in (FIFO, SHUFFLE)):
        q = make(module, kind, 9, [np.int32], shapes)
        for scalar in (5, np.int32(5), np.array(5)):
            with refuses(InvalidArgumentError, f"component {int(kind == PRIORITY)}"):
                q.enqueue_many(vals(kind, scalar, key=[0]))
        # A list is one of components.
        if kind != PRIORITY:
            with pytest.raises(InvalidArgumentError):
                q.enqueue_many([0, 0])
            q.enqueue_many([[0, 0]])
            q.enqueue_many(np.array([1, 1]))
            assert q.size() == 4


@ALL
def test_names(module, kind):
    named = make(module, kind, 9, [np.int32, np.float32], [(), ()], names=["a", "b"])
    priority = {"priority": 0} if kind == PRIORITY else {}
    named.enqueue({"b": 2.5, "a": 1, **priority})
    named.enqueue_many({"b": [3.5], "a": [2], **({"priority": [1]} if priority else {})})
    for bad in (
        vals(kind, 1, 2.5),
        {**priority, "a": 1},
        {**priority, "a": 1, "b": 2.5, "c": 3},
        {**priority, "a": 1, "c": 2.5},
    ):
        with pytest.raises(InvalidArgumentError):
            named.enqueue(bad)
    with pytest.raises(InvalidArgumentError):
        make(module, kind, 9, [np.int32], [()]).enqueue({"a": 1, **priority})
    got = named.dequeue_many(2)
    assert list(got) == [*priority, "a", "b"]
    assert sorted(got["a"].tolist()) == [1, 2] and sorted(got["b"].tolist()) == [2.5, 3.5]


@ALL
def test_results(module, kind):
    # One component: the array; several: a list.
    q = make(module, kind, 9, [np.int32], [()])
    q.enqueue_many(batch(kind, np.arange(2)))
    assert isinstance(q.dequeue(), list) == isinstance(q.dequeue_many(1), list) == (kind == PRIORITY)
    q = make(module, kind, 9, [np.int32, np.int32], [(), (2,)])
    q.enqueue(vals(kind, 1, [2, 3]))
    got = q.dequeue_up_to(1)
    assert isinstance(got, list) and [g.shape for g in components(kind, got)] == [(1,), (1, 2)]


@ALL
def test_what_was_put_in_is_a_copy(module, kind):
    q = make(module, kind, 9, [np.int32], [(3,)])
    rows = np.arange(6).reshape(2, 3).astype(np.int32)
    q.enqueue_many(batch(kind, rows))
    q.enqueue(vals(kind, rows[0], key=9))
    rows[:] = -1
    results = [components(kind, q.dequeue())[0] for _ in range(3)]
    assert sorted(g.tolist() for g in results) == [[0, 1, 2], [0, 1, 2], [3, 4, 5]]
    # And what came out stays when the queue goes on.
    kept = [g.copy() for g in results]
    for _ in range(9):
        q.enqueue(vals(kind, [7, 7, 7]))
    assert all(np.array_equal(a, b) for a, b in zip(results, kept, strict=True))


@ALL
def test_arrays_of_any_layout(module, kind):
    q = make(module, kind, 9, [np.int32], [(2, 3)])
    rows = np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(2, 0, 1)
    for r in (rows, rows[::-1], rows.astype(">i4"), rows.astype(np.int64)[:, ::-1]):
        q.enqueue_many(batch(kind, r))
        got = components(kind, q.dequeue_many(4))[0]
        assert sorted(got.tolist()) == sorted(r.tolist()) and got.dtype == np.int32


@FIFO_SHUFFLE
def test_varying_shapes(module, kind):
    q = make(module, kind, 9, [np.int32])
    shapes = [(), (3,), (2, 2), (0,), (1, 0, 3)]
    for shape in shapes:
        q.enqueue([np.ones(shape, np.int32)])
    q.enqueue_many([np.ones((2, 5), np.int32)])
    assert sorted(np.shape(q.dequeue()) for _ in range(7)) == sorted([*shapes, (5,), (5,)])
    for gather in (q.dequeue_many, q.dequeue_up_to):
        for n in (0, 1):
            with refuses(InvalidArgumentError, "shape"):
                gather(n)


# ---- boundary cases --------------------------------------------------------------------------------------------------


@ALL
def test_batches_of_no_rows(module, kind):
    q = make(module, kind, 1, [np.int32, np.float32], [(), (2,)])
    empty = batch(kind, np.zeros(0, np.int32), np.zeros((0, 2), np.float32))

    def both():
        q.enqueue_many(empty, timeout=0)
        for gather in (q.dequeue_many, q.dequeue_up_to):
            a, b = components(kind, gather(0, timeout=0))
            assert (a.shape, a.dtype, b.shape, b.dtype) == ((0,), np.int32, (0, 2), np.float32)

    both()
    q.enqueue(vals(kind, 1, [2, 3]))
    both()
    q.close()
    both()
    q.dequeue()
    both()


@ALL
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_rows_of_width_nought(module, kind, shape):
    q = make(module, kind, 4, [np.int32, np.float32], [(), shape])
    q.enqueue(vals(kind, 1, np.zeros(shape)))
    q.enqueue_many(batch(kind, np.arange(2), np.zeros((2, *shape))))
    a, b = components(kind, q.dequeue_many(2))
    assert (a.shape, b.shape, b.dtype) == ((2,), (2, *shape), np.float32)
    assert components(kind, q.dequeue())[1].shape == shape


@ALL
def test_negative_counts(module, kind):
    q = make(module, kind, 4, [np.int32], [()])
    for gather in (q.dequeue_many, q.dequeue_up_to):
        with refuses(InvalidArgumentError, "-1"):
            gather(-1)


@ALL
@pytest.mark.parametrize("n", [1.0, "1", None, [1]])
def test_counts_that_are_none(module, kind, n):
    q = make(module, kind, 4, [np.int32], [()])
    q.enqueue(vals(kind, 1))
    for gather in (q.dequeue_many, q.dequeue_up_to):
        with pytest.raises((InvalidArgumentError, TypeError)):
            gather(n)
    assert q.size() == 1
    q.dequeue_many(np.int64(1))


@ALL
def test_a_try_takes_and_loses_nothing(module, kind):
    q = make(module, kind, 4, [np.int32], [()])
    with pytest.raises(DeadlineExceededError):
        q.dequeue(timeout=0)
    q.enqueue_many(batch(kind, np.arange(3)))
    for gather in (q.dequeue_many, q.dequeue_up_to):
        with pytest.raises(DeadlineExceededError):
            gather(4, timeout=0)
        with pytest.raises(TimeoutError):
            gather(4, timeout=0.01)
        assert q.size() == 3
    q.enqueue(vals(kind, 3), timeout=0)
    for timeout in (0, 0.01):
        with pytest.raises(DeadlineExceededError):
            q.enqueue(vals(kind, 4), timeout=timeout)
    assert sorted(components(kind, q.dequeue_many(4, timeout=0))[0].tolist()) == [0, 1, 2, 3]


@ALL
def test_timeout_is_keyword_only(module, kind):
    q = make(module, kind, 4, [np.int32], [()])
    with pytest.raises(TypeError):
        q.enqueue(vals(kind, 1), 0)
    with pytest.raises(TypeError):
        q.dequeue(0)


@pytest.mark.parametrize(("module", "kind"), implementations((PRIORITY,)))
def test_a_priority_queue_is_never_asked_for_more_than_it_holds(module, kind):
    q = make(module, kind, 3, [np.int32], [()])
    with refuses(InvalidArgumentError, "4", "3"):
        q.dequeue_many(4)
    make(module, kind, -1, [np.int32], [()]).dequeue_many(0)
    q.enqueue_many([[3, 1, 2], [0, 1, 2]])
    q.close()
    keys, values = q.dequeue_up_to(5)
    assert (keys.tolist(), values.tolist()) == ([1, 2, 3], [1, 2, 0])


# ---- close -----------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("cancel", [False, True])
def test_after_a_close(module, kind, cancel):
    q = make(module, kind, 9, [np.int32], [()])
    q.enqueue_many(batch(kind, np.arange(5)))
    assert not q.is_closed()
    q.close(cancel)
    assert q.is_closed()
    # Twice is no error.
    q.close(cancel)
    q.close(not cancel)
    for put in (lambda: q.enqueue(vals(kind, 1)), lambda: q.enqueue_many(batch(kind, np.arange(2)))):
        with refuses(CancelledError, "closed"):
            put()
    q.dequeue()
    with refuses(OutOfRangeError, "closed", "5", "4"):
        q.dequeue_many(5)
    assert q.size() == 4
    q.dequeue_many(2)
    assert len(components(kind, q.dequeue_up_to(9))[0]) == 2
    for get in (q.dequeue, lambda: q.dequeue_many(1), lambda: q.dequeue_up_to(1)):
        with refuses(OutOfRangeError, "closed", "1", "0") as caught:
            get()
        assert caught.value.__cause__ is None
    assert q.is_closed()


@pytest.mark.parametrize(("module", "kind"), implementations((SHUFFLE,)))
def test_a_closed_shuffle_gives_all(module, kind):
    q = make(module, kind, 9, [np.int32], [()], min_after_dequeue=3)
    q.enqueue_many([np.arange(4)])
    q.dequeue(timeout=0)
    with pytest.raises(DeadlineExceededError):
        q.dequeue(timeout=0)
    q.close()
    assert len(q.dequeue_many(3, timeout=0)) == 3


@ALL
def test_iteration_ends_at_close(module, kind):
    q = make(module, kind, 9, [np.int32], [()])
    q.enqueue_many(batch(kind, np.arange(5)))
    got = []
    for element in q:
        got.append(int(components(kind, element)[0]))
        if len(got) == 3:
            q.close()
    assert sorted(got) == [0, 1, 2, 3, 4]
    assert list(q) == []


@ALL
def test_a_failed_queue_tells_why(module, kind):
    q = make(module, kind, 1, [np.int32], [()])
    cause = ValueError("the disk is on fire")
    waits = []

    def wait():
        with pytest.raises(CancelledError) as caught:
            q.enqueue(vals(kind, 2))
        waits.append(caught.value.__cause__)

    q.enqueue(vals(kind, 1))
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert soon(lambda: q.stats()["waiting_enqueues"] == 1, within=PATIENCE)
    q._fail(cause)
    thread.join(PATIENCE)
    assert waits == [cause]
    # What was in comes out first.
    assert q.is_closed() and components(kind, q.dequeue()) == [1]
    for get in (q.dequeue, lambda: q.dequeue_many(1), lambda: q.dequeue_up_to(1), lambda: list(q)):
        with pytest.raises(OutOfRangeError) as caught:
            get()
        assert caught.value.__cause__ is cause
    with pytest.raises(CancelledError) as caught:
        q.enqueue(vals(kind, 1))
    assert caught.value.__cause__ is cause
    # The first failure stays.
    q._fail(KeyError("later"))
    with pytest.raises(OutOfRangeError) as caught:
        q.dequeue()
    assert caught.value.__cause__ is cause


@ALL
def test_a_failure_reaches_those_who_wait(module, kind):
    q = make(module, kind, 4, [np.int32], [()])
    cause, waits = ValueError("no more"), []

    def wait():
        with pytest.raises(OutOfRangeError) as caught:
            q.dequeue_many(2)
        waits.append(caught.value.__cause__)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert soon(lambda: q.stats()["waiting_dequeues"] == 1, within=PATIENCE)
    q._fail(cause)
    thread.join(PATIENCE)
    assert waits == [cause]


@ALL
def test_every_error_is_ours(module, kind):
    q = make(module, kind, 1, [np.int32], [()])
    q.close()
    for call in (q.dequeue, lambda: q.enqueue(vals(kind, 1)), lambda: q.dequeue_many(-1), lambda: q.enqueue([])):
        with pytest.raises(QueueCoreError):
            call()


# ---- out= ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "kind"), implementations((FIFO, SHUFFLE)))
def test_out(module, kind):
    q = make(module, kind, 9, [np.int32], [(2,)])
    q.enqueue_many([np.arange(12).reshape(6, 2)])
    one, many, up_to = np.zeros(2, np.int32), np.zeros((2, 2), np.int32), np.full((5, 2), -1, np.int32)
    q.dequeue(out=one)
    q.dequeue_many(2, out=many)
    q.close()
    got = q.dequeue_up_to(5, out=up_to)
    assert sorted([one.tolist(), *many.tolist(), *up_to[:3].tolist()]) == [[2 * i, 2 * i + 1] for i in range(6)]
    assert got.shape == (3, 2) and np.array_equal(got, up_to[:3])
    assert (up_to[3:] == -1).all()


@ONE
def test_out_of_several_components(module, kind):
    q = make(module, kind, 9, [np.int32, np.float32], [(), (2,)])
    q.enqueue_many([np.arange(3), np.ones((3, 2))])
    outs = [np.zeros(2, np.int32), np.zeros((2, 2), np.float32)]
    q.dequeue_many(2, out=outs)
    assert outs[0].tolist() == [0, 1] and outs[1].sum() == 4
    q = make(module, kind, 9, [np.int32, np.float32], [(), (2,)], names=["a", "b"])
    q.enqueue_many({"a": np.arange(3), "b": np.ones((3, 2))})
    named = {"b": np.zeros((2, 2), np.float32), "a": np.zeros(2, np.int32)}
    q.dequeue_many(2, out=named)
    assert named["a"].tolist() == [0, 1] and named["b"].sum() == 4


@ONE
@pytest.mark.parametrize("out", [np.zeros((2, 3), np.int32), np.zeros((3, 2), np.int32), np.zeros((2, 2), np.float32)])
def test_an_out_that_does_not_fit(module, kind, out):
    q = make(module, kind, 9, [np.int32], [(2,)])
    q.enqueue_many([np.arange(4).reshape(2, 2)])
    with pytest.raises(InvalidArgumentError):
        q.dequeue_many(2, out=out)
    assert q.size() == 2
    assert q.dequeue_many(2).tolist() == [[0, 1], [2, 3]]


# ---- kinds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "kind"), implementations((SHUFFLE,)))
@pytest.mark.parametrize(("seed", "order"), [(1, [7, 8, 1, 3, 9, 4, 2, 6, 5, 0]), (2, [1, 3, 6, 0, 8, 7, 9, 2, 4, 5])])
def test_tensorflows_order_for_a_seed(module, kind, seed, order):
    for gather in (lambda q: q.dequeue_many(10).tolist(), lambda q: [int(q.dequeue()) for _ in range(10)]):
        q = make(module, kind, 10, [np.int32], [()], seed=seed)
        q.enqueue_many([np.arange(10)])
        assert gather(q) == order


@pytest.mark.parametrize(("module", "kind"), implementations((SHUFFLE,)))
def test_without_a_seed_orders_differ(module, kind):
    orders = set()
    for _ in range(5):
        q = make(module, kind, 20, [np.int32], [()], seed=None)
        q.enqueue_many([np.arange(20)])
        orders.add(tuple(q.dequeue_many(20).tolist()))
    assert len(orders) > 1


@pytest.mark.parametrize(("module", "kind"), implementations((PADDING,)))
def test_padding(module, kind):
    q = make(module, kind, 9, [np.int32, bytes, np.bool_], [(None, 2, None), (None,), (None,)])
    sizes = [(1, 3), (2, 1), (0, 0)]
    for a, b in sizes:
        q.enqueue([np.ones((a, 2, b), np.int32), np.array([b"x"] * a, object), np.ones(b, bool)])
    x, y, z = q.dequeue_many(3)
    assert (x.shape, np.shape(y), z.shape) == ((3, 2, 2, 3), (3, 2), (3, 3))
    assert x.sum(axis=(1, 2, 3)).tolist() == [6, 4, 0] and (x[0, 0] == 1).all() and (x[0, 1] == 0).all()
    assert [list(map(bytes, row)) for row in y] == [[b"x", b""], [b"x", b"x"], [b"", b""]]
    assert z.tolist() == [[True] * 3, [True, False, False], [False] * 3]
    # Alone an element keeps its shape.
    q.enqueue([np.ones((4, 2, 1), np.int32), np.array([b"a"], object), np.ones(0, bool)])
    assert [np.shape(c) for c in q.dequeue()] == [(4, 2, 1), (1,), (0,)]
    assert [np.shape(c) for c in q.dequeue_many(0)] == [(0, 0, 2, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize(("module", "kind"), implementations((PADDING,)))
def test_padding_only_what_is_unknown(module, kind):
    q = make(module, kind, 9, [np.int32], [(None, 2)])
    for wrong in (np.zeros(2, np.int32), np.zeros((2, 3), np.int32), np.zeros((1, 2, 2), np.int32), 5):
        with refuses(InvalidArgumentError, "component 0"):
            q.enqueue([wrong])
    with refuses(InvalidArgumentError, "component 0"):
        q.enqueue_many([np.zeros((4, 2), np.int32)])
    assert q.size() == 0
    q.enqueue_many([np.ones((2, 5, 2), np.int32)])
    q.enqueue([np.ones((1, 2), np.int32)])
    assert q.dequeue_many(2).shape == (2, 5, 2)
    assert q.dequeue().shape == (1, 2)


@pytest.mark.parametrize(("module", "kind"), implementations((PADDING,)))
def test_padding_of_many_dimensions(module, kind):
    # TensorFlow pads up to four dimensions and refuses more at dequeue_many; what is known may have any number.
    for shape in ((None, 1, 1, None), (2, 1, 1, 1, 1, 1)):
        q = make(module, kind, 9, [np.int32], [shape])
        full = tuple(2 if n is None else n for n in shape)
        q.enqueue([np.ones(full, np.int32)])
        q.enqueue([np.ones(tuple(1 if n is None else n for n in shape), np.int32)])
        assert q.dequeue_many(2).shape == (2, *full)


@pytest.mark.parametrize(("module", "kind"), implementations((PRIORITY,)))
def test_priorities(module, kind):
    q = make(module, kind, 99, [bytes, np.float32], [(), (2,)])
    keys = [5, -(2**63), 2**63 - 1, 0, -1, 5, 5, 0, 5, 5]
    for i, key in enumerate(keys):
        q.enqueue([key, str(i).encode(), [i, -i]])
    got, texts, pairs = q.dequeue_many(len(keys))
    assert got.dtype == np.int64 and got.tolist() == sorted(keys)
    # Equals come in the order in which they were put; the components of an element stay together.
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    assert list(map(bytes, texts)) == [str(i).encode() for i in order]
    assert pairs.tolist() == [[i, -i] for i in order]


@pytest.mark.parametrize(("module", "kind"), implementations((PRIORITY,)))
def test_priorities_that_are_none(module, kind):
    q = make(module, kind, 9, [np.int32], [()])
    for bad in (1.5, np.float64(1), "1", [1], 2**63, None):
        with pytest.raises(InvalidArgumentError):
            q.enqueue([bad, 1])
    with pytest.raises(InvalidArgumentError):
        q.enqueue_many([[[1]], [1]])
    assert q.size() == 0
    q.enqueue([np.int32(4), 1])
    assert int(q.dequeue()[0]) == 4


# ---- from_list -------------------------------------------------------------------------------------------------------


@ALL
def test_from_list(module, kind):
    queues = [make(module, kind, 9, [np.int32], [()]) for _ in range(3)]
    for i, q in enumerate(queues):
        q.enqueue(vals(kind, i))
    cls = getattr(module, kind)
    for i in (2, 0, np.int64(1)):
        assert components(kind, cls.from_list(i, queues).dequeue()) == [i]
    assert [q.size() for q in queues] == [0, 0, 0]
    for i in (-1, 3):
        with pytest.raises(InvalidArgumentError):
            cls.from_list(i, queues)
    other_dtype = make(module, kind, 9, [np.int64], [()])
    other_names = make(module, kind, 9, [np.int32], [()], names=["x"])
    for bad in ([], tuple(queues), queues[0], [queues[0], 5], [queues[0], other_dtype], [queues[0], other_names]):
        with pytest.raises(TypeError):
            cls.from_list(0, bad)


# ---- stats -----------------------------------------------------------------------------------------------------------


@ALL
def test_stats_tell_who_waits(module, kind):
    q = make(module, kind, 1, [np.int32], [()])
    stats = q.stats()
    assert (stats["waiting_enqueues"], stats["waiting_dequeues"]) == (0, 0)
    threads = [threading.Thread(target=q.enqueue, args=(vals(kind, i),), daemon=True) for i in range(3)]
    # A close that has to wait stands in the line of enqueues.
    threads.append(threading.Thread(target=q.close, daemon=True))
    for i, thread in enumerate(threads):
        thread.start()
        assert soon(lambda i=i: q.size() == 1 and q.stats()["waiting_enqueues"] == i, within=PATIENCE)
    assert not q.is_closed()
    assert len(components(kind, q.dequeue_up_to(1))[0]) == 1
    assert [len(list(q))] == [2]
    for thread in threads:
        thread.join(PATIENCE)
    assert q.is_closed() and q.stats()["waiting_enqueues"] == 0


@ALL
def test_repr_tells_kind_depth_and_state(module, kind):
    if module.__name__ != "queuecore":
        pytest.skip("the slow queues have no such text")
    q = make(module, kind, 7, [np.int32], [()])
    q.enqueue_many(batch(kind, np.arange(5)))
    open_text = repr(q)
    assert kind in open_text and "5" in open_text and "7" in open_text
    q.close()
    assert repr(q) != open_text and "closed" in repr(q)


# ---- strings of any length -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "kind"), [(qc, FIFO), (qc, SHUFFLE), (qc, PRIORITY)])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (bytes, [b"", b"a\0b\0", b"\xff" * 70_000]),
        (str, ["", "a\0b\0", "\ud800 \U0001f600", "ä" * 70_000]),
    ],
)
def test_strings_come_out_as_they_went_in(module, kind, dtype, values):
    q = make(module, kind, 10, [dtype], None)
    arrays = [np.array(values, object), np.array([values, values], object), np.empty((0, 3), object)]
    for i, value in enumerate([*values, *arrays]):
        q.enqueue(vals(kind, value, key=i))
    q.close()
    got = [components(kind, element)[0] for element in q]
    if kind == SHUFFLE:
        assert len(got) == len(values) + 3
        return
    assert got[: len(values)] == values and all(type(one) is dtype for one in got[: len(values)])
    for one, array in zip(got[len(values) :], arrays, strict=True):
        assert one.dtype == object and one.shape == array.shape
        assert one.tolist() == array.tolist()


def test_a_slot_is_reused_for_shorter_strings():
    q = qc.FIFOQueue(1, [bytes, str])
    for text in ("x" * 1000, "", "yz"):
        q.enqueue([text.encode(), text])
        assert q.dequeue() == [text.encode(), text]


def test_more_dimensions_than_there_is_room_for():
    q = qc.FIFOQueue(1, [np.int32])
    q.enqueue(np.zeros([1] * 32, np.int32))
    assert q.dequeue().shape == (1,) * 32
    with pytest.raises(InvalidArgumentError, match="40 dimensions; at most 32"):
        q.enqueue(np.zeros([1] * 40, np.int32))
    strings = qc.FIFOQueue(1, [str])
    with pytest.raises(InvalidArgumentError, match="40 dimensions; at most 32"):
        strings.enqueue(np.full([1] * 40, "a", object))
